"""Deterministic simulation: replicas, callers, a database and clocks on one thread, by a seed.

The code of the service is the real one: deciding, feedback, tokens, replicas, the committer, the
writer and reader of PostgreSQL with their SQL, retention and `verify`.  Simulated are the threads
(`Loop`, `Committer`), the network, the clocks and the database, which is SQLite in memory behind
the connections of PostgreSQL (`Line`): a transaction is one step.

A schedule is some tens of steps that a seed chooses: requests, whose answers may be lost, parts of
what the threads have to do, polls, crashes, restarts, broken connections, commits whose end is not
known, clocks that differ, retention, and a database that goes back in time.  Afterwards everything
heals, callers report again what was not acknowledged, and every invariant is checked.

``python tests/serve/simulation.py --schedules 100000`` prints the seeds of schedules that fail;
``make schedules`` runs it in two processes.
"""

import argparse
import asyncio
import contextlib
import gc
import itertools
import json
import logging
import multiprocessing
import random
import re
import sqlite3
import sys
import time
from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

import psycopg

from bothworlds.errors import StoreError
from bothworlds.serve.domain import (
    administration,
    deciding,
    experiment,
    feedback,
    records,
    replicas,
    service,
    state,
    tokens,
)
from bothworlds.serve.domain.config import Config, checked
from bothworlds.serve.domain.draws import Lineup
from bothworlds.serve.domain.service import Arm, NewExperiment, Service, Settings
from bothworlds.serve.domain.sums import prepare
from bothworlds.serve.ops import upkeep, verify
from bothworlds.serve.problems import Problem
from bothworlds.serve.store import (
    commit,
    postgres,
    reader,
    schema,
    segments,
    writer,
)
from bothworlds.serve.store.base import Store
from bothworlds.serve.store.postgres import PostgresReader, PostgresWriter
from bothworlds.serve.store.rows import CLOCK_LIMIT, Replica
from bothworlds.serve.store.sqlite import SqliteReader
from bothworlds.serve.store.writer import Writer

ME = Service.LOCAL
WINDOW = 3600.0
START = 1_700_000_000.0
SETTINGS = Settings(
    poll_seconds=1e9, sweep_seconds=1e9, checkpoint_seconds=1e9, recovery_seconds=0.0
)
SPECS = (
    NewExperiment("plain", [Arm("a"), Arm("b")], feedback_window=WINDOW, max_segments=2),
    NewExperiment("capped", [Arm("a"), Arm("b")], feedback_window=WINDOW, unit_cap=1),
)
LOST = ("bad_signature", "expired", "epoch_over")
ACCEPTED = ("learned", "duplicate", "quarantined", "not_learnable")


PART = 1000
"""Schedules of one piece of work of a process."""
GARBAGE = 5
"""Schedules after which garbage is collected."""


class Violation(AssertionError):
    """An invariant does not hold."""


def need(true, invariant, detail):
    """Report a violation unless something is true."""
    if not true:
        raise Violation(f"{invariant}: {detail}")


# --- what is simulated ---------------------------------------------------------------------------


class Clock:
    """The module `time` of the process that runs at the moment."""

    now = START
    skew = 0.0

    def time(self):
        return self.now + self.skew

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        pass


def kept(build, key):
    """Return a function that builds a thing once for all schedules: none of them is changed."""
    known = {}

    def found(*given):
        place = key(*given)
        if place not in known:
            # With what it is made of: an address that is free again may be another thing's.
            known[place] = build(*given), given
        return known[place][0]

    return found


class Flag:
    """An event of `threading`, for which nothing waits: there is one thread."""

    flag = False

    def is_set(self):
        return self.flag

    def set(self):
        self.flag = True

    def clear(self):
        self.flag = False

    def wait(self, seconds=None):
        return self.flag


def unused(*given, **more):
    """Stand for a thread, whose work is a step of the schedule."""


THREADING = SimpleNamespace(Event=Flag, Thread=unused)
LOADS = kept(json.loads, lambda text: text)
CONFIGS = SimpleNamespace(from_document=kept(Config.from_document, id))
LINEUPS = kept(Lineup, lambda policy, places, known: (id(policy), tuple(places), known))
SHARED = experiment._shared_lineup
STARTS = {}


def new_lineup(*given):
    """Return a lineup as it is made: the last bit of a probability depends on earlier draws."""
    found = LINEUPS(*given)
    found._F[:] = STARTS.setdefault(found, found._F.copy())
    return found


CLOCK = Clock()
RANDOM = random.Random()
MODULES = (
    administration, deciding, feedback, replicas, state, commit, postgres, writer,
    schema,
)  # fmt: skip


@contextlib.contextmanager
def simulated():
    """Give the service the simulated clock, randomness and thread, and silence its log."""
    saved = [(each, "time", each.time) for each in MODULES if hasattr(each, "time")]
    saved += [(each, "os", each.os) for each in (tokens, writer, schema, segments)]
    saved += [(writer, "secrets", writer.secrets), (state, "Committer", state.Committer)]
    saved += [(each, "Config", each.Config) for each in (experiment, replicas, verify)]
    saved += [(upkeep, "DAY", upkeep.DAY), (experiment, "_shared_lineup", SHARED)]
    saved += [(reader, "json", reader.json), (service, "prepare", service.prepare)]
    saved += [(commit, "threading", commit.threading)]
    saved += [(state, "ThreadPoolExecutor", state.ThreadPoolExecutor)]
    chance = SimpleNamespace(urandom=RANDOM.randbytes, randbits=RANDOM.getrandbits)
    named = {"time": CLOCK, "os": chance, "secrets": chance, "Committer": Committer,
             "DAY": 1.0, "Config": CONFIGS, "_shared_lineup": new_lineup,
             "json": SimpleNamespace(loads=LOADS), "prepare": lambda: None,
             "threading": THREADING, "ThreadPoolExecutor": unused}  # fmt: skip
    for module, name, _ in saved:
        setattr(module, name, named[name])
    log = logging.getLogger("bothworlds.serve")
    level = log.level
    log.setLevel(logging.CRITICAL)
    # `explore` looks for garbage now and then.
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        asyncio._set_running_loop(None)
        gc.enable()
        gc.unfreeze()
        log.setLevel(level)
        for module, name, value in saved:
            setattr(module, name, value)


class Database:
    """A database: SQLite in memory, with sessions, advisory locks and a timeline."""

    def __init__(self):
        self.connection = sqlite3.connect(":memory:", isolation_level=None, cached_statements=512)
        self.timeline = self.tables = 1
        self.losses = self.session = 0
        self.ended = set()
        self.locks = {}
        self.statements = dict(CONSTANTS)
        """Those that were run: there are few of them."""
        self.versions = {}
        """By table; content of one version is the same."""
        self.configurations = {}
        """Those that were read, by the versions of all tables that they are read from."""
        self.connection.create_function("sim_now", 0, lambda: CLOCK.now)

    def keep(self):
        """Let every schedule begin with the present content."""
        found = self.connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        self.first = {name: 0 for (name,) in found}
        self.versions = dict(self.first)
        self.statements = dict(CONSTANTS)

    def changed(self):
        """Give all tables versions that they never had."""
        now = next(COUNTED)
        self.versions = dict.fromkeys(self.versions, now)

    def start_over(self, losses):
        """Undo everything since the database was created; every session ends.

        ``losses`` decides how the database goes back first. A schedule is one transaction of
        SQLite, and its transactions are savepoints: content that is copied back makes SQLite parse
        all statements again, which took half of a schedule.
        """
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")
        self.connection.execute("BEGIN")
        self.versions = dict(self.first)
        self.timeline = self.tables = 1
        self.losses = losses
        self.end_sessions()

    def back_up(self):
        """Remember all content, until the next backup."""
        self.connection.execute("SAVEPOINT backup")

    def go_back(self):
        """Lose everything since the backup, by a failover or a dump; every session ends."""
        self.connection.execute("ROLLBACK TO backup")
        self.changed()
        self.losses += 1
        if self.losses % 2:
            self.timeline += 1
        else:
            self.tables += 1
        self.end_sessions()

    def end_sessions(self):
        """Break all connections."""
        self.session += 1
        self.locks.clear()


class Answer(NamedTuple):
    """A cursor on rows that were fetched."""

    rows: list

    def fetchall(self):
        return self.rows


class Statement:
    """A statement of PostgreSQL as SQLite has it; a query remembers its rows.

    They are those of the next time if no table that the query names was written meanwhile.
    """

    def __init__(self, sql, tables):
        for old, new in REPLACED:
            sql = sql.replace(old, new)
        self.sql = sql
        written = WRITES.match(sql)
        self.table = written and written[1]
        self.changes = not sql.startswith(("SELECT", "SAVEPOINT"))
        named = set(re.findall(r"\w+", sql))
        self.tables = [each for each in tables if each in named]
        repeats = sql.startswith("SELECT") and "sim_now" not in sql and self.tables
        self.known = {} if repeats else None

    def run(self, database, values):
        """Run it, or return the rows of an earlier time."""
        if self.known is None:
            if self.table is not None:
                database.versions[self.table] = next(COUNTED)
            elif self.changes:
                database.changed()
            return database.connection.execute(self.sql, values)
        versions = database.versions
        now = (*values, *[versions[each] for each in self.tables])
        found = self.known.get(now)
        if found is None:
            if len(self.known) > MANY:
                self.known.clear()
            rows = database.connection.execute(self.sql, values).fetchall()
            found = self.known[now] = Answer(rows)
        return found


class Constant(NamedTuple):
    """A statement whose answer needs no tables."""

    answer: object

    def run(self, database, values):
        return Answer([(self.answer(database),)])


MANY = 100
"""Rows that a query remembers."""
COUNTED = itertools.count(1)
WRITES = re.compile(r"(?:INSERT INTO|UPDATE|DELETE FROM) (\w+)")
REPLACED = (
    (postgres.STARTED, "0.0"),
    (postgres.NOW, "sim_now()"),
    ("GREATEST(", "max("),
    ("SELECT pg_notify(?, ?)", "SELECT ?, ?"),
    ("BEGIN ISOLATION LEVEL READ COMMITTED", "SAVEPOINT step"),
)
CONSTANTS = {
    "SELECT pg_is_in_recovery()": Constant(lambda database: False),
    postgres.MAY_READ_TIMELINE: Constant(lambda database: True),
    postgres.PostgresWriter.announce: Constant(lambda database: True),
    postgres.TIMELINE: Constant(lambda database: f"1/{database.timeline}"),
    postgres.TABLES: Constant(lambda database: f"1/{database.tables}"),
}


class Line:
    """A connection to the database, in place of `postgres._Line`."""

    info = SimpleNamespace(backend_pid=1)

    def __init__(self, database, greet=None, process=None):
        self.database = database
        self.greet = greet
        self.process = process
        self.session = None
        self.locks = set()
        self.inside = False
        self.unknown = None

    def connected(self):
        """Return the connection, a new one if the former was broken."""
        if self.session != self.database.session:
            if self.inside:
                raise psycopg.OperationalError("the connection is broken")
            if self.process is not None:
                # While the writing thread connects, the event loop goes on.
                self.process.meanwhile()
            self.session = self.database.session
            self.locks.clear()
            if self.greet is not None:
                try:
                    self.greet(self)
                except BaseException:
                    self.session = None
                    raise
        return self

    def run(self, sql, values=()):
        """Run a statement."""
        database = self.database
        if self.session != database.session:
            self.connected()
        found = database.statements.get(sql)
        if found is None:
            found = database.statements[sql] = Statement(sql, database.versions)
        return found.run(database, values)

    def execute(self, sql, values=()):
        """Run one of the statements with which a connection is greeted."""
        if "pg_try_advisory_lock" in sql:
            found = (True, self.lock(int(values["shard"])))
            return SimpleNamespace(fetchone=lambda: found)
        return None

    def lock(self, number):
        """Take an advisory lock; tell whether it is held."""
        holder = self.database.locks.setdefault(number, self)
        return holder is self

    @contextlib.contextmanager
    def transaction(self, begin):
        """Commit what is done in the block, or none of it."""
        if begin.endswith("READ ONLY"):
            # There is one thread, so nothing changes meanwhile.
            self.connected()
            self.inside = True
            try:
                yield
            finally:
                self.inside = False
            return
        self.run(begin)
        self.inside = True
        connection = self.database.connection
        try:
            yield
            unknown, self.unknown = self.unknown, None
            if unknown == "lost":
                raise psycopg.OperationalError("the connection broke before the commit")
            connection.execute("RELEASE step")
            self.inside = False
            if unknown == "committed":
                self.session = None
                raise psycopg.OperationalError("the connection broke after the commit")
        except BaseException:
            if self.inside:
                connection.execute("ROLLBACK TO step")
                connection.execute("RELEASE step")
                self.database.changed()
            raise
        finally:
            self.inside = False

    def close(self):
        """End the session, with its locks."""
        self.session = None
        for number in [each for each, holder in self.database.locks.items() if holder is self]:
            del self.database.locks[number]


class SimulatedWriter(PostgresWriter):
    """The writer of PostgreSQL, with statements that SQLite has."""

    for_update = for_share = ""
    _insert_new = Writer._insert_new
    _insert_decisions = Writer._insert_decisions

    def execute_many(self, sql, rows):
        database = self.line.connected().database
        database.versions[WRITES.match(sql)[1]] = next(COUNTED)
        database.connection.executemany(sql, rows)

    def _locked(self, how, lock):
        return True if "shared" in how or "xact" in how else self.line.lock(lock)

    def _end_former(self, connection, former):
        return False


class SimulatedReader(PostgresReader):
    """The reader of PostgreSQL, which reads a configuration once for all replicas."""

    versions = SqliteReader.versions

    def configuration(self, known=None):
        database = self.line.connected().database
        now = (id(known), *[database.versions[each] for each in CONFIGURATION])
        read = database.configurations
        if now not in read:
            if len(read) > MANY:
                read.clear()
            # With the known one: an address that is free again may be another one's.
            read[now] = super().configuration(known), known
        return read[now][0]


CONFIGURATION = (
    "deployment", "arm", "experiment", "api_key", "token_key", "tenant", "incarnation", "seal",
    "fold", "segment",
)  # fmt: skip
"""Tables of the configuration."""


class SimulatedStore(Store):
    """A store on the simulated database."""

    has_peers = True
    close_seconds = 1.0
    failures = (psycopg.Error, OSError)

    def __init__(self, database, process=None):
        self.replica = Replica(-1)
        self.writer = SimulatedWriter("", "simulated", self.replica, False)
        self.writer.line = Line(database, self.writer._greet, process)
        self.writer.execute = self.writer.line.run
        self.reader, self.watcher = self._reader(database), self._reader(database, polls=True)
        self.reporter = self.reader
        self.writer.follow_timeline()
        self.writer.take_shard()

    def _reader(self, database, *, polls=False):
        reader = SimulatedReader("", "simulated", self.replica, polls=polls)
        reader.line = Line(database, reader._greet if polls else None)
        reader.execute = reader.line.run
        return reader

    def listen(self, heard):
        pass

    def abort(self):
        pass

    def close(self):
        for each in (self.writer, self.reader, self.watcher):
            each.line.close()


class Loop:
    """An event loop whose callbacks, and the jobs of its threads, run when the schedule asks."""

    def __init__(self):
        self.ready = deque()
        self.jobs = deque()
        self.tasks = []

    def call_soon(self, call, *arguments, context=None):
        self.ready.append((call, arguments))

    call_soon_threadsafe = call_soon

    def call_later(self, delay, call, *arguments, context=None):
        """Never: what a timer would do, a step of the schedule does."""
        return SimpleNamespace(cancel=lambda: None, when=lambda: 0.0)

    call_at = call_later

    def create_future(self):
        return asyncio.Future(loop=self)

    def create_task(self, work, *, name=None, context=None):
        made = asyncio.Task(work, loop=self)
        # A crash leaves tasks behind, and says nothing.
        made._log_destroy_pending = False
        self.tasks.append(made)
        return made

    def end(self):
        """End all tasks where they are."""
        for task in self.tasks:
            if not task.done():
                task.get_coro().close()
        vars(self).clear()

    def run_in_executor(self, executor, function, *arguments):
        future = self.create_future()
        self.jobs.append((future, function, arguments))
        return future

    def get_debug(self):
        return False

    def time(self):
        return CLOCK.now

    def call_exception_handler(self, context):
        """Say nothing of requests that a crash has ended."""

    def run_one(self):
        """Run one callback."""
        call, arguments = self.ready.popleft()
        call(*arguments)

    def run_job(self):
        """Run one job of a thread, and let the loop have its result."""
        future, function, arguments = self.jobs.popleft()
        try:
            outcome = function(*arguments)
        except Exception as error:
            outcome = error
        self.call_soon(commit.resolve, future, outcome)


class Committer(commit.Committer):
    """The committer, whose thread is a step of the schedule."""

    def start(self):
        pass

    def busy(self):
        """Tell whether the thread would do something."""
        return self._answered.flag and (bool(self.log) or any(self._queue._lines.values()))

    def turn(self):
        """Do what the thread does when it wakes up."""
        self._turn()

    def _post(self, call, *arguments):
        if call == self._recount:
            # The thread waits for it.
            call(*arguments)
        else:
            super()._post(call, *arguments)


class Process:
    """A replica: alive or crashed, with its own clock."""

    def __init__(self, world):
        self.world = world
        self.skew = 0.0
        self.service = None
        self.loop = None

    def start(self):
        """Start the service and wait until it has started."""
        CLOCK.skew = self.skew
        self.loop = Loop()
        asyncio._set_running_loop(self.loop)
        try:
            store = SimulatedStore(self.world.database, self)
            self.service = Service(store, SETTINGS)
        finally:
            asyncio._set_running_loop(None)
        started = self.loop.create_task(self.service._start())
        while not started.done():
            self.work()
        started.result()

    def crash(self):
        """End without a word: only what the database has is left."""
        if self.service is not None:
            self.loop.end()
            store, state = self.service.store, self.service.state
            store.close()
            # What refers to itself would be left to the collection of garbage, which takes longer.
            lines = [each.line for each in (store.writer, store.reader, store.watcher)]
            for each in (*lines, *vars(store).values(), state.committer, state, self.service):
                vars(each).clear()
        self.service = self.loop = None

    def knows(self):
        """Return what changes when the process learns of something."""
        service = self.service
        return (
            service.ready(), service.replicas.rebuilds, service.state.committer.failures,
            service.state.configuration.version,
        )  # fmt: skip

    def work(self, most=1):
        """Do at most so many pieces of what there is to do; tell whether there is nothing left."""
        if self.service is None:
            return True
        CLOCK.skew = self.skew
        loop, committer = self.loop, self.service.state.committer
        ready, jobs = loop.ready, loop.jobs
        # Until another process works, or the simulation ends.
        asyncio._set_running_loop(loop)
        for _ in range(most):
            busy = committer.busy()
            if ready and not jobs and not busy:
                # Most of the time, so without a list of what could be done.
                call, arguments = ready.popleft()
                call(*arguments)
                continue
            choices = [loop.run_one] if ready else []
            if jobs:
                choices.append(loop.run_job)
            if busy:
                choices.append(committer.turn)
            if not choices:
                return True
            (choices[0] if len(choices) == 1 else self.world.chance.choice(choices))()
        return False

    def meanwhile(self):
        """Let the event loop and the readers go on while the writing thread waits."""
        if self.service is None:
            return
        loop, steps = self.loop, self.world.chance.choice((0, 0, 3, 30))
        if steps == 30:
            self.world.poll(self, probe=False)
        for _ in range(steps):
            if loop.ready:
                loop.run_one()
            elif loop.jobs:
                loop.run_job()


# --- a schedule ----------------------------------------------------------------------------------


class Made:
    """A decision as its caller and the truth know it."""

    __slots__ = (
        "arm", "at", "epoch", "experiment", "history", "id", "loss", "probability", "refused",
        "sent", "unit",
    )  # fmt: skip


class World:
    """Everything that a schedule has: processes, the database, callers, and the truth.

    Parameters
    ----------
    seed : int
        Of the schedule.
    """

    database = None
    """One for all schedules, which begin with the same image."""

    def __init__(self, seed):
        # Also for the database: its dates must not be those of an earlier schedule's end.
        CLOCK.now, CLOCK.skew = START, 0.0
        if World.database is None:
            RANDOM.seed(0)
            World.database = created()
        self.chance = chance = random.Random(seed)
        RANDOM.seed(seed)
        CLOCK.now, CLOCK.skew = START, 0.0
        self.database.start_over(seed)
        self.processes = [Process(self) for _ in range(chance.choice((1, 2, 2, 3)))]
        self.made = {}
        self.acknowledged = {}
        self.requests = {}
        self.history = 0
        """Counts what is lost: decisions remember in which history they were made."""
        self.lost_histories = set()
        self.backup = None
        self.names = 0
        self.violation = None

    # --- callers ---------------------------------------------------------------------------------

    def ask(self, process, request, done):
        """Send a request to a process; ``done`` is called with its answer unless that is lost."""
        if process.service is None:
            return
        lost = self.chance.random() < 0.15

        async def asked():
            try:
                answer = await request(process.service)
            except Problem as problem:
                answer = problem
            if not lost:
                self.watched(done, answer)

        process.loop.create_task(asked())

    def watched(self, check, *given):
        """Call a check inside a task, which would keep a violation to itself."""
        try:
            check(*given)
        except Violation as violation:
            self.violation = self.violation or violation

    def decide(self, process, key=None):
        """Ask for a decision, perhaps again by the key of a request."""
        chance = self.chance
        name = "plain" if key is not None else chance.choice(("plain", "plain", "capped"))
        more = {}
        if name == "capped":
            more["unit"] = "u"
        elif key is None and chance.random() < 0.3:
            key = f"k{chance.randrange(2)}"
        if key is not None:
            more["idempotency_key"] = key
        elif name == "plain" and chance.random() < 0.4:
            # There is room for two.
            more["segment"] = chance.choice("xyz")
        history = self.history

        async def request(service):
            created_at = service.experiment_state(ME, name).row.created_at
            decided = await service.decide(ME, name, **more)
            # The truth, which no answer that is lost hides.
            if decided.decision_id not in self.made:
                made = Made()
                record = records.decode(raw(decided.decision_id))
                made.experiment, made.arm = created_at, decided.arm
                made.probability, made.epoch = decided.probability, record.epoch
                made.id, made.history = record.id, history
                made.at = record.at if decided.replayed else CLOCK.now
                made.loss, made.sent, made.refused = chance.choice((0.0, 0.5, 1.0)), False, False
                made.unit = more.get("unit")
                self.made[decided.decision_id] = made
            return decided

        def done(answer):
            if isinstance(answer, Problem):
                need(answer.code != "idempotency_key_reused", "S8", "an honest retry was refused")
                return
            if key is not None and history == self.history:
                # After the experiment's reset the same request is answered another time.
                known = self.requests.setdefault(key, answer.decision_id)
                need(known == answer.decision_id, "I1", "a request got two decisions")

        self.ask(process, request, done)

    def tell(self, process, token, loss=None):
        """Report a loss, by default the true one."""
        made = self.made[token]
        made.sent = True
        given = made.loss if loss is None else loss
        history = self.history

        def done(answer):
            status = answer.code if isinstance(answer, Problem) else answer.status
            if status in ACCEPTED:
                need(0.0 <= given <= 1.0, "I4", "a loss out of bounds was accepted")
                # A request from before the database went back may have been committed before it,
                # and lost: its answer can arrive after another replica has refused the id.
                if history == self.history:
                    need(not made.refused, "I11", "an id was learned after it was refused")
                    known = self.acknowledged.setdefault(token, (given, CLOCK.now))
                    need(known[0] == given, "I1", "two losses were acknowledged")
            elif status == "bad_signature":
                made.refused = True
            elif status == "expired":
                fresh = CLOCK.now - made.at < WINDOW - 2 * CLOCK_LIMIT
                need(not fresh, "S10", "fresh feedback was refused")

        self.ask(process, lambda service: service.feedback(ME, token, loss=given), done)

    def forgotten(self, id):
        """Tell whether retention has deleted feedback beyond an id."""
        rows = self.database.connection.execute("SELECT upto FROM forgotten").fetchall()
        return any(id <= upto for (upto,) in rows)

    # --- steps -----------------------------------------------------------------------------------

    def step(self):
        """Let one thing happen."""
        chance = self.chance
        CLOCK.now += chance.choice((0.001, 0.001, 0.5, 20.0))
        process = chance.choice(self.processes)
        kind = chance.choices(STEPS, WEIGHTS)[0]
        CLOCK.skew = process.skew
        if kind == "work":
            process.work(chance.randrange(1, 12))
        elif kind == "decide":
            self.decide(process)
            self.settle(process)
        elif kind == "tell" and self.made:
            token = chance.choice(list(self.made))
            self.tell(process, token, chance.choice((None, None, None, 0.25, 2.0)))
            if chance.random() < 0.3:
                # The network delivers a request twice.
                self.tell(chance.choice(self.processes), token)
        elif kind == "poll" and process.service is not None:
            self.poll(process)
        elif kind == "crash":
            process.crash()
        elif kind == "start" and process.service is None:
            process.skew = chance.choice((0.0, 0.0, 2.0, -2.0, 600.0, -600.0))
            process.start()
        elif kind == "connections":
            self.database.end_sessions()
        elif kind == "unknown" and process.service is not None:
            process.service.store.writer.line.unknown = chance.choice(("lost", "committed"))
        elif kind == "change" and process.service is not None:
            self.change(process)
        elif kind == "backup":
            self.back_up()
        elif kind == "go back" and self.backup is not None:
            self.go_back()
        elif kind == "retention" and process.service is not None:
            self.forget(process)
        elif kind == "hours":
            CLOCK.now += WINDOW

    def settle(self, process, most=40):
        """Let a process work until it has nothing to do."""
        return process.work(most)

    def poll(self, process, *, probe=True):
        """Let a process poll; afterwards it must know that its clock is wrong."""
        if probe and process.service.state.committer.failing:
            # The thread also tries now and then whether the store takes writes again.
            process.service.state.committer.turn()

        service = process.service

        def knows():
            wrong = abs(process.skew) > CLOCK_LIMIT
            ready = service.ready() is None
            need(not (wrong and ready), "I12", "a replica with a wrong clock is ready")

        async def polled():
            with contextlib.suppress(Problem, StoreError):
                await service.replicas.poll_once()
                self.watched(knows)

        process.loop.create_task(polled())

    def change(self, process, kind=None):
        """Add an arm, begin an epoch, or change the window."""
        self.names += 1
        name = f"n{self.names}"
        kind = self.chance.randrange(3) if kind is None else kind

        async def request(service):
            if kind == 0:
                return await service.add_arm(ME, "plain", Arm(name))
            if kind == 1:
                return await service.set_mode(ME, "plain", "reset")
            return await service.patch(
                ME, "plain", {"feedback_window": self.chance.choice((1.0, 10.0)) * WINDOW},
                if_match=service.experiment_state(ME, "plain").version,
            )  # fmt: skip

        if kind == 1:
            self.requests.clear()
        self.ask(process, request, lambda answer: None)
        self.settle(process)
        if self.requests:
            # A caller that has no answer sends its request again.
            self.decide(process, self.chance.choice(list(self.requests)))

    def back_up(self):
        """Remember the database as it is."""
        rows = self.database.connection.execute("SELECT id FROM feedback").fetchall()
        self.backup = (
            {id for (id,) in rows}, CLOCK.now, self.history + 1, dict(self.requests),
        )  # fmt: skip
        self.database.back_up()
        # Decisions from now on are lost if the database goes back to this moment.
        self.history += 1

    def go_back(self):
        """Let the database lose everything since the backup."""
        stored, at, first, requests = self.backup
        self.lost_histories.update(range(first, self.history + 1))
        self.history += 1
        self.backup = None
        self.database.go_back()
        self.requests = requests
        for token, (_, when) in list(self.acknowledged.items()):
            id = self.made[token].id
            if id not in stored and not self.forgotten(id):
                need(when >= at, "I1", "a backup lacks what was acknowledged before it")
                del self.acknowledged[token]

    def forget(self, process):
        """Let a process delete old feedback, as its upkeep does; the window may then get wider."""
        CLOCK.now += self.chance.choice((0.0, 1.1, 1.1)) * WINDOW
        process.loop.create_task(self._quietly(process.service.upkeep._forget, 0.0))
        if self.chance.random() < 0.7:
            self.settle(process)
            self.change(process, 2)

    async def _quietly(self, work, *given):
        with contextlib.suppress(Problem, StoreError):
            await work(*given)

    # --- the end ---------------------------------------------------------------------------------

    def heal(self):
        """Start and connect everything, and report what was not acknowledged."""
        for process in self.processes:
            if self.chance.random() < 0.3:
                process.crash()
            process.skew = 0.0
            if process.service is None:
                process.start()
            process.service.store.writer.line.unknown = None
        self.catch_up(3)
        for token in list(self.made):
            self.tell_surely(self.chance.choice(self.processes), token)
        self.catch_up(1)

    def catch_up(self, times):
        """Let every process poll until none learns of a change, which may take more than once."""
        for _ in range(times):
            before = [process.knows() for process in self.processes]
            for process in self.processes:
                # The sweep also makes a writer that has nothing to write connect again.
                process.loop.create_task(self._quietly(process.service.upkeep.sweep))
                self.poll(process)
                need(self.settle(process, 400), "liveness", "a replica does not come to rest")
            if before == [process.knows() for process in self.processes]:
                break

    def tell_surely(self, process, token):
        """Report a loss until there is an answer, which does not get lost."""
        made = self.made[token]
        made.sent = True
        for _ in range(5):
            found = []

            async def asked(found=found):
                try:
                    told = await process.service.feedback(ME, token, loss=made.loss)
                    found.append(told.status)
                except Problem as problem:
                    found.append(problem.code)

            process.loop.create_task(asked())
            need(self.settle(process, 400) and found, "liveness", "a feedback is not answered")
            if found[0] != "store_unavailable":
                break
            self.catch_up(1)
        status = found[0]
        if token in self.acknowledged:
            need(status != "learned", "I1", "an acknowledged feedback is learned again")
        if status == "expired":
            fresh = CLOCK.now - made.at < WINDOW - 2 * CLOCK_LIMIT
            need(not fresh, "S10", "fresh feedback was refused")
        if status in ("learned", "duplicate", "quarantined"):
            need(not made.refused, "I11", "an id was learned after it was refused")
            self.acknowledged[token] = (made.loss, CLOCK.now)
        elif status == "bad_signature":
            made.refused = True
        else:
            need(status in ("already_told", "expired", "epoch_over"), "liveness", status)

    def check(self):
        """Check every invariant against the database and the truth."""
        reader = self.processes[0].service.store.reader
        for finding in verify.verify_store(reader):
            need(finding.ok, finding.invariant, finding.detail)
        experiments = {each.id: each for each in reader.configuration().experiments}
        truth = {made.id: made for made in self.made.values()}
        stored = {row.id: row for rows in reader.feedback() for row in rows}
        forgotten = reader.forgotten()
        units = {}
        for row in stored.values():
            made = truth.get(row.id)
            need(made is not None, "I3", "feedback of a decision that was never made")
            record = records.decode(row.record)
            found = experiments[row.experiment]
            need(found.created_at == made.experiment, "I3", "another experiment's feedback")
            need(found.arms[record.arm].name == made.arm, "I3", "another arm's feedback")
            need(row.epoch == made.epoch, "I3", "another epoch's feedback")
            need(abs(1 / record.inverse_p - made.probability) < 1e-12, "I5", "another probability")
            need(made.sent, "I3", "feedback that was never sent")
            need(made.history not in self.lost_histories, "I11", "an id from a lost period counts")
            if row.status == "learned" and made.unit is not None:
                place = row.experiment, int(row.told_at // 3600)
                units[place] = units.get(place, 0) + 1
        need(max(units.values(), default=0) <= 1, "S9", "a cap was exceeded")
        for token, (loss, _) in self.acknowledged.items():
            made = self.made[token]
            row = stored.get(made.id)
            if row is None:
                gone = any(made.id <= upto for upto in forgotten.values())
                need(gone, "I1", "an acknowledged feedback is lost")
            else:
                need(row.loss == loss, "I1", "an acknowledged feedback has another loss")
        totals = {}
        for each in reader.states():
            totals[each.key] = totals.get(each.key, 0) + each.sums.learned
        learned = sum(total for key, total in totals.items() if not key[2])
        kept = sum(each.learned for key, each in reader.compacted().items() if not key[2])
        counted = sum(row.status == "learned" for row in stored.values())
        need(learned == kept + counted, "I2", "a feedback counts twice")
        deleted = [made for made in truth.values() if made.sent and made.id not in stored]
        need(kept <= len(deleted), "I11", "a deleted feedback counts twice")
        segments = reader.segments().rows
        for process in self.processes:
            need(process.service.ready() is None, "I12", f"not ready: {process.service.ready()}")
            for each in process.service.state.experiments.by_id.values():
                for known in (each, *each.segments.values()):
                    total = totals.get(known.key, 0)
                    need(known.total.learned == total, "I2", "a replica's state is not the store's")
                living = {s.id for s in segments if s.experiment == each.id}
                need(living == {*each.segments_by_id}, "I2", "a replica's segments are not alive")
                need(len(living) <= each.config.max_segments, "I2", "too many segments")


STEPS, WEIGHTS = zip(
    ("work", 24), ("decide", 14), ("tell", 22), ("poll", 8), ("crash", 3), ("start", 4),
    ("connections", 3), ("unknown", 4), ("change", 4), ("backup", 4), ("go back", 5),
    ("retention", 3), ("hours", 2), strict=True,
)  # fmt: skip


def raw(token):
    """Return the record of a token."""
    padded = tokens.a2b_base64(token.translate({45: 43, 95: 47}) + "=" * (-len(token) % 4))
    return padded[: -tokens.SIGNATURE]


def created():
    """Return a database with experiments, created by the service itself."""
    prepare()
    for each in SPECS:
        checked(each)[0].warm_up()
    database = Database()

    class Creating(SimulatedWriter):
        dialect = "sqlite"
        lock_tables = None

        def has_schema(self):
            query = "SELECT 1 FROM sqlite_master WHERE name = 'schema_version'"
            return bool(self.rows(query))

        def run_script(self, script):
            statement = ""
            for line in script.splitlines(keepends=True):
                statement += line
                if sqlite3.complete_statement(statement):
                    self.execute(statement)
                    statement = ""

        def check_not_served(self):
            pass

    making = Creating("", "simulated", Replica(-1), False)
    making.line = Line(database)
    making.execute = making.line.run
    making.execute("CREATE TABLE replica (shard INTEGER PRIMARY KEY, alive_at REAL NOT NULL)")
    schema.migrate(making)
    database.keep()
    world = SimpleNamespace(database=database, chance=random.Random(0))
    process = Process(world)
    process.start()

    async def creating():
        for each in SPECS:
            await process.service.create(ME, each)

    task = process.loop.create_task(creating())
    while not task.done():
        process.work()
    task.result()
    process.crash()
    database.keep()
    return database


def schedule(seed):
    """Run a schedule; return the violation it found, or None."""
    world = World(seed)
    for process in world.processes:
        process.start()
    try:
        for _ in range(world.chance.randrange(10, 30)):
            world.step()
        world.heal()
        if world.violation is not None:
            raise world.violation
        world.check()
    except Violation as violation:
        return str(violation)
    finally:
        for process in world.processes:
            process.crash()
    return None


def explore(seeds, stop=True):
    """Run schedules; yield the seed and the violation of each that fails."""
    with simulated():
        for seed in seeds:
            if seed % GARBAGE == 0:
                gc.collect()
                # What is left is kept, and need not be looked at again.
                gc.freeze()
            found = schedule(seed)
            if found is not None:
                yield seed, found
                if stop:
                    return


def part(seeds):
    """Run some schedules; return the failures, how many there were, and the CPU time."""
    begun = time.process_time()
    failures = list(explore(seeds, stop=False))
    return failures, len(seeds), time.process_time() - begun


def main():
    """Run schedules as the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--schedules", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share them")
    asked = parser.parse_args()
    seeds = range(asked.first, asked.first + asked.schedules)
    parts = [seeds[at : at + PART] for at in range(0, len(seeds), PART)]
    failed = done = seconds = 0
    with multiprocessing.Pool(asked.jobs) as pool:
        for failures, count, spent in pool.imap_unordered(part, parts):
            failed, done, seconds = failed + len(failures), done + count, seconds + spent
            for seed, found in failures:
                print(f"seed {seed}: {found}", flush=True)
            if done % (10 * PART) == 0 or done == len(seeds):
                print(f"{done} schedules, {failed} failed, {seconds:.0f} s of CPU", flush=True)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
