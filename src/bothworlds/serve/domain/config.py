"""Settings of an experiment, each defined once, with its rules.

`Changeable` is the list of settings. The request that creates an experiment, the PATCH, the answer,
the stored document, the OpenAPI document and docs/service/api.md all follow from it: a new setting
is a field here, and the code that obeys it.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from bothworlds.arguments import checked_bounds, is_number, is_whole, real
from bothworlds.bandit.borrowed import is_sum
from bothworlds.bandit.feedback import loss_within
from bothworlds.bandit.state_file import describe, recreate
from bothworlds.errors import BothworldsError, InvalidParameter, must
from bothworlds.policies.base import Policy
from bothworlds.policies.floor import Floor
from bothworlds.registry import words
from bothworlds.serve.domain import advised, folds
from bothworlds.serve.domain.draws import check_served
from bothworlds.serve.domain.folds import Order
from bothworlds.serve.domain.records import MOST_ARMS, MOST_EXPERTS
from bothworlds.serve.domain.rules import (
    EXPERIMENT_NAME,
    LONGEST_TEXT,
    PLAIN,
    check_experiment_name,
    check_name,
    explained,
)
from bothworlds.serve.problems import Problem

LONGEST_VALUE = 10_000
"""Characters of the JSON that an arm carries."""
LONGEST_WINDOW = 400 * 86_400.0
"""The longest feedback window, in seconds."""

S = TypeVar("S", bound="ExperimentSettings")
ExperimentName = Annotated[str, Meta(pattern=EXPERIMENT_NAME, max_length=100)]
ArmName = Annotated[str, Meta(min_length=1, max_length=LONGEST_TEXT, pattern=PLAIN)]
Cap = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
Seconds = Annotated[float, Meta(le=LONGEST_WINDOW)]
MOST_SEGMENTS = 10_000
"""The largest number of segments that an experiment can keep."""


class Arm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An arm and its value, any JSON.

    Parameters
    ----------
    name : str
        Name of the arm, unique in its experiment; it cannot be used again later.
    """

    name: ArmName
    value: Any = None


class Changeable(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Settings of an experiment that can be changed later.

    Parameters
    ----------
    feedback_window : float
        Seconds after which feedback comes too late; a week by default.
    missing : str
        How a decision without feedback counts. drop: not at all; default: with the default loss;
        deferred: likewise, except decisions that were deferred and never activated.
    default_loss : float, optional
        Loss of a decision without feedback, in the experiment's units; see missing.
    floor : float
        Exploration floor: every arm has at least floor * round ** -floor_power / K; 0 by default.
    floor_power : float
        See floor; 1/3 by default.
    min_share : dict
        Smallest probability of the arms named; 0 for other arms.
    max_share : dict
        Largest probability of the arms named; 1 for other arms.
    control : str, optional
        The arm whose probability is control_share.
    control_share : float
        See control; 0.1 by default.
    sticky_seconds : float
        How long a unit receives the same decision again; 0 for never.
    log : str
        Whether a decision is logged after or before it is answered.
    unit_cap : int, optional
        Number of answers of one unit that are learned in an hour; the rest is quarantined.
    key_cap : int, optional
        The same for all feedback reported with one key.
    max_segments : int
        Number of segments kept; above it, the least recently used one is evicted. 1,000 by
        default, 0 for no segments.
    segment_prior : int
        Number of answers that all other segments together count as in a segment; 100 by default,
        0 for segments that learn alone.
    segment_key : str, optional
        Field of an OpenFeature context that names the segment.
    description : str
        Text shown on the dashboard.
    """

    feedback_window: Annotated[Seconds, Meta(ge=1.0)] = 7 * 86_400.0
    missing: Literal["drop", "default", "deferred"] = "drop"
    default_loss: float | None = None
    floor: Share = 0.0
    floor_power: Share = 1.0 / 3.0
    min_share: dict[ArmName, Share] = {}
    max_share: dict[ArmName, Share] = {}
    control: ArmName | None = None
    control_share: Share = 0.1
    sticky_seconds: Annotated[Seconds, Meta(ge=0.0)] = 0.0
    log: Literal["after", "before"] = "after"
    unit_cap: Cap | None = None
    key_cap: Cap | None = None
    max_segments: Annotated[int, Meta(ge=0, le=MOST_SEGMENTS)] = 1000
    segment_prior: Annotated[int, Meta(ge=0, le=1_000_000)] = 100
    segment_key: ArmName | None = None
    description: Annotated[str, Meta(max_length=2000)] = ""


class ExperimentSettings(Changeable, kw_only=True, frozen=True):
    """All settings of an experiment.

    Parameters
    ----------
    policy : str or dict
        A word such as "tsallis", "allworlds" or "tsallis-v", or the description of a policy as in
        state files.
    bounds : tuple of float
        The smallest and the largest possible loss or reward; 0 and 1 by default, cannot be changed
        later.
    experts : tuple of str
        Models or rules whose advice comes with every decision; the policy weighs them instead of
        the arms. None by default, cannot be changed later.
    """

    policy: str | dict[str, Any] = "tsallis"
    bounds: tuple[float, float] = (0.0, 1.0)
    experts: Annotated[tuple[ArmName, ...], Meta(max_length=MOST_EXPERTS)] = ()


class NewExperiment(ExperimentSettings, frozen=True):
    """An experiment to create.

    Parameters
    ----------
    name : str
        Name of the experiment, unique among those of the tenant; part of its addresses.
    arms : list
        Each arm is a name, or a name with a value.
    """

    name: ExperimentName
    arms: Annotated[Sequence[Arm | ArmName], Meta(min_length=2, max_length=MOST_ARMS)]


CHANGEABLE = Changeable.__struct_fields__
"""Names of the settings that can be changed after an experiment was created."""


class Config(ExperimentSettings, frozen=True, dict=True):
    """The settings of an experiment, checked; ``policy`` is the description of one."""

    @cached_property
    def learner(self) -> Policy:
        """The policy, without its floor."""
        return _policy(self.policy)[1]

    @cached_property
    def served(self) -> Policy:
        """The policy with its floor; where arms have shares, for two that have none."""
        return self.among(("", ""))

    @property
    def limited(self) -> bool:
        """Whether arms have shares."""
        return bool(self.min_share or self.max_share or self.control is not None)

    def among(self, names: Sequence[str]) -> Policy:
        """Return the policy that draws from some arms, with its floor and their shares.

        Raises
        ------
        InvalidParameter
            If no distribution of these arms can have their shares.
        """
        if not self.limited:
            return Floor(self.learner, self.floor, self.floor_power) if self.floor else self.learner
        return Floor(
            self.learner, self.floor, self.floor_power,
            [self.min_share.get(name, 0.0) for name in names],
            [self.max_share.get(name, 1.0) for name in names],
            names.index(self.control) if self.control in names else None,
            self.control_share,
        )  # fmt: skip

    def check_shares(self, known: Sequence[str], active: Sequence[str]) -> None:
        """Refuse shares of arms that are unknown, or that no distribution can have.

        Raises
        ------
        Problem
            ``invalid_request``, in one sentence.
        """
        for name in (*self.min_share, *self.max_share):
            if name not in known:
                raise _invalid(f"The arm {name!r} of min_share or max_share does not exist.")
        if self.control is not None and self.control not in active:
            raise _invalid(f"The control {self.control!r} must be an active arm.")
        try:
            self.among(active)
        except BothworldsError as error:
            raise _invalid(in_experiment(error)) from None

    @cached_property
    def order(self) -> Order | None:
        """How feedback is folded, where the policy learns in order."""
        if is_sum(self.learner):
            return None
        if not self.learner.traits.unbounded:
            return Order(self.learner)
        low, high = self.bounds
        return Order(self.learner, low, high - low)

    def check_segments(self) -> None:
        """Refuse decisions in segments if there can be none."""
        why = None
        if self.experts:
            why = "experts can give other advice in every segment instead"
        elif self.order is not None:
            why = f"the policy {self.learner!r} learns in the order of all feedback"
        elif self.max_segments == 0:
            why = "max_segments is 0"
        if why is not None:
            raise _invalid(f"This experiment cannot have segments: {why}.")

    @property
    def warm(self) -> bool:
        """Whether decisions can be made without the compiler."""
        ready = folds.is_warm(self.served, self._folded)
        return ready and (not self.experts or advised.is_warm())

    def warm_up(self) -> None:
        """Compile or load the code for decisions, in a waiting thread."""
        folds.warm(self.served, self._folded)
        if self.experts:
            advised.warm()

    @property
    def _folded(self) -> Policy | None:
        return None if self.order is None else self.learner

    def document(self) -> dict[str, Any]:
        """Return it as JSON values."""
        found = msgspec.structs.asdict(self)
        return {
            "policy": found.pop("policy"), "bounds": list(found.pop("bounds")),
            "experts": list(found.pop("experts")), **found,
        }  # fmt: skip

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Config:
        """Return the configuration that `document` described.

        A setting that is newer than the document has its default. Limits are not checked: they may
        have become stricter since.
        """
        rules = _shared(json.dumps({**document, "description": ""}, sort_keys=True))
        description = document.get("description")
        return msgspec.structs.replace(rules, description=description) if description else rules

    def changed(self, changes: Mapping[str, Any]) -> Config:
        """Return the configuration with some changes.

        Raises
        ------
        Problem
            ``invalid_request`` if a setting cannot be changed or its value is not valid.
        """
        for name in changes:
            if name not in CHANGEABLE:
                listed = ", ".join(sorted(CHANGEABLE))
                raise _invalid(f"The field {name!r} cannot be changed; these can: {listed}.")
        return _checked(msgspec.structs.replace(self, **changes))

    def default(self) -> float | None:
        """Return the default loss in [0, 1]."""
        if self.default_loss is None:
            return None
        return loss_within(self.bounds, None, self.default_loss)


@functools.lru_cache(maxsize=1024)
def _shared(text: str) -> Config:
    """Return the settings of a document, one object for all experiments that have the same.

    Every decision reads them: what a thousand experiments share stays in the processor's caches.
    """
    document = json.loads(text)
    known = {name: document[name] for name in Config.__struct_fields__ if name in document}
    pairs = {"bounds": document["bounds"], "experts": document.get("experts", ())}
    return Config(**{**known, **{name: tuple(value) for name, value in pairs.items()}})


def checked(spec: NewExperiment) -> tuple[Config, tuple[Arm, ...]]:
    """Return the configuration and the arms of an experiment to create.

    Raises
    ------
    Problem
        ``policy_not_served``, or ``invalid_request``, in one sentence.

    Examples
    --------
    >>> config, arms = checked(NewExperiment("headline", [Arm("a"), Arm("b")]))
    >>> config.served
    TsallisINF()
    """
    policy = _policy(spec.policy)[0]
    check_experiment_name(spec.name)
    arms = tuple(Arm(arm) if isinstance(arm, str) else arm for arm in spec.arms)
    for arm in arms:
        check_arm(arm)
    _check_distinct("arms", [arm.name for arm in arms])
    spec = _fitting(msgspec.structs.replace(spec, policy=policy), NewExperiment)
    given = {name: getattr(spec, name) for name in Config.__struct_fields__}
    config, names = _checked(Config(**given)), [arm.name for arm in arms]
    config.check_shares(names, names)
    return config, arms


def in_experiment(error: BothworldsError) -> str:
    """Return a sentence about the shares of a policy as one about those of an experiment."""
    return str(error).replace("of Floor", "of an experiment")


def _check_distinct(field: str, names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise _invalid(must(field, "an experiment", "of distinct names", repeated))


def check_arm(arm: Arm) -> None:
    """Refuse an arm whose name is not printable or whose value is not short JSON."""
    check_name(arm.name, "name of an arm")
    try:
        text = json.dumps(arm.value, allow_nan=False)
    except (TypeError, ValueError):
        raise _invalid(must("value", "an arm", "a JSON value", arm.value)) from None
    if len(text) > LONGEST_VALUE:
        expected = f"at most {LONGEST_VALUE} characters of JSON"
        raise _invalid(must("value", "an arm", expected, text))


def _invalid(detail: str) -> Problem:
    return Problem("invalid_request", detail)


def _fitting(settings: S, kind: type[S]) -> S:
    """Return settings with every value checked by the rules of its field."""
    try:
        return msgspec.convert(msgspec.to_builtins(settings, enc_hook=_plain), kind)
    except (msgspec.ValidationError, TypeError) as error:
        raise _invalid(
            f"The settings of an experiment must fit their schema: {explained(error)}."
        ) from None


def _plain(value: object) -> float:
    """Return a number of NumPy, for one, as a number of Python."""
    number = real(value)
    if number is None:
        raise TypeError(f"Expected JSON, got `{type(value).__name__}`")
    return int(number) if is_whole(value) else number


def _checked(config: Config) -> Config:
    """Return a configuration whose settings are valid, each and together."""
    config = _fitting(config, Config)
    try:
        config.description.encode()
        bounds = checked_bounds(config.bounds)
    except UnicodeEncodeError:
        expected = "a text without lone surrogates"
        raise _invalid(must("description", "an experiment", expected, config.description)) from None
    except BothworldsError as error:
        raise _invalid(str(error).replace("of Bandit", "of an experiment")) from None
    try:
        config.served  # noqa: B018
    except BothworldsError as error:
        raise _invalid(str(error).replace("of Floor", "of an experiment with a floor")) from None
    if config.experts and config.limited:
        raise _invalid("An experiment with experts takes no shares: the experts' advice decides.")
    for name in config.experts:
        check_name(name, "name of an expert")
    _check_distinct("experts", config.experts)
    if config.experts:
        try:
            advised.check_advised(config.served)
        except BothworldsError as error:
            raise Problem("policy_not_served", str(error)) from None
    if config.segment_key is not None:
        check_name(config.segment_key, "segment_key of an experiment")
        config.check_segments()
    if config.sticky_seconds > config.feedback_window:
        expected = "a number of seconds within the feedback window"
        raise _invalid(must("sticky_seconds", "an experiment", expected, config.sticky_seconds))
    missing, default = config.missing, config.default_loss
    if default is not None and not is_number(default):
        raise _invalid(must("default_loss", "an experiment", "a finite number or null", default))
    if missing != "drop":
        if default is None or not bounds[0] <= default <= bounds[1]:
            expected = f"a number in [{bounds[0]:g}, {bounds[1]:g}] where missing is {missing!r}"
            raise _invalid(must("default_loss", "an experiment", expected, default))
        if config.log != "before":
            # A default loss is for decisions in the log: none of them may be missing there.
            expected = f'"before" where missing is {missing!r}'
            raise _invalid(must("log", "an experiment", expected, config.log))
    return config


def _policy(given: object) -> tuple[dict[str, Any], Policy]:
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
        if isinstance(policy, Floor) and policy.limited:
            expected = "one without shares; the experiment has min_share, max_share and control"
            raise InvalidParameter(must("policy", "an experiment", expected, policy))
        return describe(policy, "an experiment"), policy
    except BothworldsError as error:
        raise Problem("policy_not_served", str(error)) from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        expected = 'a word such as "tsallis" or "allworlds", or the description of a policy'
        raise Problem(
            "policy_not_served", must("policy", "an experiment", expected, given)
        ) from None
