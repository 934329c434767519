"""The rules that tile programs keep; `verify` checks them all and names what breaks one.

They are what a device cannot see: that everything has a value where it is used, that vectors are
floats and the same code serves all lanes, that nothing provably leaves its memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from lumigen.condition import Cmp
from lumigen.dtype import DType, computed, f32, f64, i8, i32, i64, u8
from lumigen.errors import VerifyFailed
from lumigen.index import is_nonnegative, ix
from lumigen.ops import Op
from lumigen.region import Buffer, Local, Prim, Role, free_axes
from lumigen.tile import (
    Accumulate,
    Accumulator,
    Advance,
    Ahead,
    Bind,
    Contract,
    Fill,
    Finish,
    FoldRows,
    For,
    ForRows,
    ForTile,
    GroupPlaces,
    GroupRows,
    Hold,
    Keep,
    Let,
    MapRows,
    MapTile,
    Mma,
    Multiply,
    Order,
    OrderRows,
    Pack,
    PackColumns,
    PackRuns,
    ScaleRows,
    ScanCarry,
    ScanLanes,
    Stmt,
    StoreTile,
    Stream,
    TileProgram,
    Transpose,
    Transposed,
    When,
    WhenLast,
    WhenSummed,
    reads_memory,
    whole_of,
)
from lumigen.verify.facts import (
    Facts,
    FactScope,
    are_neighbours,
    broken_carry,
    broken_depth,
    broken_fragment,
    broken_index,
    broken_indices,
    broken_map,
    broken_name,
    broken_numbers,
    broken_read,
    broken_rows,
    broken_runs,
    broken_size,
    broken_sums,
    broken_tile,
    broken_use,
    never,
)
from lumigen.verify.native import broken_native
from lumigen.verify.products import broken_fragments, broken_product
from lumigen.verify.value import VECTORS, broken_operand, broken_value, is_of_names


def verify(program: TileProgram, after: str = "verify") -> TileProgram:
    """The program itself, if it keeps every rule; `after` names the pass that made it."""
    for broken in _broken(program):
        raise VerifyFailed(after=after, what=f"{program.skeleton} program: {broken}")
    return program


def _broken(program: TileProgram) -> Iterator[str]:
    numbers = [d for d, _ in program.numbers]
    facts = Facts(frozenset(program.dims) | set(numbers), frozenset(program.args + program.scratch))
    names = [b.name for b in program.args + program.scratch]
    yield from (f"{n} stands twice" for n in sorted(set(names)) if names.count(n) > 1)
    yield from (f"{b} is no scratch" for b in program.scratch if b.role is not Role.SCRATCH)
    yield from (f"{b} is scratch" for b in program.args if b.role is Role.SCRATCH)
    yield from _broken_body(program.body, facts, FactScope(frozenset({program.task}), frozenset()))
    reached = sum(isinstance(s, WhenSummed) for s in _of_each_grid(program.body))
    if sum(isinstance(s, WhenSummed) for s in program.statements()) > reached:
        yield "parts of a tile that not every task comes to"
    for t in program.maps:
        yield from (f"map {t.name}: {broken}" for broken in broken_map(t, program))
    for b in program.args + program.scratch:
        if b not in facts.used:
            yield f"{b} is declared and not used"
    yield from (
        f"{b} is to be overwritten and no argument" for b in _not_in(program.overwrites, facts)
    )


def _of_each_grid(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """The statements that every task comes to, of several grids each task of the grid."""
    if len(body) == 1 and isinstance(body[0], When):
        yield from (s for part in (body[0].body, body[0].otherwise) for s in _of_each_grid(part))
    else:
        yield from body


def _not_in(buffers: Iterable[Buffer], facts: Facts) -> list[Buffer]:
    return [b for b in buffers if b not in facts.buffers]


def _broken_body(body: Iterable[Stmt], facts: Facts, scope: FactScope) -> Iterator[str]:
    for s in body:
        for broken in _broken_statement(s, facts, scope):
            yield f"{type(s).__name__} {_name(s)}: {broken}"
        if isinstance(s, ForTile | MapTile):
            facts.locals[s.value] = s.n
            ends = {
                Cmp(ix(s.m) - s.m_lo),
                Cmp(s.m_hi - 1 - s.m),
                Cmp(ix(s.n) - s.n_lo),
                Cmp(s.n_hi - 1 - s.n),
            }
            facts.locals.update((name, s.n) for name, _ in s.more)
            names = _named_rows(s.rows, facts) | {s.value, *(name for name, _ in s.more)}
            inner = FactScope(
                scope.axes | {s.m, s.n}, scope.locals | names, s.n, scope.given | ends
            )
            yield from _broken_body(s.body, facts, inner)
            if isinstance(s, MapTile):
                last = replace(inner, locals=inner.locals | _lets(s.body))
                yield from broken_value(s.result, facts, last, s.n)
        if isinstance(s, Transposed):
            yield from _broken_transposed(s, facts, scope)
        if isinstance(s, ScanLanes):
            one = s.lanes if s.lanes in s.left.axes else None
            facts.locals.update({s.left: one, s.right: one, s.name: s.lanes})
            inner = replace(scope, locals=scope.locals | {s.left, s.right})
            yield from _broken_body(s.body, facts, inner)
            last = replace(inner, locals=inner.locals | _lets(s.body))
            yield from broken_value(s.result, facts, last, one)
        if isinstance(s, MapRows):
            inner = replace(scope, locals=scope.locals | _named_rows(s.rows, facts))
            yield from _broken_body(s.body, facts, inner)
            last = replace(inner, locals=inner.locals | _lets(s.body))
            for _, value in s.results:
                yield from broken_value(value, facts, last, None)
        if isinstance(s, ForRows):
            given = scope.given | {Cmp(ix(s.m) - s.m_lo), Cmp(s.m_hi - 1 - s.m)}
            names = scope.locals | _named_rows(s.rows, facts)
            inner = replace(scope, axes=scope.axes | {s.m}, locals=names, given=given)
            yield from _broken_body(s.body, facts, inner)
        if isinstance(s, When):
            given = scope.given | set(s.conditions)
            yield from _broken_body(s.body, facts, replace(scope, given=given))
            yield from _broken_body(s.otherwise, facts, scope)
        if isinstance(s, WhenLast | WhenSummed):
            yield from _broken_body(s.body, facts, scope)
        if isinstance(s, Stream):
            facts.written |= {t.dst for t in s.tiles}
            given = scope.given | {Cmp(ix(s.axis) - s.lo), Cmp(s.hi - 1 - s.axis)}
            inner = replace(scope, axes=scope.axes | {s.axis}, given=given)
            yield from _broken_body(s.body, facts, inner)
        if isinstance(s, For):
            given = scope.given | {Cmp(ix(s.axis) - s.lo), Cmp(s.hi - 1 - s.axis)}
            lanes = s.axis if s.lanes else scope.lanes
            inner = replace(scope, axes=scope.axes | {s.axis}, lanes=lanes, given=given)
            yield from _broken_body(s.body, facts, inner)
        scope = _after(s, facts, scope)


def _broken_transposed(s: Transposed, facts: Facts, scope: FactScope) -> Iterator[str]:
    """The values of its tiles, then what is made of them."""
    ends = ((s.row, s.row_lo, s.row_hi), (s.column, s.column_lo, s.column_hi))
    given = scope.given | {c for a, lo, hi in ends for c in (Cmp(ix(a) - lo), Cmp(hi - 1 - a))}
    first = replace(scope, axes=scope.axes | {s.row, s.column}, lanes=s.column, given=given)
    yield from _broken_body(s.before, facts, first)
    within = replace(first, locals=first.locals | _lets(s.before))
    for tile, name, value in s.tiles:
        yield from broken_value(value, facts, within, s.column)
        yield from broken_name(name, facts)
        facts.written.add(tile)
    facts.locals.update((name, s.row) for _, name, _ in s.tiles)
    names = first.locals | {name for _, name, _ in s.tiles}
    yield from _broken_body(s.body, facts, replace(first, lanes=s.row, locals=names))


def _named_rows(rows: tuple[tuple[Local, Buffer], ...], facts: Facts) -> frozenset[Local]:
    facts.locals.update((name, None) for name, _ in rows)
    return frozenset(name for name, _ in rows)


def _lets(body: Iterable[Stmt]) -> frozenset[Local]:
    return frozenset(s.name for s in body if isinstance(s, Let))


def _after(s: Stmt, facts: Facts, scope: FactScope) -> FactScope:
    """What is known after a statement."""
    match s:
        case Bind():
            same = {Cmp(ix(s.axis) - s.value), Cmp(s.value - s.axis)}
            return replace(scope, axes=scope.axes | {s.axis}, given=scope.given | same)
        case Hold():
            facts.held[s.name] = s.element
            facts.locals[s.name] = None
            return replace(scope, locals=scope.locals | {s.name})
        case ScanLanes():
            return replace(scope, locals=scope.locals | {s.name})
        case Keep():
            facts.kept.add(s.name)
        case Let() | Accumulator() | Finish() | ScanCarry():
            facts.locals[s.name] = s.lanes if isinstance(s, Let | Accumulator | ScanCarry) else None
            if isinstance(s, ScanCarry):
                facts.carries[s.name] = s
            if isinstance(s, Accumulator):
                facts.accumulators[s.name] = s
            return replace(scope, locals=scope.locals | {s.name})
        case StoreTile() | PackRuns() | Transpose() | Fill() | MapTile() | FoldRows():
            facts.written.add(s.dst)
        case PackColumns():
            facts.written.add(s.dst)
            facts.packed[s.dst] = s.element
        case MapRows():
            facts.written |= {b for b, _ in s.results}
        case Pack():
            facts.packed[s.dst] = s.element
        case Mma() | Contract() | Multiply() | ScaleRows():
            facts.written.add(s.acc)
            if isinstance(s, Contract):
                facts.written |= {acc for acc, _ in s.more}
        case _:
            pass
    return scope


def _name(s: Stmt) -> str:
    match s:
        case Bind() | For() | Stream():
            return str(s.axis)
        case MapRows():
            return ", ".join(str(b) for b, _ in s.results)
        case Transposed():
            return ", ".join(str(b) for b, _, _ in s.tiles)
        case ForRows():
            return str(s.m)
        case When():
            return ", ".join(map(str, s.conditions))
        case WhenLast():
            return str(s.arrived)
        case Ahead():
            return str(s.source)
        case (
            Let()
            | Accumulator()
            | Finish()
            | Hold()
            | Keep()
            | ScanCarry()
            | Advance()
            | ScanLanes()
        ):
            return s.name.name
        case Accumulate():
            return s.into.name
        case Mma() | Contract() | ForTile() | Multiply() | ScaleRows() | WhenSummed():
            return str(s.acc)
        case _:
            return str(s.dst)


# ---- statements ----


def _broken_statement(s: Stmt, facts: Facts, scope: FactScope) -> Iterator[str]:
    match s:
        case Bind() | For():
            yield from _broken_range(s, facts, scope)
        case WhenSummed():
            yield from broken_sums(s, facts, scope)
        case WhenLast():
            yield from broken_use(s.arrived, facts)
            yield from broken_indices((s.tasks,), facts, scope)
            if s.arrived.role is not Role.COUNTER or scope.given:
                yield "no counter, or not reached by every task"
        case Let() | ScanCarry() | Advance() | ScanLanes():
            yield from _broken_value_of(s, facts, scope)
        case Hold():
            yield from broken_name(s.name, facts)
        case Keep():
            yield from broken_value(s.value, facts, scope, s.lanes)
            if s.name not in facts.held:
                yield "no registers hold this"
            elif facts.held[s.name] is not f32 and not are_neighbours(s, facts.held[s.name]):
                yield f"no neighbours of {facts.held[s.name]} that memory has"
        case Accumulator() | Finish():
            yield from broken_name(s.name, facts)
            yield from _broken_total(s, facts, scope)
        case Accumulate():
            yield from _broken_accumulate(s, facts, scope)
        case StoreTile():
            yield from _broken_store(s, facts, scope)
        case Order() | GroupPlaces() | OrderRows() | GroupRows():
            yield from _broken_native(s, facts, scope)
        case _:
            yield from _broken_matrix(s, facts, scope)


def _broken_value_of(
    s: Let | ScanCarry | Advance | ScanLanes, facts: Facts, scope: FactScope
) -> Iterator[str]:
    """A name gets a value, or what is carried another one."""
    if isinstance(s, Advance | ScanLanes):
        yield from broken_carry(s, facts, scope)
    if not isinstance(s, Advance):
        yield from broken_name(s.name, facts)
    # ahead of the loop over its lanes a carry is one number
    lanes = None if isinstance(s, ScanCarry) and s.lanes not in scope.axes else s.lanes
    if isinstance(s, Let | Advance) and scope.lanes is None and is_of_names(s.value, s.lanes):
        scope = replace(scope, lanes=s.lanes)  # of accumulators, between loops over their lanes
    yield from broken_value(s.value, facts, scope, lanes, (*VECTORS, i32))
    if s.value.dtype is not s.name.dtype:
        yield f"a value of {s.value.dtype} as {s.name.dtype}"


def _broken_matrix(s: Stmt, facts: Facts, scope: FactScope) -> Iterator[str]:
    """Statements on whole tiles: f32, outside lanes, each tile in scratch."""
    if scope.lanes is not None and not isinstance(s, Ahead | When):
        yield "a tile within lanes"
    match s:
        case Ahead():
            at = broken_index(s.at, facts, scope, alike=False)  # of the first lane
            yield from (*broken_use(s.source, facts), *at)
        case Pack():
            yield from broken_tile(s.dst, facts, _packed_as(s.element))
            yield from broken_indices((s.at, s.row_lo, s.row_hi, s.k_lo, s.k_hi), facts, scope)
            yield from broken_operand(
                s.operand, facts, scope, (s.row, s.k), (_packed_as(s.element),)
            )
            yield from broken_size(s.dst, s.at + (s.row_hi - s.row_lo) * (s.k_hi - s.k_lo), scope)
            yield from broken_depth(s)
        case PackColumns():
            yield from broken_tile(s.dst, facts)
            yield from broken_indices((s.lo, s.hi, s.k_hi), facts, scope)
            yield from broken_operand(s.operand, facts, scope, (s.column, s.k))
            yield from broken_size(s.dst, (s.hi - s.lo) * s.k_hi, scope)
        case PackRuns():
            yield from broken_runs(s, facts, scope)
        case Transposed():
            ends = (s.row_lo, s.row_hi, s.column_lo, s.column_hi)
            yield from broken_indices(ends, facts, scope)
            sizes = (s.row_hi - s.row_lo, s.column_hi - s.column_lo)
            for tile, _, _ in s.tiles:
                yield from broken_use(tile, facts)
                if tile.role is not Role.SCRATCH or len(tile.dims) != 2:
                    yield f"{tile} is no tile in scratch"
                    continue
                short = any(
                    not is_nonnegative(d - n) for d, n in zip(tile.dims, sizes, strict=True)
                )
                if short:
                    yield f"{tile} is too small"
        case Transpose():
            of = i32 if s.src.dtype is i32 else f32
            yield from broken_tile(s.dst, facts, of)
            yield from broken_tile(s.src, facts, of)
            yield from broken_indices((s.rows, s.cols), facts, scope)
            yield from broken_read(s.src, facts)
        case Fill():
            yield from broken_tile(s.dst, facts)
        case Mma():
            yield from broken_product(s, facts, scope)
        case Contract() | ForTile():
            yield from broken_fragments(s, facts, scope)
        case _:
            yield from _broken_streamed(s, facts, scope)


def _broken_streamed(s: Stmt, facts: Facts, scope: FactScope) -> Iterator[str]:
    """Statements on tiles that stream by, and on fragments and numbers of their rows."""
    match s:
        case Stream():
            yield from _broken_stream(s, facts, scope)
        case When():
            yield from broken_indices([c.slack for c in s.conditions], facts, scope)
        case Multiply():
            yield from broken_fragment(s.acc, facts)
            for b in (s.a, s.b, *((s.acc,) if s.add else ())):
                yield from broken_use(b, facts)
                yield from broken_read(b, facts)
            if [s.acc.dims[0], s.a.dims[1]] != [s.a.dims[0], s.b.dims[1]] or (
                s.acc.dims[1] != s.b.dims[0]
            ):
                yield f"{s.acc.dims} from {s.a.dims} by {s.b.dims}"
        case MapTile():
            yield from broken_fragment(s.dst, facts)
            yield from broken_fragment(s.src, facts)
            yield from broken_read(s.src, facts)
            yield from broken_indices((s.m_lo, s.n_lo, s.m_hi, s.n_hi), facts, scope)
            yield from broken_name(s.value, facts)
            yield from broken_rows(s.rows, s.src, facts)
            for name, b in s.more:
                yield from broken_fragment(b, facts)
                yield from broken_read(b, facts)
                yield from broken_name(name, facts)
            for b in (s.src, *(b for _, b in s.more)):
                if s.dst.dims != b.dims:
                    yield f"{s.dst.dims} from {b.dims}"
            if s.otherwise is None and reads_memory((*s.body, s.result)):
                yield "memory is read outside the tile"
        case _:
            yield from _broken_rows(s, facts, scope)


def _broken_rows(s: Stmt, facts: Facts, scope: FactScope) -> Iterator[str]:
    """Statements on numbers of rows."""
    match s:
        case FoldRows():
            yield from broken_fragment(s.src, facts)
            yield from broken_read(s.src, facts)
            yield from broken_numbers(s.dst, s.src, facts)
        case MapRows() | ForRows():
            for name, b in s.rows:
                yield from broken_name(name, facts)
                yield from broken_tile(b, facts)
                yield from broken_read(b, facts)
            if isinstance(s, ForRows):
                yield from broken_indices((s.m_lo, s.m_hi), facts, scope)
                if not s.rows:
                    yield "numbers of no rows"
            else:
                for b, _ in s.results:
                    yield from broken_tile(b, facts)
        case ScaleRows():
            yield from broken_fragment(s.acc, facts)
            yield from broken_read(s.acc, facts)
            yield from broken_numbers(s.by, s.acc, facts)
        case _:
            yield "no rule knows this statement"


def _broken_stream(s: Stream, facts: Facts, scope: FactScope) -> Iterator[str]:
    if any(a.name == s.axis.name for a in scope.axes):
        yield "the axis has a value already"
    yield from broken_indices((s.lo, s.hi), facts, scope)
    inner = replace(scope, axes=scope.axes | {s.axis})
    for t in s.tiles:
        yield from broken_use(t.dst, facts)
        yield from broken_indices((t.major_lo, t.depth_lo), facts, inner)
        yield from broken_operand(t.operand, facts, inner, (t.major, t.depth))
        if t.dst.role is not Role.SCRATCH or len(t.dst.dims) != 2:
            yield f"{t.dst} is no tile"
    if s.step < 1 or any({s.axis} & (t.major_lo.axes | t.depth_lo.axes) for t in s.rows):
        yield "rows that are not the same in each turn"
    if len({t.dst.dtype for t in s.tiles}) > 1:
        yield "tiles of several types"


def _broken_range(s: Bind | For, facts: Facts, scope: FactScope) -> Iterator[str]:
    """An axis gets its values."""
    if any(a.name == s.axis.name for a in scope.axes):
        yield "the axis has a value already"
    first, last = (s.value, s.value) if isinstance(s, Bind) else (s.lo, s.hi - 1)
    yield from broken_indices((first, s.hi if isinstance(s, For) else last), facts, scope)
    if never(Cmp(first), scope.given) or never(Cmp(s.axis.extent - 1 - last), scope.given):
        yield f"{first} .. {last} is outside of its extent, {s.axis.extent}"
    if isinstance(s, For) and (s.step < 1 or (s.lanes and s.step > 1)):
        yield f"a step of {s.step}"
    if isinstance(s, For) and s.together != 1 and not _takes_several(s):
        yield f"{s.together} vectors together in a loop that cannot have them"
    if isinstance(s, For) and s.lanes and scope.lanes is not None:
        yield f"lanes within the lanes of {scope.lanes}"


def _takes_several(s: For) -> bool:
    """Whether a loop may take several vectors together: over lanes that no threads share, with folds."""
    folds = any(isinstance(x, Accumulate | Accumulator | For) for x in s.body)
    return s.lanes and not (s.dealt or s.parts) and s.together > 1 and folds


def _broken_total(s: Accumulator | Finish, facts: Facts, scope: FactScope) -> Iterator[str]:
    """An accumulator comes into being, or its lanes become one."""
    if isinstance(s, Finish):
        made = facts.accumulators.get(s.source)
        is_one = made is None or (made.lanes is None and not made.dealt)
        if made is None or is_one or s.source not in scope.locals:
            yield f"{s.source.name} has no lanes to reduce"
        elif made.monoid is not s.monoid or (made.lanes in scope.axes and not made.dealt):
            yield f"{s.source.name} is still at work, or reduces by {made.monoid.value}"
        return
    if s.lanes is not None and s.name.dtype not in (f32, f64):
        yield f"lanes of {s.name.dtype}"
    differs = s.lanes is not None or scope.lanes in s.name.axes
    if scope.lanes is not None and s.lanes != scope.lanes and differs:
        yield f"one accumulator for the lanes of {scope.lanes}"
    if s.start is not None:
        yield from broken_value(s.start, facts, scope, s.lanes)


def _broken_accumulate(s: Accumulate, facts: Facts, scope: FactScope) -> Iterator[str]:
    made = facts.accumulators.get(s.into)
    if made is None or s.into not in scope.locals:
        yield "nothing is accumulated under this name"
        return
    if made.monoid is not s.monoid or made.lanes != s.lanes:
        yield f"made for {made.monoid.value} over lanes {made.lanes}"
    if s.value.dtype is not s.into.dtype:
        yield f"a value of {s.value.dtype} into {s.into.dtype}"
    yield from broken_value(s.value, facts, scope, s.lanes)


def _broken_store(s: StoreTile, facts: Facts, scope: FactScope) -> Iterator[str]:
    yield from broken_use(s.dst, facts)
    stored = (i8, u8, i32) if s.lanes is not None and s.dst.dtype.is_int else VECTORS
    value = whole_of(s.value, s.dst.dtype) if s.lanes is not None else None
    yield from broken_value(value or s.value, facts, scope, s.lanes, stored)
    if len(s.at) != len(s.dst.dims):
        yield f"{len(s.at)} indices for {len(s.dst.dims)} dims"
        return
    for i, extent in zip(s.at, s.dst.dims, strict=True):
        yield from broken_index(i, facts, scope, alike=s.lanes is None)
        for c in (Cmp(i), Cmp(extent - 1 - i)):
            if never(c, scope.given):
                yield f"it is outside: {c} never holds"
    flat = ix(0)
    for i, extent in zip(s.at, s.dst.dims, strict=True):
        flat = flat * extent + i
    if s.lanes is not None and flat.coefficient(s.lanes) is None:
        yield f"{flat} is not affine in the lanes"
    if s.lanes is not None and not _in_vectors(s):
        yield f"lanes of {s.dst.dtype}"
    if s.value.dtype is not s.dst.dtype and not (s.value.dtype.is_float and s.dst.dtype.is_float):
        yield f"a value of {s.value.dtype} in a buffer of {s.dst.dtype}"


def _broken_native(
    s: Order | OrderRows | GroupPlaces | GroupRows, facts: Facts, scope: FactScope
) -> Iterator[str]:
    if not isinstance(s, Order):
        yield from broken_native(s, facts, scope)
        return
    counts, inside = (s.kept, s.count), replace(scope, axes=scope.axes | {s.place})
    ranks = replace(inside, axes=inside.axes | {s.rank})
    yield from (*broken_use(s.dst, facts), *broken_indices((*s.at, *counts), facts, scope))
    yield from broken_indices((s.shown,), facts, inside)
    yield from _broken_body(s.elements, facts, ranks)
    if s.elements and not s.held:
        yield "elements of a row that no team holds"
    if s.place in scope.axes or scope.lanes is not None:
        yield f"{s.place} has a value already, or there are lanes"
    if s.dst.dtype is not i64 or len(s.at) != len(s.dst.dims):
        yield f"places in {s.dst}, of {s.dst.dtype}, at {s.at}"
    if any(never(Cmp(s.place.extent - n), scope.given) for n in counts):
        yield f"{counts} of {s.place.extent} places"
    yield from broken_value(s.value, facts, inside, None)


def _packed_as(element: DType) -> DType:
    """Of what a tile of rows is that are multiplied as `element`."""
    return element if element.is_int else f32


def _in_vectors(s: StoreTile) -> bool:
    """Whether vectors store it: floats, what they make integers of, i32 that they add up, or one value in all lanes."""
    if whole_of(s.value, s.dst.dtype) is not None:
        return True
    if not s.dst.dtype.is_int or s.dst.dtype is i32:
        return s.dst.dtype is i32 or computed(s.dst.dtype) in (f32, f64)
    value = s.value
    is_made = isinstance(value, Prim) and value.op is Op.CONTIGUOUS and value.args[0].dtype is f32
    return s.dst.dtype.bits == 8 and (is_made or s.lanes not in free_axes(value))
