"""Advice: which of several models to follow, where models are fixed and where one breaks.

Seven models recommend one of four arms in four contexts, which the bandit does not see. One is
right everywhere, two in half of the contexts, four always recommend the same arm. All losses move
together, the best model is given six times, it breaks halfway, or clicks are rare. Thompson
sampling and UCB1 follow one model a round and learn about it alone. Regret is against the best
model's own advice; claims about the break measure it against the best model at each time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from bothworlds.experiments.algorithms import DISCOUNTED, EXP3, IW, RV, THOMPSON, UCB, V
from bothworlds.experiments.beyond.worlds import cell_of, compared, named
from bothworlds.experiments.claims import rules, statements, verdicts
from bothworlds.experiments.model import Cell, Claim, Figures, Outcome, Settings
from bothworlds.experiments.report.figures import linear_figure

if TYPE_CHECKING:
    from bothworlds.experiments.claims.verdicts import Draws

FOUR, TOGETHER, CLONES, BROKEN = "four contexts", "levels jump", "clones", "a model breaks"
CLICKS = "rare clicks"
TITLES = {
    FOUR: "7 models, 4 contexts",
    TOGETHER: "all losses move together",
    CLONES: "with five copies of the best",
    BROKEN: "the best model breaks halfway",
    CLICKS: "2 to 5 clicks in 100",
}
AS_ARMS = {id: f"{id}, models as arms" for id in TITLES}
"""Cells in which a policy follows one model a round and learns about that one alone."""
RIGHT, CONSTANT = [0, 1, 2, 3], [[arm] * 4 for arm in range(4)]
MODELS = [*CONSTANT, RIGHT, [0, 1, 0, 0], [3, 3, 2, 3]]
WRONG = [1, 2, 3, 0]
_SLOW = "Cumulative losses forget slowly: a theorem about one fixed model allows that."
_RARE = "Its rate allows for any variance; rare clicks vary little, which the matched rate uses."
_FORGETS = "A window costs regret where nothing breaks: it forgets what is still true."


def levels(horizon: int) -> list[float]:
    """Return levels of 0 and 0.6 in turns, in phases of ceil(1.6^k) rounds.

    Examples
    --------
    >>> levels(6)
    [0.0, 0.6, 0.6, 0.0, 0.0, 0.0]
    """
    found: list[float] = []
    k = 0
    while len(found) < horizon:
        found += [0.6 * (k % 2)] * math.ceil(1.6**k)
        k += 1
    return found[:horizon]


def cells(settings: Settings) -> list[Cell]:
    """Return fixed models, also under moving levels and with copies, and one that breaks."""
    import bothworlds as bw

    advised = bw.environments.Advised
    means = np.full((4, 4), 0.55) - 0.2 * np.eye(4)
    rv = bw.TsallisINF()
    window = max(1, settings.horizon // 10)
    policies = {
        RV: rv,
        IW: bw.TsallisINF(estimator="iw"),
        V: bw.TsallisINFV(),
        EXP3: bw.Exp3(),
        DISCOUNTED: bw.Discounted(rv, window=window),
    }
    broken = [*CONSTANT, WRONG, *MODELS[5:]]
    half = max(2, settings.horizon // 2)
    worlds = {
        FOUR: advised(4, means, MODELS),
        TOGETHER: advised(4, means - 0.25, MODELS, levels=levels(settings.horizon)),
        CLONES: advised(4, means, [*MODELS, *[RIGHT] * 5]),
        BROKEN: advised(4, means, MODELS, later=broken, change=half),
        CLICKS: advised(4, 0.98 - 0.03 * np.eye(4), MODELS),
    }
    # Every round draws a context of its own: the losses of a model that is followed are those of
    # an arm with the model's mean.
    stochastic = bw.environments.Stochastic
    values = worlds[FOUR].values()
    followed = {
        FOUR: stochastic(values),
        TOGETHER: bw.environments.Constrained(
            values - values.min(), [0.35 - 0.25 + each for each in levels(settings.horizon)]
        ),
        CLONES: stochastic(worlds[CLONES].values()),
        BROKEN: bw.environments.Piecewise(
            [values, worlds[BROKEN].values(1)], starts=[half], comparator="fixed"
        ),
        CLICKS: stochastic(worlds[CLICKS].values()),
    }
    rivals = {THOMPSON: bw.ThompsonSampling(), UCB: bw.UCB1()}
    return [
        *(settings.cell(id, world, policies, covered=False) for id, world in worlds.items()),
        *(
            settings.cell(AS_ARMS[id], world, rivals, covered=False)
            for id, world in followed.items()
        ),
    ]


def score(outcome: Outcome) -> list[Claim]:
    """Judge growth, moving levels, copies and a model that breaks."""
    four, together, clones, broken, clicks = (cell_of(outcome, id) for id in TITLES)

    def against(cell: Cell) -> list[verdicts.Place]:
        ratio = rules.ratio(verdicts.finals(outcome, cell, RV), verdicts.finals(outcome, four, RV))
        return [verdicts.Place(f"{cell.id} / {four.id}", ratio, rules.seen(cell, RV))]

    def rivalled(name: str, *cells: Cell) -> list[verdicts.Place]:
        """Compare with the best of the policies that follow one model a round, and of EXP4."""
        places = []
        for cell in cells:
            own, rivals = _against_the_best_now(outcome, cell, name)
            best = min(rivals, key=lambda rival: rivals[rival].mean())
            place = f"{name} / {best}, {cell.id}"
            places.append(
                verdicts.Place(place, rules.ratio(own, rivals[best]), rules.seen(cell, name))
            )
        return places

    return [
        statements.ours(
            "advice.logarithmic",
            "With fixed models the regret against the best of them grows logarithmically",
            "Theorem 1, with advice for arms",
        ).by(rules.logarithmic_claim, outcome, [four, together], [RV, V], place=named),
        statements.ours(
            "advice.together",
            "Where the level of all losses jumps, the regret is at most 15 % larger",
            "Theorem 1, with advice for arms",
        ).by(
            verdicts.judged, outcome, against(together), 1.15,
        ),
        statements.ours(
            "advice.clones",
            "Five copies of the best model lower the regret",
            "models that agree cost nothing",
        ).by(
            verdicts.judged, outcome, against(clones), 1.0,
        ),
        statements.ours(
            "advice.beats-exp4",
            "With fixed models, Tsallis-INF (RV) has less regret than exponential weights (EXP4)",
            "the case for the half-Tsallis step",
        ).by(
            compared, outcome, [four, together, clones], [(RV, EXP3)], 1.0,
        ),
        *(
            statements.ours(
                f"advice.rivals-{part}",
                f"{where}, {name} has at most 1.15 times the regret of the best of Thompson "
                "sampling, UCB1 and EXP4 over the models",
                "the case for learning about every model in every round",
                why=why,
            ).by(
                verdicts.judged, outcome, rivalled(name, *cells), 1.15,
            )
            for part, where, name, cells, why in (
                ("fixed", "With fixed models", RV, (four, clones), ""),
                ("matched", "With fixed models", V, (four, clones), ""),
                ("together", "Where all losses move together", RV, (together,), ""),
                ("break", "Where the best model breaks halfway", RV, (broken,), ""),
                ("clicks", "Where clicks are rare", RV, (clicks,), _RARE),
                ("clicks-matched", "Where clicks are rare", V, (clicks,), ""),
            )
        ),
        statements.ours(
            "advice.break",
            "Where the best model breaks halfway, Tsallis-INF (RV) is within 15 % of a window",
            "what cumulative losses cost",
            why=_SLOW,
        ).by(
            verdicts.judged, outcome,
            [verdicts.Place(broken.id, rules.ratio(*_followed(outcome, broken)), broken.id)],
            1.15,
        ),
        statements.ours(
            "advice.window",
            "Where nothing breaks, a window of a tenth of the rounds adds at most a quarter",
            "what a window costs",
            why=_FORGETS,
        ).by(compared, outcome, [four], [(DISCOUNTED, RV)], 1.25),
    ]  # fmt: skip


def _against_the_best_now(
    outcome: Outcome, cell: Cell, name: str
) -> tuple[Draws, dict[str, Draws]]:
    """Return the regret against the best model at each time, of a policy and of its rivals."""
    more = cell.environment.comparators(np.array([cell.horizon]))["dynamic"]
    as_arms = cell_of(outcome, AS_ARMS[cell.id])
    rivals = {THOMPSON: as_arms, UCB: as_arms, EXP3: cell}
    return verdicts.finals(outcome, cell, name) + more, {
        rival: verdicts.finals(outcome, where, rival) + more for rival, where in rivals.items()
    }


def _followed(outcome: Outcome, cell: Cell) -> tuple[Draws, Draws]:
    """Return the regret against the best model at each time, of RV and with a window."""
    more = cell.environment.comparators(np.array([cell.horizon]))["dynamic"]
    plain = verdicts.finals(outcome, cell, RV) + more
    return plain, verdicts.finals(outcome, cell, DISCOUNTED) + more


def figures(outcome: Outcome) -> Figures:
    """Draw regret against rounds in the five worlds."""
    return {
        "advice": linear_figure(
            outcome, [outcome.cells[:2], outcome.cells[2:4], outcome.cells[4:5]], TITLES
        )
    }


TITLE = "Advice: which of your models to follow"
SOURCE = "Ours, with the estimator of EXP4 (Auer, Cesa-Bianchi, Freund and Schapire, 2002)"
