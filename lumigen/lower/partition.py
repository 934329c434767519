"""partition: cut the graph into regions of index notation.

Before: a graph.  After: regions in launch order, one store each; every value that is computed in one region and
read in another has a buffer. Whatever is not cut is inlined, so elementwise fusion needs no pass of its own.

The cuts are the heuristic's. They fall at the same places in each repeated layer:

1. at a factor of a contraction that is itself computed, unless the factor is *expanding* (below); a vector times
   weights is one too where the device says so;
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
9. at each scan, and at reductions in what it scans. One whose step maps elements alone is a region; any other is a
   loop around the regions of its body, each of which runs once for each step.
10. at a reduction with much to add up that a region reads at several places: each of them would add it up
    again;
11. at a transcendental that several regions read like a table, each for many more elements than it has;
12. at a contraction with much to add up that a region wants at some of its places, as a concatenation does: no
    tile of products has them alone.

A factor is kept too if integers that are read bound the axes of the reduction, as a position does in a cache: only
the loop of the reduction leaves out what lies beyond them.

A factor is expanding if it holds a contraction of buffers that are all much smaller than it is, and so is what it
is reduced to: then it never exists as a whole, the outer reduction consumes it tile by tile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice

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
from lumigen.index import Axis, Ix, ix
from lumigen.lower.contractions import (
    contractions_beside,
    has_nested_contraction,
    is_bounded_by_data,
    is_contraction,
    is_expanding,
    is_plain,
    is_product_of_one_row,
    product_factors,
    reductions_beside,
    scored_factors,
    volume,
    volume_of,
)
from lumigen.lower.guard import guard_reductions
from lumigen.lower.measure import Sizes
from lumigen.lower.places import (
    At,
    Looped,
    Place,
    along,
    is_map,
    is_whole,
    is_widened,
    loop_of,
    looped,
    ordered,
    read_step,
    stored_as,
)
from lumigen.lower.versions import Versions, place_versions
from lumigen.ops import ROWS, SOURCES, TRANSCENDENTALS, Form, Op
from lumigen.region import (
    Buffer,
    Expr,
    Monoid,
    Reduce,
    Region,
    Role,
    Store,
    carried,
    choose,
    const,
    free_axes,
    holds,
    index,
    prim,
    random,
    read,
    reduce,
    scan,
    substitute,
    walk,
)
from lumigen.view import identity

TABLE = 8  # elements of a region for each one of a value: then it is a table
MANY_TERMS = 1 << 20  # of all elements of a reduction: more than it takes to store and read them

ROLES = {Op.INPUT: Role.INPUT, Op.WEIGHT: Role.WEIGHT, Op.STATE: Role.STATE}
MONOIDS = {Op.SUM_REDUCE: Monoid.SUM, Op.MAX_REDUCE: Monoid.MAX}


def partition(
    graph: Graph,
    runs_whole: Callable[[Region], bool],
    in_loops: Callable[[Region], bool],
    *,
    one_row: bool = False,
) -> tuple[Region, ...]:
    """The regions of a graph, in an order in which every buffer is stored before it is read.

    `runs_whole` says whether some skeleton runs a region whose contraction is inside another reduction; where none
    does, the inner contraction is cut after all. `in_loops` says whether a region of one contraction has no other
    skeleton than loops over vectors, which may as well hold several. With `one_row` a vector times weights is a
    contraction too.
    """
    return _Builder(graph, _Can(runs_whole, in_loops, one_row)).cut_up()


@dataclass(frozen=True)
class _Can:
    """What skeletons can run."""

    runs_whole: Callable[[Region], bool]
    in_loops: Callable[[Region], bool]
    one_row: bool


@dataclass
class _Builder:
    graph: Graph
    can: _Can
    prefix: str = ""  # of the names of its buffers and axes
    given: Mapping[Node, Callable[[At], Expr]] = field(
        default_factory=dict[Node, Callable[[At], Expr]]
    )  # what the inputs of a body are
    shown: list[tuple[Place, Edge]] = field(default_factory=list[tuple[Place, Edge]])
    loops: dict[Node, Looped] = field(default_factory=dict[Node, "Looped"])  # by their results
    order: list[Node] = field(init=False)
    number: dict[Node, int] = field(init=False)
    users: dict[Node, list[Node]] = field(init=False)
    cut: set[Node] = field(default_factory=set[Node])
    bounded: set[Node] = field(default_factory=set[Node])  # kept for the sake of a loop's bounds
    memo: dict[Node, tuple[tuple[Axis, ...], Expr]] = field(
        default_factory=dict[Node, tuple[tuple[Axis, ...], Expr]]
    )
    places: dict[Node, Place] = field(default_factory=dict[Node, Place])

    def cut_up(self) -> tuple[Region, ...]:
        self.decide_cuts()
        while cut := (
            self.refused(self.can.runs_whole)
            or self.side_by_side(self.can.in_loops)
            or self.seen_again()
            or self.wanted_in_parts()
        ):
            self.materialise(cut)
            self.decide_cuts()
        return self.regions()

    def __post_init__(self) -> None:
        self.order = toposort((*self.graph.inputs, *(e.node for e in self.graph.roots())))
        self.number = {n: i for i, n in enumerate(self.order)}
        self.users = {n: [] for n in self.order}
        for n in self.order:
            for a in n.args:
                self.users[a.node].append(n)
        for n in (n for n in self.order if n.op is Op.SCAN):
            loop = loop_of(n)
            if not is_map(loop):
                found = next((x for x in self.loops.values() if x.is_of(n)), None)
                name = f"{self.prefix}loop{len(set(self.loops.values()))}"
                made = self.loops[n] = found or looped(name, n)
                self.places[n] = Place(
                    made.results[loop.result], (), loop.axis, int(loop.result < loop.carries)
                )
        if not self.shown:
            self.shown = [
                (Place(Buffer(name, Role.OUTPUT, e.shape, e.dtype)), e)
                for name, e in self.graph.outputs
            ]
        for place, e in self.shown:
            if is_whole(e) and e.node not in self.places:
                self.places[e.node] = place

    # ---- expressions ----

    def place(self, n: Node) -> Place:
        if n not in self.places:
            if n.op in ROLES:
                tensor = tensor_of(n)
                made = Buffer(tensor.name, ROLES[n.op], n.shape, n.dtype, tensor.range)
            else:
                name = f"{self.prefix}t{self.number[n]}"
                made = Buffer(name, Role.TEMP, n.shape, n.dtype)
            self.places[n] = Place(made)
        return self.places[n]

    def at_edge(self, e: Edge, where: tuple[Ix, ...]) -> Expr:
        """What the edge shows at a position."""
        at, valid = e.view.at(where)
        body = self.at_node(e.node, at)
        return choose(holds(valid), body, const(e.view.fill, computed(e.dtype))) if valid else body

    def at_node(self, n: Node, at: tuple[Ix, ...]) -> Expr:
        if n in self.given:
            return self.given[n](at)
        if n.op in ROLES or n in self.cut:
            place = self.place(n)
            return read(place.buffer, place.at(at))
        if n.op is Op.CONST:
            return const(literal_of(n), computed(n.dtype))
        if n.op is Op.IOTA:
            return index(at[0], computed(n.dtype))
        axes, body = self.inlined(n)
        return substitute(body, dict(zip(axes, at, strict=True)))

    def inlined(self, n: Node) -> tuple[tuple[Axis, ...], Expr]:
        """The node's value over axes of its own, with everything inlined that is not cut."""
        if n not in self.memo:
            axes = tuple(
                Axis(f"{self.prefix}n{self.number[n]}_{d}", e) for d, e in enumerate(n.shape)
            )
            self.memo[n] = axes, self.body(n, axes)
        return self.memo[n]

    def body(self, n: Node, axes: tuple[Axis, ...]) -> Expr:
        if n in self.loops:
            place = self.place(n)
            return read(place.buffer, place.at(tuple(map(ix, axes))))
        if n.op is Op.SCAN:
            return self.scanned(n, axes)
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
        inside = _Builder(meaning, self.can)
        for source, e in zip(meaning.inputs, n.args, strict=True):
            inside.places[source] = self.place(e.node) if self.is_stored(e) else self.copy_of(n)
        ((_, out),) = meaning.outputs
        return inside.at_edge(out, tuple(map(ix, axes)))

    def is_stored(self, e: Edge) -> bool:
        """Whether some buffer holds just what the edge shows."""
        kept = e.node.op in ROLES or e.node in self.cut
        in_slices = e.node in self.given or e.node in self.loops
        return kept and not in_slices and e.view == identity(e.node.shape)

    def copy_of(self, n: Node) -> Place:
        """The buffer of what a native node reads, where no other has it."""
        (e,) = n.args
        return Place(Buffer(f"{self.prefix}t{self.number[n]}_rows", Role.TEMP, e.shape, e.dtype))

    def reduced(self, n: Node, axes: tuple[Axis, ...]) -> tuple[tuple[Axis, ...], tuple[Ix, ...]]:
        """The bound axes of a reduction, and the positions of its operand over them and `axes`."""
        extents = n.args[0].shape
        gone = axes_of(n)
        bound = tuple(Axis(f"{self.prefix}n{self.number[n]}_k{d}", extents[d]) for d in gone)
        free = iter(axes)
        by_dim = dict(zip(gone, bound, strict=True))
        where = tuple(ix(by_dim[d]) if d in by_dim else ix(next(free)) for d in range(len(extents)))
        return bound, where

    def scanned(self, n: Node, axes: tuple[Axis, ...]) -> Expr:
        """A scan whose step maps elements."""
        loop = loop_of(n)
        t, rest = axes[loop.axis], (*axes[: loop.axis], *axes[loop.axis + 1 :])
        at = tuple(map(ix, rest))
        carry, element, *others = loop.body.inputs
        first, elements, *taken = n.args
        inner = _Builder(loop.body, self.can, f"{self.prefix}n{self.number[n]}_")
        kind, known = computed(carry.dtype), loop.monoid is not None
        inner.given = {
            carry: lambda _: carried(0, "old", kind),
            element: lambda where: (
                carried(0, "new", kind) if known else self.at_edge(elements, along(loop, t, where))
            ),
            **{i: partial(self.at_edge, e) for i, e in zip(others, taken, strict=True)},
        }
        step = inner.at_edge(loop.body.outputs[0][1], at)
        of = self.at_edge(elements, along(loop, t, at)) if known else None
        return scan(t, self.at_edge(first, at), step, of, loop.monoid)

    # ---- cuts ----

    def decide_cuts(self) -> None:
        """Apply the rules until none of them cuts: a factor no longer expands once what it holds is stored."""
        self.materialise(e.node for _, e in self.graph.updates if is_whole(e))
        native = [n for n in self.order if n.op is Op.NATIVE]
        read = (e.node for n in native for e in n.args)
        self.materialise([*native, *(a for a in read if a.op not in SOURCES)])
        self.materialise(self.scans())
        done = None
        while done != len(self.cut):
            done = len(self.cut)
            sizes = Sizes(self.cut)
            for n in self.order:
                if n.op in MONOIDS:
                    self.decide_at(n)
                if n not in self.cut and self.is_large(n, sizes):
                    self.materialise([n])
            self.materialise(self.shared_reductions())
            self.materialise(self.tables())
            self.materialise(self.whole_numbers_beside_contractions())
            self.materialise(self.reductions_of_versions())
        self.memo.clear()

    def scans(self) -> list[Node]:
        """Scans, and what one that is a loop is given; of any other what is given with a reduction in it."""
        out: list[Node] = []
        for n in (n for n in self.order if n.op is Op.SCAN):
            for a in (e.node for e in n.args):
                if a in self.given or a.op in SOURCES or is_widened(a):
                    continue
                inside = [x for x in self.inside(a) if x.op in MONOIDS or x.op is Op.SCAN]
                out += [a] if n in self.loops or inside else []
            out.append(n)
        return out

    def is_large(self, n: Node, sizes: Sizes) -> bool:
        """Whether a value is made of too much. Its operands are not, so that no expression ever gets long."""
        sizes.measure(n)
        if sizes.is_deep(n):  # what was cut since shortens it
            for a in self.order[: self.number[n] + 1]:
                sizes.measure(a)
        if sizes.is_long(n):
            sizes.spelled[n] = len(walk([self.inlined(n)[1]]))
        return sizes.is_deep(n) or sizes.is_long(n)

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
            nested = bool(inner) and has_nested_contraction(
                self.inlined(root)[1], one_row=self.can.one_row
            )
            nested |= any(n in self.bounded for n in inside if n is not root)
            if nested and not runs_whole(self.region(root)):
                operands = [f for n in inside if n.op in MONOIDS for f in self.contracted(n)]
                out.update(dict.fromkeys(self.innermost(operands) or inner))
            elif nested and root not in self.cut and not self.shown_whole(root, runs_whole):
                out[root] = None
        return list(out)

    def innermost(self, nodes: list[Node]) -> list[Node]:
        """Those that hold none of the others: what is left of the region may run whole once they are stored."""
        return [n for n in nodes if not set(self.inside(n)) & ({*nodes} - {n})]

    def shown_whole(self, n: Node, runs_whole: Callable[[Region], bool]) -> bool:
        """Whether a skeleton runs the node's region as each output shows it."""
        edges = [e for e in self.showing() if e.node is n and not is_whole(e)]
        shown = (Buffer(f"o{i}", Role.OUTPUT, e.shape, e.dtype) for i, e in enumerate(edges))
        return all(runs_whole(self.stored(Place(b), e)) for b, e in zip(shown, edges, strict=True))

    def side_by_side(self, in_loops: Callable[[Region], bool]) -> list[Node]:
        """Where to cut regions that hold contractions side by side: the last one stays with what follows it.

        Of the others what is done to each alone is stored, unless it is larger; one that is seen at several places
        is stored itself.
        """
        out: dict[Node, None] = {}
        for root in self.roots():
            beside = [n for n in self.beside(root) if self.contracts(n)]
            value = self.inlined(root)[1]
            if len(list(contractions_beside(value, one_row=self.can.one_row))) < 2:
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
            places = Counter(r.axes for r in reductions_beside(self.inlined(root)[1]))
            if not any(count > 1 for count in places.values()):
                continue
            for n in self.beside(root):
                axes = tuple(Axis(f"n{self.number[n]}_{d}", e) for d, e in enumerate(n.shape))
                bound, _ = self.reduced(n, axes)
                if places[bound] > 1 and volume(bound) * volume_of(n.shape) >= MANY_TERMS:
                    out[n] = None
        return list(out)

    def wanted_in_parts(self) -> list[Node]:
        """Contractions that a region wants at some of its places, with what is done to each of them alone."""
        out: dict[Node, None] = {}
        for root in self.roots():
            value = guard_reductions(self.inlined(root)[1])
            guarded = {r.axes for r in reductions_beside(value) if r.where}
            beside = self.beside(root) if guarded else []
            for n in beside:
                axes = tuple(Axis(f"n{self.number[n]}_{d}", e) for d, e in enumerate(n.shape))
                bound, _ = self.reduced(n, axes)
                many = volume(bound) * volume_of(n.shape) >= MANY_TERMS
                if bound in guarded and many and n is not root and self.contracts(n):
                    out[self.with_map(n, root, beside)] = None
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
        axes = tuple(Axis(f"{self.prefix}n{self.number[n]}_{d}", e) for d, e in enumerate(n.shape))
        _, where = self.reduced(n, axes)
        return [
            node
            for node, value in self.factors(n.args[0], where)
            if node.op not in SOURCES
            and node not in self.cut
            and any(
                isinstance(r, Reduce) and scored_factors(r, one_row=self.can.one_row)
                for r in walk([value])
            )
        ]

    def contracts(self, n: Node) -> bool:
        value = self.inlined(n)[1]
        if not isinstance(value, Reduce):
            return False
        return product_factors(value, one_row=self.can.one_row) is not None

    def decide_at(self, n: Node) -> None:
        axes = tuple(Axis(f"{self.prefix}n{self.number[n]}_{d}", e) for d, e in enumerate(n.shape))
        bound, where = self.reduced(n, axes)
        factors = self.factors(n.args[0], where)
        values = [value for _, value in factors]
        contracts = is_contraction(tuple(values), axes, bound)
        contracts |= self.can.one_row and is_product_of_one_row(tuple(values), axes, bound)
        for node, value in factors:
            if node.op in SOURCES or node in self.cut:
                continue
            varying = any(free_axes(r) & set(bound) for r in walk([value]) if isinstance(r, Reduce))
            wanted = varying or (contracts and not is_plain(value))
            # windows show a value again and again, which makes it no larger
            size = min(volume_of(node.shape), volume(free_axes(value)))
            if not wanted or is_expanding(value, size, axes, contracts):
                continue
            if is_bounded_by_data(value, bound, one_row=self.can.one_row):
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

    def tables(self) -> list[Node]:
        """Transcendentals that several regions would compute again and again, without those that are inside others."""
        owners: dict[Node, list[Node]] = {}
        for root in self.roots():
            for n in self.inside(root):
                if n.op in TRANSCENDENTALS and n is not root:
                    owners.setdefault(n, []).append(root)
        found = [
            n
            for n, roots in owners.items()
            if len(roots) > 1
            and all(volume_of(r.shape) >= TABLE * volume_of(n.shape) for r in roots)
        ]
        within = {inner for n in found for inner in self.inside(n) if inner is not n}
        return [n for n in found if n not in within]

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

    def showing(self) -> list[Edge]:
        """What is stored for others to see."""
        return [e for e in self.graph.roots() if e.node not in self.given]

    def roots(self) -> list[Node]:
        """Nodes that are stored: cut ones and whatever an output shows."""
        shown = {e.node for e in self.showing() if e.node not in self.cut}
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
        begun: set[Looped] = set()
        for n in (n for n in self.order if n in self.cut):
            if n.op is Op.NATIVE and not self.is_stored(n.args[0]):
                out.append(self.stored(self.copy_of(n), n.args[0]))
            if n not in self.loops:
                out.append(self.region(n))
            elif self.loops[n] not in begun:
                begun.add(self.loops[n])
                out += self.looped(n, self.loops[n])
        states: dict[Node, list[Buffer]] = {}
        for number, (state, e) in enumerate(self.graph.updates):
            made = states.setdefault(state, [])
            if is_whole(e) and e.node not in self.loops:
                made.append(self.place(e.node).buffer)
            else:
                made.append(Buffer(f"u{number}", Role.TEMP, e.shape, e.dtype))
                out.append(self.stored(Place(made[-1]), e))
        stored = {self.place(n) for n in self.cut}
        out += [self.stored(place, e) for place, e in self.shown if place not in stored]
        versions = (Versions(self.place(n).buffer, tuple(made)) for n, made in states.items())
        return place_versions(tuple(out), tuple(versions))

    def looped(self, n: Node, made: Looped) -> list[Region]:
        """What goes into a loop, then the regions of its body."""
        loop = loop_of(n)
        step = ix(made.step)
        out: list[Region] = []
        given: dict[Node, Callable[[At], Expr]] = {}
        inputs = iter(zip(loop.body.inputs, n.args, strict=True))
        for carry, (i, e) in zip(made.results, islice(inputs, loop.carries), strict=False):
            out.append(self.stored(Place(carry, (ix(0),)), e))
            given[i] = partial(read_step, carry, step)
        for number, (i, e) in enumerate(islice(inputs, loop.elements)):
            if loop.axis == 0 and e.view == identity(e.node.shape) and self.has_slices(e.node):
                given[i] = partial(self.at_step, e.node, step)
                continue
            shape = (loop.length, *i.shape)
            b = Buffer(f"{made.name}_element{number}", Role.TEMP, shape, e.dtype)
            out.append(self.stored(Place(b, (), loop.axis), e))
            given[i] = partial(read_step, b, step)
        given |= {i: partial(self.at_edge, e) for i, e in inputs}
        shown = [
            (Place(b, (step + (k < loop.carries),)), e)
            for k, (b, (_, e)) in enumerate(zip(made.results, loop.body.outputs, strict=True))
        ]
        inner = _Builder(loop.body, self.can, f"{made.name}_", given, shown)
        body = inner.cut_up()
        lines = self.graph.lines.get(n, ())
        return out + [replace(r, steps=(made.step, *r.steps), lines=r.lines or lines) for r in body]

    def has_slices(self, n: Node) -> bool:
        """Whether steps can read it where it lies."""
        return n in self.cut or (n.op is Op.INPUT and n not in self.given)

    def at_step(self, n: Node, step: Ix, at: At) -> Expr:
        return self.at_node(n, (step, *at))

    def stored(self, place: Place, e: Edge) -> Region:
        """What an edge shows, in a buffer of its own."""
        axes = tuple(Axis(f"{self.prefix}o{d}", extent) for d, extent in enumerate(e.shape))
        at = tuple(ix(a) for a in axes)
        value = stored_as(place.buffer, guard_reductions(self.at_edge(e, at)))
        return Region(
            (ordered(Store(place.buffer, axes, place.at(at), value)),), self.lines(e.node)
        )

    def region(self, n: Node) -> Region:
        axes, body = self.inlined(n)
        place = self.place(n)
        value = stored_as(place.buffer, guard_reductions(body))
        at = place.at(tuple(ix(a) for a in axes))
        native = n.attr.name if isinstance(n.attr, Kernel) else None
        return Region((Store(place.buffer, axes, at, value),), self.lines(n), native)

    def lines(self, root: Node) -> tuple[SourceLocation, ...]:
        found = {line: None for n in self.inside(root) for line in self.graph.lines.get(n, ())}
        return tuple(sorted(found, key=lambda line: (line.file, line.line)))
