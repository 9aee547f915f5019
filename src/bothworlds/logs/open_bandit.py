"""Logged decisions in the columns of the Open Bandit Dataset.

Its CSV files have an unnamed column that counts rows from 0, then ``timestamp``, ``item_id`` (the
arm, from 0), ``position``, ``click``, ``propensity_score`` and features of the user. A click is a
reward of 1. Full distributions have no place in this format.

References
----------
Y. Saito, S. Aihara, M. Matsutani and Y. Narita, "Open Bandit Dataset and Pipeline: Towards
Realistic and Reproducible Off-Policy Evaluation", NeurIPS Datasets and Benchmarks, 2021.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bothworlds.arguments import Arm
from bothworlds.errors import InvalidParameter, invalid
from bothworlds.files import replacing
from bothworlds.logs.lines import Numbering, text_lines, whole
from bothworlds.logs.record import LoggedDecision, recorded

INDEX = ""
COLUMNS = ("timestamp", "item_id", "position", "click", "propensity_score")
_NEEDED = ("item_id", "click", "propensity_score")


def write_open_bandit(
    path: str | os.PathLike[str],
    decisions: Iterable[LoggedDecision],
    arms: Sequence[Arm] | None = None,
) -> int:
    """Write decisions as a CSV file like those of the Open Bandit Dataset; return their number.

    Parameters
    ----------
    path : path
        Appears all at once; an error leaves what was there before.
    decisions : iterable of LoggedDecision
        With a probability, and a reward (or loss) of 0 or 1. ``extra`` may hold ``timestamp``,
        ``position`` (by default 1) and further columns, the same for all.
    arms : sequence of str or int, optional
        The arms in the order of the items 0, 1, ...; by default arm i is item i.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "all.csv")
    ...     _ = write_open_bandit(path, [LoggedDecision(1, 3, 0.25, reward=1)])
    ...     print(path.read_text(), end="")
    ,timestamp,item_id,position,click,propensity_score
    0,,3,1,1,0.25
    """
    numbering = Numbering(arms, "write_open_bandit")
    further: list[str] | None = None
    count = 0
    with replacing(path) as draft, open(draft, "w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        for decision in decisions:
            own = [key for key in decision.extra if key not in ("timestamp", "position")]
            if further is None:
                further = own
                writer.writerow([INDEX, *COLUMNS, *further])
            if sorted(own) != sorted(further):
                where = f"round {decision.round} in write_open_bandit"
                raise invalid("extra", where, f"the columns {further}", own)
            writer.writerow(_row(decision, numbering, further))
            count += 1
        if further is None:
            writer.writerow([INDEX, *COLUMNS])
    return count


def read_open_bandit(
    path: str | os.PathLike[str], arms: Sequence[Arm] | None = None
) -> Iterator[LoggedDecision]:
    r"""Read decisions from a CSV file of the Open Bandit Dataset, one at a time.

    Parameters
    ----------
    path : path
        Needs the columns ``item_id``, ``click`` and ``propensity_score``; all others go into
        ``extra``, as texts but for the ``position``. The round is the unnamed first column
        plus 1, or else the place of the row.
    arms : sequence of str or int, optional
        The arms in the order of the items 0, 1, ...; by default the number is the arm.

    Raises
    ------
    InvalidParameter
        At a line that is no decision; names the line and what is wrong with it.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "all.csv")
    ...     _ = path.write_text("item_id,click,propensity_score\n3,1,0.25\n")
    ...     next(read_open_bandit(path))
    LoggedDecision(round=1, arm=3, probability=0.25, loss=None, reward=1.0, ...)
    """
    numbering = Numbering(arms, "read_open_bandit")
    name = Path(path).name
    rows = _rows(path, name)
    header = next(rows, (1, []))[1]
    if not set(_NEEDED) <= set(header) or len(set(header)) != len(header):
        expected = f"a header with the distinct columns {', '.join(_NEEDED)}"
        raise invalid("line 1", name, expected, header)
    for place, (number, cells) in enumerate(rows, start=1):
        where = f"line {number} of {name}"
        if len(cells) != len(header):
            expected = f"{len(header)} columns wide"
            raise InvalidParameter(f"The {where} must be {expected}, got {len(cells)} columns.")
        yield _parsed(dict(zip(header, cells, strict=True)), place, numbering, where)


def _rows(path: str | os.PathLike[str], name: str) -> Iterator[tuple[int, list[str]]]:
    """Read the rows that are not empty, each with the number of its last line."""
    reader = csv.reader(text_lines(path), strict=True)
    try:
        for cells in reader:
            if cells:
                yield reader.line_num, cells
    except csv.Error as error:
        where = f"line {reader.line_num} of {name}"
        raise InvalidParameter(f"The {where} must be CSV, got: {error}.") from None


def _row(decision: LoggedDecision, numbering: Numbering, further: list[str]) -> list[object]:
    where = f"round {decision.round} in write_open_bandit"
    if decision.probability is None:
        raise invalid("probability", where, "known", None)
    click = decision.reward if decision.loss is None else 1 - decision.loss
    if click not in (0, 1):
        got = decision.reward if decision.loss is None else decision.loss
        parameter = "reward" if decision.loss is None else "loss"
        raise invalid(parameter, where, "0 or 1", got)
    extra = decision.extra
    return [
        decision.round - 1,
        extra.get("timestamp", ""),
        numbering.place(decision.arm, where),
        extra.get("position", 1),
        int(click),
        float(decision.probability),
        *(extra[key] for key in further),
    ]


def _parsed(cells: dict[str, str], place: int, numbering: Numbering, where: str) -> LoggedDecision:
    index = cells.pop(INDEX, None)
    item = whole(cells.pop("item_id"), "item_id", where)
    click = cells.pop("click")
    if click not in ("0", "1", "0.0", "1.0"):
        raise invalid("click", where, "0 or 1", click)
    share = cells.pop("propensity_score")
    try:
        probability = float(share)
    except ValueError:
        raise invalid("propensity_score", where, "a number", share) from None
    extra: dict[str, str | int] = {key: value for key, value in cells.items() if value != ""}
    if "position" in extra:
        extra["position"] = whole(str(extra["position"]), "position", where)
    values: dict[str, Any] = {
        "round": place if index is None else whole(index, "first column", where) + 1,
        "arm": numbering.arm(item, where, "item_id"),
        "probability": probability,
        "reward": float(click),
        "extra": extra,
    }
    return recorded(values, where)
