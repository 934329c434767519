"""Files of weights: safetensors, sharded or in a Hugging Face directory, and npz.

Promises that a truncated, lying or hostile file is a BadWeightsFile: never a crash, and never
memory beyond the file's own size. Tensors of safetensors are views of the mapped file, not copies.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from lumigen.dtype import DType, bf16, boolean, f16, f32, f64, i8, i32, i64, of_numpy, u8
from lumigen.errors import BadWeightsFile, UnknownWeight, WeightMismatch

Array = npt.NDArray[Any]

MAX_HEADER = 100_000_000  # bytes; safetensors' own limit
MAX_RANK = 64
MAX_CONFIG = 10_000_000

# endings of files that a user may take for one of ours, and what they are
OTHER_FORMS = {
    ".npy": "a .npy file holds one array without a name",
    **dict.fromkeys((".pt", ".pth", ".bin", ".ckpt"), "it is a file of PyTorch"),
    ".onnx": "it is a file of ONNX",
    ".gguf": "it is a file of GGUF",
}

# the format's dtypes: bytes of an element, and ours where we have one
_KINDS = {
    1: "BOOL U8 I8 F8_E4M3 F8_E5M2 F8_E8M0 F8_E4M3FNUZ F8_E5M2FNUZ",
    2: "I16 U16 F16 BF16",
    4: "I32 U32 F32",
    8: "I64 U64 F64 C64",
}
ITEM_BYTES = {kind: size for size, kinds in _KINDS.items() for kind in kinds.split()}
OURS: dict[str, DType] = {
    "BOOL": boolean,
    "U8": u8,
    "I8": i8,
    "I32": i32,
    "I64": i64,
    "F16": f16,
    "BF16": bf16,
    "F32": f32,
    "F64": f64,
}


@dataclass(frozen=True)
class Stored:
    """A tensor in a file: `kind` is the format's dtype, `begin` where its bytes are."""

    name: str
    kind: str
    shape: tuple[int, ...]
    file: Path
    begin: int
    size: int


class Weights:
    """An opened file of weights: tensors by name, and the configuration beside them."""

    def __init__(
        self,
        path: Path,
        stored: Mapping[str, Stored],
        load: Callable[[Stored], Array],
        config: Mapping[str, Any],
        metadata: Mapping[str, str],
    ) -> None:
        self.path = path
        self.config = dict(config)
        self.metadata = dict(metadata)
        self._stored = dict(stored)
        self._load = load

    def __repr__(self) -> str:
        return f"Weights({str(self.path)!r}, {len(self._stored)} tensors)"

    @property
    def names(self) -> tuple[str, ...]:
        """All names, sorted."""
        return tuple(sorted(self._stored))

    def __contains__(self, name: object) -> bool:
        return name in self._stored

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self._stored)

    def __getitem__(self, name: str) -> Array:
        """The tensor; read-only, a view of the mapped file where the format allows."""
        stored = self._find(name)
        self.dtype(name)
        return self._load(stored)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape; UnknownWeight, with the closest names, where there is no such tensor."""
        return self._find(name).shape

    def dtype(self, name: str) -> DType:
        """The dtype; BadWeightsFile where we have none for the file's."""
        stored = self._find(name)
        found = OURS.get(stored.kind)
        if found is None:
            raise _bad(stored.file, f"{name} is of type {stored.kind}, which is not supported")
        return found

    def has_supported_dtype(self, name: str) -> bool:
        """Whether there is a dtype of ours for the tensor's."""
        return self._find(name).kind in OURS

    def _find(self, name: str) -> Stored:
        if name not in self._stored:
            raise missing(name, str(self.path), self._stored)
        return self._stored[name]


def missing(
    name: str, source: str, there: Collection[str], wanted: Collection[str] = ()
) -> UnknownWeight:
    """The error for a tensor that a file lacks; with the names of all that are `wanted` it knows a common prefix."""
    close = get_close_matches(name, there, n=3, cutoff=0.3)
    prefixes = [
        prefix
        for other in sorted(there)
        if other.endswith(f".{name}") and (prefix := other.removesuffix(name))
        if wanted and all(prefix + w in there for w in wanted)
    ]
    remedy = "Pass the file that belongs to this model, or rename the parameter."
    if prefixes:
        also = " (or " + ", ".join(f'"{p}"' for p in prefixes[1:3]) + ")" if prefixes[1:] else ""
        remedy = (
            f'The file has all names after "{prefixes[0]}"{also}: pass lg.Model(..., '
            f'prefix="{prefixes[0]}"), or rename= for other names.'
        )
    return UnknownWeight(file=source, name=name, close=close, remedy=remedy)


def fitted(array: Array, name: str, dtype: DType, shape: tuple[int, ...], source: str) -> Array:
    """A weight as a model declares it: rounded where that is in 16 bits; WeightMismatch for any other."""
    found = rounded(array, dtype)
    if found.dtype == np.dtype(dtype.numpy) and found.shape == shape:
        return found
    ours = of_numpy(found.dtype)
    remedy = "Pass the file that belongs to this model, or change the declaration."
    if ours and ours.is_float and dtype.is_float and found.shape == shape:
        remedy = (
            f"Declare the weights as the file has them, with net.to(lg.{ours}) before "
            "lg.Model(..., net), or pass a file of the declared type."
        )
    raise WeightMismatch(
        name=name,
        file=source,
        got=f"{ours or found.dtype}[{', '.join(map(str, found.shape))}]",
        expected=f"{dtype}[{', '.join(map(str, shape))}]",
        remedy=remedy,
    )


def rounded(weight: Array, dtype: DType) -> Array:
    """A weight of f32 in a type of 16 bits, rounded to the nearest, to even between two; any other as it is."""
    if weight.dtype != np.float32 or dtype not in (f16, bf16):
        return weight
    with np.errstate(all="ignore"):  # what is too great becomes infinite, NaN stays
        return weight.astype(dtype.numpy)


def open_weights(path: str | Path) -> Weights:
    """A .safetensors file, its index of shards (.json), a directory of either, or an .npz file.

    BadWeightsFile where it is none of these, or is truncated or untrue.
    """
    given = Path(path)
    if given.is_dir():
        return _open_directory(given)
    if not given.is_file():
        raise _bad(given, "there is no such file")
    if given.suffix == ".npz":
        return _open_npz(given)
    if given.suffix == ".json":
        return _open_index(given)
    if given.suffix in OTHER_FORMS:
        raise _bad(given, f"{OTHER_FORMS[given.suffix]}; a .safetensors or .npz file is needed")
    stored, metadata = read_header(given)
    return Weights(given, stored, _map, _config(given.parent), metadata)


def _open_directory(folder: Path) -> Weights:
    for name in ("model.safetensors", "model.safetensors.index.json"):
        if (folder / name).is_file():
            return open_weights(folder / name)
    found = sorted(folder.glob("*.safetensors"))
    if len(found) == 1:
        return open_weights(found[0])
    why = "it holds no model.safetensors" + (f", but {len(found)} others" if found else "")
    raise _bad(folder, why)


def _config(folder: Path) -> dict[str, Any]:
    """The config.json beside the weights; empty if there is none."""
    file = folder / "config.json"
    if not file.is_file():
        return {}
    return _json_object(file, _bounded_text(file, MAX_CONFIG))


def _bounded_text(file: Path, limit: int) -> bytes:
    size = file.stat().st_size
    if size > limit:
        raise _bad(file, f"{size} bytes of JSON are more than the {limit} allowed")
    return file.read_bytes()


def _json_object(file: Path, text: bytes) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise _bad(file, f"its JSON has the key {key[:80]!r} twice")
            if _has_half(key) or (isinstance(value, str) and _has_half(value)):
                raise _bad(file, f"its JSON has half a character, at the key {key[:80]!r}")
            found[key] = value
        return found

    try:
        value: object = json.loads(text.decode("utf-8"), object_pairs_hook=once)
    except (ValueError, RecursionError) as e:
        raise _bad(file, f"its JSON cannot be read: {str(e).splitlines()[0][:120]}") from None
    if not isinstance(value, dict):
        raise _bad(file, "its JSON is not an object")
    return cast("dict[str, Any]", value)


def _has_half(text: str) -> bool:
    """Whether half a character of UTF-16 stands alone: a text that no UTF-8 can hold."""
    return any("\ud800" <= c <= "\udfff" for c in text)


# --- safetensors ----------------------------------------------------------------------------------


def read_header(file: Path) -> tuple[dict[str, Stored], dict[str, str]]:
    """The tensors and the metadata of a safetensors file, checked against the file's size."""
    total = file.stat().st_size
    if total < 8:
        raise _bad(file, f"{total} bytes are too few for a safetensors file")
    with file.open("rb") as f:
        length = int.from_bytes(f.read(8), "little")
        if length > min(MAX_HEADER, total - 8):
            if not f.read(1).startswith(b"{"):
                raise _bad(file, "it is no safetensors file")
            raise _bad(file, f"it claims a header of {length} bytes, in a file of {total}")
        text = f.read(length)
    if len(text) < length:
        raise _bad(file, f"it ends within its header of {length} bytes")
    if not text.startswith(b"{"):
        raise _bad(file, "its JSON is not an object that begins at once")
    header = _json_object(file, text)
    metadata = _metadata(file, header.pop("__metadata__", {}))
    data, room = 8 + length, total - 8 - length
    stored = {name: _entry(file, name, row, data, room) for name, row in header.items()}
    _check_coverage(file, sorted(stored.values(), key=lambda s: (s.begin, s.size)), data, room)
    return stored, metadata


def _metadata(file: Path, value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise _bad(file, "its metadata is not an object")
    rows = cast("dict[Any, Any]", value)
    if not all(isinstance(v, str) for v in rows.values()):
        raise _bad(file, "its metadata is not an object of texts")
    return rows


def _entry(file: Path, name: str, row: object, data: int, room: int) -> Stored:
    short = name[:80]
    if not isinstance(row, dict):
        raise _bad(file, f"the entry of {short} is not an object")
    entry = cast("dict[str, Any]", row)
    kind, shape, span = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(kind, str) or kind not in ITEM_BYTES:
        raise _bad(file, f"{short} is of the unknown type {str(kind)[:40]}")
    if not _naturals(shape) or len(cast("list[int]", shape)) > MAX_RANK:
        raise _bad(file, f"the shape of {short} is not a list of sizes")
    if not _naturals(span) or len(cast("list[int]", span)) != 2:
        raise _bad(file, f"the offsets of {short} are not two positions")
    extents = tuple(cast("list[int]", shape))
    begin, end = cast("list[int]", span)
    if not begin <= end <= room:
        raise _bad(file, f"{short} is at {begin}..{end}, outside the {room} bytes of data")
    size = _bytes_of(extents, ITEM_BYTES[kind], room)
    if size != end - begin:
        what = f"{kind}{list(extents)}" if len(extents) <= 8 else f"{kind} of {len(extents)} axes"
        raise _bad(file, f"{short} is {what} and {end - begin} bytes long, which do not agree")
    return Stored(name, kind, extents, file, data + begin, size)


def _naturals(value: object) -> bool:
    if not isinstance(value, list):
        return False
    items = cast("list[Any]", value)
    return all(type(v) is int and 0 <= v < 1 << 63 for v in items)


def _bytes_of(shape: tuple[int, ...], item: int, limit: int) -> int:
    """The size of a tensor, or `limit + 1` if it is larger; never an absurdly long number."""
    if 0 in shape:
        return 0
    total = item
    for extent in shape:
        total *= extent
        if total > limit:
            return limit + 1
    return total


def _check_coverage(file: Path, stored: list[Stored], data: int, room: int) -> None:
    """Tensors follow one another without overlap, gap or rest, as the format demands."""
    end = data
    before = "the header"
    for s in stored:
        if s.begin < end:
            raise _bad(file, f"{s.name[:80]} overlaps {before[:80]}")
        if s.begin > end:
            raise _bad(file, f"{s.begin - end} bytes before {s.name[:80]} belong to no tensor")
        end, before = s.begin + s.size, s.name
    if end != data + room:
        raise _bad(file, f"{data + room - end} bytes at its end belong to no tensor")


def _map(stored: Stored) -> Array:
    """The tensor as a read-only view of the mapped file; copied only if it is not aligned."""
    dtype = np.dtype(OURS[stored.kind].numpy)
    if stored.size == 0:
        return np.zeros(stored.shape, dtype)
    if stored.file.stat().st_size < stored.begin + stored.size:
        raise _bad(stored.file, "it became shorter since it was opened")
    raw = np.memmap(stored.file, np.uint8, "r", stored.begin, (stored.size,))
    if stored.kind == "BOOL" and int(raw.max()) > 1:
        raise _bad(stored.file, f"{stored.name} is BOOL and holds bytes other than 0 and 1")
    array = raw.view(np.ndarray).view(dtype).reshape(stored.shape)
    return array if array.flags.aligned else array.copy()


# --- shards ---------------------------------------------------------------------------------------


def _open_index(file: Path) -> Weights:
    """model.safetensors.index.json: which shard holds which tensor."""
    index = _json_object(file, _bounded_text(file, MAX_HEADER))
    rows: object = index.get("weight_map")
    if not isinstance(rows, dict):
        raise _bad(file, "it has no weight_map")
    wanted = cast("dict[str, Any]", rows)
    headers: dict[str, dict[str, Stored]] = {}
    stored: dict[str, Stored] = {}
    for name, shard in wanted.items():
        if not isinstance(shard, str) or Path(shard).name != shard or shard in ("", ".", ".."):
            raise _bad(file, f"{name[:80]} is in {str(shard)[:80]!r}, which is no file beside it")
        if shard not in headers:
            part = file.parent / shard
            if not part.is_file():
                raise _bad(file, f"its shard {shard} is missing")
            headers[shard] = read_header(part)[0]
        if name not in headers[shard]:
            raise _bad(file, f"its shard {shard} does not hold {name[:80]}")
        stored[name] = headers[shard][name]
    return Weights(file, stored, _map, _config(file.parent), {})


# --- npz ------------------------------------------------------------------------------------------


_NPZ_ERRORS = (
    zipfile.BadZipFile,
    OSError,
    EOFError,
    KeyError,
    ValueError,
    SyntaxError,
    NotImplementedError,
    RuntimeError,
)


def _first_line(e: Exception) -> str:
    return (next(iter(str(e).splitlines()), "") or type(e).__name__)[:120]


def _open_npz(file: Path) -> Weights:
    """Arrays saved by numpy.savez; a compressed one may swell without bound and is refused."""
    stored: dict[str, Stored] = {}
    total = file.stat().st_size
    try:
        with zipfile.ZipFile(file) as archive:
            for info in archive.infolist():
                name = info.filename.removesuffix(".npy")
                if name in stored:
                    raise _bad(file, f"it holds {name[:80]} twice")
                if info.compress_type != zipfile.ZIP_STORED:
                    raise _bad(file, f"{name[:80]} is compressed; save it with numpy.savez")
                if info.file_size != info.compress_size or info.file_size > total:
                    raise _bad(file, f"{name[:80]} claims {info.file_size} bytes")
                stored[name] = _npy_entry(file, archive, info, name)
    except _NPZ_ERRORS as e:
        raise _bad(file, f"it is no npz file: {_first_line(e)}") from None
    return Weights(file, stored, lambda s: _read_npz(file, s), _config(file.parent), {})


def _npy_entry(file: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> Stored:
    with archive.open(info) as f:
        version = np.lib.format.read_magic(f)
        read = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, fortran, dtype = read(f)
        begin = f.tell()
    ours = of_numpy(dtype) if not dtype.hasobject and dtype.isnative else None
    kind = next((k for k, d in OURS.items() if d is ours), str(dtype))
    size = info.file_size - begin
    if math.prod(shape) * dtype.itemsize != size:
        raise _bad(file, f"{name[:80]} is {dtype}{list(shape)} and {size} bytes long")
    if fortran and len(shape) > 1:
        raise _bad(file, f"{name[:80]} is column-major; save numpy.ascontiguousarray of it")
    return Stored(name, kind, tuple(int(e) for e in shape), file, begin, size)


def _read_npz(file: Path, stored: Stored) -> Array:
    try:
        with np.load(file, allow_pickle=False) as archive:
            array = np.asarray(archive[stored.name])
    except _NPZ_ERRORS as e:
        raise _bad(file, f"{stored.name[:80]} cannot be read: {_first_line(e)}") from None
    array.flags.writeable = False
    return array


def _bad(file: Path, why: str) -> BadWeightsFile:
    return BadWeightsFile(file=str(file), why=why)
