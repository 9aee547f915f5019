"""Experiments with stable names, claims and figures: the paper's, and those on later work.

`run` reproduces any of them and writes a report; the commands ``bothworlds paper`` and
``bothworlds beyond`` call it.
"""

from typing import TYPE_CHECKING

from bothworlds.experiments.catalogue import experiment, experiment_names
from bothworlds.experiments.model import Cell, Claim, Experiment, Outcome, Settings, Table
from bothworlds.experiments.report.archive import Finished
from bothworlds.lazy import lazily

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
    __getattr__ = lazily(__name__, {"Moment": "reproduce", "run": "reproduce"})
