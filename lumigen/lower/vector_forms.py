"""vector_forms: which values vectors over lanes compute, and which are computed for each lane by itself.

Facts of expressions, for one axis as lanes; they decide nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

from lumigen.condition import Cmp
from lumigen.dtype import FLOATS, DType, boolean, computed, f32, i8, i32, u8
from lumigen.index import (
    Atom,
    Axis,
    Ix,
    Lookup,
    ix,
    of_atom,
    product,
)
from lumigen.lower.phases import in_phases
from lumigen.lower.safe import is_safe
from lumigen.ops import Op
from lumigen.region import (
    Buffer,
    Choose,
    Expr,
    Gather,
    Holds,
    Index,
    Intrinsic,
    Local,
    Monoid,
    Prim,
    Random,
    Read,
    Reduce,
    children,
    choose,
    const,
    free_axes,
    holds,
    walk,
)


def address(source: Buffer, at: tuple[Ix, ...]) -> Ix:
    """The element's position in the buffer's row-major memory."""
    flat = ix(0)
    for extent, i in zip(source.dims, at, strict=True):
        flat = flat * extent + i
    return flat


def is_per_lane(e: Expr, lanes: Axis, dtypes: frozenset[DType] = FLOATS) -> bool:
    """Whether the value must be computed lane by lane: no vector of these dtypes is a form of it."""
    if lanes not in free_axes(e):
        return False
    if isinstance(e, Read):
        at = address(e.source, e.at)
        if at.coefficient(lanes) is None:
            return e.source.dtype is not f32 or in_phases(at, lanes) is None
        return e.dtype not in dtypes
    if isinstance(e, Gather):
        return e.dtype not in dtypes or not _is_at_places(e, lanes, dtypes)
    if isinstance(e, Index) and e.dtype in dtypes:
        return not adds_integers(e, lanes)
    if isinstance(e, Holds):
        affine = (c.of_numerator(lanes).slack.coefficient(lanes) for c in e.conditions)
        return any(factor is None for factor in affine) or not is_safe(e)
    if isinstance(e, Choose):
        return e.dtype not in dtypes or not is_safe(e)
    if isinstance(e, Prim) and (source := integers_read(e)) is not None:
        return address(source.source, source.at).coefficient(lanes) is None
    if isinstance(e, Prim | Intrinsic):
        there = {computed(x.dtype) for x in (e, *e.args)}
        return not there <= dtypes | {boolean} or (i32 in there and not _is_whole(e))
    return isinstance(e, Index | Random)


def _is_at_places(e: Gather, lanes: Axis, dtypes: frozenset[DType]) -> bool:
    """Whether vectors of i32 hold where an element of memory lies that a gather reads for each lane."""
    at = address(e.source, e.at)
    steps = [at.coefficient(a) for a in e.axes]
    if i32 not in dtypes or e.source.dtype not in (f32, i32):
        return False
    if any(s is None or lanes in s.axes for s in steps) or lanes in at.axes:
        return False
    most = extent_of_memory(e.source)
    return most is not None and most < 2**31 and all(p.dtype is i32 for p in e.places)


def extent_of_memory(b: Buffer) -> int | None:
    """How many elements it has at most."""
    return product(b.dims).bounds()[1]


def _is_whole(e: Prim | Intrinsic) -> bool:
    """Whether there is a step of vectors of i32 for it: sums, products, comparisons, truth values as numbers."""
    if isinstance(e, Intrinsic):
        return e.name in ("eq", "ne", "le")
    if e.op is Op.CONTIGUOUS:
        return e.dtype is f32 or e.args[0].dtype is boolean
    return e.op in (Op.ADD, Op.MUL, Op.LESS_THAN)


def has_nested_gathers(e: Gather) -> bool:
    """Whether a place is made of what lies at another one."""
    return any(isinstance(x, Gather) for x in walk(e.places))


def integers_read(e: Prim) -> Read | None:
    """The integers of memory that a cast makes floats of, which a load over lanes does on its way."""
    source = e.args[0]
    if e.op is not Op.CONTIGUOUS or computed(e.dtype) is not f32 or not isinstance(source, Read):
        return None
    return source if source.source.dtype in (i8, u8, i32) else None


def lanes_fit(
    roots: Iterable[Expr],
    lanes: Axis,
    dtypes: frozenset[DType] = FLOATS,
    *,
    integers: bool = False,
) -> bool:
    """Whether a loop over lanes can compute the values: what is one value for all lanes has a vector form.

    With `integers` vectors add up those of 32 bits of which floats are made.
    """
    roots = tuple(roots)
    added = _added(roots, lanes) if integers else frozenset[Expr]()
    for e in walk(roots):
        if e in added:
            continue
        if isinstance(e, Reduce) and lanes in free_axes(e) and e.dtype not in dtypes:
            return False
        value = e
        if isinstance(e, Reduce):
            value = guarded(e.monoid, e.body, _within_loops(e, lanes))
        if isinstance(e, Gather) and is_per_lane(e, lanes, dtypes) and has_nested_gathers(e):
            return False  # a lane by itself would go the whole way there
        if is_per_lane(value, lanes, dtypes) and any(
            isinstance(x, Reduce | Local) and lanes in free_axes(x) for x in walk([value])
        ):
            return False
    return True


def _added(roots: Sequence[Expr], lanes: Axis) -> frozenset[Expr]:
    """Integers that vectors add up, to store them or to make floats of them, and casts to these.

    None that two values are made of, which vectors have no name for.
    """
    nodes = walk(roots)
    used = Counter(x for e in nodes for x in children(e))
    casts = [e for e in nodes if isinstance(e, Prim) and e.op is Op.CONTIGUOUS and e.dtype is f32]
    begin: list[tuple[Expr, Expr]] = [(e, e.args[0]) for e in casts]
    out = set[Expr]()
    for start, total in [*begin, *((e, e) for e in roots)]:
        if total.dtype is not i32 or not adds_integers(total, lanes):
            continue
        inside, waiting = {start}, list[Expr]((total,))
        while waiting:
            x = waiting.pop()
            inside |= {x}
            waiting += () if whole_floats(x) is not None else children(x)
        varying = {x for x in inside if lanes in free_axes(x)}
        if all(used[x] <= 1 for x in varying - {start}):
            out |= varying
    return frozenset(out)


def whole_floats(e: Expr) -> Expr | None:
    """The floats of which an integer of 32 bits is a cast; None of any other value."""
    if not isinstance(e, Prim) or e.op is not Op.CONTIGUOUS or e.dtype is not i32:
        return None
    return e.args[0] if e.args[0].dtype is f32 else None


def _within_loops(r: Reduce, lanes: Axis) -> list[Cmp]:
    """The conditions of a reduction that cannot bound its loops."""

    def bounds(c: Cmp) -> bool:
        return any(c.slack.coefficient(a) in (ix(1), ix(-1)) for a in r.axes)

    return [c for c in r.where if lanes in c.slack.axes or not bounds(c)]


def adds_integers(e: Expr, lanes: Axis) -> bool:
    """Whether vectors of i32 compute the value: integers that memory has in 32 bits, sums and products of these."""
    if e.dtype is not i32 or lanes not in free_axes(e):
        return e.dtype is i32
    if isinstance(e, Local):
        return True
    if isinstance(e, Read):
        return _lies_along(e.source, e.at, lanes)
    if whole_floats(e) is not None:
        return True
    if isinstance(e, Index):
        return all(_multiplies_one(atoms, lanes) for atoms, _ in e.value.terms)
    both = isinstance(e, Prim) and e.op in (Op.ADD, Op.MUL)
    return both and all(adds_integers(a, lanes) for a in children(e))


def _lies_along(source: Hashable, at: tuple[Ix, ...], lanes: Axis) -> bool:
    if not isinstance(source, Buffer) or source.dtype is not i32:
        return False
    return address(source, at).coefficient(lanes) == 1


def _multiplies_one(atoms: tuple[Atom, ...], lanes: Axis) -> bool:
    """Whether one of the factors at most varies with the lanes, and is an integer that lies along these."""
    varying = [a for a in atoms if lanes in of_atom(a).axes]
    one = varying[0] if varying else None
    return one is None or (
        len(varying) == 1 and isinstance(one, Lookup) and _lies_along(one.source, one.at, lanes)
    )


def floats_of(value: Expr, dtype: DType, *, integers: bool) -> Expr | None:
    """The floats that vectors store as `dtype`: the value, or with `integers` what it is a cast of; None of others."""
    if value.dtype.is_float:
        return value if computed(dtype) is value.dtype else None
    whole = integers and dtype in (i8, u8, i32)
    if (
        whole
        and isinstance(value, Prim)
        and value.op is Op.CONTIGUOUS
        and value.args[0].dtype is f32
    ):
        return value.args[0]
    return None


def guarded(monoid: Monoid, value: Expr, conditions: Iterable[Cmp]) -> Expr:
    """A term of a reduction, neutral where a condition fails."""
    asked = tuple(conditions)
    if not asked:
        return value
    lowest = value.dtype.lowest if monoid is Monoid.MAX else (0.0 if value.dtype.is_float else 0)
    return choose(holds(asked), value, const(lowest, value.dtype))
