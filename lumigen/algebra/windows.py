"""windows: sums over neighbours, as those of convolutions, by fewer products.

Before: any graph.  After: where that is estimated as much less work, m neighbours of a sum over r points of a window
are computed together, by N = m + r - 1 products instead of m r:

    out[y]       = sum_rest sum_t x[y + t] w[t]
    out[m b + i] = sum_a A[i, a] sum_rest V[a, b] U[a]
    V[a, b] = sum_j B[a, j] x[m b + j],  U[a] = sum_t G[a, t] w[t]

This is the product of two polynomials by their values at N points, transposed (Toom, Cook; Winograd, "Arithmetic
Complexity of Computations", 1980; Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015). U of
weights is made when the model is opened (`lower.prepare`).

It is done along one dimension: errors of f32 are three times those of the sum as written (`tests/test_windows.py`), and
would be multiplied once more by the second one. Neighbours in memory stay neighbours, so that dimension is not the
innermost one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce as folded
from math import prod

from lumigen.condition import Cmp, less
from lumigen.dtype import DType, f32, f64
from lumigen.graph import (
    Edge,
    Graph,
    Node,
    axes_of,
    binary,
    const,
    edge,
    reduce,
    toposort,
)
from lumigen.index import Axis, Ix, ceildiv, ix
from lumigen.lower.prepare import NOT_MADE
from lumigen.machine import Steps
from lumigen.ops import Op
from lumigen.pattern import rewrite
from lumigen.view import Shape, View, compose, coordinates, identity, positions

NAME = "windows_by_fewer_products"  # as a rule is called
SIDES = "sum_t x[y + t] w[t] = sum_a A[y % m, a] V[a, y // m] U[a]"
POINTS = (Fraction(0), Fraction(1), Fraction(-1), Fraction(1, 2), Fraction(-2))  # and infinity
N = len(POINTS) + 1
TAPS = range(2, N)  # points of a window; one more has no two neighbours together


# ---- tables ----

Table = tuple[tuple[Fraction, ...], ...]


@dataclass(frozen=True)
class Tables:
    """A of m x N, B of N x N and G of N x r numbers."""

    a: Table
    b: Table
    g: Table


def tables(taps: int) -> Tables:
    """Those of windows of so many points.

    A and G have powers of the points. Row a of B has the coefficients of the polynomial that is 0 at all points but the
    a-th; what it is there divides the row of G, so that A and B are sums of few powers of two.
    """
    others = [[p for p in POINTS if p != q] for q in POINTS]
    at = [
        prod((q - p for p in of), start=Fraction(1)) for q, of in zip(POINTS, others, strict=True)
    ]
    b = tuple(_coefficients(of) for of in (*others, [*POINTS]))
    g = tuple(
        tuple(v / by for v in row)
        for row, by in zip(_powers(taps), [*at, Fraction(1)], strict=True)
    )
    values = _powers(N + 1 - taps)
    return Tables(tuple(zip(*values, strict=True)), b, g)


def _powers(count: int) -> Table:
    """Of each point its first powers; infinity has the last one alone."""
    last = tuple(Fraction(k == count - 1) for k in range(count))
    return (*(tuple(p**k for k in range(count)) for p in POINTS), last)


def _coefficients(roots: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Of the product of (x - root), the lowest first, N of them."""
    out = [Fraction(1)]
    for root in roots:
        out = [
            up - root * own
            for up, own in zip([Fraction(0), *out], [*out, Fraction(0)], strict=True)
        ]
    return (*out, *[Fraction(0)] * (N - len(out)))


# ---- the pass ----


@dataclass(frozen=True)
class Fewer:
    """The graph, how many of its sums have fewer products, what these took, and what that saves, in steps."""

    graph: Graph
    sums: int
    took: float
    saved: float


def fewer_products(graph: Graph, steps: Steps) -> Fewer:
    """The graph with sums over windows by fewer products, where that is estimated as less work."""
    parts: dict[Node, tuple[Node, ...]] = {}
    gains: list[tuple[float, float]] = []

    def step(n: Node) -> Edge | None:
        found = [
            w for w in windows_of(n) if w.saves(steps) * steps.worth_of_largest >= w.takes(steps)
        ]
        best = max(found, key=lambda w: w.saves(steps), default=None)
        made = None if best is None else best.transformed()
        if best is None or made is None:
            return None
        out, inner = made
        parts[out.node] = inner
        gains.append((best.takes(steps), best.saves(steps)))
        return out

    changed = rewrite(graph, step)
    lines = {
        n: changed.lines[out] for out, each in parts.items() if out in changed.lines for n in each
    }
    took, saved = (sum(g[i] for g in gains) for i in (0, 1))
    return Fewer(replace(changed, lines={**lines, **changed.lines}), len(gains), took, saved)


@dataclass(frozen=True)
class SlidingSum:
    """A sum of products over a window's points: dimension `taps` of the products, along `rows`.

    Dimension `at` of what x shows is read at row + tap + `start`, under the conditions `own`, over the axis `place`;
    `rest` are x's other conditions. Dimension `of_tap` of what w shows is read at the tap alone.
    """

    total: Node
    x: Edge
    w: Edge
    rows: int
    taps: int
    at: int
    start: Ix
    own: tuple[Cmp, ...]
    rest: tuple[Cmp, ...]
    place: Axis
    of_tap: int

    @property
    def shape(self) -> Shape:
        """Of the products."""
        return self.total.args[0].shape

    @property
    def count(self) -> int:
        """The points of a window."""
        return self.shape[self.taps].const

    @property
    def together(self) -> int:
        """The neighbours that are computed together."""
        return N + 1 - self.count

    @property
    def blocks(self) -> Ix:
        return ceildiv(self.shape[self.rows], self.together)

    # ---- what it takes ----

    def takes(self, steps: Steps) -> float:
        """The sum as it is, in the machine's steps."""
        products = self._products(steps, self.shape[self.rows].estimate(), self.count)
        return products + _points(self.w.node.shape) * steps.far

    def saves(self, steps: Steps) -> float:
        """How much less it is by fewer products: N for a block. V, the sums, and U of no weights are stored."""
        blocks, rows = self.blocks.estimate(), self.shape[self.rows].estimate()
        weights = _points(self.w.node.shape)
        made = weights * N / self.count
        values = N * blocks * _points(self.x.node.shape) / self.x.node.shape[self.at].estimate()
        sums = N * blocks * _points(self.total.shape) / rows
        is_made = any(n.op in NOT_MADE for n in toposort([self.w.node]))
        stored = values + sums + (made if is_made else 0)
        after = self._products(steps, blocks, N) + stored * (steps.stored + steps.far)
        return self.takes(steps) - after - made * steps.far

    def _products(self, steps: Steps, rows: float, times: int) -> float:
        """What multiplies so many rows so many times; columns that fill no tile take as long as those that do."""
        of_x, of_w = self.x.view.axes, self.w.view.axes
        columns, rest = rows, 1.0
        for d, a in enumerate(positions(self.shape)):
            if d in (self.rows, self.taps):
                continue
            extent = self.shape[d].estimate()
            if a in of_x - of_w and d not in axes_of(self.total):
                columns *= extent
            else:
                rest *= extent
        return rest * -(-columns // steps.tile) * steps.tile * times * steps.product

    # ---- the graph ----

    def transformed(self) -> tuple[Edge, tuple[Node, ...]] | None:
        """The total by fewer products, and what is stored on the way; None if nothing proves that reads stay inside."""
        of = tables(self.count)
        values, made = self._values(of), self._made(of)
        sums = None if values is None else self._sums(values, made)
        if values is None or sums is None:
            return None
        return self._total(of, sums), (values, made, sums)

    def _values(self, of: Tables) -> Node | None:
        """V, of shape (N, ...): x's source with blocks for rows."""
        source = self.x.node
        shape = (ix(N), *_with(source.shape, self.at, self.blocks))
        a, *at = coordinates(shape)
        end = self.shape[self.rows] + self.count - 1
        seen: list[Edge] = []
        for j in range(N):
            place = at[self.at] * self.together + j
            own = (c.substitute({self.place: place}) for c in self.own)
            index = (*at[: self.at], place + self.start, *at[self.at + 1 :])
            found = _seen(source, View(shape, index, (*own, less(place, end)), 0.0))
            if found is None:
                return None
            seen.append(found)
        columns = zip(*of.b, strict=True)
        return _dot(seen, [_table(c, self.total.dtype, shape, a) for c in columns])

    def _made(self, of: Tables) -> Node:
        """U, of shape (N, ...): w's source without the dimension of taps. A sum, which `prepare` keeps."""
        source, tap = self.w.node, positions(self.shape)[self.taps]
        kept = (*source.shape[: self.of_tap], *source.shape[self.of_tap + 1 :])
        shape = (ix(N), *kept, ix(self.count))
        a, *at, t = coordinates(shape)
        index = (
            *at[: self.of_tap],
            self.w.view.index[self.of_tap].substitute({tap: t}),
            *at[self.of_tap :],
        )
        flat = [v for row in of.g for v in row]
        factor = _table(flat, self.total.dtype, shape, a * self.count + t)
        product = binary(Op.MUL, Edge(source, View(shape, index)), factor)
        return reduce(Op.SUM_REDUCE, edge(product), [len(shape) - 1])

    def _sums(self, values: Node, made: Node) -> Node | None:
        """The products of V and U, summed over what is left: (N, ...), the total's dimensions with blocks for rows."""
        kept = [d for d in range(len(self.shape)) if d != self.taps]
        shape = (ix(N), *(self.blocks if d == self.rows else self.shape[d] for d in kept))
        a, *at = coordinates(shape)
        along = positions(self.shape)
        where = {along[d]: i for d, i in zip(kept, at, strict=True)}
        of_x = [i.substitute(where) for i in _without(self.x.view.index, self.at)]
        of_x.insert(self.at, where[along[self.rows]])
        rest = tuple(c.substitute(where) for c in self.rest)
        x = _seen(values, View(shape, (a, *of_x), rest, 0.0))
        of_w = (i.substitute(where) for i in _without(self.w.view.index, self.of_tap))
        w = _seen(made, View(shape, (a, *of_w)))
        if x is None or w is None:
            return None
        gone = [1 + kept.index(d) for d in axes_of(self.total) if d != self.taps]
        return reduce(Op.SUM_REDUCE, edge(binary(Op.MUL, x, w)), gone)

    def _total(self, of: Tables, sums: Node) -> Edge:
        """The total, of neighbours in blocks, seen as it was."""
        row = sum(d not in axes_of(self.total) for d in range(self.rows))
        own = self.total.shape
        shape = (*own[:row], self.blocks, ix(self.together), *own[row + 1 :])
        at = coordinates(shape)
        i, where = at[row + 1], (*at[: row + 1], *at[row + 2 :])
        seen = [Edge(sums, View(shape, (ix(a), *where))) for a in range(N)]
        columns = zip(*of.a, strict=True)
        node = _dot(seen, [_table(c, self.total.dtype, shape, i) for c in columns])
        there = coordinates(own)
        y = there[row]
        both = (*there[:row], y // self.together, y % self.together, *there[row + 1 :])
        return Edge(node, View(own, both))


def windows_of(n: Node) -> Iterator[SlidingSum]:
    """Each window of a sum of products along which neighbours could be computed together."""
    product = n.args[0].node if n.op is Op.SUM_REDUCE and n.dtype in (f32, f64) else None
    if product is None or product.op is not Op.MUL or n.args != (edge(product),):
        return
    gone = axes_of(n)
    if len(gone) < 2:  # nothing is added up before neighbours come apart: each product is stored
        return
    kept = [d for d in range(len(product.shape)) if d not in gone]
    for x, w in (product.args, product.args[::-1]):
        for rows in kept if x.dtype is w.dtype else ():
            for taps in gone:
                found = _window(n, x, w, rows, taps)
                if found is not None:
                    yield found


def _window(n: Node, x: Edge, w: Edge, rows: int, taps: int) -> SlidingSum | None:
    shape = x.shape
    if not shape[taps].is_const or shape[taps].const not in TAPS or shape[rows] == 1:
        return None
    row, tap = positions(shape)[rows], positions(shape)[taps]
    of_tap = [d for d, i in enumerate(w.view.index) if tap in i.axes]
    if w.view.valid or len(of_tap) != 1 or w.view.index[of_tap[0]].axes != frozenset({tap}):
        return None
    if row in w.view.axes or (x.view.valid and x.view.fill != 0):
        return None
    place = Axis("place", shape[rows] + shape[taps] - 1)
    moved = {row: ix(place) - ix(tap)}
    index = [i.substitute(moved) for i in x.view.index]
    valid = [c.substitute(moved) for c in x.view.valid]
    own = tuple(c for c in valid if place in c.axes)
    at = [d for d, i in enumerate(index) if place in i.axes]
    if (
        any(tap in e.axes for e in (*index, *valid))
        or any(c.axes != frozenset({place}) for c in own)
        or len(at) != 1
    ):
        return None
    start = index[at[0]] - ix(place)
    if start.axes or _is_innermost(x.node.shape, at[0]):
        return None
    rest = tuple(c for c in valid if place not in c.axes)
    return SlidingSum(n, x, w, rows, taps, at[0], start, own, rest, place, of_tap[0])


def _is_innermost(shape: Shape, dim: int) -> bool:
    """Whether neighbours in memory lie along a dimension."""
    return all(e == 1 for e in shape[dim + 1 :])


def _points(shape: Shape) -> float:
    return float(prod(e.estimate() for e in shape))


def _with(shape: Shape, dim: int, extent: Ix) -> Shape:
    return (*shape[:dim], extent, *shape[dim + 1 :])


def _without(index: Sequence[Ix], dim: int) -> list[Ix]:
    return [*index[:dim], *index[dim + 1 :]]


def _seen(n: Node, view: View) -> Edge | None:
    """A node through a view without conditions that are always true; None if nothing proves that it stays inside."""
    found = compose(view, identity(n.shape), n.shape)
    return None if found is None else Edge(n, found)


def _table(values: Sequence[Fraction], dtype: DType, shape: Shape, at: Ix) -> Edge:
    """A number of a table at each place of a shape, where `at` says which; not all of them are 0."""
    extent = (ix(len(values)),)
    (k,) = coordinates(extent)
    alone = (
        Edge(const(float(v), dtype), View(extent, (), (less(i - 1, k), less(k, i + 1)), -0.0))
        for i, v in enumerate(values)
        if v != 0
    )
    whole = folded(lambda a, b: edge(binary(Op.ADD, a, b)), alone)
    seen = compose(View(shape, (at,)), whole.view)
    assert seen is not None, "one of the two views fills"
    return Edge(whole.node, seen)


def _dot(seen: Sequence[Edge], factors: Sequence[Edge]) -> Node:
    """The sum of what is seen, times its factors."""
    products = (edge(binary(Op.MUL, e, f)) for e, f in zip(seen, factors, strict=True))
    return folded(lambda a, b: edge(binary(Op.ADD, a, b)), products).node
