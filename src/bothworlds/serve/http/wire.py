"""Wire format of the decision service: the JSON of every request and every answer.

Fields that a request does not have are refused, so a misspelt option is never ignored. The
schemas of the OpenAPI document are derived from these classes.
"""

from __future__ import annotations

import inspect
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Meta, UnsetType

from bothworlds import text
from bothworlds.protocol import DECISION_BATCH, FEEDBACK_BATCH
from bothworlds.serve.domain.answers import Decided, FeedbackItem, Status
from bothworlds.serve.domain.config import Arm, ArmName, Changeable, ExperimentName
from bothworlds.serve.domain.keys import Scope
from bothworlds.serve.domain.records import MOST_ARMS, MOST_EXPERTS
from bothworlds.serve.domain.rules import LONGEST_TEXT, PLAIN
from bothworlds.serve.problems import Problem

Mode = Literal["learn", "pinned", "uniform", "paused", "shadow", "archived"]
Id = Annotated[str, Meta(min_length=1, max_length=2000)]
# Names are looked up: patterns for them would cost as much as the decision.
Advice = Annotated[dict[str, str | dict[str, float]], Meta(max_length=MOST_EXPERTS)]
Unit = Annotated[str, Meta(min_length=1, max_length=LONGEST_TEXT, pattern=PLAIN)]


COMMON = {
    "alarms": "Warnings for an operator.",
    "arm": "Name of an arm.",
    "arms": "Arms, in the order in which they were added.",
    "bounds": "The smallest and the largest possible loss or reward.",
    "config_version": "Number of changes of the settings and arms; the ETag.",
    "created_at": "Seconds since 1970, UTC.",
    "decided": "Number of decisions.",
    "decision_id": "Id of the decision, which its feedback names.",
    "epoch": "Number of resets: each starts learning again.",
    "expires_at": "When feedback comes too late: seconds since 1970, UTC.",
    "label": "Text shown in the list of keys.",
    "learned": "Number of decisions whose feedback was learned.",
    "loss": "Loss, in the experiment's units; instead of a reward.",
    "mean_loss": "Mean of the learned losses, in the experiment's units.",
    "missing_rate": "Smallest possible share of decisions without feedback; pending ones count.",
    "mode": "How the experiment decides.",
    "next": "Value of `after` for the next page; null on the last one.",
    "pinned_arm": "The arm that every decision returns, in the modes pinned and shadow.",
    "policy_alarms": "Changes of losses on which the policy has acted.",
    "probabilities": "Probability of every arm; sent with `?vector=true`.",
    "probability": "Probability of the arm.",
    "request_id": "The header X-Request-Id of the answer.",
    "revoked_at": "Seconds since 1970, UTC; null for a valid key.",
    "reward": "Reward, in the experiment's units; instead of a loss.",
    "round": "Number of decisions that can be learned from.",
    "scopes": "Requests that the key allows.",
    "segments": "Segments, those with the most feedback first.",
    "state_age": "Seconds since this replica read the state of its peers.",
    "told": "Number of decisions whose feedback was learned.",
    "value": "Any JSON that the caller stored with the arm.",
    "weight": "Weight of the expert in the next decision.",
}
"""Descriptions of fields that mean the same in several classes."""


def descriptions(kind: type[Any]) -> dict[str, str]:
    """Return the descriptions of the fields of a class, from its docstring and those of its bases.

    Examples
    --------
    >>> descriptions(Decide)["unit"]
    'Unit of the decision, such as a user id; stored as a keyed hash.'
    """
    docs = (inspect.cleandoc(each.__doc__ or "") for each in reversed(kind.__mro__))
    settings = inspect.cleandoc(Changeable.__doc__ or "")
    return {**COMMON, **text.descriptions("\n".join((settings, *docs)))}


class Body(msgspec.Struct, forbid_unknown_fields=True):
    """The body or the query of a request."""


class Answer(msgspec.Struct, omit_defaults=True):
    """The body of an answer; fields that are not known are left out."""


# ---- deciding


class Circumstances(Body, kw_only=True):
    """Circumstances of a decision besides the experiment: a segment, or the advice of experts.

    Parameters
    ----------
    segment : str, optional
        Segment of the decision, such as a country; created if it is new.
    advice : dict, optional
        Advice of every expert: an arm, or probabilities of arms that add up to 1.
    asleep : list of str, optional
        Experts without advice in this decision; they neither gain nor lose.
    """

    segment: ArmName | None = None
    advice: Advice | None = None
    asleep: Annotated[list[str], Meta(max_length=MOST_EXPERTS)] | None = None


class Decide(Circumstances, kw_only=True):
    """Ask for a decision; an empty body asks for one among all arms.

    Parameters
    ----------
    available : list of str, optional
        The arms that can be used right now; all by default.
    unit : str, optional
        Unit of the decision, such as a user id; stored as a keyed hash.
    deferred : bool
        Whether the decision counts only once it is activated.
    """

    available: Annotated[list[ArmName], Meta(min_length=1, max_length=MOST_ARMS)] | None = None
    unit: Unit | None = None
    deferred: bool = False


class DecideMany(Circumstances, kw_only=True):
    """Ask for several decisions at once.

    Parameters
    ----------
    count : int
        How many decisions to make.
    """

    count: Annotated[int, Meta(ge=1, le=DECISION_BATCH)]


class DecidedMany(Answer, kw_only=True):
    """Several decisions.

    Parameters
    ----------
    decisions : list
        The decisions, in the order in which they were drawn.
    """

    decisions: list[Decided]


class FeedbackMany(Body, kw_only=True):
    """The outcomes of many decisions; all that is accepted is stored in one transaction.

    Parameters
    ----------
    items : list
        Outcomes, each with the id of its decision.
    """

    items: Annotated[list[FeedbackItem], Meta(min_length=1, max_length=FEEDBACK_BATCH)]


class ToldOfMany(Answer, kw_only=True):
    """Outcome of one feedback of many; if it was refused, the reason.

    Parameters
    ----------
    status : str
        "learned"; "duplicate": the same outcome was reported before; "quarantined": held back by a
        cap; "not_learnable": stored, not learned, because the policy did not draw the arm;
        "refused": not stored.
    code : str, optional
        Code of a refusal.
    detail : str, optional
        Reason of a refusal, as a sentence.
    """

    status: Literal[Status, "refused"]
    code: str | None = None
    detail: str | None = None


class ToldMany(Answer, kw_only=True):
    """Answer to the outcomes of many decisions.

    Parameters
    ----------
    results : list
        Outcome of each feedback, in the order of the request.
    """

    results: list[ToldOfMany]


# ---- experiments


class NewArm(Arm, kw_only=True, frozen=True):
    """An arm to add.

    Parameters
    ----------
    probability : float, optional
        Initial probability; 1 / K by default.
    """

    probability: Annotated[float, Meta(gt=0.0, lt=1.0)] | None = None


Change = msgspec.defstruct(
    "Change",
    [
        (field.name, Union[field.type, UnsetType], UNSET)  # noqa: UP007
        for field in msgspec.structs.fields(Changeable)
    ],
    bases=(Body,),
    namespace={"__doc__": f"Settings to change.{(Changeable.__doc__ or '').partition('.')[2]}"},
    module=__name__,
    kw_only=True,
)
"""The settings of `Changeable`, none of them required and without defaults."""


class Pin(Body, kw_only=True):
    """The arm that every decision returns; in shadow mode the policy's draw is logged."""

    arm: ArmName


class NamedArm(Answer, kw_only=True):
    """An arm by name.

    Parameters
    ----------
    name : str
        Name of the arm.
    status : str
        "active", or "retired": no longer drawn.
    """

    name: str
    status: Literal["active", "retired"]


class ArmState(NamedArm, kw_only=True):
    """An arm of an experiment."""

    value: Any = None
    probability: float | None = None
    decided: int | None = None
    told: int | None = None
    mean_loss: float | None = None
    missing_rate: float | None = None


class ExpertState(Answer, kw_only=True):
    """An expert of an experiment, with its weight in the next decision.

    Parameters
    ----------
    name : str
        Name of the expert.
    """

    name: str
    weight: float | None = None


class PolicyAlarm(Answer, kw_only=True):
    """A change of losses on which the policy has acted: the last of its kind and arm.

    "level": the losses of the leading arm changed, and the policy restarted softly. "side": the
    losses of another arm changed, which is tried again if they fell. "restart": the policy
    restarted; no arm is named.

    Parameters
    ----------
    kind : str
        What changed, and how the policy reacted.
    round : int
        Round in which the policy acted.
    arm : str, optional
        Arm whose losses changed.
    confidence : float, optional
        1 minus the probability of a false alarm in a whole run at this threshold.
    before : float, optional
        Mean loss of the arm before the change, in the experiment's units.
    after : float, optional
        Mean loss of the arm after the change, in the experiment's units.
    since : int, optional
        Number of outcomes of the arm since the change, as estimated.
    """

    kind: Literal["level", "side", "restart"]
    round: int
    arm: str | None = None
    confidence: float | None = None
    before: float | None = None
    after: float | None = None
    since: int | None = None


def _optional(kind: Any) -> Any:
    """Return the type of a setting without its rules, or None."""
    if get_origin(kind) is Annotated:
        return _optional(get_args(kind)[0])
    kinds = get_args(kind) if type(None) in get_args(kind) else ()
    return Union[(*map(_optional, kinds), None)] if kinds else Union[kind, None]  # noqa: UP007


_EXPERIMENT = """An experiment: settings, arms, and its learned state.

Parameters
----------
name : str
    Name of the experiment.
policy : dict
    Description of the policy, as in state files.
experts : list
    Experts whose advice the policy weighs; empty without experts.
segments : int
    Number of segments.
"""

Experiment = msgspec.defstruct(
    "Experiment",
    [
        ("name", str),
        ("arms", list[ArmState]),
        ("policy", Any),
        ("bounds", tuple[float, float]),
        ("mode", Mode),
        ("epoch", int),
        ("config_version", int),
        ("round", int),
        ("alarms", list[str]),
        ("learned", int | None, None),
        ("experts", list[ExpertState] | None, None),
        ("policy_alarms", list[PolicyAlarm] | None, None),
        ("segments", int | None, None),
        *(
            (field.name, _optional(field.type), None)
            for field in msgspec.structs.fields(Changeable)
        ),
        ("pinned_arm", str | None, None),
        ("created_at", float | None, None),
        ("state_age", float | None, None),
    ],
    bases=(Answer,),
    namespace={"__doc__": _EXPERIMENT},
    module=__name__,
    kw_only=True,
)


class Experiments(Answer, kw_only=True):
    """Experiments of the key's tenant; if there are more, ``after`` of the next request.

    Parameters
    ----------
    experiments : list
        Experiments in the order in which they were created.
    """

    experiments: list[Experiment]  # type: ignore[valid-type]
    next: str | None = None


class ArmOfSegment(NamedArm, kw_only=True):
    """An arm in a segment."""

    probability: float
    decided: int
    told: int
    mean_loss: float | None = None


class SegmentState(Answer, kw_only=True):
    """A segment, with its learned state.

    Parameters
    ----------
    name : str
        Name of the segment.
    """

    name: str
    created_at: float
    decided: int
    learned: int
    arms: list[ArmOfSegment]


class SegmentsFound(Answer, kw_only=True):
    """Segments of an experiment, those with the most feedback first; ``total`` counts all.

    Parameters
    ----------
    total : int
        Number of all segments of the experiment.
    """

    total: int
    segments: list[SegmentState]


class Ids(Body, kw_only=True):
    """Feedback in quarantine to release or to drop.

    Parameters
    ----------
    ids : list of str, optional
        The `id` of each, as the list shows it; all by default.
    """

    ids: Annotated[list[Id], Meta(min_length=1, max_length=10_000)] | None = None


class Moved(Answer, kw_only=True):
    """Result of a release or a drop.

    Parameters
    ----------
    count : int
        Number of answers that were released or dropped.
    """

    count: int


class Quarantined(Answer, kw_only=True):
    """Feedback in quarantine.

    Parameters
    ----------
    items : list
        Answers, oldest first: arm, loss, unit, key and time of each. At most 1,000.
    """

    items: list[dict[str, Any]]


# ---- OpenFeature


class Context(msgspec.Struct, kw_only=True, dict=True):
    """Evaluation context that an OpenFeature provider sends.

    Of all other fields, only the one that ``segment_key`` of an experiment names is used.

    Parameters
    ----------
    targeting_key : str, optional
        Unit of the decision, such as a user id.
    advice : dict, optional
        Advice of every expert, as in the request of a decision.
    asleep : list of str, optional
        Experts without advice.
    """

    targeting_key: Annotated[str, Meta(max_length=LONGEST_TEXT)] | None = msgspec.field(
        name="targetingKey", default=None
    )
    advice: dict[str, Any] | None = None
    asleep: list[str] | None = None

    def field(self, name: str | None) -> Any:
        """Return any field, by the name that the caller sent it under; None if there is none."""
        return self.__dict__.get("sent", {}).get(name)


class Evaluate(Body, kw_only=True):
    """Evaluate flags in a context.

    Parameters
    ----------
    context : dict, optional
        Evaluation context of OpenFeature.
    """

    context: Context | None = None


class EvaluatedMetadata(Answer, kw_only=True):
    """The decision behind an evaluation; its feedback is reported with decision_id.

    Parameters
    ----------
    experiment : str
        Name of the experiment.
    """

    experiment: str
    mode: Mode
    decision_id: str | None = None
    probability: float | None = None
    expires_at: float | None = None


class Evaluated(Answer, kw_only=True):
    """A flag that was evaluated; without a value, the caller's default is to be used.

    Parameters
    ----------
    variant : str
        The arm.
    value : object
        Value of the arm, or its name if it has no value.
    key : str
        Key of the flag: the name of the experiment.
    reason : str
        "SPLIT": drawn; "STATIC": pinned; "DISABLED": the experiment is paused or archived.
    metadata : dict
        The decision behind the evaluation.
    """

    key: str
    reason: Literal["SPLIT", "STATIC", "DISABLED"]
    variant: str
    metadata: EvaluatedMetadata
    value: Any = UNSET


class NotEvaluated(Answer, kw_only=True):
    """Why a flag, or all of them, could not be evaluated.

    Parameters
    ----------
    error_code : str
        Code of OpenFeature.
    error_details : str
        Reason, as a sentence.
    key : str, optional
        Key of the flag.
    """

    error_code: Literal[
        "PARSE_ERROR", "INVALID_CONTEXT", "TARGETING_KEY_MISSING", "FLAG_NOT_FOUND", "GENERAL"
    ] = msgspec.field(name="errorCode")
    error_details: str = msgspec.field(name="errorDetails")
    key: str | None = None


_CODES_OF_OPENFEATURE = {
    "invalid_json": "PARSE_ERROR",
    "invalid_request": "INVALID_CONTEXT",
    "advice_missing": "INVALID_CONTEXT",
    "advice_invalid": "INVALID_CONTEXT",
    "targeting_key_missing": "TARGETING_KEY_MISSING",
    "experiment_not_found": "FLAG_NOT_FOUND",
}


def not_evaluated(problem: Problem, key: str | None = None) -> NotEvaluated:
    """Return a refusal as OpenFeature's remote evaluation has it.

    Examples
    --------
    >>> not_evaluated(Problem("experiment_not_found"), "headline").error_code
    'FLAG_NOT_FOUND'
    >>> not_evaluated(Problem("overloaded")).error_code
    'GENERAL'
    """
    return NotEvaluated(
        key=key,
        error_code=_CODES_OF_OPENFEATURE.get(problem.code, "GENERAL"),  # type: ignore[arg-type]
        error_details=problem.detail,
    )


class EvaluatedAll(Answer, kw_only=True):
    """Every flag, evaluated or not.

    Parameters
    ----------
    flags : list
        Every running experiment of the tenant as a flag.
    """

    flags: list[Any]


# ---- keys and audit


class NewKey(Body, kw_only=True):
    """A key to create."""

    scopes: Annotated[list[Scope], Meta(min_length=1, max_length=4)]
    label: Annotated[str, Meta(max_length=LONGEST_TEXT)] = ""


class NewDecideToken(Body, kw_only=True):
    """A decide token to mint, for a web page.

    Parameters
    ----------
    experiment : str, optional
        Experiment that the token is limited to; by default all experiments of the key.
    seconds : float
        How long it is valid.
    """

    experiment: ExperimentName | None = None
    seconds: Annotated[float, Meta(ge=1.0, le=3600.0)] = 600.0


class DecideToken(Answer, kw_only=True):
    """A decide token: to be sent like a key until it expires.

    Parameters
    ----------
    expires_at : float
        Seconds since 1970.
    token : str
        The token, for the header Authorization.
    """

    token: str
    expires_at: float


class Key(Answer, kw_only=True):
    """A key, without its secret.

    Parameters
    ----------
    id : str
        Public part of the key, which names it in lists and in the audit log.
    """

    id: str
    scopes: list[Scope]
    label: str = ""
    created_at: float | None = None
    revoked_at: float | None = None


class KeyMade(Key, kw_only=True):
    """A new key. The secret is returned only once.

    Parameters
    ----------
    key : str
        The whole key, with its secret.
    """

    key: str


class Keys(Answer, kw_only=True):
    """All keys of the tenant.

    Parameters
    ----------
    keys : list
        Keys, revoked ones included.
    """

    keys: list[Key]


class Rotated(Answer, kw_only=True):
    """The token key that signs from now on.

    Parameters
    ----------
    token_key : int
        Number of the token key.
    """

    token_key: int


class Audit(Answer, kw_only=True):
    """Changes, oldest first; ``after`` of the next request is the last id.

    Parameters
    ----------
    entries : list
        Changes, each with its time, the key behind it, and the values that it set.
    """

    entries: list[dict[str, Any]]


# ---- the service itself


class Health(Answer, kw_only=True):
    """The process answers.

    Parameters
    ----------
    status : str
        Always ok.
    """

    status: Literal["ok"]


class ProblemDocument(Answer, kw_only=True):
    """A refusal, as RFC 9457 has it; ``code`` is stable, sentences are not.

    Parameters
    ----------
    type : str
        The code as a URN.
    title : str
        What happened, the same for every refusal with this code.
    status : int
        Status of the response.
    detail : str
        What happened in this request, and what to do.
    code : str
        Stable code, for programs.
    """

    type: str
    title: str
    status: int
    detail: str
    code: str
    request_id: str


# ---- queries


class DecideQuery(Body, kw_only=True):
    """How a decision is answered.

    Parameters
    ----------
    vector : bool
        Also return the probability of every arm.
    """

    vector: bool = False


class ReportQuery(Body, kw_only=True):
    """Parameters of a report.

    Parameters
    ----------
    target : list of str
        `uniform`, or `arm:` and an arm's name: estimate the mean of this alternative. May be given
        several times.
    confidence : float
        Confidence of the intervals; 0.95 by default.
    """

    confidence: Annotated[float, Meta(ge=0.5, le=0.999)] = 0.95
    target: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=LONGEST_TEXT + 4)]], Meta(max_length=16)
    ] = []


class SegmentsQuery(Body, kw_only=True):
    """How many segments are listed.

    Parameters
    ----------
    limit : int
        Number of segments listed, at most; 100 by default.
    """

    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class ExportQuery(Body, kw_only=True):
    """Parameters of an export.

    Parameters
    ----------
    format : str
        `jsonl` (by default), `csv`, `vw` or `parquet`.
    since : float, optional
        Leave out decisions made before this time: seconds since 1970, UTC.
    """

    format: str = "jsonl"
    since: Annotated[float, Meta(ge=0.0, le=1e12)] | None = None


class PageQuery(Body, kw_only=True):
    """One page of a list.

    Parameters
    ----------
    after : int
        Id of the last entry of the previous page.
    limit : int
        Number of entries listed, at most; 1,000 by default.
    """

    after: Annotated[int, Meta(ge=0, le=2**62)] = 0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 1000


class ExperimentsQuery(Body, kw_only=True):
    """One page of the list of experiments; without a limit all of them.

    Parameters
    ----------
    after : str, optional
        The last name of the previous page.
    limit : int, optional
        Number of experiments listed, at most; all by default.
    """

    after: Annotated[str, Meta(max_length=100)] | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] | None = None


class EventsQuery(Body, kw_only=True):
    """From where events are sent.

    Parameters
    ----------
    after : int
        Id of the last event received; the header Last-Event-ID overrides it.
    """

    after: Annotated[int, Meta(ge=0, le=2**62)] = 0


encode = msgspec.json.Encoder().encode
"""JSON of an answer, a mapping or a list."""
