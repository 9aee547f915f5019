"""Words typed in a shell: policies, environments and numbers, or the nearest right word.

A policy or environment is a short name, with parameters after colons where the defaults will not
do: ``tsallis``, ``ucb1:c=2``, ``tsallis:alpha=0.7:estimator=iw``, ``switching:factor=2``. One of
the user's own is ``module:name``, such as ``mymodule:Mine`` or ``mymodule:Mine:c=2``.
"""

from __future__ import annotations

import inspect
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any

from bothworlds.arguments import Word
from bothworlds.errors import InvalidParameter
from bothworlds.registry import words, worlds

if TYPE_CHECKING:
    from bothworlds.environments.base import Environment
    from bothworlds.policies.base import Policy


def choose(kind: str, word: str, known: Iterable[Word]) -> Word:
    """Return the known name ``word`` stands for, or refuse it and suggest the nearest.

    Examples
    --------
    >>> choose("policy", "UCB1", words())
    'ucb1'
    >>> choose("policy", "tompson", words())
    Traceback (most recent call last):
    ...
    bothworlds.errors.InvalidParameter: Unknown policy 'tompson'; did you mean 'thompson'?
    """
    names = list(known)
    wanted = word.strip().lower()
    for name in names:
        if name == wanted:
            return name
    near = get_close_matches(wanted, names, n=1, cutoff=0.5)
    if near:
        raise InvalidParameter(f"Unknown {kind} {word!r}; did you mean {near[0]!r}?")
    raise InvalidParameter(f"Unknown {kind} {word!r}. Choose from {', '.join(names)}.")


def wrong(option: str, expected: str, got: object) -> InvalidParameter:
    """Return the error for an option that cannot be used.

    Examples
    --------
    >>> print(wrong("--gap", "a number in (0, 1]", "7"))
    The option --gap must be a number in (0, 1], got '7'.
    """
    return InvalidParameter(f"The option {option} must be {expected}, got {got!r}.")


def listed(text: str, option: str) -> list[str]:
    """Split a comma-separated list into its words.

    Examples
    --------
    >>> listed("blue, green", "--arms")
    ['blue', 'green']
    """
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise wrong(option, "names separated by commas", text)
    return words


def number(text: str, option: str) -> float:
    """Read a number such as 0.05, 1e6 or 1/8.

    Examples
    --------
    >>> number("1/8", "--gap")
    0.125
    """
    value = _read(text)
    if not math.isfinite(value):
        raise wrong(option, "a number such as 0.05, 1/8 or 1e6", text)
    return value


def _read(text: str) -> float:
    above, slash, below = text.partition("/")
    try:
        return float(above) / float(below) if slash else float(text)
    except (ValueError, ZeroDivisionError):
        return math.nan


def count(text: str, option: str, least: int = 1) -> int:
    """Read a whole number such as 12, 1e6 or 1_000_000.

    Examples
    --------
    >>> count("1e6", "--horizon")
    1000000
    """
    try:
        # Exact beyond 2**53, where a float is not: seeds have 64 bits.
        value = int(text)
    except ValueError:
        about = _read(text)
        value = int(about) if about.is_integer() else least - 1
    if value < least:
        raise wrong(option, f"a whole number of at least {least}, such as 1000 or 1e6", text)
    return value


def policy(text: str, horizon: int | None = None) -> tuple[str, Policy]:
    """Return the label and the policy that ``text`` describes.

    Parameters
    ----------
    text : str
        A short name, perhaps with parameters.
    horizon : int, optional
        The horizon of a policy that must know it, if ``text`` does not state one.

    Examples
    --------
    >>> policy("ucb1:c=2")
    ('UCB1(c=2.0)', UCB1(c=2.0))
    >>> policy("htinf:scale=20")
    ('HTINF(scale=20.0)', HTINF(scale=20.0))
    >>> policy("broad", horizon=1000)
    ('BROAD', Broad(horizon=1000))
    """
    known = words()
    if own_name(text):
        from bothworlds.policies.base import Player

        made = own("policy", text, Player, {} if horizon is None else {"horizon": horizon})
        return repr(made), made
    name, given = _described("policy", text, known)
    entry, variant = known[name]
    maker = entry.load()
    # Each of several variants has its own preset; the preset of a single one is its usual value.
    fixed = dict(variant.preset) if len(entry.variants) > 1 else {}
    told = {**({} if fixed else variant.preset), **given}
    if horizon is not None and maker.traits.needs_horizon:
        told.setdefault("horizon", max(horizon, 2))
    found: Policy = _made(maker, fixed, told, text)
    return repr(found) if given else variant.label, found


def policies(text: str, horizon: int) -> dict[str, Policy]:
    """Return the policies of a comma-separated list by label.

    Examples
    --------
    >>> list(policies("tsallis,ucb1", 1000))
    ['Tsallis-INF (RV)', 'UCB1']
    """
    chosen: dict[str, Policy] = {}
    for word in listed(text, "--policies"):
        label, made = policy(word, horizon)
        if label in chosen:
            raise wrong("--policies", f"{label} once", text)
        chosen[label] = made
    return chosen


def environment(
    text: str, n_arms: int, gap: float, given: Iterable[str] = ("n_arms", "gap")
) -> Environment:
    """Return the environment that ``text`` describes.

    A class of the user's keeps its own default of a number that is not among those ``given``.

    Examples
    --------
    >>> environment("switching:factor=2", 8, 0.125)
    Switching(n_arms=8, gap=0.125, factor=2.0)
    """
    from bothworlds import environments

    if own_name(text):
        offered = {"n_arms": n_arms, "gap": gap}
        usual = {name: offered[name] for name in offered if name not in set(given)}
        mine: Environment = own("environment", text, environments.Environment, offered, usual)
        return mine
    known = worlds()
    name, told = _described("environment", text, known)
    entry = known[name]
    fixed = {"n_arms": n_arms, "gap": gap, **entry.preset}
    if entry.base:
        fixed = {"base": _home(environments, entry.base)(**fixed)}
    told = {**entry.usual, **told}
    found: Environment = _made(_home(environments, entry.home), fixed, told, text)
    return found


_A = {"policy": "a policy", "environment": "an environment"}


def own_name(text: str) -> bool:
    """Tell whether a word names something in a module of the user's.

    Examples
    --------
    >>> own_name("mymodule:Mine"), own_name("ucb1:c=2"), own_name("ucb1:c")
    (True, False, False)
    """
    first, *rest = text.split(":")
    known = first.strip().lower() in {*words(), *worlds()}
    return bool(rest) and "=" not in rest[0] and not known


def own(
    kind: str, text: str, base: type, offered: Mapping[str, Any], usual: Iterable[str] = ()
) -> Any:
    """Return the instance that a word such as ``mymodule:Mine:c=2`` names.

    Modules are looked for in the current folder, too. A class gets the parameters of the word, and
    of ``offered`` those its constructor has; of the ``usual`` ones only those it has no default of.
    """
    module, name, *settings = text.split(":")
    found = _imported(kind, text, module, name)
    if isinstance(found, base):
        if settings:
            raise InvalidParameter(
                f"The {kind} {module}:{name} is an instance already and takes no parameters."
            )
        return found
    if not callable(found):
        raise InvalidParameter(f"The {kind} {text!r} must name a class or an instance of one.")
    parameters = inspect.signature(found).parameters
    given = _settings(kind, text, settings)
    own_defaults = {name for name in usual if name in parameters} - {
        name for name, each in parameters.items() if each.default is each.empty
    }
    told = {
        key: value
        for key, value in offered.items()
        if key in parameters and key not in given and key not in own_defaults
    }
    try:
        made = _made(found, told, given, text)
    except TypeError as error:
        raise InvalidParameter(f"The {kind} {text!r} could not be created: {error}.") from error
    if not isinstance(made, base):
        raise InvalidParameter(
            f"The {kind} {text!r} must return {_A[kind]} of bothworlds, got {made!r}."
        )
    return made


def _imported(kind: str, text: str, module: str, name: str) -> Any:
    """Import a name from a user's module, or explain in one sentence why it cannot be imported."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        home = import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0] and error.name != module:
            raise InvalidParameter(f"The module {module!r} needs {error.name!r}.") from error
        raise InvalidParameter(
            f"There is no module {module!r} for the {kind} {text!r}, here or installed."
        ) from error
    # A user's module may fail in any way.
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        raise InvalidParameter(f"The module {module!r} could not be imported: {told}.") from error
    if not hasattr(home, name):
        names = [each for each in vars(home) if not each.startswith("_")]
        near = get_close_matches(name, names, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise InvalidParameter(f"There is no {name!r} in the module {module!r}{hint}")
    return getattr(home, name)


def _home(room: Any, path: str) -> Any:
    for part in path.split("."):
        room = getattr(room, part)
    return room


def _described(kind: str, text: str, known: Iterable[str]) -> tuple[str, dict[str, Any]]:
    """Split ``name:key=value:key=value``."""
    name, *settings = text.split(":")
    return choose(kind, name, known), _settings(kind, text, settings)


def _settings(kind: str, text: str, settings: Iterable[str]) -> dict[str, Any]:
    """Read parameters such as ``c=2``."""
    given: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key or not value:
            raise InvalidParameter(
                f"The {kind} {text!r} must be a name and parameters such as 'ucb1:c=2'."
            )
        given[key.strip()] = _value(value.strip())
    return given


def _value(text: str) -> int | float | bool | str:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        value = float(text)
    except ValueError:
        return text
    # Written 1e6, a horizon is still a whole number.
    return int(value) if value.is_integer() else value


def _made(
    maker: Callable[..., Any], fixed: dict[str, Any], given: dict[str, Any], text: str
) -> Any:
    """Call ``maker`` with the defaults of the name and the parameters that the user set."""
    parameters = inspect.signature(maker).parameters
    offered = [name for name in parameters if name not in fixed]
    for key in given:
        if not offered:
            raise InvalidParameter(f"There are no parameters to set in {text!r}.")
        choose("parameter", key, offered)
    arguments = {**fixed, **given}
    for key, parameter in parameters.items():
        if parameter.default is parameter.empty and key not in arguments:
            name = text.partition(":")[0]
            raise InvalidParameter(
                f"The {key} of {name} must be given, such as '{name}:{key}=10000'."
            )
    return maker(**arguments)
