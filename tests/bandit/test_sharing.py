"""Several processes on one state file: every round is in it, or somebody is told."""

import json
import multiprocessing
import os
import subprocess
import sys

import pytest

import bothworlds as bw
from bothworlds.errors import InvalidParameter, StateFileError
from helpers.waiting import HANG

SPAWN = multiprocessing.get_context("spawn")


def new():
    return bw.Bandit(bw.TsallisINF(), arms=["blue", "green", "red"], seed=7)


ROUNDS = """
import sys, bothworlds as bw
for _ in range(int(sys.argv[2])):
    with bw.shared(sys.argv[1], patience=float(sys.argv[3])) as bandit:
        decision = bandit.ask()
    with bw.shared(sys.argv[1], patience=float(sys.argv[3])) as bandit:
        bandit.tell(decision.id, reward=0.5)
"""

SAVES = """
import sys, bothworlds as bw
from bothworlds.errors import StateFileError
refused = 0
for _ in range(int(sys.argv[2])):
    while True:
        bandit = bw.Bandit.load(sys.argv[1])
        bandit.tell(bandit.ask(), reward=0.5)
        try:
            bandit.save(sys.argv[1])
            break
        except StateFileError:
            refused += 1
print(refused)
"""


def in_processes(code, path, count, rounds):
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(path), str(rounds), str(HANG)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(count)
    ]
    said = [run.communicate()[0] for run in runs]
    assert [run.returncode for run in runs] == [0] * count
    return said


@pytest.mark.processes
def test_processes_that_share_a_file_lose_nothing(tmp_path):
    path = tmp_path / "state.json"
    new().save(path)
    in_processes(ROUNDS, path, count=4, rounds=50)
    bandit = bw.Bandit.load(path)
    assert bandit.round == 200
    assert sum(arm.told for arm in bandit.history().values()) == 200
    assert bandit.pending == []


@pytest.mark.processes
def test_a_file_that_somebody_advanced_is_never_overwritten(tmp_path):
    path = tmp_path / "state.json"
    new().save(path)
    refused = in_processes(SAVES, path, count=4, rounds=50)
    assert bw.Bandit.load(path).round == 200
    # The negative control: the processes did meet, so silence would have lost rounds.
    assert sum(map(int, refused)) > 0


def test_save_refuses_what_another_bandit_advanced(tmp_path):
    path = tmp_path / "state.json"
    new().save(path)
    one, other = bw.Bandit.load(path), bw.Bandit.load(path)
    one.tell(one.ask(), reward=1.0)
    one.save(path)
    before = path.read_bytes()
    other.tell(other.ask(), reward=0.0)
    with pytest.raises(StateFileError, match=r"changed by another process .*bothworlds\.shared"):
        other.save(path)
    assert path.read_bytes() == before
    other.save(tmp_path / "elsewhere.json")
    one.tell(one.ask(), reward=1.0)
    one.save(path)  # its own file, as it left it
    path.unlink()
    other.save(path)  # nothing there to lose
    assert bw.Bandit.load(path).round == 1


def test_save_refuses_a_file_that_became_something_else(tmp_path):
    path = tmp_path / "state.json"
    bandit = new()
    bandit.save(path)
    path.write_text("notes")
    with pytest.raises(StateFileError):
        bandit.save(path)
    assert path.read_text() == "notes"


def test_a_link_and_its_file_are_one(tmp_path):
    path, link = tmp_path / "state.json", tmp_path / "link.json"
    new().save(path)
    link.symlink_to(path)
    one, other = bw.Bandit.load(link), bw.Bandit.load(path)
    one.ask()
    one.save(path)
    other.ask()
    with pytest.raises(StateFileError):
        other.save(link)


def test_shared_saves_at_the_end_and_not_after_an_error(tmp_path):
    path = tmp_path / "state.json"
    with bw.shared(path, new) as bandit:
        bandit.ask()
    before = path.read_bytes()
    with pytest.raises(ZeroDivisionError), bw.shared(path) as bandit:
        bandit.ask()
        1 / 0  # noqa: B018
    assert path.read_bytes() == before
    with bw.shared(path, new) as bandit:
        assert bandit.pending == [1]
        bandit.tell(1, loss=0.0)
    assert bw.Bandit.load(path).pending == []


def test_shared_serves_duels(tmp_path):
    path = tmp_path / "duel.json"
    with bw.shared(path, lambda: bw.DuelingBandit(bw.Sparring(), arms=3, seed=1)) as duel:
        pair = duel.ask()
    with bw.shared(path) as duel:
        duel.tell(pair.id, winner="left")
        assert isinstance(duel, bw.DuelingBandit)
    with pytest.raises(StateFileError, match="format"), bw.shared(path, kind="bandit"):
        pass


def test_shared_without_a_file_says_so(tmp_path):
    with (
        pytest.raises(StateFileError, match=r"There is no file .*; give create"),
        bw.shared(tmp_path / "absent.json"),
    ):
        pass
    assert not (tmp_path / "absent.json").exists()


def test_shared_refuses_what_is_no_state_file(tmp_path):
    path = tmp_path / "list.json"
    path.write_text("[1, 2]")
    with pytest.raises(StateFileError, match="format"), bw.shared(path):
        pass
    path.write_text('{"format": ["x"]}')
    with pytest.raises(StateFileError, match="format"), bw.shared(path):
        pass


@pytest.mark.parametrize("kind", ["bandit", "duel"])
def test_text_and_documents_continue_bit_for_bit(kind):
    made = new() if kind == "bandit" else bw.DuelingBandit(bw.Sparring(), arms=4, seed=2)
    for t in range(50):
        if kind == "bandit":
            made.tell(made.ask(), loss=t % 3 / 2)
        else:
            made.tell(made.ask(), winner="left" if t % 3 else "right")
    made.ask()
    by_text = type(made).loads(made.dumps())
    by_bytes = type(made).loads(made.dumps().encode())
    # A trip through any store of JSON keeps the numbers.
    by_document = type(made).from_dict(json.loads(json.dumps(made.as_dict())))
    for twin in (by_text, by_bytes, by_document):
        assert twin.pending == made.pending
        assert twin.probabilities() == made.probabilities()


@pytest.mark.parametrize("text", ["", "{", "null", "[]", '{"format": "bothworlds.bandit"}'])
def test_loads_refuses_other_texts(text):
    with pytest.raises(StateFileError, match=r"text of Bandit\.loads"):
        bw.Bandit.loads(text)


@pytest.mark.parametrize("value", [None, 7, {"format": "bothworlds.bandit"}])
def test_loads_refuses_what_is_no_text(value):
    with pytest.raises(InvalidParameter, match=r"The text of Bandit\.loads must be str or bytes"):
        bw.Bandit.loads(value)


@pytest.mark.parametrize("value", [None, 7, "text", [], {}, {"format": "x"}])
def test_from_dict_refuses_other_documents(value):
    with pytest.raises(StateFileError, match=r"document of Bandit\.from_dict"):
        bw.Bandit.from_dict(value)


def test_a_changed_document_is_refused():
    document = new().as_dict()
    document["content"]["seed"] = 8
    with pytest.raises(StateFileError, match="is damaged or was edited"):
        bw.Bandit.from_dict(document)


@pytest.mark.processes
def test_shared_waits_for_another_process_only_so_long(tmp_path):
    path = tmp_path / "state.json"
    new().save(path)
    held, done = SPAWN.Event(), SPAWN.Event()
    holder = SPAWN.Process(target=_hold, args=(os.fspath(path), held, done))
    holder.start()
    try:
        assert held.wait(HANG)
        with (
            pytest.raises(StateFileError, match="in use by another process"),
            bw.shared(path, patience=0.1),
        ):
            pass
    finally:
        done.set()
        holder.join()
    with bw.shared(path) as bandit:
        assert bandit.round == 1


def _hold(path, held, done):
    with bw.shared(path) as bandit:
        bandit.ask()
        held.set()
        done.wait(HANG)
