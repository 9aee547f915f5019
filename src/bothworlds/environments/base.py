"""Base class of environments: a frozen configuration that names its kernel and its first state.

An environment holds no state and no generator.  The simulation engine calls its kernel (the shape
is in `bothworlds.lanes.kernels`) on tiles of repetitions, with one uniform number ``v`` per round
and repetition.  The losses of all arms in a round are functions of that one number, so the stream
of an environment does not depend on what the policies play, and the loss of an arm that was not
played is well defined.

State rows of every environment, before its own:

======== ==================================================================
row      holds
======== ==================================================================
0        the played arm's contribution to the pseudo-regret of the round
1 to K   the label of the arm at each index: its place in the constructor
======== ==================================================================

Kernels may be called more than once in a round, for different arms; the played arm comes last.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
from collections.abc import Callable, Iterable
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Start = Callable[[np.random.Generator], Array]
Regret = Literal["gaps", "oblivious", "tracked"]
Kind = Literal["bandit", "duel", "advised"]

ORDER = 1
"""First of the rows that hold the label of every arm."""


@dataclasses.dataclass(frozen=True)
class Attack:
    """A stage between an environment and the agent that changes the observed losses.

    Parameters
    ----------
    kernel : dispatcher
        ``attack(base_loss, K, t, C, E, G, v, arm, CA, A) -> loss``, which calls the environment's
        own kernel ``base_loss(K, t, C, E, G, v, arm)`` for the arms it needs, the played one last.
    parameters : ndarray
        Its configuration ``CA``, shared by all repetitions.
    start : callable
        ``start(rng)`` returns its state ``A`` for one repetition; row 0 is the budget spent.
    arm_rows : tuple of int
        The rows of ``A`` that hold an arm, or -1 for none.
    """

    kernel: Any
    parameters: Array
    start: Start
    arm_rows: tuple[int, ...] = ()


class Environment:
    """Base class of every environment.

    Subclasses are frozen dataclasses; they print as their constructor and compare by value.

    Attributes
    ----------
    n_arms : int
        Number of arms.
    horizon_limit : int or None
        Rounds the environment is defined for; None where there is no end.
    regret : {"gaps", "oblivious", "tracked"}
        How the pseudo-regret comes from row 0 of the state. "gaps": its sum. "oblivious": its sum,
        expected losses, less `best_cumulative`. "tracked": its sum less the smallest of the means,
        over the repetitions, of the rows from ``tracked_row`` on, where every arm's expected loss
        is accumulated; one row more accumulates the least of every round.
    trusted : bool
        Whether losses in [0, 1] are certain. Where a user's function makes them, they are not.
    unbounded : bool
        Whether losses may lie outside [0, 1], which few policies take.
    wide : bool
        Whether the kernel also compiles for tiles of repetitions.
    kind : {"bandit", "duel", "advised"}
        Whether the kernel takes one arm or two; or whether experts advise, as in `Advised`.
    """

    n_arms: int
    horizon_limit: int | None = None
    regret: Regret = "gaps"
    trusted: bool = True
    unbounded: bool = False
    wide: bool = True
    kind: ClassVar[Kind] = "bandit"

    @property
    def adaptive(self) -> bool:
        """Whether losses may depend on the actions of the agent before."""
        return self.regret == "tracked"

    @property
    def tracked_row(self) -> int:
        """First state row of the arms' accumulated expected losses, where ``regret`` needs it."""
        raise AttributeError(f"{type(self).__name__} tracks no expected losses.")

    def best_cumulative(self, checkpoints: NDArray[np.int64]) -> Array:
        """Return min_i sum of arm i's expected losses up to each of the increasing checkpoints."""
        raise AttributeError(f"{type(self).__name__} is not oblivious.")

    def least_cumulative(self, checkpoints: NDArray[np.int64]) -> Array:
        """Return the sum over rounds of the least expected loss, up to each checkpoint."""
        raise AttributeError(f"{type(self).__name__} is not oblivious.")

    def comparators(self, checkpoints: NDArray[np.int64]) -> dict[str, Array]:
        """Return further comparators of the regret, each with its correction.

        A number for each checkpoint, by the name of the comparator. "dynamic" is the best arm of
        each round, "fixed in this run" the one arm that is best over the rounds of a run. Empty
        where they depend on the plays: the tracked sums have them for every run.
        """
        if self.regret == "tracked":
            return {}
        nothing = np.zeros(len(checkpoints))
        if self.regret == "gaps":
            return {"dynamic": nothing, "fixed in this run": nothing}
        between = self.best_cumulative(checkpoints) - self.least_cumulative(checkpoints)
        return {"dynamic": between, "fixed in this run": nothing}

    def fixed_gaps(self) -> Array:
        """Return the fixed gap of every arm; empty where gaps are not fixed."""
        return np.zeros(0)

    def ranking(self) -> NDArray[np.int64]:
        """Return the labels of the arms, best first; empty where no arm is known to be best."""
        return np.argsort(self.fixed_gaps(), kind="stable")

    def parameters(self) -> Array:
        """Return the configuration numbers the kernel reads."""
        return np.zeros(1)

    def start(self, rng: np.random.Generator) -> Array:
        """Return the state of one repetition before the first round."""
        raise TypeError(f"{type(self).__name__} defines no state.")

    def start_all(self, rngs: Iterable[np.random.Generator]) -> Array:
        """Return the states of repetitions before the first round, a row each: those of `start`."""
        return np.array([self.start(rng) for rng in rngs])

    def kernel(self) -> Any:
        """Return the compiled function."""
        raise TypeError(f"{type(self).__name__} defines no kernel.")

    def unchecked_kernel(self) -> Any:
        """Return the function for the engine: the same, without checks of a user's indices."""
        return self.kernel()

    def rehearse(self, horizon: int) -> None:
        """Run a user's functions, checked, for some rounds; raise `KernelError` if they fail."""

    @property
    def memory_row(self) -> int | None:
        """First state row that rounds change, besides row 0: that of `environments.memory`.

        None where no row changes.
        """
        return None

    def stage(self) -> Attack | None:
        """Return the stage that changes the observed losses, or None."""
        return None

    def delays(self) -> Array | None:
        """Return how long feedback takes, see `bothworlds.environments.delays`; None if no time."""
        return None

    def _arguments(self) -> dict[str, Any]:
        """Return the constructor's arguments, in its order."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return {field.name: getattr(self, field.name) for field in fields if field.init}

    def __reduce__(self) -> tuple[Any, ...]:
        # Rebuilt by its constructor: a memory-mapped file travels as its path.
        return type(self), tuple(self._arguments().values())

    def __repr__(self) -> str:
        # Every tile of repetitions asks for the name of its world.
        known: str | None = self.__dict__.get("_shown")
        if known is None:
            known = self._show()
            object.__setattr__(self, "_shown", known)
        return known

    def _show(self) -> str:
        parameters = inspect.signature(type(self)).parameters
        shown = [
            f"{name}={_show(value)}"
            for name, value in self._arguments().items()
            if not _same(value, parameters[name].default)
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Environment) or type(other) is not type(self):
            return NotImplemented
        return _key(self) == _key(other)

    def __hash__(self) -> int:
        return hash(_key(self))


def _key(environment: Environment) -> tuple[Any, ...]:
    """Return the arguments of an environment in a form that compares by value."""
    key = []
    for value in environment._arguments().values():
        if isinstance(value, np.ndarray):
            value = (value.shape, hashlib.sha256(np.ascontiguousarray(value).data).digest())
        key.append(value)
    return tuple(key)


def _same(value: object, default: object) -> bool:
    return not isinstance(value, np.ndarray) and value == default


def _show(value: object) -> str:
    """Print a parameter, long arrays by their ends or their shape."""
    if callable(value) and not isinstance(value, Environment):
        return getattr(value, "__qualname__", repr(value))
    if isinstance(value, tuple) and all(isinstance(each, Real) for each in value):
        value = np.array(value)
    if not isinstance(value, np.ndarray):
        return repr(value)
    if value.size <= 16:
        return repr(value.tolist())
    if value.ndim == 1:
        ends = [repr(x) for x in value[[0, 1, -1]].tolist()]
        return f"[{ends[0]}, {ends[1]}, ..., {ends[2]}]"
    return f"<array of shape {value.shape}>"


class InOrder:
    """A generator that leaves the arms as the constructor has them, for policies that name them."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def permutation(self, n_arms: int) -> NDArray[np.int64]:
        """Return the arms in order; the generator draws an order all the same."""
        self._rng.permutation(n_arms)
        return np.arange(n_arms)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rng, name)


def ordered(rng: np.random.Generator, n_arms: int, shuffle: bool) -> NDArray[np.int64]:
    """Return the label of the arm at each index, in random order if ``shuffle``."""
    return rng.permutation(n_arms) if shuffle else np.arange(n_arms)


def state(order: NDArray[np.int64], *rows: Any) -> Array:
    """Join row 0, the labels and further rows or groups of rows into one column."""
    groups = [row if isinstance(row, np.ndarray) else np.atleast_1d(row) for row in rows]
    return np.concatenate([_NOTHING_YET, order, *groups]).astype(np.float64, copy=False)


def states(order: NDArray[np.int64], *groups: NDArray[Any]) -> Array:
    """Do the same for repetitions that have a row each, and groups as long as the labels."""
    return np.concatenate([np.zeros((len(order), 1)), order, *groups], axis=1)


_NOTHING_YET = np.zeros(1)
