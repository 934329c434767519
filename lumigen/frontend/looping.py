"""looping: a scan as nodes of the graph, from functions that are traced once for all of its steps.

Promises a body that is closed: what it takes from outside is computed once, ahead of the loop, and handed to it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from lumigen import graph
from lumigen.errors import BadArgument
from lumigen.frontend.trace import current, emit, fail
from lumigen.graph import Edge, Graph, Node, ScanLoop, edge, rebuild, source, tensor_of, toposort
from lumigen.index import Ix
from lumigen.ops import ROWS, Op

Body = Callable[[list[Edge], list[Edge]], tuple[list[Edge], list[Edge]]]
FREE = {Op.CONST, Op.IOTA}  # that a body has by itself


class _Open(threading.local):
    """How many bodies a thread traces, one inside another: their inputs differ."""

    count = 0


_OPEN = _Open()


def scanned(
    body: Body,
    carries: Sequence[Edge],
    elements: Sequence[Edge],
    *,
    axis: int,
    length: Ix,
    monoid: str | None = None,
) -> tuple[list[Edge], list[Edge]]:
    """(the carries, the further values) after each of `length` steps, stacked along `axis`.

    `body` maps the carries and the elements of a step to the next carries and further values. All `elements` have
    `length` along `axis`. `monoid` names the associative operation that the body is, if it is one.
    """
    inner = f"{_OPEN.count}." if _OPEN.count else ""
    given = [source(Op.INPUT, f"{inner}carry{i}", e.shape, e.dtype) for i, e in enumerate(carries)]
    for i, e in enumerate(elements):
        shape = (*e.shape[:axis], *e.shape[axis + 1 :])
        bounds = tensor_of(e.node).range if e.node.op is Op.INPUT else None
        given.append(source(Op.INPUT, f"{inner}element{i}", shape, e.dtype, bounds))
    scope = current()
    drawn = {n for n in scope.lines if n.op is Op.RANDOM} if scope is not None else set[Node]()
    versions = {s: len(made) for s, made in scope.versions.items()} if scope is not None else {}
    _OPEN.count += 1
    try:
        first = [edge(n) for n in given[: len(carries)]]
        following, further = body(first, [edge(n) for n in given[len(carries) :]])
    finally:
        _OPEN.count -= 1
    if scope is not None and {s: len(made) for s, made in scope.versions.items()} != versions:
        raise fail(
            BadArgument,
            op="scan",
            name="the body",
            value="one that writes to a state",
            expected="the new value of the state as a carry, and one assignment after the scan",
        )
    if scope is not None and {n for n in scope.lines if n.op is Op.RANDOM} != drawn:
        raise fail(
            BadArgument,
            op="scan",
            name="the body",
            value="one that draws random numbers, the same ones in each step",
            expected="numbers that are drawn before the scan, as one of its inputs",
        )
    for i, (old, new) in enumerate(zip(carries, following, strict=True)):
        if (old.shape, old.dtype) != (new.shape, new.dtype):
            raise fail(
                BadArgument,
                op="scan",
                name=f"carry {i}",
                value=f"{_kind(old)} at first and {_kind(new)} after a step",
                expected="one shape and one dtype in all steps",
            )
    own = [e for e in dict.fromkeys(further) if e not in following]
    closed, taken = _closed(given, [*following, *own])
    loop = ScanLoop(axis, closed, monoid, length, len(carries), len(elements))
    args = (*carries, *elements, *taken)
    out = [emit(graph.scan(replace(loop, result=i), args)) for i in range(len(closed.outputs))]
    stacked = dict(zip([*following, *own], out, strict=False))
    return out[: len(carries)], [stacked[e] for e in further]


def _kind(e: Edge) -> str:
    return f"{e.dtype}[{', '.join(map(str, e.shape))}]"


def _closed(given: list[Node], results: list[Edge]) -> tuple[Graph, list[Edge]]:
    """The body over inputs of its own, and what it takes from outside for the last of them."""
    order = toposort([*given, *(e.node for e in results)])
    moving, outside = set(given), set[Node]()
    for n in order:
        if any(a.node in moving for a in n.args):
            moving.add(n)
        elif n not in moving and (
            (n.op not in ROWS and n.op not in FREE) or any(a.node in outside for a in n.args)
        ):
            outside.add(n)
    used = [a.node for n in order if n in moving for a in n.args]
    used += [e.node for e in results]
    taken = list(dict.fromkeys(n for n in used if n in outside))
    new: dict[Node, Node] = {}
    for i, n in enumerate(taken):
        bounds = tensor_of(n).range if n.op in (Op.INPUT, Op.STATE) else None
        new[n] = source(Op.INPUT, f"rest{i}", n.shape, n.dtype, bounds)
    for n in order:
        if n in moving:
            new[n] = rebuild(n, tuple(Edge(new.get(a.node, a.node), a.view) for a in n.args))
    scope = current()
    known = scope.frozen_lines() if scope is not None else {}
    lines = {new[n]: known[n] for n in order if n in moving and n in known}
    inputs = (*given, *(new[n] for n in taken))
    outputs = tuple(
        (f"result{i}", Edge(new.get(e.node, e.node), e.view)) for i, e in enumerate(results)
    )
    return Graph(inputs, outputs, (), lines), [edge(n) for n in taken]
