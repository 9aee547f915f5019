"""Routes of the decision service: one table for dispatch, the OpenAPI document and the docs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from bothworlds.serve import wire
from bothworlds.serve.answers import Decided, Feedback, Told
from bothworlds.serve.config import NewExperiment

BODY = 65_536
"""Bytes of a body."""
BATCH_BODY = 2**20
"""Bytes of the body of a batch, or of a new experiment."""
ALWAYS = (
    "foreign_origin", "not_found", "method_not_allowed", "rate_limited", "headers_too_large",
    "internal",
)  # fmt: skip
"""Refusals that any path can answer with."""
WITH_A_KEY = (
    "invalid_request", "key_missing", "key_invalid", "scope_missing", "shutting_down",
)  # fmt: skip
WITH_A_BODY = (
    "invalid_json", "invalid_request", "body_timeout", "body_too_large", "unsupported_media_type",
)  # fmt: skip


@dataclass(frozen=True)
class Route:
    """One method of one path.

    Parameters
    ----------
    method, path : str
        ``{name}`` in a path stands for one segment.
    operation : str
        Its name: what handles it, and what metrics and documents call it.
    summary : str
        What it does.
    scope : str or None
        What a key must be allowed; None where no key is asked for.
    body, query, answer : type, optional
        What it takes and gives, of `wire`.
    optional : bool
        Whether the body may be empty.
    statuses : tuple of int
        Of success.
    problems : tuple of str
        Codes of its own refusals.
    headers : tuple of str
        Request headers it reads.
    limit : int
        Bytes of a body.
    media : tuple of str
        Types of the answer, where it is not JSON.
    refusal : type
        What a refusal looks like, of `wire`.
    """

    method: str
    path: str
    operation: str
    summary: str
    scope: str | None
    body: type[Any] | None = None
    query: type[Any] | None = None
    answer: type[Any] | None = None
    optional: bool = False
    statuses: tuple[int, ...] = (200,)
    problems: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    limit: int = BODY
    media: tuple[str, ...] = ()
    refusal: type[Any] = wire.ProblemDocument

    @property
    def all_problems(self) -> tuple[str, ...]:
        """Every code it can answer with."""
        codes = [*self.problems, *ALWAYS]
        if self.scope is not None:
            codes += WITH_A_KEY
        if self.body is not None:
            codes += WITH_A_BODY
        return tuple(dict.fromkeys(codes))


_ONE = "/v1/experiments/{experiment}"
_WRITE = ("experiment_not_found", "store_unavailable")
_TOKEN = ("bad_token", "bad_signature", "expired", "epoch_over", "store_unavailable")
_DECIDE = (
    "experiment_not_found", "experiment_archived", "experiment_paused", "nothing_available",
    "arm_not_found", "invalid_request", "idempotency_key_reused", "overloaded", "store_unavailable",
)  # fmt: skip

_EVALUATE = (
    "experiment_not_found", "targeting_key_missing", "invalid_request", "mode_conflict",
    "contribution_too_large", "overloaded", "store_unavailable",
)  # fmt: skip


def _action(name: str, summary: str, *more: str, **settings: Any) -> Route:
    return Route(
        "POST", f"{_ONE}/{name}", name, summary, "admin",
        answer=wire.Experiment, problems=(*_WRITE, "mode_conflict", *more), **settings,
    )  # fmt: skip


ROUTES: tuple[Route, ...] = (
    # Deciding.
    Route(
        "POST", f"{_ONE}/decisions", "decide", "Decide: draw an arm", "decide",
        body=wire.Decide, optional=True, query=wire.DecideQuery, answer=Decided,
        statuses=(201, 200), headers=("Idempotency-Key",), problems=_DECIDE,
    ),
    Route(
        "POST", f"{_ONE}/decisions:batch", "decide_many", "Decide several times", "decide",
        body=wire.DecideMany, answer=wire.DecidedMany, statuses=(201,), problems=_DECIDE,
    ),
    Route(
        "PUT", "/v1/decisions/{decision}/feedback", "feedback",
        "Tell what a decision brought, once", "feedback",
        body=Feedback, answer=Told,
        problems=(*_TOKEN, "out_of_bounds", "already_told", "contribution_too_large"),
    ),
    Route(
        "POST", "/v1/feedback:batch", "feedback_many",
        "Tell what many decisions brought, in one transaction", "feedback",
        body=wire.FeedbackMany, answer=wire.ToldMany, limit=BATCH_BODY,
        problems=("store_unavailable",),
    ),
    Route(
        "POST", "/v1/decisions/{decision}/activate", "activate",
        "Say that a deferred decision was shown", "feedback", statuses=(204,), problems=_TOKEN,
    ),
    # OpenFeature.
    Route(
        "POST", "/ofrep/v1/evaluate/flags/{experiment}", "evaluate",
        "Evaluate a flag for OpenFeature: decide", "decide",
        body=wire.Evaluate, optional=True, answer=wire.Evaluated, headers=("X-API-Key",),
        problems=_EVALUATE, refusal=wire.NotEvaluated,
    ),
    Route(
        "POST", "/ofrep/v1/evaluate/flags", "evaluate_all",
        "Evaluate all flags for OpenFeature: decide in every experiment", "decide",
        body=wire.Evaluate, optional=True, answer=wire.EvaluatedAll, statuses=(200, 304),
        headers=("If-None-Match", "X-API-Key"), problems=_EVALUATE[1:],
        refusal=wire.NotEvaluated,
    ),
    # Experiments.
    Route(
        "GET", "/v1/experiments", "experiments", "List the experiments", "read",
        answer=wire.Experiments,
    ),
    Route(
        "POST", "/v1/experiments", "create", "Create an experiment", "admin",
        body=NewExperiment, answer=wire.Experiment, statuses=(201,), limit=BATCH_BODY,
        problems=("experiment_exists", "policy_not_served", "store_unavailable"),
    ),
    Route(
        "GET", _ONE, "experiment", "Read an experiment: settings, arms, what it learned", "read",
        answer=wire.Experiment, statuses=(200, 304), headers=("If-None-Match",),
        problems=("experiment_not_found",),
    ),
    Route(
        "PATCH", _ONE, "change", "Change settings of an experiment", "admin",
        body=wire.Change, answer=wire.Experiment, headers=("If-Match",),
        problems=(*_WRITE, "config_changed", "if_match_missing", "experiment_archived"),
    ),
    _action("pin", "Give everybody one arm", "arm_not_found", body=wire.Pin),
    _action("shadow", "Give everybody one arm, and log what the policy would draw",
            "arm_not_found", body=wire.Pin),
    _action("uniform", "Draw all arms alike"),
    _action("pause", "Refuse decisions until the experiment is resumed"),
    _action("resume", "Learn again, after pin, shadow, uniform, pause or archive"),
    _action("archive", "Refuse decisions: the experiment is over"),
    _action("reset", "Forget what was learned and begin a new epoch"),
    Route(
        "POST", f"{_ONE}/arms", "add_arm", "Add an arm", "admin",
        body=wire.NewArm, answer=wire.Experiment, statuses=(201,),
        problems=(*_WRITE, "arm_id_used", "experiment_archived", "mode_conflict"),
    ),
    Route(
        "DELETE", f"{_ONE}/arms/{{arm}}", "retire_arm", "Retire an arm; its name stays taken",
        "admin", statuses=(204,), problems=(*_WRITE, "arm_not_found", "last_arms", "mode_conflict"),
    ),
    # The log.
    Route(
        "GET", f"{_ONE}/export", "export", "Export the log of decisions and feedback", "read",
        query=wire.ExportQuery, problems=("experiment_not_found", "not_acceptable"),
        media=("application/x-ndjson", "text/csv", "text/plain", "application/vnd.apache.parquet"),
    ),
    Route(
        "GET", f"{_ONE}/report", "report", "Report how good every arm is and how sure that is",
        "read", query=wire.ReportQuery,
        problems=("experiment_not_found", "arm_not_found", "nothing_logged"),
    ),
    Route(
        "GET", f"{_ONE}/events", "events", "Follow the checkpoints as server-sent events", "read",
        query=wire.EventsQuery, headers=("Last-Event-ID",), problems=("experiment_not_found",),
        media=("text/event-stream",),
    ),
    Route(
        "GET", f"{_ONE}/quarantine", "quarantined", "List feedback in quarantine", "admin",
        answer=wire.Quarantined, problems=("experiment_not_found",),
    ),
    Route(
        "POST", f"{_ONE}/quarantine/release", "release", "Learn from feedback in quarantine",
        "admin", body=wire.Ids, optional=True, answer=wire.Moved, problems=_WRITE,
    ),
    Route(
        "POST", f"{_ONE}/quarantine/drop", "drop", "Drop feedback in quarantine", "admin",
        body=wire.Ids, optional=True, answer=wire.Moved, problems=_WRITE,
    ),
    # Administration.
    Route(
        "GET", "/v1/audit", "audit", "List who changed what", "admin",
        query=wire.PageQuery, answer=wire.Audit,
    ),
    Route("GET", "/v1/keys", "keys", "List the keys", "admin", answer=wire.Keys),
    Route(
        "POST", "/v1/keys", "create_key", "Create a key, shown this once", "admin",
        body=wire.NewKey, answer=wire.KeyMade, statuses=(201,), problems=("store_unavailable",),
    ),
    Route(
        "DELETE", "/v1/keys/{key}", "revoke_key", "Revoke a key", "admin", statuses=(204,),
        problems=("key_not_found", "store_unavailable"),
    ),
    Route(
        "POST", "/v1/token-keys", "rotate", "Sign decisions with a new token key from now on",
        "admin", answer=wire.Rotated, statuses=(201,), problems=("store_unavailable",),
    ),
    # The service itself.
    Route("GET", "/healthz", "healthz", "Whether the process answers", None, answer=wire.Health),
    Route(
        "GET", "/readyz", "readyz", "Whether the service can decide", None, answer=wire.Health,
        problems=("not_ready",),
    ),
    Route(
        "GET", "/metrics", "metrics", "Metrics for Prometheus", "read", media=("text/plain",),
    ),
    Route("GET", "/openapi.json", "openapi", "This document", None),
)  # fmt: skip
"""Every route."""


class Router:
    """Find the route of a method and a path.

    Examples
    --------
    >>> router = Router(ROUTES)
    >>> route, given = router.find("GET", "/v1/experiments/head%2Fline")
    >>> route.operation, given
    ('experiment', ['head/line'])
    """

    def __init__(self, routes: tuple[Route, ...]) -> None:
        # By segment; the key _NAMED leads to what stands for any segment, _METHODS to the routes.
        self._root: dict[Any, Any] = {}
        for route in routes:
            node = self._root
            for segment in route.path.split("/")[1:]:
                node = node.setdefault(_NAMED if segment.startswith("{") else segment, {})
            node.setdefault(_METHODS, {})[route.method] = route

    def find(self, method: str, path: str) -> tuple[Route | tuple[str, ...] | None, list[str]]:
        """Return the route and what stands for its names.

        In place of a route the methods that the path takes are returned if it does not take this
        one, and None if there is no such path.
        """
        node = self._root
        given: list[str] = []
        for segment in path.split("/")[1:]:
            child = node.get(segment)
            if child is None:
                child = node.get(_NAMED) if segment else None
                if child is None:
                    return None, given
                given.append(unquote(segment))
            node = child
        methods = node.get(_METHODS)
        if methods is None:
            return None, given
        route = methods.get(method) or (methods.get("GET") if method == "HEAD" else None)
        return route or tuple(sorted(methods)), given


_NAMED, _METHODS = 0, 1
