"""Replay of a log: the bandit that has learned from decisions of another one.

Every logged decision becomes one of the bandit's: it is asked, its own draw is put aside for the
logged arm, and the feedback is weighted with the logged probability.  Loss estimates are unbiased
for the log of any policy, because only the probability of the logged arm enters, and baselines
were known before.  If the same policy wrote the log, the bandit has the estimates of the one that
did.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from bothworlds.bandit.bandit import Bandit
from bothworlds.bandit.core import adopt
from bothworlds.bandit.decision import Arm
from bothworlds.errors import invalid
from bothworlds.logs.jsonl import joined, read_jsonl
from bothworlds.logs.record import LoggedDecision, recorded
from bothworlds.policies.base import Policy

Rows = str | os.PathLike[str] | Iterable[LoggedDecision | Mapping[str, Any]]


def replay(
    policy: Policy,
    log: Rows,
    *,
    arms: Iterable[Arm] | int | None = None,
    seed: int | None = 0,
    bounds: tuple[float, float] | None = None,
) -> Bandit:
    """Return the bandit that would have learned from a log.

    Parameters
    ----------
    policy : Policy
        The algorithm, which need not be the one that wrote the log.
    log : path or iterable
        What ``Bandit(..., log=...)`` wrote: JSON lines, or rows as `LoggedDecision` or mappings,
        in the order of the events. A row may be a decision, the feedback of an earlier one of the
        same round, or both at once.
    arms : sequence of str or int, or int, optional
        The arms; by default those that the log names, in their order.
    seed, bounds
        As in `Bandit`; the bounds in the units of the log.

    Returns
    -------
    Bandit
        Decisions without feedback are pending.

    Raises
    ------
    InvalidParameter
        If a row is no decision; names the row and what is wrong with it.

    Examples
    --------
    >>> import bothworlds as bw
    >>> lines = []
    >>> bandit = bw.Bandit(bw.TsallisINF(), arms=["blue", "green"], seed=7, log=lines.append)
    >>> for _ in range(100):
    ...     decision = bandit.ask()
    ...     bandit.tell(decision, reward=decision.arm == "green")
    >>> again = bw.replay(bw.TsallisINF(), lines)
    >>> again.round, round(again.probabilities()["green"] - bandit.probabilities()["green"], 9)
    (100, 0.0)
    """
    owner = "replay"
    if arms is None:
        kept = list(_rows(log))
        if not kept:
            raise invalid("log", owner, "one row or more, or given with arms", [])
        arms = list(_named(kept))
        events: Iterable[tuple[int, LoggedDecision]] = kept
    else:
        events = _rows(log)
    bandit = Bandit(policy, arms, seed=seed, bounds=bounds)
    ids: dict[int, int] = {}
    for number, row in events:
        where = f"row {number} of the log"
        known = ids.pop(row.round, None)
        if known is None:
            known = adopt(
                bandit._core, bandit._core.roster.slot(row.arm, where, "arm"), row.probability
            )
        answered = row.loss is not None or row.reward is not None
        if answered:
            bandit._learn(known, row.reward, row.loss)
        elif row.round in ids:
            raise invalid("round", where, "new", row.round)
        else:
            ids[row.round] = known
    return bandit


def _rows(log: Rows) -> Iterator[tuple[int, LoggedDecision]]:
    """Yield the rows of a log with their numbers, from 1."""
    rows = read_jsonl(log) if isinstance(log, str | os.PathLike) else log
    if not isinstance(rows, Iterable):
        raise invalid("log", "replay", "a path or rows", log)
    for number, row in enumerate(rows, start=1):
        if isinstance(row, Mapping):
            where = f"row {number} of the log"
            row = recorded(joined(row, where), where)
        if not isinstance(row, LoggedDecision):
            expected = "a LoggedDecision or a mapping with round and arm"
            raise invalid(f"row {number}", "the log", expected, row)
        yield number, row


def _named(rows: Iterable[tuple[int, LoggedDecision]]) -> dict[Arm, None]:
    """Return the arms of a log in the order in which it names them."""
    found: dict[Arm, None] = {}
    for _, row in rows:
        for arm in row.probabilities or ():
            found.setdefault(arm)
        found.setdefault(row.arm)
    return found
