"""Check of the functions a user wrote: indices inside their arrays, values as they must be."""

from __future__ import annotations

from bothworlds.checks.report import NotApplicable, Violation
from bothworlds.checks.subject import Inspected
from bothworlds.engine.replay import World
from bothworlds.errors import KernelError
from bothworlds.usercode import REHEARSED


def functions(subject: Inspected | World) -> str:
    """Rehearse the functions of a policy or environment, as before a simulation."""
    rounds = REHEARSED
    owner = subject.policy.traits if isinstance(subject, Inspected) else subject.environment
    if owner.trusted:
        raise NotApplicable("no function is a user's")
    try:
        if isinstance(subject, Inspected):
            subject.policy.rehearse(subject.n_arms, type(subject.policy).__name__, rounds)
        else:
            rounds = subject.rounds(REHEARSED)
            subject.environment.rehearse(rounds)
    except KernelError as error:
        raise Violation(str(error).rstrip(".")) from None
    return f"{rounds} rounds, every index and value checked"
