"""`bothworlds bounds`: the guarantees for a number of arms, a gap and a horizon."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from bothworlds.cli import parse
from bothworlds.cli.console import command, console, new_table
from bothworlds.cli.options import option
from bothworlds.errors import InvalidParameter
from bothworlds.text import bound

if TYPE_CHECKING:
    from rich.table import Table

ESTIMATORS = ("rv", "iw")


@command
def bounds(
    arms: Annotated[str, option("K")],
    horizon: Annotated[str, option("T")],
    gap: Annotated[str | None, option("GAP", False)] = None,
    corruption: Annotated[str | None, option("C", "none")] = None,
    estimator: Annotated[str | None, option("NAME", "both")] = None,
    alpha: Annotated[str | None, option("ALPHA", False)] = None,
) -> None:
    """Print the regret bounds of the theorems, and the lower bound for every algorithm.

    Example: bothworlds bounds --arms 8 --gap 0.125 --horizon 1e7

    Parameters
    ----------
    arms : str
        Number of arms.
    horizon : str
        Number of rounds.
    gap : str, optional
        How much more the other arms lose per round: one number for all of them, or K - 1 separated
        by commas. Without it, only bounds against any adversary are printed.
    corruption : str, optional
        How much an adversary may change losses in total.
    estimator : str, optional
        Loss estimates of Tsallis-INF: rv or iw.
    alpha : str, optional
        Also show Theorems 3 and 4 for this power of the Tsallis entropy, in [0, 1].
    """
    K = parse.count(arms, "--arms", least=2)
    T = parse.number(horizon, "--horizon")
    gaps = None if gap is None else _gaps(gap, K)
    C = None if corruption is None else parse.number(corruption, "--corruption")
    if C is not None and gaps is None:
        raise InvalidParameter("The option --corruption needs the gaps, --gap.")
    shown = list(ESTIMATORS)
    if estimator is not None:
        shown = [parse.choose("estimator", estimator, ESTIMATORS)]
    power = None if alpha is None else parse.number(alpha, "--alpha")
    screen = console()
    screen.print(bounds_table(K, T, gaps, C, shown, power))
    screen.print(
        "In brackets: more than the worst arm can lose, so the bound promises nothing yet."
    )


def _gaps(text: str, K: int) -> list[float]:
    """Return the gap of every arm, the best one first."""
    given = [parse.number(word, "--gap") for word in parse.listed(text, "--gap")]
    if len(given) == 1:
        given *= K - 1
    if len(given) != K - 1 or not all(0.0 < value <= 1.0 for value in given):
        expected = f"one number in (0, 1] or {K - 1} of them"
        raise parse.wrong("--gap", expected, text)
    return [0.0, *given]


@dataclass(frozen=True)
class Row:
    """One bound: its source, the algorithm and losses it covers, and the regret."""

    source: str
    algorithm: str
    losses: str
    value: float
    trivial: float = math.inf
    """Regret of always playing the worst arm; an upper bound beyond it promises nothing."""


def upper_bounds(
    K: int, T: float, gaps: Sequence[float] | None, corruption: float | None, estimator: Any
) -> Iterator[Row]:
    """Yield the paper's bounds for Tsallis-INF with one of its estimators."""
    from bothworlds.theory import bounds as theory

    name, sparring = f"Tsallis-INF ({estimator.upper()})", f"sparring ({estimator.upper()})"
    yield Row("Theorem 1", name, "any adversary", theory.adversarial(K, T, estimator), T)
    value = theory.dueling_adversarial(K, T, estimator)
    yield Row("Corollary 2", sparring, "any utilities", value, 2 * T)
    if gaps is None:
        return
    worst = T * max(gaps)
    value = theory.self_bounding(gaps, T, estimator=estimator)
    yield Row("Theorem 1", name, "fixed gaps", value, worst)
    if corruption is not None:
        value = theory.corrupted(gaps, T, corruption, estimator)
        yield Row("Corollary 1", name, f"corrupted by {corruption:g}", value, T)
    value = theory.dueling_stochastic(gaps, T, estimator)
    yield Row("Corollary 2", sparring, "fixed utilities", value, 2 * worst)


def general_bounds(K: int, T: float, gaps: Sequence[float] | None, alpha: float) -> Iterator[Row]:
    """Yield the paper's bounds for any power of the Tsallis entropy."""
    from bothworlds.theory import bounds as theory

    name = f"alpha = {alpha:g} (IW)"
    yield Row("Theorem 3", name, "any adversary", theory.general_adversarial(alpha, K, T), T)
    if gaps is not None:
        value = theory.general_stochastic(alpha, gaps, T)
        yield Row("Theorem 4", f"{name}, gaps known", "fixed gaps", value, T * max(gaps))


def rival_bounds(K: int, T: float, gaps: Sequence[float] | None) -> Iterator[Row]:
    """Yield the known bounds of the competitors."""
    from bothworlds.theory import bounds as theory

    yield Row("Bubeck 2012", "EXP3", "any adversary", theory.exp3(K, T), T)
    if gaps is not None:
        value = theory.ucb1(gaps, T)
        yield Row("Bubeck 2012", "UCB1", "fixed means", value, T * max(gaps))


def lower_bounds(K: int, T: float, gaps: Sequence[float] | None) -> Iterator[Row]:
    """Yield the lower bounds for all algorithms."""
    from bothworlds.theory import bounds as theory

    yield Row("minimax", "every algorithm", "the worst adversary", theory.minimax(K, T))
    if gaps is not None:
        best = 0.5 * (1.0 - max(gaps))
        value = theory.lai_robbins([best + gap for gap in gaps], T)
        yield Row("Lai, Robbins", "consistent ones", "fixed means, T to infinity", value)


def bounds_table(
    K: int,
    T: float,
    gaps: Sequence[float] | None,
    corruption: float | None,
    estimators: Sequence[str],
    alpha: float | None,
) -> Table:
    """Return the bounds that apply, upper ones first, as a table of at most 80 columns."""
    title = f"Regret in {T:,.0f} rounds with {K} arms"
    title += "" if gaps is None else f", gap {_range(gaps)}"
    table = new_table(title, ["result", "algorithm", "losses"], ["regret"])
    groups = [
        ("at most", upper_bounds(K, T, gaps, corruption, estimator)) for estimator in estimators
    ]
    if alpha is not None:
        groups.append(("at most", general_bounds(K, T, gaps, alpha)))
    groups.append(("at most", rival_bounds(K, T, gaps)))
    groups.append(("at least", lower_bounds(K, T, gaps)))
    for sense, rows in groups:
        for row in rows:
            value = f"{sense} {bound(row.value)}"
            shown = value if row.value <= row.trivial else f"({value})"
            table.add_row(row.source, row.algorithm, row.losses, shown)
        table.add_section()
    return table


def _range(gaps: Sequence[float]) -> str:
    low, high = min(gaps[1:]), max(gaps[1:])
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"
