"""Drift: restarts, discounts and alarms, where the best arm moves and where it does not.

Tsallis-INF competes with one fixed arm. Three wrappers follow an arm that moves: restarts every
tenth of the horizon, a window of that length, and an alarm that tests every arm's own losses, draws
every arm with a floor of 2 % and restarts when it rings. The best arm moves three times, or never,
or it stays while the level of all losses jumps, which rings the alarm though no restart is needed.
Regret is measured against the best arm of every block.
"""

from __future__ import annotations

from bothworlds.experiments.algorithms import ALARMED, DISCOUNTED, RESTARTED, RV
from bothworlds.experiments.beyond.worlds import cell_of, compared
from bothworlds.experiments.claims import statements, verdicts
from bothworlds.experiments.model import Cell, Claim, Figures, Outcome, Settings, equal_gaps
from bothworlds.experiments.report.figures import linear_figure

MOVING, STILL, LEVELS = "moving best arm", "nothing moves", "jumping level"
TITLES = {
    MOVING: "best arm moves, K = 5",
    STILL: "nothing moves, K = 5",
    LEVELS: "level jumps, K = 6",
}
GAP, FLOOR = 0.2, 0.02
FOLLOWERS = (RESTARTED, DISCOUNTED, ALARMED)


def cells(settings: Settings) -> list[Cell]:
    """Return a best arm that moves three times, one that stays, and levels that jump."""
    import bothworlds as bw

    env = bw.environments
    rv = bw.TsallisINF()
    often = max(1, settings.horizon // 10)
    policies = {
        RV: rv,
        RESTARTED: bw.Restarted(rv, every=often),
        DISCOUNTED: bw.Discounted(rv, window=often),
        ALARMED: bw.Alarmed(rv, floor=FLOOR),
    }
    moving = env.Piecewise.gap(5, GAP, every=settings.horizon // 4, blocks=4)
    return [
        settings.cell(MOVING, moving, policies, gaps=None, covered=False),
        settings.cell(STILL, env.Stochastic.gap(5, GAP), policies, gaps=equal_gaps(5, GAP)),
        settings.cell(LEVELS, env.Switching(6, GAP), policies, gaps=equal_gaps(6, GAP)),
    ]


def score(outcome: Outcome) -> list[Claim]:
    """Judge the savings of following a moving arm, and the cost where nothing moves."""
    moving, still, levels = (cell_of(outcome, id) for id in (MOVING, STILL, LEVELS))
    return [
        statements.ours(
            "drift.followers-follow",
            "Where the best arm moves, restarts, discounts and alarms all have less regret "
            "than plain Tsallis-INF (RV)",
            "the case for the wrappers",
        ).by(compared, outcome, [moving], [(name, RV) for name in FOLLOWERS], 1.0),
        statements.ours(
            "drift.alarm-halves",
            "Where the best arm moves, the alarm has at most half the regret of Tsallis-INF (RV)",
            "the case for the alarm",
        ).by(compared, outcome, [moving], [(ALARMED, RV)], 0.5),
        statements.ours(
            "drift.restart-pays",
            "Where nothing moves, blind restarts at least double the regret",
            "the price of restarts",
        ).by(compared, outcome, [still], [(RESTARTED, RV)], 2.0, at_most=False),
        _silence(outcome, still),
        statements.ours(
            "drift.alarm-pays",
            "Where only the level of all losses jumps, the alarm at least doubles the regret",
            "where the alarm misleads",
        ).by(compared, outcome, [levels], [(ALARMED, RV)], 2.0, at_most=False),
    ]


def _silence(outcome: Outcome, still: Cell) -> Claim:
    """Claim that without changes an alarm costs no more than its floor."""
    gaps = still.gaps or ()
    price = FLOOR * still.horizon * sum(gaps) / len(gaps)
    added = verdicts.finals(outcome, still, ALARMED) - verdicts.finals(outcome, still, RV)
    return statements.ours(
        "drift.alarm-in-silence",
        "Where nothing moves, the alarm adds no more regret than its floor can cost",
        "the price of the alarm",
    ).by(
        verdicts.judged,
        outcome,
        [verdicts.Place(still.id, added / price, still.id)],
        1.0,
        threshold="at most floor times rounds times the mean gap",
        shown="{} of that",
    )


def figures(outcome: Outcome) -> Figures:
    """Draw regret against rounds in the three worlds."""
    return {"drift": linear_figure(outcome, [outcome.cells], TITLES)}


TITLE = "Drift: when the best arm moves"
SOURCE = "Ours, with the change test of Besson, Kaufmann, Maillard and Seznec (JMLR 2022)"
