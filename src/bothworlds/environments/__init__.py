"""The regimes between stochastic and adversarial: one file each.

================================== =================================================
`Stochastic`                       fixed means
`Switching`, `Constrained`         fixed gaps, a moving level
`Adversarial`                      any losses, fixed before the game
`Adaptive`                         losses that answer the agent's actions
`Piecewise`                        fixed means within blocks of rounds
`Corrupted`                        any of these, changed within a budget
`Delayed`                          any of these, with feedback that arrives late or never
`Contaminated`, `AdversarialWithGap` the regimes of Seldin and Slivkins
`HeavyTailed`                      fixed means, losses without bounds
`Utilities`, `Preferences`         duels
`Advised`                          experts that advise, see `bothworlds.AdvisedBandit`
`custom`                           your own
================================== =================================================
"""

from bothworlds.environments.adaptive import Adaptive
from bothworlds.environments.adversarial import Adversarial
from bothworlds.environments.adversarial_with_gap import AdversarialWithGap
from bothworlds.environments.advised import Advised
from bothworlds.environments.base import Attack, Environment
from bothworlds.environments.constrained import Constrained
from bothworlds.environments.contaminated import Contaminated
from bothworlds.environments.corrupted import Corrupted
from bothworlds.environments.custom import custom
from bothworlds.environments.delayed import Delayed
from bothworlds.environments.delays import GeometricDelay, ListedDelay, UniformDelay
from bothworlds.environments.duels import Preferences, Utilities
from bothworlds.environments.heavy_tailed import HeavyTailed
from bothworlds.environments.piecewise import Piecewise
from bothworlds.environments.stochastic import Stochastic
from bothworlds.environments.switching import Switching

__all__ = [
    "Adaptive",
    "Adversarial",
    "AdversarialWithGap",
    "Advised",
    "Attack",
    "Constrained",
    "Contaminated",
    "Corrupted",
    "Delayed",
    "Environment",
    "GeometricDelay",
    "HeavyTailed",
    "ListedDelay",
    "Piecewise",
    "Preferences",
    "Stochastic",
    "Switching",
    "UniformDelay",
    "Utilities",
    "custom",
]
