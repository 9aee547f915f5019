"""The algorithms: one file each, frozen configurations with compiled kernels.

Those that `bothworlds.registry` lists are loaded when they are first used.
"""

from typing import TYPE_CHECKING

from bothworlds import registry
from bothworlds.policies.base import Policy as Policy
from bothworlds.policies.custom import custom as custom
from bothworlds.policies.custom import random_unit as random_unit
from bothworlds.policies.plain import PlainPolicy as PlainPolicy
from bothworlds.policies.sparring import Sparring as Sparring

__all__ = sorted([*registry.POLICIES, "PlainPolicy", "Policy", "Sparring", "custom", "random_unit"])

if TYPE_CHECKING:
    from bothworlds.policies._typing import *  # noqa: F403
else:

    def __getattr__(name):
        if name not in registry.POLICIES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = registry.POLICIES[name].load()
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *registry.POLICIES})
