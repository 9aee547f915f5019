"""Logged decisions: what is written is what is read, and malformed lines are named."""

import json
import math

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bothworlds as bw
from bothworlds.errors import InvalidParameter
from bothworlds.interop import logs
from bothworlds.interop.logs import LoggedDecision

NUMBER = st.floats(-1e6, 1e6)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SHARE = st.floats(1e-6, 1.0)


@st.composite
def decisions(draw, arms):
    """Draw a decision with any of what may be known about it."""
    arm = draw(st.sampled_from(arms))
    told = draw(st.sampled_from(["loss", "reward", None]))
    values = {"round": draw(st.integers(1, 10**9)), "arm": arm}
    if told:
        values[told] = draw(NUMBER)
    if draw(st.booleans()):
        weights = np.array(draw(st.lists(SHARE, min_size=len(arms), max_size=len(arms))))
        shares = dict(zip(arms, (weights / weights.sum()).tolist(), strict=True))
        values.update(probabilities=shares, probability=shares[arm])
    elif draw(st.booleans()):
        values["probability"] = draw(SHARE)
    values["extra"] = draw(st.dictionaries(TEXT, TEXT | NUMBER | st.integers(), max_size=2))
    return LoggedDecision(**values)


LOGS = st.sampled_from([["blue", "green", "1"], [0, 1, 7]]).flatmap(
    lambda arms: st.lists(decisions(arms), max_size=4)
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "read"),
    [(logs.write_jsonl, logs.read_jsonl), (logs.write_parquet, logs.read_parquet)],
    ids=["jsonl", "parquet"],
)
def test_everything_survives(write, read, tmp_path_factory):
    path = tmp_path_factory.mktemp("logs") / "log"

    @settings(max_examples=60)
    @given(LOGS)
    def survives(log):
        assert write(path, log) == len(log)
        again = list(read(path))
        assert again == log
        # Equality takes 1 for 1.0 and for True; arms must keep their type.
        assert [type(d.arm) for d in again] == [type(d.arm) for d in log]

    survives()


@pytest.mark.slow
@settings(max_examples=100)
@given(st.lists(decisions(["blue", "green"]), max_size=4))
def test_vowpal_wabbit_keeps_what_it_can(tmp_path_factory, log):
    path = tmp_path_factory.mktemp("logs") / "log.vw"
    whole = [d for d in log if d.probability is not None and (d.loss, d.reward) != (None, None)]
    kept = [LoggedDecision(d.round, d.arm, d.probability, d.loss, d.reward) for d in whole]
    logs.write_vw(path, kept, arms=["blue", "green"])
    again = list(logs.read_vw(path, arms=["blue", "green"]))
    assert [(d.round, d.arm, d.probability) for d in again] == [
        (d.round, d.arm, d.probability) for d in kept
    ]
    assert [d.loss for d in again] == [d.loss if d.reward is None else -d.reward for d in kept]


def test_vowpal_wabbit_lines_of_its_wiki(tmp_path):
    path = tmp_path / "train.dat"
    path.write_text("1:2:0.4 | a c\n\n3:0.5:0.2 |ns b:2 d |other e\n4:1.2:0.5 tag| a\n2:1:1 '9|\n")
    first, second, third, fourth = logs.read_vw(path)
    assert first == LoggedDecision(1, 0, 0.4, 2.0, extra={"features": "| a c"})
    assert second == LoggedDecision(2, 2, 0.2, 0.5, extra={"features": "|ns b:2 d |other e"})
    assert third.extra == {"features": "| a", "tag": "tag"}
    assert (fourth.round, fourth.extra) == (9, {})
    again = tmp_path / "again.dat"
    logs.write_vw(again, [first, second, third, fourth])
    assert list(logs.read_vw(again)) == [first, second, third, fourth]


OPEN_BANDIT = (
    ",timestamp,item_id,position,click,propensity_score,user_feature_0,user-item_affinity_0\n"
    "0,2019-11-24 00:00:20.255884+00:00,2,3,0,0.0125,81ce123cbb5bd8ce818f60fb3586bba5,0.0\n"
    "5,2019-11-24 00:00:26.119862+00:00,0,1,1,0.5,81ce123cbb5bd8ce818f60fb3586bba5,1.5\n"
)


def test_open_bandit_columns_are_read_and_written_again(tmp_path):
    path = tmp_path / "all.csv"
    path.write_text(OPEN_BANDIT)
    log = list(logs.read_open_bandit(path, arms=["shirt", "shoe", "coat"]))
    assert [(d.round, d.arm, d.probability, d.reward) for d in log] == [
        (1, "coat", 0.0125, 0.0),
        (6, "shirt", 0.5, 1.0),
    ]
    assert log[1].extra == {
        "timestamp": "2019-11-24 00:00:26.119862+00:00",
        "position": 1,
        "user_feature_0": "81ce123cbb5bd8ce818f60fb3586bba5",
        "user-item_affinity_0": "1.5",
    }
    again = tmp_path / "again.csv"
    logs.write_open_bandit(again, log, arms=["shirt", "shoe", "coat"])
    assert again.read_text() == OPEN_BANDIT


def test_losses_of_0_and_1_are_clicks(tmp_path):
    path = tmp_path / "all.csv"
    logs.write_open_bandit(path, [LoggedDecision(1, 0, 0.5, loss=0.0)])
    assert next(logs.read_open_bandit(path)).reward == 1.0


def test_a_bandits_life_goes_through_every_format(tmp_path):
    bandit = bw.Bandit(bw.TsallisINF(), arms=["blue", "green", "red"], seed=3)
    log = []
    for n in range(200):
        decision = bandit.ask()
        reward = float(n % 3 == decision.index)
        bandit.tell(decision, reward=reward)
        log.append(LoggedDecision.of(decision, reward=reward, source="test"))
    for write, read in (
        (logs.write_jsonl, logs.read_jsonl),
        (logs.write_parquet, logs.read_parquet),
    ):
        write(tmp_path / "log", log)
        assert list(read(tmp_path / "log")) == log
    arms = bandit.arms
    for write, read in (
        (logs.write_vw, logs.read_vw),
        (logs.write_open_bandit, logs.read_open_bandit),
    ):
        write(tmp_path / "log", log, arms)
        again = list(read(tmp_path / "log", arms))
        assert [(d.round, d.arm, d.probability) for d in again] == [
            (d.round, d.arm, d.probability) for d in log
        ]


def test_a_policy_without_probabilities_can_be_logged():
    bandit = bw.Bandit(bw.ThompsonSampling(), arms=2, seed=1)
    logged = LoggedDecision.of(bandit.ask(), loss=0.5)
    assert (logged.probability, logged.probabilities) == (None, None)


# --- what is malformed ---------------------------------------------------------------------------

GOOD_JSON = '{"round": 1, "arm": "a"}\n'
HEADER = ",timestamp,item_id,position,click,propensity_score\n"


@pytest.mark.parametrize(
    ("read", "text", "sentence"),
    [
        (logs.read_jsonl, GOOD_JSON + "{", "The line 2 of log must be a JSON object"),
        (logs.read_jsonl, GOOD_JSON + "\n[1]", "The line 3 of log must be a JSON object"),
        (logs.read_jsonl, GOOD_JSON + '{"round": 2}', "The line 2 of log must be a JSON object"),
        (logs.read_jsonl, '{"round": 0, "arm": 1}', "The round of line 1 of log must be a whole"),
        (logs.read_jsonl, '{"round": true, "arm": 1}', "The round of line 1 of log must be"),
        (logs.read_jsonl, '{"round": 1, "arm": 1.5}', "The arm of line 1 of log must be a name"),
        (logs.read_jsonl, '{"round": 1, "arm": 1, "loss": NaN}', "The line 1 of log must be"),
        (
            logs.read_jsonl,
            '{"round": 1, "arm": 1, "loss": 1, "reward": 1}',
            "The loss of line 1 of log must be None where there is a reward",
        ),
        (
            logs.read_jsonl,
            '{"round": 1, "arm": 1, "probability": 1.5}',
            r"The probability of line 1 of log must be a number in \(0, 1\] or None, got 1.5\.",
        ),
        (
            logs.read_jsonl,
            '{"round": 1, "arm": 1, "arms": [1, 2], "probabilities": [0.5, 0.4]}',
            "The probabilities of line 1 of log must be a distribution",
        ),
        (
            logs.read_jsonl,
            '{"round": 1, "arm": 1, "arms": [1, 1], "probabilities": [0.5, 0.5]}',
            "The probabilities of line 1 of log must be a list as long as",
        ),
        (logs.read_jsonl, '{"round": 1, "arm": 1, "lost": 1}', "The key of line 1 of log must be"),
        (logs.read_vw, "1:2:0.4 | a\nshared | b\n", "The line 2 of log must be action:cost:prob"),
        (logs.read_vw, "1:2:0.4", "The line 1 of log must be action:cost:probability | features"),
        (logs.read_vw, "0:2:0.4 | a", "The action of line 1 of log must be a whole number from 1"),
        (logs.read_vw, "1:x:0.4 | a", "The cost of line 1 of log must be a number, got 'x'"),
        (logs.read_vw, "1:nan:0.4 | a", "The loss of line 1 of log must be a finite number"),
        (logs.read_vw, "1:1:0 | a", "The probability of line 1 of log must be a number in"),
        (logs.read_open_bandit, "", "The line 1 of log must be a header with the distinct columns"),
        (logs.read_open_bandit, HEADER + "0,,1,1,0\n", "The line 2 of log must be 6 columns wide"),
        (logs.read_open_bandit, HEADER + "0,,x,1,0,1\n", "The item_id of line 2 of log must be"),
        (logs.read_open_bandit, HEADER + "0,,1,1,2,1\n", "The click of line 2 of log must be 0"),
        (
            logs.read_open_bandit,
            HEADER + "0,,1,1,1,1\n1,,1,1,1,\n",
            "The propensity_score of line 3 of log must be a number",
        ),
        (logs.read_open_bandit, HEADER + '0,"a', "The line 2 of log must be CSV"),
        (logs.read_parquet, "round,arm\n1,2\n", "The path of read_parquet must be a Parquet file"),
    ],
)  # fmt: skip
def test_malformed_lines_are_named_in_one_sentence(read, text, sentence, tmp_path):
    path = tmp_path / "log"
    path.write_text(text)
    with pytest.raises(InvalidParameter, match=sentence) as caught:
        list(read(path))
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    assert len(message) < 260


@pytest.mark.parametrize("read", [logs.read_jsonl, logs.read_vw, logs.read_open_bandit])
def test_bytes_that_are_no_text_are_named(read, tmp_path):
    path = tmp_path / "log"
    path.write_bytes(
        b"\n\xff\xfe\n" if read is not logs.read_open_bandit else HEADER.encode() + b"\xff\n"
    )
    with pytest.raises(InvalidParameter, match="The line 2 of log must be UTF-8 text"):
        list(read(path))


def test_good_lines_before_a_bad_one_are_given(tmp_path):
    path = tmp_path / "log"
    path.write_text(GOOD_JSON + "{")
    reader = logs.read_jsonl(path)
    assert next(reader) == LoggedDecision(1, "a")
    with pytest.raises(InvalidParameter):
        next(reader)


def test_rows_of_parquet_are_named(tmp_path):
    path = tmp_path / "log"
    pyarrow.parquet.write_table(pyarrow.table({"round": [1, 0], "arm": ["a", "a"]}), path)
    with pytest.raises(InvalidParameter, match="The round of row 2 of log must be"):
        list(logs.read_parquet(path))
    pyarrow.parquet.write_table(pyarrow.table({"round": [1]}), path)
    with pytest.raises(InvalidParameter, match="the columns round and arm"):
        list(logs.read_parquet(path))
    table = {"round": [1], "arm": ["a"], "extra": ["{"]}
    pyarrow.parquet.write_table(pyarrow.table(table), path)
    with pytest.raises(InvalidParameter, match="The extra of row 1 of log must be a JSON object"):
        list(logs.read_parquet(path))


UNTOLD = LoggedDecision(2, "a", 0.5)


@pytest.mark.parametrize(
    ("write", "bad", "sentence"),
    [
        (logs.write_parquet, LoggedDecision(2, 7), "all names or all whole numbers"),
        (logs.write_vw, LoggedDecision(2, "a", loss=1.0), "The probability of round 2 in write_vw"),
        (logs.write_vw, UNTOLD, "The loss of round 2 in write_vw must be known"),
        (logs.write_vw, LoggedDecision(2, "c", 0.5, 1.0), r"The arm of round 2 .* one of \['a'\]"),
        (
            logs.write_vw,
            LoggedDecision(2, "a", 0.5, 1.0, extra={"features": "| a\n| b"}),
            "The features of round 2 in write_vw must be one line",
        ),
        (
            logs.write_vw,
            LoggedDecision(2, "a", 0.5, 1.0, extra={"tag": "17"}),
            "The tag of round 2 in write_vw must be a text",
        ),
        (logs.write_open_bandit, UNTOLD, "The reward of round 2 .* must be 0 or 1, got None"),
        (logs.write_open_bandit, LoggedDecision(2, "a", 0.5, loss=0.3), "must be 0 or 1, got 0.3"),
        (
            logs.write_open_bandit,
            LoggedDecision(2, "a", 0.5, reward=1, extra={"age": 7}),
            "The extra of round 2 in write_open_bandit must be the columns",
        ),
    ],
)
def test_what_a_format_cannot_hold_is_refused_and_the_old_file_stays(
    write, bad, sentence, tmp_path
):
    path = tmp_path / "log"
    path.write_text("old")
    arguments = () if write is logs.write_parquet else (["a"],)
    with pytest.raises(InvalidParameter, match=sentence):
        write(path, [LoggedDecision(1, "a", 0.5, reward=1), bad], *arguments)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["log"]


@pytest.mark.parametrize(
    "values",
    [
        {"round": 1.0, "arm": 0},
        {"round": 1, "arm": None},
        {"round": 1, "arm": 0, "reward": math.inf},
        {"round": 1, "arm": 0, "probability": 0.0},
        {"round": 1, "arm": 0, "probability": 0.5, "probabilities": {0: 0.4, 1: 0.6}},
        {"round": 1, "arm": 0, "probabilities": {1: 1.0}},
        {"round": 1, "arm": 0, "probabilities": {0: 0.5, None: 0.5}},
        {"round": 1, "arm": 0, "extra": {"x": None}},
    ],
)
def test_records_that_cannot_be_are_refused(values):
    with pytest.raises(InvalidParameter, match="of LoggedDecision must be"):
        LoggedDecision(**values)


def test_json_lines_are_json(tmp_path):
    path = tmp_path / "log"
    logs.write_jsonl(path, [LoggedDecision(np.int64(1), np.int64(2), np.float64(0.5), reward=1)])
    assert json.loads(path.read_text()) == {"round": 1, "arm": 2, "probability": 0.5, "reward": 1}


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("damage", ["cut", "zeros", "noise"])
def test_damaged_parquet_is_refused_in_one_sentence(share, damage, tmp_path):
    path = tmp_path / "log.parquet"
    rows = [logs.LoggedDecision(n, n % 3, 0.5, loss=0.25) for n in range(1, 2000)]
    logs.write_parquet(path, rows)
    content = bytearray(path.read_bytes())
    at = int(share * len(content))
    if damage == "cut":
        del content[at:]
    else:
        fill = bytes(64) if damage == "zeros" else np.random.default_rng(0).bytes(64)
        content[at : at + 64] = fill
    path.write_bytes(content)
    try:
        read = list(logs.read_parquet(path))
    except InvalidParameter as error:
        assert "\n" not in str(error)
    else:
        assert all(isinstance(each, logs.LoggedDecision) for each in read)
    if damage == "cut":
        with pytest.raises(InvalidParameter, match="must be a Parquet file that is complete"):
            list(logs.read_parquet(path))
