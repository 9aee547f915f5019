"""Options that several commands share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bothworlds.errors import InvalidParameter

if TYPE_CHECKING:
    from concurrent.futures import Executor


def option(help: str, metavar: str | None = None, shown: str | bool = True, **more: Any) -> Any:
    """Describe an option: its help, the name of its value, and the default that is shown."""
    return typer.Option(help=help, metavar=metavar, show_default=shown, **more)


def argument(help: str, metavar: str, shown: str | bool = True) -> Any:
    """Describe an argument, likewise."""
    return typer.Argument(help=help, metavar=metavar, show_default=shown)


def flag(name: str, help: str) -> Any:
    """Describe an option without a value."""
    return typer.Option(name, help=help)


Cluster = Annotated[
    str | None,
    option(
        "Run on a Dask cluster: tcp://host:8786, or local for a process per core.",
        "ADDRESS",
        "threads of this process",
    ),
]

Continuable = Annotated[
    bool,
    flag(
        "--continuable",
        "Also store the state of every run, so that a longer --horizon continues from it.",
    ),
]

Repetitions = Annotated[str, option("Independent runs of every policy.", "N")]

Seed = Annotated[str, option("The same seed gives the same numbers.", "SEED")]

Threads = Annotated[str | None, option("Threads to use.", "N", "one per core")]


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
