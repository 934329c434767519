"""A compiled model as the files of a standalone C++ project.

Promises that equal models give equal bytes, and that no path, time or machine name gets into a
file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from math import prod
from pathlib import Path, PurePosixPath

from lumigen.dtype import i32
from lumigen.emit import manifest
from lumigen.emit.contexts import (
    FieldContext,
    KernelFileContext,
    ModelContext,
    StateContext,
    WeightContext,
)
from lumigen.emit.contract import is_identifier, test_type
from lumigen.emit.cxx import integer, string
from lumigen.emit.entry import cases, entry_context, written_parameters
from lumigen.emit.environment import render_project_file
from lumigen.emit.example import example_context
from lumigen.emit.launches import one_line, source_lines
from lumigen.emit.loops import state_names, state_offsets
from lumigen.emit.opening import opening_context
from lumigen.emit.text_program import FOLDER, text_context, text_files, tokenizer_file
from lumigen.emit.vectors import Vector
from lumigen.errors import BadArgument, LoweringFailed
from lumigen.names import entry_symbols, model_symbols
from lumigen.program import CompiledModel, KernelParameter, KernelSource, StateInfo, Stored
from lumigen.resources import runtime_dir, templates_dir
from lumigen.target_row import Target

ABI = 1

INCLUDED = re.compile(r'^\s*#\s*include "([^"]+)"', re.MULTILINE)

SAFETENSORS_DTYPES = {
    "f32": "F32", "f64": "F64", "f16": "F16", "bf16": "BF16", "i8": "I8",
    "u8": "U8", "i32": "I32", "i64": "I64", "bool": "BOOL",
}  # fmt: skip

# Of every target; template: where its text goes; {m} is the model's name
MODEL_FILES = {
    "CMakeLists.txt.j2": "CMakeLists.txt",
    "CMakePresets.json.j2": "CMakePresets.json",
    "README.md.j2": "README.md",
    "cmake/config.cmake.in.j2": "cmake/{m}Config.cmake.in",
    "include/model.h.j2": "include/{m}.h",
    "include/model.hpp.j2": "include/{m}.hpp",
    "src/tables.h.j2": "src/tables.h",
    "src/model.cpp.j2": "src/model.cpp",
    "kernels/kernels.h.j2": "kernels/kernels.h",
    "tests/kernels_test.cpp.j2": "tests/kernels_test.cpp",
    "tests/entries_test.cpp.j2": "tests/entries_test.cpp",
    "bindings/python.cpp.j2": "bindings/python.cpp",
    "bindings/model.pyi.j2": "bindings/{m}.pyi",
}

EXAMPLE_FILES = {
    "examples/main.c.j2": "examples/c/main.c",
    "examples/main.cpp.j2": "examples/cpp/main.cpp",
}


def render_project(
    model: CompiledModel,
    *,
    vectors: Mapping[str, tuple[Vector, ...]] | None = None,
    kernel_vectors: Mapping[str, tuple[Vector, ...]] | None = None,
    originals: Mapping[str, tuple[Vector, ...]] | None = None,
    weights_hash: str | None = None,
    embed_weights: bool = False,
) -> dict[str, str]:
    """Path below the project's directory -> text, manifest.json included.

    `vectors` of the entries and `kernel_vectors` are for its tests; `originals` too, which are of the model's
    own weights, by the program that it was imported from. `weights_hash` is of the weights file beside it. With
    `embed_weights` the build puts `weights/<model>.safetensors` into the library.
    """
    _check_names(model)
    target = model.target
    context = model_context(
        model, vectors or {}, kernel_vectors or {}, originals or {}, embed_weights=embed_weights
    )
    described = manifest.describe(model, ABI)

    def render(template: str, **more: object) -> str:
        return render_project_file(target, template, m=context, **more)

    files = {
        place.format(m=model.name): render(template)
        for template, place in (*MODEL_FILES.items(), *target.templates)
    }
    example = example_context(model, context)
    for template, place in EXAMPLE_FILES.items():
        files[place] = render(template, example=example)
    for kernel in context.kernels:
        files[kernel.file] = render("kernels/kernel.cpp.j2", kernel=kernel)
        files[f"kernels/{kernel.name}.h"] = render("kernels/kernel.h.j2", kernel=kernel)
        files[f"tests/references/{kernel.name}.cpp"] = render(
            "tests/reference.cpp.j2", kernel=kernel
        )
    for entry in context.entries:
        files[f"src/{entry.name}.cpp"] = render("src/entry.cpp.j2", entry=entry)
        files[f"tests/vectors/{entry.name}.h"] = render(
            "tests/vectors.h.j2", of=entry, name=entry.name
        )
        if entry.originals:
            files[f"tests/vectors/original/{entry.name}.h"] = render(
                "tests/original_vectors.h.j2",
                of=replace(entry, vectors=entry.originals),
                name=f"{entry.name}_original",
            )
    if context.opening is not None:
        files["src/model_open.cpp"] = render("src/model_open.cpp.j2", entry=context.opening)
    for case in context.first_cases:
        place = f"tests/vectors/kernels/{case.kernel}.h"
        files[place] = render("tests/kernel_vectors.h.j2", of=case, name=case.kernel)
    if embed_weights:
        files["src/embedded.cpp"] = render("src/embedded.cpp.j2")
    if model.text is not None:
        files["apps/main.cpp"] = render("apps/main.cpp.j2")
        files[f"weights/{model.name}.tokenizer"] = tokenizer_file(model.text)
        files |= {f"{FOLDER}/{name}": text for name, text in text_files().items()}
    lines = tuple(string(f"{line}\n") for line in manifest.text_of(described).splitlines())
    files["src/manifest.cpp"] = render("src/manifest.cpp.j2", manifest_lines=lines)
    files = without_unused_headers(files | plain_files(model))
    files[manifest.NAME] = manifest.with_files(described, weights_hash, files)
    return dict(sorted(files.items()))


def plain_files(model: CompiledModel) -> dict[str, str]:
    """What is copied as it is: the runtime, the device headers, what tests and bindings share."""
    target = model.target
    shared = templates_dir() / "project"
    own = [path for folder in reversed(target.template_folders) for path in headers(folder)]
    sources = {f"runtime/{path.name}": path for path in (*runtime_files(model), *own)}
    for path in ("LICENSE", "runtime/reference.h", "tests/testing.h", "bindings/arrays.h"):
        sources[path] = shared / path
    sources |= {path: target.find(f"project/{path}") for path in target.files}
    for folder, place in target.folders:
        every = (p for p in sorted(folder.rglob("*")) if p.is_file())
        sources |= {f"{place}/{p.relative_to(folder).as_posix()}": p for p in every}
    return {path: source.read_text(encoding="utf-8") for path, source in sources.items()}


def without_unused_headers(files: Mapping[str, str]) -> dict[str, str]:
    """The project without headers of the runtime that nothing else in it includes."""
    headers = {PurePosixPath(f).name: f for f in files if re.fullmatch(r"runtime/\w+\.c?u?h", f)}
    stack = [f for f in files if f not in headers.values()]
    used = set(stack)
    while stack:
        for name in INCLUDED.findall(files[stack.pop()]):
            header = headers.get(PurePosixPath(name).name)
            if header is not None and header not in used:
                used.add(header)
                stack.append(header)
    return {f: text for f, text in files.items() if f in used}


def runtime_files(model: CompiledModel) -> list[Path]:
    """What all targets have of the runtime, and what the model's has; what acts on states only with states."""
    folders = (runtime_dir(), model.target.runtime_folder)
    every = (p for folder in folders for p in (*headers(folder), *sorted(folder.glob("*.cpp"))))
    return [path for path in every if model.states or path.name != "states.cpp"]


def headers(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix in {".h", ".cuh"})


def model_context(
    model: CompiledModel,
    vectors: Mapping[str, tuple[Vector, ...]],
    kernel_vectors: Mapping[str, tuple[Vector, ...]],
    originals: Mapping[str, tuple[Vector, ...]],
    *,
    embed_weights: bool = False,
) -> ModelContext:
    """The model as the templates see it."""
    runtime = sorted(p.name for p in runtime_files(model) if p.suffix == ".cpp")
    weights = tuple(_weight(s, model) for s in model.weights)
    read = (w for w, s in zip(weights, model.weights, strict=True) if not s.weight.made)
    offsets, counters_at = state_offsets(model)
    return ModelContext(
        name=model.name,
        macro=model.name.upper(),
        namespace=f"{model.name}_impl",
        version=model.version,
        cmake_version=_numeric_version(model.version),
        abi=ABI,
        entries=tuple(
            entry_context(model, p, vectors.get(p.entry, ()), originals.get(p.entry, ()))
            for p in model.programs
        ),
        kernels=tuple(_kernel(k, model.target) for k in model.kernels),
        cases=cases(model, kernel_vectors),
        weights=weights,
        file_weights=tuple({w.name_literal: w for w in read}.values()),
        opening=opening_context(model),
        states=tuple(
            _state(s, model, offset) for s, offset in zip(model.states, offsets, strict=True)
        ),
        counters_at=counters_at if model.counters else None,
        state_bytes=counters_at + model.counters * i32.itemsize,
        scratch_bytes=max((k.scratch_bytes for k in model.kernels), default=0),
        embed_weights=embed_weights,
        runtime_sources=tuple(f"runtime/{name}" for name in runtime),
        target=model.target,
        isas=instruction_sets(model),
        text=text_context(model, model.text, embeds=embed_weights) if model.text else None,
    )


def instruction_sets(model: CompiledModel) -> tuple[str, ...]:
    """What kernels are compiled for, the least first; those of some dtypes only where a kernel multiplies these."""
    target = model.target
    wanted = {name for k in model.kernels for name in target.isas_of.get(k.computes.name, ())}
    special = {name for names in target.isas_of.values() for name in names}
    return tuple(name for name in target.isas if name in wanted or name not in special)


def packed_name(stored: Stored, weights: tuple[Stored, ...]) -> str:
    """The tensor of a packed file for this form: the weight's own name if it has one form only."""
    forms = sum(s.weight.name == stored.weight.name for s in weights)
    return (
        stored.weight.name
        if forms == 1 or stored.layout is None
        else f"{stored.weight.name}#{stored.name}"
    )


def _kernel(kernel: KernelSource, target: Target) -> KernelFileContext:
    return KernelFileContext(
        name=kernel.name,
        file=f"kernels/{kernel.name}.{target.kernel_suffix}",
        title=one_line(kernel.title),
        lines=source_lines(kernel.lines),
        parameters=tuple(
            FieldContext(p.name, _ctype(p, target), _shape(p)) for p in kernel.parameters
        ),
        body=kernel.body.strip("\n"),
        reference=kernel.reference.strip("\n"),
        written=written_parameters(kernel),
    )


def _ctype(p: KernelParameter, target: Target) -> str:
    return f"{target.memory_word} {p.ctype}" if p.is_pointer and target.memory_word else p.ctype


def _shape(p: KernelParameter) -> str:
    """What a field points to, such as `f32[1000, 96]`; empty where that is not said."""
    return "" if p.shape is None else one_line(f"{p.dtype}[{', '.join(map(str, p.shape))}]")


def _weight(stored: Stored, model: CompiledModel) -> WeightContext:
    weight, p = stored.weight, stored.layout
    if p is not None and not 0 <= p.reach[0] <= p.reach[1] < prod(weight.shape):
        what = f"a layout of {weight.name} that reaches outside it: {p}"
        raise LoweringFailed(step="emit", what=what)
    text = manifest.weight_text(stored)
    dtype = SAFETENSORS_DTYPES[weight.dtype.name]
    panels = "nullptr" if p is None else f"&{stored.name}_panels"
    row = (
        string(weight.name),
        string(text),
        string(dtype),
        str(weight.dtype.itemsize),
        str(len(weight.shape)),
        f"{stored.name}_shape" if weight.shape else "nullptr",
        panels,
        string(packed_name(stored, model.weights)),
        string(manifest.packing(stored)),
        integer(stored.bytes),
        *(["true"] if weight.made else []),
    )
    return WeightContext(
        name=stored.name,
        index=f"k_{stored.name}",
        comment=one_line(f"{weight.name}: {manifest.packing(stored) or text}"),
        shape=", ".join(map(integer, weight.shape)),
        panels=""
        if p is None
        else ", ".join(
            (
                *map(integer, (p.n, p.k, p.n_stride, p.k_stride, p.width, p.base)),
                str(p.side),
                *(map(integer, (p.inner, p.outer_stride)) if p.inner else ()),
            )
        ),
        row=", ".join(row),
        name_literal=string(weight.name),
        type=test_type(weight.dtype),
        dtype=dtype,
        extents=weight.shape,
    )


def _state(state: StateInfo, model: CompiledModel, offset: int) -> StateContext:
    name = state_names(model)[state.name]
    text = f"{state.dtype}[{', '.join(map(str, state.shape))}]"
    row = (
        string(state.name),
        string(text),
        string(SAFETENSORS_DTYPES[state.dtype.name]),
        str(len(state.shape)),
        f"{name}_shape" if state.shape else "nullptr",
        integer(state.bytes),
    )
    return StateContext(
        name=name,
        constant=f"k_{name}",
        offset=offset,
        comment=one_line(f"{state.name}: {text}"),
        shape=", ".join(map(integer, state.shape)),
        row=", ".join(row),
    )


def _numeric_version(version: str) -> str:
    """What CMake takes for a version: up to four numbers."""
    match = re.match(r"\d+(\.\d+){0,3}", version)
    return match.group() if match else "0"


def _check_names(model: CompiledModel) -> None:
    """Names become C identifiers, and none may meet one of ours."""
    if not is_identifier(model.name):
        raise BadArgument(
            op="Model", name="name", value=repr(model.name), expected="a C identifier"
        )
    if re.fullmatch(r"[0-9A-Za-z.+_-]+", model.version) is None:
        expected = "letters, digits and . + - _, such as '1.0.0'"
        raise BadArgument(op="Model", name="version", value=repr(model.version), expected=expected)
    taken: dict[str, str] = dict.fromkeys(model_symbols(model.name), "the model itself")
    for program in model.programs:
        if not is_identifier(program.entry):
            raise BadArgument(
                op="Model", name="entry", value=repr(program.entry), expected="a C identifier"
            )
        for symbol in entry_symbols(model.name, program.entry):
            if symbol in taken:
                expected = (
                    f"another name: the C function or type {symbol} belongs to {taken[symbol]}"
                )
                raise BadArgument(
                    op="Model", name="entry", value=repr(program.entry), expected=expected
                )
            taken[symbol] = f"entry {program.entry}"
        for name in (
            *(p.name for p in (*program.inputs, *program.outputs)),
            *(d.name for d in program.dims),
        ):
            if not (name.isidentifier() and name.isascii()):
                raise BadArgument(
                    op=program.entry, name="name", value=repr(name), expected="a C identifier"
                )
