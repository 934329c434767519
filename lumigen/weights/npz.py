"""npz: arrays that numpy.savez has written, mapped where they lie in the archive.

Promises that headers are data and never code, and that no array is larger than the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from lumigen.dtype import DType, of_numpy
from lumigen.weights import archive
from lumigen.weights.stored import MAX_RANK, Stored, bad, bytes_of, shown

KIND_OF = {"bool": "BOOL"}  # as errors name them
ERRORS = (*archive.ERRORS, SyntaxError, TypeError, RecursionError, MemoryError)


def read_npz(file: Path) -> dict[str, Stored]:
    """The arrays; a compressed one may swell without bound and is refused."""
    remedy = "save it with numpy.savez"
    found: dict[str, Stored] = {}
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


def _entry(file: Path, f: BinaryIO, member: archive.Member, name: str) -> Stored:
    f.seek(member.begin)
    version = np.lib.format.read_magic(f)
    read = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    extents, fortran, dtype = read(f)
    shape = tuple(int(e) for e in extents)
    begin = f.tell()
    size = member.begin + member.size - begin
    short = name[:80]
    if len(shape) > MAX_RANK or any(not 0 <= e < 1 << 63 for e in shape):
        raise bad(file, f"the shape of {short} is not a list of sizes")
    if size < 0 or bytes_of(shape, dtype.itemsize, max(size, 0)) != size:
        raise bad(file, f"{short} is {shown(str(dtype), shape)} and {size} bytes long")
    if fortran and len(shape) > 1:
        raise bad(file, f"{short} is column-major; save numpy.ascontiguousarray of it")
    ours = _ours(dtype)
    kind = KIND_OF.get(str(dtype), str(dtype))
    return Stored(name, kind, shape, file, begin, size, ours)


def _ours(dtype: np.dtype[Any]) -> DType | None:
    return of_numpy(dtype) if not dtype.hasobject and dtype.isnative else None
