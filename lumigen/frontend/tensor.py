"""Tensor: an edge of the graph under PyTorch's names; the meanings are in the modules beside it.

Promises PyTorch's signatures, dtype promotion, broadcasting and IEEE semantics, and errors that
name the user's line.
"""

# ruff: noqa: FBT002  # signatures are PyTorch's

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast, overload

from lumigen.dtype import DType, bf16, boolean, f16, f32, f64, i8, i32, i64, u8
from lumigen.errors import BadArgument
from lumigen.frontend import (
    arrangement,
    bitwise,
    compare,
    contraction,
    cumulative,
    elementary,
    elementwise,
    elsewhere,
    indexing,
    movement,
    operand,
    ordering,
    primitive,
    products,
    reduction,
    scattering,
    sorting,
    special_functions,
    statistics,
)
from lumigen.frontend.extents import check_size
from lumigen.frontend.offered import lacks_method
from lumigen.frontend.operand import Dims, Value, one_sequence, raw
from lumigen.frontend.primitive import Extent, Scalar
from lumigen.frontend.symbolic import Size, size_of
from lumigen.frontend.trace import current, fail, home_of
from lumigen.graph import Edge
from lumigen.index import product
from lumigen.view import Shape

Int: TypeAlias = int  # Tensor has methods of the names int, float and bool, as PyTorch's has
Number: TypeAlias = float
Flag: TypeAlias = bool


def _ints(args: tuple[int | Sequence[int], ...]) -> tuple[int, ...]:
    if len(args) == 1 and isinstance(args[0], Sequence):
        return tuple(args[0])
    return tuple(a for a in args if not isinstance(a, Sequence))


def _valueless(op: str, expected: str) -> Exception:
    """The error for what asks a tensor for its numbers."""
    if current() is not None:
        value = "read while the model is traced: it has no numbers yet"
    else:
        value = "read where nothing runs: it says what is computed, and has no numbers"
        expected = (
            "y.retrieve() as a result of a graph with inputs lg.Graph().tensor(shape).set(values), and read it after "
            "the graph's compile() and execute()"
        )
    return fail(BadArgument, op=op, name="a tensor", value=value, expected=expected)


class Tensor:
    """A value of the model while it is traced: a shape, a dtype, no numbers yet.

    Methods have PyTorch's names, broadcasting and promotion of dtypes; so have `+ - * / // % ** @`,
    comparisons, `& | ^ ~` of bools, and `x[...]` with numbers, slices, `None`, `...` and one tensor
    of integers. Operands are tensors, Python numbers and extents; `dim` counts from 0, or back from
    -1. What does not fit is a ShapeMismatch, DtypeMismatch, RankMismatch, BadAxis or BadArgument,
    with the line of the caller.
    """

    __slots__ = ("_edge",)

    def __init__(self, edge: Edge) -> None:
        check_size("tensor", edge.shape)
        self._edge = edge

    @staticmethod
    def of(edge: Edge) -> Tensor:
        """The tensor that is a view of a node."""
        return Tensor(edge)

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
        """The element type, such as `lg.f32`."""
        return self.edge.dtype

    @property
    def shape(self) -> tuple[Size, ...]:
        """The extents: ints where they are known, else sizes with the arithmetic of `Dim`."""
        return tuple(map(size_of, self.extents))

    @overload
    def size(self) -> tuple[Size, ...]: ...
    @overload
    def size(self, dim: Int) -> Size: ...
    def size(self, dim: Int | None = None) -> Size | tuple[Size, ...]:
        """The shape, or the extent of one dimension."""
        return self.shape if dim is None else self.shape[movement.axis("size", self.edge, dim)]

    @property
    def ndim(self) -> Int:
        """How many dimensions it has."""
        return len(self.extents)

    def dim(self) -> Int:
        """How many dimensions it has."""
        return self.ndim

    def numel(self) -> Size:
        """How many elements it has: an int where that is known, else a size with the arithmetic of `Dim`."""
        return size_of(product(self.extents))

    def is_floating_point(self) -> Flag:
        """Whether the dtype is a float type."""
        return self.dtype.is_float

    if not TYPE_CHECKING:  # which finds them by itself

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):  # a protocol that is asked for
                raise AttributeError(name)
            raise lacks_method(name, Tensor)

    def __repr__(self) -> str:
        return f"Tensor({self.dtype}[{', '.join(map(str, self.extents))}])"

    def __bool__(self) -> Flag:
        raise _valueless("if", "where(condition, a, b), or decide by shapes and options")

    def __int__(self) -> Int:
        raise _valueless("int", ".long(), and compute with tensors")

    def __float__(self) -> Number:
        raise _valueless("float", ".float(), and compute with tensors")

    def __index__(self) -> Int:
        raise _valueless("index", "index_select, gather or slices of sizes, which positions go to")

    def item(self) -> Number:
        """No number: a BadArgument that says so, as for all that asks for values while tracing."""
        raise _valueless("item", "tensors of one element, which compute like numbers")

    def tolist(self) -> list[Any]:
        """No list, likewise."""
        raise _valueless("tolist", "the tensor, or make it an output")

    def numpy(self) -> Any:
        """No array, likewise."""
        raise _valueless("numpy", "the tensor, or make it an output")

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise _valueless("numpy", "functions of lumigen, or make it an output")

    def __setitem__(self, key: Any, value: Any) -> None:
        raise fail(
            BadArgument,
            op="x[...] = y",
            name="a tensor",
            value="assigned to: it is a value, and no memory",
            expected="it to where(mask, y, x), index_put, select_scatter or slice_scatter, and go on with the "
            "result; memory that lasts is an nn.State",
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

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        """What numpy calls for its functions, and where its numbers stand left of an operator."""
        del method
        return elsewhere.of_numpy(ufunc.__name__, inputs, named, Tensor)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """What numpy calls where a function of its own that is no ufunc is given a tensor of ours."""
        del types, kwargs
        return elsewhere.of_numpy_array(function.__name__, args, Tensor)

    @classmethod
    def __torch_function__(cls, function: Any, *_: Any) -> Any:
        """What torch calls where one of its functions is given a tensor of ours."""
        raise elsewhere.refused("torch", getattr(function, "__name__", str(function)), Tensor)

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

    def __pow__(self, exponent: Value) -> Tensor:
        return self.pow(exponent)

    def __rpow__(self, base: Scalar) -> Tensor:
        return elementwise.rpow(self, base)

    def __neg__(self) -> Tensor:
        return Tensor(elementary.neg(self.edge))

    def __abs__(self) -> Tensor:
        return self.abs()

    def __matmul__(self, other: Tensor) -> Tensor:
        return self.matmul(other)

    def __rmatmul__(self, other: Tensor) -> Tensor:
        return Tensor(contraction.matmul(other.edge, self.edge))

    def matmul(self, other: Tensor) -> Tensor:
        """`@` of any ranks; leading axes broadcast."""
        return Tensor(contraction.matmul(self.edge, other.edge))

    def remainder(self, other: Value) -> Tensor:
        """The remainder with the sign of the divisor."""
        return self % other

    add = elementwise.add
    sub = subtract = elementwise.sub
    rsub = elementwise.rsub
    mul = multiply = elementwise.mul
    div = divide = elementwise.div
    fmod = elementwise.fmod
    lerp = elementwise.lerp
    addcmul = elementwise.addcmul
    addcdiv = elementwise.addcdiv
    mm = products.mm
    bmm = products.bmm
    mv = products.mv
    dot = vdot = products.dot
    outer = ger = products.outer
    inner = products.inner
    addmm = products.addmm
    addmv = products.addmv
    addr = products.addr
    addbmm = products.addbmm
    baddbmm = products.baddbmm
    kron = products.kron
    cross = products.cross
    matrix_power = products.matrix_power

    def true_divide(self, other: Value) -> Tensor:
        """x / y; integers are divided as f32."""
        return self / other

    def floor_divide(self, other: Value) -> Tensor:
        """The greatest whole number that is not above x / y, of integers exactly."""
        return self // other

    # --- comparison, logic, choice ----------------------------------------------------------------

    def __lt__(self, other: Value) -> Tensor:
        """`self < other` as bool; false beside NaN."""
        return Tensor(primitive.less(self.edge, raw(other)))

    def __gt__(self, other: Value) -> Tensor:
        """`self > other` as bool; false beside NaN."""
        return Tensor(compare.gt(self.edge, raw(other)))

    def __le__(self, other: Value) -> Tensor:
        """`self <= other` as bool; false beside NaN."""
        return Tensor(compare.le(self.edge, raw(other)))

    def __ge__(self, other: Value) -> Tensor:
        """`self >= other` as bool; false beside NaN."""
        return Tensor(compare.ge(self.edge, raw(other)))

    def __eq__(self, other: Value) -> Tensor:  # type: ignore[override]
        """`self == other` as bool; false beside NaN."""
        return Tensor(compare.eq(self.edge, raw(other)))

    def __ne__(self, other: Value) -> Tensor:  # type: ignore[override]
        """`self != other` as bool; true beside NaN."""
        return Tensor(compare.ne(self.edge, raw(other)))

    lt = less = __lt__
    gt = greater = __gt__
    le = less_equal = __le__
    ge = greater_equal = __ge__
    eq = __eq__
    ne = not_equal = __ne__

    bitwise_and = __and__ = __rand__ = bitwise.bitwise_and
    bitwise_or = __or__ = __ror__ = bitwise.bitwise_or
    bitwise_xor = __xor__ = __rxor__ = bitwise.bitwise_xor
    bitwise_not = __invert__ = bitwise.bitwise_not
    bitwise_left_shift = __lshift__ = bitwise.bitwise_left_shift
    bitwise_right_shift = __rshift__ = bitwise.bitwise_right_shift

    def __rlshift__(self, other: Scalar) -> Tensor:
        return bitwise.bitwise_left_shift(self.new_full((), other), self)

    def __rrshift__(self, other: Scalar) -> Tensor:
        return bitwise.bitwise_right_shift(self.new_full((), other), self)

    gcd = bitwise.gcd
    lcm = bitwise.lcm

    def logical_and(self, other: Tensor) -> Tensor:
        """Whether both are not 0, as bool."""
        return Tensor(compare.logical_and(self.bool().edge, other.bool().edge))

    def logical_or(self, other: Tensor) -> Tensor:
        """Whether one of the two is not 0, as bool."""
        return Tensor(compare.logical_or(self.bool().edge, other.bool().edge))

    def logical_xor(self, other: Tensor) -> Tensor:
        """Whether exactly one of the two is not 0, as bool."""
        return Tensor(compare.logical_xor(self.bool().edge, other.bool().edge))

    def logical_not(self) -> Tensor:
        """Whether it is 0, as bool."""
        return Tensor(compare.logical_not(self.bool().edge))

    def isnan(self) -> Tensor:
        """Where an element is NaN, as bool."""
        return Tensor(compare.isnan(self.edge))

    def isinf(self) -> Tensor:
        """Where an element is inf or -inf, as bool."""
        return Tensor(compare.isinf(self.edge))

    def isfinite(self) -> Tensor:
        """Where an element is neither infinite nor NaN, as bool."""
        return Tensor(compare.isfinite(self.edge))

    isposinf = elementwise.isposinf
    isneginf = elementwise.isneginf
    isreal = elementwise.isreal
    isclose = elementwise.isclose
    allclose = elementwise.allclose
    equal = elementwise.equal
    isin = ordering.isin

    def where(self, condition: Tensor, other: Value) -> Tensor:
        """This tensor where the condition holds, else `other`."""
        return Tensor(compare.where(condition.edge, self.edge, raw(other)))

    def masked_fill(self, mask: Tensor, value: Value) -> Tensor:
        """`value` where the mask holds, in this tensor's dtype."""
        filled = primitive.fill("masked_fill", raw(value), self.dtype)
        return Tensor(compare.where(mask.edge, filled, self.edge))

    def maximum(self, other: Value) -> Tensor:
        """The greater of two elements; NaN if one is."""
        return Tensor(compare.maximum(self.edge, raw(other)))

    def minimum(self, other: Value) -> Tensor:
        """The lesser of two elements; NaN if one is."""
        return Tensor(compare.minimum(self.edge, raw(other)))

    def clamp(self, min: Value | None = None, max: Value | None = None) -> Tensor:
        """min(max(x, `min`), `max`), either of which may be left out; `max` where min > max. NaN stays."""
        if min is None and max is None:
            expected = "min, max or both"
            raise fail(BadArgument, op="clamp", name="min", value=None, expected=expected)
        low = None if min is None else raw(min)
        high = None if max is None else raw(max)
        return Tensor(compare.clamp(self.edge, low, high))

    clip = clamp
    clamp_min = elementwise.clamp_min
    clamp_max = elementwise.clamp_max
    fmax = elementwise.fmax
    fmin = elementwise.fmin

    # --- elementary functions ---------------------------------------------------------------------

    def neg(self) -> Tensor:
        """-x."""
        return -self

    def abs(self) -> Tensor:
        """|x|, which is 0.0 for -0.0."""
        return Tensor(elementary.absolute(self.edge))

    def sign(self) -> Tensor:
        """1, 0 or -1 in the same dtype; 0 for NaN."""
        return Tensor(compare.sign(self.edge))

    def square(self) -> Tensor:
        """x * x; of bools in i64."""
        return self.pow(2)

    def exp(self) -> Tensor:
        """e ** x; integers are computed in f32, as in each function below that has fractions."""
        return Tensor(elementary.exp(self.edge))

    def exp2(self) -> Tensor:
        """2 ** x."""
        return Tensor(primitive.exp2(self.edge))

    def log(self) -> Tensor:
        """The natural logarithm: -inf at 0, NaN below."""
        return Tensor(elementary.log(self.edge))

    def log2(self) -> Tensor:
        """The logarithm to base 2: -inf at 0, NaN below."""
        return Tensor(primitive.log2(self.edge))

    def log10(self) -> Tensor:
        """The logarithm to base 10: -inf at 0, NaN below."""
        return Tensor(elementary.log10(self.edge))

    def sqrt(self) -> Tensor:
        """The square root; NaN below 0."""
        return Tensor(primitive.sqrt(self.edge))

    def rsqrt(self) -> Tensor:
        """1 / sqrt(x)."""
        return Tensor(elementary.rsqrt(self.edge))

    def reciprocal(self) -> Tensor:
        """1 / x."""
        return Tensor(primitive.recip(self.edge))

    def sin(self) -> Tensor:
        """The sine of an angle in radians."""
        return Tensor(primitive.sin(self.edge))

    def cos(self) -> Tensor:
        """The cosine of an angle in radians."""
        return Tensor(elementary.cos(self.edge))

    def tan(self) -> Tensor:
        """The tangent of an angle in radians."""
        return Tensor(elementary.tan(self.edge))

    def tanh(self) -> Tensor:
        """The hyperbolic tangent."""
        return Tensor(elementary.tanh(self.edge))

    def sigmoid(self) -> Tensor:
        """1 / (1 + exp(-x))."""
        return Tensor(elementary.sigmoid(self.edge))

    def relu(self) -> Tensor:
        """max(x, 0); NaN stays."""
        return Tensor(elementary.relu(self.edge))

    def erf(self) -> Tensor:
        """The error function; relatively within 4e-7 in f32, 1e-15 in f64."""
        return Tensor(elementary.erf(self.edge))

    def floor(self) -> Tensor:
        """The greatest whole number that is not above x, in the same dtype."""
        return Tensor(elementary.floor(self.edge))

    def ceil(self) -> Tensor:
        """The least whole number that is not below x, in the same dtype."""
        return Tensor(elementary.ceil(self.edge))

    pow = elementwise.pow
    float_power = elementwise.float_power
    negative = neg
    absolute = abs  # noqa: A003  # PyTorch's other name of the method
    positive = elementwise.positive
    signbit = elementwise.signbit
    copysign = elementwise.copysign
    sgn = elementwise.sgn
    angle = elementwise.angle
    trunc = fix = elementwise.trunc
    frac = elementwise.frac
    round = elementwise.round
    heaviside = elementwise.heaviside
    nan_to_num = elementwise.nan_to_num
    expm1 = elementwise.expm1
    log1p = elementwise.log1p
    logaddexp = elementwise.logaddexp
    logaddexp2 = elementwise.logaddexp2
    xlogy = elementwise.xlogy
    logit = elementwise.logit
    ldexp = elementwise.ldexp
    asin = arcsin = elementwise.asin
    acos = arccos = elementwise.acos
    atan = arctan = elementwise.atan
    atan2 = arctan2 = elementwise.atan2
    sinh = elementwise.sinh
    cosh = elementwise.cosh
    asinh = arcsinh = elementwise.asinh
    acosh = arccosh = elementwise.acosh
    atanh = arctanh = elementwise.atanh
    sinc = elementwise.sinc
    hypot = elementwise.hypot
    deg2rad = elementwise.deg2rad
    rad2deg = elementwise.rad2deg
    erfc = elementwise.erfc
    frexp = elementwise.frexp
    erfinv = special_functions.erfinv
    lgamma = special_functions.lgamma
    digamma = special_functions.digamma
    mvlgamma = special_functions.mvlgamma
    i0 = special_functions.i0

    # --- reductions -------------------------------------------------------------------------------

    def sum(self, dim: Dims = None, keepdim: Flag = False, dtype: DType | None = None) -> Tensor:
        """The sum over one dimension, several, or all; integers and bools are summed in i64."""
        return Tensor(reduction.sum(self.edge, dim, keepdim=keepdim, dtype=dtype))

    def mean(
        self, dim: Dims = None, keepdim: Flag = False, *, dtype: DType | None = None
    ) -> Tensor:
        """sum / count, of floats, cast to `dtype` before."""
        x = self if dtype is None else self.to(dtype)
        return Tensor(reduction.mean(x.edge, dim, keepdim=keepdim))

    prod = statistics.prod
    nansum = statistics.nansum
    nanmean = statistics.nanmean
    count_nonzero = statistics.count_nonzero
    trace = statistics.trace
    var = statistics.var
    std = statistics.std
    cov = statistics.cov
    corrcoef = statistics.corrcoef
    diff = statistics.diff
    dist = statistics.dist
    renorm = statistics.renorm

    def amax(self, dim: Dims = None, keepdim: Flag = False) -> Tensor:
        """The greatest values over one dimension, several, or all; NaN if there is one.

        BadArgument over an axis that is always empty; of one that is so for some dims, the least of
        the dtype.
        """
        return Tensor(reduction.amax(self.edge, dim, keepdim=keepdim))

    def amin(self, dim: Dims = None, keepdim: Flag = False) -> Tensor:
        """The least values over one dimension, several, or all; NaN if there is one.

        BadArgument over an axis that is always empty; of one that is so for some dims, the greatest of
        the dtype.
        """
        return Tensor(reduction.amin(self.edge, dim, keepdim=keepdim))

    max = statistics.max
    min = statistics.min
    aminmax = statistics.aminmax

    def any(self, dim: Dims = None, keepdim: Flag = False) -> Tensor:
        """Whether one element is not zero, as bool; of u8 as u8."""
        return self._truth(Tensor(reduction.any(self.edge, dim, keepdim=keepdim)))

    def all(self, dim: Dims = None, keepdim: Flag = False) -> Tensor:
        """Whether no element is zero, as bool; of u8 as u8."""
        return self._truth(Tensor(reduction.all(self.edge, dim, keepdim=keepdim)))

    def _truth(self, found: Tensor) -> Tensor:
        """PyTorch keeps u8, which was its type of truth values."""
        return found.to(u8) if self.dtype is u8 else found

    def argmax(self, dim: Int | None = None, keepdim: Flag = False) -> Tensor:
        """The first position of the maximum, or of a NaN, as i64; without `dim` of all elements in a row."""
        return Tensor(reduction.argmax(self.edge, dim, keepdim=keepdim))

    def argmin(self, dim: Int | None = None, keepdim: Flag = False) -> Tensor:
        """The first position of the minimum, or of a NaN, as i64; without `dim` of all elements in a row."""
        return Tensor(reduction.argmin(self.edge, dim, keepdim=keepdim))

    def logsumexp(self, dim: Dims, keepdim: Flag = False) -> Tensor:
        """log(sum(exp(x))) without overflow."""
        return Tensor(reduction.logsumexp(self.edge, dim, keepdim=keepdim))

    norm = statistics.norm

    def softmax(self, dim: Int, dtype: DType | None = None) -> Tensor:
        """exp(x - max) / sum(exp(x - max)) along `dim`, cast to `dtype` before; the same shape."""
        x = self if dtype is None else self.to(dtype)
        return Tensor(reduction.softmax(x.edge, dim))

    def log_softmax(self, dim: Int, dtype: DType | None = None) -> Tensor:
        """(x - max) - log(sum(exp(x - max))) along `dim`, cast to `dtype` before; the same shape."""
        x = self if dtype is None else self.to(dtype)
        return Tensor(reduction.log_softmax(x.edge, dim))

    # --- movement ---------------------------------------------------------------------------------

    def reshape(self, *shape: Extent | Sequence[Extent]) -> Tensor:
        """The elements in row-major order under another shape; one extent may be -1.

        BadReshape where the elements do not fit, for some value of a dim.
        """
        return Tensor(movement.reshape(self.edge, one_sequence(shape)))

    view = reshape

    def permute(self, *dims: Int | Sequence[Int]) -> Tensor:
        """The dimensions in another order, each named once."""
        return Tensor(movement.permute(self.edge, _ints(dims)))

    def transpose(self, dim0: Int, dim1: Int) -> Tensor:
        """Two dimensions swapped."""
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
        """A new dimension of extent 1 at `dim`."""
        return Tensor(movement.unsqueeze(self.edge, dim))

    def squeeze(self, dim: Dims = None) -> Tensor:
        """Without dimensions of extent 1: all of them, or those named that are 1."""
        return Tensor(movement.squeeze(self.edge, dim))

    def expand(self, *shape: Extent | Sequence[Extent]) -> Tensor:
        """Repeated along dimensions of extent 1 and new leading ones, without a copy; -1 keeps an extent."""
        return Tensor(movement.expand_to(self.edge, one_sequence(shape)))

    def flatten(self, start_dim: Int = 0, end_dim: Int = -1) -> Tensor:
        """One dimension for those from `start_dim` to `end_dim`; 0-d becomes 1-d."""
        return Tensor(movement.flatten(self.edge, start_dim, end_dim))

    def unflatten(self, dim: Int, sizes: Sequence[Extent]) -> Tensor:
        """A dimension split into `sizes`, one of which may be -1."""
        return Tensor(movement.unflatten(self.edge, dim, sizes))

    def flip(self, *dims: Int | Sequence[Int]) -> Tensor:
        """The order of the elements reversed along these dimensions."""
        return Tensor(movement.flip(self.edge, _ints(dims)))

    def roll(
        self, shifts: Extent | Sequence[Extent], dims: Int | Sequence[Int] | None = None
    ) -> Tensor:
        """Element i moves to i + shift along a dimension, around the end; without `dims` of all in a row."""
        if dims is None:
            return self.flatten().roll(shifts, 0).reshape(self.extents)
        edge = self.edge
        for shift, dim in zip(operand.listed(shifts), operand.listed(dims), strict=True):
            edge = movement.roll(edge, shift, dim)
        return Tensor(edge)

    def pad(self, widths: Sequence[Extent], value: Number = 0) -> Tensor:
        """Widths before and after the last dimension, then of the one before it; negative ones crop."""
        return Tensor(movement.pad(self.edge, widths, value))

    def unfold(self, dimension: Int, size: Int, step: Int) -> Tensor:
        """Sliding windows, `step` apart: `dimension` counts windows, a last one of `size` is added."""
        return Tensor(movement.unfold(self.edge, dimension, size, step))

    def narrow(self, dim: Int, start: Extent | Tensor, length: Extent) -> Tensor:
        """`length` elements from `start`, which lie inside for every value of every dim, or BadArgument.

        Of a 0-d tensor as `start` nothing is known: what lies outside is 0.
        """
        if isinstance(start, Tensor):
            return self.index_select(dim, arrangement.counting(self, length) + start)
        return Tensor(movement.narrow(self.edge, dim, start, length))

    def split(self, split_size: Extent | Sequence[Extent], dim: Int = 0) -> tuple[Tensor, ...]:
        """Consecutive parts: of one size (the last may be shorter), or of the sizes listed."""
        return tuple(map(Tensor, movement.split(self.edge, split_size, dim)))

    def chunk(self, chunks: Int, dim: Int = 0) -> tuple[Tensor, ...]:
        """Up to `chunks` parts of equal size; the last may be shorter."""
        return tuple(map(Tensor, movement.chunk(self.edge, chunks, dim)))

    def unbind(self, dim: Int = 0) -> tuple[Tensor, ...]:
        """The parts along a dimension of known extent, each without it."""
        extent = self.extents[movement.axis("unbind", self.edge, dim)]
        parts = movement.split(self.edge, 1, dim) if extent != 0 else []
        return tuple(Tensor(movement.squeeze(p, dim)) for p in parts)

    def repeat_interleave(self, repeats: Extent, dim: Int | None = None) -> Tensor:
        """Each element `repeats` times in a row along a dimension; without `dim` of all elements."""
        edge = movement.flatten(self.edge) if dim is None else self.edge
        return Tensor(movement.tile_axis(edge, dim or 0, repeats))

    def repeat(self, *times: Extent | Sequence[Extent]) -> Tensor:
        """The whole tensor so many times along each dimension, new leading ones included."""
        return Tensor(movement.repeat(self.edge, one_sequence(times)))

    tile = arrangement.tile
    movedim = moveaxis = arrangement.movedim
    swapaxes = swapdims = transpose
    t = arrangement.t
    ravel = arrangement.ravel
    expand_as = arrangement.expand_as
    broadcast_to = arrangement.broadcast_to
    reshape_as = view_as = arrangement.reshape_as
    sum_to_size = arrangement.sum_to_size
    select = arrangement.select
    rot90 = arrangement.rot90
    fliplr = arrangement.fliplr
    flipud = arrangement.flipud
    diagonal = arrangement.diagonal
    diag = arrangement.diag
    diag_embed = arrangement.diag_embed
    diagflat = arrangement.diagflat
    tril = arrangement.tril
    triu = arrangement.triu
    tensor_split = arrangement.tensor_split
    hsplit = arrangement.hsplit
    vsplit = arrangement.vsplit
    dsplit = arrangement.dsplit
    split_with_sizes = split
    select_scatter = arrangement.select_scatter
    slice_scatter = arrangement.slice_scatter
    diagonal_scatter = arrangement.diagonal_scatter

    def __getitem__(self, key: Any) -> Tensor:
        keys = cast("tuple[Any, ...]", key if isinstance(key, tuple) else (key,))
        return Tensor(
            indexing.getitem(self.edge, [k.edge if isinstance(k, Tensor) else k for k in keys])
        )

    def index_select(self, dim: Int, index: Tensor) -> Tensor:
        """out[.., j, ..] = x[.., index[j], ..] for a 1-d `index` of integers; 0 where it names no element, as of -1."""
        return Tensor(indexing.index_select(self.edge, dim, index.edge))

    def gather(self, dim: Int, index: Tensor) -> Tensor:
        """out[.., j, ..] = x[.., index[.., j, ..], ..]; other dimensions of `index` may be smaller.

        An index that names no element, such as -1, gives 0.
        """
        return Tensor(indexing.gather(self.edge, dim, index.edge))

    def take_along_dim(self, indices: Tensor, dim: Int | None = None) -> Tensor:
        """As `gather`, with the other dimensions broadcast; without `dim` of all elements in a row."""
        if dim is None:
            return self.flatten()[indices.flatten()]
        return Tensor(indexing.take_along_dim(self.edge, indices.edge, dim))

    as_strided = arrangement.as_strided
    bucketize = ordering.bucketize
    histc = ordering.histc
    cumsum = cumulative.cumsum
    cumprod = cumulative.cumprod
    cummax = cumulative.cummax
    cummin = cumulative.cummin
    logcumsumexp = cumulative.logcumsumexp

    # --- sorting ----------------------------------------------------------------------------------

    sort = sorting.sort
    msort = sorting.msort
    argsort = sorting.argsort
    topk = sorting.topk
    kthvalue = sorting.kthvalue
    median = sorting.median
    nanmedian = sorting.nanmedian
    mode = sorting.mode
    quantile = sorting.quantile
    nanquantile = sorting.nanquantile
    take = scattering.take
    put = scattering.put
    scatter = scattering.scatter
    scatter_add = scattering.scatter_add
    scatter_reduce = scattering.scatter_reduce
    index_add = scattering.index_add
    index_copy = scattering.index_copy
    index_fill = scattering.index_fill
    index_put = scattering.index_put
    index_reduce = scattering.index_reduce
    masked_scatter = scattering.masked_scatter

    # --- dtype and memory -------------------------------------------------------------------------

    def to(self, dtype: DType | Tensor) -> Tensor:
        """The cast, to a dtype or that of a tensor: a rounding point. Floats become integers towards zero.

        A float that the integer type cannot hold, infinities too, becomes the nearest number that it can: to u8, -20.5
        becomes 0 and 70000 255. NaN becomes 0. PyTorch leaves all of these undefined.

        An output that is cast to f32 last of all stays f32 where the model is compiled with another `--dtype`.
        """
        if isinstance(dtype, Tensor):
            return self.type_as(dtype)
        return Tensor(primitive.wanted(self.edge, dtype))

    def detach(self) -> Tensor:
        """The tensor itself: nothing is differentiated."""
        return self

    def float(self) -> Tensor:
        """The cast to f32."""
        return self.to(f32)

    def double(self) -> Tensor:
        """The cast to f64."""
        return self.to(f64)

    def half(self) -> Tensor:
        """The cast to f16."""
        return self.to(f16)

    def bfloat16(self) -> Tensor:
        """The cast to bf16."""
        return self.to(bf16)

    def int(self) -> Tensor:
        """The cast to i32."""
        return self.to(i32)

    def long(self) -> Tensor:
        """The cast to i64."""
        return self.to(i64)

    def bool(self) -> Tensor:
        """The cast to bool: whether it is not zero."""
        return self.to(boolean)

    def byte(self) -> Tensor:
        """The cast to u8."""
        return self.to(u8)

    def char(self) -> Tensor:
        """The cast to i8."""
        return self.to(i8)

    def type_as(self, other: Tensor) -> Tensor:
        """The cast to the dtype of another one."""
        return Tensor(primitive.cast(self.edge, other.dtype))

    def clone(self) -> Tensor:
        """The same elements: tensors never change."""
        return self

    def new_full(
        self, size: Sequence[Extent], fill_value: Scalar, *, dtype: DType | None = None
    ) -> Tensor:
        """`fill_value` everywhere in a shape, in this dtype if none is given."""
        return operand.filled(self if dtype is None else self.to(dtype), size, fill_value)

    def new_zeros(self, *size: Extent | Sequence[Extent], dtype: DType | None = None) -> Tensor:
        """0 everywhere in a shape, in this dtype if none is given."""
        return self.new_full(one_sequence(size), 0, dtype=dtype)

    def new_ones(self, *size: Extent | Sequence[Extent], dtype: DType | None = None) -> Tensor:
        """1 everywhere in a shape, in this dtype if none is given."""
        return self.new_full(one_sequence(size), 1, dtype=dtype)

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
