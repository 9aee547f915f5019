"""The mathematics shared by policies: the OMD step and its learning rates.

Examples
--------
>>> from bothworlds import omd
>>> omd.weights([0.0, 1.0], eta=1.0, alpha=0.0).round(6)
array([0.618034, 0.381966])
"""

from bothworlds.omd.learning_rates import Constant, InverseSqrt, Theorem1, Theorem3, Theorem4
from bothworlds.omd.step import weights

__all__ = ["Constant", "InverseSqrt", "Theorem1", "Theorem3", "Theorem4", "weights"]
