"""Programs whose tasks are blocks of threads: their meaning is the graph's, and each kernel has a text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from folds import FEW, FOLDED, KEYS, POSITIONS, specs_of
from small_programs import agree
from tiles import run_entry, traced

import lumigen as lg
from lumigen import functional as F
from lumigen.graph import tensor_of
from lumigen.index import ix
from lumigen.interp.graph import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredKernel, LoweredModel, assemble
from lumigen.lower.devices import Device
from lumigen.lower.pipeline import multiplied_in
from lumigen.ops import Op
from lumigen.printer.tile import show as show_tile
from lumigen.region import Buffer, Expr, Prim, Reduce, Role, read, walk
from lumigen.targets.cpu.device import CPU
from lumigen.targets.cuda.device import CUDA
from lumigen.targets.cuda.speller import device_kernel_body
from lumigen.verify.tile import verify

ROWS = lg.Dim("rows", 1, 300, typical=40)


def attention(x: Any) -> Any:
    q = x.unflatten(-1, (4, -1)).transpose(0, 1)
    return F.scaled_dot_product_attention(q, q, q, is_causal=True)


def residual(x: Any, r: Any) -> Any:
    total = x + r
    return {"y": F.rms_norm(total, (x.shape[-1],)), "total": total}


def maps_in_one(x: Any) -> Any:
    y = x.exp() + 1
    return {"y": y, "z": y * 2, "turned": y.transpose(1, 2) - 1}


MODELS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "map": (lambda x: (x.exp() + 1).tanh(), {"x": lg.spec(ROWS, 64)}),
    "softmax": (lambda x: x.softmax(-1), {"x": lg.spec(ROWS, 64)}),
    "long_softmax": (lambda x: x.softmax(-1), {"x": lg.spec(ROWS, 1500)}),
    "layer_norm": (lambda x: F.layer_norm(x, (64,)), {"x": lg.spec(ROWS, 64)}),
    "residual": (residual, {"x": lg.spec(ROWS, 64), "r": lg.spec(ROWS, 64)}),
    "long_residual": (
        residual,
        {"x": lg.spec(ROWS, 1500, dtype=lg.bf16), "r": lg.spec(ROWS, 1500, dtype=lg.bf16)},
    ),
    "maps_in_one": (maps_in_one, {"x": lg.spec(ROWS, 3, 20)}),
    "edges": (lambda x: F.pad(x, (3, 5)).softmax(-1), {"x": lg.spec(ROWS, 60)}),
    "shared": (lambda x: F.gelu(x) * F.gelu(x).amax(-1, keepdim=True), {"x": lg.spec(ROWS, 60)}),
    "column_sum": (lambda x: x.sum(0), {"x": lg.spec(ROWS, 70)}),
    "row_sum": (lambda x: x.sum(-1), {"x": lg.spec(ROWS, 70)}),
    "all": (lambda x: x.sum(), {"x": lg.spec(ROWS, 70)}),
    "is_greatest": (lambda x: x == x.amax(-1, keepdim=True), {"x": lg.spec(ROWS, 9)}),
    "integers": (lambda x: (x * 3 + 1).sum(-1) % 5, {"x": lg.spec(ROWS, 9, dtype=lg.i32)}),
    "attention": (attention, {"x": lg.spec(ROWS, 64)}),
    "product": (lambda x, y: F.gelu(x @ y), {"x": lg.spec(ROWS, 33), "y": lg.spec(33, 65)}),
    "computed_operand": (
        lambda x, y: (x * 2 + 1).relu() @ y,
        {"x": lg.spec(ROWS, 33), "y": lg.spec(33, 65)},
    ),
    "by_row_sums": (
        lambda x, y, z: (x @ y) / (z.square().sum(1, keepdim=True) + 1),
        {"x": lg.spec(ROWS, 33), "y": lg.spec(33, 65), "z": lg.spec(ROWS, 7)},
    ),
    "by_counts": (
        lambda x, y, z: (x @ y) * (z % 3).sum(0),
        {"x": lg.spec(ROWS, 33), "y": lg.spec(33, 65), "z": lg.spec(7, 65, dtype=lg.i32)},
    ),
    "batched": (
        lambda x, y: x.transpose(1, 2) @ y,
        {"x": lg.spec(3, 20, ROWS), "y": lg.spec(3, 20, 17)},
    ),
    "conv": (
        lambda x, w: F.conv2d(x, w, padding=1),
        {"x": lg.spec(2, 3, 8, 9), "w": lg.spec(5, 3, 3, 3)},
    ),
    "transposed": (
        lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1),
        {"x": lg.spec(1, 16, 24, 24), "w": lg.spec(16, 8, 4, 4)},
    ),
}


def folded(name: str, dtype: Any) -> tuple[Any, LoweredModel, LoweredModel]:
    graph = traced(FOLDED[name][0], **specs_of(name, dtype))
    entry = graph
    for step in GRAPH_PASSES:
        entry = step(entry)
    entries = (("entry", entry),)
    return graph, assemble(entries, CUDA), assemble(entries, CPU)


SLOW = {"few_of_many_heads", "gqa", "heads_last", "sink"}  # to interpret


@pytest.mark.parametrize(
    "dtype",
    [lg.f32, *(pytest.param(d, marks=pytest.mark.slow) for d in (lg.f16, lg.bf16))],
    ids=str,
)
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in FOLDED]
)
def test_folds_around_a_contraction(name: str, dtype: Any, rng: np.random.Generator) -> None:
    graph, model, on_cpu = folded(name, dtype)
    skeletons = [k.program.skeleton for k in model.kernels]
    before = ["simt"] * (name == "values_turned")  # each value is made once, for all queries
    in_parts = name == "features_200" and dtype is not lg.f32  # few heads leave a GPU idle
    assert skeletons == [*before, "cascade", *["simt"] * in_parts]
    assert len(on_cpu.kernels) == len(before) + 1
    for kernel in model.kernels:
        verify(kernel.program, name)
    for count in (1, 2, 63, 65, 130):
        inputs = {}
        for n in graph.inputs:
            shape = [
                int(e.evaluate({POSITIONS: count, KEYS: count + 7, FEW: count})) for e in n.shape
            ]
            inputs[tensor_of(n).name] = rng.standard_normal(shape).astype(n.dtype.numpy)
        expected = evaluate(graph, inputs, {})
        for out, value in run_entry(model, inputs, {}).items():
            agree(value, expected[out], f"{name} at {count} positions")


@pytest.mark.parametrize("dtype", [lg.f32, lg.bf16], ids=str)
@pytest.mark.parametrize("features", [16, 64, 128, 256])
@pytest.mark.parametrize("typical", [1, 8, 100, 400])
def test_a_fold_of_any_length_is_one_kernel(typical: int, features: int, dtype: Any) -> None:
    assert skeletons_of_a_fold(8, typical, features, dtype) == ["cascade"]


@pytest.mark.parametrize("features", [64, 128])
def test_products_of_floats_for_few_blocks_are_stored(features: int) -> None:
    """All of a device multiplies then; of 16 bits the fold takes less."""
    assert skeletons_of_a_fold(4, 100, features, lg.f32) == ["pipeline", "simt", "pipeline"]
    assert skeletons_of_a_fold(4, 100, features, lg.bf16) == ["cascade"]


def skeletons_of_a_fold(heads: int, typical: int, features: int, dtype: Any) -> list[str]:
    length = lg.Dim("length", 1, 1024, typical=typical)
    q = lg.spec(2, heads, length, features, dtype=dtype)
    entry = traced(lambda q, k, v: F.scaled_dot_product_attention(q, k, v), q=q, k=q, v=q)
    for step in GRAPH_PASSES:
        entry = step(entry)
    return [k.program.skeleton for k in assemble((("entry", entry),), CUDA).kernels]


def merged(x: Any) -> Any:
    """Heads side by side."""
    return x.transpose(1, 2).flatten(2)


def mixed(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v)


AROUND: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "product": (lambda q, k, v, x, w: merged(mixed(q, k, v)) @ w, ["fold", "product"]),
    "residual": (lambda q, k, v, x, w: merged(mixed(q, k, v)) + x, ["fold"]),
    "gate": (
        lambda q, k, v, x, w: (merged(mixed(q, k, v)) * x.sigmoid()) @ w,
        ["fold", "product"],
    ),
    # both products in one loop; but a block's stores are of one sum each
    "difference": (
        lambda q, k, v, x, w: mixed(q, k, v) - 0.5 * mixed(k, q, v),
        ["fold", "fold"],
    ),
}


@pytest.mark.parametrize("device", [CPU, CUDA], ids=["cpu", "cuda"])
@pytest.mark.parametrize("heads", [4, 16])  # few of them make a short depth of the product behind
@pytest.mark.parametrize("name", AROUND)
def test_what_follows_a_fold_leaves_it_whole(
    name: str, heads: int, device: Device, rng: np.random.Generator
) -> None:
    function, kernels = AROUND[name]
    if name == "difference" and device is CPU:
        kernels = ["fold"]
    length, width = lg.Dim("length", 1, 1024, typical=512), 16 * heads
    part = lg.spec(2, heads, length, 16)
    more = {"x": lg.spec(2, length, width), "w": lg.spec(width, width)}
    graph = entry = traced(function, q=part, k=part, v=part, **more)
    for step in GRAPH_PASSES:
        entry = step(entry)
    model = assemble((("entry", entry),), device)
    kinds = {"cascade": "fold", "panel": "product", "pipeline": "product"}
    launches = [g.variants[-1].launches[0].kernel for g in model.programs[0].groups]
    skeleton = {k.name: k.program.skeleton for k in model.kernels}
    assert [kinds.get(skeleton[n], skeleton[n]) for n in launches] == kernels
    inputs: dict[str, Any] = {}
    for n in graph.inputs:
        shape = [int(e.evaluate({length: 5})) for e in n.shape]
        inputs[tensor_of(n).name] = rng.standard_normal(shape).astype(np.float32)
    expected = evaluate(graph, inputs, {})
    for out, value in run_entry(model, inputs, {}).items():
        agree(value, expected[out], name)


BEHIND: dict[str, Callable[..., Any]] = {
    "whether": lambda x, w: (x @ w) > 0,
    "integers": lambda x, w: (x @ w * 8).round().to(lg.i8),
    "edges": lambda x, w: F.pad(x @ w, (0, 8)),
    "merged": lambda x, w: merged((x @ w).unflatten(1, (4, -1))),
    "blocks": lambda x, w: F.pixel_shuffle((x @ w).unflatten(1, (16, -1)), 2),
}


@pytest.mark.parametrize("device", [CPU, CUDA], ids=["cpu", "cuda"])
@pytest.mark.parametrize("name", BEHIND)
def test_a_large_product_runs_in_tiles_whatever_is_behind_it(name: str, device: Device) -> None:
    def kernels(size: int) -> tuple[LoweredKernel, ...]:
        graph = traced(BEHIND[name], x=lg.spec(2, size, size), w=lg.spec(size, size))
        for step in GRAPH_PASSES:
            graph = step(graph)
        return assemble((("entry", graph),), device).kernels

    assert any(k.program.skeleton != "simt" for k in kernels(512))
    (store,) = kernels(16)[-1].region.stores  # a small one is no more than to store and read it
    assert any(isinstance(e, Reduce) for e in walk([store.value]))


def test_few_rows_past_which_much_streams_are_divided() -> None:
    """A block would be alone with all of a long axis: parts of it are folded by many, and merged."""
    keys = lg.spec(1, 4, 4096, 64)
    entry = traced(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
        q=lg.spec(1, 4, 8, 64),
        k=keys,
        v=keys,
    )
    for step in GRAPH_PASSES:
        entry = step(entry)
    kernels = assemble((("entry", entry),), CUDA).kernels
    assert [k.program.skeleton for k in kernels] == ["cascade", "simt"]


@pytest.mark.parametrize(("name", "held"), [("causal", lg.f32), ("relu", lg.f16)])
def test_a_fold_in_f32(name: str, held: lg.DType, golden: Callable[[str, str], None]) -> None:
    """What f32 holds, and weights that f16 may not hold, are multiplied as f32."""
    (kernel,) = folded(name, held)[1].kernels
    assert all(b.dtype is lg.f32 for b in kernel.program.scratch)
    text = device_kernel_body(kernel.name, kernel.program, kernel.parameters, "model.py:1").body
    golden(f"tile/fold_{name}_{held}.txt", show_tile(kernel.program))
    golden(f"tile/fold_{name}_{held}.cu", text)


def lowered_graph(graph: Any, device: Device) -> LoweredModel:
    for step in GRAPH_PASSES:
        graph = step(graph)
    return assemble((("entry", graph),), device)


def lowered(name: str) -> tuple[Any, LoweredModel]:
    function, inputs = MODELS[name]
    graph = traced(function, **inputs)
    return graph, lowered_graph(graph, CUDA)


@pytest.mark.parametrize("name", MODELS)
def test_blocks_of_threads_compute_the_graph(name: str, rng: np.random.Generator) -> None:
    graph, model = lowered(name)
    for rows in (1, 37, 131):
        inputs = {}
        for n in graph.inputs:
            shape = [int(e.evaluate({ROWS: rows})) for e in n.shape]
            values = rng.standard_normal(shape) * (100 if n.dtype.is_int else 1)
            inputs[tensor_of(n).name] = values.astype(n.dtype.numpy)
        expected = evaluate(graph, inputs, {})
        for out, value in run_entry(model, inputs, {}).items():
            agree(value, expected[out], f"{name} at {rows} rows")


@pytest.mark.parametrize("name", MODELS)
def test_every_kernel_keeps_the_rules_and_has_a_text(name: str) -> None:
    for kernel in lowered(name)[1].kernels:
        verify(kernel.program, name)
        text = device_kernel_body(kernel.name, kernel.program, kernel.parameters, "model.py:1").body
        assert "__global__ void __launch_bounds__" in text


def test_the_name_of_a_file_cannot_leave_its_literal() -> None:
    (kernel,) = lowered("map")[1].kernels
    origin = '"b\\sin??!.py:3'
    text = device_kernel_body(kernel.name, kernel.program, kernel.parameters, origin).body
    assert f'    "{kernel.name}", "\\"b\\\\sin?\\?!.py:3", reinterpret_cast' in text
    assert f" {kernel.name}_b_sin_3(const __grid_constant__" in text


def test_products_run_in_tiles() -> None:
    for name in (
        "product",
        "computed_operand",
        "by_row_sums",
        "by_counts",
        "batched",
        "transposed",
    ):
        assert any(k.program.skeleton == "pipeline" for k in lowered(name)[1].kernels), name


def test_operands_of_f32_products_keep_their_digits_and_range() -> None:
    def held(role: Role, dtype: lg.DType) -> Expr:
        return read(Buffer("m", role, (ix(8), ix(8)), dtype), (ix(0), ix(0)))

    product = multiplied_in(held(Role.TEMP, lg.bf16), held(Role.TEMP, lg.bf16))
    assert product is lg.bf16
    assert multiplied_in(held(Role.TEMP, lg.f16), held(Role.TEMP, lg.bf16)) is lg.f32
    for role in (Role.TEMP, Role.STATE, Role.WEIGHT):
        assert multiplied_in(held(Role.TEMP, lg.bf16), held(role, lg.f32)) is lg.f32
        assert multiplied_in(held(role, lg.f32), held(Role.WEIGHT, lg.bf16)) is lg.f32


def test_no_tile_is_twice_as_long_as_a_product() -> None:
    for m, n in ((64, 100000), (32, 100000), (100000, 40)):
        graph = traced(lambda x, y: x @ y, x=lg.spec(m, 64), y=lg.spec(64, n))
        (kernel,) = assemble((("entry", graph),), CUDA).kernels
        assert kernel.program.tile is not None
        rows, columns = kernel.program.tile["rows"], kernel.program.tile["columns"]
        assert rows < 2 * m, kernel.program.tile
        assert columns < 2 * n or columns == 64, kernel.program.tile


INDEXED: dict[str, Callable[..., Any]] = {
    "rows": lambda x, i, j, s: x[i],
    "rows_by_32_bits": lambda x, i, j, s: x[i.to(lg.i32)],
    "columns": lambda x, i, j, s: x[:, i],
    "elements": lambda x, i, j, s: x[i, j],
    "truth_values": lambda x, i, j, s: (x > 0)[i],
    "take": lambda x, i, j, s: x.take(i),
    "along": lambda x, i, j, s: x.take_along_dim(i.unsqueeze(1), 0),
    "clamped": lambda x, i, j, s: x.index_select(0, i.clamp(0, x.shape[0] - 1)),
    "written_out": lambda x, i, j, s: x.index_select(0, lg.where(i < 0, i + x.shape[0], i)),
    "greatest": lambda x, i, j, s: x[s.argmax(-1)],
    "product_of_indices": lambda x, i, j, s: x[i * j],
    "table_from_an_offset": lambda x, i, j, s: F.embedding(i + 2, x),
    "gathered_from_an_offset": lambda x, i, j, s: x.gather(0, (i + 1).unsqueeze(1).expand(9, 24)),
    "sorted": lambda x, i, j, s: x[s.topk(3, -1).indices],
}


@pytest.mark.parametrize("name", INDEXED)
@pytest.mark.parametrize("device", [CPU, CUDA])
def test_reads_at_data_are_no_sums_over_what_they_read(name: str, device: Device) -> None:
    """Indices may be negative and of any size: what is out of range reads as zero."""
    graph = traced(
        INDEXED[name],
        x=lg.spec(40, 24),
        i=lg.spec(9, dtype=lg.i64),
        j=lg.spec(9, dtype=lg.i64),
        s=lg.spec(9, 40),
    )
    model = lowered_graph(graph, device)
    regions = [k.region for k in model.kernels]
    reading = [r for r in regions if any(b.dims == (40, 24) for b in r.reads())]
    assert reading
    assert not any(isinstance(e, Reduce) for r in reading for e in walk(s.value for s in r.stores))
    rng = np.random.default_rng(len(name))
    far = [0, 23, -1, -24, 40, -41, 2**40, -(2**40), 7]
    if name == "rows_by_32_bits":
        far[6:8] = [2**31 - 1, -(2**31)]
    inputs: dict[str, np.ndarray] = {
        "x": rng.standard_normal((40, 24), np.float32),
        "i": np.array(far, np.int64),
        "j": rng.integers(-24, 24, 9),
        "s": rng.standard_normal((9, 40), np.float32),
    }
    ((out, value),) = run_entry(model, inputs, {}).items()
    np.testing.assert_array_equal(value, evaluate(graph, inputs, {})[out])


MERGED: dict[str, tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...]]] = {
    "one_row": (lambda x, w: (x @ w).relu().flatten(), (4, 24, 32), (32, 40)),
    "batched": (lambda x, w: (x @ w).flatten(1) * 2, (3, 24, 32), (3, 32, 40)),
    "heads": (lambda x, w: (x @ w).transpose(0, 1).reshape(24, 120), (3, 24, 32), (3, 32, 40)),
    "einsum": (
        lambda x, w: lg.einsum("bmk,hnk->bmhn", x, w).flatten(2) + lg.arange(40).to(lg.f32),
        (4, 24, 32),
        (8, 5, 32),
    ),
    "all": (lambda x, w: lg.einsum("bmk,bnk->bmn", x, w).flatten(), (3, 24, 32), (3, 40, 32)),
    "split": (
        lambda x, w: (x @ w).unflatten(-1, (8, 5)).transpose(1, 2).flatten(0, 1),
        (4, 24, 32),
        (32, 40),
    ),
    "convolution": (lambda x, w: F.conv2d(x, w, padding=1).flatten(1), (2, 4, 6, 6), (5, 4, 3, 3)),
    "rows": (lambda x, w: (x @ w).flatten(0, 1), (ROWS, 24, 32), (32, 40)),  # type: ignore[dict-item]
    "attention": (
        lambda x, w: F.scaled_dot_product_attention(x, w, w).transpose(1, 2).flatten(2),
        (2, 4, 24, 16),
        (2, 4, 40, 16),
    ),
}


@pytest.mark.parametrize("name", MERGED)
@pytest.mark.parametrize("device", [CPU, CUDA])
def test_products_whose_axes_are_merged_run_in_tiles(name: str, device: Device) -> None:
    function, x, w = MERGED[name]
    graph = traced(function, x=lg.spec(*x), w=lg.spec(*w))
    model = lowered_graph(graph, device)
    assert model.kernels[-1].program.skeleton in ("panel", "pipeline", "cascade")
    assert device is CPU or len(model.kernels) == 1  # there columns may be packed before
    rng = np.random.default_rng(len(name))
    for rows in (1, 7):
        given = (
            (7 if d is ROWS and rows > 1 else 1 if d is ROWS else d for d in s) for s in (x, w)
        )
        inputs = {
            n: rng.standard_normal(tuple(s), np.float32) for n, s in zip("xw", given, strict=True)
        }
        ((out, value),) = run_entry(model, inputs, {}).items()
        agree(value, evaluate(graph, inputs, {})[out], name)


@pytest.mark.parametrize(("width", "kernels"), [(64, 1), (2048, 2)])
def test_sums_that_are_seen_at_several_places_are_stored_where_they_are_long(
    width: int, kernels: int
) -> None:
    """Each half of the rotated row needs both halves of what the weights make of one row."""

    def rotated(x: Any, w: Any) -> Any:
        first, second = (w @ x).chunk(2)
        return lg.cat([first - second * 2, second + first * 3])

    graph = traced(rotated, x=lg.spec(width), w=lg.spec(width, width))
    for step in GRAPH_PASSES:
        graph = step(graph)
    for device in (CPU, CUDA):
        assert len(assemble((("entry", graph),), device).kernels) == kernels


@pytest.mark.parametrize(("heads", "regions"), [(32, 1), (2, 2)])
def test_a_transcendental_that_regions_read_like_a_table_is_stored(
    heads: int, regions: int
) -> None:
    """Once, where they have many more elements than it has; in f32, whatever memory holds else."""

    def turned(q: Any, angles: Any) -> Any:
        turns = angles.sin()
        return {"y": q * turns, "z": q.amax(0) - (q + turns).amax(1)}

    graph = traced(turned, q=lg.spec(heads, heads, 16), angles=lg.spec(16))
    for step in GRAPH_PASSES:
        graph = step(graph)
    for device in (CPU, CUDA):
        model = assemble((("entry", graph),), device, dtype=lg.bf16)
        stores = [s for k in model.kernels for s in k.region.stores]
        turning = [
            s
            for s in stores
            if any(isinstance(e, Prim) and e.op is Op.SIN for e in walk([s.value]))
        ]
        assert len(turning) == regions
        assert [s.dst.dtype for s in turning if len(s.axes) == 1] == [lg.f32] * (2 - regions)


@pytest.mark.parametrize(("rows", "kernels"), [(64, 2), (2, 1)])
def test_remainders_by_a_dim_are_a_table(rows: int, kernels: int) -> None:
    """With what is made of them along one axis, where many rows read it."""
    n = lg.Dim("n", 3, 60)

    def weighted(x: Any) -> Any:
        places = lg.arange(x.shape[1]) * 3 % (x.shape[1] - 1)
        return x * (1 - places.float() / 2) + x.flip(1) * (places.float() / 2)

    graph = traced(weighted, x=lg.spec(rows, n))
    x = np.random.default_rng(0).normal(size=(rows, 7)).astype(np.float32)
    t = np.arange(7, dtype=np.float32) * 3 % 6 / 2
    for device in (CPU, CUDA):
        model = lowered_graph(graph, device)
        assert len(model.kernels) == kernels
        found = run_entry(model, {"x": x}, {})["out"]
        agree(found, x * (1 - t) + x[:, ::-1] * t, "weighted")


def test_a_softmax_between_products_that_are_stored_is_one_kernel() -> None:
    """Registers do not hold rows of 512: the scores are stored, and nothing else twice."""
    specs = [lg.spec(2, 4, 256, 512)] * 3
    graph = traced(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
        **dict(zip("qkv", specs, strict=True)),
    )
    for step in GRAPH_PASSES:
        graph = step(graph)
    kernels = assemble((("entry", graph),), CUDA).kernels
    assert [k.program.skeleton for k in kernels] == ["pipeline", "simt", "pipeline"]


@pytest.mark.parametrize("device", [CPU, CUDA], ids=["cpu", "cuda"])
def test_parts_of_one_tensor_attend_in_one_kernel(device: Device) -> None:
    """Queries, keys and values that one product has made: what they are parts of counts once."""
    length = lg.Dim("length", 1, 1024, typical=256)

    def attend(x: Any) -> Any:
        q, k, v = x.unflatten(-1, (3, 12, 64)).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).flatten(2)

    graph = traced(attend, x=lg.spec(2, length, 3 * 12 * 64))
    for step in GRAPH_PASSES:
        graph = step(graph)
    (kernel,) = assemble((("entry", graph),), device).kernels
    assert kernel.program.skeleton == "cascade"
