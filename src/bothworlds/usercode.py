"""Classes a user writes, made into policies and environments.

What `bothworlds.policies.custom` and `bothworlds.environments.custom` have in common: the
annotated parameters become the fields of a frozen dataclass, and the compiled functions find them
in a record.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections import namedtuple
from numbers import Real
from typing import Any

import numba

from bothworlds.errors import InvalidParameter, must


def body_of(cls: type) -> dict[str, Any]:
    """Return what the body of a class holds, static methods as the functions they were."""
    return {
        name: value.__func__ if isinstance(value, staticmethod) else value
        for name, value in vars(cls).items()
    }


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
