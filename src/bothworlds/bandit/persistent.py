"""Persistence shared by all bandits: locks, copies, pickles and state files.

A bandit that was copied, pickled or saved continues bit for bit.  A state file is written all at
once or not at all; `bothworlds.bandit.state_file` defines its format.
"""

from __future__ import annotations

import os
import pathlib
import threading
import time
import weakref
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, Self, TypeVar

from bothworlds.bandit import state_file
from bothworlds.bandit.pending import Keys
from bothworlds.errors import ForkError, StateFileError, invalid
from bothworlds.files import locked, replacing
from bothworlds.seeding import checked_seed

Config = TypeVar("Config")


_LIVING: weakref.WeakSet[Any] = weakref.WeakSet()
"""Every bandit of this process."""


class Turn:
    """A lock: the thread that takes its one token has the turn, and gives it back.

    Two methods of a list, each of which Python runs as one step, cost a quarter of what a
    `threading.Lock` does; a round pays it twice. A thread that finds no token calls `wait`.
    """

    __slots__ = ("give", "take")

    def __init__(self) -> None:
        tokens = [None]
        self.take = tokens.pop
        self.give = tokens.append

    def wait(self) -> None:
        """Take the token as soon as it is there."""
        pause = 0.0
        while True:
            time.sleep(pause)
            try:
                return self.take()
            except IndexError:
                pause = min(pause + 1e-6, 1e-3)

    def __enter__(self) -> None:
        try:
            self.take()
        except IndexError:
            self.wait()

    def __exit__(self, *_: object) -> None:
        self.give(None)


class Forked:
    """Takes the place of a bandit's lock in the child of a fork, and refuses."""

    def __enter__(self) -> None:
        raise ForkError(
            "A bandit must be used in the process that created it, got a "
            "fork of it, which would draw the same arms: use its copy(seed=...), bw.shared or "
            "bothworlds serve."
        )

    def __exit__(self, *_: object) -> None:
        """Do nothing: it was never entered."""


def _after_fork() -> None:
    for bandit in list(_LIVING):
        # The thread that held the old lock is not in this process.
        bandit._lock = refusing = Forked()
        bandit._take = refusing.__enter__
        bandit._quiet = Turn()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Persistent(Generic[Config]):
    """Base of `bothworlds.Bandit` and `bothworlds.DuelingBandit`: saving, loading and copying.

    A bandit is its policy and its `_document`; `_restored` creates it from these again.
    """

    __slots__ = (
        "__weakref__",
        "_give",
        "_key_lock",
        "_keys",
        "_lock",
        "_policy",
        "_quiet",
        "_seed",
        "_seen",
        "_take",
    )

    _OWNER: ClassVar[str]
    """The name of the class in error messages."""
    _FORMAT: ClassVar[str]
    """Format name in its state files."""
    _VERSION: ClassVar[int]
    """The version of them that this package writes and reads."""
    _CLASSES: ClassVar[tuple[type, ...]] = ()
    """Classes that a saved policy may contain besides this package's policies."""

    _take: Any
    _give: Any
    _lock: Any
    """Lock of a thread that asks, reports feedback or changes arms."""
    _policy: Config
    _quiet: Any
    """The same for readers; in the child of a fork, where `_lock` refuses, a lock of its own."""
    _seed: int
    _key_lock: Any
    """Lock of a caller that asks with a key."""
    _keys: Keys
    """Pending decisions by the key they were asked with."""
    _seen: dict[str, str]
    """Checksums of the files this bandit was loaded from or saved to, as it left them."""

    def _guard(self) -> None:
        """Let one thread at a time use the bandit, and no child of this process."""
        turn = self._lock = self._quiet = Turn()
        self._take, self._give = turn.take, turn.give
        self._key_lock = threading.RLock()
        _LIVING.add(self)

    @property
    def policy(self) -> Config:
        """The algorithm."""
        return self._policy

    @property
    def seed(self) -> int:
        """The seed, also if none was given."""
        return self._seed

    @property
    @abstractmethod
    def round(self) -> int:
        """How many decisions, or pairs, have been drawn."""

    @abstractmethod
    def _document(self) -> dict[str, Any]:
        """Return everything but the policy as JSON values."""

    @abstractmethod
    def _canonicalise(self) -> None:
        """Restart the solver from the numbers in `_document`, as `_restored` does.

        So a bandit that was saved and the one that is loaded continue bit for bit alike, though no
        solver's memory is in the file.
        """

    @classmethod
    @abstractmethod
    def _restored(cls, policy: Config, document: dict[str, Any]) -> Self:
        """Return the bandit that `_document` described."""

    @abstractmethod
    def _copy(self, seed: int | None) -> Self:
        """Return an independent bandit in the same state, drawing by another seed if given."""

    def copy(self, *, seed: int | None = None) -> Self:
        """Return an independent bandit in the same state, pending decisions included.

        Parameters
        ----------
        seed : int, optional
            Lets the copy draw by another seed; without it both draw the same arms.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.Bandit(bw.TsallisINF(), arms=5, seed=7)
        >>> other = bandit.copy()
        >>> [other.ask().arm for _ in range(9)] == [bandit.ask().arm for _ in range(9)]
        True
        """
        given = None if seed is None else checked_seed(seed, f"{self._OWNER}.copy")
        with self._quiet:
            made = self._copy(given)
        made._guard()
        if given is None and isinstance(self._lock, Forked):
            # It would draw what the parent and every other child draw.
            made._lock, made._take = self._lock, self._take
        return made

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        with self._quiet:
            self._canonicalise()
            document = self._document()
        return self._restored, (self._policy, document)

    def as_dict(self) -> dict[str, Any]:
        """Return the bandit as a document of JSON values, for a database of your own.

        `from_dict` makes the bandit of it again, which continues bit for bit.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.Bandit(bw.TsallisINF(), arms=["blue", "green"], seed=7)
        >>> document = bandit.as_dict()
        >>> document["format"], document["version"]
        ('bothworlds.bandit', 2)
        >>> bw.Bandit.from_dict(document).arms
        ('blue', 'green')
        """
        description = state_file.describe(self._policy, f"{self._OWNER}.save")
        with self._quiet:
            self._canonicalise()
            content = {"policy": description, **self._document()}
        return state_file.sealed(self._FORMAT, self._VERSION, content)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], *, policy: Config | None = None) -> Self:
        """Return the bandit that `as_dict` described.

        Parameters
        ----------
        document : mapping
            What `as_dict` returned.
        policy : Policy or Sparring, optional
            Needed if the saved one is not made of this package's policies; must equal it.

        Raises
        ------
        StateFileError
            If the document is damaged, something else, or of a newer version.
        """
        return cls._of(document, policy, f"document of {cls._OWNER}.from_dict")

    def dumps(self) -> str:
        """Return the bandit as text, for Redis, a column of a table or an object store.

        It is what `save` writes to a file; `loads` makes the bandit of it again.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.Bandit(bw.TsallisINF(), arms=["blue", "green"], seed=7)
        >>> other = bw.Bandit.loads(bandit.dumps())
        >>> [other.ask().arm for _ in range(9)] == [bandit.ask().arm for _ in range(9)]
        True
        """
        return state_file.as_text(self.as_dict())

    @classmethod
    def loads(cls, text: str | bytes, *, policy: Config | None = None) -> Self:
        """Return the bandit that `dumps` wrote.

        Parameters
        ----------
        text : str or bytes
            What `dumps` returned, or the content of a state file.
        policy : Policy or Sparring, optional
            Needed if the saved one is not made of this package's policies; must equal it.

        Raises
        ------
        StateFileError
            If the text is damaged, something else, or of a newer version.
        """
        owner = f"text of {cls._OWNER}.loads"
        if not isinstance(text, str | bytes | bytearray):
            raise invalid("text", f"{cls._OWNER}.loads", "str or bytes", text)
        return cls._of(state_file.parsed(text, owner), policy, owner)

    def save(self, path: state_file.Path) -> None:
        """Write the bandit to a file, from which `load` continues bit for bit.

        The file is JSON, complete or not written at all. A file already there is replaced, unless
        it is one that this bandit was loaded from or saved to and that another process has changed
        since. For several processes on one file there is `bothworlds.shared`.

        Parameters
        ----------
        path : str or path-like
            Where to write.

        Raises
        ------
        StateFileError
            If another process has changed the file since; it stays as it is.

        Examples
        --------
        >>> import os, tempfile
        >>> import bothworlds as bw
        >>> bandit = bw.Bandit(bw.TsallisINF(), arms=["blue", "green"], seed=7)
        >>> decision = bandit.ask()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bandit.save(os.path.join(folder, "bandit.json"))
        ...     later = bw.Bandit.load(os.path.join(folder, "bandit.json"))
        >>> later.tell(decision.id, reward=1.0)
        """
        place = os.path.realpath(path)
        seen = self._seen.get(place)
        if seen is None:
            self._write(path)
            return
        with locked(path):
            found = state_file.checksum_in(path)
            if found is not None and found != seen:
                raise StateFileError(
                    f"The {state_file.owner_of(path)} was changed by another process after this "
                    "bandit last read it, so it was not overwritten; bothworlds.shared lets "
                    "several processes use a file."
                )
            self._write(path)

    def _write(self, path: state_file.Path) -> None:
        """Write the state file, also over another one."""
        with replacing(path) as draft:
            # A path that is refused must leave the state unchanged; normalising it here would not.
            document = self.as_dict()
            draft.write_bytes(state_file.as_text(document).encode())
        self._seen[os.path.realpath(path)] = document["checksum"]

    @classmethod
    def load(cls, path: state_file.Path, *, policy: Config | None = None) -> Self:
        """Return the bandit saved at ``path``.

        Parameters
        ----------
        path : str or path-like
            A file that `save` wrote.
        policy : Policy or Sparring, optional
            Needed if the saved one is not made of this package's policies; must equal it.

        Raises
        ------
        StateFileError
            If the file is damaged, something else, or of a newer version.
        """
        document = state_file.parsed(pathlib.Path(path).read_bytes(), state_file.owner_of(path))
        bandit = cls._of(document, policy, state_file.owner_of(path))
        bandit._seen[os.path.realpath(path)] = document["checksum"]
        return bandit

    @classmethod
    def _of(cls, document: object, policy: Config | None, owner: str) -> Self:
        """Return the bandit of a document; ``owner`` names where it comes from."""
        content = state_file.unsealed(document, cls._FORMAT, cls._VERSION, owner)
        description = content.get("policy")
        caller = f"{cls._OWNER}.load"
        if policy is not None and state_file.describe(policy, caller) != description:
            raise invalid("policy", caller, f"the one that was saved, {description}", policy)
        try:
            if policy is None:
                policy = state_file.recreate(description, cls._CLASSES)
            return cls._restored(policy, content)
        except (
            ArithmeticError,
            AttributeError,
            LookupError,
            RecursionError,
            TypeError,
            ValueError,
        ) as error:
            raise state_file.damaged(owner, state_file.in_short(error)) from error
