"""Write an algorithm and an environment of your own, check them and race them.

The algorithm is EXP3-IX (Neu, 2015): exponential weights whose estimates divide by the probability
plus a little, which tames their variance. The environment has tides: all losses rise and fall
together, more and more slowly, and arm 0 stays better than the others by the same gap. Both are
classes with a few small functions on arrays; one decorator compiles them for the same engine,
`Bandit` and checks as the built-in ones.

What to learn here: the two extension points, the checks that tell whether what you wrote is sound
(`bothworlds.checks`), and that a newcomer is compared with everyone else in a single call. Here
Exp3IX pays for its caution and stays behind Exp3, Tsallis-INF is well ahead of both, and Thompson
sampling and UCB1 take the tide for the arms in some of their runs and lose these altogether.

Writes own_algorithm.png; prints the checks and a table.
"""

import math
import sys
from pathlib import Path

import numpy as np

import bothworlds as bw


@bw.policies.custom
class Exp3IX:
    """EXP3 with implicit exploration; the state holds one cumulative loss estimate per arm."""

    scale: float = 1.0

    def start(n_arms):
        return np.zeros(n_arms)

    def probabilities(state, parameters, n_arms, t, p):
        eta = parameters.scale * math.sqrt(math.log(n_arms) / (n_arms * t))
        lowest, total = min(state), 0.0
        for i in range(n_arms):
            p[i] = math.exp(-eta * (state[i] - lowest))
            total += p[i]
        for i in range(n_arms):
            p[i] /= total

    def update(state, parameters, n_arms, t, arm, probability, loss):
        eta = parameters.scale * math.sqrt(math.log(n_arms) / (n_arms * t))
        state[arm] += loss / (probability + eta / 2)


@bw.environments.custom
class Tides:
    """Losses of 0 or 1 around a level that moves; arm 0 is better by ``gap`` at any time."""

    gap: float = 0.1

    def mean(state, parameters, n_arms, t, arm):
        level = 0.45 + 0.4 * math.sin(4.0 * math.log(t))
        return level + (parameters.gap if arm > 0 else 0.0)

    def loss(state, parameters, n_arms, t, arm, u):
        level = 0.45 + 0.4 * math.sin(4.0 * math.log(t))
        return 1.0 if u < level + (parameters.gap if arm > 0 else 0.0) else 0.0


def main(folder):
    print(bw.checks.check_policy(Exp3IX()))
    print(bw.checks.check_environment(Tides(5)))

    policies = [bw.TsallisINF(), Exp3IX(), bw.Exp3(), bw.ThompsonSampling(), bw.UCB1()]
    result = bw.simulate(policies, Tides(5), horizon=100_000, repetitions=32, seed=1)
    print(result.summary())
    result.plot(folder / "own_algorithm.png")

    # The same class decides for real, one request at a time.
    bandit = bw.Bandit(Exp3IX(scale=2.0), arms=["blue", "green"], seed=7)
    for _ in range(500):
        decision = bandit.ask()
        bandit.tell(decision, reward=1.0 if decision.arm == "green" else 0.0)
    print(bandit, {name: round(p, 3) for name, p in bandit.probabilities().items()})


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "examples-output")
    folder.mkdir(parents=True, exist_ok=True)
    main(folder)
