"""Simulation: the service survives its schedules, and no planted bug does."""

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from weakref import WeakKeyDictionary

import pytest

from bothworlds.serve.domain import feedback as module
from bothworlds.serve.domain import records
from bothworlds.serve.domain.answers import Told
from bothworlds.serve.domain.deciding import Deciding
from bothworlds.serve.domain.experiment import Experiment, Experiments
from bothworlds.serve.domain.feedback import Feedback
from bothworlds.serve.domain.replicas import Replicas
from bothworlds.serve.domain.service import Service
from bothworlds.serve.domain.tokens import Keyring
from bothworlds.serve.ops import upkeep
from bothworlds.serve.ops.verify import verify_store
from bothworlds.serve.problems import Problem
from bothworlds.serve.store import commit, postgres, writer
from bothworlds.serve.store.postgres import LEASE, PostgresWriter
from bothworlds.serve.store.reader import Reader
from bothworlds.serve.store.rows import IncarnationRow
from bothworlds.serve.store.writer import Writer
from serve import simulation
from serve.simulation import CLOCK, explore

SEEDS = [range(first, first + 2000) for first in range(100_000, 112_000, 2000)]
"""Schedules of every run of the tests, in parts that workers share.

Those of ``make schedules`` are 0 to 99,999."""
PAGE = Path(__file__).parents[2] / "docs" / "service" / "reliability.md"
MOST = 1500
"""Schedules within which a planted bug must be found."""
BUGS = {}


def bug(function):
    """Register a bug: a function that plants it."""
    BUGS[function.__name__] = function
    return function


def around(plant, kind, name, change):
    """Replace a method by one that is given the former one first."""
    former = getattr(kind, name)
    plant.setattr(kind, name, lambda *given, **more: change(former, *given, **more))


@bug
def s1_ids_without_seals_or_an_end(plant):
    plant.setattr(Writer, "put_seal", lambda *given: None)
    plant.setattr(PostgresWriter, "last_certain_id", lambda self, until: b"\xff" * 16)


@bug
def s2_a_replica_keeps_a_configuration_that_is_gone(plant):
    plant.setattr(Replicas, "_went_back", lambda self, found: False)


@bug
def a_changed_experiment_is_not_read_again(plant):
    def change(former, self, known=None):
        found = former(self, known)
        old = {} if known is None else {row.id: row for row in known.experiments}
        rows = tuple(old.get(row.id, row) for row in found.experiments)
        return replace(found, experiments=rows)

    around(plant, Reader, "configuration", change)


@bug
def a_restored_dump_is_taken_for_the_same_database(plant):
    plant.setattr(postgres, "TABLES", "SELECT '1/1'")


@bug
def s5_what_retention_forgot_is_learned_again(plant):
    plant.setattr(Experiments, "forget", lambda self, upto: None)
    plant.setattr(Writer, "_late", lambda self, rows: {})


@bug
def only_replicas_know_what_retention_forgot(plant):
    plant.setattr(Writer, "_late", lambda self, rows: {})


@bug
def s8_a_retry_is_compared_with_the_arms_there_are(plant):
    def change(former, self, experiment, drawn, key, asked):
        return former(self, experiment, drawn, key, (*asked, experiment.active))

    around(plant, Deciding, "_remember", change)


@bug
def s9_caps_are_counted_by_every_process(plant):
    counts = WeakKeyDictionary()

    def count(writing, rows, caps):
        over = set()
        used = counts.setdefault(writing, Counter())
        for row in rows:
            if row.experiment in caps and used[row.experiment] >= caps[row.experiment].unit:
                over.add(row[:2])
            used[row.experiment] += 1
        return over

    plant.setattr(writer, "_count_caps", count)


@bug
def s10_every_replica_has_its_own_clock(plant):
    def change(former, self, reader):
        return former(self, reader)._replace(offset=None)

    around(plant, Replicas, "_look", change)


@bug
def feedback_is_learned_twice(plant):
    def change(former, self, rows):
        former(self, rows)
        return {}

    around(plant, Writer, "_insert_feedback", change)


@bug
def feedback_is_credited_to_another_arm(plant):
    def change(former, self, drawn, mode, key, id, lineup, *more):
        others = [place for place in lineup.places if place != drawn.arm]
        return former(self, drawn._replace(arm=others[0]), mode, key, id, lineup, *more)

    around(plant, Experiment, "record", change)


@bug
def feedback_is_credited_to_another_epoch(plant):
    def change(former, self, who, decision_id, caught_up):
        try:
            return former(self, who, decision_id, caught_up)
        except Problem as problem:
            if problem.code != "epoch_over":
                raise
            raw, record = self._state.keyring.verify(decision_id)
            found = self._state.experiments.by_id[record.experiment]
            return raw, record._replace(epoch=found.epoch), found

    around(plant, Feedback, "_verified", change)


@bug
def feedback_is_credited_to_another_experiment(plant):
    def change(former, self, who, decision_id, caught_up):
        raw, record, found = former(self, who, decision_id, caught_up)
        return raw, record, min(self._state.experiments.by_id.values(), key=lambda each: each.id)

    around(plant, Feedback, "_verified", change)


@bug
def feedback_is_acknowledged_before_it_is_committed(plant):
    def change(former, self, who, decision_id, loss, reward, then, caught_up=False):
        former(self, who, decision_id, loss, reward, lambda told: None, caught_up)
        then(Told("learned"))

    around(plant, Feedback, "tell", change)


@bug
def a_failed_commit_is_acknowledged(plant):
    def change(former, self, error, items, rows):
        former(self, error, [], rows)
        self._post(self._answer, [], {}, [(item.done, commit._ONE_NEW) for item in items])

    around(plant, commit.Committer, "_failed", change)


@bug
def states_are_not_read_again_after_a_failure(plant):
    plant.setattr(commit.Committer, "_reread", lambda self: None)


@bug
def tokens_are_signed_without_the_incarnation(plant):
    def change(former, self, keys, current, incarnations, *more):
        salted = [IncarnationRow(bytes(16), 0.0, each.ended) for each in incarnations]
        former(self, keys, current, salted, *more)

    around(plant, Keyring, "__init__", change)


@bug
def an_incarnation_accepts_every_earlier_id(plant):
    plant.setattr(PostgresWriter, "last_certain_id", lambda self, until: b"\xff" * 16)


@bug
def a_batch_that_waited_is_written_into_another_incarnation(plant):
    def change(former, self):
        life = self.ledger.life
        former(self)
        self.ledger.life = life

    around(plant, commit.Committer, "start_over", change)


@bug
def a_connection_does_not_compare_incarnations(plant):
    def change(former, self, connection):
        known, self.replica.incarnation = self.replica.incarnation, None
        try:
            former(self, connection)
        finally:
            self.replica.incarnation = known

    around(plant, PostgresWriter, "_greet", change)


@bug
def retention_forgets_contributions(plant):
    plant.setattr(upkeep, "compact", lambda kept, rows, living: {})


@bug
def an_evicted_segment_goes_on_learning(plant):
    def every(writing, rows):
        named = {(row.experiment, records.segment_of(row.record)) for row in rows}
        return {each for each in named if each[1]}

    plant.setattr(writer, "living", every)


@bug
def retention_deletes_fresh_feedback(plant):
    around(plant, upkeep, "first_identity", lambda former, seconds: former(CLOCK.now))


@bug
def a_change_has_no_audit_row(plant):
    def change(former, self, audit, work, expected=None):
        def worked(writing):
            result = work(writing)
            writing.execute("UPDATE deployment SET config_version = config_version + 1")
            return result

        return former(self, audit, worked, expected)

    around(plant, Writer, "administer", change)


@bug
def a_contradiction_is_acknowledged(plant):
    def change(former, self, row, before):
        try:
            return former(self, row, before)
        except Problem:
            return Told("duplicate")

    around(plant, Feedback, "_told", change)


@bug
def a_loss_out_of_bounds_is_accepted(plant):
    plant.setattr(module, "_loss", lambda bounds, loss, reward: loss)


@bug
def a_token_has_another_probability(plant):
    def change(former, self, drawn, *more):
        return former(self, drawn._replace(inverse_p=2 * drawn.inverse_p), *more)

    around(plant, Experiment, "record", change)


@bug
def a_replica_always_reports_ready(plant):
    plant.setattr(Service, "ready", lambda self: None)


@pytest.fixture(autouse=True)
def fresh():
    """Begin with a database of its own: a bug may be in what creates it."""
    simulation.World.database = None
    yield
    simulation.World.database = None


@pytest.mark.slow
@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_the_service_survives_its_schedules(seeds):
    assert list(explore(seeds)) == []


def test_a_seed_is_a_schedule():
    def trace(seed):
        with simulation.simulated():
            world = simulation.World(seed)
            for process in world.processes:
                process.start()
            for _ in range(20):
                world.step()
            world.heal()
            return tuple(sorted(world.made)), world.acknowledged, CLOCK.now

    first = [trace(seed) for seed in range(20)]
    assert first == [trace(seed) for seed in range(20)]
    assert len({made for made, *_ in first}) > 10


@pytest.fixture
def trio():
    """Yield a world of three replicas, which have not started."""
    with simulation.simulated():
        world = simulation.World(0)
        # The process that created the database had number 0.
        world.database.connection.execute("DELETE FROM replica")
        world.database.changed()
        world.processes = [simulation.Process(world) for _ in range(3)]
        yield world
        for process in world.processes:
            process.crash()


def learn(world, process):
    """Decide and report a loss; the first attempt may find that the connection is gone."""
    task = process.loop.create_task(process.service.decide(simulation.ME, "plain"))
    world.settle(process)
    token = task.result().decision_id
    statuses = []
    while statuses in ([], ["store_unavailable"]):
        task = process.loop.create_task(process.service.feedback(simulation.ME, token, loss=1.0))
        world.settle(process)
        failed = task.exception()
        statuses.append(task.result().status if failed is None else failed.code)
    assert statuses[-1] == "learned"


def exchange_numbers(world):
    """Let the third replica take the number of the first, which is to take the second's."""
    _, second, third = world.processes
    second.crash()
    world.database.end_sessions()
    CLOCK.now += 2 * LEASE
    third.start()
    assert third.service.store.replica.shard == 0


def connect_in_a_commit(replica):
    """Do nothing: the next batch opens the connection."""


def connect_in_a_job(replica):
    """Let a job that does not touch the states open the connection."""
    replica.service.state.committer.run(lambda writer: writer.leads())


def connect_to_read_the_states(replica):
    """Let the query for the states open the connection, as after a statement that failed."""
    replica.service.state.committer._note_failure(OSError("the connection is broken"))


@pytest.mark.parametrize(
    ("connect", "failures"),
    [(connect_in_a_commit, 1), (connect_in_a_job, 0), (connect_to_read_the_states, 1)],
)
def test_a_replica_with_another_number_does_not_overwrite_its_state(trio, connect, failures):
    # What is left of seed 1177: both numbers have a state of the same version.
    first, second, _ = trio.processes
    for process in (first, second):
        process.start()
        learn(trio, process)
    versions = trio.database.connection.execute("SELECT version FROM state").fetchall()
    assert versions[0] == versions[1]
    exchange_numbers(trio)
    connect(first)
    trio.settle(first)
    learn(trio, first)
    assert first.service.store.replica.shard == 1
    assert first.service.state.committer.failures == failures
    reader = first.service.store.reader
    assert [each.detail for each in verify_store(reader) if not each.ok] == []
    assert sum(each.sums.learned for each in reader.states()) == 3
    assert sum(each.decided.rounds for each in reader.states()) == 3


def test_a_replica_that_takes_the_number_of_its_only_peer_counts_it_once(trio):
    # What is left of seed 1706.
    first, second, _ = trio.processes
    for process in (first, second):
        process.start()
    learn(trio, second)
    trio.poll(first)
    trio.settle(first)
    exchange_numbers(trio)
    connect_to_read_the_states(first)
    trio.poll(first)
    trio.settle(first)
    trio.poll(first)
    trio.settle(first)
    assert first.service.store.replica.shard == 1
    found = first.service.experiment_state(simulation.ME, "plain")
    assert (found.total.learned, found.round) == (1, 2)


@pytest.mark.parametrize("known", [False, True])
def test_a_loss_that_is_known_already_ends_no_incarnation(known, monkeypatch):
    # A replica that reconnected late ended the incarnation that another one had begun after a
    # failover, and with it ids that were good.
    if not known:
        # The control: a loss is taken for one of the present incarnation.
        late = property(lambda self: self.replica.incarnation, lambda self, salt: None)
        monkeypatch.setattr(PostgresWriter, "_committed_in", late, raising=False)
    assert (list(explore([38881])) == []) is known


@pytest.mark.slow
@pytest.mark.parametrize("name", BUGS)
def test_every_planted_bug_is_found(name, monkeypatch):
    BUGS[name](monkeypatch)
    found = next(explore(range(MOST)), None)
    assert found is not None, name
    print(f"{name}: seed {found[0]}, {found[1]}")
    row = f"\n| `{name}` | {found[0]} | {found[1].partition(':')[0]}:"
    # Another version of Python may find it in another schedule first.
    assert row in PAGE.read_text(encoding="utf-8") or sys.version_info[:2] != (3, 11)


def test_twenty_bugs_are_planted_and_listed():
    text = PAGE.read_text(encoding="utf-8")
    assert len(BUGS) >= 20
    assert [name for name in BUGS if f"`{name}`" not in text] == []
