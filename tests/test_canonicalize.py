"""canonicalize and fold: small graphs in, printed text out; what does not change comes back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lumigen.dtype import bf16, boolean, f32, f64, i32
from lumigen.errors import SourceLocation
from lumigen.graph import (
    Edge,
    Graph,
    Node,
    binary,
    const,
    contiguous,
    edge,
    reduce,
    shape,
    source,
    unary,
)
from lumigen.index import Dim
from lumigen.interp import evaluate
from lumigen.lower.canonicalize import canonicalize
from lumigen.lower.fold import fold
from lumigen.ops import Op
from lumigen.printer.graph import show
from lumigen.verify.graph import verify
from lumigen.view import Shape, compose, expand, pad, permute, reshape

B = Dim("batch", 1, 64)
X = source(Op.INPUT, "x", shape(B, 4), f32)
K = source(Op.INPUT, "k", shape(B, 4), i32)
M = source(Op.INPUT, "m", shape(B, 4), boolean)


def of(value: float, like: Edge | Node) -> Edge:
    e = edge(like) if isinstance(like, Node) else like
    dtype = boolean if isinstance(value, bool) else e.dtype
    return Edge(const(value, dtype), expand((), e.shape))


def op(kind: Op, *args: Edge | Node) -> Edge:
    edges = [edge(a) if isinstance(a, Node) else a for a in args]
    return edge(unary(kind, *edges) if len(edges) == 1 else binary(kind, *edges))


def add(a: Edge | Node, b: Edge | Node) -> Edge:
    return op(Op.ADD, a, b)


def mul(a: Edge | Node, b: Edge | Node) -> Edge:
    return op(Op.MUL, a, b)


def graph(e: Edge) -> Graph:
    found = Graph((), (("out", e),)).nodes()
    return Graph(tuple(n for n in found if n.op is Op.INPUT), (("out", e),))


def text(e: Edge) -> str:
    """The computing lines of the canonical form."""
    out = canonicalize(graph(e))
    verify(out, "canonicalize")
    assert canonicalize(out) is out, "a second time does nothing"
    lines = show(out).splitlines()
    return "\n".join(line for line in lines if "input" not in line and not line.startswith("dim"))


BOTH = "f32[batch, 4]"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (add(of(2.0, X), X), f"%1 = add %0 2.0  {BOTH}\noutput out = %1  {BOTH}"),
        (add(X, of(-0.0, X)), f"output out = %0  {BOTH}"),
        (add(X, of(0.0, X)), f"%1 = add %0 0.0  {BOTH}\noutput out = %1  {BOTH}"),
        (mul(of(1.0, X), X), f"output out = %0  {BOTH}"),
        (mul(X, of(0.0, X)), f"%1 = mul %0 0.0  {BOTH}\noutput out = %1  {BOTH}"),
        (
            mul(mul(mul(X, of(2.0, X)), of(3.0, X)), of(-1.0, X)),
            f"%1 = mul %0 6.0  {BOTH}\n%2 = mul %1 -1.0  {BOTH}\noutput out = %2  {BOTH}",
        ),
        (mul(mul(X, of(-1.0, X)), of(-1.0, X)), f"output out = %0  {BOTH}"),
        (add(add(of(1.0, X), X), of(2.0, X)), f"%1 = add %0 3.0  {BOTH}\noutput out = %1  {BOTH}"),
        (
            add(add(X, of(8388608.0, X)), of(-8388608.0, X)),  # rounds x to an integer
            (
                f"%1 = add %0 8388608.0  {BOTH}\n"
                f"%2 = add %1 -8388608.0  {BOTH}\n"
                f"output out = %2  {BOTH}"
            ),
        ),
        (
            mul(mul(X, of(1e30, X)), of(1e30, X)),
            f"%1 = mul %0 1e+30  {BOTH}\n%2 = mul %1 1e+30  {BOTH}\noutput out = %2  {BOTH}",
        ),
        (op(Op.RECIP, op(Op.RECIP, X)), f"output out = %0  {BOTH}"),
        (
            op(Op.LOG2, op(Op.EXP2, X)),  # infinite from x = 128 on
            f"%1 = exp2 %0  {BOTH}\n%2 = log2 %1  {BOTH}\noutput out = %2  {BOTH}",
        ),
        (mul(X, M), f"%2 = mul %1 %0  {BOTH}\noutput out = %2  {BOTH}"),
        (mul(M, mul(X, M)), f"%2 = mul %0 %1  {BOTH}\noutput out = %2  {BOTH}"),
        (mul(X, of(True, X)), f"output out = %0  {BOTH}"),
        (mul(of(False, X), X), f"output out = -0.0  {BOTH}"),
        (mul(M, of(-0.0, X)), f"output out = -0.0  {BOTH}"),
        (mul(M, of(2.0, X)), f"%1 = mul %0 2.0  {BOTH}\noutput out = %1  {BOTH}"),
        (
            op(Op.LESS_THAN, op(Op.LESS_THAN, M, of(True, M)), of(True, M)),
            "output out = %0  bool[batch, 4]",
        ),
        (op(Op.LESS_THAN, X, X), "output out = False  bool[batch, 4]"),
        (
            mul(mul(K, of(2**30, K)), of(4, K)),
            "%1 = mul %0 0  i32[batch, 4]\noutput out = %1  i32[batch, 4]",
        ),
        (
            edge(contiguous(edge(unary(Op.SIN, edge(X))))),
            f"%1 = sin %0  {BOTH}\noutput out = %1  {BOTH}",
        ),
        (edge(contiguous(edge(X))), f"output out = %0  {BOTH}"),
        (
            edge(contiguous(edge(contiguous(edge(X), f64)), f32)),
            f"output out = %0  {BOTH}",
        ),
        (
            edge(contiguous(edge(contiguous(edge(X), bf16)), f32)),  # rounds
            (
                "%1 = contiguous %0  bf16[batch, 4]\n"
                f"%2 = contiguous %1  {BOTH}\n"
                f"output out = %2  {BOTH}"
            ),
        ),
    ],
)
def test_normal_form(before: Edge, after: str) -> None:
    assert text(before) == after


def test_matches_through_views() -> None:
    """The factor of a row joins the factor of a matrix."""
    row = source(Op.INPUT, "row", shape(4), f32)
    half = mul(row, of(0.5, row))
    wide = compose(expand(half.shape, shape(B, 4)), half.view)
    assert wide is not None
    out = mul(Edge(half.node, wide), of(4.0, X))
    assert text(mul(out, X)) == (
        f"%2 = mul %0[i1] 2.0  {BOTH}\n%3 = mul %2 %1  {BOTH}\noutput out = %3  {BOTH}"
    )


def test_does_not_match_through_a_fill() -> None:
    inner = mul(X, of(0.5, X))
    padded = Edge(inner.node, pad(inner.shape, (0, 1), (0, 0), 3.0))
    out = mul(padded, of(2.0, padded))
    assert canonicalize(graph(out)).outputs[0][1].node is out.node


def test_views_of_what_is_replaced_are_composed() -> None:
    turned = Edge(X, permute(X.shape, (1, 0)))
    same = mul(turned, of(1.0, turned))
    again = Edge(same.node, permute(same.shape, (1, 0)))
    assert text(op(Op.SIN, again)) == f"%1 = sin %0  {BOTH}\noutput out = %1  {BOTH}"


def test_fills_that_do_not_compose_are_materialised() -> None:
    inner = Edge(X, pad(X.shape, (0, 1), (0, 0), 1.0))
    same = mul(inner, of(1.0, inner))
    outer = Edge(same.node, pad(same.shape, (0, 1), (0, 0), 2.0))
    out = canonicalize(graph(op(Op.SIN, outer)))
    verify(out)
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    wanted = np.sin(
        np.pad(np.pad(x, ((0, 0), (1, 0)), constant_values=1), ((0, 0), (1, 0)), constant_values=2)
    )
    np.testing.assert_allclose(evaluate(out, {"x": x}, {})["out"], wanted, rtol=1e-6)
    assert canonicalize(out) is out


def test_a_reduction_of_one_element_is_that_element() -> None:
    tall = Edge(X, reshape(X.shape, shape(B, 1, 4)))
    assert text(edge(reduce(Op.SUM_REDUCE, tall, (1,)))) == f"output out = %0  {BOTH}"
    both = edge(reduce(Op.MAX_REDUCE, tall, (1, 2)))
    assert "max_reduce" in text(both)


def test_what_does_not_change_comes_back() -> None:
    e = op(Op.SIN, add(X, of(1.0, X)))
    g = graph(e)
    assert canonicalize(g) is g
    assert fold(g) is g
    partly = Graph((X,), (("a", e), ("b", mul(X, of(1.0, X)))))
    out = canonicalize(partly)
    assert out.outputs[0][1].node is e.node
    assert out.outputs[1][1] == edge(X)


def test_lines_are_united() -> None:
    first = mul(X, of(2.0, X))
    second = mul(first, of(3.0, X))
    third = op(Op.SIN, second)
    one, two, three = (SourceLocation("model.py", i) for i in (1, 2, 3))
    lines = {first.node: (one,), second.node: (two, three), third.node: (three,), X: (one,)}
    out = canonicalize(Graph((X,), (("out", third),), lines=lines))
    sin = out.outputs[0][1].node
    assert out.lines == {X: (one,), sin: (three,), sin.args[0].node: (two, three)}


def test_states_are_rewritten_too() -> None:
    s = source(Op.STATE, "s", X.shape, f32)
    g = Graph((X,), (), ((s, mul(X, of(1.0, X))),))
    assert canonicalize(g).updates == ((s, edge(X)),)


# --- fold -----------------------------------------------------------------------------------------


def folded(e: Edge) -> str:
    return show(verify(fold(graph(e)), "fold")).splitlines()[-1]


def test_fold_computes_constants() -> None:
    assert folded(op(Op.RECIP, of(4.0, X))) == "output out = 0.25  f32[batch, 4]"
    third = mul(of(1.0, X), op(Op.RECIP, of(3.0, X)))
    assert folded(third) == f"output out = {float(np.float32(1 / 3))!r}  f32[batch, 4]"
    assert folded(op(Op.LOG2, of(0.0, X))) == "output out = -inf  f32[batch, 4]"
    assert folded(op(Op.LOG2, of(-1.0, X))) == "output out = nan  f32[batch, 4]"
    wraps = add(of(2**31 - 1, K), of(1, K))
    assert folded(wraps) == "output out = -2147483648  i32[batch, 4]"
    assert folded(op(Op.LESS_THAN, of(1, K), of(2, K))) == "output out = True  bool[batch, 4]"
    cut = edge(contiguous(of(2.7, X), i32))
    assert folded(cut) == "output out = 2  i32[batch, 4]"


def test_fold_makes_nothing_large() -> None:
    big: Shape = shape(2**20, 2**20)
    ones = Edge(const(3.0, f32), expand((), big))
    assert folded(add(ones, ones)) == "output out = 6.0  f32[1048576, 1048576]"
    assert folded(edge(reduce(Op.SUM_REDUCE, ones, (0,)))) == "output out = 3145728.0  f32[1048576]"
    assert folded(edge(reduce(Op.MAX_REDUCE, ones, (0, 1)))) == "output out = 3.0  f32[]"


def test_fold_leaves_sums_over_unknown_extents() -> None:
    total = edge(reduce(Op.SUM_REDUCE, of(3.0, X), (0,)))
    assert "sum_reduce" in show(fold(graph(total)))
    assert folded(edge(reduce(Op.MAX_REDUCE, of(3.0, X), (0,)))) == "output out = 3.0  f32[4]"


def test_fold_keeps_the_precision_of_what_is_computed() -> None:
    """A bf16 kernel multiplies in f32; a constant is in no memory, so it is not rounded to bf16."""
    x = source(Op.INPUT, "x", shape(4), bf16)
    out = canonicalize(graph(mul(mul(x, of(0.125, x)), of(1.4426950408889634, x))))
    (_, number) = out.outputs[0][1].node.args
    assert number.node is const(0.125 * 1.4426950408889634, bf16)


# --- random graphs --------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=100)
@given(st.data())
def test_meaning_is_kept(data: st.DataObject) -> None:
    extents = (3, 4)
    x = source(Op.INPUT, "x", shape(*extents), f32)
    m = source(Op.INPUT, "m", shape(*extents), boolean)
    numbers: list[Edge] = [edge(x)]
    masks: list[Edge] = [edge(m)]

    def one(pool: list[Edge]) -> Edge:
        return data.draw(st.sampled_from(pool))

    def number() -> Edge:
        if data.draw(st.booleans()):
            return one(numbers)
        return of(data.draw(st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5, 3.0, np.inf])), x)

    def mask() -> Edge:
        return of(data.draw(st.booleans()), x) if data.draw(st.booleans()) else one(masks)

    for _ in range(data.draw(st.integers(2, 10))):
        kind = data.draw(
            st.sampled_from(["add", "mul", "select", "less", "not", "and", "copy", "turn"])
        )
        if kind in {"add", "mul"}:
            numbers.append((add if kind == "add" else mul)(number(), number()))
        elif kind == "select":
            pair = [mask(), number()]
            numbers.append(mul(*(pair if data.draw(st.booleans()) else pair[::-1])))
        elif kind == "less":
            masks.append(op(Op.LESS_THAN, number(), number()))
        elif kind == "not":
            masks.append(op(Op.LESS_THAN, mask(), of(True, x)))
        elif kind == "and":
            masks.append(mul(mask(), mask()))
        elif kind == "copy":
            numbers.append(edge(contiguous(number(), f32)))
        else:
            twice = one(numbers)
            flat = compose(reshape(twice.shape, shape(12)), twice.view)
            back = compose(reshape(shape(12), shape(*extents)), flat) if flat else None
            numbers.append(Edge(twice.node, back) if back else twice)
    g = Graph((x, m), (("number", numbers[-1]), ("mask", masks[-1])))
    out = canonicalize(g)
    verify(out)
    assert canonicalize(out) is out
    assert len(list(out.nodes())) <= len(list(g.nodes()))
    rng = np.random.default_rng(0)
    special = rng.choice([0.0, -0.0, 1.0, np.nan, np.inf, -np.inf, 2.0], extents)
    given_values = {"x": special.astype(np.float32), "m": rng.random(extents) < 0.5}
    wanted, found = evaluate(g, given_values, {}), evaluate(out, given_values, {})
    np.testing.assert_allclose(found["number"], wanted["number"], rtol=1e-6)
    np.testing.assert_array_equal(found["mask"], wanted["mask"])
