"""MiniLM through its graph against PyTorch in f64, with the real checkpoint if it is installed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from minilm_reference import MODEL, NO_CHECKPOINT, checkpoint, embed, write_small

import lumigen as lg
from lumigen import errors
from lumigen.frontend import load_model_file
from lumigen.interp.graph import evaluate
from lumigen.weights import Weights, open_weights


def sentences(vocabulary: int, lengths: list[int], width: int) -> tuple[np.ndarray, np.ndarray]:
    ids = np.random.default_rng(0).integers(0, vocabulary, (len(lengths), width))
    mask = (np.arange(width) < np.array(lengths)[:, None]).astype(np.int64)
    return ids, mask


def compare(weights: Weights, lengths: list[int], width: int) -> None:
    traced = load_model_file(MODEL, weights=weights).trace()
    ids, mask = sentences(weights.config["vocab_size"], lengths, width)
    needed = {w.name: weights[w.name] for w in traced.weights}
    got = evaluate(traced.entries[0][1], {"input_ids": ids, "attention_mask": mask}, needed)
    doubles = {k: torch.from_numpy(v.astype(np.float64)) for k, v in needed.items()}
    expected = embed(weights.config, doubles, ids, mask)
    assert got["embedding"].dtype == np.float32
    np.testing.assert_allclose(got["embedding"], expected, atol=2e-6)  # f32 constants, gelu's fit


@pytest.fixture
def small(tmp_path: Path) -> Weights:
    return open_weights(write_small(tmp_path))


@pytest.mark.parametrize(("lengths", "width"), [([1], 1), ([7, 3], 7), ([16, 1, 9, 16], 16)])
def test_a_small_one(small: Weights, lengths: list[int], width: int) -> None:
    compare(small, lengths, width)


def test_inputs_are_held_against_their_declaration(small: Weights) -> None:
    graph = load_model_file(MODEL, weights=small).trace().entries[0][1]
    weights = {name: small[name] for name in small}
    ids, mask = sentences(50, [4], 4)
    with pytest.raises(errors.BadInput, match="49"):
        evaluate(graph, {"input_ids": ids + 50, "attention_mask": mask}, weights)
    assert [d.name for d in graph.dims()] == ["batch", "sequence"]


def test_the_batch_is_an_option(small: Weights) -> None:
    model = load_model_file(MODEL, weights=small, options={"max_batch": "8"})
    assert model.trace().entries[0][1].dims()[0] == lg.Dim("batch", 1, 8)


@pytest.mark.slow
@pytest.mark.skipif(checkpoint() is None, reason=NO_CHECKPOINT)
def test_the_real_checkpoint() -> None:
    folder = checkpoint()
    assert folder is not None
    weights = open_weights(folder)
    names = {w.name for w in load_model_file(MODEL, weights=weights).trace().weights}
    unused = set(weights.names) - names
    assert unused == {"embeddings.position_ids", "pooler.dense.bias", "pooler.dense.weight"}
    compare(weights, [9, 4], 9)
