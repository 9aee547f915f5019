"""Finished simulations on disk, named by everything that determines them.

A file holds one policy in one environment.  Its name is a digest of the compiled sources, the
policy, the environment, the horizon, the repetitions, the checkpoints and the seed: what has
not changed is found again, what has changed is not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bothworlds.errors import ResultFileError
from bothworlds.experiments.model import Cell
from bothworlds.lanes.jit import source_stamp
from bothworlds.simulation.result import Result


def cell_key(cell: Cell, name: str, seed: int, world: str | None = None) -> str:
    """Return the digest that names the file of one policy in one cell.

    Parameters
    ----------
    cell : Cell
        What is simulated.
    name : str
        One of its policies.
    seed : int
        The seed in force.
    world : str, optional
        What `world_digest` returned for the cell, if that is known already.
    """
    settings = {
        "kernels": source_stamp().hex(),
        "name": name,
        "policy": repr(cell.policies[name]),
        "environment": world or world_digest(cell),
        "horizon": cell.horizon,
        "repetitions": cell.repetitions,
        "checkpoints": list(cell.checkpoints),
        "seed": seed,
    }
    text = json.dumps(settings, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def world_digest(cell: Cell) -> str:
    """Return a digest of a cell's environment.

    Long arrays are abbreviated when an environment prints; its numbers are not.
    """
    world = cell.environment
    digest = hashlib.sha256(f"{world!r} {world.n_arms}".encode())
    numbers = [world.parameters(), world.start(np.random.default_rng(0))]
    attack = world.attack()
    if attack is not None:
        numbers.append(attack.parameters)
    for array in numbers:
        digest.update(f" {array.size} ".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


class Store:
    """A folder of finished simulations.

    Parameters
    ----------
    folder : Path
        Where the files are; made when the first one is saved.
    say : callable
        Takes a sentence about a file that could not be used.
    """

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.folder = folder
        self._say = say

    def path(self, key: str) -> Path:
        """Return the file of a key, whether it exists or not."""
        return self.folder / f"{key}.parquet"

    def has(self, key: str) -> bool:
        """Return whether there is a file, readable or not."""
        return self.path(key).is_file()

    def load(self, key: str) -> Result | None:
        """Return a finished simulation, or None where it has to be run.

        A file that cannot be read is reported and counts as missing.
        """
        path = self.path(key)
        if not path.is_file():
            return None
        try:
            return Result.load(path)
        except (ResultFileError, KeyError, TypeError, ValueError):
            self._say(f"The file {path.name} cannot be read and is computed again.")
            return None

    def save(self, key: str, result: Result) -> None:
        """Keep a finished simulation; the file appears whole or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        result.save(self.path(key))
