"""`bothworlds evaluate`: the outcome of another way of choosing, from a log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bothworlds.cli import parse
from bothworlds.cli.console import command, console, new_table
from bothworlds.cli.options import AsJson, argument, option
from bothworlds.cli.report import Between, Bounds, By, Confidence, column_or_rounds, is_state
from bothworlds.errors import InvalidParameter

if TYPE_CHECKING:
    from rich.table import Table

    from bothworlds.inference.value import Value

METHODS = ("dr", "ips", "cips", "snips")


@command
def evaluate(
    log: Annotated[Path, argument("LOG")],
    target: Annotated[list[str], option("TARGET")],
    method: Annotated[str, option("NAMES")] = "dr",
    clip: Annotated[str, option("M")] = "20",
    confidence: Confidence = "0.95",
    bounds: Bounds = (0.0, 1.0),
    between: Between = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Estimate from a log the mean outcome that other policies would have had.

    Example: bothworlds evaluate log.parquet --target blue --target uniform

    Parameters
    ----------
    log : Path
        A log of decisions: .parquet, .jsonl, .vw or .csv.
    target : list[str]
        An arm; uniform; or probabilities such as blue=0.3,green=0.7. May be given several times.
    method : str
        Methods separated by commas, of dr, ips, cips, snips: doubly robust, importance weighting,
        the same clipped, the same self-normalised.
    clip : str
        Largest weight of the method cips.
    """
    import bothworlds as bw

    if is_state(log):
        raise InvalidParameter(f"The file {str(log)!r} is a state, not a log of decisions.")
    methods: list[Any] = [
        parse.choose("method", word, METHODS) for word in parse.listed(method, "--method")
    ]
    settings: dict[str, Any] = {
        "confidence": parse.number(confidence, "--confidence"),
        "clip": parse.number(clip, "--clip"),
        "bounds": bounds,
        "between": between,
    }
    found: list[tuple[str, str, Value]] = []
    for text in target:
        meant = target_of(text)
        for name in methods:
            if by is None:
                found.append((text, "", bw.inference.value(log, meant, name, **settings)))
                continue
            parts = bw.inference.value(log, meant, name, by=column_or_rounds(by), **settings)
            found += [(text, _slice(key), value) for key, value in parts.items()]
    if as_json:
        shown = [
            {"target": text, **({"slice": part} if part else {}), **value.as_dict()}
            for text, part, value in found
        ]
        typer.echo(json.dumps(shown, ensure_ascii=False))
        return
    screen = console()
    screen.print(value_table(found))
    for sentence in dict.fromkeys(f"{t}: {v.why}" for t, _, v in found if v.why):
        screen.print(sentence, markup=False)


def target_of(text: str) -> Any:
    """Return the target that a text names: an arm by name or number, or probabilities of arms.

    Examples
    --------
    >>> target_of("blue=0.25,green=0.75"), target_of("blue"), target_of("2")
    ({'blue': 0.25, 'green': 0.75}, 'blue', 2)
    """
    if "=" not in text:
        return int(text) if text.isdecimal() else text
    shares: dict[Any, float] = {}
    for part in parse.listed(text, "--target"):
        name, sign, share = part.rpartition("=")
        if not sign or not name or name in shares:
            expected = "distinct arms with probabilities, such as blue=0.3,green=0.7"
            raise InvalidParameter(f"The option --target must be {expected}, got {text!r}.")
        shares[int(name) if name.isdecimal() else name] = parse.number(share, "--target")
    return shares


def _slice(key: Any) -> str:
    return f"{key[0]} to {key[1]}" if isinstance(key, tuple) else str(key)


def value_table(found: list[tuple[str, str, Value]]) -> Table:
    """Return values as a table of at most 80 columns."""
    sliced = any(part for _, part, _ in found)
    heads = ("method", "value", "at a set time", "at all times", "effective", "rows")
    table = new_table("", ["target", "slice"] if sliced else ["target"], heads, no_wrap=False)
    for text, part, value in found:
        table.add_row(
            text, *([part] if sliced else []), value.method, f"{value.value:.4g}",
            _ends(value.interval), _ends(value.sequence), f"{value.ess:,.0f}", f"{value.rows:,}",
        )  # fmt: skip
    return table


def _ends(pair: tuple[float, float] | None) -> str:
    return "-" if pair is None else f"{pair[0]:.3g} to {pair[1]:.3g}"
