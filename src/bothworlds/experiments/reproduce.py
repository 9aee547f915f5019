"""Run experiments: simulate missing runs, judge, draw and report; stop and resume at will."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bothworlds import plotting
from bothworlds.campaign.campaign import run_missing, workers_of
from bothworlds.campaign.curve import Curve
from bothworlds.campaign.progress import Progress
from bothworlds.campaign.store import Store
from bothworlds.campaign.workers import Threads, Workers
from bothworlds.engine.outcome import TileOutcome
from bothworlds.engine.tile import compile_all
from bothworlds.errors import invalid
from bothworlds.experiments.catalogue import experiment, experiment_names
from bothworlds.experiments.claims.statements import with_context
from bothworlds.experiments.model import Outcome, Panel
from bothworlds.experiments.plan import RunOptions, RunPlan
from bothworlds.experiments.report.archive import (
    Finished,
    everything,
    keep,
    kept,
    made_with,
    write_results,
)
from bothworlds.experiments.report.html import write_report
from bothworlds.seeding import checked_seed
from bothworlds.simulation.assembly import assemble
from bothworlds.simulation.result import Result


@dataclass(frozen=True)
class Moment:
    """A moment of a run, for a display of progress.

    Parameters
    ----------
    experiment, cell, algorithm : str
        What is running; the algorithm is "drawing" while figures are drawn.
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
    names: str | Sequence[str] = (),
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
    compiling: Callable[[int, int], Any] | None = None,
) -> list[Finished]:
    """Reproduce experiments of the paper, or measure later work.

    Finished simulations are kept in the output folder and found again; stopping loses at most
    the parts that are running.

    Parameters
    ----------
    names : str or sequence of str
        One experiment or several, see `experiment_names`; all of the paper's by default.
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
        Seed of all random numbers.
    threads : int, optional
        All cores by default.
    executor : concurrent.futures.Executor, optional
        Runs the simulations elsewhere, see `simulate`.
    continuable : bool
        Whether a longer horizon can continue where this one ends.
    progress : callable, optional
        Gets a `Moment` a few times a second.
    say : callable
        Gets a sentence when a file on disk cannot be used.
    finished : callable, optional
        Gets every experiment as soon as it is finished.
    compiling : callable, optional
        Gets, before anything runs in this process, how many kernels are ready, of how many.

    Returns
    -------
    list of Finished
        Claims and figures of the experiments named.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C; what was finished is kept.
    """
    wanted = [names] if isinstance(names, str) else names
    chosen = [experiment(name) for name in (wanted or experiment_names())]
    seed = checked_seed(seed, "paper")
    options = RunOptions(
        scale, horizon, repetitions, arms, gaps, with_kl_ucb, seed, threads, continuable
    )
    plans = [RunPlan(each, options.settings(each), seed) for each in chosen]
    folder = Path(output) if output is not None else Path("results") / scale
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        expected = f"a folder that can be written ({error.strerror})"
        raise invalid("output", "paper", expected, str(folder)) from error
    store = Store(folder / "store", say)
    store.make()
    workers = Threads(threads or os.cpu_count() or 1) if executor is None else workers_of(executor)
    done: dict[str, Finished] = {}

    def file(made: Finished) -> None:
        done[made.id] = made
        if finished is not None:
            finished(made)

    for plan in plans:
        made = _finished_before(plan, folder, store)
        if made is not None:
            file(made)
    waiting = [plan for plan in plans if plan.experiment.id not in done]
    if waiting:
        if executor is None:
            _compile(waiting, store, continuable, compiling or (lambda done, total: None))
        _simulate(waiting, folder, store, workers, continuable, progress, say, file)
    return [done[plan.experiment.id] for plan in plans]


def _compile(
    plans: list[RunPlan], store: Store, keep: bool, compiling: Callable[[int, int], Any]
) -> None:
    """Compile the kernels of the plans that the store does not make unnecessary."""
    pairs = [
        (curve.program(keep), curve.environment)
        for plan in plans
        for _, curve in plan.curves
        # The loops of advised worlds have no kernels of policies in them.
        if curve.environment.kind != "advised" and store.missing(curve)
    ]
    compile_all(pairs, compiling)


def _simulate(
    plans: list[RunPlan],
    folder: Path,
    store: Store,
    workers: Workers,
    continuable: bool,
    progress: Callable[[Moment], Any] | None,
    say: Callable[[str], Any],
    file: Callable[[Finished], Any],
) -> None:
    """Run the missing parts of the plans, and finish each as soon as it is complete."""
    wanted: dict[str, Curve] = {}
    owners: dict[str, list[RunPlan]] = {}
    for plan in plans:
        for _, curve in plan.curves:
            known = wanted.get(curve.stem)
            if known is None or known.repetitions < curve.repetitions:
                wanted[curve.stem] = curve
            owners.setdefault(curve.stem, []).append(plan)
    store.want(curve for plan in plans for _, curve in plan.curves)
    curves = list(wanted.values())
    simulated: dict[str, set[str]] = {plan.experiment.id: set() for plan in plans}
    began: dict[str, float] = {}
    unfinished = {plan.experiment.id: plan for plan in plans}

    def take(index: int, outcomes: list[TileOutcome]) -> None:
        name = owners[curves[index].stem][0].experiment.id
        began.setdefault(name, time.perf_counter() - sum(outcome.wall for outcome in outcomes))
        simulated[name].add(curves[index].stem)

    def conclude(candidates: list[RunPlan]) -> None:
        for plan in candidates:
            name = plan.experiment.id
            if name not in unfinished or not _complete(plan, store):
                continue
            if progress is not None:
                last, places = plan.cells[-1].id, len(plan.cells)
                progress(Moment(name, last, "drawing", places, places, 0.0, 0.0))
            # In this thread: drawing takes a few seconds, and the workers have shards waiting.
            since = began.get(name, time.perf_counter())
            made = _finish(plan, folder, store, simulated[name], since)
            if made is not None:
                del unfinished[name]
                file(made)

    interrupted = run_missing(
        curves, store, workers, finish=lambda: conclude(plans), keep=continuable, take=take,
        complete=lambda index: conclude(owners[curves[index].stem]),
        show=_shower(plans, curves, progress) if progress is not None else False, say=say,
    )  # fmt: skip
    if interrupted:
        raise KeyboardInterrupt


def _shower(
    plans: list[RunPlan], curves: list[Curve], progress: Callable[[Moment], Any]
) -> Callable[[Progress], Any]:
    """Return the function that turns reports about a curve into progress of its experiment."""
    places = {}
    for plan in reversed(plans):
        numbers = {cell.id: number for number, cell in enumerate(plan.cells, 1)}
        for cell, curve in plan.curves:
            places[curve.stem] = plan.experiment.id, cell.id, numbers[cell.id], len(plan.cells)

    def show(now: Progress) -> None:
        name, cell, place, cells = places[curves[now.curve].stem]
        progress(Moment(name, cell, now.name, place, cells, now.rate, now.left))

    return show


def _complete(plan: RunPlan, store: Store) -> bool:
    """Return whether the store has every curve of a plan."""
    return not any(store.missing(curve) for _, curve in plan.curves)


def _finished_before(plan: RunPlan, folder: Path, store: Store) -> Finished | None:
    """Return an experiment that was finished before, if nothing has changed since."""
    began = time.perf_counter()
    made = kept(folder, plan.experiment.id, plan.key)
    if made is None or not _complete(plan, store):
        return None
    return _reported(replace(made, simulated=0, seconds=time.perf_counter() - began), folder)


def _finish(
    plan: RunPlan, folder: Path, store: Store, simulated: Collection[str], began: float
) -> Finished | None:
    """Judge and draw a complete experiment, and write its files and the report.

    Parameters
    ----------
    plan : RunPlan
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
            panels[name] = tuple(Panel(*each) for each in plotting.shown_panels(figure))
            # That has settled the layout, which takes as long as the drawing.
            figure.set_layout_engine("none")
            for kind in ("png", "pdf"):
                plotting.save(figure, folder / f"{name}.{kind}")
    write_results(folder / f"{chosen.id}.parquet", outcome)
    made = Finished(
        id=chosen.id,
        title=chosen.title,
        source=chosen.source,
        summary=chosen.summary,
        settings=plan.settings,
        claims=with_context(chosen.score(outcome), plan.settings, tuple(figures)),
        figures=tuple(figures),
        tables=tuple(chosen.tables(outcome)),
        cells=len(plan.cells),
        simulated=len(simulated),
        seconds=time.perf_counter() - began,
        seed=plan.seed,
        made=made_with(),
        panels=panels,
    )
    keep(folder, plan.key, made)
    return _reported(made, folder)


def _results(plan: RunPlan, store: Store) -> dict[str, Result] | None:
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
