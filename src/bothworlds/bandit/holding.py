"""What a bandit holds between decisions: its arms, its numbers and the decisions that wait."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from numbers import Real
from typing import Any, Self

import numpy as np

from bothworlds.bandit import statefile
from bothworlds.bandit.arms import ArmHistory, Roster, checked_newcomer, html_table
from bothworlds.bandit.decision import Arm, Lineup, Origin
from bothworlds.bandit.feedback import checked_bounds
from bothworlds.bandit.keeping import Keeping
from bothworlds.bandit.pending import Pending, note
from bothworlds.bandit.state import columns, first_row, pack, with_columns
from bothworlds.errors import InvalidParameter, KernelError, must
from bothworlds.lanes.direct import direct
from bothworlds.lanes.kernels import ARMS, ROUND
from bothworlds.omd.entering import entry_estimate
from bothworlds.policies.base import Array, Policy
from bothworlds.policies.custom import CustomPolicy
from bothworlds.policies.tsallis_inf import TsallisINF, rate_now
from bothworlds.seeding import checked_seed, stream_words

NOTHING_FRESH = 0


class Holding(Keeping[Policy]):
    """The part of `bothworlds.Bandit` that neither asks nor tells."""

    __slots__ = (
        "_F",
        "_ask",
        "_bounds",
        "_fresh",
        "_fresh_inverse_p",
        "_fresh_slot",
        "_ledger",
        "_lineup",
        "_roster",
        "_rows",
        "_start",
        "_tell",
    )

    _OWNER = "Bandit"
    _FORMAT = "bothworlds.bandit"
    _VERSION = 1

    _F: Array
    _bounds: tuple[float, float]
    _fresh: int
    _fresh_inverse_p: float
    _fresh_slot: int
    _ledger: dict[int, Pending]
    _roster: Roster

    def _open(
        self,
        policy: Policy,
        roster: Roster,
        seed: int,
        bounds: tuple[float, float],
        origin: Origin,
        F: Array,
    ) -> None:
        """Start from a packed state."""
        self._policy = policy
        self._roster = roster
        self._seed = seed
        self._bounds = bounds
        self._round = int(F[ROUND])
        self._ledger = {}
        # The last decision, while nothing has happened since: the state still holds all that
        # its feedback needs. Every other pending decision is in the ledger.
        self._fresh = NOTHING_FRESH
        self._fresh_slot = 0
        self._fresh_inverse_p = 0.0
        self._place(F, origin)

    def _place(self, F: Array, origin: Origin) -> None:
        """Take ``F`` as the state; the roster already knows its arms."""
        self._F = F
        # Reading one number through a memoryview costs half of what indexing an array does.
        self._rows = F.data
        self._start = first_row(F)
        self._ask = self._asking(F)
        self._tell = direct(self._policy.for_arms(len(self)).kernels().tell, F, 0, 0.0, 0.0)
        self._lineup = self._lineup_of(self._roster.slots, origin, F)

    def _asking(self, F: Array) -> Callable[[Array], int]:
        """Return the compiled function that draws an arm from a bandit such as ``F``."""
        policy = self._policy
        ask: Callable[[Array], int] = direct(policy.for_arms(int(F[ARMS])).kernels().ask, F)
        return _guarded(ask, policy) if isinstance(policy, CustomPolicy) else ask

    def _lineup_of(self, indices: Iterable[int], origin: Origin, F: Array) -> Lineup:
        """Return what decisions drawn from ``F`` have in common."""
        names = self._roster.names
        indices = tuple(indices)
        twin = self._policy.for_arms(len(indices))
        kernel = twin.kernels().weights if twin.knows_probability else None
        state = None if twin is self._policy else F
        return Lineup(origin, tuple(names[index] for index in indices), indices, kernel, state)

    def _settle(self) -> None:
        """Enter the last decision into the ledger, because the state is about to change."""
        indices, known = self._lineup.index_array, len(self._roster.names)
        entry = note(self._policy, self._F, indices, self._fresh_slot, known)
        self._ledger[self._fresh] = entry
        self._fresh = NOTHING_FRESH

    # --- arms that come and go -----------------------------------------------------------------

    def add_arm(self, name: Arm, probability: float | None = None) -> None:
        """Add an arm while running, for `TsallisINF` without gaps.

        The old arms' estimates stay; the newcomer's is placed so that the arm has the given
        probability in the next round. While the learning rate is 0, as in the first round of
        Theorem 3, all arms are equally likely whatever is asked for. A retired arm comes back
        with its history. No regret theorem covers a changing set of arms.

        Parameters
        ----------
        name : str or int
            The name of the new arm.
        probability : float, optional
            In (0, 1); by default 1 / K, K counting the newcomer.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.Bandit(bw.TsallisINF(), arms=["blue", "green"], seed=7)
        >>> bandit.add_arm("red", probability=0.2)
        >>> round(bandit.probabilities()["red"], 12)
        0.2
        """
        policy = self._resizable("add_arm")
        arm = checked_newcomer(name, self._roster)
        n_arms = len(self._roster.slots) + 1
        w0: Any = 1.0 / n_arms if probability is None else probability
        if not isinstance(w0, Real) or isinstance(w0, bool) or not 0.0 < float(w0) < 1.0:
            expected = "a number strictly between 0 and 1"
            raise InvalidParameter(must("probability", "Bandit.add_arm", expected, probability))
        eta = rate_now(n_arms, self._round + 1, policy.parameters(n_arms))
        old = columns(self._F, policy)
        new = np.zeros((policy.rows_per_arm, 1))
        new[0] = entry_estimate(old[0], eta, policy.alpha, float(w0))
        if self._fresh:
            self._settle()
        F = with_columns(self._F, policy, np.concatenate([old, new], axis=1))
        self._roster.enter(arm)
        self._place(F, self._lineup.origin)

    def retire_arm(self, name: Arm) -> None:
        """Stop playing an arm, for `TsallisINF` without gaps.

        The other arms' estimates stay. The arm keeps its index and history, and its pending
        decisions can still be told. No regret theorem covers a changing set of arms.

        Parameters
        ----------
        name : str or int
            The name of an arm; the last one cannot be retired.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.Bandit(bw.TsallisINF(), arms=["blue", "green", "red"], seed=7)
        >>> bandit.retire_arm("green")
        >>> bandit.arms
        ('blue', 'red')
        """
        policy = self._resizable("retire_arm")
        slot = self._roster.slot(name, "Bandit.retire_arm")
        if len(self._roster.slots) == 1:
            expected = "an arm other than the last one"
            raise InvalidParameter(must("name", "Bandit.retire_arm", expected, name))
        old = columns(self._F, policy)
        if self._fresh:
            self._settle()
        F = with_columns(self._F, policy, np.delete(old, slot, axis=1))
        self._roster.leave(slot, float(old[0, slot] - old[0].min()))
        self._place(F, self._lineup.origin)

    def _resizable(self, method: str) -> TsallisINF:
        policy = self._policy
        if not isinstance(policy, TsallisINF) or policy.gaps is not None:
            expected = "TsallisINF without gaps"
            raise InvalidParameter(must("policy", f"Bandit.{method}", expected, policy))
        return policy

    # --- looking -----------------------------------------------------------------------------

    @property
    def policy(self) -> Policy:
        """The algorithm."""
        return self._policy

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The names of the arms that can be played."""
        return self._lineup.names

    @property
    def seed(self) -> int:
        """The seed, also if none was given."""
        return self._seed

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and largest possible reward or loss."""
        return self._bounds

    @property
    def round(self) -> int:
        """How many decisions have been made."""
        return self._round

    @property
    def pending(self) -> list[int]:
        """The ids of the decisions that wait for feedback."""
        return [*self._ledger, self._fresh] if self._fresh else list(self._ledger)

    def awaits(self, id: int) -> bool:
        """Return whether the decision with this id waits for feedback.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.Bandit(bw.TsallisINF(), arms=2, seed=7)
        >>> bandit.awaits(bandit.ask().id)
        True
        """
        return id in self._ledger or (id == self._fresh and id != NOTHING_FRESH)

    def probabilities(self) -> dict[Arm, float]:
        """Return how likely every arm is in the next round, drawing nothing.

        Raises
        ------
        InvalidParameter
            If the policy cannot tell, as Thompson sampling.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.Bandit(bw.TsallisINF(), arms=["blue", "green"], seed=7)
        >>> {name: round(p, 12) for name, p in bandit.probabilities().items()}
        {'blue': 0.5, 'green': 0.5}
        """
        policy = self._policy
        if not policy.knows_probability:
            expected = "one that knows its probabilities"
            raise InvalidParameter(must("policy", "Bandit.probabilities", expected, policy))
        F = self._F.copy()
        F[ROUND] = self._round + 1
        self._ask(F)
        w = np.empty(len(self._lineup.names))
        self._lineup.weights(F, w)
        return dict(zip(self._lineup.names, w.tolist(), strict=True))

    def history(self) -> dict[Arm, ArmHistory]:
        """Return what happened to every arm, retired ones included.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.Bandit(bw.UCB1(), arms=["blue", "green"], seed=7)
        >>> bandit.tell(bandit.ask(), reward=0.75)
        >>> bandit.history()["blue"]
        ArmHistory(pulls=1, told=1, mean_loss=0.25, estimate=None, retired=False)
        """
        estimates = None
        if self._policy.estimates:
            L = columns(self._F, self._policy)[0]
            estimates = (L - L.min()).tolist()
        pending = [entry.played for entry in self._ledger.values()]
        if self._fresh:
            pending.append(self._lineup.indices[self._fresh_slot])
        return self._roster.history(pending, estimates)

    def __len__(self) -> int:
        return len(self._roster.slots)

    def __repr__(self) -> str:
        units = "" if self._bounds == (0.0, 1.0) else f", bounds={self._bounds}"
        return f"Bandit({self._policy!r}, arms={list(self.arms)}, seed={self._seed}{units})"

    def _repr_html_(self) -> str:
        known = self.probabilities() if self._policy.knows_probability else {}
        return html_table(f"{self._policy!r}, round {self._round}", self.history(), known)

    # --- keeping -----------------------------------------------------------------------------

    def _document(self) -> dict[str, Any]:
        return {
            "seed": self._seed,
            "bounds": list(self._bounds),
            "arms": self._roster.document(),
            "pending": [entry.document() for entry in self._ledger.values()],
            "fresh": [self._fresh_slot, self._fresh_inverse_p] if self._fresh else None,
            "state": b64encode(self._F.astype("<f8", copy=False).tobytes()).decode("ascii"),
        }

    @classmethod
    def _restored(cls, policy: Policy, document: dict[str, Any]) -> Self:
        roster = Roster.from_document(document["arms"])
        n_arms = len(roster.slots)
        state = b64decode(document["state"], validate=True)
        F = np.frombuffer(state, "<f8").astype(np.float64)
        seed = checked_seed(document["seed"], "Bandit")
        first = pack(policy, n_arms, stream_words(seed, "Bandit"))
        if F.size != first.size or F[0] != n_arms or first_row(F) != first_row(first):
            raise ValueError("state and arms differ in number")
        bandit = cls.__new__(cls)
        bounds = checked_bounds(document["bounds"])
        bandit._open(policy, roster, seed, bounds, Origin(seed, crossed=True), F)
        for values in document["pending"]:
            entry = Pending.from_document(values)
            bandit._ledger[entry.round] = entry
        if document["fresh"] is not None:
            slot, inverse_p = document["fresh"]
            bandit._fresh = bandit._round
            bandit._fresh_slot = range(n_arms)[slot]
            bandit._fresh_inverse_p = float(inverse_p)
        return bandit

    def copy(self) -> Self:
        """Return an independent bandit in the same state, pending decisions included.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.Bandit(bw.TsallisINF(), arms=5, seed=7)
        >>> twin = bandit.copy()
        >>> [twin.ask().arm for _ in range(9)] == [bandit.ask().arm for _ in range(9)]
        True
        """
        return self._twin()

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()

    def save(self, path: statefile.Path) -> None:
        """Write the bandit to a file, from which `load` continues bit for bit.

        The file is JSON, complete or not written at all; a file already there is replaced.

        Parameters
        ----------
        path : str or path-like
            Where to write.

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
        self._write(path)

    @classmethod
    def load(cls, path: statefile.Path, *, policy: Policy | None = None) -> Self:
        """Return the bandit saved at ``path``.

        Parameters
        ----------
        path : str or path-like
            A file that `save` wrote.
        policy : Policy, optional
            Needed if it is not one of this package; must equal the one that was saved.

        Raises
        ------
        StateFileError
            If the file is damaged, something else, or of a newer version.
        """
        return cls._read(path, policy)


def _guarded(ask: Callable[[Array], int], policy: Policy) -> Callable[[Array], int]:
    """Return ``ask`` of a user's policy, which may return what is no arm; then nothing changes."""

    def guarded(F: Array) -> int:
        tried = F.copy()
        arm = int(ask(tried))
        if not 0 <= arm < F[ARMS]:
            expected = f"an arm from 0 to {int(F[ARMS]) - 1} by a distribution that sums to 1"
            raise KernelError(must("choice", type(policy).__name__, expected, arm))
        F[:] = tried
        return arm

    return guarded
