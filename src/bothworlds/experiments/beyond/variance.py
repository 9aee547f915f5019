"""Variance: TsallisINFV and LB-INF-V next to Tsallis-INF, on clicks, rare losses and coins.

Clicks and other rare events have losses of small variance, which Tsallis-INF does not use. Ito,
Tsuchiya and Honda prove for LB-INF-V, which knows the horizon, a stochastic regret of the order of
the sum of (variance / gap + 1) log T over the arms, and adversarial bounds next to it. TsallisINFV
needs no horizon; its guarantee is argued, not proved. Clicks have the smallest variances; next to
them are coins with the same gap, rare losses, coins with a large gap, and coins whose level jumps.
"""

from __future__ import annotations

from bothworlds.experiments.algorithms import LB, RV, V
from bothworlds.experiments.beyond.worlds import cell_of, compared, named
from bothworlds.experiments.claims import rules, statements, verdicts
from bothworlds.experiments.model import Cell, Claim, Figures, Outcome, Settings, equal_gaps
from bothworlds.experiments.report.figures import linear_figure

CLICKS, FAIR = "clicks", "coins of the same gap"
RARE, COINS, LEVELS = "rare losses", "coins", "jumping level"

TITLES = {
    CLICKS: "clicks .95 / .98, K = 8",
    FAIR: "coins, gap .03, K = 8",
    RARE: "rare losses .02 / .22, K = 5",
    COINS: "coins, gap 1/8, K = 8",
    LEVELS: "level jumps, gap .2, K = 6",
}


_RARE = (
    "LB-INF-V has 60 where RV has 55: its bound adds log T for every arm at any variance, "
    "and at a gap of 0.2 that is more than the variances add, 0.17 / 0.2 log T."
)


def cells(settings: Settings) -> list[Cell]:
    """Return two worlds of small variances and three of coins, one with the gap of the clicks."""
    import bothworlds as bw

    env = bw.environments
    policies = {RV: bw.TsallisINF(), V: bw.TsallisINFV(), LB: bw.LBINFV(settings.horizon)}
    clicks = env.Stochastic([0.95, *7 * (0.98,)])
    return [
        settings.cell(CLICKS, clicks, policies, gaps=equal_gaps(8, 0.03)),
        settings.cell(FAIR, env.Stochastic.gap(8, 0.03), policies, gaps=equal_gaps(8, 0.03)),
        settings.cell(
            RARE, env.Stochastic([0.02, *4 * (0.22,)]), policies, gaps=equal_gaps(5, 0.2)
        ),
        settings.cell(COINS, env.Stochastic.gap(8, 1 / 8), policies, gaps=equal_gaps(8, 1 / 8)),
        settings.cell(LEVELS, env.Switching(6, 0.2), policies, gaps=equal_gaps(6, 0.2)),
    ]


def score(outcome: Outcome) -> list[Claim]:
    """Judge the savings of a rate that follows the variance, and its cost on coins."""
    clicks, rare = cell_of(outcome, CLICKS), cell_of(outcome, RARE)
    high = [cell_of(outcome, COINS), cell_of(outcome, LEVELS)]
    return [
        statements.authors(
            "variance.lb-logarithmic",
            f"With fixed gaps the regret of {LB} grows logarithmically",
            f"{statements.ITO}, the stochastic bound (variance / gap + 1) log T; judged by its "
            "growth",
        ).by(rules.logarithmic_claim, outcome, rules.settled(outcome.cells), [LB], place=named),
        _follows(outcome),
        statements.ours(
            "variance.clicks",
            f"On clicks, TsallisINFV and {LB} have at most half the regret of Tsallis-INF (RV)",
            "the case for both",
        ).by(compared, outcome, [clicks], [(V, RV), (LB, RV)], 0.5),
        statements.ours(
            "variance.rare-losses",
            f"On rare losses, TsallisINFV and {LB} have less regret than Tsallis-INF (RV)",
            "extends it to gaps as large as the losses",
            why=_RARE,
        ).by(compared, outcome, [rare], [(V, RV), (LB, RV)], 1.0),
        statements.ours(
            "variance.coins",
            "On coins and jumping levels, TsallisINFV is at most 15 % above Tsallis-INF (RV)",
            "the price of TsallisINFV",
        ).by(compared, outcome, high, [(V, RV)], 1.15),
    ]


def _follows(outcome: Outcome) -> Claim:
    """Claim that small variances mean little regret, at the same gaps and arms."""
    small, large = (verdicts.finals(outcome, cell_of(outcome, id), LB) for id in (CLICKS, FAIR))
    return statements.authors(
        "variance.lb-follows",
        f"At the same gaps, {LB} has at most half the regret where the variances are small",
        f"{statements.ITO}, the same bound; that it shows as a half is our reading",
    ).by(
        verdicts.judged,
        outcome,
        [verdicts.Place(f"{CLICKS} / {FAIR}", rules.ratio(small, large), CLICKS)],
        0.5,
        shown="{}",
    )


def figures(outcome: Outcome) -> Figures:
    """Draw regret against rounds in the five worlds, those of small gaps first."""
    grid = [outcome.cells[:3], outcome.cells[3:]]
    return {"variance": linear_figure(outcome, grid, TITLES)}


TITLE = "Low rates: following the variance of the losses"
SOURCE = "LB-INF-V by Ito, Tsuchiya and Honda (COLT 2022); TsallisINFV is ours"
