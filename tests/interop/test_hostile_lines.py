"""Logs that no well-meaning program writes: one sentence each, which names the line."""

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.errors import InvalidParameter
from bothworlds.interop.logs import (
    LoggedDecision,
    read_jsonl,
    read_open_bandit,
    read_vw,
    write_jsonl,
)

SOUND = b'{"round": 1, "arm": "blue"}\n'
LINES = {
    "an integer of 5,000 digits": b'{"round": ' + b"1" * 5000 + b', "arm": 1}',
    "an integer of 4,000 digits": b'{"round": ' + b"1" * 4000 + b', "arm": 1}',
    "an arm of 4,000 digits": b'{"round": 1, "arm": ' + b"1" * 4000 + b"}",
    "a loss of 4,000 digits": b'{"round": 1, "arm": 1, "loss": ' + b"1" * 4000 + b"}",
    "deep nesting": b'{"round": 1, "arm": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "a lone surrogate as arm": b'{"round": 1, "arm": "\\ud800"}',
    "a lone surrogate in extra": b'{"round": 1, "arm": 1, "extra": {"user": "\\udc00"}}',
    "an infinity in disguise": b'{"round": 1, "arm": 1, "extra": {"size": 1e999}}',
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_a_hostile_line_is_refused_in_one_sentence(tmp_path, line):
    path = tmp_path / "log.jsonl"
    path.write_bytes(SOUND + line + b"\n")
    decisions = read_jsonl(path)
    assert next(decisions).arm == "blue"
    with pytest.raises(InvalidParameter, match=r"line 2 of log\.jsonl") as caught:
        next(decisions)
    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("place", [0, 1])
def test_a_number_of_5000_digits_is_refused_in_every_format(tmp_path, place):
    digits = "1" * 5000
    path = tmp_path / "log.vw"
    path.write_text([f"{digits}:0.5:0.5 |\n", f"1:0.5:0.5 '{digits}|\n"][place])
    with pytest.raises(InvalidParameter, match=r"line 1 of log\.vw"):
        list(read_vw(path))
    path = tmp_path / "log.csv"
    row = [f"0,{digits},1,0,0.5", f"{digits},1,1,0,0.5"][place]
    path.write_text(f",item_id,position,click,propensity_score\n{row}\n")
    with pytest.raises(InvalidParameter, match=r"log\.csv"):
        list(read_open_bandit(path))


@pytest.mark.parametrize("values", [(1, "\ud800"), (10**5000, "blue"), (1, 10**5000)])
def test_no_record_holds_what_no_file_can(values):
    with pytest.raises(InvalidParameter):
        LoggedDecision(*values)


def test_lines_are_appended(tmp_path):
    path = tmp_path / "log.jsonl"
    history = [LoggedDecision(t, "blue", loss=0.5) for t in (1, 2, 3)]
    assert write_jsonl(path, history[:1], append=True) == 1
    assert write_jsonl(path, history[1:], append=True) == 2
    assert list(read_jsonl(path)) == history
    with pytest.raises(InvalidParameter, match="The append of write_jsonl"):
        write_jsonl(path, history, append="yes")
    assert list(read_jsonl(path)) == history
    assert write_jsonl(path, history[:1]) == 1
    assert list(read_jsonl(path)) == history[:1]


def test_a_line_without_end_is_ended_before_the_next(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(SOUND.rstrip())
    write_jsonl(path, [LoggedDecision(2, "green")], append=True)
    assert [each.arm for each in read_jsonl(path)] == ["blue", "green"]


def test_every_decision_of_a_single_arm_can_be_logged():
    bandit = bw.Bandit(bw.TsallisINF(), arms=3, seed=1)
    for t in range(100):
        decision = bandit.ask(available=[t % 3])
        logged = LoggedDecision.of(decision, loss=0.5)
        assert logged.probability == pytest.approx(1.0, abs=1e-12)
        bandit.tell(decision, loss=float(np.sin(t) ** 2))
