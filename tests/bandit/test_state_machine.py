"""The whole public surface of all bandits, in any order, against a model of what must hold."""

import json
import math
from datetime import timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

import bothworlds as bw
from bothworlds.errors import BothworldsError
from helpers.bandits import POLICIES, content

FLOORED = [bw.Floor(bw.TsallisINF(), 0.5)]
LOSSES = st.floats(0.0, 1.0)
BAD = st.sampled_from([math.nan, math.inf, -0.5, 1.5, "1", None, [0.5], 1j])
NAMES = st.sampled_from(["x", "y", "z", 1000])


class Bandits(RuleBasedStateMachine):
    """One bandit, and what was asked and told."""

    pending = Bundle("pending")

    @initialize(
        policy=st.sampled_from([*POLICIES, *FLOORED]),
        arms=st.sampled_from([1, 2, 3, 9, 64, 600]),
        seed=st.integers(0, 2**64 - 1),
        clip=st.booleans(),
    )
    def begin(self, policy, arms, seed, clip):
        if arms == 600 and not isinstance(policy, bw.TsallisINF | bw.UCB1):
            arms = 30  # the others have no kernels of their own there, and are slow
        self.lines = []
        self.bandit = bw.Bandit(policy, arms, seed=seed, clip=clip)
        self.known = arms
        self.waiting = {}
        self.told = self.dropped = self.clipped = 0
        self.keys = {}

    def note(self, decision):
        self.waiting[decision.id] = decision
        assert decision.arm in self.bandit.arms
        assert decision.id == self.bandit.round
        p = decision.probability
        assert p is None or 0.0 < p <= 1.0
        return decision.id

    @rule(target=pending)
    def ask(self):
        return self.note(self.bandit.ask())

    @rule(target=pending, data=st.data())
    def ask_among(self, data):
        arms = list(self.bandit.arms)
        count = data.draw(st.integers(1, min(5, len(arms))))
        chosen = arms[:count]
        decision = self.bandit.ask(chosen)
        known = decision.probabilities
        assert decision.arm in chosen
        assert known is None or sum(known.values()) == pytest.approx(1.0, abs=1e-9)
        return self.note(decision)

    @rule(key=st.sampled_from(["k", "l"]))
    def ask_by_key(self, key):
        decision = self.bandit.ask(key=key)
        if key in self.keys:
            assert decision.id == self.keys[key]
        else:
            self.note(decision)
            self.keys[key] = decision.id

    @rule(n=st.integers(1, 7))
    def ask_many(self, n):
        decisions = self.bandit.ask_many(n)
        assert list(decisions.ids) == list(range(self.bandit.round - n + 1, self.bandit.round + 1))
        self.waiting |= {decision.id: decision for decision in decisions}

    def closed(self, number):
        del self.waiting[number]
        self.keys = {key: each for key, each in self.keys.items() if each != number}

    @rule(number=pending, loss=LOSSES, as_reward=st.booleans(), by_id=st.booleans())
    def tell(self, number, loss, as_reward, by_id):
        feedback = {"reward": 1.0 - loss} if as_reward else {"loss": loss}
        if number not in self.waiting:
            self.refused(lambda: self.bandit.tell(number, **feedback))
            return
        self.bandit.tell(number if by_id else self.waiting[number], **feedback)
        self.told += 1
        self.closed(number)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def tell_many(self, data):
        some = data.draw(st.lists(st.sampled_from(sorted(self.waiting)), unique=True, max_size=5))
        losses = [data.draw(LOSSES) for _ in some]
        self.bandit.tell_many(some, losses)
        self.told += len(some)
        for number in some:
            self.closed(number)

    @precondition(lambda self: self.keys)
    @rule(loss=LOSSES)
    def tell_by_key(self, loss):
        key, number = next(iter(self.keys.items()))
        self.bandit.tell(key, loss=loss)
        self.told += 1
        self.closed(number)

    @rule(number=pending)
    def forget(self, number):
        if number not in self.waiting:
            self.refused(lambda: self.bandit.forget(number))
            return
        self.bandit.forget(number)
        self.dropped += 1
        self.closed(number)

    @rule(age=st.integers(0, 20), loss=st.none() | LOSSES)
    def expire(self, age, loss):
        expired = self.bandit.expire(older_than=age, loss=loss)
        newest = self.bandit.round
        assert expired == [n for n in sorted(self.waiting) if newest - n > age or age == 0]
        self.told += len(expired) if loss is not None else 0
        self.dropped += len(expired) if loss is None else 0
        for number in expired:
            self.closed(number)

    @rule()
    def expire_by_time(self):
        assert self.bandit.expire(older_than=timedelta(days=1)) == []

    @rule(name=NAMES)
    def add_arm(self, name):
        if name in self.bandit.arms or not self.bandit.policy.traits.resizable:
            self.refused(lambda: self.bandit.add_arm(name))
            return
        returning = name in self.bandit.history()
        self.bandit.add_arm(name)
        self.known += not returning

    @rule(data=st.data())
    def retire_arm(self, data):
        name = data.draw(st.sampled_from(list(self.bandit.arms)[:5]))
        if len(self.bandit) == 1 or not self.bandit.policy.traits.resizable:
            self.refused(lambda: self.bandit.retire_arm(name))
            return
        self.bandit.retire_arm(name)
        assert name not in self.bandit.arms

    @rule(how=st.sampled_from(["text", "document", "copy"]))
    def keep(self, how):
        before = self.bandit
        if how == "copy":
            self.bandit = before.copy()
        elif how == "text":
            self.bandit = bw.Bandit.loads(before.dumps())
        else:
            self.bandit = bw.Bandit.from_dict(json.loads(json.dumps(before.as_dict())))
        assert content(self.bandit) == content(before)
        if before.policy.traits.knows_probability:
            assert self.bandit.probabilities() == before.probabilities()
        # Decisions of the old one are decisions of the new one.

    @rule(bad=BAD, number=pending, as_reward=st.booleans())
    def feedback_that_is_refused(self, bad, number, as_reward):
        if self.bandit._units.clip and isinstance(bad, float) and math.isfinite(bad):
            return
        feedback = {"reward": bad} if as_reward else {"loss": bad}
        self.refused(lambda: self.bandit.tell(number, **feedback))
        self.refused(lambda: self.bandit.tell_many([number], [bad]))

    @rule(
        call=st.sampled_from(
            [
                lambda b: b.tell(0, loss=0.5),
                lambda b: b.tell(-1, loss=0.5),
                lambda b: b.tell(10**9, loss=0.5),
                lambda b: b.tell("nobody", loss=0.5),
                lambda b: b.tell(None, loss=0.5),
                lambda b: b.forget(0),
                lambda b: b.forget(object()),
                lambda b: b.ask(available=[]),
                lambda b: b.ask(available=["nobody"]),
                lambda b: b.ask(available="x"),
                lambda b: b.ask(key=""),
                lambda b: b.ask_many(0),
                lambda b: b.tell_many([0], [0.5]),
                lambda b: b.tell_many([], [0.5]),
                lambda b: b.expire(older_than=-1),
                lambda b: b.expire(older_than=0, loss=7, reward=7),
                lambda b: b.add_arm(None),
                lambda b: b.retire_arm("nobody"),
                lambda b: b.save("/dev/null"),
            ]
        )
    )
    def calls_that_are_refused(self, call):
        self.refused(lambda: call(self.bandit))

    def refused(self, call):
        """A refused call says one sentence and leaves every byte as it was."""
        before = content(self.bandit)
        with pytest.raises(BothworldsError) as caught:
            call()
        said = str(caught.value)
        assert said.startswith(("The ", "A ")) and said.endswith("."), said
        assert "\n" not in said
        assert content(self.bandit) == before

    @invariant()
    def everything_is_counted_once(self):
        if not hasattr(self, "bandit"):
            return
        bandit = self.bandit
        history = bandit.history().values()
        assert sorted(bandit.pending) == sorted(self.waiting)
        assert len(history) == self.known
        assert sum(arm.told for arm in history) == self.told
        assert sum(arm.pulls for arm in history) == bandit.round
        assert bandit.round == self.told + self.dropped + len(self.waiting)
        assert all(bandit.awaits(number) for number in self.waiting)
        if bandit.policy.traits.knows_probability and len(bandit) <= 64:
            p = bandit.probabilities()
            assert list(p) == list(bandit.arms)
            assert all(0.0 <= share <= 1.0 for share in p.values())
            assert sum(p.values()) == pytest.approx(1.0, abs=1e-9)


class Duels(RuleBasedStateMachine):
    """One dueling bandit, and what was asked and told."""

    pending = Bundle("pending")

    @initialize(
        player=st.sampled_from(
            [bw.Sparring(), bw.Sparring(shared=False), bw.Sparring(bw.TsallisINF(alpha=0.7))]
            + [bw.Sparring(policy) for policy in POLICIES[3:]]
        ),
        arms=st.sampled_from([1, 2, 9, 64]),
        seed=st.integers(0, 2**64 - 1),
    )
    def begin(self, player, arms, seed):
        self.duel = bw.DuelingBandit(player, arms, seed=seed)
        self.waiting = {}
        self.keys = {}
        self.told = 0

    @rule(target=pending)
    def ask(self):
        pair = self.duel.ask()
        self.waiting[pair.id] = pair
        return pair.id

    @rule(key=st.sampled_from(["k", "l"]))
    def ask_by_key(self, key):
        pair = self.duel.ask(key=key)
        assert self.keys.setdefault(key, pair.id) == pair.id
        self.waiting.setdefault(pair.id, pair)

    def closed(self, number):
        del self.waiting[number]
        self.keys = {key: each for key, each in self.keys.items() if each != number}

    @rule(number=pending, winner=st.sampled_from(["left", "right"]), by_id=st.booleans())
    def tell(self, number, winner, by_id):
        if number not in self.waiting:
            self.refused(lambda: self.duel.tell(number, winner=winner))
            return
        self.duel.tell(number if by_id else self.waiting[number], winner=winner)
        self.told += 1
        self.closed(number)

    @rule(number=pending)
    def forget(self, number):
        if number not in self.waiting:
            self.refused(lambda: self.duel.forget(number))
            return
        self.duel.forget(number)
        self.closed(number)

    @rule(age=st.integers(0, 20))
    def expire(self, age):
        newest = self.duel.round
        expired = self.duel.expire(older_than=age)
        assert expired == [n for n in sorted(self.waiting) if newest - n > age or age == 0]
        for number in expired:
            self.closed(number)

    @rule(how=st.sampled_from(["text", "copy"]))
    def keep(self, how):
        before = self.duel
        self.duel = before.copy() if how == "copy" else bw.DuelingBandit.loads(before.dumps())
        assert content(self.duel) == content(before)

    @rule(
        call=st.sampled_from(
            [
                lambda d: d.tell(0, winner="left"),
                lambda d: d.tell(10**9, winner="left"),
                lambda d: d.tell("nobody", winner="left"),
                lambda d: d.tell(1, winner="blue"),
                lambda d: d.tell(1, winner=None),
                lambda d: d.forget(None),
                lambda d: d.ask(key=7),
                lambda d: d.expire(older_than=-1),
                lambda d: d.expire(older_than="x"),
            ]
        )
    )
    def calls_that_are_refused(self, call):
        self.refused(lambda: call(self.duel))

    def refused(self, call):
        before = content(self.duel)
        with pytest.raises(BothworldsError) as caught:
            call()
        assert str(caught.value).endswith(".")
        assert content(self.duel) == before

    @invariant()
    def everything_is_counted_once(self):
        if not hasattr(self, "duel"):
            return
        assert sorted(self.duel.pending) == sorted(self.waiting)
        history = self.duel.history().values()
        assert sum(arm.told for arm in history) == 2 * self.told
        assert sum(arm.pulls for arm in history) == 2 * self.duel.round


class Segments(RuleBasedStateMachine):
    """One bandit of segments, and what was asked and told in each."""

    pending = Bundle("pending")

    @initialize(
        policy=st.sampled_from([bw.TsallisINF(), bw.TsallisINFV(), bw.UCB1(), *FLOORED]),
        arms=st.sampled_from([1, 2, 9]),
        limit=st.integers(1, 3),
        seed=st.integers(0, 2**64 - 1),
    )
    def begin(self, policy, arms, limit, seed):
        self.bandit = bw.SegmentedBandit(policy, arms, limit=limit, seed=seed)
        self.limit = limit
        self.rounds = 0
        self.waiting = {}
        self.keys = {}
        self.used = []

    def use(self, segment):
        """Keep the order of use; what is beyond the limit is gone with all that waits in it."""
        self.used = [each for each in self.used if each != segment] + [segment]
        for old in self.used[: -self.limit]:
            self.gone(old)

    def gone(self, segment):
        self.used.remove(segment)
        for id in [id for id, each in self.waiting.items() if each.segment == segment]:
            self.closed(id)

    def closed(self, id):
        del self.waiting[id]
        self.keys = {key: each for key, each in self.keys.items() if each != id}

    def note(self, decision, segment):
        assert decision.segment == segment and decision.id not in self.waiting
        assert decision.round == self.bandit[segment].round
        self.waiting[decision.id] = decision
        self.rounds += 1
        self.use(segment)
        return decision.id

    @rule(target=pending, segment=st.sampled_from(["de", "fr", "it", "1.1@de"]))
    def ask(self, segment):
        return self.note(self.bandit.ask(segment), segment)

    @rule(segment=st.sampled_from(["de", "fr", "it"]), key=st.sampled_from(["k", "de", "@"]))
    def ask_by_key(self, segment, key):
        if key not in self.keys:
            self.keys[key] = self.note(self.bandit.ask(segment, key=key), segment)
        elif self.waiting[self.keys[key]].segment == segment:
            assert self.bandit.ask(segment, key=key).id == self.keys[key]
        else:
            self.refused(lambda: self.bandit.ask(segment, key=key))

    @rule(id=pending, loss=LOSSES, by_id=st.booleans())
    def tell(self, id, loss, by_id):
        if id not in self.waiting:
            self.refused(lambda: self.bandit.tell(id, loss=loss))
            return
        decision = self.waiting[id]
        self.bandit.tell(id if by_id else decision, loss=loss)
        self.closed(id)
        self.use(decision.segment)

    @precondition(lambda self: self.keys)
    @rule(loss=st.none() | LOSSES)
    def tell_or_forget_by_key(self, loss):
        key, id = next(iter(self.keys.items()))
        segment = self.waiting[id].segment
        if loss is None:
            self.bandit.forget(key)
        else:
            self.bandit.tell(key, loss=loss)
            self.use(segment)
        self.closed(id)

    @rule(id=pending)
    def forget(self, id):
        if id not in self.waiting:
            self.refused(lambda: self.bandit.forget(id))
            return
        self.bandit.forget(id)
        self.closed(id)

    @rule(age=st.integers(0, 5), loss=st.none() | LOSSES)
    def expire(self, age, loss):
        newest = {segment: self.bandit[segment].round for segment in self.bandit.segments}
        expired = self.bandit.expire(older_than=age, loss=loss)
        assert set(expired) == {
            id
            for id, decision in self.waiting.items()
            if newest[decision.segment] - decision.round > age or age == 0
        }
        for id in expired:
            self.closed(id)

    @rule()
    def expire_by_time(self):
        assert self.bandit.expire(older_than=timedelta(days=1)) == []

    @precondition(lambda self: self.used)
    @rule(data=st.data())
    def drop(self, data):
        segment = data.draw(st.sampled_from(self.used))
        self.bandit.drop(segment)
        self.gone(segment)

    @rule(how=st.sampled_from(["text", "copy"]))
    def keep(self, how):
        before = self.bandit
        kept = before.copy() if how == "copy" else bw.SegmentedBandit.loads(before.dumps())
        assert content(kept) == content(before)
        self.bandit = kept

    @rule(
        call=st.sampled_from(
            [
                lambda b: b.ask(""),
                lambda b: b.ask("de", available=["nobody"]),
                lambda b: b.ask("de", key=""),
                lambda b: b.ask("de", key=7),
                lambda b: b.ask("de", key="1.1@de"),
                lambda b: b.tell("nobody", loss=0.5),
                lambda b: b.tell("99.1@de", loss=0.5),
                lambda b: b.tell(1, loss=0.5),
                lambda b: b.forget(None),
                lambda b: b.drop("nobody"),
                lambda b: b.expire(older_than=-1),
                lambda b: b.expire(older_than="x"),
            ]
        )
    )
    def calls_that_are_refused(self, call):
        self.refused(lambda: call(self.bandit))

    def refused(self, call):
        before = content(self.bandit)
        with pytest.raises(BothworldsError) as caught:
            call()
        said = str(caught.value)
        assert said.startswith("The ") and said.endswith(".") and "\n" not in said
        assert content(self.bandit) == before

    @invariant()
    def everything_is_where_it_should_be(self):
        if not hasattr(self, "bandit"):
            return
        assert self.bandit.segments == tuple(self.used)
        assert set(self.bandit.pending) == set(self.waiting)
        assert self.bandit.round == self.rounds
        assert all(self.bandit.awaits(id) for id in self.waiting)
        assert not self.bandit.awaits("1.99@de") and not self.bandit.awaits("k")


EXAMPLES = settings(max_examples=60, stateful_step_count=30, deadline=None, derandomize=True)
TestBandits = pytest.mark.slow(Bandits.TestCase)
TestBandits.settings = EXAMPLES
TestDuels = pytest.mark.slow(Duels.TestCase)
TestDuels.settings = EXAMPLES
TestSegments = Segments.TestCase
TestSegments.settings = EXAMPLES
