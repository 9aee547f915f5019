"""Claims judged from curves: growth, ratios, bounds, and what can be judged at a scale."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bothworlds.experiments.model import Cell, Claim, Outcome, Table
from bothworlds.text import decimals, fraction, grouped
from bothworlds.theory import bounds

if TYPE_CHECKING:
    from bothworlds.policies.base import Player

SETTLED = 50.0
"""A cell shows its late growth once the horizon exceeds this many times K / gap^2.

About K / gap^2 rounds pass before any algorithm can tell the best arm; until then the regret of
all of them grows linearly."""

LOGARITHMIC, LINEAR = 0.25, 0.75
"""Exponents half way between those of log T, sqrt T and T, which are 0, 1/2 and 1."""

WINDOW = 32.0
"""Growth is measured over the last factor of this in rounds."""

NOT_SETTLED = "no cell runs 50 K/gap^2 rounds"


def settled(cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells long enough for statements about late growth."""
    return [cell for cell in cells if cell.horizon >= SETTLED * cell.n_arms / cell.gap**2]


def where(cell: Cell) -> str:
    """Name a cell in a sentence."""
    return f"K={cell.n_arms}, gap {fraction(cell.gap)}"


def growth(outcome: Outcome, cell: Cell, name: str) -> float:
    """Fit the exponent b of mean regret ~ t^b to the last factor of 32 in rounds.

    The slope of the least-squares line through log regret against log t.
    """
    rounds = outcome.results[cell.id].checkpoints
    mean = outcome.results[cell.id].regret[name].mean(axis=0)
    late = (rounds >= cell.horizon / WINDOW) & (mean > 0)
    if np.count_nonzero(late) < 3:
        return float("nan")
    return float(np.polyfit(np.log(rounds[late]), np.log(mean[late]), 1)[0])


def acceleration(outcome: Outcome, cell: Cell, name: str) -> float:
    """Return the exponent b of the growth per log t, d regret / d log t ~ t^b.

    It is 0 for a + c log t whatever a is, 1/2 for c sqrt t and 1 for c t. Measured by the growth
    over the first and the second half, in log t, of the last factor of 32 in rounds.
    """
    result = outcome.results[cell.id]
    mean = result.regret[name].mean(axis=0)
    ends = np.log(cell.horizon) - np.log(WINDOW) * np.array([1.0, 0.5, 0.0])
    first, middle, last = np.interp(ends, np.log(result.checkpoints), mean)
    if last <= middle:
        return float("-inf")
    if middle <= first:
        return float("inf")
    return float(np.log((last - middle) / (middle - first)) / (0.5 * np.log(WINDOW)))


def per_log(outcome: Outcome, cell: Cell, name: str) -> float:
    """Return the growth of mean regret per unit of log t over the last factor of 32 in rounds."""
    rounds = outcome.results[cell.id].checkpoints
    mean = outcome.results[cell.id].regret[name].mean(axis=0)
    late = rounds >= cell.horizon / WINDOW
    return float(np.polyfit(np.log(rounds[late]), mean[late], 1)[0])


def extreme(
    values: Iterable[tuple[float, str]], pick: Callable[..., tuple[float, str]] = max
) -> tuple[float, str]:
    """Return the largest (or smallest) value and where it was found."""
    return pick(values, key=lambda pair: pair[0])


def ratio_claim(
    id: str,
    sentence: str,
    outcome: Outcome,
    cells: Iterable[Cell],
    pairs: Iterable[tuple[str, str]],
    limit: float,
    reason: str = NOT_SETTLED,
) -> Claim:
    """Claim that the regret of the first of each pair is at most ``limit`` times the second's."""
    pairs = list(pairs)
    ratios = [
        (outcome.mean(cell, a) / max(outcome.mean(cell, b), 1e-9), f"{a} / {b}, {where(cell)}")
        for cell in cells
        for a, b in pairs
        if a in cell.policies and b in cell.policies
    ]
    threshold = f"ratio at most {limit:g}" if limit != 1 else "ratio below 1"
    if not ratios:
        return Claim(id, sentence, reason, threshold, None)
    worst, place = extreme(ratios)
    return Claim(id, sentence, f"up to {worst:.2f} ({place})", threshold, worst <= limit)


def logarithmic_claim(
    id: str, sentence: str, outcome: Outcome, cells: Iterable[Cell], names: Iterable[str]
) -> Claim:
    """Claim that the growth of regret per log t no longer grows, in every cell."""
    names = list(names)
    fits = [
        (acceleration(outcome, cell, name), f"{name}, {where(cell)}")
        for cell in cells
        for name in names
    ]
    threshold = f"growth per log t is t^b with b at most {LOGARITHMIC:g}"
    if not fits:
        return Claim(id, sentence, NOT_SETTLED, threshold, None)
    value, place = extreme(fits)
    return Claim(
        id, sentence, f"b up to {decimals(value)} ({place})", threshold, value <= LOGARITHMIC
    )


def linear_claim(
    id: str, sentence: str, outcome: Outcome, cells: Iterable[Cell], name: str
) -> Claim:
    """Claim that regret grows nearly as fast as t in every cell."""
    fits = [(growth(outcome, cell, name), where(cell)) for cell in cells]
    fits = [fit for fit in fits if np.isfinite(fit[0])]
    threshold = f"regret is t^b with b at least {LINEAR:g}"
    if not fits:
        return Claim(id, sentence, NOT_SETTLED, threshold, None)
    value, place = extreme(fits, min)
    fast = sum(fit[0] >= LINEAR for fit in fits)
    measured = f"b from {decimals(value)} ({place})"
    if len(fits) > 1:
        measured += f"; {fast} of {len(fits)} cells reach {LINEAR:g}"
    return Claim(id, sentence, measured, threshold, value >= LINEAR)


@dataclass(frozen=True)
class Margin:
    """How the mean regret of one policy in one cell compares with its guarantee."""

    cell: Cell
    name: str
    regret: float
    bound: float
    theorem: str
    share: float
    """Largest ratio of mean regret to bound over the checkpoints."""


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
        result = outcome.results[cell.id]
        for name in cell.policies:
            bound, theorem = guarantees(cell, name, result.checkpoints)
            if bound.size:
                mean = result.regret[name].mean(axis=0)
                share = float((mean / bound).max())
                found.append(Margin(cell, name, float(mean[-1]), float(bound[-1]), theorem, share))
    return found


def bound_claim(id: str, outcome: Outcome) -> Claim:
    """Claim that mean regret is below the guarantee at every checkpoint of every cell."""
    sentence = "Measured mean regret is below every guarantee that applies, at all checkpoints"
    found = margins(outcome)
    if not found:
        return Claim(id, sentence, "no guarantee applies", "at most 100 % of the bound", None)
    worst = max(found, key=lambda margin: margin.share)
    return Claim(
        id,
        sentence,
        f"up to {worst.share:.0%} of the bound ({worst.name}, {worst.cell.id})",
        "at most 100 % of the bound",
        worst.share <= 1.0,
    )


def _cell(regret: float) -> str:
    return grouped(regret, below=10)


def regret_table(outcome: Outcome, cells: Iterable[Cell] | None = None) -> Table:
    """Return mean regret and its standard error at the horizon, a row per cell."""
    chosen = list(outcome.cells if cells is None else cells)
    names = list(dict.fromkeys(name for cell in chosen for name in cell.policies))
    rows = []
    for cell in chosen:
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
    return Table("Measured regret beside its guarantee", head, rows)
