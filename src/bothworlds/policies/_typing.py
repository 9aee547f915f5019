"""Policies of the package as plain imports, by which type checkers know them.

Written by ``tools/generate.py`` from `bothworlds.registry`.
"""

from bothworlds.policies.adatinf import AdaTINF
from bothworlds.policies.alarmed import Alarmed
from bothworlds.policies.allworlds import AllWorlds
from bothworlds.policies.broad import Broad
from bothworlds.policies.discounted import Discounted
from bothworlds.policies.discounted_ucb import DiscountedUCB
from bothworlds.policies.exp3 import Exp3
from bothworlds.policies.exp3plusplus import Exp3PlusPlus
from bothworlds.policies.floor import Floor
from bothworlds.policies.ftpl import FTPL
from bothworlds.policies.glr_klucb import GLRKLUCB
from bothworlds.policies.htinf import HTINF
from bothworlds.policies.imed import IMED
from bothworlds.policies.klucb import KLUCB
from bothworlds.policies.lbinfv import LBINFV
from bothworlds.policies.restarted import Restarted
from bothworlds.policies.sliding_window_thompson import SlidingWindowThompson
from bothworlds.policies.thompson import ThompsonSampling
from bothworlds.policies.tsallis_inf import TsallisINF
from bothworlds.policies.tsallis_inf_v import TsallisINFV
from bothworlds.policies.ucb1 import UCB1
from bothworlds.policies.uniform import Uniform

__all__ = [
    "FTPL",
    "GLRKLUCB",
    "HTINF",
    "IMED",
    "KLUCB",
    "LBINFV",
    "UCB1",
    "AdaTINF",
    "Alarmed",
    "AllWorlds",
    "Broad",
    "Discounted",
    "DiscountedUCB",
    "Exp3",
    "Exp3PlusPlus",
    "Floor",
    "Restarted",
    "SlidingWindowThompson",
    "ThompsonSampling",
    "TsallisINF",
    "TsallisINFV",
    "Uniform",
]
