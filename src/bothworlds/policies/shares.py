"""Traffic shares: the smallest and the largest probability of every arm, and a control arm.

======== ==========================================================================
``w``    the distribution to limit
lo, hi   smallest and largest share of an arm; equal for the control arm
``M``    1 - sum lo, the probability that is left to divide
``p``    min(hi, lo + c w + d (hi - lo)), what the arm is drawn from
======== ==========================================================================

Where no arm reaches its largest share, c = M and d = 0: p mixes the smallest shares with w.  Else c
is the one number at which p adds up to 1, so that the arms below their largest share divide the
rest in proportion to w.  A pass fixes the arms with lo + c w >= hi and computes c from the others;
c only grows, so K passes suffice.  If all that is left of w is 0, d divides the rest in proportion
to the room between lo and hi.

Every p_i is at least lo_i + M min(w_i, hi_i - lo_i): importance weights are bounded by 1 / lo_i.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bothworlds.arguments import is_number, is_whole, numbers, share
from bothworlds.errors import InvalidParameter, must
from bothworlds.lanes.jit import jit
from bothworlds.lanes.vectors import any_lane, load, maximum, minimum, select, splat, store
from bothworlds.policies.base import Array

LOW, HIGH, OWN, P, GROUPS = 0, 1, 2, 3, 4
"""Groups of one row per arm: the shares, the policy's own distribution, and p."""
KEPT = 2
"""How many of them a state file keeps."""
NOTHING = 1e-300
"""Probability below which the rest is divided by the room of the arms."""

Shares = float | tuple[float, ...]
"""One share for every arm, or one for each."""


@jit
def limit(K: int, S: Any, first: int, like: Any) -> Any:
    """Replace w in the group `P` of the rows from ``first`` on by p; return its sum."""
    low, high, at = first + LOW * K, first + HIGH * K, first + P * K
    left = splat(1.0, like)
    for i in range(K):
        left = left - load(S, low + i, like)
    left = maximum(left, 0.0)
    c, d = left, splat(0.0, like)
    for _ in range(K):
        rest, weight, room = left, splat(0.0, like), splat(0.0, like)
        fixed = splat(0.0, like)
        for i in range(K):
            lo, w = load(S, low + i, like), load(S, at + i, like)
            span = load(S, high + i, like) - lo
            full = lo + c * w >= load(S, high + i, like)
            fixed = select(full, 1.0, fixed)
            rest = select(full, rest - span, rest)
            weight = select(full, weight, weight + w)
            room = select(full, room, room + span)
        rest = maximum(rest, 0.0)
        none = weight < NOTHING
        larger = select(none, c, rest / maximum(weight, NOTHING))
        d = select((fixed > 0.0) & none & (room > 0.0), rest / maximum(room, NOTHING), 0.0)
        grows = (fixed > 0.0) & (larger > c)
        if not any_lane(grows):
            break
        c = select(grows, larger, c)
    total = splat(0.0, like)
    for i in range(K):
        lo, hi = load(S, low + i, like), load(S, high + i, like)
        p = minimum(lo + c * load(S, at + i, like) + d * (hi - lo), hi)
        store(S, at + i, p)
        total = total + p
    return total


def checked(parameter: str, value: object, owner: str) -> Shares:
    """Return shares as a number for every arm, or a tuple of one for each.

    Examples
    --------
    >>> checked("min_share", 0.1, "Floor"), checked("min_share", [0, 0.5], "Floor")
    (0.1, (0.0, 0.5))
    """
    if is_number(value):
        return share(parameter, value, owner)
    found = numbers(value)
    if found is None or found.ndim != 1 or not np.all((found >= 0.0) & (found <= 1.0)):
        expected = "a number in [0, 1], or one for each arm"
        raise InvalidParameter(must(parameter, owner, expected, value))
    return tuple(found.tolist())


def checked_control(control: object, owner: str) -> int | None:
    """Return the place of the control arm, or None."""
    if control is None:
        return None
    if not is_whole(control) or int(control) < 0:
        expected = "the place of an arm, from 0, or None"
        raise InvalidParameter(must("control", owner, expected, control))
    return int(control)


def limits(
    n_arms: int, least: Shares, most: Shares, control: int | None, fixed: float, owner: str
) -> Array:
    """Return the smallest and the largest share of every arm, in two rows.

    Raises
    ------
    InvalidParameter
        If there are shares for another number of arms, or no distribution can have them.

    Examples
    --------
    >>> limits(3, 0.1, 1.0, 2, 0.2, "Floor")
    array([[0.1, 0.1, 0.2],
           [1. , 1. , 0.2]])
    """
    for name, given in (("min_share", least), ("max_share", most)):
        if isinstance(given, tuple) and len(given) != n_arms:
            expected = f"a number, or one for each of {n_arms} arms"
            raise InvalidParameter(must(name, owner, expected, given))
    if control is not None and control >= n_arms:
        expected = f"the place of one of {n_arms} arms"
        raise InvalidParameter(must("control", owner, expected, control))
    rows = np.empty((KEPT, n_arms))
    rows[LOW], rows[HIGH] = least, most
    if control is not None:
        rows[:, control] = fixed
    above = rows[LOW] > rows[HIGH]
    if above.any():
        expected = f"at most the max_share of the same arm, {rows[HIGH, above][0]:g}"
        raise InvalidParameter(must("min_share", owner, expected, float(rows[LOW, above][0])))
    why = refusal(rows)
    if why:
        raise InvalidParameter(f"The shares of {owner} must be such that {why}.")
    return rows


def refusal(rows: Array) -> str:
    """Return what the shares of some arms must add up to; nothing if they do.

    Examples
    --------
    >>> refusal(np.array([[0.0, 0.1], [0.5, 0.4]]))
    'the max_share values of the arms add up to at least 1'
    """
    slack = 2.0**-52 * rows.shape[1]
    if math.fsum(rows[LOW]) > 1.0 + slack:
        return "the min_share values of the arms add up to at most 1"
    if math.fsum(rows[HIGH]) < 1.0 - slack:
        return "the max_share values of the arms add up to at least 1"
    return ""
