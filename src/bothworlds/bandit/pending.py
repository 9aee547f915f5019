"""Pending decisions: what a bandit remembers of each until its feedback comes.

Feedback is weighted with the probabilities at decision time, however late.  An estimator needs
little of them: the probability of the played arm, one bit per arm for the baseline, and the mean
of the baselines for arms that were not there.  No distribution and no state is kept, so a
thousand pending decisions over a thousand arms take a few hundred kilobytes.

`bothworlds.policies.late` writes and reads these notes; here they are kept, and go to and from a
state file.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bothworlds.arguments import is_whole
from bothworlds.bandit.decision import Lineup
from bothworlds.bandit.reading import bits, listed, number, record, text, truth, whole
from bothworlds.errors import DecisionClosed, InvalidParameter, must
from bothworlds.omd.estimators import BASELINE
from bothworlds.policies.base import LARGEST, Array, Policy
from bothworlds.policies.late import CARRIED, INVERSE_P, MEAN_BASELINE
from bothworlds.policies.late import width as width

LONGEST_KEY = 1000
"""How many characters the key of a decision may have."""

Entry = tuple[int, bytes, Lineup, float, Array | None]
"""Place of the drawn arm in its lineup, the notes of `policies.late`, the lineup, the time, and
what `bothworlds.bandit.account` notes."""


class Notes:
    """The notes of decisions made in one go, of consecutive rounds."""

    __slots__ = ("evidence", "first", "lineup", "slots", "table", "time")

    def __init__(
        self,
        first: int,
        slots: NDArray[np.int64],
        table: Array,
        lineup: Lineup,
        time: float,
        evidence: Array | None,
    ) -> None:
        self.first = first
        self.slots = slots
        self.table = table
        self.lineup = lineup
        self.time = time
        self.evidence = evidence

    def are(self, numbers: Sequence[int], ledger: dict[int, Any]) -> bool:
        """Tell whether these rounds are those of all the decisions noted here, still pending."""
        if type(numbers) is not range or numbers != range(self.first, self.first + len(self.slots)):
            return False
        if len(ledger) == len(numbers):
            # A ledger is in the order of its rounds: so many of them in the range are all of it.
            return (next(iter(ledger)), next(reversed(ledger))) == (numbers[0], numbers[-1])
        return all(map(ledger.__contains__, numbers))

    def entry(self, decided: int) -> Entry:
        """Return what is kept of the decision of a round."""
        place = decided - self.first
        noted = None if self.evidence is None else self.evidence[place]
        raw = self.table[place].tobytes()
        return int(self.slots[place]), raw, self.lineup, self.time, noted


def time_of(kept: Entry | Notes) -> float:
    """Return when a decision was made, in seconds since 1970."""
    return kept.time if isinstance(kept, Notes) else kept[3]


def inverse_p_of(entry: Entry) -> float:
    """Return 1 / the probability of the arm that was drawn."""
    return float(np.frombuffer(entry[1], count=1, offset=8 * INVERSE_P)[0])


def document_of(decided: int, entry: Entry, policy: Policy, known: int) -> dict[str, Any]:
    """Return an entry as JSON values; ``known`` is how many arms the bandit has ever had."""
    slot, raw, lineup, _, _ = entry
    numbers = np.frombuffer(raw)
    carried = CARRIED + policy.traits.carried_rows
    near = raw[8 * carried :].ljust((known + 7) // 8, b"\0")[: (known + 7) // 8]
    everyone = len(lineup.indices) == known
    return {
        "id": decided,
        "arm": lineup.indices[slot],
        "inverse_p": float(numbers[INVERSE_P]),
        "known": known,
        "present": None if everyone else text(packed(lineup.index_array, known)),
        "near": text(near) if any(near) else None,
        "mean_baseline": float(numbers[MEAN_BASELINE]),
        "carried": numbers[CARRIED:carried].tolist(),
    }


def entry_of(
    value: object, policy: Policy, current: Lineup, known: int, newest: int, time: float
) -> tuple[int, Entry]:
    """Return the round and the entry that `document_of` described.

    ``current`` are the arms of the bandit now, ``known`` is how many it has ever had, ``newest``
    its last round and ``time`` when the decision was made.
    """
    given = record(value, "pending")
    then = whole(given["known"], "known", 1, known)
    played = whole(given["arm"], "arm", 0, then - 1)
    present = bits(given["present"], "present", then)
    near = bits(given["near"], "near", then)
    there = unpacked(present, then)
    if not there[played]:
        raise ValueError("a pending arm that was not there")
    if near is not None and (unpacked(near, then) & ~there).any():
        raise ValueError("near arms that were not there")
    # Rounding may leave a probability a little above 1; 0 stands for an unknown one.
    inverse_p = number(given["inverse_p"], "inverse_p", 0.0, LARGEST)
    if inverse_p < 1.0 - 1e-9 and (inverse_p != 0.0 or policy.traits.estimates):
        raise ValueError("an inverse_p below 1")
    carried = listed(given["carried"], "carried")
    if len(carried) != policy.traits.carried_rows:
        raise ValueError("carried numbers of another policy")
    notes = np.zeros(width(policy, policy.program(len(current.indices)), then))
    notes[INVERSE_P] = inverse_p
    notes[MEAN_BASELINE] = number(given["mean_baseline"], "mean_baseline", 0.0, BASELINE + 1e-9)
    for row, (each, kind) in enumerate(zip(carried, policy.traits.saved_carried, strict=True)):
        notes[CARRIED + row] = number(each, kind.name, kind.low, kind.high)
    marks = notes[CARRIED + policy.traits.carried_rows :].view(np.uint8)
    if near is not None:
        if marks.size < len(near):
            raise ValueError("near arms of another policy")
        marks[: len(near)] = np.frombuffer(near, np.uint8)
    lineup = current
    indices = np.flatnonzero(there)
    if not np.array_equal(np.sort(current.index_array), indices):
        # Nothing is asked of these arms but which they were.
        lineup = Lineup(current.origin, (), tuple(indices.tolist()), None)
    slot = lineup.indices.index(played)
    return whole(given["id"], "id", 1, newest), (slot, notes.tobytes(), lineup, time, None)


class About(NamedTuple):
    """What a state file says of a pending decision besides what learning needs."""

    time: float
    learn: bool
    key: str | None
    probabilities: list[float] | None


def about_of(value: object, loaded: float) -> About:
    """Return what a state file says of a pending decision.

    Files of old have no time; such decisions were made, for all one knows, when they were loaded.
    """
    given = record(value, "pending")
    key, shares = given.get("key"), given.get("probabilities")
    if key is not None and not is_key(key):
        raise ValueError("a key that is none")
    if shares is not None:
        shares = [
            number(each, "probabilities", 0.0, 1.0) for each in listed(shares, "probabilities")
        ]
        if abs(sum(shares) - 1.0) > 1e-6:
            raise ValueError("probabilities that do not sum to 1")
    time = loaded if "time" not in given else number(given["time"], "time", 0.0, LARGEST)
    return About(time, truth(given.get("learn", True), "learn"), key, shares)


def checked_age(older_than: object, owner: str) -> int | timedelta:
    """Return the age at which decisions expire, in rounds or in time."""
    if isinstance(older_than, timedelta) and older_than >= timedelta(0):
        return older_than
    if not is_whole(older_than) or older_than < 0:
        expected = "a whole number of rounds >= 0 or a timedelta that is not negative"
        raise InvalidParameter(must("older_than", owner, expected, older_than))
    return int(older_than)


def checked_key(key: object, owner: str) -> None:
    """Refuse what cannot be the key of a decision."""
    if not is_key(key):
        expected = f"a text of 1 to {LONGEST_KEY} characters"
        raise InvalidParameter(must("key", owner, expected, key))


def is_key(key: object) -> bool:
    """Return whether this can be the key of a decision."""
    return type(key) is str and 0 < len(key) <= LONGEST_KEY


def closed(parameter: str, owner: str, decided: int) -> DecisionClosed:
    """Return the error for feedback that comes once too often or too late.

    Examples
    --------
    >>> print(closed("decision", "Bandit.tell", 3))
    The decision of Bandit.tell must be pending, got 3, already told or expired.
    """
    reason = "already told or expired"
    return DecisionClosed(f"The {parameter} of {owner} must be pending, got {decided}, {reason}.")


def packed(indices: NDArray[np.intp], known: int) -> bytes:
    """Return one bit per known arm, set for ``indices``.

    Examples
    --------
    >>> unpacked(packed(np.array([0, 9]), 10), 10).nonzero()[0].tolist()
    [0, 9]
    """
    flags = np.zeros(known, np.bool_)
    flags[indices] = True
    return np.packbits(flags).tobytes()


def unpacked(raw: bytes | None, known: int) -> NDArray[np.bool_]:
    """Return the bits of the known arms; None stands for all of them set."""
    if raw is None:
        return np.ones(known, np.bool_)
    return np.unpackbits(np.frombuffer(raw, np.uint8), count=known).view(np.bool_)
