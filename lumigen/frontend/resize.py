"""Resizing of images and signals: sums of few elements at positions that are views of the input."""

# ruff: noqa: FBT002  # signatures are PyTorch's

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from lumigen.dtype import accumulator
from lumigen.errors import BadArgument, DtypeMismatch, ShapeMismatch
from lumigen.frontend import movement
from lumigen.frontend.creation import arange
from lumigen.frontend.extents import check_count, check_extent
from lumigen.frontend.operand import choice, ones_like, where
from lumigen.frontend.pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from lumigen.frontend.primitive import Extent
from lumigen.frontend.tensor import Tensor
from lumigen.frontend.trace import fail
from lumigen.index import Ix, Symbolic, ix, maximum, minimum

LINEAR = {"linear": 1, "bilinear": 2, "trilinear": 3}
RANKS = {**LINEAR, "bicubic": 2}
MODES = ("nearest", "nearest-exact", "area", "linear", "bilinear", "bicubic", "trilinear")
CUBIC = -0.75  # the slope at 1, as PyTorch and OpenCV have it
SMOOTH = {
    "bilinear": (1, 0.0),
    "bicubic": (2, -0.5),
}  # elements to each side, slope at 1: as Pillow has them
FINEST = 2**20  # scales are fractions with denominators up to it


@dataclass(frozen=True)
class _Line:
    """Where element i of the result lies in the input: (slope i + offset) / unit, exactly."""

    slope: Ix
    offset: Ix
    unit: Ix

    @staticmethod
    def of(n: Ix, m: Ix, *, of_centres: bool, shift: int) -> _Line:
        """i n / m, or (2 i + 1) n / 2 m less a half of `shift` elements for the centres of elements."""
        if n.is_const and m.is_const:
            scale = Fraction(n.const, m.const)
            n, m = ix(scale.numerator), ix(scale.denominator)
        return _Line(2 * n, n - m * shift, 2 * m) if of_centres else _Line(n, ix(0), m)

    def scaled(self, count: Ix) -> Tensor:
        """The positions times `unit`, as i64."""
        return arange(count) * self.slope + self.offset

    def rest(self, count: Ix) -> Tensor:
        """The fractions between floor and position, as f32."""
        return (self.scaled(count) % self.unit).float() / self.unit


def _read(x: Tensor, d: int, count: Ix, line: _Line, step: int, *, behind: int = 0) -> Tensor:
    """Element `floor(position) + step` of a dimension, or of `behind` after it; the nearest one where there is none."""
    last = x.extents[d] - 1
    if not (line.slope.is_const and line.unit.is_const):  # no view: a dim would be a factor in it
        at = ((line.scaled(count) // line.unit + step).clamp(min=0) + behind).clamp(max=last)
        return x.index_select(d, at)

    def position(i: Ix) -> Ix:
        floor = (i * line.slope.const + line.offset) // line.unit.const
        return minimum(maximum(floor + step, 0) + behind, last)

    return Tensor(movement.at_positions(x.edge, d, count, position))


def _along(x: Tensor, d: int, values: Tensor) -> Tensor:
    """A vector along a dimension, in the dtype of the tensor."""
    return values.type_as(x).reshape(-1, *(1,) * (x.ndim - 1 - d))


def _cubic(x: Tensor, d: int, count: Ix, line: _Line) -> Tensor:
    """The cubic convolution of four neighbours."""
    t = line.rest(count)

    def near(u: Tensor) -> Tensor:
        return ((CUBIC + 2) * u - (CUBIC + 3)) * u * u + 1

    def far(u: Tensor) -> Tensor:
        return ((CUBIC * u - 5 * CUBIC) * u + 8 * CUBIC) * u - 4 * CUBIC

    weights = (far(t + 1), near(t), near(1 - t), far(2 - t))
    out: Tensor | None = None
    for step, w in enumerate(weights, -1):
        part = _read(x, d, count, line, step) * _along(x, d, w)
        out = part if out is None else out + part
    assert out is not None
    return out


def _linear(x: Tensor, d: int, count: Ix, line: _Line) -> Tensor:
    """The mean of two neighbours, weighted by how near they are."""
    t = where(line.scaled(count) < 0, 0.0, line.rest(count))  # before the first element: that alone
    low = _read(x, d, count, line, 0)
    high = _read(x, d, count, line, 0, behind=1)
    weight = _along(x, d, t)
    return low * (1 - weight) + high * weight


def _smooth(x: Tensor, d: int, count: Ix, scale: Fraction, mode: str) -> Tensor:
    """Means of all elements that an element of the result covers: the filter is as wide as the input is finer.

    Element i has its centre at scale (i + 1/2), and reaches `side` elements of the coarser of both from there.
    """
    side, slope = SMOOTH[mode]
    n, m = scale.numerator, scale.denominator
    width = max(scale, Fraction(1))
    first = _Line(ix(2 * n), ix(n + m - 2 * side * max(n, m)), ix(2 * m))
    before = (1 - first.rest(count)) / float(
        width
    ) - side  # the way from the centre to the first element's
    inside = first.scaled(count) // first.unit
    parts: list[tuple[Tensor, Tensor]] = []
    for step in range(math.ceil(2 * side * width)):
        at = (before + step / float(width)).abs()
        weight = _cubic_at(at, slope) if side > 1 else (1 - at).clamp(min=0)
        place = inside + step
        is_there = (place >= 0) & (place < x.extents[d])
        parts.append((where(is_there, weight, 0.0), _read(x, d, count, first, step)))
    total = functools.reduce(operator.add, (w for w, _ in parts))
    taken = (read * _along(x, d, w / total) for w, read in parts)
    return functools.reduce(operator.add, taken)


def _cubic_at(u: Tensor, slope: float) -> Tensor:
    """The cubic convolution of Keys at distances of 0 and more."""
    near = ((slope + 2) * u - (slope + 3)) * u * u + 1
    far = ((slope * u - 5 * slope) * u + 8 * slope) * u - 4 * slope
    return where(u < 1, near, where(u < 2, far, 0.0))


def interpolate(
    input: Tensor,
    size: Extent | Sequence[Extent] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """(batch, channel, *extents) -> (batch, channel, *sizes) by neighbours in the input.

    `nearest`, `nearest-exact` (whose positions are centres), `area` (means), `linear`, `bilinear`, `trilinear`,
    `bicubic`. With `align_corners` the first and last elements are kept, else the borders. `antialias` takes `bilinear`
    and `bicubic`, and sizes whose ratios are known.
    """
    op = "interpolate"
    choice(op, "mode", mode, *MODES)
    rank = input.ndim - 2
    if rank < 1 or RANKS.get(mode, rank) != rank:
        expected = f"one of an input of {input.ndim} axes; (batch, channel, ..) is what it takes"
        raise fail(BadArgument, op=op, name="mode", value=repr(mode), expected=expected)
    if antialias and mode not in SMOOTH:
        expected = f"False: only {' and '.join(SMOOTH)} have it"
        raise fail(BadArgument, op=op, name="antialias", value=True, expected=expected)
    if align_corners and mode not in RANKS:
        expected = "None: only linear and cubic modes have corners to align"
        raise fail(BadArgument, op=op, name="align_corners", value=True, expected=expected)
    extents = input.extents[2:]
    sizes, scales = _sizes(op, extents, size, scale_factor)
    if recompute_scale_factor:
        scales = None
    if mode == "area":
        pool = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[rank - 1]
        return pool(input, sizes)
    if mode in RANKS and not input.dtype.is_float:
        raise fail(
            DtypeMismatch,
            op=op,
            name="the input",
            got=input.dtype,
            expected="a float type, as means are taken",
            remedy="Cast it with .to(lg.f32), and back after .round() and .clamp().",
        )
    x = input
    for k, count in enumerate(sizes):
        d = 2 + k
        n, m = extents[k], count
        if scales is not None and not (
            _is_exact(mode, rank, n, m, scales[k]) or (antialias and n == m)
        ):
            if not align_corners:
                n, m = ix(scales[k].denominator), ix(scales[k].numerator)
        elif n == m:
            continue
        elif m == 2 * n and not align_corners:
            n, m = ix(1), ix(2)  # the ratio, which is known where the sizes are not
        if align_corners:
            n, m = (ix(0), m) if m == ix(1) else (n - 1, maximum(m - 1, 1))
        if antialias:
            x = _smooth(x, d, count, _ratio(op, n, m), mode)
        else:
            x = _resized(x, d, count, n, m, mode, of_corners=bool(align_corners))
    return x


def _resized(x: Tensor, d: int, count: Ix, n: Ix, m: Ix, mode: str, *, of_corners: bool) -> Tensor:
    """One dimension by its neighbours, where n elements of the input are m of the result."""
    is_cubic_or_linear = mode in RANKS
    of_centres = (is_cubic_or_linear and not of_corners) or mode == "nearest-exact"
    line = _Line.of(n, m, of_centres=of_centres, shift=int(is_cubic_or_linear))
    if is_cubic_or_linear:
        return (_cubic if mode == "bicubic" else _linear)(x, d, count, line)
    return _read(x, d, count, line, 0)


def _ratio(op: str, n: Ix, m: Ix) -> Fraction:
    """n / m; BadArgument where it depends on a dim, as it decides how many elements are read."""
    if n.is_const and m.is_const:
        return Fraction(n.const, m.const)
    expected = f"False, as it is not known how much finer {n} elements are than {m}"
    raise fail(BadArgument, op=op, name="antialias", value=True, expected=expected)


def _is_exact(mode: str, rank: int, n: Ix, m: Ix, scale: Fraction) -> bool:
    """Whether the extents say where elements lie, whatever the scale: PyTorch copies an axis that keeps its size.

    It does so in linear modes, and of images by `nearest`, which also doubles exactly.
    """
    if n == m:
        return scale == 1 or mode in LINEAR or (mode, rank) == ("nearest", 2)
    return (mode, rank) == ("nearest", 2) and m == 2 * n


def _sizes(
    op: str,
    extents: Sequence[Ix],
    size: Extent | Sequence[Extent] | None,
    scale_factor: float | Sequence[float] | None,
) -> tuple[list[Ix], list[Fraction] | None]:
    """The extents of the result, and the scales if they were given."""
    if (size is None) == (scale_factor is None):
        value = "given with scale_factor" if size is not None else "given by neither"
        expected = "size or scale_factor"
        raise fail(BadArgument, op=op, name="the size", value=value, expected=expected)
    if size is not None:
        given = list(size) if isinstance(size, Sequence) else [size] * len(extents)
        for s in given:
            if not isinstance(s, Symbolic | Ix):
                check_count(op, "size", s)
        _check_length(op, "size", given, extents)
        return [ix(s) for s in given], None
    assert scale_factor is not None
    one = isinstance(scale_factor, int | float)
    factors = [scale_factor] * len(extents) if one else list(scale_factor)  # type: ignore[arg-type]
    _check_length(op, "scale_factor", factors, extents)
    fractions = [Fraction(f).limit_denominator(FINEST) for f in factors]
    sizes = [
        ix(math.floor(e.const * f)) if e.is_const else e * exact.numerator // exact.denominator
        for e, f, exact in zip(extents, factors, fractions, strict=True)
    ]
    for s, e, f in zip(sizes, extents, factors, strict=True):
        check_extent(op, f"scale_factor {f} of {e} elements leaves {s}", s, least=1)
    return sizes, fractions


def _check_length(op: str, name: str, given: Sequence[object], extents: Sequence[Ix]) -> None:
    if len(given) != len(extents):
        expected = f"one number or {len(extents)} of them"
        raise fail(BadArgument, op=op, name=name, value=tuple(given), expected=expected)


def upsample(
    input: Tensor,
    size: Extent | Sequence[Extent] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """`interpolate`."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(
    input: Tensor,
    size: Extent | Sequence[Extent] | None = None,
    scale_factor: float | Sequence[float] | None = None,
) -> Tensor:
    """`interpolate` by the nearest element."""
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(
    input: Tensor,
    size: Extent | Sequence[Extent] | None = None,
    scale_factor: float | Sequence[float] | None = None,
) -> Tensor:
    """`interpolate` by `bilinear` with aligned corners."""
    return interpolate(input, size, scale_factor, "bilinear", align_corners=True)


# --- at positions that are data -------------------------------------------------------------------


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """(batch, channel, *extents), (batch, *sizes, axes) -> (batch, channel, *sizes): read at positions from -1 to 1.

    The last axis of the grid names (x, y[, z]), the last extent first. Outside, elements are zeros, those of the
    `border`, or mirrored at it (`reflection`).
    """
    op = "grid_sample"
    choice(op, "mode", mode, "bilinear", "nearest", "bicubic")
    choice(op, "padding_mode", padding_mode, "zeros", "border", "reflection")
    rank = input.ndim - 2
    if rank < 1 or grid.ndim != input.ndim or grid.extents[-1] != rank:
        raise _unfit(op, input, grid, "an input of k extents wants a grid (batch, *sizes, k)")
    if grid.extents[0] is not input.extents[0]:
        raise _unfit(op, input, grid, "both have the same batch")
    extents = input.extents[2:]
    points: list[Tensor] = []
    for k, n in enumerate(extents):
        check_extent(op, f"axis {k + 2} of the input has extent {n}", n, least=1)
        at = grid[..., rank - 1 - k]
        at = (at + 1) / 2 * (n - 1) if align_corners else ((at + 1) * n - 1) / 2
        points.append(at if mode == "bicubic" else _held(at, n, padding_mode, bool(align_corners)))
    taps = [
        _taps(at, n, mode, padding_mode, bool(align_corners))
        for at, n in zip(points, extents, strict=True)
    ]
    return _summed(input, taps, extents)


def _unfit(op: str, input: Tensor, grid: Tensor, rule: str) -> Exception:
    return fail(
        ShapeMismatch,
        op=op,
        lhs=input.extents,
        rhs=grid.extents,
        rule=rule,
        remedy="Pass the grid that affine_grid makes, or one like it.",
    )


def _held(at: Tensor, n: Ix, padding: str, corners: bool) -> Tensor:
    """A position held inside, by the border or by mirrors."""
    if padding == "zeros":
        return at
    if padding == "reflection":
        low, span = (0.0, n - 1) if corners else (-0.5, n)
        way = (at - low).abs() % maximum(2 * span, 1)  # a span of 0 has one position, which is held
        at = where(way > span, 2 * span - way, way) + low
    return where(at > 0, at, 0.0).clamp(max=n - 1)  # the first one for NaN, as PyTorch's


def _taps(at: Tensor, n: Ix, mode: str, padding: str, corners: bool) -> list[tuple[Tensor, Tensor]]:
    """(position, weight) of each element that counts along a dimension."""
    if mode == "nearest":
        return [_tap(at.round(), None, n)]
    low = at.floor()
    t = at - low
    if mode == "bilinear":
        return [_tap(low, 1 - t, n), _tap(low + 1, t, n)]

    def near(u: Tensor) -> Tensor:
        return ((CUBIC + 2) * u - (CUBIC + 3)) * u * u + 1

    def far(u: Tensor) -> Tensor:
        return ((CUBIC * u - 5 * CUBIC) * u + 8 * CUBIC) * u - 4 * CUBIC

    weights = (far(t + 1), near(t), near(1 - t), far(2 - t))
    return [_tap(_held(low + k, n, padding, corners), w, n) for k, w in enumerate(weights, -1)]


def _tap(at: Tensor, weight: Tensor | None, n: Ix) -> tuple[Tensor, Tensor]:
    """An element's position as an integer inside, and its weight, which is 0 outside, but NaN where there is none."""
    inside = (at >= 0) & (at <= n - 1)
    weight = inside.to(at.dtype) if weight is None else where(inside, weight, weight * 0.0)
    return at.clamp(0.0, n - 1).nan_to_num().long(), weight


def _summed(
    input: Tensor, taps: Sequence[Sequence[tuple[Tensor, Tensor]]], extents: Sequence[Ix]
) -> Tensor:
    """The weighted sum over all combinations of taps."""
    batch, channels = input.extents[:2]
    flat = input.flatten(2)
    found: list[tuple[Tensor | None, Tensor | None]] = [(None, None)]
    for along, extent in zip(taps, extents, strict=True):
        found = [
            (
                at if index is None else index * extent + at,
                w if weight is None else weight * w,
            )
            for index, weight in found
            for at, w in along
        ]
    out: Tensor | None = None
    for index, weight in found:
        assert index is not None
        assert weight is not None
        sizes = index.extents[1:]
        at = index.reshape(batch, 1, -1).expand(batch, channels, -1)
        read = flat.gather(2, at).reshape(batch, channels, *sizes)
        w = weight.unsqueeze(1)
        part = where(w == 0, 0.0, read * w)
        out = part if out is None else out + part
    assert out is not None
    return out


def affine_grid(theta: Tensor, size: Sequence[Extent], align_corners: bool | None = None) -> Tensor:
    """(batch, axes, axes + 1) -> (batch, *sizes, axes): the positions that an affine map gives, for `grid_sample`.

    `size` is (batch, channel, *sizes), that of the tensor which is to be made.
    """
    batch, extents = ix(size[0]), tuple(map(ix, size[2:]))
    rank = len(extents)
    if not rank or theta.extents != (batch, ix(rank), ix(rank + 1)):
        raise fail(
            ShapeMismatch,
            op="affine_grid",
            lhs=theta.extents,
            rhs=tuple(map(ix, size)),
            rule="a size (batch, channel, *sizes) of k sizes wants maps (batch, k, k + 1)",
            remedy="Pass a map for each element of the batch, and the size with batch and channel.",
        )
    lines: list[Tensor] = []
    for k, n in enumerate(extents):
        i = arange(n).to(accumulator(theta.dtype))
        line = (i * 2 - (n - 1)) / (maximum(n - 1, 1) if align_corners else n)
        lines.append(line.reshape(*(1,) * k, -1, *(1,) * (rank - 1 - k)).expand(extents))
    lines = [*reversed(lines), ones_like(lines[0])]
    base = Tensor(movement.stack([x.edge for x in lines], -1)).to(theta.dtype)
    flat = base.reshape(-1, rank + 1)
    return (flat @ theta.mT).reshape(batch, *extents, rank)
