"""``bothworlds paper`` and ``bothworlds beyond``: run experiments and judge their claims."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from bothworlds.cli.console import command
from bothworlds.cli.console import console as new_console
from bothworlds.cli.live_table import Board
from bothworlds.cli.options import Cluster, Continuable, argument, executor, flag, option
from bothworlds.cli.parse import choose, count, listed, number
from bothworlds.experiments.catalogue import Part, experiment, experiment_names
from bothworlds.experiments.claims.statements import full_scale
from bothworlds.experiments.claims.summary import OWNERS, lead, ordered
from bothworlds.text import duration

if TYPE_CHECKING:
    from rich.console import Console

    from bothworlds.experiments.claims.sample import Reproduced
    from bothworlds.experiments.plan import RunOptions
    from bothworlds.experiments.report.archive import Finished

Names = Annotated[list[str] | None, argument("NAME", help="Experiments; all of them by default.")]
List = Annotated[bool, flag("--list", "List the experiments and stop.")]
Horizon = Annotated[str | None, option("ROUNDS", help="Rounds per run, such as 1e6.")]
Repetitions = Annotated[str | None, option("RUNS", help="Runs per algorithm.")]
Seed = Annotated[str, option("NUMBER", help="Seed of all random numbers.")]
NumberOfThreads = Annotated[str | None, option("NUMBER", "all cores", help="Threads.")]

_SOURCES: dict[Part, str] = {"paper": "in the paper", "beyond": "by whom"}
"""Heading of the list for the source of an experiment."""


@command
def paper(
    names: Names = None,
    list_: List = False,
    full: Annotated[bool, flag("--full")] = False,
    horizon: Horizon = None,
    repetitions: Repetitions = None,
    arms: Annotated[str | None, option("K,...")] = None,
    gap: Annotated[str | None, option("GAP,...")] = None,
    output: Annotated[Path | None, option("FOLDER", "results/quick or results/full")] = None,
    seed: Seed = "0",
    threads: NumberOfThreads = None,
    cluster: Cluster = None,
    continuable: Continuable = False,
    kl_ucb: Annotated[bool, flag("--kl-ucb")] = False,
) -> None:
    """Reproduce the figures and tables of the paper, and judge its claims.

    Writes a folder with report.html, every figure as PNG and PDF, and all
    results as Parquet. Stop it with Ctrl-C; the same command resumes where it
    stopped.

    Parameters
    ----------
    full : bool
        The paper's scale: hours instead of minutes.
    arms : str, optional
        Numbers of arms, such as 2,8,32.
    gap : str, optional
        Gaps, such as 1/16,1/8.
    output : Path, optional
        Folder for the report.
    kl_ucb : bool
        Also run KL-UCB.
    """
    scale = "full" if full else "quick"
    folder = output if output is not None else Path("results") / scale
    options = _options(scale, horizon, repetitions, seed, threads, continuable, arms, gap, kl_ucb)
    _reproduce("paper", names, list_, folder, options, cluster, next_=_next(full))


def _next(full: bool) -> str:
    """Return the commands to try next."""
    if full:
        return "bothworlds compare --policies tsallis,ucb1 --environment switching"
    return "bothworlds paper stochastic switching --full runs the paper's own scale"


@command
def beyond(
    names: Names = None,
    list_: List = False,
    full: Annotated[bool, flag("--full")] = False,
    horizon: Horizon = None,
    repetitions: Repetitions = None,
    output: Annotated[
        Path | None, option("FOLDER", "results/beyond or results/beyond-full")
    ] = None,
    seed: Seed = "0",
    threads: NumberOfThreads = None,
    cluster: Cluster = None,
    continuable: Continuable = False,
) -> None:
    """Run experiments on results published after the paper, and judge their claims.

    Low rates, heavy tails, best arms that move, late feedback, floors, advice,
    unknown worlds: claims of the authors, and ours. Writes a folder as the
    command paper does. Stop it with Ctrl-C; the same command resumes where it
    stopped.

    Parameters
    ----------
    full : bool
        1,000 runs of everything instead of 256 or 400.
    output : Path, optional
        Folder for the report.
    """
    default = Path("results") / ("beyond-full" if full else "beyond")
    scale = "full" if full else "quick"
    options = _options(scale, horizon, repetitions, seed, threads, continuable)
    following = "bothworlds arena shows which policy suits which world"
    folder = output if output is not None else default
    _reproduce("beyond", names, list_, folder, options, cluster, next_=following)


def _options(
    scale: str,
    horizon: str | None,
    repetitions: str | None,
    seed: str,
    threads: str | None,
    continuable: bool,
    arms: str | None = None,
    gap: str | None = None,
    with_kl_ucb: bool = False,
) -> RunOptions:
    """Read the options of a run, as typed."""
    from bothworlds.experiments.plan import RunOptions

    return RunOptions(
        scale=scale,
        horizon=count(horizon, "--horizon", 100) if horizon else None,
        repetitions=count(repetitions, "--repetitions", 2) if repetitions else None,
        arms=[count(word, "--arms", 2) for word in listed(arms, "--arms")] if arms else None,
        gaps=[number(word, "--gap") for word in listed(gap, "--gap")] if gap else None,
        with_kl_ucb=with_kl_ucb,
        seed=count(seed, "--seed", 0),
        threads=count(threads, "--threads") if threads else None,
        continuable=continuable,
    )


def _reproduce(
    part: Part,
    names: list[str] | None,
    list_: bool,
    folder: Path,
    options: RunOptions,
    cluster: str | None,
    *,
    next_: str,
) -> None:
    """Run experiments of one part of the catalogue, and print claims and verdicts.

    Parameters
    ----------
    part : {"paper", "beyond"}
        The part of the catalogue.
    names : list of str or None
        Its experiments, as typed; all of them by default.
    list_ : bool
        Whether to list them and stop.
    folder : Path
        Where the report goes.
    options : RunOptions
        How to run them.
    cluster : str or None
        Where to run them, as typed.
    next_ : str
        What to try next.
    """
    console = new_console()
    known = experiment_names(part)
    chosen = list(dict.fromkeys(choose("experiment", name, known) for name in names or known))
    if list_:
        show_list(console, chosen, _SOURCES[part])
        return
    from bothworlds.experiments.reproduce import run
    from bothworlds.lanes.jit import NOTICE

    # The status and the board count what is compiled.
    NOTICE.silence()
    board = Board(chosen)
    began = time.perf_counter()
    try:
        full = full_scale() if part == "paper" and options.scale == "quick" else {}
        changed = (options.horizon, options.repetitions, options.arms, options.gaps)
        whole = bool(full) and not names and changed == (None,) * len(changed)
        found = _repeat_sample(console, folder, options.threads) if whole else None
        with executor(cluster, options.threads) as workers, board.shown(console):
            done = run(
                chosen, output=folder, executor=workers, progress=board.update, say=board.say,
                finished=board.finish, compiling=board.compiling, **vars(options),
            )  # fmt: skip
    except KeyboardInterrupt:
        console.print(
            f"Stopped. Finished runs are kept in {folder}; the same command continues from there."
        )
        raise typer.Exit(130) from None
    show_claims(console, done)
    seconds = time.perf_counter() - began
    simulated = sum(each.simulated for each in done)
    console.print(f"\n{simulated} simulations run now, {duration(seconds)}.\n")
    claims = [claim for each in done for claim in each.claims]
    console.print("Verdict: " + " ".join(lead(claims, full, found)), soft_wrap=True)
    console.print(f"Report: {os.path.join(folder, 'report.html')}", soft_wrap=True)
    console.print(f"Next: {next_}", soft_wrap=True)


def _repeat_sample(console: Console, folder: Path, threads: int | None) -> Reproduced | None:
    """Repeat a sample of the run at the paper's scale, unless the folder holds the outcome."""
    from bothworlds.experiments.claims.sample import remember, remembered, reproduce_sample

    found = remembered(folder)
    if found is None:
        waiting = "Repeating a sample of the run at the paper's scale: 10,000,000 rounds ..."
        if not console.is_terminal:
            console.print(waiting, soft_wrap=True)
        with console.status(waiting) as status:

            def compiling(done: int, total: int) -> None:
                left = f"compiling, {total - done} of {total} kernels remain: minutes at first"
                status.update(f"{waiting} {left}" if done < total else waiting)
                if done == 0 and not console.is_terminal:
                    console.print(f"Compiling {total} kernels: minutes at first, then seconds.")

            found = reproduce_sample(threads, compiling)
        if found is not None:
            folder.mkdir(parents=True, exist_ok=True)
            remember(folder, found)
    if found is not None:
        console.print(f"The paper's own scale was run before. {found}", soft_wrap=True)
    return found


def show_list(console: Console, names: list[str], source: str) -> None:
    """Print the experiments."""
    table = Table(box=None, pad_edge=False)
    for column in ("name", source, "shows"):
        table.add_column(column)
    for name in names:
        each = experiment(name)
        table.add_row(each.id, each.source, each.title)
    console.print(table)


_STYLES = {"holds": "green", "fails": "bold red", "open": "dim", "differs": "yellow"}


def show_claims(console: Console, done: list[Finished]) -> None:
    """Print every claim, ours last, with its measurement, and the reason if it does not hold."""
    claims = [claim for each in done for claim in each.claims]
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    table.add_column("")
    table.add_column("claim", ratio=3)
    table.add_column("measured", ratio=2)
    owner = None
    for claim in ordered(claims):
        if claim.owner != owner:
            owner = claim.owner
            table.add_row("", Text(OWNERS[owner], style="bold"), "")
        verdict = Text(claim.verdict, style=_STYLES[claim.verdict])
        name = claim.id.partition(".")[0]
        table.add_row(verdict, Text(f"{name}: {claim.sentence}"), Text(claim.measured))
        if claim.why:
            full = f"paper's scale: {claim.full}" if claim.full else ""
            table.add_row("", Text(claim.why, style="dim"), Text(full, style="dim"))
    console.print(table)
