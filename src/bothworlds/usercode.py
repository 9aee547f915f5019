"""Functions and classes a user writes in plain Python, made into kernels, policies, environments.

Functions are never cached on disk: they may depend on anything in the user's own files, which no
cache key of this package knows.

Classes are for `bothworlds.policies.custom` and `bothworlds.environments.custom`: the annotated
parameters become the fields of a frozen dataclass, and the compiled functions find them in a
record.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections import namedtuple
from numbers import Real
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


def body_of(cls: type) -> dict[str, Any]:
    """Return what the body of a class holds, static methods as the functions they were.

    Functions that take ``self`` are refused: compiled, they would know no object.
    """
    body = {
        name: value.__func__ if isinstance(value, staticmethod) else value
        for name, value in vars(cls).items()
    }
    for name, value in body.items():
        plain = getattr(value, "py_func", value)
        if inspect.isfunction(plain) and plain.__code__.co_varnames[:1] == ("self",):
            raise InvalidParameter(must(name, cls.__name__, "a function without self", value))
    return body


def configuration(cls: type, base: type, first: dict[str, type], *, eq: bool) -> Any:
    """Return a frozen dataclass derived from ``base`` with the parameters of a user's class.

    The fields ``first`` come before them and are not in the record.
    """
    body = body_of(cls)
    annotations = inspect.get_annotations(cls)
    namespace = {
        "__doc__": cls.__doc__,
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__annotations__": {**first, **annotations},
        **{name: body[name] for name in annotations if name in body},
    }
    made: Any = dataclasses.dataclass(frozen=True, repr=False, eq=eq)(
        type(cls.__name__, (base,), namespace)
    )
    made.record = namedtuple("parameters", list(annotations))  # type: ignore[misc]
    return made


def check_numbers(configured: Any) -> None:
    """Refuse values of the user's parameters that are not numbers."""
    for name in configured.record._fields:
        value = getattr(configured, name)
        if not isinstance(value, Real):
            raise InvalidParameter(must(name, type(configured).__name__, "a number", value))


def numbers(configured: Any) -> list[float]:
    """Return the values of the user's parameters, as `reader` will read them."""
    return [float(getattr(configured, name)) for name in configured.record._fields]


def reader(record: Any) -> Any:
    """Return a compiled function that reads the parameters, after one number, into the record."""
    values = ", ".join(f"C[{1 + place}]" for place in range(len(record._fields)))
    scope = {"record": record}
    exec(f"def read(C):\n    return record({values})", scope)
    return numba.njit(scope["read"])
