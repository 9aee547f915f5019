"""Coverage of intervals of 64 runs for the mean of 2,048: ``python -m benchmarks coverage``.

Four kinds of interval at a nominal 95 %, each on 300 samples: percentiles of the bootstrap; the
bootstrap studentised on both sides alike; studentised on each side by itself; and the last one
withheld where a few runs carry the mean, as `Result.compare` and `Result.ranking` do.
"""

import numpy as np

import bothworlds as bw
from bothworlds.simulation.intervals import pivots, resampled, standard_error, withheld

SAMPLES, RUNS, POPULATION, RESAMPLES = 300, 64, 2048, 1999
TAILS = (0.025, 0.975)


def populations() -> dict[str, np.ndarray]:
    """Return differences in regret, simulated and made up, by name."""
    policies = {"UCB1": bw.UCB1(), "RV": bw.TsallisINF(), "EXP3": bw.Exp3()}
    policies["Thompson"] = bw.ThompsonSampling()
    world = bw.environments.Switching(4, 1 / 4)
    result = bw.simulate(
        policies, world, horizon=300_000, repetitions=POPULATION, seed=0, checkpoints=[300_000]
    )
    last = {name: runs[:, -1] for name, runs in result.regret.items()}
    pairs = [("UCB1", "RV"), ("UCB1", "EXP3"), ("Thompson", "RV"), ("EXP3", "RV")]
    found = {f"switching: {a} minus {b}": last[a] - last[b] for a, b in pairs}
    rng = np.random.default_rng(11)
    base = rng.standard_normal(POPULATION)
    found |= {"normal": 1.0 + 3.0 * base, "exponential": rng.exponential(size=POPULATION)}
    found |= {f"lognormal, sigma {s:g}": np.exp(s * base) for s in (1.0, 1.5, 2.0)}
    for share in (0.03, 0.05, 0.1, 0.15, 0.2, 0.3):
        heavy = 100.0 * (np.arange(POPULATION) < share * POPULATION)
        found[f"normal, and {share:.0%} at 100"] = 5.0 + base + heavy
    return found


def intervals(runs: np.ndarray, weights: np.ndarray) -> list[tuple[float, float]]:
    """Return the four intervals of a sample."""
    mean = runs.mean()
    influence = runs - mean
    error = float(standard_error(influence))
    drawn = weights @ influence
    t = pivots(drawn, influence, weights)
    low, high = np.quantile(drawn, TAILS)
    alike = np.quantile(np.abs(t), 0.95)
    left, right = np.quantile(t, TAILS)
    each = (mean - right * error, mean - left * error)
    ours = (-np.inf, np.inf) if withheld(influence, mean) else each
    return [(mean + low, mean + high), (mean - alike * error, mean + alike * error), each, ours]


def main() -> None:
    """Print the table of `docs/how-to/read_intervals.md`."""
    print("| differences | percentile | symmetric | studentised | ours | of these withheld |")
    print("|---|--:|--:|--:|--:|--:|")
    for name, population in populations().items():
        rng = np.random.default_rng(12)
        weights = resampled(RUNS, RESAMPLES, rng)
        held, infinite = np.zeros(4), 0
        for _ in range(SAMPLES):
            found = intervals(rng.choice(population, RUNS, replace=False), weights)
            held += [low <= population.mean() <= high for low, high in found]
            infinite += np.isinf(found[-1][0])
        cells = [f"{share:.0%}" for share in (*held / SAMPLES, infinite / SAMPLES)]
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
