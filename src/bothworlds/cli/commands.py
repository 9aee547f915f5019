"""Commands of ``bothworlds``: which file has each, loaded when the command is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from bothworlds import __version__

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


def _reflow(command: Any) -> None:
    """Let the terminal break the lines of a help text, which docstrings break for the source."""
    paragraphs = (command.help or "").split("\n\n")
    command.help = "\n\n".join(" ".join(each.split()) for each in paragraphs)
    for each in getattr(command, "commands", {}).values():
        _reflow(each)


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
        _reflow(found)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _Commands(TyperGroup):
    """The group of all commands."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands: Any = _Loaded()

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names, without loading any command."""
        return list(COMMANDS)


app = typer.Typer(
    cls=_Commands,
    help="Multi-armed bandits that are near-optimal for stochastic and adversarial rewards.",
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
