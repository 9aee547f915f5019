"""Heavy tails: HTINF and AdaTINF on losses without bounds, signed and positive.

Latencies and costs have no bound. Huang, Dai and Huang run Tsallis-INF at a rate scaled by the root
mean square of the losses and skip those that are too large on either side; AdaTINF finds the scale
by itself. HTINF here skips only losses far below 0, as large positive ones do no harm and tell bad
arms apart. One world has signed losses with Student noise, the other positive lognormal ones.
"""

from __future__ import annotations

from collections.abc import Iterable

from bothworlds.experiments.algorithms import ADA, HT
from bothworlds.experiments.beyond.worlds import compared
from bothworlds.experiments.claims import rules, statements, verdicts
from bothworlds.experiments.model import Cell, Claim, Figures, Outcome, Settings, equal_gaps
from bothworlds.experiments.report.figures import linear_figure

BOTH = f"{HT}, both sides"
"""HTINF as its authors have it: it skips losses that are too large on either side."""

SCALE = 3.5
"""Above the root mean square of every arm's losses, which is 3.4 and 3.1 at most."""

STUDENT, LOGNORMAL = "Student", "lognormal"
TITLES = {
    STUDENT: "Student noise, 2.2 degrees, K = 6",
    LOGNORMAL: "lognormal, means 1 / 1.5, K = 5",
}


def cells(settings: Settings) -> list[Cell]:
    """Return signed losses with Student noise, and positive lognormal ones."""
    import bothworlds as bw

    tailed = bw.environments.HeavyTailed
    policies = {
        HT: bw.HTINF(SCALE),
        BOTH: bw.HTINF(SCALE, skip="both"),
        ADA: bw.AdaTINF(settings.horizon),
    }
    signed = tailed([0.0, *5 * (0.5,)], noise="student", shape=2.2)
    positive = tailed([1.0, *4 * (1.5,)], noise="lognormal", shape=1.2)
    # Skipping on one side is proved for losses that are not negative.
    return [
        settings.cell(STUDENT, signed, policies, gaps=equal_gaps(6, 0.5), covered=False),
        settings.cell(LOGNORMAL, positive, policies, gaps=equal_gaps(5, 0.5)),
    ]


def score(outcome: Outcome) -> list[Claim]:
    """Judge growth with unbounded losses, and the savings of skipping on one side."""
    return [
        statements.authors(
            "heavy-tails.htinf-sublinear",
            "HTINF, given a scale of the losses, has sublinear regret although they have no bounds",
            f"{statements.HUANG}, HTINF; that sublinear means an exponent of 3/4 is our reading",
        ).by(_sublinear, outcome, [BOTH]),
        statements.authors(
            "heavy-tails.adatinf-sublinear",
            "AdaTINF, given no scale of the losses, has sublinear regret",
            f"{statements.HUANG}, AdaTINF; that sublinear means an exponent of 3/4 is our reading",
        ).by(_sublinear, outcome, [ADA]),
        statements.ours(
            "heavy-tails.below-beats-both",
            "Skipping only losses far below 0 leaves less regret than skipping on both sides",
            "a change to the authors' HTINF",
        ).by(compared, outcome, outcome.cells, [(HT, BOTH)], 1.0),
        statements.ours(
            "heavy-tails.price-of-not-knowing",
            "AdaTINF has at most twice the regret of the authors' HTINF, which knows a scale",
            "compares the authors' two",
        ).by(compared, outcome, outcome.cells, [(ADA, BOTH)], 2.0),
        rules.bound_claim(
            "heavy-tails.bound", "Theorem 1's proof with the second moment", outcome, owner="ours"
        ),
    ]


def _sublinear(statement: statements.Statement, outcome: Outcome, names: Iterable[str]) -> Claim:
    """Claim that regret grows clearly slower than t in every cell."""
    places = [
        verdicts.Place(f"{name}, {cell.id}", rules.growth(outcome, cell, name), cell.id)
        for cell in outcome.cells
        for name in names
    ]
    return verdicts.judged(
        statement,
        outcome,
        places,
        rules.LINEAR,
        shown="b up to {}",
        threshold=f"regret is t^b with b at most {rules.LINEAR:g}",
    )


def figures(outcome: Outcome) -> Figures:
    """Draw regret against rounds in both worlds."""
    return {"heavy-tails": linear_figure(outcome, [outcome.cells], TITLES)}


tables = rules.all_tables

TITLE = "Heavy tails: losses without bounds"
SOURCE = "Huang, Dai and Huang (ICML 2022); skipping on one side is ours"
