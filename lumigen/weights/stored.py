"""A tensor in a file: where its bytes are, what they are called, and the view of them.

Promises that a view is read-only, lies inside the file as it is now, and is a copy only where it must be.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lumigen.dtype import DType, bf16, boolean
from lumigen.errors import BadArgument, BadWeightsFile, LumigenError

Array = npt.NDArray[Any]
# makes a BadArgument, perhaps with the user's line
Refused: TypeAlias = Callable[..., LumigenError]

MAX_RANK = 64


def as_array(value: Any) -> Array:
    """An array, or torch's tensor, as numpy's; bfloat16 of torch by its bits, which numpy lacks."""
    if hasattr(value, "detach"):
        value = value.detach().resolve_conj().resolve_neg().cpu()
        if str(value.dtype) == "torch.bfloat16":
            bits: Any = value.view(import_module("torch").int16).numpy()
            return bits.view(bf16.numpy)
    return np.asarray(value)


def named_array(op: str, name: object, value: Any, refused: Refused = BadArgument) -> Array:
    """`as_array` of a row of a table of weights; what has no numbers in memory is refused by its name."""
    reason: Exception | None = None
    if isinstance(name, str):
        try:
            return as_array(value)
        # torch's, of what is sparse or has no data
        except (TypeError, ValueError, RuntimeError) as e:
            reason = e
    facts = [str(getattr(value, a)) for a in ("dtype", "layout", "device") if hasattr(value, a)]
    shown = f"{name!r}: a {type(value).__name__}" + (f" ({' '.join(facts)})" if facts else "")
    expected = "names with dense arrays or tensors in memory, as a state_dict() has them"
    raise refused(op=op, name="weights", value=shown, expected=expected) from reason


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in a file: `kind` is the format's dtype, `begin` where its bytes are.

    `dtype` is ours, as the tensor is read; None where there is none. `strides`, in elements, are
    those of a part of other data; row-major without them.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    file: Path
    begin: int
    size: int
    dtype: DType | None
    strides: tuple[int, ...] | None = None


COMPARE = "Compare the file with its original, and fetch it again if they differ."


def bad(file: Path, why: str, remedy: str = COMPARE) -> BadWeightsFile:
    """The error for a file that is not what it says; `why` is a clause, `remedy` a sentence."""
    return BadWeightsFile(file=str(file), why=why, remedy=remedy)


def bytes_of(shape: tuple[int, ...], item: int, limit: int) -> int:
    """The size of a tensor, in the unit of an item's, or `limit + 1` if it is larger; never an absurdly long number."""
    if 0 in shape:
        return 0
    total = item
    for extent in shape:
        total *= extent
        if total > limit:
            return limit + 1
    return total


def shown(kind: str, shape: tuple[int, ...]) -> str:
    """A type and a shape for errors, short whatever they are."""
    return f"{kind}{list(shape)}" if len(shape) <= 8 else f"{kind} of {len(shape)} axes"


def mapped_bytes(stored: StoredTensor) -> npt.NDArray[np.uint8]:
    """The bytes of a tensor, as a read-only view of the mapped file."""
    if stored.size == 0:
        return np.zeros(0, np.uint8)
    if stored.file.stat().st_size < stored.begin + stored.size:
        raise bad(stored.file, "it became shorter since it was opened")
    raw = np.memmap(stored.file, np.uint8, "r", stored.begin, (stored.size,))
    return raw.view(np.ndarray)


def mapped(stored: StoredTensor) -> Array:
    """The tensor as a read-only view of the mapped file; copied only if it is not aligned."""
    assert stored.dtype is not None
    dtype = np.dtype(stored.dtype.numpy)
    if math.prod(stored.shape) == 0:
        return np.zeros(stored.shape, dtype)
    raw = mapped_bytes(stored)
    if stored.dtype is boolean and int(raw.max()) > 1:
        why = f"{stored.name[:80]} is {stored.kind} and holds bytes other than 0 and 1"
        raise bad(stored.file, why)
    flat = raw.view(dtype)
    if not flat.flags.aligned:
        flat = flat.copy()
        flat.flags.writeable = False
    if stored.strides is None:
        return flat.reshape(stored.shape)
    steps = tuple(s * dtype.itemsize for s in stored.strides)
    return np.lib.stride_tricks.as_strided(flat, stored.shape, steps, writeable=False)
