"""Checks of cumulative loss estimates, for policies that keep them."""

from __future__ import annotations

import numpy as np

from bothworlds.bandit.state import columns
from bothworlds.checks.distribution import ROUNDING
from bothworlds.checks.report import NotApplicable, Violation
from bothworlds.checks.subject import Player
from bothworlds.policies.base import Array

LEAST_PROBABILITY = 1e-4
TRIES = 10**6
ROUNDS = (17, 40, 90, 200, 450, 1000, 1100)
"""Rounds at which the estimators are enumerated: under reduced variance the early ones have a
baseline for every arm, the late ones for some."""


def _estimates(player: Player, F: Array) -> Array:
    first: Array = columns(F, player.policy)[0]
    return first


def _require_estimates(player: Player) -> None:
    if not player.policy.estimates:
        raise NotApplicable("the policy keeps no cumulative loss estimates")
    if not player.knows_weights:
        raise NotApplicable("the policy does not know its probabilities")


def unbiased_estimates(player: Player) -> str:
    """Over the draw of the arm, every estimate grows by the arm's loss.

    Told late, all may move by one more number, which changes no probability.
    """
    _require_estimates(player)
    F = player.fresh("unbiased")
    losses = player.losses(max(ROUNDS), "unbiased")
    worst, states, t = 0.0, 0, 0
    for now in ROUNDS:
        player.play(F, t + 1, now - 1, losses)
        t = now - 1
        asked = F.copy()
        player.ask(asked, now)
        w = player.weights(asked)
        if not np.all(w >= LEAST_PROBABILITY):
            continue
        states += 1
        loss = losses[now - 1]
        for kind, mean in (
            ("told at once", _mean_change(player, F, now, w, loss)),
            ("told late", _mean_late_change(player, asked, w, loss)),
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


def _mean_change(player: Player, before: Array, t: int, w: Array, loss: Array) -> Array:
    """Return sum_j w_j dL^j, where dL^j is what ``tell`` adds to L when arm j was drawn."""
    mean = np.zeros(player.n_arms)
    for arm in range(player.n_arms):
        F = before.copy()
        counts, _ = player.draw(F, t, TRIES, wanted=arm)
        if not counts[arm]:
            raise Violation(
                f"arm {arm} with probability {w[arm]:.3g} did not come in {TRIES} draws"
            )
        drawn = _estimates(player, F).copy()
        player.tell(F, arm, player.inverse_p(F), loss[arm])
        mean += w[arm] * (_estimates(player, F) - drawn)
    return mean


def _mean_late_change(player: Player, asked: Array, w: Array, loss: Array) -> Array:
    """Return the same for feedback to a decision that is no longer the last one.

    Counted from arm 0's loss, because estimates may be recentred on this way.
    """
    mean = np.zeros(player.n_arms)
    for arm in range(player.n_arms):
        F = asked.copy()
        player.learn(F, arm, 1.0 / w[arm], loss[arm])
        mean += w[arm] * (_estimates(player, F) - _estimates(player, asked))
    mean += loss[0] - mean[0]
    return mean


def shift_invariance(player: Player) -> str:
    """Adding one number to all loss estimates changes no probability."""
    _require_estimates(player)
    F = player.fresh("shift")
    losses = player.losses(300, "shift")
    worst, t = 0.0, 0
    for now in (20, 100, 300):
        player.play(F, t + 1, now - 1, losses)
        t = now - 1
        reference = _shifted_weights(player, F, now, 0.0)
        for shift in (0.375, -20.0, 1024.0):
            w = _shifted_weights(player, F, now, shift)
            error = np.abs(w - reference)
            worst = max(worst, float(error.max()))
            if not worst <= ROUNDING:
                arm = int(error.argmax())
                raise Violation(
                    f"with {shift:g} added to all estimates, arm {arm} has probability "
                    f"{w[arm]:.9g} instead of {reference[arm]:.9g} in round {now}"
                )
    return f"equal within {worst:.1g} for shifts up to 1024"


def _shifted_weights(player: Player, before: Array, t: int, shift: float) -> Array:
    F = before.copy()
    _estimates(player, F)[:] += shift
    player.estimates_changed(F)
    player.ask(F, t)
    return player.weights(F)
