"""Exit codes of the commands, and the sentence that goes with each refusal."""

from __future__ import annotations

import os
import sys

from bothworlds.errors import BothworldsError, InvalidFeedback, InvalidParameter

WRONG_INPUT = 2
"""Exit code where a command was given something it cannot use."""
FAILED = 1
"""Exit code where the command was right and could not be carried out."""
STOPPED = 130
"""Exit code after Ctrl-C."""

REFUSED = (BothworldsError, OSError, KeyboardInterrupt)
"""Errors that end a command with a sentence, or silently, and never with a traceback."""


def say(sentence: str) -> None:
    """Write a sentence to standard error, which leaves standard output to results."""
    print(sentence, file=sys.stderr, flush=True)


def refusal(error: BaseException) -> tuple[str | None, int]:
    """Return the sentence and the exit code for one of `REFUSED`.

    Examples
    --------
    >>> refusal(InvalidParameter("A sentence.")), refusal(KeyboardInterrupt())
    (('A sentence.', 2), (None, 130))
    """
    if isinstance(error, InvalidParameter | InvalidFeedback):
        return str(error), WRONG_INPUT
    if isinstance(error, OSError) and not isinstance(error, BothworldsError):
        where = f" {os.fspath(error.filename)!r}" if error.filename is not None else ""
        return f"The file{where} could not be used: {error.strerror or error}.", FAILED
    return (None, STOPPED) if isinstance(error, KeyboardInterrupt) else (str(error), FAILED)
