"""Crafted state files: each is refused in one sentence, or loads and plays on.

The files have a checksum that fits, so nothing but validation stands between them and compiled
code. They are tried in a process of their own, in which a crash or an endless loop is seen.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.waiting import HANG

RECORDED = Path(__file__).parents[1] / "recorded"
NAMES = [
    "rv_K8", "iw_K40", "rv_K600", "iw_K600", "alpha_0.7_K8", "gaps_K8", "exp3_K8", "exp3++_K8",
    "broad_K8", "ucb1_K8", "kl-ucb_K8", "thompson_K8", "uniform_K2", "duel_shared_K8",
    "duel_two_states_K2", "duel_shared_alpha_0.7_K2",
]  # fmt: skip

FUZZ = """
import json, random, sys, tempfile, warnings
from pathlib import Path
import numpy as np
import bothworlds as bw
from bothworlds.bandit.state_file import checksum
from bothworlds.errors import BothworldsError, StateFileError
from base64 import b64decode, b64encode

VALUES = [
    None, True, False, 0, -1, 1, 2, 7, 63, 64, 599, 600, 2**31, 2**53, 2**53 + 1, 2**63, 2**64,
    -2**63, 10**12, 10**30, 10**400, 0.5, -0.5, 1e-320, 1e-300, 1e-9, 1e9, 1e16, 1e99, 1e150,
    1e200, 1e308, -1e308, -1e16, 1.0000000001, 0.9999, "", "x", "AAAA", "AAAAAAAAAAA=", "//8=",
    "AAAAAAAA8H8=", "\\ud800", [], {}, [[]], [0], [1, 2, 3], {"class": "UCB1", "fields": {}},
    {"class": "Sparring", "fields": {}}, {"class": "custom", "fields": {}},
]


def places(value, path=()):
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    elif isinstance(value, list):
        picked = range(len(value)) if len(value) < 12 else rng.sample(range(len(value)), 12)
        for key in picked:
            yield from places(value[key], (*path, key))


def at(document, path):
    for key in path:
        document = document[key]
    return document


def changed_text(old):
    try:
        raw = bytearray(b64decode(old, validate=True))
    except Exception:
        return old + "x"
    kind = rng.randrange(4)
    if raw and kind == 0:
        raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
    elif len(raw) >= 8 and kind <= 2:
        place = rng.randrange(len(raw) // 8) * 8
        if kind == 1:
            word = rng.choice([0, 1, -1, 2**62, -2**62, 600, 10**6])
            word = word.to_bytes(8, "little", signed=True)
        else:
            word = np.float64(rng.choice([0.0, -1.0, 1e300, np.nan, np.inf, 512.5])).tobytes()
        raw[place : place + 8] = word
    else:
        raw = raw[: rng.randrange(len(raw) + 1)]
    return b64encode(bytes(raw)).decode()


def mutate(content):
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        paths = [path for path in places(content) if path]
        path = rng.choice(paths)
        parent, key = at(content, path[:-1]), path[-1]
        old = parent[key]
        kind = rng.randrange(6)
        if kind == 0:
            del parent[key]
        elif kind == 1 and isinstance(old, (int, float)) and not isinstance(old, bool):
            parent[key] = rng.choice([old + 1, old - 1, -old, old * 2, old / 3, old * 1e30])
        elif kind <= 3 and isinstance(old, str):
            parent[key] = changed_text(old)
        elif kind == 2 and isinstance(old, list) and old:
            rng.choice([old.pop, old.reverse, lambda: old.append(old[0]), old.clear])()
        else:
            parent[key] = rng.choice(VALUES)


def survives(bandit):
    if isinstance(bandit, bw.DuelingBandit):
        for number in bandit.pending[:20]:
            bandit.tell(number, winner="left")
        for t in range(50):
            pair = bandit.ask()
            assert pair.left in bandit.arms and pair.right in bandit.arms
            bandit.tell(pair, winner="left" if t % 3 else "right")
        return
    low, high = bandit.bounds
    for number in bandit.pending[:20]:
        bandit.tell(number, loss=high)
    held = []
    for t in range(50):
        some = t == 9 and bandit.policy.traits.separable
        decision = bandit.ask(bandit.arms[:1] if some else None)
        assert decision.arm in bandit.arms
        held.append(decision)
        if t % 2:
            bandit.tell(held.pop(rng.randrange(len(held))), reward=low)
    bandit.history()


def fuzz(source, wanted, folder):
    original = json.loads(source.read_text(encoding="utf-8"))
    kind = bw.DuelingBandit if original["format"] == "bothworlds.dueling" else bw.Bandit
    path = Path(folder, "crafted.json")
    refused = lived = 0
    for n in range(wanted):
        document = json.loads(json.dumps(original))
        print(n, end=" ", flush=True)
        mutate(document["content"])
        try:
            document["checksum"] = checksum(document["content"])
            path.write_text(json.dumps(document), encoding="utf-8")
        except (ValueError, RecursionError):
            continue
        try:
            bandit = kind.load(path)
        except StateFileError as error:
            assert "\\n" not in str(error) and str(error).endswith("."), error
            assert len(str(error)) < 1000, error
            refused += 1
            continue
        survives(bandit)
        lived += 1
    return refused, lived


warnings.simplefilter("ignore")
np.seterr(all="ignore")
wanted, seed = int(sys.argv[1]), int(sys.argv[2])
with tempfile.TemporaryDirectory() as folder:
    for source in map(Path, sys.argv[3:]):
        rng = random.Random(seed)
        print(source.stem, flush=True)
        refused, lived = fuzz(source, wanted, folder)
        print()
        print(source.stem, refused, lived, sep="\\t", flush=True)
"""


def fuzzed(paths, wanted, seed):
    """Try ``wanted`` files made of each; return how many were refused and how many played on."""
    run = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", FUZZ, str(wanted), str(seed), *paths],
        capture_output=True, text=True, timeout=3 * HANG, env=dict(os.environ),
    )  # fmt: skip
    assert run.returncode == 0, (run.stdout.splitlines()[-2:], run.stderr[-3000:])
    lines = [line.split("\t") for line in run.stdout.splitlines() if "\t" in line]
    return {name: (int(refused), int(lived)) for name, refused, lived in lines}


@pytest.mark.processes
@pytest.mark.parametrize("names", [NAMES[:8], NAMES[8:]], ids=["first", "second"])
def test_no_crafted_file_crashes_or_hangs(names):
    paths = [RECORDED / "version_2" / f"{name}.json" for name in names]
    found = fuzzed(paths, 150, seed=2)
    assert list(found) == names
    for name, (refused, lived) in found.items():
        assert refused > 40, name
        assert lived > 0, name
