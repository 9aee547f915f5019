"""`bothworlds report` and `bothworlds evaluate`: states and logs, tables and JSON."""

import json

import pytest
from typer.testing import CliRunner

import bothworlds as bw
from bothworlds.cli import app
from bothworlds.interop import logs
from bothworlds.logs.record import LoggedDecision

pytestmark = pytest.mark.extra


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A saved bandit and its log."""
    folder = tmp_path_factory.mktemp("report")
    bandit = bw.Bandit(bw.Floor(bw.TsallisINF(), 0.5), arms=["blue", "green"], seed=7)
    log = []
    for t in range(1500):
        decision = bandit.ask()
        loss = float(t % 5 < (1 if decision.arm == "blue" else 4))
        log.append(LoggedDecision.of(decision, loss=loss, day=t // 500))
        bandit.tell(decision, loss=loss)
    bandit.save(folder / "state.json")
    logs.write_parquet(folder / "log.parquet", log)
    logs.write_jsonl(folder / "log.json", log)
    return folder, bandit


def run(*words, code=0):
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == code, result.output
    return result.output


@pytest.mark.slow
def test_a_state_and_a_log_are_reported(files):
    folder, bandit = files
    for name in ("state.json", "log.parquet", "log.json"):
        shown = run("report", folder / name)
        assert "blue beats green by at least" in shown
        found = json.loads(run("report", folder / name, "--json"))
        told = {each["arm"]: each["told"] for each in found["arms"]}
        assert told == {arm: each.told for arm, each in bandit.report().items()}
    assert json.loads(run("report", folder / "state.json", "--json")) == bandit.report().as_dict()


@pytest.mark.slow
def test_options_of_report(files, tmp_path):
    folder, bandit = files
    shown = json.loads(
        run("report", folder / "state.json", "--json", "--confidence", 0.99, "--drift")
    )
    assert shown == bandit.report(0.99, drift=True).as_dict()
    parts = json.loads(run("report", folder / "log.parquet", "--by", "day", "--json"))
    assert sorted(parts) == ["0", "1", "2"]
    parts = json.loads(run("report", folder / "log.parquet", "--by", 750, "--json"))
    assert len(parts) == 2
    run("report", folder / "log.parquet", "--plot", tmp_path / "report.svg")
    assert (tmp_path / "report.svg").exists()


def test_evaluate(files):
    folder, _ = files
    shown = run("evaluate", folder / "log.parquet", "--target", "blue", "--target", "uniform")
    assert "blue" in shown
    assert "uniform" in shown
    found = json.loads(
        run("evaluate", folder / "log.parquet", "--target", "blue=0.25,green=0.75",
            "--method", "ips,snips", "--json")
    )  # fmt: skip
    assert [each["method"] for each in found] == ["ips", "snips"]
    expected = bw.inference.value(folder / "log.parquet", {"blue": 0.25, "green": 0.75}, "ips")
    assert found[0]["value"] == expected.value
    by_day = json.loads(
        run("evaluate", folder / "log.parquet", "--target", "blue", "--by", "day", "--json")
    )
    assert [each["slice"] for each in by_day] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("report", "none.json"), "There is no file"),
        (("report", "OTHER"), "must be a file name ending in one of"),
        (("evaluate", "none.parquet", "--target", "blue"), "There is no file 'none.parquet'."),
        (("evaluate", "STATE", "--target", "blue"), "is a state, not a log of decisions."),
        (("report", "LOG", "--confidence", "95"), "The confidence of inference.report must be"),
        (("report", "STATE", "--by", "day"), "are for logs, not for a state"),
        (("report", "LOG", "--by", "day", "--plot", "x.png"), "The option --plot draws one"),
        (("evaluate", "LOG", "--target", "pink"), "The target of inference.value must be"),
        (("evaluate", "LOG", "--target", "blue=0.5"), "must be probabilities of arms that sum"),
        (("evaluate", "LOG", "--target", "=1"), "The option --target must be distinct arms"),
        (("evaluate", "LOG", "--target", "blue", "--method", "best"), "best"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(files, words, sentence):
    folder, _ = files
    names = {"LOG": folder / "log.parquet", "STATE": folder / "state.json", "OTHER": __file__}
    result = CliRunner().invoke(app, [str(names.get(word, word)) for word in words])
    assert result.exit_code in (1, 2)
    assert sentence in " ".join(result.output.split())
    assert "Traceback" not in result.output
