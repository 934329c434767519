"""blocks: the element types of ggml, and what their blocks of quantised numbers stand for.

Promises the numbers of ggml's own `dequantize_row_*`, bit for bit: the same products and sums in f32, in the
same order. The layouts are those of `ggml-common.h`: a block is a scale in f16, or two, and small integers.
Each is a description of its fields (`Blocks`) and where in a block's bytes a field is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lumigen.dtype import DType, bf16, f16, f32, f64, i8, i32, i64, u8
from lumigen.weights.formats import ARRAYS, Blocks, Plane, in_planes

Bytes = npt.NDArray[Any]  # of u8
Floats = npt.NDArray[np.float32]
Take = Callable[[Bytes], npt.NDArray[Any]]  # (blocks, bytes) -> (blocks, ...)

AT_A_TIME = 1 << 16  # elements; what is unpacked in between stays in the cache


@dataclass(frozen=True)
class Element:
    """A type: `items` elements in a block of `bytes`; `dtype` is what they are read as, if they are.

    `blocks` describes those of small integers, and `take` gives their fields from the bytes of blocks.
    """

    name: str
    items: int
    bytes: int
    dtype: DType | None = None
    blocks: Blocks | None = None
    take: Mapping[str, Take] | None = None


def field(data: Bytes, element: Element, name: str) -> npt.NDArray[Any]:
    """A field of whole blocks of bytes: (blocks, ...)."""
    assert element.take is not None
    return np.ascontiguousarray(element.take[name](data.reshape(-1, element.bytes)))


def dequantised(data: Bytes, element: Element) -> Floats:
    """The numbers that whole blocks of bytes stand for, in a row."""
    assert element.blocks is not None
    assert element.take is not None
    blocks = data.reshape(-1, element.bytes)
    out = np.empty((len(blocks), element.items), np.float32)
    with np.errstate(all="ignore"):  # scales are what the file says, NaN and infinity included
        step = AT_A_TIME // element.items
        for i in range(0, len(blocks), step):
            part = blocks[i : i + step]
            fields = {name: take(part) for name, take in element.take.items()}
            out[i : i + step] = element.blocks.values(fields, ARRAYS).reshape(len(part), -1)
    return out.reshape(-1)


def _part(at: int, size: int, dtype: DType = u8) -> Take:
    """Bytes of each block."""
    return lambda x: np.ascontiguousarray(x[:, at : at + size]).view(dtype.numpy)


def _half(at: int) -> Take:
    """The f16 at a byte of each block."""
    return lambda x: np.ascontiguousarray(x[:, at : at + 2]).view(np.float16)[:, 0]


def _less(at: int) -> Take:
    """The f16 that is taken away, with its sign turned."""
    return lambda x: -_half(at)(x)


def _nibbles(x: Bytes, run: int) -> Bytes:
    """Each run of bytes as its lower halves, then its upper ones."""
    return _bits(x, run, 4)


def _bits(x: Bytes, run: int, width: int) -> Bytes:
    """Each run of bytes `8 // width` times: its lowest `width` bits, then the next ones."""
    shifts = np.arange(0, 8, width, dtype=np.uint8)[:, None]
    parts = (x.reshape(len(x), -1, 1, run) >> shifts) & (1 << width) - 1
    return parts.reshape(len(x), -1)


# 32 elements: one scale, and with _1 one offset. 32 bits in a row are the fifth of 32 numbers.


HALVES, FIFTH = Plane(4, 16), Plane(1, 4)


def _fifths(at: int) -> Take:
    return lambda x: in_planes(np.unpackbits(x[:, at : at + 4], axis=1, bitorder="little"), FIFTH)


Q4_0 = Blocks(32, (HALVES,), zero=8)
Q4_1 = Blocks(32, (HALVES,), has_minima=True)
Q5_0 = Blocks(32, (HALVES, FIFTH), zero=16)
Q5_1 = Blocks(32, (HALVES, FIFTH), has_minima=True)
Q8_0 = Blocks(32, (Plane(8, 32, is_signed=True),))


# 256 elements in sub-blocks, each with a scale of few bits, and with Q2, Q4 and Q5 an offset

Q2_K = Blocks(256, (Plane(2, 32),), sub=16, sub_scale=u8, has_minima=True)
Q3_K = Blocks(256, (Plane(2, 32), Plane(1, 32)), zero=4, sub=16, sub_scale=i8)
Q4_K = Blocks(256, (Plane(4, 32),), sub=32, sub_scale=u8, has_minima=True)
Q5_K = Blocks(256, (Plane(4, 32), Plane(1, 32)), sub=32, sub_scale=u8, has_minima=True)
Q6_K = Blocks(256, (Plane(4, 64), Plane(2, 32)), zero=32, sub=16, sub_scale=i8)


def _q3_scales(x: Bytes) -> npt.NDArray[np.int8]:
    low, high = _nibbles(x[:, 96:104], 8), _bits(x[:, 104:108], 4, 2)
    return (low | high << 4).astype(np.int8) - 32


def _k_scales(x: Bytes) -> Bytes:
    """Of 12 bytes, 8 scales of 6 bits: the upper 2 of the last four stand above the first four."""
    return np.concatenate([x[:, 4:8] & 63, x[:, 12:16] & 15 | x[:, 4:8] >> 6 << 4], axis=1)


def _k_minima(x: Bytes) -> Bytes:
    return np.concatenate([x[:, 8:12] & 63, x[:, 12:16] >> 4 | x[:, 8:12] >> 6 << 4], axis=1)


K_SCALES: Mapping[str, Take] = {
    "scales": _half(0),
    "minima": _less(2),
    "sub_scales": _k_scales,
    "sub_minima": _k_minima,
}

# numbers of a codebook, whose distances grow with them; and of four bits as floats, doubled

NORMAL = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
E2M1 = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)
IQ4_NL = Blocks(32, (HALVES,), codebook=NORMAL)
IQ4_XS = Blocks(256, (HALVES,), codebook=NORMAL, sub=32, sub_scale=i8)
MXFP4 = Blocks(32, (HALVES,), codebook=E2M1, scale=bf16)


def _iq4_scales(x: Bytes) -> npt.NDArray[np.int8]:
    low, high = _bits(x[:, 4:8], 1, 4), _bits(x[:, 2:4], 1, 2)
    return (low | high << 4).astype(np.int8) - 32


def _half_powers(x: Bytes) -> npt.NDArray[Any]:
    """2^(e - 128) of a byte e, which bf16 holds: its exponent has as many bits."""
    e = x[:, 0].astype(np.uint16)
    return np.where(e < 2, 0x20 << e, (e - 1) << 7).astype(np.uint16).view(bf16.numpy)


# three values, at two bits each; TQ1_0 has five of them in a byte, which are taken apart when it is read

TERNARY = Blocks(256, (Plane(2, 32),), zero=1)
POWERS = np.array([1, 3, 9, 27, 81], np.uint8)[:, None]


def _digits(x: Bytes) -> Bytes:
    """A byte is a fraction in base 3, of which multiplication brings up the next digit."""
    places = ((0, 32, 5), (32, 48, 5), (48, 52, 4))
    digits = [(x[:, None, a:b] * POWERS[:n]).reshape(len(x), -1) for a, b, n in places]
    found = np.concatenate(digits, axis=1).astype(np.uint16) * 3 >> 8
    return in_planes(found, TERNARY.planes[0])


# by their number in a file; those without a dtype are named in errors
ELEMENTS: dict[int, Element] = {
    0: Element("F32", 1, 4, f32),
    1: Element("F16", 1, 2, f16),
    2: Element("Q4_0", 32, 18, f32, Q4_0, {"quants": _part(2, 16), "scales": _half(0)}),
    3: Element(
        "Q4_1", 32, 20, f32, Q4_1, {"quants": _part(4, 16), "scales": _half(0), "minima": _half(2)}
    ),
    6: Element(
        "Q5_0", 32, 22, f32, Q5_0, {"quants": _part(6, 16), "high": _fifths(2), "scales": _half(0)}
    ),
    7: Element(
        "Q5_1",
        32,
        24,
        f32,
        Q5_1,
        {"quants": _part(8, 16), "high": _fifths(4), "scales": _half(0), "minima": _half(2)},
    ),
    8: Element("Q8_0", 32, 34, f32, Q8_0, {"quants": _part(2, 32, i8), "scales": _half(0)}),
    9: Element("Q8_1", 32, 40),
    10: Element(
        "Q2_K",
        256,
        84,
        f32,
        Q2_K,
        {
            "quants": _part(16, 64),
            "scales": _half(80),
            "minima": _less(82),
            "sub_scales": lambda x: x[:, :16] & 15,
            "sub_minima": lambda x: x[:, :16] >> 4,
        },
    ),
    11: Element(
        "Q3_K",
        256,
        110,
        f32,
        Q3_K,
        {
            "quants": _part(32, 64),
            "high": _part(0, 32),
            "scales": _half(108),
            "sub_scales": _q3_scales,
        },
    ),
    12: Element("Q4_K", 256, 144, f32, Q4_K, {"quants": _part(16, 128), **K_SCALES}),
    13: Element(
        "Q5_K", 256, 176, f32, Q5_K, {"quants": _part(48, 128), "high": _part(16, 32), **K_SCALES}
    ),
    14: Element(
        "Q6_K",
        256,
        210,
        f32,
        Q6_K,
        {
            "quants": _part(0, 128),
            "high": _part(128, 64),
            "scales": _half(208),
            "sub_scales": _part(192, 16, i8),
        },
    ),
    15: Element("Q8_K", 256, 292),
    16: Element("IQ2_XXS", 256, 66),
    17: Element("IQ2_XS", 256, 74),
    18: Element("IQ3_XXS", 256, 98),
    19: Element("IQ1_S", 256, 50),
    20: Element("IQ4_NL", 32, 18, f32, IQ4_NL, {"quants": _part(2, 16), "scales": _half(0)}),
    21: Element("IQ3_S", 256, 110),
    22: Element("IQ2_S", 256, 82),
    23: Element(
        "IQ4_XS",
        256,
        136,
        f32,
        IQ4_XS,
        {"quants": _part(8, 128), "scales": _half(0), "sub_scales": _iq4_scales},
    ),
    24: Element("I8", 1, 1, i8),
    25: Element("I16", 1, 2),
    26: Element("I32", 1, 4, i32),
    27: Element("I64", 1, 8, i64),
    28: Element("F64", 1, 8, f64),
    29: Element("IQ1_M", 256, 56),
    30: Element("BF16", 1, 2, bf16),
    34: Element("TQ1_0", 256, 54, f32, TERNARY, {"quants": _digits, "scales": _half(52)}),
    35: Element("TQ2_0", 256, 66, f32, TERNARY, {"quants": _part(0, 64), "scales": _half(64)}),
    39: Element("MXFP4", 32, 17, f32, MXFP4, {"quants": _part(1, 16), "scales": _half_powers}),
    40: Element("NVFP4", 64, 36),
}
