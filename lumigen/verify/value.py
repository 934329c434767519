"""What must hold of values in a tile program: each has what it is made of where it stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lumigen.dtype import DType, boolean, computed, f32, f64, i32
from lumigen.index import Axis
from lumigen.region import (
    Carried,
    Expr,
    Gather,
    Holds,
    Index,
    Local,
    Random,
    Read,
    Reduce,
    Scan,
    free_axes,
    indices_of,
    walk,
)
from lumigen.tile import Operand
from lumigen.verify.facts import (
    Facts,
    FactScope,
    broken_index,
    broken_indices,
    broken_read,
    broken_use,
    never,
)
from lumigen.verify.region import inside, reached

Dtypes = tuple[DType, ...]
VECTORS = (f32, f64, boolean)  # what they hold, other than integers that are stored


def broken_value(
    e: Expr,
    facts: Facts,
    scope: FactScope,
    lanes: Axis | None,
    dtypes: Dtypes = VECTORS,
) -> Iterator[str]:
    """A value over the lanes of `lanes`, of these dtypes, or the same one in all lanes."""
    for x in walk([e]):
        if isinstance(x, Reduce | Scan | Carried):
            yield f"{type(x).__name__} is no value of one point"
    if lanes is not None and lanes != scope.lanes:
        yield f"over lanes {lanes}, where they are {scope.lanes}"
    if lanes is not None and computed(e.dtype) not in dtypes:
        yield f"lanes of {e.dtype}"
    for x in walk([e]):
        within = replace(scope, axes=scope.axes | {*x.axes}) if isinstance(x, Gather) else scope
        for i in indices_of(x):
            yield from broken_index(i, facts, within, alike=lanes is None)
        if isinstance(x, Local):
            if x not in scope.locals:
                yield f"{x.name} has no value here"
            elif x in facts.held and x not in facts.kept:
                yield f"{x.name} holds nothing yet"
            elif facts.locals[x] not in (None, lanes):
                yield f"{x.name} differs between the lanes of {facts.locals[x]}"
    for read, given in reached([e]):
        yield from broken_use(read.source, facts)
        yield from broken_read(read.source, facts)
        for c in inside(read):
            if never(c, scope.given | given):
                yield f"{read.source} is read outside: {c} never holds"


def is_of_names(e: Expr, lanes: Axis | None) -> bool:
    """Whether nothing but names varies with the lanes."""
    leaves = (x for x in walk([e]) if isinstance(x, Read | Gather | Index | Holds | Random))
    return lanes is not None and not any(lanes in free_axes(x) for x in leaves)


def broken_operand(
    o: Operand, facts: Facts, scope: FactScope, over: tuple[Axis, ...], dtypes: Dtypes = (f32,)
) -> Iterator[str]:
    """A matrix operand over the axes of `over`: strided elements of a buffer, or a value for each; of these dtypes."""
    if o.stride is not None and o.k_stride is not None and o.source is not None:
        yield from broken_indices((o.base, o.stride, o.k_stride), facts, scope)
        yield from broken_use(o.source, facts)
        yield from broken_read(o.source, facts)
        if computed(o.source.dtype) not in dtypes:
            yield f"an operand of {o.source.dtype}"
    elif o.value is None or not over:
        yield "an operand with neither strides nor a value"
    else:
        yield from broken_value(o.value, facts, replace(scope, axes=scope.axes | set(over)), None)
        if o.value.dtype not in (*dtypes, f32 if f32 in dtypes else i32):
            yield f"an operand of {o.value.dtype}"
