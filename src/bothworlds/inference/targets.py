"""Target policies of an off-policy evaluation: an arm, fixed probabilities, or a function."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothworlds.arguments import is_name, is_number
from bothworlds.bandit.decision import Arm
from bothworlds.errors import invalid
from bothworlds.logs.columns import Names, Reading, Rows
from bothworlds.logs.record import SUM_TOLERANCE

Array = NDArray[np.float64]

UNIFORM = "uniform"

Target = Arm | Mapping[Arm, float] | Callable[[Any], Any]


def distribution(target: object, names: Names, owner: str) -> dict[Arm, float]:
    """Return a target as probabilities of arms.

    Examples
    --------
    >>> names = Names()
    >>> _ = names.number("blue"), names.number("green")
    >>> distribution("uniform", names, "inference.value")
    {'blue': 0.5, 'green': 0.5}
    >>> distribution("green", names, "inference.value")
    {'green': 1.0}
    """
    if is_name(target):
        if target in names.place:
            return {target: 1.0}
        if target == UNIFORM:
            return dict.fromkeys(names.listed, 1.0 / len(names.listed))
        raise invalid("target", owner, f"one of the arms {names.listed}, or {UNIFORM!r}", target)
    if isinstance(target, Mapping):
        shares = list(target.values())
        fits = all(is_number(p) and 0.0 <= p <= 1.0 for p in shares)
        if not fits or not math.isclose(sum(shares), 1.0, abs_tol=SUM_TOLERANCE):
            raise invalid("target", owner, "probabilities of arms that sum to 1", dict(target))
        strange = [arm for arm, p in target.items() if p > 0 and arm not in names.place]
        if strange:
            raise invalid("target", owner, f"a choice among the arms {names.listed}", strange[0])
        return {arm: float(p) for arm, p in target.items() if p > 0}
    expected = "an arm, probabilities of arms, 'uniform' or a function of the row"
    raise invalid("target", owner, expected, target)


def target_rows(target: Target, rows: Rows, reading: Reading) -> Array:
    """Return the target's probabilities: a row for each of ``rows``, or one for all."""
    names, owner = reading.names, reading.owner
    K = len(names.listed)
    if not callable(target):
        wanted = np.zeros((1, K))
        for arm, p in distribution(target, names, owner).items():
            wanted[0, names.place[arm]] = p
    else:
        wanted = np.zeros((len(rows), K))
        for n, row in enumerate(rows.rows()):
            for arm, p in distribution(target(row), names, owner).items():
                wanted[n, names.place[arm]] = p
    _check_support(wanted, rows, reading)
    return wanted


def _check_support(wanted: Array, rows: Rows, reading: Reading) -> None:
    """Refuse a target that plays arms where the log could not have played them."""
    if not rows.whole.any():
        return
    weights = rows.widened(len(reading.names.listed))
    impossible = rows.whole[:, None] & (wanted > 0.0) & ~(weights > 0.0)
    bad = impossible.any(axis=1)
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        arm = reading.names.listed[int(np.flatnonzero(impossible[at])[0])]
        where = f"row {int(rows.numbers[at])} of {reading.title}"
        raise invalid(f"probability of {arm!r}", where, "above 0, because the target plays it", 0.0)
