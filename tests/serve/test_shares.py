"""Traffic shares of a served experiment: limits, control arm, and exact propensities."""

from functools import partial

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.lanes.kernels import ROUND
from bothworlds.lanes.random import WORDS
from bothworlds.policies.packed import first_row, pack
from bothworlds.serve.domain.draws import UNIT
from bothworlds.serve.domain.service import Arm, Service
from bothworlds.serve.ops import config_file
from bothworlds.serve.ops.verify import replay, verify
from bothworlds.serve.problems import Problem
from serve.conftest import spec
from serve.test_config_file import stated

ME = Service.LOCAL
SHARES = {
    "min_share": {"b": 0.05}, "max_share": {"a": 0.5}, "control": "c", "control_share": 0.2,
}  # fmt: skip
LOW, HIGH = [0, 0.05, 0, 0], [0.5, 1, 1, 1]


def library(**more):
    """Return the policy of the library with the same shares."""
    return bw.Floor(
        bw.TsallisINF(), 0, min_share=LOW, max_share=HIGH, control=2, control_share=0.2, **more
    )


async def refused(code, awaitable):
    with pytest.raises(Problem) as problem:
        await awaitable
    assert problem.value.code == code, problem.value
    assert str(problem.value).count(". ") == 0
    return str(problem.value)


async def play(service, rounds, **more):
    """Decide and report; arm ``a`` is the best."""
    made = []
    for _ in range(rounds):
        decided = await service.decide(ME, "headline", vector=True, **more)
        await service.feedback(ME, decided.decision_id, loss=float(decided.arm != "a"))
        made.append(decided)
    return made


def healthy(where):
    assert [each for each in verify(where) if not each.ok] == []
    assert all(each.equal for each in replay(where))


def test_every_decision_has_the_librarys_probabilities(on_service, where):
    @partial(on_service, **SHARES)
    async def body(service):
        policy = library()
        F, kernels, p = pack(policy, 4, np.ones(WORDS, np.int64)), policy.kernels(), np.zeros(4)
        first = first_row(F) + policy.traits.head_rows
        for _ in range(60):
            experiment = service.experiment_state(ME, "headline")
            estimates = experiment.estimates
            F[first : first + 4] = (estimates - estimates.min()) * UNIT
            F[ROUND] = experiment.round + 1
            kernels.estimates_changed(F)
            kernels.ask(F)
            kernels.weights(F, p)
            (decided,) = await play(service, 1)
            # Bit for bit, and so is the probability in the record.
            assert decided.probabilities == dict(zip("abcd", p.tolist(), strict=True))
            assert decided.probability == 1.0 / (1.0 / decided.probabilities[decided.arm])
        assert (p[0], p[2]) == (0.5, 0.2) and p[1] >= 0.05
        shown = {arm["name"]: arm for arm in service.experiment(ME, "headline")["arms"]}
        assert shown["a"]["probability"] == 0.5

    assert body is None
    healthy(where())


def test_subsets_arms_and_modes(on_service, where):
    @partial(on_service, **SHARES)
    async def body(service):
        (decided,) = await play(service, 1, available=["a", "c", "d"])
        assert decided.probabilities["c"] == 0.2 and decided.probabilities["a"] <= 0.5
        before = service.experiment_state(ME, "headline").round
        said = await refused(
            "shares_conflict", service.decide(ME, "headline", available=["a", "b"])
        )
        assert said == "The control arm 'c' must be among the available arms."
        said = await refused(
            "shares_conflict", service.decide(ME, "headline", available=["a", "c"])
        )
        assert "the max_share values of the arms add up to at least 1" in said
        assert service.experiment_state(ME, "headline").round == before
        await refused("shares_conflict", service.retire_arm(ME, "headline", "c"))
        await service.add_arm(ME, "headline", Arm("e"))
        await service.retire_arm(ME, "headline", "b")
        made = await play(service, 20)
        assert {each.probabilities["c"] for each in made} == {0.2}
        # A pin and an even split are the operator's decision.
        await service.set_mode(ME, "headline", "pin", arm="a")
        assert (await service.decide(ME, "headline", available=["a", "d"])).probability == 1.0
        await service.set_mode(ME, "headline", "uniform")
        assert (await service.decide(ME, "headline")).probability == 0.25
        await service.set_mode(ME, "headline", "resume")
        version = service.experiment_state(ME, "headline").version
        # The limits of an arm that was retired have no effect, and may stay.
        await service.patch(ME, "headline", {"control": None}, if_match=version)
        for arm in ("c", "d"):
            await service.retire_arm(ME, "headline", arm)
        await play(service, 5)

    assert body is None
    healthy(where())


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"min_share": {"x": 0.1}}, "The arm 'x' of min_share or max_share does not exist."),
        ({"control": "x"}, "The control 'x' must be an active arm."),
        ({"min_share": {"a": 0.6, "b": 0.6}}, "add up to at most 1."),
        ({"max_share": dict.fromkeys("abcd", 0.2)}, "add up to at least 1."),
        ({"min_share": {"a": 0.3}, "max_share": {"a": 0.2}}, "at most the max_share of the same"),
        ({"min_share": {"a": 1.5}}, "Expected `float` <= 1.0"),
        ({"max_share": {"a": -1.0}}, "Expected `float` >= 0.0"),
        ({"control_share": 2.0}, "Expected `float` <= 1.0"),
        ({"control": "a", "min_share": {"b": 0.95}}, "add up to at most 1."),
    ],
)
def test_shares_that_cannot_be_are_refused(served, changes, why):
    async def body(service):
        assert why in await refused("invalid_request", service.create(ME, spec(**changes)))
        await service.create(ME, spec())
        before = service.experiment(ME, "headline")
        said = await refused("invalid_request", service.patch(ME, "headline", changes, if_match=1))
        assert why in said
        assert service.experiment(ME, "headline") == {
            **before, "state_age": service.experiment(ME, "headline")["state_age"],
        }  # fmt: skip

    served(body)


def test_policies_and_experts_that_take_no_shares(served):
    async def body(service):
        await refused("invalid_request", service.create(ME, spec(policy="allworlds", control="a")))
        said = await refused(
            "invalid_request", service.create(ME, spec(experts=("x", "y"), control="a"))
        )
        assert "experts" in said
        described = {"class": "Floor", "fields": {"scale": 0.0, "min_share": 0.1}}
        await refused("policy_not_served", service.create(ME, spec(policy=described)))

    served(body)


def test_a_policy_that_learns_in_order_keeps_them_too(on_service, where):
    @partial(on_service, policy="tsallis-v", **SHARES)
    async def body(service):
        made = await play(service, 30)
        assert {each.probabilities["c"] for each in made} == {0.2}
        assert max(each.probabilities["a"] for each in made) <= 0.5
        await service.retire_arm(ME, "headline", "d")
        (decided,) = await play(service, 1)
        assert sum(decided.probabilities.values()) == pytest.approx(1, abs=1e-15)

    assert body is None
    healthy(where())


def test_a_file_names_shares_of_new_arms_and_drops_those_of_retired_ones(on_service):
    @partial(on_service, arms="abc", min_share={"c": 0.1})
    async def body(service):
        wanted = spec(arms="abd", min_share={"d": 0.2}, control="a")
        steps = await config_file.plan(service, stated([wanted]))
        assert [step.text for step in steps] == [
            "headline: add the arm d",
            "headline: change min_share {'c': 0.1} -> {'d': 0.2}, control None -> 'a'",
            "headline: retire the arm c",
        ]
        for step in steps:
            await step.apply()
        assert await config_file.plan(service, stated([wanted])) == []
        (decided,) = await play(service, 1)
        assert decided.probabilities["a"] == 0.1 and decided.probabilities["d"] >= 0.2

    assert body is None


def test_a_replica_that_has_not_read_new_shares_yet_goes_on(on_service):
    """It serves what is left of the arms until it reads the configuration."""

    @partial(on_service, policy="tsallis-v", control="c")
    async def body(service):
        experiment = service.experiment_state(ME, "headline")
        fold = experiment.fold.copy()
        fold.leave(2)
        fold.number += 1
        experiment.folded(fold)
        assert experiment.lineup.places == (0, 1, 3)
        p = np.array([*experiment.probabilities().values()])
        assert p == pytest.approx(np.full(3, 1 / 3), abs=1e-12)

    assert body is None
