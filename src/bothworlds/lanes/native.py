"""Width of vectors that suits the processor; results do not depend on it.

A vector of repetitions takes two registers: their independent chains hide latency, and more would
not fit the sixteen registers of AVX2.  So it has 16 lanes with AVX-512, 8 with AVX and 4 elsewhere,
and a tile of 16 repetitions is one, two or four of them.  A program whose rounds have few numbers
may ask for more registers.
"""

import functools

import llvmlite.binding as llvm
from numba.core.registry import cpu_target

from bothworlds.lanes.types import LANES

REGISTERS = 2
"""Registers that a vector takes unless a program asks for more."""

_PROBE = """
define <16 x double> @probe(<16 x double> %a, <16 x double> %b) {
  %c = fadd <16 x double> %a, %b
  ret <16 x double> %c
}
"""


def lanes(registers: int = REGISTERS) -> int:
    """Return how many repetitions a vector holds on the processor that Numba compiles for."""
    return min(registers * in_register(), LANES)


@functools.cache
def in_register() -> int:
    """Return how many repetitions a register of that processor holds.

    It is this machine's, or the one that NUMBA_CPU_NAME and NUMBA_CPU_FEATURES name. A name
    alone implies features that Numba does not list, so LLVM is asked which registers it takes.
    """
    triple, name, features = cpu_target.target_context.codegen().magic_tuple()
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=name, features=features)
    code = machine.emit_assembly(llvm.parse_assembly(_PROBE))
    return 8 if "zmm" in code else 4 if "ymm" in code else 2
