"""Views against numpy: each movement, and random compositions of them."""

from __future__ import annotations

import itertools
from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lumigen.nn import functional as F
from tiles import traced

import lumigen as lg
from lumigen import nn
from lumigen.condition import less
from lumigen.graph import shape
from lumigen.index import Axis, Dim, ix
from lumigen.interp.read import seen
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import assemble
from lumigen.region import indices_of, walk
from lumigen.targets.cpu.device import CPU
from lumigen.view import (
    View,
    compose,
    expand,
    flip,
    identity,
    pad,
    permute,
    reshape,
    slice_view,
    windows,
)

B = Dim("b", 1, 8)


def numbers(*extents: int) -> np.ndarray:
    return np.arange(1, np.prod(extents, dtype=int) + 1).reshape(extents)


def shown(array: np.ndarray, view: View, dims: dict[Dim, int] | None = None) -> np.ndarray:
    """What a view shows, computed element by element in Python."""
    env: dict[Any, int] = dict(dims or {})
    sizes = [int(e.evaluate(env)) for e in view.shape]
    out = np.empty(sizes, array.dtype)
    for place in itertools.product(*map(range, sizes)):
        at = {Axis(f"i{i}", e): p for i, (e, p) in enumerate(zip(view.shape, place, strict=True))}
        inside = all(c.slack.evaluate({**env, **at}) >= 0 for c in view.valid)
        index = tuple(int(e.evaluate({**env, **at})) for e in view.index)
        assert not inside or all(0 <= i < n for i, n in zip(index, array.shape, strict=True))
        out[place] = array[index] if inside else view.fill
    return out


def check(array: np.ndarray, view: View, wanted: np.ndarray, dims: dict | None = None) -> None:
    np.testing.assert_array_equal(shown(array, view, dims), wanted)
    np.testing.assert_array_equal(seen(array, view, dims or {}), wanted)


def test_permute() -> None:
    x = numbers(2, 3, 4)
    check(x, permute(shape(2, 3, 4), (2, 0, 1)), x.transpose(2, 0, 1))


def test_expand() -> None:
    x = numbers(3, 1)
    check(x, expand(shape(3, 1), shape(2, 3, 4)), np.broadcast_to(x, (2, 3, 4)))
    check(numbers(), expand((), shape(2, 3)), np.ones((2, 3)))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((2, 3, 4), (6, 4)),
        ((2, 3, 4), (24,)),
        ((24,), (2, 3, 4)),
        ((4, 6), (8, 3)),
        ((2, 6), (3, 4)),
        ((1, 6, 1), (2, 1, 3)),
        ((1,), ()),
    ],
)
def test_reshape(before: tuple[int, ...], after: tuple[int, ...]) -> None:
    x = numbers(*before)
    check(x, reshape(shape(*before), shape(*after)), x.reshape(after))


def test_reshape_changes_only_what_differs() -> None:
    """A quotient of one dim says nothing of the others, which may have any extents."""
    other, rows = shape(3, ix(B) + 1), shape(ix(B) * 2 + 2)
    view = reshape((*other, *rows, *other), (*other, *shape(ix(B) + 1, 2), *other))
    assert [str(i) for i in view.index] == ["i0", "i1", "2*i2 + i3", "i4", "i5"]
    back = reshape((*other, *shape(ix(B) + 1, 2), *other), (*other, *rows, *other))
    assert [str(i) for i in back.index] == ["i0", "i1", "((i2)//2)", "((i2)%2)", "i3", "i4"]


def enlarged(x: lg.Tensor) -> lg.Tensor:
    w, v = nn.Parameter(16, 8, 4, 4, name="w"), nn.Parameter(16, 3, 3, 3, name="v")
    small = F.max_pool2d(F.conv2d(x, v, stride=2, padding=1), 2)
    wide = F.conv_transpose2d(small, w, stride=2, padding=1)
    return F.interpolate(wide, scale_factor=2, mode="bilinear")


def test_indices_stay_short_where_reshapes_follow_one_another() -> None:
    """What no quotient undoes multiplies: they had 4,584 characters, and took 44 s instead of one."""
    height, width = lg.Dim("height", 16, 512), lg.Dim("width", 16, 512)
    graph = traced(enlarged, None, x=lg.spec(lg.Dim("batch", 1, 8), 3, height, width))
    kernels = assemble(
        (("entry", reduce(lambda g, step: step(g), GRAPH_PASSES, graph)),), CPU
    ).kernels
    values = (e for k in kernels for s in k.region.stores for e in walk([s.value]))
    assert max(len(str(i)) for e in values for i in indices_of(e)) < 200


def test_slice() -> None:
    x = numbers(5, 6)
    view = slice_view(shape(5, 6), (1, 5), shape(3, 3), (1, -2))
    check(x, view, x[1:4, 5::-2])


def test_pad() -> None:
    x = numbers(2, 3)
    view = pad(shape(2, 3), (1, 0), (0, 2), -7)
    check(x, view, np.pad(x, ((1, 0), (0, 2)), constant_values=-7))
    assert [str(c) for c in view.valid] == ["2 - i1 >= 0", "i0 - 1 >= 0"]


def test_flip() -> None:
    x = numbers(2, 3)
    check(x, flip(shape(2, 3), (1,)), x[:, ::-1])


@pytest.mark.parametrize(("size", "step", "dilation"), [(3, 1, 1), (2, 2, 1), (3, 2, 2), (8, 1, 1)])
def test_windows(size: int, step: int, dilation: int) -> None:
    x = numbers(2, 8)
    span = dilation * (size - 1) + 1
    wanted = np.lib.stride_tricks.sliding_window_view(x, span, 1)[:, ::step, ::dilation]
    check(x, windows(shape(2, 8), 1, size, step, dilation), wanted)


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_symbolic_shapes(batch: int) -> None:
    x = numbers(batch, 12)
    check(x, reshape(shape(B, 12), shape(ix(B) * 4, 3)), x.reshape(batch * 4, 3), {B: batch})
    back = compose(
        reshape(shape(ix(B) * 4, 3), shape(B, 12)), reshape(shape(B, 12), shape(ix(B) * 4, 3))
    )
    assert back == identity(shape(B, 12))
    padded = pad(shape(B, 12), (B, 0), (1, 0), 0)
    check(x, padded, np.pad(x, ((batch, 1), (0, 0))), {B: batch})
    check(x, flip(shape(B, 12), (0,)), x[::-1], {B: batch})


class Chain:
    """A view grown by movements, beside what numpy makes of the same movements."""

    def __init__(self, extents: list[int], draw: Any) -> None:
        self.draw = draw
        self.source = numbers(*extents)
        self.array = self.source
        self.view = identity(shape(*extents))

    def move(self, view: View, array: np.ndarray) -> None:
        whole = compose(view, self.view)
        assert whole is not None
        self.view, self.array = whole, array

    def pick(self, lo: int, hi: int) -> int:
        return self.draw(st.integers(lo, hi))

    def grow(self) -> None:
        extents, rank = self.array.shape, self.array.ndim
        now = shape(*extents)
        kind = self.draw(st.sampled_from(["permute", "reshape", "slice", "pad", "flip", "expand"]))
        if kind == "permute":
            order = tuple(self.draw(st.permutations(range(rank))))
            self.move(permute(now, order), self.array.transpose(order))
        elif kind == "reshape":
            to = self.factors(self.array.size)
            self.move(reshape(now, shape(*to)), self.array.reshape(to))
        elif kind == "slice":
            starts = [self.pick(0, n - 1) for n in extents]
            sizes = [self.pick(1, n - s) for n, s in zip(extents, starts, strict=True)]
            cut = tuple(slice(s, s + n) for s, n in zip(starts, sizes, strict=True))
            view = slice_view(now, tuple(starts), shape(*sizes), (1,) * rank)
            self.move(view, self.array[cut])
        elif kind == "pad" and self.array.size < 200:
            before = tuple(self.pick(0, 2) for _ in extents)
            after = tuple(self.pick(0, 2) for _ in extents)
            wanted = np.pad(self.array, list(zip(before, after, strict=True)))
            self.move(pad(now, before, after, 0), wanted)
        elif kind == "flip":
            dims = tuple(d for d in range(rank) if self.draw(st.booleans()))
            self.move(flip(now, dims), np.flip(self.array, dims))
        elif kind == "expand" and self.array.size < 200:
            to = (self.pick(1, 3), *extents)
            self.move(expand(now, shape(*to)), np.broadcast_to(self.array, to))

    def factors(self, size: int) -> tuple[int, ...]:
        out: list[int] = []
        while size > 1 and len(out) < 4:
            out.append(self.draw(st.sampled_from([f for f in range(1, size + 1) if size % f == 0])))
            size //= out[-1]
        return (*out, size)


@settings(max_examples=200)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(1, 4), st.data())
def test_compositions(extents: list[int], moves: int, data: st.DataObject) -> None:
    chain = Chain(extents, data.draw)
    for _ in range(moves):
        chain.grow()
    check(chain.source, chain.view, chain.array)


def test_compose_refuses_two_fills() -> None:
    once = pad(shape(3), (1,), (0,), 0.0)
    assert compose(pad(shape(4), (1,), (0,), 1.0), once) is None
    assert compose(pad(shape(4), (1,), (0,), -0.0), once) is None
    assert compose(pad(shape(4), (1,), (0,), 0), once) is not None
    inside = slice_view(shape(4), (1,), shape(3), (1,))  # shows nothing of the first fill
    cut = compose(inside, once)
    assert cut == identity(shape(3))
    assert compose(pad(shape(3), (1,), (0,), 1.0), cut) == pad(shape(3), (1,), (0,), 1.0)


def test_fill_is_part_of_a_view() -> None:
    def padded(fill: float) -> View:
        return pad(shape(3), (1,), (0,), fill)

    assert padded(0.0) != padded(-0.0)
    assert padded(float("nan")) == padded(float("nan"))
    assert padded(0) == padded(0.0)
    assert len({padded(0.0), padded(-0.0), padded(1)}) == 3


def test_equal_views_are_written_alike() -> None:
    one = shape(1, 3)
    assert expand(one, one) == identity(one)
    assert permute(one, (0, 1)) == identity(one)
    assert reshape(shape(2, 3), shape(2, 3)) == identity(shape(2, 3))
    assert compose(flip(shape(2, 3), (0,)), flip(shape(2, 3), (0,))) == identity(shape(2, 3))
    turned = compose(permute(shape(3, 2), (1, 0)), permute(shape(2, 3), (1, 0)))
    assert turned == identity(shape(2, 3))


def test_text() -> None:
    assert str(identity(shape(2, B))) == "[i0, i1]"
    assert str(pad(shape(3), (1,), (0,), 0.5)) == "[i0 - 1] if i0 - 1 >= 0 else 0.5"


def test_at_keeps_open_conditions_only() -> None:
    view = pad(shape(3), (1,), (1,), 0)
    a = Axis("a", ix(3))
    assert view.at((ix(a) + 1,)) == ((ix(a),), ())
    assert view.at((ix(a),)) == ((ix(a) - 1,), (less(0, a),))
