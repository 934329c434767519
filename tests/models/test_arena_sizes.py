"""How large the arenas of five small models are: layers share slots, and no byte is held while nobody needs it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_models import example, save
from test_decoders import LLAMA
from test_launch_counts import BERT, GPT2, HELD, VIT, WHISPER

from lumigen.pipeline import lower_model
from lumigen.program import ALIGNMENT, Program
from lumigen.target import parse_target
from lumigen.verify.program import Kernels, alive, points

LAYERS = 4
MODELS: dict[str, tuple[str, Mapping[str, Any], tuple[str, ...]]] = {
    "minilm": ("minilm", BERT, ("num_hidden_layers",)),
    "vit": ("vit", VIT, ("num_hidden_layers",)),
    "gpt2": ("gpt2", GPT2, ("n_layer",)),
    "llama": ("llama", LLAMA, ("num_hidden_layers",)),
    "whisper": ("whisper", WHISPER, ("encoder_layers", "decoder_layers")),
}
SLOW = {"vit", "whisper"}

# of each entry at typical dims, in bytes
SIZES: dict[tuple[str, str], dict[str, int]] = {
    ("minilm", "cpu"): {"embed": 16777216},
    ("minilm", "cuda:sm_90a"): {"embed": 10485760},
    ("vit", "cpu"): {"classify": 57344},
    ("vit", "cuda:sm_90a"): {"classify": 53248},
    ("gpt2", "cpu"): {"prefill": 163840, "decode": 3072},
    ("gpt2", "cuda:sm_90a"): {"prefill": 98304, "decode": 5632},
    ("llama", "cpu"): {"prefill": 24640, "decode": 640},
    ("llama", "cuda:sm_90a"): {"prefill": 12352, "decode": 448},
    ("whisper", "cpu"): {"listen": 2501888, "prefill": 11648, "decode": 3072},
    ("whisper", "cuda:sm_90a"): {"listen": 2501888, "prefill": 6144, "decode": 1536},
}


def most_alive(program: Program, kernels: Kernels) -> int:
    """The most bytes that hold a value during one launch, at typical dims."""
    _, typical, _ = points(program.dims)
    size = {
        s.name: -(-int(s.bytes.evaluate(typical)) // ALIGNMENT) * ALIGNMENT for s in program.arena
    }
    return max(sum(size[name] for name in names) for names in alive(program, kernels))


@pytest.mark.parametrize(
    ("name", "target"),
    [pytest.param(*row, marks=[pytest.mark.slow] if row[0] in SLOW else []) for row in SIZES],
)
def test_the_arena_is_as_large_as_what_one_launch_needs(
    name: str, target: str, tmp_path: Path
) -> None:
    folder, config, layers = MODELS[name]
    sizes = {**config, **dict.fromkeys(layers, LAYERS)}
    arrays = {"classifier.bias": np.zeros(7)} if name == "vit" else {}
    traced = example(folder, save(tmp_path, arrays, sizes))[0]
    lowered = lower_model(traced, {}, target=parse_target(target), dtype=HELD[target]).lowered
    kernels = {k.name: k.parameters for k in lowered.kernels}
    found = {p.entry: p.offsets(points(p.dims)[1])[1] for p in lowered.programs}
    assert found == SIZES[name, target]
    assert found == {p.entry: most_alive(p, kernels) for p in lowered.programs}
