"""Equality of expressions as real numbers: commuted, reassociated and distributed forms agree.

Only proofs are made of it. What a plan computes stays the expression that the user wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from math import copysign, inf, isfinite, nan

from lumigen.index import is_nonnegative as never_negative
from lumigen.ops import Op
from lumigen.region import (
    Choose,
    Const,
    Expr,
    Holds,
    Index,
    Prim,
    Reduce,
    children,
    rebuild,
    walk,
)

Monomial = frozenset[tuple[Expr, int]]
Polynomial = dict[Monomial, Fraction]

MOST_TERMS = 64  # a longer polynomial is one opaque atom
ONE: Monomial = frozenset()


def unify(exprs: Iterable[Expr]) -> dict[Expr, Expr]:
    """For every node the one that stands for all that differ in the order of operands or axes."""
    same: dict[Expr, Expr] = {}
    first: dict[object, Expr] = {}
    for e in walk(exprs):
        new = rebuild(e, same.__getitem__, lambda i: i) if _changed(e, same) else e
        same[e] = first.setdefault(_signature(new), new)
    return same


def _changed(e: Expr, same: dict[Expr, Expr]) -> bool:
    match e:
        case Prim():
            return any(same[a] is not a for a in e.args)
        case Choose():
            return any(same[a] is not a for a in (e.condition, e.then, e.otherwise))
        case Reduce():
            return same[e.body] is not e.body
        case _:
            return False


def _signature(e: Expr) -> object:
    if isinstance(e, Prim) and e.op in (Op.ADD, Op.MUL):
        return (e.op, frozenset(e.args), e.dtype) if e.args[0] is not e.args[1] else e
    if isinstance(e, Reduce):
        return (e.monoid, frozenset(e.axes), e.where, e.body, e.dtype)
    return e


# ---- polynomials over opaque atoms ----


def polynomial(e: Expr) -> Polynomial:
    """`e` with exact coefficients; whatever is no sum and no product is an atom."""
    match e:
        case Const() if not e.dtype.is_bool and isfinite(e.value):
            return {ONE: Fraction(e.value)} if e.value else {}
        case Prim(op=Op.ADD):
            return add(polynomial(e.args[0]), polynomial(e.args[1]))
        case Prim(op=Op.MUL) if not e.dtype.is_bool:
            product = multiply(polynomial(e.args[0]), polynomial(e.args[1]))
            return product if len(product) <= MOST_TERMS else atom(e)
        case Prim(op=Op.RECIP):
            inner = polynomial(e.args[0])
            if len(inner) == 1:
                ((monomial, c),) = inner.items()
                return {frozenset((a, -n) for a, n in monomial): 1 / c}
            return atom(e)
        case Prim(op=Op.CONTIGUOUS) if widens(e):
            return polynomial(e.args[0])
        case _:
            return atom(e)


def atom(e: Expr) -> Polynomial:
    return {frozenset({(e, 1)}): Fraction(1)}


def add(p: Polynomial, q: Polynomial) -> Polynomial:
    out = dict(p)
    for monomial, c in q.items():
        total = out.get(monomial, Fraction(0)) + c
        if total:
            out[monomial] = total
        else:
            del out[monomial]
    return out


def multiply(p: Polynomial, q: Polynomial) -> Polynomial:
    out: Polynomial = {}
    for m, c in p.items():
        for n, d in q.items():
            powers = dict(m)
            for a, k in n:
                powers[a] = powers.get(a, 0) + k
            key = frozenset((a, k) for a, k in powers.items() if k)
            total = out.get(key, Fraction(0)) + c * d
            if total:
                out[key] = total
            else:
                out.pop(key, None)
    return out


def scale(p: Polynomial, c: Fraction) -> Polynomial:
    return {m: c * d for m, d in p.items()} if c else {}


def product(factors: Iterable[Expr], c: Fraction = Fraction(1)) -> Polynomial:
    out: Polynomial = {ONE: c} if c else {}
    for f in factors:
        out = multiply(out, polynomial(f))
    return out


def frozen(p: Polynomial) -> frozenset[tuple[Monomial, Fraction]]:
    """A polynomial as a key."""
    return frozenset(p.items())


def widens(e: Prim) -> bool:
    """Whether a cast changes no float value."""
    source, target = e.args[0].dtype, e.dtype
    return source.is_float and target.is_float and source.bits < target.bits


# ---- signs and order ----


def is_nonnegative(e: Expr) -> bool:
    """Whether the value is provably at least zero (or NaN)."""
    match e:
        case Const():
            return not e.value < 0
        case Holds():
            return True
        case Prim(op=Op.EXP2 | Op.SQRT):
            return True
        case Prim(op=Op.RECIP):  # of -0.0 it is -inf
            return is_nonnegative(e.args[0]) and _is_not_minus_zero(e.args[0])
        case Prim(op=Op.CONTIGUOUS, args=(Index() as place,)) if e.dtype.is_float:
            return never_negative(place.value)
        case Prim(op=Op.CONTIGUOUS):
            return e.dtype.is_bool or is_nonnegative(e.args[0])
        case Prim(op=Op.ADD):
            return all(is_nonnegative(a) for a in e.args)
        case Prim(op=Op.MUL):
            return e.args[0] is e.args[1] or all(is_nonnegative(a) for a in e.args)
        case Choose():
            larger = greatest(e)
            if larger is not None and any(is_nonnegative(a) for a in larger):
                return True
            return is_nonnegative(e.then) and is_nonnegative(e.otherwise)
        case Reduce():
            return is_nonnegative(e.body)
        case _:
            return False


def _is_not_minus_zero(e: Expr) -> bool:
    """Whether a value that is at least zero is provably not -0.0."""
    match e:
        case Const():
            return not e.dtype.is_float or copysign(1.0, e.value) > 0
        case Holds() | Prim(op=Op.EXP2):
            return True
        case Prim(op=Op.ADD):
            return any(map(_is_not_minus_zero, e.args))
        case Prim(op=Op.MUL) if e.args[0] is e.args[1]:
            return True
        case Prim(op=Op.MUL | Op.SQRT | Op.RECIP):
            return all(map(_is_not_minus_zero, e.args))
        case Prim(op=Op.CONTIGUOUS):
            return not e.args[0].dtype.is_float or _is_not_minus_zero(e.args[0])
        case Choose():
            return _is_not_minus_zero(e.then) and _is_not_minus_zero(e.otherwise)
        case Reduce():
            return _is_not_minus_zero(e.body)
        case _:
            return not e.dtype.is_float


def is_not_nan(e: Expr) -> Expr | None:
    """x, if the comparison holds for every x but NaN: `c < x` where c < 0 and x >= 0, or is x * x.

    ptxas (of CUDA 13.0 at least) takes such a comparison as true, of NaN too.
    """
    if not (isinstance(e, Prim) and e.op is Op.LESS_THAN):
        return None
    low, x = e.args
    if not isinstance(low, Const) or not low.dtype.is_float or not low.value < 0:
        return None
    if not is_nonnegative(x):
        return None
    return x.args[0] if isinstance(x, Prim) and x.op is Op.MUL and x.args[0] is x.args[1] else x


def sign(factors: Iterable[Expr], c: Fraction) -> int:
    """1 or -1 where the sign of a product is known, else 0."""
    out = 1 if c > 0 else -1
    for monomial, d in product(factors).items():
        if len(monomial) and any(k % 2 and not is_nonnegative(a) for a, k in monomial):
            return 0
        out = out if d > 0 else 0
    return out


def greatest(e: Expr) -> tuple[Expr, Expr] | None:
    """The x and y of which `e` is the greater: it chooses y where x < y (or y is NaN), else x."""
    if not isinstance(e, Choose):
        return None
    for c in walk([e.condition]):
        if not (
            isinstance(c, Prim) and c.op is Op.LESS_THAN and set(c.args) == {e.then, e.otherwise}
        ):
            continue
        below, above = (_truth(e.condition, _assuming(c, holds=v)) for v in (True, False))
        wanted = e.then is c.args[1]
        if below is wanted and above is (not wanted):
            return (e.then, e.otherwise)
    return None


def finite_part(e: Expr) -> Expr | None:
    """The m that `e` is wherever m is finite; elsewhere it is m or a finite constant."""
    if not isinstance(e, Choose):
        return None
    for m, other, wanted in ((e.then, e.otherwise, True), (e.otherwise, e.then, False)):
        if isinstance(other, Const) and isfinite(other.value) and not isinstance(m, Const):
            made_of_m = _made_of(m)
            if _truth(e.condition, lambda c, made=made_of_m: _beside_infinity(c, made)) is wanted:
                return m
    return None


def chains(condition: Expr, element: Expr, greatest: Expr) -> bool:
    """Whether elements fulfil a condition beside a maximum just if they did beside an earlier one that does itself.

    c(x, after) = c(x, before) and c(before, after) for all x <= before <= after, of which NaN is the greatest: so is
    `x == greatest`. Proved by each order of three numbers, as the condition compares the two and no others.
    """
    ordered = (0.0, 1.0, 2.0, nan)

    def holds(x: float, y: float) -> bool | None:
        return _fulfilled(condition, {element: x, greatest: y})

    for i, after in enumerate(ordered):
        for j, before in enumerate(ordered[: i + 1]):
            for x in ordered[: j + 1]:
                now, then, kept = holds(x, after), holds(x, before), holds(before, after)
                if now is None or then is None or kept is None or now is not (then and kept):
                    return False
    return True


def _fulfilled(c: Expr, values: Mapping[Expr, float]) -> bool | None:
    """A condition of comparisons between numbers alone, or None where it asks for something else."""
    if isinstance(c, Const):
        return bool(c.value)
    if not isinstance(c, Prim) or c.op not in (Op.MUL, Op.LESS_THAN):
        return None
    left, right = c.args
    if not left.dtype.is_bool:
        if isinstance(left, Const) and -inf < left.value < 0 and isinstance(right, Prim):
            x, *others = right.args  # the test for NaN: no square is below zero
            known = _signed(x, values) if right.op is Op.MUL and others == [x] else None
            return None if known is None else known[0] == known[0]
        sides = [_signed(left, values), _signed(right, values)]
        (x, turned), (y, other) = (s or (nan, None) for s in sides)
        return None if turned is None or turned is not other else x < y
    a, b = _fulfilled(left, values), _fulfilled(right, values)
    if a is None or b is None:
        return None
    return (a and b) if c.op is Op.MUL else a < b


def _signed(e: Expr, values: Mapping[Expr, float]) -> tuple[float, bool] | None:
    """A number or its negative, and whether it is the negative."""
    if e in values:
        return values[e], False
    x = negated(e)
    return (-values[x], True) if x is not None and x in values else None


def negated(e: Expr) -> Expr | None:
    """The x that a value is the negative of."""
    match e:
        case Prim(op=Op.MUL, args=(x, Const(value=-1)) | (Const(value=-1), x)):
            return x
        case _:
            return None


def _assuming(comparison: Expr, *, holds: bool) -> Callable[[Expr], bool | None]:
    return lambda c: holds if c is comparison else None


def _made_of(m: Expr) -> Callable[[Expr], bool]:
    """Whether an expression is worked out from m and constants alone."""

    def check(e: Expr) -> bool:
        return (
            e is m or isinstance(e, Const) or (bool(children(e)) and all(map(check, children(e))))
        )

    return check


def _beside_infinity(c: Expr, is_finite: Callable[[Expr], bool]) -> bool | None:
    """A comparison of something finite with an infinite constant."""
    assert isinstance(c, Prim)
    for n, side in enumerate(c.args):
        if isinstance(side, Const) and side.dtype.is_float and not isfinite(side.value):
            if side.value != side.value or not is_finite(c.args[1 - n]):
                return None
            return (side.value > 0) == (n == 1)
    return None


def _truth(condition: Expr, compare: Callable[[Expr], bool | None]) -> bool | None:
    """A condition where nothing is NaN, as far as `compare` knows the comparisons in it."""
    if isinstance(condition, Const):
        return bool(condition.value)
    if not isinstance(condition, Prim):
        return None
    if condition.op is Op.MUL:
        both = [_truth(a, compare) for a in condition.args]
        return False if False in both else (None if None in both else True)
    if condition.op is not Op.LESS_THAN:
        return None
    left, right = condition.args
    if isinstance(right, Const) and right.dtype.is_bool and right.value:
        inner = _truth(left, compare)
        return None if inner is None else not inner
    if isinstance(left, Const) and -inf < left.value < 0 and is_nonnegative(right):
        return True  # the test for NaN: no square is below zero
    return compare(condition)
