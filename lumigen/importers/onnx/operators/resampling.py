"""resampling: images read at other places: Resize, GridSample and regions."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from lumigen.dtype import f64
from lumigen.errors import DimSpecialised
from lumigen.frontend import Tensor, functional, functions
from lumigen.importers.onnx.node import OnnxNode, Operator
from lumigen.importers.onnx.values import Array, Known, ints

MOST_DENOMINATOR = 64  # of the scale of a symbolic size
MOST_PLACES = 2**20  # of one axis

# Where output element x of an axis reads, by coordinate_transformation_mode: from sizes, the scale and the region.
Region = tuple[float, float]
Coordinate = Callable[[Array, float, int, int, Region], Array]


def _half_pixel(x: Array, scale: float, old: int, new: int, roi: Region) -> Array:
    return (x + 0.5) / scale - 0.5


def _asymmetric(x: Array, scale: float, old: int, new: int, roi: Region) -> Array:
    return x / scale


def _half_pixel_for_nn(x: Array, scale: float, old: int, new: int, roi: Region) -> Array:
    return (x + 0.5) / scale


def _pytorch(x: Array, scale: float, old: int, new: int, roi: Region) -> Array:
    return _half_pixel(x, scale, old, new, roi) if new > 1 else np.zeros_like(x)


def _align_corners(x: Array, scale: float, old: int, new: int, roi: Region) -> Array:
    return x * (old - 1) / (scale * old - 1) if scale * old != 1 else np.zeros_like(x)


def _symmetric(x: Array, scale: float, old: int, new: int, roi: Region) -> Array:
    """Half pixels, moved so that both centres meet where the output size was rounded."""
    moved = old / 2 * (1 - new / (scale * old))
    return moved + (x + 0.5) / scale - 0.5


def _cropped(x: Array, scale: float, old: int, new: int, roi: Region) -> Array:
    start, end = roi
    if new > 1:
        return start * (old - 1) + x * (end - start) * (old - 1) / (scale * old - 1)
    return np.full_like(x, 0.5 * (start + end) * (old - 1))


COORDINATES: dict[str, Coordinate] = {
    "half_pixel": _half_pixel,
    "pytorch_half_pixel": _pytorch,
    "align_corners": _align_corners,
    "asymmetric": _asymmetric,
    "half_pixel_symmetric": _symmetric,
    "tf_crop_and_resize": _cropped,
    "tf_half_pixel_for_nn": _half_pixel_for_nn,
}
NEAREST: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _triangle(d: Array, _: float) -> Array:
    return np.maximum(1 - np.abs(d), 0)


def _cubic(d: Array, a: float) -> Array:
    """The cubic convolution of Keys (1981)."""
    d = np.abs(d)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


FILTERS: dict[str, tuple[Callable[[Array, float], Array], int]] = {
    "linear": (_triangle, 1),
    "cubic": (_cubic, 2),
}


def taps(n: OnnxNode, at: Array, scale: float, size: int) -> tuple[Array, Array]:
    """(new, taps) places and weights of each output element."""
    kernel, reach = FILTERS[n.attr("mode", "nearest")]
    shrink = min(scale, 1.0) if n.attr("antialias", 0) else 1.0
    radius = math.ceil(reach / shrink)
    offsets = np.arange(-radius + 1, radius + 1)
    places = np.floor(at)[:, None] + offsets
    weights = kernel((places - at[:, None]) * shrink, n.attr("cubic_coeff_a", -0.75))
    outside = (places < 0) | (places >= size)
    if n.attr("exclude_outside", 0):
        weights = np.where(outside, 0, weights)
    weights = weights / weights.sum(1, keepdims=True)
    return np.clip(places, 0, size - 1).astype(np.int64), weights


def resized(n: OnnxNode, x: Tensor, d: int, new: Any, scale: float, roi: Region) -> Tensor:
    """One axis, whose size is known, in its new size."""
    old = x.shape[d]
    if not isinstance(old, int) or not isinstance(new, int):
        raise n.unsupported(
            f"it resizes axis {d} of symbolic size {old} by mode {n.attr('mode', 'nearest')!r}, "
            f"{n.attr('coordinate_transformation_mode', 'half_pixel')!r}",
            "Fix that size with --dim.",
        )
    if not 0 < new <= MOST_PLACES:
        raise n.unsupported(f"its new size is {new}", f"Pass a size of 1 to {MOST_PLACES}.")
    rule = n.attr("coordinate_transformation_mode", "half_pixel")
    if rule not in COORDINATES:
        raise n.unsupported(f"its coordinates are {rule!r}")
    at = COORDINATES[rule](np.arange(new, dtype=np.float64), scale, old, new, roi)
    if n.attr("mode", "nearest") == "nearest":
        rounding = NEAREST[n.attr("nearest_mode", "round_prefer_floor")]
        places = np.clip(rounding(at), 0, old - 1).astype(np.int64)
        out = _read(n, x, d, places)
    else:
        places, weights = taps(n, at, scale, old)
        parts = [
            _read(n, x, d, places[:, k]) * _line(n, x, d, weights[:, k])
            for k in range(places.shape[1])
            if weights[:, k].any()
        ]
        out = sum(parts[1:], parts[0])
    if rule != "tf_crop_and_resize":
        return out
    inside = _line(n, x, d, ((at >= 0) & (at <= old - 1)).astype(np.float64)) != 0
    return functions.where(inside, out, float(n.attr("extrapolation_value", 0.0)))


def _read(n: OnnxNode, x: Tensor, d: int, places: Array) -> Tensor:
    count = len(places)
    if (places == np.arange(count)).all() and count == x.shape[d]:
        return x
    return x.index_select(d, n.around.tensor(Known(places, f"{n.proto.output[0]}.places")))


def _line(n: OnnxNode, x: Tensor, d: int, numbers: Array) -> Tensor:
    """Numbers along an axis, in the type of the tensor."""
    kept = numbers.astype(np.float64 if x.dtype is f64 else np.float32)
    line = n.around.tensor(Known(kept, f"{n.proto.output[0]}.weights"))
    return line.to(x.dtype).reshape(-1, *(1,) * (x.ndim - 1 - d))


# The modes of the frontend's `interpolate` that are those of Resize, by mode, coordinates and rounding.
SAME = {
    ("nearest", "asymmetric", "floor"): "nearest",
    ("nearest", "half_pixel", "round_prefer_ceil"): "nearest-exact",
    ("linear", "half_pixel", ""): "linear",
    ("linear", "pytorch_half_pixel", ""): "linear",
    ("cubic", "half_pixel", ""): "bicubic",
}
LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


def _interpolated(
    n: OnnxNode, x: Tensor, sizes: list[Any], scales: list[float] | None
) -> Tensor | None:
    """By the frontend's function, which takes symbolic sizes; None where it means something else.

    `scales` of all axes are what the node has instead of sizes: places follow from them, not from rounded sizes.
    """
    mode, rule = n.attr("mode", "nearest"), n.attr("coordinate_transformation_mode", "half_pixel")
    rounding = n.attr("nearest_mode", "round_prefer_floor") if mode == "nearest" else ""
    special = (
        n.attr("antialias", 0)
        or n.attr("exclude_outside", 0)
        or n.attr("cubic_coeff_a", -0.75) != -0.75
    )
    if rule == "pytorch_half_pixel" and not all(map(_is_above_one, sizes[2:])):
        return None  # one element alone reads at 0
    corners = rule == "align_corners" and mode == "linear"
    found = "linear" if corners else SAME.get((mode, rule, rounding))
    if found is None or special or x.ndim not in (3, 4, 5):
        return None
    if found == "linear":
        found = LINEAR[x.ndim - 2]
    if scales is None or all(float(s).is_integer() for s in scales):
        return functional.interpolate(x, sizes[2:], None, found, True if corners else None)
    return None if corners else functional.interpolate(x, None, scales[2:], found)


def resize(n: OnnxNode) -> Tensor:
    """Sizes or scales of all axes, or of those that `axes` names; roi for tf_crop_and_resize only."""
    x = n.tensor(0)
    first = 1 if n.version < 11 or n.op == "Upsample" else 2
    axes = [int(a) % x.ndim for a in n.attr("axes", list(range(x.ndim)))]
    wanted = n.sizes(3) if n.has(3) and n.given_size(3) else None
    if wanted is None:
        scales = n.attr("scales", None) or [float(s) for s in n.static(first).reshape(-1)]
        new = [_scaled(n, x.shape[d], s) for d, s in zip(axes, scales, strict=True)]
    else:
        new, scales = _kept_ratio(n, [x.shape[d] for d in axes], wanted)
    count = len(axes)
    roi = (
        ints(n.static(1))
        if n.has(1) and first == 2 and n.given_size(1)
        else [0.0] * count + [1.0] * count
    )
    sizes = list(x.shape)
    for d, e in zip(axes, new, strict=True):
        sizes[d] = e
    whole = all(isinstance(e, int) for e in (*x.shape, *new))
    rest = [d for d in axes if not _is_same(x.shape[d], sizes[d])]
    if not whole and all(d >= 2 for d in rest):
        given = dict(zip(axes, scales, strict=True))
        by_scale = [given.get(d, 1.0) for d in range(x.ndim)] if wanted is None else None
        found = _interpolated(n, x, sizes, by_scale)
        if found is not None:
            return found
    for i, d in enumerate(axes):
        is_cropped = n.attr("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
        if d in rest or (is_cropped and (roi[i], roi[i + count]) != (0, 1)) or scales[i] != 1:
            x = resized(n, x, d, sizes[d], scales[i], (roi[i], roi[i + count]))
    return x


def _is_above_one(size: Any) -> bool:
    """Whether a size is always more than 1."""
    try:
        return bool(size > 1)
    except DimSpecialised:
        return False


def _is_same(a: Any, b: Any) -> bool:
    return a is b or str(a) == str(b)


def _scaled(n: OnnxNode, size: Any, scale: float) -> Any:
    """floor(size * scale), in f32 as other programs compute it; a symbolic size by a ratio of small numbers."""
    if isinstance(size, int):
        return math.floor(np.float32(size) * np.float32(scale))
    ratio = Fraction(scale).limit_denominator(MOST_DENOMINATOR)
    if np.float32(ratio) != np.float32(scale):
        why = f"it scales {size}, which is symbolic, by {scale}, which is no ratio of small numbers"
        raise n.unsupported(why, "Fix that size with --dim, or give it sizes.")
    return size * ratio.numerator // ratio.denominator


def _kept_ratio(n: OnnxNode, old: list[Any], wanted: list[Any]) -> tuple[list[Any], list[float]]:
    """New sizes and scales; one scale for all axes unless they are stretched."""
    policy = n.attr("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        scales = [
            w / o if isinstance(w, int) and isinstance(o, int) else 0.0
            for w, o in zip(wanted, old, strict=True)
        ]
        return wanted, scales
    scale = (min if policy == "not_larger" else max)(
        w / o for w, o in zip(wanted, old, strict=True)
    )
    return [math.floor(scale * o + 0.5) for o in old], [scale] * len(old)


# --- grids ----------------------------------------------------------------------------------------

GRID_MODES = {
    "bilinear": "bilinear",
    "linear": "bilinear",
    "nearest": "nearest",
    "bicubic": "bicubic",
    "cubic": "bicubic",
}


def grid_sample(n: OnnxNode) -> Tensor:
    x = n.tensor(0)
    return functional.grid_sample(
        x,
        n.tensor(1),
        GRID_MODES[n.attr("mode", "linear")],
        n.attr("padding_mode", "zeros"),
        bool(n.attr("align_corners", 0)),
    )


ROWS = (
    Operator("Resize", resize),
    Operator("Upsample", resize),
    Operator("GridSample", grid_sample),
)
