"""Deprecation: old spellings that keep working for one version, with a warning in one sentence."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")

__all__ = ["keyword_only", "renamed", "warn"]


def warn(old: str, instead: str, *, since: str, removed_in: str, stacklevel: int = 3) -> None:
    """Warn that an old spelling will be removed.

    Parameters
    ----------
    old : str
        What is deprecated, as the user wrote it.
    instead : str
        What to write instead; completes "use ...".
    since, removed_in : str
        The version that deprecated it, and the version that will refuse it.
    stacklevel : int, default 3
        Whose line the warning names: 3 is the caller of the function that calls `warn`.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn("extra", "with_kl_ucb", since="0.2", removed_in="0.3")
    >>> print(caught[0].message)
    extra is deprecated since 0.2 and will be removed in 0.3, use with_kl_ucb.
    """
    sentence = f"{old} is deprecated since {since} and will be removed in {removed_in}"
    warnings.warn(f"{sentence}, use {instead}.", DeprecationWarning, stacklevel=stacklevel)


def renamed(
    names: Mapping[str, str], *, since: str, removed_in: str
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function accept arguments under their old names, with a warning.

    Parameters
    ----------
    names : dict of str to str
        The old name of each renamed argument, and its new one.
    since, removed_in : str
        The version that renamed them, and the version that will refuse the old names.

    Examples
    --------
    >>> @renamed({"colour": "color"}, since="0.2", removed_in="0.3")
    ... def paint(color):
    ...     return color
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     paint(colour="red")
    'red'
    >>> print(caught[0].message)
    The colour of paint is deprecated since 0.2 and will be removed in 0.3, use color.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        owner = _owner(function)

        @functools.wraps(function)
        def called(*args: P.args, **given: P.kwargs) -> R:
            for old, new in names.items():
                if old in given:
                    if new in given:
                        raise TypeError(f"{owner} got both {new} and its old name {old}.")
                    warn(f"The {old} of {owner}", new, since=since, removed_in=removed_in)
                    given[new] = given.pop(old)
            return function(*args, **given)

        return called

    return decorate


def keyword_only(*, since: str, removed_in: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function's keyword-only arguments still be given by position, with a warning.

    Parameters
    ----------
    since, removed_in : str
        The version that made them keyword-only, and the version that will insist on it.

    Examples
    --------
    >>> @keyword_only(since="0.2", removed_in="0.3")
    ... def rise(base, *, by=2):
    ...     return base + by
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     rise(2, 3)
    5
    >>> print(caught[0].message)
    The by of rise by position is deprecated since 0.2 and will be removed in 0.3, use by=.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        owner = _owner(function)
        parameters = inspect.signature(function).parameters.values()
        by_place = sum(p.kind is not p.KEYWORD_ONLY for p in parameters)
        by_name = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]

        @functools.wraps(function)
        def called(*args: P.args, **given: P.kwargs) -> R:
            late = args[by_place:]
            if not late or len(late) > len(by_name):
                return function(*args, **given)
            names = by_name[: len(late)]
            twice = [name for name in names if name in given]
            if twice:
                raise TypeError(f"{owner} got multiple values for argument {twice[0]!r}.")
            warn(
                f"The {', '.join(names)} of {owner} by position",
                ", ".join(f"{name}=" for name in names),
                since=since,
                removed_in=removed_in,
            )
            given.update(zip(names, late, strict=True))
            return cast(Callable[..., R], function)(*args[:by_place], **given)

        return called

    return decorate


def _owner(function: Callable[..., object]) -> str:
    """Return the name a user knows a function by; a constructor has that of its class."""
    name = getattr(function, "__qualname__", "the function").split("<locals>.")[-1]
    return name.removesuffix(".__init__").removesuffix(".__new__")
