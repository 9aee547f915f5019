"""Segments: a state each, borrowed estimates, eviction, replicas, retention, HTTP."""

import asyncio
import sqlite3

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.bandit.borrowed import borrowed
from bothworlds.serve.domain import records
from bothworlds.serve.domain.draws import draw
from bothworlds.serve.domain.service import Arm, Service
from bothworlds.serve.domain.state import DAY
from bothworlds.serve.domain.sums import Sums
from bothworlds.serve.ops import upkeep
from bothworlds.serve.ops.verify import replay, verify
from bothworlds.serve.problems import Problem
from bothworlds.serve.store.dashboard import replicas
from helpers.served import served as running
from serve.conftest import BOTH, QUIET, spec
from serve.test_replicas import SharedStore

ME = Service.LOCAL


@pytest.fixture(params=BOTH)
def dialect(request):
    return request.param


def healthy(where):
    assert [each for each in verify(where) if not each.ok] == []
    assert all(each.equal for each in replay(where))


def whole(service):
    return service.experiment_state(ME, "headline")


async def play(service, segments, best):
    """Decide and answer in these segments, None for none; return the decisions."""
    made = []
    for name in segments:
        decided = await service.decide(ME, "headline", segment=name)
        loss = float(decided.arm != best.get(name, "a"))
        assert (await service.feedback(ME, decided.decision_id, loss=loss)).status == "learned"
        made.append(decided)
    return made


async def refused(awaitable, word):
    with pytest.raises(Problem) as problem:
        await awaitable
    assert problem.value.code == "invalid_request", problem.value
    assert word in str(problem.value) and str(problem.value).count(". ") == 0


# --- one segment ----------------------------------------------------------------------------------


@pytest.mark.parametrize("near", [records.NEAR_NONE, records.NEAR_ALL, records.NEAR_SOME])
@pytest.mark.parametrize("flags", [0, records.PRESENT, records.UNIT, records.CARRIED, 140])
def test_a_record_has_its_segment(near, flags):
    known = 11
    given = {
        "near": b"nn" if near == records.NEAR_SOME else b"",
        "present": b"pp" if flags & records.PRESENT else b"",
        "unit": b"unitunit" if flags & records.UNIT else b"",
        "carried": bytes(16) if flags & records.CARRIED else b"",
    }
    plain = records.encode(1, 7, 0, 2, known, 41, bytes(16), 4.0, near | flags, **given)
    raw = records.encode(
        1, 7, 0, 2, known, 41, bytes(16), 4.0, near | flags, **given, segment=b"twelve bytes"
    )
    assert raw == plain + b"twelve bytes"
    assert records.decode(raw) == records.decode(plain)._replace(segment=b"twelve bytes")
    assert records.segment_of(raw) == b"twelve bytes" and records.segment_of(plain) == b""
    one, other = (Sums.blank(0).learned_from([each], [0.5]) for each in (raw, plain))
    assert one.same(other)
    for wrong in (raw[:-1], raw[:-5], raw + b"x"):
        with pytest.raises(ValueError):
            records.decode(wrong)


def test_a_segment_alone_is_an_experiment_of_its_own(on_service, where):
    async def body(service):
        await play(service, ["de"] * 20, {"de": "b"})
        e = whole(service)
        # There is no one to borrow from.
        estimates, rounds = e.segments["de"].drawn_from(e)
        assert estimates.tolist() == e.estimates.tolist() and rounds == e.round == 20
        # To the last bits, in which a repeated computation may differ.
        alone = e.probabilities(segment=e.segments["de"])
        assert alone == pytest.approx(e.probabilities(), rel=1e-12)

    on_service(body)
    healthy(where())


def test_the_draw_is_from_own_and_borrowed_estimates(on_service, where):
    async def body(service):
        await play(service, ["de", "fr", None] * 40, {"de": "b", "fr": "c"})
        e = whole(service)
        for name in ("de", "fr"):
            segment = e.segments[name]
            own, total = segment.total.sums[:4], e.total.sums[:4]
            added, counted = borrowed((total - own).astype(float), 80, 50)
            assert (segment.total.learned, counted, segment.round) == (40, 50, 40)
            expected = own + np.rint(added).astype(np.int64)
            estimates, rounds = segment.drawn_from(e)
            assert estimates.tolist() == expected.tolist() and rounds == 90
            decided = await service.decide(ME, "headline", segment=name, vector=True)
            place = e.places[decided.arm]
            for u in np.linspace(0.0, 0.999, 400):
                drawn = draw(bw.TsallisINF(), expected, 91, float(u))
                if drawn.arm == place:
                    break
            assert decided.probability == 1.0 / drawn.inverse_p
            assert sum(decided.probabilities.values()) == pytest.approx(1.0)

    on_service(body, segment_prior=50)
    healthy(where())


def test_segments_learn_their_own_best_arm(on_service, where):
    async def body(service):
        best = {"de": "b", "fr": "c"}
        await play(service, ["de", "fr"] * 250, best)
        found = (await service.segments(ME, "headline"))["segments"]
        assert [each["name"] for each in found] == ["de", "fr"]
        for each in found:
            shares = {arm["name"]: arm["probability"] for arm in each["arms"]}
            assert max(shares, key=shares.get) == best[each["name"]]
            assert sum(shares.values()) == pytest.approx(1.0)
            assert (each["decided"], each["learned"]) == (250, 250)
            assert sum(arm["told"] for arm in each["arms"]) == 250
        await service.flushed()
        e = whole(service)
        # The dashboard's table of replicas counts the whole experiment, not a segment of it.
        rows = await service.state.read(lambda reader: replicas(reader, e.id, e.epoch, 0))
        assert [(row.learned, row.rounds) for row in rows] == [(500, 500)]
        return e.total.learned

    assert on_service(body, segment_prior=10) == 500
    healthy(where())


def test_modes_hold_in_segments(on_service, where):
    async def body(service):
        await play(service, ["de"], {})
        await service.set_mode(ME, "headline", "pin", arm="c")
        pinned = await service.decide(ME, "headline", segment="de")
        assert (pinned.arm, pinned.mode) == ("c", "pinned")
        told = await service.feedback(ME, pinned.decision_id, loss=1.0)
        assert told.status == "not_learnable"
        await service.set_mode(ME, "headline", "shadow", arm="c")
        assert (await service.decide(ME, "headline", segment="de")).mode == "shadow"
        await service.set_mode(ME, "headline", "uniform")
        even = await service.decide(ME, "headline", segment="de")
        assert even.probability == 0.25
        await service.feedback(ME, even.decision_id, loss=1.0)
        assert whole(service).segments["de"].total.learned == 2
        await service.set_mode(ME, "headline", "pause")
        for name in ("de", "new"):
            with pytest.raises(Problem):
                await service.decide(ME, "headline", segment=name)
        assert [*whole(service).segments] == ["de"]

    on_service(body)
    healthy(where())


def test_a_new_arm_has_its_probability_in_every_segment(on_service, where):
    async def body(service):
        await play(service, ["de", "fr"] * 30 + ["it"] * 3, {"de": "b", "fr": "c"})
        await service.add_arm(ME, "headline", Arm("e"), probability=0.125)
        e = whole(service)
        for segment in e.segments.values():
            assert e.probabilities(segment=segment)["e"] == pytest.approx(0.125, abs=1e-6)
        await play(service, ["de", "fr"] * 10, {"de": "e", "fr": "c"})

    on_service(body)
    healthy(where())


def test_many_at_once_named_requests_and_sticky_units(on_service, where):
    async def body(service):
        made = await service.decide_many(ME, "headline", 5, segment="de")
        assert (
            whole(service).segments["de"].counts.rounds == 5 == len({d.decision_id for d in made})
        )
        one, two = [
            await service.decide(ME, "headline", segment="de", idempotency_key="k")
            for _ in range(2)
        ]
        assert one.decision_id == two.decision_id and two.replayed
        with pytest.raises(Problem) as problem:
            await service.decide(ME, "headline", segment="fr", idempotency_key="k")
        assert problem.value.code == "idempotency_key_reused"
        # A unit keeps its decision, in any segment.
        one, two = [await service.decide(ME, "headline", segment=s, unit="eve") for s in ("x", "y")]
        assert one.decision_id == two.decision_id

    on_service(body, sticky_seconds=60.0)
    healthy(where())


# --- how many -------------------------------------------------------------------------------------


def test_the_least_recently_used_segment_is_evicted(on_service, served, where):
    async def body(service):
        await play(service, ["one", "two", "three"], {})
        late = await service.decide(ME, "headline", segment="two")
        await play(service, ["one", "three"], {})
        old = whole(service).segments["two"].id
        await play(service, ["four"], {})
        assert {*whole(service).segments} == {"one", "three", "four"}
        # Its feedback is learned by the whole, once.
        for status in ("learned", "duplicate"):
            told = await service.feedback(ME, late.decision_id, loss=1.0)
            assert told.status == status
        await play(service, ["two"], {})
        again = whole(service).segments["two"]
        assert again.id != old and again.total.learned == 1
        assert "one" not in whole(service).segments
        assert whole(service).total.learned == 8
        await service.flushed()
        rows = [row async for page in service.rows(ME, "headline") for row in page]
        assert [row["segment"] for row in rows].count("two") == 3
        return {s.name: s.total.sums.tolist() for s in whole(service).segments.values()}

    before = on_service(body, max_segments=3)
    healthy(where())

    async def restarted(service):
        found = {s.name: s.total.sums.tolist() for s in whole(service).segments.values()}
        assert found == before
        assert whole(service).segments["two"].round == 1
        # A smaller limit holds from the next new segment on.
        version = whole(service).version
        await service.patch(ME, "headline", {"max_segments": 1}, if_match=version)
        await play(service, ["five"], {})
        assert {*whole(service).segments} == {"five"}
        await service.set_mode(ME, "headline", "reset")
        assert not whole(service).segments
        await play(service, ["five"], {})
        assert whole(service).segments["five"].total.learned == 1

    served(restarted)
    healthy(where())


def test_what_cannot_be_a_segment_is_refused(served, where):
    async def body(service):
        await service.create(ME, spec())
        for name in ("", "x" * 201, "a\nb", 7, "e\u0301"):
            await refused(service.decide(ME, "headline", segment=name), "segment must be")
            await refused(service.decide_many(ME, "headline", 2, segment=name), "segment must be")
        await service.create(ME, spec("experts", experts=("m",)))
        await refused(service.decide(ME, "experts", segment="de"), "experts")
        await service.create(ME, spec("order", policy="allworlds"))
        await refused(service.decide(ME, "order", segment="de"), "AllWorlds()")
        await service.create(ME, spec("none", max_segments=0))
        await refused(service.decide(ME, "none", segment="de"), "max_segments is 0")
        with pytest.raises(Problem):
            await service.decide(ME, "headline", segment="de", available=["z"])
        for e in service.running(ME):
            assert not e.segments and e.round == 0
        for wrong in (
            {"max_segments": 10_001}, {"max_segments": -1}, {"segment_prior": -1},
            {"segment_prior": 0.5}, {"segment_key": ""}, {"segment_key": "x" * 201},
            {"segment_key": "country", "policy": "allworlds"},
            {"segment_key": "country", "experts": ("m",)},
            {"segment_key": "country", "max_segments": 0},
        ):  # fmt: skip
            with pytest.raises(Problem) as problem:
                await service.create(ME, spec("wrong", **wrong))
            assert problem.value.code == "invalid_request", wrong
        assert "wrong" not in service.names(ME)

    served(body)


def test_a_decision_that_waits_for_its_segment_is_refused_if_the_store_goes_back(served):
    # Seeds 5274, 5799, 59136 and 70166 of the simulation: arms that the store had lost were drawn.
    async def body(service):
        await service.create(ME, spec(max_segments=2))
        begin = service.replicas.begin_segment

        async def meanwhile(*given):
            found = await begin(*given)
            await service.replicas._rebuild(b"another incarnation")
            return found

        service.replicas.begin_segment = meanwhile
        for decide in (
            lambda: service.decide(ME, "headline", segment="de"),
            lambda: service.decide_many(ME, "headline", 3, segment="fr"),
        ):
            with pytest.raises(Problem) as problem:
                await decide()
            assert problem.value.code == "store_unavailable"
        assert (await service.decide(ME, "headline", segment="de")).arm

    served(body)


# --- the store ------------------------------------------------------------------------------------


def test_retention_keeps_what_segments_have_learned(served, where, monkeypatch):
    async def body(service):
        await service.create(ME, spec(feedback_window=3600.0, max_segments=2))
        await play(service, ["de", "fr", None] * 5 + ["it"] * 3, {})
        await service.flushed()
        before = {s.name: s.total.sums.tolist() for s in whole(service).segments.values()}
        monkeypatch.setattr(upkeep, "DAY", 0.0)
        service.state.offset += DAY
        await service.upkeep._forget(0.5)
        assert [row async for page in service.rows(ME, "headline") for row in page] == []
        names = await service.looked_up(
            ME, "headline", lambda reader, e: {*reader.segment_names(e.id).values()}
        )
        # Names go with the last decision that has them.
        assert names == {"fr", "it"} == {*before}
        kept = await service.looked_up(ME, "headline", lambda reader, e: reader.compacted())
        assert sorted(each.learned for each in kept.values()) == [3, 5, 18]
        service.state.offset -= DAY

    served(body)
    healthy(where())


def test_quarantined_feedback_is_learned_by_its_segment(served, where):
    async def body(service):
        await service.create(ME, spec(unit_cap=1))
        for _ in range(3):
            decided = await service.decide(ME, "headline", segment="de", unit="eve")
            await service.feedback(ME, decided.decision_id, loss=1.0)
        assert whole(service).segments["de"].total.learned == 1
        assert await service.release(ME, "headline") == 2
        assert whole(service).segments["de"].total.learned == 3 == whole(service).total.learned

    served(body)
    healthy(where())


def test_a_damaged_state_of_a_segment_is_found_and_rebuilt(on_service, where, dialect):
    if dialect == "postgres":
        # The same tables and the same code; damage is done here by SQLite's own connection.
        return
    on_service(lambda service: play(service, ["de", "fr"] * 5, {}))
    with sqlite3.connect(where()) as connection:
        connection.execute(
            "UPDATE state SET learned = learned + 1 "
            "WHERE segment = (SELECT id FROM segment WHERE name = 'de')"
        )
    connection.close()
    found = [each for each in verify(where()) if not each.ok]
    assert [each.invariant for each in found] == ["I2"] and "segment 'de'" in found[0].detail
    assert [each.equal for each in replay(where(), write=True)] == [False]
    healthy(where())


# --- replicas -------------------------------------------------------------------------------------


def test_replicas_share_their_segments(where, dialect):
    async def body():
        path = where()
        services = [
            await Service.open(SharedStore(path, n) if dialect == "sqlite" else path, QUIET)
            for n in range(2)
        ]
        one, two = services
        await one.create(ME, spec(max_segments=2))
        await two.replicas.poll_once()
        for n in range(40):
            decided = await services[n % 2].decide(ME, "headline", segment="de")
            # Another replica learns what this one has decided.
            await services[(n + 1) % 2].feedback(
                ME, decided.decision_id, loss=float(decided.arm != "b")
            )
        for service in services:
            await service.replicas.poll_once()
        first, second = (whole(each).segments["de"] for each in services)
        assert first.id == second.id and first.total.same(second.total)
        assert first.total.learned == 40 == first.round == second.round
        # What one creates, the other knows with its next poll; so too what is evicted.
        await play(one, ["fr"], {})
        await two.replicas.poll_once()
        assert {*whole(two).segments} == {"de", "fr"}
        assert whole(two).segments["fr"].total.learned == 1
        late = await two.decide(ME, "headline", segment="fr")
        await one.flushed()
        await two.flushed()
        await play(one, ["de", "it"], {})
        assert {*whole(one).segments} == {"de", "it"}
        stale = await two.decide(ME, "headline", segment="fr")
        await two.feedback(ME, stale.decision_id, loss=1.0)
        await one.feedback(ME, late.decision_id, loss=1.0)
        await two.replicas.poll_once()
        assert {*whole(two).segments} == {"de", "it"}
        # An arm that one adds is placed in the segments of the other.
        await one.replicas.poll_once()
        await one.add_arm(ME, "headline", Arm("e"), probability=0.25)
        await two.replicas.poll_once()
        for each in services:
            e = whole(each)
            assert e.probabilities(segment=e.segments["de"])["e"] == pytest.approx(0.25, abs=1e-3)
        # A reset on one ends the segments of both; the other creates its next one in the new epoch.
        await one.set_mode(ME, "headline", "reset")
        made = await two.decide(ME, "headline", segment="uk")
        assert whole(two).epoch == 1
        assert (await one.feedback(ME, made.decision_id, loss=0.0)).status == "learned"
        for each in services:
            await each.close()

    asyncio.run(body())
    healthy(where())


# --- HTTP, clients and the page -------------------------------------------------------------------


@pytest.mark.processes
def test_segments_over_http(tmp_path, dialect):
    if dialect == "postgres":
        # The same over every store.
        return
    with running(tmp_path / "store.db") as service:
        made = service.ask(
            "POST", "/v1/experiments",
            {"name": "headline", "arms": ["a", "b"], "segment_key": "country", "max_segments": 2},
        )  # fmt: skip
        assert made.json["segments"] == 0 and made.json["segment_key"] == "country"
        client = bw.client.Client(service.url)
        decided = client.decide("headline", segment="de: <b>")
        client.feedback(decided, reward=1.0)
        assert len(client.decide_many("headline", 2, segment="fr")) == 2
        path = "/v1/experiments/headline/decisions"
        for wrong in ("x" * 201, "", 7, "a\u0000"):
            answer = service.ask("POST", path, {"segment": wrong})
            assert answer.status in (400, 422) and answer.code == "invalid_request"
        assert service.ask("POST", path, {"segment": "de: <b>"}).status == 201
        flag = "/ofrep/v1/evaluate/flags/headline"
        for country in ("it", None):
            context = {"country": country, "plan": {"a": 1}}
            answer = service.ask("POST", flag, {"context": context})
            assert answer.status == 200, answer.body
        answer = service.ask("POST", flag, {"context": {"country": 7}})
        assert answer.status == 400 and answer.json["errorCode"] == "INVALID_CONTEXT"
        bulk = "/ofrep/v1/evaluate/flags"
        first = service.ask("POST", bulk, {"context": {"country": "it"}})
        known = {"If-None-Match": first.headers["etag"]}
        assert (
            service.ask("POST", bulk, {"context": {"country": "it"}}, headers=known).status == 304
        )
        assert (
            service.ask("POST", bulk, {"context": {"country": "uk"}}, headers=known).status == 200
        )
        found = client.segments("headline")
        assert [each["name"] for each in found] == ["it", "uk"]
        page = service.ask("GET", "/v1/experiments/headline/segments?limit=1").json
        assert page["total"] == 2 and len(page["segments"]) == 1
        assert service.ask("GET", "/v1/experiments/headline/segments?limit=0").status in (400, 422)
        text = service.ask("GET", "/v1/experiments/headline/export?format=csv").body.decode()
        assert text.splitlines()[0].endswith(",segment") and "de: <b>" in text
        html = service.ask("GET", "/experiments/headline").body.decode()
        assert 'id="segments"' in html and "all decisions" in html
