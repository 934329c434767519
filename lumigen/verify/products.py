"""What must hold of products of tiles: of a thread's, and of those whose sums blocks hold in fragments."""

from __future__ import annotations

from collections.abc import Iterator

from lumigen.dtype import bf16, f32, i8, i32, u8
from lumigen.program import PAIR, QUAD
from lumigen.tile import Contract, ForTile, GroupScales, Mma
from lumigen.verify.facts import (
    Facts,
    FactScope,
    broken_indices,
    broken_name,
    broken_packed,
    broken_read,
    broken_rows,
    broken_tile,
    broken_use,
)
from lumigen.verify.value import broken_operand


def broken_fragments(s: Contract | ForTile, facts: Facts, scope: FactScope) -> Iterator[str]:
    """Products in fragments, or what is done to their elements."""
    if isinstance(s, Contract):
        sums = i32 if s.element.is_int else f32
        yield from broken_tile(s.acc, facts, sums)
        yield from broken_indices((s.m_lo, s.n_lo, s.k_lo, s.k_hi), facts, scope)
        taken = (s.element,) if s.element.is_int else (f32,)
        yield from broken_operand(s.a, facts, scope, (s.m, s.k), taken)
        yield from broken_operand(s.b, facts, scope, (s.n, s.k), taken)
        for acc, columns in s.more:
            yield from broken_tile(acc, facts, sums)
            yield from broken_operand(columns, facts, scope, (s.n, s.k), taken)
            if acc.dims != s.acc.dims:
                yield f"{acc} is no tile like {s.acc}"
        is_float = s.element is f32 or (s.element.is_float and s.element.bits == 16)
        if not (is_float or s.element in (i8, u8)):
            yield f"products of {s.element}"
        return
    yield from broken_tile(s.acc, facts, s.value.dtype)
    yield from broken_read(s.acc, facts)
    yield from broken_indices((s.m_lo, s.n_lo, s.m_hi, s.n_hi), facts, scope)
    yield from broken_name(s.value, facts)
    yield from broken_rows(s.rows, s.acc, facts)
    for name, acc in s.more:
        yield from broken_name(name, facts)
        yield from broken_read(acc, facts)
        if acc.dims != s.acc.dims:
            yield f"{acc} is no tile like {s.acc}"


def _broken_groups(g: GroupScales, facts: Facts, scope: FactScope) -> Iterator[str]:
    for p in g.planes:
        yield from broken_operand(p.operand, facts, scope, (), (i8, u8))
        if p.bits not in (1, 2, 4, 8) or p.operand.side != QUAD:
            yield f"{p.bits} bits of bytes, {p.operand.side} side by side"
    numbers = (*g.scales, *g.least)
    yield from broken_operand(g.rows, facts, scope, ())
    for x in numbers:
        yield from broken_operand(x.operand, facts, scope, (), (f32, i8, u8))
    spans = [g.row_span, *(x.span for x in numbers)]
    if not g.scales or any(s % g.size for s in spans) or g.size % QUAD:
        yield f"groups of {g.size} with scales for {', '.join(map(str, spans))}"


def broken_product(s: Mma, facts: Facts, scope: FactScope) -> Iterator[str]:
    indices = (s.acc_at, s.acc_stride, s.a_at, s.rows, s.cols, s.k, s.accumulate)
    yield from broken_indices(indices, facts, scope)
    if s.groups is None:
        yield from broken_operand(s.b, facts, scope, (), (i8 if s.element.is_int else f32,))
    else:
        yield from _broken_groups(s.groups, facts, scope)
    yield from broken_use(s.acc, facts)
    if s.a_stride is not None:
        yield from broken_indices((s.a_stride,), facts, scope)
        yield from broken_use(s.a, facts)
    else:
        yield from broken_packed(
            s.a, facts, s.element if s.element.is_int else f32, stored=s.is_row
        )
    if s.acc.dtype is not (i32 if s.element.is_int and s.groups is None else f32):
        yield f"products of {s.acc.dtype}"
    for b in (s.a, s.b.source):
        if b in facts.packed and facts.packed[b] is not s.element:
            yield f"{b} was packed as {facts.packed[b]} and is multiplied as {s.element}"
    if s.b.side == PAIR and s.element is not bf16 and s.rows.bounds()[1] != 1:
        yield f"pairs that are multiplied as {s.element}"
    if (s.b.side == QUAD) is not s.element.is_int:
        yield f"{s.b.side} k side by side that are multiplied as {s.element}"
    row_from_zero = s.is_row and s.b.k_stride == 1 and s.accumulate == 0
    if not (s.b.panels or s.b.stride == 1 or row_from_zero):
        yield f"columns {s.b.stride} apart, with no panels"
