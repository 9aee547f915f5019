"""Catalogue of experiments by name: those of the paper in its order, then those beyond it.

Each experiment is one file, in the package that its part of the catalogue names.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Literal

from bothworlds.errors import invalid
from bothworlds.experiments.model import Cell, Experiment, Settings

Part = Literal["paper", "beyond"]
"""The parts of the catalogue: the paper's own experiments, and those on later work."""


@dataclass(frozen=True)
class Shelf:
    """One part of the catalogue, with the words its report opens with.

    Parameters
    ----------
    files : tuple of str
        The experiments' files, in order.
    title, about : str
        The report's heading, and what stands under it.
    """

    files: tuple[str, ...]
    title: str
    about: str

    @property
    def names(self) -> list[str]:
        """The names of its experiments."""
        return [file.replace("_", "-") for file in self.files]


SHELVES: dict[Part, Shelf] = {
    "paper": Shelf(
        (
            "stochastic",
            "switching",
            "copies",
            "alpha",
            "corruption",
            "open_problem",
            "dueling",
            "table_1",
        ),
        "Tsallis-INF, reproduced",
        "The figures and tables of J. Zimmert and Y. Seldin, “Tsallis-INF: An Optimal Algorithm "
        "for Stochastic and Adversarial Bandits”, JMLR 22(28), 2021",
    ),
    "beyond": Shelf(
        ("variance", "heavy_tails", "ftpl", "drift", "delay", "floor", "advice", "allworlds"),
        "Beyond Tsallis-INF, measured",
        "What came after the paper: low rates, heavy tails, perturbed leaders, best arms that "
        "move, late feedback, floors, advice and unknown worlds; claims of the authors, and "
        "claims of this project, marked as ours",
    ),
}
"""The parts by the commands that run them."""


def experiment_names(part: Part = "paper") -> list[str]:
    """Return the names of all experiments of the paper, or of those beyond it.

    Examples
    --------
    >>> experiment_names()[:3], experiment_names("beyond")[:2]
    (['stochastic', 'switching', 'copies'], ['variance', 'heavy-tails'])
    """
    return SHELVES[part].names


def part_of(name: str) -> Part:
    """Return the part of the catalogue that has an experiment.

    Raises
    ------
    InvalidParameter
        If there is none of that name.

    Examples
    --------
    >>> part_of("switching"), part_of("drift")
    ('paper', 'beyond')
    """
    for part, shelf in SHELVES.items():
        if name in shelf.names:
            return part
    names = ", ".join(name for shelf in SHELVES.values() for name in shelf.names)
    raise invalid("name", "experiment", f"one of {names}", name)


def experiment(name: str) -> Experiment:
    """Return an experiment by its name: what its module states, and its functions.

    The summary is the module's docstring below its first line. Without ``tables``, the only table
    is that of regrets; without ``SCALES``, the experiment has the usual ones beyond the paper.

    Raises
    ------
    InvalidParameter
        If there is none of that name.

    Examples
    --------
    >>> experiment("switching").source
    'Figures 3 and 4'
    """
    from bothworlds.experiments.beyond.worlds import USUAL_SCALES
    from bothworlds.experiments.claims.rules import regret_tables

    place = f"bothworlds.experiments.{part_of(name)}.{name.replace('-', '_')}"
    module = import_module(place)
    summary = " ".join((module.__doc__ or "").partition("\n\n")[2].split())
    scales = getattr(module, "SCALES", USUAL_SCALES)
    about = name, module.TITLE, module.SOURCE, summary, scales
    tables = getattr(module, "tables", regret_tables)

    def cells(settings: Settings) -> list[Cell]:
        return list(module.cells(settings))

    return Experiment(*about, cells, module.score, module.figures, tables)
