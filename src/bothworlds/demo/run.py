"""Run of the demonstration: a service in a temporary folder, the race, and its page."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bothworlds.client.blocking import Client
from bothworlds.demo.page import served
from bothworlds.demo.race import COPIES, RATE, Race
from bothworlds.serve.background import background
from bothworlds.serve.domain.service import Settings


@dataclass(frozen=True)
class Demonstration:
    """A demonstration that is set up.

    Parameters
    ----------
    race : Race
        To be run.
    service, page : str
        The addresses of the service and of the page.
    folder : Path
        Where the store is; it is removed at the end.
    """

    race: Race
    service: str
    page: str
    folder: Path


@contextlib.contextmanager
def demonstration(
    *,
    seed: int = 1,
    rate: int = RATE,
    copies: int = COPIES,
    port: int = 0,
    page_port: int = 0,
    said: Callable[[str], None] = lambda sentence: None,
) -> Iterator[Demonstration]:
    """Set up a demonstration, and take it down without a trace.

    Parameters
    ----------
    seed : int
        Seed of the traffic and of the competing policies.
    rate : int
        Rounds a second of every experiment.
    copies : int
        Copies of each rival.
    port, page_port : int
        Where the service and the page listen; 0 takes a free port.
    said : callable
        Called with a message before slow steps.
    """
    with tempfile.TemporaryDirectory(prefix="bothworlds-demo-") as folder:
        said("Starting the service; the first start compiles, for half a minute or so.")
        store = str(Path(folder) / "demo.db")
        # Checkpoints are the points of the dashboard's curves: a visitor wants to see them move.
        settings = Settings(checkpoint_seconds=1.0)
        with (
            background(store, port=port, settings=settings) as service,
            Client(service, timeout=600.0, feedback_timeout=600.0) as client,
        ):
            race = Race(client, seed, rate, copies)
            with served(race.pictures, service, page_port) as page:
                yield Demonstration(race, service, page, Path(folder))
