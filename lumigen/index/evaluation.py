"""What an index expression comes to: for values of its atoms, and at least and at most."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from lumigen.index.atoms import (
    Atom,
    Axis,
    Dim,
    Indicator,
    Lookup,
    MinMax,
    Monomial,
    Quotient,
    Remainder,
    parts,
)

if TYPE_CHECKING:
    from lumigen.index.polynomial import Ix

Bounds = tuple[int | None, int | None]  # both included; None where it is not bounded
Reader = Callable[[Lookup, Any], Any]  # the integers that are read, given what `evaluate` is
Polynomial = dict[Monomial, int]

MOST_TERMS = 12  # of a polynomial whose slopes are looked at


def evaluate(
    e: Ix,
    env: Mapping[Any, Any],
    read: Reader | None,
    memo: dict[Ix, Any],
) -> Any:
    """The value for integers or integer arrays in `env`; `memo` has what is known already, as parts occur often."""
    if not e.terms:
        return e.const
    if e in memo:
        return memo[e]
    total: Any = e.const
    for monomial, c in e.terms:
        product: Any = c
        for atom in monomial:
            product = product * _evaluate_atom(atom, env, read, memo)
        total = total + product
    memo[e] = total
    return total


def _evaluate_atom(
    atom: Atom,
    env: Mapping[Any, Any],
    read: Reader | None,
    memo: dict[Ix, Any],
) -> Any:
    if atom in env:
        return env[atom]
    if isinstance(atom, Lookup):
        if read is None:
            raise KeyError(f"no way to read {atom}")
        return read(atom, env)
    inner = [evaluate(p, env, read, memo) for p in parts(atom)]
    if isinstance(atom, Quotient):
        return inner[0] // inner[1]
    if isinstance(atom, Remainder):
        return inner[0] % inner[1]
    if isinstance(atom, MinMax):
        a, b = inner
        first = (a < b) if atom.is_min else (a > b)
        return first * a + (1 - first) * b
    if isinstance(atom, Indicator):
        return (inner[0] < inner[1]) * 1
    raise KeyError(f"no value for {atom}")


def bounds_of(e: Ix) -> Bounds:
    """Over all values of all atoms, each of them on its own; None where nothing bounds one that counts."""
    ends = _term_by_term((*e.terms, ((), e.const)), atom_bounds)
    of_one_sign = len({c > 0 for _, c in e.terms}) < 2
    if of_one_sign or len(e.terms) > MOST_TERMS or all(len(m) == 1 for m, _ in e.terms):
        return ends  # all terms have their ends together, or are many
    ranges = dict[Atom, tuple[int, int]]()
    for atom in (a for m, _ in e.terms for a in m):
        lo, hi = atom_bounds(atom)
        if lo is None or hi is None:
            return ends
        ranges[atom] = lo, hi
    terms = dict(e.terms) | {(): e.const}
    return _least(terms, ranges), -_least(_scaled(terms, -1), ranges)


def _least(terms: Polynomial, ranges: Mapping[Atom, tuple[int, int]]) -> int:
    """What a polynomial of integers is at least: n*m - m is least where n is, as its slope m is not negative.

    Exact where each slope has one sign, or an atom occurs once in each term.
    """
    atoms = dict.fromkeys(a for m in terms for a in m)
    for atom in atoms:
        slope = _slope(terms, atom)
        for end, sign in zip(ranges[atom], (1, -1), strict=True):
            if _least(_scaled(slope, sign), ranges) >= 0:
                return _least(_put(terms, atom, end), ranges)
    single = next((a for a in atoms if all(m.count(a) <= 1 for m in terms)), None)
    if single is not None:
        return min(_least(_put(terms, single, end), ranges) for end in ranges[single])
    lo, _ = _term_by_term(terms.items(), ranges.__getitem__)
    assert lo is not None
    return lo


def _scaled(terms: Polynomial, factor: int) -> Polynomial:
    return {m: c * factor for m, c in terms.items()}


def _slope(terms: Polynomial, atom: Atom) -> Polynomial:
    """The derivative."""
    out = dict[Monomial, int]()
    for m, c in terms.items():
        if atom in m:
            at = m.index(atom)
            rest = m[:at] + m[at + 1 :]
            out[rest] = out.get(rest, 0) + c * m.count(atom)
    return out


def _put(terms: Polynomial, atom: Atom, value: int) -> Polynomial:
    """The polynomial where the atom has a value."""
    out = dict[Monomial, int]()
    for m, c in terms.items():
        rest = tuple(a for a in m if a != atom)
        out[rest] = out.get(rest, 0) + c * value ** (len(m) - len(rest))
    return out


def _term_by_term(
    terms: Iterable[tuple[Monomial, int]], bounds: Callable[[Atom], Bounds]
) -> Bounds:
    """The sum of what each term is at least and at most, as if atoms varied from term to term."""
    lo: int | None = 0
    hi: int | None = 0
    for monomial, c in terms:
        t_lo: int | None = c
        t_hi: int | None = c
        for atom in monomial:
            t_lo, t_hi = _product((t_lo, t_hi), bounds(atom))
        lo = None if lo is None or t_lo is None else lo + t_lo
        hi = None if hi is None or t_hi is None else hi + t_hi
    return lo, hi


def _product(a: Bounds, b: Bounds) -> Bounds:
    (al, ah), (bl, bh) = a, b
    if al is None or ah is None or bl is None or bh is None:
        if al is not None and bl is not None and al >= 0 and bl >= 0:
            return al * bl, None
        return None, None
    corners = (al * bl, al * bh, ah * bl, ah * bh)
    return min(corners), max(corners)


def atom_bounds(atom: Atom) -> Bounds:
    """Over all values of what is inside."""
    if isinstance(atom, Dim):
        return atom.lo, atom.hi
    if isinstance(atom, Axis):
        hi = atom.extent.bounds()[1]
        return 0, None if hi is None else max(0, hi - 1)
    if isinstance(atom, Lookup):
        return atom.lo, atom.hi
    if isinstance(atom, Indicator):
        return 0, 1
    if isinstance(atom, MinMax):
        (al, ah), (bl, bh) = atom.left.bounds(), atom.right.bounds()
        return _extremum_bounds((al, bl), (ah, bh), atom.is_min)
    n_lo, n_hi = atom.numerator.bounds()
    d_lo, d_hi = atom.denominator.bounds()
    if isinstance(atom, Remainder):
        return 0, None if d_hi is None else d_hi - 1
    d_lo = max(1, d_lo or 1)
    lo = (
        None
        if n_lo is None
        else (n_lo // d_lo if n_lo < 0 else (0 if d_hi is None else n_lo // d_hi))
    )
    hi = (
        None
        if n_hi is None
        else (n_hi // d_lo if n_hi >= 0 else (-1 if d_hi is None else n_hi // d_hi))
    )
    return lo, hi


def _extremum_bounds(los: Bounds, his: Bounds, is_min: bool) -> Bounds:
    """Of the lesser or the greater of two, whose least are `los` and whose greatest `his`."""
    known_lo = [v for v in los if v is not None]
    known_hi = [v for v in his if v is not None]
    if is_min:
        lo = min(known_lo) if len(known_lo) == 2 else None
        return lo, min(known_hi) if known_hi else None
    hi = max(known_hi) if len(known_hi) == 2 else None
    return max(known_lo) if known_lo else None, hi
