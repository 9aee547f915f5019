"""A user's program, under ``mypy --strict``: what it assumes about types is what users may."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bothworlds as bw
from bothworlds.interop import logs

Floats = NDArray[np.float64]


class GreedyRules:
    """Play the arm with the smallest total loss, now and then any arm."""

    explore: float = 0.1

    @staticmethod
    def start(n_arms: int) -> Floats:
        return np.zeros(2 * n_arms)

    @staticmethod
    def probabilities(state: Floats, parameters: Any, n_arms: int, t: int, p: Floats) -> None:
        best = 0
        for arm in range(n_arms):
            if state[arm] * (1.0 + state[n_arms + best]) < state[best] * (
                1.0 + state[n_arms + arm]
            ):
                best = arm
            p[arm] = parameters.explore / n_arms
        p[best] += 1.0 - parameters.explore

    @staticmethod
    def update(
        state: Floats, parameters: Any, n_arms: int, t: int, arm: int, p: float, loss: float
    ) -> None:
        state[arm] += loss


class FadingRules:
    """Arm 0 is good at first and fades."""

    rate: float = 0.001

    @staticmethod
    def mean(state: Floats, parameters: Any, n_arms: int, t: int, arm: int) -> float:
        return 0.5 if arm else float(min(0.9, 0.2 + parameters.rate * t))

    @staticmethod
    def loss(state: Floats, parameters: Any, n_arms: int, t: int, arm: int, u: float) -> float:
        mean = 0.5 if arm else min(0.9, 0.2 + parameters.rate * t)
        return 1.0 if u < mean else 0.0


# Type checkers do not follow decorators of classes; a call they do.
Greedy = bw.policies.custom(GreedyRules)
Fading = bw.environments.custom(FadingRules)


def decide(policy: bw.policies.Policy, rounds: int) -> dict[str | int, float]:
    bandit = bw.Bandit(policy, arms=["blue", "green"], seed=7, bounds=(0, 250))
    history: list[logs.LoggedDecision] = []
    for _ in range(rounds):
        decision: bw.Decision = bandit.ask()
        bandit.tell(decision, reward=100.0 if decision.arm == "blue" else 20.0)
        history.append(logs.LoggedDecision.of(decision, reward=1.0))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log.jsonl")
        written: int = logs.write_jsonl(path, history)
        assert [each.arm for each in logs.read_jsonl(path)] == [each.arm for each in history]
        assert written == rounds
    return dict(bandit.probabilities())


def compare(environment: bw.environments.Environment) -> Floats:
    policies: dict[str, bw.policies.Policy] = {"ours": bw.TsallisINF(), "mine": Greedy(explore=0.2)}
    result: bw.Result = bw.simulate(
        policies, environment, horizon=100, repetitions=4, seed=1, progress=False
    )
    regret: Floats = result.regret["ours"]
    return regret


def bound(policy: bw.TsallisINF, environment: bw.environments.Stochastic) -> float:
    at_once: float = bw.bounds.adversarial(environment.n_arms, 1000, estimator=policy.estimator)
    later: Floats = bw.bounds.self_bounding(environment.means - environment.means.min(), [10, 1000])
    lower: Floats = bw.bounds.minimax(8, np.array([100, 1000]))
    return at_once + float(later[-1]) + float(lower.max())


def main() -> None:
    print(decide(bw.TsallisINF(alpha=0.5, estimator="iw"), rounds=50))
    calm = bw.environments.Stochastic([0.2, 0.5, 0.6], noise="beta")
    attacked = bw.environments.Corrupted(calm, budget=10, attack="swap")
    for environment in (calm, attacked, Fading(3)):
        print(compare(environment).shape)
    print(bound(bw.TsallisINF(), calm), attacked.attack)
    duel = bw.DuelingBandit(bw.Sparring(bw.TsallisINF()), arms=["a", "b"], seed=3)
    duel.tell(duel.ask(), winner="left")
    weights: Floats = bw.omd.weights([3.0, 0.0, 1.0], eta=0.5)
    print(weights, bw.theory.bounds.exp3(3, 10))


if __name__ == "__main__":
    main()
