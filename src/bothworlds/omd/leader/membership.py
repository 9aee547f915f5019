"""Membership of leader mode: one rule for entering and leaving it, for every family of weights.

A mode spares a lane the pass over its arms while one of them, b, has nearly all the weight.  It is
exact whichever arm leads; only its speed depends on how rarely another arm is played.  So a lane
enters and leaves it by what a round of either kind costs, and by its own numbers and the round
alone: a repetition does not depend on its neighbours.

* **Enter** when the other arms together weigh at most ``most``, with which their plays cost what
  the other rounds save, and have weighed at most twice that for the last 64th of all rounds, and
  for one account.
* **Leave** when rare work has cost `WORTH` times what the rounds save, within one account.  Then
  the wait restarts.  A family may stay for longer.

An account is `ACCOUNT_EVERY` rounds, or fewer where a family gains by it.

Costs are nanoseconds of one lane, measured; only their ratios matter.  What is rare costs more than
its instructions, because the processor did not expect it.
"""

from typing import Any

from bothworlds.lanes.jit import jit
from bothworlds.lanes.vectors import (
    lane_bits,
    load,
    maximum,
    negate,
    select,
    splat,
    store,
)

LEADS, LEADER = 0, 1
"""Rows: 1 in the lanes in the mode, and b."""
SPENT, RESTLESS = 2, 3
"""Rows: the recent cost of rare work, and the last round that spoke against entering."""
OWN = 4
"""First row that belongs to a family."""

ABSENT = 1e90
"""V of b's own place and of places without an arm: their weight is 0."""
FIRST = 2**14
"""First round in which a lane may enter.  Earlier rounds are few, and often some lanes of a tile
would be in the mode and others not, which costs both kinds of round."""
LOOK_EVERY = 64
"""Rounds after which lanes may enter or leave."""
ACCOUNT_EVERY = 1024
"""Rounds over which a lane compares the cost of rare work with the savings."""
MOST = 0.6
"""Largest share of the other arms with which a lane enters, however much a round saves."""
CALM = 1 / 64
"""Share of its rounds for which a lane must have had no more than twice that share to enter, and at
least those of one account: the obstacle of a lane is found out that often."""
WORTH = 1.5
"""Ratio of the cost of rare work to the savings of the rounds at which a lane leaves."""


@jit
def cost(of: Any, K: int) -> Any:
    """Return the cost in one lane: ``of`` has the part of every lane and that of an arm."""
    return of[0] + of[1] * K


@jit
def is_due(t: int) -> bool:
    """Tell whether lanes may enter the mode in this round, or leave it."""
    return t % LOOK_EVERY == 0


@jit
def heaviest(K: int, S: Any, drawn: int, like: Any) -> Any:
    """Return the largest weight and their sum, of K rows from ``drawn`` on."""
    total = splat(0.0, like)
    best = splat(0.0, like)
    for i in range(drawn, drawn + K):
        w = load(S, i, like)
        total = total + w
        best = maximum(best, w)
    return best, total


@jit
def decide(
    t: int, M: Any, best: Any, total: Any, saved: float, other: float, first: int, barred: Any,
    account: int = ACCOUNT_EVERY, worth: float = WORTH,
) -> tuple[int, int]:  # fmt: skip
    """Return the lanes that leave the mode and those that enter it, as bits.

    The leader's share of the weights is ``best`` / ``total`` in lanes outside the mode.  A round
    saves ``saved`` in it, and one in which another arm is played costs ``other``.  Lanes may enter
    from round ``first`` on, and must leave where they are ``barred``, unless that is None.  An
    account takes ``account`` rounds, and lanes leave at ``worth`` times the savings.
    """
    leads = load(M, LEADS, total) != 0.0
    tired = load(M, SPENT, total) > worth * account * saved
    most = min(saved / other, MOST)
    calm = leads | ((1.0 - 2.0 * most) * total < best)
    if barred is not None:
        tired = tired | barred
        calm = calm & negate(barred)
    if t % account == 0:
        store(M, SPENT, splat(0.0, total))
    restless = select(calm, load(M, RESTLESS, total), float(t))
    store(M, RESTLESS, restless)
    entering = 0
    if t >= first:
        ready = ((1.0 - most) * total < best) & (restless <= t - max(CALM * t, account))
        entering = lane_bits(ready & negate(leads))
    return lane_bits(leads & tired), entering


@jit
def distances(K: int, L: Any, stride: int, V: Any, places: int, unit: float) -> int:
    """Make V_i = ``unit`` (L_i - min L), for estimates ``stride`` numbers apart; return b."""
    b = 0
    for i in range(1, K):
        if L[i * stride] < L[b * stride]:
            b = i
    low = L[b * stride]
    for i in range(places):
        V[i] = ABSENT
        if i < K and i != b:
            V[i] = unit * (L[i * stride] - low)
    return b


@jit
def open_lane(M: Any, place: int, W: int, leader: int) -> None:
    """Note that a lane is in the mode."""
    M[LEADS * W + place] = 1.0
    M[LEADER * W + place] = leader
    M[SPENT * W + place] = 0.0


@jit
def close_lane(t: int, M: Any, place: int, W: int) -> None:
    """Note that a lane is no longer in the mode."""
    M[LEADS * W + place] = 0.0
    M[RESTLESS * W + place] = t


@jit
def write_estimates(K: int, L: Any, stride: int, scale: float) -> None:
    """Multiply estimates by ``scale`` and make the least of them 0; b's is 0."""
    low = 0.0
    for i in range(K):
        L[i * stride] *= scale
        low = min(low, L[i * stride])
    for i in range(K):
        L[i * stride] -= low
