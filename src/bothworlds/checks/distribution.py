"""Checks of the distribution a policy draws from."""

from __future__ import annotations

import numpy as np

from bothworlds.checks.report import NotApplicable, Violation
from bothworlds.checks.subject import Counts, Inspected
from bothworlds.checks.tolerances import goodness_of_fit, homogeneity
from bothworlds.policies.base import Array

UNKNOWN = "the policy does not know its probabilities"
SIMPLEX_TOLERANCE = 1e-12
ROUNDING = 1e-9
"""How far rounding may carry quantities that agree in exact arithmetic."""
DRAWS = 20_000


def simplex(inspected: Inspected) -> str:
    """Probabilities are numbers >= 0 that sum to 1, and the drawn arm has the one reported."""
    rounds = 2_500
    F = inspected.fresh("simplex")
    losses = inspected.losses(rounds, "simplex")
    # In the second half one arm is always right, which drives the probabilities of the other arms
    # towards 0.
    losses[rounds // 2 :] = 1.0
    losses[rounds // 2 :, 0] = 0.0
    worst = 0.0
    reported = 0
    for t in range(1, rounds + 1):
        arm = inspected.ask(F, t)
        inverse_p = inspected.inverse_p(F)
        if not (inverse_p == 0.0 or inverse_p >= 1.0 - SIMPLEX_TOLERANCE):
            raise Violation(f"1 / probability was {inverse_p:.17g} in round {t}")
        if inspected.knows_weights:
            w = inspected.weights(F)
            if not np.all(w >= 0.0):
                raise Violation(f"a probability was {w[~(w >= 0.0)][0]:.3g} in round {t}")
            worst = max(worst, abs(float(w.sum()) - 1.0))
            if worst > SIMPLEX_TOLERANCE:
                raise Violation(f"probabilities summed to {w.sum():.15g} in round {t}")
            if not abs(inverse_p * w[arm] - 1.0) <= ROUNDING:
                raise Violation(
                    f"arm {arm} was drawn as if its probability were {1.0 / inverse_p:.9g}, "
                    f"but it was {w[arm]:.9g} in round {t}"
                )
        reported += inverse_p > 0.0
        inspected.tell(F, arm, inverse_p, losses[t - 1, arm])
    if not reported:
        raise NotApplicable(UNKNOWN)
    if not inspected.knows_weights:
        return f"the drawn arm's probability was in (0, 1] in {rounds} rounds"
    return f"sums within {worst:.1g} of 1 in {rounds} rounds"


def permutation(inspected: Inspected) -> str:
    """Renaming the arms renames the probabilities and changes nothing else."""
    order = inspected.rng("permutation").permutation(inspected.n_arms)
    if np.array_equal(order, np.arange(inspected.n_arms)):
        order = np.roll(order, 1)
    same = inspected.permuted(order)
    if inspected.knows_weights:
        return _permuted_weights(inspected, same, order)
    return _permuted_plays(inspected, same, order)


def _permuted_weights(inspected: Inspected, same: Inspected, order: Counts) -> str:
    """Compare the probabilities of both, fed with the same feedback, round by round."""
    K = inspected.n_arms
    F, same_F = inspected.fresh("permutation"), same.fresh("permutation")
    warmup, rounds = 3 * K, 200
    losses = inspected.losses(warmup + rounds, "permutation")
    worst = 0.0
    for t in range(1, warmup + rounds + 1):
        # Every arm is played first: policies break ties between untried arms by their order.
        if t <= warmup:
            arm = (t - 1) % K
            inspected.ask_for(F, t, arm)
            same.ask_for(same_F, t, int(order[arm]))
        else:
            arm = inspected.ask(F, t)
            same.ask(same_F, t)
        w, same_w = inspected.weights(F), same.weights(same_F)
        if t > warmup:
            apart = np.abs(same_w[order] - w)
            worst = max(worst, float(apart.max()))
            if not worst <= ROUNDING:
                at = int(apart.argmax())
                raise Violation(
                    f"with the arms renamed, arm {at} had probability {same_w[order[at]]:.9g} "
                    f"instead of {w[at]:.9g} in round {t}"
                )
        inverse_p = 1.0 / w[arm] if w[arm] > 0.0 else 1.0
        inspected.learn(F, arm, inverse_p, losses[t - 1, arm])
        same.learn(same_F, int(order[arm]), inverse_p, losses[t - 1, arm])
    return f"equal within {worst:.1g} in {rounds} rounds"


def _permuted_plays(inspected: Inspected, same: Inspected, order: Counts) -> str:
    """Compare the last arm of many independent runs, where probabilities are not known."""
    rounds, runs = 60, 1_000
    counts, same_counts = np.zeros((2, inspected.n_arms), np.int64)
    for run in range(runs):
        losses = inspected.losses(rounds, "permutation", run)
        renamed = np.empty_like(losses)
        renamed[:, order] = inspected.losses(rounds, "permutation", "same", run)
        arms, _ = inspected.play(inspected.fresh("permutation", run), 1, rounds, losses)
        counts[arms[-1]] += 1
        arms, _ = same.play(same.fresh("permutation", "same", run), 1, rounds, renamed)
        same_counts[arms[-1]] += 1
    value, limit = homogeneity(counts, same_counts[order])
    if value > limit:
        raise Violation(
            f"with the arms renamed, they came {same_counts[order].tolist()} instead of "
            f"{counts.tolist()} times in round {rounds} of {runs} runs, "
            f"chi-square {value:.3g} over {limit:.3g}"
        )
    return f"round {rounds} of {runs} runs, chi-square {value:.3g} below {limit:.3g}"


def frequencies(inspected: Inspected) -> str:
    """Arms are drawn as often as their probabilities state, many times from one state."""
    F = inspected.fresh("frequencies")
    losses = inspected.losses(1_000, "frequencies")
    largest, t = 0.0, 0
    for last in (7, 63, 511):
        inspected.play(F, t + 1, last, losses)
        t = last
        counts, p = _drawn_and_said(inspected, F.copy(), t + 1)
        never = (counts > 0) & ~(p > 0.0)
        if never.any():
            arm = int(np.flatnonzero(never)[0])
            raise Violation(
                f"arm {arm} was drawn in round {t + 1}, though its probability was {p[arm]:g}"
            )
        value, limit = goodness_of_fit(counts, p)
        if value > limit:
            raise Violation(
                f"arms with probabilities {np.round(p, 4).tolist()} came {counts.tolist()} times "
                f"in round {t + 1}, chi-square {value:.3g} over {limit:.3g}"
            )
        largest = max(largest, value / limit)
    return f"{DRAWS} draws at 3 rounds, chi-square at most {largest:.2f} of its limit"


def _drawn_and_said(inspected: Inspected, F: Array, t: int) -> tuple[Counts, Array]:
    """Return how often every arm came in round t, and the probability the policy reports."""
    counts, inverse_p = inspected.draw(F, t, DRAWS)
    if inspected.knows_weights:
        return counts, inspected.weights(F)
    if not inverse_p.any():
        raise NotApplicable(UNKNOWN)
    # Only drawn arms report a probability; the rest of it belongs to arms that never came.
    p = np.divide(1.0, inverse_p, out=np.zeros(inspected.n_arms), where=inverse_p > 0.0)
    return np.append(counts, 0), np.append(p, max(0.0, 1.0 - p.sum()))
