"""summary: what a compilation made, as text and as a file of the cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from lumigen.build import BuildResult, WriteResult
from lumigen.directory import MANIFEST, read_manifest
from lumigen.emit import manifest
from lumigen.emit.contract import signature
from lumigen.emit.weights_file import misfits
from lumigen.model_weights import unused_weights, weights_path
from lumigen.program import CompiledModel, Program
from lumigen.progress import Stages
from lumigen.weights import Weights

Array = npt.NDArray[Any]

# of a Summary, what a second compilation cannot see for itself
REMEMBERED = ("model", "version", "target", "kernels", "weights", "weight_bytes", "files", "unused")


@dataclass(frozen=True)
class EntrySummary:
    """An entry at its dims' typical values: its launches, work, traffic and arena."""

    name: str
    signature: str
    dims: Mapping[str, int]
    launches: int
    flops: int
    bytes: int
    arena: int


@dataclass(frozen=True)
class Summary:
    """What a compilation made."""

    model: str
    version: str
    target: str
    directory: Path
    kernels: int
    weights: int
    weight_bytes: int
    entries: tuple[EntrySummary, ...]
    files: int
    written: WriteResult
    note: str  # what was not done that one might expect; empty: nothing
    unused: tuple[str, ...]  # tensors of the weights file that the model does not read
    has_weights: bool  # whether the directory holds the weights' data, and they fit
    kept: str  # what became of the weights of an earlier compilation, if none were given; or empty
    built: BuildResult | None
    seconds: Mapping[str, float]


def to_remember(summary: Summary) -> dict[str, Any]:
    """The part of a summary that `summary_again` needs."""
    facts = {name: getattr(summary, name) for name in REMEMBERED}
    return {**facts, "entries": [asdict(e) for e in summary.entries]}


def summary_again(
    known: Mapping[str, Any], place: Path, built: BuildResult | None, note: str, at: Stages
) -> Summary:
    """The summary of a compilation that found everything as it would have made it."""
    stated = read_manifest(place) or {}
    files = tuple(sorted([*stated.get("files", ()), MANIFEST]))
    file = weights_path(place, known["model"])
    stale = misfits(file, stated.get("weights", ()))
    facts: dict[str, Any] = {name: known[name] for name in REMEMBERED}
    facts["unused"] = tuple(known["unused"])
    return Summary(
        **facts,
        directory=place,
        entries=tuple(EntrySummary(**e) for e in known["entries"]),
        written=WriteResult((), files, ()),
        note=note,
        has_weights=not stale,
        kept=about_kept(file, stale) if stated.get("weights_hash") is None else "",
        built=built,
        seconds=dict(at.seconds),
    )


def entry_summary(program: Program, model: CompiledModel) -> EntrySummary:
    """The sums over the launches that run at the dims' typical values."""
    typical = {d: d.estimate for d in program.dims}
    launches = program.chosen(typical)
    costs = [model.kernel(launch.kernel).cost.at(typical) for launch in launches]
    return EntrySummary(
        name=program.entry,
        signature=signature(program),
        dims={d.name: d.estimate for d in program.dims},
        launches=len(launches),
        flops=sum(flops for flops, _, _ in costs),
        bytes=sum(read + written for _, read, written in costs),
        arena=program.offsets(typical)[1],
    )


def about_kept(file: Path, wrong: Sequence[str]) -> str:
    """What is to be said of a weights file that an earlier compilation left."""
    if not file.is_file():
        return ""
    if not wrong:
        return f"the weights of before are kept, in {file}; --weights FILE replaces them"
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    return (
        f"{file} is kept from before and does not fit this model: {wrong[0]}{more}. "
        "Compile again with --weights FILE."
    )


def summary_of(
    compiled: CompiledModel,
    place: Path,
    *,
    files: int,
    written: WriteResult,
    weights: Weights | Mapping[str, Array] | None,
    built: BuildResult | None,
    note: str,
    seconds: Mapping[str, float],
) -> Summary:
    """The summary of what has just been written, and built where `built` is given."""
    file = weights_path(place, compiled.name)
    stale = misfits(file, manifest.weights_of(compiled))
    return Summary(
        model=compiled.name,
        version=compiled.version,
        target=compiled.target.text,
        directory=place,
        kernels=len(compiled.kernels),
        weights=len({s.weight.name for s in compiled.read}),
        weight_bytes=sum(s.bytes for s in compiled.weights),
        entries=tuple(entry_summary(p, compiled) for p in compiled.programs),
        files=files,
        written=written,
        note=note,
        unused=unused_weights(compiled, weights),
        has_weights=not stale,
        kept=about_kept(file, stale) if weights is None else "",
        built=built,
        seconds=dict(seconds),
    )
