"""kinds: the element types of ONNX that are wider in ours, and what keeps their values.

int16 and uint16 are held as i32, uint32 as i64, four and two bits as i8 and u8, eight-bit floats as f32. Promises that
what such a type cannot hold wraps around or is rounded where ONNX says so.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lumigen.dtype import i64
from lumigen.frontend import Tensor
from lumigen.importers.onnx.node import Node
from lumigen.importers.onnx.reading import numpy_type
from lumigen.importers.onnx.values import Array, held

# The bits of integers that ours has no type of; whether they are signed.
NARROW = {
    "int16": (16, True),
    "uint16": (16, False),
    "uint32": (32, False),
    "int4": (4, True),
    "uint4": (4, False),
    "int2": (2, True),
    "uint2": (2, False),
}


def cast(node: Node, x: Tensor, element: int) -> Tensor:
    """The elements in another type of ONNX's."""
    kind = numpy_type(element)
    dtype = held(kind)
    if kind.name in NARROW:
        return wrapped(x.to(dtype), kind)
    if kind.name.startswith("float8") or kind.name.startswith("float4"):
        raise node.unsupported(f"it rounds to {kind}", "Leave those values in float32.")
    return x.to(dtype)


def wrapped(x: Tensor, kind: np.dtype[Any]) -> Tensor:
    """Integers as the low bits of a narrower type hold them."""
    bits, is_signed = NARROW[kind.name]
    dtype = held(kind)
    if not is_signed:
        return (x % 2**bits).to(dtype)
    half = 2 ** (bits - 1)
    wide = x.to(i64)
    return ((wide + half) % 2**bits - half).to(dtype)


def known_cast(a: Array, kind: np.dtype[Any]) -> Any:
    """Known numbers in another type; sizes stay as they are among integers, and floats of them are no longer known."""
    if a.dtype != object:
        return None if kind == object else a.astype(kind)
    if kind.kind in "iu":
        return a
    return a != 0 if kind == np.bool_ else None


