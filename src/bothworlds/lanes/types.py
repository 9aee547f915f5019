"""The vector types: how they look to Numba and to LLVM, and their operators.

`bothworlds.lanes.vectors` says what they are for and holds the functions on them.
"""

import operator
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.extending import models, register_model
from numba.core.imputils import lower_builtin, lower_cast
from numba.core.typing.templates import AbstractTemplate, infer_global, signature

LANES = 16
"""Repetitions per vector: two AVX-512 registers, whose independent chains hide latency."""

_DOUBLE = ir.DoubleType()
_I64 = ir.IntType(64)
_I1 = ir.IntType(1)


class LaneType(types.Type):  # type: ignore[misc]
    """A register vector with ``LANES`` elements of one LLVM element type."""

    element: ir.Type

    def __init__(self, name: str, element: ir.Type) -> None:
        self.element = element
        super().__init__(name=f"{name}x{LANES}")

    @property
    def vector(self) -> ir.VectorType:
        """The LLVM type."""
        return ir.VectorType(self.element, LANES)


class FloatsType(LaneType):
    """Type of a vector of doubles."""


class IntsType(LaneType):
    """Type of a vector of 64-bit integers."""


class MaskType(LaneType):
    """Type of a vector of truth values."""


floats = FloatsType("Floats", _DOUBLE)
ints = IntsType("Ints", _I64)
mask = MaskType("Mask", _I1)


@register_model(FloatsType)
@register_model(IntsType)
@register_model(MaskType)
class LaneModel(models.PrimitiveModel):  # type: ignore[misc]
    """A lane value is one LLVM vector, in registers and in memory."""

    def __init__(self, dmm: Any, fe_type: LaneType) -> None:
        super().__init__(dmm, fe_type, fe_type.vector)


def splat_value(builder: Any, value: Any) -> Any:
    """Emit a vector with one LLVM value in every lane."""
    vector = ir.VectorType(value.type, LANES)
    one = builder.insert_element(
        ir.Constant(vector, ir.Undefined), value, ir.Constant(ir.IntType(32), 0)
    )
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), zeros)


@lower_cast(types.Float, FloatsType)
@lower_cast(types.Integer, FloatsType)
@lower_cast(types.IntegerLiteral, FloatsType)
def _cast_floats(context: Any, builder: Any, fromty: Any, toty: Any, value: Any) -> Any:
    return splat_value(builder, context.cast(builder, value, fromty, types.float64))


@lower_cast(types.Integer, IntsType)
@lower_cast(types.IntegerLiteral, IntsType)
def _cast_ints(context: Any, builder: Any, fromty: Any, toty: Any, value: Any) -> Any:
    return splat_value(builder, context.cast(builder, value, fromty, types.int64))


# --- operators -------------------------------------------------------------------------------


def _binary(op: Any, lane: LaneType, result: LaneType, emit: Any, scalars: tuple[Any, ...]) -> None:
    @infer_global(op)
    class Template(AbstractTemplate):  # type: ignore[misc]
        def generic(self, args: Any, kws: Any) -> Any:
            fits = all(isinstance(a, (type(lane), *scalars)) for a in args)
            if len(args) == 2 and fits and any(isinstance(a, type(lane)) for a in args):
                return signature(result, lane, lane)
            return None

    @lower_builtin(op, type(lane), type(lane))
    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return emit(builder, *args)


for _op, _name in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _binary(
        _op,
        floats,
        floats,
        lambda builder, a, b, name=_name: getattr(builder, name)(a, b),
        (types.Float, types.Integer),
    )

for _op, _name in (
    (operator.add, "add"),
    (operator.sub, "sub"),
    (operator.mul, "mul"),
    (operator.and_, "and_"),
    (operator.or_, "or_"),
    (operator.xor, "xor"),
):
    _binary(
        _op,
        ints,
        ints,
        lambda builder, a, b, name=_name: getattr(builder, name)(a, b),
        (types.Integer,),
    )

for _op, _name in ((operator.and_, "and_"), (operator.or_, "or_"), (operator.xor, "xor")):
    _binary(_op, mask, mask, lambda builder, a, b, name=_name: getattr(builder, name)(a, b), ())

for _op, _name in (
    (operator.lt, "<"),
    (operator.le, "<="),
    (operator.gt, ">"),
    (operator.ge, ">="),
    (operator.eq, "=="),
    (operator.ne, "!="),
):
    _binary(
        _op,
        floats,
        mask,
        lambda builder, a, b, name=_name: builder.fcmp_ordered(name, a, b),
        (types.Float, types.Integer),
    )
    _binary(
        _op,
        ints,
        mask,
        lambda builder, a, b, name=_name: builder.icmp_signed(name, a, b),
        (types.Integer,),
    )


@infer_global(operator.neg)
class _Negate(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        return signature(floats, floats) if args == (floats,) else None


@lower_builtin(operator.neg, FloatsType)
def _lower_neg(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.fneg(args[0])


# --- the type of a value of the same flavour ---------------------------------------------------


def is_wide(ty: Any) -> bool:
    """Tell whether a Numba type is one of the vector types."""
    return isinstance(ty, LaneType)


def number_like(like: Any) -> Any:
    """Return the type of numbers in the flavour of ``like``."""
    return floats if is_wide(like) else types.float64


def index_like(like: Any) -> Any:
    """Return the type of integers in the flavour of ``like``."""
    return ints if is_wide(like) else types.int64
