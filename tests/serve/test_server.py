"""The server process of the decision service: slow peers, idle ones, starting and stopping."""

import concurrent.futures
import contextlib
import json
import resource
import signal
import socket
import subprocess
import sys

import pytest

from bothworlds.client import Client
from helpers.served import Served, served
from helpers.waiting import HANG, wait_until

pytestmark = pytest.mark.processes

START = b"POST /v1/experiments/headline/decisions HTTP/1.1\r\nHost: localhost\r\n"
TYPE = b"Content-Type: application/json\r\n"
OPTIONS = ("--experiment", "headline", "--arms", "a,b,c")


def everything(peer):
    found = b""
    while data := peer.recv(65_536):
        found += data
    return found


def test_peers_that_do_not_finish_are_given_up(tmp_path):
    settings = "connection.READ_SECONDS = 1.0"
    with served(tmp_path / "store.db", *OPTIONS, settings=settings) as service:
        place = (service.host, service.port)
        silent, heading, body, trickling = (socket.create_connection(place, HANG) for _ in range(4))
        heading.sendall(START)
        body.sendall(START + TYPE + b"Content-Length: 100\r\n\r\n{")
        trickling.sendall(START + TYPE + b"Content-Length: 100000\r\n\r\n{")
        fresh = Client(service.url, timeout=HANG, feedback_timeout=HANG)
        for peer in (silent, heading, body):
            found = everything(peer)
            assert found.startswith(b"HTTP/1.1 408"), found
            assert json.loads(found.split(b"\r\n\r\n")[1])["code"] == "body_timeout"
            peer.close()
        # A byte now and then does not help.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while True:
                trickling.sendall(b" ")
                trickling.settimeout(0.05)
                with contextlib.suppress(TimeoutError):
                    if not trickling.recv(65_536):
                        break
        trickling.close()
        # A connection at rest between two requests is none of them.
        assert fresh.decide("headline").decision_id
        assert service.ask("GET", "/v1/experiments/headline").json["round"] == 1


def test_idle_connections_do_not_keep_others_out(tmp_path):
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(3000, most // 2)
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    idle = []
    try:
        with served(tmp_path / "store.db", *OPTIONS) as service:
            for _ in range(count):
                idle.append(socket.create_connection((service.host, service.port), HANG))
            with Client(service.url, timeout=HANG, feedback_timeout=HANG) as client:
                decision = client.decide("headline")
                assert client.feedback(decision, loss=0.5) == "learned"
    finally:
        for each in idle:
            each.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, most))


def test_a_service_without_descriptors_refuses_logs_and_is_not_ready(tmp_path):
    settings = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (140, 140))"
    with served(tmp_path / "store.db", *OPTIONS, settings=settings) as service:
        place = (service.host, service.port)
        first = socket.create_connection(place, HANG)
        peers = [socket.create_connection(place, HANG) for _ in range(11)]
        late = [socket.create_connection(place, HANG) for _ in range(40)]
        try:
            for each in late:
                assert everything(each).startswith(b"HTTP/1.1 503")
            wait_until(lambda: "limit of file descriptors" in service.log())
            first.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert everything(first).startswith(b"HTTP/1.1 503")
        finally:
            for each in (first, *peers, *late):
                each.close()
        with Client(service.url, timeout=HANG, feedback_timeout=HANG) as client:
            wait_until(client.ready)
        counted = service.ask("GET", "/metrics").body.decode()
        assert 'bothworlds_problems_total{code="overloaded"}' in counted


def test_too_many_connections_are_refused_with_a_code(tmp_path):
    with served(tmp_path / "store.db", *OPTIONS, settings="connection.CONNECTIONS = 3") as service:
        kept = [socket.create_connection((service.host, service.port), HANG) for _ in range(3)]
        with socket.create_connection((service.host, service.port), HANG) as fourth:
            found = everything(fourth)
        assert found.startswith(b"HTTP/1.1 503")
        assert b'"overloaded"' in found
        for each in kept:
            each.close()
        with Client(service.url, timeout=HANG, feedback_timeout=HANG) as client:
            wait_until(client.ready)


def test_what_was_acknowledged_survives_a_stop(tmp_path):
    store = tmp_path / "store.db"
    told = []
    with served(store, *OPTIONS) as service:
        client = Client(service.url, timeout=HANG, feedback_timeout=HANG, retries=0)
        decisions = [each for _ in range(4) for each in client.decide_many("headline", 50)]

        def tell(decision):
            with contextlib.suppress(ConnectionError):
                if client.feedback(decision, loss=0.25) == "learned":
                    told.append(decision)

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            running = [pool.submit(tell, decision) for decision in decisions]
            wait_until(lambda: len(told) >= 20)
            assert service.stop() == 0, service.log()
            concurrent.futures.wait(running)
    assert 20 <= len(told) <= 200
    with served(store) as service:
        client = Client(service.url, timeout=HANG, feedback_timeout=HANG)
        assert set(client.feedback_many(told, losses=[0.25] * len(told))) == {"duplicate"}
        learned = client.experiment("headline")["learned"]
        assert learned >= len(told)
        log = service.ask("GET", "/v1/experiments/headline/export")
        assert log.body.count(b"\n") == 200
        assert log.headers["x-log-missing"] == "0"


def test_followers_of_events_do_not_hold_up_a_stop(tmp_path):
    with served(tmp_path / "store.db", *OPTIONS) as service:
        peer = socket.create_connection((service.host, service.port), HANG)
        path = b"GET /v1/experiments/headline/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
        peer.sendall(path)
        wait_until(lambda: b"checkpoints follow" in peer.recv(65_536))
        assert service.stop() == 0
        assert everything(peer).endswith(b"0\r\n\r\n")
        peer.close()


def test_ctrl_c_is_a_stop(tmp_path):
    running = Served(tmp_path / "store.db", *OPTIONS)
    assert running.stop(signal.SIGINT) == 0
    running.process.stdout.close()


def refused(*options):
    """Run `bothworlds serve` with options it refuses; return its exit code and its sentence."""
    ended = subprocess.run(
        [sys.executable, "-m", "bothworlds", "serve", *options],
        capture_output=True, text=True, timeout=HANG,
    )  # fmt: skip
    assert "Traceback" not in ended.stderr
    return ended.returncode, ended.stderr.strip().splitlines()[-1]


def test_what_cannot_be_served_is_refused_in_one_sentence(tmp_path):
    store = str(tmp_path / "store.db")
    code, sentence = refused("--host", "0.0.0.0", "--store", store)
    assert (code, "--require-keys" in sentence) == (2, True)
    code, sentence = refused("--experiment", "x", "--store", store)
    assert (code, "--arms" in sentence) == (2, True)
    code, sentence = refused(
        "--port", "0", "--experiment", "a b", "--arms", "x,y", "--store", store
    )
    assert code != 0 and "The name of an experiment must be" in sentence
    code, sentence = refused("--port", "0", "--store", str(tmp_path / "none" / "store.db"))
    assert code == 1 and sentence.endswith(".")
    (tmp_path / "text.db").write_text("no database " * 1000)
    code, sentence = refused("--port", "0", "--store", str(tmp_path / "text.db"))
    assert code == 1 and sentence.endswith(".")
    assert (tmp_path / "text.db").read_text() == "no database " * 1000


def test_a_second_process_and_a_port_in_use_are_refused(tmp_path):
    store = tmp_path / "store.db"
    with served(store, *OPTIONS) as service:
        code, sentence = refused("--port", "0", "--store", str(store))
        assert code == 1 and "another server" in sentence
        code, sentence = refused("--port", str(service.port), "--store", str(tmp_path / "b.db"))
        assert code == 2 and "Cannot listen on" in sentence
        assert service.ask("GET", "/readyz").status == 200
        # The store of a running server can be verified.
        verify = subprocess.run(
            [sys.executable, "-m", "bothworlds", "serve", "verify", "--store", str(store)],
            capture_output=True, text=True, timeout=HANG,
        )  # fmt: skip
        assert verify.returncode == 0, verify.stdout + verify.stderr
        assert "FAILS" not in verify.stdout
