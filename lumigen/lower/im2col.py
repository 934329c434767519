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
from lumigen.lower.gathered import guarded
from lumigen.lower.scope import address
from lumigen.region import Buffer, Expr, Read, substitute
from lumigen.tile import TensorMap, Window

CORNERS = (-128, 127)  # where windows may begin, from the corners of an image
FARTHEST = 255  # from the first tap of a window to another one
STEPS = 8  # between windows
VECTOR = 8  # elements of 16 bits in 16 bytes
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


def find_windows(found: Contraction, least: int) -> tuple[Pixels | Tapped, Pixels | Tapped] | None:
    """(rows, columns) of a product, one of them read through windows of so many channels; None of another one."""
    depth = tuple(a for a in found.reduce.axes if a.extent != 1)
    sides = ((found.rows, found.m_axes), (found.columns, found.n_axes))
    for (windows, majors), (other, lines) in (sides, sides[::-1]):
        pixels = _pixels(windows, majors, depth, found.grid)
        if pixels is None or not is_nonnegative(pixels.channels.extent - least):
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
    if found is None or len(found[0].at) < 2:
        return None
    element, slacks = found[0], set(found[1])
    if not element.source.dtype.is_float or element.source.dtype.bits != 16:
        return None
    source, (*_, channel) = element.source, element.at
    channels = next((a for a in depth if channel.coefficient(a) == 1), None)
    if channels is None or not (channel - channels).is_const:
        return None
    each = [_Dimension(source, d, i) for d, i in enumerate(element.at[:-1]) if source.dims[d] != 1]
    inside, moved = len(each), {*majors, *depth}
    while inside > max(0, len(each) - 2) and each[inside - 1].at.axes <= moved:
        inside -= 1
    spans = [_Span.of(d, majors, depth, slacks) for d in each[inside:]]
    while len(spans) < 2:
        spans.insert(0, _Span(STILL, ix(1), source.dims[-1] * source.dims[-2], ONE, None))
    down, across = spans
    if down is None or across is None or slacks:
        return None
    images = each[:inside]
    own = [a for d in images for a in d.at.axes]
    before = [a for s in spans if s and s.major for a in (s.major,)]
    taps = {s.taps for s in (down, across)} - {ONE}
    if any(d.at != ix(a) or d.extent != a.extent for d, a in zip(images, own, strict=False)):
        return None
    if len(own) != len(images) or {*taps, channels} != set(depth):
        return None
    if [*own, *before] != [*grid, *majors] or (grid and own != grid):
        return None
    base, number = channel - channels, product(tuple(d.extent for d in images))
    strides = (images[-1].stride if images else source.dims[-1], down.stride, across.stride)
    if any(i % VECTOR != 0 for i in (base, *strides)):
        return None
    extents, windows = (down.extent, across.extent), (down.window, across.window)
    axes = down.taps, across.taps
    return Pixels(source, number, channels, base, extents, strides, windows, axes)


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


STILL = Window(ix(1), 0, 0, 1, ix(1), 1)


@dataclass(frozen=True)
class _Span:
    """A dimension that windows move along."""

    window: Window
    extent: Ix
    stride: Ix
    taps: Axis
    major: Axis | None

    @staticmethod
    def of(
        d: _Dimension, majors: Sequence[Axis], depth: Sequence[Axis], slacks: set[Ix]
    ) -> _Span | None:
        """None where windows do not move in whole steps; takes the conditions of an image's edges from `slacks`."""
        major, *more = [a for a in majors if a in d.at.axes] or [None]
        taps, *others = [a for a in depth if a in d.at.axes] or [ONE]
        step, apart = (ix(1) if a is None else d.at.coefficient(a) for a in (major, taps))
        if more or others or step is None or apart is None:
            return None
        first = d.at - (step * major if major else 0) - (apart * taps if taps is not ONE else 0)
        points = major.extent if major else ix(1)
        if not (first.is_const and step.is_const and (taps is ONE or apart.is_const)):
            return None
        last = _last(first.const, points, step.const, d.extent)
        far = ix(0) if taps is ONE else (taps.extent - 1) * apart
        corners = () if last is None else (first.const, last)
        least, most = CORNERS
        if not corners or not all(least <= i <= most for i in corners) or not 0 < step.const <= STEPS:
            return None
        if not is_nonnegative(far) or not is_nonnegative(FARTHEST - far):
            return None
        slacks -= {d.at, d.extent - 1 - d.at}
        between = 1 if taps is ONE else apart.const
        window = Window(points, first.const, last, step.const, taps.extent, between)
        return _Span(window, d.extent, d.stride, taps, major)


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
    if base.axes or any(i % VECTOR != 0 for i in (base, down, across, line)):
        return None
    if not all(map(is_nonnegative, (down, across, line - 1))):
        return None
    moves = (down, across, line)
    return Tapped(value.source, n.extent, pixels.channels, base, moves, pixels.taps)
