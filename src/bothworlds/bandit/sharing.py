"""File-locked sharing of a bandit between processes: load, use, save, one process at a time."""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from bothworlds.bandit import state_file
from bothworlds.bandit.bandit import Bandit
from bothworlds.errors import StateFileError
from bothworlds.files import PATIENCE, locked

if TYPE_CHECKING:
    from bothworlds.bandit.advised import AdvisedBandit
    from bothworlds.bandit.dueling import DuelingBandit
    from bothworlds.bandit.segmented import SegmentedBandit


@contextlib.contextmanager
def shared(
    path: str | os.PathLike[str],
    create: Callable[[], Bandit | DuelingBandit | SegmentedBandit | AdvisedBandit] | None = None,
    *,
    policy: Any = None,
    kind: Literal["bandit", "duel"] | None = None,
    patience: float = PATIENCE,
) -> Iterator[Any]:
    """Give the bandit of a state file to one process at a time.

    The block has the bandit to itself: other processes, and the command ``bothworlds decide``,
    wait. At its end the bandit is saved; if it raises, the file stays as it was. Keep blocks
    short: ask in one, tell in another by the decision's id or key.

    Parameters
    ----------
    path : str or path-like
        The state file.
    create : callable, optional
        Makes the bandit if there is no file yet.
    policy : Policy or Sparring, optional
        Needed if the saved one is not made of this package's policies; must equal it.
    kind : {"bandit", "duel"}, optional
        Refuse a file that holds the other kind.
    patience : float
        Seconds to wait for another process.

    Yields
    ------
    Bandit, DuelingBandit, SegmentedBandit or AdvisedBandit
        What the file holds.

    Raises
    ------
    StateFileError
        If there is no file and nothing to create it, if it is damaged, or if another process
        keeps it for too long.

    Examples
    --------
    >>> import os, tempfile
    >>> import bothworlds as bw
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "state.json")
    ...     new = lambda: bw.Bandit(bw.TsallisINF(), arms=["blue", "green"], seed=7)
    ...     with bw.shared(path, new) as bandit:
    ...         decision = bandit.ask()
    ...     with bw.shared(path) as bandit:  # perhaps in another process
    ...         bandit.tell(decision.id, reward=1.0)
    ...         bandit.round, bandit.pending
    (1, [])
    """
    with locked(path, patience):
        bandit = _loaded(path, create, policy, kind)
        yield bandit
        bandit._write(path)


def _loaded(
    path: str | os.PathLike[str],
    create: Callable[[], Bandit | DuelingBandit | SegmentedBandit | AdvisedBandit] | None,
    policy: Any,
    kind: str | None,
) -> Bandit | DuelingBandit | SegmentedBandit | AdvisedBandit:
    try:
        text = pathlib.Path(path).read_bytes()
    except FileNotFoundError:
        if create is not None:
            return create()
        raise StateFileError(
            f"There is no file {os.fspath(path)!r}; give create, a function that returns a new "
            "bandit."
        ) from None
    owner = state_file.owner_of(path)
    document = state_file.parsed(text, owner)
    named = document.get("format") if isinstance(document, dict) else None
    if kind == "duel" or (kind is None and named == "bothworlds.dueling"):
        from bothworlds.bandit.dueling import DuelingBandit

        return DuelingBandit._of(document, policy, owner)
    if kind is None and named == "bothworlds.segmented":
        from bothworlds.bandit.segmented import SegmentedBandit

        return SegmentedBandit._of(document, policy, owner)
    if kind is None and named == "bothworlds.advised":
        from bothworlds.bandit.advised import AdvisedBandit

        return AdvisedBandit._of(document, policy, owner)
    return Bandit._of(document, policy, owner)
