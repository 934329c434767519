"""The pipeline from top to bottom: a traced model to graphs, programs, files and a library.

Promises that every pass is verified, timed and dumped, and that the directory is touched only after
everything that can be refused has been.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from lumigen.build import (
    MANIFEST,
    BuildResult,
    WriteResult,
    build_project,
    check_buildable,
    check_ours,
    load_module,
    read_manifest,
    write_project,
)
from lumigen.dtype import DType, bf16, f16, f32, of_numpy
from lumigen.emit import manifest
from lumigen.emit.contract import signature
from lumigen.emit.entry import source_lines
from lumigen.emit.kernel_vectors import kernel_vectors
from lumigen.emit.project import render_project
from lumigen.emit.reference import reference_text
from lumigen.emit.vectors import vectors
from lumigen.emit.weights_file import PackedWeights, misfits, pack_weights
from lumigen.errors import (
    BadArgument,
    CompilerMissing,
    user_location,
)
from lumigen.frontend import Model, Traced
from lumigen.graph import Graph, tensor_of
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredKernel, LoweredModel, assemble
from lumigen.lower.retype import retype
from lumigen.printer import graph as graph_text
from lumigen.printer import plan as plan_text
from lumigen.printer import program as program_text
from lumigen.printer import region as region_text
from lumigen.printer import tile as tile_text
from lumigen.printer.title import title
from lumigen.program import CompiledModel, KernelSource, Program
from lumigen.recall import key_of, recall, remember
from lumigen.target import HOST, TARGETS, parse_target
from lumigen.target_row import Target
from lumigen.trail import Trail
from lumigen.verify.graph import verify
from lumigen.verify.program import verify as verify_program
from lumigen.verify.region import verify as verify_region
from lumigen.verify.tile import verify as verify_tile
from lumigen.weights import Weights, check_fit, fitted, missing, named_array, open_weights

Entries = tuple[tuple[str, Graph], ...]
Array = npt.NDArray[Any]
KERNEL_FORMS = ("regions", "plan", "tile")  # on the way from the graphs to a program
DTYPES = (f32, f16, bf16)  # in which a model of f32 can be held


# --- progress -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Progress:
    """News of a stage, or of a step of the build: it has begun, or `done` of `total`, now `what`."""

    stage: str
    done: int = 0
    total: int = 0
    what: str = ""

    @property
    def has_begun(self) -> bool:
        return self.total == 0


Listener = Callable[[Progress], None]


def _nobody(_: Progress) -> None:
    pass


@dataclass
class Stages:
    """Times the stages, and tells a listener."""

    listener: Listener = _nobody
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    trail: Trail = field(default_factory=Trail)

    @contextmanager
    def stage(self, name: str) -> Generator[None]:
        self.listener(Progress(name))
        start = perf_counter()
        yield
        self.seconds[name] = perf_counter() - start

    def step(self, stage: str, done: int, total: int, what: str) -> None:
        self.listener(Progress(stage, done, total, what))


# --- from a traced model to a compiled one --------------------------------------------------------


@dataclass(frozen=True)
class Compilation:
    """A model in every form on the way; `graphs` by the stage that they come after."""

    traced: Traced
    graphs: Mapping[str, Entries]
    lowered: LoweredModel
    model: CompiledModel


def lower_model(
    traced: Traced,
    options: Mapping[str, str],
    stages: Stages | None = None,
    target: Target = HOST,
    *,
    dtype: DType = f32,
) -> Compilation:
    """Graph passes, then regions, plans, tile programs and the text of every kernel.

    What the model has of f32 in memory is held in `dtype`.
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
        for step in GRAPH_PASSES:
            entries = graphs[step.__name__] = run_pass(step.__name__, step, entries, at.trail)
    with at.stage("lower"):
        start = perf_counter()
        lowered = assemble(
            entries, TARGETS[target.name].device, dtype=dtype, architectures=target.architectures
        )
        for k in lowered.kernels:
            verify_region(k.region, k.name)
            verify_tile(k.program, k.name)
        parameters = {k.name: k.parameters for k in lowered.kernels}
        for p in lowered.programs:
            verify_program(p, parameters, "lower")
        seconds = perf_counter() - start
        for form in KERNEL_FORMS:
            at.trail.keep(form, partial(show_kernels, form, lowered.kernels))
        at.trail.record("program", lambda: show_programs(lowered), seconds, form="program")
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
        )
    at.trail.note(2, lambda: kernel_table(model))
    at.trail.keep("source", lambda: show_sources(model))
    return Compilation(traced, graphs, lowered, model)


def run_pass(name: str, step: Callable[[Graph], Graph], entries: Entries, trail: Trail) -> Entries:
    """The pass on every entry; verified, and recorded."""
    start = perf_counter()
    out = tuple((entry, verify(step(g), name)) for entry, g in entries)
    trail.record(name, lambda: show_entries(out), perf_counter() - start)
    return out


def show_entries(entries: Entries) -> str:
    return "\n".join(f"entry {name}\n{graph_text.show(g)}" for name, g in entries)


def show_programs(lowered: LoweredModel) -> str:
    programs = "\n".join(map(program_text.show, lowered.programs))
    return programs + "\n" * bool(lowered.weights) + program_text.show_weights(lowered.weights)


def show_kernels(form: str, kernels: Sequence[LoweredKernel]) -> str:
    """One of KERNEL_FORMS, of each of these kernels below its name."""

    def text(k: LoweredKernel) -> str:
        if form == "regions":
            return region_text.show(k.region)
        if form == "tile":
            return tile_text.show(k.program)
        return plan_text.show(k.plan, k.schedule) if k.plan else "no plan\n"

    return "\n".join(f"{k.name}{program_text.origin(k.lines)}\n{text(k)}" for k in kernels)


def show_sources(model: CompiledModel, kernel: str | None = None) -> str:
    """The emitted files of all kernels, or of one."""
    files = render_project(model)
    names = [k.name for k in model.kernels] if kernel is None else [kernel]
    return "\n".join(files[f"kernels/{name}.{model.target.kernel_suffix}"] for name in names)


def graph_hash(traced: Traced) -> str:
    """The same for models that mean the same by the same text, wherever their files lie."""
    bare = tuple((name, replace(g, lines={})) for name, g in traced.entries)
    return hashlib.sha256(show_entries(bare).encode()).hexdigest()


def kernel_source(kernel: LoweredKernel, target: Target) -> KernelSource:
    """A kernel as text for a target, with its reference."""
    spell, lines = TARGETS[target.name].spell, source_lines(kernel.lines)
    text = spell(kernel.name, kernel.program, kernel.parameters, lines)
    return KernelSource(
        name=kernel.name,
        title=title(kernel.region),
        lines=kernel.lines,
        parameters=kernel.parameters,
        scratch_bytes=text.scratch_bytes,
        body=text.body,
        reference=reference_text(kernel),
        cost=kernel.cost,
        computes=kernel.computes,
    )


def kernel_table(model: CompiledModel) -> str:
    return "\n".join(f"{k.name:<20} {k.title}" for k in model.kernels)


# --- from a compiled model to a directory ---------------------------------------------------------


@dataclass(frozen=True)
class EntrySummary:
    """An entry at its dims' typical values: its launches, work, traffic and arena."""

    name: str
    signature: str
    dims: Mapping[str, int]
    launches: int
    flops: int
    bytes: int
    arena: int


@dataclass(frozen=True)
class Summary:
    """What a compilation made."""

    model: str
    version: str
    target: str
    directory: Path
    kernels: int
    weights: int
    weight_bytes: int
    entries: tuple[EntrySummary, ...]
    files: int
    written: WriteResult
    note: str  # what was not done that one might expect; empty: nothing
    unused: tuple[str, ...]  # tensors of the weights file that the model does not read
    has_weights: bool  # whether the directory holds the weights' data, and they fit
    kept: str  # what became of the weights of an earlier compilation, if none were given; or empty
    built: BuildResult | None
    seconds: Mapping[str, float]


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
    stages: Stages | None = None,
) -> Summary:
    """Everything after the trace. `directory` is ./<name>-<target> by default.

    What the model has of f32 in memory is held in `dtype`. With `embed` the library holds the weights.
    Where the target's own compiler is missing the project is not built, and `note` says so.
    """
    row = parse_target(target)
    check_dtype(dtype)
    if embed and weights is None:
        expected = "them together with the file of the weights"
        raise BadArgument(op="compile", name="--embed-weights", value="alone", expected=expected)
    place = directory if directory is not None else Path(f"{traced.name}-{row.name}")
    if build and not why_not_built(row):
        check_buildable(place)
    check_ours(place)
    if isinstance(weights, Mapping):
        weights = {name: named_array("compile", name, a) for name, a in weights.items()}
    if weights is not None:
        check_weights(traced, weights)
    at = stages or Stages()
    chosen = {"target": row.text, "dtype": dtype.name, **(options or {})}
    with at.stage("recall"):
        key = compilation_key(traced, chosen, weights, embed=embed)
        known = None if at.trail.is_on else recall(place, key)
    if known is not None:
        built, note = build_where_possible(place, row, at) if build else (None, "")
        return summary_again(known, place, built, note, at)
    compilation = lower_model(traced, chosen, at, row, dtype=dtype)
    model = compilation.model
    with at.stage("vectors"):
        stored = vectors(model, compilation.graphs.get("retype", traced.entries))
        of_kernels = kernel_vectors(model, compilation.lowered.kernels)
    packed: PackedWeights | None = None
    if weights is not None:
        with at.stage("weights"):
            packed = pack_weights(model, wanted_weights(model, weights), source_of(weights))
    with at.stage("write"):
        found = packed.hash if packed else None
        files = render_project(
            model,
            vectors=stored,
            kernel_vectors=of_kernels,
            weights_hash=found,
            embed_weights=embed,
        )
        at.trail.note(4, lambda: "\n".join(k.body for k in model.kernels))
        written = write_project(files, place, force=force)
        if packed is not None:
            packed.write(weights_path(place, model.name))
    stale = misfits(weights_path(place, model.name), manifest.weights_of(model))
    built, note = build_where_possible(place, row, at) if build else (None, "")
    summary = Summary(
        model=model.name,
        version=model.version,
        target=row.text,
        directory=place,
        kernels=len(model.kernels),
        weights=len({s.weight.name for s in model.weights}),
        weight_bytes=sum(s.bytes for s in model.weights),
        entries=tuple(entry_summary(p, model) for p in model.programs),
        files=len(files),
        written=written,
        note=note,
        unused=unused_weights(model, weights),
        has_weights=not stale,
        kept=about_kept(weights_path(place, model.name), stale) if packed is None else "",
        built=built,
        seconds=dict(at.seconds),
    )
    remember(place, key, to_remember(summary))
    return summary


def compilation_key(
    traced: Traced,
    options: Mapping[str, str],
    weights: Weights | Mapping[str, Array] | None,
    *,
    embed: bool,
) -> str:
    """Of all that decides what is emitted."""
    arrays: Iterable[tuple[str, Array]] | None = None
    unread: Iterable[str] = ()
    if weights is not None:
        read = {tensor_of(n).name for _, g in traced.entries for n in g.weights()}
        arrays = ((name, np.asarray(weights[name])) for name in sorted(read) if name in weights)
        unread = not_read(weights, read)
    ranges = [
        f"{p} {d.lo} {d.hi} {d.multiple_of} {d.typical}"
        for p, g in traced.entries
        for d in g.dims()
    ]
    facts = (
        traced.name,
        traced.version,
        json.dumps(dict(options)),
        str(embed),
        str(arrays is None),
        traced.text.identity() if traced.text else "",
    )
    return key_of((*facts, *ranges, *unread, show_entries(traced.entries)), arrays)


# of a Summary, what a second compilation cannot see for itself
REMEMBERED = ("model", "version", "target", "kernels", "weights", "weight_bytes", "files", "unused")


def to_remember(summary: Summary) -> dict[str, Any]:
    """The part of a summary that `summary_again` needs."""
    facts = {name: getattr(summary, name) for name in REMEMBERED}
    return {**facts, "entries": [asdict(e) for e in summary.entries]}


def summary_again(
    known: Mapping[str, Any], place: Path, built: BuildResult | None, note: str, at: Stages
) -> Summary:
    """The summary of a compilation that found everything as it would have made it."""
    stated = read_manifest(place) or {}
    files = tuple(sorted([*stated.get("files", ()), MANIFEST]))
    file = weights_path(place, known["model"])
    stale = misfits(file, stated.get("weights", ()))
    facts: dict[str, Any] = {name: known[name] for name in REMEMBERED}
    facts["unused"] = tuple(known["unused"])
    return Summary(
        **facts,
        directory=place,
        entries=tuple(EntrySummary(**e) for e in known["entries"]),
        written=WriteResult((), files, ()),
        note=note,
        has_weights=not stale,
        kept=about_kept(file, stale) if stated.get("weights_hash") is None else "",
        built=built,
        seconds=dict(at.seconds),
    )


def build_where_possible(place: Path, target: Target, at: Stages) -> tuple[BuildResult | None, str]:
    """(what was built, why it was not)."""
    note = why_not_built(target)
    if note:
        return None, note
    with at.stage("build"):
        return build_project(place, progress=at.step), ""


def why_not_built(target: Target) -> str:
    """Why a project of this target cannot be built here; empty if it can."""
    compiler = TARGETS[target.name].compiler
    return "" if compiler is None or compiler.find() else compiler.elsewhere


def about_kept(file: Path, wrong: Sequence[str]) -> str:
    """What is to be said of a weights file that an earlier compilation left."""
    if not file.is_file():
        return ""
    if not wrong:
        return f"the weights of before are kept, in {file}; --weights FILE replaces them"
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    return (
        f"{file} is kept from before and does not fit this model: {wrong[0]}{more}. "
        "Compile again with --weights FILE."
    )


def check_dtype(dtype: DType) -> None:
    """Refuse what a model of f32 cannot be held in."""
    if dtype not in DTYPES:
        raise BadArgument(op="compile", name="dtype", value=dtype, expected="f32, f16 or bf16")


def weights_path(directory: Path, name: str) -> Path:
    """Where a project keeps its weights."""
    return directory / "weights" / f"{name}.safetensors"


def check_weights(traced: Traced, weights: Weights | Mapping[str, Array]) -> None:
    """Refuse weights of which a name, a type or a shape is not the model's, before the work of compiling."""
    source = source_of(weights)
    read = {tensor_of(n).name: n for _, g in traced.entries for n in g.weights()}
    for name, n in read.items():
        if name not in weights:
            raise missing(name, source, list(weights), list(read))
        if isinstance(weights, Weights):
            kind, shape = weights.dtype(name), weights.shape(name)
        else:
            array = np.asarray(weights[name])
            kind, shape = of_numpy(array.dtype) or str(array.dtype), array.shape
        check_fit(kind, shape, name, n.dtype, tuple(e.const for e in n.shape), source)


def source_of(weights: Weights | Mapping[str, Array]) -> str:
    """What an error calls the weights."""
    return str(weights.path) if isinstance(weights, Weights) else "the given arrays"


def wanted_weights(
    model: CompiledModel, weights: Weights | Mapping[str, Array]
) -> Mapping[str, Array]:
    """The arrays that the model reads, by name, rounded where it holds f32 in 16 bits.

    Raises for one that is missing or different.
    """
    source = source_of(weights)
    names = list(dict.fromkeys(s.weight.name for s in model.weights))
    found: dict[str, Array] = {}
    for w in (s.weight for s in model.weights):
        if w.name not in weights:
            raise missing(w.name, source, list(weights), names)
        found[w.name] = fitted(np.asarray(weights[w.name]), w.name, w.dtype, w.shape, source)
    return found


def not_read(weights: Weights | Mapping[str, Array], read: set[str]) -> list[str]:
    """The names in a file, less those that are read under these names or others of theirs."""
    used = {weights.stored_name(name) for name in read} if isinstance(weights, Weights) else read
    return [name for name in weights if name not in used]


def unused_weights(
    model: CompiledModel, weights: Weights | Mapping[str, Array] | None
) -> tuple[str, ...]:
    """What is in the file and not in the model, less the counters of BatchNorm: only training reads those."""
    others = not_read(weights or {}, {s.weight.name for s in model.weights})
    return tuple(sorted(n for n in others if n.rpartition(".")[2] != "num_batches_tracked"))


def entry_summary(program: Program, model: CompiledModel) -> EntrySummary:
    """The sums over the launches that run at the dims' typical values."""
    typical = {d: d.estimate for d in program.dims}
    launches = program.chosen(typical)
    costs = [model.kernel(launch.kernel).cost.at(typical) for launch in launches]
    return EntrySummary(
        name=program.entry,
        signature=signature(program),
        dims={d.name: d.estimate for d in program.dims},
        launches=len(launches),
        flops=sum(flops for flops, _, _ in costs),
        bytes=sum(read + written for _, read, written in costs),
        arena=program.offsets(typical)[1],
    )


# --- the short way from Python --------------------------------------------------------------------


def compile(
    model: Model | Traced,
    target: str = HOST.name,
    output: str | Path | None = None,
    weights: str | Path | Weights | Mapping[str, Any] | None = None,
    *,
    dtype: DType = f32,
    build: bool = True,
    force: bool = False,
) -> ModuleType | None:
    """Compile a model into a project; the Python module of it, or None with `build=False`.

    `target` is `cpu`, or `cuda` with architectures (`cuda:sm_90a`); `output` the directory,
    `./<name>-<target>` if left out; `weights` a path, opened weights or arrays by
    name, numpy's or torch's, or what `load_state_dict` gave the model's modules.
    `dtype=lg.bf16` (or `lg.f16`) holds what is f32 in the model in 16 bits and computes in f32 as before.
    `force` overwrites emitted files that were edited, which are EditedFiles else. A target whose
    compiler is not here is CompilerMissing, unless `build=False`.
    """
    if not isinstance(model, Model | Traced):  # pyright: ignore[reportUnnecessaryIsInstance]
        value = f"of type {type(model).__name__}"
        raise BadArgument(
            where=user_location(), op="compile", name="model", value=value, expected="an lg.Model"
        )
    parse_target(target)
    opened = open_weights(weights) if isinstance(weights, str | Path) else weights
    if isinstance(model, Model):
        opened = model.sources(opened)
    summary = compile_project(
        model.trace() if isinstance(model, Model) else model,
        directory=None if output is None else Path(output),
        target=target,
        weights=opened,
        dtype=dtype,
        build=build,
        force=force,
    )
    if summary.note:
        tool, remedy = (
            "nvcc",
            "Install the CUDA toolkit, or pass build=False and build it elsewhere.",
        )
        raise CompilerMissing(tool=tool, purpose=f"building for {summary.target}", remedy=remedy)
    return load_module(summary.directory) if build else None


def load(directory: str | Path) -> ModuleType:
    """The Python module of a built project; NotBuilt where it was only emitted."""
    return load_module(Path(directory))
