"""Report of an experiment: how good every arm is, and values of targets, from its log.

The log has the probability of the arm that was played, and not those of other arms: they would
make a record as long as the experiment has arms. That one probability suffices for what is exact
here. Weighting an answer by its inverse gives, for every arm and for every target, terms whose
expectation is the arm's or the target's mean regardless of what was known before: means, confidence
sequences and off-policy values need nothing else. An interval for a time fixed in advance needs
weights that even out the noise of adaptive draws, made of every arm's probability at every
decision, and is left out; the sequence holds at that time, too.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from bothworlds.serve.domain.experiment import Snapshot
from bothworlds.serve.domain.state import DAY
from bothworlds.serve.domain.tokens import first_identity
from bothworlds.serve.ops.away import Desk
from bothworlds.serve.ops.experts import Experts
from bothworlds.serve.ops.tallies import Closing, DecisionColumns, Means, Summed, Tally, Worth
from bothworlds.serve.ops.upkeep import GRACE
from bothworlds.serve.problems import Problem

if TYPE_CHECKING:
    from bothworlds.serve.domain.service import Principal, Service

MOST_TARGETS = 16
"""Targets of one report: each reads the log once."""
FRESH = 10.0
"""Seconds for which the log may still get decisions between others."""
UNIFORM, ARM = "uniform", "arm:"


async def report(
    service: Service, who: Principal, name: str, confidence: float, targets: Sequence[str] = ()
) -> dict[str, Any]:
    """Return how good every arm is and how certain that is, from the log of the current epoch.

    Decisions count whose mode was learn or uniform, and feedback that was learned, in the order of
    the decisions (`bothworlds.serve.ops.tallies`). A process of its own (`ops.away`) reads and
    counts what is new since the last report; it computes one report at a time.

    Parameters
    ----------
    service : Service
        Whose log it is.
    who : Principal
        The caller.
    name : str
        The experiment.
    confidence : float
        Confidence of every statement.
    targets : sequence of str
        ``uniform`` for a draw among the arms that could be drawn, ``arm:NAME`` for one arm, over
        the decisions in which it could be drawn.
    """
    if len(targets) > MOST_TARGETS:
        raise Problem("invalid_request", f"A report has at most {MOST_TARGETS} targets.")
    state, experiment = service.state, service.experiment_state(who, name).snapshot()
    for target in targets:
        _check_target(target, experiment.names)
    salt = state.configuration.incarnations[-1].salt
    return await state.report(computed, experiment, salt, state.now(), confidence, tuple(targets))


def computed(
    desk: Desk, experiment: Snapshot, salt: bytes, now: float, confidence: float,
    targets: Sequence[str],
) -> dict[str, Any]:  # fmt: skip
    """Return a report as JSON values; by the thread or the process that makes reports."""
    return _Asked(desk, experiment, salt, now).answer(confidence, targets)


class _Asked:
    """A report of an experiment, as that was when the report was asked for."""

    def __init__(self, desk: Desk, experiment: Snapshot, salt: bytes, now: float) -> None:
        self.names = experiment.names
        self._desk = desk
        self._id, self._epoch = experiment.id, experiment.epoch
        self._config = experiment.config
        self._now = now
        # What closes a decision is part of the key: a wider window opens decisions again.
        self._key = (
            self._id, self._epoch, salt,
            self._config.feedback_window, self._config.missing,
        )  # fmt: skip
        self._source = f"{experiment.name}, epoch {self._epoch}"
        self._weights = experiment.weights

    def answer(self, confidence: float, targets: Sequence[str]) -> dict[str, Any]:
        """Return the report as JSON values."""
        bounds = self._config.bounds
        now, waiting = self._followed(None, Means())
        assert isinstance(now.sums, Means)
        made = now.sums.report(
            waiting, now.overtaken, self.names, bounds, confidence, self._source,
            bool(self._weights),
        )  # fmt: skip
        if made is None:
            raise Problem("nothing_logged")
        found = made.as_dict()
        if self._weights:
            now, _ = self._followed(Experts, Experts(self._config.experts))
            assert isinstance(now.sums, Experts)
            found["experts"] = now.sums.document(self._weights, bounds, confidence)
        if targets:
            found["targets"] = {target: self._worth(target, confidence) for target in targets}
        return found

    def _worth(self, target: str, confidence: float) -> dict[str, Any] | None:
        arm = None if target == UNIFORM else self.names.index(target.removeprefix(ARM))
        now, _ = self._followed(target, Worth(arm, self._config.bounds))
        assert isinstance(now.sums, Worth)
        value = now.sums.value(confidence)
        return None if value is None else value.as_dict()

    def _followed(self, kind: Hashable, blank: Summed) -> tuple[Tally, DecisionColumns]:
        """Return the current sums, and the pending decisions; cache the settled ones."""
        reader, tallies = self._desk.reader, self._desk.tallies
        key, known = (*self._key, kind), len(self.names)
        strict = self._config.missing != "drop"
        over = self._now - self._config.feedback_window - GRACE
        closing = Closing(reader.swept(self._id) if strict else first_identity(over), strict)
        tally = tallies.find(key)
        if tally is None or not tally.sound(reader, closing, known):
            tally = Tally(blank, self._id, self._epoch)
        tallies.keep(key, tally)
        before = first_identity(self._now + DAY)
        pages = tally.pages(reader, before, self._desk.check)
        return tally.follow(pages, closing, first_identity(self._now - FRESH), known)


def _check_target(target: str, arms: Sequence[str]) -> None:
    if target == UNIFORM:
        return
    if not target.startswith(ARM):
        raise Problem("invalid_request", "A target is `uniform`, or `arm:` and an arm's name.")
    if target.removeprefix(ARM) not in arms:
        raise Problem("arm_not_found", f"There is no arm {target.removeprefix(ARM)[:100]!r}.")
