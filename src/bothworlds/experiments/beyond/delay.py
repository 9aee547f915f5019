"""Delay: Tsallis-INF (IW) with feedback that comes late, by the probability at the decision.

Every loss arrives a fixed number of rounds late and is weighted by the probability its arm had when
it was chosen; the learning rate counts decisions. This plain rule has no bound here, unlike the
algorithms that are tuned for delays.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bothworlds import plotting
from bothworlds.experiments.algorithms import IW
from bothworlds.experiments.beyond.worlds import UNEVEN, USUAL_SCALES
from bothworlds.experiments.claims import rules, statements, verdicts
from bothworlds.experiments.claims.published import Row, published_claim, published_table
from bothworlds.experiments.model import Cell, Claim, Figures, Outcome, Settings, Table, equal_gaps
from bothworlds.experiments.report.figures import caption
from bothworlds.plotting import LOOKS

FIXED, LEVELS = "uneven means", "jumping level"
TITLES = {FIXED: "means .3 .45 .5 .5 .7", LEVELS: "level jumps, gap .2, K = 6"}
DELAYS = (0.0, 100.0, 300.0, 1000.0)

KNOWN = {FIXED: 145.0, LEVELS: 202.5}
"""Mean regret after 10,000 rounds with delay 100 of another implementation, in 300 runs."""

ROUNDS = 10_000
PER_ROUND = 0.5


def cells(settings: Settings) -> list[Cell]:
    """Return both worlds at every delay."""
    import bothworlds as bw

    env = bw.environments
    policies = {IW: bw.TsallisINF(estimator="iw")}
    least = min(UNEVEN)
    bases = {
        FIXED: (env.Stochastic(UNEVEN), tuple(mean - least for mean in UNEVEN)),
        LEVELS: (env.Switching(6, 0.2), equal_gaps(6, 0.2)),
    }
    return [
        settings.cell(
            f"{name}, delay {delay:g}",
            env.Delayed(base, int(delay)) if delay else base,
            policies,
            gaps=gaps,
            covered=not delay,
            point=delay,
            group=name,
        )
        for name, (base, gaps) in bases.items()
        for delay in settings.points
    ]


def rows(outcome: Outcome) -> list[Row]:
    """Return the cells whose regret is known from elsewhere."""
    return [
        (cell, IW, {ROUNDS: KNOWN[cell.group]}) for cell in outcome.cells if cell.point == 100.0
    ]


def score(outcome: Outcome) -> list[Claim]:
    """Judge the cost of a delay."""
    return [
        statements.ours(
            "delay.known",
            "Late by 100 rounds, Tsallis-INF (IW) has a regret of 145 where uneven means are "
            "fixed, and of 202 where the level jumps",
            "numbers of another implementation, 300 runs each",
        ).by(published_claim, outcome, rows(outcome)),
        _additive(outcome),
    ]


def _additive(outcome: Outcome) -> Claim:
    """Claim that every round of delay costs less than half a loss."""
    clean = {c.group: verdicts.finals(outcome, c, IW) for c in outcome.cells if not c.point}
    places = [
        verdicts.Place(
            cell.id, (verdicts.finals(outcome, cell, IW) - clean[cell.group]) / cell.point, cell.id
        )
        for cell in outcome.cells
        if cell.point and cell.group in clean
    ]
    return statements.ours(
        "delay.additive",
        "A delay of d rounds adds at most d/2 to the regret of Tsallis-INF (IW)",
        "what a round of delay costs at most",
    ).by(
        verdicts.judged,
        outcome,
        places,
        PER_ROUND,
        threshold=f"at most {PER_ROUND:g} per round of delay",
        shown="up to {} per round",
    )


def figures(outcome: Outcome) -> Figures:
    """Draw regret against the delay in both worlds."""
    figure, axes = plotting.panels(1, 2, 2.9, sharey=True)
    for panel, (group, title) in zip(axes.flat, TITLES.items(), strict=True):
        row = [cell for cell in outcome.cells if cell.group == group]
        delays = np.array([cell.point for cell in row])
        runs = np.stack([outcome.final(cell, IW) for cell in row], axis=1)
        plotting.draw_curve(panel, delays, runs, LOOKS[IW], marks=len(row))
        if outcome.settings.horizon == ROUNDS:
            plotting.draw_points(panel, [100.0], [KNOWN[group]], LOOKS[IW])
        plotting.linear_axes(panel, float(delays.max()), [0.0, float(runs.mean(axis=0).max())])
        panel.set_title(title)
        plotting.shows(panel, *(cell.id for cell in row))
        panel.set_xlabel("delay in rounds")
    axes[0, 0].set_ylabel("pseudo-regret at T")
    plotting.shared_legend(figure)
    plotting.note(figure, caption(outcome, "circles: reference values"))
    return {"delay": figure}


def tables(outcome: Outcome) -> list[Table]:
    """Return known values next to ours, and final regrets."""
    title = "Known next to measured, delay 100"
    return [published_table(outcome, rows(outcome), title), rules.regret_table(outcome)]


TITLE = "Delay: what late feedback costs"
SOURCE = (
    "Ours; bounds for tuned algorithms: Zimmert and Seldin (AISTATS 2020), and in both "
    "worlds Masoudian, Zimmert and Seldin (NeurIPS 2022)"
)
SCALES = {name: replace(scale, points=DELAYS) for name, scale in USUAL_SCALES.items()}
