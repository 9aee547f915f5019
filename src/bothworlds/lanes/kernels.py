"""The uniform shape of every kernel, so that one compiled engine runs any pair of them.

Arguments, in this order wherever they appear:

=========== ======================================================================
``K``       number of arms
``t``       the round, from 1
``C``       configuration: numbers shared by all repetitions, read only
``S``, ``E`` state rows of a policy, of an environment
``G``       rows of the generator (`bothworlds.lanes.random`)
``u``, ``v`` the round's uniform draw, for the policy, for the environment
``arm``     index of an arm
=========== ======================================================================

A policy has ``choose(K, t, C, S, G, u) -> arm``, which leaves 1 / P(arm) in row 0 of ``S`` (0
where the probability is not known), and ``update(K, t, C, S, G, arm, inverse_p, loss)``.  An
environment has ``loss(K, t, C, E, G, v, arm) -> loss``, which leaves the round's contribution to
the pseudo-regret in row 0 of ``E``; one of duels has ``prefer(K, t, C, E, G, v, left, right)``,
which returns 1 where the left arm wins.  An attack on an environment has
``attack(loss, K, t, C, E, G, v, arm, CA, A) -> loss``, with a configuration and a state of its own.

Each is compiled for vectors (the engine's tiles) and for scalars (one bandit), from one source.
Pointers instead of arrays keep reference counting out of the inner loop.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from numba.core import cgutils, types
from numba.core.extending import intrinsic
from numba.core.typing.templates import signature

from bothworlds.lanes.jit import jit
from bothworlds.lanes.random import WORDS
from bothworlds.lanes.types import LANES, FloatsType, GroupType, IntsType, is_wide, of_lanes
from bothworlds.lanes.vectors import advance, pointer, to_int

numbers = types.CPointer(types.float64)
words = types.CPointer(types.int64)


class Shapes(NamedTuple):
    """The signatures of kernels for values of one width."""

    choose: Any
    update: Any
    loss: Any
    prefer: Any
    attack: Any


@functools.cache
def shapes(lanes: int) -> Shapes:
    """Return the signatures of kernels for vectors of this many lanes, or for one repetition."""
    number, index = types.float64, types.int64
    if lanes > 1:
        number, index = of_lanes(FloatsType, lanes), of_lanes(IntsType, lanes)
    rows, generator = numbers, words
    if 1 < lanes < LANES:
        rows, generator = GroupType(types.float64), GroupType(types.int64)
    prefix = types.int64, types.int64, numbers, rows, generator
    loss = number(*prefix, number, index)
    return Shapes(
        index(*prefix, number),
        types.void(*prefix, index, number, number),
        loss,
        number(*prefix, number, index, index),
        number(types.FunctionType(loss), *prefix, number, index, numbers, rows),
    )


CHOOSE_WIDE, UPDATE_WIDE, LOSS_WIDE, PREFER_WIDE, ATTACK_WIDE = shapes(LANES)
CHOOSE_ONE, UPDATE_ONE, LOSS_ONE, PREFER_ONE, ATTACK_ONE = shapes(1)


def calling(shape_of: Callable[[int], Any]) -> Any:
    """Return a function for kernels that calls machine code, given its address.

    It takes the address (`bothworlds.lanes.jit.placed_code`) and the arguments as a tuple; the
    last of them is the number of lanes of the code, and ``shape_of`` the signature for this many.
    Python hands over an address in a thousandth of the time that a first-class function takes.
    """

    def call_at(typingctx: Any, address: Any, arguments: Any) -> Any:
        last = arguments.types[-1]
        shape = shape_of(last.lanes if is_wide(last) else 1)

        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            given = cgutils.unpack_tuple(builder, args[1], len(shape.args))
            values = [
                context.cast(builder, value, own, wanted)
                for value, own, wanted in zip(given, sig.args[1].types, shape.args, strict=True)
            ]
            conv = context.call_conv
            kind = conv.get_function_type(shape.return_type, shape.args)
            code = builder.inttoptr(args[0], kind.as_pointer())
            status, result = conv.call_function(
                builder, code, shape.return_type, shape.args, values
            )
            with cgutils.if_unlikely(builder, status.is_error):
                conv.return_status_propagate(builder, status)
            return result

        return signature(shape.return_type, types.int64, arguments), codegen

    return intrinsic(call_at)


@intrinsic
def as_words(typingctx: Any, start: Any) -> Any:
    """Read the memory behind a pointer to doubles as 64-bit words."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(words))

    return signature(words, start), codegen


# One bandit in one array, so that a call from Python unpacks one argument:
# [K, t, number of parameters, generator words, parameters, state].
ARMS, ROUND, PARAMETERS, GENERATOR = 0, 1, 2, 3
HEAD = GENERATOR + WORDS
"""Where the parameters begin; the state follows them."""


@jit
def unpack(F: Any) -> Any:
    """Return K, t and the pointers C, S, G of a bandit packed in one array."""
    start = pointer(F)
    C = advance(start, HEAD)
    S = advance(C, to_int(F[PARAMETERS]))
    return to_int(F[ARMS]), to_int(F[ROUND]), C, S, as_words(advance(start, GENERATOR))
