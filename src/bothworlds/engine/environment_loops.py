"""Compiled loops over an environment, as one repetition and as a tile of them.

An action is a pair ``left``, ``right`` of arms; where one arm is played, ``right`` is
ignored.  ``mode`` selects the function that gives the losses: `PLAIN` the environment's
own, `ATTACKED` the stage that changes them, `DUEL` the comparison of two arms.
"""

from __future__ import annotations

from typing import Any

from numba.core import types

from bothworlds.lanes.jit import jit
from bothworlds.lanes.kernels import shapes
from bothworlds.lanes.random import uniform
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import load, numbers_at, pointer, store, zeros

PLAIN, ATTACKED, DUEL = 0, 1, 2


def kernel_shapes(lanes: int) -> tuple[Any, Any, Any]:
    """Return the signatures of the functions that `act` calls."""
    return shapes(lanes).loss, shapes(lanes).attack, shapes(lanes).prefer


@jit
def act(
    loss: Any, attack: Any, prefer: Any, mode: int, K: int, t: int, C: Any, E: Any, G: Any, v: Any,
    left: Any, right: Any, CA: Any, A: Any,
) -> Any:  # fmt: skip
    """Return the loss of an action in round t."""
    if mode == DUEL:
        return prefer(K, t, C, E, G, v, left, right)
    if mode == ATTACKED:
        return attack(loss, K, t, C, E, G, v, left, CA, A)
    return loss(K, t, C, E, G, v, left)


@jit
def walk(
    loss: Any, attack: Any, prefer: Any, mode: int, enquire: bool, K: int, first: int, C: int,
    E: Any, G: Any, CA: Any, A: Any, left: Any, right: Any, losses: Any, costs: Any,
) -> None:  # fmt: skip
    """Play an action in every round from ``first`` on; with ``enquire``, ask for others before."""
    c, e, g, ca, a = numbers_at(C), pointer(E), pointer(G), pointer(CA), pointer(A)
    for n in range(left.size):
        t = first + n
        v = uniform(g, 0.0)
        if enquire:
            for i in range(K):
                if i != left[n]:
                    act(loss, attack, prefer, mode, K, t, c, e, g, v, i, right[n], ca, a)
        losses[n] = act(loss, attack, prefer, mode, K, t, c, e, g, v, left[n], right[n], ca, a)
        costs[n] = E[0]


@jit
def restore(numbers: Any, before: Any) -> None:
    """Write an array over another of this size.

    A slice would compile the message about other sizes, which takes a second.
    """
    for i in range(numbers.size):
        numbers[i] = before[i]


@jit
def walk_all(
    loss: Any, attack: Any, prefer: Any, mode: int, K: int, first: int, C: int, E: Any, G: Any,
    CA: Any, A: Any, left: Any, right: Any, played: Any, losses: Any, costs: Any, spent: Any,
) -> None:  # fmt: skip
    """Find the loss of every action in every round; only the one at ``played`` has consequences."""
    c, e, g, ca, a = numbers_at(C), pointer(E), pointer(G), pointer(CA), pointer(A)
    for n in range(played.size):
        t = first + n
        v = uniform(g, 0.0)
        state, generator, attacker = E.copy(), G.copy(), A.copy()
        for i in range(left.size):
            losses[n, i] = act(
                loss, attack, prefer, mode, K, t, c, e, g, v, left[i], right[i], ca, a
            )
            costs[n, i] = E[0]
            restore(E, state)
            restore(G, generator)
            restore(A, attacker)
        i = played[n]
        act(loss, attack, prefer, mode, K, t, c, e, g, v, left[i], right[i], ca, a)
        spent[n] = A[0]


@jit
def walk_tile(
    loss: Any, attack: Any, prefer: Any, mode: int, K: int, first: int, C: int, E: Any, G: Any,
    CA: Any, A: Any, left: Any, right: Any, losses: Any, costs: Any,
) -> None:  # fmt: skip
    """Play a row of actions, one per lane, in every round from ``first`` on."""
    like = zeros()
    c, e, g, ca, a = numbers_at(C), pointer(E), pointer(G), pointer(CA), pointer(A)
    one, other, x, y = pointer(left), pointer(right), pointer(losses), pointer(costs)
    for n in range(left.shape[0]):
        v = uniform(g, like)
        i, j = load(one, n, like), load(other, n, like)
        store(x, n, act(loss, attack, prefer, mode, K, first + n, c, e, g, v, i, j, ca, a))
        store(y, n, load(e, 0, like))


_numbers, _words = types.float64[::1], types.int64[::1]
_table, _rows = types.float64[:, ::1], types.int64[:, ::1]
_integer, _flag = types.int64, types.boolean
ONE = tuple(map(types.FunctionType, kernel_shapes(1)))
WIDE = tuple(map(types.FunctionType, kernel_shapes(LANES)))
_state = (_numbers, _words, _numbers, _numbers)

WALK = types.void(
    *ONE, _integer, _flag, _integer, _integer, _integer, *_state, _words, _words, _numbers, _numbers
)
WALK_ALL = types.void(
    *ONE, _integer, _integer, _integer, _integer, *_state, _words, _words, _words, _table, _table,
    _numbers,
)  # fmt: skip
WALK_TILE = types.void(
    *WIDE, _integer, _integer, _integer, _integer, *_state, _rows, _rows, _table, _table
)
