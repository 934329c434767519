"""Every module as kernels: what the interpreter says of it, which PyTorch agrees with."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from module_programs import module_programs
from small_programs import Library, SmallProgram, on_demand, passed

from lumigen.dtype import bf16
from lumigen.target import parse_target

PROGRAMS = module_programs()


@pytest.fixture(scope="module")
def library(request: pytest.FixtureRequest) -> Callable[[str], Library]:
    return on_demand(PROGRAMS, 15, request)


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_kernels_of_a_cpu(program: SmallProgram, library: Callable[[str], Library]) -> None:
    library(program.name).check(program)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_90a"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_kernels_of_a_gpu_keep_the_rules(program: SmallProgram, target: str) -> None:
    """In 16 bits, where products have forms of their own; `tests/gpu` runs them."""
    passed(program.name, program.graph, parse_target(target), bf16)
