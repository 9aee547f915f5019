"""Experiments with stable names, claims and figures: the paper's, and those on what came after it.

`run` reproduces any of them and writes a report; the commands ``bothworlds paper`` and
``bothworlds beyond`` call it.
"""

from typing import TYPE_CHECKING

from bothworlds.experiments.catalogue import experiment, experiment_names
from bothworlds.experiments.model import Cell, Claim, Experiment, Outcome, Settings, Table
from bothworlds.experiments.report.archive import Finished

if TYPE_CHECKING:
    from bothworlds.experiments.reproduce import Moment, run

__all__ = [
    "Cell",
    "Claim",
    "Experiment",
    "Finished",
    "Moment",
    "Outcome",
    "Settings",
    "Table",
    "experiment",
    "experiment_names",
    "run",
]


# Running needs Numba; looking at what there is does not.
if not TYPE_CHECKING:

    def __getattr__(name):
        if name in {"Moment", "run"}:
            from importlib import import_module

            return getattr(import_module("bothworlds.experiments.reproduce"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
