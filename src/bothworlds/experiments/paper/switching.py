"""Figures 3 and 4: a stochastically constrained adversary that moves the level of all losses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bothworlds.experiments import published
from bothworlds.experiments.algorithms import BROAD, EXP3, EXP3PP, IW, RV, THOMPSON, UCB, lineup
from bothworlds.experiments.claims import (
    bound_claim,
    bound_table,
    linear_claim,
    logarithmic_claim,
    ratio_claim,
    regret_table,
    settled,
)
from bothworlds.experiments.figures import regret_figures
from bothworlds.experiments.model import (
    Cell,
    Claim,
    Experiment,
    Outcome,
    Settings,
    Table,
    paper_checkpoints,
)
from bothworlds.experiments.paper.stochastic import GRID_ARMS, GRID_GAPS, gap_cell
from bothworlds.text import fraction

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEADY = (RV, IW, EXP3, EXP3PP, BROAD)
"""Those the article calls almost unaffected by the shifting means."""


def cells(settings: Settings) -> list[Cell]:
    """Return the grid, and one stochastic cell to compare with."""
    import bothworlds as bw

    grid = [
        Cell(
            id=f"K={k}, gap={fraction(gap)}",
            # The caption names the low level first, and EXP3's published curve fits only that.
            environment=bw.environments.Switching(k, gap, first_level="low"),
            policies=lineup(settings.horizon, with_kl_ucb=settings.with_kl_ucb),
            horizon=settings.horizon,
            repetitions=settings.repetitions,
            checkpoints=paper_checkpoints(settings.horizon),
            n_arms=k,
            gap=gap,
            gaps=(0.0, *(k - 1) * (gap,)),
            group="switching",
        )
        for k in settings.arms
        for gap in settings.gaps
    ]
    middle = min(grid, key=lambda c: (c.n_arms != published.ARMS, c.gap != published.GAP))
    still = gap_cell(settings, middle.n_arms, middle.gap)
    return [*grid, _renamed(still)]


def _renamed(cell: Cell) -> Cell:
    return Cell(**{**vars(cell), "id": f"stochastic {cell.id}", "group": "stochastic"})


def moving(outcome: Outcome) -> list[Cell]:
    """Return the cells of the figures."""
    return [cell for cell in outcome.cells if cell.group == "switching"]


def score(outcome: Outcome) -> list[Claim]:
    """Judge what section 8 says about Figures 3 and 4."""
    grid = moving(outcome)
    late = settled(grid)
    anchor = [c for c in grid if (c.n_arms, c.gap) == (published.ARMS, published.GAP)]
    return [
        linear_claim(
            "switching.ucb1-nearly-linear",
            "UCB1 suffers almost linear regret at K = 8, gap 1/8",
            outcome,
            settled(anchor),
            UCB,
        ),
        linear_claim(
            "switching.thompson-nearly-linear",
            "Thompson sampling suffers almost linear regret at K = 8, gap 1/8",
            outcome,
            settled(anchor),
            THOMPSON,
        ),
        linear_claim(
            "switching.ucb1-nearly-linear-everywhere",
            "UCB1 suffers almost linear regret in every cell of our grid",
            outcome,
            late,
            UCB,
        ),
        linear_claim(
            "switching.thompson-nearly-linear-everywhere",
            "Thompson sampling suffers almost linear regret in every cell of our grid",
            outcome,
            late,
            THOMPSON,
        ),
        logarithmic_claim(
            "switching.logarithmic",
            "The regret of Tsallis-INF, both forms, grows logarithmically",
            outcome,
            late,
            (RV, IW),
        ),
        ratio_claim(
            "switching.rv-first",
            "Tsallis-INF (RV) has less regret than all competitors",
            outcome,
            late,
            [(RV, name) for name in (UCB, THOMPSON, EXP3, EXP3PP, BROAD)],
            1.0,
        ),
        _unaffected(outcome),
        bound_claim("switching.bound", outcome),
        published.published_claim(
            "switching.published",
            "The published curves at K = 8, gap 1/8 (without BROAD) are reproduced",
            outcome,
            [
                (cell, name, numbers)
                for cell in anchor
                for name, numbers in published.SWITCHING.items()
                if name != BROAD
            ],
        ),
    ]


def _unaffected(outcome: Outcome) -> Claim:
    id = "switching.others-unaffected"
    sentence = "All but UCB1 and Thompson sampling are almost unaffected by the shifting means"
    threshold = "regret changes by at most 25 %"
    still = next(cell for cell in outcome.cells if cell.group == "stochastic")
    moved = next(c for c in moving(outcome) if (c.n_arms, c.gap) == (still.n_arms, still.gap))
    changes = [
        (abs(outcome.mean(moved, name) / outcome.mean(still, name) - 1.0), name) for name in STEADY
    ]
    if not settled([moved]):
        return Claim(id, sentence, "the cell is shorter than 50 K/gap^2 rounds", threshold, None)
    worst, name = max(changes)
    return Claim(id, sentence, f"up to {worst:.0%} ({name})", threshold, worst <= 0.25)


def figures(outcome: Outcome) -> dict[str, Figure]:
    """Draw Figures 3 and 4."""
    return regret_figures("switching", outcome, moving(outcome))


def tables(outcome: Outcome) -> list[Table]:
    """Return final regrets and margins below the bounds."""
    return [regret_table(outcome), bound_table(outcome)]


EXPERIMENT = Experiment(
    id="switching",
    title="Shifting means: who is not fooled",
    source="Figures 3 and 4",
    summary=(
        "A stochastically constrained adversary: the mean losses of the best arm and of the "
        "others alternate between (0, gap) and (1 - gap, 1), in phases that grow by a factor of "
        "1.6. The gaps never change. One stochastic cell is run beside it for comparison."
    ),
    scales={
        "quick": Settings("quick", 250_000, 32, GRID_ARMS, GRID_GAPS),
        "full": Settings("full", 10_000_000, 100, GRID_ARMS, GRID_GAPS),
    },
    cells=cells,
    score=score,
    figures=figures,
    tables=tables,
)
