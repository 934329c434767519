"""Activations in 8 bits: what products in integers lose, and that these are products of integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tiles import run_entry

import lumigen as lg
from lumigen import nn
from lumigen.activations import rounded, said
from lumigen.compile import lower_model
from lumigen.errors import BadArgument
from lumigen.interp.graph import evaluate
from lumigen.quantise import quantised
from lumigen.target import parse_target
from lumigen.tile import Mma

Array = np.ndarray[Any, Any]


class Net(nn.Module):
    """Two layers, whose rows are rounded once each."""

    def __init__(self) -> None:
        self.up = nn.Linear(64, 48)
        self.down = nn.Linear(48, 40, bias=False)

    def forward(self, x: lg.Tensor) -> lg.Tensor:
        return self.down(self.up(x).relu())


def traced() -> tuple[lg.Traced, dict[str, Array]]:
    net = Net()
    model = lg.Model("rounded", net)

    @model.entry(x=lg.spec(lg.Dim("n", 1, 9), 64))
    def forward(x: lg.Tensor) -> lg.Tensor:
        return net(x)

    rng = np.random.default_rng(0)
    found = model.trace()
    return found, {w.name: rng.standard_normal(w.shape).astype(np.float32) for w in found.weights}


def test_rows_are_rounded_and_multiplied_in_integers() -> None:
    model, floats = traced()
    found = quantised(model, floats, "q8-row")
    whole = rounded(found.traced, "i8")
    assert set(whole.fields) == {"up.weight.quants", "down.weight.quants"}
    assert found.weights is not None
    weights = {name: found.weights[name] for name in found.weights}
    x = np.random.default_rng(1).standard_normal((7, 64)).astype(np.float32)
    x[0] = 0
    meant = evaluate(found.traced.entries[0][1], {"x": x}, weights)["out"]
    expected = evaluate(whole.traced.entries[0][1], {"x": x}, weights)["out"]
    apart = np.linalg.norm(expected - meant) / np.linalg.norm(meant)
    assert 0.001 < apart < 0.015
    assert "2 matrices multiply are rounded to 8 bits" in said(found.packed, whole)
    lowered = lower_model(whole.traced, {}, target=parse_target("cpu")).lowered
    elements = [
        s.element for k in lowered.kernels for s in k.program.statements() if isinstance(s, Mma)
    ]
    assert elements == [lg.i8, lg.i8]
    out = run_entry(lowered, {"x": x}, weights)["out"]
    # a sum that ends in a half may be rounded to either side
    assert np.linalg.norm(out - expected) < 0.01 * np.linalg.norm(expected)


def test_rows_that_have_no_greatest_number() -> None:
    model, floats = traced()
    found = quantised(model, floats, "q8-row")
    graph = rounded(found.traced, "i8").traced.entries[0][1]
    assert found.weights is not None
    weights = {name: found.weights[name] for name in found.weights}
    x = np.ones((5, 64), np.float32)
    x[:3, 3] = np.nan, np.inf, -np.inf
    x[3], x[4] = 1e-40, 0
    with np.errstate(invalid="ignore", over="ignore"):
        out = evaluate(graph, {"x": x}, weights)["out"]
    assert np.isnan(out[:3]).all()
    np.testing.assert_array_equal(out[3], out[4])


def test_a_sum_that_32_bits_may_not_hold_stays_as_it_is() -> None:
    """128 times 127 for each term is within i32 for 132,104 of them."""
    for width, fields in ((132_096, ("weight.quants",)), (132_128, ())):
        net = nn.Linear(width, 2, bias=False)
        model = lg.Model("deep", net)

        @model.entry(x=lg.spec(1, width))
        def forward(x: lg.Tensor, net: nn.Linear = net) -> lg.Tensor:
            return net(x)

        whole = rounded(quantised(model.trace(), None, "q8-row").traced, "i8")
        assert whole.fields == fields


def test_scales_of_parts_of_a_row_stay_in_the_sum() -> None:
    model, floats = traced()
    whole = rounded(quantised(model, floats, "q8").traced, "i8")
    assert whole.fields == ()
    assert "no activations are rounded" in said({}, whole)
    assert said({}, rounded(model, None)) == ""


def test_other_dtypes_are_refused() -> None:
    model, _ = traced()
    with pytest.raises(BadArgument, match="activations dtype cannot be i4"):
        rounded(model, "i4")
