"""Opened weights: tensors by name, the configuration beside them, and what becomes of them in a model.

Promises that the error for a missing name lists those that are near, and that nothing is converted
but floats of 16 and 32 bits into one another.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from lumigen.dtype import DType, bf16, f16, f32, f64, of_numpy
from lumigen.errors import BadArgument, UnknownWeight, WeightMismatch, WeightOverflow
from lumigen.tokenizer import Tokenizer
from lumigen.weights.config import Config, Supported, checked
from lumigen.weights.formats import Arithmetic, Fields, Packed, stacked
from lumigen.weights.stored import Array, Refused, StoredTensor, bad, mapped, shown

CONVERTED = (f16, bf16, f32)  # a file may hold any of them where a model reads another
PYTORCHS = {
    f16: "half",
    bf16: "bfloat16",
    f32: "float",
    f64: "double",
}  # methods that convert a tensor


@dataclass(frozen=True)
class Alias:
    """Another name of a tensor, under which it has `shape`; `arrange` makes it so.

    It moves rows, unless it is transposed.
    """

    stored: str
    shape: tuple[int, ...]
    arrange: Callable[[Array], Array]
    is_transposed: bool = False


class Weights:
    """An opened file of weights: tensors by name, and the configuration beside them.

    `config` is the model's configuration by the keys of Hugging Face, `metadata` what the file says
    of itself. A file of GGUF has its own names, and those of Hugging Face as well (see `open_weights`).
    `packed` are tensors that are stored as fields of few bits: they have the names of what they stand for.
    `stacks` are tensors along whose first axis others lie, by the names of these.
    """

    def __init__(
        self,
        path: Path,
        stored: Mapping[str, StoredTensor],
        config: Mapping[str, Any],
        metadata: Mapping[str, Any],
        load: Callable[[StoredTensor], Array] | None = None,
        aliases: Mapping[str, Alias] | None = None,
        tokenizer: Callable[[], Tokenizer | None] | None = None,
        config_file: Path | None = None,
        packed: Mapping[str, Packed] | None = None,
        stacks: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self.path = path
        self.config = dict(config)
        self.metadata = dict(metadata)
        self._stored = dict(stored)
        self._added: dict[str, Array] = {}
        self._packed = dict(packed or {})
        self._fields: dict[str, tuple[str, Packed]] = {}
        self._stacks = dict(stacks or {})
        self._config_file = config_file or path
        self._load = load or mapped
        self._tokenizer = tokenizer
        self._aliases = {k: a for k, a in (aliases or {}).items() if k not in self._stored}

    def config_for(self, *model_types: str, supported: Supported | None = None) -> Config:
        """The configuration, for a model that computes checkpoints of these types.

        `supported` has for keys (`key`, or `table.key`) the values that the model computes, each of a list; a
        key that is left out has the family's usual one. BadWeightsFile for a type or a value that is not among
        them, and when a key is read that is not there.
        """
        return checked(self.config, self._config_file, model_types, supported or {})

    def beside(self, arrays: Mapping[str, Array]) -> Weights:
        """These weights, with arrays that are in no file, under names of their own."""
        found = copy.copy(self)
        vars(found)["_added"] = {**self._added, **arrays}
        return found

    def packed(self, name: str) -> Packed | None:
        """A tensor as the fields that it is stored in; None for one that is stored as it is."""
        if name in self._added:
            return None
        if name in self._stacks:
            return stacked([self.packed(part) for part in self._stacks[name]])
        alias = self._aliases.get(name)
        found = self._packed.get(name if alias is None else alias.stored)
        return found if found is None or alias is None else _arranged(found, alias)

    def in_fields(self, chosen: Mapping[str, Packed]) -> Weights:
        """These weights, with the fields of some as tensors of their own: `weight.scales` and so on."""
        found = copy.copy(self)
        fields = {
            f"{n}.{field}": (n, packed) for n, packed in chosen.items() for field in packed.fields
        }
        vars(found)["_fields"] = {**self._fields, **fields}
        return found

    def __repr__(self) -> str:
        return f"Weights({str(self.path)!r}, {len(self._stored)} tensors)"

    @property
    def names(self) -> tuple[str, ...]:
        """All names in the file, sorted."""
        return tuple(sorted(self._stored))

    @property
    def packed_names(self) -> tuple[str, ...]:
        """The names of what tensors in few bits stand for, sorted."""
        return tuple(sorted(self._packed))

    @property
    def aliases(self) -> tuple[str, ...]:
        """The other names that tensors go by, sorted."""
        return tuple(sorted((*self._aliases, *self._stacks)))

    def stored_names(self, name: str) -> tuple[str, ...]:
        """The names in the file of what a tensor that goes by this one is made of; any other name as it is."""
        if name in self._fields:
            return self.stored_names(self._fields[name][0])
        if name in self._stacks:
            return tuple(n for part in self._stacks[name] for n in self.stored_names(part))
        alias = self._aliases.get(name)
        stored = name if alias is None else alias.stored
        return self._packed[stored].sources if stored in self._packed else (stored,)

    @functools.cached_property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer in the file's metadata, or of the tokenizer.json beside it; None if there is none.

        Plain data, see `lumigen.tokenizer`, which has `encode` and `decode` for it.

        BadWeightsFile where there is one that cannot be read.
        """
        return None if self._tokenizer is None else self._tokenizer()

    def __contains__(self, name: object) -> bool:
        places = (
            self._stored,
            self._aliases,
            self._added,
            self._packed,
            self._fields,
            self._stacks,
        )
        return any(name in place for place in places)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self._stored)

    def __getitem__(self, name: str) -> Array:
        """The tensor; read-only, a view of the mapped file where the format allows."""
        if name in self._added:
            return self._added[name]
        if name in self._fields:
            weight, packed = self._fields[name]
            return _finite(packed.read(name.removeprefix(f"{weight}.")), name, self.path)
        if name in self._stacks:
            return self._stack(name)
        alias = self._aliases.get(name)
        held = self._packed.get(name if alias is None else alias.stored)
        if held is None:
            self.dtype(name)
            array = self._load(self._find(name))
        else:
            array = held.decoded()
            array.flags.writeable = False
        return array if alias is None else alias.arrange(array)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape; UnknownWeight, with the closest names, where there is no such tensor."""
        if name in self._added:
            return self._added[name].shape
        if (field := self._field(name)) is not None:
            return field[0]
        if (packed := self.packed(name)) is not None:
            return packed.shape
        if name in self._stacks:
            parts = self._stacks[name]
            return (len(parts), *self.shape(parts[0]))
        alias = self._aliases.get(name)
        return self._find(name).shape if alias is None else alias.shape

    def dtype(self, name: str) -> DType:
        """The dtype; BadWeightsFile where we have none for the file's."""
        if name in self._added and (added := of_numpy(self._added[name].dtype)) is not None:
            return added
        if (field := self._field(name)) is not None:
            return field[1]
        if self.packed(name) is not None:
            return f32
        if name in self._stacks:
            return self.dtype(self._stacks[name][0])
        stored = self._find(name)
        if stored.dtype is None:
            short = name[:80]
            raise bad(stored.file, f"{short} is of type {stored.kind}, which is not supported")
        return stored.dtype

    def has_supported_dtype(self, name: str) -> bool:
        """Whether there is a dtype of ours for the tensor's."""
        if name in self._stacks:
            return all(self.has_supported_dtype(part) for part in self._stacks[name])
        return self.packed(name) is not None or self._find(name).dtype is not None

    def _field(self, name: str) -> tuple[tuple[int, ...], DType] | None:
        if name not in self._fields:
            return None
        weight, packed = self._fields[name]
        return packed.fields[name.removeprefix(f"{weight}.")]

    def _find(self, name: str) -> StoredTensor:
        alias = self._aliases.get(name)
        found = self._stored.get(name if alias is None else alias.stored)
        if found is None:
            there = [*self._stored, *self._packed, *self._aliases, *self._stacks]
            raise missing(name, str(self.path), there)
        return found

    def _stack(self, name: str) -> Array:
        """Its parts, one after the other; they must agree."""
        parts = self._stacks[name]
        shape, dtype = self.shape(parts[0]), self.dtype(parts[0])
        for part in parts:
            if (self.shape(part), self.dtype(part)) != (shape, dtype):
                found, wanted = (
                    shown(str(self.dtype(part)), self.shape(part)),
                    shown(str(dtype), shape),
                )
                raise bad(self.path, f"{part[:80]} is {found}, and {parts[0][:80]} is {wanted}")
        found = np.empty((len(parts), *shape), dtype.numpy)
        for at, part in enumerate(parts):
            found[at] = self[part]
        found.flags.writeable = False
        return found


def _finite(field: Array, name: str, file: Path) -> Array:
    """A field of what a model will read; scales that are no numbers make none of anything."""
    kind = of_numpy(field.dtype)
    if kind is not None and kind.is_float and not np.isfinite(field.astype(np.float32)).all():
        at = np.argwhere(~np.isfinite(field.astype(np.float32)))[0].tolist()
        raise bad(file, f"{name[:80]}{at} is {field[tuple(at)]}, no finite number")
    return field


def _arranged(found: Packed, alias: Alias) -> Packed:
    """A tensor in fields under another name: rows of fields are moved as those of the tensor are."""
    if alias.is_transposed:

        def values(fields: Fields, ops: Arithmetic) -> Any:
            return found.values(fields, ops).T

        return replace(found, shape=alias.shape, values=values)

    def read(name: str) -> Array:
        array = found.read(name)
        return alias.arrange(array) if name not in found.shared else array

    return replace(found, read=read)


def check_named(op: str, name: str, given: object, refused: Refused = BadArgument) -> None:
    """Weights are arrays by name, as a mapping or opened."""
    if not isinstance(given, Mapping | Weights):
        value = f"of type {type(given).__name__}"
        expected = "arrays by name, as a state_dict() has them, or lg.open_weights(FILE)"
        raise refused(op=op, name=name, value=value, expected=expected)


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
    """A weight as a model declares it: f16, bf16 and f32 are converted.

    WeightMismatch for any other, WeightOverflow where a finite number becomes infinite.
    """
    check_fit(of_numpy(array.dtype) or str(array.dtype), array.shape, name, dtype, shape, source)
    found = rounded(array, dtype)
    if dtype is f16 and found is not array:
        _refuse_overflow(array, found, name, source)
    return found


def check_fit(
    kind: DType | str,
    found: tuple[int, ...],
    name: str,
    dtype: DType,
    shape: tuple[int, ...],
    source: str,
) -> None:
    """WeightMismatch for a tensor of a `kind` and a shape that is no weight of `dtype` and `shape`."""
    fits = kind is dtype or (kind in CONVERTED and dtype in CONVERTED)
    if fits and found == shape:
        return
    remedy = "Pass the file that belongs to this model, or change the declaration."
    if isinstance(kind, DType) and kind.is_float and dtype.is_float and found == shape:
        remedy = (
            f"Save the file in {dtype}, from PyTorch's state_dict by "
            f"{{k: v.{PYTORCHS[dtype]}() for k, v in state.items()}}, or compute in {kind} "
            f"as well: net.to(lg.{kind}) before lg.Model(..., net)."
        )
    raise WeightMismatch(
        name=name,
        file=source,
        got=f"{kind}[{', '.join(map(str, found))}]",
        expected=f"{dtype}[{', '.join(map(str, shape))}]",
        remedy=remedy,
    )


def _refuse_overflow(array: Array, found: Array, name: str, source: str) -> None:
    became = np.isinf(found)
    if not became.any():
        return
    wide = np.abs(array[became].astype(np.float32))
    lost = wide[np.isfinite(wide)]
    if lost.size:
        value, greatest = f"{lost.max():g}", f"{np.finfo(np.float16).max:g}"
        raise WeightOverflow(name=name, file=source, value=value, dtype=f16, greatest=greatest)


def rounded(weight: Array, dtype: DType) -> Array:
    """A weight of f16, bf16 or f32 in another of them; any other as it is.

    Nothing is lost in f32; else the nearest number is taken, the even one between two.
    """
    found = of_numpy(weight.dtype)
    if found is dtype or found not in CONVERTED or dtype not in CONVERTED:
        return weight
    with np.errstate(all="ignore"):  # what is too great becomes infinite, NaN stays
        return weight.astype(np.float32).astype(dtype.numpy)
