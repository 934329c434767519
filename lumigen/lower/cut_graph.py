"""cut_graph: what the nodes of a graph compute, and the regions that a set of cuts makes of it.

Consumers of a value that is cut read its buffer; everything else is inlined, so elementwise fusion needs no pass of
its own. Which nodes are cut is decided elsewhere (`cuts`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from lumigen.dtype import DType, computed
from lumigen.errors import SourceLocation
from lumigen.graph import (
    Edge,
    Graph,
    Kernel,
    Node,
    RandomStream,
    axes_of,
    literal_of,
    tensor_of,
    toposort,
)
from lumigen.index import Axis, Ix, ix
from lumigen.lower.alike import Alike, form_of
from lumigen.lower.factors import split_axes
from lumigen.lower.gathers import gathered
from lumigen.lower.guard import guard_reductions
from lumigen.lower.measure import Sizes, deepest
from lumigen.lower.peel import peel_reductions
from lumigen.lower.places import (
    At,
    Looped,
    Place,
    along,
    is_map,
    is_whole,
    loop_of,
    looped,
    ordered,
    stored_as,
)
from lumigen.lower.quotients import whole_number
from lumigen.memo import remembered
from lumigen.ops import ROWS, SOURCES, Form, Op
from lumigen.region import (
    Buffer,
    Expr,
    Monoid,
    Region,
    Role,
    Store,
    as_index,
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
from lumigen.view import Shape, identity

ROLES = {Op.INPUT: Role.INPUT, Op.WEIGHT: Role.WEIGHT, Op.STATE: Role.STATE}
Answer = TypeVar("Answer")
MONOIDS = {Op.SUM_REDUCE: Monoid.SUM, Op.MAX_REDUCE: Monoid.MAX}


@dataclass
class CutGraph:
    """A graph and the nodes that it is cut at, which only become more."""

    graph: Graph
    prefix: str = ""  # of the names of its buffers and axes
    given: Mapping[Node, Callable[[At], Expr]] = field(
        default_factory=dict[Node, Callable[[At], Expr]]
    )  # what the inputs of a body are
    shown: list[tuple[Place, Edge]] = field(default_factory=list[tuple[Place, Edge]])
    loops: dict[Node, Looped] = field(default_factory=dict[Node, "Looped"])  # by their results
    order: list[Node] = field(init=False)
    number: dict[Node, int] = field(init=False)
    users: dict[Node, list[Node]] = field(init=False)
    numbers: set[Node] = field(init=False)  # what is made of constants alone
    cut: set[Node] = field(default_factory=set[Node])
    wanted_by: dict[Node, Callable[..., object]] = field(
        default_factory=dict[Node, Callable[..., object]]
    )  # the first rule that cut a node
    memo: dict[Node, tuple[tuple[Axis, ...], Expr]] = field(
        default_factory=dict[Node, tuple[tuple[Axis, ...], Expr]]
    )
    folds: dict[tuple[Node, ...], tuple[Node, ...] | None] = field(
        default_factory=dict[tuple[Node, ...], "tuple[Node, ...] | None"]
    )  # what is to be stored so that these are folded together, as far as a rule has asked
    mapped: dict[Node, bool] = field(
        default_factory=dict[Node, bool]
    )  # whether products compute it as their rows, as far as a rule has asked
    places: dict[Node, Place] = field(default_factory=dict[Node, Place])
    sizes: Sizes = field(init=False)
    alike: Alike = field(default_factory=Alike)

    def __post_init__(self) -> None:
        self.sizes = Sizes(self.cut)
        self.order = toposort((*self.graph.inputs, *(e.node for e in self.graph.roots())))
        self.number = {n: i for i, n in enumerate(self.order)}
        self.users, self.numbers = {n: [] for n in self.order}, set[Node]()
        for n in self.order:
            for a in n.args:
                self.users[a.node].append(n)
            if n.op is Op.CONST or (n.args and all(a.node in self.numbers for a in n.args)):
                self.numbers.add(n)
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
            wider = self.held(e.node) is not place.buffer.dtype and self.users[e.node]
            if is_whole(e) and e.node not in self.places and not wider:
                self.places[e.node] = place

    def materialise(self, nodes: Iterable[Node], rule: Callable[..., object] | None = None) -> None:
        """Cut at these nodes, as a rule wants it, and forget the expressions that inlined them."""
        stack = list(nodes)
        if not stack:
            return
        self.folds.clear()
        added = [n for n in stack if n.dtype.is_int]
        self.cut.update(stack)
        if rule is not None:
            self.wanted_by = dict.fromkeys(stack, rule) | self.wanted_by
        stale: set[Node] = set()
        while stack:
            n = stack.pop()
            for user in self.users[n]:
                if user in self.memo and user not in stale:
                    stale.add(user)
                    stack.append(user)
        for n in stale:
            del self.memo[n]
        for n in sorted(added, key=self.number.__getitem__):
            self.place(
                n
            )  # after those of what it reads: the range of an integer follows from theirs

    def cut_also(self, n: Node) -> CutGraph:
        """The same graph cut at one node more; this one stays as it is."""
        out = copy(self)
        out.cut, out.memo, out.places = set(self.cut), dict(self.memo), dict(self.places)
        out.folds, out.mapped, out.sizes = {}, {}, Sizes(out.cut)
        out.materialise([n])
        return out

    # ---- expressions ----

    def place(self, n: Node) -> Place:
        if n not in self.places:
            if n.op in ROLES:
                tensor = tensor_of(n)
                made = Buffer(tensor.name, ROLES[n.op], n.shape, n.dtype, tensor.range)
            else:
                name = f"{self.prefix}t{self.number[n]}"
                made = Buffer(name, Role.TEMP, n.shape, self.held(n), self.range_of(n))
            self.places[n] = Place(made)
        return self.places[n]

    def range_of(self, n: Node) -> tuple[int, int] | None:
        """The least and the greatest of a stored integer, as far as its kernel or its index expression says them."""
        if isinstance(n.attr, Kernel):
            return _native_range(n.attr, n)
        value = as_index(self.inlined(n)[1]) if n.op in ROWS and n.dtype.is_int else None
        least, greatest = (None, None) if value is None else value.bounds()
        return None if least is None or greatest is None else (least, greatest)

    def held(self, n: Node) -> DType:
        """What a temporary holds the value as.

        Maxima, running ones too, as they were computed: they are compared with the elements that they are made of, and
        who compares these computes them anew and rounds none.
        """
        return computed(n.dtype) if n.op in (Op.MAX_REDUCE, Op.SCAN) else n.dtype

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
        if at == tuple(map(ix, axes)):
            return body
        return _at(body, axes, at)

    def inlined(self, n: Node) -> tuple[tuple[Axis, ...], Expr]:
        """The node's value over axes of its own, with everything inlined that is not cut."""
        stack = [
            n
        ]  # of what is not written down yet, operands last: a long chain has no long stack
        while stack:
            x = stack[-1]
            lacking = [] if x in self.memo else [a for a in self.inlined_by(x) if self._lacks(a)]
            stack += lacking
            if not lacking:
                stack.pop()
                if x not in self.memo:
                    axes = self.own_axes(x)
                    self.memo[x] = axes, self.body(x, axes)
        return self.memo[n]

    def _lacks(self, n: Node) -> bool:
        return n not in self.memo and n not in self.given and n.op in ROWS

    def own_axes(self, n: Node) -> tuple[Axis, ...]:
        """The axes that the node's value is written over.

        All nodes of a shape have the same, so that a chain of ops is written down once, not once more for each op.
        """
        return _named_axes(self.prefix, n.shape)

    def body(self, n: Node, axes: tuple[Axis, ...]) -> Expr:
        if n in self.loops:
            place = self.place(n)
            return read(place.buffer, place.at(tuple(map(ix, axes))))
        if n.op is Op.SCAN:
            return self.scanned(n, axes)
        if n.op in ROWS and ROWS[n.op].form is Form.REDUCE:
            bound, where = self.reduced(n, axes)
            body = self.at_edge(n.args[0], where)
            return gathered(reduce(MONOIDS[n.op], bound, body, computed(n.dtype)))
        if isinstance(n.attr, RandomStream):
            (key,) = (self.at_edge(a, ()) for a in n.args)
            place = ix(0)
            for a, extent in zip(axes, n.shape, strict=True):
                place = place * extent + a
            return random(key, place, n.attr.site, n.dtype)
        if isinstance(n.attr, Kernel):
            return self.meant(n, n.attr.meaning, axes)
        args = tuple(self.at_edge(a, tuple(ix(a) for a in axes)) for a in n.args)
        whole = whole_number(args[0], n.dtype) if n.op is Op.CONTIGUOUS else None
        if whole is not None:
            return whole
        if n.op is Op.CONTIGUOUS and n.dtype is not n.args[0].dtype:
            args = (
                prim(n.op, args, n.dtype),
            )  # rounds here, also where the value stays in a register
        return prim(n.op, args, computed(n.dtype))

    def meant(self, n: Node, meaning: Graph, axes: tuple[Axis, ...]) -> Expr:
        """What a native node computes, over the buffers that it reads."""
        inside = CutGraph(meaning)
        for source, e in zip(meaning.inputs, n.args, strict=True):
            inside.places[source] = self.place(e.node) if self.is_stored(e) else self.copy_of(n, e)
        ((_, out),) = meaning.outputs
        return inside.at_edge(out, tuple(map(ix, axes)))

    def is_stored(self, e: Edge) -> bool:
        """Whether some buffer holds just what the edge shows."""
        kept = e.node.op in ROLES or e.node in self.cut
        in_slices = e.node in self.given or e.node in self.loops
        return kept and not in_slices and e.view == identity(e.node.shape)

    def copy_of(self, n: Node, e: Edge) -> Place:
        """The buffer of what a native node reads, where no other has it."""
        name = "_".join(
            [f"{self.prefix}t{self.number[n]}", "rows", *(("values",) * n.args.index(e))]
        )
        return Place(Buffer(name, Role.TEMP, e.shape, e.dtype))

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
        (carry, *stepped), (first, *given) = loop.body.inputs, n.args
        inner = CutGraph(loop.body, f"{self.prefix}n{self.number[n]}_")
        kind, known = computed(carry.dtype), loop.monoid is not None
        to: dict[Node, Callable[[tuple[Ix, ...]], Expr]]
        to = {i: partial(self.at_edge, e) for i, e in zip(stepped, given, strict=True)}
        to[carry] = lambda _: carried(0, "old", kind)
        for i, e in zip(stepped[: loop.elements], given, strict=False):
            to[i] = lambda where, e=e: self.at_edge(e, along(loop, t, where))
        if known:  # then it is joined to one element
            to[stepped[0]] = lambda _: carried(0, "new", kind)
        inner.given = to
        step = inner.at_edge(loop.body.outputs[0][1], at)
        of = self.at_edge(given[0], along(loop, t, at)) if known else None
        return scan(t, self.at_edge(first, at), step, of, loop.monoid)

    def bound_axes(self, n: Node) -> tuple[Axis, ...]:
        """The axes that a reduction runs over."""
        return self.reduced(n, self.own_axes(n))[0]

    def factors(self, n: Node) -> list[tuple[Node, Expr]]:
        """The operands of the product that a reduction ranges over; its own operand if that is no product."""
        edges, where = self._multiplied(n)
        return [(e.node, self.at_edge(e, where)) for e in edges]

    def axes_of_factors(self, n: Node) -> list[frozenset[Axis]]:
        """The axes along which the operands of the product vary that a reduction ranges over, none of them written."""
        edges, where = self._multiplied(n)
        known = dict[Node, frozenset[int]]()
        return [self._axes_at(e, where, known) for e in edges]

    def has_inlined_factors(self, n: Node) -> bool:
        """Whether an operand of the product that a reduction ranges over is computed where it is read."""
        return any(
            e.node not in self.cut and e.node.op not in SOURCES for e in self._multiplied(n)[0]
        )

    def _multiplied(self, n: Node) -> tuple[tuple[Edge, ...], At]:
        """The operands of a product that a reduction ranges over, or its own, and where it reads them."""
        (e,) = n.args
        _, where = self.reduced(n, self.own_axes(n))
        at, valid = e.view.at(where)
        of = e.node
        plain_product = of.op is Op.MUL and not any(a.dtype.is_bool for a in of.args)
        return (
            (of.args, at) if plain_product and not valid and of not in self.cut else (n.args, where)
        )

    def _axes_at(
        self, e: Edge, where: tuple[Ix, ...], known: dict[Node, frozenset[int]]
    ) -> frozenset[Axis]:
        """The axes along which what the edge shows at a position varies."""
        stack = [e.node]
        while stack:
            n = stack[-1]
            lacking = [] if self._is_whole(n) else [a.node for a in n.args if a.node not in known]
            if n not in known and not lacking:
                known[n] = self._varying(n, known)
            stack = [*stack, *lacking] if n not in known else stack[:-1]
        return _shown_along(e, where, known)

    def _is_whole(self, n: Node) -> bool:
        """Whether a value counts as one that varies along each of its dimensions."""
        return n in self.cut or n in self.given or (n.op not in ROWS and n.op is not Op.CONST)

    def _varying(self, n: Node, known: Mapping[Node, frozenset[int]]) -> frozenset[int]:
        """The dimensions along which a value varies, where those of its operands are known."""
        if self._is_whole(n):
            return frozenset(range(len(n.shape)))
        axes = self.own_axes(n)
        where = tuple(map(ix, axes))
        if n.op in ROWS and ROWS[n.op].form is Form.REDUCE:
            _, where = self.reduced(n, axes)
        along = frozenset(a for e in n.args for a in _shown_along(e, where, known))
        return frozenset(d for d, a in enumerate(axes) if a in along)

    def is_large(self, n: Node) -> bool:
        """Whether a value is made of too much. Its operands are not, so that no expression ever gets long."""
        sizes = self.sizes
        sizes.measure(n)
        if sizes.is_deep(n):  # what was cut since shortens it
            for a in self.order[: self.number[n] + 1]:
                sizes.measure(a)
        if sizes.is_deep(n):
            sizes.depth[n] = deepest(self.inlined(n)[1])
        if sizes.is_long(n):
            value = self.inlined(n)[1]
            sizes.spelled[n] = sum(bool(free_axes(e)) for e in walk([value]))
        return sizes.is_deep(n) or sizes.is_long(n)

    # ---- regions ----

    def showing(self) -> list[Edge]:
        """What is stored for others to see."""
        return [e for e in self.graph.roots() if e.node not in self.given]

    def roots(self) -> list[Node]:
        """Nodes that are stored: cut ones and whatever an output shows."""
        shown = {e.node for e in self.showing() if e.node not in self.cut}
        return [n for n in self.order if n in self.cut or n in shown]

    def inside(self, root: Node, *stored: Node) -> list[Node]:
        """The nodes that the root's region computes; the same if those of `stored` were cut as well."""
        return self._reached(root, stored, frozenset())

    def is_inlined(self, n: Node) -> bool:
        """Whether what reads a value computes it; constants and places are written where they are."""
        is_read = n in self.given or n in self.cut or n.op in ROLES
        return not is_read and n.op not in (Op.CONST, Op.IOTA)

    def inlined_by(self, n: Node) -> list[Node]:
        """Its operands that are computed wherever it is."""
        return [a.node for a in n.args if a.node not in self.cut and a.node.op not in SOURCES]

    def beside(self, root: Node, stored: Node | None = None) -> list[Node]:
        """The reductions of a region that are inside no other; the same if `stored` were cut as well."""
        found = self._reached(root, (stored,) if stored else (), frozenset(MONOIDS))
        return [n for n in found if n.op in MONOIDS]

    def reduced_to(self, n: Node) -> list[Node] | None:
        """The first reduction on each way from a value; None if it is stored, or shown, without one."""
        shown, seen, stack = {e.node for e in self.graph.roots()}, set[Node](), [n]
        found: dict[Node, None] = {}
        while stack:
            x = stack.pop()
            if x in seen:
                continue
            seen.add(x)
            if x in shown or x in self.cut:
                return None
            for user in self.users[x]:
                if user.op in MONOIDS:
                    found[user] = None
                else:
                    stack.append(user)
        return list(found)

    def _reached(self, root: Node, stored: tuple[Node, ...], ends: frozenset[Op]) -> list[Node]:
        """What the root's region computes, in order, without the operands of `ends` and of `stored`."""
        seen: set[Node] = set()
        stack = [root]
        while stack:
            n = stack.pop()
            if n not in seen:
                seen.add(n)
                if n.op not in ends:
                    stack.extend(a for a in self.inlined_by(n) if a not in stored)
        return sorted(seen, key=self.number.__getitem__)

    def stored(self, place: Place, e: Edge) -> Region:
        """What an edge shows, in a buffer of its own."""
        axes = tuple(Axis(f"{self.prefix}o{d}", extent) for d, extent in enumerate(e.shape))
        at = tuple(ix(a) for a in axes)
        value = stored_as(place.buffer, guard_reductions(peel_reductions(self.at_edge(e, at))))
        store = split_axes(ordered(Store(place.buffer, axes, place.at(at), value)))
        return Region((store,), self.lines(e.node))

    def region(self, n: Node) -> Region:
        axes, body = self.inlined(n)
        place = self.place(n)
        value = stored_as(place.buffer, guard_reductions(peel_reductions(body)))
        at = place.at(tuple(ix(a) for a in axes))
        native = n.attr.name if isinstance(n.attr, Kernel) else None
        store = Store(place.buffer, axes, at, value)
        return Region((store if native else split_axes(store),), self.lines(n), native)

    def asked(self, question: Callable[[Region], Answer], n: Node) -> Answer:
        """What is asked of a node's region, and of all that are alike: no answer goes by names."""
        key, known = (question, form_of(self, n)), self.alike.answers
        if key not in known:
            known[key] = question(self.region(n))
        return known[key]

    def asked_as_shown(self, question: Callable[[Region], Answer], n: Node) -> list[Answer]:
        """What is asked of each region of a root."""
        if n in self.cut:
            return [self.asked(question, n)]
        return [question(region) for region in self.shown_regions(n)]

    def shown_regions(self, n: Node) -> list[Region]:
        """The regions of a root: what each output shows of it, or what is stored for others to read."""
        if n in self.cut:
            return [self.region(n)]
        edges = [e for e in self.showing() if e.node is n]
        shown = (Buffer(f"o{i}", Role.OUTPUT, e.shape, e.dtype) for i, e in enumerate(edges))
        return [self.stored(Place(b), e) for b, e in zip(shown, edges, strict=True)]

    def lines(self, root: Node) -> tuple[SourceLocation, ...]:
        """Where what the root's region computes is written; a number that many lines share says nothing of this one."""
        inside = self.inside(root)
        own = [n for n in inside if n not in self.numbers] or inside
        found = {line: None for n in own for line in self.graph.lines.get(n, ())}
        return tuple(sorted(found, key=lambda line: (line.file, line.line)))


def _shown_along(
    e: Edge, where: tuple[Ix, ...], known: Mapping[Node, frozenset[int]]
) -> frozenset[Axis]:
    """The axes along which what an edge shows at a position varies."""
    at, valid = e.view.at(where)
    seen = [at[d] for d in known[e.node]] + [c.slack for c in valid]
    return frozenset(a for i in seen for a in i.atoms() if isinstance(a, Axis))


@remembered
def _named_axes(prefix: str, shape: Shape) -> tuple[Axis, ...]:
    return tuple(Axis(f"{prefix}x{d}", e) for d, e in enumerate(shape))


def _native_range(kernel: Kernel, n: Node) -> tuple[int, int] | None:
    """What a native kernel gives: places in a row; that of groups also how many stand before one."""
    most = n.args[0].shape[-1].bounds()[1]
    return (
        None
        if most is None or n.dtype.is_float
        else (0, most if kernel.name in ("groups", "starts") else most - 1)
    )


@remembered  # rules and passes ask for the same operands again and again
def _at(body: Expr, axes: tuple[Axis, ...], at: At) -> Expr:
    """A value over `axes` at a position of theirs."""
    return substitute(body, dict(zip(axes, at, strict=True)))
