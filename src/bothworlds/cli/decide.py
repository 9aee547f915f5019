"""`bothworlds decide`: ask and tell from a shell, on a bandit that lives in a file.

Every command takes a lock, loads the file, does one thing and saves it. The lock is on a file of
its own next to the state, because the state itself is replaced whenever it is saved.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bothworlds.cli import decisions, parse
from bothworlds.cli.console import Commands, command, console, new_table, refusals
from bothworlds.cli.decisions import changed, feedback_of, loaded, locked
from bothworlds.cli.options import AsJson, argument, option
from bothworlds.errors import StateFileError

if TYPE_CHECKING:
    from bothworlds.bandit.bandit import Bandit

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    help="Choose among options from a shell: ask which to use, report the outcome.\n\n"
    "Start with: bothworlds decide init state.json --arms blue,green,red",
)

State = Annotated[Path, argument("STATE", help="The file that holds the bandit.")]


@app.command()
@command
def init(
    state: State,
    arms: Annotated[str, option("NAMES")],
    policy: Annotated[str, option("NAME")] = "tsallis",
    seed: Annotated[str | None, option("SEED", "random")] = None,
    bounds: Annotated[
        tuple[float, float] | None, option("LO HI", "0 1, or none for policies that need none")
    ] = None,
) -> None:
    """Start a new bandit in a file that does not exist yet.

    Example: bothworlds decide init state.json --arms blue,green,red

    Parameters
    ----------
    arms : str
        Names separated by commas, or a number of arms.
    policy : str
        One of {policies}; with parameters: ucb1:c=2.
    seed : str, optional
        Seed of the draws; the same seed gives the same decisions.
    bounds : tuple[float, float], optional
        The smallest and largest possible reward or loss.
    """
    import bothworlds as bw

    words: list[str] | int = parse.listed(arms, "--arms")
    if isinstance(words, list) and len(words) == 1:
        words = parse.count(arms, "--arms", least=2)
    _, chosen = parse.policy(policy)
    drawn = None if seed is None else parse.count(seed, "--seed", least=0)
    bandit = bw.Bandit(chosen, words, seed=drawn, bounds=bounds)
    with locked(state):
        if state.exists():
            raise StateFileError(f"The file {str(state)!r} exists already; nothing was changed.")
        bandit.save(state)
    typer.echo(f"{state}: {len(bandit)} arms, {chosen!r}, seed {bandit.seed}")


@app.command()
@command
def ask(
    state: State,
    available: Annotated[str | None, option("NAMES", "all")] = None,
    as_json: AsJson = False,
) -> None:
    """Draw an arm and print its name, the decision's id and the arm's probability.

    Example: bothworlds decide ask state.json

    Parameters
    ----------
    available : str, optional
        The arms that can be used right now, separated by commas.
    """
    typer.echo(decisions.ask(state, available, as_json))


@app.command()
@command
def tell(
    state: State,
    id: Annotated[str, argument("ID")],
    reward: Annotated[str | None, option("R", False)] = None,
    loss: Annotated[str | None, option("L", False)] = None,
) -> None:
    """Learn the outcome of a decision: a reward or a loss, once, however late.

    Example: bothworlds decide tell state.json 1 --reward 0.8

    Parameters
    ----------
    id : str
        The id that ask printed.
    reward : str, optional
        Reward.
    loss : str, optional
        Loss (instead of --reward).
    """
    decisions.tell(state, id, reward, loss)


@app.command()
@command
def expire(
    state: State,
    older_than: Annotated[str, option("N")],
    reward: Annotated[str | None, option("R", "nothing")] = None,
    loss: Annotated[str | None, option("L", "nothing")] = None,
) -> None:
    """Close decisions whose feedback never came, and print their ids.

    Example: bothworlds decide expire state.json --older-than 1000

    Parameters
    ----------
    older_than : str
        Close decisions made more than this many asks ago.
    reward : str, optional
        Reward to assume.
    loss : str, optional
        Loss to assume (instead of --reward).
    """
    age = parse.count(older_than, "--older-than", least=0)
    feedback = {} if reward is None and loss is None else feedback_of(reward, loss)
    with changed(state) as bandit:
        closed = bandit.expire(older_than=age, **feedback)
    typer.echo(" ".join(map(str, closed)) or "none")


@app.command()
@refusals()
def show(state: State, as_json: AsJson = False) -> None:
    """Print the statistics of every arm, and the decisions that wait for feedback.

    Example: bothworlds decide show state.json
    """
    with locked(state):
        bandit = loaded(state)
    known = bandit.probabilities() if bandit.policy.traits.knows_probability else {}
    if as_json:
        typer.echo(json.dumps(_document(bandit, known), ensure_ascii=False))
        return
    table = new_table("", ["arm"], ["asked", "told", "mean loss", "probability now"])
    for name, arm in bandit.history().items():
        mean = "" if arm.mean_loss is None else f"{arm.mean_loss:.4g}"
        p = "retired" if arm.retired else f"{known[name]:.4f}" if known else "unknown"
        table.add_row(str(name), str(arm.pulls), str(arm.told), mean, p)
    screen = console()
    screen.print(f"{bandit.policy!r}, round {bandit.round}, seed {bandit.seed}", markup=False)
    screen.print(table)
    if bandit.policy.traits.skipped_row is not None:
        screen.print(f"Losses skipped as too large: {bandit.skipped}")
    waiting = bandit.pending
    shown = " ".join(map(str, waiting[:12])) + (" ..." if len(waiting) > 12 else "")
    screen.print(f"Waiting for feedback: {len(waiting)}" + (f" (ids {shown})" if shown else ""))


def _document(bandit: Bandit, known: dict[Any, float]) -> dict[str, Any]:
    return {
        "policy": repr(bandit.policy),
        "round": bandit.round,
        "seed": bandit.seed,
        "bounds": list(bandit.bounds) if math.isfinite(bandit.bounds[0]) else None,
        **({} if bandit.policy.traits.skipped_row is None else {"skipped": bandit.skipped}),
        "pending": bandit.pending,
        "arms": [
            {
                "arm": name,
                "asked": arm.pulls,
                "told": arm.told,
                "mean_loss": arm.mean_loss,
                "mean_reward": arm.mean_reward,
                "probability": known.get(name),
                "retired": arm.retired,
            }
            for name, arm in bandit.history().items()
        ],
    }
