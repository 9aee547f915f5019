"""Plan of an experiment: its cells at the settings in force, as curves to simulate."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bothworlds import sources
from bothworlds.campaign.curve import Curve
from bothworlds.errors import InvalidParameter, must
from bothworlds.experiments.model import Cell, Experiment, Settings


def adjusted(
    chosen: Experiment,
    scale: str,
    horizon: int | None,
    repetitions: int | None,
    arms: Sequence[int] | None,
    gaps: Sequence[float] | None,
    with_kl_ucb: bool,
) -> Settings:
    """Return the settings of a scale with the user's numbers in place of its own."""
    _check("horizon", horizon, horizon is None or horizon >= 100, "a whole number of at least 100")
    _check("repetitions", repetitions, repetitions is None or repetitions >= 2, "at least 2")
    _check("arms", arms, arms is None or (len(arms) > 0 and min(arms) >= 2), "2 or more arms")
    fits = gaps is None or (len(gaps) > 0 and all(0.0 < gap <= 0.5 for gap in gaps))
    _check("gap", gaps, fits, "numbers above 0 and up to 1/2")
    given: dict[str, Any] = {"horizon": horizon, "repetitions": repetitions}
    if "arms" in chosen.varies and arms is not None:
        given["arms"] = tuple(sorted(set(arms)))
    if "gaps" in chosen.varies and gaps is not None:
        given["gaps"] = tuple(sorted(set(gaps)))
    given = {key: value for key, value in given.items() if value is not None}
    settings = replace(chosen.scales[scale], **given)
    if settings != chosen.scales[scale]:
        settings = replace(settings, scale="custom")
    return replace(settings, with_kl_ucb=with_kl_ucb)


def _check(parameter: str, value: object, fits: bool, expected: str) -> None:
    if not fits:
        raise InvalidParameter(must(parameter, "paper", expected, value))


class Plan:
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
        parts = [sources.digest(*sources.JUDGING).hex(), repr(self.settings), *curves]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def curve_of(cell: Cell, name: str, seed: int, label: str = "") -> Curve:
    """Return one policy of a cell as a curve."""
    checkpoints = tuple(sorted({*cell.checkpoints, cell.horizon}))
    policy = cell.policies[name]
    return Curve(name, policy, cell.environment, checkpoints, cell.repetitions, seed, label)
