"""Checks of a policy over many rounds: numbers stay valid, and it learns."""

from __future__ import annotations

import numpy as np

from bothworlds.bandit.state import first_row
from bothworlds.checks.distribution import SIMPLEX_TOLERANCE
from bothworlds.checks.report import NotApplicable, Violation
from bothworlds.checks.subject import Inspected
from bothworlds.checks.tolerances import Z, trimmed_error
from bothworlds.engine import policy_loops as rollout
from bothworlds.environments import Stochastic
from bothworlds.lanes.kernels import GENERATOR, HEAD
from bothworlds.lanes.types import LANES
from bothworlds.policies import Uniform
from bothworlds.policies.base import Policy
from bothworlds.simulation import simulate
from bothworlds.simulation.result import TRIM, trimmed_mean

LONG = 10**6


def constant_losses(inspected: Inspected) -> str:
    """A million rounds of loss 0, and of loss 1, leave nothing infinite and nothing undefined."""
    for loss in (0.0, 1.0):
        F = inspected.fresh("constant", loss)
        _, inverse_p = inspected.play(F, 1, LONG, np.full((1, inspected.n_arms), loss))
        wrong = ~((inverse_p >= 1.0 - SIMPLEX_TOLERANCE) | (inverse_p == 0.0))
        wrong |= ~np.isfinite(inverse_p)
        if wrong.any():
            t = int(wrong.argmax())
            raise Violation(
                f"1 / probability was {inverse_p[t]:.3g} in round {t + 1} of constant loss {loss:g}"
            )
        state = F[first_row(F) :]
        if not np.isfinite(state).all():
            raise Violation(
                f"{np.count_nonzero(~np.isfinite(state))} numbers of the state were not finite "
                f"after {LONG:,} rounds of constant loss {loss:g}"
            )
    return f"{LONG:,} rounds of each"


def better_than_uniform(inspected: Inspected) -> str:
    """Where one arm is better, the policy plays it more often than a fair die would."""
    horizon, repetitions, gap = 2_000, 320, 0.25
    world = Stochastic.gap(inspected.n_arms, gap)
    known = getattr(inspected.policy, "gaps", None)
    if known is not None:
        # The order of the arms is part of such a policy's configuration.
        gaps = np.asarray(known, dtype=np.float64)
        world = Stochastic(gaps + 0.5 * (1.0 - gaps.max()), shuffle=False)
    policies: dict[str, Policy] = {"checked": inspected.policy, "uniform": Uniform()}
    result = simulate(
        policies,
        world,
        horizon=horizon,
        repetitions=repetitions,
        seed=inspected.seed,
        checkpoints=[horizon],
        progress=False,
    )
    regret = {name: result.regret[name][:, -1] for name in policies}
    saved = regret["uniform"] - regret["checked"]
    least = Z * trimmed_error(saved, TRIM)
    means = {name: float(trimmed_mean(values)) for name, values in regret.items()}
    found = (
        f"regret {means['checked']:.1f} against {means['uniform']:.1f} of the uniform policy "
        f"after {horizon:,} rounds"
    )
    if not trimmed_mean(saved) > least:
        raise Violation(f"{found}, a difference of at least {least:.1f} was needed")
    return f"{found}, {repetitions} runs"


def lanes(inspected: Inspected) -> str:
    """A tile of repetitions walks, lane by lane, the path of single bandits, bit for bit."""
    if not inspected.kernels.wide:
        raise NotApplicable("the kernels take one repetition at a time")
    rounds, K = 1_100, inspected.n_arms
    losses = inspected.losses(rounds, "lanes")
    singles = [inspected.fresh("lanes", lane) for lane in range(LANES)]
    row = first_row(singles[0])
    C = np.append(singles[0][HEAD:row], 0.0)
    S = np.stack([F[row:] for F in singles], axis=1).ravel()
    G = np.stack([F[GENERATOR:HEAD].view(np.int64) for F in singles], axis=1).ravel()
    arms = rollout.play_tile(inspected.kernels, K, rounds, C, S, G, losses)
    for lane, F in enumerate(singles):
        single_arms, _ = inspected.play(F, 1, rounds, losses)
        differs = single_arms != arms[:, lane]
        if differs.any():
            t = int(differs.argmax())
            raise Violation(
                f"lane {lane} drew arm {arms[t, lane]} in round {t + 1} where the single bandit "
                f"drew {single_arms[t]}"
            )
        state = S.reshape(-1, LANES)[:, lane].copy()
        own = inspected.policy.traits.bandit_only(K)
        state[own] = F[row:][own]
        if not np.array_equal(state, F[row:], equal_nan=True):
            at = int((state != F[row:]).argmax())
            raise Violation(
                f"row {at} of lane {lane} was {state[at]:.17g} after {rounds} rounds where the "
                f"single bandit had {F[row + at]:.17g}"
            )
    return f"{LANES} lanes, {rounds} rounds, equal bit for bit"
