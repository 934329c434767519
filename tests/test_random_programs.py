"""Random programs on the CPU: the interpreter's results at every value of the dims that was tried.

Programs are drawn by hypothesis and compiled in batches; one that fails is made smaller, a batch of
candidates at a time, and printed as Python.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from fuzz_programs import wrong
from random_programs import M, N, RandomProgram, drawn, quarters, size, smaller
from small_programs import Library, SmallProgram, agree, compile_all, passed
from tiles import run_entry

import lumigen as lg
from lumigen import fast_lane
from lumigen.dtype import DType, bf16, f16, f32
from lumigen.errors import UserError
from lumigen.frontend import Entry, Spec, Traced, trace_entry
from lumigen.index import ix
from lumigen.lower.assemble import assemble
from lumigen.lower.retype import retype
from lumigen.pipeline import lower_model
from lumigen.target import TARGETS, parse_target
from lumigen.targets.cpu.device import CPU
from lumigen.weights import rounded

BATCH = 40


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


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_interpreter_and_cpu_agree(seed: int) -> None:
    check(BATCH, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 103))
def test_interpreter_and_cpu_agree_on_many(seed: int) -> None:
    check(4 * BATCH, seed, "-O2")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200, 203))
def test_every_target_and_dtype_compiles_them(seed: int) -> None:
    """`fuzz_programs.py` goes on for as long as one likes, and makes smaller what fails."""
    failing = [(p, way, e) for p in drawn(BATCH, seed) for way, e in wrong(p)]
    assert not failing, "\n\n".join(
        f"{target.name} {dtype}\n{p}\n{e}" for p, (target, dtype), e in failing[:3]
    )


# What random programs have found, made smaller.
FOUND = {
    "a_row_that_is_kept": (lambda x: x.softmax(1), lg.spec(N, M)),
    "few_of_an_axis_that_may_be_shorter": (
        lambda x: x.index_select(0, x[:, 0].to(lg.i64).abs()[:4]),
        lg.spec(N, 3),
    ),
    "padding_that_a_mask_leaves_nothing_of": (
        lambda x: lg.tril(x.pad((1, -1), 1), 0),
        lg.spec(N, 3, 1, N),
    ),
    # gcc 12.2 adds the first element twice where it makes vectors of this loop.
    "a_sum_that_runs_backwards": (lambda x: x.flip(1).sum((0, 1)), lg.spec(N, 2)),
    "a_fold_around_a_contraction_beside_another_reduction": (
        lambda x: x.mT @ x.sum((0, 2)).maximum(x @ x.mT),
        lg.spec(3, 9, 3),
    ),
}


@pytest.fixture(scope="module")
def library() -> Library:
    return Library((found(name) for name in FOUND), "-O3")


def found(name: str) -> SmallProgram:
    function, s = FOUND[name]
    points = tuple({d.name: at for d in s.dims()} for at in ((1, 4, 9) if s.dims() else (1,)))
    return SmallProgram(name, function, (("x", s),), points, quarters)


@pytest.mark.slow
@pytest.mark.parametrize("name", FOUND)
def test_what_was_found(library: Library, name: str) -> None:
    library.check(found(name))
    for dtype in (f32, f16, bf16):
        passed(name, found(name).graph, TARGETS["cuda"].target, dtype)


def fixed(program: SmallProgram, point: Mapping[str, int]) -> SmallProgram:
    """The program with numbers in place of its dims."""
    given = {d: ix(point[d.name]) for d in program.graph.dims()}
    inputs = tuple(
        (name, Spec(tuple(e.substitute(given) for e in s.shape), s.dtype, s.range))
        for name, s in program.inputs
    )
    return replace(program, inputs=inputs, points=({},))


def unlowered(programs: list[RandomProgram], target: str) -> list[str]:
    """What is wrong with those that have no verified text for a target, with dims and with numbers."""
    wrong: list[str] = []
    for p in programs:
        small = p.program("p")
        points = small.points if small.graph.dims() else ()
        for form in (small, *(fixed(small, point) for point in points)):
            for dtype in (f32, bf16):
                try:
                    traced = Traced("p", "1.0", (("p", form.graph),), ())
                    lower_model(traced, {}, None, parse_target(target), dtype=dtype)
                except UserError:
                    continue  # one number may be refused where a dim is none
                except Exception as e:  # noqa: BLE001  # whatever it is, it is reported with the program
                    wrong.append(f"{form.inputs} in {dtype}\n{p}\n{type(e).__name__}: {e}")
    return wrong


@pytest.mark.slow
def test_programs_have_a_text_for_gpus() -> None:
    wrong = unlowered(drawn(BATCH, 3), "cuda")
    assert not wrong, f"{len(wrong)} fail. The shortest:\n\n{min(wrong, key=len)}"


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("seed", [203])
def test_many_programs_have_a_text(seed: int, target: str) -> None:
    wrong = unlowered(drawn(2 * BATCH, seed), target)
    assert not wrong, f"{len(wrong)} fail. The shortest:\n\n{min(wrong, key=len)}"


SIZES = (1, 2, 3, 4, 5, 7, 8, 16, 17, 31, 33, 64, 65)

# What stands beside a reduction or a product: x (b, s, h), m (b, s).
MIXED: dict[str, Callable[[Any, Any], Any]] = {
    "masked_mean": lambda x, m: (x * m.unsqueeze(-1)).sum(1) / m.sum(1, keepdim=True),
    "product_by_row_sums": lambda x, m: x.sum(1) @ x[0].mT / m.sum(1, keepdim=True),
    "product_by_column_sums": lambda x, m: x.sum(1) @ x[0].mT * m.sum(0),
    "batched_by_row_sums": lambda x, m: x @ x.mT / m.sum(1, keepdim=True).unsqueeze(-1),
    "batched_by_column_sums": lambda x, m: (x @ x.mT) * m.sum(0),
    "chosen_by_column_sums": lambda x, m: lg.where(m.sum(0) < 2, x @ x.mT, 0.0),
    "pooled_scores": lambda x, m: (x * m.to(lg.f32).softmax(1).unsqueeze(-1)).sum(1),
    "mean_then_product": lambda x, m: (x.sum(1) / m.sum(1, keepdim=True)).to(lg.f32) @ x[0].mT,
}


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("name", MIXED)
def test_what_stands_beside_a_product_has_a_text(name: str, target: str) -> None:
    """Of random fixed shapes, with masks of every kind."""
    rng = random.Random(name)
    row = parse_target(target)
    for mask in (lg.f32, f16, lg.i32, lg.i64, lg.boolean):
        for _ in range(3):
            b, s, h = (rng.choice(SIZES) for _ in range(3))
            inputs = (("x", Spec((ix(b), ix(s), ix(h)), f32)), ("m", Spec((ix(b), ix(s)), mask)))
            graph = trace_entry(Entry("f", MIXED[name], inputs))
            for dtype in (f32, bf16):
                model = lower_model(
                    Traced("p", "1.0", (("f", graph),), ()), {}, None, row, dtype=dtype
                )
                assert model.model.kernels, (b, s, h)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
def test_programs_held_in_16_bits_are_what_their_regions_mean(dtype: DType) -> None:
    """Both round what lies between kernels; an ulp is the difference where sums fall on two sides of a tie."""
    programs = [p.program(f"p{i}") for i, p in enumerate(drawn(BATCH // 2, 0))]
    model = assemble(tuple((p.name, retype(p.graph, dtype)) for p in programs), CPU, dtype=dtype)
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
