# pyright: reportUnknownMemberType=false, reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false
"""sizes: the symbols of an exported program as dims, and its expressions as expressions of them."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch

from lumigen.dtype import i64
from lumigen.errors import BadArgument, DimSpecialised, NoGreatestSize
from lumigen.frontend import creation
from lumigen.frontend.symbolic import Dim, Size, SymbolicSize, sym_max, sym_min
from lumigen.frontend.tensor import Tensor
from lumigen.frontend.trace import fail
from lumigen.importers.same import same_sizes

GREATEST = 2**62  # from which on a bound is none
Axes = Mapping[tuple[str, int], str]  # the names that the user gave dims, by input and axis


@dataclass(frozen=True)
class Ratio:
    """A quotient of sizes that is not rounded yet."""

    numerator: Any
    denominator: Any


def dims_of(
    inputs: Mapping[str, Any],
    ranges: Mapping[Any, Any],
    given: Mapping[str, Any],
    names: Axes,
) -> dict[Any, Dim]:
    """A dim for each symbol in the shapes of the inputs.

    NoGreatestSize for those without one; BadArgument for one that is not what the program was exported for, and where
    `given` names others. Sizes that it says are one have one dim.
    """
    called = names_of(inputs, names)
    known = sorted(called.values())
    unknown = [name for name in given if name not in known]
    if unknown:
        value = f"of {', '.join(unknown)}"
        expected = f"dims of the program, which are: {', '.join(known)}"
        if not known:
            expected = "no dims: the program has none, unless it is exported with dynamic_shapes"
        raise fail(BadArgument, op="from_torch", name="dims", value=value, expected=expected)
    same = same_sizes("from_torch", given, called.values())
    called = {symbol: same.get(name, name) for symbol, name in called.items()}
    limits: dict[str, tuple[int, int | None]] = {}
    for symbol, name in called.items():
        limits[name] = within(limits_of(ranges.get(symbol)), limits.get(name, (1, None)))
    open_ended = {n: low for n, (low, high) in limits.items() if high is None and n not in given}
    if open_ended:
        raise no_bound(open_ended)
    for name, (low, high) in limits.items():
        if high is not None and low > high:
            alike = ", ".join(n for n, end in same.items() if end == name)
            value, expected = f"one size with {alike}", "sizes that the program may have alike"
            raise fail(BadArgument, op="from_torch", name=name, value=value, expected=expected)
    dims = {name: dim_of(name, bounds, given.get(name)) for name, bounds in limits.items()}
    return {symbol: dims[name] for symbol, name in called.items()}


def within(a: tuple[int, int | None], b: tuple[int, int | None]) -> tuple[int, int | None]:
    """What is in two ranges."""
    highs = [high for _, high in (a, b) if high is not None]
    return max(a[0], b[0]), min(highs, default=None)


def names_of(inputs: Mapping[str, Any], names: Axes) -> dict[Any, str]:
    """What the symbols are called: as the user did, else by the first input that has one, and its axis."""
    called: dict[Any, str] = {}
    for port, value in inputs.items():
        for axis, extent in enumerate(value.shape):
            for symbol in symbols_of(extent):
                called.setdefault(symbol, names.get((port, axis)) or f"{port}_dim{axis}")
    return called


def limits_of(found: Any) -> tuple[int, int | None]:
    """The least and the greatest size in a range of PyTorch's, if it has a greatest."""
    if found is None:
        return 1, None
    return max(1, int(found.lower)), int(found.upper) if found.upper < GREATEST else None


def no_bound(least: Mapping[str, int]) -> Exception:
    """The error for dims without a greatest size, by their least."""
    first, low = next(iter(least.items()))
    shown = ", ".join(f'"{name}": ({low}, 512)' for name, low in least.items())
    expected = (
        f"a greatest size of each: dims={{{shown}}}, --dim {first}={low}..512, "
        f'or torch.export.Dim("{first}", max=512) in the dynamic_shapes'
    )
    name = f"the dim{'s' if len(least) > 1 else ''} {', '.join(least)}"
    value = "without a greatest size"
    error = fail(NoGreatestSize, op="from_torch", name=name, value=value, expected=expected)
    assert isinstance(error, NoGreatestSize)
    error.least = dict(least)
    return error


def dim_of(name: str, limits: tuple[int, int | None], given: Any) -> Dim:
    """The dim that the user describes, within the limits of the program; these where nothing is said."""
    low, high = limits
    if isinstance(given, Dim):
        dim = given
    elif isinstance(given, tuple):
        dim = Dim(name, *given)
    elif given is None:
        dim = Dim(name, low, cast("int", high))
    else:
        dim = Dim(name, given, given)
    if dim.lo < low or (high is not None and dim.hi > high):
        value = f"{dim.lo} to {dim.hi}"
        expected = f"sizes from {low}{'' if high is None else f' to {high}'}, as it was exported"
        raise fail(BadArgument, op="from_torch", name=name, value=value, expected=expected)
    return dim


def symbols_of(extent: Any) -> list[Any]:
    """The symbols of an extent, in the order of their names."""
    if isinstance(extent, int):
        return []
    return sorted(extent.node.expr.free_symbols, key=str)


def extent_of(extent: Any, dims: Mapping[Any, Size]) -> Size:
    """An extent of PyTorch's as a size."""
    return extent if isinstance(extent, int) else expression(extent.node.expr, dims)


def expression(expr: Any, dims: Mapping[Any, Size]) -> Any:
    """An expression of sympy as one of dims."""
    if expr.is_Symbol:
        return dims[expr]
    if expr.is_Integer:
        return int(expr)
    computed = EXPRESSIONS.get(type(expr).__name__)
    if computed is None:
        expected = f"dims with {', '.join(EXPRESSIONS)}"
        raise fail(BadArgument, op="from_torch", name="a size", value=expr, expected=expected)
    return computed(*(expression(a, dims) for a in expr.args))


def powered(base: Any, times: Any) -> Any:
    if not isinstance(times, int) or times < 0:
        expected = "whole powers of dims; a root is taken of a tensor: torch.full((), n).sqrt()"
        value = f"a dim to the power {times}"
        raise fail(BadArgument, op="from_torch", name="a size", value=value, expected=expected)
    return math.prod([base] * times)


def added(*args: Any) -> Any:
    return sum(args[1:], args[0])


EXPRESSIONS: Mapping[str, Any] = {
    "Add": added,
    "Mul": lambda *args: math.prod(args[1:], start=args[0]),
    "Pow": powered,
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "Max": sym_max,
    "Min": sym_min,
}


def floored(value: Any) -> Any:
    """floor of a size or a quotient of sizes."""
    if isinstance(value, Ratio):
        return value.numerator // value.denominator
    return math.floor(value) if isinstance(value, float) else value


def ceiled(value: Any) -> Any:
    """Likewise the ceiling."""
    if isinstance(value, Ratio):
        return -(-value.numerator // value.denominator)
    return math.ceil(value) if isinstance(value, float) else value


def quotient(a: Any, b: Any) -> Any:
    """a / b: of numbers a number."""
    known = isinstance(a, int | float) and isinstance(b, int | float)
    return a / b if known else Ratio(a, b)


def compared(function: Any) -> Any:
    """A comparison of sizes: true or false where the ranges of dims decide it, else a tensor of the model."""

    def compare(a: Any, b: Any) -> Any:
        try:
            return function(a, b)
        except DimSpecialised:
            return function(in_model(a), in_model(b))

    return compare


def in_model(size: Any) -> Any:
    """A size as a tensor."""
    return creation.full((), size, i64) if isinstance(size, SymbolicSize) else size


def negated(value: Any) -> Any:
    """`not`."""
    return value.logical_not() if isinstance(value, Tensor) else not value


SAME: tuple[Any, ...] = (
    *(operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.neg),
    *(operator.and_, operator.or_, operator.getitem),
)
COMPARISONS: tuple[Any, ...] = (
    *(operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge),
)
# What a program calls that is no op: arithmetic of sizes, and parts of results.
OF_SIZES: Mapping[Any, Any] = {
    **{function: function for function in SAME},
    **{function: compared(function) for function in COMPARISONS},
    operator.not_: negated,
    operator.pow: EXPRESSIONS["Pow"],
    operator.truediv: quotient,
    math.floor: floored,
    math.ceil: ceiled,
    math.trunc: floored,
    max: sym_max,
    min: sym_min,
    torch.sym_float: lambda value: value,
    torch.sym_int: floored,
    torch.sym_max: sym_max,
    torch.sym_min: sym_min,
    torch.sym_not: negated,
    torch.sym_sum: lambda values: added(*values),
}
