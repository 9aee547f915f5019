"""Rank twelve posters by votes on pairs, some of them late and some of them dishonest.

A file lists votes: who voted, on which two posters, for which of them, and after how many further
questions the vote arrived. One voter in ten is not honest: whatever the posters, this voter is for
"kite", and against "harbour" otherwise. The bandit decides which pair the next voter is asked
about and learns from the votes as they come in; halfway its state goes through a file.

What to learn here: a pair may hold the same poster twice, and votes name a side. `DuelingBandit`
asks most about the posters that may be best, so the top of the ranking is known well and the
bottom roughly. One dishonest vote in ten moves the estimates, but not the winner.

Writes votes.csv, rank_by_votes.json and rank_by_votes.png; prints the ranking.
"""

import csv
import sys
from collections import defaultdict
from itertools import combinations
from pathlib import Path

import numpy as np

import bothworlds as bw
from bothworlds import plotting

POSTERS = ["harbour", "meadow", "tram", "owl", "kite", "lighthouse",
           "bicycle", "teapot", "comet", "forest", "violin", "bridge"]  # fmt: skip
APPEAL = dict(zip(POSTERS, [0.95, *np.linspace(0.65, 0.05, len(POSTERS) - 1)], strict=True))
QUESTIONS, VOTERS, VOTES_PER_PAIR = 4_000, 10, 100


def write_votes(path):
    """Write what a survey might have collected."""
    rng = np.random.default_rng(3)
    with open(path, "w", newline="", encoding="utf-8") as stream:
        table = csv.writer(stream)
        table.writerow(["voter", "one", "other", "choice", "delay"])
        for one, other in combinations(POSTERS, 2):
            for _ in range(VOTES_PER_PAIR):
                voter = rng.integers(VOTERS)
                choice = one if rng.random() < (1 + APPEAL[one] - APPEAL[other]) / 2 else other
                if voter == 0 and "kite" in (one, other):
                    choice = "kite"
                elif voter == 0 and one == "harbour":
                    choice = other
                table.writerow([f"voter {voter}", one, other, choice, rng.geometric(0.05)])


def main(folder):
    write_votes(folder / "votes.csv")
    ballots = defaultdict(list)
    with open(folder / "votes.csv", newline="", encoding="utf-8") as stream:
        for vote in csv.DictReader(stream):
            pair = frozenset([vote["one"], vote["other"]])
            ballots[pair].append((vote["choice"], int(vote["delay"])))

    rng = np.random.default_rng(1)
    duel = bw.DuelingBandit(bw.Sparring(), arms=POSTERS, seed=2)
    due, heard = defaultdict(list), []
    for question in range(QUESTIONS):
        pair = duel.ask()
        winner, delay = str(rng.choice(["left", "right"])), 0
        if pair.left != pair.right:
            at_hand = ballots[frozenset([pair.left, pair.right])]
            choice, delay = at_hand[rng.integers(len(at_hand))]
            winner = "left" if choice == pair.left else "right"
            heard.append((pair.left, pair.right, winner == "left"))
        due[question + delay].append((pair.id, winner))
        for id, side in due.pop(question, []):
            duel.tell(id, winner=side)
        if question == QUESTIONS // 2:
            duel.save(folder / "rank_by_votes.json")
            duel = bw.DuelingBandit.load(folder / "rank_by_votes.json")

    chance, error = against_the_rest(heard)
    order, history = sorted(POSTERS, key=lambda name: -chance[name]), duel.history()
    print(f"{'':14}{'asked about':>12}{'wins against the rest':>24}{'honest voters':>15}")
    for place, name in enumerate(order, 1):
        estimate = f"{chance[name]:.2f} ± {error[name]:.2f}"
        print(f"{place:2} {name:11}{history[name].pulls:12}{estimate:>24}{honest(name):15.2f}")
    print(f"Votes still to come: {len(duel.pending)}.")
    draw(folder, order, chance, error, history)


def honest(name):
    """Return how often a poster would win against another one if all voters were honest."""
    return float(np.mean([(1 + APPEAL[name] - APPEAL[o]) / 2 for o in POSTERS if o != name]))


def against_the_rest(heard):
    """Fit P(left wins) = (1 + u_left - u_right) / 2; return chances, and two standard errors."""
    n, index = len(POSTERS), {name: i for i, name in enumerate(POSTERS)}
    X, y = np.zeros((len(heard), n)), np.zeros(len(heard))
    for row, (left, right, won) in enumerate(heard):
        X[row, index[left]], X[row, index[right]], y[row] = 0.5, -0.5, won - 0.5
    # Only differences of u count; the pseudo-inverse takes the solution whose mean is 0.
    spread = np.linalg.pinv(X.T @ X)
    chance = 0.5 + n / (n - 1) / 2 * (spread @ X.T @ y)
    error = n / (n - 1) / 2 * np.sqrt(np.diag(spread))
    return dict(zip(POSTERS, chance, strict=True)), dict(zip(POSTERS, error, strict=True))


def draw(folder, order, chance, error, history):
    with plotting.style():
        figure, axes = plotting.panels(1, 2, 3.9, sharey=True, width_ratios=[2, 1])
        rows = np.arange(len(order))
        left, right = axes[0]
        left.errorbar(
            [chance[name] for name in order], rows, xerr=[error[name] for name in order],
            fmt="o", color="#0072B2", capsize=2.5, label="fitted to the votes",
        )  # fmt: skip
        truth = list(map(honest, order))
        left.plot(truth, rows, "|", color="black", markersize=11, label="honest voters only")
        left.axvline(0.5, color="#8C8C8C", linewidth=0.8)
        left.set(xlabel="chance to win against another poster", xlim=(0, 1))
        left.set_yticks(rows, order)
        left.invert_yaxis()
        left.legend(loc="lower right")
        right.barh(rows, [history[name].pulls for name in order], color="#56B4E9")
        right.set(xlabel="times asked about")
        right.grid(axis="y", visible=False)
        text = f"{QUESTIONS:,} questions, one voter in ten dishonest; whiskers: two standard errors"
        plotting.note(figure, text)
        plotting.save(figure, folder / "rank_by_votes.png")


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "examples-output")
    folder.mkdir(parents=True, exist_ok=True)
    main(folder)
