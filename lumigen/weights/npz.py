"""npz: arrays that numpy.savez has written, mapped where they lie in the archive.

Promises that headers are data and never code, and that no array is larger than the file.
"""

from __future__ import annotations

import ast
from itertools import accumulate
from operator import mul
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from lumigen.dtype import DType, of_numpy
from lumigen.weights import archive
from lumigen.weights.stored import MAX_RANK, StoredTensor, bad, bytes_of, shown

MAGIC = b"\x93NUMPY"
MAX_HEADER = 10_000  # bytes; numpy's own limit
KIND_OF = {"bool": "BOOL"}  # as errors name them
ERRORS = (*archive.ERRORS, ArithmeticError, SyntaxError, TypeError, RecursionError, MemoryError)


def read_npz(file: Path) -> dict[str, StoredTensor]:
    """The arrays; a compressed one may swell without bound and is refused."""
    remedy = "save it with numpy.savez"
    found: dict[str, StoredTensor] = {}
    with file.open("rb") as f:
        for member in archive.members(file, "npz file", remedy).values():
            name = member.name.removesuffix(".npy")
            if name in found:
                raise bad(file, f"it holds {name[:80]} twice")
            try:
                found[name] = _entry(file, f, member, name)
            except ERRORS as e:
                raise bad(file, f"it is no npz file: {archive.first_line(e)}") from None
    return found


def _entry(file: Path, f: BinaryIO, member: archive.Member, name: str) -> StoredTensor:
    """A member, checked against its header, a dict literal: `descr`, `fortran_order`, `shape`."""
    f.seek(member.begin)
    if f.read(6) != MAGIC:
        raise bad(file, f"it is no npz file: {name[:80]} is no array of numpy's")
    wide = 2 if f.read(2)[:1] == b"\1" else 4  # bytes that the header's length takes
    length = int.from_bytes(f.read(wide), "little")
    if length > MAX_HEADER:
        raise bad(file, f"the header of {name[:80]} claims {length} bytes")
    header: Any = ast.literal_eval(f.read(length).decode("utf-8"))
    descr, fortran, extents = (header[k] for k in ("descr", "fortran_order", "shape"))
    if not isinstance(descr, str) or not isinstance(extents, tuple):
        raise bad(file, f"{name[:80]} has fields, or a shape that is none")
    dtype = np.dtype(descr)
    begin = member.begin + len(MAGIC) + 2 + wide + length
    shape = cast("tuple[Any, ...]", extents)
    size = member.begin + member.size - begin
    short = name[:80]
    if len(shape) > MAX_RANK or not all(type(e) is int and 0 <= e < 1 << 63 for e in shape):
        raise bad(file, f"the shape of {short} is not a list of sizes")
    if size < 0 or bytes_of(shape, dtype.itemsize, max(size, 0)) != size:
        raise bad(file, f"{short} is {shown(str(dtype), shape)} and {size} bytes long")
    ours = _ours(dtype)
    kind = KIND_OF.get(str(dtype), str(dtype))
    strides = tuple(accumulate(shape[:-1], mul, initial=1)) if fortran and shape else None
    return StoredTensor(name, kind, shape, file, begin, size, ours, strides)


def _ours(dtype: np.dtype[Any]) -> DType | None:
    return of_numpy(dtype) if not dtype.hasobject and dtype.isnative else None
