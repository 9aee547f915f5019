"""Wrappers of kernels: one name each, found on disk by the next process, never another's code."""

import importlib
import subprocess
import sys

import numba
import numpy as np
import pytest

import bothworlds as bw
from bothworlds.bandit.state import pack
from bothworlds.lanes import wrap
from bothworlds.lanes.kernels import ROUND, unpack
from bothworlds.lanes.random import uniform
from bothworlds.policies.base import Kernels
from bothworlds.policies.exp3 import kernels as exp3
from bothworlds.policies.tsallis_inf import general, half, many, shared

MODULES = (
    "broad", "exp3", "exp3plusplus", "klucb", "thompson", "tsallis_inf.general",
    "tsallis_inf.half", "tsallis_inf.many", "tsallis_inf.shared", "ucb1", "uniform",
)  # fmt: skip
ROLES = ("ask", "tell", "weights", "asked", "near", "late", "estimates_changed", "write_back")


def every_set():
    """Yield the sets of kernels in the package."""
    for name in MODULES:
        module = importlib.import_module(f"bothworlds.policies.{name}")
        yield from (v for v in vars(module).values() if isinstance(v, Kernels))


def test_no_two_wrappers_share_a_place_in_the_cache():
    found = {}
    for kernels in every_set():
        for role in ROLES:
            made = getattr(kernels, role)
            if made is not None:
                names = made.py_func.__globals__
                inside = (names["kernel"], names["after"], names["head"], names["group"])
                assert found.setdefault(made.py_func.__qualname__, inside) == inside
    assert len(found) > 40


SECOND = """
import sys
import bothworlds as bw
from bothworlds.bandit.state import pack
from bothworlds.seeding import stream_words
import numpy as np
policy = bw.UCB1()
kernels = policy.kernels()
F = pack(policy, 3, stream_words(1, "cache"))
w = np.empty(3)
F[1] = 1
arm = kernels.ask(F)
kernels.weights(F, w)
kernels.tell(F, arm, 1.0, 0.5)
for made in (kernels.ask, kernels.tell, kernels.weights):
    print(sum(made.stats.cache_hits.values()), sum(made.stats.cache_misses.values()))
"""


@pytest.mark.processes
def test_a_second_process_finds_every_wrapper_on_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))

    def run():
        done = subprocess.run(
            [sys.executable, "-c", SECOND], capture_output=True, text=True, check=True
        )
        return done.stdout.split()

    assert run() == ["0", "1"] * 3
    assert run() == ["1", "0"] * 3


@numba.njit(nogil=True, error_model="numpy")
def ask_by_hand(F):
    K, t, C, S, G = unpack(F)
    return exp3.choose(K, t, C, S, G, uniform(G, 0.0))


@numba.njit(nogil=True, error_model="numpy")
def tell_by_hand(F, arm, inverse_p, loss):
    K, t, C, S, G = unpack(F)
    exp3.update(K, t, C, S, G, arm, inverse_p, loss)


def test_a_wrapper_gives_the_bits_of_one_written_by_hand():
    policy = bw.Exp3()
    kernels = policy.kernels()
    made = pack(policy, 4, np.array([11, 22, 33, 44]))
    hand = made.copy()
    row = made.size - policy.start(4).size
    for t in range(1, 300):
        made[ROUND] = hand[ROUND] = t
        arm = kernels.ask(made)
        assert arm == ask_by_hand(hand)
        kernels.tell(made, arm, made[row], 0.1 * arm)
        tell_by_hand(hand, arm, hand[row], 0.1 * arm)
        assert made.tobytes() == hand.tobytes()


def test_index_policies_draw_nothing_from_the_generator():
    for policy in (bw.UCB1(), bw.KLUCB()):
        assert policy.kernels().ask.py_func.__name__.startswith("choosing_then")
    for kernels in (half.IW, general.GENERAL, many.MANY_RV, shared._HALF_RV):
        assert kernels.ask.py_func.__name__.startswith("drawing")


def test_wrappers_of_kernels_from_elsewhere_are_not_cached():
    foreign = numba.njit(lambda K, t, C, S, G: None)
    assert wrap.wrapped(wrap.changing, foreign).stats.cache_path is None
    assert half.IW.ask.stats.cache_path is not None


@pytest.mark.parametrize("kernels", list(every_set()), ids=lambda k: k.ask.py_func.__qualname__)
def test_every_set_has_what_a_bandit_calls(kernels):
    assert kernels.ask is not None and kernels.tell is not None
    assert (kernels.weights is None) == (kernels.choose.py_func.__module__.endswith("thompson"))
