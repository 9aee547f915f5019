"""Part of a service: the methods for one subject, over the state that all parts share."""

from __future__ import annotations

from bothworlds.serve.domain.replicas import Replicas
from bothworlds.serve.domain.state import State


class Part:
    """Base of the parts of a `bothworlds.serve.domain.service.Service`.

    Parameters
    ----------
    state : State
        Of the service.
    replicas : Replicas
        Where a newer configuration comes from, and what creates segments.
    """

    def __init__(self, state: State, replicas: Replicas) -> None:
        self._state = state
        self._replicas = replicas
        self._experiments = state.experiments
        self._committer = state.committer
        self._counters = state.counters
