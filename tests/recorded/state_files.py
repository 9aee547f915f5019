"""Golden state files: bandits as a version of the format saved them, and how they go on.

``python tests/recorded/state_files.py`` writes those of the present version, once, when the
format gets a new number.
"""

import json
from pathlib import Path

import bothworlds as bw
from recorded import record

HERE = Path(__file__).parent
PRESENT = HERE / "version_2"


def play(bandit, rounds, n_arms):
    """Play with every fifth answer missing or late."""
    losses = record.losses_of(rounds, n_arms)
    held = []
    for t in range(rounds):
        decision = bandit.ask()
        if t % 5 == 0:
            held.append(decision)
            continue
        bandit.tell(decision, loss=float(losses[t, decision.index % n_arms]))
        if len(held) > 6:
            decision = held.pop(2)
            bandit.tell(decision, loss=float(losses[t, decision.index % n_arms]))


def bandits():
    """Yield bandits of every policy in mid-flight, by name."""
    for n_arms, rounds in ((2, 400), (8, 600), (40, 600), (600, 900)):
        for name, policy in record.policies(n_arms).items():
            if n_arms == 600 and name not in ("rv", "iw", "constant rate", "ucb1"):
                continue
            bandit = bw.Bandit(policy, arms=n_arms, seed=5, bounds=(0, 1))
            play(bandit, rounds, n_arms)
            if name in ("rv", "iw", "alpha 0.7") and n_arms > 2:
                bandit.retire_arm(3)
                bandit.add_arm("new")
                play(bandit, 40, n_arms)
                bandit.ask(available=bandit.arms[::2])
            bandit.ask()
            yield f"{name} K={n_arms}".replace(" ", "_").replace("=", ""), bandit


def duels():
    """Yield dueling bandits in mid-flight, by name."""
    for n_arms in (2, 8):
        for name, player in record.duels().items():
            duel = bw.DuelingBandit(player, arms=n_arms, seed=5)
            for t in range(300):
                pair = duel.ask()
                if t % 7 != 3:
                    duel.tell(pair, winner="left" if (t * 31 + pair.left) % 3 else "right")
            duel.ask()
            yield f"duel {name} K={n_arms}".replace(" ", "_").replace("=", ""), duel


def goes_on(bandit):
    """Return what a bandit says, then tell all that is pending and play 30 rounds."""
    said = {
        "pending": bandit.pending,
        "round": bandit.round,
        "history": {
            str(name): [arm.pulls, arm.told, arm.mean_loss, arm.retired]
            for name, arm in bandit.history().items()
        },
    }
    known = bandit.policy.traits.knows_probability
    if known:
        said["probabilities"] = {str(k): v for k, v in bandit.probabilities().items()}
    for number in bandit.pending[::-1]:
        bandit.tell(number, loss=0.25 + 0.5 * (number % 2))
    said["arms"] = []
    for t in range(30):
        decision = bandit.ask()
        said["arms"].append(decision.index)
        bandit.tell(decision, loss=((t * 37 + decision.index * 11) % 101) / 101)
    if known:
        said["afterwards"] = {str(k): v for k, v in bandit.probabilities().items()}
    return said


def duel_goes_on(duel):
    """Return what a dueling bandit says, then tell all that is pending and play 30 rounds."""
    said = {"pending": duel.pending, "round": duel.round, "pairs": []}
    for number in duel.pending[::-1]:
        duel.tell(number, winner="left" if number % 2 else "right")
    for t in range(30):
        pair = duel.ask()
        said["pairs"].append([pair.left, pair.right])
        duel.tell(pair, winner="left" if (t * 31 + pair.left) % 3 else "right")
    return said


def loaded(path):
    """Return what the bandit of a file goes on to say."""
    if path.stem.startswith("duel"):
        return duel_goes_on(bw.DuelingBandit.load(path))
    return goes_on(bw.Bandit.load(path))


def main():
    PRESENT.mkdir(exist_ok=True)
    expected = {}
    for name, bandit in (*bandits(), *duels()):
        path = PRESENT / f"{name}.json"
        bandit.save(path)
        expected[name] = loaded(path)
    (PRESENT / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
