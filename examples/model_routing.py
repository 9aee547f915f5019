"""Route requests to language models when prices are known at once and scores come late.

Three models answer; each call has a price, and a judge scores the answer between 0 and 1, some
tens to hundreds of requests later, in any order, and one time in ten never. The loss weighs both:
0.8 * (1 - score) + 0.2 * price. Half-way the vendor of "large" swaps in a cheaper model, unsaid.

What to learn here: a composite loss, `Bandit.tell` out of order with the decision's id, and
`Bandit.expire` for answers that never come. And the limit of the promise: Tsallis-INF is nearly
as good as the best single model in hindsight, it does not chase every change as fast as it could.

Writes model_routing.png; prints a table.
"""

import heapq
import sys
from pathlib import Path

import numpy as np

import bothworlds as bw
from bothworlds import plotting

MODELS = ["small", "medium", "large"]
PRICE = np.array([0.05, 0.25, 1.00])
SCORE = np.array([[0.55, 0.70, 0.95], [0.55, 0.70, 0.60]])  # before and after the swap
REQUESTS, RUNS, PATIENCE = 12_000, 5, 600


def losses(rng):
    """Return the loss every model would have on every request."""
    mean = np.repeat(SCORE, REQUESTS // 2, axis=0)
    # Beta-distributed scores: some answers are brilliant, some useless.
    score = rng.beta(3 * mean, 3 * (1 - mean))
    return 0.8 * (1 - score) + 0.2 * PRICE


def route(policy, table, delays, seed):
    """Send every request to a model and tell scores when they arrive; return the choices."""
    bandit = bw.Bandit(policy, arms=MODELS, seed=seed)
    waiting, chosen = [], np.zeros(len(table), dtype=int)
    for t, delay in enumerate(delays):
        decision = bandit.ask()
        chosen[t] = decision.index
        if np.isfinite(delay):
            heapq.heappush(waiting, (t + delay, decision.id, float(table[t, decision.index])))
        while waiting and waiting[0][0] <= t:
            _, answered, loss = heapq.heappop(waiting)
            bandit.tell(answered, loss=loss)
        # Every score that comes at all comes within PATIENCE requests; now and then is enough.
        if t % 100 == 99:
            bandit.expire(older_than=PATIENCE)
    return chosen, len(bandit.pending)


def main(folder):
    late = {bw.TsallisINF(): "Tsallis-INF", bw.ThompsonSampling(): "Thompson sampling"}
    cases = {f"{name}, {when}": (policy, when) for policy, name in late.items()
             for when in ("scores at once", "scores late")}  # fmt: skip
    paid = {name: [] for name in [*cases, *(f"always {model}" for model in MODELS)]}
    shares = {name: np.zeros((len(MODELS), REQUESTS)) for name in cases}
    for run in range(RUNS):
        rng = np.random.default_rng(run)
        table = losses(rng)
        delays = 20 + np.minimum(rng.exponential(120, REQUESTS), PATIENCE - 40)
        delays[rng.random(REQUESTS) < 0.1] = np.inf
        for name, (policy, when) in cases.items():
            arriving = delays if when == "scores late" else np.zeros(REQUESTS)
            chosen, pending = route(policy, table, arriving, run)
            paid[name].append(table[np.arange(REQUESTS), chosen].mean())
            shares[name] += (np.arange(len(MODELS))[:, None] == chosen) / RUNS
        for k, model in enumerate(MODELS):
            paid[f"always {model}"].append(table[:, k].mean())
    print(f"{'mean loss per request':38}{'':>8}")
    for name, runs in sorted(paid.items(), key=lambda item: np.mean(item[1])):
        print(f"{name:38}{np.mean(runs):8.4f} ± {np.std(runs, ddof=1) / RUNS**0.5:.4f}")
    print(
        f"still waiting at the end of the last run: {pending} requests, none older than {PATIENCE}"
    )

    with plotting.style():
        figure, axes = plotting.panels(1, 2, 3.2, sharey=True)
        smooth = np.ones(200) / 200
        for panel, name in zip(axes[0], [n for n in cases if n.endswith("late")], strict=True):
            curves = [np.convolve(share, smooth, mode="valid") for share in shares[name]]
            at = np.arange(len(curves[0])) + 100
            panel.stackplot(at, curves, labels=MODELS, colors=["#56B4E9", "#009E73", "#D55E00"])
            panel.axvline(REQUESTS / 2, color="black", linewidth=1.0)
            panel.set(xlabel="requests", xlim=(100, REQUESTS - 100), ylim=(0, 1), title=name)
            panel.locator_params(axis="x", nbins=5)
        axes[0, 0].set_ylabel("share of requests")
        axes[0, 0].annotate("large gets worse", (REQUESTS / 2, 0.5), xytext=(-5, 0), ha="right",
                            textcoords="offset points", color="white")  # fmt: skip
        plotting.shared_legend(figure, 3)
        plotting.save(figure, folder / "model_routing.png")


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "examples-output")
    folder.mkdir(parents=True, exist_ok=True)
    main(folder)
