"""`bothworlds report`: means of the arms of a saved bandit or a log, with intervals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bothworlds.cli import parse
from bothworlds.cli.console import command, console, new_table
from bothworlds.cli.options import AsJson, argument, flag, option
from bothworlds.errors import InvalidParameter, StateFileError

if TYPE_CHECKING:
    from rich.table import Table

    from bothworlds.evidence.report import Report

Confidence = Annotated[str, option("C", help="Confidence of every statement, from 0.5 to 0.999.")]
Bounds = Annotated[
    tuple[float, float], option("LO HI", help="The smallest and largest reward or loss of a log.")
]
Between = Annotated[
    tuple[int, int] | None,
    option("FIRST LAST", "all", help="First and last round of the log to include."),
]
By = Annotated[
    str | None,
    option(
        "COLUMN or N",
        False,
        help="One answer for every value of this column of a log, or for every N rounds.",
    ),
]


@command
def report(
    source: Annotated[Path, argument("STATE_OR_LOG")],
    confidence: Confidence = "0.95",
    drift: Annotated[bool, flag("--drift")] = False,
    bounds: Bounds = (0.0, 1.0),
    between: Between = None,
    by: By = None,
    plot: Annotated[Path | None, option("FILE", False)] = None,
    as_json: AsJson = False,
) -> None:
    """Print the mean of every arm with its interval, and which arms are better with confidence.

    Example: bothworlds report state.json

    Parameters
    ----------
    source : Path
        A state file of Bandit.save or bothworlds decide, or a log of decisions: .parquet, .jsonl,
        .vw or .csv.
    drift : bool
        Make sequences and gaps valid for means that move.
    plot : Path, optional
        Also write a picture: .png, .pdf or .svg.
    """
    sure = parse.number(confidence, "--confidence")
    found = read(source, sure, drift, bounds, between, by)
    if plot is not None:
        if len(found) > 1:
            raise InvalidParameter("The option --plot draws one report, and --by gives several.")
        next(iter(found.values())).plot(plot)
    if as_json:
        shown: Any = {str(key): each.as_dict() for key, each in found.items()}
        shown = shown if by is not None else next(iter(shown.values()))
        typer.echo(json.dumps(shown, ensure_ascii=False))
        return
    screen = console()
    for each in found.values():
        screen.print(report_table(each))
        for sentence in each.sentences():
            screen.print(sentence, markup=False)


def read(
    source: Path,
    confidence: float,
    drift: bool,
    bounds: tuple[float, float],
    between: tuple[int, int] | None,
    by: str | None,
) -> dict[Any, Report]:
    """Return the report on a file, by slices where these are asked for."""
    import bothworlds as bw

    state = is_state(source)
    if state:
        if by is not None or between is not None:
            raise InvalidParameter("The options --by and --between are for logs, not for a state.")
        return {None: bw.Bandit.load(source).report(confidence, drift=drift)}
    settings: dict[str, Any] = {
        "confidence": confidence, "drift": drift, "bounds": bounds, "between": between,
    }  # fmt: skip
    if by is None:
        return {None: bw.inference.report(source, **settings)}
    return bw.inference.report(source, by=column_or_rounds(by), **settings)


def is_state(source: Path) -> bool:
    """Return whether a file is a saved bandit rather than a log.

    Both may end in .json; a state file is one object that names its format.
    """
    if not source.exists():
        raise StateFileError(f"There is no file {str(source)!r}.")
    if source.suffix.lower() != ".json":
        return False
    with open(source, "rb") as stream:
        return b'"format"' in stream.read(200)


def column_or_rounds(by: str) -> str | int:
    """Return a number of rounds where the text is one, or else the name of a column."""
    return int(by) if by.isdecimal() else by


def report_table(report: Report) -> Table:
    """Return a report as a table of at most 80 columns."""
    heads = report.heads()
    table = new_table(report.source, heads[:1], heads[1:], no_wrap=False)
    for cells in report.rows():
        table.add_row(*cells)
    return table
