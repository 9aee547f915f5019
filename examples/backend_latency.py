"""Pick a back end while latencies drift and an attacker watches.

Five back ends answer requests. Load comes and goes and slows all of them alike, for longer and
longer spells; one of them, "oslo", is 80 ms faster than the rest throughout. An attacker knows
which, and keeps it busy until the timeout during the first 200 requests, when a learner is most
easily impressed. Latencies go to the bandit as they are, in milliseconds.

What to learn here: ``bounds`` for losses in your own units, and why a policy that averages, such
as UCB1 or Thompson sampling, is led astray where Tsallis-INF is not: when the level moves, plays
of different times cannot be compared, and early lies are never outweighed.

Writes backend_latency.png; prints mean and 95th percentile.
"""

import sys
from pathlib import Path

import numpy as np

import bothworlds as bw
from bothworlds import plotting

BACKENDS = ["lima", "oslo", "pune", "rome", "suva"]
FAST = BACKENDS.index("oslo")
TIMEOUT, REQUESTS, RUNS, ATTACKED = 1000.0, 20_000, 6, 200


def load(t):
    """Return the milliseconds that load adds, by spells of growing length: quiet, busy, quiet..."""
    return np.where(np.floor(np.log(1 + t) / np.log(1.6)).astype(int) % 2, 600.0, 50.0)


def latencies(rng):
    """Return what every back end would answer to every request, in milliseconds."""
    t = np.arange(REQUESTS)
    own = np.full(len(BACKENDS), 160.0)
    own[FAST] = 80.0
    noise = rng.gamma(2.0, 40.0, size=(REQUESTS, len(BACKENDS)))
    return np.minimum(load(t)[:, None] + own + noise, TIMEOUT)


def main(folder):
    policies = [bw.TsallisINF(), bw.Exp3(), bw.ThompsonSampling(), bw.UCB1()]
    waited = {policy: np.zeros((RUNS, REQUESTS)) for policy in policies}
    excess = {policy: np.zeros((RUNS, REQUESTS)) for policy in policies}
    fastest = []
    for run in range(RUNS):
        table = latencies(np.random.default_rng(run))
        fastest.append(table[:, FAST])
        for policy in policies:
            bandit = bw.Bandit(policy, arms=BACKENDS, bounds=(0, TIMEOUT), seed=run)
            for t in range(REQUESTS):
                decision = bandit.ask()
                took = float(table[t, decision.index])
                if decision.index == FAST and t < ATTACKED:
                    took = TIMEOUT
                bandit.tell(decision, loss=took)
                waited[policy][run, t] = took
                excess[policy][run, t] = took - table[t, FAST]

    print(f"{'milliseconds':24}{'mean':>8}{'95 %':>8}{'second half':>14}")
    rows = {"always oslo, no attack": np.array(fastest)}
    rows |= {repr(policy): waited[policy] for policy in policies}
    for name, took in rows.items():
        half = took[:, REQUESTS // 2 :].mean()
        print(f"{name:24}{took.mean():8.0f}{np.percentile(took, 95):8.0f}{half:14.0f}")

    with plotting.style():
        figure, axes = plotting.panels(2, 1, 4.6, sharex=True, height_ratios=[1, 2])
        top, bottom = axes[:, 0]
        t = np.arange(REQUESTS)
        top.plot(t, load(t) + 240, color="#8C8C8C", label="the other four", linewidth=1.2)
        top.plot(t, load(t) + 160, color="black", label="oslo", linewidth=1.2)
        top.set(ylabel="mean latency (ms)", ylim=(0, 1000))
        top.legend(loc="center right", bbox_to_anchor=(0.95, 0.55))
        for policy, look in zip(
            policies, plotting.looks(map(repr, policies)).values(), strict=True
        ):
            total = excess[policy].cumsum(axis=1)[:, ::50] / 1000
            plotting.draw_curve(bottom, t[::50], total, look, band="se")
        bottom.set(xlabel="requests", ylabel="seconds lost to oslo", xlim=(0, REQUESTS))
        bottom.set_ylim(0, None)
        bottom.legend(loc="upper left")
        plotting.note(figure, f"{RUNS} runs; line: mean, band: two standard errors of it")
        plotting.save(figure, folder / "backend_latency.png")


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "examples-output")
    folder.mkdir(parents=True, exist_ok=True)
    main(folder)
