"""Where temporaries lie: values that other kernels look indices up in keep their order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tiles import run_entry, traced

import lumigen as lg
from lumigen import functional as F
from lumigen import nn
from lumigen.dtype import f16
from lumigen.interp.graph import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.lower.retype import retype
from lumigen.program import Panels
from lumigen.targets.cpu.device import CPU
from lumigen.targets.cuda.device import CUDA


def test_what_indices_are_looked_up_in_keeps_its_order(rng: np.random.Generator) -> None:
    def looked_up(x: Any, table: Any) -> dict[str, Any]:
        chosen = x.index_select(1, (x % 5).flatten()[:4])
        again = x.index_select(1, (x % 5).flatten()[:4])
        both = lg.cat([chosen, again], 1).flatten()
        return {
            "products": again @ again.mT,
            "both": both,
            "rows": table.index_select(0, both[:4]),
        }

    columns = lg.Dim("columns", 1, 9, typical=5)
    graph = entry = traced(looked_up, x=lg.spec(17, 5, 2, dtype=lg.i32), table=lg.spec(1, columns))
    for step in GRAPH_PASSES:
        entry = step(entry)
    model = assemble((("entry", entry),), CPU)
    for _ in range(8):
        inputs = {
            "x": rng.integers(-2, 3, (17, 5, 2)).astype(np.int32),
            "table": rng.standard_normal((1, 3)).astype(np.float32),
        }
        wanted, found = evaluate(graph, inputs, {}), run_entry(model, inputs, {})
        for name, value in wanted.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-5, err_msg=name)


def test_extents_that_are_quotients_do_not_turn_a_layout() -> None:
    """An image of h // 2 rows is stored as one of a fixed number: channels before rows, which windows run along."""
    net = nn.Sequential(
        nn.Conv2d(3, 20, 2, stride=2), nn.Conv2d(20, 20, 3, padding=1), nn.Conv2d(20, 20, 1)
    )
    h, w = (lg.Dim(name, 8, 64, typical=24) for name in "hw")
    for shape in ((1, 3, 24, 24), (1, 3, h, w)):
        entry = traced(
            lambda x, net=net: net(x), {p: n for n, p in net.named_parameters()}, x=lg.spec(*shape)
        )
        for step in GRAPH_PASSES:
            entry = step(entry)
        kernels = assemble((("entry", entry),), CPU).kernels
        assert all(k.region.stores[0].dst.dims[1] == 20 for k in kernels)


def _cuda_kernels(net: nn.Module, *shape: Any) -> tuple[LoweredModel, Any]:
    model = lg.Model("images", net)

    @model.entry(x=lg.spec(*shape))
    def run(x: Any) -> Any:
        return {"y": net(x)}

    ((_, graph),) = model.trace().entries
    entry = retype(graph, f16)
    for step in GRAPH_PASSES:
        entry = step(entry)
    return assemble((("entry", entry),), CUDA, dtype=f16), graph


class _Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Any) -> Any:
        return F.relu(x + self.second(F.relu(self.norm(self.first(x)))))


IMAGES = {
    "residual": _Residual(16),
    "pool": nn.Sequential(
        nn.Conv2d(16, 24, 3, padding=1), nn.MaxPool2d(3, 2, 1), nn.Conv2d(24, 16, 3, stride=2)
    ),
    "enlarged": nn.Sequential(
        nn.Conv2d(16, 16, 3, padding=1), nn.Upsample(scale_factor=2), nn.Conv2d(16, 8, 5, padding=2)
    ),
    "depthwise": nn.Sequential(
        nn.Conv2d(16, 32, 1),
        nn.Conv2d(32, 32, 3, padding=1, groups=32),
        nn.ReLU(),
        nn.Conv2d(32, 16, 3, padding=1, dilation=2),
    ),
    "groups": nn.Sequential(nn.Conv2d(32, 32, 3, groups=2), nn.Conv2d(32, 16, 3, groups=2)),
    "transposed": nn.Sequential(
        nn.Conv2d(16, 16, 3, padding=1), nn.ConvTranspose2d(16, 8, 2, stride=2)
    ),
    "joined": nn.Sequential(nn.Conv2d(16, 16, 3), nn.GroupNorm(4, 16), nn.Conv2d(16, 16, 3)),
    "few": nn.Sequential(nn.Conv2d(16, 3, 3), nn.ReLU(), nn.Conv2d(3, 16, 3, stride=2)),
    "odd": nn.Sequential(nn.Conv2d(16, 12, 3), nn.ReLU(), nn.Conv2d(12, 16, 3)),
}


@pytest.mark.parametrize("name", IMAGES)
def test_a_network_of_images_keeps_its_values_in_any_layout(
    name: str, rng: np.random.Generator
) -> None:
    net = IMAGES[name]
    shape = (lg.Dim("n", 1, 4, typical=2), 32 if name == "groups" else 16, 9, 10)
    model, graph = _cuda_kernels(net, *shape)
    weights = {
        key: (rng.random(p.shape) + 0.5 if "var" in key else rng.standard_normal(p.shape) / 8)
        .astype(np.float16)
        .astype(np.float32)
        for key, p in (*net.named_parameters(), *net.named_buffers())
    }
    x = rng.standard_normal((2, *shape[1:])).astype(np.float16)
    (wanted,) = evaluate(graph, {"x": x.astype(np.float32)}, weights).values()
    (found,) = run_entry(model, {"x": x}, weights).values()
    np.testing.assert_allclose(found.astype(np.float32), wanted, rtol=2e-2, atol=2e-2)


def _stored(model: LoweredModel) -> list[tuple[str, tuple[int, ...]]]:
    """What each kernel stores to memory of the model's own, by its kind."""
    return [
        (k.program.skeleton, tuple(d.estimate() for d in s.dst.dims))
        for k in model.kernels
        for s in k.region.stores
    ]


def test_images_that_products_read_through_windows_have_their_channels_innermost() -> None:
    """The input is copied once; what is between the convolutions never is, and weights lie so in their file."""
    model, _ = _cuda_kernels(IMAGES["residual"], 2, 16, 9, 10)
    assert _stored(model) == [
        ("transposed", (2, 9, 10, 16)),
        ("pipeline", (2, 9, 10, 16)),
        ("pipeline", (2, 16, 9, 10)),
    ]
    layouts = {w.weight.name: w.layout for w in model.weights}
    assert layouts["first.weight"] == Panels(n=256, k=9, n_stride=9, k_stride=1, width=16)
    assert layouts["first.bias"] is None


def test_images_of_few_channels_get_some_of_zeros() -> None:
    """Image and weights are copied; the image is then stored with its channels innermost, as others are."""
    net = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3))
    model, _ = _cuda_kernels(net, 2, 3, 9, 10)
    assert [dims for _, dims in _stored(model)] == [
        (2, 9, 10, 4),
        (16, 3, 3, 4),
        (2, 9, 10, 16),
        (2, 16, 7, 8),
    ]


def test_what_rows_are_flattened_from_keeps_its_layout() -> None:
    """The product after `flatten` reads channels, then rows: the last convolution stores its image so."""
    first, second = (nn.Conv2d(16, 16, 3, padding=1) for _ in range(2))
    net = nn.Sequential(first, second, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16 * 20, 16))
    model, _ = _cuda_kernels(net, 2, 16, 9, 10)
    dims = [dims for _, dims in _stored(model)]
    assert dims[1:4] == [(2, 9, 10, 16), (2, 16, 9, 10), (2, 16, 4, 5)]


class _Gated(nn.Module):
    """Squeeze and excite."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(32, 8), nn.Linear(8, 32)

    def forward(self, x: Any) -> Any:
        gates = F.sigmoid(self.up(F.relu(self.down(x.mean((2, 3))))))
        return x * gates.unsqueeze(-1).unsqueeze(-1)


def test_gates_of_channels_are_stored_before_the_map_of_an_image() -> None:
    model, _ = _cuda_kernels(_Gated(), 4, 32, 16, 16)
    *before, (skeleton, dims) = _stored(model)
    assert before[-1][1] == (4, 32)
    assert (skeleton, dims) == ("simt", (4, 32, 16, 16))


def test_a_product_that_several_regions_read_is_stored_with_its_map() -> None:
    """A block of 1 x 1 convolutions whose sum the next block reads twice: no map runs alone."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.narrow, self.wide = nn.Conv2d(64, 16, 1), nn.Conv2d(16, 64, 1)

        def forward(self, x: Any) -> Any:
            return F.relu(self.wide(F.relu(self.narrow(x))) + x)

    model, _ = _cuda_kernels(nn.Sequential(Block(), Block(), Block()), 2, 64, 16, 16)
    assert all(skeleton != "simt" for skeleton, _ in _stored(model))
    assert len(model.programs[0].launches) == 6


def test_an_image_that_a_map_reads_many_times_across_is_copied() -> None:
    """Each element of a bilinear enlargement has four of the image, whose channels lie apart."""

    def enlarged(x: Any, w: Any) -> Any:
        return F.conv2d(F.interpolate(x, scale_factor=2, mode="bilinear"), w, padding=1)

    held = {"x": lg.spec(2, 16, 8, 8, dtype=f16), "w": lg.spec(24, 16, 3, 3, dtype=f16)}
    graph = traced(enlarged, **held)
    for step in GRAPH_PASSES:
        graph = step(graph)
    first, *_ = assemble((("entry", graph),), CUDA, dtype=f16).kernels
    assert [b.name for b in first.region.reads()] == ["x"]
    (store,) = first.region.stores
    assert {d.estimate() for d in store.dst.dims} == {2, 8, 16}
