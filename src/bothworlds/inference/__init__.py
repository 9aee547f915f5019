"""Inference from logs: how good each arm is, and what another policy would have earned.

=================== =============================================================================
`report`            per arm a mean, an interval and a sequence valid whenever one looks
`gap`               by how much one arm surely beats another
`value`             what a fixed way of choosing would have brought: IPS, SNIPS, doubly robust
`replay`            what a policy that learns would have brought, by rejection sampling
`rounds_needed`     how long until a gap is certain, by simulation
=================== =============================================================================

A running `bothworlds.Bandit` answers the first two without a log: `Bandit.report`.
"""

from bothworlds.evidence.report import ArmReport, Report
from bothworlds.inference.planning import Plan, rounds_needed
from bothworlds.inference.replaying import Replay, replay
from bothworlds.inference.reports import gap, report
from bothworlds.inference.value import Value, value

__all__ = [
    "ArmReport",
    "Plan",
    "Replay",
    "Report",
    "Value",
    "gap",
    "replay",
    "report",
    "rounds_needed",
    "value",
]
