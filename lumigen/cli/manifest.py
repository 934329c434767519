"""What a manifest.json must hold before a command believes it: somebody may have damaged it.

Promises that a manifest which passes can be read by every command without a further look at types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

# A type: of that type; a list: of such; a dict: with these keys at least.
PORT = {"name": str, "dtype": str, "shape": [int | str]}
DIM = {"name": str, "min": int, "max": int, "multiple_of": int, "typical": int}
LAUNCH = {
    "kernel": str,
    "lines": [str],
    "computes": str,
    "flops": str,
    "bytes_read": str,
    "bytes_written": str,
}
ENTRY = {
    "name": str,
    "signature": str,
    "inputs": [PORT],
    "outputs": [PORT],
    "dims": [DIM],
    "launches": [LAUNCH],
}
WEIGHT = {"name": str, "dtype": str, "shape": [int], "layout": str, "bytes": int}
MANIFEST = {
    "lumigen": {"version": str},
    "model": str,
    "version": str,
    "abi": int,
    "target": str,
    "graph_hash": str,
    "options": {},
    "entries": [ENTRY],
    "weights": [WEIGHT],
    "kernels": [str],
    "files": {},
}


def fault(value: object, wanted: Any = MANIFEST, place: str = "it") -> str:
    """What is wrong first, as a clause; empty if nothing is."""
    if isinstance(wanted, list):
        if not isinstance(value, list):
            return f"{place} is no list"
        kind = cast("list[Any]", wanted)[0]
        items = cast("list[object]", value)
        return next(filter(None, (fault(v, kind, f"an item of {place}") for v in items)), "")
    if isinstance(wanted, Mapping):
        if not isinstance(value, dict):
            return f"{place} is no object"
        held = cast("dict[str, object]", value)
        for key, kind in cast("Mapping[str, Any]", wanted).items():
            if key not in held:
                return f"{place} has no {key}"
            if found := fault(held[key], kind, key):
                return found
        return ""
    if not isinstance(value, wanted) or isinstance(value, bool):
        return f"{place} is {str(value)[:40]!r}"
    return ""
