"""Options that several commands share, and how their texts are read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

import click
import numpy as np

from lumigen.activations import rounded, said
from lumigen.algebra.numerics import Numerics
from lumigen.calibrate import Calibration, calibrated
from lumigen.cli.opened import read_array
from lumigen.errors import BadArgument
from lumigen.frontend import Model, Traced, load_model_file
from lumigen.importers.hugging_face import (
    Opened,
    checked,
    is_checkpoint,
    open_checkpoint,
    transformers_version,
)
from lumigen.importers.onnx import from_onnx
from lumigen.importers.torch import from_pt2
from lumigen.model_weights import DTYPES
from lumigen.original import Checked, Difference, kept
from lumigen.progress import Stages
from lumigen.quantise import bits_of, each, quantised, worst
from lumigen.search.crew import Crew
from lumigen.target import HOST
from lumigen.weights import Array, Weights, open_weights

DIGITS = 18  # of a size: numbers of 64 bits
MOST_DIGITS = 6  # of a count of workers
MOST_THREADS = 4096
IMPORTED = (".onnx", ".pt2")

F = TypeVar("F", bound=Callable[..., Any])


class Assignment(click.ParamType[tuple[str, str]]):
    """`name=value`."""

    name = "name=value"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value  # pyright: ignore[reportUnknownVariableType]  # click converts defaults twice
        name, equals, text = str(value).partition("=")
        if not name or not equals:
            self.fail(f"{value!r} is not of the form name=value.", param, ctx)
        return name, text


class DimOption(click.ParamType[tuple[str, "int | tuple[int, ...] | str"]]):
    """`batch=1..64`, `height=32..640:32` in steps, `batch=4`, or `batch=rows` where another size is the same."""

    name = "dim=least..greatest"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int | tuple[int, ...] | str]:
        if isinstance(value, tuple):
            return value  # pyright: ignore[reportUnknownVariableType]  # click converts defaults twice
        name, _, text = str(value).rpartition("=")
        low, dots, rest = text.partition("..")
        high, colon, step = rest.partition(":")
        if name and (text[:1].isalpha() or text[:1] == "_"):
            return name, text
        numbers = [low, *([high] if dots else []), *([step] if colon else [])]
        if not name or not all(map(str.isdecimal, numbers)):
            expected = "dim=1..64, dim=32..640:32 for multiples of 32, dim=4, or dim=other where two sizes are one"
            self.fail(f"{value!r} is not of the form {expected}.", param, ctx)
        return name, tuple(map(int, numbers)) if dots else int(low)


class Duration(click.ParamType[float]):
    """`90s`, `2m` or `1h`, in seconds."""

    name = "time"
    units: ClassVar = {"s": 1.0, "m": 60.0, "h": 3600.0}

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        text = str(value)
        if text[-1:] not in self.units or not text[:-1].isdecimal() or len(text) > DIGITS:
            self.fail(f"{value!r} is not of the form 90s, 2m or 1h.", param, ctx)
        return int(text[:-1]) * self.units[text[-1]]


class CrewOption(click.ParamType[Crew]):
    """`2` or `ray://HOST:PORT`."""

    name = "count|ray://host:port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Crew:
        text = str(value)
        if text == "ray" or text.startswith("ray://"):
            return Crew(address=text)
        if not text.isdecimal() or len(text) > MOST_DIGITS or int(text) == 0:
            self.fail(f"{value!r} is neither a count nor ray://HOST:PORT.", param, ctx)
        return Crew(int(text))


class SizesOption(click.ParamType[dict[str, int]]):
    """`batch=8,seq=128`."""

    name = "dim=size,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, int]:
        found: dict[str, int] = {}
        for item in filter(None, str(value).split(",")):
            name, _, text = item.partition("=")
            if not name.strip() or not text.strip().isdecimal():
                self.fail(f"{item!r} is not of the form dim=size.", param, ctx)
            if len(text) > DIGITS:
                value, expected = f"{text[:40]}", f"a size of at most {DIGITS} digits"
                raise BadArgument(
                    op="run", name=f"dim {name.strip()}", value=value, expected=expected
                )
            found[name.strip()] = int(text)
        return found


def _together(
    ctx: click.Context, param: click.Parameter, given: Sequence[dict[str, int]]
) -> dict[str, int] | None:
    """What all uses of an option name."""
    del ctx, param
    return {name: size for each in given for name, size in each.items()} if given else None


def _threads(ctx: click.Context, param: click.Parameter, count: int) -> int:
    del ctx, param
    if count > MOST_THREADS:
        expected = f"at most {MOST_THREADS}; 0 is one for each core"
        raise BadArgument(op="run", name="--threads", value=count, expected=expected)
    return count


def traced_options(function: F) -> F:
    """What `compile` and `show` take to get at a traced model."""
    return _traced(function, required=True)


def traced_options_if_any(function: F) -> F:
    """The same where a command is of use without a model."""
    return _traced(function, required=False)


def _traced(function: F, *, required: bool) -> F:
    for option in (
        click.option(
            "--dtype",
            type=click.Choice([d.name for d in DTYPES]),
            default="f32",
            show_default=True,
            help="The type in memory of the model's f32 values.",
        ),
        click.option(
            "--set",
            "settings",
            multiple=True,
            type=Assignment(),
            metavar="KEY=VALUE",
            help="An option of the model file's build() or of a checkpoint; of an ONNX model the value of an input.",
        ),
        click.option(
            "--dim",
            "dims",
            multiple=True,
            type=DimOption(),
            metavar="NAME=1..64",
            help="A size of an imported model: its least and its greatest, also 32..640:32 for multiples of 32, "
            "one number, or another size that it equals.",
        ),
        click.option(
            "--trust",
            is_flag=True,
            help="Read a .pt2 that could run code, such as pickled weights.",
        ),
        click.option(
            "--weights",
            metavar="PATH",
            help="A file of safetensors, GGUF, PyTorch or npz, or a directory of Hugging Face.",
        ),
        click.option(
            "--target",
            default=HOST.name,
            show_default=True,
            help="The target: cpu, metal, or cuda:sm_80,sm_90a. cuda alone is every architecture there is.",
        ),
        click.argument(
            "model_file", metavar="MODEL.py[:NAME]|MODEL.onnx|MODEL.pt2|DIR", required=required
        ),
    ):
        function = option(function)
    return function


def stored_options(function: F) -> F:
    """What `compile`, `tune` and `show` take to say how weights lie in memory."""
    for option in (
        click.option(
            "--activations-dtype",
            metavar="DTYPE",
            help="i8: round the rows that integer weights multiply to 8 bits, so that the products are of integers.",
        ),
        click.option(
            "--keep",
            multiple=True,
            metavar="NAME",
            help="A weight that is floats, a part of its name or a pattern.",
        ),
        click.option(
            "--weights-dtype",
            metavar="FORMAT",
            help="Store matrices of weights in few bits, as q8, q4, q4a-64 or q5-row; f32: as floats.",
        ),
    ):
        function = option(function)
    return function


def search_options(function: F) -> F:
    """What `compile --tune` and `tune` take to say how to search."""
    for option in (
        click.option(
            "--numerics",
            type=click.Choice([n.value for n in Numerics]),
            help="Which equal programs may be chosen: of the same bits (strict), of other roundings (default, in a "
            "search), or equal as real numbers (fast).",
        ),
        click.option(
            "--workers",
            "crew",
            type=CrewOption(),
            help="In a search: how many processes measure at the same time, on a GPU each, or the cluster of Ray that "
            "does; by default 1.",
        ),
        click.option(
            "--cold",
            is_flag=True,
            help="In a search: measure each kernel with caches that have nothing of what it reads.",
        ),
        click.option(
            "--seed",
            metavar="NUMBER",
            type=int,
            help="In a search: which random data is computed with, 0 to 1048576.",
        ),
    ):
        function = option(function)
    return function


def run_options(function: F) -> F:
    """What `run` and `bench` take to call an entry."""
    for option in (
        click.option("--weights", metavar="PATH", help="Weights; by default those of DIR."),
        click.option(
            "--threads",
            default=0,
            show_default=True,
            type=click.IntRange(0),
            callback=_threads,
            help="Number of threads; 0 is one for each core.",
        ),
        click.option(
            "--dims",
            type=SizesOption(),
            multiple=True,
            callback=_together,
            metavar="batch=8,...",
            help="Sizes of the dims; by default those of the input files, else the model's typical sizes.",
        ),
        click.option(
            "--entry",
            metavar="NAME",
            help="The entry. By default `run` runs the first one and `bench` times all.",
        ),
        click.argument("directory", metavar="DIR", type=click.Path(path_type=Path)),
    ):
        function = option(function)
    return function


def example(text: str) -> str:
    """The last line of a command's help; click wraps no paragraph that begins with a backspace."""
    return f"\b\nExample: lumigen {text}"


quiet_option = click.option("-q", "--quiet", is_flag=True, help="Print no progress on stderr.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print results as JSON.")


Settings = tuple[tuple[str, str], ...]
Dims = tuple[tuple[str, int | tuple[int, ...] | str], ...]


class Loaded(NamedTuple):
    """A traced model, its weights, what the user is told of how it was read, and its own way to be checked."""

    model: Model
    weights: Weights | Mapping[str, Array] | None
    note: str = ""
    check: Callable[[], Checked] | None = None


def load(
    model_file: str,
    settings: Settings,
    weights: str | None,
    dims: Dims = (),
    *,
    trust: bool = False,
) -> Loaded:
    """The traced model of a file or of a directory of Hugging Face, and the opened weights, or its own."""
    if trust and Path(model_file).suffix != ".pt2":
        value = f"given for {model_file}"
        raise BadArgument(op="compile", name="--trust", value=value, expected="it with a .pt2")
    if is_onnx(model_file):
        if weights is not None:
            expected = "an ONNX model alone: it has its weights"
            raise BadArgument(op="onnx", name="--weights", value=weights, expected=expected)
        model = from_onnx(model_file, dict(dims), input_values(settings))
        return Loaded(model, model.values())
    if is_checkpoint(model_file):
        refuse_weights(weights)
        found = open_checkpoint(model_file, dict(settings), dict(dims))
        return Loaded(found.model, found.weights, found.chosen.line, lambda: _checked(found))
    if Path(model_file).suffix == ".pt2":
        refuse_settings(settings)
        model = from_pt2(Path(model_file), dict(dims), trust=trust)
        return Loaded(model, _whole(model, weights) if weights else model.values())
    path, colon, name = model_file.rpartition(":")
    if colon and Path(path).suffix in IMPORTED and not Path(model_file).exists():
        expected = f"{path} alone: it has one model"
        raise BadArgument(op="model", name="the name", value=name, expected=expected)
    if dims:
        expected = "it with an imported model; a model file declares its own with lg.Dim"
        raise BadArgument(op="model", name="--dim", value=dims[0][0], expected=expected)
    if not colon or not name.isidentifier() or Path(model_file).exists():
        path, name = model_file, ""
    opened = open_weights(weights) if weights else None
    model = load_model_file(path, name or None, opened, dict(settings))
    return Loaded(model, model.sources(opened))


class StoredModel(NamedTuple):
    """A model as its weights lie in memory, these, and what the user is told of that in lines."""

    traced: Traced
    weights: Weights | Mapping[str, Array] | None
    lines: tuple[str, ...] = ()


def stored(
    traced: Traced,
    opened: Weights | Mapping[str, Array] | None,
    weights_dtype: str | None,
    keep: Sequence[str],
    activations_dtype: str | None,
    stages: Stages,
    *,
    calibrate: str | None = None,
    with_errors: bool = False,
) -> StoredModel:
    """As `stored_options` say, with scales that a file of inputs calibrates; `with_errors` tells the error of each."""
    if not (weights_dtype or activations_dtype or calibrate) and opened is None:
        return StoredModel(traced, opened)
    of_inputs: Calibration | None = None
    with stages.stage("quantise" if calibrate is None else "calibrate"):
        if calibrate is None:
            found = quantised(traced, opened, weights_dtype, keep)
        else:
            found, of_inputs = calibrated(traced, opened, weights_dtype, keep, calibrate, stages)
        whole = rounded(found.traced, activations_dtype)
    lines = [worst(found.errors, weights_dtype or ""), bits_of(found.packed)]
    lines.append(said(found.packed if opened is not None else {}, whole))
    lines += of_inputs.lines() if of_inputs else []
    if with_errors:
        lines += each(found.errors) + (of_inputs.each() if of_inputs else [])
    return StoredModel(whole.traced, found.weights, tuple(lines))


def _checked(found: Opened) -> Checked:
    """A checkpoint beside the module of transformers, a text in parts; its tests keep what a new context gives."""
    rows = tuple(Difference(**asdict(row)) for row in checked(found))
    return Checked(rows, kept(found.model), transformers_version())


def refuse_settings(settings: Settings) -> None:
    """An exported program has no options."""
    if settings:
        expected = "it with a model file that has a build(), or with an ONNX model"
        raise BadArgument(op="compile", name="--set", value=settings[0][0], expected=expected)


def refuse_weights(weights: str | None) -> None:
    """A directory of Hugging Face takes no other weights than its own."""
    if weights is not None:
        expected = "a directory of Hugging Face alone: it has its weights"
        raise BadArgument(op="compile", name="--weights", value=weights, expected=expected)


def _whole(model: Model, weights: str) -> Weights:
    """The weights that stand in place of a model's own: all of them, or it would be part one and part the other."""
    opened = open_weights(weights)
    lacking = [name for name in model.values() if name not in opened]
    if lacking:
        value = f"{weights}, which lacks {', '.join(lacking[:3])}{' and others' if len(lacking) > 3 else ''}"
        expected = "a file with all weights of the model, or none: it has its own"
        raise BadArgument(op="compile", name="--weights", value=value, expected=expected)
    return opened


def is_onnx(model_file: str) -> bool:
    """Whether a file is one for the ONNX importer."""
    return Path(model_file).suffix == ".onnx"


def input_values(settings: Settings) -> dict[str, Any]:
    """The values that `--set` gives inputs of an ONNX model: numbers as JSON has them, or a .npy file."""
    return {name: _numbers(name, text) for name, text in settings}


def _numbers(name: str, text: str) -> Any:
    if text.endswith(".npy"):
        return read_array("onnx", Path(text))
    try:
        return np.asarray(json.loads(text))
    except (ValueError, TypeError):
        expected = "a number, a list such as [1, 64], or a .npy file"
        raise BadArgument(op="onnx", name=name, value=repr(text), expected=expected) from None
