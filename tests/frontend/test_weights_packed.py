"""Weights of few bits in checkpoints of Hugging Face and MLX: packed here by each format's formula, read as fields."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from few_bits import (
    BNB,
    CASES,
    COLUMNS,
    CT,
    GPTQ,
    GROUPS,
    ROWS,
    SIZE,
    Array,
    Tensors,
    scales,
)
from safetensors.numpy import save_file

import lumigen as lg
from lumigen import nn
from lumigen.errors import BadWeightsFile
from lumigen.interp.graph import evaluate
from lumigen.quantise import quantised

NAME = "layer.up"


def opened(folder: Path, said: dict[str, Any], tensors: Tensors) -> lg.Weights:
    key = "quantization_config" if "quant_method" in said else "quantization"
    (folder / "config.json").write_text(json.dumps({key: said}))
    named = {f"{NAME}.{part}": np.ascontiguousarray(a) for part, a in tensors.items()}
    save_file(named, folder / "model.safetensors")
    return lg.open_weights(folder)


def rotated(*places: str) -> dict[str, Any]:
    """What compressed-tensors says of Hadamard transforms at these places."""
    apply = [{"targets": ["Linear"], "location": place} for place in places]
    return {"config_groups": {"R1": {"type": "hadamard", "apply": apply}}}


def traced() -> lg.Traced:
    layer = nn.Linear(COLUMNS, ROWS, bias=False)
    model = lg.Model("packed", {NAME: layer})

    @model.entry(x=lg.spec(2, COLUMNS))
    def forward(x: lg.Tensor) -> lg.Tensor:
        return layer(x)

    return model.trace()


@pytest.mark.parametrize("case", CASES)
def test_values_are_those_of_the_format(tmp_path: Path, case: str) -> None:
    """Bit for bit as floats; and a model that reads the fields computes with them."""
    said, make = CASES[case]
    tensors, meant = make()
    weights = opened(tmp_path, said, tensors)
    name = f"{NAME}.weight"
    assert meant.dtype == np.float32
    assert (weights.shape(name), weights.dtype(name)) == ((ROWS, COLUMNS), lg.f32)
    np.testing.assert_array_equal(weights[name], meant)
    found = quantised(traced(), weights, None)
    assert found.weights is not None
    assert name not in {w.name for w in found.traced.weights}
    read = {w.name: found.weights[w.name] for w in found.traced.weights}
    for w in found.traced.weights:
        assert (read[w.name].shape, read[w.name].dtype) == (w.shape, w.dtype.numpy)
    x = np.random.default_rng(1).standard_normal((2, COLUMNS)).astype(np.float32)
    (y,) = evaluate(found.traced.entries[0][1], {"x": x}, read).values()
    expected = x.astype(np.float64) @ meant.T.astype(np.float64)
    assert np.abs(y - expected).max() < 1e-5 * np.abs(expected).max()


STATE = "weight.quant_state.bitsandbytes__nf4"


def state_of(**more: Any) -> Array:
    state = {"quant_type": "nf4", "blocksize": 64, "shape": [ROWS, COLUMNS], **more}
    return np.frombuffer(json.dumps(state).encode(), np.uint8)


BAD: dict[str, tuple[str, dict[str, Any], Callable[[Tensors], object], str]] = {
    "method": ("gptq", {"quant_method": "sqz"}, lambda t: None, "quantised by sqz"),
    "bits": ("gptq", GPTQ | {"bits": 7}, lambda t: None, "have 7 bits"),
    "version": ("awq", {"quant_method": "awq", "bits": 4, "version": "gemv"}, lambda t: None, "gemv"),
    "zeros": ("gptq", GPTQ, lambda t: t.pop("qzeros"), "lacks qzeros"),
    "shape": (
        "gptq", GPTQ, lambda t: t.update(scales=scales(GROUPS, ROWS + 1)), r"\[4, 33\], must be \[4, 32\]",
    ),
    "groups": ("mlx4", {"bits": 4, "group_size": 48}, lambda t: None, "groups of 48 do not divide"),
    "order": (
        "gptq-order", GPTQ, lambda t: t.update(g_idx=np.full(COLUMNS, 9, np.int32)), "of 4 groups",
    ),
    "words": (
        "words4", CT, lambda t: t.update(weight_shape=np.array([3, COLUMNS])), "words of 3 x 128",
    ),
    "code": (
        "f8", CT, lambda t: t.update(weight=np.full_like(t["weight"], np.nan)), "are no numbers",
    ),
    "no matrix": (
        "gptq", GPTQ, lambda t: t.update(qweight=t["qweight"].ravel()), "must be a matrix",
    ),
    "no words": (
        "mlx4", {"bits": 4, "group_size": SIZE}, lambda t: t.update(weight=t["weight"].astype(np.float32)),
        "must be words of 32 bits",
    ),
    "sizes": (
        "words4", CT, lambda t: t.update(weight_shape=np.array([ROWS, COLUMNS, 1])), r"must be \[2\]",
    ),
    "floats": (
        "f8-tiles", {"quant_method": "fp8"}, lambda t: t.update(weight=t["weight"].astype(np.float16)),
        r"is F16\[32, 128\], must be F8_E4M3 or F8_E5M2",
    ),
    "tiles": (
        "f8-tiles", {"quant_method": "fp8"},
        lambda t: t.update(weight_scale_inv=np.zeros((0, 4), np.float32)), "a scale for each of 32",
    ),
    "total": (
        "nvfp4", CT, lambda t: t.update(weight_global_scale=np.ones(2, np.float32)), "one number",
    ),
    "total of 0": (
        "nvfp4", CT, lambda t: t.update(weight_global_scale=np.zeros(1, np.float32)), "is 0, by which",
    ),
    "rotated": (
        "words4", CT | {"transform_config": rotated("weight_input", "input")}, lambda t: None,
        "transform_config rotates activations",
    ),
    "odd rotation": (
        "words4", CT | {"transform_config": [1]}, lambda t: None, "transform_config rotates",
    ),
    "no state": ("nf4", BNB, lambda t: t.pop(STATE), "lacks weight.quant_state"),
    "state": ("nf4", BNB, lambda t: t.update({STATE: np.zeros(3, np.uint8)}), "must be JSON"),
    "block": (
        "nf4", BNB, lambda t: t.update({STATE: state_of(blocksize=0)}), "in blocks of 0",
    ),
    "absmax": (
        "nf4", BNB, lambda t: t.update({"weight.absmax": np.ones(63, np.float32)}), r"must be \[64\]",
    ),
    "codebook": (
        "nf4", BNB, lambda t: t.update({"weight.quant_map": np.ones(5, np.float32)}), r"must be \[16\]",
    ),
    "nested": (
        "nf4-nested", BNB, lambda t: t.update({"weight.nested_absmax": np.ones(1, np.float32)}),
        r"must be \[2\]",
    ),
    "scale": (
        "awq", {"quant_method": "awq", "bits": 4}, lambda t: t["scales"].__setitem__((0, 3), np.nan),
        r"layer.up.weight.scales\[3, 0\] is nan",
    ),
}  # fmt: skip


def test_weights_that_are_stored_rotated_are_read(tmp_path: Path) -> None:
    _, make = CASES["words4"]
    for said in (rotated("weight_input", "weight_output"), {"config_groups": {}}, None):
        weights = opened(tmp_path, CT | {"transform_config": said}, make()[0])
        assert weights.packed(f"{NAME}.weight") is not None


@pytest.mark.parametrize("case", BAD)
def test_what_does_not_agree_is_refused(tmp_path: Path, case: str) -> None:
    base, said, spoil, message = BAD[case]
    tensors, _ = CASES[base][1]()
    tensors = {name: np.array(a) for name, a in tensors.items()}
    spoil(tensors)
    with pytest.raises(BadWeightsFile, match=message):  # noqa: PT012 - some are told when fields are read
        found = quantised(traced(), opened(tmp_path, said, tensors), None)
        assert found.weights is not None
        for w in found.traced.weights:
            found.weights[w.name]
