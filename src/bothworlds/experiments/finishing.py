"""Finish an experiment: judge its claims, draw its figures, write its files and the report."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bothworlds import plotting
from bothworlds.campaign.store import Store
from bothworlds.experiments.archive import Finished, everything, keep, kept, write_results
from bothworlds.experiments.model import Outcome, Panel
from bothworlds.experiments.plan import Plan
from bothworlds.experiments.report import write_report
from bothworlds.experiments.sayings import sourced
from bothworlds.experiments.surroundings import surroundings
from bothworlds.simulation.result import Result
from bothworlds.simulation.simulator import assemble


@dataclass(frozen=True)
class Moment:
    """A moment of a run, for a display of progress.

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


def complete(plan: Plan, store: Store) -> bool:
    """Return whether the store has every curve of a plan."""
    return not any(store.missing(curve) for _, curve in plan.curves)


def finished_before(plan: Plan, folder: Path, store: Store) -> Finished | None:
    """Return an experiment that was finished before, if nothing has changed since."""
    began = time.perf_counter()
    made = kept(folder, plan.experiment.id, plan.key)
    if made is None or not complete(plan, store):
        return None
    return _reported(replace(made, simulated=0, seconds=time.perf_counter() - began), folder)


def finish(
    plan: Plan, folder: Path, store: Store, simulated: Collection[str], began: float
) -> Finished | None:
    """Judge and draw a complete experiment, and write its files and the report.

    Parameters
    ----------
    plan : Plan
        The experiment and its curves.
    folder : Path
        Where the files go.
    store : Store
        Where the simulations are.
    simulated : collection of str
        The stems of the curves that were run for it now.
    began : float
        When that began, by ``time.perf_counter``.

    Returns
    -------
    Finished or None
        None where the file of a curve turns out to be damaged: its repetitions are missing then.
    """
    results = _results(plan, store)
    if results is None:
        return None
    chosen = plan.experiment
    outcome = Outcome(plan.settings, plan.cells, results)
    panels: dict[str, tuple[Panel, ...]] = {}
    with plotting.style():
        figures = chosen.figures(outcome)
        for name, figure in figures.items():
            plotting.save(figure, folder / f"{name}.png")
            panels[name] = tuple(Panel(*each) for each in plotting.shown_panels(figure))
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
        claims=sourced(chosen.score(outcome), plan.settings, tuple(figures)),
        figures=tuple(figures),
        tables=tuple(chosen.tables(outcome)),
        cells=len(plan.cells),
        simulated=len(simulated),
        seconds=time.perf_counter() - began,
        seed=plan.seed,
        made=surroundings(),
        panels=panels,
    )
    keep(folder, plan.key, made)
    return _reported(made, folder)


def _results(plan: Plan, store: Store) -> dict[str, Result] | None:
    """Return the result of every cell, or None where something is missing."""
    parts: dict[str, Any] = {cell.id: {} for cell in plan.cells}
    for cell, curve in plan.curves:
        outcomes = store.load(curve)
        if sum(outcome.count for outcome in outcomes) < curve.repetitions:
            return None
        parts[cell.id][curve.name] = curve.settings, outcomes
    return {cell: assemble(part) for cell, part in parts.items()}


def _reported(made: Finished, folder: Path) -> Finished:
    """Write the report on all experiments of a folder, this one among them."""
    write_report(folder, everything(folder))
    return made
