"""More layers, and not one more kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_models import example, save
from test_decoders import GPT2
from test_whisper import SIZES

from lumigen.pipeline import lower_model

GPT2_CONFIG = {**GPT2, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new"}
WHISPER_CONFIG = {**SIZES, "activation_function": "gelu"}


def kernels(name: str, folder: Path) -> int:
    return len(lower_model(example(name, folder)[0], {}).model.kernels)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "config", "layers"),
    [
        ("gpt2", GPT2_CONFIG, ("n_layer",)),
        ("whisper", WHISPER_CONFIG, ("encoder_layers", "decoder_layers")),
    ],
)
def test_layers_share_their_kernels(
    name: str, config: dict[str, Any], layers: tuple[str, ...], tmp_path: Path
) -> None:
    counts = [
        kernels(name, save(tmp_path, {}, {**config, **dict.fromkeys(layers, count)}))
        for count in (3, 5)
    ]
    assert counts[0] == counts[1]
