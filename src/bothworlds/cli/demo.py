"""`bothworlds demo`: four live experiments, an attack, and policies compared."""

from __future__ import annotations

import signal
import threading
import webbrowser
from collections.abc import Sequence
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

from bothworlds.cli.console import command, console
from bothworlds.cli.options import flag, option
from bothworlds.cli.serve import extras
from bothworlds.errors import invalid

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from bothworlds.demo.race import Picture
    from bothworlds.demo.run import Demonstration

_EVERY = 10.0
"""Seconds between the tables where there is no terminal."""


@command
def demo(
    seconds: Annotated[float | None, option("N", "until Ctrl-C")] = None,
    seed: Annotated[int, option("NUMBER", min=0)] = 1,
    port: Annotated[int, option("PORT", min=0, max=65_535)] = 0,
    browser: Annotated[bool, flag("--browser/--no-browser")] = True,
) -> None:
    """Watch four live experiments, one of them under attack, and compare policies.

    A service decides by Tsallis-INF, over HTTP on this machine, in a temporary folder. Thompson
    sampling and UCB1 play the same traffic. Nothing leaves the machine, nothing stays on it.

    Example: bothworlds demo --seconds 60

    Parameters
    ----------
    seconds : float, optional
        How long to run.
    seed : int
        Seed of the traffic and the rivals.
    port : int
        Port of the service; 0 takes a free one.
    browser : bool
        Open dashboard and page in a browser.
    """
    if seconds is not None and not 0.0 < seconds < 1e9:
        raise invalid("--seconds", "bothworlds demo", "a positive number", seconds)
    screen = console()
    stop = threading.Event()
    racing = False

    def stopped(number: int, frame: FrameType | None) -> None:
        """Let the race come to its end; a setup in progress is cancelled."""
        stop.set()
        if not racing:
            raise KeyboardInterrupt

    # From here on Ctrl-C is a wish to end, not an error, regardless of what is going on.
    before = {number: signal.signal(number, stopped) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with extras():
            from bothworlds.demo.run import demonstration

            with demonstration(seed=seed, port=port, said=screen.print) as made:
                screen.print(f"Comparison:    {made.page}")
                screen.print(f"Dashboard:     {made.service}")
                if browser:
                    webbrowser.open(made.service)
                    webbrowser.open(made.page)
                racing = True
                _shown(made, screen, seconds, stop)
    except KeyboardInterrupt:
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    screen.print("Stopped; all data of the demo are deleted.")


def _shown(
    made: Demonstration, screen: Console, seconds: float | None, stop: threading.Event
) -> None:
    """Run the race and show how it stands."""
    race = made.race
    if screen.is_terminal:
        from rich.live import Live

        with Live(console=screen, get_renderable=lambda: table(race.pictures()),
                  refresh_per_second=2, transient=True):  # fmt: skip
            race.run(seconds, stop.is_set, lambda: None)
        screen.print(table(race.pictures()))
        return
    shown = 0.0

    def told() -> None:
        nonlocal shown
        at = race.pictures()[0].rounds / race.rate
        if at - shown >= _EVERY:
            shown = at
            screen.print(table(race.pictures()))

    race.run(seconds, stop.is_set, told)
    screen.print(table(race.pictures()))


def table(pictures: Sequence[Picture]) -> RenderableType:
    """Return how all experiments stand, in 80 columns."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    made.add_column("", min_width=36, no_wrap=True)
    for name in ("lost", "worst", "plays best", "misled"):
        made.add_column(name, justify="right", no_wrap=True)
    for each in pictures:
        made.add_row(Text(f"{each.title} ({each.unit})", style="bold"))
        for s in each.standings:
            cells: list[Any] = [
                f"  {s.player}", f"{s.lost:,.0f}", f"{s.worst:,.0f}", f"{100 * s.best:.0f} %",
                s.verdict,
            ]  # fmt: skip
            made.add_row(*cells)
    troubles = [f"{each.name}: {each.trouble}" for each in pictures if each.trouble]
    now = "; ".join(troubles) or "nothing special"
    rounds = pictures[0].rounds if pictures else 0
    said = f"{rounds:,} rounds each. Now {now}."
    return Group(made, Text(said, style="dim", overflow="ellipsis", no_wrap=True))
