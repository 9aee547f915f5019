"""Adversarial corruption of any environment, with a budget accounted exactly.

An attack changes the losses l to l' after the environment drew them and before the agent observes
its arm's.  It does not know which arm the agent is about to play, so it pays for the whole vector
of losses: max_i |l'_i - l_i| in every round, for any arm played.  The sum over the rounds never
exceeds the budget C; the change that would is made smaller, so that the budget is spent to the
last bit.

======== ========================================================
symbol   meaning
======== ========================================================
``l``    true losses, ``base_loss(K, t, C, E, G, v, i)`` for arm i
CA       budget, labels of the arms attacked
A        SPENT, indices of the arms attacked, the last action
======== ========================================================

Regret is measured on the true losses, sum_t (l_{t, I_t} - l_{t, i*}) in expectation.  The paper
measures it on the corrupted ones; the two differ by at most 2 C, which is how corruption becomes
a (Delta, 2C, T) self-bounding constraint (Zimmert and Seldin, 2021, section 5.1).  The bound of
the corollary there, with at most 2 C added, holds for the regret measured here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from bothworlds.arguments import keep, number, numbers, one_of
from bothworlds.environments.base import Array, Attack, Environment
from bothworlds.environments.wrapped import Wrapped
from bothworlds.errors import invalid
from bothworlds.lanes.jit import jit
from bothworlds.lanes.random import unit
from bothworlds.lanes.vectors import (
    absolute,
    any_lane,
    float_bits,
    load,
    minimum,
    select,
    shift_right,
    splat,
    store,
    to_float,
    to_index,
    to_int,
)

BUDGET, LABELS = 0, 1
SPENT, FIRST, SECOND, LAST = 0, 1, 2, 3


@jit
def locate(K: int, E: Any, CA: Any, A: Any, which: int, like: Any) -> Any:
    """Return the index of an attacked arm, found once and kept: arms may be shuffled."""
    found = load(A, FIRST + which, like)
    if any_lane(found < 0.0):
        for i in range(K):
            found = select(load(E, 1 + i, like) == CA[LABELS + which], splat(i, like), found)
        store(A, FIRST + which, found)
    return to_index(found)


@jit
def pay(CA: Any, A: Any, wanted: Any) -> Any:
    """Spend ``wanted``, or the rest of the budget, and return the amount."""
    spent = load(A, SPENT, wanted)
    left = CA[BUDGET] - spent
    store(A, SPENT, select(wanted >= left, splat(CA[BUDGET], wanted), spent + wanted))
    return minimum(wanted, left)


@jit
def towards(loss: Any, target: Any, by: Any) -> Any:
    """Move a loss by ``by`` towards a target, and exactly onto it where that is the distance."""
    moved = select(target > loss, loss + by, loss - by)
    return select(by >= absolute(target - loss), target, moved)


@jit
def hide(
    base_loss: Any, K: int, t: int, C: Any, E: Any, G: Any, v: Any, arm: Any, CA: Any, A: Any
) -> Any:
    """Raise the best arm's loss to 1 from the first round on."""
    if any_lane(load(A, SPENT, v) < CA[BUDGET]):
        best = locate(K, E, CA, A, 0, v)
        one = splat(1.0, v)
        true_best = base_loss(K, t, C, E, G, v, best)
        by = pay(CA, A, one - true_best)
        loss = base_loss(K, t, C, E, G, v, arm)
        return select(arm == best, towards(loss, one, by), loss)
    return base_loss(K, t, C, E, G, v, arm)


@jit
def discourage(
    base_loss: Any, K: int, t: int, C: Any, E: Any, G: Any, v: Any, arm: Any, CA: Any, A: Any
) -> Any:
    """Raise the best arm's loss to 1 in every round after one in which the agent played it."""
    awake = load(A, SPENT, v) < CA[BUDGET]
    if any_lane(awake):
        best = locate(K, E, CA, A, 0, v)
        one = splat(1.0, v)
        tempted = load(A, LAST, v) == to_float(best)
        true_best = base_loss(K, t, C, E, G, v, best)
        by = pay(CA, A, select(tempted, one - true_best, splat(0.0, v)))
        store(A, LAST, select(awake, to_float(arm), load(A, LAST, v)))
        loss = base_loss(K, t, C, E, G, v, arm)
        return select((arm == best) & tempted, towards(loss, one, by), loss)
    return base_loss(K, t, C, E, G, v, arm)


@jit
def swap(
    base_loss: Any, K: int, t: int, C: Any, E: Any, G: Any, v: Any, arm: Any, CA: Any, A: Any
) -> Any:
    """Exchange the losses of the two best arms."""
    if any_lane(load(A, SPENT, v) < CA[BUDGET]):
        first = locate(K, E, CA, A, 0, v)
        second = locate(K, E, CA, A, 1, v)
        l_first = base_loss(K, t, C, E, G, v, first)
        l_second = base_loss(K, t, C, E, G, v, second)
        by = pay(CA, A, absolute(l_first - l_second))
        loss = base_loss(K, t, C, E, G, v, arm)
        loss = select(arm == first, towards(l_first, l_second, by), loss)
        return select(arm == second, towards(l_second, l_first, by), loss)
    return base_loss(K, t, C, E, G, v, arm)


@jit
def scramble(bits: Any) -> Any:
    """Mix 64 bits (the finaliser of splitmix64), for draws beyond the round's one uniform."""
    bits = (bits ^ shift_right(bits, 30)) * -4658895280553007687
    bits = (bits ^ shift_right(bits, 27)) * -7723592293110705685
    return bits ^ shift_right(bits, 31)


@jit
def randomise(
    base_loss: Any, K: int, t: int, C: Any, E: Any, G: Any, v: Any, arm: Any, CA: Any, A: Any
) -> Any:
    """Replace the loss of a random arm by a uniform number."""
    if any_lane(load(A, SPENT, v) < CA[BUDGET]):
        # A function of v, so the environment's stream is what it is without the attack.
        bits = scramble(float_bits(v))
        victim = to_int(unit(bits) * float(K))
        target = unit(scramble(bits + 1))
        by = pay(CA, A, absolute(target - base_loss(K, t, C, E, G, v, victim)))
        loss = base_loss(K, t, C, E, G, v, arm)
        return select(arm == victim, towards(loss, target, by), loss)
    return base_loss(K, t, C, E, G, v, arm)


AttackName = Literal["hide", "swap", "random", "discourage"]
ATTACKS: tuple[AttackName, ...] = get_args(AttackName)
"""The attacks by name."""
_KERNELS: dict[AttackName, Any] = {
    "hide": hide,
    "swap": swap,
    "random": randomise,
    "discourage": discourage,
}
_TARGETS: dict[AttackName, int] = {"hide": 1, "swap": 2, "random": 0, "discourage": 1}
"""How many of the best arms an attack must know."""


@dataclass(frozen=True, repr=False, eq=False, init=False)
class Corrupted(Wrapped):
    """An environment whose losses an adversary changes, within a budget.

    The corruption of a round is the largest change of any arm's loss, played or not; the sum over
    the rounds is at most ``budget``. Regret is that of the environment without corruption; the
    regret on corrupted losses differs from it by at most twice the budget.

    Parameters
    ----------
    base : Environment
        Any environment with one arm played per round.
    budget : float
        The corruption C, at least 0.
    attack : {"hide", "swap", "random", "discourage"}, default "hide"
        "hide": the best arm's loss becomes 1, from the first round until the budget is spent.
        "swap": the two best arms exchange their losses. "random": a random arm's loss becomes a
        uniform number. "discourage": the best arm's loss becomes 1 in every round that follows
        one in which the agent played that arm.
    targets : sequence of int, optional
        The arms treated as the best and the second best, as the base counts them. Needed where the
        base has no fixed best arm.

    Examples
    --------
    >>> from bothworlds.environments import Corrupted, Stochastic
    >>> Corrupted(Stochastic.gap(2, 0.25), budget=100)
    Corrupted(base=Stochastic(means=[0.375, 0.625]), budget=100.0)

    References
    ----------
    Lykouris, Mirrokni and Paes Leme, *Stochastic Bandits Robust to Adversarial Corruptions*, STOC
    2018; Zimmert and Seldin, *Tsallis-INF*, JMLR 22, 2021, section 5.1.
    """

    base: Environment
    budget: float
    attack: AttackName
    targets: tuple[int, ...] | None

    def __init__(
        self,
        base: Environment,
        budget: float,
        attack: AttackName = "hide",
        targets: Sequence[int] | None = None,
    ) -> None:
        self._wrap(base)
        expected = "a finite number of at least 0"
        limit = number("budget", budget, "Corrupted", 0.0, 1e300, expected)
        attack = one_of("attack", attack, "Corrupted", ATTACKS)
        chosen = None if targets is None else _labels(targets, base.n_arms, attack)
        keep(self, budget=limit, attack=attack, targets=chosen)
        if base.ranking().size == 0 and chosen is None and _TARGETS[attack] > 0:
            expected = f"given, as {type(base).__name__} has no fixed best arm"
            raise invalid("targets", "Corrupted", expected, None)

    def stage(self) -> Attack:
        """Return the attack; row 0 of its state is the budget spent."""
        needed = _TARGETS[self.attack]
        best = self.base.ranking()[:needed].tolist() if self.targets is None else self.targets
        labels = [*best[:needed], *[-1.0] * (2 - needed)]
        numbers = np.array([self.budget, *labels])
        return Attack(_KERNELS[self.attack], numbers, _unspent, (FIRST, SECOND, LAST))


def _unspent(rng: np.random.Generator) -> Array:
    """Return the state of an attack before the first round."""
    return np.array([0.0, -1.0, -1.0, -1.0])


def _labels(targets: object, n_arms: int, attack: AttackName) -> tuple[int, ...]:
    """Read the arms to attack."""
    needed = _TARGETS[attack]
    labels = numbers(targets)
    if (
        labels is None
        or labels.ndim > 1
        or labels.size < needed
        or np.unique(labels).size != labels.size
        or not all(0 <= label < n_arms and label == int(label) for label in labels.flat)
    ):
        expected = f"{needed} or more different arms from 0 to {n_arms - 1}"
        raise invalid("targets", "Corrupted", expected, targets)
    return tuple(int(label) for label in labels.flat)
