"""The command beyond, as a person types it: files, report, list, help and wrong names."""

import json
import re

import pytest
from typer.testing import CliRunner

from bothworlds.cli import app
from bothworlds.experiments import experiment, experiment_names

NAMES = experiment_names("beyond")


def beyond(*arguments, code=0, command="beyond"):
    words = [command, *(str(word) for word in arguments)]
    result = CliRunner().invoke(app, words, prog_name="bothworlds", env={"COLUMNS": "80"})
    assert result.exit_code == code, result.output + repr(result.exception)
    return result


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    folder = tmp_path_factory.mktemp("beyond")
    return folder, beyond("--output", folder, "--horizon", 200, "--repetitions", 3)


@pytest.mark.slow
def test_every_experiment_leaves_its_files_and_claims(everything):
    folder, result = everything
    report = (folder / "report.html").read_text(encoding="utf-8")
    for name in NAMES:
        record = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        assert record["figures"] == [name]
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (folder / f"{name}.pdf").read_bytes().startswith(b"%PDF")
        assert {claim["verdict"] for claim in record["claims"]} == {"open"}, "3 runs judge nothing"
        assert all(claim["id"] in report for claim in record["claims"])
        assert f"<code>bothworlds beyond {name}</code>" in report
        assert re.search(rf"^{name}: \d+ open; ", result.stdout, re.MULTILINE)
    assert "<h1>Beyond Tsallis-INF, measured</h1>" in report
    assert "The authors&#x27;: Ito, Tsuchiya and Honda, COLT 2022" in report
    assert "paper&#x27;s own scale" not in report
    assert re.match(r"Verdict: \d of the authors' 8 claims ", result.stdout.splitlines()[-3])


@pytest.mark.slow
def test_nothing_is_computed_twice_and_the_paper_may_share_the_folder(everything):
    folder, _ = everything
    again = beyond("--output", folder, "--horizon", 200, "--repetitions", 3)
    assert "\n0 simulations run now" in again.stdout
    small = ("--horizon", 200, "--repetitions", 2, "--arms", 2, "--gap", "1/2")
    beyond("copies", "--output", folder, *small, command="paper")
    report = (folder / "report.html").read_text(encoding="utf-8")
    assert "<h1>Tsallis-INF, reproduced</h1>" in report
    assert re.findall(r'<section id="([\w-]+)">', report) == ["copies", *NAMES]


def test_the_list_names_every_experiment_and_whose_it_is():
    shown = beyond("--list").stdout
    for name in NAMES:
        assert re.search(rf"^{name} ", shown, re.MULTILINE)
    assert "Huang, Dai and Huang" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert "drift" not in beyond("floor", "--list").stdout


def test_help_fits_and_explains_every_option():
    text = beyond("--help").stdout
    for option in ("--list", "--full", "--horizon", "--repetitions", "--output", "--seed",
                   "--threads", "--cluster", "--continuable"):  # fmt: skip
        assert option in text
    assert max(map(len, text.splitlines())) <= 80
    assert "256" in text
    assert experiment("drift").scales["quick"].repetitions == 256


def test_experiments_of_the_paper_are_not_among_them():
    result = beyond("switching", code=2)
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert "drift" in result.stderr
