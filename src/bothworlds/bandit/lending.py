"""Lending: the joint estimates of all segments of a `SegmentedBandit`, for new segments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

import numpy as np

from bothworlds.bandit.bandit import Bandit
from bothworlds.bandit.borrowed import borrowed
from bothworlds.bandit.core import Shift
from bothworlds.bandit.state import columns
from bothworlds.bandit.state_file import LARGEST_WHOLE, listed, number, record, whole
from bothworlds.policies.base import Array

FAR = 1e300
"""Bound of the estimates in a state file."""


class Lending:
    """Estimates and answers of all segments, also of those that were dropped.

    Parameters
    ----------
    n_arms : int
        How many arms there are.
    prior : int
        How many answers the other segments count as, at most, in the draws of a segment; 0 for
        none.
    """

    __slots__ = ("answers", "estimates", "prior")

    def __init__(self, n_arms: int, prior: int) -> None:
        self.prior = prior
        self.estimates: Array = np.zeros(n_arms)
        self.answers = 0

    def shift(self, bandit: Bandit) -> Shift | None:
        """Return the estimates that a segment borrows; None without a prior."""
        if not self.prior:
            return None
        own, answers = _learned(bandit)
        return Shift(*borrowed(self.estimates - own, self.answers - answers, self.prior))

    @contextmanager
    def adding(self, bandit: Bandit) -> Iterator[None]:
        """Add the changes of a segment's estimates in the block."""
        if not self.prior:
            yield
            return
        own, answers = _learned(bandit)
        yield
        now, counted = _learned(bandit)
        self.estimates = self.estimates + (now - own)
        self.answers += counted - answers

    def document(self) -> dict[str, Any]:
        """Return it as JSON values for a state file; nothing without a prior."""
        if not self.prior:
            return {}
        shared = {"estimates": self.estimates.tolist(), "answers": self.answers}
        return {"prior": self.prior, "shared": shared}

    def restore(self, document: Mapping[str, Any]) -> None:
        """Take the numbers of a state file."""
        if not self.prior:
            return
        shared = record(document["shared"], "shared")
        estimates = listed(shared["estimates"], "estimates")
        if len(estimates) != self.estimates.size:
            raise ValueError("estimates of other arms")
        self.estimates = np.array([number(each, "estimates", -FAR, FAR) for each in estimates])
        self.answers = whole(shared["answers"], "answers", 0, LARGEST_WHOLE)

    def copy(self) -> Self:
        """Return an independent copy."""
        made = type(self)(self.estimates.size, self.prior)
        made.estimates, made.answers = self.estimates, self.answers
        return made


def _learned(bandit: Bandit) -> tuple[Array, int]:
    """Return the estimates of a segment, and its answers."""
    core = bandit._core
    return columns(core.F, core.policy)[0].copy(), sum(core.roster.told)
