"""Inference from logs: how good each arm is, and the value of another policy.

=================== =============================================================================
`report`            per arm a mean, an interval and a sequence valid at any time
`gap`               by how much one arm beats another, with confidence
`value`             the mean outcome of a fixed way of choosing: IPS, SNIPS, doubly robust
`simulate_on_log`   the mean outcome of a policy that learns, by rejection sampling
`rounds_needed`     how long until a gap is certain, by simulation
=================== =============================================================================

A running `bothworlds.Bandit` answers the first two without a log: `Bandit.report`.
"""

import warnings

from bothworlds.evidence.report import ArmReport, Report
from bothworlds.inference.log_simulation import LogSimulation, simulate_on_log
from bothworlds.inference.planning import Plan, rounds_needed
from bothworlds.inference.reports import gap, report
from bothworlds.inference.value import Value, value

__all__ = [
    "ArmReport",
    "LogSimulation",
    "Plan",
    "Report",
    "Value",
    "gap",
    "report",
    "rounds_needed",
    "simulate_on_log",
    "value",
]

_FORMER = {"replay": "simulate_on_log", "Replay": "LogSimulation"}
"""Names of version 0.2, which go with version 0.4."""


def __getattr__(name: str) -> object:
    if name in _FORMER:
        now = _FORMER[name]
        message = (
            f"bothworlds.inference.{name} is now called {now}; the old name will be removed in 0.4."
        )
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return globals()[now]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
