"""From a compilation to the page: what is chosen and how it is put for people."""

from __future__ import annotations

import linecache
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath

from lumigen.dtype import DType, f32
from lumigen.emit.contract import signature
from lumigen.emit.entry import source_lines
from lumigen.emit.environment import render
from lumigen.errors import FileRefused, SourceLocation, printable, printable_lines
from lumigen.index import Dim
from lumigen.lower.assemble import LoweredKernel
from lumigen.page.contexts import (
    EntryPage,
    FileContext,
    FormContext,
    KernelPage,
    LineContext,
    PageContext,
)
from lumigen.page.flow import flow
from lumigen.passes import show_entries
from lumigen.pipeline import Compilation
from lumigen.printer.amount import number, size
from lumigen.program import CompiledModel, KernelSource, Program
from lumigen.resources import lumigen_version, templates_dir
from lumigen.texts import show_kernels, show_programs

AROUND = 2  # lines before and after one that a kernel comes from


def page_of(compilation: Compilation, dtype: DType = f32) -> str:
    """The page as HTML."""
    model = compilation.model
    dims = {d: d.estimate for p in model.programs for d in p.dims}
    launches = Counter(
        (p.entry, launch.kernel) for p in model.programs for launch in p.chosen(dims)
    )
    total = sum(n * sum(model.kernel(name).cost.at(dims)[1:]) for (_, name), n in launches.items())
    kernels = tuple(
        _kernel(lowered, source, model, dims, launches, total)
        for lowered, source in zip(compilation.lowered.kernels, model.kernels, strict=True)
    )
    kept = f"f32 held in {dtype.name}" if dtype is not f32 else ""
    weights = f"{len(model.weights)} weights, {size(sum(s.bytes for s in model.weights))}"
    facts = (
        f"version {model.version}" if model.version else "",
        f"for {model.target.text}",
        kept,
        f"{len(model.kernels)} kernels",
        weights if model.weights else "",
        f"{len(model.states)} states, {size(sum(s.bytes for s in model.states))}"
        * bool(model.states),
        f"lumigen {lumigen_version()}",
    )
    return render(
        templates_dir(),
        "show.html.j2",
        page=PageContext(
            name=model.name,
            facts=tuple(filter(None, facts)),
            entries=tuple(_entry(p, model, dims) for p in model.programs),
            kernels=kernels,
            forms=_forms(compilation),
        ),
    )


def write_page(text: str, file: Path, command: str) -> None:
    """Write the page; FileRefused where that cannot be."""
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as e:
        why = f"the page cannot be written there ({e.strerror})"
        remedy = "Name a file in a directory that exists."
        raise FileRefused(command=command, file=file, why=why, remedy=remedy) from None


def _entry(program: Program, model: CompiledModel, dims: Mapping[Dim, int]) -> EntryPage:
    """The sums over the launches that run, and their drawing."""
    launches = program.chosen(dims)
    costs = [model.kernel(launch.kernel).cost.at(dims) for launch in launches]
    drawn = flow(program, model, dims)
    return EntryPage(
        name=program.entry,
        signature=signature(program),
        at=", ".join(f"{d.name} = {dims[d]}" for d in program.dims) or "all sizes fixed",
        launches=str(len(launches)),
        flops=number(sum(flops for flops, _, _ in costs)),
        bytes=size(sum(read + written for _, read, written in costs)),
        arena=size(program.offsets(dims)[1]),
        width=drawn.width,
        height=drawn.height,
        boxes=drawn.boxes,
        wires=drawn.wires,
    )


def _kernel(
    lowered: LoweredKernel,
    source: KernelSource,
    model: CompiledModel,
    dims: Mapping[Dim, int],
    launches: Mapping[tuple[str, str], int],
    total: int,
) -> KernelPage:
    flops, read, written = source.cost.at(dims)
    mine = {entry: n for (entry, name), n in launches.items() if name == source.name}
    runs = ", ".join(f"{n} in {entry}" for entry, n in mine.items())
    share = 100 * sum(mine.values()) * (read + written) / (total or 1)
    return KernelPage(
        name=source.name,
        title=source.title,
        how=model.target.skeletons.get(lowered.program.skeleton, lowered.program.skeleton),
        lines=source_lines(source.lines),
        launches=runs or _guards(model, source.name),
        flops=number(flops),
        read=size(read),
        written=size(written),
        intensity=f"{flops / max(1, read + written):.2g}",
        computes=source.computes.name,
        share=f"{share:.1f}",
        files=tuple(_files(source.lines)),
        forms=forms_of(lowered, source, model),
    )


def forms_of(
    lowered: LoweredKernel, source: KernelSource, model: CompiledModel
) -> tuple[FormContext, ...]:
    """A kernel as region, plan, tile program and source."""
    forms = [
        FormContext(title, _body(show_kernels(form, [lowered])))
        for form, title in (("regions", "Region"), ("plan", "Plan"), ("tile", "Tile program"))
    ]
    suffix = "CUDA" if model.target.has_device else "C++"
    return (*forms, FormContext(f"{suffix} source", source.body.strip("\n"), is_code=True))


def _body(text: str) -> str:
    """A form of one kernel without the line that names it."""
    return text.partition("\n")[2].rstrip("\n")


def _guards(model: CompiledModel, kernel: str) -> str:
    """When a kernel runs that is not of the variants drawn."""
    found = {
        str(v.when): None
        for p in model.programs
        for g in p.groups
        for v in g.variants
        if any(launch.kernel == kernel for launch in v.launches)
    }
    return f"only if {' or '.join(found)}" if found else "no entry launches it"


def _files(lines: Iterable[SourceLocation]) -> Iterable[FileContext]:
    """The user's lines as they stand in their files; of a file that is gone, the numbers."""
    by_file: dict[str, set[int]] = {}
    for line in lines:
        by_file.setdefault(line.file, set()).add(line.line)
    for file, own in sorted(by_file.items()):
        texts = linecache.getlines(file)
        near = {n + d for n in own for d in range(-AROUND, AROUND + 1)}
        shown: list[LineContext] = []
        before = 0
        for n in sorted(near if texts else own):
            if not (1 <= n <= len(texts) or n in own):
                continue
            if before and n > before + 1:
                shown.append(LineContext("", "\N{MIDLINE HORIZONTAL ELLIPSIS}", own=False))
            text = texts[n - 1].rstrip() if n <= len(texts) else ""
            shown.append(LineContext(str(n), printable_lines(text), n in own))
            before = n
        yield FileContext(printable(PurePath(file).name), tuple(shown))


def _forms(compilation: Compilation) -> tuple[FormContext, ...]:
    """Graphs after the passes that changed something, then the program."""
    forms: list[FormContext] = []
    before = ""
    graphs = (g for entries in compilation.graphs.values() for _, g in entries)
    lines = {line for g in graphs for found in g.lines.values() for line in found}
    for name, entries in compilation.graphs.items():
        text = _without_folders(show_entries(entries), lines)
        if text != before:
            forms.append(
                FormContext("Graph" if name == "graph" else f"After {name}", text.rstrip("\n"))
            )
        before = text
    program = _without_folders(show_programs(compilation.lowered), lines)
    return (*forms, FormContext("Program", program.rstrip("\n")))


def _without_folders(text: str, lines: Iterable[SourceLocation]) -> str:
    """A form with the files of lines by their names alone: a page is sent to others, and no path is theirs."""
    printed = {printable(str(line)).rpartition(":")[0] for line in lines}
    for file in sorted(printed, key=len, reverse=True):
        text = text.replace(f"{file}:", f"{PurePath(file).name}:")
    return text
