"""Files of `torch.save`: a state_dict, nested ones included, whose tensors are mapped where they lie.

Promises that nothing in the file is run: torch is not imported, and a name of code that tensors do not
need is refused, by name. What it takes is what torch's own `weights_only` takes of tensors.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from lumigen.dtype import DType, bf16, boolean, f16, f32, f64, i8, i32, i64, u8
from lumigen.weights import archive
from lumigen.weights.pickled import SAVE_ALONE, Call, Global, Unpickler
from lumigen.weights.stored import MAX_RANK, StoredTensor, bad, shown

MAX_DEPTH = 32  # dicts and lists in one another
PICKLE = "data.pkl"

# dtypes by torch's name: bytes, and ours where we have one
TYPES: dict[str, tuple[int, DType | None]] = {
    "float32": (4, f32),
    "float64": (8, f64),
    "float16": (2, f16),
    "bfloat16": (2, bf16),
    "int64": (8, i64),
    "int32": (4, i32),
    "int16": (2, None),
    "int8": (1, i8),
    "uint8": (1, u8),
    "bool": (1, boolean),
    "complex64": (8, None),
    "complex128": (16, None),
    "uint16": (2, None),
    "uint32": (4, None),
    "uint64": (8, None),
    "float8_e4m3fn": (1, None),
    "float8_e5m2": (1, None),
    "float8_e4m3fnuz": (1, None),
    "float8_e5m2fnuz": (1, None),
    "float8_e8m0fnu": (1, None),
}
STORAGES: dict[str, str] = {
    "torch.FloatStorage": "float32",
    "torch.DoubleStorage": "float64",
    "torch.HalfStorage": "float16",
    "torch.BFloat16Storage": "bfloat16",
    "torch.LongStorage": "int64",
    "torch.IntStorage": "int32",
    "torch.ShortStorage": "int16",
    "torch.CharStorage": "int8",
    "torch.ByteStorage": "uint8",
    "torch.BoolStorage": "bool",
    "torch.ComplexFloatStorage": "complex64",
    "torch.ComplexDoubleStorage": "complex128",
    "torch.storage.UntypedStorage": "uint8",  # counted in bytes; the tensor knows its type
}


VALUES = frozenset(
    {
        *("torch.Tensor", "torch.nn.parameter.Parameter"),
        *(
            f"{m}.{n}"
            for m in ("builtins", "__builtin__")
            for n in ("int", "float", "list", "dict")
        ),
    }
)


@dataclass(frozen=True)
class _Storage:
    kind: str
    key: str
    begin: int
    size: int


@dataclass(frozen=True)
class _Tensor:
    storage: _Storage
    kind: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def is_pytorch(file: Path) -> bool:
    """Whether an archive is one of torch's."""
    return any(name.rpartition("/")[2] == PICKLE for name in archive.names(file))


def read_pytorch(file: Path) -> dict[str, StoredTensor]:
    """The tensors by name; those in dicts and lists inside have the keys before theirs, joined by dots."""
    if any(name.rpartition("/")[2] == "constants.pkl" for name in archive.names(file)):
        raise bad(file, "it is a program of TorchScript", SAVE_ALONE)
    remedy = "save it with torch.save"
    members = archive.members(file, "file of PyTorch", remedy)
    found = [m for n, m in members.items() if n.rpartition("/")[2] == PICKLE]
    if len(found) != 1:
        raise bad(file, f"it holds {len(found)} pickles called {PICKLE}")
    folder = found[0].name.removesuffix(PICKLE)
    with file.open("rb") as f:
        order = members.get(f"{folder}byteorder")
        if order is not None:
            f.seek(order.begin)
            if (text := f.read(min(order.size, 16))) != b"little":
                raise bad(
                    file, f"its bytes are in the order {text!r}, of which only little is read"
                )
        f.seek(found[0].begin)
        data = f.read(found[0].size)
    reader = _Reader(file, folder, members)
    value = Unpickler(file, data, reader.calls(), reader.known, reader.storage).run()
    return reader.named(value, 16 * len(data))


@dataclass(frozen=True)
class _Reader:
    file: Path
    folder: str
    members: dict[str, archive.Member]

    def calls(self) -> dict[str, Call]:
        """What a pickle may call."""
        rebuild = "torch._utils._rebuild_"
        return {
            "collections.OrderedDict": lambda args: _dict(*args),
            f"{rebuild}tensor": lambda args: self.tensor(*args[:4]),
            f"{rebuild}tensor_v2": lambda args: self.as_lies(self.tensor(*args[:4]), args[6:]),
            f"{rebuild}tensor_v3": lambda args: self.as_lies(
                self.tensor(*args[:4], dtype=args[6]), args[7:]
            ),
            f"{rebuild}parameter": lambda args: args[0],
            f"{rebuild}parameter_with_state": lambda args: args[0],
            "torch._tensor._rebuild_from_type_v2": self.rebuilt,
            "torch.Size": lambda args: tuple(args[0]) if args else (),
            "torch.device": lambda _: None,
            "__builtin__.set": lambda args: list(args[0]) if args else [],
            "builtins.set": lambda args: list(args[0]) if args else [],
            "_codecs.encode": lambda _: None,
            # what else checkpoints note beside their tensors
            "collections.Counter": lambda args: _dict(*args),
            "collections.defaultdict": lambda _: {},
            "numpy.dtype": lambda _: None,
            "numpy.core.multiarray.scalar": lambda _: None,
            "numpy._core.multiarray.scalar": lambda _: None,
        }

    def known(self, name: str) -> bool:
        """Whether a name may stand as a value: types of storages, of elements and of tensors."""
        if name in STORAGES or name in VALUES:
            return True
        return name.startswith("torch.") and name.removeprefix("torch.") in TYPES

    def as_lies(self, tensor: _Tensor, facts: tuple[Any, ...]) -> _Tensor:
        """The tensor, unless what torch notes of it says that its numbers are not those in memory."""
        noted: Any = facts[0] if facts else None
        if isinstance(noted, dict) and "neg" in noted:
            why = "it holds a view that torch negates when it reads it (`is_neg()`)"
            raise bad(self.file, why, "Save tensor.resolve_neg() instead.")
        return tensor

    def rebuilt(self, args: tuple[Any, ...]) -> Any:
        """A tensor of a class of its own is a tensor."""
        name = args[0]
        if not isinstance(name, Global):
            raise TypeError("no name")
        if name.name == "_rebuild_from_type_v2":
            raise ValueError("in itself")
        return self.calls()[str(name)](args[2])

    def storage(self, given: Any) -> _Storage:
        """('storage', type, key, device, count) as what the archive holds of it."""
        file = self.file
        match given:
            case ("storage", Global() as kind, str(key), str(), int(count), *_):
                pass
            case _:
                what = type(cast("object", given)).__name__
                raise bad(file, f"its pickle has a {what} for a storage of tensors")
        name = STORAGES.get(str(kind))
        member = self.members.get(f"{self.folder}data/{key}")
        if name is None or member is None:
            what = f"is of the type {kind}" if name is None else "is not in the archive"
            raise bad(file, f"its storage {key[:80]} {what}")
        size = count * TYPES[name][0]
        if count < 0 or size > member.size:
            why = f"its storage {key[:80]} claims {count} x {name}, in {member.size} bytes"
            raise bad(file, why)
        return _Storage(name, key, member.begin, size)

    def tensor(self, storage: Any, offset: Any, shape: Any, strides: Any, dtype: Any = None) -> Any:
        """A part of a storage."""
        if not isinstance(storage, _Storage) or not isinstance(dtype, Global | None):
            raise TypeError("no storage")
        kind = storage.kind if dtype is None else str(dtype).removeprefix("torch.")
        if kind not in TYPES:
            raise ValueError(f"no type {kind}")
        for value in (shape, strides):
            if not isinstance(value, tuple) or not all(
                type(v) is int and 0 <= v < 1 << 63 for v in cast("tuple[Any, ...]", value)
            ):
                raise TypeError("no sizes")
        if type(offset) is not int or offset < 0 or len(shape) != len(strides):
            raise TypeError("no place")
        if len(shape) > MAX_RANK:
            raise ValueError(f"{len(shape)} axes")
        return _Tensor(storage, kind, offset, shape, strides)

    def named(self, value: Any, limit: int) -> dict[str, StoredTensor]:
        """The tensors in dicts and lists; `limit` bounds how often shared ones are named."""
        if not isinstance(value, dict):
            what = (
                "one tensor without a name" if isinstance(value, _Tensor) else "no dict of tensors"
            )
            raise bad(self.file, f"it holds {what}", SAVE_ALONE)
        found: dict[str, StoredTensor] = {}
        spent = 0  # a pickle may hold one dict in many places: what is named is bounded by its size
        todo: list[tuple[str, Any, int]] = [("", value, 0)]
        while todo:
            name, item, depth = todo.pop()
            spent += 1 + len(name)
            if spent > limit or depth > MAX_DEPTH:
                too_deep = f"nests more than {MAX_DEPTH} dicts"
                why = too_deep if depth > MAX_DEPTH else "repeats itself without end"
                raise bad(self.file, f"its pickle {why}")
            if isinstance(item, _Tensor):
                if name in found:
                    raise bad(self.file, f"it holds {name[:80]} twice")
                found[name] = self.stored(name, item)
                continue
            prefix = f"{name}." if name else ""
            todo += [
                (f"{prefix}{key}", inner, depth + 1)
                for key, inner in _items(item)
                if isinstance(inner, dict | list | tuple | _Tensor)
            ]
        return found

    def stored(self, name: str, tensor: _Tensor) -> StoredTensor:
        """The tensor, checked against its storage."""
        item, dtype = TYPES[tensor.kind]
        count = math.prod(tensor.shape)
        short, storage = name[:80], tensor.storage
        room = storage.size // item - tensor.offset
        span = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.strides, strict=True))
        if count and (span > room or count * item >= 1 << 63):
            why = (
                f"{short} is {shown(tensor.kind, tensor.shape)} with strides {list(tensor.strides)[:8]} from "
                f"element {tensor.offset}, in a storage of {storage.size} bytes"
            )
            raise bad(self.file, why)
        begin = storage.begin + tensor.offset * item
        dense = _dense(tensor.shape)
        strides = None if tensor.strides == dense or count <= 1 else tensor.strides
        size = span * item if count else 0
        return StoredTensor(name, tensor.kind, tensor.shape, self.file, begin, size, dtype, strides)


def _items(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, dict):
        return cast("dict[Any, Any]", value).items()
    return enumerate(cast("list[Any]", value))


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def _dict(*args: Any) -> dict[Any, Any]:
    given: Any = args[0] if args else ()
    rows = cast("dict[Any, Any]", given).items() if isinstance(given, dict) else given
    return {key: value for key, value in rows if isinstance(key, str)}
