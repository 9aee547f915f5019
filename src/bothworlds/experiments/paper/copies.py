"""Figure 5: several best arms, which the theorems for gaps do not cover.

One arm with mean loss (1 + gap)/2, all others (1 - gap)/2. The paper's logarithmic bounds ask for a
unique best arm, and it conjectures that its analysis alone needs this. Ito (COLT 2021) proved it,
and Jin, Liu and Luo (NeurIPS 2023) for more regularisers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bothworlds import plotting
from bothworlds.experiments.algorithms import IW, RV, lineup
from bothworlds.experiments.claims import published, rules, statements, verdicts
from bothworlds.experiments.model import Cell, Claim, Figures, Outcome, Settings, Table, scales
from bothworlds.experiments.report.figures import HOLLOW, caption
from bothworlds.plotting import LINEAR_END, LOOKS, Look
from bothworlds.text import fraction

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bothworlds.simulation.result import Result


def cells(settings: Settings) -> Iterator[Cell]:
    """Yield one bad arm next to 1, 2, ... copies of the best."""
    import bothworlds as bw

    for gap in settings.gaps:
        for k in settings.arms:
            means = (*(k - 1) * ((1 - gap) / 2,), (1 + gap) / 2)
            yield settings.cell(
                id=f"K={k}, gap={fraction(gap)}",
                environment=bw.environments.Stochastic(means),
                policies=lineup(settings.horizon, (RV, IW)),
                gaps=(*(k - 1) * (0.0,), gap),
                means=means,
                group=fraction(gap),
            )


def known(outcome: Outcome) -> list[Cell]:
    """Return the cells whose curves were published."""
    return [c for c in outcome.cells if c.gap == published.GAP and c.n_arms in published.COPIES]


def score(outcome: Outcome) -> list[Claim]:
    """Judge the claims of section 8.1 about Figure 5."""
    return [
        statements.ours(
            "copies.rv-decreasing",
            f"More copies of the best arm mean less regret of {RV}",
            "extends Section 8.1 to reduced-variance estimates",
        ).by(_decreasing, outcome, RV),
        statements.paper(
            "copies.iw-decreasing",
            f"More copies of the best arm mean less regret of {IW}",
            "Section 8.1, sixth sentence",
        ).by(_decreasing, outcome, IW),
        statements.paper(
            "copies.logarithmic",
            "With several best arms, too, the regret of Tsallis-INF grows logarithmically",
            "Section 8.1, the conjecture at its end; proved by Ito (COLT 2021)",
        ).by(rules.logarithmic_claim, outcome, rules.settled(outcome.cells), (RV, IW)),
        rules.bound_claim("copies.bound", "Theorem 1, adversarial part", outcome),
        statements.paper(
            "copies.published",
            "The published curves, gap 1/8, are reproduced by Tsallis-INF (IW)",
            f"{statements.AISTATS}, appendix, Figure 2",
        ).by(
            published.published_claim,
            outcome,
            [(cell, IW, published.COPIES[cell.n_arms]) for cell in known(outcome)],
        ),
    ]


def _decreasing(statement: statements.Statement, outcome: Outcome, name: str) -> Claim:
    """Claim that every further copy of the best arm lowers the regret."""
    places = []
    for gap in {cell.gap for cell in outcome.cells}:
        row = sorted((c for c in outcome.cells if c.gap == gap), key=lambda c: c.n_arms)
        for fewer, more in itertools.pairwise(row):
            change = rules.ratio(
                verdicts.finals(outcome, more, name), verdicts.finals(outcome, fewer, name)
            )
            places.append(
                verdicts.Place(
                    f"{rules.where(more)} / K={fewer.n_arms}", change, rules.seen(more, name)
                )
            )
    return verdicts.judged(
        statement, outcome, places, 1.0, threshold="ratio below 1", reason="only one number of arms"
    )


def figures(outcome: Outcome) -> Figures:
    """Draw Figure 5: a row for each form of Tsallis-INF, for each gap."""
    return {
        f"copies{'' if len(outcome.settings.gaps) == 1 else '-' + gap.replace('/', '_')}": _figure(
            outcome, [cell for cell in outcome.cells if cell.group == gap]
        )
        for gap in dict.fromkeys(cell.group for cell in outcome.cells)
    }


End = tuple[float, str, str]


def _figure(outcome: Outcome, row: list[Cell]) -> Figure:
    horizon = row[0].horizon
    late = horizon > 1.5 * LINEAR_END
    last = min(horizon, LINEAR_END)
    figure, axes = plotting.panels(2, 2 if late else 1, 5.2, sharey="col")
    ends: dict[Any, list[End]] = {panel: [] for panel in axes.flat}
    lows, highs = [], []
    for i, name in enumerate((RV, IW)):
        for place, cell in enumerate(row):
            result = outcome.results[cell.id]
            look = _look(name, place, len(row), cell.n_arms)
            ends[axes[i, 0]].append(_draw(axes[i, 0], result, name, look, 1, last))
            if late:
                end = _draw(axes[i, 1], result, name, look, LINEAR_END, horizon)
                ends[axes[i, 1]].append(end)
                low, high = plotting.log_limits(result, LINEAR_END)
                lows.append(low)
                highs.append(high)
            numbers = published.COPIES.get(cell.n_arms, {})
            if name == IW and cell.gap == published.GAP:
                for panel, first, final in (
                    (axes[i, 0], 1, last),
                    (axes[i, -1], LINEAR_END, horizon),
                ):
                    inside = {t: value for t, value in numbers.items() if first <= t <= final}
                    if late or panel is axes[i, 0]:
                        plotting.draw_points(panel, list(inside), list(inside.values()), look)
        for panel in axes[i]:
            panel.set_title(f"{name}, gap {row[0].group}")
        plotting.shows(axes[i, -1], *(rules.seen(cell, name) for cell in row))
        axes[i, 0].set_ylabel("pseudo-regret")
    tops = [end[0] for panel in axes[:, 0] for end in ends[panel]]
    for panel in axes[:, 0]:
        plotting.linear_axes(panel, last, tops)
    axes[1, 0].set_xlabel(plotting.rounds_label(last))
    if late:
        for panel in axes[:, 1]:
            plotting.log_axes(panel, LINEAR_END, horizon, min(lows), max(highs))
        axes[1, 1].set_xlabel("round t")
    for panel, labels in ends.items():
        plotting.end_labels(panel, labels)
    plotting.note(figure, caption(outcome, f"K - 1 best arms and 1 worse; {HOLLOW}"))
    return figure


_LINES = ("-", (0, (5, 1.5)), (0, (6, 1.5, 1.2, 1.5)), (0, (1.2, 1.2)), (0, (9, 2)), (0, (3, 1)))
_MARKERS = "osD^vP"


def _look(name: str, place: int, count: int, n_arms: int) -> Look:
    """Return a shade of the algorithm's colour; line and marker tell the number of arms."""
    text = plotting.shade(LOOKS[name].colour, 0.5 + 0.5 * place / max(1, count - 1))
    kind = place % len(_LINES)
    return Look(f"K = {n_arms}", text, _LINES[kind], _MARKERS[kind], 1.6)


def _draw(panel: Any, result: Result, name: str, look: Look, first: int, last: int) -> End:
    inside = (result.checkpoints >= first) & (result.checkpoints <= last)
    runs = result.regret[name][:, inside]
    plotting.draw_curve(panel, result.checkpoints[inside], runs, look, band="se")
    return float(runs[:, -1].mean()), look.label, look.colour


def tables(outcome: Outcome) -> list[Table]:
    """Return published values next to ours, final regrets and margins below the bounds."""
    rows = [(cell, IW, published.COPIES[cell.n_arms]) for cell in known(outcome)]
    compared = published.published_table(outcome, rows, "Published and measured, gap 1/8")
    return [compared, *rules.all_tables(outcome)]


TITLE = "Several best arms: is a unique best arm needed?"
SOURCE = "Figure 5"
SCALES = scales((100_000, 320), (10_000_000, 1000), arms=(2, 4, 8, 16), gaps=(1 / 8,))
