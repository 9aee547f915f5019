"""Theorems of the paper as functions: bounds on the regret and the lemmas behind them.

``bounds`` holds one function per theorem or corollary, ``lemmas`` the two inequalities the
theorems rest on, evaluated on trajectories, and the stability factor of soft baselines. Where the
printed statement and its proof differ, the functions return what the proof supports;
docs/errata.md derives every difference.
"""

from typing import TYPE_CHECKING

from bothworlds.lazy import lazily
from bothworlds.theory import bounds, lemmas

if TYPE_CHECKING:
    from bothworlds.theory.exact import exact_regret

__all__ = ["bounds", "exact_regret", "lemmas"]


# Enumerating histories needs Numba; a bound does not.
if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, {"exact_regret": "exact"})
