"""A request stays in few files: its journey is traced through the real service."""

import json
import socket
import time
from urllib.parse import urlsplit

import pytest

from bothworlds.serve.background import background
from bothworlds.serve.domain.service import Settings
from helpers.journeys import tracing
from helpers.waiting import HANG

QUIET = Settings(poll_seconds=3600, sweep_seconds=3600, checkpoint_seconds=3600)
TIMES = 8


@pytest.mark.slow
def test_a_decision_and_its_feedback_pass_through_few_files(tmp_path, unsynced):
    with tracing() as tracer, background(str(tmp_path / "store.db"), settings=QUIET) as url:
        where = urlsplit(url)
        line = socket.create_connection((where.hostname, where.port), timeout=HANG)

        def ask(method, path, document):
            # In one piece, as clients send it.
            body = json.dumps(document)
            head = (
                f"{method} {path} HTTP/1.1", f"Host: {where.netloc}",
                "Content-Type: application/json", f"Content-Length: {len(body)}", "", body,
            )  # fmt: skip
            line.sendall("\r\n".join(head).encode())
            answer = b""
            while b"\r\n\r\n" not in answer or not answer.endswith(b"}"):
                answer += line.recv(65536)
            return json.loads(answer.partition(b"\r\n\r\n")[2])

        def traced(*request):
            """Return the answer and its journey, with what the threads do right after it."""
            with tracer.journey() as journey:
                answer = ask(*request)
                time.sleep(0.02)
            return answer, journey

        arms = [{"name": name} for name in "abcd"]
        ask("POST", "/v1/experiments", {"name": "headline", "arms": arms})
        decide = ("POST", "/v1/experiments/headline/decisions", {})
        made = [traced(*decide) for _ in range(TIMES)]
        told = [
            traced("PUT", f"/v1/decisions/{answer['decision_id']}/feedback", {"reward": 1.0})
            for answer, _ in made
        ]
        line.close()
    assert {answer["status"] for answer, _ in told} == {"learned"}
    # The shortest has no timer of the server or the log in between.
    deciding, telling = (
        min((journey for _, journey in found), key=lambda journey: journey.changes)
        for found in (made, told)
    )
    assert len(deciding.files) <= 11 and deciding.returns <= 10, deciding.path
    assert len(telling.files) <= 12 and telling.returns <= 10, telling.path
