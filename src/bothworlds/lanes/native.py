"""Width of vectors that suits the processor; results do not depend on it.

A vector of repetitions takes two registers: their independent chains hide latency, and more would
not fit the sixteen registers of AVX2.  So it has 16 lanes with AVX-512, 8 with AVX and 4 elsewhere,
and a tile of 16 repetitions is one, two or four of them.
"""

import functools

import llvmlite.binding as llvm
from numba.core.registry import cpu_target

_PROBE = """
define <16 x double> @probe(<16 x double> %a, <16 x double> %b) {
  %c = fadd <16 x double> %a, %b
  ret <16 x double> %c
}
"""


@functools.cache
def lanes() -> int:
    """Return how many repetitions a vector holds on the processor that Numba compiles for.

    That is this machine's, or the one that NUMBA_CPU_NAME and NUMBA_CPU_FEATURES name. A name
    alone implies features that Numba does not list, so LLVM is asked which registers it takes.
    """
    triple, name, features = cpu_target.target_context.codegen().magic_tuple()
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=name, features=features)
    code = machine.emit_assembly(llvm.parse_assembly(_PROBE))
    return 16 if "zmm" in code else 8 if "ymm" in code else 4
