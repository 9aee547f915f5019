"""Logged decisions as JSON lines: one object a line.

``{"round": 1, "arm": "blue", "probability": 0.5, "loss": 0.2, "arms": ["blue", "green"],
"probabilities": [0.5, 0.5], "extra": {"user": "eve"}}``; what is not known is left out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from bothworlds.arguments import flag
from bothworlds.bandit.logged import LoggedDecision, recorded
from bothworlds.bandit.text_lines import malformed, text_lines
from bothworlds.errors import InvalidParameter, must
from bothworlds.files import replacing

_KEYS = ("round", "arm", "probability", "loss", "reward", "probabilities", "arms", "extra")


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
    """Read decisions from JSON lines, one at a time; blank lines are passed over.

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
        raise InvalidParameter(must("key", where, known, sorted(unknown)[0]))
    return recorded(joined(values, where), where)


def fields_of(decision: LoggedDecision) -> dict[str, Any]:
    """Return what is known of a decision, arms and their probabilities as two lists.

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
        expected = "a list as long as the list of distinct arms"
        raise InvalidParameter(must("probabilities", where, expected, shares))
    made["probabilities"] = dict(zip(arms, shares, strict=True))
    return made
