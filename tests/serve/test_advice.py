"""Experiments with experts: advice in decisions, exact learning, refusals, replicas."""

import asyncio
import itertools
import random
import signal

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.serve.domain import records
from bothworlds.serve.domain.advised import Advisers, check_advised, round_row
from bothworlds.serve.domain.draws import UNIT, Lineup
from bothworlds.serve.domain.service import Arm, Service
from bothworlds.serve.domain.sums import Sums, contribution
from bothworlds.serve.ops import reports
from bothworlds.serve.ops.verify import replay, verify
from bothworlds.serve.problems import Problem
from helpers.served import served as running
from serve.conftest import BOTH, QUIET, spec
from serve.test_replicas import SharedStore

ME = Service.LOCAL
EXPERTS = ("model", "rules")
PLAIN = {"model": "a", "rules": {"b": 0.25, "c": 0.75}}


@pytest.fixture(params=BOTH)
def dialect(request):
    return request.param


def healthy(where):
    assert [each for each in verify(where) if not each.ok] == []
    assert all(each.equal for each in replay(where))


def learned(service, name="headline"):
    return service.experiment_state(ME, name).total


async def refused(code, awaitable):
    with pytest.raises(Problem) as problem:
        await awaitable
    assert problem.value.code == code, problem.value
    assert str(problem.value).count(". ") == 0
    return problem.value


# --- one decision ---------------------------------------------------------------------------------


def test_rows_are_rounded_to_parts_that_add_up():
    rng = np.random.default_rng(3)
    for _ in range(200):
        row = rng.dirichlet(np.full(rng.integers(1, 40), 0.3))[None, :]
        row[row < 1e-3] = 0.0
        row /= row.sum()
        rounded = row.copy()
        round_row(rounded, 0)
        parts = rounded * records.PARTS
        assert np.rint(parts).sum() == records.PARTS
        assert np.abs(parts - np.rint(parts)).max() < 1e-9
        assert np.abs(rounded - row).max() <= 1.0 / records.PARTS
        assert (rounded[row == 0.0] == 0.0).all()


@pytest.mark.parametrize("estimator", ["iw", "rv"])
@pytest.mark.parametrize("sleeping", [(), (1,)])
def test_the_record_teaches_what_the_bandit_learns(estimator, sleeping):
    policy = bw.Floor(bw.TsallisINF(estimator=estimator), 0.3)
    arms, experts = list("abcde"), ["m", "n", "o"]
    advisers = Advisers(policy, experts, arms)
    lineup = Lineup(policy, [0, 1, 3, 4], 5)
    rng = np.random.default_rng(5)
    kinds = set()
    for number in range(100, 130):
        L = rng.integers(0, 2**33, 3)
        rows = rng.dirichlet(np.full(5, 0.5), 3)
        rows[:, 2] = 0.0
        rows /= rows.sum(axis=1, keepdims=True)
        advice = {
            name: dict(zip(arms, rows[j].tolist(), strict=True))
            for j, name in enumerate(experts)
            if j not in sleeping
        }
        asleep = [experts[j] for j in sleeping] or None
        drawn = advisers.draw(L, number, rng.random(), advice, asleep, lineup)
        weights = list(advisers.weights().values())
        raw = records.encode(
            1, 7, 0, drawn.arm, 5, number, bytes(16), drawn.inverse_p,
            drawn.near | records.PRESENT, near=drawn.mask, present=lineup.mask,
        )  # fmt: skip
        assert len(drawn.mask) == 4 + 4 * 3 + (16 if sleeping else 0)
        found = contribution(raw, 0.75, 5) * UNIT

        # The formulas of `bothworlds.policies.advice`, by hand.
        X = np.array([j not in sleeping for j in range(3)])
        for j in np.flatnonzero(X):
            round_row(rows, j)
        p = np.array(weights) @ np.where(X[:, None], rows, 0.0)
        e = 0.3 * number ** (-1.0 / 3.0)
        mixed = (1.0 - e) * p + e * np.array([1, 1, 0, 1, 1]) / 4.0
        eta = (4.0 if estimator == "rv" else 2.0) / np.sqrt(number)
        B = np.where(p >= eta * eta, 0.5, 0.0) if estimator == "rv" else np.zeros(5)
        arm = drawn.arm
        assert drawn.inverse_p == pytest.approx(1.0 / mixed[arm])
        d = 0.75 - B[arm]
        every = rows @ B + d * rows[:, arm] / mixed[arm]
        own = p @ B + d * p[arm] / mixed[arm]
        assert found == pytest.approx(np.where(X, every, own), abs=2e-9)
        kinds.add(bool(B[arm]))
        assert records.decode(raw).advice == [
            pytest.approx(rows[j, arm]) if X[j] else None for j in range(3)
        ]
    assert kinds == ({True, False} if estimator == "rv" else {False})


def test_contributions_are_unbiased():
    policy = bw.TsallisINF()
    advisers = Advisers(policy, ["m", "n"], list("abc"))
    lineup = Lineup(policy, [0, 1, 2], 3)
    advice = {"m": {"a": 0.2, "b": 0.8}, "n": {"b": 0.1, "c": 0.9}}
    losses = [0.9, 0.1, 0.6]
    L = np.array([0, 3 << 30])
    mean, seen = np.zeros(2), {}
    for u in np.linspace(0.0, 1.0, 400, endpoint=False):
        drawn = advisers.draw(L, 400, float(u), advice, None, lineup)
        seen[drawn.arm] = drawn
    for arm, drawn in seen.items():
        raw = records.encode(
            1, 7, 0, arm, 3, 400, bytes(16), drawn.inverse_p, drawn.near, near=drawn.mask
        )
        mean += contribution(raw, losses[arm], 3) * UNIT / drawn.inverse_p
    assert mean == pytest.approx([0.2 * 0.9 + 0.8 * 0.1, 0.1 * 0.1 + 0.9 * 0.6], abs=2e-5)


def test_sums_of_arms_and_experts_grow_apart():
    drawn = records.encode_advice(False, 0, bytes([255, 255, 0, 0, 0, 0, 0, 0]))
    few = records.encode(1, 7, 0, 1, 2, 3, bytes(16), 2.0, records.ADVISED, near=drawn)
    many = records.encode(1, 7, 0, 4, 5, 4, bytes(16), 4.0, records.ADVISED, near=drawn)
    one = Sums.blank(0).learned_from([few], [0.5])
    both = one.learned_from([many], [0.5])
    assert (one.experts * UNIT).tolist() == [1.0, 0.0]
    assert (both.experts * UNIT).tolist() == [3.0, 0.0]
    assert both.told.tolist() == [0, 1, 0, 0, 1]
    assert both.sums[:6].tolist() == [0] * 6
    assert both.same(Sums.blank(3).learned_from([many], [0.5]).plus(one))
    assert not both.same(one)


def test_damaged_advice_is_no_record():
    advice = records.encode_advice(True, 1, bytes(8), (1.0, 0.5))
    raw = records.encode(1, 7, 0, 1, 2, 3, bytes(16), 2.0, records.ADVISED, near=advice)
    assert records.decode(raw).advice == [None, 0.0]
    for wrong in (
        raw[:-1],
        raw + b"0",
        raw[: records.END],
        raw[: records.END] + b"\0" + raw[records.END + 1 :],
        raw[: records.END + 2] + b"\4" + raw[records.END + 3 :],
    ):
        with pytest.raises(ValueError, match="record"):
            records.decode(wrong)


# --- a service ------------------------------------------------------------------------------------


def test_it_learns_whom_to_trust(on_service, where):
    rng = random.Random(11)

    async def body(service):
        for _ in range(400):
            right, wrong = rng.sample("abcd", 2)
            decided = await service.decide(
                ME, "headline", advice={"model": right, "rules": wrong}, vector=True
            )
            share = decided.experts["model"]
            assert decided.probabilities[right] == pytest.approx(share)
            assert decided.probability == pytest.approx(
                share if decided.arm == right else 1 - share
            )
            await service.feedback(ME, decided.decision_id, reward=float(decided.arm == right))
        assert (await service.decide(ME, "headline", advice=PLAIN)).experts is None
        shown = service.experiment(ME, "headline")
        await service.upkeep.checkpoint()
        (noted,) = await service.checkpoints(ME, "headline")
        await service.flushed()
        report = await reports.report(service, ME, "headline", 0.95)
        return shown, noted, report, service.experiment_state(ME, "headline").weights()

    shown, noted, report, weights = on_service(body, experts=EXPERTS)
    assert [each["name"] for each in shown["experts"]] == list(EXPERTS)
    assert shown["experts"][0]["weight"] > 0.9
    assert noted["experts"] == pytest.approx(weights)
    assert sum(noted["probabilities"].values()) == pytest.approx(1.0)
    assert report["experts"]["model"]["mean"] < 0.1 < 0.9 < report["experts"]["rules"]["mean"]
    low, high = report["experts"]["model"]["sequence"]
    assert low <= 0.0 <= high < 0.5
    assert report["experts"]["model"]["answers"] == 400
    healthy(where())


def test_state_is_the_exact_sum_in_any_order_late_and_once(on_service, where):
    async def body(service):
        rng = random.Random(3)
        made = []
        for n in range(60):
            advice = dict(PLAIN) if n % 3 else {"rules": "d"}
            made.append(
                await service.decide(
                    ME, "headline", advice=advice, asleep=None if n % 3 else ["model"],
                    available=None if n % 4 else ["a", "c", "d"],
                )
            )  # fmt: skip
        rng.shuffle(made)
        expected = np.zeros(2, np.int64)
        for n, each in enumerate(made):
            raw, _ = service.state.keyring.verify(each.decision_id)
            loss = (n % 5) / 4
            assert (await service.feedback(ME, each.decision_id, loss=loss)).status == "learned"
            again = await service.feedback(ME, each.decision_id, loss=loss)
            assert again.status == "duplicate"
            expected += contribution(raw, loss, 4)
        assert (learned(service).experts == expected).all()
        assert expected.any()
        assert learned(service).sums[:5].tolist() == [0] * 5
        return expected

    expected = on_service(body, experts=EXPERTS)
    healthy(where())

    async def restarted():
        service = await Service.open(where(), QUIET)
        found = learned(service).experts.copy()
        await service.close()
        return found

    assert (asyncio.run(restarted()) == expected).all()


WRONG = (
    ("advice_missing", {}),
    ("advice_missing", {"advice": {"model": "a"}}),
    ("advice_missing", {"advice": {}, "asleep": ["model"]}),
    ("advice_invalid", {"advice": {**PLAIN, "else": "a"}}),
    ("advice_invalid", {"advice": {**PLAIN, "model": "z"}}),
    ("advice_invalid", {"advice": {**PLAIN, "model": {"a": 0.5}}}),
    ("advice_invalid", {"advice": {**PLAIN, "model": {"a": 2.0, "b": -1.0}}}),
    ("advice_invalid", {"advice": {**PLAIN, "model": {"a": float("nan")}}}),
    ("advice_invalid", {"advice": {**PLAIN, "model": {"a": float("inf")}}}),
    ("advice_invalid", {"advice": PLAIN, "asleep": ["else"]}),
    ("advice_invalid", {"advice": PLAIN, "asleep": ["rules"]}),
    ("advice_invalid", {"advice": {}, "asleep": ["rules", "model"]}),
    ("advice_invalid", {"advice": {"model": "a", "rules": "b"}, "available": ["c", "d"]}),
)


def test_wrong_advice_is_refused_and_changes_nothing(on_service):
    async def body(service):
        token = (await service.decide(ME, "headline", advice=PLAIN)).decision_id
        await service.feedback(ME, token, loss=0.5)
        for code, given in WRONG:
            before, sums = service.experiment(ME, "headline"), learned(service).sums.copy()
            await refused(code, service.decide(ME, "headline", **given))
            after = service.experiment(ME, "headline")
            assert {**after, "state_age": 0.0} == {**before, "state_age": 0.0}
            assert (learned(service).sums == sums).all()
            # The rest of the refused advice is not in the next decision.
            made = await service.decide(ME, "headline", advice={"model": "d", "rules": "d"})
            assert (made.arm, made.probability) == ("d", 1.0)

    on_service(body, experts=EXPERTS)


def test_advice_needs_experts_and_a_policy_that_weighs_them(on_service):
    async def body(service):
        await refused("advice_invalid", service.decide(ME, "headline", advice=PLAIN))
        await refused("advice_invalid", service.decide(ME, "headline", asleep=[]))
        for code, more in (
            ("invalid_request", {"experts": ("m", "m")}),
            ("invalid_request", {"experts": ("\u200b",)}),
            ("invalid_request", {"experts": tuple("abcdefghijklmnopq")}),
            ("policy_not_served", {"policy": "exp3++", "experts": ("m",)}),
        ):
            await refused(code, service.create(ME, spec("other", **more)))

    on_service(body)
    with pytest.raises(bw.errors.InvalidParameter, match="estimator"):
        check_advised(bw.TsallisINF(estimator="soft"))
    assert check_advised(bw.TsallisINF(alpha=0.7)).alpha == 0.7


def test_modes_arms_and_keys(on_service, where):
    async def body(service):
        decide = service.decide
        # A pinned arm needs no advice: it is what helps when a model is down.
        await service.set_mode(ME, "headline", "pin", arm="b")
        assert (await decide(ME, "headline")).arm == "b"
        await service.set_mode(ME, "headline", "shadow", arm="b")
        await refused("advice_missing", decide(ME, "headline"))
        assert (await decide(ME, "headline", advice=PLAIN)).arm == "b"
        await service.set_mode(ME, "headline", "uniform")
        made = [await decide(ME, "headline", advice=PLAIN) for _ in range(40)]
        assert {each.arm for each in made} == set("abcd")
        assert {each.probability for each in made} == {0.25}
        for each in made:
            await service.feedback(ME, each.decision_id, loss=float(each.arm == "a"))
        weights = service.experiment_state(ME, "headline").weights()
        assert weights["rules"] > weights["model"]
        await service.set_mode(ME, "headline", "resume")
        await refused(
            "invalid_request",
            service.add_arm(ME, "headline", Arm("e"), probability=0.5),
        )
        await service.add_arm(ME, "headline", Arm("e"))
        await service.retire_arm(ME, "headline", "a")
        one = await decide(ME, "headline", advice={"model": {"a": 0.5, "e": 0.5}, "rules": "e"})
        assert (one.arm, one.probability) == ("e", 1.0)
        await service.feedback(ME, one.decision_id, loss=1.0)
        many = await service.decide_many(ME, "headline", 3, advice=PLAIN)
        assert len(many) == 3
        first = await decide(ME, "headline", advice=PLAIN, idempotency_key="k")
        again = await decide(
            ME, "headline", advice=dict(reversed(PLAIN.items())), idempotency_key="k"
        )
        assert again.replayed
        assert again.decision_id == first.decision_id
        other = {**PLAIN, "model": "b"}
        await refused(
            "idempotency_key_reused", decide(ME, "headline", advice=other, idempotency_key="k")
        )
        await service.flushed()
        rows = [row async for page in service.rows(ME, "headline") for row in page]
        assert rows[-1]["advised"].keys() == set(EXPERTS)
        assert "advised" not in rows[0]

    on_service(body, experts=EXPERTS)
    healthy(where())


def test_two_replicas_learn_the_same_state(where, dialect):
    path = where()

    async def running():
        pair = []
        for shard in range(2):
            pair.append(
                await Service.open(SharedStore(path, shard) if dialect == "sqlite" else path, QUIET)
            )
        first, second = pair
        await first.create(ME, spec(experts=EXPERTS))
        await second.replicas.poll_once()
        tokens = []
        for service, _ in itertools.product(pair, range(15)):
            decided = await service.decide(ME, "headline", advice=PLAIN)
            tokens.append(decided.decision_id)
        # Each feedback goes to both: one of them learns.
        for n, token in enumerate(tokens):
            both = await asyncio.gather(
                *(service.feedback(ME, token, loss=n % 2) for service in pair)
            )
            assert sorted(each.status for each in both) == ["duplicate", "learned"]
        for service in pair:
            await service.replicas.poll_once()
        assert (learned(first).sums == learned(second).sums).all()
        expected = sum(
            contribution(first.state.keyring.verify(token)[0], n % 2, 4)
            for n, token in enumerate(tokens)
        )
        assert (learned(first).experts == expected).all()
        weights = [service.experiment_state(ME, "headline").weights() for service in pair]
        assert weights[0] == weights[1]
        for service in pair:
            await service.close()

    asyncio.run(running())
    healthy(path)


def test_a_wrong_count_of_experts_is_found(on_service, where):
    async def body(service):
        token = (await service.decide(ME, "headline", advice=PLAIN)).decision_id
        await service.feedback(ME, token, loss=0.5)

        def tamper(writer):
            advice = records.encode_advice(False, 0, bytes(4))
            raw, record = service.state.keyring.verify(token)
            made = raw[: records.END] + advice
            sql = "UPDATE feedback SET record = ? WHERE id = ? RETURNING id"
            assert writer.rows(sql, (made, record.id))

        await service.state.committer.run(tamper)

    on_service(body, experts=EXPERTS)
    wrong = {each.invariant for each in verify(where()) if not each.ok}
    assert wrong == {"I2", "I3"}


@pytest.mark.processes
def test_a_killed_service_has_learned_what_it_acknowledged(where, dialect, tmp_path):
    store, log = where(), tmp_path / "log"
    arms = {}

    def told(service, id):
        # With 30 decisions, no number of each arm makes the experts equal.
        loss = {"loss": 0.75 if arms[id] == "a" else 0.25}
        return service.ask("PUT", f"/v1/decisions/{id}/feedback", loss).json["status"]

    with running(store, log=log) as service:
        made = {"name": "headline", "arms": list("abcd"), "experts": list(EXPERTS)}
        assert service.ask("POST", "/v1/experiments", made).status == 201
        for _ in range(30):
            answer = service.ask("POST", "/v1/experiments/headline/decisions", {"advice": PLAIN})
            arms[answer.json["decision_id"]] = answer.json["arm"]
        ids = list(arms)
        assert [told(service, id) for id in ids[:20]] == ["learned"] * 20
        service.stop(signal.SIGKILL)
    healthy(store)
    with running(store, log=log) as service:
        # Feedback is reported again, and what was decided before the kill comes late.
        assert [told(service, id) for id in reversed(ids)] == ["learned"] * 10 + ["duplicate"] * 20
        weights = service.ask("GET", "/v1/experiments/headline").json["experts"]
    assert len({expert["weight"] for expert in weights}) == 2
    healthy(store)
