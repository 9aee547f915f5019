"""Reproduce a sample of the run at the paper's own scale, bit for bit."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bothworlds.engine.tile import compile_all
from bothworlds.experiments.catalogue import experiment
from bothworlds.experiments.claims.statements import full_scale
from bothworlds.experiments.model import Cell
from bothworlds.files import replacing
from bothworlds.simulation.simulator import simulate

RUNS = 16
"""Runs of every algorithm that the sample holds: one tile."""
CELL = "K=8, gap=1/8"
"""The cell of the sample, where means are fixed and where they shift."""


@dataclass(frozen=True)
class Reproduced:
    """Outcome of a comparison with the sample.

    Parameters
    ----------
    runs : int
        How many runs were compared.
    equal : int
        How many have the same regret to the last bit.
    rounds : int
        Rounds of each.
    """

    runs: int
    equal: int
    rounds: int

    def __str__(self) -> str:
        compared = f"{self.runs} of its runs of {self.rounds:,} rounds"
        if self.equal == self.runs:
            return f"This machine reproduced {compared} bit for bit."
        return (
            f"This machine repeated {compared}: {self.equal} are equal bit for bit, "
            f"{self.runs - self.equal} are not."
        )


def sample_of(regrets: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the sample of a run, by experiment and algorithm, as JSON can hold it."""
    return {
        name: {algorithm: list(map(float, finals[:RUNS])) for algorithm, finals in each.items()}
        for name, each in regrets.items()
    }


def reproduce_sample(
    threads: int | None = None, compiling: Callable[[int, int], Any] = lambda done, total: None
) -> Reproduced | None:
    """Play the runs of the sample again and compare; None where the package has no sample.

    ``compiling`` receives how many kernels are ready, of how many.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C: a part of the sample proves nothing.

    Examples
    --------
    >>> print(Reproduced(224, 224, 10_000_000))
    This machine reproduced 224 of its runs of 10,000,000 rounds bit for bit.
    """
    known = full_scale()
    runs = equal = rounds = 0
    cells = [(_cell(name), finals) for name, finals in known.get("sample", {}).items()]
    pairs = (
        (cell.policies[each].program(cell.environment.n_arms, lanes=True), cell.environment)
        for cell, finals in cells
        for each in finals
    )
    compile_all(pairs, compiling)
    for cell, finals in cells:
        result = simulate(
            {algorithm: cell.policies[algorithm] for algorithm in finals},
            cell.environment,
            horizon=cell.horizon,
            repetitions=RUNS,
            seed=int(known["made"]["seed"]),
            checkpoints=cell.checkpoints,
            threads=threads,
            progress=False,
        )
        if result.interrupted:
            raise KeyboardInterrupt
        rounds = cell.horizon
        for algorithm, expected in finals.items():
            same = result.regret[algorithm][:, -1] == np.array(expected)
            runs += same.size
            equal += int(same.sum())
    return Reproduced(runs, equal, rounds) if runs else None


def _cell(name: str) -> Cell:
    """Return the cell of an experiment that the sample holds."""
    chosen = experiment(name)
    cells = chosen.cells(chosen.scales["full"])
    # The experiment on shifting means has a cell with fixed ones as well, which comes first.
    return next(cell for cell in reversed(cells) if cell.id == CELL)


def remember(folder: Path, found: Reproduced) -> None:
    """Keep a comparison for the report of a folder."""
    with replacing(folder / "reproduced.json") as draft:
        draft.write_text(json.dumps(asdict(found)), encoding="utf-8")


def remembered(folder: Path) -> Reproduced | None:
    """Return the comparison that a folder holds, if any."""
    path = folder / "reproduced.json"
    if not path.is_file():
        return None
    return Reproduced(**json.loads(path.read_text(encoding="utf-8")))
