"""Proxies of deploy/, run by the real nginx and Caddy in front of a real service."""

import contextlib
import http.client
import json
import re
import shutil
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.ports import free_port
from helpers.served import served
from helpers.waiting import HANG, wait_until

pytestmark = [pytest.mark.processes]

DEPLOY = Path(__file__).parents[2] / "deploy"
NAME = "bandit.example.com"


def program(name):
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    if found is None:
        pytest.fail(f"This test needs {name} on the path: apt-get install {name}.")
    return found


def nginx(folder, port, upstream):
    """Return the command that runs deploy/nginx.conf on this port, with an own certificate."""
    pem, key = folder / "own.pem", folder / "own.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         f"/CN={NAME}", "-keyout", key, "-out", pem],
        check=True, capture_output=True,
    )  # fmt: skip
    site = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    site = site.replace("listen 443 ssl", f"listen 127.0.0.1:{port} ssl")
    # The second replica is down: requests go to the first.
    site = site.replace("127.0.0.1:8080", f"127.0.0.1:{upstream}")
    site = re.sub(r"/etc/ssl/\S+\.pem", str(pem), re.sub(r"/etc/ssl/\S+\.key", str(key), site))
    whole = (
        f"pid {folder}/nginx.pid; error_log {folder}/error.log; daemon off;\n"
        f"events {{ worker_connections 64; }}\nhttp {{ access_log off;\n{site}\n}}\n"
    )
    (folder / "nginx.conf").write_text(whole)
    return [program("nginx"), "-p", folder, "-c", folder / "nginx.conf"]


def caddy(folder, port, upstream):
    """Return the command that runs deploy/Caddyfile on this port, with its internal certificate."""
    site = (DEPLOY / "Caddyfile").read_text(encoding="utf-8")
    site = site.replace(f"{NAME} {{", f"https://{NAME}:{port} {{\n\ttls internal", 1)
    site = site.replace("127.0.0.1:8080", f"127.0.0.1:{upstream}")
    own = ["admin off", "auto_https disable_redirects", "skip_install_trust",
           "grace_period 1s", f"storage file_system {folder}/caddy"]  # fmt: skip
    (folder / "Caddyfile").write_text("{\n" + "\n".join(own) + "\n}\n" + site)
    return [program("caddy"), "run", "--config", folder / "Caddyfile", "--adapter", "caddyfile"]


@contextlib.contextmanager
def proxied(make, folder, upstream):
    """Run a proxy and yield a function that opens TLS connections to it."""
    port = free_port()
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE

    def connected():
        raw = socket.create_connection(("127.0.0.1", port), HANG)
        connection = http.client.HTTPSConnection(NAME, port, context=trusting, timeout=HANG)
        connection.sock = trusting.wrap_socket(raw, server_hostname=NAME)
        return connection

    def up():
        with contextlib.suppress(OSError):
            connected().close()
            return True
        assert process.poll() is None, (folder / "output").read_text()
        return False

    with open(folder / "output", "wb") as output:
        process = subprocess.Popen(
            [str(part) for part in make(folder, port, upstream)], stdout=output, stderr=output,
            env={"HOME": str(folder), "PATH": "/usr/bin:/bin"},
        )  # fmt: skip
    try:
        wait_until(up)
        yield connected
    finally:
        process.terminate()
        process.wait(HANG)


def ask(connected, method, path, document=None, key=None):
    connection = connected()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    body = None if document is None else json.dumps(document)
    with contextlib.closing(connection):
        connection.request(method, path, body, {**headers, "Host": NAME})
        answer = connection.getresponse()
        return answer.status, answer.read()


@pytest.mark.parametrize("make", [nginx, caddy], ids=["nginx", "caddy"])
def test_decisions_feedback_and_events_pass(make, tmp_path):
    store = tmp_path / "store.db"
    done = subprocess.run(
        [sys.executable, "-m", "bothworlds", "serve", "key", "create", "--store", str(store),
         "--scopes", "decide,feedback,read,admin"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    key = done.stdout.split()[-1]
    with served(store, "--require-keys") as service, proxied(make, tmp_path, service.port) as via:
        wait_until(lambda: ask(via, "GET", "/readyz")[0] == 200)
        arms = [{"name": "blue"}, {"name": "green"}]
        made = ask(via, "POST", "/v1/experiments", {"name": "headline", "arms": arms}, key)
        assert made[0] == 201, made
        status, body = ask(via, "POST", "/v1/experiments/headline/decisions", {}, key)
        assert status == 201
        id = json.loads(body)["decision_id"]
        status, body = ask(via, "PUT", f"/v1/decisions/{id}/feedback", {"reward": 1.0}, key)
        assert (status, json.loads(body)["status"]) == (200, "learned")
        assert ask(via, "POST", "/v1/experiments/headline/decisions", {}, "bw_no_key")[0] == 401
        # The first event arrives although the stream goes on: the proxy does not hold it back.
        connection = via()
        with contextlib.closing(connection):
            headers = {"Authorization": f"Bearer {key}", "Host": NAME}
            connection.request("GET", "/v1/experiments/headline/events", headers=headers)
            answer = connection.getresponse()
            assert answer.status == 200
            assert answer.getheader("content-type").startswith("text/event-stream")
            assert answer.fp.readline()
