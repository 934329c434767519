"""retype: a model of f32 that stores f16 or bf16.

Before: a graph, or its regions, over f32.  After: inputs, outputs, weights of matrices and temporaries are of the
narrower type; every value in between is computed in f32 as before. So a number is rounded when it is stored, and a
matrix operand because it was stored. Integers, bools, f64 and values that the user cast stay as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from lumigen.dtype import DType, f32
from lumigen.graph import Edge, Graph, Node, contiguous, edge, rebuild, source, tensor_of
from lumigen.lower.contractions import OneRow, is_plain, product_factors, volume
from lumigen.lower.places import stored_as
from lumigen.ops import TRANSCENDENTALS, Op
from lumigen.region import (
    Buffer,
    Expr,
    Monoid,
    Prim,
    Read,
    Reduce,
    Region,
    Role,
    Scan,
    Store,
    read,
    walk,
)
from lumigen.region import rebuild as rebuild_expr


def retype(graph: Graph, dtype: DType) -> Graph:
    """The graph with inputs, outputs and weights of matrices in `dtype`, and casts between them and the values.

    A vector of weights (a bias, a scale) stays f32: it has few bytes and acts on every row. So does a state: what
    it adds up over many runs must not lose digits in each. And so does an output that the user has cast to f32.
    """
    if dtype is f32:
        return graph
    done: dict[Node, Node] = {}
    for n in graph.nodes():
        args = tuple(Edge(done[e.node], e.view) for e in n.args)
        done[n] = widened(n, dtype) if is_narrowed(n) else rebuild(n, args)
    narrowed = {n: done[n].args[0].node if is_narrowed(n) else done[n] for n in done}
    outputs = tuple(
        (name, out if is_asked(e.node) else narrow(out, dtype))
        for name, e in graph.outputs
        for out in (Edge(done[e.node], e.view),)
    )
    updates = tuple((state, Edge(done[e.node], e.view)) for state, e in graph.updates)
    if all(new is n for n, new in done.items()) and outputs == graph.outputs:
        return graph
    lines = {done[n]: found for n, found in graph.lines.items() if n in done}
    names = {done[n]: name for n, name in graph.names.items() if n in done}
    return Graph(tuple(narrowed[n] for n in graph.inputs), outputs, updates, lines, names)


def is_narrowed(n: Node) -> bool:
    """Whether memory holds the source in the narrower type."""
    return n.dtype is f32 and (n.op is Op.INPUT or (n.op is Op.WEIGHT and len(n.shape) > 1))


def widened(n: Node, dtype: DType) -> Node:
    """A source of f32 as a cast of one of `dtype`."""
    tensor = tensor_of(n)
    return contiguous(
        edge(source(n.op, tensor.name, n.shape, dtype, tensor.range, tensor.most)), f32
    )


def narrow(e: Edge, dtype: DType) -> Edge:
    return edge(contiguous(e, dtype)) if e.dtype is f32 else e


def is_asked(n: Node) -> bool:
    """Whether the user has cast it to f32 last of all: a copy of f32 that resets no view says so."""
    if n.op is not Op.CONTIGUOUS or n.args[0].dtype is not f32:
        return False
    (e,) = n.args
    return e.view.is_identity(e.node.shape) or is_asked(e.node)


def retype_temporaries(regions: tuple[Region, ...], dtype: DType) -> tuple[Region, ...]:
    """The regions with temporaries of f32 stored as `dtype`.

    But for statistics, the sums and maxima of rows, and for tables of transcendentals, which regions of many more
    elements read: they have few bytes, and an error in one of them is the same error in a whole row. And for what
    native kernels read, which may tell values apart that the type does not, for what truth values are stored of, which
    hang on an area or a square that f16 may not even hold, and for carries, those of a scan too, and
    those that are stored before a loop and in it: they add up over the steps, and a running maximum is compared with
    the elements that it is one of, which other regions compute anew. What is reduced over windows is an image again:
    its sums are rounded as others are, and a maximum of elements of the type is one of them.
    """
    stores = [s for r in regions for s in r.stores]
    exact = {b for r in regions if r.native for b in r.reads()} | tables(regions)
    exact |= {b for s in stores if s.dst.dtype.is_bool for b in Region((s,)).reads()}
    times = Counter(s.dst for s in stores)
    narrowed = {
        s.dst: replace(s.dst, dtype=dtype)
        for s in stores
        if s.dst.role is Role.TEMP
        and s.dst.dtype is f32
        and s.dst not in exact
        and times[s.dst] == 1
        and (not is_statistic(s.value) or _is_image(s, dtype))
    }
    return regions if dtype is f32 or not narrowed else _narrowed(regions, narrowed)


def _narrowed(regions: tuple[Region, ...], narrowed: Mapping[Buffer, Buffer]) -> tuple[Region, ...]:
    memo: dict[Expr, Expr] = {}

    def visit(e: Expr) -> Expr:
        if e not in memo:
            if isinstance(e, Read) and e.source in narrowed:
                memo[e] = read(narrowed[e.source], e.at)
            else:
                memo[e] = rebuild_expr(e, visit, lambda i: i)
        return memo[e]

    def moved(s: Store) -> Store:
        dst = narrowed.get(s.dst, s.dst)
        return replace(s, dst=dst, value=stored_as(dst, visit(s.value)))

    return tuple(replace(r, stores=tuple(map(moved, r.stores))) for r in regions)


def with_temporaries(region: Region, dtype: DType) -> Region:
    """A region as it will read temporaries of f32 that are stored as `dtype`."""
    narrowed = {
        b: replace(b, dtype=dtype)
        for b in region.reads()
        if b.role is Role.TEMP and b.dtype is f32 is not dtype
    }
    return _narrowed((region,), narrowed)[0] if narrowed else region


def is_statistic(value: Expr) -> bool:
    """Whether the value is a scan, or a reduction and no product of matrices."""
    rows = (OneRow.WEIGHTS, OneRow.MADE)
    is_product = isinstance(value, Reduce) and any(product_factors(value, one_row=r) for r in rows)
    return isinstance(value, Scan) or (isinstance(value, Reduce) and not is_product)


def _is_image(s: Store, dtype: DType) -> bool:
    """Whether a store has sums over windows, or maxima over windows of what memory has in the type or will."""
    r = s.value
    if not isinstance(r, Reduce):
        return False
    reads = [e for e in walk([r.body]) if isinstance(e, Read)]
    slides = any(i.axes & set(r.axes) and i.axes & set(s.axes) for e in reads for i in e.at)
    held = all(e.source.dtype is dtype or e.source.role is Role.TEMP for e in reads)
    return slides and (r.monoid is Monoid.SUM or (is_plain(r.body) and held))


def tables(regions: tuple[Region, ...]) -> set[Buffer]:
    """Transcendentals that are stored for regions with more elements."""
    least: dict[Buffer, int] = {}  # of the elements of a region that reads the buffer
    for r in regions:
        elements = max(volume(s.axes) for s in r.stores)
        for b in r.reads():
            least[b] = min(elements, least.get(b, elements))
    return {
        s.dst
        for r in regions
        for s in r.stores
        if isinstance(s.value, Prim)
        and s.value.op in TRANSCENDENTALS
        and least.get(s.dst, 0) > volume(s.axes)
    }
