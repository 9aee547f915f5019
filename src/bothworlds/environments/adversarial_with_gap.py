"""The adversarial regime with a gap of Seldin and Slivkins.

From round tau on, the cumulative loss of one arm keeps a distance to all others that grows with
time: L_t(i) - L_t(best) >= gap t for every t >= tau.  Only the cumulative losses have a gap: here
losses are 0 or 1, and the lead S_t of the best arm swings in ever longer waves, so that for long
stretches the best arm is the worst one.

1. The best arm loses, as long as its lead can still be gap * tau at tau.
2. Then it wins until its lead is t (1 + gap) / 2.
3. Then it loses until its lead is down to gap * t; then 2 and 3 again.

Losses are fixed before the game, so the pseudo-regret is taken against the best arm up to the
same round; an agent that follows the waves does better than that arm, and its regret is negative.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bothworlds.arguments import arm_count, flag, keep, number, whole
from bothworlds.environments.base import ORDER, Array, Environment, ordered, state
from bothworlds.environments.lookup import phase_of
from bothworlds.errors import invalid
from bothworlds.lanes.jit import jit
from bothworlds.lanes.vectors import gather, select, splat, store

# Parameters: the number of turns, then the first round after each; the best arm loses at first.
TURNS, ROUNDS = 0, 1

_END = 2**53


@jit
def loss_waves(K: int, t: int, C: Any, E: Any, G: Any, v: Any, arm: Any) -> Any:
    """Give the best arm loss 1 and all other arms 0 in even phases, the reverse in odd ones."""
    its = float(1 - phase_of(t, C, ROUNDS, int(C[TURNS])) % 2)
    best = gather(E, ORDER, arm) == 0.0
    loss = select(best, splat(its, v), splat(1.0 - its, v))
    store(E, 0, loss)
    return loss


@dataclass(frozen=True, repr=False, eq=False)
class AdversarialWithGap(Environment):
    """An adversary whose best arm keeps a growing lead from some round on.

    Parameters
    ----------
    n_arms : int
        Number of arms; one of them is best, all other arms share their losses.
    gap : float
        The lead per round that the best arm keeps, in (0, 1).
    tau : int, default 1
        The round from which on it keeps it; not known to the agent. The longer, the longer the
        best arm looks worst at first.
    shuffle : bool, default True
        Whether every repetition has the arms in an order of its own.

    Examples
    --------
    >>> from bothworlds.environments import AdversarialWithGap
    >>> AdversarialWithGap(3, 0.25, tau=100).turns(1000)
    array([ 38, 199, 258, 513, 666])

    References
    ----------
    Seldin and Slivkins, *One Practical Algorithm for Both Stochastic and Adversarial Bandits*,
    ICML 2014; Zimmert and Seldin, *Tsallis-INF*, JMLR 22, 2021, section 5.2.
    """

    n_arms: int
    gap: float
    tau: int = 1
    shuffle: bool = True
    regret = "oblivious"

    def __post_init__(self) -> None:
        owner = "AdversarialWithGap"
        expected = "a number in [0.0001, 0.9999]"
        keep(
            self,
            n_arms=arm_count(self.n_arms, owner),
            gap=number("gap", self.gap, owner, 1e-4, 0.9999, expected),
            tau=whole("tau", self.tau, owner, 1),
            shuffle=flag("shuffle", self.shuffle, owner),
        )
        if self.tau > 2**50:
            raise invalid("tau", owner, "at most 2**50", self.tau)

    def _turns(self) -> list[int]:
        """Return the last round of every phase, as far as doubles count rounds exactly."""
        gap = Fraction(self.gap)
        peak = (1 + gap) / 2
        t = math.floor(self.tau * (1 - gap) / 2)
        lead = -t
        turns = [t]
        while True:
            # Up to the peak, and at least so far that the way down has a round.
            up = max(
                t + 1,
                self.tau,
                math.ceil((t - lead) / (1 - peak)),
                math.ceil((t - lead + 1 + gap) / (1 - gap)),
            )
            lead += up - t
            down = math.floor((lead + up) / (1 + gap))
            lead -= down - up
            t = down
            if t >= _END:
                return turns
            turns += [up, down]

    def turns(self, horizon: int) -> NDArray[np.int64]:
        """Return the rounds up to ``horizon`` at which the best arm turns bad or good again."""
        first = np.array(self._turns(), dtype=np.int64) + 1
        return first[(first > 1) & (first <= horizon)]

    def best_cumulative(self, checkpoints: ArrayLike) -> Array:
        """Return the smallest cumulative loss of an arm at each checkpoint."""
        rounds = np.asarray(checkpoints, dtype=np.int64)
        edges = np.array([0, *self._turns(), _END], dtype=np.int64)
        inside = np.clip(rounds[:, None] - edges[:-1], 0, np.diff(edges))
        its = inside[:, 0::2].sum(axis=1)
        return np.asarray(np.minimum(its, rounds - its), dtype=np.float64)

    def least_cumulative(self, checkpoints: ArrayLike) -> Array:
        """Return 0 at each checkpoint: in every round some arm has no loss."""
        return np.zeros(np.size(checkpoints))

    def ranking(self) -> NDArray[np.int64]:
        """Return the labels of the arms; the first is best."""
        return np.arange(self.n_arms)

    def parameters(self) -> Array:
        """Return the first round of every phase but the first."""
        turns = self._turns()
        return np.array([len(turns), *(turn + 1 for turn in turns)], dtype=np.float64)

    def start(self, rng: np.random.Generator) -> Array:
        """Return the labels in this repetition's order."""
        return state(ordered(rng, self.n_arms, self.shuffle))

    def kernel(self) -> Any:
        """Return the kernel."""
        return loss_waves
