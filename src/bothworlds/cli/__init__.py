"""The command line, loaded when it is first used.

`bothworlds.cli.commands` registers the commands; `bothworlds.cli.decisions` carries out the two
that scripts call all the time, without loading the others.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bothworlds.cli.commands import app

__all__ = ["app"]

if not TYPE_CHECKING:

    def __getattr__(name):
        if name != "app":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from bothworlds.cli.commands import app

        return app
