"""Handlers of the decision service: from a request that was read to a call of `Service`."""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, get_args

from bothworlds.serve.domain.answers import Decided, Feedback, Status, Told
from bothworlds.serve.domain.config import NewExperiment
from bothworlds.serve.domain.keys import FIRST_TENANT
from bothworlds.serve.http import parsing, wire
from bothworlds.serve.http.messages import HandlerContext, Header, Reply, Request, Stream
from bothworlds.serve.http.routes import BATCH_BODY, Routes
from bothworlds.serve.ops import exports, reports
from bothworlds.serve.ops.metrics import CONTENT_TYPE
from bothworlds.serve.problems import Problem

route = Routes()
"""Makes a route of each handler below, in this order."""

_TAG = re.compile(rb'"([0-9]{1,18})(?:-[0-9a-f]+)?"')
_AT_ONCE = 8
"""Experiments of a list that are described before others may have the event loop."""
_EVENTS_PAUSE = 1.0
_HEARTBEAT = 15.0
_ONE = "/v1/experiments/{experiment}"
_WRITE = ("experiment_not_found", "store_unavailable")
_CHANGE = (*_WRITE, "config_changed")
_TOKEN = ("bad_token", "bad_signature", "expired", "epoch_over", "store_unavailable")
_DECIDE = (
    "experiment_not_found", "experiment_archived", "experiment_paused", "nothing_available",
    "shares_conflict", "arm_not_found", "invalid_request", "advice_missing", "advice_invalid",
    "idempotency_key_reused", "overloaded", "store_unavailable",
)  # fmt: skip


# ---- deciding


ALL_ARMS = wire.Decide()


@route(
    "POST", f"{_ONE}/decisions", "Decide: draw an arm", "decide", body=wire.Decide, optional=True,
    query=wire.DecideQuery, answer=Decided, statuses=(201, 200), headers=("Idempotency-Key",),
    problems=_DECIDE, browsers=True,
)  # fmt: skip
async def decide(app: HandlerContext, request: Request) -> Reply:
    """Draw an arm."""
    body = request.body or ALL_ARMS
    key = request.headers.get(b"idempotency-key")
    made = await app.service.decide(
        request.who,
        request.given[0],
        available=body.available,
        unit=body.unit,
        deferred=body.deferred,
        idempotency_key=None if key is None else key.decode("latin-1"),
        vector=request.query.vector,
        advice=body.advice,
        asleep=body.asleep,
        segment=body.segment,
    )
    return Reply(200 if made.replayed else 201, wire.encode(made))


@route(
    "POST", f"{_ONE}/decisions:batch", "Decide several times", "decide", body=wire.DecideMany,
    answer=wire.DecidedMany, statuses=(201,), problems=_DECIDE, browsers=True,
)  # fmt: skip
async def decide_many(app: HandlerContext, request: Request) -> Reply:
    """Draw several arms."""
    body = request.body
    made = await app.service.decide_many(
        request.who, request.given[0], body.count, advice=body.advice, asleep=body.asleep,
        segment=body.segment,
    )  # fmt: skip
    return Reply(201, wire.encode({"decisions": made}))


@route(
    "PUT", "/v1/decisions/{decision}/feedback", "Report an outcome, once", "feedback",
    body=Feedback, answer=Told, browsers=True,
    problems=(*_TOKEN, "out_of_bounds", "already_told", "contribution_too_large"),
)  # fmt: skip
async def feedback(app: HandlerContext, request: Request) -> Reply:
    """Learn from a decision."""
    loss, reward = request.body.given()
    told = await app.service.feedback(request.who, request.given[0], loss=loss, reward=reward)
    return Reply(200, TOLD[told.status])


TOLD = {status: wire.encode({"status": status}) for status in get_args(Status)}


@route(
    "POST", "/v1/feedback:batch", "Report the outcomes of many decisions, in one transaction",
    "feedback", body=wire.FeedbackMany, answer=wire.ToldMany, limit=BATCH_BODY, browsers=True,
    problems=("store_unavailable",),
)  # fmt: skip
async def feedback_many(app: HandlerContext, request: Request) -> Reply:
    """Learn from many decisions."""
    results = []
    for told in await app.service.feedback_many(request.who, request.body.items):
        if isinstance(told, Problem):
            app.metrics.count_problem(told.code)
            results.append({"status": "refused", "code": told.code, "detail": told.detail})
        else:
            results.append({"status": told.status})
    return Reply(200, wire.encode({"results": results}))


@route(
    "POST", "/v1/decisions/{decision}/activate", "Activate a deferred decision",
    "feedback", statuses=(204,), problems=_TOKEN, browsers=True,
)  # fmt: skip
async def activate(app: HandlerContext, request: Request) -> Reply:
    """Make a deferred decision count."""
    await app.service.activate(request.who, request.given[0])
    return Reply(204, b"")


@route(
    "POST", "/v1/decide-tokens", "Mint a short-lived token for a web page", "decide",
    body=wire.NewDecideToken, optional=True, answer=wire.DecideToken, statuses=(201,),
    problems=("experiment_not_found",),
)  # fmt: skip
async def mint_token(app: HandlerContext, request: Request) -> Reply:
    """Mint a decide token."""
    asked = request.body or wire.NewDecideToken()
    token, until = app.service.mint_token(
        request.who, experiment=asked.experiment, seconds=asked.seconds
    )
    body = wire.encode(wire.DecideToken(token=token, expires_at=until))
    return Reply(201, body, extra=[(b"cache-control", b"no-store")])


# ---- experiments


@route(
    "GET", "/v1/experiments", "List the experiments", "read", query=wire.ExperimentsQuery,
    answer=wire.Experiments, problems=("experiment_not_found",),
)  # fmt: skip
async def experiments(app: HandlerContext, request: Request) -> Reply:
    """List the experiments, without keeping decisions waiting."""
    after, limit = request.query.after, request.query.limit
    names = app.service.names(request.who)
    if after is not None:
        if after not in names:
            raise Problem("experiment_not_found")
        names = names[names.index(after) + 1 :]
    document: dict[str, Any] = {"experiments": []}
    if limit is not None and limit < len(names):
        names = names[:limit]
        document["next"] = names[-1]
    for place, name in enumerate(names):
        if place % _AT_ONCE == _AT_ONCE - 1:
            await asyncio.sleep(0)
        document["experiments"].append(app.service.experiment(request.who, name))
    return Reply(200, await asyncio.to_thread(wire.encode, document))


def _described(found: dict[str, Any], status: int = 200) -> Reply:
    body = wire.encode(found)
    return Reply(status, body, extra=[(b"etag", _tag(found))])


def _tag(found: dict[str, Any]) -> bytes:
    """Return the ETag: the version that changes are based on, and a digest of the rest.

    Probabilities follow from it; they are computed again, to the last bits, at every read.
    """
    lasting = {name: value for name, value in found.items() if name != "state_age"}
    lasting["arms"] = [{**arm, "probability": None} for arm in found["arms"]]
    lasting["experts"] = [expert["name"] for expert in found["experts"]]
    digest = hashlib.blake2b(wire.encode(lasting), digest_size=8).hexdigest()
    return f'"{found["config_version"]}-{digest}"'.encode()


@route(
    "POST", "/v1/experiments", "Create an experiment", "admin", body=NewExperiment,
    answer=wire.Experiment, statuses=(201,), limit=BATCH_BODY,
    problems=("experiment_exists", "policy_not_served", "store_unavailable"),
)  # fmt: skip
async def create(app: HandlerContext, request: Request) -> Reply:
    """Create an experiment."""
    found = await app.service.create(request.who, request.body)
    return _described(found, 201)


@route(
    "GET", _ONE, "Read an experiment: settings, arms, learned state", "read",
    answer=wire.Experiment, statuses=(200, 304), headers=("If-None-Match",),
    problems=("experiment_not_found",),
)  # fmt: skip
async def experiment(app: HandlerContext, request: Request) -> Reply:
    """Describe an experiment."""
    found = app.service.experiment(request.who, request.given[0])
    known = request.headers.get(b"if-none-match", b"")
    tag = _tag(found)
    if known.strip() == b"*" or tag in [each.strip() for each in known.split(b",")]:
        return Reply(304, b"", extra=[(b"etag", tag)])
    return Reply(200, wire.encode(found), extra=[(b"etag", tag)])


@route(
    "PATCH", _ONE, "Change settings of an experiment", "admin", body=wire.Change,
    answer=wire.Experiment, headers=("If-Match",),
    problems=(*_CHANGE, "if_match_missing", "experiment_archived"),
)  # fmt: skip
async def change(app: HandlerContext, request: Request) -> Reply:
    """Change settings of an experiment."""
    based = request.headers.get(b"if-match")
    if based is None:
        raise Problem("if_match_missing")
    found = _TAG.fullmatch(based.strip())
    if found is None:
        app.service.experiment(request.who, request.given[0])
        raise Problem("config_changed")
    changes = parsing.given(request.body)
    changed = await app.service.patch(
        request.who, request.given[0], changes, if_match=int(found[1])
    )
    return _described(changed)


async def act(app: HandlerContext, request: Request) -> Reply:
    """Change the mode of an experiment."""
    arm = None if request.body is None else request.body.arm
    found = await app.service.set_mode(
        request.who, request.given[0], request.route.operation, arm=arm
    )
    return _described(found)


def _action(name: str, summary: str, *more: str, **settings: Any) -> None:
    """Make a route of an action that changes the mode of an experiment."""
    route(
        "POST", f"{_ONE}/{name}", summary, "admin", operation=name,
        answer=wire.Experiment, problems=(*_CHANGE, "mode_conflict", *more), **settings,
    )(act)  # fmt: skip


_action("pin", "Pin an arm: every decision returns it", "arm_not_found", body=wire.Pin)
_action(
    "shadow", "Pin an arm, and log the draws of the policy",
    "arm_not_found", body=wire.Pin,
)  # fmt: skip
_action("uniform", "Draw all arms with equal probability")
_action("pause", "Refuse decisions until the experiment is resumed")
_action("resume", "Learn again, after pin, shadow, uniform, pause or archive")
_action("archive", "Refuse decisions: the experiment is over")
_action("reset", "Discard the learned state and start a new epoch")


@route(
    "POST", f"{_ONE}/arms", "Add an arm", "admin", body=wire.NewArm, answer=wire.Experiment,
    statuses=(201,), problems=(*_CHANGE, "arm_id_used", "experiment_archived", "mode_conflict"),
)  # fmt: skip
async def add_arm(app: HandlerContext, request: Request) -> Reply:
    """Add an arm."""
    found = await app.service.add_arm(
        request.who, request.given[0], request.body, probability=request.body.probability
    )
    return _described(found, 201)


@route(
    "DELETE", f"{_ONE}/arms/{{arm}}", "Retire an arm; its name stays taken", "admin",
    statuses=(204,),
    problems=(*_CHANGE, "arm_not_found", "last_arms", "mode_conflict", "shares_conflict"),
)  # fmt: skip
async def retire_arm(app: HandlerContext, request: Request) -> Reply:
    """Retire an arm."""
    name, arm = request.given
    await app.service.retire_arm(request.who, name, arm)
    return Reply(204, b"")


@route(
    "GET", f"{_ONE}/segments", "List the segments with their learned state", "read",
    query=wire.SegmentsQuery, answer=wire.SegmentsFound, problems=("experiment_not_found",),
)  # fmt: skip
async def segments(app: HandlerContext, request: Request) -> Reply:
    """List the segments."""
    found = await app.service.segments(request.who, request.given[0], request.query.limit)
    return Reply(200, wire.encode(found))


# ---- the log


@route(
    "GET", f"{_ONE}/export", "Export the log of decisions and feedback", "read",
    query=wire.ExportQuery, problems=("experiment_not_found", "not_acceptable"),
    media=("application/x-ndjson", "text/csv", "text/plain", "application/vnd.apache.parquet"),
)  # fmt: skip
async def export(app: HandlerContext, request: Request) -> Stream:
    """Stream the log in one of the formats."""
    name = request.given[0]
    described = app.service.experiment(request.who, name)
    form = exports.format_of(request.query.format, [arm["name"] for arm in described["arms"]])
    gaps = await app.service.gaps(request.who, name)
    pieces = app.service.export(request.who, name, request.query.format, since=request.query.since)
    file = f"{name}.{form.suffix}"
    extra: list[Header] = [
        (b"content-disposition", f'attachment; filename="{file}"'.encode("ascii", "replace")),
        # Records that the log lacks, as far as feedback shows.
        (b"x-log-missing", b"%d" % gaps["missing"]),
        (b"x-log-unclean-runs", b"%d" % gaps["unclean"]),
    ]
    return Stream(pieces, form.media.encode(), extra)


@route(
    "GET", f"{_ONE}/report", "Report the mean of every arm, with its confidence", "read",
    query=wire.ReportQuery, problems=("experiment_not_found", "arm_not_found", "nothing_logged"),
)  # fmt: skip
async def report(app: HandlerContext, request: Request) -> Reply:
    """Report on the arms."""
    query = request.query
    found = await reports.report(
        app.service, request.who, request.given[0], query.confidence, query.target
    )
    return Reply(200, wire.encode(found))


@route(
    "GET", f"{_ONE}/events", "Follow the checkpoints as server-sent events", "read",
    query=wire.EventsQuery, headers=("Last-Event-ID",), problems=("experiment_not_found",),
    media=("text/event-stream",),
)  # fmt: skip
async def events(app: HandlerContext, request: Request) -> Stream:
    """Stream checkpoints as server-sent events."""
    name = request.given[0]
    app.service.experiment(request.who, name)
    known = request.headers.get(b"last-event-id", b"")
    after = int(known) if known.isdigit() and len(known) <= 18 else request.query.after

    async def pieces() -> AsyncIterator[bytes]:
        last, said = after, time.monotonic()
        yield b": checkpoints follow\n\n"
        while not app.stopping.is_set():
            found = await app.service.checkpoints(request.who, name, after=last)
            text = b"".join(
                b"id: %d\nevent: checkpoint\ndata: %s\n\n" % (each["id"], wire.encode(each))
                for each in found
            )
            if found:
                last = found[-1]["id"]
            elif time.monotonic() - said > _HEARTBEAT:
                text = b": still here\n\n"
            if text:
                said = time.monotonic()
            yield text
            try:
                await asyncio.wait_for(app.stopping.wait(), _EVENTS_PAUSE)
            except TimeoutError:
                continue

    return Stream(pieces(), b"text/event-stream", [(b"cache-control", b"no-store")])


@route(
    "GET", f"{_ONE}/quarantine", "List feedback in quarantine", "admin", answer=wire.Quarantined,
    problems=("experiment_not_found",),
)  # fmt: skip
async def quarantined(app: HandlerContext, request: Request) -> Reply:
    """List feedback in quarantine."""
    found = await app.service.quarantined(request.who, request.given[0])
    return Reply(200, wire.encode({"items": found}))


@route(
    "POST", f"{_ONE}/quarantine/release", "Learn from feedback in quarantine", "admin",
    body=wire.Ids, optional=True, answer=wire.Moved, problems=_WRITE,
)  # fmt: skip
async def release(app: HandlerContext, request: Request) -> Reply:
    """Learn from feedback in quarantine."""
    return await _judged(request, app.service.release)


@route(
    "POST", f"{_ONE}/quarantine/drop", "Drop feedback in quarantine", "admin", body=wire.Ids,
    optional=True, answer=wire.Moved, problems=_WRITE,
)  # fmt: skip
async def drop(app: HandlerContext, request: Request) -> Reply:
    """Drop feedback in quarantine."""
    return await _judged(request, app.service.drop)


async def _judged(request: Request, judge: Callable[..., Awaitable[int]]) -> Reply:
    ids = None if request.body is None else request.body.ids
    count = await judge(request.who, request.given[0], ids)
    return Reply(200, wire.encode({"count": count}))


# ---- administration


@route(
    "GET", "/v1/audit", "List the changes of the configuration", "admin",
    query=wire.PageQuery, answer=wire.Audit,
)  # fmt: skip
async def audit(app: HandlerContext, request: Request) -> Reply:
    """List the changes of the configuration, with the key behind each."""
    found = await app.service.audit(
        request.who, after=request.query.after, limit=request.query.limit
    )
    return Reply(200, wire.encode({"entries": found}))


@route(
    "GET", "/v1/keys", "List the keys", "admin", answer=wire.Keys,
)  # fmt: skip
async def keys(app: HandlerContext, request: Request) -> Reply:
    """List the keys."""
    return Reply(200, wire.encode({"keys": app.service.keys(request.who)}))


@route(
    "POST", "/v1/keys", "Create a key; it is returned only once", "admin",
    body=wire.NewKey, answer=wire.KeyMade, statuses=(201,), problems=("store_unavailable",),
)  # fmt: skip
async def create_key(app: HandlerContext, request: Request) -> Reply:
    """Create a key."""
    secret, made = await app.service.create_key(
        request.who, request.body.scopes, label=request.body.label
    )
    return Reply(201, wire.encode({**made, "key": secret}), extra=[(b"cache-control", b"no-store")])


@route(
    "DELETE", "/v1/keys/{key}", "Revoke a key", "admin", statuses=(204,),
    problems=("key_not_found", "store_unavailable"),
)  # fmt: skip
async def revoke_key(app: HandlerContext, request: Request) -> Reply:
    """Revoke a key."""
    await app.service.revoke_key(request.who, request.given[0])
    return Reply(204, b"")


@route(
    "POST", "/v1/token-keys", "Sign decisions with a new token key from now on", "admin",
    answer=wire.Rotated, statuses=(201,), problems=("store_unavailable",),
)  # fmt: skip
async def rotate(app: HandlerContext, request: Request) -> Reply:
    """Sign with a new token key from now on."""
    made = await app.service.rotate_token_key(request.who)
    return Reply(201, wire.encode({"token_key": made}))


# ---- the service itself

_OK = wire.encode({"status": "ok"})


@route(
    "GET", "/healthz", "Check that the process is alive", None, answer=wire.Health,
)  # fmt: skip
async def healthz(app: HandlerContext, request: Request) -> Reply:
    """Answer that the process runs."""
    return Reply(200, _OK)


@route(
    "GET", "/readyz", "Check that the service can decide", None, answer=wire.Health,
    problems=("not_ready",),
)  # fmt: skip
async def readyz(app: HandlerContext, request: Request) -> Reply:
    """Return whether the service can decide."""
    stopping = "The service is stopping." if app.stopping.is_set() else None
    why = stopping or app.short_of or app.service.ready()
    if why is not None:
        raise Problem("not_ready", why)
    return Reply(200, _OK)


@route(
    "GET", "/metrics", "Metrics for Prometheus", "read", media=("text/plain",),
)  # fmt: skip
async def metrics(app: HandlerContext, request: Request) -> Reply:
    """Show the metrics: of the caller's experiments, and to the operator of the process."""
    families = await app.experiment_metrics.read(app.service, request.who)
    text = await asyncio.to_thread(app.metrics.text_of, families)
    if request.who.tenant == FIRST_TENANT:
        text = app.metrics.text() + text
    return Reply(200, text, CONTENT_TYPE.encode())


@route("GET", "/openapi.json", "This document", None, operation="openapi")
async def document(app: HandlerContext, request: Request) -> Reply:
    """Show the OpenAPI document."""
    return Reply(200, app.document)
