"""Plans: text, rules, and that their folds compute the region they were made for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import lumigen as lg
from lumigen import functional as F
from lumigen.errors import VerifyFailed
from lumigen.frontend import Traced
from lumigen.interp import tile
from lumigen.interp.plan import run_folds
from lumigen.interp.region import evaluate
from lumigen.lower.assemble import LoweredKernel, assemble
from lumigen.lower.simt import simt
from lumigen.plan import KernelPlan, Loop, LoopFold
from lumigen.printer.plan import show
from lumigen.region import carried
from lumigen.targets.cpu.device import CPU
from lumigen.tile import For
from lumigen.verify.plan import verify_kernel as verify

ROWS = lg.Dim("rows", 1, 64, typical=32)


def attention(x: lg.Tensor) -> lg.Tensor:
    q = x.unflatten(-1, (4, -1)).transpose(0, 1)
    return F.scaled_dot_product_attention(q, q, q, is_causal=True)


MODELS = {
    "map": lambda x: x.exp() + 1,
    "softmax": lambda x: x.softmax(-1),
    "layer_norm": lambda x: F.layer_norm(x, (32,)),
    "column_sum": lambda x: x.sum(0),
    "log_sum_exp": lambda x: x.logsumexp(-1),
    "attention": attention,
}


def traced(name: str) -> Traced:
    model = lg.Model("plans")

    @model.entry(x=lg.spec(ROWS, 32))
    def run(x: lg.Tensor) -> lg.Tensor:
        return MODELS[name](x)

    return model.trace()


def kernels(name: str) -> list[LoweredKernel]:
    return [k for k in assemble(traced(name).entries, CPU).kernels if k.plan is not None]


def folds(plan: KernelPlan) -> list[LoopFold]:
    """The folds of a plan in the order in which they run."""
    return [loop.fold for loop in plan.loops() if loop.carries]


@pytest.mark.parametrize("rows", [1, 7, 64])
@pytest.mark.parametrize("name", MODELS)
def test_folds_compute_the_region(name: str, rows: int, rng: np.random.Generator) -> None:
    for kernel in kernels(name):
        plan = kernel.plan
        assert plan is not None
        (store,) = plan.region.stores
        dims = {ROWS: rows}
        buffers = {
            b.name: rng.standard_normal([int(e.evaluate(dims)) for e in b.dims]).astype(np.float32)
            for b in plan.region.reads()
        }
        want = evaluate(plan.region, buffers, dims)[store.dst.name]
        for size in (1, 5, 64):
            (got,) = run_folds(folds(plan), (store.value,), store.axes, buffers, dims, tile=size)
            np.testing.assert_allclose(got.reshape(want.shape), want, rtol=1e-5, atol=1e-6)


def test_attention_is_one_kernel_with_one_loop_over_the_keys() -> None:
    (kernel,) = kernels("attention")
    assert kernel.plan is not None
    (fold,) = folds(kernel.plan)
    assert [c.monoid.value for c in fold.carries] == ["max", "sum", "sum"]
    assert kernel.schedule is not None
    assert kernel.schedule.builder == "cascade"


def test_text_names_loops_carries_and_tiles() -> None:
    (kernel,) = kernels("softmax")
    assert kernel.plan is not None
    text = show(kernel.plan, kernel.schedule)
    assert "grid (i0: rows)" in text
    assert text.index("max(#0.old") < text.index("sum(#0.old") < text.index("store out[i0, i1]")
    assert "schedule simt: kept 8192, lanes 128, stretches 4, together 0, visits 8192" in text


def test_a_plan_that_forgets_a_fold_is_refused() -> None:
    (kernel,) = kernels("softmax")
    assert kernel.plan is not None
    (root,) = kernel.plan.root
    cut = replace(root, body=root.body[1:])
    broken = replace(kernel.plan, root=(cut,))
    with pytest.raises(VerifyFailed, match="no fold computes the max over k0"):
        verify(broken)


def test_a_plan_that_stores_twice_is_refused() -> None:
    (kernel,) = kernels("map")
    assert kernel.plan is not None
    (root,) = kernel.plan.root
    broken = replace(root, body=(*root.body, *root.body))
    with pytest.raises(VerifyFailed, match="2 stores to out are not the 1 of the region"):
        verify(replace(kernel.plan, root=(broken,)))


def test_the_kernel_runs_the_loops_that_the_plan_has(rng: np.random.Generator) -> None:
    model = lg.Model("plans")

    @model.entry(x=lg.spec(ROWS, 32))
    def run(x: lg.Tensor) -> lg.Tensor:
        return x.sum(-1) * (x * x).sum(-1)

    (kernel,) = assemble(model.trace().entries, CPU).kernels
    assert kernel.plan is not None
    (grid,) = kernel.plan.root
    fold, *stores = grid.body
    assert isinstance(fold, Loop)
    parts = tuple(
        replace(fold, carries=(c,), results=((c.value, carried(0, "new", c.dtype)),))
        for c in fold.carries
    )
    apart = replace(kernel.plan, root=(replace(grid, body=(*parts, *stores)),))
    each = (kernel.plan, apart)
    programs = [simt(verify(p), CPU.schedule(p), CPU.machine).program for p in each]
    loops = [[s for s in p.statements() if isinstance(s, For)] for p in programs]
    assert [sum(s.axis in fold.axes for s in found) for found in loops] == [1, 2]
    x = rng.standard_normal((7, 32)).astype(np.float32)
    out = [tile.run(p, {p.args[0].name: x}, {ROWS: 7})[p.args[1].name] for p in programs]
    np.testing.assert_allclose(out[0], x.sum(-1) * (x * x).sum(-1), rtol=1e-5)
    np.testing.assert_array_equal(*out)
