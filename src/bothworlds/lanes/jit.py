"""Compilation of this package's kernels: on first use, cached on disk, without the GIL."""

import functools
import pathlib
import warnings
from collections.abc import Callable
from typing import Any

import numba
from numba.core import event

from bothworlds import sources
from bothworlds.errors import CacheWarning
from bothworlds.lanes.compile_events import KIND, CompileNotice

try:
    from bothworlds.lanes.code_cache import KernelCache
except (ImportError, AttributeError) as error:
    # Numba's own cache would do no better: it misses changes in other files.
    KernelCache = None  # type: ignore[assignment, misc]
    warnings.warn(
        f"Compiled code cannot be kept, so every process compiles anew: Numba {numba.__version__} "
        f"lacks what the cache needs ({error}).",
        CacheWarning,
        stacklevel=2,
    )


def jit(function: Callable[..., Any], release: bool = True) -> Any:
    """Compile ``function`` on its first call and keep the machine code on disk.

    IEEE arithmetic throughout: no fast-math, and division by zero gives infinity. Called from
    Python, the function lets other threads run meanwhile, if it should ``release`` them: that
    costs as much as a short kernel takes.
    """
    dispatcher = compiled(function, release)
    if KernelCache is not None and hasattr(dispatcher, "_cache"):
        dispatcher._cache = KernelCache(function, functools.partial(_stamp, function))
    return dispatcher


def compiled(function: Callable[..., Any], release: bool = True) -> Any:
    """Do the same for a function whose machine code must not be kept, such as a user's."""
    return numba.njit(function, nogil=release, error_model="numpy")


def in_package(function: Callable[..., Any]) -> bool:
    """Return whether a function stands in a file that the digest of the kernels covers."""
    path = pathlib.Path(function.__code__.co_filename)
    return path.is_relative_to(sources.PACKAGE)


def _stamp(function: Callable[..., Any], own: Any) -> tuple[Any, ...]:
    """Return what the machine code of a function depends on.

    Numba keys its cache by the file a function stands in, but kernels call functions of other
    files; keyed by all of them, an edited file never meets stale machine code.
    """
    found = sources.digest(*sources.KERNELS)
    return (found,) if in_package(function) else (found, own)


def _sentence(dispatcher: Any) -> str | None:
    """Return what to tell a person who waits for a kernel of this package."""
    cache = getattr(dispatcher, "_cache", None)
    if KernelCache is None or not isinstance(cache, KernelCache):
        return None
    later = "later runs start at once" if cache.keeps else "every run does"
    return f"bothworlds: compiling for the first time, which can take half a minute; {later}."


NOTICE = CompileNotice(_sentence)
"""What tells a person who waits; silent where stderr is no terminal."""

event.register(KIND, NOTICE)
