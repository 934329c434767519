"""folds: loops whose additions would wait for each other, or for memory, if they were written one after the other.

A run of rows is read together; a sum of products multiplies and adds in one step. A sum of loaded vectors is bound by
the latency of an addition, not by memory: four cycles for 64 bytes of a row that the nearest cache holds. Several
accumulators, which take in the vectors in turn, do not wait for each other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from lumigen.dtype import DType, f32
from lumigen.emit.text import literal
from lumigen.index import Lookup
from lumigen.ops import TRANSCENDENTALS, Op
from lumigen.region import Choose, Expr, Intrinsic, Local, Monoid, Prim, free_axes, walk
from lumigen.tile import Accumulate, Accumulator, For, Let, Stmt, StoreTile

FOLDS, STEPS = 2, 8  # accumulators of a light loop, and what it computes of a vector
FEW, MANY = 4, 8  # vectors taken together: few with several accumulators, or with much to compute
MUCH = 40  # steps of a vector, whose text the compiler would have too often
OF_FOLD = 16  # rows from which a fold waits: windows are written out, and their additions overlap
OF_FEW = 64  # points from which it pays to take some vectors together
TERMS = 256  # of a sum that are looked at, one by one
LONG = TRANSCENDENTALS | {Op.MOD, Op.RECIP, Op.SQRT}


def is_light(s: For, points: int, finished: Collection[Local]) -> bool:
    """Whether a loop over so many points or more is light, and sums lanes that are added up after it.

    Nothing is with 0 points. `finished`: the accumulators whose lanes are added up.
    """
    if not points or not s.lanes or s.dealt or s.parts or s.axis.extent.estimate() < points:
        return False
    folds = [x for x in s.body if isinstance(x, Accumulate)]
    if not 1 <= len(folds) <= FOLDS or any(not isinstance(x, Let | Accumulate) for x in s.body):
        return False
    are_vectors = all(
        x.lanes is s.axis and x.into in finished and x.into.dtype is f32 for x in folds
    )
    steps = _steps([x.value for x in s.body if isinstance(x, Let | Accumulate)], s)
    is_long = any(isinstance(e, Prim) and e.op in LONG for e in steps)
    return are_vectors and len(steps) <= STEPS and not is_long


def vectors_together(s: For, points: int) -> int:
    """How many vectors a loop over lanes takes together, in which folds run: 1 if one after the other.

    A fold inside reads of each row one vector, from a page of its own, and its additions wait for each other. Several
    vectors are neighbours in memory, have accumulators of their own, and share what is the same in all lanes.
    """
    if not points or not s.lanes or s.dealt or s.parts or s.axis.extent.estimate() < OF_FEW:
        return 1
    inside = [*inside_of(s.body)]
    if not all(_takes_several(x, s) for x in inside):
        return 1
    longest = max((x.axis.extent.estimate() for x in inside if isinstance(x, For)), default=0)
    if longest < OF_FOLD:
        return 1
    accumulators = [x for x in inside if isinstance(x, Accumulator)]
    if not 1 <= len(accumulators) <= FOLDS or any(isinstance(x, Accumulate) for x in s.body):
        return 1
    steps = _steps([x.value for x in inside if isinstance(x, Let | Accumulate | StoreTile)], s)
    if len(steps) > MUCH:
        return 1
    is_long = len(steps) > STEPS or any(isinstance(e, Prim) and e.op in LONG for e in steps)
    is_little = is_long or len(accumulators) > 1 or s.axis.extent.estimate() < points
    return FEW if is_little else MANY


def inside_of(body: Iterable[Stmt]) -> Iterator[Stmt]:
    """The statements, and those of the loops among them."""
    for s in body:
        yield s
        if isinstance(s, For):
            yield from inside_of(s.body)


def _takes_several(x: Stmt, s: For) -> bool:
    """Whether a statement inside a loop over lanes can be one of several vectors."""
    match x:
        case For():
            is_plain = not (x.lanes or x.dealt or x.parts) and x.step == 1
            return is_plain and s.axis not in x.lo.axes | x.hi.axes
        case Let():
            return x.lanes is None or (x.lanes is s.axis and x.value.dtype is f32)
        case Accumulator():
            return x.lanes is s.axis and x.name.dtype is f32 and x.start is None and not x.dealt
        case Accumulate() | StoreTile():
            return x.lanes is s.axis
        case _:
            return False


def _steps(values: list[Expr], s: For) -> list[Expr]:
    """What is computed of each vector."""
    steps = (e for e in walk(values) if isinstance(e, Prim | Intrinsic | Choose))
    return [e for e in steps if s.axis in free_axes(e)]


def folded_run(s: For) -> Accumulate | None:
    """The one fold of floats in a loop whose ends are read from memory, behind values that it names."""
    *lets, last = s.body
    if s.dealt or s.step != 1 or not isinstance(last, Accumulate) or last.into.dtype is not f32:
        return None
    ends = (*s.lo.atoms(), *s.hi.atoms())
    is_run = any(isinstance(a, Lookup) for a in ends) and s.axis in free_axes(last.value)
    return last if is_run and all(isinstance(x, Let) for x in lets) else None


def terms_of(e: Expr) -> list[Expr]:
    """What a sum adds up; it alone where that is much, as where it is doubled again and again."""
    out, stack = list[Expr](), [e]
    while stack:
        x = stack.pop()
        if isinstance(x, Prim) and x.op is Op.ADD:
            stack += reversed(x.args)
        else:
            out.append(x)
        if len(out) + len(stack) > TERMS:
            return [e]
    return out


def is_product(e: Expr) -> bool:
    """Whether vectors multiply; a quotient is none."""
    if not isinstance(e, Prim) or e.op is not Op.MUL or not e.dtype.is_float:
        return False
    return not any((isinstance(x, Prim) and x.op is Op.RECIP) or x.dtype.is_bool for x in e.args)


def neutral(monoid: Monoid, dtype: DType) -> str:
    """Where an accumulator starts."""
    return literal(dtype.lowest if monoid is Monoid.MAX else 0, dtype)
