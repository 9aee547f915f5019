"""Bandits that decide and learn: one, one per segment, with advice, or in duels."""

from typing import TYPE_CHECKING

from bothworlds.lazy import lazily

if TYPE_CHECKING:
    from bothworlds.bandit.advised import AdvisedBandit, AdvisedDecision
    from bothworlds.bandit.alarms import Alarm
    from bothworlds.bandit.arms import ArmHistory
    from bothworlds.bandit.bandit import Bandit
    from bothworlds.bandit.decision import Decision
    from bothworlds.bandit.dueling import DuelingBandit, Pair
    from bothworlds.bandit.replaying import replay
    from bothworlds.bandit.segmented import SegmentDecision, SegmentedBandit
    from bothworlds.bandit.sharing import shared

__all__ = [
    "AdvisedBandit",
    "AdvisedDecision",
    "Alarm",
    "ArmHistory",
    "Bandit",
    "Decision",
    "DuelingBandit",
    "Pair",
    "SegmentDecision",
    "SegmentedBandit",
    "replay",
    "shared",
]


# Deciding needs Numba; reading decisions out of a log does not.
if not TYPE_CHECKING:
    _HOMES = {
        "AdvisedBandit": "advised",
        "AdvisedDecision": "advised",
        "Alarm": "alarms",
        "ArmHistory": "arms",
        "Bandit": "bandit",
        "Decision": "decision",
        "DuelingBandit": "dueling",
        "Pair": "dueling",
        "SegmentDecision": "segmented",
        "SegmentedBandit": "segmented",
        "replay": "replaying",
        "shared": "sharing",
    }
    __getattr__ = lazily(__name__, _HOMES)
