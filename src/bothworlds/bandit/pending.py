"""Pending decisions: what a bandit remembers of each until its feedback comes.

Feedback is weighted with the probabilities at decision time, however late.  An estimator needs
little of them: the probability of the played arm, one bit per arm for the baseline, and the mean
of the baselines for arms that were not there.  No distribution and no state is kept, so a
thousand pending decisions over a thousand arms take a few hundred kilobytes.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bothworlds.bandit.reading import bits, listed, number, record, text, whole
from bothworlds.bandit.state import changeable_columns, first_row
from bothworlds.errors import DecisionClosed, InvalidParameter, must
from bothworlds.lanes.kernels import ROUND
from bothworlds.omd.estimators import BASELINE
from bothworlds.policies.base import LARGEST, Array, Policy

Flags = NDArray[np.bool_]
Indices = NDArray[np.intp]


class Pending(NamedTuple):
    """A decision that is no longer the bandit's last one, waiting for feedback."""

    played: int
    """Index of the arm."""
    inverse_p: float
    """1 / its probability then."""
    round: int
    """The round of the decision."""
    known: int
    """How many arms the bandit had ever had; later ones were not there."""
    present: bytes | None
    """Bits of the arms that could be drawn; None means all of the known."""
    near: bytes | None
    """Bits of the arms whose estimates get a baseline; None means no arm."""
    mean_baseline: float
    """sum_j w_j B_j over the arms that could be drawn."""
    memo: bytes
    """State rows the policy's choice left for its update."""

    def present_at(self, indices: Indices) -> Flags:
        """Return which of the arms could be drawn."""
        return indices < self.known if self.present is None else unpacked(self.present, indices)

    def near_at(self, indices: Indices) -> Flags:
        """Return which of the arms get a baseline."""
        return (
            np.zeros(indices.size, np.bool_) if self.near is None else unpacked(self.near, indices)
        )

    def document(self) -> dict[str, Any]:
        """Return the entry as JSON values."""
        return {
            "id": self.round,
            "arm": self.played,
            "inverse_p": self.inverse_p,
            "known": self.known,
            "present": None if self.present is None else text(self.present),
            "near": None if self.near is None else text(self.near),
            "mean_baseline": self.mean_baseline,
            "carried": np.frombuffer(self.memo).tolist(),
        }

    @classmethod
    def from_document(cls, value: object, policy: Policy, known: int, newest: int) -> Pending:
        """Return the entry that `document` described.

        ``known`` is how many arms the bandit has ever had, ``newest`` its last round.
        """
        given = record(value, "pending")
        known = whole(given["known"], "known", 1, known)
        played = whole(given["arm"], "arm", 0, known - 1)
        present = bits(given["present"], "present", known)
        near = bits(given["near"], "near", known)
        there = np.ones(known, np.bool_) if present is None else unpacked(present, np.arange(known))
        if not there[played]:
            raise ValueError("a pending arm that was not there")
        if near is not None and (unpacked(near, np.arange(known)) & ~there).any():
            raise ValueError("near arms that were not there")
        # Rounding may leave a probability a little above 1; 0 stands for an unknown one.
        inverse_p = number(given["inverse_p"], "inverse_p", 0.0, LARGEST)
        if inverse_p < 1.0 - 1e-9 and (inverse_p != 0.0 or policy.estimates):
            raise ValueError("an inverse_p below 1")
        carried = listed(given["carried"], "carried")
        kinds = policy.saved_carried
        if len(carried) != policy.carried_rows:
            raise ValueError("carried numbers of another policy")
        values = [
            number(each, kind.name, kind.low, kind.high)
            for each, kind in zip(carried, kinds, strict=True)
        ]
        return cls(
            played,
            inverse_p,
            whole(given["id"], "id", 1, newest),
            known,
            present,
            near,
            number(given["mean_baseline"], "mean_baseline", 0.0, BASELINE + 1e-9),
            np.array(values, np.float64).tobytes(),
        )


def note(policy: Policy, F: Array, indices: Indices, place: int, known: int) -> Pending:
    """Return what a late tell will need of the decision just drawn from ``F``.

    ``indices`` are those of the arms in ``F``, ``place`` is the drawn one's place among them.
    """
    kernels = policy.for_arms(indices.size).kernels()
    start = first_row(F)
    near = None
    mean_baseline = 0.0
    if kernels.near is not None:
        flags = np.zeros(indices.size, np.bool_)
        kernels.near(F, flags)
        if flags.any():
            w = np.empty(indices.size)
            kernels.weights(F, w)
            mean_baseline = BASELINE * float(w[flags].sum())
            near = packed(indices[flags], known)
    return Pending(
        played=int(indices[place]),
        inverse_p=float(F[start]),
        round=int(F[ROUND]),
        known=known,
        present=None if indices.size == known else packed(indices, known),
        near=near,
        mean_baseline=mean_baseline,
        memo=F[start + 1 : start + 1 + policy.carried_rows].tobytes(),
    )


def learn_late(
    policy: Policy, F: Array, indices: Indices, slot: int, entry: Pending, loss: float
) -> None:
    """Learn from a decision of the past.

    ``indices`` are those of the arms now in ``F``, ``slot`` is the played one's place among them,
    negative if the arm has been retired.
    """
    kernels = policy.for_arms(indices.size).kernels()
    now = F[ROUND]
    F[ROUND] = entry.round
    if kernels.late is None:
        memo = first_row(F) + 1
        F[memo : memo + policy.carried_rows] = np.frombuffer(entry.memo)
        kernels.tell(F, slot, entry.inverse_p, loss)
    elif slot >= 0:
        kernels.late(F, slot, entry.inverse_p, loss, entry.near_at(indices))
    else:
        changeable_columns(F, policy)[0] += BASELINE * entry.near_at(indices)
    F[ROUND] = now
    away = ~entry.present_at(indices)
    learns_away = policy.estimates and away.any()
    if learns_away:
        # The algorithm's own estimated loss, sum_j w_j lhat_j = l - B_I + sum_j w_j B_j.
        baseline = BASELINE * float(entry.near_at(np.array([entry.played]))[0])
        changeable_columns(F, policy)[0, away] += loss - baseline + entry.mean_baseline
    if kernels.estimates_changed is not None and (learns_away or slot < 0):
        kernels.estimates_changed(F)


def checked_age(older_than: object, owner: str) -> int:
    """Return the number of rounds after which decisions expire."""
    if not isinstance(older_than, Integral) or isinstance(older_than, bool) or older_than < 0:
        expected = "a whole number of rounds >= 0"
        raise InvalidParameter(must("older_than", owner, expected, older_than))
    return int(older_than)


def closed(parameter: str, owner: str, number: int) -> DecisionClosed:
    """Return the error for feedback that comes once too often or too late.

    Examples
    --------
    >>> print(closed("decision", "Bandit.tell", 3))
    The decision of Bandit.tell must be pending, got 3, already told or expired.
    """
    reason = "already told or expired"
    return DecisionClosed(f"The {parameter} of {owner} must be pending, got {number}, {reason}.")


def packed(indices: Indices, known: int) -> bytes:
    """Return one bit per known arm, set for ``indices``.

    Examples
    --------
    >>> unpacked(packed(np.array([0, 9]), 10), np.array([0, 1, 9, 70])).tolist()
    [True, False, True, False]
    """
    flags = np.zeros(known, np.bool_)
    flags[indices] = True
    return np.packbits(flags).tobytes()


def unpacked(bits: bytes, wanted: Indices) -> Flags:
    """Return the bits of the ``wanted`` arms; arms beyond the bits have none set."""
    flags = np.unpackbits(np.frombuffer(bits, np.uint8)).view(np.bool_)
    return np.where(wanted < flags.size, flags.take(wanted, mode="clip"), False)
