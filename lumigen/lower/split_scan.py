"""split_scan: a scan of long rows in parts, which tasks run side by side.

Before: a region of one scan.  After: three kernels or four. The first compute what each part comes to by itself; the
next scans these, so that it has the carry after each part; the last goes on from there.

    sums, maxima    totals[p] = reduction of part p;  ends = scan of totals;  y[t] = scan of part p from ends[p - 1]
    other monoids   local[t] = scan of part p;        ends = scan of each last local;  y = ends[p - 1] o local
    h = a h + b     the same, where local is h from 0 and the product of a up to t:  y = product * ends[p - 1] + h

A monoid is one that the scan declares, with the neutral element that it begins with; that a step is affine in its carry
is seen from the step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from lumigen.condition import Cmp, less
from lumigen.index import Axis, Ix, ix, minimum
from lumigen.lower.scan import parts_of, plan_scan
from lumigen.lower.sweeps import plan_sweeps
from lumigen.machine import Machine
from lumigen.names import fresh
from lumigen.ops import Op
from lumigen.plan import KernelPlan, RegionPlan
from lumigen.region import (
    Buffer,
    Carried,
    Const,
    Expr,
    Monoid,
    Prim,
    Region,
    Role,
    Scan,
    Store,
    carried,
    choose,
    const,
    holds,
    is_zero,
    map_expr,
    prim,
    read,
    reduce,
    scan,
    substitute,
    walk,
)

REDUCED = {"sum": Monoid.SUM, "max": Monoid.MAX}
NEUTRAL = {"product": 1.0, "min": math.inf, "logsumexp": -math.inf}
Point = Callable[[Ix], Expr]


def split_scan(region: Region, length: int, machine: Machine) -> RegionPlan | None:
    """The kernels of a scan in parts of so many elements; None where no parts of it can be put together."""
    (store,) = region.stores
    assert isinstance(store.value, Scan)
    pieces = _ScanPieces(region, store, store.value, length, machine)
    if store.value.part:
        return None
    return pieces.reduced() or pieces.combined() or pieces.affine()


@dataclass
class _ScanPieces:
    """A scan that is taken apart, and the kernels so far."""

    region: Region
    store: Store
    value: Scan
    length: int
    machine: Machine

    def __post_init__(self) -> None:
        self.kernels: list[KernelPlan] = []
        self.temps: list[Buffer] = []
        self.taken = {b.name for b in self.region.buffers()}
        axes, t = self.store.axes, self.value.axis
        names = {a.name for a in axes}
        self.part = Axis(fresh("piece", names), parts_of(scan_in_parts(self.value, self.length)))
        self.of_parts = tuple(self.part if a == t else a for a in axes)

    # ---- the three ways ----

    def reduced(self) -> RegionPlan | None:
        """Of a monoid that reductions have."""
        v, t = self.value, self.value.axis
        monoid = REDUCED.get(v.monoid or "")
        if monoid is None or v.element is None:
            return None
        c = Axis(t.name, ix(self.length))
        at = ix(self.part) * self.length + c
        body, inside = substitute(v.element, {t: at}), (less(at, t.extent),)
        total = self.keep("totals", self.of_parts, reduce(monoid, (c,), body, v.dtype, inside))
        ends = self.ends(scan(self.part, v.init, v.step, total(ix(self.part)), v.monoid))
        init = self.after_first(ends, v.init)
        return self.plan(scan(t, init, v.step, v.element, v.monoid, self.length))

    def combined(self) -> RegionPlan | None:
        """Of another monoid, whose neutral element the scan begins with."""
        v = self.value
        if v.element is None or not isinstance(v.init, Const):
            return None
        if v.init.value != NEUTRAL.get(v.monoid or ""):
            return None
        local = self.local(v)
        ends = self.ends(scan(self.part, v.init, v.step, self.last(local), v.monoid))
        here = local(ix(v.axis))
        return self.plan(self.after_first(lambda p: _combined(v.step, ends(p), here), here))

    def affine(self) -> RegionPlan | None:
        """Of a step that multiplies the carry and adds to it."""
        v, t = self.value, self.value.axis
        factor = slope(v.step) if v.element is None and v.dtype.is_float else None
        if factor is None:
            return None
        zero, one = (const(x, v.dtype) for x in (0.0, 1.0))
        old, new = (carried(0, which, v.dtype) for which in ("old", "new"))
        init = self.after_first(lambda _: zero, v.init)
        local = self.local(scan(t, init, v.step))
        product = prim(Op.MUL, (old, new), v.dtype)
        factors = self.local(scan(t, one, product, factor, "product"))

        def further(a: Expr, h: Expr, b: Expr) -> Expr:
            return prim(Op.ADD, (prim(Op.MUL, (a, h), v.dtype), b), v.dtype)

        ends = self.ends(scan(self.part, zero, further(self.last(factors), old, self.last(local))))
        here, by = local(ix(t)), factors(ix(t))
        return self.plan(self.after_first(lambda p: further(by, ends(p), here), here))

    # ---- what they are made of ----

    def keep(self, name: str, axes: tuple[Axis, ...], value: Expr) -> Point:
        """Store a value over axes; what reads it at a point of the scanned axis, or of the parts."""
        name = fresh(name, self.taken)
        self.taken.add(name)
        b = Buffer(name, Role.TEMP, tuple(a.extent for a in axes), value.dtype)
        region = Region((Store(b, axes, tuple(map(ix, axes)), value),), self.region.lines)
        is_scan = isinstance(value, Scan)
        kernel = plan_scan(region, self.machine) if is_scan else plan_sweeps(region, self.machine)
        self.kernels.append(kernel)
        self.temps.append(b)
        moved = (self.part, self.value.axis)
        return lambda at: read(b, tuple(at if a in moved else ix(a) for a in axes))

    def local(self, value: Expr) -> Point:
        assert isinstance(value, Scan)
        return self.keep("local", self.store.axes, scan_in_parts(value, self.length))

    def ends(self, value: Expr) -> Point:
        """The carries after the parts."""
        return self.keep("ends", self.of_parts, value)

    def last(self, local: Point) -> Expr:
        """The last element of a part."""
        end = ix(self.part) * self.length + (self.length - 1)
        return local(minimum(end, self.value.axis.extent - 1))

    def after_first(self, later: Point, first: Expr) -> Expr:
        """A value at the scanned axis, of the part before it; another one in the first part."""
        before = ix(self.value.axis) // self.length - 1
        return choose(holds((Cmp(before),)), later(before), first)

    def plan(self, value: Expr) -> RegionPlan:
        last = Store(self.store.dst, self.store.axes, self.store.at, value)
        region = Region((last,), self.region.lines)
        is_scan = isinstance(value, Scan)
        kernel = plan_scan(region, self.machine) if is_scan else plan_sweeps(region, self.machine)
        return RegionPlan(self.region, (*self.kernels, kernel), tuple(self.temps))


def scan_in_parts(value: Scan, length: int) -> Scan:
    """The scan begun anew after so many elements."""
    out = scan(value.axis, value.init, value.step, value.element, value.monoid, length)
    assert isinstance(out, Scan)
    return out


def _combined(step: Expr, old: Expr, new: Expr) -> Expr:
    both = {carried(0, "old", old.dtype): old, carried(0, "new", new.dtype): new}
    return map_expr(step, both)


def slope(step: Expr) -> Expr | None:
    """What a step that is affine in the carry multiplies it with; None of another one."""
    kind = step.dtype
    if not any(isinstance(x, Carried) for x in walk([step])):
        return const(0.0, kind)
    if isinstance(step, Carried):
        return const(1.0, kind)
    if not isinstance(step, Prim) or step.op not in (Op.ADD, Op.MUL):
        return None
    (x, a), (y, b) = ((x, slope(x) if x.dtype is kind else None) for x in step.args)
    if a is None or b is None:
        return None
    if step.op is Op.ADD:
        if is_zero(a) or is_zero(b):
            return b if is_zero(a) else a
        return prim(Op.ADD, (a, b), kind)
    if is_zero(a) or is_zero(b):
        return prim(Op.MUL, (x, b) if is_zero(a) else (a, y), kind)
    return None
