"""Outcome of a tile, which files keep; reading one takes no compiler."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class TileOutcome:
    """Measurements of consecutive repetitions, one row each.

    Parameters
    ----------
    first : int
        Number of the first repetition.
    cost : ndarray (count, checkpoints)
        Sum of the environment's contributions to regret.
    plays : ndarray (count, arms)
        How often each arm was played, in the order of the environment's constructor; in duels
        both sides together.
    tracked : ndarray (count, checkpoints, arms + 1) or None
        Cumulative expected loss of every arm, then that of the best arm of each round, where the
        environment tracks them.
    cpu, wall : float
        Seconds.
    state : bytes or None
        Snapshot of a tile after its last round, see `TileJob.keep`.
    shares : ndarray (count, checkpoints, arms) or None
        How often each arm was played by every checkpoint, see `TileJob.shares`.
    realised : ndarray (count, checkpoints) or None
        The realised regret, see `TileJob.realised`.
    """

    first: int
    cost: NDArray[np.float64]
    plays: NDArray[np.int64]
    tracked: NDArray[np.float64] | None
    cpu: float
    wall: float
    state: bytes | None = None
    shares: NDArray[np.int64] | None = None
    realised: NDArray[np.float64] | None = None

    @property
    def count(self) -> int:
        """How many repetitions there are."""
        return len(self.cost)
