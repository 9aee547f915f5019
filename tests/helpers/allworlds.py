"""AllWorlds in plain Python, written from its definition: a reference for the compiled kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def weights(losses: Array, eta: float) -> Array:
    """Return 4 / (eta (L_i - x))^2 with x such that they sum to 1, by Newton's method.

    It starts where one weight is 1, right of the root, and moves left until it stands still.
    """
    x = float(losses.min()) - 2.0 / eta
    while True:
        y = losses - x
        w = 4.0 / (eta * y) ** 2
        step = (float(w.sum()) - 1.0) / float((2.0 * w / y).sum())
        if x - step >= x:
            return w / w.sum()
        x -= step


def near_baselines(w: Array, eta: float) -> Array:
    """Return the baselines of reduced variance: 1/2 where w >= eta^2, rounding aside."""
    return np.where(w >= eta * eta * (1.0 - 1e-12), 0.5, 0.0)


def kl(p: float, q: float) -> float:
    """Return the divergence of Bernoulli distributions."""
    total = 0.0
    if p > 0.0:
        total += p * math.log(p / q)
    if p < 1.0:
        total += (1.0 - p) * math.log((1.0 - p) / (1.0 - q))
    return total


def change(losses: list[float], limit: float) -> int:
    """Return the dyadic cut with the largest likelihood ratio above ``limit``, or 0.

    At level j the cut is the last but one multiple of 2^j, as the dyadic sums keep it.
    """
    N, total = len(losses), sum(losses)
    if not 0.0 < total < N:
        return 0
    best, found, level = limit, 0, 0
    while N >> level >= 2:
        cut = ((N >> level) - 1) << level
        before = sum(losses[:cut])
        a, b, mu = before / cut, (total - before) / (N - cut), total / N
        a, b = min(max(a, 0.0), 1.0), min(max(b, 0.0), 1.0)
        value = cut * kl(a, mu) + (N - cut) * kl(b, mu)
        if value > best:
            best, found = value, cut
        level += 1
    return found


@dataclass
class Pending:
    """What is kept of a decision."""

    arm: int
    probability: float
    baseline: float
    round: int
    baselines: Array


@dataclass
class ReducedVariance:
    """Tsallis-INF with reduced variance, as the paper's Algorithm 1 states it."""

    K: int
    t: int = 0
    L: Array = field(init=False)
    p: Array = field(init=False)

    def __post_init__(self) -> None:
        self.L, self.p = np.zeros(self.K), np.full(self.K, 1.0 / self.K)

    def choose(self, uniform: Callable[[], float]) -> Pending:
        """Draw an arm by the first of two numbers, of which `Reference` needs both."""
        self.t += 1
        eta = 4.0 / math.sqrt(self.t)
        self.p = weights(self.L, eta)
        arm = min(int(np.searchsorted(np.cumsum(self.p), uniform(), side="right")), self.K - 1)
        uniform()
        baselines = near_baselines(self.p, eta)
        return Pending(arm, float(self.p[arm]), float(baselines[arm]), self.t, baselines)

    def learn(self, made: Pending, loss: float) -> None:
        """Add the estimates of all arms, with what was known at the decision."""
        self.L += made.baselines
        self.L[made.arm] += (loss - made.baseline) / made.probability


@dataclass
class Reference:
    """AllWorlds with switches that turn parts of it off.

    Parameters
    ----------
    K : int
        Number of arms.
    near : bool
        RV's baselines: 1/2 for arms with w >= eta^2, none for others.
    scheduled : bool
        RV's rate 4 / sqrt(t).
    floor, alarms : bool
        Whether there is a floor, and whether there are alarms.
    counting, sharing : bool
        Whether outstanding decisions count in the rate, and missing ones in the baselines.
    on_arrival : bool
        Whether baselines are added with the feedback.
    c : float
        What multiplies the age at an alarm.
    """

    K: int
    near: bool = False
    scheduled: bool = False
    floor: bool = True
    alarms: bool = True
    counting: bool = True
    sharing: bool = True
    on_arrival: bool = False
    side: bool = True
    c: float = 8.0
    level_alarms: int = 0
    side_alarms: int = 0
    t: int = 0
    Q: float = 0.25
    t0: int = 0
    n: int = 0
    o: int = 0
    D: int | None = None
    nB: float = 0.0
    sB: float = 0.0
    U: int = 0
    last: int | None = None
    leader: int = 0
    L: Array = field(init=False)
    u: Array = field(init=False)
    p: Array = field(init=False)
    rings: list[list[float]] = field(init=False)

    def __post_init__(self) -> None:
        self.L, self.u = np.zeros(self.K), np.zeros(self.K)
        self.p = np.full(self.K, 1.0 / self.K)
        self.rings = [[] for _ in range(self.K)]

    def distribution(self, t: int) -> tuple[Array, Array, float, NDArray[np.bool_], float]:
        """Return w, the baselines, f, the arms on the floor, and the share of the baselines."""
        waiting = self.o if self.D is None else min(self.o, self.D)
        outstanding = waiting / (1 + self.n) if self.counting else 0.0
        eta = 2.0 / math.sqrt(self.Q * (1.0 + outstanding))
        if self.scheduled:
            eta = 4.0 / math.sqrt(t)
        w = weights(self.L, eta)
        B = (0.5 + self.sB) / (1.0 + self.nB)
        baselines = np.minimum(B, max(0.5, B) * np.sqrt(w) / eta)
        if self.near:
            baselines = near_baselines(w, eta)
        few = np.array([len(ring) < 3.0 * math.log(t) for ring in self.rings])
        f = min((1.0 - float(w.max())) / 4.0, 1.0 / math.sqrt(t)) / self.K if self.floor else 0.0
        missing = 0 if self.D is None else max(self.o - self.D, 0)
        share = (1 + self.n) / (1 + self.n + missing) if self.sharing else 1.0
        return w, baselines, f, few, share

    def choose(self, uniform: Callable[[], float]) -> Pending:
        """Draw an arm: the first number is for w, the second for the floor."""
        self.t += 1
        w, baselines, f, few, share = self.distribution(self.t)
        self.leader = int(w.argmax())
        e = f * few.sum()
        self.p = (1.0 - e) * w + f * few
        arm = min(int(np.searchsorted(np.cumsum(w), uniform(), side="right")), self.K - 1)
        v = uniform()
        if v < e:
            arm = int(np.flatnonzero(few)[min(int(v / f), int(few.sum()) - 1)])
        if not self.on_arrival:
            self.L += share * baselines
        self.o += 1
        return Pending(arm, float(self.p[arm]), float(baselines[arm]), self.t, baselines)

    def learn(self, made: Pending, loss: float) -> None:
        """Learn from the loss of a decision."""
        if made.round <= self.t0:
            return
        now, arm = self.t, made.arm
        self.o -= 1
        self.n += 1
        self.D = max(self.D or 0, now - made.round)
        if self.on_arrival:
            self.L += made.baselines
        d = loss - made.baseline
        self.L[arm] += d / made.probability
        self.Q += d * d / math.sqrt(self.K * made.probability)
        self.nB += 1
        self.sB += loss
        ring = self.rings[arm]
        ring.append(loss)
        if arm == self.leader:
            self.u[arm] = 0
            limit = (4.0 + math.log(len(ring))) * 1.15**self.U
        else:
            limit = (2.0 + math.log(len(ring)) / 2.0) * 1.15 ** self.u[arm]
        cut = change(ring, limit) if self.alarms else 0
        if cut == 0:
            return
        a, b = sum(ring[:cut]) / cut, sum(ring[cut:]) / (len(ring) - cut)
        low = float(self.L.min())
        lead = self.L - low
        C = self.c * max(now - self.t0, 1)
        if arm == self.leader:
            self.level_alarms += 1
            if self.last is not None:
                self.U = self.U + 1 if arm == self.last else 0
            self.last = arm
            C *= 1.0 + self.U / 2.0
            far = lead * lead > C
            self.L = np.where(far, C / np.where(far, lead, 1.0), lead)
            self.nB = min(len(ring) - cut, 8)
            self.sB = b * self.nB
            self.rings = [[] for _ in range(self.K)]
            self.Q, self.t0, self.o, self.n = 0.25, now, 0, 0
        elif self.side:
            self.side_alarms += 1
            if b < a and lead[arm] ** 2 > C:
                self.L[arm] = low + max(C / lead[arm], lead[arm] / 4.0)
                self.u[arm] += 1
            self.rings[arm] = []
