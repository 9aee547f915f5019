"""Checks of the regret that an environment reports, and of the budget of an attack."""

from __future__ import annotations

import numpy as np

from bothworlds.checks.report import NotApplicable, Violation
from bothworlds.checks.streams import ROUNDS, surprise
from bothworlds.checks.tolerances import Z
from bothworlds.engine.replay import Counts, World
from bothworlds.environments.base import Array

REPETITIONS = 4
ROUNDING = 1e-9


def pseudo_regret(world: World) -> str:
    """The contributions to regret are gaps, or expected losses, and losses average to them."""
    rounds = world.rounds(ROUNDS)
    noise = []
    for number in range(REPETITIONS):
        run = world.repetition(number)
        labels = world.labels(run)
        made = world.walk_all(run, world.actions(rounds, "regret", number), attacked=False)
        if world.environment.regret == "gaps":
            _require_gaps(world, made.costs, labels)
        else:
            _require_expectations(world, made.costs)
        noise.append(
            _sides(world, made.losses) if world.duel else surprise(world, made.losses, made.costs)
        )
    stacked = np.concatenate(noise)
    n = stacked.shape[0]
    mean = stacked.mean(axis=0)
    # Given the past, each of the terms has mean 0: their variances add up, dependent or not.
    limit = Z * np.sqrt((stacked**2).mean(axis=0) / n) + ROUNDING
    over = np.abs(mean) / limit
    if not np.all(over <= 1.0):
        worst = int(np.argmax(over))
        against = "its rival's losses" if world.duel else "what regret expects"
        raise Violation(
            f"the losses of arm {world.left[worst]} are off {against} by {mean[worst]:.4g} on "
            f"average over {n} rounds, at most {limit[worst]:.2g} can be chance"
        )
    return f"{n} rounds, mean error at most {over.max():.2f} of what chance allows"


def _sides(world: World, x: Array) -> Array:
    """Return the excess over 1 of the losses of both sides, places exchanged."""
    K = world.n_arms
    pairs = x.reshape(-1, K, K)
    return np.asarray((pairs + pairs.transpose(0, 2, 1) - 1.0).reshape(-1, K * K))


def _require_gaps(world: World, costs: Array, labels: Counts) -> None:
    if not np.all(costs >= 0.0):
        raise Violation(f"a contribution to regret was {costs[~(costs >= 0.0)][0]:.3g}, below 0")
    least = costs.min(axis=1)
    if least.max() > ROUNDING:
        t = int(least.argmax()) + 1
        raise Violation(f"every arm had regret in round {t}, at least {least[t - 1]:.3g}")
    gaps = world.environment.fixed_gaps()
    if world.duel or gaps.size == 0:
        return
    apart = np.abs(costs - gaps[labels])
    if apart.max() > ROUNDING:
        t, arm = (int(place[0]) for place in np.nonzero(apart > ROUNDING))
        raise Violation(
            f"arm {arm} contributed {costs[t, arm]:.9g} to regret in round {t + 1}, though its gap "
            f"is {gaps[labels[arm]]:.9g}"
        )


def _require_expectations(world: World, costs: Array) -> None:
    most = 2.0 if world.duel else 1.0
    wrong = ~((costs >= -ROUNDING) & (costs <= most + ROUNDING))
    if wrong.any():
        t, arm = (int(place[0]) for place in np.nonzero(wrong))
        raise Violation(
            f"the expected loss of arm {world.left[arm]} was {costs[t, arm]:.3g} in round {t + 1}"
        )


def best_in_hindsight(world: World) -> str:
    """The comparator of the regret equals the sum of the arms' expected losses."""
    kind = world.environment.regret
    rounds = world.rounds(ROUNDS)
    run = world.repetition(0)
    labels = world.labels(run)
    made = world.walk_all(run, world.actions(rounds, "hindsight"), attacked=False)
    costs = made.costs
    if kind == "gaps":
        costs = costs - costs.min(axis=1, keepdims=True)
    sums, least = costs.cumsum(axis=0), costs.min(axis=1).cumsum()
    if kind == "tracked":
        row = world.environment.tracked_row
        said = np.append(run.E[row : row + world.n_arms][labels], run.E[row + world.n_arms])
        expected = np.append(sums[-1], least[-1])
        apart = np.abs(said - expected)
        if not apart.max() <= ROUNDING * rounds:
            arm = int(np.nanargmax(apart))
            which = f"arm {arm}" if arm < world.n_arms else "the best arm of each round"
            raise Violation(
                f"{which} was tracked at {said[arm]:.9g} after {rounds} rounds, though its "
                f"expected losses sum to {expected[arm]:.9g}"
            )
        return f"tracked sums of {rounds} rounds, within {apart.max():.1g}"
    checkpoints = np.unique(np.geomspace(1, rounds, 12).astype(np.int64))
    best = np.zeros(checkpoints.size)
    fixed, moving = sums[checkpoints - 1].min(axis=1), least[checkpoints - 1]
    pairs = []
    if kind == "oblivious":
        best = np.asarray(world.environment.best_cumulative(checkpoints))
        pairs = [("best_cumulative", best, fixed)]
    others = world.environment.comparators(checkpoints)
    pairs += [
        (f'"{name}" of comparators', others[name], best - expected)
        for name, expected in (("dynamic", moving), ("fixed in this run", fixed))
    ]
    worst = 0.0
    for name, given, expected in pairs:
        apart = np.abs(given - expected)
        worst = max(worst, float(apart.max()))
        if not apart.max() <= ROUNDING * rounds:
            n = int(np.nanargmax(apart))
            raise Violation(
                f"{name} gives {given[n]:.9g} at round {checkpoints[n]} where the arms' expected "
                f"losses make it {expected[n]:.9g}"
            )
    return f"{checkpoints.size} checkpoints up to round {rounds}, within {worst:.1g}"


def corruption_budget(world: World) -> str:
    """An attack changes no more than its budget, and no more than it reports as spent."""
    if world.attack is None:
        raise NotApplicable("nothing attacks the losses")
    budget = getattr(world.environment, "budget", None)
    if budget is None:
        raise NotApplicable("the attack is not limited by a budget")
    rounds = world.rounds(ROUNDS)
    changed = 0.0
    for number in range(3):
        played = world.actions(rounds, "budget", number)
        # A player that stays, too: some attacks answer what is played.
        played[rounds // 4 : rounds // 2] = played[rounds // 4]
        plain = world.walk_all(world.repetition(number), played, attacked=False)
        struck = world.walk_all(world.repetition(number), played)
        total = np.abs(struck.losses - plain.losses).max(axis=1).cumsum()
        over = total > budget + ROUNDING
        if over.any():
            t = int(over.argmax())
            raise Violation(
                f"{total[t]:.9g} was changed by round {t + 1}, the budget is {budget:g}"
            )
        hidden = total > struck.spent + ROUNDING * rounds
        if hidden.any():
            t = int(hidden.argmax())
            raise Violation(
                f"{total[t]:.9g} was changed by round {t + 1}, but {struck.spent[t]:.9g} accounted"
            )
        if not struck.spent.max() <= budget:
            raise Violation(f"{struck.spent.max():.9g} was accounted, the budget is {budget:g}")
        changed = max(changed, float(total[-1]))
    return f"at most {changed:.6g} of {budget:g} changed in {rounds} rounds"
