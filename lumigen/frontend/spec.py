"""What an entry takes: shapes of ints and dims, dtypes, ranges; and which names may be symbols."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import Any, cast

import numpy as np

from lumigen.dtype import DTYPES, DType, f32
from lumigen.errors import BadArgument, LumigenError
from lumigen.frontend.extents import LARGEST, check_size, declared
from lumigen.frontend.trace import fail
from lumigen.index import Dim, Ix, Symbolic, is_less, ix
from lumigen.names import taken_by
from lumigen.view import Shape

LONGEST = 100  # characters of a name: those of files are a little longer, and may have 143 or 255
IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Spec:
    """What an entry takes as one input; `range` and `most`, of dims, bound integer values, inclusive."""

    shape: Shape
    dtype: DType
    range: tuple[int, int] | None = None
    most: Ix | None = None

    def dims(self) -> tuple[Dim, ...]:
        return _dims(self.shape)

    def solvable_dims(self) -> set[Dim]:
        """Those that follow from an extent: it is a multiple of one alone, and a constant."""
        alone = (e.terms[0] for e in self.shape if len(e.terms) == 1)
        return {a[0] for a, scale in alone if len(a) == 1 and isinstance(a[0], Dim) and scale > 0}

    def dims_of_most(self) -> tuple[Dim, ...]:
        return _dims(() if self.most is None else (self.most,))


def _dims(expressions: Iterable[Ix]) -> tuple[Dim, ...]:
    return tuple(dict.fromkeys(a for e in expressions for a in e.atoms() if isinstance(a, Dim)))


def spec(*extents: Any, dtype: DType = f32, range: tuple[int, Any] | None = None) -> Spec:
    """An input of these extents: ints of at least 1, dims, or expressions of dims.

    Each dim of an entry has to follow from an extent of some input: from itself, or such as `2 * h + 1`.

    `range` bounds the values of integers, both ends included; host pointers are checked before a
    run. Without it an index may name no element: there 0 is read, and nothing is written. Its greatest
    may follow from dims of the entry's inputs: a position from which `tokens` fit into a cache is in
    `(0, 512 - tokens)`. BadArgument for anything else.
    """
    if dtype not in DTYPES:
        raise fail(BadArgument, op="spec", name="dtype", value=dtype, expected=f"one of {_names()}")
    for e in extents:
        if isinstance(e, bool) or not isinstance(e, int | Symbolic | Ix):
            expected = _instead(e)
            raise fail(BadArgument, op="spec", name="an extent", value=repr(e), expected=expected)
        if isinstance(e, int) and e >= LARGEST:
            value, expected = "2**62 or more", "sizes that numbers of 64 bits count"
            raise fail(BadArgument, op="spec", name="an extent", value=value, expected=expected)
    out = Spec(tuple(ix(e) for e in extents), dtype, *_checked_range(dtype, range))
    check_size("spec", out.shape)
    for dim in out.dims():
        _check_dim(dim)
    for e in out.shape:
        if not is_less(ix(0), e):
            raise fail(
                BadArgument, op="spec", name="an extent", value=e, expected="extents of at least 1"
            )
    return out


def _instead(extent: object) -> str:
    """What to pass instead of what is no extent."""
    if isinstance(extent, str):
        name = extent if IDENTIFIER.fullmatch(extent) else "batch"
        return f'a dim, with its least and its greatest size: lg.Dim("{name}", 1, 64)'
    if isinstance(extent, tuple | list):
        items = ", ".join(map(str, cast("list[object]", extent)))
        return f"extents one by one: lg.spec({items})"
    return "integers or dims"


def _names() -> str:
    return ", ".join("lg.boolean" if d.is_bool else f"lg.{d}" for d in DTYPES)


def _check_dim(dim: Dim) -> None:
    check_identifier("Dim", dim.name, lambda _: None)  # emitted files may call it otherwise
    typical = dim.hi if dim.typical is None else dim.typical
    if not 1 <= dim.lo <= typical <= dim.hi or dim.multiple_of < 1:
        expected = "1 <= min <= typical <= max and multiple_of >= 1"
        raise fail(BadArgument, op="Dim", name=dim.name, value=declared(dim), expected=expected)
    if dim.hi >= LARGEST:
        expected = "a max below 2**62, so that sizes are numbers of 64 bits"
        raise fail(BadArgument, op="Dim", name=dim.name, value=declared(dim), expected=expected)
    if dim.hi // dim.multiple_of * dim.multiple_of < dim.lo:
        expected = f"a range that holds a multiple of {dim.multiple_of}"
        raise fail(BadArgument, op="Dim", name=dim.name, value=declared(dim), expected=expected)
    if dim.typical is not None and dim.typical % dim.multiple_of:
        expected = f"a multiple of {dim.multiple_of} as typical"
        raise fail(BadArgument, op="Dim", name=dim.name, value=declared(dim), expected=expected)


def _checked_range(dtype: DType, given: object) -> tuple[tuple[int, int] | None, Ix | None]:
    """The range at any dims, and its greatest value where dims decide it."""
    if given is None:
        return None, None

    def wrong(expected: str) -> LumigenError:
        return fail(BadArgument, op="spec", name="range", value=given, expected=expected)

    ends: list[object] = list(given) if isinstance(given, tuple | list) else []  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    most = ix(last) if ends and isinstance(last := ends[-1], Symbolic | Ix) else None
    if most is not None:
        ends[-1] = most.bounds()[1]
    numbers = tuple(int(e) for e in ends if not isinstance(e, bool) and isinstance(e, Integral))
    if not dtype.is_int or len(ends) != 2 or len(numbers) != 2 or numbers[0] > numbers[1]:
        raise wrong("(least, greatest), integers, both inclusive, for an integer dtype")
    if most is not None and not is_less(ix(numbers[0] - 1), most):
        raise wrong(f"a greatest value of at least {numbers[0]} at all dims")
    limits = np.iinfo(dtype.numpy)
    if numbers[0] < limits.min or numbers[1] > limits.max:
        raise wrong(f"numbers of {dtype}, {limits.min} to {limits.max}")
    return (numbers[0], numbers[1]), most


def check_identifier(op: str, name: str, taken_by: Callable[[str], str | None] = taken_by) -> None:
    """Names become symbols of C and C++, and names in Python."""
    if not IDENTIFIER.fullmatch(name) or len(name) > LONGEST:
        length = "" if len(name) <= LONGEST else f" of {len(name)} characters"
        raise fail(
            BadArgument,
            op=op,
            name="the name",
            value=f"{name[:LONGEST]!r}{length}",
            expected=f"a C identifier: letters, digits and _, a letter first, {LONGEST} at most",
        )
    user = taken_by(name)
    if user is not None:
        raise taken(op, "the name", name, user)


def taken(op: str, what: str, name: str, user: str) -> Exception:
    """The error for a name that is another's already."""
    value = f"{name!r}, which belongs to {user}"
    return fail(BadArgument, op=op, name=what, value=value, expected="another name")
