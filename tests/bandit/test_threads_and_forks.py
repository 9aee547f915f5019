"""Threads share a bandit; the child of a fork is told what to do instead."""

import os
import threading

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.errors import ForkError
from helpers.bandits import content

THREADS, ROUNDS = 8, 20_000


def in_threads(work):
    """Run ``work`` in eight threads at once and return what each returned."""
    found = [None] * THREADS
    barrier = threading.Barrier(THREADS)

    def run(place):
        barrier.wait()
        found[place] = work(place)

    threads = [threading.Thread(target=run, args=(place,)) for place in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.mark.slow
def test_eight_threads_share_a_bandit():
    bandit = bw.Bandit(bw.TsallisINF(), arms=8, seed=1)

    def work(place):
        ids, held = [], []
        for t in range(ROUNDS):
            held.append(bandit.ask())
            ids.append(held[-1].id)
            if t % 2 or place % 2:
                bandit.tell(held.pop(), loss=t % 5 / 4)
        for decision in held:
            bandit.tell(decision, loss=0.5)
        return ids

    ids = np.concatenate(in_threads(work))
    assert np.array_equal(np.sort(ids), np.arange(1, THREADS * ROUNDS + 1))
    history = bandit.history()
    assert sum(arm.told for arm in history.values()) == THREADS * ROUNDS
    assert bandit.pending == []
    p = np.array(list(bandit.probabilities().values()))
    assert np.isfinite(p).all()
    assert p.sum() == pytest.approx(1.0)


def test_eight_threads_share_a_dueling_bandit():
    duel = bw.DuelingBandit(bw.Sparring(), arms=8, seed=1)
    rounds = ROUNDS // 10

    def work(place):
        ids = []
        for t in range(rounds):
            pair = duel.ask()
            ids.append(pair.id)
            duel.tell(pair, winner="left" if t % 3 else "right")
        return ids

    ids = np.concatenate(in_threads(work))
    assert np.array_equal(np.sort(ids), np.arange(1, THREADS * rounds + 1))
    assert sum(arm.told for arm in duel.history().values()) == 2 * THREADS * rounds
    assert np.isfinite(list(duel.probabilities().values())).all()


def test_threads_look_while_others_decide():
    bandit = bw.Bandit(bw.TsallisINF(), arms=40, seed=1)

    def work(place):
        for t in range(300):
            if place % 2:
                bandit.tell(bandit.ask(), loss=t % 2)
            else:
                assert sum(bandit.probabilities().values()) == pytest.approx(1.0)
                assert len(bandit.copy().history()) == 40

    in_threads(work)
    assert sum(arm.told for arm in bandit.history().values()) == 4 * 300


def in_child(work):
    """Run ``work`` in a forked child; return the text it returned."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        try:
            said = repr(work())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as stream:
        said = stream.read()
    os.waitpid(child, 0)
    return said


@pytest.mark.processes
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
@pytest.mark.parametrize("kind", ["bandit", "duel"])
def test_a_child_is_refused_and_told_the_ways_on(kind):
    if kind == "bandit":
        bandit = bw.Bandit(bw.TsallisINF(), arms=3, seed=1)
        told = {"loss": 0.5}
    else:
        bandit = bw.DuelingBandit(bw.Sparring(), arms=3, seed=1)
        told = {"winner": "left"}
    waiting = bandit.ask()
    before = content(bandit)
    for work in (bandit.ask, lambda: bandit.tell(waiting, **told), lambda: bandit.copy().ask()):
        said = in_child(work)
        assert said.startswith("ForkError: A bandit must be used in the process that created it")
        for way in ("copy(seed=...)", "bw.shared", "bothworlds serve"):
            assert way in said
    assert len(in_child(bandit.history)) > 50
    assert content(bandit) == before
    bandit.tell(waiting, **told)
    with pytest.raises(ForkError):
        raise ForkError("The class is there to be caught.")


@pytest.mark.processes
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_copy_with_a_seed_goes_its_own_way_in_a_child():
    bandit = bw.Bandit(bw.TsallisINF(), arms=40, seed=1)
    waiting = bandit.ask()

    def draws(seed):
        def work():
            twin = bandit.copy(seed=seed)
            twin.tell(waiting, loss=0.5)
            return [twin.ask().index for _ in range(20)]

        return work

    first, second, again = in_child(draws(5)), in_child(draws(6)), in_child(draws(5))
    assert first == again != second
    assert bandit.copy(seed=5).seed == 5
    assert first != repr([bandit.ask().index for _ in range(20)])
