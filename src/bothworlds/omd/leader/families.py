"""Families of weights in leader mode: w_i = v_i^-p for p = 1, p = 2 and any p.

`bind` makes the functions of a family from the templates of `series`, `drawing`, `rebuilding` and
`rounds`.  A family is what these call by the names below; ``B`` are its parameters, None where p is
a whole number.

=============== ===================================================================
``TOLERANCE``   the relative error of Y with which a round ends its search
``shape``       c = 1 / p
``radius``      R, the largest |s| and |f| as a share of the least V of the series
``cut``         the share of an arm's room in the table that its weight takes at most
``power``       v^-p, given v and 1 / v
``coefficient`` binom(-p, n)
``evaluate``    a series and its derivative, whose relative error is ``SLOPPY``
``some_far``    whether the series of the far arms may stand for any
``growth``      q^p
``start``       z and Y as they were predicted
``lifted``      Y after a step, and ``refreshed`` before one that is not the first
``note``        write down what the next round starts from
``note_other``  write down that another arm than the leader is played in a lane
``predict``     move z and Y with the estimate of the leader
``anchor``      write down what follows from z and eta_0 of a lane
``follow``      adapt z and the room of an arm to its estimate, where that pays
=============== ===================================================================
"""

from types import SimpleNamespace
from typing import Any

from bothworlds.lanes.jit import inlined, jit
from bothworlds.lanes.vectors import fma, load, store
from bothworlds.lanes.wrap import bound
from bothworlds.omd.leader import drawing, rebuilding, rounds, series
from bothworlds.omd.leader.layout import PREDICTED, SLOPE

TEMPLATES = (
    series.sum_powers, series.replace, drawing.find_other, rebuilding.settle, rebuilding.divide,
    rebuilding.rebuild, rebuilding.change_series, rebuilding.cross, rebuilding.enter,
    rebuilding.leave, rounds.step, rounds.unfinished, rounds.finish, rounds.look_closer,
    rounds.draw, rounds.learn_other, rounds.learn_others, rounds.learn,
)  # fmt: skip
"""Each calls only those before it."""
EVERY_ROUND = (rounds.step, rounds.unfinished, rounds.draw, rounds.learn)
"""Those that every round calls, which the kernels have in them."""


def bind(**family: Any) -> SimpleNamespace:
    """Return the functions of a family, bound to the names that the templates call."""
    for template in TEMPLATES:
        own = bound(template, inline=template in EVERY_ROUND, **family)
        family[template.__name__] = own
    return SimpleNamespace(**family)


# --- what whole p have in common -----------------------------------------------------------------


@jit
def suppose_far(M: Any, like: Any) -> bool:
    """Suppose that some arm is far."""
    return True


@jit
def keep_inverse(Y: Any, z: Any, pending: Any, B: Any) -> Any:
    """Return Y: it follows from z."""
    return Y


@inlined
def note_root(M: Any, B: Any, eta: Any, z: Any, Y: Any, a_over_z: Any, a: Any, weight: Any) -> None:
    """Write z, and its movement to first order, for c times the movement of L_b."""
    store(M, SLOPE, eta * fma(a, a, a))
    store(M, PREDICTED, z)


@inlined
def predict_root(M: Any, B: Any, by: Any) -> None:
    """Move z with the estimate of the leader."""
    store(M, PREDICTED, fma(-load(M, SLOPE, by), by, load(M, PREDICTED, by)))


@jit
def note_nothing(S: Any, M: Any, place: int, W: int, weight: float) -> None:
    """Leave a lane as it is."""


@jit
def follow_nothing(
    K: int, M: Any, place: int, W: int, arm: int, w: float, inverse_p: float, by: float
) -> None:
    """Leave z and the room of an arm as they are: a point that misses costs one division."""


@jit
def anchor_nothing(M: Any, place: int, W: int, z: float, eta: float, B: Any) -> None:
    """Leave a lane as it is: powers follow from z and eta_0."""
