"""Dueling bandits: two arms a round, and the feedback is which side won."""

from bothworlds.dueling.bandit import DuelingBandit
from bothworlds.dueling.pair import Pair
from bothworlds.dueling.sparring import Sparring

__all__ = ["DuelingBandit", "Pair", "Sparring"]
