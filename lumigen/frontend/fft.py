"""What torch.fft has of shifts; transforms need complex numbers."""

from __future__ import annotations

from collections.abc import Sequence

from lumigen.frontend import movement
from lumigen.frontend.offered import namespace
from lumigen.frontend.tensor import Tensor


def fftshift(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """The first half of each dimension after the second one."""
    return _shifted(input, dim, 1)


def ifftshift(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """What undoes `fftshift`."""
    return _shifted(input, dim, -1)


def _shifted(input: Tensor, dim: int | Sequence[int] | None, way: int) -> Tensor:
    for d in movement.axes("fftshift", input.edge, dim):
        half = input.extents[d] // 2
        input = input.roll(half if way > 0 else input.extents[d] - half, d)
    return input


__getattr__, __dir__ = namespace(globals())
