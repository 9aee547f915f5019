"""Logged decisions as Vowpal Wabbit's contextual-bandit text.

A line is ``action:cost:probability 'tag| features``, with actions from 1. A tag that is a whole
number is the round; without one the place of the decision in the file is. Rewards become costs
by their sign, and full distributions have no place in this format.

References
----------
The pages "Logged Contextual Bandit Example" and "Input format" of the Vowpal Wabbit wiki.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bothworlds.arguments import Arm
from bothworlds.errors import invalid
from bothworlds.files import replacing
from bothworlds.logs.lines import Numbering, malformed, text_lines, whole
from bothworlds.logs.record import LoggedDecision, recorded

_LINE = re.compile(
    r"(?P<action>\d+):(?P<cost>[^\s:|]+):(?P<probability>[^\s:|]+)"
    r"(?:\s+(?:'(?P<quoted>[^\s|]*)|(?P<touching>[^\s|']+)(?=\|)))?\s*(?P<features>\|.*)",
    re.ASCII,
)

_TAG = re.compile(r"(?!\d+$)[^\s|']+", re.ASCII)


def write_vw(
    path: str | os.PathLike[str],
    decisions: Iterable[LoggedDecision],
    arms: Sequence[Arm] | None = None,
) -> int:
    """Write decisions as Vowpal Wabbit text and return how many there were.

    Parameters
    ----------
    path : path
        Appears all at once; an error leaves what was there before.
    decisions : iterable of LoggedDecision
        With a probability and a loss or reward. The text of ``extra["features"]``, which begins
        with a bar, is written as it is; ``extra["tag"]`` takes the place of the round.
    arms : sequence of str or int, optional
        The arms in the order of the actions 1, 2, ...; by default arm i is action i + 1.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "log.vw")
    ...     logged = LoggedDecision(7, "green", 0.25, loss=0.5, extra={"features": "| a c"})
    ...     _ = write_vw(path, [logged], arms=["blue", "green"])
    ...     print(path.read_text(), end="")
    2:0.5:0.25 '7| a c
    """
    numbering = Numbering(arms, "write_vw")
    count = 0
    with replacing(path) as draft, open(draft, "w", encoding="utf-8", newline="\n") as stream:
        for decision in decisions:
            stream.write(vw_line(decision, numbering) + "\n")
            count += 1
    return count


def read_vw(
    path: str | os.PathLike[str], arms: Sequence[Arm] | None = None
) -> Iterator[LoggedDecision]:
    """Read decisions from Vowpal Wabbit text, one at a time; blank lines are skipped.

    Parameters
    ----------
    path : path
        One decision a line; files with a line per action (``--cb_adf``) are refused.
    arms : sequence of str or int, optional
        The arms in the order of the actions 1, 2, ...; by default action a is the arm a - 1.

    Raises
    ------
    InvalidParameter
        At a line that is no decision; names the line and what is wrong with it.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "log.vw")
    ...     _ = path.write_text("1:2:0.4 | a c")
    ...     next(read_vw(path, arms=["blue", "green"]))
    LoggedDecision(round=1, arm='blue', probability=0.4, loss=2.0, ...{'features': '| a c'}, ...)
    """
    numbering = Numbering(arms, "read_vw")
    name = Path(path).name
    place = 0
    for number, line in enumerate(text_lines(path), start=1):
        if line.strip():
            place += 1
            yield _parsed(line.strip(), place, numbering, f"line {number} of {name}")


def vw_line(decision: LoggedDecision, numbering: Numbering) -> str:
    """Return a decision as a line without its end."""
    where = f"round {decision.round} in write_vw"
    if decision.probability is None:
        raise invalid("probability", where, "known", None)
    if decision.loss is None and decision.reward is None:
        raise invalid("loss", where, "known", None)
    cost = decision.loss if decision.reward is None else -decision.reward
    features = decision.extra.get("features", "|")
    if not isinstance(features, str) or not features.startswith("|") or "\n" in features:
        raise invalid("features", where, "one line of text that begins with a bar", features)
    action = numbering.place(decision.arm, where) + 1
    assert cost is not None
    tag = decision.extra.get("tag", decision.round)
    if "tag" in decision.extra and (not isinstance(tag, str) or not _TAG.fullmatch(tag)):
        raise invalid("tag", where, "a text without blanks, bars and quotes that is no number", tag)
    return f"{action}:{float(cost)!r}:{float(decision.probability)!r} '{tag}{features}"


def _parsed(line: str, place: int, numbering: Numbering, where: str) -> LoggedDecision:
    match = _LINE.fullmatch(line)
    if match is None:
        raise malformed(where, "action:cost:probability | features", line)
    extra: dict[str, str] = {}
    if match["features"] != "|":
        extra["features"] = match["features"]
    tag = match["quoted"] or match["touching"] or ""
    if tag and not tag.isdecimal():
        extra["tag"] = tag
    values: dict[str, Any] = {
        "round": whole(tag, "tag", where) if tag.isdecimal() else place,
        "arm": numbering.arm(whole(match["action"], "action", where) - 1, where, "action", first=1),
        "probability": _number(match["probability"], "probability", where),
        "loss": _number(match["cost"], "cost", where),
        "extra": extra,
    }
    return recorded(values, where)


def _number(text: str, parameter: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise invalid(parameter, where, "a number", text) from None
