"""Sizes as users meet them: numbers where they are known, else arithmetic that Python may not branch on unseen.

Below the frontend, expressions compare by structure. A user's `==`, `<` or `if` asks for every value
that the dims are declared with: it is answered where all agree, and refused where they do not.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any, Self, TypeAlias, Union

from lumigen import index
from lumigen.errors import BadArgument, BadSize, DimSpecialised
from lumigen.frontend.extents import check_extent, declared
from lumigen.frontend.trace import fail
from lumigen.index import Ix, Symbolic, is_less, is_nonnegative, ix, maximum, minimum

Size: TypeAlias = Union[int, "SymbolicSize"]


class SymbolicSize(Symbolic):
    """A size that is known only when the model runs.

    `+ - * // %` with ints, dims and sizes give sizes, or the int that they always are. `== != < <= >
    >=` and `if` are answered where all declared values of the dims agree; DimSpecialised where they
    do not. What needs a number (`int`, `range`, `/`, `**`) is a BadSize, which is a TypeError.
    """

    __array_ufunc__ = None  # numpy's numbers leave operators to this class

    def __init__(self, expression: Ix) -> None:
        self._expression = expression

    @property
    def expression(self) -> Ix:
        """The size as the compiler has it."""
        return self._expression

    def __str__(self) -> str:
        return str(self.expression)

    __repr__ = __str__

    def __hash__(self) -> int:
        """Equal sizes hash alike: a dim's size as the dim."""
        e = self.expression
        return next((hash(a) for a in e.atoms() if ix_of(a) is e), hash(e))

    def __index__(self) -> int:
        """A BadSize that says so: there is no number yet."""
        return self.expression.__index__()

    def __bool__(self) -> bool:
        return self != 0

    # --- arithmetic -------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Size:
        return _combined(operator.add, self, other)

    def __radd__(self, other: Any) -> Size:
        return _combined(operator.add, other, self)

    def __sub__(self, other: Any) -> Size:
        return _combined(operator.sub, self, other)

    def __rsub__(self, other: Any) -> Size:
        return _combined(operator.sub, other, self)

    def __mul__(self, other: Any) -> Size:
        return _combined(operator.mul, self, other)

    def __rmul__(self, other: Any) -> Size:
        return _combined(operator.mul, other, self)

    def __floordiv__(self, other: Any) -> Size:
        return _combined(_quotient, self, other)

    def __rfloordiv__(self, other: Any) -> Size:
        return _combined(_quotient, other, self)

    def __mod__(self, other: Any) -> Size:
        return _combined(_remainder, self, other)

    def __rmod__(self, other: Any) -> Size:
        return _combined(_remainder, other, self)

    def __neg__(self) -> Size:
        return size_of(-self.expression)

    def __pos__(self) -> Size:
        return size_of(self.expression)

    def _fraction(self, other: Any) -> Any:
        """No number, and no expression either; a tensor has its own answer."""
        return self.__index__() if isinstance(other, Real | Symbolic | Ix) else NotImplemented

    def _divided(self, other: Any) -> Any:
        """Likewise, with the size that may be meant."""
        try:
            return self._fraction(other)
        except BadSize as e:
            remedy = f"Write // for a size, which is an integer. {e.facts['remedy']}"
            size, why = e.facts["size"], e.facts["why"]
            raise BadSize(where=e.where, size=size, why=why, remedy=remedy) from None

    __truediv__ = __rtruediv__ = _divided
    __pow__ = __rpow__ = _fraction

    # --- comparison -------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        return _compared(self, "==", other)

    def __ne__(self, other: object) -> bool:
        return _compared(self, "!=", other)

    def __lt__(self, other: Any) -> bool:
        return _compared(self, "<", other)

    def __le__(self, other: Any) -> bool:
        return _compared(self, "<=", other)

    def __gt__(self, other: Any) -> bool:
        return _compared(self, ">", other)

    def __ge__(self, other: Any) -> bool:
        return _compared(self, ">=", other)


@dataclass(frozen=True, eq=False)
class Dim(SymbolicSize, index.Dim):
    """A symbolic extent, known only when a model runs: in `lo..hi`, a multiple of `multiple_of`.

    A dim is identified by its name and has one range in a model. `typical` (default: `hi`) is the value
    by which the compiler decides what is fused and how work is divided: a model runs at all sizes and
    is made for this one. BadArgument for what is no integer; `spec` raises it unless 1 <= lo <= typical <=
    hi < 2**62 and `typical` is a multiple of `multiple_of`.

    `x.shape` holds a size for it. `+ - * // %` of dims, sizes and ints give sizes, ints where they are
    known. `==`, `<`, `if` and their like are answered where all declared values agree, and are
    DimSpecialised where they do not: Python decides while the model is traced, once for all sizes.
    What may differ is computed, as `lg.where(lg.full((), x.shape[0], lg.i64) == 4, a, b)` is. `int`,
    `range`, `/` and `**` of a size are a BadSize.
    """

    def __new__(cls, *given: Any, **named: Any) -> Self:
        """BadArgument without a name or a range, or with more than there is to say of a dim."""
        known = [f.name for f in fields(cls)]
        said = (*known[: len(given)], *named)
        fits = len(given) <= len(known) and set(known[:3]) <= set(said) <= set(known)
        fits = fits and isinstance(given[0] if given else named["name"], str)
        if said and not fits:  # copy and pickle give nothing, and set the fields later
            shown = [*map(repr, given), *(f"{key}={value!r}" for key, value in named.items())]
            raise fail(
                BadArgument,
                op="Dim",
                name="a dim",
                value=f"lg.Dim({', '.join(shown)})",
                expected='a name, the least and the greatest size, as in lg.Dim("batch", 1, 64), '
                "and perhaps multiple_of= and typical=",
            )
        return super().__new__(cls)

    @property
    def expression(self) -> Ix:
        """The size as the compiler has it."""
        return ix(index.Dim(self.name, self.lo, self.hi, self.multiple_of, self.typical))

    def __str__(self) -> str:
        return self.name


def size_of(extent: Ix) -> Size:
    """What users get of an extent: an int where it is known."""
    return extent.const if extent.is_const else SymbolicSize(extent)


def ix_of(atom: index.Atom) -> Ix | None:
    """The expression of an atom that users can name."""
    return ix(atom) if isinstance(atom, index.Dim) else None


def sym_max(a: Size, b: Size) -> Size:
    """The greater of two sizes; Python's `max` would have to know them."""
    return _chosen("sym_max", maximum, a, b)


def sym_min(a: Size, b: Size) -> Size:
    """The lesser of two sizes; Python's `min` would have to know them."""
    return _chosen("sym_min", minimum, a, b)


def _chosen(op: str, choose: Callable[[Ix, Ix], Ix], a: object, b: object) -> Size:
    sizes: list[Ix] = []
    for name, given in (("a", a), ("b", b)):
        size = _index(given)
        if size is None:
            expected = "a size: an integer, a dim or an expression of them"
            raise fail(BadArgument, op=op, name=name, value=repr(given), expected=expected)
        sizes.append(size)
    return size_of(choose(*sizes))


def _index(value: object) -> Ix | None:
    return ix(value) if isinstance(value, Integral | Symbolic | Ix) else None  # type: ignore[arg-type]


def _combined(op: Callable[[Ix, Ix], Ix], a: Any, b: Any) -> Any:
    """A size of two operands; of a tensor it is the tensor's to say, and fractions need numbers."""
    left, right = _index(a), _index(b)
    if left is not None and right is not None:
        return size_of(op(left, right))
    symbolic, other = (a, b) if right is None else (b, a)
    return symbolic.__index__() if isinstance(other, Real) else NotImplemented


def _quotient(n: Ix, d: Ix) -> Ix:
    """floor(n / d), as Python rounds; no divisor may be 0 for some value of a dim."""
    if is_less(d, ix(0)):
        return _quotient(-n, -d)
    check_extent("//", f"the divisor is {d}", d, least=1)
    return n // d


def _remainder(n: Ix, d: Ix) -> Ix:
    """With the sign of the divisor."""
    if is_less(d, ix(0)):
        return -_remainder(-n, -d)
    check_extent("%", f"the divisor is {d}", d, least=1)
    return n % d


# --- what holds for every declared value ----------------------------------------------------------


def _compared(a: SymbolicSize, symbol: str, other: Any) -> bool:
    b = _index(other)
    if b is None:
        if not isinstance(other, Real):
            return NotImplemented
        number = float(other)
        if not math.isfinite(number) or (symbol in "== !=" and number != math.floor(number)):
            return bool(_PYTHON[symbol](0.5, number))  # as of every size
        # sizes are whole: n < 2.5 is n < 3, n <= 2.5 is n <= 2
        b = ix(math.ceil(number) if symbol in {"<", ">="} else math.floor(number))
    left, right = _in_range(a.expression), _in_range(b)
    swap, decide, negate = _RULES[symbol]
    found = decide(right, left) if swap else decide(left, right)
    if found is None:
        raise _undecided(a, symbol, other, b)
    return found is not negate


def _is_below(a: Ix, b: Ix) -> bool | None:
    if is_less(a, b):
        return True
    return False if is_nonnegative(a - b) else None


def _is_same(a: Ix, b: Ix) -> bool | None:
    rest = a - b
    if rest.is_const:
        return rest.const == 0
    divisor = math.gcd(*(factor for _, factor in rest.terms))
    apart = is_less(a, b) or is_less(b, a) or rest.const % divisor
    return False if apart else None


_PYTHON: dict[str, Callable[[float, float], object]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_Rule: TypeAlias = tuple[bool, Callable[[Ix, Ix], "bool | None"], bool]
_RULES: dict[
    str, _Rule
] = {  # whether the sides change places, what decides, whether its opposite is asked
    "==": (False, _is_same, False),
    "!=": (False, _is_same, True),
    "<": (False, _is_below, False),
    "<=": (True, _is_below, True),
    ">": (True, _is_below, False),
    ">=": (False, _is_below, True),
}


def _in_range(e: Ix) -> Ix:
    """The same value with ranges as narrow as they are: a multiple of m counted in m, one value as a number."""
    counted: dict[index.Dim, Ix] = {}
    for dim in (a for a in e.atoms() if isinstance(a, index.Dim)):
        m = dim.multiple_of
        lo, hi = -(-dim.lo // m), dim.hi // m
        if lo == hi:
            counted[dim] = ix(lo * m)
        elif m > 1:
            counted[dim] = ix(index.Dim(f"{dim.name} / {m}", lo, hi)) * m
    return e.substitute(counted)


def _undecided(a: SymbolicSize, symbol: str, other: object, b: Ix) -> Exception:
    e = a.expression
    dim = next(x for x in (e - b).atoms() if isinstance(x, index.Dim))
    lo, hi = _in_range(e).bounds()
    known = "" if ix(dim) is e else f" ({e} is in {lo}..{hi})"
    needed = (
        f"such that {a} {symbol} {other} holds always or never{known}, since Python decides it while "
        f"the model is traced; lg.where(lg.full((), {a}, lg.i64) {symbol} {other}, x, y) decides it "
        f"when the model runs, lg.sym_min({a}, {other}) and lg.sym_max are the lesser and the greater of sizes"
    )
    return fail(DimSpecialised, op=symbol, dim=dim.name, declared=declared(dim), needed=needed)
