"""A user's functions and classes in plain Python, compiled to kernels, policies, environments.

A function is compiled by `unchecked` as it stands, for the engine, and by `checked` with every
index checked against its array.  A `Bandit` and the checks only run checked functions; before a
simulation they are rehearsed for some rounds.

Machine code is kept on disk where `bothworlds.lanes.user_functions` knows all that it depends on.
Two functions of one name, loaded from disk into one process, would be mistaken for each other. So
each function that is kept, and each of the user's own that it calls, has its key in its name.

Classes are for `bothworlds.policies.custom` and `bothworlds.environments.custom`: the annotated
parameters become the fields of a frozen dataclass, and the compiled functions find them in a
record.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import types
from collections import namedtuple
from collections.abc import Iterable
from numbers import Real
from typing import Any

import numba
import numpy as np

from bothworlds.errors import BothworldsError, KernelError, invalid, must
from bothworlds.lanes.jit import keep_as
from bothworlds.lanes.user_functions import code_key, joint_key

REHEARSED = 64
"""Rounds that a user's functions are rehearsed for before a simulation."""


def compiled(function: Any) -> Any:
    """Compile a plain function; one that is compiled already stays as it is."""
    if isinstance(function, numba.core.dispatcher.Dispatcher):
        return function
    return numba.njit(nogil=True, error_model="numpy")(function)


@functools.lru_cache(maxsize=256)
def checked(function: Any) -> Any:
    """Compile a function so that an index outside its array raises IndexError.

    So are the compiled functions it calls by name; those it reaches through a module are not.
    """
    # Numba checks no index in loops it runs in parallel.
    options = {"boundscheck": True, "parallel": False}
    key = code_key(compiled(function), "checked")
    return _keep(_clone(compiled(function), key, options, {}), key)


@functools.lru_cache(maxsize=256)
def unchecked(function: Any) -> Any:
    """Compile a function as it stands."""
    key = code_key(compiled(function))
    return _keep(_clone(compiled(function), key, {}, {}), key) if key else compiled(function)


def kept_key(functions: dict[str, Any], *settings: Any) -> str:
    """Return the key of a kernel around functions; empty where one of them is not kept."""
    keys = [getattr(each, "kept_as", "") for each in functions.values()]
    return joint_key(keys, *functions, *settings)


def kernel(function: Any, key: str) -> Any:
    """Compile a kernel of this package around a user's functions, kept on disk if it has a key."""
    name = f"{function.__name__}.{key}" if key else ""
    function.__qualname__ = name or function.__qualname__
    return _keep(numba.njit(nogil=True, error_model="numpy")(function), name)


def _keep(dispatcher: Any, name: str) -> Any:
    return keep_as(dispatcher, name) if name else dispatcher


def _clone(function: Any, key: str, options: dict[str, Any], made: dict[Any, Any]) -> Any:
    """Return a function with other options, and its key in its name, if it has one."""
    plain = function.py_func
    if plain not in made:
        scope = dict(plain.__globals__)
        cells = tuple(types.CellType() for _ in plain.__closure__ or ())
        clone = types.FunctionType(
            plain.__code__, scope, plain.__name__, plain.__defaults__, cells or None
        )
        clone.__qualname__, clone.__module__ = plain.__qualname__, plain.__module__
        clone.__kwdefaults__ = plain.__kwdefaults__
        if key:
            # Numba imports the module of what it loads; not every process has the user's.
            clone.__qualname__, clone.__module__ = f"{plain.__qualname__}.{key}", __name__
        made[plain] = numba.jit(clone, **{**function.targetoptions, **options})

        def variant(value: Any) -> Any:
            own = isinstance(value, numba.core.dispatcher.Dispatcher)
            home = (value.py_func.__module__ or "").partition(".")[0] if own else "bothworlds"
            return value if home == "bothworlds" else _clone(value, key, options, made)

        for name in plain.__code__.co_names:
            if name in scope:
                scope[name] = variant(scope[name])
        for cell, own in zip(cells, plain.__closure__ or (), strict=True):
            cell.cell_contents = variant(own.cell_contents)
    return made[plain]


def compile_for(function: Any, arguments: tuple[Any, ...], name: str, owner: str) -> Any:
    """Compile a function for arguments of these types, or explain in a sentence why it cannot be.

    Parameters
    ----------
    function : dispatcher
        From `compiled` or `checked`.
    arguments : tuple of Numba types
        Of every argument.
    name, owner : str
        What the user calls the function, and what it belongs to.

    Returns
    -------
    Numba type
        Of what the function returns.
    """
    try:
        if function._can_compile:
            function.compile(arguments)
        return function.overloads[arguments].signature.return_type
    except KeyError:  # compiled by the user, for types that will do
        return None
    except Exception as error:
        code = function.py_func.__code__
        place: Any = getattr(error, "loc", None)
        here = place is not None and place.filename == code.co_filename
        line = place.line if here else code.co_firstlineno
        raise KernelError(
            f"The {name} of {owner} must be a function that Numba can compile, got "
            f"{_reason(error)} (line {line} of {code.co_filename})."
        ) from None


def _reason(error: Exception) -> str:
    """Return Numba's finding, out of all it prints.

    Examples
    --------
    >>> _reason(TypeError("The 'with' construct is not supported.. Raised from None"))
    "The 'with' construct is not supported"
    """
    # Colours, where the terminal has them.
    lines = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).splitlines()
    said = [line.strip() for line in lines if line.strip()]
    said = [line for line in said if not line.startswith("Failed in nopython mode")] or [""]
    first = said[0]
    if first.endswith(":") and len(said) > 1:
        first = f"{first} {said[1].removeprefix('>>> ')}"
    first = first.partition(". Raised from")[0].rstrip(".")
    first = first if len(first) <= 200 else first[:200] + " ..."
    return first or type(error).__name__


def fault(name: str, owner: str, error: Exception) -> BothworldsError:
    """Return the error for an exception in a user's function.

    Examples
    --------
    >>> print(fault("update", "Greedy", ValueError("no")))
    The update of Greedy must not raise an error, but it raised ValueError: no.
    """
    if isinstance(error, BothworldsError):
        return error
    if isinstance(error, IndexError):
        return KernelError(f"The {name} of {owner} must stay inside its arrays, got {error}.")
    said = f"{type(error).__name__}: {error}".rstrip(".")
    return KernelError(f"The {name} of {owner} must not raise an error, but it raised {said}.")


def call(function: Any, name: str, owner: str, *arguments: Any) -> Any:
    """Call a user's function; anything it raises becomes a sentence that names it."""
    try:
        return function(*arguments)
    except Exception as error:
        raise fault(name, owner, error) from None


def no_arm(function: str, owner: str, n_arms: int, arm: object) -> KernelError:
    """Return the error for a choice that is no arm.

    Examples
    --------
    >>> print(no_arm("choose", "Greedy", 3, 7))
    The choose of Greedy must return an arm from 0 to 2, got 7.
    """
    expected = f"must return an arm from 0 to {n_arms - 1}"
    return KernelError(f"The {function} of {owner} {expected}, got {arm!r}.")


def within(value: Any, name: str, owner: str, low: float = 0.0, high: float = 1.0) -> float:
    """Return the result of a user's function, if it is a number in [low, high]."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not low <= number <= high:
        raise KernelError(must(name, owner, f"a number in [{round(low, 9):g}, {high:g}]", value))
    return number


def some_arms(n_arms: int) -> list[int]:
    """Return the arms to look at in every round of a rehearsal: all, or some where many."""
    return sorted(set(np.linspace(0, n_arms - 1, min(n_arms, 16)).astype(int).tolist()))


def some_rounds(horizon: int) -> Iterable[int]:
    """Return the rounds at which to look at a function of the round: first ones, and the last.

    Examples
    --------
    >>> list(some_rounds(100))[-3:]
    [63, 64, 100]
    """
    later = [2**power for power in range(7, int(horizon).bit_length()) if 2**power < horizon]
    return [*range(1, min(horizon, REHEARSED) + 1), *later, *([horizon] if horizon > 64 else [])]


def of_whole(function: Any, count: int, name: str, owner: str) -> Any:
    """Return a compiled function of ``count`` whole numbers, such as the round and an arm."""
    compile_for(function, (numba.types.int64,) * count, name, owner)
    return function


def twin_of_whole(function: Any, count: int, name: str, owner: str, check: bool) -> Any:
    """Return a function of whole numbers, checked and compiled, or to be compiled when it is used.

    The first finds code that cannot be compiled, and always runs first.
    """
    return of_whole(checked(function), count, name, owner) if check else compiled(function)


def rehearse_function(
    function: Any,
    arguments: Iterable[tuple[int, ...]],
    name: str,
    owner: str,
    low: float = 0.0,
    high: float = 1.0,
) -> None:
    """Run a function of whole numbers, checked, and look at its values."""
    for given in arguments:
        twin = of_whole(checked(function), len(given), name, owner)
        within(call(twin, name, owner, *given), name, owner, low, high)


def argument_count(parameter: str, function: Any, owner: str, allowed: tuple[int, ...]) -> int:
    """Return how many arguments a function takes, if that is one of the allowed numbers."""
    plain = getattr(function, "py_func", function)
    counts = " or ".join(map(str, allowed))
    expected = f"a function of {counts} argument{'s' if allowed != (1,) else ''}"
    try:
        arguments = list(inspect.signature(plain).parameters.values())
    except (TypeError, ValueError):
        raise invalid(parameter, owner, expected, function) from None
    kinds = {argument.kind for argument in arguments}
    positional = {
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    }
    if len(arguments) not in allowed or not kinds <= positional:
        raise invalid(parameter, owner, expected, function)
    return len(arguments)


def body_of(cls: type) -> dict[str, Any]:
    """Return the body of a class, static methods as the functions they were.

    Functions that take ``self`` are refused: compiled, they would know no object.
    """
    body = {
        name: value.__func__ if isinstance(value, staticmethod) else value
        for name, value in vars(cls).items()
    }
    for name, value in body.items():
        plain = getattr(value, "py_func", value)
        if inspect.isfunction(plain) and plain.__code__.co_varnames[:1] == ("self",):
            raise invalid(name, cls.__name__, "a function without self", value)
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
    made.record = record(tuple(annotations))
    return made


@functools.cache
def record(fields: tuple[str, ...]) -> Any:
    """Return the record of parameters of these names.

    Other processes find it by its name, which has the fields; see `__getattr__`.
    """
    made: Any = namedtuple("parameters", fields)  # type: ignore[misc]
    made.__name__ = made.__qualname__ = ",".join(["parameters", *fields])
    made.__module__ = __name__
    return made


def __getattr__(name: str) -> Any:
    """Return a record by its name, for a process that unpickles it."""
    kind, *fields = name.split(",")
    if kind == "parameters":
        return record(tuple(fields))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def check_numbers(configured: Any) -> None:
    """Refuse values of the user's parameters that are not numbers."""
    for name in configured.record._fields:
        value = getattr(configured, name)
        if not isinstance(value, Real):
            raise invalid(name, type(configured).__name__, "a number", value)


def numbers(configured: Any) -> list[float]:
    """Return the values of the user's parameters, as `reader` will read them."""
    return [float(getattr(configured, name)) for name in configured.record._fields]


def record_of(configured: Any) -> Any:
    """Return the record of the user's parameters, for a call from Python."""
    return configured.record(*numbers(configured))


def leading(record: Any) -> tuple[Any, ...]:
    """Return the types of state, parameters, number of arms and round."""
    fields = len(record._fields)
    if fields:
        parameters: Any = numba.types.NamedUniTuple(numba.types.float64, fields, record)
    else:
        parameters = numba.types.NamedTuple((), record)
    return numba.types.float64[::1], parameters, numba.types.int64, numba.types.int64


def reader(record: Any) -> Any:
    """Return a compiled function that reads the parameters, after one number, into the record."""
    values = ", ".join(f"C[{1 + place}]" for place in range(len(record._fields)))
    name = "_".join(["read", str(len(record._fields)), *record._fields])
    scope = {"record": record, "__name__": __name__}
    exec(f"def {name}(C):\n    return record({values})", scope)
    return numba.njit(scope[name])
