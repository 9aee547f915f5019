"""The algorithms: one file each, frozen configurations with compiled kernels."""

from bothworlds.policies.base import Policy
from bothworlds.policies.broad import Broad
from bothworlds.policies.custom import custom, random_unit
from bothworlds.policies.exp3 import Exp3
from bothworlds.policies.exp3plusplus import Exp3PlusPlus
from bothworlds.policies.floor import Floor
from bothworlds.policies.klucb import KLUCB
from bothworlds.policies.sparring import Sparring
from bothworlds.policies.thompson import ThompsonSampling
from bothworlds.policies.tsallis_inf import TsallisINF
from bothworlds.policies.ucb1 import UCB1
from bothworlds.policies.uniform import Uniform

# Plain alphabetical order, as sorted() gives it.
__all__ = [  # noqa: RUF022
    "Broad",
    "Exp3",
    "Exp3PlusPlus",
    "Floor",
    "KLUCB",
    "Policy",
    "Sparring",
    "ThompsonSampling",
    "TsallisINF",
    "UCB1",
    "Uniform",
    "custom",
    "random_unit",
]
