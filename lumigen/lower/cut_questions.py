"""What several rules of `cuts` ask of a graph as it is cut so far: who shares a launch, what is held, folded, made."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain, combinations

from lumigen.dtype import computed, f32, i32
from lumigen.graph import Node
from lumigen.lower.contractions import (
    contractions_beside,
    has_nested_contraction,
    has_nested_reduction,
    holds_scores,
    is_unpacked,
    volume,
    volume_of,
)
from lumigen.lower.cut_graph import MONOIDS, CutGraph
from lumigen.lower.join import fold_together
from lumigen.lower.places import is_whole, scaled_bytes, widens_bytes
from lumigen.lower.skeletons import Skeletons, is_product
from lumigen.ops import SOURCES, TRANSCENDENTALS, Op
from lumigen.region import Read, Reduce, Region, Role, free_axes, walk


def shared_of(g: CutGraph, skeletons: Skeletons) -> dict[tuple[Node, ...], list[Node]]:
    """The reductions that several regions compute on their way, by these regions."""
    owners: dict[Node, tuple[Node, ...]] = {}
    for root in g.roots():
        for n in nodes_inside(g, skeletons, root):
            if n.op in MONOIDS and n is not root:
                owners[n] = (*owners.get(n, ()), root)
    out: dict[tuple[Node, ...], list[Node]] = {}
    for n, roots in owners.items():
        if len(roots) > 1 and reduces(g, n):
            out.setdefault(roots, []).append(n)
    return out


def nodes_inside(g: CutGraph, skeletons: Skeletons, root: Node) -> list[Node]:
    """What a region computes, but for rows that its products are to compute, whatever other ones do."""
    mapped = (n for n in g.inside(root) if n is not root and is_mapped(g, skeletons, n))
    return g.inside(root, *mapped)


def is_mapped(g: CutGraph, skeletons: Skeletons, n: Node) -> bool:
    """Whether all that reads a value are products that are to compute it as an operand."""
    if n not in g.cut and n not in g.mapped:
        g.mapped[n] = _found_mapped(g, skeletons, n)
    return n not in g.cut and g.mapped[n]


def _found_mapped(g: CutGraph, skeletons: Skeletons, n: Node) -> bool:
    if n.op in SOURCES or n.op in MONOIDS or any(e.node is n for e in g.showing()):
        return False
    factors = [u for u in g.users[n] if u.op is Op.MUL and u not in g.cut]
    products = dict.fromkeys(p for u in factors for p in g.users[u])
    if _is_unpacked_by(g, skeletons, n, products) or _is_made_by(g, skeletons, n, products):
        return True
    if len(factors) < len(g.users[n]) or not products:
        return False
    for p in products:
        if p.op is not Op.SUM_REDUCE or not is_product(g, skeletons, p):
            return False
        if n not in [f for f, _ in g.factors(p)]:
            return False
    inside = g.inside(n)
    reductions = [r for r in inside if r.op in MONOIDS]
    several = not reductions and len(products) > 1
    if several or any(is_product(g, skeletons, r) for r in reductions):
        return False
    of_rows = [a for a in inside if a is not n and set(g.inside(a)) & set(reductions)]
    shown = {e.node for e in g.showing()}
    if any(a in shown or not set(inside).issuperset(g.users[a]) for a in of_rows):
        return False  # some of it is wanted elsewhere
    return all(g.asked(skeletons.computes, p) for p in products)


def _is_unpacked_by(g: CutGraph, skeletons: Skeletons, n: Node, products: Iterable[Node]) -> bool:
    """Whether each product of weights in fewer bytes makes floats of them: whoever else reads them does it too."""
    of_n = [p for p in products if p.op is Op.SUM_REDUCE and n in [f for f, _ in g.factors(p)]]
    unpacked = bool(of_n) and is_unpacked(g.inlined(n)[1], skeletons.storing)
    return unpacked and all(is_product(g, skeletons, p) for p in of_n)


def _is_made_by(g: CutGraph, skeletons: Skeletons, n: Node, products: Iterable[Node]) -> bool:
    """Whether all that reads it are products of few rows which make it of weights, as columns."""
    read_in = list(products)
    return bool(read_in) and all(
        p.op is Op.SUM_REDUCE and is_product(g, skeletons, p) and _makes(g, skeletons, n, p)
        for p in read_in
    )


def _makes(g: CutGraph, skeletons: Skeletons, n: Node, p: Node) -> bool:
    values, own = [v for f, v in g.factors(p) if f is n], g.own_axes(p)
    for v in values:
        majors = tuple(a for a in own if a in free_axes(v))
        place = tuple(a for a in own if a not in majors), majors, tuple(g.bound_axes(p))
        of_weights = all(e.source.role is Role.WEIGHT for e in walk([v]) if isinstance(e, Read))
        if not of_weights or not skeletons.makes(v, place):
            return False
    return bool(values)


def folded_together(
    g: CutGraph, skeletons: Skeletons, roots: tuple[Node, ...]
) -> tuple[Node, ...] | None:
    """What to store so that a skeleton folds it in one loop and none of the regions computes anything of it again.

    Nothing where it does as it is; all of it where another region has it inside; None where no skeleton does. Asked
    once for a graph as it is cut.
    """
    if roots not in g.folds:
        g.folds[roots] = _found_together(g, skeletons, roots)
    return g.folds[roots]


def _found_together(
    g: CutGraph, skeletons: Skeletons, roots: tuple[Node, ...]
) -> tuple[Node, ...] | None:
    nested = [n for n in roots if has_nested_reduction(g.inlined(n)[1])]
    for main in (n for n in nested if g.asked(skeletons.runs_whole, n)):
        parts = [_part_of(g, skeletons, main, n) for n in roots if n is not main]
        if None in parts:
            continue
        found = list(dict.fromkeys(n for n in (*parts, main) if n is not None))
        inner = tuple(n for n in found if n not in roots or (n in parts and n is main))
        shown = (n for n in found if n not in inner and n not in g.cut)
        turned = [n for n in shown if not _is_shown_as_it_is(g, n)]
        choices = (c for size in range(len(turned) + 1) for c in combinations(turned, size))
        for stored in ((*inner, *c) for c in choices):
            regions = ([g.region(n)] if n in stored else g.shown_regions(n) for n in found)
            if _folds(skeletons, list(chain.from_iterable(regions))):
                return stored
    return None


def _part_of(g: CutGraph, skeletons: Skeletons, main: Node, root: Node) -> Node | None:
    """The last value of a region that is folded with another, and without which they have no reduction in common."""
    shared = {n for n in g.inside(main) if n.op in MONOIDS and n is not main}
    for n in reversed(g.inside(root)):
        left = set[Node]() if n is root else shared.intersection(g.inside(root, n))
        folds = not left and not shared.isdisjoint(g.inside(n))
        if folds and _folds(skeletons, [g.region(main), g.region(n)]):
            return n
    return None


def _folds(skeletons: Skeletons, regions: list[Region]) -> bool:
    together = fold_together(regions)
    return together is not None and skeletons.runs_whole(together)


def _is_shown_as_it_is(g: CutGraph, n: Node) -> bool:
    """Whether outputs show the value as it is."""
    return all(is_whole(e) for e in g.showing() if e.node is n)


def have_one_tile(g: CutGraph, skeletons: Skeletons, root: Node, beside: list[Node]) -> bool:
    """Whether a skeleton has tiles for all contractions of a region, each of whose sums is wanted at one place.

    As outputs see it too, with as many columns side by side as each of them has alone.
    """
    value = g.inlined(root)[1]
    count = len(list(contractions_beside(value, one_row=skeletons.one_row)))
    if count * volume(free_axes(value)) > sum(volume_of(n.shape) for n in beside):
        return False
    columns = (g.asked(skeletons.columns, n) for n in beside)
    least = min(skeletons.storing.few_columns, *columns)
    return all(0 < found >= least for found in g.asked_as_shown(skeletons.columns, root))


def reduces(g: CutGraph, n: Node) -> bool:
    """Whether the reduction is still one after sifting (a gather costs nothing to repeat)."""
    return isinstance(g.inlined(n)[1], Reduce)


def has_many_terms(g: CutGraph, skeletons: Skeletons, n: Node) -> bool:
    return volume(g.bound_axes(n)) * volume_of(n.shape) >= skeletons.storing.many_terms


def contracted(g: CutGraph, skeletons: Skeletons, n: Node) -> list[Node]:
    """The operands of a reduction that hold a contraction, and are stored nowhere yet."""
    return [
        node
        for node, value in g.factors(n)
        if node.op not in SOURCES
        and node not in g.cut
        and holds_scores(value, one_row=skeletons.one_row)
    ]


def stored_of(g: CutGraph, skeletons: Skeletons, n: Node) -> list[Node]:
    """What is stored of an operand: of integers of 8 bits times numbers both, where products take these as they are."""
    found = scaled_bytes(n) if skeletons.storing.integers else None
    if found is None:
        return [_read_elsewhere(g, kept_of(g, n))]
    cast, by = found
    return [m for m in (cast.args[0].node, by) if m not in g.cut and m.op not in SOURCES]


def _read_elsewhere(g: CutGraph, n: Node) -> Node:
    """What a map is of, if other values read that as well: one that stores the map would compute it once more.

    Without it the map has no reduction, as the magnitudes of what an attention gives, and it is no larger.
    """
    inside = g.inside(n)
    within = {n, *inside}
    if not any(x.op in MONOIDS for x in inside):
        return n
    for x in reversed(inside):
        if x is n or x.op in SOURCES or volume_of(x.shape) > volume_of(n.shape):
            continue
        is_read = any(user not in within for user in g.users[x])
        if is_read and not any(y.op in MONOIDS and y is not x for y in g.inside(n, x)):
            return x
    return n


def kept_of(g: CutGraph, n: Node) -> Node:
    """What is stored of an operand: what it is made of, where that is less and loses no number.

    * What a cast of 16 bits to f32 widens, or of 8 bits to i32: it is rounded as its dtype says, and products take it
      as it is. Of a larger value too whose parts others widen, as queries, keys and values that are one product.
    * Where a truth value chooses from fewer elements than the operand has itself, those: so they are chosen as they
      are read, by rows of a gather or places of a scatter.
    """
    numbers = [a.node for a in n.args if not a.dtype.is_bool]
    if n.op is Op.CONTIGUOUS and _is_wider(n):
        (x,) = numbers
        is_less = volume_of(x.shape) <= sum(volume_of(user.shape) for user in g.users[x])
    elif n.op is Op.MUL and len(n.args) > len(numbers) == 1:
        (x,) = numbers
        is_reduced = any(r.op in MONOIDS for r in g.inside(x))
        is_less = is_reduced and volume_of(x.shape) < volume_of(n.shape)
    else:
        return n
    is_stored = x in g.cut or x.op in SOURCES
    return kept_of(g, x) if is_less and not is_stored else n


def read_once(g: CutGraph, skeletons: Skeletons, n: Node, f: Node) -> Node:
    """The product that an operand of a reduction is a costly map of, where a sum computes the map as it reads it.

    In a tile of products the map would keep matrix instructions waiting.
    """
    inside = g.inside(f)
    products = [x for x in inside if x.op is Op.SUM_REDUCE and is_product(g, skeletons, x)]
    costly = any(x.op in TRANSCENDENTALS for x in inside)
    if not skeletons.storing.waits or len(products) != 1 or not costly:
        return f
    (p,) = products
    others = any(x.op in MONOIDS for x in inside if x is not p) or is_product(g, skeletons, n)
    alone = set(g.users[f]) == {n} and volume_of(p.shape) == volume_of(f.shape)
    return p if alone and not others else f


def _is_wider(n: Node) -> bool:
    """Whether a cast loses nothing, and products take the narrower numbers as well."""
    narrow = n.args[0].dtype
    return widens_bytes(n) or (narrow is not n.dtype is computed(narrow))


def innermost_of(g: CutGraph, nodes: list[Node]) -> list[Node]:
    """Those that hold none of the others: what is left of the region may run whole once they are stored."""
    return [n for n in nodes if not set(g.inside(n)) & ({*nodes} - {n})]


def last_whole(g: CutGraph, skeletons: Skeletons, root: Node, inside: list[Node]) -> list[Node]:
    """The last of the nodes, if any, whose region holds a contraction inside a reduction and is run whole.

    Not where what is left would compute the same contraction once more.
    """
    for n in reversed(inside):
        nested = has_nested_contraction(g.inlined(n)[1], one_row=skeletons.one_row)
        if not nested or n in g.cut or not g.asked(skeletons.runs_whole, n):
            continue
        left = set(g.inside(root, n)) & set(g.inside(n)) - {n}
        if not any(is_product(g, skeletons, x) for x in left if x.op is Op.SUM_REDUCE):
            return [n]
    return []


def shown_whole(g: CutGraph, skeletons: Skeletons, n: Node) -> bool:
    """Whether a skeleton runs the node's region as each output shows it."""
    return all(g.asked_as_shown(skeletons.runs_whole, n))


def with_own_map(g: CutGraph, n: Node) -> Node:
    """The last value, no larger than a product, through which all read it that do."""
    last, shown, size = n, {e.node for e in g.showing()}, volume_of(n.shape)
    waiting = set(g.users[n])  # for what is made of it so far
    for m in g.order[g.order.index(n) + 1 :]:
        if last in shown or not waiting:
            break
        if m not in waiting:
            continue
        if m.op in MONOIDS or m.op is Op.NATIVE or volume_of(m.shape) > size or m in g.cut:
            break
        waiting.remove(m)
        if not waiting and _is_as_wide(m, n):
            last = m
        elif m in shown:
            break
        waiting |= set(g.users[m])
    return last


def _is_as_wide(m: Node, n: Node) -> bool:
    """Whether to store a map of a product takes what the product itself does, or floats for integers of 32 bits."""
    return m.dtype is n.dtype or (n.dtype is i32 and m.dtype is f32)


def with_map(
    g: CutGraph,
    n: Node,
    root: Node,
    beside: list[Node],
    fits: Callable[[Node], bool] = lambda _: True,
) -> Node:
    """The last value that fits, made of this contraction and of none of the others, no larger than it is.

    The contraction itself where the region would still compute it for the sake of something else.
    """
    last = n
    for user in g.inside(root):
        made_of = [b for b in g.beside(user) if b in beside]
        is_map = made_of == [n] and _is_as_wide(user, n) and user is not root
        if is_map and volume_of(user.shape) <= volume_of(n.shape) and fits(user):
            last = user
    return n if n in g.beside(root, stored=last) else last
