"""KL-UCB in tiles: the same arms, with an index computed only where a level does not decide.

Whether an index is below a level c needs no index: q_i < c exactly if m_i < c, or
h_i = n_i kl(m_i, c) < f.  Let c lie between the least index, the leader's, and the second.

* The other arms are not played, so their h_i stand still, and f is concave in ln t: they stay above
  c at least until t exp((min h_i - f) / (1 + c' / ln t)), c' the policy's factor of ln ln t.
* The leader's h grows with its losses and falls with the rest: it stays below c until the sum of
  its losses passes LIMIT.

Until then a round is two comparisons.  When LIMIT is passed one divergence moves it on; otherwise
the round is played in full, and a new level is put in.  Both conditions hold with a margin far
above rounding, so the arms are those of `bothworlds.policies.klucb`, one by one.  A level that did
not last makes the lane wait before it tries another.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bothworlds.lanes.functions import exp, log
from bothworlds.lanes.jit import jit
from bothworlds.lanes.rows import put, take
from bothworlds.lanes.vectors import advance, any_lane, load, select, store, stride, to_index, width
from bothworlds.policies.base import LARGEST, Array, Kernels, Policy, Program
from bothworlds.policies.klucb.kernels import budget_at, least_index
from bothworlds.policies.thompson.tails import deviance

# Rows before the arms': after the inverse probability (1)
UNTIL = 1  # the round from which a comparison is not enough; 0 where it never is
LEAD = 2  # the arm to play
LIMIT = 3  # the sum of the leader's losses up to which it stays below the level
LEVEL = 4  # c
OTHERS = 5  # the round until which the other arms stay above the level
SINCE = 6  # the round in which the level was put in
NEXT = 7  # the round from which a new level is tried
WAIT = 8  # rounds to wait after a level that did not last
ARMS = 9
# Groups of a row per arm: n, the sum of the losses, and decisions without an answer (none).
GROUPS = 3

MARGIN = 1e-11  # relative, of the budget: far above the rounding of an index
SEPARATE = 1e-9  # relative distance of two indices between which a level fits
SHORT, LONGEST_WAIT = 8.0, 1024.0
FARTHEST = 100.0  # logarithm of how many times t a level may last


@jit
def beyond(x: float, n: float, c: float) -> float:
    """Return h: n kl(x / n, c), or 0 where the mean is not above c."""
    if x <= n * c:
        return 0.0
    if x >= n:
        return float(-n * log(c))
    return float(deviance(x, n - x, c))


@jit
def limit_below(x: float, n: float, c: float, f: float) -> float:
    """Return up to which sum of losses the leader stays below the level, at least x."""
    y = n - x
    certain = c * y / (1.0 - c)  # where the mean is c
    if x <= certain:
        return certain
    # h is convex: its tangent reaches f too late, and half the way, or less, is tried.
    step = (f - beyond(x, n, c)) / log(x / (n * c))
    for _ in range(6):
        step *= 0.5
        if beyond(x + step, n + step, c) < f:
            return float(x + step)
    return x


@jit
def put_level(K: int, t: int, C: Any, s: Any, W: int, f: float, q: float) -> None:
    """Put a level between the leader, whose index is q, and the other arms, if there is room."""
    L = int(s[LEAD * W])
    n = s[(ARMS + L) * W]
    x = s[(ARMS + K + L) * W]
    _, second = least_index(K, f, s, W, ARMS, L)
    if second - q <= SEPARATE * second:
        return
    c = q + 0.6 * (second - q)
    least = LARGEST
    for i in range(K):
        if i != L:
            least = min(least, beyond(s[(ARMS + K + i) * W], s[(ARMS + i) * W], c))
    grows = 1.0 + C[0] / log(float(t))
    lasts = (least * (1.0 - MARGIN) - f) / grows
    if lasts <= 0.0 or beyond(x, n, c) >= f * (1.0 - MARGIN):
        return
    s[LEVEL * W] = c
    s[OTHERS * W] = t * exp(min(lasts, FARTHEST)) * (1.0 - MARGIN)
    s[UNTIL * W] = s[OTHERS * W]
    s[LIMIT * W] = limit_below(x, n, c, f * (1.0 - MARGIN))
    s[SINCE * W] = t


@jit
def look(K: int, t: int, C: Any, s: Any, W: int) -> None:
    """Decide a round that the level of a lane does not; its rows begin at ``s``."""
    f = budget_at(t, C[0])
    if t < s[OTHERS * W]:
        L = int(s[LEAD * W])
        n = s[(ARMS + L) * W]
        x = s[(ARMS + K + L) * W]
        if beyond(x, n, s[LEVEL * W]) < f * (1.0 - MARGIN):
            s[LIMIT * W] = limit_below(x, n, s[LEVEL * W], f * (1.0 - MARGIN))
            s[UNTIL * W] = s[OTHERS * W]
            return
    if s[OTHERS * W] > 0.0:
        # A level is given up.
        lasted = t - s[SINCE * W]
        s[WAIT * W] = 1.0 if lasted >= SHORT else min(2.0 * s[WAIT * W], LONGEST_WAIT)
        s[NEXT * W] = t + s[WAIT * W] - 1.0
        s[OTHERS * W] = 0.0
    s[UNTIL * W] = 0.0
    for i in range(K):
        if s[(ARMS + i) * W] == 0.0:
            s[LEAD * W] = i
            return
    arm, q = least_index(K, f, s, W, ARMS, -1)
    s[LEAD * W] = arm
    if t >= s[NEXT * W] and t > 2 and K > 1:
        put_level(K, t, C, s, W, f, q)


@jit
def choose(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Return the arm with the least index."""
    W = stride(u)
    if any_lane(load(S, UNTIL, u) <= float(t)):
        for place in range(width(u)):
            if S[UNTIL * W + place] <= t:
                look(K, t, C, advance(S, place), W)
    return to_index(load(S, LEAD, u))


@jit
def update(K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any) -> None:
    """Count the loss of the arm that was chosen."""
    put(S, ARMS, K, arm, take(S, ARMS, K, arm) + 1.0)
    x = take(S, ARMS + K, K, arm) + loss
    put(S, ARMS + K, K, arm, x)
    store(S, UNTIL, select(x > load(S, LIMIT, loss), 0.0, load(S, UNTIL, loss)))


_KERNELS = Kernels(choose, update)


def program(policy: Policy, n_arms: int) -> Program:
    """Return the program of `bothworlds.KLUCB` in lanes."""

    def start() -> Array:
        """Return a state without losses and without a level."""
        state = np.zeros(ARMS + GROUPS * n_arms)
        state[0], state[WAIT] = 1.0, 1.0
        return state

    def sound(state: Array) -> bool:
        """Tell whether counts are counts, the leader is an arm, and the level can be one."""
        n, losses, out = state[ARMS:].reshape(GROUPS, n_arms, -1)
        lead, c = state[LEAD], state[LEVEL]
        return bool(
            (np.abs(state) <= LARGEST).all()
            and ((n >= 0.0) & (n == np.floor(n))).all()
            and ((losses >= 0.0) & (losses <= n)).all()
            and (out == 0.0).all()
            and ((lead >= 0.0) & (lead < n_arms) & (lead == np.floor(lead))).all()
            and ((c >= 0.0) & (c < 1.0)).all()
        )

    return Program.of(policy, n_arms, _KERNELS, start=start, sound=sound, plain=False)
