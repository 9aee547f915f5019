"""Journeys of docs/design.md: the files that real calls pass through are those that it lists."""

import http.client
import json
import re
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from typer.testing import CliRunner

import bothworlds as bw
from bothworlds.cli.commands import app
from bothworlds.serve.background import background
from helpers.journeys import tracing

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "bothworlds"
TEXT = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
FILE = re.compile(r"`([\w/]+\.py)`")
SIMULATED = {"campaign", "engine", "environments", "lanes", "omd", "policies", "simulation"}
"""Rooms of the second journey, which the third does not describe again."""


def described(text):
    """Return, by journey, the files of its steps and those of the kernels that the steps call."""
    section = text.split("\n## Four journeys\n")[1].split("\n## ")[0]
    found = {}
    for part in section.split("\n### ")[1:]:
        name, *paragraphs = part.split("\n\n")
        steps = [text for text in paragraphs if text.startswith("1. ")]
        others = [text for text in paragraphs if text.startswith("Compiled")]
        found[name] = FILE.findall("".join(steps)), FILE.findall("".join(others))
    return found


def decision(tracer, folder):
    with tracer.journey() as journey:
        bandit = bw.Bandit(bw.TsallisINF(), arms=8)
        bandit.tell(bandit.ask(), reward=1.0)
    # Compiles what adds to the evidence; a bandit would otherwise look for it on disk.
    bandit.report()
    return journey


def simulation(tracer, folder):
    world = bw.environments.Stochastic.gap(8, 1 / 8)
    with tracer.journey() as journey:
        bw.simulate(bw.TsallisINF(), world, horizon=1000, repetitions=16, threads=1, progress=False)
    return journey


def figure(tracer, folder):
    options = ["--horizon", "200", "--repetitions", "2", "--arms", "2", "--gap", "1/4"]
    with tracer.journey() as journey:
        done = CliRunner().invoke(
            app, ["paper", "stochastic", *options, "--threads", "1", "--output", str(folder)]
        )
    assert done.exit_code == 0, done.output
    return journey


def request(tracer, folder):
    with background(str(folder / "store.db")) as url:
        where = urlsplit(url)
        line = socket.create_connection((where.hostname, where.port))

        def ask(method, path, document):
            # In one piece, as most clients do; http.client sends the body apart.
            body = json.dumps(document).encode()
            head = f"{method} {path} HTTP/1.1\r\nHost: {where.netloc}\r\n"
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            line.sendall(head.encode() + body)
            answer = http.client.HTTPResponse(line)
            answer.begin()
            return json.loads(answer.read() or b"{}")

        ask(
            "POST",
            "/v1/experiments",
            {"name": "headline", "arms": [{"name": "blue"}, {"name": "green"}]},
        )

        def decide_and_tell():
            made = ask("POST", "/v1/experiments/headline/decisions", {})
            told = ask("PUT", f"/v1/decisions/{made['decision_id']}/feedback", {"reward": 1.0})
            assert told["status"] == "learned", told

        decide_and_tell()
        with tracer.journey() as journey:
            decide_and_tell()
        line.close()
    return journey


WALKED = {
    "A decision": decision,
    "A simulation": simulation,
    "A figure of the paper": figure,
    "A service request": request,
}
JOURNEYS = described(TEXT)


def walked(name, folder):
    """Return the files that are met every time, which leaves out those of upkeep in between."""
    with tracing() as tracer:
        first = WALKED[name](tracer, folder / "first")
        again = [WALKED[name](tracer, folder / str(i)).files for i in range(2)]
    assert first.files
    met = set(again[0]) & set(again[1])
    if name == "A figure of the paper":
        met = {file for file in met if file.partition("/")[0] not in SIMULATED}
    return met


def test_there_are_four():
    assert list(JOURNEYS) == list(WALKED)


@pytest.mark.slow
@pytest.mark.parametrize("name", WALKED)
def test_the_steps_list_the_files_that_are_met(name, tmp_path):
    for folder in ("first", "0", "1"):
        (tmp_path / folder).mkdir()
    steps, _ = JOURNEYS[name]
    met = walked(name, tmp_path)
    assert sorted(met - set(steps)) == []
    assert sorted(set(steps) - met) == []


@pytest.mark.parametrize("name", JOURNEYS)
def test_no_file_is_listed_twice_and_every_file_exists(name):
    files = [*JOURNEYS[name][0], *JOURNEYS[name][1]]
    assert sorted(files) == sorted(set(files))
    assert [file for file in files if not (PACKAGE / file).is_file()] == []


def test_a_file_that_is_missing_would_be_found():
    text = (
        "\n## Four journeys\n\n### Odd\n\n1. `a.py` and\n2. `b/c.py`\n\nCompiled: `d.py`.\n\n## N\n"
    )
    assert described(text) == {"Odd": (["a.py", "b/c.py"], ["d.py"])}
