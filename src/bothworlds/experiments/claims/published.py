"""Reference numbers: regrets read from the published figures.

The curves of Zimmert and Seldin's conference article (AISTATS 2019, Figures 1 and 2) could be
digitised, with a reading error of about one percent: 8 arms with gap 1/8, and copies of the
best arm. They were computed with importance-weighted estimates and 1000 repetitions.

References
----------
J. Zimmert and Y. Seldin, "An Optimal Algorithm for Stochastic and Adversarial Bandits",
AISTATS 2019.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from bothworlds.experiments.algorithms import BROAD, EXP3, EXP3PP, IW, THOMPSON, UCB
from bothworlds.experiments.claims.rules import seen
from bothworlds.experiments.claims.statements import Statement
from bothworlds.experiments.model import Cell, Claim, Outcome, Table, Verdict
from bothworlds.text import grouped

ARMS, GAP = 8, 0.125

STOCHASTIC: dict[str, dict[int, float]] = {
    IW: {1_000: 83, 10_000: 285, 100_000: 510, 1_000_000: 748, 10_000_000: 992},
    THOMPSON: {1_000: 60, 10_000: 115, 100_000: 168, 1_000_000: 224, 10_000_000: 283},
    UCB: {1_000: 91, 10_000: 417, 100_000: 783, 1_000_000: 1076, 10_000_000: 1316},
    EXP3: {1_000: 90, 10_000: 383, 100_000: 732, 1_000_000: 1451, 10_000_000: 3386},
    EXP3PP: {1_000: 91, 10_000: 381, 100_000: 625, 1_000_000: 957, 10_000_000: 1922},
    BROAD: {1_000: 109, 10_000: 1064, 100_000: 6392, 1_000_000: 14465, 10_000_000: 22615},
}
"""Mean regret at a round, stochastic regime."""

SWITCHING: dict[str, dict[int, float]] = {
    IW: {1_000: 83, 10_000: 280, 100_000: 510, 1_000_000: 751, 10_000_000: 998},
    THOMPSON: {1_000: 78, 10_000: 575, 100_000: 3343, 1_000_000: 24_500, 10_000_000: 180_000},
    UCB: {1_000: 91, 10_000: 791, 100_000: 6923, 1_000_000: 64_400, 10_000_000: 634_000},
    EXP3: {1_000: 91, 10_000: 373, 100_000: 718, 1_000_000: 1414, 10_000_000: 4043},
    EXP3PP: {1_000: 91, 10_000: 370, 100_000: 618, 1_000_000: 955, 10_000_000: 1920},
    BROAD: {1_000: 109, 10_000: 1052, 100_000: 5464, 1_000_000: 11316, 10_000_000: 17199},
}
"""Mean regret at a round, stochastically constrained adversary."""

COPIES: dict[int, dict[int, float]] = {
    2: {1_000: 22.5, 10_000: 51.6, 100_000: 84.8, 1_000_000: 120, 10_000_000: 154},
    4: {1_000: 11.5, 10_000: 32.7, 100_000: 62.9, 1_000_000: 97.5, 10_000_000: 133},
    8: {1_000: 6.9, 10_000: 23.2, 100_000: 49.5, 1_000_000: 81.7, 10_000_000: 116},
    16: {1_000: 4.2, 10_000: 16.0, 100_000: 38.8, 1_000_000: 68.9, 10_000_000: 102},
}
"""Mean regret of the importance-weighted form at a round, by the number of arms."""

READING = 0.02
"""Relative error allowed for reading a curve, about twice the error of reading it again."""

DEVIATIONS = 3.0
"""Standard errors allowed for the noise of our runs."""

CLEAR = 0.25
"""Relative noise, that many standard errors, beyond which a mean is not compared."""


def compared(outcome: Outcome, cell: Cell, name: str, numbers: dict[int, float]) -> list[Compared]:
    """Compare measured means with published ones at every round both have."""
    rounds = outcome.results[cell.id].checkpoints
    found = []
    for at, expected in numbers.items():
        if at in rounds:
            final = outcome.final(cell, name, at)
            error = float(final.std(ddof=1)) / np.sqrt(len(final)) if len(final) > 1 else np.inf
            found.append(Compared(name, at, float(final.mean()), float(error), expected))
    return found


@dataclass(frozen=True)
class Compared:
    """A measured mean and its standard error next to the published value."""

    name: str
    round: int
    mean: float
    error: float
    published: float

    @property
    def clear(self) -> bool:
        """Whether our noise leaves anything to compare."""
        return DEVIATIONS * self.error <= CLEAR * self.published

    @property
    def used(self) -> float:
        """The difference as a share of the tolerance."""
        allowed = DEVIATIONS * self.error + READING * self.published
        return abs(self.mean - self.published) / allowed


Row = tuple[Cell, str, dict[int, float]]
"""An algorithm in a cell, and its published means by the round."""


def rows_of(
    cells: Iterable[Cell], numbers: dict[str, dict[int, float]], but: str = ""
) -> list[Row]:
    """Return a row for every algorithm with published means in every cell, but for one."""
    return [(cell, name, numbers[name]) for cell in cells for name in numbers if name != but]


def published_claim(statement: Statement, outcome: Outcome, rows: list[Row]) -> Claim:
    """Claim that measured means agree with published ones at every round both have.

    The difference may be three standard errors of our mean plus two percent for the reading.
    Means whose three standard errors exceed a quarter of the published value are left out.
    """
    threshold = f"within {DEVIATIONS:g} standard errors + {READING:.0%}".replace("%", " %")
    everything = [pair for row in rows for pair in compared(outcome, *row)]
    pairs = [pair for pair in everything if pair.clear]
    if not pairs:
        reason = "no published cell at this scale" if not everything else "too noisy to compare"
        return statement.judged(reason, threshold, "open", why=f"Not judged: {reason}.")
    worst = max(pairs, key=lambda pair: pair.used)
    noisy = len(everything) - len(pairs)
    measured = (
        f"{len(pairs)} values, farthest off {worst.name} at t={worst.round:,}: "
        f"{worst.mean:,.0f} ± {worst.error:,.0f} against {worst.published:,.0f}, "
        f"{worst.used:.0%} of the tolerance" + (f"; {noisy} too noisy to compare" * bool(noisy))
    )
    verdict: Verdict = "holds" if worst.used <= 1.0 else "fails"
    shown = next(seen(cell, name) for cell, name, _ in rows if name == worst.name)
    return statement.judged(measured, threshold, verdict, panel=shown)


def published_table(outcome: Outcome, rows: list[Row], title: str) -> Table:
    """Return the published values next to the measured ones, a row for each."""
    lines = tuple(
        (
            cell.id, pair.name, f"{pair.round:,}", grouped(pair.published, below=10),
            f"{grouped(pair.mean, below=10)} ± {grouped(pair.error, below=10)}",
            f"{pair.mean / pair.published - 1.0:+.1%}",
        )
        for cell, name, numbers in rows
        for pair in compared(outcome, cell, name, numbers)
    )  # fmt: skip
    head = ("cell", "algorithm", "round", "published", "measured, ± one standard error", "off by")
    return Table(title, head, lines)
