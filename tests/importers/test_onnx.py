"""ONNX models as models of lumigen: names, sizes, what is known while importing, control flow, weights, operators."""

from __future__ import annotations

import importlib.util
import random
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx_models import classifier, expected, model, node, run
from programs import of_a_program

import lumigen as lg
from lumigen.errors import UnsupportedNode
from lumigen.forms import text_after
from lumigen.importers.onnx.operators import ROWS
from lumigen.importers.onnx.ports import identifier
from lumigen.ops import Op

ROOT = Path(__file__).parent.parent.parent
F = np.float32


def same(proto, arrays, dims=None, **tolerance) -> None:
    found, wanted = run(proto, arrays, dims), expected(proto, arrays)
    for name, want in wanted.items():
        got = found[identifier(name, ())]
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, **{"rtol": 1e-5, "atol": 1e-6, **tolerance})


# --- names, sizes and weights ---------------------------------------------------------------------


def test_a_classifier_is_what_its_reference_says(rng) -> None:
    proto = classifier(rng)
    for batch in (1, 3, 8):
        image = rng.standard_normal((batch, 1, 8, 8)).astype(F)
        found = run(proto, {"image_1": image}, {"batch": (1, 8)})
        np.testing.assert_allclose(
            found["probs"], expected(proto, {"image.1": image})["probs"], atol=1e-6
        )


def test_ports_and_weights_keep_their_names(rng) -> None:
    made = lg.from_onnx(classifier(rng), dims={"batch": (1, 8)})
    ((entry, graph),) = made.trace().entries
    assert entry == "forward"
    assert [w.name for w in made.trace().weights] == [
        "conv.bias",
        "conv.weight",
        "fc.bias",
        "fc.weight",
    ]
    assert [(d.name, d.lo, d.hi) for d in graph.dims()] == [("batch", 1, 8)]
    assert [name for name, _ in graph.outputs] == ["probs"]


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("x", "x"),
        ("image.1", "image_1"),
        ("1", "t_1"),
        ("double", "t_double"),
        ("out", "t_out"),
        ("", "t_"),
    ],
)
def test_names_become_identifiers(name: str, ours: str) -> None:
    assert identifier(name, ()) == ours
    assert identifier(name, (ours,)) == f"{ours}_2"


def test_a_size_may_be_arithmetic_of_others() -> None:
    """As exporters write the length of a mask over a cache; what names no other sizes is a name."""
    ports = {
        "x": (F, ["time", 2]),
        "past": (F, ["past_time", 2]),
        "m": (F, ["past_time + time", 1]),
    }
    proto = model([node("Concat", "past x", "all", axis=0), node("Mul", "all m", "y")], ports)
    made = lg.from_onnx(proto, dims={"time": (1, 4), "past_time": (1, 8)})
    ((_, graph),) = made.trace().entries
    assert [str(e) for e in graph.inputs[2].shape] == ["past_time + time", "1"]
    arrays = {
        "x": np.ones((2, 2), F),
        "past": np.ones((3, 2), F),
        "m": np.arange(5, dtype=F)[:, None],
    }
    found = run(proto, arrays, {"time": (1, 4), "past_time": (1, 8)})
    np.testing.assert_array_equal(found["y"], np.arange(5)[:, None] * np.ones((5, 2)))
    proto = model([node("Neg", "x", "y")], {"x": (F, ["batch-size"])})
    ((_, graph),) = lg.from_onnx(proto, dims={"batch-size": (1, 4)}).trace().entries
    assert [d.name for d in graph.dims()] == ["batch_size"]


def test_two_names_may_be_one_size() -> None:
    """As exporters name the batch of an input and of a state apart."""
    ports = {"x": (F, ["rows", 2]), "h": (F, ["more", 2]), "c": (F, ["last", 2])}
    proto = model([node("Add", "x h", "s"), node("Mul", "s c", "y")], ports)
    for given in ({"rows": (1, 4), "more": "rows"}, {"more": (1, 4), "rows": "more"}):
        ((_, graph),) = lg.from_onnx(proto, {**given, "last": "more"}).trace().entries
        assert len(graph.dims()) == 1
    for given, says in (
        ({"rows": "more", "more": "rows"}, "'rows', in a circle"),
        ({"rows": "rows"}, "'rows', in a circle"),
        ({"rows": "columns"}, "another size of the model: more, last"),
        ({"rows": (1, 2, 3, 4)}, r"dim rows cannot be \(1, 2, 3, 4\)"),
        ({"rows": (1, 2, 3)}, "a multiple of 3"),
        ({"rows": ("1", 4)}, "lo of rows cannot be '1'"),
    ):
        with pytest.raises(lg.UserError, match=says):
            lg.from_onnx(proto, {"rows": 2, "more": 2, "last": 2, **given})


def test_a_number_fixes_a_size(rng) -> None:
    made = lg.from_onnx(classifier(rng), dims={"batch": 4})
    ((_, graph),) = made.trace().entries
    assert not graph.dims()


def test_shapes_are_computed_while_importing(rng) -> None:
    """Nothing of Shape, Gather, Unsqueeze and Concat is left."""
    made = lg.from_onnx(classifier(rng), dims={"batch": (1, 8)})
    ((_, graph),) = made.trace().entries
    assert all(n.op is not Op.IOTA and not n.dtype.is_int for n in graph.nodes())


def test_sizes_keep_their_integer_type(rng) -> None:
    """Some exporters compute shapes in int32, and divide: towards 0, which sizes of unknown sign are not."""
    nodes = [
        node("Shape", "x", "s"),
        node("Cast", "s", "t", to=onnx.TensorProto.INT32),
        node("Div", "t two", "h"),
        node("Slice", "h zero one", "half"),
        node("Cast", "half", "wide", to=onnx.TensorProto.INT64),
        node("Concat", "wide rest", "shape", axis=0),
        node("Reshape", "x shape", "y"),
    ]
    initial = {
        "two": np.array(2, np.int32),
        "zero": np.array([0]),
        "one": np.array([1]),
        "rest": np.array([-1]),
    }
    proto = model(nodes, {"x": (F, ["n", 6])}, "y t", initial)
    x = rng.standard_normal((4, 6)).astype(F)
    found = run(proto, {"x": x}, {"n": 4})
    assert found["y"].shape == (2, 12)
    proto.graph.node[2].input[1] = "one_of_two"
    proto.graph.initializer.append(numpy_helper.from_array(np.array(1, np.int32), "one_of_two"))
    found = run(proto, {"x": x}, {"n": (1, 8)})
    np.testing.assert_array_equal(found["y"], x)
    assert found["t"].dtype == np.int32
    np.testing.assert_array_equal(found["t"], [4, 6])


def test_kernels_name_the_nodes(rng) -> None:
    traced = lg.from_onnx(classifier(rng), dims={"batch": (1, 8)}).trace()
    text = text_after(traced, "source", None, "cpu")
    assert "// the model:1 /c/Conv (Conv), 2 /r/Relu (Relu)" in text
    assert "10 /probs/Softmax (Softmax)" in text


def test_external_data_is_mapped(rng, tmp_path: Path) -> None:
    proto = classifier(rng)
    image = rng.standard_normal((2, 1, 8, 8)).astype(F)
    wanted = expected(proto, {"image.1": image})["probs"]
    file = tmp_path / "net.onnx"
    onnx.save(proto, file, save_as_external_data=True, location="net.bin", size_threshold=0)
    made = lg.from_onnx(file, dims={"batch": 2})
    assert isinstance(made.trace().weights, tuple)
    assert isinstance(made.values()["fc.weight"].base, np.memmap | np.ndarray)
    np.testing.assert_allclose(
        run(file, {"image_1": image}, {"batch": 2})["probs"], wanted, atol=1e-6
    )


def test_an_input_may_be_given() -> None:
    proto = model([node("Reshape", "x shape", "y")], {"x": (F, [2, 3]), "shape": (np.int64, [2])})
    x = np.arange(6, dtype=F).reshape(2, 3)
    found = run(proto, {"x": x}, inputs={"shape": [3, -1]})
    assert found["y"].shape == (3, 2)


# --- what decides what is run ---------------------------------------------------------------------


def subgraph(nodes, outputs: str, inputs: str = ""):
    infos = [helper.make_empty_tensor_value_info(n) for n in inputs.split()]
    return helper.make_graph(
        nodes, "inner", infos, [helper.make_empty_tensor_value_info(n) for n in outputs.split()]
    )


def test_a_branch_is_chosen_while_importing_or_both_run() -> None:
    then, other = subgraph([node("Exp", "x", "a")], "a"), subgraph([node("Neg", "x", "b")], "b")
    nodes = [node("If", "c", "y", then_branch=then, else_branch=other)]
    x = np.linspace(-1, 1, 4, dtype=F)
    proto = model(nodes, {"x": (F, [4]), "c": (np.bool_, [])})
    for c in (True, False):
        wanted = np.exp(x) if c else -x
        found = run(proto, {"x": x, "c": np.array(c)})
        np.testing.assert_allclose(found["y"], wanted, rtol=1e-6)
        found = run(proto, {"x": x}, inputs={"c": c})
        np.testing.assert_allclose(found["y"], wanted, rtol=1e-6)


def test_a_loop_is_written_out_and_stops_when_its_condition_does() -> None:
    steps = [
        node("Add", "a x", "b"),
        node("ReduceMax", "b", "m", keepdims=0),
        node("Less", "m five", "go"),
    ]
    nodes = [node("Loop", "n yes x", "last", body=subgraph(steps, "go b", "i c a"))]
    initial = {"n": np.array(9), "yes": np.array(True), "five": np.array(5, F)}
    proto = model(nodes, {"x": (F, [3])}, "last", initial)
    for scale in (0.1, 1.0, 9.0):
        same(proto, {"x": np.arange(1, 4, dtype=F) * F(scale)})


def test_a_scan_runs_over_a_symbolic_length(rng) -> None:
    body = subgraph([node("Add", "s e", "t"), node("Mul", "t e", "k")], "t k", "s e")
    nodes = [node("Scan", "zero x", "last each", num_scan_inputs=1, body=body)]
    proto = model(nodes, {"x": (F, ["n", 3])}, "last each", {"zero": np.zeros(3, F)})
    same(proto, {"x": rng.standard_normal((5, 3)).astype(F)}, {"n": (1, 16)})


def test_functions_of_the_model_are_called_with_their_attributes() -> None:
    inner = helper.make_node("LeakyRelu", ["a"], ["b"])
    alpha = inner.attribute.add()
    alpha.name, alpha.ref_attr_name, alpha.type = "alpha", "slope", onnx.AttributeProto.FLOAT
    function = helper.make_function(
        "own", "Leak", ["a"], ["b"], [inner], [helper.make_opsetid("", 17)], ["slope"]
    )
    nodes = [node("Leak", "x", "y", domain="own", slope=0.25)]
    proto = model(nodes, {"x": (F, [4])}, functions=[function])
    x = np.array([-4, -1, 0, 2], F)
    np.testing.assert_array_equal(run(proto, {"x": x})["y"], np.where(x < 0, x * F(0.25), x))


# --- operators ------------------------------------------------------------------------------------


def test_every_operator_stands_once_for_a_version() -> None:
    keys = [(row.domain, row.name, row.since) for row in ROWS]
    assert len(set(keys)) == len(keys)


def test_old_versions_mean_what_they_meant(rng) -> None:
    """Softmax took all axes from one on before version 13."""
    x = rng.standard_normal((2, 3, 4)).astype(F)
    old = model([node("Softmax", "x", "y")], {"x": (F, [2, 3, 4])}, version=11)
    flat = np.exp(x.reshape(2, 12))
    wanted = (flat / flat.sum(1, keepdims=True)).reshape(2, 3, 4)
    np.testing.assert_allclose(run(old, {"x": x})["y"], wanted, rtol=1e-5)
    same(model([node("Softmax", "x", "y")], {"x": (F, [2, 3, 4])}, version=13), {"x": x})


@pytest.mark.parametrize("scale", [0.5, 0.75, 1.5, 2.0])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_a_symbolic_size_is_resized_by_a_scale(mode: str, scale: float, rng) -> None:
    """Also where the scaled size is rounded: places follow from the scale."""
    more = {"nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
    nodes = [node("Resize", "x _ s", "y", mode=mode, **(more if mode == "nearest" else {}))]
    scales = np.array([1, 1, scale, 2], F)
    proto = model(nodes, {"x": (F, [1, 1, "h", 4])}, "y", {"s": scales})
    for height in (4, 7):
        x = rng.standard_normal((1, 1, height, 4)).astype(F)
        same(proto, {"x": x}, {"h": (4, 8)}, atol=1e-5)


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_sums_of_integers_are_exact(rng, kind) -> None:
    """Wider than f32 could be: 2000 products of 8 bits."""
    a = rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, (3, 2000), kind)
    b = rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, (2000, 2), kind)
    proto = model(
        [node("MatMulInteger", "a b", "y")], {"a": (kind, [3, 2000]), "b": (kind, [2000, 2])}
    )
    wanted = a.astype(np.int64) @ b.astype(np.int64)
    np.testing.assert_array_equal(run(proto, {"a": a, "b": b})["y"], wanted)


def test_narrow_integers_wrap_around_where_no_type_is_declared() -> None:
    nodes = [node("Add", "a a", "twice"), node("Cast", "twice", "y", to=onnx.TensorProto.INT64)]
    a = np.array([1, 40000])
    found = run(model(nodes, {"a": (np.uint16, [2])}), {"a": a.astype(np.int32)})
    np.testing.assert_array_equal(found["y"], 2 * a % 65536)


def test_narrow_integers_wrap_around() -> None:
    proto = model([node("Add", "a b", "y")], {"a": (np.uint16, [3]), "b": (np.uint16, [3])})
    proto.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.UINT16
    a, b = np.array([1, 65535, 40000]), np.array([2, 1, 40000])
    found = run(proto, {"a": a.astype(np.int32), "b": b.astype(np.int32)})
    np.testing.assert_array_equal(found["y"], (a + b) % 65536)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_run_over_a_symbolic_time(op: str, direction: str, rng) -> None:
    import torch  # noqa: PLC0415

    torch.manual_seed(0)
    gates, both = {"LSTM": 4, "GRU": 3, "RNN": 1}[op], direction == "bidirectional"
    layer = getattr(torch.nn, op)(3, 5, bidirectional=both)
    order = {"LSTM": [0, 3, 1, 2], "GRU": [1, 0, 2], "RNN": [0]}[op]

    def gathered(name: str) -> np.ndarray:
        parts = [
            getattr(layer, f"{name}_l0{s}").detach().numpy() for s in ("", "_reverse")[: 1 + both]
        ]
        return np.stack([p.reshape(gates, 5, -1)[order].reshape(gates * 5, -1) for p in parts])

    w, r = gathered("weight_ih"), gathered("weight_hh")
    b = np.concatenate([gathered("bias_ih"), gathered("bias_hh")], 1)[..., 0]
    attributes = {"linear_before_reset": 1} if op == "GRU" else {}
    nodes = [node(op, "x w r b", "y h", hidden_size=5, direction=direction, **attributes)]
    proto = model(nodes, {"x": (F, ["time", 2, 3])}, "y h", {"w": w, "r": r, "b": b})
    x = rng.standard_normal((6, 2, 3)).astype(F)
    found = run(proto, {"x": x}, {"time": (1, 8)})
    given = torch.from_numpy(x if direction != "reverse" else x[::-1].copy())
    y, h = layer(given)
    y, h = y.detach().numpy(), (h[0] if op == "LSTM" else h).detach().numpy()
    y = y[::-1] if direction == "reverse" else y
    np.testing.assert_allclose(found["y"], y.reshape(6, 2, -1, 5).transpose(0, 2, 1, 3), atol=1e-6)
    np.testing.assert_allclose(found["h"], h, atol=1e-6)


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_a_quantised_recurrent_layer_rounds_what_it_multiplies_by_its_range(kind, rng) -> None:
    """As onnxruntime on one thread; on several it takes the ranges of parts of the batch."""
    size, hidden, zero = 3, 4, 0 if kind is np.int8 else 128
    bits = np.iinfo(kind)
    w, r = (
        rng.integers(bits.min, bits.max + 1, (1, n, 4 * hidden)).astype(kind)
        for n in (size, hidden)
    )
    bias = rng.standard_normal((1, 8 * hidden)).astype(F)
    of_w, of_r = np.full(1, 0.01, F), rng.uniform(0.005, 0.01, (1, 4 * hidden)).astype(F)
    initial = {"w": w, "r": r, "b": bias, "ws": of_w, "rs": of_r}
    initial |= {"wz": np.full(1, zero, kind), "rz": np.full((1, 4 * hidden), zero, kind)}
    names = "x w r b _ _ _ _ ws wz rs rz"
    layer = node("DynamicQuantizeLSTM", names, "y h c", domain="com.microsoft", hidden_size=hidden)

    def product(a: np.ndarray, matrix: np.ndarray, by: np.ndarray) -> np.ndarray:
        low, high = min(a.min(), F(0)), max(a.max(), F(0))
        scale = (high - low) / F(255) if high > low else F(1) / F(255)
        middle = np.round(-low / scale)
        near = np.clip(np.round(a / scale) + middle, 0, 255) - middle
        return (near @ (matrix.astype(np.int32) - zero)).astype(F) * (scale * by)

    def sigmoid(a: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-a))

    x = rng.standard_normal((5, 2, size)).astype(F)
    ahead = product(x, w[0], of_w[0]) + bias[0, : 4 * hidden]
    h = c = np.zeros((2, hidden), F)
    want: list[np.ndarray] = []
    for now in ahead:
        total = now + product(h, r[0], of_r[0]) + bias[0, 4 * hidden :]
        i, o, f, g = np.split(total, 4, -1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        want.append(h)
    proto = model([layer], {"x": (F, ["time", 2, size])}, "y h c", initial)
    found = run(proto, {"x": x}, {"time": (1, 8)})
    np.testing.assert_allclose(found["y"][:, 0], want, atol=1e-6)
    np.testing.assert_allclose(found["c"][0], c, atol=1e-6)


@pytest.mark.parametrize(
    ("op", "plain", "more", "options"),
    [
        ("QLinearAveragePool", "AveragePool", "", {"kernel_shape": [3, 3], "pads": [1, 1, 0, 0]}),
        ("QLinearSoftmax", "Softmax", "", {"axis": 1, "opset": 13}),
        ("QLinearWhere", "Where", "c", {}),
    ],
)
def test_operators_of_quantised_operands_are_those_of_the_numbers_they_stand_for(
    op: str, plain: str, more: str, options: dict[str, Any], rng
) -> None:
    x, w = (rng.integers(0, 256, (1, 2, 5, 6)).astype(np.uint8) for _ in range(2))
    initial = {"s": F(0.04), "z": np.uint8(7), "t": F(0.006), "u": np.uint8(3)}
    given = {"x": x, **({"c": rng.random((5, 1)) < 0.5, "w": w} if more else {})}
    inputs = {name: (a.dtype, a.shape) for name, a in given.items()}
    operands = "c x s z w s z t u" if more else "x s z t u"
    ours = model([node(op, operands, "y", domain="com.microsoft", **options)], inputs, "y", initial)
    nodes = [
        node("DequantizeLinear", "x s z", "a"),
        *([node("DequantizeLinear", "w s z", "b")] if more else []),
        node(
            plain,
            "c a b" if more else "a",
            "f",
            **{k: v for k, v in options.items() if k != "opset"},
        ),
        node("QuantizeLinear", "f t u", "y"),
    ]
    want = expected(model(nodes, inputs, "y", initial, version=21), given)["y"]
    apart = np.abs(run(ours, given)["y"].astype(int) - want)
    assert apart.max() <= 1
    assert np.mean(apart > 0) < 0.02, "half-way cases alone"


def test_quantised_attention_is_that_of_the_numbers_it_stands_for(rng) -> None:
    x, w = (rng.integers(0, 256, s).astype(np.uint8) for s in ((2, 5, 8), (8, 24)))
    mask, bias = np.array([[1, 1, 1, 0, 0], [1] * 5], np.int32), rng.standard_normal(24).astype(F)
    initial = {"w": w, "b": bias, "s": F(0.01), "z": np.uint8(120)}
    options = {"domain": "com.microsoft", "num_heads": 2, "unidirectional": 1}
    inputs = {"x": (np.uint8, x.shape), "m": (np.int32, mask.shape)}
    ours = model([node("QAttention", "x w b s s m z z", "y", **options)], inputs, "y", initial)
    real = {name: (a.astype(F) - 120) * F(0.01) for name, a in (("x", x), ("w", w))}
    plain = node("Attention", "x w b m", "y", **options)
    floats = model([plain], {**inputs, "x": (F, x.shape)}, "y", {"w": real["w"], "b": bias})
    want = run(floats, {"x": real["x"], "m": mask})["y"]
    np.testing.assert_allclose(run(ours, {"x": x, "m": mask})["y"], want, atol=1e-5)


def test_operators_of_onnxruntime_are_compositions(rng) -> None:
    """SkipLayerNormalization with its sum, and Attention with a mask of lengths."""
    x, skip, gamma, beta = (rng.standard_normal(s).astype(F) for s in ((2, 3, 8), (2, 3, 8), 8, 8))
    nodes = [
        node(
            "SkipLayerNormalization",
            "x skip g b",
            "y _ _ sum",
            domain="com.microsoft",
            epsilon=1e-5,
        )
    ]
    nodes[0].output[1] = nodes[0].output[2] = ""
    ports = {"x": (F, [2, 3, 8]), "skip": (F, [2, 3, 8])}
    found = run(model(nodes, ports, "y sum", {"g": gamma, "b": beta}), {"x": x, "skip": skip})
    total = x + skip
    apart = total - total.mean(-1, keepdims=True)
    wanted = apart / np.sqrt(total.var(-1, keepdims=True) + 1e-5) * gamma + beta
    np.testing.assert_allclose(found["y"], wanted, atol=1e-5)
    np.testing.assert_array_equal(found["sum"], total)

    w, bias = rng.standard_normal((8, 24)).astype(F), rng.standard_normal(24).astype(F)
    nodes = [node("Attention", "x w b m", "y", domain="com.microsoft", num_heads=2)]
    initial = {"w": w, "b": bias, "m": np.array([2, 3], np.int32)}
    found = run(model(nodes, {"x": (F, [2, 3, 8])}, "y", initial), {"x": x})
    q, k, v = (
        (x @ w + bias)[..., i * 8 : i * 8 + 8].reshape(2, 3, 2, 4).transpose(0, 2, 1, 3)
        for i in range(3)
    )
    scores = q @ k.transpose(0, 1, 3, 2) / 2
    scores[0, :, :, 2] = -np.inf
    p = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = (p / p.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3).reshape(2, 3, 8)
    np.testing.assert_allclose(found["y"], wanted, atol=1e-5)


def sweep():
    spec = importlib.util.spec_from_file_location("onnx_nodes", ROOT / "tests/sweeps/onnx_nodes.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look it up
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_a_sample_of_the_node_tests() -> None:
    """What the table in docs/onnx.md says of all of them holds of some, others after each commit."""
    nodes = sweep()
    command = ["git", "rev-parse", "HEAD"]
    seed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    small = [c for c in nodes.model_cases() if c.kind != "real"]
    chance = random.Random(seed)
    sample = [*chance.sample(nodes.cases(), 200), *chance.sample(small, 30)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [nodes.judged(case) for case in sample]
    assert not [f for f in found if f.how in ("wrong", "broken")], seed
    assert sum(f.how == "passed" for f in found) >= 205, seed


@pytest.mark.slow
def test_a_model_is_compiled_as_a_project(rng, tmp_path: Path) -> None:
    proto = classifier(rng)
    module = lg.compile(
        lg.from_onnx(proto, dims={"batch": (1, 8)}), output=tmp_path / "net", isa="native"
    )
    context = module.Model().context()
    for batch in (1, 5):
        image = rng.standard_normal((batch, 1, 8, 8)).astype(F)
        wanted = expected(proto, {"image.1": image})["probs"]
        np.testing.assert_allclose(context.forward(image), wanted, atol=1e-6)
    of_program = of_a_program(tmp_path / "net", module.__name__, image, wanted.shape)
    np.testing.assert_allclose(of_program, wanted, atol=1e-6)
    assert numpy_helper.to_array(proto.graph.initializer[0]).shape == (4, 1, 3, 3)


# --- what is easily missed --------------------------------------------------------------------------


@pytest.mark.parametrize("exponent", [[2.0, 2.0, 2.0], [[2.0]], 2.0, np.inf, -np.inf, np.nan, -0.5])
def test_a_known_exponent_keeps_its_axes(exponent) -> None:
    e = np.asarray(exponent, F)
    proto = model([node("Pow", "x e", "y")], {"x": (F, [1])}, initial={"e": e})
    for x in (0.5, 1.5, 3.0):
        same(proto, {"x": np.asarray([x], F)})


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
@pytest.mark.parametrize("pads", [[2, 1, 0, 0], [2, 0, 0, 0], [0, 1, 2, 0], [0, 0, 1, 2]])
def test_an_axis_may_be_padded_at_one_end(mode: str, pads: list[int]) -> None:
    p = np.asarray(pads, np.int64)
    proto = model([node("Pad", "x p", "y", mode=mode)], {"x": (F, [4, 3])}, initial={"p": p})
    same(proto, {"x": np.arange(12, dtype=F).reshape(4, 3)})


@pytest.mark.parametrize("kind", [np.int16, np.uint16, np.uint32])
@pytest.mark.parametrize("reduction", ["add", "mul"])
def test_scattered_integers_wrap_around(kind, reduction: str) -> None:
    most = np.iinfo(kind).max
    at = np.asarray([0, 0, 1], np.int64)
    nodes = [node("ScatterElements", "x at u", "y", axis=0, reduction=reduction)]
    ports = {"x": (kind, [3]), "u": (kind, [3])}
    proto = model(nodes, ports, initial={"at": at})
    x, u = np.asarray([most, 1, 2], kind), np.asarray([most, 2, 3], kind)
    want = x.copy()
    with np.errstate(over="ignore"):
        (np.add if reduction == "add" else np.multiply).at(want, [0, 0, 1], u)
    wide = np.int64 if kind is np.uint32 else np.int32  # what ports of these types are
    found = run(proto, {"x": x.astype(wide), "u": u.astype(wide)})["y"]
    np.testing.assert_array_equal(found, want)


def test_zeros_are_quantised_by_a_range_of_their_own() -> None:
    proto = model([node("DynamicQuantizeLinear", "x", "y s z")], {"x": (F, [4])}, "y s z")
    for x in (np.zeros(4, F), np.array([0, -1, 2.2, 3], F), np.full(4, -5, F)):
        same(proto, {"x": x})


@pytest.mark.parametrize(("alpha", "beta"), [(0.5, 0.5), (1.0, 0.25), (2.0, 3.0), (-1.5, 0.0)])
def test_a_product_of_integers_is_cut_off_once(alpha: float, beta: float) -> None:
    a, c = np.array([[1, 2], [3, 5]], np.int32), np.array([[1, 1], [3, 2**29 + 1]], np.int32)
    ports = {"a": (np.int32, [2, 2]), "c": (np.int32, [2, 2])}
    proto = model([node("Gemm", "a a c", "y", alpha=alpha, beta=beta)], ports)
    wanted = np.trunc(alpha * (a @ a).astype(np.float64) + beta * c).astype(np.int32)
    np.testing.assert_array_equal(run(proto, {"a": a, "c": c})["y"], wanted)


SIZES = {
    "half": ("Div two", "Floor"),
    "up": ("Div two", "Ceil"),
    "scaled": ("Mul some", "Floor"),
    "padded": ("Add some", "Ceil"),
    "fewer": ("Sub some", "Cast"),
    "below": ("Sub many", "Cast"),
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_may_be_computed_as_floats(name: str) -> None:
    """As `int(x.shape[0] / 2)` is exported: cast, divide, round, cast again."""
    first, rounding = SIZES[name]
    op, number = first.split()
    nodes = [
        node("Shape", "x", "s"),
        node("Cast", "s", "f", to=onnx.TensorProto.FLOAT),
        node(op, f"f {number}", "g"),
        node("Identity" if rounding == "Cast" else rounding, "g", "h"),
        node("Cast", "h", "n", to=onnx.TensorProto.INT64),
        node("ConstantOfShape", "n", "ones"),
        node("Shape", "ones", "y"),
    ]
    initial = {"two": np.array([2], F), "some": np.array([0.75], F), "many": np.array([40.5], F)}
    nodes, outputs = (nodes[:5], "n") if name == "below" else (nodes, "y n")
    proto = model(nodes, {"x": (F, ["n"])}, outputs, initial)
    for size in (3, 4, 7, 12):
        same(proto, {"x": np.zeros(size, F)}, {"n": (3, 12)})


def test_floats_of_sizes_are_numbers_of_kernels_too() -> None:
    nodes = [
        node("Shape", "x", "s"),
        node("Cast", "s", "f", to=onnx.TensorProto.FLOAT),
        node("Div", "f three", "g"),
        node("Mul", "x g", "y"),
    ]
    proto = model(nodes, {"x": (F, ["n"])}, "y", {"three": np.array([3], F)})
    same(proto, {"x": np.arange(5, dtype=F)}, {"n": (2, 8)})


def test_negative_quotients_of_sizes_are_values() -> None:
    """Towards 0, and below."""
    nodes = [
        node("Shape", "x", "s"),
        node("Sub", "s nine", "d"),
        node("Div", "d two", "q"),
        node("Mod", "d two", "r"),
    ]
    initial = {"nine": np.array([9]), "two": np.array([2])}
    proto = model(nodes, {"x": (F, ["n"])}, "q r", initial)
    for size in (2, 5, 8):
        same(proto, {"x": np.zeros(size, F)}, {"n": (2, 8)})


@pytest.mark.parametrize("op", ["Add", "Mul", "Sub", "Neg", "Sum"])
def test_integers_need_no_declared_type(op: str) -> None:
    operands = "a" if op == "Neg" else "a a"
    proto = model([node(op, operands, "b"), node("Abs", "b", "y")], {"a": (np.int32, [3])})
    a = np.array([1, -5, 2**31 - 1], np.int32)
    with np.errstate(over="ignore"):
        same(proto, {"a": a})


def test_narrow_integers_wrap_around_inside_functions_and_branches() -> None:
    nodes = [helper.make_node("Add", ["a", "a"], ["t"]), helper.make_node("Identity", ["t"], ["b"])]
    function = helper.make_function(
        "own", "Twice", ["a"], ["b"], nodes, [helper.make_opsetid("", 17)]
    )
    branch = subgraph([node("Mul", "x x", "c")], "c")
    proto = model(
        [
            node("Twice", "x", "b", domain="own"),
            node("Cast", "b", "y", to=onnx.TensorProto.INT64),
            node("If", "yes", "z", then_branch=branch, else_branch=branch),
        ],
        {"x": (np.int16, [2]), "yes": (np.bool_, [])},
        "y z",
        functions=[function],
    )
    x = np.array([30000, 200])
    found = run(proto, {"x": x.astype(np.int32), "yes": np.array(True)})
    np.testing.assert_array_equal(found["y"], (2 * x).astype(np.int16))
    np.testing.assert_array_equal(found["z"], (x * x).astype(np.int16))


def grouped(arrays, lengths, earlier, window: int, cap: float, size: int):
    """GroupQueryAttention of two heads for each key, one text after the other: outputs and keys."""
    q, k, v, keys, values = (np.array(a, np.float64) for a in arrays)
    batch, steps, _ = q.shape
    out = np.zeros_like(q)
    keys, values = (np.concatenate([a, np.zeros((batch, 2, 4, size))], 2) for a in (keys, values))
    for b in range(batch):
        for i in range(steps):
            at = earlier[b] + i
            for h in range(4):
                g, part = h // 2, slice(h * size, h * size + size)
                keys[b, g, at] = k[b, i, g * size : g * size + size]
                values[b, g, at] = v[b, i, g * size : g * size + size]
                first = max(0, at + 1 - window) if window > 0 else 0
                scores = keys[b, g, first : at + 1] @ q[b, i, part] / np.sqrt(size)
                scores = np.tanh(scores / cap) * cap if cap else scores
                p = np.exp(scores - scores.max())
                out[b, i, part] = p / p.sum() @ values[b, g, first : at + 1]
    return out, keys


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("window", "cap"), [(-1, 0.0), (3, 0.0), (-1, 2.0)])
@pytest.mark.parametrize("case", [(1, 9, [4, 8], 9), (3, 12, [7, 5], 8), (1, 8, [8, 8], 9)])
def test_attention_continues_texts_of_several_lengths(case, window, cap, packed, rng) -> None:
    """In buffers that are long enough, and in those that grow by what is new."""
    steps, held, lengths, total = case
    shapes = ((2, steps, 32), (2, steps, 16), (2, steps, 16), (2, 2, held, 8), (2, 2, held, 8))
    arrays = [rng.standard_normal(s).astype(F) for s in shapes]
    earlier = [n + 1 - steps for n in lengths]
    q, k, v, keys, values = arrays
    given = {"q": np.concatenate([q, k, v], 2)} if packed else {"q": q, "k": k, "v": v}
    given |= {"past_k": keys, "past_v": values, "seqlens": np.array(lengths, np.int32)}
    names = f"{'q _ _' if packed else 'q k v'} past_k past_v seqlens total"
    options = {"num_heads": 4, "kv_num_heads": 2, "local_window_size": window, "softcap": cap}
    nodes = [node("GroupQueryAttention", names, "y pk pv", domain="com.microsoft", **options)]
    ports = {name: (a.dtype, a.shape) for name, a in given.items()}
    proto = model(nodes, ports, "y pk pv", {"total": np.array(total, np.int32)})
    found = run(proto, given)
    wanted, stored = grouped(arrays, lengths, earlier, window, cap, 8)
    np.testing.assert_allclose(found["y"], wanted, atol=1e-5)
    assert found["pk"].shape[2] == max(held, total)
    for b, n in enumerate(lengths):
        np.testing.assert_allclose(found["pk"][b, :, : n + 1], stored[b, :, : n + 1], atol=1e-6)


BITS = {"K": 48, "N": 5, "bits": 4, "block_size": 32}
LYING: dict[
    str, tuple[dict[str, int], tuple[int, ...], int, str]
] = {  # bytes, scales, what is said
    "bytes": (BITS, (5, 3, 16), 10, "input 2 has 240 elements, .* it must have 160"),
    "scales": (BITS, (5, 2, 16), 9, "input 3 has 9 elements, .* it must have 10"),
    "no block": (BITS | {"block_size": 0}, (5, 2, 16), 10, "blocks of 0 of K 48"),
    "blocks of 24": (BITS | {"block_size": 24}, (5, 2, 16), 10, "it must have 120"),
    "half a byte": (BITS | {"block_size": 3}, (5, 16, 2), 80, "not of whole bytes"),
    "bits": (BITS | {"bits": 5}, (5, 2, 16), 10, "it has 5 bits"),
}


@pytest.mark.parametrize("name", LYING)
def test_blocks_that_lie_are_refused(name: str) -> None:
    attributes, of_bytes, count, message = LYING[name]
    nodes = [node("MatMulNBits", "x b s", "y", domain="com.microsoft", **attributes)]
    given = {"b": np.zeros(of_bytes, np.uint8), "s": np.ones(count, F)}
    with pytest.raises(UnsupportedNode, match=message):
        lg.from_onnx(model(nodes, {"x": (F, [3, 48])}, "y", given)).trace()


NUMBERS: dict[str, tuple[str, Any, dict[str, int], str]] = {
    "nan": ("DequantizeLinear", [1, np.nan], {"axis": 1}, "1 of the scales .* first is nan"),
    "infinite": ("DequantizeLinear", [1, np.inf], {"axis": 1}, "is inf"),
    "zero": ("QuantizeLinear", 0, {}, "1 of the scales in input 2 .* first is 0"),
    "blocks": (
        "DequantizeLinear",
        np.ones((3, 2)),
        {"axis": 0, "block_size": 2},
        r"are \[3, 2\], no blocks of 2 along axis 0 of \[4, 2\]",
    ),
    "fewer than none": (
        "DequantizeLinear",
        np.ones((2, 2)),
        {"axis": 0, "block_size": -2},
        "no blocks of -2",
    ),
    "axis": ("DequantizeLinear", [1, 1], {"axis": 2}, "axis is 2, .* has 2 axes"),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_scales_that_cannot_be_used_are_refused(name: str) -> None:
    op, scales, attributes, message = NUMBERS[name]
    ports = {"x": (F if op == "QuantizeLinear" else np.int8, [4, 2])}
    nodes, given = [node(op, "x s", "y", **attributes)], {"s": np.array(scales, F)}
    with pytest.raises(UnsupportedNode, match=message):
        lg.from_onnx(model(nodes, ports, "y", given, version=21)).trace()


def test_products_may_transpose_batches(rng) -> None:
    a, b = rng.standard_normal((3, 2, 4)).astype(F), rng.standard_normal((4, 2, 5)).astype(F)
    flags = {"transBatchA": 1, "transBatchB": 1, "alpha": 0.5}
    nodes = [node("FusedMatMul", "a b", "y", domain="com.microsoft", **flags)]
    found = run(model(nodes, {"a": (F, a.shape), "b": (F, b.shape)}), {"a": a, "b": b})["y"]
    np.testing.assert_allclose(found, np.einsum("mbk,kbn->bmn", a, b) / 2, atol=1e-5)


def test_queries_keys_and_values_may_be_packed(rng) -> None:
    """As three inputs would have them."""
    q, k, v = (rng.standard_normal((2, 5, 3, 4)).astype(F) for _ in range(3))
    flat = {name: a.reshape(2, 5, 12) for name, a in (("q", q), ("k", k), ("v", v))}
    options = {"domain": "com.microsoft", "num_heads": 3}
    apart = run(
        model(
            [node("MultiHeadAttention", "q k v", "y", **options)],
            {n: (F, a.shape) for n, a in flat.items()},
        ),
        flat,
    )["y"]
    all_ = np.stack([q, k, v], 3)
    proto = model([node("MultiHeadAttention", "q", "y", **options)], {"q": (F, all_.shape)})
    np.testing.assert_allclose(run(proto, {"q": all_})["y"], apart, atol=1e-6)
    pairs = np.stack([k, v], 3)
    ports = {"q": (F, [2, 5, 12]), "kv": (F, pairs.shape)}
    proto = model([node("MultiHeadAttention", "q kv", "y", **options)], ports)
    np.testing.assert_allclose(run(proto, {"q": flat["q"], "kv": pairs})["y"], apart, atol=1e-6)
