"""Functions of a row that several loops want are computed once, by the first of them, on a CPU."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from small_programs import Library, SmallProgram, offset

import lumigen as lg
from lumigen import functional as F
from lumigen.dtype import f32, f64
from lumigen.frontend import Traced
from lumigen.frontend.spec import Spec, spec
from lumigen.pipeline import lower_model

N, M = lg.Dim("n", 1, 9), lg.Dim("m", 1, 70)
POINTS = ({"n": 1, "m": 1}, {"n": 2, "m": 16}, {"n": 9, "m": 70})


def gelu_norm(x: Any) -> Any:
    y = F.gelu(x)
    return (y - y.mean(-1, True)) * ((y * y).mean(-1, True) + 1).rsqrt()


CASES: dict[
    str, tuple[Callable[..., Any], Spec, int]
] = {  # and how often the kernel has a function
    "softmax": (lambda x: x.softmax(-1), spec(5, 37), 1),
    "softmax_of_dims": (lambda x: x.softmax(-1), spec(N, M), 1),
    "softmax_f64": (lambda x: x.softmax(-1), spec(5, 37, dtype=f64), 1),
    "exponentials_of_a_middle": (lambda x: x.exp() / x.exp().sum(1, True), spec(3, 40, 7), 2),
    "long_softmax": (lambda x: x.softmax(-1), spec(2, 9000), 2),
    "sums_of_squares": (lambda x: x / (x * x).sum(-1, True), spec(5, 37), 0),
}


def program(name: str) -> SmallProgram:
    function, shape, _ = CASES[name]
    points = POINTS if shape.dims() else ({},)
    return SmallProgram(name, function, (("x", shape),), points, offset)


@pytest.mark.parametrize("name", CASES)
def test_a_function_is_computed_once(name: str) -> None:
    graph = program(name).graph
    made = lower_model(Traced("m", "0", ((name, graph),), ()), {})
    (kernel,) = made.model.kernels
    assert len(re.findall(r"\bexp(2|2_split)?\(", kernel.body)) == CASES[name][2]


@pytest.mark.slow
def test_numbers() -> None:
    programs = [
        *map(program, CASES),
        SmallProgram("gelu_norm", gelu_norm, (("x", spec(N, M)),), POINTS, offset),
        SmallProgram("of_16_bits", lambda x: x.softmax(-1), (("x", spec(4, 33, dtype=lg.bf16)),)),
    ]
    library = Library(programs)
    for p in programs:
        library.check(p)


@pytest.mark.parametrize("dtype", [f32, f64], ids=str)
def test_a_row_of_scratch_is_as_long_as_the_longest_row(dtype: lg.DType) -> None:
    graph = SmallProgram("s", lambda x: x.softmax(-1), (("x", spec(N, M, dtype=dtype)),)).graph
    made = lower_model(Traced("m", "0", (("s", graph),), ()), {})
    (kernel,) = made.model.kernels
    assert kernel.scratch_bytes >= 70 * dtype.itemsize
