"""`inference.value`: the outcome of another way of choosing, from a log.

==========  ==============================================================================
``"ips"``   mean of rho v: unbiased, also where the log was chosen adaptively
``"cips"``  the same with rho at most ``clip``: less noise, biased towards 0
``"snips"`` sum of rho v / sum of rho: a little biased, less noise
``"dr"``    mean of sum_a pi(a) q(a) + rho (v - q(played)): unbiased, least noise
==========  ==============================================================================

rho is the target's probability of the played arm over the logged one, v the outcome, and q the
mean of the arm's earlier answers.

References
----------
M. Dudik, J. Langford and L. Li, "Doubly Robust Policy Evaluation and Learning", ICML 2011.

A. Swaminathan and T. Joachims, "The Self-Normalized Estimator for Counterfactual Learning",
NeurIPS 2015.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any, Literal, Self, overload

import numpy as np
from numpy.typing import NDArray

from bothworlds.arguments import positive
from bothworlds.bandit.decision import Arm
from bothworlds.errors import invalid
from bothworlds.evidence import bounds as read
from bothworlds.evidence import estimating as est
from bothworlds.evidence.report import Units
from bothworlds.inference.order import RoundSorter
from bothworlds.inference.slices import By, Slice, checked_by, sliced
from bothworlds.inference.targets import UNIFORM, Target, target_rows
from bothworlds.logs.columns import Log, Reading, Rows

METHODS = ("ips", "cips", "snips", "dr")
Method = Literal["ips", "cips", "snips", "dr"]

FEWEST_ROWS = 30
"""Effective rows below which no interval is given."""


@dataclass(frozen=True)
class Value:
    """Mean outcome of a target per decision, in the log's units."""

    value: float
    """The estimate."""
    interval: tuple[float, float] | None
    """Where the value is, at a time fixed in advance; None where that would not be sound."""
    sequence: tuple[float, float]
    """Range of a weighted average of the value, valid at any time."""
    ess: float
    """Effective sample size, (sum of rho)^2 / sum of rho^2."""
    rows: int
    """Answers used."""
    largest: float
    """The largest rho: how much one row can count."""
    method: str
    """The estimator."""
    why: str
    """Why the interval is missing, in words; empty where it is not."""

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return asdict(self)


class ValueSums:
    """The estimators' sums over answered rows.

    Parameters
    ----------
    clip : float
        The largest rho that clipped IPS lets count.
    bounds : pair of float
        The smallest and largest possible reward or loss.
    """

    def __init__(self, clip: float, bounds: tuple[float, float]) -> None:
        self.Z = np.zeros(est.HEAD)
        self.n_arms = 0
        self._clip = clip
        self._middle = 0.5 * sum(bounds)

    def add(self, arms: Any, inverse_p: Any, values: Any, losses: Any, target: Any) -> None:
        """Add rows in order; ``target`` has a row of probabilities for each, or one for all."""
        K = target.shape[1]
        if K > self.n_arms:
            wide = np.zeros(est.HEAD + 2 * K)
            wide[: est.HEAD] = self.Z[: est.HEAD]
            for part in range(2):
                old = self.Z[est.HEAD + part * self.n_arms :][: self.n_arms]
                wide[est.HEAD + part * K :][: self.n_arms] = old
            self.Z, self.n_arms = wide, K
        est.estimate_all(
            self.Z, K, arms, inverse_p, values, losses, target, self._clip, self._middle
        )

    def copy(self) -> Self:
        """Return independent sums of the same content."""
        made = copy(self)
        made.Z = self.Z.copy()
        return made

    def value(self, method: str, confidence: float, units: Units) -> Value:
        """Return the estimate from the sums."""
        Z = self.Z
        n = float(Z[est.COUNT])
        ess = float(Z[est.RHO] ** 2 / Z[est.RHO2]) if Z[est.RHO2] > 0 else 0.0
        if method == "snips":
            mean = float(Z[est.RV] / Z[est.RHO]) if Z[est.RHO] > 0 else math.nan
            spread = Z[est.RV2] - 2.0 * mean * Z[est.R2V] + mean * mean * Z[est.RHO2]
            error = math.sqrt(max(spread, 0.0)) / Z[est.RHO] if Z[est.RHO] > 0 else math.inf
        else:
            first = {"ips": est.RV, "cips": est.CV, "dr": est.DR}[method]
            mean = float(Z[first] / n) if n else math.nan
            error = math.sqrt(max(Z[first + 1] / n - mean * mean, 0.0) / n) if n else math.inf
        why = ""
        interval = None
        if ess < FEWEST_ROWS:
            why = f"No interval: the effective sample size is {ess:.1f}, below {FEWEST_ROWS}."
        else:
            reach = NormalDist().inv_cdf(0.5 + 0.5 * confidence) * error
            interval = (float(mean - reach), float(mean + reach))
        ends = []
        for side in range(2):
            at = est.SL + est.SIDE * side
            slack = math.log(2.0 / (1.0 - confidence))
            sl = Z[at]
            end = (Z[at + 1] - Z[at + 2] - slack) / sl if sl > 0.0 else 0.0
            ends.append(min(1.0, max(0.0, float(end))))
        # Each end holds by itself; where noise lets them cross, they are what is known.
        low, high = sorted((ends[0], 1.0 - ends[1]))
        sequence = units.pair((low, high))
        assert sequence is not None
        return Value(mean, interval, sequence, ess, int(n), float(Z[est.LARGEST]), method, why)


class _Ordered:
    """Rows of one slice on their way to its sums, in the order of the rounds."""

    def __init__(self, sums: ValueSums) -> None:
        self._sums = sums
        self._sorted = RoundSorter(lambda rounds, *columns: sums.add(*columns), 0.0)

    def add(self, rows: Rows, target: NDArray[np.float64]) -> None:
        """Add rows with answers, and the target's probabilities."""
        wanted = np.broadcast_to(target, (len(rows), target.shape[1]))
        self._sorted.add(rows.rounds, rows.arms, rows.inverse(), rows.values, rows.losses, wanted)

    def finished(self) -> ValueSums:
        """Return the sums of all rows."""
        self._sorted.finish()
        return self._sums


@overload
def value(
    log: Log, target: Target, method: Method = ..., *, confidence: float = ..., clip: float = ...,
    bounds: tuple[float, float] = ..., between: tuple[int, int] | None = ..., by: None = ...,
    arms: Sequence[Arm] = ...,
) -> Value: ...  # fmt: skip


@overload
def value(
    log: Log, target: Target, method: Method = ..., *, confidence: float = ..., clip: float = ...,
    bounds: tuple[float, float] = ..., between: tuple[int, int] | None = ..., by: str | int,
    arms: Sequence[Arm] = ...,
) -> dict[Slice, Value]: ...  # fmt: skip


def value(
    log: Log,
    target: Target,
    method: Method = "dr",
    *,
    confidence: float = 0.95,
    clip: float = 20.0,
    bounds: tuple[float, float] = (0.0, 1.0),
    between: tuple[int, int] | None = None,
    by: By = None,
    arms: Sequence[Arm] = (),
) -> Value | dict[Slice, Value]:
    """Return the outcome of another way of choosing per decision.

    Rows count in the order of the rounds, as in `report`.

    Parameters
    ----------
    log, confidence, bounds, between, by, arms
        As in `report`. Every answered row needs the probability of what was played.
    target : str, int, mapping or function
        An arm; probabilities of arms; ``"uniform"``; or a function that takes a row, a
        `LoggedDecision`, and returns one of these. A function is called once a row.
    method : {"dr", "ips", "cips", "snips"}
        The estimator.
    clip : float, default 20
        The largest rho that clipped IPS lets count.

    Returns
    -------
    Value, or dict of Values
        With ``by``, by the value of the column or the first and last round of the block.

    Raises
    ------
    InvalidParameter
        At a row without a probability, or where the target plays what the log could not have.

    Examples
    --------
    >>> import bothworlds as bw
    >>> log = [{"arm": "AB"[t % 2], "reward": float(t % 4 > 0), "probability": 0.5}
    ...        for t in range(400)]
    >>> bw.inference.value(log, "A", method="ips").value
    0.5
    >>> bw.inference.value(log, {"A": 0.5, "B": 0.5}, method="snips").value
    0.75
    """
    owner = "inference.value"
    if method not in METHODS:
        raise invalid("method", owner, f"one of {', '.join(map(repr, METHODS))}", method)
    # Without an end, "cips" is "ips".
    clip = math.inf if clip == math.inf else positive("clip", clip, owner, "a number above 0")
    sure = read.checked_confidence(confidence, owner)
    by = checked_by(by, owner)
    reading = Reading(log, bounds, owner, between, arms)
    sums: dict[Any, _Ordered] = {}
    parts = sliced(reading, by)
    if not callable(target):
        parts = _known_arms(parts, target, reading)
    for key, rows in parts:
        told = rows.told()
        _refuse_without_probability(told, reading)
        wanted = target_rows(target, told, reading)
        sums.setdefault(key, _Ordered(ValueSums(clip, reading.bounds))).add(told, wanted)
    units = Units(reading.bounds, bool(reading.rewards))
    found = {key: each.finished().value(method, sure, units) for key, each in sums.items()}
    return found[None] if by is None else found


def _known_arms(parts: Any, target: object, reading: Reading) -> Any:
    """Yield the parts; where the target needs arms that were not named yet, read all first."""
    first = next(parts)
    needed = target if isinstance(target, dict) else [target]
    all_known = bool(first[1].whole.all()) and len(first[1]) > 0
    named = target != UNIFORM and all(arm in reading.names.place for arm in needed)
    if all_known or named:
        yield first
        yield from parts
    else:
        yield from [first, *parts]


def _refuse_without_probability(rows: Rows, reading: Reading) -> None:
    unknown = np.isnan(rows.probability)
    if unknown.any():
        at = int(np.flatnonzero(unknown)[0])
        where = f"row {int(rows.numbers[at])} of {reading.title}"
        expected = "known; policies such as ThompsonSampling have none"
        raise invalid("probability", where, expected, None)
