"""Choose among 100,000 items of which a few are good.

A shop shows one item of a large catalogue at a time. Ten of its 100,000 items sell to nine visitors
in ten, all others to one in ten, and nothing is known of them at first. From 512 arms on,
Tsallis-INF does not look at every arm in every round: a decision here takes about a millionth of a
second instead of a ten-thousandth, with the same exact probabilities.

What to learn here: with K items and T visitors, regret of the order sqrt(K T) cannot be avoided in
general, and before T is well beyond K no learner does much better than showing items at random. A
catalogue of this size takes half a million visitors to learn; from then on Tsallis-INF stays near
sqrt(K T). A bandit over all items by name is used, saved and loaded like a small one.

Writes many_items.png; prints a table.
"""

import sys
import time
from pathlib import Path

import numpy as np

import bothworlds as bw
from bothworlds import plotting

ITEMS, GOOD, VISITORS, RUNS = 100_000, 10, 2_000_000, 2
LOSSES = np.where(np.arange(ITEMS) < GOOD, 0.1, 0.9)


def shop_by_name(folder):
    """Let a bandit over names meet visitors for a moment, across a restart; print what it took."""
    rng = np.random.default_rng(0)
    bandit = bw.Bandit(bw.TsallisINF(), arms=[f"item {i}" for i in range(ITEMS)], seed=1)
    began, visits = time.perf_counter(), 20_000
    for _ in range(visits):
        decision = bandit.ask()
        bandit.tell(decision, reward=float(rng.random() > LOSSES[decision.index]))
    each = (time.perf_counter() - began) / visits
    bandit.save(folder / "shop.json")
    bandit = bw.Bandit.load(folder / "shop.json")
    decision = bandit.ask()
    print(f"one bandit, {ITEMS:,} names: {1e6 * each:.1f} microseconds a visitor")
    print(f"after a restart: {decision.arm}, probability {decision.probability:.2e}\n")


def main(folder):
    shop_by_name(folder)
    policies = [bw.TsallisINF(estimator="iw"), bw.TsallisINF(), bw.Uniform()]
    world = bw.environments.Stochastic(LOSSES)
    result = bw.simulate(
        policies, world, horizon=VISITORS, repetitions=RUNS, seed=1, progress=False
    )
    t = result.checkpoints
    least = np.sqrt(ITEMS * t)

    print(f"sales lost against the best item, mean of {RUNS} runs")
    shown = [int(np.searchsorted(t, when)) for when in (10_000, 100_000, 1_000_000, VISITORS)]
    print(f"{'visitors':28}" + "".join(f"{t[k]:>12,}" for k in shown))
    for name, regret in result.regret.items():
        print(f"{name:28}" + "".join(f"{regret[:, k].mean():12,.0f}" for k in shown))
    print(f"{'sqrt(K T)':28}" + "".join(f"{least[k]:12,.0f}" for k in shown))
    for name, seconds in result.cpu.items():
        print(f"{name}: {seconds / (RUNS * VISITORS) * 1e9:.0f} ns a round")

    with plotting.style():
        figure, axes = plotting.panels(1, 1, 3.8, width=5.2)
        panel = axes[0, 0]
        late = t >= 10_000
        for look in plotting.looks(result.regret).values():
            runs = result.regret[look.label][:, late]
            plotting.draw_curve(panel, t[late], runs, look, band="se")
        plotting.draw_bound(panel, t[late], least[late], "lower", "sqrt(K T)")
        panel.set(xlabel="visitors", ylabel="sales lost", xscale="log", yscale="log")
        plotting.shared_legend(figure, 2)
        plotting.note(figure, f"{ITEMS:,} items, {GOOD} of them good; mean of {RUNS} runs")
        plotting.save(figure, folder / "many_items.png")


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "examples-output")
    folder.mkdir(parents=True, exist_ok=True)
    main(folder)
