"""interchange: a fold inside a loop over lanes takes some terms for all lanes, before it takes the next ones.

Before: a program of one thread's tasks, in which each vector of a loop over lanes folds all of its terms.

    for i in 0 .. 512 over lanes: acc = 0; for k in 0 .. 64: acc += x[k] * w[k, i]; y[i] = acc

After: the loops stand the other way around. What all lanes have come to lies in a row of scratch, which stays in the
nearest cache, and memory is read as it lies: some rows of the matrix, whole, then the next ones.

    for i in 0 .. 512 over lanes: sums[i] = 0
    for chunk in 0 .. 8
      for i in 0 .. 512 over lanes: acc = sums[i]; for k in 8 chunk .. 8 chunk + 8: acc += x[k] * w[k, i]; sums[i] = acc
    for i in 0 .. 512 over lanes: y[i] = sums[i]

Each lane adds up its terms in the same order, so the sums have the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lumigen.dtype import DOUBLES
from lumigen.index import Axis, ceildiv, extent_of, ix, minimum
from lumigen.lower.hold import most_of
from lumigen.lower.scope import address
from lumigen.machine import Streams
from lumigen.plan import Loop, NotRealised
from lumigen.region import (
    Buffer,
    Expr,
    Local,
    Monoid,
    Read,
    Reduce,
    Role,
    const,
    free_axes,
    local,
    map_expr,
    read,
    walk,
)
from lumigen.tile import Accumulate, Accumulator, Bind, For, Let, Stmt, StoreTile, TileProgram

_AFTER = (Bind, Let, StoreTile, For)  # what may follow a fold


def interchange(program: TileProgram, terms: int) -> TileProgram:
    """With so many terms at a time in each loop over lanes that begins with a fold; NotRealised where there is none."""
    if terms < 0:
        raise NotRealised(f"{terms} terms at a time")
    if terms == 0:
        return program
    found = _Interchanged(terms)
    body = found.within(program.body)
    if not found.scratch:
        raise NotRealised(f"{terms} terms at a time, of no fold that all lanes could share")
    return replace(program, body=body, scratch=(*program.scratch, *found.scratch))


@dataclass(frozen=True)
class _OfLanes:
    """A loop over lanes: its accumulators, the outermost loop of their fold, and what else is named or stored.

    `inside` are the values that the fold reads, `after` all that follows it, with what that reads.
    """

    inside: tuple[Stmt, ...]
    sums: tuple[Accumulator, ...]
    fold: For
    after: tuple[Stmt, ...]


@dataclass
class _Interchanged:
    terms: int
    scratch: list[Buffer] = field(default_factory=list[Buffer])

    def within(self, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        return tuple(s for each in body for s in self._of(each))

    def _of(self, s: Stmt) -> Iterator[Stmt]:
        if not isinstance(s, For):
            yield s
            return
        found, extent = _fold_of(s), most_of(s.hi - s.lo)
        if not s.lanes:
            yield replace(s, body=self.within(s.body))
        elif found is None or extent is None:
            yield s
        else:
            yield from self._loops(s, found, extent)

    def _loops(self, s: For, found: _OfLanes, extent: int) -> Iterator[Stmt]:
        """The loops over lanes: one that begins the sums, one that takes some terms, and one that has all of them."""
        at, axis, fold = (ix(s.axis) - s.lo,), s.axis, found.fold
        rows = [self._row(a, extent) for a in found.sums]
        there = [(a, row, read(row, at)) for a, row in zip(found.sums, rows, strict=True)]
        yield replace(s, body=tuple(StoreTile(row, at, _neutral(a), axis) for a, row, _ in there))
        chunk = Axis("chunk", ceildiv(fold.hi - fold.lo, self.terms))
        first = fold.lo + ix(chunk) * self.terms
        some = replace(fold, lo=first, hi=minimum(first + self.terms, fold.hi))
        if some.hi - some.lo == self.terms:
            some = replace(some, unrolled=self.terms)
        sums = (replace(a, start=e) for a, _, e in there)
        stores = (StoreTile(row, at, a.name, axis) for a, row, _ in there)
        inner = replace(s, body=(*found.inside, *sums, some, *stores))
        yield For(chunk, ix(0), chunk.extent, False, (inner,))
        whole = {a.name: _total(a.name, row) for a, row, _ in there}
        totals = (Let(whole[a.name], e, axis) for a, _, e in there)
        yield replace(s, body=(*totals, *(_with(x, whole) for x in found.after)))

    def _row(self, of: Accumulator, extent: int) -> Buffer:
        row = Buffer(f"sums{len(self.scratch)}", Role.SCRATCH, (ix(extent),), of.name.dtype)
        self.scratch.append(row)
        return row


def _total(name: Local, row: Buffer) -> Local:
    out = local(row.name.replace("sums", "total"), name.axes, name.dtype)
    assert isinstance(out, Local)
    return out


def _neutral(a: Accumulator) -> Expr:
    dtype = a.name.dtype
    return const(dtype.lowest if a.monoid is Monoid.MAX else 0.0, dtype)


def _fold_of(s: For) -> _OfLanes | None:
    """The parts of a loop over lanes that has one fold, of floats; None where a value is needed before and after it."""
    body = s.body
    start = next((i for i, x in enumerate(body) if isinstance(x, Accumulator)), len(body))
    end = next((i for i, x in enumerate(body) if isinstance(x, For)), len(body))
    sums = tuple(a for a in body[start:end] if isinstance(a, Accumulator))
    if not sums or end == len(body) or len(sums) < end - start:
        return None
    before, fold, after = body[:start], body[end], body[end + 1 :]
    assert isinstance(fold, For)
    if not all(_is_of_lanes(a, s.axis) for a in sums) or not _is_plain(fold, sums, s.axis):
        return None
    if not all(isinstance(x, Let) for x in before):
        return None
    if not all(isinstance(x, _AFTER) for s in after for x in _statements(s)):
        return None
    inside, outside = _needed(before, (fold,)), _needed(before, after)
    if any(x in outside for x in inside):
        return None
    return _OfLanes(inside, sums, fold, (*outside, *after))


def _is_of_lanes(a: Accumulator, axis: Axis) -> bool:
    return a.lanes is axis and a.start is None and not a.dealt and a.name.dtype in DOUBLES


def _is_plain(fold: For, sums: Sequence[Accumulator], lane: Axis) -> bool:
    """Whether a loop does nothing but add up these, at points that are the same for all lanes."""
    inside = [*_statements(fold)]
    into = {x.into for x in inside if isinstance(x, Accumulate)}
    loops = [x for x in inside if isinstance(x, For)]
    return (
        all(isinstance(x, Let | Accumulate | For) for x in inside)
        and into == {a.name for a in sums}
        and not any(x.lanes or x.dealt or x.parts for x in loops)
        and fold.step == 1
        and lane not in fold.lo.axes | fold.hi.axes
    )


def _statements(s: Stmt) -> Iterator[Stmt]:
    yield s
    if isinstance(s, For):
        for x in s.body:
            yield from _statements(x)


def _needed(before: Sequence[Stmt], by: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """Those of the named values that some statements read, and what these are made of."""
    wanted = {e for s in by for x in _statements(s) for e in _locals_of(x)}
    kept: list[Stmt] = []
    for x in reversed(before):
        if isinstance(x, Let) and x.name in wanted:
            kept.append(x)
            wanted |= _locals_of(x)
    return tuple(reversed(kept))


def _locals_of(s: Stmt) -> set[Expr]:
    values = [s.value] if isinstance(s, Let | Accumulate | StoreTile) else []
    return {e for e in walk(values) if isinstance(e, Local)}


def _with(s: Stmt, whole: Mapping[Local, Local]) -> Stmt:
    if isinstance(s, For):
        return replace(s, body=tuple(_with(x, whole) for x in s.body))
    return replace(s, value=map_expr(s.value, {**whole})) if isinstance(s, Let | StoreTile) else s


# ---- when ----


def has_sums(fold: Loop) -> bool:
    """Whether nothing but sums or maxima of its own are in a fold."""
    plain = all(c.correct is None and c.product is None for c in fold.carries)
    return plain and not fold.body and all(isinstance(c.value, Reduce) for c in fold.carries)


def are_columns(kind: str, folds: Sequence[Loop]) -> bool:
    """Whether a loop of this kind has one fold inside, of floats, which could take some terms for all lanes."""
    sums = (c.value.dtype in DOUBLES for fold in folds for c in fold.carries)
    return kind == "lanes" and len(folds) == 1 and has_sums(folds[0]) and all(sums)


def lies_apart(e: Read, lane: Axis, long: Axis, streams: Streams) -> bool:
    """Whether lanes read a row of memory at each point of an axis, and the next one's lies pages away."""
    if not {lane, long} <= free_axes(e):
        return False
    at = address(e.source, e.at)
    step = at.coefficient(long)
    if at.coefficient(lane) != 1 or step is None:
        return False
    return step.estimate() * e.source.dtype.itemsize >= streams.page


def reads_rows_apart(lane: Axis, fold: Loop, streams: Streams) -> bool:
    """Whether a fold in a loop over lanes reads rows of a large matrix that lie pages apart, once."""
    long = fold.axes[0]
    if extent_of(fold.axes[1:]) != 1 or long.extent.estimate() < 2 * streams.turn:
        return False
    reads = [e for e in walk([c.tile for c in fold.carries]) if isinstance(e, Read)]
    return any(
        lies_apart(e, lane, long, streams)
        and extent_of(free_axes(e)).estimate() * e.source.dtype.itemsize >= streams.far
        for e in reads
    )
