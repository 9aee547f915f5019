"""Results put together from outcomes, which may have been read from files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothworlds.campaign.shard_file import provenance
from bothworlds.engine.outcome import TileOutcome
from bothworlds.simulation.result import Comparators, Result


def assemble(
    parts: Mapping[str, tuple[Mapping[str, Any], list[TileOutcome]]], interrupted: bool = False
) -> Result:
    """Put the outcomes of policies in one environment together.

    Parameters
    ----------
    parts : mapping
        From the name of each policy to its curve's settings and its outcomes, in the order of
        the repetitions; a policy without outcomes is left out.
    interrupted : bool
        Whether some are missing.
    """
    finished = {name: part for name, part in parts.items() if part[1]}
    about = next(iter(finished.values()))[0]

    def joined(field: str) -> dict[str, Any]:
        """Join a field of a policy's outcomes, where all of them have it."""
        found = {n: [getattr(o, field) for o in part[1]] for n, part in finished.items()}
        complete = {n: each for n, each in found.items() if all(x is not None for x in each)}
        return {n: np.concatenate(each) for n, each in complete.items()}

    return Result(
        checkpoints=np.asarray(about["checkpoints"], dtype=np.int64),
        regret={name: regret_of(*part) for name, part in finished.items()},
        plays=joined("plays"),
        repetitions={
            name: np.concatenate([np.arange(o.first, o.first + o.count) for o in part[1]])
            for name, part in finished.items()
        },
        wall={name: sum(o.wall for o in part[1]) for name, part in finished.items()},
        cpu={name: sum(o.cpu for o in part[1]) for name, part in finished.items()},
        policies={name: part[0]["policy"] for name, part in finished.items()},
        environment=about["environment"],
        seed=about["seed"],
        interrupted=interrupted,
        versions=provenance(),
        plays_at=joined("shares"),
        realised=joined("realised"),
        comparators=_by_run(finished),
    )


def _by_run(
    parts: Mapping[str, tuple[Mapping[str, Any], list[TileOutcome]]],
) -> Comparators:
    """Return comparators that depend on the plays, of every policy and run.

    Files of earlier versions do not have the sum of the least expected losses.
    """
    found: dict[str, dict[str, NDArray[np.float64]]] = {}
    for name, (settings, outcomes) in parts.items():
        if settings["regret"] == "tracked":
            arms, tracked = settings["arms"], _tracked(outcomes)
            of_best = _of_best(tracked, arms)
            if tracked.shape[2] > arms:
                found.setdefault("dynamic", {})[name] = of_best - tracked[:, :, arms]
            least = tracked[:, :, :arms].min(axis=2)
            found.setdefault("fixed in this run", {})[name] = of_best - least
    return {name: each for name, each in found.items() if len(each) == len(parts)}


def _tracked(outcomes: list[TileOutcome]) -> NDArray[np.float64]:
    """Return the tracked sums of the environment, see `TileOutcome.tracked`."""
    return np.concatenate([o.tracked for o in outcomes if o.tracked is not None])


def _of_best(tracked: NDArray[np.float64], arms: int) -> NDArray[np.float64]:
    """Return every run's expected loss of the arm that is best over all runs."""
    best = tracked[:, :, :arms].mean(axis=0).argmin(axis=1)
    return tracked[:, np.arange(len(best)), best]


def regret_of(settings: Mapping[str, Any], outcomes: list[TileOutcome]) -> NDArray[np.float64]:
    """Return pseudo-regret, one row per repetition, one column per checkpoint.

    See `Environment.regret` for the three ways it comes from what was measured.
    """
    cost = np.concatenate([outcome.cost for outcome in outcomes])
    if settings["regret"] == "gaps":
        return cost
    if settings["regret"] == "oblivious":
        best_arm: NDArray[np.float64] = np.asarray(settings["best"])
        return cost - best_arm
    return cost - _of_best(_tracked(outcomes), settings["arms"])
