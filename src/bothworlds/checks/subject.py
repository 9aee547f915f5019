"""A policy under inspection: the single-bandit kernels, one round at a time or in a loop."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothworlds.bandit.state import first_row, pack
from bothworlds.checks.report import Violation
from bothworlds.engine import policy_loops as rollout
from bothworlds.lanes.direct import address
from bothworlds.lanes.kernels import ROUND
from bothworlds.lanes.wrap import drawing_code, telling_code
from bothworlds.policies.base import Array, Policy
from bothworlds.seeding import numpy_generator, stream_words

Counts = NDArray[np.int64]
NO_ARM = -1


class Inspected:
    """A policy with a number of arms and a seed, and its kernels at hand.

    Parameters
    ----------
    policy : Policy
        What is checked.
    n_arms : int
        Number of arms.
    seed : int
        Makes every check repeatable.
    """

    def __init__(self, policy: Policy, n_arms: int, seed: int) -> None:
        self.policy = policy
        self.n_arms = n_arms
        self.seed = seed
        self.kernels = policy.program(n_arms).kernels
        self.knows_weights = policy.traits.knows_probability and self.kernels.weights is not None

    def rng(self, *names: object) -> np.random.Generator:
        """Return NumPy's generator for the part of a check named by ``names``."""
        return numpy_generator(self.seed, "checks", *names)

    def losses(self, rounds: int, *names: object) -> Array:
        """Return random losses in [0, 1], the last arm's larger on average than the first's."""
        slope = np.linspace(0.0, 0.3, self.n_arms)
        return 0.7 * self.rng(*names, "losses").random((rounds, self.n_arms)) + slope

    def fresh(self, *names: object) -> Array:
        """Return a packed bandit before round 1, its generator seeded by ``names``."""
        return pack(self.policy, self.n_arms, stream_words(self.seed, "checks", *names))

    def inverse_p(self, F: Array) -> float:
        """Return the inverse probability that the last draw left."""
        return float(F[first_row(F)])

    def play(self, F: Array, first: int, last: int, losses: Array) -> tuple[Counts, Array]:
        """Play rounds ``first`` to ``last``; return the arms and their inverse probabilities."""
        arms, inverse_p = rollout.counters(last - first + 1)
        table = np.ascontiguousarray(losses)
        wrong = rollout.play(self.kernels, F, first, last, table, arms, inverse_p)
        if wrong:
            arm = arms[wrong - first]
            raise Violation(f"arm {arm} of {self.n_arms} was drawn in round {wrong}")
        return arms, inverse_p

    def ask(self, F: Array, t: int) -> int:
        """Draw the arm of round t."""
        F[ROUND] = t
        arm = int(drawing_code(self.kernels.ask)(float(address(F))))
        if not 0 <= arm < self.n_arms:
            raise Violation(f"arm {arm} of {self.n_arms} was drawn in round {t}")
        return arm

    def ask_for(self, F: Array, t: int, arm: int) -> None:
        """Decide for ``arm`` in round t, regardless of the policy's own draw."""
        asked = self.kernels.asked
        if asked is None or self.kernels.opens:
            self.ask(F, t)
            if asked is not None:
                asked(F, arm)
            return
        # The draw would count another arm among those that wait for an answer.
        F[ROUND] = t
        asked(F, arm)

    def tell(self, F: Array, arm: int, inverse_p: float, loss: float) -> None:
        """Learn from the arm just drawn."""
        telling_code(self.kernels.tell)(float(address(F)), arm, inverse_p, loss)

    def weights(self, F: Array) -> Array:
        """Return the distribution of the last draw."""
        w = np.full(self.n_arms, np.nan)
        self.kernels.weights(F, w)
        return w

    def learn(self, F: Array, arm: int, inverse_p: float, loss: float) -> None:
        """Learn, in the round just asked, from an arm that need not be the one drawn."""
        if self.kernels.opens:
            self.kernels.asked(F, arm)
            self.kernels.write_back(F)
        if self.kernels.late is None:
            self.tell(F, arm, inverse_p, loss)
        else:
            near = np.zeros(self.n_arms, np.bool_)
            if self.kernels.near is not None:
                self.kernels.near(F, near)
            self.kernels.late(F, arm, inverse_p, loss, near)
        self.estimates_changed(F)

    def estimates_changed(self, F: Array) -> None:
        """Tell the kernels that per-arm rows changed otherwise than by ``tell``."""
        if self.kernels.estimates_changed is not None:
            self.kernels.estimates_changed(F)

    def draw(self, F: Array, t: int, draws: int, wanted: int = NO_ARM) -> tuple[Counts, Array]:
        """Draw round t up to ``draws`` times from one state, or until ``wanted`` comes.

        Returns how often every arm came and its inverse probability; ``F`` is as after the last
        draw.
        """
        F[ROUND] = t
        counts, inverse_p = rollout.counters(self.n_arms)
        made = rollout.draw(self.kernels, F, wanted, counts, inverse_p, draws)
        if made < 0:
            raise Violation(f"an arm out of 0 to {self.n_arms - 1} was drawn in round {t}")
        return counts, inverse_p

    def permuted(self, order: Counts) -> Inspected:
        """Return the subject whose arm ``order[i]`` has the configuration of this one's arm i."""
        policy: Any = self.policy
        gaps = getattr(policy, "gaps", None)
        if gaps is not None:
            moved = np.empty(self.n_arms)
            moved[order] = gaps
            policy = dataclasses.replace(policy, gaps=tuple(moved.tolist()))
        return Inspected(policy, self.n_arms, self.seed)
