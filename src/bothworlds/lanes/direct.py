"""Calling compiled code from Python without type dispatch.

A call of a Numba function spends more time on finding out the types of its arguments than a
policy needs for a round.  Where the types are always the same, the machine code can be called at
once.
"""

from typing import Any

import numba


def direct(kernel: Any, *arguments: Any) -> Any:
    """Return the machine code of ``kernel`` for arguments of these types, compiled if need be.

    The result must only be called with such arguments. Where this version of Numba does not give
    the machine code away, the result is the kernel itself, which does the same more slowly.
    """
    types = tuple(numba.typeof(argument) for argument in arguments)
    try:
        kernel.compile(types)
        return kernel.overloads[types].entry_point
    except (AttributeError, KeyError):
        return kernel
