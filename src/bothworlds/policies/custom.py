"""Your own algorithm, compiled: a class with two or three small functions, and one decorator.

The functions are plain Python on arrays and numbers; Numba compiles them, and they run in the
same engine, the same `Bandit` and the same checks as the policies of this package.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numba import carray
from numba.core import types

from bothworlds import arguments
from bothworlds.errors import BothworldsError, InvalidParameter, KernelError, invalid, must
from bothworlds.lanes.jit import jit
from bothworlds.lanes.kernels import ARMS, GENERATOR, HEAD, PARAMETERS, ROUND
from bothworlds.lanes.random import WORDS, uniform
from bothworlds.lanes.vectors import FEW_NUMBERS, advance, few_numbers
from bothworlds.policies.base import Array, Kernels, Policy, Program, Saved, Traits
from bothworlds.usercode import (
    REHEARSED,
    argument_count,
    body_of,
    call,
    check_numbers,
    checked,
    compile_for,
    compiled,
    configuration,
    fault,
    kept_key,
    kernel,
    leading,
    no_arm,
    numbers,
    reader,
    record_of,
    unchecked,
)

WEIGHT = Saved("weight", low=1.0 - 1e-9)
TOLERANCE = 1e-9
"""Tolerance of the sum of a user's probabilities."""
_REST = {
    "choose": (types.int64[::1],),
    "probabilities": (types.float64[::1],),
    "update": (types.int64, types.float64, types.float64, types.int64[::1]),
}
"""Types of the arguments after state, parameters, number of arms and round."""


@jit
def random_unit(generator: Any) -> Any:
    """Draw a uniform number in [0, 1) from the generator a policy's functions receive."""
    return uniform(generator, 0.0)


def custom(cls: type) -> Any:
    """Make a policy of a class with annotated parameters and compiled functions.

    The class body holds parameters (numbers, with or without defaults) and these functions, none
    of which takes ``self``:

    ``start(n_arms)`` or ``start(n_arms, parameters)``
        The state before round 1, a one-dimensional array of floats. Plain Python, not compiled.
    ``choose(state, parameters, n_arms, t, generator)``
        Returns the arm for round t (from 1), or ``(arm, probability)``, or ``(arm, weight)``.
        ``parameters`` has one attribute per parameter; ``random_unit(generator)`` draws uniform
        numbers.
    ``probabilities(state, parameters, n_arms, t, p)``
        Instead of ``choose``: fills the array ``p`` with the distribution to draw from.
    ``update(state, parameters, n_arms, t, arm, probability, loss)``
        Changes the state after ``arm``, chosen with ``probability``, had ``loss`` in [0, 1].
        ``probability`` is 0 where ``choose`` returned none. It may take one argument more, a
        ``generator`` as ``choose`` has it.
    ``update(state, parameters, n_arms, t, arm, weight, loss)``
        The name ``weight`` states that ``choose`` returns ``(arm, weight)``: an estimate >= 1 of
        the inverse probability, such as a count of geometric resampling. It is kept with the
        decision, late feedback included, and decisions have no ``probability``.

    An arm must be from 0 to ``n_arms`` - 1, its probability in (0, 1], and a distribution must have
    numbers >= 0 that sum to 1; the probabilities may be off by 1e-9. A `Bandit` checks that, and
    every index, in every round. A simulation does so in a rehearsal of 64 rounds before its first;
    afterwards it only looks at the arm and the distribution.

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
            raise invalid(name, owner, "a function", body.get(name))
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
    made.configured = argument_count("start", body["start"], owner, (1, 2)) == 2
    taken = argument_count("update", body["update"], owner, (7, 8))
    made.draws = taken == 8
    plain = getattr(body["update"], "py_func", body["update"])
    made.weighted = plain.__code__.co_varnames[5] == "weight"
    if made.weighted and "choose" not in made.functions:
        raise InvalidParameter(f"The class {owner} must define choose, whose weight update takes.")
    made.traits = replace(
        made.traits,
        knows_probability="probabilities" in made.functions,
        head_rows=1 + made.weighted,
        carried_rows=int(made.weighted),
        saved_carried=(WEIGHT,) * made.weighted,
    )
    return made


class CustomPolicy(Policy):
    """Result of `custom`: a policy whose kernels wrap the user's functions."""

    traits: ClassVar[Traits] = Traits(trusted=False)
    functions: ClassVar[dict[str, Any]]
    record: ClassVar[Any]
    configured: ClassVar[bool]
    draws: ClassVar[bool]
    weighted: ClassVar[bool]

    def __post_init__(self) -> None:
        check_numbers(self)

    def parameters(self, n_arms: int) -> Array:
        """Return the length of the user's state, then the parameters."""
        rows = self._user_state(n_arms).size
        return np.array([rows, *numbers(self)])

    def start(self, n_arms: int) -> Array:
        """Return a row for the inverse probability, one for the weight, and the first state."""
        return np.concatenate([np.zeros(self.traits.head_rows), self._user_state(n_arms)])

    def _user_state(self, n_arms: int) -> Array:
        made = self.functions["start"](n_arms, *((record_of(self),) if self.configured else ()))
        state = arguments.numbers(made)
        if state is None or state.ndim != 1:
            owner = type(self).__name__
            raise invalid("start", owner, "returning a flat array of numbers", made)
        return state

    def program(self, n_arms: int, *, lanes: bool = False, horizon: int | None = None) -> Program:
        """Return the kernels; in lanes without checks of indices, after a checked rehearsal."""
        own: Any = type(self)
        return Program.of(self, n_arms, _kernels_of(own, not lanes))

    def kernels(self) -> Kernels:
        """Return the kernels, every index checked, compiled once per class."""
        own: Any = type(self)
        return _kernels_of(own, True)

    @classmethod
    def _compiled(cls, check: bool) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the user's functions, compiled for their arguments, and their return values."""
        made, returned = {}, {}
        for name, rest in _REST.items():
            if name == "update" and not cls.draws:
                rest = rest[:-1]
            if name in cls.functions:
                function = cls.functions[name]
                made[name] = checked(function) if check else unchecked(function)
                # The engine's are compiled when they are used, but what `choose` returns must be
                # known; what cannot be compiled is found by the checked ones, which come first.
                if check or name == "choose":
                    given = (*leading(cls.record), *rest)
                    returned[name] = compile_for(made[name], given, name, cls.__name__)
        return made, returned

    def rehearse(self, n_arms: int, name: str, horizon: int) -> None:
        """Run the user's functions, checked, in the first rounds against random losses."""
        rng = np.random.default_rng(0)
        state = self._user_state(n_arms).copy()
        generator = rng.integers(1, 2**62, size=WORDS)
        learn = self._compiled(check=True)[0]["update"]
        extra = (generator,) if self.draws else ()
        for t in range(1, min(horizon, REHEARSED) + 1):
            arm, p = self._decision(state, n_arms, t, generator, name, rng.random())
            # Both ends of the losses, because an index may be computed from one.
            loss = float(rng.choice([0.0, 1.0, rng.random()]))
            call(learn, "update", name, state, record_of(self), n_arms, t, arm, p, loss, *extra)

    def fault(self, F: Array, arm: int | None, error: Exception | None) -> BothworldsError:
        """Return the error for a choice from a packed bandit that failed, or gave no arm."""
        name, K = type(self).__name__, int(F[ARMS])
        own = F[HEAD + int(F[PARAMETERS]) + self.traits.head_rows :].copy()
        generator = F.view(np.int64)[GENERATOR:HEAD].copy()
        u = random_unit(generator)
        try:
            self._decision(own, K, int(F[ROUND]), generator, name, u)
        except BothworldsError as found:
            return found
        function = "probabilities" if "probabilities" in self.functions else "choose"
        return no_arm(function, name, K, arm) if error is None else fault(function, name, error)

    def _decision(
        self, state: Array, n_arms: int, t: int, generator: Any, owner: str, u: float
    ) -> tuple[int, float]:
        """Return a choice of the user's functions and its probability, or raise an error.

        Of a policy with weights, the weight takes the place of the probability.
        """
        functions, given = self._compiled(check=True)[0], (state, record_of(self), n_arms, t)
        if "probabilities" in functions:
            p = np.full(n_arms, np.nan)
            call(functions["probabilities"], "probabilities", owner, *given, p)
            if not (np.all(p >= 0.0) and abs(p.sum() - 1.0) <= TOLERANCE):
                expected = f"numbers >= 0 that sum to 1 within {TOLERANCE:g}"
                raise KernelError(must("probabilities", owner, expected, p))
            arm = min(int(np.searchsorted(np.cumsum(p), u, side="right")), n_arms - 1)
            return arm, float(p[arm])
        made = call(functions["choose"], "choose", owner, *given, generator)
        arm, probability = made if isinstance(made, tuple) else (made, None)
        if not 0 <= arm < n_arms:
            raise no_arm("choose", owner, n_arms, arm)
        if probability is None:
            return int(arm), 0.0
        if self.weighted:
            if not 1.0 - TOLERANCE <= probability < np.inf:
                expected = "a number >= 1 with the arm"
                raise KernelError(must("weight", f"{owner}.choose", expected, probability))
            return int(arm), float(probability)
        if not 0.0 < probability <= 1.0 + TOLERANCE:
            expected = "a number in (0, 1] with the arm"
            raise KernelError(must("probability", f"{owner}.choose", expected, probability))
        return int(arm), float(probability)


@functools.lru_cache(maxsize=256)
def _kernels_of(cls: type[CustomPolicy], check: bool) -> Kernels:
    """Return the kernels of a class, which is sent to workers without them."""
    functions, returned = cls._compiled(check)
    pair = isinstance(returned.get("choose"), types.BaseTuple)
    if cls.weighted and not pair:
        raise KernelError(
            f"The choose of {cls.__name__} must return (arm, weight), because update takes a "
            "weight."
        )
    return _wrap(functions, cls, pair, check)


def _wrap(functions: dict[str, Any], cls: type[CustomPolicy], pair: bool, check: bool) -> Kernels:
    """Build kernels of the uniform shape around a user's functions.

    ``pair`` states whether ``choose`` returns a probability or a weight with the arm, ``check``
    whether to look at that.
    """
    learn = functions["update"]
    read = reader(cls.record)
    weighted, draws, head = cls.weighted, cls.draws, cls.traits.head_rows
    key = kept_key(functions, cls.record._fields, pair, check, weighted, draws)
    made = functools.partial(kernel, key=key)
    if "probabilities" in functions:
        fill = functions["probabilities"]

        @made
        def distribution(K: int, t: int, C: Any, S: Any, out: Any) -> None:
            fill(carray(advance(S, 1), (int(C[0]),)), read(C), K, t, out)

        @made
        def choose(K: int, t: int, C: Any, S: Any, G: Any, u: float) -> Any:
            # An array from the heap takes as long as a round of few arms.
            p = carray(few_numbers(), (K,))
            if K > FEW_NUMBERS:
                p = np.empty(K)
            # What is not written must not pass for a number.
            for i in range(K):
                p[i] = np.nan
            distribution(K, t, C, S, p)
            total = 0.0
            for i in range(K):
                if not p[i] >= 0.0:
                    return -1
                total += p[i]
            if not abs(total - 1.0) <= TOLERANCE:
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

        @made
        def weights(K: int, t: int, C: Any, S: Any, G: Any, out: Any) -> None:
            distribution(K, t, C, S, out)

    else:
        pick = functions["choose"]
        weights = None
        if weighted:

            @made
            def choose(K: int, t: int, C: Any, S: Any, G: Any, u: float) -> Any:
                state = carray(advance(S, head), (int(C[0]),))
                arm, weight = pick(state, read(C), K, t, carray(G, (WORDS,)))
                if check and not 1.0 - TOLERANCE <= weight < np.inf:
                    return -1
                S[0] = 0.0
                S[1] = weight
                return int(arm)

        elif pair:

            @made
            def choose(K: int, t: int, C: Any, S: Any, G: Any, u: float) -> Any:
                state = carray(advance(S, 1), (int(C[0]),))
                arm, probability = pick(state, read(C), K, t, carray(G, (WORDS,)))
                if check and not 0.0 < probability <= 1.0 + TOLERANCE:
                    return -1
                S[0] = 1.0 / probability
                return int(arm)

        else:

            @made
            def choose(K: int, t: int, C: Any, S: Any, G: Any, u: float) -> Any:
                state = carray(advance(S, 1), (int(C[0]),))
                S[0] = 0.0
                return int(pick(state, read(C), K, t, carray(G, (WORDS,))))

    @made
    def update(
        K: int, t: int, C: Any, S: Any, G: Any, arm: int, inverse_p: float, loss: float
    ) -> None:
        p = S[1] if weighted else (1.0 / inverse_p if inverse_p > 0.0 else 0.0)
        state = carray(advance(S, head), (int(C[0]),))
        if draws:
            learn(state, read(C), K, t, arm, p, loss, carray(G, (WORDS,)))
        else:
            learn(state, read(C), K, t, arm, p, loss)

    return Kernels.of(choose, update, weights, wide=False)
