"""manifest.json: what an emitted project is, and the hashes of its files.

Promises sorted, stable text. `describe` is also inside the library; `with_files` adds the hashes
of the weights and of the files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from lumigen.emit.contract import NUMPY_NAMES, signature
from lumigen.emit.launches import source_places
from lumigen.program import (
    SIDE_BY_SIDE,
    CompiledModel,
    Group,
    KernelSource,
    Launch,
    Port,
    Program,
    StateInfo,
    Stored,
    Variant,
)
from lumigen.resources import lumigen_version

FORMAT = 1
NAME = "manifest.json"


def describe(model: CompiledModel, abi: int) -> dict[str, object]:
    """Everything but the files."""
    return {
        "lumigen": {"manifest": FORMAT, "version": lumigen_version()},
        "model": model.name,
        "version": model.version,
        "abi": abi,
        "target": model.target.name,
        **(
            {"architectures": list(model.target.architectures)}
            if model.target.architectures
            else {}
        ),
        "graph_hash": model.graph_hash,
        "options": dict(model.options),
        "entries": [_entry(model, p) for p in model.programs],
        "weights": weights_of(model),
        "states": [_state(s) for s in model.states],
        "kernels": [k.name for k in model.kernels],
        **({"application": model.text.described()} if model.text else {}),
    }


def _entry(model: CompiledModel, program: Program) -> dict[str, object]:
    return {
        "name": program.entry,
        "signature": signature(program),
        "inputs": [_port(p) for p in program.inputs],
        "outputs": [_port(p) for p in program.outputs],
        "dims": [
            {
                "name": d.name,
                "min": d.lo,
                "max": d.hi,
                "multiple_of": d.multiple_of,
                "typical": d.estimate,
            }
            for d in program.dims
        ],
        "launches": [
            _launch(model.kernel(launch.kernel), launch, variant, group)
            for group in program.groups
            for variant in group.variants
            for launch in variant.launches
        ],
    }


def _launch(
    kernel: KernelSource, launch: Launch, variant: Variant, group: Group
) -> dict[str, object]:
    """A launch as it stands in `Program.launches`; its work as expressions of the entry's dims."""
    places = source_places(launch.lines or kernel.lines)
    return {
        "kernel": kernel.name,
        **({"when": str(variant.when)} if len(group.variants) > 1 else {}),
        "lines": [f"{file}:{line}" for file, line in places],
        "computes": kernel.computes.name,
        "flops": str(kernel.cost.flops),
        "bytes_read": str(kernel.cost.read),
        "bytes_written": str(kernel.cost.written),
    }


def _port(port: Port) -> dict[str, object]:
    """`range` is what integers may be at all dims, `most` the greatest at those of a call, where it depends on them."""
    out: dict[str, object] = {
        "name": port.name,
        "dtype": NUMPY_NAMES[port.dtype.name],
        "shape": [e.const if e.is_const else str(e) for e in port.shape],
    }
    if port.always is not None:
        out["range"] = list(port.always)
    if port.most is not None:
        out["most"] = str(port.most)
    return out


def _state(state: StateInfo) -> dict[str, object]:
    return {
        "name": state.name,
        "dtype": NUMPY_NAMES[state.dtype.name],
        "shape": list(state.shape),
        "bytes": state.bytes,
    }


def weights_of(model: CompiledModel) -> list[dict[str, object]]:
    """A row for each form in which kernels read a weight."""
    return [_weight(s) for s in model.read]


def _weight(stored: Stored) -> dict[str, object]:
    return {
        "name": stored.weight.name,
        "dtype": NUMPY_NAMES[stored.weight.dtype.name],
        "shape": list(stored.weight.shape),
        "layout": packing(stored),
        "bytes": stored.bytes,
    }


def packing(stored: Stored) -> str:
    """The layout of a weight, as the metadata of a packed file has it; empty for as it is."""
    p = stored.layout
    if p is None:
        return ""
    strides = f"n_stride={p.n_stride} k_stride={p.k_stride}"
    strides += f" inner={p.inner} outer_stride={p.outer_stride}" if p.inner else ""
    base = f" base={p.base}" if p.base else ""
    side = SIDE_BY_SIDE[p.side]
    return f"{weight_text(stored)} panels n={p.n} k={p.k} {strides} width={p.width}{base}{side}"


def weight_text(stored: Stored) -> str:
    """`f32[256, 784]`."""
    return f"{stored.weight.dtype}[{', '.join(map(str, stored.weight.shape))}]"


def text_of(manifest: Mapping[str, object]) -> str:
    return json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"


def file_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def with_files(
    described: Mapping[str, object], weights_hash: str | None, files: Mapping[str, str]
) -> str:
    """The text of manifest.json for all other files.

    `weights_hash` is `lumigen.hash` in the metadata of the weights file; None without one.
    """
    hashes = {path: file_hash(files[path]) for path in sorted(files)}
    return text_of({**described, "weights_hash": weights_hash, "files": hashes})
