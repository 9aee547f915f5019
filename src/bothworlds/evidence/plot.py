"""Pictures of evidence: arms with their intervals, sequences over time, gaps, and plans."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bothworlds.evidence.sums import Evidence
from bothworlds.plotting import LOOKS, Look, panels, shared_legend, style
from bothworlds.plotting.draw import finished, log_rounds
from bothworlds.text import clipped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bothworlds.evidence.report import Report

Array = NDArray[np.float64]

DRAWN_ARMS = 6
"""Arms drawn over time; of more, those with the most answers."""
LISTED = 40
"""Arms listed by name; of more, those with the most answers."""

NAME = 16
"""Letters of an arm's name that fit next to an axis."""

LEVEL = 0.95
"""Confidence at which the history of sequences is kept."""

GREY = "#5A5A5A"

# Kept at every checkpoint, in this order.
PROBABILITY, TOLD, MEAN, ERROR, LOW, UP = range(6)


def arm_looks(names: Sequence[object]) -> list[Look]:
    """Return a look for every arm, told apart by line and marker as well."""
    known = [look for look in LOOKS.values() if look.label != "Uniform"]
    return [
        Look(str(name), look.colour, look.line, look.marker)
        for name, look in zip(names, (known * (len(names) // len(known) + 1)), strict=False)
    ]


def plot_experts(
    experts: Sequence[Any],
    history: Array,
    confidence: float,
    word: str,
    path: str | os.PathLike[str] | None = None,
) -> Figure:
    """Draw experts: means with intervals, and weights over the rows of ``history``, if any."""
    names = [each.name for each in experts]
    with style():
        columns = 2 if len(history) else 1
        height = max(2.6, 1.2 + 0.2 * len(names))
        figure, grid = panels(1, columns, height, width=4.6 * columns)
        means = grid[0, 0]
        for place, (look, each) in enumerate(zip(arm_looks(names), experts, strict=True)):
            for ends, width in ((each.sequence, 1.0), (each.interval, 3.2)):
                if ends is not None:
                    means.plot(ends, [place, place], color=look.colour, linewidth=width)
            if each.mean is not None:
                means.plot([each.mean], [place], "o", color=look.colour, markeredgecolor="white")
            if len(history):
                label = clipped(look.label, NAME)
                grid[0, 1].plot(history[:, place], color=look.colour, label=label)
        means.set_yticks(range(len(names)), [clipped(str(name), NAME) for name in names])
        means.set_ylim(len(names) - 0.4, -0.6)
        means.set_xlabel(f"mean {word}")
        if len(history):
            grid[0, 1].set(xlabel="decision", ylabel="weight", ylim=(0.0, 1.0))
            shared_legend(figure, DRAWN_ARMS)
        return finished(figure, path, _widths(experts, confidence))


def plot_report(
    report: Report, evidence: Evidence, path: str | os.PathLike[str] | None = None
) -> Figure:
    """Draw the arms, their sequences over time, and the gap between the two best."""
    listed = _busiest(report, LISTED)
    with style():
        height = max(2.6, 1.2 + 0.2 * len(listed))
        figure, grid = panels(1, 3, height, width=9.6)
        _forest(grid[0, 0], report, listed)
        shown = _busiest(report, DRAWN_ARMS)
        _sequences(grid[0, 1], report, evidence, shown)
        _gap(grid[0, 2], report, evidence)
        shared_legend(figure, DRAWN_ARMS)
        over_time = f"; over time at {100 * LEVEL:g} %" if report.confidence != LEVEL else ""
        widths = _widths(report.values(), report.confidence)
        return finished(figure, path, f"{report.source}; {widths}{over_time}")


def _widths(rows: Iterable[Any], confidence: float) -> str:
    """Explain the thick lines, where any row has an interval, and the thin ones."""
    percent = f"{100 * confidence:g} %"
    thin = f"thin: {percent} sequence, valid at any time"
    if all(row.interval is None for row in rows):
        return thin
    return f"thick: {percent} interval at a fixed time; {thin}"


def _best_first(report: Report) -> list[int]:
    """Return the places of the arms that have a mean, the best first."""
    means = [(each.mean, n) for n, each in enumerate(report.values()) if each.mean is not None]
    return [n for _, n in sorted(means, key=lambda item: item[0], reverse=report.units.rewards)]


def _busiest(report: Report, most: int) -> list[int]:
    """Return the places of the arms with the most answers, in the report's order."""
    told = [each.told for each in report.values()]
    first = sorted(range(len(told)), key=lambda n: -told[n])[:most]
    return sorted(first)


def _forest(axes: Any, report: Report, places: list[int]) -> None:
    arms = list(report.values())
    heights = np.arange(len(places))[::-1]
    for y, place in zip(heights, places, strict=True):
        each = arms[place]
        if each.sequence is not None:
            axes.plot(each.sequence, [y, y], color=GREY, linewidth=1.0, marker="|", markersize=6)
        if each.interval is not None:
            axes.plot(each.interval, [y, y], color="#0072B2", linewidth=3.2, alpha=0.75)
        if each.mean is not None:
            axes.plot([each.mean], [y], "o", color="black", markersize=4)
    axes.set_yticks(heights, [clipped(str(arms[place].arm), NAME) for place in places])
    axes.set_ylim(-0.6, len(places) - 0.4)
    axes.set_xlabel(f"mean {report.units.word}")
    axes.grid(axis="y", visible=False)
    axes.set_title("every arm")


def _over_time(report: Report, evidence: Evidence) -> tuple[Array, Array, Array]:
    """Return the checkpoints' rounds and, per arm, both ends of the sequences, as losses."""
    rounds, kept = evidence.history()
    return rounds, kept[:, :, LOW], kept[:, :, UP]


def _sequences(axes: Any, report: Report, evidence: Evidence, places: list[int]) -> None:
    rounds, low, up = _over_time(report, evidence)
    names, best = list(report), _best_first(report)[:2]
    for place, look in zip(places, arm_looks([names[p] for p in places]), strict=True):
        ends = np.array(
            [report.units.pair((a, b)) for a, b in zip(low[:, place], up[:, place], strict=True)]
        ).reshape(-1, 2)
        style_of: dict[str, Any] = {
            "color": look.colour, "linestyle": look.line, "linewidth": 1.2, "marker": look.marker,
            "markevery": max(1, rounds.size // 5), "markerfacecolor": "white", "markersize": 3.6,
        }  # fmt: skip
        if place in best:  # more areas over each other are fog
            axes.fill_between(rounds, ends[:, 0], ends[:, 1], color=look.colour, alpha=0.1, lw=0)
        axes.plot(rounds, ends[:, 0], label=look.label, **style_of)
        axes.plot(rounds, ends[:, 1], **style_of)
    _round_axis(axes, rounds)
    axes.set_title("where each mean is")
    axes.set_ylabel(f"mean {report.units.word}")


def _round_axis(axes: Any, rounds: Array) -> None:
    first, last = (rounds[0], rounds[-1]) if rounds.size else (1.0, 10.0)
    log_rounds(axes, max(1.0, first), max(last, 2.0, 2.0 * first))
    axes.set_xlabel("round t")


def _gap(axes: Any, report: Report, evidence: Evidence) -> None:
    rounds, low, up = _over_time(report, evidence)
    best = _best_first(report)
    axes.axhline(0.0, color="black", linewidth=0.9)
    _round_axis(axes, rounds)
    axes.set_title("gap of the two best")
    if len(best) < 2:
        return
    a, b, *_ = best
    ours = [report.units.difference(x) for x in low[:, b] - up[:, a]]
    most = [report.units.difference(x) for x in up[:, b] - low[:, a]]
    axes.fill_between(rounds, ours, most, color="#0072B2", alpha=0.12, lw=0)
    axes.plot(rounds, ours, color="#0072B2", linewidth=1.8)
    axes.plot(rounds, most, color="#0072B2", linewidth=0.9, linestyle=(0, (4, 2)))
    names = [clipped(str(name), NAME - 3) for name in report]
    axes.set_title(f"{names[a]} better than {names[b]}")
    axes.set_ylabel("by at least, at most")


def plot_bandit(
    report: Report, evidence: Evidence, title: str, path: str | os.PathLike[str] | None = None
) -> Figure:
    """Draw a bandit's probabilities over time, means with intervals, and counts."""
    listed = _busiest(report, LISTED)
    shown = _busiest(report, DRAWN_ARMS)
    names = list(report)
    rounds, kept = evidence.history()
    with style():
        height = max(2.6, 1.2 + 0.2 * len(listed))
        figure, grid = panels(1, 3, height, width=9.6)
        axes = grid[0, 0]
        for place, look in zip(shown, arm_looks([names[p] for p in shown]), strict=True):
            axes.plot(
                rounds, kept[:, place, PROBABILITY], color=look.colour, linestyle=look.line,
                linewidth=1.5, marker=look.marker, markevery=max(1, rounds.size // 6),
                markerfacecolor="white", label=look.label,
            )  # fmt: skip
        _round_axis(axes, rounds)
        axes.set_ylim(-0.02, 1.02)
        axes.set_title("probability when drawn")
        _forest(grid[0, 1], report, listed)
        grid[0, 1].set_title("mean")
        axes = grid[0, 2]
        heights = np.arange(len(listed))[::-1]
        arms = [report[names[place]] for place in listed]
        drawn = [each.decisions for each in arms]
        axes.barh(heights, drawn, color="white", edgecolor=GREY, height=0.62, label="decisions")
        told = [each.told for each in arms]
        axes.barh(heights, told, color="#56B4E9", height=0.4, label="feedback")
        axes.set_yticks(heights, [clipped(str(each.arm), NAME) for each in arms])
        axes.set_ylim(-0.6, len(listed) - 0.4)
        axes.grid(axis="y", visible=False)
        axes.locator_params(axis="x", nbins=4)
        axes.set_xlabel("decisions")
        axes.set_title("counts")
        shared_legend(figure, DRAWN_ARMS + 2)
        return finished(figure, path, f"{title}; {_widths(report.values(), report.confidence)}")


def plot_plan(plan: Any, path: str | os.PathLike[str] | None = None) -> Figure:
    """Draw the share of runs that are certain, and the regret, over the rounds."""
    with style():
        figure, grid = panels(1, 2, 2.6)
        left, right = grid[0]
        left.plot(plan.checkpoints, plan.certain(), color="#0072B2", linewidth=1.8)
        left.set_ylim(0.0, 1.02)
        left.set_title("share of runs that are certain")
        mean = plan.regret.mean(axis=0)
        right.plot(plan.checkpoints, mean, color="#D55E00", linewidth=1.8)
        right.set_title("mean regret so far")
        for axes in (left, right):
            _round_axis(axes, plan.checkpoints.astype(np.float64))
            axes.set_xlim(10, plan.checkpoints[-1])
        runs = plan.rounds.size
        told = (
            f"gap {plan.gap:g}, confidence {100 * plan.confidence:g} %, {plan.policy!r}, "
            f"{runs} runs"
        )
        return finished(figure, path, told)
