"""The examples on a GPU, small and of random weights: what the interpreter makes of them in float64, in each dtype.

That the interpreter makes of them what PyTorch does is tested in `models/`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "models"))  # for the models

pytest.importorskip(
    "torch", reason="the models to compare with are made by torch, which is missing"
)

import test_classifiers
import test_decoders
import test_whisper
import test_yolov8
from shipped_programs import group_kernels
from small_models import Interpreted, as_numbers, distance, example, farthest, random_weights, save

import lumigen as lg
from lumigen.build import build_project, load_module
from lumigen.make_project import compile_project
from lumigen.target import parse_target
from lumigen.weights import rounded

pytestmark = pytest.mark.gpu

# As a share of the greatest: sums in another order, and 2^-11 or 2^-9 of every number held in 16 bits. Where `farthest`
# says that a call enlarges errors by more, so much.
TOLERANCE = {lg.f32: 1e-4, lg.f16: 5e-3, lg.bf16: 2e-2}
BERT = {
    "model_type": "bert",
    "hidden_size": 24,
    "num_attention_heads": 3,
    "num_hidden_layers": 2,
    "intermediate_size": 40,
    "vocab_size": 61,
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "hidden_act": "gelu",
}
MORE_OF_VIT = {"num_channels": 3, "layer_norm_eps": 1e-12, "hidden_act": "gelu"}
WHISPER = {**test_whisper.SIZES, "activation_function": "gelu"}


def texts(parts: tuple[tuple[int, int], ...], ids: np.ndarray) -> list[tuple[str, dict[str, Any]]]:
    """A text that comes in parts, each of one token by `decode`."""
    return [
        (
            "decode" if stop == start + 1 else "prefill",
            {"ids": ids[start:stop], "position": np.array(start)},
        )
        for start, stop in parts
    ]


def embedding() -> list[tuple[str, dict[str, Any]]]:
    mask = (np.arange(9) < np.array([[9], [4], [1]])).astype(np.int64)
    ids = np.random.default_rng(1).integers(0, 61, (3, 9))
    return [("embed", {"input_ids": ids, "attention_mask": mask})]


# example, configuration or the class of transformers that writes one of these sizes, calls one after the other
CASES: dict[
    str, tuple[str, dict[str, Any] | tuple[str, dict[str, Any]], list[tuple[str, dict[str, Any]]]]
] = {
    "minilm": ("minilm", BERT, embedding()),
    "vit": (
        "vit",
        test_classifiers.VIT | MORE_OF_VIT,
        [("classify", {"image": test_classifiers.IMAGES})],
    ),
    "whisper": (
        "whisper",
        WHISPER,
        [
            ("listen", {"audio": test_whisper.sound()}),
            *texts(test_whisper.PARTS, test_whisper.IDS),
        ],
    ),
    **{
        name: (folder, (config, sizes), texts(test_decoders.PARTS, test_decoders.IDS))
        for name, (folder, _, config, sizes) in test_decoders.MODELS.items()
    },
}


def written(config: dict[str, Any] | tuple[str, dict[str, Any]]) -> dict[str, Any]:
    if isinstance(config, dict):
        return config
    transformers = pytest.importorskip("transformers", reason="it writes the configuration")
    name, sizes = config
    return getattr(transformers, name)(**sizes).to_dict()


class OnGPU:
    """A context of a model that was built for a GPU; called as those of `small_models`."""

    def __init__(
        self,
        traced: lg.Traced,
        weights: Any,
        dtype: lg.DType,
        target: str,
        directory: Path,
    ) -> None:
        self.dtype = dtype
        row = {"target": target, "weights": weights, "dtype": dtype}
        compile_project(traced, directory=directory, build=False, **row)
        group_kernels(directory, parse_target(target).kernel_suffix)
        build_project(directory)
        self.context = load_module(directory).Model().context()

    def run(self, entry: str, **inputs: Any) -> dict[str, np.ndarray]:
        given = {name: rounded(np.array(x, order="C"), self.dtype) for name, x in inputs.items()}
        out = getattr(self.context, entry)(**given)
        found = out._asdict() if hasattr(out, "_asdict") else {"": out}
        return {name: as_numbers(np.asarray(x)) for name, x in found.items()}


@pytest.fixture(params=TOLERANCE, ids=str)
def dtype(request: pytest.FixtureRequest) -> lg.DType:
    return request.param


@pytest.mark.parametrize("name", CASES)
def test_an_example_is_what_the_interpreter_says(
    name: str, dtype: lg.DType, target: str, tmp_path: Path
) -> None:
    folder, config, calls = CASES[name]
    labels = {"classifier.bias": np.zeros(7, np.float32)}  # which say how many there are
    traced, _ = example(folder, save(tmp_path, labels, written(config)))
    weights = random_weights(traced)
    exact = Interpreted(traced, weights)
    context = OnGPU(traced, weights, dtype, target, tmp_path / "project")
    allowed = farthest(traced, weights, dtype, calls, TOLERANCE[dtype])
    for number, ((entry, inputs), limit) in enumerate(zip(calls, allowed, strict=True)):
        wanted = exact.run(entry, **inputs)
        found = context.run(entry, **inputs)
        for one, other in zip(found.values(), wanted.values(), strict=True):
            assert distance(one, other) < limit, (number, entry)


def test_a_resnet_is_that_of_torchvision(dtype: lg.DType, target: str, tmp_path: Path) -> None:
    expected = test_classifiers.resnet18(tmp_path)
    traced, weights = example("resnet", tmp_path, **test_classifiers.options("resnet"))
    context = OnGPU(traced, weights, dtype, target, tmp_path / "project")
    (found,) = context.run("classify", image=test_classifiers.IMAGES).values()
    assert distance(found, expected) < TOLERANCE[dtype]


def test_a_yolov8_finds_the_boxes(dtype: lg.DType, target: str, tmp_path: Path) -> None:
    tensors = test_yolov8.checkpoint(tmp_path)
    traced, weights = example("yolov8", tmp_path, **test_yolov8.OPTIONS)
    context = OnGPU(traced, weights, dtype, target, tmp_path / "project")
    test_yolov8.check(context, tensors, TOLERANCE[dtype])
