"""Your own environment, compiled: a class with a few small functions, and one decorator.

The counterpart of `bothworlds.policies.custom`: the functions are plain Python on arrays and
numbers, Numba compiles them, and they run in the same engine as the environments of this package.
"""

from __future__ import annotations

import functools
import inspect
from functools import cached_property
from typing import Any, ClassVar

import numba
import numpy as np
from numba import carray
from numba.core import types
from numpy.typing import NDArray

from bothworlds import arguments, usercode
from bothworlds.arguments import arm_count, keep
from bothworlds.environments import memory
from bothworlds.environments.base import Array, Environment, Regret, state
from bothworlds.errors import invalid
from bothworlds.lanes.kernels import as_words
from bothworlds.lanes.random import WORDS
from bothworlds.lanes.vectors import advance

# Rows after the labels: the memory, the loss of its last call, every arm's accumulated expected
# loss and that of the best arm of each round, the words of the generator for `update` if it takes
# one, then the user's state.
LOSS, TRACKED = 3, 4

_ARGUMENTS = {"loss": (6,), "mean": (5,), "update": (6, 7)}
_REST = {
    "loss": (types.int64, types.float64),
    "mean": (types.int64,),
    "update": (types.int64, types.float64, types.int64[::1]),
}
"""Types of the arguments after state, parameters, number of arms and round."""


def custom(cls: type) -> Any:
    """Make an environment of a class with annotated parameters and compiled functions.

    The class body holds parameters (numbers, with or without defaults) and these functions, none
    of which takes ``self``. The environment's first argument is ``n_arms``.

    ``loss(state, parameters, n_arms, t, arm, u)``
        The loss of ``arm`` in round t (from 1), in [0, 1]; ``u`` is the round's one uniform
        number in [0, 1), the same for every arm. Must not change ``state``.
    ``mean(state, parameters, n_arms, t, arm)``
        The expected loss over ``u``, from which the pseudo-regret is computed. Must not change
        ``state``.
    ``start(n_arms, rng)``, optional
        The state of one repetition before round 1, a flat array of floats. ``rng`` is a NumPy
        generator. Plain Python, not compiled.
    ``update(state, parameters, n_arms, t, arm, loss, generator)``, optional
        Changes the state after a round, knowing the arm the agent played and what it lost.
        ``bw.policies.random_unit(generator)`` draws uniform numbers from a stream that nothing
        else uses: drawing changes no ``u``. The argument ``generator`` may be left out.

    ``parameters`` has one attribute per parameter. Regret is taken against the best arm in
    expectation in hindsight, over the repetitions; `Result.regret_against` has it against the best
    arm of each round as well, and against the best fixed arm of each run.

    Before a simulation the functions run for 64 rounds with every index and value checked; the
    simulation itself checks the losses only.

    Examples
    --------
    >>> import math
    >>> import bothworlds as bw
    >>> @bw.environments.custom
    ... class Seasons:
    ...     period: float = 1000.0
    ...     def mean(state, parameters, n_arms, t, arm):
    ...         return 0.5 + 0.4 * math.sin(2 * math.pi * (t / parameters.period + arm / n_arms))
    ...     def loss(state, parameters, n_arms, t, arm, u):
    ...         angle = 2 * math.pi * (t / parameters.period + arm / n_arms)
    ...         return 1.0 if u < 0.5 + 0.4 * math.sin(angle) else 0.0
    >>> Seasons(4, period=50.0)
    Seasons(n_arms=4, period=50.0)
    """
    owner = cls.__name__
    body = usercode.body_of(cls)
    functions = {}
    draws = False
    for name, counts in _ARGUMENTS.items():
        if name in body:
            taken = usercode.argument_count(name, body[name], owner, counts)
            functions[name] = usercode.compiled(body[name])
            draws = draws or taken == 7
        elif name != "update":
            raise invalid(name, owner, "a function of the class body", None)
    annotations = inspect.get_annotations(cls)
    if "n_arms" in annotations:
        raise invalid("n_arms", owner, "left out: every environment has it", annotations["n_arms"])
    made = usercode.configuration(cls, CustomEnvironment, {"n_arms": int}, eq=False)
    made.functions, made.draws = functions, draws
    made.first_state = staticmethod(body.get("start", _stateless))
    return made


def _stateless(n_arms: int, rng: np.random.Generator) -> Array:
    return np.zeros(0)


class CustomEnvironment(Environment):
    """Result of `custom`: an environment whose kernel wraps the user's functions."""

    regret: Regret = "tracked"
    wide: bool = False
    trusted: bool = False
    functions: ClassVar[dict[str, Any]]
    first_state: ClassVar[Any]
    draws: ClassVar[bool]
    record: ClassVar[Any]

    def __post_init__(self) -> None:
        keep(self, n_arms=arm_count(self.n_arms, type(self).__name__))
        usercode.check_numbers(self)

    @property
    def tracked_row(self) -> int:
        """First row of the accumulated expected losses."""
        return 1 + self.n_arms + TRACKED

    @property
    def memory_row(self) -> int:
        """First row of the memory."""
        return 1 + self.n_arms

    def parameters(self) -> Array:
        """Return the length of the user's state, then the parameters."""
        return np.array([self._user_rows, *usercode.numbers(self)], dtype=np.float64)

    def start(self, rng: np.random.Generator) -> Array:
        """Return the labels, an empty memory, no losses yet and the user's state."""
        order = np.arange(self.n_arms)
        own = self._user_state(rng)
        if own.size != self._user_rows:
            expected = f"returning {self._user_rows} numbers regardless of the generator"
            raise invalid("start", type(self).__name__, expected, own)
        generator = np.zeros(0)
        if self.draws:
            generator = _words(rng).view(np.float64)
        return state(order, memory.FIRST, 0.0, np.zeros(self.n_arms + 1), generator, own)

    @cached_property
    def _user_rows(self) -> int:
        """How many numbers the user's state has."""
        return self._user_state(np.random.default_rng(0)).size

    def _user_state(self, rng: np.random.Generator) -> Array:
        made = arguments.numbers(np.atleast_1d(self.first_state(self.n_arms, rng)))
        if made is None or made.ndim != 1:
            owner = type(self).__name__
            raise invalid("start", owner, "returning a flat array of numbers", made)
        return made

    def kernel(self) -> Any:
        """Return the kernel, every index checked, compiled once per class."""
        own: Any = type(self)
        return _kernel_of(own, True)

    def unchecked_kernel(self) -> Any:
        """Return the kernel for the engine, compiled once per class."""
        own: Any = type(self)
        return _kernel_of(own, False)

    @classmethod
    def _checked(cls) -> dict[str, Any]:
        """Return the user's functions, checked and compiled for the types of their arguments."""
        twins = {}
        for name, function in cls.functions.items():
            twins[name] = usercode.checked(function)
            rest = _REST[name] if cls.draws or name != "update" else _REST[name][:-1]
            usercode.compile_for(
                twins[name], (*usercode.leading(cls.record), *rest), name, cls.__name__
            )
        return twins

    def rehearse(self, horizon: int) -> None:
        """Run the user's functions, checked, in the first rounds against random arms."""
        owner, K, twins = repr(self), self.n_arms, self._checked()
        rng = np.random.default_rng(0)
        own, parameters = self._user_state(rng), usercode.record_of(self)
        extra = (_words(rng),) if self.draws else ()
        for t in range(1, min(horizon, usercode.REHEARSED) + 1):
            u = rng.random()
            for i in usercode.some_arms(K):
                mean = usercode.call(twins["mean"], "mean", owner, own, parameters, K, t, i)
                usercode.within(mean, "mean", owner)
                loss = usercode.call(twins["loss"], "loss", owner, own, parameters, K, t, i, u)
                usercode.within(loss, "loss", owner)
            arm = int(rng.integers(K))
            x = usercode.call(twins["loss"], "loss", owner, own, parameters, K, t, arm, u)
            if "update" in twins:
                x = usercode.within(x, "loss", owner)
                usercode.call(
                    twins["update"], "update", owner, own, parameters, K, t, arm, x, *extra
                )


def _words(rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the words of a generator for ``update``."""
    return rng.integers(1, 2**62, size=WORDS)


@functools.lru_cache(maxsize=256)
def _kernel_of(cls: type[CustomEnvironment], check: bool) -> Any:
    """Build a kernel of the uniform shape around a user's functions.

    Not an attribute of the class itself, which is sent to workers.
    """
    own, record, draws = cls.functions, cls.record, cls.draws
    functions = cls._checked() if check else {name: usercode.unchecked(own[name]) for name in own}
    key = usercode.kept_key(functions, record._fields, check, draws)
    user_loss = functions["loss"]
    user_mean = functions["mean"]
    user_update = functions.get("update", _unchanged)
    words = WORDS if draws else 0
    read = usercode.reader(record)
    remember = memory.remember

    def loss(K: int, t: int, C: Any, E: Any, G: Any, v: float, arm: int) -> float:
        tracked = 1 + K + TRACKED
        least = tracked + K
        rows = carray(E, (least + 1 + words + int(C[0]),))
        own = rows[least + 1 + words :]
        parameters = read(C)
        last, fresh = remember(E, 1 + K, t, float(arm))
        if fresh:
            if last >= 0.0:
                lost = rows[1 + K + LOSS]
                if draws:
                    generator = carray(as_words(advance(E, least + 1)), (WORDS,))
                    user_update(own, parameters, K, t - 1, int(last), lost, generator)
                else:
                    user_update(own, parameters, K, t - 1, int(last), lost)
            low = np.inf
            for i in range(K):
                mean = user_mean(own, parameters, K, t, i)
                rows[tracked + i] += mean
                low = min(low, mean)
            rows[least] += low
        rows[0] = user_mean(own, parameters, K, t, arm)
        x = float(user_loss(own, parameters, K, t, arm, v))
        rows[1 + K + LOSS] = x
        return x

    return usercode.kernel(loss, key)


@numba.njit
def _unchanged(state: Any, parameters: Any, n_arms: int, t: int, arm: int, loss: float) -> None:
    """Leave the state of an environment without ``update`` as it is."""
