"""transposed: the builder of maps that read memory along one axis and store along another.

Before: a plan of one store over lanes, some of whose reads are contiguous along another axis of the grid.  After: a
block computes a square tile of what these reads are part of, over lanes along their own axis, and leaves it in shared
memory. There it is read over lanes of the store. So memory is read and written in whole vectors.

Sites: `threads` of a block, of which side / width share a row; `width` lanes of a thread, `side` of a tile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import prod

from lumigen.dtype import DType, f32
from lumigen.index import Axis, Ix, ceildiv, ix, minimum
from lumigen.lower.built import Built, check
from lumigen.lower.scope import Names, Scope, address, is_safe, kernel_reductions, lanes_fit
from lumigen.lower.simt import check_threads, dims_of
from lumigen.machine import Gpu
from lumigen.plan import KernelPlan, Loop, NotRealised
from lumigen.region import (
    Buffer,
    Choose,
    Expr,
    Local,
    Prim,
    Read,
    Role,
    Store,
    children,
    local,
    map_expr,
    walk,
)
from lumigen.schedule import Schedule, schedule
from lumigen.tile import StoreTile, TileProgram, Transposed

SITES = ("threads", "width", "side")


def transposed(plan: KernelPlan, sizes: Schedule, machine: Gpu) -> Built:
    """The kernel of a plan of one map; NotRealised where nothing is read across its lanes, or tiles do not fit."""
    check(sizes, SITES)
    check_threads(sizes["threads"], machine.teams)
    store, lane = _map_of(plan)
    column, staged = _parts_of(store, lane)
    side, width, teams = sizes["side"], sizes["width"], machine.teams
    team = side // width
    if side % width or team & (team - 1) or not 1 < team <= teams.warp:
        raise NotRealised(f"tiles of {side} in vectors of {width}, which no part of a warp shares")
    tiles = [
        (Buffer(f"tile{i}", Role.SCRATCH, (ix(side), ix(side)), _held(e, store)), e)
        for i, e in enumerate(staged)
    ]
    taken = sum(prod(d.const for d in b.dims) * b.dtype.itemsize for b, _ in tiles)
    if teams.transposed is None or taken > teams.transposed.bytes:
        raise NotRealised(f"tiles of {taken} bytes in a block")
    return Built(_program(plan, store, (lane, column), tiles, sizes, team), plan.region)


def schedule_of_transposed(plan: KernelPlan, machine: Gpu, width: int) -> Schedule | None:
    """The sizes of such a map; None of others, and of one whose axes are too short for tiles."""
    tiles = machine.teams.transposed
    if tiles is None:
        return None
    sizes = {"threads": machine.teams.threads, "width": width, "side": tiles.side}
    found = schedule("transposed", sizes)
    try:
        store, lane = _map_of(plan)
        column, _ = _parts_of(store, lane)
        transposed(plan, found, machine)
    except NotRealised:
        return None
    short = min(a.extent.estimate() for a in (lane, column)) < tiles.least
    return None if short else found


def _parts_of(store: Store, lane: Axis) -> tuple[Axis, list[Expr]]:
    """The axis along which a map reads, and the parts of its value that do."""
    column = column_of(store, lane)
    found = () if column is None else _staged(store.value, store, lane, column)
    staged = list(dict.fromkeys(found))
    if column is None or not staged:
        raise NotRealised("a map none of whose reads are contiguous along another axis")
    return column, staged


def _map_of(plan: KernelPlan) -> tuple[Store, Axis]:
    """What a plan of one map stores, and its lanes."""
    (grid, *others) = plan.root
    if others or plan.then is not None or grid.kind != "grid" or grid.where or len(grid.body) != 1:
        raise NotRealised("a map has one grid, over all of its points")
    loop = grid.body[0]
    if not isinstance(loop, Loop) or loop.kind != "lanes" or loop.carries or loop.where:
        raise NotRealised("a map is a loop over lanes in a grid")
    if len(loop.body) != 1 or not isinstance(store := loop.body[0], Store):
        raise NotRealised("a map has one store")
    if kernel_reductions([store.value]) or set(store.axes) != {*grid.axes, *loop.axes}:
        raise NotRealised("a map stores each of its points, and reduces none")
    return store, loop.axes[0]


def column_of(store: Store, lane: Axis) -> Axis | None:
    """The axis along which most of what is read across the lanes is contiguous."""
    found: Counter[Axis] = Counter()
    for e in walk([store.value]):
        if isinstance(e, Read) and _is_across(at := address(e.source, e.at), lane):
            along = (a for a in store.axes if a != lane and a.extent != 1)
            found.update({a: e.source.dtype.itemsize for a in along if at.coefficient(a) == 1})
    return max(found, key=lambda a: (found[a], -store.axes.index(a))) if found else None


def _is_across(at: Ix, lane: Axis) -> bool:
    """Whether what neighbouring lanes read is not contiguous."""
    return lane in at.axes and at.coefficient(lane) != 1


def _staged(e: Expr, store: Store, lane: Axis, column: Axis) -> Iterator[Expr]:
    """The largest parts of a value that read memory along columns alone, and take no more room than what they read."""
    reads = [x for x in walk([e]) if isinstance(x, Read)]
    places = {x: address(x.source, x.at) for x in reads}
    along = [x for x, at in places.items() if at.coefficient(column) == 1 and _is_across(at, lane)]
    if not along:
        return
    alone = not any(lane in at.axes for x, at in places.items() if x not in along)
    whole = alone and e.dtype is f32 and lanes_fit([e], column)
    opens = isinstance(e, Prim) or (isinstance(e, Choose) and is_safe(e))
    small = _held(e, store).itemsize <= sum(x.source.dtype.itemsize for x in along)
    if whole and (small or not opens):
        yield e
    elif opens:
        for x in dict.fromkeys(children(e)):
            yield from _staged(x, store, lane, column)
    else:
        raise NotRealised("reads along two axes, of which a condition takes one")


def _held(e: Expr, store: Store) -> DType:
    """What a tile holds: what memory has of it, or gets of it."""
    if e is store.value:
        return store.dst.dtype
    return e.source.dtype if isinstance(e, Read) and e.source.dtype.is_float else f32


def _program(
    plan: KernelPlan,
    store: Store,
    axes: tuple[Axis, Axis],
    tiles: list[tuple[Buffer, Expr]],
    sizes: Schedule,
    team: int,
) -> TileProgram:
    (lane, column), side = axes, sizes["side"]
    rest = tuple(a for a in store.axes if a not in axes)
    along, over = (ceildiv(a.extent, side) for a in axes)
    task = Axis("task", prod((a.extent for a in rest), start=along * over))
    top = Scope(Names(), frozenset({task}), team=True)
    top.spread(ix(task) // along // over, rest)
    first, then = (top.inner(axes, lanes) for lanes in (column, lane))
    values = first.values([e for _, e in tiles])
    names = [local(f"turned{i}", frozenset(axes), f32) for i in range(len(tiles))]
    taken = map_expr(store.value, dict(zip((e for _, e in tiles), names, strict=True)))
    (value,) = then.values([taken])
    then.stmts.append(StoreTile(store.dst, store.at, value, lane))
    each = zip((b for b, _ in tiles), names, values, strict=True)
    statement = Transposed(
        tuple((b, name, v) for b, name, v in each if isinstance(name, Local)),
        lane,
        *_span(ix(task) % along * side, lane, side),
        column,
        *_span(ix(task) // along % over * side, column, side),
        tuple(first.stmts),
        tuple(then.stmts),
    )
    return TileProgram(
        "transposed",
        plan.region.buffers(),
        dims_of(plan.region),
        task,
        task.extent,
        tuple(b for b, _ in tiles),
        (*top.stmts, statement),
        threads=sizes["threads"],
        team=team,
        width=sizes["width"],
    )


def _span(start: Ix, axis: Axis, side: int) -> tuple[Ix, Ix]:
    return start, start + minimum(side, axis.extent - start)
