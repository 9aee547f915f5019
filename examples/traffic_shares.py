"""Price of traffic shares: what a control group, a least and a largest share cost.

Four variants of a page, of which the first is the current one. Product owners want a control group
of 10 %, at least 5 % for every variant, or no variant above 60 %. Each wish moves traffic away from
the best variant. The table shows how many clicks that costs in this simulation, next to a rule of
thumb: the share times the gap of its arm in every round, and for a largest share what is cut off
times the gap of the second best arm. The rule is no bound.

What to learn here: the shares of ``Floor``, and that their price can be estimated before the test.

Usage: traffic_shares.py [FOLDER [REPETITIONS]]. Writes traffic_shares.txt; prints the same table.
"""

import sys
from pathlib import Path

import bothworlds as bw

HORIZON = 20_000
RATES = [0.10, 0.16, 0.13, 0.08]  # of clicks; the second variant is the best
GAPS = [max(RATES) - rate for rate in RATES]
EVERYWHERE = sum(0.05 * gap for gap in GAPS)
WISHES = {
    "none": ({}, 0.0),
    "control of 10 %": ({"control": 0, "control_share": 0.10}, 0.10 * GAPS[0]),
    "at least 5 % each": ({"min_share": 0.05}, EVERYWHERE),
    "at least 20 % each": ({"min_share": 0.20}, 4 * EVERYWHERE),
    "at most 60 % each": ({"max_share": 0.60}, 0.40 * sorted(GAPS)[1]),
}


def main(folder, repetitions):
    policies = {
        wish: bw.Floor(bw.TsallisINF(), 0, **shares) for wish, (shares, _) in WISHES.items()
    }
    world = bw.environments.Stochastic([1.0 - rate for rate in RATES])
    result = bw.simulate(
        policies, world, horizon=HORIZON, repetitions=repetitions, checkpoints=[HORIZON], seed=1,
        progress=False,
    )  # fmt: skip
    plain = result.regret["none"][:, -1].mean()
    lines = [f"{'share':20} {'clicks lost':>12} {'by the share':>13} {'estimate':>9}"]
    for wish, (_, price) in WISHES.items():
        lost = result.regret[wish][:, -1].mean()
        lines.append(f"{wish:20} {lost:12.0f} {lost - plain:13.0f} {HORIZON * price:9.0f}")
    table = "\n".join(lines)
    print(table)
    (folder / "traffic_shares.txt").write_text(table + "\n", encoding="utf-8")


if __name__ == "__main__":
    where = Path(sys.argv[1] if len(sys.argv) > 1 else "examples-output")
    where.mkdir(parents=True, exist_ok=True)
    main(where, int(sys.argv[2]) if len(sys.argv) > 2 else 64)
