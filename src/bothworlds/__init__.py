"""Multi-armed bandits that are near-optimal for stochastic and adversarial rewards.

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

from typing import TYPE_CHECKING

from bothworlds import registry
from bothworlds.lazy import lazily

if TYPE_CHECKING:
    from bothworlds import checks as checks
    from bothworlds import client as client
    from bothworlds import environments as environments
    from bothworlds import errors as errors
    from bothworlds import experiments as experiments
    from bothworlds import inference as inference
    from bothworlds import interop as interop
    from bothworlds import omd as omd
    from bothworlds import plotting as plotting
    from bothworlds import policies as policies
    from bothworlds import simulation as simulation
    from bothworlds import theory as theory
    from bothworlds.bandit import AdvisedBandit as AdvisedBandit
    from bothworlds.bandit import Bandit as Bandit
    from bothworlds.bandit import Decision as Decision
    from bothworlds.bandit import DuelingBandit as DuelingBandit
    from bothworlds.bandit import SegmentedBandit as SegmentedBandit
    from bothworlds.bandit import replay as replay
    from bothworlds.bandit import shared as shared
    from bothworlds.plotting.many import figure as figure
    from bothworlds.policies._typing import *  # noqa: F403
    from bothworlds.policies.sparring import Sparring as Sparring
    from bothworlds.simulation import Result as Result
    from bothworlds.simulation import simulate as simulate
    from bothworlds.simulation import table as table
    from bothworlds.theory import bounds as bounds

__version__ = "0.3.0"

_HOMES = {
    "AdvisedBandit": "bandit",
    "Bandit": "bandit",
    "Decision": "bandit",
    "DuelingBandit": "bandit",
    "Result": "simulation",
    "SegmentedBandit": "bandit",
    "Sparring": "policies",
    "bounds": "theory.bounds",
    "checks": "checks",
    "client": "client",
    "environments": "environments",
    "errors": "errors",
    "experiments": "experiments",
    "figure": "plotting",
    "inference": "inference",
    "interop": "interop",
    "omd": "omd",
    "plotting": "plotting",
    "policies": "policies",
    "replay": "bandit",
    "shared": "bandit",
    "simulate": "simulation",
    "simulation": "simulation",
    "table": "simulation",
    "theory": "theory",
}
"""Modules of the public names, and the public modules; `registry` knows the policies."""

__all__ = sorted([*_HOMES, *registry.POLICIES])


# Hidden from type checkers, which would otherwise accept any misspelt name.
if not TYPE_CHECKING:

    def __getattr__(name):
        # A policy may be registered after this package is imported.
        return lazily(__name__, _HOMES | dict.fromkeys(registry.POLICIES, "policies"))(name)


def __dir__() -> list[str]:
    return sorted([*_HOMES, *registry.POLICIES, "__version__"])
