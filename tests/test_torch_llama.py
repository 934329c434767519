"""The peer of `benchmarks/cuda_llama.py` is the model of `examples/llama`, token by token and as a prompt."""

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import llama  # noqa: E402
import torch_llama  # noqa: E402

CONFIG = llama.COMMON | {
    "vocab_size": 96,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "tie_word_embeddings": False,
}
LENGTH = 2 * torch_llama.BLOCK


def weights(dtype):
    made = torch.Generator().manual_seed(0)
    shapes = llama.shapes_of(CONFIG).items()
    tensors = {n: torch.randn(s, generator=made) * (0.2 if len(s) == 2 else 1) for n, s in shapes}
    return {n: t.to(dtype) for n, t in tensors.items()}


@pytest.mark.filterwarnings("ignore:flex_attention called without")
@pytest.mark.parametrize("attend", ["masked", "blocks"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 5e-2)])
def test_logits_are_those_of_the_whole_text(attend, dtype, tolerance):
    held, ids = weights(dtype), torch.arange(140) * 7 % 96
    exact = {n: w.float() for n, w in held.items()}
    decoder = torch_llama.Decoder(CONFIG, held, LENGTH)
    places = torch.arange(LENGTH)
    with torch.inference_mode():
        found = {126: decoder(ids[:126], places[:126], "prompt")}
        for at in (126, 127, 128, 129):
            found[at + 1] = decoder(ids[at : at + 1], places[at : at + 1], attend)
        for count, logits in found.items():
            wanted = llama.logits(CONFIG, exact, ids[:count])
            assert (logits.float() - wanted).norm() < tolerance * wanted.norm()
