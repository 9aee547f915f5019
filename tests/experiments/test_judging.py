"""The rules of the verdicts, on made-up results: holding, failing, open, and why."""

import dataclasses

import numpy as np
import pytest

from bothworlds.experiments import experiment, experiment_names
from bothworlds.experiments.algorithms import IW, RV, THOMPSON
from bothworlds.experiments.claims import rules, statements, summary, verdicts
from bothworlds.experiments.claims.statements import UNSEEN, full_scale, with_context
from bothworlds.experiments.claims.verdicts import (
    FEWEST,
    LEVEL,
    RESAMPLES,
    Place,
    drawn,
    verdict_of,
)
from bothworlds.experiments.model import Claim, Outcome, Settings
from bothworlds.simulation.result import Result

SETTINGS = Settings("quick", 250_000, 32, (8,), (0.125,))
CELL = experiment("stochastic").cells(SETTINGS)[0]
STATEMENT = statements.ours("x.y", "a sentence", "a place")


def outcome_of(runs, settings=SETTINGS):
    """Return an outcome in which every algorithm has the runs given, at every checkpoint."""
    cell = dataclasses.replace(CELL, horizon=settings.horizon)
    t = np.array(cell.checkpoints)
    regret = {
        name: np.outer(runs.get(name, runs["other"]), np.ones(t.size)) for name in cell.policies
    }
    n = len(runs["other"])
    result = Result(
        checkpoints=t, regret=regret, plays={}, repetitions={k: np.arange(n) for k in regret},
        wall={}, cpu={}, policies={}, environment="", seed=0,
    )  # fmt: skip
    settings = dataclasses.replace(settings, repetitions=n)
    return Outcome(settings, (cell,), {cell.id: result}), cell


def ratio_of(factor, noise, n=32, seed=1):
    """Judge that RV has at most twice the regret of Thompson sampling, with noisy runs."""
    rng = np.random.default_rng(seed)
    other = np.full(n, 100.0)
    runs = {RV: 100.0 * factor * (1.0 + noise * rng.standard_normal(n)), "other": other}
    outcome, cell = outcome_of(runs)
    return rules.ratio_claim(STATEMENT, outcome, [cell], [(RV, THOMPSON)], 2.0)


@pytest.mark.parametrize(
    ("factor", "noise", "verdict"),
    [
        (1.5, 0.01, "holds"),
        (2.5, 0.01, "fails"),
        (1.95, 0.5, "open"),
        (2.05, 0.5, "open"),
        (1.2, 0.5, "holds"),
        (4.0, 0.5, "fails"),
    ],
)
def test_a_ratio_is_judged_by_its_interval(factor, noise, verdict):
    assert ratio_of(factor, noise).verdict == verdict


def test_an_open_claim_names_the_interval_and_the_runs():
    claim = ratio_of(2.05, 0.5)
    assert "Too close to call with 32 repetitions" in claim.why
    assert "contains the threshold" in claim.why
    assert claim.measured.startswith("up to ")
    assert "[" in claim.measured


def heavy(factor, share=3, n=64):
    """Judge that RV has at most twice the regret of others, where a few runs carry the ratio."""
    runs = np.append(np.full(n - share, 100.0), np.full(share, 100.0 * factor))
    outcome, cell = outcome_of({RV: runs, "other": np.full(n, 100.0)})
    return rules.ratio_claim(STATEMENT, outcome, [cell], [(RV, THOMPSON)], 2.0)


def test_a_claim_that_rests_on_a_few_runs_is_open_and_names_them():
    claim = heavy(50.0)
    assert claim.verdict == "open"
    assert "[withheld: rests on 2 of 64 runs]" in claim.measured
    assert "rests on 2 of 64 runs, too few for an interval" in claim.why


def test_a_few_runs_far_from_the_threshold_do_no_harm():
    """Ten times as heavy they would not carry the ratio from 1.0 to 2; the table names them."""
    claim = heavy(1.5)
    assert claim.verdict == "holds"
    assert "rests on 2 of 64 runs]" in claim.measured
    assert "withheld" not in claim.measured


def test_too_few_repetitions_judge_nothing():
    claim = ratio_of(1.5, 0.01, n=FEWEST - 1)
    assert claim.verdict == "open"
    assert f"{FEWEST - 1} repetitions are too few" in claim.why
    assert ratio_of(1.5, 0.01, n=FEWEST).verdict == "holds"


@pytest.mark.parametrize(("horizon", "verdict"), [(250_000, "open"), (10**7, "holds")])
def test_late_growth_is_not_judged_early(horizon, verdict):
    """What the paper says of ten million rounds is open after a quarter of a million."""
    settings = dataclasses.replace(SETTINGS, horizon=horizon)
    cell = experiment("stochastic").cells(settings)[0]
    t = np.array(cell.checkpoints)
    runs = np.outer(np.linspace(0.99, 1.01, 16), 50.0 * np.log(t))
    result = Result(
        checkpoints=t, regret={RV: runs, IW: runs}, plays={}, repetitions={}, wall={}, cpu={},
        policies={}, environment="", seed=0,
    )  # fmt: skip
    outcome = Outcome(dataclasses.replace(settings, repetitions=16), (cell,), {cell.id: result})
    claim = rules.logarithmic_claim(STATEMENT, outcome, [cell], (RV, IW), rules.PAPER_ROUNDS)
    assert claim.verdict == verdict
    assert ("is about 10,000,000 rounds" in claim.why) == (verdict == "open")


def place(mean, error, name="here"):
    """Return a place whose 64 runs have a mean and a standard error, evenly about it."""
    runs = np.linspace(-1.0, 1.0, 64)
    return Place(name, drawn(mean + 8.0 * error * runs / runs.std(ddof=1)))


def test_a_failure_among_many_places_must_be_beyond_chance_at_all_of_them():
    beyond = place(2.0 + 2.2, 1.0)  # 2.2 standard errors: chance in one of 70 places
    assert verdict_of([beyond], 2.0) == "fails"
    calm = [place(0.0, 0.1 + 0.001 * i) for i in range(39)]
    assert verdict_of([beyond, *calm], 2.0) == "open"
    assert verdict_of([place(2.0 + 5.0, 1.0), *calm], 2.0) == "fails"


def test_at_least_and_some_are_mirror_images():
    low, high = place(1.0, 0.1), place(3.0, 0.1)
    assert verdict_of([low, high], 2.0) == "fails"
    assert verdict_of([low, high], 2.0, at_most=False) == "fails"
    assert verdict_of([low, high], 2.0, some=True) == "holds"
    assert verdict_of([low, high], 2.0, at_most=False, some=True) == "holds"
    assert verdict_of([high], 2.0, some=True) == "fails"
    assert verdict_of([place(2.0, 0.1)], 2.0, some=True) == "open"


@pytest.mark.statistical
def test_a_claim_at_its_threshold_rarely_fails_and_rarely_holds():
    """Of 400 sets of runs whose true ratio is 2, about 5 % may fall on either side."""
    sets = 400
    verdicts = [ratio_of(2.0, 0.3, n=64, seed=seed).verdict for seed in range(sets)]
    allowed = LEVEL + 4.0 * np.sqrt(LEVEL * (1.0 - LEVEL) / sets)
    for verdict in ("holds", "fails"):
        assert verdicts.count(verdict) / sets < allowed
    # A control: far from it, every set is judged.
    far = [ratio_of(3.0, 0.3, n=64, seed=seed).verdict for seed in range(sets)]
    assert far.count("fails") == sets


def test_the_bootstrap_of_a_mean_is_as_wide_as_its_standard_error():
    rng = np.random.default_rng(3)
    runs = rng.normal(100.0, 20.0, 64)
    outcome, cell = outcome_of({RV: runs, "other": runs})
    found = verdicts.finals(outcome, cell, RV)
    assert found[0] == pytest.approx(runs.mean())
    np.testing.assert_allclose(Place("here", found).influence, runs - runs.mean())
    # The standard deviation of 4,000 draws is known to about 1.1 %; four of these are 4.5 %.
    assert found[-RESAMPLES:].std() == pytest.approx(runs.std() / 8.0, rel=0.045)


def test_repetitions_are_drawn_together():
    """Algorithms that met the same losses share the draw: equal runs differ by nothing."""
    runs = np.random.default_rng(4).normal(100.0, 50.0, 32)
    outcome, cell = outcome_of({RV: runs, IW: runs, "other": runs})
    ratio = verdicts.finals(outcome, cell, RV) / verdicts.finals(outcome, cell, IW)
    np.testing.assert_allclose(ratio, 1.0)


# --- whose they are ---------------------------------------------------------------------------


def claims_of(name):
    each = experiment(name)
    settings = each.scales["quick"]
    cells = tuple(each.cells(settings))
    results = {}
    for cell in cells:
        t = np.array(cell.checkpoints)
        runs = np.outer(np.linspace(0.99, 1.01, 16), np.log1p(t))
        results[cell.id] = Result(
            checkpoints=t, regret={n: runs for n in cell.policies}, plays={}, repetitions={},
            wall={}, cpu={}, policies={}, environment="", seed=0,
        )  # fmt: skip
    return each.score(Outcome(settings, cells, results)), settings


@pytest.mark.slow
@pytest.mark.parametrize("name", [*experiment_names(), *experiment_names("beyond")])
def test_every_claim_has_a_source_of_its_own(name):
    found, settings = claims_of(name)
    assert len({claim.id for claim in found}) == len(found)
    assert {id for id in full_scale()["claims"] if id.startswith(f"{name}.")} <= {
        claim.id for claim in found
    }
    for claim in with_context(found, settings):
        assert claim.id.startswith(f"{name}.")
        others = "paper" if name in experiment_names() else "authors"
        assert claim.owner in (others, "ours")
        assert claim.place
        assert claim.figure.startswith(name)
        assert bool(claim.why) == (claim.verdict != "holds"), claim


def test_a_failure_is_explained_and_a_known_one_differs():
    known = statements.paper("x.y", "s", "p", why="The rate is 1/162.", differs=True)
    assert known.judged("m", "t", "fails").verdict == "differs"
    assert known.judged("m", "t", "fails").why == "The rate is 1/162."
    assert known.judged("m", "t", "holds").why == ""
    assert known.judged("m", "t", "open", why="Close.").why == "Close. The rate is 1/162."
    explained = statements.ours("x.y", "s", "p", why="8.5 % carry it.").judged("m", "t", "fails")
    assert (explained.verdict, explained.owner, explained.why) == (
        "fails", "ours", "8.5 % carry it.",
    )  # fmt: skip
    assert STATEMENT.judged("m", "t", "fails").why == UNSEEN


def test_a_claim_is_shown_by_the_figure_of_late_rounds_or_the_nearest_there_is():
    claim = statements.ours("x.y", "s", "p").judged("m", "t", "holds")

    def shown(*figures):
        return with_context([claim], SETTINGS, figures)[0].figure

    assert shown("x", "x-log") == "x-log"
    assert shown("z", "x") == "x"
    assert shown("z", "x-first") == "x-first"
    assert (shown("z"), shown()) == ("z", "x")


def test_the_summary_opens_with_the_papers_and_counts_apart():
    def made(verdict, owner):
        return Claim("a.b", "s", "m", "t", verdict, owner)

    mixed = [made("holds", "ours"), made("fails", "ours"), made("holds", "paper")]
    mixed += [made("differs", "paper"), made("open", "paper"), made("open", "paper")]
    assert summary.said(mixed) == [
        "1 of the paper's 4 claims holds, 1 differs for a known reason and 2 are open at "
        "this scale.",
        "1 of our own 2 claims holds and 1 fails.",
    ]
    assert [claim.owner for claim in summary.ordered(mixed)] == ["paper"] * 4 + ["ours"] * 2
    assert summary.ordered(mixed)[0].verdict == "differs"
    assert summary.said([]) == []
    assert LEVEL == 0.05
