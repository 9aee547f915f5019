"""`bothworlds results`: list, show, draw and export the simulations so far.

Nothing here changes a store, so all of it can be used while a campaign is running.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bothworlds import text
from bothworlds.campaign.store_view import CurveFiles, StoreView, missing_spans
from bothworlds.cli import parse
from bothworlds.cli.console import Commands, command
from bothworlds.cli.options import argument, option
from bothworlds.cli.selection import Holding, chosen, holdings, stores_in
from bothworlds.errors import InvalidParameter, ResultFileError

if TYPE_CHECKING:
    from bothworlds.simulation.result import Result

WIDTH = 80
"""Columns of a terminal."""

RESULTS = Path("results")
"""Default folder of ``bothworlds paper``."""

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    help="List, show, draw and export simulation results, also while a simulation is running.\n\n"
    "Start with: bothworlds results ls",
)

What = Annotated[
    list[str] | None,
    argument(
        "WHAT",
        "all curves",
        "Words of labels or policies, or the first characters of the code that ls prints under "
        "curve. Several arguments select all curves that match any of them; words in quotes must "
        "all match.",
    ),
]
Store = Annotated[
    Path, typer.Option("--store", metavar="FOLDER", help="A folder with stores in it or below it.")
]


@app.command("ls")
@command
def list_(
    folder: Annotated[Path, argument("FOLDER")] = RESULTS,
) -> None:
    """List every curve: its rounds, its runs done and wanted, its size on disk.

    The other commands find a curve by words of its label and policy, or by the
    code in the last column.

    Example: bothworlds results ls comparison

    Parameters
    ----------
    folder : Path
        A folder with stores in it or below it.
    """
    typer.echo("\n".join(_listing(stores_in(folder))))


def _listing(stores: list[StoreView]) -> Iterator[str]:
    """Yield the lines of the list of everything in some stores."""
    contents = [(store, store.shelves(), *store.sizes()) for store in stores]
    head = "policy", "horizon", "seed", "runs", "", "size", "curve"
    rows = {
        (store, shelf.stem): _row(shelf, size[shelf.stem])
        for store, shelves, _, size in contents
        for shelf in shelves
    }
    widths = [max(map(len, column)) for column in zip(head, *rows.values(), strict=True)]
    indent, gap = "    ", "  "
    others = sum(widths[1:]) + len(gap) * len(widths[1:])
    widths[0] = min(widths[0], WIDTH - len(indent) - others)

    def line(cells: Sequence[str]) -> str:
        first = f"{text.clipped(cells[0], widths[0]):{widths[0]}}"
        rest = [f"{cell:>{width}}" for cell, width in zip(cells[1:], widths[1:], strict=True)]
        return indent + gap.join([first, *rest])

    yield line(head)
    for store, shelves, _, _ in contents:
        yield str(store.folder)
        for title, group in groupby(shelves, key=lambda shelf: shelf.title):
            yield text.clipped(f"  {title}", WIDTH)
            yield from (line(rows[store, shelf.stem]) for shelf in group)
    yield from textwrap.wrap(_totals(contents), WIDTH)


def _row(shelf: CurveFiles, size: int) -> tuple[str, ...]:
    wanted, mark = str(shelf.wanted), "done"
    if not shelf.wanted:
        wanted, mark = "?", ""
    elif not shelf.complete:
        mark = f"{text.percent(_have(shelf), shelf.wanted)} %"
    runs = f"{shelf.done}/{wanted}"
    numbers = text.typed(shelf.horizon), text.clipped(str(shelf.about["seed"]), 10)
    return shelf.name, *numbers, runs, mark, text.size(size), shelf.stem[:8]


def _have(shelf: CurveFiles) -> int:
    """Return how many of the runs asked for are there."""
    if not shelf.wanted:
        return shelf.done
    return shelf.wanted - sum(high - low for low, high in shelf.missing)


def _totals(contents: list[tuple[StoreView, list[CurveFiles], Counter[str], Counter[str]]]) -> str:
    shelves = [shelf for _, each, _, _ in contents for shelf in each]
    complete = sum(shelf.complete for shelf in shelves)
    have = sum(map(_have, shelves))
    wanted = sum(shelf.wanted or shelf.done for shelf in shelves)
    files = sum(count.total() for _, _, count, _ in contents)
    size = sum(size.total() for _, _, _, size in contents)
    aside = sum(len(store.damaged()) for store, _, _, _ in contents)
    told = (
        f"{complete} of {text.counted(len(shelves), 'curve')} complete; {have:,} of {wanted:,} "
        f"runs ({text.percent(have, wanted)} %); {text.counted(files, 'file')}, {text.size(size)}"
    )
    return told + (f"; {text.counted(aside, 'damaged file')} set aside" if aside else "")


@app.command()
@command
def show(
    what: Annotated[list[str], argument("WHAT")],
    store: Store = RESULTS,
) -> None:
    """Show one curve: its settings, its progress, its regret at the last round.

    Example: bothworlds results show switching K=8 UCB1

    Parameters
    ----------
    what : list[str]
        Words of one curve's label and policy, or the first characters of the code that ls prints
        under curve.
    """
    words = " ".join(what)
    found = chosen([words], holdings(store))
    if len(found) > 1:
        longest = max(len(each.shelf.stem) for each in found)
        for shelf in (each.shelf for each in found):
            typer.echo(
                text.clipped(f"{shelf.stem:{longest}}  {shelf.name} in {shelf.title}", WIDTH)
            )
        raise InvalidParameter(
            f"There are {len(found)} curves for {words!r}, and show takes one: add words, or "
            "give the first characters of a code."
        )
    typer.echo("\n".join(_portrait(found[0])))


def _portrait(holding: Holding) -> Iterator[str]:
    """Yield the lines that describe one curve."""
    from bothworlds.simulation.assembly import assemble

    store, shelf = holding.store, holding.shelf
    parts = list(store.parts(shelf))
    outcomes = [outcome for _, outcome in parts]
    done = sum(outcome.count for outcome in outcomes)
    have = [(outcome.first, outcome.first + outcome.count) for outcome in outcomes]
    files, size = store.sizes()
    horizon, rounds = shelf.horizon, shelf.about["checkpoints"]
    about = {
        "policy": shelf.about["policy"],
        "environment": shelf.about["environment"],
        "labels": "; ".join(shelf.labels) or "none",
        "arms": shelf.about["arms"],
        "seed": shelf.about["seed"],
        "horizon": text.typed(horizon),
        "checkpoints": f"{len(rounds)}, from round {rounds[0]:,} to {rounds[-1]:,}",
        "repetitions": _repetitions(done, shelf.wanted, missing_spans(have, shelf.wanted)),
    }
    if outcomes:
        wall, cpu = sum(o.wall for o in outcomes), sum(o.cpu for o in outcomes)
        kept = sum(outcome.count for told, outcome in parts if told["continuable"])
        fast = text.speed(done * horizon / max(wall, 1e-9))
        about["time"] = (
            f"{text.short_duration(wall)} in workers (CPU {text.short_duration(cpu)}), {fast} each"
        )
        about["continuable"] = "no" if not kept else "yes" if kept == done else f"{kept} of {done}"
        about["versions"] = _versions([told["versions"] for told, _ in parts])
    about["files"] = f"{files[shelf.stem]:,}, {text.size(size[shelf.stem])}"
    about["curve"] = shelf.stem
    yield shelf.name
    for key, value in about.items():
        indent = f"  {key:13}"
        yield from textwrap.wrap(
            str(value), WIDTH, initial_indent=indent, subsequent_indent=" " * len(indent),
            break_on_hyphens=False,
        )  # fmt: skip
    # Not wrapped: a path is there to be copied.
    yield f"  {'store':13}{store.folder}"
    yield ""
    if outcomes:
        yield str(assemble({shelf.name: (parts[-1][0], outcomes)}).summary())
    else:
        yield "No run is finished yet."


def _repetitions(done: int, wanted: int, missing: Sequence[tuple[int, int]]) -> str:
    if not wanted:
        return f"{done}"
    lacking = [f"{low} to {high - 1}" if high - low > 1 else f"{low}" for low, high in missing]
    some = ", ".join([*lacking[:4], *(["..."] if len(lacking) > 4 else [])])
    return f"{done} of {wanted}" + (f", without {some}" if missing else "")


def _versions(told: list[dict[str, str]]) -> str:
    """Return the software versions that computed the files, all of them where they differ."""
    return ", ".join(
        f"{package} {' and '.join(dict.fromkeys(each.get(package, '?') for each in told))}"
        for package in dict.fromkeys(package for each in told for package in each)
    )


@app.command()
@command
def plot(
    what: What = None,
    output: Annotated[Path, option("FILE")] = Path("regret.png"),
    store: Store = RESULTS,
) -> None:
    """Draw regret over time, of all finished runs.

    Curves of one environment, horizon and seed share a figure. If there are
    several such figures, their labels are added to the name of the file:
    regret-<label>.png.

    Example: bothworlds results plot "switching K=8" --output switching.pdf

    Parameters
    ----------
    output : Path
        A name ending in .png, .pdf or .svg.
    """
    if output.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise parse.wrong("--output", "a name ending in .png, .pdf or .svg", str(output))
    found = [each for each in chosen(what or [], holdings(store)) if each.shelf.spans]
    together: dict[tuple[Any, ...], list[Holding]] = {}
    for each in found:
        about = each.shelf.about
        key = about["environment"], about["seed"], *about["checkpoints"]
        together.setdefault(key, []).append(each)
    groups = list(together.values())
    titles = _titles(groups)
    drawn = 0
    for group, title, path in zip(groups, titles, _paths(output, titles), strict=True):
        result = _together(group)
        if result is not None:
            _draw(result, title, path)
            partial = sum(not each.shelf.complete for each in group)
            note = f", {partial} of them not complete" if partial else ""
            typer.echo(f"Written: {path} ({text.counted(len(result.names), 'curve')}{note})")
            drawn += 1
    if not drawn:
        raise ResultFileError("None of these curves has a finished run yet.")


def _titles(groups: list[list[Holding]]) -> list[str]:
    """Return a title for every group, no two alike as far as settings tell them apart."""
    titles = []
    for group in groups:
        labels = dict.fromkeys(label for each in group for label in each.shelf.labels)
        titles.append("; ".join(labels) or group[0].shelf.title)
    common = Counter(titles)
    for place, (title, (first, *_)) in enumerate(zip(titles, groups, strict=True)):
        if common[title] > 1:
            numbers = f"T={text.typed(first.shelf.horizon)}, seed {first.shelf.about['seed']}"
            titles[place] = f"{title}, {numbers}"
    return titles


def _paths(output: Path, titles: list[str]) -> list[Path]:
    """Return a file for every title: the one given, or several named after it."""
    if len(titles) == 1:
        return [output]
    paths: list[Path] = []
    for title in titles:
        words = re.sub(r"[^A-Za-z0-9=.]+", "-", title).strip("-.")[:80]
        name = f"{output.stem}-{words}"
        again = sum(path.stem == name or path.stem.startswith(f"{name}~") for path in paths)
        paths.append(output.with_name(f"{name}{f'~{again + 1}' if again else ''}{output.suffix}"))
    return paths


def _together(group: list[Holding]) -> Result | None:
    """Return the runs of curves that met one environment; None where no file can be used."""
    from bothworlds.simulation.assembly import assemble

    common = Counter(each.shelf.name for each in group)
    parts = {}
    for each in group:
        shelf = each.shelf
        name = shelf.name if common[shelf.name] == 1 else f"{shelf.name} [{shelf.stem[:8]}]"
        parts[name] = each.store.read(shelf)
    return assemble(parts) if any(outcomes for _, outcomes in parts.values()) else None


def _draw(result: Result, title: str, path: Path) -> None:
    from bothworlds import plotting

    figure = plotting.plot_result(result, title="\n".join(textwrap.wrap(title, 90, max_lines=3)))
    plotting.save(figure, path)


@app.command()
@command
def export(
    file: Annotated[Path, argument("FILE")],
    what: What = None,
    store: Store = RESULTS,
) -> None:
    """Write every run's regret at every checkpoint as one table.

    For pandas, polars, DuckDB or R. The columns: label, policy, environment,
    arms, horizon, seed, repetition, round, regret and curve, which is the code
    that ls and show print.

    Example: bothworlds results export regret.parquet --store comparison

    Parameters
    ----------
    file : Path
        A name ending in .parquet or .csv.
    """
    from bothworlds.simulation import export

    found = chosen(what or [], holdings(store))
    count, rows = export.export(file, [(each.store, each.shelf) for each in found])
    partial = sum(not each.shelf.complete for each in found)
    note = f"; {partial} of {len(found)} are not complete" if partial else ""
    typer.echo(
        f"Written: {file} ({text.counted(count, 'curve')}, {text.counted(rows, 'row')}{note})"
    )
