"""Borrowed estimates of a segment: the rule of `SegmentedBandit` and of the decision service.

A segment draws from its own loss estimates and from those of all other segments together, which
count as at most ``prior`` answers:

    L = L_own + n L_rest / N,   t = t_own + n,   n = min(prior, N),

with N the answers of the rest.  A segment without answers so draws as the whole would after n
answers with the same mean losses.  Its own answers soon outweigh the n borrowed ones, and the
probability of the draw is the one its feedback is weighted with, so estimates stay unbiased.
"""

from __future__ import annotations

import numpy as np

from bothworlds.policies import base
from bothworlds.policies.base import Array, Policy


def borrowed(rest: Array, answers: int, prior: int) -> tuple[Array, int]:
    """Return the numbers that a segment adds to its loss estimates, and to its rounds.

    Parameters
    ----------
    rest : array
        Cumulative loss estimates of the arms over the answers of all other segments.
    answers : int
        How many these answers are.
    prior : int
        How many of them count at most.

    Examples
    --------
    >>> borrowed(np.array([250.0, 150.0]), answers=500, prior=100)
    (array([20.,  0.]), 100)
    """
    counted = max(0, min(prior, answers))
    if counted == 0:
        return np.zeros(rest.size), 0
    return (rest - rest.min()) * (counted / answers), counted


def is_sum(policy: Policy) -> bool:
    """Tell whether the state of a policy is a sum of estimates over its feedback, in any order.

    Examples
    --------
    >>> import bothworlds as bw
    >>> is_sum(bw.TsallisINF()), is_sum(bw.AllWorlds())
    (True, False)
    """
    traits = policy.traits
    return (
        traits.order_invariant
        and traits.late_as_prompt
        and traits.unbiased
        and not traits.unbounded
        and traits.carried_rows == 0
        and traits.skipped_row is None
        and traits.retained == 1.0
        and traits.saved_rows == {0: base.ESTIMATES}
        and not traits.saved_head
    )
