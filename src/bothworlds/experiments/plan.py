"""Plan of an experiment: the options of a run, and its cells as curves to simulate."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bothworlds import sources
from bothworlds.campaign.curve import Curve
from bothworlds.errors import invalid
from bothworlds.experiments.model import Cell, Experiment, Settings


@dataclass(frozen=True)
class RunOptions:
    """Options of a run, as `bothworlds.experiments.run` takes them.

    Parameters
    ----------
    scale : {"quick", "full"}
        "full" is the paper's scale.
    horizon, repetitions : int, optional
        Rounds and runs other than the scale's.
    arms, gaps : sequence, optional
        Numbers of arms and gaps other than the scale's, where the experiment varies them.
    with_kl_ucb : bool
        Whether KL-UCB is run too.
    seed : int
        Seed of all random numbers.
    threads : int, optional
        All cores by default.
    continuable : bool
        Whether a longer horizon can start from the end of this one.
    """

    scale: str = "quick"
    horizon: int | None = None
    repetitions: int | None = None
    arms: Sequence[int] | None = None
    gaps: Sequence[float] | None = None
    with_kl_ucb: bool = False
    seed: int = 0
    threads: int | None = None
    continuable: bool = False

    def settings(self, chosen: Experiment) -> Settings:
        """Return the settings of an experiment, with the user's numbers in place of the scale's."""
        _check("scale", self.scale, self.scale in chosen.scales, '"quick" or "full"')
        horizon, repetitions, arms, gaps = self.horizon, self.repetitions, self.arms, self.gaps
        fits = horizon is None or horizon >= 100
        _check("horizon", horizon, fits, "a whole number of at least 100")
        _check("repetitions", repetitions, repetitions is None or repetitions >= 2, "at least 2")
        _check("arms", arms, arms is None or (len(arms) > 0 and min(arms) >= 2), "2 or more arms")
        fits = gaps is None or (len(gaps) > 0 and all(0.0 < gap <= 0.5 for gap in gaps))
        _check("gap", gaps, fits, "numbers above 0 and up to 1/2")
        scale = chosen.scales[self.scale]
        given: dict[str, Any] = {"horizon": horizon, "repetitions": repetitions}
        for name, values in (("arms", arms), ("gaps", gaps)):
            if getattr(scale, name) and values is not None:
                given[name] = tuple(sorted(set(values)))
        given = {key: value for key, value in given.items() if value is not None}
        settings = replace(scale, **given)
        if settings != scale:
            settings = replace(settings, scale="custom")
        return replace(settings, with_kl_ucb=self.with_kl_ucb)


def _check(parameter: str, value: object, fits: bool, expected: str) -> None:
    if not fits:
        raise invalid(parameter, "paper", expected, value)


class RunPlan:
    """An experiment with its settings and the curves it needs.

    Parameters
    ----------
    chosen : Experiment
        The experiment.
    settings : Settings
        How large it is.
    seed : int
        The seed in force.
    """

    def __init__(self, chosen: Experiment, settings: Settings, seed: int) -> None:
        self.experiment, self.settings, self.seed = chosen, settings, seed
        self.cells = tuple(chosen.cells(settings))
        self.curves = [
            (cell, curve_of(cell, name, seed, f"{chosen.id} {cell.id}"))
            for cell in self.cells
            for name in cell.policies
        ]

    @property
    def key(self) -> str:
        """Name everything that claims and figures depend on."""
        curves = [f"{curve.stem} {curve.repetitions}" for _, curve in self.curves]
        digest = sources.digest(*sources.JUDGING).hex()
        parts = [digest, self.experiment.summary, repr(self.settings), *curves]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def curve_of(cell: Cell, name: str, seed: int, label: str = "") -> Curve:
    """Return one policy of a cell as a curve."""
    checkpoints = tuple(sorted({*cell.checkpoints, cell.horizon}))
    policy = cell.policies[name]
    return Curve(name, policy, cell.environment, checkpoints, cell.repetitions, seed, label)
