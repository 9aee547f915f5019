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

from typing import Any

from numba.core import cgutils, types
from numba.core.extending import intrinsic
from numba.core.typing.templates import signature

from bothworlds.lanes.jit import jit
from bothworlds.lanes.random import WORDS
from bothworlds.lanes.types import floats, ints, is_wide
from bothworlds.lanes.vectors import advance, pointer, to_int

numbers = types.CPointer(types.float64)
words = types.CPointer(types.int64)
_prefix = (types.int64, types.int64, numbers, numbers, words)

CHOOSE_WIDE = ints(*_prefix, floats)
CHOOSE_ONE = types.int64(*_prefix, types.float64)
UPDATE_WIDE = types.void(*_prefix, ints, floats, floats)
UPDATE_ONE = types.void(*_prefix, types.int64, types.float64, types.float64)
LOSS_WIDE = floats(*_prefix, floats, ints)
LOSS_ONE = types.float64(*_prefix, types.float64, types.int64)
PREFER_WIDE = floats(*_prefix, floats, ints, ints)
PREFER_ONE = types.float64(*_prefix, types.float64, types.int64, types.int64)
ATTACK_WIDE = floats(types.FunctionType(LOSS_WIDE), *_prefix, floats, ints, numbers, numbers)
ATTACK_ONE = types.float64(
    types.FunctionType(LOSS_ONE), *_prefix, types.float64, types.int64, numbers, numbers
)


def calling(wide: Any, one: Any) -> Any:
    """Return a function for kernels that calls machine code of these shapes, given its address.

    It takes the address (`bothworlds.lanes.jit.placed_code`) and the arguments as a tuple; the
    last of them says whether the code is for a tile or for one bandit. Python hands over an
    address in a thousandth of the time that a first-class function takes.
    """

    def call_at(typingctx: Any, address: Any, arguments: Any) -> Any:
        shape = wide if is_wide(arguments.types[-1]) else one

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
