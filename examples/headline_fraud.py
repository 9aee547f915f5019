"""Test headlines while an attacker tampers with the clicks.

Six headlines are shown to readers; the best is clicked by 20 % of them, the others by 10 to 15 %. A
competitor's bots watch, and whenever the best headline was just shown, they make its next click
look like fraud, so that it is not counted, until their budget of voided clicks is spent.
`bothworlds.environments.Corrupted` plays such an attacker against any policy; regret counts the
clicks of real readers that were lost by showing weaker headlines.

What to learn here: regret against the strength of an attack. KL-UCB, excellent among honest
readers, gives the best headline up after fifty to a hundred voided clicks, and UCB1 after some
hundreds: they can be foreseen, and the attacker does. The regret of Tsallis-INF grows with the
budget, as `bothworlds.bounds.self_bounding` promises for any attack. Thompson sampling is promised
nothing of the kind, but is best against this attacker, as it is among honest readers;
backend_latency.py shows one against which it is not.

Writes headline_fraud.png; prints a table.
"""

import sys
from pathlib import Path

import numpy as np

import bothworlds as bw
from bothworlds import plotting

RATES = np.array([0.20, 0.15, 0.15, 0.12, 0.12, 0.10])
BUDGETS = [0, 50, 100, 200, 400]
READERS, RUNS = 20_000, 32


def main(folder):
    policies = [bw.TsallisINF(), bw.ThompsonSampling(), bw.KLUCB(), bw.UCB1()]
    honest = bw.environments.Stochastic(1 - RATES)
    lost = {repr(policy): np.zeros((RUNS, len(BUDGETS))) for policy in policies}
    for column, budget in enumerate(BUDGETS):
        world = bw.environments.Corrupted(honest, budget, attack="discourage") if budget else honest
        result = bw.simulate(
            policies,
            world,
            horizon=READERS,
            repetitions=RUNS,
            seed=1,
            checkpoints=[READERS],
            progress=False,
        )
        for name, regret in result.regret.items():
            lost[name][:, column] = regret[:, -1]
    print(f"clicks lost among {READERS:,} readers, by number of clicks voided")
    print(f"{'':22}" + "".join(f"{budget:>8}" for budget in BUDGETS))
    for name, runs in lost.items():
        print(f"{name:22}" + "".join(f"{value:8.0f}" for value in runs.mean(axis=0)))

    with plotting.style():
        figure, axes = plotting.panels(1, 1, 3.6, width=5.2)
        panel = axes[0, 0]
        for look in plotting.looks(lost).values():
            plotting.draw_curve(panel, BUDGETS, lost[look.label], look, band="se")
        panel.set(xlabel="clicks voided by the attacker", ylabel="real clicks lost")
        panel.set_ylim(0, None)
        plotting.shared_legend(figure, 2)
        plotting.note(figure, f"{READERS:,} readers, {RUNS} runs; band: two standard errors")
        plotting.save(figure, folder / "headline_fraud.png")


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "examples-output")
    folder.mkdir(parents=True, exist_ok=True)
    main(folder)
