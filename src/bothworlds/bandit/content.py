"""Content of a bandit's state file: a `Core` and its pending decisions as JSON values.

A file may contain anything, also with a valid checksum.  Every number is validated by
`bothworlds.bandit.state_file` before compiled code reads it.
"""

from __future__ import annotations

import contextlib
from time import time as now
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothworlds.arguments import checked_bounds
from bothworlds.bandit.arms import Roster
from bothworlds.bandit.core import Core
from bothworlds.bandit.decision import NOT_COPIED, Decision, Lineup, decided
from bothworlds.bandit.evidence_keeper import EvidenceKeeper
from bothworlds.bandit.feedback import UNBOUNDED, FeedbackUnits
from bothworlds.bandit.pending import Keys, Pending, is_key, pending, width
from bothworlds.bandit.state import generator, rebuilt, saved
from bothworlds.bandit.state_file import (
    LARGEST_WHOLE,
    bits,
    brief,
    listed,
    many,
    number,
    record,
    text,
    truth,
    whole,
)
from bothworlds.errors import DecisionClosed
from bothworlds.lanes.random import WORDS
from bothworlds.omd.estimators import BASELINE
from bothworlds.policies.base import LARGEST, Policy, Saved
from bothworlds.policies.late import CARRIED, INVERSE_P, MEAN_BASELINE
from bothworlds.seeding import checked_seed


def content_of(core: Core, keys: Keys, units: FeedbackUnits) -> dict[str, Any]:
    """Return everything but the policy as JSON values."""
    entries = {number: core.ledger[number] for number in core.ledger.records}
    if core.fresh:
        entries[core.fresh] = core.noted()
    known = len(core.roster.names)
    single = {each.name for each in core.policy.traits.saved_head.values()}
    return {
        "seed": core.seed,
        "bounds": None if units.bounds == UNBOUNDED else list(units.bounds),
        "round": core.round,
        "generator": generator(core.F).view(np.uint64).tolist(),
        "arms": core.roster.document(),
        "numbers": {
            name: float(rows[0]) if name in single else brief(rows)
            for name, rows in saved(core.F, core.policy).items()
        },
        "pending": [
            pending_document(number, each, core.policy, known) | _about_document(number, each, keys)
            for number, each in entries.items()
        ],
        "clip": units.clip,
        "clipped": units.clipped,
        "frozen": core.frozen,
        "rewards": units.rewards,
        "evidence": core.keeper.document(
            {number: each.evidence for number, each in entries.items()}
        ),
    }


def core_of(policy: Policy, document: dict[str, Any]) -> tuple[Core, Keys, FeedbackUnits]:
    """Return the core, the keys and the units that `content_of` described."""
    limited = document["bounds"] is not None
    if not limited and not policy.traits.unbounded:
        raise ValueError("no bounds for a policy that needs them")
    roster = Roster.from_document(document["arms"], limited)
    n_arms, known = len(roster.slots), len(roster.names)
    newest = whole(document["round"], "round", 0, LARGEST_WHOLE)
    waiting = listed(document["pending"], "pending")
    if sum(roster.told) + sum(roster.dropped) + len(waiting) != newest:
        raise ValueError("another number of decisions than rounds")
    words = [
        whole(word, "generator", 0, 2**64 - 1)
        for word in listed(document["generator"], "generator")
    ]
    if len(words) != WORDS or not any(words):
        raise ValueError("a generator state of the wrong shape")
    numbers = {
        name: many([given] if n is None else given, kind, 1 if n is None else n)
        for name, (kind, n) in policy.saved_shape(n_arms).items()
        for given in [_given(document, kind, n)]
    }
    seed = checked_seed(document["seed"], "Bandit")
    F = rebuilt(policy, n_arms, newest, np.array(words, np.uint64).view(np.int64), numbers)
    core = Core(policy, roster, seed, F, EvidenceKeeper(known, False), crossed=True)
    keys = Keys()
    loaded = now()
    records: dict[int, Pending] = {}
    for value in waiting:
        decided_in, entry = _pending_of(record(value, "pending"), core, newest, loaded)
        if decided_in in records:
            raise ValueError("a decision that is pending twice")
        records[decided_in] = entry
        key, shares = value.get("key"), _shares(value)
        if key is not None:
            if not is_key(key):
                raise ValueError("an invalid key")
            if key in keys.decisions:
                raise ValueError("a key of two decisions")
            keys.add(key, decided_in, reopened(core, decided_in, entry, key, shares))
    core.frozen = whole(document.get("frozen", 0), "frozen", 0, newest + 1)
    # Files written before evidence was kept have none.
    wanted = "evidence" not in document and policy.traits.floored and limited
    core.keeper, noted = EvidenceKeeper.from_document(
        document.get("evidence"), known, set(records), newest, wanted
    )
    core.in_order()
    for decided_in in sorted(records):
        entry = core.ledger.records[decided_in] = records[decided_in]
        entry.evidence = noted.get(decided_in)
    units = FeedbackUnits(
        checked_bounds(document["bounds"]) if limited else UNBOUNDED,
        truth(document.get("clip", False), "clip"),
        whole(document.get("clipped", 0), "clipped", 0, LARGEST_WHOLE),
        document.get("rewards", False) is True,
    )
    return core, keys, units


def reopened(
    core: Core, number: int, entry: Pending, key: str | None, shares: list[float] | None
) -> Decision:
    """Return the decision of a pending record that came from a file."""
    lineup, names, index = entry.lineup, core.roster.names, entry.arm_index
    decision = decided(
        names[index], index, number, entry.inverse_p, NOT_COPIED, core.lineup, entry.time
    )
    decision._key = key
    if shares is not None:
        if len(shares) != len(lineup.indices):
            raise ValueError("probabilities of other arms")
        there = [names[place] for place in lineup.indices]
        decision._set_probabilities(dict(zip(there, shares, strict=True)))
    elif not core.policy.traits.knows_probability:
        decision._snapshot = None
    return decision


def _given(document: dict[str, Any], kind: Saved, n: int | None) -> Any:
    """Return a number of the policy; older files lack those that are optional."""
    numbers = record(document["numbers"], "numbers")
    if kind.optional and kind.name not in numbers:
        return [0.0] * (n or 1)
    return numbers[kind.name]


# --- pending decisions ---------------------------------------------------------------------------


def pending_document(decided: int, entry: Pending, policy: Policy, known: int) -> dict[str, Any]:
    """Return the numbers of a pending decision that learning needs; ``known`` arms ever existed."""
    raw, lineup = entry.notes, entry.lineup
    numbers = np.frombuffer(raw)
    carried = CARRIED + policy.traits.carried_rows
    near = raw[8 * carried :].ljust((known + 7) // 8, b"\0")[: (known + 7) // 8]
    everyone = len(lineup.indices) == known
    return {
        "id": decided,
        "arm": entry.arm_index,
        "inverse_p": float(numbers[INVERSE_P]),
        "known": known,
        "present": None if everyone else text(packed(lineup.index_array, known)),
        "near": text(near) if any(near) else None,
        "mean_baseline": float(numbers[MEAN_BASELINE]),
        "carried": numbers[CARRIED:carried].tolist(),
    }


def _about_document(decided: int, entry: Pending, keys: Keys) -> dict[str, Any]:
    """Return the rest of a pending decision: all but the numbers that learning needs."""
    about: dict[str, Any] = {"time": entry.time}
    if not entry.learn:
        about["learn"] = False
    key = keys.of.get(decided)
    if key is not None:
        about["key"] = key
        with contextlib.suppress(DecisionClosed):
            known = keys.decisions[key].probabilities
            about["probabilities"] = None if known is None else list(known.values())
    return about


def _pending_of(
    given: dict[str, Any], core: Core, newest: int, loaded: float
) -> tuple[int, Pending]:
    """Return the round and the record of a pending decision.

    ``newest`` is the last round. Older files have no timestamps; the time ``loaded`` is used.
    """
    policy, current, known = core.policy, core.lineup, len(core.roster.names)
    then = whole(given["known"], "known", 1, known)
    played = whole(given["arm"], "arm", 0, then - 1)
    present = bits(given["present"], "present", then)
    near = bits(given["near"], "near", then)
    there = unpacked(present, then)
    if not there[played]:
        raise ValueError("a pending arm that did not exist")
    if near is not None and (unpacked(near, then) & ~there).any():
        raise ValueError("near arms that did not exist")
    # Rounding may leave a probability a little above 1; 0 stands for an unknown one.
    inverse_p = number(given["inverse_p"], "inverse_p", 0.0, LARGEST)
    if inverse_p < 1.0 - 1e-9 and (inverse_p != 0.0 or policy.traits.estimates):
        raise ValueError("an inverse_p below 1")
    carried = listed(given["carried"], "carried")
    kinds = policy.traits.saved_carried
    if not carried and kinds and kinds[-1].optional:
        # Written before the policy carried anything.
        carried = [0.0] * len(kinds)
    if len(carried) != policy.traits.carried_rows:
        raise ValueError("carried numbers of another policy")
    notes = np.zeros(width(policy, policy.program(len(current.indices)), then))
    notes[INVERSE_P] = inverse_p
    notes[MEAN_BASELINE] = number(given["mean_baseline"], "mean_baseline", 0.0, BASELINE + 1e-9)
    for row, (each, kind) in enumerate(zip(carried, kinds, strict=True)):
        notes[CARRIED + row] = number(each, kind.name, kind.low, kind.high)
    marks = notes[CARRIED + policy.traits.carried_rows :].view(np.uint8)
    if near is not None:
        if marks.size < len(near):
            raise ValueError("near arms of another policy")
        marks[: len(near)] = np.frombuffer(near, np.uint8)
    lineup = current
    indices = np.flatnonzero(there)
    if not np.array_equal(np.sort(current.index_array), indices):
        # Only the set of these arms is used.
        lineup = Lineup(current.origin, (), tuple(indices.tolist()), None)
    time = loaded if "time" not in given else number(given["time"], "time", 0.0, LARGEST)
    learn = truth(given.get("learn", True), "learn")
    slot = lineup.indices.index(played)
    decided_in = whole(given["id"], "id", 1, newest)
    return decided_in, pending(slot, notes.tobytes(), lineup, time, None, learn)


def _shares(given: dict[str, Any]) -> list[float] | None:
    """Return the probabilities of a decision that has a key, if the file has them."""
    if given.get("probabilities") is None:
        return None
    shares = [
        number(each, "probabilities", 0.0, 1.0)
        for each in listed(given["probabilities"], "probabilities")
    ]
    if abs(sum(shares) - 1.0) > 1e-6:
        raise ValueError("probabilities that do not sum to 1")
    return shares


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
