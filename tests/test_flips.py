"""Cuts, joins and orders that are there for speed alone: each can go, and what is computed stays the same."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from test_tune import SPECS, entries_of, small
from tiles import run_entry

import lumigen as lg
from lumigen import functional, pipeline
from lumigen.errors import LoweringFailed
from lumigen.interp.graph import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.lower.flips import HEURISTIC
from lumigen.pipeline import lower_model
from lumigen.progress import Stages
from lumigen.search import flipping, host, winners
from lumigen.search import shipped as shipped_module
from lumigen.search.asked import asked_for
from lumigen.search.book import Book, book_of, by_kind, key_of, text_of
from lumigen.search.flipping import flips_of
from lumigen.search.jobs import Timed
from lumigen.search.tune import Terms
from lumigen.target import HOST
from lumigen.targets.cpu.device import CPU

ROWS = lg.Dim("rows", 1, 9, typical=4)
BOTH = {"x": lg.spec(ROWS, 8), "w": lg.spec(8, 12)}


def normed(x: Any, w: Any) -> Any:
    centred = x - x.mean(-1, keepdim=True)
    scaled = centred * (centred * centred).mean(-1, keepdim=True).rsqrt()
    hidden = functional.gelu(scaled @ w)
    return {"out": hidden * hidden.amax(-1, keepdim=True), "sums": hidden.sum(0)}


def moments(x: Any) -> Any:
    centred = x - x.mean(-1, keepdim=True)
    return {"mean": x.mean(-1), "variance": (centred * centred).mean(-1), "e": x.exp()}


def merged(x: Any, w: Any) -> Any:
    h = (x @ w).reshape(x.shape[0], 3, 4).transpose(0, 1).softmax(-1)
    attended = (h @ h.transpose(1, 2)).softmax(-1) @ h
    return attended.transpose(0, 1).reshape(x.shape[0], 12) @ w.T


def lowered(entries: Any, flip: tuple[str, str]) -> LoweredModel | None:
    try:
        return assemble(entries, CPU, flips=Book({}, flipped=by_kind([flip])).flips)
    except LoweringFailed:
        return None


@pytest.mark.parametrize(
    ("function", "specs", "shapes", "kinds"),
    [
        (small, SPECS, {"x": (5, 24), "w": (24, 40)}, {"inlined"}),
        (normed, BOTH, {"x": (5, 8), "w": (8, 12)}, {"inlined"}),
        (moments, {"x": lg.spec(ROWS, 8)}, {"x": (5, 8)}, {"inlined", "apart"}),
        (merged, BOTH, {"x": (5, 8), "w": (8, 12)}, {"inlined", "in_order"}),
    ],
)
def test_what_is_flipped_changes_kernels_and_no_result(
    function: Any,
    specs: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
    kinds: set[str],
    rng: np.random.Generator,
) -> None:
    entries = entries_of(function, **specs)
    inputs = {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    wanted = evaluate(entries[0][1], inputs, {})
    plain, flipped = assemble(entries, CPU), set[str]()
    for flip in flips_of(entries, CPU, lg.f32):
        made = lowered(entries, flip)
        if made is None:
            continue
        assert made.kernels != plain.kernels
        found = run_entry(made, inputs, {})
        for name, array in wanted.items():
            np.testing.assert_allclose(found[name], array, 1e-4, 1e-5)
        flipped.add(flip[0])
    assert flipped == kinds


def test_a_book_says_what_is_not_stored() -> None:
    book = Book({}, flipped={"inlined": ("a", "b"), "apart": ("c",), "in_order": ("d",)})
    assert book_of(text_of(book), "a text") == book
    assert not book.is_empty
    (region, *_) = {k.of: None for k in assemble(entries_of(), CPU).kernels if k.of is not None}
    flips, others = Book({}, flipped={"inlined": (key_of(region),)}).flips, book.flips
    assert flips.inlined is not None
    assert others.inlined is not None
    assert flips.inlined(region)
    assert not others.inlined(region)
    assert Book({}).flips == HEURISTIC


@pytest.mark.slow
def test_a_file_of_flips_alone_is_taken_as_far_as_plans_run_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = lg.Model("flips")
    model.entry(**BOTH)(normed)
    traced, stages = model.trace(), Stages()
    plain = lower_model(traced, {})
    (flip, *_) = flips_of(plain.graphs[GRAPH_PASSES[-1].__name__], CPU, lg.f32)
    file = tmp_path / "schedules.json"
    file.write_text(text_of(Book({}, flipped=by_kind([flip]))), encoding="utf-8")
    asked = partial(lower_model, traced, {}, stages, schedules=asked_for(HOST, None, file).book)
    assert len(asked().lowered.kernels) < len(plain.lowered.kernels)
    assert not stages.said

    def of_heuristics(*given: Any, flips: Any, **named: Any) -> LoweredModel:
        if flips != HEURISTIC:
            raise LoweringFailed(step="lower", what="no plan is realised")
        return assemble(*given, flips=flips, **named)

    monkeypatch.setattr(pipeline, "assemble", of_heuristics)
    model = lg.Model("flips_again")
    model.entry(**BOTH)(normed)
    made = lower_model(model.trace(), {}, stages, schedules=asked_for(HOST, None, file).book)
    assert len(made.lowered.kernels) == len(plain.lowered.kernels)
    assert made.schedules.is_empty
    assert stages.said[0].startswith("decisions of the schedules are left out")


class Counted:
    """Trials in which a kernel takes a second, and one that reads what is not stored is wrong if it is told so."""

    is_over = False

    def __init__(self, wrong: bool) -> None:
        self.wrong, self.plain = wrong, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def build(self, models: list[LoweredModel]) -> list[LoweredModel]:
        return models

    def begin(self, model: LoweredModel) -> Timed:
        self.plain = len(model.kernels)
        return self.run(model)

    def run(self, model: LoweredModel) -> Timed:
        count = len(model.kernels)
        wrong = ("entry",) if self.wrong and count != self.plain else ()
        return Timed({}, (float(count),), wrong, 0.0)


def counted(wrong: bool, *_: object) -> Counted:
    return Counted(wrong)


@pytest.mark.parametrize("wrong", [False, True])
def test_a_flip_stays_if_entries_are_faster_and_right(
    wrong: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUMIGEN_CACHE", str(tmp_path))
    monkeypatch.setattr(flipping, "trials_of", partial(counted, wrong))
    entries = entries_of(normed, x=lg.spec(ROWS, 8), w=lg.spec(8, 12))
    plain = assemble(entries, CPU)
    search = partial(flipping.flipped, entries, HOST, host.MEASURING, lg.f32)
    taken = search(Terms(60.0, 1))
    made = assemble(entries, CPU, flips=Book({}, flipped=taken).flips)
    assert (len(made.kernels) < len(plain.kernels)) == (not wrong)
    assert bool(taken) == (not wrong)
    monkeypatch.setattr(flipping, "trials_of", None)
    assert search(Terms(60.0, 1)) == taken, "remembered for the day"
    assert search(Terms(5.0, 1)) == {}, "a short search has no time for it"
    exported = winners.everything(host.MEASURING, 1).flipped
    assert exported == {kind: tuple(sorted(keys)) for kind, keys in taken.items()}


def test_what_came_with_lumigen_is_taken_without_being_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = entries_of(normed, **BOTH)
    flips = by_kind(flips_of(entries, CPU, lg.f32)[:1])
    (tmp_path / "cpu.json").write_text(text_of(Book({}, flipped=flips)), encoding="utf-8")
    monkeypatch.setenv("LUMIGEN_CACHE", str(tmp_path))
    model = lg.Model("shipped")
    model.entry(**BOTH)(normed)
    plain = lower_model(model.trace(), {})
    monkeypatch.setattr(shipped_module, "BOOKS", tmp_path)
    made = lower_model(model.trace(), {})
    assert len(made.lowered.kernels) < len(plain.lowered.kernels)
    assert made.schedules.is_empty, "so no project has it as a file"
    assert made.schedules.without_flips.flips == HEURISTIC
    short = flipping.flipped(entries, HOST, host.MEASURING, lg.f32, Terms(5.0, 1))
    assert short == flips, "a search that has no time for flips goes on from there"
    others = entries_of(moments, x=lg.spec(ROWS, 8))
    assert not flipping.flipped(others, HOST, host.MEASURING, lg.f32, Terms(5.0, 1))
