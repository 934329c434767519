"""operands: how the operands of products lie in memory. Facts of expressions; they decide nothing."""

from __future__ import annotations

from dataclasses import dataclass

from lumigen.condition import Cmp
from lumigen.dtype import i8, u8
from lumigen.index import Axis, Ix, Quotient, Remainder, ix
from lumigen.lower.contractions import integer_read
from lumigen.lower.scope import address
from lumigen.program import PANEL as WIDTH
from lumigen.program import Panels
from lumigen.region import Buffer, Choose, Const, Expr, Holds, Read, Role, walk
from lumigen.tile import Operand


def read_where(value: Expr) -> tuple[Read, tuple[Cmp, ...], float] | None:
    """A read, the conditions around it, and the one number that stands for it elsewhere; None of any other value."""
    where, fills = list[Cmp](), set[float]()
    while isinstance(value, Choose) and isinstance(value.condition, Holds):
        if not isinstance(value.otherwise, Const):
            return None
        fills.add(value.otherwise.value)
        where += value.condition.conditions
        value = value.then
    if not isinstance(value, Read) or len(fills) > 1:
        return None
    return value, tuple(where), next(iter(fills), 0.0)


def element_read(e: Expr) -> tuple[Buffer, Ix] | None:
    """(buffer, place in it) of an element that is read as it is: a float, or an integer as an index reads it."""
    if isinstance(e, Read):
        return e.source, address(e.source, e.at)
    found = integer_read(e)
    return None if found is None else (found[0], address(*found))


def affine(e: Expr, major: Axis, k: Axis) -> tuple[Buffer, Ix, Ix, Ix] | None:
    """(buffer, base, stride of major, stride of k) of a read whose address is affine in both."""
    at_of = element_read(e)
    if at_of is None:
        return None
    source, at = at_of
    by_major, by_k = at.coefficient(major), at.coefficient(k)
    if by_major is None or by_k is None or {major, k} & (by_major.axes | by_k.axes):
        return None
    base = at - by_major * major - by_k * k
    return source, base, by_major, by_k


def is_along(value: Expr, major: Axis, k: Axis) -> bool:
    """Whether more of what an operand is made of is contiguous along the majors than along the depth."""
    reads = [(e.source, address(e.source, e.at)) for e in walk([value]) if isinstance(e, Read)]
    by_major, by_depth = (
        sum(b.dtype.itemsize for b, at in reads if at.coefficient(axis) == 1) for axis in (major, k)
    )
    return by_major > by_depth


def as_operand(value: Expr, major: Axis, k: Axis) -> Operand:
    """A matrix operand over (major, k): as memory holds it, or computed element by element as it is packed."""
    found = affine(value, major, k)
    if found is None:
        return Operand(None, ix(0), None, None, value)
    source, base, stride, k_stride = found
    return Operand(source, base, stride, k_stride, value)


def packed_once(value: Expr, major: Axis, k: Axis) -> tuple[Buffer, Panels] | None:
    """The weight that an operand is, and how it lies in panels; None if each call has to pack it."""
    strided = affine(value, major, k)
    if strided is None:
        return _packed_in_parts(value, major, k)
    if strided[0].role is not Role.WEIGHT or strided[0].dtype is u8:
        return None
    source, base, stride, k_stride = strided
    extents = (major.extent, k.extent, stride, k_stride)
    if not all(e.is_const for e in (*extents, base)):
        return None
    return source, Panels(*(e.const for e in extents), width=WIDTH, base=base.const)


@dataclass(frozen=True)
class PackedRows:
    """A weight that lies in panels, rows of all of a batch one after another; so many lie before those of one."""

    source: Buffer
    panels: Panels
    before: Ix


def rows_packed_once(value: Expr, major: Axis, k: Axis) -> PackedRows | None:
    """The weight that an operand of a batch is; None if each call has to pack it, as where rows fill no panels."""
    alone = packed_once(value, major, k)
    if alone is not None:
        return PackedRows(*alone, ix(0))
    strided = affine(value, major, k)
    if strided is None or strided[0].role is not Role.WEIGHT or strided[0].dtype.is_int:
        return None
    source, base, stride, k_stride = strided
    steps = {a: base.coefficient(a) or ix(0) for a in base.axes}
    sizes = (major.extent, k.extent, stride, k_stride, *steps.values(), *(a.extent for a in steps))
    if not all(e.is_const for e in sizes) or major.extent.const % WIDTH:
        return None
    rows, before = major.extent.const, ix(0)
    for a, step in sorted(steps.items(), key=lambda found: found[1].const):
        if step != stride * rows:
            return None
        base, before, rows = base - step * a, before + ix(a) * rows, rows * a.extent.const
    if not base.is_const:
        return None
    panels = Panels(rows, k.extent.const, stride.const, k_stride.const, WIDTH, base.const)
    return PackedRows(source, panels, before)


def _packed_in_parts(value: Expr, major: Axis, k: Axis) -> tuple[Buffer, Panels] | None:
    """The same of integers whose k are two axes of memory, some of them at one distance and these at another."""
    found = integer_read(value)
    if found is None or found[0].role is not Role.WEIGHT or found[0].dtype is not i8:
        return None
    at = address(*found)
    parted = (a for a in at.atoms() if isinstance(a, Quotient | Remainder))
    for inner in sorted({a.denominator.const for a in parted if a.denominator.is_const}):
        base, *steps = (
            at.substitute({major: ix(n), k: ix(i)}) for n, i in ((0, 0), (1, 0), (0, 1), (0, inner))
        )
        stride, k_stride, outer = (s - base for s in steps)
        sizes = (major.extent, k.extent, stride, k_stride, base, outer)
        if not all(e.is_const for e in sizes) or k.extent.const % inner:
            continue
        if at == base + stride * major + ix(k) // inner * outer + ix(k) % inner * k_stride:
            n, depth, *strides = (e.const for e in sizes[:4])
            parts = {"base": base.const, "inner": inner, "outer_stride": outer.const}
            return found[0], Panels(n, depth, *strides, width=WIDTH, **parts)
    return None
