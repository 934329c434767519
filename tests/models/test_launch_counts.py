"""How many launches and kernels some small models have: a change of a number is a line in a diff."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_models import EXAMPLES, example, save
from test_classifiers import ResNet
from test_yolov8 import OPTIONS, random_tensors

import lumigen as lg
from lumigen import functional as F
from lumigen import nn
from lumigen.dtype import bf16, f32
from lumigen.pipeline import lower_model
from lumigen.program import Program
from lumigen.target import parse_target

HIDDEN, INNER, WORDS, LENGTH = 128, 512, 300, 256  # heads are 64 wide, which all attention takes
BERT = {
    "hidden_size": HIDDEN,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "intermediate_size": INNER,
    "vocab_size": WORDS,
    "type_vocab_size": 2,
    "max_position_embeddings": LENGTH,
    "layer_norm_eps": 1e-12,
}
VIT = {**BERT, "image_size": 64, "patch_size": 16, "num_channels": 3}
LLAMA = {
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": WORDS,
    "max_position_embeddings": LENGTH,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
}
GPT2 = {
    "n_embd": HIDDEN,
    "n_head": 2,
    "n_layer": 2,
    "vocab_size": WORDS,
    "n_positions": LENGTH,
    "layer_norm_epsilon": 1e-5,
    "activation_function": "gelu_new",
}
WHISPER = {
    "d_model": HIDDEN,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": INNER,
    "decoder_ffn_dim": INNER,
    "vocab_size": WORDS,
    "num_mel_bins": 80,
    "max_source_positions": 150,
    "max_target_positions": 64,
    "activation_function": "gelu",
}


def of_checkpoint(
    name: str, arrays: Callable[[], Mapping[str, Any]], config: Mapping[str, Any], **options: str
) -> Callable[[Path], lg.Traced]:
    return lambda folder: example(name, save(folder, arrays(), config), **options)[0]


def of_file(name: str) -> Callable[[Path], lg.Traced]:
    return lambda _: lg.load_model_file(EXAMPLES / "digits" / name).trace()


def resnet18() -> dict[str, Any]:
    state = ResNet((8, 16), 5).state_dict()
    return {name: t.numpy() for name, t in state.items() if t.ndim}


def yolov8() -> dict[str, Any]:
    return {name: t.numpy() for name, t in random_tensors().items()}


def convnet(_: Path) -> lg.Traced:
    """Images of any size; a stride, a depthwise convolution, a residual, one that enlarges."""
    stem = nn.Conv2d(3, 16, 3, stride=2, padding=1)
    deep = nn.Sequential(
        nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.BatchNorm2d(16), nn.Conv2d(16, 16, 1)
    )
    up = nn.ConvTranspose2d(16, 4, 2, stride=2)
    model = lg.Model("convnet", nn.ModuleList([stem, deep, up]))
    height, width = (lg.Dim(n, 1, 256, typical=64) for n in ("height", "width"))

    @model.entry(image=lg.spec(1, 3, height, width))
    def segment(image: Any) -> Any:
        x = F.relu(stem(image))
        return up(F.gelu(x + deep(x))).softmax(1)

    return model.trace()


def rnn(_: Path) -> lg.Traced:
    lstm, head = nn.LSTM(24, 32, num_layers=2), nn.Linear(32, 10)
    model = lg.Model("rnn", nn.ModuleList([lstm, head]))

    @model.entry(x=lg.spec(lg.Dim("steps", 1, 64), lg.Dim("batch", 1, 8), 24))
    def label(x: Any) -> Any:
        return head(lstm(x)[0][-1]).log_softmax(-1)

    return model.trace()


MODELS: dict[str, Callable[[Path], lg.Traced]] = {
    "minilm": of_checkpoint("minilm", dict, BERT),
    "vit": of_checkpoint("vit", lambda: {"classifier.bias": np.zeros(7)}, VIT),
    "gpt2": of_checkpoint("gpt2", dict, GPT2),
    "llama": of_checkpoint("llama", dict, {**LLAMA, "model_type": "llama"}),
    "llama_long": of_checkpoint("llama", dict, {**LLAMA, "model_type": "llama", "max_position_embeddings": 4096}),
    "mistral": of_checkpoint("llama", dict, {**LLAMA, "model_type": "mistral", "sliding_window": 40}),
    "whisper": of_checkpoint("whisper", dict, WHISPER),
    "resnet": of_checkpoint("resnet", resnet18, {}, size="32"),
    "yolov8": of_checkpoint("yolov8", yolov8, {}, **OPTIONS),
    "digits": of_file("model.py"),
    "digits_cnn": of_file("cnn.py"),
    "convnet": convnet,
    "rnn": rnn,
}  # fmt: skip

SLOW = {"vit", "llama_long", "mistral", "whisper", "yolov8"}
HELD = {"cpu": f32, "cuda:sm_90a": bf16}  # products of bf16 have variants for Hopper

# of each entry: (launches, where every group takes its last variant and a loop one step; kernels of all variants)
COUNTS: dict[tuple[str, str], dict[str, tuple[int, int]]] = {
    ("minilm", "cpu"): {"embed": (15, 8)},
    ("minilm", "cuda:sm_90a"): {"embed": (15, 14)},
    ("vit", "cpu"): {"classify": (18, 11)},
    ("vit", "cuda:sm_90a"): {"classify": (19, 19)},
    ("gpt2", "cpu"): {"prefill": (16, 11), "decode": (16, 11)},
    ("gpt2", "cuda:sm_90a"): {"prefill": (17, 20), "decode": (13, 9)},
    ("llama", "cpu"): {"prefill": (19, 13), "decode": (18, 12)},
    ("llama", "cuda:sm_90a"): {"prefill": (20, 24), "decode": (15, 11)},
    ("llama_long", "cpu"): {"prefill": (19, 13), "decode": (18, 12)},
    ("llama_long", "cuda:sm_90a"): {"prefill": (22, 25), "decode": (17, 12)},
    ("mistral", "cpu"): {"prefill": (19, 13), "decode": (18, 12)},
    ("mistral", "cuda:sm_90a"): {"prefill": (20, 24), "decode": (15, 11)},
    # windows and filters of sound are tables, made once: 3000 frames of it take 1 ms instead of 18
    ("whisper", "cpu"): {"listen": (29, 22), "prefill": (26, 15), "decode": (24, 14)},
    # keys and values stored heads first have a grid of their own each: heads are a batch there
    ("whisper", "cuda:sm_90a"): {"listen": (29, 27), "prefill": (25, 24), "decode": (23, 15)},
    ("resnet", "cpu"): {"classify": (14, 12)},
    ("resnet", "cuda:sm_90a"): {"classify": (15, 14)},
    ("yolov8", "cpu"): {"detect": (84, 74)},
    ("yolov8", "cuda:sm_90a"): {"detect": (83, 95)},
    ("digits", "cpu"): {"classify": (3, 3)},
    ("digits", "cuda:sm_90a"): {"classify": (3, 7)},
    ("digits_cnn", "cpu"): {"classify": (6, 6)},
    ("digits_cnn", "cuda:sm_90a"): {"classify": (6, 8)},
    ("convnet", "cpu"): {"segment": (5, 5)},
    ("convnet", "cuda:sm_90a"): {"segment": (7, 7)},
    ("rnn", "cpu"): {"label": (9, 7)},
    ("rnn", "cuda:sm_90a"): {"label": (9, 9)},
}


@pytest.mark.parametrize(
    ("name", "target"),
    [pytest.param(*row, marks=[pytest.mark.slow] if row[0] in SLOW else []) for row in COUNTS],
)
def test_launches_and_kernels(name: str, target: str, tmp_path: Path) -> None:
    traced = MODELS[name](tmp_path)
    lowered = lower_model(traced, {}, target=parse_target(target), dtype=HELD[target]).lowered
    assert {p.entry: counted(p) for p in lowered.programs} == COUNTS[name, target]


def test_every_model_is_counted_on_every_target() -> None:
    assert list(COUNTS) == [(model, target) for model in MODELS for target in HELD]


def counted(program: Program) -> tuple[int, int]:
    launches = sum(len(group.variants[-1].launches) for group in program.groups)
    return launches, len({launch.kernel for launch in program.launches})
