"""Select the operator of a local search: 2-opt, or-opt or swap on travelling salesmen.

A step draws 20 random moves of one kind and makes the best of them if it shortens the tour. Which
kind is worth trying is not known, and fruitful moves get rare as a tour improves, for all kinds at
once: the level of the rewards falls during every search and jumps back with the next tour. A
reward is the length a step saved, in average edges, at most 1.

What to learn here: one bandit inside an optimisation, kept over a stream of instances, and what
it is worth: Tsallis-INF and Thompson sampling come within a few per cent of the best kind of move
alone, which they were not told. UCB1, which takes early and late rewards for the same thing, is
nearer to choosing kinds at random.

Writes operator_selection.png; prints the tours' lengths.
"""

import sys
from pathlib import Path

import numpy as np

import bothworlds as bw
from bothworlds import plotting

KINDS = ["2-opt", "or-opt", "swap"]
CITIES, STEPS, TOURS, TRIES, RUNS = 100, 400, 16, 20, 2


def saved(kind, tour, d, i, j):
    """Return what the moves at places i < j save."""
    a, b, c, e = tour[i - 1], tour[i], tour[j], tour[j + 1]
    if kind == "2-opt":  # turn the stretch from i to j around
        return d[a, b] + d[c, e] - d[a, c] - d[b, e]
    f = tour[i + 1]
    if kind == "or-opt":  # move the city at i behind the one at j
        return d[a, b] + d[b, f] + d[c, e] - d[a, f] - d[c, b] - d[b, e]
    g = tour[j - 1]  # swap the cities at i and j
    gain = d[a, b] + d[b, f] + d[g, c] + d[c, e] - d[a, c] - d[c, f] - d[g, b] - d[b, e]
    return np.where(j - i > 1, gain, 0.0)


def move(kind, tour, i, j):
    """Make a move."""
    if kind == "2-opt":
        tour[i : j + 1] = tour[i : j + 1][::-1]
    elif kind == "or-opt":
        tour[i : j + 1] = np.roll(tour[i : j + 1], -1)
    else:
        tour[[i, j]] = tour[[j, i]]


def search(seed, bandit=None, kind=""):
    """Shorten a random tour by moves of one kind, or of those a bandit selects; return lengths."""
    rng = np.random.default_rng(seed)
    place = rng.random((CITIES, 2))
    d = np.linalg.norm(place[:, None] - place, axis=2)
    tour = rng.permutation(CITIES)
    length = d[tour, np.roll(tour, -1)].sum()
    for _ in range(STEPS):
        if bandit:
            decision = bandit.ask()
            kind = decision.arm
        i, j = np.sort(rng.integers(1, CITIES - 1, size=(2, TRIES)), axis=0)
        gains = np.where(i < j, saved(kind, tour, d, i, j), 0.0)
        best = gains.argmax()
        gain = max(0.0, float(gains[best]))
        if bandit:
            bandit.tell(decision, reward=min(1.0, gain / (length / CITIES)))
        if gain > 0:
            move(kind, tour, i[best], j[best])
            length -= gain
    return length


def main(folder):
    ends = {f"only {kind}": np.array([[search(s, kind=kind) for s in range(TOURS)]])
            for kind in KINDS}  # fmt: skip
    shares = np.zeros((len(KINDS), TOURS))
    for policy in (bw.TsallisINF(), bw.ThompsonSampling(), bw.UCB1(), bw.Uniform()):
        ends[repr(policy)] = np.zeros((RUNS, TOURS))
        for run in range(RUNS):
            bandit = bw.Bandit(policy, arms=KINDS, seed=run)
            before = np.zeros(len(KINDS))
            for tour in range(TOURS):
                ends[repr(policy)][run, tour] = search(tour, bandit)
                pulls = np.array([arm.pulls for arm in bandit.history().values()])
                if policy == bw.TsallisINF():
                    shares[:, tour] += (pulls - before) / STEPS / RUNS
                before = pulls
    print(f"mean length of {TOURS} tours after {STEPS} steps, and of the second half of them")
    for name, lengths in ends.items():
        print(f"{name:22}{lengths.mean():8.2f}{lengths[:, TOURS // 2 :].mean():8.2f}")

    with plotting.style():
        figure, axes = plotting.panels(1, 2, 3.2, width_ratios=[3, 2])
        left, right = axes[0]
        means = [lengths.mean() for lengths in ends.values()]
        colours = [look.colour for look in plotting.looks(ends).values()]
        bars = left.barh(list(ends), means, color=["#BBBBBB"] * len(KINDS) + colours[len(KINDS) :])
        left.bar_label(bars, fmt="%.1f", padding=3)
        left.set(xlabel="mean length after the search", xlim=(0, 1.12 * max(means)))
        left.invert_yaxis()
        left.grid(axis="y", visible=False)
        right.stackplot(np.arange(1, TOURS + 1), shares, labels=KINDS,
                        colors=["#0072B2", "#56B4E9", "#D9D9D9"])  # fmt: skip
        right.set(xlabel="tour", ylabel="share of the steps, TsallisINF()", xlim=(1, TOURS))
        right.set_ylim(0, 1)
        right.legend(loc="lower right", frameon=True, framealpha=0.9)
        plotting.save(figure, folder / "operator_selection.png")


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "examples-output")
    folder.mkdir(parents=True, exist_ok=True)
    main(folder)
