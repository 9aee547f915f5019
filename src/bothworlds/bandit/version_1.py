"""State files of version 1, translated to version 2.

Version 1 saved the array of the kernels as it stood in memory, ``[K, t, number of parameters,
generator, parameters, state]``, the state being the policy's head rows and then its rows per arm.
What is here knows how that memory was laid out then.  It is read with NumPy alone and every index
is checked; the translation is then validated like any other document.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothworlds.bandit.decision import Lineup
from bothworlds.bandit.pending import Entry, width
from bothworlds.bandit.reading import MOST, brief, listed, number, raw_bytes, whole
from bothworlds.lanes.kernels import ROUND
from bothworlds.policies.base import LARGEST, Array, Policy
from bothworlds.policies.late import INVERSE_P, late_kernels
from bothworlds.policies.tsallis_inf import TsallisINF
from bothworlds.policies.tsallis_inf.shared import Shared

HEAD = 7
"""Numbers before the parameters."""
MANY = 512
"""Number of arms from which Tsallis-INF at alpha = 1/2 kept its estimates in buckets."""
# Rows of that memory: the offset of the near arms, the number of buckets, the buckets (first slot
# and key come first in each; keys below BAND are near), and where the rows per arm begin.
OFFSET, COUNT, BUCKETS, WIDTH, BAND, KEYS, MANY_HEAD = 10, 12, 257, 21, 40, 81, 1979
HALF_HEAD, GENERAL_HEAD = 10, 2
THIRD = 1.0 / 3.0

LAYOUTS: dict[str, tuple[int, int, dict[str, int]]] = {
    "Broad": (5, 2, {"estimates": 0}),
    "Exp3": (1, 2, {"estimates": 0}),
    "Exp3PlusPlus": (1, 5, {"estimates": 0, "told": 1, "losses": 2}),
    "KLUCB": (1, 2, {"told": 0, "losses": 1}),
    "ThompsonSampling": (1, 4, {"ones": 0, "zeros": 2}),
    "UCB1": (1, 4, {"told": 0, "losses": 1}),
    "Uniform": (1, 1, {}),
}
"""Head rows, rows per arm, and which of these are kept."""


def translated(policy: Policy, old: dict[str, Any]) -> dict[str, Any]:
    """Return the document of version 2 that says what ``old`` said.

    A decision that was the last one, for which version 1 relied on the kernels' memory, is under
    ``"fresh"``; see `last_decision`.
    """
    packed = np.frombuffer(raw_bytes(old["state"], "state"), "<f8").astype(np.float64)
    if packed.size < HEAD or not np.isin(packed[:3] % 1.0, 0.0).all() or packed[:3].max() > MOST:
        raise ValueError("a state without its first numbers")
    n_arms, t, n_parameters = (int(each) for each in packed[:3])
    if not (1 <= n_arms <= packed.size and 0 <= t and 0 <= n_parameters <= packed.size - HEAD):
        raise ValueError("a state of another size")
    return {
        "seed": old["seed"],
        "bounds": old["bounds"],
        "round": t,
        "generator": packed[3:HEAD].view(np.uint64).tolist(),
        "arms": old["arms"],
        "numbers": _numbers(policy, n_arms, packed[HEAD + n_parameters :]),
        "pending": [_entry(values) for values in listed(old["pending"], "pending")],
        "fresh": old["fresh"],
    }


def last_decision(
    policy: Policy, F: Array, lineup: Lineup, known: int, fresh: object, time: float
) -> tuple[int, Entry]:
    """Return the entry of the decision that was the last one when version 1 saved.

    ``F`` is the bandit rebuilt, which has learned nothing since. Its solver is led to the
    distribution of that decision, on a copy, by drawing again. ``time`` is when it was loaded:
    version 1 kept none.
    """
    slot, inverse_p = listed(fresh, "fresh")
    slot = whole(slot, "fresh", 0, len(lineup.indices) - 1)
    given = number(inverse_p, "fresh", 0.0, LARGEST)
    t = int(F[ROUND])
    if t < 1:
        raise ValueError("a decision before the first round")
    again = F.copy()
    # With one state on both sides of a duel, the left side's draw finds what the right one uses.
    again[ROUND] = t - 1 if isinstance(policy, Shared) and t % 2 == 0 else t
    twin = policy.for_arms(len(lineup.indices))
    twin.kernels().ask(again)
    again[ROUND] = t
    notes = np.zeros(width(twin, known))
    n_arms = len(lineup.indices)
    flags, w = np.zeros(n_arms, np.uint8), np.zeros(n_arms)
    late_kernels(twin).note(again, lineup.index_array, notes, flags, w)
    notes[INVERSE_P] = given
    return t, (slot, notes.tobytes(), lineup, time, None)


def _entry(value: object) -> dict[str, Any]:
    played, inverse_p, decided, known, present, near, mean_baseline, memo = listed(value, "pending")
    carried = np.frombuffer(raw_bytes(memo, "pending"), "<f8").tolist()
    return {
        "id": decided,
        "arm": played,
        "inverse_p": inverse_p,
        "known": known,
        "present": present,
        "near": near,
        "mean_baseline": mean_baseline,
        "carried": carried,
    }


def _numbers(policy: Policy, n_arms: int, state: Array) -> dict[str, Any]:
    """Return the numbers of the state, by name."""
    own = policy.policy if isinstance(policy, Shared) else policy
    if isinstance(own, TsallisINF):
        return {"estimates": brief(_estimates(policy, own, n_arms, state))}
    layout = LAYOUTS.get(type(policy).__name__)
    if policy.saved_rows is None or layout is None:
        return {"state": brief(state)}
    head, per_arm, kept = layout
    rows = _rows(state, head, per_arm, n_arms)
    if "ones" in kept:
        rows = np.rint(rows - (1.0 - THIRD))
    numbers: dict[str, Any] = {name: brief(rows[row]) for name, row in kept.items()}
    if type(policy).__name__ == "Broad":
        numbers |= {"rate": float(state[3]), "spread": float(state[4])}
    return numbers


def _rows(state: Array, head: int, per_arm: int, n_arms: int) -> NDArray[Any]:
    if state.size != head + per_arm * n_arms:
        raise ValueError("a state of another size")
    return state[head:].reshape(per_arm, n_arms)


def _estimates(policy: Policy, own: TsallisINF, n_arms: int, state: Array) -> NDArray[Any]:
    if own.alpha != 0.5:
        return np.asarray(_rows(state, GENERAL_HEAD, 2, n_arms)[0])
    if n_arms < MANY or policy is not own or state.size == HALF_HEAD + n_arms:
        return np.asarray(_rows(state, HALF_HEAD, 1, n_arms)[0])
    return _from_buckets(_rows(state, MANY_HEAD, 6 if own.estimator == "rv" else 4, n_arms), state)


def _from_buckets(rows: NDArray[Any], state: Array) -> NDArray[Any]:
    """Return the estimates by arm out of the memory of many arms."""
    n_arms = rows.shape[1]
    words = state.view(np.int64)
    count = int(words[COUNT])
    if count == 0:
        return np.asarray(rows[0])
    if not 1 <= count <= KEYS:
        raise ValueError("buckets of another number")
    first = words[BUCKETS : BUCKETS + (count + 1) * WIDTH : WIDTH]
    keys = words[BUCKETS + 1 : BUCKETS + 1 + count * WIDTH : WIDTH]
    if first[0] != 0 or first[-1] != n_arms or (np.diff(first) < 0).any():
        raise ValueError("buckets that do not hold every arm once")
    arms = rows[2].copy().view(np.int64)
    if not np.array_equal(np.sort(arms), np.arange(n_arms)):
        raise ValueError("buckets that do not hold every arm once")
    rise = np.where(keys < BAND, state[OFFSET], 0.0)
    estimates = np.empty(n_arms)
    estimates[arms] = rows[1] + np.repeat(rise, np.diff(first))
    return estimates
