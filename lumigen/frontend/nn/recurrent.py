"""Recurrent layers: scans over time, whose products with the input are computed for all times at once.

What PyTorch does for training alone (`dropout`) is taken and does nothing.
"""

# ruff: noqa: FBT002  # signatures are PyTorch's

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar, cast

from lumigen.dtype import DType, f32
from lumigen.errors import BadArgument, RankMismatch, ShapeMismatch
from lumigen.frontend import functional as fn
from lumigen.frontend import movement
from lumigen.frontend.nn.module import Module, Parameter
from lumigen.frontend.nn.packed import PackedSequence
from lumigen.frontend.operand import choice
from lumigen.frontend.primitive import Extent
from lumigen.frontend.scan import scan
from lumigen.frontend.tensor import Tensor
from lumigen.frontend.trace import fail
from lumigen.index import ix


class _Weights(NamedTuple):
    """Of one direction of a layer: (gates, in), (gates, hidden), (gates), (gates), (projected, hidden)."""

    of_input: Parameter
    of_hidden: Parameter
    input_bias: Parameter | None
    hidden_bias: Parameter | None
    projection: Parameter | None = None


State = tuple[Tensor, ...]  # what a step carries, h first
Sequences = TypeVar("Sequences", Tensor, PackedSequence)


def _check_size(layer: Module, input: Tensor, size: int, axes: tuple[str, ...]) -> None:
    """ShapeMismatch for an input whose last axis is not the layer's `input_size`; `axes` name those before it."""
    last = input.extents[-1]
    if last == size:
        return
    name = type(layer).__name__
    other = f"Make it with input_size={last}, or pass" if last.is_const else "Pass"
    raise fail(
        ShapeMismatch,
        op=name,
        lhs=input.extents,
        rhs=(*axes, size),
        rule=f"the last axis of the input is {last}, and input_size of this {name} is {size}",
        remedy=f"{other} an input whose last axis is {size}.",
    )


def _check_pair(layer: Module, given: object) -> None:
    """BadArgument for first states that are not two tensors."""
    is_group = isinstance(given, tuple | list)
    states = cast("Sequence[object]", given) if is_group else (given,)
    fits = is_group and len(states) == 2 and all(isinstance(s, Tensor) for s in states)
    if given is None or fits:
        return
    held = ", ".join("a tensor" if isinstance(s, Tensor) else repr(s) for s in states)
    value, expected = f"({held})" if is_group else held, "(h, c), two tensors, or None"
    raise fail(BadArgument, op=type(layer).__name__, name="hx", value=value, expected=expected)


def _check_state(layer: Module, given: State, wanted: Sequence[tuple[Extent, ...]]) -> None:
    """ShapeMismatch for first states of other shapes."""
    name = type(layer).__name__
    for state, shape in zip(given, wanted, strict=True):
        to = tuple(map(ix, shape))
        if state.extents != to:
            whole = "layers * directions, batch, features" if len(to) == 3 else "batch, features"
            rule = f"the first state of this {name} is ({whole})"
            remedy = f"Pass one of shape ({', '.join(map(str, to))})."
            raise fail(ShapeMismatch, op=name, lhs=state.extents, rhs=to, rule=rule, remedy=remedy)


class _CellStep:
    """What all kinds of cells have: how many gates, and what a step makes of them."""

    gates = 1
    states = 1

    def of_input(self, x: Tensor, w: _Weights) -> Tensor:
        """The part of the gates that only the input has a say in, for any number of times."""
        both = fn.linear(x, w.of_input, w.input_bias)
        return both if w.hidden_bias is None else both + w.hidden_bias

    def step(self, gates: Tensor, state: State, w: _Weights) -> State:
        raise NotImplementedError


class _Plain(_CellStep):
    """h' = f(x W_ih + b_ih + h W_hh + b_hh)."""

    def __init__(self, nonlinearity: str) -> None:
        choice("RNN", "nonlinearity", nonlinearity, "tanh", "relu")
        self.nonlinearity = nonlinearity

    def step(self, gates: Tensor, state: State, w: _Weights) -> State:
        (h,) = state
        total = gates + h @ w.of_hidden.mT
        return (total.tanh() if self.nonlinearity == "tanh" else total.relu(),)


class _Long(_CellStep):
    """c' = s(f) c + s(i) tanh(g); h' = s(o) tanh(c'), times a projection if there is one."""

    gates = 4
    states = 2

    def step(self, gates: Tensor, state: State, w: _Weights) -> State:
        h, c = state
        i, f, g, o = (gates + h @ w.of_hidden.mT).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        return (h if w.projection is None else h @ w.projection.mT, c)


class _Gated(_CellStep):
    """n = tanh(x W_in + b_in + s(r) (h W_hn + b_hn)); h' = n + s(z) (h - n)."""

    gates = 3

    def of_input(self, x: Tensor, w: _Weights) -> Tensor:
        return fn.linear(x, w.of_input, w.input_bias)

    def step(self, gates: Tensor, state: State, w: _Weights) -> State:
        (h,) = state
        r, z, n = gates.chunk(3, -1)
        of_hidden = h @ w.of_hidden.mT
        if w.hidden_bias is not None:
            of_hidden = of_hidden + w.hidden_bias
        hidden_r, hidden_z, hidden_n = of_hidden.chunk(3, -1)
        n = (n + (r + hidden_r).sigmoid() * hidden_n).tanh()
        return (n + (z + hidden_z).sigmoid() * (h - n),)


class _Layers(Module):
    """Layers of steps, in one direction or two."""

    def __init__(
        self,
        kind: _CellStep,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        *,
        bias: bool,
        batch_first: bool,
        bidirectional: bool,
        dtype: DType,
        proj_size: int = 0,
    ) -> None:
        if not 0 <= proj_size < hidden_size:
            expected = f"0 (none) or fewer than the {hidden_size} of hidden_size"
            raise fail(BadArgument, op="LSTM", name="proj_size", value=proj_size, expected=expected)
        self.input_size, self.hidden_size, self.proj_size = input_size, hidden_size, proj_size
        self.num_layers, self.bias, self.batch_first = num_layers, bias, batch_first
        self.bidirectional = bidirectional
        self._kind = kind
        rows = kind.gates * hidden_size
        shown = proj_size or hidden_size
        for layer in range(num_layers):
            taken = shown * (1 + bidirectional) if layer else input_size
            for suffix in self._suffixes(layer):
                self._declare(f"weight_ih_{suffix}", rows, taken, dtype=dtype)
                self._declare(f"weight_hh_{suffix}", rows, shown, dtype=dtype)
                if bias:
                    self._declare(f"bias_ih_{suffix}", rows, dtype=dtype)
                    self._declare(f"bias_hh_{suffix}", rows, dtype=dtype)
                if proj_size:
                    self._declare(f"weight_hr_{suffix}", proj_size, hidden_size, dtype=dtype)

    def _declare(self, name: str, *shape: int, dtype: DType) -> None:
        self.register_parameter(name, Parameter(*shape, dtype=dtype))

    def _suffixes(self, layer: int) -> list[str]:
        return [f"l{layer}", f"l{layer}_reverse"][: 1 + self.bidirectional]

    def _weights(self, suffix: str) -> _Weights:
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
        return _Weights(*(vars(self).get(f"{name}_{suffix}") for name in names))  # type: ignore[arg-type]

    def _run(self, input: Sequences, given: State | None) -> tuple[Sequences, State]:
        """((time, batch, out), the last states (layers * directions, batch, ..)), or as the input is laid out."""
        if isinstance(input, PackedSequence):
            _check_size(self, input.data, self.input_size, ("time", "batch"))
            out, ends = self._layers(input.data, given, input.present().unsqueeze(-1))
            return PackedSequence(out, input.lengths), ends
        if input.ndim not in (2, 3):
            raise fail(
                RankMismatch,
                op=type(self).__name__,
                name="the input",
                shape=input.extents,
                expected="3 axes, or 2 without a batch",
                remedy="Reshape it.",
            )
        is_batch = input.ndim == 3
        with_batch = ("batch", "time") if self.batch_first else ("time", "batch")
        _check_size(self, input, self.input_size, with_batch if is_batch else ("time",))
        x = input if is_batch else input.unsqueeze(1)
        if given is not None and not is_batch:
            given = tuple(s.unsqueeze(1) for s in given)
        if is_batch and self.batch_first:
            x = x.transpose(0, 1)
        out, ends = self._layers(x, given)
        if not is_batch:
            return out.squeeze(1), tuple(s.squeeze(1) for s in ends)
        return (out.transpose(0, 1) if self.batch_first else out), ends

    def _layers(
        self, x: Tensor, given: State | None, present: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Of (time, batch, in). Where `present`, (time, batch, 1) of bool, does not hold, a state stays."""
        sizes = (self.proj_size or self.hidden_size, self.hidden_size)
        if given is not None:
            count = self.num_layers * (1 + self.bidirectional)
            wanted = [(count, x.extents[1], n) for n in sizes[: self._kind.states]]
            _check_state(self, given, wanted)
        last: list[State] = []
        for layer in range(self.num_layers):
            outs: list[Tensor] = []
            for suffix in self._suffixes(layer):
                w = self._weights(suffix)
                backwards = bool(outs)
                gates = self._kind.of_input(x.flip(0) if backwards else x, w)
                start: State = (
                    tuple(x.new_zeros(x.shape[1], n) for n in sizes[: self._kind.states])
                    if given is None
                    else tuple(s[len(last)] for s in given)
                )

                def step(
                    state: State, element: tuple[Tensor, ...], w: _Weights = w
                ) -> tuple[State, Tensor]:
                    gates, *kept = element
                    following = self._kind.step(gates, state, w)
                    if kept:
                        pairs = zip(following, state, strict=True)
                        following = tuple(new.where(kept[0], old) for new, old in pairs)
                    return following, following[0]

                mask = () if present is None else (present.flip(0) if backwards else present,)
                state, out = scan(step, start, (gates, *mask))
                last.append(state)
                outs.append(out.flip(0) if backwards else out)
            x = outs[0] if len(outs) == 1 else Tensor(movement.cat([o.edge for o in outs], -1))
        ends = tuple(
            Tensor(movement.stack([s.edge for s in each])) for each in zip(*last, strict=True)
        )
        return x, ends


class RNN(_Layers):
    """(time, batch, in) -> (time, batch, hidden), (layers, batch, hidden): h' = f(x W_ih + b_ih + h W_hh + b_hh).

    Both directions are concatenated, (.., 2 hidden); with `batch_first` the batch comes before the time. A
    PackedSequence (`nn.utils.rnn.pack_padded_sequence`) gives one: each sequence ends at its own length, and
    begins there backwards.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        dtype: DType = f32,
    ) -> None:
        del dropout
        super().__init__(
            _Plain(nonlinearity),
            input_size,
            hidden_size,
            num_layers,
            bias=bias,
            batch_first=batch_first,
            bidirectional=bidirectional,
            dtype=dtype,
        )
        self.nonlinearity = nonlinearity

    def forward(self, input: Sequences, hx: Tensor | None = None) -> tuple[Sequences, Tensor]:
        out, (h,) = self._run(input, None if hx is None else (hx,))
        return out, h


class LSTM(_Layers):
    """(time, batch, in) -> (time, batch, hidden), (h, c) of the last step, each (layers, batch, hidden).

    i, f, g, o = x W_ih + b_ih + h W_hh + b_hh; c' = s(f) c + s(i) tanh(g); h' = s(o) tanh(c'), of `proj_size`
    elements after a projection. Hochreiter and Schmidhuber, 1997; Sak et al., 2014.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        dtype: DType = f32,
    ) -> None:
        del dropout
        super().__init__(
            _Long(),
            input_size,
            hidden_size,
            num_layers,
            bias=bias,
            batch_first=batch_first,
            bidirectional=bidirectional,
            proj_size=proj_size,
            dtype=dtype,
        )

    def forward(
        self, input: Sequences, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Sequences, tuple[Tensor, Tensor]]:
        _check_pair(self, hx)
        out, (h, c) = self._run(input, hx)
        return out, (h, c)


class GRU(_Layers):
    """(time, batch, in) -> (time, batch, hidden), (layers, batch, hidden): h' = (1 - s(z)) n + s(z) h.

    n = tanh(x W_in + b_in + s(r) (h W_hn + b_hn)); r and z are gates of x and h. Cho et al., 2014.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        dtype: DType = f32,
    ) -> None:
        del dropout
        super().__init__(
            _Gated(),
            input_size,
            hidden_size,
            num_layers,
            bias=bias,
            batch_first=batch_first,
            bidirectional=bidirectional,
            dtype=dtype,
        )

    def forward(self, input: Sequences, hx: Tensor | None = None) -> tuple[Sequences, Tensor]:
        out, (h,) = self._run(input, None if hx is None else (hx,))
        return out, h


class _Cell(Module):
    """One step."""

    def __init__(
        self, kind: _CellStep, input_size: int, hidden_size: int, *, bias: bool, dtype: DType
    ) -> None:
        rows = kind.gates * hidden_size
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        self._kind = kind
        self.weight_ih = Parameter(rows, input_size, dtype=dtype)
        self.weight_hh = Parameter(rows, hidden_size, dtype=dtype)
        self.bias_ih = Parameter(rows, dtype=dtype) if bias else None
        self.bias_hh = Parameter(rows, dtype=dtype) if bias else None

    def _run(self, input: Tensor, given: State | None) -> State:
        if input.ndim not in (1, 2):
            raise fail(
                RankMismatch,
                op=type(self).__name__,
                name="the input",
                shape=input.extents,
                expected="2 axes (batch, input_size), or 1 without a batch",
                remedy="Reshape it.",
            )
        _check_size(self, input, self.input_size, ("batch",)[: input.ndim - 1])
        w = _Weights(self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        batch = input.shape[:-1]
        zeros = input.new_zeros(*batch, self.hidden_size)
        if given is not None:
            _check_state(self, given, [zeros.extents] * self._kind.states)
        state = (zeros,) * self._kind.states if given is None else given
        return self._kind.step(self._kind.of_input(input, w), state, w)


class RNNCell(_Cell):
    """(batch, in), (batch, hidden) -> (batch, hidden): one step of an RNN."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        dtype: DType = f32,
    ) -> None:
        super().__init__(_Plain(nonlinearity), input_size, hidden_size, bias=bias, dtype=dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        (h,) = self._run(input, None if hx is None else (hx,))
        return h


class LSTMCell(_Cell):
    """(batch, in), (h, c) -> (h, c), each (batch, hidden): one step of an LSTM."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, dtype: DType = f32
    ) -> None:
        super().__init__(_Long(), input_size, hidden_size, bias=bias, dtype=dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        _check_pair(self, hx)
        h, c = self._run(input, hx)
        return h, c


class GRUCell(_Cell):
    """(batch, in), (batch, hidden) -> (batch, hidden): one step of a GRU."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, dtype: DType = f32
    ) -> None:
        super().__init__(_Gated(), input_size, hidden_size, bias=bias, dtype=dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        (h,) = self._run(input, None if hx is None else (hx,))
        return h
