"""Checks of the losses an environment makes: in range, repeatable, the same for all players."""

from __future__ import annotations

import numpy as np

from bothworlds.checks.report import NotApplicable, Violation
from bothworlds.engine.replay import Counts, Repetition, World
from bothworlds.environments.base import Array
from bothworlds.lanes.types import LANES

ROUNDS = 4_000


def losses(world: World) -> str:
    """Every loss of every arm is a number in [0, 1], or finite where there are no bounds."""
    rounds = world.rounds(ROUNDS)
    for number in range(2):
        played = world.actions(rounds, "losses", number)
        for attacked in (False, True):
            x = world.walk_all(world.repetition(number), played, attacked).losses
            require_losses(world, x)
    return f"{2 * rounds} rounds, every arm"


def require_losses(world: World, x: Array, first: int = 1) -> None:
    """Raise if a loss is out of the range of `losses`; rows are rounds from ``first`` on."""
    wrong = ~np.isfinite(x) if world.environment.unbounded else ~((x >= 0.0) & (x <= 1.0))
    if wrong.any():
        n, action = (int(place[0]) for place in np.nonzero(wrong))
        raise Violation(
            f"{_action(world, action)} had loss {x[n, action]:.9g} in round {first + n}"
        )


def _action(world: World, action: int) -> str:
    if world.duel:
        return f"arm {world.left[action]} against arm {world.right[action]}"
    return f"arm {world.left[action]}"


def same_seed(world: World) -> str:
    """One seed gives one stream, bit for bit, regardless of runs in between."""
    rounds = world.rounds(ROUNDS)
    played = world.actions(rounds, "same seed")
    first = world.repetition(0)
    start = first.E.copy()
    before = world.walk(first, played)
    world.walk(world.repetition(1), played)
    second = world.repetition(0)
    if not np.array_equal(second.E, start):
        raise Violation("with the same seed, a repetition starts in another state")
    again = world.walk(second, played)
    _require_same("with the same seed", before, again)
    return f"{rounds} rounds repeated"


def _require_same(when: str, before: tuple[Array, Array], again: tuple[Array, Array]) -> None:
    """Compare the losses and the regrets of two walks, round by round."""
    for name, one, other in zip(("loss", "regret"), before, again, strict=True):
        differs = one != other
        if differs.any():
            n = int(differs.argmax())
            found = f"{other[n]:.9g} instead of {one[n]:.9g}"
            raise Violation(f"{when}, the {name} of round {n + 1} was {found}")


def repetitions_differ(world: World) -> str:
    """Two repetitions have different losses, unless nothing is random.

    Compared arm by arm, wherever a repetition has put them.
    """
    rounds = world.rounds(ROUNDS)
    played = world.actions(rounds, "repetitions")
    runs = [world.repetition(number) for number in range(3)]
    orders = [_by_label(world, run) for run in runs]
    made = [world.walk_all(run, played, attacked=False) for run in runs]
    x = [one.losses[:, order] for one, order in zip(made, orders, strict=True)]
    apart = [int((other != x[0]).sum()) for other in x[1:]]
    if min(apart) > 0:
        return f"{sum(apart) / (2 * x[0].size):.0%} of the losses differ"
    noise = surprise(world, made[0].losses, made[0].costs)
    if world.duel or np.abs(noise).max() > 1e-9:
        number = 1 + apart.index(0)
        raise Violation(
            f"losses are random, but equal in {rounds} rounds of repetitions 0 and {number}"
        )
    raise NotApplicable("the losses are not random")


def _by_label(world: World, run: Repetition) -> Counts:
    """Return the actions in the order of their arms' labels."""
    place = np.argsort(world.labels(run))
    if world.duel:
        return np.asarray((place[:, None] * world.n_arms + place).ravel())
    return np.asarray(place)


def surprise(world: World, x: Array, costs: Array) -> Array:
    """Return the losses minus the expected losses, as the regret defines them.

    Where the contribution to regret is a gap, losses are compared with those of the first arm.
    """
    if world.environment.regret == "gaps":
        return np.asarray((x - x[:, :1]) - (costs - costs[:, :1]))
    return np.asarray(x - costs)


def oblivious(world: World) -> str:
    """No loss depends on earlier plays, unless the environment declares it.

    The property ``adaptive`` declares it.
    """
    if world.environment.adaptive:
        raise NotApplicable("the environment answers the agent's actions")
    rounds = world.rounds(ROUNDS)
    stays = np.zeros(rounds, np.int64)
    reference = world.walk_all(world.repetition(0), stays, attacked=False)
    for number in range(2):
        played = world.actions(rounds, "oblivious", number)
        other = world.walk_all(world.repetition(0), played, attacked=False)
        for name in ("losses", "costs"):
            differs = getattr(other, name) != getattr(reference, name)
            if differs.any():
                n, action = (int(place[0]) for place in np.nonzero(differs))
                raise Violation(
                    f"the {'loss' if name == 'losses' else 'regret'} of {_action(world, action)} "
                    f"in round {n + 1} depends on what was played before"
                )
    return f"{rounds} rounds, the same for three players"


def enquiries(world: World) -> str:
    """Asking for the losses of other arms first, as attacks do, changes nothing."""
    if world.duel:
        raise NotApplicable("duels are not attacked")
    rounds = world.rounds(ROUNDS)
    played = world.actions(rounds, "enquiries")
    plain = world.walk(world.repetition(0), played, attacked=False)
    asked = world.walk(world.repetition(0), played, attacked=False, enquire=True)
    _require_same("after enquiries", plain, asked)
    return f"{rounds} rounds"


def lanes(world: World) -> str:
    """A tile of repetitions meets, lane by lane, the losses of single ones, bit for bit."""
    if not world.environment.wide:
        raise NotApplicable("the kernel takes one repetition at a time")
    rounds = world.rounds(1_000)
    actions = np.stack([world.actions(rounds, "lanes", lane) for lane in range(LANES)], axis=1)
    runs = [world.repetition(lane) for lane in range(LANES)]
    x, costs, tile = world.walk_tile(runs, actions)
    for lane, run in enumerate(runs):
        single = world.walk(run, np.ascontiguousarray(actions[:, lane]))
        for name, one, other in zip(("loss", "regret"), single, (x, costs), strict=True):
            differs = one != other[:, lane]
            if differs.any():
                n = int(differs.argmax())
                raise Violation(
                    f"lane {lane} had {name} {other[n, lane]:.17g} in round {n + 1} where the "
                    f"single repetition had {one[n]:.17g}"
                )
        _require_same_state(lane, tile[lane], run)
    return f"{LANES} lanes, {rounds} rounds, equal bit for bit"


def _require_same_state(lane: int, tile: Repetition, single: Repetition) -> None:
    """Compare the states; of an attack's state only the spent budget counts."""
    one: Array | Counts
    for name, one, other in (
        ("state", tile.E, single.E),
        ("attack", tile.A[:1], single.A[:1]),
        ("generator", tile.G, single.G),
    ):
        if not np.array_equal(one, other):
            row = int((one != other).argmax())
            raise Violation(
                f"row {row} of the {name} of lane {lane} was {one[row]:.17g} where the single "
                f"repetition had {other[row]:.17g}"
            )
