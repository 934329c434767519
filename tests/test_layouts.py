"""Where temporaries lie: values that other kernels look indices up in keep their order."""

from __future__ import annotations

from typing import Any

import numpy as np
from tiles import run_entry, traced

import lumigen as lg
from lumigen import nn
from lumigen.interp.graph import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import assemble
from lumigen.targets.cpu.device import CPU


def test_what_indices_are_looked_up_in_keeps_its_order(rng: np.random.Generator) -> None:
    def looked_up(x: Any, table: Any) -> dict[str, Any]:
        chosen = x.index_select(1, (x % 5).flatten()[:4])
        again = x.index_select(1, (x % 5).flatten()[:4])
        both = lg.cat([chosen, again], 1).flatten()
        return {
            "products": again @ again.mT,
            "both": both,
            "rows": table.index_select(0, both[:4]),
        }

    columns = lg.Dim("columns", 1, 9, typical=5)
    graph = entry = traced(looked_up, x=lg.spec(17, 5, 2, dtype=lg.i32), table=lg.spec(1, columns))
    for step in GRAPH_PASSES:
        entry = step(entry)
    model = assemble((("entry", entry),), CPU)
    for _ in range(8):
        inputs = {
            "x": rng.integers(-2, 3, (17, 5, 2)).astype(np.int32),
            "table": rng.standard_normal((1, 3)).astype(np.float32),
        }
        wanted, found = evaluate(graph, inputs, {}), run_entry(model, inputs, {})
        for name, value in wanted.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-5, err_msg=name)


def test_extents_that_are_quotients_do_not_turn_a_layout() -> None:
    """An image of h // 2 rows is stored as one of a fixed number: channels before rows, which windows run along."""
    net = nn.Sequential(
        nn.Conv2d(3, 20, 2, stride=2), nn.Conv2d(20, 20, 3, padding=1), nn.Conv2d(20, 20, 1)
    )
    h, w = (lg.Dim(name, 8, 64, typical=24) for name in "hw")
    for shape in ((1, 3, 24, 24), (1, 3, h, w)):
        entry = traced(
            lambda x, net=net: net(x), {p: n for n, p in net.named_parameters()}, x=lg.spec(*shape)
        )
        for step in GRAPH_PASSES:
            entry = step(entry)
        kernels = assemble((("entry", entry),), CPU).kernels
        assert all(k.region.stores[0].dst.dims[1] == 20 for k in kernels)
