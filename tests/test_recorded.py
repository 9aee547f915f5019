"""A seed goes on giving the draws and regrets that were recorded for it."""

import json

import numpy as np
import pytest

from recorded import record

RUNS = json.loads(record.RUNS.read_text())
POLICIES = list(record.policies(2))


@pytest.mark.parametrize("n_arms", record.ARMS)
@pytest.mark.parametrize("name", POLICIES)
def test_the_draws_of_a_bandit(name, n_arms):
    arms, _ = record.decide(record.policies(n_arms)[name], n_arms)
    found = [record.digest(np.array(arms, np.int64)), arms[-1]]
    assert found == RUNS[f"Bandit {name} K={n_arms}"]


@pytest.mark.slow
@pytest.mark.parametrize("n_arms", record.ARMS)
@pytest.mark.parametrize("name", POLICIES)
def test_the_regrets_of_a_simulation(name, n_arms):
    for place, environment in record.environments(n_arms).items():
        regret = record.simulate(record.policies(n_arms)[name], environment, n_arms)
        found = [record.digest(regret), float(regret[:, -1].mean())]
        assert found == RUNS[f"simulate {name} {place} K={n_arms}"], place


@pytest.mark.parametrize("n_arms", record.ARMS)
@pytest.mark.parametrize("name", list(record.duels()))
def test_the_pairs_and_regrets_of_duels(name, n_arms):
    player = record.duels()[name]
    pairs = record.duel(player, n_arms)
    found = [record.digest(np.array(pairs, np.int64)), list(pairs[-1])]
    assert found == RUNS[f"DuelingBandit {name} K={n_arms}"]
    regret = record.simulate(player, record.utilities(n_arms), n_arms)
    found = [record.digest(regret), float(regret[:, -1].mean())]
    assert found == RUNS[f"duel {name} K={n_arms}"]


def test_a_changed_draw_would_be_seen():
    arms, _ = record.decide(record.policies(2)["iw"], 2)
    arms[7] = 1 - arms[7]
    assert record.digest(np.array(arms, np.int64)) != RUNS["Bandit iw K=2"][0]
