"""``bothworlds paper``: reproduce the paper's figures and tables."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from bothworlds.cli.console import console as new_console
from bothworlds.cli.console import refusals
from bothworlds.cli.live_table import Board
from bothworlds.cli.options import Cluster, Continuable, executor
from bothworlds.cli.parse import choose, count, listed, number
from bothworlds.experiments.catalogue import experiment, experiment_names
from bothworlds.experiments.summary import ordered, said
from bothworlds.text import duration

if TYPE_CHECKING:
    from rich.console import Console

    from bothworlds.experiments.archive import Finished
    from bothworlds.experiments.model import Claim


@refusals()
def paper(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Experiments; all of them by default."),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the experiments and stop.")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="The paper's scale: hours instead of minutes.")
    ] = False,
    horizon: Annotated[
        str | None, typer.Option(metavar="ROUNDS", help="Rounds per run, such as 1e6.")
    ] = None,
    repetitions: Annotated[
        str | None, typer.Option(metavar="RUNS", help="Runs per algorithm.")
    ] = None,
    arms: Annotated[
        str | None, typer.Option(metavar="K,...", help="Numbers of arms, such as 2,8,32.")
    ] = None,
    gap: Annotated[
        str | None, typer.Option(metavar="GAP,...", help="Gaps, such as 1/16,1/8.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Folder for the report.", show_default="results/quick or results/full"),
    ] = None,
    seed: Annotated[str, typer.Option(metavar="NUMBER", help="Seeds everything.")] = "0",
    threads: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="Threads.", show_default="all cores")
    ] = None,
    cluster: Cluster = None,
    continuable: Continuable = False,
    kl_ucb: Annotated[bool, typer.Option("--kl-ucb", help="Also run KL-UCB.")] = False,
    extra: Annotated[bool, typer.Option("--extra", hidden=True)] = False,
) -> None:
    """Reproduce the figures and tables of the paper, and judge its claims.

    Writes a folder with report.html, every figure as PNG and PDF, and all
    results as Parquet. Stop it with Ctrl-C; the same command goes on where it
    stopped.
    """
    console = new_console()
    if extra:
        typer.echo("The option --extra is deprecated since 0.2, use --kl-ucb.", err=True)
    known = experiment_names()
    chosen = list(dict.fromkeys(choose("experiment", name, known) for name in names or known))
    if list_:
        show_list(console, chosen)
        return
    scale = "full" if full else "quick"
    folder = output if output is not None else Path("results") / scale
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
                chosen, scale, folder, with_kl_ucb=kl_ucb or extra, progress=board.update,
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
    console.print(f"Next: {_next(full)}", soft_wrap=True)


def show_list(console: Console, names: list[str]) -> None:
    """Print what can be run."""
    table = Table(box=None, pad_edge=False)
    for column in ("name", "in the paper", "shows"):
        table.add_column(column)
    for name in names:
        each = experiment(name)
        table.add_row(each.id, each.source, each.title)
    console.print(table)


def _next(full: bool) -> str:
    """Return what to try next."""
    if full:
        return "bothworlds compare --policies tsallis,ucb1 --environment switching"
    return "bothworlds paper stochastic switching --full runs the paper's own scale"


_STYLES = {"holds": "green", "fails": "bold red", "open": "dim", "differs": "yellow"}


def show_claims(console: Console, done: list[Finished]) -> None:
    """Print every claim, the paper's first, what was measured, and why where it does not hold."""
    claims = [claim for each in done for claim in each.claims]
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    table.add_column("")
    table.add_column("claim", ratio=3)
    table.add_column("measured", ratio=2)
    owner = None
    for claim in ordered(claims):
        if claim.owner != owner:
            owner = claim.owner
            heading = "The paper's" if owner == "paper" else "Ours"
            table.add_row("", Text(heading, style="bold"), "")
        verdict = Text(claim.verdict, style=_STYLES[claim.verdict])
        name = claim.id.partition(".")[0]
        table.add_row(verdict, Text(f"{name}: {claim.sentence}"), Text(claim.measured))
        if claim.why:
            table.add_row("", Text(claim.why, style="dim"), Text(_full(claim), style="dim"))
    console.print(table)


def _full(claim: Claim) -> str:
    return f"paper's scale: {claim.full}" if claim.full else ""
