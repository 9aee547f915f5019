"""Sliding-window Thompson sampling (Trovo, Paladino, Restelli and Gatti, 2020).

======== ==========================================================================
``W``    the window, in observations
``a_i``  1 + number of losses 1 of arm i among the last W observations
``b_i``  1 + number of losses 0 of arm i among them
theta_i  a draw from Beta(a_i, b_i)
======== ==========================================================================

Every round draws theta and plays argmin_i theta_i, with the kernel of
`bothworlds.policies.thompson`.  A loss l strictly between 0 and 1 counts as 1 with probability l.
The last W observations are in a ring: each is the row of the count that it added to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from bothworlds.arguments import keep, whole
from bothworlds.errors import invalid
from bothworlds.lanes.jit import jit
from bothworlds.lanes.random import uniform
from bothworlds.lanes.vectors import (
    advance,
    gather,
    load,
    scatter,
    select,
    splat,
    sqrt,
    store,
    stride,
    to_float,
    to_index,
    to_int,
)
from bothworlds.policies import thompson
from bothworlds.policies.base import Array, Kernels, Policy, Traits
from bothworlds.policies.thompson import THIRD, ThompsonSampling

# Parameters: the window. Rows: inverse probability (0, unknown), the place of the next observation,
# the ring; then those of every arm in `bothworlds.policies.thompson`.
NEXT, RING = 1, 2
NONE = -1.0  # a place in the ring that is still empty
MOST = 2**20


@jit
def arms_at(C: Any, S: Any, like: Any) -> Any:
    """Return the rows from which on they are those of Thompson sampling."""
    return advance(S, (RING + to_int(C[0]) - thompson.ARMS) * stride(like))


@jit
def choose(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Draw theta and return its argmin."""
    # The row before the arms' is a place of the ring, and `thompson.choose` writes 0 there.
    last = load(arms_at(C, S, u), 0, u)
    arm = thompson.choose(K, t, C, arms_at(C, S, u), G, u)
    store(arms_at(C, S, u), 0, last)
    return arm


@jit
def count(S: Any, K: int, side: Any, change: Any) -> None:
    """Change a count and its dependent values; see `bothworlds.policies.thompson`."""
    d = gather(S, thompson.ARMS, side) + change
    scatter(S, thompson.ARMS, side, d)
    scatter(S, thompson.ARMS + K, side, 1.0 / sqrt(9.0 * d))


@jit
def update(K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any) -> None:
    """Count the loss as 1 with probability ``loss``, else as 0, and forget the oldest one."""
    one = uniform(G, loss) < loss
    side = select(one, arm, arm + 2 * K)
    arms = arms_at(C, S, loss)
    place = load(S, NEXT, loss)
    oldest = gather(S, RING, to_index(place))
    full = oldest >= 0.0
    count(arms, K, to_index(select(full, oldest, 0.0)), select(full, -1.0, splat(0.0, loss)))
    count(arms, K, side, splat(1.0, loss))
    scatter(S, RING, to_index(place), to_float(side))
    place = place + 1.0
    store(S, NEXT, select(place >= C[0], 0.0, place))


@dataclass(frozen=True, repr=False)
class SlidingWindowThompson(Policy):
    """Thompson sampling on the last observations only, for losses whose means change.

    Parameters
    ----------
    window : int, default 1000
        How many observations, of all arms together, are remembered; at least 1.

    Notes
    -----
    Trovo et al. take a window of order sqrt(T). The probability of the chosen arm is not known.

    Examples
    --------
    >>> import bothworlds as bw
    >>> bw.SlidingWindowThompson(window=500)
    SlidingWindowThompson(window=500)

    References
    ----------
    Trovo, Paladino, Restelli and Gatti, *Sliding-Window Thompson Sampling for Non-Stationary
    Settings*, Journal of Artificial Intelligence Research 68, 2020.
    """

    window: int = 1000

    traits: ClassVar[Traits] = Traits(
        unproved="its bound is for piecewise constant means only, see Trovo et al. 2020",
        nanoseconds=(18.0, 7.0),
        order_invariant=False,
        rows_per_arm=4,
        knows_probability=False,
    )
    own_kernels = Kernels.of(choose, update)

    def __post_init__(self) -> None:
        window = whole("window", self.window, "SlidingWindowThompson", 1)
        if window > MOST:
            raise invalid("window", "SlidingWindowThompson", f"at most {MOST}", window)
        keep(self, window=window, traits=replace(self.traits, head_rows=RING + window))

    def parameters(self, n_arms: int) -> Array:
        """Return the window."""
        return np.array([float(self.window)])

    def start(self, n_arms: int) -> Array:
        """Return an empty window and the prior Beta(1, 1) of every arm."""
        ring = np.full(self.window, NONE)
        return np.concatenate([np.zeros(RING), ring, ThompsonSampling().start(n_arms)[1:]])

    def sound(self, n_arms: int, state: Array) -> bool:
        """Tell whether the counts are those of the ring, and the next place is in it."""
        place, ring = state[NEXT], state[RING : RING + self.window]
        inside = (ring == NONE) | ((ring >= 0.0) & (ring < 3 * n_arms) & (ring == np.floor(ring)))
        if not inside.all() or not np.isin(place, np.arange(self.window)).all():
            return False
        sides = np.arange(3 * n_arms)[:, np.newaxis, np.newaxis]
        counts = (ring == sides).sum(axis=1)
        d, c = state[RING + self.window :].reshape(2, 2, n_arms, -1).swapaxes(0, 1)
        found = np.stack([counts[:n_arms], counts[2 * n_arms :]])
        fits = np.abs(d - found - (1.0 - THIRD)) < 0.1
        return bool(
            fits.all()
            and (c == 1.0 / np.sqrt(9.0 * d)).all()
            and not counts[n_arms : 2 * n_arms].any()
        )

    def state_from(self, n_arms: int, saved: Mapping[str, Array]) -> Array:
        """Return the saved state, if its counts are those of its window."""
        state = super().state_from(n_arms, saved)
        if not self.sound(n_arms, state[:, np.newaxis]):
            raise invalid("state", "SlidingWindowThompson", "one of its own", "other")
        return state
