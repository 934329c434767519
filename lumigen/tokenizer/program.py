"""Patterns of pre-tokenisers as programs for a small matcher, so that other languages need no regular expressions.

Promises what Python's `re` matches: a set of characters is what `re` itself finds among all of Unicode, and
choices are tried in its order. What the matcher has not is a ValueError.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from lumigen.tokenizer.patterns import Ranges, category, compiled, complement, translated

MATCHED, SET, SPLIT, JUMP, GROUP, BEGIN = range(6)  # as runtime/text/pattern.h has them
MUST, MUST_NOT, TAKE = range(3)  # what a group does
MAX_PROGRAM = 4096  # instructions
MAX_DEPTH = 8  # of groups in groups
LAST = sys.maxunicode
NAMED = re.compile(r"(?<!\\)(?:\\\\)*\\([pP])\{(\^?)(\w+)\}")  # \p{..}, as `patterns` reads it

Code = list[tuple[int, int, int]]  # places are relative to the begin of the code


@dataclass
class Programs:
    """The programs of patterns, and the sets that they share."""

    sets: list[Ranges] = field(default_factory=list[Ranges])
    patterns: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])

    def add(self, pattern: str) -> int:
        """The number of the pattern's program."""
        if pattern not in self.patterns:
            compiled(pattern)  # refuses what Python has not
            code, _ = _Parser(pattern, self._set).parse()
            if len(code) > MAX_PROGRAM:
                raise ValueError(f"the pattern {pattern[:80]!r}, which is too long")
            self.patterns[pattern] = tuple(n for row in code for n in row)
        return list(self.patterns).index(pattern)

    def may_be_empty(self, pattern: str) -> bool:
        """Whether it matches a text of no characters somewhere."""
        return _Parser(pattern, self._set).parse()[1]

    def _set(self, ranges: Ranges) -> int:
        if ranges not in self.sets:
            self.sets.append(ranges)
        return self.sets.index(ranges)


@functools.cache
def _all_characters() -> str:
    return "".join(map(chr, range(LAST + 1)))


def ranges_of(holds: Callable[[str], bool]) -> Ranges:
    """The characters that a predicate holds of."""
    found: list[tuple[int, int]] = []
    for c in range(LAST + 1):
        if not holds(chr(c)):
            continue
        if found and found[-1][1] == c - 1:
            found[-1] = (found[-1][0], c)
        else:
            found.append((c, c))
    return tuple(found)


@functools.lru_cache(maxsize=512)
def characters(atom: str, *, ignore_case: bool) -> Ranges:
    """The characters that an expression for one character matches."""
    if not ignore_case and (named := NAMED.findall(atom)):
        return _of_categories(atom, named)
    flags = re.IGNORECASE if ignore_case else re.NOFLAG
    every = re.compile(f"(?:{translated(atom)})+", flags).finditer(_all_characters())
    return tuple((m.start(), m.end() - 1) for m in every)


def _of_categories(atom: str, named: list[tuple[str, str, str]]) -> Ranges:
    r"""The same for `\p{..}` or a class with some, which `re` is slow to look up.

    What else is in the class `re` finds.
    """
    sets: list[Ranges] = []
    for letter, caret, name in named:
        found = category(name)
        sets.append(complement(found) if (letter == "P") != bool(caret) else found)
    if not atom.startswith("["):
        return sets[0]
    is_not = atom.startswith("[^")
    rest = NAMED.sub(lambda m: m[0].rpartition("\\")[0], atom[2 if is_not else 1 : -1])
    if rest:
        literal = "\\" if rest[0] == "^" else ""
        sets.append(characters(f"[{literal}{rest}]", ignore_case=False))
    found = _union(sets)
    return complement(found) if is_not else found


def _union(sets: list[Ranges]) -> Ranges:
    found: list[tuple[int, int]] = []
    for first, last in sorted(pair for ranges in sets for pair in ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return tuple(found)


class _Parser:
    """Structure alone: alternatives, groups, repetition. What a character may be is `re`'s to say."""

    def __init__(self, pattern: str, number_of: Callable[[Ranges], int]) -> None:
        self.pattern = pattern
        self.at = 0
        self.ignore_case = False
        self.depth = 0
        self.number_of = number_of

    def wrong(self, what: str) -> ValueError:
        return ValueError(f"{what} in the pattern {self.pattern[:80]!r}")

    def parse(self) -> tuple[Code, bool]:
        code, may_be_empty = self.alternatives()
        if self.at < len(self.pattern):
            raise self.wrong(f"{self.pattern[self.at]!r}")
        return [*code, (MATCHED, 0, 0)], may_be_empty

    def looks_at(self, text: str) -> bool:
        return self.pattern.startswith(text, self.at)

    def takes(self, text: str) -> bool:
        if not self.looks_at(text):
            return False
        self.at += len(text)
        return True

    def alternatives(self) -> tuple[Code, bool]:
        """The code, and whether it may match nothing."""
        ignored = self.ignore_case
        branches = [self.sequence()]
        while self.takes("|"):
            branches.append(self.sequence())
        self.ignore_case = ignored
        code, may_be_empty = branches.pop()
        for before, its_empty in reversed(branches):
            code = either(before, code)
            may_be_empty = may_be_empty or its_empty
        return code, may_be_empty

    def sequence(self) -> tuple[Code, bool]:
        code: Code = []
        may_be_empty = True
        while self.at < len(self.pattern) and not self.looks_at("|") and not self.looks_at(")"):
            one, its_empty = self.repeated(*self.atom())
            code = then(code, one)
            may_be_empty = may_be_empty and its_empty
        return code, may_be_empty

    def atom(self) -> tuple[Code, bool]:
        if self.takes("("):
            return self.group()
        if self.takes("^") or self.takes("\\A"):
            return [(BEGIN, 0, 0)], True
        if any(map(self.looks_at, ("$", "\\b", "\\B", "\\Z", "\\z"))):
            raise self.wrong(self.pattern[self.at : self.at + 2])
        text = self.one_character()
        number = self.number_of(characters(text, ignore_case=self.ignore_case))
        return [(SET, number, 0)], False

    def one_character(self) -> str:
        """The text of a class, an escape or a character."""
        start = self.at
        if self.takes("["):
            self.takes("^")
            self.takes("]")
            while not self.takes("]"):
                self.at += 2 if self.looks_at("\\") else 1
        elif self.takes("\\"):
            named = self.pattern[self.at : self.at + 1]
            self.at += {"x": 3, "u": 5, "U": 9}.get(named, 1)
            if named in ("p", "P"):
                self.at = self.pattern.index("}", self.at) + 1
        else:
            self.at += 1
            found = self.pattern[start]
            return found if found == "." else re.escape(found)
        return self.pattern[start : self.at]

    def group(self) -> tuple[Code, bool]:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.wrong("groups too deep")
        kinds = {"?=": MUST, "?!": MUST_NOT, "?>": TAKE}
        kind = next((k for text, k in kinds.items() if self.takes(text)), None)
        ignored = self.ignore_case
        if kind is None and self.looks_at("?") and not self.takes("?:"):
            if self.takes("?i)"):  # from here on, which Python has at the beginning alone
                self.ignore_case = True
                self.depth -= 1
                return [], True
            if not self.takes("?i:"):
                raise self.wrong(self.pattern[self.at - 1 : self.at + 3])
            self.ignore_case = True
        code, may_be_empty = self.alternatives()
        self.ignore_case = ignored
        self.at += 1  # the bracket: `re` has seen it
        self.depth -= 1
        if kind is None:
            return code, may_be_empty
        return group(code, kind), may_be_empty or kind != TAKE

    def repeated(self, code: Code, may_be_empty: bool) -> tuple[Code, bool]:
        counts = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        bounds = next((c for text, c in counts.items() if self.takes(text)), None) or self.braces()
        if bounds is None:
            return code, may_be_empty
        least, most = bounds
        is_lazy, is_possessive = self.takes("?"), self.takes("+")
        if most is None and may_be_empty:
            raise self.wrong("a repetition of what may be nothing")
        if (most or least) * len(code) > MAX_PROGRAM:
            raise self.wrong("too many repetitions")
        out: Code = []
        for _ in range(least):
            out = then(out, code)
        if most is None:
            out = then(out, star(code, is_lazy=is_lazy))
        else:
            optional: Code = []
            for _ in range(most - least):
                optional = maybe(then(code, optional), is_lazy=is_lazy)
            out = then(out, optional)
        return group(out, TAKE) if is_possessive else out, may_be_empty or least == 0

    def braces(self) -> tuple[int, int | None] | None:
        found = re.compile(r"\{(\d*)(,?)(\d*)\}").match(self.pattern, self.at)
        if found is None or not (found[1] or found[3]):
            return None  # a bracket like any character
        self.at = found.end()
        least = int(found[1] or 0)
        most = int(found[3]) if found[3] else None if found[2] else least
        return least, most


def moved(code: Code, by: int) -> Code:
    """The code, where it begins `by` later."""
    places = {SPLIT: (by, by), JUMP: (by, 0), GROUP: (by, 0)}
    rows = ((op, a, b, *places.get(op, (0, 0))) for op, a, b in code)
    return [(op, a + x, b + y) for op, a, b, x, y in rows]


def then(first: Code, second: Code) -> Code:
    return [*first, *moved(second, len(first))]


def either(first: Code, second: Code) -> Code:
    """The first; should that, or what follows, not match, the second."""
    middle = len(first) + 2
    end = middle + len(second)
    return [(SPLIT, 1, middle), *moved(first, 1), (JUMP, end, 0), *moved(second, middle)]


def maybe(code: Code, *, is_lazy: bool) -> Code:
    inside, after = 1, len(code) + 1
    split = (SPLIT, after, inside) if is_lazy else (SPLIT, inside, after)
    return [split, *moved(code, 1)]


def star(code: Code, *, is_lazy: bool) -> Code:
    """Any number of times."""
    return [*maybe([*code, (JUMP, -1, 0)], is_lazy=is_lazy)]


def group(code: Code, kind: int) -> Code:
    end = len(code) + 2
    return [(GROUP, end, kind), *moved([*code, (MATCHED, 0, 0)], 1)]
