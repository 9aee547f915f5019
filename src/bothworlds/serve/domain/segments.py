"""Segments of an experiment in memory: each has a state, and borrows from others while young.

The state of a segment is the sum of what the feedback of its decisions contributes, as that of the
experiment is; every such feedback contributes to both.  What a segment borrows is no part of its
state: it follows from the two states, at every draw, by `bothworlds.bandit.borrowed`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bothworlds.bandit.borrowed import borrowed
from bothworlds.serve.domain.draws import PER_ONE, UNIT, Units, entered
from bothworlds.serve.domain.sums import Counts, Sums
from bothworlds.serve.store.rows import SegmentRow, from_bytes

if TYPE_CHECKING:
    from bothworlds.serve.domain.experiment import Experiment


class Learned:
    """Learned states of an experiment or a segment: of this replica, and of its peers."""

    __slots__ = ("counts", "own", "peer_counts", "peer_versions", "peers", "round")

    def start_over(self) -> None:
        """Have nothing learned."""
        self.own = Sums.blank(0)
        self.peers: Sums | None = None
        # Shards and versions of the states that the peers' sums consist of.
        self.peer_versions: list[tuple[int, int]] = []
        self.counts = Counts()
        self.peer_counts = Counts()
        self.round = 0


class Segment(Learned):
    """A segment.

    Parameters
    ----------
    row : SegmentRow
        Its row in the store.

    Attributes
    ----------
    key : tuple
        What its states are kept under.
    own, peers, peer_versions, counts, peer_counts, total, round, largest
        As those of an `Experiment`, for the decisions of the segment alone.
    """

    def __init__(self, row: SegmentRow) -> None:
        self.id = row.id
        self.name = row.name
        self.created_at = row.created_at
        self.key = row.experiment, row.epoch, row.id
        self.start_over()
        self.enter(row)
        self.refresh()

    def enter(self, row: SegmentRow) -> None:
        """Take the entries of arms that were added."""
        self._entries = from_bytes(row.entries)
        self._basis: Units | None = None

    def refresh(self) -> None:
        """Take the learned states of this replica and its peers."""
        self.total = self.own if self.peers is None else self.own.plus(self.peers)
        counted = self.counts.rounds + self.peer_counts.rounds
        # A crash can lose the last rounds, but none whose feedback came.
        self.round = max(self.round, counted, self.total.learned)
        self.largest = float(np.abs(self.total.sums).max())
        self._basis = None

    def drawn_from(self, whole: Experiment) -> tuple[Units, int]:
        """Return the estimates of the arms, borrowed ones included, and the rounds so far."""
        if self._basis is not whole.estimates:
            self._basis = whole.estimates
            self._estimates, self._borrowed = self._borrow(whole, whole.estimates)
        return self._estimates, self.round + self._borrowed

    def _borrow(self, whole: Experiment, estimates: Units) -> tuple[Units, int]:
        own = self.total.grown(estimates.size).sums[: estimates.size]
        rest = (estimates - own).astype(np.float64)
        answers = whole.total.learned - self.total.learned
        added, counted = borrowed(rest, answers, whole.config.segment_prior)
        found = own + np.rint(added).astype(np.int64)
        known = self._entries[: found.size]
        found[: known.size] += known
        return found, counted

    def entry(self, whole: Experiment, entry: int, probability: float | None) -> int:
        """Return the entry of a new arm here, given its entry in the whole experiment."""
        estimates, rounds = self.drawn_from(whole)
        place = placed(whole, estimates, rounds, probability)
        level = int(whole.total.grown(whole.known).sums[whole.known]) + entry
        longer = self._borrow(whole, np.append(whole.estimates, np.int64(level)))[0]
        # With another arm, all that is borrowed may be counted from another least estimate.
        return place + int(longer[0] - estimates[0]) - int(longer[-1])

    def document(self, whole: Experiment) -> dict[str, Any]:
        """Return its learned state as JSON values."""
        total = self.total.grown(whole.known)
        decided = self.counts.plus(self.peer_counts)
        decided.grow(whole.known)
        shares = whole.probabilities(segment=self) if whole.mode != "archived" else {}
        return {
            "name": self.name,
            "created_at": self.created_at,
            "decided": sum(decided.by_arm),
            "learned": total.learned,
            "arms": [
                {
                    "name": arm.name,
                    "status": arm.status,
                    "probability": shares.get(arm.name, 0.0),
                    "decided": decided.by_arm[arm.place],
                    "told": int(total.told[arm.place]),
                    "mean_loss": mean_loss(whole, total, arm.place),
                }
                for arm in whole.arms
            ],
        }


def placed(
    whole: Experiment, estimates: Units, rounds: int, probability: float | None
) -> int:  # fmt: skip
    """Return the estimate at which a new arm has a probability in the next round, in units."""
    active = estimates[list(whole.active)]
    least = int(active.min())
    column = (active - least) * np.float64(UNIT)
    return least + round(entered(whole.config.learner, column, rounds + 1, probability) * PER_ONE)


def mean_loss(whole: Experiment, total: Sums, place: int) -> float | None:
    """Return the mean loss of an arm over its answers, in the experiment's units."""
    low, high = whole.config.bounds
    told = int(total.told[place])
    return low + int(total.lost[place]) * UNIT / told * (high - low) if told else None
