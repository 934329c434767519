"""What must hold of a plan: each store once, inside loops over its axes; each reduction from one fold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from lumigen.errors import VerifyFailed
from lumigen.index import Axis
from lumigen.plan import Loop, RegionPlan
from lumigen.region import Carried, Expr, Reduce, Store, free_axes, walk


def verify(plan: RegionPlan, after: str = "plan_region") -> RegionPlan:
    """The plan itself; VerifyFailed if it does not compute its region."""
    stored: list[Store] = []
    computed: list[Expr] = []
    for kernel in plan.kernels:
        for loop in (*kernel.root, *kernel.merge):
            for inner, axes in _loops(loop, frozenset()):
                _check_loop(inner, after)
                computed.extend(original for original, _ in inner.results)
                for step in inner.body:
                    if isinstance(step, Store):
                        stored.append(step)
                        if not set(step.axes) <= axes:
                            _fail(
                                after, f"the store to {step.dst} stands outside loops over its axes"
                            )
    if Counter(stored) != Counter(plan.region.stores):
        _fail(after, f"stores {len(stored)} times for {len(plan.region.stores)} stores")
    if len(set(computed)) != len(computed):
        _fail(after, "a reduction is computed by two folds")
    for store in plan.region.stores:
        for r in _outer_reductions(store.value):
            if r not in computed:
                _fail(after, f"no fold computes the {r.monoid.value} over {_names(r.axes)}")
    return plan


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
    for original, _ in loop.results:
        if not isinstance(original, Reduce) or set(original.axes) != set(loop.axes):
            _fail(
                after, f"a loop over {_names(loop.axes)} claims a value that is no reduction of it"
            )


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
