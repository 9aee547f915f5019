"""Catalogue of experiments by name, in the order of the paper; each is one file."""

from __future__ import annotations

from importlib import import_module

from bothworlds.errors import InvalidParameter, must
from bothworlds.experiments.model import Experiment

_FILES = (
    "stochastic",
    "switching",
    "copies",
    "alpha",
    "corruption",
    "open_problem",
    "dueling",
    "table_1",
)


def experiment_names() -> list[str]:
    """Return the names of all experiments.

    Examples
    --------
    >>> experiment_names()[:3]
    ['stochastic', 'switching', 'copies']
    """
    return [file.replace("_", "-") for file in _FILES]


def experiment(name: str) -> Experiment:
    """Return an experiment by its name.

    Raises
    ------
    InvalidParameter
        If there is none of that name.

    Examples
    --------
    >>> experiment("switching").source
    'Figures 3 and 4'
    """
    names = experiment_names()
    if name not in names:
        raise InvalidParameter(must("name", "experiment", f"one of {', '.join(names)}", name))
    module = import_module(f"bothworlds.experiments.paper.{name.replace('-', '_')}")
    found: Experiment = module.EXPERIMENT
    return found
