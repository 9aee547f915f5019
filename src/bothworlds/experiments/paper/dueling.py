"""Section 6: dueling bandits, with utilities that stay or move and preferences without any.

Two arms duel every round, and the feedback is the winning side. Utilities are constant; or shift
(one arm always has 1, each half of the rest has 1 in every second of many short phases, else 0); or
take turns (two arms lead by 1/2, 1/2 and 1 in phases that triple); or fade (one arm leads by
sqrt(K/t)). In one cell there are no utilities, only a matrix with a winner. The article measures no
duels; these instances are ours, made to show growth like log T and like sqrt(K T), and rivals that
fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bothworlds import plotting
from bothworlds.experiments.algorithms import IW, RV, THOMPSON, UCB
from bothworlds.experiments.claims import rules, statements, verdicts
from bothworlds.experiments.model import Cell, Claim, Figures, Outcome, Settings, Table, scales
from bothworlds.experiments.report.figures import caption
from bothworlds.text import fraction

if TYPE_CHECKING:
    from bothworlds.environments.base import Environment

ONE, TWO = "Tsallis-INF, one state", "Tsallis-INF, two states"
STILL, MATRIX, SHIFTING, TURNING, FADING = "still", "matrix", "shifting", "turning", "fading"
CONSTANT = ((4, 1 / 2), (8, 1 / 4), (32, 1 / 4))
"""Arms and gap of the cells with constant utilities."""
FADING_ARMS = (2, 4, 8)


def condorcet() -> NDArray[np.float64]:
    """Return six arms: one wins against each with 0.6, the rest beat each other in circles.

    No utilities make this matrix: the arm that loses least to the winner may lose most to others.
    """
    P = np.full((6, 6), 0.5)
    wins = [(1, 2), (2, 3), (3, 1), (4, 1), (2, 4), (4, 3), (5, 1), (2, 5), (5, 3), (4, 5)]
    for i, j in wins:
        P[i, j], P[j, i] = 0.9, 0.1
    P[0, 1:], P[1:, 0] = 0.6, 0.4
    return P


def phase(horizon: int, factor: float) -> NDArray[np.int64]:
    """Return the number of the phase of every round; phase n begins at round ``factor ** n``."""
    t = np.arange(1, horizon + 1)
    return np.asarray(np.floor(np.log(t) / np.log(factor) + 1e-9), dtype=np.int64)


def shifting(horizon: int) -> NDArray[np.float64]:
    """One arm has utility 1; half of the other arms have 1 and half 0, and they swap often."""
    group = np.array([0, 0, 0, 0, 1, 1, 1])
    now = phase(horizon, 1.02) % 2
    others = (group[None, :] == now[:, None]).astype(np.float64)
    return np.concatenate([np.ones((horizon, 1)), others], axis=1)


def turning(horizon: int) -> NDArray[np.float64]:
    """Two arms take turns in leading, by 1/2, 1/2 and 1, in phases that triple."""
    utilities = np.array([[0.5, 0.0], [0.0, 0.5], [1.0, 0.0]])
    return utilities[phase(horizon, 3.0) % 3]


def fading(horizon: int, n_arms: int) -> NDArray[np.float64]:
    """One arm leads by sqrt(K / t): never long enough for anyone to be sure of it."""
    gap = np.minimum(1.0, np.sqrt(n_arms / np.arange(1, horizon + 1)))
    u = np.repeat(0.5 - 0.5 * gap[:, None], n_arms, axis=1)
    u[:, 0] += gap
    return u


def cells(settings: Settings) -> Iterator[Cell]:
    """Yield constant utilities, a matrix, and three ways in which utilities move."""
    from bothworlds.environments import Preferences, Utilities

    T = settings.horizon
    for k, gap in CONSTANT:
        utilities = Utilities([0.5 + gap / 2, *(k - 1) * (0.5 - gap / 2,)])
        gaps = (0.0, *(k - 1) * (gap,))
        yield _cell(settings, f"constant, K={k}", utilities, STILL, gap, gaps)
    yield _cell(settings, "no utilities, K=6", Preferences(condorcet()), MATRIX, 0.1)
    yield _cell(settings, "shifting, K=8", Utilities(shifting(T)), SHIFTING, 0.5)
    yield _cell(settings, "taking turns, K=2", Utilities(turning(T)), TURNING, 0.5)
    for k in FADING_ARMS:
        yield _cell(settings, f"fading lead, K={k}", Utilities(fading(T, k)), FADING, 0.5)


def _cell(
    settings: Settings,
    id: str,
    world: Environment,
    group: str,
    gap: float,
    gaps: tuple[float, ...] | None = None,
) -> Cell:
    import bothworlds as bw

    rounds = {int(t) for t in np.geomspace(1, settings.horizon, 120)}
    return settings.cell(
        id=id,
        environment=world,
        policies={
            ONE: bw.Sparring(bw.TsallisINF(), shared=True),
            TWO: bw.Sparring(bw.TsallisINF(), shared=False),
            THOMPSON: bw.Sparring(bw.ThompsonSampling()),
            UCB: bw.Sparring(bw.UCB1()),
        },
        checkpoints=tuple(sorted(rounds | set(settings.checkpoints))),
        gap=gap,
        gaps=gaps,
        # The corollary asks for utilities; those of the matrix do not exist.
        covered=group != MATRIX,
        group=group,
    )


def late(outcome: Outcome, *groups: str) -> list[Cell]:
    """Return the cells of these groups that are long enough for statements about growth."""
    return rules.settled(cell for cell in outcome.cells if cell.group in groups)


def score(outcome: Outcome) -> list[Claim]:
    """Judge Corollary 2, the claims of section 6 on UCB and Thompson sampling, and both forms."""
    return [
        statements.paper(
            "dueling.logarithmic",
            "With constant utilities the regret of sparring Tsallis-INF grows logarithmically",
            "Corollary 2, stochastic part",
        ).by(rules.logarithmic_claim, outcome, late(outcome, STILL), (ONE, TWO)),
        _root_claim(outcome),
        rules.bound_claim("dueling.bound", "Corollary 2", outcome),
        statements.paper(
            "dueling.ucb1-nearly-linear",
            "UCB1 is not suitable for sparring: nearly linear regret where the utilities shift",
            "Section 6, the paragraph on sparring; the instance is ours",
        ).by(rules.linear_claim, outcome, late(outcome, SHIFTING), UCB),
        _crest_claim(outcome),
        statements.ours(
            "dueling.shifting-logarithmic",
            "Tried, not proved: logarithmic regret of Tsallis-INF there",
            "extends Corollary 2 to moving utilities",
        ).by(rules.logarithmic_claim, outcome, late(outcome, SHIFTING), (ONE, TWO)),
        statements.ours(
            "dueling.beats-ucb1",
            "Sparring Tsallis-INF has less regret than sparring UCB1, except when arms take turns",
            "on instances of ours",
        ).by(
            rules.ratio_claim,
            outcome,
            late(outcome, STILL, MATRIX, SHIFTING, FADING),
            [(ONE, UCB), (TWO, UCB)],
            1.0,
        ),
        statements.ours(
            "dueling.one-state",
            "Tried, not proved: one state has less regret than two, except when arms take turns",
            "one state on both sides, which Corollary 2 allows",
        ).by(
            rules.ratio_claim,
            outcome,
            late(outcome, STILL, MATRIX, SHIFTING, FADING),
            [(ONE, TWO)],
            1.0,
        ),
    ]


def _root_claim(outcome: Outcome) -> Claim:
    """Claim that where the lead fades, regret grows like sqrt(K T) and no faster."""
    runs = [(cell, name) for cell in late(outcome, FADING) for name in (ONE, TWO)]
    places = [
        verdicts.Place(
            f"{name}, K={cell.n_arms}",
            abs(rules.growth(outcome, cell, name) - 0.5),
            rules.seen(cell),
        )
        for cell, name in runs
    ]
    per_root = [outcome.mean(c, name) / (c.n_arms * c.horizon) ** 0.5 for c, name in runs]
    note = f"; {min(per_root):.2f} to {max(per_root):.2f} times sqrt(K T)" if per_root else ""
    return statements.paper(
        "dueling.root",
        "Against changing utilities the regret of sparring Tsallis-INF grows like sqrt(K T)",
        "Corollary 2, adversarial part",
    ).by(
        verdicts.judged,
        outcome,
        places,
        rules.ROOT,
        shown="b off 1/2 by up to {}",
        reason=rules.NOT_SETTLED,
        note=note,
        threshold=f"regret is t^b with b within {rules.ROOT:g} of 1/2",
    )


def _crest_claim(outcome: Outcome) -> Claim:
    """Claim that the crests of Thompson sampling's regret grow as fast as t."""
    # One turn of both arms is three phases, a factor of 27.
    cells = [cell for cell in late(outcome, TURNING) if cell.horizon >= 27 * rules.WINDOW]
    places = [
        verdicts.Place(cell.id, rules.crests(outcome, cell, THOMPSON), rules.seen(cell))
        for cell in cells
    ]
    top = [outcome.results[c.id].regret[THOMPSON].mean(axis=0).max() / c.horizon for c in cells]
    return statements.paper(
        "dueling.thompson-nearly-linear",
        "Thompson sampling is not suitable for sparring: nearly linear regret where arms take "
        "turns",
        "Section 6, the paragraph on sparring; the instance is ours",
    ).by(
        verdicts.judged,
        outcome,
        places,
        rules.LINEAR,
        at_most=False,
        shown="b = {}",
        threshold=f"highest regret is t^b with b at least {rules.LINEAR:g}",
        reason="too short for a turn of both arms",
        note=f", up to {max(top):.2f} a round; an exponent above 1 is a transient" if top else "",
    )


_LOOKS = {
    ONE: replace(plotting.LOOKS[RV], label=ONE),
    TWO: replace(plotting.LOOKS[IW], label=TWO),
    THOMPSON: plotting.LOOKS[THOMPSON],
    UCB: plotting.LOOKS[UCB],
}
COLUMNS = 3


def figures(outcome: Outcome) -> Figures:
    """Draw every cell on logarithmic axes, with the corollary's bound."""
    rows = -(-len(outcome.cells) // COLUMNS)
    figure, axes = plotting.panels(rows, COLUMNS, 1.3 + 1.95 * rows)
    for place, panel in enumerate(axes.flat):
        panel.set_visible(place < len(outcome.cells))
        if place < len(outcome.cells):
            _draw(panel, outcome, outcome.cells[place])
            panel.set_xlabel("round t" if place >= len(outcome.cells) - COLUMNS else "")
            panel.set_ylabel("pseudo-regret" if place % COLUMNS == 0 else "")
    plotting.shared_legend(figure, 3)
    plotting.note(figure, f"All algorithms spar. {caption(outcome)}")
    return {"dueling": figure}


def _draw(panel: Any, outcome: Outcome, cell: Cell) -> None:
    result = outcome.results[cell.id]
    late = result.checkpoints >= min(100, cell.horizon // 10)
    rounds = result.checkpoints[late]
    tops = []
    for place, name in enumerate(cell.policies):
        runs = result.regret[name][:, late]
        plotting.draw_curve(panel, rounds, runs, _LOOKS[name], place=place)
        tops.append(runs.mean(axis=0))
    at = np.unique(np.rint(np.geomspace(rounds[0], cell.horizon, 24))).astype(np.int64)
    upper, theorem = rules.guarantees(cell, TWO, at)
    if upper.size:
        plotting.draw_bound(panel, at, upper, "upper", theorem)
        tops.append(upper)
    panel.set_title(cell.id + (f", gap {fraction(cell.gap)}" if cell.group == STILL else ""))
    plotting.shows(panel, cell.id)
    if cell.group == TURNING:
        ends = np.min([top.min() for top in tops]), np.max([top.max() for top in tops])
        plotting.symlog_axes(panel, float(rounds[0]), cell.horizon, *ends)
        return
    low = min(float(top[top > 0].min()) for top in tops)
    high = max(float(top.max()) for top in tops)
    plotting.log_axes(panel, float(rounds[0]), cell.horizon, 0.7 * low, 1.5 * high)


def tables(outcome: Outcome) -> list[Table]:
    """Return final regrets, one state next to two, and margins below the bounds."""
    return [rules.regret_table(outcome), _forms(outcome, outcome.cells), rules.bound_table(outcome)]


def _forms(outcome: Outcome, cells: Iterable[Cell]) -> Table:
    rows = []
    for cell in cells:
        found = outcome.results[cell.id].compare(ONE, TWO)
        rows.append(
            (
                cell.id,
                f"{outcome.mean(cell, ONE):,.0f}",
                f"{outcome.mean(cell, TWO):,.0f}",
                f"{found.difference:+,.0f} {found.interval(0)}",
            )
        )
    head = ("cell", "one state", "two states", "one minus two, 95 % interval")
    return Table("One state on both sides against two", head, tuple(rows))


TITLE = "Duels: which algorithms can spar"
SOURCE = "Section 6"
SCALES = scales((200_000, 32), (1_000_000, 320))
