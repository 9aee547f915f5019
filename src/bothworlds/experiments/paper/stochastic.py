"""Figures 1 and 2: stochastic losses with means (1 - gap)/2 and (1 + gap)/2.

Bernoulli losses with mean (1 - gap)/2 for the best arm and (1 + gap)/2 for the rest. The article
does not print its grid of arms and gaps; this one is ours and contains K = 8, gap 1/8, the one cell
published in the conference version. Tsallis-INF (soft) is ours, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import product

from bothworlds.experiments import model
from bothworlds.experiments.algorithms import (
    BROAD,
    EXP3,
    EXP3PP,
    GRID,
    IW,
    RIVALS,
    RV,
    SOFT,
    THOMPSON,
    UCB,
    lineup,
)
from bothworlds.experiments.claims import published, rules, statements, verdicts
from bothworlds.experiments.model import Cell, Claim, Figures, Outcome, Settings, Table, equal_gaps
from bothworlds.experiments.report.figures import regret_figures
from bothworlds.text import fraction
from bothworlds.theory import bounds

_CLOSE = (
    "The ratio is beyond 2 in one cell of nine, K = 2 with gap 1/4, by little: 2.07 in 2,000 "
    'runs of 250,000 rounds; the factor is ours, the paper\'s word is "closely".'
)

_BROAD = (
    "Wei and Luo's algorithm as printed has our curve in two independent implementations, too "
    "(3,416 ± 22 and 3,375 at 1e5 next to our 3,413 ± 25); the slope of the published one, 8,150 a "
    "decade, is (K - 1) ln 10 / eta for eta = 1/505 instead of 1/162, as if the rate had been "
    "halved once or twice early on."
)


def gap_cell(settings: Settings, n_arms: int, gap: float) -> Cell:
    """Return one cell of the grid."""
    import bothworlds as bw

    return settings.cell(
        id=f"K={n_arms}, gap={fraction(gap)}",
        environment=bw.environments.Stochastic.gap(n_arms, gap),
        policies=lineup(settings.horizon, GRID, with_kl_ucb=settings.with_kl_ucb),
        gaps=equal_gaps(n_arms, gap),
        means=((1 - gap) / 2, *(n_arms - 1) * ((1 + gap) / 2,)),
    )


def cells(settings: Settings) -> list[Cell]:
    """Return the grid of arms and gaps."""
    return [gap_cell(settings, k, gap) for k, gap in product(settings.arms, settings.gaps)]


def anchors(cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells whose curves were published: 8 arms with gap 1/8."""
    return [c for c in cells if (c.n_arms, c.gap) == (published.ARMS, published.GAP)]


def score(outcome: Outcome) -> list[Claim]:
    """Judge the claims of section 8 about Figures 1 and 2."""
    late = rules.settled(outcome.cells)
    anchor = anchors(outcome.cells)
    return [
        statements.paper(
            "stochastic.rv-beats-rivals",
            "Tsallis-INF (RV) has less regret than UCB1, EXP3, EXP3++ and BROAD",
            f"{statements.FIRST}, third sentence",
        ).by(rules.ratio_claim, outcome, late, [(RV, rival) for rival in RIVALS], 1.0),
        statements.paper(
            "stochastic.thompson-first",
            "Thompson sampling has the least regret of all",
            f"{statements.FIRST}, third sentence",
        ).by(
            rules.ratio_claim, outcome, late, [(THOMPSON, name) for name in (RV, IW, *RIVALS)], 1.0
        ),
        statements.paper(
            "stochastic.rv-close-behind",
            "Tsallis-INF (RV) follows closely behind Thompson sampling",
            f"{statements.FIRST}, third sentence; that close means a factor of 2 is our reading",
            why=_CLOSE,
            differs=True,
        ).by(rules.ratio_claim, outcome, late, [(RV, THOMPSON)], 2.0),
        statements.paper(
            "stochastic.iw-third",
            "Tsallis-INF (IW) has less regret than UCB1, EXP3, EXP3++ and BROAD",
            f"{statements.FIRST}, fourth sentence",
        ).by(rules.ratio_claim, outcome, late, [(IW, rival) for rival in RIVALS], 1.0),
        statements.paper(
            "stochastic.broad-last",
            "BROAD suffers from large constants: the most regret of all",
            f"{statements.FIRST}, fifth sentence",
        ).by(
            rules.ratio_claim,
            outcome,
            late,
            [(name, BROAD) for name in (RV, IW, THOMPSON, UCB, EXP3, EXP3PP)],
            1.0,
        ),
        statements.paper(
            "stochastic.logarithmic",
            "The regret of Tsallis-INF, both forms, grows logarithmically",
            statements.BOTH,
        ).by(rules.logarithmic_claim, outcome, late, (RV, IW), rules.PAPER_ROUNDS),
        statements.paper(
            "stochastic.rv-constants",
            "Reduced variance improves the constants significantly: RV against IW",
            f"{statements.BOTH}; that significant means a quarter is our reading",
        ).by(rules.ratio_claim, outcome, late, [(RV, IW)], 0.75),
        _twice_lower(outcome, late),
        rules.bound_claim("stochastic.bound", "Theorem 1, and the theorems it cites", outcome),
        statements.paper(
            "stochastic.published",
            "The published curves at K = 8, gap 1/8 (without BROAD) are reproduced",
            f"{statements.AISTATS}, Figure 1",
        ).by(
            published.published_claim,
            outcome,
            published.rows_of(anchor, published.STOCHASTIC, but=BROAD),
        ),
        statements.paper(
            "stochastic.published-broad",
            "The published curve of BROAD at K = 8, gap 1/8 is reproduced",
            f"{statements.AISTATS}, Figure 1",
            why=_BROAD,
            differs=True,
        ).by(
            published.published_claim,
            outcome,
            [(cell, BROAD, published.STOCHASTIC[BROAD]) for cell in anchor],
        ),
        *soft_claims("stochastic", outcome, late),
    ]


def soft_claims(name: str, outcome: Outcome, late: list[Cell]) -> list[Claim]:
    """Judge Tsallis-INF with soft baselines next to reduced variance, on the grid of a figure."""
    place = "puts soft baselines next to the paper's two forms"
    return [
        statements.ours(
            f"{name}.soft-constants", "Soft baselines have less regret than reduced variance", place
        ).by(rules.ratio_claim, outcome, late, [(SOFT, RV)], 1.0),
        statements.ours(
            f"{name}.soft-logarithmic",
            "Tried, not proved: logarithmic regret of Tsallis-INF with soft baselines",
            place,
        ).by(rules.logarithmic_claim, outcome, late, (SOFT,), rules.PAPER_ROUNDS),
    ]


def _twice_lower(outcome: Outcome, late: list[Cell]) -> Claim:
    places = [
        verdicts.Place(
            rules.where(c),
            rules.per_log(outcome, c, RV) / bounds.lai_robbins(c.means, math.e),
            rules.seen(c),
        )
        for c in late
        if c.means is not None
    ]
    return statements.paper(
        "stochastic.twice-lower-bound",
        "Late growth of RV per log t is within twice the Lai-Robbins lower bound",
        "Section 4.1, on Theorem 1",
    ).by(
        verdicts.judged,
        outcome,
        places,
        2.0,
        threshold="factor at most 2",
        shown="up to {} times",
        reason=rules.NOT_SETTLED,
        rounds=rules.PAPER_ROUNDS,
    )


def figures(outcome: Outcome) -> Figures:
    """Draw Figures 1 and 2."""
    points = {cell.id: published.STOCHASTIC for cell in anchors(outcome.cells)}
    return regret_figures("stochastic", outcome, outcome.cells, published=points)


def tables(outcome: Outcome) -> list[Table]:
    """Return published values next to ours, final regrets and margins below the bounds."""
    rows = published.rows_of(anchors(outcome.cells), published.STOCHASTIC)
    compared = published.published_table(outcome, rows, "Published and measured, K = 8, gap 1/8")
    return [compared, *rules.all_tables(outcome)]


TITLE = "Stochastic losses: which algorithm learns fastest"
SOURCE = "Figures 1 and 2"
SCALES = model.scales(
    (250_000, 32), (10_000_000, 100), arms=(2, 8, 32), gaps=(1 / 16, 1 / 8, 1 / 4)
)
