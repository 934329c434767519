"""checks: what is refused before the work of compiling, and where a project cannot be built."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy.typing as npt

from lumigen.build import (
    NATIVE,
    BuildResult,
    build_project,
    check_buildable,
    check_ours,
)
from lumigen.directory import read_manifest
from lumigen.dtype import DType
from lumigen.errors import (
    AnotherSource,
    BadArgument,
)
from lumigen.frontend import Traced
from lumigen.model_weights import (
    check_dtype,
    check_weights,
)
from lumigen.progress import Stages
from lumigen.target import TARGETS
from lumigen.target_row import Target
from lumigen.weights import Weights

Array = npt.NDArray[Any]

SOURCE = "source"  # of a manifest's options
WRITTEN = "a model that was written for lumigen"


def refuse(
    traced: Traced,
    place: Path,
    target: Target,
    weights: Weights | Mapping[str, Array] | None,
    dtype: DType,
    *,
    build: bool,
    embed: bool,
    isa: str | None,
) -> None:
    """Refuse what can be refused before the work, and before the directory is touched."""
    check_dtype(dtype)
    if embed and weights is None:
        expected = "them together with the file of the weights"
        raise BadArgument(op="compile", name="--embed-weights", value="alone", expected=expected)
    if isa is not None and isa not in (*target.isas, NATIVE):
        known = f"{', '.join(target.isas)} or {NATIVE}" if target.isas else "none with this target"
        raise BadArgument(op="compile", name="--isa", value=isa, expected=known)
    if build and not why_not_built(target):
        check_buildable(place)
    check_ours(place)
    if weights is not None:
        check_weights(traced, weights)


def check_source(place: Path, source: str) -> None:
    """AnotherSource where the directory holds a model that was imported from elsewhere, or one written for lumigen."""
    manifest = read_manifest(place) if place.is_dir() else None
    if manifest is None:
        return
    before = str(manifest.get("options", {}).get(SOURCE, ""))
    if before != source:
        raise AnotherSource(directory=place, before=before or WRITTEN, source=source or WRITTEN)


def build_where_possible(
    place: Path, target: Target, at: Stages, isa: str | None
) -> tuple[BuildResult | None, str]:
    """(what was built, why it was not)."""
    note = why_not_built(target)
    if note:
        return None, note
    with at.stage("build"):
        return build_project(place, isa=isa, progress=at.step), ""


def why_not_built(target: Target) -> str:
    """Why a project of this target cannot be built here; empty if it can."""
    compiler = TARGETS[target.name].compiler
    return "" if compiler is None or compiler.find() else compiler.elsewhere
