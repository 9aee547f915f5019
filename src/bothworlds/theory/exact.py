"""Ground truth: the expected regret of a policy on a small Bernoulli instance, computed exactly.

``w_i``   probability of arm i in a round
``mu_i``  mean loss of arm i
``p``     probability of a history

Every history of a round has 2 K children: an arm i with w_i > 0, and a loss of 1 with probability
mu_i or of 0.  Histories that leave a policy in the same state are merged, so that a policy that
only counts has as many as there are counts.  No random number is drawn: the kernel that chooses is
given a number for which it returns the arm in question.

The probabilities of Thompson sampling are integrals of polynomials, P(theta_i is least) =
int f_i(x) prod_{j != i} (1 - F_j(x)) dx, which Gauss' quadrature integrates exactly.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from numba.core import types
from numpy.typing import ArrayLike, NDArray

from bothworlds.arguments import count
from bothworlds.errors import invalid
from bothworlds.lanes.jit import jit, placed_code
from bothworlds.lanes.kernels import CHOOSE_ONE, GENERATOR, ROUND, UPDATE_ONE, calling, unpack
from bothworlds.lanes.random import WORDS
from bothworlds.policies.base import Policy
from bothworlds.policies.packed import pack
from bothworlds.policies.sliding_window_thompson import SlidingWindowThompson
from bothworlds.policies.thompson import ThompsonSampling
from bothworlds.theory.arguments import bernoulli_means

ARMS = 3
"""The most arms."""

RANDOMISED, COUNTING = 12, 60
"""The most rounds of a policy that draws, and of one whose histories merge."""

AT_ONCE = 4096
"""Histories that are continued together; more are taken in turns, which bounds the memory."""

NEGLIGIBLE = 1e-10
"""An arm with less probability than this is not followed; near 1 no random number draws it."""

SEARCHED, GOLDEN = 4096, (math.sqrt(5.0) - 1.0) / 2.0
"""How many numbers are tried to draw an arm, and the step between them, modulo 1."""

Floats = NDArray[np.float64]

FILL_ONE = types.void(types.float64[::1], types.float64[::1])

choose_at = calling(lambda lanes: CHOOSE_ONE)
update_at = calling(lambda lanes: UPDATE_ONE)
fill_at = calling(lambda lanes: FILL_ONE)


@jit
def _spread(
    choose: int,
    update: int,
    weights: int,
    states: Any,
    chances: Any,
    means: Any,
    orders: Any,
    draws: Any,
    children: Any,
    born: Any,
) -> Any:
    """Play one round of every history and write all its continuations.

    The first three are addresses of a policy's machine code: one function serves all policies.
    Return the expected loss of the round and the number of continuations; -1 where a kernel
    returned none of the arms it gives a probability to.
    """
    K = means.size
    w = np.empty(K)
    number = np.empty(K)
    loss_of_round = 0.0
    n = 0
    for i in range(states.shape[0]):
        state = states[i]
        state[ROUND] += 1.0
        trial = state.copy()
        k, t, C, S, G = unpack(trial)
        arm = choose_at(choose, (k, t, C, S, G, 0.5 * draws))
        if draws:
            fill_at(weights, (trial, w))
            for a in range(K):
                number[a] = -1.0
            for order in orders:
                start = 0.0
                for a in order:
                    u = start + 0.5 * w[a]
                    start += w[a]
                    if number[a] < 0.0 and w[a] > NEGLIGIBLE:
                        trial = state.copy()
                        k, t, C, S, G = unpack(trial)
                        if choose_at(choose, (k, t, C, S, G, u)) == a:
                            number[a] = u
            # A policy around another one may draw in several intervals.
            for j in range(1, SEARCHED):
                u = (j * GOLDEN) % 1.0
                if (number[w > NEGLIGIBLE] >= 0.0).all():
                    break
                trial = state.copy()
                k, t, C, S, G = unpack(trial)
                arm = choose_at(choose, (k, t, C, S, G, u))
                if number[arm] < 0.0:
                    number[arm] = u
            if (number[w > NEGLIGIBLE] < 0.0).any():
                return loss_of_round, -1
        else:
            w[:] = 0.0
            w[arm] = 1.0
            number[:] = 0.0
        for a in range(K):
            loss_of_round += chances[i] * w[a] * means[a]
        if children.shape[0] == 0:
            continue
        for a in range(K):
            for loss in (0.0, 1.0):
                chance = w[a] * (means[a] if loss == 1.0 else 1.0 - means[a])
                if w[a] > NEGLIGIBLE and chance > 0.0:
                    child = children[n]
                    for j in range(state.size):
                        child[j] = state[j]
                    k, t, C, S, G = unpack(child)
                    choose_at(choose, (k, t, C, S, G, number[a]))
                    update_at(update, (k, t, C, S, G, a, 1.0 / w[a], loss))
                    # The same generator for all, so that equal states can be merged.
                    for j in range(GENERATOR, GENERATOR + WORDS):
                        child[j] = state[j]
                    born[n] = chances[i] * chance
                    n += 1
    return loss_of_round, n


def exact_regret(policy: Policy, means: ArrayLike, horizon: int) -> Floats:
    """Return the expected pseudo-regret after every round, on Bernoulli losses, exactly.

    The arms keep their order, which matters to policies that break ties by it; `simulate` draws
    an order for every run.

    Parameters
    ----------
    policy : Policy
        Any that knows the probabilities it draws with, one that does not draw, or
        `ThompsonSampling`.
    means : array_like
        Mean losses of two or three arms.
    horizon : int
        Rounds: up to 60 for policies that only count, as UCB1 and Thompson sampling, up to 12 for
        others. Three arms of Tsallis-INF take less than a second for 8 rounds, minutes for 12.

    Returns
    -------
    ndarray (horizon,)
        Expected regret by the end of each round, within 1e-8.

    Examples
    --------
    Uniform play loses half the gap in every round; UCB1 plays each arm once.

    >>> import bothworlds as bw
    >>> exact_regret(bw.Uniform(), [0.25, 0.75], 3).round(6).tolist()
    [0.25, 0.5, 0.75]
    >>> exact_regret(bw.UCB1(), [0.25, 0.75], 3).round(6).tolist()
    [0.0, 0.5, 0.53125]
    """
    mu = np.ascontiguousarray(bernoulli_means(means, "exact_regret"))
    T = count("horizon", horizon, "exact_regret", 1)
    if mu.size > ARMS:
        raise invalid("means", "exact_regret", f"at most {ARMS} numbers", means)
    if not isinstance(policy, Policy):
        raise invalid("policy", "exact_regret", "a policy", policy)
    window = policy.window if isinstance(policy, SlidingWindowThompson) else T
    thompson = type(policy) is ThompsonSampling or isinstance(policy, SlidingWindowThompson)
    parts = None if thompson else policy.program(mu.size).kernels.parts
    drawing = parts is not None and parts.draws
    if drawing and parts is not None and parts.weights is None:
        expected = "one that knows the probability of every arm"
        raise invalid("policy", "exact_regret", expected, policy)
    most = RANDOMISED if drawing or window < T else COUNTING
    if most < T:
        raise invalid("horizon", "exact_regret", f"at most {most} here", horizon)
    losses = _thompson(mu, T, window) if thompson else _enumerated(policy, mu, T, drawing)
    return np.cumsum(losses - mu.min())


def _enumerated(policy: Policy, mu: Floats, T: int, drawing: bool) -> Floats:
    """Return the expected loss of every round, by continuing all histories."""
    program = policy.program(mu.size)
    kernels = program.kernels
    choose, _ = placed_code(kernels.choose, CHOOSE_ONE)
    update, _ = placed_code(kernels.update, UPDATE_ONE)
    weights, _ = placed_code(kernels.weights, FILL_ONE) if drawing else (0, None)
    # A second number, which `AllWorlds` takes from the generator, is near 1: it explores nothing.
    words = np.full(WORDS, -1, dtype=np.int64)
    first = pack(policy, mu.size, words, program)[None, :]
    orders = np.array(list(itertools.permutations(range(mu.size))))
    losses = np.zeros(T)

    def explore(states: Floats, chances: Floats, t: int) -> None:
        room = len(states) * 2 * mu.size if t + 1 < T else 0
        children, born = np.empty((room, states.shape[1])), np.empty(room)
        loss, n = _spread(
            choose, update, weights, states, chances, mu, orders, drawing, children, born
        )
        if n < 0:
            expected = "one that draws an arm with one random number"
            raise invalid("policy", "exact_regret", expected, policy)
        losses[t] += loss
        if room:
            states, chances = _merged(children[:n], born[:n])
            for low in range(0, len(states), AT_ONCE):
                some = slice(low, low + AT_ONCE)
                explore(states[some].copy(), chances[some], t + 1)

    explore(first, np.ones(1), 0)
    return losses


def _merged(states: NDArray[Any], chances: Floats) -> tuple[NDArray[Any], Floats]:
    """Return different states, each with the probability of all histories that end in it."""
    width = states.dtype.itemsize * states.shape[1]
    rows = np.ascontiguousarray(states).view(np.dtype((np.void, width)))[:, 0]
    _, places, owners = np.unique(rows, return_index=True, return_inverse=True)
    merged: Floats = np.bincount(owners, weights=chances).astype(np.float64)
    return states[places], merged


def _thompson(mu: Floats, T: int, window: int) -> Floats:
    """Return the expected loss of every round of Thompson sampling on the last observations."""
    K = mu.size
    # The density and K - 1 distribution functions together have degree T at most.
    x, dx = np.polynomial.legendre.leggauss(T // 2 + K)
    x, dx = (x + 1.0) / 2.0, dx / 2.0
    density = np.empty((T + 1, T + 1, x.size))
    above = np.empty_like(density)
    for a, b in itertools.product(range(T + 1), repeat=2):
        n = a + b
        # Beta(1 + a, 1 + b): 1 - F(x) is the chance of at most a in n + 1 trials.
        density[a, b] = (n + 1) * math.comb(n, a) * x**a * (1.0 - x) ** b
        terms = [math.comb(n + 1, k) * x**k * (1.0 - x) ** (n + 1 - k) for k in range(a + 1)]
        above[a, b] = np.sum(terms, axis=0)
    # The counts, then the observations in the window, oldest first: the column that each added to.
    # A window that never ends is left out, so that histories with equal counts merge.
    states, chances = np.zeros((1, 2 * K), dtype=np.int64), np.ones(1)
    if window < T:
        states = np.append(states, np.full((1, window), -1), axis=1)
    losses = np.zeros(T)
    for t in range(T):
        ones, zeros = states[:, :K].T, states[:, K : 2 * K].T
        w = np.empty((len(states), K))
        for i in range(K):
            others = [above[ones[j], zeros[j]] for j in range(K) if j != i]
            w[:, i] = (density[ones[i], zeros[i]] * math.prod(others)) @ dx
        losses[t] = chances @ (w @ mu)
        children, born = [], []
        for i, loss in itertools.product(range(K), (0, 1)):
            grown, column = states.copy(), i if loss else K + i
            grown[:, column] += 1
            if window < T:
                full = np.flatnonzero(states[:, 2 * K] >= 0)
                grown[full, states[full, 2 * K]] -= 1
                grown[:, 2 * K :] = np.roll(states[:, 2 * K :], -1, axis=1)
                grown[:, -1] = column
            children.append(grown)
            born.append(chances * w[:, i] * (mu[i] if loss else 1.0 - mu[i]))
        states, chances = _merged(np.concatenate(children), np.concatenate(born))
    return losses
