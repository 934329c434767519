"""Two choices of a region, each for other dims: which is taken when, what is emitted, and that both are right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import pytest
from test_tune import entries_of, regions_of
from tiles import run_entry

import lumigen as lg
from lumigen.dtype import f32
from lumigen.index import Dim
from lumigen.interp.graph import evaluate
from lumigen.lower.assemble import CutUp, LoweredModel, assemble
from lumigen.plan import Illegal
from lumigen.schedule import Schedule
from lumigen.search.book import Book, Found, book_of, key_of, text_of
from lumigen.search.bounded import TRIALS, bounded, corners
from lumigen.search.choice import Choice, beginnings, near
from lumigen.search.climb import Climb, Space
from lumigen.search.clock import Clock
from lumigen.search.jobs import Job, Timed
from lumigen.search.left_out import left_out
from lumigen.search.models import Search, model_of
from lumigen.search.story import as_text
from lumigen.search.tune import Searched, found_in
from lumigen.targets.cpu.device import CPU

ROWS = lg.Dim("rows", 1, 64, typical=32)
SAMPLES: list[dict[Dim, int]] = [{ROWS: 32}, {ROWS: 1}, {ROWS: 64}]
SPECS = {"x": lg.spec(ROWS, 24), "w": lg.spec(24, 40)}


def multiplied(x: Any, w: Any) -> Any:
    return x @ w


def transposed(x: Any, y: Any) -> Any:
    return x.T @ y


ENTRIES = entries_of(multiplied, **SPECS)
(REGION,) = regions_of(ENTRIES)
FIRST = next(beginnings(REGION, CPU))


def legal(most: int) -> list[Choice]:
    """Choices that may run instead of the heuristic's where there are so many rows."""
    space = Space(CPU, (), (), SAMPLES)
    both = (
        replace(FIRST, bounded=(((("rows", most),), other),)) for other in near(FIRST, REGION, CPU)
    )
    return [c for c in both if not isinstance(space.realised(c, REGION), Illegal)]


def lowered(choice: Choice) -> LoweredModel:
    """Through the text of a book."""
    said = book_of(text_of(Book({key_of(REGION): Found(choice, 1.0, 2.0)})), "a text")
    assert said.found[key_of(REGION)].choice == choice
    return assemble(ENTRIES, CPU, pick=partial(said.pick, CPU))


def test_both_choices_are_right_on_either_side_of_the_bound(rng: np.random.Generator) -> None:
    choices = legal(4)
    assert len(choices) > 3
    weights = rng.standard_normal((24, 40)).astype(np.float32)
    for choice in choices[:6]:
        model = lowered(choice)
        (program,) = model.programs
        small, general = (program.chosen({ROWS: n})[0].kernel for n in (4, 5))
        assert small != general
        assert [program.chosen({ROWS: n})[0].kernel for n in (1, 64)] == [small, general]
        for rows in (1, 4, 5, 64):
            x = rng.standard_normal((rows, 24)).astype(np.float32)
            wanted = evaluate(ENTRIES[0][1], {"x": x, "w": weights}, {})["out"]
            found = run_entry(model, {"x": x, "w": weights}, {})["out"]
            np.testing.assert_allclose(found, wanted, 1e-5, 1e-5)


@pytest.mark.slow
def test_a_project_asks_its_dims_and_gives_the_same(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    model = lg.Model("bounded", version="1")
    model.entry(**SPECS)(multiplied)
    file = tmp_path / "schedules.json"
    book = Book({key_of(REGION): Found(legal(4)[0], 1.0, 2.0)})
    file.write_text(text_of(book), encoding="utf-8")
    module: Any = lg.compile(model, output=tmp_path / "project", schedules=file, isa="native")
    context = module.Model().context(1)
    source = (tmp_path / "project" / "src" / "multiplied.cpp").read_text(encoding="utf-8")
    assert "if (dims.rows < 5) {" in source
    w = rng.standard_normal((24, 40)).astype(np.float32)
    for rows in (1, 4, 5, 64):
        x = rng.standard_normal((rows, 24)).astype(np.float32)
        np.testing.assert_allclose(np.asarray(context.multiplied(x=x, w=w)), x @ w, 1e-5, 1e-5)


def test_both_choices_are_told() -> None:
    both = legal(4)[0]
    ((_, small),) = both.bounded
    general = as_text(replace(both, bounded=()))
    assert as_text(both) == f"{general}; where rows <= 4: {as_text(small)}"


def test_several_kernels_are_no_choice_beside_one() -> None:
    rows = lg.Dim("rows", 1, 1 << 20, typical=1 << 16)
    x, y = lg.spec(rows, 24), lg.spec(rows, 24)
    entries = entries_of(transposed, x=x, y=y)
    (region,) = regions_of(entries)
    space, each = Space(CPU, (), (), [{rows: 1}]), [*beginnings(region, CPU)]
    refused: list[str] = []
    for general in each:
        for other in each:
            both = replace(general, bounded=(((("rows", 4),), other),))
            found = space.realised(both, region)
            refused += [found.reason] if isinstance(found, Illegal) else []
    assert refused == ["one kernel runs instead of one, and here are several"] * 3
    choices = {region: replace(each[0], bounded=(((("rows", 4),), each[1]),))}
    cut = CutUp.of(entries, CPU, f32, ())
    assert len(model_of(cut, CPU, choices).kernels) == 1, "it is left out"
    said = Book({key_of(region): Found(choices[region], 1.0, 2.0)})
    (line,) = left_out(said, {region: "k00"}, CPU, ())
    assert line.endswith(f"its kernel for few rows: {refused[0]}")


@pytest.mark.parametrize("most", [{"columns": 4}, {"rows": 0}, {"rows": 65}, {"rows": 10**30}, {}])
def test_bounds_of_what_a_region_has_not_say_nothing(most: Mapping[str, int]) -> None:
    """Of another dim, of a size that the dim never has, or of none: a guard of 10^30 is no C++."""
    plain = [k.program for k in assemble(ENTRIES, CPU).kernels]
    other = Choice(
        FIRST.first,
        (),
        FIRST.schedules,
        bounded=((tuple(most.items()), legal(4)[0].bounded[0][1]),),
    )
    assert [k.program for k in lowered(other).kernels] == plain


@pytest.mark.parametrize("other", [Choice(10**30, (), ()), Choice(0, ((0, 10**30),), ())])
def test_numbers_that_no_space_has_say_nothing(other: Choice) -> None:
    plain = [k.program for k in assemble(ENTRIES, CPU).kernels]
    made = replace(other, schedules=FIRST.schedules)
    assert [k.program for k in lowered(made).kernels] == plain


# ---- the search of them, with times that are made up ----


class MadeUp:
    """Trials in which one schedule takes `small` seconds up to 7 rows, others `general` ones, and it is slow beyond."""

    def __init__(self, fast: Choice, most: int) -> None:
        self.fast, self.most, self.models = fast, most, dict[int, LoweredModel]()
        self.seen: list[Mapping[Any, int]] = []

    def build(self, models: Any, **_: Any) -> list[Job]:
        self.models |= {id(m.programs[0]): m for m in models}
        return [Job(m.programs, (), (), 0, {}, {}) for m in models]

    def begin(self, job: Job) -> Timed:
        return self.run(job)

    def run(self, job: Job) -> Timed:
        (kernel,) = self.models[id(job.programs[0])].kernels
        (samples,) = job.samples.values()
        self.seen += samples
        is_fast = kernel.schedule in self.fast.schedules
        times = tuple(self.seconds(dims[ROWS], is_fast=is_fast) for dims in samples)
        return Timed({kernel.name: times}, times, (), 0.0)

    def seconds(self, rows: int, *, is_fast: bool) -> float:
        return rows * (1.0 if not is_fast else 0.5 if rows <= self.most else 2.0)


@pytest.mark.parametrize(("most", "bound"), [(7, 5), (3, 1), (0, None)])
def test_a_bound_is_where_both_were_measured(most: int, bound: int | None) -> None:
    fast = legal(4)[0].bounded[0][1]
    trials: Any = MadeUp(fast, most)
    make = partial(model_of, CutUp.of(ENTRIES, CPU, f32, ()), CPU)
    times = [
        tuple(trials.seconds(d[ROWS], is_fast=is_fast) for d in SAMPLES)
        for is_fast in (False, True)
    ]
    climb = Climb(REGION, Space(CPU, (), (), SAMPLES), FIRST, times[0], times[0])
    climb.found(fast, times[1])
    found = bounded(Search(make, trials), [climb], 100)
    if bound is None:
        assert not found
        return
    assert found[REGION].bounded == (((("rows", bound),), fast),)
    assert found[REGION].schedules == FIRST.schedules
    assert {d[ROWS] for d in trials.seen} == {1, 5}
    assert bounded(Search(make, trials), [climb], TRIALS - 1) == {}, "no time"


class SeenAgain(MadeUp):
    """The same with a third choice, a `little` faster everywhere; on other data two of a region may be `wrong`."""

    is_over = False

    def __init__(self, fast: Choice, little: Choice, *, wrong: bool) -> None:
        super().__init__(fast, 7)
        self.little, self.wrong = little, wrong

    def build(self, models: Any, **_: Any) -> list[Job]:
        return [replace(j, samples={"entry": tuple(SAMPLES)}) for j in super().build(models)]

    def run(self, job: Job) -> Timed:
        schedules = {k.name: k.schedule for k in self.models[id(job.programs[0])].kernels}
        (samples,) = job.samples.values()
        seconds = {name: [0.0] * len(samples) for name in schedules}
        for place, dims in enumerate(samples):
            (launch,) = job.programs[0].chosen(dims)
            seconds[launch.kernel][place] = self.taken(schedules[launch.kernel], dims[ROWS])
        run = tuple(map(sum, zip(*seconds.values(), strict=True)))
        is_wrong = self.wrong and job.data == 1 and len(schedules) > 1
        times = {name: tuple(t) for name, t in seconds.items()}
        return Timed(times, run, ("entry",) if is_wrong else (), 0.0)

    def taken(self, schedule: Schedule | None, rows: int) -> float:
        is_little = schedule in self.little.schedules
        return self.seconds(rows, is_fast=schedule in self.fast.schedules) * (1 - 0.1 * is_little)


@pytest.mark.parametrize("wrong", [False, True])
def test_two_choices_take_the_place_of_one_when_they_are_confirmed(wrong: bool) -> None:
    fast = legal(4)[0].bounded[0][1]
    space = Space(CPU, (), (), SAMPLES)
    little = next(
        c
        for c in near(FIRST, REGION, CPU)
        if c != fast
        and not isinstance(
            space.realised(replace(c, bounded=(((("rows", 5),), fast),)), REGION), Illegal
        )
    )
    trials: Any = SeenAgain(fast, little, wrong=wrong)
    make = partial(model_of, CutUp.of(ENTRIES, CPU, f32, ()), CPU)
    times = [
        tuple(trials.taken(c.schedules[0], d[ROWS]) for d in SAMPLES) for c in (FIRST, little, fast)
    ]
    climb = Climb(REGION, space, FIRST, times[0], times[0])
    climb.found(little, times[1])
    climb.found(fast, times[2])
    model = Searched(CPU, make({}), make, {key_of(REGION): REGION}, {})
    clock = Clock(monotonic() + 60.0, 1, 0, trial=0.01)
    (found,) = found_in(Search(make, trials), model, [climb], Book({}), clock, 1).found.values()
    both = replace(little, bounded=(((("rows", 5),), fast),))
    assert found.choice == (little if wrong else both)


def test_corners_are_those_of_the_dims_of_an_entry() -> None:
    (program,) = lowered(FIRST).programs
    assert corners([program], {ROWS: (1, 5)}) == {"entry": ({ROWS: 1}, {ROWS: 5})}
    assert corners([program], {ROWS: (1, 1)}) == {"entry": ({ROWS: 1},)}
    assert corners([program], {}) == {}
