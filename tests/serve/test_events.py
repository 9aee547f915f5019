"""Server-sent events and failures inside a handler, of the application without a server."""

import asyncio
import json
import logging

import pytest

from bothworlds.serve.domain.service import Arm, NewExperiment, Service, Settings
from bothworlds.serve.http.app import Application
from helpers.waiting import HANG


class Caller:
    """One request to an application, as a server would hand it over."""

    def __init__(self, application, method, path, **headers):
        self.gone = asyncio.Event()
        self.sent = []
        self.arrived = asyncio.Event()
        raw, _, query = path.partition("?")
        given = [(name.encode(), value.encode()) for name, value in headers.items()]
        scope = {
            "type": "http", "method": method, "raw_path": raw.encode(),
            "query_string": query.encode(),
            "headers": [(b"host", b"localhost"), *given],
        }  # fmt: skip
        self.task = asyncio.ensure_future(application(scope, self.receive, self.send))

    async def receive(self):
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message):
        self.sent.append(message)
        self.arrived.set()

    @property
    def body(self):
        return b"".join(each.get("body", b"") for each in self.sent)

    async def until(self, found):
        async with asyncio.timeout(HANG):
            while not found(self.body):
                self.arrived.clear()
                await self.arrived.wait()


async def application(store, work):
    settings = Settings(checkpoint_seconds=0.02, poll_seconds=0.05)
    app = Application(lambda: Service.open(str(store), settings), keys=False)
    app.service = await app._opening()
    try:
        spec = NewExperiment("headline", [Arm("a"), Arm("b")])
        await app.service.create(Service.LOCAL, spec)
        return await work(app)
    finally:
        app.stopping.set()
        await app.service.close()


def events(body):
    """Return ids and data of the events in a stream."""
    blocks = [block for block in body.decode().split("\n\n") if block.startswith("id: ")]
    lines = [dict(line.split(": ", 1) for line in block.splitlines()) for block in blocks]
    assert {each["event"] for each in lines} <= {"checkpoint"}
    return [(int(each["id"]), json.loads(each["data"])) for each in lines]


@pytest.mark.slow
def test_checkpoints_are_sent_and_followed_from_where_one_stopped(tmp_path):
    async def work(app):
        decided = await app.service.decide(Service.LOCAL, "headline")
        await app.service.feedback(Service.LOCAL, decided.decision_id, loss=0.5)
        path = "/v1/experiments/headline/events"
        first = Caller(app, "GET", path)
        await first.until(lambda body: events(body))
        first.gone.set()
        await asyncio.wait_for(first.task, HANG)
        # A proxy such as nginx would hold events back.
        assert (b"x-accel-buffering", b"no") in first.sent[0]["headers"]
        seen = events(first.body)
        assert [id for id, _ in seen] == sorted({id for id, _ in seen})
        assert set(seen[-1][1]["probabilities"]) == {"a", "b"}
        last = seen[-1][0]
        again = Caller(app, "GET", path, **{"last-event-id": str(last)})
        decided = await app.service.decide(Service.LOCAL, "headline")
        await app.service.feedback(Service.LOCAL, decided.decision_id, loss=0.5)
        await again.until(lambda body: events(body))
        assert events(again.body)[0][0] > last
        # A service that stops ends the stream.
        app.stopping.set()
        await asyncio.wait_for(again.task, HANG)
        assert again.sent[-1] == {"type": "http.response.body", "body": b""}

    asyncio.run(application(tmp_path / "store.db", work))


@pytest.mark.parametrize("operation", ["readyz", "export"])
def test_a_failure_is_answered_with_a_code_or_not_at_all(tmp_path, operation, caplog, monkeypatch):
    path = {"readyz": "/readyz", "export": "/v1/experiments/headline/export"}[operation]

    async def work(app):
        def broken():
            raise RuntimeError("the secret token")

        async def failing(*_, **__):
            broken()
            yield

        if operation == "readyz":
            app.service.ready = broken
        else:
            app.service.export = failing
        caller = Caller(app, "GET", path)
        done, _ = await asyncio.wait([caller.task], timeout=HANG)
        assert done
        return caller

    monkeypatch.setattr(logging.getLogger("bothworlds"), "propagate", True)
    caller = asyncio.run(application(tmp_path / "store.db", work))
    if operation == "readyz":
        assert caller.sent[0]["status"] == 500
        document = json.loads(caller.body)
        assert document["code"] == "internal"
        assert "secret" not in caller.body.decode()
    else:
        # The status was sent already: the answer lacks its end, and the server cuts it off.
        assert isinstance(caller.task.exception(), RuntimeError)
        assert not any(each.get("more_body") is False for each in caller.sent)
        assert caller.sent[-1] != {"type": "http.response.body", "body": b""}
    assert any(record.levelname == "ERROR" for record in caplog.records)
