"""Run experiments: simulate what is missing, judge, draw and report; stop and resume at will."""

from __future__ import annotations

import functools
import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import bothworlds
from bothworlds import plotting
from bothworlds.dueling import Sparring
from bothworlds.errors import InvalidParameter, must
from bothworlds.experiments.archive import Finished, everything, keep, kept, write_results
from bothworlds.experiments.catalogue import experiment, experiment_names
from bothworlds.experiments.model import Cell, Experiment, Outcome, Settings
from bothworlds.experiments.report import write_report
from bothworlds.experiments.store import Store, cell_key, world_digest
from bothworlds.seeding import checked_seed
from bothworlds.simulation import simulate
from bothworlds.simulation.progress import Progress
from bothworlds.simulation.result import Result


@dataclass(frozen=True)
class Task:
    """One policy in one cell."""

    experiment: str
    cell: Cell
    name: str
    key: str

    @property
    def rounds(self) -> int:
        """Rounds times repetitions."""
        return self.cell.horizon * self.cell.repetitions

    @property
    def expected(self) -> float:
        """A guess of the seconds on one core, for the time left."""
        chosen = self.cell.policies[self.name]
        sides = 2 if isinstance(chosen, Sparring) else 1
        policy = chosen.policy if isinstance(chosen, Sparring) else chosen
        base, per_arm = _COSTS.get(type(policy).__name__, (30.0, 3.0))
        if not policy.kernels().wide:
            base, per_arm = 300.0, 120.0
        return self.rounds * sides * (base + per_arm * self.cell.n_arms) * 1e-9


_COSTS = {
    "TsallisINF": (10.0, 0.7),
    "UCB1": (9.0, 0.6),
    "ThompsonSampling": (10.0, 14.0),
    "KLUCB": (50.0, 60.0),
}
"""Rough nanoseconds per round: a part for the round and a part for each arm."""


@dataclass(frozen=True)
class Moment:
    """A moment of a run, for whoever shows progress.

    Parameters
    ----------
    experiment, cell, algorithm : str
        What is running; the algorithm is "drawing" while figures are made.
    place, cells : int
        Number of the cell in the experiment, and how many there are.
    rate : float
        Rounds per second of the running algorithm.
    left : float
        Seconds left for the whole run, estimated.
    """

    experiment: str
    cell: str
    algorithm: str
    place: int
    cells: int
    rate: float
    left: float


def run(
    names: Sequence[str] = (),
    scale: str = "quick",
    output: str | os.PathLike[str] | None = None,
    *,
    horizon: int | None = None,
    repetitions: int | None = None,
    arms: Sequence[int] | None = None,
    gaps: Sequence[float] | None = None,
    extra: bool = False,
    seed: int = 0,
    threads: int | None = None,
    progress: Callable[[Moment], Any] | None = None,
    say: Callable[[str], Any] = print,
    finished: Callable[[Finished], Any] | None = None,
) -> list[Finished]:
    """Reproduce experiments of the paper.

    Finished simulations are kept in the output folder and found again; stopping loses at most
    the one that is running.

    Parameters
    ----------
    names : sequence of str
        Experiments, see `experiment_names`; all by default.
    scale : {"quick", "full"}
        "full" is the paper's scale.
    output : path, optional
        Folder for figures, tables of results and ``report.html``; ``results/<scale>`` by default.
    horizon, repetitions : int, optional
        Rounds and runs other than the scale's.
    arms, gaps : sequence, optional
        Numbers of arms and gaps other than the scale's, where the experiment varies them.
    extra : bool
        Also run KL-UCB.
    seed : int
        Seeds everything.
    threads : int, optional
        All cores by default.
    progress : callable, optional
        Gets a `Moment` a few times a second.
    say : callable
        Gets a sentence when a file on disk cannot be used.
    finished : callable, optional
        Gets every experiment as soon as it is finished.

    Returns
    -------
    list of Finished
        Claims and figures of the experiments named.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C; what was finished is kept.
    """
    chosen = [experiment(name) for name in (names or experiment_names())]
    if scale not in ("quick", "full"):
        raise InvalidParameter(must("scale", "paper", '"quick" or "full"', scale))
    seed = checked_seed(seed, "paper")
    folder = Path(output) if output is not None else Path("results") / scale
    plans = []
    for each in chosen:
        settings = adjusted(each, scale, horizon, repetitions, arms, gaps, extra)
        plans.append(_Plan(each, settings, tuple(each.cells(settings)), seed))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        expected = f"a folder that can be written ({error.strerror})"
        raise InvalidParameter(must("output", "paper", expected, str(folder))) from error
    store = Store(folder / "cells", say)
    clock = _Clock([task for plan in plans for task in plan.tasks if not store.has(task.key)],
                   threads or os.cpu_count() or 1)  # fmt: skip
    done = []
    for plan in plans:
        done.append(_run_plan(plan, folder, store, clock, threads, progress))
        write_report(folder, everything(folder))
        if finished is not None:
            finished(done[-1])
    return done


def adjusted(
    chosen: Experiment,
    scale: str,
    horizon: int | None,
    repetitions: int | None,
    arms: Sequence[int] | None,
    gaps: Sequence[float] | None,
    extra: bool,
) -> Settings:
    """Return the settings of a scale with the user's numbers in place of its own."""
    _check("horizon", horizon, horizon is None or horizon >= 100, "a whole number of at least 100")
    _check("repetitions", repetitions, repetitions is None or repetitions >= 2, "at least 2")
    _check("arms", arms, arms is None or (len(arms) > 0 and min(arms) >= 2), "2 or more arms")
    fits = gaps is None or (len(gaps) > 0 and all(0.0 < gap <= 0.5 for gap in gaps))
    _check("gap", gaps, fits, "numbers above 0 and up to 1/2")
    given: dict[str, Any] = {"horizon": horizon, "repetitions": repetitions}
    if "arms" in chosen.varies and arms is not None:
        given["arms"] = tuple(sorted(set(arms)))
    if "gaps" in chosen.varies and gaps is not None:
        given["gaps"] = tuple(sorted(set(gaps)))
    given = {key: value for key, value in given.items() if value is not None}
    settings = replace(chosen.scales[scale], **given)
    if settings != chosen.scales[scale]:
        settings = replace(settings, scale="custom")
    return replace(settings, extra=extra)


def _check(parameter: str, value: object, fits: bool, expected: str) -> None:
    if not fits:
        raise InvalidParameter(must(parameter, "paper", expected, value))


class _Plan:
    """An experiment with its settings and the simulations it needs."""

    def __init__(
        self, chosen: Experiment, settings: Settings, cells: tuple[Cell, ...], seed: int
    ) -> None:
        self.experiment, self.settings, self.cells, self.seed = chosen, settings, cells, seed
        self.tasks = []
        for cell in cells:
            world = world_digest(cell)
            for name in cell.policies:
                key = cell_key(cell, name, seed, world)
                self.tasks.append(Task(chosen.id, cell, name, key))

    @property
    def key(self) -> str:
        """Name everything that claims and figures depend on."""
        parts = [judging_stamp(), repr(self.settings), *(task.key for task in self.tasks)]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@functools.cache
def judging_stamp() -> str:
    """Return a digest of the sources that judge and draw: edited, their work is done again."""
    digest = hashlib.sha256()
    package = Path(bothworlds.__file__).parent
    files = [package / "plotting.py"]
    files += [path for room in ("experiments", "theory") for path in (package / room).glob("*.py")]
    for path in sorted(files):
        digest.update(path.relative_to(package).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


class _Clock:
    """Estimates the time left from guessed costs, corrected by what has been measured."""

    def __init__(self, tasks: list[Task], threads: int) -> None:
        self._threads = threads
        self._left = sum(task.expected for task in tasks) / threads
        # The guess counts as much as this many seconds of measurement.
        self._expected = self._measured = 3.0

    def left(self, task: Task, share: float, seconds: float) -> float:
        """Return the seconds left while a share of ``task`` took ``seconds``."""
        expected = task.expected / self._threads
        factor = (self._measured + seconds) / (self._expected + share * expected)
        return max(0.0, self._left - share * expected) * factor

    def finish(self, task: Task, seconds: float) -> None:
        """Take note of a finished task."""
        expected = task.expected / self._threads
        self._left -= expected
        self._expected += expected
        self._measured += seconds


def _run_plan(
    plan: _Plan,
    folder: Path,
    store: Store,
    clock: _Clock,
    threads: int | None,
    progress: Callable[[Moment], Any] | None,
) -> Finished:
    began = time.perf_counter()
    made = kept(folder, plan.experiment.id, plan.key)
    if made is not None and all(store.has(task.key) for task in plan.tasks):
        return replace(made, simulated=0, seconds=time.perf_counter() - began)
    parts: dict[str, dict[str, Result]] = {cell.id: {} for cell in plan.cells}
    simulated = 0
    places = {cell.id: place for place, cell in enumerate(plan.cells, 1)}
    for task in plan.tasks:
        result = store.load(task.key)
        if result is None:
            show = _shower(task, places[task.cell.id], len(plan.cells), clock, progress)
            started = time.perf_counter()
            result = _simulate(task, plan.seed, threads, show)
            clock.finish(task, time.perf_counter() - started)
            store.save(task.key, result)
            simulated += 1
        parts[task.cell.id][task.name] = result
    if progress is not None:
        last = plan.cells[-1]
        progress(Moment(plan.experiment.id, last.id, "drawing", len(plan.cells), len(plan.cells),
                        0.0, clock.left(plan.tasks[0], 0.0, 0.0)))  # fmt: skip
    outcome = Outcome(
        plan.settings, plan.cells, {name: merged(part) for name, part in parts.items()}
    )
    done = _conclude(plan, outcome, folder, simulated, began)
    keep(folder, plan.key, done)
    return done


def _shower(
    task: Task, place: int, cells: int, clock: _Clock, progress: Callable[[Moment], Any] | None
) -> Callable[[Progress], Any] | bool:
    if progress is None:
        return False

    def show(moment: Progress) -> None:
        left = clock.left(task, moment.done / moment.total, moment.seconds)
        progress(Moment(task.experiment, task.cell.id, task.name, place, cells, moment.rate, left))

    return show


def _simulate(
    task: Task, seed: int, threads: int | None, show: Callable[[Progress], Any] | bool
) -> Result:
    result = simulate(
        {task.name: task.cell.policies[task.name]},
        task.cell.environment,
        horizon=task.cell.horizon,
        repetitions=task.cell.repetitions,
        seed=seed,
        checkpoints=task.cell.checkpoints,
        threads=threads,
        progress=show,
    )
    if result.interrupted:
        raise KeyboardInterrupt
    return result


def merged(parts: Mapping[str, Result]) -> Result:
    """Put results of single policies in the same environment together."""
    first = next(iter(parts.values()))
    fields: Any = {
        field: {
            name: value for part in parts.values() for name, value in getattr(part, field).items()
        }
        for field in ("regret", "plays", "repetitions", "wall", "cpu", "policies")
    }
    return replace(first, **fields)


def _conclude(
    plan: _Plan, outcome: Outcome, folder: Path, simulated: int, began: float
) -> Finished:
    """Judge, draw and write the experiment's files."""
    chosen = plan.experiment
    with plotting.style():
        figures = chosen.figures(outcome)
        for name, figure in figures.items():
            plotting.save(figure, folder / f"{name}.png")
            # The first drawing has settled the layout, which takes as long as the drawing.
            figure.set_layout_engine("none")
            plotting.save(figure, folder / f"{name}.pdf")
    write_results(folder / f"{chosen.id}.parquet", outcome)
    return Finished(
        id=chosen.id,
        title=chosen.title,
        source=chosen.source,
        summary=chosen.summary,
        settings=plan.settings,
        claims=tuple(chosen.score(outcome)),
        figures=tuple(figures),
        tables=tuple(chosen.tables(outcome)),
        cells=len(plan.cells),
        simulated=simulated,
        seconds=time.perf_counter() - began,
        seed=plan.seed,
    )
