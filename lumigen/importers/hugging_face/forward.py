# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
"""forward: any model of `transformers` as one entry `forward`, whose sizes are dims where torch.export lets them be."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils._sympy.value_ranges import ValueRanges

from lumigen.errors import BadArgument, BadCheckpoint
from lumigen.frontend import Dim
from lumigen.importers.hugging_face.checkpoint import Checkpoint
from lumigen.importers.hugging_face.exported import Exported
from lumigen.importers.hugging_face.inputs import Bounds, Input, inputs_of, positions_of, ranges_of
from lumigen.importers.hugging_face.original import failing, quiet
from lumigen.importers.torch.exported import export
from lumigen.importers.torch.model import Called
from lumigen.importers.torch.ports import model_name
from lumigen.importers.torch.sizes import limits_of, symbols_of

LARGEST = 1 << 24  # of the sizes of an example
FIXED = 128  # tokens, or other steps of time, where torch.export fixes how many
EXPORT = "lg.from_torch takes the module with example inputs of yours."


def forward_program(checkpoint: Checkpoint, module: Any, dims: Mapping[str, Bounds]) -> Exported:
    """One entry `forward`, whose inputs and outputs have the names and shapes of transformers.

    `dims` has for a dim its least and greatest size, or the only one. BadArgument for others. A size that torch.export
    fixes, and that nobody gave, is one row, or a number of tokens.
    """
    sizes: dict[str, Bounds] = {**ranges_of(checkpoint, module)}
    inputs = inputs_of(checkpoint, module, sizes)
    known = list(dict.fromkeys(d for i in inputs.values() for d in i.dims if d))
    if unknown := [str(d) for d in dims if d not in known]:
        expected = f"one of {', '.join(known)}" if known else "none: its sizes are fixed"
        raise BadArgument(op="compile", name="--dim", value=", ".join(unknown), expected=expected)
    _check_sizes(module, dims)
    sizes |= dims
    inputs = inputs_of(checkpoint, module, sizes)
    own = [d for d in known if d not in dims]  # sizes that nobody gave
    try:
        program = exported(checkpoint, module, inputs, sizes)
        fixed = [d for d in own if d not in dims_in(program, inputs)]
    except BadCheckpoint:
        if not own:
            raise
        program, fixed = None, own
    if program is None or fixed:
        sizes |= {d: fixed_at(d, sizes[d]) for d in fixed}
        inputs = inputs_of(checkpoint, module, sizes)
        program = exported(checkpoint, module, inputs, sizes)
    left = dims_in(program, inputs)
    for d, bounds in dims.items():
        if isinstance(bounds, tuple) and d not in left:
            value, expected = "a range", "one number: torch.export fixes this size of the model"
            raise BadArgument(op="compile", name=f"--dim {d}", value=value, expected=expected)
    ranges = {d: dims.get(d) or within(sizes[d], left[d]) for d in left}
    return Exported(
        program,
        model_name(checkpoint.model_type),
        (Called("forward", {d: Dim(d, *b) for d, b in ranges.items() if isinstance(b, tuple)}),),
        {(n, k): d for n, i in inputs.items() for k, d in enumerate(i.dims) if d},
        fixed=tuple((d, n) for d in fixed if isinstance(n := sizes[d], int)),
    )


def _check_sizes(module: Any, dims: Mapping[str, Bounds]) -> None:
    """Tokens without a position would be computed as if they had none, and an example has room in memory."""
    for d, bounds in dims.items():
        least = bounds if isinstance(bounds, int) else bounds[0]
        if least > LARGEST:
            expected = f"at most {LARGEST}, as torch.export runs the model with an example"
            raise BadArgument(op="compile", name=f"--dim {d}", value=least, expected=expected)
    most, given = positions_of(module), dims.get("sequence", 1)
    longest = given if isinstance(given, int) else given[1]
    if most is not None and longest > most:
        expected = f"at most {most}, the positions that the checkpoint has"
        raise BadArgument(op="compile", name="--dim sequence", value=longest, expected=expected)


def within(bounds: Bounds, found: tuple[int, int | None]) -> Bounds:
    """A range that nobody gave, within what torch.export found."""
    low, high = bounds if isinstance(bounds, tuple) else (bounds, bounds)
    return max(low, found[0]), min(high, found[1] or high)


def fixed_at(dim: str, bounds: Bounds) -> int:
    """What a size is that torch.export fixes."""
    low, high = bounds if isinstance(bounds, tuple) else (bounds, bounds)
    return low if dim == "batch" else min(high, FIXED)


def exported(
    checkpoint: Checkpoint, module: Any, inputs: Mapping[str, Input], sizes: Mapping[str, Bounds]
) -> torch.export.ExportedProgram:
    """The program: torch.export finds which of the sizes may vary. A least size of 2 is its assumption, and is 1."""
    hint: Any = torch.export.Dim.AUTO
    shapes: dict[str, Any] = {
        name: {k: hint for k, d in enumerate(given.dims) if d and isinstance(sizes[d], tuple)}
        for name, given in inputs.items()
    }
    examples: dict[str, Any] = {name: given.example for name, given in inputs.items()}
    if "use_cache" in inspect.signature(module.forward).parameters:
        examples["use_cache"], shapes["use_cache"] = False, None
    with quiet(), failing(checkpoint, "torch.export cannot trace it", EXPORT):
        program = export(module, (), examples, shapes)
    ranges = program.range_constraints
    for symbol, found in ranges.items():
        if found.lower == 2:
            ranges[symbol] = ValueRanges(1, found.upper)
    return program


def dims_in(
    program: torch.export.ExportedProgram, inputs: Mapping[str, Input]
) -> dict[str, tuple[int, int | None]]:
    """The dims that the program leaves open, with their least and greatest size."""
    out: dict[str, tuple[int, int | None]] = {}
    for node in program.graph.nodes:
        given = inputs.get(node.name) if node.op == "placeholder" else None
        if given is None:
            continue
        for dim, extent in zip(given.dims, node.meta["val"].shape, strict=True):
            for symbol in symbols_of(extent) if dim else ():
                low, high = limits_of(program.range_constraints.get(symbol))
                before = out.get(str(dim), (1, None))
                most = [h for h in (high, before[1]) if h is not None]
                out[str(dim)] = max(low, before[0]), min(most, default=None)
    return out
