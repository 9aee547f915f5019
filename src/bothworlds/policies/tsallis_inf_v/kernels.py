"""TsallisINFV: Tsallis-INF that adapts to the variance of the losses, without a horizon.

Running means of the losses serve as baselines and predictions, and the learning rate matches what
is paid for stability with what is paid for regularisation.  In round t:

========== ==========================================================================
``beta``   2 sqrt(2) / eta, starts at 1 / sqrt(2): eta_1 = 4
``m_i``    running mean (prior / 2 + s_i) / (prior + n_i) of the n_i losses of arm i, sum s_i
``X_i``    L_i + m_i under the matched rate, L_i under the residual one; L_i the estimates
``w``      the OMD step at alpha = 1/2 on X, w_i = 4 / (eta (X_i - x))^2
``B_i``    m_i for the near arms, those with w_i >= eta^2; 0 for all other arms
``d``      l - B_I, the residual of the arm I that was played
``H_1``    sum_i sqrt(w_i); ``H_3`` sum_i w_i^(3/2)
``h``      H_1 - 1
``z``      d^2 ((1 - w_I)^2 / sqrt(w_I) + H_3 - w_I^(3/2)), at most beta |d| (1 - w_I)
========== ==========================================================================

1. draw I from w and observe its loss l;
2. L_i += B_i for every arm; L_I += d / w_I;
3. matched: beta += z / (beta h), the rule of Ito, Tsuchiya and Honda (2024);
   residual: beta^2 += 2 d^2, so that eta = 2 / sqrt(1/4 + sum d^2);
4. m_I moves on.

Where residuals are 1/2 and the weights spread out, eta_t = 4 / sqrt(t): the reduced-variance
estimator with its rate.  Late feedback uses the baseline, the weight and the sums of its decision,
which a bandit carries with it; outstanding decisions count in the rate, beta^2 being multiplied by
1 + min(o, D) / (1 + n) for the round.  See `bothworlds.policies.waiting`.

Under a floor the arm is drawn from another distribution; the rate uses w throughout.
"""

from __future__ import annotations

import math
from typing import Any

from bothworlds.lanes.jit import jit
from bothworlds.lanes.rows import add_to, put, take
from bothworlds.lanes.vectors import (
    absolute,
    advance,
    lane,
    load,
    maximum,
    minimum,
    select,
    splat,
    sqrt,
    store,
    stride,
)
from bothworlds.omd import few, half
from bothworlds.omd.estimators import correction
from bothworlds.policies import waiting
from bothworlds.policies.base import Kernels, LaneKernels, Saved
from bothworlds.policies.waiting import BASE, NUMBER

# Parameters: the weight of 1/2 in a running mean, whether the rate is matched (1) or not (0),
# whether estimates fade.
PRIOR, MATCHED, FADES = 0, 1, 2
# Rows: inverse probability; carried with a decision B_I, its number, 1 / w_I, and of the sums of
# `half.draw` the first two; the third sum; beta, beta of the round; those of `waiting`; then the
# solver's rows and X, m and n of every arm.
OWN, SUMS, BETA, PACE, WAITING = 3, 4, 7, 8, 9
SOLVER = WAITING + waiting.ROWS
BETA_1 = math.sqrt(0.5)
RATE = 2.0 * math.sqrt(2.0)
MEAN_1 = 0.5
CARRIED = (
    Saved("baseline", low=0.0, high=1.0, optional=True),
    Saved("number", low=0.0, high=2.0**53, whole=True, optional=True),
    Saved("inverse_weight", low=0.0, optional=True),
    Saved("roots", low=0.0, optional=True),
    Saved("cubes", low=0.0, optional=True),
)
"""The carried rows."""
LEAST_H = 1e-12  # below, one arm has all the weight and h is rounding
LARGEST_BETA = 1e15  # reached by no run: a bound of what is read from a file


@jit
def solver(S: Any, like: Any) -> Any:
    """Return the solver's rows, which are those of `bothworlds.omd.half`."""
    return advance(S, SOLVER * stride(like))


@jit
def sums(S: Any, like: Any) -> Any:
    """Return the rows of H_1, H_3 and the inputs for predicting the next root."""
    return advance(S, SUMS * stride(like))


@jit
def choose(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Solve and draw, keeping H_1 and H_3; see `few.draw` and `half.draw`."""
    P = solver(S, u)
    M = sums(S, u)
    beta = load(S, BETA, u)
    if stride(u) == 1:
        settle(K, t, C, S, G)
        beta = beta * math.sqrt(waiting.expected(advance(S, WAITING)))
    half.recentre_if_due(K, t, P, u)
    store(S, PACE, beta)
    eta = RATE / beta
    near = near_limit(beta)
    arm = few.draw(K, P, eta, u, M) if few.fits(K) else half.draw(K, P, eta, near, u, M)
    store(S, 0, load(P, half.INVERSE_P, u))
    return arm


@jit
def near_limit(beta: Any) -> Any:
    """Return the largest y with w >= eta^2: 2 / eta^2."""
    return 0.25 * beta * beta


@jit
def moved_mean(C: Any, mean: Any, n: Any, loss: Any) -> Any:
    """Return the running mean after one more loss."""
    return mean + (loss - mean) / (n + (C[PRIOR] + 1.0))


@jit
def next_beta(C: Any, S: Any, beta: Any, d: Any, inverse_p: Any) -> Any:
    """Return beta after a residual d of an arm drawn with this inverse probability."""
    if C[MATCHED] == 0.0:
        return sqrt(beta * beta + 2.0 * (d * d))
    M = sums(S, d)
    w = 1.0 / inverse_p
    root = sqrt(w)
    rest = 1.0 - w
    others = maximum(load(M, half.CUBES, d) - w * root, 0.0)
    z = d * d * (rest * rest * (root * inverse_p) + others)
    z = minimum(z, beta * absolute(d) * maximum(rest, 0.0))
    h = load(M, half.ROOTS, d) - 1.0
    spread = h > LEAST_H
    return beta + select(spread, z / (beta * select(spread, h, 1.0)), 0.0)


@jit
def faded(C: Any, X: Any, m: Any, low: Any, retained: Any) -> Any:
    """Return X whose part L became ``retained`` (L - low), or X itself if that is None."""
    if retained is None:
        return X
    part = C[MATCHED] * m
    return retained * (X - part - low) + part


@jit
def least(K: int, C: Any, P: Any, retained: Any, like: Any) -> Any:
    """Return min L, or 0 where nothing fades."""
    low = splat(0.0, like)
    if retained is not None:
        X, m = half.ESTIMATES, half.ESTIMATES + K
        low = load(P, X, like) - C[MATCHED] * load(P, m, like)
        for i in range(1, K):
            low = minimum(low, load(P, X + i, like) - C[MATCHED] * load(P, m + i, like))
    return low


@jit
def shared(S: Any, own: Any) -> Any:
    """Return the share of a baseline that is added: less than all where feedback is lost."""
    if stride(own) == 1:
        return S[WAITING + waiting.SHARE] * own
    return own


@jit
def close(S: Any, like: Any) -> None:
    """Count the answer of the last decision, whose baselines are now in the estimates."""
    if stride(like) == 1:
        W = advance(S, WAITING)
        waiting.answered(W, S[NUMBER])
        W[waiting.OPEN] = 0.0


@jit
def settle(K: int, t: int, C: Any, S: Any, G: Any) -> None:
    """X_i += share B_i for every arm, unless that is done for the last decision."""
    W = advance(S, WAITING)
    if W[waiting.OPEN] != 0.0:
        P = solver(S, 0.0)
        limit = near_limit(S[PACE]) if C[FADES] == 0.0 else -math.inf
        for i in range(half.ESTIMATES, half.ESTIMATES + K):
            if P[i] - P[half.ROOT] <= limit:
                P[i] += W[waiting.SHARE] * P[i + K]
        half.start_again(K, P)
        W[waiting.OPEN] = 0.0


@jit
def asked(K: int, t: int, C: Any, S: Any, G: Any, arm: int) -> None:
    """Count a decision, and keep the numbers for its feedback."""
    P = solver(S, 0.0)
    y = P[half.ESTIMATES + arm] - P[half.ROOT]
    near = C[FADES] == 0.0 and y <= near_limit(S[PACE])
    waiting.carry(S, WAITING, P[half.ESTIMATES + K + arm] if near else 0.0)
    S[OWN] = 2.0 * (y / S[PACE]) * (y / S[PACE])


@jit
def learn_late(
    K: int, C: Any, S: Any, arm: int, inverse_p: float, loss: float, retained: Any
) -> None:
    """X_I += d / w_I with the numbers of the decision; then the rate and the mean of the arm."""
    settle(K, 0, C, S, S)
    P = solver(S, 0.0)
    X, m, n = half.ESTIMATES, half.ESTIMATES + K, half.ESTIMATES + 2 * K
    if retained is not None:
        low = least(K, C, P, retained, loss)
        for i in range(K):
            P[X + i] = faded(C, P[X + i], P[m + i], low, retained)
    new = moved_mean(C, P[m + arm], P[n + arm], loss)
    P[X + arm] += correction(loss, S[BASE], inverse_p) + C[MATCHED] * (new - P[m + arm])
    P[m + arm] = new
    P[n + arm] += 1.0
    half.restart(K, P, 0.0)
    if S[NUMBER] > 0.0:
        S[BETA] = next_beta(C, S, S[BETA], loss - S[BASE], S[OWN])
    waiting.answered(advance(S, WAITING), S[NUMBER])


@jit
def learn(K: int, C: Any, S: Any, arm: Any, inverse_p: Any, loss: Any, retained: Any) -> None:
    """X_i += B_i for every arm; X_I += d / w_I; then the rate and the mean of the arm.

    Unless ``retained`` is None, L fades by it before; which arms are near is judged before that.
    """
    if stride(loss) == 1 and waiting.is_late(advance(S, WAITING), S[NUMBER]):
        learn_late(K, C, S, lane(arm, 0), lane(inverse_p, 0), lane(loss, 0), retained)
        return
    P = solver(S, loss)
    low = least(K, C, P, retained, loss)
    X, m, n = half.ESTIMATES, half.ESTIMATES + K, half.ESTIMATES + 2 * K
    beta = load(S, BETA, loss)
    limit = near_limit(load(S, PACE, loss))
    x = load(P, half.ROOT, loss)
    if K <= few.FEW:
        base_I = splat(0.0, loss)
        mean = splat(0.0, loss)
        count = splat(0.0, loss)
        for i in range(K):
            own = load(P, m + i, loss)
            mine = arm == i
            base_I = select(mine & (load(P, X + i, loss) - x <= limit), own, base_I)
            mean = select(mine, own, mean)
            count = select(mine, load(P, n + i, loss), count)
        d = loss - base_I
        new = moved_mean(C, mean, count, loss)
        by = correction(loss, base_I, inverse_p) + C[MATCHED] * (new - mean)
        for i in range(K):
            L = load(P, X + i, loss)
            own = load(P, m + i, loss)
            mine = arm == i
            near = L - x <= limit
            L = faded(C, L, own, low, retained)
            L = select(near, L + shared(S, own), L)
            store(P, X + i, select(mine, L + by, L))
            store(P, m + i, select(mine, new, own))
            store(P, n + i, select(mine, count + 1.0, load(P, n + i, loss)))
    else:
        y = take(P, X, K, arm)
        mean = take(P, m, K, arm)
        count = take(P, n, K, arm)
        base_I = select(y - x <= limit, mean, 0.0)
        d = loss - base_I
        new = moved_mean(C, mean, count, loss)
        by = correction(loss, base_I, inverse_p) + C[MATCHED] * (new - mean)
        for i in range(X, X + K):
            L = load(P, i, loss)
            own = load(P, i + K, loss)
            near = L - x <= limit
            L = faded(C, L, own, low, retained)
            store(P, i, select(near, L + shared(S, own), L))
        add_to(P, X, K, arm, by)
        put(P, m, K, arm, new)
        put(P, n, K, arm, count + 1.0)
    if not few.fits(K):
        if retained is not None:
            half.fade_sums(P, retained, low)
        # Under a floor the arm that is played need not be the one the solver drew.
        store(P, half.DRAWN, take(P, X, K, arm) - (by + base_I) - load(P, half.CENTRE, loss))
        half.shift_near_by_means(P, sums(S, loss), base_I)
        half.replace_drawn(P, by)
    store(S, BETA, next_beta(C, S, beta, d, load(S, 0, loss)))
    close(S, loss)


@jit
def update(K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any) -> None:
    """X_i += B_i for every arm; X_I += d / w_I; then the rate and the mean of the arm."""
    learn(K, C, S, arm, inverse_p, loss, None)


@jit
def fading(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any, retained: float
) -> None:
    """L_i = R (L_i - min L), then as `update`."""
    learn(K, C, S, arm, inverse_p, loss, retained)


@jit
def weight(K: int, t: int, C: Any, S: Any, G: Any, arm: Any) -> Any:
    """Return w of an arm at the root of the round."""
    return half.weight_of(K, solver(S, arm), RATE / load(S, PACE, arm), arm)


@jit
def weights(K: int, t: int, C: Any, S: Any, G: Any, out: Any) -> None:
    """w_i = 4 / (eta (X_i - x))^2 at the root of the round."""
    half.fill_weights(K, solver(S, 0.0), RATE / S[PACE], out)


@jit
def estimates_changed(K: int, t: int, C: Any, S: Any, G: Any) -> None:
    """Prepare the solver for estimates that changed otherwise than by ``tell``."""
    S[WAITING + waiting.OPEN] = 0.0
    half.restart(K, solver(S, 0.0), 0.0)


KERNELS = Kernels.of(
    choose,
    update,
    weights,
    asked=asked,
    estimates_changed=estimates_changed,
    write_back=settle,
    any_draw=True,
    in_lanes=LaneKernels(weight, update, fading, each_round=True),
)
