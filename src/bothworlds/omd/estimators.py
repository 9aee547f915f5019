"""Loss estimators: importance weighting (IW) and reduced variance (RV).

With the arm I played with probability w_I and loss l observed, every arm's estimate is

    lhat_i = B_i + 1[i = I] (l - B_i) / w_i,

which is unbiased for any baseline B_i known before the draw.  IW takes B_i = 0; RV takes
B_i = 1/2 for every arm with w_i >= eta^2, played or not (Zimmert and Seldin, 2021, section 3.3).
"""

from typing import Any

from bothworlds.lanes.jit import jit
from bothworlds.lanes.vectors import select, splat

BASELINE = 0.5
"""B_i of the near arms, those with w_i >= eta^2."""


@jit
def baseline(near: Any, like: Any) -> Any:
    """Return B_i: `BASELINE` where ``near`` holds, else 0."""
    return select(near, splat(BASELINE, like), splat(0.0, like))


@jit
def with_baseline(L: Any, near: Any) -> Any:
    """Return L_i + B_i."""
    return select(near, L + BASELINE, L)


@jit
def correction(loss: Any, base: Any, inverse_p: Any) -> Any:
    """Return (l - B_I) / w_I, which the played arm's estimate gets beyond its baseline."""
    return (loss - base) * inverse_p


@jit
def estimated_loss(loss: Any, base: Any, mean_baseline: Any) -> Any:
    """Return sum_j w_j lhat_j = l - B_I + sum_j w_j B_j, the algorithm's own estimated loss."""
    return loss - base + mean_baseline


@jit
def add_estimates(L: Any, arm: int, inverse_p: float, loss: float, near: Any, share: float) -> None:
    """Add ``share`` times lhat to ``L`` for a decision of the past, its near arms marked."""
    base = baseline(near[arm] != 0, 0.0)
    for i in range(L.size):
        L[i] += share * baseline(near[i] != 0, 0.0)
    L[arm] += share * correction(loss, base, inverse_p)
