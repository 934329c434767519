"""control: branches, loops and scans: what is run is decided while the model is imported, or all of it runs.

A branch by a condition that only a run knows computes both sides, as nothing has side effects. A loop of a known
number of steps is written out; a scan is one loop of the model.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lumigen.frontend import Tensor, functions
from lumigen.importers.onnx.node import OnnxNode, Operator
from lumigen.importers.onnx.values import Array, Known, Value

MOST_ROUNDS = 4096  # of a loop that is written out


def if_(n: OnnxNode) -> tuple[Value, ...]:
    """One branch where the condition is known, else the choice between the outputs of both."""
    sides = [n.attr("else_branch"), n.attr("then_branch")]
    condition = n.known_or_tensor(0)
    if isinstance(condition, Known):
        return tuple(n.around.run_graph(n, sides[bool(condition.array.reshape(()))], []))
    other, one = (n.around.run_graph(n, side, []) for side in sides)
    return tuple(_chosen(n, condition.reshape(()), a, b) for a, b in zip(one, other, strict=True))


def _chosen(n: OnnxNode, condition: Tensor, one: Value, other: Value) -> Value:
    """One of two values of a shape; of sequences and options the condition must be known."""
    if not all(isinstance(v, Known | Tensor) for v in (one, other)):
        n.numbers_of(condition, "its condition")
    a, b = n.around.tensor(one), n.around.tensor(other)
    if (
        a.dtype is not b.dtype
        or a.ndim != b.ndim
        or any(x is not y and str(x) != str(y) for x, y in zip(a.shape, b.shape, strict=True))
    ):
        raise n.unsupported(
            f"its branches give {a!r} and {b!r}, and only a run knows which it is",
            "Give the condition its value, or make the branches alike.",
        )
    return functions.where(condition, a, b)


def loop(n: OnnxNode) -> tuple[Value, ...]:
    """The states after the last step, and what the steps have listed."""
    body = n.attr("body")
    carried: list[Value] = list(n.inputs[2:])
    listed: list[list[Value]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    most = n.number(0) if n.has(0) else None
    if most is not None and not isinstance(most, int):
        raise n.unsupported(f"it runs {most} times, which is symbolic", "Fix that size with --dim.")
    going: Value = n.known_or_tensor(1) if n.has(1) else Known(np.array(True))
    step, room, is_steady = 0, n.around.room(), _is_steady(body)
    while (most is None or step < most) and not _is_over(going):
        if step == MOST_ROUNDS or (step == 1 and is_steady and _is_long(n, going, most, room)):
            why = f"it runs more than {MOST_ROUNDS} times, or too large a body"
            raise n.unsupported(why, "Export a Scan, or fewer steps.")
        if isinstance(going, Tensor) and most is None:
            why = "only a run knows how often it runs"
            raise n.unsupported(why, "Give it a greatest number of steps.")
        given: list[Value] = [Known(np.array(step)), going, *carried]
        again, *rest = n.around.run_graph(n, body, given)
        after, made = rest[: len(carried)], rest[len(carried) :]
        if isinstance(going, Tensor):
            if made:  # as many as there are steps
                n.numbers_of(going, "its condition")
            after = [_chosen(n, going, a, b) for a, b in zip(after, carried, strict=True)]
        carried = after
        for kept, value in zip(listed, made, strict=True):
            kept.append(value)
        going = _and(n, going, n.simplified(again))
        step += 1
    return (*carried, *(_stacked(n, parts) for parts in listed))


def _is_steady(body: Any) -> bool:
    """Whether each step says of the next one what the step before has said of it."""
    makers = {o: node for node in body.node for o in node.output}
    name = body.output[0].name
    while name in makers and makers[name].op_type == "Identity":
        name = makers.pop(name).input[0]
    return name not in makers or makers[name].op_type == "Constant"


def _is_long(n: OnnxNode, going: Value, most: int | None, room: int) -> bool:
    """Whether a loop that runs on after its first step is sure to be too long; `room` was left before that step."""
    if not isinstance(going, Known):
        return False
    used = room - n.around.room()
    return most is None or most > MOST_ROUNDS or most * used > room


def _is_over(going: Value) -> bool:
    return isinstance(going, Known) and not bool(going.array.reshape(()))


def _and(n: OnnxNode, before: Value, now: Value) -> Value:
    """Whether a loop goes on: once it has stopped it stays so."""
    if isinstance(before, Known):
        return now if isinstance(now, Known) else n.around.tensor(now).reshape(()).bool()
    return n.around.tensor(before) & n.around.tensor(now).reshape(()).bool()


def _stacked(n: OnnxNode, parts: list[Value]) -> Value:
    if parts and all(isinstance(p, Known) for p in parts):
        arrays: list[Array] = [p.array for p in parts if isinstance(p, Known)]
        return Known(np.stack(arrays))
    if not parts:
        why = "it runs no step, and its outputs list each one"
        raise n.unsupported(why, "Leave those outputs out.")
    return functions.stack([n.around.tensor(p) for p in parts])


def scan(n: OnnxNode) -> tuple[Value, ...]:
    """States carried over slices of tensors; what each step makes is stacked."""
    body, count = n.attr("body"), int(n.attr("num_scan_inputs"))
    values = list(n.inputs)
    if n.version < 9:
        if values[0] is not None:
            raise n.unsupported(
                "its sequences have lengths of their own", "Export it from version 9 on."
            )
        values = values[1:]
    states = [n.around.tensor(v) for v in values[: len(values) - count]]
    elements = [n.around.tensor(v) for v in values[len(values) - count :]]
    made = len(body.output) - len(states)
    if n.version < 9:
        batch = int(elements[0].shape[0])
        ends = [
            _scanned(n, body, [s[b] for s in states], [e[b] for e in elements], made)
            for b in range(batch)
        ]
        return tuple(functions.stack([end[i] for end in ends]) for i in range(len(ends[0])))
    axes = n.attr("scan_input_axes", [0] * count)
    backwards = n.attr("scan_input_directions", [0] * count)
    for i, (axis, back) in enumerate(zip(axes, backwards, strict=True)):
        front = elements[i].movedim(int(axis), 0)
        elements[i] = front.flip(0) if back else front
    found = list(_scanned(n, body, states, elements, made))
    ends = n.attr("scan_output_axes", [0] * made)
    turned = n.attr("scan_output_directions", [0] * made)
    for i, (axis, back) in enumerate(zip(ends, turned, strict=True), len(states)):
        out = found[i].flip(0) if back else found[i]
        found[i] = out.movedim(0, int(axis))
    return tuple(found)


def _scanned(
    n: OnnxNode, body: Any, states: list[Tensor], elements: list[Tensor], made: int
) -> tuple[Tensor, ...]:
    def step(carry: tuple[Tensor, ...], x: tuple[Tensor, ...]) -> Any:
        out = [n.around.tensor(v) for v in n.around.run_graph(n, body, [*carry, *x])]
        after = tuple(a.to(b.dtype).reshape(*b.shape) for a, b in zip(out, carry, strict=False))
        return after, tuple(out[len(carry) :])

    last, listed = functions.scan(step, tuple(states), tuple(elements))
    return (*last, *(listed if made else ()))


ROWS = (
    Operator("If", if_),
    Operator("Loop", loop),
    Operator("Scan", scan),
)
