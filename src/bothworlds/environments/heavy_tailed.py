"""Heavy-tailed losses with fixed means: Student, lognormal, Pareto.

========== ===================================================================
symbol     meaning
========== ===================================================================
``mu_i``   mean loss of arm i, rows 1 + K to 2K
``mu_*``   smallest of them, C[0]
``U``      1 - v, in (0, 1], v the round's uniform number, common to all arms
``W``      a second uniform number, made of the bits of v
``nu``     degrees of freedom; ``sigma`` log standard deviation; ``a`` tail index
========== ===================================================================

- Student: mu + sqrt(nu (U^(-2/nu) - 1)) cos(2 pi W), exact for every nu (Bailey, 1994);
- lognormal: mu exp(sigma N - sigma^2/2), N = sqrt(-2 ln U) cos(2 pi W);
- Pareto: mu (1 - 1/a) U^(-1/a).

The pseudo-regret is the sum of the gaps mu_I - mu_* of the arms played.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from bothworlds.arguments import (
    arm_count,
    finite_vector,
    flag,
    frozen,
    keep,
    number,
    one_of,
    positive,
)
from bothworlds.environments.base import Array, Environment, ordered, state
from bothworlds.environments.stochastic import mean_of
from bothworlds.errors import invalid
from bothworlds.lanes.functions import cos_sin, exp, log
from bothworlds.lanes.jit import jit
from bothworlds.lanes.random import rotate_left, unit
from bothworlds.lanes.vectors import bits_float, float_bits, select, shift_left, shift_right, sqrt

Noise = Literal["student", "lognormal", "pareto"]

SHAPE = 1  # parameter after mu_*
ROUNDS = 4  # of mixing, after which every bit of v has reached every bit of the result
KEYS = (0x243F6A8885A308D3, 0x13198A2E03707344)  # digits of pi


@jit
def mixed(v: Any) -> Any:
    """Return 64 bits that look independent of v in [0, 1) and depend on nothing else."""
    a = float_bits(v + 1.0)
    b = a ^ KEYS[0]
    for _ in range(ROUNDS):
        a = rotate_left(a, 13) + b
        b = rotate_left(b, 32) ^ a
        a = a + shift_left(b, 21)
        b = rotate_left(b, 17) + (a ^ KEYS[1])
        a = a ^ shift_right(b, 29)
        b = b + rotate_left(a, 43)
    return a ^ b


@jit
def cosine(v: Any) -> Any:
    """Return cos(2 pi W), W made of the bits of v."""
    bits = mixed(v)
    c, s = cos_sin(unit(bits) - 0.5)
    # Of the bits that `unit` leaves over, one picks cosine or sine, one the sign.
    c = select((bits & 2) == 0, s, c)
    return bits_float(float_bits(c) ^ shift_left(bits, 63))


@jit
def loss_student(K: int, t: int, C: Any, E: Any, G: Any, v: Any, arm: Any) -> Any:
    """Return the mean plus Student's t."""
    nu = C[SHAPE]
    power = exp(log(1.0 - v) * (-2.0 / nu))
    return mean_of(K, C, E, arm) + sqrt(nu * (power - 1.0)) * cosine(v)


@jit
def loss_lognormal(K: int, t: int, C: Any, E: Any, G: Any, v: Any, arm: Any) -> Any:
    """Return the mean times a lognormal of mean 1."""
    sigma = C[SHAPE]
    normal = sqrt(-2.0 * log(1.0 - v)) * cosine(v)
    return mean_of(K, C, E, arm) * exp(sigma * normal - 0.5 * sigma * sigma)


@jit
def loss_pareto(K: int, t: int, C: Any, E: Any, G: Any, v: Any, arm: Any) -> Any:
    """Return the mean times a Pareto variable of mean 1."""
    a = C[SHAPE]
    return mean_of(K, C, E, arm) * ((1.0 - 1.0 / a) * exp(log(1.0 - v) * (-1.0 / a)))


_KERNELS: dict[Noise, Any] = {
    "student": loss_student,
    "lognormal": loss_lognormal,
    "pareto": loss_pareto,
}
_SHAPES: dict[Noise, tuple[float, float, float, str]] = {
    "student": (3.0, 1.0, 1e6, "degrees of freedom"),
    "lognormal": (1.0, 0.0, 10.0, "standard deviations of the logarithm"),
    "pareto": (2.5, 1.0, 1e6, "tail indices"),
}
"""The default shape of every noise; its exclusive lower and inclusive upper end; its meaning."""


@dataclass(frozen=True, repr=False, eq=False, init=False)
class HeavyTailed(Environment):
    """Independent losses with fixed means and heavy tails, for policies such as `HTINF`.

    Losses are any numbers, so only policies that take them can play: `HTINF`, `AdaTINF`,
    `Uniform`. Regret is measured by the true means.

    Parameters
    ----------
    means : sequence of float
        Mean loss of every arm: any numbers with Student noise, positive ones otherwise.
    noise : {"student", "lognormal", "pareto"}, default "student"
        "student": the mean plus Student's t of unit scale. "lognormal" and "pareto": positive
        losses of that distribution with these means.
    shape : float, optional
        Student's degrees of freedom, above 1, default 3; the standard deviation of the logarithm
        of a lognormal loss, default 1; the tail index of Pareto, above 1, default 2.5.
    shuffle : bool, default True
        Whether every repetition has the arms in an order of its own.

    Examples
    --------
    >>> import bothworlds as bw
    >>> world = bw.environments.HeavyTailed([1.0, 1.5, 1.5], noise="lognormal", shape=1.2)
    >>> result = bw.simulate([bw.HTINF(scale=3.0)], world, horizon=1000, repetitions=32)
    >>> bool(result.regret["HTINF(scale=3.0)"][:, -1].mean() < 250)
    True

    References
    ----------
    Bailey, *Polar generation of random variates with the t-distribution*, Mathematics of
    Computation 62, 1994.
    """

    means: Array
    noise: Noise
    shape: float | None
    shuffle: bool

    unbounded = True

    def __init__(
        self,
        means: ArrayLike,
        noise: Noise = "student",
        shape: float | None = None,
        shuffle: bool = True,
    ) -> None:
        owner = "HeavyTailed"
        noise = one_of("noise", noise, owner, tuple(_KERNELS))
        expected = "two or more finite numbers, one per arm"
        if noise != "student":
            expected = f"two or more positive numbers, one per arm, with {noise} noise"
        mu = finite_vector("means", means, owner, expected)
        if mu.size < 2 or np.abs(mu).max() > 1e30 or (noise != "student" and mu.min() <= 0.0):
            raise invalid("means", owner, expected, means)
        if shape is not None:
            _, low, high, what = _SHAPES[noise]
            expected = f"a number above {low:g}, at most {high:g}: {what}"
            shape = number("shape", shape, owner, low, high, expected)
            if shape <= low:
                raise invalid("shape", owner, expected, shape)
        shuffle = flag("shuffle", shuffle, owner)
        keep(self, means=frozen(mu), noise=noise, shape=shape, shuffle=shuffle, n_arms=mu.size)

    @classmethod
    def gap(
        cls,
        n_arms: int,
        gap: float,
        noise: Noise = "student",
        shape: float | None = None,
        shuffle: bool = True,
    ) -> HeavyTailed:
        """Return an instance with one arm of mean 1 and others of mean 1 + gap.

        Examples
        --------
        >>> from bothworlds.environments import HeavyTailed
        >>> HeavyTailed.gap(3, 0.5, noise="pareto")
        HeavyTailed(means=[1.0, 1.5, 1.5], noise='pareto')
        """
        means = np.full(arm_count(n_arms, "HeavyTailed.gap"), 1.0)
        means[1:] += positive("gap", gap, "HeavyTailed.gap")
        return cls(means, noise, shape, shuffle)

    def fixed_gaps(self) -> Array:
        """Return the gap of every arm."""
        return self.means - float(self.means.min())

    def parameters(self) -> Array:
        """Return the smallest mean and the shape."""
        shape = _SHAPES[self.noise][0] if self.shape is None else self.shape
        return np.array([self.means.min(), shape])

    def start(self, rng: np.random.Generator) -> Array:
        """Return the labels and the means, in this repetition's order."""
        order = ordered(rng, self.n_arms, self.shuffle)
        return state(order, self.means[order])

    def kernel(self) -> Any:
        """Return the kernel of the noise."""
        return _KERNELS[self.noise]
