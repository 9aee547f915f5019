"""Vector values for kernels: several repetitions in one variable.

A kernel is written once, on values that are either plain scalars (one bandit) or vectors of
``W`` independent repetitions, with W one of `WIDTHS`.  The three vector types below live in
registers and lower straight to LLVM vector instructions, so nothing depends on an auto-vectoriser,
and every lane computes bit for bit what the scalar kernel computes: no reassociation, no
contraction.

======== ================ ================== ==========================
type     LLVM             scalar counterpart holds
======== ================ ================== ==========================
Floats   ``<W x double>`` ``float64``        numbers
Ints     ``<W x i64>``    ``int64``          arms, random bits
Mask     ``<W x i1>``     ``boolean``        comparisons
======== ================ ================== ==========================

Arrays stay one-dimensional.  Row ``i`` of a state array holds the ``LANES`` values
``A[i * LANES : (i + 1) * LANES]`` of a tile, or the single value ``A[i]`` of one bandit; `load`,
`store`, `gather` and `scatter` hide the difference.  The argument called ``like`` only carries
the type that decides it.
"""

from functools import partial
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.extending import intrinsic
from numba.core.typing.templates import signature

from bothworlds.lanes.types import (
    LANES,
    WIDTHS,
    FloatsType,
    GroupType,
    IntsType,
    MaskType,
    index_like,
    is_wide,
    number_like,
    of_lanes,
)


def _splat(like_type: Any, doc: str) -> Any:
    def splat(typingctx: Any, value: Any, like: Any) -> Any:
        result = like_type(like)

        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return context.cast(builder, args[0], sig.args[0], result)

        return signature(result, value, like), codegen

    splat.__doc__ = doc
    return intrinsic(splat)


splat = _splat(number_like, "Return the number ``value`` in every lane.")
splat_int = _splat(index_like, "Return the integer ``value`` in every lane.")


@intrinsic
def width(typingctx: Any, like: Any) -> Any:
    """Return the number of lanes, known when a kernel is compiled."""
    lanes = like.lanes if is_wide(like) else 1

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return ir.Constant(ir.IntType(64), lanes)

    return signature(types.int64, like), codegen


@intrinsic
def stride(typingctx: Any, like: Any) -> Any:
    """Return how far apart rows lie, known when a kernel is compiled: ``LANES``, or 1."""
    numbers = LANES if is_wide(like) else 1

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return ir.Constant(ir.IntType(64), numbers)

    return signature(types.int64, like), codegen


@intrinsic
def counting(typingctx: Any, start: Any, like: Any) -> Any:
    """Return start, start + 1, ... lane by lane; start alone for scalars."""
    result = index_like(like)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        first = context.cast(builder, args[0], sig.args[0], result)
        if not is_wide(result):
            return first
        return builder.add(first, ir.Constant(result.vector, list(range(result.lanes))))

    return signature(result, start, like), codegen


def _converted(like_type: Any, name: str, doc: str) -> Any:
    def convert(typingctx: Any, value: Any) -> Any:
        result = like_type(value)

        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return getattr(builder, name)(args[0], context.get_value_type(result))

        return signature(result, value), codegen

    convert.__doc__ = doc
    return intrinsic(convert)


to_int = _converted(index_like, "fptosi", "Truncate numbers to integers.")
to_float = _converted(number_like, "sitofp", "Convert integers to numbers.")
float_bits = _converted(index_like, "bitcast", "Return the bit pattern of doubles as integers.")
bits_float = _converted(number_like, "bitcast", "Return the doubles with these bit patterns.")

UNIT_STEPS = 1.5 * 2.0**52
"""A double around which doubles are 1 apart, so that its last bits count."""
UNIT_BITS = 0x4338000000000000
"""Its bit pattern."""


def _counted(vector: Any, value: Any) -> Any:
    return ir.Constant(vector, [value] * vector.count)


@intrinsic
def to_index(typingctx: Any, value: Any) -> Any:
    """Convert whole numbers, such as those of arms, to integers; below 2^51 in magnitude."""
    result = index_like(value)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if not is_wide(value) or value.lanes == LANES:
            return builder.fptosi(args[0], context.get_value_type(result))
        # Only AVX-512 has an instruction; without it LLVM converts lane by lane.
        placed = builder.fadd(args[0], _counted(value.vector, UNIT_STEPS))
        return builder.sub(
            builder.bitcast(placed, result.vector), _counted(result.vector, UNIT_BITS)
        )

    return signature(result, value), codegen


def _shift(name: str, doc: str) -> Any:
    def shift(typingctx: Any, value: Any, count: Any) -> Any:
        result = index_like(value)

        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            by = context.cast(builder, args[1], sig.args[1], result)
            return getattr(builder, name)(args[0], by)

        return signature(result, result, count), codegen

    shift.__doc__ = doc
    return intrinsic(shift)


shift_left = _shift("shl", "Shift integers left.")
shift_right = _shift("lshr", "Shift integers right, filling with zeros.")


@intrinsic
def select(typingctx: Any, condition: Any, yes: Any, no: Any) -> Any:
    """Choose ``yes`` or ``no`` lane by lane; both are evaluated."""
    if not isinstance(condition, types.Boolean | MaskType):
        return None
    lane = next((ty for ty in (yes, no) if is_wide(ty)), None)
    if isinstance(condition, MaskType):
        if lane is None:
            kind = FloatsType if isinstance(yes, types.Float) else IntsType
            lane = of_lanes(kind, condition.lanes)
    else:
        lane = yes if isinstance(yes, types.Float | types.Boolean) else no
        if isinstance(lane, types.IntegerLiteral):
            lane = types.int64

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        a = context.cast(builder, args[1], sig.args[1], lane)
        b = context.cast(builder, args[2], sig.args[2], lane)
        return builder.select(args[0], a, b)

    return signature(lane, condition, yes, no), codegen


@intrinsic
def any_lane(typingctx: Any, condition: Any) -> Any:
    """Tell whether a condition holds in at least one lane."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if not is_wide(condition):
            return args[0]
        bits = ir.IntType(condition.lanes)
        return builder.icmp_unsigned("!=", builder.bitcast(args[0], bits), ir.Constant(bits, 0))

    return signature(types.boolean, condition), codegen


@intrinsic
def only_lanes(typingctx: Any, condition: Any) -> Any:
    """Return the lanes to confine something to: None for one bandit, for which it is done.

    One bandit does something again only where the condition holds, so that nothing need be
    compiled for a bandit which looks on.
    """
    result = condition if is_wide(condition) else types.none

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return args[0] if is_wide(condition) else context.get_dummy_value()

    return signature(result, condition), codegen


@intrinsic
def lane_bits(typingctx: Any, condition: Any) -> Any:
    """Return a whole number whose bit k is set where a condition holds in lane k."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        packed = args[0]
        if is_wide(condition):
            packed = builder.bitcast(packed, ir.IntType(condition.lanes))
        return builder.zext(packed, ir.IntType(64))

    return signature(types.int64, condition), codegen


@intrinsic
def lowest_bit(typingctx: Any, bits: Any) -> Any:
    """Return the place of the lowest bit of a whole number that is not 0."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return signature(types.int64, types.int64), codegen


@intrinsic
def negate(typingctx: Any, condition: Any) -> Any:
    """Return the opposite truth values."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.not_(args[0])

    return signature(condition, condition), codegen


def _suffix(ty: Any) -> str:
    """Return how the names of LLVM's functions of such numbers end."""
    return f"v{ty.lanes}f64" if is_wide(ty) else "f64"


def _called(name: str, context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Emit a call of one of LLVM's functions of numbers."""
    result = context.get_value_type(sig.return_type)
    fnty = ir.FunctionType(result, [result] * len(args))
    full = f"llvm.{name}.{_suffix(sig.return_type)}"
    fn = cgutils.get_or_insert_function(builder.module, fnty, full)
    given = zip(args, sig.args, strict=True)
    return builder.call(fn, [context.cast(builder, a, t, sig.return_type) for a, t in given])


def _math(name: str, doc: str) -> Any:
    def unary(typingctx: Any, a: Any) -> Any:
        return signature(number_like(a), a), partial(_called, name)

    unary.__doc__ = doc
    return intrinsic(unary)


sqrt = _math("sqrt", "Square root, correctly rounded.")
absolute = _math("fabs", "Absolute value.")
floor = _math("floor", "Largest whole number not above the argument.")


@intrinsic
def fma(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a * b + c, rounded once: the same bits wherever it runs."""
    return signature(number_like(a, b, c), a, b, c), partial(_called, "fma")


def _extreme(sign: str, doc: str) -> Any:
    def extreme(typingctx: Any, a: Any, b: Any) -> Any:
        result = number_like(a, b)

        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            x = context.cast(builder, args[0], sig.args[0], result)
            y = context.cast(builder, args[1], sig.args[1], result)
            return builder.select(builder.fcmp_ordered(sign, x, y), x, y)

        return signature(result, a, b), codegen

    extreme.__doc__ = doc
    return intrinsic(extreme)


minimum = _extreme("<", "Return the smaller of two numbers (neither may be NaN).")
maximum = _extreme(">", "Return the larger of two numbers (neither may be NaN).")


@intrinsic
def lane(typingctx: Any, value: Any, place: Any) -> Any:
    """Return one lane of a value, as a scalar."""
    result = value
    if is_wide(value):
        result = types.float64 if isinstance(value, FloatsType) else types.int64

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if not is_wide(value):
            return args[0]
        return builder.extract_element(args[0], context.cast(builder, args[1], place, types.int32))

    return signature(result, value, place), codegen


@intrinsic
def with_lane(typingctx: Any, value: Any, place: Any, number: Any) -> Any:
    """Return numbers of which one lane is another."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        new = context.cast(builder, args[2], number, types.float64)
        if not is_wide(value):
            return new
        at = context.cast(builder, args[1], place, types.int32)
        return builder.insert_element(args[0], new, at)

    return signature(number_like(value), value, place, number), codegen


@intrinsic
def slide(typingctx: Any, value: Any, first: Any) -> Any:
    """Move the numbers one lane up, with ``first`` in the first lane."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        new = context.cast(builder, args[1], first, types.float64)
        if not is_wide(value):
            return new
        undefined = ir.Constant(value.vector, ir.Undefined)
        new = builder.insert_element(undefined, new, ir.Constant(ir.IntType(32), 0))
        places = ir.Constant(
            ir.VectorType(ir.IntType(32), value.lanes), [value.lanes, *range(value.lanes - 1)]
        )
        return builder.shuffle_vector(args[0], new, places)

    return signature(number_like(value), value, first), codegen


def _folded(name: str, emit: Any, doc: str) -> Any:
    """Make a function that joins all lanes into one number, halves first: always in one order."""

    def fold(typingctx: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            if not is_wide(value):
                return args[0]
            rest, lanes = args[0], value.lanes
            while lanes > 1:
                lanes //= 2
                low, high = (
                    builder.shuffle_vector(rest, ir.Constant(rest.type, ir.Undefined), places)
                    for places in (_places(0, lanes), _places(lanes, lanes))
                )
                rest = emit(builder, low, high)
            return builder.extract_element(rest, ir.Constant(ir.IntType(32), 0))

        return signature(types.float64, value), codegen

    fold.__name__, fold.__doc__ = name, doc
    return intrinsic(fold)


def _places(first: int, count: int) -> Any:
    return ir.Constant(ir.VectorType(ir.IntType(32), count), list(range(first, first + count)))


sum_lanes = _folded(
    "sum_lanes", lambda builder, a, b: builder.fadd(a, b), "Return the sum of all lanes."
)
least_lane = _folded(
    "least_lane",
    lambda builder, a, b: builder.select(builder.fcmp_ordered("<", a, b), a, b),
    "Return the least of all lanes (none may be NaN).",
)


# --- memory ----------------------------------------------------------------------------------


def _data(context: Any, builder: Any, ty: Any, value: Any) -> Any:
    """Address of the first element of an array, or of the target of a pointer."""
    if isinstance(ty, types.CPointer):
        return value
    if isinstance(ty, GroupType):
        return builder.extract_value(value, 0)
    # Only compiling needs it, and importing it takes longer than loading a kernel.
    from numba.np.arrayobj import make_array

    return make_array(ty)(context, builder, value).data


@intrinsic
def pointer(typingctx: Any, array: Any) -> Any:
    """Return the address of an array's first element, which costs no reference counting.

    The address of an address is itself, so that kernels take either.
    """
    if isinstance(array, types.CPointer):
        return signature(array, array), lambda context, builder, sig, args: args[0]

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _data(context, builder, sig.args[0], args[0])

    return signature(types.CPointer(array.dtype), array), codegen


FEW_NUMBERS = 128
"""Numbers that `few_numbers` has room for."""


@intrinsic
def few_numbers(typingctx: Any) -> Any:
    """Return the address of numbers on the stack, which last as long as the call."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        number = context.get_value_type(types.float64)
        return cgutils.alloca_once(builder, number, size=FEW_NUMBERS)

    return signature(types.CPointer(types.float64)), codegen


@intrinsic
def advance(typingctx: Any, start: Any, rows: Any) -> Any:
    """Return the address ``rows`` elements further."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = _data(context, builder, start, args[0])
        data = builder.gep(data, [context.cast(builder, args[1], sig.args[1], types.int64)])
        return builder.insert_value(args[0], data, 0) if isinstance(start, GroupType) else data

    return signature(start, start, rows), codegen


def _address(ty: Any, doc: str) -> Any:
    def at(typingctx: Any, address: Any) -> Any:
        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], context.get_value_type(ty))

        return signature(ty, types.int64), codegen

    at.__doc__ = doc
    return intrinsic(at)


numbers_at = _address(types.CPointer(types.float64), "Return the doubles at an address.")
words_at = _address(types.CPointer(types.int64), "Return the 64-bit words at an address.")


@intrinsic
def own_words(typingctx: Any) -> Any:
    """Return room for four 64-bit words that the calling function has to itself."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        room = cgutils.alloca_once(builder, ir.ArrayType(ir.IntType(64), 4))
        return builder.bitcast(room, ir.IntType(64).as_pointer())

    return signature(types.CPointer(types.int64)), codegen


@intrinsic
def group(typingctx: Any, start: Any, first: Any, like: Any) -> Any:
    """Return the place in a tile's rows of the lanes from ``first`` on, as many as ``like`` has.

    The address itself where ``like`` is a whole tile or one repetition.
    """
    if not is_wide(like) or like.lanes == LANES:
        return signature(start, start, first, like), lambda context, builder, sig, args: args[0]
    ty = GroupType(start.dtype)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        made = cgutils.create_struct_proxy(ty)(context, builder)
        made.first = context.cast(builder, args[1], first, types.int64)
        made.data = builder.gep(args[0], [made.first])
        return made._getvalue()

    return signature(ty, start, first, like), codegen


@intrinsic
def whole(typingctx: Any, start: Any) -> Any:
    """Return the address in a whole tile's rows, of its first lane."""
    if not isinstance(start, GroupType):
        return signature(start, start), lambda context, builder, sig, args: args[0]

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data, first = (builder.extract_value(args[0], n) for n in range(2))
        return builder.gep(data, [builder.neg(first)])

    return signature(types.CPointer(start.dtype), start), codegen


@intrinsic
def first_lane(typingctx: Any, start: Any) -> Any:
    """Return the number in the tile of the first lane at an address."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if not isinstance(start, GroupType):
            return ir.Constant(ir.IntType(64), 0)
        return builder.extract_value(args[0], 1)

    return signature(types.int64, start), codegen


def _zeros(lanes: int) -> Any:
    def zeros(typingctx: Any) -> Any:
        """Return a vector of zeros: the ``like`` of this many lanes."""
        ty = of_lanes(FloatsType, lanes)

        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return ir.Constant(ty.vector, [0.0] * lanes)

        return signature(ty), codegen

    return intrinsic(zeros)


ZEROS = {lanes: _zeros(lanes) for lanes in WIDTHS}
"""By the number of lanes."""
zeros = ZEROS[LANES]


def _row_pointer(context: Any, builder: Any, sig: Any, array: Any, row: Any, ty: Any) -> Any:
    data = _data(context, builder, sig.args[0], array)
    row = context.cast(builder, row, sig.args[1], types.int64)
    if not is_wide(ty):
        return builder.gep(data, [row])
    start = builder.mul(row, ir.Constant(ir.IntType(64), LANES))
    return builder.bitcast(builder.gep(data, [start]), ty.vector.as_pointer())


# --- halves ----------------------------------------------------------------------------------


def _half_type(ty: Any) -> Any:
    """Return the type of half a vector; of a value that is not halved, its own.

    A whole tile is not: only AVX-512 takes it as one vector, and has registers for it.
    """
    halved = is_wide(ty) and ty.lanes < LANES and ty.lanes // 2 in WIDTHS
    kind: Any = type(ty)
    return of_lanes(kind, ty.lanes // 2) if halved else ty


def _half(which: int, doc: str) -> Any:
    def half(typingctx: Any, value: Any) -> Any:
        result = _half_type(value)

        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            if result == value:
                return args[0]
            undefined = ir.Constant(value.vector, ir.Undefined)
            places = _places(which * result.lanes, result.lanes)
            return builder.shuffle_vector(args[0], undefined, places)

        return signature(result, value), codegen

    half.__doc__ = doc
    return intrinsic(half)


lower = _half(0, "Return the first half of a vector, or a value that has no halves.")
upper = _half(1, "Return the second half of a vector, or a value that has no halves.")


@intrinsic
def joined(typingctx: Any, low: Any, high: Any, like: Any) -> Any:
    """Return the vector of two halves, if ``like`` has halves, else the first value."""
    kind: Any = type(low)
    result = low
    if is_wide(low) and _half_type(like) != like:
        result = of_lanes(kind, 2 * low.lanes)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if result == low:
            return args[0]
        return builder.shuffle_vector(args[0], args[1], _places(0, result.lanes))

    return signature(result, low, high, like), codegen


@intrinsic
def upper_rows(typingctx: Any, rows: Any, like: Any) -> Any:
    """Return the place in rows of the second half of the lanes, if ``like`` has halves."""
    if _half_type(like) == like:
        return signature(rows, rows, like), lambda context, builder, sig, args: args[0]
    by = ir.Constant(ir.IntType(64), like.lanes // 2)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = builder.gep(_data(context, builder, rows, args[0]), [by])
        return builder.insert_value(args[0], data, 0) if isinstance(rows, GroupType) else data

    return signature(rows, rows, like), codegen


@intrinsic
def load(typingctx: Any, array: Any, row: Any, like: Any) -> Any:
    """Read row ``row`` of a state array."""
    ty = number_like(like) if isinstance(array.dtype, types.Float) else index_like(like)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load(_row_pointer(context, builder, sig, args[0], args[1], ty), align=8)

    return signature(ty, array, row, like), codegen


def _frozen(builder: Any, value: Any) -> Any:
    """Emit the value itself, but for LLVM a new one.

    It would merge the choice between a new number and the old one with the store of it.  That pays
    with AVX-512; a masked store of AVX2 takes ten times as long as the choice and a plain one.
    """
    same = ir.instructions.Instruction(builder.block, value.type, "freeze", [value])
    builder._insert(same)
    return same


@intrinsic
def store(typingctx: Any, array: Any, row: Any, value: Any) -> Any:
    """Write row ``row`` of a state array; the type of ``value`` decides the flavour."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointer = _row_pointer(context, builder, sig, args[0], args[1], value)
        narrow = is_wide(value) and value.lanes < LANES
        builder.store(_frozen(builder, args[2]) if narrow else args[2], pointer, align=8)
        return context.get_dummy_value()

    return signature(types.none, array, row, value), codegen


def _element_pointers(context: Any, builder: Any, sig: Any, args: Any, lane: Any) -> list[Any]:
    """Pointers to element ``(base + index, lane)`` of a tile, one for every lane."""
    data = _data(context, builder, sig.args[0], args[0])
    base = context.cast(builder, args[1], sig.args[1], types.int64)
    if not is_wide(lane):
        return [builder.gep(data, [builder.add(base, args[2])])]
    # Lanes of several rows with one index then share what is computed for every lane.
    row = builder.gep(data, [builder.mul(base, ir.Constant(base.type, LANES))])
    offsets = builder.mul(args[2], ir.Constant(args[2].type, [LANES] * lane.lanes))
    places = [ir.Constant(ir.IntType(32), k) for k in range(lane.lanes)]
    return [
        builder.gep(builder.gep(row, [builder.extract_element(offsets, k)]), [k]) for k in places
    ]


@intrinsic
def gather(typingctx: Any, array: Any, base: Any, index: Any) -> Any:
    """Read row ``base + index`` of a float array, each lane its own index."""
    ty = number_like(index)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointers = _element_pointers(context, builder, sig, args, index)
        if not is_wide(index):
            return builder.load(pointers[0])
        value = ir.Constant(ty.vector, ir.Undefined)
        for k, pointer in enumerate(pointers):
            at = ir.Constant(ir.IntType(32), k)
            value = builder.insert_element(value, builder.load(pointer), at)
        return value

    return signature(ty, array, base, index), codegen


@intrinsic
def scatter(typingctx: Any, array: Any, base: Any, index: Any, value: Any) -> Any:
    """Write row ``base + index`` of a float array, each lane its own index."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointers = _element_pointers(context, builder, sig, args, index)
        if not is_wide(index):
            builder.store(args[3], pointers[0])
            return context.get_dummy_value()
        for k, pointer in enumerate(pointers):
            at = ir.Constant(ir.IntType(32), k)
            builder.store(builder.extract_element(args[3], at), pointer)
        return context.get_dummy_value()

    return signature(types.none, array, base, index, value), codegen


@intrinsic
def add_at(typingctx: Any, array: Any, base: Any, index: Any, value: Any) -> Any:
    """Add to row ``base + index`` of a float array, each lane at its own index."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointers = _element_pointers(context, builder, sig, args, index)
        for k, pointer in enumerate(pointers):
            addend = args[3]
            if is_wide(index):
                addend = builder.extract_element(addend, ir.Constant(ir.IntType(32), k))
            builder.store(builder.fadd(builder.load(pointer), addend), pointer)
        return context.get_dummy_value()

    return signature(types.none, array, base, index, number_like(index)), codegen
