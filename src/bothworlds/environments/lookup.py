"""Table lookup in kernels: each lane at its own place, and phases of time."""

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.extending import intrinsic
from numba.core.typing.templates import signature

from bothworlds.lanes.jit import jit
from bothworlds.lanes.types import is_wide, number_like


@intrinsic
def lookup(typingctx: Any, table: Any, base: Any, index: Any) -> Any:
    """Read element ``base + index`` of a shared table of numbers, each lane its own index."""
    ty = number_like(index)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        start = context.cast(builder, args[1], sig.args[1], types.int64)
        data = builder.gep(args[0], [start])
        if not is_wide(ty):
            return builder.load(builder.gep(data, [args[2]]))
        value = ir.Constant(ty.vector, ir.Undefined)
        for lane in range(ty.lanes):
            at = ir.Constant(ir.IntType(32), lane)
            place = builder.gep(data, [builder.extract_element(args[2], at)])
            value = builder.insert_element(value, builder.load(place), at)
        return value

    return signature(ty, table, base, index), codegen


@jit
def phase_of(t: int, C: Any, base: int, count: int) -> int:
    """Return how many of the ``count`` increasing first rounds from C[base] on are <= t."""
    low = 0
    high = count
    while low < high:
        middle = (low + high) // 2
        if C[base + middle] <= t:
            low = middle + 1
        else:
            high = middle
    return low
