"""Checks of feedback: late, in another order, or such that it must be refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bothworlds.bandit.bandit import Bandit
from bothworlds.bandit.state import first_row
from bothworlds.checks.distribution import ROUNDING
from bothworlds.checks.report import NotApplicable, Violation
from bothworlds.checks.subject import Inspected
from bothworlds.errors import DecisionClosed, InvalidFeedback, UnknownDecision
from bothworlds.policies import base
from bothworlds.policies.base import Array

WARMUP = 60
OUTSIDE = (-0.125, 1.125)
OUTSTANDING = 24


def warm_bandit(inspected: Inspected, name: str) -> Bandit:
    """Return a bandit that has learned from some rounds of prompt feedback."""
    bandit = Bandit(inspected.policy, inspected.n_arms, seed=inspected.seed)
    losses = inspected.losses(WARMUP, name)
    for row in losses:
        decision = bandit.ask()
        bandit.tell(decision, loss=float(row[decision.index]))
    return bandit


def delayed_feedback(inspected: Inspected) -> str:
    """Feedback teaches the same whenever and in whichever order it comes.

    A policy for which the order of losses matters declares ``order_invariant = False``, one for
    which it matters whether a loss is late by ``late_as_prompt = False``.
    """
    if not inspected.policy.traits.order_invariant:
        raise NotApplicable("the policy declares order_invariant = False")
    bandit = warm_bandit(inspected, "delayed")
    worst = 0.0
    if inspected.policy.traits.late_as_prompt:
        prompt = bandit.copy()
        prompt.tell(prompt.ask(), loss=1.0)
        late = bandit.copy()
        decision = late.ask()
        late.ask()
        late.tell(decision, loss=1.0)
        one, other = (_learned(inspected, twin) for twin in (prompt, late))
        worst = _apart(one, other, "with feedback after another decision instead of at once")
    ids = [bandit.ask().id for _ in range(OUTSTANDING)]
    if not inspected.policy.traits.late_as_prompt:
        bandit.ask()  # so that none of them is the last one
    # Losses 0 and 1, because policies may round others at random.
    losses = inspected.rng("delayed", "outstanding").integers(2, size=OUTSTANDING).astype(float)
    in_order = _told(bandit, ids, losses, np.arange(OUTSTANDING))
    orders = {
        "with feedback in reverse order": np.arange(OUTSTANDING)[::-1],
        "with feedback in random order": inspected.rng("delayed", "order").permutation(OUTSTANDING),
    }
    for how, order in orders.items():
        other = _arm_rows(inspected, _told(bandit, ids, losses, order))
        worst = max(worst, _apart(_arm_rows(inspected, in_order), other, how))
    return f"states equal within {worst:.1g} for {OUTSTANDING} decisions in 3 orders"


def _told(bandit: Bandit, ids: list[int], losses: Array, order: Any) -> Bandit:
    twin = bandit.copy()
    for place in order:
        twin.tell(ids[place], loss=float(losses[place]))
    return twin


def _apart(one: Array, other: Array, how: str) -> float:
    """Return how far two states are apart, or raise if it is more than rounding."""
    apart = np.abs(one - other) / np.maximum(1.0, np.abs(one))
    worst = float(apart.max(initial=0.0))
    if not worst <= ROUNDING:
        at = int(apart.argmax())
        raise Violation(
            f"{how}, feedback left {other[at]:.9g} in the state instead of {one[at]:.9g}"
        )
    return worst


def _learned(inspected: Inspected, bandit: Bandit) -> Array:
    """Return the per-arm numbers in which a later draw leaves no trace, such as its weights."""
    policy, n_arms = inspected.policy, inspected.n_arms
    rows = _arm_rows(inspected, bandit)
    if policy.traits.estimates or policy.traits.saved_rows is None:
        return rows[:n_arms] if policy.traits.estimates else rows
    saved = policy.saved_state(n_arms, bandit._core.F[first_row(bandit._core.F) :])
    told = [row.name for row in policy.traits.saved_rows.values() if row is not base.OUTSTANDING]
    return np.concatenate([np.zeros(0), *(saved[name] for name in told)])


def _arm_rows(inspected: Inspected, bandit: Bandit) -> Array:
    """Return the per-arm rows, loss estimates beyond the least one: they may be recentred."""
    rows = bandit._core.F[first_row(bandit._core.F) + inspected.policy.traits.head_rows :].copy()
    if inspected.policy.traits.estimates:
        rows[: inspected.n_arms] -= rows[: inspected.n_arms].min()
    return rows


def bad_feedback(inspected: Inspected) -> str:
    """Feedback that cannot be meant is refused with the right error, and nothing changes."""
    bandit = warm_bandit(inspected, "bad")
    told = bandit.ask()
    bandit.tell(told, loss=0.5)
    stranger = Bandit(inspected.policy, inspected.n_arms, seed=inspected.seed + 1).ask()
    waiting = bandit.ask()
    nan, inf = float("nan"), float("inf")
    refused: list[tuple[str, type[Exception], Callable[[], None]]] = [
        (f"{kind} {value!r}", InvalidFeedback, _telling(bandit, waiting, kind, value))
        for kind in ("loss", "reward")
        for value in (
            nan,
            inf,
            -inf,
            "0.5",
            1j,
            *(() if inspected.policy.traits.unbounded else OUTSIDE),
        )
    ]
    refused += [
        ("neither reward nor loss", InvalidFeedback, lambda: bandit.tell(waiting)),
        ("both", InvalidFeedback, lambda: bandit.tell(waiting, reward=0.5, loss=0.5)),
        ("a second tell", DecisionClosed, _telling(bandit, told, "loss", 0.5)),
        ("a second tell by id", DecisionClosed, _telling(bandit, told.id, "loss", 0.5)),
        ("an unknown id", UnknownDecision, _telling(bandit, 10**9, "loss", 0.5)),
        ("another bandit's decision", UnknownDecision, _telling(bandit, stranger, "loss", 0.5)),
    ]
    before = bandit._document()
    for what, error, act in refused:
        try:
            act()
        except error:
            pass
        else:
            raise Violation(f"{what} was accepted")
        if bandit._document() != before:
            raise Violation(f"{what} was refused but changed the bandit")
    bandit.tell(waiting, loss=0.5)
    return f"{len(refused)} kinds refused, nothing changed"


def _telling(bandit: Bandit, decision: Any, kind: str, value: Any) -> Callable[[], None]:
    return lambda: bandit.tell(decision, **{kind: value})
