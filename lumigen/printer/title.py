"""A kernel in one line: the shape it stores, and what it computes in the words of the field.

Derived from the structure of a region and the loops of its plan, with the names of what is read; what has no word of
its own is named by its operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lumigen.index import Axis, Lookup
from lumigen.ops import Op
from lumigen.plan import KernelPlan, Product
from lumigen.region import (
    Buffer,
    Choose,
    Expr,
    Monoid,
    Prim,
    Read,
    Reduce,
    Region,
    Role,
    Scan,
    children,
    free_axes,
    indices_of,
    walk,
)

MAX_LENGTH = 90
MAX_STEPS = 60  # characters of a list of operations
NATIVE = {
    "groups": "numbers of rows, grouped by what they hold",
    "order": "places of the elements of rows in order",
    "starts": "counts of rows below each number",
    "sums": "sums of values by the numbers of rows",
    "order_descending": "places of the elements of rows in descending order",
}
WORDS = {
    **{w: w for w in ("product", "convolution", "softmax", "mean", "maximum", "sum", "gather")},
    **{w: w for w in ("scatter", "scan", "copy")},
    "products": "product",
    "places": "order",
    "numbers": "groups",
    "counts": "counts",
    "sums": "sum",
}
CURVES = {Op.EXP2: "exponentials", Op.LOG2: "logarithms", Op.SIN: "sines"}
MAX_NAMES = 3


def title(region: Region, plan: KernelPlan | None = None) -> str:
    """`[batch, 128]: product of hidden with query_weight, plus bias`."""
    whole = region if plan is None or plan.then is not None else plan.region
    shapes = dict.fromkeys(f"[{', '.join(map(str, s.dst.dims))}]" for s in whole.stores)
    text = f"{' '.join(shapes)}: {_told(whole, plan)}"
    return text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 4].rpartition(' ')[0]} ..."


def word(region: Region, plan: KernelPlan | None = None) -> str:
    """The one word that says best what a kernel computes; empty where none does."""
    first = _told(region, plan).partition(" ")[0]
    return WORDS.get(first, "")


def _told(region: Region, plan: KernelPlan | None) -> str:
    if region.native:
        return NATIVE.get(region.native, region.native.replace("_", " "))
    nodes = walk(s.value for s in region.stores)
    reductions = [e for e in nodes if isinstance(e, Reduce)]
    products = [r for r in reductions if _factors(r) is not None]
    around = None if plan is None else _fold_around(plan)
    if around is not None:
        axes, online, factors = around
        return _told_fold(axes, online, [b for b in region.reads() if b in factors])
    if products:
        return _told_products(region, products, nodes)
    if any(isinstance(e, Scan) for e in nodes):
        scans = dict.fromkeys(f"scan over {e.axis.extent}" for e in nodes if isinstance(e, Scan))
        return ", ".join(scans)
    moved = _told_rows(reductions, nodes) or _told_moves(region, nodes)
    return moved or _told_steps(nodes)


# ---- products ----


def _factors(r: Reduce) -> tuple[Expr, Expr] | None:
    """The two factors of a sum of products, each with axes that the other one does not have; weights need none."""
    body = r.body
    if r.monoid is not Monoid.SUM or not isinstance(body, Prim) or body.op is not Op.MUL:
        return None
    a, b = body.args
    bound = frozenset(r.axes)
    shared = free_axes(a) & free_axes(b) & bound
    own = free_axes(b) - free_axes(a), free_axes(a) - free_axes(b)
    weighs = [Role.WEIGHT in {x.role for x in _sources(e) if len(x.dims) > 1} for e in (a, b)]
    return (a, b) if shared and (all(own) or (any(weighs) and any(own))) else None


def _sources(e: Expr) -> list[Buffer]:
    """What a factor reads; where it is computed from another product, nothing of that."""
    stack, out, seen = [e], dict[Buffer, None](), set[Expr]()
    while stack:
        x = stack.pop()
        if x in seen:
            continue
        seen.add(x)
        if isinstance(x, Read):
            out.setdefault(x.source)
        if not (isinstance(x, Reduce) and _factors(x) is not None):
            stack.extend(reversed(children(x)))
    return list(out)


def _named(b: Buffer) -> str:
    return b.name.removesuffix("_panels").rstrip("_")


def _listed(names: Iterable[str]) -> str:
    """`a, b and c`; of many the first ones."""
    found = list(dict.fromkeys(names))
    if len(found) > MAX_NAMES:
        return f"{', '.join(found[:MAX_NAMES])} and others"
    return " and ".join(filter(None, [", ".join(found[:-1]), found[-1]])) if found else ""


def _told_products(region: Region, products: Sequence[Reduce], nodes: Sequence[Expr]) -> str:
    """One product after another where one is made of the other, else side by side."""
    told: dict[str, None] = {}
    used = dict[Buffer, None]()
    for r in products:
        factors = _factors(r)
        assert factors is not None
        sources = [_sources(f) for f in factors]
        used.update(dict.fromkeys(b for s in sources for b in s))
        sides = [s for s in sources if s and all(b.role is Role.WEIGHT for b in s)]
        weights = [b for s in sides for b in s]
        window = _window(r)
        if window:
            told[
                f"convolution {window} with {_listed(map(_named, weights))}".removesuffix(" with ")
            ] = None
        elif weights:
            told[f"product with {_listed(map(_named, weights))}"] = None
        else:
            left, right = (_listed(map(_named, s)) for s in sources)
            told[f"product of {left or 'it'} and {right or 'it'}"] = None
    parts = [_merged(list(told))]
    added = [b for b in region.reads() if b.role is Role.WEIGHT and b not in used]
    parts += [f"and {_listed(map(_named, added))}"] if added else []
    curve = _curves(nodes)
    return " ".join(parts) + (f", then {curve}" if curve else "")


def _merged(told: Sequence[str]) -> str:
    start = "product with "
    if len(told) > 1 and all(t.startswith(start) for t in told):
        return f"products with {_listed(t.removeprefix(start) for t in told)}"
    return ", then ".join(told)


def _window(r: Reduce) -> str:
    """`3 x 3`: the extents of what slides over an operand; empty where nothing does."""
    bound = frozenset(r.axes)
    sliding: dict[Axis, None] = {}
    for e in walk([r.body]):
        for i in indices_of(e) if isinstance(e, Read) else ():
            if i.axes & bound and i.axes - bound:
                steps = {factor for _, factor in i.terms}
                # what moves on by all of an extent, as groups of channels do, does not slide
                whole = (a for a in r.axes if a.extent.is_const and a.extent.const in steps)
                sliding.update(dict.fromkeys(i.axes & bound - frozenset(whole)))
    return " x ".join(str(a.extent) for a in r.axes if a in sliding)


def _curves(nodes: Iterable[Expr]) -> str:
    """What an epilogue does, as far as it has a word."""
    ops = {e.op for e in nodes if isinstance(e, Prim)}
    curves = [word for op, word in CURVES.items() if op in ops]
    if curves:
        return f"a map with {_listed(curves)}"
    return "a map" if any(isinstance(e, Choose) for e in nodes) else ""


# ---- folds ----


def _fold_around(plan: KernelPlan) -> tuple[tuple[Axis, ...], bool, list[Buffer]] | None:
    """The axes of a fold around a product, whether it carries a maximum with sums, and what it reads."""
    for loop in plan.loops():
        inside = list(_products(loop.body))
        carried = [c.product for c in loop.carries if c.product is not None]
        if loop.carries and (inside or carried):
            kinds = {c.monoid for c in loop.carries}
            online = Monoid.MAX in kinds and Monoid.SUM in kinds
            factors = [f for p in (*inside, *carried) for f in (p.rows, p.columns)]
            read = dict.fromkeys(b for f in factors for b in _sources(f))
            return loop.axes, online, list(read)
    return None


def _products(steps: Iterable[object]) -> Iterator[Product]:
    for s in steps:
        if isinstance(s, Product):
            yield s
        yield from _products(getattr(s, "body", ()))


def _told_fold(axes: tuple[Axis, ...], online: bool, read: Sequence[Buffer]) -> str:
    extents = " x ".join(str(a.extent) for a in axes)
    how = " with an online softmax," if online else ""
    return f"products over {extents}{how} of {_listed(map(_named, read))}"


def _told_rows(reductions: Sequence[Reduce], nodes: Sequence[Expr]) -> str:
    """Statistics of rows, by which of the reductions are made of which."""
    if not reductions:
        return ""
    last = reductions[-1]
    extents = " x ".join(str(a.extent) for a in last.axes)
    ops = {e.op for e in nodes if isinstance(e, Prim)}
    inner = [r for r in reductions if r is not last and r in set(walk([last.body]))]
    sums = [r for r in reductions if r.monoid is Monoid.SUM]
    if last.monoid is Monoid.SUM and Op.RECIP in ops:
        if Op.SQRT in ops and _is_square(last.body):
            what = "mean and variance" if any(r in sums for r in inner) else "mean square"
            return f"{what} of rows of {extents}, normalised"
        exp = any(isinstance(e, Prim) and e.op is Op.EXP2 for e in walk([last.body]))
        if exp and any(r.monoid is Monoid.MAX for r in inner):
            return f"softmax of rows of {extents}"
    told = dict.fromkeys(
        f"{'maximum' if r.monoid is Monoid.MAX else 'sum'} over "
        f"{' x '.join(str(a.extent) for a in r.axes)}"
        for r in reductions
    )
    outside = _told_steps([e for e in nodes if not isinstance(e, Reduce)])
    return ", ".join([*told, *([] if outside == "copy" else [outside])])


def _is_square(e: Expr) -> bool:
    return isinstance(e, Prim) and e.op is Op.MUL and e.args[0] is e.args[1]


# ---- moves, and the rest ----


def _told_moves(region: Region, nodes: Sequence[Expr]) -> str:
    """Scatter, gather and copy: what moves elements and computes little."""
    reads = [e for e in nodes if isinstance(e, Read)]
    scattered = [a for s in region.stores for i in s.at for a in i.atoms() if isinstance(a, Lookup)]
    if scattered:
        return f"scatter by {_listed(str(a.source) for a in scattered)}"
    looked = {e: [a for i in e.at for a in i.atoms() if isinstance(a, Lookup)] for e in reads}
    found = {e: atoms for e, atoms in looked.items() if atoms}
    if found:
        by = _listed(str(a.source) for atoms in found.values() for a in atoms)
        steps = _told_steps(nodes)
        tail = "" if steps == "copy" else f", {steps}"
        return f"gather from {_listed(_named(e.source) for e in found)} by {by}{tail}"
    plain = all(
        isinstance(e, Read) or (isinstance(e, Prim) and e.op is Op.CONTIGUOUS) for e in nodes
    )
    return f"copy of {_listed(_named(e.source) for e in reads)}" if plain and reads else ""


def _told_steps(nodes: Sequence[Expr]) -> str:
    """The operations, in order."""
    steps = dict.fromkeys(
        "copy" if e.op is Op.CONTIGUOUS else e.op.value for e in nodes if isinstance(e, Prim)
    )
    text = ", ".join(steps) or "copy"
    return text if len(text) <= MAX_STEPS else f"{text[: MAX_STEPS - 5].rpartition(',')[0]}, ..."
