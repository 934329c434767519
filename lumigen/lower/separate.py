"""separate: one loop for several reductions over the same axes, and the corrections it needs.

A sum whose body depends on earlier reductions r over the same points is, in normal form,

    sum_k body = sum_i p_i(r) * S_i,   S_i(R) = sum_{k in R} g_i(k) * 2^(l_i(k) + lam_i(r(R)))
    S_i(A + B) = S_i(A) * 2^(lam_i(r(A + B)) - lam_i(r(A))) + S_i(B; r(A + B))

so p_i is applied after the loop and lam_i becomes a correction. That is done only where it is safe
in floating point: lam_i falls by maxima that bound l_i, so that no exponent and no correction exceeds
what the source computes; nothing carried depends on a sum; a combination of states with opposite
signs is marked as cancelling.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product as choices

import numpy as np

from lumigen.condition import Cmp, less
from lumigen.dtype import DType, boolean, f16, f64, i64
from lumigen.index import Axis, extent_of, is_less, is_nonnegative, ix
from lumigen.lower.algebra import (
    Polynomial,
    add,
    chains,
    finite_part,
    frozen,
    greatest,
    negated,
    polynomial,
    scale,
    sign,
    unify,
    widens,
)
from lumigen.lower.algebra import is_nonnegative as is_above_zero
from lumigen.lower.algebra import product as polynomial_of_product
from lumigen.lower.bounds import absent_unless, unmasked
from lumigen.lower.shares import sums_of_sides
from lumigen.lower.terms import (
    NoNormalForm,
    NormalForm,
    Term,
    conjunction,
    plain,
    product_of,
    scaled,
    sum_of,
)
from lumigen.ops import Op
from lumigen.plan import Carry, LoopFold
from lumigen.region import (
    Carried,
    Choose,
    Const,
    Expr,
    Holds,
    Monoid,
    Prim,
    Read,
    Reduce,
    as_index,
    carried,
    choose,
    const,
    holds,
    index,
    is_zero,
    local,
    map_expr,
    prim,
    reduce,
    walk,
)


@dataclass(frozen=True)
class NotSeparable:
    """Why no single loop computes the reductions."""

    reason: str


def separate(exprs: tuple[Expr, ...], axes: tuple[Axis, ...]) -> LoopFold | NotSeparable:
    """One loop over the product of `axes` for all reductions over them, or why there is none."""
    same = unify(exprs)
    try:
        fold = _synthesise(_over(same.values(), axes), axes)
    except NoNormalForm as no:
        return NotSeparable(str(no))
    return _with_originals(fold, same)


def sweeps(
    exprs: tuple[Expr, ...], axes: tuple[Axis, ...], *, fuse: bool = True
) -> tuple[LoopFold, ...]:
    """Loops in sequence that compute every reduction over `axes`, each in the earliest it can.

    The tiles of a later loop read reductions of earlier ones as they stand in `exprs`: the earlier
    loops' `results` say what these are. With `fuse`, a reduction shares the loop of those it
    depends on wherever that is separable and loses no digits.
    """
    same = unify(exprs)
    groups: list[list[Reduce]] = []
    place: dict[Expr, int] = {}
    for r in _over(same.values(), axes):
        needed = [place[x] for x in walk([r.body]) if x in place]
        at = max(needed, default=0)
        if needed and not (fuse and _fits([*groups[at], r], axes)):
            at += 1
        place[r] = at
        if at == len(groups):
            groups.append([])
        groups[at].append(r)
    return tuple(_with_originals(_synthesise(g, axes), same) for g in groups)


def _fits(targets: list[Reduce], axes: tuple[Axis, ...]) -> bool:
    try:
        return not _synthesise(targets, axes).cancelling
    except NoNormalForm:
        return False


def _over(exprs: Iterable[Expr], axes: tuple[Axis, ...]) -> list[Reduce]:
    """The reductions over (at least) `axes`, operands before users."""
    return [x for x in walk(exprs) if isinstance(x, Reduce) and set(axes) <= set(x.axes)]


def _with_originals(fold: LoopFold, same: Mapping[Expr, Expr]) -> LoopFold:
    """The fold with results for all spellings of its reductions."""
    known = dict(fold.results)
    pairs = {e: known[s] for e, s in same.items() if s in known}
    return replace(fold, results=tuple({**known, **pairs}.items()))


def _synthesise(targets: list[Reduce], axes: tuple[Axis, ...]) -> LoopFold:
    work = _Synthesis(axes, targets)
    for r in targets:
        work.reduction(r)
    common: list[Cmp] | None = None
    for c in work.carries:
        conditions = absent_unless(c.monoid, c.tile)
        common = [x for x in conditions if common is None or x in common]
    results, cancelling = tuple(work.results.items()), bool(work.cancelling)
    return LoopFold(axes, tuple(work.carries), results, tuple(common or ()), cancelling)


@dataclass(frozen=True)
class _Exponent:
    """A term's power, sorted: 2^(data + sum(coef * maximum) + rest)."""

    data: tuple[Term, ...]
    maxima: tuple[tuple[Expr, Fraction], ...]
    rest: tuple[Term, ...]


class _Synthesis:
    """The carries of one fold while it grows."""

    def __init__(self, axes: tuple[Axis, ...], targets: list[Reduce]) -> None:
        self.axes = axes
        self.form = NormalForm(axes, frozenset(targets))
        self.carries: list[Carry] = []
        self.results: dict[Expr, Expr] = {}
        self.cancelling: set[int] = set()
        self.maxima: dict[Expr, int] = {}  # the maxima that are a state just as they are
        self.undefined: dict[
            Expr, frozenset[Expr]
        ] = {}  # sums that are NaN where one of these is -inf
        self.number: dict[object, int] = {}
        self.own = {
            frozen(polynomial(x.args[0]))
            for r in targets
            for x in walk([r.body])
            if isinstance(x, Prim) and x.op is Op.EXP2 and not self.form.depends(x)
        }

    def reduction(self, r: Reduce) -> None:
        body, guards = self._point(r)
        if not self.form.depends(body):
            absent = const(r.dtype.lowest if r.monoid is Monoid.MAX else 0, r.dtype)
            tile = choose(conjunction(guards), body, absent)
            key: tuple[object, ...] = (r.monoid, tile, r.acc)
            if r.monoid is Monoid.SUM:
                key = _key(polynomial(body), {}, frozenset(), guards, r.acc)
            self.results[r] = self._carry(key, Carry(r, r.monoid, tile, None))
            if r.monoid is Monoid.MAX and r.dtype.is_float:
                self.maxima[r] = self.number[key]
        elif (sides := sums_of_sides(r, self.form, self._is_below_zero)) is not None:
            condition, sums = sides
            self.results[r] = choose(
                map_expr(condition, self.results), *(self._side(x) for x in sums)
            )
        elif (chosen := _chosen(body)) is not None and self.form.depends(chosen[0]):
            self.results[r] = self._beside_maximum(r, *chosen, guards)
        elif r.monoid is Monoid.MAX:
            self.results[r] = self._shifted_maximum(r, body, guards)
        else:
            self.results[r] = self._sum(r, body, guards)

    def _side(self, e: Expr) -> Expr:
        if isinstance(e, Reduce):
            self.reduction(e)
        return self.results.get(e, e)

    def _is_below_zero(self, t: Term) -> bool:
        """Whether no exponent of the term is above zero, at infinite maxima either."""
        e = self._exponent(t)
        self._check(t, e)
        return bool(e.maxima) and not e.rest and not any(finite_part(m) for m, _ in e.maxima)

    def _point(self, r: Reduce) -> tuple[Expr, tuple[Expr, ...]]:
        """What one point of the fold contributes, and where."""
        inner = tuple(a for a in r.axes if a not in self.axes)
        if inner:
            return reduce(r.monoid, inner, r.body, r.dtype, r.where), ()
        return r.body, ((holds(r.where),) if r.where else ())

    def _carry(self, key: object, carry: Carry) -> Expr:
        """The state, once the loop has ended."""
        found = self.number.setdefault(key, len(self.carries))
        if found == len(self.carries):
            self.carries.append(carry)
        return carried(found, "new", carry.dtype)

    # ---- maxima ----

    def _beside_maximum(
        self, r: Reduce, condition: Expr, then: Expr, absent: Expr, guards: tuple[Expr, ...]
    ) -> Expr:
        """What comes of the points that fulfil a condition beside a maximum, as where it is; `absent` of all others.

        When the maximum grows, those that were met before fulfil it no more unless the maximum before does itself.
        """
        asked = _factors_of(condition)
        mixed = conjunction(tuple(c for c in asked if self.form.depends(c)))
        apart = tuple(c for c in asked if not self.form.depends(c))
        (m, *others) = [x for x in walk([mixed]) if x in self.form.targets]
        if others or m not in self.maxima or self.form.depends(then):
            raise NoNormalForm("a choice that depends on a reduction over the same axis")
        carry = self.carries[self.maxima[m]]
        element, most = (local(n, frozenset(), m.dtype) for n in ("element", "most"))
        known: dict[Expr, Expr] = {m: most, carry.tile: element}
        if (x := negated(carry.tile)) is not None:
            known[x] = prim(Op.MUL, (element, const(-1, m.dtype)), m.dtype)
        bare = map_expr(mixed, known)
        if not chains(bare, element, most):
            raise NoNormalForm(
                "a choice that does not follow from the one beside an earlier maximum"
            )
        is_sum = r.monoid is Monoid.SUM
        more = then if is_sum else _more_than(then, absent, r.dtype)
        if more is None or (guards and not is_sum) or (is_sum and not is_zero(absent)):
            raise NoNormalForm("a choice of less than what other points have")

        def tile(most: Expr) -> Expr:
            wanted = conjunction((*guards, *apart, map_expr(mixed, {m: most})))
            return choose(wanted, more, const(0, r.acc))

        old, new = (carried(self.maxima[m], which, m.dtype) for which in ("old", "new"))
        correct = map_expr(bare, {element: old, most: new})
        value = reduce(r.monoid, self.axes, tile(m), r.dtype)
        key = (r.monoid, tile(m), r.acc)
        out = self._carry(key, Carry(value, r.monoid, tile(new), correct))
        points = extent_of(self.axes)
        if is_sum or is_less(ix(0), points):
            return sum_of([out, absent], r.acc) if not is_zero(absent) else out
        lowest = const(r.dtype.lowest, r.acc)
        return choose(holds((less(0, points),)), sum_of([out, absent], r.acc), lowest)

    def _shifted_maximum(self, r: Reduce, body: Expr, guards: tuple[Expr, ...]) -> Expr:
        """max(data + state) is max(data) + state."""
        data: list[Expr] = []
        state: list[Expr] = []
        for t in self.form.terms(body):
            if t.guards or t.power or t.rounded or (t.data and t.state):
                raise NoNormalForm("a maximum of what depends on a reduction over the same axis")
            (data if t.data else state).append(plain(t, r.acc))
        inner = sum_of(data, r.acc)
        tile = choose(conjunction(guards), inner, const(r.acc.lowest, r.acc))
        value = reduce(Monoid.MAX, self.axes, tile, r.acc)
        found = self._carry((r.monoid, tile, r.acc), Carry(value, r.monoid, tile, None))
        return sum_of([found, *state], r.acc)

    # ---- sums ----

    def _sum(self, r: Reduce, body: Expr, guards: tuple[Expr, ...]) -> Expr:
        parts: dict[Expr, list[list[Expr]]] = {}
        signs: set[int] = set()
        maxima: dict[Expr, None] = {}
        outside: list[Expr] = []
        for term in self.form.terms(body):
            within = tuple(dict.fromkeys((*guards, *term.guards)))
            t = replace(term, guards=within, selected=term.selected or bool(guards))
            e = self._exponent(t)
            self._check(t, e)
            parts.setdefault(self._state(r, t, e), []).append(self._factors(r, t, e))
            signs.add(sign((*t.fixed, *t.data, *t.state), t.coef))
            if not t.guards:
                maxima.update((m, None) for m, _ in e.maxima if not finite_part(m))
                outside += t.state
        if len(parts) > 1 and (len(signs) > 1 or 0 in signs):
            self.cancelling |= {s.carry for s in parts if isinstance(s, Carried)}
        out = sum_of([_combined(s, factors, r.acc) for s, factors in parts.items()], r.acc)
        self.undefined[r] = frozenset(maxima)
        if not any(self._is_undefined(f, self.undefined[r]) for f in outside):
            for m in maxima:
                lowest = _is_lowest(map_expr(m, self.results), r.acc)
                out = choose(lowest, const(np.nan, r.acc), out)
        points = extent_of(self.axes)
        if is_less(ix(0), points):
            return out
        return choose(holds((less(0, points),)), out, const(0, r.acc))  # whatever its factors are

    def _is_undefined(self, e: Expr, maxima: frozenset[Expr]) -> bool:
        """Whether `e` is NaN already wherever one of `maxima` is -inf."""
        if e in self.undefined:
            return maxima <= self.undefined[e]
        return (
            isinstance(e, Prim)
            and not e.dtype.is_bool
            and any(self._is_undefined(a, maxima) for a in e.args)
        )

    def _exponent(self, t: Term) -> _Exponent:
        data: list[Term] = []
        rest: list[Term] = []
        maxima: dict[Expr, Fraction] = {}
        for p in t.power:
            if p.data:
                data.append(p)
            elif len(p.state) == 1 and not p.fixed and self._bounds(p.state[0]):
                m = p.state[0]
                maxima[m] = maxima.get(m, Fraction(0)) + p.coef
            else:
                rest.append(p)
        return _Exponent(tuple(data), tuple((m, c) for m, c in maxima.items() if c), tuple(rest))

    def _bounds(self, m: Expr) -> tuple[Expr, ...]:
        """The tiles that `m` is not below at any point so far; none unless `m` is a maximum.

        A maximum that the source itself replaces where it is infinite counts: the exponents there
        are the source's own.
        """
        return self._bounds_of_maximum(finite_part(m) or m)

    def _bounds_of_maximum(self, m: Expr) -> tuple[Expr, ...]:
        if m in self.maxima:
            return (self.carries[self.maxima[m]].tile,)
        if isinstance(m, Prim) and m.op is Op.CONTIGUOUS and widens(m):
            return self._bounds_of_maximum(m.args[0])
        sides = greatest(m)
        if sides is None:
            return ()
        out: tuple[Expr, ...] = ()
        for side in sides:
            below = self._bounds_of_maximum(side)
            if not below and self.form.depends(side):
                return ()
            out += below
        return out

    def _check(self, t: Term, e: _Exponent) -> None:
        """Whether no exponent, of a tile or of a correction, exceeds what the source computes.

        What is rounded is multiplied with what memory holds in that type. Nor does it leave the range of f16 if the
        source's does not: it is a power of which a maximum was taken, divided later. The range of bf16 is that of f32.
        """
        held = {x.source.dtype for x in walk(t.data) if isinstance(x, Read)}
        if t.rounded and held != {t.rounded.dtype}:
            raise NoNormalForm(f"a cast to {t.rounded.dtype} beside no operand of that type")
        if t.rounded and t.rounded.dtype is f16:
            divided = all(isinstance(f, Prim) and f.op is Op.RECIP for f in t.state)
            if t.rounded.data or t.fixed or not e.maxima or not divided:
                raise NoNormalForm("a cast to f16 of what may be out of its range")
        if any(c > 0 for _, c in e.maxima):
            raise NoNormalForm("an exponent that grows with a maximum")
        if e.maxima:
            options = [[(tile, -c) for tile in self._bounds(m)] for m, c in e.maxima]
            if not any(_is_bounded(e.data, picked, t.guards) for picked in choices(*options)):
                raise NoNormalForm("an exponent that its maximum does not bound")
            if e.rest and t.selected:  # 0 * 2^inf where nothing is selected
                raise NoNormalForm("an exponent that the source need not compute")
        elif any(p.state for p in e.rest) and frozen(_sum_of_terms(e.data)) not in self.own:
            raise NoNormalForm("an exponent that depends on a reduction but on no maximum")

    def _state(self, r: Reduce, t: Term, e: _Exponent) -> Expr:
        """The state of a term once the loop has ended; the number of points if it has no data."""
        if not t.data and not e.data and not t.guards and not t.rounded:
            points = index(extent_of(self.axes), i64)
            return prim(Op.CONTIGUOUS, (points,), r.acc)
        factors = polynomial_of_product(t.data)
        inside = () if t.rounded is None else t.rounded.data
        key: tuple[object, ...] = (
            *_key(factors, _sum_of_terms(e.data), frozenset(e.maxima), t.guards, r.acc),
            *((t.rounded.dtype, frozen(polynomial_of_product(inside))) if t.rounded else ()),
        )
        found = self.number.get(key)
        if found is not None:
            return carried(found, "new", r.acc)
        now = [(self._subtracted(m, "new", r.acc), c) for m, c in e.maxima]
        before = [(self._subtracted(m, "old", r.acc), -c) for m, c in e.maxima]
        data = [(plain(replace(p, coef=Fraction(1)), r.acc), p.coef) for p in e.data]

        def body(maxima: Sequence[tuple[Expr, Fraction]]) -> Expr:
            first = [*([_power(data, maxima, r.acc)] if data else []), *inside]
            if t.rounded:
                rounded = prim(Op.CONTIGUOUS, (product_of(first, r.acc),), t.rounded.dtype)
                first = [prim(Op.CONTIGUOUS, (rounded,), r.acc)]
            value = product_of([*first, *t.data], r.acc)
            return choose(conjunction(t.guards), value, const(0, r.acc))

        value = reduce(Monoid.SUM, self.axes, body(e.maxima), r.dtype)
        correct = _power(before, now, r.acc) if e.maxima else None
        return self._carry(key, Carry(value, Monoid.SUM, body(now), correct))

    def _subtracted(self, m: Expr, which: str, acc: DType) -> Expr:
        """A maximum before the tile or with it; with it, -inf counts as zero."""
        at = {r: carried(i, which, self.carries[i].dtype) for r, i in self.maxima.items()}
        bare = finite_part(m)
        if which == "old":
            return map_expr(bare or m, at)
        now = map_expr(m, at)
        return now if bare else choose(_is_lowest(now, acc), const(0.0, acc), now)

    def _factors(self, r: Reduce, t: Term, e: _Exponent) -> list[Expr]:
        """What a term multiplies its state with, once the loop has ended."""
        out = [*t.fixed, *(map_expr(f, self.results) for f in t.state)]
        if e.rest:
            rest = [map_expr(plain(p, r.acc), self.results) for p in e.rest]
            out.append(prim(Op.EXP2, (sum_of(rest, r.acc),), r.acc))
        return [*out, const(float(t.coef), r.acc)] if t.coef != 1 else out


def _chosen(e: Expr) -> tuple[Expr, Expr, Expr] | None:
    """The condition of a choice, and what it chooses from: a truth value as a number is one of 1 and 0."""
    if isinstance(e, Choose):
        return e.condition, e.then, e.otherwise
    if isinstance(e, Prim) and e.op is Op.CONTIGUOUS and e.args[0].dtype.is_bool:
        return e.args[0], const(1, e.dtype), const(0, e.dtype)
    return None


def _factors_of(condition: Expr) -> tuple[Expr, ...]:
    """The conditions that hold where all of it does."""
    if isinstance(condition, Prim) and condition.op is Op.MUL:
        return tuple(c for a in condition.args for c in _factors_of(a))
    return (condition,)


def _more_than(e: Expr, least: Expr, dtype: DType) -> Expr | None:
    """By how much a value is more than a constant that it is not below, or None."""
    if not isinstance(least, Const):
        return None
    at = as_index(e) if dtype.is_int else None
    if at is not None and dtype.is_int:
        more = at - int(least.value)
        return index(more, dtype) if is_nonnegative(more) else None
    return e if is_zero(least) and is_above_zero(e) else None


def _key(
    factors: Polynomial,
    exponent: Polynomial,
    maxima: frozenset[tuple[Expr, Fraction]],
    guards: tuple[Expr, ...],
    acc: DType,
) -> tuple[object, ...]:
    """What makes two carried sums the same state."""
    return (frozen(factors), frozen(exponent), maxima, frozenset(guards), acc)


def _is_bounded(
    data: tuple[Term, ...], bounds: tuple[tuple[Expr, Fraction], ...], guards: tuple[Expr, ...]
) -> bool:
    """Whether the exponent `data` is the sum of the tiles whose maxima are subtracted from it.

    Masks may differ: where the sum's own guards and masks hold, those of the maximum must hold too.
    """
    if frozen(_sum_of_terms(data)) == frozen(_total(bounds)):
        return True
    have = [c for g in guards if isinstance(g, Holds) for c in g.conditions]
    bare: list[Term] = []
    for t in data:
        stripped = [unmasked(d) for d in t.data]
        bare.append(replace(t, data=tuple(e for e, _ in stripped)))
        have += [c for _, conditions in stripped for c in conditions]
    tiles = [unmasked(tile) for tile, _ in bounds]
    needed = [c for _, conditions in tiles for c in conditions]
    total = _total([(e, c) for (e, _), (_, c) in zip(tiles, bounds, strict=True)])
    return frozen(_sum_of_terms(bare)) == frozen(total) and all(
        any(is_nonnegative(n.slack - h.slack) for h in have) for n in needed
    )


def _total(summands: Iterable[tuple[Expr, Fraction]]) -> Polynomial:
    out: Polynomial = {}
    for e, c in summands:
        out = add(out, scale(polynomial(e), c))
    return out


def _sum_of_terms(terms: Iterable[Term]) -> Polynomial:
    out: Polynomial = {}
    for t in terms:
        out = add(out, polynomial_of_product((*t.fixed, *t.data, *t.state), t.coef))
    return out


def _power(
    summands: Sequence[tuple[Expr, Fraction]],
    maxima: Sequence[tuple[Expr, Fraction]],
    dtype: DType,
) -> Expr:
    """2^sum(coef * e) of the summands and the maxima that are taken from them: 2^((s - m) * c).

    c, the coefficient of the maxima, stays outside, so that s - m is exact where the two are near each other, and 0
    where they are equal: s * c - m * c has the rounding error of m * c, which is large where scores are.
    """
    both = [*summands, *maxima]
    common = abs(maxima[0][1]) if maxima else Fraction(1)
    if any(abs(c) != common for _, c in maxima):
        common = Fraction(1)
    inner = [scaled(e, c / common, dtype) for e, c in both]
    return prim(Op.EXP2, (scaled(sum_of(inner, dtype), common, dtype),), dtype)


def _combined(state: Expr, factors: list[list[Expr]], dtype: DType) -> Expr:
    """state * sum(products of factors)."""
    if len(factors) == 1:
        return product_of([state, *factors[0]], dtype)
    return product_of([state, sum_of([product_of(f, dtype) for f in factors], dtype)], dtype)


def _is_lowest(m: Expr, dtype: DType) -> Expr:
    """Whether a maximum is -inf. It is not where it is NaN."""
    lowest = -float(np.finfo(np.float64 if dtype is f64 else np.float32).max)
    return prim(Op.LESS_THAN, (m, const(lowest, dtype)), boolean)
