"""windows: what convolutions and pools share: paddings, strides and how many windows there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lumigen.frontend import Tensor, functions
from lumigen.frontend.convolution import windows
from lumigen.importers.onnx.node import OnnxNode


@dataclass(frozen=True)
class Windows:
    """The windows of the last axes of a tensor: sizes, steps, and (before, after) that is padded."""

    size: tuple[int, ...]
    step: tuple[int, ...]
    dilation: tuple[int, ...]
    pads: tuple[tuple[Any, Any], ...]
    more: tuple[
        Any, ...
    ]  # behind the padding, that the last window of `ceil_mode` reaches; negative ones crop

    def of(self, x: Tensor, fill: float) -> Tensor:
        """The windows, (.., *counts, *size)."""
        return windows(self.behind(self.padded(x, fill), fill), self.size, self.step, self.dilation)

    def padded(self, x: Tensor, fill: float) -> Tensor:
        return _pad(x, [w for pair in reversed(self.pads) for w in pair], fill)

    def behind(self, x: Tensor, fill: float) -> Tensor:
        return _pad(x, [w for more in reversed(self.more) for w in (0, more)], fill)

    @property
    def inner(self) -> tuple[int, ...]:
        """The axes of one window."""
        return tuple(range(-len(self.size), 0))

    @property
    def is_padded(self) -> bool:
        """Whether some window may see what is no element."""
        widths = (*(w for pair in self.pads for w in pair), *self.more)
        return any(not (isinstance(w, int) and w <= 0) for w in widths)


def _pad(x: Tensor, widths: list[Any], fill: float) -> Tensor:
    return x if all(isinstance(w, int) and w == 0 for w in widths) else x.pad(widths, fill)


def windows_of(n: OnnxNode, x: Tensor, size: tuple[int, ...]) -> Windows:
    """The windows that the attributes of a node say."""
    rank = len(size)
    step = tuple(n.numbers("strides", [1] * rank))
    dilation = tuple(n.numbers("dilations", [1] * rank))
    extents = x.shape[-rank:]
    reach = [d * (k - 1) + 1 for k, d in zip(size, dilation, strict=True)]
    pads = pads_of(n, extents, reach, step)
    more: list[Any] = []
    for extent, pair, r, s in zip(extents, pads, reach, step, strict=True):
        room = extent + sum(pair) - r
        if not n.attr("ceil_mode", 0):
            more.append(0)
            continue
        # no window begins behind the padding before and the elements
        count = functions.sym_min(-(-room // s) + 1, -(-(extent + pair[0]) // s))
        more.append(functions.sym_max((count - 1) * s - room, 0))
    return Windows(size, step, dilation, tuple(pads), tuple(more))


def pads_of(
    n: OnnxNode, extents: Any, reach: list[int], step: tuple[int, ...]
) -> list[tuple[Any, Any]]:
    """(before, after) of each axis, as the node lists them or as `auto_pad` asks."""
    rank = len(reach)
    auto = n.attr("auto_pad", "NOTSET")
    if auto in ("NOTSET", ""):
        given = n.pads(rank)
        return [(given[i], given[i + rank]) for i in range(rank)]
    if auto == "VALID":
        return [(0, 0)] * rank
    if auto not in ("SAME_UPPER", "SAME_LOWER"):
        raise n.unsupported(f"its auto_pad is {auto!r}")
    out: list[tuple[Any, Any]] = []
    for extent, r, s in zip(extents, reach, step, strict=True):
        total = functions.sym_max((-(-extent // s) - 1) * s + r - extent, 0)
        less, more = total // 2, total - total // 2
        out.append((less, more) if auto == "SAME_UPPER" else (more, less))
    return out
