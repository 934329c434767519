"""The rules that regions and folds keep; `verify` checks them all and names what breaks one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lumigen.condition import Cmp, less
from lumigen.dtype import accumulator, computed, i32, i64
from lumigen.errors import VerifyFailed
from lumigen.index import Ix, is_nonnegative
from lumigen.ops import Op
from lumigen.plan import LoopFold
from lumigen.region import (
    Carried,
    Choose,
    Expr,
    Gather,
    Holds,
    Local,
    Monoid,
    Prim,
    Random,
    Read,
    Reduce,
    Region,
    Scan,
    Store,
    children,
    free_axes,
    walk,
)

Conditions = frozenset[Cmp]


def verify(region: Region, after: str = "verify") -> Region:
    """The region itself, if it keeps every rule; `after` names the pass that made it."""
    for store in region.stores:
        for broken in _broken_by_store(store):
            raise VerifyFailed(after=after, what=f"store to {store.dst}: {broken}")
    return region


def verify_fold(fold: LoopFold, after: str = "verify") -> LoopFold:
    """The fold itself, if its states depend on each other in order and its results on no point."""
    for broken in _broken_by_fold(fold):
        raise VerifyFailed(after=after, what=f"fold over ({_list(fold.axes)}): {broken}")
    return fold


# ---- what is known where an expression is evaluated ----


def reached(roots: Iterable[Expr]) -> Iterator[tuple[Read | Gather, Conditions]]:
    """Every read with what holds wherever it is evaluated, once for each set of conditions."""
    none: Conditions = frozenset()
    stack = [(e, none) for e in roots]
    seen: set[tuple[Expr, Conditions]] = set()
    while stack:
        e, given = stack.pop()
        if (e, given) in seen:
            continue
        seen.add((e, given))
        if isinstance(e, Read | Gather):
            yield e, given
            stack.extend((c, given) for c in children(e))
        elif isinstance(e, Choose) and isinstance(e.condition, Holds):
            stack.append((e.then, given | frozenset(e.condition.conditions)))
            stack.append((e.otherwise, given | _otherwise(e.condition)))
        elif isinstance(e, Reduce):
            outer = frozenset(c for c in given if not c.axes & frozenset(e.axes))
            stack.append((e.body, outer | frozenset(e.where)))
        else:
            stack.extend((c, given) for c in children(e))


def _otherwise(condition: Holds) -> Conditions:
    """What holds where a single condition fails."""
    if len(condition.conditions) != 1:
        return frozenset()
    return frozenset({Cmp(-condition.conditions[0].slack - 1)})


def inside(read: Read | Gather) -> tuple[Cmp, ...]:
    """The conditions under which a read is within its buffer."""
    pairs = zip(read.at, read.source.dims, strict=True)
    return tuple(c for i, extent in pairs for c in (less(-1, i), less(i, extent)))


def implied(c: Cmp, given: Conditions) -> bool:
    """Whether a condition holds, alone or because of one that is given."""
    return c.known() is True or any(is_nonnegative(c.slack - g.slack) for g in given)


# ---- rules ----


def _broken_by_store(store: Store) -> Iterator[str]:
    axes = frozenset(store.axes)
    if len(axes) != len(store.axes):
        yield "an axis stands twice"
    if len(store.at) != len(store.dst.dims):
        yield f"{len(store.at)} indices for {len(store.dst.dims)} dims"
    loose = free_axes(store.value).union(*(i.axes for i in store.at)) - axes
    if loose:
        yield f"nothing binds {_list(sorted(map(str, loose)))}"
    value, target = store.value.dtype, store.dst.dtype
    if value is not target and not (value.is_float and target.is_float):
        yield f"a value of {value} in a buffer of {target}"
    in_scans = {
        x
        for e in walk([store.value])
        if isinstance(e, Scan)
        for x in walk([e.step])
        if isinstance(x, Carried) and x.carry == 0
    }
    for e in walk([store.value]):
        yield from _broken_by_node(e)
        if isinstance(e, Carried) and e not in in_scans:
            yield "a state outside any fold"
        if isinstance(e, Local):
            yield f"{e.name} is named by no tile program"
    for read, given in reached([store.value]):
        for c in inside(read):
            if any(is_nonnegative(-g.slack - 1) for g in given):
                continue  # never evaluated
            if is_nonnegative(-c.slack - 1):
                yield f"{read.source}[{_list(read.at)}] is outside: {c} never holds"


def _broken_by_node(e: Expr) -> Iterator[str]:
    match e:
        case Prim():
            broken = _broken_by_prim(e)
            if broken:
                yield f"{e.op.value} of {_list(a.dtype for a in e.args)} as {e.dtype}: {broken}"
        case Choose():
            if not e.condition.dtype.is_bool:
                yield f"a choice by {e.condition.dtype}"
            if e.then.dtype is not e.dtype or e.otherwise.dtype is not e.dtype:
                yield f"a choice of {e.then.dtype} and {e.otherwise.dtype} as {e.dtype}"
        case Reduce():
            if e.body.dtype is not e.dtype or e.acc is not accumulator(e.dtype):
                yield f"a reduction of {e.body.dtype} in {e.acc} as {e.dtype}"
            if len(set(e.axes)) != len(e.axes) or not e.axes:
                yield "a reduction over no axis, or over one twice"
        case Read() | Gather() | Random():
            yield from _broken_by_source(e)
        case Scan():
            if e.step.dtype is not e.dtype:
                yield f"a scan of {e.dtype} that steps to {e.step.dtype}"
            if (e.element is None) is not (e.monoid is None):
                yield f"a scan by {e.monoid or 'no operation'} with {e.element}"
            if e.axis in free_axes(e.init) and not e.part:
                yield f"a scan over {e.axis} that begins with what varies along it"
        case _:
            pass


def _broken_by_source(e: Read | Gather | Random) -> Iterator[str]:
    if isinstance(e, Random):
        if e.key.dtype is not i64 or e.dtype not in (i32, i64):
            yield f"random bits of {e.dtype} by a key of {e.key.dtype}"
    elif len(e.at) != len(e.source.dims) or e.dtype is not computed(e.source.dtype):
        yield f"{e.source}[{_list(e.at)}] as {e.dtype}"
    elif isinstance(e, Gather) and (
        len(e.axes) != len(e.places) or not all(p.dtype.is_int for p in e.places)
    ):
        yield f"{_list(e.axes)} at places of {_list(p.dtype for p in e.places)}"


def _broken_by_prim(e: Prim) -> str | None:
    kinds = {a.dtype for a in e.args}
    match e.op:
        case Op.CONTIGUOUS:
            return None if len(e.args) == 1 else "takes one operand"
        case Op.LESS_THAN:
            return None if len(kinds) == 1 and e.dtype.is_bool else "compares equal types to bool"
        case Op.ADD | Op.MOD | Op.MUL:
            if e.op is not Op.MUL and e.dtype.is_bool:
                return "is for numbers"
            return None if kinds == {e.dtype} and len(e.args) == 2 else "takes two of its type"
        case Op.LOG2 | Op.EXP2 | Op.SIN | Op.SQRT | Op.RECIP:
            one_float = kinds == {e.dtype} and e.dtype.is_float and len(e.args) == 1
            return None if one_float else "takes one float of its type"
        case _:
            return "is no elementwise primitive"


def _broken_by_fold(fold: LoopFold) -> Iterator[str]:
    for i, carry in enumerate(fold.carries):
        for x in walk([carry.tile]):
            if isinstance(x, Carried) and (x.which != "new" or x.carry >= i):
                yield f"the tile of #{i} reads #{x.carry}.{x.which}"
        if carry.correct is None:
            continue
        if carry.monoid is not Monoid.SUM and not carry.correct.dtype.is_bool:
            yield f"#{i} corrects a {carry.monoid.value}"
        if free_axes(carry.correct) & frozenset(fold.axes):
            yield f"the correction of #{i} varies from point to point"
        for x in walk([carry.correct]):
            if isinstance(x, Carried) and x.carry >= i:
                yield f"the correction of #{i} reads #{x.carry}.{x.which}"
    for original, result in fold.results:
        if not isinstance(original, Reduce):
            yield "a result for what is no reduction"
        if free_axes(result) & frozenset(fold.axes):
            yield "a result that varies from point to point"
        for x in walk([result]):
            if isinstance(x, Carried) and (x.which != "new" or x.carry >= len(fold.carries)):
                yield f"a result reads #{x.carry}.{x.which}"


def _list(items: Iterable[Ix | object]) -> str:
    return ", ".join(map(str, items))
