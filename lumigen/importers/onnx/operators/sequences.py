"""sequences: lists of values, which exist only while a model is imported; and options, which are a value or none."""

from __future__ import annotations

import numpy as np

from lumigen.frontend import functions
from lumigen.importers.onnx.node import OnnxNode, Operator
from lumigen.importers.onnx.operators.movement import parts_of
from lumigen.importers.onnx.values import Known, Value, listed, shape_of

MOST_PARTS = 4096  # of a sequence


def _place(n: OnnxNode, i: int, count: int) -> int:
    """A known place in a sequence."""
    at = int(n.number(i))
    if not -count <= at < max(count, 1):
        raise n.unsupported(f"place {at} is not among {count} values", "Correct the place.")
    return at


def at(n: OnnxNode) -> Value:
    items = listed(n.value(0))
    return items[_place(n, 1, len(items))]


def insert(n: OnnxNode) -> list[Value]:
    items = list(listed(n.value(0)))
    place = int(n.number(2, len(items)))
    items.insert(place if place >= 0 else place + len(items), n.value(1))
    return items


def erase(n: OnnxNode) -> list[Value]:
    items = list(listed(n.value(0)))
    del items[_place(n, 1, len(items)) if n.has(1) else -1]
    return items


def split(n: OnnxNode) -> list[Value]:
    """Parts of one size, of listed sizes, or single slices without that axis unless `keepdims`."""
    value = n.given(0)
    x = n.tensor(0)
    axis = int(n.attr("axis", 0)) % x.ndim
    total = shape_of(value)[axis]
    if isinstance(total, int) and total > MOST_PARTS and not (n.has(1) and n.static(1).ndim):
        raise n.unsupported(f"it may make {total} parts, and at most {MOST_PARTS} are listed")
    if not n.has(1):
        parts = x.split(1, axis)
        return list(parts if n.attr("keepdims", 1) else (p.squeeze(axis) for p in parts))
    given = n.static(1)
    if given.ndim:
        return list(x.split([int(e) for e in given], axis))
    size = int(given.reshape(()))
    count = -(-total // size)
    sizes = [size] * (count - 1) + [total - size * (count - 1)]
    return list(x.split(parts_of(n, total, sizes, count), axis))


def joined(n: OnnxNode) -> Value:
    """A sequence as one tensor, along an axis or a new one."""
    parts = [n.around.tensor(v) for v in listed(n.value(0))]
    axis = int(n.attr("axis"))
    return functions.stack(parts, axis) if n.attr("new_axis", 0) else functions.cat(parts, axis)


def mapped(n: OnnxNode) -> tuple[Value, ...]:
    """A graph run for each value of sequences; tensors are the same each time."""
    items = listed(n.value(0))
    found: list[list[Value]] = []
    for i in range(len(items)):
        given = [v[i] if isinstance(v, list) else v for v in n.inputs]
        found.append(n.around.run_graph(n, n.attr("body"), given))
    return tuple([step[k] for step in found] for k in range(n.wanted))


def element(n: OnnxNode) -> Value:
    if not n.has(0):
        raise n.unsupported("the option holds nothing", "Correct the graph.")
    return n.inputs[0]


ROWS = (
    Operator("SequenceEmpty", lambda n: []),
    Operator("SequenceConstruct", lambda n: list(n.inputs)),
    Operator("SequenceAt", at),
    Operator("SequenceInsert", insert),
    Operator("SequenceErase", erase),
    Operator("SequenceLength", lambda n: Known(np.array(len(listed(n.value(0)))))),
    Operator("SplitToSequence", split),
    Operator("ConcatFromSequence", joined),
    Operator("SequenceMap", mapped),
    Operator("Optional", lambda n: n.inputs[0] if n.inputs else None),
    Operator("OptionalHasElement", lambda n: Known(np.array(n.has(0)))),
    Operator("OptionalGetElement", element),
)
