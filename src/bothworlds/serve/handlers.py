"""Handlers of the decision service: from a request that was read to a call of `Service`."""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from bothworlds.serve import ofrep, openapi, wire
from bothworlds.serve.domain.service import Behind
from bothworlds.serve.http import Header, Reply, Stream
from bothworlds.serve.ops import exports, reports
from bothworlds.serve.ops.metrics import CONTENT_TYPE
from bothworlds.serve.problems import Problem

if TYPE_CHECKING:
    from bothworlds.serve.answers import Told
    from bothworlds.serve.http import Application, Asked, Direct, Handler, Then

_TAG = re.compile(rb'"([0-9]{1,18})(?:-[0-9a-f]+)?"')
_EVENTS_PAUSE = 1.0
_HEARTBEAT = 15.0


# ---- deciding


_ALL = wire.Decide()


async def decide(app: Application, asked: Asked) -> Reply:
    """Draw an arm."""
    body = asked.body or _ALL
    key = asked.headers.get(b"idempotency-key")
    made = await app.service.decide(
        asked.who,
        asked.given[0],
        available=body.available,
        unit=body.unit,
        deferred=body.deferred,
        idempotency_key=None if key is None else key.decode("latin-1"),
        vector=asked.query.vector,
    )
    return Reply(200 if made.replayed else 201, wire.encode(made))


def decide_at_once(app: Application, asked: Asked, then: Then) -> Reply | None:
    """Draw an arm, at once if nothing has to be written first."""
    body = asked.body or _ALL
    if body.unit is None and b"idempotency-key" not in asked.headers:
        made = app.service.decide_at_once(
            asked.who, asked.given[0], available=body.available, deferred=body.deferred,
            vector=asked.query.vector,
        )  # fmt: skip
        if made is not None:
            return Reply(201, wire.encode(made))
    app.answer_later(asked, decide(app, asked), then)
    return None


async def decide_many(app: Application, asked: Asked) -> Reply:
    """Draw several arms."""
    made = await app.service.decide_many(asked.who, asked.given[0], asked.body.count)
    return Reply(201, wire.encode({"decisions": made}))


def decide_many_later(app: Application, asked: Asked, then: Then) -> None:
    """Draw several arms."""
    app.answer_later(asked, decide_many(app, asked), then)


async def feedback(app: Application, asked: Asked) -> Reply:
    """Learn from a decision."""
    loss, reward = asked.body.given()
    told = await app.service.feedback(asked.who, asked.given[0], loss=loss, reward=reward)
    return Reply(200, _TOLD[told.status])


_TOLD = {
    status: wire.encode({"status": status})
    for status in ("learned", "duplicate", "quarantined", "not_learnable")
}


def feedback_later(app: Application, asked: Asked, then: Then) -> None:
    """Learn from a decision; without a task, which would cost as much as the rest."""

    def told(outcome: Told | Problem) -> None:
        if isinstance(outcome, Problem):
            reply = app.refused(asked, outcome)
        else:
            reply = Reply(200, _TOLD[outcome.status])
        app.note(asked, reply)
        then(asked, reply)

    loss, reward = asked.body.given()
    try:
        app.service.tell(asked.who, asked.given[0], loss, reward, told)
    except Behind:
        app.answer_later(asked, feedback(app, asked), then)


async def feedback_many(app: Application, asked: Asked) -> Reply:
    """Learn from many decisions."""
    results = []
    for told in await app.service.feedback_many(asked.who, asked.body.items):
        if isinstance(told, Problem):
            app.metrics.count_problem(told.code)
            results.append({"status": "refused", "code": told.code, "detail": told.detail})
        else:
            results.append({"status": told.status})
    return Reply(200, wire.encode({"results": results}))


async def activate(app: Application, asked: Asked) -> Reply:
    """Make a deferred decision count."""
    await app.service.activate(asked.who, asked.given[0])
    return Reply(204, b"")


# ---- experiments


async def experiments(app: Application, asked: Asked) -> Reply:
    """List the experiments."""
    return Reply(200, wire.encode({"experiments": app.service.experiments(asked.who)}))


def _described(found: dict[str, Any], status: int = 200) -> Reply:
    body = wire.encode(found)
    return Reply(status, body, extra=[(b"etag", _tag(found))])


def _tag(found: dict[str, Any]) -> bytes:
    """Return the ETag: the version that changes are based on, and a digest of the rest.

    Probabilities follow from it; they are found anew, to the last bits, whenever they are read.
    """
    lasting = {name: value for name, value in found.items() if name != "state_age"}
    lasting["arms"] = [{**arm, "probability": None} for arm in found["arms"]]
    digest = hashlib.blake2b(wire.encode(lasting), digest_size=8).hexdigest()
    return f'"{found["config_version"]}-{digest}"'.encode()


async def create(app: Application, asked: Asked) -> Reply:
    """Create an experiment."""
    found = await app.service.create(asked.who, asked.body, request_id=asked.id.decode())
    return _described(found, 201)


async def experiment(app: Application, asked: Asked) -> Reply:
    """Describe an experiment."""
    found = app.service.experiment(asked.who, asked.given[0])
    known = asked.headers.get(b"if-none-match", b"")
    tag = _tag(found)
    if known.strip() == b"*" or tag in [each.strip() for each in known.split(b",")]:
        return Reply(304, b"", extra=[(b"etag", tag)])
    return Reply(200, wire.encode(found), extra=[(b"etag", tag)])


async def change(app: Application, asked: Asked) -> Reply:
    """Change settings of an experiment."""
    based = asked.headers.get(b"if-match")
    if based is None:
        raise Problem("if_match_missing")
    found = _TAG.fullmatch(based.strip())
    if found is None:
        app.service.experiment(asked.who, asked.given[0])
        raise Problem("config_changed")
    changed = await app.service.patch(
        asked.who,
        asked.given[0],
        wire.given(asked.body),
        if_match=int(found[1]),
        request_id=asked.id.decode(),
    )
    return _described(changed)


async def act(app: Application, asked: Asked) -> Reply:
    """Change the mode of an experiment."""
    arm = None if asked.body is None else asked.body.arm
    found = await app.service.set_mode(
        asked.who,
        asked.given[0],
        asked.route.operation,
        arm=arm,
        request_id=asked.id.decode(),
    )
    return _described(found)


async def add_arm(app: Application, asked: Asked) -> Reply:
    """Add an arm."""
    found = await app.service.add_arm(
        asked.who,
        asked.given[0],
        asked.body,
        probability=asked.body.probability,
        request_id=asked.id.decode(),
    )
    return _described(found, 201)


async def retire_arm(app: Application, asked: Asked) -> Reply:
    """Retire an arm."""
    name, arm = asked.given
    await app.service.retire_arm(asked.who, name, arm, request_id=asked.id.decode())
    return Reply(204, b"")


# ---- the log


async def export(app: Application, asked: Asked) -> Stream:
    """Stream the log in one of the formats."""
    name = asked.given[0]
    described = app.service.experiment(asked.who, name)
    form = exports.format_of(asked.query.format, [arm["name"] for arm in described["arms"]])
    gaps = await app.service.gaps(asked.who, name)
    rows = app.service.rows(asked.who, name, since=asked.query.since)

    async def pieces() -> AsyncIterator[bytes]:
        async for some in rows:
            # A thread: formatting a piece takes milliseconds, which decisions must not wait.
            yield await asyncio.to_thread(form.piece, some)
        yield await asyncio.to_thread(form.end)

    file = f"{name}.{form.suffix}"
    extra: list[Header] = [
        (b"content-disposition", f'attachment; filename="{file}"'.encode("ascii", "replace")),
        # What the log lacks, as far as anybody can know.
        (b"x-log-missing", b"%d" % gaps["missing"]),
        (b"x-log-unclean-runs", b"%d" % gaps["unclean"]),
    ]
    return Stream(pieces(), form.media.encode(), extra)


async def report(app: Application, asked: Asked) -> Reply:
    """Report on the arms."""
    query = asked.query
    found = await reports.report(
        app.service, asked.who, asked.given[0], query.confidence, query.target
    )
    return Reply(200, wire.encode(found))


async def events(app: Application, asked: Asked) -> Stream:
    """Stream checkpoints as server-sent events."""
    name = asked.given[0]
    app.service.experiment(asked.who, name)
    known = asked.headers.get(b"last-event-id", b"")
    after = int(known) if known.isdigit() and len(known) <= 18 else asked.query.after

    async def pieces() -> AsyncIterator[bytes]:
        last, said = after, time.monotonic()
        yield b": checkpoints follow\n\n"
        while not app.stopping.is_set():
            found = await app.service.checkpoints(asked.who, name, after=last)
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


async def quarantined(app: Application, asked: Asked) -> Reply:
    """List feedback in quarantine."""
    found = await app.service.quarantined(asked.who, asked.given[0])
    return Reply(200, wire.encode({"items": found}))


async def release(app: Application, asked: Asked) -> Reply:
    """Learn from feedback in quarantine."""
    ids = None if asked.body is None else asked.body.ids
    count = await app.service.release(asked.who, asked.given[0], ids, request_id=asked.id.decode())
    return Reply(200, wire.encode({"count": count}))


async def drop(app: Application, asked: Asked) -> Reply:
    """Drop feedback in quarantine."""
    ids = None if asked.body is None else asked.body.ids
    count = await app.service.drop(asked.who, asked.given[0], ids, request_id=asked.id.decode())
    return Reply(200, wire.encode({"count": count}))


# ---- administration


async def audit(app: Application, asked: Asked) -> Reply:
    """List who changed what."""
    found = await app.service.audit(asked.who, after=asked.query.after, limit=asked.query.limit)
    return Reply(200, wire.encode({"entries": found}))


async def keys(app: Application, asked: Asked) -> Reply:
    """List the keys."""
    return Reply(200, wire.encode({"keys": app.service.keys(asked.who)}))


async def create_key(app: Application, asked: Asked) -> Reply:
    """Create a key."""
    secret, made = await app.service.create_key(
        asked.who, asked.body.scopes, label=asked.body.label, request_id=asked.id.decode()
    )
    return Reply(201, wire.encode({**made, "key": secret}), extra=[(b"cache-control", b"no-store")])


async def revoke_key(app: Application, asked: Asked) -> Reply:
    """Revoke a key."""
    await app.service.revoke_key(asked.who, asked.given[0], request_id=asked.id.decode())
    return Reply(204, b"")


async def rotate(app: Application, asked: Asked) -> Reply:
    """Sign with a new token key from now on."""
    made = await app.service.rotate_token_key(asked.who, request_id=asked.id.decode())
    return Reply(201, wire.encode({"token_key": made}))


# ---- the service itself

_OK = wire.encode({"status": "ok"})
_DOCUMENT = wire.encode(openapi.document())


async def healthz(app: Application, asked: Asked) -> Reply:
    """Answer."""
    return Reply(200, _OK)


async def readyz(app: Application, asked: Asked) -> Reply:
    """Say whether the service can decide."""
    why = "The service is stopping." if app.stopping.is_set() else app.service.ready()
    if why is not None:
        raise Problem("not_ready", why)
    return Reply(200, _OK)


async def metrics(app: Application, asked: Asked) -> Reply:
    """Show the metrics."""
    return Reply(200, app.metrics.text(), CONTENT_TYPE.encode())


async def document(app: Application, asked: Asked) -> Reply:
    """Show the OpenAPI document."""
    return Reply(200, _DOCUMENT)


HANDLERS: dict[str, Handler] = {
    "decide": decide, "decide_many": decide_many, "feedback": feedback,
    "feedback_many": feedback_many, "activate": activate, "experiments": experiments,
    "create": create, "experiment": experiment, "change": change, "pin": act, "shadow": act,
    "uniform": act, "pause": act, "resume": act, "archive": act, "reset": act,
    "add_arm": add_arm, "retire_arm": retire_arm, "export": export, "report": report,
    "events": events, "quarantined": quarantined, "release": release, "drop": drop,
    "audit": audit, "keys": keys, "create_key": create_key, "revoke_key": revoke_key,
    "rotate": rotate, "healthz": healthz, "readyz": readyz, "metrics": metrics,
    "openapi": document, "evaluate": ofrep.evaluate, "evaluate_all": ofrep.evaluate_all,
}  # fmt: skip
"""What answers each operation."""
DIRECT: dict[str, Direct] = {
    "decide": decide_at_once, "decide_many": decide_many_later, "feedback": feedback_later,
}  # fmt: skip
"""What answers operations that need no ASGI."""
