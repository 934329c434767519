"""Weights in blocks: what they stand for, what is lost, what stays as it is, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind
from tiles import run_entry

import lumigen as lg
from lumigen import fast_lane, nn
from lumigen.emit.text_program import weights_line
from lumigen.errors import BadArgument, BadWeightsFile, UnknownWeight
from lumigen.interp.graph import evaluate
from lumigen.pipeline import lower_model
from lumigen.quantise import Format, bits_of, encoded, format_of, quantised
from lumigen.target import parse_target
from lumigen.weights.blocks import ELEMENTS, dequantised

Array = np.ndarray[Any, Any]
BLOCK = 32
# error of a matrix of N(0, 1), by norm
LARGEST = {
    "q8": 0.007, "q4": 0.09, "q6": 0.022, "q5": 0.044, "q3": 0.2, "q2": 0.42, "q4a": 0.08,
    "q5a-32": 0.039, "q8a": 0.006, "q4-row": 0.13,
}  # fmt: skip
COMPILED = ("q8", "q4", "q5a-32")


class Turned(nn.Module):
    """A product whose columns the rows of the weight are, as those of GPT-2."""

    def __init__(self) -> None:
        self.weight = nn.Parameter(32, 96)

    def forward(self, x: lg.Tensor) -> lg.Tensor:
        return x @ self.weight


class Net(nn.Module):
    """An embedding, a gate over products, and a convolution whose rows are no blocks."""

    def __init__(self) -> None:
        self.table = nn.Embedding(40, 64)
        self.up = nn.Linear(64, 96)
        self.head = nn.Linear(96, 40, bias=False)
        self.conv = nn.Conv1d(3, 4, 3)

    def forward(self, ids: lg.Tensor, signal: lg.Tensor) -> tuple[lg.Tensor, lg.Tensor]:
        return self.head(self.up(self.table(ids)).tanh()), self.conv(signal)


def traced() -> lg.Traced:
    net = Net()
    model = lg.Model("blocks", net)

    @model.entry(
        ids=lg.spec(lg.Dim("n", 1, 9), dtype=lg.i64, range=(0, 40)), signal=lg.spec(1, 3, 8)
    )
    def forward(ids: lg.Tensor, signal: lg.Tensor) -> dict[str, lg.Tensor]:
        logits, moved = net(ids, signal)
        return {"logits": logits, "moved": moved}

    return model.trace()


def floats(model: lg.Traced) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    return {w.name: rng.standard_normal(w.shape).astype(np.float32) for w in model.weights}


def decoded(name: str, found: Any, form: str, shape: tuple[int, ...]) -> Array:
    row = format_of(form, shape[-1])
    assert row is not None
    return row.blocks.packed(form, shape, lambda field: found[f"{name}.{field}"]).decoded()


@pytest.mark.slow
@pytest.mark.parametrize("form", LARGEST)
def test_a_model_computes_what_its_blocks_stand_for(form: str) -> None:
    model = traced()
    given = floats(model)
    found = quantised(model, given, form)
    assert found.weights is not None
    assert {e.name for e in found.errors} == {"table.weight", "up.weight", "head.weight"}
    assert all(0 < e.apart < LARGEST[form] for e in found.errors)
    assert found.weights["conv.weight"] is given["conv.weight"]
    meant = given | {
        e.name: decoded(e.name, found.weights, form, given[e.name].shape) for e in found.errors
    }
    inputs = {
        "ids": np.array([3, 39, 0], np.int64),
        "signal": np.random.default_rng(1).standard_normal((1, 3, 8)).astype(np.float32),
    }
    expected = evaluate(model.entries[0][1], inputs, meant)
    graph = found.traced.entries[0][1]
    weights = {name: found.weights[name] for name in found.weights}
    results = [evaluate(graph, inputs, weights)]
    if form in COMPILED:
        lowered = lower_model(found.traced, {}, target=parse_target("cpu")).lowered
        results += [
            run_entry(lowered, inputs, weights),
            fast_lane.load(lowered, "-O1").run("forward", inputs, weights),
        ]
    for result in results:
        for name, y in expected.items():
            np.testing.assert_allclose(result[name], y, rtol=0, atol=2e-5 * np.abs(y).max())


def wide_format(form: str) -> Format:
    """For rows of 64."""
    found = format_of(form, 64)
    assert found is not None
    return found


def q8_0(rng: np.random.Generator, blocks: int) -> Array:
    """Blocks of ggml's Q8_0, as it makes them: each has a quant of 127 in magnitude."""
    quants = rng.integers(-127, 128, (blocks, BLOCK)).astype(np.int8)
    quants[:, 5] = 127
    return np.concatenate([_scales(rng, blocks), quants.view(np.uint8)], -1)


def q4_0(rng: np.random.Generator, blocks: int) -> Array:
    """Blocks of ggml's Q4_0, as it makes them: each has a quant of 0, which stands for -8."""
    quants = rng.integers(0, 256, (blocks, BLOCK // 2)).astype(np.uint8)
    quants[:, 5] &= 0xF0
    return np.concatenate([_scales(rng, blocks), quants], -1)


def _scales(rng: np.random.Generator, blocks: int) -> Array:
    scales = (rng.standard_normal((blocks, 1)) * 0.1).astype(np.float16)
    scales[0] = 0
    return scales.view(np.uint8)


@pytest.mark.parametrize(("form", "made", "stored"), [("q8", q8_0, 8), ("q4", q4_0, 2)])
def test_blocks_of_ggml_keep_their_values(form: str, made: Any, stored: int) -> None:
    rng = np.random.default_rng(2)
    data = made(rng, 300)
    values = dequantised(data.reshape(-1), ELEMENTS[stored]).reshape(10, -1)
    packed, error = encoded("w", values, wide_format(form))
    assert error.apart == 0
    np.testing.assert_array_equal(packed.decoded(), values)


def test_what_is_kept_stays_as_it_is() -> None:
    model = traced()
    given = floats(model)
    for keep, left in (
        (["head"], {"table.weight", "up.weight"}),
        (["head", "table.weight"], {"up.weight"}),
        (["*.weight"], set[str]()),
    ):
        assert {e.name for e in quantised(model, given, "q8", keep).errors} == left


def test_what_is_refused() -> None:
    model = traced()
    given = floats(model)
    with pytest.raises(BadArgument, match="q2, q3, q4, q5, q6 or q8"):
        quantised(model, given, "q7")
    with pytest.raises(BadArgument, match="keep cannot be hea"):
        quantised(model, given, "q8", ["hea"])
    with pytest.raises(UnknownWeight, match=re.escape("up.weight")):
        quantised(model, {k: a for k, a in given.items() if k != "up.weight"}, "q8")
    for bad in (np.nan, np.inf, 1e30):
        wrong = given | {"up.weight": given["up.weight"].copy()}
        wrong["up.weight"][3, 4] = bad
        for form in ("q8", "q4", "q4a"):
            with pytest.raises(BadArgument, match=re.escape("up.weight")):
                quantised(model, wrong, form)


def test_a_block_of_zeros_is_zero() -> None:
    for form in LARGEST:
        packed, error = encoded("w", np.zeros((2, 64), np.float32), wide_format(form))
        assert error.apart == 0
        assert not packed.decoded().any()


# --- files that hold blocks -----------------------------------------------------------------------

BLOCKS = {e.name: e for e in ELEMENTS.values() if e.blocks}


def sensible(rng: np.random.Generator, name: str, rows: int, count: int) -> Array:
    """Random blocks in rows, whose scales are small numbers."""
    element = BLOCKS[name]
    data = rng.integers(0, 256, (rows * count, element.bytes), np.uint8)
    halves = {
        "Q4_1": (0, 2), "Q5_1": (0, 2), "Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2),
        "Q5_K": (0, 2), "Q6_K": (208,), "TQ1_0": (52,), "TQ2_0": (64,), "MXFP4": (),
    }  # fmt: skip
    for at in halves.get(name, (0,)):
        scales = (rng.standard_normal(len(data)) * 0.01).astype(np.float16)
        data[:, at : at + 2] = scales[:, None].view(np.uint8)
    if name == "MXFP4":
        data[:, 0] = rng.integers(118, 123, len(data))
    return data.reshape(rows, -1)


def stored(tmp_path: Path, name: str, rows: int = 24, width: int = 256) -> lg.Weights:
    """A table and a matrix in blocks of one type, and a vector of floats."""
    rng = np.random.default_rng(3)
    writer = gguf.GGUFWriter(tmp_path / "w.gguf", "none")
    for tensor in ("table.weight", "up.weight"):
        data = sensible(rng, name, rows, width // BLOCKS[name].items)
        writer.add_tensor(tensor, data, raw_dtype=Kind[name])
    writer.add_tensor("up.bias", rng.standard_normal(rows).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return lg.open_weights(tmp_path / "w.gguf")


class Tied(nn.Module):
    """Rows of a table go through a layer; the table is what scores are of as well."""

    def __init__(self) -> None:
        self.table = nn.Embedding(24, 256)
        self.up = nn.Linear(256, 24)

    def forward(self, ids: lg.Tensor) -> dict[str, lg.Tensor]:
        x = self.table(ids)
        return {"up": self.up(x), "scores": x @ self.table.weight.T}


def tied() -> lg.Traced:
    net = Tied()
    model = lg.Model("tied", net)

    @model.entry(ids=lg.spec(2, dtype=lg.i64, range=(0, 24)))
    def forward(ids: lg.Tensor) -> dict[str, lg.Tensor]:
        return net(ids)

    return model.trace()


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_of_a_file_stay_blocks(tmp_path: Path, name: str) -> None:
    """Fields in place of weights; their values are `gguf`'s bit for bit, and the model computes with them."""
    opened = stored(tmp_path, name)
    found = quantised(tied(), opened, None)
    assert isinstance(found.weights, lg.Weights)
    names = {w.name for w in found.traced.weights}
    assert {"table.weight.quants", "table.weight.scales", "up.bias"} <= names
    assert "table.weight" not in names
    read = {n: found.weights[n] for n in names}
    for w in found.traced.weights:
        assert (read[w.name].shape, read[w.name].dtype) == (w.shape, w.dtype.numpy)
    assert re.search(rf"2 in {name} \(\d\.\d\d bits, \d", bits_of(found.packed))
    bits = sum(8 * read[n].nbytes for n in names if n.startswith("up.weight")) / (24 * 256)
    element = BLOCKS[name]
    assert bits <= 8 * element.bytes / element.items + 0.6
    inputs = {"ids": np.array([5, 23], np.int64)}
    expected = evaluate(tied().entries[0][1], inputs, {n: opened[n] for n in opened})
    for field, y in evaluate(found.traced.entries[0][1], inputs, read).items():
        np.testing.assert_allclose(y, expected[field], rtol=0, atol=1e-5 * np.abs(y).max())


@pytest.mark.parametrize("form", ["Q8_0", "Q4_K"])
def test_a_tied_head_shares_the_bytes(tmp_path: Path, form: str) -> None:
    """The table lies in memory once, as the file has it: rows of it are gathered, and scores are products with it."""
    found = quantised(tied(), stored(tmp_path, form), None)
    model = lower_model(found.traced, {}).model
    held = [s for s in model.weights if s.weight.name.startswith("table.")]
    assert len(held) == len({s.weight.name for s in held})
    assert all(s.layout is None and not s.weight.made for s in held)
    bits = found.packed["table.weight"].bits
    assert sum(s.bytes for s in held) == bits // 8
    assert f"2 in {form}" in weights_line(model)


@pytest.mark.parametrize(
    ("form", "dtype", "error"), [("Q8_0", lg.f32, 1e-5), ("Q4_0", lg.bf16, 1e-2)]
)
def test_products_of_a_normed_row(tmp_path: Path, form: str, dtype: lg.DType, error: float) -> None:
    """The sum of squares, which all rows of a matrix in blocks need, is computed before them."""
    opened = stored(tmp_path, form)
    up = nn.Linear(256, 24)
    model = lg.Model("normed", {"up": up})

    @model.entry(x=lg.spec(1, 256))
    def forward(x: lg.Tensor) -> lg.Tensor:
        return up(x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt())

    found = quantised(model.trace(), opened, None)
    assert found.weights is not None
    lowered = lower_model(found.traced, {}, target=parse_target("cpu"), dtype=dtype).lowered
    x = np.random.default_rng(1).standard_normal((1, 256)).astype(np.float32)
    weights = {w.name: found.weights[w.name] for w in found.traced.weights}
    (y,) = run_entry(lowered, {"x": x.astype(dtype.numpy)}, weights).values()
    expected = x / np.sqrt(np.square(x).mean() + 1e-5) @ opened["up.weight"].T + opened["up.bias"]
    np.testing.assert_allclose(y, expected, rtol=0, atol=error * np.abs(expected).max())


def test_scales_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    data = sensible(rng, "Q4_K", 24, 1)
    data[5, 2:4] = np.array([np.nan], np.float16).view(np.uint8)
    writer = gguf.GGUFWriter(tmp_path / "w.gguf", "none")
    writer.add_tensor("up.weight", data, raw_dtype=Kind.Q4_K)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    weights = lg.open_weights(tmp_path / "w.gguf")
    packed = weights.packed("up.weight")
    assert packed is not None
    with pytest.raises(BadWeightsFile, match=r"up.weight.minima\[5, 0\] is nan, no finite number"):
        weights.in_fields({"up.weight": packed})["up.weight.minima"]


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPILED)
def test_columns_of_blocks_that_lie_in_rows_are_multiplied(name: str) -> None:
    """Which bits of a byte a column has is then the same in all lanes of a vector."""
    net = Turned()
    model = lg.Model("turned", net)

    @model.entry(x=lg.spec(lg.Dim("rows", 1, 48), 32))
    def one(x: lg.Tensor) -> lg.Tensor:
        return net(x)

    rng = np.random.default_rng(0)
    traced = model.trace()
    found = quantised(traced, {"weight": rng.standard_normal((32, 96)).astype(np.float32)}, name)
    assert found.weights is not None
    weights = {w.name: found.weights[w.name] for w in found.traced.weights}
    inputs = {"x": rng.standard_normal((45, 32)).astype(np.float32)}
    exact = evaluate(found.traced.entries[0][1], inputs, weights)["out"]
    lowered = lower_model(found.traced, {}).lowered
    out = fast_lane.load(lowered, "-O1").run("one", inputs, weights)["out"]
    assert np.linalg.norm(out - exact) < 1e-6 * np.linalg.norm(exact)
