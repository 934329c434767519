"""Products of operands of small cost: dequantised blocks, masks, rows of a table, computed as they are brought in.

Of one-hot and diagonal matrices nothing is multiplied.
"""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import nvcc
import pytest
from device_cases import Case, compiled_kernels, lowered
from small_programs import agree, numbers
from tiles import run_entry, traced

import lumigen as lg
from lumigen import fast_lane, nn
from lumigen import functional as F
from lumigen.graph import tensor_of
from lumigen.interp.graph import evaluate
from lumigen.kernel_source import kernel_source
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredKernel
from lumigen.lower.axes import unify_axes
from lumigen.lower.built import Built
from lumigen.lower.devices import Device
from lumigen.lower.made import MadeColumns, runs_of
from lumigen.lower.partition import obligatory_cuts, regions
from lumigen.pipeline import lower_model
from lumigen.plan import Illegal
from lumigen.quantise import quantised
from lumigen.resources import runtime_dir
from lumigen.target import parse_target
from lumigen.targets.cpu.device import CPU
from lumigen.targets.cuda.device import CUDA
from lumigen.targets.cuda.driver import launched_bytes
from lumigen.tile import Contract, PackColumns, StoreTile, TileProgram
from lumigen.toolchain import cxx

ROWS = lg.Dim("rows", 1, 64, typical=8)
MANY = lg.Dim("many", 1, 4096, typical=2048)
K, N = 128, 48
f32, f16, bf16, i8, u8 = lg.f32, lg.f16, lg.bf16, lg.i8, lg.u8


def blocks(x: Any, q: Any, scale: Any) -> Any:
    """Rows of q in blocks of 32 that share a scale, as a file of a quantised model has them."""
    w = (q.reshape(N, K // 32, 32).to(f32) - 8) * scale.unsqueeze(-1)
    return x @ w.reshape(N, K).mT


def rounded(x: Any, q: Any, scale: Any) -> Any:
    w = scale.unsqueeze(-1) * (q.reshape(N, K // 32, 32).to(f32) - 8)
    return (w.reshape(N, K).to(bf16) @ x.mT).mT.relu()


def columns(x: Any, q: Any, scale: Any) -> Any:
    """A scale for each column, quants of which those of a row lie side by side."""
    return x @ (q.to(bf16) * scale)


def columns_of_floats(x: Any, q: Any, scale: Any) -> Any:
    return x @ (scale * q.to(f32))


def masked(x: Any, mask: Any, w: Any) -> Any:
    return lg.where(mask, x, 0.0) @ w + 1


def shifted(x: Any, bias: Any, w: Any) -> Any:
    return (bias + x) @ w


def one_hot(ids: Any, w: Any) -> Any:
    return F.one_hot(ids, K).to(w.dtype) @ w


def gathered(ids: Any, table: Any, more: Any, w: Any) -> Any:
    return (table[ids] + more) @ w


def quants(dtype: Any, of: Any, rows: Any = ROWS) -> dict[str, Any]:
    scale = lg.spec(N, K // 32, dtype=f32)
    return {"x": lg.spec(rows, K, dtype=dtype), "q": lg.spec(N, K, dtype=of), "scale": scale}


def matrix(dtype: Any, k: int = K, n: int = N) -> Any:
    return lg.spec(k, n, dtype=dtype)


CASES: dict[str, Case] = {
    "blocks": (blocks, quants(f32, i8)),
    "blocks_of_halves": (rounded, quants(bf16, u8)),
    "columns": (
        columns,
        {
            "x": lg.spec(ROWS, K, dtype=bf16),
            "q": matrix(i8),
            "scale": lg.spec(N, dtype=bf16),
        },
    ),
    "ragged_columns": (
        columns,
        {
            "x": lg.spec(ROWS, 77, dtype=bf16),
            "q": matrix(i8, 77, 45),
            "scale": lg.spec(45, dtype=bf16),
        },
    ),
    "masked": (
        masked,
        {
            "x": lg.spec(ROWS, K, dtype=f16),
            "mask": lg.spec(ROWS, K, dtype=lg.boolean),
            "w": matrix(f16),
        },
    ),
    "masked_floats": (
        masked,
        {"x": lg.spec(ROWS, 37), "mask": lg.spec(ROWS, 37, dtype=lg.boolean), "w": matrix(f32, 37)},
    ),
    "shifted": (
        shifted,
        {
            "x": lg.spec(2, ROWS, K, dtype=bf16),
            "bias": lg.spec(K, dtype=bf16),
            "w": matrix(bf16),
        },
    ),
    "gathered": (
        gathered,
        {
            "ids": lg.spec(ROWS, dtype=lg.i64, range=(0, 8)),
            "table": matrix(f32, 9, K),
            "more": lg.spec(ROWS, K),
            "w": matrix(f32),
        },
    ),
}


SIFTED: dict[str, Case] = {
    "one_hot": (one_hot, {"ids": lg.spec(ROWS, dtype=lg.i64), "w": matrix(bf16)}),
    "diagonal": (
        lambda d, x: (lg.eye(K).to(bf16) * d) @ x,
        {"d": lg.spec(K, dtype=bf16), "x": matrix(bf16)},
    ),
    "diagonal_after": (
        lambda x, d: (x @ d.diag()).relu(),
        {"x": lg.spec(ROWS, N), "d": lg.spec(N)},
    ),
}


def inputs_of(graph: Any, rows: int, rng: np.random.Generator) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for n in graph.inputs:
        tensor = tensor_of(n)
        shape = tuple(int(e.evaluate(dict.fromkeys(graph.dims(), rows))) for e in n.shape)
        if tensor.range is not None:
            out[tensor.name] = rng.integers(0, tensor.range[1] + 1, shape)
        else:
            out[tensor.name] = numbers(rng, shape, n.dtype)
    return out


def check(case: Case, device: Device, rows: int, rng: np.random.Generator) -> list[TileProgram]:
    graph, model = lowered(case, device=device)
    inputs = inputs_of(graph, rows, rng)
    wanted = evaluate(graph, inputs, {})
    for out, value in run_entry(model, inputs, {}).items():
        agree(value, wanted[out], "interpreted")
    return [k.program for k in model.kernels]


@pytest.mark.parametrize("name", CASES)
def test_a_block_computes_an_operand_as_it_comes_in(name: str, rng: np.random.Generator) -> None:
    (program,) = check(CASES[name], CUDA, 19, rng)
    (product,) = (s for s in program.statements() if isinstance(s, Contract))
    operands = {product.a.source is None, product.b.source is None}
    assert operands == {True, False}
    half = any(s.dtype.bits == 16 for s in CASES[name][1].values())
    assert (product.element.bits == 16) == half


@pytest.mark.parametrize("device", [CPU, CUDA], ids=["cpu", "cuda"])
@pytest.mark.parametrize("name", SIFTED)
def test_a_matrix_with_one_element_in_a_row_reads_that(
    name: str, device: Device, rng: np.random.Generator
) -> None:
    (program,) = check(SIFTED[name], device, 19, rng)
    assert program.skeleton == "simt"


def test_what_many_tiles_would_compute_is_stored(rng: np.random.Generator) -> None:
    """Each tile of rows would compute the quants once more."""
    case = rounded, quants(bf16, u8, MANY)
    assert [p.skeleton for p in check(case, CUDA, 70, rng)] == ["simt", "pipeline"]
    graph = traced(case[0], **case[1])
    for step in GRAPH_PASSES:
        graph = step(graph)
    (region,) = regions(graph, obligatory_cuts(graph))  # but it need not be
    _, (built,) = CUDA.lower(unify_axes(region))
    assert built.program.skeleton == "pipeline"


def test_what_costs_much_is_stored(rng: np.random.Generator) -> None:
    def exponential(x: Any, w: Any) -> Any:
        return x.exp() @ w

    inputs = {"x": lg.spec(ROWS, K), "w": matrix(f32)}
    assert [p.skeleton for p in check((exponential, inputs), CUDA, 9, rng)] == ["simt", "pipeline"]


def test_what_others_read_is_stored(rng: np.random.Generator) -> None:
    def residual(x: Any, y: Any, w: Any) -> Any:
        z = x + y
        return z @ w + z.amax(-1, keepdim=True)

    inputs = {"x": lg.spec(ROWS, K), "y": lg.spec(K), "w": matrix(f32)}
    first, *_ = check((residual, inputs), CUDA, 9, rng)
    assert first.skeleton == "simt"


@pytest.mark.parametrize("rows", [1, 19, 64])
@pytest.mark.parametrize("name", CASES)
def test_a_thread_computes_an_operand_for_its_tile(
    name: str, rows: int, rng: np.random.Generator
) -> None:
    programs = check(CASES[name], CPU, rows, rng)
    packed = [s for p in programs for s in p.statements() if isinstance(s, PackColumns)]
    assert len(packed) == len(programs) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_processor_does_as_numpy(name: str, rng: np.random.Generator) -> None:
    graph, model = lowered(CASES[name], device=CPU)
    library = fast_lane.load(model, "-O1", ("-Wall", "-Wextra", "-Werror"))
    for rows in (3, 50):
        inputs = inputs_of(graph, rows, rng)
        wanted = evaluate(graph, inputs, {})
        for out, value in library.run("entry", inputs, {}).items():
            agree(value, wanted[out], f"{rows} rows")


def test_of_a_deep_product_parts_are_computed(rng: np.random.Generator) -> None:
    """No tile of columns has all of k."""
    inputs = {"x": lg.spec(ROWS, 1000), "q": matrix(i8, 1000), "scale": lg.spec(N)}
    (program,) = check((columns_of_floats, inputs), CPU, 40, rng)
    (tile,) = (b for b in program.scratch if b.name == "b_tile")
    assert tile.dims[1].estimate() < 1000


def test_so_many_rows_read_columns_that_are_stored(rng: np.random.Generator) -> None:
    programs = check((blocks, quants(f32, i8, MANY)), CPU, 70, rng)
    assert [p.skeleton for p in programs] == ["simt", "panel"]


@nvcc.needed
@pytest.mark.parametrize("arch", ["80", "90a"])
def test_the_compiler_takes_them(arch: str, tmp_path: Path) -> None:
    names = list(CASES)
    for kernel, said in compiled_kernels(CASES, names, "pipeline", arch, tmp_path):
        assert "0 bytes spill stores" in said, kernel


@nvcc.needed
@pytest.mark.parametrize("arch", ["80", "90a"])
def test_the_compiler_takes_weights_in_halves(arch: str, tmp_path: Path) -> None:
    for cases, names, skeleton in ((FLOATS, ["three_rows"], "simt"), (HALVES, [*HALVES], "few")):
        for kernel, said in compiled_kernels(cases, names, skeleton, arch, tmp_path):
            assert "0 bytes spill stores" in said, kernel


# ---- weights in blocks, of few rows and of many ----


def halves(x: Any, q: Any, scale: Any) -> Any:
    """Two numbers in a byte, of the first 16 of a block and of the others."""
    each = lg.stack([q & 15, q >> 4], -2).to(f32) - 8
    w = each * scale.to(f32)[..., None, None]
    return F.linear(x.to(f32), w.reshape(q.shape[0], 32 * q.shape[1])).to(x.dtype)


def in_halves(rows: Any, n: int, k: int, dtype: Any = bf16) -> dict[str, Any]:
    scale = lg.spec(n, k // 32, dtype=f16)
    q = lg.spec(n, k // 32, 16, dtype=u8)
    return {"x": lg.spec(rows, k, dtype=dtype), "q": q, "scale": scale}


def gated(x: Any, q: Any, scale: Any, r: Any, of_r: Any) -> Any:
    return F.silu(halves(x, q, scale)) * halves(x, r, of_r)


def of_two(rows: Any, n: int, m: int, k: int) -> dict[str, Any]:
    both = in_halves(rows, n, k), in_halves(rows, m, k)
    return both[0] | {"r": both[1]["q"], "of_r": both[1]["scale"]}


def of_bytes(x: Any, q: Any, scale: Any) -> Any:
    w = q.to(f32).reshape(*scale.shape, -1) * scale.unsqueeze(-1)
    return F.linear(x, w.reshape(q.shape).to(x.dtype)).relu()


def with_minima(x: Any, q: Any, scale: Any) -> Any:
    """A value that is not a scale times an integer: it is rounded."""
    w = q.to(f32).reshape(*scale.shape, -1) * scale.unsqueeze(-1) + scale.unsqueeze(-1)
    return F.linear(x, w.reshape(q.shape).to(x.dtype))


def far_from_zero(x: Any, q: Any, scale: Any) -> Any:
    """Integers less a number that leaves more digits than bf16 has: they are rounded as well."""
    w = ((q % 128).to(f32) - 129).reshape(*scale.shape, -1) * scale.unsqueeze(-1)
    return F.linear(x.to(f32), w.reshape(q.shape)).to(x.dtype)


def scaled(x: Any, q: Any, scale: Any) -> Any:
    w = (q.to(f32) - (q.dtype is u8) * 128).reshape(*scale.shape, -1) * scale.unsqueeze(-1)
    return F.linear(x.to(f32), w.reshape(q.shape)).to(x.dtype)


def in_bytes(rows: int, n: int, k: int, blocks: int, of: Any, dtype: Any = bf16) -> dict[str, Any]:
    scale = lg.spec(n, blocks, dtype=f16)
    return {"x": lg.spec(rows, k, dtype=dtype), "q": lg.spec(n, k, dtype=of), "scale": scale}


HALVES: dict[str, Case] = {
    "one_row": (halves, in_halves(1, 36, 96)),
    "two_rows": (halves, in_halves(2, 37, 1056)),
    "three_rows": (halves, in_halves(3, 10, 64)),
    "thirteen_rows": (halves, in_halves(13, 37, 160)),
    "two_products": (gated, of_two(2, 20, 20, 64)),
    "bytes": (of_bytes, in_bytes(5, 24, 96, 1, i8)),
    "bytes_of_f16": (of_bytes, in_bytes(1, 24, 256, 2, u8, f16)),
    "of_signs": (scaled, in_bytes(9, 37, 144, 3, i8)),
    "of_signs_in_f16": (scaled, in_bytes(16, 20, 80, 5, i8, f16)),
    "of_short_spans": (scaled, in_bytes(2, 37, 144, 9, i8)),
    "of_long_spans": (scaled, in_bytes(1, 24, 512, 4, u8)),
    "from_the_middle": (scaled, in_bytes(3, 20, 1040, 65, u8)),
    "whole_columns": (scaled, in_bytes(7, 20, 528, 1, u8, f16)),
    "far_from_zero": (far_from_zero, in_bytes(2, 24, 96, 3, u8)),
    "minima": (with_minima, in_bytes(4, 24, 96, 3, u8)),
}
FLOATS: dict[str, Case] = {
    "one_row": (halves, in_halves(1, 6, 1056, f32)),
    "three_rows": (halves, in_halves(3, 10, 64, f32)),
}


@pytest.mark.parametrize("name", HALVES)
def test_few_rows_are_multiplied_with_columns_that_threads_make(
    name: str, rng: np.random.Generator
) -> None:
    (program,) = check(HALVES[name], CUDA, 1, rng)
    products = [s for s in program.statements() if isinstance(s, Contract)]
    assert program.skeleton == "few"
    assert len(products) == 1
    assert all(s.element.bits == 16 for s in products)
    columns = products[0].b.value
    assert columns is not None
    made = MadeColumns.of(columns, products[0].n, products[0].k, 16, 24)
    assert made is not None
    rounded = ("bytes", "bytes_of_f16", "far_from_zero", "minima")
    assert (made.scale is None) == (name in rounded)


def test_no_tile_of_few_rows_computes_in_integers(rng: np.random.Generator) -> None:
    """Bytes that wrap around, as those with a sign of four bits that is shifted up, have no vectors."""

    def shifted_up(x: Any, q: Any, scale: Any) -> Any:
        w = (q << 4).to(f32).reshape(*scale.shape, -1) * scale.unsqueeze(-1)
        return F.linear(x.to(f32), w.reshape(q.shape)).to(x.dtype)

    case = shifted_up, in_bytes(2, 24, 96, 3, u8)
    assert "few" not in {p.skeleton for p in check(case, CUDA, 1, rng)}


@pytest.mark.parametrize("apart", [False, True])
def test_tiles_of_few_rows_have_two_products_at_most(apart: bool, rng: np.random.Generator) -> None:
    """And all stores of a launch have as many: with another number, each has its own."""

    def three(x: Any, q: Any, r: Any, t: Any, scale: Any) -> Any:
        both, one = gated(x, q, scale, r, scale), halves(x, t, scale)
        return {"both": both, "one": one} if apart else both + one

    inputs = in_halves(2, 24, 96)
    inputs |= {"r": inputs["q"], "t": inputs["q"]}
    programs = check((three, inputs), CUDA, 1, rng)
    few = [p for p in programs if p.skeleton == "few"]
    products = (s for p in few for s in p.statements() if isinstance(s, Contract))
    assert all(len(s.more) <= 1 for s in products)
    assert len(few) == len(programs) if apart else few


def test_products_of_the_same_few_rows_are_one_launch(rng: np.random.Generator) -> None:
    """No tile for many rows takes them, which would unpack the columns element by element."""

    def three(x: Any, q: Any, r: Any, t: Any, scale: Any) -> Any:
        return {f"of_{i}": halves(x, w, scale) for i, w in enumerate((q, r, t))}

    inputs = in_halves(4, 24, 96)
    inputs |= {"r": inputs["q"], "t": inputs["q"]}
    (program,) = check((three, inputs), CUDA, 1, rng)
    assert program.skeleton == "few"


@pytest.mark.parametrize("held", [True, False])
def test_only_weights_are_asked_for_before_a_kernel_waits(held: bool) -> None:
    """What a launch before may have written is read once that is complete."""
    if held:
        net = nn.Linear(64, 24, bias=False)
        model = lg.Model("held", net)
        model.entry(input=lg.spec(1, 64))(net.forward)
        traced = quantised(model.trace(), None, "q4").traced
    else:
        model = lg.Model("given")
        model.entry(**in_halves(1, 24, 64))(halves)
        traced = model.trace()
    made = lower_model(traced, {}, None, parse_target("cuda"), dtype=bf16)
    (kernel,) = [k.body for k in made.model.kernels if "few.cuh" in k.body]
    assert ("  launch_dependents();" in kernel) == held
    assert ("  await_turn();" in kernel) != held


def columns_last(x: Any, q: Any, scale: Any) -> Any:
    """Blocks whose scales lie the other way: those of a column are no run."""
    return halves(x, q, scale.mT)


def part_of_a_row(x: Any, q: Any, scale: Any) -> Any:
    return scaled(x, q[:, 48:], scale)


RUNS: dict[str, tuple[Case, list[tuple[str, int, int, int]], list[str]]] = {
    "whole tiles": (
        (halves, in_halves(1, 32, 96)),
        [("q", 48, 0, 48), ("scale", 3, 0, 3)],
        ["fetch(q + 48 * n0, 768);", "fetch(scale + 3 * n0, 48);"],
    ),
    "columns left over": (
        (halves, in_halves(2, 37, 96)),
        [("q", 48, 0, 48), ("scale", 3, 0, 3)],
        [
            "fetch(q + 48 * n0, 48 * index_min(16, 37 - n0));",
            "fetch(scale + 3 * n0, 3 * index_min(16, 37 - n0));",
        ],
    ),
    "two products": (
        (gated, of_two(2, 32, 32, 64)),
        [("q", 32, 0, 32), ("scale", 2, 0, 2)],
        [
            "fetch(q + 32 * n0, 512);",
            "fetch(scale + 2 * n0, 32);",
            "fetch(r_ + 32 * n0, 512);",
            "fetch(of_r + 2 * n0, 32);",
        ],
    ),
    "part of a row": (
        (part_of_a_row, in_bytes(2, 32, 96, 6, i8) | {"q": lg.spec(32, 144, dtype=i8)}),
        [("q", 144, 48, 96), ("scale", 6, 0, 6)],
        ["fetch(q + 144 * n0 + 48, 2256);", "fetch(scale + 6 * n0, 96);"],
    ),
    "columns last": (
        (columns_last, in_halves(1, 32, 96) | {"scale": lg.spec(3, 32, dtype=f16)}),
        [("q", 48, 0, 48)],
        ["fetch(q + 48 * n0, 768);"],
    ),
}


def fetches(kernel: LoweredKernel) -> list[str]:
    lines = map(str.strip, kernel_source(kernel, parse_target("cuda")).body.splitlines())
    return [line for line in lines if line.startswith("fetch(")]


@pytest.mark.parametrize("name", RUNS)
def test_a_block_asks_for_runs_that_its_columns_are_made_of(name: str) -> None:
    case, runs, lines = RUNS[name]
    (kernel,) = lowered(case)[1].kernels
    assert not fetches(kernel)
    program = kernel.program
    (product,) = (s for s in program.body if isinstance(s, Contract))
    assert product.b.value is not None
    found = runs_of(product.b.value, product.n)
    assert [(r.source.name, r.step, r.first, r.length) for r in found] == runs
    body = tuple(replace(s, fetched=True) if s is product else s for s in program.body)
    assert fetches(replace(kernel, program=replace(program, body=body))) == lines
    assert kernel.plan is not None
    assert kernel.schedule is not None
    built = CUDA.build(kernel.plan, kernel.schedule.at("fetch", 1))
    assert isinstance(built, Built)
    assert all(s.fetched for s in built.program.statements() if isinstance(s, Contract))


def test_columns_that_are_no_runs_are_not_fetched() -> None:
    """Blocks of which those of a column lie apart; a schedule that wants them as a run is refused."""

    def apart(x: Any, q: Any, scale: Any) -> Any:
        return halves(x, q.permute(1, 0, 2), scale.mT)

    inputs = in_halves(2, 32, 96)
    inputs |= {"q": lg.spec(3, 32, 16, dtype=u8), "scale": lg.spec(3, 32, dtype=f16)}
    (kernel,) = lowered((apart, inputs))[1].kernels
    assert kernel.program.skeleton == "few"
    assert not fetches(kernel)
    assert kernel.plan is not None
    assert kernel.schedule is not None
    refused = CUDA.build(kernel.plan, kernel.schedule.at("fetch", 1))
    assert isinstance(refused, Illegal)
    assert "runs of memory" in refused.reason


@pytest.mark.parametrize(("columns", "spread"), [(4096, True), (16384, False)])
def test_blocks_that_are_all_there_at_once_are_spread(columns: int, spread: bool) -> None:
    """Else they begin where others end, and a multiprocessor has as many as fit."""
    (kernel,) = lowered((halves, in_halves(1, columns, 64)))[1].kernels
    assert (kernel.program.most == 2) == spread
    body = kernel_source(kernel, parse_target("cuda")).body
    assert ("0, 0, false, true, Tile::kBlocks};" in " ".join(body.split())) == spread


def test_no_more_than_so_many_blocks_fit_in_shared_memory(tmp_path: Path) -> None:
    """The runtime's number is the search's, and a block has 1 KiB besides; no number, its own bytes."""
    cases = [(held * 1024, most, 1280) for held in (100, 164, 228) for most in (1, 2, 3, 4)]
    rows = "".join(f"say({held}, {most}, {own});" for held, most, own in cases)
    source = tmp_path / "bytes.cpp"
    source.write_text(
        '#include <cstdio>\n#include "kernel.h"\nusing namespace LUMIGEN_NS;\n'
        "void say(int32_t held, int32_t most, int32_t own) {\n"
        '  KernelRow row = {"", "", nullptr, 0, 256, own, 0, 0, false, true, most};\n'
        '  std::printf("%d ", launched_bytes(row, held));\n}\n'
        f"int main() {{ {rows} say(233472, 0, 1280); say(0, 2, 1280); say(233472, 2, 99999); }}\n",
        encoding="utf-8",
    )
    program = tmp_path / "bytes"
    flags = ("-std=c++17", "-DLUMIGEN_NS=n", f"-I{runtime_dir() / 'cuda'}")
    compiler = cxx()
    assert compiler is not None
    subprocess.run([compiler, *flags, source, "-o", program], check=True)
    said = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    found = [int(x) for x in said.split()]
    assert found[-3:] == [1280, 1280, 99999]
    for (held, most, own), bytes_ in zip(cases, found, strict=False):
        assert bytes_ == launched_bytes(own, most, held)
        assert most * (bytes_ + 1024) <= held < (most + 1) * (bytes_ + 1024)


@pytest.mark.parametrize("name", FLOATS)
def test_rows_of_a_weight_are_several_at_a_time(name: str, rng: np.random.Generator) -> None:
    (program,) = check(FLOATS[name], CUDA, 1, rng)
    stores = [s for s in program.statements() if isinstance(s, StoreTile)]
    assert program.skeleton == "simt"
    assert len(stores) == {"one_row": 2, "three_rows": 6}[name]


def test_so_many_rows_are_few_no_more(rng: np.random.Generator) -> None:
    programs = check((halves, in_halves(17, 36, 96)), CUDA, 1, rng)
    assert [p.skeleton for p in programs] == ["simt", "pipeline"]
