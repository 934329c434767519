"""Checkpoints that are not what they should be: refused when compiled and when opened."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

BIAS = "encoder.layer.1.output.dense.bias"
Header = dict[str, Any]


def renamed(header: Header) -> None:
    header["encoder.layer.1.output.dense.offset"] = header.pop(BIAS)


def misshapen(header: Header) -> None:
    header[BIAS]["shape"] = [*header[BIAS]["shape"], 1]


def retyped(header: Header) -> None:
    header[BIAS]["dtype"] = "I32"


def past_the_end(header: Header) -> None:
    header[BIAS]["data_offsets"][1] += 1 << 40


def of_another_size(header: Header) -> None:
    header[BIAS]["shape"] = [header[BIAS]["shape"][0] + 1]


def missing(header: Header) -> None:
    """Its bytes stay, under a name that nobody asks for."""
    header["zzz"] = header.pop(BIAS)


# what is wrong, what `lumigen compile` says, what `minilm_model_open` says
LIES: dict[str, tuple[Callable[[Header], None], str, str]] = {
    "missing": (missing, "MISSING", "MISSING"),
}
FILES = {
    "cut off": (lambda size: size - 1, "", ""),
}


def damaged(source: Path, target: Path, lie: Callable[[Header], None] | None = None) -> Path:
    """A copy with another header; the numbers are zeros, which take no room on the disk."""
    with source.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    if lie is not None:
        lie(header)
    text = json.dumps(header).encode()
    target.write_bytes(len(text).to_bytes(8, "little") + text)
    with target.open("r+b") as file:
        file.truncate(8 + len(text) + source.stat().st_size - 8 - size)
    return target
