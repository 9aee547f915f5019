"""Every bound of the article, one function per result; known to users as ``bothworlds.bounds``.

===================  =======================================================================
adversarial          Theorem 1, any adversary
self_bounding        Theorem 1, under a self-bounding constraint with constant C
general_adversarial  Theorem 3, any alpha against any adversary
general_stochastic   Theorem 4, any alpha tuned with the true gaps
corrupted            Corollary 1, stochastically constrained losses with a corruption budget
dueling_stochastic   Corollary 2, sparring with constant utilities
dueling_adversarial  Corollary 2, sparring with changing utilities
lai_robbins          lower bound for consistent algorithms on Bernoulli losses
minimax              lower bound on the worst case
asymptotic_factor    Theorem 1 divided by Lai and Robbins
exp3, ucb1           competitors, as their own sources state them
guarantee            the best of these for one configuration, with the reason
===================  =======================================================================

Every bound takes one horizon or an array of them. Where the printed statement and its proof
differ, the proved bound is returned and ``printed=True`` gives the other.

Examples
--------
>>> import bothworlds as bw
>>> gaps = [0] + 7 * [1/8]
>>> bw.bounds.self_bounding(gaps, [1e5, 1e7], estimator="iw").round()
array([3377., 4427.])
"""

from bothworlds.theory.competitors import exp3, ucb1
from bothworlds.theory.guarantee import Guarantee, guarantee
from bothworlds.theory.lower import asymptotic_factor, lai_robbins, minimax
from bothworlds.theory.upper import (
    adversarial,
    corrupted,
    dueling_adversarial,
    dueling_stochastic,
    general_adversarial,
    general_stochastic,
    self_bounding,
)

__all__ = [
    "Guarantee",
    "adversarial",
    "asymptotic_factor",
    "corrupted",
    "dueling_adversarial",
    "dueling_stochastic",
    "exp3",
    "general_adversarial",
    "general_stochastic",
    "guarantee",
    "lai_robbins",
    "minimax",
    "self_bounding",
    "ucb1",
]
