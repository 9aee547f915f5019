"""Properties that every policy and every environment must have, to be checked on your own.

`check_policy` and `check_environment` return a `Report` that prints as a table, or raise
`bothworlds.errors.CheckFailed`, which names every failed check and what it found.
"""

from bothworlds.checks.environment import check_environment
from bothworlds.checks.policy import check_policy
from bothworlds.checks.report import Outcome, Report

__all__ = ["Outcome", "Report", "check_environment", "check_policy"]
