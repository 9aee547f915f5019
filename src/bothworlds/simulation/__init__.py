"""Simulation: many repetitions of any policy in any environment, at the speed of the hardware."""

from typing import TYPE_CHECKING

from bothworlds.lazy import lazily

if TYPE_CHECKING:
    from bothworlds.campaign.progress import Progress
    from bothworlds.simulation.paper_table import table
    from bothworlds.simulation.ranking import Ranking
    from bothworlds.simulation.result import Comparison, Result, Summary
    from bothworlds.simulation.simulator import simulate

__all__ = ["Comparison", "Progress", "Ranking", "Result", "Summary", "simulate", "table"]


# Running needs Numba; looking at what a store holds does not.
if not TYPE_CHECKING:
    _HOMES = {"Progress": "simulator", "simulate": "simulator", "table": "paper_table"}
    __getattr__ = lazily(__name__, dict.fromkeys(__all__, "result") | _HOMES)
