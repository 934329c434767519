"""places: where values are stored, those of scans that run as loops around regions too.

A loop stores the results of all steps in one tensor, and all carries in another, after the first one. So nothing is
copied between two steps, and consumers of the carries of all steps read them there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lumigen.dtype import f32, i8, i32, u8
from lumigen.graph import Edge, Graph, Node, ScanLoop
from lumigen.index import Axis, Ix, ix, product
from lumigen.ops import SOURCES, Op
from lumigen.region import Buffer, Expr, Prim, Role, Store, read
from lumigen.view import identity

At = tuple[Ix, ...]  # an index for each dimension
NOT_MAPS = {Op.SUM_REDUCE, Op.MAX_REDUCE, Op.SCAN}


@dataclass(frozen=True)
class Place:
    """Where values are stored: those of `node` at `at` lie at `before + at`, after `skipped` more on their axis."""

    buffer: Buffer
    before: At = ()  # the step, of what a loop stores in slices
    axis: int = 0  # that comes first in the buffer
    skipped: int = 0  # places on it that come before

    def at(self, where: At) -> At:
        if self.before:
            return (*self.before, *where)
        if not self.skipped and not self.axis:
            return where
        return (where[self.axis] + self.skipped, *where[: self.axis], *where[self.axis + 1 :])


@dataclass(frozen=True)
class Looped:
    """A scan that is a loop: its step, and the buffers of all steps, of carries with the first one ahead of them."""

    name: str
    args: tuple[Edge, ...]
    body: Graph
    step: Axis
    results: tuple[Buffer, ...]

    def is_of(self, n: Node) -> bool:
        """Whether a node is one of its results."""
        return (n.args, loop_of(n).body) == (self.args, self.body)


def looped(name: str, n: Node) -> Looped:
    """The loop that a scan is a result of."""
    loop = loop_of(n)
    results = tuple(
        Buffer(f"{name}_r{k}", Role.TEMP, (loop.length + (k < loop.carries), *e.shape), e.dtype)
        for k, (_, e) in enumerate(loop.body.outputs)
    )
    return Looped(name, n.args, loop.body, Axis(f"{name}_step", loop.length), results)


def loop_of(n: Node) -> ScanLoop:
    assert isinstance(n.attr, ScanLoop)
    return n.attr


def along(loop: ScanLoop, step: Axis, where: At) -> At:
    """A place of a step in all of the elements."""
    return (*where[: loop.axis], ix(step), *where[loop.axis :])


def is_map(loop: ScanLoop) -> bool:
    """Whether the step maps its one carry element by element, so that each element is scanned by itself."""
    if loop.carries != 1 or loop.elements < 1 or len(loop.body.outputs) != 1:
        return False
    if any(n.op in NOT_MAPS for n in loop.body.nodes()):
        return False
    (_, out), carry = loop.body.outputs[0], loop.body.inputs[0]
    same = identity(carry.shape)
    readers = [e for n in loop.body.nodes() for e in n.args if e.node is carry]
    if any(e.view != same for e in readers) or (out.node is carry and out.view != same):
        return False
    moving: set[Node] = {carry}
    for n in loop.body.nodes():
        if any(e.node in moving for e in n.args):
            if any(e.node in moving and e.view != identity(e.node.shape) for e in n.args):
                return False
            moving.add(n)
    return out.node not in moving or out.view == identity(out.node.shape)


def is_widened(n: Node) -> bool:
    """Whether it is what memory has, in another type."""
    return n.op is Op.CONTIGUOUS and n.args[0].node.op in SOURCES


def scaled_bytes(n: Node) -> tuple[Node, Node] | None:
    """A cast of integers of 8 bits and the fewer numbers that they are multiplied by; None of any other value."""
    for x, by in (n.args, n.args[::-1]) if n.op is Op.MUL and n.dtype is f32 else ():
        is_cast = x.node.op is Op.CONTIGUOUS and x.node.args[0].dtype is i8
        if is_cast and product(by.node.shape).estimate() < product(n.shape).estimate():
            return x.node, by.node
    return None


def widens_bytes(n: Node) -> bool:
    """Whether it is integers of 8 bits in 32, as products of them have their operands."""
    return n.op is Op.CONTIGUOUS and n.dtype is i32 and n.args[0].dtype in (i8, u8)


def is_of_state(n: Node, graph: Graph) -> bool:
    """Whether it is a state, perhaps in another type: a run reads as much of a cache as there is of a text."""
    at = n.args[0].node if n.op is Op.CONTIGUOUS else n
    return at.op is Op.STATE or any(e.node is at for _, e in graph.updates)


def ordered(store: Store) -> Store:
    """The store with its axes in the order of what it stores."""
    place = {a: d for d, i in enumerate(store.at) for a in i.axes}
    return replace(store, axes=tuple(sorted(store.axes, key=lambda a: place.get(a, -1))))


def read_step(b: Buffer, step: Ix, at: At) -> Expr:
    return read(b, (step, *at))


def is_whole(e: Edge) -> bool:
    """Whether the edge shows a computed value as it is."""
    return e.node.op not in SOURCES and e.view == identity(e.node.shape)


def stored_as(dst: Buffer, value: Expr) -> Expr:
    """The value without a rounding that the store does."""
    if dst.dtype is not value.dtype and isinstance(value, Prim) and value.op is Op.CONTIGUOUS:
        (rounded,) = value.args
        if isinstance(rounded, Prim) and rounded.dtype is dst.dtype:
            (inner,) = rounded.args
            return inner if inner.dtype is value.dtype else value
    return value
