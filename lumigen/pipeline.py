"""A traced model to graphs, regions, plans, tile programs and the text of every kernel.

Promises that every pass is verified, timed and dumped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter

from lumigen import memo
from lumigen.dtype import DType, f32
from lumigen.emit.entry import source_lines
from lumigen.errors import LoweringFailed, TooManyArguments, UnsupportedTarget
from lumigen.frontend import Traced
from lumigen.graph import Graph
from lumigen.identity import graph_hash
from lumigen.kernel_source import kernel_source
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredKernel, LoweredModel, assemble
from lumigen.lower.flips import HEURISTIC
from lumigen.lower.prepare import Prepared, prepare
from lumigen.lower.retype import retype
from lumigen.passes import Entries, run_pass
from lumigen.program import CompiledModel
from lumigen.progress import Stages
from lumigen.region import Region
from lumigen.search.book import NOTHING, Book
from lumigen.search.left_out import left_out
from lumigen.search.shipped import shipped
from lumigen.target import HOST, TARGETS
from lumigen.target_row import Target
from lumigen.texts import KERNEL_FORMS, kernel_table, show_kernels, show_programs, show_sources
from lumigen.trail import Trail
from lumigen.verify.program import verify as verify_program
from lumigen.verify.region import verify as verify_region
from lumigen.verify.tile import verify as verify_tile

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
    if not traced.entries:  # `Model.trace` refuses it with the user's words
        raise LoweringFailed(step="lower", what=f"{traced.name}, which has no entry")
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
    for note in left_out(book, _names(lowered), TARGETS[target.name].device, target.architectures):
        at.say(note)
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
    at.trail.note(4, lambda: "\n".join(k.body for k in model.kernels))
    at.trail.keep("source", lambda: show_sources(model))
    return Compilation(traced, graphs, lowered, model, book)


def _names(lowered: LoweredModel) -> Mapping[Region, str]:
    """The first kernel of each canonical region."""
    out: dict[Region, str] = {}
    for k in lowered.kernels:
        if k.of is not None:
            out.setdefault(k.of, k.name)
    return out


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
