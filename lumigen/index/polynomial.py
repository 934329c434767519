"""Sums of products of atoms: how they are built in the one form that each has, and what is proven of them."""

from __future__ import annotations

import itertools
import operator
import reprlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, KeysView, Mapping, Sequence
from math import gcd
from numbers import Integral
from typing import Any, Union

from lumigen.errors import BadSize, user_location
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
    Symbolic,
    Terms,
    parts,
)
from lumigen.index.evaluation import Bounds, Reader, atom_bounds, bounds_of, evaluate
from lumigen.memo import Nodes, remembered

IxLike = Union["Ix", Symbolic, Axis, int]


_FAR = 2**40  # an integer that nothing bounds may be so large
# Indicators of an expression whose sign is proven case by case: twice as many cases for each.
MOST_CHOICES = 4


class Ix:
    """An interned polynomial over atoms with integer factors; build it with `ix` and arithmetic."""

    __slots__ = ("__weakref__", "_atoms", "_axes", "_bounds", "_hash", "_text", "const", "terms")
    terms: Terms
    const: int
    _hash: int
    _text: str
    _atoms: dict[Atom, None] | None
    _axes: frozenset[Axis] | None
    _bounds: Bounds | None

    @staticmethod
    def interned(terms: Terms, const: int) -> Ix:
        """The one object of a canonical form; arithmetic makes the form, so use that."""
        key = (terms, const)
        found = _TABLE.get(key)
        if found is None:
            made = object.__new__(Ix)
            made.terms, made.const = terms, const
            made._hash = hash(key) if terms else hash(const)  # an int that equals hashes the same
            made._text = _render(terms, const)
            made._atoms = made._axes = made._bounds = None
            found = _TABLE.add(key, made)  # whole: other threads see it from here on
        return found

    def __index__(self) -> int:
        """The number of a constant; what asks for one of a symbolic extent gets a BadSize."""
        if self.terms:
            why = "is known only when the model runs, and this needs a number while it is traced"
            remedy = "Work on the whole axis, give it a fixed size, or compute with lg.full((), size, lg.f32)."
            raise BadSize(where=user_location(), size=self, why=why, remedy=remedy)
        return self.const

    def __add__(self, other: IxLike) -> Ix:
        return _combine(self, ix(other), 1) if _is_index(other) else NotImplemented

    __radd__ = __add__

    def __sub__(self, other: IxLike) -> Ix:
        return _combine(self, ix(other), -1) if _is_index(other) else NotImplemented

    def __rsub__(self, other: IxLike) -> Ix:
        return _combine(ix(other), self, -1) if _is_index(other) else NotImplemented

    def __neg__(self) -> Ix:
        return ix(0) - self

    def __mul__(self, other: IxLike) -> Ix:
        return _multiply(self, ix(other)) if _is_index(other) else NotImplemented

    __rmul__ = __mul__

    def __floordiv__(self, other: IxLike) -> Ix:
        return floordiv(self, ix(other)) if _is_index(other) else NotImplemented

    def __rfloordiv__(self, other: IxLike) -> Ix:
        return floordiv(ix(other), self) if _is_index(other) else NotImplemented

    def __mod__(self, other: IxLike) -> Ix:
        return mod(self, ix(other)) if _is_index(other) else NotImplemented

    def __rmod__(self, other: IxLike) -> Ix:
        return mod(ix(other), self) if _is_index(other) else NotImplemented

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, int):
            return not self.terms and self.const == other
        return False if isinstance(other, Ix) else NotImplemented

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Ix({self._text})"

    def __reduce__(self) -> tuple[Callable[..., Ix], tuple[object, ...]]:
        return Ix.interned, (self.terms, self.const)

    @property
    def is_const(self) -> bool:
        return not self.terms

    @property
    def axes(self) -> frozenset[Axis]:
        """Every axis that the value depends on, inside quotients and lookups too."""
        if self._axes is None:
            self._axes = frozenset(a for a in self.atoms() if isinstance(a, Axis))
        return self._axes

    def atoms(self) -> KeysView[Atom]:
        """Every atom once, nested ones included, one before those inside of it."""
        if self._atoms is None:
            found = dict[Atom, None]()
            for monomial, _ in self.terms:
                for atom in monomial:
                    found[atom] = None
                    for part in parts(atom):
                        found.update(dict.fromkeys(part.atoms()))
            self._atoms = found
        return self._atoms.keys()

    def coefficient(self, axis: Axis) -> Ix | None:
        """The factor of `axis` if the expression is affine in it, else None."""
        factor = ix(0)
        for monomial, c in self.terms:
            count = sum(1 for a in monomial if a == axis)
            rest = tuple(a for a in monomial if a != axis)
            if count > 1 or any(axis in p.axes for a in rest for p in parts(a)):
                return None
            if count:
                factor = factor + _term(rest, c)
        return factor

    def bounds(self) -> Bounds:
        """Inclusive numeric range over all values of all atoms; None where it is not bounded."""
        if self._bounds is None:
            self._bounds = bounds_of(self)
        return self._bounds

    def substitute(self, mapping: Mapping[Any, Ix]) -> Ix:
        """Replace atoms (axes, dims, lookups) by expressions, everywhere at once."""
        if not mapping or not self.terms:
            return self
        return _substitute(self, mapping, {})

    def evaluate(self, env: Mapping[Any, Any], lookup: Reader | None = None) -> Any:
        """The value for integers or integer arrays in `env`, keyed by dim and axis."""
        return evaluate(self, env, lookup, {}) if self.terms else self.const

    def estimate(self) -> int:
        """The size at the dims' typical values (axes and lookups count as zero), 1 of what is empty then."""
        env: dict[Atom, int] = {a: a.estimate for a in self.atoms() if isinstance(a, Dim)}
        env.update({a: 0 for a in self.atoms() if isinstance(a, Axis | Lookup)})
        return max(1, int(self.evaluate(env)))


_INDICES = Ix, int, Symbolic, Axis, Integral
_TABLE: Nodes[Ix] = Nodes(lambda e: (e.terms, e.const))


def addends(terms: Terms, const: int) -> Terms:
    """A sum as it is written: positive terms first, the number last unless it alone is positive."""
    signed = tuple(sorted(terms, key=lambda term: term[1] < 0))
    number = (((), const),) if const or not terms else ()
    return number + signed if const > 0 and signed and signed[0][1] < 0 else signed + number


def _render(terms: Terms, const: int) -> str:
    out = ""
    for monomial, c in addends(terms, const):
        factor = [str(abs(c))] if abs(c) != 1 or not monomial else []
        out += (" - " if c < 0 else " + ") if out else "-" * (c < 0)
        out += "*".join([*factor, *map(_atom_text, monomial)])
    return out


def _atom_text(atom: Atom) -> str:
    return f"({atom})" if isinstance(atom, Quotient | Remainder) else str(atom)


@remembered
def _atom_key(atom: Atom) -> tuple[str, str]:
    """Orders atoms by text; atoms that read alike (axes of one name, two extents) by what they are made of.

    Not by age: the order must be the same in a process that gets an expression from another one.
    """
    return str(atom), _details(atom)


@remembered
def _details(atom: Atom) -> str:
    """What the text leaves out: the ranges of dims, the extents of axes, which tensor is read."""
    if isinstance(atom, Dim):
        return f"{atom.lo} {atom.hi} {atom.multiple_of} {atom.typical}"
    own = ""
    inside = parts(atom)
    if isinstance(atom, Axis):
        own, inside = str(atom.extent), (atom.extent,)
    elif isinstance(atom, Lookup):
        own = f"{atom.source!r} {atom.lo} {atom.hi}"
    details = (_details(a) for e in inside for m, _ in e.terms for a in m)
    return f"{type(atom).__name__}({own}; {', '.join(details)})"


def _is_index(value: object) -> bool:
    """Whether `ix` takes it: integers, those of numpy included, but no tensor and no float."""
    return isinstance(value, _INDICES)


def ix(value: IxLike) -> Ix:
    """The expression of an int, a dim, a size or an axis; an expression itself is returned as it is."""
    if isinstance(value, Ix):
        return value
    if isinstance(value, Symbolic):
        found = value.expression
        return found if isinstance(found, Ix) else of_atom(found)
    if isinstance(value, Axis):
        return of_atom(value)
    try:
        return Ix.interned((), operator.index(value))
    except TypeError:
        why, remedy = "is no integer", "Pass an integer, a dim or a size such as x.shape[0] // 2."
        raise BadSize(
            where=user_location(), size=reprlib.repr(value), why=why, remedy=remedy
        ) from None


def lookup(
    source: Hashable, at: tuple[Ix, ...], lo: int | None = None, hi: int | None = None
) -> Ix:
    """The integer that `source` holds at `at`."""
    return of_atom(Lookup(source, at, lo, hi))


def of_atom(atom: Atom) -> Ix:
    """The expression of one atom."""
    return Ix.interned((((atom,), 1),), 0)


def _collect(terms: dict[Monomial, int], const: int) -> Ix:
    if any(_unit_of(a) for m in terms for a in m):
        terms = _whole_dims(in_units(terms))
    kept = [(m, c) for m, c in terms.items() if c]
    kept.sort(key=lambda t: ([_atom_key(a) for a in t[0]], t[1]))
    return _recombine(Ix.interned(tuple(kept), const))


def _unit_of(atom: Atom) -> Dim | None:
    """The dim d, a multiple of m > 1, of the atom d // m. Canonically m * (d // m) is d."""
    if not isinstance(atom, Quotient) or not atom.denominator.is_const:
        return None
    terms = atom.numerator.terms
    dim = terms[0][0][0] if terms else None
    if not isinstance(dim, Dim) or dim.multiple_of == 1 or atom.numerator is not ix(dim):
        return None
    return dim if dim.multiple_of == atom.denominator.const else None


def in_units(terms: Mapping[Monomial, int]) -> dict[Monomial, int]:
    """The same polynomial with each dim that is a multiple of m > 1 written as m * (dim // m)."""
    out: dict[Monomial, int] = {}
    for m, k in terms.items():
        scale, atoms = k, list(m)
        for i, atom in enumerate(atoms):
            if isinstance(atom, Dim) and atom.multiple_of > 1:
                scale *= atom.multiple_of
                atoms[i] = Quotient(ix(atom), ix(atom.multiple_of))
        key = tuple(sorted(atoms, key=_atom_key))
        out[key] = out.get(key, 0) + scale
    return out


def _whole_dims(terms: Mapping[Monomial, int]) -> dict[Monomial, int]:
    """The inverse of `in_units`, as far as the factors allow."""
    out: dict[Monomial, int] = {}
    for m, k in terms.items():
        scale, atoms = k, list(m)
        for i, atom in enumerate(atoms):
            dim = _unit_of(atom)
            if dim is not None and scale % dim.multiple_of == 0:
                scale //= dim.multiple_of
                atoms[i] = dim
        key = tuple(sorted(atoms, key=_atom_key))
        out[key] = out.get(key, 0) + scale
    return out


@remembered  # here and in products nine of ten are asked for again
def _combine(a: Ix, b: Ix, sign: int) -> Ix:
    if not b.terms:
        return Ix.interned(a.terms, a.const + sign * b.const)
    if not a.terms and sign == 1:
        return Ix.interned(b.terms, a.const + b.const)
    terms = dict(a.terms)
    for m, c in b.terms:
        terms[m] = terms.get(m, 0) + sign * c
    return _collect(terms, a.const + sign * b.const)


@remembered
def _multiply(a: Ix, b: Ix) -> Ix:
    if not a.terms:
        a, b = b, a
    if not b.terms:
        if b.const == 1:
            return a
        if b.const == 0:
            return b
    terms: dict[Monomial, int] = {}
    const = a.const * b.const
    left = [*a.terms, ((), a.const)]
    right = [*b.terms, ((), b.const)]
    for m, c in left:
        for n, d in right:
            if c * d and (m or n):
                key = tuple(sorted((*m, *n), key=_atom_key))
                terms[key] = terms.get(key, 0) + c * d
    return _collect(terms, const)


def _recombine(e: Ix) -> Ix:
    """d * (n // d) + n % d is n: the result of a split and the matching merge.

    n % d - n is -d * (n // d): what is padded to a multiple is one, and so is what a remainder is taken from.
    n % d + k * n is likewise (k + 1) * n - d * (n // d) where d divides k + 1: n + n % 2 is even. Only
    of sizes: what is known of an axis's range would be lost.
    """
    for monomial, c in e.terms:
        for position, atom in enumerate(monomial):
            if not isinstance(atom, Remainder):
                continue
            rest = monomial[:position] + monomial[position + 1 :]
            outer = _term(rest, c)
            whole = outer * atom.denominator * floordiv(atom.numerator, atom.denominator)
            have = dict(e.terms)
            if whole.terms and all(have.get(m) == k for m, k in whole.terms):
                for m, _ in (*whole.terms, (monomial, c)):
                    del have[m]
                left = _collect(have, e.const - whole.const)
                return left + outer * atom.numerator
            for n in (atom.numerator, _unnested(atom.numerator, atom.denominator)):
                gone = outer * n
                is_size = atom.denominator.is_const and not of_atom(atom).axes
                step = abs(c) * atom.denominator.const if is_size else 0
                joins = (m in have and gcd(have[m] + k, step) == step for m, k in gone.terms)
                if gone.terms and all(joins):
                    left = e - _term(monomial, c) + gone
                    return left - outer * atom.denominator * floordiv(n, atom.denominator)
    return e


def _unnested(n: Ix, d: Ix) -> Ix:
    """What leaves the same remainder by `d`, with f for each f % m in it where `d` divides m."""
    for monomial, k in n.terms:
        remainders = (a for a in monomial if isinstance(a, Remainder))
        inner = next((a for a in remainders if _divide_exactly(a.denominator, d)[1] == 0), None)
        if inner is not None:
            outer = _term(_remove(monomial, (inner,)) or (), k)
            return _unnested(n - _term(monomial, k) + outer * inner.numerator, d)
    return n


def _divide_exactly(e: Ix, d: Ix) -> tuple[Ix, Ix]:
    """(q, r) with e = d*q + r, where q takes every term that d visibly divides."""
    e_terms = in_units(dict(e.terms))
    if d.is_const:
        c = d.const
        q_terms = {m: k // c for m, k in e_terms.items() if k % c == 0}
        r_terms = {m: k for m, k in e_terms.items() if k % c}
        return _collect(q_terms, e.const // c), _collect(r_terms, e.const % c)
    if len(d.terms) != 1 or d.const:
        return _divide_by_sum(e, d)
    ((factor, c),) = in_units(dict(d.terms)).items()
    q_terms: dict[Monomial, int] = {}
    q_const = 0
    r_terms: dict[Monomial, int] = {}
    for m, k in e_terms.items():
        rest = _remove(m, factor)
        if rest is None or k % c:
            r_terms[m] = k
        elif rest:
            q_terms[rest] = k // c
        else:
            q_const = k // c
    return _collect(q_terms, q_const), _collect(r_terms, e.const)


def _divide_by_sum(e: Ix, d: Ix) -> tuple[Ix, Ix]:
    """(q, r) with e = d*q + r, where q takes what `e` holds the product of with every term of `d`."""
    rest = in_units(dict(e.terms)) | {(): e.const}
    divisor = in_units(dict(d.terms)) | ({(): d.const} if d.const else {})
    longest = max(divisor, key=len)
    quotient = dict[Monomial, int]()
    for m, k in tuple(rest.items()):
        other = _remove(m, longest)
        if other is None:
            continue
        held = {tuple(sorted((*other, *n), key=_atom_key)): c for n, c in divisor.items()}
        sign = 1 if (k > 0) == (divisor[longest] > 0) else -1
        times = min(max(0, sign * rest.get(n, 0) * c) // c**2 for n, c in held.items())
        quotient[other] = sign * times
        rest |= {n: rest.get(n, 0) - sign * times * c for n, c in held.items()}
    q_const, r_const = quotient.pop((), 0), rest.pop(())
    return _collect(quotient, q_const), _collect(rest, r_const)


def _remove(monomial: Monomial, factor: Monomial) -> Monomial | None:
    rest = list(monomial)
    for atom in factor:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


@remembered
def floordiv(n: Ix, d: Ix) -> Ix:
    """floor(n / d) for positive d."""
    if d.is_const and d.const == 1:
        return n
    q, r = _divide_exactly(n, d)
    if is_nonnegative(r) and is_less(r, d):
        return q
    if r.is_const and d.is_const:
        return q + r.const // d.const
    if is_nonnegative(-r - 1) and is_nonnegative(r + d):
        return q - 1
    lo, hi = r.bounds()
    if d.is_const and lo is not None and hi is not None and lo // d.const == hi // d.const:
        return q + lo // d.const
    common = _common(r, d)
    if common is not None:
        a, _, _, rest = common
        return q + floordiv(a, rest)
    if len(r.terms) == 1 and r.terms[0][1] == 1 and len(r.terms[0][0]) == 1:
        inner = r.terms[0][0][0]
        if isinstance(inner, Quotient):
            whole = inner.numerator + r.const * inner.denominator
            return q + floordiv(whole, inner.denominator * d)
    return q + of_atom(Quotient(r, d))


def _common(n: Ix, d: Ix) -> tuple[Ix, Ix, Ix, Ix] | None:
    """(a, b, g, d / g) with n = g * a + b and 0 <= b < g, for a g other than 1 that divides d.

    Then n // d is a // (d / g), and n % d is g * (a % (d / g)) + b.
    """
    factor, c = _content(d)
    whole = _divide_exactly(d, _term(factor, c))[0]  # the sum in d = c * factor * (x + y), or 1
    for g in (*_shared(n, whole, factor, c), *_shared(n, ix(1), factor, c) * bool(whole.terms)):
        a, b = _divide_exactly(n, g)
        if is_nonnegative(b) and is_less(b, g):
            return a, b, g, _divide_exactly(d, g)[0]
    return None


def _shared(n: Ix, of: Ix, factor: Monomial, c: int) -> list[Ix]:
    """What of * factor * c may share with `n`: `of` times a term, the greatest first."""
    held = _divide_exactly(n, of)[0]
    # NOTE: a dim alone stays whole, as (dim // m) // k is dim // (m * k), and not the reverse.
    alone = len(held.terms) == 1 and len(held.terms[0][0]) == 1
    found: dict[tuple[Monomial, int], None] = {((), 1): None} if of.terms else {}
    for m, k in held.terms if alone else in_units(dict(held.terms)).items():
        shared = list(m)
        atoms = tuple(a for a in factor if a in shared and not shared.remove(a))
        if atoms or gcd(c, k) > 1:
            found[atoms, gcd(c, k)] = None
    return [of * _term(m, k) for m, k in sorted(found, key=lambda g: (-len(g[0]), -g[1]))]


def _content(e: Ix) -> tuple[Monomial, int]:
    """The greatest term that divides every term of `e`: atoms, some of them more than once, and a number."""
    terms = in_units(dict(e.terms)) | ({(): e.const} if e.const else {})
    first, *others = (Counter(m) for m in terms)
    for other in others:
        first &= other
    return tuple(first.elements()), gcd(*terms.values())


def _term(monomial: Monomial, factor: int) -> Ix:
    return Ix.interned(((monomial, factor),), 0) if monomial else ix(factor)


@remembered
def mod(n: Ix, d: Ix) -> Ix:
    """n - d * floor(n / d) for positive d."""
    _, r = _divide_exactly(n, d)
    quotient = floordiv(r, d)
    if quotient.is_const:
        return r - d * quotient
    common = _common(r, d)
    if common is not None:
        a, b, g, rest = common
        return g * mod(a, rest) + b
    return of_atom(Remainder(r, d))


def minimum(a: IxLike, b: IxLike) -> Ix:
    """The lesser of two expressions; the one that is provably lesser, if one is."""
    return _extremum(ix(a), ix(b), True)


def maximum(a: IxLike, b: IxLike) -> Ix:
    """The greater of two expressions; the one that is provably greater, if one is."""
    return _extremum(ix(a), ix(b), False)


def _extremum(a: Ix, b: Ix, is_min: bool) -> Ix:
    if is_nonnegative(b - a):
        return a if is_min else b
    if is_nonnegative(a - b):
        return b if is_min else a
    if str(b) < str(a):
        a, b = b, a
    return of_atom(MinMax(a, b, is_min))


def indicator(slack: Ix) -> Ix:
    """1 where `slack >= 0`, else 0."""
    if is_nonnegative(slack):
        return ix(1)
    if is_nonnegative(-slack - 1):
        return ix(0)
    more, less, number = sides(slack)
    if number < 0 or not less.terms:
        return of_atom(Indicator(less - number - 1, more))
    return of_atom(Indicator(less, more + number + 1))


def sides(e: Ix) -> tuple[Ix, Ix, int]:
    """(more, less, number), all that is added on one side of it: `e` is more - less + number."""
    more = Ix.interned(tuple(t for t in e.terms if t[1] > 0), 0)
    less = Ix.interned(tuple((m, -k) for m, k in e.terms if k < 0), 0)
    return more, less, e.const


def ceildiv(n: IxLike, d: IxLike) -> Ix:
    """ceil(n / d) for positive d."""
    return floordiv(ix(n) + ix(d) - 1, ix(d))


@remembered
def is_nonnegative(e: Ix) -> bool:
    """Whether `e >= 0` can be proven for all values of its atoms."""
    lo, _ = e.bounds()
    if lo is not None and lo >= 0:
        return True
    if not e.terms:
        return False
    bound, scale = lower(e), 1  # e >= bound / scale
    lo, _ = bound.bounds()
    if lo is not None and lo >= 0:
        return True
    if any(value < 0 for value in _at_corners(e)):
        return False
    if any(is_nonnegative(p) for p in without_floor(e)):
        return True
    while True:
        lo, _ = bound.bounds()
        if lo is not None and lo > -scale:
            return True
        if _by_cases(bound + scale - 1):
            return True
        step = _without_quotient(bound)
        if step is None:
            return False
        bound, scale = lower(step[0]), scale * step[1]


def _at_corners(e: Ix) -> Iterator[int]:
    """Some values of `e`: with dims at their least and greatest, and what else varies at its own."""
    atoms = {*e.atoms(), *(a for axis in e.axes for a in axis.extent.atoms())}
    for far, last in itertools.product((False, True), repeat=2):
        at: dict[Atom, int] = {}
        for a in atoms:
            if isinstance(a, Dim):
                at[a] = a.hi if far else a.lo
            elif isinstance(a, Lookup):
                end = a.hi if last else a.lo
                at[a] = end if end is not None else _FAR if last else -_FAR
        try:
            extents = {axis: int(axis.extent.evaluate(at)) for axis in e.axes}
            ends = {axis: n - 1 if last else 0 for axis, n in extents.items()}
            if all(n > 0 for n in extents.values()):
                yield int(e.evaluate(at | ends))
        except (KeyError, ZeroDivisionError):
            continue  # other axes bound those of `e`, or it has no value there


def _by_cases(e: Ix) -> bool:
    """Whether `e >= 0` follows whatever its first minimum, maximum or indicator is the value of."""
    either = ((m, k, a) for m, k in e.terms for a in m if isinstance(a, MinMax | Indicator))
    found = next(either, None)
    if found is None:
        return False
    monomial, k, atom = found
    if isinstance(atom, Indicator):
        if sum(isinstance(a, Indicator) for a in e.atoms()) > MOST_CHOICES:
            return False
        slack = atom.right - atom.left - 1
        cases = ((e.substitute({atom: ix(1)}), slack), (e.substitute({atom: ix(0)}), -slack - 1))
        return all(is_nonnegative(case) or is_nonnegative(case - s) for case, s in cases)
    rest = _remove(monomial, (atom,)) or ()
    factor = _term(rest, abs(k)) if _never_negative(rest) else ix(0)
    for this, other in ((atom.left, atom.right), (atom.right, atom.left)):
        case = e.substitute({atom: this})
        beyond = other - this if atom.is_min else this - other  # not negative in this case
        if not (is_nonnegative(case) or is_nonnegative(case - factor * beyond)):
            return False
    return True


def _never_negative(atoms: Monomial) -> bool:
    return all((lo := atom_bounds(a)[0]) is not None and lo >= 0 for a in atoms)


def without_floor(e: Ix) -> Iterator[Ix]:
    """What is not negative exactly where `e` is not: n // d >= a where n >= a * d, n // d < a where n < a * d."""
    for monomial, k in e.terms:
        atom = monomial[0]
        if len(monomial) == 1 and abs(k) == 1 and isinstance(atom, Quotient):
            rest, n, d = e - of_atom(atom) * k, atom.numerator, atom.denominator
            yield rest * d + n if k == 1 else (rest + 1) * d - n - 1


def _without_quotient(e: Ix) -> tuple[Ix, int] | None:
    """(b, s) with s * e >= b and one quotient less: d * (n // d) lies between n - d + 1 and n."""
    longest_first = sorted(e.terms, key=lambda t: -max(len(str(a)) for a in t[0]))
    for monomial, k in longest_first:  # a quotient that holds another goes before that one
        for position, atom in enumerate(monomial):
            if not isinstance(atom, Quotient) or len(atom.denominator.terms) > 1:
                continue
            rest = monomial[:position] + monomial[position + 1 :]
            divisor, c = ((), atom.denominator.const)
            if atom.denominator.terms:
                divisor, c = atom.denominator.terms[0]
            left = _remove(rest, divisor)
            if left is None or c <= 0 or not _never_negative(left):
                continue
            scale = c // gcd(c, k)
            near = atom.numerator if k < 0 else atom.numerator - atom.denominator + 1
            others = _collect({m: x for m, x in e.terms if m != monomial}, e.const)
            return others * scale + _term(left, k * scale // c) * near, scale
    return None


def is_less(a: Ix, b: Ix) -> bool:
    """Whether `a < b` can be proven."""
    return is_nonnegative(b - a - 1)


@remembered
def lower(e: Ix) -> Ix:
    """A lower bound of `e` in which axes no longer occur, as far as signs are known."""
    return _eliminate(e, want_lower=True)


@remembered
def upper(e: Ix) -> Ix:
    """An upper bound of `e` in which axes no longer occur, as far as signs are known."""
    return _eliminate(e, want_lower=False)


def _eliminate(e: Ix, want_lower: bool) -> Ix:
    for axis in sorted(e.axes, key=_atom_key):  # a sum times an axis: i*n - i is least where i is
        factor = e.coefficient(axis)
        if factor is None or len(factor.terms) + bool(factor.const) < 2:
            continue
        for sign in (1, -1):
            if is_nonnegative(factor * sign):
                end = ix(0) if (sign > 0) == want_lower else axis.extent - 1
                return _eliminate(e.substitute({axis: end}), want_lower)
    total = ix(e.const)
    for monomial, c in e.terms:
        still, moving = ix(c), monomial
        if not _never_negative(
            monomial
        ):  # what has no axis stays as it is, where its sign is known
            moving = tuple(a for a in monomial if of_atom(a).axes)
            still = _term(tuple(a for a in monomial if a not in moving), c)
        lo, hi = still.bounds()
        is_positive = lo is not None and lo >= 0
        if not (is_positive or (hi is not None and hi <= 0)) or not _never_negative(moving):
            total = total + _term(monomial, c)
            continue
        for atom in moving:
            still = still * _extreme(atom, is_positive == want_lower)
        total = total + still
    return total


def _extreme(atom: Atom, low: bool) -> Ix:
    if isinstance(atom, Axis):
        return ix(0) if low else atom.extent - 1
    if isinstance(atom, Quotient):
        bound = lower(atom.numerator) if low else upper(atom.numerator)
        return floordiv(bound, atom.denominator)
    if isinstance(atom, Remainder) and of_atom(atom).axes:
        return ix(0) if low else atom.denominator - 1
    return of_atom(atom)


def _substitute(e: Ix, mapping: Mapping[Any, Ix], memo: dict[Ix, Ix]) -> Ix:
    done = memo.get(e)
    if done is not None:
        return done
    if e.atoms().isdisjoint(mapping):
        return e
    total = ix(e.const)
    for monomial, c in e.terms:
        product = _substitute_atom(monomial[0], mapping, memo)
        for atom in monomial[1:]:
            product = product * _substitute_atom(atom, mapping, memo)
        total = total + product * c
    memo[e] = total
    return total


def _substitute_atom(atom: Atom, mapping: Mapping[Any, Ix], memo: dict[Ix, Ix]) -> Ix:
    if atom in mapping:
        return mapping[atom]
    inner = tuple(_substitute(p, mapping, memo) for p in parts(atom))
    if isinstance(atom, Quotient):
        return floordiv(*inner)
    if isinstance(atom, Remainder):
        return mod(*inner)
    if isinstance(atom, MinMax):
        return _extremum(inner[0], inner[1], atom.is_min)
    if isinstance(atom, Indicator):
        return indicator(inner[1] - inner[0] - 1)
    if isinstance(atom, Lookup):
        return lookup(atom.source, inner, atom.lo, atom.hi)
    return of_atom(atom)


def product(extents: tuple[Ix, ...]) -> Ix:
    """The product of extents; 1 for none."""
    out = ix(1)
    for e in extents:
        out = out * e
    return out


def extent_of(axes: Iterable[Axis]) -> Ix:
    """The points that the axes have together; 1 for none."""
    return product(tuple(a.extent for a in axes))


def unravel(place: IxLike, axes: Sequence[Axis]) -> dict[Axis, Ix]:
    """The coordinates over `axes` of a place in row-major order, which is below their points; the last axis first."""
    rest, out = ix(place), dict[Axis, Ix]()
    for position, axis in reversed(tuple(enumerate(axes))):
        out[axis] = rest % axis.extent if position else rest
        rest = rest // axis.extent
    return out
