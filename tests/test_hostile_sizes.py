"""Sizes that a file of schedules may have and no search tries: refused with a reason, in little time and memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from random import Random
from typing import Any

import numpy as np
import pytest
from lumigen.nn import functional as F
from tiles import run_entry, traced

import lumigen as lg
from lumigen.interp.graph import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.lower.built import scratch_of
from lumigen.lower.devices import Device
from lumigen.machine import Processor
from lumigen.plan import Illegal
from lumigen.region import Region
from lumigen.schedule import Schedule
from lumigen.search.choice import Choice, beginnings, candidate_of
from lumigen.targets.cpu.device import CPU
from lumigen.targets.cuda.device import CUDA

ROWS = lg.Dim("rows", 1, 4096, typical=64)
SIZES = (0, 1, 3, 7, 16, 33, 100, 256, 4096, *(1 << n for n in (16, 20, 24, 27, 30)), (1 << 31) - 1)
DRAWS = 12  # of sizes, for each region and candidate


def attention(q: Any, k: Any, v: Any) -> Any:
    return ((q @ k.mT) * 0.125).softmax(-1) @ v


MODELS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "product": (lambda x, w: (x @ w).relu(), {"x": lg.spec(ROWS, 48), "w": lg.spec(48, 40)}),
    "rows": (lambda x: x.softmax(-1), {"x": lg.spec(ROWS, 70)}),
    "columns": (lambda x: x.sum(0), {"x": lg.spec(400, 20)}),
    "attention": (attention, {name: lg.spec(2, ROWS, 16) for name in "qkv"}),
    "windows": (
        lambda x, w: F.conv2d(x, w, padding=1).relu(),
        {"x": lg.spec(1, 4, 12, 12), "w": lg.spec(8, 4, 3, 3)},
    ),
    "apart": (
        lambda x, w: F.conv2d(x, w, padding=1, groups=4),
        {"x": lg.spec(1, 4, 12, 12), "w": lg.spec(4, 1, 3, 3)},
    ),
    "scan": (lambda x: x.cumsum(-1), {"x": lg.spec(ROWS, 90)}),
}


def graph_of(name: str) -> Any:
    function, specs = MODELS[name]
    graph = traced(function, **specs)
    for step in GRAPH_PASSES:
        graph = step(graph)
    return graph


def lowered(graph: Any, device: Device, choices: dict[Region, Choice]) -> LoweredModel:
    def pick(canonical: Region, named: Region) -> Any:
        choice = choices.get(canonical)
        return None if choice is None else candidate_of(choice, named, device)

    return assemble((("entry", graph),), device, pick=pick)


def drawn(first: Choice, random: Random) -> Iterator[Choice]:
    """The same with sizes from all that a file may say, at a site or two of each kernel."""
    while True:
        yield replace(first, schedules=tuple(_drawn(s, random) for s in first.schedules))


def _drawn(sizes: Schedule, random: Random) -> Schedule:
    sites = [site for site, _ in sizes.tile]
    for site in random.sample(sites, min(len(sites), random.choice((1, 2)))):
        sizes = sizes.at(site, random.choice(SIZES))
    return replace(sizes, parts=tuple(_drawn(p, random) for p in sizes.parts))


@pytest.mark.parametrize("device", [CPU, CUDA], ids=["cpu", "cuda"])
@pytest.mark.parametrize("name", MODELS)
def test_sizes_of_any_kind_make_small_kernels_or_none(name: str, device: Device) -> None:
    random, graph, count = Random(name), graph_of(name), 0
    for region in {k.of for k in lowered(graph, device, {}).kernels if k.of is not None}:
        for first in islice(beginnings(region, device), 3):
            for choice in islice(drawn(first, random), DRAWS):
                found = candidate_of(choice, region, device)
                assert found is not None
                built = device.realise(found)
                if isinstance(built, Illegal):
                    assert built.reason
                    continue
                count += 1
                for b in built:
                    assert len(list(b.program.statements())) < 4000
                    if isinstance(device.machine, Processor):
                        assert scratch_of(b.program) <= device.machine.scratch
    assert count


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_what_is_realised_of_them_computes_the_same(name: str, rng: np.random.Generator) -> None:
    random, graph = Random(name), graph_of(name)
    inputs = {
        key: rng.standard_normal([e.const if e.is_const else 5 for e in spec.shape])
        for key, spec in MODELS[name][1].items()
    }
    inputs = {key: a.astype(np.float32) for key, a in inputs.items()}
    wanted, plain = evaluate(graph, inputs, {}), lowered(graph, CPU, {})
    for region in {k.of for k in plain.kernels if k.of is not None}:
        for first in islice(beginnings(region, CPU), 2):
            for choice in islice(drawn(first, random), 4):
                made = lowered(graph, CPU, {region: choice})
                for key, array in run_entry(made, inputs, {}).items():
                    np.testing.assert_allclose(array, wanted[key], 1e-4, 1e-5)


@pytest.mark.parametrize(
    ("name", "builder", "site", "size", "reason"),
    [
        ("product", "windows", "rows", 1 << 24, "bytes of scratch for each thread"),
        ("product", "windows", "chunk", 1 << 24, "bytes of scratch for each thread"),
        ("product", "simt", "held", 1 << 24, "rows are folded together, and 16 at most"),
        ("apart", "sliding", "held", 1 << 20, "rows are folded together, and 16 at most"),
    ],
)
def test_more_than_there_is_is_refused(
    name: str, builder: str, site: str, size: int, reason: str
) -> None:
    (region,) = {k.of for k in lowered(graph_of(name), CPU, {}).kernels if k.of is not None}
    first = next(c for c in beginnings(region, CPU) if c.schedules[0].builder == builder)
    found = candidate_of(
        replace(first, schedules=(first.schedules[0].at(site, size),)), region, CPU
    )
    assert found is not None
    built = CPU.realise(found)
    assert isinstance(built, Illegal)
    assert reason in built.reason
