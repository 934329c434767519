"""The pipeline from top to bottom: a traced model to graphs, programs, files and a library.

Promises that every pass is verified, timed and dumped, and that the directory is touched only after
everything that can be refused has been.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import Any

import numpy.typing as npt

from lumigen import memo
from lumigen.activations import rounded
from lumigen.build import (
    WriteResult,
    load_module,
    write_project,
)
from lumigen.checks import SOURCE, build_where_possible, check_source, refuse
from lumigen.directory import locked
from lumigen.dtype import DType, f32
from lumigen.emit.entry import source_lines
from lumigen.emit.kernel_vectors import kernel_vectors
from lumigen.emit.project import render_project
from lumigen.emit.vectors import Vector, vectors
from lumigen.emit.weights_file import PackedWeights, pack_weights
from lumigen.errors import (
    BadArgument,
    CompilerMissing,
    LoweringFailed,
    TooManyArguments,
    UnsupportedTarget,
    user_location,
)
from lumigen.frontend import Model, Traced
from lumigen.graph import Graph
from lumigen.identity import compilation_key, graph_hash
from lumigen.kernel_source import kernel_source
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredKernel, LoweredModel, assemble
from lumigen.lower.flips import HEURISTIC
from lumigen.lower.prepare import Prepared, prepare
from lumigen.lower.retype import retype
from lumigen.model_weights import (
    source_of,
    wanted_weights,
    weights_path,
)
from lumigen.original import check as check_model
from lumigen.passes import Entries, run_pass
from lumigen.program import CompiledModel
from lumigen.progress import Stages
from lumigen.quantise import quantised
from lumigen.recall import recall, remember
from lumigen.search.asked import SCHEDULES, asked_for
from lumigen.search.book import NOTHING, Book, text_of
from lumigen.search.crew import Crew
from lumigen.search.shipped import shipped
from lumigen.summary import Summary, summary_again, summary_of, to_remember
from lumigen.target import HOST, TARGETS, parse_target
from lumigen.target_row import Target
from lumigen.texts import KERNEL_FORMS, kernel_table, show_kernels, show_programs, show_sources
from lumigen.trail import Trail
from lumigen.verify.program import verify as verify_program
from lumigen.verify.region import verify as verify_region
from lumigen.verify.tile import verify as verify_tile
from lumigen.weights import Weights, named_array, open_weights

Array = npt.NDArray[Any]


UNPLANNED = "with them no plan runs a region, as of a file that another version has written"
Schedules = Callable[[Entries, Target, DType, Stages], Book]


def as_shipped(_entries: Entries, target: Target, _dtype: DType, _at: Stages) -> Book:
    """What every region runs as that nothing is said of: what came with lumigen, else the heuristic's choice."""
    return shipped(target)


@dataclass(frozen=True)
class Compilation:
    """A model in every form on the way; `graphs` by the stage that they come after."""

    traced: Traced
    graphs: Mapping[str, Entries]
    lowered: LoweredModel
    model: CompiledModel
    schedules: Book = NOTHING


@memo.compilation()
def lower_model(
    traced: Traced,
    options: Mapping[str, str],
    stages: Stages | None = None,
    target: Target = HOST,
    *,
    dtype: DType = f32,
    passes: Sequence[Callable[[Graph], Graph]] = GRAPH_PASSES,
    schedules: Schedules = as_shipped,
) -> Compilation:
    """Graph passes, then regions, plans, tile programs and the text of every kernel.

    What the model has of f32 in memory is stored as `dtype`. `schedules` says what regions run as.
    """
    at = stages or Stages()
    graphs: dict[str, Entries] = {"graph": traced.entries}
    entries = traced.entries
    with at.stage("passes"):
        run_pass("graph", lambda g: g, entries, at.trail)
        if dtype is not f32:  # first: the casts that it puts in merge with those that were there
            entries = graphs["retype"] = run_pass(
                "retype", lambda g: retype(g, dtype), entries, at.trail
            )
        for step in passes:
            entries = graphs[step.__name__] = run_pass(step.__name__, step, entries, at.trail)
    prepared = prepare(entries)
    book = schedules(prepared.entries, target, dtype, at)
    with at.stage("lower"):
        try:
            lowered = lowered_to(prepared, target, dtype, at.trail, book)
        except LoweringFailed:
            if book.flips == HEURISTIC:
                raise
            at.say(f"decisions of the schedules are left out: {UNPLANNED}")
            book = book.without_flips
            lowered = lowered_to(prepared, target, dtype, at.trail, book)
    if book.found and not book.matches(k.of for k in lowered.kernels):
        at.say("no region of the model is in the schedules: all run as without them")
    with at.stage("emit"):
        kernels = tuple(kernel_source(k, target) for k in lowered.kernels)
        model = CompiledModel(
            name=traced.name,
            version=traced.version,
            programs=lowered.programs,
            weights=lowered.weights,
            kernels=kernels,
            graph_hash=graph_hash(traced),
            options=tuple(sorted(options.items())),
            target=target,
            states=lowered.states,
            counters=lowered.counters,
            text=traced.text,
            formats=traced.formats,
            opening=lowered.opening,
        )
    at.trail.note(2, lambda: kernel_table(model))
    at.trail.keep("source", lambda: show_sources(model))
    return Compilation(traced, graphs, lowered, model, book)


def lowered_to(
    prepared: Prepared, target: Target, dtype: DType, trail: Trail, book: Book = NOTHING
) -> LoweredModel:
    """Regions, plans, tile programs and programs of graphs; each verified and shown."""
    start = perf_counter()
    entries, made = prepared.entries, prepared.made
    _check_dtypes(entries, target)
    device = TARGETS[target.name].device
    pick = partial(book.pick, device)
    lowered = assemble(
        entries,
        device,
        dtype=dtype,
        architectures=target.architectures,
        pick=pick,
        made=made,
        flips=book.flips,
    )
    for k in lowered.kernels:
        _check_arguments(k, target)
        verify_region(k.region, k.name)
        verify_tile(k.program, k.name)
    parameters = {k.name: k.parameters for k in lowered.kernels}
    for p in lowered.every_program:
        verify_program(p, parameters, "lower")
    seconds = perf_counter() - start
    for form in KERNEL_FORMS:
        trail.keep(form, partial(show_kernels, form, lowered.kernels))
    trail.record("program", lambda: show_programs(lowered), seconds, form="program")
    return lowered


def _check_dtypes(entries: Entries, target: Target) -> None:
    """UnsupportedTarget where an entry computes in what the target's kernels lack."""
    for entry, graph in entries:
        for lacking in {n.dtype.name for n in graph.nodes()} & set(target.lacks):
            lines = [graph.lines.get(n, ()) for n in graph.nodes() if n.dtype.name == lacking]
            places = source_lines(next(filter(None, lines), ()))
            why = f"it has no {lacking}, in which {entry} computes{places and f' at {places}'}"
            known = [name for name, b in TARGETS.items() if lacking not in b.target.lacks]
            raise UnsupportedTarget(target=target.name, why=why, known=known)


def _check_arguments(kernel: LoweredKernel, target: Target) -> None:
    """TooManyArguments where a launch of the target cannot be handed all that a kernel takes."""
    taken, most = 8 * len(kernel.parameters), target.argument_bytes  # addresses and int64_t
    if most is not None and taken > most:
        raise TooManyArguments(kernel=kernel.name, bytes=taken, target=target.name, most=most)


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
        at.trail.note(4, lambda: "\n".join(k.body for k in model.kernels))
        written = write_project(files, place, force=force)
        if packed is not None:
            packed.write(weights_path(place, model.name))
    return len(files), written


def compile(
    model: Model | Traced,
    target: str = HOST.name,
    output: str | Path | None = None,
    weights: str | Path | Weights | Mapping[str, Any] | None = None,
    *,
    dtype: DType = f32,
    build: bool = True,
    force: bool = False,
    check: bool = False,
    tune: float | None = None,
    schedules: str | Path | None = None,
    numerics: str | None = None,
    weights_dtype: str | None = None,
    keep: Sequence[str] = (),
    activations_dtype: str | None = None,
    isa: str | None = None,
) -> ModuleType | None:
    """Compile a model into a project; the Python module of it, or None with `build=False`.

    `target` is `cpu`, or `cuda` with architectures (`cuda:sm_90a`); `output` the directory,
    `./<name>-<target>` if left out; `weights` a path, opened weights or arrays by
    name, numpy's or torch's, or what `load_state_dict` gave the model's modules.
    `dtype=lg.bf16` (or `lg.f16`) holds what is f32 in the model in 16 bits and computes in f32 as before.
    Weights that a file holds in blocks of small integers stay in them. `weights_dtype="q8"` (or `"q4"`) stores
    matrices in blocks of 32 small integers with a scale, `"f32"` as floats, other than those in `keep`: names, parts
    of them between dots, or patterns.
    `activations_dtype="i8"` rounds the rows that integer weights multiply to 8 bits of the greatest number of each, so
    that the products are of integers.
    `tune=120` searches for that many seconds for faster kernels on this machine, and the project keeps what was found
    in `schedules.json`; `schedules` is the path of such a file, whose kernels are emitted without a search.
    `numerics` says which programs that are equal to the model may take its place: `strict`, of the same bits;
    `default`, of other roundings, if `tune` finds them faster; `fast`, all that are equal as real numbers.
    `isa="native"` (or `"avx2"`) builds kernels for one instruction set, which is faster while a model is written.
    `force` overwrites emitted files that were edited, which are EditedFiles else, and the project of a model that was
    imported from elsewhere, which is AnotherSource else. With `check` an imported
    model's original is run too, and the project's tests keep what it gives; `lg.check` says how far the two are
    apart. A target whose compiler is not here is CompilerMissing, unless `build=False`.
    """
    if not isinstance(model, Model | Traced):  # pyright: ignore[reportUnnecessaryIsInstance]
        value = f"of type {type(model).__name__}"
        raise BadArgument(
            where=user_location(), op="compile", name="model", value=value, expected="an lg.Model"
        )
    parse_target(target)
    rounding = {"weights_dtype": weights_dtype, "activations_dtype": activations_dtype}
    originals = _originals(model, weights, dtype, rounding) if check else None
    opened = open_weights(weights) if isinstance(weights, str | Path) else weights
    if isinstance(model, Model):
        opened = model.sources(opened)
    traced = model.trace() if isinstance(model, Model) else model
    found = quantised(traced, opened, weights_dtype, keep)
    traced, opened = rounded(found.traced, activations_dtype).traced, found.weights
    place = default_place(traced, target) if output is None else Path(output)
    with locked(place):  # until it is loaded
        summary = compile_project(
            traced,
            directory=place,
            target=target,
            weights=opened,
            dtype=dtype,
            build=build,
            force=force,
            originals=originals,
            tune=tune,
            schedules=schedules,
            numerics=numerics,
            isa=isa,
            source=model.source if isinstance(model, Model) else "",
        )
        if summary.note:
            tool, remedy = (
                "nvcc",
                "Install the CUDA toolkit, or pass build=False and build it elsewhere.",
            )
            purpose = f"building for {summary.target}"
            raise CompilerMissing(tool=tool, purpose=purpose, remedy=remedy)
        return load_module(summary.directory) if build else None


def _originals(
    model: Model | Traced, weights: object, dtype: DType, rounding: Mapping[str, str | None]
) -> Mapping[str, tuple[Vector, ...]]:
    """What the original of a model gives, for the project's tests."""

    def refused(name: str, value: str, expected: str) -> BadArgument:
        where = user_location()
        return BadArgument(where=where, op="compile", name=name, value=value, expected=expected)

    if isinstance(model, Traced):
        raise refused("model", "of type Traced", "the lg.Model: a traced one has no original")
    if weights is not None:
        raise refused("weights", "given with check", "left out: the original has its own")
    if dtype is not f32:
        raise refused("dtype", dtype.name, "f32, in which a model is checked")
    for name, given in rounding.items():
        if given:
            raise refused(name, given, "none with check, which compares with the original's floats")
    return check_model(model).vectors


def load(directory: str | Path) -> ModuleType:
    """The Python module of a built project; NotBuilt where it was only emitted."""
    return load_module(Path(directory))
