"""One token over a cache on a GPU: a fold in parts and their merge, at the first, the second and the last position."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from one_token import ATTENDS, KEPT, LENGTH, WIDTH, specs_of_token, token
from tiles import traced

import lumigen as lg
from lumigen import nn
from lumigen.interp.graph import step

pytestmark = pytest.mark.gpu

TOLERANCE = {lg.f32: 2e-5, lg.f16: 2e-2, lg.bf16: 3e-2}
POSITIONS = (0, 1, 64, 511, LENGTH - 1)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_one_token_agrees_with_the_interpreter(
    dtype: lg.DType, target: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    model = lg.Model("one_token")
    whole = lg.spec(KEPT, LENGTH, WIDTH, dtype=dtype)

    @model.entry(k=whole, v=whole)
    def fill(k: lg.Tensor, v: lg.Tensor) -> lg.Tensor:
        keys, values = (nn.State(n, (KEPT, LENGTH, WIDTH), dtype) for n in ("keys", "values"))
        keys[:] = k
        values[:] = v
        return k[0, 0, 0] + v[0, 0, 0]

    for name, (attends, group) in ATTENDS.items():
        entry = token(attends, dtype)
        entry.__name__ = name
        model.entry(**specs_of_token(group, dtype))(entry)
    context = lg.compile(model, target, tmp_path / "out").Model().context()
    for name, (attends, group) in ATTENDS.items():
        graph = traced(token(attends, dtype), **specs_of_token(group, dtype))
        for pos in POSITIONS:
            caches = {
                n: rng.standard_normal((KEPT, LENGTH, WIDTH)).astype(dtype.numpy)
                for n in ("keys", "values")
            }
            given = {
                n: rng.standard_normal((KEPT, rows, WIDTH)).astype(dtype.numpy)
                for n, rows in (("q", group), ("k", 1), ("v", 1))
            }
            given["pos"] = np.array(pos)
            expected, _ = step(graph, given, {}, {n: c.copy() for n, c in caches.items()})
            for kept in caches.values():
                kept[:, pos + 1 :] = np.nan
            context.fill(*caches.values())
            found = getattr(context, name)(*given.values())
            np.testing.assert_allclose(
                np.asarray(found).astype(np.float64),
                expected["out"].astype(np.float64),
                rtol=TOLERANCE[dtype],
                atol=TOLERANCE[dtype],
                err_msg=f"{name} at {pos}",
            )
