"""Best-of-both-worlds bandits: Tsallis-INF, its rivals, and the means to compare them.

Names are loaded when they are first used, so importing bothworlds compiles nothing and costs
little more than importing NumPy.

Examples
--------
>>> import bothworlds as bw
>>> bandit = bw.Bandit(bw.TsallisINF(), arms=["blue", "green", "red"], seed=7)
>>> decision = bandit.ask()
>>> bandit.tell(decision, reward=1.0)
>>> sorted(bandit.probabilities())
['blue', 'green', 'red']

References
----------
J. Zimmert and Y. Seldin, "Tsallis-INF: An Optimal Algorithm for Stochastic and Adversarial
Bandits", Journal of Machine Learning Research 22(28), 2021.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bothworlds import (
        checks,
        environments,
        errors,
        experiments,
        inference,
        interop,
        omd,
        plotting,
        policies,
        simulation,
        theory,
    )
    from bothworlds.bandit import Bandit, Decision, DuelingBandit, shared
    from bothworlds.inference import replay
    from bothworlds.policies import (
        KLUCB,
        UCB1,
        Broad,
        Exp3,
        Exp3PlusPlus,
        Floor,
        ThompsonSampling,
        TsallisINF,
        Uniform,
    )
    from bothworlds.policies.sparring import Sparring
    from bothworlds.simulation import Result, simulate
    from bothworlds.theory import bounds

__version__ = "0.2.0"

# Plain alphabetical order, as sorted() gives it and dir() shows it.
__all__ = [  # noqa: RUF022
    "Bandit",
    "Broad",
    "Decision",
    "DuelingBandit",
    "Exp3",
    "Exp3PlusPlus",
    "Floor",
    "KLUCB",
    "Result",
    "Sparring",
    "ThompsonSampling",
    "TsallisINF",
    "UCB1",
    "Uniform",
    "bounds",
    "checks",
    "environments",
    "errors",
    "experiments",
    "inference",
    "interop",
    "omd",
    "plotting",
    "policies",
    "replay",
    "shared",
    "simulate",
    "simulation",
    "theory",
]

_MODULES = {
    "bounds": "bothworlds.theory.bounds",
    "checks": "bothworlds.checks",
    "environments": "bothworlds.environments",
    "errors": "bothworlds.errors",
    "experiments": "bothworlds.experiments",
    "inference": "bothworlds.inference",
    "interop": "bothworlds.interop",
    "omd": "bothworlds.omd",
    "plotting": "bothworlds.plotting",
    "policies": "bothworlds.policies",
    "simulation": "bothworlds.simulation",
    "theory": "bothworlds.theory",
}

_HOMES = {
    "Bandit": "bothworlds.bandit",
    "Broad": "bothworlds.policies",
    "Decision": "bothworlds.bandit",
    "DuelingBandit": "bothworlds.bandit",
    "Exp3": "bothworlds.policies",
    "Exp3PlusPlus": "bothworlds.policies",
    "Floor": "bothworlds.policies",
    "KLUCB": "bothworlds.policies",
    "Result": "bothworlds.simulation",
    "Sparring": "bothworlds.policies.sparring",
    "ThompsonSampling": "bothworlds.policies",
    "TsallisINF": "bothworlds.policies",
    "UCB1": "bothworlds.policies",
    "Uniform": "bothworlds.policies",
    "replay": "bothworlds.inference",
    "shared": "bothworlds.bandit",
    "simulate": "bothworlds.simulation",
}


# Hidden from type checkers, which would otherwise accept any misspelt name.
if not TYPE_CHECKING:

    def __getattr__(name):
        if name in _MODULES:
            value = import_module(_MODULES[name])
        elif name in _HOMES:
            value = getattr(import_module(_HOMES[name]), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
