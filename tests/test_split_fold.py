"""Folds around a product in parts: what the parts and their merge come to is what the fold meant."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from folds import FEW, FOLDED, KEYS, POSITIONS, specs_of
from tiles import traced

import lumigen as lg
from lumigen.graph import Graph
from lumigen.interp.region import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import assemble
from lumigen.lower.cascade import Cascade, find_cascade
from lumigen.lower.devices import CPU
from lumigen.lower.split_fold import SplitFold, split_fold
from lumigen.region import Region, Role
from lumigen.verify.plan import verify as verify_plan
from lumigen.verify.region import verify as verify_region

POINTS = {POSITIONS: 21, KEYS: 23, FEW: 3}  # the last part is ragged


@cache
def graph_of(name: str) -> Graph:
    graph = traced(FOLDED[name][0], **specs_of(name, lg.f32))
    for step in GRAPH_PASSES:
        graph = step(graph)
    return graph


@cache
def folds_of(name: str) -> tuple[tuple[Region, Cascade], ...]:
    kernels = assemble((("entry", graph_of(name)),), CPU).kernels
    found = ((k.region, find_cascade(k.region.stores, one_row=True)) for k in kernels)
    return tuple((region, fold) for region, fold in found if fold is not None)


def arrays_of(region: Region, rng: np.random.Generator) -> dict[str, Any]:
    dims = {d: POINTS.get(d, 5) for d in POINTS}
    return {
        b.name: (3 * rng.standard_normal([int(e.evaluate(dims)) for e in b.dims])).astype(
            b.dtype.numpy
        )
        for b in region.reads()
    }


def meant(pieces: SplitFold, given: dict[str, Any]) -> dict[str, Any]:
    """What the parts and their merges leave."""
    buffers = given | evaluate(pieces.states, given, POINTS)
    out: dict[str, Any] = {}
    for merge in pieces.merges:
        out |= evaluate(merge, buffers, POINTS)
    return out


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("name", FOLDED)
def test_parts_and_their_merge_are_the_fold(
    name: str, count: int, rng: np.random.Generator
) -> None:
    folds = folds_of(name)
    assert folds
    for region, found in folds:
        (k,) = found.fold.axes
        extent = int(k.extent.evaluate(POINTS))
        pieces = split_fold(found, region, -(-extent // count))
        assert pieces is not None
        verify_plan(pieces.plan(region))
        for r in (pieces.states, *pieces.merges):
            verify_region(r)
        assert all(b.role is Role.TEMP for b in pieces.temps)
        given = arrays_of(region, rng)
        expected = evaluate(region, given, POINTS)
        with np.errstate(all="ignore"):
            found_values = meant(pieces, given)
        for out, value in expected.items():
            np.testing.assert_allclose(found_values[out], value, rtol=2e-5, atol=2e-5)
