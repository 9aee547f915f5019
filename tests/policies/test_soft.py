"""Soft baselines at every alpha: the rule as written down, its estimator, lanes and stability."""

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.bandit.core import adopt, started
from bothworlds.bandit.state import columns
from bothworlds.lanes.types import LANES
from bothworlds.omd.learning_rates import rate
from bothworlds.omd.soft import FACTOR, largest_step, stability_factor
from helpers.programs import own_program

GAPS = [0.0, 0.05, 0.2, 0.5]
SETTINGS = [
    {"alpha": 0.0, "learning_rate": 1.0},
    {"alpha": 0.3, "learning_rate": 1.0},
    {"learning_rate": bw.omd.Theorem3()},
    {"alpha": 0.8, "learning_rate": 0.5},
    {"alpha": 1.0},
    {"alpha": 0.25, "learning_rate": 0.5, "gaps": GAPS},
    {"alpha": 0.75, "learning_rate": 0.5, "gaps": GAPS},
]
EVERY = pytest.mark.parametrize("given", SETTINGS, ids=str)


def policy_of(given):
    return bw.TsallisINF(estimator="soft", **given)


def factors(policy):
    """Return xi, all 1 where there are no gaps."""
    if policy.gaps is None:
        return np.ones(len(GAPS))
    gaps = np.array(policy.gaps)
    return np.where(gaps > 0, gaps, gaps[gaps > 0].min()) ** (1 - 2 * policy.alpha)


def rate_of(policy, t):
    code, parameter = policy.parameters(len(GAPS))[:2]
    return rate(int(code), parameter, policy.alpha, len(GAPS), float(t))


def baselines(policy, w, eta):
    """Return min(1/2, s w^alpha / (eta xi)); the rate may be 0."""
    reach = largest_step(policy.alpha) * w**policy.alpha
    own = eta * factors(policy)
    return np.where(reach >= 0.5 * own, 0.5, reach / np.maximum(own, 1e-300))


@pytest.mark.parametrize("delay", [0, 12])
@EVERY
def test_probabilities_are_those_of_the_definition(given, delay):
    policy = policy_of(given)
    K = len(GAPS)
    bandit = bw.Bandit(policy, arms=K, seed=3)
    rng = np.random.default_rng(3)
    L, waiting, softened = np.zeros(K), [], 0
    xi = None if policy.gaps is None else factors(policy)
    for t in range(1, 300):
        eta = rate_of(policy, t)
        w = bw.omd.weights(L, eta, policy.alpha, xi)
        decision = bandit.ask()
        found = np.array(list(decision.probabilities.values()))
        np.testing.assert_allclose(found, w, rtol=1e-12, atol=1e-12)
        B = baselines(policy, w, eta)
        softened += bool(np.ptp(B) > 0.0)
        # At the decision: what is on its way is predicted.
        L = L + B
        arm = decision.index
        waiting.append((decision, float(rng.random() < (0.2, 0.5, 0.5, 0.7)[arm]), B[arm]))
        if len(waiting) > delay:
            decision, loss, base = waiting.pop(0)
            bandit.tell(decision, loss=loss)
            # The bandit's own number: errors of single rounds shall not add up.
            L[decision.index] += (loss - base) / decision.probability
    # Theorem 3's rates at 1/2 are small, and at alpha = 0 all baselines of a round are one number.
    assert softened > 10 or policy.alpha in (0.0, 0.5)


@EVERY
def test_estimates_are_unbiased_over_arms(given):
    policy = policy_of(given)
    K = len(GAPS)
    core = started(policy, list(range(K)), 7, evidence=False)
    rng = np.random.default_rng(7)
    losses = np.array([0.1, 0.4, 0.6, 0.9])
    largest = 0.0
    for t in range(1, 120):
        shares = np.array(list(core.probabilities().values()))
        if t % 20 == 0:
            before = policy.estimated(columns(core.F, policy)).copy()
            total = np.zeros(K)
            for arm in range(K):
                one = core.copy(None)
                one.learn(adopt(one, arm, shares[arm]), losses[arm])
                total += shares[arm] * (policy.estimated(columns(one.F, policy)) - before)
            np.testing.assert_allclose(total, losses, atol=1e-12)
            largest = max(largest, np.abs(total - shares * losses).max())
        arm = int(rng.choice(K, p=shares / shares.sum()))
        core.learn(adopt(core, arm, shares[arm]), float(rng.random() < losses[arm]))
    # The losses without their weights would not be.
    assert largest > 0.1


class OneByOne(bw.TsallisINF):
    """Tsallis-INF whose repetitions are played one at a time."""

    program = own_program


def test_lanes_play_the_arms_of_one_bandit():
    world = bw.environments.Switching(len(GAPS), 1 / 4)
    for given in SETTINGS:
        regrets = [
            bw.simulate(
                {"a name": kind(estimator="soft", **given)}, world, horizon=200,
                repetitions=LANES, seed=5, progress=False,
            ).regret["a name"]
            for kind in (bw.TsallisINF, OneByOne)
        ]  # fmt: skip
        assert np.array_equal(*regrets), given


def test_less_regret_than_reduced_variance_beyond_one_half():
    """RV gives 1/2 to arms for which that is too much; at alpha = 1 it loses its way."""
    result = bw.simulate(
        {name: bw.TsallisINF(alpha=1.0, estimator=name) for name in ("rv", "iw", "soft")},
        bw.environments.Stochastic.gap(5, 0.2), horizon=5_000, repetitions=64, seed=1,
        progress=False,
    )  # fmt: skip
    mean, error = (
        {name: float(f(runs[:, -1])) for name, runs in result.regret.items()}
        for f in (np.mean, lambda runs: np.std(runs) / 8.0)
    )
    for name in ("rv", "iw"):
        assert mean["soft"] + 4 * np.hypot(error["soft"], error[name]) < mean[name]


# --- stability --------------------------------------------------------------------------------


def potential(w, alpha):
    """Return Psi(w) eta up to linear terms, which a divergence does not see."""
    if alpha == 0.0:
        return -np.log(w)
    if alpha == 1.0:
        return w * np.log(w)
    return -(w**alpha) / (alpha * (1.0 - alpha))


def slope(w, alpha):
    return 1.0 + np.log(w) if alpha == 1.0 else -(w ** (alpha - 1.0)) / (1.0 - alpha)


def stability(w, g, eta, alpha):
    """Return max over v of (w - v) g - D(v, w), on a grid around the maximiser."""
    b = 1.0 - alpha
    step = eta * g * w**b
    centre = w * np.exp(-step) if b == 0.0 else w * (1.0 + b * step) ** (-1.0 / b)
    v = centre * np.linspace(0.99, 1.01, 20_001)
    divergence = potential(v, alpha) - potential(w, alpha) - slope(w, alpha) * (v - w)
    return float(((w - v) * g - divergence / eta).max())


@pytest.mark.parametrize("alpha", [0.0, 0.2, 0.5, 0.8, 1.0])
def test_the_factor_is_that_of_the_largest_step(alpha):
    rng = np.random.default_rng(5)
    s = largest_step(alpha)
    assert stability_factor(alpha, s) == pytest.approx(FACTOR, rel=1e-9)
    assert bw.theory.lemmas.soft_stability_factor(alpha=alpha) == pytest.approx(FACTOR, rel=1e-9)
    for _ in range(100):
        w, eta = 10.0 ** rng.uniform(-2, 0), 10.0 ** rng.uniform(-1, 0)
        base = min(0.5, s * w**alpha / eta)
        g = (rng.choice([0.0, rng.random()]) - base) / w
        ratio = stability(w, g, eta, alpha) / (eta / 2.0 * w ** (2.0 - alpha) * g * g)
        assert ratio <= FACTOR * (1.0 + 1e-6)
        x = base * eta / w**alpha
        if g == -base / w:
            assert ratio == pytest.approx(stability_factor(alpha, x), rel=1e-5)
    # The negative control: a step twice as large has a larger factor.
    assert stability_factor(alpha, 2.0 * s) > 1.3 * FACTOR
