"""The small way on a GPU: what the interpreter says, for mixtures of compilers."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lumigen as lg

pytestmark = pytest.mark.gpu

NUMBER = count()  # graphs that live at a time share no name
ROWS = lg.Dim("rows", 1, 64)


def computed(*compilers: Any, rows: int = 9) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    cx = lg.Graph()
    x = cx.tensor((ROWS, 40), name=f"int {next(NUMBER)}").set(rng.normal(size=(rows, 40)))
    w = cx.tensor((24, 40)).set(rng.normal(size=(24, 40)))
    outs = [(x @ w.mT + 1).softmax(-1).retrieve(), x.argmax(-1).retrieve()]
    cx.compile(*compilers)
    cx.execute()
    return [out.numpy() for out in outs]


@pytest.mark.parametrize(
    ("passes", "bound"),
    [
        ((), 1e-5),
        ((lg.GenericCompiler(),), 1e-5),
        ((lg.GenericCompiler(), lg.HalfCompiler()), 1e-2),
        ((lg.HalfCompiler(lg.bf16), lg.GenericCompiler()), 1e-1),
    ],
    ids=["none", "generic", "f16", "bf16"],
)
def test_a_graph_runs_on_a_gpu(
    passes: Any, bound: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Roundings of 16 bits, relative to the greatest probability."""
    monkeypatch.setenv("LUMIGEN_CACHE", str(tmp_path))
    found = computed(*passes, lg.CUDACompiler())
    wanted = computed(*passes)
    assert found[0].dtype == np.float32
    np.testing.assert_allclose(found[0], wanted[0], atol=bound * wanted[0].max())
    np.testing.assert_array_equal(found[1], wanted[1])


def test_shapes_are_held_against_dims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUMIGEN_CACHE", str(tmp_path))
    with pytest.raises(lg.errors.BadInput, match="rows is 65; it goes from 1 to 64"):
        computed(lg.CUDACompiler(), rows=65)
