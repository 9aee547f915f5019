"""Wrappers for one bandit: kernels called with one packed array, built from templates.

`bothworlds.Bandit` holds its numbers in one array ``F`` and calls ``ask(F)``, ``tell(F, ...)`` and
the like; a policy's kernels have the shape ``(K, t, C, S, G, ...)`` of `bothworlds.lanes.kernels`.
What lies between is the same for every policy and written here once.

A wrapper is a template function under another name whose global name ``kernel`` is the policy's
kernel.  Numba's cache on disk knows a function by its file, qualified name and first line, and by
its byte code, but not by its globals.  So each wrapper is named after its kernel, and only those
around kernels of this package are cached: `bothworlds.lanes.jit` keys the cache by the sources of
all of them.
"""

from __future__ import annotations

import functools
import hashlib
import types
from collections.abc import Callable
from typing import Any

from numba.core import types as numba_types

from bothworlds.lanes.direct import direct
from bothworlds.lanes.distributions import fill_weights
from bothworlds.lanes.jit import code_of, compiled, in_package, jit
from bothworlds.lanes.kernels import unpack
from bothworlds.lanes.random import uniform
from bothworlds.lanes.vectors import numbers_at, to_int

LONGEST_NAME = 100
"""Longer names of functions are shortened to a digest."""

# The templates. What these names stand for is filled in by `wrapped`.
kernel: Any = None
after: Any = None
head: int = 0
group: int = 0


def drawing(F: Any) -> Any:
    """Choose an arm with a uniform number of the bandit's generator."""
    K, t, C, S, G = unpack(F)
    return kernel(K, t, C, S, G, uniform(G, 0.0))


def choosing(F: Any) -> Any:
    """Choose an arm without a random number."""
    K, t, C, S, G = unpack(F)
    return kernel(K, t, C, S, G, 0.0)


def drawing_then(F: Any) -> Any:
    """Draw an arm, and let ``after`` know of the decision."""
    K, t, C, S, G = unpack(F)
    arm = kernel(K, t, C, S, G, uniform(G, 0.0))
    after(K, t, C, S, G, arm)
    return arm


def choosing_then(F: Any) -> Any:
    """Choose an arm without a random number, and let ``after`` know of the decision."""
    K, t, C, S, G = unpack(F)
    arm = kernel(K, t, C, S, G, 0.0)
    after(K, t, C, S, G, arm)
    return arm


def telling(F: Any, arm: int, inverse_p: float, loss: float) -> None:
    """Learn from the loss of an arm."""
    K, t, C, S, G = unpack(F)
    kernel(K, t, C, S, G, arm, inverse_p, loss)


def telling_then(F: Any, arm: int, inverse_p: float, loss: float) -> None:
    """Learn from the loss of an arm, and let ``after`` know of the answer."""
    K, t, C, S, G = unpack(F)
    kernel(K, t, C, S, G, arm, inverse_p, loss)
    after(K, t, C, S, G, arm)


def drawing_at(place: float) -> Any:
    """Draw an arm from the bandit at an address."""
    return kernel(numbers_at(to_int(place)))


def telling_at(place: float, arm: int, inverse_p: float, loss: float) -> None:
    """Let the bandit at an address learn from the loss of an arm."""
    kernel(numbers_at(to_int(place)), arm, inverse_p, loss)


def telling_late(F: Any, arm: int, inverse_p: float, loss: float, near: Any) -> None:
    """Learn from a decision that is no longer the last one; ``near`` as it was then."""
    K, t, C, S, G = unpack(F)
    kernel(K, t, C, S, G, arm, inverse_p, loss, near)


def of_an_arm(F: Any, arm: int) -> None:
    """Do something that concerns one arm."""
    K, t, C, S, G = unpack(F)
    kernel(K, t, C, S, G, arm)


def filling(F: Any, out: Any) -> None:
    """Write one value per arm into an array."""
    K, t, C, S, G = unpack(F)
    kernel(K, t, C, S, G, out)


def normalising(F: Any, out: Any) -> None:
    """Write the weights that ``kernel``, a choice, has left in a group of rows, normalised."""
    K, t, C, S, G = unpack(F)
    fill_weights(K, S, head + group * K, out)


def changing(F: Any) -> None:
    """Change the state."""
    K, t, C, S, G = unpack(F)
    kernel(K, t, C, S, G)


def wrapped(
    template: Callable[..., Any], kernel: Any, after: Any = None, rows: tuple[int, int] = (0, 0)
) -> Any:
    """Return the compiled wrapper around a kernel, and around its successor if there is one.

    Parameters
    ----------
    template : function
        One of this module.
    kernel, after : dispatcher
        What the template calls by these names.
    rows : pair of int
        What `normalising` calls ``head`` and ``group``: the rows before the arms', and which of
        the arms' groups of rows.

    Examples
    --------
    >>> from bothworlds.policies import uniform
    >>> wrapped(drawing, uniform.choose).__qualname__
    'drawing.policies.uniform.choose'
    """
    head, group = rows
    names = {"kernel": kernel, "head": head, "group": group}
    return bound(template, **names, **({} if after is None else {"after": after}))


DRAW_AT = numba_types.int64(numba_types.float64)
"""Signature of `drawing_at`."""
TELL_AT = numba_types.void(
    numba_types.float64, numba_types.int64, numba_types.float64, numba_types.float64
)
"""Signature of `telling_at`."""


@functools.cache
def drawing_code(ask: Any) -> Any:
    """Return the machine code of `drawing_at` around a policy's draw from one bandit."""
    return direct(_drawing(ask), 0.0)


@functools.cache
def telling_code(tell: Any) -> Any:
    """Return the machine code of `telling_at` around the update of a policy's bandit."""
    return direct(_telling(tell), 0.0, 0, 0.0, 0.0)


@functools.cache
def drawing_place(ask: Any) -> int:
    """Return the address of `drawing_code`, for kernels that call it."""
    return code_of(_drawing(ask), DRAW_AT)


@functools.cache
def telling_place(tell: Any) -> int:
    """Return the address of `telling_code`, for kernels that call it."""
    return code_of(_telling(tell), TELL_AT)


@functools.cache
def _drawing(ask: Any) -> Any:
    return wrapped(drawing_at, ask)


@functools.cache
def _telling(tell: Any) -> Any:
    return wrapped(telling_at, tell)


def bound(
    template: Callable[..., Any], *, release: bool = False, inline: bool = False, **names: Any
) -> Any:
    """Return a compiled function: a template in whose body these names stand for these things.

    Parameters
    ----------
    template : function
        A function that calls its kernels by names of its module.
    release : bool
        Whether other threads may run during a call from Python. One decision takes less time than
        letting them; many decisions do not.
    inline : bool
        Whether its code becomes part of the kernels that call it, see `lanes.jit.inlined`.
    **names : dispatcher or other constant
        What the names stand for. Kernels and tuples of numbers become part of the function's own
        name, by which caches know it; single numbers must follow from the kernels.
    """
    sources = [thing.py_func for thing in names.values() if hasattr(thing, "py_func")]
    numbers = [str(part) for thing in names.values() if isinstance(thing, tuple) for part in thing]
    name = ".".join([template.__name__, *map(_name, sources), *numbers])
    if len(name) > LONGEST_NAME:
        # It becomes part of a file's name.
        name = f"{template.__name__}.{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    clone = types.FunctionType(template.__code__, {**template.__globals__, **names}, name)
    clone.__qualname__ = name
    clone.__doc__ = template.__doc__
    clone.__dict__ |= template.__dict__
    if all(map(in_package, sources)) and not any("<locals>" in s.__qualname__ for s in sources):
        return jit(clone, release, inline)
    return compiled(clone, release, inline=inline)


def _name(function: Callable[..., Any]) -> str:
    """Return the module and the name of a kernel."""
    return f"{function.__module__}.{function.__qualname__}".removeprefix("bothworlds.")
