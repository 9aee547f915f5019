"""Bring three algorithms from papers into the race, each with what is particular to it.

FTPL knows no probabilities: it draws perturbations again until the same arm leads, and the count
is the weight of the loss. Tsallis-INF with a log barrier must solve for its probabilities, which
are filled into an array. IMED draws nothing and returns the arm with the least index. FTPL and IMED
are in the package as well, so what you see here can be compared with `bw.FTPL` and `bw.IMED`.

What to learn here: the three ways to decide, `(arm, weight)`, `probabilities` and an arm alone.
Where means are fixed IMED has half the regret of Tsallis-INF; where the level of all losses jumps,
some of its runs go wrong. The two others have one to three times the regret of Tsallis-INF in both.

Writes three_algorithms.png; prints two tables.
"""

import math
import sys
from pathlib import Path

import numpy as np

import bothworlds as bw


@bw.policies.custom
class Perturbed:
    """FTPL with Pareto perturbations (Lee et al., 2024); the state holds the loss estimates."""

    rate: float = 1.0

    def start(n_arms):
        return np.zeros(n_arms)

    def choose(state, parameters, n_arms, t, generator):
        eta = parameters.rate / math.sqrt(t)
        arm, drawn = -1, 0
        while True:
            leader, least = 0, np.inf
            for i in range(n_arms):
                r = 1.0 / math.sqrt(1.0 - bw.policies.random_unit(generator))
                if eta * state[i] - r < least:
                    leader, least = i, eta * state[i] - r
            if arm >= 0:
                drawn += 1
            if leader == arm:
                return arm, drawn
            if arm < 0:
                arm = leader

    def update(state, parameters, n_arms, t, arm, weight, loss):
        state[arm] += weight * loss


@bw.policies.custom
class Barrier:
    """Tsallis-INF whose regulariser has a log barrier of size ``c`` besides."""

    c: float = 1.0

    def start(n_arms):
        return np.zeros(n_arms)

    def probabilities(state, parameters, n_arms, t, p):
        # L_i - x = 1 / (eta sqrt(p_i)) + c / p_i, with x such that the p_i sum to 1.
        c, root = parameters.c, 0.5 * math.sqrt(t)
        high = min(state)
        low = high - root * math.sqrt(n_arms) - c * n_arms
        for _ in range(60):
            x, total = 0.5 * (low + high), 0.0
            for i in range(n_arms):
                s = (math.sqrt(root * root + 4.0 * c * (state[i] - x)) - root) / (2.0 * c)
                p[i] = 1.0 / max(s * s, 1e-300)
                total += p[i]
            low, high = (x, high) if total < 1.0 else (low, x)
        p /= total

    def update(state, parameters, n_arms, t, arm, probability, loss):
        state[arm] += loss / probability


@bw.policies.custom
class Divergence:
    """IMED (Honda and Takemura, 2015); the state holds the plays and the sums of the losses."""

    def start(n_arms):
        return np.zeros(2 * n_arms)

    def choose(state, parameters, n_arms, t, generator):
        n = state[:n_arms]
        for i in range(n_arms):
            if n[i] == 0.0:
                return i
        m = np.minimum(np.maximum(state[n_arms:] / n, 1e-12), 1.0 - 1e-12)
        best = m.min()
        kl = m * np.log(m / best) + (1.0 - m) * np.log((1.0 - m) / (1.0 - best))
        return int(np.argmin(n * kl + np.log(n)))

    def update(state, parameters, n_arms, t, arm, probability, loss):
        state[arm] += 1.0
        state[n_arms + arm] += loss


def main(folder):
    policies = [bw.TsallisINF(), Perturbed(), Barrier(), Divergence(), bw.IMED()]
    worlds = {
        "fixed means": bw.environments.Stochastic.gap(4, 0.25),
        "jumping level": bw.environments.Switching(4, 0.25),
    }
    results = {
        name: bw.simulate(policies, world, horizon=20_000, repetitions=32, seed=1)
        for name, world in worlds.items()
    }
    for name, result in results.items():
        print(name)
        print(result.summary())
    bw.figure(results).savefig(folder / "three_algorithms.png")


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "examples-output")
    folder.mkdir(parents=True, exist_ok=True)
    main(folder)
