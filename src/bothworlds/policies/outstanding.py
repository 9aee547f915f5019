"""Outstanding decisions: how UCB1 and KL-UCB count those that have no answer yet.

An index policy that counted answers only would choose one arm again and again until its first
answer came, and an arm that never answers for ever.  A `bothworlds.Bandit` therefore counts
decisions as well:

======== ==========================================================================
``o_i``  decisions of arm i without an answer, those that expired included
``n_i``  answers of arm i; n_i + o_i is what the exploration term divides by
``m_i``  the mean of the answers; 1, the largest loss, while there is none
======== ==========================================================================

Every arm is played once, by decisions.  After that, an arm that does not answer counts as one whose
loss is 1, and is tried about as often as such an arm: logarithmically.  With prompt feedback o = 0
whenever an arm is chosen, and nothing changes; the simulation engine, whose feedback is always
prompt, does not run the functions that count.
"""

from __future__ import annotations

from typing import Any

from bothworlds.lanes.jit import jit
from bothworlds.policies.base import Kernels, Traits

LAST = 1
"""Row of the arm chosen last, after the inverse probability."""
ARMS = 2
"""First of the rows by arm."""
WORST = 1.0
"""The mean loss of an arm without an answer."""
INDEX = Traits(head_rows=ARMS, bandit_rows=(LAST,), resizable=True)
"""Traits that index policies have in common."""


@jit
def point_mass(K: int, t: int, C: Any, S: Any, G: Any, out: Any) -> None:
    """1 for the arm chosen last, 0 for all other arms."""
    for i in range(K):
        out[i] = 1.0 if i == S[LAST] else 0.0


def index_kernels(
    choose: Any, update: Any, asked: Any, answered: Any, wide: bool = True
) -> Kernels:
    """Return the kernels of a policy that plays the arm of the best index."""
    counting = {"asked": asked, "answered": answered}
    return Kernels.of(choose, update, point_mass, draws=False, wide=wide, **counting)
