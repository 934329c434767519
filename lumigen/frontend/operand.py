"""operand: what functions of tensors take, a tensor or a number, and the choice between two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, TypeVar, Union

from lumigen.dtype import DType
from lumigen.errors import BadArgument
from lumigen.frontend import compare, primitive
from lumigen.frontend.primitive import Extent, Scalar
from lumigen.frontend.promote import result_type
from lumigen.frontend.trace import fail
from lumigen.graph import Edge
from lumigen.index import Ix, Symbolic, ix

if TYPE_CHECKING:
    from lumigen.frontend.tensor import Tensor

Value: TypeAlias = Union["Tensor", Scalar]
Dims: TypeAlias = int | Sequence[int] | None
T = TypeVar("T")


def raw(a: Any) -> primitive.Operand:
    """What the modules of operations take: the edge of a tensor, a scalar as it is."""
    if isinstance(a, bool | int | float | Symbolic | Ix):
        return a
    edge = getattr(a, "edge", None)
    if isinstance(edge, Edge):
        return edge
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
        expected=f"{OF_TRACE}, numbers or extents; an array is a parameter of the model, among its weights",
    )


OF_TRACE = "tensors of this trace"


def check_tensor(op: str, a: Any) -> None:
    """What has no numbers but those of a trace: arrays are passed to an entry when the model runs, or to a graph."""
    if not isinstance(getattr(a, "edge", None), Edge):
        value = f"a {type(a).__name__}"
        expected = (
            f"{OF_TRACE}: an entry's inputs, or lg.Graph().tensor(shape).set(array) to try it out"
        )
        raise fail(BadArgument, op=op, name="the input", value=value, expected=expected)


def is_tensor(a: object) -> TypeGuard[Tensor]:
    """Whether an operand is a tensor."""
    return isinstance(getattr(a, "edge", None), Edge)


def first_tensor(op: str, *values: Value) -> Tensor:
    """The first operand that is a tensor, which one must be."""
    found = next((v for v in values if is_tensor(v)), None)
    if found is None:
        value = " and ".join(map(repr, values))
        raise fail(BadArgument, op=op, name="an operand", value=value, expected="a tensor")
    return found


def dtype_of(op: str, *values: Value) -> DType:
    """The common dtype of operands, by PyTorch's rules."""
    return result_type(op, tuple(primitive.vote(raw(v)) for v in values))


def where(condition: Tensor, input: Value, other: Value) -> Tensor:
    """`input` where the condition holds, else `other`; what is not chosen never shows, be it NaN."""
    return condition.of(compare.where(condition.edge, raw(input), raw(other)))


def full_like(input: Tensor, fill_value: Scalar, *, dtype: DType | None = None) -> Tensor:
    """`fill_value` everywhere in the shape of `input`, in its dtype if none is given."""
    value = primitive.fill("full_like", raw(fill_value), dtype or input.dtype)
    return input.of(primitive.expand("full_like", value, input.extents))


def filled(input: Tensor, shape: Sequence[Extent], value: Scalar) -> Tensor:
    """`value` everywhere in a shape, in the dtype of `input`."""
    edge = primitive.fill("full", raw(value), input.dtype)
    return input.of(primitive.expand("full", edge, tuple(map(ix, shape))))


def zeros_like(input: Tensor, *, dtype: DType | None = None) -> Tensor:
    """0 everywhere in the shape of `input`, in its dtype if none is given."""
    return full_like(input, 0, dtype=dtype)


def ones_like(input: Tensor, *, dtype: DType | None = None) -> Tensor:
    """1 everywhere in the shape of `input`, in its dtype if none is given."""
    return full_like(input, 1, dtype=dtype)


def floats(input: Tensor) -> Tensor:
    """The tensor; integers and bools as f32."""
    return input.of(primitive.floating(input.edge))


def common(op: str, input: Tensor, *others: Value) -> tuple[Tensor, ...]:
    """Operands in their common dtype and shape."""
    return _together(op, dtype_of(op, input, *others), (input, *others))


def common_floats(op: str, *operands: Value) -> tuple[Tensor, ...]:
    """Operands, of which one is a tensor, in the floats of their common dtype, and in their common shape."""
    return _together(op, primitive.float_type(dtype_of(op, *operands)), operands)


def _together(op: str, dtype: DType, operands: tuple[Value, ...]) -> tuple[Tensor, ...]:
    return tuple(
        map(first_tensor(op, *operands).of, primitive.together(op, dtype, *map(raw, operands)))
    )


def listed(given: T | Sequence[T]) -> tuple[T, ...]:
    """One of something, or several, as a tuple."""
    return tuple(given) if isinstance(given, Sequence) else (given,)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def one_sequence(args: tuple[int | Extent | Sequence[Extent], ...]) -> tuple[Extent, ...]:
    """Extents given one by one, or as one sequence."""
    if len(args) == 1 and isinstance(args[0], Sequence):
        return tuple(args[0])
    return tuple(a for a in args if not isinstance(a, Sequence))


def drawn(op: str, generator: T | None) -> T:
    """The generator that numbers are drawn from, which a draw cannot do without."""
    if generator is None:
        expected = (
            "lg.Generator(seed), of a seed that is an input: a model has no random state of its own"
        )
        raise fail(BadArgument, op=op, name="generator", value=None, expected=expected)
    return generator


def choice(op: str, name: str, given: object, *allowed: object) -> None:
    """An option has one of a few values."""
    if given not in allowed:
        *most, last = map(repr, allowed)
        expected = f"{', '.join(most)} or {last}" if most else last
        raise fail(BadArgument, op=op, name=name, value=repr(given), expected=expected)
