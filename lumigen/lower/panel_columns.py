"""panel_columns: the columns that a tile of products reads: weights in panels, or what each task makes.

Before: a product's columns, and what a task computes.  After: operands, and what is computed before they are read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import lcm

from lumigen.dtype import f32
from lumigen.index import Axis, Ix, ix
from lumigen.lower.contract import PAIRED_ROWS, WIDTH, Columns, Points, stored
from lumigen.lower.contractions import is_plain
from lumigen.lower.factors import Factored
from lumigen.lower.groups import Groups, Numbers
from lumigen.lower.operands import as_operand, is_along
from lumigen.lower.panel_tasks import Tasks
from lumigen.lower.scope import address
from lumigen.lower.unpacked import factors_of, stored_in_parts, unit_of
from lumigen.machine import Vectors
from lumigen.plan import NotRealised
from lumigen.region import Buffer, Expr, Role, substitute
from lumigen.schedule import Schedule
from lumigen.tile import BitPlane, GroupNumbers, GroupScales, Operand, PackColumns, Stmt


@dataclass(frozen=True)
class MadeInTile:
    """Columns over (n, k) that a task packs.

    Vectors along one of the two compute them, into a tile of their own, unless memory has them.
    """

    value: Expr
    k: Axis
    b_tile: Buffer
    x_tile: Buffer | None
    parts: Factored | None  # of k, where reads divide it

    def stmts(self, tile: PanelTile, lo: Ix, hi: Ix) -> tuple[Stmt, ...]:
        """A chunk of columns by a part of k in panels."""
        n, first = tile.n, ix(tile.chunk)
        if self.x_tile is None:
            point = Axis("point", self.b_tile.dims[1])
            b = as_operand(substitute(self.value, {self.k: lo + point}), n, point)
            return (PackColumns(self.b_tile, b, n, first, tile.end, point, hi - lo),)
        of_n, of_k = Points(n, first, tile.end), Points(self.k, lo, hi)
        if self.parts is not None:
            x = Operand(self.x_tile, ix(0), self.x_tile.dims[1], ix(1), None)
            made = stored_in_parts(
                tile.tasks.scope, self.x_tile, self.parts, of_n, of_k, tile.vectors
            )
            return made, PackColumns(self.b_tile, x, n, ix(0), tile.end - first, self.k, hi - lo)
        at, length = (ix(n) - first, ix(self.k) - lo), self.x_tile.dims[1]
        x = Operand(self.x_tile, ix(0), length, ix(1), None)
        if is_along(self.value, n, self.k):
            at, of_n, of_k = at[::-1], of_k, of_n
            x = Operand(self.x_tile, ix(0), ix(1), length, None)
        made = stored(tile.tasks.scope, self.x_tile, at, self.value, of_n, of_k)
        return made, PackColumns(self.b_tile, x, n, ix(0), tile.end - first, self.k, hi - lo)


@dataclass(frozen=True)
class PanelScales:
    """Integers in groups: their scales, as weights in panels or as tasks make them, and those of the rows."""

    groups: Groups
    planes: tuple[Operand, ...]
    scales: tuple[GroupNumbers, ...] | MadeInTile
    least: tuple[GroupNumbers, ...] | MadeInTile
    rows: Operand  # over the flat m and k

    def at(self, tile: PanelTile, lo: Ix, hi: Ix) -> tuple[tuple[Stmt, ...], GroupScales]:
        """For a chunk of columns and a part of k: what makes scales, and all that the product needs."""
        of, chunk, made = self.groups.columns, ix(tile.chunk), list[Stmt]()

        def of_columns(b: tuple[GroupNumbers, ...] | MadeInTile) -> tuple[GroupNumbers, ...]:
            if isinstance(b, MadeInTile):
                made.extend(b.stmts(tile, lo // of.span, hi // of.span))
                depth = (hi - lo) // of.span * WIDTH
                panels = Operand(b.b_tile, ix(0), depth, ix(WIDTH), None, panels=True)
                return (GroupNumbers(panels, of.span),)
            return tuple(replace(x, operand=_from(x.operand, chunk, lo // x.span)) for x in b)

        planes = tuple(
            BitPlane(_from(o, chunk, lo // (8 // p.bits)), p.bits, p.run, p.place)
            for o, p in zip(self.planes, of.planes, strict=True)
        )
        m0, _ = tile.tasks.rows
        stride = self.rows.stride or ix(0)
        rows = replace(self.rows, base=self.rows.base + stride * m0 + lo // self.groups.rows.span)
        numbers = self.groups.rows.span, of_columns(self.scales), of_columns(self.least)
        return tuple(made), GroupScales(self.groups.size, planes, of.zero, rows, *numbers)


def _from(b: Operand, chunk: Ix, k: Ix) -> Operand:
    """Panels from a column and a k on."""
    return replace(b, base=b.base + chunk // WIDTH * (b.stride or ix(0)) + k * WIDTH)


@dataclass(frozen=True)
class PanelTile:
    """What a task computes over flat axes, `chunk` columns at a time up to `end`.

    `in_parts`: the products of all its columns wait, until all of k is added up.
    """

    m: Axis
    n: Axis
    mapping: dict[Axis, Ix]  # of the region's axes
    tasks: Tasks
    chunk: Axis
    end: Ix
    streamed: bool
    in_parts: bool
    vectors: Vectors
    unit: int  # points of k that parts of it have whole
    statistics: dict[Expr, Expr]  # of rows, by where they are read


def unit_of_columns(b: Columns, vectors: Vectors) -> int:
    """Points of k that parts of it have whole."""
    return unit_of(factors_of(b, vectors)) if b.groups is None else b.groups.unit


def parts_of_depth(k: Axis, sizes: Schedule) -> int:
    """How many parts of k are multiplied one after the other."""
    return -(-(k.extent.bounds()[1] or sizes["depth"]) // sizes["depth"])


def in_tile(b: Columns, sizes: Schedule) -> bool:
    """Whether each task packs the columns."""
    return sizes.where("b") == "tile" and b.once is None and b.groups is None


def columns_of(i: int, b: Columns, tile: PanelTile, sizes: Schedule) -> Operand | MadeInTile:
    """B as a kernel before left it, or what a task makes it of."""
    if not in_tile(b, sizes):
        return b.operand
    each = each_part(b.k, sizes, tile.unit)
    return _made_of(b, (f"b_tile{i or ''}", f"w_tile{i or ''}"), each, tile, sizes)


def _made_of(
    b: Columns, names: tuple[str, str], each: int, tile: PanelTile, sizes: Schedule
) -> MadeInTile:
    """Columns that a task packs, as many as a chunk has and so much of k, in tiles of these names."""
    parts = factors_of(b, tile.vectors)
    wide = -(-sizes["chunk"] // WIDTH) * WIDTH
    along = parts is None and is_along(b.value, tile.n, b.k)
    dims = (each, wide) if along else (wide, each)
    panels = Buffer(names[0], Role.SCRATCH, (ix(wide), ix(each)), f32)
    x_tile = Buffer(names[1], Role.SCRATCH, tuple(map(ix, dims)), f32)
    return MadeInTile(b.value, b.k, panels, None if is_plain(b.value) else x_tile, parts)


def scales_of(i: int, b: Columns, tile: PanelTile, sizes: Schedule) -> PanelScales | None:
    """The scales of integers in groups: weights in panels, or what a task makes of several weights."""
    groups = b.groups
    if groups is None:
        return None
    of, parts = groups.columns, {p.source: p for p in b.in_groups}
    each = each_part(b.k, sizes, lcm(tile.unit, PAIRED_ROWS * b.side)) // of.span

    def scales(
        name: str, value: Expr, numbers: tuple[Numbers, ...]
    ) -> tuple[GroupNumbers, ...] | MadeInTile:
        if numbers:
            return tuple(GroupNumbers(parts[x.source].operand, x.span, x.factor) for x in numbers)
        made = replace(b, value=value, k=of.group)
        return _made_of(made, (f"{name}{i or ''}", f"{name}_rows{i or ''}"), each, tile, sizes)

    start = address(groups.rows.scale.source, groups.rows.scale.at).substitute(tile.mapping)
    stride = start.coefficient(tile.m)
    if stride is None:
        raise NotRealised("scales of rows that do not lie at equal distances")
    rows = Operand(
        groups.rows.scale.source, start.substitute({tile.m: ix(0), b.k: ix(0)}), stride, ix(1), None
    )
    planes = tuple(parts[p.source].operand for p in of.planes)
    least = () if of.least is None else scales("least", of.least, of.of_least)
    return PanelScales(groups, planes, scales("scales", of.scale, of.of_scale), least, rows)


def each_part(k: Axis, sizes: Schedule, unit: int) -> int:
    """How much of k a part has: equal shares at the greatest, of whole units."""
    each = -(-(k.extent.bounds()[1] or sizes["depth"]) // parts_of_depth(k, sizes))
    return -(-each // unit) * unit
