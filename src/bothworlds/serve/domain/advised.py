"""Draws of an experiment with experts: from their advice to an arm and its record.

The state has one whole number per expert, its cumulative loss estimate in units of 2^-30.  Advice
is rounded to parts of 1 / 65,535 before anything is computed from it, so that what an expert
recommended fits into four bytes of the record, and learning from the record is exact.  A draw runs
the kernel of `bothworlds.AdvisedBandit`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bothworlds.bandit.advice import AdviceReader
from bothworlds.errors import InvalidParameter, must
from bothworlds.lanes.direct import direct
from bothworlds.lanes.jit import jit
from bothworlds.policies import advice as step
from bothworlds.policies.base import Array, Policy
from bothworlds.policies.tsallis_inf import TsallisINF
from bothworlds.serve.domain.draws import UNIT, Draw, Lineup, Units
from bothworlds.serve.domain.records import ADVISED, PARTS, encode_advice
from bothworlds.serve.problems import Problem

Advice = Mapping[str, str | Mapping[str, float]]


@jit
def round_row(A: Any, j: int) -> None:
    """Round a row to whole parts that add up to `PARTS`: differences of its rounded sums."""
    total, before = 0.0, 0.0
    for a in range(A.shape[1]):
        total += A[j, a]
        upto = np.rint(total * PARTS)
        A[j, a] = (upto - before) / PARTS
        before = upto


@jit
def prepare(F: Any, L: Any, t: float) -> None:
    """Write the sums ``L`` of the experts into the state, before round ``t``."""
    least = L[0]
    for j in range(1, L.size):
        least = min(least, L[j])
    for j in range(L.size):
        # Subtracted before they are rounded to doubles, and without a sign: it may be 2^63.
        F[step.HEAD + j] = (np.uint64(L[j]) - np.uint64(least)) * UNIT
    F[step.ROUND] = t - 1.0


@jit
def drawing(
    F: Any, L: Any, t: float, u: float, A: Any, awake: Any, here: Any, q: Any, D: Any, X: Any
) -> Any:
    """Draw an arm in round ``t``; write the part of the advice for the record, and clear it."""
    prepare(F, L, t)
    N = L.size
    for j in range(N):
        if awake[j]:
            round_row(A, j)
    arm = step.draw_by(F, u, A, awake, here, q, D)
    for j in range(N):
        X[2 * j] = int(np.rint(A[j, arm] * PARTS))
        # The baseline is 1/2.
        X[2 * j + 1] = int(np.rint(2.0 * D[step.PER_EXPERT + N + j] * PARTS)) if awake[j] else 0
    A[:] = 0.0
    return arm


@jit
def weighing(F: Any, L: Any, t: float, awake: Any, q: Any) -> None:
    """Write the weights of the experts in round ``t``."""
    prepare(F, L, t)
    F[step.ROUND] = t
    step.weigh(F, L.size, awake, step.rate_now(F, L.size), q)


def check_advised(policy: Policy) -> step.Setting:
    """Return the numbers of a policy that weighs the experts of an experiment, or refuse it.

    Examples
    --------
    >>> import bothworlds as bw
    >>> check_advised(bw.TsallisINF(estimator="soft"))
    Traceback (most recent call last):
    ...
    bothworlds.errors.InvalidParameter: The policy of an experiment with experts must be ...
    """
    setting = step.setting_of(policy, "an experiment with experts")
    if setting.estimator in (step.IW, step.RV):
        return setting
    expected = 'TsallisINF with the estimator "iw" or "rv", or Exp3'
    raise InvalidParameter(must("policy", "an experiment with experts", expected, policy))


class Advisers:
    """The experts of an experiment.

    Parameters
    ----------
    policy : Policy
        One that `check_advised` accepts, with its floor.
    experts, arms : sequence of str
        Their names, retired arms included.
    even : bool
        Whether all arms are drawn alike, which is a floor of 1; experts are learned about all the
        same.

    Examples
    --------
    >>> import bothworlds as bw
    >>> advisers = Advisers(bw.TsallisINF(), ["model", "rules"], ["a", "b", "c"])
    >>> lineup = Lineup(bw.TsallisINF(), [0, 1, 2], 3)
    >>> advice = {"model": "a", "rules": {"b": 0.5, "c": 0.5}}
    >>> advisers.draw(np.zeros(2, np.int64), 1, 0.6, advice, None, lineup).arm
    1
    >>> advisers.weights()
    {'model': 0.5, 'rules': 0.5}
    """

    def __init__(
        self, policy: Policy, experts: Sequence[str], arms: Sequence[str], *, even: bool = False
    ) -> None:
        N, K = len(experts), len(arms)
        self.names = tuple(experts)
        self._reader = AdviceReader("a decision")
        self._reader.open(experts, arms)
        setting = check_advised(policy)
        if even:
            setting = replace(setting, scale=1.0, power=0.0)
        self._F = step.first_state(setting, N, K)
        self._q, self._D = np.zeros(N), np.zeros(step.width(N, K))
        self._X = np.zeros(2 * N, "<u2")
        self._numbers = self._D.data
        reader, room = self._reader, np.zeros(N, np.int64)
        self._draw = direct(
            drawing, self._F, room, 1.0, 0.5, reader.A, reader.awake, reader.here, self._q, self._D,
            self._X,
        )  # fmt: skip

    def draw(
        self, estimates: Units, round: int, u: float, advice: Advice | None,
        asleep: Sequence[str] | None, lineup: Lineup,
    ) -> Draw:  # fmt: skip
        """Draw an arm by the advice; ``near`` of the result is `records.ADVISED`.

        Parameters
        ----------
        estimates : array of int
            The estimate of every expert, in units.
        round : int
            The round, from 1.
        u : float
            A uniform number in [0, 1).
        advice : mapping
            An arm, or probabilities of arms, for every expert that is awake.
        asleep : sequence of str, optional
            Experts without advice.
        lineup : Lineup
            The arms that can be drawn.

        Raises
        ------
        Problem
            ``advice_missing`` or ``advice_invalid``; nothing has changed.
        """
        reader = self._reader
        try:
            reader.read(advice, asleep, self._present(lineup) if lineup.mask else None)
        except InvalidParameter as error:
            raise self._problem(advice, asleep, str(error)) from None
        arm = self._draw(
            self._F, estimates, float(round), u, reader.A, reader.awake, reader.here, self._q,
            self._D, self._X,
        )  # fmt: skip
        numbers = self._numbers
        resting = 0
        if not reader.everyone:
            for j in np.flatnonzero(reader.awake == 0).tolist():
                resting |= 1 << j
        kept = encode_advice(
            numbers[step.BASE] > 0.0, resting, self._X.tobytes(),
            (numbers[step.OWN_R], numbers[step.OWN_S]),
        )  # fmt: skip
        return Draw(arm, 1.0 / numbers[step.P], ADVISED, 0.0, kept)

    def _present(self, lineup: Lineup) -> Any:
        return np.unpackbits(np.frombuffer(lineup.mask, np.uint8), count=lineup.known)

    def _problem(self, advice: Advice | None, asleep: Sequence[str] | None, why: str) -> Problem:
        if advice is None:
            listed = ", ".join(map(repr, self.names))
            return Problem("advice_missing", f"A decision needs the advice of {listed}.")
        named = {*advice, *(asleep or ())}
        missing = named < set(self.names)
        return Problem("advice_missing" if missing else "advice_invalid", why)

    def weights(self) -> dict[str, float]:
        """Return the weight of every expert in the last draw."""
        return dict(zip(self.names, self._q.tolist(), strict=True))

    def next_weights(self, estimates: Units, round: int) -> dict[str, float]:
        """Return the weight of every expert in a round in which all are awake."""
        q = np.zeros(len(self.names))
        weighing(self._F, estimates, float(round), np.ones(len(self.names), np.uint8), q)
        return dict(zip(self.names, q.tolist(), strict=True))

    def probabilities(self, lineup: Lineup) -> Array:
        """Return the distribution of the last draw, in the order of the lineup's places."""
        return self._D[step.PER_EXPERT + 3 * len(self.names) :][lineup.indices]


_warm: set[bool] = set()


def is_warm() -> bool:
    """Tell whether experiments with experts can be served without the compiler."""
    return True in _warm


def warm() -> None:
    """Compile or load the code for decisions with experts: one code for all policies."""
    if not is_warm():
        policy = TsallisINF()
        advisers = Advisers(policy, ("a", "b"), ("x", "y"))
        zeros = np.zeros(2, np.int64)
        advisers.draw(zeros, 1, 0.5, {"a": "x", "b": "y"}, None, Lineup(policy, (0, 1), 2))
        advisers.next_weights(zeros, 1)
        _warm.add(True)
