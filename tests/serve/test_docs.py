"""Documentation of the service: pages written from the code, and lines of curl that work."""

import inspect
import json
import re
import shlex
from pathlib import Path

import msgspec
import pytest

import service_pages
from bothworlds.cli.serve import app
from bothworlds.serve.domain.answers import Feedback
from bothworlds.serve.http import openapi
from bothworlds.serve.http.app import ROUTES
from bothworlds.serve.http.examples import example
from helpers.served import served

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.mark.parametrize("name", service_pages.PAGES)
def test_a_page_says_what_the_code_says(name):
    written = (DOCS / "service" / name).read_text(encoding="utf-8")
    assert written == service_pages.PAGES[name](), "run: python docs/service_pages.py"


def curls(text):
    """Return the arguments of every line of curl."""
    return [shlex.split(line, comments=True)[1:] for line in re.findall(r"curl .*", text)]


def sent(service, words, id):
    """Send what curl would send."""
    method, document, url = "GET", None, ""
    words = iter(words)
    for word in words:
        if word == "-X":
            method = next(words)
        elif word == "-H":
            assert next(words) == "Content-Type: application/json"
        elif word == "-d":
            document = next(words)
            method = "POST" if method == "GET" else method
        else:
            assert not word.startswith("-"), word
            url = word
    path = url.removeprefix("http://127.0.0.1:8080").replace("DECISION_ID", id).replace("$ID", id)
    body = None if document is None else document.encode()
    return service.ask(method, path, body=body)


@pytest.mark.processes
def test_lines_of_curl_work(tmp_path):
    lines = curls((DOCS / "tutorials" / "service.md").read_text(encoding="utf-8"))
    assert len(lines) >= 2
    options = ("--experiment", "headline", "--arms", "blue,green,red")
    with served(tmp_path / "store.db", *options) as service:
        id = ""
        for words in lines:
            answer = sent(service, words, id)
            assert answer.status in (200, 201), (words, answer.body)
            id = answer.json.get("decision_id", id)
        assert id


def options_of(text):
    return set(re.findall(r"(--[a-z][a-z-]+)", text))


def test_every_option_of_the_command_is_described():
    page = (DOCS / "service" / "operating.md").read_text(encoding="utf-8")
    callback = app.registered_callback.callback
    names = {f"--{name.replace('_', '-')}" for name in inspect.signature(callback).parameters}
    assert names - {"--context"} <= options_of(page)


def test_the_image_and_the_compose_file_use_options_there_are():
    image = (ROOT / "deploy" / "Containerfile").read_text(encoding="utf-8")
    known = {"--host", "--require-keys", "--store", "--serve", "--policies"}
    ours = {"--no-cache-dir", "--uid", "--create-home", "--interval", "--timeout", "--start-period"}
    assert options_of(image) == known | ours
    for name in ("compose.yaml", "compose.postgres.yaml"):
        compose = (ROOT / "deploy" / name).read_text(encoding="utf-8")
        assert "dockerfile: deploy/Containerfile" in compose
        assert options_of(compose) <= known


@pytest.mark.parametrize(
    ("page", "file"), [("nginx.md", "nginx.conf"), ("systemd.md", "bothworlds.service")]
)
def test_pages_show_the_files_that_are_tested(page, file):
    shown = (DOCS / "how-to" / page).read_text(encoding="utf-8")
    assert (ROOT / "deploy" / file).read_text(encoding="utf-8") in shown


def test_examples_of_bodies_are_accepted():
    known = openapi.schemas(ROUTES)
    bodies = [route.body for route in ROUTES if route.body is not None]
    assert len(bodies) > 10
    for body in bodies:
        text = json.dumps(example(known[body.__name__], known))
        msgspec.json.decode(text, type=body)
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode('{"reward": "much"}', type=Feedback)
