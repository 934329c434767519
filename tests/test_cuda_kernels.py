"""Kernels of CUDA compile without a warning for each architecture, and do not spill.

What they compute is checked by the interpreter of tile programs; how fast, on a GPU.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import nvcc
import pytest
from tiles import traced

import lumigen as lg
from lumigen import functional as F
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredKernel, assemble
from lumigen.targets.cuda.device import CUDA
from lumigen.targets.cuda.speller import device_kernel_body, symbol

ROOT = Path(__file__).parent.parent
POSITIONS = lg.Dim("positions", 1, 4096, typical=1024)
ROWS = lg.Dim("rows", 1, 4096, typical=1024)

pytestmark = nvcc.MARKS

# What its header says of a kernel.
DECLARED = """\
#include <cstddef>
#include <cstdint>
namespace LUMIGEN_NS {{
struct KernelRow {{
  const char* name;
  const char* origin;
  const void* function;
  size_t args_bytes;
  int threads, shared_bytes;
}};
struct {name}_args {{
{fields}
}};
extern const KernelRow {name}_row;
}}
"""


def causal(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def turned(q: Any, k: Any, v: Any) -> Any:
    """Operands that lie along other axes, or are computed on their way; a bias that is read from memory."""
    scores = q @ k.reshape(q.shape[0], 4, -1, POSITIONS) * 0.125 + q[:, :, :, :1]
    return scores.softmax(-1) @ v.reshape(q.shape[0], 4, -1, POSITIONS).mT


def kernel(function: Any, features: int, dtype: Any, heads: int, batch: int = 64) -> LoweredKernel:
    entry = traced(
        function,
        q=lg.spec(batch, 4, POSITIONS, features, dtype=dtype),
        k=lg.spec(batch, heads, POSITIONS, features, dtype=dtype),
        v=lg.spec(batch, heads, POSITIONS, features, dtype=dtype),
    )
    for step in GRAPH_PASSES:
        entry = step(entry)
    (made,) = assemble((("entry", entry),), CUDA).kernels
    assert made.program.skeleton == "cascade"
    return made


def vector_loops(function: Any, columns: Any, dtype: Any) -> LoweredKernel:
    """The last kernel of what the function makes of rows."""
    entry = traced(function, x=lg.spec(ROWS, columns, dtype=dtype))
    for step in GRAPH_PASSES:
        entry = step(entry)
    made = assemble((("entry", entry),), CUDA).kernels[-1]
    assert made.program.skeleton == "simt"
    return made


def compile_for(arch: str, made: LoweredKernel, folder: Path, *, only_packets: bool = False) -> str:
    """What the compiler says; a warning is an error."""
    runtime = folder / "runtime"
    runtime.mkdir()
    for header in [
        *(ROOT / "templates" / "cuda").glob("*.*h"),
        ROOT / "runtime" / "index.h",
        ROOT / "runtime" / "random.h",
    ]:
        shutil.copy(header, runtime)
    fields = "\n".join(f"  {p.ctype} {p.name};" for p in made.parameters)
    text = device_kernel_body(made.name, made.program, made.parameters, "model.py:1").body
    if only_packets:
        text = re.sub(r"either_way\(.*, \[&\]", "either_way(true, [&]", text)
    source = folder / "kernel.cu"
    source.write_text(DECLARED.format(name=made.name, fields=fields) + text)
    return nvcc.of_kernel(source, arch, "native", [folder])


@pytest.mark.parametrize("arch", ["80", pytest.param("90a", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "features", [64, *(pytest.param(n, marks=pytest.mark.slow) for n in (128, 256))]
)
def test_a_fold_around_a_contraction(arch: str, features: int, tmp_path: Path) -> None:
    log = compile_for(arch, kernel(causal, features, lg.bf16, 2), tmp_path)
    assert re.findall(r"(\d+) bytes spill stores", log) == ["0"], log


@pytest.mark.parametrize("arch", [pytest.param("80", marks=pytest.mark.slow), "90a"])
def test_operands_that_lie_otherwise(arch: str, tmp_path: Path) -> None:
    log = compile_for(arch, kernel(turned, 64, lg.f16, 4), tmp_path)
    assert re.findall(r"(\d+) bytes spill stores", log) == ["0"], log


@pytest.mark.parametrize(
    ("origin", "lines"),
    [
        ("model.py:13", "_model_13"),
        ("model.py:13, 14; my-blocks.py:7", "_model_13_14_my_blocks_7"),
        ("model.py:1, 2, 3, 4, 5, 6 and 3 more", "_model_1_2_3_4_5_6"),
        ("lärm.py:3", "_l_rm_3"),
        ("", ""),
    ],
)
def test_a_symbol_has_the_lines_of_the_model(origin: str, lines: str) -> None:
    assert symbol("k01_softmax", origin) == f"k01_softmax{lines}"


@pytest.mark.slow
def test_what_a_fold_carries_is_stored_too(tmp_path: Path) -> None:
    def both(q: Any, k: Any, v: Any) -> dict[str, Any]:
        scores = q @ k.mT * 0.125
        return {"mixed": scores.softmax(-1) @ v, "total": scores.logsumexp(-1)}

    made = kernel(both, 64, lg.bf16, 4)
    assert len(made.region.stores) == 2
    log = compile_for("80", made, tmp_path)
    assert re.findall(r"(\d+) bytes spill stores", log) == ["0"], log


def one_token(features: int, group: int, dtype: Any) -> list[LoweredKernel]:
    """The parts of a fold over a cache, and their merge."""

    def entry(q: Any, pos: Any) -> Any:
        keys, values = (lg.nn.State(n, (2, 4096, features), dtype) for n in ("keys", "values"))
        seen = lg.arange(4096) <= pos
        scores = (q @ keys.mT).float().masked_fill(~seen, float("-inf"))
        return scores.softmax(-1).to(dtype) @ values

    position = lg.spec(dtype=lg.i64, range=(0, 4095))
    graph = traced(entry, q=lg.spec(2, group, features, dtype=dtype), pos=position)
    for step in GRAPH_PASSES:
        graph = step(graph)
    return list(assemble((("entry", graph),), CUDA).kernels)


FEW = [  # features, rows that share keys
    (128, 4, lg.bf16),
    *(
        pytest.param(features, group, dtype, marks=pytest.mark.slow)
        for dtype in (lg.bf16, lg.f32)
        for features, group in ((16, 1), (64, 1), (80, 3), (128, 16), (256, 8))
    ),
]


@pytest.mark.parametrize("arch", ["80", pytest.param("90a", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("features", "group", "dtype"), FEW)
def test_parts_of_a_fold_of_few_rows(
    arch: str, features: int, group: int, dtype: Any, tmp_path: Path
) -> None:
    made = one_token(features, group, dtype)
    assert [k.program.skeleton for k in made] == ["cascade", "simt"]
    for k in made:
        folder = tmp_path / k.name
        folder.mkdir()
        log = compile_for(arch, k, folder)
        assert re.findall(r"(\d+) bytes spill stores", log) == ["0"], log


SCALAR = [  # features, batch: of many rows to a block, and of few
    (64, 32),
    *(pytest.param(f, b, marks=pytest.mark.slow) for f in (16, 64, 128, 256) for b in (1, 32)),
]


@pytest.mark.parametrize(
    "arch", ["80", *(pytest.param(a, marks=pytest.mark.slow) for a in ("90a", "120"))]
)
@pytest.mark.parametrize(("features", "batch"), SCALAR)
def test_a_fold_in_f32(arch: str, features: int, batch: int, tmp_path: Path) -> None:
    made = kernel(causal, features, lg.f32, 2, batch)
    log = compile_for(arch, made, tmp_path)
    assert re.findall(r"(\d+) bytes spill stores", log) == ["0"], log


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["80", "90a"])
def test_f32_that_lies_otherwise(arch: str, tmp_path: Path) -> None:
    log = compile_for(arch, kernel(turned, 64, lg.f32, 4), tmp_path)
    assert re.findall(r"(\d+) bytes spill stores", log) == ["0"], log


@pytest.mark.parametrize(
    ("features", "batch"), [(f, b) for f in (16, 64, 128, 256) for b in (1, 32)]
)
def test_a_block_in_f32_fits_the_smallest_device(features: int, batch: int) -> None:
    """99 KiB of shared memory: a tile of rows, slots of the others, and a fragment where none of them has room."""
    tile = kernel(causal, features, lg.f32, 2, batch).program.tile
    assert tile is not None
    sites = ("rows", "columns", "depth", "step", "slots")
    rows, columns, depth, step, slots = (tile[s] for s in sites)
    fragment = 0 if rows <= depth else rows * step
    assert 4 * (rows * depth + slots * step * (depth + columns) + fragment) <= 99 * 1024


@pytest.mark.slow
def test_sums_beside_a_product_that_no_row_and_no_column_has(tmp_path: Path) -> None:
    entry = traced(
        lambda x, y: (x @ x.mT) * y.square().sum(-1)[:, None, None],
        x=lg.spec(2, 4, 4),
        y=lg.spec(2, 8),
    )
    for step in GRAPH_PASSES:
        entry = step(entry)
    made = assemble((("entry", entry),), CUDA).kernels[-1]
    assert made.program.skeleton == "pipeline"
    assert (
        "for_lanes" in device_kernel_body(made.name, made.program, made.parameters, "m.py:1").body
    )
    compile_for("80", made, tmp_path)


LOOPS: dict[str, tuple[Any, Any, Any]] = {
    "row": (lambda x: x.softmax(-1), 4096, lg.bf16),
    "row_of_f16": (lambda x: F.layer_norm(x, (1000,)), 1000, lg.f16),
    "row_that_ends_between": (lambda x: x.softmax(-1), 1001, lg.bf16),
    "row_of_a_dim": (lambda x: x.softmax(-1), POSITIONS, lg.f32),
    "row_read_again": (lambda x: x.softmax(-1), 40000, lg.bf16),
    "row_with_edges": (lambda x: F.pad(x, (3, 5)).softmax(-1), 4000, lg.bf16),
    "map": (lambda x: F.gelu(x), 4096, lg.bf16),
    "map_that_shifts": (lambda x: x[:, 1:] + x[:, :-1], POSITIONS, lg.bf16),
    "columns": (lambda x: x.sum(0), POSITIONS, lg.bf16),
}


@pytest.mark.parametrize("arch", ["80", pytest.param("90a", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n == "row_of_f16" else [pytest.mark.slow]) for n in LOOPS]
)
def test_vector_loops(arch: str, name: str, tmp_path: Path) -> None:
    log = compile_for(arch, vector_loops(*LOOPS[name]), tmp_path)
    assert re.findall(r"(\d+) bytes spill stores", log) == ["0"], log


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["80", "90a"])
def test_the_order_of_rows_and_what_is_drawn(arch: str, tmp_path: Path) -> None:
    def function(x: Any, seed: Any) -> dict[str, Any]:
        noise = lg.randn_like(x, generator=lg.Generator(seed))
        return {"order": x.argsort(-1), "noisy": x + noise}

    entry = traced(function, x=lg.spec(ROWS, POSITIONS), seed=lg.spec(dtype=lg.i64))
    for step in GRAPH_PASSES:
        entry = step(entry)
    made = assemble((("entry", entry),), CUDA).kernels
    assert [k.program.skeleton for k in made] == ["order", "simt"]
    for k in made:
        folder = tmp_path / k.name
        folder.mkdir()
        log = compile_for(arch, k, folder)
        assert re.findall(r"(\d+) bytes spill stores", log) == ["0"], log


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["80", "90a"])
def test_rows_that_are_selected_from_or_read_in_turns(arch: str, tmp_path: Path) -> None:
    def function(x: Any, y: Any) -> dict[str, Any]:
        few, many = x.topk(8), y.topk(50, largest=False)
        whole = {"place": y.argmax(-1), "sum": y.logsumexp(-1)}
        return {"i": few.indices, "v": few.values, "j": many.indices, "w": many.values, **whole}

    entry = traced(function, x=lg.spec(ROWS, 256), y=lg.spec(ROWS, 40000, dtype=lg.bf16))
    for step in GRAPH_PASSES:
        entry = step(entry)
    made = assemble((("entry", entry),), CUDA).kernels
    assert {k.program.skeleton for k in made} == {"order", "simt"}
    for k in made:
        folder = tmp_path / k.name
        folder.mkdir()
        log = compile_for(arch, k, folder)
        assert re.findall(r"(\d+) bytes spill stores", log) == ["0"], log


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["80", "90a"])
@pytest.mark.parametrize("width", [lg.Dim("width", 1, 300, typical=100), 64])
def test_columns_that_are_read_in_turns(width: Any, arch: str, tmp_path: Path) -> None:
    def function(x: Any, y: Any, z: Any) -> dict[str, Any]:
        return {"held": x.argmax(1), "parts": y.argmin(0), "sum": z.logsumexp(1)}

    entry = traced(
        function,
        x=lg.spec(ROWS, 40, width),
        y=lg.spec(40000, width, dtype=lg.bf16),
        z=lg.spec(600, 4100, width),
    )
    for step in GRAPH_PASSES:
        entry = step(entry)
    made = assemble((("entry", entry),), CUDA).kernels
    assert sum(k.schedule is not None and k.schedule.get("turn", 0) > 0 for k in made) == 2
    for k in made:
        folder = tmp_path / k.name
        folder.mkdir()
        log = compile_for(arch, k, folder)
        assert re.findall(r"(\d+) bytes spill stores", log) == ["0"], log


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["80", "90a"])
def test_rows_in_groups(arch: str, tmp_path: Path) -> None:
    entry = traced(
        lambda x, i, s: x.index_add(0, i, s),
        x=lg.spec(ROWS, 64),
        i=lg.spec(POSITIONS, dtype=lg.i64),
        s=lg.spec(POSITIONS, 64),
    )
    for step in GRAPH_PASSES:
        entry = step(entry)
    made = assemble((("entry", entry),), CUDA).kernels
    assert [k.program.skeleton for k in made] == ["groups", "simt"]
    for k in made:
        folder = tmp_path / k.name
        folder.mkdir()
        log = compile_for(arch, k, folder)
        assert re.findall(r"(\d+) bytes spill stores", log) == ["0"], log


@pytest.mark.slow
def test_integers_that_a_condition_on_data_keeps(tmp_path: Path) -> None:
    """What is read in place of none is an element of their own type."""
    entry = traced(
        lambda n, k: {"kept": lg.where(n >= 0, n, 0), "most": lg.where(k >= 0, k, 0).amax(1)},
        n=lg.spec(ROWS, 256, dtype=lg.i8),
        k=lg.spec(ROWS, 100, dtype=lg.i64),
    )
    for step in GRAPH_PASSES:
        entry = step(entry)
    for k in assemble((("entry", entry),), CUDA).kernels:
        folder = tmp_path / k.name
        folder.mkdir()
        compile_for("90a", k, folder)
        assert "load_where(" in (folder / "kernel.cu").read_text(encoding="utf-8")


@pytest.mark.slow
def test_rows_held_in_16_bits(tmp_path: Path) -> None:
    """Where vectors move as packets nothing spills; bytes that lie anywhere wait in a register each."""

    def normalized(x: Any, r: Any, w: Any, b: Any) -> Any:
        total = x + r
        return {"y": F.layer_norm(total, (x.shape[-1],), w, b), "total": total}

    for number, (columns, dtype) in enumerate(
        ((4096, lg.bf16), (384, lg.f16), (768, lg.f16), (5000, lg.bf16))
    ):
        rows, row = (lg.spec(*s, columns, dtype=dtype) for s in ((ROWS,), ()))
        entry = traced(normalized, x=rows, r=rows, w=row, b=row)
        for step in GRAPH_PASSES:
            entry = step(entry)
        (made,) = assemble((("entry", entry),), CUDA).kernels
        folder = tmp_path / str(number)
        folder.mkdir()
        log = compile_for("90a", made, folder, only_packets=True)
        assert re.findall(r"(\d+) bytes spill stores", log) == ["0"], log
