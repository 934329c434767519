"""deep_windows: rows of windows of bytes whose depth is turned to lie innermost, once for all windows that show it.

Before: rows of a product that are windows of an image in two dimensions, and a sum whose last axis is a dimension of
its own, as of channels.  After: a tile of the image that a task's windows show, with its edges, whose innermost
dimension is that one; and rows that are read from it, many neighbours of the depth at a time.

    tile[step y + dilation v, step x + dilation u, c]          row (y, x), depth (v, u, c)

An element is turned once and copied for each window, while windows that are packed as memory has them turn it each
time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lumigen.condition import Cmp
from lumigen.dtype import i32
from lumigen.index import Axis, Ix, Lookup, ix, minimum, product
from lumigen.lower.contract import WIDTH, Contraction, Products, flatten
from lumigen.lower.contractions import bytes_of
from lumigen.lower.operands import read_where
from lumigen.lower.scope import Scope, address
from lumigen.lower.sliding import Along
from lumigen.plan import NotRealised
from lumigen.region import (
    Buffer,
    Expr,
    Read,
    Reduce,
    Region,
    Role,
    map_expr,
    read,
    reduce,
)
from lumigen.tile import Operand, PackRuns


@dataclass(frozen=True)
class DeepWindows:
    """Rows over (y, x), of bytes of `image` where all conditions hold, else of `fill`."""

    image: Read
    where: tuple[Cmp, ...]
    fill: float
    rows: Along
    columns: Along
    inner: Axis  # the last axis of the sum, which a dimension of the image has to itself
    depth: tuple[Axis, ...]

    @staticmethod
    def of(found: Contraction) -> DeepWindows | None:
        """The rows of a product as such windows; None of others."""
        narrow = bytes_of(found.rows) if found.reduce.dtype is i32 else None
        axes = [a for a in found.reduce.axes if a.extent != 1]
        if narrow is None or len(found.m_axes) != 2 or len(axes) != 3:
            return None
        guarded = read_where(narrow)
        if guarded is None:
            return None
        image, where, fill = guarded
        inner, (y, x) = axes[-1], found.m_axes
        each = [Along.of(i, (p,), axes[:-1]) for p in (y, x) for i in image.at if p in i.axes]
        own = [i for i in image.at if inner in i.axes]
        if len(each) != 2 or own != [ix(inner)] or any(inner in c.axes for c in where):
            return None
        rows, columns = each
        if rows is None or columns is None or not rows.overlaps or not columns.overlaps:
            return None
        windows = DeepWindows(image, where, fill, rows, columns, inner, found.reduce.axes)
        return windows if windows._is_whole(found) else None

    def _is_whole(self, found: Contraction) -> bool:
        """Whether a tile has a size, nothing but windows moves along it, and it needs no integer that is read."""
        extents = self.columns.point.extent, self.inner.extent
        if not all(e.is_const for e in extents) or extents[1].const < WIDTH:  # squares are turned
            return False
        try:
            places = (self.base, self.steps[0], *(c.slack for c in self.shown(ix(0), ix(0))))
        except NotRealised:
            return False
        moving = {*found.m_axes, *found.reduce.axes}
        looked = any(isinstance(a, Lookup) for i in places for a in i.atoms())
        return not looked and not any(i.axes & moving for i in places) and self.steps[1].is_const

    @property
    def base(self) -> Ix:
        """The first element that the first window shows."""
        first = {a: ix(0) for a in (self.rows.point, self.columns.point, *self.depth)}
        return address(self.image.source, self.image.at).substitute(first)

    @property
    def steps(self) -> tuple[Ix, Ix, Ix]:
        """From an element of the image to the one below, the one beside it and the one behind it."""
        dims, at = self.image.source.dims, self.image.at
        moving = self.rows.point, self.columns.point, self.inner
        below, beside, behind = (
            product(dims[next(d for d, i in enumerate(at) if a in i.axes) + 1 :]) for a in moving
        )
        return below, beside, behind

    @property
    def width(self) -> int:
        """Columns of the image that a row of windows shows."""
        return self.columns.step * (self.columns.point.extent.const - 1) + self.columns.reach + 1

    def shown(self, row: Ix, column: Ix) -> tuple[Cmp, ...]:
        """The conditions on an element, counted from the first one of the first window."""
        along = (self.rows.moved(c, row) for c in self.where)
        return tuple(self.columns.moved(c, column) for c in along)

    def tile(self, name: str, most_rows: int) -> Buffer:
        """Room for what so many rows show, which may begin and end inside of a row of windows."""
        high = (most_rows - 2) // self.columns.point.extent.const + 2
        high = min(high, self.rows.point.extent.bounds()[1] or high)
        count = self.rows.step * (high - 1) + self.rows.reach + 1
        size = count * self.width * self.inner.extent.const
        return Buffer(name, Role.SCRATCH, (ix(size),), self.image.source.dtype)

    def turned(self, dst: Buffer, scope: Scope, m0: Ix, m1: Ix) -> tuple[PackRuns, Ix]:
        """What fills a tile for rows from m0 to m1, and the first row of windows of these."""
        across = self.columns.point.extent
        first, v = Axis("y0", self.rows.point.extent), Axis("v", self.rows.point.extent)
        scope.bind(first, m0 // across)
        u, c = Axis("u", ix(self.width)), Axis("turned", self.inner.extent)
        row = self.rows.step * ix(first) + v
        below, beside, behind = self.steps
        where = self.shown(row, ix(u))
        reach = self.rows.reach + 1
        count = self.rows.step * ((m1 - 1) // across - first) + reach
        count = minimum(count, (m1 - m0) * reach)  # a task without rows reads nothing
        packed = PackRuns(
            dst,
            ix(c),
            self.image.source,
            self.base + row * below + c * behind,
            beside.const,
            where,
            v,
            u,
            ix(0),
            count * self.width,
            self.fill,
            rows=(c, ix(0), c.extent),
            apart=c.extent.const,
        )
        return packed, ix(first)

    def operand(self, tile: Buffer, first: Ix, m: Axis) -> tuple[Operand, int]:
        """The rows as they are read from a tile, and how many of their depth lie side by side in it."""
        across = self.columns.point.extent
        y, x = ix(m) // across, ix(m) % across
        row = self.rows.step * (y - first) + self.rows.dilation * ix(self.rows.inside)
        column = self.columns.step * x + self.columns.dilation * ix(self.columns.inside)
        at = (row * self.width + column) * self.inner.extent + self.inner
        run = 1
        for a in reversed([a for a in self.depth if a.extent != 1]):
            if at.coefficient(a) != run:
                break
            run *= a.extent.const
        flat = at.substitute(flatten(self.depth, "k")[1])
        return Operand(None, ix(0), None, None, read(tile, (flat,))), run


def depth_turned(found: Products, region: Region) -> tuple[Products, Region] | None:
    """The product with that axis of its sum last which its windows do not move along; None of others."""
    one, *others = found.each
    if others:
        return None
    for last in one.reduce.axes:
        axes = (*(a for a in one.reduce.axes if a != last), last)
        moved = reduce(one.reduce.monoid, axes, one.reduce.body, one.reduce.dtype, one.reduce.where)
        assert isinstance(moved, Reduce), "the same terms"
        turned = replace(one, reduce=moved)
        if DeepWindows.of(turned) is None:
            continue
        to: dict[Expr, Expr] = {one.reduce: moved}
        stores = tuple(replace(s, value=map_expr(s.value, to)) for s in region.stores)
        return replace(found, each=(turned,)), replace(region, stores=stores)
    return None
