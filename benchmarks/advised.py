"""Cost of advice: decisions compared with `Bandit`, and simulation with Tsallis-INF over N arms.

Limits: 3 microseconds more than `Bandit` with 4 experts and 8 arms, 15 more with 64 and 64, the
reading of the advice not counted; in lanes 3 times the cost of Tsallis-INF with N arms; in the
service 1.3 times a decision without experts, in CPU time of the server, with 8 experts.
"""

from __future__ import annotations

import json
import tempfile
import urllib.request
from pathlib import Path

import numpy as np

import bothworlds as bw
from benchmarks import serve
from benchmarks.duel import TRIES, microseconds, once
from bothworlds.environments import Advised, Stochastic

SIZES = ((4, 8, 3.0), (64, 64, 15.0))
LIMIT = 3.0
SERVED = 1.3


def decisions() -> None:
    """Print microseconds for a decision and its feedback, from Python."""
    print("ask + tell, microseconds: Bandit, AdvisedBandit, of which reading the advice")
    for n_experts, n_arms, limit in SIZES:
        plain = bw.Bandit(bw.TsallisINF(), n_arms, seed=1)
        advised = bw.AdvisedBandit(bw.TsallisINF(), n_arms, n_experts, seed=1)
        advice = {j: j % n_arms for j in range(n_experts)}
        alone = microseconds(lambda bandit=plain: bandit.tell(bandit.ask(), loss=0.5))
        whole = microseconds(
            lambda bandit=advised, advice=advice: bandit.tell(bandit.ask(advice), loss=0.5)
        )
        reading = microseconds(lambda reader=advised._reader, advice=advice: reader.read(advice))
        more = whole - reading - alone
        verdict = "within" if more <= limit else "ABOVE"
        print(
            f"  N = {n_experts:2d}, K = {n_arms:2d}{alone:8.1f}{whole:8.1f}{reading:8.1f}: "
            f"{more:.1f} more, {verdict} the limit of {limit:g}",
            flush=True,
        )


def engine() -> None:
    """Print the cost of simulated rounds with advice, in rounds of Tsallis-INF over N arms."""
    means = np.full((4, 4), 0.55) - 0.2 * np.eye(4)
    maps = [*([arm] * 4 for arm in range(4)), [0, 1, 2, 3], [0, 1, 0, 0], [3, 3, 2, 3]]
    maps = [*([(arm + shift) % 4 for arm in (0, 0, 1, 2)] for shift in range(9)), *maps]
    print("simulated rounds, nanoseconds: with advice, Tsallis-INF over N arms, ratio")
    for policy in (bw.TsallisINF(), bw.TsallisINF(estimator="iw"), bw.TsallisINFV()):
        for n_experts in (4, 7, 16):
            pair = Advised(4, means, maps[-n_experts:]), Stochastic.gap(n_experts, 0.2)
            best = [min(once(policy, world, 10_000) for _ in range(1 + TRIES)) for world in pair]
            ratio = best[0] / best[1]
            verdict = "within" if ratio <= LIMIT else "ABOVE"
            shown = f"{best[0]:8.1f}{best[1]:8.1f}{ratio:8.2f}, {verdict} the limit of {LIMIT:g}"
            print(f"  {policy!r:28} N = {n_experts}{shown}", flush=True)


def served(turns: int = 12) -> None:
    """Print the CPU time of decisions of the service with 8 experts and without, in turns."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with serve.service(str(folder / "bench.db")) as (server, key):
            created = {
                "name": "advised", "arms": [f"arm{i}" for i in range(serve.ARMS)],
                "experts": serve.EXPERTS,
            }  # fmt: skip
            headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
            address = f"{server.url}/v1/experiments"
            request = urllib.request.Request(address, json.dumps(created).encode(), headers)
            urllib.request.urlopen(request).close()
            cpu: dict[str, list[float]] = {"decide": [], "advised": []}
            for _ in range(turns):
                for what, found in cpu.items():
                    load = serve.asked(server, what, key, serve.CONNECTIONS, serve.SECONDS, folder)
                    found.append(load.cpu)
    plain, advised = (min(found) for found in cpu.values())
    verdict = "within" if advised / plain <= SERVED else "ABOVE"
    print("a decision of the service, microseconds of CPU: without experts, with 8, ratio")
    print(f"  {plain:8.1f}{advised:8.1f}{advised / plain:8.2f}, {verdict} the limit of {SERVED:g}")


def main() -> None:
    """Run all of it."""
    decisions()
    engine()
    served()


if __name__ == "__main__":
    main()
