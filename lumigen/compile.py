"""`lg.compile` and `lg.load`: a model to the Python module of its project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from lumigen.activations import rounded
from lumigen.build import load_module
from lumigen.calibrate import calibrated
from lumigen.directory import locked
from lumigen.dtype import DType, f32
from lumigen.emit.vectors import Vector
from lumigen.errors import BadArgument, CompilerMissing, user_location
from lumigen.frontend import Model, Traced
from lumigen.make_project import compile_project, default_place
from lumigen.original import check as check_model
from lumigen.quantise import quantised
from lumigen.target import HOST, parse_target
from lumigen.weights import Weights, open_weights


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
    calibrate: str | Path | Mapping[str, Any] | None = None,
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
    of them between dots, or patterns. `calibrate` are inputs with which their scales are searched: a file of text for a
    model with a tokenizer, or arrays by the names of an entry's inputs, perhaps in a file of .npz or .safetensors; with
    a dimension more in front each of them is of several calls.
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
    if calibrate is None:
        found = quantised(traced, opened, weights_dtype, keep)
    else:
        found, _ = calibrated(traced, opened, weights_dtype, keep, calibrate)
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
