"""Values used again and again where no statement can name them: text of a length that fits, the right numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from small_programs import Library, SmallProgram
from tiles import traced

import lumigen as lg
from lumigen import functional as F
from lumigen.errors import UnsupportedTarget
from lumigen.frontend import Traced
from lumigen.pipeline import lower_model
from lumigen.target import TARGETS

N = lg.Dim("n", 1, 40)


def beside_the_one_before(x: Any) -> Any:
    y = F.gelu(x)
    return y + y.pad((1, 0))[..., :-1]


def squared_often(x: Any) -> Any:
    y = x
    for _ in range(30):
        y = y * y + 0.1
    return y + y.pad((0, 2))[..., 2:]


def in_either_branch(x: Any) -> Any:
    y = x.pad((1, 1))
    for i in range(30):
        y = lg.where(y < 0.01 * i, y * 0.5, y - 0.25)
    return y.pad((1, 0))[..., :-1] + 1


def of_several_types(x: Any) -> Any:
    """Floats have names for all lanes, and integers that no vector has for each; truth values are masks."""
    y = x
    for _ in range(7):
        y = y * y * 0.1 + y
    whole, is_so = (y * 10).to(lg.i32), (y > 0) & (x < 1)
    for i in range(6):
        whole = (whole * whole + whole) % 13
        is_so = (is_so & (y > 0.1 * i)) | (is_so ^ (x > 0.1))
    z = lg.where(is_so, y * whole.to(x.dtype), -y)
    return (z + y).pad((0, 2))[..., 2:]


def ahead_of_a_loop(x: Any) -> Any:
    """What does not vary with the last axis is computed before the loop over it."""
    return (F.gelu(x[:, :1]) * 2).expand(3, 2).pad((0, 1)) + 1


CASES = (
    ("hoisted", ahead_of_a_loop, lg.f64),
    ("shifted_f64", beside_the_one_before, lg.f64),
    ("shifted_f32", beside_the_one_before, lg.f32),
    ("squared", squared_often, lg.f32),
    ("chosen_f32", in_either_branch, lg.f32),
    ("types", of_several_types, lg.f32),
    ("chosen_f64", in_either_branch, lg.f64),
    ("cast", lambda x: F.gelu(x.to(lg.f64) / 3).to(lg.f32) * x.pad((1, 0))[..., :-1], lg.f32),
)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("name", "function", "dtype"), CASES, ids=[c[0] for c in CASES])
def test_text_is_of_the_length_of_what_is_computed(
    name: str, function: Callable[[Any], Any], dtype: lg.DType, target: str
) -> None:
    graph = traced(function, x=lg.spec(3, N, dtype=dtype))
    model = Traced(name, "0", (("entry", graph),), ())
    row = TARGETS[target].target
    if any(n.dtype.name in row.lacks for n in graph.nodes()):
        with pytest.raises(UnsupportedTarget, match="no f64, in which entry computes"):
            lower_model(model, {}, target=row)
        return
    kernels = lower_model(model, {}, target=row).model.kernels
    assert len(kernels) <= 2  # what is made of many values is stored once
    assert all(len(kernel.body) < 20_000 for kernel in kernels)


@pytest.mark.slow
def test_numbers_are_the_interpreter_s() -> None:
    programs = [
        SmallProgram(name, function, (("x", lg.spec(3, N, dtype=dtype)),), ({"n": 1}, {"n": 37}))
        for name, function, dtype in CASES
    ]
    library = Library(programs)
    for p in programs:
        library.check(p)
