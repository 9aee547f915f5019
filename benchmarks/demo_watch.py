"""Watch ``bothworlds demo`` from outside: memory, files and threads, while a browser shows it.

Run ``python -m benchmarks.demo_watch --seconds 600``. Reads /proc, so Linux only.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path


def figures(process):
    """Return resident memory in MB, open files, threads and seconds of CPU of a process."""
    status = Path(f"/proc/{process}/status").read_text()
    resident = int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024
    threads = int(re.search(r"Threads:\s+(\d+)", status)[1])
    files = len(os.listdir(f"/proc/{process}/fd"))
    stat = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    cpu = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
    return resident, files, threads, cpu


def get(url):
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--every", type=float, default=60.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        running = subprocess.Popen(
            [sys.executable, "-m", "bothworlds", "demo", "--no-browser"],
            stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": folder},
        )  # fmt: skip
        addresses = []
        while len(addresses) < 2:
            addresses += re.findall(r"http://\S+", running.stdout.readline())
        page, service = addresses
        # What the process prints must be read, or it would wait for it.
        reader = subprocess.Popen(["cat"], stdin=running.stdout, stdout=subprocess.DEVNULL)
        print(f"{'seconds':>8}{'MB':>8}{'files':>7}{'threads':>9}{'CPU s':>8}{'store MB':>10}"
              f"{'rounds':>9}")  # fmt: skip
        begun, shown = time.monotonic(), 0.0
        while shown <= options.seconds:
            now = time.monotonic() - begun
            get(page)
            get(f"{service}/v1/experiments")
            rounds = json.loads(get(f"{page}/standing.json"))[0]["rounds"]
            if now >= shown:
                shown += options.every
                resident, files, threads, cpu = figures(running.pid)
                store = sum(each.stat().st_size for each in Path(folder).rglob("*.db*")) / 2**20
                print(f"{now:8.0f}{resident:8.0f}{files:7}{threads:9}{cpu:8.0f}{store:10.0f}"
                      f"{rounds:9,}", flush=True)  # fmt: skip
            time.sleep(1.0)
        running.send_signal(signal.SIGINT)
        code = running.wait(60)
        reader.wait(60)
        left = os.listdir(folder)
    print(f"ended with {code}, left behind: {left or 'nothing'}")


if __name__ == "__main__":
    main()
