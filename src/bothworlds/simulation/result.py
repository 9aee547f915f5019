"""Result of a simulation: regret per repetition, and everything needed to find it again."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bothworlds.errors import MissingExtra, invalid
from bothworlds.files import pyarrow as arrow_package
from bothworlds.files import saving
from bothworlds.simulation import result_file, tables
from bothworlds.simulation.comparison import Comparison as Comparison
from bothworlds.simulation.measures import MEASURES, title
from bothworlds.simulation.ranking import Ranking, paired, ranked
from bothworlds.text import narrow

if TYPE_CHECKING:
    import matplotlib.figure
    import pyarrow

_FOREIGN = frozenset(
    {".json", ".jsonl", ".feather", ".arrow", ".xlsx", ".xls", ".npy", ".npz", ".txt", ".tsv"}
    | {".pickle", ".pkl", ".h5", ".hdf5", ".png", ".pdf", ".svg", ".html", ".md", ".tex"}
)
"""Endings that promise another format."""

TRIM = 0.05
"""Share of the repetitions a trimmed mean leaves out at each end."""


def trimmed_mean(values: NDArray[np.float64], share: float = TRIM) -> NDArray[np.float64]:
    """Return the mean over axis 0 without the smallest and largest ``share`` of the values.

    Regret is heavy-tailed: a few runs in a thousand carry much of the plain mean's variance.

    Examples
    --------
    >>> float(trimmed_mean(np.array([0.0, 1.0, 2.0, 99.0]), share=0.25))
    1.5
    """
    ordered = np.sort(values, axis=0)
    cut = int(share * len(ordered))
    return np.asarray(ordered[cut : len(ordered) - cut].mean(axis=0))


@dataclass(frozen=True)
class Summary:
    """Statistics of the regret at one round, one row per policy; prints as a table.

    Parameters
    ----------
    round : int
        The checkpoint.
    rows : dict
        Name of the policy to a dict of statistics.
    regret : str
        Which regret: "pseudo", "realised", "block" or "fixed".
    """

    round: int
    rows: dict[str, dict[str, float]]
    regret: str = "pseudo"

    def __str__(self) -> str:
        heads = ("mean", "trimmed", "sd", "5 %", "median", "95 %")
        width = min(26, max(len(name) for name in self.rows))
        lines = [
            f"{title(self.regret)} at round {self.round:,}",
            f"{'':{width}}  runs" + "".join(f"{head:>8}" for head in heads),
        ]
        for name, row in self.rows.items():
            shown = name if len(name) <= width else name[: width - 1] + "…"
            cells = "".join(f"{narrow(row[head]):>8}" for head in heads)
            lines.append(f"{shown:{width}} {int(row['runs']):5d}{cells}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return tables.html(f"{title(self.regret)} at round {self.round:,}", *self._cells())

    def to_markdown(self) -> str:
        """Return the table in Markdown."""
        return tables.markdown(*self._cells())

    def to_latex(self) -> str:
        """Return the table as a LaTeX ``tabular``, which needs no package."""
        return tables.latex(*self._cells())

    def to_csv(self) -> str:
        """Return the table as CSV, with all digits."""
        head = list(next(iter(self.rows.values())))
        rows = [[name, *(row[key] for key in head)] for name, row in self.rows.items()]
        return tables.comma_separated(["policy", *head], rows)

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        head = list(next(iter(self.rows.values())))
        rows = [
            [name, *(f"{row[k]:,.0f}" if k == "runs" else f"{row[k]:,.1f}" for k in head)]
            for name, row in self.rows.items()
        ]
        return ["policy", *head], rows


Comparators = dict[str, NDArray[np.float64] | dict[str, NDArray[np.float64]]]
"""Correction of the regret, for all runs or for every run of a policy; see `Result.comparators`."""


@dataclass(frozen=True)
class Result:
    """Regret of every policy, per repetition and checkpoint.

    Parameters
    ----------
    checkpoints : ndarray of int
        Rounds recorded.
    regret : dict of str to ndarray (repetitions, checkpoints)
        Pseudo-regret.
    plays : dict of str to ndarray (repetitions, arms)
        How often each arm was played by the horizon.
    repetitions : dict of str to ndarray of int
        Numbers of the repetitions in each array's rows; equal numbers met equal environments.
    wall, cpu : dict of str to float
        Seconds spent on each policy, added over threads.
    policies : dict of str to str
        The constructors.
    environment : str
        The constructor.
    seed : int
        The seed in force.
    interrupted : bool
        Whether the run was stopped early and holds only what was finished.
    versions : dict of str to str
        Software that computed it.
    plays_at : dict of str to ndarray (repetitions, checkpoints, arms)
        How often each arm was played by every checkpoint, where ``simulate(shares=True)`` asked
        for it; empty elsewhere.
    comparators : dict of str to ndarray (checkpoints,)
        What else regret can be measured against, and what to add to it; see `regret_against`.
        Where that depends on the plays, a dict of policies to ndarray (repetitions, checkpoints).
    realised : dict of str to ndarray (repetitions, checkpoints)
        Realised regret, where ``simulate(realised=True)`` asked for it; empty elsewhere. The
        losses of the arms played minus those of the arm that was best in the run.

    Examples
    --------
    >>> import bothworlds as bw
    >>> world = bw.environments.Switching(n_arms=4, gap=0.25)
    >>> both = [bw.TsallisINF(), bw.UCB1()]
    >>> result = bw.simulate(both, world, horizon=2000, repetitions=32, seed=3)
    >>> result.regret["UCB1()"].shape == (32, result.checkpoints.size)
    True
    """

    checkpoints: NDArray[np.int64]
    regret: dict[str, NDArray[np.float64]]
    plays: dict[str, NDArray[np.int64]]
    repetitions: dict[str, NDArray[np.int64]]
    wall: dict[str, float]
    cpu: dict[str, float]
    policies: dict[str, str]
    environment: str
    seed: int
    interrupted: bool = False
    versions: dict[str, str] = field(default_factory=dict)
    plays_at: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    comparators: Comparators = field(default_factory=dict)
    realised: dict[str, NDArray[np.float64]] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The policies' names."""
        return list(self.regret)

    def __repr__(self) -> str:
        runs = max(map(len, self.regret.values()))
        state = ", interrupted" if self.interrupted else ""
        return (
            f"<Result: {', '.join(self.names)} in {self.environment}, "
            f"{int(self.checkpoints[-1]):,} rounds x {runs}{state}>"
        )

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()

    def _column(self, at: int | None, owner: str) -> int:
        if at is None:
            return len(self.checkpoints) - 1
        hits = np.flatnonzero(self.checkpoints == at)
        if hits.size == 0:
            raise invalid("at", owner, _rounds_near(self.checkpoints, at), at)
        return int(hits[0])

    def _chosen(self, regret: str, owner: str) -> dict[str, NDArray[np.float64]]:
        """Return one of the regrets there are."""
        if regret == "pseudo":
            return self.regret
        if regret == "realised" and self.realised:
            return self.realised
        if regret in self.comparators:
            return self.regret_against(regret)
        if regret == "realised":
            expected = "kept by simulate(realised=True)"
        else:
            known = ["pseudo", *(["realised"] if self.realised else []), *self.comparators]
            expected = f"one of {', '.join(known)}"
        raise invalid("regret", owner, expected, regret)

    def at(
        self, round: int | None = None, regret: str = "pseudo"
    ) -> dict[str, NDArray[np.float64]]:
        """Return the regret of every run at one checkpoint, the last by default, by policy."""
        column = self._column(round, "Result.at")
        return {name: runs[:, column] for name, runs in self._chosen(regret, "Result.at").items()}

    def add(self, name: str, regret: ArrayLike, repetitions: Iterable[int] | None = None) -> Result:
        """Return this result with a curve from elsewhere, to rank, draw and save with the rest.

        Its plays are not known and count as 0.

        Parameters
        ----------
        name : str
            A name that no policy here has.
        regret : array_like (repetitions, checkpoints)
            Pseudo-regret of every run at the checkpoints of this result.
        repetitions : iterable of int, optional
            Numbers of the runs; from 0 on by default. Equal numbers must have met equal
            environments, because comparisons pair them.

        Examples
        --------
        >>> import bothworlds as bw
        >>> world = bw.environments.Stochastic.gap(n_arms=2, gap=0.5)
        >>> own = bw.simulate({"RV": bw.TsallisINF()}, world, horizon=500, repetitions=32, seed=1)
        >>> mine = np.tile(0.25 * own.checkpoints, (32, 1))
        >>> list(own.add("a coin", mine).ranking().means)
        ['RV', 'a coin']
        """
        runs = np.array(regret, dtype=np.float64)
        if not isinstance(name, str) or name in self.regret:
            raise invalid("name", "Result.add", f"a name other than {', '.join(self.names)}", name)
        if runs.ndim != 2 or not len(runs) or runs.shape[1] != self.checkpoints.size:
            expected = f"an array (repetitions, {self.checkpoints.size})"
            raise invalid("regret", "Result.add", expected, runs.shape)
        if not np.isfinite(runs).all():
            raise invalid("regret", "Result.add", "finite numbers", "others")
        numbers = np.arange(len(runs)) if repetitions is None else np.array([*repetitions])
        if numbers.shape != (len(runs),) or np.unique(numbers).size != len(runs):
            expected = f"{len(runs)} different whole numbers"
            raise invalid("repetitions", "Result.add", expected, repetitions)
        n_arms = next(iter(self.plays.values())).shape[1]
        plays = np.zeros((len(runs), n_arms), dtype=np.int64)
        return replace(
            self,
            regret={**self.regret, name: runs},
            plays={**self.plays, name: plays},
            repetitions={**self.repetitions, name: numbers.astype(np.int64)},
            wall={**self.wall, name: 0.0},
            cpu={**self.cpu, name: 0.0},
            policies={**self.policies, name: name},
            plays_at={},
            realised={},
            comparators={
                kind: added
                for kind, added in self.comparators.items()
                if not isinstance(added, dict)
            },
        )

    def summary(self, at: int | None = None, regret: str = "pseudo") -> Summary:
        """Return mean, trimmed mean, standard deviation and quantiles of the regret.

        Parameters
        ----------
        at : int, optional
            A checkpoint; the last by default.
        regret : str
            Which regret: "pseudo", "realised", or one of ``comparators``.

        Examples
        --------
        >>> import bothworlds as bw
        >>> world = bw.environments.Stochastic.gap(n_arms=2, gap=0.25)
        >>> runs = {"horizon": 500, "repetitions": 32, "seed": 3}
        >>> result = bw.simulate(bw.Uniform(), world, realised=True, **runs)
        >>> print(result.summary(regret="realised"))
        Realised regret at round 500
                   runs    mean trimmed      sd     5 %  median    95 %
        Uniform()    32    63.6    63.7     6.7    54.0    63.5    74.0
        """
        column = self._column(at, "Result.summary")
        rows = {}
        for name, runs in self._chosen(regret, "Result.summary").items():
            final = runs[:, column]
            low, median, high = np.quantile(final, [0.05, 0.5, 0.95])
            rows[name] = {
                "runs": float(len(final)),
                "mean": float(final.mean()),
                "trimmed": float(trimmed_mean(final)),
                "sd": float(final.std(ddof=1)) if len(final) > 1 else 0.0,
                "5 %": float(low),
                "median": float(median),
                "95 %": float(high),
            }
        return Summary(int(self.checkpoints[column]), rows, regret)

    def compare(
        self,
        first: str,
        second: str,
        at: int | None = None,
        level: float = 0.95,
        resamples: int = 10_000,
        regret: str = "pseudo",
    ) -> Comparison:
        """Return the mean paired difference of two policies with an interval.

        The pairs are repetitions with the same number, which met the same environment stream. The
        interval is that of a `ranking` of the two; it is withheld where a few runs carry the
        difference. ``regret`` selects the regret, as in `summary`.

        Examples
        --------
        >>> import bothworlds as bw
        >>> world = bw.environments.Switching(n_arms=4, gap=0.25)
        >>> both = {"UCB1": bw.UCB1(), "RV": bw.TsallisINF()}
        >>> result = bw.simulate(both, world, horizon=20_000, repetitions=64, seed=1)
        >>> print(result.compare("UCB1", "RV").interval())
        [withheld: rests on 4 of 64 runs]
        """
        for parameter, name in (("first", first), ("second", second)):
            if name not in self.regret:
                raise invalid(parameter, "Result.compare", f"one of {self.names}", name)
        column = self._column(at, "Result.compare")
        _, here, there = np.intersect1d(
            self.repetitions[first], self.repetitions[second], return_indices=True
        )
        of = self._chosen(regret, "Result.compare")
        if here.size == 0:
            raise invalid("first", "Result.compare", f"run in repetitions of {second}", first)
        runs = {first: of[first][here, column], second: of[second][there, column]}
        last = int(self.checkpoints[column])
        (pair,) = paired(
            runs, [(first, second)], last, level, resamples, self.seed, "Result.compare"
        )
        return pair

    def regret_against(self, comparator: str) -> dict[str, NDArray[np.float64]]:
        """Return the regret of the same runs against another comparator.

        ===================== ==============================================================
        "dynamic"             the best arm in expectation of each round
        "fixed in this run"   the one arm that is best in expectation over the rounds of a
                              run; it differs from the pseudo-regret only in environments
                              that react to the player, and in `Piecewise`
        "block", "fixed"      in `Piecewise`: the one that was not chosen
        ===================== ==============================================================

        A result that was read from a store has those only that do not need the environment.

        Parameters
        ----------
        comparator : str
            One of ``comparators``.

        Examples
        --------
        >>> import bothworlds as bw
        >>> world = bw.environments.Piecewise.gap(2, 0.5, every=500)
        >>> result = bw.simulate(bw.UCB1(), world, horizon=1000, repetitions=16, seed=1)
        >>> block, fixed = result.regret["UCB1()"], result.regret_against("fixed")["UCB1()"]
        >>> float((block - fixed)[0, -1])
        250.0
        """
        if comparator not in self.comparators:
            known = ", ".join(self.comparators) or "those that the result has, and it has none"
            raise invalid("comparator", "regret_against", f"one of {known}", comparator)
        added = self.comparators[comparator]
        return {
            name: regret + (added[name] if isinstance(added, dict) else added)
            for name, regret in self.regret.items()
        }

    def ranking(
        self,
        at: int | None = None,
        level: float = 0.95,
        resamples: int = 10_000,
        regret: str = "pseudo",
    ) -> Ranking:
        """Rank the policies, with intervals for all differences that hold at once.

        A studentised bootstrap over the repetitions that all policies have; those with the same
        number met the same environment stream and are drawn together.

        Parameters
        ----------
        at : int, optional
            A checkpoint; the last by default.
        level : float
            Confidence that all intervals hold.
        resamples : int
            Bootstrap samples.
        regret : str
            Which regret: "pseudo", "realised", or one of ``comparators``.

        Examples
        --------
        >>> import bothworlds as bw
        >>> world = bw.environments.Stochastic.gap(n_arms=4, gap=0.25)
        >>> three = {"RV": bw.TsallisINF(), "UCB1": bw.UCB1(), "random": bw.Uniform()}
        >>> ranking = bw.simulate(three, world, horizon=2000, repetitions=64, seed=3).ranking()
        >>> list(ranking.means), all(pair.low > 0 for pair in ranking.pairs)
        (['RV', 'UCB1', 'random'], True)
        """
        column = self._column(at, "Result.ranking")
        of = self._chosen(regret, "Result.ranking")
        final = {name: runs[:, column] for name, runs in of.items()}
        last = int(self.checkpoints[column])
        made = ranked(final, self.repetitions, last, level, resamples, self.seed)
        return replace(made, regret=regret)

    def to_frame(self) -> pyarrow.Table:
        """Return a tidy table: policy, repetition, round, regret, and realised where there is any.

        An Arrow table, which ``.to_pandas()`` or ``polars.from_arrow`` take as it is.
        """
        arrow = arrow_package()
        n = self.checkpoints.size
        names: list[str] = []
        for name, regret in self.regret.items():
            names += [name] * regret.size
        realised = {}
        if self.realised:
            realised["realised"] = np.concatenate([self.realised[n].ravel() for n in self.names])
        return arrow.table(
            {
                "policy": arrow.array(names).dictionary_encode(),
                "repetition": np.concatenate(
                    [np.repeat(self.repetitions[name], n) for name in self.names]
                ),
                "round": np.concatenate(
                    [np.tile(self.checkpoints, len(self.regret[name])) for name in self.names]
                ),
                "regret": np.concatenate([regret.ravel() for regret in self.regret.values()]),
                **realised,
            }
        )

    def to_pandas(self) -> Any:
        """Return the tidy table as a pandas frame, which the package pandas is needed for."""
        _installed("pandas")
        return self.to_frame().to_pandas()

    def to_polars(self) -> Any:
        """Return the tidy table as a polars frame, which the package polars is needed for."""
        polars = _installed("polars")
        return polars.from_arrow(self.to_frame())

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the tidy table as CSV, atomically."""
        table = self.to_frame()
        import pyarrow.csv

        plain = table.set_column(0, "policy", table["policy"].cast("string"))
        with saving("result", path) as draft:
            pyarrow.csv.write_csv(plain, draft)

    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        title: str | None = None,
        ax: Any = None,
        scale: Literal["linear", "log", "symlog"] | None = None,
        band: Literal["se", "sd", "quantiles", "none"] = "se",
        policies: Iterable[str] | None = None,
        bounds: Mapping[str, Any] | None = None,
        size: Literal["page", "column"] | tuple[float, float] | None = None,
        regret: str = "pseudo",
    ) -> matplotlib.figure.Figure:
        """Draw mean regret with a band; save it if a path is given.

        Parameters
        ----------
        path : path, optional
            Where to save it: .png, .pdf or .svg.
        title : str, optional
            The environment and its number of arms by default.
        ax : matplotlib axes, optional
            Where to draw, in a figure of your own.
        scale : {"linear", "log", "symlog"}, optional
            One panel with this scale; by default a linear and a logarithmic one, or symlog where
            regret is negative.
        band : {"se", "sd", "quantiles", "none"}
            Two standard errors of the mean, two standard deviations of a run, nine runs in ten,
            or none.
        policies : iterable of str, optional
            Which policies to draw.
        bounds : mapping, optional
            Names to functions of the rounds, or to values at the checkpoints, drawn as lines.
        size : {"page", "column"} or (width, height), optional
            In inches.
        regret : str
            Which regret: "pseudo", "realised", or one of ``comparators``.
        """
        from bothworlds.plotting import plot_result

        shown = replace(self, regret=self._chosen(regret, "Result.plot"))
        return plot_result(
            shown, path, title=title, ax=ax, scale=scale, band=band, policies=policies,
            bounds=bounds, size=size, regret=MEASURES[regret],
        )  # fmt: skip

    def plot_tail(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        at: int | None = None,
        title: str | None = None,
        ax: Any = None,
        policies: Iterable[str] | None = None,
        size: Literal["page", "column"] | tuple[float, float] | None = None,
        regret: str = "pseudo",
    ) -> matplotlib.figure.Figure:
        """Draw the tail of the regret: the share of runs with more than x, P(regret > x).

        Where a few runs carry a mean, the tail shows what the mean hides. Both axes are
        logarithmic; where regret is negative, the horizontal one is so in both directions from 0.

        Parameters
        ----------
        path : path, optional
            Where to save it: .png, .pdf or .svg.
        at : int, optional
            A checkpoint; the last by default.
        title, ax, policies, size, regret
            As in `plot`.
        """
        from bothworlds.plotting.tails import plot_tail

        return plot_tail(
            self, self.at(at, regret), path, title=title, ax=ax, policies=policies, size=size,
            regret=MEASURES[regret],
        )  # fmt: skip

    def plot_arms(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        policies: Iterable[str] | None = None,
        arms: Iterable[int] | None = None,
        title: str | None = None,
        size: Literal["page", "column"] | tuple[float, float] | None = None,
    ) -> matplotlib.figure.Figure:
        """Draw how often each arm was played: over time, or in all.

        A panel for every policy. Over time where ``simulate(shares=True)`` has kept the plays at
        the checkpoints, else the mean shares at the end.

        Parameters
        ----------
        path : path, optional
            Where to save it: .png, .pdf or .svg.
        policies : iterable of str, optional
            Which policies to draw.
        arms : iterable of int, optional
            Which arms to draw, in the numbering of the environment's constructor; by default the
            eight that are played most.
        title : str, optional
            The environment and its number of arms by default.
        size : {"page", "column"} or (width, height), optional
            In inches.
        """
        from bothworlds.plotting.arms import plot_arms

        return plot_arms(self, path, policies=policies, arms=arms, title=title, size=size)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one Parquet file, atomically: the old file or the new one, never half of it.

        One row per policy and repetition; the settings are in the file's metadata, and `load`
        reads it. A path that ends in .csv gets the tidy table of `to_csv` instead, which other
        programs read.
        """
        ending = Path(path).suffix.lower()
        if ending == ".csv":
            self.to_csv(path)
            return
        if ending in _FOREIGN:
            expected = "a file name ending in .parquet or .csv"
            raise invalid("path", "Result.save", expected, os.fspath(path))
        result_file.write(self, Path(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Result:
        """Read a file written by `save`."""
        return cls(**result_file.read(path))


def _rounds_near(checkpoints: NDArray[np.int64], at: object) -> str:
    """Name the checkpoints there are, or those around a round there is not."""
    rounds = checkpoints.tolist()
    shown = rounds
    if len(rounds) > 8:
        place = int(np.searchsorted(checkpoints, at)) if isinstance(at, int) else 0
        shown = rounds[max(0, place - 2) : place + 2] or rounds[-2:]
    listed = ", ".join(map(str, shown))
    more = f" (of {len(rounds)}, the nearest)" if len(shown) < len(rounds) else ""
    return f"one of the result's checkpoints {listed}{more}"


def _installed(package: str) -> Any:
    """Return an imported package, or name the command that installs it."""
    from importlib import import_module

    try:
        return import_module(package)
    except ImportError as error:
        raise MissingExtra(
            f"The package {package} must be installed for this, run: pip install {package}",
            name=package,
        ) from error
