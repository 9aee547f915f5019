"""Commands that reproduce experiments: options, progress and verdicts that they share."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from bothworlds.cli.console import console as new_console
from bothworlds.cli.live_table import Board
from bothworlds.cli.options import executor
from bothworlds.cli.parse import choose, count, listed, number
from bothworlds.experiments.catalogue import Part, experiment, experiment_names
from bothworlds.experiments.summary import OWNERS, ordered, said
from bothworlds.text import duration

if TYPE_CHECKING:
    from rich.console import Console

    from bothworlds.experiments.archive import Finished
    from bothworlds.experiments.model import Claim

Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME", help="Experiments; all of them by default."),
]
List = Annotated[bool, typer.Option("--list", help="List the experiments and stop.")]
Horizon = Annotated[str | None, typer.Option(metavar="ROUNDS", help="Rounds per run, such as 1e6.")]
Repetitions = Annotated[str | None, typer.Option(metavar="RUNS", help="Runs per algorithm.")]
Seed = Annotated[str, typer.Option(metavar="NUMBER", help="Seeds everything.")]
NumberOfThreads = Annotated[
    str | None, typer.Option(metavar="NUMBER", help="Threads.", show_default="all cores")
]

_SOURCES: dict[Part, str] = {"paper": "in the paper", "beyond": "by whom"}
"""What the list calls the source of an experiment."""


def reproduce(
    part: Part,
    names: list[str] | None,
    list_: bool,
    folder: Path,
    scale: str,
    *,
    next_: str,
    horizon: str | None,
    repetitions: str | None,
    seed: str,
    threads: str | None,
    cluster: str | None,
    continuable: bool,
    arms: str | None = None,
    gap: str | None = None,
    with_kl_ucb: bool = False,
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
    scale : {"quick", "full"}
        How large the run is.
    next_ : str
        What to try next.
    horizon, repetitions, seed, threads, cluster, continuable, arms, gap, with_kl_ucb
        The options, as typed.
    """
    console = new_console()
    known = experiment_names(part)
    chosen = list(dict.fromkeys(choose("experiment", name, known) for name in names or known))
    if list_:
        show_list(console, chosen, _SOURCES[part])
        return
    options: dict[str, Any] = {
        "horizon": horizon and count(horizon, "--horizon", 100),
        "repetitions": repetitions and count(repetitions, "--repetitions", 2),
        "threads": threads and count(threads, "--threads"),
        "arms": arms and [count(word, "--arms", 2) for word in listed(arms, "--arms")],
        "gaps": gap and [number(word, "--gap") for word in listed(gap, "--gap")],
        "seed": count(seed, "--seed", 0),
    }
    from bothworlds.experiments.reproduce import run

    board = Board(chosen)
    began = time.perf_counter()
    try:
        with executor(cluster, threads) as workers, board.shown(console):
            done = run(
                chosen, scale, folder, with_kl_ucb=with_kl_ucb, progress=board.update,
                say=board.say, finished=board.finish, executor=workers, compiling=board.compiling,
                continuable=continuable, **options,
            )  # fmt: skip
    except KeyboardInterrupt:
        console.print(
            f"Stopped. What is finished is kept in {folder}; the same command goes on from there."
        )
        raise typer.Exit(130) from None
    show_claims(console, done)
    seconds = time.perf_counter() - began
    simulated = sum(each.simulated for each in done)
    console.print(f"\n{simulated} simulations run now, {duration(seconds)}.\n")
    claims = [claim for each in done for claim in each.claims]
    console.print("Verdict: " + " ".join(said(claims)), soft_wrap=True)
    console.print(f"Report: {os.path.join(folder, 'report.html')}", soft_wrap=True)
    console.print(f"Next: {next_}", soft_wrap=True)


def show_list(console: Console, names: list[str], source: str) -> None:
    """Print what can be run."""
    table = Table(box=None, pad_edge=False)
    for column in ("name", source, "shows"):
        table.add_column(column)
    for name in names:
        each = experiment(name)
        table.add_row(each.id, each.source, each.title)
    console.print(table)


_STYLES = {"holds": "green", "fails": "bold red", "open": "dim", "differs": "yellow"}


def show_claims(console: Console, done: list[Finished]) -> None:
    """Print every claim, ours last, what was measured, and why where it does not hold."""
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
            table.add_row("", Text(claim.why, style="dim"), Text(_full(claim), style="dim"))
    console.print(table)


def _full(claim: Claim) -> str:
    return f"paper's scale: {claim.full}" if claim.full else ""
