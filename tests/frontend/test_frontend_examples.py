"""The examples as a reader finds them: traced, run with their weights, as good as they say."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lumigen.frontend import load_model_file
from lumigen.interp.graph import evaluate
from lumigen.weights import open_weights

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def module_of(file: Path) -> Any:
    found = importlib.util.spec_from_file_location(file.stem + "_example", file)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("file", "weights", "shape"), [("model", "digits", (64,)), ("cnn", "cnn", (1, 8, 8))]
)
def test_digits(file: str, weights: str, shape: tuple[int, ...]) -> None:
    pytest.importorskip("sklearn")
    folder = EXAMPLES / "digits"
    _, (x, labels) = module_of(folder / "train.py").data()
    stored = open_weights(folder / f"{weights}.safetensors")
    traced = load_model_file(folder / f"{file}.py").trace()
    assert {w.name: w.shape for w in traced.weights} == {n: stored.shape(n) for n in stored}
    graph = traced.entries[0][1]
    name = "x" if file == "model" else "image"
    batches = np.array_split(x.reshape(-1, *shape).astype(np.float32), 6)
    found = [evaluate(graph, {name: b}, {n: stored[n] for n in stored})["probs"] for b in batches]
    probs = np.concatenate(found)
    np.testing.assert_allclose(probs.sum(1), 1, rtol=1e-6)
    assert (probs.argmax(1) == labels).mean() >= 0.95


def test_similarity_tokenizes_and_prints() -> None:
    tokenizers = pytest.importorskip("tokenizers")
    similarity = module_of(EXAMPLES / "minilm" / "similarity.py")
    words = {"[PAD]": 0, "[UNK]": 1, "a": 2, "cat": 3}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, "[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    ids, mask = similarity.tokenize(tokenizer, ["a cat", "a"])
    np.testing.assert_array_equal(ids, [[2, 3], [2, 0]])
    np.testing.assert_array_equal(mask, [[1, 1], [1, 0]])
    text = similarity.matrix(np.eye(2), ["one", "two"])
    assert text == " 1.000  0.000  one\n 0.000  1.000  two"
