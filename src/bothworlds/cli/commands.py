"""Commands of ``bothworlds``: one file each, registered here."""

from typing import Annotated

import typer

from bothworlds import __version__
from bothworlds.cli.arena import arena
from bothworlds.cli.bench import bench
from bothworlds.cli.beyond import beyond
from bothworlds.cli.bounds import bounds
from bothworlds.cli.compare import compare
from bothworlds.cli.decide import app as decide
from bothworlds.cli.demo import demo
from bothworlds.cli.evaluate import evaluate
from bothworlds.cli.paper import paper
from bothworlds.cli.report import report
from bothworlds.cli.results import app as results
from bothworlds.cli.serve import app as serve
from bothworlds.cli.warm_up import warm_up

app = typer.Typer(
    help="Best-of-both-worlds bandits: Tsallis-INF, its rivals, and the means to compare them.",
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
    """Best-of-both-worlds bandits: Tsallis-INF, its rivals, and the means to compare them."""


app.command()(paper)
app.command()(beyond)
app.command()(compare)
app.command()(arena)
app.add_typer(results, name="results")
app.add_typer(decide, name="decide")
app.add_typer(serve, name="serve")
app.command()(demo)
app.command()(report)
app.command()(evaluate)
app.command()(bounds)
app.command()(bench)
app.command(name="warm-up")(warm_up)

__all__ = ["app"]
