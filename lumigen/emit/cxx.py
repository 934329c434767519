"""C++ spellings: index expressions, string literals.

Promises that an expression's text computes the same int64_t as `Ix.evaluate`: quotients and
remainders floor.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from lumigen.errors import LoweringFailed
from lumigen.index import (
    Atom,
    Axis,
    Indicator,
    Ix,
    Lookup,
    MinMax,
    Monomial,
    Quotient,
    Remainder,
    addends,
    is_nonnegative,
    of_atom,
    parts,
)
from lumigen.memo import remembered

Names = Mapping[Any, str] | Callable[[Atom], str]
Read = Callable[[Lookup], str]


def string(text: str) -> str:
    """A string literal; the text may hold anything but NUL."""
    return f'"{re.sub(_SPECIAL, _escaped, text)}"'


_SPECIAL = r"[\x00-\x1f\x7f\\\"]|(?<=\?)\?"  # of two ?, the second: ?? begins a trigraph
_SHORT = {"\n": "\\n", "\t": "\\t"}


def _escaped(found: re.Match[str]) -> str:
    c = found[0]
    return _SHORT.get(c) or (f"\\{c}" if c in '\\"?' else f"\\{ord(c):03o}")


LEAST = -(2**63)  # of an int64_t


def with_places(names: Callable[[Atom], str], places: Mapping[Axis, str]) -> Names:
    """The same names, but for axes that stand for integers computed in the kernel."""

    def name(atom: Atom) -> str:
        found = places.get(atom) if isinstance(atom, Axis) else None
        return names(atom) if found is None else found

    return name


def expression(e: Ix, names: Names, read: Read | None = None) -> str:
    """The expression as C++ text of type int64_t.

    `names` spells dims and axes; `read` spells a lookup. Quotients and remainders whose numerator
    might be negative, minima and maxima call functions of `runtime/index.h`.
    """
    return _whole(e, names, read)


def calls(e: Ix) -> bool:
    """Whether the text of an expression calls functions of `runtime/index.h`."""
    return any(_calls(atom) for monomial, _ in e.terms for atom in monomial)


def _calls(atom: Atom) -> bool:
    if isinstance(atom, Lookup):
        return False  # it is spelled by itself
    floors = isinstance(atom, Quotient | Remainder) and not is_nonnegative(atom.numerator)
    return floors or isinstance(atom, MinMax) or any(map(calls, parts(atom)))


def is_word(e: Ix) -> bool:
    """Whether an index is spelled as one name or number."""
    if e.is_const:
        return is_plain(e.const)
    return e.const == 0 and len(e.terms) == 1 and e in map(of_atom, e.axes)


def is_plain(value: int) -> bool:
    """Whether an integer is spelled as one word."""
    return 0 <= value < 2**31 or value == LEAST


def _whole(e: Ix, names: Names, read: Read | None) -> str:
    """The text where nothing of it meets an operator: a quotient alone needs no brackets."""
    text = _sum(e, names, read)
    is_bracketed = (
        _is_one_word(e)
        and text.startswith("(")
        and isinstance(e.terms[0][0][0], Quotient | Remainder)
    )
    return text[1:-1] if is_bracketed else text


def _sum(e: Ix, names: Names, read: Read | None) -> str:
    if e.const == LEAST and e.terms:  # adding it overflows for half of all numbers
        out = _sum(e - e.const, names, read)
        return f"({out if out.isidentifier() else f'({out})'} ^ {integer(e.const)})"
    out, overflows = "", int_reach(e) >= 2**31
    for monomial, c in addends(e.terms, e.const):
        if not monomial and not out:
            out = integer(c)
            continue
        factors = [] if abs(c) == 1 and monomial else [integer(abs(c))]
        atoms = [_atom(atom, names, read) for atom in monomial]
        if overflows and monomial and is_of_comparisons(monomial):
            first = atoms[0]
            atoms[0] = f"int64_t{{{first[1:-1] if first.startswith('(') else first}}}"
        out += (" - " if c < 0 else " + ") if out else "-" * (c < 0)
        out += " * ".join([*factors, *atoms])
    return out


def is_of_comparisons(monomial: Monomial) -> bool:
    """Whether it is an int to C++: what is multiplied is made of numbers and comparisons alone."""
    return all(map(_is_int, monomial))


@remembered
def _is_int(atom: Atom) -> bool:
    if isinstance(atom, Quotient | Remainder | MinMax):
        return all(
            is_of_comparisons(m) and int_reach(p) < 2**31 for p in parts(atom) for m, _ in p.terms
        )
    return isinstance(atom, Indicator)


def int_reach(e: Ix) -> int:
    """How far from 0 that part of a sum may be which C++ would compute in an int."""
    return abs(e.const) + sum(_reach(m, abs(c)) for m, c in e.terms if is_of_comparisons(m))


def _reach(monomial: Monomial, factor: int) -> int:
    for atom in monomial:
        lo, hi = of_atom(atom).bounds()
        assert lo is not None
        assert hi is not None  # of numbers and comparisons
        factor *= max(abs(lo), abs(hi))
    return factor


def integer(value: int) -> str:
    """A literal; one that needs 64 bits says so."""
    if value == LEAST:
        return "INT64_MIN"  # the literal would be the negative of one that does not fit
    return str(value) if -(2**31) < value < 2**31 else f"INT64_C({value})"


def real(value: float) -> str:
    """A double that reads back as it was."""
    if math.isfinite(value):
        return repr(value)
    return "NAN" if math.isnan(value) else "INFINITY" if value > 0 else "-INFINITY"


def _atom(atom: Atom, names: Names, read: Read | None) -> str:
    match atom:
        case Quotient(numerator, denominator):
            return _division("/", "floor_div", numerator, denominator, names, read)
        case Remainder(numerator, denominator):
            return _division("%", "floor_mod", numerator, denominator, names, read)
        case MinMax(left, right, is_min):
            function = "index_min" if is_min else "index_max"
            return f"{function}({_whole(left, names, read)}, {_whole(right, names, read)})"
        case Indicator(left, right):
            return f"({_sum(left, names, read)} < {_sum(right, names, read)})"
        case Lookup():
            if read is None:
                raise LoweringFailed(
                    step="emit", what=f"the lookup {atom} where no tensor can be read"
                )
            return read(atom)
        case _:
            if callable(names):
                return names(atom)
            if atom not in names:
                raise LoweringFailed(step="emit", what=f"{atom}, which has no name here")
            return names[atom]


def _division(sign: str, function: str, n: Ix, d: Ix, names: Names, read: Read | None) -> str:
    if not is_nonnegative(n):
        return f"{function}({_whole(n, names, read)}, {_whole(d, names, read)})"
    top, bottom = _sum(n, names, read), _sum(d, names, read)
    left = top if _is_one_word(n) else f"({top})"
    right = bottom if _is_one_word(d) else f"({bottom})"
    return f"({left} {sign} {right})"


def _is_one_word(e: Ix) -> bool:
    """A constant, or one dim or axis: what needs no brackets."""
    if e.is_const:
        return e.const >= 0
    if e.const or len(e.terms) != 1:
        return False
    monomial, c = e.terms[0]
    return c == 1 and len(monomial) == 1
