"""What kernels and their operands are called: the model's names, where all uses of a kernel share them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tiles import traced

import lumigen as lg
from lumigen import functional as F
from lumigen import nn
from lumigen.dtype import f32
from lumigen.frontend import Traced
from lumigen.index import ix
from lumigen.kernel_words import is_said
from lumigen.lower.assemble import LoweredKernel
from lumigen.lower.operand_names import (
    free_name,
    kernel_name,
    kernel_words,
    named_slots,
    operand_names,
)
from lumigen.pipeline import lower_model
from lumigen.program import Slot
from lumigen.region import Buffer, Region, Role, Store, const


class Block(nn.Module):
    def __init__(self) -> None:
        self.query = nn.Linear(24, 40)
        self.output = nn.Linear(40, 24)

    def forward(self, x: Any) -> Any:
        scores = F.softmax(self.query(x), -1)
        return self.output(scores)


class Net(nn.Module):
    def __init__(self, layers: int) -> None:
        self.layers = [Block() for _ in range(layers)]

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


def kernels_of(net: nn.Module) -> tuple[LoweredKernel, ...]:
    model = lg.Model("named", net)

    @model.entry(x=lg.spec(lg.Dim("rows", 1, 64), 24))
    def go(x: Any) -> Any:
        return {"y": net(x)}

    return lower_model(model.trace(), {}).lowered.kernels


def names_of(kernels: tuple[LoweredKernel, ...]) -> list[tuple[str, ...]]:
    return [(k.name, *(b.name for b in k.program.args)) for k in kernels]


def test_modules_and_variables_name_what_kernels_pass_on() -> None:
    assert names_of(kernels_of(Net(1))) == [
        ("k00_query_panel", "x", "query_weight_panels", "query_bias", "query"),
        ("k01_scores_simt", "query", "scores_"),  # kernels say `scores` of their own
        ("k02_output_panel", "scores_", "output_weight_panels", "output_bias", "y"),
    ]


def test_what_differs_between_layers_is_left_out() -> None:
    """The first layer reads an input, the last one writes an output; the others read and write temporaries."""
    assert names_of(kernels_of(Net(3))) == [
        ("k00_query_panel", "x0", "query_weight_panels", "query_bias", "query"),
        ("k01_scores_simt", "query", "scores_"),
        ("k02_output_panel", "scores_", "output_weight_panels", "output_bias", "out"),
    ]


def test_models_traced_twice_have_the_same_names() -> None:
    assert names_of(kernels_of(Net(2))) == names_of(kernels_of(Net(2)))


TITLES = [
    (lambda x: x.softmax(-1), "[rows, 24]: softmax of rows of 24"),
    (lambda x: F.layer_norm(x, (24,)), "[rows, 24]: mean and variance of rows of 24, normalised"),
    (lambda x: F.rms_norm(x, (24,)), "[rows, 24]: mean square of rows of 24, normalised"),
    (lambda x: x.amax(-1), "[rows]: maximum over 24"),
    (lambda x: x.cumsum(0), "[rows, 24]: scan over rows"),
    (lambda x: x.T.contiguous(), "[24, rows]: copy of x"),
    (lambda x: x @ x.mT, "[rows, rows]: product of x and x"),
    (
        lambda x: (x @ x.mT).softmax(-1) @ x,
        "[rows, 24]: products over rows with an online softmax, of x",
    ),
]


@pytest.mark.parametrize(("compute", "says"), TITLES, ids=[says for _, says in TITLES])
def test_titles_are_words_of_the_field(compute: Callable[[Any], Any], says: str) -> None:
    graph = traced(compute, x=lg.spec(lg.Dim("rows", 1, 64), 24))
    made = lower_model(Traced("m", "0", (("entry", graph),), ()), {})
    assert made.model.kernels[-1].title == says


def buffer(name: str, role: Role = Role.TEMP) -> Buffer:
    return Buffer(name, role, (ix(4), ix(4)), f32)


@pytest.mark.parametrize(
    ("uses", "name"),
    [
        (["layers.0.attention.query", "layers.1.attention.query"], "query"),
        (["layers.0", "layers.1"], "x0"),
        (["hidden", ""], "x0"),
        (["hidden", "other"], "x0"),
        (["encoder.attention.self"], "attention"),
        (["load"], "load_"),
        (["double"], "double_"),
        (["a.b c"], "b_c"),
    ],
)
def test_a_name_is_what_uses_share(uses: list[str], name: str) -> None:
    b = buffer("x0")
    assert operand_names([(b, use) for use in uses]).get(b, b).name == name


def test_names_of_one_kernel_differ() -> None:
    parts = [buffer(f"x{i}") for i in range(4)]
    names = ["left.query", "right.query", "x3", "new_left_query"]
    found = operand_names(list(zip(parts, names, strict=True)))
    assert [found[b].name for b in parts] == ["left_query", "right_query", "x3_", "new_left_query_"]


@pytest.mark.parametrize(
    "name", ["at_depth", "i0", "k", "n_offset", "at_scores", "new_sum1", "x_panels"]
)
def test_words_of_kernels_are_no_names(name: str) -> None:
    assert is_said(name)
    assert not is_said(free_name(name, ()))


def test_a_kernel_is_called_after_what_it_writes_else_after_weights() -> None:
    out, weight = buffer("out"), buffer("w0", Role.WEIGHT)
    named = operand_names([(weight, "layers.0.query.weight"), (out, "hidden")])
    region = Region((Store(named[out], (), (ix(0), ix(0)), const(0.0, f32)),))
    assert kernel_name(kernel_words(named), region) == "hidden"
    long = operand_names([(out, "a_name_that_is_much_too_long_for_a_kernel")])
    assert kernel_name(kernel_words(long), region) == ""


class Residual(nn.Module):
    """A product that is added to a row of a table."""

    def __init__(self, name: str) -> None:
        self.embed = nn.Embedding(50, 24)
        setattr(self, name, nn.Linear(24, 24))
        self.name = name

    def forward(self, x: Any, ids: Any) -> Any:
        return getattr(self, self.name)(x) + self.embed(ids)


@pytest.mark.parametrize(("name", "said"), [("output", "output"), ("o", "product")])
def test_a_product_is_not_called_after_what_is_added_to_it(name: str, said: str) -> None:
    net = Residual(name)
    model = lg.Model("named", net)

    @model.entry(x=lg.spec(9, 24), ids=lg.spec(9, dtype=lg.i64))
    def go(x: Any, ids: Any) -> Any:
        return net(x, ids)

    names = [k.name for k in lower_model(model.trace(), {}).lowered.kernels]
    assert names == [f"k00_{said}_panel"]


def test_slots_are_called_after_what_lies_in_them() -> None:
    slots = tuple(Slot(name, ix(64), ()) for name in ("t0", "t3", "t5", "t7", "t9"))
    slots = (*slots[:4], Slot("t9", ix(64), ("t3", "t0")))
    place = {"t0": "t0", "t1": "t0", "t3": "t3", "t4": "t3", "t5": "t5", "t7": "t7", "t9": "t9"}
    labels = {"t0": "h.0.ln_1", "t1": "h.1.ln_1", "t3": "h.0.query", "t4": "h.0.fc", "t7": "ln_1"}
    labels |= {"t9": "a_rather_long_name_of_a_value"}
    found, where = named_slots(slots, place, labels)
    names = ("ln_1", "query_or_fc", "t5", "ln_1_2", "a_rather_long_name_of_a_value")
    assert tuple(s.name for s in found) == names
    assert found[-1].after == ("query_or_fc", "ln_1")
    assert where["t1"] == "ln_1"
    assert where["t4"] == "query_or_fc"
