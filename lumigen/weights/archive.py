"""Zip archives whose members are stored as they are, so that they can be mapped.

Promises that a member lies inside the file, and that no name stands for two of them.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

from lumigen.weights.stored import bad

LOCAL_HEADER = 30  # bytes, before the name and the extra field
LOCAL_MAGIC = b"PK\x03\x04"
ERRORS = (
    zipfile.BadZipFile,
    OSError,
    EOFError,
    KeyError,
    ValueError,
    NotImplementedError,
    RuntimeError,
)


@dataclass(frozen=True)
class Member:
    """A member of an archive: where its bytes are in the file."""

    name: str
    begin: int
    size: int


def first_line(e: Exception) -> str:
    """What an exception of a library says, for a clause of ours."""
    return (next(iter(str(e).splitlines()), "") or type(e).__name__)[:120]


def names(file: Path) -> list[str]:
    """The names in an archive, unchecked; the first alone of one whose list of contents, at its end, is missing."""
    try:
        with zipfile.ZipFile(file) as archive:
            return archive.namelist()
    except ERRORS:
        with file.open("rb") as f:
            head = f.read(LOCAL_HEADER)
            length = int.from_bytes(head[26:28], "little")
            return [f.read(length).decode(errors="replace")]


def _has_end(file: Path) -> bool:
    """Whether there is a list of contents at the end."""
    try:
        return zipfile.is_zipfile(file)
    except zipfile.BadZipFile:
        return True


def members(file: Path, what: str, remedy: str) -> dict[str, Member]:
    """Every member by name; `what` the file should be, `remedy` for one that is compressed."""
    found: dict[str, Member] = {}
    total = file.stat().st_size
    try:
        with zipfile.ZipFile(file) as archive, file.open("rb") as f:
            for info in archive.infolist():
                name = info.filename
                if name in found:
                    raise bad(file, f"it holds {name[:80]} twice")
                if info.flag_bits & 1:
                    raise bad(file, f"{name[:80]} is encrypted")
                if info.compress_type != zipfile.ZIP_STORED:
                    raise bad(file, f"{name[:80]} is compressed; {remedy}")
                f.seek(info.header_offset)
                head = f.read(LOCAL_HEADER)
                if len(head) < LOCAL_HEADER or not head.startswith(LOCAL_MAGIC):
                    raise bad(file, f"{name[:80]} is not where its table says")
                skip = int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:], "little")
                begin = info.header_offset + LOCAL_HEADER + skip
                size = info.file_size
                if size != info.compress_size or begin + size > total:
                    raise bad(file, f"{name[:80]} claims {size} bytes at {begin}, of {total}")
                found[name] = Member(name, begin, size)
    except ERRORS as e:
        if not _has_end(file):
            why = f"it is truncated: it has no list of contents, with which every {what} ends"
            raise bad(file, why) from None
        raise bad(file, f"it is no {what}: {first_line(e)}") from None
    return found
