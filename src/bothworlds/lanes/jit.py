"""Compilation of this package's kernels: on first use, cached on disk, without the GIL."""

import functools
import pathlib
import warnings
from collections.abc import Callable
from typing import Any

import numba
from numba.core import event, types

from bothworlds import sources
from bothworlds.errors import CacheWarning, KernelError
from bothworlds.lanes.compile_events import KIND, CompileNotice

try:
    from bothworlds.lanes.code_cache import PART, KernelCache
    from bothworlds.lanes.parts import PartCompiler, WholeCompiler
except (ImportError, AttributeError) as error:
    # Numba's own cache would do no better: it misses changes in other files.
    KernelCache = None  # type: ignore[assignment, misc]
    warnings.warn(
        f"Compiled code cannot be kept, so every process compiles again: Numba {numba.__version__} "
        f"lacks what the cache needs ({error}).",
        CacheWarning,
        stacklevel=2,
    )

if numba.config.DISABLE_JIT:
    raise KernelError(
        "The environment variable NUMBA_DISABLE_JIT must be unset, got "
        f"{numba.config.DISABLE_JIT}: bothworlds does not run without Numba's compiler."
    )


def jit(function: Callable[..., Any], release: bool = True, inline: bool = False) -> Any:
    """Compile ``function`` on its first call and keep the machine code on disk.

    IEEE arithmetic throughout: no fast-math, and division by zero gives infinity. Called from
    Python, the function lets other threads run meanwhile, if it should ``release`` them: that
    costs as much as a short kernel takes. See `inlined` for ``inline``.
    """
    return _kept(compiled(function, release, keeps=True, inline=inline))


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a function whose code becomes part of every kernel that calls it.

    LLVM does so by itself only with short functions. A call hands vectors over in memory, which
    takes up to a fifth of a round; the rare parts of a round are better called.
    """
    return jit(function, inline=True)


def rarely(function: Any) -> Any:
    """Mark a function, or a template, that kernels call now and then.

    Its code stays out of them: in there, it would take registers from what every round does.
    """
    function.rare = True
    return function


def compiled(
    function: Callable[..., Any], release: bool = True, keeps: bool = False, inline: bool = False
) -> Any:
    """Do the same for a function whose machine code must not be kept, such as a user's."""
    options = {"pipeline_class": WholeCompiler} if keeps and KernelCache is not None else {}
    dispatcher = numba.njit(function, nogil=release, error_model="numpy", **options)
    _call_bare(dispatcher, keeps, inline)
    return dispatcher


def _call_bare(dispatcher: Any, keeps: bool, inline: bool) -> None:
    """Let compiled code call a variant of the function that Python cannot call.

    What Python needs, taking arguments apart and putting results together, is a third of the time
    that compiling takes, and most functions are called by compiled code only.
    """
    twins: list[Any] = []

    def bare() -> Any:
        if not twins:
            if keeps and KernelCache is not None:
                own = {"pipeline_class": PartCompiler, "forceinline": inline}
                made = _kept(_unwrapped(dispatcher, **own), PART)
            else:
                made = _unwrapped(dispatcher, forceinline=inline)
            twins.append(made)
        return twins[0]

    def template(given: Any, named: Any) -> Any:
        # A number that the caller knows is one of its type here: else each would be compiled again.
        known = {name: types.unliteral(each) for name, each in named.items()}
        return bare().get_call_template(tuple(map(types.unliteral, given)), known)

    # The two questions that Numba asks of a function which compiled code calls.
    dispatcher.get_call_template = template
    dispatcher.get_overload = lambda *given: bare().get_overload(*given)


@functools.cache
def placed_code(dispatcher: Any, signature: Any) -> tuple[int, Any]:
    """Return the address of a kernel's machine code, which `kernels.calling` calls.

    And the owner of the code: a caller must keep a reference to it.
    """
    twin = placed_twin(dispatcher)
    return code_of(twin, signature), twin


@functools.cache
def placed_twin(dispatcher: Any) -> Any:
    """Return the variant of a kernel that `placed_code` compiles."""
    if KernelCache is not None and isinstance(getattr(dispatcher, "_cache", None), KernelCache):
        # Without what Python and first-class functions need, which takes a third of the time.
        return _kept(_unwrapped(dispatcher, pipeline_class=WholeCompiler), ".code")
    return dispatcher


def code_of(dispatcher: Any, signature: Any) -> int:
    """Return the address of the machine code of a function that Python calls as well."""
    dispatcher.compile(signature)
    made = dispatcher.overloads[signature.args]
    return int(made.library.get_pointer_to_function(made.fndesc.llvm_func_name))


def _unwrapped(dispatcher: Any, **options: Any) -> Any:
    """Return a variant of a compiled function that Python cannot call."""
    bare = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return numba.njit(dispatcher.py_func, error_model="numpy", **bare, **options)


def _kept(dispatcher: Any, flavour: str = "") -> Any:
    """Return the function, its machine code kept on disk."""
    if KernelCache is not None and hasattr(dispatcher, "_cache"):
        function = dispatcher.py_func
        dispatcher._cache = KernelCache(function, functools.partial(_stamp, function), flavour)
    return dispatcher


def keep_as(dispatcher: Any, name: str) -> Any:
    """Return a user's function, its machine code on disk under the digest of its source.

    `bothworlds.lanes.user_functions` makes such names; ``kept_as`` is the function's.  The files
    are with those of this package, because a function of a notebook or a worker has no folder.
    """
    if KernelCache is not None:
        stamp = functools.partial(_stamp, keep_as)
        dispatcher._cache = KernelCache(keep_as, stamp, f".{name}")
        dispatcher.kept_as = name
    return dispatcher


def in_package(function: Callable[..., Any]) -> bool:
    """Return whether a function is defined in a file that the digest of the kernels covers."""
    path = pathlib.Path(function.__code__.co_filename)
    return path.is_relative_to(sources.PACKAGE)


def _stamp(function: Callable[..., Any], own: Any) -> tuple[Any, ...]:
    """Return the inputs that the machine code of a function depends on.

    Numba keys its cache by the file that defines a function, but kernels call functions of other
    files; keyed by all of them, an edited file never meets stale machine code.
    """
    found = sources.digest(*sources.KERNELS)
    return (found,) if in_package(function) else (found, own)


def _sentence(dispatcher: Any) -> str | None:
    """Return the message for a user that waits for a kernel of this package."""
    cache = getattr(dispatcher, "_cache", None)
    if KernelCache is None or not isinstance(cache, KernelCache):
        return None
    later = "later runs start at once" if cache.keeps else "every run does"
    return (
        f"bothworlds: compiling kernel {{}} for the first time, up to half a minute; {later}. "
        "The command bothworlds warm-up compiles ahead."
    )


NOTICE = CompileNotice(_sentence)
"""Function that informs a waiting user; silent where stderr is no terminal."""

event.register(KIND, NOTICE)
