"""Tsallis-INF at alpha = 1/2 for many arms: kernels over `bothworlds.omd.many`.

`bothworlds.TsallisINF` uses them by itself; see its method ``program``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bothworlds.arguments import Estimator
from bothworlds.lanes.jit import jit
from bothworlds.omd.estimators import correction
from bothworlds.omd.many import layout, rounds
from bothworlds.policies.base import Array, Kernels, Policy, Program
from bothworlds.policies.tsallis_inf.parameters import near_limit, rate_now


@jit
def choose_many_iw(K: int, t: int, C: Any, S: Any, G: Any, u: float) -> Any:
    """Solve and draw; see `rounds.choose`."""
    return rounds.choose(K, S, G, rate_now(K, t, C), None, u)


@jit
def update_many_iw(
    K: int, t: int, C: Any, S: Any, G: Any, arm: int, inverse_p: float, loss: float
) -> None:
    """L_I += l / w_I."""
    rounds.learn_iw(K, S, arm, correction(loss, 0.0, inverse_p))


@jit
def choose_many_rv(K: int, t: int, C: Any, S: Any, G: Any, u: float) -> Any:
    """Solve and draw, every arm in its family; see `rounds.choose`."""
    eta = rate_now(K, t, C)
    return rounds.choose(K, S, G, eta, near_limit(eta), u)


@jit
def update_many_rv(
    K: int, t: int, C: Any, S: Any, G: Any, arm: int, inverse_p: float, loss: float
) -> None:
    """L_i += B_i for every arm; L_I += (l - B_I) / w_I."""
    rounds.learn_rv(K, S, arm, inverse_p, loss, near_limit(rate_now(K, t, C)))


@jit
def weights_many(K: int, t: int, C: Any, S: Any, G: Any, out: Any) -> None:
    """w_i = 4 / (eta y_i)^2 at the root of the round."""
    rounds.fill_weights(K, S, rate_now(K, t, C), out)


@jit
def near_many(K: int, t: int, C: Any, S: Any, G: Any, out: Any) -> None:
    """Mark the near arms of the round, those whose estimate gets the baseline."""
    rounds.mark_near(K, S, near_limit(rate_now(K, t, C)), out)


@jit
def late_many_iw(
    K: int, t: int, C: Any, S: Any, G: Any, arm: int, inverse_p: float, loss: float, near: Any
) -> None:
    """Learn from a decision that is no longer the last one."""
    update_many_iw(K, t, C, S, G, arm, inverse_p, loss)


@jit
def late_many_rv(
    K: int, t: int, C: Any, S: Any, G: Any, arm: int, inverse_p: float, loss: float, near: Any
) -> None:
    """Learn from a decision that is no longer the last one; ``near`` as it was then."""
    rounds.learn_late_rv(K, S, arm, inverse_p, loss, near)


@jit
def write_back_many(K: int, t: int, C: Any, S: Any, G: Any) -> None:
    """Write the estimates by arm; the next ``ask`` sorts the arms again."""
    rounds.close(K, S)


MANY_IW = Kernels.of(
    choose_many_iw,
    update_many_iw,
    weights_many,
    late=late_many_iw,
    write_back=write_back_many,
    wide=False,
)
MANY_RV = Kernels.of(
    choose_many_rv,
    update_many_rv,
    weights_many,
    near=near_many,
    late=late_many_rv,
    write_back=write_back_many,
    wide=False,
)


def program(policy: Policy, n_arms: int, estimator: Estimator) -> Program:
    """Return the program of `bothworlds.TsallisINF` at alpha = 1/2 for many arms."""
    reduced = estimator == "rv"
    groups = layout.FIELDS_RV if reduced else layout.FIELDS_IW

    def start() -> Array:
        """Return L = 0, with the buckets to be built by the first ``ask``."""
        return np.zeros(layout.SHARED + groups * n_arms)

    def sound(state: Array) -> bool:
        """Tell whether buckets, slots and heaps describe every arm once."""
        return all(layout.sound(n_arms, np.ascontiguousarray(S), reduced) for S in state.T)

    return Program.of(
        policy, n_arms, MANY_RV if reduced else MANY_IW, start=start, sound=sound,
        head_rows=layout.SHARED, rows_per_arm=groups, plain=False,
    )  # fmt: skip
