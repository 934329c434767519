"""Commands that only look: `inspect`, `doctor`."""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

from lumigen.cli.manifest import fault
from lumigen.cli.onnx_model import say_inspected
from lumigen.cli.opened import manifest_of
from lumigen.cli.options import example, is_onnx, json_option
from lumigen.cli.terminal import result, result_json, say, table
from lumigen.directory import MANIFEST
from lumigen.emit.weights_file import data_hash, misfits
from lumigen.errors import BadWeightsFile, FileRefused, NotAsEmitted, listed
from lumigen.missing import advice
from lumigen.model_weights import weights_path
from lumigen.printer.amount import size
from lumigen.resources import lumigen_version
from lumigen.target import HOST, TARGETS
from lumigen.toolchain import findings
from lumigen.weights import COMPARE, read_header

MANIFEST_BEGINS = b'{\n "lumigen": {\n'  # of the text inside a library


@click.command(epilog=example(f"inspect digits-{HOST.name}"))
@click.argument("path", metavar="DIR|LIBRARY|MODEL.onnx", type=click.Path(path_type=Path))
@json_option
def inspect(path: Path, as_json: bool) -> None:
    """Say what a project, a built library or an ONNX file is; check a project's files.

    Exit code 1 if files were edited or are missing, or if the weights do not fit the model.
    """
    if is_onnx(str(path)) and not path.is_dir():
        say_inspected(path, as_json=as_json)
        return
    if path.is_file():
        manifest, state = manifest_of_library(path), {}
    elif not path.exists():
        why = "there is no such directory or library"
        instead = "Name a directory that `lumigen compile` made, or a library built from it."
        remedy = advice(path, instead, lambda p: (p / MANIFEST).is_file() or p.suffix == ".so")
        raise FileRefused(command="inspect", file=path, why=why, remedy=remedy)
    else:
        manifest = manifest_of("inspect", path)
        state = state_of(path, manifest)
    if as_json:
        result_json({"manifest": manifest, **state})
    else:
        result(as_text(manifest, state))
    if what := differences(state):
        raise NotAsEmitted(directory=path, what="; ".join(what))


def differences(state: Mapping[str, Any]) -> list[str]:
    """Clauses of what is not as it was emitted."""
    found = [f"{kind}: {listed(state[kind])}" for kind in ("edited", "missing") if state.get(kind)]
    file = state.get("weights_file")
    if file and (wrong := file["misfits"]):
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        found.append(f"its weights do not fit the model: {wrong[0]}{more}")
    return found


def manifest_of_library(path: Path) -> dict[str, Any]:
    """What a shared library says of itself: the text that <model>_manifest returns, found without running anything."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            begin = data.find(MANIFEST_BEGINS)
            text = data[begin : data.find(b"\0", begin)] if begin >= 0 else b"{}"
        manifest: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError):  # it is empty, or what it holds is no JSON
        manifest = {}
    if fault({"files": {}, **manifest}):
        why = "it is no shared library that holds a manifest of lumigen"
        remedy = "Name a shared library that was built from an emitted project, or an .onnx file."
        if path.suffix == ".pt2":
            why = "inspect takes an ONNX file, and no .pt2"
            remedy = f"What is in an archive says `lumigen compile {path} --explain`."
        raise FileRefused(command="inspect", file=path, why=why, remedy=remedy)
    return manifest


def state_of(directory: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """How the directory differs from what was emitted, and what it holds besides."""
    files: Mapping[str, str] = manifest["files"]
    edited: list[str] = []
    missing: list[str] = []
    for path, digest in files.items():
        file = directory / path
        if not file.is_file():
            missing.append(path)
        elif hashlib.sha256(file.read_bytes()).hexdigest() != digest:
            edited.append(path)
    name = manifest["model"]
    built = sorted(
        str(p.relative_to(directory))
        for folder in ("lib", "bin", "python")
        for p in directory.glob(f"{folder}/*")
        if p.is_file() and p.suffix != ".pyi"
    )
    weights = weights_path(directory, name)
    return {
        "edited": edited,
        "missing": missing,
        "built": built,
        "weights_file": check_weights(weights, manifest) if weights.is_file() else None,
    }


def check_weights(file: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """A weights file: whether its data have the hash it states, what of it does not fit the model."""
    tensors, metadata = read_header(file)
    stated = metadata.get("lumigen.hash")
    whole = np.memmap(file, np.uint8, "r")
    begin = 8 + int.from_bytes(whole[:8].tobytes(), "little")
    found = f"{data_hash([whole[begin:].view(np.ndarray)]):016x}"
    if stated is not None and stated != found:
        why = "its data differ from the hash in its header"
        raise BadWeightsFile(file=file, why=why, remedy=COMPARE)
    return {
        "bytes": whole.size,
        "tensors": len(tensors),
        "packed": stated is not None,
        "hash": found,
        "misfits": misfits(file, manifest["weights"]),
    }


def _application(manifest: Mapping[str, Any]) -> list[str]:
    """The program that comes with the model, if there is one."""
    app = manifest.get("application")
    if app is None:
        return []
    by = f"by {app['prefill']} and {app['decode']}"
    return [f"program  {app['kind']} {by}, {app['tokens']} tokens, {app['length']} positions"]


def as_text(manifest: Mapping[str, Any], state: Mapping[str, Any]) -> str:
    """All of it for people."""
    weights: list[Mapping[str, Any]] = manifest["weights"]
    total = sum(w["bytes"] for w in weights)
    by = f"emitted by lumigen {manifest['lumigen']['version']}, ABI {manifest['abi']}"
    codes = manifest.get("architectures")
    target = manifest["target"] + (f" ({', '.join(codes)})" if codes else "")
    lines = [
        f"{manifest['model']} {manifest['version']} for {target}, {by}",
        "",
        *(f"entry    {e['signature']}" for e in manifest["entries"]),
        *_application(manifest),
        f"kernels  {len(manifest['kernels'])}",
        f"graph    {manifest['graph_hash']}",
        f"options  {', '.join(f'{k}={v}' for k, v in manifest['options'].items())}",
        f"weights  {len(weights)}, {size(total)} as kernels read them",
    ]
    if state:
        lines += _state_text(manifest, state)
    if weights:
        rows = [("weight", "type", "shape", "bytes", "layout")]
        rows += [
            (
                str(w["name"]),
                str(w["dtype"]),
                str(w["shape"]),
                str(w["bytes"]),
                "panels" if w["layout"] else "row-major",
            )
            for w in weights
        ]
        lines += ["", table(rows, frozenset({3}))]
    return "\n".join(lines)


def _state_text(manifest: Mapping[str, Any], state: Mapping[str, Any]) -> list[str]:
    file = state["weights_file"]
    form = "packed, hash as stated" if file and file["packed"] else "as trained"
    about = f"{file['tensors']} tensors, {size(file['bytes'])}, {form}" if file else "none here"
    if file and (wrong := file["misfits"]):
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        about += f"; does not fit this model: {wrong[0]}{more}"
    differ = [
        f", {len(state[kind])} {kind}: {listed(state[kind])}"
        for kind in ("edited", "missing")
        if state[kind]
    ]
    return [
        f"data     {about}",
        f"files    {len(manifest['files']) + 1}{''.join(differ)}",
        f"built    {', '.join(state['built']) or 'no'}",
    ]


@click.command(epilog=example("doctor"))
@json_option
def doctor(as_json: bool) -> None:
    """Say what this machine can build and run, and what to install."""
    found = [*findings(), *(find() for b in TARGETS.values() for find in b.findings)]
    if as_json:
        result_json(
            {
                "lumigen": lumigen_version(),
                "findings": [
                    {
                        "name": f.name,
                        "ok": f.is_ok,
                        "needed": f.is_needed,
                        "found": f.found,
                        "remedy": f.remedy,
                    }
                    for f in found
                ],
            }
        )
    else:
        result(f"lumigen {lumigen_version()}")
        rows = [(f"{'ok' if f.is_ok else '--'}", f.name, f.found) for f in found]
        result(table(rows))
    for f in found:
        if not f.is_ok:
            say(f"{f.name}: {f.remedy}", style="red" if f.is_needed else "")
    if not all(f.is_ok for f in found if f.is_needed):
        raise click.exceptions.Exit(1)
