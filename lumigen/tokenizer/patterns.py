r"""Patterns of pre-tokenisers, as Oniguruma and Rust spell them, for Python's `re`.

Promises Unicode's meaning of `\p{..}`, `\s`, `\d` and `\w`, inside classes and outside, by the Unicode of this
Python; and that what is not understood is a ValueError, never another meaning.
"""

from __future__ import annotations

import functools
import re
import sys
import unicodedata

# the splits of the models that named them; `\s+(?!\S)` leaves the last space to the word after it
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")

Ranges = tuple[tuple[int, int], ...]  # of code points, both ends included

# White_Space of Unicode; Python's own \s has the separators U+001C to U+001F too
SPACES: Ranges = (
    (0x09, 0x0D),
    (0x20, 0x20),
    (0x85, 0x85),
    (0xA0, 0xA0),
    (0x1680, 0x1680),
    (0x2000, 0x200A),
    (0x2028, 0x2029),
    (0x202F, 0x202F),
    (0x205F, 0x205F),
    (0x3000, 0x3000),
)
# A character of words as Rust's `regex` has it (Unicode Technical Standard 18, annex C), by which `tokenizers` tells
# words where no pattern of a file does: marks, joiners, and letters in circles and squares. Inside of brackets.
WORD = (
    r"\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\u200c\u200d\u24b6-\u24e9"
    r"\U0001f130-\U0001f149\U0001f150-\U0001f169\U0001f170-\U0001f189"
)
# What a reader takes for one character, with its marks (extended grapheme clusters, Unicode Standard Annex 29), but for
# those of six bytes and more that are several letters: Hangul, flags, conjuncts, and emoji that are joined.
_BEFORE = (  # marks that stand before their letter
    r"\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u0d4e\U000110bd\U000110cd\U000111c2\U000111c3\U0001193f"
    r"\U00011941\U00011a3a\U00011a84-\U00011a89\U00011d46\U00011f02"
)
_BEHIND = r"\p{M}\u0e33\u0eb3\u200c\u200d\uff9e\uff9f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f"
_ALONE = (  # marks that are written as letters are
    r"\u102b\u102c\u1038\u1062-\u1064\u1067-\u106d\u1083\u1087-\u108c\u108f\u109a-\u109c\u1a61\u1a63\u1a64"
    r"\uaa7b\uaa7d\U00011720\U00011721"
)
CLUSTER = (
    rf"\r\n|[{_BEFORE}]*(?:[^\p{{Cc}}\p{{Cf}}\p{{Zl}}\p{{Zp}}]|[{_BEFORE}{_BEHIND}])(?:(?![{_ALONE}])[{_BEHIND}])*"
    r"|[\s\S]"
)
ENCLOSED: Ranges = ((0x24B6, 0x24E9), (0x1F130, 0x1F149), (0x1F150, 0x1F169), (0x1F170, 0x1F189))
_LETTERS = {
    "L": "ultmo",
    "M": "nce",
    "N": "dlo",
    "P": "cdseifo",
    "S": "mcko",
    "Z": "slp",
    "C": "cfson",
}
CATEGORIES = frozenset(f"{a}{b}" for a, rest in _LETTERS.items() for b in ("", *rest))
PLAIN = frozenset("nrtfvabB0xuU")  # escapes that mean the same here
NOT_PYTHON = ("&&", "[:", "\\G", "\\K", "\\h", "\\R", "\\X", "(?~", "(*")


@functools.cache
def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern; ValueError where it has what Python has not."""
    for part in NOT_PYTHON:
        if part in pattern:
            raise ValueError(f"{part} in the pattern {pattern[:80]!r}")
    try:
        return re.compile(translated(pattern))
    except (re.error, RecursionError, OverflowError) as e:
        raise ValueError(f"the pattern {pattern[:80]!r} ({e})") from None


def translated(pattern: str) -> str:
    """The pattern in Python's spelling."""
    out: list[str] = []
    inside, at = False, 0
    while at < len(pattern):
        c = pattern[at]
        if c == "\\":
            text, at = _escape(pattern, at, inside=inside)
            out.append(text)
            continue
        if c == "[" and inside:
            raise ValueError(f"a class in a class in the pattern {pattern[:80]!r}")
        if c in "[]":
            inside = c == "["
        out.append(c)
        at += 1
    return "".join(out)


def _escape(pattern: str, at: int, *, inside: bool) -> tuple[str, int]:
    c = pattern[at + 1 : at + 2]
    if c in ("p", "P"):
        end = pattern.find("}", at)
        name = pattern[at + 3 : end]
        if pattern[at + 2 : at + 3] != "{" or end < 0 or name.lstrip("^") not in CATEGORIES:
            raise ValueError(f"{pattern[at : at + 12]} in the pattern {pattern[:80]!r}")
        is_not = (c == "P") != name.startswith("^")
        return _set(category(name.lstrip("^")), is_not=is_not, inside=inside), end + 1
    if c in ("s", "S"):
        return _set(SPACES, is_not=c == "S", inside=inside), at + 2
    if c in ("d", "D"):
        return _set(category("Nd"), is_not=c == "D", inside=inside), at + 2
    if c in ("w", "W"):
        return _set(words(), is_not=c == "W", inside=inside), at + 2
    if c.isalnum() and c not in PLAIN:
        raise ValueError(f"\\{c} in the pattern {pattern[:80]!r}")
    return pattern[at : at + 2], at + 2


def _set(ranges: Ranges, *, is_not: bool, inside: bool) -> str:
    chosen = complement(ranges) if is_not else ranges
    text = "".join(f"\\U{a:08x}-\\U{b:08x}" if a < b else f"\\U{a:08x}" for a, b in chosen)
    return text if inside else f"[{text}]"


def complement(ranges: Ranges) -> Ranges:
    """All other code points."""
    found: list[tuple[int, int]] = []
    start = 0
    for a, b in ranges:
        if start < a:
            found.append((start, a - 1))
        start = b + 1
    if start <= sys.maxunicode:
        found.append((start, sys.maxunicode))
    return tuple(found)


@functools.cache
def category(name: str) -> Ranges:
    """The code points of a general category, or of all that begin with its letter."""
    return _of_categories((name,))


@functools.cache
def words() -> Ranges:
    r"""The code points of `\w` as Oniguruma has it: Python's lacks marks, and letters in circles and squares."""
    return _of_categories(("L", "M", "N", "Pc"), ENCLOSED)


def _of_categories(names: tuple[str, ...], others: Ranges = ()) -> Ranges:
    found: list[tuple[int, int]] = []
    for c, letters in enumerate(map(unicodedata.category, map(chr, range(sys.maxunicode + 1)))):
        if not letters.startswith(names) and not any(a <= c <= b for a, b in others):
            continue
        if found and found[-1][1] == c - 1:
            found[-1] = (found[-1][0], c)
        else:
            found.append((c, c))
    return tuple(found)
