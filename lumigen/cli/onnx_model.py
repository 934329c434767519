"""What the commands say of an ONNX model without building it: what is in it, and whether it can be compiled."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from lumigen.cli.options import Dims, Settings, input_values, is_onnx
from lumigen.cli.terminal import result, result_json, table
from lumigen.errors import BadArgument, ProblemsInModel, RangesMissing, printable
from lumigen.importers.onnx import explained, inspected
from lumigen.printer.amount import size


def say_explained(model_file: str, settings: Settings, dims: Dims, *, as_json: bool) -> None:
    """The operators of a model, and what of it cannot be compiled.

    ProblemsInModel where there is some, RangesMissing where that is ranges of sizes alone.
    """
    if not is_onnx(model_file):
        value = f"of {model_file}"
        expected = "it with an ONNX model, a .pt2, or a directory of Hugging Face"
        raise BadArgument(op="compile", name="--explain", value=value, expected=expected)
    found = explained(model_file, dict(dims), input_values(settings))
    lacks_ranges_alone = bool(found.ranges) and len(found.problems) == 1
    if as_json:
        result_json(asdict(found))
    else:
        rows = [("operator", "count"), *((op, str(n)) for op, n in found.operators.items())]
        sets = ", ".join(f"{domain or 'ai.onnx'} {v}" for domain, v in found.versions.items())
        lines = [
            f"{found.name}, operator sets {sets}",
            *(f"input    {port}" for port in found.inputs),
            *(f"output   {port}" for port in found.outputs),
            "",
            table(rows, frozenset({1})),
            "",
            *(printable(text) for text in found.problems if not lacks_ranges_alone),
        ]
        result("\n".join(lines).rstrip())
    if lacks_ranges_alone:
        raise RangesMissing(file=model_file, example=found.ranges)
    if found.problems:
        raise ProblemsInModel(file=model_file, count=len(found.problems))


def say_inspected(path: Path, *, as_json: bool) -> None:
    """What an ONNX file says of itself."""
    found = inspected(path)
    if as_json:
        result_json(asdict(found))
        return
    sets = ", ".join(f"{domain} {v}" for domain, v in found.opsets.items())
    total = sum(w.bytes for w in found.weights)
    operators = [("operator", "count", "compiled")]
    operators += [(op, str(count), how) for op, count, how in found.operators]
    weights = [("weight", "type", "shape", "bytes", "file")]
    weights += [
        (w.name, w.dtype, str(list(w.shape)), str(w.bytes), w.location) for w in found.weights
    ]
    lines = [
        f"{found.file}, operator sets {sets}, IR {found.ir_version}",
        *([f"by       {found.producer}"] if found.producer else []),
        *(f"input    {port}" for port in found.inputs),
        *(f"output   {port}" for port in found.outputs),
        f"dims     {', '.join(found.dims) or 'none'}",
        *(f"about    {key}: {value}" for key, value in found.metadata.items()),
        f"weights  {len(found.weights)}, {size(total)}",
    ]
    tables = [
        table(operators, frozenset({1})),
        *([table(weights, frozenset({3}))] if total else []),
    ]
    result("\n\n".join(["\n".join(map(printable, lines)), *tables]))
