"""`inference.rounds_needed`: how long until a gap is certain, and what that costs."""

import numpy as np
import pytest

import bothworlds as bw
from bothworlds import inference
from bothworlds.errors import InvalidParameter

# Every plan plays hundreds of thousands of rounds one by one.
pytestmark = pytest.mark.slow


def plan(gap=0.3, **options):
    settings = {"horizon": 3000, "repetitions": 100, "progress": False, **options}
    return inference.rounds_needed(gap, **settings)


def test_a_larger_gap_is_certain_sooner_and_a_higher_confidence_later():
    medians = [plan(gap).quantile(0.5) for gap in (0.2, 0.3, 0.5)]
    assert medians[0] > medians[1] > medians[2] > 0
    assert plan(confidence=0.999).quantile(0.5) > medians[1] > plan(confidence=0.9).quantile(0.5)


def test_a_gap_too_small_for_the_horizon_is_not_certain():
    small = plan(0.01)
    assert small.quantile(0.5) == np.inf
    assert small.cost(0.5) is None
    assert small.certain()[-1] <= 0.05 + 3.5 * (0.05 * 0.95 / 100) ** 0.5
    assert "> 3,000" in str(small)


def test_the_numbers_belong_together():
    made = plan(0.5)
    assert made.rounds.shape == (100,)
    assert made.regret.shape == (100, made.checkpoints.size)
    assert np.all(np.diff(made.regret, axis=1) >= 0)
    assert np.all(np.diff(made.certain()) >= 0)
    assert set(made.rounds[np.isfinite(made.rounds)]) <= set(made.checkpoints)
    for share in (0.5, 0.8):
        at = made.quantile(share)
        assert (made.rounds <= at).mean() >= share
        place = np.searchsorted(made.checkpoints, at)
        assert made.cost(share) == made.regret[:, place].mean()
    # Nobody can lose more than the gap in every round, and one who explores loses something.
    assert 0 < made.regret[:, -1].mean() < 0.5 * 3000
    assert max(map(len, str(made).splitlines())) <= 80


def test_more_arms_take_longer_and_uniform_draws_cost_more():
    two, eight = plan(0.4), plan(0.4, n_arms=8)
    assert eight.quantile(0.5) > two.quantile(0.5)
    uniform = plan(0.4, policy=bw.Uniform())
    assert uniform.regret[:, -1].mean() == pytest.approx(0.2 * 3000, rel=0.05)
    assert two.regret[:, -1].mean() < 0.3 * uniform.regret[:, -1].mean()


def test_the_seed_decides_and_progress_is_told():
    told = []
    one = plan(repetitions=20, seed=3, progress=told.append)
    two, other = plan(repetitions=20, seed=3), plan(repetitions=20, seed=4)
    assert np.array_equal(one.rounds, two.rounds) and np.array_equal(one.regret, two.regret)
    assert not np.array_equal(one.regret, other.regret)
    assert told


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"gap": 0.0}, "The gap of"),
        ({"gap": 0.6, "baseline": 0.5}, "must be"),
        ({"gap": 0.1, "confidence": 1.0}, "The confidence of"),
        ({"gap": 0.1, "n_arms": 1}, "must be"),
        ({"gap": 0.1, "policy": "tsallis"}, "The policy of"),
        ({"gap": 0.1, "repetitions": 0}, "The repetitions of"),
    ],
    ids=repr,
)
def test_bad_input_is_one_sentence(options, sentence):
    with pytest.raises(InvalidParameter, match=sentence) as caught:
        inference.rounds_needed(**{"progress": False, **options})
    assert "\n" not in str(caught.value)
