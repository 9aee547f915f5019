"""The one way this package compiles: on first use, cached on disk, without the GIL."""

import functools
import hashlib
import pathlib
from collections.abc import Callable
from typing import Any

import numba

_PACKAGE = pathlib.Path(__file__).resolve().parent.parent


@functools.cache
def source_stamp() -> bytes:
    """Return a digest of every source file that holds kernels.

    Numba keys its cache by the file a function stands in, but kernels call functions of other
    files; keyed by all of them, an edited or upgraded file never meets stale machine code.
    """
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        source = path.read_bytes()
        if path.parent.name == "lanes" or b"import jit\n" in source:
            digest.update(path.relative_to(_PACKAGE).as_posix().encode())
            digest.update(source)
    return digest.digest()


def jit(function: Callable[..., Any]) -> Any:
    """Compile ``function`` on its first call and keep the machine code on disk.

    IEEE arithmetic throughout: no fast-math, and division by zero gives infinity.
    """
    dispatcher = numba.njit(function, cache=True, nogil=True, error_model="numpy")
    index = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if index is not None and hasattr(index, "_source_stamp") and hasattr(index, "_load_index"):
        # The file's own stamp stays in: a kernel may stand in a file outside the package.
        index._source_stamp = (source_stamp(), index._source_stamp)
        index._load_index = functools.partial(_readable, index._load_index)
    return dispatcher


def _readable(load: Callable[[], dict[Any, Any]]) -> dict[Any, Any]:
    """Return the index of a cache file, empty where another version left one we cannot read."""
    try:
        return load()
    except Exception:
        return {}
