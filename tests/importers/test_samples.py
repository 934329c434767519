"""A sample of the sweeps of PyTorch: ops and whole architectures that their pages say pass, others with each commit.

The seed is the commit. `git rev-parse HEAD` at the commit that failed draws the same sample again.
"""

from __future__ import annotations

import importlib
import random
import sys
import warnings
from pathlib import Path
from types import ModuleType

import pytest
import torch
from commit import commit

ROOT = Path(__file__).parent.parent.parent
OPS, MODELS = 16, 2
# Of transformers those that take a second or two, as no test may take long.
QUICK = """
albert bert bert-generation biogpt bloom camembert codegen cohere convbert ctrl deit distilbert dpr electra ernie
falcon flaubert gemma glm gpt2 gpt_bigcode gpt_neo gpt_neox gptj granite helium llama mistral modernbert mpnet mpt
nystromformer olmo openai-gpt opt persimmon phi qwen2 qwen3 rembert roberta roformer smollm3 splinter squeezebert
stablelm starcoder2 vit vit_msn xglm xlm-roberta
"""


SEED = commit()


def sweep(name: str) -> ModuleType:
    """A command of tests/sweeps, as a module."""
    sys.path.insert(0, str(ROOT / "tests" / "sweeps"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    finally:
        sys.path.remove(str(ROOT / "tests" / "sweeps"))


def told(page: str) -> set[str]:
    """The first cells of a page's rows."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return {row.split(" | ")[0].removeprefix("| ") for row in text.splitlines() if row[:2] == "| "}


@pytest.mark.slow
def test_ops_of_a_sample_pass() -> None:
    ops = sweep("torch_ops")
    failing = told("torch_ops.md")
    passing = [n for n in ops.OFFERED if ops.shown(n) not in failing]
    assert len(passing) > 400
    for name in random.Random(SEED).sample(passing, OPS):
        found = ops.judged(name)
        assert found.how == "passed", f"{name} of the sample of {SEED}: {found.how}, {found.why}"


@pytest.mark.slow
def test_architectures_of_a_sample_agree() -> None:
    models = sweep("torch_models")
    known = models.rows_of(ROOT / "docs" / "torch_models.md")
    for name in random.Random(SEED).sample(QUICK.split(), MODELS):
        row = known["transformers", name]
        assert row.agrees == "yes"
        with warnings.catch_warnings():  # those that a module raises when it is exported
            found = models.attempt(models.of_transformers, name)
        text = f"{name} of the sample of {SEED}: {found.reason}"
        assert found.agrees == "yes", text
        assert found.batch == "yes" or row.batch != "yes", text


def test_the_page_of_ops_has_all_of_core_aten() -> None:
    ops = sweep("torch_ops")
    page = (ROOT / "docs" / "torch_ops.md").read_text(encoding="utf-8")
    update = "run `python tests/sweeps/torch_ops.py --write docs/torch_ops.md`"
    assert (
        page.partition("## Core ATen")[2]
        == "\n".join(ops.core_lines()).partition("## Core ATen")[2]
    ), update


def test_the_sweep_finds_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    ops = sweep("torch_ops")
    monkeypatch.setattr(
        ops, "tensors_of", lambda x: [t * 2 for t in ops.leaves(x) if torch.is_tensor(t)]
    )
    assert ops.judged("add").how == "wrong"
