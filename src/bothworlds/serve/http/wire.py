"""Wire format of the decision service: the JSON of every request and every answer.

Fields that a request does not have are refused, so a misspelt option is never ignored. The
schemas of the OpenAPI document are derived from these classes.
"""

from __future__ import annotations

import inspect
import json
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Meta, UnsetType

from bothworlds import text
from bothworlds.protocol import DECISION_BATCH, FEEDBACK_BATCH
from bothworlds.serve.domain.answers import Decided, Feedback, FeedbackItem, Status
from bothworlds.serve.domain.config import Arm, ArmName, Changeable, ExperimentName
from bothworlds.serve.domain.keys import Scope
from bothworlds.serve.domain.records import MOST_ARMS, MOST_EXPERTS
from bothworlds.serve.domain.rules import LONGEST_TEXT, PLAIN, explained
from bothworlds.serve.problems import Problem

Mode = Literal["learn", "pinned", "uniform", "paused", "shadow", "archived"]
Id = Annotated[str, Meta(min_length=1, max_length=2000)]
# Names are looked up: patterns for them would cost as much as the decision.
Advice = Annotated[dict[str, str | dict[str, float]], Meta(max_length=MOST_EXPERTS)]
Unit = Annotated[str, Meta(min_length=1, max_length=LONGEST_TEXT, pattern=PLAIN)]


COMMON = {
    "after": "Mean loss after the change.",
    "alarms": "Warnings for an operator.",
    "arm": "Name of an arm.",
    "before": "Mean loss before the change.",
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
    "missing_rate": "Share of decisions without feedback, pending ones included; at least.",
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
    "since": "Round of the change, as estimated.",
    "state_age": "Seconds since this replica read the state of its peers.",
    "told": "Number of decisions whose feedback was learned.",
    "value": "Any JSON that the caller stored with the arm.",
    "vector": "Also return the probability of every arm.",
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
    """Ask for several decisions at once."""

    count: Annotated[int, Meta(ge=1, le=DECISION_BATCH)]


class DecidedMany(Answer, kw_only=True):
    """Several decisions."""

    decisions: list[Decided]


class FeedbackMany(Body, kw_only=True):
    """The outcomes of many decisions; all that is accepted is stored in one transaction."""

    items: Annotated[list[FeedbackItem], Meta(min_length=1, max_length=FEEDBACK_BATCH)]


class ToldOfMany(Answer, kw_only=True):
    """Outcome of one feedback of many; if it was refused, the reason."""

    status: Literal[Status, "refused"]
    code: str | None = None
    detail: str | None = None


class ToldMany(Answer, kw_only=True):
    """Outcome of each feedback, in their order."""

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


class ArmState(Answer, kw_only=True):
    """An arm of an experiment."""

    name: str
    status: Literal["active", "retired"]
    value: Any = None
    probability: float | None = None
    decided: int | None = None
    told: int | None = None
    mean_loss: float | None = None
    missing_rate: float | None = None


class ExpertState(Answer, kw_only=True):
    """An expert of an experiment, with its weight in the next decision."""

    name: str
    weight: float | None = None


class PolicyAlarm(Answer, kw_only=True):
    """A change of losses on which the policy has acted: the last of its kind and arm.

    "level": the losses of the leading arm changed, and the policy restarted softly. "side": the
    losses of another arm changed, which is tried again if they fell. "restart": the policy
    restarted; no arm is named.
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
    namespace={"__doc__": "An experiment: settings, arms, and its learned state."},
    module=__name__,
    kw_only=True,
)


class Experiments(Answer, kw_only=True):
    """Experiments of the key's tenant; if there are more, ``after`` of the next request."""

    experiments: list[Experiment]  # type: ignore[valid-type]
    next: str | None = None


class ArmOfSegment(Answer, kw_only=True):
    """An arm in a segment."""

    name: str
    status: Literal["active", "retired"]
    probability: float
    decided: int
    told: int
    mean_loss: float | None = None


class SegmentState(Answer, kw_only=True):
    """A segment, with its learned state."""

    name: str
    created_at: float
    decided: int
    learned: int
    arms: list[ArmOfSegment]


class SegmentsFound(Answer, kw_only=True):
    """Segments of an experiment, those with the most feedback first; ``total`` counts all."""

    total: int
    segments: list[SegmentState]


class Ids(Body, kw_only=True):
    """Feedbacks in quarantine, by the ``id`` that the list shows; all if none is named."""

    ids: Annotated[list[Id], Meta(min_length=1, max_length=10_000)] | None = None


class Moved(Answer, kw_only=True):
    """Number of answers that were released or dropped."""

    count: int


class Quarantined(Answer, kw_only=True):
    """Feedbacks in quarantine."""

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
    """Evaluate flags for someone."""

    context: Context | None = None


class EvaluatedMetadata(Answer, kw_only=True):
    """The decision behind an evaluation; its feedback is reported with decision_id."""

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
    """

    key: str
    reason: Literal["SPLIT", "STATIC", "DISABLED"]
    variant: str
    metadata: EvaluatedMetadata
    value: Any = UNSET


class NotEvaluated(Answer, kw_only=True):
    """Why a flag, or all of them, could not be evaluated."""

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
    """Every flag, evaluated or not."""

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
    """

    token: str
    expires_at: float


class Key(Answer, kw_only=True):
    """A key, without its secret."""

    id: str
    scopes: list[Scope]
    label: str = ""
    created_at: float | None = None
    revoked_at: float | None = None


class KeyMade(Key, kw_only=True):
    """A new key. The secret is returned only once."""

    key: str


class Keys(Answer, kw_only=True):
    """All keys of the tenant."""

    keys: list[Key]


class Rotated(Answer, kw_only=True):
    """The token key that signs from now on."""

    token_key: int


class Audit(Answer, kw_only=True):
    """Changes, oldest first; ``after`` of the next request is the last id."""

    entries: list[dict[str, Any]]


# ---- the service itself


class Health(Answer, kw_only=True):
    """The process answers."""

    status: Literal["ok"]


class ProblemDocument(Answer, kw_only=True):
    """A refusal, as RFC 9457 has it; ``code`` is stable, sentences are not."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    request_id: str


# ---- queries


class DecideQuery(Body, kw_only=True):
    """How a decision is answered."""

    vector: bool = False


class ReportQuery(Body, kw_only=True):
    """Parameters of a report.

    Parameters
    ----------
    target : list of str
        `uniform`, or `arm:` and an arm's name: estimate the mean of this alternative. May be given
        several times.
    """

    confidence: Annotated[float, Meta(ge=0.5, le=0.999)] = 0.95
    target: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=LONGEST_TEXT + 4)]], Meta(max_length=16)
    ] = []


class SegmentsQuery(Body, kw_only=True):
    """How many segments are listed."""

    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class ExportQuery(Body, kw_only=True):
    """Parameters of an export."""

    format: str = "jsonl"
    since: Annotated[float, Meta(ge=0.0, le=1e12)] | None = None


class PageQuery(Body, kw_only=True):
    """One page of a list."""

    after: Annotated[int, Meta(ge=0, le=2**62)] = 0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 1000


class ExperimentsQuery(Body, kw_only=True):
    """One page of the list of experiments; without a limit all of them.

    Parameters
    ----------
    after : str, optional
        The last name of the previous page.
    """

    after: Annotated[str, Meta(max_length=100)] | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] | None = None


class EventsQuery(Body, kw_only=True):
    """From where events are sent."""

    after: Annotated[int, Meta(ge=0, le=2**62)] = 0


# ---- reading


class BodyReader:
    """Decode the JSON of one kind of request.

    Parameters
    ----------
    kind : type
        A `Body`.

    Examples
    --------
    >>> BodyReader(DecideMany).read(b'{"count": 3}').count
    3
    >>> BodyReader(DecideMany).read(b'{"count": 0}')
    Traceback (most recent call last):
    ...
    bothworlds.serve.problems.Problem: The body must fit DecideMany: Expected `int` >= 1 - at ...
    """

    def __init__(self, kind: type[Any]) -> None:
        self.kind = kind
        self._decoder = msgspec.json.Decoder(kind)

    def read(self, body: bytes) -> Any:
        """Return the request in a body."""
        try:
            found = self._decoder.decode(body)
        except msgspec.ValidationError as error:
            raise Problem(
                "invalid_request", f"The body must fit {self.kind.__name__}: {explained(error)}."
            ) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Problem("invalid_json", f"The body must be JSON: {error}.") from None
        except RecursionError:
            raise Problem("invalid_json", "The body must not nest so deeply.") from None
        if body.count(b":") > _fewest_names(found):
            _check_names(body)
        if isinstance(found, Evaluate) and found.context is not None:
            found.context.__dict__["sent"] = msgspec.json.decode(body)["context"]
        if isinstance(found, Feedback):
            one_of_two(found)
        elif isinstance(found, FeedbackMany):
            for place, item in enumerate(found.items):
                one_of_two(item, f" in item {place}")
        return found


def _fewest_names(found: Any) -> int:
    """Return how many names the JSON of a request has at least, repeated ones counted once.

    Every name has a colon: with as many colons, no name is there twice.
    """
    if not isinstance(found, Circumstances) or found.advice is None:
        return 1
    rows = (len(row) for row in found.advice.values() if type(row) is dict)
    return 1 + len(found.advice) + sum(rows) + isinstance(found, DecideMany)


def _check_names(body: bytes) -> None:
    """Refuse JSON in which an object has a name twice: readers differ in which of them counts."""
    if b"\\" not in body:
        # Every second piece is a text, and a name if a colon follows.
        pieces = body.split(b'"')
        pairs = zip(pieces[1::2], pieces[2::2], strict=False)
        names = [text for text, after in pairs if after.lstrip()[:1] == b":"]
        if len(set(names)) == len(names):
            return

    def distinct(pairs: list[tuple[str, Any]]) -> None:
        if len({name for name, _ in pairs}) < len(pairs):
            raise Problem("invalid_json", "An object in the body must not have a name twice.")

    try:
        json.loads(body, object_pairs_hook=distinct)
    except RecursionError:
        raise Problem("invalid_json", "The body must not nest so deeply.") from None


def one_of_two(told: Feedback, where: str = "") -> None:
    """Refuse a feedback without a number, or with two."""
    if (told.loss is UNSET) == (told.reward is UNSET):
        raise Problem("invalid_request", f"Exactly one of loss and reward must be given{where}.")


def query(kind: type[Any], given: list[tuple[str, str]]) -> Any:
    """Return the parameters of a query.

    Examples
    --------
    >>> query(DecideQuery, [("vector", "1")]).vector
    True
    >>> query(DecideQuery, [("vektor", "1")])
    Traceback (most recent call last):
    ...
    bothworlds.serve.problems.Problem: The query must fit DecideQuery: Object contains unknown ...
    """
    lists = [field.name for field in msgspec.structs.fields(kind) if field.default_factory is list]
    found: dict[str, Any] = {}
    for name, value in given:
        if name in lists:
            found.setdefault(name, []).append(value)
        elif name in found:
            raise Problem("invalid_request", "A parameter of the query must not be given twice.")
        else:
            found[name] = value
    try:
        return msgspec.convert(found, kind, strict=False)
    except msgspec.ValidationError as error:
        detail = f"The query must fit {kind.__name__}: {explained(error)}."
        raise Problem("invalid_request", detail) from None


def given(settings: Any) -> dict[str, Any]:
    """Return the fields of a request that were given, by name.

    Examples
    --------
    >>> given(Change(floor=0.1))
    {'floor': 0.1}
    """
    found = {name: getattr(settings, name) for name in settings.__struct_fields__}
    return {name: value for name, value in found.items() if value is not UNSET}


encode = msgspec.json.Encoder().encode
"""JSON of an answer, a mapping or a list."""
