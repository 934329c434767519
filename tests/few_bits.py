"""Weights of few bits as checkpoints of Hugging Face and MLX hold them: the tensors, and by each format's formula what
they stand for.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]
Tensors = dict[str, Array]
ROWS, COLUMNS, SIZE = 32, 128, 32
GROUPS = COLUMNS // SIZE
RNG = np.random.default_rng(7)


def words(integers: Array, bits: int) -> Array:
    """Integers of a row as one long number, lowest first, in words of 32 bits."""
    out = np.zeros((len(integers), integers.shape[1] * bits // 32), np.uint32)
    for r, row in enumerate(integers):
        number = sum(int(v) << bits * i for i, v in enumerate(row))
        out[r] = [number >> 32 * i & 0xFFFFFFFF for i in range(out.shape[1])]
    return out


def drawn(high: int, shape: tuple[int, ...] = (ROWS, COLUMNS), low: int = 0) -> Array:
    return RNG.integers(low, high, shape)


def scales(*shape: int, dtype: Any = np.float16) -> Array:
    return (RNG.random(shape) * 0.02 + 0.001).astype(dtype)


def wide(x: Array, by: int = SIZE) -> Array:
    """What is of groups, for each column."""
    return np.repeat(x.astype(np.float32), by, axis=1)


def gptq(bits: int, order: Array | None = None, more: int = 1) -> tuple[Tensors, Array]:
    q, zeros, s = drawn(1 << bits), drawn((1 << bits) - 1, (ROWS, GROUPS)), scales(ROWS, GROUPS)
    groups = np.arange(COLUMNS) // SIZE if order is None else order
    meant = (q - (zeros + more)[:, groups]).astype(np.float32) * s.astype(np.float32)[:, groups]
    tensors = {
        "qweight": words(q, bits).T.view(np.int32),
        "qzeros": words(zeros.T, bits).view(np.int32),
        "scales": s.T,
        "g_idx": groups.astype(np.int32),
    }
    return tensors, meant


def awq() -> tuple[Tensors, Array]:
    q, zeros, s = drawn(16), drawn(16, (ROWS, GROUPS)), scales(ROWS, GROUPS)

    def interleaved(x: Array) -> Array:  # (n, ROWS)
        out = np.zeros((len(x), ROWS // 8), np.uint32)
        for place, column in enumerate((0, 2, 4, 6, 1, 3, 5, 7)):
            out |= x[:, column::8].astype(np.uint32) << np.uint32(4 * place)
        return out.view(np.int32)

    tensors = {"qweight": interleaved(q.T), "qzeros": interleaved(zeros.T), "scales": s.T}
    return tensors, (q - wide(zeros)).astype(np.float32) * wide(s)


def compressed_words(bits: int, zero: str = "") -> tuple[Tensors, Array]:
    middle = 1 << bits - 1
    q, s = drawn(1 << bits), scales(ROWS, GROUPS, dtype=ml_dtypes.bfloat16)
    zeros = drawn(middle, (ROWS, GROUPS), -middle) if zero else np.zeros((ROWS, GROUPS), np.int64)
    tensors = {
        "weight_packed": words(q, bits).view(np.int32),
        "weight_scale": s,
        "weight_shape": np.array([ROWS, COLUMNS], np.int64),
    }
    if zero == "packed":
        tensors["weight_zero_point"] = words((zeros + middle).T, bits).view(np.int32).T
    elif zero:
        tensors["weight_zero_point"] = zeros.astype(np.int8)
    return tensors, (q - middle - wide(zeros)).astype(np.float32) * wide(s)


def compressed_int(groups: int) -> tuple[Tensors, Array]:
    q, s = drawn(128, low=-128), scales(ROWS, groups, dtype=np.float32)
    zeros = drawn(9, (ROWS, groups), -9)
    tensors = {"weight": q.astype(np.int8), "weight_scale": s}
    tensors["weight_zero_point"] = zeros.astype(np.int8)
    by = COLUMNS // groups
    return tensors, (q - wide(zeros, by)).astype(np.float32) * wide(s, by)


def floats8(kind: Any, scale: str, *shape: int) -> tuple[Tensors, Array]:
    q = (RNG.standard_normal((ROWS, COLUMNS)) * 20).astype(kind)
    s = scales(*shape, dtype=np.float32)
    tiles = s.reshape(len(s), -1)
    every = np.repeat(tiles, ROWS // len(tiles), 0)
    every = np.repeat(every, COLUMNS // tiles.shape[1], 1)
    return {"weight": q, scale: s}, q.astype(np.float32) * every


def renamed(made: tuple[Tensors, Array]) -> tuple[Tensors, Array]:
    """As torchao calls its tensors."""
    names = {"weight": "qdata", "weight_scale": "scale", "weight_zero_point": "zero_point"}
    return {f"_weight_{names[n]}": a for n, a in made[0].items()}, made[1]


def int4_pairs() -> tuple[Tensors, Array]:
    q, s = drawn(8, low=-8), scales(ROWS, GROUPS)
    zeros = (RNG.standard_normal((ROWS, GROUPS)) * 0.1).astype(np.float16)
    pairs = (q[:, ::2] & 15 | (q[:, 1::2] & 15) << 4).astype(np.uint8)
    tensors = {"weight": pairs, "weight_scale": s.T, "weight_zero_point": zeros.T}
    return renamed((tensors, q.astype(np.float32) * wide(s) + wide(zeros)))


def nvfp4() -> tuple[Tensors, Array]:
    q = drawn(16)
    s = (RNG.random((ROWS, COLUMNS // 16)) * 300).astype(ml_dtypes.float8_e4m3fn)
    total = np.array([1234.5], np.float32)
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
    meant = np.where(q < 8, 1, -1) * values[q % 8]
    tensors = {
        "weight_packed": (q[:, ::2] | q[:, 1::2] << 4).astype(np.uint8),
        "weight_scale": s,
        "weight_global_scale": total,
    }
    return tensors, meant.astype(np.float32) * wide(s.astype(np.float32) / total, 16)


def mxfp4() -> tuple[Tensors, Array]:
    q, e = drawn(16), drawn(140, (ROWS, GROUPS), 110)
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
    meant = np.where(q < 8, 1, -1).astype(np.float32) * values[q % 8] * wide(2.0 ** (e - 127.0))
    pairs = (q[:, ::2] | q[:, 1::2] << 4).astype(np.uint8)
    return {"weight_packed": pairs, "weight_scale": e.astype(np.uint8)}, meant


def nf4(*, nested: bool) -> tuple[Tensors, Array]:
    q, table = drawn(16), np.sort(RNG.standard_normal(16)).astype(np.float32)
    flat = q.reshape(-1)
    greatest = scales(ROWS * COLUMNS // 64, dtype=np.float32)
    state: dict[str, Any] = {"quant_type": "nf4", "blocksize": 64, "shape": [ROWS, COLUMNS]}
    tensors: Tensors = {"weight": (flat[::2] << 4 | flat[1::2]).astype(np.uint8)[:, None]}
    if nested:
        codes = drawn(256, greatest.shape)
        inner = np.sort(RNG.standard_normal(256)).astype(np.float32)
        outer = scales(2, dtype=np.float32)
        greatest = inner[codes] * np.repeat(outer, 32) + np.float32(0.25)
        state |= {"nested_blocksize": 32, "nested_offset": 0.25}
        tensors |= {
            "weight.absmax": codes.astype(np.uint8),
            "weight.nested_absmax": outer,
            "weight.nested_quant_map": inner,
        }
    else:
        tensors["weight.absmax"] = greatest
    tensors["weight.quant_map"] = table
    said = json.dumps(state).encode()
    tensors["weight.quant_state.bitsandbytes__nf4"] = np.frombuffer(said, np.uint8)
    return tensors, table[q] * np.repeat(greatest, 64).reshape(ROWS, COLUMNS)


def int8_rows() -> tuple[Tensors, Array]:
    q, greatest = drawn(128, low=-127).astype(np.int8), scales(ROWS, dtype=np.float32)
    meant = q.astype(np.float32) * greatest[:, None] * np.float32(1 / 127)
    return {"weight": q, "SCB": greatest}, meant


def mlx(bits: int) -> tuple[Tensors, Array]:
    q, s = drawn(1 << bits), scales(ROWS, GROUPS)
    biases = (RNG.standard_normal((ROWS, GROUPS)) * 0.1).astype(np.float16)
    tensors = {"weight": words(q, bits), "scales": s, "biases": biases}
    return tensors, wide(s) * q.astype(np.float32) + wide(biases)


GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": SIZE}
CT = {"quant_method": "compressed-tensors"}
AO = {"quant_method": "torchao"}
BNB = {"quant_method": "bitsandbytes"}
CASES: dict[str, tuple[dict[str, Any], Callable[[], tuple[Tensors, Array]]]] = {
    "gptq": (GPTQ, lambda: gptq(4)),
    "gptq2": (GPTQ | {"bits": 2}, lambda: gptq(2)),
    "gptq3": (GPTQ | {"bits": 3}, lambda: gptq(3)),
    "gptq8": (GPTQ | {"bits": 8}, lambda: gptq(8)),
    "gptq_v2": (GPTQ | {"checkpoint_format": "gptq_v2"}, lambda: gptq(4, more=0)),
    "gptq-order": (
        GPTQ | {"desc_act": True},
        lambda: gptq(4, RNG.permutation(np.arange(COLUMNS) // SIZE)),
    ),
    "awq": ({"quant_method": "awq", "bits": 4, "group_size": SIZE}, awq),
    "words4": (CT, lambda: compressed_words(4)),
    "words3": (CT, lambda: compressed_words(3)),
    "words8": (CT, lambda: compressed_words(8)),
    "words4-zeros": (CT, lambda: compressed_words(4, "packed")),
    "words4-bytes": (CT, lambda: compressed_words(4, "bytes")),
    "int8": (CT, lambda: compressed_int(1)),
    "int8-groups": (CT, lambda: compressed_int(GROUPS)),
    "f8": (CT, lambda: floats8(ml_dtypes.float8_e4m3fn, "weight_scale", ROWS, 1)),
    "f8-one": (CT, lambda: floats8(ml_dtypes.float8_e4m3fn, "weight_scale", 1)),
    "f8-tiles": (
        {"quant_method": "fp8"},
        lambda: floats8(ml_dtypes.float8_e4m3fn, "weight_scale_inv", 2, 4),
    ),
    "f8-e5m2": (CT, lambda: floats8(ml_dtypes.float8_e5m2, "weight_scale", ROWS, 1)),
    "nvfp4": (CT, nvfp4),
    "mxfp4": (CT, mxfp4),
    "ao-int8": (AO, lambda: renamed(compressed_int(GROUPS))),
    "ao-f8": (
        AO,
        lambda: renamed(floats8(ml_dtypes.float8_e4m3fn, "weight_scale", ROWS, 1)),
    ),
    "ao-int4": (AO, int4_pairs),
    "nf4": (BNB, lambda: nf4(nested=False)),
    "nf4-nested": (BNB, lambda: nf4(nested=True)),
    "bnb-int8": (BNB, int8_rows),
    **{
        f"mlx{b}": ({"bits": b, "group_size": SIZE}, lambda b=b: mlx(b)) for b in (2, 3, 4, 5, 6, 8)
    },
}
