"""Options that several commands share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import Executor
from typing import Annotated

import typer

from bothworlds.errors import InvalidParameter

Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Run on a Dask cluster: tcp://host:8786, or local for a process per core.",
        show_default="threads of this process",
    ),
]

Continuable = Annotated[
    bool,
    typer.Option(
        "--continuable",
        help="Also store the state of every run, so that a longer --horizon continues from it.",
    ),
]

Repetitions = Annotated[str, typer.Option(help="Independent runs of every policy.", metavar="N")]

Seed = Annotated[str, typer.Option(help="The same seed gives the same numbers.", metavar="SEED")]

Threads = Annotated[
    str | None,
    typer.Option(help="Threads to use.", metavar="N", show_default="one per core"),
]


@contextlib.contextmanager
def executor(cluster: str | None, threads: object) -> Iterator[Executor | None]:
    """Give the executor of a cluster, or None where this process does the work."""
    if cluster is None:
        yield None
        return
    if threads is not None:
        raise InvalidParameter("The option --threads is for this process, not for a --cluster.")
    from bothworlds.campaign.dask import cluster as workers_of

    with workers_of(cluster) as made:
        yield made
