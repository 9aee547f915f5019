"""`bothworlds compare`: which policy has the least regret in a world of the user's choice."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bothworlds.cli import parse
from bothworlds.cli.console import STOPPED, command, console, new_table, say
from bothworlds.cli.options import (
    Cluster,
    Continuable,
    Repetitions,
    Seed,
    Threads,
    executor,
    option,
)
from bothworlds.errors import InvalidParameter
from bothworlds.files import replacing
from bothworlds.text import grouped, speed

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from rich.table import Table

    from bothworlds.campaign.progress import Progress
    from bothworlds.cli.loss_files import LossTable
    from bothworlds.environments.base import Environment
    from bothworlds.policies.base import Policy
    from bothworlds.simulation.result import Result

DEFAULT_ARMS, DEFAULT_GAP, DEFAULT_HORIZON = 8, 0.125, 100_000


@command
def compare(
    environment: Annotated[
        str | None,
        typer.Option("--environment", "--env", metavar="NAME", show_default="stochastic"),
    ] = None,
    arms: Annotated[str | None, option("K", str(DEFAULT_ARMS))] = None,
    gap: Annotated[str | None, option("GAP", str(DEFAULT_GAP))] = None,
    corruption: Annotated[str | None, option("C", "none")] = None,
    attack: Annotated[str | None, option("NAME", "hide")] = None,
    losses: Annotated[Path | None, option("FILE", False)] = None,
    bounds: Annotated[tuple[float, float] | None, option("LO HI", False)] = None,
    policies: Annotated[str, option("NAMES")] = "tsallis,ucb1,thompson",
    horizon: Annotated[str | None, option("T", "1e5, or all of --losses")] = None,
    repetitions: Repetitions = "100",
    seed: Seed = "0",
    threads: Threads = None,
    output: Annotated[Path, option("FOLDER")] = Path("comparison"),
    cluster: Cluster = None,
    continuable: Continuable = False,
) -> None:
    """Rank policies by their regret, in a simulated world or on your own losses.

    Prints the ranking, draws the regret over time and saves every number. Ctrl-C stops early and
    keeps the runs that are finished; the same command, or one with more policies or repetitions,
    runs only what is missing.

    Example: bothworlds compare --environment switching --arms 12 --gap 0.05 --horizon 1e6
    --policies tsallis,ucb1,thompson

    Parameters
    ----------
    environment : str, optional
        The world: {environments}, or one of your own: mymodule:Tides.
    policies : str
        Any of {policies}, separated by commas; with parameters: ucb1:c=2; your own: mymodule:Mine.
    arms : str, optional
        Number of arms.
    gap : str, optional
        How much more all arms but the best lose per round.
    corruption : str, optional
        Let an adversary change losses by this much in total.
    attack : str, optional
        How it changes them: hide, swap, random or discourage.
    losses : Path, optional
        Your own losses instead of --environment: a .csv, .parquet or .npy file with a row per round
        and a column per arm.
    bounds : tuple[float, float], optional
        The smallest and largest possible loss in that file, if not 0 and 1.
    horizon : str, optional
        Number of rounds.
    output : Path
        Folder for the figure (PNG, PDF), all results (Parquet) and the table (CSV, LaTeX,
        Markdown).
    """
    table: LossTable | None = None
    if losses is None:
        if bounds is not None:
            raise InvalidParameter("The option --bounds needs --losses, the file it describes.")
        world = _world(environment, arms, gap)
    else:
        given = {"--environment": environment, "--arms": arms, "--gap": gap}
        for option, value in given.items():
            if value is not None:
                raise InvalidParameter(
                    f"The option {option} describes a simulated world and cannot go with --losses."
                )
        world, table = _recorded(losses, bounds)
    world = _attacked(world, corruption, attack)
    limit = world.horizon_limit
    rounds = limit or DEFAULT_HORIZON
    if horizon is not None:
        rounds = parse.count(horizon, "--horizon")
        if limit is not None and rounds > limit:
            expected = f"at most {limit}, the rows of the file"
            raise parse.wrong("--horizon", expected, rounds)
    chosen = parse.policies(policies, rounds)
    # What `simulate` would refuse, before anything is compiled or written.
    from bothworlds.simulation.simulator import check_kinds

    check_kinds(chosen, world)
    runs = parse.count(repetitions, "--repetitions")
    settings = {
        "horizon": rounds,
        "repetitions": runs,
        "seed": parse.count(seed, "--seed", least=0),
        "threads": None if threads is None else parse.count(threads, "--threads"),
        "store": output / "store",
        "continuable": continuable,
    }
    output.mkdir(parents=True, exist_ok=True)
    try:
        with executor(cluster, threads) as workers:
            result = _simulated(chosen, world, settings, workers)
    except KeyboardInterrupt:
        say("Stopped before any run was finished.")
        raise typer.Exit(STOPPED) from None
    _report(result, table, bounds, runs)
    _keep(result, output)
    if result.interrupted:
        raise typer.Exit(STOPPED)


def _world(env: str | None, arms: str | None, gap: str | None) -> Environment:
    return parse.environment(
        env or "stochastic",
        DEFAULT_ARMS if arms is None else parse.count(arms, "--arms", least=2),
        DEFAULT_GAP if gap is None else parse.number(gap, "--gap"),
        [name for name, value in (("n_arms", arms), ("gap", gap)) if value is not None],
    )


def _recorded(path: Path, bounds: tuple[float, float] | None) -> tuple[Environment, LossTable]:
    from bothworlds.cli.loss_files import read_losses
    from bothworlds.environments import Adversarial

    table = read_losses(path, bounds)
    return Adversarial(table.losses), table


def _attacked(world: Environment, corruption: str | None, attack: str | None) -> Environment:
    if corruption is None:
        if attack is not None:
            raise InvalidParameter("The option --attack needs its budget, --corruption.")
        return world
    from bothworlds.environments import Corrupted
    from bothworlds.environments.corrupted import ATTACKS

    budget = parse.number(corruption, "--corruption")
    return Corrupted(world, budget, parse.choose("attack", attack or ATTACKS[0], ATTACKS))


def _simulated(
    chosen: dict[str, Policy],
    world: Environment,
    settings: dict[str, Any],
    workers: Executor | None,
) -> Result:
    """Compile first, so that the speeds reported are those of playing; then play."""
    from bothworlds.campaign.curve import Curve
    from bothworlds.engine.tile import compile_all
    from bothworlds.simulation import simulate

    screen = console(stderr=True)
    curves = [Curve("", policy, world, (settings["horizon"],), 1, 0) for policy in chosen.values()]
    for policy in chosen.values():
        policy.parameters(world.n_arms)
    if workers is None:
        # On a terminal alone: elsewhere a status prints nothing.
        with screen.status("Compiling ...") as status:
            compile_all(
                [(curve.program(settings["continuable"]), world) for curve in curves],
                lambda done, total: status.update(
                    f"Compiling, {total - done} of {total} kernels remain ..."
                ),
            )
    with progress_bar(screen) as show:
        return simulate(chosen, world, progress=show, executor=workers, **settings)


@contextlib.contextmanager
def progress_bar(screen: Any) -> Iterator[Callable[[Progress], None] | bool]:
    """Show a bar on a terminal, and nothing elsewhere."""
    if not screen.is_terminal:
        yield False
        return
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.fields[policy]:20.20}"),
        BarColumn(bar_width=None),
        TaskProgressColumn(),
        TextColumn("{task.fields[rate]:>17}"),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=screen, transient=True) as bars:
        task = bars.add_task("", policy="", rate="", total=None)

        def show(moment: Progress) -> None:
            bars.update(
                task,
                total=moment.total,
                completed=moment.done,
                policy=moment.name,
                rate=speed(moment.rate),
            )

        yield show


def _report(
    result: Result, table: LossTable | None, bounds: tuple[float, float] | None, runs: int
) -> None:
    screen = console()
    if table is None:
        screen.print(ranking(result))
    else:
        totals = table.losses[: int(result.checkpoints[-1])].mean(axis=0)
        best = int(totals.argmin())
        low, high = bounds or (0.0, 1.0)
        mean = low + float(totals[best]) * (high - low)
        screen.print(ranking(result, best))
        screen.print(f"Best single arm: {table.arms[best]!r}, mean loss {mean:.4g}.", markup=False)
    if len(result.names) > 1 and min(map(len, result.regret.values())) > 1:
        ranks = result.ranking()
        for pair in ranks.pairs:
            if pair.second == next(iter(ranks.means)):
                screen.print(str(pair), markup=False)
        if len(ranks.means) > 2:
            screen.print("These intervals hold together.", markup=False)
    if result.interrupted:
        kept = ", ".join(f"{len(result.regret[name])} of {name}" for name in result.names)
        say(f"Stopped early: of {runs} runs of every policy, these were finished and kept: {kept}.")


def ranking(result: Result, best: int | None = None) -> Table:
    """Return the policies by their mean regret at the last round, as a table of 80 columns.

    Parameters
    ----------
    result : Result
        What was simulated.
    best : int, optional
        An arm; the table then has the share of the rounds in which each policy played it.
    """
    summary = result.summary()
    table = new_table(f"Pseudo-regret after {summary.round:,} rounds")
    table.add_column("", justify="right")
    table.add_column("policy", overflow="fold", max_width=24)
    heads = ["runs", "mean", "trimmed", "sd", "rounds/s"]
    if best is not None:
        heads.append("best arm")
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    rows = sorted(summary.rows.items(), key=lambda item: item[1]["mean"])
    for place, (name, row) in enumerate(rows, start=1):
        speed = row["runs"] * summary.round / result.wall[name]
        cells = [grouped(row[key]) for key in ("mean", "trimmed", "sd")]
        cells = [str(place), name, str(int(row["runs"])), *cells, f"{speed / 1e6:,.1f} M"]
        if best is not None:
            plays = result.plays[name].sum(axis=0)
            cells.append(f"{plays[best] / plays.sum():.1%}")
        table.add_row(*cells)
    return table


def _keep(result: Result, output: Path) -> None:
    result.save(output / "comparison.parquet")
    figure = result.plot()
    from bothworlds.plotting import save

    for ending in ("png", "pdf"):
        save(figure, output / f"comparison.{ending}")
    summary = result.summary()
    tables = {"csv": summary.to_csv(), "md": summary.to_markdown(), "tex": summary.to_latex()}
    for ending, text in tables.items():
        with replacing(output / f"comparison.{ending}") as draft:
            draft.write_text(text.rstrip() + "\n", encoding="utf-8")
    typer.echo(f"Written: {output}/comparison.png, .pdf, .parquet, .csv, .md and .tex")
