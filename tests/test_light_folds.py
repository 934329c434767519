"""Folds of a CPU whose additions do not wait for each other: of a row, and of several vectors of columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from small_programs import Array, Library, SmallProgram, passed

import lumigen as lg
from lumigen.dtype import DType, bf16, f64, i32, u8
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

LONG = lg.Dim("long", 1, 400, typical=300)
POINTS = tuple(
    {"long": n} for n in (1, 15, 64, 130, 400)
)  # no turn, part of one, whole ones and both

CASES: dict[
    str, tuple[Callable[..., Any], Spec, int]
] = {  # and its folds with several accumulators
    "norm": (lambda x: (x - x.mean(-1, True)) / x.var(-1, keepdim=True), spec(3, 300), 2),
    "greatest": (lambda x: x.amax(-1), spec(3, 259), 1),
    "of_dims": (lambda x: x.abs().sum(-1), spec(3, LONG), 1),
    "greatest_of_dims": (lambda x: x.amax(-1), spec(3, LONG), 1),
    "planes": (lambda x: x.mean((1, 2)), spec(2, 5, 300), 1),
    "sixteen_bits": (lambda x: x.sum(-1), spec(3, 333, dtype=bf16), 1),
    "first": (lambda x: x.argmax(-1), spec(3, 300), 2),
    "first_of_dims": (lambda x: x.argmin(-1), spec(3, LONG), 2),
    "counted": (lambda x: (x < -5).sum(-1), spec(3, 300), 1),
    "counted_of_dims": (lambda x: (x < -5).sum(-1), spec(3, LONG), 1),
    "bytes": (lambda x: (x % 3).amax(-1), spec(3, 300, dtype=u8), 0),
    "bytes_that_wrap": (lambda x: (x % 7).sum(-1, dtype=u8), spec(3, 300, dtype=u8), 0),
    "a_byte_that_wraps": (lambda x: (x < -1).to(u8).sum(-1, dtype=u8), spec(3, 300), 1),
    "short": (lambda x: x.sum(-1), spec(3, 255), 0),
    "heavy": (lambda x: x.exp().sum(-1), spec(3, 300), 0),
    "doubles": (lambda x: x.sum(-1), spec(3, 300, dtype=f64), 0),
    "integers": (lambda x: x.sum(-1), spec(3, 300, dtype=i32), 0),
}


def below_zero(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    """A maximum that took in a zero would be wrong."""
    if dtype.is_int:
        return rng.integers(dtype.lowest, dtype.greatest, shape).astype(dtype.numpy)
    return -rng.uniform(1, 9, shape).astype(dtype.numpy)


def specials(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    """Equal ones, infinities and NaN: the first of them counts."""
    values = np.array([1, 1, 2, -2, -0.0, 0.0, np.inf, -np.inf, np.nan], dtype.numpy)
    known = rng.choice(values[:6], shape)
    rows = rng.random(shape[0]) < 0.5
    return np.where(rows[:, None] & (rng.random(shape) < 0.02), rng.choice(values, shape), known)


def program(name: str) -> SmallProgram:
    function, shape, _ = (CASES | CASES_OF_COLUMNS)[name]
    points = POINTS if shape.dims() else ({},)
    return SmallProgram(name, function, (("x", shape),), points, below_zero)


@pytest.mark.parametrize("name", CASES)
def test_accumulators(name: str) -> None:
    made = lower_model(Traced("m", "0", ((name, program(name).graph),), ()), {})
    text = "".join(k.body for k in made.model.kernels)
    assert text.count("Several<4> acc") == text.count("for_lanes_unrolled<4>(") == CASES[name][2]


TOGETHER: dict[
    str, tuple[Callable[..., Any], Spec, str]
] = {  # and how many vectors it takes together
    "columns": (lambda x: x.sum(0), spec(20, 300), "for_vectors<8>"),
    "columns_of_dims": (lambda x: x.sum(0), spec(20, LONG), "for_vectors<8>"),
    "few_columns": (lambda x: x.sum(0), spec(20, 70), "for_vectors<4>"),
    "exponentials": (lambda x: x.softmax(0), spec(20, 300), "for_vectors<4>"),
    "moments": (
        lambda x: (x - x.mean(1, True)) * x.var(1, keepdim=True),
        spec(3, 20, 150),
        "for_vectors<4>",
    ),
    "few_rows": (lambda x: x.sum(0), spec(15, 300), ""),
    "fewer_columns": (lambda x: x.sum(0), spec(20, 63), ""),
    "columns_of_doubles": (lambda x: x.sum(0), spec(20, 300, dtype=f64), ""),
}
CASES_OF_COLUMNS = {name: (f, shape, 0) for name, (f, shape, _) in TOGETHER.items()}


@pytest.mark.parametrize("name", TOGETHER)
def test_vectors_of_columns_are_taken_together(name: str) -> None:
    made = lower_model(Traced("m", "0", ((name, program(name).graph),), ()), {})
    text = "".join(k.body for k in made.model.kernels)
    assert ("for_vectors" in text) == bool(TOGETHER[name][2])
    assert TOGETHER[name][2] in text


@dataclass(frozen=True)
class Taking(Book):
    """What a search would have found: each loop with folds takes so many vectors together."""

    count: int = 1

    def pick(self, device: Device, canonical: Region, named: Region) -> Candidate | None:  # noqa: ARG002
        found, _ = device.lower(named)
        sizes = (
            s.at("together", self.count) if "together" in dict(s.tile) else s
            for s in found.schedules
        )
        return replace(found, schedules=tuple(sizes))


@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_a_schedule_says_how_many_vectors_are_taken_together(count: int) -> None:
    programs = [
        program(name) for name in ("norm", "greatest_of_dims", "heavy", "moments", "few_rows")
    ]
    library = Library(programs, schedules=lambda *_: Taking({}, count=count))
    entries = tuple((p.name, p.graph) for p in programs)
    made = lower_model(
        Traced("m", "0", entries, ()), {}, schedules=lambda *_: Taking({}, count=count)
    )
    text = "".join(k.body for k in made.model.kernels)
    assert text.count(f"for_lanes_unrolled<{count}>") == (0 if count == 1 else 4)
    assert text.count(f"for_vectors<{count}>") == (0 if count == 1 else 2)
    for p in programs:
        library.check(p)


@pytest.mark.parametrize(
    ("site", "size"), [("together", 3), ("together", 16), ("visits", -1), ("visits", 1 << 31)]
)
def test_a_size_that_no_schedule_has_is_refused(site: str, size: int) -> None:
    graph = passed("norm", program("norm").graph)
    (region,) = {k.of for k in assemble((("norm", graph),), CPU).kernels if k.of is not None}
    found, _ = CPU.lower(region)
    (sizes,) = found.schedules
    built = CPU.build(found.plan.kernels[0], sizes.at(site, size))
    assert isinstance(built, Illegal)
    assert str(size) in built.reason


@pytest.mark.slow
def test_numbers() -> None:
    of_specials = [
        SmallProgram(f"{how}_of_specials", f, (("x", spec(40, 300)),), fill=specials)
        for how, f in (("argmax", lambda x: x.argmax(-1)), ("argmin", lambda x: x.argmin(-1)))
    ]
    programs = [*map(program, [*CASES, *TOGETHER]), *of_specials]
    library = Library(programs)
    for p in programs:
        library.check(p)
