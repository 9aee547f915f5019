"""``bothworlds paper``: reproduce the paper's figures and tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bothworlds.cli import reproduce
from bothworlds.cli.console import refusals
from bothworlds.cli.options import Cluster, Continuable


@refusals()
def paper(
    names: reproduce.Names = None,
    list_: reproduce.List = False,
    full: Annotated[
        bool, typer.Option("--full", help="The paper's scale: hours instead of minutes.")
    ] = False,
    horizon: reproduce.Horizon = None,
    repetitions: reproduce.Repetitions = None,
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
    seed: reproduce.Seed = "0",
    threads: reproduce.NumberOfThreads = None,
    cluster: Cluster = None,
    continuable: Continuable = False,
    kl_ucb: Annotated[bool, typer.Option("--kl-ucb", help="Also run KL-UCB.")] = False,
) -> None:
    """Reproduce the figures and tables of the paper, and judge its claims.

    Writes a folder with report.html, every figure as PNG and PDF, and all
    results as Parquet. Stop it with Ctrl-C; the same command goes on where it
    stopped.
    """
    scale = "full" if full else "quick"
    folder = output if output is not None else Path("results") / scale
    reproduce.reproduce(
        "paper", names, list_, folder, scale, next_=_next(full), horizon=horizon,
        repetitions=repetitions, seed=seed, threads=threads, cluster=cluster,
        continuable=continuable, arms=arms, gap=gap, with_kl_ucb=kl_ucb,
    )  # fmt: skip


def _next(full: bool) -> str:
    """Return what to try next."""
    if full:
        return "bothworlds compare --policies tsallis,ucb1 --environment switching"
    return "bothworlds paper stochastic switching --full runs the paper's own scale"
