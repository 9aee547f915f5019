"""Logged decisions as JSON lines: one object a line.

``{"round": 1, "arm": "blue", "probability": 0.5, "loss": 0.2, "arms": ["blue", "green"],
"probabilities": [0.5, 0.5], "extra": {"user": "eve"}}``; what is not known is left out.

A bandit appends to its log a line for every decision and one for every feedback (`Log`).  A
decision's line has the probabilities and no loss or reward; its feedback's line, which may come
much later, has the same round and the loss or reward.  `joined_rows` makes one row of the two.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from bothworlds.arguments import flag
from bothworlds.errors import invalid
from bothworlds.files import replacing
from bothworlds.logs.lines import malformed, text_lines
from bothworlds.logs.record import LoggedDecision, recorded

Target = str | os.PathLike[str] | Callable[[dict[str, Any]], Any]
"""A file to append to, or a function that is called with every line as a mapping."""

_KEYS = (
    "round", "arm", "probability", "loss", "reward", "probabilities", "arms", "extra", "advice",
    "experts",
)  # fmt: skip


def write_jsonl(
    path: str | os.PathLike[str], decisions: Iterable[LoggedDecision], *, append: bool = False
) -> int:
    """Write decisions as JSON lines and return how many there were.

    The file appears all at once; an error leaves what was there before.

    Parameters
    ----------
    path : path
        The file.
    decisions : iterable of LoggedDecision
        What to write.
    append : bool, default False
        Write behind what the file holds, line by line as the decisions come, instead of
        replacing it. An error leaves the lines before it.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "log.jsonl")
    ...     _ = write_jsonl(path, [LoggedDecision(1, "blue", 0.5, loss=0.2)])
    ...     print(path.read_text(), end="")
    {"round": 1, "arm": "blue", "probability": 0.5, "loss": 0.2}
    """
    if flag("append", append, "write_jsonl"):
        with open(path, "a+b") as stream:
            if not _ends_a_line(stream):
                stream.write(b"\n")
            return _write(stream, decisions)
    with replacing(path) as draft, open(draft, "wb") as stream:
        return _write(stream, decisions)


def _ends_a_line(stream: IO[bytes]) -> bool:
    """Return whether a file is empty or its last line is complete."""
    if not stream.seek(0, os.SEEK_END):
        return True
    stream.seek(-1, os.SEEK_END)
    return stream.read(1) == b"\n"


def _write(stream: IO[bytes], decisions: Iterable[LoggedDecision]) -> int:
    count = 0
    for decision in decisions:
        stream.write(line_of(decision))
        count += 1
    return count


def line_of(decision: LoggedDecision) -> bytes:
    """Return a decision as a line."""
    line = json.dumps(fields_of(decision), allow_nan=False, ensure_ascii=False)
    return line.encode("utf-8") + b"\n"


def read_jsonl(path: str | os.PathLike[str]) -> Iterator[LoggedDecision]:
    """Read decisions from JSON lines, one at a time; blank lines are skipped.

    Raises
    ------
    InvalidParameter
        At a line that is no decision; names the line and what is wrong with it.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "log.jsonl")
    ...     _ = path.write_text('{"round": 1, "arm": "blue", "reward": 1}')
    ...     list(read_jsonl(path))[0].reward
    1
    """
    name = Path(path).name
    for number, line in enumerate(text_lines(path), start=1):
        if line.strip():
            yield _parsed(line, f"line {number} of {name}")


def _refuse(constant: str) -> float:
    raise ValueError(constant)


def _parsed(line: str, where: str) -> LoggedDecision:
    expected = "a JSON object with the round and the arm"
    try:
        values = json.loads(line, parse_constant=_refuse)
    except (ValueError, RecursionError):
        # No JSON, an integer of thousands of digits, or lists within lists without end.
        raise malformed(where, expected, line) from None
    if not isinstance(values, dict) or not {"round", "arm"} <= values.keys():
        raise malformed(where, expected, line)
    unknown = values.keys() - set(_KEYS)
    if unknown:
        known = f"one of {', '.join(_KEYS)}"
        raise invalid("key", where, known, sorted(unknown)[0])
    return recorded(joined(values, where), where)


def fields_of(decision: LoggedDecision) -> dict[str, Any]:
    """Return the fields of a decision, arms and their probabilities as two lists.

    As keys of an object, JSON would turn the arm 1 into the arm "1".
    """
    values: dict[str, Any] = {"round": int(decision.round), "arm": _bare(decision.arm)}
    for name in ("probability", "loss", "reward"):
        value = getattr(decision, name)
        if value is not None:
            values[name] = _bare(value)
    if decision.probabilities is not None:
        values["arms"] = [_bare(arm) for arm in decision.probabilities]
        values["probabilities"] = [float(p) for p in decision.probabilities.values()]
    for name in ("advice", "experts"):
        value = getattr(decision, name)
        if value is not None:
            values[name] = dict(value)
    if decision.extra:
        values["extra"] = {key: _bare(value) for key, value in decision.extra.items()}
    return values


def _bare(value: Any) -> Any:
    """Return a NumPy number as a plain one."""
    return value.item() if hasattr(value, "item") else value


def joined(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the values with arms and probabilities as one mapping."""
    made = dict(values)
    arms, shares = made.pop("arms", None), made.pop("probabilities", None)
    if arms is None and shares is None:
        return made
    both = isinstance(arms, list) and isinstance(shares, list)
    hashable = both and all(isinstance(arm, str | int) for arm in arms)
    if not hashable or len(set(arms)) != len(arms) or len(arms) != len(shares):
        raise invalid("probabilities", where, "a list as long as the list of distinct arms", shares)
    made["probabilities"] = dict(zip(arms, shares, strict=True))
    return made


# --- the log of a bandit --------------------------------------------------------------------------


class Log:
    """Where a bandit writes its lines.

    Parameters
    ----------
    target : path or callable
        A file of JSON lines, created if missing, or a function of a mapping.
    owner : str
        The bandit's class, for error messages.
    """

    def __init__(self, target: Target, owner: str) -> None:
        self.target = target
        self._stream: io.FileIO | None = None
        if not callable(target):
            if not isinstance(target, str | os.PathLike):
                raise invalid("log", owner, "a path or a function", target)
            self._stream = _opened(target)

    def __call__(self, row: LoggedDecision) -> None:
        """Write a line; it has left this process when the call returns."""
        if self._stream is None:
            self.target(fields_of(row))  # type: ignore[operator]
            return
        line = line_of(row)
        # One write to a file opened for appending: lines of several processes do not mix.
        if self._stream.write(line) != len(line):
            raise OSError(f"The log {os.fspath(self.target)!r} could not be written.")  # type: ignore[arg-type]


def _opened(path: str | os.PathLike[str]) -> io.FileIO:
    """Open a log for appending, without the half line that a crash may have left."""
    stream = io.FileIO(os.fspath(path), "a+")
    end = stream.seek(0, os.SEEK_END)
    begin = max(0, end - 2**20)
    stream.seek(begin)
    tail = stream.read(end - begin)
    if tail and not tail.endswith(b"\n"):
        kept = tail.rfind(b"\n") + 1
        try:
            json.loads(tail[kept:])
            stream.write(b"\n")
        except ValueError:
            if kept or not begin:
                stream.truncate(begin + kept)
    return stream


def joined_rows(rows: Iterable[LoggedDecision]) -> Iterator[LoggedDecision]:
    """Yield decisions with their feedback; those without an answer come last.

    A log in which decision and feedback are one row passes as it is.

    Examples
    --------
    >>> rows = [LoggedDecision(1, "blue", 0.5), LoggedDecision(2, "green", 0.5),
    ...         LoggedDecision(1, "blue", 0.5, loss=0.25)]
    >>> [(row.round, row.loss) for row in joined_rows(rows)]
    [(1, 0.25), (2, None)]
    """
    waiting: dict[int, LoggedDecision] = {}
    for row in rows:
        if row.loss is None and row.reward is None:
            if row.round in waiting:
                yield row  # a second decision of the round, for the reader to refuse
            else:
                waiting[row.round] = row
            continue
        decided = waiting.pop(row.round, None)
        if decided is None or decided.arm != row.arm:
            yield row
        else:
            extra: Mapping[str, Any] = {**decided.extra, **row.extra}
            yield replace(decided, loss=row.loss, reward=row.reward, extra=extra)
    yield from waiting.values()
