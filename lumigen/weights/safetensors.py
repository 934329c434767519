"""safetensors: a header of JSON, then the tensors without overlap, gap or rest.

Promises that every tensor's offsets, shape and dtype agree and lie inside the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from lumigen.dtype import DType, bf16, boolean, f16, f32, f64, i8, i32, i64, u8
from lumigen.weights.json_text import json_object
from lumigen.weights.stored import MAX_RANK, StoredTensor, bad, bytes_of, shown

MAX_HEADER = 100_000_000  # bytes; safetensors' own limit

# the format's dtypes: bits of an element, and ours where we have one
_KINDS = {
    4: "F4",
    6: "F6_E2M3 F6_E3M2",
    8: "BOOL U8 I8 F8_E4M3 F8_E5M2 F8_E8M0 F8_E4M3FNUZ F8_E5M2FNUZ",
    16: "I16 U16 F16 BF16",
    32: "I32 U32 F32",
    64: "I64 U64 F64 C64",
}
ITEM_BITS = {kind: size for size, kinds in _KINDS.items() for kind in kinds.split()}
OURS: dict[str, DType] = {
    "BOOL": boolean,
    "U8": u8,
    "I8": i8,
    "I32": i32,
    "I64": i64,
    "F16": f16,
    "BF16": bf16,
    "F32": f32,
    "F64": f64,
}


def read_header(file: Path) -> tuple[dict[str, StoredTensor], dict[str, str]]:
    """The tensors and the metadata of a safetensors file, checked against the file's size."""
    total = file.stat().st_size
    if total < 8:
        raise bad(file, f"{total} bytes are too few for a safetensors file")
    with file.open("rb") as f:
        length = int.from_bytes(f.read(8), "little")
        if length > min(MAX_HEADER, total - 8):
            if not f.read(1).startswith(b"{"):
                raise bad(file, "it is no safetensors file")
            raise bad(file, f"it claims a header of {length} bytes, in a file of {total}")
        text = f.read(length)
    if len(text) < length:
        raise bad(file, f"it ends within its header of {length} bytes")
    if not text.startswith(b"{"):
        raise bad(file, "its JSON is not an object that begins at once")
    header = json_object(file, text)
    metadata = _metadata(file, header.pop("__metadata__", {}))
    data, room = 8 + length, total - 8 - length
    stored = {name: _entry(file, name, row, data, room) for name, row in header.items()}
    _check_coverage(file, sorted(stored.values(), key=lambda s: (s.begin, s.size)), data, room)
    return stored, metadata


def _metadata(file: Path, value: object) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise bad(file, "its metadata is not an object")
    rows = cast("dict[Any, Any]", value)
    if not all(isinstance(v, str) for v in rows.values()):
        raise bad(file, "its metadata is not an object of texts")
    return rows


def _entry(file: Path, name: str, row: object, data: int, room: int) -> StoredTensor:
    short = name[:80]
    if not isinstance(row, dict):
        raise bad(file, f"the entry of {short} is not an object")
    entry = cast("dict[str, Any]", row)
    kind, shape, span = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(kind, str) or kind not in ITEM_BITS:
        raise bad(file, f"{short} is of the unknown type {str(kind)[:40]}")
    if not _naturals(shape) or len(cast("list[int]", shape)) > MAX_RANK:
        raise bad(file, f"the shape of {short} is not a list of sizes")
    if not _naturals(span) or len(cast("list[int]", span)) != 2:
        raise bad(file, f"the offsets of {short} are not two positions")
    extents = tuple(cast("list[int]", shape))
    begin, end = cast("list[int]", span)
    if not begin <= end <= room:
        raise bad(file, f"{short} is at {begin}..{end}, outside the {room} bytes of data")
    if bytes_of(extents, ITEM_BITS[kind], 8 * room) != 8 * (end - begin):
        what = shown(kind, extents)
        raise bad(file, f"{short} is {what} and {end - begin} bytes long, which do not agree")
    return StoredTensor(name, kind, extents, file, data + begin, end - begin, OURS.get(kind))


def _naturals(value: object) -> bool:
    if not isinstance(value, list):
        return False
    items = cast("list[Any]", value)
    return all(type(v) is int and 0 <= v < 1 << 63 for v in items)


def _check_coverage(file: Path, stored: list[StoredTensor], data: int, room: int) -> None:
    """Tensors follow one another without overlap, gap or rest, as the format demands."""
    end = data
    before = "the header"
    for s in stored:
        if s.begin < end:
            raise bad(file, f"{s.name[:80]} overlaps {before[:80]}")
        if s.begin > end:
            raise bad(file, f"{s.begin - end} bytes before {s.name[:80]} belong to no tensor")
        end, before = s.begin + s.size, s.name
    if end != data + room:
        raise bad(file, f"{data + room - end} bytes at its end belong to no tensor")
