"""Functions a user writes in plain Python, compiled into kernels.

Never cached on disk: a user's function may depend on anything in the user's own files, which no
cache key of this package knows.
"""

from __future__ import annotations

import inspect
from typing import Any

import numba

from bothworlds.errors import InvalidParameter, must


def compiled(function: Any) -> Any:
    """Compile a plain function; one that is compiled already stays as it is."""
    if isinstance(function, numba.core.dispatcher.Dispatcher):
        return function
    return numba.njit(nogil=True, error_model="numpy")(function)


def argument_count(parameter: str, function: Any, owner: str, allowed: tuple[int, ...]) -> int:
    """Return how many arguments a function takes, if that is one of the allowed numbers."""
    plain = getattr(function, "py_func", function)
    counts = " or ".join(map(str, allowed))
    expected = f"a function of {counts} argument{'s' if allowed != (1,) else ''}"
    try:
        arguments = list(inspect.signature(plain).parameters.values())
    except (TypeError, ValueError):
        raise InvalidParameter(must(parameter, owner, expected, function)) from None
    kinds = {argument.kind for argument in arguments}
    positional = {
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    }
    if len(arguments) not in allowed or not kinds <= positional:
        raise InvalidParameter(must(parameter, owner, expected, function))
    return len(arguments)
