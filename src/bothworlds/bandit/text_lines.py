"""Text files read line by line, with errors that name the line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from bothworlds.errors import InvalidParameter


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
