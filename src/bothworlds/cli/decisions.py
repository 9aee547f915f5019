"""`bothworlds decide ask` and `tell`, without the parser of command lines.

A script that decides in a shell starts a process for every decision. Loading the parser would
take as long as everything else it does apart from importing Numba, so the usual forms of the two
commands are read here; `quick` leaves all others to `bothworlds.cli.decide`.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bothworlds.cli import parse
from bothworlds.cli.exit_codes import FAILED, REFUSED, refusal, say
from bothworlds.errors import InvalidParameter, StateFileError
from bothworlds.files import HAS_LOCKS, PATIENCE
from bothworlds.files import locked as file_locked

if TYPE_CHECKING:
    from bothworlds.bandit.bandit import Bandit


def quick(words: list[str]) -> int | None:
    """Carry out ``ask`` or ``tell`` if the words have a usual form; return the exit code.

    None stands for all other words, about which nothing was done.

    Examples
    --------
    >>> quick(["show", "state.json"]), quick(["ask", "--help"])
    (None, None)
    """
    if len(words) < 2 or words[1].startswith("-"):
        return None
    state = Path(words[1])
    try:
        match words:
            case ["ask", _]:
                print(ask(state, None, as_json=False), flush=True)
            case ["ask", _, "--json"]:
                print(ask(state, None, as_json=True), flush=True)
            case ["tell", _, id, "--reward", value] if not id.startswith("-"):
                tell(state, id, value, None)
            case ["tell", _, id, "--loss", value] if not id.startswith("-"):
                tell(state, id, None, value)
            case _:
                return None
    except BrokenPipeError:
        # The reader has closed the output; nothing more is written when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except REFUSED as error:
        sentence, code = refusal(error)
        if sentence:
            say(sentence)
        return code
    return 0


def ask(state: Path, available: str | None, as_json: bool) -> str:
    """Draw an arm; return the line that is printed of it."""
    with changed(state) as bandit:
        among = None
        if available is not None:
            known = {str(arm): arm for arm in bandit.arms}
            words = parse.listed(available, "--available")
            among = [known[_chosen_arm(word, known)] for word in words]
        decision = bandit.ask(among)
    if as_json:
        everyone = decision.probabilities
        shown = {
            "arm": decision.arm,
            "id": decision.id,
            "probability": decision.probability,
            "probabilities": None if everyone is None else dict(everyone),
        }
        return json.dumps(shown, ensure_ascii=False)
    p = decision.probability
    return f"{decision.arm}\t{decision.id}\t{'unknown' if p is None else f'{p:.6f}'}"


def _chosen_arm(word: str, known: dict[str, Any]) -> str:
    # Names of arms keep their case, which the names of policies do not.
    return word if word in known else parse.choose("arm", word, known)


def tell(state: Path, id: str, reward: str | None, loss: str | None) -> None:
    """Learn the outcome of a decision."""
    decision = parse.count(id, "ID", least=0)
    feedback = feedback_of(reward, loss)
    with changed(state) as bandit:
        bandit.tell(decision, **feedback)


def feedback_of(reward: str | None, loss: str | None) -> dict[str, Any]:
    """Return the argument that a bandit's ``tell`` takes: the one of the two that was given."""
    if (reward is None) == (loss is None):
        got = "neither" if reward is None else "both"
        raise InvalidParameter(f"The feedback must be a --reward or a --loss, got {got}.")
    if reward is not None:
        return {"reward": parse.number(reward, "--reward")}
    return {"loss": parse.number(str(loss), "--loss")}


def loaded(state: Path) -> Bandit:
    """Return the bandit that a file holds."""
    import bothworlds as bw

    refuse_missing(state)
    return bw.Bandit.load(state)


def refuse_missing(state: Path) -> None:
    """Explain how to start, where there is no state file."""
    if not state.exists():
        raise StateFileError(
            f"There is no file {str(state)!r}; bothworlds decide init starts a bandit."
        )


@contextlib.contextmanager
def changed(state: Path) -> Iterator[Bandit]:
    """Load the bandit, let the block change it, and save it unless the block failed."""
    from bothworlds.bandit.sharing import shared

    refuse_missing(state)
    warn_without_locks()
    with shared(state, kind="bandit") as bandit:
        yield bandit


@contextlib.contextmanager
def locked(state: Path, patience: float = PATIENCE) -> Iterator[None]:
    """Hold the lock of a state file, so that no other command works on it meanwhile."""
    warn_without_locks()
    with file_locked(state, patience):
        yield


def warn_without_locks() -> None:
    """Warn that commands do not wait for each other, where the system has no locks."""
    if not HAS_LOCKS:
        say("This system has no file locks: let one command at a time use a state file.")
