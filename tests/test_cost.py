"""What kernels cost: expressions of the dims against formulas, and against counting at every point."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any

import pytest
from tiles import traced

import lumigen as lg
from lumigen.cost import cost
from lumigen.dtype import bf16, f32, f64, i64
from lumigen.emit.manifest import describe
from lumigen.frontend import functional, nn
from lumigen.frontend.spec import spec
from lumigen.index import Axis, Dim
from lumigen.lower.assemble import LoweredKernel, assemble
from lumigen.ops import Op
from lumigen.pipeline import lower_model
from lumigen.region import (
    Buffer,
    Choose,
    Expr,
    Holds,
    Prim,
    Read,
    Reduce,
    Region,
    children,
    free_axes,
)
from lumigen.target import parse_target
from lumigen.targets.cpu.device import CPU
from lumigen.targets.cuda.device import CUDA

B = Dim("batch", 1, 64, typical=8)
S = Dim("rows", 2, 64, typical=16)
SIZES = ({B: 1, S: 2}, {B: 3, S: 5}, {B: 8, S: 16})

CASES: Mapping[str, Callable[[], Any]] = {
    "matmul": lambda: traced(lambda x, w: x @ w, x=spec(B, 12), w=spec(12, 20)),
    "batched": lambda: traced(lambda x, y: x @ y, x=spec(B, S, 6), y=spec(B, 6, S)),
    "softmax": lambda: traced(lambda x: x.softmax(-1), x=spec(B, S)),
    "bf16": lambda: traced(lambda x: (x * 2).relu(), x=spec(B, S, dtype=bf16)),
    "slice": lambda: traced(lambda x: x[:, :3] + 1, x=spec(B, 10)),
    "broadcast": lambda: traced(lambda x, y: x + y, x=spec(B, 1), y=spec(S)),
    "max": lambda: traced(lambda x: x.amax(0), x=spec(S, B)),
    "attention": lambda: traced(
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v),
        q=spec(B, S, 4),
        k=spec(B, S, 4),
        v=spec(B, S, 4),
    ),
}


def kernels(name: str) -> tuple[LoweredKernel, ...]:
    return assemble(((name, CASES[name]()),), CPU).kernels


def evaluated(e: Expr, at: Mapping[Any, int]) -> tuple[Expr, ...]:
    """What of an expression is evaluated at a point."""
    if isinstance(e, Choose) and isinstance(e.condition, Holds):
        taken = all(c.slack.evaluate(at) >= 0 for c in e.condition.conditions)
        return (e.then if taken else e.otherwise,)
    return children(e)


def counted(region: Region, dims: Mapping[Dim, int]) -> tuple[int, int, int]:
    """The same three numbers by going to every point of every axis."""
    operations: set[tuple[Expr, tuple[int, ...]]] = set()
    read: set[tuple[Buffer, tuple[int, ...]]] = set()
    written: set[tuple[Buffer, tuple[int, ...]]] = set()

    def points(axes: tuple[Axis, ...], env: dict[Any, int]) -> Iterator[dict[Any, int]]:
        for at in product(*(range(int(a.extent.evaluate(env))) for a in axes)):
            yield {**env, **dict(zip(axes, at, strict=True))}

    def visit(e: Expr, env: dict[Any, int]) -> None:
        inner = points(e.axes, env) if isinstance(e, Reduce) else iter([env])
        for at in inner:
            if isinstance(e, Prim | Reduce) and e.dtype.is_float:
                axes = free_axes(e.body) | {*e.axes} if isinstance(e, Reduce) else free_axes(e)
                key = (e, tuple(at[a] for a in sorted(axes, key=str)))
                if key in operations:
                    continue
                if not (isinstance(e, Prim) and e.op is Op.CONTIGUOUS):
                    operations.add(key)
            if isinstance(e, Read):
                read.add((e.source, tuple(int(i.evaluate(at)) for i in e.at)))
            for c in evaluated(e, at):
                visit(c, at)

    for s in region.stores:
        for at in points(s.axes, dict(dims)):
            visit(s.value, at)
            written.add((s.dst, tuple(int(i.evaluate(at)) for i in s.at)))
    size = lambda found: sum(b.dtype.itemsize for b, _ in found)  # noqa: E731
    return len(operations), size(read), size(written)


@pytest.mark.parametrize("name", CASES)
def test_every_point_is_counted_once(name: str) -> None:
    for k in kernels(name):
        for dims in SIZES[:2]:
            assert cost(k.region).at(dims) == counted(k.region, dims), (k.name, dims)


def last(name: str, dims: Mapping[Dim, int]) -> tuple[int, ...]:
    """Of the last kernel: one before it may have packed an operand."""
    return cost(kernels(name)[-1].region).at(dims)


@pytest.mark.parametrize("dims", SIZES)
def test_formulas(dims: Mapping[Dim, int]) -> None:
    b, s = dims[B], dims[S]
    assert last("matmul", dims) == (2 * b * 12 * 20, 4 * (b * 12 + 12 * 20), 4 * b * 20)
    assert last("batched", dims) == (2 * b * s * s * 6, 4 * 2 * b * s * 6, 4 * b * s * s)
    flops, *moved = last("softmax", dims)
    assert moved == [4 * b * s, 4 * b * s]
    assert 5 * b * s <= flops <= 10 * b * s + 2 * b
    assert last("bf16", dims)[1:] == (2 * b * s, 2 * b * s)
    assert last("slice", dims) == (3 * b, 4 * 3 * b, 4 * 3 * b)


@pytest.mark.parametrize("rows", [2, 1000])
def test_a_gather_reads_no_more_than_the_table(rows: int) -> None:
    entry = traced(lambda x, ids: x[ids], x=spec(rows, 8), ids=spec(B, dtype=i64, range=(0, 1)))
    (k,) = assemble((("gather", entry),), CPU).kernels
    for b in (1, 5, 64):
        found = cost(k.region).at({B: b})
        assert found == (0, 8 * b + 4 * 8 * min(b, rows), 4 * 8 * b)


def test_of_indices_those_that_are_read_count() -> None:
    entry = traced(lambda x: x.sort(descending=True)[0][:10], x=spec(1000))
    (_, gather) = assemble((("best", entry),), CPU).kernels
    assert gather.cost.at({}) == (0, 10 * (8 + 4), 10 * 4)


def test_of_a_state_only_what_changes_is_moved() -> None:
    def write(x: lg.Tensor, position: lg.Tensor) -> lg.Tensor:
        state = nn.State("s", (64, 8))
        state[position : position + x.shape[0]] = x
        return state.sum(-1)

    where = spec(dtype=i64, range=(0, 56))
    made = assemble((("step", traced(write, x=spec(B, 8), position=where)),), CPU).kernels
    (over,) = (k for k in made if k.region.stores[0].dst in k.region.reads())
    for b in (1, 8):
        assert over.cost.at({B: b}) == (0, 8 + 4 * 8 * b, 4 * 8 * b)


@pytest.mark.parametrize(("dtype", "device"), [(f32, "f32"), (bf16, "bf16")])
def test_products_compute_in_what_matrix_instructions_take(dtype: lg.DType, device: str) -> None:
    entry = traced(lambda x, w: x @ w, x=spec(64, 64, dtype=dtype), w=spec(64, 64, dtype=dtype))
    (on_cpu,), (on_gpu,) = (assemble((("product", entry),), d).kernels for d in (CPU, CUDA))
    assert on_cpu.computes is f32
    assert on_gpu.computes.name == device


def test_others_compute_in_their_widest_floats() -> None:
    for made, wanted in (("softmax", f32), ("bf16", f32), ("matmul", f32)):
        assert {k.computes for k in kernels(made)} == {wanted}
    (k,) = assemble((("double", traced(lambda x: x + x, x=spec(B, dtype=f64))),), CPU).kernels
    assert k.computes is f64


def test_the_manifest_has_every_launch() -> None:
    model = lg.Model("two")

    @model.entry(
        x=lg.spec(lg.Dim("rows", 1, 4096), 512, dtype=lg.bf16), w=lg.spec(512, 768, dtype=lg.bf16)
    )
    def product_of(x: Any, w: Any) -> Any:
        return (x @ w).softmax(-1)

    compiled = lower_model(model.trace(), {}, target=parse_target("cuda:sm_80,sm_90a")).model
    (entry,) = describe(compiled, 1)["entries"]  # type: ignore[misc]
    (program,) = compiled.programs
    assert [x["kernel"] for x in entry["launches"]] == [x.kernel for x in program.launches]
    first, *_, softmax = entry["launches"]
    assert "sm_90a" in first["when"]
    assert "when" not in softmax
    assert first["computes"] == "bf16"
    assert first["flops"] == "786432*rows"
    assert (first["bytes_read"], first["bytes_written"]) == ("1024*rows + 786432", "1536*rows")
    assert all(place.startswith("test_cost.py:") for place in softmax["lines"])


def test_a_bag_reads_its_own_ids() -> None:
    def flops(bags: int) -> int:
        ids, table = spec(bags, 12, dtype=i64, range=(0, 99)), spec(100, 16)
        graph = traced(
            lambda ids, table: functional.embedding_bag(ids, table), ids=ids, table=table
        )
        return sum(
            int(k.cost.flops.evaluate({})) for k in assemble((("bags", graph),), CPU).kernels
        )

    assert flops(64) <= 64 * flops(1)
