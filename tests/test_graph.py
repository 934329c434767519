"""Graphs: nodes that are one object, their text, and the rules that hold of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from lumigen.dtype import boolean, f32, i32, i64
from lumigen.errors import SourceLocation, VerifyFailed
from lumigen.graph import (
    Axes,
    Edge,
    Graph,
    Node,
    binary,
    const,
    contiguous,
    edge,
    iota,
    node,
    rebuild,
    reduce,
    result_dtype,
    shape,
    source,
    toposort,
    unary,
)
from lumigen.index import Dim, ix
from lumigen.ops import Op
from lumigen.printer.graph import show
from lumigen.verify.graph import verify
from lumigen.view import View, compose, expand, pad, permute, reshape, slice_view, windows

B = Dim("batch", 1, 64)
X = source(Op.INPUT, "x", shape(B, 32), f32)
W = source(Op.WEIGHT, "w", shape(32, 8), f32)


def spread(n: Node, to: tuple, *axes: int) -> Edge:
    """A node whose dimensions are those axes of a larger shape."""
    at = permute(to, tuple(range(len(to)))).index
    return Edge(n, View(to, tuple(at[a] for a in axes)))


def matmul() -> Node:
    to = shape(B, 8, 32)
    return reduce(
        Op.SUM_REDUCE, edge(binary(Op.MUL, spread(X, to, 0, 2), spread(W, to, 2, 1))), (2,)
    )


def graph(n: Node | Edge, *inputs: Node, **more: object) -> Graph:
    return Graph(inputs or (X,), (("out", n if isinstance(n, Edge) else edge(n)),), **more)


# --- nodes ----------------------------------------------------------------------------------------


def test_equal_nodes_are_one_object() -> None:
    assert matmul() is matmul()
    assert unary(Op.SIN, edge(X)) is not unary(Op.SQRT, edge(X))


def test_constants_are_told_apart_as_written() -> None:
    assert const(0.0, f32) is not const(-0.0, f32)
    assert const(float("nan"), f32) is const(float("nan"), f32)
    assert const(1, i32) is not const(1, i64)
    assert const(2, f32) is const(2.0, f32)


def test_padding_with_another_zero_is_another_node() -> None:
    plus, minus = (
        unary(Op.SIN, Edge(X, pad(X.shape, (1, 0), (0, 0), fill))) for fill in (0.0, -0.0)
    )
    assert plus is not minus


def test_order_is_operands_first_and_stable() -> None:
    out = matmul()
    order = toposort([out])
    assert [n.op for n in order] == [Op.INPUT, Op.WEIGHT, Op.MUL, Op.SUM_REDUCE]
    assert order == toposort([out])


def test_order_does_not_recurse() -> None:
    n = X
    for _ in range(5000):
        n = binary(Op.ADD, edge(n), edge(X))
    assert len(toposort([n])) == 5001


@pytest.mark.parametrize(
    ("op", "dtypes", "wanted"),
    [
        (Op.ADD, (f32, f32), f32),
        (Op.ADD, (f32, i32), None),
        (Op.ADD, (boolean, boolean), None),
        (Op.MUL, (boolean, f32), f32),
        (Op.MUL, (i32, boolean), i32),
        (Op.MUL, (boolean, boolean), boolean),
        (Op.MUL, (f32, i32), None),
        (Op.LESS_THAN, (boolean, boolean), boolean),
        (Op.LESS_THAN, (i32, i64), None),
        (Op.SIN, (i32,), None),
        (Op.SUM_REDUCE, (boolean,), None),
        (Op.MAX_REDUCE, (boolean,), boolean),
    ],
)
def test_dtype_follows_from_operands(op: Op, dtypes: tuple, wanted: object) -> None:
    if wanted is None:
        with pytest.raises(ValueError, match=op.value):
            result_dtype(op, dtypes)
    else:
        assert result_dtype(op, dtypes) is wanted


def test_rebuild_keeps_what_the_node_is() -> None:
    y = source(Op.INPUT, "y", X.shape, f32)
    for n in (
        unary(Op.SIN, edge(X)),
        binary(Op.ADD, edge(X), edge(X)),
        reduce(Op.MAX_REDUCE, edge(X), (1,)),
        contiguous(edge(X), i32),
    ):
        again = rebuild(n, tuple(edge(y) for _ in n.args))
        assert (again.op, again.attr, again.shape, again.dtype) == (n.op, n.attr, n.shape, n.dtype)
        assert rebuild(again, n.args) is n
        assert rebuild(n, n.args) is n


def test_dims_and_weights_in_order() -> None:
    g = graph(matmul())
    assert g.dims() == (B,)
    assert g.weights() == (W,)


# --- text -----------------------------------------------------------------------------------------


def test_text() -> None:
    ids = source(Op.INPUT, "ids", shape(B), i32, (0, 31))
    state = source(Op.STATE, "seen", shape(32), f32)
    hit = binary(
        Op.LESS_THAN, spread(iota(ix(32), i32), shape(B, 32), 1), spread(ids, shape(B, 32), 0)
    )
    half = binary(Op.MUL, edge(X), Edge(const(0.5, f32), expand((), X.shape)))
    chosen = binary(Op.MUL, edge(hit), edge(half))
    padded = unary(Op.SQRT, Edge(X, pad(X.shape, (0, 1), (0, 0), 0.0)))
    g = Graph(
        (X, ids),
        (("a", edge(chosen)), ("b", Edge(padded, permute(padded.shape, (1, 0))))),
        ((state, edge(reduce(Op.SUM_REDUCE, edge(chosen), (0,)))),),
        {half: (SourceLocation("model.py", 12), SourceLocation("model.py", 15))},
    )
    assert show(verify(g)) == (
        "dim batch in 1..64\n"
        "%0 = input x  f32[batch, 32]\n"
        "%1 = input ids  i32[batch] in 0..31\n"
        "%2 = iota  i32[32]\n"
        "%3 = less_than %2[i1] %1[i0]  bool[batch, 32]\n"
        "%4 = mul %0 0.5  f32[batch, 32]  # model.py:12, model.py:15\n"
        "%5 = mul %3 %4  f32[batch, 32]\n"
        "%6 = sqrt (%0[i0, i1 - 1] if i1 - 1 >= 0 else 0.0)  f32[batch, 33]\n"
        "%7 = sum_reduce i0<batch %5  f32[32]\n"
        "output a = %5  f32[batch, 32]\n"
        "output b = %6[i1, i0]  f32[33, batch]\n"
        "update seen = %7\n"
    )


def test_text_does_not_depend_on_age() -> None:
    late = source(Op.INPUT, "late", shape(4), f32)
    assert show(graph(unary(Op.SIN, edge(late)), late)).startswith("%0 = input late")


# --- rules ----------------------------------------------------------------------------------------


def test_movements_of_symbolic_shapes_verify() -> None:
    whole = reshape(shape(B, 32), shape(ix(B) * 4, 8))
    parts = [
        Edge(X, whole),
        Edge(X, slice_view(X.shape, (0, 3), shape(B, 7), (1, 4))),
        Edge(X, slice_view(X.shape, (ix(B) - 1, 0), shape(B, 32), (-1, 1))),
        Edge(X, slice_view(X.shape, (0, 0), ((ix(B) + 1) // 2, ix(32)), (2, 1))),
        Edge(X, windows(X.shape, 1, 3, 2)),
    ]
    padded = pad(X.shape, (1, 2), (0, 2), 0.0)
    merged = compose(reshape(padded.shape, ((ix(B) + 1) * 36,)), padded)
    split = compose(pad(whole.shape, (1, 1), (1, 1), 0.0), whole)
    image = source(Op.INPUT, "image", shape(B, 3, 9, 9), f32)
    around = pad(image.shape, (0, 0, 1, 1), (0, 0, 1, 1), 0.0)
    rows = compose(windows(around.shape, 2, 3, 2), around)
    assert rows is not None
    both = compose(windows(rows.shape, 3, 3, 2), rows)
    assert both is not None
    for e in [*parts, *(Edge(X, v) for v in (padded, merged, split) if v), Edge(image, both)]:
        verify(graph(contiguous(e), X, image))


def broken(make: Callable[[], Graph]) -> str:
    with pytest.raises(VerifyFailed) as failed:
        verify(make())
    return str(failed.value)


def wrong(
    op: Op, args: tuple, attr: object = None, to: tuple = X.shape, dtype: object = f32
) -> Node:
    return node(op, args, attr, to, dtype)  # type: ignore[arg-type]


WRONG = {
    "takes 2 operands": lambda: graph(wrong(Op.ADD, (edge(X),))),
    "other shapes": lambda: graph(wrong(Op.SIN, (edge(X),), None, shape(B, 31))),
    "one dtype": lambda: graph(
        wrong(Op.ADD, (edge(X), edge(contiguous(edge(X), i32))), None, X.shape)
    ),
    "dtype follows as f32": lambda: graph(wrong(Op.SIN, (edge(X),), None, X.shape, i32)),
    "attribute": lambda: graph(wrong(Op.SIN, (edge(X),), Axes((0,)))),
    "axes are (1, 0)": lambda: graph(wrong(Op.SUM_REDUCE, (edge(X),), Axes((1, 0)), ())),
    "axes are (2,)": lambda: graph(wrong(Op.SUM_REDUCE, (edge(X),), Axes((2,)), X.shape)),
    "less the axes": lambda: graph(wrong(Op.SUM_REDUCE, (edge(X),), Axes((1,)), shape(32))),
    "1 indices for 2": lambda: graph(
        wrong(Op.SIN, (Edge(X, View(X.shape, (ix(0),))),), None, X.shape)
    ),
    "may reach the extent 32": lambda: graph(
        unary(Op.SIN, Edge(X, slice_view(X.shape, (0, 1), shape(B, 32), (1, 1))))
    ),
    "may be negative": lambda: graph(
        unary(Op.SIN, Edge(X, slice_view(X.shape, (0, -1), shape(B, 32), (1, 1))))
    ),
    "reads axes i0": lambda: graph(Edge(X, View(shape(4, 4), permute(X.shape, (0, 1)).index))),
    "no dimensions": lambda: graph(wrong(Op.CONST, (), const(1.0, f32).attr, shape(3))),
    "is no input": lambda: Graph((), (("out", edge(X)),)),
    "the input x stands more": lambda: graph(
        binary(Op.ADD, edge(X), edge(source(Op.INPUT, "x", X.shape, f32, (0, 1)))),
        X,
        source(Op.INPUT, "x", X.shape, f32, (0, 1)),
    ),
    "the output out stands more": lambda: Graph((X,), (("out", edge(X)), ("out", edge(X)))),
    "output has no name": lambda: Graph((X,), (("", edge(X)),)),
    "nothing is computed": lambda: Graph((X,), ()),
    "is no state": lambda: Graph((X,), (), ((W, edge(W)),)),
    "but is set to": lambda: Graph((X,), (), ((source(Op.STATE, "s", shape(3), f32), edge(X)),)),
    "among the inputs": lambda: graph(W, W),
}


@pytest.mark.parametrize("what", WRONG)
def test_verify_names_what_is_wrong(what: str) -> None:
    assert what in broken(WRONG[what])


def test_verify_names_pass_and_line() -> None:
    n = wrong(Op.SIN, (edge(X),), None, shape(B, 31))
    g = replace(graph(n), lines={n: (SourceLocation("model.py", 7),)})
    with pytest.raises(VerifyFailed, match=r"model.py:7: \[fold\] .*sin.*f32\[batch, 31\]"):
        verify(g, "fold")
