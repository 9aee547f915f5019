"""AllWorlds, the policy; its equations are in `bothworlds.policies.allworlds.kernels`.

README:

| `AllWorlds()` | Σ log T / Δ (argued) | √((1 + R) KT), R level alarms (argued) | this package;
[measured](https://bothworlds.github.io/bothworlds/arena/), not proved |
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from bothworlds.errors import invalid
from bothworlds.omd import few, half, weights
from bothworlds.omd.entering import entry_estimate
from bothworlds.policies import alarm, base, waiting
from bothworlds.policies.allworlds import kernels as layout
from bothworlds.policies.base import Array, Policy, Saved, Sounded, Traits

SOUNDED = Saved("alarms", low=0.0, high=2.0**53)
"""Records of the last alarms of every arm, group by group."""
TESTS = Saved("tests", low=0.0, high=2.0**53)
"""The numbers of all change tests, group by group."""


def _whole(name: str) -> Saved:
    return Saved(name, low=0.0, high=2.0**53, whole=True)


@dataclass(frozen=True, repr=False)
class AllWorlds(Policy):
    """One policy without parameters, for users who do not know their environment.

    Tsallis-INF with soft baselines and a learning rate from residuals, a small exploration floor,
    and change tests that restart softly: a change of the leader's losses resets the rate and keeps
    what it knew of the order, a fall of another arm's losses lets that arm be tried again.

    It is measured to have at most twice the regret of the best other policy in most worlds of the
    arena, not in all of them: it misses that where three arms follow sine waves, where an arm
    improves while the leader stays the same, where the level of all losses flips every 50 rounds,
    and where two equal best arms are next to a terrible one. `bothworlds beyond allworlds` prints
    the verdict and the ratio of every world.

    Proved: with soft restarts the regrets of the phases add up, so that with R level alarms the
    regret is of order sqrt((1 + R) K T) if every phase has its bound, and the floor adds at most
    2 sqrt(T). Argued: the bound of a phase, about 4.7 r sqrt(K T) against adversaries, r the root
    mean square of the residuals, and order log T for independent losses. Measured: the number of
    level alarms where nothing changes, 0.04 in 10,000 rounds. Use `TsallisINF` where you need a
    theorem.

    Losses are in [0, 1]. Late feedback moves the learning rate; lost feedback is distinguished from
    late feedback by the longest delay seen.

    Examples
    --------
    >>> import bothworlds as bw
    >>> bandit = bw.Bandit(bw.AllWorlds(), arms=["blue", "green", "red"], seed=7)
    >>> decision = bandit.ask()
    >>> bandit.tell(decision, reward=1.0)
    """

    traits: ClassVar[Traits] = Traits(
        unproved=(
            "the regrets of its phases add up (proved), but the bound of a phase is argued, about "
            "4.7 r sqrt(K T), r the root mean square of the residuals, and the number of phases "
            "is measured"
        ),
        nanoseconds=(26.0, 1.2),
        head_rows=layout.ESTIMATES,
        rows_per_arm=layout.FIELDS,
        carried_rows=len(layout.CARRIED),
        # A tile keeps a limit, and compares with a number below a threshold.
        bandit_rows=(
            layout.BASE,
            layout.DECIDED,
            *range(layout.WAITING, layout.WAITING + waiting.ROWS),
            layout.LIMIT,
            layout.UNTIL,
            layout.PLAYED + alarm.ARM_LIMIT,
            layout.PLAYED + alarm.ARM_SPREAD,
        ),
        bandit_fields=(layout.LED, *range(layout.TEST + alarm.CELLS, layout.FIELDS)),
        estimates=True,
        late_as_prompt=False,
        order_invariant=False,
        resizable=True,
        wrappable=False,
        saved_rows={
            layout.LOSSES: base.ESTIMATES,
            layout.CUTS: _whole("cuts"),
            layout.LED: _whole("led"),
        },
        saved_head={
            layout.SQUARES: Saved("squares", low=layout.Q_1),
            layout.RESTARTED: _whole("restarted"),
            layout.COUNTED: _whole("counted"),
            layout.TOTAL: Saved("total", low=0.0, high=2.0**53),
            layout.REPEATS: _whole("repeats"),
            layout.LEVEL_ALARMS: _whole("level_alarms"),
            layout.SIDE_ALARMS: _whole("side_alarms"),
            layout.CUTTING: Saved("cutting", low=0.0, high=1.0, whole=True),
            **waiting.saved(layout.WAITING),
        },
        saved_carried=layout.CARRIED,
    )
    own_kernels = layout.KERNELS

    def parameters(self, n_arms: int) -> Array:
        """Return the constants."""
        return np.array(layout.CONSTANTS)

    def start(self, n_arms: int) -> Array:
        """Return L = 0, Q = 1/4 and a solver about to take its first step."""
        state = np.zeros(layout.ESTIMATES + layout.FIELDS * n_arms)
        state[layout.WAITING : layout.WAITING + waiting.ROWS] = waiting.FIRST
        state[layout.SQUARES] = state[layout.PACE] = layout.Q_1
        half.first_state(n_arms, state[layout.SOLVER :])
        few.first_state(n_arms, state[layout.SOLVER :])
        return state

    def saved_shape(self, n_arms: int) -> dict[str, tuple[Saved, int | None]]:
        """Return the content of a state file: numbers by arm, the head, alarms and change tests."""
        groups = {kind.name: (kind, n * n_arms) for kind, _, n in _GROUPS}
        return {**super().saved_shape(n_arms), **groups}

    def saved_state(self, n_arms: int, state: Array) -> dict[str, Array]:
        """Return the numbers of ``state`` that a state file keeps, by name."""
        groups = {kind.name: state[_rows(first, n, n_arms)] for kind, first, n in _GROUPS}
        return {**super().saved_state(n_arms, state), **groups}

    def state_from(self, n_arms: int, saved: Mapping[str, Array]) -> Array:
        """Return a state with these numbers, and everything else computed from them."""
        state = super().state_from(n_arms, saved)
        for kind, first, n in _GROUPS:
            state[_rows(first, n, n_arms)] = saved[kind.name]
        return state

    def sounded(self, rows: Array) -> list[Sounded]:
        """Return the last level alarm and the last side alarm of every arm, by round."""
        kinds: tuple[tuple[Literal["level", "side"], int], ...] = (
            ("level", layout.ALARMED),
            ("side", layout.SIDE),
        )
        found = [
            Sounded(kind, slot, *rows[first : first + layout.RECORD, slot].tolist())
            for kind, first in kinds
            for slot in np.flatnonzero(rows[first] > 0.0).tolist()
        ]
        return sorted(found, key=lambda each: each.round)

    def sound(self, n_arms: int, state: Array) -> bool:
        """Tell whether the kernels can continue: the tests count losses by whole numbers."""
        first = layout.ESTIMATES + (layout.TEST + alarm.COUNT) * n_arms
        counts = state[first : first + n_arms]
        whole = bool(((counts >= 0.0) & (counts == np.floor(counts))).all())
        return whole and super().sound(n_arms, state)

    def newcomer(self, head: Array, rows: Array, t: int, probability: float | None) -> Array:
        """Return an estimate with which the arm is drawn with this probability, and empty tests."""
        n_arms = rows.shape[1] + 1
        asked = 1.0 / n_arms if probability is None else probability
        squares = float(head[layout.SQUARES]) * waiting.expected.py_func(head[layout.WAITING :])
        L, eta = rows[layout.LOSSES], 2.0 / math.sqrt(squares)
        constants = layout.CONSTANTS
        limit = layout.few_losses.py_func(t, constants)
        few_before = int((rows[layout.TEST + alarm.COUNT] < limit).sum())
        column = np.zeros(layout.FIELDS)

        def drawn(w0: float) -> float:
            column[layout.LOSSES] = entry_estimate(L, eta, 0.5, w0)
            rest = 1.0 - float(weights([*L, column[layout.LOSSES]], eta).max())
            limits = constants[layout.FLOOR] * rest, constants[layout.HEIGHT] / math.sqrt(t)
            f = min(limits) / n_arms
            return (1.0 - f * (few_before + 1)) * w0 + f if limit > 0.0 else w0

        # What is drawn grows with w0.
        low, high = 1e-15, 1.0 - 1e-15
        least = drawn(low)
        if asked <= least:
            expected = f"above {least:.3g}, as it explores every new arm so often"
            raise invalid("probability", "AllWorlds", expected, asked)
        w0 = asked
        while low < w0 < high:
            low, high = (w0, high) if drawn(w0) < asked else (low, w0)
            w0 = 0.5 * (low + high)
        return column


_GROUPS = (SOUNDED, layout.ALARMED, 2 * layout.RECORD), (TESTS, layout.TEST, alarm.FIELDS)


def _rows(first: int, groups: int, n_arms: int) -> slice:
    """Return where this many groups of rows by arm are in a state."""
    return slice(layout.ESTIMATES + first * n_arms, layout.ESTIMATES + (first + groups) * n_arms)
