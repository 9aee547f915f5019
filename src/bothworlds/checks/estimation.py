"""Checks of cumulative loss estimates, for policies that keep them."""

from __future__ import annotations

import numpy as np

from bothworlds.bandit.state import columns
from bothworlds.checks.distribution import ROUNDING
from bothworlds.checks.report import NotApplicable, Violation
from bothworlds.checks.subject import Inspected
from bothworlds.policies.base import Array

LEAST_PROBABILITY = 1e-4
TRIES = 10**6
ROUNDS = (17, 40, 90, 200, 450, 1000, 1100)
"""Rounds at which the estimators are enumerated: under reduced variance the early ones have a
baseline for every arm, the late ones for some."""


def _estimates(inspected: Inspected, F: Array) -> Array:
    return inspected.policy.estimated(columns(F, inspected.policy))


def _require_estimates(inspected: Inspected) -> None:
    if not inspected.policy.traits.estimates:
        raise NotApplicable("the policy keeps no cumulative loss estimates")
    if not inspected.knows_weights:
        raise NotApplicable("the policy does not know its probabilities")


def unbiased_estimates(inspected: Inspected) -> str:
    """Over the draw of the arm, every estimate grows by the arm's loss.

    With late feedback, or where the policy declares ``recentres``, all may move by one more number,
    which changes no probability.
    """
    _require_estimates(inspected)
    if not inspected.policy.traits.unbiased:
        raise NotApplicable("the policy declares unbiased = False")
    F = inspected.fresh("unbiased")
    losses = inspected.losses(max(ROUNDS), "unbiased")
    worst, states, t = 0.0, 0, 0
    for now in ROUNDS:
        inspected.play(F, t + 1, now - 1, losses)
        t = now - 1
        asked = F.copy()
        inspected.ask(asked, now)
        w = inspected.weights(asked)
        if not np.all(w >= LEAST_PROBABILITY):
            continue
        states += 1
        loss = losses[now - 1]
        for kind, mean in (
            ("with feedback at once", _mean_change(inspected, F, now, w, loss)),
            ("with late feedback", _mean_late_change(inspected, F, asked, w, loss)),
        ):
            error = np.abs(mean - loss)
            worst = max(worst, float(error.max()))
            if not worst <= ROUNDING:
                arm = int(error.argmax())
                raise Violation(
                    f"{kind}, the estimate of arm {arm} grows by {mean[arm]:.9g} in expectation "
                    f"for a loss of {loss[arm]:.9g} in round {now}"
                )
    if not states:
        raise NotApplicable(
            f"no round was met in which all probabilities are {LEAST_PROBABILITY} or more"
        )
    return f"largest bias {worst:.1g} over {states} states"


def _mean_change(inspected: Inspected, before: Array, t: int, w: Array, loss: Array) -> Array:
    """Return sum_j w_j dL^j, where dL^j is the change of L by ``tell`` when arm j was drawn."""
    mean = np.zeros(inspected.n_arms)
    for arm in range(inspected.n_arms):
        F = before.copy()
        if inspected.kernels.opens:
            # To draw again would add baselines again.
            drawn = _estimates(inspected, F).copy()
            inspected.ask_for(F, t, arm)
            inspected.tell(F, arm, 1.0 / w[arm], loss[arm])
            mean += w[arm] * (_estimates(inspected, F) - _remaining(inspected, drawn))
            continue
        counts, _ = inspected.draw(F, t, TRIES, wanted=arm)
        if not counts[arm]:
            raise Violation(
                f"arm {arm} with probability {w[arm]:.3g} did not come in {TRIES} draws"
            )
        drawn = _estimates(inspected, F).copy()
        inspected.tell(F, arm, inspected.inverse_p(F), loss[arm])
        mean += w[arm] * (_estimates(inspected, F) - _remaining(inspected, drawn))
    if inspected.policy.traits.recentres:
        mean += loss[0] - mean[0]
    return mean


def _remaining(inspected: Inspected, L: Array) -> Array:
    """Return the part of earlier estimates that remains when those of a round are added."""
    share = inspected.policy.traits.retained
    return L if share == 1.0 else share * (L - L.min())


def _mean_late_change(
    inspected: Inspected, before: Array, asked: Array, w: Array, loss: Array
) -> Array:
    """Return the same for feedback to a decision that is no longer the last one.

    Counted from arm 0's loss, because estimates may be recentred on this way.
    """
    mean = np.zeros(inspected.n_arms)
    for arm in range(inspected.n_arms):
        F = asked.copy()
        inspected.learn(F, arm, 1.0 / w[arm], loss[arm])
        # Where baselines are added at the decision, they are part of what it teaches.
        earlier = _estimates(inspected, before if inspected.kernels.opens else asked)
        mean += w[arm] * (_estimates(inspected, F) - _remaining(inspected, earlier))
    mean += loss[0] - mean[0]
    return mean


def shift_invariance(inspected: Inspected) -> str:
    """Adding one number to all loss estimates changes no probability."""
    _require_estimates(inspected)
    F = inspected.fresh("shift")
    losses = inspected.losses(300, "shift")
    worst, t = 0.0, 0
    for now in (20, 100, 300):
        inspected.play(F, t + 1, now - 1, losses)
        t = now - 1
        reference = _shifted_weights(inspected, F, now, 0.0)
        for shift in (0.375, -20.0, 1024.0):
            w = _shifted_weights(inspected, F, now, shift)
            error = np.abs(w - reference)
            worst = max(worst, float(error.max()))
            if not worst <= ROUNDING:
                arm = int(error.argmax())
                raise Violation(
                    f"with {shift:g} added to all estimates, arm {arm} has probability "
                    f"{w[arm]:.9g} instead of {reference[arm]:.9g} in round {now}"
                )
    return f"equal within {worst:.1g} for shifts up to 1024"


def _shifted_weights(inspected: Inspected, before: Array, t: int, shift: float) -> Array:
    F = before.copy()
    columns(F, inspected.policy)[0] += shift
    inspected.estimates_changed(F)
    inspected.ask(F, t)
    return inspected.weights(F)
