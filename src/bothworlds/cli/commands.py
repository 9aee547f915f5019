"""Commands of ``bothworlds``: which file has each, loaded when the command is used."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any

import typer

from bothworlds import __version__
from bothworlds.cli.console import Commands

COMMANDS = {
    "paper": "paper",
    "beyond": "paper",
    "compare": "compare",
    "arena": "arena",
    "demo": "demo",
    "report": "report",
    "evaluate": "evaluate",
    "bounds": "bounds",
    "bench": "bench",
    "warm-up": "warm_up",
    "results": "results",
    "decide": "decide",
    "serve": "serve",
}
"""The commands in the order of the help, and the files that have them.

A file has a function called as the command, or a group of commands called ``app``.
"""

EPILOG = (
    "Python runs with the option -OO, which removes descriptions: run it without."
    if sys.flags.optimize > 1
    else None
)
"""Last line of every help."""


def _tidy(command: Any) -> None:
    """Write the help of a command for its readers: whole paragraphs, no types of Python."""
    # The terminal breaks the lines; docstrings break them for the source.
    paragraphs = (command.help or "").split("\n\n")
    command.help = "\n\n".join(" ".join(each.split()) for each in paragraphs)
    command.epilog = EPILOG
    _without_types(command.get_params(typer.Context(command)))
    for each in getattr(command, "commands", {}).values():
        _tidy(each)


def _without_types(parameters: list[Any]) -> list[Any]:
    """Leave out ``<bool>`` after a flag, which takes no value, and the types of arguments."""
    for each in parameters:
        if getattr(each, "is_flag", False):
            each.metavar = ""
        elif each.param_type_name == "argument":
            each.display_type_rich = lambda ctx: ""
    return parameters


class _Loaded(Mapping[str, Any]):
    """The commands by name, each imported when it is looked up."""

    def __getitem__(self, name: str) -> Any:
        module = import_module(f"bothworlds.cli.{COMMANDS[name]}")
        group = getattr(module, "app", None)
        if group is not None:
            found: Any = typer.main.get_group(group)
        else:
            alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
            alone.command(name)(getattr(module, name.replace("-", "_")))
            found = typer.main.get_command(alone)
        found.name = name
        _tidy(found)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _Commands(Commands):
    """The group of all commands."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands: Any = _Loaded()

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names, without loading any command."""
        return list(COMMANDS)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options, those that Typer adds included."""
        return _without_types(super().get_params(ctx))


app = typer.Typer(
    cls=_Commands,
    help="Multi-armed bandits that are near-optimal for stochastic and adversarial rewards.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _tell_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"bothworlds {__version__}")
        raise typer.Exit


@app.callback()
def bothworlds(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and stop.", callback=_tell_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Multi-armed bandits that are near-optimal for stochastic and adversarial rewards."""


__all__ = ["app"]
