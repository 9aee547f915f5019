"""The algorithms: one file each, frozen configurations with compiled kernels."""

from bothworlds.policies.tsallis_inf import TsallisINF

__all__ = ["TsallisINF"]
