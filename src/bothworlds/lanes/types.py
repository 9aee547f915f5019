"""The vector types: how they look to Numba and to LLVM, and their operators.

`bothworlds.lanes.vectors` describes their use and has the functions on them.
"""

import functools
import operator
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.extending import models, register_model
from numba.core.imputils import lower_builtin, lower_cast
from numba.core.typing.templates import AbstractTemplate, infer_global, signature

LANES = 16
"""Repetitions of a tile, and arms in a vector of one repetition's arms."""
WIDTHS = (4, 8, 16)
"""Lanes that a vector of repetitions may have; a tile is one, two or four such groups."""

_DOUBLE = ir.DoubleType()
_I64 = ir.IntType(64)
_I1 = ir.IntType(1)


class LaneType(types.Type):  # type: ignore[misc]
    """A register vector with ``lanes`` elements of one LLVM element type."""

    element: ir.Type

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        super().__init__(name=f"{type(self).__name__.removesuffix('Type')}x{lanes}")

    @property
    def vector(self) -> ir.VectorType:
        """The LLVM type."""
        return ir.VectorType(self.element, self.lanes)


class FloatsType(LaneType):
    """Type of a vector of doubles."""

    element = _DOUBLE


class IntsType(LaneType):
    """Type of a vector of 64-bit integers."""

    element = _I64


class MaskType(LaneType):
    """Type of a vector of truth values."""

    element = _I1


class GroupType(types.Type):  # type: ignore[misc]
    """Type of the place of a group of lanes in the rows of a tile.

    It is the address of the first lane's number and that lane's number in the tile.  Where a tile
    is one vector, or there is one repetition only, a plain pointer does.
    """

    def __init__(self, dtype: types.Type) -> None:
        self.dtype = dtype
        super().__init__(name=f"Group({dtype})")


@functools.cache
def of_lanes(kind: Any, lanes: int) -> Any:
    """Return the type of vectors with this many lanes."""
    return kind(lanes)


floats = of_lanes(FloatsType, LANES)
ints = of_lanes(IntsType, LANES)
mask = of_lanes(MaskType, LANES)


@register_model(FloatsType)
@register_model(IntsType)
@register_model(MaskType)
class LaneModel(models.PrimitiveModel):  # type: ignore[misc]
    """A lane value is one LLVM vector, in registers and in memory."""

    def __init__(self, dmm: Any, fe_type: LaneType) -> None:
        super().__init__(dmm, fe_type, fe_type.vector)


@register_model(GroupType)
class GroupModel(models.StructModel):  # type: ignore[misc]
    """An address and a number."""

    def __init__(self, dmm: Any, fe_type: GroupType) -> None:
        members = [("data", types.CPointer(fe_type.dtype)), ("first", types.int64)]
        super().__init__(dmm, fe_type, members)


def splat_value(builder: Any, value: Any, lanes: int) -> Any:
    """Emit a vector with one LLVM value in every lane."""
    vector = ir.VectorType(value.type, lanes)
    one = builder.insert_element(
        ir.Constant(vector, ir.Undefined), value, ir.Constant(ir.IntType(32), 0)
    )
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
    return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), zeros)


@lower_cast(types.Float, FloatsType)
@lower_cast(types.Integer, FloatsType)
@lower_cast(types.IntegerLiteral, FloatsType)
def _cast_floats(context: Any, builder: Any, fromty: Any, toty: Any, value: Any) -> Any:
    return splat_value(builder, context.cast(builder, value, fromty, types.float64), toty.lanes)


@lower_cast(types.Integer, IntsType)
@lower_cast(types.IntegerLiteral, IntsType)
def _cast_ints(context: Any, builder: Any, fromty: Any, toty: Any, value: Any) -> Any:
    return splat_value(builder, context.cast(builder, value, fromty, types.int64), toty.lanes)


# --- operators -------------------------------------------------------------------------------


def _compared(compare: Any, sign: str, builder: Any, a: Any, b: Any) -> Any:
    return compare(builder, sign, a, b)


def _binary(op: Any, kind: Any, result: Any, emit: Any, *scalars: Any) -> None:
    @infer_global(op)
    class Template(AbstractTemplate):  # type: ignore[misc]
        def generic(self, args: Any, kws: Any) -> Any:
            if len(args) != 2 or not all(isinstance(a, (kind, *scalars)) for a in args):
                return None
            lane = next((a for a in args if isinstance(a, kind)), None)
            return None if lane is None else signature(of_lanes(result, lane.lanes), lane, lane)

    @lower_builtin(op, kind, kind)
    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return emit(builder, *args)


for _name in ("add", "sub", "mul", "truediv"):
    _emit = getattr(ir.IRBuilder, f"f{_name.removeprefix('true')}")
    _binary(getattr(operator, _name), FloatsType, FloatsType, _emit, types.Float, types.Integer)

for _name in ("add", "sub", "mul", "and_", "or_", "xor"):
    _emit = getattr(ir.IRBuilder, _name)
    _binary(getattr(operator, _name), IntsType, IntsType, _emit, types.Integer)

for _name in ("and_", "or_", "xor"):
    _binary(getattr(operator, _name), MaskType, MaskType, getattr(ir.IRBuilder, _name))

for _op, _sign in (
    (operator.lt, "<"),
    (operator.le, "<="),
    (operator.gt, ">"),
    (operator.ge, ">="),
    (operator.eq, "=="),
    (operator.ne, "!="),
):
    _numbers = functools.partial(_compared, ir.IRBuilder.fcmp_ordered, _sign)
    _binary(_op, FloatsType, MaskType, _numbers, types.Float, types.Integer)
    _integers = functools.partial(_compared, ir.IRBuilder.icmp_signed, _sign)
    _binary(_op, IntsType, MaskType, _integers, types.Integer)


@infer_global(operator.neg)
class _Negate(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        (lane,) = args
        return signature(lane, lane) if isinstance(lane, FloatsType) else None


@lower_builtin(operator.neg, FloatsType)
def _lower_neg(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.fneg(args[0])


# --- the type of a value of the same flavour ---------------------------------------------------


def is_wide(ty: Any) -> bool:
    """Tell whether a Numba type is one of the vector types."""
    return isinstance(ty, LaneType)


def flavour(*given: Any) -> Any:
    """Return the first of some types that is a vector, or else the first."""
    return next(filter(is_wide, given), given[0])


def number_like(*likes: Any) -> Any:
    """Return the type of numbers in the flavour of ``likes``."""
    like = flavour(*likes)
    return of_lanes(FloatsType, like.lanes) if is_wide(like) else types.float64


def index_like(like: Any) -> Any:
    """Return the type of integers in the flavour of ``like``."""
    return of_lanes(IntsType, like.lanes) if is_wide(like) else types.int64


# --- numbers of a group --------------------------------------------------------------------------


def _place(context: Any, builder: Any, group: Any, index: Any, kind: Any) -> Any:
    data = builder.extract_value(group, 0)
    return builder.gep(data, [context.cast(builder, index, kind, types.int64)])


@infer_global(operator.getitem)
class _GetNumber(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        group, index = args
        if isinstance(group, GroupType) and isinstance(index, types.Integer):
            return signature(group.dtype, group, types.int64)
        return None


@lower_builtin(operator.getitem, GroupType, types.Integer)
def _get_number(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.load(_place(context, builder, args[0], args[1], sig.args[1]))


@infer_global(operator.setitem)
class _SetNumber(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        group, index, _ = args
        if isinstance(group, GroupType) and isinstance(index, types.Integer):
            return signature(types.none, group, types.int64, group.dtype)
        return None


@lower_builtin(operator.setitem, GroupType, types.Integer, types.Any)
def _set_number(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    place = _place(context, builder, args[0], args[1], sig.args[1])
    builder.store(context.cast(builder, args[2], sig.args[2], sig.args[0].dtype), place)
    return context.get_dummy_value()
