"""Configuration of an experiment: what its creator decides, checked and as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal

from bothworlds.arguments import checked_bounds, is_number, is_whole
from bothworlds.bandit.feedback import loss_within
from bothworlds.bandit.persistence import describe, recreate
from bothworlds.errors import BothworldsError, must
from bothworlds.policies.base import Policy
from bothworlds.policies.floor import Floor
from bothworlds.registry import words
from bothworlds.serve.domain.draws import check_served
from bothworlds.serve.domain.records import MOST_ARMS
from bothworlds.serve.problems import Problem

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
LONGEST_ARM = 200
LONGEST_VALUE = 10_000
LONGEST_WINDOW = 400 * 86_400.0
"""The longest feedback window, in seconds."""

Missing = Literal["drop", "default", "deferred"]
Logging = Literal["after", "before"]


@dataclass(frozen=True)
class ArmSpec:
    """An arm: its name, and a JSON value that decisions carry along."""

    name: str
    value: Any = None


@dataclass(frozen=True)
class ExperimentSpec:
    """What an experiment is created from.

    Parameters
    ----------
    name : str
        Letters, digits, dots, dashes and underscores; it stands in addresses.
    arms : sequence of ArmSpec
        Two or more.
    policy : str or mapping
        A word such as ``"tsallis"``, or the description of a policy as state files have it.
    bounds : pair of float
        The smallest and the largest possible loss or reward; fixed for good.
    feedback_window : float
        Seconds after which feedback comes too late.
    missing : {"drop", "default", "deferred"}
        What a decision without feedback counts as: nothing; ``default_loss``; the same, unless it
        was deferred and never activated.
    default_loss : float, optional
        In the experiment's units.
    floor, floor_power : float
        Exploration floor: at least ``floor * t**-floor_power / K`` for every arm.
    sticky_seconds : float
        How long a unit gets the same decision again; 0 for never.
    log : {"after", "before"}
        Whether a decision is answered before or after it is in the log.
    unit_cap, key_cap : int, optional
        Feedback of one unit, or by one key, that is learned in an hour; the rest is quarantined.
    description : str
        For people.
    """

    name: str
    arms: Sequence[ArmSpec]
    policy: str | Mapping[str, Any] = "tsallis"
    bounds: tuple[float, float] = (0.0, 1.0)
    feedback_window: float = 7 * 86_400.0
    missing: Missing = "drop"
    default_loss: float | None = None
    floor: float = 0.0
    floor_power: float = 1.0 / 3.0
    sticky_seconds: float = 0.0
    log: Logging = "after"
    unit_cap: int | None = None
    key_cap: int | None = None
    description: str = ""


@dataclass(frozen=True)
class Config:
    """The configuration of an experiment, checked; see `ExperimentSpec`."""

    policy: Mapping[str, Any]
    bounds: tuple[float, float]
    feedback_window: float
    missing: Missing
    default_loss: float | None
    floor: float
    floor_power: float
    sticky_seconds: float
    log: Logging
    unit_cap: int | None
    key_cap: int | None
    description: str
    served: Policy = field(compare=False, repr=False)
    """The policy, with its floor."""

    def document(self) -> dict[str, Any]:
        """Return it as JSON values."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        del found["served"]
        return {**found, "bounds": list(self.bounds), "policy": dict(self.policy)}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Config:
        """Return what `document` described."""
        given = dict(document)
        return _checked(given)

    def changed(self, changes: Mapping[str, Any]) -> Config:
        """Return the configuration with some changes.

        Raises
        ------
        Problem
            ``invalid_request`` for what cannot be changed or must be something else.
        """
        for name in changes:
            if name not in CHANGEABLE:
                listed = ", ".join(sorted(CHANGEABLE))
                raise _invalid(f"The field {name!r} cannot be changed; these can: {listed}.")
        return _checked({**self.document(), **changes})

    def default(self) -> float | None:
        """Return the default loss in [0, 1]."""
        if self.default_loss is None:
            return None
        return loss_within(self.bounds, None, self.default_loss)


CHANGEABLE = frozenset(
    {
        "feedback_window", "missing", "default_loss", "floor", "floor_power", "sticky_seconds",
        "log", "unit_cap", "key_cap", "description",
    }
)  # fmt: skip
"""What can be changed after an experiment was created."""


def checked(spec: ExperimentSpec) -> tuple[Config, tuple[ArmSpec, ...]]:
    """Return the configuration and the arms of a specification.

    Raises
    ------
    Problem
        ``policy_not_served``, or ``invalid_request``, in one sentence.

    Examples
    --------
    >>> config, arms = checked(ExperimentSpec("headline", [ArmSpec("a"), ArmSpec("b")]))
    >>> config.served
    TsallisINF()
    """
    if not isinstance(spec.name, str) or not NAME.fullmatch(spec.name):
        expected = "1 to 100 letters, digits, dots, dashes and underscores, not a mark first"
        raise _invalid(must("name", "an experiment", expected, spec.name))
    arms = tuple(spec.arms)
    if not 2 <= len(arms) <= MOST_ARMS:
        expected = f"a list of 2 to {MOST_ARMS} arms"
        raise _invalid(must("arms", "an experiment", expected, [arm.name for arm in arms]))
    seen = set()
    for arm in arms:
        check_arm(arm)
        if arm.name in seen:
            raise _invalid(must("arms", "an experiment", "of distinct names", arm.name))
        seen.add(arm.name)
    given = asdict(replace(spec, arms=()))
    del given["name"], given["arms"]
    return _checked(given), arms


def check_arm(arm: ArmSpec) -> None:
    """Refuse what cannot be an arm."""
    name = arm.name
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_ARM or not name.isprintable():
        expected = f"a printable text of 1 to {LONGEST_ARM} characters"
        raise _invalid(must("name", "an arm", expected, name))
    try:
        text = json.dumps(arm.value, allow_nan=False)
        name.encode(), text.encode()
    except (TypeError, ValueError):
        raise _invalid(must("value", "an arm", "a JSON value", arm.value)) from None
    if len(text) > LONGEST_VALUE:
        expected = f"at most {LONGEST_VALUE} characters of JSON"
        raise _invalid(must("value", "an arm", expected, text))


def _invalid(detail: str) -> Problem:
    return Problem("invalid_request", detail)


def _number(given: dict[str, Any], name: str, low: float, high: float, expected: str) -> float:
    value = given[name]
    if not is_number(value) or not low <= value <= high:
        raise _invalid(must(name, "an experiment", expected, value))
    return float(value)


def _word(given: dict[str, Any], name: str, choices: tuple[str, ...]) -> Any:
    if given[name] not in choices or not isinstance(given[name], str):
        expected = " or ".join(f'"{choice}"' for choice in choices)
        raise _invalid(must(name, "an experiment", expected, given[name]))
    return given[name]


def _cap(given: dict[str, Any], name: str) -> int | None:
    value = given[name]
    if value is not None and (not is_whole(value) or not 0 <= value < 2**31):
        raise _invalid(must(name, "an experiment", "a whole number of at least 0 or null", value))
    return value


def _checked(given: dict[str, Any]) -> Config:
    description = given["description"]
    if not isinstance(description, str) or len(description) > LONGEST_VALUE:
        raise _invalid(must("description", "an experiment", "a text", description))
    try:
        description.encode()
        bounds = checked_bounds(given["bounds"])
    except UnicodeEncodeError:
        expected = "a text without lone surrogates"
        raise _invalid(must("description", "an experiment", expected, description)) from None
    except BothworldsError as error:
        raise _invalid(str(error).replace("of Bandit", "of an experiment")) from None
    window = _number(
        given, "feedback_window", 1.0, LONGEST_WINDOW, "a number of seconds, 1 to 34,560,000"
    )
    floor = _number(given, "floor", 0.0, 1.0, "a number in [0, 1]")
    power = _number(given, "floor_power", 0.0, 1.0, "a number in [0, 1]")
    sticky = _number(
        given, "sticky_seconds", 0.0, window, "a number of seconds within the feedback window"
    )
    missing = _word(given, "missing", ("drop", "default", "deferred"))
    log = _word(given, "log", ("after", "before"))
    default = given["default_loss"]
    if missing != "drop":
        if not is_number(default) or not bounds[0] <= default <= bounds[1]:
            expected = f"a number in [{bounds[0]:g}, {bounds[1]:g}] where missing is {missing!r}"
            raise _invalid(must("default_loss", "an experiment", expected, default))
        if log != "before":
            # A default loss is for decisions in the log: none of them may be missing there.
            expected = f'"before" where missing is {missing!r}'
            raise _invalid(must("log", "an experiment", expected, log))
    elif default is not None and not is_number(default):
        raise _invalid(must("default_loss", "an experiment", "a number or null", default))
    description_of_policy, policy = _policy(given["policy"])
    return Config(
        policy=description_of_policy,
        bounds=bounds,
        feedback_window=window,
        missing=missing,
        default_loss=None if default is None else float(default),
        floor=floor,
        floor_power=power,
        sticky_seconds=sticky,
        log=log,
        unit_cap=_cap(given, "unit_cap"),
        key_cap=_cap(given, "key_cap"),
        description=description,
        served=Floor(policy, floor, power),
    )


def _policy(given: object) -> tuple[Mapping[str, Any], Policy]:
    """Return the description and the policy that a word or a description stands for."""
    try:
        if isinstance(given, str):
            entry, variant = words()[given]
            made = entry.made(variant, horizon=1)
        elif isinstance(given, Mapping):
            made = recreate(json.loads(json.dumps(given)))
        else:
            raise TypeError
        policy = check_served(made)
        return describe(policy, "an experiment"), policy
    except BothworldsError as error:
        raise Problem("policy_not_served", str(error)) from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        expected = 'a word such as "tsallis" or "exp3", or the description of a policy'
        raise Problem(
            "policy_not_served", must("policy", "an experiment", expected, given)
        ) from None
