"""The first call: CPU seconds of a whole process, with an empty cache and with a full one."""

import contextlib
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.request import urlopen

FLOOR = "import numba\n@numba.njit\ndef f(x): return x + 1\nf(1)"
DECIDED = """
import bothworlds as bw
bandit = bw.Bandit(bw.TsallisINF(), arms=3, seed=1{})
bandit.tell(bandit.ask(), loss=0.5){}
"""
SIMULATED = """
import bothworlds as bw
world = bw.environments.Stochastic.gap(8, 0.125)
bw.simulate(bw.TsallisINF(), world, horizon=1000, repetitions=16, progress=False)
"""
PROGRAMS = {
    "import numba and one kernel of one line": FLOOR,
    "first ask and tell, evidence=False": DECIDED.format(", evidence=False", ""),
    "first ask and tell": DECIDED.format("", ""),
    "first ask, tell and report": DECIDED.format("", "\nbandit.report()"),
    "first simulate, 8 arms": SIMULATED,
}
TURNS = 3


def spent(code: str, cache: str) -> float:
    """Return the CPU seconds of a process that runs ``code`` and ends."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def served(cache: str, *more: str) -> float:
    """Return the CPU seconds of a service until it is ready; on Linux."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    store = ["--store", str(Path(cache, f"{port}.db"))]
    command = [sys.executable, "-m", "bothworlds", "serve", "--port", str(port), *store, *more]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
        try:
            while process.poll() is None:
                with contextlib.suppress(OSError), urlopen(f"http://127.0.0.1:{port}/readyz"):
                    break
                time.sleep(0.05)
            user, system = Path(f"/proc/{process.pid}/stat").read_text().split()[13:15]
        finally:
            process.terminate()
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Print the table."""
    print(f"{'CPU seconds of a process':45s} nothing compiled  compiled before")
    measured: dict[str, Callable[[str], float]] = {
        name: partial(spent, code) for name, code in PROGRAMS.items()
    }
    measured["bothworlds serve, ready"] = served
    one = ("--experiment", "headline", "--arms", "blue,green,red")
    measured["bothworlds serve with an experiment, ready"] = lambda cache: served(cache, *one)
    for name, measure in measured.items():
        cold, warm = [], []
        for _ in range(TURNS):
            with tempfile.TemporaryDirectory() as cache:
                cold.append(measure(cache))
                warm.append(measure(cache))
        print(f"  {name:43s} {min(cold):12.2f} {min(warm):16.2f}", flush=True)
