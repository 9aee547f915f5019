"""Comparison of experts: the quality of their advice in every round, followed or not.

========= =========================================================================
``rho``   xi(I) / p_I of an expert: how much more likely it makes the arm drawn
``v``     E rho^2 at the decision, sum_a xi(a)^2 / p_a
``y``     loss of the arm drawn, in [0, 1]
``m``     (1/2 + sum of earlier rho y) / (1 + sum of earlier rho), at most 1
========= =========================================================================

rho y is an unbiased value of the expert's advice in every round.  *At a fixed time*: the mean of
G = m + rho (y - m), weighted by 1 / sqrt(V), with its standard error (Hadad et al., PNAS 2021).  V
is a mean of v over earlier rounds: v itself depends on the advice, and so on the context, and would
favour contexts in which experts agree.
*At all times*: X = rho y >= 0 has the expert's mean loss mu, and exp(lam (X - mu) - psi(lam)
(X - m)^2), psi(lam) = -log(1 - lam) - lam, has mean at most 1 for any bet lam in [0, 1) chosen
before; the upper end bets on rho (1 - y), with mean 1 - mu, likewise (Waudby-Smith, Wu, Ramdas,
Karampatziakis and Mineiro, 2022).  If the mean moves, the sequence holds for its average weighted
by the bets.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from bothworlds.errors import invalid
from bothworlds.evidence import update
from bothworlds.evidence.bounds import checked_confidence
from bothworlds.evidence.report import Units
from bothworlds.evidence.update import LARGEST_BET, TUNED, psi
from bothworlds.lanes.jit import jit
from bothworlds.policies import advice as step
from bothworlds.policies.advice import PER_EXPERT
from bothworlds.policies.base import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Sums of an expert, each a row of the table: answers, rho, rho^2, rho y; those of the weighted
# mean; for either side the bets' sums and the squares they are chosen by; the least 1 / v; V.
ANSWERS, RHO, RHO2, VALUE, SH, SHG, SW, SWG, SWGG = 0, 1, 2, 3, 4, 5, 6, 7, 8
SL, SLX, SP, SQ, SIDE, LEAST, MEAN_V, ROWS = 9, 10, 11, 12, 4, 17, 18, 19

MEMORY = 100.0
"""About how many rounds the mean of v reaches back."""

ENOUGH = 30.0
"""Effective number of answers below which there is no interval."""
SMALL = 0.01
"""Without a floor, no interval for an expert whose 1 / v, its weight, was once below this."""


@jit
def observe(E: Any, D: Any, loss: float) -> None:
    """Add an answered decision, with the numbers ``D``, to the sums of every expert awake then."""
    N = E.shape[1]
    for j in range(N):
        v = D[PER_EXPERT + 2 * N + j]
        if v <= 0.0:
            continue
        rho = D[PER_EXPERT + j]
        m = min(1.0, (0.5 + E[VALUE, j]) / (1.0 + E[RHO, j]))
        G, h = m + rho * (loss - m), 1.0
        if E[MEAN_V, j] > 0.0:
            h = 1.0 / math.sqrt(E[MEAN_V, j])
        E[MEAN_V, j] += (v - E[MEAN_V, j]) / min(E[ANSWERS, j] + 1.0, MEMORY)
        E[SH, j] += h
        E[SHG, j] += h * G
        E[SW, j] += h * h
        E[SWG, j] += h * h * G
        E[SWGG, j] += h * h * G * G
        q = E[ANSWERS, j] + 1.0
        for side in range(2):
            at = SIDE * side
            X = rho * (loss if side == 0 else 1.0 - loss)
            guess = m if side == 0 else 1.0 - m
            variance = (0.25 + E[SQ + at, j]) / q
            lam = min(math.sqrt(2.0 * TUNED / (variance * q * math.log(q + 1.0))), LARGEST_BET)
            E[SL + at, j] += lam
            E[SLX + at, j] += lam * X
            E[SP + at, j] += psi(lam) * (X - guess) * (X - guess)
            E[SQ + at, j] += (X - guess) * (X - guess)
        E[ANSWERS, j] = q
        E[RHO, j] += rho
        E[RHO2, j] += rho * rho
        E[VALUE, j] += rho * loss
        if E[LEAST, j] == 0.0 or 1.0 / v < E[LEAST, j]:
            E[LEAST, j] = 1.0 / v


@jit
def draw_once(F: Any, G: Any, A: Any, awake: Any, here: Any, q: Any, D: Any, plays: Any) -> Any:
    """Draw an arm as `bothworlds.policies.advice.draw` does; clear the advice, count the play."""
    arm = step.draw(F, G, A, awake, here, q, D)
    A[:] = 0.0
    plays[0, arm] += 1
    return arm


@jit
def hear(F: Any, E: Any, R: Any, D: Any, loss: float, plays: Any) -> None:
    """Learn from the loss of a decision; add it to the sums of experts and of arms, ``R``."""
    plays[1, int(D[step.ARM])] += 1
    observe(E, D, loss)
    K = int(F[step.ARMS])
    w = D[D.size - K :]
    arm, inverse_p, round = int(D[step.ARM]), 1.0 / D[step.P], int(D[step.DECIDED])
    away = False
    for a in range(K):
        away = away or w[a] <= 0.0
    # Every round has the weight 1: probabilities depend on the advice, and so on the context.
    # Weighting by them would favour the contexts in which an arm is recommended.
    if away:
        # Arms that no expert recommends are away.
        noted = np.empty(3 * K + 1)
        update.note(R, noted[:K], noted[K:])
        shares = np.where(w > 0.0, 1.0, np.nan)
        update.observe_late(
            R, arm, inverse_p, loss, round, update.ALL, shares, noted[:K], noted[K:]
        )
    else:
        update.observe(R, arm, inverse_p, loss, round, update.OWN)
    step.learn(F, D, loss)


@dataclass(frozen=True)
class ExpertStanding:
    """Statistics of an expert, in the user's units: losses, or rewards if those are reported.

    Parameters
    ----------
    name : str or int
        The expert.
    weight : float
        Its weight in the next decision.
    mean : float or None
        Mean loss (reward) of its advice; None before any answer.
    interval : pair of float or None
        Valid at a time fixed in advance; None where that would not be sound.
    sequence : pair of float or None
        Valid at all times at once, for an average of the expert's means.
    answers : int
        Answered decisions in which it was awake.
    effective : float
        Answers of its own advice that tell as much: (sum rho)^2 / sum rho^2.
    why : str
        Why there is no interval, or "".
    """

    name: Any
    weight: float
    mean: float | None
    interval: tuple[float, float] | None
    sequence: tuple[float, float] | None
    answers: int
    effective: float
    why: str = ""


class Standing(Mapping[Any, ExpertStanding]):
    """Standings of all experts by name; `gap` compares two, ``print`` shows a summary."""

    def __init__(
        self, E: Array, names: list[Any], weights: list[float], units: Units, confidence: object,
        floored: bool,
    ) -> None:  # fmt: skip
        self.confidence = checked_confidence(confidence, "AdvisedBandit.standing")
        self.units = units
        self._floored = floored
        self._sequences = [self._sequence(E[:, j]) for j in range(len(names))]
        # A statement about all experts at once must hold for each of them with more confidence.
        self._jointly = [self._sequence(E[:, j], len(names)) for j in range(len(names))]
        self._of = {
            name: self._standing(E[:, j], name, weights[j], self._sequences[j])
            for j, name in enumerate(names)
        }

    def _sequence(self, sums: Array, together: int = 1) -> tuple[float, float]:
        """Return the ends of the loss, valid at all times, ``together`` with as many sequences."""
        ends = []
        for at in (0, SIDE):
            sl = float(sums[SL + at])
            reach = math.log(2.0 * together / (1.0 - self.confidence))
            end = (float(sums[SLX + at]) - float(sums[SP + at]) - reach) / sl if sl > 0.0 else 0.0
            ends.append(min(1.0, max(0.0, end)))
        return ends[0], max(ends[0], 1.0 - ends[1])

    def _standing(
        self, sums: Array, name: Any, weight: float, sequence: tuple[float, float]
    ) -> ExpertStanding:
        answers = int(sums[ANSWERS])
        if answers == 0:
            return ExpertStanding(name, weight, None, None, None, 0, 0.0, "no answer yet")
        effective = float(sums[RHO] ** 2 / sums[RHO2]) if sums[RHO2] > 0.0 else 0.0
        mean = float(sums[SHG] / sums[SH])
        square = float(sums[SWGG] - 2.0 * mean * sums[SWG] + mean * mean * sums[SW])
        error = math.sqrt(max(0.0, square)) / float(sums[SH])
        why = ""
        if not self._floored and sums[LEAST] < SMALL:
            why = "its weight was below 1 % and there is no Floor"
        elif effective < ENOUGH:
            why = f"its answers are worth {effective:.0f}, and {ENOUGH:.0f} are needed"
        reach = NormalDist().inv_cdf(0.5 + 0.5 * self.confidence) * error
        interval = None
        if not why:
            interval = self.units.pair((max(0.0, mean - reach), min(1.0, mean + reach)))
        return ExpertStanding(
            name, weight, self.units.value(min(1.0, max(0.0, mean))), interval,
            self.units.pair(sequence), answers, effective, why,
        )  # fmt: skip

    def __getitem__(self, name: Any) -> ExpertStanding:
        return self._of[name]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._of)

    def __len__(self) -> int:
        return len(self._of)

    def gap(self, better: Any, other: Any) -> float:
        """Return by how much one expert beats another, at least, valid at all times at once.

        In the user's units. Negative if that cannot be stated yet.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.AdvisedBandit(bw.Floor(bw.TsallisINF(), 0.5), 2, ["old", "new"], seed=1)
        >>> for _ in range(3000):
        ...     decision = bandit.ask(advice={"old": 0, "new": 1})
        ...     bandit.tell(decision, loss=0.25 if decision.arm else 0.75)
        >>> bandit.standing().gap("new", "old") > 0.2
        True
        """
        for name in (better, other):
            if name not in self._of:
                raise invalid("expert", "Standing.gap", f"one of {list(self._of)}", name)
        return self.units.difference(self._lead(self._sequences, better, other))

    def _lead(self, sequences: list[tuple[float, float]], better: Any, other: Any) -> float:
        """Return by how much the loss of one expert is below that of another, at least."""
        names = list(self._of)
        return sequences[names.index(other)][0] - sequences[names.index(better)][1]

    def summary(self) -> str:
        """Return the answer in plain words: which expert is best, and how certain that is."""
        known = [each for each in self._of.values() if each.mean is not None]
        if not known:
            return "No feedback yet: no expert can be judged."
        word = self.units.word
        best = (max if self.units.rewards else min)(known, key=lambda each: each.mean or 0.0)
        beaten = [
            each
            for each in known
            if each is not best and self._lead(self._jointly, best.name, each.name) > 0.0
        ]
        share = f"{self.confidence:.0%} confidence".replace("%", " %")
        text = f"{best.name} has the best mean {word} so far ({best.mean:.4g})"
        if len(known) > 1 and len(beaten) == len(known) - 1:
            return f"{text} and is better than every other expert, with {share}."
        if beaten:
            names = ", ".join(str(each.name) for each in beaten)
            return (
                f"{text}. It is better than {names}, with {share}; the other experts are not "
                "ranked yet."
            )
        return f"{text}, but no two experts can be ranked with {share} yet."

    def plot(
        self, path: str | os.PathLike[str] | None = None, log: str | os.PathLike[str] | None = None
    ) -> Figure:
        """Draw means with intervals and, from the bandit's log, the weights over time.

        Parameters
        ----------
        path : path, optional
            Where to write the figure: .png, .pdf or .svg.
        log : path, optional
            The log of the bandit, for the weights.

        Returns
        -------
        matplotlib.figure.Figure
            The figure.
        """
        from bothworlds.evidence.plot import plot_experts
        from bothworlds.logs.jsonl import read_jsonl

        rows = [] if log is None else [row.experts for row in read_jsonl(log) if row.experts]
        names = list(self._of)
        history = np.array([[row.get(name, 0.0) for name in names] for row in rows])
        experts = list(self._of.values())
        return plot_experts(experts, history, self.confidence, self.units.word, path)

    def __repr__(self) -> str:
        word = self.units.word
        lines = [f"{'expert':<20} {'weight':>8} {'mean ' + word:>12}  interval"]
        for each in self._of.values():
            mean = "-" if each.mean is None else f"{each.mean:.4g}"
            shown = each.why
            if each.interval is not None:
                shown = f"{each.interval[0]:.4g} to {each.interval[1]:.4g}"
            lines.append(f"{each.name!s:<20} {each.weight:>8.1%} {mean:>12}  {shown}")
        return "\n".join([*lines, self.summary()])
