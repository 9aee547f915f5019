"""Comparison of the experts of an experiment, from the records of answered decisions.

A record has what every expert gave to the arm that was drawn, and its probability. Their ratio
times the loss has the mean of the expert's own advice, in every round, whether it was followed or
not: means and confidence sequences of `bothworlds.bandit.standing` need nothing else. An interval
for a time fixed in advance also needs the second moments of these ratios, and is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bothworlds.bandit.standing import ROWS, Standing, observe
from bothworlds.evidence.report import Units
from bothworlds.policies.advice import PER_EXPERT

if TYPE_CHECKING:
    from bothworlds.serve.ops.tallies import DecisionColumns


class Experts:
    """Sums over answered decisions, by expert.

    Parameters
    ----------
    names : sequence of str
        The experts.

    Examples
    --------
    >>> experts = Experts(["model", "rules"])
    >>> experts.observe([1.0, 0.0], 2.0, 0.25)
    >>> standing = experts.standing({"model": 0.5, "rules": 0.5}, (0.0, 1.0), False, 0.95)
    >>> standing["model"].answers
    1
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        self._E = np.zeros((ROWS, len(self.names)))
        self._D = np.zeros(PER_EXPERT + 3 * len(self.names))

    def observe(self, advice: Sequence[float | None], inverse_p: float, loss: float) -> None:
        """Add a decision: the advice for the arm, 1 / its probability, its loss in [0, 1]."""
        D, N = self._D, len(self.names)
        for j, given in enumerate(advice):
            D[PER_EXPERT + j] = (given or 0.0) * inverse_p
            D[PER_EXPERT + 2 * N + j] = given is not None
        observe(self._E, D, loss)

    def add(self, rows: DecisionColumns, n_arms: int) -> None:
        """Add decisions in order; there are ``n_arms`` arms by now."""
        told = rows.told()
        for advice, inverse_p, loss in zip(
            told.advice, told.inverse_p.tolist(), told.losses.tolist(), strict=True
        ):
            self.observe(advice, inverse_p, loss)

    def copy(self) -> Self:
        """Return independent sums of the same content."""
        made = type(self)(self.names)
        made._E[:] = self._E
        return made

    @property
    def size(self) -> int:
        """How many bytes the sums take."""
        return self._E.nbytes

    def standing(
        self, weights: dict[str, float], bounds: tuple[float, float], rewards: bool,
        confidence: float,
    ) -> Standing:  # fmt: skip
        """Return how good every expert is, in rewards or losses within ``bounds``."""
        ordered = [weights[name] for name in self.names]
        return Standing(self._E, self.names, ordered, Units(bounds, rewards), confidence, True)

    def document(
        self, weights: dict[str, float], bounds: tuple[float, float], confidence: float
    ) -> dict[str, Any]:
        """Return the comparison as JSON values, in losses."""
        found = self.standing(weights, bounds, False, confidence)
        return {
            name: {
                "weight": each.weight, "mean": each.mean, "sequence": each.sequence,
                "answers": each.answers, "effective": each.effective,
            }
            for name, each in found.items()
        }  # fmt: skip
