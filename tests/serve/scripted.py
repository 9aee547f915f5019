"""Scripted run of the service in a forked process, and the checks after its end.

The process that forks has imported and compiled everything and has no threads, so that a run costs
little more than its own work. A run first reports what the run before it had sent again, and then
goes through every kind of write. It writes a line for everything it sends and for every answer.
"""

import asyncio
import base64
import contextlib
import json
import os
import re
import traceback
import uuid
from collections import Counter
from functools import partial
from pathlib import Path

from bothworlds.errors import StoreError
from bothworlds.serve.domain.config import checked
from bothworlds.serve.domain.records import decode
from bothworlds.serve.domain.service import FeedbackItem, Service
from bothworlds.serve.domain.sums import compact, prepare
from bothworlds.serve.ops.verify import replay, verify
from bothworlds.serve.problems import Problem
from bothworlds.serve.store import retention
from bothworlds.serve.store.opening import is_postgres, opened
from serve.conftest import QUIET, spec

ME = Service.LOCAL
# Two of them learn in order.
SPECS = (
    spec("kept", "abc", log="before", sticky_seconds=3600.0),
    spec("after", "abc"),
    spec("capped", "abc", unit_cap=1, policy="allworlds"),
    spec("brief", "abc", policy="allworlds"),
)
ANSWERS = {"learned", "duplicate", "quarantined", "not_learnable"}
"""Answers that acknowledge a feedback."""
RUNS = 25
"""Runs on one store before it is emptied."""


class Run:
    """One run: what it has sent, and what was answered.

    Parameters
    ----------
    number : int
        Which run it is; names of units and requests contain it.
    before : dict
        What the run before had sent: losses by token, and its number.
    """

    def __init__(self, number, before):
        self.number = number
        self.before = before
        self.lines = None

    def say(self, *words):
        """Write a line that the kernel has before anything else happens."""
        os.write(self.lines, (json.dumps(words) + "\n").encode())

    async def tell(self, service, token, loss):
        """Report a loss, and say what was sent and answered."""
        self.say("sent", token, loss)
        try:
            status = (await service.feedback(ME, token, loss=loss)).status
        except Problem as problem:
            status = problem.code
        self.say("answered", token, loss, status)

    async def decide(self, service, name, **more):
        """Return the token of a decision; None if it was refused."""
        try:
            return (await service.decide(ME, name, **more)).decision_id
        except Problem as problem:
            self.say("refused", problem.code)
            return None

    async def attempt(self, awaitable):
        """Return a result; None if it was refused."""
        try:
            return await awaitable
        except Problem as problem:
            self.say("refused", problem.code)
            return None

    async def recover(self, service):
        """Send again what the run before had sent."""
        for token, loss in self.before.get("sent", {}).items():
            await self.tell(service, token, loss)
        if "number" in self.before:
            key = f"request-{self.before['number']}"
            pair = [await self.decide(service, "after", idempotency_key=key) for _ in range(2)]
            self.say("requested", *pair)

    async def write(self, service):
        """Go through every kind of write, one after the other."""
        number = self.number
        units = [await self.decide(service, "kept", unit=f"{number}/{i}") for i in (0, 1, 0)]
        key = f"request-{number}"
        named = [await self.decide(service, "after", idempotency_key=key) for _ in range(2)]
        deferred = await self.decide(service, "kept", unit=f"{number}/d", deferred=True)
        if deferred is not None:
            await self.attempt(service.activate(ME, deferred))
        many = await self.attempt(service.decide_many(ME, "kept", 2)) or []
        await self.attempt(service.flushed())
        capped = [await self.decide(service, "capped", unit=f"{number}") for _ in range(2)]
        brief = await self.decide(service, "brief")
        for token in {units[0], named[0], brief} - {None}:
            await self.tell(service, token, 0.25)
        items = [(token, 0.5) for token in [*capped, *(each.decision_id for each in many)] if token]
        # One of them was reported before, with another loss.
        if units[0] is not None:
            items.append((units[0], 0.75))
        for token, loss in items:
            self.say("sent", token, loss)
        told = await self.attempt(
            service.feedback_many(ME, [FeedbackItem(decision_id=t, loss=x) for t, x in items])
        )
        for (token, loss), answer in zip(items, told or [], strict=False):
            status = answer.code if isinstance(answer, Problem) else answer.status
            self.say("answered", token, loss, status)
        # Its own alone, so that runs that were killed do not make later ones longer.
        ids = [str(uuid.UUID(bytes=decode(raw(token)).id)) for token in capped if token]
        await self.attempt(service.release(ME, "capped", ids))
        experiment = service.experiment_state(ME, "after")
        await self.attempt(
            service.patch(
                ME, "after", {"feedback_window": 90_000.0 + number}, if_match=experiment.version
            )
        )
        experiment = service.experiment_state(ME, "brief")
        if brief is not None:
            id = service.state.keyring.verify(brief)[1].id
            work = partial(
                retention.forget_feedback, experiment=experiment.id, version=experiment.version,
                before=id + b"\0", add=compact, order=experiment.config.order,
            )  # fmt: skip
            await self.attempt(service.state.committer.run(work))

    async def serve(self, arm):
        """Open the store, recover, and write; ``arm`` is around opening and around writing."""
        try:
            with arm.opening():
                service = await Service.open(arm.store, QUIET)
        except StoreError as error:
            self.say("passed", arm.passed)
            self.say("not opened", str(error))
            return
        await self.recover(service)
        with arm.writing(service):
            await self.write(service)
        self.say("passed", arm.passed)
        await service.close()


def forked(work, read=json.loads):
    """Call ``work`` with a descriptor in a forked process; return its status and its lines."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        status = 1
        try:
            os.close(reading)
            work(writing)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writing)
    with open(reading, encoding="utf-8") as lines:
        said = [read(line) for line in lines]
    _, status = os.waitpid(process, 0)
    return os.waitstatus_to_exitcode(status), said


class Campaign:
    """Runs on one store, one after the other, and what callers know about it.

    Parameters
    ----------
    store : str
        A path, or ``postgresql://...``.
    """

    def __init__(self, store):
        self.store = store
        self.number = 0
        self.statuses = Counter()
        self.whole = 0
        prepare()
        for each in SPECS:
            checked(each)[0].warm_up()
        self.begin()

    def begin(self):
        """Create the experiments in an empty store, of which callers know nothing yet."""
        self.last = self.number + RUNS
        self.sent, self.acknowledged, self.before = {}, {}, {}
        code, _ = forked(lambda lines: asyncio.run(self.create()))
        assert code == 0

    def finish(self, arm):
        """Check that the store has all that was sent, after two whole runs; then empty it."""
        # The second run reports again what the first has sent.
        for _ in range(2):
            code, _ = self.run(arm)
            assert code == 0
        stored, sent = self.check()
        assert stored == sent
        self.whole += sent
        empty(self.store)

    def renew(self, arm):
        """Go on with an empty store, once this one is long: each check reads all of it."""
        if self.number >= self.last:
            self.finish(arm)
            self.begin()

    async def create(self):
        """Create the experiments."""
        service = await Service.open(self.store, QUIET)
        for each in SPECS:
            await service.create(ME, each)
        await service.close()

    def run(self, arm):
        """Run the script once; return its exit code and what it said."""
        self.number += 1
        run = Run(self.number, self.before)

        def work(lines):
            run.lines = lines
            asyncio.run(run.serve(arm))

        code, said = forked(work)
        known = set(self.sent)
        for first, *rest in said:
            if first == "sent":
                self.sent.setdefault(*rest)
            elif first == "answered":
                token, loss, status = rest
                self.statuses[status] += 1
                if status in ANSWERS:
                    # Of two losses for one decision, the first that is acknowledged counts.
                    assert self.acknowledged.setdefault(token, loss) == loss, rest
                else:
                    assert status in ("already_told", "expired", "store_unavailable"), rest
            elif first == "refused":
                assert rest == ["store_unavailable"], rest
                self.statuses["refused"] += 1
            elif first == "requested":
                assert rest[0] == rest[1] or None in rest, rest
            elif first == "not opened":
                assert re.fullmatch(r"The .*[^.]\.", rest[0]), rest
                self.statuses[first] += 1
        again = {
            token: loss
            for token, loss in self.sent.items()
            if token not in known or token not in self.acknowledged
        }
        self.before = {"sent": again, "number": self.number}
        return code, said

    def check(self):
        """Check the store against what was sent and acknowledged."""
        assert [each for each in verify(self.store) if not each.ok] == []
        assert all(each.equal for each in replay(self.store))
        with contextlib.closing(opened(self.store, serve=False)) as store:
            stored = {row.id: row.loss for rows in store.reader.feedback() for row in rows}
            forgotten = max(store.reader.forgotten().values(), default=b"")
            compacted = sum(each.learned for each in store.reader.compacted().values())
        ids = {token: decode(raw(token)).id for token in self.sent}
        for token, loss in self.acknowledged.items():
            id = ids[token]
            assert stored.get(id, loss if id <= forgotten else None) == loss, token
        assert set(stored) <= set(ids.values())
        assert len(stored) + compacted <= len(ids)
        return len(stored) + compacted, len(ids)


def empty(store):
    """Leave nothing of a store."""
    if is_postgres(store):
        from serve.databases import query

        query(store, "DROP SCHEMA public CASCADE")
        query(store, "CREATE SCHEMA public")
    else:
        for path in Path(store).parent.glob(f"{Path(store).name}*"):
            path.unlink()


def raw(token):
    """Return the record of a token."""
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))[:-16]
