"""Sweep a parameter, keep every run, and come back for more.

How much does it cost not to know whether the world stands still? Twelve gaps, two worlds (means
that stay, means that move together), two policies: 48 curves. All finished runs go to the folder
"runs" below the output folder. Run the program again and nothing is computed; ask for more
repetitions, and only those are. Interrupt it at any moment: nothing that is finished is lost.

What to learn here: ``simulate(store=...)``, which is all a campaign needs on one machine; with
``executor=`` the same lines run on a cluster (docs/scale.md).

Usage: sweep_gaps.py [FOLDER [REPETITIONS]]. Writes sweep_gaps.png; prints the regret.
"""

import sys
from pathlib import Path

import numpy as np

import bothworlds as bw
from bothworlds import plotting

ARMS, HORIZON = 8, 20_000
GAPS = np.geomspace(0.02, 0.5, 12)
POLICIES = {"Tsallis-INF": bw.TsallisINF(), "UCB1": bw.UCB1()}
WORLDS = {
    "means that stay": lambda gap: bw.environments.Stochastic.gap(ARMS, gap),
    "means that move": lambda gap: bw.environments.Switching(ARMS, gap),
}


def main(folder, repetitions):
    regret = {}
    for world, make in WORLDS.items():
        for gap in GAPS:
            result = bw.simulate(
                POLICIES, make(float(gap)), horizon=HORIZON, repetitions=repetitions,
                checkpoints=[HORIZON], store=folder / "runs", progress=False,
            )  # fmt: skip
            for policy in POLICIES:
                runs = result.regret[policy][:, -1]
                regret.setdefault((world, policy), []).append(
                    (runs.mean(), runs.std() / len(runs) ** 0.5)
                )

    print(f"{'gap':>6}" + "".join(f"{policy:>13}" for _ in WORLDS for policy in POLICIES))
    for row, gap in enumerate(GAPS):
        means = "".join(f"{regret[w, p][row][0]:13.1f}" for w in WORLDS for p in POLICIES)
        print(f"{gap:6.3f}{means}")

    with plotting.style():
        figure, axes = plotting.panels(1, 2, 2.9, sharey=True)
        for panel, world in zip(axes[0], WORLDS, strict=True):
            for policy, mark in (("Tsallis-INF", "o-"), ("UCB1", "s--")):
                mean, error = np.array(regret[world, policy]).T
                panel.errorbar(GAPS, mean, 2 * error, fmt=mark, markersize=4, label=policy)
            panel.set(title=world, xlabel="gap", xscale="log")
            panel.set_xticks([0.02, 0.05, 0.1, 0.2, 0.5], ["0.02", "0.05", "0.1", "0.2", "0.5"])
            panel.set_xticks([], minor=True)
        axes[0, 0].set_ylabel(f"regret after {HORIZON:,} rounds")
        axes[0, 0].legend()
        plotting.note(figure, f"{ARMS} arms, {repetitions} runs; whiskers: two standard errors")
        plotting.save(figure, folder / "sweep_gaps.png")


if __name__ == "__main__":
    where = Path(sys.argv[1] if len(sys.argv) > 1 else "examples-output")
    where.mkdir(parents=True, exist_ok=True)
    main(where, int(sys.argv[2]) if len(sys.argv) > 2 else 64)
