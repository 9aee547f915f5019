"""Text formats: files read line by line with errors that name the line, and numbers for arms."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from bothworlds.arguments import Arm, is_whole
from bothworlds.errors import InvalidParameter, invalid


def text_lines(path: str | os.PathLike[str]) -> Iterator[str]:
    r"""Read a file line by line, ends included; bytes that are not UTF-8 are refused by line.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "log.vw")
    ...     _ = path.write_bytes(b"fine" + bytes([10, 255]))
    ...     list(text_lines(path))
    Traceback (most recent call last):
    ...
    bothworlds.errors.InvalidParameter: The line 2 of log.vw must be UTF-8 text, got b'\xff'.
    """
    with open(path, "rb") as stream:
        for number, line in enumerate(stream, start=1):
            try:
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError:
                where = f"line {number} of {Path(path).name}"
                raise InvalidParameter(
                    f"The {where} must be UTF-8 text, got {line.strip()!r:.80}."
                ) from None


def malformed(where: str, expected: str, line: str) -> InvalidParameter:
    """Build the error for a line that is not even of the right shape."""
    return InvalidParameter(f"The {where} must be {expected}, got {line.strip()!r:.80}.")


def whole(text: str, parameter: str, where: str) -> int:
    """Return a whole number that a log has as text.

    Examples
    --------
    >>> whole("12", "item_id", "line 1")
    12
    """
    try:
        if text.isdecimal():
            return int(text)
    except ValueError:
        # Python reads at most some thousands of digits.
        pass
    raise invalid(parameter, where, "a whole number >= 0", text)


class Numbering:
    """Which arm has which number.

    Parameters
    ----------
    arms : sequence of str or int, or None
        The arms in the order of their numbers from 0; None where the number is the arm.
    owner : str
        Whose parameter this is, for error messages.

    Examples
    --------
    >>> numbering = Numbering(["blue", "green"], "read_vw")
    >>> numbering.place("green", "round 1"), numbering.arm(0, "line 1", "action")
    (1, 'blue')
    """

    def __init__(self, arms: Sequence[Arm] | None, owner: str) -> None:
        if isinstance(arms, str) or (arms is not None and len(set(arms)) != len(arms)):
            raise invalid("arms", owner, "a sequence of distinct names", arms)
        self._arms = None if arms is None else tuple(arms)
        self._places = {} if arms is None else {arm: n for n, arm in enumerate(arms)}

    def place(self, arm: Arm, where: str) -> int:
        """Return an arm's number from 0."""
        if self._arms is None:
            if not is_whole(arm) or int(arm) < 0:
                raise invalid("arm", where, "a whole number >= 0, or listed in arms", arm)
            return int(arm)
        if arm not in self._places:
            raise invalid("arm", where, f"one of {list(self._arms)}", arm)
        return self._places[arm]

    def arm(self, place: int, where: str, called: str, first: int = 0) -> Arm:
        """Return the arm with a number; the format counts from ``first`` and calls it so."""
        last = None if self._arms is None else len(self._arms) - 1
        if place < 0 or (last is not None and place > last):
            limit = "" if last is None else f" to {last + first}"
            raise invalid(called, where, f"a whole number from {first}{limit}", place + first)
        return place if self._arms is None else self._arms[place]
