"""Report on the arms of a bandit or a log: means, intervals, sequences and gaps, with reasons."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bothworlds.arguments import is_name
from bothworlds.errors import invalid
from bothworlds.evidence import bounds as read
from bothworlds.evidence import layout
from bothworlds.evidence.sums import Evidence
from bothworlds.markup import h, rows, together

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Arm = str | int
Pair = tuple[float, float]

AVERAGE = (
    "The means move: a sequence refers to the average of an arm's means over the rounds so far, in "
    "which early rounds weigh more."
)


@dataclass(frozen=True)
class ArmReport:
    """Statistics of one arm, in the user's units."""

    arm: Arm
    """Its name."""
    decisions: int
    """How often it was drawn."""
    told: int
    """How often an answer came."""
    mean: float | None
    """Its mean reward or loss, corrected for how it was chosen; None without an answer."""
    interval: Pair | None
    """Where the mean is, at a time fixed in advance; None where that would not be sound, and
    always with ``drift=True``."""
    sequence: Pair | None
    """Range of the mean, valid at any time; None where that would not be sound."""
    why: str
    """Why something is missing, in words; empty where nothing is."""

    @property
    def missing(self) -> int:
        """How many decisions have no answer."""
        return self.decisions - self.told


@dataclass(frozen=True)
class Units:
    """Conversion of losses in [0, 1] to the user's units.

    Parameters
    ----------
    bounds : pair of float
        The smallest and largest reward or loss.
    rewards : bool
        Whether the user counts rewards.

    Examples
    --------
    >>> Units((0.0, 250.0), rewards=True).value(0.8)
    50.0
    """

    bounds: Pair
    rewards: bool

    def value(self, loss: float) -> float:
        """Return a loss in [0, 1] in the user's units."""
        low, high = self.bounds
        beyond = min(1.0, max(0.0, loss)) * (high - low)
        return high - beyond if self.rewards else low + beyond

    def pair(self, losses: Pair | None) -> Pair | None:
        """Return two ends in the user's units, the smaller first."""
        if losses is None:
            return None
        low, high = sorted(map(self.value, losses))
        return low, high

    def difference(self, losses: float) -> float:
        """Return a difference of losses in the user's units."""
        return losses * (self.bounds[1] - self.bounds[0])

    @property
    def word(self) -> str:
        """The unit: rewards or losses."""
        return "reward" if self.rewards else "loss"


class Report(Mapping[Arm, ArmReport]):
    """How good every arm is, and how certain that is.

    A mapping from the names of the arms to `ArmReport`. Every statement holds by itself with the
    report's confidence.

    Attributes
    ----------
    confidence : float
        Confidence of every statement.
    drift : bool
        Whether the sequences and gaps hold for means that move. They then refer to the average
        of the means over the rounds, in which early rounds weigh more.
    units : Units
        Bounds, and whether rewards or losses are counted.
    closing : str
        What closes decisions that get no answer, in a sentence.

    Examples
    --------
    >>> import bothworlds as bw
    >>> log = [{"round": t, "arm": "AB"[t % 2], "loss": float(t % 2), "probability": 0.5,
    ...         "probabilities": {"A": 0.5, "B": 0.5}} for t in range(1, 201)]
    >>> report = bw.inference.report(log)
    >>> report["A"].told, report.gap("A", "B") > 0.5
    (100, True)
    """

    def __init__(
        self,
        evidence: Evidence,
        names: Sequence[Arm],
        counts: Sequence[tuple[int, int]],
        units: Units,
        *,
        confidence: float,
        drift: bool,
        floored: bool | None,
        source: str,
        waiting: Sequence[int] | None = None,
        overtaken: int = 0,
        closing: str = "Use expire() to close those that receive no answer.",
    ) -> None:
        self.confidence = confidence
        self.drift = drift
        self.units = units
        self.source = source
        self._overtaken = overtaken
        self.closing = closing
        self._evidence = evidence
        self._place = {name: n for n, name in enumerate(names)}
        self._arms = {
            name: _arm_report(
                self, evidence, n, name, counts[n], floored, waiting[n] if waiting else 0
            )
            for n, name in enumerate(names)
        }

    @property
    def evidence(self) -> Evidence:
        """The running sums that the report was read off."""
        return self._evidence

    def __getitem__(self, arm: Arm) -> ArmReport:
        return self._arms[arm]

    def __iter__(self) -> Iterator[Arm]:
        return iter(self._arms)

    def __len__(self) -> int:
        return len(self._arms)

    def _index(self, arm: object, parameter: str) -> int:
        if not is_name(arm) or arm not in self._place:
            raise invalid(parameter, "Report.gap", f"one of {list(self._place)}", arm)
        return self._place[arm]

    def gap(self, a: Arm, b: Arm) -> float:
        """Return the largest x such that a is better than b by at least x, with confidence.

        In the user's units, at the report's confidence, at any time: you may stop at the
        first positive answer. Negative where that is not certain.

        Parameters
        ----------
        a, b : str or int
            Names of two arms.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bw.inference.report([{"arm": 0}, {"arm": 1}]).gap(0, 1)
        -1.0
        """
        ours, theirs = self._index(a, "a"), self._index(b, "b")
        bound = read.drifting_gap if self.drift else read.gap
        return self.units.difference(bound(self._evidence, ours, theirs, self.confidence))

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON values, gaps by pairs included."""
        return {
            "source": self.source,
            "confidence": self.confidence,
            "drift": self.drift,
            "counts": self.units.word,
            "bounds": list(self.units.bounds),
            "arms": [
                {
                    "arm": each.arm,
                    "decisions": each.decisions,
                    "told": each.told,
                    "missing": each.missing,
                    "mean": each.mean,
                    "interval": None if each.interval is None else list(each.interval),
                    "sequence": None if each.sequence is None else list(each.sequence),
                    "why": each.why,
                }
                for each in self.values()
            ],
            "gaps": [
                {"better": a, "worse": b, "by_at_least": self.gap(a, b)}
                for a, b in self._ordered_pairs()
                if self.gap(a, b) > 0.0
            ],
        }

    def _ordered_pairs(self) -> Iterator[tuple[Arm, Arm]]:
        yield from ((a, b) for a in self for b in self if a != b)

    def sure(self) -> list[tuple[Arm, Arm, float]]:
        """Return the confident comparisons: better arm, worse arm, by at least how much.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bw.inference.report([{"arm": 0}, {"arm": 1}]).sure()
        []
        """
        found = [(a, b, self.gap(a, b)) for a, b in self._ordered_pairs()]
        return sorted((f for f in found if f[2] > 0.0), key=lambda f: -f[2])

    # --- showing -------------------------------------------------------------------------------

    @property
    def _with_intervals(self) -> bool:
        """Whether any arm has an interval; a column of dashes is left out."""
        return any(each.interval is not None for each in self.values())

    def heads(self) -> tuple[str, ...]:
        """Return the heads of the table's columns; intervals only where an arm has one."""
        percent = f"{100 * self.confidence:g} %"
        fixed = (f"{percent} at a set time",) if self._with_intervals else ()
        return ("arm", "decisions", "feedback", f"mean {self.units.word}", *fixed,
                f"{percent} at all times")  # fmt: skip

    def rows(self) -> list[tuple[str, ...]]:
        """Return the table's cells as texts, a row per arm."""
        fixed = self._with_intervals
        return [
            (
                str(each.arm), f"{each.decisions:,}", f"{each.told:,}",
                "" if each.mean is None else f"{each.mean:.4g}",
                *([_ends(each.interval)] if fixed else []), _ends(each.sequence),
            )
            for each in self.values()
        ]  # fmt: skip

    def sentences(self, most: int = 6) -> list[str]:
        """Return the sentences below the table: confident comparisons, and the missing feedback."""
        sure = self.sure()
        said = [f"{a} beats {b} by at least {x:.3g}." for a, b, x in sure[:most]]
        if len(sure) > most:
            said.append(f"Showing {most} of {len(sure)} confident comparisons.")
        if not sure and len(self) > 1:
            said.append("No two arms can be ranked with confidence yet.")
        reasons: dict[str, list[str]] = {}
        for each in self.values():
            if each.why:
                reasons.setdefault(each.why, []).append(str(each.arm))
        for why, arms in reasons.items():
            named = ", ".join(arms[:5]) + (f" and {len(arms) - 5} more" if len(arms) > 5 else "")
            said.append(f"{named}: {why}")
        if self.drift:
            said.append(AVERAGE)
        if self._overtaken:
            said.append(
                f"{self._overtaken:,} answers were counted after those of later decisions, because "
                "too many waited; the statements hold if the delay does not depend on the answer."
            )
        missing = sum(each.missing for each in self.values())
        if missing:
            said.append(
                f"{missing:,} decisions have no answer; the statements hold if that does not "
                "depend on what the answer would be."
            )
        return said

    def __str__(self) -> str:
        table = [self.heads(), *self.rows()]
        widths = [max(len(line[n]) for line in table) for n in range(len(table[0]))]
        lines = [
            "  ".join(
                cell.ljust(wide) if n == 0 else cell.rjust(wide)
                for n, (cell, wide) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in table
        ]
        return "\n".join([*lines, *self.sentences()])

    def __repr__(self) -> str:
        drift = ", drift=True" if self.drift else ""
        return f"<Report on {self.source}: {len(self)} arms, confidence {self.confidence:g}{drift}>"

    def _repr_html_(self) -> str:
        head, body = h.thead(h.tr(map(h.th, self.heads()))), h.tbody(rows(self.rows()))
        table = h.table(h.caption(self.source), head, body)
        return together(table, map(h.p, self.sentences()))

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Draw the arms, their sequences narrowing over time, and the gap of the two best.

        Parameters
        ----------
        path : path, optional
            Where to write the figure: .png, .pdf or .svg.

        Returns
        -------
        matplotlib.figure.Figure
            The figure.
        """
        from bothworlds.evidence.plot import plot_report

        return plot_report(self, self._evidence, path)


def _ends(pair: Pair | None) -> str:
    return "-" if pair is None else f"{pair[0]:.4g} to {pair[1]:.4g}"


def _arm_report(
    report: Report,
    evidence: Evidence,
    place: int,
    name: Arm,
    counts: tuple[int, int],
    floored: bool | None,
    waiting: int,
) -> ArmReport:
    decisions, told = counts
    n = int(evidence.row(layout.N)[place])
    units, confidence = report.units, report.confidence
    reasons: list[str] = []
    mean = interval = None
    moved = read.sequence(evidence, place, confidence) is None
    weighted = evidence.R[layout.UNKNOWN] == 0.0
    if waiting:
        reasons.append(
            f"{waiting:,} answers are not counted yet: earlier decisions are pending. "
            f"{report.closing}"
        )
    if n + waiting < told:
        reasons.append(
            f"{told - n - waiting:,} answers are not counted: they came before sums were kept, or "
            "while the bandit was frozen."
        )
    if n == 0:
        reasons.append("There is no answer yet.")
    else:
        mean = read.mean_and_error(evidence, place)[0] if weighted else None
        if mean is None or mean != mean:
            mean = read.plain_mean(evidence, place)
        # Weighted answers can have a mean beyond the bounds, which is reported as the bound.
        mean = min(1.0, max(0.0, mean))
        refused = [] if report.drift else _no_interval(evidence, place, weighted, floored, moved)
        reasons += refused
        if not refused and not report.drift:
            interval = read.interval(evidence, place, confidence)
    if report.drift:
        sequence = None
        if not weighted or not evidence.row(layout.LEAST)[place] > 0.0:
            reasons.append("A sequence for moving means needs a probability of every decision.")
        elif n:
            sequence = read.drifting_sequence(evidence, place, confidence)
        else:
            sequence = (0.0, 1.0)
    else:
        sequence = read.sequence(evidence, place, confidence)
        if moved:
            reasons.append("The mean has moved: no constant mean fits the answers. Use drift=True.")
        if mean is not None and sequence is not None and not sequence[0] <= mean <= sequence[1]:
            reasons.append(
                "The mean lies outside its own range: it weights answers by 1 / probability, and "
                "a few of them dominate it. Rely on the range."
            )
    return ArmReport(
        name,
        decisions,
        told,
        None if mean is None else units.value(mean),
        units.pair(interval),
        units.pair(sequence),
        " ".join(reasons),
    )


def _no_interval(
    evidence: Evidence, place: int, weighted: bool, floored: bool | None, moved: bool
) -> list[str]:
    """Return why no interval is given; empty where it is sound."""
    if not weighted:
        return [
            "The policy has no probabilities: the mean is a plain average without an interval, "
            "biased because arms are chosen by their results."
        ]
    if evidence.R[layout.OWN_ONLY] > 0.0:
        return ["The probabilities of arms not played are unknown, so there is no interval."]
    reasons = []
    if moved:
        reasons.append("No interval: the mean has moved.")
    if floored is False:
        reasons.append(
            "No interval at a set time: the policy has no exploration floor. Floor(policy, 0.5) "
            "adds one, at some cost in regret."
        )
    elif floored is None and read.floor_kept(evidence, place) < read.FLOOR:
        reasons.append(
            "No interval: there was no exploration floor; the arm's probability fell below "
            f"{read.FLOOR:g} t^(-1/3) / K."
        )
    worth = read.events(evidence, place)
    # Without a floor, more answers would not help.
    if floored is not False and worth < read.EVENTS:
        reasons.append(
            f"No interval: fewer than {read.EVENTS} events, its answers are worth {worth:.0f} "
            "tosses of a fair coin."
        )
    return reasons
