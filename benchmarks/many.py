"""Growth of a round with the number of arms: the kernels for many arms compared with O(K).

Both play the same losses from the same estimates on one core.  The O(K) figures are those of the
vectorised pass over all arms, sixteen repetitions at a time, divided by sixteen: the fastest way
this package has to look at every arm.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numba
import numpy as np
from numba.core import types

import bothworlds as bw
from bothworlds.lanes import kernels as shapes
from bothworlds.lanes.random import uniform
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import gather, load, pointer, select, splat, zeros
from bothworlds.omd import half
from bothworlds.omd.many import layout
from bothworlds.policies.tsallis_inf import TsallisINF
from bothworlds.policies.tsallis_inf import many as tsallis_many

GAP, GOOD = 0.25, 3
"""Mean losses: 1/2 - gap / 2 for the good arms, 1/2 + gap / 2 for the others."""

PHASES = {
    "iw": {
        1_000: (1, 1_000, 100_000),
        10_000: (1, 10_000, 100_000, 1_000_000),
        100_000: (1, 100_000, 1_000_000),
        1_000_000: (1, 1_000_000, 3_000_000),
    },
    "rv": {
        1_000: (1, 1_000, 16_000, 100_000),
        10_000: (1, 10_000, 40_000, 160_000, 1_000_000),
        100_000: (1, 100_000, 400_000, 1_600_000),
        1_000_000: (1, 1_000_000),
    },
}
"""The rounds at which each figure begins."""


@numba.njit(nogil=True, error_model="numpy")
def _few(choose: Any, update: Any, K: int, first: int, last: int, C: Any, S: Any, G: Any) -> None:
    C, S, G = pointer(C), pointer(S), pointer(G)
    for t in range(first, last):
        arm = choose(K, t, C, S, G, uniform(G, 0.0))
        mean = 0.5 - 0.5 * GAP if arm < GOOD else 0.5 + 0.5 * GAP
        update(K, t, C, S, G, arm, S[0], 1.0 if uniform(G, 0.0) < mean else 0.0)


@numba.njit(nogil=True, error_model="numpy")
def _all(
    choose: Any, update: Any, K: int, first: int, last: int, C: Any, S: Any, G: Any, M: Any
) -> None:
    C, S, G, M = pointer(C), pointer(S), pointer(G), pointer(M)
    like = zeros()
    for t in range(first, last):
        arm = choose(K, t, C, S, G, uniform(G, like))
        loss = select(uniform(G, like) < gather(M, 0, arm), splat(1.0, like), splat(0.0, like))
        update(K, t, C, S, G, arm, load(S, 0, like), loss)


def _compiled(function: Any, choose: Any, update: Any, tables: int) -> Any:
    numbers, words = types.float64[::1], types.int64[::1]
    signatures = (types.FunctionType(choose), types.FunctionType(update))
    whole = (types.int64,) * 3
    function.compile((*signatures, *whole, numbers, numbers, words, *(numbers,) * tables))
    function.disable_compile()
    return function


class Few:
    """One bandit with the kernels for many arms."""

    def __init__(self, policy: TsallisINF, n_arms: int) -> None:
        self.n_arms = n_arms
        reduced = policy.estimator == "rv"
        self.kernels = tsallis_many.MANY_RV if reduced else tsallis_many.MANY_IW
        self.kernels.choose.compile(shapes.CHOOSE_ONE)
        self.kernels.update.compile(shapes.UPDATE_ONE)
        fields = layout.FIELDS_RV if reduced else layout.FIELDS_IW
        self.C = policy.parameters(n_arms)
        self.S = np.zeros(layout.SHARED + fields * n_arms)
        self.G = np.random.default_rng(n_arms).integers(-(2**63), 2**63, size=4)
        self.t = 1

    def play(self, until: int) -> float:
        """Play up to a round and return the CPU seconds."""
        began = time.process_time()
        chosen = self.kernels
        _few(chosen.choose, chosen.update, self.n_arms, self.t, until, self.C, self.S, self.G)
        self.t = until
        return time.process_time() - began

    def estimates(self) -> np.ndarray:
        """Return the loss estimates by arm."""
        head = [self.n_arms, self.t, self.C.size, 0.0, 0.0, 0.0, 0.0]
        F = np.concatenate([head, self.C, self.S])
        tsallis_many.close_many(F)
        first = shapes.HEAD + self.C.size + layout.SHARED
        return F[first : first + self.n_arms]


def every_arm(policy: TsallisINF, n_arms: int, t: int, L: np.ndarray) -> float:
    """Return nanoseconds per round and repetition of the O(K) pass from round t and estimates L."""
    kernels = policy.kernels()
    kernels.choose.compile(shapes.CHOOSE_WIDE)
    kernels.update.compile(shapes.UPDATE_WIDE)
    start = policy.start(n_arms)
    start[half.ESTIMATES :] = L - L.min()
    if L.any():
        start[half.SUM2 : half.SUM5 + 1] = 1.0
    S = np.repeat(start[:, None], LANES, axis=1).ravel()
    G = np.random.default_rng(n_arms).integers(-(2**63), 2**63, size=4 * LANES)
    means = np.full(n_arms, 0.5 + 0.5 * GAP)
    means[:GOOD] -= GAP
    M = np.repeat(means[:, None], LANES, axis=1).ravel()
    C = policy.parameters(n_arms)
    rounds = max(5, 2_000_000 // n_arms // LANES)

    def run(first: int, last: int) -> float:
        began = time.process_time()
        _all(kernels.choose, kernels.update, n_arms, first, last, C, S, G, M)
        return time.process_time() - began

    run(t, t + 2)
    best = math.inf
    for k in range(3):
        first = t + 2 + k * rounds
        best = min(best, run(first, first + rounds) / rounds / LANES * 1e9)
    return best


def main() -> None:
    """Print the table, and how the figures compare with what is promised."""
    _compiled(_few, shapes.CHOOSE_ONE, shapes.UPDATE_ONE, 0)
    _compiled(_all, shapes.CHOOSE_WIDE, shapes.UPDATE_WIDE, 1)
    late: dict[tuple[str, int], tuple[float, float]] = {}
    worst = 0.0
    for estimator, sizes in PHASES.items():
        policy = bw.TsallisINF(estimator=estimator)
        print(f"Tsallis-INF ({estimator}), ns per round")
        print(f"{'K':>9} {'from round':>11} {'to':>9} {'many':>8} {'O(K)':>9} {'faster':>8}")
        for n_arms, stops in sizes.items():
            few = Few(policy, n_arms)
            for i, t in enumerate(stops):
                few.play(max(t, few.t))
                base = every_arm(policy, n_arms, few.t, few.estimates())
                # The first line is all of the first K rounds; the others are samples.
                if i > 0:
                    # The O(K) pass has just emptied the caches.
                    few.play(few.t + 1_000)
                first = few.t
                sample = min(max(10_000, 2 * n_arms), 200_000)
                last = stops[1] if i == 0 else first + sample
                cost = few.play(last) / (last - first) * 1e9
                figures = f"{cost:8.0f} {base:9.0f} {base / cost:8.1f}"
                print(f"{n_arms:9d} {first:11d} {last:9d} {figures}", flush=True)
                worst = max(worst, cost / base) if estimator == "rv" else worst
                late[estimator, n_arms] = (cost, base)
        print()
    growth = late["iw", 1_000_000][0] / late["iw", 1_000][0]
    print(f"IW, t >= K: a round at K = 1e6 costs {growth:.1f} times one at K = 1e3 (at most 5)")
    for n_arms, wanted in ((100_000, 60), (1_000_000, 300)):
        cost, base = late["iw", n_arms]
        print(f"IW, K = {n_arms}: {base / cost:.0f} times faster than O(K) (at least {wanted})")
    cost, base = late["rv", 10_000]
    print(f"RV, K = 10000, t >= 100 K: {base / cost:.1f} times faster than O(K) (at least 5)")
    print(f"RV, any phase: at most {worst:.2f} times the O(K) pass (at most 1.3)")


if __name__ == "__main__":
    main()
