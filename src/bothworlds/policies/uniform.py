"""Every arm with the same probability, whatever was observed: the control of an experiment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from bothworlds.lanes.jit import jit
from bothworlds.lanes.kernels import unpack
from bothworlds.lanes.random import uniform
from bothworlds.lanes.vectors import splat, store, to_int
from bothworlds.policies.base import Kernels, Policy, Saved


@jit
def choose(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Return floor(u K); u is a multiple of 2^-52 below 1, so rounding cannot give K."""
    store(S, 0, splat(K, u))
    return to_int(u * K)


@jit
def update(K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any) -> None:
    """Learn nothing."""


@jit
def ask(F: Any) -> Any:
    """Draw an arm for one bandit."""
    K, t, C, S, G = unpack(F)
    return choose(K, t, C, S, G, uniform(G, 0.0))


@jit
def tell(F: Any, arm: int, inverse_p: float, loss: float) -> None:
    """Learn nothing."""


@jit
def weights(F: Any, out: Any) -> None:
    """1 / K each."""
    K, t, C, S, G = unpack(F)
    for i in range(K):
        out[i] = 1.0 / K


_KERNELS = Kernels(choose, update, ask, tell, weights)


@dataclass(frozen=True, repr=False)
class Uniform(Policy):
    """Plays every arm with the same probability and never learns.

    Examples
    --------
    >>> import bothworlds as bw
    >>> bw.Uniform()
    Uniform()
    """

    saved_rows: ClassVar[dict[int, Saved] | None] = {}

    def kernels(self) -> Kernels:
        """Return the kernels."""
        return _KERNELS
