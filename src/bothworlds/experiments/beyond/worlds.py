"""Worlds of the experiments beyond the paper: cells and scales that several share."""

from __future__ import annotations

from collections.abc import Iterable

from bothworlds.experiments.claims import rules, verdicts
from bothworlds.experiments.claims.statements import Statement
from bothworlds.experiments.model import Cell, Claim, Outcome, scales

USUAL_SCALES = scales((10_000, 256), (10_000, 1000))
"""The rounds are those the claims speak of; the full scale has more runs."""

UNEVEN = (0.3, 0.45, 0.5, 0.5, 0.7)
"""Means with three different gaps."""


def named(cell: Cell) -> str:
    """Name a cell in a sentence by its id."""
    return cell.id


def cell_of(outcome: Outcome, id: str) -> Cell:
    """Return the cell of an id."""
    return next(cell for cell in outcome.cells if cell.id == id)


def compared(
    statement: Statement, outcome: Outcome, cells: Iterable[Cell],
    pairs: Iterable[tuple[str, str]], limit: float, *, at_most: bool = True,
) -> Claim:  # fmt: skip
    """Judge ratios of regrets at the last round, in cells that have names."""
    return rules.ratio_claim(
        statement, outcome, cells, pairs, limit, verdicts.NOT_RUN, at_most=at_most, place=named
    )
