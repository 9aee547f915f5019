"""Identity of a user's functions: all that their numbers and their machine code depend on."""

from __future__ import annotations

import hashlib
import sys
import types
import weakref
from collections.abc import Iterator
from typing import Any

import numba
import numpy as np

KNOWN = sys.stdlib_module_names | {"bothworlds", "llvmlite", "numba", "numpy"}
"""Packages into which a user's functions are not followed."""

EMBEDDED = 10**5
"""Bytes of an array that is surely part of the machine code; of a large one Numba keeps the
address, which means nothing to another process."""

_digests: weakref.WeakKeyDictionary[types.FunctionType, bytes] = weakref.WeakKeyDictionary()


def digest(function: types.FunctionType) -> bytes:
    """Return a digest of a function from outside this package and of all it refers to.

    Taken once: Numba, too, keeps the values of global names as they were when it compiled.
    """
    if function not in _digests:
        found = hashlib.sha256()
        for each in reached(function):
            found.update(_line(each))
        _digests[function] = found.digest()
    return _digests[function]


def code_key(function: Any, *settings: Any) -> str:
    """Return a key for the machine code of a user's function; empty if it must not be kept.

    It is not kept where the function uses what may mean something else in another process: modules
    of the user's own, objects, functions with explicit signatures or a compiler of their own.  The
    key is for what global names stand for now, so the function must be copied with them at once.

    Examples
    --------
    >>> code_key(len)
    ''
    """
    used = list(reached(function))
    if not hasattr(function, "py_func") or not all(map(_is_known, used)):
        return ""
    return joint_key([_line(each) for each in used], np.__version__, *settings)


def joint_key(keys: list[Any], *settings: Any) -> str:
    """Return a key for machine code of functions with these keys; empty if one has none.

    Examples
    --------
    >>> joint_key(["a", "b"], 1) == joint_key(["a", "b"], 2), joint_key(["a", ""])
    (False, '')
    """
    if not all(keys):
        return ""
    return hashlib.sha256(repr((keys, settings)).encode()).hexdigest()[:24]


def reached(first: Any) -> Iterator[Any]:
    """Yield a function, the functions it refers to, and the values of the other names it uses.

    `bothworlds.sources` names the code of this package; of its own functions only what they
    enclose is examined, which is where a user's functions are.
    """
    waiting: list[Any] = [first]
    seen: set[types.FunctionType] = set()
    while waiting:
        value = waiting.pop(0)
        function = getattr(value, "py_func", value)
        if not isinstance(function, types.FunctionType):
            yield value
            continue
        if function in seen:
            continue
        seen.add(function)
        waiting += _enclosed(function)
        if (function.__module__ or "").partition(".")[0] in KNOWN:
            continue
        yield value
        waiting += function.__defaults__ or ()
        waiting += [value for _, value in sorted((function.__kwdefaults__ or {}).items())]
        for code in _nested(function.__code__):
            waiting += _referred(function.__globals__, code.co_names)


def _line(value: Any) -> bytes:
    """Return the byte code and constants of a function, or a value as text."""
    function = getattr(value, "py_func", value)
    if not isinstance(function, types.FunctionType):
        return _constant(value).encode()
    options = sorted(getattr(value, "targetoptions", {}).items())
    lines = [repr(options).encode() if options else b""]
    for code in _nested(function.__code__):
        constants = [x for x in code.co_consts if not isinstance(x, types.CodeType)]
        lines.append(code.co_code + _constant((constants, code.co_names)).encode())
    return b"".join(lines)


def _is_known(value: Any) -> bool:
    """Tell whether a value means the same to Numba in every process that sees the same digest."""
    if isinstance(value, numba.core.dispatcher.Dispatcher):
        # Without these parts of Numba nothing is known, and nothing is kept.
        compiler: Any = getattr(value, "_compiler", None)
        usual = getattr(compiler, "pipeline_class", None) is numba.core.compiler.Compiler
        return usual and getattr(value, "_can_compile", False) and not compiler.locals
    if isinstance(value, types.FunctionType):
        return True
    if isinstance(value, tuple):
        return all(map(_is_known, value))
    if isinstance(value, type | types.BuiltinFunctionType | np.ufunc):
        return _home(value) in KNOWN
    if isinstance(value, np.ndarray):
        return not value.dtype.hasobject and value.nbytes <= EMBEDDED
    return value is None or isinstance(value, int | float | complex | str | bytes | np.generic)


def _home(value: Any) -> str:
    """Return the package that defines a class or function."""
    module = "numpy" if isinstance(value, np.ufunc) else value.__module__ or ""
    return module.partition(".")[0]


def _enclosed(function: types.FunctionType) -> list[Any]:
    """Return the values of the names that a function takes from around its definition."""
    values = []
    for cell in function.__closure__ or ():
        try:
            values.append(cell.cell_contents)
        except ValueError:  # not assigned yet
            continue
    return values


def _referred(scope: dict[str, Any], names: tuple[str, ...]) -> list[Any]:
    """Return the values of global names; of a user's own modules only the parts in use."""
    found, values = [scope[name] for name in names if name in scope], []
    modules: set[types.ModuleType] = set()
    while found:
        value = found.pop(0)
        if not isinstance(value, types.ModuleType):
            values.append(value)
        elif value not in modules and value.__name__.partition(".")[0] not in KNOWN:
            modules.add(value)
            values.append(value)
            found += [vars(value)[name] for name in names if name in vars(value)]
    return values


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield a code object and those of the functions defined inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _nested(constant)


def _constant(value: Any) -> str:
    """Write a value such that equal ones look the same in every process."""
    if isinstance(value, np.ndarray | np.generic):
        return f"{value.dtype.str} {np.shape(value)} {_constant(value.tolist())}"
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_constant, value))})"
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(_constant, value)))}}}"
    if isinstance(value, dict):
        return f"dict {_constant(set(map(_constant, value.items())))}"
    if value is None or isinstance(value, int | float | complex | str | bytes):
        return repr(value)
    named = isinstance(value, type | types.BuiltinFunctionType | np.ufunc)
    return f"{_home(value)} {value.__name__}" if named else type(value).__name__
