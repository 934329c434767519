"""im2col: products of images that are read through windows, whose pixels a tensor copy engine finds.

Such an operand lies (images, rows, columns, channels), channels side by side, and is zero outside an image. Its majors
are windows, image after image, row after row; its depth is the taps of a window and their channels. The other
operand is contiguous along the channels, at a stride for each axis of the taps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lumigen.index import Axis, Ix, Quotient, is_nonnegative, ix, of_atom, product
from lumigen.lower.contract import Contraction, flatten
from lumigen.lower.gathered import VECTOR, guarded
from lumigen.lower.scope import address
from lumigen.machine import Copies, WindowCopies
from lumigen.region import Buffer, Expr, Read, substitute
from lumigen.tile import TensorMap, Window

ONE = Axis("one", ix(1))


@dataclass(frozen=True)
class Pixels:
    """The operand that is read through windows, of rows and of columns; an axis of taps that it has not is `ONE`."""

    source: Buffer
    images: Ix
    channels: Axis
    base: Ix
    extents: tuple[Ix, Ix]
    strides: tuple[Ix, Ix, Ix]  # of images, rows, columns
    windows: tuple[Window, Window]
    taps: tuple[Axis, Axis]
    is_deep = True

    def are_walked(self, limits: WindowCopies) -> bool:
        """Whether the engine walks its windows."""
        far = [(w.taps - 1) * w.apart for w in self.windows]
        return (
            all(-limits.first <= i <= limits.last for w in self.windows for i in (w.first, w.last))
            and all(is_nonnegative(i) and is_nonnegative(limits.apart - i) for i in far)
            and all(0 < w.step <= limits.step for w in self.windows)
            and is_nonnegative(self.channels.extent - limits.channels)
        )

    def source_elements(self) -> int:
        """How many there are to read at the dims' typical values."""
        return product((self.images, *self.extents, self.channels.extent)).estimate()

    def map(self, name: str, lines: int, _box: int) -> TensorMap:
        """Its map, of which a copy moves the channels of so many windows' taps."""
        return TensorMap(
            name=name,
            source=self.source,
            base=self.base,
            groups=self.images,
            batches=self.extents[0],
            lines=self.extents[1],
            elements=self.channels.extent,
            group_stride=self.strides[0],
            batch_stride=self.strides[1],
            line_stride=self.strides[2],
            share=ix(1),
            box_lines=lines,
            windows=self.windows,
        )


@dataclass(frozen=True)
class Tapped:
    """The other operand: a line of channels for each major and tap."""

    source: Buffer
    majors: Ix
    channels: Axis
    base: Ix
    strides: tuple[Ix, Ix, Ix]  # of rows and columns of taps, and of majors
    taps: tuple[Axis, Axis]
    is_deep = True

    def source_elements(self) -> int:
        """How many there are to read at the dims' typical values."""
        extents = (self.majors, self.channels.extent, *(a.extent for a in self.taps))
        return product(extents).estimate()

    def map(self, name: str, lines: int, _box: int) -> TensorMap:
        """Its map, of which a copy moves the channels of one tap of so many majors."""
        down, across = self.taps
        return TensorMap(
            name=name,
            source=self.source,
            base=self.base,
            groups=down.extent,
            batches=across.extent,
            lines=self.majors,
            elements=self.channels.extent,
            group_stride=self.strides[0],
            batch_stride=self.strides[1],
            line_stride=self.strides[2],
            share=ix(1),
            box_lines=lines,
        )


def find_windows(
    found: Contraction, copies: Copies
) -> tuple[Pixels | Tapped, Pixels | Tapped] | None:
    """(rows, columns) of a product, one of them read through windows that the engine walks; None of another one."""
    depth = tuple(a for a in found.reduce.axes if a.extent != 1)
    sides = ((found.rows, found.m_axes), (found.columns, found.n_axes))
    for (windows, majors), (other, lines) in (sides, sides[::-1]):
        pixels = _pixels(windows, majors, depth, found.grid)
        if pixels is None or not pixels.are_walked(copies.windows):
            continue
        tapped = _tapped(other, lines, pixels)
        if tapped is not None and tapped.source.dtype is pixels.source.dtype:
            return (pixels, tapped) if windows is found.rows else (tapped, pixels)
    return None


def _pixels(
    value: Expr, majors: Sequence[Axis], depth: Sequence[Axis], grid: Sequence[Axis]
) -> Pixels | None:
    """An operand that is read through windows; its images are the first majors, or all of the grid."""
    value = substitute(value, {a: ix(0) for a in (*majors, *grid) if a.extent == 1})
    majors, grid = ([a for a in axes if a.extent != 1] for axes in (majors, grid))
    found = guarded(value)
    if found is None or not _has_channels(found[0]):
        return None
    (source, at), slacks = (found[0].source, found[0].at), set(found[1])
    channels = next((a for a in depth if at[-1].coefficient(a) == 1), None)
    if channels is None or not (at[-1] - channels).is_const:
        return None
    each = [_Dimension(source, d, i) for d, i in enumerate(at[:-1]) if source.dims[d] != 1]
    inside = len(each) - sum(d.at.axes <= {*majors, *depth} for d in each[-2:])
    spans = [_Span.of(d, majors, depth, slacks) for d in each[inside:]]
    moved = [s for s in spans if s is not None]
    if len(moved) < len(spans) or slacks:
        return None
    down, across = [_still(source)] * (2 - len(moved)) + moved
    images, own = each[:inside], [a for d in each[:inside] for a in d.at.axes]
    if [d.at for d in images] != [ix(a) for a in own]:
        return None
    if any(d.extent != a.extent for d, a in zip(images, own, strict=True)):
        return None
    given = [s.major for s in moved if s.major is not None]
    if [*own, *given] != [*grid, *majors] or (grid and own != grid):
        return None
    if {*(s.taps for s in moved), channels} - {ONE} != set(depth):
        return None
    base, number = at[-1] - channels, product(tuple(d.extent for d in images))
    strides = (images[-1].stride if images else source.dims[-1], down.stride, across.stride)
    sizes = (number, down.extent, across.extent, channels.extent, down.points, across.points)
    if any(i * source.dtype.itemsize % VECTOR != 0 for i in (base, *strides)):
        return None
    if not all(map(_is_some, sizes)):
        return None
    extents, windows = (down.extent, across.extent), (down.window, across.window)
    return Pixels(
        source, number, channels, base, extents, strides, windows, (down.taps, across.taps)
    )


def _has_channels(e: Read) -> bool:
    """Whether it is of 16 bits, and has a dimension beside that of its channels."""
    return len(e.at) > 1 and e.source.dtype.is_float and e.source.dtype.bits == 16


def _is_some(extent: Ix) -> bool:
    return is_nonnegative(extent - 1)


@dataclass(frozen=True)
class _Dimension:
    """One of a buffer, and the place in it."""

    source: Buffer
    number: int
    at: Ix

    @property
    def extent(self) -> Ix:
        return self.source.dims[self.number]

    @property
    def stride(self) -> Ix:
        return product(self.source.dims[self.number + 1 :])


@dataclass(frozen=True)
class _Span:
    """A dimension that windows move along."""

    window: Window
    extent: Ix
    stride: Ix
    taps: Axis
    major: Axis | None

    @property
    def points(self) -> Ix:
        return self.window.points

    @staticmethod
    def of(
        d: _Dimension, majors: Sequence[Axis], depth: Sequence[Axis], slacks: set[Ix]
    ) -> _Span | None:
        """None where windows do not move in whole steps; takes the conditions of an image's edges from `slacks`."""
        major, *more = [a for a in majors if a in d.at.axes] or [ONE]
        taps, *others = [a for a in depth if a in d.at.axes] or [ONE]
        step, apart = (d.at.coefficient(a) if a is not ONE else ix(1) for a in (major, taps))
        if more or others or step is None or apart is None:
            return None
        first = d.at.substitute({major: ix(0), taps: ix(0)})
        if not (first.is_const and step.is_const and apart.is_const):
            return None
        last = _last(first.const, major.extent, step.const, d.extent)
        if last is None:
            return None
        slacks -= {d.at, d.extent - 1 - d.at}
        window = Window(major.extent, first.const, last, step.const, taps.extent, apart.const)
        return _Span(window, d.extent, d.stride, taps, None if major is ONE else major)


def _still(source: Buffer) -> _Span:
    """A dimension that an image does not have."""
    return _Span(Window(ix(1), 0, 0, 1, ix(1), 1), ix(1), source.dims[-1], ONE, None)


def _last(first: int, points: Ix, step: int, extent: Ix) -> int | None:
    """How far behind the last element of a dimension the last window may begin, so that there are so many."""
    found = first + (points - 1) * step - (extent - 1)
    if found.is_const:
        return found.const
    for q in points.atoms():
        if not isinstance(q, Quotient) or q.denominator != step:
            continue
        more, rest = points - of_atom(q), q.numerator - extent
        if more.is_const and rest.is_const:
            return first + (more.const - 1) * step + rest.const + 1
    return None


def _tapped(value: Expr, majors: tuple[Axis, ...], pixels: Pixels) -> Tapped | None:
    """The other operand, if it is in memory in lines of the same channels."""
    if not isinstance(value, Read) or value.source.dtype is not pixels.source.dtype:
        return None
    n, mapping = flatten(majors, "n")
    at = address(value.source, value.at).substitute(mapping)
    axes = (*pixels.taps, n, pixels.channels)
    strides = [at.coefficient(a) for a in axes]
    if any(s is None or s.axes for s in strides) or strides[-1] != 1:
        return None
    down, across, line, _ = (s for s in strides if s is not None)
    base = at - down * axes[0] - across * axes[1] - line * n - pixels.channels
    moves, bytes_ = (down, across, line), value.source.dtype.itemsize
    if base.axes or any(i * bytes_ % VECTOR != 0 for i in (base, *moves)):
        return None
    if not all(map(is_nonnegative, (down, across, line - 1, n.extent - 1))):
        return None
    return Tapped(value.source, n.extent, pixels.channels, base, moves, pixels.taps)
