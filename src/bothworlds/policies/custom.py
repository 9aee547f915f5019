"""Your own algorithm, compiled: a class with two or three small functions, and one decorator.

The functions are plain Python on arrays and numbers; Numba compiles them, and they run in the
same engine, the same `Bandit` and the same checks as the policies of this package.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numba
import numpy as np
from numba import carray
from numba.core import types

from bothworlds.errors import InvalidParameter, must
from bothworlds.lanes.jit import jit
from bothworlds.lanes.random import WORDS, uniform
from bothworlds.policies.base import Array, Kernels, Policy
from bothworlds.usercode import body_of, check_numbers, compiled, configuration, numbers, reader


@jit
def random_unit(generator: Any) -> Any:
    """Draw a uniform number in [0, 1) from the generator a policy's functions receive."""
    return uniform(generator, 0.0)


def custom(cls: type) -> Any:
    """Make a policy of a class with annotated parameters and compiled functions.

    The class body holds parameters (numbers, with or without defaults) and these functions, none
    of which takes ``self``:

    ``start(n_arms)``
        The state before round 1, a one-dimensional array of floats. Plain Python, not compiled.
    ``choose(state, parameters, n_arms, t, generator)``
        Returns the arm for round t (from 1), or ``(arm, probability)``. ``parameters`` has one
        attribute per parameter; ``random_unit(generator)`` draws uniform numbers.
    ``probabilities(state, parameters, n_arms, t, p)``
        Instead of ``choose``: fills the array ``p`` with the distribution to draw from.
    ``update(state, parameters, n_arms, t, arm, probability, loss)``
        Changes the state after ``arm``, chosen with ``probability``, had ``loss`` in [0, 1].
        ``probability`` is 0 where ``choose`` returned none.

    Examples
    --------
    >>> import numpy as np
    >>> import bothworlds as bw
    >>> @bw.policies.custom
    ... class Greedy:
    ...     explore: float = 0.1
    ...     def start(n_arms):
    ...         return np.zeros(2 * n_arms)
    ...     def probabilities(state, parameters, n_arms, t, p):
    ...         best = np.argmin(state[:n_arms] / np.maximum(state[n_arms:], 1.0))
    ...         p[:] = parameters.explore / n_arms
    ...         p[best] += 1.0 - parameters.explore
    ...     def update(state, parameters, n_arms, t, arm, probability, loss):
    ...         state[arm] += loss
    ...         state[n_arms + arm] += 1.0
    >>> Greedy(explore=0.2)
    Greedy(explore=0.2)
    """
    owner = cls.__name__
    body = body_of(cls)
    for name in ("start", "update"):
        if not callable(body.get(name)):
            raise InvalidParameter(must(name, owner, "a function", body.get(name)))
    if callable(body.get("choose")) == callable(body.get("probabilities")):
        raise InvalidParameter(
            f"The class {owner} must define either choose or probabilities, not both or neither."
        )
    made = configuration(cls, CustomPolicy, {}, eq=True)
    made.functions = {
        name: body[name] if name == "start" else compiled(body[name])
        for name in ("start", "choose", "probabilities", "update")
        if callable(body.get(name))
    }
    made.knows_probability = "probabilities" in made.functions
    return made


class CustomPolicy(Policy):
    """What `custom` makes: a policy whose kernels wrap the user's functions."""

    trusted: ClassVar[bool] = False
    functions: ClassVar[dict[str, Any]]
    record: ClassVar[Any]
    _kernels: ClassVar[Kernels | None] = None

    def __post_init__(self) -> None:
        check_numbers(self)

    def parameters(self, n_arms: int) -> Array:
        """Return the length of the user's state, then the parameters."""
        rows = self._user_state(n_arms).size
        return np.array([rows, *numbers(self)])

    def start(self, n_arms: int) -> Array:
        """Return a row for the inverse probability and the user's first state."""
        return np.concatenate([[0.0], self._user_state(n_arms)])

    def _user_state(self, n_arms: int) -> Array:
        state = np.asarray(self.functions["start"](n_arms), dtype=np.float64)
        if state.ndim != 1:
            owner = type(self).__name__
            raise InvalidParameter(must("start", owner, "returning a flat array", state))
        return state

    def kernels(self) -> Kernels:
        """Return the kernels, compiled once per class."""
        cls = type(self)
        if cls.__dict__.get("_kernels") is None:
            cls._kernels = _wrap(cls.functions, cls.record)
        assert cls._kernels is not None
        return cls._kernels


def _wrap(functions: dict[str, Any], record: Any) -> Kernels:
    """Build kernels of the uniform shape around a user's functions."""
    learn = functions["update"]
    read = reader(record)
    if "probabilities" in functions:
        fill = functions["probabilities"]

        @numba.njit(nogil=True)
        def distribution(K: int, t: int, C: Any, S: Any, out: Any) -> None:
            fill(carray(S, (1 + int(C[0]),))[1:], read(C), K, t, out)

        @numba.njit(nogil=True)
        def choose(K: int, t: int, C: Any, S: Any, G: Any, u: float) -> Any:
            p = np.empty(K)
            distribution(K, t, C, S, p)
            total = 0.0
            for i in range(K):
                if not p[i] >= 0.0:
                    return -1
                total += p[i]
            if not abs(total - 1.0) <= 1e-9:
                return -1
            arm = 0
            reached = p[0]
            while (reached <= u * total or p[arm] == 0.0) and arm < K - 1:
                arm += 1
                reached += p[arm]
            while p[arm] == 0.0:
                arm -= 1
            S[0] = total / p[arm]
            return arm

        @numba.njit(nogil=True)
        def weights(K: int, t: int, C: Any, S: Any, G: Any, out: Any) -> None:
            distribution(K, t, C, S, out)

    else:
        pick = functions["choose"]
        weights = None
        if _returns_pair(pick, record):

            @numba.njit(nogil=True)
            def choose(K: int, t: int, C: Any, S: Any, G: Any, u: float) -> Any:
                state = carray(S, (1 + int(C[0]),))[1:]
                arm, probability = pick(state, read(C), K, t, carray(G, (WORDS,)))
                S[0] = 1.0 / probability
                return int(arm)

        else:

            @numba.njit(nogil=True)
            def choose(K: int, t: int, C: Any, S: Any, G: Any, u: float) -> Any:
                state = carray(S, (1 + int(C[0]),))[1:]
                S[0] = 0.0
                return int(pick(state, read(C), K, t, carray(G, (WORDS,))))

    @numba.njit(nogil=True)
    def update(
        K: int, t: int, C: Any, S: Any, G: Any, arm: int, inverse_p: float, loss: float
    ) -> None:
        p = 1.0 / inverse_p if inverse_p > 0.0 else 0.0
        learn(carray(S, (1 + int(C[0]),))[1:], read(C), K, t, arm, p, loss)

    return Kernels.of(choose, update, weights, wide=False)


def _returns_pair(pick: Any, record: Any) -> bool:
    """Tell whether a user's ``choose`` returns a probability with the arm."""
    fields = len(record._fields)
    example = types.NamedUniTuple(types.float64, fields, record)
    if fields == 0:
        example = types.NamedTuple((), record)
    signature = (types.float64[::1], example, types.int64, types.int64, types.int64[::1])
    pick.compile(signature)
    return isinstance(pick.overloads[signature].signature.return_type, types.BaseTuple)
