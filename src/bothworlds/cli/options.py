"""Options that several commands share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bothworlds.errors import InvalidParameter

if TYPE_CHECKING:
    from concurrent.futures import Executor


def option(
    metavar: str | None = None, shown: str | bool = True, help: str | None = None, **more: Any
) -> Any:
    """Return an option: the name of its value, and the default that is shown."""
    return typer.Option(help=help, metavar=metavar, show_default=shown, **more)


def argument(metavar: str, shown: str | bool = True, help: str | None = None) -> Any:
    """Return an argument, likewise."""
    return typer.Argument(help=help, metavar=metavar, show_default=shown)


def flag(name: str, help: str | None = None) -> Any:
    """Return an option without a value."""
    return typer.Option(name, help=help)


_CLUSTER = "Run on a Dask cluster: tcp://host:8786, or local for a process per core."
Cluster = Annotated[str | None, option("ADDRESS", "threads of this process", _CLUSTER)]

_CONTINUABLE = "Also store the state of every run, so that a longer --horizon continues from it."
Continuable = Annotated[bool, flag("--continuable", _CONTINUABLE)]

Repetitions = Annotated[str, option("N", help="Independent runs of every policy.")]

AsJson = Annotated[bool, flag("--json", "Print JSON, for programs.")]

Seed = Annotated[str, option("SEED", help="The same seed gives the same numbers.")]

Threads = Annotated[str | None, option("N", "one per core", "Threads to use.")]


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
