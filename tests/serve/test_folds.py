"""Experiments that learn in order: draws and folds like a bandit, and the same bits everywhere."""

import asyncio
import contextlib
import random
from functools import partial

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.bandit.core import adopt, started
from bothworlds.bandit.state_file import describe
from bothworlds.serve.dashboard.shown import Shown, acted_on
from bothworlds.serve.domain import records
from bothworlds.serve.domain.folds import Fold, FoldedLineup, Order
from bothworlds.serve.domain.service import Arm, Service
from bothworlds.serve.domain.sums import compact
from bothworlds.serve.ops import upkeep
from bothworlds.serve.ops.verify import replay, verify
from bothworlds.serve.problems import Problem
from bothworlds.serve.store import retention
from bothworlds.serve.store.opening import opened
from bothworlds.serve.store.rows import FeedbackRow
from serve.conftest import BOTH, QUIET, spec
from serve.test_replicas import SharedStore

ME = Service.LOCAL

POLICIES = [
    bw.TsallisINF(estimator="soft"),
    bw.TsallisINF(alpha=0.8, estimator="soft"),
    bw.TsallisINFV(),
    bw.HTINF(scale=1.0),
    bw.AllWorlds(),
    bw.Discounted(bw.TsallisINF(), window=50.0),
    bw.Alarmed(bw.TsallisINF()),
    bw.Restarted(bw.TsallisINF(), every=40),
    bw.Exp3PlusPlus(),
]


@pytest.fixture(params=BOTH)
def dialect(request):
    return request.param


def feedback_on(drawn, number, loss, known, present=b"", latest=None):
    """Return the feedback on a draw."""
    flags = drawn.near | (records.PRESENT if present else 0)
    flags |= records.CARRIED if drawn.carried else 0
    raw = records.encode(
        1, 7, 0, drawn.arm, known, number, number.to_bytes(16, "big"), drawn.inverse_p, flags,
        drawn.baseline, drawn.mask, present, carried=drawn.carried,
    )  # fmt: skip
    id = number.to_bytes(16, "big")
    return FeedbackRow(7, id, 0, raw, loss, "client", "learned", 0.0, None, number, latest)


# --- the fold ------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_prompt_feedback_leaves_the_distribution_of_a_bandit(policy):
    K = 4
    rng = random.Random(7)
    core = started(policy, list(range(K)), 7, evidence=False)
    fold = Fold.blank(Order(policy), range(K), K)
    lineup = FoldedLineup(policy, policy, range(K), K)
    for number in range(1, 301):
        drawn = lineup.draw(fold, number, rng.random())
        shares = lineup.probabilities()
        np.testing.assert_allclose(shares, list(core.probabilities().values()), rtol=1e-7)
        assert shares[drawn.arm] == pytest.approx(1.0 / drawn.inverse_p, rel=1e-12)
        loss = float(rng.random() < (0.2 if (drawn.arm == 1) == (number < 150) else 0.7))
        core.learn(adopt(core, drawn.arm, 1.0 / drawn.inverse_p), loss)
        fold.learn([feedback_on(drawn, number, loss, K, latest=number)])
    assert shares.max() > 0.3


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_a_fold_goes_on_from_the_bytes_of_the_store(policy):
    rng = random.Random(7)
    fold = Fold.blank(Order(policy), range(3), 3)
    lineup = FoldedLineup(policy, policy, range(3), 3)
    waiting = []
    for number in range(1, 101):
        waiting.append((lineup.draw(fold, number, rng.random()), number))
        if len(waiting) > 5:
            drawn, at = waiting.pop(rng.randrange(5))
            row = feedback_on(drawn, at, float(drawn.arm == 0), 3, latest=number)
            again = Fold.read(fold.order, fold.number, fold.state())
            fold.learn([row])
            again.learn([row])
            assert again.state() == fold.state()
    assert lineup.draw(fold, 101, 0.5) == lineup.draw(again, 101, 0.5)


def test_an_arm_that_was_not_there_gets_no_baseline():
    policy = bw.AllWorlds()
    fold = Fold.blank(Order(policy), range(4), 4)
    before = fold._columns()[0].copy()
    some = FoldedLineup(policy, policy, [0, 2], 4)
    drawn = some.draw(fold, 1, 0.25)
    assert drawn.arm == 0 and drawn.inverse_p == pytest.approx(2.0)
    fold.learn([feedback_on(drawn, 1, 0.75, 4, some.mask, latest=1)])
    base = np.frombuffer(drawn.carried)[0]
    assert 0.0 < base < 0.5
    # Those that were there: B, and (l - B) / p for the one played; the others: the loss itself.
    # All of them may have been moved by one number.
    found = fold._columns()[0] - before
    expected = np.array([base + (0.75 - base) * 2.0, 0.75, base, 0.75])
    np.testing.assert_allclose(found - found[2], expected - expected[2])


def test_estimates_are_unbiased_over_arms_and_outcomes():
    policy = bw.AllWorlds()
    K = 3
    start = Fold.blank(Order(policy), range(K), K)
    lineup = FoldedLineup(policy, policy, range(K), K)
    rng = random.Random(7)
    for number in range(1, 60):
        drawn = lineup.draw(start, number, rng.random())
        loss = float(rng.random() < (0.2, 0.6, 0.6)[drawn.arm])
        start.learn([feedback_on(drawn, number, loss, K, latest=number)])
    losses = (0.3, 0.5, 0.9)
    total = np.zeros(K)
    lineup.draw(start, 60, 0.5)
    for arm, share in enumerate(lineup.probabilities()):
        u = next(u for u in np.linspace(0.0, 0.9999, 5000) if lineup.draw(start, 60, u).arm == arm)
        drawn = lineup.draw(start, 60, float(u))
        after = start.copy()
        after.learn([feedback_on(drawn, 60, losses[arm], K, latest=60)])
        total += share * (after._columns()[0] - start._columns()[0])
    # Up to a common number: the estimates may be moved together.
    np.testing.assert_allclose(total - total[0], np.subtract(losses, losses[0]), atol=1e-9)


def test_outstanding_decisions_lower_the_rate():
    policy = bw.TsallisINFV()
    fold = Fold.blank(Order(policy), range(3), 3)
    lineup = FoldedLineup(policy, policy, range(3), 3)
    for number in range(1, 31):
        drawn = lineup.draw(fold, number, 0.1 + 0.02 * number)
        row = feedback_on(drawn, number, float(drawn.arm > 0), 3, latest=number + 40)
        fold.learn([row])
    lineup.draw(fold, 31, 0.5)
    prompt = lineup.probabilities().max()
    lineup.draw(fold, 71, 0.5)
    assert lineup.probabilities().max() < prompt


def regret(policy, runs, served, delay=20, rounds=400):
    """Return the mean regret of late feedback, in the service or of a bandit, and its error."""
    K, gap = 3, 0.3
    found = []
    for run in range(runs):
        rng = random.Random(1000 * served + run)
        fold = Fold.blank(Order(policy), range(K), K)
        lineup = FoldedLineup(policy, policy, range(K), K)
        bandit = bw.Bandit(policy, arms=K, seed=run)
        waiting, lost = [], 0.0
        for number in range(1, rounds + 1):
            drawn = lineup.draw(fold, number, rng.random()) if served else bandit.ask()
            arm = drawn.arm
            lost += gap * (arm > 0)
            waiting.append((drawn, number, float(rng.random() < 0.3 + gap * (arm > 0))))
            if len(waiting) > delay:
                drawn, at, loss = waiting.pop(0)
                if served:
                    fold.learn([feedback_on(drawn, at, loss, K, latest=number)])
                else:
                    bandit.tell(drawn, loss=loss)
        found.append(lost)
    return np.mean(found), np.std(found) / np.sqrt(runs)


@pytest.mark.statistical
def test_the_regret_of_a_served_policy_is_that_of_a_bandit():
    runs = 300
    mean, error = regret(bw.AllWorlds(), runs, served=True)
    expected, other = regret(bw.AllWorlds(), runs, served=False)
    assert abs(mean - expected) < 4.0 * np.hypot(error, other) + 0.05 * expected
    # The test tells a policy that learns nothing.
    blind, _ = regret(bw.Discounted(bw.TsallisINF(), window=1.5), runs // 6, served=True)
    assert blind > expected + 4.0 * np.hypot(error, other) + 0.05 * expected


# --- in the service ------------------------------------------------------------------------------


def fold_of(service, name="headline"):
    return service.experiment_state(ME, name).fold


def healthy(where):
    assert [each for each in verify(where) if not each.ok] == []
    assert all(each.equal for each in replay(where))


async def play(services, rounds, seed=7, name="headline"):
    """Decide on one service and report to another, late and out of order."""
    rng = random.Random(seed)
    waiting = []
    for _ in range(rounds):
        waiting.append(await rng.choice(services).decide(ME, name))
        if len(waiting) > 6:
            decided = waiting.pop(rng.randrange(len(waiting)))
            loss = float(rng.random() < (0.2 if decided.arm == "a" else 0.7))
            told = await rng.choice(services).feedback(ME, decided.decision_id, loss=loss)
            assert told.status == "learned"
    return waiting


@pytest.fixture
def replicated(where, dialect):
    """Run a coroutine function with two services on one store; check the store afterwards."""

    def run(body, **more):
        async def running():
            async with contextlib.AsyncExitStack() as stack:
                services = []
                for shard in range(2):
                    store = SharedStore(where(), shard) if dialect == "sqlite" else where()
                    service = await Service.open(store, QUIET)
                    stack.push_async_callback(service.close)
                    services.append(service)
                await services[0].create(ME, spec(**more))
                await services[1].replicas.poll_once()
                await body(*services)
                for service in services:
                    await service.replicas.poll_once()
                one, other = map(fold_of, services)
                assert one.number == other.number
                assert one.state() == other.state()

        asyncio.run(running())
        healthy(where())

    return run


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_two_replicas_and_a_replay_fold_the_same_bits(replicated, policy):
    async def body(*services):
        await play(services, 60)
        assert services[0].experiment(ME, "headline")["learned"] > 0
        assert fold_of(services[0]).number >= 50

    replicated(body, policy=describe(policy, "a test"))


def test_arms_epochs_modes_floors_and_caps_keep_the_order(replicated):
    async def body(one, two):
        both = one, two
        await play(both, 30)
        await one.add_arm(ME, "headline", Arm("e"), probability=0.3)
        # Drawn before the other replica knows the arm, and after.
        late = await two.decide(ME, "headline")
        await two.replicas.poll_once()
        shown = {arm["name"]: arm for arm in two.experiment(ME, "headline")["arms"]}
        assert shown["e"]["probability"] == pytest.approx(0.3, abs=0.05)
        await play(both, 30)
        await two.retire_arm(ME, "headline", "b")
        await one.feedback(ME, late.decision_id, loss=0.25)
        await one.decide(ME, "headline")
        await one.replicas.poll_once()
        await one.decide(ME, "headline", available=["a", "c"])
        await play(both, 30)
        await one.set_mode(ME, "headline", "uniform")
        await two.replicas.poll_once()
        for service in both:
            decided = await service.decide(ME, "headline")
            assert decided.probability == pytest.approx(0.25)
            assert (await one.feedback(ME, decided.decision_id, loss=1.0)).status == "learned"
        await one.set_mode(ME, "headline", "pin", arm="c")
        decided = await one.decide(ME, "headline")
        before = fold_of(one).state()
        told = await one.feedback(ME, decided.decision_id, loss=1.0)
        assert told.status == "not_learnable" and fold_of(one).state() == before
        await one.set_mode(ME, "headline", "resume")
        await two.replicas.poll_once()
        version = one.experiment_state(ME, "headline").version
        await one.patch(ME, "headline", {"floor": 0.2, "floor_power": 0.0}, if_match=version)
        await two.replicas.poll_once()
        waiting = await play(both, 30)
        assert min(each.probability for each in waiting) >= 0.2 / 4
        await one.set_mode(ME, "headline", "reset")
        assert fold_of(one).number == 0 and 1 not in fold_of(one).places
        await two.replicas.poll_once()
        with pytest.raises(Problem) as over:
            await two.feedback(ME, waiting[0].decision_id, loss=0.5)
        assert over.value.code == "epoch_over"
        await play(both, 30)

    replicated(body, policy="tsallis-v")


def test_allworlds_takes_no_further_floor(served):
    async def body(service):
        with pytest.raises(Problem) as refused:
            await service.create(ME, spec(policy="allworlds", floor=0.1))
        assert refused.value.code == "invalid_request"
        assert "floor" in str(refused.value)
        await service.create(ME, spec(policy="allworlds"))

    served(body)


def test_what_waits_in_quarantine_is_learned_when_it_is_released(replicated):
    async def body(one, two):
        decided = [await one.decide(ME, "headline", unit="eve") for _ in range(3)]
        statuses = [(await two.feedback(ME, d.decision_id, loss=1.0)).status for d in decided]
        assert statuses == ["learned", "quarantined", "quarantined"]
        await play((one, two), 20)
        before = fold_of(one).number
        assert await one.release(ME, "headline") == 2
        assert fold_of(one).number > before

    replicated(body, policy="allworlds", unit_cap=1)


def test_missing_feedback_is_folded_as_the_default(served, where, monkeypatch):
    async def body(service):
        more = {"missing": "default", "default_loss": 1.0, "log": "before"}
        await service.create(ME, spec(policy="allworlds", feedback_window=3600.0, **more))
        waiting = await play([service], 40)
        monkeypatch.setattr(upkeep, "GRACE", -3601.0)
        await service.upkeep.sweep()
        assert service.experiment(ME, "headline")["learned"] == 40
        assert service.counters()["swept"] == len(waiting)
        return fold_of(service).state()

    state = served(body)

    async def again(service):
        assert fold_of(service).state() == state

    served(again)
    healthy(where())


def test_retention_keeps_what_was_folded(served, where):
    async def body(service):
        await service.create(ME, spec(policy="allworlds"))
        early = [await service.decide(ME, "headline") for _ in range(3)]
        waiting = await play([service], 60)
        await service.add_arm(ME, "headline", Arm("e"))
        await service.retire_arm(ME, "headline", "b")
        middle = service.state.keyring.verify(waiting[0].decision_id)[1].id
        await play([service], 60)
        # Told at last: it is in the order behind feedback that stays.
        for decided in early:
            await service.feedback(ME, decided.decision_id, loss=0.0)
        experiment = service.experiment_state(ME, "headline")
        before = fold_of(service).state()
        work = partial(
            retention.forget_feedback, experiment=experiment.id, version=experiment.version,
            before=middle, add=compact, order=experiment.config.order, limit=10,
        )  # fmt: skip
        gone = 0
        while taken := await service.state.committer.run(work):
            gone += taken
        assert 30 < gone < 60
        assert fold_of(service).state() == before
        await play([service], 20)

    served(body)
    healthy(where())


def test_verify_notices_a_state_and_an_order_that_were_tampered_with(served, where):
    async def body(service):
        await service.create(ME, spec(policy="allworlds"))
        await play([service], 40)

    served(body)
    healthy(where())
    with contextlib.closing(opened(where(), serve=False)) as store, store.writer.transaction():
        numbers = [n for (n,) in store.writer.rows("SELECT number FROM feedback ORDER BY number")]
        for old, new in ((numbers[3], -1), (numbers[9], numbers[3]), (-1, numbers[9])):
            store.writer.execute("UPDATE feedback SET number = ? WHERE number = ?", (new, old))
    assert [each.invariant for each in verify(where()) if not each.ok] == ["I13"]
    assert not all(each.equal for each in replay(where()))
    assert replay(where(), write=True)
    healthy(where())


@pytest.mark.parametrize(
    ("policy", "kinds"), [("allworlds", {"level", "side"}), ("alarmed", {"restart"})]
)
def test_the_document_lists_the_alarms_that_the_policy_acted_on(served, policy, kinds):
    async def body(service):
        await service.create(ME, spec(policy=policy, bounds=(0.0, 10.0)))
        assert service.experiment(ME, "headline")["policy_alarms"] == []
        for number in range(400):
            decided = await service.decide(ME, "headline")
            loss = 2.0 if (decided.arm == "a") == (number < 200) else 8.0
            await service.feedback(ME, decided.decision_id, loss=loss)
        described = service.experiment(ME, "headline")
        found = described["policy_alarms"]
        assert found and {each["kind"] for each in found} <= kinds
        assert all(200 < each["round"] <= 400 for each in found)
        said = dict(acted_on(Shown(described, None, None, None)))
        if policy == "alarmed":
            assert said["Policy"].endswith(f"it restarted in round {found[-1]['round']:,}.")
            return
        (level,) = (each for each in found if each["kind"] == "level" and each["arm"] == "a")
        assert level["before"] == pytest.approx(2.0) and level["after"] == pytest.approx(8.0)
        assert level["since"] > 0 and 0.0 <= level["confidence"] < 1.0
        assert said["a"].startswith("mean loss 2 before, 8 after a change detected in round")

    served(body)


def test_losses_of_htinf_are_in_the_users_own_units(served, where):
    described = {"class": "HTINF", "fields": {"scale": 100.0}}

    async def body(service):
        await service.create(ME, spec(policy=described, bounds=(-1000.0, 1e6)))
        for _ in range(150):
            decided = await service.decide(ME, "headline")
            loss = 80.0 if decided.arm == "a" else 2500.0
            await service.feedback(ME, decided.decision_id, loss=loss)
        arms = {arm["name"]: arm for arm in service.experiment(ME, "headline")["arms"]}
        assert arms["a"]["probability"] > 0.9
        assert arms["a"]["mean_loss"] == pytest.approx(80.0, abs=0.01)
        decided = await service.decide(ME, "headline")
        with pytest.raises(Problem) as refused:
            await service.feedback(ME, decided.decision_id, reward=5.0)
        assert refused.value.code == "invalid_request"

    served(body)
    healthy(where())
