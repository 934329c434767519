"""The search: choices as values, trials that may crash, winners that are kept, and what a book compiles to."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import pytest
from tiles import run_entry, traced

import lumigen as lg
from lumigen import cli
from lumigen.child import Child
from lumigen.dtype import f32
from lumigen.errors import BadArgument
from lumigen.fast_lane import compiled
from lumigen.interp.graph import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import CutUp, LoweredModel, assemble
from lumigen.plan import Illegal
from lumigen.printer.tile import show
from lumigen.region import Region
from lumigen.search import database, host, measured, winners
from lumigen.search.asked import asked_for
from lumigen.search.batches import TrialBatches
from lumigen.search.book import FORMAT, Book, Found, book_of, key_of, text_of
from lumigen.search.choice import Choice, beginnings, candidate_of, near
from lumigen.search.climb import GAIN, Climb, Space
from lumigen.search.clock import Clock
from lumigen.search.crew import Crew
from lumigen.search.export import exported
from lumigen.search.features import ROOFLINE
from lumigen.search.jobs import NEAR, Job, Timed, nearness
from lumigen.search.left_out import left_out
from lumigen.search.measured import MeasuredRow
from lumigen.search.models import Search, Seen, model_of
from lumigen.search.rank import Measured
from lumigen.search.samples import samples_of
from lumigen.search.story import as_text
from lumigen.search.trial import Trials
from lumigen.search.tune import News, Terms, confirmed, tune
from lumigen.search.worker import are_near
from lumigen.target import HOST, parse_target
from lumigen.targets.cpu.device import CPU
from lumigen.targets.cuda import measuring

ROWS = lg.Dim("rows", 1, 64, typical=32)


def small(x: Any, w: Any) -> Any:
    return {"out": (x @ w).softmax(-1), "most": x.amax(0)}


SPECS = {"x": lg.spec(ROWS, 24), "w": lg.spec(24, 40)}


def entries_of(function: Any = small, **specs: Any) -> tuple[tuple[str, Any], ...]:
    graph = traced(function, **(specs or SPECS))
    for step in GRAPH_PASSES:
        graph = step(graph)
    return (("entry", graph),)


def regions_of(entries: tuple[tuple[str, Any], ...]) -> dict[Region, None]:
    return {k.of: None for k in assemble(entries, CPU).kernels if k.of is not None}


def others(region: Region) -> Iterator[Choice]:
    """The choices one decision away from the heuristic's that are legal and make other kernels."""
    first = next(beginnings(region, CPU))
    before = text(first, region)
    for choice in near(first, region, CPU):
        made = text(choice, region)
        if made and made != before:
            yield choice


def text(choice: Choice, region: Region) -> str:
    """The tile programs of a choice; none where it is illegal."""
    found = candidate_of(choice, region, CPU)
    built = None if found is None else CPU.realise(found)
    return (
        ""
        if built is None or isinstance(built, Illegal)
        else "".join(show(b.program) for b in built)
    )


def book(choices: Mapping[Region, Choice]) -> Book:
    return Book({key_of(r): Found(c, 1.0, 2.0) for r, c in choices.items()})


# ---- choices and books ----


def test_every_choice_of_a_book_computes_what_the_heuristics_does(rng: np.random.Generator) -> None:
    entries = entries_of()
    inputs = {"x": rng.standard_normal((7, 24)), "w": rng.standard_normal((24, 40))}
    inputs = {name: a.astype(np.float32) for name, a in inputs.items()}
    wanted = evaluate(entries[0][1], inputs, {})
    plain = [show(k.program) for k in assemble(entries, CPU).kernels]
    count = 0
    for region in regions_of(entries):
        for choice in others(region):
            said = book_of(text_of(book({region: choice})), "a text")
            model = assemble(entries, CPU, pick=lambda c, n, said=said: said.pick(CPU, c, n))
            assert [show(k.program) for k in model.kernels] != plain
            found = run_entry(model, inputs, {})
            for name, array in wanted.items():
                np.testing.assert_allclose(found[name], array, 1e-5, 1e-6)
            count += 1
    assert count > 12


def test_another_plan_has_sizes_at_its_own_sites() -> None:
    entries = entries_of(lambda a, b: (a * b).sum(-1), a=lg.spec(300, 700), b=lg.spec(700))
    (region,) = regions_of(entries)
    first, sites = next(beginnings(region, CPU)), set[frozenset[str]]()
    for choice in near(first, region, CPU):
        found = candidate_of(choice, region, CPU)
        assert found is not None
        built = CPU.realise(found)
        assert not isinstance(built, Illegal) or "sites" not in built.reason
        sites |= {frozenset(site for site, _ in s.tile) for s in choice.schedules if choice.plans}
    assert "held" in dict(first.schedules[0].tile)
    assert sites == {frozenset(("kept", "lanes", "stretches", "together", "visits"))}, (
        "loops with nothing in common"
    )


def test_a_book_is_read_as_it_was_written() -> None:
    (region, *_) = regions_of(entries_of())
    one = book({region: next(others(region))})
    assert book_of(text_of(one), "a text") == one


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "[]",
        "{}",
        '{"format": 9, "regions": {}}',
        '{"format": 1, "regions": {"a": 3}}',
        '{"format": 1, "regions": {"a": {"plans": [], "schedules": [], "first": Infinity}}}',
    ],
)
def test_what_is_no_book_is_refused(wrong: str, tmp_path: Path) -> None:
    file = tmp_path / "schedules.json"
    file.write_text(wrong, encoding="utf-8")
    with pytest.raises(BadArgument, match="schedules"):
        asked_for(HOST, None, file)


def test_a_book_of_another_format_says_which_one_is_read(tmp_path: Path) -> None:
    file = tmp_path / "schedules.json"
    file.write_text('{"format": 9, "what": "nobody knows"}', encoding="utf-8")
    with pytest.raises(BadArgument, match=r"whose format is 9\. Pass one of format 1, which"):
        asked_for(HOST, None, file)


@pytest.mark.parametrize("size", ["8", 8.5, 1e3, True, None])
def test_a_size_that_is_no_whole_number_is_refused_with_its_region(size: object) -> None:
    found = {"builder": "simt", "tile": {"lanes": size}, "place": {}}
    region = {"seconds": 1.0, "before": 2.0, "first": 0, "plans": [], "schedules": [found]}
    text = json.dumps({"format": FORMAT, "regions": {"of_rows": region}})
    with pytest.raises(BadArgument, match=r"region of_rows says nothing: .* is no whole number"):
        book_of(text, "schedules.json")


@pytest.mark.parametrize("name", ["seconds", "before"])
@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_a_book_of_runs_that_take_no_time_is_refused(name: str, value: float) -> None:
    (region, *_) = regions_of(entries_of())
    found = Found(next(others(region)), 1.0, 2.0)
    text = text_of(Book({key_of(region): replace(found, **{name: value})}))
    with pytest.raises(BadArgument, match=f"in which {name} of region {key_of(region)} is"):
        book_of(text, "a text")


def test_what_cannot_be_asked_for_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadArgument, match="schedules"):
        asked_for(HOST, None, tmp_path / "nowhere.json")
    with pytest.raises(BadArgument, match="one of the two"):
        asked_for(HOST, 5.0, tmp_path / "nowhere.json")
    with pytest.raises(BadArgument, match="tune"):
        asked_for(HOST, 0.0, None)
    with pytest.raises(BadArgument, match="not measured yet"):
        asked_for(parse_target("metal"), 5.0, None)
    with pytest.raises(BadArgument, match="seed"):
        asked_for(HOST, None, None, 3)
    with pytest.raises(BadArgument, match="seed"):
        asked_for(HOST, 5.0, None, -1)


def test_a_machine_without_a_gpu_is_told_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "nvcc", lambda: "nvcc")
    monkeypatch.setattr(measuring, "gpu_architecture", lambda _: None)
    with pytest.raises(BadArgument, match="Pass it where an NVIDIA GPU"):
        asked_for(parse_target("cuda"), 5.0, None)
    monkeypatch.setattr(measuring, "gpu_architecture", lambda _: "sm_90a")
    with pytest.raises(BadArgument, match="cuda:sm_90a, this machine's GPU"):
        asked_for(parse_target("cuda:sm_100"), 5.0, None)
    assert asked_for(parse_target("cuda:sm_90a"), 5.0, None).seconds == 5.0
    monkeypatch.setattr(measuring, "nvcc", lambda: None)
    with pytest.raises(BadArgument, match="Pass it where nvcc is"):
        asked_for(parse_target("cuda"), 5.0, None)


def test_a_choice_that_the_space_has_no_more_is_left_out() -> None:
    entries = entries_of()
    (region, *_) = regions_of(entries)
    first = next(beginnings(region, CPU))
    stale = (
        replace(first, first=99),
        replace(first, plans=((0, 10_000),)),
        replace(first, plans=((7, 0),)),
        replace(first, schedules=()),
        replace(first, schedules=tuple(s.at("lanes", 0) for s in first.schedules)),
        replace(
            first, schedules=tuple(replace(s, tile=(("nothing", 1),)) for s in first.schedules)
        ),
    )
    plain = [show(k.program) for k in assemble(entries, CPU).kernels]
    for choice in stale:
        said = book({region: choice})
        model = assemble(entries, CPU, pick=lambda c, n, said=said: said.pick(CPU, c, n))
        assert [show(k.program) for k in model.kernels] == plain
        (line,) = left_out(said, {region: "k00_product"}, CPU, ())
        assert line.startswith(
            f"k00_product does not run as the schedules say, {as_text(choice)}: "
        )


def test_what_runs_as_a_book_says_is_not_told_of() -> None:
    for region in regions_of(entries_of()):
        for choice in others(region):
            assert not [*left_out(book({region: choice}), {region: "k00"}, CPU, ())]


def test_of_many_choices_that_do_not_run_some_are_told() -> None:
    each = [
        region
        for n in range(10)
        for region in regions_of(entries_of(lambda x: x.exp(), x=lg.spec(ROWS, 40 + n)))
    ]
    stale = Choice(99, (), ())
    names = {region: f"k{n}" for n, region in enumerate(each)}
    lines = [*left_out(book(dict.fromkeys(each, stale)), names, CPU, ())]
    assert len(lines) == 9
    assert lines[-1].startswith("so do not 2 more kernels")


# ---- the search itself, with times that are made up ----


class MadeUp:
    """Trials whose times follow from the schedules, and whose results are wrong with some of them."""

    is_over = is_gone = False

    def __init__(self, wrong: frozenset[str] = frozenset()) -> None:
        self.wrong, self.models = wrong, dict[int, Any]()
        self.runs = 0

    def build(self, models: Any, **_: Any) -> list[Any]:
        return [*models]

    def run(self, model: Any) -> Timed:
        self.runs += 1
        texts = [str(k.schedule) for k in model.kernels]
        wrong = ("entry",) if any(w in t for w in self.wrong for t in texts) else ()
        seconds = {k.name: (self.cost(k.schedule),) for k in model.kernels}
        return Timed({} if wrong else seconds, (), wrong, 0.0)

    def failed(self, kernel: Any) -> bool:
        return kernel.name is None

    @staticmethod
    def cost(schedule: Any) -> float:
        """Least where all sizes are greatest."""
        return 1.0 / (1 + sum(size for _, size in schedule.tile))


def climbed(wrong: frozenset[str] = frozenset()) -> dict[Region, Climb]:
    trials: Any = MadeUp(wrong)
    search = Search(partial(model_of, CutUp.of(entries_of(), CPU, f32, ()), CPU), trials)
    before = search.measure({})
    space = Space(CPU, (), (), [{ROWS: 32}])
    climbs = [Climb(r, space, next(beginnings(r, CPU)), t, t) for r, t in before.items()]
    for _ in range(60):
        steps = [(c, choice) for c in climbs if (choice := c.next()) is not None]
        if not steps:
            break
        found = search.measure({c.region: choice for c, choice in steps})
        for climb, choice in steps:
            if climb.region in found:
                climb.found(choice, found[climb.region])
    return {c.region: c for c in climbs}


def backwards(_region: Region, features: Sequence[Any]) -> Sequence[int]:
    return range(len(features))[::-1]


def test_a_climb_finds_the_best_of_the_sizes() -> None:
    for region, climb in climbed().items():
        assert climb.seconds <= climb.before
        first = next(beginnings(region, CPU))
        reached = [
            sum(MadeUp.cost(s) for s in c.schedules) for c in (first, climb.best, *others(region))
        ]
        assert reached[1] <= min(reached) / (1 - GAIN)


def test_of_what_is_wrong_only_new_choices_are_divided() -> None:
    cut = CutUp.of(entries_of(), CPU, f32, ())
    regions = list(regions_of(entries_of()))
    choices = {r: next(iter(others(r))) for r in regions[:3]}
    assert len(choices) == 3
    bad = regions[1]
    spoilt = frozenset({str(choices[bad].schedules[0])})
    for new, runs in (((bad,), 1), (tuple(choices), 5), (None, 5)):
        trials: Any = MadeUp(spoilt)
        search = Search(partial(model_of, cut, CPU), trials)
        found = search.measure(choices, new=new)
        assert (trials.runs, bad in found) == (runs, False)
        assert search.dropped == {"gave other results": 1}
        assert new == (bad,) or set(found) == set(choices) - {bad}


def test_what_was_faster_elsewhere_is_tried_first() -> None:
    for region in regions_of(entries_of()):
        space, first, legal = Space(CPU, (), (), [{ROWS: 32}]), next(beginnings(region, CPU)), 0
        for choice in [*others(region)][-2:]:
            known = (replace(first, first=99), first, choice)
            climb = Climb(region, space, first, (1.0,), (1.0,), known=known, rank=backwards)
            found = climb.next()
            assert found == choice, "what is not legal, or the heuristic's, has no turn"
            legal += 1
        assert legal == 2


@pytest.mark.slow
def test_a_wrong_choice_is_dropped_and_the_others_of_its_trial_stay() -> None:
    free, bound = climbed(), climbed(frozenset({"'visits', 65536"}))
    assert any("65536" in str(c.best) for c in free.values())
    for region, climb in bound.items():
        assert "('visits', 65536)" not in str(climb.best)
        if "65536" not in str(free[region].best):
            assert climb.seconds == free[region].seconds


class Together:
    """A search that finds each region faster, the first most, and the whole slower with the choice of one of them."""

    def __init__(self, slow: int) -> None:
        self.trials, self.slow = self, slow
        self.regions = [*regions_of(entries_of())]

    def make(self, _: Any) -> None: ...

    def build(self, _: Any) -> list[Job]:
        return [Job((), (), (), 0, {}, {})]

    def begin(self, _: Job) -> Timed:
        return Timed({}, (), (), 0.0)

    def seen(self, chosen: Any, *_: Any, **_more: Any) -> Seen:
        gains = {r: 0.5 / n if r in chosen else 0.0 for n, r in enumerate(self.regions, 1)}
        run = 2.0 if self.regions[self.slow] in chosen else 1.0
        return Seen({r: (1.0 - g,) for r, g in gains.items()}, (run,))


def test_where_the_whole_is_slower_the_half_that_gains_most_is_confirmed_by_itself() -> None:
    clock = Clock(monotonic() + 60.0, 1, 0, trial=0.01)
    regions = Together(0).regions
    assert len(regions) == 3
    chosen = {r: next(beginnings(r, CPU)) for r in regions}
    for slow, right in ((2, regions[:1]), (0, [])):
        search: Any = Together(slow)
        found = confirmed(search, chosen, 0, clock, CPU).found
        assert [*found] == [key_of(r) for r in right]
    search = Together(2)
    assert not confirmed(search, chosen, 0, replace(clock, end=0.0), CPU).found, "no time"


# ---- trials ----

OVERRUN, HANG = "for (char* p = scratch;; p += 4096) *p = 1;", 'for (;;) asm volatile("");'


def trials_of(model: LoweredModel, workers: int = 1) -> Trials:
    kernels = {k.name: k for k in model.kernels}
    samples = {p.entry: samples_of(p, kernels, 1 << 20) for p in model.programs}
    return Trials(HOST, host.MEASURING, samples, 1, crew=Crew(workers))


def exponentials() -> LoweredModel:
    return assemble(entries_of(lambda x: x.exp(), x=lg.spec(ROWS, 4)), CPU)


@pytest.mark.slow
@pytest.mark.parametrize("body", [OVERRUN, HANG, ""])
def test_a_trial_that_goes_wrong_loses_itself_alone(body: str) -> None:
    model = exponentials()
    with trials_of(model) as trials:
        (good,) = trials.build([model])
        assert good is not None
        assert trials.begin(good) is not None
        trials.limit = 2.0
        head = 'extern "C" void run_kernel(const void*, int64_t, char* scratch)'
        unit = f"#include <cstdint>\n{head} {{ (void)scratch; {body} }}\n"
        spoilt = {n: replace(k, library=compiled(unit)) for n, k in good.kernels.items()}
        bad = replace(good, kernels=spoilt)
        found = trials.run(bad)
        assert found is None if body else found is not None and found.wrong == ("entry",)
        after = trials.run(good)
        assert after is not None
        assert not after.wrong


def test_what_is_made_of_rounded_values_may_differ_by_their_rounding() -> None:
    """States stay f32 where `--dtype bf16` rounds what they are made of; NaN is never near a number."""
    wide = exponentials()
    entries = entries_of(lambda x: x.to(lg.bf16).exp().to(lg.f32).cumsum(0), x=lg.spec(ROWS, 4))
    assert nearness(wide) == NEAR["f32"]
    assert nearness(assemble(entries, CPU)) == NEAR["f32"]  # nothing is stored as bf16
    halves = entries_of(lambda x: x.exp(), x=lg.spec(ROWS, 4, dtype=lg.bf16))
    assert nearness(assemble(halves, CPU)) == NEAR["bf16"]
    a = np.float32([0.25, 0.5])
    for b, least, is_near in (
        (np.float32([0.25, 0.502]), 0.0, False),
        (np.float32([0.25, 0.502]), NEAR["bf16"], True),
        (np.float32([0.25, 0.6]), NEAR["bf16"], False),
        (np.float32([np.nan, 0.5]), NEAR["bf16"], False),
    ):
        assert are_near(b, a, least) == is_near


@pytest.mark.slow
def test_a_worker_that_dies_loses_nothing() -> None:
    model = exponentials()
    with trials_of(model, 2) as trials, ThreadPoolExecutor(2) as pool:
        (good,) = trials.build([model])
        assert good is not None
        assert trials.begin(good) is not None
        dying = trials.crew[0]
        assert isinstance(dying, Child)
        assert dying.process is not None
        dying.process.kill()
        dying.told = ("no target", "1", "False", "0")  # and it does not begin again
        found = [*pool.map(trials.run, [good] * 6)]
        assert all(t is not None and not t.wrong for t in found)
        assert trials.workers == 1
        assert len(trials.lost) == 1


@pytest.mark.slow
def test_a_search_whose_workers_are_gone_ends_and_remembers_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUMIGEN_CACHE", str(tmp_path))
    run = TrialBatches.run

    def bereft(batches: TrialBatches) -> None:
        for worker in batches.search.trials.crew:
            assert isinstance(worker, Child)
            worker.end()
            worker.told = ("no target", "1", "False", "0")
        run(batches)

    monkeypatch.setattr(TrialBatches, "run", bereft)
    entries = entries_of(lambda x: x.softmax(-1), x=lg.spec(256, 10))
    found = tune(entries, HOST, host.MEASURING, f32, Terms(60.0, 2))
    assert found.book.found == {}
    assert found.notes[-1].startswith("no worker is left")
    assert found.story is not None
    assert found.story.seconds < 40
    place = winners.Kept.of(host.MEASURING, 2, [*map(key_of, regions_of(entries))])
    assert not winners.known(place, 1.0).book.found


@pytest.mark.slow
def test_a_kernel_that_does_not_compile_loses_its_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "unit", lambda _kernels: ("no C++", {host.ALIKE: 0}))
    model = exponentials()
    with trials_of(model) as trials:
        assert trials.build([model]) == [None]
        assert all(map(trials.failed, model.kernels))


@pytest.mark.slow
def test_a_search_gives_a_book_of_what_is_faster(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("LUMIGEN_CACHE", str(tmp_path))
    entries = entries_of(lambda x: x.softmax(-1), x=lg.spec(256, 10))
    search = partial(tune, entries, HOST, host.MEASURING, f32)
    found = search(Terms(9.0, 2))  # of nothing, perhaps, where others keep the machine busy
    assert all(f.seconds < f.before for f in found.book.found.values())
    assert search(Terms(1.0, 2)) == found, "a shorter search takes what was found"
    place = winners.Kept.of(host.MEASURING, 2, [*map(key_of, regions_of(entries))])
    assert winners.known(place, 9.0).book.found == found.book.found
    monkeypatch.setattr(winners, "today", lambda: "another day")
    again = search(Terms(9.0, 2))
    assert again != found or not found.book.found, "what was found is measured again"
    assert all(f.seconds < f.before for f in again.book.found.values())


@pytest.mark.slow
def test_a_search_that_is_killed_loses_no_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUMIGEN_CACHE", str(tmp_path))

    def killed(_: News) -> None:
        raise KeyboardInterrupt

    entries = entries_of(lambda x: x.softmax(-1), x=lg.spec(256, 10))
    with pytest.raises(KeyboardInterrupt):
        tune(entries, HOST, host.MEASURING, f32, Terms(30.0, 2), killed)
    (region,) = regions_of(entries)
    machine = winners.machine_of(host.MEASURING, 2, cold=False)
    assert measured.of_region(machine, key_of(region))


SMALL = """
import lumigen as lg
from lumigen.child import Child

model = lg.Model("small")


@model.entry(x=lg.spec(32, 64))
def run(x):
    return x.softmax(-1)
"""


MATRIX = """
import lumigen as lg
from lumigen.child import Child

layer = lg.nn.Linear(32, 8)
model = lg.Model("matrix", layer)


@model.entry(x=lg.spec(4, 32))
def run(x):
    return layer(x)
"""


def test_a_search_is_of_what_compile_stores() -> None:
    """One list of options, in which nothing of a search or of how weights are stored is of one command alone."""
    commands = [cli.lumigen.commands[name] for name in ("compile", "tune")]
    both = [{p.name: p.to_info_dict() for p in command.params} for command in commands]
    for name in ("weights_dtype", "keep", "activations_dtype", "seed", "cold", "crew", "numerics"):
        assert both[0][name] == both[1][name]


@pytest.mark.slow
def test_the_command_searches_with_several_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUMIGEN_CACHE", str(tmp_path))
    file, page = tmp_path / "model.py", tmp_path / "search.html"
    file.write_text(SMALL, encoding="utf-8")
    told = ["--time", "300s", "--workers", str(min(2, os.cpu_count() or 1)), "--html", str(page)]
    assert cli.run(["tune", str(file), *told]) == 0
    assert "k00_softmax_simt" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ([], "the model cannot be left out"),
        (["--html", "page.html", "--export", "all.json"], "--html"),
        (["--seed", "3", "--export", "all.json"], "[tune] --seed"),
        (["model.py", "--seed", "-1"], "[tune] seed"),
        (["model.py", "--time", "0s"], "[tune] time"),
        (["model.py", "--workers", "4096"], "workers"),
        ([MATRIX, "--weights-dtype", "q99"], "q99"),
        ([MATRIX, "--weights-dtype", "q8", "--keep", "none"], "none"),
        ([MATRIX, "--activations-dtype", "i4"], "i4"),
    ],
)
def test_what_the_command_cannot_do_is_refused(
    told: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "model.py"
    file.write_text(MATRIX, encoding="utf-8")
    assert cli.run(["tune", *(str(file) if t == MATRIX else t for t in told)]) == 1
    assert says in capsys.readouterr().err


# ---- what is kept ----


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LUMIGEN_CACHE", str(tmp_path))
    return database.database()


FOUND = Found(Choice(1, ((0, 2),), ()), 1.0, 2.0)
HERE = winners.Kept(frozenset({"a", "b"}), "here", "this model")


def known(budget: float, place: winners.Kept = HERE) -> Book:
    return winners.known(place, budget).book


def keep(found: Mapping[str, Found], budget: float) -> None:
    winners.keep(found, {}, HERE, budget)


def test_winners_of_longer_searches_stay(kept: Path) -> None:
    assert known(1.0) == Book({})
    keep({"a": FOUND}, 60.0)
    keep({"a": replace(FOUND, seconds=9.0), "b": FOUND}, 5.0)
    assert known(60.0) == Book({"a": FOUND})
    assert known(5.0) == Book({"a": FOUND, "b": FOUND})
    assert known(1.0, replace(HERE, machine="elsewhere")) == Book({})
    assert known(1.0, replace(HERE, regions=frozenset({"b"}))) == Book({"b": FOUND})


def test_a_region_that_takes_little_of_one_model_is_searched_in_another(kept: Path) -> None:
    winners.keep({}, {"a": FOUND}, HERE, 60.0)
    assert known(1.0) == Book({"a": FOUND})
    assert known(1.0, replace(HERE, model="another")) == Book({})


def test_winners_of_another_day_are_not_of_today(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep({"a": FOUND}, 60.0)
    assert winners.known(HERE, 1.0).are_of_today
    monkeypatch.setattr(winners, "today", lambda: "tomorrow")
    assert not winners.known(HERE, 1.0).are_of_today


@pytest.mark.parametrize("content", [b"no database", b"SQLite format 3\0" + bytes(2000)])
def test_a_database_that_cannot_be_read_is_set_aside(kept: Path, content: bytes) -> None:
    kept.write_bytes(content)
    said: list[str] = []
    assert winners.known(HERE, 1.0, said.append).book == Book({})
    assert len(said) == 1, "in one line"
    keep({"a": FOUND}, 1.0)
    assert known(1.0) == Book({"a": FOUND})
    assert kept.with_suffix(".unreadable").read_bytes() == content


def test_what_is_remembered_and_says_nothing_is_left_out(kept: Path) -> None:
    keep({"a": FOUND, "b": FOUND}, 60.0)
    row = MeasuredRow("a", FOUND.choice, {ROOFLINE: 1.0}, (1.0, 2.0))
    measured.keep("here", [row, replace(row, region="b", seconds=())])
    poison = ("{", "[]", '{"first": -1}', '{"first": 0, "plans": [[0]]}', "null", "NaN")
    with sqlite3.connect(kept) as other:
        other.execute("update winner set found = ? where region = 'b'", (poison[0],))
        for text in poison:
            values = (text, text, text, text)
            other.execute("insert into measured values ('here', 'a', ?, ?, ?, ?)", values)
    other.close()
    said: list[str] = []
    assert winners.known(HERE, 1.0, said.append).book == Book({"a": FOUND})
    assert said == ["what was remembered of region b says nothing, and is searched anew"]
    assert measured.known("here") == [Measured("a", row.features, 1.0)]
    assert measured.of_region("here", "a") == {FOUND.choice: (1.0, 2.0)}


def test_the_oldest_measurements_are_forgotten(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "MOST", 2)
    for number in range(4):
        choice = replace(FOUND.choice, first=number)
        measured.keep("here", [MeasuredRow("a", choice, {ROOFLINE: 1.0}, (1.0,))])
    assert [c.first for c in measured.of_region("here", "a")] == [2, 3]


def test_a_database_that_is_in_use_or_out_of_reach_is_left(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep({"a": FOUND}, 1.0)
    monkeypatch.setattr(database, "SECONDS", 0.1)
    with sqlite3.connect(kept, isolation_level=None) as other:
        other.execute("begin exclusive")
        assert known(1.0) == Book({})
        keep({"b": FOUND}, 1.0)
        other.execute("rollback")
    other.close()
    assert known(1.0) == Book({"a": FOUND})
    monkeypatch.setenv("LUMIGEN_CACHE", str(kept))  # a file
    keep({"a": FOUND}, 1.0)
    assert known(1.0) == Book({})


def test_a_database_of_other_columns_is_set_aside(kept: Path) -> None:
    with sqlite3.connect(kept) as old:
        old.execute("create table winner (something text)")
    old.close()
    keep({"a": FOUND}, 1.0)
    assert known(1.0) == Book({"a": FOUND})


def test_a_database_whose_text_is_no_text_is_set_aside(kept: Path) -> None:
    keep({"a": FOUND}, 1.0)
    with sqlite3.connect(kept) as old:
        old.execute("update winner set found = cast(x'ff00fe' as text)")
    old.close()
    assert known(1.0) == Book({})
    keep({"a": FOUND}, 1.0)
    assert known(1.0) == Book({"a": FOUND})


def test_what_searches_found_here_is_a_file(kept: Path, tmp_path: Path) -> None:
    file = tmp_path / "all.json"
    with pytest.raises(BadArgument, match="no search on this machine has found"):
        exported(HOST.name)
    here = winners.Kept.of(host.MEASURING, os.cpu_count() or 1, ["a"])
    winners.keep({"a": FOUND, "slow": replace(FOUND, seconds=2.0)}, {"small": FOUND}, here, 1.0)
    assert cli.run(["tune", "--export", str(file)]) == 0
    assert asked_for(HOST, None, file).given == Book({"a": FOUND})
    assert kept.exists()
