"""recurrent: the ops of ATen that are whole recurrent layers, as the layers of the frontend with their weights set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lumigen.errors import BadArgument
from lumigen.frontend import nn
from lumigen.frontend.tensor import Tensor
from lumigen.frontend.trace import fail
from lumigen.importers.torch.aten.row import Row, Table

WEIGHTS = ("weight_ih", "weight_hh")
BIASES = ("bias_ih", "bias_hh")
PROJECTION = "weight_hr"


def layers(kind: Any, **options: Any) -> Row:
    """The row of a kind of recurrent layers."""

    def row(
        input: Tensor,
        hx: Any,
        params: Sequence[Tensor],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[Tensor, ...]:
        if train and dropout:
            expected = "a module in inference; call .eval() before it is exported"
            raise fail(BadArgument, op="dropout", name="train", value=True, expected=expected)
        directions = 1 + bidirectional
        names, more = (*WEIGHTS, *(BIASES if has_biases else ())), dict(options)
        if len(params) > len(names) * num_layers * directions:
            more["proj_size"] = params[len(names)].shape[0]
            names = (*names, PROJECTION)
        hidden = params[1].shape[0] // GATES[kind]
        layer = kind(
            params[0].shape[1],
            hidden,
            num_layers,
            bias=has_biases,
            batch_first=batch_first,
            bidirectional=bidirectional,
            **more,
        )
        suffixes = [
            f"l{k}{end}" for k in range(num_layers) for end in ("", "_reverse")[:directions]
        ]
        wanted = [f"{name}_{suffix}" for suffix in suffixes for name in names]
        for name, value in zip(wanted, params, strict=True):
            layer.register_parameter(name, value)
        out, last = layer(input, tuple(hx) if kind is nn.LSTM else hx)
        return (out, *last) if kind is nn.LSTM else (out, last)

    return row


GATES = {nn.LSTM: 4, nn.GRU: 3, nn.RNN: 1}

RECURRENT: Table = {
    "lstm.input": layers(nn.LSTM),
    "gru.input": layers(nn.GRU),
    "rnn_tanh.input": layers(nn.RNN, nonlinearity="tanh"),
    "rnn_relu.input": layers(nn.RNN, nonlinearity="relu"),
}
