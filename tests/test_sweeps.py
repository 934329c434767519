"""Where loops stand: what reductions do not vary with comes behind them, and groups of channels are an axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from tiles import traced

import lumigen as lg
from lumigen import functional as F
from lumigen.index import Axis, Ix, ix
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredKernel, assemble
from lumigen.plan import Loop
from lumigen.targets.cpu.device import CPU
from lumigen.targets.cuda.device import CUDA
from lumigen.tile import Accumulate, For, Stmt, StoreTile

IMAGE = (2, 32, 12, 20)


def kernels(f: Callable[..., Any], *shapes: tuple[int, ...]) -> tuple[LoweredKernel, ...]:
    model = lg.Model("sweeps")

    def run(**inputs: lg.Tensor) -> lg.Tensor:
        return f(*inputs.values())

    model.entry(**{f"x{i}": lg.spec(*shape) for i, shape in enumerate(shapes)})(run)
    return assemble(model.trace().entries, CPU).kernels


def times(body: Sequence[Stmt], kind: type[Stmt], task: Mapping[Axis, Ix]) -> int:
    """How often statements of this kind run in a work tile."""
    return sum(
        (s.hi - s.lo).substitute(task).const * times(s.body, kind, task)
        if isinstance(s, For)
        else isinstance(s, kind)
        for s in body
    )


def work(kernel: LoweredKernel, kind: type[Stmt]) -> int:
    """How often they run in all of them; what stands in no loop over points runs once for each."""
    program = kernel.program
    return sum(times(program.body, kind, {program.task: ix(t)}) for t in range(program.tasks.const))


NORMS: dict[str, tuple[Callable[..., Any], int]] = {
    "softmax over the first axis": (lambda x: x.softmax(0), 2),
    "softmax over channels": (lambda x: x.softmax(1), 2),
    "softmax over rows": (lambda x: x.softmax(2), 2),
    "instance_norm": (F.instance_norm, 2),
    "group_norm": (lambda x: F.group_norm(x, 8), 2),
}


@pytest.mark.parametrize("name", NORMS)
def test_each_element_is_reduced_once(name: str) -> None:
    f, reductions = NORMS[name]
    (kernel,) = kernels(f, IMAGE)
    elements = 2 * 32 * 12 * 20
    assert work(kernel, StoreTile) == elements
    assert work(kernel, Accumulate) == reductions * elements


def test_the_plan_has_the_loops_of_the_kernel() -> None:
    (kernel,) = kernels(lambda x: x.softmax(1), IMAGE)
    assert kernel.plan is not None
    (grid,) = kernel.plan.root
    (lanes,) = grid.body
    assert isinstance(lanes, Loop)
    *folds, after = lanes.body
    assert [a.name for a in grid.axes] == ["i0"]
    assert [a.name for a in lanes.axes] == ["i2i3"]
    assert [isinstance(f, Loop) and bool(f.carries) for f in folds] == [True, True]
    assert isinstance(after, Loop)
    assert [a.name for a in after.axes] == ["i1"]
    assert not after.carries


def test_what_takes_little_to_reduce_does_not_hold_up_a_large_map() -> None:
    """Work tiles reduce the few elements each for itself, rather than wait for one of them to do all."""
    (kernel,) = kernels(lambda x, w: x * w.softmax(0).unsqueeze(-1), (1000, 1000), (1000,))
    (alone,) = kernels(lambda w: w.softmax(0), (1000,))
    assert kernel.program.tasks.const > 50
    assert alone.program.tasks.const == 1
    assert work(kernel, Accumulate) < work(kernel, StoreTile) // 4


@pytest.mark.parametrize(("size", "along"), [(28, True), (56, True), (14, False), (21, False)])
def test_windows_that_share_nothing_are_read_in_vectors(size: int, along: bool) -> None:
    graph = traced(lambda x: F.adaptive_avg_pool2d(x, 7), x=lg.spec(2, 3, size, size, dtype=lg.f16))
    for step in GRAPH_PASSES:
        graph = step(graph)
    (kernel,) = assemble((("entry", graph),), CUDA).kernels
    assert kernel.plan is not None
    kinds = {loop.kind for loop in kernel.plan.loops() if loop.carries}
    assert kinds == {"lanes" if along else "seq"}


def test_groups_of_channels_are_the_batch_of_a_product() -> None:
    (kernel,) = kernels(lambda x, w: F.conv2d(x, w, padding=1, groups=4), IMAGE, (64, 8, 3, 3))
    assert kernel.plan is not None
    (store,) = kernel.plan.region.stores
    assert kernel.program.skeleton == "panel"
    assert [int(a.extent) for a in store.axes] == [2, 4, 16, 12, 20]


def test_heads_that_share_keys_are_stored_as_the_output_has_them() -> None:
    """The result has an axis for groups and one for heads in them, the output one for both."""
    model = lg.Model("sweeps")
    keys = lg.spec(2, 100, 64)

    @model.entry(q=lg.spec(8, 1, 64), k=keys, v=keys, p=lg.spec(dtype=lg.i64, range=(0, 99)))
    def attend(q: lg.Tensor, k: lg.Tensor, v: lg.Tensor, p: lg.Tensor) -> lg.Tensor:
        seen = lg.arange(100) <= p
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)

    (kernel,) = assemble(model.trace().entries, CPU).kernels
    assert kernel.program.skeleton == "cascade"
