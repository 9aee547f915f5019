"""Calls of the client: their requests, the meaning of their answers, and retries.

Nothing here waits or touches a socket. `attempts` is the one loop of both clients: it yields what
to do next, a request to send or a pause, and receives what came of it.
"""

from __future__ import annotations

import json
import math
import random
import time
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote, urlencode

from bothworlds.arguments import is_name, positive, real
from bothworlds.client.exchange import Endpoint, Malformed, Response, visible
from bothworlds.errors import InvalidFeedback, ServiceAway, ServiceError, invalid, must
from bothworlds.protocol import FEEDBACK_BATCH, RETRYABLE

T = TypeVar("T")
Advice = Mapping[str, str | Mapping[str, float]]
"""For every expert the arm that it recommends, or probabilities of arms."""
Told = Literal["learned", "duplicate", "quarantined", "not_learnable", "default"]
Action = Literal["pin", "uniform", "pause", "resume", "archive", "reset", "shadow"]

AWAY = RETRYABLE | {"internal", "away"}
"""Codes of temporary faults, which do not depend on the request."""
STATUSES = frozenset({"learned", "duplicate", "quarantined", "not_learnable"})
"""Outcomes of feedback in the service."""
_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 1.0


@dataclass(frozen=True)
class Decision:
    """A decision of the service, or the default that stands in for it.

    Parameters
    ----------
    experiment : str
        Whose it is.
    arm : str
        What to use.
    value : object
        What the arm carries, None if nothing.
    decision_id : str or None
        What feedback names; None for a default.
    probability : float or None
        How likely the arm was; None for a default.
    round : int or None
        The round; None for a default.
    mode : str
        ``"learn"``, ``"pinned"``, ``"uniform"``, ``"shadow"``, or ``"default"``.
    expires_at : float or None
        Seconds since 1970 after which feedback is refused.
    probabilities : mapping of str to float, optional
        How likely every arm was, where that was asked for.
    experts : mapping of str to float, optional
        The weight of every expert, where that was asked for.
    away : ServiceError, optional
        Why this is a default.
    """

    experiment: str
    arm: str
    value: Any = None
    decision_id: str | None = None
    probability: float | None = None
    round: int | None = None
    mode: str = "default"
    expires_at: float | None = None
    probabilities: Mapping[str, float] | None = None
    experts: Mapping[str, float] | None = None
    away: ServiceError | None = field(default=None, compare=False)

    @property
    def default(self) -> bool:
        """Whether the service was away: nothing can be learned from this decision."""
        return self.decision_id is None


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request and how to read its answer.

    Parameters
    ----------
    method, path : str
        Of the request.
    answer : callable
        Makes the result of the decoded JSON, None for an empty answer.
    document : object, optional
        Sent as JSON.
    headers : dict of str to str
        Besides those of every request.
    repeatable : bool
        Whether it may be sent again although the first one may have been carried out.
    """

    method: str
    path: str
    answer: Callable[[Any], T]
    document: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    repeatable: bool = True

    def request(self, endpoint: Endpoint, key: str | None) -> bytes:
        """Return the request as bytes."""
        body = None if self.document is None else json.dumps(self.document).encode()
        headers = {"Accept": "application/json", **self.headers}
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        return endpoint.request(self.method, self.path, headers, body)


@dataclass(frozen=True)
class Send:
    """Send the request and wait for its answer, until ``deadline`` of the monotonic clock."""

    deadline: float


@dataclass(frozen=True)
class Pause:
    """Wait this many seconds."""

    seconds: float


@dataclass(frozen=True)
class Failure:
    """No answer came.

    Parameters
    ----------
    reason : str
        Completes "The service at X ...".
    sent : bool
        Whether the service may have carried the request out.
    late : bool
        Whether the time was up.
    """

    reason: str
    sent: bool
    late: bool = False


Steps = Generator[Send | Pause, Response | Failure | None, T]


def attempts(call: Call[T], endpoint: Endpoint, seconds: float, retries: int) -> Steps[T]:
    """Yield the next step until the call has its answer, within a budget of seconds.

    A request is sent again after an answer that only speaks of the moment and after a failed
    connection. If the call is repeatable, also after a lost answer and after one that this service
    did not write, such as the page of a proxy.
    """
    begun = time.monotonic()
    deadline = begun + seconds
    pause = _FIRST_PAUSE
    for attempt in range(retries + 1):
        outcome = yield Send(deadline)
        assert outcome is not None
        wanted = 0.0
        if isinstance(outcome, Response):
            try:
                error = refusal(outcome)
                if error is None:
                    return call.answer(decoded(outcome))
            except Malformed as foreign:
                error = foreign_answer(outcome, str(foreign))
            if error.code not in AWAY:
                raise error
            again = call.repeatable or error.code in RETRYABLE
            wanted = real(_number(outcome.headers.get("retry-after"))) or 0.0
        else:
            where = f"{endpoint.host}:{endpoint.port}"
            error = ServiceAway(f"The service at {where} {outcome.reason}.", "away")
            again = not outcome.late and (call.repeatable or not outcome.sent)
        # Full jitter: clients that failed together do not come back together.
        delay = max(wanted, random.uniform(0.0, pause))
        if not again or attempt == retries or time.monotonic() + delay >= deadline:
            raise error
        yield Pause(delay)
        pause = min(2.0 * pause, _LONGEST_PAUSE)
    raise AssertionError("unreachable")


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def decoded(response: Response) -> Any:
    """Return the JSON of an answer, None if it is empty."""
    if not response.body:
        return None
    try:
        return json.loads(response.body)
    except (ValueError, RecursionError):
        raise Malformed("something that is not JSON") from None


def refusal(response: Response) -> ServiceError | None:
    """Return the error with which the service answered, None after success."""
    if response.status < 300:
        return None
    if response.status < 400:
        raise Malformed("a redirection")
    document = record(decoded(response))
    code, detail = text(document, "code"), text(document, "detail")
    kind = ServiceAway if code in AWAY else ServiceError
    request_id = document.get("request_id")
    named = request_id if isinstance(request_id, str) else None
    return kind(detail, code, response.status, named)


def foreign_answer(response: Response, what: str) -> ServiceAway:
    """Return the error for an answer that this service did not write, such as that of a proxy."""
    # A proxy that refuses at once has not passed the request on.
    code = {429: "rate_limited", 503: "overloaded"}.get(response.status, "away")
    sentence = f"The service did not answer: status {response.status} came with {what}."
    return ServiceAway(sentence, code, response.status)


# ---- parts of an answer


def record(found: Any) -> dict[str, Any]:
    """Return a JSON object."""
    if not isinstance(found, dict):
        raise Malformed("JSON that is not an object")
    return found


def text(document: dict[str, Any], name: str) -> str:
    """Return a text that is not empty."""
    found = document.get(name)
    if not isinstance(found, str) or not found:
        raise Malformed(f"no text as {name}")
    return found


def finite(document: dict[str, Any], name: str, low: float, high: float) -> float:
    """Return a number from ``low`` to ``high``."""
    found = document.get(name)
    if isinstance(found, bool) or not isinstance(found, int | float) or not low <= found <= high:
        raise Malformed(f"no number from {low:g} to {high:g} as {name}")
    return found


def records(document: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return a list of JSON objects."""
    found = document.get(name)
    if not isinstance(found, list):
        raise Malformed(f"no list as {name}")
    return [record(each) for each in found]


# ---- the calls


def decide(
    experiment: str,
    available: Sequence[str] | None,
    unit: str | None,
    deferred: bool,
    idempotency_key: str | None,
    vector: bool,
    advice: Advice | None = None,
    asleep: Sequence[str] | None = None,
    segment: str | None = None,
) -> Call[Decision]:
    """Ask for a decision."""
    headers = {}
    if idempotency_key is not None:
        if not isinstance(idempotency_key, str) or not visible(idempotency_key):
            expected = "a text of visible ASCII characters"
            raise invalid("idempotency_key", "decide", expected, idempotency_key)
        headers["Idempotency-Key"] = idempotency_key
    document = _circumstances(advice, asleep, segment)
    if available is not None:
        document["available"] = list(available)
    if unit is not None:
        document["unit"] = unit
    if deferred:
        document["deferred"] = True
    path = experiment_path(experiment, "/decisions") + ("?vector=1" if vector else "")
    # A decision whose answer was lost is never used: asking again does no harm, unless missing
    # feedback counts as a loss, for which there is the Idempotency-Key.
    return Call("POST", path, lambda found: decision_of(experiment, found), document, headers)


def _circumstances(
    advice: Advice | None, asleep: Sequence[str] | None, segment: str | None
) -> dict[str, Any]:
    """Return the fields of a request that carry advice, or a segment."""
    document: dict[str, Any] = {}
    if advice is not None:
        document["advice"] = {
            expert: dict(given) if isinstance(given, Mapping) else given
            for expert, given in advice.items()
        }
    if asleep is not None:
        document["asleep"] = list(asleep)
    if segment is not None:
        document["segment"] = segment
    return document


def decide_many(
    experiment: str, count: int, advice: Advice | None = None, asleep: Sequence[str] | None = None,
    segment: str | None = None,
) -> Call[list[Decision]]:  # fmt: skip
    """Ask for several decisions at once."""
    return Call(
        "POST",
        experiment_path(experiment, "/decisions:batch"),
        lambda found: [
            decision_of(experiment, each)
            for each in as_many(records(record(found), "decisions"), count)
        ],
        {"count": count, **_circumstances(advice, asleep, segment)},
    )


def as_many(found: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Return a list that has as many parts as were asked for."""
    if len(found) != count:
        raise Malformed(f"{len(found)} parts instead of {count}")
    return found


def decision_of(experiment: str, found: Any) -> Decision:
    """Return the decision that an answer describes."""
    document = record(found)
    round = finite(document, "round", 0, 2.0**53)
    if not isinstance(round, int):
        raise Malformed("no whole number as round")
    shares, weights = _shares(document, "probabilities"), _shares(document, "experts")
    return Decision(
        experiment,
        text(document, "arm"),
        document.get("value"),
        text(document, "decision_id"),
        # Rounding may leave a probability a little above 1.
        finite(document, "probability", 5e-324, 1.0 + 1e-9),
        round,
        text(document, "mode"),
        finite(document, "expires_at", 0.0, math.inf),
        shares,
        weights,
    )


def _shares(document: dict[str, Any], name: str) -> dict[str, float] | None:
    """Return numbers >= 0 by name, None where there are none."""
    found = document.get(name)
    return (
        None if found is None else {key: finite(found, key, 0.0, math.inf) for key in record(found)}
    )


class Defaults:
    """Defaults that callers gave, of which each is compared once with the arms of its experiment.

    The first decision of an experiment with a default asks for the probabilities of all arms. A
    default that is not among them triggers one warning.
    """

    def __init__(self) -> None:
        self._known: set[tuple[str, str]] = set()

    def unknown(self, experiment: str, default: str | None, available: object) -> bool:
        """Return whether the next answer should list the arms."""
        return (
            default is not None and available is None and (experiment, default) not in self._known
        )

    def compare(self, decision: Decision, default: str | None, vector: bool) -> Decision:
        """Warn if the default is not an arm; return the decision as the caller asked for it."""
        shares = decision.probabilities
        if default is not None and shares is not None and decision.mode == "learn":
            self._known.add((decision.experiment, default))
            if default not in shares:
                warnings.warn(
                    f"The default {default!r} is not an arm of {decision.experiment!r}, which has "
                    f"{', '.join(map(repr, shares))}.",
                    stacklevel=4,
                )
        return decision if vector else replace(decision, probabilities=None, experts=None)


def stand_in(experiment: str, default: str | None, error: ServiceError) -> Decision:
    """Return the default in place of a decision, or raise why there is none."""
    # A paused experiment asks its callers to do what they would do without it.
    if default is None or not (isinstance(error, ServiceAway) or error.code == "experiment_paused"):
        raise error
    return Decision(experiment, default, away=error)


def feedback(
    decision: Decision | str, loss: float | None, reward: float | None
) -> Call[Told] | None:
    """Report the outcome of a decision; None for a default, which nothing is learned from."""
    told = _told(loss, reward)
    id = id_of(decision)
    if id is None:
        return None
    path = f"/v1/decisions/{quote(id, safe='')}/feedback"
    return Call("PUT", path, lambda found: status_of(record(found)), told)


def status_of(document: dict[str, Any]) -> Told:
    """Return the outcome of a feedback."""
    status: Any = document.get("status")
    if not isinstance(status, str) or status not in STATUSES:
        raise Malformed("no outcome of feedback as status")
    return status  # type: ignore[return-value]


Result = Told | ServiceError
"""Outcome of one feedback of many."""


@dataclass(frozen=True)
class Batches:
    """Feedback of many decisions, in as many requests as it takes.

    Parameters
    ----------
    calls : list of Call
        One for every thousand decisions of the service.
    sent : list of bool
        Which of the decisions are in them; the rest are defaults.
    """

    calls: list[Call[list[Result]]]
    sent: list[bool]

    def results(self, answers: list[list[Result]]) -> list[Result]:
        """Return the outcome of each decision, in their order."""
        told = (each for answer in answers for each in answer)
        return [next(told) if sent else "default" for sent in self.sent]


def feedback_many(
    decisions: Sequence[Decision | str],
    losses: Sequence[float] | None,
    rewards: Sequence[float] | None,
) -> Batches:
    """Report the outcomes of many decisions."""
    if (losses is None) == (rewards is None):
        raise InvalidFeedback("Exactly one of losses and rewards must be given to feedback_many.")
    many, word, numbers = (
        ("losses", "loss", losses) if losses is not None else ("rewards", "reward", rewards)
    )
    assert numbers is not None
    if len(numbers) != len(decisions):
        expected = f"as many numbers as there are decisions, {len(decisions)}"
        raise invalid(many, "feedback_many", expected, len(numbers))
    ids = [id_of(decision) for decision in decisions]
    items = [
        {"decision_id": id, **told}
        for id, told in zip(ids, [_told(**{word: x}) for x in numbers], strict=True)
        if id is not None
    ]
    calls = [
        Call(
            "POST",
            "/v1/feedback:batch",
            partial(_each_told, len(items[begin : begin + FEEDBACK_BATCH])),
            {"items": items[begin : begin + FEEDBACK_BATCH]},
        )
        for begin in range(0, len(items), FEEDBACK_BATCH)
    ]
    return Batches(calls, [id is not None for id in ids])


def _each_told(count: int, found: Any) -> list[Result]:
    return [
        ServiceError(text(each, "detail"), text(each, "code"))
        if each.get("status") == "refused"
        else status_of(each)
        for each in as_many(records(record(found), "results"), count)
    ]


def _told(loss: float | None = None, reward: float | None = None) -> dict[str, float]:
    if (loss is None) == (reward is None):
        raise InvalidFeedback("Exactly one of loss and reward must be given.")
    word, given = ("loss", loss) if loss is not None else ("reward", reward)
    x = float(given) if isinstance(given, bool) else real(given)
    if x is None:
        raise InvalidFeedback(must(word, "feedback", "a finite number", given))
    return {word: x}


def activate(decision: Decision | str) -> Call[None] | None:
    """Activate a deferred decision; None for a default."""
    id = id_of(decision)
    if id is None:
        return None
    return Call("POST", f"/v1/decisions/{quote(id, safe='')}/activate", nothing)


def nothing(found: Any) -> None:
    """Read an answer without a body."""
    if found is not None:
        raise Malformed("a body where there is none")


def decide_token(experiment: str | None, seconds: float) -> Call[str]:
    """Mint a decide token."""
    document: dict[str, Any] = {"seconds": seconds}
    if experiment is not None:
        document["experiment"] = experiment
    return Call("POST", "/v1/decide-tokens", lambda found: text(record(found), "token"), document)


def create(experiment: str, arms: Sequence[str] | Mapping[str, Any], settings: Any) -> Call[Any]:
    """Create an experiment."""
    if isinstance(arms, Mapping):
        listed = [{"name": name, "value": value} for name, value in arms.items()]
    else:
        listed = [{"name": name} for name in arms]
    document = {"name": experiment, "arms": listed, **settings}
    return Call("POST", "/v1/experiments", record, document, repeatable=False)


def experiments() -> Call[Any]:
    """List the experiments."""
    return Call("GET", "/v1/experiments", lambda found: records(record(found), "experiments"))


def experiment(name: str) -> Call[Any]:
    """Read an experiment."""
    return Call("GET", experiment_path(name), record)


def change(name: str, version: int, settings: Any) -> Call[Any]:
    """Change settings of an experiment that was read at a version."""
    headers = {"If-Match": f'"{version}"'}
    return Call("PATCH", experiment_path(name), record, settings, headers, repeatable=False)


def act(name: str, action: Action, arm: str | None) -> Call[Any]:
    """Pin, pause, resume and so on; a reset is not repeated, because each starts an epoch."""
    document = None if arm is None else {"arm": arm}
    path = experiment_path(name, f"/{action}")
    return Call("POST", path, record, document, repeatable=action != "reset")


def segments(name: str, limit: int) -> Call[Any]:
    """List segments of an experiment."""
    path = experiment_path(name, f"/segments?limit={limit}")
    return Call("GET", path, lambda found: records(record(found), "segments"))


def report(name: str, targets: Sequence[str] = ()) -> Call[Any]:
    """Read the report of an experiment."""
    query = urlencode([("target", target) for target in targets])
    return Call("GET", experiment_path(name, "/report") + (query and f"?{query}"), record)


def ready() -> Call[bool]:
    """Ask whether the service is ready."""
    return Call("GET", "/readyz", lambda found: text(record(found), "status") == "ok")


def experiment_path(name: object, rest: str = "") -> str:
    """Return the path of an experiment."""
    if not isinstance(name, str) or not name:
        raise invalid("experiment", "the call", "the name of an experiment", name)
    return f"/v1/experiments/{quote(name, safe='')}{rest}"


def id_of(decision: object) -> str | None:
    """Return the id of a decision, None for a default."""
    if isinstance(decision, Decision):
        return decision.decision_id
    if not isinstance(decision, str) or not decision:
        raise invalid("decision", "the call", "a Decision or the id of one", decision)
    return decision


@dataclass(frozen=True)
class Settings:
    """Checked parameters of both clients."""

    endpoint: Endpoint
    key: str | None
    timeout: float
    feedback_timeout: float
    retries: int

    @classmethod
    def of(
        cls,
        owner: str,
        url: object,
        key: object,
        timeout: object,
        feedback_timeout: object,
        retries: object,
    ) -> Settings:
        """Check the parameters of a client."""
        if key is not None and (not isinstance(key, str) or not key or not visible(key)):
            # The key itself is a secret, and errors end up in logs.
            raise invalid("key", owner, "a key of the service", type(key).__name__)
        if not is_name(retries) or isinstance(retries, str) or not 0 <= retries <= 100:
            raise invalid("retries", owner, "an integer from 0 to 100", retries)
        return cls(
            Endpoint.of(url),
            key,
            positive("timeout", timeout, owner),
            positive("feedback_timeout", feedback_timeout, owner),
            int(retries),
        )
