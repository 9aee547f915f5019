"""`inference.rounds_needed`: rounds until a gap is certain, and their cost, by simulation."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bothworlds.arguments import count, number, positive_gap
from bothworlds.bandit.state import pack
from bothworlds.campaign.progress import Progress, reporting
from bothworlds.engine.policy_loops import play
from bothworlds.errors import invalid
from bothworlds.evidence import bounds as read
from bothworlds.evidence import update
from bothworlds.evidence.sums import Evidence
from bothworlds.policies.base import Policy
from bothworlds.seeding import checked_seed, numpy_generator, stream_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SPACING = 1.05
"""Factor between the rounds at which a run looks whether it is certain."""

QUANTILES = (0.5, 0.8, 0.95)


@dataclass(frozen=True)
class Plan:
    """How long until it is certain that the best arm beats every other one."""

    rounds: NDArray[np.float64]
    """Round at which each run was certain; infinite where it was not in time."""
    checkpoints: NDArray[np.int64]
    """Checkpoints: the rounds at which every run is examined."""
    regret: NDArray[np.float64]
    """(runs, checkpoints): regret so far, in rewards."""
    gap: float
    """The gap to detect."""
    confidence: float
    """Confidence of the answer."""
    policy: Policy
    """The policy."""

    def certain(self) -> NDArray[np.float64]:
        """Return the share of runs that are certain at every checkpoint."""
        return np.asarray((self.rounds[:, None] <= self.checkpoints).mean(axis=0))

    def quantile(self, share: float) -> float:
        """Return the rounds within which this share of the runs is certain; may be infinite."""
        return float(np.sort(self.rounds)[max(0, int(np.ceil(share * self.rounds.size)) - 1)])

    def cost(self, share: float) -> float | None:
        """Return the mean regret at `quantile`; None where that is infinite."""
        at = self.quantile(share)
        if not np.isfinite(at):
            return None
        return float(self.regret[:, np.searchsorted(self.checkpoints, at)].mean())

    def __str__(self) -> str:
        lines = ["share of runs  rounds until certain  regret by then"]
        for share in QUANTILES:
            at, cost = self.quantile(share), self.cost(share)
            rounds = f"{at:,.0f}" if cost is not None else f"> {int(self.checkpoints[-1]):,}"
            lines.append(f"{share:13.0%}  {rounds:>20}  {'' if cost is None else f'{cost:14.1f}'}")
        return "\n".join(line.rstrip() for line in lines)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Draw the share of runs that are certain, and the regret, over the rounds."""
        from bothworlds.evidence.plot import plot_plan

        return plot_plan(self, path)


def rounds_needed(
    gap: float,
    baseline: float = 0.5,
    n_arms: int = 2,
    confidence: float = 0.95,
    policy: Policy | None = None,
    *,
    horizon: int = 100_000,
    repetitions: int = 200,
    seed: int = 0,
    progress: bool | Callable[[Progress], Any] = True,
) -> Plan:
    """Return how many rounds it takes until the best arm surely beats every other one.

    Rewards are 0 or 1. A run is certain when `Report.gap` of the best arm and each other arm
    is positive; you may look at any time.

    Parameters
    ----------
    gap : float
        Gap between the best arm's mean reward and that of all other arms.
    baseline : float, default 0.5
        The mean reward of all other arms; ``baseline + gap`` must be at most 1.
    n_arms : int, default 2
        Number of arms.
    confidence : float, default 0.95
        Confidence of every statement.
    policy : Policy, optional
        The policy; by default ``TsallisINF()``.
    horizon : int
        Rounds after which a run gives up.
    repetitions : int
        Number of runs.
    seed : int
        Makes the runs repeatable.
    progress : bool or callable
        As in `bothworlds.simulate`.

    Returns
    -------
    Plan
        Prints as a table; `Plan.plot` draws the curve.

    Examples
    --------
    >>> import bothworlds as bw
    >>> plan = bw.inference.rounds_needed(0.4, 0.3, policy=bw.Uniform(), repetitions=20)
    >>> 50 < plan.quantile(0.5) < 500
    True
    """
    owner = "inference.rounds_needed"
    policy = _default() if policy is None else policy
    if not isinstance(policy, Policy):
        raise invalid("policy", owner, "a policy such as TsallisINF()", policy)
    gap = positive_gap(gap, owner)
    expected = f"a number in [0, {1.0 - gap:g}], 1 minus the gap"
    baseline = number("baseline", baseline, owner, 0.0, 1.0 - gap + 1e-12, expected)
    n_arms = count("n_arms", n_arms, owner, 2, "a whole number >= 2")
    horizon = count("horizon", horizon, owner, 1, "a whole number >= 1")
    repetitions = count("repetitions", repetitions, owner, 1, "a whole number >= 1")
    sure = read.checked_confidence(confidence, owner)
    seed = checked_seed(seed, owner)
    # A user's functions are checked by the loop too, but it could not name the one that failed.
    policy.rehearse(n_arms, repr(policy), horizon)
    means = np.full(n_arms, 1.0 - baseline)
    means[0] -= gap
    marks = checkpoints(horizon)
    found = np.full(repetitions, np.inf)
    regret = np.zeros((repetitions, marks.size))
    with reporting(horizon * repetitions, progress, lambda: 0.0) as report:
        for run in range(repetitions):
            rng = numpy_generator(seed, owner, run)
            words = stream_words(seed, owner, repr(policy), run)
            found[run] = _run(policy, means, gap, sure, marks, rng, words, regret[run])
            report(repr(policy), horizon, 0)
    return Plan(found, marks, regret, gap, sure, policy)


def checkpoints(horizon: int) -> NDArray[np.int64]:
    """Return rounds that grow by about a twentieth, the last one ``horizon``."""
    marks = [1]
    while marks[-1] < horizon:
        marks.append(min(horizon, max(marks[-1] + 1, int(marks[-1] * SPACING))))
    return np.array(marks)


def _run(
    policy: Policy,
    means: NDArray[np.float64],
    gap: float,
    confidence: float,
    marks: NDArray[np.int64],
    rng: np.random.Generator,
    words: NDArray[np.int64],
    regret: NDArray[np.float64],
) -> float:
    """Play one run; fill in its regret, and return the round at which it was certain."""
    K = means.size
    # Which index is the best must not matter to a policy that breaks ties by index.
    order = rng.permutation(K)
    best = int(np.flatnonzero(order == 0)[0])
    F = pack(policy, K, words)
    kernels = policy.program(K).kernels
    evidence = Evidence(K)
    certain, done, total = np.inf, 0, 0.0
    for place, mark in enumerate(marks.tolist()):
        size = mark - done
        losses = (rng.random((size, K)) < means[order]).astype(np.float64)
        arms, inverse_p = np.zeros(size, np.int64), np.zeros(size)
        # The table's first row is round 1's in `play`, whose rows go round.
        table = np.roll(losses, done % size, axis=0)
        play(kernels, F, done + 1, mark, table, arms, inverse_p)
        total += gap * float(np.count_nonzero(arms != best))
        regret[place] = total
        if not np.isfinite(certain):
            told = losses[np.arange(size), arms]
            update.bet_all(evidence.R, arms, told)
            sure = (read.gap(evidence, best, b, confidence) for b in range(K) if b != best)
            if all(bound > 0.0 for bound in sure):
                certain = float(mark)
        done = mark
    return certain


def _default() -> Policy:
    from bothworlds.policies import TsallisINF

    return TsallisINF()
