"""``bothworlds beyond``: measure what came after the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bothworlds.cli import reproduce
from bothworlds.cli.console import refusals
from bothworlds.cli.options import Cluster, Continuable


@refusals()
def beyond(
    names: reproduce.Names = None,
    list_: reproduce.List = False,
    full: Annotated[
        bool, typer.Option("--full", help="1,000 runs of everything instead of 256.")
    ] = False,
    horizon: reproduce.Horizon = None,
    repetitions: reproduce.Repetitions = None,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the report.", show_default="results/beyond or results/beyond-full"
        ),
    ] = None,
    seed: reproduce.Seed = "0",
    threads: reproduce.NumberOfThreads = None,
    cluster: Cluster = None,
    continuable: Continuable = False,
) -> None:
    """Measure what came after the paper, and judge the claims about it.

    Low rates, heavy tails, best arms that move, late feedback and floors:
    claims of the authors, and ours. Writes a folder as the command paper does.
    Stop it with Ctrl-C; the same command goes on where it stopped.
    """
    default = Path("results") / ("beyond-full" if full else "beyond")
    reproduce.reproduce(
        "beyond", names, list_, output if output is not None else default,
        "full" if full else "quick", next_="bothworlds arena shows which policy suits which world",
        horizon=horizon, repetitions=repetitions, seed=seed, threads=threads, cluster=cluster,
        continuable=continuable,
    )  # fmt: skip
