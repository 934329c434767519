"""Movement, indexing and joining against PyTorch; what is filled, dropped or joined never leaks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as torch_functional
from through_graph import as_torch, check, interpret

import lumigen as lg
from lumigen import functional
from lumigen.frontend.model import Entry, trace_entry
from lumigen.ops import Op

X = np.random.default_rng(1).standard_normal((2, 3, 4, 5)).astype(np.float32)

SAME_NAME: list[tuple[str, Callable[[Any], Any]]] = [
    ("reshape", lambda x: x.reshape(6, 20)),
    ("reshape -1", lambda x: x.reshape(2, -1, 5)),
    ("reshape tuple", lambda x: x.reshape((4, 30))),
    ("reshape 1s", lambda x: x.reshape(1, 2, 1, 3, 20, 1)),
    ("view", lambda x: x.view(-1)),
    ("nothing flattened", lambda x: x[:, 1:1].flatten(1)),
    ("a sum over nothing", lambda x: x[:, 1:1].sum(1)),
    ("a softmax of nothing", lambda x: x[..., 2:2].softmax(-1).sum(-1)),
    ("all of nothing", lambda x: (x[..., 2:2] > 0).all(-1)),
    ("any of nothing", lambda x: (x[..., 2:2] > 0).any(-1)),
    ("log-sum-exp of nothing", lambda x: x[..., 2:2].logsumexp(-1)),
    ("a product over nothing", lambda x: x[..., 2:2] @ x[..., 2:2].mT),
    ("repeat no times", lambda x: x.repeat(0, 1, 1, 2)),
    ("permute", lambda x: x.permute(3, 1, 0, 2)),
    ("movedim", lambda x: x.movedim((0, -1), (1, 0))),
    ("movedim 0-d", lambda x: x.sum().movedim(0, -1)),
    ("permute negative", lambda x: x.permute(-1, 0, -3, 2)),
    ("transpose", lambda x: x.transpose(1, -1)),
    ("mT", lambda x: x.mT),
    ("T", lambda x: x[0, 0].T),
    ("transpose reshape", lambda x: x.transpose(1, 2).reshape(2, 4, 15)),
    (
        "reshape permute reshape",
        lambda x: x.reshape(2, 3, 2, 2, 5).permute(0, 2, 1, 4, 3).flatten(2),
    ),
    ("unsqueeze", lambda x: x.unsqueeze(0).unsqueeze(-1)),
    ("squeeze", lambda x: x[:, :1].squeeze()),
    ("squeeze dim", lambda x: x[:1, :1].squeeze(1)),
    ("squeeze no-op", lambda x: x.squeeze(1)),
    ("expand", lambda x: x[:, :1].expand(2, 6, -1, 5)),
    ("expand new", lambda x: x[0, 0, 0].expand(3, 5)),
    ("flatten", lambda x: x.flatten()),
    ("flatten middle", lambda x: x.flatten(1, 2)),
    ("unflatten", lambda x: x.unflatten(2, (2, -1))),
    ("flip", lambda x: x.flip(1, -1)),
    ("flip flip", lambda x: x.flip(1).flip(1)),
    ("roll", lambda x: x.roll(2, -1)),
    ("unfold", lambda x: x.unfold(3, 2, 1)),
    ("unfold step", lambda x: x.unfold(-1, 3, 2).unfold(2, 2, 2)),
    ("narrow", lambda x: x.narrow(2, 1, 2)),
    ("split", lambda x: x.split(2, -1)),
    ("split sizes", lambda x: x.split([1, 3, 1], 3)),
    ("chunk", lambda x: x.chunk(2, 3)),
    ("unbind", lambda x: x.unbind(1)),
    ("split of nothing", lambda x: x[:0].split(2)),
    ("parts of nothing", lambda x: [*x[:0].unbind(), *x[:0].chunk(2)]),
    ("repeat_interleave", lambda x: x.repeat_interleave(3, 1)),
    ("repeat", lambda x: x.repeat(2, 1, 1, 2, 3)),
    ("int", lambda x: x[1]),
    ("negative int", lambda x: x[:, -1]),
    ("slices", lambda x: x[:, 1:, ::2, 1:-1]),
    ("clipped", lambda x: x[:, 1:100, -100:2]),
    ("None", lambda x: x[:, None, 0, ..., None]),
    ("ellipsis", lambda x: x[..., 2]),
    ("all", lambda x: x[...]),
    ("steps", lambda x: x[:, :, 1::2, ::3]),
    (
        "slices of slices",
        lambda x: x[:, 1:][:, ::-1] if not torch.is_tensor(x) else x[:, 1:].flip(1),
    ),
    ("contiguous", lambda x: x.transpose(0, 1).contiguous().reshape(6, 20)),
    ("arithmetic after", lambda x: x.transpose(2, 3)[:, 1:] * x.flip(3).mT[:, :2]),
]


@pytest.mark.parametrize(("name", "f"), SAME_NAME, ids=[n for n, _ in SAME_NAME])
def test_movement(name: str, f: Callable[[Any], Any]) -> None:
    got, expected = interpret(f, X), f(as_torch(X))
    if isinstance(expected, tuple | list):
        assert len(got) == len(expected)
        for g, e in zip(got, expected, strict=True):
            check(g, e)
    else:
        check(got, expected)


def test_negative_steps() -> None:
    x = np.arange(12, dtype=np.int64).reshape(3, 4)
    np.testing.assert_array_equal(interpret(lambda t: t[::-1, ::-2], x), x[::-1, ::-2])
    np.testing.assert_array_equal(interpret(lambda t: t[1::-1, 3:0:-1], x), x[1::-1, 3:0:-1])


def test_iteration_and_length() -> None:
    assert interpret(lambda t: sum(row.sum() for row in t) + len(t), X[0, 0]) == pytest.approx(
        float(X[0, 0].sum()) + 4, rel=1e-6
    )


PADS = [((1, 2), 0.0), ((1, 2, 3, 0), 1.5), ((0, 0, 2, 1), -math.inf), ((-1, 2, 1, -2), 7.0)]


@pytest.mark.parametrize(("widths", "value"), PADS)
def test_pad(widths: tuple[int, ...], value: float) -> None:
    def f(module: Any) -> Callable[[Any], Any]:
        return lambda x: module.pad(x, widths, value=value)

    check(interpret(f(functional), X), f(torch_functional)(as_torch(X)))


def test_pads_with_different_fills_are_materialised_between() -> None:
    def f(pad: Any, x: Any) -> Any:
        return pad(pad(x, (1, 1), value=2.0), (1, 0, 2, 0), value=3.0)

    check(interpret(lambda x: f(functional.pad, x), X), f(torch_functional.pad, as_torch(X)))
    graph = trace_entry(Entry("e", lambda x: f(functional.pad, x), (("x", lg.spec(*X.shape)),)))
    assert [n.op for n in graph.nodes()].count(Op.CONTIGUOUS) == 1


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_cat_and_stack(dim: int) -> None:
    parts = [X[:, :, 0], X[:, :, 1].copy(), X[:, :, 2].copy()]
    check(
        interpret(lambda *t: lg.cat(t, dim), *parts), torch.cat([as_torch(p) for p in parts], dim)
    )
    expected = torch.stack([as_torch(p) for p in parts], dim)
    check(interpret(lambda *t: lg.stack(t, dim), *parts), expected)


def test_cat_is_exact() -> None:
    a = np.array([math.nan, math.inf, -0.0, -math.inf], np.float32)
    b = np.array([-0.0, 1e-45], np.float32)
    got = interpret(lambda x, y: lg.cat([x, y, x]), a, b)
    assert got.tobytes() == np.concatenate([a, b, a]).tobytes()
    c, d = np.array([True, False]), np.array([False, True, True])
    np.testing.assert_array_equal(interpret(lambda x, y: lg.cat([x, y]), c, d), [1, 0, 0, 1, 1])
    i, f = np.array([1, -2], np.int32), np.array([0.5], np.float32)
    check(interpret(lambda x, y: lg.cat([x, y]), i, f), torch.cat([as_torch(i), as_torch(f)]))


IDS = np.array([[2, 0, 1], [1, 1, 0]], np.int64)


def test_embedding() -> None:
    table = X.reshape(30, 4)[:3].copy()
    table[1, 2] = math.nan  # reaches those rows only that ask for it
    expected = torch_functional.embedding(as_torch(IDS), as_torch(table))
    check(interpret(functional.embedding, IDS, table), expected)
    check(interpret(functional.embedding, IDS, table, brute=True), expected)
    small = IDS.astype(np.int32)
    check(interpret(functional.embedding, small, table), expected)


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_index_select(dim: int) -> None:
    index = np.array([1, 0, 1, 1], np.int64)
    check(
        interpret(lambda x, i: x.index_select(dim, i), X, index),
        as_torch(X).index_select(dim, as_torch(index)),
    )


def test_tensor_as_index() -> None:
    index = np.array([[1, -1], [0, -2]], np.int64)
    check(interpret(lambda x, i: x[:, i, 1:], X, index), as_torch(X)[:, as_torch(index), 1:])
    flags = X > 0
    check(interpret(lambda x, i: x[i], flags, index), as_torch(flags)[as_torch(index)])


def test_gather() -> None:
    index = np.array([[[2, 0], [1, 1]]], np.int64)
    x = X[..., 0]
    for dim in (1, 2, -1):
        f = lambda t, i, dim=dim: t.gather(dim, i)  # noqa: E731
        check(interpret(f, x, index), f(as_torch(x), as_torch(index)))


def test_take_along_dim() -> None:
    index = X.argsort(-1)[:, :1, :, :3]
    check(
        interpret(lambda x, i: x.take_along_dim(i, -1), X, index),
        torch.take_along_dim(as_torch(X), as_torch(index), -1),
    )


def test_out_of_range_contributes_nothing() -> None:
    ids = np.array([0, 7, -1], np.int64)
    got = interpret(functional.embedding, ids, np.ones((3, 2), np.float32))
    np.testing.assert_array_equal(got, [[1, 1], [0, 0], [0, 0]])


def test_one_hot() -> None:
    expected = torch_functional.one_hot(as_torch(IDS), 4)
    check(interpret(lambda i: functional.one_hot(i, 4), IDS), expected)


CREATED: list[tuple[str, Callable[[Any], Any]]] = [
    ("arange", lambda m: m.arange(7)),
    ("arange step", lambda m: m.arange(2, 11, 3)),
    ("arange down", lambda m: m.arange(9, 1, -2)),
    ("eye", lambda m: m.eye(3)),
    ("zeros", lambda m: m.zeros(2, 3)),
    ("ones", lambda m: m.ones(4)),
    ("full", lambda m: m.full((2, 2), 1.5)),
    ("tril", lambda m: m.tril(m.ones(4, 5), 1)),
    ("triu", lambda m: m.triu(m.ones(4, 5), -1)),
    ("vander", lambda m: m.vander(m.arange(4).float())),
    ("vander of integers", lambda m: m.vander(m.arange(9)[4:].int())),
    ("vander of few powers", lambda m: m.vander(m.arange(4).float(), 3, increasing=True)),
    ("linalg.vander", lambda m: m.linalg.vander(m.arange(4).float(), N=3)),
]


@pytest.mark.parametrize(("name", "f"), CREATED, ids=[n for n, _ in CREATED])
def test_creation(name: str, f: Callable[[Any], Any]) -> None:
    check(interpret(lambda _: f(lg), np.zeros(1, np.float32)), f(torch))


def test_symbolic_shapes() -> None:
    b, s = lg.Dim("b", 1, 8), lg.Dim("s", 2, 9)
    x = X[:, :, :, :4].reshape(2, 3, 16).copy()

    def f(t: Any) -> Any:
        heads = t.reshape(t.shape[0], t.shape[1], 4, -1).transpose(1, 2)
        merged = (heads + 1).transpose(1, 2).reshape(t.shape[0], -1, 16)
        return lg.cat([merged, t[:, :2], t[:, 1:]], 1)[:, ::2].flatten(0, 1)

    def g(t: torch.Tensor) -> torch.Tensor:
        return torch.cat([t + 1, t[:, :2], t[:, 1:]], 1)[:, ::2].flatten(0, 1)

    check(interpret(f, x, specs={"x0": lg.spec(b, s, 16)}), g(as_torch(x)))


def test_a_symbolic_slice_is_clipped() -> None:
    n = lg.Dim("n", 1, 8)
    for size in (2, 5):
        x = np.arange(size, dtype=np.float32)
        got = interpret(lambda t: t[:3] * 2, x, specs={"x0": lg.spec(n)})
        np.testing.assert_array_equal(got, x[:3] * 2)


@pytest.mark.parametrize("size", [1, 4, 7, 9])
@pytest.mark.parametrize("shift", [0, 1, -1, 4, 100, -100])
def test_what_is_rolled_may_be_of_any_extent(size: int, shift: int) -> None:
    x = np.arange(size * 3, dtype=np.float32).reshape(size, 3)

    def f(t: Any) -> Any:
        parts = [t[1:].roll(shift, 0), t[:-3].roll(shift, 0)]
        return [t.roll(shift, 0), t.roll(shift), t.roll((shift, -2), (0, 1)), *parts]

    declared = {"x0": lg.spec(lg.Dim("n", 1, 9), 3)}
    for got, expected in zip(interpret(f, x, specs=declared), f(as_torch(x)), strict=True):
        check(got, expected)


COUNTED: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("repeat", lambda lib, x: x.repeat(x.shape[1], 2, 1)),
    ("repeat a row", lambda lib, x: x[:1].repeat(x.shape[0], x.shape[1])),
    ("tile", lambda lib, x: x.tile((x.shape[0],))),
    ("repeat_interleave", lambda lib, x: x.repeat_interleave(x.shape[1], dim=0)),
    ("linspace", lambda lib, x: x + lib.linspace(-1, 2, x.shape[1])),
    ("linspace to a size", lambda lib, x: lib.linspace(0, x.shape[1], 7)),
    ("linspace of whole numbers", lambda lib, x: lib.linspace(0, 9, x.shape[1]).long()),
    ("logspace", lambda lib, x: lib.logspace(-1, 1, x.shape[1])),
    ("chunk", lambda lib, x: x.chunk(2, 1)),
    ("chunk more", lambda lib, x: x[:, :2].repeat(1, x.shape[0] + 2).chunk(3, 1)),
    ("tensor_split", lambda lib, x: x.tensor_split(3, 0)),
    ("gradient", lambda lib, x: lib.gradient(x, dim=1)),
    ("gradient of order 2", lambda lib, x: lib.gradient(x, spacing=0.5, dim=1, edge_order=2)),
]


@pytest.mark.parametrize(("name", "f"), COUNTED, ids=[n for n, _ in COUNTED])
def test_counts_and_parts_of_dynamic_extents(name: str, f: Callable[[Any, Any], Any]) -> None:
    """The least, odd, coprime, the greatest and equal sizes."""
    declared = {"x0": lg.spec(lg.Dim("b", 1, 8), lg.Dim("s", 3, 9))}
    for sizes in ((1, 3), (5, 7), (7, 9), (8, 9), (4, 4)):
        x = np.random.default_rng(0).standard_normal(sizes).astype(np.float32)
        got, expected = interpret(lambda t: f(lg, t), x, specs=declared), f(torch, as_torch(x))
        if isinstance(expected, torch.Tensor):
            got, expected = [got], [expected]
        for ours, theirs in zip(got, expected, strict=True):
            check(ours, theirs, 1e-5, 1e-5)


def test_movement_makes_no_nodes() -> None:
    graph = trace_entry(
        Entry(
            "e",
            lambda x: x.transpose(0, 1).reshape(-1)[3:].flip(0).unsqueeze(0).expand(4, -1),
            (("x", lg.spec(4, 6)),),
        )
    )
    assert [n.op for n in graph.nodes()] == [Op.INPUT]


def test_extents_that_only_their_corners_prove_are_no_reason_to_refuse():
    rows, columns = lg.Dim("rows", 1, 9), lg.Dim("columns", 1, 9)
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    got = interpret(lambda t: t[:-1].flatten() + 1, x, specs={"x0": lg.spec(rows, columns)})
    check(got, as_torch(x)[:-1].flatten() + 1)
