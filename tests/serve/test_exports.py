"""Exports of the log: what is written can be read, and a spreadsheet computes nothing of it."""

import csv
import io

import pytest

from bothworlds import inference
from bothworlds.interop import logs
from bothworlds.serve.ops.exports import COLUMNS, format_of
from bothworlds.serve.problems import Problem

ARMS = ["blue", "=SUM(A1)", "-1"]


def rows(count):
    return [
        {
            "decision_id": f"id{i}", "at": 1e9 + i, "epoch": 1, "round": i + 1,
            "arm": ARMS[i % 3], "probability": 1.0 / 3.0, "mode": "learn",
            "available": ["blue", "-1"] if i % 5 == 0 else None, "unit": None,
            "loss": None if i % 4 == 3 else (i % 7) / 7.0, "status": "learned", "source": "client",
            "told_at": 1e9 + i + 1, "seq": i, "shard": 0, "logged": True,
        }
        for i in range(count)
    ]  # fmt: skip


def written(name, count, piece=7):
    made = format_of(name, ARMS)
    every = rows(count)
    pieces = [made.piece(every[i : i + piece]) for i in range(0, count, piece)]
    return b"".join(pieces) + made.end()


@pytest.mark.parametrize("count", [0, 1, 7, 50])
@pytest.mark.parametrize("name", ["jsonl", "parquet"])
def test_everything_can_be_read_back(tmp_path, name, count):
    path = tmp_path / f"log.{name}"
    path.write_bytes(written(name, count))
    read = logs.read_jsonl if name == "jsonl" else logs.read_parquet
    found = list(read(path))
    assert [(d.round, d.arm, d.probability, d.loss) for d in found] == [
        (r["round"], r["arm"], r["probability"], r["loss"]) for r in rows(count)
    ]
    if found:
        assert found[0].extra["available"] == '["blue", "-1"]'
        assert found[0].extra["decision_id"] == "id0"


def test_vowpal_wabbit_gets_what_was_told(tmp_path):
    path = tmp_path / "log.vw"
    path.write_bytes(written("vw", 50))
    found = list(logs.read_vw(path, arms=ARMS))
    told = [r for r in rows(50) if r["loss"] is not None]
    assert [(d.round, d.arm, d.loss) for d in found] == [
        (r["round"], r["arm"], r["loss"]) for r in told
    ]


def test_a_report_reads_an_export(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(written("jsonl", 600))
    found = inference.report(path).as_dict()
    assert {arm["arm"] for arm in found["arms"]} == set(ARMS)


@pytest.mark.parametrize("count", [0, 50])
def test_a_spreadsheet_computes_nothing(count):
    text = written("csv", count).decode()
    table = list(csv.reader(io.StringIO(text)))
    assert table[0] == list(COLUMNS)
    assert len(table) == count + 1
    texts = [cell for line in table[1:] for cell in line]
    assert not any(cell.startswith(("=", "@", "+")) for cell in texts)
    arms = {line[COLUMNS.index("arm")] for line in table[1:]}
    assert arms == ({"blue", "'=SUM(A1)", "'-1"} if count else set())


def test_other_formats_are_refused():
    with pytest.raises(Problem) as caught:
        format_of("xlsx", ARMS)
    assert caught.value.status == 406
