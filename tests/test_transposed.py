"""Maps that read along one axis and store along another: tiles of a block, checked by the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tiles import run_entry, traced

import lumigen as lg
from lumigen.dtype import bf16, f16, f32
from lumigen.interp.graph import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.targets.cuda.device import CUDA
from lumigen.targets.cuda.machines import SM_80
from lumigen.tile import Transposed
from lumigen.verify.tile import verify

N = lg.Dim("n", 1, 8, typical=3)


def lowered(function: Callable[..., Any], **inputs: Any) -> LoweredModel:
    entry = traced(function, **inputs)
    for step in GRAPH_PASSES:
        entry = step(entry)
    return assemble((("entry", entry),), CUDA)


def _last(x: Any) -> Any:
    return x.permute(0, 2, 3, 1)


CASES: dict[str, tuple[Callable[..., Any], dict[str, Any], int]] = {
    # a function, its inputs, and how many tiles the kernel has
    "channels last": (_last, {"x": lg.spec(N, 70, 9, 11, dtype=lg.f16)}, 1),
    "channels first": (
        lambda x: x.permute(0, 3, 1, 2),
        {"x": lg.spec(2, 9, 9, 40, dtype=lg.bf16)},
        1,
    ),
    "floats": (lambda x: x.mT, {"x": lg.spec(N, 33, 130)}, 1),
    "a map of both": (
        lambda x, scale, r: (_last(x).to(lg.f32) * scale).relu() + r,
        {
            "x": lg.spec(2, 24, 8, 9, dtype=lg.f16),
            "scale": lg.spec(24),
            "r": lg.spec(2, 8, 9, 24),
        },
        1,
    ),
    "two tiles": (
        lambda x, y: (_last(x) + _last(y)) * y.permute(0, 2, 3, 1).exp(),
        {"x": lg.spec(1, 20, 8, 9), "y": lg.spec(1, 20, 8, 9)},
        1,
    ),
    "parts side by side": (
        lambda x, y: _last(lg.cat((x, y), 1)),
        {"x": lg.spec(2, 20, 8, 9), "y": lg.spec(2, 24, 8, 9)},
        1,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_map_across_axes_has_its_values(name: str, rng: np.random.Generator) -> None:
    function, specs, tiles = CASES[name]
    graph, model = traced(function, **specs), lowered(function, **specs)
    (kernel,) = model.kernels
    (statement,) = (s for s in verify(kernel.program).statements() if isinstance(s, Transposed))
    assert len(statement.tiles) == tiles
    for n in (1, 5):
        inputs = {
            key: rng.standard_normal(
                [n if d is N or str(d) == "n" else int(d) for d in s.shape]
            ).astype(s.dtype.numpy)
            for key, s in specs.items()
        }
        (wanted,) = evaluate(graph, inputs, {}).values()
        (found,) = run_entry(model, inputs, {}).values()
        np.testing.assert_allclose(
            np.asarray(found, np.float32), np.asarray(wanted, np.float32), rtol=1e-2, atol=1e-2
        )


def test_other_maps_have_no_tiles() -> None:
    """Whose axes are short, that read along what they store, or that read along both behind a condition."""
    functions = {
        "few": (_last, {"x": lg.spec(N, 3, 9, 11)}),
        "along": (lambda x: x.permute(1, 0, 2) + 1, {"x": lg.spec(40, 30, 50)}),
        "both": (
            lambda x, y: lg.cat((_last(x), y), -1),
            {"x": lg.spec(2, 20, 8, 9), "y": lg.spec(2, 8, 9, 24)},
        ),
    }
    for function, specs in functions.values():
        kernels = lowered(function, **specs).kernels
        assert not any(isinstance(s, Transposed) for k in kernels for s in k.program.statements())


def test_tiles_fit_shared_memory() -> None:
    tiles = SM_80.teams.transposed
    assert tiles is not None
    for dtype in (f16, bf16, f32):
        assert tiles.side**2 * dtype.itemsize <= tiles.bytes <= SM_80.shared_bytes
