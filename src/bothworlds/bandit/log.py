"""Append-only log of a bandit: a line for every decision and one for every feedback.

The lines are logged decisions in the format of `bothworlds.interop.logs`.  A decision's line has
the probabilities and no loss or reward; its feedback's line, which may come much later, has the
same round and what was told.  `joined_rows` makes one row of the two.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from bothworlds.bandit.jsonlines import fields_of, line_of
from bothworlds.bandit.logged import LoggedDecision
from bothworlds.errors import InvalidParameter, must

Target = str | os.PathLike[str] | Callable[[dict[str, Any]], Any]
"""A file to append to, or what is called with every line as a mapping."""


class Log:
    """Where a bandit writes its lines.

    Parameters
    ----------
    target : path or callable
        A file of JSON lines, made if there is none, or a function of a mapping.
    owner : str
        The bandit's class, for error messages.
    """

    def __init__(self, target: Target, owner: str) -> None:
        self.target = target
        self._stream: io.FileIO | None = None
        if not callable(target):
            if not isinstance(target, str | os.PathLike):
                raise InvalidParameter(must("log", owner, "a path or a function", target))
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
    """Yield decisions with what was told about them; those without an answer come last.

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
