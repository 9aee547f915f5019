"""Reference numbers of simulations with independent code.

They are for what the figures of `bothworlds.experiments.claims.published` do not show, or show with
settings that had to be inferred. Tests and `benchmarks.numbers` compare with them.
"""

from __future__ import annotations

from bothworlds.experiments.algorithms import BROAD, EXP3, EXP3PP, IW, RV, THOMPSON, UCB

STOCHASTIC: dict[str, dict[int, tuple[float, float]]] = {
    IW: {10_000: (285, 2), 100_000: (512, 6)},
    RV: {10_000: (172, 2), 100_000: (270, 3), 1_000_000: (370, 3), 10_000_000: (465, 9)},
    THOMPSON: {10_000: (118, 4), 100_000: (169, 4)},
    UCB: {10_000: (414, 1), 100_000: (781, 6)},
    EXP3: {10_000: (379, 8), 100_000: (731, 11)},
    EXP3PP: {10_000: (374, 5), 100_000: (610, 7), 1_000_000: (937, 13), 10_000_000: (1879, 23)},
    BROAD: {10_000: (982, 10), 100_000: (3375, 34), 1_000_000: (6011, 60), 10_000_000: (8677, 87)},
}
"""Mean and standard error of independent simulations, stochastic regime; BROAD knows 1e7 rounds."""

SWITCHING: dict[str, dict[int, tuple[float, float]]] = {
    RV: {100_000: (269, 9), 1_000_000: (372, 9), 10_000_000: (461, 12)},
}
"""Mean and standard error of independent simulations, stochastically constrained adversary."""

COPIES: dict[int, dict[str, dict[int, float]]] = {
    2: {IW: {10_000: 48.3, 100_000: 81.1}, RV: {10_000: 28.5, 100_000: 43.1}},
    4: {IW: {10_000: 31.7, 100_000: 61.7}, RV: {10_000: 18.9, 100_000: 33.0}},
    8: {IW: {10_000: 22.4, 100_000: 48.4}, RV: {10_000: 13.7, 100_000: 26.6}},
    16: {IW: {10_000: 15.7, 100_000: 38.6}, RV: {10_000: 10.1, 100_000: 21.9}},
}
"""Means of 400 independent repetitions, copies of the best arm, by the number of arms."""
