"""Corrupted losses: regret against the budget of corruption (Corollary 1).

An adversary changes stochastic losses; the largest change of a round counts, and the sum over the
rounds is at most C. It hides the best arm from the start, exchanges the two best arms, or raises
the best arm's loss to 1 after every round in which it was played, the last also where the level of
all losses moves (switching). Regret is measured on the true losses; on the corrupted ones, as in
the article, it differs by at most 2 C, which is added to Corollary 1's bound here.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from bothworlds import plotting
from bothworlds.arguments import one_of
from bothworlds.experiments.algorithms import EXP3, IW, RV, THOMPSON, UCB, lineup
from bothworlds.experiments.claims import rules, statements, verdicts
from bothworlds.experiments.model import Cell, Claim, Figures, Outcome, Settings, equal_gaps
from bothworlds.experiments.report.figures import caption
from bothworlds.plotting import LOOKS
from bothworlds.text import fraction

MOVING = "moving level"
SCENES = {
    "hide": "hiding the best arm from the start",
    "swap": "swapping the two best arms",
    "discourage": "punishing the best arm when played",
    MOVING: "the same, while the level moves",
}
"""Attacks and their environments; the last one corrupts the switching environment."""
NAMES = (RV, IW, THOMPSON, UCB, EXP3)


def cells(settings: Settings) -> Iterator[Cell]:
    """Yield every attack at every budget."""
    import bothworlds as bw
    from bothworlds.environments.corrupted import ATTACKS

    policies = lineup(settings.horizon, NAMES, with_kl_ucb=settings.with_kl_ucb)
    for k, gap in product(settings.arms, settings.gaps):
        fixed = bw.environments.Stochastic.gap(k, gap)
        moving = bw.environments.Switching(k, gap)
        for scene in SCENES:
            base = moving if scene == MOVING else fixed
            name = "discourage" if scene == MOVING else scene
            attack = one_of("attack", name, "corruption", ATTACKS)
            for budget in settings.points:
                yield settings.cell(
                    id=f"{scene} C={budget:g}, K={k}, gap={fraction(gap)}",
                    environment=bw.environments.Corrupted(base, budget, attack=attack),
                    policies=policies,
                    gaps=equal_gaps(k, gap),
                    corruption=budget,
                    point=budget,
                    group=f"{scene}, K = {k}, gap {fraction(gap)}",
                )


def groups(outcome: Outcome) -> dict[str, list[Cell]]:
    """Return the cells of every attack and size in the order of their budgets."""
    found: dict[str, list[Cell]] = {}
    for cell in sorted(outcome.cells, key=lambda cell: cell.point):
        found.setdefault(cell.group, []).append(cell)
    return found


def score(outcome: Outcome) -> list[Claim]:
    """Judge the claims of section 5.1 about corruption."""
    return [
        _additive(outcome, RV, "rv-additive"),
        _additive(outcome, IW, "iw-additive"),
        _break(outcome, UCB, "ucb1-breaks"),
        _break(outcome, THOMPSON, "thompson-breaks"),
        rules.bound_claim("corruption.bound", "Corollary 1", outcome),
    ]


def _additive(outcome: Outcome, name: str, tag: str) -> Claim:
    """Claim that corruption C costs a small multiple of C."""
    places = []
    for row in groups(outcome).values():
        clean = [verdicts.finals(outcome, cell, name) for cell in row if cell.point == 0.0]
        if clean:
            places += [
                verdicts.Place(
                    cell.id,
                    (verdicts.finals(outcome, cell, name) - clean[0]) / cell.point,
                    rules.seen(cell),
                )
                for cell in row
                if cell.point > 0.0
            ]
    return statements.ours(
        f"corruption.{tag}",
        f"Corruption C adds at most a small multiple of C to the regret of {name}",
        "our reading of Corollary 1",
    ).by(
        verdicts.judged,
        outcome,
        places,
        4.0,
        threshold="at most 4 per unit of corruption",
        shown="up to {} per unit",
        reason="no run without corruption to compare with",
    )


def _break(outcome: Outcome, name: str, tag: str) -> Claim:
    """Claim that an attack with the largest budget hurts a stochastic algorithm far more."""
    last = [row[-1] for row in groups(outcome).values() if row[-1].point > 0.0]
    places = [
        verdicts.Place(
            cell.id,
            rules.ratio(verdicts.finals(outcome, cell, name), verdicts.finals(outcome, cell, RV)),
            rules.seen(cell),
        )
        for cell in last
    ]
    return statements.ours(
        f"corruption.{tag}",
        f"Corruption breaks {name}: far more regret than Tsallis-INF (RV)",
        "the other side of Corollary 1",
    ).by(
        verdicts.judged,
        outcome,
        places,
        2.0,
        at_most=False,
        some=True,
        digits=1,
        shown="up to {} times",
        threshold="at least twice as much for some attack",
        reason="no corruption at this scale",
    )


def figures(outcome: Outcome) -> Figures:
    """Draw regret against the budget for every attack."""
    rows = list(groups(outcome).items())
    height = len(rows) // 2
    figure, axes = plotting.panels(height, 2, 1.2 + 2.2 * height, sharex=True, sharey=True)
    for panel, (group, row) in zip(axes.flat, rows, strict=True):
        _panel(panel, outcome, group, row)
    for panel in axes[:, 0]:
        panel.set_ylabel("pseudo-regret at T")
    for panel in axes[-1]:
        panel.set_xlabel("budget of corruption C")
    plotting.shared_legend(figure, 3)
    plotting.note(figure, caption(outcome, "regret on the true losses"))
    return {"corruption": figure}


def _panel(panel: Any, outcome: Outcome, group: str, row: list[Cell]) -> None:
    budgets = np.array([cell.point for cell in row])
    means = []
    for name in row[0].policies:
        runs = np.stack([outcome.final(cell, name) for cell in row], axis=1)
        plotting.draw_curve(panel, budgets, runs, LOOKS[name], marks=len(row))
        means.append(runs.mean(axis=0))
    horizon = np.array([row[0].horizon])
    bound = [float(rules.guarantees(cell, RV, horizon)[0][0]) for cell in row]
    plotting.draw_bound(panel, budgets, bound, "upper", "Corollary 1 + 2C, RV")
    panel.set_xlim(0, budgets.max() or 1)
    lowest, highest = float(np.min(means)), max(float(np.max(means)), max(bound))
    old = panel.get_ylim() if panel.get_yscale() == "log" else (lowest, highest)
    plotting.log_heights(panel, min(old[0], max(lowest, 1.0) / 1.5), max(old[1], 1.5 * highest))
    scene, _, size = group.partition(", ")
    panel.set_title(f"{SCENES[scene]}\n{size}")
    plotting.shows(panel, *(cell.id for cell in row))


tables = rules.all_tables

TITLE = "Corrupted losses: what an attack costs"
SOURCE = "Section 5.1, Corollary 1"
SCALES = {
    "quick": Settings("quick", 100_000, 32, (8,), (1 / 8,), (0.0, 200.0, 400.0, 800.0, 1600.0)),
    "full": Settings(
        "full",
        1_000_000,
        100,
        (8,),
        (1 / 8,),
        (0.0, 50.0, 100.0, 200.0, 400.0, 800.0, 1600.0, 3200.0),
    ),
}
