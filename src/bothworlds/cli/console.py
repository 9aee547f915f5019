"""How a command ends: with a table, or with one sentence on standard error and an exit code."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from bothworlds.cli.parse import choose
from bothworlds.errors import BothworldsError, InvalidFeedback, InvalidParameter

if TYPE_CHECKING:
    from rich.console import Console

WRONG_INPUT = 2
"""Exit code where a command was given something it cannot use."""
FAILED = 1
"""Exit code where the command was right and could not be carried out."""
STOPPED = 130
"""Exit code after Ctrl-C."""


def say(sentence: str) -> None:
    """Write a sentence to standard error, which leaves standard output to results."""
    typer.echo(sentence, err=True)


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    """Turn what bothworlds and the file system refuse into a sentence and an exit code.

    Examples
    --------
    >>> try:
    ...     with refusals():
    ...         raise InvalidParameter("A sentence.")
    ... except typer.Exit as end:
    ...     end.exit_code
    2
    """
    try:
        yield
    except (InvalidParameter, InvalidFeedback) as error:
        say(str(error))
        raise typer.Exit(WRONG_INPUT) from error
    except BothworldsError as error:
        say(str(error))
        raise typer.Exit(FAILED) from error
    except KeyboardInterrupt:
        raise typer.Exit(STOPPED) from None
    except BrokenPipeError:
        # Whoever reads the output, such as head, has seen enough.
        raise
    except OSError as error:
        where = f" {os.fspath(error.filename)!r}" if error.filename is not None else ""
        say(f"The file{where} could not be used: {error.strerror or error}.")
        raise typer.Exit(FAILED) from error


class Commands(TyperGroup):
    """A group of commands that answers a wrong one with one sentence, too."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first argument names."""
        with refusals():
            if args and not args[0].startswith("-"):
                choose("command", args[0], self.list_commands(ctx))
        return super().resolve_command(ctx, args)


def console(stderr: bool = False) -> Console:
    """Return a console no wider than 80 columns, on which every table fits."""
    from rich.console import Console

    made = Console(stderr=stderr, highlight=False)
    made.width = min(80, made.width) if made.is_terminal else 80
    return made
