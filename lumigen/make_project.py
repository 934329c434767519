"""Everything after the trace: a traced model to a project in a directory, and to its library.

Promises that the directory is touched only after everything that can be refused has been.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy.typing as npt

from lumigen import memo
from lumigen.build import WriteResult, write_project
from lumigen.checks import SOURCE, build_where_possible, check_source, refuse
from lumigen.directory import locked
from lumigen.dtype import DType, f32
from lumigen.emit.kernel_vectors import kernel_vectors
from lumigen.emit.project import render_project
from lumigen.emit.vectors import Vector, vectors
from lumigen.emit.weights_file import PackedWeights, pack_weights
from lumigen.frontend import Traced
from lumigen.identity import compilation_key
from lumigen.model_weights import source_of, wanted_weights, weights_path
from lumigen.pipeline import Compilation, lower_model
from lumigen.progress import Stages
from lumigen.recall import recall, remember
from lumigen.search.asked import SCHEDULES, asked_for
from lumigen.search.book import text_of
from lumigen.search.crew import Crew
from lumigen.summary import Summary, summary_again, summary_of, to_remember
from lumigen.target import HOST, parse_target
from lumigen.weights import Weights, named_array

Array = npt.NDArray[Any]


@memo.compilation()
def compile_project(
    traced: Traced,
    *,
    directory: Path | None = None,
    target: str = HOST.name,
    options: Mapping[str, str] | None = None,
    weights: Weights | Mapping[str, Array] | None = None,
    dtype: DType = f32,
    build: bool = True,
    embed: bool = False,
    force: bool = False,
    originals: Mapping[str, tuple[Vector, ...]] | None = None,
    stages: Stages | None = None,
    tune: float | None = None,
    schedules: str | Path | None = None,
    seed: int | None = None,
    cold: bool = False,
    crew: Crew | None = None,
    numerics: str | None = None,
    isa: str | None = None,
    source: str = "",
) -> Summary:
    """Everything after the trace. `directory` is ./<name>-<target> by default.

    What the model has of f32 in memory is stored as `dtype`. With `embed` the library contains the weights.
    `tune` is how many seconds kernels are searched for on this machine, on random data of `seed`, with caches that
    are `cold` before each launch or as they are, by a `crew` of processes; `schedules` a file that says what was
    found. `numerics` bounds the rules of the algebra: strict, default or fast.
    `originals` are what the program gives that the model was imported from: further tests of its entries.
    `isa` builds kernels for one instruction set of all that the project has, `native` for the best of this processor.
    `source` names what the model was imported from: without `force` no project of another source is replaced.
    Where the target's own compiler is missing the project is not built, and `note` says so.
    """
    row = parse_target(target)
    place = default_place(traced, target) if directory is None else directory
    if isinstance(weights, Mapping):
        weights = {name: named_array("compile", name, a) for name, a in weights.items()}
    refuse(traced, place, row, weights, dtype, build=build, embed=embed, isa=isa)
    if not force:
        check_source(place, source)
    at = stages or Stages()
    asked = asked_for(row, tune, schedules, seed, cold=cold, crew=crew, numerics=numerics)
    chosen = {"target": row.text, "dtype": dtype.name, **(options or {}), **asked.options}
    if originals:
        chosen["check"] = "original"
    if source:
        chosen[SOURCE] = source
    with locked(place):  # what is written and built is one model, as a whole
        with at.stage("recall"):
            key = compilation_key(traced, chosen, weights, embed=embed)
            known = None if at.trail.is_on else recall(place, key)
        if known is not None:
            built, note = build_where_possible(place, row, at, isa) if build else (None, "")
            return summary_again(known, place, built, note, at)
        equal, left = asked.program(traced, row, dtype, at)
        compilation = lower_model(equal.traced, chosen, at, row, dtype=dtype, schedules=left.book)
        files, written = write(
            compilation, place, weights, at, embed=embed, force=force, originals=originals
        )
        built, note = build_where_possible(place, row, at, isa) if build else (None, "")
        summary = summary_of(
            compilation.model,
            place,
            files=files,
            written=written,
            weights=weights,
            built=built,
            note=note,
            seconds=at.seconds,
        )
        remember(place, key, to_remember(summary))
        return summary


def default_place(traced: Traced, target: str) -> Path:
    """The directory of a project for which none is named."""
    return Path(f"{traced.name}-{parse_target(target).name}")


def write(
    compilation: Compilation,
    place: Path,
    weights: Weights | Mapping[str, Array] | None,
    at: Stages,
    *,
    embed: bool,
    force: bool,
    originals: Mapping[str, tuple[Vector, ...]] | None,
) -> tuple[int, WriteResult]:
    """The project as files, its weights packed where they are given: how many files, and which changed."""
    model = compilation.model
    with at.stage("vectors"):
        stored = vectors(model, compilation.graphs.get("retype", compilation.traced.entries))
        of_kernels = kernel_vectors(model, compilation.lowered.kernels)
    packed: PackedWeights | None = None
    if weights is not None:
        with at.stage("weights"):
            packed = pack_weights(model, wanted_weights(model, weights), source_of(weights))
    with at.stage("write"):
        files = render_project(
            model,
            vectors=stored,
            kernel_vectors=of_kernels,
            originals=originals,
            weights_hash=packed.hash if packed else None,
            embed_weights=embed,
        )
        if not compilation.schedules.is_empty:
            files[SCHEDULES] = text_of(compilation.schedules)
        written = write_project(files, place, force=force)
        if packed is not None:
            packed.write(weights_path(place, model.name))
    return len(files), written
