"""Simulation: many repetitions of any policy in any environment, at the speed of the hardware."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bothworlds.campaign.progress import Progress
    from bothworlds.simulation.paper_table import table
    from bothworlds.simulation.ranking import Ranking
    from bothworlds.simulation.result import Comparison, Result, Summary
    from bothworlds.simulation.simulator import simulate

__all__ = ["Comparison", "Progress", "Ranking", "Result", "Summary", "simulate", "table"]


# Running needs Numba; looking at what a store holds does not.
if not TYPE_CHECKING:

    def __getattr__(name):
        homes = {"Progress": "simulator", "simulate": "simulator", "table": "paper_table"}
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(f"{__name__}.{homes.get(name, 'result')}"), name)
        globals()[name] = value
        return value
