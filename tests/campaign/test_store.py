"""A store of shards: what it gives back is what was computed, or nothing."""

import errno
import functools
import json
import os
import shutil
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bothworlds as bw
from bothworlds.campaign import shard as shards
from bothworlds.campaign import shard_file as shardfile
from bothworlds.campaign import workers
from bothworlds.campaign.curve import Curve
from bothworlds.campaign.shard import cut
from bothworlds.campaign.store import Store
from bothworlds.engine.tile import run_job
from bothworlds.errors import InvalidParameter, ResultFileError
from bothworlds.files import ABANDONED
from bothworlds.simulation.assembly import assemble

WORLD = bw.environments.Stochastic.gap(4, 0.25)
T = 200
DUELS = bw.environments.Utilities([0.9, 0.5, 0.4])
LOSSES = np.random.default_rng(3).random((T, 4))

KINDS = {
    "gaps": (bw.TsallisINF(), WORLD),
    "scalar": (bw.LBINFV(horizon=1000), WORLD),
    "oblivious": (bw.UCB1(), bw.environments.Adversarial(LOSSES)),
    "tracked": (bw.TsallisINF(), bw.environments.Adaptive(4)),
    "corrupted": (bw.Exp3(), bw.environments.Corrupted(WORLD, 20.0)),
    "duels": (bw.Sparring(), DUELS),
    "two sides": (bw.Sparring(bw.UCB1()), DUELS),
}


def run(policies, world=WORLD, horizon=T, repetitions=20, **options):
    options = {"seed": 5, "progress": False, **options}
    return bw.simulate(policies, world, horizon=horizon, repetitions=repetitions, **options)


def same(first, second):
    """Bit for bit."""
    assert first.names == second.names
    assert np.array_equal(first.checkpoints, second.checkpoints)
    for name in first.names:
        assert np.array_equal(first.regret[name], second.regret[name])
        assert np.array_equal(first.plays[name], second.plays[name])
        assert np.array_equal(first.repetitions[name], second.repetitions[name])
        assert first.regret[name].tobytes() == second.regret[name].tobytes()


@pytest.fixture
def counted(monkeypatch):
    """The spans of repetitions that are run, by the policy's name."""
    spans = []

    def counting(shard, *arguments):
        spans.extend((job.name, job.first, job.first + job.count) for job in shard)
        return shards.run_shard(shard, *arguments)

    monkeypatch.setattr(workers, "run_shard", counting)
    return spans


def files(folder):
    return sorted(Path(folder).glob("*.parquet"))


# --- saved and found again --------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_what_comes_back_is_what_was_computed(kind, tmp_path, counted):
    policy, world = KINDS[kind]
    direct = run({"P": policy}, world)
    first = run({"P": policy}, world, store=tmp_path)
    counted.clear()
    again = run({"P": policy}, world, store=tmp_path)
    same(direct, first)
    same(direct, again)
    assert counted == []
    assert again.environment == direct.environment
    assert again.policies == direct.policies
    assert again.wall == first.wall


@pytest.mark.parametrize("kind", KINDS)
def test_files_hold_all_there_is_to_know(kind, tmp_path):
    policy, world = KINDS[kind]
    direct = run({"P": policy}, world)
    run({"P": policy}, world, store=tmp_path)
    (shelf,) = Store(tmp_path).shelves()
    same(direct, assemble({"P": Store(tmp_path).read(shelf)}))
    assert (shelf.done, shelf.wanted, shelf.complete) == (20, 20, True)
    # Without the description of the curve, each file tells it as well.
    for path in tmp_path.glob("*.json"):
        path.unlink()
    (alone,) = Store(tmp_path).shelves()
    same(direct, assemble({"P": Store(tmp_path).read(alone)}))


def test_other_programs_can_read_the_files(tmp_path):
    direct = run({"P": bw.UCB1()}, repetitions=16)
    run({"P": bw.UCB1()}, repetitions=16, store=tmp_path)
    (path,) = files(tmp_path)
    table = pq.read_table(path)
    assert table["repetition"].to_pylist() == list(range(16))
    assert np.array_equal(np.array(table["cost"].to_pylist()), direct.regret["P"])
    assert np.array_equal(np.array(table["plays"].to_pylist()), direct.plays["P"])


def test_more_repetitions_run_only_the_new_ones(tmp_path, counted):
    run({"P": bw.UCB1()}, repetitions=20, store=tmp_path)
    before = {path: path.stat().st_mtime_ns for path in files(tmp_path)}
    counted.clear()
    longer = run({"P": bw.UCB1()}, repetitions=50, store=tmp_path)
    assert sum(end - first for _, first, end in counted) == 30
    assert min(first for _, first, _ in counted) == 20
    assert {path: path.stat().st_mtime_ns for path in before} == before
    same(longer, run({"P": bw.UCB1()}, repetitions=50))


def test_fewer_repetitions_run_nothing(tmp_path, counted):
    run({"P": bw.UCB1()}, repetitions=40, store=tmp_path)
    counted.clear()
    fewer = run({"P": bw.UCB1()}, repetitions=13, store=tmp_path)
    assert not counted
    same(fewer, run({"P": bw.UCB1()}, repetitions=13))


def test_another_policy_or_cell_runs_alone(tmp_path, counted):
    run({"A": bw.UCB1()}, store=tmp_path)
    counted.clear()
    both = run({"A": bw.UCB1(), "B": bw.TsallisINF()}, store=tmp_path)
    assert {name for name, *_ in counted} == {"B"}
    same(both, run({"A": bw.UCB1(), "B": bw.TsallisINF()}))
    counted.clear()
    run({"A": bw.UCB1()}, bw.environments.Stochastic.gap(5, 0.25), store=tmp_path)
    assert counted
    counted.clear()
    run({"A": bw.UCB1(), "B": bw.TsallisINF()}, store=tmp_path)
    assert not counted


def test_files_of_two_stores_can_be_put_together(tmp_path, counted):
    one, two = tmp_path / "one", tmp_path / "two"
    run({"A": bw.UCB1()}, store=one)
    run({"B": bw.TsallisINF()}, store=two)
    for path in two.iterdir():
        shutil.copy(path, one)
    counted.clear()
    both = run({"A": bw.UCB1(), "B": bw.TsallisINF()}, store=one)
    assert not counted
    same(both, run({"A": bw.UCB1(), "B": bw.TsallisINF()}))


# --- any cut gives the same bits --------------------------------------------------------------

SHORT = 60


def curve_of(kind, repetitions, checkpoints=(7, SHORT)):
    policy, world = KINDS[kind]
    return Curve("P", policy, world, checkpoints, repetitions, 5)


@functools.cache
def reference_of(kind):
    """What a run in one piece gives."""
    policy, world = KINDS[kind]
    return run({"P": policy}, world, SHORT, 70, checkpoints=[7])


spans = st.tuples(st.integers(0, 69), st.integers(1, 40)).map(lambda s: (s[0], min(70, sum(s))))


@pytest.mark.slow
@settings(max_examples=25)
@given(
    st.lists(spans, max_size=8), st.integers(1, 70), st.sampled_from(["gaps", "scalar", "tracked"])
)
def test_any_cut_into_any_shards_gives_the_same_bits(tmp_path_factory, cuts, wanted, kind):
    """Overlapping ones and such as reach beyond what is wanted included."""
    folder = tmp_path_factory.mktemp("store")
    store, curve = Store(folder), curve_of(kind, 70)
    store.make()
    for span in cuts:
        store.save(curve, [run_job(job) for job in cut(curve, [span])])
    assert len(files(folder)) == len(set(cuts))
    policy, world = KINDS[kind]
    result = run({"P": policy}, world, SHORT, wanted, checkpoints=[7], store=folder)
    assert np.array_equal(result.repetitions["P"], np.arange(wanted))
    reference = reference_of(kind)
    assert np.array_equal(result.plays["P"], reference.plays["P"][:wanted])
    # The comparator of an adaptive adversary is a mean over the repetitions.
    if kind == "tracked":
        reference = run({"P": policy}, world, SHORT, wanted, checkpoints=[7])
    assert np.array_equal(result.regret["P"], reference.regret["P"][:wanted])
    shutil.rmtree(folder)


@settings(max_examples=30)
@given(st.lists(spans, max_size=8), st.integers(1, 70))
def test_what_is_missing_is_run_once(tmp_path_factory, cuts, wanted):
    folder = tmp_path_factory.mktemp("store")
    store, curve = Store(folder), curve_of("gaps", 70)
    store.make()
    # Empty files will do to say what is there.
    for span in cuts:
        store.path(curve.stem, span).touch()
    jobs = Store(folder).jobs(replace(curve, repetitions=wanted))
    run_ = [r for job in jobs for r in range(*job.span)]
    covered = {r for span in cuts for r in range(*span)}
    assert run_ == [r for r in range(wanted) if r not in covered]
    shutil.rmtree(folder)


# --- damage -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A store with one shard of an adaptive environment, its states included."""
    folder = tmp_path_factory.mktemp("sound")
    policy, world = KINDS["tracked"]
    run({"P": policy}, world, store=folder, continuable=True)
    (path,) = files(folder)
    return path


def outcome_bytes(path, states=False):
    about, outcomes = shardfile.read(path, states)
    numbers = [(o.first, o.cost.tobytes(), o.plays.tobytes(), o.state) for o in outcomes]
    return about, numbers, [o.tracked.tobytes() for o in outcomes]


def flips(length, count, seed):
    """Positions and what to change there; half of them near the end, where the metadata is."""
    rng = np.random.default_rng(seed)
    places = [
        *rng.integers(0, length, count // 2),
        *rng.integers(length - 6000, length, count // 2),
    ]
    return [(int(place) % length, int(rng.integers(1, 256))) for place in places]


@pytest.mark.slow
def test_flipped_bytes_are_refused_or_harmless(sound, tmp_path):
    content = sound.read_bytes()
    truth = outcome_bytes(sound), outcome_bytes(sound, states=True)
    refused = 0
    path = tmp_path / sound.name
    for place, change in flips(len(content), 400, 0):
        damaged = bytearray(content)
        damaged[place] ^= change
        path.write_bytes(damaged)
        for states in (False, True):
            try:
                assert outcome_bytes(path, states) == truth[states]
            except ResultFileError as error:
                refused += 1
                assert str(error).count(". ") == 0
    assert refused > 100


@pytest.mark.slow
def test_without_digests_flipped_bytes_would_be_used(sound, tmp_path, monkeypatch):
    """The checksums of Parquet alone let changes through: the test above can fail."""
    monkeypatch.setattr(shardfile, "_digest", lambda *parts: "none")
    policy, world = KINDS["tracked"]
    run({"P": policy}, world, store=tmp_path)
    (path,) = files(tmp_path)
    content, truth, wrong = path.read_bytes(), outcome_bytes(path), 0
    # The file's length varies with the times in it, and with it what the changes hit.
    for place, change in flips(len(content), 8000, 0):
        damaged = bytearray(content)
        damaged[place] ^= change
        path.write_bytes(damaged)
        try:
            wrong += outcome_bytes(path) != truth
        except (ResultFileError, KeyError, ValueError):
            continue
        if wrong:
            break
    assert wrong > 0


def test_files_cut_off_anywhere_are_refused(sound, tmp_path):
    content = sound.read_bytes()
    path = tmp_path / sound.name
    ends = np.random.default_rng(1).integers(0, len(content), 150).tolist()
    for end in [0, 1, 4, 8, 12, len(content) - 8, len(content) - 4, len(content) - 1, *ends]:
        path.write_bytes(content[:end])
        with pytest.raises(ResultFileError, match="damaged"):
            shardfile.read(path)
        with pytest.raises(ResultFileError, match="damaged"):
            shardfile.settings(path)


def newer(path):
    table = pq.read_table(path)
    content = json.loads(table.schema.metadata[b"bothworlds.shard"])
    content["version"] = 2
    pq.write_table(table.replace_schema_metadata({"bothworlds.shard": json.dumps(content)}), path)


def edited(path):
    """The numbers changed by a program that keeps the metadata."""
    table = pq.read_table(path)
    cost = [[2.0 * x for x in row] for row in table["cost"].to_pylist()]
    pq.write_table(table.set_column(1, "cost", pa.array(cost)), path)


def another(path):
    """A shard of other repetitions in the place of this one."""
    curve = curve_of("gaps", 40, (7, T))
    store = Store(path.parent / "other")
    store.make()
    store.save(curve, [run_job(job) for job in cut(curve, [(20, 40)])])
    (other,) = files(store.folder)
    other.replace(path)


def shortened(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def folder_instead(path):
    path.unlink()
    path.mkdir()


DAMAGES = {
    "truncated": (shortened, "is damaged, or not a shard"),
    "empty": (lambda path: path.write_bytes(b""), "is damaged, or not a shard"),
    "text": (lambda path: path.write_text("hello"), "is damaged, or not a shard"),
    "foreign": (
        lambda path: pq.write_table(pa.table({"a": [1, 2]}), path),
        "is damaged, or not a shard",
    ),
    "newer": (newer, "has format version 2, and this version of bothworlds reads up to 1"),
    "edited": (edited, "is damaged, or not a shard"),
    "misnamed": (another, "holds the shard"),
    "folder": (folder_instead, "cannot be read: Is a directory"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_cannot_be_used_is_reported_set_aside_and_computed_again(damage, tmp_path, capsys):
    folder = tmp_path / "store"
    policies = {"P": bw.TsallisINF(), "Q": bw.UCB1()}
    whole = run(policies, store=folder)
    path = min(files(folder))
    spoil, reason = DAMAGES[damage]
    spoil(path)
    capsys.readouterr()
    same(run(policies, store=folder), whole)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith(f"The file {path.name} {reason}")
    assert said.endswith(f"It is set aside as {path.name}.damaged; its content is missing.\n")
    assert path.with_name(f"{path.name}.damaged").exists()
    # From now on there is nothing to say.
    same(run(policies, store=folder), whole)
    assert capsys.readouterr().err == ""


def test_only_what_was_damaged_is_run_again(tmp_path, counted, capsys):
    store, curve = Store(tmp_path), curve_of("gaps", 64, (7, T))
    store.make()
    for low in range(0, 64, 16):
        store.save(curve, [run_job(job) for job in cut(curve, [(low, low + 16)])])
    shortened(store.path(curve.stem, (32, 48)))
    result = run({"P": bw.TsallisINF()}, repetitions=64, checkpoints=[7], store=tmp_path)
    assert counted == [("P", 32, 48)]
    same(result, run({"P": bw.TsallisINF()}, repetitions=64, checkpoints=[7]))


def test_a_damaged_description_of_a_curve_is_written_anew(tmp_path, counted):
    run({"P": bw.UCB1()}, store=tmp_path)
    counted.clear()
    (path,) = tmp_path.glob("*.json")
    good = path.read_text()
    for bad in ("", "[1]", good[:30]):
        path.write_text(bad)
        run({"P": bw.UCB1()}, store=tmp_path)
        assert path.read_text() == good
    assert not counted


def test_damage_that_cannot_be_set_aside_ends(tmp_path, monkeypatch, capsys):
    """A file that stays in its place is not found again and again."""
    whole = run({"P": bw.UCB1()}, store=tmp_path)
    (path,) = files(tmp_path)
    shortened(path)

    def refused(self, target):
        # Another process saves something, so that the folder is looked at again.
        later = tmp_path.stat().st_mtime_ns + 10**9
        os.utime(tmp_path, ns=(later, later))
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "replace", refused)
    same(run({"P": bw.UCB1()}, store=tmp_path), whole)
    assert shardfile.settings(path)["count"] == 20


def test_a_disk_that_damages_everything_ends_the_run(tmp_path, monkeypatch, capsys):
    write = shardfile.write

    def spoiling(path, *arguments):
        write(path, *arguments)
        shortened(path)

    monkeypatch.setattr(shardfile, "write", spoiling)
    with pytest.raises(ResultFileError, match="keeps getting corrupted") as error:
        run({"P": bw.UCB1()}, store=tmp_path)
    assert str(error.value).count(".parquet") == 1


def test_a_process_out_of_files_blames_no_shard(tmp_path, monkeypatch):
    run({"P": bw.UCB1()}, store=tmp_path)
    (path,) = files(tmp_path)

    def exhausted(*arguments):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(pa, "OSFile", exhausted)
    with pytest.raises(OSError, match="Too many open files"):
        run({"P": bw.UCB1()}, store=tmp_path)
    assert path.exists()


NONSENSE = {
    "labels": [{"labels": 7}, {"labels": [1]}, {"labels": None}],
    "repetitions": [{"repetitions": "many"}, {"repetitions": -1}, {"repetitions": 2.5}],
    "checkpoints": [{"checkpoints": 5}, {"checkpoints": ["a"]}, {"checkpoints": [9, 2]}],
    "arms": [{"arms": "x"}, {"arms": None}],
    "seed": [{"seed": []}],
    "name": [{"name": {"a": 1}}],
    "regret": [{"regret": 3}, {"best": 1}],
}


@pytest.mark.parametrize("field", NONSENSE)
def test_a_curve_whose_own_file_makes_no_sense_is_run_all_the_same(field, tmp_path):
    whole = run({"P": bw.UCB1()}, store=tmp_path)
    (path,) = tmp_path.glob("*.json")
    right = path.read_text("utf-8")
    for wrong in NONSENSE[field]:
        path.write_text(json.dumps({**json.loads(right), **wrong}), "utf-8")
        assert [each.done for each in Store(tmp_path).shelves()] == [20]
        same(run({"P": bw.UCB1()}, store=tmp_path), whole)
        assert path.read_text("utf-8") == right


@pytest.mark.parametrize("text", ["[" * 100_000, "1" * 5000, '"\\ud800"', "[]", ""])
def test_a_curve_whose_own_file_is_no_description_is_run_all_the_same(text, tmp_path):
    whole = run({"P": bw.UCB1()}, store=tmp_path)
    (path,) = tmp_path.glob("*.json")
    path.write_text(text, "utf-8")
    same(run({"P": bw.UCB1()}, store=tmp_path), whole)
    assert json.loads(path.read_text("utf-8"))["repetitions"] == 20


def test_folders_where_shards_belong_are_set_aside_again_and_again(tmp_path, capsys):
    whole = run({"P": bw.UCB1()}, store=tmp_path)
    (path,) = files(tmp_path)
    for _ in range(3):
        folder_instead(path)
        (path / "something").touch()
        same(run({"P": bw.UCB1()}, store=tmp_path), whole)
    aside = [f"{path.name}.damaged", f"{path.name}.2.damaged", f"{path.name}.3.damaged"]
    assert Store(tmp_path).damaged() == sorted(aside)


def test_a_shard_that_describes_itself_by_nonsense_is_refused(tmp_path):
    run({"P": bw.UCB1()}, store=tmp_path)
    (path,) = files(tmp_path)
    table = pq.read_table(path)
    content = json.loads(table.schema.metadata[b"bothworlds.shard"])
    del content["digest"]
    for wrong in ({"checkpoints": "x"}, {"arms": -3}, {"name": 3}, {"count": 10**12}):
        crafted = {**content, **wrong}
        crafted["digest"] = shardfile._digest(shardfile._text(crafted))
        text = json.dumps(crafted)
        pq.write_table(table.replace_schema_metadata({"bothworlds.shard": text}), path)
        with pytest.raises(ResultFileError):
            shardfile.read(path)


# --- a full disk ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("owner", "name"),
    [(os, "replace"), (os, "fsync"), (pq, "write_table"), (Path, "touch")],
    ids=["replace", "fsync", "write", "open"],
)
@pytest.mark.parametrize("room", [0, 2])
def test_a_full_disk_is_one_sentence_and_loses_nothing(
    owner, name, room, tmp_path, monkeypatch, counted
):
    """After no shard, and after two of four."""
    policies = {name: bw.UCB1() for name in "ABCD"}
    Store(tmp_path).want(
        Curve(name, policy, WORLD, (7, T), 20, 5) for name, policy in policies.items()
    )
    real = getattr(owner, name)

    def full(*arguments, **options):
        if len(files(tmp_path)) >= room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, full)
        # Shards are saved one after the other.
        with pytest.raises(ResultFileError) as error:
            run(policies, checkpoints=[7], store=tmp_path, threads=1)
    sentence = str(error.value)
    assert sentence.startswith("The file ")
    assert sentence.endswith("No space left on device. Results saved earlier are intact.")
    assert not list(tmp_path.glob(".*")), "no draft is left"
    assert len(files(tmp_path)) == room
    counted.clear()
    again = run(policies, checkpoints=[7], store=tmp_path)
    assert len({name for name, *_ in counted}) == 4 - room
    same(again, run(policies, checkpoints=[7]))


LIMITED = """
    import resource, sys
    import bothworlds as bw
    from bothworlds.errors import ResultFileError
    world = bw.environments.Stochastic([0.1, 0.2345678, 0.3456789, 0.4567891])
    options = dict(horizon=1000, repetitions=16, progress=False, store=sys.argv[1])
    many = range(1, 1000)
    # Now, since Numba keeps what it compiles on disk as well.
    bw.simulate(bw.Uniform(), world, horizon=10, repetitions=16, progress=False)
    for limit in (16_384, resource.RLIM_INFINITY):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        try:
            bw.simulate({"few": bw.Uniform()}, world, **options)
            bw.simulate({"many": bw.Uniform()}, world, checkpoints=many, **options)
        except ResultFileError as error:
            print(error)
    """


@pytest.mark.processes
def test_a_limit_of_the_system_is_one_sentence_too(tmp_path):
    """Not a trick of this test: the kernel refuses to write."""
    pytest.importorskip("resource")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LIMITED), str(tmp_path)],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    (sentence,) = done.stdout.splitlines()
    assert sentence.endswith("File too large. Results saved earlier are intact.")
    assert not list(tmp_path.glob(".*"))
    shelves = {shelf.name: shelf.done for shelf in Store(tmp_path).shelves()}
    assert shelves == {"few": 16, "many": 16}


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_folder_that_cannot_be_made_is_refused(place, tmp_path, counted):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidParameter, match="The store of simulate must be a folder that can"):
        run({"A": bw.UCB1()}, store=tmp_path / place)
    assert not counted


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder nobody can write")
def test_a_folder_that_cannot_be_written_is_refused(counted):
    with pytest.raises(ResultFileError, match="was not saved to /proc/self: "):
        run({"A": bw.UCB1()}, store="/proc/self")
    assert not counted


# --- drafts and reservations ------------------------------------------------------------------


def test_drafts_never_count_and_old_ones_are_removed(tmp_path, counted):
    run({"P": bw.UCB1()}, store=tmp_path)
    (path,) = files(tmp_path)
    old, fresh = (tmp_path / f".{path.name}.{word}.part" for word in ("00000000", "11111111"))
    path.replace(old)
    shutil.copy(old, fresh)
    long_ago = time.time() - 2 * ABANDONED
    os.utime(old, (long_ago, long_ago))
    counted.clear()
    run({"P": bw.UCB1()}, store=tmp_path)
    assert counted
    assert fresh.exists(), "another process may be writing it"
    assert not old.exists()


OPEN = os.open


def denied(path, *arguments):
    if Path(path).name == "claims.lock":
        raise PermissionError(errno.EACCES, "Permission denied")
    return OPEN(path, *arguments)


def without_locks(*arguments):
    raise OSError(errno.ENOLCK, "No locks available")


@pytest.mark.parametrize("obstacle", ["no file", "no locks", "no such system"])
def test_work_gets_done_where_nothing_can_be_reserved(obstacle, tmp_path, monkeypatch):
    """A file of another user's, a file system without locks, Windows."""
    from bothworlds import files as locks

    if obstacle == "no file":
        monkeypatch.setattr(os, "open", denied)
    elif obstacle == "no locks":
        monkeypatch.setattr(locks.fcntl, "lockf", without_locks)
    else:
        monkeypatch.setattr(locks, "fcntl", None)
    same(run({"P": bw.UCB1()}, store=tmp_path), run({"P": bw.UCB1()}))


@pytest.mark.processes
def test_what_is_reserved_is_kept_from_others_until_it_is_released(tmp_path):
    store = Store(tmp_path)
    script = textwrap.dedent("""
        import sys
        from bothworlds.campaign.store import Store
        store = Store(sys.argv[1])
        for line in sys.stdin:
            stem, first, end = line.split()
            print(store.reserve(stem, (int(first), int(end))), flush=True)
        """)
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:

        def taken(words):
            print(words, file=other.stdin, flush=True)
            return other.stdout.readline().strip() == "True"

        assert store.reserve("a", (0, 16))
        assert not taken("a 0 16")
        assert not taken("a 15 19")
        assert taken("a 16 32")
        assert taken("b 0 16")
        assert not store.reserve("b", (4, 5))
        store.release("a", (0, 16))
        assert taken("a 0 16")
        other.kill()
    assert store.reserve("b", (4, 5)), "the system releases what a killed process had reserved"
    store.release_all()


# --- one thread reads while another saves -----------------------------------------------------


@pytest.mark.slow
def test_reading_and_saving_at_once(tmp_path):
    """What a reader gets is whole, and what it says is missing is what it did not get."""
    store, said = Store(tmp_path, lambda sentence: None), []
    store.make()
    curve = curve_of("gaps", 64)
    outcomes = [run_job(job) for job in cut(curve, [(0, 64)])]
    over = threading.Event()

    def read():
        while not over.is_set():
            rows = sum(outcome.count for outcome in store.load(curve))
            said.append((rows, sum(high - low for low, high in store.missing(curve))))

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        for turn in range(40):
            for outcome in outcomes:
                store.save(curve, [outcome])
                store.refresh()
                store.lacks(curve, (0, 64))
            victim = store.path(curve.stem, (16 * (turn % 4), 16 * (turn % 4) + 16))
            victim.write_bytes(b"")
            store._damages.clear()
        over.set()
        reading.result()
    assert all(rows <= 64 for rows, _ in said)
    assert len(said) > 20


@pytest.mark.slow
def test_a_second_machine_runs_the_repetitions_that_follow(tmp_path):
    world, here, there = bw.environments.Stochastic.gap(2, 0.5), tmp_path / "a", tmp_path / "b"
    given = {"horizon": 50, "seed": 3, "progress": False}
    whole = bw.simulate([bw.UCB1()], world, repetitions=40, **given)
    own = bw.simulate([bw.UCB1()], world, repetitions=25, store=here, **given)
    other = bw.simulate([bw.UCB1()], world, first=25, repetitions=15, store=there, **given)
    in_memory = bw.simulate([bw.UCB1()], world, first=25, repetitions=15, **given)
    assert other.repetitions["UCB1()"].tolist() == list(range(25, 40))
    for part, rows in ((own, slice(25)), (other, slice(25, 40)), (in_memory, slice(25, 40))):
        assert np.array_equal(part.regret["UCB1()"], whole.regret["UCB1()"][rows])
    for file in there.glob("*.parquet"):
        shutil.copy(file, here)
    written = {file.name for file in here.glob("*.parquet")}
    joined = bw.simulate([bw.UCB1()], world, repetitions=40, store=here, **given)
    assert np.array_equal(joined.regret["UCB1()"], whole.regret["UCB1()"])
    assert {file.name for file in here.glob("*.parquet")} == written, "nothing was run again"
