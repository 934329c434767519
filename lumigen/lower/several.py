"""several: loops over lanes in which folds run take several vectors together.

Before: a program of one thread's tasks.  After: its loops over lanes say how many vectors they take together. Each of
these has an accumulator of its own, so that additions do not wait for each other:

* A loop that adds up its own lanes takes in vectors in turn. A sum of loaded vectors is bound by the latency of an
  addition, not by memory: four cycles for 64 bytes of a row that the nearest cache holds.
* A loop with folds inside, as of columns, reads of each row one vector, from a page of its own. Several vectors are
  neighbours in memory, and share what is the same in all lanes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from lumigen.dtype import f32
from lumigen.ops import TRANSCENDENTALS, Op
from lumigen.plan import NotRealised
from lumigen.region import Choose, Expr, Intrinsic, Local, Prim, free_axes, walk
from lumigen.tile import (
    Accumulate,
    Accumulator,
    Finish,
    For,
    Let,
    Stmt,
    StoreTile,
    TileProgram,
    When,
    WhenLast,
)

EACH = 0  # every loop takes as many as it is expected to gain by
COUNTS = (EACH, 1, 2, 4, 8)
FOLDS, STEPS = 2, 8  # accumulators of a light loop, and what it computes of a vector
FEW, MANY = 4, 8  # vectors taken together: few with several accumulators, or with much to compute
MOST = 12  # accumulators of several vectors: more would not stay in registers
MUCH = 40  # steps of a vector, whose text the compiler would have too often
OF_FOLD = 16  # rows from which a fold waits: windows are written out, and their additions overlap
OF_FEW = 64  # points from which it pays to take some vectors together
LIGHT = 256  # points from which a light loop is bound by its additions
LONG = TRANSCENDENTALS | {Op.MOD, Op.RECIP, Op.SQRT}


def take_several(program: TileProgram, vectors: int) -> TileProgram:
    """With so many vectors in each loop that can take several, or as many as each one gains by (`EACH`).

    NotRealised where the headers do not have so many.
    """
    if vectors not in COUNTS:
        raise NotRealised(f"{vectors} vectors together, not one of {COUNTS}")
    if vectors == 1:
        return program
    finished = {s.source for s in program.statements() if isinstance(s, Finish)}
    return replace(program, body=_within(program.body, vectors, finished))


def _within(body: tuple[Stmt, ...], vectors: int, finished: Collection[Local]) -> tuple[Stmt, ...]:
    return tuple(_marked(s, vectors, finished) for s in body)


def _marked(s: Stmt, vectors: int, finished: Collection[Local]) -> Stmt:
    match s:
        case For(lanes=True):
            if takes_turns(s, finished):
                return replace(s, together=vectors or _of_turns(s))
            return replace(s, together=vectors or _of_folds(s)) if has_folds(s) else s
        case For() | WhenLast():
            return replace(s, body=_within(s.body, vectors, finished))
        case When():
            bodies = (_within(b, vectors, finished) for b in (s.body, s.otherwise))
            return When(s.conditions, *bodies)
        case _:
            return s


def takes_turns(s: For, finished: Collection[Local]) -> bool:
    """Whether a loop does nothing but add up lanes; `finished` are the accumulators that are added up after it."""
    folds = [x for x in s.body if isinstance(x, Accumulate)]
    plain = s.lanes and not (s.dealt or s.parts) and bool(folds)
    return (
        plain
        and all(isinstance(x, Let | Accumulate) for x in s.body)
        and all(x.lanes is s.axis and x.into in finished and x.into.dtype is f32 for x in folds)
    )


def has_folds(s: For) -> bool:
    """Whether folds run inside a loop over lanes, each with an accumulator of a vector, and nothing else but stores."""
    if not s.lanes or s.dealt or s.parts or any(isinstance(x, Accumulate) for x in s.body):
        return False
    inside = [*_inside(s.body)]
    return any(isinstance(x, Accumulator) for x in inside) and all(_is_one(x, s) for x in inside)


def _of_turns(s: For) -> int:
    """Of a light loop. Vectors of one with an exponential in it overlap already."""
    folds = [x for x in s.body if isinstance(x, Accumulate)]
    steps = _steps([x.value for x in s.body if isinstance(x, Let | Accumulate)], s)
    is_light = len(folds) <= FOLDS and len(steps) <= STEPS and not _are_long(steps)
    return FEW if is_light and s.axis.extent.estimate() >= LIGHT else 1


def _of_folds(s: For) -> int:
    inside, points = [*_inside(s.body)], s.axis.extent.estimate()
    longest = max((x.axis.extent.estimate() for x in inside if isinstance(x, For)), default=0)
    folds = max(_folds_of(x.body) for x in [s, *inside] if isinstance(x, For))
    steps = _steps([x.value for x in inside if isinstance(x, Let | Accumulate | StoreTile)], s)
    if points < OF_FEW or longest < OF_FOLD or len(steps) > MUCH:
        return 1
    if folds > FOLDS:
        return 2 if 2 * folds <= MOST else 1
    is_long = len(steps) > STEPS or _are_long(steps)
    return FEW if is_long or folds > 1 or points < LIGHT else MANY


def _folds_of(body: Iterable[Stmt]) -> int:
    """How many accumulators a loop adds to, without those of the loops inside of it."""
    return len({x.into for x in body if isinstance(x, Accumulate)})


def _inside(body: Iterable[Stmt]) -> Iterator[Stmt]:
    """The statements, and those of the loops among them."""
    for s in body:
        yield s
        if isinstance(s, For):
            yield from _inside(s.body)


def _is_one(x: Stmt, s: For) -> bool:
    """Whether a statement inside a loop over lanes can be that of one of several vectors."""
    match x:
        case For():
            is_plain = not (x.lanes or x.dealt or x.parts) and x.step == 1
            return is_plain and s.axis not in x.lo.axes | x.hi.axes
        case Let():
            return x.lanes is None or (x.lanes is s.axis and x.value.dtype is f32)
        case Accumulator():
            return x.lanes is s.axis and x.name.dtype is f32 and not x.dealt
        case Accumulate() | StoreTile():
            return x.lanes is s.axis
        case _:
            return False


def _steps(values: list[Expr], s: For) -> list[Expr]:
    """What is computed of each vector."""
    steps = (e for e in walk(values) if isinstance(e, Prim | Intrinsic | Choose))
    return [e for e in steps if s.axis in free_axes(e)]


def _are_long(steps: list[Expr]) -> bool:
    return any(isinstance(e, Prim) and e.op in LONG for e in steps)
