"""Finish experiments: judge their claims, draw their figures and report, while others run."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bothworlds import plotting
from bothworlds.campaign.store import Store
from bothworlds.experiments.archive import Finished, everything, keep, kept, write_results
from bothworlds.experiments.model import Outcome
from bothworlds.experiments.plan import Plan
from bothworlds.experiments.report import write_report
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


class Finisher:
    """Judges, draws and reports complete experiments, in a thread of its own.

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

    def __enter__(self) -> Finisher:
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
