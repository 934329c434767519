"""What `lumigen compile --explain` says of an ONNX model instead of building it: what is in it."""

from __future__ import annotations

from dataclasses import asdict

from lumigen.cli.options import Dims, Settings, input_values, is_onnx
from lumigen.cli.terminal import result, result_json, table
from lumigen.errors import BadArgument, ProblemsInModel, printable
from lumigen.importers.onnx import explained


def say_explained(model_file: str, settings: Settings, dims: Dims, *, as_json: bool) -> None:
    """The operators of a model, and what of it cannot be compiled; ProblemsInModel where there is some."""
    if not is_onnx(model_file):
        value, expected = f"of {model_file}", "it with an ONNX model"
        raise BadArgument(op="compile", name="--explain", value=value, expected=expected)
    found = explained(model_file, dict(dims), input_values(settings))
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
            *(printable(text) for text in found.problems),
        ]
        result("\n".join(lines).rstrip())
    if found.problems:
        raise ProblemsInModel(file=model_file, count=len(found.problems))
