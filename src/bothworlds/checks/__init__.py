"""Properties that every policy and every environment must have, to be checked on your own."""

from bothworlds.checks.policy import check_policy
from bothworlds.checks.report import Outcome, Report

__all__ = ["Outcome", "Report", "check_policy"]
