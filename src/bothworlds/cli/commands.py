"""Commands of ``bothworlds``: one file each, registered here."""

import typer

from bothworlds.cli.bench import bench
from bothworlds.cli.bounds import bounds
from bothworlds.cli.compare import compare
from bothworlds.cli.decide import app as decide
from bothworlds.cli.evaluate import evaluate
from bothworlds.cli.paper import paper
from bothworlds.cli.report import report
from bothworlds.cli.results import app as results
from bothworlds.cli.warm_up import warm_up

app = typer.Typer(
    help="Best-of-both-worlds bandits: Tsallis-INF, its rivals, and the means to compare them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def bothworlds() -> None:
    """Best-of-both-worlds bandits: Tsallis-INF, its rivals, and the means to compare them."""


app.command()(paper)
app.command()(compare)
app.add_typer(results, name="results")
app.add_typer(decide, name="decide")
app.command()(report)
app.command()(evaluate)
app.command()(bounds)
app.command()(bench)
app.command(name="warm-up")(warm_up)

__all__ = ["app"]
