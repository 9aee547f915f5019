"""Every arm with the same probability in every round: the control of an experiment.

README:

| `Uniform()` | linear, a control for experiments | linear | |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from bothworlds.lanes.jit import jit
from bothworlds.lanes.vectors import splat, store, to_int
from bothworlds.policies.base import Kernels, Policy, Traits


@jit
def choose(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Return floor(u K); u is a multiple of 2^-52 below 1, so rounding cannot give K."""
    store(S, 0, splat(K, u))
    return to_int(u * K)


@jit
def update(K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any) -> None:
    """Learn nothing."""


@jit
def weights(K: int, t: int, C: Any, S: Any, G: Any, out: Any) -> None:
    """1 / K each."""
    for i in range(K):
        out[i] = 1.0 / K


@dataclass(frozen=True, repr=False)
class Uniform(Policy):
    """Plays every arm with the same probability and never learns.

    Examples
    --------
    >>> import bothworlds as bw
    >>> bw.Uniform()
    Uniform()
    """

    traits: ClassVar[Traits] = Traits(
        resizable=True,
        unproved="its regret grows linearly: the horizon times the mean gap",
        floored=True,
        saved_rows={},
    )
    own_kernels = Kernels.of(choose, update, weights)
