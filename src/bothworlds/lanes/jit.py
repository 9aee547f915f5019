"""The one way this package compiles: on first use, cached on disk, without the GIL."""

import functools
import pathlib
from collections.abc import Callable
from typing import Any

import numba

from bothworlds import sources


def jit(function: Callable[..., Any]) -> Any:
    """Compile ``function`` on its first call and keep the machine code on disk.

    IEEE arithmetic throughout: no fast-math, and division by zero gives infinity.
    """
    dispatcher = numba.njit(function, cache=True, nogil=True, error_model="numpy")
    index = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if index is not None and hasattr(index, "_source_stamp") and hasattr(index, "_load_index"):
        # Numba keys its cache by the file a function stands in, but kernels call functions of
        # other files; keyed by all of them, an edited file never meets stale machine code.
        own = () if in_package(function) else (index._source_stamp,)
        index._source_stamp = (sources.digest(*sources.KERNELS), *own)
        index._load_index = functools.partial(_readable, index._load_index)
    return dispatcher


def in_package(function: Callable[..., Any]) -> bool:
    """Return whether a function stands in a file that the digest of the kernels covers."""
    path = pathlib.Path(function.__code__.co_filename)
    return path.is_relative_to(sources.PACKAGE)


def _readable(load: Callable[[], dict[Any, Any]]) -> dict[Any, Any]:
    """Return the index of a cache file, empty where another version left one we cannot read."""
    try:
        return load()
    except Exception:
        return {}
