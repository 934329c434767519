"""examples/minilm/similarity.py with the built project."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from minilm_reference import MODEL

pytestmark = pytest.mark.slow

SENTENCES = (
    "A man is eating a piece of bread.",
    "Someone eats some food.",
    "The stock market fell sharply on Monday.",
)


def test_a_paraphrase_is_nearer_than_another_sentence(project: Path, real: Path) -> None:
    pytest.importorskip("tokenizers")
    script = MODEL.with_name("similarity.py")
    options = ["--project", project, "--tokenizer", real / "tokenizer.json", *SENTENCES]
    done = subprocess.run(
        [sys.executable, script, *options], capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert [line.split("  ")[-1] for line in lines] == list(SENTENCES)
    (same, near, far), *_ = ([float(x) for x in line.split()[:3]] for line in lines)
    assert same == pytest.approx(1, abs=1e-3)
    assert near > 0.4 > far
