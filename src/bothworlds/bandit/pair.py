"""What a dueling bandit hands out: the arms of both sides, and how likely they were."""

from __future__ import annotations

from dataclasses import dataclass

from bothworlds.bandit.decision import Arm, Decision


@dataclass(frozen=True, eq=False, repr=False)
class Pair:
    """Two arms to compare, drawn by `DuelingBandit.ask`.

    Attributes
    ----------
    round : int
        The round in which they were drawn, from 1.

    Examples
    --------
    >>> import bothworlds as bw
    >>> duel = bw.DuelingBandit(bw.Sparring(), arms=["blue", "green"], seed=3)
    >>> pair = duel.ask()
    >>> pair.id, pair.left, pair.right
    (1, 'green', 'blue')
    >>> [round(p, 12) for p in pair.probability]
    [0.5, 0.5]
    """

    round: int
    _left: Decision
    _right: Decision

    @property
    def id(self) -> int:
        """The number under which the bandit remembers the pair; there is one a round."""
        return self.round

    @property
    def left(self) -> Arm:
        """The name of the left side's arm."""
        return self._left.arm

    @property
    def right(self) -> Arm:
        """The name of the right side's arm, which may be the left side's."""
        return self._right.arm

    @property
    def left_probability(self) -> float | None:
        """How likely the left side was to draw its arm; None if the policy cannot tell."""
        return self._left.probability

    @property
    def right_probability(self) -> float | None:
        """How likely the right side was to draw its arm; None if the policy cannot tell."""
        return self._right.probability

    @property
    def probability(self) -> tuple[float | None, float | None]:
        """How likely each side was to draw its arm, left and right."""
        return self.left_probability, self.right_probability

    def __repr__(self) -> str:
        return (
            f"Pair(id={self.id}, left={self.left!r}, right={self.right!r}, "
            f"probability={self.probability})"
        )
