"""Public name of `bothworlds.logs`: reading and writing logged decisions, in four formats."""

from bothworlds.logs import *  # noqa: F403
from bothworlds.logs import __all__ as __all__
