"""Record of a decision: the bytes that a token carries and the log keeps.

All that learning from a decision needs is in its record, however late the feedback comes.  The
layout, little-endian:

=========== ====== ================================================================
field       bytes  meaning
=========== ====== ================================================================
key         1      which token key signed it
experiment  4      the experiment's number in its deployment
epoch       2      how often the experiment was reset before
arm         2      index of the arm that was drawn
known       2      how many arms the experiment ever had by then
round       5      the round, from 1
id          16     UUIDv7: the decision's identity, and its millisecond
inverse_p   8      1 / the probability it was drawn with, a double
flags       1      see below
baseline    8      mean baseline, a double; only if some of the arms present are near
near        bits   one per known arm; only if some of the arms present are near
advice      4 + 4N see below; only if the experiment has N experts
present     bits   one per known arm; only if not all of them could be drawn
unit        8      keyed hash of the unit; only if there is one
carried     8 each what the policy carries with the decision, doubles; only if there are any
segment     12     id of the segment; only if there is one
=========== ====== ================================================================

Bits are in the order of `numpy.packbits`.  Flags: bits 0 and 1 state which arms are near (none, all
that are present, those of the mask) or that there is advice, bit 2 that there is a present mask,
bit 3 that there is a unit, bit 4 that the decision counts only once it is activated, bits 5 and 6
are the mode, bit 7 that there are carried numbers.  No bit is left for a segment: the length shows
whether there is one, as the other fields leave a multiple of 8 bytes.

Advice: a byte that counts the experts, a byte that is 1 if the arm drawn has a baseline, two bytes
with one bit per expert that was asleep, and for every expert two whole numbers of 16 bits: what
its advice gives to the arm that was drawn, and to all arms with a baseline, in parts of `PARTS`.
If any expert was asleep, two doubles follow: the weighted means of r and s of
`bothworlds.policies.advice`.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np

from bothworlds.omd.estimators import BASELINE

HEADER = struct.Struct("<BIHHHIB16sdB")
"""Everything before the optional fields; the round is its low 32 bits and its high 8."""
COLUMNS = np.dtype(
    [
        ("key", "u1"), ("experiment", "<u4"), ("epoch", "<u2"), ("arm", "<u2"), ("known", "<u2"),
        ("low", "<u4"), ("high", "u1"), ("id", "S16"), ("inverse_p", "<f8"), ("flags", "u1"),
    ]
)  # fmt: skip
"""The same as a row of an array, to read many records at once."""
DOUBLE = struct.Struct("<d")
_EPOCH_AND_ARM = struct.Struct("<5xHH")
PLACE = struct.Struct("<IH")
"""The experiment and the epoch, as `place` returns them."""
LINEAGE = struct.Struct("<IHH")
"""The experiment, the epoch and the number of known arms."""

# Offsets of what compiled code reads.
EPOCH, ARM, KNOWN, IDENTITY, INVERSE_P, FLAGS, END = 5, 7, 9, 16, 32, 40, 41
assert HEADER.size == COLUMNS.itemsize == END

NEAR_NONE, NEAR_ALL, NEAR_SOME, ADVISED = 0, 1, 2, 3
NEAR, PRESENT, UNIT, DEFERRED, MODE, CARRIED = 3, 4, 8, 16, 5, 128
"""Masks of the flags, and the shift of the mode."""
MOST_CARRIED = 16
"""How many numbers a policy may carry with a decision."""

UNIT_SIZE = 8
SEGMENT_SIZE = 12
SEGMENTED = END + SEGMENT_SIZE
"""Bytes that a record with a segment has at least; most are shorter, which costs no call."""

MODES = ("learn", "uniform", "pinned", "shadow")
"""Modes of decisions, by their number in the flags."""
LEARNABLE = ("learn", "uniform")
"""Modes in which every arm had a probability, so that there is something to learn."""
UNLEARNABLE_FROM = len(LEARNABLE)
"""Number of the first mode whose decisions teach nothing."""

ADVICE = struct.Struct("<BBH")
"""Head of advice: the experts, whether the arm has a baseline, and experts asleep."""
OWN = struct.Struct("<dd")
"""End of advice if an expert was asleep."""
PARTS = 65_535
"""Advice is a whole number of parts of so many."""
MOST_EXPERTS = 16

MOST_ARMS = 4096
MOST_ROUNDS = 2**40 - 1
LARGEST_INVERSE_P = 2.0**32
"""Beyond it one feedback could outweigh all other feedback of an experiment."""


def mode_number(flags: Any) -> Any:
    """Return the number of the mode in flags, or in an array of them."""
    return (flags & CARRIED - 1) >> MODE


class Record(NamedTuple):
    """A decision, decoded; the fields are those of the layout.

    ``near`` and ``present`` are masks as bytes, None where there is none; with experts, ``near`` is
    their advice.
    """

    key: int
    experiment: int
    epoch: int
    arm: int
    known: int
    round: int
    id: bytes
    inverse_p: float
    flags: int
    baseline: float
    near: bytes | None
    present: bytes | None
    unit: bytes | None
    carried: bytes
    segment: bytes

    @property
    def mode(self) -> str:
        """Mode of the decision."""
        return MODES[mode_number(self.flags)]

    @property
    def learnable(self) -> bool:
        """Whether its feedback can be learned from."""
        return bool(mode_number(self.flags) < UNLEARNABLE_FROM)

    @property
    def deferred(self) -> bool:
        """Whether it counts only once it is activated."""
        return bool(self.flags & DEFERRED)

    @property
    def experts(self) -> int:
        """How many experts advised it; 0 if the experiment has none, or their advice is unused."""
        return self.near[0] if self.near and self.flags & NEAR == ADVISED else 0

    @property
    def advice(self) -> list[float | None]:
        """Probability of the arm in the advice of every expert; None for one that was asleep."""
        if not self.near or not self.experts:
            return []
        count, _, asleep = ADVICE.unpack_from(self.near)
        parts = struct.unpack_from(f"<{2 * count}H", self.near, ADVICE.size)[::2]
        return [None if asleep >> j & 1 else each / PARTS for j, each in enumerate(parts)]

    @property
    def at(self) -> float:
        """Time of the decision, in seconds since 1970."""
        return made_at(self.id)


def made_at(id: bytes) -> float:
    """Return the moment that an identity names, in seconds since 1970."""
    return int.from_bytes(id[:6], "big") / 1000.0


def encode(
    key: int,
    experiment: int,
    epoch: int,
    arm: int,
    known: int,
    round: int,
    id: bytes,
    inverse_p: float,
    flags: int,
    baseline: float = 0.0,
    near: bytes = b"",
    present: bytes = b"",
    unit: bytes = b"",
    carried: bytes = b"",
    segment: bytes = b"",
) -> bytes:
    """Return a decision as bytes; ``flags`` states which optional fields are present.

    Examples
    --------
    >>> raw = encode(1, 7, 0, 2, 8, 41, bytes(16), 4.0, NEAR_ALL)
    >>> len(raw), decode(raw).round, decode(raw).baseline
    (41, 41, 0.5)
    """
    head = HEADER.pack(
        key, experiment, epoch, arm, known, round & 0xFFFFFFFF, round >> 32, id, inverse_p, flags
    )
    kind = flags & NEAR
    if kind == NEAR_SOME:
        return head + DOUBLE.pack(baseline) + near + present + unit + carried + segment
    if kind == ADVISED:
        return head + near + present + unit
    more = flags & (PRESENT | UNIT | CARRIED) or segment
    return head + present + unit + carried + segment if more else head


def encode_advice(
    near: bool, asleep: int, parts: bytes, own: tuple[float, float] = (0.0, 0.0)
) -> bytes:
    """Return advice as bytes; ``asleep`` has one bit per expert, ``parts`` four bytes.

    Examples
    --------
    >>> advice = encode_advice(False, 2, struct.pack("<4H", 65535, 0, 0, 0), (1.0, 0.0))
    >>> decode(encode(1, 7, 0, 2, 8, 41, bytes(16), 4.0, ADVISED, near=advice)).advice
    [1.0, None]
    """
    head = ADVICE.pack(len(parts) // 4, near, asleep)
    return head + parts + OWN.pack(*own) if asleep else head + parts


def epoch_and_arm(raw: bytes) -> tuple[int, int]:
    """Return two fields of a record that is one."""
    epoch, arm = _EPOCH_AND_ARM.unpack_from(raw)
    return epoch, arm


def place(raw: bytes) -> bytes:
    """Return experiment and epoch of a record that is one, as they stand there.

    Examples
    --------
    >>> PLACE.unpack(place(encode(1, 7, 3, 2, 8, 41, bytes(16), 4.0, NEAR_ALL)))
    (7, 3)
    """
    return raw[1:ARM]


def segment_of(raw: bytes) -> bytes:
    """Return the segment of a record; no bytes if it has none, or is no record.

    Examples
    --------
    >>> raw = encode(1, 7, 3, 2, 8, 41, bytes(16), 4.0, NEAR_ALL, segment=b"twelve bytes")
    >>> segment_of(raw), segment_of(raw[:-12])
    (b'twelve bytes', b'')
    """
    if len(raw) < SEGMENTED:
        return b""
    try:
        return decode(raw).segment
    except ValueError:
        return b""


def decode(raw: bytes) -> Record:
    """Return the decision that `encode` wrote.

    Raises
    ------
    ValueError
        If the bytes are no record.
    """
    if len(raw) < END:
        raise ValueError("a record that is too short")
    key, experiment, epoch, arm, known, low, high, id, inverse_p, flags = HEADER.unpack_from(raw)
    at = END
    near: bytes | None = None
    present: bytes | None = None
    unit: bytes | None = None
    kind = flags & NEAR
    baseline = BASELINE if kind == NEAR_ALL else 0.0
    size = (known + 7) // 8
    if kind == NEAR_SOME:
        near = raw[at + 8 : at + 8 + size]
        if len(near) == size:
            baseline = DOUBLE.unpack_from(raw, at)[0]
        at += 8 + size
    elif kind == ADVISED:
        if len(raw) < at + ADVICE.size:
            raise ValueError("a record that is too short")
        count, _, asleep = ADVICE.unpack_from(raw, at)
        whole = ADVICE.size + 4 * count + (OWN.size if asleep else 0)
        near = raw[at : at + whole]
        at += whole if 1 <= count <= MOST_EXPERTS and asleep >> count == 0 else len(raw)
    if flags & PRESENT:
        present = raw[at : at + size]
        at += size
    if flags & UNIT:
        unit = raw[at : at + UNIT_SIZE]
        at += UNIT_SIZE
    end = len(raw)
    segment = b""
    if (end - at) % 8:
        end -= SEGMENT_SIZE
        segment = raw[end:]
    carried = raw[at:end] if flags & CARRIED else b""
    left = end - at - len(carried)
    numbers = not flags & CARRIED or (carried and len(carried) % 8 == 0)
    if left or arm >= known or not numbers:
        raise ValueError("a record whose parts do not fit together")
    # Built as the class itself would, without its call.
    return tuple.__new__(
        Record,
        (
            key, experiment, epoch, arm, known, low | high << 32, id, inverse_p, flags, baseline,
            near, present, unit, carried, segment,
        ),
    )  # fmt: skip
