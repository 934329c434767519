"""signals: Fourier transforms as products with matrices of cosines and sines, and filter banks."""

from __future__ import annotations

import math

import numpy as np

from lumigen.frontend import Tensor, functions
from lumigen.frontend.convolution import windows
from lumigen.importers.onnx.node import OnnxNode, Operator
from lumigen.importers.onnx.reading import numpy_type
from lumigen.importers.onnx.values import Array, Known, ints

LONGEST = 8192  # transform: its matrix has as many rows and columns


def _matrix(n: OnnxNode, name: str, numbers: Array, x: Tensor) -> Tensor:
    """Numbers that a product reads, in the type of a tensor."""
    kind = np.float64 if x.dtype.bits == 64 else np.float32
    known = Known(numbers.astype(kind), f"{n.proto.output[0]}.{name}")
    return n.around.tensor(known).to(x.dtype)


def _angles(count: int, length: int) -> Array:
    """(length, count): 2 pi k n / length, reduced first so that it is exact."""
    places = np.outer(np.arange(length), np.arange(count)) % length
    return places * (2 * np.pi / length)


def _fixed(n: OnnxNode, x: Tensor, axis: int, wanted: int | None) -> tuple[Tensor, int]:
    """The axis cut or padded to the length of the transform."""
    have = x.shape[axis]
    length = have if wanted is None else wanted
    if not isinstance(have, int) or not isinstance(length, int):
        why = f"it transforms an axis of symbolic size {have}"
        raise n.unsupported(why, "Fix that size with --dim.")
    if not 0 < length <= LONGEST:
        raise n.unsupported(f"its length is {length}", f"Pass a length of 1 to {LONGEST}.")
    if length <= have:
        return x.narrow(axis, 0, length), length
    widths = [0] * 2 * x.ndim
    widths[2 * (x.ndim - 1 - axis) + 1] = length - have
    return x.pad(widths), length


def _spectrum(n: OnnxNode, re: Tensor, im: Tensor | None, bins: int, sign: float) -> list[Tensor]:
    """Real and imaginary parts of sum x exp(sign i angle), over the last axis."""
    angle = _angles(bins, int(re.shape[-1]))
    cos, sin = _matrix(n, "cosines", np.cos(angle), re), _matrix(n, "sines", np.sin(angle), re)
    real, imaginary = re @ cos, (re @ sin) * sign
    if im is None:
        return [real, imaginary]
    return [real - (im @ sin) * sign, imaginary + im @ cos]


def dft(n: OnnxNode) -> Tensor:
    """(.., length, 1 or 2) along an axis; half of the spectrum of real numbers, or from it, where `onesided`."""
    x = n.tensor(0)
    axis = int(n.number(2, -2) if n.version >= 20 else n.attr("axis", 1)) % x.ndim
    wanted = int(n.number(1)) if n.has(1) else None
    half, inverse = bool(n.attr("onesided", 0)), bool(n.attr("inverse", 0))
    x = x.movedim(axis, -2)
    parts = [p.squeeze(-1) for p in x.split(1, -1)]
    if half and inverse:
        out = [_real(n, parts, wanted)]
    else:
        cut = [_fixed(n, p, p.ndim - 1, wanted) for p in parts]
        length = cut[0][1]
        bins = length // 2 + 1 if half else length
        im = cut[1][0] if len(cut) > 1 else None
        out = _spectrum(n, cut[0][0], im, bins, 1.0 if inverse else -1.0)
        out = [p / length for p in out] if inverse else out
    return functions.stack(out, -1).movedim(-2, axis)


def _real(n: OnnxNode, parts: list[Tensor], wanted: int | None) -> Tensor:
    """The real signal of one half of a spectrum: each bin between the ends stands for two."""
    bins = parts[0].shape[-1]
    if not isinstance(bins, int):
        raise n.unsupported(f"it transforms {bins} bins", "Fix that size with --dim.")
    length = 2 * (bins - 1) if wanted is None else wanted
    parts = [_fixed(n, p, p.ndim - 1, length // 2 + 1)[0] for p in parts]
    twice = np.full((length // 2 + 1, 1), 2.0)
    twice[0] = 1.0
    if length % 2 == 0:
        twice[-1] = 1.0
    angle = _angles(length, length)[: length // 2 + 1]
    cos = _matrix(n, "cosines", np.cos(angle) * twice / length, parts[0])
    out = parts[0] @ cos
    if len(parts) == 1:
        return out
    return out - parts[1] @ _matrix(n, "sines", np.sin(angle) * twice / length, parts[0])


def stft(n: OnnxNode) -> Tensor:
    """(batch, length, 1 or 2) -> (batch, frames, bins, 2)."""
    x, step = n.tensor(0), int(n.number(1))
    window = n.maybe(2)
    if n.has(3):
        length = int(n.number(3))
    elif window is not None:
        length = int(window.shape[0])
    else:
        raise n.unsupported("it has neither a window nor a length", "Give it one of them.")
    if not 0 < length <= LONGEST:
        raise n.unsupported(f"its length is {length}", f"Pass a length of 1 to {LONGEST}.")
    parts = [windows(p.squeeze(-1), (length,), (step,), (1,)) for p in x.split(1, -1)]
    parts = parts if window is None else [p * window for p in parts]
    bins = length // 2 + 1 if n.attr("onesided", 1) else length
    return functions.stack(
        _spectrum(n, parts[0], parts[1] if len(parts) > 1 else None, bins, -1.0), -1
    )


def mel_weights(n: OnnxNode) -> Known:
    """(bins of the spectrum, bands): triangles that are equally wide in mel."""
    bands, length, rate, low, high = (ints(n.static(i))[0] for i in range(5))
    if not 0 < length * bands <= LONGEST**2:
        raise n.unsupported(f"it has {bands} bands of {length} bins", "Make it smaller.")
    kind = numpy_type(n.attr("output_datatype", 1))
    step = float(
        (_mel(high) - _mel(low)) / (bands + 2)
    )  # as ONNX has it: the last edge lies below `high`
    edges = np.array([_mel(low) + i * step for i in range(bands + 2)])
    places: Array = np.floor((length + 1) * (700 * (10 ** (edges / 2595) - 1)) / rate).astype(int)
    out = np.zeros((length // 2 + 1, bands))
    for band in range(bands):
        first, centre, last = (int(e) for e in places[band : band + 3])
        up, down = (np.arange(a, b) for a, b in ((first, centre), (centre, last)))
        out[up, band] = (up - first) / max(centre - first, 1)
        out[centre, band] = 1
        out[down, band] = (last - down) / max(last - centre, 1)
    return Known(out.astype(kind))


def _mel(hertz: float) -> float:
    return 2595 * math.log10(1 + hertz / 700)


ROWS = (
    Operator("DFT", dft),
    Operator("STFT", stft),
    Operator("MelWeightMatrix", mel_weights),
)
