"""Commands that make something of a model file: `new`, `compile`, `show`."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import click

from lumigen.algebra.egraph import is_here
from lumigen.algebra.numerics import Numerics
from lumigen.algebra.variants import bounded
from lumigen.cli import start
from lumigen.cli.checkpoint import say_of_checkpoint, say_of_program
from lumigen.cli.onnx_model import say_explained
from lumigen.cli.options import (
    Dims,
    Duration,
    Settings,
    example,
    json_option,
    load,
    quiet_option,
    refuse_settings,
    search_options,
    stored,
    stored_options,
    traced_options,
)
from lumigen.cli.terminal import progress, result, result_json, say, table
from lumigen.dtype import BY_NAME, DType, f32
from lumigen.errors import BadArgument, printable
from lumigen.forms import FORMS, text_after
from lumigen.frontend import Model, Traced
from lumigen.importers.hugging_face import is_checkpoint
from lumigen.make_project import compile_project
from lumigen.original import Checked
from lumigen.original import check as compared
from lumigen.page import page_of, write_page
from lumigen.pipeline import lower_model
from lumigen.printer.amount import duration, number, size
from lumigen.progress import Stages
from lumigen.search.crew import Crew
from lumigen.search.equal import LACKING, described, proposed
from lumigen.summary import Summary
from lumigen.target import parse_target
from lumigen.target_row import Target
from lumigen.why import why

MAX_UNUSED = 8
LEAST = 1e-3  # seconds of a stage that is shown


@click.command(epilog=example("new digits && lumigen compile digits/model.py"))
@click.argument("name", metavar="NAME")
@json_option
def new(name: str, as_json: bool) -> None:
    """Make a directory with a model to start from."""
    directory = start.write(Path(name))
    model = start.model_name(directory)
    if model != directory.name:
        say(f"note: the model is called {model}, as names in C++ have letters, digits and _ only")
    if as_json:
        result_json({"directory": str(directory), "model": model, "files": sorted(start.FILES)})
        return
    todo = [f"cd {shlex.quote(str(directory))}", *start.steps(model)]
    result("\n  ".join([f"{directory}: model.py, weights.py, README.md\n", *todo]))


@click.command(
    "compile", epilog=example("compile model.py --weights model.safetensors -o build/digits")
)
@traced_options
@click.option(
    "-o", "--output", metavar="DIR", help="The output directory; by default ./<name>-<target>."
)
@click.option(
    "--build/--no-build", default=True, help="Compile the emitted project, or only emit it."
)
@click.option(
    "--isa",
    metavar="NAME",
    help="Build kernels for one instruction set, native for this processor's best; by default for all.",
)
@click.option("--embed-weights", is_flag=True, help="Put the weights into the library.")
@click.option(
    "--force", is_flag=True, help="Overwrite files that were edited, and projects of other models."
)
@click.option(
    "--tune",
    metavar="TIME",
    type=Duration(),
    help="Search for faster kernels on this machine for so long: 90s, 2m, 1h.",
)
@search_options
@click.option(
    "--schedules",
    metavar="FILE",
    help="Take what a search has found, the schedules.json of its project, without one.",
)
@stored_options
@click.option(
    "--calibrate",
    metavar="FILE",
    help="With --weights-dtype: search scales for inputs such as these, a text, or .npz or .safetensors of an entry's.",
)
@click.option(
    "--errors",
    "with_errors",
    is_flag=True,
    help="With --weights-dtype: say of each matrix how far it is from its floats.",
)
@click.option(
    "--explain",
    is_flag=True,
    help="List what is in an imported model, and all problems; build nothing.",
)
@click.option(
    "--check",
    is_flag=True,
    help="Compare an imported model with its original; the project's tests keep what that gives.",
)
@quiet_option
@json_option
def compile_command(
    model_file: str,
    target: str,
    weights: str | None,
    settings: Settings,
    dims: Dims,
    trust: bool,
    dtype: str,
    output: str | None,
    build: bool,
    isa: str | None,
    embed_weights: bool,
    force: bool,
    tune: float | None,
    seed: int | None,
    cold: bool,
    crew: Crew | None,
    numerics: str | None,
    schedules: str | None,
    weights_dtype: str | None,
    calibrate: str | None,
    with_errors: bool,
    keep: tuple[str, ...],
    activations_dtype: str | None,
    explain: bool,
    check: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Emit a model as a C++ project and build it."""
    _check_options(dtype, weights, explain=explain, check=check)
    _check_quantised(weights_dtype, activations_dtype, check=check)
    if explain:
        _explain(model_file, settings, dims, trust=trust, as_json=as_json)
        return
    parse_target(target)
    if output == "":
        raise BadArgument(op="compile", name="-o", value="empty", expected="a directory")
    with progress(quiet=quiet) as listener:
        stages = Stages(listener)
        with stages.stage("trace"):
            model, opened, way, check_of = load(model_file, settings, weights, dims, trust=trust)
        checked = _checked(model, check_of, stages, as_json=as_json) if check else None
        given = (weights_dtype, keep, activations_dtype)
        found = stored(
            model.trace(), opened, *given, stages, calibrate=calibrate, with_errors=with_errors
        )
        summary = compile_project(
            found.traced,
            directory=Path(output) if output else None,
            target=target,
            options={f"set.{key}": value for key, value in (*settings, *_texts(dims))},
            weights=found.weights,
            dtype=BY_NAME[dtype],
            build=build,
            embed=embed_weights,
            force=force,
            originals=checked.vectors if checked else None,
            stages=stages,
            tune=tune,
            schedules=schedules,
            seed=seed,
            cold=cold,
            crew=crew,
            numerics=numerics,
            isa=isa,
            source=model.source,
        )
    for note in filter(None, (way, *found.lines, *stages.said)):
        say(f"note: {note}")
    _say_notes(summary, weights or model_file)
    if as_json:
        rows = [asdict(row) for row in checked.rows] if checked else []
        differences = {"checked": rows, "checked_with": checked.by} if checked else {}
        result_json(as_object(summary) | differences)
    else:
        result(as_text(summary))


def _checked(
    model: Model, check_of: Callable[[], Checked] | None, stages: Stages, *, as_json: bool
) -> Checked:
    """The differences from the original, which people see before the project is emitted."""
    with stages.stage("check"):
        checked = check_of() if check_of else compared(model)
    if not as_json:
        result(f"{as_rows(checked)}\n")
    return checked


def _say_notes(summary: Summary, weights: str) -> None:
    """What the user should know of the weights and of the project."""
    if summary.note:
        say(f"note: {summary.note}")
    if summary.kept and summary.weights:
        say(f"note: {summary.kept}")
    if summary.unused:
        more = len(summary.unused) - MAX_UNUSED
        names = ", ".join(map(printable, summary.unused[:MAX_UNUSED]))
        names += f" and {more} more" if more > 0 else ""
        say(f"note: tensors of {weights} that the model does not read: {names}")


def _explain(
    model_file: str, settings: Settings, dims: Dims, *, trust: bool, as_json: bool
) -> None:
    """Say what is in a model that is imported, and all that cannot be compiled."""
    if is_checkpoint(model_file):
        say_of_checkpoint(model_file, settings, dims, as_json=as_json)
    elif Path(model_file).suffix == ".pt2":
        refuse_settings(settings)
        say_of_program(model_file, dims, trust=trust, as_json=as_json)
    else:
        say_explained(model_file, settings, dims, as_json=as_json)


def _check_quantised(
    weights_dtype: str | None, activations_dtype: str | None, *, check: bool
) -> None:
    each = (("--weights-dtype", weights_dtype), ("--activations-dtype", activations_dtype))
    for name, given in each:
        if check and given:
            expected = "no --check, which compares with the floats of the original"
            raise BadArgument(op="compile", name=name, value=given, expected=expected)


def _check_options(dtype: str, weights: str | None, *, explain: bool, check: bool) -> None:
    """Refuse what --explain and --check are not for."""
    if explain and check:
        value, expected = "given with --explain", "one of the two: --explain builds nothing"
        raise BadArgument(op="compile", name="--check", value=value, expected=expected)
    if (explain or check) and dtype != f32.name:
        expected = "f32, in which a model is checked and explained"
        raise BadArgument(op="compile", name="--dtype", value=dtype, expected=expected)
    if check and weights is not None:
        expected = "left out with --check: the original has its own weights"
        raise BadArgument(op="compile", name="--weights", value=weights, expected=expected)


def as_rows(checked: Checked) -> str:
    """What ran the original, and the greatest difference of each output from its, as a table."""
    rows = [
        ("sizes", "output", "greatest difference", "greatest number"),
        *((r.sizes, r.output, f"{r.difference:.3g}", f"{r.greatest:.3g}") for r in checked.rows),
    ]
    return f"compared with {checked.by}\n\n{table(rows, frozenset({2, 3}))}"


def _texts(dims: Dims) -> list[tuple[str, str]]:
    return [(f"dim.{name}", str(size)) for name, size in dims]


def as_object(s: Summary) -> dict[str, object]:
    """The summary for programs."""
    return {
        "model": s.model,
        "version": s.version,
        "target": s.target,
        "directory": str(s.directory),
        "kernels": s.kernels,
        "weights": s.weights,
        "weight_bytes": s.weight_bytes,
        "note": s.note,
        "weights_note": s.kept if s.weights else "",
        "unused_tensors": list(s.unused),
        "entries": [
            {
                "name": e.name,
                "signature": e.signature,
                "dims": dict(e.dims),
                "launches": e.launches,
                "flops": e.flops,
                "bytes": e.bytes,
                "arena_bytes": e.arena,
            }
            for e in s.entries
        ],
        "files": {
            "all": s.files,
            "written": len(s.written.written),
            "unchanged": len(s.written.unchanged),
            "removed": len(s.written.removed),
        },
        "library": str(s.built.library) if s.built else None,
        "module": str(s.built.module) if s.built and s.built.module else None,
        "programs": [str(p) for p in s.built.programs] if s.built else [],
        "seconds": {name: round(t, 4) for name, t in s.seconds.items()},
    }


def as_text(s: Summary) -> str:
    """The summary for people: a table of entries, totals, and lines to paste."""
    rows = [("entry", "launches", "flops", "bytes", "arena", "at")]
    for e in s.entries:
        at = ", ".join(f"{d}={v}" for d, v in e.dims.items())
        rows.append((e.name, str(e.launches), number(e.flops), size(e.bytes), size(e.arena), at))
    wrote = f"{len(s.written.written)} written"
    if s.written.removed:
        wrote += f", {len(s.written.removed)} removed"
    long = {name: t for name, t in s.seconds.items() if t >= LEAST}  # others had nothing to do
    times = ", ".join(f"{name} {duration(t)}" for name, t in long.items())
    built = "" if s.built is None else ", built before" if s.built.was_current else ", built"
    lines = [
        f"{s.model} {s.version} for {s.target} in {s.directory}{built}",
        "",
        table(rows, frozenset({1, 2, 3, 4})),
        "",
        f"kernels  {s.kernels}",
        f"weights  {s.weights}, {size(s.weight_bytes)} as kernels read them",
        f"files    {s.files}, {wrote}",
        f"time     {times}",
        "",
        *(f"{what:<7}{line}" for what, line in to_paste(s)),
    ]
    return "\n".join(lines)


def to_paste(s: Summary) -> tuple[tuple[str, str], ...]:
    """What to do next, as lines for a shell or a CMakeLists.txt."""
    if s.note:
        return ()
    where = shlex.quote(str(s.directory))
    needed = "" if s.has_weights or not s.weights else " --weights FILE"
    call = "Model()" if not needed else "Model(weights='FILE')"
    code = f"import {s.model}; m = {s.model}.{call}; print(m.entries)"
    link = f"target_link_libraries(app PRIVATE {s.model}::{s.model})"
    cmake = ("CMake", f'add_subdirectory("{s.directory.resolve()}" {s.model})  {link}')
    if s.built is None:  # CMake builds it itself; Python and bench need what `compile` builds
        return (cmake,)
    programs = [shlex.quote(str(s.directory / "bin" / p.name)) for p in s.built.programs]
    return (
        *(("text", f'{p} generate --prompt "Once upon a time"{needed}') for p in programs),
        # -P, since a model's file in the current directory may have the module's name
        ("Python", f'PYTHONPATH={where}/python python -P -c "{code}"'),
        ("bench", f"lumigen bench {where}{needed}"),
        cmake,
    )


@click.command(epilog=example("show model.py --kernel k00_panel"))
@traced_options
@stored_options
@click.option(
    "--after",
    type=click.Choice(FORMS),
    help="The stage to print; by default program, or with --kernel the kernel's source.",
)
@click.option(
    "--kernel",
    metavar="NAME",
    help="Print only this kernel, at the stage regions, plan, tile or source.",
)
@click.option(
    "--algebra",
    is_flag=True,
    help="Print which rules make equal programs of less work, among which --tune chooses.",
)
@click.option(
    "--html", metavar="FILE", help="Write a page with every form of every kernel; opens anywhere."
)
@click.option(
    "--why",
    "why_kernel",
    metavar="KERNEL",
    help="Say why a kernel is what it is: what it was not fused with, what else it could be.",
)
@quiet_option
@json_option
def show(
    model_file: str,
    target: str,
    weights: str | None,
    settings: Settings,
    dims: Dims,
    trust: bool,
    dtype: str,
    weights_dtype: str | None,
    keep: tuple[str, ...],
    activations_dtype: str | None,
    after: str | None,
    kernel: str | None,
    algebra: bool,
    html: str | None,
    why_kernel: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Print a stage of the compilation as text, or write all of them as a page."""
    row = parse_target(target)
    if why_kernel is not None and (after or kernel or html or algebra):
        value = "together with --after, --kernel, --html or --algebra"
        raise BadArgument(op="show", name="--why", value=value, expected="it alone")
    if html is not None and (after or kernel):
        value = "together with --after or --kernel"
        expected = "it alone: the page has every stage of every kernel"
        raise BadArgument(op="show", name="--html", value=value, expected=expected)
    form = after or ("program" if kernel is None else "source")
    with progress(quiet=quiet) as listener:
        stages = Stages(listener)
        with stages.stage("trace"):
            model, opened, way, _ = load(model_file, settings, weights, dims, trust=trust)
        given = (weights_dtype, keep, activations_dtype)
        traced = stored(model.trace(), opened, *given, stages).traced
        if html is not None:
            options = {"target": row.text}
            compilation = lower_model(traced, options, stages, row, dtype=BY_NAME[dtype])
            write_page(page_of(compilation, BY_NAME[dtype]), Path(html), "show")
            said = {"model": model.name, "html": html, "kernels": len(compilation.model.kernels)}
            result_json(said) if as_json else result(f"{html}: {said['kernels']} kernels")
            return
        if why_kernel is not None:
            form, kernel = "why", why_kernel
            text = why(traced, why_kernel, row, BY_NAME[dtype], stages)
        elif algebra:
            form, text = "algebra", _rules_of(traced, row, BY_NAME[dtype])
        else:
            text = text_after(traced, form, kernel, target, BY_NAME[dtype], stages)
    if way:
        say(f"note: {way}")
    if as_json:
        result_json({"model": model.name, "after": form, "kernel": kernel, "text": text})
    else:
        result(text.rstrip("\n"))


def _rules_of(traced: Traced, target: Target, dtype: DType) -> str:
    """The programs that the algebra finds, or why there are none."""
    return (
        described(proposed(traced, target, dtype, bounded(Numerics.FAST))) if is_here() else LACKING
    )
