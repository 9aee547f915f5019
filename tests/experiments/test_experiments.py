"""The paper's experiments: claims that can fail, results that are found again, known numbers."""

import dataclasses
import math
import subprocess
import sys

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.errors import InvalidParameter
from bothworlds.experiments import experiment, experiment_names
from bothworlds.experiments.algorithms import (
    BROAD,
    EXP3,
    EXP3PP,
    IW,
    RIVALS,
    RV,
    SOFT,
    THOMPSON,
    UCB,
    lineup,
)
from bothworlds.experiments.claims import rules as scoring
from bothworlds.experiments.model import Claim, Outcome, Settings, paper_checkpoints
from bothworlds.experiments.paper.dueling import ONE, TWO
from bothworlds.experiments.plan import RunOptions
from bothworlds.text import fraction
from bothworlds.theory import bounds
from helpers.regrets import made_up

# --- made-up results --------------------------------------------------------------------------


LONG = ("stochastic", "switching")
"""Experiments with claims about ten million rounds."""


def judged(name, regret, scale=None):
    """Return the verdicts on made-up results of an experiment, by the claims' ids."""
    each = experiment(name)
    settings = each.scales[scale or ("full" if name in LONG else "quick")]
    cells = tuple(each.cells(settings))
    outcome = Outcome(settings, cells, {cell.id: made_up(cell, regret) for cell in cells})
    claims = each.score(outcome)
    assert len({claim.id for claim in claims}) == len(claims)
    assert all(claim.id.startswith(f"{name}.") for claim in claims)
    assert all(claim.sentence and claim.measured and claim.threshold for claim in claims)
    verdicts = {claim.id.partition(".")[2]: claim.holds for claim in claims}
    assert "bound" in verdicts
    return verdicts


def failing(verdicts):
    """Return what does not hold, but for the bounds, which have tests of their own below."""
    return {id for id, holds in verdicts.items() if not holds} - {"bound"}


def log_like(cell, t, factor):
    """Return a multiple of the Lai-Robbins order."""
    return factor * (cell.n_arms - 1) / (2 * cell.gap) * np.log(t)


STOCHASTIC = {
    THOMPSON: 0.9, SOFT: 1.1, RV: 1.2, IW: 2.0, UCB: 3.0, EXP3: 3.2, EXP3PP: 3.1, BROAD: 9.0,
}  # fmt: skip


def stochastic(changed=None):
    factors = {**STOCHASTIC, **(changed or {})}
    return lambda cell, name, t: log_like(cell, t, factors[name])


PUBLISHED = {"published", "published-broad"}


@pytest.mark.slow
def test_stochastic_claims_hold_where_they_should():
    verdicts = judged("stochastic", stochastic())
    # Straight lines in log t do not follow the published curves; that claim is tested below.
    assert failing(verdicts) == PUBLISHED


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({RV: 3.05}, {"rv-beats-rivals", "rv-close-behind", "rv-constants", "twice-lower-bound"}),
        ({THOMPSON: 1.3}, {"thompson-first"}),
        ({THOMPSON: 0.5}, {"rv-close-behind"}),
        ({IW: 3.15}, {"iw-third"}),
        ({BROAD: 3.1}, {"broad-last"}),
        ({RV: 1.6}, {"rv-constants"}),
        ({SOFT: 1.3}, {"soft-constants"}),
    ],
)
def test_stochastic_claims_fail_where_they_should(changed, expected):
    verdicts = judged("stochastic", stochastic(changed))
    assert failing(verdicts) == expected | PUBLISHED


@pytest.mark.slow
def test_growth_beyond_log_fails_the_logarithmic_claim():
    def regret(cell, name, t):
        curve = stochastic()(cell, name, t)
        return curve * np.sqrt(t / 100.0) if name == IW else curve

    assert judged("stochastic", stochastic())["logarithmic"] is True
    assert judged("stochastic", regret)["logarithmic"] is False


@pytest.mark.slow
@pytest.mark.parametrize("name", experiment_names())
def test_the_bound_claim_holds_below_all_bounds_and_fails_above_one(name):
    assert judged(name, lambda cell, name, t: 0.05 * np.log(t))["bound"] is True
    # A single checkpoint above the bound is enough.
    spike = {name: True}

    def above(cell, name, t):
        if name.startswith("Tsallis") and cell.covered and spike.pop(next(iter(spike), ""), False):
            return np.where(t == t[-2], 3.0 * t, 0.05)
        return 0.05 * np.log(t)

    assert judged(name, above)["bound"] is False


def published_curves(numbers, scale_by=1.0):
    def regret(cell, name, t):
        if (cell.n_arms, cell.gap) != (8, 0.125) or name not in numbers:
            return log_like(cell, t, 1.0)
        at, value = np.array(list(numbers[name])), np.array(list(numbers[name].values()))
        return scale_by * np.interp(np.log(t), np.log(at), value)

    return regret


@pytest.mark.slow
@pytest.mark.parametrize("name", ["stochastic", "switching"])
def test_published_curves_are_recognised(name):
    from bothworlds.experiments.claims import published

    numbers = getattr(published, name.upper())
    assert judged(name, published_curves(numbers))["published"] is True
    assert judged(name, published_curves(numbers, 1.04))["published"] is False


def switching(changed=None, linear=(UCB, THOMPSON)):
    factors = {**STOCHASTIC, **(changed or {})}

    def regret(cell, name, t):
        if cell.group == "switching" and name in linear:
            return 0.3 * cell.gap * t
        return log_like(cell, t, factors[name])

    return regret


@pytest.mark.slow
def test_switching_claims_hold_where_they_should():
    verdicts = judged("switching", switching())
    assert failing(verdicts) == {"published"}


@pytest.mark.slow
def test_switching_claims_fail_where_they_should():
    verdicts = judged("switching", switching(linear=(UCB,)))
    assert verdicts["ucb1-nearly-linear"] is verdicts["ucb1-nearly-linear-everywhere"] is True
    assert verdicts["thompson-nearly-linear"] is False
    assert verdicts["thompson-nearly-linear-everywhere"] is False
    verdicts = judged("switching", switching(linear=(UCB, THOMPSON, RV)))
    assert verdicts["logarithmic"] is False
    assert verdicts["rv-first"] is False
    assert verdicts["others-unaffected"] is False


@pytest.mark.slow
def test_one_cell_is_enough_to_fail_everywhere():
    def regret(cell, name, t):
        if name == UCB and cell.n_arms == 2 and cell.gap == 0.25:
            return log_like(cell, t, 3.0)
        return switching()(cell, name, t)

    verdicts = judged("switching", regret)
    assert verdicts["ucb1-nearly-linear"] is True
    assert verdicts["ucb1-nearly-linear-everywhere"] is False


def test_copies_claims_hold_and_fail():
    def better(cell, name, t):
        return (2.0 if name == IW else 1.0) * 8.0 * np.log(t) / cell.n_arms

    def worse(cell, name, t):
        return better(cell, name, t) * cell.n_arms**2 / 16.0

    assert failing(judged("copies", better)) == {"published"}
    verdicts = judged("copies", worse)
    assert verdicts["rv-decreasing"] is verdicts["iw-decreasing"] is False
    assert judged("copies", lambda cell, name, t: 0.01 * t)["logarithmic"] is False


def test_published_copies_are_recognised():
    from bothworlds.experiments.claims import published

    def regret(cell, name, t):
        numbers = published.COPIES[cell.n_arms]
        return np.interp(np.log(t), np.log(list(numbers)), list(numbers.values()))

    assert judged("copies", regret)["published"] is True
    assert judged("copies", lambda *a: 0.95 * regret(*a))["published"] is False


def alpha_regret(best, oracle=0.8, zero_power=0.5):
    def regret(cell, name, t):
        if not name.startswith("alpha"):
            return 10.0 * np.log(t) * 0.98
        power = float(name.split()[1].rstrip(","))
        cost = 10.0 * (1.0 + (power - best) ** 2) * (oracle if "true gaps" in name else 1.0)
        growth = (t / t[-1]) ** zero_power if power == 0.0 else np.log(t) / np.log(t[-1])
        return cost * np.log(t[-1]) * growth

    return regret


@pytest.mark.slow
def test_alpha_claims_hold_and_fail():
    assert failing(judged("alpha", alpha_regret(0.5))) == set()
    assert judged("alpha", alpha_regret(1.0))["half-is-best"] is False
    assert judged("alpha", alpha_regret(1.0))["tsallis-inf-is-best"] is True
    assert judged("alpha", alpha_regret(0.5, oracle=1.2))["gaps-help"] is False
    assert judged("alpha", alpha_regret(0.5, zero_power=0.1))["small-not-logarithmic"] is False


def corruption_regret(per_unit=2.0, broken=20.0):
    def regret(cell, name, t):
        added = per_unit * cell.corruption * (broken if name in (UCB, THOMPSON) else 1.0)
        return (300.0 + added) * np.log(t) / np.log(cell.horizon)

    return regret


@pytest.mark.slow
def test_corruption_claims_hold_and_fail():
    assert failing(judged("corruption", corruption_regret())) == set()
    verdicts = judged("corruption", corruption_regret(per_unit=5.0, broken=1.0))
    assert verdicts["rv-additive"] is verdicts["iw-additive"] is False
    assert verdicts["ucb1-breaks"] is verdicts["thompson-breaks"] is False


@pytest.mark.slow
def test_open_problem_claims_hold_and_fail():
    def calm(cell, name, t):
        return log_like(cell, t, 1.0 if name == RV else 2.0)

    def wild(cell, name, t):
        return (3.0 if name == RV else 2.0) * np.sqrt(cell.n_arms * t)

    assert failing(judged("open-problem", calm)) == set()
    assert len(failing(judged("open-problem", wild))) == 5


def test_waves_are_judged_by_their_crests():
    def waves(cell, name, t):
        return 20.0 * np.log(t) * np.where(np.arange(t.size) % 3, 1.0, -50.0)

    assert judged("open-problem", waves)["gap-rv-logarithmic"] is True


def duel_regret(changed=None):
    factors = {ONE: 1.0, TWO: 1.3, THOMPSON: 1.6, UCB: 4.0, **(changed or {})}

    def regret(cell, name, t):
        if cell.group == "fading":
            return factors[name] * np.sqrt(cell.n_arms * t)
        linear = (cell.group, name) in {("shifting", UCB), ("turning", THOMPSON)}
        return 0.2 * t if linear else factors[name] * cell.n_arms / cell.gap * np.log(t)

    return regret


@pytest.mark.slow
def test_dueling_claims_hold_and_fail():
    assert failing(judged("dueling", duel_regret())) == set()
    assert failing(judged("dueling", duel_regret({ONE: 1.5}))) == {"one-state"}
    assert failing(judged("dueling", duel_regret({TWO: 5.0}))) == {"beats-ucb1"}

    def slow(cell, name, t):
        return duel_regret()(cell, name, np.sqrt(t))

    # In shifting cells UCB1 then has less regret, too.
    expected = {"root", "ucb1-nearly-linear", "thompson-nearly-linear", "beats-ucb1"}
    assert failing(judged("dueling", slow)) == expected

    def fast(cell, name, t):
        return duel_regret()(cell, name, t) * t**0.4

    assert failing(judged("dueling", fast)) == {"logarithmic", "shifting-logarithmic", "root"}


def table_regret(changed=None, exponent=0.5):
    factors = {RV: 0.8, IW: 1.2, EXP3PP: 2.0, BROAD: 4.0, **(changed or {})}

    def regret(cell, name, t):
        if cell.group == "stochastic":
            return log_like(cell, t, factors[name])
        return factors[name] * cell.n_arms**exponent * np.sqrt(t)

    return regret


@pytest.mark.slow
def test_table_1_claims_hold_and_fail():
    assert failing(judged("table-1", table_regret())) == set()
    verdicts = judged("table-1", table_regret({RV: 2.5}))
    assert verdicts["stochastic-constant"] is verdicts["adversarial-constant"] is False
    assert verdicts["stochastic-least"] is verdicts["adversarial-least"] is False
    assert judged("table-1", table_regret(exponent=1.0))["adversarial-flat-in-K"] is False
    assert judged("table-1", table_regret(exponent=1.0))["adversarial-flat-in-T"] is True


@pytest.mark.slow
@pytest.mark.parametrize("name", experiment_names())
def test_a_run_too_short_judges_no_growth(name):
    """At 200 rounds nothing can be said about late growth, and nothing is said."""
    each = experiment(name)
    settings = RunOptions(horizon=200, repetitions=4).settings(each)
    cells = tuple(each.cells(settings))
    results = {c.id: made_up(c, lambda cell, name, t: np.sqrt(t)) for c in cells}
    claims = each.score(Outcome(settings, cells, results))
    late = {"logarithmic", "rv-beats-rivals", "ucb1-nearly-linear", "half-is-best"}
    late |= {"stochastic-constant", "contaminated-rv-logarithmic"}
    for claim in claims:
        if claim.id.partition(".")[2] in late and name not in ("copies", "dueling"):
            assert claim.verdict == "open", claim


# --- the pieces of a score --------------------------------------------------------------------


def one_cell(regret, horizon=10**6):
    cell = dataclasses.replace(
        experiment("stochastic").cells(Settings("quick", horizon, 4, (8,), (0.125,)))[0],
        policies={RV: bw.TsallisINF()},
    )
    settings = Settings("quick", horizon, 4, (8,), (0.125,))
    return Outcome(settings, (cell,), {cell.id: made_up(cell, lambda c, n, t: regret(t))}), cell


@pytest.mark.parametrize(
    ("curve", "exponent"),
    [
        (lambda t: 50.0 + 20.0 * np.log(t), 0.0),
        (lambda t: 3.0 * np.log(t), 0.0),
        (lambda t: 2.0 * np.sqrt(t), 0.5),
        (lambda t: 0.1 * t, 1.0),
    ],
)
def test_acceleration_tells_log_from_root_from_linear(curve, exponent):
    outcome, cell = one_cell(curve)
    # Between checkpoints the curve is interpolated, so the exponent is near, not exact.
    assert scoring.acceleration(outcome, cell, RV)[0] == pytest.approx(exponent, abs=0.06)


@pytest.mark.parametrize("exponent", [0.25, 0.5, 1.0])
def test_growth_is_the_exponent_of_a_power(exponent):
    outcome, cell = one_cell(lambda t: 3.0 * t**exponent)
    assert scoring.growth(outcome, cell, RV)[0] == pytest.approx(exponent, abs=1e-9)


def test_growth_per_log_is_the_slope():
    outcome, cell = one_cell(lambda t: 7.0 + 20.0 * np.log(t))
    assert scoring.per_log(outcome, cell, RV)[0] == pytest.approx(20.0)


def test_margins_find_the_closest_approach():
    outcome, cell = one_cell(lambda t: 0.5 * bounds.self_bounding(cell_gaps, t), horizon=10**6)
    (margin,) = scoring.margins(outcome)
    # Early on the adversarial bound is the smaller one, so the share is larger there.
    assert margin.share > 0.5
    assert margin.regret / margin.bound == pytest.approx(0.5)
    assert margin.theorem == "Theorem 1 (self-bounding)"


cell_gaps = (0.0, *(7 * (0.125,)))


def test_ucb1_has_no_guarantee_where_means_move():
    cell = experiment("switching").cells(Settings("quick", 1000, 4, (8,), (0.125,)))[0]
    rounds = np.array([10, 1000])
    assert scoring.guarantees(cell, UCB, rounds)[0].size == 0
    assert scoring.guarantees(cell, EXP3, rounds)[0].size == 2


def test_on_true_losses_the_bound_of_corruption_has_two_more_budgets():
    cells = experiment("corruption").cells(Settings("quick", 1000, 4, (8,), (0.125,), (0.0, 30.0)))
    rounds = np.array([10**6])
    clean, corrupted = (scoring.guarantees(c, RV, rounds)[0][0] for c in cells[:2])
    assert clean == bounds.self_bounding(cell_gaps, 10**6)
    assert corrupted == bounds.corrupted(cell_gaps, 10**6, 30.0) + 60.0


def test_no_theorem_is_claimed_for_contamination():
    cells = experiment("open-problem").cells(Settings("quick", 1000, 4, (8,), (0.125,)))
    covered = {cell.group: cell.covered for cell in cells}
    assert covered == {"contaminated": False, "gap": True}
    assert scoring.guarantees(cells[0], RV, np.array([1000]))[0].size == 0


def test_only_open_claims_are_neither_true_nor_false():
    holds = [Claim("a.b", "s", "m", "t", v).holds for v in ("holds", "fails", "differs", "open")]
    assert holds == [True, False, False, None]


def test_checkpoints_are_those_of_the_paper():
    rounds = paper_checkpoints(10**7)
    assert rounds[:4] == (1, 4, 9, 10)
    assert {i * i for i in range(1, 101)} <= set(rounds)
    assert {2**k for k in range(14, 24)} <= set(rounds)
    assert rounds[-1] == 10**7
    assert paper_checkpoints(50) == (1, 4, 9, 10, 16, 25, 36, 49, 50)


@pytest.mark.parametrize(("value", "text"), [(1 / 16, "1/16"), (0.3, "0.3"), (1.0, "1")])
def test_gaps_are_written_as_fractions(value, text):
    assert fraction(value) == text


# --- cells and settings -----------------------------------------------------------------------


def test_the_full_scale_is_the_papers():
    for name in ("stochastic", "switching"):
        full = experiment(name).scales["full"]
        assert (full.horizon, full.repetitions) == (10**7, 100)
        assert full.arms == (2, 8, 32)
        assert full.gaps == (1 / 16, 1 / 8, 1 / 4)
        policies = experiment(name).cells(full)[0].policies
        assert list(policies) == [RV, IW, SOFT, THOMPSON, *RIVALS]
        assert policies[BROAD] == bw.Broad(horizon=10**7)
    full = experiment("copies").scales["full"]
    assert (full.horizon, full.repetitions, full.arms) == (10**7, 1000, (2, 4, 8, 16))


@pytest.mark.slow
@pytest.mark.parametrize("name", [*experiment_names(), *experiment_names("beyond")])
@pytest.mark.parametrize("scale", ["quick", "full"])
def test_cells_have_names_of_their_own_and_fit_their_environment(name, scale):
    each = experiment(name)
    cells = each.cells(each.scales[scale])
    assert len({cell.id for cell in cells}) == len(cells)
    for cell in cells:
        assert cell.environment.n_arms == cell.n_arms
        assert cell.checkpoints[-1] == cell.horizon
        assert cell.gaps is None or min(g for g in cell.gaps if g > 0) <= max(cell.gaps)


def test_oracle_gaps_match_arms_that_are_not_shuffled():
    cells = experiment("alpha").cells(experiment("alpha").scales["quick"])
    world = cells[0].environment
    assert world.shuffle is False
    oracle = [policy for name, policy in cells[0].policies.items() if "true gaps" in name]
    assert oracle
    for policy in oracle:
        np.testing.assert_allclose(policy.gaps, np.asarray(world.means) - min(world.means))


def test_klucb_runs_only_when_asked_for():
    assert "KL-UCB" not in lineup(1000)
    assert list(lineup(1000, with_kl_ucb=True))[-1] == "KL-UCB"


def test_the_users_numbers_replace_the_scales():
    each = experiment("stochastic")
    assert RunOptions().settings(each) == each.scales["quick"]
    settings = RunOptions("full", 5000, arms=(4, 2, 4), gaps=(0.5,), with_kl_ucb=True).settings(
        each
    )
    assert settings == Settings("custom", 5000, 100, (2, 4), (0.5,), (), True)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"horizon": 5}, "The horizon of paper must be a whole number of at least 100, got 5."),
        ({"repetitions": 1}, "The repetitions of paper must be at least 2, got 1."),
        ({"arms": (1,)}, "The arms of paper must be 2 or more arms, got (1,)."),
        ({"arms": ()}, "The arms of paper must be 2 or more arms, got ()."),
        ({"gaps": (0.7,)}, "The gap of paper must be numbers above 0 and up to 1/2, got (0.7,)."),
        ({"gaps": (math.nan,)}, "The gap of paper must be numbers above 0 and up to 1/2, got"),
    ],
)
def test_wrong_settings_are_refused(given, sentence):
    with pytest.raises(InvalidParameter) as caught:
        RunOptions(**given).settings(experiment("stochastic"))
    assert str(caught.value).startswith(sentence)


def test_an_unknown_experiment_is_refused():
    with pytest.raises(InvalidParameter, match=r"^The name of experiment must be one of stoch"):
        experiment("Stochastic")


@pytest.mark.processes
def test_listing_experiments_needs_no_numba():
    code = (
        "import sys; from bothworlds.experiments import experiment, experiment_names\n"
        "[experiment(name) for name in experiment_names()]\n"
        "print(*sorted({'numba', 'matplotlib', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


# --- known numbers ----------------------------------------------------------------------------

# Mean regret at 10 000 rounds, 8 arms, gap 1/8, and its standard error, of an independent
# implementation in plain Python.
KNOWN = {
    RV: (172.0, 2.0),
    IW: (285.0, 2.0),
    UCB: (414.0, 1.0),
    EXP3: (379.0, 8.0),
    EXP3PP: (374.0, 5.0),
    THOMPSON: (118.0, 4.0),
}


@pytest.fixture(scope="module")
def anchor():
    settings = Settings("custom", 10_000, 800, (8,), (0.125,))
    cell = experiment("stochastic").cells(settings)[0]
    policies = {name: cell.policies[name] for name in KNOWN}
    return bw.simulate(
        policies, cell.environment, horizon=cell.horizon, repetitions=cell.repetitions,
        seed=11, checkpoints=cell.checkpoints, progress=False,
    )  # fmt: skip


def deviations(result, name, expected, error):
    final = result.regret[name][:, -1]
    own = final.std(ddof=1) / np.sqrt(len(final))
    return abs(final.mean() - expected) / np.hypot(own, error)


@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN)
def test_the_published_cell_has_the_known_regret(anchor, name):
    assert deviations(anchor, name, *KNOWN[name]) < 4.0


@pytest.mark.slow
def test_the_tolerance_tells_the_algorithms_apart(anchor):
    assert deviations(anchor, RV, *KNOWN[IW]) > 4.0
    assert deviations(anchor, UCB, *KNOWN[EXP3]) > 4.0
    assert deviations(anchor, IW, *KNOWN[RV]) > 4.0
