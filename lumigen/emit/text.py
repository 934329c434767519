"""text: C++ of values, with how strongly its outermost operator binds; types and literals."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan

import numpy as np

from lumigen.dtype import DType, boolean, f64, i64
from lumigen.emit import cxx

LOOSE, SUM, PRODUCT, TIGHT, WORD = range(
    5
)  # how strongly the outermost operator binds; a word has none


@dataclass(frozen=True)
class Text:
    """C++ text and how strongly its outermost operator binds."""

    code: str
    binds: int = TIGHT
    denies: str = ""  # of a denial: what it denies

    def within(self, context: int) -> str:
        return self.code if self.binds >= context else f"({self.code})"


def denied(text: Text) -> Text:
    """Not the condition, without a double negation."""
    inner = text.within(TIGHT)
    return Text(text.denies) if text.denies else Text(f"!{inner}", denies=inner)


def denied_mask(mask: Text) -> Text:
    """The same of lanes."""
    if mask.denies:
        return Text(mask.denies)
    return Text(f"mask_not({mask.code})", denies=mask.code)


def all_of(masks: list[str]) -> Text:
    out = masks[0]
    for m in masks[1:]:
        out = f"mask_and({out}, {m})"
    return Text(out)


def computed_in(dtype: DType) -> str:
    """The C++ type of a value in a register."""
    if dtype is boolean:
        return "bool"
    return "float" if dtype.is_float and dtype is not f64 else dtype.ctype


def is_half(dtype: DType) -> bool:
    """Whether it is one of the floats of 16 bits, which are computed with as float."""
    return dtype.is_float and dtype.bits == 16


def suffix(dtype: DType) -> str:
    """What the names of loads and stores over lanes end in: `load(x, lanes)`, `load_bf16(x, lanes)`."""
    return f"_{dtype}" if is_half(dtype) else ""


def pointer(base: str, offset: str) -> str:
    return base if offset == "0" else f"{base} + {offset}"


def literal(value: float | int | bool, dtype: DType) -> str:
    """A C++ literal of exactly this value."""
    if dtype is boolean:
        return "true" if value else "false"
    if dtype.is_int:
        if dtype is i64:
            return cxx.integer(int(value))
        return "INT32_MIN" if value == -(2**31) else str(int(value))
    if isnan(value):
        return '__builtin_nan("")' if dtype is f64 else '__builtin_nanf("")'
    if value in (float("inf"), float("-inf")):
        text = "__builtin_inf()" if dtype is f64 else "__builtin_inff()"
        return text if value > 0 else f"-{text}"
    text = repr(float(value)) if dtype is f64 else str(np.float32(value))
    if not any(c in text for c in ".en"):
        text += ".0"
    return text + ("" if dtype is f64 else "f")
