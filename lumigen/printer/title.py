"""A region in one line: the shape it stores and the operations on the way, in order."""

from __future__ import annotations

from lumigen.ops import Op
from lumigen.region import Prim, Reduce, Region, walk

MAX_LENGTH = 90


def title(region: Region) -> str:
    """`[batch, 128]: mul, sum over 64, add`."""
    steps: dict[str, None] = {}
    for e in walk(s.value for s in region.stores):
        if isinstance(e, Reduce):
            extents = " x ".join(str(a.extent) for a in e.axes)
            steps[f"{e.monoid.value} over {extents}"] = None
        elif isinstance(e, Prim):
            steps["copy" if e.op is Op.CONTIGUOUS else e.op.value] = None
    if region.native:
        steps = {region.native.replace("_", " "): None}
    shapes = dict.fromkeys(f"[{', '.join(map(str, s.dst.dims))}]" for s in region.stores)
    text = f"{' '.join(shapes)}: {', '.join(steps) or 'copy'}"
    return text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 4].rpartition(',')[0]}, ..."
