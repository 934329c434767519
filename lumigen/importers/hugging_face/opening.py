"""opening: a directory of Hugging Face as a model: as an example, as a text program over caches, or as it is.

torch and transformers are imported for what no example computes, and not before.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, cast

from lumigen.errors import BadArgument, NotComputed, NotImported, PackageMissing, UnknownOption
from lumigen.frontend import Dim, Model
from lumigen.frontend.load import parse_option
from lumigen.frontend.model import Original
from lumigen.frontend.trace import fail
from lumigen.graph import Graph, tensor_of
from lumigen.importers.hugging_face.checkpoint import Checkpoint, read_checkpoint
from lumigen.importers.hugging_face.known import EXAMPLES, made, options_of
from lumigen.importers.hugging_face.reports import Compared
from lumigen.importers.listing import Listing, entry_line
from lumigen.weights import Array, Weights

Dims = Mapping[str, int | tuple[int, ...] | str]
Sizes = Mapping[str, int | tuple[int, int]]
WAYS = ("example", "text", "forward")
TEXT_OPTIONS = {"length": int, "prefill": int, "program": bool}


@dataclass(frozen=True)
class Chosen:
    """Which way a checkpoint is compiled: `way` one of WAYS, `line` says it to people.

    An example has its model; else there is the module of transformers, and what torch.export made of it.
    """

    checkpoint: Checkpoint
    way: str
    line: str
    example: Model | None = None
    module: Any = None
    exported: Any = None


@dataclass(frozen=True)
class Opened:
    """A model, traced, with its weights; it knows them and what transformers gives in their place."""

    chosen: Chosen
    model: Model
    weights: Weights | Mapping[str, Array]

    @cached_property
    def module(self) -> Any:
        """The module of transformers, which of an example is read when it is asked for."""
        if self.chosen.module is not None:
            return self.chosen.module
        need_transformers()
        from lumigen.importers.hugging_face.original import original

        return original(self.chosen.checkpoint)


def from_hugging_face(
    directory: str | Path,
    dims: Mapping[str, int | tuple[int, int] | Dim] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Model:
    """The model of a directory of Hugging Face, traced, with its weights: what `lumigen compile DIR` compiles.

    `dims` gives sizes of a model with the one entry `forward` their least and greatest number, or the only one; of an
    `lg.Dim` these two are taken. `options` are those of `--set`: `way`, `length`, `prefill`, `program`, or those of the
    example's build(). Errors are those of `open_checkpoint`, and BadArgument for what a way does not take.
    """
    if not isinstance(directory, str | Path):  # pyright: ignore[reportUnnecessaryIsInstance]
        value = f"of type {type(directory).__name__}"
        raise fail(
            BadArgument,
            op="from_hugging_face",
            name="directory",
            value=value,
            expected="the path of a directory",
        )
    named: dict[str, Any] = {"dims": dims or {}, "options": options or {}}
    for name, given in named.items():
        if not isinstance(given, Mapping):
            value, expected = f"of type {type(given).__name__}", "a mapping of names to values"
            raise fail(
                BadArgument, op="from_hugging_face", name=name, value=value, expected=expected
            )
    sizes = {name: _bounds(name, size) for name, size in named["dims"].items()}
    return open_checkpoint(directory, named["options"], sizes).model


def _bounds(name: str, size: Any) -> int | tuple[int, int]:
    """A size, or its least and greatest number."""
    if isinstance(size, Dim):
        return size.lo, size.hi
    bounds = cast("tuple[Any, ...]", size if isinstance(size, tuple) else (size, size))
    if [type(n) for n in bounds] != [int, int] or not 1 <= bounds[0] <= bounds[1]:
        expected = "a number from 1 on, or (least, greatest)"
        value = repr(bounds)[:40]
        raise fail(BadArgument, op="from_hugging_face", name=name, value=value, expected=expected)
    return bounds if bounds[0] < bounds[1] else bounds[0]


def open_checkpoint(path: str | Path, options: Mapping[str, Any], dims: Dims) -> Opened:
    """The model of a directory, traced.

    `options` are those of the example, or length, prefill and program of a text program; `way` chooses one of WAYS.
    BadCheckpoint or BadWeightsFile for a directory that is not what it says, PackageMissing without transformers where
    no example computes it, NotImported for what cannot be compiled.
    """
    return opened(chosen(path, options, dims))


def opened(found: Chosen) -> Opened:
    """The model of the way that is chosen."""
    if found.example is not None:
        made = Opened(found, found.example, found.checkpoint.weights)
        made.model.originals = {
            entry: Original(partial(_of_transformers, made, entry), transformers_version)
            for entry, graph in found.example.trace().entries
            if begins(graph)
        }
    else:
        from lumigen.importers.hugging_face.exported import built
        from lumigen.importers.hugging_face.original import in_few_bits

        model = built(found.exported)
        made = Opened(found, model, in_few_bits(found.checkpoint.weights, model.values()))
    made.model.own = made.weights
    made.model.source = found.checkpoint.folder.resolve().name
    return made


def transformers_version() -> str:
    """What runs the originals of checkpoints."""
    from lumigen.importers.hugging_face.original import VERSION

    return VERSION


def begins(graph: Graph) -> bool:
    """Whether an entry may be the first one that a context runs: what it reads of states it has written itself."""
    return {s.name for s in map(tensor_of, graph.states())} <= {
        tensor_of(s).name for s, _ in graph.updates
    }


def _of_transformers(opened: Opened, entry: str, inputs: Mapping[str, Array]) -> Any:
    """The outputs of an example's entry in a new context, by transformers."""
    need_transformers()
    from lumigen.importers.hugging_face.processed import first_run

    return first_run(opened, entry, inputs)


def chosen(path: str | Path, options: Mapping[str, Any], dims: Dims) -> Chosen:
    """The way, as `open_checkpoint` says."""
    sizes = numbers(dims)
    checkpoint = read_checkpoint(path)
    options = dict(options)
    wanted = options.pop("way", None)
    if wanted not in (None, *WAYS):
        expected = f"one of {', '.join(WAYS)}"
        raise BadArgument(op="compile", name="--set way", value=wanted, expected=expected)
    name = EXAMPLES.get(checkpoint.architecture)
    why = f"no example computes {checkpoint.architecture}"
    if wanted == "example" and name is None:
        raise checkpoint.wrong(why, "Leave way=example out, and it is compiled by transformers.")
    if name is not None and wanted in (None, "example"):
        options_there = ", ".join(f"--set {option}=.." for option in options_of(name))
        taken = f"{options_there}, or --set way=forward, which has dims"
        refuse_dims(sizes, f"the example {name}", taken)
        try:
            model = made(checkpoint, name, options)
        except NotComputed as e:
            if wanted is not None:
                raise
            why = f"the example {name} does not compute it: {e.facts['why']}"
        else:
            line = f"{checkpoint.architecture} is compiled as the example {name}"
            return Chosen(checkpoint, "example", line, example=model)
    if name is not None and wanted is not None:
        why = f"way={wanted} asks for it"
    return by_transformers(checkpoint, wanted, why, options, sizes)


def by_transformers(
    checkpoint: Checkpoint, wanted: str | None, why: str, options: Mapping[str, Any], dims: Sizes
) -> Chosen:
    """The way over transformers and torch.export."""
    need_transformers()
    from lumigen.importers.hugging_face.forward import forward_program
    from lumigen.importers.hugging_face.original import VERSION, original
    from lumigen.importers.hugging_face.text import lacks, text_program

    module = original(checkpoint)
    line = f"{checkpoint.architecture} is compiled by {VERSION} and torch.export, as {why}"
    missing = lacks(checkpoint, module)
    if wanted == "text" and missing:
        raise checkpoint.wrong(missing, "Leave way=text out, and it has the one entry forward.")
    if missing or wanted == "forward":
        refuse_options(options)
        forward = forward_program(checkpoint, module, dims)
        sizes = ", ".join(f"{d} is {n}" for d, n in forward.fixed)
        line += f"; its entry is forward{f', in which {sizes}' if sizes else ''}"
        return Chosen(checkpoint, "forward", line, module=module, exported=forward)
    refuse_dims(dims, "a text program", "--set length=N, --set prefill=N, or --set way=forward")
    given = text_options(options)
    text = text_program(checkpoint, module, **given)
    line += "; its entries are prefill and decode, over caches as states"
    if given.get("program", True) and not text.apps:
        line += ", without a program as there is no tokenizer.json"
    return Chosen(checkpoint, "text", line, module=module, exported=text)


def explained(path: str | Path, options: Mapping[str, Any], dims: Dims) -> Listing:
    """The way that is taken, what the model has, and all that cannot be compiled."""
    found = chosen(path, options, dims)
    if found.example is not None:
        return _contents(found, found.example, {}, ())
    from lumigen.importers.hugging_face.exported import built
    from lumigen.importers.hugging_face.original import quiet
    from lumigen.importers.torch.explaining import operators

    noted: list[Any] = []
    model: Model | None = None
    try:
        model = built(found.exported, noted)
    except NotImported as e:
        noted = noted or [e]
    problems = tuple(dict.fromkeys(map(str, noted)))
    with quiet():
        counts = operators(found.exported.program, found.exported.name)
    return _contents(found, model, counts, problems)


def _contents(
    found: Chosen, model: Model | None, operators: Mapping[str, int], problems: tuple[str, ...]
) -> Listing:
    name = model.name if model else found.checkpoint.model_type
    entries = [entry_line(*e) for e in model.trace().entries] if model else []
    return Listing(name, found.way, found.line, tuple(entries), operators, problems)


def checked(found: Opened) -> tuple[Compared, ...]:
    """The model beside the module of transformers, whatever way is taken."""
    need_transformers()
    from lumigen.importers.hugging_face.checking import compared

    return compared(found)


def numbers(dims: Dims) -> Sizes:
    """The sizes, none of which may be said to equal another, as those of a checkpoint that are one have one name."""
    out: dict[str, int | tuple[int, int]] = {}
    for name, size in dims.items():
        match size:
            case int() | (_, _):
                out[name] = size
            case _:
                expected = "1..64 or 4, without steps: sizes that are one have one name here"
                raise BadArgument(
                    op="compile", name=f"--dim {name}", value=str(size)[:80], expected=expected
                )
    return out


def refuse_dims(dims: Sizes, what: str, expected: str) -> None:
    for name in dims:
        value = f"{name} for {what}"
        raise BadArgument(op="compile", name="--dim", value=value, expected=expected)


def refuse_options(options: Mapping[str, Any]) -> None:
    for name in options:
        expected = "--dim NAME=1..64 for its sizes; way is its only option"
        value = f"{name} for a model with the one entry forward"
        raise BadArgument(op="compile", name="--set", value=value, expected=expected)


def text_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """What `text_model` takes."""
    for name in options:
        if name not in TEXT_OPTIONS:
            known = [*TEXT_OPTIONS, "way"]
            raise UnknownOption(command="compile", name=f"option {name}", known=known)
    return {n: parse_option(n, text, TEXT_OPTIONS[n]) for n, text in options.items()}


def need_transformers() -> None:
    """PackageMissing where transformers or PyTorch is not installed."""
    if any(importlib.util.find_spec(name) is None for name in ("transformers", "torch")):
        raise PackageMissing(op="compile", package="transformers")
