"""cuts: the rules that say which values are stored. They are the heuristic's, and `CUTS`, at the end, has all of them.

A rule is a pure function of a graph as it is cut so far: it names nodes that are to be stored as well. It goes by
index sets and sizes, never by names or the order of ops, so that equal layers are cut alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce

from lumigen.graph import Node
from lumigen.index import Axis
from lumigen.lower.contract import find_products
from lumigen.lower.contractions import (
    bytes_of,
    contractions_beside,
    has_nested_contraction,
    is_bounded_by_data,
    is_brought_in,
    is_contraction,
    is_expanding,
    is_folded,
    is_large_score,
    is_plain,
    is_product_of_one_row,
    is_scored,
    product_factors,
    reductions_beside,
    volume,
    volume_of,
)
from lumigen.lower.cut_graph import MONOIDS, CutGraph
from lumigen.lower.cut_questions import (
    contracted,
    folded_together,
    has_many_terms,
    have_one_tile,
    innermost_of,
    is_mapped,
    kept_of,
    last_whole,
    nodes_inside,
    read_once,
    reduces,
    shared_of,
    shown_whole,
    stored_of,
    with_map,
    with_own_map,
)
from lumigen.lower.gathers import is_gathered
from lumigen.lower.groups import is_scaled
from lumigen.lower.guard import guard_reductions
from lumigen.lower.long_chains import stored_of_chain
from lumigen.lower.places import is_of_state, is_whole, is_widened
from lumigen.lower.positions import bound_by, is_compared, picked_by
from lumigen.lower.repeated import repeated
from lumigen.lower.skeletons import Skeletons, becomes_states, is_only_folded, is_product
from lumigen.lower.turned import find_turned
from lumigen.machine import Storing
from lumigen.ops import ROWS, SOURCES, TRANSCENDENTALS, Op
from lumigen.region import Expr, Read, Reduce, Region, children, free_axes, lookup_sources, walk

FirstRule = Callable[[CutGraph], Iterable[Node]]
Rule = Callable[[CutGraph, Skeletons], Iterable[Node]]
NodeRule = Callable[[CutGraph, Skeletons, Node], Iterable[Node]]


@dataclass(frozen=True)
class Cuts:
    """The rules by when they are asked."""

    first: tuple[FirstRule, ...]  # once: what no choice of cuts leaves out
    at_nodes: tuple[
        NodeRule, ...
    ]  # at each node, its operands first: so no expression ever gets long
    of_regions: tuple[Rule, ...]  # then; both again until none of them cuts
    last: tuple[
        Rule, ...
    ]  # what no other rule has to say about; one that cuts has all others asked again


# ---- first: what the graph itself says ----


def new_versions(g: CutGraph) -> list[Node]:
    """Each new version of a state: later reads see it, and it may lie where the old one did."""
    return [e.node for _, e in g.graph.updates if is_whole(e)]


def native_nodes(g: CutGraph) -> list[Node]:
    """Native nodes and what they read: their kernels read and write buffers, and nothing can be inlined in them."""
    native = [n for n in g.order if n.op is Op.NATIVE]
    read = (e.node for n in native for e in n.args)
    return [*native, *(a for a in read if a.op not in SOURCES)]


def scans(g: CutGraph) -> list[Node]:
    """Scans, what one that is a loop around regions is given, and what any other is given with a reduction in it.

    A scan whose step maps elements alone is a region; what it is given with a reduction in it would be reduced again
    in each step.
    """
    out: list[Node] = []
    for n in (n for n in g.order if n.op is Op.SCAN):
        for a in (e.node for e in n.args):
            if a in g.given or a.op in SOURCES or is_widened(a):
                continue
            inside = [x for x in g.inside(a) if x.op in MONOIDS or x.op is Op.SCAN]
            out += [a] if n in g.loops or inside else []
        out.append(n)
    return out


# ---- at each node ----


def computed_operands(g: CutGraph, skeletons: Skeletons, n: Node) -> list[Node]:
    """What a reduction reads many times and would have to compute each time.

    A factor of a contraction that is itself computed: each of its elements is read by many sums. What any reduction
    ranges over, if a reduction in it varies with the reduced axes. Neither if it is expanding: it holds a contraction
    of buffers all much smaller than it is, and so is what it is reduced to, so it never exists as a whole and is
    consumed tile by tile. Nor if all that becomes of the contraction are states of a row. Nor if all that reads it are
    products that are to compute it. Nor if integers that are read bound its loop, as a position does in a
    cache: only the loop of the reduction leaves out what lies beyond them. Nor bytes of a state that a product
    makes floats of as it brings them in, where it does.
    Nor products of one row where their loop costs less than to store them.

    A row that a reduction of it is part of, as in a norm, where many sums would read more for it than it has itself.
    """
    wanted = [f for f, stays in _wanted_operands(g, skeletons, n) if not stays]
    return [kept for f in wanted for kept in stored_of(g, skeletons, f)]


def large_values(g: CutGraph, _: Skeletons, n: Node) -> list[Node]:
    """A value made of too much, or at the end of too long a chain of ops.

    One that reads its operand at several places doubles what is computed: eight of them in a row make one value out of
    hundreds.
    """
    return [stored_of_chain(g, n)] if n not in g.cut and g.is_large(n) else []


def computed_positions(g: CutGraph, skeletons: Skeletons, n: Node) -> list[Node]:
    """An integer that says which element a sum takes, and is no index expression: stored, the sum reads there."""
    at, table = picked_by(n), skeletons.storing.table
    if at is None or at.op in SOURCES or at in g.cut or volume(g.bound_axes(n)) < table:
        return []
    axes, value = g.inlined(at)
    if volume_of(at.shape) == volume_of(n.shape) and is_gathered(g.inlined(n)[1]):
        return _computed_tables(g, n)  # each position is asked for once
    is_whole_tensor = volume(free_axes(value)) == volume_of(at.shape) or not axes
    return [at] if is_whole_tensor and not is_compared(value) else []


def _computed_tables(g: CutGraph, n: Node) -> list[Node]:
    """What a gather reads, if it is computed and no larger than all that is read of it."""
    read_of = (e.node for e in n.args[0].node.args if not e.dtype.is_bool)
    tables = [t for t in read_of if t not in g.cut and t.op in ROWS and t not in g.given]
    made = (
        t for t in tables if not is_plain(g.inlined(t)[1]) or [*lookup_sources(g.inlined(t)[1])]
    )
    return [t for t in made if volume_of(t.shape) <= volume_of(n.shape)]


def computed_bounds(g: CutGraph, skeletons: Skeletons, n: Node) -> list[Node]:
    """An integer that bounds a reduction and is no index expression: stored, the loop begins or ends there."""
    at = bound_by(n)
    if at is None or at.op in SOURCES or at in g.cut:
        return []
    sums = g.reduced_to(n)
    if not sums or all(picked_by(r) is at for r in sums):
        return []
    is_many = volume_of(n.shape) >= skeletons.storing.table * volume_of(at.shape)
    return [at] if is_many and not is_compared(g.inlined(at)[1]) else []


def _wanted_operands(g: CutGraph, skeletons: Skeletons, n: Node) -> Iterator[tuple[Node, bool]]:
    """The computed operands of a reduction that are not expanding, and whether they stay for the sake of its loop.

    As it is bounded by what is read, or short.
    """
    if n.op not in MONOIDS or not g.has_inlined_factors(n):
        return
    axes, bound, factors = g.own_axes(n), g.bound_axes(n), g.factors(n)
    values, storing = tuple(value for _, value in factors), skeletons.storing
    contracts = is_contraction(values, axes, bound)
    contracts |= bool(skeletons.one_row) and is_product_of_one_row(
        values, axes, bound, one_row=skeletons.one_row
    )
    contracts = contracts and reduces(g, n)
    for node, value in factors:
        if node.op in SOURCES or node in g.cut:
            continue
        varying = any(free_axes(r) & set(bound) for r in walk([value]) if isinstance(r, Reduce))
        varying = varying and not _is_of_rows(skeletons, value, bound)
        in_bytes = storing.bytes and is_brought_in(value) and is_of_state(node, g.graph)
        wanted = varying or (contracts and not (in_bytes or is_plain(value)))
        wanted |= n.op is Op.SUM_REDUCE and _is_normed(value, node, axes, bound, storing)
        # windows show a value again and again, which makes it no larger
        size = min(volume_of(node.shape), volume(free_axes(value)))
        is_short = volume(bound) <= storing.short
        if wanted and contracts and storing.integers and (is_scaled(value) or bytes_of(value)):
            continue
        if wanted and contracts and not varying and is_mapped(g, skeletons, node):
            continue
        expands = is_expanding(value, size, axes, contracts, storing, is_short=is_short)
        if wanted and varying and not expands:
            expands = becomes_states(g, skeletons, node, value, bound)
        if not storing.rows and not contracts and is_folded(value, size, axes, storing):
            whole = g.asked(skeletons.runs_whole, n)
            expands |= whole and is_only_folded(g, skeletons, node, axes)
        if wanted and not expands:
            bounded = is_bounded_by_data(value, bound, one_row=skeletons.one_row)
            # a fold has a sum for each point of these, for each of the value's rows
            few = volume(set(axes) - free_axes(value)) <= storing.row_of_fold
            # an operand is computed again for each tile of what it is multiplied with
            deepest = storing.row if contracts else None
            scored = is_short and few and is_scored(value, deepest)
            yield node, bounded or scored


def _is_normed(
    value: Expr, node: Node, axes: tuple[Axis, ...], bound: tuple[Axis, ...], storing: Storing
) -> bool:
    """Whether many sums would compute the same row of a reduction of it, from more bytes than it has itself."""
    own = free_axes(value)
    many = storing.normed and volume((set(axes) - own) | set(bound)) >= storing.normed
    if not many or volume(own - set(bound)) > 1:
        return False
    outside = _outside_reductions(value)
    reads = {e for e in outside if isinstance(e, Read) and free_axes(e) & set(bound)}
    is_reduced = any(isinstance(e, Reduce) for e in outside)
    return is_reduced and sum(e.source.dtype.itemsize for e in reads) > node.dtype.itemsize


def _outside_reductions(value: Expr) -> list[Expr]:
    """The expressions of a value, the reductions among them but nothing of what these add up."""
    out, stack = dict[Expr, None](), [value]
    while stack:
        e = stack.pop()
        if e not in out:
            out[e] = None
            stack += [] if isinstance(e, Reduce) else children(e)
    return list(out)


def _is_of_rows(skeletons: Skeletons, value: Expr, bound: tuple[Axis, ...]) -> bool:
    """Whether a reduction's terms need reductions of rows alone, each once for all terms of a long row.

    Not of products, whose results are stored or folded.
    """
    inside = [r for r in walk([value]) if isinstance(r, Reduce)]
    varying = frozenset(a for r in inside for a in free_axes(r))
    along = [a for a in bound if a not in varying]
    products = any(product_factors(r, one_row=skeletons.one_row) is not None for r in inside)
    return volume(along) >= skeletons.storing.long_row and not products


# ---- of regions ----


def shared_reductions(g: CutGraph, skeletons: Skeletons) -> list[Node]:
    """Reductions that more than one region would compute, the ones nearest to the inputs.

    Where a skeleton folds one of these regions whole, and in the same loop what the others need of it, they read that
    instead. Nor are products stored that take longer to store than to compute again, where all of these regions fold
    them; what else they share is stored first. A product is stored with what is done to it before they part.
    """
    out: dict[Node, None] = {}
    again: dict[Node, tuple[Node, ...]] = {}
    for roots, reductions in shared_of(g, skeletons).items():
        found = folded_together(g, skeletons, roots)
        if found is None:
            large = [n for n in reductions if is_large_score(g.inlined(n)[1], skeletons.storing)]
            again |= dict.fromkeys(large, roots)
            found = tuple(n for n in reductions if n not in again)
        out.update(dict.fromkeys(found))
    if not out:
        whole = {r: g.asked(skeletons.runs_whole, r) for roots in again.values() for r in roots}
        out = {n: None for n, roots in again.items() if not all(whole[r] for r in roots)}
    kept = {kept_of(g, with_own_map(g, n)) if is_product(g, skeletons, n) else n for n in out}
    return [n for n in g.order if n in kept]


def tables(g: CutGraph, skeletons: Skeletons) -> list[Node]:
    """Transcendentals that several regions read, each for many more elements than there are.

    Without those that are inside others: the outermost is the table.
    """
    owners: dict[Node, list[Node]] = {}
    table = skeletons.storing.table
    for root in g.roots():
        for n in nodes_inside(g, skeletons, root):
            if n.op in TRANSCENDENTALS and n is not root:
                owners.setdefault(n, []).append(root)
    found = [
        n
        for n, roots in owners.items()
        if len(roots) > 1 and all(volume_of(r.shape) >= table * volume_of(n.shape) for r in roots)
    ]
    within = {inner for n in found for inner in g.inside(n) if inner is not n}
    return [n for n in found if n not in within]


def remainders(g: CutGraph, skeletons: Skeletons) -> list[Node]:
    """Remainders by a number that only a run knows, dozens of cycles each, for many more elements than there are.

    With all that is made of one alone and is no larger, such as a weight between two elements.
    """
    out: dict[Node, None] = {}
    table = skeletons.storing.table
    for root in g.roots():
        users: dict[Node, list[Node]] = {}
        for n in g.inside(root):
            for a in dict.fromkeys(g.inlined_by(n)):
                users.setdefault(a, []).append(n)
        for n in g.inside(root):
            if n.op is not Op.MOD or n.dtype.is_float or n.args[1].node.op is Op.CONST:
                continue
            last = n
            while len(of := users.get(last, [])) == 1 and volume_of(of[0].shape) <= volume_of(
                n.shape
            ):
                (last,) = of
            if last is not root and volume_of(root.shape) >= table * volume_of(last.shape):
                out[last] = None
    return list(out)


def whole_numbers_beside_contractions(g: CutGraph, skeletons: Skeletons) -> list[Node]:
    """Reductions of integers or truth values in a region that holds a contraction.

    What is behind a tile of products is computed in vectors, which add up floats alone. Not where a skeleton folds
    the whole, which carries those integers that floats hold exactly, nor where products of integers have tiles.
    """
    out: dict[Node, None] = {}
    for root in g.roots():
        inner = [n for n in g.inside(root) if n.op in MONOIDS]
        whole = [n for n in inner if not n.dtype.is_float and n is not root]
        whole = [n for n in whole if not _has_kernel(g, skeletons, n, root)]
        contracts = any(n.op is Op.SUM_REDUCE and is_product(g, skeletons, n) for n in inner)
        if whole and contracts and not g.asked(skeletons.runs_whole, root):
            out.update(dict.fromkeys(whole))
    return list(out)


def _has_kernel(g: CutGraph, skeletons: Skeletons, n: Node, root: Node) -> bool:
    """Whether it is a product of integers with a tile; where blocks have it, the root's own tile."""
    if not is_product(g, skeletons, n):
        return False
    if not skeletons.storing.integers:
        return not any(skeletons.in_loops(g.region(x)) for x in (n, root))
    (store,) = g.region(n).stores
    found = find_products(store, one_row=bool(skeletons.one_row), integers=True)
    return found is not None or find_turned(store) is not None


def reductions_of_versions(g: CutGraph, skeletons: Skeletons) -> list[Node]:
    """The first reduction in each new version of a state: vector loops move what is new, and reduce nothing."""
    versions = {e.node for _, e in g.graph.updates} & set(g.roots())
    out: dict[Node, None] = {}
    for root in versions:
        found = nodes_inside(g, skeletons, root)
        inside = (n for n in found if n is not root and n.op in MONOIDS)
        out.update(dict.fromkeys([n for n in inside if reduces(g, n)][:1]))
    return list(out)


# ---- last: what skeletons refuse ----


def refused_whole(g: CutGraph, skeletons: Skeletons) -> list[Node]:
    """What regions that would compute a contraction again and again are to read instead.

    The last value on the way that a skeleton runs whole: then only what is done to it is not in the same kernel. Where
    there is none, the operand of the reduction that the contraction is inside, with all that is done to it on the way;
    the contraction itself where that operand is no node of its own. Nothing where a skeleton runs the region whole; all
    of it where one does, but not as an output sees it.
    """
    bounded = {node for n in g.order for node, stays in _wanted_operands(g, skeletons, n) if stays}
    together = {
        n
        for roots in shared_of(g, skeletons)
        if folded_together(g, skeletons, roots) == ()
        for n in roots
    }
    out: dict[Node, None] = {}
    for root in g.roots():
        if root in together:
            continue
        inside = [n for n in g.inside(root) if n is not root]
        inner = [n for n in inside if n.op is Op.SUM_REDUCE and is_product(g, skeletons, n)]
        nested = any(n in bounded for n in inside) or (
            bool(inner) and has_nested_contraction(g.inlined(root)[1], one_row=skeletons.one_row)
        )
        if nested and not g.asked(skeletons.runs_whole, root):
            if mapped := [n for n in inside if is_mapped(g, skeletons, n)]:
                out.update(dict.fromkeys(mapped))
                continue
            if whole := last_whole(g, skeletons, root, inside):
                out.update(dict.fromkeys(whole))
                continue
            if others := _others_stored(g, skeletons, root, inner):
                out.update(dict.fromkeys(others))
                continue
            reductions = [n for n in g.inside(root) if n.op in MONOIDS]
            operands = [
                read_once(g, skeletons, n, f)
                for n in reductions
                for f in contracted(g, skeletons, n)
            ]
            innermost = innermost_of(g, operands)
            out.update(dict.fromkeys([kept_of(g, f) for f in innermost] or inner))
        elif nested and root not in g.cut and not shown_whole(g, skeletons, root):
            out[root] = None
    return list(out)


def _others_stored(
    g: CutGraph, skeletons: Skeletons, root: Node, products: list[Node]
) -> list[Node]:
    """Sums beside products, as of squares of rows, if a skeleton runs the region whole where it reads them."""
    if not products:
        return []
    within = {m for n in products for m in g.inside(n)}
    sums = [n for n in g.inside(root) if n.op in MONOIDS and n not in within and reduces(g, n)]
    apart = [n for n in sums if set(g.inside(n)).isdisjoint(products)]
    out = [n for n in apart if not any(n in g.inside(m) for m in apart if m is not n)]
    stored = reduce(lambda known, n: known.cut_also(n), out, g)
    return out if out and stored.asked(skeletons.runs_whole, root) else []


def contractions_side_by_side(g: CutGraph, skeletons: Skeletons) -> list[Node]:
    """Of contractions side by side in a region all but the last, which stays with what follows it.

    Not where one skeleton has tiles for all of them. Else it has tiles of one product, and the others would be summed
    element by element. Of the others what is done
    to each alone is stored, unless it is larger; one that is seen at several places is stored itself.
    """
    out: dict[Node, None] = {}
    for root in g.roots():
        value = g.inlined(root)[1]
        if len(list(contractions_beside(value, one_row=skeletons.one_row))) < 2:
            continue
        beside = [n for n in g.beside(root) if is_product(g, skeletons, n)]
        if have_one_tile(g, skeletons, root, beside):
            continue
        tiled = [n for n in beside if n is not root and not g.asked(skeletons.in_loops, n)]
        if not tiled:
            continue
        others = [n for n in beside if n is not tiled[-1]] or tiled
        out.update(dict.fromkeys(with_map(g, n, root, beside) for n in others))
    return list(out)


def contractions_in_loops(g: CutGraph, skeletons: Skeletons) -> list[Node]:
    """A large contraction that a skeleton has tiles of, but not as what follows it or an output sees it.

    Nor has it if that puts columns between each other, of which few lie side by side then. It is stored with the map
    behind it, and only the rest runs as loops: a comparison, heads side by side, edges, a pixel shuffle. Not where the
    rest takes less than half of it.
    """
    out: dict[Node, None] = {}
    for root in g.roots():
        beside = [n for n in g.beside(root) if is_product(g, skeletons, n)]
        if len(beside) != 1 or not has_many_terms(g, skeletons, beside[0]):
            continue
        least = min(g.asked(skeletons.columns, beside[0]), skeletons.storing.few_columns)
        if volume_of(beside[0].shape) >= 2 * max(g.asked_as_shown(_points, root)):
            continue
        if any(found < least for found in g.asked_as_shown(skeletons.columns, root)):

            def fits(n: Node, least: int = least) -> bool:
                return g.asked(skeletons.columns, n) >= least

            whole = root not in g.cut and fits(root)  # and shown otherwise
            out[root if whole else with_map(g, beside[0], root, beside, fits)] = None
    return list(out)


def _points(region: Region) -> int:
    return max(volume(s.axes) for s in region.stores)


def repeated_reductions(g: CutGraph, skeletons: Skeletons) -> list[Node]:
    """Reductions that a region reads at several places, each of which would add up more than a launch costs."""
    out: dict[Node, None] = {}
    for root in g.roots():
        places = Counter(r.axes for r in reductions_beside(g.inlined(root)[1]))
        if any(count > 1 for count in places.values()):
            beside = [n for n in g.beside(root) if is_product(g, skeletons, n)]
            if beside == g.beside(root) and have_one_tile(g, skeletons, root, beside):
                continue
            repeated = (n for n in g.beside(root) if places[g.bound_axes(n)] > 1)
            out.update(dict.fromkeys(n for n in repeated if has_many_terms(g, skeletons, n)))
    return list(out)


def contractions_wanted_in_parts(g: CutGraph, skeletons: Skeletons) -> list[Node]:
    """Contractions that a region wants at some of its places, with what is done to each of them alone.

    So a concatenation wants them: no tile of products has those places alone.
    """
    out: dict[Node, None] = {}
    for root in g.roots():
        value = guard_reductions(g.inlined(root)[1])
        guarded = {r.axes for r in reductions_beside(value) if r.where}
        beside = g.beside(root) if guarded else []
        for n in beside:
            large = g.bound_axes(n) in guarded and has_many_terms(g, skeletons, n)
            if large and n is not root and is_product(g, skeletons, n):
                out[with_map(g, n, root, beside)] = None
    return list(out)


def reductions_after_products(g: CutGraph, skeletons: Skeletons) -> list[Node]:
    """Reductions that a product's elements would each compute after it, as of what divides a row; with their maps."""
    most = skeletons.storing.after
    out: dict[Node, None] = {}
    for root in g.roots() if most else ():
        beside = g.beside(root)
        others = [n for n in beside if not is_product(g, skeletons, n) and reduces(g, n)]
        long = [n for n in others if n is not root and volume(g.bound_axes(n)) > most]
        if len(others) == len(beside) or not long:
            continue
        if not g.asked(skeletons.in_loops, root) and not g.asked(skeletons.runs_whole, root):
            out.update(dict.fromkeys(with_map(g, n, root, beside) for n in long))
    return list(out)


def repeated_values(g: CutGraph, skeletons: Skeletons) -> list[Node]:
    """Values that loops compute for more points than there are, where that takes longer than to store and read them.

    Where no figures say what steps take, products that many more elements are made of: no tile has them then.
    """
    steps = skeletons.storing.steps
    if steps is not None:
        return repeated(g, skeletons, steps)
    out: dict[Node, None] = {}
    for root in g.roots():
        beside = [n for n in g.beside(root) if is_product(g, skeletons, n)]
        many = [
            n
            for n in beside
            if volume_of(root.shape) >= skeletons.storing.table * volume_of(n.shape)
        ]
        out.update((with_map(g, n, root, beside), None) for n in many if n is not root)
    return list(out)


# ---- all of them ----

CUTS = Cuts(
    first=(new_versions, native_nodes, scans),
    at_nodes=(computed_positions, computed_bounds, computed_operands, large_values),
    of_regions=(
        shared_reductions,
        tables,
        remainders,
        whole_numbers_beside_contractions,
        reductions_of_versions,
    ),
    last=(
        refused_whole,
        contractions_side_by_side,
        contractions_in_loops,
        repeated_reductions,
        contractions_wanted_in_parts,
        reductions_after_products,
        repeated_values,
    ),
)
