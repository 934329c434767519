"""State: a tensor that a context keeps from one run to the next, such as a cache of keys.

An entry rebinds it as a function would: `k[:, pos:pos + n] = new` makes a new version, which later lines of the entry
read and the next run starts from. The compiler proves where a version can be written over the one before it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from lumigen import graph
from lumigen.dtype import DTYPES, DType, f32, i64
from lumigen.errors import BadArgument, ShapeMismatch
from lumigen.frontend import compare, indexing, movement, primitive
from lumigen.frontend.primitive import Edge, add, expand, less, size
from lumigen.frontend.reduction import emit_iota
from lumigen.frontend.tensor import Tensor, raw
from lumigen.frontend.trace import current, emit, fail
from lumigen.graph import Node
from lumigen.index import Ix, Symbolic, is_less, is_nonnegative, ix
from lumigen.ops import Op
from lumigen.view import Shape

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z0-9_]+)*")


class State(Tensor):
    """A tensor of fixed shape that each context keeps between runs; it is zero at first.

    `name` is that in a saved state: words of letters, digits and _, with dots between them. Used in an entry it is
    the newest version; `state[...] = x` makes one. Keys are integers, slices without steps, and tensors of one
    integer: `state[:, pos]`, `state[:, pos:pos + x.shape[1]]`. Such positions count from 0, and what would lie
    outside is left out. All entries of a model share its states, which differ by name: two that one entry uses
    have two names.

    A state keeps the dtype that it is declared with: `--dtype bf16` leaves it in f32. `State("keys", shape, lg.bf16)`
    takes half the bytes; what is assigned to it is rounded, and products with f32 read `keys.float()`.
    """

    __slots__ = ("_dtype", "_extents", "name")

    def __init__(self, name: str, shape: Sequence[int], dtype: DType = f32) -> None:
        def refuse(what: str, value: object, expected: str) -> Exception:
            return fail(BadArgument, op="State", name=what, value=value, expected=expected)

        if not isinstance(name, str) or not NAME.fullmatch(name):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise refuse("the name", repr(name), "words of letters, digits and _, dots between")
        extents = cast("tuple[object, ...]", tuple(shape))
        if not all(isinstance(e, int) and not isinstance(e, bool) and e > 0 for e in extents):
            raise refuse("the shape", extents, "positive integers")
        if dtype not in DTYPES:
            raise refuse("dtype", dtype, f"one of {', '.join(map(str, DTYPES))}")
        self.name = name
        self._extents: Shape = tuple(ix(e) for e in shape)
        self._dtype = dtype

    @property
    def edge(self) -> Edge:
        """The newest version in the entry that is traced; BadArgument outside one."""
        scope = current()
        if scope is None:
            raise fail(
                BadArgument,
                op="State",
                name=self.name,
                value="used where nothing is traced",
                expected="it in the function of an entry",
            )
        if scope.states.setdefault(self.name, self) is not self:
            raise fail(
                BadArgument,
                op="State",
                name="the name",
                value=f"{self.name!r}, which another state has that the entry uses",
                expected="a name of its own, such as one with the number of its layer",
            )
        first = emit(graph.source(Op.STATE, self.name, self._extents, self._dtype))
        return scope.versions.setdefault(first.node, [first])[-1]

    @property
    def extents(self) -> Shape:
        """The shape as index expressions."""
        return self._extents

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._dtype

    def __setitem__(self, key: Any, value: Any) -> None:
        """Make a version in which `value`, broadcast and cast, stands at `key`."""
        keys = cast("tuple[Any, ...]", key if isinstance(key, tuple) else (key,))
        old = self.edge
        source = raw(value)
        given = primitive.tensor(source, self.dtype)
        windows = _windows(self, [k.edge if isinstance(k, Tensor) else k for k in keys], given)
        new = _written(old, windows, primitive.cast(given, self.dtype))
        scope = current()
        assert scope is not None
        scope.versions[_source(self)].append(new)

    def __repr__(self) -> str:
        return f"State({self.name!r}, {self.dtype}[{', '.join(map(str, self.extents))}])"


def _source(state: State) -> Node:
    return graph.source(Op.STATE, state.name, state.extents, state.dtype)


@dataclass(frozen=True)
class _Window:
    """Of one axis: `length` positions from `start` on, an extent or a tensor of one integer.

    `is_kept`: whether the value has the axis.
    """

    start: Ix | Edge
    length: Ix
    is_kept: bool


def _windows(state: State, keys: list[Any], value: Edge) -> list[_Window]:
    """The window of each axis that the keys name, checked against the value."""
    rank = len(state.extents)
    gaps = [i for i, k in enumerate(keys) if k is Ellipsis]
    if len(keys) - len(gaps) > rank or len(gaps) > 1:
        raise _bad(f"{len(keys)} keys", f"at most {rank} keys, one for each axis, and one ...")
    at = gaps[0] if gaps else len(keys)
    missing = [slice(None)] * (rank - len(keys) + len(gaps))
    keys = [*keys[:at], *missing, *keys[at + len(gaps) :]]
    kept = sum(isinstance(k, slice) for k in keys)
    if len(value.shape) > kept:
        what = f"a value of {len(value.shape)} axes for {kept} that the keys leave"
        raise _bad(what, "a value that broadcasts to what the keys name")
    axis = len(value.shape) - kept  # of the value; below 0: it is broadcast there
    out: list[_Window] = []
    for key, extent in zip(keys, state.extents, strict=True):
        is_kept = isinstance(key, slice)
        has = value.shape[axis] if is_kept and axis >= 0 else None
        out.append(_window(key, extent, has))
        axis += is_kept
    return out


def _window(key: Any, extent: Ix, has: Ix | None) -> _Window:
    """`has`: how long the value is along the axis; None where it has no such axis."""
    if not isinstance(key, slice):
        return _Window(_position(key, extent), ix(1), is_kept=False)
    key = cast("slice[Any, Any, Any]", key)
    if key.step not in (None, 1):
        raise _bad(f"a slice with the step {key.step}", "slices without a step")
    if isinstance(key.start, Tensor):
        return _Window(_scalar(key.start.edge), _moving_length(key, has), is_kept=True)
    start, stop = (
        default if bound is None else _bound(bound, extent)
        for bound, default in ((key.start, ix(0)), (key.stop, extent))
    )
    if not is_nonnegative(start) or not is_nonnegative(extent - stop) or is_less(stop, start):
        raise _bad(f"the slice {start}:{stop} of an axis of {extent}", "a slice inside the axis")
    return _Window(start, stop - start, is_kept=True)


def _moving_length(key: slice[Any, Any, Any], has: Ix | None) -> Ix:
    """How many positions `pos:pos + n` names: as many as the value has, which n must be."""
    if has is None:
        raise _bad("a value without that axis", "as many elements as `pos:pos + n` names")
    stop = key.start + (has.const if has.is_const else has)
    if not isinstance(key.stop, Tensor) or key.stop.edge != stop.edge:
        what = f"a slice from a tensor on, for a value of {has} there"
        raise _bad(what, "`pos:pos + n`, where n is the value's extent, such as x.shape[1]")
    return has


def _position(key: Any, extent: Ix) -> Ix | Edge:
    if isinstance(key, Edge):
        return _scalar(key)
    if isinstance(key, bool) or not isinstance(key, int | Symbolic | Ix):
        raise _bad(f"the key {key!r}", "integers, slices, ... or tensors of one integer")
    at = _bound(key, extent)
    if not is_nonnegative(at) or not is_less(at, extent):
        raise _bad(f"position {key} of an axis of {extent}", "a position inside the axis")
    return at


def _bound(given: Any, extent: Ix) -> Ix:
    if isinstance(given, bool) or not isinstance(given, int | Symbolic | Ix):
        raise _bad(f"the bound {given!r}", "integers, extents or, as `pos:pos + n`, tensors")
    at = ix(given)
    return at + extent if is_less(at, ix(0)) else at


def _scalar(position: Edge) -> Edge:
    if position.shape or not position.dtype.is_int:
        shown = ", ".join(map(str, position.shape))
        raise _bad(
            f"a position of {position.dtype}[{shown}]", "tensors of one integer, without axes"
        )
    return primitive.cast(position, i64)


def _bad(value: str, expected: str) -> Exception:
    return fail(BadArgument, op="State", name="an assignment", value=value, expected=expected)


def _written(old: Edge, windows: list[_Window], value: Edge) -> Edge:
    """where(every position is in its window, the value moved there, old)."""
    shape = tuple(w.length for w in windows if w.is_kept)
    try:
        value = expand("State", value, shape)
    except ShapeMismatch:
        what = f"a value of shape {_text(value.shape)} for {_text(shape)}"
        raise _bad(what, "a value that broadcasts to what the keys name") from None
    value = movement.with_ones(value, tuple(d for d, w in enumerate(windows) if not w.is_kept))
    inside: Edge | None = None
    rank = len(windows)
    for d, (window, extent) in enumerate(zip(windows, old.shape, strict=True)):
        if isinstance(window.start, Ix) and window.length is extent:
            continue
        counting = emit_iota(extent)
        start = size(window.start) if isinstance(window.start, Ix) else window.start
        ahead = add(counting, primitive.mul(start, -1))
        here = primitive.both(compare.ge(ahead, 0), less(ahead, size(window.length)))
        here = movement.with_ones(here, tuple(k for k in range(rank) if k != d))
        here = expand("State", here, old.shape)
        inside = here if inside is None else primitive.both(inside, here)
        value = indexing.index_select_nd(value, d, ahead)
    value = expand("State", value, old.shape)
    return value if inside is None else compare.where(inside, value, old)


def _text(shape: Shape) -> str:
    return f"({', '.join(map(str, shape))})"
