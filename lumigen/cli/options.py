"""Options that several commands share, and how their texts are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from lumigen.errors import BadArgument
from lumigen.frontend import Model, load_model_file
from lumigen.importers.torch import from_pt2
from lumigen.model_weights import DTYPES
from lumigen.target import HOST
from lumigen.weights import Array, Weights, open_weights

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


class DimOption(click.ParamType[tuple[str, int | tuple[int, int]]]):
    """`batch=1..64` or `batch=4`."""

    name = "dim=least..greatest"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int | tuple[int, int]]:
        if isinstance(value, tuple):
            return value  # pyright: ignore[reportUnknownVariableType]  # click converts defaults twice
        name, _, text = str(value).rpartition("=")
        low, dots, high = text.partition("..")
        if not name or not low.isdecimal() or bool(dots) != high.isdecimal():
            self.fail(f"{value!r} is not of the form dim=1..64 or dim=4.", param, ctx)
        return name, (int(low), int(high)) if dots else int(low)


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
            found[name.strip()] = int(text)
        return found


def _together(
    ctx: click.Context, param: click.Parameter, given: Sequence[dict[str, int]]
) -> dict[str, int] | None:
    """What all uses of an option name."""
    del ctx, param
    return {name: size for each in given for name, size in each.items()} if given else None


def traced_options(function: F) -> F:
    """What `compile` and `show` take to get at a traced model."""
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
            help="An option of the model file's build().",
        ),
        click.option(
            "--dim",
            "dims",
            multiple=True,
            type=DimOption(),
            metavar="NAME=1..64",
            help="A symbolic size of a .pt2: its least and its greatest, or one number.",
        ),
        click.option(
            "--trust", is_flag=True, help="Read a .pt2, which can run any code that is in it."
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
            help="The target: cpu, or cuda:sm_80,sm_90a. cuda alone is every architecture that lumigen supports.",
        ),
        click.argument("model_file", metavar="MODEL.py[:NAME]|MODEL.pt2"),
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
Dims = tuple[tuple[str, int | tuple[int, int]], ...]


def load(
    model_file: str,
    settings: Settings,
    weights: str | None,
    dims: Dims = (),
    *,
    trust: bool = False,
) -> tuple[Model, Weights | Mapping[str, Array] | None]:
    """The traced model of MODEL.py[:NAME] or MODEL.pt2, and the opened weights, or those that it has itself."""
    if Path(model_file).suffix == ".pt2":
        model = from_pt2(Path(model_file), dict(dims), trust=trust)
        return model, model.sources(open_weights(weights) if weights else None)
    if dims:
        expected = "it with a .pt2; a model file declares its own with lg.Dim"
        raise BadArgument(op="model", name="--dim", value=dims[0][0], expected=expected)
    path, colon, name = model_file.rpartition(":")
    if not colon or not name.isidentifier() or Path(model_file).exists():
        path, name = model_file, ""
    opened = open_weights(weights) if weights else None
    model = load_model_file(path, name or None, opened, dict(settings))
    return model, model.sources(opened)
