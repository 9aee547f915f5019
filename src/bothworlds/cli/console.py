"""Console output of a command: a table, or one sentence on standard error and an exit code."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from bothworlds.cli.exit_codes import FAILED, REFUSED, STOPPED, WRONG_INPUT, refusal, say
from bothworlds.cli.parse import choose

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "FAILED",
    "STOPPED",
    "WRONG_INPUT",
    "Commands",
    "console",
    "refusals",
    "say",
]


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    """Turn what bothworlds and the file system refuse into a sentence and an exit code.

    Examples
    --------
    >>> try:
    ...     with refusals():
    ...         choose("policy", "ucb", ["ucb1"])
    ... except typer.Exit as end:
    ...     end.exit_code
    2
    """
    try:
        yield
    except BrokenPipeError:
        # The reader of the output, such as head, has closed it.
        raise
    except REFUSED as error:
        sentence, code = refusal(error)
        if sentence:
            say(sentence)
        raise typer.Exit(code) from (None if sentence is None else error)


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
