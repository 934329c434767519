"""Folds around a contraction that have a kernel for Hopper: which do, what it says, what it computes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import nvcc
import pytest
from device_cases import Case, compiled_kernels, every_variant_agrees, lowered

import lumigen as lg
from lumigen import functional as F
from lumigen.lower.assemble import LoweredKernel, LoweredModel
from lumigen.lower.plan_region import Candidate
from lumigen.lower.stream_roles import SITES, sizes_of, stream_roles
from lumigen.machine import FlowTile
from lumigen.plan import Illegal
from lumigen.printer.tile import show as show_tile
from lumigen.region import Region
from lumigen.targets.cuda.device import CUDA
from lumigen.targets.cuda.machines import SM_90A
from lumigen.verify.tile import verify

POSITIONS = lg.Dim("positions", 1, 500, typical=400)
KEYS = lg.Dim("keys", 1, 700, typical=512)
MANY = lg.Dim("many", 1, 4096, typical=2048)
SHORT = lg.Dim(
    "short", 1, 4096, typical=256
)  # a fold that stays in one launch, of however few heads


def spec(*shape: Any, dtype: Any = lg.bf16) -> Any:
    return lg.spec(*shape, dtype=dtype)


def heads(dtype: Any = lg.bf16, features: int = 64, kept: int = 2) -> dict[str, Any]:
    """Two heads of queries and so many of keys and values, batches and heads one behind the other."""
    q, k = (
        spec(2, n, length, features, dtype=dtype) for n, length in ((2, POSITIONS), (kept, KEYS))
    )
    return {"q": q, "k": k, "v": k}


def square(features: int = 64, kept: int = 2) -> dict[str, Any]:
    q, k = (spec(2, n, POSITIONS, features) for n in (2, kept))
    return {"q": q, "k": k, "v": k}


def attention(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v)


def causal(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def interleaved(q: Any, k: Any, v: Any) -> Any:
    """Heads side by side in a row, as projections leave them."""
    q, k, v = (x.reshape(2, -1, 3, 64).transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2)


def windowed(q: Any, k: Any, v: Any) -> Any:
    i, j = lg.arange(q.shape[2]).unsqueeze(-1), lg.arange(q.shape[2])
    return F.scaled_dot_product_attention(q, k, v, (i < j + 70) & (j < i + 1))


def turned(q: Any, k: Any, v: Any) -> Any:
    """Keys and values that lie along other axes."""
    return (q @ k * 0.125).softmax(-1) @ v.mT


def with_log_sum_exp(q: Any, k: Any, v: Any) -> dict[str, Any]:
    scores = q @ k.mT * 0.125
    return {"mixed": scores.softmax(-1) @ v, "total": scores.logsumexp(-1)}


MAPPED: dict[str, Case] = {
    "full": (attention, heads()),
    "full_128": (attention, heads(features=128)),
    "full_256": (attention, {n: spec(2, 1, SHORT, 256) for n in "qkv"}),
    "features_72": (attention, heads(features=72)),
    "half": (attention, heads(lg.f16)),
    "causal": (causal, square()),
    "causal_128": (causal, square(128)),
    "one_head_of_keys": (causal, square(kept=1)),
    "window": (windowed, square()),
    "interleaved": (interleaved, {n: spec(2, POSITIONS, 192) for n in "qkv"}),
    "turned": (
        turned,
        {"q": spec(2, POSITIONS, 64), "k": spec(2, 64, 264), "v": spec(2, 64, 264)},
    ),
    "mask": (
        lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, mask < 1.5),
        {**heads(), "mask": lg.spec(2, 1, 1, KEYS)},
    ),
    "bias": (
        lambda q, k, v, bias: F.scaled_dot_product_attention(q, k, v, bias),
        {**heads(), "bias": spec(POSITIONS, KEYS)},
    ),
    "values_stored_before": (lambda q, k, v: attention(q, k, (v + 1).relu()), heads()),
    "log_sum_exp": (with_log_sum_exp, heads()),
    "no_maximum": (lambda q, k, v: (q @ k.mT * 0.05).relu() @ v, heads()),
}
NOT_MAPPED: dict[str, Case] = {
    "narrow": (attention, heads(features=32)),
    "no_whole_16_bytes": (attention, heads(features=68)),
    "batches_in_three_strides": (
        lambda q, k, v: attention(*(x.permute(2, 1, 0, 3, 4) for x in (q, k, v))),
        {n: spec(2, 3, 2, 264, 64) for n in "qkv"},
    ),
}


def cascades(model: LoweredModel) -> list[LoweredKernel]:
    return [k for k in model.kernels if k.program.skeleton == "cascade_roles"]


SLOW = {"full_128", "full_256"}  # to interpret


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in MAPPED]
)
def test_both_kernels_compute_the_graph(name: str, rng: np.random.Generator) -> None:
    graph, model = lowered(MAPPED[name], "sm_90a")
    (kernel,) = cascades(model)
    verify(kernel.program, name)
    for positions, keys in ((1, 1), (130, 257)):
        dims = {POSITIONS: positions, KEYS: keys, MANY: keys, SHORT: keys}
        every_variant_agrees(graph, model, dims, rng, f"{name} at {positions}, {keys}")


@pytest.mark.parametrize("name", NOT_MAPPED)
def test_what_has_the_general_kernel_alone(name: str) -> None:
    _, model = lowered(NOT_MAPPED[name], "sm_90a")
    assert not cascades(model)
    assert any(k.program.skeleton == "cascade" for k in model.kernels)


def test_only_a_project_for_hopper_has_them() -> None:
    assert not cascades(lowered(MAPPED["full"], "sm_80", "sm_100")[1])


def test_each_size_of_a_tile_changes_the_program_or_is_refused() -> None:
    """And every site has a size that is legal beside the sizes of the others."""
    (kernel,) = cascades(lowered(MAPPED["causal"], "sm_90a")[1])
    assert kernel.plan is not None
    sizes = sizes_of(FlowTile(128, 64, 64, 64, 2, 1, overlap=False, turns=False), 0)
    seen = [stream_roles(kernel.plan, sizes, SM_90A).program]
    felt: set[str] = set()
    near = CUDA.builders["stream_roles"].near(kernel.plan, sizes)
    for other in near:
        changed = [s for (s, a), (_, b) in zip(sizes.tile, other.tile, strict=True) if a != b]
        made = CUDA.build(kernel.plan, other) if len(changed) == 1 else None
        if isinstance(made, Illegal):
            assert made.reason
        elif made is not None:
            assert made.program not in seen, f"{other} makes what was there before"
            verify(made.program, str(other))
            seen.append(made.program)
            felt |= {*changed}
    assert felt == set(SITES)


SEARCHED = {  # sizes that differ from the heuristic's at several sites
    "turns": {"turns": 1, "overlap": 0, "raster": 1},
    "long_steps": {"rows": 128, "step": 256, "overlap": 0, "slots": 1},
    "short_rows": {"rows": 64, "step": 64, "blocks": 3},
    "wide": {"rows": 128, "columns": 128, "depth": 128},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SEARCHED)
def test_what_a_search_chooses_computes_the_graph(name: str, rng: np.random.Generator) -> None:
    def wanted(_: Region, region: Region) -> Candidate | None:
        found = next(CUDA.space(region))
        own = [v.sizes for v in CUDA.variants(found, ("sm_90a",))]
        if [s.builder for s in own] != ["stream_roles"]:
            return None
        (sizes,) = own
        for site, size in SEARCHED[name].items():
            sizes = sizes.at(site, size)
        return replace(found, special=(sizes,))

    graph, model = lowered(MAPPED["causal"], "sm_90a", pick=wanted)
    (kernel,) = cascades(model)
    assert kernel.program.tile is not None
    chosen = {s: kernel.program.tile[s] for s in SEARCHED[name] if s != "raster"}
    assert chosen == {s: n for s, n in SEARCHED[name].items() if s != "raster"}
    every_variant_agrees(graph, model, {POSITIONS: 130}, rng, name)


def test_the_text_of_a_tile(golden: Callable[[str, str], None]) -> None:
    (kernel,) = cascades(lowered(MAPPED["causal"], "sm_90a")[1])
    golden("tile/cascade_roles.txt", show_tile(kernel.program))


def test_whole_tiles_are_not_asked_for_their_conditions() -> None:
    """The scores of a causal attention are masked at the diagonal and the end alone."""
    (kernel,) = cascades(lowered(MAPPED["causal"], "sm_90a")[1])
    text = show_tile(kernel.program)
    assert re.search(r"when .*m0.*>= 0, .*positions.*>= 0\n\s*otherwise\n\s*map score", text)


def test_the_longest_loops_come_first() -> None:
    """Blocks are begun in order of their number: with a causal mask the last rows have the most to do.

    Those of all heads, where blocks are a few rounds; else those of one head, whose points they share in the cache.
    """

    def first_row(case: Any) -> str:
        found = re.search(r"m0 = (.*)", show_tile(cascades(lowered(case, "sm_90a")[1])[0].program))
        assert found is not None
        return found[1]

    function, specs = MAPPED["causal"]
    heads = 1000
    many = {n: lg.spec(s.shape[0], heads, *s.shape[2:], dtype=s.dtype) for n, s in specs.items()}
    assert "- 192*((task)//" in first_row((function, specs))
    assert "- 192*((task)%" in first_row((function, many))
    assert first_row(MAPPED["full"]).startswith("192*((task)%")


# ---- as text for a compiler ----


@pytest.mark.slow
@nvcc.needed
@pytest.mark.parametrize("arch", ["80", "90a", "100"])
def test_kernels_compile_without_a_warning_or_a_spill(arch: str, tmp_path: Path) -> None:
    names = ("full", "full_128", "full_256", "half", "causal", "causal_128", "bias", "turned")
    names += ("log_sum_exp",)
    kernels = compiled_kernels(MAPPED, names, "cascade_roles", arch, tmp_path)
    assert len(kernels) == len(names)
    for kernel, said in kernels:
        assert set(re.findall(r"(\d+) bytes spill stores", said)) == {"0"}, kernel + said
        assert "C75" not in said, kernel + said  # products that wait for each other
