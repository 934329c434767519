"""The normal form of separable reductions: a body as a sum of products, split by what varies.

For a fold over some axes and the reductions that it is to compute (`targets`), every factor of a
body is one of `fixed` (neither varies with the axes nor depends on a target), `data` (varies,
depends on none) or `state` (does not vary, depends on a target). Exponents of two are sums of such
products. Whatever mixes `data` and `state` inside one factor has no such form: that is the proof
that a body is not separable. Nothing is expanded unless it mixes the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isfinite

from lumigen.dtype import DType, boolean
from lumigen.index import Axis
from lumigen.lower.algebra import widens
from lumigen.ops import Op
from lumigen.region import (
    Choose,
    Const,
    Expr,
    Monoid,
    Prim,
    Reduce,
    choose,
    const,
    free_axes,
    is_zero,
    negation,
    prim,
    reduce,
    walk,
)

MOST_TERMS = 32


class NoNormalForm(Exception):
    """The body cannot be split; the text says where."""


@dataclass(frozen=True)
class Rounded:
    """A cast to floats of fewer bits, of the product of some data and of a term's powers."""

    dtype: DType
    data: tuple[Expr, ...]


@dataclass(frozen=True)
class Term:
    """coef * product(fixed, data, state) * 2^sum(power), where all guards hold; else absent.

    With `rounded` the powers are inside that cast. `selected`: a guard chooses what is added up, else all of them stand
    for powers that are zero.
    """

    coef: Fraction = Fraction(1)
    fixed: tuple[Expr, ...] = ()
    data: tuple[Expr, ...] = ()
    state: tuple[Expr, ...] = ()
    power: tuple[Term, ...] = ()
    guards: tuple[Expr, ...] = ()
    rounded: Rounded | None = None
    selected: bool = False

    def times(self, other: Term) -> Term:
        for a, b in ((self, other), (other, self)):
            if a.rounded and (b.rounded or b.power):
                raise NoNormalForm("a product of what is rounded with another power")
        return Term(
            self.coef * other.coef,
            self.fixed + other.fixed,
            self.data + other.data,
            self.state + other.state,
            self.power + other.power,
            tuple(dict.fromkeys(self.guards + other.guards)),
            self.rounded or other.rounded,
            self.selected or other.selected,
        )


class NormalForm:
    """Splits expressions for a fold over `axes` that computes `targets`."""

    def __init__(self, axes: tuple[Axis, ...], targets: AbstractSet[Expr]) -> None:
        self.axes = frozenset(axes)
        self.targets = targets
        self._depends: dict[Expr, bool] = {}

    def varies(self, e: Expr) -> bool:
        return bool(free_axes(e) & self.axes)

    def depends(self, e: Expr) -> bool:
        """Whether a target occurs inside."""
        found = self._depends.get(e)
        if found is None:
            found = self._depends[e] = any(x in self.targets for x in walk([e]))
        return found

    def mixed(self, e: Expr) -> bool:
        return self.varies(e) and self.depends(e)

    def terms(self, e: Expr) -> tuple[Term, ...]:
        """The normal form of `e`."""
        if isinstance(e, Const) and not e.dtype.is_bool and isfinite(e.value):
            return (Term(coef=Fraction(e.value)),) if e.value else ()
        if not self.depends(e):
            return (Term(data=(e,)),) if self.varies(e) else (Term(fixed=(e,)),)
        if not self.varies(e):
            return (Term(state=(e,)),)
        out = self._mixed(e)
        if len(out) > MOST_TERMS:
            raise NoNormalForm("the body has too many terms")
        return out

    def _mixed(self, e: Expr) -> tuple[Term, ...]:
        match e:
            case Prim(op=Op.ADD):
                return self.terms(e.args[0]) + self.terms(e.args[1])
            case Prim(op=Op.MUL):
                left, right = (self.terms(a) for a in e.args)
                return tuple(a.times(b) for a in left for b in right)
            case Prim(op=Op.RECIP):
                return (self._inverse(e),)
            case Prim(op=Op.EXP2):
                return self._exponential(e)
            case Prim(op=Op.CONTIGUOUS) if widens(e):
                return self.terms(e.args[0])
            case Prim(op=Op.CONTIGUOUS):
                return (self._rounding(e),)
            case Choose():
                return self._choice(e)
            case Reduce(monoid=Monoid.SUM):
                return tuple(self._pulled(t, e) for t in self.terms(e.body))
            case _:
                raise NoNormalForm(f"{_name(e)} of what depends on a reduction over the same axis")

    def _rounding(self, e: Prim) -> Term:
        """A cast of a product: it rounds what varies, and what is known only after the loop stays outside.

        That is a licence: the cast stands at another factor of the product, and leaves as many digits of it.
        """
        inner = self.terms(e.args[0])
        is_product = len(inner) == 1 and not inner[0].rounded and (inner[0].data or inner[0].power)
        if not (is_product and e.dtype.is_float and e.dtype.bits == 16):
            raise NoNormalForm(
                f"a cast to {e.dtype} rounds what depends on a reduction over the same axis"
            )
        (t,) = inner
        return replace(t, data=(), rounded=Rounded(e.dtype, t.data))

    def _inverse(self, e: Prim) -> Term:
        inner = self.terms(e.args[0])
        if len(inner) != 1 or inner[0].guards or inner[0].rounded:
            raise NoNormalForm(
                "the reciprocal of a sum that depends on a reduction over the same axis"
            )
        (t,) = inner

        def inverses(factors: tuple[Expr, ...]) -> tuple[Expr, ...]:
            return tuple(prim(Op.RECIP, (f,), f.dtype) for f in factors)

        return Term(
            1 / t.coef,
            inverses(t.fixed),
            inverses(t.data),
            inverses(t.state),
            tuple(replace(p, coef=-p.coef) for p in t.power),
        )

    def _exponential(self, e: Prim) -> tuple[Term, ...]:
        exponent = self._lifted(e.args[0])
        if isinstance(exponent, Choose):
            then, otherwise = (
                _fold(prim(Op.EXP2, (a,), e.dtype)) for a in (exponent.then, exponent.otherwise)
            )
            return self._of_either(exponent.condition, then, otherwise, selected=False)
        summands = tuple(o for t in self.terms(exponent) for o in self._opened(t))
        for t in summands:
            if t.power or t.guards or t.rounded or (t.data and t.state):
                raise NoNormalForm("an exponent that is no sum of data and state")
        return (Term(power=summands),)

    def _opened(self, t: Term) -> tuple[Term, ...]:
        """A term with the sums and products among its states multiplied out."""
        out: tuple[Term, ...] = (replace(t, state=()),)
        for f in t.state:
            out = tuple(a.times(b) for a in out for b in self._summands(f))
        return out

    def _summands(self, e: Expr) -> tuple[Term, ...]:
        if not self.depends(e):
            return self.terms(e)
        match e:
            case Prim(op=Op.ADD):
                return self._summands(e.args[0]) + self._summands(e.args[1])
            case Prim(op=Op.MUL):
                left, right = (self._summands(a) for a in e.args)
                return tuple(a.times(b) for a in left for b in right)
            case Choose():
                return self._common(e)
            case _:
                return (Term(state=(e,)),)

    def _common(self, e: Choose) -> tuple[Term, ...]:
        """A choice between two sums, with what both add in front: m + (a if c else b) for m + a if c else m + b."""
        sides = [list(self._summands(s)) for s in (e.then, e.otherwise)]
        common = [t for t in sides[0] if t in sides[1]]
        for t in common:
            for side in sides:
                side.remove(t)
        if not common:
            return (Term(state=(e,)),)
        left = (sum_of([plain(t, e.dtype) for t in side], e.dtype) for side in sides)
        return (*common, Term(state=(choose(e.condition, *left),)))

    def _lifted(self, e: Expr) -> Expr:
        """A mixed choice inside sums and products, brought to the top."""
        if not (isinstance(e, Prim) and e.op in (Op.ADD, Op.MUL)) or not self.mixed(e):
            return e
        args = [self._lifted(a) for a in e.args]
        for n, a in enumerate(args):
            if isinstance(a, Choose) and self.mixed(a):
                other = args[1 - n]
                then, otherwise = (
                    _fold(prim(e.op, (x, other), e.dtype)) for x in (a.then, a.otherwise)
                )
                return choose(a.condition, self._lifted(then), otherwise)
        return e

    def _choice(self, e: Choose) -> tuple[Term, ...]:
        if self.depends(e.condition):
            raise NoNormalForm("a choice that depends on a reduction over the same axis")
        return self._of_either(e.condition, e.then, e.otherwise, selected=True)

    def _of_either(
        self, condition: Expr, then: Expr, otherwise: Expr, *, selected: bool
    ) -> tuple[Term, ...]:
        out: list[Term] = []
        for guard, side in ((condition, then), (negation(condition), otherwise)):
            if not is_zero(side):
                chosen = Term(guards=(guard,), selected=selected)
                out.extend(chosen.times(t) for t in self.terms(side))
        return tuple(out)

    def _pulled(self, t: Term, e: Reduce) -> Term:
        """A term of an inner sum's body, with all that is constant over its axes in front."""
        inside = frozenset(e.axes)

        def bound(x: Expr) -> bool:
            return bool(free_axes(x) & inside)

        parts = [*t.state, *t.guards, *(f for p in t.power for f in (*p.fixed, *p.data, *p.state))]
        if t.rounded or any(bound(f) for f in parts):
            raise NoNormalForm("an inner sum over what depends on a reduction over the same axis")
        body = [f for f in (*t.fixed, *t.data) if bound(f)]
        inner = reduce(Monoid.SUM, e.axes, product_of(body, e.dtype), e.dtype, e.where)
        data = tuple(f for f in t.data if not bound(f))
        fixed = tuple(f for f in t.fixed if not bound(f))
        if self.varies(inner):
            data = (*data, inner)
        else:
            fixed = (*fixed, inner)
        return replace(t, data=data, fixed=fixed)


def product_of(factors: Sequence[Expr], dtype: DType) -> Expr:
    """The product from left to right; one for none."""
    out: Expr | None = None
    for f in factors:
        out = f if out is None else prim(Op.MUL, (out, f), dtype)
    return const(1, dtype) if out is None else out


def plain(t: Term, dtype: DType) -> Expr:
    """A product as an expression."""
    return scaled(product_of([*t.fixed, *t.data, *t.state], dtype), t.coef, dtype)


def scaled(e: Expr, c: Fraction, dtype: DType) -> Expr:
    return e if c == 1 else prim(Op.MUL, (e, const(float(c), dtype)), dtype)


def sum_of(summands: Sequence[Expr], dtype: DType) -> Expr:
    """The sum from left to right; zero for none."""
    out: Expr | None = None
    for e in summands:
        out = e if out is None else prim(Op.ADD, (out, e), dtype)
    return const(0, dtype) if out is None else out


def conjunction(guards: tuple[Expr, ...]) -> Expr:
    """Whether all guards hold."""
    out: Expr = const(True, boolean)
    for g in guards:
        out = prim(Op.MUL, (out, g), boolean)
    return out


def _fold(e: Expr) -> Expr:
    """Infinite constants, worked out: what masks are made of."""
    if isinstance(e, Prim) and e.op is Op.EXP2 and isinstance(e.args[0], Const):
        return const(0.0, e.dtype) if e.args[0].value == float("-inf") else e
    if isinstance(e, Prim) and e.op in (Op.ADD, Op.MUL):
        for n, a in enumerate(e.args):
            if isinstance(a, Const) and not isfinite(a.value):
                other = e.args[1 - n]
                if e.op is Op.ADD:
                    return a
                if isinstance(other, Const) and other.value > 0:
                    return a
    return e


def _name(e: Expr) -> str:
    return e.op.value if isinstance(e, Prim) else type(e).__name__.lower()
