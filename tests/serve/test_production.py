"""The production walkthrough, run block by block with the real PostgreSQL and nginx."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from helpers.ports import free_port
from helpers.waiting import HANG

pytestmark = [pytest.mark.processes, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/service/production.md"
BLOCK = re.compile(r"^```(sh|toml|yaml|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FOLDERS = ("bin", "run", "deploy", "etc/systemd/system", "etc/nginx/conf.d", "etc/ssl/certs",
           "etc/ssl/private", "etc/prometheus", "var")  # fmt: skip

SYSTEMCTL = """#!{python}
# Starts and stops what the units state: this machine may have no running systemd.
import contextlib, os, pathlib, re, shlex, subprocess, sys, time
import psutil
root = pathlib.Path({root!r})
action, *units = [word for word in sys.argv[1:] if word != "--now"]
for unit in units:
    note = root / "run" / unit
    if action in ("stop", "restart") and note.exists():
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(int(note.read_text()))
            process.terminate()
            process.wait({hang})
        note.unlink()
    if action in ("enable", "start", "restart"):
        env = dict(os.environ)
        if unit == "nginx":
            command = ["{nginx}", "-p", str(root), "-c", str(root / "nginx.conf")]
        else:
            name, _, port = unit.partition("@")
            text = (root / "etc/systemd/system" / (name + "@.service")).read_text()
            command = shlex.split(re.search("^ExecStart=(.*)$", text, re.M)[1].replace("%i", port))
            env.pop("BOTHWORLDS_STORE", None)
            secrets = pathlib.Path(re.search("^EnvironmentFile=(.*)$", text, re.M)[1])
            for line in secrets.read_text().split():
                key, _, value = line.partition("=")
                env[key] = value
        with open(root / "run" / (unit + ".log"), "ab") as log:
            started = subprocess.Popen(
                command, env=env, stdout=log, stderr=log, start_new_session=True
            )
        note.write_text(str(started.pid))
        # A unit is active once it listens: then nginx writes this file.
        while unit == "nginx" and not (root / "run/nginx.pid").exists():
            assert started.poll() is None
            time.sleep(0.01)
"""
RUNUSER = '#!/bin/sh\nshift 3\nexec "$@"\n'
CURL = '#!/bin/sh\nexec {curl} -sS --cacert {pem} --resolve {name}:{port}:127.0.0.1 "$@"\n'
NAME = "bandit.example.com"


class Machine:
    """A folder that stands for a machine: its /etc and /var, its ports, and a database server."""

    def __init__(self, folder, server):
        self.root = folder
        for name in FOLDERS:
            (folder / name).mkdir(parents=True)
        uri = server._server.get_uri()
        host = re.search(r"host=([^&]+)", uri)[1]
        tools = Path(server.processes()[0].exe()).parent
        first, second, tls = free_port(), free_port(), free_port()
        self._changes = [
            (r"/opt/bothworlds/bin/bothworlds", f"{sys.executable} -m bothworlds"),
            (r"(?<![\w.])/(etc|var)/", rf"{folder}/\1/"),
            (r"@127\.0\.0\.1/bothworlds", f"@/bothworlds?host={host}"),
            (r"\b8080\b", str(first)),
            (r"\b8081\b", str(second)),
            (r"listen 443 ssl", f"listen 127.0.0.1:{tls} ssl"),
            (rf"https://{NAME}", f"https://{NAME}:{tls}"),
        ]
        for path in (ROOT / "deploy").iterdir():
            if path.is_file():
                (folder / "deploy" / path.name).write_text(self.here(path.read_text("utf-8")))
        nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
        if nginx is None:
            pytest.fail("This test needs nginx on the path: apt-get install nginx.")
        (folder / "nginx.conf").write_text(
            f"pid {folder}/run/nginx.pid; error_log {folder}/run/nginx.log; daemon off;\n"
            f"events {{ worker_connections 64; }}\n"
            f"http {{ access_log off; include {folder}/etc/nginx/conf.d/*.conf; }}\n"
        )
        pem = folder / f"etc/ssl/certs/{NAME}.pem"
        for name, text in (
            ("systemctl", SYSTEMCTL.format(
                python=sys.executable, root=str(folder), nginx=nginx, hang=HANG)),
            ("runuser", RUNUSER),
            ("curl", CURL.format(curl=shutil.which("curl"), pem=pem, name=NAME, port=tls)),
        ):  # fmt: skip
            (folder / "bin" / name).write_text(text)
            (folder / "bin" / name).chmod(0o755)
        path = f"{folder}/bin:{tools}:{os.environ['PATH']}"
        user = re.match(r"postgresql://([^:@/]*)", uri)[1]
        self._env = {**os.environ, "PATH": path, "PGHOST": host, "PGUSER": user, "NO_COLOR": "1"}

    def here(self, text):
        """Return a text with the paths and ports of this machine."""
        for pattern, replacement in self._changes:
            text = re.sub(pattern, replacement, text)
        return text

    def run(self, script):
        """Run a block of the page and return what it prints."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self.here(script)], cwd=self.root, env=self._env,
            capture_output=True, text=True, timeout=HANG,
        )  # fmt: skip
        assert done.returncode == 0, (script, done.stdout, done.stderr, self.logs())
        return done.stdout

    def logs(self):
        return {each.name: each.read_text() for each in (self.root / "run").glob("*.log")}

    def stop(self):
        """End the processes that the page started, by their numbers, all at once."""
        ending = []
        for note in (self.root / "run").iterdir():
            if note.suffix not in (".log", ".pid"):
                with contextlib.suppress(psutil.NoSuchProcess):
                    ending.append(psutil.Process(int(note.read_text())))
                    ending[-1].send_signal(signal.SIGTERM)
        _, left = psutil.wait_procs(ending, HANG)
        assert not left


@pytest.fixture
def machine(tmp_path):
    from serve.databases import Server

    server = Server()
    made = Machine(tmp_path, server)
    yield made
    made.stop()
    server.stop()


def sections(text):
    """Return the blocks of every section of the page, by its title."""
    titles = re.split(r"^## (.*)$", text, flags=re.MULTILINE)[1:]
    return {
        title: BLOCK.findall(body) for title, body in zip(titles[::2], titles[1::2], strict=True)
    }


def test_the_walkthrough_works_as_it_is_written(machine):
    printed = {}
    for title, blocks in sections(PAGE.read_text(encoding="utf-8")).items():
        printed[title] = ""
        for language, text in blocks:
            if language == "sh":
                printed[title] += machine.run(text)
            elif language in ("toml", "yaml"):
                path, _, content = text.removeprefix("# ").partition("\n")
                Path(machine.here(path)).write_text(machine.here(content))
            else:
                assert title == "Install", "only what needs the network is not run"
    assert list(printed) == ["Install", "Database", "Experiments", "Keys", "Replicas", "TLS",
                             "Decide", "Metrics", "Backup", "Restore"]  # fmt: skip
    assert printed["Experiments"].count("headline: create with the arms blue, green") == 2
    assert "decide,feedback  shop" in printed["Keys"] and "read  prometheus" in printed["Keys"]
    assert printed["Replicas"].count('"status":"ok"') == 2
    assert printed["Decide"].endswith('{"status":"learned"}')
    assert 'bothworlds_experiment_learned_total{arm="' in printed["Metrics"]
    assert "holds" in printed["Restore"] and "FAILS" not in printed["Restore"]
    # What was learned is there again, and the file still states what the store has.
    again = machine.run(
        "set -a; . /etc/bothworlds/environment; set +a\n"
        "/opt/bothworlds/bin/bothworlds serve plan --config /etc/bothworlds/bothworlds.toml\n"
        "/opt/bothworlds/bin/bothworlds serve replay\n"
    )
    assert "nothing to change" in again and "1 rows, equal" in again
    secret = (machine.root / "etc/bothworlds/shop.key").read_text().strip()
    for log in machine.logs().values():
        assert secret not in log and "change-me" not in log


def test_every_block_is_of_a_kind_that_is_run():
    text = PAGE.read_text(encoding="utf-8")
    assert text.count("\n```") == 2 * len(BLOCK.findall(text))
