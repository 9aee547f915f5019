"""Traffic shares: the smallest and the largest probability of every arm, and a control arm.

======== ==========================================================================
``w``    the distribution to limit
lo, hi   smallest and largest share of an arm; equal for the control arm
``M``    1 - sum lo, the probability that is left to divide
``p``    min(hi, lo + c w + d (hi - lo)), what the arm is drawn from
======== ==========================================================================

Where no arm reaches its largest share, c = M and d = 0: p mixes the smallest shares with w.  Else c
is the one number at which p adds up to 1, so that the arms below their largest share divide the
rest in proportion to w.  A pass fixes the arms with lo + c w >= hi and computes c from the
remaining arms; c only grows, so K passes suffice.  If all that is left of w is 0, d divides the
rest in proportion to the room between lo and hi.

Every p_i is at least lo_i + M min(w_i, hi_i - lo_i): importance weights are bounded by 1 / lo_i.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bothworlds.arguments import Arm, is_name, is_number, numbers, share, whole
from bothworlds.errors import InvalidParameter, invalid
from bothworlds.lanes.jit import jit
from bothworlds.lanes.vectors import any_lane, load, maximum, minimum, select, splat, store
from bothworlds.policies.base import Array

LOW, HIGH, OWN, P, GROUPS = 0, 1, 2, 3, 4
"""Groups of one row per arm: the shares, the policy's own distribution, and p."""
KEPT = 2
"""How many of them a state file keeps."""
NOTHING = 1e-300
"""Probability below which the rest is divided by the room of the arms."""

Shares = float | tuple[float, ...] | tuple[tuple[Arm, float], ...]
"""One share for every arm, one for each in order, or pairs of a name and a share."""


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
    """Return shares as a number for every arm, a tuple of one for each, or pairs with names.

    Examples
    --------
    >>> checked("min_share", 0.1, "Floor"), checked("min_share", [0, 0.5], "Floor")
    (0.1, (0.0, 0.5))
    >>> checked("min_share", {"blue": 0.5}, "Floor")
    (('blue', 0.5),)
    """
    if is_number(value):
        return share(parameter, value, owner)
    pairs = [*value.items()] if isinstance(value, Mapping) else value
    # A state file has lists in place of pairs.
    if isinstance(pairs, list | tuple) and all(isinstance(each, list | tuple) for each in pairs):
        named = [each for each in pairs if len(each) == 2 and is_name(each[0])]
        if len(named) == len(pairs) == len(dict(named)):
            return tuple((name, share(parameter, each, owner)) for name, each in named)
    found = numbers(value)
    if found is None or found.ndim != 1 or not np.all((found >= 0.0) & (found <= 1.0)):
        expected = "a number in [0, 1], one for each arm, or a mapping from arms to such numbers"
        raise invalid(parameter, owner, expected, value)
    return tuple(found.tolist())


def checked_control(control: object, owner: str) -> Arm | None:
    """Return the place or the name of the control arm, or None."""
    if control is None or isinstance(control, str):
        return control
    return whole("control", control, owner, 0, "the place of an arm, from 0, its name, or None")


def is_named(given: object) -> bool:
    """Tell whether shares come with the names of their arms."""
    return isinstance(given, tuple) and all(isinstance(each, tuple) for each in given)


def values(given: Shares, usual: float) -> tuple[float, ...]:
    """Return the shares that occur, with the usual one where arms may be without.

    Examples
    --------
    >>> values((("a", 0.2),), 0.0), values(0.1, 0.0), values((0.1, 0.2), 0.0)
    ((0.0, 0.2), (0.1,), (0.1, 0.2))
    """
    if not isinstance(given, tuple):
        return (given,)
    named = [each[1] for each in given if isinstance(each, tuple)]
    plain = [each for each in given if not isinstance(each, tuple)]
    return (*(plain or [usual]), *named)


def limits(
    names: Sequence[Arm], least: Shares, most: Shares, control: Arm | None, fixed: float, owner: str
) -> Array:
    """Return the smallest and the largest share of every arm, in two rows.

    Raises
    ------
    InvalidParameter
        If there are shares for other arms, or no distribution can have them.

    Examples
    --------
    >>> limits(["a", "b", "c"], 0.1, (("b", 0.5),), "c", 0.2, "Floor")
    array([[0.1, 0.1, 0.2],
           [1. , 0.5, 0.2]])
    """
    rows = np.empty((KEPT, len(names)))
    rows[LOW] = _spread("min_share", least, names, 0.0, owner)
    rows[HIGH] = _spread("max_share", most, names, 1.0, owner)
    if control is not None:
        if isinstance(control, int) and control >= len(names):
            raise invalid("control", owner, f"the place of one of {len(names)} arms", control)
        if isinstance(control, str) and control not in names:
            raise invalid("control", owner, _one_of(names), control)
        rows[:, control if isinstance(control, int) else names.index(control)] = fixed
    above = rows[LOW] > rows[HIGH]
    if above.any():
        expected = f"at most the max_share of the same arm, {rows[HIGH, above][0]:g}"
        raise invalid("min_share", owner, expected, float(rows[LOW, above][0]))
    why = refusal(rows)
    if why:
        raise InvalidParameter(f"The shares of {owner} must be such that {why}.")
    return rows


def _spread(parameter: str, given: Shares, names: Sequence[Arm], usual: float, owner: str) -> Any:
    """Return the shares of all arms in order, or one for all."""
    if not isinstance(given, tuple):
        return given
    pairs = [each for each in given if isinstance(each, tuple)]
    for name, _ in pairs:
        if name not in names:
            raise invalid(parameter, owner, f"for {_one_of(names)}", name)
    if pairs or not given:
        return [dict(pairs).get(name, usual) for name in names]
    if len(given) != len(names):
        raise invalid(parameter, owner, f"a number, or one for each of {len(names)} arms", given)
    return given


def _one_of(names: Sequence[Arm]) -> str:
    return f"one of the arms {', '.join(map(repr, names[:10]))}{' ...' if len(names) > 10 else ''}"


def refusal(rows: Array) -> str:
    """Return the violated condition on the sum of some arms' shares; "" if there is none.

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
