"""The paper's setting at its full length: K = 8, gap 1/8, ten million rounds, 100 repetitions.

Prints every algorithm's mean regret compared with what is known: an independent simulation where
there is one, else the figure of the conference version (AISTATS 2019, 1000 runs). The numbers are
those of `benchmarks.simulated` and `bothworlds.experiments.claims.published`.
The tolerance is four standard errors, ours and the reference's joined, plus the reading error.
The switching regime starts at the low level here: EXP3's regret depends on the phase it is read
in, and only then does it fit the figure.
Takes a few minutes on two cores.
"""

from __future__ import annotations

import math

import bothworlds as bw
from benchmarks import simulated
from bothworlds.experiments.algorithms import lineup
from bothworlds.experiments.claims import published

RUNS = 100
ROUNDS = (10**5, 10**6, 10**7)
POLICIES = lineup(ROUNDS[-1])
K, GAP = published.ARMS, published.GAP
References = dict[str, dict[int, tuple[float, float | None]]]
"""Mean and standard error by algorithm and round, None where only a figure is known."""


def known(
    figure: dict[str, dict[int, float]], simulated: dict[str, dict[int, tuple[float, float]]]
) -> References:
    """Join a figure's numbers and those of simulations, which come first."""
    found: References = {
        name: {at: (mean, None) for at, mean in row.items()} for name, row in figure.items()
    }
    for name, row in simulated.items():
        found.setdefault(name, {}).update(row)
    return found


def report(title: str, world: bw.environments.Environment, references: References) -> None:
    """Simulate one regime and print it compared with the references."""
    result = bw.simulate(POLICIES, world, horizon=ROUNDS[-1], repetitions=RUNS, seed=7,
                         checkpoints=ROUNDS)  # fmt: skip
    print(f"\n{title}: K = {K}, gap {GAP}, {RUNS} repetitions; mean +- standard error | reference")
    for name, regret in result.regret.items():
        row = f"{name:17s}"
        for column, at in enumerate(ROUNDS):
            values = regret[:, column]
            error = values.std(ddof=1) / math.sqrt(len(values))
            row += f"  {values.mean():8.0f}+-{error:<5.0f}"
            if at in references.get(name, {}):
                mean, theirs = references[name][at]
                # A figure of 1000 runs has our spread over the root of ten.
                theirs = error / math.sqrt(10) if theirs is None else theirs
                allowed = 4 * math.hypot(error, theirs) + published.READING * mean
                fits = "=" if abs(values.mean() - mean) <= allowed else "#"
                row += f"{fits}{mean:<7.0f}"
        print(row)
    print("'=': within the tolerance, '#': not")
    for name, seconds in result.cpu.items():
        print(f"  {name:17s} {seconds / (ROUNDS[-1] * RUNS) * 1e9:6.1f} ns a round", flush=True)


def main() -> None:
    """Run both regimes."""
    stochastic = known(published.STOCHASTIC, simulated.STOCHASTIC)
    report("Stochastic", bw.environments.Stochastic.gap(K, GAP), stochastic)
    switching = known(published.SWITCHING, simulated.SWITCHING)
    report("Switching", bw.environments.Switching(K, GAP, first_level="low"), switching)


if __name__ == "__main__":
    main()
