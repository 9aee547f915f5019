"""Console output of a command: a table, or one sentence on standard error and an exit code."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, ParamSpec, get_type_hints

import typer
from typer.core import TyperGroup

from bothworlds.cli.exit_codes import FAILED, REFUSED, STOPPED, WRONG_INPUT, refusal, say
from bothworlds.cli.parse import choose
from bothworlds.registry import words, worlds
from bothworlds.text import descriptions

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = [
    "FAILED", "STOPPED", "WRONG_INPUT", "Commands", "command", "console", "new_table", "refusals",
    "say",
]  # fmt: skip


P = ParamSpec("P")


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    """Turn errors of bothworlds and the file system into a sentence and an exit code.

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


def command(function: Callable[P, None]) -> Callable[P, None]:
    """Make a function a command: its docstring describes its options, its errors are `refusals`.

    In the descriptions, {policies} and {environments} stand for the names of all of them.
    """
    text, _, about = inspect.cleandoc(function.__doc__ or "").partition("\n\nParameters\n")
    # Typer reads the objects of the annotations: from strings it would create them again.
    function.__annotations__ = get_type_hints(function, include_extras=True)
    function.__doc__ = text
    named = {"{policies}": ", ".join(words()), "{environments}": ", ".join(worlds())}
    for name, help in descriptions(about).items():
        for place, listed in named.items():
            help = help.replace(place, listed)
        function.__annotations__[name].__metadata__[0].help = help
    return refusals()(function)


class Commands(TyperGroup):
    """A group of commands that answers a wrong one with one sentence, too."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first argument names."""
        with refusals():
            if args and not args[0].startswith("-"):
                choose("command", args[0], self.list_commands(ctx))
        return super().resolve_command(ctx, args)


def new_table(
    title: str = "", words: Iterable[str] = (), numbers: Iterable[str] = (), no_wrap: bool = True
) -> Table:
    """Return an empty table: columns of words, which fold, then columns of numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(
        title=title or None, title_justify="left", title_style="bold", box=SIMPLE_HEAD,
        pad_edge=False,
    )  # fmt: skip
    for head in words:
        table.add_column(head, overflow="fold")
    for head in numbers:
        table.add_column(head, justify="right", no_wrap=no_wrap)
    return table


def console(stderr: bool = False) -> Console:
    """Return a console no wider than 80 columns, on which every table fits."""
    from rich.console import Console

    made = Console(stderr=stderr, highlight=False)
    made.width = min(80, made.width) if made.is_terminal else 80
    return made
