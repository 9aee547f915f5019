"""Regret of the live service: replicas, restarts and late feedback against one bandit in memory."""

import asyncio
import contextlib
import random
from dataclasses import replace

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.bandit.state_file import describe
from bothworlds.serve.domain import replicas
from bothworlds.serve.domain.service import Arm, NewExperiment, Service
from bothworlds.serve.store import postgres as store
from helpers.waiting import HANG
from serve.conftest import QUIET

pytestmark = pytest.mark.processes

ME = Service.LOCAL
MEANS = {"a": 0.25, "b": 0.75}
GAP = 0.5
ROUNDS, RUNS, MANY = 120, 40, 1000


@pytest.fixture
def dialect():
    return "postgres"


def bandit_regrets(policy, delay):
    """Return the regret of bandits in memory whose feedback comes ``delay`` rounds late."""
    first = bw.Bandit(policy, arms=list(MEANS), seed=1)
    found = []
    for run in range(MANY):
        bandit, world = first.copy(seed=run), random.Random(run)
        late, regret = [], 0.0
        for _ in range(ROUNDS):
            decision = bandit.ask()
            regret += GAP * (decision.arm == "b")
            late.append((decision, float(world.random() < MEANS[decision.arm])))
            if len(late) > delay:
                decision, loss = late.pop(0)
                bandit.tell(decision, loss=loss)
        found.append(regret)
    return np.array(found)


async def served_regrets(url, policy, count, restarts, delay):
    """Return the regret of every experiment, and how many rounds a decision was behind at most."""
    settings = replace(QUIET, poll_seconds=0.2)
    names = [f"run{n}" for n in range(RUNS)]
    worlds = [random.Random(n) for n in range(RUNS)]
    regrets, behind = np.zeros(RUNS), 0
    async with contextlib.AsyncExitStack() as stack:
        services = [await Service.open(url, settings) for _ in range(count)]
        # By its place, because a restart puts another service there.
        for place in range(count):
            stack.push_async_callback(lambda place=place: services[place].close())
        for name in names:
            spec = NewExperiment(name, [Arm(arm) for arm in MEANS], policy=policy)
            await services[0].create(ME, spec)
        for service in services[1:]:
            await service.replicas.poll_once()
        late = []
        reported = 0
        for t in range(ROUNDS):
            if t in restarts:
                place = t % count
                await services[place].close()
                services[place] = await Service.open(url, settings)
            made = []
            for n, name in enumerate(names):
                service = services[(t + n) % count]
                known = service.experiment_state(ME, name).total.learned
                behind = max(behind, reported - known)
                decision = await service.decide(ME, name)
                regrets[n] += GAP * (decision.arm == "b")
                loss = float(worlds[n].random() < MEANS[decision.arm])
                made.append((decision.decision_id, loss))
            late.append(made)
            if len(late) > delay:
                # Reported to another replica than the one that decided.
                await asyncio.gather(
                    *(
                        services[(t + n + 1) % count].feedback(ME, id, loss=loss)
                        for n, (id, loss) in enumerate(late.pop(0))
                    )
                )
                reported += 1
    return regrets, behind


def excess(found, regrets):
    """Return by how many standard errors the service has more regret than bandits in memory."""
    both = (found.var(ddof=1) / len(found) + regrets.var(ddof=1) / len(regrets)) ** 0.5
    return (found.mean() - regrets.mean()) / both


@pytest.mark.parametrize(
    ("policy", "count", "restarts", "delay"),
    [
        (bw.TsallisINF(), 1, (), 0),
        (bw.TsallisINF(), 1, (40, 80), 5),
        (bw.TsallisINF(), 2, (), 0),
        (bw.TsallisINF(), 4, (), 0),
        (bw.TsallisINF(), 4, (30, 61, 90), 5),
        (bw.AllWorlds(), 1, (40,), 5),
        (bw.AllWorlds(), 2, (40,), 5),
    ],
)
def test_regret_is_that_of_one_bandit_with_the_same_delay(
    where, seeded, policy, count, restarts, delay
):
    """Stale replicas learn as late as feedback that is delayed, and no later.

    The regret of the service lies between those of bandits whose feedback is as late as it was
    reported, and as late as the stalest decision was. The tolerance is four standard errors.
    """
    described = describe(policy, "a test")
    found, behind = asyncio.run(served_regrets(where(), described, count, restarts, delay))
    assert behind == 0 if count == 1 else behind < ROUNDS / 2
    assert excess(found, bandit_regrets(policy, delay)) >= -4.0
    assert excess(found, bandit_regrets(policy, delay + behind)) <= 4.0


def test_replicas_that_do_not_share_what_they_learn_are_noticed(where, seeded, monkeypatch):
    # The control of the test above: regret is not that of one bandit.
    monkeypatch.setattr(replicas, "_take_peers", lambda each, rows: None)
    policy = bw.TsallisINF()
    found, behind = asyncio.run(served_regrets(where(), describe(policy, "a test"), 4, (), 0))
    # Each knows a quarter of what was reported.
    assert behind >= ROUNDS / 2
    assert excess(found, bandit_regrets(policy, 4)) > 4.0


def test_a_young_experiment_is_announced_often_and_an_old_one_rarely(where, seeded):
    """Without any poll, the other replica knows at least four fifths of what was learned."""

    async def body():
        async with contextlib.AsyncExitStack() as stack:
            one, other = [await Service.open(where(), QUIET) for _ in range(2)]
            for service in (one, other):
                stack.push_async_callback(service.close)
            await one.create(ME, NewExperiment("headline", [Arm("a"), Arm("b")]))
            await other.replicas.poll_once()
            announced = []
            execute = one.store.writer.execute

            def counted(sql, values=()):
                if "pg_notify" in sql:
                    announced.append(sql)
                return execute(sql, values)

            one.store.writer.execute = counted
            for n in range(1, 301):
                made = await one.decide(ME, "headline")
                await one.feedback(ME, made.decision_id, loss=0.5)
                async with asyncio.timeout(HANG):
                    while other.experiment_state(ME, "headline").total.learned * store.GROWTH < n:
                        await asyncio.sleep(0.001)
            return len(announced)

    # One for each of the first five answers, then one for each growth by a quarter.
    assert asyncio.run(body()) <= 5 + np.log(300 / 5) / np.log(store.GROWTH)
