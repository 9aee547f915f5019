"""Quantile tables: losses in [0, 1] with a given distribution and exactly a given mean.

A loss is drawn by inversion, loss = Q(v) with v uniform.  [0, 1) is cut into `CELLS` equal cells;
in cell j the table holds

======= ========================================================================
``c_j`` the conditional mean of the loss, CELLS times the integral of Q over the cell
``s_j`` a slope: within the cell the loss runs linearly from c_j - s_j/2 to c_j + s_j/2
======= ========================================================================

The mean of a draw is the average of the c_j regardless of the slopes, so it is right to rounding.
The losses of a cell stay between its two quantiles, so the distribution function is right to about
1 / CELLS; losses rarer than that are averaged, which matters for means very close to 0 or 1.

Both distributions are integrated over z = ln(x / (1 - x)), where they are smooth and their tails
exponential for any shape, in panels with Gauss-Legendre nodes:

- beta with mean m and a + b = k: density in z proportional to e^(a z) / (1 + e^z)^k;
- normal of standard deviation sigma truncated to [0, 1]: proportional to
  exp(lambda x - x^2 / (2 sigma^2)) x (1 - x), lambda chosen such that the mean is m.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from bothworlds.environments.base import Array

CELLS = 512
"""Cells of [0, 1) in a quantile table."""

_REACH = 45.0  # beyond |z| = 45 x is 0 or 1 to double precision
_PANELS = 4096
_EDGES = np.linspace(-_REACH, _REACH, _PANELS + 1)
_CONSTANT = 1e-12  # a mean this close to 0 or 1 leaves no room for noise
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(4)

LogDensity = Callable[[Array, Array], Array]
"""The logarithm of a density, up to a constant, as a function of z and x."""


@functools.lru_cache(maxsize=4096)
def quantile_table(noise: str, mean: float, spread: float) -> Array:
    """Return c_0, s_0, c_1, s_1, ... of a distribution with this mean.

    Parameters
    ----------
    noise : {"beta", "normal"}
        Beta, or a normal truncated to [0, 1].
    mean : float
        Mean of the losses, in [0, 1].
    spread : float
        For "beta", the standard deviation as a fraction of that of a Bernoulli variable. For
        "normal", the standard deviation before truncation.
    """
    if min(mean, 1.0 - mean) < _CONSTANT:
        return _interleave(np.full(CELLS, mean), np.zeros(CELLS))
    if noise == "beta":
        k = 1.0 / (spread * spread) - 1.0
        return _cells(mean, _beta(k * mean, k - k * mean), (1.0 / (k * mean), 1.0 / (k - k * mean)))
    return _cells(mean, _normal(_rate(mean, spread), spread), (0.0, 0.0))


def _beta(a: float, b: float) -> LogDensity:
    return lambda z, x: a * z - (a + b) * np.logaddexp(0.0, z)


def _normal(rate: float, sigma: float) -> LogDensity:
    return lambda z, x: rate * x - 0.5 * np.square(x / sigma) + z - 2.0 * np.logaddexp(0.0, z)


def _sigmoid(z: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-z))


def _integrate(
    density: LogDensity, edges: Array, tails: tuple[float, float]
) -> tuple[Array, Array]:
    """Integrate a density over panels between edges in z.

    Returns the distribution function and the partial mean at the edges and at x = 1. ``tails`` are
    the integrals of the density beyond the ends, per density at the ends.
    """
    half = 0.5 * np.diff(edges)[:, None]
    z = (edges[:-1, None] + half) + half * _NODES
    x = _sigmoid(z)
    exponent = density(z, x)
    peak = exponent.max()
    f = np.exp(exponent - peak) * (half * _WEIGHTS)
    ends = np.exp(density(edges[[0, -1]], _sigmoid(edges[[0, -1]])) - peak) * tails
    mass = np.concatenate([[0.0], np.cumsum(f.sum(axis=1))]) + ends[0]
    moment = np.concatenate([[0.0], np.cumsum((f * x).sum(axis=1))])
    total = mass[-1] + ends[1]
    return np.append(mass, total) / total, np.append(moment, moment[-1] + ends[1]) / total


def _rate(mean: float, sigma: float) -> float:
    """Find lambda of the truncated normal with this mean, by Newton's method in a bracket."""
    low, high = -80.0, 80.0  # of asinh(lambda), which the mean increases with
    s = math.asinh(mean / (sigma * sigma))  # right where both ends are far away
    for _ in range(100):
        mass, moment = _integrate(_normal(math.sinh(s), sigma), _EDGES, (0.0, 0.0))
        got = float(moment[-1])
        if got < mean:
            low = s
        else:
            high = s
        if abs(got - mean) <= 1e-14 * mean or high - low <= 1e-15 * abs(s):
            break
        # The derivative of the mean by lambda is the variance.
        probability = np.diff(mass)
        centres = np.diff(moment) / np.maximum(probability, 1e-300)
        variance = float(np.sum(probability * np.square(np.clip(centres, 0.0, 1.0) - got)))
        s += (mean - got) / (max(variance, 1e-300) * math.cosh(s))
        if not low < s < high:
            s = 0.5 * (low + high)
    return math.sinh(s)


def _cells(mean: float, density: LogDensity, tails: tuple[float, float]) -> Array:
    """Cut a distribution into cells of equal probability."""
    mass, _ = _integrate(density, _EDGES, tails)
    # A second time, with panels that are small where the probability is.
    levels = np.arange(1, _PANELS) / _PANELS
    edges = np.union1d(_EDGES[::4], np.interp(levels, mass[:-1], _EDGES))
    mass, moment = _integrate(density, edges, tails)
    points = np.append(_sigmoid(edges), 1.0)
    cuts = np.arange(1, CELLS) / CELLS
    q = np.concatenate([[0.0], np.interp(cuts, mass, points), [1.0]])
    # Conditional means telescope, so their average does not depend on the interpolation.
    partial = np.concatenate([[0.0], np.interp(cuts, mass, moment), [moment[-1]]])
    c = np.sort(np.clip(np.diff(partial) * (CELLS * mean / moment[-1]), 0.0, 1.0))
    s = 2.0 * np.maximum(np.minimum(c - q[:-1], q[1:] - c), 0.0)
    return _interleave(c, s)


def _interleave(c: Array, s: Array) -> Array:
    table = np.empty(2 * CELLS)
    table[0::2] = c
    table[1::2] = s
    table.setflags(write=False)
    return table
