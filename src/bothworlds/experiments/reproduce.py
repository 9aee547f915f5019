"""Run experiments: simulate what is missing, judge, draw and report; stop and resume at will."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bothworlds import plotting
from bothworlds.campaign.campaign import Campaign
from bothworlds.campaign.curve import Curve
from bothworlds.campaign.progress import Progress
from bothworlds.campaign.store import Store
from bothworlds.campaign.workers import Threads, Workers, workers_of
from bothworlds.deprecated import renamed
from bothworlds.engine.tile import TileOutcome
from bothworlds.errors import InvalidParameter, must
from bothworlds.experiments.archive import Finished, everything, keep, kept, write_results
from bothworlds.experiments.catalogue import experiment, experiment_names
from bothworlds.experiments.model import Outcome
from bothworlds.experiments.plan import Plan, adjusted
from bothworlds.experiments.report import write_report
from bothworlds.seeding import checked_seed
from bothworlds.simulation.result import Result
from bothworlds.simulation.simulator import assemble


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


@renamed({"extra": "with_kl_ucb"}, since="0.2", removed_in="0.3")
def run(
    names: Sequence[str] = (),
    scale: str = "quick",
    output: str | os.PathLike[str] | None = None,
    *,
    horizon: int | None = None,
    repetitions: int | None = None,
    arms: Sequence[int] | None = None,
    gaps: Sequence[float] | None = None,
    with_kl_ucb: bool = False,
    seed: int = 0,
    threads: int | None = None,
    executor: Executor | None = None,
    continuable: bool = False,
    progress: Callable[[Moment], Any] | None = None,
    say: Callable[[str], Any] = print,
    finished: Callable[[Finished], Any] | None = None,
) -> list[Finished]:
    """Reproduce experiments of the paper.

    Finished simulations are kept in the output folder and found again; stopping loses at most
    the parts that are running.

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
    with_kl_ucb : bool
        Also run KL-UCB.
    seed : int
        Seeds everything.
    threads : int, optional
        All cores by default.
    executor : concurrent.futures.Executor, optional
        Runs the simulations elsewhere, see `simulate`.
    continuable : bool
        Whether a longer horizon shall be able to go on where this one ends.
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
        settings = adjusted(each, scale, horizon, repetitions, arms, gaps, with_kl_ucb)
        plans.append(Plan(each, settings, seed))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        expected = f"a folder that can be written ({error.strerror})"
        raise InvalidParameter(must("output", "paper", expected, str(folder))) from error
    store = Store(folder / "store", say)
    store.make()
    desk = _Desk(folder, store, progress, finished)
    workers = Threads(threads or os.cpu_count() or 1) if executor is None else workers_of(executor)
    with desk:
        waiting = [plan for plan in plans if not desk.recall(plan)]
        while waiting:
            _simulate(waiting, desk, store, workers, continuable, progress, say)
            # A plan stays where a file turned out to be damaged: what it held is missing now.
            waiting = [plan for plan in waiting if plan.experiment.id not in desk.done]
    return [desk.done[plan.experiment.id] for plan in plans]


def _simulate(
    plans: list[Plan],
    desk: _Desk,
    store: Store,
    workers: Workers,
    continuable: bool,
    progress: Callable[[Moment], Any] | None,
    say: Callable[[str], Any],
) -> None:
    """Run what is missing for the plans; each goes to the desk as soon as it is complete."""
    wanted: dict[str, Curve] = {}
    owners: dict[str, list[Plan]] = {}
    for plan in plans:
        for _, curve in plan.curves:
            known = wanted.get(curve.stem)
            if known is None or known.repetitions < curve.repetitions:
                wanted[curve.stem] = curve
            owners.setdefault(curve.stem, []).append(plan)
    store.want(curve for plan in plans for _, curve in plan.curves)
    curves = list(wanted.values())
    pieces = [store.pieces(curve, continuable) for curve in curves]
    lacking = {c.stem for c, missing in zip(curves, pieces, strict=True) if missing}
    for plan in plans:
        desk.expect(plan, {curve.stem for _, curve in plan.curves} & lacking)

    def take(index: int, outcomes: list[TileOutcome]) -> None:
        store.save(curves[index], outcomes)
        plan = owners[curves[index].stem][0]
        desk.note(plan, curves[index].stem, sum(outcome.wall for outcome in outcomes))

    def complete(index: int) -> None:
        for plan in owners[curves[index].stem]:
            desk.complete(plan, curves[index].stem)

    show = _shower(plans, curves, progress) if progress is not None else False
    campaign = Campaign(
        curves, pieces, workers, take, complete=complete, store=store, show=show, say=say
    )
    if campaign.run():
        raise KeyboardInterrupt
    desk.settle()


def _shower(
    plans: list[Plan], curves: list[Curve], progress: Callable[[Moment], Any]
) -> Callable[[Progress], Any]:
    """Return what turns reports about a curve into moments of the experiment it belongs to."""
    places = {}
    for plan in reversed(plans):
        numbers = {cell.id: number for number, cell in enumerate(plan.cells, 1)}
        for cell, curve in plan.curves:
            places[curve.stem] = plan.experiment.id, cell.id, numbers[cell.id], len(plan.cells)

    def show(now: Progress) -> None:
        name, cell, place, cells = places[curves[now.curve].stem]
        progress(Moment(name, cell, now.name, place, cells, now.rate, now.left))

    return show


class _Desk:
    """Where complete experiments are judged, drawn and reported, while others are simulated.

    Parameters
    ----------
    folder : Path
        Where the files go.
    store : Store
        Where the simulations are.
    progress, finished : callable, optional
        As those of `run`.
    """

    def __init__(
        self,
        folder: Path,
        store: Store,
        progress: Callable[[Moment], Any] | None,
        finished: Callable[[Finished], Any] | None,
    ) -> None:
        self.done: dict[str, Finished] = {}
        self._folder, self._store = folder, store
        self._progress, self._finished = progress, finished
        self._lacking: dict[str, set[str]] = {}
        self._simulated: dict[str, set[str]] = {}
        self._began: dict[str, float] = {}
        self._drawing: list[Future[None]] = []
        # One thread: drawing has settings of its own for the whole process.
        self._thread = ThreadPoolExecutor(1)

    def __enter__(self) -> _Desk:
        return self

    def __exit__(self, *error: object) -> None:
        self._thread.shutdown(cancel_futures=True)

    def recall(self, plan: Plan) -> bool:
        """Take over an experiment that was finished before, if it was and nothing has changed."""
        began = time.perf_counter()
        self._simulated[plan.experiment.id] = set()
        made = kept(self._folder, plan.experiment.id, plan.key)
        if made is None or any(self._store.missing(curve) for _, curve in plan.curves):
            return False
        self._file(replace(made, simulated=0, seconds=time.perf_counter() - began))
        return True

    def expect(self, plan: Plan, stems: set[str]) -> None:
        """Wait for curves of a plan; where there are none to wait for, it is complete."""
        self._lacking[plan.experiment.id] = stems
        if not stems:
            self._submit(plan)

    def note(self, plan: Plan, stem: str, seconds: float) -> None:
        """Take note that something of a curve was simulated for a plan, and how long it took."""
        self._began.setdefault(plan.experiment.id, time.perf_counter() - seconds)
        self._simulated[plan.experiment.id].add(stem)

    def complete(self, plan: Plan, stem: str) -> None:
        """Take note of a complete curve, and conclude the plan if it was the last."""
        lacking = self._lacking[plan.experiment.id]
        lacking.discard(stem)
        if not lacking:
            self._submit(plan)

    def settle(self) -> None:
        """Wait until everything handed in is drawn; raise what went wrong."""
        for future in self._drawing:
            future.result()
        self._drawing.clear()

    def _submit(self, plan: Plan) -> None:
        for future in self._drawing:
            if future.done():
                future.result()
        self._drawing.append(self._thread.submit(self._conclude, plan))

    def _conclude(self, plan: Plan) -> None:
        """Judge, draw and write an experiment's files; do nothing where a curve is damaged."""
        chosen, folder = plan.experiment, self._folder
        began = self._began.get(chosen.id, time.perf_counter())
        if self._progress is not None:
            places = len(plan.cells)
            last = plan.cells[-1].id
            self._progress(Moment(chosen.id, last, "drawing", places, places, 0.0, 0.0))
        results = self._results(plan)
        if results is None:
            return
        outcome = Outcome(plan.settings, plan.cells, results)
        with plotting.style():
            figures = chosen.figures(outcome)
            for name, figure in figures.items():
                plotting.save(figure, folder / f"{name}.png")
                # The first drawing has settled the layout, which takes as long as the drawing.
                figure.set_layout_engine("none")
                plotting.save(figure, folder / f"{name}.pdf")
        write_results(folder / f"{chosen.id}.parquet", outcome)
        made = Finished(
            id=chosen.id,
            title=chosen.title,
            source=chosen.source,
            summary=chosen.summary,
            settings=plan.settings,
            claims=tuple(chosen.score(outcome)),
            figures=tuple(figures),
            tables=tuple(chosen.tables(outcome)),
            cells=len(plan.cells),
            simulated=len(self._simulated[chosen.id]),
            seconds=time.perf_counter() - began,
            seed=plan.seed,
        )
        keep(folder, plan.key, made)
        self._file(made)

    def _results(self, plan: Plan) -> dict[str, Result] | None:
        """Return the result of every cell, or None where something is missing."""
        parts: dict[str, Any] = {cell.id: {} for cell in plan.cells}
        for cell, curve in plan.curves:
            outcomes = self._store.load(curve)
            if sum(outcome.count for outcome in outcomes) < curve.repetitions:
                return None
            parts[cell.id][curve.name] = curve.settings, outcomes
        return {cell: assemble(part) for cell, part in parts.items()}

    def _file(self, made: Finished) -> None:
        self.done[made.id] = made
        write_report(self._folder, everything(self._folder))
        if self._finished is not None:
            self._finished(made)
