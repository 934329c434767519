"""What must hold of a plan: each store once, inside loops over its axes; each reduction from one fold or product."""

from __future__ import annotations

from collections.abc import Iterator

from lumigen.errors import VerifyFailed
from lumigen.index import Axis, extent_of, ix
from lumigen.plan import KINDS, KernelPlan, Loop, Native, Product, RegionPlan, Step
from lumigen.region import (
    Buffer,
    Carried,
    Choose,
    Expr,
    Reduce,
    Role,
    Store,
    free_axes,
    reduce,
    walk,
)


def verify(plan: RegionPlan, after: str = "plan_region") -> RegionPlan:
    """The plan itself; VerifyFailed if it does not compute its region."""
    stored: set[Buffer] = set()
    for kernel in plan.kernels:
        verify_kernel(kernel, after)
        stored |= {s.dst for s in kernel.region.stores if s.dst.role is not Role.COUNTER}
    wanted = {s.dst for s in plan.region.stores} | set(plan.temps)
    if stored != wanted:
        names = sorted(b.name for b in stored ^ wanted)
        _fail(after, f"its kernels and the plan differ in what is stored: {', '.join(names)}")
    return plan


def verify_kernel(kernel: KernelPlan, after: str = "plan_region") -> KernelPlan:
    """The same of the plan of one kernel."""
    stored: list[Store] = []
    computed: list[Expr] = []
    _check_grids(kernel, after)
    for loop in kernel.root:
        here: list[Expr] = []
        for inner, axes in _loops(loop, frozenset()):
            _check_loop(inner, after)
            here.extend(original for original, _ in inner.results)
            for step in inner.body:
                if isinstance(step, Product):
                    here.append(step.value)
                    _check_product(step, axes, after)
                elif isinstance(step, Store):
                    stored.append(step)
                    if not set(step.axes) <= axes:
                        _fail(after, f"the store to {step.dst} stands outside loops over its axes")
                elif isinstance(step, Native):
                    stored += [step.store, *(s for s, _ in step.elements)]
        if _has_twice(loop, frozenset(original for original, _ in loop.results)):
            _fail(after, "a reduction is computed by two folds")
        computed += here
    _check_stores(kernel, stored, after)
    for store in stored:
        for r in _outer_reductions(store.value):
            if r not in computed and not any(isinstance(s, Native) for s in kernel.steps()):
                _fail(after, f"no fold computes the {r.monoid.value} over {_names(r.axes)}")
    if kernel.then is not None:
        verify_kernel(kernel.then, after)
    return kernel


def _has_twice(loop: Loop, known: frozenset[Expr]) -> bool:
    """Whether a fold inside computes what is known there. Folds apart from each other may compute the same."""
    made = [e for step in loop.body for e in _made(step)]
    if len(set(made)) != len(made) or known.intersection(made):
        return True
    return any(_has_twice(s, known.union(made)) for s in loop.body if isinstance(s, Loop))


def _made(step: Step) -> tuple[Expr, ...]:
    """The reductions that a step leaves to those around it."""
    match step:
        case Loop(results=results):
            return tuple(original for original, _ in results)
        case Product(value=value):
            return (value,)
        case _:
            return ()


def _check_grids(kernel: KernelPlan, after: str) -> None:
    """The root is folds of a work tile, then grids; there is none inside another loop."""
    grids = [loop.kind == "grid" for loop in kernel.root]
    if not any(grids) or sorted(grids) != grids:
        _fail(after, "a root is grids, after the folds of a work tile")
    if any(not loop.carries for loop in kernel.root if loop.kind != "grid"):
        _fail(after, "a loop at the root is neither a grid nor a fold")
    inner = (s for s in kernel.steps() if isinstance(s, Loop))
    if any(s.kind == "grid" for s in inner):
        _fail(after, "a grid stands inside another loop")
    for loop in kernel.loops():
        if loop.kind not in KINDS or (loop.kind == "grid" and loop.carries):
            _fail(after, f"a {loop.kind} loop with {len(loop.carries)} carries")


def _check_stores(kernel: KernelPlan, stored: list[Store], after: str) -> None:
    """Each buffer as often as the region stores it, or in pieces; of one that is written over only what changes may be.

    Pieces have as many points together as the store that they are of.
    """
    wanted = [s for s in kernel.region.stores if s.dst.role is not Role.COUNTER]
    found = [*stored, *(kernel.then.stores if kernel.then is not None else ())]
    if {s.dst for s in found} != {s.dst for s in wanted}:
        _fail(after, f"stores {len(found)} times for {len(wanted)} stores")
    for dst in {s.dst for s in wanted}:
        whole, parts = ([s for s in of if s.dst == dst] for of in (wanted, found))
        points = (sum((extent_of(s.axes) for s in of), ix(0)) for of in (whole, parts))
        if len(parts) < len(whole) or (len(parts) > len(whole) and len({*points}) > 1):
            _fail(after, f"{len(parts)} stores to {dst} are not the {len(whole)} of the region")


def _check_product(p: Product, axes: frozenset[Axis], after: str) -> None:
    own = free_axes(p.value) - frozenset(p.value.axes)
    if not {*p.m, *p.n} <= own:
        _fail(after, f"a product does not vary with all of {_names((*p.m, *p.n))}")
    if not own <= axes | {*p.m, *p.n}:
        _fail(after, f"a product stands outside loops over {_names(tuple(own - axes))}")
    if free_axes(p.rows) & set(p.n) or free_axes(p.columns) & set(p.m):
        _fail(after, "the rows of a product vary with its columns, or these with its rows")


def _loops(loop: Loop, outside: frozenset[Axis]) -> Iterator[tuple[Loop, frozenset[Axis]]]:
    """Each loop, with the axes that have a value in its body."""
    axes = outside | frozenset(loop.axes)
    yield loop, axes
    for step in loop.body:
        if isinstance(step, Loop):
            yield from _loops(step, axes)


def _check_loop(loop: Loop, after: str) -> None:
    if len(set(loop.axes)) != len(loop.axes):
        _fail(after, f"a loop over {_names(loop.axes)} names an axis twice")
    for i, carry in enumerate(loop.carries):
        states = {e.carry for e in walk([carry.tile]) if isinstance(e, Carried)}
        if any(s >= i for s in states):
            _fail(after, f"the tile of carry {i} reads a state that comes after it")
        if carry.correct is not None and free_axes(carry.correct) & set(loop.axes):
            _fail(after, f"the correction of carry {i} varies inside of the loop")
    for original, _ in loop.results:
        if not isinstance(original, Reduce) or not _is_of(original, loop):
            _fail(
                after, f"a loop over {_names(loop.axes)} claims a value that is no reduction of it"
            )


def _is_of(r: Reduce, loop: Loop) -> bool:
    """Whether a loop computes a reduction over its axes, or what a carry that is zero elsewhere has at one place."""
    if set(r.axes) == set(loop.axes):
        return True
    for c in loop.carries:
        left = reduce(c.monoid, loop.axes, c.tile, c.dtype) if c.value is r else None
        if isinstance(left, Choose):
            left = left.then
        if isinstance(left, Reduce) and (left.axes, left.body) == (r.axes, r.body):
            return True
    return False


def _outer_reductions(e: Expr) -> Iterator[Reduce]:
    """The reductions of a value that do not vary with the axes of one around them."""
    inside = {
        r
        for outer in walk([e])
        if isinstance(outer, Reduce)
        for r in walk([outer.body])
        if isinstance(r, Reduce) and free_axes(r) & set(outer.axes)
    }
    for x in walk([e]):
        if isinstance(x, Reduce) and x not in inside:
            yield x


def _names(axes: tuple[Axis, ...]) -> str:
    return ", ".join(a.name for a in axes)


def _fail(after: str, what: str) -> None:
    raise VerifyFailed(after=after, what=what)
