"""Calling compiled code from Python without type dispatch.

A call of a Numba function spends more time on finding out the types of its arguments than a
policy needs for a round.  Where the types are always the same, the machine code can be called at
once.

An array is taken apart at every call, which takes as long as a round.  An array that stays where it
is can be handed over by its address, as a float: Python gives those away three times as fast as
whole numbers, and 53 bits hold every address a process gets.
"""

import functools
from collections.abc import Callable
from ctypes import addressof, c_char
from types import MethodType
from typing import Any

import numba
import numpy as np
from numba.core import types


def direct(kernel: Any, *arguments: Any) -> Any:
    """Return the machine code of ``kernel`` for arguments of these types, compiled if need be.

    The result must only be called with such arguments. Where this version of Numba does not give
    the machine code away, the result is the kernel itself, which does the same more slowly.
    """
    given = tuple(map(_type_of, arguments))
    try:
        if given not in kernel.overloads:
            kernel.compile(given)
        return kernel.overloads[given].entry_point
    except (AttributeError, KeyError):
        return kernel


def at_hand(kernel: Any, *arguments: Any) -> bool:
    """Return whether `direct` need not compile: the code is in memory or on disk."""
    return compiled_before(kernel, tuple(map(_type_of, arguments)))


def compiled_before(kernel: Any, given: tuple[Any, ...]) -> bool:
    """Return whether the code of a kernel for these types is in memory or on disk."""
    holds = getattr(getattr(kernel, "_cache", None), "holds", None)
    return given in kernel.overloads or (holds is not None and holds(given, kernel.targetctx))


def address(array: Any) -> int:
    """Return where the numbers of an array are; the caller must keep the array meanwhile."""
    # In half the time that `array.ctypes.data` takes.
    return addressof(c_char.from_buffer(array))


def placed(code: Any, where: int) -> Callable[..., Any]:
    """Return machine code that is handed an address before its other arguments.

    Examples
    --------
    >>> numbers = np.zeros(3)
    >>> placed(float, address(numbers))() == address(numbers)
    True
    """
    # A bound method hands on its first argument in a tenth of the time a partial does.
    return MethodType(code, float(where))


def _type_of(argument: Any) -> Any:
    """Return Numba's type of a value."""
    if type(argument) is np.ndarray:
        flags = argument.flags
        if flags.c_contiguous and flags.writeable and flags.aligned:
            return _array_type(argument.dtype, argument.ndim)
    return numba.typeof(argument)


@functools.cache
def _array_type(dtype: Any, ndim: int) -> Any:
    """Return Numba's type of an array, as `typeof` has it, which imports masked arrays as well."""
    return types.Array(numba.from_dtype(dtype), ndim, "C")
