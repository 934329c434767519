"""Windows of signals (torch.signal.windows): M samples of a formula, the whole period of it unless `sym`."""

# signatures are PyTorch's

from __future__ import annotations

import math
from collections.abc import Sequence

from lumigen.dtype import DType, f32, f64
from lumigen.frontend.creation import arange, full
from lumigen.frontend.extents import check_count
from lumigen.frontend.offered import namespace
from lumigen.frontend.special import i0
from lumigen.frontend.tensor import Tensor


def _places(M: int, sym: bool) -> tuple[Tensor, int]:
    """0 .. M - 1 in f64, and the last place of the formula."""
    check_count("window", "M", M, 0)
    return arange(M).to(f64), M - 1 if sym else M


def _short(M: int, dtype: DType) -> Tensor | None:
    """Windows of no sample and of one, which is 1."""
    return full((M,), 1, dtype) if M < 2 else None


def general_cosine(M: int, *, a: Sequence[float], sym: bool = True, dtype: DType = f32) -> Tensor:
    """sum_k (-1)^k a[k] cos(2 pi k n / N)."""
    n, last = _places(M, sym)
    if (short := _short(M, dtype)) is not None:
        return short
    out: Tensor | None = None
    for k, weight in enumerate(a):
        term = (n * (2 * math.pi * k / last)).cos() * ((-1) ** k * weight)
        out = term if out is None else out + term
    assert out is not None
    return out.to(dtype)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, dtype: DType = f32) -> Tensor:
    """alpha - (1 - alpha) cos(2 pi n / N)."""
    return general_cosine(M, a=(alpha, 1 - alpha), sym=sym, dtype=dtype)


def hamming(M: int, *, sym: bool = True, dtype: DType = f32) -> Tensor:
    """0.54 - 0.46 cos(2 pi n / N)."""
    return general_hamming(M, sym=sym, dtype=dtype)


def hann(M: int, *, sym: bool = True, dtype: DType = f32) -> Tensor:
    """(1 - cos(2 pi n / N)) / 2."""
    return general_hamming(M, alpha=0.5, sym=sym, dtype=dtype)


def blackman(M: int, *, sym: bool = True, dtype: DType = f32) -> Tensor:
    """0.42 - 0.5 cos(2 pi n / N) + 0.08 cos(4 pi n / N)."""
    return general_cosine(M, a=(0.42, 0.5, 0.08), sym=sym, dtype=dtype)


def nuttall(M: int, *, sym: bool = True, dtype: DType = f32) -> Tensor:
    """Four cosines, by Nuttall."""
    return general_cosine(M, a=(0.3635819, 0.4891775, 0.1365995, 0.0106411), sym=sym, dtype=dtype)


def bartlett(M: int, *, sym: bool = True, dtype: DType = f32) -> Tensor:
    """A triangle: 1 - |2 n / N - 1|."""
    n, last = _places(M, sym)
    if (short := _short(M, dtype)) is not None:
        return short
    return (1 - (n * (2 / last) - 1).abs()).to(dtype)


def cosine(M: int, *, sym: bool = True, dtype: DType = f32) -> Tensor:
    """sin(pi (n + 1/2) / N)."""
    n, last = _places(M, sym)
    if (short := _short(M, dtype)) is not None:
        return short
    return ((n + 0.5) * (math.pi / (last + 1))).sin().to(dtype)


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: DType = f32
) -> Tensor:
    """exp(-|n - center| / tau)."""
    n, last = _places(M, sym)
    if (short := _short(M, dtype)) is not None:
        return short
    middle = last / 2 if center is None else center
    return (-(n - middle).abs() / tau).exp().to(dtype)


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, dtype: DType = f32) -> Tensor:
    """exp(-(n - N / 2)^2 / (2 std^2))."""
    n, last = _places(M, sym)
    if (short := _short(M, dtype)) is not None:
        return short
    away = (n - last / 2) / (std * math.sqrt(2))
    return (-away * away).exp().to(dtype)


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, dtype: DType = f32) -> Tensor:
    """I0(beta sqrt(1 - (2 n / N - 1)^2)) / I0(beta)."""
    n, last = _places(M, sym)
    if (short := _short(M, dtype)) is not None:
        return short
    place = n * (2 / last) - 1
    root = (1 - place * place).clamp(min=0).sqrt()
    return (i0(root * beta) / i0(full((), beta, f64))).to(dtype)


__getattr__, __dir__ = namespace(globals())
