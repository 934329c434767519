"""Folds in loops over lanes that take some terms for all lanes in turn: the same numbers, from memory as it lies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from small_programs import Library, SmallProgram, passed

import lumigen as lg
from lumigen.dtype import bf16, f64
from lumigen.frontend import Traced
from lumigen.frontend.spec import Spec, spec
from lumigen.lower.assemble import assemble
from lumigen.lower.devices import Device
from lumigen.lower.plan_region import Candidate
from lumigen.pipeline import lower_model
from lumigen.plan import Illegal
from lumigen.region import Region
from lumigen.search.book import Book
from lumigen.targets.cpu.device import CPU

ROWS = lg.Dim("rows", 1, 200, typical=150)
POINTS = tuple({"rows": n} for n in (1, 8, 15, 150, 200))

CASES: dict[str, tuple[Callable[..., Any], tuple[Spec, ...]]] = {
    "sums": (lambda x: x.sum(0), (spec(37, 300),)),
    "sums_of_dims": (lambda x: x.sum(0), (spec(ROWS, 150),)),
    "greatest": (lambda x: x.amax(0) + 1, (spec(37, 300),)),
    "doubles": (lambda x: x.sum(0), (spec(37, 300, dtype=f64),)),
    "sixteen_bits": (lambda x: x.float().sum(0), (spec(37, 300, dtype=bf16),)),
    "several_axes": (lambda x: x.sum((0, 1)), (spec(5, 11, 130),)),
    "centred": (lambda x: x - x.mean(0), (spec(37, 300),)),
    "batches": (lambda x, w: (x @ w).relu(), (spec(3, 1, 40), spec(3, 40, 130))),
    "vector": (
        lambda x, w, b: x @ w * b + b,
        (
            spec(
                40,
            ),
            spec(40, 130),
            spec(130),
        ),
    ),
    "rows": (lambda x, w: x @ w, (spec(4, 40), spec(40, 130))),
    "many_rows": (lambda x, w: x @ w, (spec(9, 40, dtype=f64), spec(40, 130, dtype=f64))),
    "batches_of_rows": (lambda x, w: x @ w, (spec(2, 3, 40), spec(2, 40, 130))),
}
FAR = (lambda x, w: x @ w, (spec(512), spec(512, 2048)))  # 4 MiB, and rows of 8 KiB


def program(name: str) -> SmallProgram:
    function, specs = CASES[name]
    points = POINTS if any(s.dims() for s in specs) else ({},)
    inputs = tuple(zip("xwb", specs, strict=False))
    return SmallProgram(f"case_{name}", function, inputs, points, below_zero)


def below_zero(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Any:
    """A maximum that began at zero would be wrong."""
    return -rng.uniform(1, 9, shape).astype(dtype.numpy)


def text_of(graph: Any, book: Callable[..., Book] | None = None) -> str:
    traced = Traced("m", "0", (("entry", graph),), ())
    made = lower_model(traced, {}, **({} if book is None else {"schedules": book}))
    return "".join(k.body for k in made.model.kernels)


@dataclass(frozen=True)
class Turning(Book):
    """What a search would have found: each fold that can takes so many terms for all lanes in turn."""

    terms: int = 0

    def pick(self, device: Device, canonical: Region, named: Region) -> Candidate | None:  # noqa: ARG002
        found, _ = device.lower(named)
        sizes = (
            s.at("terms", self.terms) if "terms" in dict(s.tile) else s for s in found.schedules
        )
        return replace(found, schedules=tuple(sizes))


@pytest.mark.parametrize("name", CASES)
def test_a_schedule_says_how_many_terms_are_taken_in_turn(name: str) -> None:
    graph = program(name).graph
    assert "sums0" not in text_of(graph)
    text = text_of(graph, lambda *_: Turning({}, terms=8))
    assert "float* const sums0" in text or "double* const sums0" in text
    assert "for (int64_t chunk = 0;" in text


def test_rows_that_lie_apart_are_read_as_they_lie() -> None:
    """Some rows of a large matrix at a time; by columns where no near cache would hold what is between two of them."""
    function, specs = FAR
    graph = SmallProgram("far", function, tuple(zip("xw", specs, strict=True))).graph
    text = text_of(graph)
    assert "for (int64_t chunk = 0; chunk < 16; ++chunk)" in text
    assert "k0 = 8 * chunk; k0 < 8 * chunk + 8" in text
    near = SmallProgram("near", function, (("x", spec(512)), ("w", spec(512, 256)))).graph
    assert "chunk" not in text_of(near)


@pytest.mark.parametrize("terms", [-1, 4, 8])
def test_terms_that_no_lanes_share_are_refused(terms: int) -> None:
    """A fold of a row has lanes of its own: another one has no site, and a negative number says nothing."""
    function, specs = (lambda x: x.softmax(-1), (spec(20, 300),)) if terms > 0 else CASES["sums"]
    graph = passed("refused", SmallProgram("refused", function, (("x", specs[0]),)).graph)
    (region,) = {k.of for k in assemble((("refused", graph),), CPU).kernels if k.of is not None}
    found, _ = CPU.lower(region)
    (sizes,) = found.schedules
    built = CPU.build(found.plan.kernels[0], sizes.at("terms", terms))
    assert isinstance(built, Illegal)


@pytest.mark.slow
@pytest.mark.parametrize("terms", [0, 4, 16])
def test_numbers(terms: int) -> None:
    programs = [program(name) for name in CASES]
    library = Library(programs, schedules=lambda *_: Turning({}, terms=terms))
    for p in programs:
        library.check(p)
