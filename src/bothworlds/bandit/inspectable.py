"""Read-only side of a bandit: arms, probabilities, history, reports and alarms."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any, Self

from bothworlds.bandit.arms import ArmHistory, html_table
from bothworlds.bandit.content import content_of, core_of
from bothworlds.bandit.core import Core
from bothworlds.bandit.decision import Arm
from bothworlds.bandit.evidence_keeper import MANY_ARMS
from bothworlds.bandit.feedback import UNBOUNDED, FeedbackUnits
from bothworlds.bandit.pending import Keys
from bothworlds.bandit.persistent import Persistent
from bothworlds.bandit.state import columns
from bothworlds.errors import invalid
from bothworlds.logs.jsonl import Log
from bothworlds.policies.base import Policy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bothworlds.bandit.alarms import Alarm
    from bothworlds.evidence.report import Report
    from bothworlds.evidence.sums import Evidence


class Inspectable(Persistent[Policy]):
    """Base of `bothworlds.Bandit`: its parts, its copies, and everything that only reads it."""

    __slots__ = ("_core", "_log", "_slow_path", "_units")

    _core: Core
    _units: FeedbackUnits
    _log: Log | None
    _slow_path: bool
    """Whether `ask` and `tell` do more than their inlined code: with a log, or frozen."""

    def _open(self, core: Core, keys: Keys, units: FeedbackUnits) -> None:
        self._core = core
        self._policy, self._seed = core.policy, core.seed
        self._keys = keys
        self._units = units
        self._seen = {}
        # A copy has no log: both would write the same decisions to it.
        self._log = None
        self._slow_path = core.frozen > 0

    @property
    def round(self) -> int:
        """How many decisions have been drawn."""
        return self._core.round

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The names of the arms that can be played."""
        return self._core.lineup.names

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and largest possible reward or loss; infinite where there is none."""
        return (-math.inf, math.inf) if self._units.bounds == UNBOUNDED else self._units.bounds

    @property
    def frozen(self) -> bool:
        """Whether `freeze` was called."""
        return self._core.frozen > 0

    @property
    def clipped(self) -> int:
        """How many values beyond the bounds counted as the bound."""
        return self._units.clipped

    @property
    def skipped(self) -> int:
        """How many losses the policy left out of its estimates because they were too large."""
        row = self._policy.traits.skipped_row
        return 0 if row is None else int(self._core.F[self._core.start + row])

    @property
    def pending(self) -> list[int]:
        """The ids of the decisions that wait for feedback."""
        return self._core.pending

    def awaits(self, id: int) -> bool:
        """Return whether the decision with this id waits for feedback.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.Bandit(bw.TsallisINF(), arms=2, seed=7)
        >>> bandit.awaits(bandit.ask().id)
        True
        """
        return self._core.awaits(id)

    def probabilities(self) -> dict[Arm, float]:
        """Return how likely every arm is in the next round, drawing nothing.

        Raises
        ------
        InvalidParameter
            If the policy cannot tell, as Thompson sampling.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.Bandit(bw.TsallisINF(), arms=["blue", "green"], seed=7)
        >>> {name: round(p, 12) for name, p in bandit.probabilities().items()}
        {'blue': 0.5, 'green': 0.5}
        """
        policy = self._policy
        if not policy.traits.knows_probability:
            expected = "one that knows its probabilities"
            raise invalid("policy", "Bandit.probabilities", expected, policy)
        with self._quiet:
            return self._core.probabilities()

    def history(self) -> dict[Arm, ArmHistory]:
        """Return the history of every arm, retired ones included.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.Bandit(bw.UCB1(), arms=["blue", "green"], seed=7)
        >>> bandit.tell(bandit.ask(), reward=0.75)
        >>> bandit.history()["blue"]
        ArmHistory(pulls=1, told=1, mean_loss=0.25, estimate=None, retired=False, mean_reward=0.75)
        """
        with self._quiet:
            return self._core.history(self._units.bounds)

    def report(self, confidence: float = 0.95, *, drift: bool = False) -> Report:
        """Return how good every arm is, with confidence intervals.

        Every arm has a mean in the user's units that allows for how the arm was chosen, an
        interval valid at a time fixed in advance, and a confidence sequence valid at all times.
        Every pair has a gap: by how much one arm beats the other with confidence. A statement
        that would not be sound is missing, and `why` gives the reason. The sums are updated in
        the order of the decisions: feedback waits while an earlier decision is pending, so that
        the statements hold even if the delay depends on the outcome. `expire` closes decisions
        that get no feedback. Sums do not grow with the rounds. Feedback that waits takes at most
        8 MB, 31,775 answers with 8 arms; beyond that, evidence continues without the oldest pending
        decisions, and the report counts their answers when they come.

        Parameters
        ----------
        confidence : float, default 0.95
            The confidence of every statement, in [0.5, 0.999].
        drift : bool, default False
            Whether sequences and gaps must hold for means that move. They then refer to the
            average of the means over the rounds, in which early rounds weigh more, and there is
            no interval at a fixed time.

        Returns
        -------
        Report
            A mapping from arms to their reports.

        Raises
        ------
        InvalidParameter
            If nothing was kept: with ``evidence=False``, with more than 64 arms and neither
            ``evidence=True`` nor a `Floor`, or with 512 arms or more.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.Bandit(bw.Floor(bw.TsallisINF(), 0.5), arms=["blue", "green"], seed=7)
        >>> for t in range(2000):
        ...     decision = bandit.ask()
        ...     bandit.tell(decision, reward=float(t % 5 < (3 if decision.arm == "green" else 1)))
        >>> report = bandit.report()
        >>> low, high = report["green"].interval
        >>> low < 0.6 < high, report.gap("green", "blue") > 0.1
        (True, True)
        """
        from bothworlds.evidence.bounds import checked_confidence
        from bothworlds.evidence.report import Report, Units

        owner = "Bandit.report"
        sure = checked_confidence(confidence, owner)
        with self._lock:
            evidence = self._kept_evidence(owner).copy()
            waiting, overtaken = self._core.keeper.waiting_by_arm(), self._core.keeper.overtaken
        counts = [(arm.pulls, arm.told) for arm in self.history().values()]
        return Report(
            evidence,
            list(self._core.roster.names),
            counts,
            Units(self._units.bounds, self._units.rewards),
            confidence=sure,
            drift=bool(drift),
            floored=self._policy.traits.floored,
            source=f"{self._policy!r}, round {self._core.round:,}",
            waiting=waiting,
            overtaken=overtaken,
        )

    def alarms(self) -> list[Alarm]:
        """Return the arms whose losses have changed, when, and with which confidence.

        Every arm's own losses are tested for a change of their mean as feedback arrives; after an
        alarm the test of that arm restarts. The policy does not react: `bothworlds.Alarmed` is
        the policy that restarts after an alarm. `bothworlds.AllWorlds` reacts to tests of its own;
        their last alarm of every arm is listed with its ``kind``, "level" or "side", also where no
        evidence is kept.

        A false alarm in a whole run has a probability of about 1 %, which is argued and not
        proved. An improvement can be detected only on arms that are still played, as with a
        `Floor`.

        Returns
        -------
        list of Alarm
            The latest 64, the oldest first.

        Raises
        ------
        InvalidParameter
            If nothing was kept; see `report`.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.Bandit(bw.TsallisINF(), arms=["blue", "green"], seed=7, evidence=True)
        >>> for t in range(400):
        ...     decision = bandit.ask()
        ...     bandit.tell(decision, loss=float((decision.arm == "green") == (t >= 200)))
        >>> alarm = bandit.alarms()[0]
        >>> alarm.arm, alarm.before, alarm.after, 200 < alarm.round < 230
        ('green', 0.0, 1.0, True)
        """
        from bothworlds.bandit.alarms import acted_on
        from bothworlds.evidence.report import Units

        with self._lock:
            core = self._core
            units = Units(self._units.bounds, self._units.rewards)
            sounded = core.policy.sounded(columns(core.F, core.policy))
            own = acted_on(sounded, core.lineup.names, units.value)
            if own and core.keeper.alarms is None:
                return own
            self._kept_evidence("Bandit.alarms")
            assert core.keeper.alarms is not None
            heard = core.keeper.alarms.heard(core.roster.names, units.value)
            return sorted([*heard, *own], key=lambda each: each.round)

    def _kept_evidence(self, owner: str) -> Evidence:
        """Return the sums of all feedback, or refuse where none are kept."""
        evidence = self._core.keeper.evidence
        if evidence is None and len(self._core.roster.names) < MANY_ARMS:
            expected = "kept from the start, by Bandit(..., evidence=True) or a Floor"
            raise invalid("evidence", owner, expected, None)
        if evidence is None:
            expected = f"fewer than {MANY_ARMS}, so that sums are kept of each"
            raise invalid("number of arms", owner, expected, len(self))
        return evidence

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Draw the probabilities over time, the means with intervals, and the counts.

        Parameters
        ----------
        path : path, optional
            Where to write the figure: .png, .pdf or .svg.
        """
        from bothworlds.evidence.plot import plot_bandit

        report = self.report()
        return plot_bandit(report, report.evidence, report.source, path)

    def __len__(self) -> int:
        return len(self._core)

    def __repr__(self) -> str:
        units = (
            ""
            if self._units.bounds in ((0.0, 1.0), UNBOUNDED)
            else f", bounds={self._units.bounds}"
        )
        units += ", clip=True" if self._units.clip else ""
        # Behind a hash, so that the line can be pasted back.
        skipped = f"  # {self.skipped} losses skipped" if self.skipped else ""
        made = f"Bandit({self._policy!r}, arms={list(self.arms)}, seed={self._seed}{units})"
        return made + skipped

    def _repr_html_(self) -> str:
        known = self.probabilities() if self._policy.traits.knows_probability else {}
        caption = f"{self._policy!r}, round {self.round}"
        if self._policy.traits.skipped_row is not None:
            caption += f", {self.skipped} losses skipped"
        return html_table(caption, self.history(), known, self._units.rewards)

    # --- keeping -------------------------------------------------------------------------------

    def _document(self) -> dict[str, Any]:
        return content_of(self._core, self._keys, self._units)

    def _canonicalise(self) -> None:
        self._core.canonicalise()

    @classmethod
    def _restored(cls, policy: Policy, document: dict[str, Any]) -> Self:
        if not isinstance(policy, Policy):
            raise ValueError("a policy of another kind")
        bandit = cls.__new__(cls)
        bandit._open(*core_of(policy, document))
        bandit._guard()
        return bandit

    def _copy(self, seed: int | None) -> Self:
        made = type(self).__new__(type(self))
        made._open(self._core.copy(seed), self._keys.copy(), self._units.copy())
        return made
