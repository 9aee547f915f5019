"""Evidence waits for its code to be compiled, and ends up the same."""

import os
import subprocess
import sys
import threading

import pytest

import bothworlds as bw
from bothworlds.bandit import evidence_keeper

POLICIES = [
    bw.TsallisINF(),
    bw.TsallisINF(alpha=0.7, estimator="iw"),
    bw.AllWorlds(),
    bw.ThompsonSampling(),
    bw.UCB1(),
    bw.Floor(bw.TsallisINF(), scale=0.5),
]


def by_turns(policy, compiled, monkeypatch):
    """Yield a bandit after each of its turns; its evidence is compiled from the start or late."""
    monkeypatch.setattr(evidence_keeper, "at_hand", lambda *given: compiled)
    bandit = bw.Bandit(policy, ["a", "b", "c"], seed=5, evidence=True)

    def prompt(times):
        for n in range(times):
            bandit.tell(bandit.ask(), loss=(n % 7) / 6)

    def late():
        early, last = bandit.ask(), bandit.ask()
        bandit.tell(last, loss=0.25)
        prompt(3)
        bandit.tell(early, loss=1.0)

    yield bandit
    for turn in (
        lambda: prompt(5),
        lambda: bandit.copy().report(),
        late,
        lambda: prompt(300),
        lambda: bandit.tell_many(bandit.ask_many(4), [0.0, 0.5, 1.0, 0.5]),
        bandit.alarms,
        lambda: prompt(2),
    ):
        turn()
        yield bandit


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
@pytest.mark.parametrize("saved", [False, True])
def test_the_state_is_the_same_to_the_bit(policy, saved, monkeypatch):
    found = []
    for compiled in (True, False):
        bandits = by_turns(policy, compiled, monkeypatch)
        texts = [bandit.dumps() for bandit in bandits] if saved else [[*bandits][-1].dumps()]
        found.append(texts)
    assert found[0] == found[1]


def queue_of(bandit):
    return bandit._core.keeper._queue


def waiting_bandit(monkeypatch, **options):
    monkeypatch.setattr(evidence_keeper, "at_hand", lambda *given: False)
    return bw.Bandit(bw.TsallisINF(), ["a", "b", "c"], seed=5, **options)


def test_the_queue_takes_no_more_memory_than_the_sums(monkeypatch):
    bandit = waiting_bandit(monkeypatch)
    keeper, most = bandit._core.keeper, 0
    while keeper._fused is None:
        bandit.tell(bandit.ask(), reward=1.0)
        most = max(most, len(keeper._queue))
    assert most > 20
    assert (most - 1) * bandit._core.F.size < keeper.evidence.R.size
    assert keeper.evidence.told == most + 1
    # From then on the compiled function is called directly.
    assert bandit._core.tell.__func__ is keeper._fused


def test_copies_and_new_arms_keep_what_waits(monkeypatch):
    bandit = waiting_bandit(monkeypatch)
    for _ in range(4):
        bandit.tell(bandit.ask(), reward=1.0)
    other = bandit.copy()
    other.tell(other.ask(), reward=0.0)
    assert (len(queue_of(bandit)), len(queue_of(other))) == (4, 5)
    bandit.add_arm("d")
    assert queue_of(bandit) == []
    assert bandit._core.keeper.evidence.told == 4
    other.retire_arm("a")
    other.tell(other.ask(), reward=0.0)
    assert other._core.keeper.evidence.told == 6


def test_threads_share_a_bandit_whose_evidence_waits(monkeypatch):
    bandit = waiting_bandit(monkeypatch)
    reports = []

    def work():
        for n in range(200):
            bandit.tell(bandit.ask(), reward=1.0)
            if n % 50 == 0:
                reports.append(bandit.report())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert bandit._core.keeper.evidence.told == 800
    assert len(reports) == 16


@pytest.mark.processes
@pytest.mark.parametrize("read", [False, True])
def test_a_short_program_does_not_compile_what_only_a_report_reads(read, tmp_path):
    program = f"""
from numba.core import event
import bothworlds as bw

class Names(event.Listener):
    found = []
    def on_start(self, event):
        self.found.append(event.data["dispatcher"].__name__.partition(".")[0])
    def on_end(self, event):
        pass

event.register("numba:compile", Names())
bandit = bw.Bandit(bw.TsallisINF(), arms=3, seed=1)
bandit.tell(bandit.ask(), loss=0.5)
if {read}:
    bandit.report()
print("listening" in Names.found, len(Names.found))
"""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    compiled, kernels = done.stdout.split()
    assert compiled == str(read)
    assert (int(kernels) <= 40) is not read
    # What is on disk is used at once.
    again = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert again.stdout.split() == ["False", "0"]
