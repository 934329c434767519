"""More layers, and not one more line in the source of an entry; in the tables a row for each weight and launch."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from small_models import example, save
from test_bert import SIZES
from test_decoders import LLAMA

from lumigen.emit.project import render_project
from lumigen.pipeline import lower_model
from lumigen.target import parse_target

BERT = {**SIZES, "layer_norm_eps": 1e-12, "hidden_act": "gelu", "type_vocab_size": 2}
MODELS: dict[str, dict[str, Any]] = {"minilm": BERT, "llama": LLAMA}


def sources(name: str, layers: int, target: str, folder: Path) -> dict[str, str]:
    """The files of src/, all numbers in them the same."""
    folder.mkdir()
    config = {**MODELS[name], "num_hidden_layers": layers}
    traced = example(name, save(folder, {}, config))[0]
    files = render_project(lower_model(traced, {}, target=parse_target(target)).model)
    return {p: re.sub(r"\d+", "#", t) for p, t in files.items() if p.startswith("src/")}


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("name", MODELS)
def test_the_source_of_an_entry_does_not_grow_with_the_layers(
    name: str, target: str, tmp_path: Path
) -> None:
    few, many = (sources(name, n, target, tmp_path / str(n)) for n in (3, 12))
    assert few.keys() == many.keys()
    tables = {"src/tables.h", "src/model.cpp", "src/manifest.cpp"}
    for path in few.keys() - tables:
        assert "= layer_at(i);" in few[path], path
        assert few[path] == many[path], path
    for path in ("src/tables.h", "src/model.cpp"):
        assert set(few[path].splitlines()) == set(many[path].splitlines()), path
