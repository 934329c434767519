"""Every module as kernels of a CPU: what the interpreter says of it, which PyTorch agrees with."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from module_programs import module_programs
from small_programs import Library, SmallProgram, on_demand

PROGRAMS = module_programs()


@pytest.fixture(scope="module")
def library() -> Callable[[str], Library]:
    return on_demand(PROGRAMS, 25)


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_modules(program: SmallProgram, library: Callable[[str], Library]) -> None:
    library(program.name).check(program)
