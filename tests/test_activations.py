"""Activations in 8 bits: what products in integers lose, and that these are products of integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tiles import run_entry

import lumigen as lg
from lumigen import nn
from lumigen.activations import rounded, said
from lumigen.errors import BadArgument
from lumigen.interp.graph import evaluate
from lumigen.pipeline import lower_model
from lumigen.quantise import format_of, over_fields, quantised
from lumigen.region import Role
from lumigen.target import parse_target
from lumigen.tile import Mma
from lumigen.weights import blocks
from lumigen.weights.formats import Blocks, Packed

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


class Wide(nn.Module):
    """A product whose groups are whole blocks of every format."""

    def __init__(self) -> None:
        self.up = nn.Linear(512, 40)

    def forward(self, x: lg.Tensor) -> lg.Tensor:
        return self.up(x).relu()


def in_blocks(
    name: str, rows: lg.Dim | int
) -> tuple[lg.Traced, dict[str, Array], dict[str, Packed]]:
    """The model over random fields of a format: one of GGUF, or one of our own."""
    net = Wide()
    model = lg.Model("blocks", net)

    @model.entry(x=lg.spec(rows, 512))
    def forward(x: lg.Tensor) -> lg.Tensor:
        return net(x)

    rng, shape = np.random.default_rng(3), (40, 512)
    form = format_of(name, 512) if name.islower() else None
    of: Blocks = form.blocks if form is not None else getattr(blocks, name)
    weights: dict[str, Array] = {"up.bias": rng.standard_normal(40).astype(np.float32)}
    fields: dict[str, Array] = {}
    for field, (dims, dtype) in of.fields_of(shape).items():
        is_float = dtype.is_float
        drawn = rng.standard_normal(dims) * 0.01 if is_float else rng.integers(0, 100, dims)
        fields[field] = drawn.astype(dtype.numpy)
    packed = {"up.weight": of.packed(name, shape, fields.__getitem__)}
    weights |= {f"up.weight.{field}": a for field, a in fields.items()}
    return over_fields(model.trace(), packed), weights, packed


SPANS = {  # of k that have a number of a scale and of what is added in common
    "Q8_0": ([32], []),
    "Q4_0": ([32], []),
    "Q2_K": ([16, 256], [16, 256]),
    "Q4_K": ([32, 256], [32, 256]),
    "Q6_K": ([16, 256], []),
    "q3": ([32], []),
    "q4a-128": ([128], [128]),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("Q8_0", 1),
        ("Q8_0", lg.Dim("n", 1, 9)),
        ("Q4_0", lg.Dim("n", 1, 9)),
        ("Q4_K", 1),
        ("Q4_K", lg.Dim("n", 1, 9)),
        ("Q6_K", 1),
        ("Q6_K", lg.Dim("n", 1, 9)),
        ("Q2_K", lg.Dim("n", 1, 9)),
        ("q3", 1),
        ("q4a-128", lg.Dim("n", 1, 9)),
    ],
    ids=str,
)
def test_integers_in_groups_are_multiplied_as_such(name: str, rows: lg.Dim | int) -> None:
    """The integers of a group are multiplied in i32, whatever bits they lie in, and then by the group's scales."""
    model, weights, packed = in_blocks(name, rows)
    whole = rounded(model, "i8")
    assert whole.fields
    assert set(whole.fields) == whole.groups
    x = (
        np.random.default_rng(1)
        .standard_normal((1 if isinstance(rows, int) else 7, 512))
        .astype(np.float32)
    )
    x[0, 32:64] = 0
    meant = evaluate(model.entries[0][1], {"x": x}, weights)["out"]
    expected = evaluate(whole.traced.entries[0][1], {"x": x}, weights)["out"]
    assert 0.001 < np.linalg.norm(expected - meant) / np.linalg.norm(meant) < 0.012
    assert "rows that a matrix multiplies are rounded to 8 bits" in said(packed, whole)
    lowered = lower_model(whole.traced, {}, target=parse_target("cpu")).lowered
    products = [s for k in lowered.kernels for s in k.program.statements() if isinstance(s, Mma)]
    assert [s.element for s in products] == [lg.i8]
    groups = products[0].groups
    assert groups is not None
    spans = tuple(sorted(x.span for x in of) for of in (groups.scales, groups.least))
    assert spans == SPANS[name]
    sources = [x.operand.source for x in (*groups.scales, *groups.least)]
    assert all(s is not None and s.role is Role.WEIGHT for s in sources)  # nothing makes them first
    for by_region in (False, True):
        out = run_entry(lowered, {"x": x}, weights, by_region=by_region)["out"]
        assert np.linalg.norm(out - expected) < 1e-6 * np.linalg.norm(expected)


def test_integers_of_8_bits_above_a_minimum_stay_floats() -> None:
    model, _, _ = in_blocks("q8a", 1)
    whole = rounded(model, "i8")
    assert whole.fields == ()
    assert "no activations are rounded" in said({}, whole)


def test_nothing_is_rounded_that_nobody_asks_for() -> None:
    model, _ = traced()
    assert said({}, rounded(model, None)) == ""


def test_other_dtypes_are_refused() -> None:
    model, _ = traced()
    with pytest.raises(BadArgument, match="activations dtype cannot be i4"):
        rounded(model, "i4")
