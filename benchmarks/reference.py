"""The yardstick: Tsallis-INF as a plain scalar loop with the paper's Newton method.

This is what a careful reader of the paper would write with Numba: Algorithm 2 with a warm start,
a residual of 1e-12 and the clip that keeps the root on the right branch.  `benchmarks/simulate.py`
measures the package against it, in the same process.
"""

import math
from typing import Any

import numba
import numpy as np


@numba.njit(cache=True, error_model="numpy")
def play(K: int, T: int, gap: float, reduced_variance: bool, seed: int) -> float:
    """Play T rounds against Bernoulli losses and return the pseudo-regret."""
    np.random.seed(seed)
    L = np.zeros(K)
    w = np.empty(K)
    x = -math.sqrt(K) / 2 if reduced_variance else -math.sqrt(K)
    regret = 0.0
    for t in range(1, T + 1):
        eta = (4.0 if reduced_variance else 2.0) / math.sqrt(t)
        least = L[0]
        for i in range(1, K):
            least = min(least, L[i])
        x = min(x, least - 2.0 / eta)
        for _ in range(60):
            total = 0.0
            slope = 0.0
            for i in range(K):
                root = 2.0 / (eta * (L[i] - x))
                w[i] = root * root
                total += w[i]
                slope += w[i] * root
            if abs(total - 1.0) <= 1e-12:
                break
            x = min(x - (total - 1.0) / (eta * slope), least - 2.0 / eta)
        u = np.random.random() * total
        arm = 0
        cumulative = w[0]
        while cumulative <= u and arm < K - 1:
            arm += 1
            cumulative += w[arm]
        mean = 0.5 - gap / 2 if arm == 0 else 0.5 + gap / 2
        loss = 1.0 if np.random.random() < mean else 0.0
        regret += 0.0 if arm == 0 else gap
        p = w[arm] / total
        if reduced_variance:
            baseline = 0.5 if p >= eta * eta else 0.0
            for i in range(K):
                if w[i] / total >= eta * eta:
                    L[i] += 0.5
            L[arm] += (loss - baseline) / p
        else:
            L[arm] += loss / p
    return regret


@numba.njit(cache=True, error_model="numpy")
def divisions(A: Any, rounds: int) -> float:
    """Divide every element of ``A`` ``rounds`` times: the floor of one division for every arm."""
    total = 0.0
    for n in range(rounds):
        numerator = 1.0 + n
        for i in range(A.size):
            A[i] = numerator / A[i]
        total += A[0]
    return total
