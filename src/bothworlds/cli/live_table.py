"""The live table of ``bothworlds paper`` and ``beyond``: progress, speed and remaining time."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from bothworlds.experiments.claims.summary import tally
from bothworlds.text import duration

if TYPE_CHECKING:
    from bothworlds.experiments.report.archive import Finished
    from bothworlds.experiments.reproduce import Moment

PATIENCE = 15.0
"""Seconds between two lines about kernels where there is no terminal."""


class Board:
    """A row per experiment; on a terminal it is live, elsewhere a line for each one finished.

    Parameters
    ----------
    names : list of str
        The experiments to come.
    """

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self._moments: dict[str, Moment] = {}
        self._done: dict[str, Finished] = {}
        self._lock = threading.Lock()
        self._console: Console | None = None
        self._began = time.perf_counter()
        self._compiled = ""
        self._printed = self._began

    @contextlib.contextmanager
    def shown(self, console: Console) -> Iterator[None]:
        """Show the board while the ``with`` block runs."""
        self._console = console
        if console.is_terminal:
            # The board is asked for its rows; progress reports never wait for the screen.
            with Live(console=console, get_renderable=self.table, refresh_per_second=5):
                yield
        else:
            yield

    def update(self, moment: Moment) -> None:
        """Take note of progress."""
        with self._lock:
            self._moments[moment.experiment] = moment

    def finish(self, each: Finished) -> None:
        """Take note of a finished experiment."""
        with self._lock:
            self._done[each.id] = each
            self._moments.pop(each.id, None)
        if self._console is not None and not self._console.is_terminal:
            self._console.print(f"{each.id}: {_told(each)}", soft_wrap=True)

    def compiling(self, done: int, total: int) -> None:
        """Record how many kernels are compiled; print it, unless on a terminal."""
        with self._lock:
            left = f"{total - done} of {total} kernels remain"
            self._compiled = f"compiling, {left}" if done < total else ""
        if self._console is not None and not self._console.is_terminal:
            if done == 0:
                self._console.print(f"Compiling {total} kernels: minutes at first, then seconds.")
            elif done < total and time.perf_counter() - self._printed > PATIENCE:
                self._printed = time.perf_counter()
                self._console.print(f"Compiling; {left}.")
            elif done == total:
                self._console.print("Running; a line follows for every finished experiment.")

    def say(self, sentence: str) -> None:
        """Print a sentence above the board."""
        if self._console is not None:
            self._console.print(sentence, soft_wrap=True)

    def table(self) -> RenderableType:
        """Return the board as it is now."""
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
        table.add_column("experiment", min_width=12, no_wrap=True)
        table.add_column("cell", min_width=20, max_width=25, no_wrap=True)
        table.add_column("algorithm", min_width=17, no_wrap=True)
        table.add_column("Mrounds/s", justify="right")
        table.add_column("left", justify="right", min_width=9, no_wrap=True)
        with self._lock:
            moments, done = dict(self._moments), dict(self._done)
        for name in self._names:
            if name in done:
                # Two verdicts fit into a column, the rest into the next.
                told, took = _verdicts(done[name]), duration(done[name].seconds)
                cells = (", ".join(told[:2]), ", ".join(told[2:]), "", took)
                table.add_row(name, *(Text(cell, style="dim") for cell in cells))
            elif name in moments:
                moment = moments[name]
                rate = f"{moment.rate / 1e6:,.1f}" if moment.rate else ""
                cell = f"{moment.place}/{moment.cells} {moment.cell}"
                left = duration(moment.left) if moment.rate else ""
                table.add_row(name, cell, moment.algorithm, rate, left)
            else:
                table.add_row(Text(name, style="dim"))
        spent = duration(time.perf_counter() - self._began)
        doing = f"{self._compiled}; " if self._compiled else ""
        said = f"{doing}{spent} so far; Ctrl-C stops, nothing is lost"
        return Group(table, Text(said, style="dim"))


def _verdicts(each: Finished) -> list[str]:
    return tally([claim.verdict for claim in each.claims])


def _told(each: Finished) -> str:
    return f"{', '.join(_verdicts(each))}; {duration(each.seconds)}"
