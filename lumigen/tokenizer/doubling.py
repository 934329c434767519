"""Patterns whose search may take twice as long for each further character, as `(?:a|aa)+b` in a long `aaa..`.

Promises to find each of which Python's `re` tries so many ways: it has a place from which two different ways over
the same characters lead back to it (Weber and Seidl, "On the degree of ambiguity of finite automata", 1991).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence

from lumigen.tokenizer.patterns import Ranges
from lumigen.tokenizer.program import GROUP, JUMP, SET, SPLIT, TAKE, Programs

Pair = tuple[int, int]  # of places for a character that two ways have reached
Code = Sequence[tuple[int, int, int]]
REPEATED_GROUP = re.compile(r"\)[*+{]")


def doubles(pattern: str) -> bool:
    """Whether its time may double with each character; ValueError for one that has no program."""
    if not REPEATED_GROUP.search(pattern):
        return False
    programs = Programs()
    programs.add(pattern)
    numbers = programs.patterns[pattern]
    code = tuple(zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True))
    after = {i: _reached(code, i + 1) for i, row in enumerate(code) if row[0] == SET}
    sets = {i: programs.sets[code[i][1]] for i in after}
    component = _components(_pairs(after, sets))
    for i, ways in after.items():
        back = [j for j in ways if component[j, j] == component[i, i]]
        if len(set(back)) < len(back):
            return True  # two ways from one character to the next
    circles = {component[i, i] for i in after}
    return any(a != b and c in circles for (a, b), c in component.items())


def _reached(code: Code, start: int) -> tuple[int, ...]:
    """The places for the next character, one as often as there are ways to it."""
    found: list[int] = []
    todo = [start]
    while todo:
        i = todo.pop()
        if i == len(code):
            continue
        op, a, b = code[i]
        match op:
            case _ if op == SET:
                found.append(i)
            case _ if op == SPLIT:
                todo += [b, a]
            case _ if op == JUMP or (op == GROUP and b != TAKE):
                todo.append(a)
            case _:
                todo.append(i + 1)
    return tuple(found)


def _pairs(
    after: Mapping[int, Sequence[int]], sets: Mapping[int, Ranges]
) -> dict[Pair, list[Pair]]:
    """The pairs that two ways over the same characters reach from one place, each with those that come next."""
    found: dict[Pair, list[Pair]] = {}
    todo = [(i, i) for i in after]
    while todo:
        pair = todo.pop()
        if pair in found:
            continue
        ways = itertools.product(set(after[pair[0]]), set(after[pair[1]]))
        found[pair] = [(a, b) for a, b in ways if _overlap(sets[a], sets[b])]
        todo += found[pair]
    return found


def _overlap(a: Ranges, b: Ranges) -> bool:
    return any(x <= last and first <= y for x, y in a for first, last in b)


def _components(after: Mapping[Pair, Sequence[Pair]]) -> dict[Pair, int]:
    """The number of each pair's strongly connected component, by two searches in depth (Kosaraju)."""
    before: dict[Pair, list[Pair]] = {pair: [] for pair in after}
    for pair, ways in after.items():
        for way in ways:
            before[way].append(pair)
    found: dict[Pair, int] = {}
    for number, root in enumerate(reversed(_finished(after))):
        todo = [root]
        while todo:
            pair = todo.pop()
            if pair not in found:
                found[pair] = number
                todo += before[pair]
    return found


def _finished(after: Mapping[Pair, Sequence[Pair]]) -> list[Pair]:
    """The pairs in the order in which a search in depth leaves them."""
    left: list[Pair] = []
    seen: set[Pair] = set()
    for root in after:
        todo = [(root, False)]
        while todo:
            pair, is_done = todo.pop()
            if is_done:
                left.append(pair)
            elif pair not in seen:
                seen.add(pair)
                todo += [(pair, True), *((way, False) for way in after[pair])]
    return left
