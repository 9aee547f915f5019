"""The open problem of section 5.2: two regimes in which no logarithmic bound is known.

Two regimes of Seldin and Slivkins in which EXP3++ has a logarithmic guarantee and Tsallis-INF none.
Contaminated: a share gap/4 of every arm's losses is replaced, against the best arm. Adversary with
a gap: losses are fixed in advance, and the best arm's cumulative lead, though it swings, stays
above gap times t. The claims here are not the article's; they report what happens in practice.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from bothworlds import plotting
from bothworlds.experiments.algorithms import EXP3, EXP3PP, IW, RV, THOMPSON, UCB, lineup
from bothworlds.experiments.claims import rules, statements, verdicts
from bothworlds.experiments.model import Cell, Claim, Figures, Outcome, Settings
from bothworlds.experiments.report.figures import caption, grid_of, regret_figures, title_of
from bothworlds.text import fraction

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bothworlds.environments.base import Environment

CONTAMINATED, WAVES = "contaminated", "gap"
NAMES = (RV, IW, THOMPSON, UCB, EXP3, EXP3PP)

_WAVES = (
    "The waves throw single runs off by thousands, ten times the mean's own crest: 320 runs still "
    "leave b = 0.34 [0.11, 0.53] at gap 1/4."
)


def cells(settings: Settings) -> Iterator[Cell]:
    """Yield both regimes for every size."""
    import bothworlds as bw

    for k, gap in product(settings.arms, settings.gaps):
        base = bw.environments.Stochastic.gap(k, gap)
        worlds = {
            CONTAMINATED: bw.environments.Contaminated(base),
            WAVES: bw.environments.AdversarialWithGap(k, gap),
        }
        for group, world in worlds.items():
            yield settings.cell(
                id=f"{_TITLES[group]}, K={k}, gap={fraction(gap)}",
                environment=world,
                policies=lineup(settings.horizon, NAMES, with_kl_ucb=settings.with_kl_ucb),
                checkpoints=_checkpoints(world, settings),
                gap=gap,
                # Contamination grows with time, so no theorem limits the regret it causes.
                covered=group == WAVES,
                group=group,
            )


def _checkpoints(world: Environment, settings: Settings) -> tuple[int, ...]:
    """Return the paper's rounds, and those between which the adversary's waves rise and fall."""
    horizon, rounds = settings.horizon, set(settings.checkpoints)
    turns = getattr(world, "turns", None)
    if turns is not None:
        rounds.update(int(t) for t in turns(horizon))
        rounds.update(int(t) for t in np.geomspace(100, horizon, 80))
    return tuple(sorted(t for t in rounds if 1 <= t <= horizon))


_TITLES = {CONTAMINATED: "contaminated", WAVES: "adversary with a gap"}


def score(outcome: Outcome) -> list[Claim]:
    """Answer the open problem as far as a measurement can."""
    contaminated, waves = (
        rules.settled(cell for cell in outcome.cells if cell.group == group) for group in _TITLES
    )
    found = []
    for name, tag in ((RV, "rv"), (IW, "iw")):
        found += [
            statements.ours(
                f"open-problem.contaminated-{tag}-logarithmic",
                f"Tried, not proved: logarithmic regret of {name} when contaminated",
                "a try at Section 5.2",
                figure="open-problem-contaminated",
            ).by(rules.logarithmic_claim, outcome, contaminated, (name,)),
            _bounded_waves(outcome, waves, name, tag),
        ]
    return [
        *found,
        statements.ours(
            "open-problem.contaminated-beats-exp3pp",
            "Tried, not proved: when contaminated, RV has less regret than EXP3++",
            "a try at Section 5.2",
            figure="open-problem-contaminated",
        ).by(rules.ratio_claim, outcome, contaminated, [(RV, EXP3PP)], 1.0),
        rules.bound_claim(
            "open-problem.bound", "Theorem 1, adversarial part", outcome, "open-problem-gap"
        ),
    ]


def _bounded_waves(outcome: Outcome, cells: list[Cell], name: str, tag: str) -> Claim:
    """Claim that the crests of the regret grow more slowly than t^(1/4)."""
    return statements.ours(
        f"open-problem.gap-{tag}-logarithmic",
        f"Tried, not proved: logarithmic regret of {name}, adversary with a gap",
        "a try at Section 5.2",
        figure="open-problem-gap",
        why=_WAVES if name == RV else "",
    ).by(
        verdicts.judged,
        outcome,
        [
            verdicts.Place(rules.where(cell), rules.crests(outcome, cell, name), rules.seen(cell))
            for cell in cells
        ],
        rules.LOGARITHMIC,
        threshold=f"highest regret is t^b with b at most {rules.LOGARITHMIC:g}",
        shown="b up to {}",
        reason=rules.NOT_SETTLED,
    )


def figures(outcome: Outcome) -> Figures:
    """Draw regret against rounds in both regimes."""
    groups = {g: [cell for cell in outcome.cells if cell.group == g] for g in _TITLES}
    titles = {c.id: f"contaminated, {title_of(c)}" for c in groups[CONTAMINATED]}
    drawn = regret_figures("open-problem-contaminated", outcome, groups[CONTAMINATED], titles)
    drawn["open-problem-gap"] = _waves(outcome, grid_of(groups[WAVES]))
    return drawn


def _waves(outcome: Outcome, grid: list[list[Cell]]) -> Figure:
    """Draw regret that may be negative: both axes logarithmic, the vertical one around 0, too."""
    figure, axes = plotting.panels(len(grid), len(grid[0]), 1.3 + 2.4 * len(grid), sharey=True)
    for panels, row in zip(axes, grid, strict=True):
        for panel, cell in zip(panels, row, strict=True):
            result = outcome.results[cell.id]
            late = result.checkpoints >= min(100, cell.horizon // 10)
            for place, (name, look) in enumerate(plotting.looks(cell.policies).items()):
                rounds, runs = result.checkpoints[late], result.regret[name][:, late]
                plotting.draw_curve(panel, rounds, runs, look, place=place)
            means = [runs[:, late].mean(axis=0) for runs in result.regret.values()]
            first = float(result.checkpoints[late][0])
            plotting.symlog_axes(panel, first, cell.horizon, np.min(means), np.max(means))
            panel.set_title(f"adversary with a gap, {title_of(cell)}")
            plotting.shows(panel, cell.id)
        panels[0].set_ylabel("pseudo-regret")
    for panel in axes[-1]:
        panel.set_xlabel("round t")
    plotting.shared_legend(figure, 3)
    plotting.note(figure, caption(outcome, "vertical axis linear around 0"))
    return figure


tables = rules.all_tables

TITLE = "An open problem: regimes without a known bound"
SOURCE = "Section 5.2"
SCALES = {
    "quick": Settings("quick", 200_000, 32, (8,), (1 / 8, 1 / 4)),
    "full": Settings("full", 10_000_000, 100, (2, 8, 32), (1 / 8, 1 / 4)),
}
