"""Claims judged from curves: growth, ratios, bounds, and the claims that a scale can settle."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bothworlds.experiments.claims.statements import Statement
from bothworlds.experiments.claims.verdicts import Draws, Place, curves, finals, judged
from bothworlds.experiments.model import Cell, Claim, Outcome, Owner, Table
from bothworlds.text import fraction, grouped
from bothworlds.theory import bounds

if TYPE_CHECKING:
    from bothworlds.policies.base import Player

SETTLED = 50.0
"""A cell shows its late growth once the horizon exceeds this many times K / gap^2.

About K / gap^2 rounds pass before any algorithm can tell the best arm; until then the regret of
all of them grows linearly."""

LOGARITHMIC, LINEAR = 0.25, 0.75
"""Exponents half way between those of log T, sqrt T and T, which are 0, 1/2 and 1."""

ROOT = 0.1
"""How far from 1/2 an exponent may be and still count as the root of t."""

PAPER_ROUNDS = 10**7
"""The rounds of the paper's figures, which its sentences about growth speak of."""

STEEPEST = 4.0
"""An exponent beyond this, as where regret falls or starts to rise, counts as this."""

WINDOW = 32.0
"""Growth is measured over the last factor of this in rounds."""

BELOW_BOUND = "Measured mean regret is below every guarantee that applies, at all checkpoints"
"""The sentence that `bound_claim` judges in every experiment."""

NOT_SETTLED = "no cell runs 50 K/gap^2 rounds"


def settled(cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells long enough for statements about late growth."""
    return [cell for cell in cells if cell.horizon >= SETTLED * cell.n_arms / cell.gap**2]


def where(cell: Cell) -> str:
    """Name a cell in a sentence."""
    return f"K={cell.n_arms}, gap {fraction(cell.gap)}"


def seen(cell: Cell, name: str = "") -> str:
    """Name the panel that shows an algorithm in a cell, see `Claim.panel`."""
    return f"{cell.id}: {name}" if name else cell.id


def growth(outcome: Outcome, cell: Cell, name: str) -> Draws:
    """Fit the exponent b of mean regret ~ t^b to the last factor of 32 in rounds.

    The slope of the least-squares line through log regret against log t; NaN where fewer than
    three of the checkpoints there have positive regret.
    """
    rounds = outcome.results[cell.id].checkpoints
    mean = curves(outcome, cell, name)
    late = (rounds >= cell.horizon / WINDOW) & (mean[0] > 0)
    if np.count_nonzero(late) < 3:
        return np.full(len(mean), np.nan)
    return _slope(np.log(rounds[late]), np.log(np.maximum(mean[:, late], 1e-9)))


def _slope(x: NDArray[np.float64], y: Draws) -> Draws:
    """Return the least-squares slope of every row."""
    centred = x - x.mean()
    return np.asarray(y @ centred / (centred @ centred))


def _between(x: NDArray[np.float64], y: Draws, at: ArrayLike) -> Draws:
    """Interpolate every row linearly; a column for each wanted abscissa."""
    wanted = np.asarray(at, dtype=np.float64)
    right = np.clip(np.searchsorted(x, wanted), 1, len(x) - 1)
    share = np.clip((wanted - x[right - 1]) / (x[right] - x[right - 1]), 0.0, 1.0)
    return y[:, right - 1] * (1.0 - share) + y[:, right] * share


def acceleration(outcome: Outcome, cell: Cell, name: str) -> Draws:
    """Return the exponent b of the growth per log t, d regret / d log t ~ t^b.

    It is 0 for a + c log t regardless of a, 1/2 for c sqrt t and 1 for c t. Measured by the growth
    over the first and the second half, in log t, of the last factor of 32 in rounds.
    """
    ends = np.log(cell.horizon) - np.log(WINDOW) * np.array([1.0, 0.5, 0.0])
    rounds = np.log(outcome.results[cell.id].checkpoints)
    first, middle, last = _between(rounds, curves(outcome, cell, name), ends).T
    before, after = middle - first, last - middle
    with np.errstate(divide="ignore", invalid="ignore"):
        b = np.log(after / before) / (0.5 * np.log(WINDOW))
    b = np.where(before <= 0, STEEPEST, b)
    return np.clip(np.where(after <= 0, -STEEPEST, b), -STEEPEST, STEEPEST)


def crests(outcome: Outcome, cell: Cell, name: str) -> Draws:
    """Return the exponent b of the largest mean regret so far, over the last factor of 32.

    Where regret falls, even below 0, while the best arm loses, its crests tell how it grows.
    """
    rounds = np.log(outcome.results[cell.id].checkpoints)
    highest = np.maximum.accumulate(curves(outcome, cell, name), axis=1)
    ends = np.log([cell.horizon / WINDOW, cell.horizon])
    first, last = _between(rounds, np.log(np.maximum(highest, 1.0)), ends).T
    return np.asarray((last - first) / np.log(WINDOW))


def per_log(outcome: Outcome, cell: Cell, name: str) -> Draws:
    """Return the growth of mean regret per unit of log t over the last factor of 32 in rounds."""
    rounds = outcome.results[cell.id].checkpoints
    late = rounds >= cell.horizon / WINDOW
    return _slope(np.log(rounds[late]), curves(outcome, cell, name)[:, late])


def ratio(above: Draws, below: Draws) -> Draws:
    """Divide regrets; next to none below counts as little, not as nothing."""
    return above / np.maximum(below, 1e-9)


def ratio_claim(
    statement: Statement,
    outcome: Outcome,
    cells: Iterable[Cell],
    pairs: Iterable[tuple[str, str]],
    limit: float,
    reason: str = NOT_SETTLED,
    *,
    at_most: bool = True,
    place: Callable[[Cell], str] = where,
) -> Claim:
    """Claim that the regret of the first of each pair is at most ``limit`` times the second's.

    With ``at_most=False``, at least; ``place`` names a cell in the sentence.
    """
    pairs = list(pairs)
    places = []
    for cell in cells:
        last = functools.cache(functools.partial(finals, outcome, cell))
        places += [
            Place(f"{a} / {b}, {place(cell)}", ratio(last(a), last(b)), seen(cell, a))
            for a, b in pairs
            if a in cell.policies and b in cell.policies
        ]
    words = ("at most", "below", "up to {}") if at_most else ("at least", "above", "from {}")
    threshold = f"ratio {words[limit == 1]} {limit:g}"
    return judged(
        statement, outcome, places, limit, threshold=threshold, shown=words[2], at_most=at_most,
        reason=reason,
    )  # fmt: skip


def logarithmic_claim(
    statement: Statement,
    outcome: Outcome,
    cells: Iterable[Cell],
    names: Iterable[str],
    rounds: int = 0,
    place: Callable[[Cell], str] = where,
) -> Claim:
    """Claim that the growth of regret per log t no longer grows, in every cell."""
    names = list(names)
    places = [
        Place(f"{name}, {place(cell)}", acceleration(outcome, cell, name), seen(cell, name))
        for cell in cells
        for name in names
    ]
    threshold = f"growth per log t is t^b with b at most {LOGARITHMIC:g}"
    return judged(
        statement, outcome, places, LOGARITHMIC, threshold=threshold, shown="b up to {}",
        reason=NOT_SETTLED, rounds=rounds,
    )  # fmt: skip


def linear_claim(
    statement: Statement,
    outcome: Outcome,
    cells: Iterable[Cell],
    name: str,
    rounds: int = 0,
) -> Claim:
    """Claim that regret grows nearly as fast as t in every cell."""
    fits = [Place(where(cell), growth(outcome, cell, name), seen(cell, name)) for cell in cells]
    fits = [fit for fit in fits if np.isfinite(fit.value)]
    fast = sum(fit.value >= LINEAR for fit in fits)
    return judged(
        statement, outcome, fits, LINEAR, at_most=False, shown="b from {}",
        threshold=f"regret is t^b with b at least {LINEAR:g}", reason=NOT_SETTLED, rounds=rounds,
        note=f"; {fast} of {len(fits)} cells reach {LINEAR:g}" if len(fits) > 1 else "",
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Margin:
    """How the mean regret of one policy in one cell compares with its guarantee."""

    cell: Cell
    name: str
    regret: float
    bound: float
    theorem: str
    shares: Draws
    """Largest ratio of mean regret to bound over the checkpoints, and its draws."""

    @property
    def share(self) -> float:
        """Largest ratio of mean regret to bound over the checkpoints."""
        return float(self.shares[0])


def guarantees(cell: Cell, name: str, rounds: NDArray[np.int64]) -> tuple[NDArray[np.float64], str]:
    """Return the best bound that applies at every round and its source, or an empty array.

    On corrupted losses the bounds hold for the regret the agent observes; the regret on the true
    losses, which is measured here, is at most twice the budget larger.
    """
    from bothworlds.policies import UCB1

    policy = cell.policies[name]
    # The bound of UCB1 asks for fixed means, not only for fixed gaps.
    if not cell.covered or (isinstance(policy, UCB1) and cell.means is None):
        return np.zeros(0), ""
    times = tuple(rounds.tolist())
    values, theorem = _guaranteed(policy, cell.n_arms, cell.gaps, cell.corruption, times)
    return np.array(values) + 2.0 * cell.corruption, theorem


@functools.lru_cache(maxsize=1024)
def _guaranteed(
    policy: Player,
    n_arms: int,
    gaps: tuple[float, ...] | None,
    corruption: float,
    times: tuple[int, ...],
) -> tuple[tuple[float, ...], str]:
    """Return the bound at every round and its source, or nothing where there is none."""
    found = [
        bounds.guarantee(policy, n_arms=n_arms, horizon=t, gaps=gaps, corruption=corruption)
        for t in times
    ]
    values = tuple(g.value for g in found if g.value is not None)
    if len(values) < len(found):
        return (), ""
    return values, found[-1].theorem or ""


@functools.lru_cache(maxsize=2)
def margins(outcome: Outcome) -> list[Margin]:
    """Return the comparison with the guarantee for all policies that have one."""
    found = []
    for cell in outcome.cells:
        for name in cell.policies:
            bound, theorem = guarantees(cell, name, outcome.results[cell.id].checkpoints)
            if bound.size:
                mean = curves(outcome, cell, name)
                share = (mean / bound).max(axis=1)
                last = float(mean[0, -1])
                found.append(Margin(cell, name, last, float(bound[-1]), theorem, share))
    return found


def bound_claim(
    id: str, place: str, outcome: Outcome, figure: str = "", owner: Owner = "paper"
) -> Claim:
    """Claim that mean regret is below the guarantee at every checkpoint of every cell."""
    statement = Statement(owner, id, BELOW_BOUND, place, figure)
    places = [
        Place(f"{each.name}, {each.cell.id}", each.shares, seen(each.cell, each.name))
        for each in margins(outcome)
    ]
    return judged(
        statement, outcome, places, 1.0, threshold="at most 100 % of the bound", percent=True,
        shown="up to {} of the bound", reason="no guarantee applies",
    )  # fmt: skip


def _cell(regret: float) -> str:
    return grouped(regret, below=10)


def regret_table(outcome: Outcome) -> Table:
    """Return mean regret and its standard error at the horizon, a row per cell."""
    names = list(dict.fromkeys(name for cell in outcome.cells for name in cell.policies))
    rows = []
    for cell in outcome.cells:
        row = [cell.id]
        for name in names:
            if name not in cell.policies:
                row.append("")
                continue
            final = outcome.final(cell, name)
            error = float(final.std(ddof=1)) / np.sqrt(len(final)) if len(final) > 1 else 0.0
            row.append(f"{_cell(float(final.mean()))} ± {_cell(float(error))}")
        rows.append(tuple(row))
    title = "Mean pseudo-regret at the last round, ± one standard error"
    return Table(title, ("cell", *names), tuple(rows))


def regret_tables(outcome: Outcome) -> list[Table]:
    """Return the table of regrets, for experiments that have no other."""
    return [regret_table(outcome)]


def bound_table(outcome: Outcome) -> Table:
    """Return how far the measured regret is below the bound, a row per cell and policy."""
    rows = tuple(
        (
            margin.cell.id,
            margin.name,
            margin.theorem,
            _cell(margin.regret),
            _cell(margin.bound),
            f"{1.0 - margin.regret / margin.bound:.0%}",
            f"{margin.share:.0%}",
        )
        for margin in margins(outcome)
    )
    head = ("cell", "algorithm", "from", "regret", "bound", "below it by", "closest approach")
    return Table("Measured regret next to its guarantee", head, rows)


def all_tables(outcome: Outcome) -> list[Table]:
    """Return final regrets, and margins below the bounds."""
    return [regret_table(outcome), bound_table(outcome)]
