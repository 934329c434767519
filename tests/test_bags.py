"""Sums between integers that are read: a bag of embeddings is a loop from its offset to the next one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tiles import run_entry, traced

import lumigen as lg
from lumigen.index import Lookup
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.lower.devices import Device
from lumigen.lower.runs import terms_of
from lumigen.region import Reduce, walk
from lumigen.targets.cpu.device import CPU
from lumigen.targets.cuda.device import CUDA

IDS, BAGS = lg.Dim("ids", 1, 4000), lg.Dim("bags", 1, 500)
DEVICES = pytest.mark.parametrize("device", [CPU, CUDA], ids=["cpu", "cuda"])
VOCABULARY, WIDTH = 50, 24


def lowered(function: Any, device: Device, **inputs: Any) -> LoweredModel:
    graph = traced(function, **inputs)
    for step in GRAPH_PASSES:
        graph = step(graph)
    return assemble((("entry", graph),), device)


def bags(device: Device, **options: Any) -> LoweredModel:
    def function(ids: Any, table: Any, offsets: Any) -> Any:
        return lg.functional.embedding_bag(ids, table, offsets, **options)

    return lowered(
        function,
        device,
        ids=lg.spec(IDS, dtype=lg.i64, range=(0, VOCABULARY)),
        table=lg.spec(VOCABULARY, WIDTH),
        offsets=lg.spec(BAGS, dtype=lg.i64),
    )


def reductions(model: LoweredModel) -> list[Reduce]:
    values = [s.value for k in model.kernels for s in k.region.stores]
    return [e for e in walk(values) if isinstance(e, Reduce)]


def is_between_read_integers(r: Reduce) -> bool:
    """Whether the loop begins at an integer of a buffer and ends at the next one of it."""
    (k,) = r.axes
    ends = {
        factor: {
            a.source
            for c in r.where
            if c.slack.coefficient(k) == factor
            for a in (c.slack - factor * (c.slack * 0 + k)).atoms()
            if isinstance(a, Lookup)
        }
        for factor in (1, -1)
    }
    return len(ends[1] & ends[-1]) == 1


OPTIONS: list[dict[str, Any]] = [
    {"mode": "sum"},
    {"mode": "mean"},
    {"mode": "max"},
    {"mode": "mean", "padding_idx": 3},
    {"mode": "sum", "include_last_offset": True},
]


@DEVICES
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_bag_is_a_loop_from_its_offset_to_the_next(
    device: Device, options: dict[str, Any]
) -> None:
    model = bags(device, **options)
    found = reductions(model)
    assert found
    assert all(map(is_between_read_integers, found))
    assert all(terms_of(r) < 10 for r in found)  # of 4000 ids in 500 bags
    rng = np.random.default_rng(2)
    ids, table = rng.integers(0, VOCABULARY, 90), rng.normal(size=(VOCABULARY, WIDTH))
    last = [90] if "include_last_offset" in options else []
    offsets = np.array([0, 0, 7, 30, 31, 31, 80, 90, *last])  # some bags are empty
    table = table.astype(np.float32)
    result = run_entry(model, {"ids": ids, "table": table, "offsets": offsets}, {})["out"]
    want = torch.nn.functional.embedding_bag(
        *map(torch.from_numpy, (ids, table, offsets)), **options
    )
    np.testing.assert_allclose(result, want, 1e-5, 1e-5)


@DEVICES
def test_bounds_that_are_computed_are_stored_before_the_loop(device: Device) -> None:
    """A plain sum over a comparison with positions is no other than a bag."""

    def function(x: Any, length: Any) -> Any:
        end = (length.to(lg.f32) * 2).to(lg.i64).unsqueeze(-1)
        return lg.where(lg.arange(x.shape[1]) < end, x, 0).sum(1)

    sizes = {"x": lg.spec(BAGS, IDS), "length": lg.spec(BAGS, dtype=lg.i64)}
    model = lowered(function, device, **sizes)
    (r,) = reductions(model)
    assert any(isinstance(a, Lookup) for c in r.where for a in c.slack.atoms())
    x, length = np.random.default_rng(4).normal(size=(5, 40)).astype(np.float32), np.arange(5) * 4
    found = run_entry(model, {"x": x, "length": length}, {})["out"]
    want = [row[: 2 * n].sum() for row, n in zip(x, length, strict=True)]
    np.testing.assert_allclose(found, want, 1e-5, 1e-5)
