"""A tokenizer as the text of a file that a program in C++ reads: runtime/text/tokenizer.h.

Promises that the program finds the same ids and texts as `encode` and `decode`; what it could not is a
ValueError. docs/design/0016-text-generation.md describes the format.
"""

from __future__ import annotations

import functools
import json
import math
import struct
import unicodedata
from typing import Any, cast

from lumigen.tokenizer.data import Added, TextStep, Tokenizer
from lumigen.tokenizer.encode import INTO_PARTS, ON_TEXT
from lumigen.tokenizer.patterns import WORD, Ranges
from lumigen.tokenizer.program import LAST, Programs, characters, ranges_of

FORMAT = 1
PLAIN = frozenset({"prepend", "prepend_missing", "prepend_first", "strip_left", "strip_right"})
# the step that a normal form is in the file, and whether it is by the tables of compatibility
FORMS = {
    "nfc": ("compose", False),
    "nfd": ("decompose", False),
    "nfkc": ("compose", True),
    "nfkd": ("decompose", True),
}
BY_CHARACTER = frozenset({"lower", "strip_accents"})  # what they do to a character is a table
HANGUL = range(0xAC00, 0xD7A4)  # composed by arithmetic


def shipped(t: Tokenizer) -> str:
    """The text of the file."""
    if t.algorithm == "wordpiece":
        raise ValueError("a tokenizer by word pieces, which no model of texts has")
    programs = Programs()
    steps = [_step(step, programs) for step in (*t.normalize, *t.split)]
    others, merges = _merges(t)
    fields: dict[str, Any] = {
        "lumigen_tokenizer": FORMAT,
        "algorithm": t.algorithm,
        "spelling": t.spelling,
        "tokens": t.tokens,
        "others": others,
        "ranks": _ranks(t) if t.algorithm == "scores" else [],
        "scores": _halves(t.scores) if t.algorithm == "unigram" else [],
        "merges": merges,
        "byte_ids": [t.byte_ids.get(b, -1) + 1 for b in range(256)],
        "unknown": [] if t.unknown is None else [t.unknown],
        "before": t.before,
        "after": t.after,
        "end_of_word": t.end_of_word,
        "byte_fallback": int(t.byte_fallback),
        "fuse_unknown": int(t.fuse_unknown),
        "ignore_merges": int(t.ignore_merges),
        "strip_space": int(t.strip_space),
        "added": [_added(a) for a in t.added if a.text],
        "steps": steps,
        "sets": [_flat(ranges) for ranges in programs.sets],
        "patterns": list(programs.patterns.values()),
        **_characters(t),
        **_forms(t),
    }
    rows = (f"{json.dumps(key)}: {_text(value)}" for key, value in fields.items())
    return "{\n" + ",\n".join(rows) + "\n}\n"


def _text(value: Any) -> str:
    """A line for each of many."""
    items = cast("list[Any]", value) if isinstance(value, list | tuple) else []
    if not any(isinstance(v, str | dict | list | tuple) for v in items):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    rows = (json.dumps(v, ensure_ascii=False, separators=(",", ":")) for v in items)
    return "[\n" + ",\n".join(rows) + "\n]"


def _ranks(t: Tokenizer) -> list[int]:
    """The place of each token's score among all scores: the greatest is joined first."""
    if any(map(math.isnan, t.scores)):
        raise ValueError("scores that are no numbers")
    place = {score: i for i, score in enumerate(sorted(set(t.scores), reverse=True))}
    return [place[score] for score in t.scores]


def _halves(scores: tuple[float, ...]) -> list[int]:
    """The bits of each score in double precision, the upper 32 and the lower 32: sums must be the same to the last."""
    if not all(map(math.isfinite, scores)):
        raise ValueError("scores that are no numbers")
    return list(struct.unpack(f">{2 * len(scores)}I", struct.pack(f">{len(scores)}d", *scores)))


def _merges(t: Tokenizer) -> tuple[list[str], list[int]]:
    """Texts in merges that are no tokens; both ids of each merge, one after the other."""
    ids = dict(t.ids)
    others: list[str] = []
    found: list[int] = []
    for pair in t.merges:
        for text in pair:
            if text not in ids:
                ids[text] = len(t.tokens) + len(others)
                others.append(text)
            found.append(ids[text])
    return others, found


def _step(step: TextStep, programs: Programs) -> dict[str, Any]:
    if step.name in INTO_PARTS:
        inverts = {"invert": 1} if step.text == "invert" else {}
        return {"name": step.name, "pattern": programs.add(step.pattern), **inverts}
    if step.name in PLAIN:
        return {"name": step.name, "to": step.text}
    if step.name == "map":
        table = [part for pair in step.table for part in pair]
        by = {"pattern": programs.add(step.pattern)} if step.pattern else {}
        return {"name": step.name, **by, "table": table}
    if step.name in BY_CHARACTER:
        return _step(TextStep("map", table=_table(step.name)), programs)
    if step.name in FORMS:
        return {"name": FORMS[step.name][0]}
    if step.name == "replace" and step.pattern:
        return {"name": "replace", "from": step.pattern, "to": step.text}
    if step.name == "replace_pattern" and not programs.may_be_empty(step.pattern):
        return {"name": step.name, "pattern": programs.add(step.pattern), "to": step.text}
    raise ValueError(f"the step {step.name} {step.pattern[:40]!r}".rstrip(" '"))


@functools.cache
def _table(name: str) -> tuple[tuple[str, str], ...]:
    """What a step makes of each character that it changes."""
    points = map(chr, (c for c in range(LAST + 1) if not 0xD800 <= c < 0xE000))
    return tuple((c, new) for c in points if (new := ON_TEXT[name](c, TextStep(name))) != c)


def _added(a: Added) -> dict[str, Any]:
    flags = {
        "special": a.special,
        "strip_left": a.strip_left,
        "strip_right": a.strip_right,
        "single_word": a.single_word,
    }
    return {"id": a.id, "text": a.text, **{name: 1 for name, is_set in flags.items() if is_set}}


def _flat(ranges: Ranges) -> list[int]:
    return [c for pair in ranges for c in pair]


@functools.cache
def _spaces() -> Ranges:
    return ranges_of(str.isspace)


def _characters(t: Tokenizer) -> dict[str, list[int]]:
    """What counts as a space, and as a part of a word, where something asks for it."""
    strips = any(a.strip_left or a.strip_right for a in t.added) or any(
        s.name in ("strip_left", "strip_right") for s in (*t.normalize, *t.split)
    )
    is_about_words = any(a.single_word for a in t.added)
    return {
        "spaces": _flat(_spaces()) if strips else [],
        "words": _flat(characters(f"[{WORD}]", ignore_case=False)) if is_about_words else [],
    }


def _forms(t: Tokenizer) -> dict[str, list[int]]:
    """Unicode's tables for the normal form that a step asks for; empty without one."""
    asked = {FORMS[s.name][1] for s in (*t.normalize, *t.split) if s.name in FORMS}
    if len(asked) > 1:
        raise ValueError("two kinds of normal forms")
    if not asked:
        return {"decompositions": [], "classes": [], "compositions": []}
    return _tables(by_compatibility=asked.pop())


@functools.cache
def _tables(*, by_compatibility: bool) -> dict[str, list[int]]:
    form = "NFKD" if by_compatibility else "NFD"
    decompositions: list[int] = []
    classes: list[int] = []
    compositions: list[int] = []
    for c in range(LAST + 1):
        if c in HANGUL:
            continue
        text = chr(c)
        if found := unicodedata.combining(text):
            classes += [c, found]
        apart = unicodedata.normalize(form, text)
        if apart != text:
            decompositions += [c, len(apart), *map(ord, apart)]
        parts = unicodedata.decomposition(text).split()
        if len(parts) == 2 and "<" not in parts[0] and unicodedata.normalize("NFC", text) == text:
            compositions += [int(parts[0], 16), int(parts[1], 16), c]
    return {"decompositions": decompositions, "classes": classes, "compositions": compositions}
