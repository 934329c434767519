"""Tensor: an edge of the graph under PyTorch's names; the meanings are in the modules beside it.

Promises PyTorch's signatures, dtype promotion, broadcasting and IEEE semantics, and errors that
name the user's line.
"""

# ruff: noqa: FBT002  # signatures are PyTorch's

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias, Union, cast, overload

from lumigen.dtype import DType, bf16, boolean, f16, f32, f64, i32, i64
from lumigen.errors import BadArgument
from lumigen.frontend import (
    compare,
    contraction,
    elementary,
    indexing,
    movement,
    primitive,
    reduction,
)
from lumigen.frontend.primitive import Extent, Scalar
from lumigen.frontend.trace import fail, home_of
from lumigen.graph import Edge
from lumigen.index import Dim, Ix, product
from lumigen.view import Shape

Int: TypeAlias = int  # Tensor has methods of the names int, float and bool, as PyTorch's has
Number: TypeAlias = float
Flag: TypeAlias = bool
Size: TypeAlias = int | Ix
Value: TypeAlias = Union["Tensor", Scalar]
Dims: TypeAlias = int | Sequence[int] | None


def raw(a: Any) -> primitive.Operand:
    """What the modules of operations take: the edge of a tensor, a scalar as it is."""
    if isinstance(a, Tensor):
        return a.edge
    if isinstance(a, bool | int | float | Dim | Ix):
        return a
    item = getattr(a, "item", None)  # a numpy scalar
    if callable(item) and not getattr(a, "shape", ()):
        found = item()
        if isinstance(found, bool | int | float):
            return found
    raise fail(
        BadArgument,
        op="operand",
        name="an operand",
        value=f"a {type(a).__name__}",
        expected="tensors of this trace, numbers or extents",
    )


def one_sequence(args: tuple[int | Extent | Sequence[Extent], ...]) -> tuple[Extent, ...]:
    """Extents given one by one, or as one sequence."""
    if len(args) == 1 and isinstance(args[0], Sequence):
        return tuple(args[0])
    return tuple(a for a in args if not isinstance(a, Sequence))


def _ints(args: tuple[int | Sequence[int], ...]) -> tuple[int, ...]:
    if len(args) == 1 and isinstance(args[0], Sequence):
        return tuple(args[0])
    return tuple(a for a in args if isinstance(a, int))


class Tensor:
    """A value of the model while it is traced: a shape, a dtype, no numbers yet."""

    __slots__ = ("_edge",)
    __array_ufunc__ = None  # numpy leaves operators to this class

    def __init__(self, edge: Edge) -> None:
        self._edge = edge

    @property
    def edge(self) -> Edge:
        """The node and the view that this tensor is."""
        return self._edge

    @property
    def extents(self) -> Shape:
        """The shape as index expressions."""
        return self.edge.shape

    @property
    def dtype(self) -> DType:
        return self.edge.dtype

    @property
    def shape(self) -> tuple[Size, ...]:
        """The extents: ints where they are known, else expressions of dims."""
        return tuple(e.const if e.is_const else e for e in self.extents)

    @overload
    def size(self) -> tuple[Size, ...]: ...
    @overload
    def size(self, dim: Int) -> Size: ...
    def size(self, dim: Int | None = None) -> Size | tuple[Size, ...]:
        return self.shape if dim is None else self.shape[movement.axis("size", self.edge, dim)]

    @property
    def ndim(self) -> Int:
        return len(self.extents)

    def dim(self) -> Int:
        return self.ndim

    def numel(self) -> Size:
        total = product(self.extents)
        return total.const if total.is_const else total

    def is_floating_point(self) -> Flag:
        return self.dtype.is_float

    def __repr__(self) -> str:
        return f"Tensor({self.dtype}[{', '.join(map(str, self.extents))}])"

    def __bool__(self) -> Flag:
        raise fail(
            BadArgument,
            op="if",
            name="a tensor",
            value="true or false: it has no value while the model is traced",
            expected="it to where(condition, a, b), or decide by shapes and options",
        )

    def __len__(self) -> Int:
        size = self.size(0)
        if isinstance(size, int):
            return size
        raise fail(
            BadArgument,
            op="len",
            name=f"an axis of symbolic extent {size}",
            value="counted while tracing",
            expected="x.shape[0], which stays symbolic",
        )

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    __hash__ = object.__hash__

    # --- arithmetic -------------------------------------------------------------------------------

    def __add__(self, other: Value) -> Tensor:
        return Tensor(primitive.add(self.edge, raw(other)))

    def __radd__(self, other: Scalar) -> Tensor:
        return Tensor(primitive.add(raw(other), self.edge))

    def __sub__(self, other: Value) -> Tensor:
        return Tensor(elementary.sub(self.edge, raw(other)))

    def __rsub__(self, other: Scalar) -> Tensor:
        return Tensor(elementary.sub(raw(other), self.edge))

    def __mul__(self, other: Value) -> Tensor:
        return Tensor(primitive.mul(self.edge, raw(other)))

    def __rmul__(self, other: Scalar) -> Tensor:
        return Tensor(primitive.mul(raw(other), self.edge))

    def __truediv__(self, other: Value) -> Tensor:
        return Tensor(elementary.div(self.edge, raw(other)))

    def __rtruediv__(self, other: Scalar) -> Tensor:
        return Tensor(elementary.div(raw(other), self.edge))

    def __floordiv__(self, other: Value) -> Tensor:
        return Tensor(elementary.floor_divide(self.edge, raw(other)))

    def __rfloordiv__(self, other: Scalar) -> Tensor:
        return Tensor(elementary.floor_divide(raw(other), self.edge))

    def __mod__(self, other: Value) -> Tensor:
        return Tensor(primitive.mod(self.edge, raw(other)))

    def __rmod__(self, other: Scalar) -> Tensor:
        return Tensor(primitive.mod(raw(other), self.edge))

    def __pow__(self, exponent: Scalar) -> Tensor:
        return self.pow(exponent)

    def __rpow__(self, base: Scalar) -> Tensor:
        return Tensor(elementary.exponential(raw(base), self.edge))

    def __neg__(self) -> Tensor:
        return Tensor(elementary.neg(self.edge))

    def __abs__(self) -> Tensor:
        return self.abs()

    def __matmul__(self, other: Tensor) -> Tensor:
        return self.matmul(other)

    def matmul(self, other: Tensor) -> Tensor:
        """`@` of any ranks; leading axes broadcast."""
        return Tensor(contraction.matmul(self.edge, other.edge))

    def remainder(self, other: Value) -> Tensor:
        """The remainder with the sign of the divisor."""
        return self % other

    # --- comparison, logic, choice ----------------------------------------------------------------

    def __lt__(self, other: Value) -> Tensor:
        return Tensor(primitive.less(self.edge, raw(other)))

    def __gt__(self, other: Value) -> Tensor:
        return Tensor(compare.gt(self.edge, raw(other)))

    def __le__(self, other: Value) -> Tensor:
        return Tensor(compare.le(self.edge, raw(other)))

    def __ge__(self, other: Value) -> Tensor:
        return Tensor(compare.ge(self.edge, raw(other)))

    def __eq__(self, other: Value) -> Tensor:  # type: ignore[override]
        return Tensor(compare.eq(self.edge, raw(other)))

    def __ne__(self, other: Value) -> Tensor:  # type: ignore[override]
        return Tensor(compare.ne(self.edge, raw(other)))

    lt, gt, le, ge, eq, ne = __lt__, __gt__, __le__, __ge__, __eq__, __ne__

    def __and__(self, other: Value) -> Tensor:
        return Tensor(compare.logical_and(self.edge, raw(other)))

    def __or__(self, other: Value) -> Tensor:
        return Tensor(compare.logical_or(self.edge, raw(other)))

    def __xor__(self, other: Value) -> Tensor:
        return Tensor(compare.logical_xor(self.edge, raw(other)))

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__
    logical_and, logical_or, logical_xor = __and__, __or__, __xor__

    def __invert__(self) -> Tensor:
        return Tensor(compare.logical_not(self.edge))

    logical_not = __invert__

    def isnan(self) -> Tensor:
        return Tensor(compare.isnan(self.edge))

    def isinf(self) -> Tensor:
        return Tensor(compare.isinf(self.edge))

    def isfinite(self) -> Tensor:
        return Tensor(compare.isfinite(self.edge))

    def where(self, condition: Tensor, other: Value) -> Tensor:
        """This tensor where the condition holds, else `other`."""
        return Tensor(compare.where(condition.edge, self.edge, raw(other)))

    def masked_fill(self, mask: Tensor, value: Scalar) -> Tensor:
        """`value` where the mask holds, in this tensor's dtype."""
        filled = primitive.tensor(raw(value), self.dtype)
        return Tensor(compare.where(mask.edge, filled, self.edge))

    def maximum(self, other: Value) -> Tensor:
        return Tensor(compare.maximum(self.edge, raw(other)))

    def minimum(self, other: Value) -> Tensor:
        return Tensor(compare.minimum(self.edge, raw(other)))

    def clamp(self, min: Value | None = None, max: Value | None = None) -> Tensor:
        low = None if min is None else raw(min)
        high = None if max is None else raw(max)
        return Tensor(compare.clamp(self.edge, low, high))

    clip = clamp

    # --- elementary functions ---------------------------------------------------------------------

    def neg(self) -> Tensor:
        return -self

    def abs(self) -> Tensor:
        return Tensor(elementary.absolute(self.edge))

    def sign(self) -> Tensor:
        return Tensor(compare.sign(self.edge))

    def square(self) -> Tensor:
        return Tensor(elementary.square(self.edge))

    def exp(self) -> Tensor:
        return Tensor(elementary.exp(self.edge))

    def exp2(self) -> Tensor:
        return Tensor(primitive.exp2(self.edge))

    def log(self) -> Tensor:
        return Tensor(elementary.log(self.edge))

    def log2(self) -> Tensor:
        return Tensor(primitive.log2(self.edge))

    def log10(self) -> Tensor:
        return Tensor(elementary.log10(self.edge))

    def sqrt(self) -> Tensor:
        return Tensor(primitive.sqrt(self.edge))

    def rsqrt(self) -> Tensor:
        return Tensor(elementary.rsqrt(self.edge))

    def reciprocal(self) -> Tensor:
        return Tensor(primitive.recip(self.edge))

    def sin(self) -> Tensor:
        return Tensor(primitive.sin(self.edge))

    def cos(self) -> Tensor:
        return Tensor(elementary.cos(self.edge))

    def tan(self) -> Tensor:
        return Tensor(elementary.tan(self.edge))

    def tanh(self) -> Tensor:
        return Tensor(elementary.tanh(self.edge))

    def sigmoid(self) -> Tensor:
        return Tensor(elementary.sigmoid(self.edge))

    def relu(self) -> Tensor:
        return Tensor(elementary.relu(self.edge))

    def erf(self) -> Tensor:
        return Tensor(elementary.erf(self.edge))

    def floor(self) -> Tensor:
        return Tensor(elementary.floor(self.edge))

    def ceil(self) -> Tensor:
        return Tensor(elementary.ceil(self.edge))

    def pow(self, exponent: Scalar) -> Tensor:
        """A number as exponent: exact products for integers, else exp2(exponent * log2(x))."""
        if isinstance(exponent, Tensor):
            raise fail(
                BadArgument,
                op="pow",
                name="the exponent",
                value="a tensor",
                expected="a Python number, or write (b * a.log2()).exp2() for positive a",
            )
        return Tensor(elementary.power(self.edge, exponent))

    # --- reductions -------------------------------------------------------------------------------

    def sum(self, dim: Dims = None, keepdim: Flag = False, dtype: DType | None = None) -> Tensor:
        return Tensor(reduction.sum(self.edge, dim, keepdim=keepdim, dtype=dtype))

    def mean(self, dim: Dims = None, keepdim: Flag = False) -> Tensor:
        return Tensor(reduction.mean(self.edge, dim, keepdim=keepdim))

    def var(self, dim: Dims = None, correction: Int = 1, keepdim: Flag = False) -> Tensor:
        return Tensor(reduction.var(self.edge, dim, keepdim=keepdim, correction=correction))

    def std(self, dim: Dims = None, correction: Int = 1, keepdim: Flag = False) -> Tensor:
        return Tensor(reduction.std(self.edge, dim, keepdim=keepdim, correction=correction))

    def amax(self, dim: Dims = None, keepdim: Flag = False) -> Tensor:
        return Tensor(reduction.amax(self.edge, dim, keepdim=keepdim))

    def amin(self, dim: Dims = None, keepdim: Flag = False) -> Tensor:
        return Tensor(reduction.amin(self.edge, dim, keepdim=keepdim))

    def max(self, dim: Dims = None, keepdim: Flag = False) -> Tensor:
        """The greatest values; positions are `argmax`'s."""
        return self.amax(dim, keepdim)

    def min(self, dim: Dims = None, keepdim: Flag = False) -> Tensor:
        """The least values; positions are `argmin`'s."""
        return self.amin(dim, keepdim)

    def any(self, dim: Dims = None, keepdim: Flag = False) -> Tensor:
        return Tensor(reduction.any(self.edge, dim, keepdim=keepdim))

    def all(self, dim: Dims = None, keepdim: Flag = False) -> Tensor:
        return Tensor(reduction.all(self.edge, dim, keepdim=keepdim))

    def argmax(self, dim: Int | None = None, keepdim: Flag = False) -> Tensor:
        return Tensor(reduction.argmax(self.edge, dim, keepdim=keepdim))

    def argmin(self, dim: Int | None = None, keepdim: Flag = False) -> Tensor:
        return Tensor(reduction.argmin(self.edge, dim, keepdim=keepdim))

    def logsumexp(self, dim: Dims, keepdim: Flag = False) -> Tensor:
        return Tensor(reduction.logsumexp(self.edge, dim, keepdim=keepdim))

    def norm(self, p: Number = 2, dim: Dims = None, keepdim: Flag = False) -> Tensor:
        return Tensor(reduction.norm(self.edge, p, dim, keepdim=keepdim))

    def softmax(self, dim: Int) -> Tensor:
        return Tensor(reduction.softmax(self.edge, dim))

    def log_softmax(self, dim: Int) -> Tensor:
        return Tensor(reduction.log_softmax(self.edge, dim))

    # --- movement ---------------------------------------------------------------------------------

    def reshape(self, *shape: Extent | Sequence[Extent]) -> Tensor:
        return Tensor(movement.reshape(self.edge, one_sequence(shape)))

    view = reshape

    def permute(self, *dims: Int | Sequence[Int]) -> Tensor:
        return Tensor(movement.permute(self.edge, _ints(dims)))

    def transpose(self, dim0: Int, dim1: Int) -> Tensor:
        return Tensor(movement.transpose(self.edge, dim0, dim1))

    @property
    def T(self) -> Tensor:
        """All dimensions in reverse order."""
        return self.permute(tuple(reversed(range(self.ndim))))

    @property
    def mT(self) -> Tensor:
        """The last two dimensions swapped."""
        return self.transpose(-1, -2)

    def unsqueeze(self, dim: Int) -> Tensor:
        return Tensor(movement.unsqueeze(self.edge, dim))

    def squeeze(self, dim: Dims = None) -> Tensor:
        return Tensor(movement.squeeze(self.edge, dim))

    def expand(self, *shape: Extent | Sequence[Extent]) -> Tensor:
        return Tensor(movement.expand_to(self.edge, one_sequence(shape)))

    def flatten(self, start_dim: Int = 0, end_dim: Int = -1) -> Tensor:
        return Tensor(movement.flatten(self.edge, start_dim, end_dim))

    def unflatten(self, dim: Int, sizes: Sequence[Extent]) -> Tensor:
        return Tensor(movement.unflatten(self.edge, dim, sizes))

    def flip(self, *dims: Int | Sequence[Int]) -> Tensor:
        return Tensor(movement.flip(self.edge, _ints(dims)))

    def roll(self, shifts: Int, dims: Int) -> Tensor:
        return Tensor(movement.roll(self.edge, shifts, dims))

    def pad(self, widths: Sequence[Extent], value: Number = 0) -> Tensor:
        """Widths before and after the last dimension, then of the one before it."""
        return Tensor(movement.pad(self.edge, widths, value))

    def unfold(self, dimension: Int, size: Int, step: Int) -> Tensor:
        return Tensor(movement.unfold(self.edge, dimension, size, step))

    def narrow(self, dim: Int, start: Extent, length: Extent) -> Tensor:
        return Tensor(movement.narrow(self.edge, dim, start, length))

    def split(self, split_size: Int | Sequence[Extent], dim: Int = 0) -> tuple[Tensor, ...]:
        return tuple(map(Tensor, movement.split(self.edge, split_size, dim)))

    def chunk(self, chunks: Int, dim: Int = 0) -> tuple[Tensor, ...]:
        return tuple(map(Tensor, movement.chunk(self.edge, chunks, dim)))

    def unbind(self, dim: Int = 0) -> tuple[Tensor, ...]:
        parts = movement.split(self.edge, 1, dim)
        return tuple(Tensor(movement.squeeze(p, dim)) for p in parts)

    def repeat_interleave(self, repeats: Int, dim: Int) -> Tensor:
        return Tensor(movement.tile_axis(self.edge, dim, repeats))

    def repeat(self, *times: Int | Sequence[Int]) -> Tensor:
        return Tensor(movement.repeat(self.edge, _ints(times)))

    def __getitem__(self, key: Any) -> Tensor:
        keys = cast("tuple[Any, ...]", key if isinstance(key, tuple) else (key,))
        return Tensor(
            indexing.getitem(self.edge, [k.edge if isinstance(k, Tensor) else k for k in keys])
        )

    def index_select(self, dim: Int, index: Tensor) -> Tensor:
        return Tensor(indexing.index_select(self.edge, dim, index.edge))

    def gather(self, dim: Int, index: Tensor) -> Tensor:
        return Tensor(indexing.gather(self.edge, dim, index.edge))

    def take_along_dim(self, indices: Tensor, dim: Int) -> Tensor:
        return Tensor(indexing.take_along_dim(self.edge, indices.edge, dim))

    # --- dtype and memory -------------------------------------------------------------------------

    def to(self, dtype: DType) -> Tensor:
        """The cast: a rounding point."""
        return Tensor(primitive.cast(self.edge, dtype))

    def float(self) -> Tensor:
        return self.to(f32)

    def double(self) -> Tensor:
        return self.to(f64)

    def half(self) -> Tensor:
        return self.to(f16)

    def bfloat16(self) -> Tensor:
        return self.to(bf16)

    def int(self) -> Tensor:
        return self.to(i32)

    def long(self) -> Tensor:
        return self.to(i64)

    def bool(self) -> Tensor:
        return self.to(boolean)

    def contiguous(self) -> Tensor:
        """The same elements in row-major order."""
        return Tensor(primitive.contiguous(self.edge))

    def retrieve(self) -> Any:
        """Ask the context that this tensor's inputs belong to for its value (see `context`)."""
        home = home_of(self.edge)
        if home is None:
            raise fail(
                BadArgument,
                op="retrieve",
                name="a tensor",
                value="retrieved, since no input of a context is in it",
                expected="tensors that come from cx.tensor(...), or return it from an entry",
            )
        return home.retrieve(self.edge)
