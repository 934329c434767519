"""Folds around a contraction that have a kernel for Hopper: which do, what it says, what it computes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import nvcc
import pytest
from device_cases import Case, compiled_kernels, every_variant_agrees, lowered

import lumigen as lg
from lumigen import functional as F
from lumigen.lower.assemble import LoweredKernel, LoweredModel
from lumigen.printer.tile import show as show_tile
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


def test_the_text_of_a_tile(golden: Callable[[str, str], None]) -> None:
    (kernel,) = cascades(lowered(MAPPED["causal"], "sm_90a")[1])
    golden("tile/cascade_roles.txt", show_tile(kernel.program))


def test_whole_tiles_are_not_asked_for_their_conditions() -> None:
    """The scores of a causal attention are masked at the diagonal and the end alone."""
    (kernel,) = cascades(lowered(MAPPED["causal"], "sm_90a")[1])
    text = show_tile(kernel.program)
    assert re.search(r"when .*m0.*>= 0, .*positions.*>= 0\n\s*otherwise\n\s*map score", text)


def test_the_longest_loops_come_first() -> None:
    """Blocks are begun in order of their number: with a causal mask the last rows have the most to do."""
    bound = {
        name: re.search(
            r"m0 = (.*)", show_tile(cascades(lowered(MAPPED[name], "sm_90a")[1])[0].program)
        )
        for name in ("causal", "full")
    }
    assert bound["causal"]
    assert "- 192*((task)%" in bound["causal"][1]
    assert bound["full"]
    assert bound["full"][1].startswith("192*((task)%")


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
