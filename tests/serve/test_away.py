"""Process that makes reports, exports and pages: it may end at any time, and nothing else does."""

import json
import os
import signal
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from bothworlds.client import Client
from bothworlds.serve.background import background
from bothworlds.serve.domain.service import Service
from bothworlds.serve.ops.away import Away
from bothworlds.serve.store.opening import reading, using
from helpers.waiting import HANG, wait_until
from serve.conftest import BOTH

pytestmark = pytest.mark.processes


@pytest.fixture(params=BOTH)
def dialect(request):
    return request.param


@pytest.fixture
def aways(monkeypatch):
    """Note every `Away` that a server gets."""
    made = []
    begin = Away.__init__

    def noted(away, where):
        begin(away, where)
        made.append(away)

    monkeypatch.setattr(Away, "__init__", noted)
    return made


def get(url):
    with urllib.request.urlopen(url, timeout=HANG) as answer:
        return answer.read()


def test_a_report_and_an_export_survive_the_end_of_the_process(where, aways):
    with background(where()) as url, Client(url, timeout=HANG) as client:
        client.create("headline", ["a", "b"])
        told = {client.decide("headline").decision_id: 0.5 for _ in range(20)}
        for token, loss in told.items():
            client.feedback(token, loss=loss)
        one = f"{url}/v1/experiments/headline"
        (away,) = aways
        assert away.pid is None
        first = json.loads(get(f"{one}/report"))
        pid = away.pid
        assert pid not in (None, os.getpid())
        # Decisions reach the log a moment after they were answered.
        wait_until(lambda: get(f"{one}/export").count(b"\n") == 20)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not away.up)
        for token, loss in told.items():
            assert client.feedback(token, loss=loss) == "duplicate"
        again = json.loads(get(f"{one}/report"))
        assert away.pid != pid
        assert again["arms"] == first["arms"]
        lines = get(f"{one}/export").decode().splitlines()
        assert len(lines) == 20
        assert all(any(token in line for line in lines) for token in told)
        last = away.pid
    # The server has waited for it: the number is no process of this one.
    with pytest.raises(ChildProcessError):
        os.waitpid(last, 0)


def test_a_report_whose_process_is_killed_is_refused_and_decisions_go_on(where, aways):
    with background(where()) as url, Client(url, timeout=HANG) as client:
        client.create("headline", ["a", "b"])
        get(f"{url}/v1/experiments/headline/export")
        (away,) = aways
        stopped = away.pid
        os.kill(stopped, signal.SIGSTOP)
        with ThreadPoolExecutor(1) as thread:
            asking = thread.submit(get, f"{url}/v1/experiments/headline/report")
            assert client.decide("headline").arm in ("a", "b")
            os.kill(stopped, signal.SIGKILL)
            with pytest.raises(urllib.error.HTTPError) as refused:
                asking.result(HANG)
        # Or another process was asked: the report came after the end of the first one.
        code = json.loads(refused.value.read())["code"]
        assert code in ("store_unavailable", "nothing_logged")


def test_work_is_refused_with_its_own_code(where):
    with background(where()) as url, Client(url, timeout=HANG) as client:
        client.create("headline", ["a", "b"])
        with pytest.raises(urllib.error.HTTPError) as refused:
            get(f"{url}/v1/experiments/headline/report")
        assert json.loads(refused.value.read())["code"] == "nothing_logged"


def test_the_process_cannot_write(where):
    with using(where(), create=True):
        reader, failures = reading(where())
        with pytest.raises(failures):
            reader.execute("UPDATE deployment SET config_version = 7")


def test_a_service_without_a_server_has_no_process(served):
    async def body(service: Service):
        assert service.state.away is None

    served(body)
