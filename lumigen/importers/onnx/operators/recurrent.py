"""recurrent: RNN, GRU and LSTM as scans over time, whose products with the input are computed for all times at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lumigen.frontend import Tensor, functions
from lumigen.importers.onnx.node import OnnxNode, Operator
from lumigen.importers.onnx.operators.attention import MICROSOFT
from lumigen.importers.onnx.operators.convolutions import centred
from lumigen.importers.onnx.operators.elementwise import hard_sigmoid, leaky, softplus
from lumigen.importers.onnx.operators.quantised import dynamic_product, scales

# Activations of gates by name, of an element and two numbers, with what those are unless they are given.
ACTIVATIONS: dict[str, tuple[Callable[[Tensor, float, float], Tensor], float, float]] = {
    "relu": (lambda x, a, b: x.relu(), 0, 0),
    "tanh": (lambda x, a, b: x.tanh(), 0, 0),
    "sigmoid": (lambda x, a, b: x.sigmoid(), 0, 0),
    "affine": (lambda x, a, b: x * a + b, 1, 0),
    "leakyrelu": (lambda x, a, b: leaky(x, a), 0.01, 0),
    "thresholdedrelu": (lambda x, a, b: x * (x > a).to(x.dtype), 1, 0),
    "scaledtanh": (lambda x, a, b: (x * b).tanh() * a, 1, 1),
    "hardsigmoid": (hard_sigmoid, 0.2, 0.5),
    "elu": (lambda x, a, b: functions.where(x > 0, x, x.expm1() * a), 1, 0),
    "softsign": (lambda x, a, b: x / (x.abs() + 1), 0, 0),
    "softplus": (lambda x, a, b: softplus(x), 0, 0),
}
Product = Callable[[Tensor], Tensor]  # of (.., size) with a weight: (.., gates * hidden)
Activation = Callable[[Tensor], Tensor]
State = tuple[Tensor, ...]


@dataclass(frozen=True)
class Cell:
    """One direction: the product with the hidden state, biases, peepholes, activations of its gates."""

    hidden: int
    times: Product
    bias: Tensor | None  # of the hidden state, (gates * hidden)
    peepholes: Tensor | None
    f: list[Activation]
    node: OnnxNode

    def gate(self, x: Tensor, i: int) -> Tensor:
        """The part of a gate along the last axis."""
        return x.narrow(-1, i * self.hidden, self.hidden)

    def product(self, h: Tensor) -> Tensor:
        out = self.times(h)
        return out if self.bias is None else out + self.bias


Step = Callable[[Cell, State, Tensor], State]


def _rnn(cell: Cell, state: State, x: Tensor) -> State:
    return (cell.f[0](x + cell.product(state[0])),)


def _gru(cell: Cell, state: State, x: Tensor) -> State:
    """Gates z, r and h; the reset acts on the state before the product, or after it."""
    (h,) = state
    ahead = cell.product(h)
    z = cell.f[0](cell.gate(x, 0) + cell.gate(ahead, 0))
    r = cell.f[0](cell.gate(x, 1) + cell.gate(ahead, 1))
    resets_after = cell.node.attr("linear_before_reset", 0)
    inner = r * cell.gate(ahead, 2) if resets_after else cell.gate(cell.product(r * h), 2)
    new = cell.f[1](cell.gate(x, 2) + inner)
    return ((1 - z) * new + z * h,)


def _lstm(cell: Cell, state: State, x: Tensor) -> State:
    """Gates i, o, f and c; peepholes look at the cell before, and o at the cell after."""
    h, c = state
    total = x + cell.product(h)
    p = cell.peepholes

    def seen(i: int, of: Tensor) -> Tensor:
        gate = cell.gate(total, i)
        return gate if p is None else gate + cell.gate(p, i) * of

    i = cell.f[0](seen(0, c))
    f = 1 - i if cell.node.attr("input_forget", 0) else cell.f[0](seen(2, c))
    after = f * c + i * cell.f[1](cell.gate(total, 3))
    o = cell.f[0](seen(1, after))
    return (o * cell.f[2](after), after)


def activations(n: OnnxNode, names: list[str], first: int) -> list[Activation]:
    """Those of one direction; all are clipped before if the node asks for it."""
    alpha, beta = n.attr("activation_alpha", []), n.attr("activation_beta", [])
    clip = n.attr("clip", None)
    out: list[Activation] = []
    for i, name in enumerate(names, first):
        if name.lower() not in ACTIVATIONS:
            raise n.unsupported(f"its activation is {name!r}")
        f, a, b = ACTIVATIONS[name.lower()]
        a, b = (given[i] if i < len(given) else d for given, d in ((alpha, a), (beta, b)))
        out.append(_clipped(f, a, b, clip))
    return out


def _clipped(f: Any, a: float, b: float, clip: float | None) -> Activation:
    return lambda x: f(x if clip is None else x.clamp(-clip, clip), a, b)


def plain(n: OnnxNode, d: int) -> tuple[Product, Product]:
    """The products of a direction with the input and with the hidden state."""
    w, r = n.tensor(1)[d], n.tensor(2)[d]
    return lambda x: x @ w.t(), lambda h: h @ r.t()


def dynamic(n: OnnxNode, d: int) -> tuple[Product, Product]:
    """Those of floats that are rounded to u8 by their range, with matrices of integers that are transposed already."""

    def product(i: int, scale: int) -> Product:
        zero = n.zero_point(scale + 1, i)
        matrix = centred(n.tensor(i)[d], None if zero is None else zero[d])
        by = scales(n, scale)[d]
        return lambda x: dynamic_product(x, matrix, by)

    return product(1, 8), product(2, 10)


def recurrent(
    step: Step,
    gates: int,
    names: tuple[str, ...],
    products: Callable[[OnnxNode, int], tuple[Product, Product]] = plain,
) -> Callable[[OnnxNode], tuple[Tensor, ...]]:
    """The function of an operator: all states, and the last ones."""

    def function(n: OnnxNode) -> tuple[Tensor, ...]:
        x = n.tensor(0)
        by_batch = bool(n.attr("layout", 0))
        x = x.transpose(0, 1) if by_batch else x
        direction = n.attr("direction", "forward")
        backwards = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[
            direction
        ]
        given = n.attr("activations", list(names) * len(backwards))
        ends: list[list[Tensor]] = []
        for d, back in enumerate(backwards):
            chosen = given[d * len(names) : (d + 1) * len(names)]
            f = activations(n, chosen, d * len(names))
            by = products(n, d)
            ends.append(_direction(n, step, x, d, gates, f, by, back=back, by_batch=by_batch))
        y = functions.stack([e[0] for e in ends], 1)  # (seq, directions, batch, hidden)
        last = [
            functions.stack(list(parts), 0) for parts in zip(*(e[1:] for e in ends), strict=True)
        ]
        if by_batch:
            y = y.permute(2, 0, 1, 3)
            last = [t.transpose(0, 1) for t in last]
        return (y, *last)

    return function


def _direction(
    n: OnnxNode,
    step: Step,
    x: Tensor,
    d: int,
    gates: int,
    f: list[Activation],
    products: tuple[Product, Product],
    *,
    back: bool,
    by_batch: bool,
) -> list[Tensor]:
    """(seq, batch, hidden) of all times, and the last states."""
    ahead = products[0](x)
    hidden = int(ahead.shape[-1]) // gates
    bias = n.tensor(3)[d] if n.has(3) else None
    lengths = n.tensor(4) if n.has(4) else None
    states = [_first(n, x, 5, d, hidden, by_batch=by_batch)]
    if step is _lstm:
        states.append(_first(n, x, 6, d, hidden, by_batch=by_batch))
    peepholes = n.tensor(7)[d] if step is _lstm and n.has(7) else None
    of_hidden = None if bias is None else bias.narrow(0, gates * hidden, gates * hidden)
    cell = Cell(hidden, products[1], of_hidden, peepholes, f, n)
    if bias is not None:
        ahead = ahead + bias.narrow(0, 0, gates * hidden)
    if back:
        ahead = _reversed(ahead, lengths)
    times = functions.arange(x.shape[0])

    def one(state: State, element: tuple[Tensor, Tensor]) -> tuple[State, Tensor]:
        now, at = element
        after = step(cell, state, now)
        if lengths is None:
            return after, after[0]
        running = (at < lengths).unsqueeze(-1)
        kept = tuple(functions.where(running, a, b) for a, b in zip(after, state, strict=True))
        return kept, functions.where(running, after[0], functions.zeros_like(after[0]))

    last, y = functions.scan(one, tuple(states), (ahead, times))
    return [_reversed(y, lengths) if back else y, *last]


def _first(n: OnnxNode, x: Tensor, i: int, d: int, hidden: int, *, by_batch: bool) -> Tensor:
    if n.has(i):
        return n.tensor(i)[:, d] if by_batch else n.tensor(i)[d]
    return functions.zeros(x.shape[1], hidden, dtype=x.dtype)


def _reversed(x: Tensor, lengths: Tensor | None) -> Tensor:
    """(seq, batch, ..) backwards in time; of sequences with lengths the part that is there."""
    if lengths is None:
        return x.flip(0)
    at = functions.arange(x.shape[0]).reshape(-1, 1)
    back = lengths.reshape(1, -1) - 1 - at
    places = functions.where(back >= 0, back, at)
    return x.gather(0, places.unsqueeze(-1).expand(*x.shape))


ROWS = (
    Operator("RNN", recurrent(_rnn, 1, ("Tanh",))),
    Operator("GRU", recurrent(_gru, 3, ("Sigmoid", "Tanh"))),
    Operator("LSTM", recurrent(_lstm, 4, ("Sigmoid", "Tanh", "Tanh"))),
    Operator(
        "DynamicQuantizeLSTM",
        recurrent(_lstm, 4, ("Sigmoid", "Tanh", "Tanh"), dynamic),
        domain=MICROSOFT,
    ),
)
