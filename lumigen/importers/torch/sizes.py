# pyright: reportUnknownMemberType=false, reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false
"""sizes: the symbols of an exported program as dims, and its expressions as expressions of them."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from lumigen.errors import BadArgument
from lumigen.frontend.symbolic import Dim, Size, sym_max, sym_min
from lumigen.frontend.trace import fail

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
    """A dim for each symbol in the shapes of the inputs; BadArgument for those without a greatest size."""
    out: dict[Any, Dim] = {}
    unbounded: list[str] = []
    used: set[str] = set()
    for port, value in inputs.items():
        for axis, extent in enumerate(value.shape):
            for symbol in symbols_of(extent):
                if symbol in out:
                    continue
                name = names.get((port, axis)) or f"{port}_dim{axis}"
                found = ranges.get(symbol)
                used.add(name)
                dim = bounded(name, found, given.get(name))
                if dim is None:
                    unbounded.append(name)
                out[symbol] = dim or Dim(name, 1, 1)
    if unbounded:
        raise no_bound(unbounded)
    unknown = [name for name in given if name not in used]
    if unknown:
        known = ", ".join(sorted(used)) or "none"
        raise fail(
            BadArgument,
            op="from_torch",
            name="dims",
            value=f"of {', '.join(unknown)}",
            expected=f"dims of the program, which are: {known}",
        )
    return out


def no_bound(names: Sequence[str]) -> Exception:
    """The error for dims without a greatest size."""
    shown = ", ".join(f'"{name}": (1, 512)' for name in names)
    expected = (
        f"a greatest size of each: dims={{{shown}}}, --dim {names[0]}=1..512, "
        f'or torch.export.Dim("{names[0]}", max=512) in the dynamic_shapes'
    )
    return fail(
        BadArgument,
        op="from_torch",
        name=f"the dims {', '.join(names)}" if len(names) > 1 else f"the dim {names[0]}",
        value="without a greatest size",
        expected=expected,
    )


def bounded(name: str, found: Any, given: Any) -> Dim | None:
    """The dim of a range of PyTorch's and of what the user says; None without a greatest size."""
    if isinstance(given, Dim):
        return given
    low = max(1, int(found.lower)) if found is not None else 1
    high = found.upper if found is not None else GREATEST
    if isinstance(given, tuple):
        return Dim(name, *given)
    if given is not None:
        return Dim(name, given, given)
    return Dim(name, low, int(high)) if high < GREATEST else None


def symbols_of(extent: Any) -> list[Any]:
    """The symbols of an extent, in the order of their names."""
    if isinstance(extent, int):
        return []
    return sorted(extent.node.expr.free_symbols, key=str)


def extent_of(extent: Any, dims: Mapping[Any, Dim]) -> Size:
    """An extent of PyTorch's as a size."""
    return extent if isinstance(extent, int) else expression(extent.node.expr, dims)


def expression(expr: Any, dims: Mapping[Any, Dim]) -> Any:
    """An expression of sympy as one of dims; KeyError for a symbol that no input has."""
    if expr.is_Symbol:
        return dims[expr]
    if expr.is_Integer:
        return int(expr)
    args = [expression(a, dims) for a in expr.args]
    return EXPRESSIONS[type(expr).__name__](*args)


def added(*args: Any) -> Any:
    return sum(args[1:], args[0])


EXPRESSIONS: Mapping[str, Any] = {
    "Add": added,
    "Mul": lambda *args: math.prod(args[1:], start=args[0]),
    "Pow": lambda base, times: math.prod([base] * times),
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "IntTrueDiv": Ratio,
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


SAME: tuple[Any, ...] = (
    *(operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.neg),
    *(operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge),
    *(operator.and_, operator.or_, operator.not_, operator.getitem),
)
# What a program calls to compute with sizes.
OF_SIZES: Mapping[Any, Any] = {
    **{function: function for function in SAME},
    operator.pow: EXPRESSIONS["Pow"],
    operator.truediv: quotient,
    math.floor: floored,
    math.ceil: ceiled,
    math.trunc: floored,
    round: floored,
    max: sym_max,
    min: sym_min,
    torch.sym_float: lambda value: value,
    torch.sym_int: floored,
    torch.sym_max: sym_max,
    torch.sym_min: sym_min,
    torch.sym_not: operator.not_,
    torch.sym_sum: lambda values: added(*values),
}
