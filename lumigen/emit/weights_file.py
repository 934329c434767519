"""Weights files: packed as a model's kernels read them, or checked against what a model declares.

Promises a file that any safetensors reader opens: no gaps, tensors aligned to 64 bytes as far as
that allows, a hash of the data and the layouts in the metadata. A write that stops early leaves
no file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from lumigen.dtype import DTYPES
from lumigen.emit import manifest
from lumigen.emit.project import SAFETENSORS_DTYPES, packed_name
from lumigen.errors import BadWeightsFile
from lumigen.files import whole_file
from lumigen.program import ALIGNMENT, CompiledModel, Panels, Stored
from lumigen.weights import CONVERTED, fitted, missing, read_header
from lumigen.weights import StoredTensor as Tensor

Array = npt.NDArray[np.generic]
Bytes = npt.NDArray[np.uint8]
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
BY_NUMPY = {np.dtype(d.numpy).name: d for d in DTYPES}  # as manifests name types
BLOCK = 1 << 18  # bytes that are hashed at a time: the passes of numpy stay in a cache
PART = 1 << 22  # bytes that are packed at a time


@dataclass(frozen=True)
class _PackedTensor:
    """A tensor as the file has it; `parts` yields its `size` bytes anew each time, a few at once."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    item: int
    size: int
    parts: Callable[[], Iterator[Bytes]]


@dataclass(frozen=True)
class PackedWeights:
    """A weights file that is packed as written; `hash` is of its data, as the runtime's `weights_verify` has it."""

    hash: str
    header: bytes
    tensors: tuple[_PackedTensor, ...]

    def write(self, path: Path) -> None:
        with whole_file(path) as file:
            file.write(self.header)
            for tensor in self.tensors:
                for part in tensor.parts():
                    file.write(part.data)


def pack(weight: Array, layout: Panels) -> Array:
    """The panels of a weight, as `pack_panels` of the runtime has them: flat, of (n / width, k, width).

    With several k side by side of (n / width, depth / side, width, side).
    """
    return np.concatenate(list(_panels(weight, layout)))


def _panels(weight: Array, layout: Panels) -> Iterator[Array]:
    """What `pack` gives, a few whole panels at a time."""
    flat = weight.reshape(-1)
    inner, side = layout.inner or layout.k, layout.side
    shape = (layout.n, layout.k // inner, inner)
    steps = (layout.n_stride, layout.outer_stride, layout.k_stride)
    strides = tuple(s * flat.itemsize for s in steps)
    rows = as_strided(flat[layout.base :], shape, strides, writeable=False)
    step = layout.width * max(1, PART // (layout.width * layout.depth * flat.itemsize))
    for first in range(0, layout.n, step):
        some = rows[first : first + step]
        panels = -(-len(some) // layout.width)
        out = np.zeros((panels * layout.width, layout.depth), dtype=weight.dtype)
        out[: len(some), : layout.k] = some.reshape(len(some), layout.k)
        blocks = out.reshape(panels, layout.width, layout.depth // side, side)
        yield np.ascontiguousarray(blocks.transpose(0, 2, 1, 3)).reshape(-1)


def data_hash(parts: Iterable[Bytes]) -> int:
    """The runtime's hash of the data of a weights file, given in parts; `runtime/safetensors.h` defines it."""
    total, size = np.zeros((), dtype=np.uint64), 0
    with np.errstate(over="ignore"):
        for block in _blocks(parts):
            words = np.pad(block, (0, -block.size % 8)).view("<u8")
            steps = np.arange(size // 8 + 1, size // 8 + 1 + words.size, dtype=np.uint64)
            total = total + _mix(words + steps * GOLDEN).sum(dtype=np.uint64)
            size += block.size
        total = total + _mix(np.array([size], dtype=np.uint64))[0]
    return int(total)


def _blocks(parts: Iterable[Bytes]) -> Iterator[Bytes]:
    """The same bytes in blocks of one size, other than the last."""
    block, filled = np.empty(BLOCK, np.uint8), 0
    for part in parts:
        at = 0
        while at < part.size:
            count = min(BLOCK - filled, part.size - at)
            block[filled : filled + count] = part[at : at + count]
            at, filled = at + count, filled + count
            if filled == BLOCK:
                yield block
                filled = 0
    if filled:
        yield block[:filled]


def _mix(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def write_weights(
    model: CompiledModel,
    arrays: Mapping[str, Array],
    path: Path,
    *,
    source: str = "the given arrays",
) -> None:
    """Pack and write; `source` is what errors call the arrays."""
    pack_weights(model, arrays, source).write(path)


def pack_weights(model: CompiledModel, arrays: Mapping[str, Array], source: str) -> PackedWeights:
    """The weights in the form that kernels read; `source` is what errors call the arrays.

    Arrays of f16, bf16 and f32 are converted where the model reads another of these.
    """
    tensors: list[_PackedTensor] = []
    metadata: dict[str, str] = {}
    for stored in model.read:
        tensor = _stored_tensor(stored, model, arrays, source)
        if all(t.name != tensor.name for t in tensors):
            tensors.append(tensor)
        if stored.layout is not None:
            metadata[f"lumigen.layout.{tensor.name}"] = manifest.packing(stored)
    # Sizes that are multiples of 64 first: then every one of them is aligned, and no gap is left,
    # which other readers refuse. What remains is sorted so that each is aligned to its elements.
    tensors.sort(key=lambda t: (t.size % ALIGNMENT != 0, -t.item, t.name))
    found = f"{data_hash(part for t in tensors for part in t.parts()):016x}"
    metadata |= {"lumigen.hash": found, "lumigen.model": model.name}
    return PackedWeights(found, _header(tensors, metadata), tuple(tensors))


def _header(tensors: Sequence[_PackedTensor], metadata: Mapping[str, str]) -> bytes:
    header: dict[str, object] = {"__metadata__": dict(sorted(metadata.items()))}
    begin = 0
    for t in tensors:
        end = begin + t.size
        header[t.name] = {"dtype": t.dtype, "shape": list(t.shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-(len(text) + 8) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def _stored_tensor(
    stored: Stored, model: CompiledModel, arrays: Mapping[str, Array], source: str
) -> _PackedTensor:
    weight, layout = stored.weight, stored.layout
    item = np.dtype(weight.dtype.numpy).itemsize

    def array() -> Array:
        return np.ascontiguousarray(_array_of(stored, arrays, source))

    if layout is None:
        shape = weight.shape
        size = math.prod(shape) * item

        def whole() -> Iterator[Bytes]:
            yield array().reshape(-1).view(np.uint8)

        return _PackedTensor(
            weight.name, SAFETENSORS_DTYPES[weight.dtype.name], shape, item, size, whole
        )
    used = layout.elements * item
    size = used + -used % ALIGNMENT

    def panels() -> Iterator[Bytes]:
        for part in _panels(array(), layout):
            yield part.view(np.uint8)
        yield np.zeros(size - used, np.uint8)

    return _PackedTensor(packed_name(stored, model.weights), "U8", (size,), 1, size, panels)


def _array_of(stored: Stored, arrays: Mapping[str, Array], source: str) -> Array:
    weight = stored.weight
    if weight.name not in arrays:
        raise missing(weight.name, source, arrays)
    return fitted(arrays[weight.name], weight.name, weight.dtype, weight.shape, source)


def misfits(file: Path, weights: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why a file is no weights file of a model, as the rows of its manifest describe it; empty: it is one."""
    if not file.is_file():
        return ["there is no such file"]
    try:
        tensors, metadata = read_header(file)
    except BadWeightsFile as e:
        return [str(e.facts["why"])]
    wrong = (_misfit(row, tensors, metadata) for row in weights)
    return list(dict.fromkeys(filter(None, wrong)))


def _misfit(
    row: Mapping[str, Any], tensors: Mapping[str, Tensor], metadata: Mapping[str, str]
) -> str:
    name, dtype = row["name"], BY_NUMPY[row["dtype"]]
    wanted = f"{dtype}[{', '.join(map(str, row['shape']))}]"
    forms = [t for t in tensors if t.partition("#")[0] == name or t == name]
    packed = [metadata[key] for t in forms if (key := f"lumigen.layout.{t}") in metadata]
    tensor = tensors.get(name)
    if packed and (row["layout"] or tensor is None or f"lumigen.layout.{name}" in metadata):
        if row["layout"] in packed:
            return ""
        found = packed[0].partition(" panels")[0]
        return f"{name} is {found if found != wanted else 'packed otherwise'}, must be {wanted}"
    if tensor is None:
        return f"it holds no {name}"
    kind = tensor.dtype
    is_converted = kind in CONVERTED and dtype in CONVERTED  # when it is opened
    if (kind is dtype or is_converted) and tensor.shape == tuple(row["shape"]):
        return ""
    found = f"{kind or tensor.kind}[{', '.join(map(str, tensor.shape))}]"
    return f"{name} is {found}, must be {wanted}"
