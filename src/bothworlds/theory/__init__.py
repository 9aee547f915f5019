"""Theorems of the paper as functions: bounds on the regret and the lemmas behind them.

``bounds`` holds one function per theorem or corollary, ``lemmas`` the two inequalities the
theorems rest on, evaluated on trajectories. Where the printed statement and its proof differ, the
functions return what the proof supports; docs/errata.md derives every difference.
"""

from bothworlds.theory import bounds, lemmas

__all__ = ["bounds", "lemmas"]
