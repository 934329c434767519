"""Products whose columns the kernel packs: which kernels a convolution becomes, and what they do in numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tiles import run_entry

import lumigen as lg
from lumigen import functional, nn
from lumigen.interp.graph import evaluate
from lumigen.pipeline import Compilation, lower_model
from lumigen.region import Role
from lumigen.tile import Mma, Pack, PackRuns, TileProgram


def lowered(net: nn.Module, *shape: Any) -> Compilation:
    model = lg.Model("net", net, version="0.1.0")

    @model.entry(x=lg.spec(*shape))
    def run(x: Any) -> Any:
        return net(x)

    return lower_model(model.trace(), {})


class Residual(nn.Module):
    """Its shortcut is a convolution too."""

    def __init__(self) -> None:
        self.conv1 = nn.Conv2d(6, 20, 3, 2, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(20)
        self.conv2 = nn.Conv2d(20, 20, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(20)
        self.shortcut = nn.Conv2d(6, 20, 1, 2, bias=False)

    def forward(self, x: Any) -> Any:
        y = self.bn1(self.conv1(x)).relu()
        return (self.bn2(self.conv2(y)) + self.shortcut(x)).relu()


def programs(done: Compilation) -> list[TileProgram]:
    """Of the entries' kernels, without those that make weights."""
    launched = {x.kernel for p in done.lowered.programs for x in p.launches}
    return [k.program for k in done.lowered.kernels if k.name in launched]


def test_a_residual_block_is_a_kernel_for_each_convolution() -> None:
    done = lowered(Residual(), 1, 6, 19, 18)
    assert [p.skeleton for p in programs(done)] == ["panel"] * 3
    windows = [
        b for p in programs(done) for b in p.args if b.role is Role.TEMP and len(b.dims) != 4
    ]
    assert not windows  # temporaries are images, no matrix of windows is stored
    for p in programs(done):
        found = list(p.statements())
        assert any(isinstance(s, PackRuns) for s in found)
        assert not any(isinstance(s, Pack) for s in found)  # weights are packed once
        assert all(s.a_stride is not None for s in found if isinstance(s, Mma))


class Split(nn.Module):
    """A half of the channels goes on, and is joined with what came before."""

    def __init__(self) -> None:
        self.first = nn.Conv2d(8, 32, 1)
        self.inner = nn.Conv2d(16, 16, 3, 1, 1)
        self.last = nn.Conv2d(48, 8, 1)

    def forward(self, x: Any) -> Any:
        parts = list(functional.silu(self.first(x)).chunk(2, 1))
        parts.append(parts[-1] + self.inner(parts[-1]).relu())
        return self.last(lg.cat(parts, 1))


def test_what_is_joined_is_computed_on_its_own() -> None:
    """The region of a concatenation wants a contraction at some of its places; its kernel copies what others stored."""
    assert [p.skeleton for p in programs(lowered(Split(), 1, 8, 30, 30))] == [
        "panel", "panel", "simt", "panel",
    ]  # fmt: skip


def test_windows_of_a_value_make_it_no_larger() -> None:
    """What a convolution reads is stored, with all that is done to it, however often windows show it."""
    net = nn.Sequential(nn.Conv2d(8, 8, 3, 1, 1), nn.SiLU(), nn.Conv2d(8, 8, 5, 1, 2))
    first, last = programs(lowered(net, 1, 8, 20, 20))
    assert (first.skeleton, last.skeleton) == ("panel", "panel")


def test_what_is_put_between_is_computed_on_its_own() -> None:
    """Tiles have columns side by side; loads of both phases put them between each other. Weights are packed once."""
    for net in (
        nn.ConvTranspose2d(16, 16, 2, 2),
        nn.Sequential(nn.Conv2d(16, 64, 3, 1, 1), nn.ReLU(), nn.PixelShuffle(2)),
    ):
        done = lowered(net, 1, 16, 32, 32)
        product, shuffle = programs(done)
        assert (product.skeleton, shuffle.skeleton) == ("panel", "simt")
        assert not any(isinstance(s, Pack) for s in product.statements())
        body = done.model.kernels[-1].body
        assert "load_phases<2>(" in body
        assert "build_lanes(" not in body


def test_rows_without_strides_are_packed_before() -> None:
    """Once for all tiles of columns: the taps of each phase of a kernel larger than its stride."""
    done = lowered(nn.ConvTranspose2d(16, 8, 4, 2, 1), 1, 16, 24, 24)
    pack, product, shuffle = programs(done)
    assert (pack.skeleton, product.skeleton, shuffle.skeleton) == ("simt", "panel", "simt")
    assert not any(isinstance(s, Pack) for s in product.statements())
    assert all(s.a_stride is not None for s in product.statements() if isinstance(s, Mma))


def test_what_is_made_larger_is_packed_from_the_small_image() -> None:
    """Columns that repeat pixels are runs too: no larger image is stored, and no matrix of its windows."""
    net = nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(3, 4, 3, 1, 1))
    (program,) = programs(lowered(net, 1, 3, 8, 10))
    (packed,) = (s for s in program.statements() if isinstance(s, PackRuns))
    assert packed.repeat == 2


def test_pooling_runs_over_lanes() -> None:
    """Windows of a few points leave lanes to the axis of what is stored; reads at an edge are bounded."""
    for stride in (1, 2):
        net = nn.AvgPool2d(3, stride, 1, count_include_pad=False)
        done = lowered(net, 1, 4, 30, 30)
        (kernel,) = done.model.kernels
        assert "for_lanes(" in kernel.body
        assert "load_between(" in kernel.body
        assert "build_lanes(" not in kernel.body


NETS: dict[str, tuple[Callable[[], nn.Module], tuple[Any, ...]]] = {
    "residual": (Residual, (1, 6, 19, 18)),
    "batches": (lambda: nn.Conv2d(3, 17, 3, 1, 1), (lg.Dim("batch", 1, 4), 3, 7, 9)),
    "parts_of_depth": (lambda: nn.Conv2d(40, 5, 3, 1, 1), (1, 40, 5, 6)),
    "strided": (lambda: nn.Conv2d(3, 4, (3, 2), (2, 3), (1, 2)), (2, 3, 11, 10)),
    "dilated": (lambda: nn.Conv2d(3, 4, 3, 1, 3, 3), (2, 3, 8, 9)),
    "sequence": (lambda: nn.Conv1d(5, 7, 3, 2, 1), (1, 5, lg.Dim("length", 1, 40))),
    "volume": (lambda: nn.Conv3d(2, 3, 3, 1, 1), (1, 2, 4, 5, 6)),
    "transposed": (lambda: nn.ConvTranspose2d(16, 8, 4, 2, 1), (1, 16, 24, 24)),
    "transposed_groups": (lambda: nn.ConvTranspose2d(16, 16, 5, 2, 1, 1, 2), (1, 16, 16, 17)),
    "enlarged": (lambda: nn.Sequential(nn.Upsample(scale_factor=3), nn.Conv2d(3, 4, 3, 1, 1)), (1, 3, 7, 9)),
    "enlarged_dynamic": (
        lambda: nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(3, 4, 3, 1, 1)),
        (1, 3, lg.Dim("h", 1, 40, typical=7), lg.Dim("w", 1, 40, typical=9)),
    ),
    "points": (lambda: nn.Conv2d(6, 20, 1), (2, 6, 7, 5)),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", NETS)
def test_kernels_do_what_the_graph_says(name: str, rng: np.random.Generator) -> None:
    make, shape = NETS[name]
    done = lowered(make(), *shape)
    ((_, graph),) = done.traced.entries
    assert any(isinstance(s, PackRuns) for p in programs(done) for s in p.statements())
    sizes = [
        3 if isinstance(e, lg.Dim) and e.name == "batch" else 29 if isinstance(e, lg.Dim) else e
        for e in shape
    ]
    inputs = {"x": rng.normal(size=sizes).astype(np.float32)}
    weights = {
        w.name: rng.uniform(0.5, 1, w.shape).astype(np.float32)
        for w in (s.weight for s in done.lowered.weights)
    }
    want = evaluate(graph, inputs, weights)
    got = run_entry(done.lowered, inputs, weights)
    for key, value in want.items():
        np.testing.assert_allclose(got[key], value, rtol=2e-5, atol=2e-5 * np.abs(value).max())
