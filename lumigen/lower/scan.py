"""scan: the loops of a scan, each row of which carries one value from element to element.

Before: a region whose one store is of a scan.  After: work tiles of rows, in each of which a loop over the scanned
axis takes the carry one element further and stores it. Where the last axis is another one, its neighbouring points
have their carries in one vector. Of a scan in parts each part is a row of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from lumigen.condition import Cmp
from lumigen.dtype import computed, f32
from lumigen.index import Axis, Ix, ceildiv, extent_of, ix, minimum
from lumigen.lower.built import Built, check
from lumigen.lower.scope import Names, Scope, address, lanes_fit
from lumigen.lower.simt import check_threads, check_width, dims_of
from lumigen.lower.sweeps import grid_loop
from lumigen.machine import Machine, Teams
from lumigen.names import fresh
from lumigen.ops import Op
from lumigen.plan import KernelPlan, Loop, NotRealised
from lumigen.region import (
    Expr,
    Local,
    Prim,
    Region,
    Scan,
    Store,
    carried,
    local,
    map_expr,
    substitute,
    walk,
)
from lumigen.schedule import Schedule
from lumigen.tile import Advance, For, ScanCarry, ScanLanes, StoreTile, TileProgram


def is_scan(region: Region) -> bool:
    """Whether it stores a scan."""
    return any(isinstance(s.value, Scan) for s in region.stores)


def plan_scan(region: Region, machine: Machine) -> KernelPlan:
    """A loop over the scanned axis inside those over all others; the threads of a team share the last one of these."""
    (store,) = region.stores
    assert isinstance(store.value, Scan)
    t, last = store.value.axis, store.axes[-1]
    lane = last if last != t and last.extent != 1 else None
    rows = tuple(a for a in store.axes if a not in (t, lane))
    is_vector = scans_lanes(store, store.value, machine.vectors.scanned)
    kind, where = "lanes" if is_vector else "seq", ()
    if store.value.part:
        part = Axis(fresh("piece", {a.name for a in store.axes}), parts_of(store.value))
        rows, where = (*rows, part), _inside(store.value, part)
    along = Loop((t,), kind, (store,), where=where)
    if lane is None:
        return KernelPlan(region, (grid_loop(rows, (along,)),))
    floats = store.value.dtype is f32 and computed(store.dst.dtype) is f32
    kind = "lanes" if floats and _fits(store.value, lane) else "threads" if machine.teams else "seq"
    return KernelPlan(region, (grid_loop(rows, (Loop((lane,), kind, (along,)),)),))


def parts_of(value: Scan) -> Ix:
    """How many parts a scan has."""
    return ceildiv(value.axis.extent, value.part)


def _inside(value: Scan, part: Axis) -> tuple[Cmp, ...]:
    """Where an element is one of a part."""
    first = ix(part) * value.part
    return Cmp(ix(value.axis) - first), Cmp(first + value.part - 1 - value.axis)


@dataclass(frozen=True)
class _Scanned:
    """What a plan of a scan says."""

    rows: tuple[Axis, ...]  # the last of them is the part, of a scan in parts
    lane: Axis | None
    kind: str  # of the loop over the lanes
    along: bool  # vectors have neighbouring elements of a row
    store: Store
    value: Scan

    @staticmethod
    def of(plan: KernelPlan) -> _Scanned:
        (grid,), lane, kind = plan.root, None, "seq"
        (inner,) = grid.body
        if isinstance(inner, Loop) and isinstance(inner.body[0], Loop):
            (lane,), kind, (inner,) = inner.axes, inner.kind, inner.body
        if not isinstance(inner, Loop) or not isinstance(store := inner.body[-1], Store):
            raise NotRealised("a scan is a loop over its axis inside one over the rest")
        value = store.value
        if not isinstance(value, Scan) or inner.axes != (value.axis,) or grid.where:
            raise NotRealised("a scan takes every element of its axis")
        own = tuple(a for a in grid.axes if a not in store.axes)
        if len(own) > 1 or (own and grid.axes[-1:] != own) or bool(own) != bool(value.part):
            raise NotRealised("the rows of a scan are those of its store, and its parts")
        if inner.where != (_inside(value, own[0]) if own else ()):
            raise NotRealised("a scan takes every element of its axis, or of a part")
        is_vector = kind == "lanes"
        if is_vector and (lane is None or value.dtype is not f32 or not _fits(value, lane)):
            raise NotRealised("carries of neighbouring rows that fit no vector")
        along = inner.kind == "lanes"
        if inner.kind == "threads":
            raise NotRealised("a scan whose elements threads share one at a time")
        if along and not scans_lanes(store, value, 0):
            raise NotRealised("a scan over lanes of an operation that has none")
        return _Scanned(grid.axes, lane, kind, along, store, value)


SITES = ("visits", "lanes")
SITES_OF_TEAMS = ("threads", "width")


def scan(plan: KernelPlan, sizes: Schedule, machine: Machine) -> Built:
    """The kernel of such a plan; NotRealised where it is none."""
    check(sizes, SITES_OF_TEAMS if sizes.get("threads", 0) else SITES)
    return Built(_program(plan, sizes, machine.teams), plan.region)


def _program(plan: KernelPlan, sizes: Schedule, teams: Teams | None) -> TileProgram:
    found = _Scanned.of(plan)
    store, value, lane, rows = found.store, found.value, found.lane, found.rows
    threads = sizes.get("threads", 1)
    check_threads(threads, teams)
    check_width(sizes, teams)
    if (found.kind == "threads") != (threads > 1 and lane is not None and found.kind != "lanes"):
        raise NotRealised(
            "a loop over rows of a scan that no threads share, or threads that have none"
        )
    team, per_row, chunk = _grain(found, sizes, teams)
    row_axis = rows[0] if len(rows) == 1 else Axis("row", extent_of(rows))
    row_tasks = ceildiv(row_axis.extent, per_row)
    lane_tasks = ceildiv(lane.extent, chunk) if lane is not None else ix(1)
    task = Axis("task", row_tasks * lane_tasks)
    top = Scope(Names(), frozenset({task}))
    row_scope = top.inner([row_axis])
    if row_axis not in rows:
        row_scope.spread(row_axis, rows)
    span = ix(0), value.axis.extent
    if value.part:
        begin = ix(rows[-1]) * value.part
        span = begin, minimum(begin + value.part, value.axis.extent)
    if found.along and value.element is not None:
        _along(row_scope, store, value, value.element, threads, span)
    elif lane is None:
        _carry(row_scope, store, value, None, span)
    else:
        vector = lane if found.kind == "lanes" else None
        inner = row_scope.inner([lane], vector)
        inner.alone = threads > 1
        _carry(inner, store, value, vector, span)
        lo = ix(task) % lane_tasks * chunk
        hi = minimum(lo + chunk, lane.extent)
        dealt = found.kind == "threads"
        loop = For(lane, lo, hi, vector is not None, tuple(inner.stmts), dealt=dealt)
        row_scope.stmts.append(loop)
    first = ix(task) // lane_tasks * per_row
    hi = minimum(first + per_row, row_axis.extent)
    top.stmts.append(For(row_axis, first, hi, False, tuple(row_scope.stmts), dealt=threads > 1))
    return TileProgram(
        "simt",
        plan.region.buffers(),
        dims_of(plan.region),
        task,
        task.extent,
        (),
        tuple(top.stmts),
        threads=threads,
        team=team,
        width=sizes.get("width", 0),
    )


def _along(
    scope: Scope, store: Store, value: Scan, element: Expr, threads: int, span: tuple[Ix, Ix]
) -> None:
    """The loop over vectors of neighbouring elements of a row."""
    t = value.axis
    names = scope.names
    (init,) = scope.values([substitute(value.init, {t: span[0]})])
    carry = _named(names.fresh("carry"), frozenset({t}), value)
    scope.stmts.append(ScanCarry(carry, init, t, _sums(value)))
    inner = scope.inner([t], t)
    (elements,) = inner.values([element])
    one = frozenset({t}) if threads == 1 else frozenset[Axis]()
    left, right = (_named(names.fresh(stem), one, value) for stem in ("left", "right"))
    combined = Scope(names, frozenset({t}), None, t if threads == 1 else None)
    both = {carried(0, "old", value.dtype): left, carried(0, "new", value.dtype): right}
    (result,) = combined.values([map_expr(value.step, both)])
    out = _named(names.fresh("scan"), frozenset({t}), value)
    body = tuple(combined.stmts)
    inner.stmts.append(ScanLanes(out, carry, elements, t, left, right, body, result))
    inner.stmts.append(StoreTile(store.dst, store.at, out, t))
    scope.stmts.append(For(t, *span, True, tuple(inner.stmts)))


def _sums(value: Scan) -> bool:
    """Whether each step adds to the carry, in f32: over many steps the roundings add up too."""
    step, old = value.step, carried(0, "old", value.dtype)
    if not isinstance(step, Prim) or step.op is not Op.ADD or value.dtype is not f32:
        return False
    return old in step.args and [old in walk([a]) for a in step.args].count(True) == 1


def _named(name: str, axes: frozenset[Axis], value: Scan) -> Local:
    out = local(name, axes, value.dtype)
    assert isinstance(out, Local)
    return out


def scans_lanes(store: Store, value: Scan, least: int) -> bool:
    """Whether vectors have neighbouring elements of a row: of an associative operation on f32, in long rows."""
    floats = value.dtype is f32 and computed(store.dst.dtype) is f32
    long = value.axis.extent.estimate() >= least
    along = address(store.dst, store.at).coefficient(value.axis) == 1
    return floats and long and along and value.element is not None and store.axes[-1] == value.axis


def _carry(
    scope: Scope, store: Store, value: Scan, lanes: Axis | None, span: tuple[Ix, Ix]
) -> None:
    """The loop over the elements of a row, or of a vector of rows."""
    (init,) = scope.values([substitute(value.init, {value.axis: span[0]})])
    varying = frozenset({value.axis} if lanes is None else {value.axis, lanes})
    name = _named(scope.names.fresh("carry"), varying, value)
    scope.stmts.append(ScanCarry(name, init, lanes, _sums(value)))
    inner = scope.inner([value.axis])
    (step,) = inner.values([value.taking(name)])
    inner.stmts.append(Advance(name, step, lanes))
    inner.stmts.append(StoreTile(store.dst, store.at, name, lanes))
    scope.stmts.append(For(value.axis, *span, False, tuple(inner.stmts)))


def _fits(value: Scan, lane: Axis) -> bool:
    """Whether carries of neighbouring rows fit into one vector, which no step takes apart."""
    carry = _named("carry", frozenset({value.axis, lane}), value)
    return lanes_fit([value.init, value.taking(carry)], lane)


def _grain(found: _Scanned, sizes: Schedule, teams: Teams | None) -> tuple[int, int, int]:
    """Threads that share a row; rows and lanes of a work tile."""
    lane, length = found.lane, max(1, found.value.part or found.value.axis.extent.estimate())
    threads = sizes.get("threads", 1)
    if teams is None:
        if lane is None:
            return 1, max(1, sizes["visits"] // length), 1
        return 1, 1, max(sizes["lanes"], sizes["visits"] // length)
    warp, most = teams.warp, teams.warp_vectors * teams.warp
    if found.along:
        team = warp if length <= most * sizes["width"] else threads
        return team, threads // team, 1
    if lane is None:
        return 1, threads, 1
    width = sizes["width"] if found.kind == "lanes" else 1
    points = -(-lane.extent.estimate() // width)
    team = min(warp, 1 << (points - 1).bit_length()) if points <= most else threads
    return team, threads // team, team * width
