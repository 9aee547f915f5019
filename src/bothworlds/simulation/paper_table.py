"""Table for a paper: mean regret of every policy in every result, with intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from bothworlds.errors import invalid
from bothworlds.simulation import intervals, tables
from bothworlds.simulation.result import Result
from bothworlds.text import grouped

BOLD = ("not told apart", "best", "none")
"""Choices for bold entries in a column."""


@dataclass(frozen=True)
class _Cell:
    """Mean regret with its interval."""

    mean: float
    low: float
    high: float
    bold: bool

    @property
    def withheld(self) -> bool:
        return not math.isfinite(self.high - self.low)


def table(
    results: Mapping[str, Result],
    form: Literal["latex", "markdown", "csv"] = "latex",
    *,
    bold: Literal["not told apart", "best", "none"] = "not told apart",
    at: int | None = None,
    level: float = 0.95,
    resamples: int = 10_000,
    regret: str = "pseudo",
) -> str:
    r"""Return a table for a paper: a row for every policy, a column for every result.

    A cell is the mean regret with its interval; where a few runs carry the mean, a dagger stands
    instead of the interval, see `bothworlds.simulation.intervals`.

    Parameters
    ----------
    results : mapping of str to Result
        Results by the heads of their columns.
    form : {"latex", "markdown", "csv"}
        LaTeX for the package booktabs, Markdown, or numbers between commas.
    bold : {"not told apart", "best", "none"}
        What is bold in a column: the least mean and those that `Result.ranking` does not tell
        apart from it, the least alone, or nothing.
    at : int, optional
        A checkpoint that all results have; the last of each by default.
    level : float
        Confidence of each interval, and of the ranking.
    resamples : int
        Bootstrap samples.
    regret : str
        Which regret, as in `Result.summary`.

    Examples
    --------
    >>> import bothworlds as bw
    >>> world = bw.environments.Stochastic.gap(n_arms=2, gap=0.25)
    >>> both = {"RV": bw.TsallisINF(), "random": bw.Uniform()}
    >>> result = bw.simulate(both, world, horizon=1000, repetitions=64, seed=1)
    >>> print(table({"gap 1/4": result}, "markdown"))
    | policy | gap 1/4 |
    |---|--:|
    | RV | **12.5** [11.0, 14.1] |
    | random | 125.6 [124.6, 126.6] |
    """
    if not isinstance(results, Mapping) or not results:
        raise invalid("results", "table", "a dict of names to results", results)
    if bold not in BOLD:
        expected = "one of " + ", ".join(f'"{word}"' for word in BOLD)
        raise invalid("bold", "table", expected, bold)
    columns = {
        head: _column(result, bold, at, level, resamples, regret)
        for head, result in results.items()
    }
    names = list(dict.fromkeys(name for column in columns.values() for name in column))
    if form == "csv":
        head = ["policy", "result", "mean", "low", "high", "bold"]
        rows = [
            [name, title, cell.mean, cell.low, cell.high, int(cell.bold)]
            for title, column in columns.items()
            for name, cell in column.items()
        ]
        return tables.comma_separated(head, rows)
    missing = any(cell.withheld for column in columns.values() for cell in column.values())
    about = f"{level * 100:g} % intervals." + (
        " A dagger: a few runs carry the mean, no interval." if missing else ""
    )
    if form == "latex":
        return tables.booktabs(
            ["policy", *map(tables.escaped, columns)],
            [
                [tables.escaped(name), *(_latex(column.get(name)) for column in columns.values())]
                for name in names
            ],
            [tables.escaped(about).replace("A dagger", r"$\dagger$")],
        )
    if form == "markdown":
        return tables.markdown(
            ["policy", *columns],
            [
                [name, *(_markdown(column.get(name)) for column in columns.values())]
                for name in names
            ],
        )
    raise invalid("form", "table", '"latex", "markdown" or "csv"', form)


def _column(
    result: Result, bold: str, at: int | None, level: float, resamples: int, regret: str
) -> dict[str, _Cell]:
    """Return the cells of one result by policy."""
    summary = result.summary(at, regret).rows
    best = min(summary, key=lambda name: summary[name]["mean"])
    dark = set() if bold == "none" else {best}
    if bold == "not told apart" and len(summary) > 1:
        pairs = result.ranking(at, level, resamples, regret).pairs
        dark |= {pair.first for pair in pairs if pair.second == best and not pair.apart}
    found = {}
    for name in summary:
        runs = result.at(at, regret)[name]
        mean, low, high, _ = intervals.means(runs[:, None], level, resamples, result.seed)
        found[name] = _Cell(float(mean[0]), float(low[0]), float(high[0]), name in dark)
    return found


def _latex(cell: _Cell | None) -> str:
    if cell is None:
        return "--"
    mean, low, high = (tables.signed(grouped(x)) for x in (cell.mean, cell.low, cell.high))
    shown = rf"\textbf{{{mean}}}" if cell.bold else mean
    if cell.withheld:
        return rf"{shown}$^\dagger$"
    return rf"{shown} {{\footnotesize [{low}, {high}]}}"


def _markdown(cell: _Cell | None) -> str:
    if cell is None:
        return "-"
    shown = f"**{grouped(cell.mean)}**" if cell.bold else grouped(cell.mean)
    return f"{shown} †" if cell.withheld else f"{shown} [{grouped(cell.low)}, {grouped(cell.high)}]"
