"""Recorded runs: the draws and regrets that a seed must go on giving, and state files of old.

``python tests/recorded/record.py`` writes them again, for a change that is meant to change them;
the changelog then says which and why.
"""

import hashlib
import json
from pathlib import Path

import numpy as np

import bothworlds as bw

HERE = Path(__file__).parent
RUNS = HERE / "runs.json"
ARMS = (2, 8, 40, 600)
SEED = 20_211


def policies(n_arms):
    """Return every policy, by the name its numbers are recorded under."""
    gaps = [0.0] + [0.1 + 0.3 * i / n_arms for i in range(1, n_arms)]
    return {
        "rv": bw.TsallisINF(),
        "iw": bw.TsallisINF(estimator="iw"),
        "alpha 0.7": bw.TsallisINF(alpha=0.7),
        "alpha 0.3 iw": bw.TsallisINF(alpha=0.3, estimator="iw"),
        "gaps": bw.TsallisINF(alpha=0.7, gaps=gaps),
        "constant rate": bw.TsallisINF(learning_rate=0.1),
        "exp3": bw.Exp3(),
        "exp3++": bw.Exp3PlusPlus(),
        "broad": bw.Broad(horizon=3_000),
        "ucb1": bw.UCB1(),
        "kl-ucb": bw.KLUCB(),
        "thompson": bw.ThompsonSampling(),
        "uniform": bw.Uniform(),
    }


def environments(n_arms):
    """Return the five worlds of the record."""
    gap = 0.25
    base = bw.environments.Stochastic.gap(n_arms, gap)
    return {
        "stochastic": base,
        "switching": bw.environments.Switching(n_arms, gap),
        "betray": bw.environments.Adaptive(n_arms, "betray", gap),
        "corrupted": bw.environments.Corrupted(base, budget=40.0),
        "waves": bw.environments.AdversarialWithGap(n_arms=n_arms, gap=gap),
    }


def digest(numbers):
    """Return a short name of these bits."""
    return hashlib.sha256(np.ascontiguousarray(numbers).tobytes()).hexdigest()[:16]


def rounds_at(n_arms):
    return 300 if n_arms == 600 else 1_500


def losses_of(rounds, n_arms):
    """Return losses that are no generator's: a pattern in which arm 1 is best."""
    i = np.arange(rounds)[:, None] * 7919 + np.arange(n_arms)[None, :] * 104_729
    x = (i % 1009) / 1009
    x[:, 1] *= 0.5
    return x


def decide(policy, n_arms):
    """Return the arms and weights of a bandit whose feedback is partly late, partly missing."""
    rounds = rounds_at(n_arms)
    losses = losses_of(rounds, n_arms)
    bandit = bw.Bandit(policy, arms=n_arms, seed=SEED)
    arms = []
    for t in range(rounds // 2):  # prompt
        decision = bandit.ask()
        arms.append(decision.index)
        bandit.tell(decision, loss=float(losses[t, decision.index]))
    return arms, bandit


def simulate(policy, environment, n_arms):
    """Return the regrets of a tile and one more repetition."""
    result = bw.simulate(
        [policy],
        environment,
        horizon=rounds_at(n_arms),
        repetitions=17,
        seed=SEED,
        checkpoints=[100, rounds_at(n_arms)],
        threads=1,
        progress=False,
    )
    (regret,) = result.regret.values()
    return regret


def duels():
    """Return the duels of the record: players by name, and worlds."""
    players = {
        "shared": bw.Sparring(),
        "two states": bw.Sparring(shared=False),
        "shared iw": bw.Sparring(bw.TsallisINF(estimator="iw")),
        "shared alpha 0.7": bw.Sparring(bw.TsallisINF(alpha=0.7)),
        "ucb1": bw.Sparring(bw.UCB1()),
        "exp3": bw.Sparring(bw.Exp3()),
    }
    return players


def utilities(n_arms):
    return bw.environments.Utilities([0.75] + [0.5 - 0.2 * i / n_arms for i in range(1, n_arms)])


def duel(player, n_arms):
    """Return the pairs of a dueling bandit."""
    bandit = bw.DuelingBandit(player, arms=n_arms, seed=SEED)
    pairs = []
    for t in range(rounds_at(n_arms) // 3):
        pair = bandit.ask()
        pairs.append((pair.left, pair.right))
        bandit.tell(pair, winner="left" if (t * 31 + pair.left) % 3 else "right")
    return pairs


def everything():
    """Return the whole record."""
    record = {}
    for n_arms in ARMS:
        for name, policy in policies(n_arms).items():
            arms, bandit = decide(policy, n_arms)
            record[f"Bandit {name} K={n_arms}"] = [digest(np.array(arms, np.int64)), arms[-1]]
            for place, environment in environments(n_arms).items():
                regret = simulate(policy, environment, n_arms)
                record[f"simulate {name} {place} K={n_arms}"] = [
                    digest(regret),
                    float(regret[:, -1].mean()),
                ]
            print(n_arms, name, flush=True)
        for name, player in duels().items():
            pairs = duel(player, n_arms)
            record[f"DuelingBandit {name} K={n_arms}"] = [
                digest(np.array(pairs, np.int64)),
                list(pairs[-1]),
            ]
            regret = simulate(player, utilities(n_arms), n_arms)
            record[f"duel {name} K={n_arms}"] = [digest(regret), float(regret[:, -1].mean())]
    return record


if __name__ == "__main__":
    RUNS.write_text(json.dumps(everything(), indent=1) + "\n")
