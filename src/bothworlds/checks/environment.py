"""`check_environment`: the properties every environment must have."""

from __future__ import annotations

from collections.abc import Iterable

from bothworlds.checks.configuration import horizon_limit, pickling, representation
from bothworlds.checks.functions import functions
from bothworlds.checks.regret import best_in_hindsight, corruption_budget, pseudo_regret
from bothworlds.checks.report import Check, Report, checked_skip, run_checks
from bothworlds.checks.streams import (
    enquiries,
    lanes,
    losses,
    oblivious,
    repetitions_differ,
    same_seed,
)
from bothworlds.engine.replay import World
from bothworlds.environments.base import Environment
from bothworlds.errors import invalid
from bothworlds.seeding import checked_seed

ENVIRONMENT_CHECKS: dict[str, Check[World]] = {
    check.__name__: check
    for check in (
        functions,
        losses,
        pseudo_regret,
        best_in_hindsight,
        same_seed,
        repetitions_differ,
        oblivious,
        enquiries,
        lanes,
        horizon_limit,
        corruption_budget,
        representation,
        pickling,
    )
}


def check_environment(
    environment: Environment, seed: int = 0, skip: str | Iterable[str] = ()
) -> Report:
    """Check the properties that every environment must have.

    ====================== =================================================================
    check                  property
    ====================== =================================================================
    functions              those a user wrote stay inside their arrays and give what they must
    losses                 every loss of every arm is a number in [0, 1], or finite if unbounded
    pseudo_regret          contributions to regret are gaps >= 0, one of them 0, or expected
                           losses; losses average to them
    best_in_hindsight      ``best_cumulative``, or what is tracked, is the sum of expected losses
    same_seed              one seed, one stream
    repetitions_differ     two repetitions have different losses, unless nothing is random
    oblivious              no loss depends on what was played before, unless regret is tracked
                           or the environment has ``adaptive = True``
    enquiries              asking for other arms in a round first changes nothing
    lanes                  a tile of repetitions is as many single ones, bit for bit
    horizon_limit          the last round exists, and none after it
    corruption_budget      an attack changes no more than its budget, all of it accounted
    representation         it prints in one line as its constructor, which seeds its streams
    pickling               it comes back from a pickle equal, and with the same stream
    ====================== =================================================================

    In duels a loss is that of the left side, and both sides' must sum to 1 on average.

    Parameters
    ----------
    environment : Environment
        One of this package, or your own.
    seed : int
        Makes the checks repeatable.
    skip : str or iterable of str
        Names of checks to leave out.

    Returns
    -------
    Report
        One outcome per check; prints as a table.

    Raises
    ------
    CheckFailed
        If a check fails; names all that do and what they found, and carries the ``report``.

    Examples
    --------
    >>> import bothworlds as bw
    >>> report = bw.checks.check_environment(bw.environments.Stochastic.gap(3, 0.25))
    >>> report["lanes"].found
    '16 lanes, 1000 rounds, equal bit for bit'
    """
    owner = "check_environment"
    if not isinstance(environment, Environment) or environment.kind == "advised":
        expected = "one of bothworlds.environments, not one with advice"
        raise invalid("environment", owner, expected, environment)
    skipped = checked_skip(skip, ENVIRONMENT_CHECKS, owner)
    world = World(environment, checked_seed(seed, owner))
    return run_checks("environment", repr(environment), world, ENVIRONMENT_CHECKS, skipped)
