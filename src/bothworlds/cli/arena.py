"""`bothworlds arena`: which policy for which world, as a heat map and in words."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bothworlds.cli import parse
from bothworlds.cli.compare import progress_bar
from bothworlds.cli.console import STOPPED, command, console, say
from bothworlds.cli.options import Repetitions, Seed, Threads, option
from bothworlds.files import replacing

if TYPE_CHECKING:
    from bothworlds.simulation.result import Result

ALL = "all"


@command
def arena(
    policies: Annotated[str, option("NAMES")] = ALL,
    worlds: Annotated[str, option("NAMES")] = ALL,
    arms: Annotated[str, option("K")] = "5",
    gap: Annotated[str, option("GAP")] = "0.2",
    horizon: Annotated[str, option("T")] = "1e4",
    repetitions: Repetitions = "48",
    seed: Seed = "0",
    threads: Threads = None,
    output: Annotated[Path, option("FOLDER")] = Path("arena"),
) -> None:
    """Run every policy in every kind of world and draw the regret of each.

    Prints a line for every world, draws a heat map of regret and saves every run. Ctrl-C stops
    early; the same command resumes where it stopped.

    Example: bothworlds arena --policies tsallis,ucb1,thompson --worlds drift,delay

    Parameters
    ----------
    policies : str
        Policies separated by commas, or all.
    worlds : str
        Worlds separated by commas, such as drift,delay, or all.
    arms : str
        Number of arms.
    gap : str
        How much more all arms but the best lose per round.
    horizon : str
        Number of rounds.
    output : Path
        Folder for the heat map (PNG, PDF), the table (Markdown) and the runs.
    """
    from bothworlds.experiments.arena import WORLDS, entrants, in_words, play
    from bothworlds.plotting import plot_regret_table, save

    rounds = parse.count(horizon, "--horizon")
    chosen = entrants if policies == ALL else functools.partial(parse.policies, policies)
    chosen(rounds)  # unknown names are refused before anything is written
    named = [
        parse.choose("world", word, WORLDS)
        for word in (WORLDS if worlds == ALL else parse.listed(worlds, "--worlds"))
    ]
    n_arms, distance = parse.count(arms, "--arms", least=4), parse.number(gap, "--gap")
    output.mkdir(parents=True, exist_ok=True)
    screen = console(stderr=True)
    found: dict[str, Result] = {}
    with progress_bar(screen) as show:
        try:
            for name, result in play(
                chosen, named, n_arms=n_arms, gap=distance, horizon=rounds,
                repetitions=parse.count(repetitions, "--repetitions"),
                seed=parse.count(seed, "--seed", least=0),
                threads=None if threads is None else parse.count(threads, "--threads"),
                store=output / "store", progress=lambda world: show,
            ):  # fmt: skip
                found[name] = result
        except KeyboardInterrupt:
            pass
    stopped = not found or any(result.interrupted for result in found.values())
    stopped = stopped or len(found) < len(named)
    found = {name: result for name, result in found.items() if not result.interrupted}
    if found:
        table = in_words(found)
        typer.echo(table, nl=False)
        title = f"{n_arms} arms, gap {distance:g}, {rounds:,} rounds"
        figure = plot_regret_table(
            {name.replace(" ", "\n"): result for name, result in found.items()}, title=title
        )
        for ending in ("png", "pdf"):
            save(figure, output / f"arena.{ending}")
        with replacing(output / "arena.md") as draft:
            draft.write_text(table, encoding="utf-8")
        typer.echo(f"Written: {output}/arena.png, .pdf and .md")
    if stopped:
        say(f"Stopped early: {len(found)} of {len(named)} worlds are complete.")
        raise typer.Exit(STOPPED)
