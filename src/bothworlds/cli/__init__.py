"""The command line, loaded when it is first used.

`bothworlds.cli.commands` registers the commands; `bothworlds.cli.decisions` carries out the two
that scripts call all the time, without loading the other commands.
"""

from typing import TYPE_CHECKING

from bothworlds.lazy import lazily

if TYPE_CHECKING:
    from bothworlds.cli.commands import app

__all__ = ["app"]

if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, {"app": "commands"})
