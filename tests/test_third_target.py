"""A target that the package does not know: a row and a folder are enough, and nobody names a target."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pytest
from plain_target.row import BACKEND
from safetensors.numpy import save_file

import lumigen as lg
from lumigen import cli
from lumigen.interp.graph import evaluate
from lumigen.target import TARGETS

ROOT = Path(__file__).parent.parent
DIGITS = ROOT / "examples" / "digits" / "model.py"


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(TARGETS, BACKEND.target.name, BACKEND)
    return BACKEND.target.name


def numbers(rng: np.random.Generator) -> dict[str, np.ndarray]:
    found = lg.load_model_file(DIGITS).trace().weights
    return {w.name: (rng.normal(size=w.shape) / 8).astype(np.float32) for w in found}


def test_a_third_target_is_emitted(plain: str, tmp_path: Path) -> None:
    out = tmp_path / "digits"
    assert cli.run(["compile", str(DIGITS), "--target", plain, "--no-build", "-o", str(out)]) == 0
    kernels = sorted((out / "kernels").glob("k*.cpp"))
    assert kernels
    for kernel in kernels:
        text = kernel.read_text(encoding="utf-8")
        assert "Vec" not in text
        assert "for (int64_t" in text
    headers = {path.name for path in (out / "runtime").glob("*.h")}
    assert "plain.h" in headers
    assert not headers & {"simd.h", "panel.h", "vmath.h"}


@pytest.mark.slow
def test_a_third_target_runs(plain: str, tmp_path: Path, rng: np.random.Generator) -> None:
    weights, out = numbers(rng), tmp_path / "digits"
    save_file(weights, tmp_path / "digits.safetensors")
    command = ["compile", str(DIGITS), "--weights", str(tmp_path / "digits.safetensors")]
    assert cli.run([*command, "--target", plain, "-o", str(out)]) == 0
    x = rng.normal(size=(5, 64)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    found = tmp_path / "out.npz"
    said = ["run", str(out), "--input", f"x={tmp_path / 'x.npy'}", "--output", str(found)]
    assert cli.run(said) == 0
    ((_, graph),) = lg.load_model_file(DIGITS).trace().entries
    with np.load(found) as saved:
        np.testing.assert_allclose(
            saved["probs"], evaluate(graph, {"x": x}, weights)["probs"], 1e-5
        )


# Texts for users, and words that are no target, each with its reason.
NO_TARGETS = {
    "frontend/offered.py": "names of PyTorch's that users may look for",
    "frontend/primitive.py": "devices of PyTorch, and what to say instead of `to`",
    "importers/hugging_face/processed.py": "a device of PyTorch",
    "cli/__init__.py": "the examples in a help text",
    "cli/options.py": "the example in a help text",
    "names.py": "words of CUDA's headers, which users may not choose whatever the target is",
}
PACKAGE = ROOT / "lumigen"
FILES = {
    name: ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted(PACKAGE.rglob("*.py"))
    if not (name := path.relative_to(PACKAGE).as_posix()).startswith("targets/")
}


def named(tree: ast.Module) -> list[str]:
    """The strings that name a target or an architecture, less docstrings."""
    texts = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    constants = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and id(n) not in texts]
    strings = [n.value for n in constants if isinstance(n.value, str)]
    return [s for s in strings if re.search(r"\b(cpu|cuda)\b|\bsm_\d", s)]


def test_no_target_is_named_outside_of_the_rows() -> None:
    found = {name: s for name, tree in FILES.items() if (s := named(tree))}
    more = {name: s for name, s in found.items() if name not in NO_TARGETS}
    assert not more, f"what a target has of its own stands in lumigen/targets/<name>: {more}"
    assert NO_TARGETS.keys() <= found.keys(), "an exception that is not needed"


def test_only_the_registry_knows_the_rows() -> None:
    """So nothing else can compare with one of them."""
    importing = {
        name
        for name, tree in FILES.items()
        for n in ast.walk(tree)
        if isinstance(n, ast.ImportFrom) and (n.module or "").startswith("lumigen.targets")
    }
    assert importing == {"target.py"}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("x == 'cuda'", 1),
        ("f(a='cpu')", 1),
        ("y = f'{x}-cpu'", 1),
        ("a.startswith('sm_90')", 1),
        ("'says cuda'", 0),
        ("x = 'barracuda'", 0),
    ],
)
def test_every_name_is_seen(text: str, count: int) -> None:
    assert len(named(ast.parse(text))) == count
