"""What the compiler itself writes, for each kind of kernel and target: its text, and the launches that run it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tiles import traced

import lumigen as lg
from lumigen import functional as F
from lumigen import nn
from lumigen.frontend import Traced
from lumigen.lower.assemble import LoweredKernel, LoweredModel
from lumigen.pipeline import lower_model
from lumigen.printer.program import show
from lumigen.target import TARGETS, parse_target
from lumigen.target_row import Target

ROWS = lg.Dim("rows", 1, 512, typical=64)
FEW = lg.Dim("few", 1, 600, typical=8)
MANY = lg.Dim("many", 1, 1 << 24, typical=1 << 22)
GOLDENS = Path(__file__).parent / "golden" / "kernels"
ORIGIN = "model.py:1"  # the lines of the programs below move


def spec(*shape: Any, dtype: lg.DType = lg.f32) -> Any:
    return lg.spec(*shape, dtype=dtype)


def ids(most: int) -> Any:
    return lg.spec(ROWS, dtype=lg.i64, range=(0, most))


def weight(*shape: int, name: str = "w", dtype: lg.DType = lg.f32) -> nn.Parameter:
    return nn.Parameter(*shape, name=name, dtype=dtype)


def gated(x: Any, y: Any) -> Any:
    return F.silu(x) * y + 1


def linear_gelu(x: Any) -> Any:
    return F.gelu(F.linear(x, weight(40, 24), weight(40, name="b")))


def gate_and_up(x: Any) -> Any:
    return F.silu(x @ weight(24, 48, name="gate")) * (x @ weight(24, 48, name="up"))


def side_by_side(x: Any) -> Any:
    return {"q": x @ weight(24, 48, name="query"), "k": (x @ weight(24, 16, name="key")) * 0.5}


def normed(x: Any) -> Any:
    return F.rms_norm(x, (24,), weight(24, name="norm")) @ weight(24, 48)


def feed_forward(x: Any) -> Any:
    return F.gelu(x @ weight(24, 48, name="up")) @ weight(48, 24, name="down")


def convolution(x: Any) -> Any:
    return F.conv2d(x, weight(8, 4, 3, 3), weight(8, name="b"), padding=1).relu()


def channels_last(x: Any) -> Any:
    kernels = weight(96, 3, 3, 64, dtype=lg.f16).permute(0, 3, 1, 2)
    y = F.conv2d(x.permute(0, 3, 1, 2), kernels, weight(96, name="b"), stride=2, padding=1)
    return F.relu(y).permute(0, 2, 3, 1)


def depthwise(x: Any) -> Any:
    return F.conv2d(x, weight(8, 1, 3, 3), padding=1, groups=8)


def depthwise_last(x: Any) -> Any:
    kernels = weight(64, 1, 3, 3, dtype=lg.f16)
    return F.conv2d(x.permute(0, 3, 1, 2), kernels, padding=1, groups=64).permute(0, 2, 3, 1)


def scatter_add(x: Any, ids: Any) -> Any:
    return lg.zeros(20, 8).index_add(0, ids, x)


def neighbours(x: Any, i: Any, j: Any) -> Any:
    return lg.zeros(20, 8).index_add(0, j, x[i])


def add_singles(x: Any, i: Any, v: Any) -> Any:
    return x.scatter_add(1, i, v)


def recurrent(x: Any) -> Any:
    return lg.scan(lambda h, e: (h * 0.9 + e, h), x[0], x)[1]


def causal(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def with_log_sum_exp(q: Any, k: Any, v: Any) -> dict[str, Any]:
    scores = q @ k.mT * 0.125
    return {"mixed": scores.softmax(-1) @ v, "total": scores.logsumexp(-1)}


def one_token(q: Any, k: Any, v: Any, position: Any) -> Any:
    """A query past the caches of keys and values, in which its own stand last."""
    keys, values = nn.State("keys", (2, 64, 16)), nn.State("values", (2, 64, 16))
    keys[:, position] = k
    values[:, position] = v
    seen = lg.arange(64) <= position
    return F.scaled_dot_product_attention(q.unsqueeze(1), keys, values, seen)


def one_token_of_many(q: Any, position: Any) -> Any:
    """Four queries that share keys, past caches so long that tasks share them."""
    keys, values = (nn.State(n, (2, 4096, 64), lg.bf16) for n in ("keys", "values"))
    seen = lg.arange(4096) <= position
    return F.scaled_dot_product_attention(q, keys, values, seen)


def heads(queries: int, kept: int, features: int, dtype: lg.DType = lg.f32) -> dict[str, Any]:
    """So many heads of queries, and of keys and values."""
    q, k = (lg.spec(1, n, ROWS, features, dtype=dtype) for n in (queries, kept))
    return {"q": q, "k": k, "v": k}


def operands(rows: Any, k: int, n: int, dtype: lg.DType) -> dict[str, Any]:
    return {"x": lg.spec(rows, k, dtype=dtype), "w": lg.spec(n, k, dtype=dtype)}


PROGRAMS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "map": (gated, {n: spec(ROWS, 20) for n in "xy"}),
    "map_bf16": (gated, {n: spec(ROWS, 20, dtype=lg.bf16) for n in "xy"}),
    "channels_last": (
        lambda x: x.permute(0, 2, 3, 1),
        {"x": spec(ROWS, 24, 9, 10, dtype=lg.f16)},
    ),
    "row_sums": (lambda x: x.square().sum(-1), {"x": spec(ROWS, 40)}),
    "column_sums": (lambda x: x.square().sum(0), {"x": spec(ROWS, 40)}),
    "long_sum": (lambda x: x.sum(), {"x": spec(MANY)}),
    "softmax": (lambda x: x.softmax(-1), {"x": spec(ROWS, 40)}),
    "layer_norm": (
        lambda x: F.layer_norm(x, (40,), weight(40), weight(40, name="b")),
        {"x": spec(ROWS, 40)},
    ),
    "gather": (lambda x, ids: x[ids] * 2, {"x": spec(50, 8), "ids": ids(49)}),
    "scatter_add": (scatter_add, {"x": spec(ROWS, 8), "ids": ids(19)}),
    "neighbours": (
        neighbours,
        {"x": spec(20, 8), "i": spec(ROWS, dtype=lg.i64), "j": spec(ROWS, dtype=lg.i64)},
    ),
    "add_singles": (
        add_singles,
        {"x": spec(2, 700), "i": spec(2, 900, dtype=lg.i64), "v": spec(2, 900)},
    ),
    "cumsum": (lambda x: x.cumsum(1), {"x": spec(ROWS, 12)}),
    "cumsum_long": (lambda x: x.cumsum(1), {"x": spec(ROWS, 4096)}),
    "recurrent": (recurrent, {"x": spec(ROWS, 12)}),
    "sort": (lambda x: x.sort(-1)[0], {"x": spec(ROWS, 40)}),
    "sort_long": (lambda x: x.argsort(-1), {"x": spec(2, 70000, dtype=lg.bf16)}),
    "scatter_add_long": (
        lambda x, ids, y: x.index_add(0, ids, y),
        {"x": spec(50000, 8), "ids": spec(70000, dtype=lg.i64), "y": spec(70000, 8)},
    ),
    "counts_long": (lambda x: x.histc(100, 0, 1), {"x": spec(70000)}),
    "top_k": (lambda x: x.topk(3)[1], {"x": spec(ROWS, 40)}),
    "linear_gelu": (linear_gelu, {"x": spec(ROWS, 24)}),
    "linear_of_one_row": (linear_gelu, {"x": spec(1, 24)}),
    "linear_bf16": (lambda x: x @ weight(64, 40, dtype=lg.bf16), {"x": spec(ROWS, 64, dtype=lg.bf16)}),
    "product": (lambda x, w: (x @ w.T).relu(), operands(ROWS, 24, 40, lg.f32)),
    "product_f16": (lambda x, w: (x @ w.T).relu(), operands(ROWS, 64, 72, lg.f16)),
    "product_deep": (lambda x, w: (x @ w.T).relu(), operands(FEW, 2048, 72, lg.bf16)),
    "gate_and_up": (gate_and_up, {"x": spec(ROWS, 24)}),
    "side_by_side": (side_by_side, {"x": spec(ROWS, 24)}),
    "normed": (normed, {"x": spec(ROWS, 24)}),
    "feed_forward": (feed_forward, {"x": spec(ROWS, 24)}),
    "convolution": (convolution, {"x": spec(1, 4, 12, 12)}),
    "convolution_f16": (channels_last, {"x": spec(ROWS, 28, 28, 64, dtype=lg.f16)}),
    "depthwise": (depthwise, {"x": spec(1, 8, 12, 12)}),
    "depthwise_f16": (depthwise_last, {"x": spec(32, 56, 50, 64, dtype=lg.f16)}),
    "labels": (
        lambda x, y: F.cross_entropy(x @ weight(500, 24).T, y, reduction="none"),
        {"x": spec(MANY, 24), "y": spec(MANY, dtype=lg.i64)},
    ),
    "scores": (
        lambda q, k: (q @ k.mT * 0.25).logsumexp(-1),
        {"q": spec(MANY, 24), "k": spec(500, 24)},
    ),
    "weighted": (
        lambda x: (x @ weight(500, 24).T).softmax(-1) @ weight(500, 40, name="v"),
        {"x": spec(MANY, 24)},
    ),
    "causal": (causal, heads(2, 2, 16)),
    "causal_f16": (causal, heads(2, 2, 64, lg.f16)),
    "grouped": (causal, heads(4, 2, 16)),
    "grouped_bf16": (causal, heads(4, 2, 64, lg.bf16)),
    "log_sum_exp": (with_log_sum_exp, {n: spec(ROWS, 16) for n in "qkv"}),
    "log_sum_exp_f16": (with_log_sum_exp, {n: spec(ROWS, 64, dtype=lg.f16) for n in "qkv"}),
    "one_token": (
        one_token,
        {**{n: spec(2, 16) for n in "qkv"}, "position": lg.spec(dtype=lg.i64, range=(0, 63))},
    ),
    "one_token_of_many": (
        one_token_of_many,
        {
            "q": spec(2, 4, 64, dtype=lg.bf16),
            "position": lg.spec(dtype=lg.i64, range=(0, 4095)),
        },
    ),
}  # fmt: skip


class Row(NamedTuple):
    """A kernel: that number `at` of a skeleton's, among those of a program for a target."""

    program: str
    target: str
    skeleton: str
    at: int = 0
    held: lg.DType = lg.f32  # what memory holds of f32


AMPERE, HOPPER = "cuda:sm_80", "cuda:sm_80,sm_90a"
KERNELS = {
    "map.cpp": Row("map", "cpu", "simt"),
    "map_bf16.cpp": Row("map_bf16", "cpu", "simt"),
    "row_sums.cpp": Row("row_sums", "cpu", "simt"),
    "column_sums.cpp": Row("column_sums", "cpu", "simt"),
    "long_sum_of_parts.cpp": Row("long_sum", "cpu", "simt"),
    "long_sum_of_sums.cpp": Row("long_sum", "cpu", "simt", 1),
    "softmax.cpp": Row("softmax", "cpu", "simt"),
    "layer_norm.cpp": Row("layer_norm", "cpu", "simt"),
    "gather.cpp": Row("gather", "cpu", "simt"),
    "scatter_groups.cpp": Row("scatter_add", "cpu", "groups"),
    "scatter_add.cpp": Row("scatter_add", "cpu", "simt"),
    "scatter_sums.cpp": Row("add_singles", "cpu", "groups"),
    "cumsum.cpp": Row("cumsum", "cpu", "simt"),
    "cumsum_long.cpp": Row("cumsum_long", "cpu", "simt"),
    "recurrent.cpp": Row("recurrent", "cpu", "simt", 1),
    "sort.cpp": Row("sort", "cpu", "order"),
    "sort_values.cpp": Row("sort", "cpu", "simt"),
    "top_k.cpp": Row("top_k", "cpu", "order"),
    "panel.cpp": Row("linear_gelu", "cpu", "panel"),
    "panel_of_one_row.cpp": Row("linear_of_one_row", "cpu", "panel"),
    "panel_bf16.cpp": Row("linear_bf16", "cpu", "panel"),
    "panel_of_two_inputs.cpp": Row("product", "cpu", "panel"),
    "panel_of_two_products.cpp": Row("gate_and_up", "cpu", "panel"),
    "panel_of_two_grids.cpp": Row("side_by_side", "cpu", "panel"),
    "panel_of_normed_rows.cpp": Row("normed", "cpu", "panel"),
    "chain.cpp": Row("feed_forward", "cpu", "panel"),
    "chain_bf16.cpp": Row("feed_forward", "cpu", "panel", held=lg.bf16),
    "convolution.cpp": Row("convolution", "cpu", "panel"),
    "depthwise.cpp": Row("depthwise", "cpu", "sliding"),
    "row_fold_labels.cpp": Row("labels", "cpu", "cascade"),
    "row_fold_of_inputs.cpp": Row("scores", "cpu", "cascade"),
    "row_fold_weighted.cpp": Row("weighted", "cpu", "cascade"),
    "cascade_causal.cpp": Row("causal", "cpu", "cascade"),
    "cascade_grouped.cpp": Row("grouped", "cpu", "cascade"),
    "cascade_bf16.cpp": Row("causal", "cpu", "cascade", held=lg.bf16),
    "cascade_log_sum_exp.cpp": Row("log_sum_exp", "cpu", "cascade"),
    "cascade_row.cpp": Row("one_token", "cpu", "cascade"),
    "map.cu": Row("map", AMPERE, "simt"),
    "map_bf16.cu": Row("map_bf16", AMPERE, "simt"),
    "channels_last.cu": Row("channels_last", AMPERE, "transposed"),
    "row_sums.cu": Row("row_sums", AMPERE, "simt"),
    "column_sums.cu": Row("column_sums", AMPERE, "simt"),
    "long_sum.cu": Row("long_sum", AMPERE, "simt"),
    "softmax.cu": Row("softmax", AMPERE, "simt"),
    "layer_norm.cu": Row("layer_norm", AMPERE, "simt"),
    "gather.cu": Row("gather", AMPERE, "simt"),
    "scatter_groups.cu": Row("scatter_add", AMPERE, "groups"),
    "scatter_groups_long.cu": Row("scatter_add_long", AMPERE, "groups"),
    "counts_long.cu": Row("counts_long", AMPERE, "groups"),
    "sort_long.cu": Row("sort_long", AMPERE, "order"),
    "scatter_add.cu": Row("scatter_add", AMPERE, "simt"),
    "neighbours.cu": Row("neighbours", AMPERE, "simt"),
    "scatter_sums.cu": Row("add_singles", AMPERE, "groups"),
    "cumsum.cu": Row("cumsum", AMPERE, "simt"),
    "cumsum_long.cu": Row("cumsum_long", AMPERE, "simt"),
    "recurrent.cu": Row("recurrent", AMPERE, "simt", 1),
    "sort.cu": Row("sort", AMPERE, "order"),
    "top_k.cu": Row("top_k", AMPERE, "order"),
    "row_of_weights.cu": Row("linear_of_one_row", AMPERE, "simt"),
    "pipeline_f32.cu": Row("linear_gelu", AMPERE, "pipeline"),
    "pipeline_f16.cu": Row("product_f16", AMPERE, "pipeline"),
    "pipeline_in_parts.cu": Row("product_deep", AMPERE, "pipeline"),
    "convolution.cu": Row("convolution", AMPERE, "pipeline"),
    "convolution_f16.cu": Row("convolution_f16", AMPERE, "pipeline"),
    "depthwise.cu": Row("depthwise", AMPERE, "simt"),
    "depthwise_in_strips.cu": Row("depthwise_f16", AMPERE, "simt"),
    "stream_feed_forward.cu": Row("feed_forward", AMPERE, "cascade"),
    "stream_f16.cu": Row("causal_f16", AMPERE, "cascade"),
    "stream_grouped_bf16.cu": Row("grouped_bf16", AMPERE, "cascade"),
    "stream_log_sum_exp_f16.cu": Row("log_sum_exp_f16", AMPERE, "cascade"),
    "stream_one_token.cu": Row("one_token", AMPERE, "cascade"),
    "stream_parts.cu": Row("one_token_of_many", AMPERE, "cascade"),
    "stream_merge.cu": Row("one_token_of_many", AMPERE, "simt"),
    "roles_f16.cu": Row("product_f16", HOPPER, "roles", 1),
    "roles_few_rows.cu": Row("product_f16", HOPPER, "roles"),
    "roles_split.cu": Row("product_deep", HOPPER, "roles", 1),
    "roles_windows_f16.cu": Row("convolution_f16", HOPPER, "roles", 1),
    "cascade_roles_f16.cu": Row("causal_f16", HOPPER, "cascade_roles"),
    "cascade_roles_grouped_bf16.cu": Row("grouped_bf16", HOPPER, "cascade_roles"),
    "cascade_roles_log_sum_exp_f16.cu": Row("log_sum_exp_f16", HOPPER, "cascade_roles"),
    "map.metal": Row("map", "metal", "simt"),
    "softmax.metal": Row("softmax", "metal", "simt"),
    "scatter_groups.metal": Row("scatter_add", "metal", "groups"),
    "recurrent.metal": Row("recurrent", "metal", "simt", 1),
    "cumsum_long.metal": Row("cumsum_long", "metal", "simt"),
    "sort.metal": Row("sort", "metal", "order"),
    "row_of_weights.metal": Row("linear_of_one_row", "metal", "simt"),
    "pipeline_f32.metal": Row("linear_gelu", "metal", "pipeline"),
    "pipeline_f16.metal": Row("product_f16", "metal", "pipeline"),
    "pipeline_in_parts.metal": Row("product_deep", "metal", "pipeline"),
    "parts_added.metal": Row("product_deep", "metal", "simt"),
    "convolution.metal": Row("convolution", "metal", "pipeline"),
    "stream_causal.metal": Row("causal", "metal", "cascade"),
    "stream_grouped_bf16.metal": Row("grouped_bf16", "metal", "cascade"),
    "stream_parts.metal": Row("one_token_of_many", "metal", "cascade"),
    "stream_merge.metal": Row("one_token_of_many", "metal", "simt"),
    "fold_of_labels.metal": Row("labels", "metal", "block_fold"),
    "fold_of_scores.metal": Row("scores", "metal", "block_fold"),
}


@pytest.mark.parametrize("name", KERNELS)
def test_the_text_of_a_kernel(name: str, golden: Callable[[str, str], None]) -> None:
    row = KERNELS[name]
    function, inputs = PROGRAMS[row.program]
    target = parse_target(row.target)
    entries = (("entry", traced(function, **inputs)),)
    model = Traced("written", "0", entries, ())
    lowered = lower_model(model, {}, target=target, dtype=row.held).lowered
    kernel = [k for k in lowered.kernels if k.program.skeleton == row.skeleton][row.at]
    launched = "".join(f"// {line}\n" for line in launches(lowered, kernel.name))
    golden(f"kernels/{name}", f"{launched}{body(kernel, target).rstrip()}\n")


def test_every_golden_is_compared() -> None:
    assert {p.name for p in GOLDENS.iterdir()} == set(KERNELS)


def body(kernel: LoweredKernel, target: Target) -> str:
    spell = TARGETS[target.name].spell
    return spell(kernel.name, kernel.program, kernel.parameters, ORIGIN).body


def launches(model: LoweredModel, kernel: str) -> Iterator[str]:
    """The lines of the program that run the kernel, each below its guard or its loop."""
    above = ""
    for line in "".join(map(show, model.programs)).splitlines():
        said = line.split("  # ")[0]
        if said.lstrip().startswith(f"run {kernel}("):
            if said.startswith(" "):
                yield above
            yield said
        elif not said.startswith(" "):
            above = said
