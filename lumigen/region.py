"""Regions: what is computed, in index notation over named axes.

Floats of 16 bits exist in memory only: reading one gives f32, a store rounds. The one value of such a type is a
cast to it, a rounding point, and a cast back stands around it.

An expression is a frozen, interned DAG over named axes. Movement is gone: a read names the buffer and one index
expression per dimension. A region is a set of stores of such expressions; elementwise fusion is implicit in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter
from typing import Any, Union, cast

from lumigen.condition import Cmp, less
from lumigen.described import Described
from lumigen.dtype import DType, accumulator, boolean, computed
from lumigen.errors import SourceLocation
from lumigen.index import Axis, Dim, Indicator, Ix, Lookup, indicator, ix, lookup, maximum, minimum
from lumigen.integers import FURTHEST, Range, comparable, fits, range_of, remainder_fits, wrapped
from lumigen.memo import HashedOnce, Nodes, remembered
from lumigen.ops import HALF_TURN, Op
from lumigen.view import Shape


class Role(Enum):
    """Where a buffer's bytes live."""

    INPUT = "input"
    WEIGHT = "weight"
    STATE = "state"
    TEMP = "temp"
    OUTPUT = "output"
    COUNTER = "counter"  # numbers that are 0 before and after a launch
    WORKSPACE = "workspace"  # what the tasks of one launch leave for each other, and nothing else
    SCRATCH = "scratch"  # a tile of one thread; tile programs only

    # As that of ops, it is asked for all the time.
    __hash__ = object.__hash__


@dataclass(frozen=True)
class Buffer(HashedOnce):
    """A tensor in memory. `dims` are its extents; `range` bounds integer values, inclusive."""

    name: str
    role: Role
    dims: Shape
    dtype: DType
    range: tuple[int, int] | None = None

    __hash__ = HashedOnce.__hash__

    def __str__(self) -> str:
        return self.name


class Interned(Described):
    """A node of an expression. A pickle of it is a list of nodes, operands first: a long chain has no long stack."""

    def __reduce__(self) -> tuple[Callable[..., Expr], tuple[object, ...]]:
        order = walk([cast("Expr", self)])
        place = {e: _NodeNumber(i) for i, e in enumerate(order)}
        rows = ((type(e), *(_placed(v, place) for v in vars(e).values())) for e in order)
        return _from_rows, tuple(rows)


class _NodeNumber(int):
    """The number of a node in the list that it is pickled with."""


class Monoid(Enum):
    """What a reduction accumulates with."""

    SUM = "sum"
    MAX = "max"


@dataclass(frozen=True, eq=False, repr=False)
class Const(Interned):
    """A number. `text` tells 0.0 from -0.0 and names NaN."""

    text: str
    value: float | int | bool
    dtype: DType


@dataclass(frozen=True, eq=False, repr=False)
class Index(Interned):
    """The value of an index expression, as an integer of `dtype`."""

    value: Ix
    dtype: DType


@dataclass(frozen=True, eq=False, repr=False)
class Holds(Interned):
    """True where all conditions hold."""

    conditions: tuple[Cmp, ...]
    dtype: DType = boolean


@dataclass(frozen=True, eq=False, repr=False)
class Read(Interned):
    """The element of `source` at `at`, which is inside it wherever the read is reached; widened to f32."""

    source: Buffer
    at: tuple[Ix, ...]
    dtype: DType


@dataclass(frozen=True, eq=False, repr=False)
class Gather(Interned):
    """The element of `source` at `at`, in which each of `axes` stands for one of `places`: integers computed here.

    Each of them is a point of its axis wherever the element is read. The axes are bound: nothing else has them.
    """

    source: Buffer
    at: tuple[Ix, ...]
    axes: tuple[Axis, ...]
    places: tuple[Expr, ...]
    dtype: DType


@dataclass(frozen=True, eq=False, repr=False)
class Random(Interned):
    """The random bits of element `at` of call site `site` under a key of i64 (`interp.random` says which)."""

    key: Expr
    at: Ix
    site: int
    dtype: DType


@dataclass(frozen=True, eq=False, repr=False)
class Prim(Interned):
    """An elementwise primitive. Op.CONTIGUOUS is a cast: a rounding point."""

    op: Op
    args: tuple[Expr, ...]
    dtype: DType


@dataclass(frozen=True, eq=False, repr=False)
class Choose(Interned):
    """`then` where `condition` is true, else `otherwise`; the other one is not evaluated, so nothing of it leaks."""

    condition: Expr
    then: Expr
    otherwise: Expr
    dtype: DType


@dataclass(frozen=True, eq=False, repr=False)
class Reduce(Interned):
    """`monoid` over `axes` of `body`, where the conditions hold; accumulated in `acc`."""

    monoid: Monoid
    axes: tuple[Axis, ...]
    where: tuple[Cmp, ...]
    body: Expr
    acc: DType
    dtype: DType


@dataclass(frozen=True, eq=False, repr=False)
class Carried(Interned):
    """The state of carry number `carry` of the enclosing fold: before the tile, or with it. Plans only."""

    carry: int
    which: str  # "old" | "new"
    dtype: DType


@dataclass(frozen=True, eq=False, repr=False)
class Scan(Interned):
    """The carry after the element at `axis`: `step` applied to each from 0 on, beginning with `init`.

    `step` reads the carry before it as Carried(0, "old"). The axis is one of the store's. Where a `monoid` is declared,
    `step` is that operation alone, associative and commutative, on the carry and on `element`, Carried(0, "new").
    With `part` it begins again at each multiple of it, with `init` as it is there, the same in all of a part.
    """

    axis: Axis
    init: Expr
    step: Expr
    element: Expr | None
    monoid: str | None
    dtype: DType
    part: int

    def taking(self, carry: Expr) -> Expr:
        """The carry after an element, from the one before."""
        element = carried(0, "new", self.dtype) if self.element is None else self.element
        old, new = (carried(0, which, self.dtype) for which in ("old", "new"))
        return map_expr(self.step, {old: carry, new: element})


@dataclass(frozen=True, eq=False, repr=False)
class Local(Interned):
    """A value that the enclosing tile program has named; it varies with `axes`. Tile programs only."""

    name: str
    axes: frozenset[Axis]
    dtype: DType


@dataclass(frozen=True, eq=False, repr=False)
class Intrinsic(Interned):
    """A function of `intrinsics.INTRINSICS`: what several primitives say. Tile programs only."""

    name: str
    args: tuple[Expr, ...]
    dtype: DType


Expr = Union[
    Const, Index, Holds, Read, Gather, Random, Prim, Choose, Reduce, Carried, Scan, Local, Intrinsic
]

_TABLE: Nodes[Expr] = Nodes(lambda e: (type(e), *vars(e).values()))


def _intern(kind: type[Expr], *fields: object) -> Expr:
    key = (kind, *fields)
    found = _TABLE.get(key)
    if found is None:
        found = _TABLE.add(key, kind(*fields))  # type: ignore[arg-type]
    return found


def _placed(value: Any, place: Mapping[Expr, _NodeNumber]) -> object:
    if isinstance(value, Interned):
        return place[cast("Expr", value)]
    if isinstance(value, tuple):
        return tuple(_placed(v, place) for v in cast("tuple[Any, ...]", value))
    return value


def _from_rows(*rows: tuple[Any, ...]) -> Expr:
    made: list[Expr] = []

    def found(value: Any) -> object:
        if isinstance(value, _NodeNumber):
            return made[value]
        if isinstance(value, tuple):
            return tuple(map(found, cast("tuple[Any, ...]", value)))
        return value

    for kind, *fields in rows:
        made.append(_intern(kind, *map(found, fields)) if kind is not Const else const(*fields[1:]))
    return made[-1]


@dataclass(frozen=True)
class Store:
    """`dst[at] = value` for every point of `axes`."""

    dst: Buffer
    axes: tuple[Axis, ...]
    at: tuple[Ix, ...]
    value: Expr


@dataclass(frozen=True)
class Region:
    """Stores that belong together. `lines` are the user's lines it comes from, outside equality.

    `native` names the kernel of `ops.NATIVE` that computes it, of whole rows of what it reads: then no loops over
    elements would be a good way, and the stores only say what is meant.
    It runs once for each point of `steps`, in order; the outermost loop comes first.
    """

    stores: tuple[Store, ...]
    lines: tuple[SourceLocation, ...] = ()
    native: str | None = None
    steps: tuple[Axis, ...] = ()

    def buffers(self) -> tuple[Buffer, ...]:
        """What is read, then what is stored; a buffer that is both stands with the latter."""
        stored = tuple(dict.fromkeys(s.dst for s in self.stores))
        return (*(b for b in self.reads() if b not in stored), *stored)

    def reads(self) -> tuple[Buffer, ...]:
        """Buffers read, lookups included, each once, in order of first use."""
        inside = (b for s in self.stores for b in _buffers_in(s.value))
        beside = (b for s in self.stores for i in s.at for b in _sources_in(i))
        return tuple(dict.fromkeys((*inside, *beside)))


def _sources_in(i: Ix) -> Iterator[Buffer]:
    """The buffers whose integers an index expression reads."""
    for atom in i.atoms():
        if isinstance(atom, Lookup) and isinstance(atom.source, Buffer):
            yield atom.source


def buffers_of(e: Expr) -> Iterator[Buffer]:
    """Buffers that one expression node reads itself, through lookups too."""
    if isinstance(e, Read):
        yield e.source
    yield from lookup_sources(e)


@remembered
def _buffers_in(value: Expr) -> tuple[Buffer, ...]:
    """Buffers that an expression reads, each once, in order of first use."""
    return tuple(dict.fromkeys(b for e in walk([value]) for b in buffers_of(e)))


def lookup_sources(e: Expr) -> Iterator[Buffer]:
    """Buffers whose integers one expression node indexes or compares with, or that it reads at such a place."""
    if isinstance(e, Gather):
        yield e.source
    for i in indices_of(e):
        yield from _sources_in(i)


def indices_of(e: Expr) -> tuple[Ix, ...]:
    """The index expressions inside one expression node."""
    found = _INDICES.get(type(e))
    return found(e) if found else ()


_INDICES: dict[type[Expr], Callable[[Any], tuple[Ix, ...]]] = {
    Read: attrgetter("at"),
    Gather: attrgetter("at"),
    Random: lambda e: (e.at,),
    Index: lambda e: (e.value,),
    Holds: lambda e: tuple(c.slack for c in e.conditions),
    Reduce: lambda e: tuple(c.slack for c in e.where),
}


def children(e: Expr) -> tuple[Expr, ...]:
    """The expressions directly inside."""
    found = _CHILDREN.get(type(e))
    return found(e) if found else ()


_CHILDREN: dict[type[Expr], Callable[[Any], tuple[Expr, ...]]] = {
    Prim: attrgetter("args"),
    Intrinsic: attrgetter("args"),
    Choose: attrgetter("condition", "then", "otherwise"),
    Reduce: lambda e: (e.body,),
    Gather: attrgetter("places"),
    Random: lambda e: (e.key,),
    Scan: lambda e: (e.init, e.step) if e.element is None else (e.init, e.step, e.element),
}


def walk(roots: Iterable[Expr]) -> list[Expr]:
    """Every node once, operands before users, without recursion."""
    order: list[Expr] = []
    done, begun = set[Expr](), set[Expr]()
    stack = list(roots)[::-1]
    while stack:
        e = stack[-1]
        inner = () if e in begun else children(e)
        if e not in done and inner:
            begun.add(e)
            stack.extend(c for c in inner[::-1] if c not in done)
            continue
        stack.pop()
        if e not in done:
            done.add(e)
            order.append(e)
    return order


@remembered
def free_axes(e: Expr) -> frozenset[Axis]:
    """The axes that the value varies with; those bound inside are not among them."""
    out: frozenset[Axis] = frozenset()
    for i in indices_of(e):
        out |= i.axes
    if isinstance(e, Gather):
        out -= frozenset(e.axes)
    for c in children(e):
        out |= free_axes(c)
    if isinstance(e, Reduce):
        out -= frozenset(e.axes)
    if isinstance(e, Scan):
        out |= {e.axis}
    if isinstance(e, Local):
        out |= e.axes
    return out


# ---- smart constructors: they keep one spelling of each idea ----


def const(value: float | int | bool, dtype: DType) -> Expr:
    if dtype.is_float:
        number = math.nan if value != value else float(value)  # noqa: PLR0124  # each nan is another key
        return _intern(Const, number.hex(), number, dtype)
    number = bool(value) if dtype.is_bool else wrapped(int(value), dtype)
    return _intern(Const, str(number), number, dtype)


def angle_of(e: Prim) -> Expr | None:
    """x of sin(x + pi/2), whose sum is not rounded."""
    sum_of = e.args[0]
    if e.op is Op.SIN and isinstance(sum_of, Prim) and sum_of.op is Op.ADD:
        for x, c in (sum_of.args, sum_of.args[::-1]):
            if isinstance(c, Const) and c.value == HALF_TURN:
                return x
    return None


def index(value: Ix, dtype: DType) -> Expr:
    return const(value.const, dtype) if value.is_const else _intern(Index, value, dtype)


def holds(conditions: Iterable[Cmp]) -> Expr:
    """The conjunction; a constant where it is provable. Conditions without lookups come first: they may guard those."""
    kept: dict[Cmp, None] = {}
    for c in conditions:
        known = c.known()
        if known is False:
            return const(False, boolean)
        if known is None:
            kept[c] = None
    if not kept:
        return const(True, boolean)
    return _intern(Holds, tuple(sorted(kept, key=_guards_first)), boolean)


def _guards_first(c: Cmp) -> tuple[int, str]:
    return sum(isinstance(a, Lookup) for a in c.slack.atoms()), str(c)


def read(source: Buffer, at: tuple[Ix, ...]) -> Expr:
    return _intern(Read, source, at, computed(source.dtype))


def gather(
    source: Buffer, at: tuple[Ix, ...], axes: tuple[Axis, ...], places: tuple[Expr, ...]
) -> Expr:
    return _intern(Gather, source, at, axes, places, computed(source.dtype))


def random(key: Expr, at: Ix, site: int, dtype: DType) -> Expr:
    return _intern(Random, key, at, site, dtype)


def choose(condition: Expr, then: Expr, otherwise: Expr) -> Expr:
    if isinstance(condition, Const):
        return then if condition.value else otherwise
    if isinstance(then, Choose) and then.condition is condition:  # as a slice of what it updates
        then = then.then
    if then is otherwise:
        return then
    if isinstance(then, Const) and not isinstance(otherwise, Const):
        mirrored = negation(condition)
        if isinstance(mirrored, Holds):  # masks have one spelling: what is kept comes first
            return _intern(Choose, mirrored, otherwise, then, then.dtype)
    return _intern(Choose, condition, then, otherwise, then.dtype)


def carried(carry: int, which: str, dtype: DType) -> Expr:
    return _intern(Carried, carry, which, dtype)


def local(name: str, axes: frozenset[Axis], dtype: DType) -> Expr:
    return _intern(Local, name, axes, dtype)


def intrinsic(name: str, args: tuple[Expr, ...], dtype: DType) -> Expr:
    return _intern(Intrinsic, name, args, dtype)


def scan(
    axis: Axis,
    init: Expr,
    step: Expr,
    element: Expr | None = None,
    monoid: str | None = None,
    part: int = 0,
) -> Expr:
    return _intern(Scan, axis, init, step, element, monoid, init.dtype, part)


def neutral(dtype: DType) -> Expr:
    """The x for which a + x is a, bit for bit."""
    return const(-0.0 if dtype.is_float else 0, dtype)


def is_zero(e: Expr) -> bool:
    return isinstance(e, Const) and not e.dtype.is_bool and e.value == 0


def negation(condition: Expr) -> Expr:
    """not condition."""
    if isinstance(condition, Const):
        return const(not condition.value, boolean)
    if isinstance(condition, Holds) and len(condition.conditions) == 1:
        return holds((Cmp(-condition.conditions[0].slack - 1),))
    if isinstance(condition, Prim) and condition.op is Op.LESS_THAN and is_true(condition.args[1]):
        return condition.args[0]
    return _intern(Prim, Op.LESS_THAN, (condition, const(True, boolean)), boolean)


def is_true(e: Expr) -> bool:
    """Whether it is the constant true."""
    return isinstance(e, Const) and e.dtype.is_bool and bool(e.value)


def as_index(e: Expr) -> Ix | None:
    """The integer expression as index arithmetic, if it is affine enough; reads become lookups."""
    if isinstance(e, Index):
        return e.value
    if isinstance(e, Const) and e.dtype.is_int:
        return ix(int(e.value))
    if isinstance(e, Read) and e.dtype.is_int:
        lo, hi = e.source.range or range_of(e.dtype)
        return lookup(e.source, e.at, lo, hi)
    return _chosen(e) if isinstance(e, Choose) else None


@remembered
def _chosen(e: Choose) -> Ix | None:
    """The lesser or the greater of two, or one of two that are always as far apart: clamps, positions from the end."""
    if not isinstance(e.condition, Holds) or len(e.condition.conditions) > 1:
        return None
    then, otherwise = as_index(e.then), as_index(e.otherwise)
    if then is None or otherwise is None:
        return None
    (slack,) = (c.slack for c in e.condition.conditions)
    apart = then - otherwise
    if slack in (apart, apart - 1) and comparable(then, otherwise):
        return maximum(then, otherwise)
    if slack in (-apart, -apart - 1) and comparable(then, otherwise):
        return minimum(then, otherwise)
    # a choice by what was chosen stays a value: nothing is proven of it, and its text doubles each time
    is_fixed = all(isinstance(a, Dim) for a in apart.atoms())
    is_first = not any(isinstance(a, Indicator) for a in slack.atoms())
    fits = all(abs(k) <= FURTHEST for k in (apart.const, *(k for _, k in apart.terms)))
    return otherwise + apart * indicator(slack) if is_fixed and is_first and fits else None


def prim(op: Op, args: tuple[Expr, ...], dtype: DType) -> Expr:
    """An elementwise primitive in its one spelling: selects as `Choose`, integer comparisons as `Holds`."""
    if op is Op.MUL:
        return _mul(args[0], args[1], dtype)
    if op is Op.ADD:
        return _add(args[0], args[1], dtype)
    if op is Op.LESS_THAN:
        return _less_than(args[0], args[1])
    if op is Op.CONTIGUOUS:
        return _cast(args[0], dtype)
    if op is Op.MOD and dtype.is_int:
        a, b = as_index(args[0]), as_index(args[1])
        if a is not None and b is not None and remainder_fits(a, b, dtype):
            return index(a % b, dtype)
    return _intern(Prim, op, args, dtype)


def _cast(a: Expr, dtype: DType) -> Expr:
    if a.dtype is dtype:
        return a
    inside = as_index(a) if a.dtype.is_int and dtype.is_int else None
    if inside is not None and fits(inside, dtype):
        return index(inside, dtype)
    if dtype.is_float and isinstance(a, Prim) and a.op is Op.CONTIGUOUS:
        (inner,) = a.args
        if inner.dtype is dtype and a.dtype.is_float and dtype.bits < a.dtype.bits:
            return inner  # widened, and back
    if isinstance(a, Const) and dtype.is_int and not a.dtype.is_float:
        return const(int(a.value), dtype)
    return _intern(Prim, Op.CONTIGUOUS, (a,), dtype)


def _less_than(a: Expr, b: Expr) -> Expr:
    if a.dtype.is_bool:
        return negation(a) if is_true(b) else _intern(Prim, Op.LESS_THAN, (a, b), boolean)
    if a is b or _is_swapped(a, b):
        return const(False, boolean)
    if a.dtype.is_int and (decided := _is_below(_held(a), _held(b))) is not None:
        return const(decided, boolean)
    left, right = as_index(a), as_index(b)
    if left is not None and right is not None and comparable(left, right):
        return holds((less(left, right),))
    return _intern(Prim, Op.LESS_THAN, (a, b), boolean)


def _is_swapped(a: Expr, b: Expr) -> bool:
    """Whether they are one sum or one product, written in two orders."""
    if not isinstance(a, Prim) or not isinstance(b, Prim) or a.op is not b.op:
        return False
    return a.op in (Op.ADD, Op.MUL) and a.args == b.args[::-1]


def _is_below(a: tuple[float, float], b: tuple[float, float]) -> bool | None:
    """Whether every integer of one range is below every one of the other; None if only some are."""
    (a_low, a_high), (b_low, b_high) = a, b
    if a_high < b_low:
        return True
    return False if a_low >= b_high else None


def _held(e: Expr) -> tuple[float, float]:
    """The least and the greatest that an integer can be, those of its type where nothing else is known."""
    low, high = _range(e)
    least, greatest = e.dtype.lowest, e.dtype.greatest
    return least if low is None else low, greatest if high is None else high


def _range(e: Expr) -> Range:
    """What an integer or a bool can be; a cast to a type that holds all of it changes nothing."""
    if e.dtype.is_bool:
        return 0, 1
    inside = as_index(e)
    if inside is not None:
        return inside.bounds()
    low, high = range_of(e.dtype)
    if isinstance(e, Prim) and e.op is Op.CONTIGUOUS and not e.args[0].dtype.is_float:
        least, greatest = _range(e.args[0])
        if low is None or high is None:
            return least, greatest
        if least is not None and greatest is not None and low <= least and greatest <= high:
            return least, greatest
    return low, high


def _mul(a: Expr, b: Expr, dtype: DType) -> Expr:
    if a.dtype.is_bool and b.dtype.is_bool:
        return _and(a, b)
    if a.dtype.is_bool or b.dtype.is_bool:
        condition, value = (a, b) if a.dtype.is_bool else (b, a)
        return choose(condition, value, neutral(dtype))
    left, right = as_index(a), as_index(b)
    affine = left is not None and right is not None and (left.is_const or right.is_const)
    if affine and left is not None and right is not None and fits(left * right, dtype):
        return index(left * right, dtype)
    return _intern(Prim, Op.MUL, (a, b), dtype)


def _and(a: Expr, b: Expr) -> Expr:
    if isinstance(a, Const):
        return b if a.value else a
    if isinstance(b, Const):
        return a if b.value else b
    if isinstance(a, Holds) and isinstance(b, Holds):
        return holds((*a.conditions, *b.conditions))
    return a if a is b else _intern(Prim, Op.MUL, (a, b), boolean)


def _add(a: Expr, b: Expr, dtype: DType) -> Expr:
    for x, y in ((a, b), (b, a)):
        if x is neutral(dtype):
            return y
    if isinstance(a, Choose) and isinstance(b, Choose):
        unset = neutral(dtype)
        if a.otherwise is unset and b.otherwise is unset and b.condition is negation(a.condition):
            # where(c, x, y): `LessThan` negated twice is the condition itself, so take the positive spelling
            if isinstance(a.condition, Prim) and negation(b.condition) is not a.condition:
                return choose(b.condition, b.then, a.then)
            return choose(a.condition, a.then, b.then)
    left, right = as_index(a), as_index(b)
    if left is not None and right is not None and fits(left + right, dtype):
        return index(left + right, dtype)
    return _intern(Prim, Op.ADD, (a, b), dtype)


def reduce(
    monoid: Monoid, axes: tuple[Axis, ...], body: Expr, dtype: DType, where: tuple[Cmp, ...] = ()
) -> Expr:
    """A reduction; conditions that guard its body move into `where`, an indicator of an axis is sifted.

    So is one in the maximum of truth values, which is whether any is true, and one among the factors of a sum's terms.
    """
    if isinstance(body, Choose):
        excluded, asked = body.otherwise, _asked(body.condition)
        absent = is_zero(excluded) if monoid is Monoid.SUM else _is_lowest(excluded)
        if absent and asked is not None:
            kept = choose(asked[1], body.then, excluded)
            return reduce(monoid, axes, kept, dtype, (*where, *asked[0]))
    asked = _asked(body) if monoid is Monoid.SUM or dtype.is_bool else None
    if asked is None and monoid is Monoid.SUM:
        asked = _pinned(body, axes)
    if asked is not None:
        return reduce(monoid, axes, asked[1], dtype, (*where, *asked[0]))
    if any(c.known() is False for c in where):
        return _zero(dtype) if monoid is Monoid.SUM else const(dtype.lowest, dtype)
    if monoid is Monoid.SUM or dtype.is_bool:
        for axis in axes:
            found = _sift(axis, where)
            if found is not None:
                at, rest = found
                inside = (less(-1, at), less(at, axis.extent))
                body = substitute(body, {axis: at})
                body = choose(
                    holds((*inside, *(c.substitute({axis: at}) for c in rest))), body, _zero(dtype)
                )
                left = tuple(a for a in axes if a != axis)
                return reduce(monoid, left, body, dtype) if left else body
    kept = tuple(sorted({c for c in where if c.known() is not True}, key=str))
    return _intern(Reduce, monoid, axes, kept, body, accumulator(dtype), dtype)


def _asked(e: Expr) -> tuple[tuple[Cmp, ...], Expr] | None:
    """The conditions without which a truth value is false, a number made of one 0, and what is left of it."""
    if isinstance(e, Holds):
        return e.conditions, const(True, boolean)
    if isinstance(e, Prim) and e.op is Op.CONTIGUOUS and e.args[0].dtype.is_bool:
        inner = _asked(e.args[0])
        if inner is None:
            return None
        conditions, rest = inner
        return conditions, const(1, e.dtype) if is_true(rest) else prim(e.op, (rest,), e.dtype)
    if isinstance(e, Prim) and e.op is Op.MUL and e.dtype.is_bool:
        for condition, rest in (e.args, e.args[::-1]):
            if isinstance(condition, Holds):
                return condition.conditions, rest
    return None


@remembered  # factors may share factors
def _pinned(e: Expr, axes: tuple[Axis, ...]) -> tuple[tuple[Cmp, ...], Expr] | None:
    """Conditions that leave one point of an axis, if a factor of a product is zero elsewhere, and the product there.

    A term without them counts as zero whatever its other factors are, as it does where a loop leaves it out.
    """
    if isinstance(e, Choose) and is_zero(e.otherwise):
        asked = _asked(e.condition)
        if asked is not None and any(_sift(a, asked[0]) for a in axes):
            return asked[0], choose(asked[1], e.then, e.otherwise)
        return None
    asked = _asked(e)
    if asked is not None:
        return asked if any(_sift(a, asked[0]) for a in axes) else None
    if isinstance(e, Prim) and e.op in (Op.MUL, Op.CONTIGUOUS) and not e.dtype.is_bool:
        for i, factor in enumerate(e.args):
            if (found := _pinned(factor, axes)) is None:
                continue
            conditions, inner = found
            others = (*e.args[:i], *e.args[i + 1 :])
            if isinstance(inner, Const) and inner.value == 1:
                return conditions, others[0] if others else const(1, e.dtype)
            return conditions, prim(e.op, (*e.args[:i], inner, *e.args[i + 1 :]), e.dtype)
    return None


def _zero(dtype: DType) -> Expr:
    """What a sum has of no terms, and the greatest of no truth values."""
    return const(0.0 if dtype.is_float else 0, dtype)


def _is_lowest(e: Expr) -> bool:
    return isinstance(e, Const) and e.value == e.dtype.lowest


def _sift(axis: Axis, where: tuple[Cmp, ...]) -> tuple[Ix, tuple[Cmp, ...]] | None:
    """sum_i select(i = f, x[i]) is x[f]: the f that two conditions `i <= f` and `f <= i` pin the axis to.

    One of them is enough where the other one is true in any case, as at the last point.
    """
    for c in where:
        factor = c.slack.coefficient(axis)
        if factor not in (1, -1):
            continue
        pinned = ix(axis) - c.slack * factor
        mirror = Cmp(-c.slack)
        if axis not in pinned.axes and (mirror in where or mirror.known()):
            return pinned, tuple(d for d in where if d not in (c, mirror))
    return None


# ---- substitution ----


def substitute(e: Expr, mapping: Mapping[Axis, Ix]) -> Expr:
    """Replace free axes by index expressions. Bound axes are renamed where they would capture."""
    memo: dict[Expr, Expr] = {}

    def visit(x: Expr) -> Expr:
        found = memo.get(x)
        if found is None:
            found = memo[x] = x if free_axes(x).isdisjoint(mapping) else replaced(x)
        return found

    def replaced(x: Expr) -> Expr:
        if isinstance(x, Reduce):
            wanted = free_axes(x) & mapping.keys()
            x = _rename_captured(x, frozenset(a for w in wanted for a in mapping[w].axes))
            if not mapping.keys().isdisjoint(x.axes):
                free = {a: to for a, to in mapping.items() if a not in x.axes}
                return rebuild(x, lambda c: substitute(c, free), lambda i: i.substitute(free))
        return rebuild(x, visit, lambda i: i.substitute(mapping))

    return visit(e)


def _rename_captured(r: Reduce, incoming: frozenset[Axis]) -> Reduce:
    """The same reduction with fresh names for bound axes that also occur in what is about to be put in."""
    clash = [a for a in r.axes if a in incoming]
    if not clash:
        return r
    fresh: dict[Axis, Ix] = {}
    taken = incoming | free_axes(r.body) | frozenset(r.axes)
    for a in clash:
        name = a.name
        while Axis(name, a.extent) in taken:
            name += "'"
        fresh[a] = ix(Axis(name, a.extent))
        taken |= fresh[a].axes
    axes = tuple(next(iter(fresh[a].axes)) if a in fresh else a for a in r.axes)
    where = tuple(c.substitute(fresh) for c in r.where)
    renamed = _intern(Reduce, r.monoid, axes, where, substitute(r.body, fresh), r.acc, r.dtype)
    assert isinstance(renamed, Reduce)
    return renamed


def rebuild(e: Expr, child: Callable[[Expr], Expr], at: Callable[[Ix], Ix]) -> Expr:
    """The same node over mapped children and index expressions, in its one spelling."""
    if isinstance(e, Index):
        return index(at(e.value), e.dtype)
    if isinstance(e, Holds):
        return holds(Cmp(at(c.slack)) for c in e.conditions)
    if isinstance(e, Read):
        return read(e.source, tuple(at(i) for i in e.at))
    if isinstance(e, Gather):
        return gather(e.source, tuple(at(i) for i in e.at), e.axes, tuple(map(child, e.places)))
    if isinstance(e, Random):
        return random(child(e.key), at(e.at), e.site, e.dtype)
    if isinstance(e, Prim):
        args = tuple([child(a) for a in e.args])
        return e if args == e.args else prim(e.op, args, e.dtype)
    if isinstance(e, Intrinsic):
        return intrinsic(e.name, tuple(child(a) for a in e.args), e.dtype)
    if isinstance(e, Choose):
        return choose(child(e.condition), child(e.then), child(e.otherwise))
    if isinstance(e, Reduce):
        where = tuple(Cmp(at(c.slack)) for c in e.where)
        return reduce(e.monoid, e.axes, child(e.body), e.dtype, where)
    if isinstance(e, Scan):
        (axis,) = at(ix(e.axis)).axes  # under another name at most
        element = None if e.element is None else child(e.element)
        return scan(axis, child(e.init), child(e.step), element, e.monoid, e.part)
    return e


def map_expr(e: Expr, replace: Mapping[Expr, Expr]) -> Expr:
    """Replace whole subexpressions, everywhere at once."""
    memo: dict[Expr, Expr] = dict(replace)

    def visit(x: Expr) -> Expr:
        found = memo.get(x)
        if found is None:
            found = memo[x] = rebuild(x, visit, lambda i: i)
        return found

    return visit(e)
