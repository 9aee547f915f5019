"""Simulation of a learning policy on a log, by rejection sampling.

Rows are thinned so that every arm is equally likely: a row is kept with probability
(1 / w) / max(1 / w), w the logged probability of what was played.  The policy draws an arm and
learns from the next kept row that played this arm; all others are skipped.

References
----------
L. Li, W. Chu, J. Langford and X. Wang, "Unbiased offline evaluation of contextual-bandit-based
news article recommendation algorithms", WSDM 2011.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bothworlds.bandit.bandit import Bandit
from bothworlds.errors import invalid
from bothworlds.logs.columns import Log, Reading
from bothworlds.policies.base import Policy
from bothworlds.seeding import checked_seed, numpy_generator


@dataclass(frozen=True)
class LogSimulation:
    """The mean outcome of a learning policy on a log, and how many rows it took."""

    mean: float | None
    """Mean reward or loss of the rounds it could play, in the log's units."""
    error: float | None
    """Standard error of the mean."""
    rounds: int
    """Rounds the policy could play."""
    kept: int
    """Rows left after thinning."""
    rows: int
    """Answered rows of the log."""
    bandit: Bandit
    """The bandit that learned."""

    @property
    def share(self) -> float:
        """Which part of the log was used."""
        return self.rounds / self.rows if self.rows else 0.0


def simulate_on_log(
    policy: Policy,
    log: Log,
    *,
    seed: int = 0,
    bounds: tuple[float, float] = (0.0, 1.0),
    between: tuple[int, int] | None = None,
) -> LogSimulation:
    """Let a policy learn from a log, as if it had been there.

    Unbiased for answers that depend on the arm alone. The log is kept in memory.

    Parameters
    ----------
    policy : Policy
        The algorithm, such as ``TsallisINF()``.
    log, bounds, between
        As in `bothworlds.inference.report`; every answered row needs a probability.
    seed : int
        Makes the draws repeatable.

    Returns
    -------
    LogSimulation
        The mean, the rounds played and the rows it took.

    Examples
    --------
    >>> import bothworlds as bw
    >>> log = [{"arm": "AB"[t % 2], "reward": float(t % 2), "probability": 0.5}
    ...        for t in range(2000)]
    >>> played = bw.inference.simulate_on_log(bw.TsallisINF(), log, seed=7)
    >>> played.mean > 0.8, played.rows
    (True, 2000)
    """
    owner = "simulate_on_log"
    if not isinstance(policy, Policy):
        raise invalid("policy", owner, "a policy such as TsallisINF()", policy)
    drawn = checked_seed(seed, owner)
    reading = Reading(log, bounds, owner, between)
    blocks = [rows.told() for rows in reading.blocks()]
    arms = np.concatenate([rows.arms for rows in blocks])
    inverse = np.concatenate([rows.inverse() for rows in blocks])
    losses = np.concatenate([rows.losses for rows in blocks])
    values = np.concatenate([rows.values for rows in blocks])
    unknown = np.flatnonzero(inverse == 0.0)
    if unknown.size:
        numbers = np.concatenate([rows.numbers for rows in blocks])
        where = f"row {int(numbers[unknown[0]])} of {reading.title}"
        expected = "known; policies such as ThompsonSampling have none"
        raise invalid("probability", where, expected, None)
    bandit = Bandit(policy, reading.names.listed, seed=drawn, bounds=reading.bounds)
    kept = np.zeros(arms.size, bool)
    if arms.size:
        chance = numpy_generator(drawn, owner, "thinning").random(arms.size)
        kept = chance * inverse.max() < inverse
    brought: list[float] = []
    decision = None
    for n in np.flatnonzero(kept).tolist():
        if decision is None:
            decision = bandit.ask()
        if decision.index == arms[n]:
            value = float(values[n])
            if reading.rewards:
                bandit.tell(decision, reward=value)
            else:
                bandit.tell(decision, loss=value)
            brought.append(value)
            decision = None
    rounds = len(brought)
    return LogSimulation(
        mean=float(np.mean(brought)) if brought else None,
        error=float(np.std(brought, ddof=1) / rounds**0.5) if rounds > 1 else None,
        rounds=rounds,
        kept=int(kept.sum()),
        rows=int(losses.size),
        bandit=bandit,
    )
