"""The OMD step at alpha = 0, the log-barrier, on one bandit or on a tile of repetitions.

======== ==========================================================================
``L_i``  cumulative loss estimate of arm i
``x``    normalisation: w_i = 1 / (eta (L_i - x)), sum_i w_i = 1, x <= min_i L_i - 1 / eta
``r_i``  1 / (L_i - x)
``S_k``  sum_i r_i^k; the root is S_1(x) = eta
``d``    a step in x
======== ==========================================================================

In the notation w_i = 1 / (1 + eta (L_i - y)) of the general step, y = x + 1 / eta.

The equation solved is 1 / S_1(x) = 1 / eta.  Its left side is concave and decreasing, so Newton's
step lands right of the root, from where it decreases monotonically; a step or a start that comes
near a pole or passes it (some w_i would exceed 2 or be negative) is taken back to min L - 1 / eta,
where one weight is 1.  So any start will do.  Near the root the second derivative adds an order.
"""

import math
from typing import Any

from bothworlds.lanes.jit import jit
from bothworlds.lanes.vectors import absolute, any_lane, load, select, splat, store
from bothworlds.omd.recentring import least

TOLERANCE = 1e-13
"""Distance of the sum of the weights from 1 at which the root is accepted, L being small."""
MAX_PASSES = 100  # never reached: a bound on the loop, not a tolerance


@jit
def solve_barrier(K: int, S: Any, losses: int, out: int, x: Any, eta: Any) -> Any:
    """Write r_i into row ``out + i`` from L_i in row ``losses + i``.

    ``x`` is where to start.  Returns the root x, S_1, S_2 and the number of passes over the arms.
    The weights are r_i / S_1.
    """
    half = 0.5 / eta
    tolerance = TOLERANCE + 2e-15 * math.sqrt(K)
    S1 = splat(0.0, x)
    S2 = splat(0.0, x)
    passes = 0
    while passes < MAX_PASSES:
        passes += 1
        S1 = splat(0.0, x)
        S2 = splat(0.0, x)
        S3 = splat(0.0, x)
        beyond = x != x
        for i in range(K):
            y = load(S, losses + i, x) - x
            r = 1.0 / y
            r2 = r * r
            S1 = S1 + r
            S2 = S2 + r2
            S3 = S3 + r2 * r
            beyond = beyond | (y < half)
            store(S, out + i, r)
        miss = 1.0 - S1 / eta
        # Where L is large, the last digit of x moves the sum of the weights by this much.
        grain = 2.3e-16 * eta * absolute(x)
        pending = (absolute(miss) > tolerance + grain) | beyond
        if not any_lane(pending):
            break
        newton = miss * S1 / S2
        bend = newton * (S2 / S1 - S3 / S2)
        d = select(absolute(bend) < 0.25, newton * (1.0 + bend), newton)
        if any_lane(beyond):
            d = select(beyond, least(K, S, losses, x) - 1.0 / eta - x, d)
        # A lane that is done stands still, and another pass gives it the same numbers again.
        x = x + select(pending, d, 0.0)
    return x, S1, S2, passes
