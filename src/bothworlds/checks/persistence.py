"""Checks that everything a policy knows is in its state: runs can be repeated and continued."""

from __future__ import annotations

import pathlib
import tempfile

from bothworlds.bandit.bandit import Bandit
from bothworlds.checks.feedback import warm_bandit
from bothworlds.checks.report import Violation
from bothworlds.checks.subject import Inspected

ROUNDS = 200


def _story(inspected: Inspected, bandit: Bandit, name: str) -> tuple[list[int], bool]:
    """Play with feedback every second round for two; return the arms, and whether any was sure."""
    arms = []
    certain = True
    losses = inspected.losses(ROUNDS, name)
    for row in losses:
        decision = bandit.ask()
        arms.append(decision.index)
        certain = certain and decision.probability in (None, 1.0)
        waiting = bandit.pending
        if len(waiting) > 1:
            for number, id in enumerate(waiting):
                bandit.tell(id, loss=float(row[number % inspected.n_arms]))
    return arms, certain


def same_seed(inspected: Inspected) -> str:
    """One seed gives one run, bit for bit, regardless of earlier runs; another seed, another."""
    first = Bandit(inspected.policy, inspected.n_arms, seed=inspected.seed)
    arms, certain = _story(inspected, first, "story")
    other = Bandit(inspected.policy, inspected.n_arms, seed=inspected.seed + 1)
    other_arms, _ = _story(inspected, other, "story")
    second = Bandit(inspected.policy, inspected.n_arms, seed=inspected.seed)
    again, _ = _story(inspected, second, "story")
    if again != arms:
        t = next(t for t in range(ROUNDS) if again[t] != arms[t])
        raise Violation(
            f"with the same seed, arm {again[t]} was drawn in round {t + 1} instead of {arms[t]}"
        )
    if first._document() != second._document():
        raise Violation("with the same seed and the same arms, the states differ")
    if certain:
        return f"{ROUNDS} rounds repeated, no draw was known to be random"
    if other_arms == arms:
        raise Violation(f"another seed gave the same {ROUNDS} arms, though they are random")
    return f"{ROUNDS} rounds repeated, other rounds with another seed"


def save_and_load(inspected: Inspected) -> str:
    """A saved bandit continues from its file bit for bit, decisions still pending."""
    bandit = warm_bandit(inspected, "save")
    for _ in range(9):
        bandit.ask()
    for id in bandit.pending[1::3]:
        bandit.tell(id, loss=0.75)
    pending = bandit.pending
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "bandit.json"
        bandit.save(path)
        loaded = Bandit.load(path, policy=None if _shipped(inspected) else inspected.policy)
    if loaded.pending != pending:
        raise Violation(f"decisions {loaded.pending} are pending instead of {pending}")
    for number, id in enumerate(pending):
        for twin in (bandit, loaded):
            twin.tell(id, loss=number % 2)
    arms, _ = _story(inspected, bandit, "later")
    loaded_arms, _ = _story(inspected, loaded, "later")
    if loaded_arms != arms:
        t = next(t for t in range(ROUNDS) if loaded_arms[t] != arms[t])
        raise Violation(
            f"the loaded bandit drew arm {loaded_arms[t]} instead of {arms[t]}, {t + 1} rounds on"
        )
    if loaded._document() != bandit._document():
        raise Violation("the loaded bandit drew the same arms, but its state became another")
    return f"{len(pending)} decisions pending, {ROUNDS} rounds continued bit for bit"


def _shipped(inspected: Inspected) -> bool:
    """Return whether a state file alone describes the policy."""
    kind = type(inspected.policy)
    return kind.registered is not None and kind.registered.load() is kind
