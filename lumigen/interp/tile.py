"""What a tile program does, in numpy: every task, statement by statement.

A loop over lanes runs as one vector over all its points; floats are computed in f64 and rounded
where they are stored, in scratch too. It is stricter than memory: an element outside its tensor
raises, and scratch holds NaN until it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lumigen.dtype import DType, f32
from lumigen.index import Axis, Dim, Ix, Lookup
from lumigen.interp.groups import multiplied_in_groups
from lumigen.interp.random import bits_at
from lumigen.interp.region import cast, result_of
from lumigen.intrinsics import INTRINSICS
from lumigen.ops import NATIVE, Op
from lumigen.program import PANEL, THREADS
from lumigen.region import (
    Buffer,
    Choose,
    Const,
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
)
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
    Operand,
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
    Streamed,
    TileProgram,
    Transpose,
    Transposed,
    When,
    WhenLast,
    WhenSummed,
)

Array = npt.NDArray[Any]


def run(
    program: TileProgram,
    buffers: Mapping[str, Array],
    dims: Mapping[Dim, int],
    *,
    order: Callable[[int], Iterable[int]] = range,
) -> dict[str, Array]:
    """All arguments after the last task; what is not in `buffers` starts as zeros. `dims` may have THREADS."""
    memory = {b.name: _argument(b, buffers, dims) for b in program.args}
    numbers = {THREADS: THREADS.estimate, **dims}
    for number, value in program.numbers:
        numbers[number] = int(value.evaluate(numbers))
    run_in(program, memory, numbers, int(program.tasks.evaluate(numbers)), order=order)
    return {b.name: memory[b.name].reshape(_shape(b, dims)) for b in program.args}


def run_in(
    program: TileProgram,
    memory: Mapping[str, Array],
    numbers: Mapping[Dim, int],
    tasks: int,
    *,
    order: Callable[[int], Iterable[int]] = range,
) -> None:
    """Run the tasks in the memory given: flat views, one for each argument, written where they lie.

    Views may share bytes. `numbers` holds the dims and the program's own numbers; `order` says in
    which order so many tasks run.
    """
    for task in order(tasks):
        scratch = {
            b.name: np.full(_count(b, numbers), _nothing(b.dtype), b.dtype.numpy)
            for b in program.scratch
        }
        _Task({**memory, **scratch}, numbers, {**numbers, program.task: task}).run(program.body)


def _argument(b: Buffer, buffers: Mapping[str, Array], dims: Mapping[Dim, int]) -> Array:
    given = buffers.get(b.name)
    if given is None:
        return np.zeros(_count(b, dims), b.dtype.numpy)
    shape = _shape(b, dims)
    assert np.shape(given) == shape, f"{b} is {np.shape(given)}, not {shape}"
    return np.array(given, b.dtype.numpy).reshape(-1)


def _results(s: GroupPlaces | GroupRows) -> Ix:
    """How many elements of `dst` a row has."""
    return s.groups if s.summed is not None else s.groups + 1 + s.place.extent * int(s.placed)


def _shape(b: Buffer, dims: Mapping[Dim, int]) -> tuple[int, ...]:
    return tuple(int(e.evaluate(dims)) for e in b.dims)


def _count(b: Buffer, dims: Mapping[Dim, int]) -> int:
    return int(np.prod(_shape(b, dims), dtype=np.int64))


@dataclass
class _Task:
    """One work tile under way: memory, the values of axes (and of dims), those of locals, what was packed of A."""

    memory: dict[str, Array]
    dims: Mapping[Dim, int]
    axes: dict[Axis | Dim, Any]
    locals: dict[str, Any] = field(default_factory=dict[str, Any])
    packed: dict[tuple[str, int], Array] = field(default_factory=dict[tuple[str, int], Array])
    part: int | None = None  # the point of a loop in parts that is inside a loop over lanes
    kept: dict[int | None, dict[str, Any]] = field(default_factory=dict[int | None, dict[str, Any]])

    def run(self, body: Iterable[Stmt]) -> None:
        for s in body:
            self.statement(s)

    def statement(self, s: Stmt) -> None:
        match s:
            case Hold() | Ahead():
                pass  # a name until something is kept under it; what is read is there
            case Bind():
                self.axes[s.axis] = self.ix(s.value)
            case Let() | Keep() | ScanCarry() | Advance():
                self.locals[s.name.name] = self.value(s.value)
                if isinstance(s, Keep):
                    self.kept.setdefault(self.part, {})[s.name.name] = self.locals[s.name.name]
            case Accumulator():
                self.locals[s.name.name] = self.start(s)
            case Accumulate():
                self.accumulate(s)
            case Finish():
                self.locals[s.name.name] = self.locals[s.source.name]
            case For():
                self.loop(s)
            case ScanLanes():
                self.scan(s)
            case StoreTile():
                if not all(c.holds(self.number) for c in s.where):
                    return
                at = self.element(s.dst, s.at)
                self.memory[s.dst.name][at] = cast(self.value(s.value), s.dst.dtype)
            case _:
                self.matrix(s)

    def matrix(self, s: Stmt) -> None:
        """A statement on whole tiles."""
        match s:
            case Pack():
                self.pack(s)
            case PackColumns():
                self.pack_columns(s)
            case PackRuns():
                self.pack_runs(s)
            case Transpose():
                rows, cols = self.number(s.rows), self.number(s.cols)
                source, target = (self.tile(b) for b in (s.src, s.dst))
                target[:cols, :rows] = source[:rows, :cols].T  # numpy refuses what does not fit
            case Mma():
                self.multiply(s)
            case Contract():
                self.contract(s)
            case ForTile():
                self.elements(s)
            case WhenSummed():
                if self.sums_parts(s):
                    self.run(s.body)
            case Fill():
                self.memory[s.dst.name][:] = s.value
            case Order() | GroupPlaces():
                self.order(s)
            case GroupRows() | OrderRows():
                self.rows(s)
            case Transposed():
                self.transposed(s)
            case _:
                self.streamed(s)

    def streamed(self, s: Stmt) -> None:
        """A statement on tiles that stream by, and on fragments and numbers of their rows."""
        match s:
            case Stream():
                self.stream(s)
            case Multiply():
                acc, b = self.tile(s.acc), self.tile(s.b)
                with np.errstate(all="ignore"):
                    product = _widened(cast(self.tile(s.a), s.b.dtype)) @ _widened(b).T
                    acc[...] = _widened(acc) + product if s.add else product
            case MapTile():
                self.map_tile(s)
            case FoldRows():
                state, tile = self.tile(s.dst), _widened(self.tile(s.src))
                with np.errstate(all="ignore"):
                    if s.monoid is Monoid.MAX:
                        state[...] = np.maximum(_widened(state), tile.max(1))
                    else:
                        state[...] = _widened(state) + tile.sum(1)
            case MapRows():
                self.name_rows(s.rows, slice(None))
                self.run(s.body)
                made = [(self.tile(b), self.value(value)) for b, value in s.results]
                for tile, value in made:
                    tile[...] = value
            case ForRows():
                (_, numbers), *_ = s.rows
                rows = _below(self.number(s.m_lo), len(self.tile(numbers)), self.number(s.m_hi))
                for row, m in enumerate(rows):
                    self.axes[s.m] = int(m)
                    self.name_rows(s.rows, row)
                    self.run(s.body)
                self.axes.pop(s.m, None)
            case When():
                held = all(self.number(c.slack) >= 0 for c in s.conditions)
                self.run(s.body if held else s.otherwise)
            case WhenLast():
                arrived = self.memory[s.arrived.name]
                arrived[0] = (arrived[0] + 1) % self.number(s.tasks)
                if arrived[0] == 0:
                    self.run(s.body)
            case ScaleRows():
                acc = self.tile(s.acc)
                with np.errstate(all="ignore"):
                    acc[...] = _widened(acc) * _widened(self.tile(s.by))[:, None]
            case _:
                raise TypeError(s)

    def start(self, s: Accumulator) -> Array:
        """Where it starts, in each lane if it stands inside their loop."""
        neutral = s.name.dtype.lowest if s.monoid is Monoid.MAX else 0
        first = np.asarray(neutral if s.start is None else self.value(s.start), _wide(s.name.dtype))
        if s.lanes is None or s.lanes not in self.axes:
            return first
        return np.broadcast_to(first, np.shape(self.axes[s.lanes]))

    def loop(self, s: For) -> None:
        lo, hi = self.number(s.lo), self.number(s.hi)
        points: Iterable[Any] = range(lo, hi, s.step)
        if s.lanes:
            points = [np.arange(lo, hi)] if hi > lo else []
        for point in points:
            self.axes[s.axis] = point
            self.part = point if s.parts and not s.lanes else None
            self.locals |= self.kept.setdefault(self.part, {})
            self.run(s.body)
        self.axes.pop(s.axis, None)
        self.part = None

    def accumulate(self, s: Accumulate) -> None:
        value, total = self.value(s.value), self.locals[s.into.name]
        with np.errstate(all="ignore"):
            if s.lanes is not None and np.ndim(total) == 0:  # the lanes of a row, added up at once
                value = np.broadcast_to(value, np.shape(self.axes[s.lanes]))
                value = np.max(value) if s.monoid is Monoid.MAX else np.sum(value)
            both = np.maximum if s.monoid is Monoid.MAX else np.add
            self.locals[s.into.name] = both(total, value)

    def transposed(self, s: Transposed) -> None:
        row, column = self.number(s.row_lo), self.number(s.column_lo)
        rows, columns = (
            np.arange(row, self.number(s.row_hi)),
            np.arange(column, self.number(s.column_hi)),
        )
        self.axes[s.column] = columns
        for self.axes[s.row] in map(int, rows):
            self.run(s.before)
            for b, _, value in s.tiles:
                elements = np.broadcast_to(cast(self.value(value), b.dtype), columns.shape)
                self.tile(b)[self.axes[s.row] - row, : len(columns)] = elements
        self.axes[s.row] = rows
        for self.axes[s.column] in map(int, columns):
            for b, name, _ in s.tiles:
                elements = self.tile(b)[: len(rows), self.axes[s.column] - column]
                self.locals[name.name] = _widened(elements)
            self.run(s.body)
        del self.axes[s.row], self.axes[s.column]

    def order(self, s: Order | GroupPlaces) -> None:
        if isinstance(s, GroupPlaces):
            self.whole_row(s, self.element(s.dst, s.at), self.number(_results(s)))
            return
        self.axes[s.place] = np.arange(self.number(s.count))
        values = np.broadcast_to(self.value(s.value), np.shape(self.axes[s.place]))
        rule = NATIVE["order_descending" if s.descending else "order"]
        self.axes[s.place] = rule(values, self.number(s.kept))
        places = np.asarray(self.ix(s.shown))
        self.axes[s.rank] = np.arange(len(places))
        self.run(s.elements)
        del self.axes[s.rank], self.axes[s.place]
        self.memory[s.dst.name][
            self.inside(s.dst, self.element(s.dst, s.at) + np.arange(len(places)))
        ] = places

    def rows(self, s: GroupRows | OrderRows) -> None:
        """By the task that comes last, as nothing before it reads what they make."""
        drawn = self.memory[s.drawn.name]
        rows, size = self.number(s.row.extent), s.place.extent
        drawn[0] = (drawn[0] + 1) % (rows * self.number(s.chunks))
        if drawn[0] != 0:
            return
        if isinstance(s, GroupRows):
            size = _results(s)
        for row in range(rows):
            self.axes[s.row] = row
            self.whole_row(s, row * self.number(size), self.number(size))
        del self.axes[s.row]

    def whole_row(self, s: OrderRows | GroupPlaces | GroupRows, at: int, size: int) -> None:
        """What a native kernel gives of a row, `size` elements from `at` on."""
        self.axes[s.place] = np.arange(self.number(s.place.extent))
        summed = None if isinstance(s, OrderRows) else s.summed
        operands = [s.value] if summed is None else [s.value, summed]
        places = np.shape(self.axes[s.place])
        values = [np.broadcast_to(self.value(e), places) for e in operands]
        del self.axes[s.place]
        if isinstance(s, OrderRows):
            kernel = "order_descending" if s.descending else "order"
        elif summed is not None:
            kernel = "sums"
        else:
            kernel = "groups" if s.placed else "starts"
        self.memory[s.dst.name][self.inside(s.dst, at + np.arange(size))] = NATIVE[kernel](
            *values, size
        )

    def scan(self, s: ScanLanes) -> None:
        """One lane after the other."""
        places = self.axes[s.lanes]
        elements = np.broadcast_to(self.value(s.value), np.shape(places))
        carries: list[Any] = []
        for self.axes[s.lanes], element in zip(places, elements, strict=True):
            self.locals[s.left.name] = self.locals[s.carry.name]
            self.locals[s.right.name] = element
            self.run(s.body)
            self.locals[s.carry.name] = self.value(s.result)
            carries.append(self.locals[s.carry.name])
        self.axes[s.lanes] = places
        self.locals[s.name.name] = np.asarray(carries)

    # ---- matrices ----

    def tile(self, b: Buffer) -> Array:
        return self.memory[b.name].reshape(_shape(b, self.dims))

    def pack(self, s: Pack) -> None:
        rows = np.arange(self.number(s.row_lo), self.number(s.row_hi))
        depth = np.arange(self.number(s.k_lo), self.number(s.k_hi))
        block = _rounded(self.operand(s.operand, s.row, rows, s.k, depth), s.element)
        at = self.number(s.at)
        assert 0 <= at <= self.memory[s.dst.name].size - block.size, f"{s.dst} is too small"
        for name, start in list(self.packed):
            end = start + self.packed[name, start].size
            if name == s.dst.name and start < at + block.size and at < end:
                del self.packed[name, start]
        self.packed[s.dst.name, at] = block

    def pack_columns(self, s: PackColumns) -> None:
        columns = np.arange(self.number(s.lo), self.number(s.hi))
        depth = self.number(s.k_hi)
        block = self.operand(s.operand, s.column, columns, s.k, np.arange(depth))
        block = _rounded(block, s.element)
        panels = -(-len(columns) // PANEL)
        padded = np.zeros((panels * PANEL, depth), block.dtype)
        padded[: len(columns)] = block
        flat = padded.reshape(panels, PANEL, depth).transpose(0, 2, 1).reshape(-1)
        assert flat.size <= self.memory[s.dst.name].size, f"{s.dst} is too small"
        self.memory[s.dst.name][: flat.size] = flat

    def pack_runs(self, s: PackRuns) -> None:
        if s.rows is not None:
            self.run((For(*s.rows, False, (replace(s, rows=None),)),))
            return
        columns = np.arange(self.number(s.lo), self.number(s.hi))
        length = self.number(s.run.extent)
        inner = _Task(self.memory, self.dims, {**self.axes}, self.locals)
        inner.axes |= {s.outer: columns // length, s.run: columns % length}
        held = np.ones(len(columns), bool)
        for c in s.where:
            held &= np.asarray(inner.ix(c.slack)) >= 0
        at = np.broadcast_to(inner.ix(s.base), len(columns)) + columns % length * s.stride
        zeros = 0 if s.apart else -len(columns) % PANEL
        row = np.pad(np.full(len(columns), s.fill), (0, zeros))
        row[: len(columns)][held] = _widened(self.flat(s.source, at[held] // s.repeat))
        places = self.inside(s.dst, self.number(s.at) + np.arange(row.size) * (s.apart or 1))
        self.memory[s.dst.name][places] = row

    def operand(self, o: Operand, major: Axis, rows: Array, k: Axis, depth: Array) -> Array:
        """An operand's elements (major, k)."""
        if o.stride is not None and o.k_stride is not None:
            assert o.source is not None
            start, stride, step = (self.number(i) for i in (o.base, o.stride, o.k_stride))
            return self.flat(o.source, start + rows[:, None] * stride + depth * step)
        assert o.value is not None
        shape = (len(rows), len(depth))
        grid = {major: np.repeat(rows, len(depth)), k: np.tile(depth, len(rows))}
        inner = _Task(self.memory, self.dims, {**self.axes, **grid}, self.locals)
        return np.broadcast_to(inner.value(o.value), shape[0] * shape[1]).reshape(shape)

    def multiply(self, s: Mma) -> None:
        rows, cols, depth = (self.number(i) for i in (s.rows, s.cols, s.k))
        if s.a_stride is not None:
            r, stride = np.arange(rows)[:, None], self.number(s.a_stride)
            at = self.number(s.a_at) + r // PANEL * stride + np.arange(depth) * PANEL + r % PANEL
            a = self.flat(s.a, at)
        elif s.is_row and (s.a.name, self.number(s.a_at)) not in self.packed:
            a = self.flat(s.a, self.number(s.a_at) + np.arange(depth)[None])
        else:
            a = self.packed[s.a.name, self.number(s.a_at)]
        assert a.shape == (rows, depth), f"{s.a} was packed as {a.shape}, not {(rows, depth)}"
        first = self.number(s.acc_at) + np.arange(rows)[:, None] * self.number(s.acc_stride)
        if s.groups is not None:
            target = self.inside(s.acc, first + np.arange(cols))
            out = multiplied_in_groups(s.groups, a, cols, self.number, self.flat)
            before = self.memory[s.acc.name][target] if self.number(s.accumulate) else 0.0
            self.memory[s.acc.name][target] = cast(out + before, s.acc.dtype)
            return
        n, k = np.arange(cols), np.arange(depth)[:, None]
        assert s.b.source is not None
        assert s.b.stride is not None
        base, stride = self.number(s.b.base), self.number(s.b.stride)
        side = s.b.side
        if s.b.panels:
            at = base + n // PANEL * stride + (k // side * PANEL + n % PANEL) * side + k % side
        else:
            assert s.b.k_stride is not None
            at = base + n * stride + k * self.number(s.b.k_stride)
        target = self.inside(s.acc, first + n)
        with np.errstate(all="ignore"):
            b = _widened(self.flat(s.b.source, at))
            if s.element.is_int:
                a, b = a.astype(np.int64), b.astype(np.int64)
            else:
                is_rounded = np.array_equal(_widened(_rounded(b, s.element)), b, equal_nan=True)
                assert is_rounded, f"{s.b.source} was not rounded to {s.element}"
            out = _widened(a) @ b
            if self.number(s.accumulate):
                out = out + _widened(self.memory[s.acc.name][target])
        self.memory[s.acc.name][target] = cast(out, s.acc.dtype)

    def contract(self, s: Contract) -> None:
        for tile, columns in ((s.acc, s.b), *s.more):
            self.contract_one(s, tile, columns)

    def contract_one(self, s: Contract, tile: Buffer, of_columns: Operand) -> None:
        acc = self.tile(tile)
        rows = _below(self.number(s.m_lo), acc.shape[0], self.number(s.m.extent))
        columns = _below(self.number(s.n_lo), acc.shape[1], self.number(s.n.extent))
        depth = np.arange(self.number(s.k_lo), self.number(s.k_hi))
        a = self.operand(s.a, s.m, rows, s.k, depth)
        b = self.operand(of_columns, s.n, columns, s.k, depth)
        acc[...] = 0
        kind = np.int64 if s.element.is_int else np.float64
        with np.errstate(all="ignore"):
            product = cast(a, s.element).astype(kind) @ cast(b, s.element).astype(kind).T
        acc[: len(rows), : len(columns)] = cast(product, tile.dtype)

    def sums_parts(self, s: WhenSummed) -> bool:
        """Whether all parts of the tile are there, and its fragment is what they come to."""
        tile, part, parts = (self.number(i) for i in (s.tile, s.part, s.parts))
        if parts == 1:
            return True
        acc, sums, arrived = (self.tile(b) for b in (s.acc, s.sums, s.arrived))
        rows = sums.shape[2]
        sums[tile, part] = acc[:rows]
        arrived[tile] = (arrived[tile] + 1) % parts
        acc[...] = 0 if s.acc.dtype.is_int else np.nan
        with np.errstate(all="ignore"):
            acc[:rows] = cast(_widened(sums[tile, :parts]).sum(0), s.acc.dtype)
        return bool(arrived[tile] == 0)

    def elements(self, s: ForTile) -> None:
        acc = self.tile(s.acc)
        rows = _below(self.number(s.m_lo), acc.shape[0], self.number(s.m_hi))
        columns = _below(self.number(s.n_lo), acc.shape[1], self.number(s.n_hi))
        for row, m in enumerate(rows):
            self.axes[s.m], self.axes[s.n] = int(m), columns
            self.locals[s.value.name] = _widened(acc[row, : len(columns)])
            for name, other in s.more:
                self.locals[name.name] = _widened(self.tile(other)[row, : len(columns)])
            self.name_rows(s.rows, row)
            self.run(s.body)
        for axis in (s.m, s.n):
            self.axes.pop(axis, None)

    def name_rows(self, rows: tuple[tuple[Local, Buffer], ...], which: Any) -> None:
        for name, b in rows:
            self.locals[name.name] = _widened(self.tile(b)[which])

    def stream(self, s: Stream) -> None:
        for point in range(self.number(s.lo), self.number(s.hi), s.step):
            self.axes[s.axis] = point
            for t in s.tiles:
                # a copy engine ends tiles where memory ends, threads those of C with the loop
                end = s.hi if t in s.outer and not t.map else t.depth.extent
                self.bring(t, self.number(end))
            self.run(s.body)
        self.axes.pop(s.axis, None)

    def bring(self, t: Streamed, end: int) -> None:
        tile = self.tile(t.dst)
        majors = _below(self.number(t.major_lo), tile.shape[0], self.number(t.major.extent))
        depth = _below(self.number(t.depth_lo), tile.shape[1], end)
        tile[...] = 0
        block = self.operand(t.operand, t.major, majors, t.depth, depth)
        tile[: len(majors), : len(depth)] = cast(block, t.dst.dtype)

    def map_tile(self, s: MapTile) -> None:
        sources = {name.name: _widened(self.tile(b)) for name, b in ((s.value, s.src), *s.more)}
        source, target = sources[s.value.name], self.tile(s.dst)
        m_lo, n_lo = self.number(s.m_lo), self.number(s.n_lo)
        m_hi, n_hi = m_lo + source.shape[0], n_lo + source.shape[1]
        if s.otherwise is not None:
            m_hi, n_hi = self.number(s.m_hi), self.number(s.n_hi)
            target[...] = s.otherwise
        rows = _below(m_lo, source.shape[0], m_hi)
        columns = _below(n_lo, source.shape[1], n_hi)
        shape = (len(rows), len(columns))
        if not rows.size or not columns.size:
            return
        self.axes[s.m], self.axes[s.n] = np.repeat(rows, shape[1]), np.tile(columns, shape[0])
        self.locals |= {x: a[: shape[0], : shape[1]].reshape(-1) for x, a in sources.items()}
        self.name_rows(s.rows, np.repeat(np.arange(shape[0]), shape[1]))
        self.run(s.body)
        result = np.broadcast_to(self.value(s.result), shape[0] * shape[1])
        target[: shape[0], : shape[1]] = result.reshape(shape)
        for axis in (s.m, s.n):
            self.axes.pop(axis, None)

    def flat(self, b: Buffer, at: Array) -> Array:
        return self.memory[b.name][self.inside(b, at)]

    def inside(self, b: Buffer, at: Array) -> Array:
        size = self.memory[b.name].size
        if at.size and not (at.min() >= 0 and at.max() < size):
            raise IndexError(f"{b}: elements {at.min()} .. {at.max()} of {size}")
        return at

    # ---- indices ----

    def ix(self, i: Ix) -> Any:
        return i.evaluate(self.axes, self.lookup)

    def number(self, i: Ix) -> int:
        """An index that is the same in all lanes."""
        value = self.ix(i)
        if np.ndim(value) > 0:
            raise ValueError(f"{i} differs between lanes")
        return int(value)

    def lookup(self, atom: Lookup, _env: Mapping[Any, Any]) -> Any:
        assert isinstance(atom.source, Buffer)
        element = self.memory[atom.source.name][self.element(atom.source, atom.at)]
        return np.asarray(element).astype(np.int64)

    def element(self, b: Buffer, at: tuple[Ix, ...]) -> Any:
        """The place in memory of an element, which must be inside its tensor."""
        flat: Any = 0
        for i, size in zip(at, _shape(b, self.dims), strict=True):
            value = self.ix(i)
            is_one = isinstance(value, int)  # as most are: NumPy takes ten times as long
            if not 0 <= value < size if is_one else np.any((value < 0) | (value >= size)):
                raise IndexError(
                    f"{b}[{', '.join(map(str, at))}]: {i} is {value}, not in 0..{size - 1}"
                )
            flat = flat * size + value
        return np.asarray(flat, np.int64)

    # ---- values ----

    def value(self, e: Expr) -> Any:
        with np.errstate(all="ignore"):
            return self._value(e, {})

    def _value(self, e: Expr, memo: dict[Expr, Any]) -> Any:
        if e not in memo:
            memo[e] = self._compute(e, memo)
        return memo[e]

    def _compute(self, e: Expr, memo: dict[Expr, Any]) -> Any:
        match e:
            case Const():
                return np.asarray(e.value, _wide(e.dtype))
            case Index():
                return np.asarray(self.ix(e.value)).astype(_wide(e.dtype))
            case Local():
                return self.locals[e.name]
            case Read():
                return _widened(self.memory[e.source.name][self.element(e.source, e.at)])
            case Gather():
                return self.gathered(e, memo)
            case Holds():
                return self.all_hold(e)
            case Random():
                key = self._value(e.key, memo)
                return bits_at(key, self.ix(e.at), e.site, e.dtype.numpy)
            case Choose():
                return self.choose(e, memo)
            case Prim():
                if e.op is Op.CONTIGUOUS:
                    return cast(self._value(e.args[0], memo), e.dtype).astype(_wide(e.dtype))
                return result_of(e, lambda a: self._value(a, memo))
            case Intrinsic():
                return INTRINSICS[e.name].meaning(*(self._value(a, memo) for a in e.args))
            case _:
                raise TypeError(f"a tile program holds no {type(e).__name__}")

    def gathered(self, e: Gather, memo: dict[Expr, Any]) -> Any:
        """An element at places that are computed, which must be points of their axes."""
        for axis, place in zip(e.axes, e.places, strict=True):
            value = np.asarray(self._value(place, memo)).astype(np.int64)
            if np.any((value < 0) | (value >= int(axis.extent.evaluate(self.dims)))):
                raise IndexError(f"{e.source}: {value} is not in 0..{axis.extent} - 1")
            self.axes[axis] = value
        data = _widened(self.memory[e.source.name][self.element(e.source, e.at)])
        for axis in e.axes:
            del self.axes[axis]
        return data

    def all_hold(self, e: Holds) -> Any:
        """Where all hold; the next ones are asked for those lanes alone that the first ones leave."""
        held: Any = np.True_
        for c in e.conditions:
            if np.ndim(held) == 0:
                held = held and c.holds(self.ix)
            elif held.any():
                held[held] = c.holds(self.only(held).ix)
        return held

    def choose(self, e: Choose, memo: dict[Expr, Any]) -> Any:
        """Each branch, computed for those lanes alone that take it."""
        condition = np.asarray(self._value(e.condition, memo))
        if condition.ndim == 0:
            return self._value(e.then if condition else e.otherwise, memo)
        out = np.empty(condition.shape, _wide(e.dtype))
        for lanes, branch in ((condition, e.then), (~condition, e.otherwise)):
            if lanes.any():
                out[lanes] = self.only(lanes).value(branch)
        return out

    def only(self, lanes: Array) -> _Task:
        """The same scope with some of its lanes."""

        def kept(value: Any) -> Any:
            return value[lanes] if np.shape(value) == lanes.shape else value

        axes = {a: kept(v) for a, v in self.axes.items()}
        names = {name: kept(v) for name, v in self.locals.items()}
        return _Task(self.memory, self.dims, axes, names, self.packed)


def _below(lo: int, count: int, hi: int) -> Array:
    """The numbers from `lo` on, at most `count` of them, that are below `hi`."""
    return np.arange(lo, max(lo, min(lo + count, hi)))


def _rounded(a: Array, element: DType) -> Array:
    """An operand as products take it: those of f32 are computed in f64 here, as everything is."""
    return a if element is f32 else cast(a, element)


def _nothing(dtype: DType) -> float:
    """What memory holds before it is written, so that who reads it is seen."""
    return np.nan if dtype.is_float else np.iinfo(dtype.numpy).max


def _wide(dtype: DType) -> np.dtype[Any]:
    """In what numbers values of `dtype` are computed."""
    return np.dtype(np.float64) if dtype.is_float else np.dtype(dtype.numpy)


def _widened(a: Any) -> Any:
    """Floats as f64; ml_dtypes' own kinds are floats too."""
    array = np.asarray(a)
    return array if array.dtype.kind in "biu" else array.astype(np.float64)
