"""FTPL: a leader after random perturbations, where means are fixed and where the lead fades.

FTPL adds a random perturbation to the loss estimate of every arm and plays the leader. It never
computes a probability: perturbations are drawn again until the same arm leads, and the count is the
weight of the loss. Honda, Ito and Tsuchiya prove the orders log T and sqrt(K T) of both worlds for
Fréchet perturbations of shape 2; Lee, Honda, Ito and Oh prove them for Pareto and others of such a
tail. Means are fixed, or their level jumps, or the lead of the best arm fades like sqrt(K/t), so
that it never becomes clear.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bothworlds.experiments.algorithms import FRECHET, IW, PARETO, RV
from bothworlds.experiments.beyond.worlds import cell_of, compared, named
from bothworlds.experiments.claims import rules, statements, verdicts
from bothworlds.experiments.model import Cell, Claim, Figures, Outcome, Settings, equal_gaps
from bothworlds.experiments.report.figures import linear_figure

if TYPE_CHECKING:
    from bothworlds.environments.base import Environment

STILL, LEVELS = "fixed means", "jumping level"
FADING = {2: "fading lead of two arms", 8: "fading lead of eight arms"}
TITLES = {
    STILL: "coins, gap 1/4, K = 4",
    LEVELS: "level jumps, gap 1/4, K = 4",
    FADING[2]: "lead sqrt(K/t), K = 2",
    FADING[8]: "lead sqrt(K/t), K = 8",
}
GAP = 0.25
SOURCES = {FRECHET: statements.HONDA, PARETO: statements.LEE}
"""Authors that prove the bounds of both worlds, by perturbation."""


def fading(n_arms: int, horizon: int) -> Environment:
    """Return coins of which one leads by sqrt(K/t), t rounded down to a power of two."""
    import bothworlds as bw

    starts = [2**power for power in range(horizon.bit_length())]
    leads = [min(1.0, math.sqrt(n_arms / start)) for start in starts]
    means = [[0.5 - lead / 2, *(n_arms - 1) * (0.5 + lead / 2,)] for lead in leads]
    return bw.environments.Piecewise(means, starts=starts)


def cells(settings: Settings) -> list[Cell]:
    """Return fixed means, levels that jump, and two worlds in which the best arm's lead fades."""
    import bothworlds as bw

    policies = {
        RV: bw.TsallisINF(),
        IW: bw.TsallisINF(estimator="iw"),
        FRECHET: bw.FTPL(),
        PARETO: bw.FTPL("pareto"),
    }
    gaps = equal_gaps(4, GAP)
    return [
        settings.cell(STILL, bw.environments.Stochastic.gap(4, GAP), policies, gaps=gaps),
        settings.cell(LEVELS, bw.environments.Switching(4, GAP), policies, gaps=gaps),
        *(
            settings.cell(id, fading(k, settings.horizon), policies, covered=False)
            for k, id in FADING.items()
        ),
    ]


def score(outcome: Outcome) -> list[Claim]:
    """Judge the growth of regret in both worlds, and the cost of unknown probabilities."""
    still, levels = (rules.settled([cell_of(outcome, id)]) for id in (STILL, LEVELS))
    pairs = [(name, IW) for name in SOURCES], [(RV, name) for name in SOURCES]
    everywhere = outcome, outcome.cells
    return [
        *(
            statements.authors(
                f"ftpl.{word}-logarithmic",
                f"With fixed means the regret of {name} grows logarithmically",
                f"{SOURCES[name]}, the stochastic bound; judged by its growth",
            ).by(rules.logarithmic_claim, outcome, still, [name], place=named)
            for word, name in (("frechet", FRECHET), ("pareto", PARETO))
        ),
        *(
            _root(outcome, f"ftpl.{word}-root", name)
            for word, name in (("frechet", FRECHET), ("pareto", PARETO))
        ),
        statements.ours(
            "ftpl.levels",
            "Where the level of all losses jumps, the regret of FTPL grows logarithmically as well",
            "the stochastic bound, without fixed means",
        ).by(rules.logarithmic_claim, outcome, levels, SOURCES, place=named),
        statements.ours(
            "ftpl.price",
            "FTPL has at most twice the regret of Tsallis-INF (IW), which computes probabilities",
            "the price of drawing weights",
        ).by(compared, *everywhere, pairs[0], 2.0),
        statements.ours(
            "ftpl.reduced-variance",
            "Tsallis-INF (RV) has less regret than FTPL",
            "the case for reduced variance, which needs probabilities",
        ).by(compared, *everywhere, pairs[1], 1.0),
    ]


def _root(outcome: Outcome, id: str, name: str) -> Claim:
    """Claim that regret grows like sqrt(T) at most where the lead of the best arm fades."""
    runs = [cell_of(outcome, each) for each in FADING.values()]
    per_root = [outcome.mean(cell, name) / (cell.n_arms * cell.horizon) ** 0.5 for cell in runs]
    limit = 0.5 + rules.ROOT
    return statements.authors(
        id,
        f"Where no lead lasts the regret of {name} grows like sqrt(K T) at most",
        f"{SOURCES[name]}, the adversarial bound; judged by its growth with T",
    ).by(
        verdicts.judged,
        outcome,
        [
            verdicts.Place(cell.id, rules.growth(outcome, cell, name), rules.seen(cell, name))
            for cell in runs
        ],
        limit,
        shown="b up to {}",
        note=f"; {min(per_root):.2f} to {max(per_root):.2f} times sqrt(K T)",
        threshold=f"regret is t^b with b at most {limit:g}",
    )


def figures(outcome: Outcome) -> Figures:
    """Draw regret against rounds in the four worlds."""
    return {"ftpl": linear_figure(outcome, [outcome.cells[:2], outcome.cells[2:]], TITLES)}


TITLE = "FTPL: both worlds without probabilities"
SOURCE = "Honda, Ito and Tsuchiya (ALT 2023); Lee, Honda, Ito and Oh (COLT 2024)"
