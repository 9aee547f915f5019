"""`check_policy`: the properties every policy must have, for those of this package and yours."""

from __future__ import annotations

from collections.abc import Iterable

from bothworlds.arguments import whole
from bothworlds.checks.distribution import frequencies, permutation, simplex
from bothworlds.checks.estimation import shift_invariance, unbiased_estimates
from bothworlds.checks.feedback import bad_feedback, delayed_feedback
from bothworlds.checks.functions import functions
from bothworlds.checks.learning import better_than_uniform, constant_losses, lanes
from bothworlds.checks.persistence import same_seed, save_and_load
from bothworlds.checks.report import Check, Report, checked_skip, run_checks
from bothworlds.checks.subject import Inspected
from bothworlds.errors import invalid
from bothworlds.policies.base import Policy
from bothworlds.seeding import checked_seed

POLICY_CHECKS: dict[str, Check[Inspected]] = {
    check.__name__: check
    for check in (
        functions,
        simplex,
        permutation,
        frequencies,
        unbiased_estimates,
        shift_invariance,
        constant_losses,
        better_than_uniform,
        delayed_feedback,
        bad_feedback,
        same_seed,
        save_and_load,
        lanes,
    )
}


def check_policy(
    policy: Policy, n_arms: int | None = None, seed: int = 0, skip: str | Iterable[str] = ()
) -> Report:
    """Check the properties that every policy must have.

    ====================== =================================================================
    check                  property
    ====================== =================================================================
    functions              those a user wrote stay inside their arrays and give what they must
    simplex                probabilities are >= 0, sum to 1 within 1e-12, and the drawn arm
                           has the one reported with it
    permutation            renaming the arms renames the probabilities
    frequencies            arms are drawn as often as their probabilities state
    unbiased_estimates     the expected growth of every loss estimate is the arm's loss
    shift_invariance       adding one number to all loss estimates changes nothing
    constant_losses        a million rounds of loss 0 and of loss 1 without overflow
    better_than_uniform    less regret than the uniform policy where one arm is better
    delayed_feedback       late or shuffled feedback teaches the same
    bad_feedback           feedback that cannot be meant is refused, and nothing changes
    same_seed              one seed, one run; another seed, another run
    save_and_load          a saved bandit continues bit for bit, decisions pending
    lanes                  a tile of repetitions is as many single bandits, bit for bit
    ====================== =================================================================

    What a policy does not have (probabilities, estimates, kernels for tiles) is reported as not
    applicable. Statistical checks err once in a million, and with a fixed seed always alike.

    Parameters
    ----------
    policy : Policy
        One of this package, or your own.
    n_arms : int, optional
        Number of arms, at least 2; by default 5, or as many as the policy has ``gaps``.
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
    >>> report = bw.checks.check_policy(bw.TsallisINF())
    >>> report["unbiased_estimates"].status
    'passed'
    >>> bw.checks.check_policy(bw.Uniform())
    Traceback (most recent call last):
    ...
    bothworlds.errors.CheckFailed: The policy Uniform() must pass every check, got better_than...
    """
    owner = "check_policy"
    if not isinstance(policy, Policy):
        raise invalid("policy", owner, "a policy such as TsallisINF()", policy)
    if n_arms is None:
        gaps = getattr(policy, "gaps", None)
        n_arms = 5 if gaps is None else len(gaps)
    whole("n_arms", n_arms, owner, 2, "a whole number >= 2")
    skipped = checked_skip(skip, POLICY_CHECKS, owner)
    inspected = Inspected(policy, int(n_arms), checked_seed(seed, owner))
    return run_checks("policy", repr(policy), inspected, POLICY_CHECKS, skipped)
