"""Floor: the cost of drawing every arm again and again, for the sake of inference.

A floor mixes the drawing of the arm with chance, in round t by a share of scale / t^(1/3), so that
intervals for every arm stay sound. Each such draw costs the mean gap; as it also informs, it can
cost less.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bothworlds.experiments.algorithms import FLOOR, RV
from bothworlds.experiments.beyond.worlds import UNEVEN, USUAL_SCALES, compared
from bothworlds.experiments.claims import statements, verdicts
from bothworlds.experiments.model import Cell, Claim, Figures, Outcome, Settings, equal_gaps
from bothworlds.experiments.report.figures import linear_figure

if TYPE_CHECKING:
    from bothworlds.policies.base import Player

POWER, DEFAULT = 1 / 3, 0.5
FOUR, FIVE = "four arms", "uneven means"
TITLES = {FOUR: "K = 4, gap .2", FIVE: "means .3 .45 .5 .5 .7"}


_HALF = "The truth lies near the threshold: 1,000 runs with uneven means give 1.52 [1.48, 1.55]."


def floor_name(scale: float) -> str:
    """Return how a floor is called in figures and tables.

    Examples
    --------
    >>> floor_name(0.5)
    'Tsallis-INF, floor 0.5'
    """
    return f"{FLOOR} {scale:g}"


def cells(settings: Settings) -> list[Cell]:
    """Return two worlds with fixed means."""
    import bothworlds as bw

    env = bw.environments
    rv = bw.TsallisINF()
    policies: dict[str, Player] = {RV: rv}
    policies |= {floor_name(c): bw.Floor(rv, scale=c, power=POWER) for c in settings.points}
    least = min(UNEVEN)
    uneven = tuple(mean - least for mean in UNEVEN)
    return [
        settings.cell(FOUR, env.Stochastic.gap(4, 0.2), policies, gaps=equal_gaps(4, 0.2)),
        settings.cell(FIVE, env.Stochastic(UNEVEN), policies, gaps=uneven),
    ]


def price(cell: Cell, scale: float) -> float:
    """Return the most a floor can cost: its sum over the rounds times the mean gap."""
    rounds = np.arange(1, cell.horizon + 1)
    floors = np.minimum(1.0, scale * rounds**-POWER)
    gaps = cell.gaps or ()
    return float(floors.sum()) * sum(gaps) / len(gaps)


def score(outcome: Outcome) -> list[Claim]:
    """Judge the price of a floor."""
    places = [
        verdicts.Place(
            f"{floor_name(c)}, {cell.id}",
            (verdicts.finals(outcome, cell, floor_name(c)) - verdicts.finals(outcome, cell, RV))
            / price(cell, c),
            cell.id,
        )
        for cell in outcome.cells
        for c in outcome.settings.points
    ]
    return [
        statements.ours(
            "floor.price",
            "A floor adds at most its sum over the rounds times the mean gap to the regret",
            "each forced draw costs the mean gap",
        ).by(
            verdicts.judged,
            outcome,
            places,
            1.0,
            shown="up to {} of that",
            threshold="at most the sum of the floors times the mean gap",
        ),
        statements.ours(
            "floor.default-cheap",
            "The floor that inference asks for, 1/2, adds at most half of the regret there is",
            "the case for a floor",
            why=_HALF,
        ).by(compared, outcome, outcome.cells, [(floor_name(DEFAULT), RV)], 1.5),
    ]


def figures(outcome: Outcome) -> Figures:
    """Draw regret against rounds for every floor."""
    return {"floor": linear_figure(outcome, [outcome.cells], TITLES)}


TITLE = "Floors: what exploring for inference costs"
SOURCE = "Ours"
SCALES = {name: replace(scale, points=(0.25, DEFAULT, 1.0)) for name, scale in USUAL_SCALES.items()}
