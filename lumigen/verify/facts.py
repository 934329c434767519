"""facts: what is known at a statement of a tile program, and what every one of them has to keep to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations_with_replacement

from lumigen.condition import Cmp
from lumigen.dtype import DType, f32, i32
from lumigen.index import Axis, Dim, Ix, Lookup, ceildiv, is_nonnegative, ix
from lumigen.memo import remembered
from lumigen.region import Buffer, Local, Read, Role
from lumigen.tile import (
    Accumulator,
    Advance,
    Keep,
    Pack,
    PackRuns,
    ScanCarry,
    ScanLanes,
    TensorMap,
    TileProgram,
    WhenSummed,
)
from lumigen.verify.region import Conditions


@dataclass
class Facts:
    """What the whole program has shown so far, in order of text."""

    dims: frozenset[Dim]
    buffers: frozenset[Buffer]
    locals: dict[Local, Axis | None] = field(default_factory=dict[Local, "Axis | None"])
    held: dict[Local, DType] = field(default_factory=dict[Local, DType])
    kept: set[Local] = field(default_factory=set[Local])  # what of it has a value
    accumulators: dict[Local, Accumulator] = field(default_factory=dict[Local, Accumulator])
    carries: dict[Local, ScanCarry] = field(default_factory=dict[Local, ScanCarry])
    written: set[Buffer] = field(default_factory=set[Buffer])
    packed: dict[Buffer, DType] = field(default_factory=dict[Buffer, DType])  # and as what
    used: set[Buffer] = field(default_factory=set[Buffer])


@dataclass(frozen=True)
class FactScope:
    """A place in the text: the axes and locals that have a value there, and what holds."""

    axes: frozenset[Axis]
    locals: frozenset[Local]
    lanes: Axis | None = None
    given: Conditions = frozenset()


def broken_rows(
    rows: tuple[tuple[Local, Buffer], ...], tile: Buffer, facts: Facts
) -> Iterator[str]:
    for name, b in rows:
        yield from broken_name(name, facts)
        yield from broken_numbers(b, tile, facts)


def broken_numbers(b: Buffer, tile: Buffer, facts: Facts) -> Iterator[str]:
    """One number for each row of a tile."""
    yield from broken_tile(b, facts)
    yield from broken_read(b, facts)
    if b.dims != tile.dims[:1]:
        yield f"{b} has no number for each row of {tile}"


def broken_fragment(b: Buffer, facts: Facts, dtype: DType = f32) -> Iterator[str]:
    yield from broken_tile(b, facts, dtype)
    if len(b.dims) != 2:
        yield f"{b} is no fragment"


def broken_name(name: Local, facts: Facts) -> Iterator[str]:
    if any(n.name == name.name for n in facts.locals):
        yield "defined twice"


def broken_indices(indices: Iterable[Ix], facts: Facts, scope: FactScope) -> Iterator[str]:
    for i in indices:
        yield from broken_index(i, facts, scope, alike=True)


def broken_index(i: Ix, facts: Facts, scope: FactScope, *, alike: bool) -> Iterator[str]:
    for axis in sorted(i.axes - scope.axes, key=str):
        yield f"{axis} has no value here"
    if alike and scope.lanes is not None and scope.lanes in i.axes:
        yield f"{i} differs between the lanes of {scope.lanes}"
    for atom in i.atoms():
        if isinstance(atom, Dim) and atom not in facts.dims:
            yield f"the dim {atom} is not handed in"
        if isinstance(atom, Lookup) and isinstance(atom.source, Buffer):
            yield from broken_use(atom.source, facts)


def broken_use(b: Buffer, facts: Facts) -> Iterator[str]:
    facts.used.add(b)
    if b not in facts.buffers:
        yield f"{b} is no argument and no scratch"


def broken_read(b: Buffer, facts: Facts) -> Iterator[str]:
    if b.role is Role.SCRATCH and b not in facts.written:
        yield f"{b} is read before it is written"


def broken_tile(b: Buffer, facts: Facts, dtype: DType = f32) -> Iterator[str]:
    yield from broken_use(b, facts)
    if b.role is not Role.SCRATCH or b.dtype is not dtype:
        yield f"{b} is no {dtype} scratch"


def broken_packed(b: Buffer, facts: Facts, dtype: DType = f32, *, stored: bool) -> Iterator[str]:
    """Rows of a product: packed or, if they may be just `stored`, written."""
    yield from broken_tile(b, facts, dtype)
    if b not in facts.packed:
        yield from broken_read(b, facts) if stored else (f"{b} is not packed yet",)


def broken_sums(s: WhenSummed, facts: Facts, scope: FactScope) -> Iterator[str]:
    """Parts are counted by a counter of each tile, and lie where each of them has a place of its own."""
    yield from broken_fragment(s.acc, facts, i32 if s.acc.dtype.is_int else f32)
    yield from broken_read(s.acc, facts)
    yield from broken_indices((s.tile, s.part, s.parts), facts, scope)
    for b, role, dtype, rank in (
        (s.sums, Role.WORKSPACE, s.acc.dtype, 4),
        (s.arrived, Role.COUNTER, i32, 1),
    ):
        yield from broken_use(b, facts)
        if b.role is not role or b.dtype is not dtype or len(b.dims) != rank:
            yield f"{b} is no {role.value} of {rank} axes of {dtype}"
            return
    if s.sums.dims[3:] != s.acc.dims[1:] or not is_nonnegative(s.acc.dims[0] - s.sums.dims[2]):
        yield f"{s.acc.dims} in {s.sums.dims}"


def broken_size(b: Buffer, needed: Ix, scope: FactScope) -> Iterator[str]:
    size = ix(1)
    for d in b.dims:
        size = size * d
    if never(Cmp(size - needed), scope.given):
        yield f"{b} has {size} elements, not {needed}"


@remembered
def never(c: Cmp, given: Conditions) -> bool:
    """Whether a condition fails wherever the given ones hold, as far as one of them proves it."""
    fails = -c.slack - 1
    if not any(is_nonnegative(fails - g.slack) for g in (*given, Cmp(ix(0)))):
        return False
    # unless it is never reached: two conditions, or one, cannot hold
    pairs = combinations_with_replacement(given, 2)
    return not any(is_nonnegative(-g.slack - h.slack - 1) for g, h in pairs)


def broken_runs(s: PackRuns, facts: Facts, scope: FactScope) -> Iterator[str]:
    """A row of B in runs of neighbours: what moves them apart is the same for all of a run."""
    # bytes stay what they are, or become floats
    yield from broken_tile(s.dst, facts, s.source.dtype if s.dst.dtype.is_int else f32)
    yield from broken_use(s.source, facts)
    yield from broken_indices((s.lo, s.hi), facts, scope)
    if s.rows is not None:
        row, *ends = s.rows
        yield from broken_indices(ends, facts, scope)
        scope = replace(scope, axes=scope.axes | {row})
        if s.steps(row) is None:
            yield f"rows of {row} have no runs in common"
        elif s.apart and s.steps(row) != (ix(1), s.base.coefficient(row)):
            yield f"rows of {row} that do not lie side by side in columns"
    elif s.apart:
        yield "columns apart of a row by itself"
    inner = replace(scope, axes=scope.axes | {s.outer, s.run})
    yield from broken_indices((s.at,), facts, scope)
    yield from broken_indices((s.base, *(c.slack for c in s.where)), facts, inner)
    if s.run in s.base.axes or not _is_affine(s.where, s.run) or (s.repeat > 1) > (s.stride == 1):
        yield f"no runs along {s.run}"


def broken_depth(s: Pack) -> Iterator[str]:
    """Where k lie in runs, an operand is read from memory that has so many side by side each time."""
    if not s.run:
        return
    value, at = s.operand.value, ix(0)
    inside, number = Axis("inside", ix(s.run)), Axis("number", ceildiv(s.k.extent, s.run))
    if isinstance(value, Read):
        for extent, i in zip(value.source.dims, value.at, strict=True):
            at = at * extent + i
    first = at.substitute({s.k: number * ix(s.run)})
    if at == 0 or at.substitute({s.k: number * ix(s.run) + inside}) != first + inside:
        yield f"{s.run} of {s.k} do not lie side by side"


def _is_affine(conditions: Iterable[Cmp], axis: Axis) -> bool:
    """Whether each condition has a constant multiple of the axis, or nothing of it."""
    factors = [c.slack.coefficient(axis) for c in conditions]
    return all(f is not None and f.is_const for f in factors)


def broken_carry(s: Advance | ScanLanes, facts: Facts, scope: FactScope) -> Iterator[str]:
    """What goes on must have begun, with the same lanes."""
    name = s.name if isinstance(s, Advance) else s.carry
    made = facts.carries.get(name) or facts.accumulators.get(name)
    if made is None or name not in scope.locals or made.lanes != s.lanes:
        yield "nothing is carried under this name"


def broken_map(t: TensorMap, program: TileProgram) -> Iterator[str]:
    """A copy engine takes multiples of 16 bytes, and no axis of a kernel is known where a map is made."""
    if t.source not in program.args:
        yield f"{t.source} is no argument"
    sizes = (t.groups, t.batches, t.lines, t.elements, t.share)
    slower = ((t.batches, t.batch_stride), (t.groups, t.group_stride))
    strides = (t.base, t.line_stride, *(stride for extent, stride in slower if extent != 1))
    yield from (f"{i} may be none" for i in sizes if not is_nonnegative(i - 1))
    yield from (f"{i} is in the kernel" for i in (*sizes, *strides) if i.axes)
    for i in strides:
        if i * t.source.dtype.itemsize % 16 != 0:
            yield f"{i} elements are not whole 16 bytes"
    for w, extent in zip(t.windows or (), (t.batches, t.lines), strict=False):
        if not is_nonnegative(w.points - 1) or not is_nonnegative(w.taps - 1):
            yield f"windows of {w.taps}, {w.points} of them, may be none"
        least = extent - 1 + w.last - (w.first + (w.points - 1) * w.step)
        if not is_nonnegative(least) or not is_nonnegative(w.step - 1 - least):
            yield f"windows from {w.first} to {w.last} behind the end are not {w.points}"


def are_neighbours(s: Keep, element: DType) -> bool:
    """Whether memory has the value in this type, element beside element over the lanes."""
    if not isinstance(s.value, Read) or s.value.source.dtype is not element:
        return False
    place = ix(0)
    for extent, i in zip(s.value.source.dims, s.value.at, strict=True):
        place = place * extent + i
    return place.coefficient(s.lanes) == 1
