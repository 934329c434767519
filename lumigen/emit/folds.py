"""folds: loops whose additions would wait for each other, or for memory, if they were written one after the other.

A sum of loaded vectors is bound by the latency of an addition, not by memory: four cycles for 64 bytes of a row that
the nearest cache holds. Several accumulators, which take in the vectors in turn, do not wait for each other.
"""

from __future__ import annotations

from collections.abc import Collection

from lumigen.dtype import f32
from lumigen.index import Lookup
from lumigen.ops import TRANSCENDENTALS, Op
from lumigen.region import Choose, Expr, Intrinsic, Local, Prim, free_axes, walk
from lumigen.tile import Accumulate, For, Let

FOLDS, STEPS = 2, 8  # accumulators of a light loop, and what it computes of a vector
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
