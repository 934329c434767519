"""partition: cut the graph into regions of index notation.

Before: a graph.  After: regions in launch order, one store each; every value that is computed in one region and
read in another has a buffer. Whatever is not cut is inlined, so elementwise fusion needs no pass of its own.

The cuts are the heuristic's. They fall at the same places in each repeated layer:

1. at a factor of a contraction that is itself computed, unless the factor is *expanding* (below);
2. at what a reduction ranges over, if that contains a reduction that varies with the reduced axes: it would be
   recomputed for each element;
3. at a reduction that several regions would compute;
4. at a reduction of integers or truth values beside a contraction: what is behind a tile of products is computed in
   vectors, which add up floats alone;
5. at values that would make a region too large or too deep: one that reads its operand at several places doubles
   what is computed, and eight of them in a row make one value out of hundreds;
6. at each new version of a state, and at reductions in one;
7. at native nodes, and at what they read;
8. at contractions that stand side by side in a region, all but one: a skeleton has tiles of one product, and the
   others would be summed element by element;
9. at a reduction with much to add up that a region reads at several places: each of them would add it up again.

A factor is kept too if integers that are read bound the axes of the reduction, as a position does in a cache: only
the loop of the reduction leaves out what lies beyond them.

A factor is expanding if it holds a contraction of buffers that are all much smaller than it is, and so is what it
is reduced to: then it never exists as a whole, the outer reduction consumes it tile by tile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from lumigen.dtype import computed
from lumigen.errors import SourceLocation
from lumigen.graph import (
    Edge,
    Graph,
    Kernel,
    Node,
    Stream,
    axes_of,
    literal_of,
    tensor_of,
    toposort,
)
from lumigen.index import Axis, Ix, Lookup, ix, product
from lumigen.lower.guard import guard_reductions
from lumigen.lower.versions import Versions, place_versions
from lumigen.ops import ROWS, SOURCES, Form, Op
from lumigen.region import (
    Buffer,
    Choose,
    Const,
    Expr,
    Holds,
    Index,
    Monoid,
    Prim,
    Read,
    Reduce,
    Region,
    Role,
    Store,
    children,
    choose,
    const,
    free_axes,
    holds,
    index,
    prim,
    random,
    read,
    reduce,
    substitute,
    walk,
)
from lumigen.view import identity

EXPANSION = 2  # an expanding factor is at least so many times larger than anything it is made of or made into
ON_CHIP = 256  # the most elements of a row of accumulators, and of a row of an inner operand
LONGEST = 1024  # the same where one side is weights, which stream past while the other side stays in the caches
LARGEST = 200  # different values that one element of a region is made of
DEEPEST = 150  # steps from a buffer to a value
MANY_TERMS = 1 << 20  # of all elements of a reduction: more than it takes to store and read them

ROLES = {Op.INPUT: Role.INPUT, Op.WEIGHT: Role.WEIGHT, Op.STATE: Role.STATE}
MONOIDS = {Op.SUM_REDUCE: Monoid.SUM, Op.MAX_REDUCE: Monoid.MAX}


def partition(
    graph: Graph, runs_whole: Callable[[Region], bool], in_loops: Callable[[Region], bool]
) -> tuple[Region, ...]:
    """The regions of a graph, in an order in which every buffer is stored before it is read.

    `runs_whole` says whether some skeleton runs a region whose contraction is inside another reduction; where none
    does, the inner contraction is cut after all. `in_loops` says whether a region of one contraction has no other
    skeleton than loops over vectors, which may as well hold several.
    """
    builder = _Builder(graph)
    builder.decide_cuts()
    while cut := (
        builder.refused(runs_whole) or builder.side_by_side(in_loops) or builder.seen_again()
    ):
        builder.materialise(cut)
        builder.decide_cuts()
    return builder.regions()


@dataclass
class _Sizes:
    """Bounds of what the values of a graph are made of, from the sources and from what is cut on."""

    cut: set[Node]
    depth: dict[Node, int] = field(default_factory=dict[Node, int])
    spelled: dict[Node, int] = field(
        default_factory=dict[Node, int]
    )  # what is shared counts at each use

    def measure(self, n: Node) -> None:
        inner = [a.node for a in n.args if a.node not in self.cut]
        self.depth[n] = 1 + max((self.depth[a] for a in inner), default=0)
        self.spelled[n] = 1 + sum(self.spelled[a] for a in inner)


@dataclass
class _Builder:
    graph: Graph
    order: list[Node] = field(init=False)
    number: dict[Node, int] = field(init=False)
    users: dict[Node, list[Node]] = field(init=False)
    cut: set[Node] = field(default_factory=set[Node])
    bounded: set[Node] = field(default_factory=set[Node])  # kept for the sake of a loop's bounds
    memo: dict[Node, tuple[tuple[Axis, ...], Expr]] = field(
        default_factory=dict[Node, tuple[tuple[Axis, ...], Expr]]
    )
    buffers: dict[Node, Buffer] = field(default_factory=dict[Node, Buffer])

    def __post_init__(self) -> None:
        self.order = toposort((*self.graph.inputs, *(e.node for e in self.graph.roots())))
        self.number = {n: i for i, n in enumerate(self.order)}
        self.users = {n: [] for n in self.order}
        for n in self.order:
            for a in n.args:
                self.users[a.node].append(n)
        for name, e in self.graph.outputs:
            if is_whole(e) and e.node not in self.buffers:
                self.buffers[e.node] = Buffer(name, Role.OUTPUT, e.node.shape, e.node.dtype)

    # ---- expressions ----

    def buffer(self, n: Node) -> Buffer:
        if n not in self.buffers:
            if n.op in ROLES:
                tensor = tensor_of(n)
                self.buffers[n] = Buffer(tensor.name, ROLES[n.op], n.shape, n.dtype, tensor.range)
            else:
                self.buffers[n] = Buffer(f"t{self.number[n]}", Role.TEMP, n.shape, n.dtype)
        return self.buffers[n]

    def at_edge(self, e: Edge, where: tuple[Ix, ...]) -> Expr:
        """What the edge shows at a position."""
        at, valid = e.view.at(where)
        body = self.at_node(e.node, at)
        return choose(holds(valid), body, const(e.view.fill, computed(e.dtype))) if valid else body

    def at_node(self, n: Node, at: tuple[Ix, ...]) -> Expr:
        if n.op in ROLES or n in self.cut:
            return read(self.buffer(n), at)
        if n.op is Op.CONST:
            return const(literal_of(n), computed(n.dtype))
        if n.op is Op.IOTA:
            return index(at[0], computed(n.dtype))
        axes, body = self.inlined(n)
        return substitute(body, dict(zip(axes, at, strict=True)))

    def inlined(self, n: Node) -> tuple[tuple[Axis, ...], Expr]:
        """The node's value over axes of its own, with everything inlined that is not cut."""
        if n not in self.memo:
            axes = tuple(Axis(f"n{self.number[n]}_{d}", e) for d, e in enumerate(n.shape))
            self.memo[n] = axes, self.body(n, axes)
        return self.memo[n]

    def body(self, n: Node, axes: tuple[Axis, ...]) -> Expr:
        if n.op in ROWS and ROWS[n.op].form is Form.REDUCE:
            bound, where = self.reduced(n, axes)
            return reduce(MONOIDS[n.op], bound, self.at_edge(n.args[0], where), computed(n.dtype))
        if isinstance(n.attr, Stream):
            (key,) = (self.at_edge(a, ()) for a in n.args)
            place = ix(0)
            for a, extent in zip(axes, n.shape, strict=True):
                place = place * extent + a
            return random(key, place, n.attr.site, n.dtype)
        if isinstance(n.attr, Kernel):
            return self.meant(n, n.attr.meaning, axes)
        args = tuple(self.at_edge(a, tuple(ix(a) for a in axes)) for a in n.args)
        if n.op is Op.CONTIGUOUS and n.dtype is not n.args[0].dtype:
            args = (
                prim(n.op, args, n.dtype),
            )  # rounds here, also where the value stays in a register
        return prim(n.op, args, computed(n.dtype))

    def meant(self, n: Node, meaning: Graph, axes: tuple[Axis, ...]) -> Expr:
        """What a native node computes, over the buffers that it reads."""
        inside = _Builder(meaning)
        for source, e in zip(meaning.inputs, n.args, strict=True):
            inside.buffers[source] = self.buffer(e.node) if self.is_stored(e) else self.copy_of(n)
        ((_, out),) = meaning.outputs
        return inside.at_edge(out, tuple(map(ix, axes)))

    def is_stored(self, e: Edge) -> bool:
        """Whether some buffer holds just what the edge shows."""
        return (e.node.op in ROLES or e.node in self.cut) and e.view == identity(e.node.shape)

    def copy_of(self, n: Node) -> Buffer:
        """The buffer of what a native node reads, where no other has it."""
        (e,) = n.args
        return Buffer(f"t{self.number[n]}_rows", Role.TEMP, e.shape, e.dtype)

    def reduced(self, n: Node, axes: tuple[Axis, ...]) -> tuple[tuple[Axis, ...], tuple[Ix, ...]]:
        """The bound axes of a reduction, and the positions of its operand over them and `axes`."""
        extents = n.args[0].shape
        gone = axes_of(n)
        bound = tuple(Axis(f"n{self.number[n]}_k{d}", extents[d]) for d in gone)
        free = iter(axes)
        by_dim = dict(zip(gone, bound, strict=True))
        where = tuple(ix(by_dim[d]) if d in by_dim else ix(next(free)) for d in range(len(extents)))
        return bound, where

    # ---- cuts ----

    def decide_cuts(self) -> None:
        """Apply the rules until none of them cuts: a factor no longer expands once what it holds is stored."""
        self.materialise(e.node for _, e in self.graph.updates if is_whole(e))
        native = [n for n in self.order if n.op is Op.NATIVE]
        read = (e.node for n in native for e in n.args)
        self.materialise([*native, *(a for a in read if a.op not in SOURCES)])
        done = None
        while done != len(self.cut):
            done = len(self.cut)
            sizes = _Sizes(self.cut)
            for n in self.order:
                if n.op in MONOIDS:
                    self.decide_at(n)
                if n not in self.cut and self.is_large(n, sizes):
                    self.materialise([n])
            self.materialise(self.shared_reductions())
            self.materialise(self.whole_numbers_beside_contractions())
            self.materialise(self.reductions_of_versions())
        self.memo.clear()

    def is_large(self, n: Node, sizes: _Sizes) -> bool:
        """Whether a value is made of too much. Its operands are not, so that no expression ever gets long."""
        sizes.measure(n)
        if sizes.depth[n] > DEEPEST:  # what was cut since shortens it
            for a in self.order[: self.number[n] + 1]:
                sizes.measure(a)
        if sizes.spelled[n] > LARGEST:
            sizes.spelled[n] = len(walk([self.inlined(n)[1]]))
        return sizes.depth[n] > DEEPEST or sizes.spelled[n] > LARGEST

    def refused(self, runs_whole: Callable[[Region], bool]) -> list[Node]:
        """What regions that would have to recompute a contraction are to read instead.

        The operand of the reduction that the contraction is inside, with all that is done to it on the way; the
        contraction itself where that operand is no node of its own. All of it where a skeleton runs it, but not as
        an output sees it.
        """
        out: dict[Node, None] = {}
        for root in self.roots():
            inside = list(self.inside(root))
            inner = [
                n for n in inside if n is not root and n.op is Op.SUM_REDUCE and self.contracts(n)
            ]
            nested = bool(inner) and has_nested_contraction(self.inlined(root)[1])
            nested |= any(n in self.bounded for n in inside if n is not root)
            if nested and not runs_whole(self.region(root)):
                operands = [f for n in inside if n.op in MONOIDS for f in self.contracted(n)]
                out.update(dict.fromkeys(operands or inner))
            elif nested and root not in self.cut and not self.shown_whole(root, runs_whole):
                out[root] = None
        return list(out)

    def shown_whole(self, n: Node, runs_whole: Callable[[Region], bool]) -> bool:
        """Whether a skeleton runs the node's region as each output shows it."""
        edges = [e for e in self.graph.roots() if e.node is n and not is_whole(e)]
        shown = (Buffer(f"o{i}", Role.OUTPUT, e.shape, e.dtype) for i, e in enumerate(edges))
        return all(runs_whole(self.stored(b, e)) for b, e in zip(shown, edges, strict=True))

    def side_by_side(self, in_loops: Callable[[Region], bool]) -> list[Node]:
        """Where to cut regions that hold contractions side by side: the last one stays with what follows it.

        Of the others what is done to each alone is stored, unless it is larger; one that is seen at several places
        is stored itself.
        """
        out: dict[Node, None] = {}
        for root in self.roots():
            beside = [n for n in self.beside(root) if self.contracts(n)]
            if len(list(_contractions_beside(self.inlined(root)[1]))) < 2:
                continue
            tiled = [n for n in beside if n is not root and not in_loops(self.region(n))]
            if not tiled:
                continue
            others = [n for n in beside if n is not tiled[-1]] or tiled
            out.update(dict.fromkeys(self.with_map(n, root, beside) for n in others))
        return list(out)

    def seen_again(self) -> list[Node]:
        """Reductions that a region would compute at several places each, with more terms than a launch costs."""
        out: dict[Node, None] = {}
        for root in self.roots():
            places = Counter(r.axes for r in _reductions_beside(self.inlined(root)[1]))
            if not any(count > 1 for count in places.values()):
                continue
            for n in self.beside(root):
                axes = tuple(Axis(f"n{self.number[n]}_{d}", e) for d, e in enumerate(n.shape))
                bound, _ = self.reduced(n, axes)
                if places[bound] > 1 and volume(bound) * volume_of(n.shape) >= MANY_TERMS:
                    out[n] = None
        return list(out)

    def beside(self, root: Node) -> list[Node]:
        """The reductions of a region that are inside no other."""
        seen: dict[Node, bool] = {}
        stack = [root]
        while stack:
            n = stack.pop()
            if n in seen:
                continue
            seen[n] = n.op in MONOIDS
            if not seen[n]:
                stack.extend(
                    a.node for a in n.args if a.node not in self.cut and a.node.op not in SOURCES
                )
        return [n for n in self.order if seen.get(n)]

    def with_map(self, n: Node, root: Node, beside: list[Node]) -> Node:
        """The last value that is made of this contraction and of none of the others, no larger than it is."""
        last = n
        for user in self.inside(root):
            made_of = [b for b in self.beside(user) if b in beside]
            is_map = made_of == [n] and user.dtype is n.dtype and user is not root
            if is_map and volume_of(user.shape) <= volume_of(n.shape):
                last = user
        self.cut.add(last)
        again = n in self.beside(root)
        self.cut.remove(last)
        return n if again else last

    def contracted(self, n: Node) -> list[Node]:
        """The operands of a reduction that hold a contraction, and are stored nowhere yet."""
        axes = tuple(Axis(f"n{self.number[n]}_{d}", e) for d, e in enumerate(n.shape))
        _, where = self.reduced(n, axes)
        return [
            node
            for node, value in self.factors(n.args[0], where)
            if node.op not in SOURCES
            and node not in self.cut
            and any(isinstance(r, Reduce) and product_factors(r) for r in walk([value]))
        ]

    def contracts(self, n: Node) -> bool:
        value = self.inlined(n)[1]
        return isinstance(value, Reduce) and product_factors(value) is not None

    def decide_at(self, n: Node) -> None:
        axes = tuple(Axis(f"n{self.number[n]}_{d}", e) for d, e in enumerate(n.shape))
        bound, where = self.reduced(n, axes)
        factors = self.factors(n.args[0], where)
        values = [value for _, value in factors]
        contracts = is_contraction(tuple(values), axes, bound)
        for node, value in factors:
            if node.op in SOURCES or node in self.cut:
                continue
            varying = any(free_axes(r) & set(bound) for r in walk([value]) if isinstance(r, Reduce))
            wanted = varying or (contracts and not is_plain(value))
            if not wanted or is_expanding(value, axes, contracts):
                continue
            if is_bounded_by_data(value, bound):
                self.bounded.add(node)
            else:
                self.materialise([node])

    def factors(self, e: Edge, where: tuple[Ix, ...]) -> list[tuple[Node, Expr]]:
        """The operands of the product that a reduction ranges over; the operand itself if it is no product."""
        at, valid = e.view.at(where)
        n = e.node
        plain_product = n.op is Op.MUL and not any(a.dtype.is_bool for a in n.args)
        if plain_product and not valid and n not in self.cut:
            return [(a.node, self.at_edge(a, at)) for a in n.args]
        return [(n, self.at_edge(e, where))]

    def materialise(self, nodes: Iterable[Node]) -> None:
        """Cut at these nodes, and forget the expressions that inlined them."""
        stack = list(nodes)
        self.cut.update(stack)
        stale: set[Node] = set()
        while stack:
            n = stack.pop()
            for user in self.users[n]:
                if user in self.memo and user not in stale:
                    stale.add(user)
                    stack.append(user)
        for n in stale:
            del self.memo[n]

    def whole_numbers_beside_contractions(self) -> list[Node]:
        """Reductions of integers or truth values in regions that hold a contraction."""
        out: dict[Node, None] = {}
        for root in self.roots():
            inner = [n for n in self.inside(root) if n.op in MONOIDS]
            if any(n.op is Op.SUM_REDUCE and self.contracts(n) for n in inner):
                out.update(
                    dict.fromkeys(n for n in inner if not n.dtype.is_float and n is not root)
                )
        return list(out)

    def shared_reductions(self) -> list[Node]:
        """Reductions that more than one region would compute, the ones nearest to the inputs."""
        owners: dict[Node, int] = {}
        for root in self.roots():
            for n in self.inside(root):
                if n.op in MONOIDS and n is not root:
                    owners[n] = owners.get(n, 0) + 1
        return [n for n in self.order if owners.get(n, 0) > 1 and self.runs(n)]

    def runs(self, n: Node) -> bool:
        """Whether the reduction is still one after sifting (a gather costs nothing to repeat)."""
        return isinstance(self.inlined(n)[1], Reduce)

    def reductions_of_versions(self) -> list[Node]:
        """The first reduction in each new version of a state, of which vector loops move what is new."""
        versions = {e.node for _, e in self.graph.updates} & set(self.roots())
        found: dict[Node, None] = {}
        for root in versions:
            inside = (n for n in self.inside(root) if n is not root and n.op in MONOIDS)
            found.update(dict.fromkeys([n for n in inside if self.runs(n)][:1]))
        return list(found)

    # ---- regions ----

    def roots(self) -> list[Node]:
        """Nodes that are stored: cut ones and whatever an output shows."""
        shown = {e.node for e in self.graph.roots() if e.node not in self.cut}
        return [n for n in self.order if n in self.cut or n in shown]

    def inside(self, root: Node) -> list[Node]:
        """The nodes that the root's region computes."""
        seen: set[Node] = set()
        stack = [root]
        while stack:
            n = stack.pop()
            if n in seen:
                continue
            seen.add(n)
            stack.extend(
                a.node for a in n.args if a.node not in self.cut and a.node.op not in SOURCES
            )
        return [n for n in self.order if n in seen]

    def regions(self) -> tuple[Region, ...]:
        out: list[Region] = []
        for n in (n for n in self.order if n in self.cut):
            if n.op is Op.NATIVE and not self.is_stored(n.args[0]):
                out.append(self.stored(self.copy_of(n), n.args[0]))
            out.append(self.region(n))
        states: dict[Node, list[Buffer]] = {}
        for number, (state, e) in enumerate(self.graph.updates):
            made = states.setdefault(state, [])
            if is_whole(e):
                made.append(self.buffer(e.node))
            else:
                made.append(Buffer(f"u{number}", Role.TEMP, e.shape, e.dtype))
                out.append(self.stored(made[-1], e))
        kept = [self.buffers[n] for n in self.cut]
        stored = {b.name for b in kept if b.role is Role.OUTPUT}
        for name, e in self.graph.outputs:
            if name in stored:
                continue
            out.append(self.stored(Buffer(name, Role.OUTPUT, e.shape, e.dtype), e))
        versions = (Versions(self.buffer(n), tuple(made)) for n, made in states.items())
        return place_versions(tuple(out), tuple(versions))

    def stored(self, dst: Buffer, e: Edge) -> Region:
        """What an edge shows, in a buffer of its own."""
        axes = tuple(Axis(f"o{d}", extent) for d, extent in enumerate(e.shape))
        at = tuple(ix(a) for a in axes)
        value = stored_as(dst, guard_reductions(self.at_edge(e, at)))
        return Region((Store(dst, axes, at, value),), self.lines(e.node))

    def region(self, n: Node) -> Region:
        axes, body = self.inlined(n)
        at = tuple(ix(a) for a in axes)
        dst = self.buffer(n)
        value = stored_as(dst, guard_reductions(body))
        native = n.attr.name if isinstance(n.attr, Kernel) else None
        return Region((Store(dst, axes, at, value),), self.lines(n), native)

    def lines(self, root: Node) -> tuple[SourceLocation, ...]:
        found = {line: None for n in self.inside(root) for line in self.graph.lines.get(n, ())}
        return tuple(sorted(found, key=lambda line: (line.file, line.line)))


def is_whole(e: Edge) -> bool:
    """Whether the edge shows a computed value as it is."""
    return e.node.op not in SOURCES and e.view == identity(e.node.shape)


def stored_as(dst: Buffer, value: Expr) -> Expr:
    """The value without a rounding that the store does."""
    if dst.dtype is not value.dtype and isinstance(value, Prim) and value.op is Op.CONTIGUOUS:
        (rounded,) = value.args
        if isinstance(rounded, Prim) and rounded.dtype is dst.dtype:
            (inner,) = rounded.args
            return inner if inner.dtype is value.dtype else value
    return value


def is_plain(e: Expr) -> bool:
    """Whether the value is read from memory as it is (guarded perhaps, or a constant), not computed."""
    if isinstance(e, Choose):
        return (
            isinstance(e.condition, Holds) and is_plain(e.then) and isinstance(e.otherwise, Const)
        )
    return isinstance(e, Read | Const | Index)


def is_contraction(
    factors: tuple[Expr, ...], free: tuple[Axis, ...], bound: tuple[Axis, ...]
) -> bool:
    """Whether a sum over `bound` of the product has columns for each of its two factors: a matrix product."""
    if len(factors) != 2:
        return False
    a, b = (free_axes(f) for f in factors)
    reduced = set(bound)
    return bool(a & b & reduced) and bool((a - b) & set(free)) and bool((b - a) & set(free))


def is_expanding(value: Expr, kept: tuple[Axis, ...], contracts: bool) -> bool:
    """Whether a factor is much larger than all it is made of and all it is reduced to (see the module)."""
    inner = [r for r in walk([value]) if isinstance(r, Reduce)]
    contractions = [r for r in inner if product_factors(r) is not None]
    if not contractions or any(_nested(r) for r in contractions):
        return False
    made_of = {e.source for e in walk([value]) if isinstance(e, Read)}
    weighted = any(b.role is Role.WEIGHT and _feeds(b, contractions) for b in made_of)
    if weighted and not (contracts and len(inner) == 1):
        return False  # only a product consumes a product with weights tile by tile
    limit = LONGEST if weighted else ON_CHIP
    row = volume(frozenset(kept) - free_axes(value))
    depth = max(volume(frozenset(r.axes)) for r in contractions)
    largest = max((volume_of(b.dims) for b in made_of), default=1)
    return row <= limit and depth <= limit and volume(free_axes(value)) >= EXPANSION * largest


def is_bounded_by_data(value: Expr, bound: tuple[Axis, ...]) -> bool:
    """Whether a contraction in the value is wanted only where an axis in `bound` fits an integer that is read."""
    nodes = walk([value])
    if not any(isinstance(r, Reduce) and product_factors(r) is not None for r in nodes):
        return False
    asked = (c for e in nodes if isinstance(e, Holds) for c in e.conditions)
    return any(
        c.axes & frozenset(bound) and any(isinstance(a, Lookup) for a in c.slack.atoms())
        for c in asked
    )


def has_nested_contraction(e: Expr) -> bool:
    """Whether a contraction varies with the axes of a reduction around it."""
    return any(
        isinstance(r, Reduce) and product_factors(r) is not None and free_axes(r) & set(outer.axes)
        for outer in walk([e])
        if isinstance(outer, Reduce)
        for r in walk([outer.body])
    )


def product_factors(r: Reduce) -> tuple[Expr, Expr] | None:
    """The two factors of a contraction; None if the reduction is not one."""
    if r.monoid is not Monoid.SUM or r.where:
        return None
    if not isinstance(r.body, Prim) or r.body.op is not Op.MUL:
        return None
    a, b = r.body.args
    return (a, b) if is_contraction((a, b), tuple(free_axes(r)), r.axes) else None


def _contractions_beside(e: Expr) -> Iterator[Reduce]:
    """The contractions in a value that are inside no other reduction."""
    return (r for r in _reductions_beside(e) if product_factors(r) is not None)


def _reductions_beside(e: Expr) -> Iterator[Reduce]:
    """The reductions in a value that are inside no other."""
    seen: set[Expr] = set()
    stack = [e]
    while stack:
        x = stack.pop()
        if x in seen:
            continue
        seen.add(x)
        if isinstance(x, Reduce):
            yield x
        else:
            stack.extend(children(x))


def _nested(r: Reduce) -> bool:
    return any(isinstance(x, Reduce) and free_axes(x) & set(r.axes) for x in walk([r.body]))


def _feeds(b: Buffer, contractions: list[Reduce]) -> bool:
    return any(isinstance(e, Read) and e.source == b for r in contractions for e in walk([r.body]))


def volume(axes: Iterable[Axis]) -> int:
    """The product of the extents at the dims' typical values."""
    return volume_of(tuple(a.extent for a in axes))


def volume_of(extents: tuple[Ix, ...]) -> int:
    return product(extents).estimate()
