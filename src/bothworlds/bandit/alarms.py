"""Drift alarm of a bandit: it reports changes of the arms' losses and never acts.

`bothworlds.policies.alarm` has the test, and the layout of the array that holds everything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from bothworlds.bandit.decision import Arm
from bothworlds.bandit.state_file import listed, many, record, whole
from bothworlds.lanes.direct import direct
from bothworlds.policies import alarm
from bothworlds.policies.base import Array, Saved, Sounded

CONFIDENCE = 0.99
"""Confidence that an alarm requires."""

_SUMS = Saved("sums", low=0.0, high=2.0**53)


@dataclass(frozen=True)
class Alarm:
    """A change of an arm's losses, as `Bandit.alarms` reports it.

    Attributes
    ----------
    arm : str or int
        The arm whose losses have changed.
    round : int
        The decision whose feedback raised the alarm.
    confidence : float
        1 minus the probability of a false alarm in a whole run with the threshold that this alarm
        reached.
    before, after : float
        The mean outcome of the arm before and after, in the user's units: rewards or losses.
    since : int
        How many times the arm has had feedback since the change, as far as is known.
    kind : {"change", "level", "side"}
        "change" is reported only. `AllWorlds` acts on its own alarms: "level", the losses of its
        leader have changed and it has restarted softly; "side", those of another arm.
    """

    arm: Arm
    round: int
    confidence: float
    before: float
    after: float
    since: int
    kind: Literal["change", "level", "side"] = "change"


def confidence(n_arms: int, observed: float, statistic: float) -> float:
    """Return 1 minus the probability of a false alarm in a whole run at such a threshold."""
    doubt = alarm.threshold(math.log(2.0 * n_arms), observed) - statistic
    return abs(math.expm1(min(doubt, 0.0)))


def acted_on(
    sounded: Sequence[Sounded], names: Sequence[Arm], value: Callable[[float], float]
) -> list[Alarm]:
    """Return alarms by the names of the arms; ``value`` turns a loss in [0, 1] into their units."""
    return [
        Alarm(
            names[int(each.slot)],
            int(each.round),
            confidence(len(names), each.observed, each.statistic),
            value(each.before),
            value(each.after),
            int(each.observed - each.cut),
            each.kind,
        )
        for each in sounded
    ]


class Alarms:
    """The losses of all arms in dyadic sums, and the alarms so far."""

    __slots__ = ("A", "_hear")

    def __init__(self, n_arms: int) -> None:
        self.A = np.zeros(alarm.TESTS + alarm.FIELDS * n_arms)
        self.A[alarm.ARMS] = n_arms
        self.A[alarm.LOG_FACTOR] = math.log(2.0 * n_arms / (1.0 - CONFIDENCE))
        self._hear: Any = None

    @property
    def n_arms(self) -> int:
        """How many arms there are or were."""
        return int(self.A[alarm.ARMS])

    def hear(self, index: int, loss: float, number: int) -> None:
        """Add the loss of a decision of round ``number``."""
        if self._hear is None:
            self._hear = direct(alarm.hear, self.A, 0, 0.0, 0)
        self._hear(self.A, index, loss, number)

    def hear_all(self, indices: NDArray[Any], losses: Array, rounds: NDArray[np.int64]) -> None:
        """Add the losses of decisions of the past, in this order."""
        alarm.hear_all(self.A, indices.astype(np.int64), np.ascontiguousarray(losses), rounds)

    def _records(self) -> Array:
        """Return the records of the latest alarms, the oldest first."""
        total = int(self.A[alarm.HEARD])
        table = self.A[alarm.RECORDS : alarm.TESTS].reshape(alarm.MOST, alarm.RECORD)
        return table[[n % alarm.MOST for n in range(max(0, total - alarm.MOST), total)]]

    def heard(self, names: Sequence[Arm], value: Callable[[float], float]) -> list[Alarm]:
        """Return the latest alarms; ``value`` turns a loss in [0, 1] into the user's units."""
        # A record has the numbers of `Sounded`, in their order.
        return acted_on(
            [Sounded("change", *each) for each in self._records().tolist()], names, value
        )

    def grown(self, n_arms: int) -> Self:
        """Return the same with room for more arms."""
        K = self.n_arms
        made = type(self)(n_arms)
        made.A[alarm.HEARD : alarm.TESTS] = self.A[alarm.HEARD : alarm.TESTS]
        made.A[alarm.TESTS : alarm.TESTS + alarm.FIELDS * K] = self.A[alarm.TESTS :]
        return made

    def copy(self) -> Self:
        """Return an independent one of the same content."""
        made = type(self).__new__(type(self))
        made.A, made._hear = self.A.copy(), self._hear
        return made

    def document(self) -> dict[str, Any]:
        """Return the alarms as JSON values, with the levels of the sums that are in use."""
        tests = self.A[alarm.TESTS :].reshape(-1, alarm.FIELDS)
        used = int(np.flatnonzero(tests.any(axis=0)).max(initial=alarm.SUM)) + 1
        return {
            "heard": int(self.A[alarm.HEARD]),
            "records": self._records().ravel().tolist(),
            "sums": tests[:, :used].ravel().tolist(),
        }

    @classmethod
    def from_document(cls, value: Any, n_arms: int) -> Self:
        """Return the alarms that `document` described."""
        document = record(value, "alarms")
        made = cls(n_arms)
        total = made.A[alarm.HEARD] = whole(document["heard"], "heard", 0, 2**53)
        kept = min(total, alarm.MOST)
        numbers = many(listed(document["records"], "records"), _SUMS, kept * alarm.RECORD)
        rows = numbers.reshape(kept, alarm.RECORD)
        arms, cuts, observed = rows[:, alarm.ARM], rows[:, alarm.CUT], rows[:, alarm.OBSERVED]
        if (arms >= n_arms).any() or (rows[:, [alarm.ARM, alarm.ROUND, alarm.CUT]] % 1).any():
            raise ValueError("alarms of other arms")
        if not ((cuts >= 1) & (cuts < observed)).all():
            raise ValueError("impossible alarms")
        table = made.A[alarm.RECORDS : alarm.TESTS].reshape(alarm.MOST, alarm.RECORD)
        table[[n % alarm.MOST for n in range(total - kept, total)]] = rows
        sums = listed(document["sums"], "sums")
        if len(sums) % n_arms or len(sums) > alarm.FIELDS * n_arms:
            raise ValueError("sums and arms differ in number")
        tests = made.A[alarm.TESTS :].reshape(n_arms, alarm.FIELDS)
        tests[:, : len(sums) // n_arms] = many(sums, _SUMS, len(sums)).reshape(n_arms, -1)
        if (tests[:, alarm.COUNT] % 1).any():
            raise ValueError("losses that are not counted by whole numbers")
        return made
