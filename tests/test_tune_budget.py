"""What a search does with few seconds: the heuristic's choices and the best ranked ones come first, and it ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest
from test_tune import MadeUp, backwards, entries_of

import lumigen as lg
from lumigen.dtype import f32
from lumigen.lower.assemble import CutUp
from lumigen.search import host
from lumigen.search.batches import TrialBatches
from lumigen.search.book import Book, Found
from lumigen.search.choice import beginnings, near
from lumigen.search.climb import Climb, Space
from lumigen.search.clock import Clock
from lumigen.search.crew import Crew
from lumigen.search.ending import ended
from lumigen.search.jobs import Job
from lumigen.search.models import Search, model_of
from lumigen.search.story import Attempt, RegionStory, Story
from lumigen.search.trial import Trials
from lumigen.search.tune import TOO_SHORT, Terms, Tuned, tune
from lumigen.target import HOST
from lumigen.targets.cpu.device import CPU

ROWS = lg.Dim("rows", 1, 64, typical=32)


class Slow(MadeUp):
    """Only so many kernels compile: all others take until the time is over."""

    workers, slowest = 1, 2.0

    def __init__(self, kernels: int, *, apart: bool) -> None:
        super().__init__()
        self.measuring: Any = SimpleNamespace(apart=apart)
        self.left, self.over = kernels, Event()
        self.made: list[Any] = []

    def running(self, model: Any) -> Sequence[Any]:
        return model.kernels

    def compile(self, kernel: Any, end: float) -> bool:
        if self.left == 0:
            self.over.wait(end - monotonic())
            return False
        self.left -= 1
        self.made.append((kernel.of, kernel.program))
        return True


def climbs_of(trials: Any) -> tuple[Search, list[Climb]]:
    """The climbs of a model's regions, of which the first is taken to need most of the time."""
    search = Search(partial(model_of, CutUp.of(entries_of(), CPU, f32, ()), CPU), trials)
    before = search.measure({})
    space = Space(CPU, (), (), [{ROWS: 32}])
    return search, [
        Climb(r, space, next(beginnings(r, CPU)), t, t, weight=1.0 / (1 + i), rank=backwards)
        for i, (r, t) in enumerate(before.items())
    ]


def searched(
    kernels: int, *, apart: bool, seconds: float, most: int = 1 << 30, each: bool = True
) -> tuple[list[Climb], Slow]:
    """A search that ends after its seconds, or with so many choices tried, with `each` one of each region."""
    trials = Slow(kernels, apart=apart)
    search, climbs = climbs_of(trials)
    clock = Clock(monotonic() + seconds, 1, after=0, trial=0.05)

    def tell(_count: int) -> None:
        if sum(c.tried for c in climbs) >= most and all(c.tried or not each for c in climbs):
            trials.is_gone = True
            trials.over.set()

    TrialBatches(search, climbs, clock, tell).run()
    return climbs, trials


@pytest.mark.parametrize("apart", [True, False])
def test_a_search_with_time_for_one_candidate_tries_the_best_ranked_one(apart: bool) -> None:
    expected = climbs_of(Slow(0, apart=apart))[1][0].next()
    climbs, trials = searched(1, apart=apart, seconds=10.0, most=1, each=False)
    assert [c.tried for c in climbs] == [1] + [0] * (len(climbs) - 1)
    assert climbs[0].tries[0].choice == expected
    assert len(trials.made) == 1


def test_what_is_compiled_is_measured_while_another_kernel_takes_all_the_time() -> None:
    climbs, _ = searched(7, apart=True, seconds=60.0, most=3)
    assert sum(c.tried for c in climbs) >= 3
    assert climbs[0].tried >= climbs[-1].tried > 0


def test_kernels_that_no_trial_runs_have_time_to_compile_before_the_end() -> None:
    trials = Slow(0, apart=False)
    search, climbs = climbs_of(trials)
    clock = Clock(monotonic() + 60.0, 2, after=0)
    batches = TrialBatches(search, climbs, clock, lambda _count: None)
    model = search.make({})
    assert batches._rest(model) == 0.0
    count = len(model.kernels)
    assert count > 2
    trials.running = lambda _model: []  # type: ignore[method-assign]
    assert batches._rest(model) == 0.0, "what runs as before is not compiled"
    for climb in climbs:
        climb.seconds = tuple(t / 2 for t in climb.before)
    assert batches._rest(model) == -(-count // 2) * trials.slowest
    before = clock.left(0)
    clock.rest = batches._rest(model)
    assert clock.left(0) <= before - clock.rest


def test_a_choice_that_has_no_time_is_not_lost() -> None:
    climbs, _ = searched(0, apart=False, seconds=0.3)
    assert all(not c.tries for c in climbs)


def test_a_search_without_time_for_the_heuristics_kernels_ends_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUMIGEN_CACHE", str(tmp_path))
    given: list[float] = []

    def never(_kernel: Any, seconds: float) -> None:
        given.append(seconds)
        Event().wait(seconds)

    slow = replace(host.MEASURING, compiled=never)
    found = tune(entries_of(), HOST, slow, f32, Terms(1.0, 1))
    assert found.book == Book({})
    assert found.notes == (TOO_SHORT,)
    assert ended(found) == [TOO_SHORT], "nothing of what was faster, as nothing was measured"
    assert found.unreached
    assert given
    assert max(given) <= 1.0, "no compilation may go on after the end"


def test_the_end_says_what_was_not_confirmed_and_what_was_not_tried() -> None:
    space = Space(CPU, (), (), [{ROWS: 32}])
    (first, *_), device = climbs_of(MadeUp())[1], CPU
    fresh = Climb(first.region, space, first.best, first.before, first.before)
    beside = [*beginnings(first.region, device), *near(first.best, first.region, device)]
    left = fresh.unseen()
    assert left == len(beside) > 1
    tried = (Attempt(1.0, first.best, 1.765e-5, is_quick=False, is_best=True),)
    region = RegionStory("k", "k03", 2.088e-5, 1.765e-5, None, first.best, "", tried, unseen=left)
    names = tuple(f"k{i}" for i in range(4, 33))
    searched = Tuned(Book({}), {}, names, story=Story(9.0, 1, (), (region,), {}))
    lost, most, unreached = ended(searched)
    assert "did not confirm the difference: k03 20.88 us to 17.65 us" in lost
    assert f"the time was over with 1 of about {1 + left} choices tried" in most
    assert "too short for 29 kernels, k4, k5, k6 and 26 more: " in unreached
    won = Found(first.best, 1.7e-5, 2.1e-5)
    kept = replace(searched, faster={"k03": won}, unreached=())
    assert [line for line in ended(kept) if "not used" in line or "no faster" in line] == []
    slow = replace(region, best=region.before, unseen=0)
    assert ended(Tuned(Book({}), {}, story=Story(9.0, 1, (), (slow,), {}))) == [
        "the search found no faster kernel: the model runs as without it"
    ]


class Deaf:
    """A worker that does not answer in time, and notes how much of that it was given."""

    is_running, has_hung = True, True

    def __init__(self) -> None:
        self.given: list[tuple[float, float]] = []

    def run(self, _job: Any, limit: float, most: float) -> None:
        self.given.append((limit, most))

    def end(self) -> None:
        pass


def test_no_trial_goes_on_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    deaf = Deaf()

    def hired(*_told: Any, **_more: Any) -> list[Deaf]:
        return [deaf]

    monkeypatch.setattr(Crew, "hired", hired)
    job: Any = Job((), (), (), 0, {}, {})
    with Trials(HOST, host.MEASURING, {}, 1, end=monotonic() + 5.0) as trials:
        assert trials.begin(job) is None
        assert trials.run(job) is None
        assert [limit > 5.0 >= most for limit, most in deaf.given] == [True, True]
        trials.end = monotonic()
        assert trials.run(job) is None
        assert len(deaf.given) == 2
