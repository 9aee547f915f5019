"""Bandits that decide and learn: one, one per segment, with advice, or in duels."""

from typing import TYPE_CHECKING

from bothworlds.lazy import lazily

if TYPE_CHECKING:
    from bothworlds.bandit.advised import AdvisedBandit as AdvisedBandit
    from bothworlds.bandit.advised import AdvisedDecision as AdvisedDecision
    from bothworlds.bandit.alarms import Alarm as Alarm
    from bothworlds.bandit.arms import ArmHistory as ArmHistory
    from bothworlds.bandit.bandit import Bandit as Bandit
    from bothworlds.bandit.decision import Decision as Decision
    from bothworlds.bandit.dueling import DuelingBandit as DuelingBandit
    from bothworlds.bandit.dueling import Pair as Pair
    from bothworlds.bandit.replaying import replay as replay
    from bothworlds.bandit.segmented import SegmentDecision as SegmentDecision
    from bothworlds.bandit.segmented import SegmentedBandit as SegmentedBandit
    from bothworlds.bandit.sharing import shared as shared

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
__all__ = list(_HOMES)

# Deciding needs Numba; reading decisions out of a log does not.
if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, _HOMES)
