"""Draws: the first of the two compiled steps of the decision service.

The state of most served experiments is one whole number per arm, its cumulative loss estimate in
units of 2^-30.  `Lineup.draw` goes from these numbers to an arm and its probability.  The second
step, what feedback adds to the numbers, is in `bothworlds.serve.domain.sums`.  Policies whose state
depends on the order of the feedback have another one, see `bothworlds.serve.domain.folds`.

The mathematics is the policies' own: a draw runs the kernel ``choose`` of a `bothworlds.Bandit`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bothworlds.bandit.borrowed import is_sum
from bothworlds.errors import InvalidParameter, must
from bothworlds.lanes.direct import direct
from bothworlds.lanes.kernels import HEAD, PARAMETERS, ROUND, unpack
from bothworlds.lanes.random import WORDS
from bothworlds.lanes.wrap import bound
from bothworlds.omd.estimators import BASELINE
from bothworlds.policies.base import Array, Policy, Program
from bothworlds.policies.late import (
    CARRIED,
    INVERSE_P,
    MEAN_BASELINE,
    late_kernels,
    no_change,
    width,
)
from bothworlds.policies.packed import pack
from bothworlds.serve.domain.records import MOST_CARRIED, NEAR_ALL, NEAR_NONE, NEAR_SOME

Units = NDArray[np.int64]

BITS = 30
"""Binary places of a unit."""
UNIT = 2.0**-BITS
PER_ONE = 2.0**BITS
LARGEST_SUM = 2**62
"""Largest sum, in units; feedback that would exceed it is refused."""

# What the template calls; filled in for each policy.
choose: Any = None
changed: Any = None
note: Any = None
head: int = 0


def drawing(F: Any, L: Any, indices: Any, t: float, u: float, N: Any, flags: Any, w: Any) -> Any:
    """Draw an arm in round ``t`` from the sums ``L`` of the arms ``indices``; note the decision."""
    start = HEAD + int(F[PARAMETERS]) + head
    least = L[indices[0]]
    for i in range(1, indices.size):
        least = min(least, L[indices[i]])
    for i in range(indices.size):
        # Subtracted before they are rounded to doubles, and without a sign: it may be 2^63.
        F[start + i] = (np.uint64(L[indices[i]]) - np.uint64(least)) * UNIT
    F[ROUND] = t
    changed(F)
    K, now, C, S, G = unpack(F)
    slot = choose(K, now, C, S, G, u)
    note(F, indices, N, flags, w)
    return slot


class Draw(NamedTuple):
    """A draw: the part that the record of a decision needs.

    Attributes
    ----------
    arm : int
        Index of the arm.
    inverse_p : float
        1 / its probability.
    near : int
        Which arms get a baseline: `records.NEAR_NONE`, `NEAR_ALL` of those present, `NEAR_SOME`.
    baseline : float
        The mean baseline.
    mask : bytes
        One bit per known arm, set for the near ones; empty unless some are and some are not.
    carried : bytes
        What the policy carries with the decision, doubles.
    """

    arm: int
    inverse_p: float
    near: int
    baseline: float
    mask: bytes
    carried: bytes = b""


def check_served(policy: object) -> Policy:
    """Return the policy if an experiment can be served with it.

    Raises
    ------
    InvalidParameter
        If it cannot, with the reason, in one sentence.

    Examples
    --------
    >>> import bothworlds as bw
    >>> check_served(bw.AllWorlds())
    AllWorlds()
    >>> check_served(bw.UCB1())
    Traceback (most recent call last):
    ...
    bothworlds.errors.InvalidParameter: The policy of an experiment must be one with a known ...
    """
    expected = "a policy such as TsallisINF()"
    if isinstance(policy, Policy) and policy.traits.kind == "bandit":
        traits, parts = policy.traits, policy.kernels().parts
        if not traits.trusted:
            expected = "one of this package, because every replica must have the same code"
        elif traits.needs_horizon:
            expected = "one without a horizon, because a service does not know how long it runs"
        elif parts is None or not parts.draws or parts.weights is None:
            expected = "one with a known probability of every arm, because decision ids carry it"
        elif not traits.estimates:
            expected = "one that estimates the losses of its arms, such as TsallisINF or AllWorlds"
        elif not (traits.separable and traits.resizable):
            expected = "one that allows arms to be added and retired, so without gaps"
        elif traits.carried_rows <= MOST_CARRIED:
            return policy
    raise InvalidParameter(must("policy", "an experiment", expected, policy))


@functools.cache
def _kernel(policy: Policy) -> Any:
    """Return the compiled draw of a policy."""
    kernels = policy.kernels()
    return bound(
        drawing,
        choose=kernels.choose,
        changed=kernels.estimates_changed or no_change,
        note=late_kernels(policy, Program.of(policy, 1, kernels)).note,
        head=policy.traits.head_rows,
    )


class Lineup:
    """Some arms of an experiment, ready to be drawn from.

    Parameters
    ----------
    policy : Policy
        One that `check_served` accepts.
    indices : sequence of int
        The arms that can be drawn.
    known : int
        How many arms the experiment ever had.

    Examples
    --------
    >>> import bothworlds as bw
    >>> lineup = Lineup(bw.TsallisINF(), indices=[0, 1, 2, 3], known=4)
    >>> lineup.draw(np.zeros(5, np.int64), 1, 0.6)
    Draw(arm=2, inverse_p=4.0, near=0, baseline=0.0, mask=b'', carried=b'')
    """

    __slots__ = (
        "_F", "_N", "_bytes", "_draw", "_everybody", "_flags", "_nobody", "_numbers", "_size", "_w",
        "_weights", "indices", "known", "mask", "places",
    )  # fmt: skip

    def __init__(self, policy: Policy, indices: Sequence[int], known: int) -> None:
        n = len(indices)
        check_served(policy)
        self.places = tuple(indices)
        self.indices = np.array(indices, np.intp)
        self.known = known
        flags = np.zeros(known, np.uint8)
        flags[self.indices] = 1
        self._everybody = np.packbits(flags).tobytes()
        self._nobody = bytes(len(self._everybody))
        self.mask = b"" if n == known else self._everybody
        plain = plainly(policy, n)
        self._F = pack(policy, n, np.ones(WORDS, np.int64), plain)
        self._N = np.zeros(width(policy, plain, known))
        self._numbers = self._N.data
        self._bytes = self._N.data.cast("B")[8 * (CARRIED + policy.traits.carried_rows) :]
        self._size = (known + 7) // 8 if len(self._bytes) else 0
        self._flags = np.zeros(n, np.uint8)
        self._w = np.zeros(n)
        self._weights = policy.kernels().weights
        self._draw = self._drawing(policy)

    def _drawing(self, policy: Policy) -> Any:
        """Return the compiled draw."""
        room = np.zeros(self.known + 1, np.int64)
        return direct(
            _kernel(policy), self._F, room, self.indices, 1.0, 0.5, self._N, self._flags, self._w
        )

    def draw(self, estimates: Any, round: int, u: float) -> Draw:
        """Draw an arm.

        Parameters
        ----------
        estimates : array of int
            The estimate of every known arm, in units; longer is fine.
        round : int
            The round, from 1.
        u : float
            A uniform number in [0, 1): the arm is a function of the arguments.
        """
        slot = self._draw(
            self._F, estimates, self.indices, float(round), u, self._N, self._flags, self._w
        )
        return self._drawn(slot)

    def even(self, estimates: Any, round: int, u: float) -> Draw:
        """Draw an arm uniformly; see `draw`."""
        n = len(self.places)
        return Draw(self.places[int(u * n)], float(n), NEAR_NONE, 0.0, b"")

    def _drawn(self, slot: int) -> Draw:
        """Return the draw of an arm whose notes exist."""
        inverse_p = self._numbers[INVERSE_P]
        size = self._size
        if not size:
            return Draw(self.places[slot], inverse_p, NEAR_NONE, 0.0, b"")
        mask = bytes(self._bytes[:size])
        if mask == self._nobody:
            return Draw(self.places[slot], inverse_p, NEAR_NONE, 0.0, b"")
        if mask == self._everybody:
            return Draw(self.places[slot], inverse_p, NEAR_ALL, BASELINE, b"")
        return Draw(self.places[slot], inverse_p, NEAR_SOME, self._numbers[MEAN_BASELINE], mask)

    def probabilities(self) -> Array:
        """Return the distribution of the last draw, in the order of `places`."""
        self._weights(self._F, self._w)
        return self._w.copy()


def plainly(policy: Policy, n_arms: int) -> Program:
    """Return the policy's own kernels, also for many arms.

    Those for many need further random numbers, and a draw is to be a function of its arguments.
    """
    return Program.of(policy, n_arms, policy.kernels())


def entered(policy: Policy, estimates: Array, round: int, probability: float | None) -> float:
    """Return the estimate at which a new arm has a probability in a round, by default 1 / K."""
    n = estimates.size
    rows = np.zeros((policy.traits.rows_per_arm, n))
    rows[0] = estimates
    head: Array = policy.start(n)[: policy.traits.head_rows]
    return float(policy.newcomer(head, rows, round, probability)[0])


def draw(
    policy: Policy,
    estimates: Units,
    round: int,
    u: float,
    available: Sequence[int] | None = None,
) -> Draw:
    """Draw an arm from summed estimates.

    Callers that draw often from the same arms keep a `Lineup`.

    Parameters
    ----------
    policy : Policy
        One that `check_served` accepts.
    estimates : array of int
        The estimate of every arm, in units of 2^-30.
    round : int
        The round, from 1.
    u : float
        A uniform number in [0, 1): the arm is a function of the arguments.
    available : sequence of int, optional
        The arms that can be drawn; by default all.

    Examples
    --------
    >>> import bothworlds as bw
    >>> draw(bw.TsallisINF(), np.zeros(4, np.int64), round=1, u=0.6).arm
    2
    >>> draw(bw.TsallisINF(), np.zeros(4, np.int64), round=1, u=0.6, available=[0, 3]).arm
    3
    """
    n = estimates.size
    if not is_sum(check_served(policy)):
        expected = "one whose state is a sum of estimates, such as TsallisINF or Exp3"
        raise InvalidParameter(must("policy", "serve.draw", expected, policy))
    indices = tuple(range(n)) if available is None else tuple(available)
    if not indices or len(set(indices)) < len(indices) or not set(indices) <= set(range(n)):
        expected = f"distinct arms from 0 to {n - 1}"
        raise InvalidParameter(must("available", "serve.draw", expected, available))
    return Lineup(policy, indices, n).draw(np.ascontiguousarray(estimates, np.int64), round, u)
