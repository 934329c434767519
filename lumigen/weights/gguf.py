"""GGUF, versions 2 and 3: metadata of typed values, then tensors as ggml has them, mapped or dequantised.

Promises that every count, length, dimension and offset is compared with the file's size before anything is
made of it; and that names, keys and texts are UTF-8, each name once.
Layout: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lumigen.weights.blocks import ELEMENTS, Element, dequantised, field
from lumigen.weights.formats import Packed
from lumigen.weights.stored import Array, StoredTensor, bad, bytes_of, mapped, mapped_bytes, shown

MAGIC = b"GGUF"
VERSIONS = (2, 3)
ALIGNMENT = 32  # bytes, where general.alignment says nothing else
MAX_AXES = 4  # ggml's own limit
MAX_DEPTH = 8  # arrays in arrays
MAX_KEY = 65_535  # bytes, by the specification

BOOL, STRING, ARRAY = 7, 8, 9
# little-endian, as `struct` and numpy call them
NUMBERS = {
    0: "<u1",
    1: "<i1",
    2: "<u2",
    3: "<i2",
    4: "<u4",
    5: "<i4",
    6: "<f4",
    BOOL: "|b1",
    10: "<u8",
    11: "<i8",
    12: "<f8",
}
FORMATS = dict(zip(NUMBERS, "BbHhIif?Qqd", strict=True))
LEAST = {kind: np.dtype(n).itemsize for kind, n in NUMBERS.items()} | {STRING: 8, ARRAY: 12}
TYPES = {e.name: n for n, e in ELEMENTS.items()}


@dataclass
class _Cursor:
    """A place in the file; reads forward, and never beyond the end."""

    file: Path
    data: mmap.mmap
    at: int = 0

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def take(self, count: int, what: str) -> bytes:
        """The next bytes."""
        if count > self.left:
            raise bad(self.file, f"{what} needs {count} bytes at {self.at}, of {len(self.data)}")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, kind: int, what: str) -> Any:
        """The next number."""
        text = self.take(LEAST[kind], what)
        if kind == BOOL and text not in (b"\0", b"\1"):
            raise bad(self.file, f"{what} is a bool of {text[0]}")
        return struct.unpack("<" + FORMATS[kind], text)[0]

    def u32(self, what: str) -> int:
        return self.number(4, what)

    def u64(self, what: str) -> int:
        return self.number(10, what)

    def text(self, what: str, limit: int | None = None) -> str:
        """The next text, after its length."""
        length = self.u64(what)
        if limit is not None and length > limit:
            raise bad(self.file, f"{what} claims {length} bytes, of {limit} allowed")
        taken = self.take(length, what)
        try:
            return taken.decode("utf-8")
        except UnicodeDecodeError as e:
            why = f"{what} is not UTF-8: {taken[e.start : e.start + 4]!r} at {self.at - length + e.start}"
            raise bad(self.file, why) from None

    def texts(self, count: int, what: str) -> tuple[str, ...]:
        """The next texts; vocabularies have hundreds of thousands."""
        data, at, end = self.data, self.at, len(self.data)
        found: list[str] = []
        for _ in range(count):
            start = at + 8
            at = start + int.from_bytes(data[at:start], "little")
            try:
                found.append(data[start:at].decode("utf-8") if at <= end else self.text(what))
            except UnicodeDecodeError:
                self.at = start - 8
                self.text(what)  # which says where it is no UTF-8
            self.at = at
        return tuple(found)

    def count(self, what: str, least: int) -> int:
        """The next u64 as a number of things, each of which takes `least` bytes or more."""
        found = self.u64(what)
        if found > self.left // least:
            raise bad(self.file, f"it claims {found} {what}, with {self.left} bytes left")
        return found


def read_gguf(file: Path) -> tuple[dict[str, StoredTensor], dict[str, Any]]:
    """The tensors, shapes outermost axis first, and the metadata: numbers, texts, arrays of them.

    Arrays of numbers are read-only numpy arrays, those of texts or arrays tuples.
    """
    with file.open("rb") as f:
        if file.stat().st_size < 24:
            raise bad(file, f"{file.stat().st_size} bytes are too few for a file of GGUF")
        with mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _read(_Cursor(file, data))


def _read(cursor: _Cursor) -> tuple[dict[str, StoredTensor], dict[str, Any]]:
    file = cursor.file
    if cursor.take(4, "the magic") != MAGIC:
        raise bad(file, "it is no file of GGUF")
    version = cursor.u32("the version")
    if version not in VERSIONS:
        if version.to_bytes(4, "little") in (v.to_bytes(4, "big") for v in VERSIONS):
            raise bad(
                file, "it is a big-endian file of GGUF, of which only little-endian ones are read"
            )
        raise bad(file, f"it is GGUF of version {version}, of which 2 and 3 are read")
    tensors = cursor.count("tensors", 8 + 4 + 8 + 4 + 8)
    pairs = cursor.count("keys", 8 + 4 + 1)
    metadata = _metadata(cursor, pairs)
    alignment = metadata.get("general.alignment", ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 1 or alignment & alignment - 1:
        raise bad(file, f"general.alignment is {str(alignment)[:40]}, no power of 2")
    rows = [_row(cursor) for _ in range(tensors)]
    begin = -(-cursor.at // alignment) * alignment
    stored: dict[str, StoredTensor] = {}
    for row in rows:
        if row.name in stored:
            raise bad(file, f"it holds {row.name[:80]} twice")
        stored[row.name] = _placed(cursor, row, begin, alignment)
    _check_overlap(file, list(stored.values()))
    return stored, metadata


def _metadata(cursor: _Cursor, count: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(count):
        key = cursor.text("a key", MAX_KEY)
        if key in found:
            raise bad(cursor.file, f"it has the key {key[:80]} twice")
        found[key] = _value(cursor, cursor.u32(f"the type of {key[:80]}"), key[:80], 0)
    return found


def _value(cursor: _Cursor, kind: int, key: str, depth: int) -> Any:
    if kind in NUMBERS:
        return cursor.number(kind, key)
    if kind == STRING:
        return cursor.text(key)
    if kind != ARRAY or depth == MAX_DEPTH:
        what = "an array in too many others" if kind == ARRAY else f"of the unknown type {kind}"
        raise bad(cursor.file, f"{key} is {what}")
    inner = cursor.u32(f"the type of {key}")
    if inner not in LEAST:
        raise bad(cursor.file, f"{key} is an array of the unknown type {inner}")
    count = cursor.count(f"elements of {key}", LEAST[inner])
    if inner in NUMBERS:
        taken = cursor.take(count * LEAST[inner], key)
        if inner == BOOL and taken.translate(None, b"\0\1"):
            raise bad(cursor.file, f"{key} is an array of bools with bytes other than 0 and 1")
        return np.frombuffer(taken, NUMBERS[inner])
    if inner == STRING:
        return cursor.texts(count, key)
    return tuple(_value(cursor, inner, key, depth + 1) for _ in range(count))


@dataclass(frozen=True)
class _Row:
    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int


def _row(cursor: _Cursor) -> _Row:
    name = cursor.text("a tensor's name", MAX_KEY)
    short = name[:80]
    axes = cursor.u32(f"the axes of {short}")
    if axes > MAX_AXES:
        raise bad(cursor.file, f"{short} has {axes} axes, of {MAX_AXES} allowed")
    extents = [cursor.u64(f"the shape of {short}") for _ in range(axes)]
    if any(e >= 1 << 63 for e in extents):
        raise bad(cursor.file, f"the shape of {short}, {extents[::-1]}, is not one of sizes")
    kind = cursor.u32(f"the type of {short}")
    if kind not in ELEMENTS:
        raise bad(cursor.file, f"{short} is of the unknown type {kind}")
    return _Row(name, tuple(reversed(extents)), kind, cursor.u64(f"the offset of {short}"))


def _placed(cursor: _Cursor, row: _Row, begin: int, alignment: int) -> StoredTensor:
    """A row, checked against the file; ggml's first axis is the fastest, ours the last."""
    file, short, element = cursor.file, row.name[:80], ELEMENTS[row.kind]
    fastest = row.shape[-1] if row.shape else 1
    if fastest % element.items:
        what = shown(element.name, row.shape)
        raise bad(file, f"{short} is {what}, whose rows are no whole blocks of {element.items}")
    if row.offset % alignment:
        raise bad(file, f"{short} is at {row.offset}, no multiple of the alignment {alignment}")
    total = len(cursor.data)
    blocks = (*row.shape[:-1], fastest // element.items)
    size = bytes_of(blocks, element.bytes, total)
    if begin + row.offset + size > total:
        what = shown(element.name, row.shape)
        why = f"{short} is {what} at {begin + row.offset}, which the {total} bytes do not hold"
        raise bad(file, why)
    place = begin + row.offset
    return StoredTensor(row.name, element.name, row.shape, file, place, size, element.dtype)


def _check_overlap(file: Path, stored: list[StoredTensor]) -> None:
    end, before = 0, ""
    for s in sorted(stored, key=lambda s: (s.begin, s.size)):
        if s.size and s.begin < end:
            raise bad(file, f"{s.name[:80]} overlaps {before[:80]}")
        if s.size:
            end, before = s.begin + s.size, s.name


def load(stored: StoredTensor) -> Array:
    """The tensor: a view of the file, or the f32 that its blocks stand for."""
    element = ELEMENTS[TYPES[stored.kind]]
    if element.blocks is None or math.prod(stored.shape) == 0:
        return mapped(stored)
    found = dequantised(mapped_bytes(stored), element).reshape(stored.shape)
    found.flags.writeable = False
    return found


def packed(stored: Mapping[str, StoredTensor]) -> dict[str, Packed]:
    """The tensors that are blocks of small integers, by name."""
    found: dict[str, Packed] = {}
    for name, tensor in stored.items():
        element = ELEMENTS[TYPES[tensor.kind]]
        if element.blocks is not None and math.prod(tensor.shape):
            read = partial(_field, tensor, element)
            found[name] = element.blocks.packed(element.name, tensor.shape, read, (name,))
    return found


def _field(stored: StoredTensor, element: Element, name: str) -> Array:
    return field(mapped_bytes(stored), element, name)
