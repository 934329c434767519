"""The encoder of the MiniLM example on checkpoints of BERT that are named otherwise than its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from small_models import Interpreted, distance, example, transformer

SIZES = {
    "hidden_size": 24,
    "num_attention_heads": 3,
    "num_hidden_layers": 2,
    "intermediate_size": 40,
    "vocab_size": 61,
    "max_position_embeddings": 16,
}


@pytest.mark.slow
@pytest.mark.parametrize("is_old", [False, True], ids=["in a module", "of the first release"])
def test_a_model_of_masked_words_embeds(is_old: bool, tmp_path: Path) -> None:
    reference = transformer(tmp_path, "BertForMaskedLM", "BertConfig", **SIZES)
    if is_old:
        ends = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
        file = tmp_path / "model.safetensors"
        renamed = {}
        for name, array in load_file(file).items():
            end = next((e for e in ends if name.endswith(e)), "")
            renamed[name.removesuffix(end) + ends.get(end, "")] = array
        save_file(renamed, file)
    rng = np.random.default_rng(1)
    ids, mask = rng.integers(0, 61, (3, 9)), np.arange(9) < np.array([[9], [4], [1]])
    mask = mask.astype(np.int64)
    with torch.no_grad():
        given = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}
        hidden = reference.bert(**given).last_hidden_state.numpy()
    mean = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
    expected = mean / np.linalg.norm(mean, axis=-1, keepdims=True)
    context = Interpreted(*example("minilm", tmp_path))
    found = context.run("embed", input_ids=ids, attention_mask=mask)["embedding"]
    assert distance(found, expected) < 1e-5
