"""`SegmentedBandit`: one bandit per segment, such as a country or a kind of device.

A segment is created at its first decision.  Each draws by a seed that follows from its name.
Without a prior, what a segment does depends on its own decisions and feedback and on nothing else;
with one, it also draws from the estimates of all others, see `bothworlds.bandit.borrowed`.  Beyond
the limit the least recently used segment is dropped, with all it has learned and all that is
pending; the estimates that other segments borrow keep its feedback.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self

from bothworlds.arguments import flag, whole
from bothworlds.bandit.arms import ArmHistory, checked_names
from bothworlds.bandit.bandit import Bandit
from bothworlds.bandit.borrowed import is_sum
from bothworlds.bandit.decision import Arm, Decision
from bothworlds.bandit.feedback import Feedback
from bothworlds.bandit.lending import Lending
from bothworlds.bandit.pending import LONGEST_KEY, Keys, checked_age, checked_key, is_key
from bothworlds.bandit.persistent import Persistent
from bothworlds.bandit.state_file import LARGEST_WHOLE, listed, record
from bothworlds.bandit.state_file import whole as whole_number
from bothworlds.errors import DecisionClosed, UnknownDecision, invalid, must
from bothworlds.policies.base import Policy
from bothworlds.seeding import checked_seed, derived_seed

LIMIT = 10_000
"""Number of segments kept by default."""


@dataclass(frozen=True, eq=False, repr=False)
class SegmentDecision:
    """An arm to play in a segment, drawn by `SegmentedBandit.ask`.

    Attributes
    ----------
    segment : str
        Segment of the decision.

    Examples
    --------
    >>> import bothworlds as bw
    >>> bandit = bw.SegmentedBandit(bw.TsallisINF(), arms=["blue", "green"], seed=7)
    >>> decision = bandit.ask("de/mobile")
    >>> decision.id, decision.segment, decision.round, round(decision.probability, 12)
    ('1.1@de/mobile', 'de/mobile', 1, 0.5)
    """

    segment: str
    _birth: int
    _decision: Decision

    @property
    def id(self) -> str:
        """The text under which the bandit remembers the decision; `tell` takes it as well."""
        return _id(self._birth, self.round, self.segment)

    @property
    def arm(self) -> Arm:
        """The name of the arm."""
        return self._decision.arm

    @property
    def index(self) -> int:
        """The place of the arm among all the bandit ever had."""
        return self._decision.index

    @property
    def round(self) -> int:
        """The round of the segment in which it was drawn, from 1."""
        return self._decision.round

    @property
    def time(self) -> float:
        """When it was drawn, in seconds since 1970 as `time.time` counts them."""
        return self._decision.time

    @property
    def probability(self) -> float | None:
        """How likely the arm was to be drawn; None if the policy cannot tell."""
        return self._decision.probability

    @property
    def probabilities(self) -> Mapping[Arm, float] | None:
        """How likely every arm was to be drawn; None if the policy cannot tell."""
        return self._decision.probabilities

    @property
    def key(self) -> str | None:
        """The key it was asked with, if any."""
        return self._decision.key

    def __repr__(self) -> str:
        return f"SegmentDecision(id={self.id!r}, arm={self.arm!r}, probability={self.probability})"


def _id(birth: int, number: int, segment: str) -> str:
    return f"{birth}.{number}@{segment}"


def _parsed(id: str) -> tuple[int, int, str] | None:
    """Return birth, round and segment of a decision's id; None for any other text."""
    born, separator, rest = id.partition(".")
    number, at, segment = rest.partition("@")
    if not (separator and at and _digits(born) and _digits(number)):
        return None
    return int(born), int(number), segment


class SegmentedBandit(Persistent[Policy]):
    """One bandit per segment, where segments may have different best arms.

    A segment is created at its first decision. Feedback may come late, in any order, for any
    number of pending decisions, once each. Without a ``prior``, segments do not learn from one
    another, so their regrets add up: make them large. Threads may share a bandit.

    Parameters
    ----------
    policy : Policy
        The algorithm of every segment, such as ``TsallisINF()``.
    arms : sequence of str or int, or int
        The names of the arms, the same in all segments, or their number.
    limit : int, default 10,000
        How many segments are kept. Beyond it, the least recently used segment is
        dropped; feedback on its decisions is then refused, and asked again it starts afresh.
    prior : int, default 0
        How many answers all other segments together count as, at most, in the draws of a segment:
        a new one starts from the estimates of the other segments. Needs a policy whose state is a
        sum of estimates, such as `TsallisINF` or `Exp3`.
    seed : int, optional
        Makes the draws repeatable. Without a prior, a segment's draws follow from it and from the
        segment's name, whichever other segments there are.
    bounds : pair of float, optional
        The smallest and the largest possible reward, or loss, in the user's units; (0, 1) by
        default. Policies for losses without bounds, such as `HTINF`, need none.
    clip : bool, default False
        Whether a value beyond the bounds counts as the bound instead of being refused.
    evidence : bool, optional
        Whether segments keep what `Bandit.report` needs; by default where the policy has a `Floor`.

    Examples
    --------
    >>> import bothworlds as bw
    >>> bandit = bw.SegmentedBandit(bw.TsallisINF(), arms=["blue", "green"], seed=7)
    >>> best = {"de/mobile": "blue", "fr/desktop": "green"}
    >>> for t in range(1000):
    ...     segment = ("de/mobile", "fr/desktop")[t % 2]
    ...     decision = bandit.ask(segment)
    ...     bandit.tell(decision, reward=1.0 if decision.arm == best[segment] else 0.0)
    >>> [max(bandit[name].probabilities().items(), key=lambda x: x[1])[0] for name in best]
    ['blue', 'green']
    >>> bandit.segments
    ('de/mobile', 'fr/desktop')
    """

    __slots__ = (
        "_arms", "_births", "_born", "_lending", "_limit", "_options", "_round", "_segments",
    )  # fmt: skip

    _OWNER = "SegmentedBandit"
    _FORMAT = "bothworlds.segmented"
    _VERSION = 1

    _segments: dict[str, Bandit]
    """The least recently used first."""
    _births: dict[str, int]
    """Numbers of the segments, which distinguish a dropped one from its successor."""
    _options: dict[str, Any]

    def __init__(
        self,
        policy: Policy,
        arms: Iterable[Arm] | int,
        *,
        limit: int = LIMIT,
        prior: int = 0,
        seed: int | None = None,
        bounds: tuple[float, float] | None = None,
        clip: bool = False,
        evidence: bool | None = None,
    ) -> None:
        owner = self._OWNER
        names = tuple(checked_names(arms))
        kept = whole("limit", limit, owner, 1)
        lent = whole("prior", prior, owner, 0)
        if lent and isinstance(policy, Policy) and not is_sum(policy):
            expected = f"0 for {policy!r}, whose state is no sum of estimates"
            raise invalid("prior", owner, expected, prior)
        options = {"bounds": bounds, "clip": flag("clip", clip, owner), "evidence": evidence}
        self._open(policy, names, kept, lent, checked_seed(seed, owner), options)
        # What a segment would refuse is refused now.
        self._made("")
        if evidence is None:
            # The sums take many times the memory of all else, and there are many segments.
            options["evidence"] = policy.traits.floored

    def _open(
        self, policy: Policy, arms: tuple[Arm, ...], limit: int, prior: int, seed: int,
        options: dict[str, Any],
    ) -> None:  # fmt: skip
        self._policy = policy
        self._arms = arms
        self._limit = limit
        self._lending = Lending(len(arms), prior)
        self._seed = seed
        self._options = options
        self._round = self._born = 0
        self._segments, self._births = {}, {}
        self._seen, self._keys = {}, Keys()
        self._guard()

    def _made(self, segment: str) -> Bandit:
        """Return the first bandit of a segment."""
        seed = derived_seed(self._seed, "segment", segment)
        return Bandit(self._policy, self._arms, seed=seed, **self._options)

    # --- deciding ------------------------------------------------------------------------------

    def ask(
        self, segment: str, available: Iterable[Arm] | None = None, *, key: str | None = None
    ) -> SegmentDecision:
        """Draw an arm to play in a segment.

        Parameters
        ----------
        segment : str
            Its name, of up to 1000 characters; a new one makes a new segment.
        available : iterable of str or int, optional
            The arms that can be played right now; by default all.
        key : str, optional
            A name of your own for the decision, such as a request's, that no pending decision of
            another segment has. While the decision is pending, asking with the same key returns
            it again, and `tell` takes the key.

        Returns
        -------
        SegmentDecision
            Hand it, or its ``id``, to `tell` when the feedback is there.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.SegmentedBandit(bw.TsallisINF(), arms=["blue", "green"], seed=7)
        >>> decision = bandit.ask("de/mobile", key="request-17")
        >>> bandit.ask("de/mobile", key="request-17") is decision
        True
        >>> bandit.tell("request-17", reward=1.0)
        """
        self._check_name(segment, "ask")
        if key is not None:
            owner = f"{self._OWNER}.ask"
            checked_key(key, owner)
            if _parsed(key) is not None:
                raise invalid("key", owner, "a text that does not look like a decision's id", key)
        with self._lock:
            known: SegmentDecision | None = None if key is None else self._keys.decisions.get(key)
            if known is not None:
                if known.segment != segment:
                    expected = f"one that is not pending in another segment, {known.segment!r}"
                    raise invalid("key", owner, expected, key)
                return known
            bandit = self._segments.get(segment) or self._made(segment)
            shift = self._lending.shift(bandit)
            if shift is None:
                decision = bandit.ask(available, key=key)
            else:
                decision = bandit._ask_slowly(available, key, shift)
            self._segments.pop(segment, None)
            self._segments[segment] = bandit
            if segment not in self._births:
                self._born += 1
                self._births[segment] = self._born
                while len(self._segments) > self._limit:
                    self._remove(next(iter(self._segments)))
            self._round += 1
            made = SegmentDecision(segment, self._births[segment], decision)
            if key is not None:
                self._keys.add(key, made.id, made)
            return made

    def tell(
        self,
        decision: SegmentDecision | str,
        *,
        reward: Feedback | None = None,
        loss: Feedback | None = None,
    ) -> None:
        """Learn the outcome of a decision.

        Parameters
        ----------
        decision : SegmentDecision or str
            What `ask` returned, its ``id``, or the key it was asked with; any pending one, in any
            order.
        reward, loss : number or bool
            Exactly one of them, within the bounds of the bandit.

        Raises
        ------
        InvalidFeedback
            If the reward or loss is missing, given twice, not a number or out of bounds.
        DecisionClosed
            If the decision was already answered, has expired, or its segment was dropped.
        UnknownDecision
            If the decision is not one of this bandit's.
        """
        with self._lock:
            segment, number, asked = self._found(decision, "tell")
            with self._lending.adding(self._segments[segment]):
                self._segments[segment].tell(asked, reward=reward, loss=loss)
            self._segments[segment] = self._segments.pop(segment)
            self._keys.close(_id(self._births[segment], number, segment))

    def forget(self, decision: SegmentDecision | str) -> None:
        """Close one decision without feedback; nothing is learned from it.

        Parameters
        ----------
        decision : SegmentDecision or str
            What `ask` returned, its ``id``, or the key it was asked with.

        Raises
        ------
        DecisionClosed
            If the decision was already answered, has expired, or its segment was dropped.
        UnknownDecision
            If the decision is not one of this bandit's.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.SegmentedBandit(bw.TsallisINF(), arms=2, seed=7)
        >>> decision = bandit.ask("de")
        >>> bandit.forget(decision)
        >>> bandit.pending
        []
        """
        with self._lock:
            segment, number, asked = self._found(decision, "forget")
            self._segments[segment].forget(asked)
            self._keys.close(_id(self._births[segment], number, segment))

    def expire(
        self,
        *,
        older_than: int | timedelta,
        loss: Feedback | None = None,
        reward: Feedback | None = None,
    ) -> list[str]:
        """Close decisions whose feedback never came, in all segments.

        Parameters
        ----------
        older_than : int or timedelta
            Decisions made more than this many rounds of their segment, or this long, ago are
            closed; 0 closes all.
        loss, reward : float, optional
            The outcome to assume. Without it nothing is learned from them.

        Returns
        -------
        list of str
            The ids that were closed; feedback for them now raises `DecisionClosed`.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.SegmentedBandit(bw.TsallisINF(), arms=2, seed=7)
        >>> for segment in ("de", "fr", "de"):
        ...     decision = bandit.ask(segment)
        >>> bandit.expire(older_than=0, loss=1.0)
        ['1.1@de', '1.2@de', '2.1@fr']
        """
        checked_age(older_than, f"{self._OWNER}.expire")
        with self._lock:
            closed = []
            # By the age of the segments, whichever was used last.
            for segment in sorted(self._segments, key=self._births.__getitem__):
                bandit = self._segments[segment]
                with self._lending.adding(bandit):
                    numbers = bandit.expire(older_than=older_than, loss=loss, reward=reward)
                closed += [_id(self._births[segment], number, segment) for number in numbers]
            for id in closed:
                self._keys.close(id)
            return closed

    def _found(self, decision: object, method: str) -> tuple[str, int, Decision | int]:
        """Return the segment and round of a decision, and its id in the segment's bandit."""
        owner = f"{self._OWNER}.{method}"
        if isinstance(decision, str):
            decision = self._keys.decisions.get(decision, decision)
        asked: Decision | int
        if isinstance(decision, SegmentDecision):
            birth, number, segment = decision._birth, decision.round, decision.segment
            asked = decision._decision
        else:
            parsed = _parsed(decision) if isinstance(decision, str) else None
            if parsed is None:
                expected = "pending, a decision of this bandit, its id or its key"
                raise UnknownDecision(must("decision", owner, expected, decision))
            birth, number, segment = parsed
            asked = number
        if self._births.get(segment) != birth:
            if 1 <= birth <= self._born:
                got = f"got {decision!r}, whose segment was dropped"
                raise DecisionClosed(f"The decision of {owner} must be pending, {got}.")
            raise UnknownDecision(must("decision", owner, "a decision of this bandit", decision))
        return segment, number, asked

    def _check_name(self, segment: object, method: str) -> None:
        if not is_key(segment):
            expected = f"a text of 1 to {LONGEST_KEY} characters"
            raise invalid("segment", f"{self._OWNER}.{method}", expected, segment)

    # --- segments ------------------------------------------------------------------------------

    def drop(self, segment: str) -> None:
        """Drop a segment with all it has learned; asked again it starts afresh.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.SegmentedBandit(bw.TsallisINF(), arms=2, seed=7)
        >>> decision = bandit.ask("de")
        >>> bandit.drop("de")
        >>> bandit.segments
        ()
        """
        with self._lock:
            self._known(segment, "drop")
            self._remove(segment)

    def _remove(self, segment: str) -> None:
        for number in self._segments[segment]._keys.of:
            self._keys.close(_id(self._births[segment], number, segment))
        del self._segments[segment]
        del self._births[segment]

    def _known(self, segment: object, method: str) -> Bandit:
        found = self._segments.get(segment) if isinstance(segment, str) else None
        if found is None:
            raise invalid("segment", f"{self._OWNER}.{method}", "an existing segment", segment)
        return found

    def __getitem__(self, segment: str) -> Bandit:
        """Return the bandit of a segment, to look at; its decisions go through `ask` and `tell`."""
        with self._quiet:
            return self._known(segment, "__getitem__")

    def __contains__(self, segment: object) -> bool:
        return segment in self._segments

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def segments(self) -> tuple[str, ...]:
        """The names of the segments, the least recently used first."""
        with self._quiet:
            return tuple(self._segments)

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The names of the arms."""
        return self._arms

    @property
    def limit(self) -> int:
        """How many segments are kept."""
        return self._limit

    @property
    def round(self) -> int:
        """Number of decisions, in all segments together."""
        return self._round

    @property
    def pending(self) -> list[str]:
        """The ids of the decisions that wait for feedback."""
        with self._quiet:
            return [
                _id(self._births[segment], number, segment)
                for segment, bandit in self._segments.items()
                for number in bandit.pending
            ]

    def awaits(self, id: str) -> bool:
        """Return whether the decision with this id waits for feedback.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.SegmentedBandit(bw.TsallisINF(), arms=2, seed=7)
        >>> bandit.awaits(bandit.ask("de").id), bandit.awaits("1.2@de")
        (True, False)
        """
        birth, number, segment = _parsed(id) or (0, 0, "")
        with self._quiet:
            return self._births.get(segment) == birth and self._segments[segment].awaits(number)

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and largest possible reward or loss; infinite where there is none."""
        if self._options["bounds"] is None:
            return (-math.inf, math.inf) if self._policy.traits.unbounded else (0.0, 1.0)
        low, high = self._options["bounds"]
        return float(low), float(high)

    def probabilities(self, segment: str) -> dict[Arm, float]:
        """Return how likely each arm is to be drawn next in a segment; a new one is not created."""
        self._check_name(segment, "probabilities")
        with self._quiet:
            bandit = self._segments.get(segment) or self._made(segment)
            shift = self._lending.shift(bandit)
            return bandit.probabilities() if shift is None else bandit._core.probabilities(shift)

    def history(self) -> dict[str, dict[Arm, ArmHistory]]:
        """Return the history of every arm, by segment."""
        with self._quiet:
            return {segment: bandit.history() for segment, bandit in self._segments.items()}

    def __repr__(self) -> str:
        plain = self.bounds in ((0.0, 1.0), (-math.inf, math.inf))
        units = "" if plain else f", bounds={self.bounds}"
        units += ", clip=True" if self._options["clip"] else ""
        kept = "" if self._limit == LIMIT else f", limit={self._limit}"
        kept += f", prior={self._lending.prior}" if self._lending.prior else ""
        arms = f"arms={list(self._arms)}{kept}, seed={self._seed}{units}"
        return f"SegmentedBandit({self._policy!r}, {arms})"

    # --- keeping -------------------------------------------------------------------------------

    def _document(self) -> dict[str, Any]:
        return {
            **self._lending.document(),
            "seed": self._seed,
            "arms": list(self._arms),
            "limit": self._limit,
            "bounds": None if math.isinf(self.bounds[0]) else list(self.bounds),
            "clip": self._options["clip"],
            "evidence": self._options["evidence"],
            "round": self._round,
            "born": self._born,
            "segments": [
                {"name": segment, "birth": self._births[segment], "bandit": bandit._document()}
                for segment, bandit in self._segments.items()
            ],
        }

    def _canonicalise(self) -> None:
        for bandit in self._segments.values():
            bandit._canonicalise()

    @classmethod
    def _restored(cls, policy: Policy, document: dict[str, Any]) -> Self:
        if not isinstance(policy, Policy):
            raise ValueError("a policy of another kind")
        bounds = document["bounds"]
        if bounds is not None:
            low, high = listed(bounds, "bounds")
            bounds = low, high
        elif not policy.traits.unbounded:
            raise ValueError("no bounds for a policy that needs them")
        made = cls(
            policy, listed(document["arms"], "arms"), prior=document.get("prior", 0), bounds=bounds,
            **{name: document[name] for name in ("limit", "seed", "clip", "evidence")},
        )  # fmt: skip
        made._round = whole_number(document["round"], "round", 0, LARGEST_WHOLE)
        made._born = whole_number(document["born"], "born", 0, LARGEST_WHOLE)
        made._lending.restore(document)
        kept = listed(document["segments"], "segments")
        if len(kept) > made._limit:
            raise ValueError("more segments than the limit")
        for value in kept:
            each = record(value, "segments")
            name, birth = each["name"], whole_number(each["birth"], "birth", 1, made._born)
            if not is_key(name) or name in made._segments or birth in made._births.values():
                raise ValueError("an invalid or repeated segment")
            bandit = Bandit._restored(policy, record(each["bandit"], "bandit"))
            if bandit.arms != made._arms or bandit.seed != derived_seed(
                made._seed, "segment", name
            ):
                raise ValueError("a segment of another bandit")
            made._segments[name], made._births[name] = bandit, birth
        made._name_all()
        return made

    def _name_all(self) -> None:
        """Find out which pending decisions of the segments have keys."""
        for segment, bandit in self._segments.items():
            for key, decision in bandit._keys.decisions.items():
                if key in self._keys.decisions or _parsed(key) is not None:
                    raise ValueError("an invalid or repeated key")
                made = SegmentDecision(segment, self._births[segment], decision)
                self._keys.add(key, made.id, made)

    def _copy(self, seed: int | None) -> Self:
        made = type(self).__new__(type(self))
        own, prior = self._seed if seed is None else seed, self._lending.prior
        made._open(self._policy, self._arms, self._limit, prior, own, self._options)
        made._lending = self._lending.copy()
        made._round, made._born, made._births = self._round, self._born, dict(self._births)
        for segment, bandit in self._segments.items():
            other = None if seed is None else derived_seed(seed, "segment", segment)
            made._segments[segment] = bandit.copy(seed=other)
        made._name_all()
        return made


def _digits(text: str) -> bool:
    """Tell whether a text is a number from 1 on, as an id has it."""
    return text.isascii() and text.isdigit() and len(text) <= 18 and text[0] != "0"
