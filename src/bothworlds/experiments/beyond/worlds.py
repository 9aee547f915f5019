"""Worlds of the experiments beyond the paper: cells and scales that several share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from bothworlds.experiments.claims import regret_table
from bothworlds.experiments.model import Cell, Outcome, Settings, Table, paper_checkpoints

if TYPE_CHECKING:
    from bothworlds.environments.base import Environment
    from bothworlds.policies.base import Player

SCALES = {
    "quick": Settings("quick", 10_000, 256, (), ()),
    "full": Settings("full", 10_000, 1000, (), ()),
}
"""The rounds are those the claims speak of; the full scale has more runs."""

NOT_RUN = "nothing to compare"
"""Why a claim is not judged where its cells were not run."""

UNEVEN = (0.3, 0.45, 0.5, 0.5, 0.7)
"""Means with three different gaps."""


def world(
    id: str,
    environment: Environment,
    policies: Mapping[str, Player],
    settings: Settings,
    gaps: tuple[float, ...] | None,
    *,
    covered: bool = True,
    point: float = 0.0,
    group: str = "",
) -> Cell:
    """Return a cell at the settings in force.

    Parameters
    ----------
    gaps : tuple of float or None
        The gaps of all arms, or None where they move.
    id, environment, policies, covered, point, group
        As in `Cell`.
    """
    positive = [gap for gap in gaps or () if gap > 0.0]
    return Cell(
        id=id,
        environment=environment,
        policies=policies,
        horizon=settings.horizon,
        repetitions=settings.repetitions,
        checkpoints=paper_checkpoints(settings.horizon),
        n_arms=environment.n_arms,
        gap=min(positive, default=0.2),
        gaps=gaps,
        covered=covered,
        point=point,
        group=group,
    )


def equal_gaps(n_arms: int, gap: float) -> tuple[float, ...]:
    """Return the gaps of one best arm among others that are alike.

    Examples
    --------
    >>> equal_gaps(3, 0.2)
    (0.0, 0.2, 0.2)
    """
    return (0.0, *(n_arms - 1) * (gap,))


def regret_tables(outcome: Outcome) -> list[Table]:
    """Return final regrets."""
    return [regret_table(outcome)]


def named(cell: Cell) -> str:
    """Name a cell in a sentence by its id."""
    return cell.id


def cell_of(outcome: Outcome, id: str) -> Cell:
    """Return the cell of an id."""
    return next(cell for cell in outcome.cells if cell.id == id)
