"""Model of an experiment: cells to simulate, claims to judge and figures to draw, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bothworlds.environments.base import Environment
    from bothworlds.policies.base import Player
    from bothworlds.simulation.result import Result


@dataclass(frozen=True)
class Settings:
    """How large an experiment is.

    Parameters
    ----------
    scale : str
        "quick", "full", or "custom" if the user changed a number.
    horizon, repetitions : int
        Rounds per run, and runs.
    arms : tuple of int
        Numbers of arms; none where the experiment does not vary them.
    gaps : tuple of float
        Gaps between the best arm and the other arms; none where it does not vary them.
    points : tuple of float
        What else the experiment varies: powers alpha, budgets of corruption.
    with_kl_ucb : bool
        Whether KL-UCB is run too.
    """

    scale: str
    horizon: int
    repetitions: int
    arms: tuple[int, ...] = ()
    gaps: tuple[float, ...] = ()
    points: tuple[float, ...] = ()
    with_kl_ucb: bool = False

    def __str__(self) -> str:
        return f"{self.scale} scale: {self.horizon:,} rounds, {self.repetitions:,} repetitions"

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """The paper's rounds up to the horizon."""
        return paper_checkpoints(self.horizon)

    def cell(
        self,
        id: str,
        environment: Environment,
        policies: Mapping[str, Player],
        *,
        gaps: tuple[float, ...] | None = None,
        **about: Any,
    ) -> Cell:
        """Return a cell of this size; ``about`` has the other fields of `Cell`.

        The smallest positive gap is that of ``gaps`` by default.
        """
        known: dict[str, Any] = {
            "horizon": self.horizon,
            "repetitions": self.repetitions,
            "checkpoints": self.checkpoints,
            "n_arms": environment.n_arms,
            "gap": min((gap for gap in gaps or () if gap > 0.0), default=0.2),
        }
        return Cell(id, environment, policies, gaps=gaps, **{**known, **about})


@dataclass(frozen=True)
class Cell:
    """One environment and the policies that meet it.

    Parameters
    ----------
    id : str
        Unique in the experiment; also its name in files and tables.
    environment : Environment
        The regime.
    policies : mapping of str to Player
        Names, which seed the streams, to algorithms.
    horizon, repetitions : int
        Rounds per run, and runs.
    checkpoints : tuple of int
        Rounds at which regret is recorded.
    n_arms : int
        Number of arms.
    gap : float
        The smallest positive gap.
    gaps : tuple of float or None
        All gaps if they are fixed, for the bounds; None for an adversary.
    means : tuple of float or None
        Mean losses if they are fixed, for the lower bound and the bound of UCB1.
    corruption : float
        Budget of corruption.
    covered : bool
        Whether any theorem covers the regret measured here.
    point : float
        The value of what else is varied, see `Settings.points`.
    group : str
        The cells that share a panel.
    """

    id: str
    environment: Environment
    policies: Mapping[str, Player]
    horizon: int
    repetitions: int
    checkpoints: tuple[int, ...]
    n_arms: int
    gap: float
    gaps: tuple[float, ...] | None = None
    means: tuple[float, ...] | None = None
    corruption: float = 0.0
    covered: bool = True
    point: float = 0.0
    group: str = ""


Verdict = Literal["holds", "fails", "open", "differs"]
"""Possible verdicts on a claim, see `bothworlds.experiments.claims`; "differs" is a failure whose
cause is known and explained."""

Owner = Literal["paper", "authors", "ours"]
"""Owner of a claim: the paper, the authors of later work, or a conjecture or extension of this
project."""


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, of later work or of ours, next to its measurement.

    Parameters
    ----------
    id : str
        Stable, ``experiment.claim``.
    sentence : str
        What is claimed.
    measured : str
        What was found, with its interval.
    threshold : str
        What the measurement must satisfy.
    verdict : {"holds", "fails", "open", "differs"}
        Verdict by the rules of `bothworlds.experiments.claims`.
    owner : {"paper", "authors", "ours"}
        Whose claim it is.
    place : str
        Place in the paper or in the authors' article, or what the claim extends.
    figure : str
        The figure that shows it.
    panel : str
        What the panel shows where it was decided: a cell, or a cell and after a colon the
        algorithm; empty where no single panel does.
    why : str
        Why it does not hold, in one sentence; empty where it does.
    full : str
        What the full scale gave, where that was run.
    """

    id: str
    sentence: str
    measured: str
    threshold: str
    verdict: Verdict
    owner: Owner = "ours"
    place: str = ""
    figure: str = ""
    why: str = ""
    full: str = ""
    panel: str = ""

    @property
    def holds(self) -> bool | None:
        """Whether it holds; None where that is open."""
        return None if self.verdict == "open" else self.verdict == "holds"


@dataclass(frozen=True)
class Panel:
    """A panel of a figure.

    Parameters
    ----------
    shows : tuple of str
        What can be seen in it, by the words of `Claim.panel`.
    box : tuple of float
        Left, top, width and height, as shares of the figure's.
    """

    shows: tuple[str, ...]
    box: tuple[float, ...]


@dataclass(frozen=True)
class Table:
    """A table of the report."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, eq=False)
class Outcome:
    """All that was measured for an experiment.

    Parameters
    ----------
    settings : Settings
        How it was run.
    cells : tuple of Cell
        What was run.
    results : dict of str to Result
        By the cells' ids.
    """

    settings: Settings
    cells: tuple[Cell, ...]
    results: Mapping[str, Result]

    def final(self, cell: Cell, name: str, at: int | None = None) -> NDArray[np.float64]:
        """Return the regret of every run at a checkpoint, the last by default."""
        result = self.results[cell.id]
        column = -1 if at is None else int(np.flatnonzero(result.checkpoints == at)[0])
        return result.regret[name][:, column]

    def mean(self, cell: Cell, name: str, at: int | None = None) -> float:
        """Return the mean regret of a policy at a checkpoint, the last by default."""
        return float(self.final(cell, name, at).mean())


Figures = dict[str, "Figure"]
"""Figures by the names of their files."""


@dataclass(frozen=True)
class Experiment:
    """A figure or table of the paper, or a measurement of later work.

    Parameters
    ----------
    id : str
        Stable; what the command line takes.
    title : str
        One line.
    source : str
        Where it stands in the paper, or whose work it measures.
    summary : str
        What is run and why, for the report.
    scales : mapping of str to Settings
        "quick" and "full".
    cells : callable
        ``cells(settings)``: what to simulate.
    score : callable
        ``score(outcome)``: the claims.
    figures : callable
        ``figures(outcome)``: names to figures; called within `bothworlds.plotting.style`.
    tables : callable
        ``tables(outcome)``: tables of the report.
    """

    id: str
    title: str
    source: str
    summary: str
    scales: Mapping[str, Settings]
    cells: Callable[[Settings], list[Cell]]
    score: Callable[[Outcome], list[Claim]]
    figures: Callable[[Outcome], Figures]
    tables: Callable[[Outcome], list[Table]]


def scales(quick: tuple[int, int], full: tuple[int, int], **common: Any) -> dict[str, Settings]:
    """Return both scales by name: rounds and repetitions of each, and settings of both.

    Examples
    --------
    >>> scales((1000, 10), (10**6, 100), arms=(2, 8))["full"].horizon
    1000000
    """
    sizes = {"quick": quick, "full": full}
    return {name: Settings(name, *size, **common) for name, size in sizes.items()}


def equal_gaps(n_arms: int, gap: float) -> tuple[float, ...]:
    """Return the gaps of one best arm and others that are all alike.

    Examples
    --------
    >>> equal_gaps(3, 0.2)
    (0.0, 0.2, 0.2)
    """
    return (0.0, *(n_arms - 1) * (gap,))


def paper_checkpoints(horizon: int) -> tuple[int, ...]:
    """Return the paper's rounds: squares up to 10 000, then doubling, decades and the horizon.

    Examples
    --------
    >>> paper_checkpoints(40_000)[-5:]
    (9801, 10000, 16384, 32768, 40000)
    """
    squares = {i * i for i in range(1, 101)}
    doubling = {2**k for k in range(14, 63)}
    decades = {10**k for k in range(1, 18)}
    return tuple(sorted(c for c in squares | doubling | decades | {horizon} if c <= horizon))
