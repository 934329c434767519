"""Padding with numbers or with the tensor's own elements: views that clamp, fold or wrap positions."""

# signatures are PyTorch's

from __future__ import annotations

from collections.abc import Callable, Sequence

from lumigen.errors import BadArgument
from lumigen.frontend import movement
from lumigen.frontend.extents import check_extent
from lumigen.frontend.operand import choice
from lumigen.frontend.primitive import Extent
from lumigen.frontend.tensor import Tensor
from lumigen.frontend.trace import fail
from lumigen.index import Ix, ix, maximum, minimum


def _replicated(i: Ix, extent: Ix) -> Ix:
    return minimum(maximum(i, 0), extent - 1)


def _reflected(i: Ix, extent: Ix) -> Ix:
    """|i|, and the same from the last element; held inside for what cannot be proven of it."""
    folded = maximum(i, -i)
    return _replicated(minimum(folded, (extent - 1) * 2 - folded), extent)


def _wrapped(i: Ix, extent: Ix) -> Ix:
    return i % extent


MODES: dict[str, Callable[[Ix, Ix], Ix]] = {
    "replicate": _replicated,
    "reflect": _reflected,
    "circular": _wrapped,
}


def pad(
    input: Tensor, pad: Sequence[Extent], mode: str = "constant", value: float | None = None
) -> Tensor:
    """Widths before and after the last dimension, then of the one before it; negative ones crop.

    What is added is `value` (0 unless given), or by `mode` the nearest element (`replicate`), the elements mirrored at
    the ends (`reflect`, by less than the extent) or those of the other end (`circular`, by at most the extent).
    """
    choice("pad", "mode", mode, "constant", *MODES)
    if mode == "constant":
        return input.pad(pad, 0 if value is None else value)
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        expected = f"two widths for each of the last axes, at most {2 * input.ndim}"
        raise fail(BadArgument, op="pad", name="the padding", value=tuple(pad), expected=expected)
    edge = input.edge
    for k in range(len(pad) // 2):
        d = input.ndim - 1 - k
        before, after, extent = ix(pad[2 * k]), ix(pad[2 * k + 1]), edge.shape[d]
        if mode == "circular":  # what is left goes round
            crop = [minimum(w, ix(0)) for w in (before, after)]
            edge = Tensor(edge).pad((0, 0) * (input.ndim - 1 - d) + tuple(crop)).edge
            before, after, extent = before - crop[0], after - crop[1], edge.shape[d]
        if before == 0 and after == 0:
            continue
        least = {"replicate": ix(1), "reflect": maximum(before, after) + 1}
        room = extent - least.get(mode, maximum(before, after))
        check_extent("pad", f"axis {d} of extent {extent} is padded by {before} and {after}", room)
        check_extent("pad", f"cropping axis {d} by {before} and {after}", extent + before + after)
        position = MODES[mode]
        edge = movement.at_positions(
            edge,
            d,
            before + extent + after,
            lambda i, before=before, extent=extent, at=position: at(i - before, extent),
        )
    return Tensor(edge)
