"""The twelve ops over operands as users pass them: dtypes are promoted, shapes broadcast.

Everything else in the frontend is composed of these functions. An operand is an `Edge`, a Python
scalar (weak: it takes the dtype of its partner) or an extent, which may be symbolic.
"""

from __future__ import annotations

import math
from functools import reduce as fold
from typing import Union

import numpy as np

from lumigen import graph, view
from lumigen.dtype import DTYPES, DType, accumulator, boolean, f32, i64
from lumigen.errors import BadArgument, DimSpecialised, DtypeMismatch, LumigenError, ShapeMismatch
from lumigen.frontend.extents import equal_of_multiples
from lumigen.frontend.promote import Vote, result_type, scalar_dtype
from lumigen.frontend.trace import emit, fail
from lumigen.graph import Edge
from lumigen.index import Dim, Ix, Symbolic, is_less, is_nonnegative, ix
from lumigen.ops import Op
from lumigen.view import Shape, View

DEVICES = ("cpu", "cuda", "mps", "xpu", "meta")  # of torch, which `to` takes there

Extent = Union[int, Symbolic, Ix]
Scalar = Union[bool, int, float, Symbolic, Ix]
Operand = Union[Edge, Scalar]

RANGE_OF_I64 = "from -2**63 to 2**63 - 1"

# --- views and constants --------------------------------------------------------------------------


def look(a: Edge, outer: View) -> Edge:
    """`a` seen through `outer`. Where both cannot be one view, `a` is materialised first."""
    composed = view.compose(outer, a.view, a.node.shape)
    if composed is None:
        a = emit(graph.contiguous(a))
        composed = view.compose(outer, a.view)
        assert composed is not None
    return Edge(a.node, _canonical(composed, a.node.shape))


def _canonical(v: View, source: Shape) -> View:
    """The identity where the view differs from it only by positions that can but be 0."""
    if v.valid or v.shape != source:
        return v
    whole = view.identity(source)
    env = {a: ix(0) for a, e in zip(view.positions(v.shape), v.shape, strict=True) if e == 1}
    same = all(
        a.substitute(env) is b.substitute(env) for a, b in zip(v.index, whole.index, strict=True)
    )
    return whole if same else v


def constant(value: float | bool, dtype: DType) -> Edge:
    """A 0-d constant, rounded to what `dtype` computes in; integers wrap around.

    BadArgument for integers beyond i64, and for what is none where one is needed.
    """
    if dtype.is_float:
        if isinstance(value, int) and abs(value) >= 2**1023:
            raise _refused("constant", value, dtype, "a float, such as 1e30,")
        with np.errstate(over="ignore"):
            return emit(graph.const(float(np.asarray(value, accumulator(dtype).numpy)), dtype))
    if dtype.is_int:
        if not i64.lowest <= value <= i64.greatest:
            raise _refused("constant", value, dtype, f"a number {RANGE_OF_I64}")
        return emit(graph.const(int(np.asarray(int(value)).astype(dtype.numpy)), dtype))
    return emit(graph.const(value, dtype))


def exact(value: float, dtype: DType) -> Edge:
    """A 0-d constant with all digits of an f64: of such a factor exp2 takes the product as it is."""
    return emit(graph.const(value, dtype))


def held(op: str, value: float | bool, dtype: DType, *, wraps: bool = True) -> float | int | bool:
    """What elements are filled with: BadArgument for what no integer of `dtype` is once it is cut off.

    As in PyTorch: negative integers wrap around in u8 where it `wraps`, and a truth value is all that is not 0.
    """
    if dtype.is_float:
        return value
    if dtype.is_bool:
        return value != 0
    least, most = dtype.lowest, dtype.greatest
    around = wraps and least == 0 and isinstance(value, int)
    if not (-most if around else least) <= value <= most:
        bounds = RANGE_OF_I64 if dtype is i64 else f"from {least} to {most}"
        raise _refused(op, value, dtype, f"a number {bounds}")
    return int(np.asarray(int(value)).astype(dtype.numpy))


def fill(op: str, a: Operand, dtype: DType) -> Edge:
    """An operand as an edge of `dtype`, which must hold it if it is a number."""
    if isinstance(a, Edge | Symbolic | Ix):
        return tensor(a, dtype)
    return constant(held(op, a, dtype), dtype)


def _refused(op: str, value: float, dtype: DType, expected: str) -> LumigenError:
    text = str(value)
    if isinstance(value, int):
        bits = value.bit_length()
        text = text if bits <= 64 else f"an integer of {bits} bits"
    elif not math.isfinite(value):
        text += ", which is no integer"
    return fail(BadArgument, op=op, name="a number", value=text, expected=f"{expected} for {dtype}")


def size(extent: Extent, dtype: DType = i64) -> Edge:
    """An extent as a 0-d number. A symbolic one is read off an iota, which is never stored.

    One that may be negative, or is not proven to be none, is a difference of two that are none; where a quotient is
    negative itself, of what it is above the least that it can be.
    """
    e = ix(extent)
    if e.is_const:
        return constant(e.const, dtype)
    if not is_nonnegative(e):
        more = Ix.interned(tuple(t for t in e.terms if t[1] > 0), max(e.const, 0))
        least, _ = e.bounds()
        if is_nonnegative(more) and is_nonnegative(more - e):
            return _difference(more, more - e, dtype)
        assert least is not None  # of sizes
        return cast(add(size(e - least), constant(least, i64)), dtype)
    counting = emit(graph.iota(e + 1, i64))
    return cast(Edge(counting.node, View((), (e,))), dtype)


def _difference(more: Ix, fewer: Ix, dtype: DType) -> Edge:
    """`more - fewer` of two sizes, in i64 until the end."""
    return cast(add(size(more), mul(size(fewer), -1)), dtype)


def is_scalar(a: Operand) -> bool:
    return not isinstance(a, Edge)


def known_value(a: Operand) -> float | int | bool | None:
    """The number that an operand is everywhere, if it is a constant."""
    if isinstance(a, Edge):
        whole = a.node.op is Op.CONST and not a.view.valid
        return graph.literal_of(a.node) if whole else None
    return None if isinstance(a, Symbolic | Ix) else a


def dtype_of(a: Operand) -> DType:
    if isinstance(a, Edge):
        return a.dtype
    return i64 if isinstance(a, Symbolic | Ix) else scalar_dtype(a)


def vote(a: Operand) -> Vote:
    if isinstance(a, Edge):
        return Vote(a.dtype, a.shape)
    return Vote(dtype_of(a), None)


def tensor(a: Operand, dtype: DType) -> Edge:
    """An operand as an edge of `dtype`."""
    if isinstance(a, Edge):
        return cast(a, dtype)
    if isinstance(a, Symbolic | Ix):
        return size(a, dtype)
    return constant(a, dtype)


def check_dtype(op: str, dtype: object) -> None:
    """BadArgument for what is no dtype of ours, such as torch's, or a device."""
    if not isinstance(dtype, DType):
        expected = f"one of {', '.join(map(repr, DTYPES))}"
        if str(dtype).partition(":")[0] in DEVICES:
            expected = (
                "a dtype; where a model runs is said when it is compiled: "
                'lg.compile(model, target="cuda"), or `lumigen compile --target cuda`'
            )
        raise fail(BadArgument, op=op, name="dtype", value=repr(dtype), expected=expected)


def cast(a: Edge, dtype: DType) -> Edge:
    """Elements rounded or truncated to `dtype`; a number is true unless it is 0."""
    check_dtype("to", dtype)
    if a.dtype is dtype:
        return a
    if dtype is boolean and not a.dtype.is_bool:
        zero = constant(0, a.dtype)
        below, above = less(a, zero), less(zero, a)
        nonzero = either(below, above)
        return nonzero if a.dtype.is_int else either(nonzero, complement(is_ordered(a)))
    return emit(graph.contiguous(a, dtype))


def wanted(a: Edge, dtype: DType) -> Edge:
    """The cast that a user writes. One to f32 is followed by a copy, by which `--dtype` knows what stays f32.

    The copy stands before the view: what movement makes of it is still what was cast.
    """
    e = cast(a, dtype)
    if dtype is not f32 or e.node.op is Op.CONST:
        return e
    return Edge(emit(graph.contiguous(graph.edge(e.node))).node, e.view)


def contiguous(a: Edge) -> Edge:
    """The elements in row-major order: `a` itself where they are."""
    return a if a.view.is_identity(a.node.shape) else emit(graph.contiguous(a))


# --- broadcasting ---------------------------------------------------------------------------------


def expand(op: str, a: Edge, to: Shape) -> Edge:
    """`a` repeated along axes of extent 1 and along new leading axes."""
    if a.shape == to:
        return a
    if broadcast_shape(op, a.shape, to) != to:
        raise fail(
            ShapeMismatch,
            op=op,
            lhs=a.shape,
            rhs=to,
            rule="only axes of extent 1 can be repeated",
            remedy="Reduce or slice the larger one first.",
        )
    return look(a, view.expand(a.shape, to))


def broadcast(op: str, *operands: Edge) -> tuple[Edge, ...]:
    """All operands expanded to their common shape."""
    shape = fold(lambda a, b: broadcast_shape(op, a, b), (a.shape for a in operands))
    return tuple(expand(op, a, shape) for a in operands)


def broadcast_shape(op: str, a: Shape, b: Shape) -> Shape:
    """The common shape, aligned at the last axis."""
    rank = max(len(a), len(b))
    one = ix(1)
    left = (one,) * (rank - len(a)) + a
    right = (one,) * (rank - len(b)) + b
    return tuple(
        _common(op, x, y, a, b, d - rank) for d, (x, y) in enumerate(zip(left, right, strict=True))
    )


def _common(op: str, x: Ix, y: Ix, a: Shape, b: Shape, axis: int) -> Ix:
    if x is y or y == 1:
        return x
    if x == 1:
        return y
    rule = f"axis {axis} is {x} and {y}, and neither is 1"
    raise unequal(op, x, y, a, b, rule, "Reshape, slice or unsqueeze one of them.")


def unequal(op: str, x: Ix, y: Ix, a: Shape, b: Shape, rule: str, remedy: str) -> Exception:
    """The error for two extents that must agree: a dim would be specialised, or they never can."""
    dim = next((d for e in (x, y) for d in e.atoms() if isinstance(d, Dim)), None)
    never = is_less(x, y) or is_less(y, x)
    if dim is None or never:
        return fail(ShapeMismatch, op=op, lhs=a, rhs=b, rule=rule, remedy=remedy)
    needed = f"such that {x} = {y}{equal_of_multiples(x, y)}, for shapes {_text(a)} and {_text(b)}"
    return fail(DimSpecialised, op=op, dim=dim.name, declared=f"{dim.lo}..{dim.hi}", needed=needed)


def _text(shape: Shape) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


# --- the twelve -----------------------------------------------------------------------------------


def float_type(dtype: DType) -> DType:
    """In which dtype floats are made of elements: f32 of integers and bools, as in PyTorch."""
    return dtype if dtype.is_float else f32


def floating(a: Edge) -> Edge:
    """`a` as floats."""
    return cast(a, float_type(a.dtype))


def log2(a: Edge) -> Edge:
    return emit(graph.unary(Op.LOG2, floating(a)))


def exp2(a: Edge) -> Edge:
    return emit(graph.unary(Op.EXP2, floating(a)))


def sin(a: Edge) -> Edge:
    return emit(graph.unary(Op.SIN, floating(a)))


def sqrt(a: Edge) -> Edge:
    return emit(graph.unary(Op.SQRT, floating(a)))


def recip(a: Edge) -> Edge:
    return emit(graph.unary(Op.RECIP, floating(a)))


def matched(op: str, a: Operand, b: Operand) -> tuple[Edge, Edge]:
    """Two operands in their common dtype and shape."""
    left, right = together(op, result_type(op, (vote(a), vote(b))), a, b)
    return left, right


def matched_floats(op: str, a: Operand, b: Operand) -> tuple[Edge, Edge]:
    """Two operands in the floats of their common dtype: of integers, each has its exact value until then."""
    left, right = together(op, float_type(result_type(op, (vote(a), vote(b)))), a, b)
    return left, right


def together(op: str, dtype: DType, *operands: Operand) -> tuple[Edge, ...]:
    """Operands in a dtype and their common shape."""
    return broadcast(op, *(tensor(a, dtype) for a in operands))


def add(a: Operand, b: Operand, op: str = "add") -> Edge:
    """a + b; a bool beside a number is 0 or 1; of two bools it is `or`, as in PyTorch."""
    left, right = matched(op, a, b)
    return either(left, right) if left.dtype.is_bool else emit(graph.binary(Op.ADD, left, right))


def mul(a: Operand, b: Operand, op: str = "mul") -> Edge:
    """a * b; a bool beside a number is 0 or 1; of two bools it is `and`, as in PyTorch."""
    return emit(graph.binary(Op.MUL, *matched(op, a, b)))


def mod(a: Operand, b: Operand, op: str = "remainder") -> Edge:
    """a - b * floor(a / b), with the sign of the divisor."""
    left, right = matched(op, a, b)
    numbers(op, left)
    return emit(graph.binary(Op.MOD, left, right))


def numbers(op: str, a: Edge) -> Edge:
    """`a`, which must not be bool."""
    if a.dtype.is_bool:
        raise fail(
            DtypeMismatch,
            op=op,
            name="an operand",
            got="bool",
            expected="a number",
            remedy="Use | & ^ for truth values, or cast with .to().",
        )
    return a


def less(a: Operand, b: Operand, op: str = "lt") -> Edge:
    """a < b; false beside NaN."""
    return emit(graph.binary(Op.LESS_THAN, *matched(op, a, b)))


def select(condition: Edge, a: Operand, op: str = "where") -> Edge:
    """`a` where the condition holds, else the x that leaves every sum as it is (-0.0, 0, false)."""
    value = a if isinstance(a, Edge) else tensor(a, dtype_of(a))
    left, right = broadcast(op, condition, value)
    return emit(graph.binary(Op.MUL, left, right))


def reduce_sum(a: Edge, axes: tuple[int, ...]) -> Edge:
    return _reduced(Op.SUM_REDUCE, a, axes, 0)


def reduce_max(a: Edge, axes: tuple[int, ...]) -> Edge:
    return _reduced(Op.MAX_REDUCE, a, axes, a.dtype.lowest)


def _reduced(op: Op, a: Edge, axes: tuple[int, ...], of_nothing: float) -> Edge:
    """The reduction; over no elements at all it is a constant, and nothing is left to run."""
    if not axes:
        return a
    if not any(a.shape[d] == 0 for d in axes):
        return emit(graph.reduce(op, a, axes))
    kept = tuple(e for d, e in enumerate(a.shape) if d not in axes)
    return expand(op.value, constant(of_nothing, a.dtype), kept)


# --- truth values ---------------------------------------------------------------------------------


def complement(a: Edge) -> Edge:
    """Not a, spelled a < true."""
    return less(a, constant(value=True, dtype=boolean))


def both(a: Edge, b: Edge, op: str = "and") -> Edge:
    """A and b: the product of bools."""
    return emit(graph.binary(Op.MUL, *broadcast(op, a, b)))


def either(a: Edge, b: Edge, op: str = "or") -> Edge:
    """A or b: not (not a and not b)."""
    return complement(both(complement(a), complement(b), op))


def is_ordered(a: Edge) -> Edge:
    """Whether elements are not NaN: every square is above -1, but for NaN's."""
    return less(constant(-1, a.dtype), mul(a, a))
