"""Digest of all that determines the numbers of a run besides its settings.

It covers the sources of this package on which the numbers depend, the code of a user's own
functions with all it refers to, and the arrays that policies and environments compute for their
kernels.
"""

from __future__ import annotations

import dataclasses
import hashlib
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothworlds import sources
from bothworlds.engine.tile import program_in
from bothworlds.environments.base import Environment
from bothworlds.lanes import user_functions
from bothworlds.policies.base import Player, Policy, unchecked

# Now, with the modules just read: the files may be replaced while this process runs.
_PACKAGE = sources.digest(*sources.NUMBERS)


def fingerprint(policy: Player, environment: Environment, files: bool = True) -> str:
    """Return a digest of all that a policy and an environment do; their names do not count.

    Parameters
    ----------
    policy : Player
        The algorithm.
    environment : Environment
        The regime.
    files : bool
        Whether the content of a file that an environment reads while it runs counts.

    Examples
    --------
    >>> import bothworlds as bw
    >>> world = bw.environments.Stochastic.gap(4, 0.25)
    >>> fingerprint(bw.UCB1(), world) == fingerprint(bw.UCB1(c=3.0), world)
    False
    """
    program = program_in(policy, environment)
    digest = hashlib.sha256(_PACKAGE)
    n_arms = environment.n_arms
    for function in [*_functions(policy, n_arms), *_functions(environment, n_arms)]:
        digest.update(user_functions.digest(function))
    for array in (program.parameters(), program.start()):
        _add(digest, array)
    digest.update(_numbers(environment, files))
    return digest.hexdigest()


def _numbers(environment: Environment, files: bool) -> bytes:
    """Return a digest of an environment's numbers, of which it may print only some."""
    # Kept with the object: environments that name the same file are equal, the file may change.
    kept = vars(environment)
    if "_fingerprint" in kept:
        return bytes(kept["_fingerprint"])
    table = environment.parameters()
    mapped = isinstance(table, np.memmap)
    digest = hashlib.sha256(f"{environment.n_arms} {table.shape}".encode())
    if files or not mapped:
        _add(digest, table)
    _add(digest, environment.start(np.random.default_rng(0)))
    attack = environment.stage()
    if attack is not None:
        _add(digest, attack.parameters)
        _add(digest, attack.start(np.random.default_rng(0)))
    delays = environment.delays()
    if delays is not None:
        _add(digest, delays)
    if not mapped:
        kept["_fingerprint"] = digest.digest()
    return digest.digest()


def _add(digest: Any, array: NDArray[Any]) -> None:
    digest.update(f" {array.dtype.str} {array.size} ".encode())
    digest.update(np.ascontiguousarray(array).data)


def _functions(owner: Any, n_arms: int) -> Iterator[types.FunctionType]:
    """Yield the functions behind a policy or an environment, and behind its components."""
    found: list[Any] = []
    if isinstance(owner, Environment):
        attack = owner.stage()
        found = [
            owner.unchecked_kernel(),
            *([attack.kernel, attack.start] if attack is not None else []),
        ]
    elif isinstance(owner, Policy):
        found = list(vars(unchecked(owner, n_arms)).values())
    # What `custom` took from a user's class, and the methods of a class of the user's own.
    found += [*getattr(type(owner), "functions", {}).values(), getattr(owner, "first_state", None)]
    for kind in type(owner).__mro__:
        if kind.__module__.partition(".")[0] not in user_functions.KNOWN:
            body = sorted(vars(kind).items())
            found += [_plain(value) for name, value in body if not name.startswith("__")]
    if dataclasses.is_dataclass(owner):
        found += [getattr(owner, field.name) for field in dataclasses.fields(owner)]
    for each in found:
        if isinstance(each, Policy | Environment):
            yield from _functions(each, n_arms)
        elif isinstance(function := getattr(each, "py_func", each), types.FunctionType):
            yield function


def _plain(value: Any) -> Any:
    """Return the function behind a property or a static or class method."""
    return getattr(value, "fget", None) or getattr(value, "__func__", value)
