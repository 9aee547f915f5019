"""Campaigns: every job is run once, no worker is left alone, and nothing finished is lost."""

import functools
import gc
import hashlib
import heapq
import itertools
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bothworlds as bw
from bothworlds.campaign import campaign as schedule
from bothworlds.campaign import shard as shards
from bothworlds.campaign import shard_file as shardfile
from bothworlds.campaign import work_queue
from bothworlds.campaign.campaign import Campaign
from bothworlds.campaign.curve import Curve
from bothworlds.campaign.shard import cut, run_shard, stamp
from bothworlds.campaign.store import Store
from bothworlds.campaign.store_view import missing_spans
from bothworlds.campaign.work_queue import WorkQueue
from bothworlds.campaign.workers import Remote, Threads
from bothworlds.engine import tile
from bothworlds.errors import ClusterError, KernelError
from bothworlds.simulation import simulator
from helpers.waiting import HANG, wait_until

WORLD = bw.environments.Stochastic.gap(4, 0.25)
WIDE = bw.environments.Stochastic.gap(600, 0.25)
POLICIES = {"A": bw.UCB1(), "B": bw.TsallisINF(), "C": bw.Exp3(), "D": bw.Uniform()}


def run(policies=POLICIES, horizon=100, repetitions=20, **options):
    options = {"seed": 5, "progress": False, **options}
    return bw.simulate(policies, WORLD, horizon=horizon, repetitions=repetitions, **options)


@functools.cache
def reference():
    return run()


def same(first, second):
    assert first.names == second.names
    for name in first.names:
        assert first.regret[name].tobytes() == second.regret[name].tobytes()
        assert np.array_equal(first.plays[name], second.plays[name])
        assert np.array_equal(first.repetitions[name], second.repetitions[name])


# --- what is left to do -----------------------------------------------------------------------

spans = st.tuples(st.integers(0, 60), st.integers(1, 30)).map(lambda s: (s[0], sum(s)))


@given(st.lists(spans, max_size=10), st.integers(0, 80))
def test_missing_spans_are_what_no_span_covers(have, wanted):
    missing = missing_spans(have, wanted)
    covered = {r for span in have for r in range(*span)}
    assert [r for span in missing for r in range(*span)] == sorted(set(range(wanted)) - covered)
    assert all(low < high for low, high in missing)
    assert all(one[1] < two[0] for one, two in itertools.pairwise(missing))


@given(st.lists(spans, max_size=5), st.sampled_from(["wide", "scalar", "many"]), st.booleans())
def test_cut_covers_its_spans_with_tiles(cuts, kind, keep):
    policy = bw.LBINFV(horizon=10) if kind == "scalar" else bw.TsallisINF()
    world = WIDE if kind == "many" else WORLD
    curve = Curve("P", policy, world, (10,), 90, 0)
    size = tile.tile_size(curve.program())
    jobs = cut(curve, cuts, keep)
    assert [r for job in jobs for r in range(*job.span)] == [r for s in cuts for r in range(*s)]
    for job in jobs:
        low, high = job.span
        assert low // size == (high - 1) // size, "no tile crosses a multiple of the size"
        assert (job.keep, job.rounds) == (keep, 10)


def made_up(rng, count):
    """Curves of very different cost, of which most guesses are wrong."""
    worlds = [bw.environments.Stochastic.gap(k, 0.25) for k in (2, 8, 64)]
    policies = [bw.UCB1(), bw.ThompsonSampling(), bw.LBINFV(horizon=10**7), bw.Exp3()]
    return [
        Curve(
            str(number), policies[rng.integers(4)], worlds[rng.integers(3)],
            (int(10 ** rng.uniform(5, 7)),), int(rng.integers(1, 120)), 0,
        )
        for number in range(count)
    ]  # fmt: skip


def played(curves, slots, depth, abreast, monkeypatch, factors=None):
    """Play a campaign with made-up costs; return when it ends, its tiles and the shards."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(work_queue, "time", SimpleNamespace(monotonic=lambda: clock.now))
    jobs = [cut(curve, [(0, curve.repetitions)]) for curve in curves]
    queue = WorkQueue(curves, jobs, 0.2, abreast)
    guesses = [queue.seconds(index, 1.0) for index in range(len(curves))]
    rates = guesses if factors is None else np.multiply(guesses, factors)

    def seconds(index, job):
        return rates[index] * queue.work(index, job)

    waiting, running, handed = [], [], []
    while True:
        while queue and len(waiting) + len(running) < depth:
            index, most = queue.next(slots)
            taken = [queue.take(index) for _ in queue.waiting(index)[:most]]
            handed.append((index, taken))
            waiting.append((index, taken))
        while waiting and len(running) < slots:
            index, taken = waiting.pop(0)
            took = sum(seconds(index, job) for job in taken)
            heapq.heappush(running, (clock.now + took, len(handed), id(taken), index, taken, took))
        if not running:
            break
        clock.now, _, _, index, taken, took = heapq.heappop(running)
        work = sum(queue.work(index, job) for job in taken)
        queue.measured(index, work, took)
        queue.played(index, work)
    assert queue.left(slots) == pytest.approx(0.0, abs=1e-6 * clock.now)
    costs = [seconds(index, job) for index, each in enumerate(jobs) for job in each]
    return clock.now, jobs, handed, costs


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_no_worker_is_left_alone_with_the_slowest(seed, monkeypatch):
    """Near the best possible: the longer of all work shared and the longest tile."""
    rng = np.random.default_rng(seed)
    slots = int(rng.choice([1, 2, 4, 16, 64]))
    # The last ones have more curves than are looked at every time.
    curves = made_up(rng, 40 if seed < 10 else work_queue.MANY_CURVES + 50)
    depth = slots + 1 if seed % 2 else 2 * slots
    factors = 10.0 ** rng.uniform(-0.5, 0.5) * np.exp(rng.normal(0.0, 0.7, len(curves)))
    end, jobs, handed, costs = played(curves, slots, depth, seed % 3 == 0, monkeypatch, factors)
    best = max(sum(costs) / slots, max(costs))
    assert end <= 1.2 * best
    given_out = sorted((index, job.span) for index, taken in handed for job in taken)
    assert given_out == sorted((i, job.span) for i, each in enumerate(jobs) for job in each)
    for _, taken in handed:
        assert all(a.span[1] == b.span[0] for a, b in itertools.pairwise(taken))


def test_in_order_a_worker_would_be_left_alone(monkeypatch):
    """The test above can fail: the slowest curve last, each as it comes."""
    fast = [Curve(str(i), bw.UCB1(), WORLD, (10**6,), 96, 0) for i in range(8)]
    curves = [*fast, Curve("slow", bw.UCB1(), WORLD, (16 * 10**6,), 16, 0)]

    def makespan():
        end, _, _, costs = played(curves, 4, 5, False, monkeypatch)
        return end / max(sum(costs) / 4, max(costs))

    assert makespan() <= 1.2
    monkeypatch.setattr(WorkQueue, "next", lambda queue, slots: (queue._first(), 100))
    assert makespan() > 1.4


def test_first_curves_are_complete_first(monkeypatch):
    """While much is left, curves are handed out in their order."""
    curves = [Curve(str(i), bw.UCB1(), WORLD, (10**6,), 96, 0) for i in range(30)]
    _, _, handed, _ = played(curves, 2, 3, False, monkeypatch)
    order = [index for index, _ in handed]
    assert order[: len(order) // 2] == sorted(order[: len(order) // 2])
    _, _, handed, _ = played(curves, 2, 3, True, monkeypatch)
    firsts = [taken[0].span[0] for _, taken in handed]
    assert firsts[: len(firsts) // 2] == sorted(firsts[: len(firsts) // 2])


def test_shards_are_neither_tiny_nor_endless(monkeypatch):
    curves = [Curve(str(i), bw.UCB1(), WORLD, (10**5,), 960, 0) for i in range(40)]
    _, jobs, handed, costs = played(curves, 2, 3, False, monkeypatch)
    assert len(handed) < len(costs) / 4
    of_job = {job.span: cost for job, cost in zip(jobs[0], costs, strict=False)}
    assert max(len(taken) for _, taken in handed) * max(of_job.values()) < 3 * work_queue.LONGEST


def test_what_is_put_back_is_handed_out_again(monkeypatch):
    curve = Curve("P", bw.UCB1(), WORLD, (100,), 64, 0)
    queue = WorkQueue([curve], [cut(curve, [(0, 64)])], 0.2, False)
    taken = [queue.take(0) for _ in range(3)]
    queue.put_back(0, [taken[2], taken[0]])
    assert [job.span for job in queue.waiting(0)] == [(0, 16), (32, 48), (48, 64)]
    assert bool(queue)
    for _ in range(3):
        queue.take(0)
    assert not queue


# --- executors that misbehave -----------------------------------------------------------------


class Odd(Executor):
    """An executor that does as it is told."""

    _max_workers = 2

    def __init__(self, answer):
        self.answer = answer
        self.number = 0

    def submit(self, function, *arguments):
        self.number += 1
        future = Future()
        self.answer(self.number, future, lambda: function(*arguments))
        return future


@pytest.mark.extra
def test_finished_shards_stay_when_the_workers_break(tmp_path):
    def answer(number, future, work):
        if number < 3:
            future.set_result(work())
        else:
            future.set_exception(BrokenExecutor("gone"))

    with pytest.raises(ClusterError) as error:
        run(executor=Odd(answer), store=tmp_path)
    kept = "Finished runs are kept."
    assert str(error.value) == f"The workers are gone (BrokenExecutor). {kept}"
    assert len(list(tmp_path.glob("*.parquet"))) == 2
    same(run(store=tmp_path), reference())
    with pytest.raises(ClusterError, match=r"^The workers are gone \(BrokenExecutor\)\.$"):
        run(executor=Odd(answer))


def test_an_executor_that_is_shut_down_is_one_sentence():
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(ClusterError, match=r"The workers are gone \(RuntimeError\)"):
        run(executor=pool)


def test_what_workers_cannot_do_is_one_sentence():
    def answer(number, future, work):
        future.set_exception(ModuleNotFoundError("No module named 'mine'\nmore"))

    with pytest.raises(ClusterError) as error:
        run({"A": bw.UCB1()}, executor=Odd(answer))
    expected = "The workers cannot run A: ModuleNotFoundError: No module named 'mine'."
    assert str(error.value) == expected


def test_what_cannot_be_sent_is_one_sentence():
    class Picky(Executor):
        def submit(self, function, *arguments):
            raise TypeError("cannot pickle it")

    with pytest.raises(ClusterError, match="The workers cannot run A: TypeError: cannot pickle it"):
        run({"A": bw.UCB1()}, executor=Picky())


class KilledWorker(Exception):
    """Dask's is told by its name: the package is optional."""


@pytest.mark.parametrize("deaths", [2, 3])
def test_lost_shards_start_again_but_not_forever(deaths, capsys):
    def answer(number, future, work):
        if number <= deaths:
            future.set_exception(KilledWorker())
        else:
            future.set_result(work())

    if deaths < 3:
        same(run({"A": bw.UCB1()}, executor=Odd(answer)), run({"A": bw.UCB1()}))
    else:
        with pytest.raises(ClusterError, match="Every worker that ran A died"):
            run({"A": bw.UCB1()}, executor=Odd(answer))
    said = capsys.readouterr().err.splitlines()
    assert said == ["Workers died while they ran A; their work starts again."] * 2


def test_other_code_is_refused_by_whoever_runs_it():
    curve = Curve("P", bw.UCB1(), WORLD, (10,), 16, 0)
    shard = cut(curve, [(0, 16)])
    assert run_shard(shard, stamp(shard))[0].count == 16
    with pytest.raises(ClusterError, match="The workers must run P with the code of this process"):
        run_shard(shard, "another version")


@pytest.mark.extra
def test_an_error_in_one_shard_keeps_the_others(tmp_path):
    def losses(t, arm):
        return 2.0

    wrong = bw.environments.Adversarial(losses, n_arms=4)
    with pytest.raises(KernelError):
        bw.simulate(POLICIES, wrong, horizon=10, repetitions=4, store=tmp_path, progress=False)
    assert not list(tmp_path.glob("*.parquet"))

    def answer(number, future, work):
        if number == 2:
            future.set_exception(KernelError("A sentence."))
        else:
            future.set_result(work())

    with pytest.raises(KernelError, match="A sentence"):
        run(executor=Odd(answer), store=tmp_path)
    # Four were handed out at once: slots are two, and as many wait.
    assert len(list(tmp_path.glob("*.parquet"))) == 3


def test_threads_end_with_the_campaign():
    run()
    # They do not wait to be found by the garbage collector.
    gc.disable()
    try:
        before = threading.active_count()
        for _ in range(30):
            run(horizon=2, repetitions=1)
        wait_until(lambda: threading.active_count() <= before)
    finally:
        gc.enable()


def test_threads_can_be_used_again_after_they_were_stopped():
    curve = Curve("P", bw.UCB1(), WORLD, (10,), 16, 0)
    shard = cut(curve, [(0, 16)])
    threads = Threads(1)
    threads.stop([])
    assert threads.submit(shard, lambda job, rounds: None).result() == []
    threads.close()
    (outcome,) = threads.submit(shard, lambda job, rounds: None).result()
    assert outcome.count == 16
    threads.close()


def test_remote_workers_of_any_executor_are_counted():
    assert Remote(ThreadPoolExecutor(7)).slots() == 7
    assert Remote(Odd(None)).depth() == 4


# --- Ctrl-C -----------------------------------------------------------------------------------


@pytest.mark.extra
def test_ctrl_c_gets_through_where_workers_never_answer(tmp_path):
    def answer(number, future, work):
        if number == 1:
            future.set_result(work())
        elif number == 3:
            signal.raise_signal(signal.SIGINT)

    result = run(executor=Odd(answer), store=tmp_path)
    assert result.interrupted
    assert len(result.names) == 1
    assert len(list(tmp_path.glob("*.parquet"))) == 1
    same(run(store=tmp_path), reference())


@pytest.mark.extra
@pytest.mark.parametrize("place", ["before", "after"])
def test_ctrl_c_while_a_shard_is_saved_loses_nothing(place, tmp_path, monkeypatch):
    write, calls = shardfile.write, []

    def interrupted(*arguments):
        calls.append(place)
        if len(calls) == 1 and place == "before":
            raise KeyboardInterrupt
        write(*arguments)
        if len(calls) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(shardfile, "write", interrupted)
    result = run(executor=Odd(lambda n, future, work: future.set_result(work())), store=tmp_path)
    assert result.interrupted
    # All four were finished, and are kept.
    assert len(list(tmp_path.glob("*.parquet"))) == 4
    assert not list(tmp_path.glob(".*"))
    same(result, reference())


def test_ctrl_c_after_a_shard_was_taken_counts_it_once(monkeypatch):
    real, calls = Campaign._finish, []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 1:
            raise KeyboardInterrupt
        real(*arguments)

    monkeypatch.setattr(Campaign, "_finish", interrupted)
    result = run(executor=Odd(lambda n, future, work: future.set_result(work())))
    assert result.interrupted
    assert len(calls) == 5
    same(result, reference())


def test_ctrl_c_that_breaks_a_lock_is_ctrl_c(monkeypatch):
    def broken(*arguments, **named):
        try:
            raise KeyboardInterrupt
        finally:
            threading.Lock().release()

    monkeypatch.setattr("bothworlds.campaign.campaign.wait", broken)
    result = run(executor=Odd(lambda n, future, work: future.set_result(work())))
    assert result.interrupted


@pytest.fixture
def alarm():
    """Something that presses Ctrl-C a little later."""

    def press(number, frame):
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, press)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    signal.signal(signal.SIGALRM, old)


@pytest.mark.slow
@pytest.mark.extra
def test_ctrl_c_at_any_moment(alarm, tmp_path):
    """Finished runs are whole and counted once, no draft stays, and the next run goes on."""
    reference()
    began = time.perf_counter()
    run(store=tmp_path / "timed")
    usual = time.perf_counter() - began
    rng = random.Random(0)
    seen = set()
    # At once, never, and in between, wherever that is on this machine at this moment.
    moments = [0.0005, HANG, *(rng.uniform(0.0005, 1.2 * usual) for _ in range(58))]
    for turn, moment in enumerate(moments):
        folder = tmp_path / str(turn) if turn % 2 else None
        try:
            alarm(moment)
            result = run(store=folder)
            alarm(0.0)
        except KeyboardInterrupt:
            seen.add("nothing")
            continue
        finally:
            alarm(0.0)
        seen.add("part" if result.interrupted else "all")
        for name in result.names:
            rows = result.repetitions[name]
            assert np.array_equal(rows, np.unique(rows))
            assert np.array_equal(result.regret[name], reference().regret[name][rows])
    for folder in tmp_path.iterdir():
        said = []
        store = Store(folder, said.append)
        for shelf in store.shelves():
            store.read(shelf)
        assert not said
        assert not list(folder.glob(".*"))
        same(run(store=folder), reference())
    assert {"nothing", "all"} <= seen


# --- processes that share a store -------------------------------------------------------------

SHARING = """
    import hashlib, pathlib, sys, threading, time
    import bothworlds as bw
    from bothworlds.campaign import workers, shard as shards
    def wait_for(names):
        while not all((folder / name).exists() for name in names):
            time.sleep(0.002)
    folder, mine, rounds, *all_names = pathlib.Path(sys.argv[1]), *sys.argv[2:]
    count, begun = [0], False
    def counting(shard, *arguments):
        if mine == "stuck" and begun and count[0]:
            (folder / "draft").write_text(str(count[0]))
            (folder / "draft").rename(folder / "in the middle")
            threading.Event().wait()
        outcomes = shards.run_shard(shard, *arguments)
        count[0] += len(outcomes)
        if begun:
            (folder / f"{mine} works").touch()
            wait_for([f"{name} works" for name in all_names])
        return outcomes
    workers.run_shard = counting
    world = bw.environments.Stochastic.gap(4, 0.25)
    policies = {name: bw.UCB1() for name in "ABCD"}
    bw.simulate(policies, world, horizon=100, repetitions=2, progress=False)
    (folder / mine).touch()
    wait_for(["go"])
    count[0], begun = 0, True
    result = bw.simulate(policies, world, horizon=int(rounds), repetitions=64, seed=5,
                         threads=1, store=folder / "store", progress=False)
    digest = hashlib.sha256(b"".join(result.regret[name].tobytes() for name in "ABCD"))
    print(count[0], digest.hexdigest())
    """
ROUNDS = 400_000


def sharing(folder, names):
    """Start processes that run the same campaign in one store.

    They wait for one another before they begin, and after their first shard.
    """
    script = textwrap.dedent(SHARING)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(folder), name, str(ROUNDS), *names],
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]

    def ready():
        assert all(process.poll() is None for process in processes)
        return all((folder / name).exists() for name in names)

    wait_until(ready)
    (folder / "go").touch()
    return processes


def answers(processes):
    found = [process.communicate(timeout=HANG)[0].split() for process in processes]
    return [int(count) for count, _ in found], {digest for _, digest in found}


@functools.cache
def shared_digest():
    policies = {name: bw.UCB1() for name in "ABCD"}
    result = run(policies, ROUNDS, 64)
    return hashlib.sha256(b"".join(result.regret[n].tobytes() for n in "ABCD")).hexdigest()


@pytest.mark.extra
@pytest.mark.processes
def test_two_processes_share_the_work(tmp_path):
    counts, digests = answers(sharing(tmp_path, ["one", "two"]))
    assert digests == {shared_digest()}
    # Sixteen tiles: each was run by one of them, give or take one.
    assert 16 <= sum(counts) <= 18
    assert min(counts) >= 1


@pytest.mark.extra
@pytest.mark.processes
def test_one_of_two_is_killed(tmp_path):
    def kept():
        return len(list((tmp_path / "store").glob("*.parquet")))

    def stands():
        assert stuck.poll() is None
        return (tmp_path / "in the middle").exists() and kept() > 0

    (stuck,) = sharing(tmp_path, ["stuck"])
    wait_until(stands)
    finished, before = int((tmp_path / "in the middle").read_text()), kept()
    (two,) = sharing(tmp_path, ["two"])
    wait_until(lambda: kept() > before)
    stuck.kill()
    stuck.communicate()
    counts, digests = answers([two])
    assert digests == {shared_digest()}
    # What the dead one had reserved and not finished was run by the other.
    assert 0 < finished < 16
    assert counts == [16 - finished]
    said = []
    store = Store(tmp_path / "store", said.append)
    assert all(shelf.complete for shelf in store.shelves())
    for shelf in store.shelves():
        store.read(shelf)
    assert not said


DYING = """
    import os, signal, sys
    import pyarrow.parquet as parquet
    import bothworlds as bw
    moment, folder = sys.argv[1:]
    write, replace, count = parquet.write_table, os.replace, [0]
    def die():
        os.kill(os.getpid(), signal.SIGKILL)
    def writing(table, draft, **options):
        count[0] += 1
        write(table, draft, **options)
        if moment == "half written" and count[0] == 2:
            os.truncate(draft, 1000)
            die()
    def replacing(draft, target):
        if moment == "before it is named" and count[0] == 2:
            die()
        replace(draft, target)
        if moment == "after it is named" and count[0] == 2:
            die()
    parquet.write_table, os.replace = writing, replacing
    world = bw.environments.Stochastic.gap(4, 0.25)
    policies = {"A": bw.UCB1(), "B": bw.TsallisINF(), "C": bw.Exp3(), "D": bw.Uniform()}
    bw.simulate(policies, world, horizon=100, repetitions=20, seed=5, store=folder, progress=False)
    """


@pytest.mark.extra
@pytest.mark.processes
@pytest.mark.parametrize(
    ("moment", "kept"),
    [("half written", 1), ("before it is named", 1), ("after it is named", 2)],
)
def test_killed_while_it_saves(moment, kept, tmp_path):
    script = textwrap.dedent(DYING)
    done = subprocess.run([sys.executable, "-c", script, moment, str(tmp_path)])
    assert done.returncode == -signal.SIGKILL
    drafts = list(tmp_path.glob(".*.part"))
    assert len(drafts) == 2 - kept
    said = []
    store = Store(tmp_path, said.append)
    assert sum(shelf.done for shelf in store.shelves()) == 20 * kept
    same(run(store=tmp_path), reference())
    assert not said


@pytest.mark.extra
@pytest.mark.processes
def test_jobs_of_others_are_waited_for_and_taken_over(tmp_path, monkeypatch):
    """What another process has reserved is left to it while it lives, and no longer."""
    curve = Curve("A", bw.UCB1(), WORLD, tuple(reference().checkpoints.tolist()), 20, 5)
    script = textwrap.dedent("""
        import sys
        from bothworlds.campaign.store import Store
        print(Store(sys.argv[1]).reserve(sys.argv[2], (0, 16)), flush=True)
        sys.stdin.read()
        """)
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path), curve.stem],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout.readline() == "True\n"
        real, ran = shards.run_job, []

        def watched(job, *arguments):
            ran.append((job.first, holder.poll() is None))
            return real(job, *arguments)

        monkeypatch.setattr(shards, "run_job", watched)
        monkeypatch.setattr(schedule, "WORRY", 0.1)
        said = []

        def say(sentence):
            said.append(sentence)
            holder.kill()
            holder.wait()

        monkeypatch.setattr(simulator, "_say", say)
        same(run({"A": bw.UCB1()}, store=tmp_path), run({"A": bw.UCB1()}))
    assert ran[:2] == [(16, True), (0, False)]
    assert said == ["Another process runs the remaining work; waiting for it."]
