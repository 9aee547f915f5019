"""The service without HTTP: decisions, feedback, modes, arms, keys."""

import asyncio
import contextlib
import math
import pickle
import re
import time
import uuid
from dataclasses import replace

import pytest

from bothworlds.errors import StoreError
from bothworlds.serve.domain import records
from bothworlds.serve.domain.keys import SCOPES
from bothworlds.serve.domain.service import Arm, FeedbackItem, Principal, Service
from bothworlds.serve.domain.tokens import Keyring
from bothworlds.serve.ops.verify import verify
from bothworlds.serve.problems import Problem
from bothworlds.serve.store.opening import opened
from helpers.waiting import HANG
from serve.conftest import BOTH, QUIET, spec

ME = Service.LOCAL


@pytest.fixture(params=BOTH)
def dialect(request):
    return request.param


async def refused(code, awaitable):
    with pytest.raises(Problem) as problem:
        await awaitable
    assert problem.value.code == code, problem.value
    return problem.value


def sums(service, name="headline"):
    return service.experiment_state(ME, name).total.sums.copy()


def healthy(where):
    found = verify(where)
    assert [each for each in found if not each.ok] == []
    return found


# --- deciding and telling ------------------------------------------------------------------------


def test_it_learns_which_arm_is_best(on_service, where):
    async def body(service):
        for _ in range(400):
            decided = await service.decide(ME, "headline")
            told = await service.feedback(ME, decided.decision_id, reward=float(decided.arm == "c"))
            assert told.status == "learned"
        shown = service.experiment(ME, "headline")
        return {arm["name"]: arm for arm in shown["arms"]}, shown

    arms, shown = on_service(body)
    assert max(arms, key=lambda name: arms[name]["probability"]) == "c"
    assert arms["c"]["probability"] > 0.8
    assert arms["c"]["mean_loss"] == 0.0
    assert arms["a"]["mean_loss"] == 1.0
    assert sum(arm["decided"] for arm in arms.values()) == 400
    assert sum(arm["told"] for arm in arms.values()) == shown["learned"] == 400
    assert shown["round"] == 400
    healthy(where())


def test_a_state_survives_the_process_bit_for_bit(served, where):
    async def first(service):
        await service.create(ME, spec())
        for _ in range(50):
            decided = await service.decide(ME, "headline")
            await service.feedback(ME, decided.decision_id, loss=0.25)
        pending = await service.decide(ME, "headline")
        return sums(service), service.experiment_state(ME, "headline").round, pending.decision_id

    async def second(service):
        experiment = service.experiment_state(ME, "headline")
        found = experiment.total.sums.copy(), experiment.round
        told = await service.feedback(ME, token, loss=0.5)
        return *found, told.status

    before, number, token = served(first)
    after, again, status = served(second)
    assert (before == after).all()
    assert number == again == 51
    assert status == "learned"
    healthy(where())


def test_the_answer_is_whole(on_service):
    async def body(service):
        # By the database's clock, as the service has measured it.
        before = service.state.now()
        decided = await service.decide(ME, "headline", vector=True)
        assert decided.arm in "abcd"
        assert decided.probability == pytest.approx(0.25)
        assert decided.probabilities == pytest.approx(dict.fromkeys("abcd", 0.25))
        assert (decided.round, decided.mode, decided.replayed) == (1, "learn", False)
        # Ids have milliseconds.
        assert -0.001 <= decided.expires_at - before - 7 * 86400 < 60
        assert (await service.decide(ME, "headline")).probabilities is None

    on_service(body)


def test_the_probability_in_a_token_is_the_one_drawn_from(on_service):
    async def body(service):
        for _ in range(200):
            decided = await service.decide(ME, "headline", vector=True)
            record = service.state.keyring.verify(decided.decision_id)[1]
            share = decided.probabilities[decided.arm]
            assert record.inverse_p * share == pytest.approx(1.0, rel=1e-9)
            assert decided.probability == pytest.approx(share, rel=1e-9)
            await service.feedback(ME, decided.decision_id, loss=float(decided.arm != "a"))

    on_service(body)


def test_the_same_feedback_is_a_duplicate_and_another_a_conflict(on_service, where):
    async def body(service):
        token = (await service.decide(ME, "headline")).decision_id
        assert (await service.feedback(ME, token, reward=0.75)).status == "learned"
        state = sums(service)
        assert (await service.feedback(ME, token, reward=0.75)).status == "duplicate"
        assert (await service.feedback(ME, token, loss=0.25)).status == "duplicate"
        await refused("already_told", service.feedback(ME, token, loss=0.5))
        assert (sums(service) == state).all()

    on_service(body)
    healthy(where())


def test_contradicting_feedback_at_once_has_one_winner(on_service, where):
    async def body(service):
        for _ in range(20):
            token = (await service.decide(ME, "headline")).decision_id
            told = await asyncio.gather(
                *(service.feedback(ME, token, loss=i % 2) for i in range(10)),
                return_exceptions=True,
            )
            codes = [getattr(each, "code", None) or each.status for each in told]
            assert codes.count("learned") == 1
            assert codes.count("duplicate") == 4
            assert codes.count("already_told") == 5

    on_service(body)
    healthy(where())


@pytest.mark.parametrize(
    ("loss", "reward", "code"),
    [
        (math.nan, None, "out_of_bounds"),
        (math.inf, None, "out_of_bounds"),
        (-math.inf, None, "out_of_bounds"),
        (1.1, None, "out_of_bounds"),
        (-0.1, None, "out_of_bounds"),
        # A bandit in memory takes what rounding leaves beyond a bound.
        (-1e-320, None, "out_of_bounds"),
        (None, 1.0 + 1e-12, "out_of_bounds"),
        (None, 2, "out_of_bounds"),
        ("1", None, "out_of_bounds"),
        (True, None, "out_of_bounds"),
        (10**400, None, "out_of_bounds"),
        (None, None, "invalid_request"),
        (0.5, 0.5, "invalid_request"),
    ],
)
def test_a_loss_out_of_bounds_changes_nothing(on_service, loss, reward, code):
    async def body(service):
        token = (await service.decide(ME, "headline")).decision_id
        await refused(code, service.feedback(ME, token, loss=loss, reward=reward))
        answers = await service.feedback_many(ME, [FeedbackItem(token, loss=loss, reward=reward)])
        assert [each.code for each in answers] == [code]
        assert not sums(service).any()
        assert (await service.feedback(ME, token, loss=1.0)).status == "learned"

    on_service(body)


def test_bounds_of_the_users_own(served):
    async def body(service):
        await service.create(ME, spec(bounds=(-10.0, 30.0)))
        token = (await service.decide(ME, "headline")).decision_id
        await service.feedback(ME, token, reward=20.0)
        pages = [page async for page in service.rows(ME, "headline")]
        assert pages[0][0]["loss"] == pytest.approx(0.0)  # 30 - 20, above -10
        await refused("out_of_bounds", service.feedback(ME, token, reward=31.0))
        await refused(
            "invalid_request", service.patch(ME, "headline", {"bounds": [0, 1]}, if_match=1)
        )

    served(body)


def test_a_batch_is_answered_item_by_item(on_service, where):
    async def body(service):
        tokens = [each.decision_id for each in await service.decide_many(ME, "headline", 5)]
        items = [
            FeedbackItem(tokens[0], loss=0.5),
            FeedbackItem(tokens[1], loss=7.0),
            FeedbackItem("nonsense", loss=0.5),
            FeedbackItem(tokens[0], loss=0.5),
            FeedbackItem(tokens[0], loss=0.6),
            FeedbackItem(tokens[2], reward=1.0),
        ]
        answers = await service.feedback_many(ME, items)
        found = [getattr(each, "code", None) or each.status for each in answers]
        assert found == [
            "learned", "out_of_bounds", "bad_token", "duplicate", "already_told", "learned",
        ]  # fmt: skip
        assert service.state.committer.commits <= 3
        await refused("invalid_request", service.feedback_many(ME, items * 200))
        assert await service.feedback_many(ME, []) == []

    on_service(body)
    healthy(where())


@pytest.mark.parametrize("count", [0, 257, -1, True, 1.0, "3", None])
def test_counts_out_of_range_are_refused(on_service, count):
    on_service(
        lambda service: refused("invalid_request", service.decide_many(ME, "headline", count))
    )


def test_decisions_among_available_arms(on_service, where):
    async def body(service):
        for _ in range(40):
            decided = await service.decide(ME, "headline", available=["a", "c"], vector=True)
            assert sorted(decided.probabilities) == ["a", "c"]
            await service.feedback(ME, decided.decision_id, loss=float(decided.arm == "a"))
        one = await service.decide(ME, "headline", available=["d"])
        assert (one.arm, one.probability) == ("d", 1.0)
        assert (await service.feedback(ME, one.decision_id, loss=1.0)).status == "learned"
        await refused("arm_not_found", service.decide(ME, "headline", available=["a", "x"]))
        await refused("nothing_available", service.decide(ME, "headline", available=[]))
        # Arms that were away keep their standing.
        state = sums(service)
        assert state[0] > state[2]
        assert state[1] == state[3]

    on_service(body)
    healthy(where())


# --- tokens --------------------------------------------------------------------------------------


def test_tokens_of_nobody_of_others_and_of_the_past_are_refused(served):
    async def body(service):
        await service.create(ME, spec())
        decided = await service.decide(ME, "headline")
        raw, record = service.state.keyring.verify(decided.decision_id)
        other = Keyring({record.key: b"x" * 32}, record.key)
        await refused("bad_signature", service.feedback(ME, other.sign(raw), loss=0.0))
        await refused("bad_token", service.feedback(ME, "x" + decided.decision_id, loss=0.0))
        stranger = Principal(2, "k", frozenset({"feedback"}))
        await refused("bad_signature", service.feedback(stranger, decided.decision_id, loss=0.0))
        await refused("bad_signature", service.activate(stranger, decided.decision_id))
        await refused("experiment_not_found", service.decide(stranger, "headline"))
        await service.set_mode(ME, "headline", "reset")
        await refused("epoch_over", service.feedback(ME, decided.decision_id, loss=0.0))
        await refused("epoch_over", service.activate(ME, decided.decision_id))
        assert not sums(service).any()
        return decided.decision_id

    served(body)

    async def elsewhere(service):
        await service.create(ME, spec())
        await refused("bad_signature", service.feedback(ME, token, loss=0.0))

    token = served(body, store="third.db")
    served(elsewhere, store="fourth.db")


def test_feedback_comes_too_late_after_the_window(on_service, put_clock):
    async def body(service):
        decided = await service.decide(ME, "headline")
        put_clock(7 * 86400 + 1)
        await refused("expired", service.feedback(ME, decided.decision_id, loss=0.0))
        await refused("expired", service.activate(ME, decided.decision_id))
        put_clock(7 * 86400 - 60)
        assert (await service.feedback(ME, decided.decision_id, loss=0.0)).status == "learned"

    on_service(body)


def test_a_clock_that_jumps_loses_nothing(on_service, put_clock, where):
    async def body(service):
        tokens = []
        for hours in (0, 1, -1, 0, 2, -2):
            put_clock(3600 * hours)
            tokens += [each.decision_id for each in await service.decide_many(ME, "headline", 3)]
            await service.feedback(ME, tokens[-1], loss=0.5)
        for token in tokens:
            status = (await service.feedback(ME, token, loss=0.5)).status
            assert status in ("learned", "duplicate")
        rows = [row async for page in service.rows(ME, "headline", since=0.0) for row in page]
        assert [row["round"] for row in sorted(rows, key=lambda row: row["round"])] == [
            *range(1, len(rows) + 1)
        ]

    on_service(body)
    healthy(where())


def test_rotated_keys_verify_until_the_window_has_passed(served, put_clock):
    async def body(service):
        await service.create(ME, spec(feedback_window=3600.0))
        old = await service.decide(ME, "headline")
        assert await service.rotate_token_key(ME) == 2
        new = await service.decide(ME, "headline")
        assert service.state.keyring.verify(new.decision_id)[1].key == 2
        assert (await service.feedback(ME, old.decision_id, loss=0.0)).status == "learned"
        put_clock(3 * 86400)
        assert await service.rotate_token_key(ME) == 3
        assert await service.rotate_token_key(ME) == 4
        with pytest.raises(Problem, match="signed"):
            service.state.keyring.verify(old.decision_id)
        # The key that signed until a moment ago still verifies.
        service.state.keyring.verify(new.decision_id)
        for expected in (*range(5, 12), *range(12, 20)):
            put_clock(3 * 86400 * expected)
            assert await service.rotate_token_key(ME) == expected

    served(body)


# --- idempotency, stickiness, deferral -----------------------------------------------------------


def test_a_request_with_a_name_gets_one_decision(on_service, where):
    async def body(service):
        first = await service.decide(ME, "headline", idempotency_key="r1")
        again = await service.decide(ME, "headline", idempotency_key="r1")
        assert (first.replayed, again.replayed) == (False, True)
        assert again.decision_id == first.decision_id
        assert (again.arm, again.probability, again.round) == (
            first.arm, first.probability, first.round,
        )  # fmt: skip
        together = await asyncio.gather(
            *(service.decide(ME, "headline", idempotency_key="r2") for _ in range(20))
        )
        assert len({each.decision_id for each in together}) == 1
        assert sum(not each.replayed for each in together) == 1
        await refused(
            "idempotency_key_reused",
            service.decide(ME, "headline", idempotency_key="r1", available=["a", "b"]),
        )
        await refused("invalid_request", service.decide(ME, "headline", idempotency_key=""))
        rows = [row async for page in service.rows(ME, "headline") for row in page]
        assert len(rows) == 2
        shown = service.experiment(ME, "headline")
        assert sum(arm["decided"] for arm in shown["arms"]) == 2

    on_service(body)
    healthy(where())


def test_a_sticky_unit_gets_the_same_decision_while_it_lasts(served, put_clock):
    async def body(service):
        await service.create(ME, spec(sticky_seconds=600.0))
        eve = await service.decide(ME, "headline", unit="eve")
        assert (await service.decide(ME, "headline", unit="eve")).decision_id == eve.decision_id
        bob = await service.decide(ME, "headline", unit="bob")
        assert bob.decision_id != eve.decision_id
        put_clock(601)
        later = await service.decide(ME, "headline", unit="eve")
        assert later.decision_id != eve.decision_id
        # What cannot be played is not given again.
        others = [arm for arm in "abcd" if arm != later.arm]
        other = await service.decide(ME, "headline", unit="eve", available=others)
        assert other.arm in others
        assert (await service.decide(ME, "headline", unit="eve")).decision_id == other.decision_id
        await service.set_mode(ME, "headline", "reset")
        fresh = await service.decide(ME, "headline", unit="eve")
        assert fresh.decision_id != other.decision_id
        rows = [row async for page in service.rows(ME, "headline") for row in page]
        assert len(rows) == 5
        assert len({row["unit"] for row in rows}) == 2

    served(body)


def test_units_are_nowhere_in_the_store(served, where):
    async def body(service):
        await service.create(ME, spec(sticky_seconds=600.0))
        decided = await service.decide(ME, "headline", unit="eve@example.org")
        await service.feedback(ME, decided.decision_id, loss=0.0)

    served(body)
    with contextlib.closing(opened(where(), serve=False)) as store:
        tables = (
            store.reader.rows("SELECT * FROM claim"),
            store.reader.rows("SELECT * FROM decision"),
        )
        tables += (store.reader.rows("SELECT * FROM feedback"),)
    assert all(tables)
    assert b"eve@example" not in pickle.dumps(tables)


def test_a_log_before_the_answer_is_there_before_the_answer(served):
    async def body(service):
        await service.create(ME, spec(log="before"))
        decided = await service.decide(ME, "headline")
        more = await service.decide_many(ME, "headline", 3)
        found = service.store.reader.rows("SELECT id FROM decision")
        ids = {service.state.keyring.verify(each.decision_id)[1].id for each in [decided, *more]}
        assert {bytes(id) for (id,) in found} == ids

    served(body)


def test_decide_never_waits_for_the_disk(on_service, monkeypatch):
    async def body(service):
        release = asyncio.Event()
        stuck = asyncio.Event()
        commit = service.store.writer.commit
        loop = asyncio.get_running_loop()

        def slow(batch, settle):
            loop.call_soon_threadsafe(stuck.set)
            asyncio.run_coroutine_threadsafe(release.wait(), loop).result()
            return commit(batch, settle)

        first = await service.decide(ME, "headline")
        monkeypatch.setattr(service.store.writer, "commit", slow)
        telling = asyncio.ensure_future(service.feedback(ME, first.decision_id, loss=0.0))
        await stuck.wait()
        for _ in range(2000):
            # Without a single turn of the loop, in which a commit could end.
            with pytest.raises(StopIteration):
                service.decide(ME, "headline").send(None)
        assert not telling.done()
        release.set()
        assert (await telling).status == "learned"

    on_service(body)


def test_a_full_buffer_refuses_and_drops_nothing(served):
    async def body(service):
        await service.create(ME, spec())

        def broken(batch, settle):
            raise OSError("disk I/O error")

        commit = service.store.writer.commit
        service.store.writer.commit = broken
        for _ in range(100):
            await service.decide(ME, "headline")
        problem = await refused("overloaded", service.decide(ME, "headline"))
        assert problem.status == 503 and problem.retry_after > 0
        while service.state.committer.failing is None:
            await asyncio.sleep(0)
        assert service.ready() == "The store does not take writes."
        service.store.writer.commit = commit
        await service.flushed()
        assert service.ready() is None
        rows = [row async for page in service.rows(ME, "headline") for row in page]
        assert len(rows) == 100
        assert await service.gaps(ME, "headline") == {"missing": 0, "unclean": 0}

    served(body, replace(QUIET, log_buffer=100))


def test_missing_feedback_counts_as_the_default_loss(served, put_clock, where):
    async def body(service):
        await service.create(
            ME, spec(missing="default", default_loss=1.0, log="before", feedback_window=60.0)
        )
        tokens = [each.decision_id for each in await service.decide_many(ME, "headline", 30)]
        for token in tokens[:10]:
            await service.feedback(ME, token, loss=0.0)
        await service.upkeep.sweep()
        assert service.counters()["swept"] == 0
        put_clock(200)
        await service.decide_many(ME, "headline", 5)
        await service.upkeep.sweep()
        await service.upkeep.sweep()
        assert service.counters()["swept"] == 20
        assert service.experiment(ME, "headline")["learned"] == 30
        await refused("expired", service.feedback(ME, tokens[-1], loss=0.0))
        rows = [row async for page in service.rows(ME, "headline") for row in page]
        assert [row["source"] for row in rows].count("sweep") == 20
        assert {row["loss"] for row in rows if row["source"] == "sweep"} == {1.0}

    served(body)
    healthy(where())


def test_ids_sort_by_time_although_the_clock_is_put_back(on_service, put_clock):
    async def body(service):
        for ahead in (0.0, -100.0, -50.0):
            put_clock(ahead)
            await service.decide_many(ME, "headline", 10)
        await service.flushed()
        rows = [row async for page in service.rows(ME, "headline") for row in page]
        assert [row["round"] for row in rows] == [*range(1, 31)]

    on_service(body)


def test_deferred_decisions_count_once_they_are_activated(served, put_clock, where):
    async def body(service):
        await service.create(
            ME, spec(missing="deferred", default_loss=1.0, log="before", feedback_window=60.0)
        )
        made = [await service.decide(ME, "headline", deferred=True) for _ in range(6)]
        await service.activate(ME, made[0].decision_id)
        await service.activate(ME, made[0].decision_id)
        await service.activate(ME, made[1].decision_id)
        await service.feedback(ME, made[1].decision_id, loss=0.0)
        # Feedback of one that was never activated shows that it took effect.
        assert (await service.feedback(ME, made[2].decision_id, loss=0.0)).status == "learned"
        put_clock(200)
        await service.upkeep.sweep()
        assert service.counters()["swept"] == 1
        rows = [row async for page in service.rows(ME, "headline") for row in page]
        assert [row["source"] for row in rows] == [
            "sweep", "client", "client", None, None, None,
        ]  # fmt: skip
        assert [row["activated_at"] is not None for row in rows] == [
            True, True, False, False, False, False,
        ]  # fmt: skip

    served(body)
    healthy(where())


def test_decisions_of_a_clock_that_was_put_back_are_swept_as_well(served, put_clock):
    async def body(service):
        await service.create(
            ME, spec(missing="default", default_loss=1.0, log="before", feedback_window=60.0)
        )
        await service.decide_many(ME, "headline", 3)
        put_clock(600)
        await service.decide_many(ME, "headline", 3)
        await service.upkeep.sweep()
        assert service.counters()["swept"] == 3
        put_clock(-3600)
        decided = await service.decide(ME, "headline")
        assert (await service.feedback(ME, decided.decision_id, loss=0.0)).status == "learned"
        await service.decide_many(ME, "headline", 3)
        put_clock(900)
        await service.upkeep.sweep()
        assert service.counters()["swept"] == 9
        # Nobody believes a clock that is years ahead for longer than it is.
        put_clock(1e9)
        await service.decide(ME, "headline")
        put_clock(0)
        assert (await service.decide(ME, "headline")).expires_at < time.time() + 120

    served(body)


@pytest.mark.parametrize("missing", ["default", "deferred"])
def test_a_default_loss_needs_a_log_before_the_answer(served, missing):
    async def body(service):
        await refused(
            "invalid_request", service.create(ME, spec(missing=missing, default_loss=1.0))
        )
        await refused("invalid_request", service.create(ME, spec(missing=missing, log="before")))
        assert service.experiments(ME) == []

    served(body)


# --- modes and arms ------------------------------------------------------------------------------


def test_modes(on_service, where):
    async def body(service):
        before = await service.decide(ME, "headline")
        await service.set_mode(ME, "headline", "pin", arm="b")
        pinned = await service.decide(ME, "headline", vector=True)
        assert (pinned.arm, pinned.probability, pinned.mode) == ("b", 1.0, "pinned")
        assert pinned.probabilities == {"a": 0.0, "b": 1.0, "c": 0.0, "d": 0.0}
        assert (await service.feedback(ME, pinned.decision_id, loss=1.0)).status == "not_learnable"
        assert not sums(service).any()
        await refused("nothing_available", service.decide(ME, "headline", available=["a"]))
        assert (await service.feedback(ME, before.decision_id, loss=1.0)).status == "learned"
        await service.set_mode(ME, "headline", "uniform")
        even = await service.decide(ME, "headline", available=["a", "b"])
        assert (even.probability, even.mode) == (0.5, "uniform")
        assert (await service.feedback(ME, even.decision_id, loss=1.0)).status == "learned"
        await service.set_mode(ME, "headline", "shadow", arm="d")
        shadow = await service.decide(ME, "headline")
        assert (shadow.arm, shadow.probability, shadow.mode) == ("d", 1.0, "shadow")
        assert (await service.feedback(ME, shadow.decision_id, loss=1.0)).status == "not_learnable"
        await service.flushed()
        rows = [row async for page in service.rows(ME, "headline") for row in page]
        assert rows[-1]["shadow"]["arm"] in "abcd"
        assert 0 < rows[-1]["shadow"]["probability"] <= 1
        await service.set_mode(ME, "headline", "pause")
        await refused("experiment_paused", service.decide(ME, "headline"))
        await service.set_mode(ME, "headline", "archive")
        await refused("experiment_archived", service.decide(ME, "headline"))
        await refused("mode_conflict", service.set_mode(ME, "headline", "reset"))
        await service.set_mode(ME, "headline", "resume")
        assert (await service.decide(ME, "headline")).mode == "learn"
        await refused("arm_not_found", service.set_mode(ME, "headline", "pin", arm="x"))
        await refused("invalid_request", service.set_mode(ME, "headline", "pin"))
        await refused("invalid_request", service.set_mode(ME, "headline", "resume", arm="a"))
        await refused("invalid_request", service.set_mode(ME, "headline", "explode"))
        audited = [row["action"] for row in await service.audit(ME)]
        assert audited == ["create", "pin", "uniform", "shadow", "pause", "archive", "resume"]

    on_service(body)
    healthy(where())


def test_a_reset_starts_from_nothing(on_service, where):
    async def body(service):
        await service.add_arm(ME, "headline", Arm("e"))
        for _ in range(60):
            decided = await service.decide(ME, "headline")
            await service.feedback(ME, decided.decision_id, loss=float(decided.arm != "a"))
        shown = await service.set_mode(ME, "headline", "reset")
        assert (shown["epoch"], shown["round"], shown["learned"]) == (1, 0, 0)
        shares = [arm["probability"] for arm in shown["arms"]]
        assert shares == pytest.approx([0.2] * 5)
        decided = await service.decide(ME, "headline")
        assert decided.round == 1
        assert (await service.feedback(ME, decided.decision_id, loss=1.0)).status == "learned"

    on_service(body)
    healthy(where())


def test_arms_come_and_go_and_never_come_again(on_service, served, where):
    async def body(service):
        for _ in range(100):
            decided = await service.decide(ME, "headline")
            await service.feedback(ME, decided.decision_id, loss=float(decided.arm != "a"))
        early = await service.decide(ME, "headline")
        shown = await service.add_arm(ME, "headline", Arm("e", {"x": 1}), probability=0.3)
        assert shown["arms"][4]["probability"] == pytest.approx(0.3, abs=1e-6)
        await refused("arm_id_used", service.add_arm(ME, "headline", Arm("e")))
        await service.retire_arm(ME, "headline", "b")
        await refused("arm_not_found", service.retire_arm(ME, "headline", "b"))
        await refused("arm_not_found", service.retire_arm(ME, "headline", "x"))
        await refused("arm_id_used", service.add_arm(ME, "headline", Arm("b")))
        seen = set()
        for _ in range(100):
            decided = await service.decide(ME, "headline")
            seen.add(decided.arm)
            assert (decided.value == {"x": 1}) == (decided.arm == "e")
            await service.feedback(ME, decided.decision_id, loss=float(decided.arm != "e"))
        assert "b" not in seen and "e" in seen
        assert (await service.feedback(ME, early.decision_id, loss=1.0)).status == "learned"
        await service.set_mode(ME, "headline", "pin", arm="e")
        await refused("mode_conflict", service.retire_arm(ME, "headline", "e"))
        await service.retire_arm(ME, "headline", "c")
        await service.retire_arm(ME, "headline", "d")
        await refused("last_arms", service.retire_arm(ME, "headline", "a"))
        return sums(service)

    before = on_service(body)
    healthy(where())

    async def again(service):
        shown = service.experiment(ME, "headline")
        assert [arm["status"] for arm in shown["arms"]] == [
            "active", "retired", "retired", "retired", "active",
        ]  # fmt: skip
        return sums(service)

    assert (served(again) == before).all()


def test_a_floor_keeps_every_arm_alive(served):
    async def body(service):
        await service.create(ME, spec(floor=0.2, floor_power=0.0))
        for _ in range(300):
            decided = await service.decide(ME, "headline")
            await service.feedback(ME, decided.decision_id, loss=float(decided.arm != "a"))
        shown = service.experiment(ME, "headline")
        assert min(arm["probability"] for arm in shown["arms"]) >= 0.2 / 4 - 1e-12
        changed = await service.patch(ME, "headline", {"floor": 0.4}, if_match=1)
        assert min(arm["probability"] for arm in changed["arms"]) >= 0.4 / 4 - 1e-12

    served(body)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["tsallis", "tsallis-iw", "exp3"])
def test_served_policies(served, policy, where):
    async def body(service):
        await service.create(ME, spec(policy=policy))
        for _ in range(300):
            decided = await service.decide(ME, "headline")
            await service.feedback(ME, decided.decision_id, loss=float(decided.arm != "a"))
        arms = service.experiment(ME, "headline")["arms"]
        assert arms[0]["probability"] == max(arm["probability"] for arm in arms) > 0.4

    served(body)
    healthy(where())


@pytest.mark.parametrize(
    "policy",
    [
        "ucb1", "thompson", "uniform", "nobody", "", None, 3, [], {}, {"class": "UCB1"},
        {"class": "TsallisINF", "fields": {"alpha": 7}},
        {"class": "TsallisINF", "fields": {"nothing": 7}},
        {"class": "os.system", "fields": {}},
        {"class": "TsallisINF", "fields": {"gaps": [0, 0.5, 0.5, 0.5]}},
    ],
)  # fmt: skip
def test_other_policies_are_refused_in_one_sentence(served, policy):
    async def body(service):
        problem = await refused("policy_not_served", service.create(ME, spec(policy=policy)))
        assert str(problem).startswith("The ") and str(problem).endswith(".")

    served(body)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""}, {"name": "a/b"}, {"name": "-a"}, {"name": "x" * 101}, {"name": 3},
        {"arms": "a"}, {"arms": "aa"}, {"arms": ["a", ""]}, {"arms": ["a", "b\n"]},
        {"arms": ["a", "x" * 201]}, {"arms": ["a", 3]}, {"arms": ["a", "\ud800"]},
        {"bounds": (1, 0)}, {"bounds": (0, math.inf)}, {"bounds": "01"}, {"bounds": (0, 1, 2)},
        {"feedback_window": 0}, {"feedback_window": math.nan}, {"feedback_window": True},
        {"feedback_window": 1e12}, {"missing": "ignore"}, {"missing": None}, {"log": "never"},
        {"floor": 1.5}, {"floor": -0.1}, {"floor_power": 2}, {"sticky_seconds": -1},
        {"sticky_seconds": 8 * 86400}, {"unit_cap": -1}, {"unit_cap": 1.5}, {"key_cap": True},
        {"description": 3}, {"description": "\ud800"}, {"default_loss": "x"},
    ],
    ids=repr,
)  # fmt: skip
def test_wrong_specifications_change_nothing(served, wrong):
    async def body(service):
        problem = await refused("invalid_request", service.create(ME, spec(**wrong)))
        assert "\n" not in str(problem) and len(str(problem)) < 500
        assert service.experiments(ME) == []
        assert await service.audit(ME) == []

    served(body)


def test_a_name_is_taken_once(on_service):
    async def body(service):
        await refused("experiment_exists", service.create(ME, spec()))
        made = await asyncio.gather(
            *(service.create(ME, spec("other")) for _ in range(5)), return_exceptions=True
        )
        assert sum(isinstance(each, dict) for each in made) == 1

    on_service(body)


def test_a_patch_needs_the_version_it_is_based_on(on_service):
    async def body(service):
        shown = service.experiment(ME, "headline")
        version = shown["config_version"]
        changes = {"feedback_window": 60.0, "description": "new"}
        changed = await service.patch(ME, "headline", changes, if_match=version)
        assert changed["feedback_window"] == 60.0 and changed["description"] == "new"
        assert changed["config_version"] != version
        await refused(
            "config_changed",
            service.patch(ME, "headline", {"description": "old"}, if_match=version),
        )
        for wrong in ({"name": "x"}, {"epoch": 3}, {"arms": []}, {"floor": 2}, {"served": 1}):
            await refused(
                "invalid_request",
                service.patch(ME, "headline", wrong, if_match=changed["config_version"]),
            )
        assert service.experiment(ME, "headline")["description"] == "new"
        audited = await service.audit(ME)
        assert audited[-1]["change"]["feedback_window"] == [7 * 86400.0, 60.0]

    on_service(body)


def test_changes_at_the_same_time_all_happen(on_service):
    async def body(service):
        await asyncio.gather(*(service.add_arm(ME, "headline", Arm(f"new{i}")) for i in range(4)))
        shown = service.experiment(ME, "headline")
        assert sorted(arm["name"] for arm in shown["arms"][4:]) == ["new0", "new1", "new2", "new3"]

    on_service(body)


def test_a_change_that_was_read_before_is_not_taken_for_the_next_one(on_service):
    async def body(service):
        reload, begun = service.replicas.reload, []
        turns = {"first": asyncio.Event(), "third": asyncio.Event()}

        async def create(name):
            return await service.create(ME, spec(name))

        async def in_turn(*given):
            name = asyncio.current_task().get_name()
            begun.append(name)
            if name in turns:
                await turns[name].wait()
            await reload(*given)

        async def begin(name):
            task = asyncio.create_task(create(name), name=name)
            while name not in begun:
                await asyncio.sleep(0.001)
            return task

        service.replicas.reload = in_turn
        async with asyncio.timeout(HANG):
            first = await begin("first")
            # Reads the first one, too.
            await create("second")
            third = await begin("third")
            for name, task in (("first", first), ("third", third)):
                turns[name].set()
                assert (await task)["name"] == name
        assert len(service.experiments(ME)) == 4

    on_service(body)


def test_an_admin_change_and_its_audit_row_are_one_transaction(on_service, where):
    async def body(service):
        write = service.store.writer.execute

        def broken(sql, values=()):
            if sql.startswith("INSERT INTO audit"):
                raise OSError("disk full")
            return write(sql, values)

        service.store.writer.execute = broken
        before = service.experiment(ME, "headline")
        for change in (
            service.set_mode(ME, "headline", "pin", arm="a"),
            service.add_arm(ME, "headline", Arm("e")),
            service.retire_arm(ME, "headline", "a"),
            service.create(ME, spec("other")),
            service.create_key(ME, ["read"]),
            service.rotate_token_key(ME),
        ):
            await refused("store_unavailable", change)
        service.store.writer.execute = write
        assert service.ready() is not None
        await service.replicas.reload()
        # Also without any request: a load balancer sends none to a service that is not ready.
        async with asyncio.timeout(HANG):
            while service.ready() is not None:
                await asyncio.sleep(0.01)
        # But for its age.
        assert {**service.experiment(ME, "headline"), "state_age": before["state_age"]} == before
        assert service.keys(ME) == []
        assert len(service.experiments(ME)) == 1
        assert len(await service.audit(ME)) == 1

    on_service(body)
    healthy(where())


@pytest.mark.parametrize("dialect", ["sqlite"])
def test_a_change_reads_its_own_experiment_alone(served):
    async def body(service):
        watcher, read = service.store.watcher, []
        rows = watcher.rows

        def counting(sql, values=()):
            found = rows(sql, values)
            read.append(len(found))
            return found

        watcher.rows = counting
        costs = []
        for n in range(8):
            read.clear()
            await service.create(ME, spec(f"e{n}"))
            await service.set_mode(ME, f"e{n}", "pin", arm="a")
            await service.create_key(ME, ["read"])
            # One more key each time; nothing of the experiments that were there before.
            costs.append(sum(read) - 3 * n)
        assert len(set(costs)) == 1
        watcher.rows = rows
        assert len(service.experiments(ME)) == 8
        before = service.state.configuration
        await service.create(ME, spec("last"))
        found = service.state.configuration
        whole = service.store.reader.configuration()
        assert found == whole and found != before

    served(body)


# --- caps, keys, tenants -------------------------------------------------------------------------


def test_feedback_beyond_a_cap_waits_for_an_administrator(served, where):
    async def body(service):
        await service.create(ME, spec(unit_cap=2, key_cap=5))
        who = Principal(1, "key", frozenset({"feedback"}))
        told = []
        for unit in ["eve"] * 4 + ["bob"] * 4:
            decided = await service.decide(ME, "headline", unit=unit)
            told.append(await service.feedback(who, decided.decision_id, loss=1.0))
        assert [each.status for each in told] == [
            "learned", "learned", "quarantined", "quarantined",
            "learned", "quarantined", "quarantined", "quarantined",
        ]  # fmt: skip
        held = await service.quarantined(ME, "headline")
        assert len(held) == 5 and {each["key_id"] for each in held} == {"key"}
        assert service.experiment(ME, "headline")["learned"] == 3
        state = sums(service)
        assert await service.release(ME, "headline", [held[0]["id"]]) == 1
        assert (sums(service) != state).any()
        assert await service.release(ME, "headline", [held[0]["id"]]) == 0
        assert await service.drop(ME, "headline", [held[1]["id"]]) == 1
        assert await service.release(ME, "headline", [str(uuid.uuid4())]) == 0
        assert await service.release(ME, "headline") == 3
        assert await service.quarantined(ME, "headline") == []
        assert service.experiment(ME, "headline")["learned"] == 7
        await refused("invalid_request", service.release(ME, "headline", ["x"]))
        actions = [row["action"] for row in await service.audit(ME)]
        assert actions[1:] == ["release", "release", "drop", "release", "release"]

    served(body)
    healthy(where())


def test_feedback_that_is_sent_again_counts_once_towards_a_cap(on_service):
    async def body(service):
        who = Principal(1, "key", frozenset({"feedback"}))
        first, second, third = [
            (await service.decide(ME, "headline", unit="eve")).decision_id for _ in range(3)
        ]
        assert (await service.feedback(who, first, loss=1.0)).status == "learned"
        for _ in range(5):
            assert (await service.feedback(who, first, loss=1.0)).status == "duplicate"
            await refused("already_told", service.feedback(who, first, loss=0.0))
        assert (await service.feedback(who, second, loss=1.0)).status == "learned"
        assert (await service.feedback(who, third, loss=1.0)).status == "quarantined"

    on_service(body, unit_cap=2, key_cap=3)


def test_keys(served):
    async def body(service):
        secret, shown = await service.create_key(ME, ["decide", "read"], label="web")
        assert secret.startswith(f"bw_{shown['id']}_") and "hash" not in shown
        who = service.principal(secret)
        assert who == Principal(1, shown["id"], frozenset({"decide", "read"}))
        for wrong in (
            "", "bw", "bw__", secret[:-1], secret + "x", secret.replace("bw", "bx"), None, 7,
            f"bw_{shown['id']}_", "bw_x_" + secret[-43:], secret[:-1] + "é",
        ):  # fmt: skip
            assert service.principal(wrong) is None
        assert service.keys(ME)[0]["label"] == "web"
        await service.revoke_key(ME, shown["id"])
        assert service.principal(secret) is None
        await refused("key_not_found", service.revoke_key(ME, shown["id"]))
        for scopes in ([], ["root"], "read", ["read", "x"]):
            await refused("invalid_request", service.create_key(ME, scopes))

    served(body)


def test_tenants_see_nothing_of_each_other(served, where):
    async def body(service):
        secret, _ = await service.create_key(ME, sorted(SCOPES), tenant="acme")
        acme = service.principal(secret)
        assert acme.tenant != ME.tenant
        await service.create(ME, spec())
        await service.create(acme, spec(arms="xyz"))
        assert len(service.experiments(acme)) == 1
        ours = await service.decide(ME, "headline")
        theirs = await service.decide(acme, "headline")
        assert theirs.arm in "xyz"
        await refused("bad_signature", service.feedback(acme, ours.decision_id, loss=0.0))
        await refused("bad_signature", service.feedback(ME, theirs.decision_id, loss=0.0))
        assert (await service.feedback(acme, theirs.decision_id, loss=0.0)).status == "learned"
        assert len(service.keys(ME)) == 0
        await refused("key_not_found", service.revoke_key(ME, acme.key_id))
        assert {row["action"] for row in await service.audit(acme)} == {"create"}
        await refused("scope_missing", service.create_key(acme, ["read"], tenant="other"))

    served(body)
    healthy(where())


# --- limits --------------------------------------------------------------------------------------


def test_sums_do_not_leave_their_range(on_service):
    async def body(service):
        experiment = service.experiment_state(ME, "headline")
        decided = await service.decide(ME, "headline")
        raw, record = service.state.keyring.verify(decided.decision_id)
        huge = records.encode(*record[:7], 2.0**33, 0)
        await refused(
            "contribution_too_large",
            service.feedback(ME, service.state.keyring.sign(huge), loss=1.0),
        )
        experiment.own.sums[0] = 2**62 - 2**30
        experiment.refresh()
        await refused("contribution_too_large", service.feedback(ME, decided.decision_id, loss=1.0))
        assert experiment.alarms()
        experiment.own.sums[0] = 0
        experiment.refresh()
        assert experiment.promised == 0.0
        assert (await service.feedback(ME, decided.decision_id, loss=1.0)).status == "learned"

    on_service(body)


def test_a_probability_that_vanishes_raises_an_alarm(on_service, monkeypatch):
    async def body(service):
        monkeypatch.setattr(records, "LARGEST_INVERSE_P", 3.0)
        await refused("contribution_too_large", service.decide(ME, "headline"))
        shown = service.experiment(ME, "headline")
        assert "2^-32" in shown["alarms"][0] and shown["round"] == 0

    on_service(body)


@pytest.mark.slow
def test_unequal_missing_rates_raise_an_alarm_and_nothing_else(on_service):
    async def body(service):
        await service.set_mode(ME, "headline", "uniform")
        for n in range(1200):
            decided = await service.decide(ME, "headline", available=["a", "b"])
            if decided.arm == "a" or n % 2:
                await service.feedback(ME, decided.decision_id, loss=0.5)
        shown = service.experiment(ME, "headline")
        (alarm,) = shown["alarms"]
        said = r"Arm 'b' has feedback on (\d+) % of all its decisions, arm 'a' on 100 %\."
        found = re.fullmatch(said, alarm)
        arms = {each["name"]: each for each in shown["arms"]}
        assert found and abs(int(found[1]) - 100 * (1 - arms["b"]["missing_rate"])) < 0.51

    on_service(body)


@pytest.mark.slow
def test_decisions_of_a_pin_are_not_missed(on_service):
    async def body(service):
        await service.set_mode(ME, "headline", "uniform")
        for _ in range(600):
            decided = await service.decide(ME, "headline", available=["a", "b"])
            await service.feedback(ME, decided.decision_id, loss=0.5)
        await service.set_mode(ME, "headline", "pin", arm="b")
        for _ in range(400):
            await service.decide(ME, "headline")
        shown = service.experiment(ME, "headline")
        assert shown["alarms"] == []
        rates = {arm["name"]: arm["missing_rate"] for arm in shown["arms"]}
        assert rates["b"] == 0.0 and not any(rates.values())

    on_service(body)


@pytest.mark.slow
def test_a_pin_causes_no_alarm_if_all_arms_lack_the_same_share_of_feedback(on_service):
    async def body(service):
        await service.set_mode(ME, "headline", "uniform")
        for n in range(1600):
            # Arm a has nine times the decisions of b, and every 20th answer of both is missing.
            arm = "b" if n % 10 == 9 else "a"
            decided = await service.decide(ME, "headline", available=[arm])
            if n // 10 % 20:
                await service.feedback(ME, decided.decision_id, loss=0.5)
        await service.set_mode(ME, "headline", "pin", arm="b")
        for _ in range(200):
            await service.decide(ME, "headline")
        assert service.experiment(ME, "headline")["alarms"] == []

    on_service(body)


def test_after_closing_everything_is_refused(served):
    async def body(service):
        await service.create(ME, spec())
        decided = await service.decide(ME, "headline")
        await service.close()
        await refused("shutting_down", service.decide(ME, "headline"))
        await refused("shutting_down", service.feedback(ME, decided.decision_id, loss=0.0))
        await refused("shutting_down", service.set_mode(ME, "headline", "pause"))
        assert "stopping" in service.ready()

    served(body)


@pytest.mark.parametrize("dialect", ["sqlite"])
def test_a_second_service_on_one_file_does_not_start(on_service, where):
    async def body(service):
        with pytest.raises(StoreError, match="is already in use by another server"):
            await Service.open(where(), QUIET)
        assert (await service.decide(ME, "headline")).arm in "abcd"

    on_service(body)
