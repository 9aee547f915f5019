"""A campaign is a table of curves, and a curve is named by everything that determines it."""

from __future__ import annotations

import functools
import hashlib
import json
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from bothworlds.dueling.sparring import Sparring
from bothworlds.environments.base import Environment
from bothworlds.lanes.jit import source_stamp
from bothworlds.policies.base import Policy

Player = Policy | Sparring
"""What can be simulated: a policy, or a pair of them in duels."""


@dataclass(frozen=True)
class Curve:
    """One policy in one environment, repeated.

    Parameters
    ----------
    name : str
        The policy's label, which seeds its stream.
    policy : Policy or Sparring
        The algorithm.
    environment : Environment
        The regime.
    checkpoints : tuple of int
        Rounds to record, increasing; the last one is the horizon.
    repetitions : int
        How many runs are wanted.
    seed : int
        The user's seed.
    label : str
        Where the curve belongs, for people; it determines nothing.

    Examples
    --------
    >>> import bothworlds as bw
    >>> world = bw.environments.Stochastic.gap(4, 0.25)
    >>> curve = Curve("RV", bw.TsallisINF(), world, (100, 1000), 32, 0)
    >>> other = Curve("RV", bw.TsallisINF(), world, (100, 2000), 64, 0)
    >>> curve.key == other.key, curve.stem == other.stem
    (True, False)
    """

    name: str
    policy: Player
    environment: Environment
    checkpoints: tuple[int, ...]
    repetitions: int
    seed: int
    label: str = ""

    @property
    def horizon(self) -> int:
        """Rounds of a run."""
        return self.checkpoints[-1]

    @functools.cached_property
    def player(self) -> Player:
        """The policy whose kernels serve this number of arms."""
        if isinstance(self.policy, Sparring):
            return self.policy
        return self.policy.at(self.environment.n_arms)

    @functools.cached_property
    def key(self) -> str:
        """Names the runs, whatever their length and number.

        A digest of the kernels' sources, the policy, the environment and the seed; of the code
        of a user's own functions, too.
        """
        settings = {
            "kernels": source_stamp().hex(),
            "name": self.name,
            "policy": repr(self.policy),
            "code": policy_code(self.policy),
            "environment": environment_digest(self.environment),
            "seed": self.seed,
        }
        return _short(json.dumps(settings, sort_keys=True), 20)

    @functools.cached_property
    def stem(self) -> str:
        """Names the runs of this length: the key, the horizon and a digest of the checkpoints."""
        return f"{self.key}-{self.horizon}-{_short(repr(self.checkpoints), 8)}"

    @functools.cached_property
    def settings(self) -> dict[str, Any]:
        """What files tell about the curve.

        Regret comes from the costs by what is under "regret" and "best"; see
        `Environment.regret`.
        """
        world = self.environment
        best = None
        if world.regret == "oblivious":
            best = world.best_cumulative(np.asarray(self.checkpoints)).tolist()
        return {
            "name": self.name,
            "policy": repr(self.policy),
            "environment": repr(world),
            "arms": world.n_arms,
            "seed": self.seed,
            "checkpoints": list(self.checkpoints),
            "regret": world.regret,
            "best": best,
        }


def _short(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


@functools.lru_cache(maxsize=4096)
def environment_digest(environment: Environment) -> str:
    """Return a digest of an environment.

    Long arrays are abbreviated when an environment prints; its numbers are not.
    """
    digest = hashlib.sha256(f"{environment!r} {environment.n_arms}".encode())
    numbers = [environment.parameters(), environment.start(np.random.default_rng(0))]
    attack = environment.attack()
    functions = [environment.kernel(), *_own_functions(environment)]
    if attack is not None:
        numbers.append(attack.parameters)
        functions += [attack.kernel, attack.start]
    for array in numbers:
        digest.update(f" {array.size} ".encode())
        digest.update(np.ascontiguousarray(array).data)
    for line in _code_lines(functions):
        digest.update(line)
    return digest.hexdigest()


def policy_code(policy: Player) -> str:
    """Return a digest of the functions that a user wrote for a policy."""
    if isinstance(policy, Sparring):
        return policy_code(policy.policy)
    kernels = policy.kernels()
    digest = hashlib.sha256()
    for line in _code_lines([*vars(kernels).values(), *_own_functions(policy)]):
        digest.update(line)
    return digest.hexdigest()


def _own_functions(owner: Any) -> list[Any]:
    """Return the functions that `custom` took from a user's class."""
    functions = getattr(type(owner), "functions", {})
    return [*functions.values(), getattr(owner, "first_state", None)]


def _code_lines(functions: list[Any]) -> Iterator[bytes]:
    """Yield the byte code of functions from outside this package, and of what they refer to.

    The kernels of this package are named by `source_stamp`; of its own functions only what they
    enclose is looked at, which is where a user's functions are.
    """
    waiting, seen = list(functions), set()
    while waiting:
        function = waiting.pop(0)
        function = getattr(function, "py_func", function)
        if isinstance(function, int | float | str | tuple | np.ndarray | np.generic):
            yield repr(getattr(function, "tolist", lambda it=function: it)()).encode()
        if not isinstance(function, types.FunctionType) or function in seen:
            continue
        seen.add(function)
        waiting += [cell.cell_contents for cell in function.__closure__ or ()]
        if function.__module__.split(".")[0] == "bothworlds":
            continue
        for code in _codes(function.__code__):
            numbers = [x for x in code.co_consts if not isinstance(x, types.CodeType)]
            yield code.co_code + repr((numbers, code.co_names)).encode()
            names = [name for name in code.co_names if name in function.__globals__]
            waiting += [function.__globals__[name] for name in names]


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield a code object and those of the functions defined inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)
