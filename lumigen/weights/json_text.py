"""JSON beside weights and inside them: texts of bounded size, objects without double keys or half characters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from lumigen.weights.stored import bad

CONFIG = "config.json"
GENERATION = "generation_config.json"
ENDS = "eos_token_id"
MAX_CONFIG = 10_000_000  # bytes


def config_beside(folder: Path) -> dict[str, Any]:
    """The config.json of a directory; empty if there is none.

    The tokens that end a text are those of generation_config.json where it has some, as in transformers.
    """
    found = config_in(folder / CONFIG)
    generation = config_in(folder / GENERATION)
    for file, said in ((CONFIG, found), (GENERATION, generation)):
        if not _are_tokens(said.get(ENDS)):
            shown = str(said[ENDS])[:80]
            raise bad(folder / file, f"its {ENDS} is {shown}, and no token's id or a list of them")
    ends = generation.get(ENDS)
    return found if ends is None or not found else {**found, ENDS: ends}


def _are_tokens(said: object) -> bool:
    """Whether it is an id, a list of ids, or nothing."""
    ids = cast("list[object]", said) if isinstance(said, list) else [said]
    return said is None or all(type(i) is int and i >= 0 for i in ids)


def config_in(file: Path) -> dict[str, Any]:
    """The object in a file of JSON; empty if there is no such file."""
    return json_object(file, bounded_text(file, MAX_CONFIG)) if file.is_file() else {}


def bounded_text(file: Path, limit: int) -> bytes:
    size = file.stat().st_size
    if size > limit:
        raise bad(file, f"{size} bytes of JSON are more than the {limit} allowed")
    return file.read_bytes()


def json_object(file: Path, text: bytes) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise bad(file, f"its JSON has the key {key[:80]!r} twice")
            if _has_half(key) or (isinstance(value, str) and _has_half(value)):
                raise bad(file, f"its JSON has half a character, at the key {key[:80]!r}")
            found[key] = value
        return found

    try:
        value: object = json.loads(text.decode("utf-8"), object_pairs_hook=once)
    except (ValueError, RecursionError) as e:
        raise bad(file, f"its JSON cannot be read: {str(e).splitlines()[0][:120]}") from None
    if not isinstance(value, dict):
        raise bad(file, "its JSON is not an object")
    return cast("dict[str, Any]", value)


def _has_half(text: str) -> bool:
    """Whether half a character of UTF-16 stands alone: a text that no UTF-8 can hold."""
    return any("\ud800" <= c <= "\udfff" for c in text)
