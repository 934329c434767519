"""files: written whole or not at all, as the user's umask has it; read where they are regular.

Promises that a write which stops early leaves what was there, and that a pipe or a device is never waited for.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

READ_WRITE = 0o666  # of a new file, less what the umask takes


@contextmanager
def whole_file(path: Path, mode: int = READ_WRITE) -> Generator[BinaryIO]:
    """A new file that takes the place of `path` when the block ends, by rename: who has the old one mapped keeps it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            yield file
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def read_regular(path: Path) -> bytes | None:
    """What a regular file holds; None where there is none, or something else of that name."""
    try:
        return path.read_bytes() if path.is_file() else None
    except (FileNotFoundError, NotADirectoryError):
        return None
