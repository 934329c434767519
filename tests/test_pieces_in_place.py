"""Pieces of a concatenation that one region computes are stored where they belong; the rest stores the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from small_programs import agree
from tiles import run_entry, traced

import lumigen as lg
from lumigen.interp.graph import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import assemble
from lumigen.lower.devices import Device
from lumigen.targets.cpu.device import CPU
from lumigen.targets.cuda.device import CUDA

N = lg.Dim("n", 1, 300, typical=100)


def cumsum(x: Any) -> Any:
    return x.cumsum(-1)


# name: the function, whether a temporary is left
CASES: dict[str, tuple[Callable[..., Any], bool]] = {
    "first": (lambda x: lg.cat([cumsum(x), x.flip(-1)], -1), False),
    "last": (lambda x: lg.cat([x.flip(-1), cumsum(x)], -1), False),
    "all": (lambda x: lg.cat([cumsum(x), cumsum(x.flip(-1))], -1), False),
    "of_rows": (lambda x: lg.cat([x * 2, cumsum(x)], 0), False),
    "between": (lambda x: lg.cat([x, cumsum(x), x], -1), True),
    "a_part": (lambda x: lg.cat([cumsum(x)[:, :1], x], -1), True),
    "twice": (lambda x: lg.cat([cumsum(x), cumsum(x)], -1), True),
    "rounded": (lambda x: lg.cat([cumsum(x).half(), x.half()], -1), True),
}


@pytest.mark.parametrize("device", [CPU, CUDA], ids=["cpu", "cuda"])
@pytest.mark.parametrize("name", CASES)
def test_pieces_are_where_they_belong(name: str, device: Device) -> None:
    function, copies = CASES[name]
    graph = entry = traced(function, x=lg.spec(3, N))
    for step in GRAPH_PASSES:
        entry = step(entry)
    model = assemble((("entry", entry),), device)
    (program,) = model.programs
    assert bool(program.arena) == copies
    rng = np.random.default_rng(0)
    for n in (1, 7, 64, 300):
        inputs = {"x": rng.normal(size=(3, n)).astype(np.float32)}
        expected = evaluate(graph, inputs, {})
        found = run_entry(model, inputs, {})
        meant = run_entry(model, inputs, {}, by_region=True)
        for out, value in expected.items():
            agree(found[out], value, f"{out} at n={n}")
            agree(meant[out], value, f"what {out} means at n={n}")
