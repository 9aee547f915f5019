"""Reports and values from logs: formats, slices, estimators, and sentences for what is wrong."""

import functools
import itertools
import json

import numpy as np
import pandas
import pytest

import bothworlds as bw
from bothworlds import inference
from bothworlds.errors import InvalidParameter
from bothworlds.inference import order
from bothworlds.interop import logs
from bothworlds.logs import columns
from bothworlds.logs.record import LoggedDecision

ARMS = ["blue", "green", "red"]
MEANS = {"blue": 0.3, "green": 0.6, "red": 0.7}


@functools.cache
def learned():
    """The log that most tests read."""
    return decisions()


def decisions(n=900, seed=5, **extra):
    """A log of a bandit that learns, as `LoggedDecision`."""
    rng = np.random.default_rng(seed)
    bandit = bw.Bandit(bw.Exp3(), arms=ARMS, seed=seed)
    made = []
    for t in range(n):
        decision = bandit.ask()
        loss = float(rng.random() < MEANS[decision.arm])
        bandit.tell(decision, loss=loss)
        made.append(LoggedDecision.of(decision, loss=loss, day=t // 300, **extra))
    return made


def columns_of(log):
    """The same log as a table of columns."""
    return {
        "round": [d.round for d in log],
        "arm": [d.arm for d in log],
        "probability": [d.probability for d in log],
        "loss": [d.loss for d in log],
        "arms": ARMS,
        "probabilities": np.array([[d.probabilities[a] for a in ARMS] for d in log]),
        "day": [d.extra["day"] for d in log],
    }


def same(one, other):
    return one.as_dict()["arms"] == other.as_dict()["arms"]


def test_every_way_to_give_a_log_gives_the_same_report(tmp_path):
    expected = inference.report(learned())
    logs.write_parquet(tmp_path / "log.parquet", learned())
    logs.write_jsonl(tmp_path / "log.jsonl", learned())
    by_name = {each.arm: each for each in expected.values()}
    for log in (
        tmp_path / "log.parquet",
        str(tmp_path / "log.jsonl"),
        iter(learned()),
        [json.loads(line) for line in map(_line, learned())],
        columns_of(learned()),
    ):
        found = inference.report(log)
        assert {each.arm: each for each in found.values()} == by_name
    bare = {
        key: value for key, value in columns_of(learned()).items() if key[:3] not in ("arm", "pro")
    }
    frame = pandas.DataFrame({**bare, "arm": columns_of(learned())["arm"]})
    assert inference.report(frame)["blue"].sequence == by_name["blue"].sequence


def _line(decision):
    return json.dumps(
        {
            "round": decision.round,
            "arm": decision.arm,
            "loss": decision.loss,
            "probabilities": dict(decision.probabilities),
        }
    )


def test_formats_without_all_probabilities_have_sequences_and_no_interval(tmp_path):
    plain = [LoggedDecision(d.round, d.arm, d.probability, d.loss) for d in learned()]
    logs.write_vw(tmp_path / "log.vw", plain, ARMS)
    rewards = [LoggedDecision(d.round, d.arm, d.probability, None, 1 - d.loss) for d in learned()]
    logs.write_open_bandit(tmp_path / "log.csv", rewards, ARMS)
    whole = inference.report(learned())
    vw = inference.report(tmp_path / "log.vw")
    csv = inference.report(tmp_path / "log.csv")
    for number, name in enumerate(ARMS):
        assert vw[number].sequence == whole[name].sequence
        low, high = whole[name].sequence
        assert csv[number].sequence == pytest.approx((1 - high, 1 - low))
        assert vw[number].interval is None
        assert "arms not played" in vw[number].why
        assert vw[number].mean == pytest.approx(whole[name].mean, abs=0.1)


def test_a_log_larger_than_a_block_is_read_in_parts(tmp_path, monkeypatch):
    expected = inference.report(learned())
    value = inference.value(learned(), "uniform")
    logs.write_parquet(tmp_path / "log.parquet", learned())
    monkeypatch.setattr("bothworlds.logs.columns.BLOCK", 70)
    for log in (iter(learned()), tmp_path / "log.parquet", columns_of(learned())):
        assert same(inference.report(log), expected)
    for log in (iter(learned()), tmp_path / "log.parquet", columns_of(learned())):
        assert inference.value(log, "uniform") == value


def test_arms_that_appear_late_in_a_log_were_there_before(monkeypatch):
    plain = [LoggedDecision(d.round, d.arm, d.probability, d.loss) for d in learned()]
    late = sorted(plain[:40], key=lambda d: d.arm == "red") + plain[40:]
    late = [LoggedDecision(n + 1, d.arm, d.probability, d.loss) for n, d in enumerate(late)]
    whole, value = inference.report(late), inference.value(late, "uniform", "ips")
    monkeypatch.setattr("bothworlds.logs.columns.BLOCK", 7)
    parts = inference.report(late)
    for name in ARMS:
        assert parts[name].mean == pytest.approx(whole[name].mean, rel=1e-12)
        assert parts[name].sequence == whole[name].sequence
    assert inference.value(late, "uniform", "ips") == value


def test_slices_by_rounds_and_by_a_column(tmp_path):
    by_day = inference.report(learned(), by="day")
    assert list(by_day) == [0, 1, 2]
    assert same(by_day[1], inference.report(learned(), between=(301, 600)))
    by_rounds = inference.report(learned(), by=300)
    assert list(by_rounds) == [(1, 300), (301, 600), (601, 900)]
    assert same(by_rounds[301, 600], by_day[1])
    logs.write_parquet(tmp_path / "log.parquet", learned())
    assert same(inference.report(tmp_path / "log.parquet", by="day")[2], by_day[2])
    values = inference.value(learned(), "blue", by="day")
    assert values[0] == inference.value(learned(), "blue", between=(1, 300))
    assert sum(value.rows for value in values.values()) == 900
    with pytest.raises(InvalidParameter, match=r"The by of inference\.report must be a column"):
        inference.report(learned(), by="country")


def test_units_are_the_users():
    rewards = [
        LoggedDecision(d.round, d.arm, d.probability, reward=250 * (1 - d.loss)) for d in learned()
    ]
    ours, losses = inference.report(rewards, bounds=(0, 250)), inference.report(learned())
    for name in ARMS:
        low, high = losses[name].sequence
        assert ours[name].sequence == pytest.approx((250 * (1 - high), 250 * (1 - low)))
    assert ours.gap("blue", "red") == pytest.approx(250 * losses.gap("blue", "red"))
    assert inference.gap(rewards, "blue", "red", bounds=(0, 250)) == ours.gap("blue", "red")
    value = inference.value(rewards, "blue", "ips", bounds=(0, 250)).value
    rho = np.array([(d.arm == "blue") / d.probability for d in learned()])
    assert value == pytest.approx((rho * 250 * (1 - np.array([d.loss for d in learned()]))).mean())


def test_missing_answers_are_counted_and_not_judged():
    def unanswered(d):
        return LoggedDecision(d.round, d.arm, d.probability, probabilities=d.probabilities)

    kept = [d if n % 3 else unanswered(d) for n, d in enumerate(learned())]
    report = inference.report(kept)
    told = inference.report([d for d in kept if d.loss is not None])
    assert sum(each.missing for each in report.values()) == 300
    for name in ARMS:
        assert report[name].sequence == told[name].sequence
        assert report[name].decisions == told[name].decisions + report[name].missing
    assert "300 decisions have no answer" in str(report)


# --- off-policy values ---------------------------------------------------------------------------


def by_hand(target, method, clip=20.0):
    rho = np.array([target.get(d.arm, 0.0) / d.probability for d in learned()])
    v = np.array([d.loss for d in learned()])
    if method == "ips":
        return (rho * v).mean()
    if method == "cips":
        return (np.minimum(rho, clip) * v).mean()
    if method == "snips":
        return (rho * v).sum() / rho.sum()
    n, s, total = dict.fromkeys(ARMS, 0.0), dict.fromkeys(ARMS, 0.0), 0.0
    for d, r in zip(learned(), rho, strict=True):
        q = {a: (0.5 + s[a]) / (1 + n[a]) for a in ARMS}
        total += sum(p * q[a] for a, p in target.items()) + r * (d.loss - q[d.arm])
        n[d.arm] += 1
        s[d.arm] += d.loss
    return total / len(learned())


@pytest.mark.parametrize("method", ["ips", "cips", "snips", "dr"])
def test_estimators_are_those_of_their_definitions(method):
    mixed = {"blue": 0.2, "red": 0.8}
    for target, meant in (
        ("green", {"green": 1.0}),
        ("uniform", dict.fromkeys(ARMS, 1 / 3)),
        (mixed, mixed),
        (lambda row: "green", {"green": 1.0}),
        (lambda row: mixed, mixed),
    ):
        found = inference.value(learned(), target, method, clip=2.0)
        assert found.value == pytest.approx(by_hand(meant, method, clip=2.0), rel=1e-12)
        rho = np.array([meant.get(d.arm, 0.0) / d.probability for d in learned()])
        assert found.ess == pytest.approx(rho.sum() ** 2 / (rho**2).sum())
        assert found.rows == 900
        truth = sum(p * MEANS[a] for a, p in meant.items())
        assert found.sequence[0] < truth < found.sequence[1]


def test_a_function_sees_the_row(tmp_path):
    days = inference.value(
        learned(), lambda row: "blue" if row.extra["day"] else "red", "ips"
    ).value
    blue, red = (inference.value(learned(), arm, "ips", by="day") for arm in ("blue", "red"))
    assert days == pytest.approx((red[0].value + blue[1].value + blue[2].value) / 3)
    logs.write_parquet(tmp_path / "log.parquet", learned())
    by_round = inference.value(
        tmp_path / "log.parquet", lambda row: "red" if row.round <= 300 else "blue", "ips"
    )
    assert by_round.value == pytest.approx(days)


@pytest.mark.parametrize("method", ["ips", "dr"])
def test_ips_and_dr_are_unbiased_by_enumeration(method):
    """Two arms, three rounds of an adaptive logger, every course with its chance."""
    means, target = {"A": 0.2, "B": 0.7}, {"A": 0.25, "B": 0.75}
    total = 0.0
    for course in itertools.product(itertools.product("AB", (0.0, 1.0)), repeat=3):
        log, chance, liked = [], 1.0, 0.0
        for t, (arm, y) in enumerate(course):
            p = 0.5 + 0.3 * np.tanh(liked)
            w = {"A": p, "B": 1 - p}
            chance *= w[arm] * (means[arm] if y else 1 - means[arm])
            log.append({"round": t + 1, "arm": arm, "loss": y, "probabilities": w})
            liked += (1 - 2 * y) * (1 if arm == "A" else -1)
        total += chance * inference.value(log, target, method).value
    assert total == pytest.approx(0.25 * 0.2 + 0.75 * 0.7, abs=1e-12)


def test_snips_and_clipping_are_biased_by_the_same_enumeration():
    means = {"A": 0.2, "B": 0.7}
    totals = dict.fromkeys(("snips", "cips"), 0.0)
    for course in itertools.product(itertools.product("AB", (0.0, 1.0)), repeat=3):
        log, chance = [], 1.0
        w = {"A": 0.8, "B": 0.2}
        for t, (arm, y) in enumerate(course):
            chance *= w[arm] * (means[arm] if y else 1 - means[arm])
            log.append({"round": t + 1, "arm": arm, "loss": y, "probabilities": w})
        for method in totals:
            found = inference.value(log, {"A": 0.5, "B": 0.5}, method, clip=2.0).value
            totals[method] += chance * found
    truth = 0.5 * 0.2 + 0.5 * 0.7
    assert abs(totals["snips"] - truth) > 0.01
    assert totals["cips"] < truth - 0.01


def test_small_effective_samples_have_no_interval():
    log = [{"arm": "A", "loss": 1.0, "probability": 0.01}]
    log += [{"arm": "B", "loss": 0.0, "probability": 0.99} for _ in range(500)]
    found = inference.value(log, "A")
    assert found.interval is None
    assert "effective sample size is 1.0" in found.why
    assert found.largest == pytest.approx(100)


# --- replay --------------------------------------------------------------------------------------


def test_replay_says_what_it_cost():
    played = bw.inference.simulate_on_log(bw.UCB1(), learned(), seed=3)
    assert played.rounds <= played.kept <= played.rows == 900
    assert played.rounds == played.bandit.round - len(played.bandit.pending)
    assert 0 < played.share < 1
    again = bw.inference.simulate_on_log(bw.UCB1(), learned(), seed=3)
    assert (again.mean, again.rounds) == (played.mean, played.rounds)


# --- what is wrong -------------------------------------------------------------------------------

GOOD = {"round": 1, "arm": "A", "probability": 0.5, "loss": 0.5}
SHARES = {"A": 0.5, "B": 0.5}


@pytest.mark.parametrize(
    ("call", "log", "sentence"),
    [
        (inference.report, [], r"The log of inference\.report must be one or more decisions"),
        (inference.report, iter(()), r"The log of inference\.report must be one or more decisions"),
        (inference.report, 7, r"The log of inference\.report must be a path, an iterable"),
        (inference.report, "log.xml", r"must be a file name ending in one of \.parquet"),
        (inference.report, [GOOD, GOOD], r"The round of row 2 of the log must be the round of no"),
        (inference.report, [GOOD, 7], "The row 2 of the log must be a LoggedDecision or a mapping"),
        (
            inference.report,
            [GOOD, {**GOOD, "round": 2, "probability": 0.0}],
            r"The probability of row 2 of the log must be a number in \(0, 1\] or None, got 0\.0\.",
        ),
        (
            inference.report,
            [GOOD, {**GOOD, "round": 2, "probabilities": {"A": 0.0, "B": 1.0}}],
            "The probabilities of row 2 of the log must be a distribution over the arms",
        ),
        (
            inference.report,
            [GOOD, {**GOOD, "round": 2, "loss": 1.5}],
            r"The loss of row 2 of the log must be a number in \[0, 1\], the bounds, got 1\.5\.",
        ),
        (
            inference.report,
            [GOOD, {**GOOD, "round": 2, "loss": float("nan")}],
            "The loss of row 2 of the log must be a finite number",
        ),
        (
            inference.report,
            [GOOD, {"round": 2, "arm": "A", "probability": 0.5, "reward": 1.0}],
            "The answer of row 2 of the log must be a loss as before",
        ),
        (
            lambda log: inference.value(log, "A"),
            [GOOD, {"round": 2, "arm": "A", "loss": 0.5}],
            "The probability of row 2 of the log must be known; policies such as ThompsonSampling",
        ),
        (
            lambda log: inference.value(log, "B"),
            [
                {**GOOD, "probabilities": SHARES},
                {**GOOD, "round": 2, "probability": 1.0, "probabilities": {"A": 1.0, "B": 0.0}},
            ],
            "The probability of 'B' of row 2 of the log must be above 0, because the target plays",
        ),
        (lambda log: inference.value(log, "C"), [GOOD], r"The target of inference\.value must be"),
        (
            lambda log: inference.value(log, {"A": 0.7}),
            [GOOD],
            "must be probabilities of arms that sum to 1",
        ),
        (lambda log: inference.value(log, {"Z": 1.0}), [GOOD], "must be a choice among the arms"),
        (lambda log: inference.value(log, 1.5), [GOOD], "must be an arm, probabilities of arms"),
        (lambda log: inference.value(log, "A", "best"), [GOOD], "method of inference.value must"),
        (lambda log: inference.value(log, "A", clip=0), [GOOD], "clip of inference.value must be"),
        (lambda log: inference.gap(log, "A", "B"), [GOOD], r"The b of Report\.gap must be one of"),
        (lambda log: inference.report(log, confidence=95), [GOOD], "must be a number in"),
        (lambda log: inference.report(log, by=0), [GOOD], "must be the name of a column or a"),
        (lambda log: inference.report(log, between=(5, 1)), [GOOD], "must be two rounds"),
        (lambda log: inference.report(log, bounds=(1, 0)), [GOOD], "must be two numbers"),
        (
            lambda log: bw.inference.simulate_on_log(bw.UCB1(), log),
            [GOOD, {"round": 2, "arm": "A", "loss": 0.5}],
            "The probability of row 2 of the log must be known",
        ),
        (
            lambda log: bw.inference.simulate_on_log("ucb", log),
            [GOOD],
            r"The policy of simulate_on_log must be a policy",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_sentence(call, log, sentence):
    with pytest.raises(InvalidParameter, match=sentence) as caught:
        call(log)
    assert str(caught.value).count("\n") == 0


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"probability": [0.5, 0.0]}, r"The probability of row 2 of the log must be a number in"),
        ({"loss": [0.5, np.inf]}, "The loss of row 2 of the log must be a finite number"),
        ({"loss": [0.5, 7.0]}, r"The loss of row 2 of the log must be a number in \[0, 1\]"),
        ({"round": [1, 1]}, "The round of row 2 of the log must be the round of no earlier row"),
        ({"round": [1, 0]}, "The round of row 2 of the log must be a whole number >= 1"),
        ({"round": [1.5, 2.0]}, "The round of row 1 of the log must be a whole number >= 1"),
        ({"reward": [np.nan, 1.0]}, "The loss of row 2 of the log must be None where there is"),
        (
            {"arms": ["A", "B"], "probabilities": [[0.5, 0.5], [0.9, 0.9]]},
            "The probabilities of row 2 of the log must be a distribution",
        ),
        (
            {"arms": ["A", "B"], "probabilities": [[0.5, 0.5]]},
            "The probabilities of inference.report must be an array with a row per decision",
        ),
        ({"loss": ["a", "b"]}, "The loss of row 1 of the log must be a number"),
        ({"loss": [0.5]}, "The column loss of inference.report must be as long as the column arm"),
    ],
)  # fmt: skip
def test_wrong_columns_are_named_by_row(change, sentence):
    table = {"round": [1, 2], "arm": ["A", "B"], "probability": [0.5, 0.5], "loss": [0.5, 0.5]}
    with pytest.raises(InvalidParameter, match=sentence):
        inference.report({**table, **change})


def test_a_repeated_round_is_found_across_blocks(monkeypatch):
    monkeypatch.setattr("bothworlds.logs.columns.BLOCK", 3)
    rows = [{"round": t, "arm": 0, "loss": 0.5, "probability": 1.0} for t in (9, 2, 5, 1, 3, 8, 4)]
    assert inference.report(rows)[0].told == 7
    with pytest.raises(InvalidParameter, match="The round of row 8 of the log"):
        inference.report([*rows, {**rows[0], "round": 5}])


def test_a_damaged_parquet_file_is_refused(tmp_path):
    path = tmp_path / "log.parquet"
    path.write_bytes(b"PAR1 and no more")
    with pytest.raises(InvalidParameter, match="must be a Parquet file that is complete"):
        inference.report(path)
    with pytest.raises(FileNotFoundError):
        inference.report(tmp_path / "none.parquet")


def test_one_arm_has_no_pair():
    report = inference.report([{**GOOD, "round": t} for t in range(1, 100)])
    assert list(report) == ["A"]
    assert report.sure() == []
    assert report["A"].sequence[0] > 0.2


def test_a_log_in_the_order_of_the_answers_gives_the_report_of_its_rounds(monkeypatch):
    """Clicks that are logged before earlier silence mislead no report; blocks and arms differ."""
    draws = np.random.default_rng(4)
    log = [
        {"round": t, "arm": int(draws.integers(2 + (t > 60))), "loss": float(draws.random() < 0.5),
         "probability": 0.5}
        for t in range(1, 121)
    ]  # fmt: skip
    late = sorted(log, key=lambda row: row["round"] + 20 * row["loss"])
    assert [row["round"] for row in late] != [row["round"] for row in log]
    expected = bw.inference.report(log, arms=[0, 1, 2]).evidence.R
    found = bw.inference.report(late, arms=[0, 1, 2]).evidence.R
    assert np.array_equal(found, expected)
    value = bw.inference.value(log, "uniform")
    assert bw.inference.value(late, "uniform") == value
    # Held in parts: 60 answers at a time, of which the earlier half is added.
    monkeypatch.setattr(order, "HELD", 8 * 60)
    monkeypatch.setattr(columns, "BLOCK", 10)
    assert bw.inference.value(late, "uniform") == value
    assert np.array_equal(bw.inference.report(late, arms=[0, 1, 2]).evidence.R, expected)


def test_the_name_of_the_last_version_warns():
    with pytest.warns(DeprecationWarning, match="is now called simulate_on_log"):
        assert bw.inference.replay is bw.inference.simulate_on_log
    with pytest.raises(AttributeError):
        bw.inference.nothing  # noqa: B018
