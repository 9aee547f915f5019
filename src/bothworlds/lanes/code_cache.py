"""Cache of machine code on disk, which never stops a process.

Numba's cache, with seven differences:

- A function's code is looked for when it is first called, not when its module is imported.
- Every file ends with a checksum. A damaged or truncated file counts as absent; what was in it
  is compiled again and replaces it.
- Code found on disk is loaded without Numba's compiler, which takes longer to start than the
  code to load.
- Functions that only compiled code calls are kept as they were lowered, optimised for no processor
  yet; processors of an architecture share them.
- In the folder that NUMBA_CACHE_DIR names, copies of this package share code if their kernels are
  the same, wherever they are installed.
- A folder that can be read and not written is used for what it holds.
- Where nothing can be written, code stays in memory, and one warning per process reports it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import pathlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numba
from numba.core import config
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    InTreeCacheLocator,
    UserProvidedCacheLocator,
)
from numba.core.runtime import rtsys

from bothworlds import sources
from bothworlds.errors import CacheWarning
from bothworlds.lanes import parts

PART = ".bare"
"""The flavour of functions that only compiled code calls."""

SEAL = hashlib.sha256().digest_size
"""Bytes of checksum at the end of every file."""


class _Files(IndexDataCacheFile):  # type: ignore[misc]
    """The files of one function: an index by types, and a file of code for each."""

    def save(self, key: Any, data: Any) -> None:
        # Two processes may give the same file name to different types at once; code kept with its
        # key is never mistaken for another's.
        super().save(key, (key, data))

    def load(self, key: Any) -> Any:
        found = super().load(key)
        return found[1] if found is not None and found[0] == key else None

    def _load_index(self) -> dict[Any, Any]:
        try:
            _check_seal(self._index_path)
            index: dict[Any, Any] = super()._load_index()
        except Exception:
            return {}
        return index

    def _load_data(self, name: str) -> Any:
        _check_seal(self._data_path(name))
        return super()._load_data(name)

    @contextlib.contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[io.BytesIO]:
        with super()._open_for_write(filepath) as file:
            draft = io.BytesIO()
            yield draft
            content = draft.getvalue()
            file.write(content + hashlib.sha256(content).digest())


def _check_seal(path: str) -> None:
    """Refuse a file that does not end with the checksum of its content."""
    content = pathlib.Path(path).read_bytes()
    if hashlib.sha256(content[:-SEAL]).digest() != content[-SEAL:]:
        raise OSError(f"The file {path!r} is damaged.")


def _readable(locator: Any) -> Any:
    """Return a locator whose folder can be used, if only for reading."""
    try:
        locator.ensure_cache_path()
    except OSError:
        if not os.access(locator.get_cache_path(), os.R_OK | os.X_OK):
            return None
    return locator


class _NamedFolder(UserProvidedCacheLocator):  # type: ignore[misc]
    """The folder that NUMBA_CACHE_DIR names, shared by all copies of the same sources."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        super().__init__(py_func, py_file)
        path = pathlib.Path(py_file)
        if path.is_relative_to(sources.PACKAGE):
            # Copies that differ have folders of their own, else each would replace the other's.
            content = sources.digest(*sources.KERNELS).hex()[:16]
            room = path.parent.relative_to(sources.PACKAGE)
            self._cache_path = os.path.join(
                config.CACHE_DIR, f"bothworlds-{content}-{numba.__version__}", room
            )

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        known = config.CACHE_DIR and os.path.exists(py_file)
        return _readable(cls(py_func, py_file)) if known else None


class _PackageFolder(InTreeCacheLocator):  # type: ignore[misc]
    """The folder next to the source, written by the user that installed the package."""

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        return _readable(cls(py_func, py_file)) if os.path.exists(py_file) else None


class _Folders(CompileResultCacheImpl):  # type: ignore[misc]
    """Where machine code can be: Numba's folders, and those that can only be read."""

    _locator_classes = [  # noqa: RUF012 - the attribute is Numba's
        _NamedFolder,
        *CompileResultCacheImpl._locator_classes,
        _PackageFolder,
    ]

    def check_cachable(self, cres: Any) -> bool:
        # As Numba has it, but silent: a user's function may hold addresses of this process.
        return not cres.lifted and not cres.library.has_dynamic_globals

    def reduce(self, cres: Any) -> Any:
        # To write down the types of all variables takes long, and they are not read.
        return super().reduce(cres._replace(type_annotation=""))


class _PartFolders(_Folders):
    """The same for functions that only compiled code calls."""

    def check_cachable(self, cres: Any) -> bool:
        # Addresses of this process that are not used are still in it, to be optimised away; of
        # those that are, Numba asks again when the function is part of one that Python calls.
        return True

    def reduce(self, cres: Any) -> Any:
        return parts.reduced(cres)

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        return parts.rebuilt(target_context, *payload)


class KernelCache(FunctionCache):  # type: ignore[misc]
    """The machine code of one function, by the types of its arguments.

    Parameters
    ----------
    function : function
        The function as written in Python.
    stamp : callable
        Returns what the code depends on, given what Numba knows of the function's own file. Code
        that was kept under another stamp is not used.
    flavour : str
        Sets the files apart from those of the same function compiled otherwise; `PART` is that of
        functions which only compiled code calls.
    """

    def __init__(
        self, function: Callable[..., Any], stamp: Callable[[Any], Any], flavour: str = ""
    ) -> None:
        self._function = function
        self._stamp = stamp
        self._impl_class = _PartFolders if flavour == PART else _Folders
        self._flavour = flavour
        self._trouble: str | None = None
        self._opened = False

    @property
    def keeps(self) -> bool:
        """Whether later processes can find the code compiled now."""
        if not self._open():
            return False
        try:
            self._impl.locator.ensure_cache_path()
        except OSError:
            return False
        return True

    @property
    def cache_path(self) -> Any:
        """The folder of the files; None where there is none."""
        return self._cache_path if self._open() else None

    def flush(self) -> None:
        """Forget the code on disk."""
        if self._open():
            super().flush()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code for these types, or None where it must be compiled."""
        if not self._open():
            return None
        try:
            # The run-time library is all that loaded code needs of Numba. A whole refresh of the
            # context would import the compiler's view of NumPy, and SciPy if it is there.
            rtsys.initialize(target_context)
            return self._load_overload(sig, target_context)
        except Exception:
            # If anything is wrong with a file, the function can be compiled.
            return None

    def holds(self, sig: Any, target_context: Any) -> bool:
        """Return whether there seems to be code for these types on disk."""
        if not self._open():
            return False
        try:
            key = self._index_key(sig, target_context.codegen())
            return key in self._cache_file._load_index()
        except Exception:
            return False

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep newly compiled code, if there is a place to keep it."""
        if not self._open():
            unkept(str(self._trouble))
            return
        try:
            self._save_overload(sig, data)
        except OSError as error:
            unkept(f"{self._cache_path}: {error.strerror or error}")
        except RuntimeError as error:
            # Seen when several processes compile at once; the code runs and is kept another time.
            if "no compiled object yet" not in str(error):
                raise

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        """Return the key of a function's code for these types."""
        key = super()._index_key(sig, codegen)
        if self._flavour != PART:
            return key
        # Name and features of the processor matter where the whole is optimised.
        types, (triple, *_), content = key
        return types, triple, content

    def _open(self) -> bool:
        """Look for a folder, the first time; return whether there is one."""
        if not self._opened:
            self._opened = True
            try:
                super().__init__(self._function)
                stamp = self._stamp(self._impl.locator.get_source_stamp())
                name = self._impl.filename_base + self._flavour
                self._cache_file: Any = _Files(self._cache_path, name, stamp)
            except Exception as error:
                self._trouble = str(error)
        return self._trouble is None


_said: list[str] = []


def unkept(reason: str) -> None:
    """Warn, once in a process, that compiled code is lost when the process ends."""
    if not _said:
        _said.append(reason)
        warnings.warn(
            "Compiled code cannot be kept, so every process compiles again; set the environment "
            f"variable NUMBA_CACHE_DIR to a folder that can be written ({reason}).",
            CacheWarning,
            stacklevel=2,
        )
