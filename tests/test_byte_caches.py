"""Attention over a cache of bytes on a CPU: it is not stored in floats, and kernels compute what the graph means."""

from __future__ import annotations

import numpy as np
import pytest

import lumigen as lg
from lumigen import fast_lane, nn
from lumigen.dtype import i8
from lumigen.interp.graph import step
from lumigen.pipeline import Compilation, lower_model

ROWS, WIDTH = 192, 64


class Attention(nn.Module):
    """One query of four heads over two of keys and values, each row of them with a scale."""

    def __init__(self) -> None:
        self.keys, self.values = (nn.State(n, (2, ROWS, WIDTH), lg.i8) for n in ("keys", "values"))
        self.scales = nn.State("scales", (2, ROWS))

    def forward(self, q: lg.Tensor, k: lg.Tensor, position: lg.Tensor) -> lg.Tensor:
        self.keys[:, position] = k
        scales = self.scales.unsqueeze(1)
        scores = q @ self.keys.float().transpose(-1, -2) * scales
        scores = scores.masked_fill(lg.arange(ROWS) > position, float("-inf"))
        return (scores.softmax(-1) * scales) @ self.values.float()


def lowered() -> Compilation:
    net = Attention()
    model = lg.Model("attention", net)
    position = lg.spec(dtype=lg.i64, range=(0, ROWS - 1))

    @model.entry(q=lg.spec(2, 2, WIDTH), k=lg.spec(2, WIDTH), position=position)
    def read(q: lg.Tensor, k: lg.Tensor, position: lg.Tensor) -> lg.Tensor:
        return net(q, k, position)

    return lower_model(model.trace(), {})


def test_bytes_are_read_by_the_fold() -> None:
    kernels = lowered().lowered.kernels
    of_bytes = [k for k in kernels if any(b.dtype is i8 for b in k.region.reads())]
    others = [k for k in of_bytes if all(s.dst.dtype is not i8 for s in k.region.stores)]
    assert [k.name.rpartition("_")[2] for k in others] == ["cascade"]


@pytest.mark.slow
def test_the_kernels_compute_the_graph(rng: np.random.Generator) -> None:
    made = lowered()
    states = {
        s.name: rng.integers(-127, 128, s.shape).astype(np.int8)
        if s.dtype is i8
        else (rng.uniform(0.5, 2, s.shape) / 127).astype(np.float32)
        for s in made.lowered.states
    }
    q = rng.normal(size=(2, 2, WIDTH)).astype(np.float32)
    k = np.round(rng.normal(size=(2, WIDTH)) * 40).astype(np.float32)
    given = {"q": q, "k": k, "position": np.array(150)}
    (expected,), _ = (list(x.values()) for x in step(made.traced.entries[0][1], given, {}, states))
    (found,) = fast_lane.load(made.lowered, "-O1").run("read", given, {}, states).values()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
