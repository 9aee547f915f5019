"""Many repetitions of any policy in any environment, at the speed of the hardware."""

from bothworlds.simulation.progress import Progress
from bothworlds.simulation.result import Comparison, Result, Summary
from bothworlds.simulation.runner import simulate

__all__ = ["Comparison", "Progress", "Result", "Summary", "simulate"]
