"""The Whisper of the examples against transformers: what it hears, what it says over both kinds of caches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from small_models import NO_TRANSFORMERS, Compiled, Interpreted, distance, example, transformer

from lumigen.dtype import DType, bf16, f32

# As a share of the greatest: sums in another order, and 2^-9 of every number held in bf16.
TOLERANCE = {f32: 1e-4, bf16: 2e-2}
POSITIONS = 20
SIZES = {
    "d_model": 24,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 40,
    "decoder_ffn_dim": 40,
    "vocab_size": 61,
    "num_mel_bins": 80,
    "max_source_positions": POSITIONS,
    "max_target_positions": 24,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 3,
    "begin_suppress_tokens": None,
}
IDS = np.random.default_rng(1).integers(0, 61, 15)
PARTS = ((0, 4), (4, 5), (5, 6), (6, 12), *((i, i + 1) for i in range(12, 15)))


def sound() -> np.ndarray:
    """Tones a million times apart in power, and an end of silence."""
    t = np.arange(320 * POSITIONS) / 16000
    x = 0.5 * np.sin(2 * np.pi * 440 * t) + 0.0005 * np.sin(2 * np.pi * 3100 * t)
    return x * (t < 0.3)


def expected(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Hidden states of the sound, and logits behind each token."""
    reference = transformer(folder, "WhisperForConditionalGeneration", "WhisperConfig", **SIZES)
    transformers = pytest.importorskip("transformers", reason=NO_TRANSFORMERS)
    extract = transformers.WhisperFeatureExtractor(feature_size=80)
    # in numpy, which is in float64 there
    features = extract._np_extract_fbank_features(sound()[None], "cpu")
    with torch.no_grad():
        ids = torch.from_numpy(IDS)[None]
        out = reference(torch.from_numpy(features).double(), decoder_input_ids=ids)
    return out.encoder_last_hidden_state[0].numpy(), out.logits[0].numpy()


def check(context: Interpreted | Compiled, folder: Path, tolerance: float) -> None:
    hidden, logits = expected(folder)
    assert distance(context.run("listen", audio=sound())["hidden"], hidden) < tolerance
    for _ in range(2):  # a text is begun anew without listening again
        for start, stop in PARTS:
            entry = "decode" if stop == start + 1 else "prefill"
            found = context.run(entry, ids=IDS[start:stop], position=np.array(start))["logits"]
            assert distance(found, logits[stop - 1]) < tolerance, (start, stop)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [f32, bf16], ids=str)
def test_the_graphs_give_what_transformers_gives(dtype: DType, tmp_path: Path) -> None:
    expected(tmp_path)
    context = Interpreted(*example("whisper", tmp_path), dtype)
    check(context, tmp_path, 1e-5 if dtype is f32 else TOLERANCE[bf16])


@pytest.mark.slow
def test_the_kernels_give_what_transformers_gives(tmp_path: Path) -> None:
    expected(tmp_path)
    check(Compiled(*example("whisper", tmp_path)), tmp_path, TOLERANCE[f32])
