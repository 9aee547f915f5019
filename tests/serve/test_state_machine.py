"""State machine: the service against a model in plain Python, with fractions instead of kernels."""

import asyncio
import shutil
import tempfile
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from bothworlds.serve.domain.service import Arm, Service
from bothworlds.serve.ops.verify import verify
from bothworlds.serve.problems import Problem
from bothworlds.serve.store.sqlite import SqliteStore
from serve.conftest import QUIET, spec

ME = Service.LOCAL
ARMS = ["a", "b", "c"]
LOSSES = st.sampled_from([0.0, 0.25, 0.5, 1.0, 1 / 3])


def whole(value):
    """Return a number in units of 2^-30, rounded half to even."""
    return round(value * 2**30)


def rounded(x):
    """Return a double: what one operation on doubles leaves of an exact result."""
    return Fraction(float(x))


def contribution(record, loss, arms):
    """Return what a decision adds to every arm, from the definition of the estimator."""
    bits = [
        None if mask is None else [mask[i // 8] >> 7 - i % 8 & 1 for i in range(record.known)]
        for mask in (record.near, record.present)
    ]
    near, present = bits
    kind = record.flags & 3
    present = present or [1] * record.known
    near = near or [int(kind == 1)] * record.known
    half = Fraction(1, 2)
    base = half * near[record.arm]
    rise = rounded(rounded(Fraction(loss) - base) + Fraction(record.baseline))
    added = []
    for i in range(arms + 1):
        if i >= record.known or not present[i]:
            added.append(whole(rise))
            continue
        own = whole(half * near[i])
        if i == record.arm:
            own += whole(rounded((Fraction(loss) - base) * Fraction(record.inverse_p)))
        added.append(own)
    return added


class Machine(RuleBasedStateMachine):
    """An experiment that is asked, told, reset, resized and restarted in any order."""

    tokens = Bundle("tokens")

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.store = self.located()
        self.loop = asyncio.new_event_loop()
        self.service = None
        self.names = list(ARMS)
        self.retired = set()
        self.mode = "learn"
        self.pinned = None
        self.epoch = 0
        self.told = {}
        self.made = {}

    def located(self):
        """Return where a fresh store is to be."""
        return str(self.folder / "store.db")

    def run(self, awaitable):
        return self.loop.run_until_complete(awaitable)

    def open(self):
        self.service = self.run(Service.open(self.store, QUIET))

    @initialize(policy=st.sampled_from(["tsallis", "tsallis-iw", "exp3"]))
    def create(self, policy):
        self.open()
        self.run(self.service.create(ME, spec(arms=ARMS, policy=policy)))

    @rule(target=tokens, some=st.sets(st.integers(0, 7), max_size=4), unit=st.booleans())
    def decide(self, some, unit):
        named = [self.names[i] for i in sorted(some) if i < len(self.names)]
        asked = {"available": named} if named else {}
        there = [name for name in (named or self.names) if name not in self.retired]
        code = None
        if self.mode in ("paused", "archived"):
            code = f"experiment_{self.mode}"
        if not there or (self.pinned is not None and self.pinned not in there):
            code = "nothing_available" if not there or code is None else code
        try:
            decided = self.run(
                self.service.decide(ME, "headline", unit="u" if unit else None, **asked)
            )
        except Problem as problem:
            assert problem.code == code
            return multiple()
        assert code is None
        assert decided.arm in there
        if self.mode in ("pinned", "shadow"):
            assert (decided.arm, decided.probability) == (self.pinned, 1.0)
        if self.mode == "uniform":
            assert decided.probability == pytest.approx(1 / len(there))
        self.made[decided.decision_id] = (self.epoch, self.mode)
        return decided.decision_id

    @rule(token=tokens, loss=LOSSES, as_reward=st.booleans())
    def tell(self, token, loss, as_reward):
        epoch, mode = self.made[token]
        given = {"reward": 1 - loss} if as_reward else {"loss": loss}
        value = 1 - (1 - loss) if as_reward else loss
        if epoch != self.epoch:
            expected = "epoch_over"
        elif token in self.told:
            expected = "duplicate" if self.told[token] == value else "already_told"
        else:
            expected = "learned" if mode in ("learn", "uniform") else "not_learnable"
        try:
            status = self.run(self.service.feedback(ME, token, **given)).status
        except Problem as problem:
            status = problem.code
        assert status == expected
        if status in ("learned", "not_learnable"):
            self.told[token] = value

    @rule(token=tokens, place=st.integers(0, 200), to=st.sampled_from("AZaz09-_"))
    def forge(self, token, place, to):
        place %= len(token)
        forged = token[:place] + to + token[place + 1 :]
        if forged != token:
            with pytest.raises(Problem) as problem:
                self.run(self.service.feedback(ME, forged, loss=0.0))
            assert problem.value.code in ("bad_token", "bad_signature")

    @rule(action=st.sampled_from(["uniform", "pause", "archive", "resume", "resume"]))
    def change_mode(self, action):
        self.run(self.service.set_mode(ME, "headline", action))
        self.mode = {
            "uniform": "uniform", "pause": "paused", "archive": "archived", "resume": "learn",
        }[action]  # fmt: skip
        self.pinned = None

    @rule(action=st.sampled_from(["pin", "shadow"]), place=st.integers(0, 7))
    def pin(self, action, place):
        active = [name for name in self.names if name not in self.retired]
        arm = active[place % len(active)]
        self.run(self.service.set_mode(ME, "headline", action, arm=arm))
        self.mode, self.pinned = {"pin": "pinned", "shadow": "shadow"}[action], arm

    @precondition(lambda self: self.mode != "archived")
    @rule()
    def reset(self):
        self.run(self.service.set_mode(ME, "headline", "reset"))
        self.epoch += 1

    @precondition(lambda self: len(self.names) < 7)
    @rule(share=st.none() | st.sampled_from([0.1, 0.5]))
    def add_arm(self, share):
        name = f"new{len(self.names)}"
        self.run(self.service.add_arm(ME, "headline", Arm(name), probability=share))
        self.names.append(name)

    @rule(place=st.integers(0, 7))
    def retire_arm(self, place):
        name = self.names[place % len(self.names)]
        code = None
        if name in self.retired:
            code = "arm_not_found"
        elif len(self.names) - len(self.retired) <= 2:
            code = "last_arms"
        elif name == self.pinned:
            code = "mode_conflict"
        try:
            self.run(self.service.retire_arm(ME, "headline", name))
        except Problem as problem:
            assert problem.code == code
            return
        assert code is None
        self.retired.add(name)

    @rule()
    def restart(self):
        self.run(self.service.close())
        self.open()

    @invariant()
    def state_is_the_sum_of_contributions(self):
        if self.service is None:
            return
        total = self.service.experiment_state(ME, "headline").total
        expected = [0] * (len(self.names) + 1)
        learned = 0
        for token, loss in self.told.items():
            epoch, mode = self.made[token]
            if epoch == self.epoch and mode in ("learn", "uniform"):
                record = self.service.state.keyring.verify(token)[1]
                added = contribution(record, loss, len(self.names))
                expected = [a + b for a, b in zip(expected, added, strict=True)]
                learned += 1
        assert total.sums.tolist() == expected
        assert total.learned == learned

    def teardown(self):
        if self.service is not None:
            self.run(self.service.close())
            found = verify(self.store)
            assert [each for each in found if not each.ok] == []
        self.loop.close()
        shutil.rmtree(self.folder)


@pytest.mark.usefixtures("unsynced")
class TestMachine(Machine.TestCase):
    """The machine, some histories of it."""

    settings = settings(max_examples=15, stateful_step_count=40)

    def runTest(self):
        assert SqliteStore.synchronous == "OFF"
        super().runTest()


@pytest.fixture
def server(postgres):
    """Let the machine's stores be databases of a server."""
    PostgresMachine.server = postgres
    yield
    PostgresMachine.server = None


class PostgresMachine(Machine):
    """The machine on PostgreSQL."""

    server = None

    def located(self):
        return self.server.database()

    def teardown(self):
        super().teardown()
        self.server.drop(self.store)


@pytest.mark.processes
@pytest.mark.usefixtures("server")
class TestPostgresMachine(PostgresMachine.TestCase):
    """The same on PostgreSQL, few histories of it."""

    settings = settings(max_examples=4, stateful_step_count=25)
