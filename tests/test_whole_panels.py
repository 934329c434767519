"""Sizes of a schedule that end inside of a panel of columns are refused: kernels would read past it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from test_tune import entries_of
from test_written_kernels import weight

import lumigen as lg
from lumigen import functional as F
from lumigen.lower.assemble import assemble
from lumigen.plan import Illegal
from lumigen.targets.cpu.device import CPU

HEADS = lg.spec(2, 33, 16)
CASES: dict[str, tuple[Callable[..., Any], dict[str, Any], str]] = {
    "panel": (lambda x: x @ weight(70, 40).mT, {"x": lg.spec(17, 40)}, "chunk"),
    "cascade": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
        {"q": HEADS, "k": HEADS, "v": HEADS},
        "columns",
    ),
    "windows": (lambda a, b: a @ b, {"a": lg.spec(130, 40), "b": lg.spec(40, 130)}, "held"),
}


@pytest.mark.parametrize("builder", CASES)
def test_a_size_that_ends_inside_of_a_panel_is_refused(builder: str) -> None:
    function, inputs, site = CASES[builder]
    (region,) = {k.of for k in assemble(entries_of(function, **inputs), CPU).kernels if k.of}
    found, _ = CPU.lower(region)
    (plan,), (sizes,) = found.plan.kernels, found.schedules
    assert sizes.builder == builder
    for size in (2, 7, 24, 33):
        built = CPU.build(plan, sizes.at(site, size))
        assert isinstance(built, Illegal)
        assert f"{site} of {size}" in built.reason
    assert not isinstance(CPU.build(plan, sizes.at(site, 32)), Illegal)
