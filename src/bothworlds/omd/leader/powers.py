"""Any alpha below 1 in leader mode: w_i = v_i^-p with p = 1 / (1 - alpha).

Symbols and equations are those of `bothworlds.omd.leader`.  Powers are computed in rare rounds
only: Y = z^p is kept next to z, and where z is multiplied by 1 + h, Y is by (1 + h)^p, of which
four terms are enough.  In the rare rounds in which a step is repeated Y is computed again as a
power.  Only rounding parts z^p from Y until that is next done, and the weights do not feel it: the
others depend on z by z / v_i, the leader on Y alone.

Lanes that are not in the mode are played by `bothworlds.omd.powers`.
"""

from typing import Any

from bothworlds.lanes.functions import log
from bothworlds.lanes.jit import inlined, jit
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import advance, any_lane, fma, load, lowest_bit, select, store
from bothworlds.omd import powers
from bothworlds.omd.leader import membership
from bothworlds.omd.leader.drawing import ROUNDING, narrow
from bothworlds.omd.leader.families import bind, note_nothing
from bothworlds.omd.leader.layout import INVERSE, LOWEST, ORDER, PREDICTED, RATE, RATE_POWER, SLOPE
from bothworlds.omd.leader.membership import ABSENT, LEADER, cost
from bothworlds.omd.leader.series import evaluate_to_four

LEFT_OUT = 1e-14
"""Remainder of the series, as a share of W."""
EXTREME = 1e20
"""Learning rates beyond this, or below its inverse, go without the mode: their powers are no
numbers."""
SHAPE, RADIUS, CUT, BINOMIALS = 0, 1, 2, 3
"""Places in the array that the kernels take as ``B``, see `parameters`."""
SAVED, OTHER, REBUILD, CROSSING = (6.0, 1.15), (330.0, 1.0), (350.0, 6.0), (150.0, 1.0)
ACCOUNT_EVERY = 256
"""Rounds of an account: with powers, a lane that stays in the mode for too long costs much."""
WORTH_REDUCED = 2.5
"""`membership.WORTH` for reduced variance: arms cross the brink in bursts, and while one lane is
outside the mode all lanes of its vector pay for a pass."""


def parameters(alpha: float) -> list[float]:
    """Return c, the radius R, ``cut`` and binom(-p, n) for every c_n.

    Examples
    --------
    >>> [round(1 / parameters(alpha)[1]) for alpha in (0.0, 0.25, 0.5, 0.75, 0.9)]
    [25, 27, 32, 44, 79]
    >>> parameters(0.5)[3:8]
    [1.0, -2.0, 3.0, -4.0, 5.0]
    """
    c = 1.0 - alpha
    binomials = [1.0]
    for n in range(ORDER + 1):
        binomials.append(-binomials[-1] * (1.0 / c + n) / (n + 1))
    radius = (LEFT_OUT / abs(binomials.pop())) ** (1.0 / (ORDER + 1))
    return [c, radius, ROUNDING * (1.0 - radius) ** (1.0 / c), *binomials]


@jit
def shape(B: Any) -> Any:
    """Return c."""
    return B[SHAPE]


@jit
def radius(B: Any) -> Any:
    """Return R."""
    return B[RADIUS]


@jit
def cut(B: Any) -> Any:
    """Return the share of an arm's room that its weight takes at most."""
    return B[CUT]


@jit
def power(v: Any, r: Any, B: Any) -> Any:
    """Return v^-p."""
    return powers.raised(r, log(v), B[SHAPE])


@jit
def coefficient(n: int, B: Any) -> Any:
    """Return binom(-p, n)."""
    return B[BINOMIALS + n]


@jit
def some_far(M: Any, like: Any) -> Any:
    """Tell whether any arm is far: below alpha = 1/2 none is as a rule."""
    return any_lane(load(M, LOWEST, like) < ABSENT)


@jit
def growth(rate_power: Any, q: Any, over_power: float) -> Any:
    """Return q^p."""
    return rate_power * over_power


@jit
def start(M: Any, like: Any) -> Any:
    """Return z and Y."""
    return load(M, PREDICTED, like), load(M, INVERSE, like)


@jit
def lifted(Y: Any, h: Any, z: Any, B: Any) -> Any:
    """Return Y (1 + h)^p for small h."""
    p = 1.0 / B[SHAPE]
    second = 0.5 * (p - 1.0)
    third = second * (p - 2.0) * (1 / 3)
    return fma(Y * (p * h), fma(fma(third, h, second), h, 1.0), Y)


@jit
def refreshed(Y: Any, z: Any, pending: Any, B: Any) -> Any:
    """Return Y as a power: the step before may have been too long for the terms of `lifted`."""
    return select(pending, 1.0 / power(z, 1.0 / z, B), Y)


@inlined
def note(M: Any, B: Any, eta: Any, z: Any, Y: Any, a_over_z: Any, a: Any, weight: Any) -> None:
    """Write z, Y and the h by which they move, to second order, for c times the movement of L_b."""
    store(M, SLOPE, -eta * fma(a_over_z, a, a_over_z))
    store(M, PREDICTED, z)
    store(M, INVERSE, Y)


@inlined
def predict(M: Any, B: Any, by: Any) -> None:
    """Move z and Y with the estimate of the leader."""
    h = load(M, SLOPE, by) * by
    z = load(M, PREDICTED, by)
    store(M, PREDICTED, fma(z, h, z))
    store(M, INVERSE, lifted(load(M, INVERSE, by), h, z, B))


@jit
def follow(
    K: int, M: Any, place: int, W: int, arm: int, w: float, inverse_p: float, by: float
) -> None:
    """Fit the room of an arm whose weight has fallen by half."""
    narrow(K, M, place, W, arm, w, 2.0)


@jit
def anchor(M: Any, place: int, W: int, z: float, eta: float, B: Any) -> None:
    """Write Y and eta_0^p of a lane."""
    M[INVERSE * W + place] = 1.0 / power(z, 1.0 / z, B)
    M[RATE_POWER * W + place] = 1.0 / power(eta, 1.0 / eta, B) if eta > 0.0 else 0.0


mode = bind(
    shape=shape, radius=radius, cut=cut, power=power, coefficient=coefficient,
    evaluate=evaluate_to_four, some_far=some_far, growth=growth,
    start=start, lifted=lifted, refreshed=refreshed,
    note=note, note_other=note_nothing, predict=predict, anchor=anchor, follow=follow,
    TOLERANCE=3e-14, SLOPPY=5e-5, OTHER=OTHER, REBUILD=REBUILD, CROSSING=CROSSING,
)  # fmt: skip
draw, learn, enter, leave = mode.draw, mode.learn, mode.enter, mode.leave


@jit
def first_round(K: int) -> int:
    """Return the first round in which a lane may enter.

    With more arms, others than the leader are played for longer.
    """
    return min(max(2**12 * K, membership.FIRST), 2**16)


@jit
def look_around(
    K: int, t: int, S: Any, M: Any, B: Any, eta: float, near_below: Any, like: Any
) -> None:
    """Let lanes enter and leave the mode, in a round in which they may."""
    unit = B[SHAPE] * eta
    best, total = membership.heaviest(K, S, powers.ESTIMATES + 2 * K, like)
    barred = total != total
    worth = membership.WORTH if near_below is None else WORTH_REDUCED
    if near_below is not None and K * eta * eta > 1.0:
        barred = total == total  # the leader would not be near
    if eta * EXTREME < 1.0 or eta > EXTREME:
        barred = total == total
    leaving, entering = membership.decide(
        t, M, best, total, cost(SAVED, K), cost(OTHER, K), first_round(K), barred, ACCOUNT_EVERY,
        worth,
    )  # fmt: skip
    while leaving != 0:
        place = lowest_bit(leaving)
        L = advance(S, powers.ESTIMATES * LANES + place)
        before = B[SHAPE] * M[RATE * LANES + place]
        z = leave(K, t, L, LANES, before, M, place, LANES, B, near_below)
        b = int(M[LEADER * LANES + place])
        powers.restart(K, S, place, L[b * LANES] - (z - 1.0) / unit)
        leaving &= leaving - 1
    while entering != 0:
        place = lowest_bit(entering)
        L = advance(S, powers.ESTIMATES * LANES + place)
        x = S[powers.FRAME * LANES + place] - 1.0 / unit
        enter(K, t, L, LANES, x, unit, M, place, LANES, B, eta, near_below)
        entering &= entering - 1
