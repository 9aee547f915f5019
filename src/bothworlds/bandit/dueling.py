"""`DuelingBandit`: `ask` draws a `Pair` of arms, `tell` takes the winner.

A dueling bandit has one `Core` on each side, or one on both that is drawn from twice a round.
They keep the pending decisions, the arms and the state; the code here pairs their decisions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal, Self

from bothworlds.arguments import is_whole
from bothworlds.bandit.arms import ArmHistory, checked_names, html_table
from bothworlds.bandit.content import content_of, core_of, reopened
from bothworlds.bandit.core import Core, started
from bothworlds.bandit.decision import Arm, Decision
from bothworlds.bandit.feedback import FeedbackUnits, default_bounds
from bothworlds.bandit.pending import Keys, checked_age, checked_key, closed, is_key
from bothworlds.bandit.persistent import Persistent
from bothworlds.bandit.state_file import listed, record, whole
from bothworlds.errors import InvalidFeedback, KernelError, UnknownDecision, invalid, must
from bothworlds.policies.sparring import Sparring
from bothworlds.seeding import checked_seed, derived_seed

Side = Literal["left", "right"]
SIDES = ("left", "right")


@dataclass(eq=False, repr=False, slots=True)
class Pair:
    """Two arms to compare, drawn by `DuelingBandit.ask`.

    Attributes
    ----------
    round : int
        The round in which they were drawn, from 1.
    key : str or None
        The key they were asked with.

    Examples
    --------
    >>> import bothworlds as bw
    >>> duel = bw.DuelingBandit(bw.Sparring(), arms=["blue", "green"], seed=3)
    >>> pair = duel.ask()
    >>> pair.id, pair.left, pair.right
    (1, 'green', 'blue')
    >>> [round(p, 12) for p in pair.probability]
    [0.5, 0.5]
    """

    round: int
    _left: Decision
    _right: Decision
    key: str | None = None

    @property
    def time(self) -> float:
        """When they were drawn, in seconds since 1970 as `time.time` counts them."""
        return self._left.time

    @property
    def id(self) -> int:
        """The number under which the bandit remembers the pair; there is one a round."""
        return self.round

    @property
    def left(self) -> Arm:
        """The name of the left side's arm."""
        return self._left.arm

    @property
    def right(self) -> Arm:
        """The name of the right side's arm, which may be the left side's."""
        return self._right.arm

    @property
    def left_probability(self) -> float | None:
        """How likely the left side was to draw its arm; None if the policy cannot tell."""
        return self._left.probability

    @property
    def right_probability(self) -> float | None:
        """How likely the right side was to draw its arm; None if the policy cannot tell."""
        return self._right.probability

    @property
    def probability(self) -> tuple[float | None, float | None]:
        """How likely each side was to draw its arm, left and right."""
        return self.left_probability, self.right_probability

    def __repr__(self) -> str:
        return (
            f"Pair(id={self.id}, left={self.left!r}, right={self.right!r}, "
            f"probability={self.probability})"
        )


class DuelingBandit(Persistent[Sparring]):
    """A dueling algorithm at work: it draws pairs, waits for the winners and learns.

    Winners may come late, in any order, for any number of pending pairs, once each. They are
    weighted with the probabilities at decision time. Threads may share a bandit. In a process
    forked after it was created, it refuses `ask` and `tell`; its ``copy(seed=...)`` does not.

    Parameters
    ----------
    policy : Sparring
        The algorithm.
    arms : sequence of str or int, or int
        The names of the arms, or their number K for the names 0, ..., K - 1.
    seed : int, optional
        Makes the draws repeatable. Without it a fresh one is drawn, which `seed` shows.

    Examples
    --------
    >>> import bothworlds as bw
    >>> duel = bw.DuelingBandit(bw.Sparring(), arms=["blue", "green", "red"], seed=7)
    >>> for _ in range(1000):
    ...     pair = duel.ask()
    ...     duel.tell(pair, winner="right" if pair.right == "green" else "left")
    >>> max(duel.probabilities(), key=duel.probabilities().get)
    'green'

    References
    ----------
    Zimmert and Seldin, *Tsallis-INF: An Optimal Algorithm for Stochastic and Adversarial
    Bandits*, JMLR 22, 2021, section 6.
    """

    __slots__ = ("_left", "_right", "_round")

    _OWNER = "DuelingBandit"
    _FORMAT = "bothworlds.dueling"
    _VERSION = 2
    _CLASSES = (Sparring,)

    def __init__(
        self, policy: Sparring, arms: Iterable[Arm] | int, *, seed: int | None = None
    ) -> None:
        owner = "DuelingBandit"
        if not isinstance(policy, Sparring):
            raise invalid("policy", owner, "a dueling policy such as Sparring()", policy)
        names = checked_names(arms, owner)
        seed = checked_seed(seed, owner)
        inner = policy.side()
        # There is no report of a side, so it keeps no evidence.
        left = right = started(inner, names, derived_seed(seed, owner, "left"), evidence=False)
        if not policy.shared:
            right = started(inner, names.copy(), derived_seed(seed, owner, "right"), False)
        self._open(policy, seed, left, right, Keys())

    def _open(self, policy: Sparring, seed: int, left: Core, right: Core, keys: Keys) -> None:
        self._policy = policy
        self._seed = seed
        self._seen = {}
        self._keys = keys
        self._left = left
        self._right = right
        self._round = left.round // 2 if policy.shared else left.round
        self._guard()

    def _draws(self, number: int) -> tuple[int, int]:
        """Return the ids of a pair's two decisions, each on its side."""
        return (2 * number - 1, 2 * number) if self._policy.shared else (number, number)

    # --- decisions and feedback --------------------------------------------------------------

    def ask(self, *, key: str | None = None) -> Pair:
        """Draw two arms to compare, which may be the same one.

        Parameters
        ----------
        key : str, optional
            A name of your own for the pair. While it is pending, asking with the same key returns
            it again, and `tell` takes the key.

        Returns
        -------
        Pair
            Hand it, or its ``id``, to `tell` when the winner is known.

        Examples
        --------
        >>> import bothworlds as bw
        >>> duel = bw.DuelingBandit(bw.Sparring(), arms=["blue", "green"], seed=3)
        >>> duel.ask()
        Pair(id=1, left='green', right='blue', probability=(0.5..., 0.5...))
        """
        if key is not None:
            checked_key(key, "DuelingBandit.ask")
            with self._key_lock:
                if key not in self._keys.decisions:
                    pair = replace(self.ask(), key=key)
                    self._keys.add(key, pair.round, pair)
                known: Pair = self._keys.decisions[key]
                return known
        try:
            self._take()
        except IndexError:
            self._lock.wait()
        try:
            # A user's policy may fail on the right side after it has chosen on the left.
            kept = None if self._policy.policy.traits.trusted else self._left.copy(None)
            left = self._left.draw()
            try:
                right = self._right.draw()
            except KernelError:
                self._left = self._left if kept is None else kept
                raise
            number = self._round = self._round + 1
            return Pair(number, left, right)
        finally:
            self._give(None)

    def tell(self, pair: Pair | int | str, *, winner: Side) -> None:
        """Learn which side of a pair won.

        Parameters
        ----------
        pair : Pair, int or str
            What `ask` returned, its ``id``, or the key it was asked with; any pending one, in any
            order.
        winner : {"left", "right"}
            The side, also where both sides hold the same arm: whichever is declared the winner
            of two equals, by a coin or by a voter, is learned correctly.

        Raises
        ------
        InvalidFeedback
            If the winner is not a side.
        DecisionClosed
            If the pair was already answered or has expired.
        UnknownDecision
            If the pair is not one of this bandit's.

        Examples
        --------
        >>> import bothworlds as bw
        >>> duel = bw.DuelingBandit(bw.Sparring(bw.UCB1()), arms=3, seed=7)
        >>> first, second = duel.ask(), duel.ask()
        >>> duel.tell(second, winner="left")
        >>> duel.tell(first.id, winner="right")
        >>> duel.tell(first, winner="right")
        Traceback (most recent call last):
        ...
        bothworlds.errors.DecisionClosed: The pair of DuelingBandit.tell must be pending, got 1, ...
        """
        if not isinstance(winner, str) or winner not in SIDES:
            expected = '"left" or "right", a side and not an arm'
            raise InvalidFeedback(must("winner", "DuelingBandit.tell", expected, winner))
        loss = 0.0 if winner == "left" else 1.0
        try:
            self._take()
        except IndexError:
            self._lock.wait()
        try:
            left, right = self._left, self._right
            if (
                type(pair) is Pair
                and pair._left._lineup is left.lineup
                and pair._right._lineup is right.lineup
                and left.awaits(pair._left.round)
            ):
                number, first, second = pair.round, pair._left.round, pair._right.round
            else:
                number = self._admit(pair)
                first, second = self._draws(number)
            # The right side's draw is the later one; if it is the last, it is learned fastest.
            right.learn(second, 1.0 - loss)
            left.learn(first, loss)
            if self._keys.of:
                self._keys.close(number)
        finally:
            self._give(None)

    def _admit(self, pair: object, owner: str = "DuelingBandit.tell") -> int:
        """Return the round of a pending pair, or refuse it."""
        if type(pair) is str:
            if pair not in self._keys.decisions:
                raise self._refusal(pair, owner)
            number = int(self._keys.decisions[pair].round)
        elif is_whole(pair):
            number = int(pair)
        elif isinstance(pair, Pair):
            number = pair.round
            admitted = self._left.admits(pair._left) and self._right.admits(pair._right)
            if not admitted or (pair._left.round, pair._right.round) != self._draws(number):
                raise self._refusal(pair, owner)
        else:
            raise self._refusal(pair, owner)
        if not 1 <= number <= self._round:
            raise self._refusal(pair, owner)
        if not self._left.awaits(self._draws(number)[0]):
            raise closed("pair", owner, number)
        return number

    def _refusal(self, pair: object, owner: str) -> UnknownDecision:
        expected = "a pair of this bandit, its id or its key"
        return UnknownDecision(must("pair", owner, expected, pair))

    def forget(self, pair: Pair | int | str) -> None:
        """Close one pair without a winner; nothing is learned from it.

        Parameters
        ----------
        pair : Pair, int or str
            What `ask` returned, its ``id``, or the key it was asked with.

        Examples
        --------
        >>> import bothworlds as bw
        >>> duel = bw.DuelingBandit(bw.Sparring(), arms=3, seed=7)
        >>> duel.forget(duel.ask())
        >>> duel.pending
        []
        """
        with self._lock:
            self._drop(self._admit(pair, "DuelingBandit.forget"))

    def _drop(self, number: int) -> None:
        first, second = self._draws(number)
        self._left.drop(first)
        self._right.drop(second)
        self._keys.close(number)

    def expire(self, *, older_than: int | timedelta) -> list[int]:
        """Close pairs whose winner never came; nothing is learned from them.

        Parameters
        ----------
        older_than : int or timedelta
            Pairs drawn more than this many rounds, or this long, ago are closed; 0 closes all.

        Returns
        -------
        list of int
            The ids that were closed; feedback for them now raises `DecisionClosed`.

        Examples
        --------
        >>> import bothworlds as bw
        >>> duel = bw.DuelingBandit(bw.Sparring(), arms=3, seed=7)
        >>> for _ in range(5):
        ...     pair = duel.ask()
        >>> duel.expire(older_than=2)
        [1, 2]
        >>> duel.pending
        [3, 4, 5]
        """
        limit = checked_age(older_than, "DuelingBandit.expire")
        with self._lock:
            if isinstance(limit, timedelta):
                # The right side's draw is the later one, so both are old if it is.
                old = set(self._right.older(limit))
                expired = [pair for pair in self.pending if self._draws(pair)[1] in old]
            else:
                waiting = self.pending
                expired = [n for n in waiting if self._round - n > limit or limit == 0]
            for number in expired:
                self._drop(number)
            return expired

    # --- looking -----------------------------------------------------------------------------

    def probabilities(self, side: Side | None = None) -> dict[Arm, float]:
        """Return how likely every arm is in the next round, drawing nothing.

        Parameters
        ----------
        side : {"left", "right"}, optional
            One side's distribution; by default the mean of both, each arm's share of the places.

        Raises
        ------
        InvalidParameter
            If the policy cannot tell, as Thompson sampling.

        Examples
        --------
        >>> import bothworlds as bw
        >>> duel = bw.DuelingBandit(bw.Sparring(), arms=["blue", "green"], seed=7)
        >>> {name: round(p, 12) for name, p in duel.probabilities().items()}
        {'blue': 0.5, 'green': 0.5}
        """
        owner = "DuelingBandit.probabilities"
        if side is not None and side not in SIDES:
            raise invalid("side", owner, '"left", "right" or None', side)
        if not self._policy.policy.traits.knows_probability:
            raise invalid("policy", owner, "one that knows its probabilities", self._policy)
        with self._quiet:
            left = self._left.probabilities()
            if self._policy.shared or side == "left":
                return left
            right = self._right.probabilities()
        if side == "right":
            return right
        return {name: 0.5 * (left[name] + right[name]) for name in left}

    def history(self) -> dict[Arm, ArmHistory]:
        """Return the history of every arm, on both sides together.

        The mean loss is the share of duels it lost.

        Examples
        --------
        >>> import bothworlds as bw
        >>> duel = bw.DuelingBandit(bw.Sparring(bw.UCB1()), arms=["blue", "green"], seed=7)
        >>> duel.tell(duel.ask(), winner="left")
        >>> duel.history()["blue"]
        ArmHistory(pulls=2, told=2, mean_loss=0.5, estimate=None, retired=False, mean_reward=0.5)
        """
        with self._quiet:
            bounds = default_bounds(self._left.policy)
            left = self._left.history(bounds)
            return left if self._policy.shared else merged(left, self._right.history(bounds))

    @property
    def round(self) -> int:
        """How many pairs have been drawn."""
        return self._round

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The names of the arms."""
        return self._left.lineup.names

    @property
    def pending(self) -> list[int]:
        """The ids of the pairs that wait for a winner."""
        waiting = self._right.pending
        return [draw // 2 for draw in waiting if draw % 2 == 0] if self._policy.shared else waiting

    def __len__(self) -> int:
        return len(self._left)

    def __repr__(self) -> str:
        return f"DuelingBandit({self._policy!r}, arms={list(self.arms)}, seed={self._seed})"

    def _repr_html_(self) -> str:
        known = self.probabilities() if self._policy.policy.traits.knows_probability else {}
        return html_table(f"{self._policy!r}, round {self._round}", self.history(), known, False)

    # --- keeping -----------------------------------------------------------------------------

    def _document(self) -> dict[str, Any]:
        sides = [self._left] if self._policy.shared else [self._left, self._right]
        units = FeedbackUnits(default_bounds(self._left.policy))
        return {
            "seed": self._seed,
            "sides": [content_of(side, Keys(), units) for side in sides],
            "keys": {key: pair.round for key, pair in self._keys.decisions.items()},
        }

    def _copy(self, seed: int | None) -> Self:
        made = type(self).__new__(type(self))
        left = right = self._left.copy(_side_seed(seed, "left"))
        if not self._policy.shared:
            right = self._right.copy(_side_seed(seed, "right"))
        own = self._seed if seed is None else seed
        made._open(self._policy, own, left, right, self._keys.copy())
        return made

    def _canonicalise(self) -> None:
        self._left.canonicalise()
        if not self._policy.shared:
            self._right.canonicalise()

    @classmethod
    def _restored(cls, policy: Sparring, document: dict[str, Any]) -> Self:
        if not isinstance(policy, Sparring):
            raise ValueError("a policy of another kind")
        saved = listed(document["sides"], "sides")
        if len(saved) != (1 if policy.shared else 2):
            raise ValueError("the number of sides is another")
        inner = policy.side()
        sides = [core_of(inner, record(side, "sides"))[0] for side in saved]
        left, right = sides[0], sides[-1]
        if policy.shared and (left.round % 2 or not _in_pairs(left.pending)):
            raise ValueError("half a pair")
        if (left.round, left.pending) != (right.round, right.pending):
            raise ValueError("the sides differ")
        if left.lineup.names != right.lineup.names:
            raise ValueError("the sides differ")
        bandit = cls.__new__(cls)
        bandit._open(policy, checked_seed(document["seed"], "DuelingBandit"), left, right, Keys())
        pending = set(bandit.pending)
        for key, value in record(document.get("keys", {}), "keys").items():
            number = whole(value, "keys", 1, max(bandit.round, 1))
            if not is_key(key) or number not in pending or number in bandit._keys.of:
                raise ValueError("a key of no pending pair")
            first, second = bandit._draws(number)
            one = reopened(left, first, left.ledger[first], None, None)
            other = reopened(right, second, right.ledger[second], None, None)
            bandit._keys.add(key, number, Pair(number, one, other, key))
        return bandit


def _side_seed(seed: int | None, side: Side) -> int | None:
    return None if seed is None else derived_seed(seed, "DuelingBandit", side)


def _in_pairs(draws: list[int]) -> bool:
    """Return whether draws 2p - 1 and 2p are there together, for every pair p."""
    there = set(draws)
    return all((draw + 1 if draw % 2 else draw - 1) in there for draw in draws)


def merged(left: dict[Arm, ArmHistory], right: dict[Arm, ArmHistory]) -> dict[Arm, ArmHistory]:
    """Add up the histories of both sides; estimates become the mean of both, the least 0."""
    estimates = {
        name: 0.5 * (arm.estimate + right[name].estimate)  # type: ignore[operator]
        for name, arm in left.items()
        if arm.estimate is not None
    }
    least = min(estimates.values(), default=0.0)
    both = {}
    for name, one in left.items():
        other = right[name]
        told = one.told + other.told
        lost = one.told * (one.mean_loss or 0.0) + other.told * (other.mean_loss or 0.0)
        both[name] = ArmHistory(
            pulls=one.pulls + other.pulls,
            told=told,
            mean_loss=lost / told if told else None,
            estimate=estimates[name] - least if name in estimates else None,
            retired=False,
            mean_reward=1.0 - lost / told if told else None,
        )
    return both
