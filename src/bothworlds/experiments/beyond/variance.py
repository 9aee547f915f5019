"""Variance: TsallisINFV and LB-INF-V beside Tsallis-INF, on clicks, rare losses and coins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bothworlds.experiments.algorithms import LB, RV, V
from bothworlds.experiments.beyond.worlds import (
    NOT_RUN,
    SCALES,
    cell_of,
    equal_gaps,
    named,
    regret_tables,
    world,
)
from bothworlds.experiments.claims import (
    logarithmic_claim,
    ratio,
    ratio_claim,
    settled,
)
from bothworlds.experiments.figures import linear_figure
from bothworlds.experiments.judging import Place, finals, judged
from bothworlds.experiments.model import Cell, Claim, Experiment, Outcome, Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLICKS, FAIR = "clicks", "coins of the same gap"
RARE, COINS, LEVELS = "rare losses", "coins", "jumping level"

TITLES = {
    CLICKS: "clicks .95 / .98, K = 8",
    FAIR: "coins, gap .03, K = 8",
    RARE: "rare losses .02 / .22, K = 5",
    COINS: "coins, gap 1/8, K = 8",
    LEVELS: "level jumps, gap .2, K = 6",
}


def cells(settings: Settings) -> list[Cell]:
    """Return two worlds of small variances and three of coins, one with the gap of the clicks."""
    import bothworlds as bw

    env = bw.environments
    policies = {RV: bw.TsallisINF(), V: bw.TsallisINFV(), LB: bw.LBINFV(settings.horizon)}
    clicks = env.Stochastic([0.95, *7 * (0.98,)])
    return [
        world(CLICKS, clicks, policies, settings, equal_gaps(8, 0.03)),
        world(FAIR, env.Stochastic.gap(8, 0.03), policies, settings, equal_gaps(8, 0.03)),
        world(RARE, env.Stochastic([0.02, *4 * (0.22,)]), policies, settings, equal_gaps(5, 0.2)),
        world(COINS, env.Stochastic.gap(8, 1 / 8), policies, settings, equal_gaps(8, 1 / 8)),
        world(LEVELS, env.Switching(6, 0.2), policies, settings, equal_gaps(6, 0.2)),
    ]


def score(outcome: Outcome) -> list[Claim]:
    """Judge what a rate that follows the variance saves, and what it costs on coins."""
    clicks, rare = cell_of(outcome, CLICKS), cell_of(outcome, RARE)
    high = [cell_of(outcome, COINS), cell_of(outcome, LEVELS)]
    return [
        logarithmic_claim(
            "variance.lb-logarithmic",
            f"With fixed gaps the regret of {LB} grows logarithmically",
            outcome, settled(outcome.cells), [LB], place=named,
        ),
        _follows(outcome),
        ratio_claim(
            "variance.clicks",
            f"On clicks, TsallisINFV and {LB} have at most half the regret of Tsallis-INF (RV)",
            outcome, [clicks], [(V, RV), (LB, RV)], 0.5, NOT_RUN, place=named,
        ),
        ratio_claim(
            "variance.rare-losses",
            f"On rare losses, TsallisINFV and {LB} have less regret than Tsallis-INF (RV)",
            outcome, [rare], [(V, RV), (LB, RV)], 1.0, NOT_RUN, place=named,
        ),
        ratio_claim(
            "variance.coins",
            "On coins and jumping levels, TsallisINFV is at most 15 % above Tsallis-INF (RV)",
            outcome, high, [(V, RV)], 1.15, NOT_RUN, place=named,
        ),
    ]  # fmt: skip


def _follows(outcome: Outcome) -> Claim:
    """Claim that small variances mean little regret, at the same gaps and arms."""
    small, large = (finals(outcome, cell_of(outcome, id), LB) for id in (CLICKS, FAIR))
    return judged(
        "variance.lb-follows",
        f"At the same gaps, {LB} has at most half the regret where the variances are small",
        outcome, [Place(f"{CLICKS} / {FAIR}", ratio(small, large), CLICKS)], 0.5, reason=NOT_RUN,
        threshold="ratio at most 0.5", shown="{}",
    )  # fmt: skip


def figures(outcome: Outcome) -> dict[str, Figure]:
    """Draw regret against rounds in the five worlds, those of small gaps first."""
    grid = [outcome.cells[:3], outcome.cells[3:]]
    return {"variance": linear_figure(outcome, grid, TITLES)}


EXPERIMENT = Experiment(
    id="variance",
    title="Low rates: following the variance of the losses",
    source="LB-INF-V by Ito, Tsuchiya and Honda (COLT 2022); TsallisINFV is ours",
    summary=(
        "Clicks and other rare events have losses of small variance, which Tsallis-INF does not "
        "use. Ito, Tsuchiya and Honda prove for LB-INF-V, which knows the horizon, a stochastic "
        "regret of the order of the sum of (variance / gap + 1) log T over the arms, and "
        "adversarial bounds beside it. TsallisINFV needs no horizon; its guarantee is argued, not "
        "proved. Clicks have the smallest variances; beside them stand coins with the same gap, "
        "rare losses, coins with a large gap, and coins whose level jumps."
    ),
    scales=SCALES,
    cells=cells,
    score=score,
    figures=figures,
    tables=regret_tables,
    varies=frozenset(),
)
