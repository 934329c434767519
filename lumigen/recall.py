"""recall: whether a directory holds what would be emitted, so that nothing has to be lowered again.

A key stands for all that decides what is emitted: the traced model with its lines, the options, the weights' data and
lumigen's own sources. The cache keeps the summary of a key and the hash of the manifest that it led to. Promises
never to take an edited project, or one of another key, for the one that is asked for.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lumigen import debug
from lumigen.directory import MANIFEST, digest_of, emitted_as_recorded
from lumigen.errors import UserError
from lumigen.files import read_regular, whole_file
from lumigen.model_weights import weights_path
from lumigen.resources import runtime_dir, templates_dir
from lumigen.weights import read_header

Array = npt.NDArray[Any]


def key_of(texts: Iterable[str], weights: Iterable[tuple[str, Array]] | None) -> str:
    """Of the texts in their order, the weights by name in theirs, and this version of lumigen."""
    found = hashlib.blake2b(digest_size=20)
    for path in _sources():
        found.update(path.read_bytes())
    for text in texts:
        found.update(f"{len(text)}:{text}".encode())
    for name, array in weights or ():
        found.update(f"{name}:{array.dtype}:{array.shape}:".encode())
        found.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return found.hexdigest()


def _sources() -> list[Path]:
    """What lumigen is made of; in an order that does not depend on where it lies."""
    package = Path(__file__).parent
    roots = (package, templates_dir(), runtime_dir())
    return [p for r in roots for p in sorted(r.rglob("*")) if p.is_file() and _is_source(p)]


def _is_source(path: Path) -> bool:
    return "__pycache__" not in path.parts


def recall(directory: Path, key: str) -> dict[str, Any] | None:
    """The summary of an earlier compilation with this key, if the directory holds what it made."""
    try:
        record: Any = json.loads(read_regular(_record(key)) or b"{}")
        said = record["said"]
        is_whole = record["hash"] == _hash_of(said)
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    manifest = read_regular(directory / MANIFEST)
    if not is_whole or manifest is None or said["manifest"] != digest_of(manifest):
        return None
    stated = json.loads(manifest)
    weights = weights_path(directory, stated["model"])
    is_there = emitted_as_recorded(directory) and stated["weights_hash"] == _weights_hash(weights)
    return said["summary"] if is_there else None


def remember(directory: Path, key: str, summary: Mapping[str, Any]) -> None:
    """Keep a summary; a cache that cannot be written is none."""
    said = {"manifest": digest_of((directory / MANIFEST).read_bytes()), "summary": dict(summary)}
    with suppress(OSError), whole_file(_record(key)) as file:
        file.write(json.dumps({"hash": _hash_of(said), "said": said}, indent=1).encode())


def _record(key: str) -> Path:
    return debug.cache_dir() / "compiled" / f"{key}.json"


def _hash_of(said: object) -> str:
    """By which a record that was damaged is known."""
    return digest_of(json.dumps(said, sort_keys=True).encode())


def _weights_hash(path: Path) -> str | None:
    """What a weights file of ours says of its data; None if there is no such file, whole."""
    try:
        return read_header(path)[1].get("lumigen.hash")
    except (OSError, UserError):
        return None
