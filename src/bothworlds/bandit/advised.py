"""`AdvisedBandit`: which of several models, rules or people to follow, decision by decision.

`bothworlds.policies.advice` has the round in symbols; `bothworlds.bandit.standing` judges experts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from time import time as now
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bothworlds.arguments import checked_bounds, flag, number
from bothworlds.bandit.advice import AdviceReader
from bothworlds.bandit.arms import checked_names
from bothworlds.bandit.decision import Arm
from bothworlds.bandit.feedback import Feedback, FeedbackUnits
from bothworlds.bandit.pending import Keys, checked_age, checked_key, closed, is_key
from bothworlds.bandit.persistent import Persistent
from bothworlds.bandit.standing import ROWS, Standing, draw_once, hear
from bothworlds.bandit.state_file import listed, record, truth, whole
from bothworlds.errors import InvalidParameter, UnknownDecision, invalid, must
from bothworlds.evidence.report import Report, Units
from bothworlds.evidence.sums import Evidence
from bothworlds.lanes.direct import direct
from bothworlds.logs.jsonl import Log, Target
from bothworlds.logs.record import LoggedDecision
from bothworlds.omd.entering import entry_estimate
from bothworlds.omd.step import weights
from bothworlds.policies import advice as step
from bothworlds.policies.base import Array, Policy
from bothworlds.seeding import checked_seed, stream_words

Origin = tuple[int, tuple[Arm, ...], tuple[Arm, ...]]
"""Context of a decision: the bandit's seed, its arms and its experts at that time."""
Waiting = tuple[Array, float]
"""A decision that waits for feedback: its numbers, and the time of its draw."""

MOST_EXPERTS = 64
"""How many experts a bandit may have: the regret grows with the root of their number."""


class AdvisedDecision:
    """An arm to play, how likely it was, and how much each expert counted.

    Attributes
    ----------
    round : int
        The round, from 1; also the decision's `id`.
    arm : str or int
        What to play.
    index : int
        The place of the arm among all arms.
    time : float
        When it was drawn, in seconds since 1970.
    key : str or None
        The key it was asked with.
    """

    __slots__ = ("_numbers", "_origin", "_q", "arm", "index", "key", "round", "time")

    def __init__(
        self, origin: Origin, numbers: Array, q: Array, index: int, round: int, time: float,
        key: str | None,
    ) -> None:  # fmt: skip
        self._origin, self._numbers, self._q = origin, numbers, q
        self.arm = origin[1][index]
        self.index = index
        self.round = round
        self.time = time
        self.key = key

    @property
    def id(self) -> int:
        """The number under which the bandit remembers the decision."""
        return self.round

    @property
    def probability(self) -> float:
        """How likely the arm was."""
        return float(self._numbers[step.P])

    @property
    def probabilities(self) -> Mapping[Arm, float]:
        """How likely every arm was, by name."""
        arms = self._origin[1]
        return MappingProxyType(dict(zip(arms, self._numbers[-len(arms) :].tolist(), strict=True)))

    @property
    def experts(self) -> Mapping[Arm, float]:
        """The weight of every expert at the decision, by name; 0 for one that was asleep."""
        return MappingProxyType(dict(zip(self._origin[2], self._q.tolist(), strict=True)))

    def __repr__(self) -> str:
        return (
            f"AdvisedDecision(id={self.id}, arm={self.arm!r}, probability={self.probability:.6g})"
        )


class AdvisedBandit(Persistent[Policy]):
    """A bandit that decides which expert's advice to follow, and learns about all of them.

    Experts are models, rules or people. In every round each recommends an arm, or gives
    probabilities to arms, from anything it knows; the bandit draws an arm from the mixture of
    their advice. One answer teaches about every expert, also those that were not followed, so none
    starves, and `standing` compares experts on live traffic without splitting it.

    By the proof of Theorem 1 of Zimmert and Seldin (2021), with advice in place of arms, the
    expected loss of ``AdvisedBandit(TsallisINF(estimator="iw"), ...)`` exceeds that of the best
    expert's own advice by at most 4 sqrt(N T) + 1 for N experts, any losses and any advice; where
    one expert is better on average in every round, by the order of log T. Not promised: anything
    about what an expert *would have* recommended had it been followed, or against an attacker that
    sees the arm before choosing the loss. Arms away, sleeping experts and late feedback are
    supported and have no theorem. The regret grows with sqrt(N): with many more experts than arms
    it is not optimal.

    Parameters
    ----------
    policy : Policy
        What weighs the experts: `TsallisINF` (any estimator and alpha), `TsallisINFV`, or `Exp3`,
        also within `Floor`, `Discounted`, `Restarted` or `Alarmed`. A `Floor` mixes the uniform
        distribution over the arms into every draw. `Alarmed` tests the losses of every followed
        expert.
    arms : sequence of str or int, or int
        The names of the arms, or their number.
    experts : sequence of str or int, or int
        The names of the experts, or their number; at most 64.
    seed : int, optional
        Makes the draws repeatable.
    bounds : pair of float, optional
        The smallest and the largest possible reward, or loss; (0, 1) by default.
    clip : bool, default False
        Whether a value beyond the bounds counts as the bound.
    log : path or callable, optional
        Receives every decision, with ``advice`` and ``experts``, and every feedback.

    Examples
    --------
    >>> import bothworlds as bw
    >>> bandit = bw.AdvisedBandit(
    ...     bw.TsallisINF(), arms=["blue", "green", "red"], experts=["model", "rules"], seed=7
    ... )
    >>> for _ in range(1000):
    ...     decision = bandit.ask(advice={"model": "green", "rules": {"blue": 0.5, "red": 0.5}})
    ...     bandit.tell(decision, reward=1.0 if decision.arm == "green" else 0.0)
    >>> bandit.weights()["model"] > 0.9
    True

    References
    ----------
    Zimmert and Seldin, *Tsallis-INF: An Optimal Algorithm for Stochastic and Adversarial
    Bandits*, JMLR 22, 2021. Auer, Cesa-Bianchi, Freund and Schapire, *The Nonstochastic
    Multiarmed Bandit Problem*, SIAM Journal on Computing 32, 2002, for advice (EXP4).
    """

    __slots__ = (
        "_E", "_F", "_G", "_arms", "_draw", "_evidence", "_experts", "_hear", "_log", "_numbers",
        "_origin", "_pending", "_plays", "_reader", "_setting", "_size", "_units",
    )  # fmt: skip

    _OWNER = "AdvisedBandit"
    _FORMAT = "bothworlds.advised"
    _VERSION = 1

    def __init__(
        self,
        policy: Policy,
        arms: Iterable[Arm] | int,
        experts: Iterable[Arm] | int,
        *,
        seed: int | None = None,
        bounds: tuple[float, float] | None = None,
        clip: bool = False,
        log: Target | None = None,
    ) -> None:
        owner = self._OWNER
        setting = step.setting_of(policy, owner)
        names, advisers = checked_names(arms, owner), _checked_experts(experts)
        seed = checked_seed(seed, owner)
        checked = (0.0, 1.0) if bounds is None else checked_bounds(bounds)
        self._open(policy, setting, tuple(names), tuple(advisers), seed)
        self._units = FeedbackUnits(checked, flag("clip", clip, owner))
        self._guard()
        self.log = log

    def _open(
        self, policy: Policy, setting: step.Setting, arms: tuple[Arm, ...],
        experts: tuple[Arm, ...], seed: int,
    ) -> None:  # fmt: skip
        self._policy, self._setting, self._seed = policy, setting, seed
        self._arms = arms
        F, E = step.first_state(setting, len(experts), len(arms)), np.zeros((ROWS, len(experts)))
        self._G = stream_words(seed, "Bandit")
        self._evidence = Evidence(len(arms))
        self._plays = np.zeros((2, len(arms)), np.int64)
        self._pending: dict[int, Waiting] = {}
        self._keys, self._seen = Keys(), {}
        self._log: Log | None = None
        self._reader = AdviceReader("AdvisedBandit.ask")
        self._place(F, E, experts)
        # Machine code, called without looking at the types of the arguments: they never change.
        reader, D = self._reader, np.empty(self._size[0])
        self._draw = direct(
            draw_once, F, self._G, reader.A, reader.awake, reader.here, D, D, self._plays
        )
        self._hear = direct(hear, F, E, self._evidence.R, D, 0.5, self._plays)

    def _place(self, F: Array, E: Array, experts: tuple[Arm, ...]) -> None:
        """Take a state and sums of these experts."""
        self._F, self._E, self._experts = F, E, experts
        self._numbers, self._origin = F.data, (self._seed, self._arms, experts)
        self._size = step.width(len(experts), len(self._arms)), len(experts)
        self._reader.open(experts, self._arms)

    # --- asking ------------------------------------------------------------------------------

    def ask(
        self,
        advice: Mapping[Arm, Any],
        available: Iterable[Arm] | None = None,
        *,
        asleep: Iterable[Arm] | None = None,
        key: str | None = None,
    ) -> AdvisedDecision:
        """Draw an arm from the mixture of the experts' advice.

        Parameters
        ----------
        advice : mapping
            For every expert an arm, or a mapping from arms to probabilities that add up to 1.
        available : iterable of str or int, optional
            The arms that can be played right now. Advice is restricted to them; an expert that
            recommends none of them sleeps in this round.
        asleep : iterable of str or int, optional
            Experts without advice in this round. They neither gain nor lose by it.
        key : str, optional
            A name of your own for the decision. While it is pending, asking with the same key
            returns it again, and `tell` takes the key.

        Returns
        -------
        AdvisedDecision
            Hand it, or its ``id``, to `tell` when the feedback is there.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.AdvisedBandit(bw.TsallisINF(), 3, ["a", "b"], seed=7)
        >>> decision = bandit.ask({"a": 0, "b": {1: 0.5, 2: 0.5}})
        >>> dict(decision.probabilities)
        {0: 0.5, 1: 0.25, 2: 0.25}
        >>> dict(bandit.ask({"a": 1}, asleep=["b"]).experts)
        {'a': 1.0, 'b': 0.0}
        """
        if key is not None:
            checked_key(key, "AdvisedBandit.ask")
        try:
            self._take()
        except IndexError:
            self._lock.wait()
        try:
            if key is not None and key in self._keys.decisions:
                known: AdvisedDecision = self._keys.decisions[key]
                return known
            reader = self._reader
            reader.read(advice, asleep, None if available is None else reader.present(available))
            D, q = np.empty(self._size[0]), np.empty(self._size[1])
            index = self._draw(
                self._F, self._G, reader.A, reader.awake, reader.here, q, D, self._plays
            )
            round, time = int(self._numbers[step.ROUND]), now()
            made = AdvisedDecision(self._origin, D, q, index, round, time, key)
            self._pending[round] = D, time
            if key is not None:
                self._keys.add(key, round, made)
            if self._log is not None:
                self._log(_logged(made, advice))
            return made
        finally:
            self._give(None)

    # --- learning ----------------------------------------------------------------------------

    def tell(
        self,
        decision: AdvisedDecision | int | str,
        *,
        reward: Feedback | None = None,
        loss: Feedback | None = None,
    ) -> None:
        """Report the outcome of a decision, once; every expert is judged by it.

        Parameters
        ----------
        decision : AdvisedDecision, int or str
            The decision, its id, or its key.
        reward, loss : float
            One of the two, within the bounds.
        """
        try:
            self._take()
        except IndexError:
            self._lock.wait()
        try:
            round = self._admitted(decision, "AdvisedBandit.tell")
            self._learn(round, reward, loss, "AdvisedBandit.tell")
        finally:
            self._give(None)

    def _learn(self, round: int, reward: Any, loss: Any, owner: str) -> None:
        value = self._units.loss_of(reward, loss, owner)
        if self._log is not None:
            waiting = self._pending[round][0]
            arm, p = self._arms[int(waiting[step.ARM])], min(1.0, float(waiting[step.P]))
            self._log(LoggedDecision(round, arm, p, _plain(loss), _plain(reward)))
        self._units.rewards |= reward is not None
        D = self._pending.pop(round)[0]
        if self._keys.of:
            self._keys.close(round)
        self._hear(self._F, self._E, self._evidence.R, D, value, self._plays)

    def forget(self, decision: AdvisedDecision | int | str) -> None:
        """Close a decision whose feedback will never arrive."""
        with self._lock:
            self._drop(self._admitted(decision, "AdvisedBandit.forget"))

    def _drop(self, round: int) -> None:
        step.drop(self._F, self._pending.pop(round)[0])
        self._keys.close(round)

    def expire(
        self,
        *,
        older_than: int | timedelta,
        reward: Feedback | None = None,
        loss: Feedback | None = None,
    ) -> list[int]:
        """Close decisions older than a number of rounds or a time; return their ids.

        With a reward or a loss, silence is learned as that; without, it teaches nothing.
        """
        owner = "AdvisedBandit.expire"
        limit = checked_age(older_than, owner)
        assumed = reward is not None or loss is not None
        if assumed:
            self._units.copy().loss_of(reward, loss, owner)
        with self._lock:
            if isinstance(limit, timedelta):
                latest = now() - limit.total_seconds()
                old = [n for n, (_, drawn) in self._pending.items() if drawn <= latest]
            else:
                old = [n for n in self._pending if self.round - n > limit or limit == 0]
            for round in old:
                if assumed:
                    self._learn(round, reward, loss, owner)
                else:
                    self._drop(round)
        return old

    def _admitted(self, decision: object, owner: str) -> int:
        round: Any = decision
        if isinstance(decision, AdvisedDecision):
            round = decision.round
            waiting = self._pending.get(round)
            if waiting is not None and waiting[0] is decision._numbers:
                return decision.round
            same = waiting is None or (
                decision._origin[0] == self._seed
                and waiting[0][step.ARM] == decision.index
                and waiting[0][step.P] == decision.probability
            )
            if not same:
                raise UnknownDecision(must("decision", owner, "one of this bandit", decision))
        elif isinstance(decision, str):
            found = self._keys.decisions.get(decision)
            if found is None:
                expected = "the key of a pending decision"
                raise UnknownDecision(must("decision", owner, expected, decision))
            round = found.round
        if type(round) is not int or not 1 <= round <= self.round:
            expected = "a decision of this bandit, its id or its key"
            raise UnknownDecision(must("decision", owner, expected, decision))
        if round not in self._pending:
            raise closed("decision", owner, round)
        return round

    # --- experts that come and go --------------------------------------------------------------

    def add_expert(self, name: Arm, weight: float | None = None) -> None:
        """Add an expert, with this weight in the next decision; by default an even share.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.AdvisedBandit(bw.TsallisINF(), 2, ["a", "b"], seed=7)
        >>> bandit.add_expert("c", weight=0.1)
        >>> round(bandit.weights()["c"], 12)
        0.1
        """
        owner = "AdvisedBandit.add_expert"
        (known,) = _checked_experts([name], owner)
        with self._lock:
            if known in self._experts or len(self._experts) >= MOST_EXPERTS:
                expected = f"a new name, for at most {MOST_EXPERTS} experts"
                raise invalid("name", owner, expected, name)
            N = len(self._experts) + 1
            share = 1.0 / N
            if weight is not None:
                share = number("weight", weight, owner, 1e-12, 1.0 - 1e-12, "a number in (0, 1)")
            L = self._F[step.HEAD : step.HEAD + N - 1]
            eta = float(step.rate_now(self._next(), N))
            estimate = entry_estimate(L, eta, float(self._F[step.ALPHA]), share)
            self._change_experts([*range(N - 1)], (*self._experts, known), estimate)

    def retire_expert(self, name: Arm) -> None:
        """Remove an expert; the weights of the other experts keep their proportions."""
        owner = "AdvisedBandit.retire_expert"
        with self._lock:
            if name not in self._experts or len(self._experts) == 1:
                expected = f"one of {list(self._experts)}, of which one must remain"
                raise invalid("name", owner, expected, name)
            kept = [j for j, each in enumerate(self._experts) if each != name]
            self._change_experts(kept, tuple(self._experts[j] for j in kept), None)

    def _change_experts(
        self, kept: list[int], names: tuple[Arm, ...], estimate: float | None
    ) -> None:
        N, K, added = len(self._experts), len(self._arms), estimate is not None
        F = step.resized_state(self._F, self._setting, kept, estimate)
        E = np.zeros((ROWS, len(names)))
        E[:, : len(kept)] = self._E[:, kept]
        self._pending = {
            round: (step.resized(D, N, K, kept, added), time)
            for round, (D, time) in self._pending.items()
        }
        self._place(F, E, names)

    # --- what it knows -----------------------------------------------------------------------

    def weights(self) -> dict[Arm, float]:
        """Return the weight of every expert in the next decision."""
        with self._quiet:
            q = self._weights()
        return dict(zip(self._experts, q.tolist(), strict=True))

    def _next(self) -> Array:
        """Return the state in which the next decision will be drawn."""
        F = self._F.copy()
        step.begin_round(F)
        return F

    def _weights(self) -> NDArray[np.float64]:
        N, F = len(self._experts), self._next()
        eta = float(step.rate_now(F, N))
        return weights(F[step.HEAD : step.HEAD + N], eta, float(F[step.ALPHA]))

    def standing(self, confidence: float = 0.95) -> Standing:
        """Return how good every expert is: weight, mean, interval, confidence sequence.

        Every answered round counts for every expert that was awake, whether it was followed or
        not. Print the result for a summary in words; ``standing.gap("new", "old")`` is by how
        much one expert beats another, at least.

        Parameters
        ----------
        confidence : float, default 0.95
            The confidence of every statement, in [0.5, 0.999].

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.AdvisedBandit(bw.Floor(bw.TsallisINF(), 0.5), 2, ["old", "new"], seed=1)
        >>> for t in range(4000):
        ...     decision = bandit.ask(advice={"old": 0, "new": 1})
        ...     bandit.tell(decision, reward=float(t % 5 < (3 if decision.arm else 1)))
        >>> low, high = bandit.standing()["new"].interval
        >>> low < 0.6 < high
        True
        """
        with self._quiet:
            E, q = self._E.copy(), self._weights().tolist()
            units = Units(self._units.bounds, self._units.rewards)
            names = list(self._experts)
        return Standing(E, names, q, units, confidence, self._setting.scale > 0.0)

    def report(self, confidence: float = 0.95) -> Report:
        """Return how good every arm is if it were always played; see `Bandit.report`.

        Which arm is played depends on the advice, and so on the context: statements are those of
        ``drift=True``, which hold all the same. Arms that no expert recommends in a round are
        judged by it only with a `Floor`.
        """
        from bothworlds.evidence.bounds import checked_confidence

        sure = checked_confidence(confidence, "AdvisedBandit.report")
        with self._quiet:
            evidence = self._evidence.copy()
            counts = [(int(a), int(b)) for a, b in self._plays.T]
        return Report(
            evidence, list(self._arms), counts, Units(self._units.bounds, self._units.rewards),
            confidence=sure, drift=True, floored=self._setting.scale > 0.0,
            source=f"{self!r}, round {self.round:,}",
        )  # fmt: skip

    @property
    def round(self) -> int:
        """How many decisions have been drawn."""
        return int(self._F[step.ROUND])

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The names of the arms."""
        return self._arms

    @property
    def experts(self) -> tuple[Arm, ...]:
        """The names of the experts."""
        return self._experts

    @property
    def pending(self) -> list[int]:
        """The ids of the decisions that wait for feedback."""
        return list(self._pending)

    @property
    def alarms(self) -> int:
        """How often the losses of a followed expert changed, under `Alarmed`."""
        return int(self._F[step.ALARMS])

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest reward or loss."""
        return self._units.bounds

    @property
    def log(self) -> Target | None:
        """Where decisions and feedback are logged; a loaded bandit has none until it is set."""
        return None if self._log is None else self._log.target

    @log.setter
    def log(self, target: Target | None) -> None:
        self._log = None if target is None else Log(target, self._OWNER)

    def __len__(self) -> int:
        return len(self._arms)

    def __repr__(self) -> str:
        return (
            f"AdvisedBandit({self._policy!r}, arms={list(self._arms)}, "
            f"experts={list(self._experts)}, seed={self._seed})"
        )

    # --- keeping -----------------------------------------------------------------------------

    def _document(self) -> dict[str, Any]:
        units = self._units
        return {
            "seed": self._seed,
            "arms": list(self._arms),
            "experts": list(self._experts),
            "state": self._F.tolist(),
            "generator": [str(word) for word in self._G.tolist()],
            "sums": self._E.tolist(),
            "evidence": self._evidence.document(),
            "plays": self._plays.tolist(),
            "pending": {
                str(n): [time, *numbers.tolist()] for n, (numbers, time) in self._pending.items()
            },
            "keys": {key: made.round for key, made in self._keys.decisions.items()},
            "weights": {key: made._q.tolist() for key, made in self._keys.decisions.items()},
            "units": [*units.bounds, units.clip, units.clipped, units.rewards],
        }

    def _canonicalise(self) -> None:
        """Do nothing: no solver keeps memory between rounds."""

    @classmethod
    def _restored(cls, policy: Policy, document: dict[str, Any]) -> Self:
        setting = step.setting_of(policy, cls._OWNER)
        arms, experts = checked_names(document["arms"]), _checked_experts(document["experts"])
        made = cls.__new__(cls)
        made._open(
            policy, setting, tuple(arms), tuple(experts), checked_seed(document["seed"], cls._OWNER)
        )
        _read_state(made, document)
        made._guard()
        return made

    def _copy(self, seed: int | None) -> Self:
        made = type(self).__new__(type(self))
        own = self._seed if seed is None else seed
        made._open(self._policy, self._setting, self._arms, self._experts, own)
        made._F[:], made._E[:], made._plays[:] = self._F, self._E, self._plays
        if seed is None:
            made._G[:] = self._G
        made._evidence = self._evidence.copy()
        made._pending, made._keys = dict(self._pending), self._keys.copy()
        made._units = self._units.copy()
        return made


def _checked_experts(experts: object, owner: str = "AdvisedBandit") -> list[Arm]:
    try:
        names = checked_names(experts, owner)
    except InvalidParameter:
        names = []
    if not 1 <= len(names) <= MOST_EXPERTS:
        expected = f"1 to {MOST_EXPERTS} distinct names, or their number"
        raise invalid("experts", owner, expected, experts)
    return names


def _read_state(made: AdvisedBandit, document: dict[str, Any]) -> None:
    """Set a bandit to the state in a state file, without its names."""
    N, K = len(made.experts), len(made.arms)
    F = _finite(document["state"], made._F.shape)
    if not np.array_equal(F[: step.PRIOR + 1][[0, 1]], [N, K]) or F[step.ROUND] % 1.0:
        raise ValueError("the state is of another size")
    F[step.KIND : step.PRIOR + 1] = made._F[step.KIND : step.PRIOR + 1]
    if not (0.0 <= F[step.ORIGIN] <= F[step.ROUND] <= 2.0**53 and F[step.BETA] >= step.BETA_1):
        raise ValueError("the state is not one of a bandit")
    made._F[:] = F
    words = [int(word) for word in listed(document["generator"], "generator")]
    made._G[:] = np.array(words, np.int64)
    made._E[:] = _finite(document["sums"], made._E.shape)
    made._evidence = Evidence.from_document(record(document["evidence"], "evidence"), K)
    made._plays[:] = _finite(document["plays"], made._plays.shape)
    made._pending = _pending_of(record(document["pending"], "pending"), made.round, N, K)
    made._units = _units_of(listed(document["units"], "units"))
    _read_keys(made, record(document["keys"], "keys"), record(document["weights"], "weights"))


def _finite(values: object, shape: tuple[int, ...]) -> Array:
    """Return an array of this shape from a state file."""
    found = np.array(values, np.float64)
    if found.shape != shape or not np.isfinite(found).all():
        raise ValueError("numbers of another shape")
    return found


def _pending_of(rows: dict[str, Any], last: int, N: int, K: int) -> dict[int, Waiting]:
    """Return the pending decisions that a state file describes."""
    found = {}
    for key, row in rows.items():
        round = whole(int(key), "pending", 1, max(last, 1))
        values = _finite(row, (1 + step.width(N, K),))
        D = values[1:]
        if not (
            D[step.ARM] in range(K)
            and 0.0 < D[step.P] <= 1.0 + 1e-9
            and D[step.DECIDED] == round
            and D[step.FOLLOWED] in range(-1, N)
        ):
            raise ValueError("an impossible pending decision")
        found[round] = D.copy(), float(values[0])
    return found


def _read_keys(made: AdvisedBandit, keys: dict[str, Any], shown: dict[str, Any]) -> None:
    """Give a restored bandit the keys of its pending decisions."""
    for key, value in keys.items():
        if not is_key(key) or value not in made._pending or value in made._keys.of:
            raise ValueError("a key of no pending decision")
        numbers, time = made._pending[value]
        q = _finite(shown[key], (len(listed(shown[key], "weights")),))
        named = made._experts if q.size == len(made._experts) else tuple(range(q.size))
        origin, index = (made._seed, made._arms, named), int(numbers[step.ARM])
        one = AdvisedDecision(origin, numbers, q, index, value, time, key)
        made._keys.add(key, value, one)


def _units_of(values: list[Any]) -> FeedbackUnits:
    """Return the units that a state file describes."""
    low, high, clip, clipped, rewards = values
    counted = whole(clipped, "units", 0, 2**53)
    return FeedbackUnits(
        checked_bounds((low, high)), truth(clip, "units"), counted, truth(rewards, "units")
    )


def _plain(value: Any) -> float | None:
    return None if value is None else float(value)


def _logged(made: AdvisedDecision, advice: Mapping[Arm, Any]) -> LoggedDecision:
    shares = {arm: min(1.0, p) for arm, p in made.probabilities.items()}
    given = {name: dict(row) if isinstance(row, Mapping) else row for name, row in advice.items()}
    return LoggedDecision(
        made.round, made.arm, min(1.0, made.probability), probabilities=shares, advice=given,
        experts=dict(made.experts),
    )  # fmt: skip
