"""State files: bit for bit, whole or not at all, and nothing else accepted."""

import json
import os

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.bandit import state_file
from bothworlds.errors import StateFileError
from helpers.bandits import POLICIES, content


def in_flight(policy, names=("a", "b", 3), seed=5):
    """A bandit with pending decisions of every kind."""
    bandit = bw.Bandit(policy, arms=names, seed=seed, bounds=(0, 10))
    rng = np.random.default_rng(1)
    for _ in range(30):
        bandit.tell(bandit.ask(), loss=float(10 * rng.random()))
    bandit.ask()
    bandit.ask(available=names[:2])
    bandit.ask()
    return bandit


def finish(bandit):
    """Play on from wherever it is and return all there is to see."""
    rng = np.random.default_rng(2)
    seen = []
    for decision in rng.permutation(bandit.pending).tolist():
        bandit.tell(decision, reward=float(10 * rng.random()))
    for _ in range(50):
        decision = bandit.ask()
        seen.append((decision.arm, decision.probability))
        bandit.tell(decision, reward=float(10 * rng.random()))
    return seen, content(bandit)


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
@pytest.mark.parametrize("told", [False, True])
def test_continues_bit_for_bit(policy, told, tmp_path):
    bandit = in_flight(policy)
    if told:
        bandit.tell(bandit.pending[-1], loss=3.0)
    path = tmp_path / "bandit.json"
    bandit.save(path)
    loaded = bw.Bandit.load(str(path))
    assert loaded.policy == policy
    assert loaded.pending == bandit.pending
    assert loaded.history() == bandit.history()
    assert finish(loaded) == finish(bandit)


@pytest.mark.parametrize(
    "policy",
    [
        bw.TsallisINF(learning_rate=0.25),
        bw.TsallisINF(learning_rate=bw.omd.InverseSqrt(3.0)),
        bw.TsallisINF(alpha=0.7, learning_rate=bw.omd.Theorem1()),
        bw.TsallisINF(learning_rate=bw.omd.Theorem3()),
        bw.TsallisINF(learning_rate=bw.omd.Theorem4()),
        bw.TsallisINF(alpha=0.2, learning_rate=bw.omd.Constant(0.5), estimator="iw"),
    ],
    ids=repr,
)
def test_learning_rates_are_saved(policy, tmp_path):
    bandit = in_flight(policy)
    bandit.save(tmp_path / "b.json")
    assert bw.Bandit.load(tmp_path / "b.json").policy == policy


def test_gaps_are_saved(tmp_path):
    bandit = bw.Bandit(bw.TsallisINF(alpha=0.3, gaps=(0, 0.5)), arms=2, seed=1)
    bandit.save(tmp_path / "b.json")
    assert bw.Bandit.load(tmp_path / "b.json").policy == bandit.policy


def test_changed_arms_are_saved(tmp_path):
    bandit = in_flight(bw.TsallisINF())
    bandit.retire_arm("a")
    bandit.add_arm("later")
    bandit.save(tmp_path / "b.json")
    loaded = bw.Bandit.load(tmp_path / "b.json")
    assert loaded.arms == bandit.arms == ("b", 3, "later")
    assert finish(loaded) == finish(bandit)


def test_a_loaded_bandit_takes_the_decision_itself(tmp_path):
    bandit = bw.Bandit(bw.TsallisINF(), arms=2, seed=1)
    decision = bandit.ask()
    bandit.save(tmp_path / "b.json")
    loaded = bw.Bandit.load(tmp_path / "b.json")
    loaded.tell(decision, loss=0.25)
    bandit.tell(decision, loss=0.25)
    assert content(loaded) == content(bandit)


@pytest.mark.slow
def test_every_truncation_is_refused(tmp_path):
    path = tmp_path / "b.json"
    in_flight(bw.TsallisINF()).save(path)
    # Cut ever shorter: writing thousands of files would wait for the disk.
    for length in reversed(range(0, path.stat().st_size - 1, 7)):
        os.truncate(path, length)
        with pytest.raises(StateFileError, match=r"^The state file .* must be .*\.$"):
            bw.Bandit.load(path)


def put(path, position, byte):
    """Change one byte of a file where it stands, which does not wait for the disk."""
    with path.open("r+b") as file:
        file.seek(position)
        file.write(bytes([byte]))


@pytest.mark.slow
def test_every_flipped_bit_is_noticed(tmp_path):
    path = tmp_path / "b.json"
    bandit = in_flight(bw.TsallisINF())
    bandit.save(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for position, byte in enumerate(whole):
        put(path, position, byte ^ 1 << int(rng.integers(8)))
        try:
            loaded = bw.Bandit.load(path)
        except StateFileError as error:
            assert "\n" not in str(error)
            refused += 1
        else:  # white space became other white space
            assert content(loaded) == content(bandit)
        put(path, position, byte)
    assert path.read_bytes() == whole
    assert refused > 0.8 * len(whole)


def rewritten(path, change):
    """Change a saved document and give it a checksum that fits."""
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    if "content" in document:
        document["checksum"] = state_file.checksum(document["content"])
    path.write_text(json.dumps(document), encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda d: d.update(version=1), "The version of state file .* must be 2, got 1."),
        (lambda d: d.update(version=3), "The version of state file .* got 3."),
        (lambda d: d.update(version="1"), "The version of state file"),
        (lambda d: d.update(version=True), "The version of state file"),
        (lambda d: d.update(format="river.bandit"), "The format of state file .*river"),
        (lambda d: d.pop("format"), "The format of state file .* got None"),
        (lambda d: d.pop("content"), "is damaged or was edited"),
        (lambda d: d["content"].pop("numbers"), "is damaged or was edited"),
        (
            lambda d: d["content"]["numbers"].update(estimates=[0, 1]),
            "2 estimates instead of 3",
        ),
        (lambda d: d["content"]["numbers"].update(estimates=[0, 1, 1e200]), "estimates out of"),
        (lambda d: d["content"]["numbers"].update(estimates=[0, 1, None]), "that are not numbers"),
        (
            lambda d: d["content"].update(generator=[0, 0, 0, 0]),
            "a generator state of the wrong shape",
        ),
        (
            lambda d: d["content"].update(generator=[1, 2, 3]),
            "a generator state of the wrong shape",
        ),
        (lambda d: d["content"].update(generator=[1, 2, 3, 2**64]), "generator that is not"),
        (lambda d: d["content"].update(round=34), "another number of decisions than rounds"),
        (lambda d: d["content"].update(round=10**400), "round that is not a whole number"),
        (lambda d: d["content"]["pending"][0].update(id=0), "id that is not a whole number"),
        (lambda d: d["content"]["pending"][0].update(id=99), "id that is not a whole number"),
        (lambda d: d["content"]["pending"][0].update(id=32), "pending twice"),
        (lambda d: d["content"]["pending"][0].update(inverse_p=0.9), "an inverse_p below 1"),
        (lambda d: d["content"]["pending"][0].update(arm=3), "arm that is not a whole number"),
        (lambda d: d["content"]["pending"][0].update(near="//8="), "near that are not 3 bits"),
        (lambda d: d["content"]["pending"][0].update(near="/w=="), "near that are not 3 bits"),
        (lambda d: d["content"]["pending"][1].update(near="4A=="), "near arms that did not exist"),
        (lambda d: d["content"]["pending"][0].update(carried=[1.0]), "carried numbers of another"),
        (
            lambda d: d["content"]["pending"][0].update(mean_baseline=0.6),
            "mean_baseline that is not",
        ),
        (lambda d: d["content"]["arms"].update(names=10**12), "names that is not a whole number"),
        (lambda d: d["content"]["arms"].update(told=[-1, 0, 0]), "told out of"),
        (lambda d: d["content"]["arms"].update(losses=[99.0, 0, 0]), "losses above 1"),
        (
            lambda d: d["content"]["arms"].update(slots=[0, 1, 1]),
            "slots that are invalid or repeated",
        ),
        (lambda d: d["content"].update(policy={"class": "Sparring", "fields": {}}), "is damaged"),
        (lambda d: d["content"].update(policy=7), "a policy of another kind"),
        (lambda d: d["content"].update(bounds=[1, 0]), "is damaged or was edited"),
        (lambda d: d["content"].update(seed=-1), "is damaged or was edited"),
        (lambda d: d["content"].update(pending=[[1]]), "is damaged or was edited"),
        (lambda d: d["content"]["arms"].update(names=["a", "a", 3]), "is damaged or was edited"),
        (lambda d: d["content"]["arms"].update(slots=[0, 1]), "is damaged or was edited"),
        (lambda d: d["content"]["arms"].update(slots=[0, 1, 9]), "is damaged or was edited"),
        (lambda d: d["content"]["arms"].update(told=[0]), "is damaged or was edited"),
        (lambda d: d["content"]["policy"].update({"class": "system"}), "is damaged or was edited"),
        (lambda d: d["content"]["policy"]["fields"].update(alpha=2.0), "is damaged or was edited"),
        (lambda d: d["content"]["policy"]["fields"].update(beta=2.0), "is damaged or was edited"),
    ],
)
def test_documents_that_make_no_sense_are_refused(change, sentence, tmp_path):
    path = tmp_path / "b.json"
    in_flight(bw.TsallisINF()).save(path)
    rewritten(path, change)
    with pytest.raises(StateFileError, match=sentence):
        bw.Bandit.load(path)


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"\x00\xff\xfe", b"[]", b"null", b"7", b'"x"', b"{}", b"[" * 9**5,
        b"9" * 5_000, b'{"format": "bothworlds.bandit", "version": NaN}',
        b'{"format": "bothworlds.bandit", "version": 2, "content": ' + b'{"a":' * 900
        + b"1" + b"}" * 901,
    ],
    ids=lambda raw: str(raw[:12]),
)  # fmt: skip
def test_other_files_are_refused(raw, tmp_path):
    path = tmp_path / "other"
    path.write_bytes(raw)
    with pytest.raises(StateFileError):
        bw.Bandit.load(path)


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "b.json"
    bandit = in_flight(bw.TsallisINF())
    bandit.save(path)
    old = path.read_bytes()
    bandit.tell(bandit.pending[0], loss=1.0)

    def no_space(*_):
        raise OSError("no space left")

    for name in ("replace", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, no_space)
            with pytest.raises(OSError, match="no space left"):
                bandit.save(path)
        assert path.read_bytes() == old
        assert sorted(os.listdir(tmp_path)) == [".b.json.lock", "b.json"]
    bandit.save(path)
    assert path.read_bytes() != old


def test_saving_again_writes_the_same_bytes(tmp_path):
    first, second = tmp_path / "1.json", tmp_path / "2.json"
    in_flight(bw.TsallisINF()).save(first)
    bw.Bandit.load(first).save(second)
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.skipif(os.name != "posix", reason="permissions and links of POSIX")
def test_permissions_and_links_stay(tmp_path):
    target, link = tmp_path / "target.json", tmp_path / "link.json"
    bandit = in_flight(bw.TsallisINF())
    bandit.save(target)
    target.chmod(0o640)
    link.symlink_to(target)
    bandit.save(link)
    assert link.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o640


def test_missing_files_are_the_systems_to_report(tmp_path):
    with pytest.raises(FileNotFoundError):
        bw.Bandit.load(tmp_path / "nowhere.json")
    with pytest.raises(FileNotFoundError):
        in_flight(bw.TsallisINF()).save(tmp_path / "no" / "folder.json")


def test_a_name_that_is_half_a_surrogate_pair_is_saved(tmp_path):
    bandit = bw.Bandit(bw.TsallisINF(), arms=["a", "\ud800"], seed=1)
    bandit.save(tmp_path / "b.json")
    assert bw.Bandit.load(tmp_path / "b.json").arms == ("a", "\ud800")


@pytest.mark.parametrize("n_arms", [3, 40, 600])
def test_no_memory_of_the_solver_is_in_the_file(n_arms, tmp_path, monkeypatch):
    """A bandit saved with one solver goes on with another, drawing from the same distribution."""
    path = tmp_path / "b.json"
    bandit = bw.Bandit(bw.TsallisINF(), arms=n_arms, seed=3)
    for t in range(300):
        bandit.tell(bandit.ask(), loss=t % 7 / 7)
    bandit.ask()
    bandit.save(path)
    ours = bw.Bandit.load(path).probabilities()
    import bothworlds.policies.tsallis_inf as module

    monkeypatch.setattr(module, "MANY", 9 if n_arms < 512 else 1_024)
    other = bw.Bandit.load(path)
    assert other.probabilities() == pytest.approx(ours, rel=1e-9)
    for number in other.pending:
        other.tell(number, loss=0.5)
    other.tell(other.ask(), loss=0.5)
    assert json.loads(path.read_text())["content"]["numbers"].keys() == {"estimates"}


def test_a_thompson_file_cannot_make_ask_hang(tmp_path):
    path = tmp_path / "b.json"
    in_flight(bw.ThompsonSampling()).save(path)
    for bad in (-1, 0.5, 2**60, "x", None):
        rewritten(path, lambda d, bad=bad: d["content"]["numbers"].update(ones=[1, bad, 1]))
        with pytest.raises(StateFileError, match="is damaged or was edited by hand: ones"):
            bw.Bandit.load(path)
