"""Random programs on the CPU: the interpreter's results at every value of the dims that was tried.

Programs are drawn by hypothesis and compiled in batches; one that fails is made smaller, a batch of
candidates at a time, and printed as Python.
"""

from __future__ import annotations

from dataclasses import replace

import hypothesis
import pytest
from random_programs import RandomProgram, random_programs, size, smaller
from small_programs import Library, agree, compile_all
from tiles import run_entry

from lumigen import fast_lane
from lumigen.dtype import DType, bf16, f16
from lumigen.lower.assemble import assemble
from lumigen.lower.retype import retype
from lumigen.weights import rounded

BATCH = 40


def drawn(count: int, seed: int) -> list[RandomProgram]:
    """Different programs, the same ones in every run."""
    found: dict[RandomProgram, None] = {}

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count + count // 4,
        phases=[hypothesis.Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(random_programs())
    def collect(program: RandomProgram) -> None:
        if size(program)[0] > 0 and len(found) < count:
            found.setdefault(program)

    collect()
    return list(found)


def failures(programs: list[RandomProgram], optimise: str = "-O0") -> dict[RandomProgram, str]:
    """What is wrong with each that fails."""
    small = {p: p.program(f"p{i}") for i, p in enumerate(programs)}
    library = compile_all(list(small.values()), BATCH, optimise)
    out: dict[RandomProgram, str] = {}
    for p, s in small.items():
        try:
            library(s.name).check(s)
        except Exception as e:  # noqa: BLE001  # whatever it is, it is reported with the program
            out[p] = f"{type(e).__name__}: {e}"
    return out


def reduced(program: RandomProgram, why: str) -> tuple[RandomProgram, str]:
    """The smallest program found that fails as well."""
    while candidates := smaller(program):
        failing = failures(candidates)
        if not failing:
            break
        program = min(failing, key=size)
        why = failing[program]
    return program, why


def check(count: int, seed: int, optimise: str = "-O0") -> None:
    failing = failures(drawn(count, seed), optimise)
    if failing:
        first = min(failing, key=size)
        program, why = reduced(first, failing[first])
        pytest.fail(
            f"{len(failing)} of {count} programs fail. The smallest:\n\n{program}\n\n{why}"[:6000]
        )


@pytest.mark.parametrize("seed", range(2))
def test_interpreter_and_cpu_agree(seed: int) -> None:
    check(BATCH, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 110))
def test_interpreter_and_cpu_agree_on_many(seed: int) -> None:
    check(4 * BATCH, seed, "-O2")


@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
def test_programs_held_in_16_bits_are_what_their_regions_mean(dtype: DType) -> None:
    """Both round what lies between kernels; an ulp is the difference where sums fall on two sides of a tie."""
    programs = [p.program(f"p{i}") for i, p in enumerate(drawn(BATCH // 2, 0))]
    model = assemble(tuple((p.name, retype(p.graph, dtype)) for p in programs), dtype=dtype)
    lane = fast_lane.load(model, "-O0")
    for p, entry in zip(programs, model.programs, strict=True):
        alone = replace(model, programs=(entry,))
        for point in p.points:
            inputs, weights = p.arrays(point)
            inputs = {name: rounded(x, dtype) for name, x in inputs.items()}
            found = lane.run(p.name, inputs, weights)
            meant = run_entry(alone, inputs, weights, by_region=True)
            for name, wanted in meant.items():
                where = f"{p.name}: {name} at {dict(point)}"
                agree(found[name], wanted, where)


def test_a_library_names_the_programs_that_do_not_compile() -> None:
    (good,) = drawn(1, 0)
    wrong = replace(good.values[0], text="{0}.no_such_op()", args=(0,))
    broken = RandomProgram((*good.values, wrong), (len(good.values),))
    library = Library([good.program("good"), broken.program("broken")])
    assert set(library.errors) == {"broken"}
