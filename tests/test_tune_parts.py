"""The parts of a search: when a choice is better, where entries are measured, how time is kept, kernels of GPUs."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import nvcc
import pytest
from test_tune import entries_of

import lumigen as lg
from lumigen.dtype import bf16, f32
from lumigen.errors import BuildFailed, VerifyFailed
from lumigen.fast_lane import compiled
from lumigen.frontend import Traced
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.lower.devices import GENERAL, Device
from lumigen.lower.retype import retype
from lumigen.pipeline import lower_model
from lumigen.plan import Illegal
from lumigen.progress import Stages
from lumigen.region import Region
from lumigen.search import host, winners
from lumigen.search.book import Book, Found, book_of, key_of, text_of
from lumigen.search.choice import Choice, candidate_of, in_turn, near
from lumigen.search.climb import Climb, Space, is_better, mean
from lumigen.search.clock import Clock
from lumigen.search.samples import samples_of
from lumigen.search.trial import Trials
from lumigen.search.tune import Terms, Tuned, tune
from lumigen.search.worker import are_near
from lumigen.target import HOST, parse_target
from lumigen.targets.cuda.device import CUDA
from lumigen.targets.cuda.driver import Driver
from lumigen.targets.cuda.measuring import MEASURING, compiled_for

ROWS = lg.Dim("rows", 1, 4096, typical=512)
NATIVE = Path(__file__).parent / "native" / "cuda"
INF, NAN = float("inf"), float("nan")
HERE = ("sm_90", "sm_90a")


def product(x: Any, w: Any) -> Any:
    return x @ w


def model_of(choice: Choice | None = None) -> LoweredModel:
    """A product of bf16 for Hopper, by the heuristic or as a book says."""
    (name, graph), *_ = entries_of(product, x=lg.spec(ROWS, 512), w=lg.spec(512, 1024))
    entries = ((name, retype(graph, bf16)),)

    def pick(canonical: Region, named: Region) -> Any:
        if choice is None:
            return None
        said = text_of(Book({key_of(canonical): Found(choice, 1.0, 2.0)}))
        return book_of(said, "a text").pick(CUDA, canonical, named)

    return assemble(entries, CUDA, dtype=bf16, architectures=HERE, pick=pick)


def region_of(model: LoweredModel) -> Region:
    (region,) = {k.of: None for k in model.kernels if k.of is not None}
    return region


def space_of(model: LoweredModel) -> Space:
    kernels = {k.name: k for k in model.kernels}
    return Space(CUDA, HERE, HERE, samples_of(model.programs[0], kernels, 1 << 30))


def programs_of(space: Space, choice: Choice, region: Region) -> Any:
    """What runs of a choice; None if it is not legal."""
    realised = space.realised(choice, region)
    return None if isinstance(realised, Illegal) else realised.programs


# ---- choices ----


def test_a_choice_must_not_lose_at_any_of_the_dims() -> None:
    assert is_better((0.9, 1.0, 0.0), (1.0, 1.0, 0.0))
    assert not is_better((0.99, 1.0), (1.0, 1.0)), "noise"
    assert not is_better((0.5, 1.2), (1.0, 1.0)), "slower at the second"
    assert mean((4.0, 0.0, 1.0)) == 2.0


def test_kernels_of_an_architecture_are_searched_where_they_run() -> None:
    plain = model_of()
    region, space = region_of(plain), space_of(plain)
    choices = [*near(space.first(region), region, CUDA, HERE)]
    special = [c for c in choices if c.special]
    before = programs_of(space, space.first(region), region)
    assert before is not None
    assert all(p.skeleton == "roles" for p in before), "the general kernel runs at none of the dims"
    different = [c for c in special if programs_of(space, c, region) not in (None, before)]
    assert len(different) > 10
    for choice in (different[0], different[-1]):
        sizes = [k.schedule for k in model_of(choice).kernels if k.program.skeleton == "roles"]
        assert {s for s in choice.special if s != GENERAL} == set(sizes)
        assert sizes != [k.schedule for k in plain.kernels if k.program.skeleton == "roles"]


def test_the_kernel_of_all_architectures_may_run_on_one_that_has_its_own() -> None:
    plain = model_of()
    region, space = region_of(plain), space_of(plain)
    first = space.first(region)
    every = (*near(first, region, CUDA, HERE),)
    general = next(c for c in every if GENERAL in c.special)
    number = general.special.index(GENERAL)
    own = len(general.special)
    kernels = model_of(general).kernels
    assert [k.program.skeleton for k in kernels].count("roles") < own
    everywhere = replace(general, special=(GENERAL,) * own)
    assert {k.program.skeleton for k in model_of(everywhere).kernels} == {"pipeline"}
    back = [c for c in near(general, region, CUDA, HERE) if GENERAL not in c.special and c.special]
    assert model_of(back[0]).kernels == plain.kernels
    assert general.special[:number] == back[0].special[:number]


def test_kernels_of_several_dims_take_turns() -> None:
    """At 512 rows another kernel runs than at one, and a search may end before all of either was tried."""
    plain = model_of()
    region, space = region_of(plain), space_of(plain)
    first = space.first(region)
    candidate = candidate_of(first, region, CUDA)
    assert candidate is not None
    own = tuple(v.sizes for v in CUDA.variants(candidate, HERE))
    assert len(own) > 1
    changed = [
        [i for i, (a, b) in enumerate(zip(c.special, own, strict=True)) if a != b]
        for c in islice((c for c in near(first, region, CUDA, HERE) if c.special), 2 * len(own))
    ]
    assert changed == 2 * [[i] for i in range(len(own))]
    assert [*in_turn([iter("abc"), iter(""), iter("d")])] == ["a", "d", "b", "c"]


def test_a_schedule_of_an_architecture_that_is_not_legal_is_left_out() -> None:
    plain = model_of()
    choice = space_of(plain).first(region_of(plain))
    wrong = replace(choice.schedules[0], builder="roles", tile=(("rows", 3),))
    assert model_of(replace(choice, special=(wrong,))).kernels == plain.kernels


def test_regions_are_searched_in_proportion_to_their_time() -> None:
    plain = model_of()
    region, space = region_of(plain), space_of(plain)
    first = space.first(region)
    large, small = (Climb(region, space, first, (1.0,), (1.0,), weight) for weight in (0.8, 0.2))
    for _ in range(10):
        assert max(large, small, key=lambda c: c.urgency).next() is not None
    assert (large.asked, small.asked) == (8, 2)


# ---- dims and time ----


def test_entries_are_measured_at_typical_least_and_great_dims() -> None:
    plain = model_of()
    kernels = {k.name: k for k in plain.kernels}
    (program,) = plain.programs
    rows = [[*dims.values()] for dims in samples_of(program, kernels, 1 << 30)]
    assert rows == [[512], [1], [4096]]
    less = [[*dims.values()] for dims in samples_of(program, kernels, 5 << 20)]
    assert less[:2] == rows[:2]
    assert 512 < less[2][0] < 4096, "as far as memory allows"
    none = [[*dims.values()] for dims in samples_of(program, kernels, 0)]
    assert none == [[512], [1], [512]]


def test_no_trial_begins_that_cannot_end_in_time() -> None:
    clock = Clock(monotonic() + 100.0, threads=4, after=10)
    clock.ran(2.0)
    assert clock.fits(39), "49 trials of 2 s"
    assert not clock.fits(40)
    assert clock.left(1000) == 0.0


def test_a_compilation_has_a_limit_of_time(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUMIGEN_CACHE", str(tmp_path))
    with pytest.raises(BuildFailed, match="took more than"):
        compiled("#include <regex>\n", seconds=0.01)


@pytest.mark.slow
def test_what_a_search_is_too_short_for_is_said_and_not_remembered(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUMIGEN_CACHE", str(tmp_path))
    entries = entries_of(lambda x: x.exp(), x=lg.spec(ROWS, 4))
    found = tune(entries, HOST, host.MEASURING, f32, Terms(0.1, 1))
    assert replace(found, notes=()) == Tuned(Book({}), {}, ("k00_simt",))
    assert winners.everything(host.MEASURING, 1) == Book({})


def test_schedules_of_another_model_are_said_to_match_nothing() -> None:
    found = Book({"0" * 32: Found(Choice(0, (), ()), 1.0, 2.0)})
    graph = dict(entries_of(product, x=lg.spec(4, 8), w=lg.spec(8, 4)))
    at = Stages()
    lower_model(Traced("m", "0", tuple(graph.items()), ()), {}, at, schedules=lambda *_: found)
    assert at.said == ["no region of the model is in the schedules: all run as without them"]


def test_a_choice_that_does_not_run_is_said_with_its_reason() -> None:
    graph = dict(entries_of(product, x=lg.spec(4, 8), w=lg.spec(8, 4)))
    traced, at = Traced("m", "0", tuple(graph.items()), ()), Stages()
    (kernel,) = lower_model(traced, {}).lowered.kernels
    assert kernel.of is not None
    assert kernel.schedule is not None
    sizes = kernel.schedule.at("nothing", 7)
    found = Book({key_of(kernel.of): Found(Choice(0, (), (sizes,)), 1.0, 2.0)})
    again = lower_model(traced, {}, at, schedules=lambda *_: found)
    (note,) = at.said
    assert note.startswith(f"{kernel.name} does not run as the schedules say, candidate 0: ")
    assert "nothing 7" in note.partition(": ")[2]
    assert again.lowered == lower_model(traced, {}).lowered


@pytest.mark.parametrize(
    ("made", "wanted", "near"),
    [
        ([1.0, 2.0], [1.0, 2.0], True),
        ([1.0, 2.0001], [1.0, 2.0], True),
        ([1.0, 2.001], [1.0, 2.0], False),
        ([NAN, 2.0], [NAN, 2.00001], True),
        ([NAN, 2.0], [1.0, 2.0], False),
        ([1.0, 2.0], [NAN, 2.0], False),
        ([INF, 2.0], [-INF, 2.0], False),
        ([INF, 2.0], [1.0, 2.0], False),
    ],
)
def test_results_are_near(made: list[float], wanted: list[float], near: bool) -> None:
    assert are_near(np.array(made, np.float32), np.array(wanted, np.float32)) == near


def test_integers_are_alike_or_not() -> None:
    assert are_near(np.arange(3), np.arange(3))
    assert not are_near(np.arange(3), np.arange(1, 4))


# ---- kernels of a GPU ----


@nvcc.needed
def test_a_kernel_alone_is_a_module(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUMIGEN_CACHE", str(tmp_path))
    kernels = model_of().kernels
    for kernel in (kernels[0], kernels[-1]):
        ready = compiled_for("sm_90a", "nvcc", kernel, 60.0)
        assert ready is not None
        image = ready.library.read_bytes()
        assert image.startswith(b"\x7fELF")
        assert b"kernel_shape" in image
        assert b"measured" in image
    assert compiled_for("sm_90a", "nvcc", kernels[1], 0.01) is None


@nvcc.needed
def test_a_trial_on_a_gpu_launches_every_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a driver that checks what it is called with, and computes nothing: a launch takes a millisecond."""
    source, library = NATIVE / "driver.c", tmp_path / "libcuda.so.1"
    flags = ("-shared", "-cudart=none", "-Xcompiler=-fPIC,-Wall,-Wextra,-Wno-unused-parameter")
    subprocess.run(["nvcc", *flags, str(source), "-o", str(library)], check=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setenv("LUMIGEN_CACHE", str(tmp_path))
    model = model_of()
    kernels = {k.name: k for k in model.kernels}
    samples = {p.entry: samples_of(p, kernels, 1 << 30) for p in model.programs}
    here = replace(
        MEASURING, features=lambda: HERE, compiled=partial(compiled_for, "sm_90a", "nvcc")
    )
    with Trials(parse_target("cuda:sm_90a"), here, samples, 2) as trials:
        (job,) = trials.build([model])
        assert job is not None
        timed = trials.begin(job)
        assert timed is not None, trials.said()
        assert not timed.wrong
        assert timed.run == (1e-3, 1e-3, 1e-3)
        assert all(sum(t) > 0 for t in timed.seconds.values())
        assert timed.seconds.keys() == {k.name for k in trials.running(model)}
        noise = tmp_path / "noise"
        noise.write_bytes(b"no module")
        bad = {name: replace(k, library=noise) for name, k in job.kernels.items()}
        assert trials.run(replace(job, kernels=bad)) is None
        assert "cuModuleLoadData: CUDA_ERROR_INVALID_VALUE" in trials.said()
        again = trials.run(job)
        assert again is not None
        assert not again.wrong


def test_a_plan_that_does_not_verify_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise VerifyFailed(after="plan_region", what="a store stands outside loops")

    (region, *_) = {k.of: None for k in model_of().kernels if k.of is not None}
    space = Space(CUDA, (), (), [])
    first = space.first(region)
    monkeypatch.setattr(Device, "realise", broken)
    found = space.realised(first, region)
    assert found == Illegal(
        "[plan_region] the result does not verify: a store stands outside loops."
    )


def test_an_image_is_measured_by_a_map_of_its_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fields of WindowLayout where the driver takes them: across before down, a step after the channels'."""
    made: list[tuple[Any, ...]] = []

    def call(_: Driver, *arguments: Any) -> None:
        made.append(arguments)

    monkeypatch.setattr(Driver, "call", call)
    driver = object.__new__(Driver)
    images, strides = (8, 56, 57, 64, 128), (56 * 57 * 64, 57 * 64, 64)
    driver.tensor_map(64, "bf16", 4096, images, strides, ((-1, 0, 1), (-2, 3, 2)))
    ((name, _, _, _, _, sizes, apart, first, last, channels, pixels, steps, *_),) = made
    assert name == "cuTensorMapEncodeIm2col"
    assert [*sizes] == [64, 57, 56, 8]
    assert [*apart] == [2 * n for n in reversed(strides)]
    assert ([*first], [*last], [*steps]) == ([-2, -1], [3, 0], [1, 2, 1, 1])
    assert (channels.value, pixels.value) == (64, 128)
