"""blocks: the element types of ggml, and what their blocks of quantised numbers stand for.

Promises the numbers of ggml's own `dequantize_row_*`, bit for bit: the same products and sums in f32, in the
same order. The layouts are those of `ggml-common.h`: a block is a scale in f16, or two, and small integers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lumigen.dtype import DType, bf16, f16, f32, f64, i8, i32, i64

Bytes = npt.NDArray[Any]  # of u8
Floats = npt.NDArray[np.float32]

AT_A_TIME = 1 << 16  # elements; what is unpacked in between stays in the cache


@dataclass(frozen=True)
class Element:
    """A type: `items` elements in a block of `bytes`; `dtype` is what they are read as, if they are."""

    name: str
    items: int
    bytes: int
    dtype: DType | None = None
    values: Callable[[Bytes], Floats] | None = None  # (blocks, bytes) -> (blocks, items)


def dequantised(data: Bytes, element: Element) -> Floats:
    """The numbers that whole blocks of bytes stand for, in a row."""
    assert element.values is not None
    blocks = data.reshape(-1, element.bytes)
    out = np.empty((len(blocks), element.items), np.float32)
    with np.errstate(all="ignore"):  # scales are what the file says, NaN and infinity included
        step = AT_A_TIME // element.items
        for i in range(0, len(blocks), step):
            out[i : i + step] = element.values(blocks[i : i + step])
    return out.reshape(-1)


def _half(x: Bytes, at: int) -> Floats:
    """The f16 at a byte of each block, as (blocks, 1)."""
    return np.ascontiguousarray(x[:, at : at + 2]).view(np.float16).astype(np.float32)


def _nibbles(x: Bytes, run: int) -> Bytes:
    """Each run of bytes as its lower halves, then its upper ones."""
    runs = x.reshape(len(x), -1, 1, run)
    return np.concatenate([runs & 15, runs >> 4], axis=2).reshape(len(x), -1)


def _bits(x: Bytes, run: int, width: int) -> Bytes:
    """Each run of bytes `8 // width` times: its lowest `width` bits, then the next ones."""
    shifts = np.arange(0, 8, width, dtype=np.uint8)[:, None]
    parts = (x.reshape(len(x), -1, 1, run) >> shifts) & (1 << width) - 1
    return parts.reshape(len(x), -1)


# 32 elements: one scale, and with _1 one offset


def _q4_0(x: Bytes) -> Floats:
    return _half(x, 0) * (_nibbles(x[:, 2:], 16).astype(np.float32) - 8)


def _q4_1(x: Bytes) -> Floats:
    return _half(x, 0) * _nibbles(x[:, 4:], 16).astype(np.float32) + _half(x, 2)


def _fifth(x: Bytes) -> Bytes:
    """32 bits in a row, lowest first, as the fifth of 32 numbers."""
    return np.unpackbits(x, axis=1, bitorder="little") << 4


def _q5_0(x: Bytes) -> Floats:
    q = _nibbles(x[:, 6:], 16) | _fifth(x[:, 2:6])
    return _half(x, 0) * (q.astype(np.float32) - 16)


def _q5_1(x: Bytes) -> Floats:
    q = _nibbles(x[:, 8:], 16) | _fifth(x[:, 4:8])
    return _half(x, 0) * q.astype(np.float32) + _half(x, 2)


def _q8_0(x: Bytes) -> Floats:
    return x[:, 2:].view(np.int8).astype(np.float32) * _half(x, 0)


# 256 elements in sub-blocks, each with a scale of few bits, and with Q2, Q4 and Q5 an offset


def _scaled(q: Any, scale: Floats, least: Floats | None = None) -> Floats:
    """scale * q, less the offset, for the runs of elements that each scale is of."""
    runs = q.reshape(*scale.shape, -1) * scale[:, :, None]
    if least is not None:
        runs -= least[:, :, None]
    return runs.reshape(len(q), -1)


def _q2_k(x: Bytes) -> Floats:
    scale = _half(x, 80) * (x[:, :16] & 15).astype(np.float32)
    least = _half(x, 82) * (x[:, :16] >> 4).astype(np.float32)
    q = _bits(x[:, 16:80], 32, 2).astype(np.float32)
    return _scaled(q, scale, least)


def _q3_k(x: Bytes) -> Floats:
    low, high = _nibbles(x[:, 96:104], 8), _bits(x[:, 104:108], 4, 2)
    scale = _half(x, 108) * ((low | high << 4).astype(np.float32) - 32)
    q = _bits(x[:, 32:96], 32, 2) | _bits(x[:, :32], 32, 1) << 2
    return _scaled(q.astype(np.float32) - 4, scale)


def _scales_and_leasts(x: Bytes) -> tuple[Floats, Floats]:
    """Of 12 bytes, 8 scales and 8 offsets of 6 bits: the upper 2 of the last four stand above the first four."""
    first, second, third = x[:, :4], x[:, 4:8], x[:, 8:12]
    scales = np.concatenate([first & 63, third & 15 | first >> 6 << 4], axis=1)
    leasts = np.concatenate([second & 63, third >> 4 | second >> 6 << 4], axis=1)
    return scales.astype(np.float32), leasts.astype(np.float32)


def _q4_k(x: Bytes) -> Floats:
    return _affine(x, _nibbles(x[:, 16:], 32))


def _q5_k(x: Bytes) -> Floats:
    return _affine(x, _nibbles(x[:, 48:], 32) | _bits(x[:, 16:48], 32, 1) << 4)


def _affine(x: Bytes, q: Bytes) -> Floats:
    scales, leasts = _scales_and_leasts(x[:, 4:16])
    scale, least = _half(x, 0) * scales, _half(x, 2) * leasts
    return _scaled(q.astype(np.float32), scale, least)


def _q6_k(x: Bytes) -> Floats:
    scale = _half(x, 208) * x[:, 192:208].view(np.int8).astype(np.float32)
    q = _nibbles(x[:, :128], 64) | _bits(x[:, 128:192], 32, 2) << 4
    return _scaled(q.astype(np.float32) - 32, scale)


# by their number in a file; those without a dtype are named in errors
ELEMENTS: dict[int, Element] = {
    0: Element("F32", 1, 4, f32),
    1: Element("F16", 1, 2, f16),
    2: Element("Q4_0", 32, 18, f32, _q4_0),
    3: Element("Q4_1", 32, 20, f32, _q4_1),
    6: Element("Q5_0", 32, 22, f32, _q5_0),
    7: Element("Q5_1", 32, 24, f32, _q5_1),
    8: Element("Q8_0", 32, 34, f32, _q8_0),
    9: Element("Q8_1", 32, 40),
    10: Element("Q2_K", 256, 84, f32, _q2_k),
    11: Element("Q3_K", 256, 110, f32, _q3_k),
    12: Element("Q4_K", 256, 144, f32, _q4_k),
    13: Element("Q5_K", 256, 176, f32, _q5_k),
    14: Element("Q6_K", 256, 210, f32, _q6_k),
    15: Element("Q8_K", 256, 292),
    16: Element("IQ2_XXS", 256, 66),
    17: Element("IQ2_XS", 256, 74),
    18: Element("IQ3_XXS", 256, 98),
    19: Element("IQ1_S", 256, 50),
    20: Element("IQ4_NL", 32, 18),
    21: Element("IQ3_S", 256, 110),
    22: Element("IQ2_S", 256, 82),
    23: Element("IQ4_XS", 256, 136),
    24: Element("I8", 1, 1, i8),
    25: Element("I16", 1, 2),
    26: Element("I32", 1, 4, i32),
    27: Element("I64", 1, 8, i64),
    28: Element("F64", 1, 8, f64),
    29: Element("IQ1_M", 256, 56),
    30: Element("BF16", 1, 2, bf16),
    34: Element("TQ1_0", 256, 54),
    35: Element("TQ2_0", 256, 66),
    39: Element("MXFP4", 32, 17),
    40: Element("NVFP4", 64, 36),
}
