"""Worlds of the experiments beyond the paper: cells and scales that several share."""

from __future__ import annotations

from bothworlds.experiments.model import Cell, Outcome, Settings

SCALES = {
    "quick": Settings("quick", 10_000, 256, (), ()),
    "full": Settings("full", 10_000, 1000, (), ()),
}
"""The rounds are those the claims speak of; the full scale has more runs."""

NOT_RUN = "nothing to compare"
"""Why a claim is not judged where its cells were not run."""

UNEVEN = (0.3, 0.45, 0.5, 0.5, 0.7)
"""Means with three different gaps."""


def named(cell: Cell) -> str:
    """Name a cell in a sentence by its id."""
    return cell.id


def cell_of(outcome: Outcome, id: str) -> Cell:
    """Return the cell of an id."""
    return next(cell for cell in outcome.cells if cell.id == id)
