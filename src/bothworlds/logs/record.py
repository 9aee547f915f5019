"""Logged decision: the arm played, its probability and its outcome."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from bothworlds.arguments import Arm, is_name, is_number, is_whole
from bothworlds.errors import DecisionClosed, invalid

SUM_TOLERANCE = 1e-6
"""Logs keep probabilities in single precision or as rounded decimals."""


class Drawn(Protocol):
    """The part of a bandit's decision that a log keeps."""

    @property
    def round(self) -> int:
        """The round in which it was drawn."""

    @property
    def arm(self) -> Arm:
        """The name of the arm."""

    @property
    def probability(self) -> float | None:
        """How likely the arm was, or None if the policy cannot tell."""

    @property
    def probabilities(self) -> Mapping[Arm, float] | None:
        """How likely every arm was, by name."""


@dataclass(frozen=True)
class LoggedDecision:
    """A decision as logs keep it.

    Parameters
    ----------
    round : int
        Number of the decision, from 1.
    arm : str or int
        What was played.
    probability : float, optional
        How likely that was, in (0, 1].
    loss, reward : float, optional
        The outcome, in any units; at most one of them, none if it is not known yet.
    probabilities : mapping of arms to float, optional
        How likely every arm was.
    extra : mapping of str to str, int or float, optional
        Further values of the log, such as a timestamp; kept, not interpreted.

    Examples
    --------
    >>> LoggedDecision(1, "blue", probability=0.5, loss=0.25).loss
    0.25
    >>> LoggedDecision(1, "blue", probability=1.5)
    Traceback (most recent call last):
    ...
    bothworlds.errors.InvalidParameter: The probability of LoggedDecision must be a number ...
    """

    round: int
    arm: Arm
    probability: float | None = None
    loss: float | None = None
    reward: float | None = None
    probabilities: Mapping[Arm, float] | None = None
    extra: Mapping[str, str | int | float] = field(default_factory=dict)
    advice: Mapping[Arm, Any] | None = None
    experts: Mapping[Arm, float] | None = None

    def __post_init__(self) -> None:
        wrong = fault(vars(self))
        if wrong is not None:
            parameter, expected, got = wrong
            raise invalid(parameter, "LoggedDecision", expected, got)

    @classmethod
    def of(
        cls,
        decision: Drawn,
        *,
        loss: float | None = None,
        reward: float | None = None,
        **extra: str | int | float,
    ) -> LoggedDecision:
        """Return the record of a bandit's decision.

        Parameters
        ----------
        decision : Decision
            What `Bandit.ask` returned.
        loss, reward : float, optional
            The outcome.
        **extra : str, int or float
            Further values to keep with it.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.Bandit(bw.TsallisINF(), arms=["blue", "green"], seed=1)
        >>> decision = bandit.ask()
        >>> logged = LoggedDecision.of(decision, reward=1.0, user="eve")
        >>> logged.arm == decision.arm, logged.extra
        (True, {'user': 'eve'})
        """
        # Where the weights of a few arms are divided by their sum, rounding can exceed 1.
        p = None if decision.probability is None else min(decision.probability, 1.0)
        known = None
        # With many arms they can be gone, and would fill the log.
        with contextlib.suppress(DecisionClosed):
            known = decision.probabilities
        return cls(
            decision.round,
            decision.arm,
            p,
            loss,
            reward,
            None if known is None else {arm: min(share, 1.0) for arm, share in known.items()},
            extra,
        )


_WRITABLE = "text that UTF-8 can hold, without lone surrogates"


def _writable(text: str) -> bool:
    """Return whether a text can be written to a file."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def fault(values: Mapping[str, Any]) -> tuple[str, str, object] | None:
    """Return the fault in the values of a record: parameter, requirement, value."""
    round, arm, p = values.get("round"), values.get("arm"), values.get("probability")
    if not is_whole(round) or int(round) < 1:
        return "round", "a whole number >= 1", round
    if not is_name(arm):
        return "arm", "a name or a whole number", arm
    for name, given in (("round", round), ("arm", arm)):
        if is_whole(given) and not -(2**63) <= int(given) < 2**63:
            return name, "a whole number of at most 64 bits", given
    if isinstance(arm, str) and not _writable(arm):
        return "arm", _WRITABLE, arm
    if p is not None and not (is_number(p) and 0.0 < p <= 1.0):
        return "probability", "a number in (0, 1] or None", p
    for name in ("loss", "reward"):
        value = values.get(name)
        if value is not None and not is_number(value):
            return name, "a finite number or None", value
    if values.get("loss") is not None and values.get("reward") is not None:
        return "loss", "None where there is a reward", values["loss"]
    table = values.get("probabilities")
    if table is not None:
        expected = "a distribution over the arms, in which the played one has its probability"
        if not isinstance(table, Mapping) or not all(
            is_name(name) and is_number(share) and 0.0 <= share <= 1.0
            for name, share in table.items()
        ):
            return "probabilities", expected, table
        played = table.get(arm, math.nan)
        agrees = p is None or abs(played - p) <= SUM_TOLERANCE
        if not (agrees and played > 0.0 and abs(sum(table.values()) - 1.0) <= SUM_TOLERANCE):
            return "probabilities", expected, dict(table)
    for name in ("advice", "experts"):
        advice = values.get(name)
        if advice is not None and not (
            isinstance(advice, Mapping) and all(is_name(expert) for expert in advice)
        ):
            return name, "a mapping from experts", advice
    extra = values.get("extra", {})
    if not isinstance(extra, Mapping) or not all(
        isinstance(key, str) and (isinstance(value, str) or is_number(value))
        for key, value in extra.items()
    ):
        return "extra", "a mapping of names to texts or finite numbers", extra
    for key, value in extra.items():
        if not _writable(key) or (isinstance(value, str) and not _writable(value)):
            return "extra", _WRITABLE, extra
    return None


def recorded(values: dict[str, Any], where: str) -> LoggedDecision:
    """Return the record of these values, or raise an error that names ``where``.

    Examples
    --------
    >>> recorded({"round": 0, "arm": "blue"}, "line 3 of log.jsonl")
    Traceback (most recent call last):
    ...
    bothworlds.errors.InvalidParameter: The round of line 3 of log.jsonl must be a whole number ...
    """
    wrong = fault(values)
    if wrong is not None:
        parameter, expected, got = wrong
        raise invalid(parameter, where, expected, got)
    return LoggedDecision(**values)
