"""packed: what checkpoints of Hugging Face and MLX hold instead of a weight: words of small integers, scales, zeros.

Each row of METHODS is a way that a `quantization_config` names. Promises for each of them that the tensors it reads
agree with one another, and one message where they do not. Integers come out of words when a field is read, and lie
in planes of their group then; scales, zeros and minima are the file's own numbers.

* GPTQ: (integer - zero - 1) * scale; with an order of its own (`desc_act`) an input names its group
* AWQ: (integer - zero) * scale, eight columns in a word as AutoAWQ interleaves them
* compressed-tensors: (integer - zero) * scale, or a float of 8 bits * scale, or of 4 bits with a scale of scales
* torchao: (integer - zero) * scale, integer of 4 bits * scale + zero, or a float of 8 bits * scale
* bitsandbytes: a codebook's number * the greatest magnitude of its block; or an integer of 8 bits * that of a row / 127
* MLX: integer * scale + bias
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from lumigen.dtype import DType, bf16, boolean, f16, f32, f64, i8, i32, i64, of_numpy, u8
from lumigen.weights.formats import (
    E4M3,
    E5M2,
    Arithmetic,
    Blocks,
    Fields,
    Packed,
    Plane,
    planes_of,
)
from lumigen.weights.stored import Array, StoredTensor, bad, mapped_bytes

Tensors = Mapping[str, StoredTensor]
Shape = tuple[int, ...]
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # which column the integers of a word are of
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)
# what numpy reads a type of safetensors as
KINDS = {"U32": np.uint32, "I32": np.int32, "I64": np.int64, "U8": np.uint8, "I8": np.int8}
FLOATS = {"F32": np.float32, "F16": np.float16, "BF16": bf16.numpy}
BYTES_8 = {"F8_E4M3": E4M3, "F8_E5M2": E5M2}
PLAIN = (f16, bf16, f32, f64, i64, boolean)  # what no quantised weight is made of alone


@dataclass(frozen=True)
class WeightParts:
    """The tensors of one weight, by the part of their names that follows its own."""

    file: Path
    name: str
    parts: Tensors

    def read(self, part: str) -> Array:
        """A part, as numpy has it; floats of 8 bits as bytes."""
        stored = self.parts[part]
        kind: Any = (KINDS | FLOATS | dict.fromkeys(BYTES_8, np.uint8)).get(stored.kind)
        if kind is None:
            raise self.wrong(f"{stored.name[:80]} is of type {stored.kind}, which is not supported")
        return mapped_bytes(stored).view(kind).reshape(stored.shape)

    def shape(self, part: str) -> Shape:
        return self.parts[part].shape

    def wrong(self, why: str) -> Exception:
        return bad(self.file, why, "Convert the model again, or pass its floats.")

    def refused(self, part: str, expected: str) -> Exception:
        stored = self.parts[part]
        return self.wrong(
            f"{stored.name[:80]} is {stored.kind}{list(stored.shape)}, must be {expected}"
        )

    def float_of(self, part: str) -> DType:
        """The dtype of a part that holds floats."""
        found = of_numpy(FLOATS[k]) if (k := self.parts[part].kind) in FLOATS else None
        if found is None:
            raise self.refused(part, "of floats")
        return found

    def packed(
        self, kind: str, shape: Shape, blocks: Blocks, fields: Mapping[str, Reader]
    ) -> Packed:
        """A weight in blocks."""
        sources = tuple(s.name for s in self.parts.values())
        return blocks.packed(kind, shape, lambda field: fields[field](), sources)

    def group_size(self, columns: int, groups: int) -> int:
        """Of how many columns each group is."""
        size = columns // groups if groups else 0
        if not size or size * groups != columns or size % 8:
            raise self.wrong(
                f"{self.name[:80]} has {columns} columns in {groups} groups, which are no multiples of 8"
            )
        return size


Reader = Callable[[], Array]


def unpacked(words: Array, bits: int) -> Array:
    """(rows, words) -> (rows, integers) in u8: a row is a string of bits, lowest first."""
    data = np.ascontiguousarray(words).view(np.uint8).reshape(len(words), -1)
    if 8 % bits == 0:
        shifts = np.arange(0, 8, bits, dtype=np.uint8)
        return (data[:, :, None] >> shifts & ((1 << bits) - 1)).reshape(len(data), -1)
    single = np.unpackbits(data, axis=1, bitorder="little")
    whole = single[:, : single.shape[1] // bits * bits].reshape(len(data), -1, bits)
    return np.packbits(whole, axis=2, bitorder="little")[..., 0]


def affine(bits: int, size: int, scale: DType, **more: Any) -> Blocks:
    """Blocks of unsigned integers in groups of `size` columns."""
    return Blocks(size, planes_of(bits, size), scale=scale, **more)


def _planes(blocks: Blocks, integers: Reader) -> dict[str, Reader]:
    """The fields that integers (rows, columns) become, each where it is read."""

    def plane(name: str) -> Array:
        return blocks.planed(integers().reshape(-1, blocks.items))[name]

    return {name: partial(plane, name) for name in ("quants", "high")}


# --- GPTQ -----------------------------------------------------------------------------------------


def gptq(g: WeightParts, config: Mapping[str, Any]) -> Packed:
    """Of `qweight` (inputs, outputs) and `qzeros` (groups, outputs) in words, and `scales` (groups, outputs)."""
    bits = _bits_of(g, config, (2, 3, 4, 8))
    words, rows = _words(g, "qweight")
    columns, (groups, _) = words * 32 // bits, _matrix(g, "scales")
    _check(g, "scales", (groups, rows))
    _check(g, "qzeros", (groups, rows * bits // 32))
    more = 0 if config.get("checkpoint_format") == "gptq_v2" else 1

    def integers() -> Array:
        return unpacked(g.read("qweight").T, bits)

    def zeros() -> Array:
        return (unpacked(g.read("qzeros"), bits) + np.uint8(more) & ((1 << bits) - 1)).T

    scale = g.float_of("scales")
    order = g.read("g_idx") if "g_idx" in g.parts else None
    if order is not None and (
        order.shape != (columns,) or order.min() < 0 or order.max() >= groups
    ):
        raise g.refused("g_idx", f"{columns} numbers of {groups} groups")
    given: dict[str, Reader] = {"scales": lambda: g.read("scales").T, "zeros": zeros}
    if order is None or np.array_equal(order, np.arange(columns) // -(-columns // groups)):
        blocks = affine(bits, g.group_size(columns, groups), scale, zeros=u8)
        return g.packed(f"gptq{bits}", (rows, columns), blocks, given | _planes(blocks, integers))
    return _in_order(g, bits, (rows, columns), scale, given | {"order": lambda: order}, integers)


def _in_order(
    g: WeightParts,
    bits: int,
    shape: Shape,
    scale: DType,
    given: dict[str, Reader],
    integers: Reader,
) -> Packed:
    """Columns that each name their group."""
    rows, columns = shape
    groups = g.shape("scales")[0]
    if columns % 32:
        raise g.wrong(f"{g.name[:80]} has {columns} columns, no multiple of 32")
    whole = Blocks(32, planes_of(bits, 32), scale=scale)
    fields = {n: f for n, f in whole.fields_of(shape).items() if n != "scales"}
    fields |= {
        "scales": ((rows, groups), scale),
        "zeros": ((rows, groups), u8),
        "order": ((columns,), i32),
    }
    readers = given | _planes(whole, integers)

    def values(fields: Fields, ops: Arithmetic) -> Any:
        found = whole.integers(fields, ops).reshape(-1, columns)
        zeros, scales = (
            ops.columns(ops.floats(fields[n]), fields["order"]) for n in ("zeros", "scales")
        )
        return (found - zeros) * scales

    def read(name: str) -> Array:
        return np.ascontiguousarray(readers[name]()).reshape(fields[name][0])

    sources = tuple(s.name for s in g.parts.values())
    return Packed(f"gptq{bits}", shape, fields, values, read, sources, ("order",))


# --- AWQ ------------------------------------------------------------------------------------------


def awq(g: WeightParts, config: Mapping[str, Any]) -> Packed:
    """Of `qweight` (inputs, outputs / 8), `qzeros` (groups, outputs / 8), `scales` (groups, outputs)."""
    _bits_of(g, config, (4,))
    version = str(config.get("version", "gemm")).lower()
    if version != "gemm":
        raise g.wrong(f"its version of AWQ is {version[:20]}, gemm is read")
    columns, words = _words(g, "qweight")
    rows, (groups, _) = words * 8, _matrix(g, "scales")
    _check(g, "scales", (groups, rows))
    _check(g, "qzeros", (groups, rows // 8))
    blocks = affine(4, g.group_size(columns, groups), g.float_of("scales"), zeros=u8)

    def integers(part: str) -> Array:
        words = unpacked(g.read(part), 4).reshape(-1, rows // 8, 8)
        return words[:, :, np.argsort(AWQ_ORDER)].reshape(-1, rows).T

    fields = {"scales": lambda: g.read("scales").T, "zeros": lambda: integers("qzeros")}
    fields |= _planes(blocks, lambda: integers("qweight"))
    return g.packed("awq4", (rows, columns), blocks, fields)


# --- compressed-tensors ---------------------------------------------------------------------------


def compressed(g: WeightParts, config: Mapping[str, Any]) -> Packed:
    """Of `weight_packed` or `weight`, with `weight_scale`, and perhaps `weight_zero_point` and a scale of scales."""
    if _is_rotated(config.get("transform_config")):
        raise g.wrong(
            "its transform_config rotates activations as the model runs, as no model here"
        )
    if "weight_global_scale" in g.parts:
        return _nvfp4(g)
    if "weight_packed" in g.parts:
        return (_mxfp4 if g.parts["weight_packed"].kind == "U8" else _compressed_words)(g)
    if g.parts["weight"].kind in BYTES_8:
        return float8(g, "weight", "weight_scale")
    return int8(g, "weight", "weight_scale", "weight_zero_point")


def _is_rotated(said: Any) -> bool:
    """Whether anything but weights, which are stored rotated, is to be transformed; also where it is said otherwise."""
    try:
        groups = said["config_groups"].values() if said else ()
        places = {a["location"] for scheme in groups for a in scheme["apply"]}
    except (KeyError, TypeError, AttributeError):
        return True
    return not places <= {"weight_input", "weight_output"}


def int8(g: WeightParts, part: str, scale: str, zero: str) -> Packed:
    """Integers of 8 bits, less zeros if there are such, with scales of rows, of groups or one for all."""
    rows, columns = _matrix(g, part)
    size, scales = _scales(g, scale, rows, columns)
    if g.parts[part].kind != "I8":
        raise g.refused(part, "I8")
    if zero in g.parts and math.prod(g.shape(zero)) != rows * (columns // size):
        raise g.refused(zero, f"of {rows} rows in {columns // size} groups")
    blocks = Blocks(
        size,
        (Plane(8, size, is_signed=True),),
        scale=g.float_of(scale),
        zeros=i8 if zero in g.parts else None,
    )
    fields = {"quants": lambda: g.read(part), "scales": scales, "zeros": lambda: g.read(zero)}
    return g.packed("int8", (rows, columns), blocks, fields)


def _compressed_words(g: WeightParts) -> Packed:
    _check(g, "weight_shape", (2,))
    rows, columns = (int(n) for n in g.read("weight_shape"))
    words = _words(g, "weight_packed")
    bits = words[1] * 32 // columns if columns > 0 else 0
    if words[0] != rows or bits not in (1, 2, 3, 4, 5, 6, 8) or words[1] * 32 != columns * bits:
        raise g.refused("weight_packed", f"words of {rows} x {columns} integers")
    if "weight_g_idx" in g.parts and (g.read("weight_g_idx") >= 0).any():
        raise g.wrong(f"{g.name[:80]} has an order of its own, which is read of GPTQ alone")
    size, scales = _scales(g, "weight_scale", rows, columns)
    middle = 1 << bits - 1
    scale, groups = g.float_of("weight_scale"), columns // size

    def zeros() -> Array:
        stored = g.read("weight_zero_point")
        if stored.dtype == np.int32:  # packed along the rows
            return unpacked(stored.T, bits)[:, :rows].T
        return (stored.astype(np.int16) + middle).astype(np.uint8)

    if "weight_zero_point" in g.parts:
        blocks = affine(bits, size, scale, zeros=u8)
        if g.parts["weight_zero_point"].kind == "I32":
            _check(g, "weight_zero_point", (-(-rows * bits // 32), groups))
        else:
            _check(g, "weight_zero_point", (rows, groups))
    else:
        blocks = affine(bits, size, scale, zero=middle)
    fields = {"scales": scales, "zeros": zeros}
    fields |= _planes(blocks, lambda: unpacked(g.read("weight_packed"), bits))
    return g.packed(f"int{bits}", (rows, columns), blocks, fields)


def _scales(g: WeightParts, part: str, rows: int, columns: int) -> tuple[int, Reader]:
    """The columns of a scale, and the scales (rows, groups): of groups, of rows, or one for all."""
    shape = g.shape(part)
    if math.prod(shape) == 1:
        return columns, lambda: np.broadcast_to(g.read(part).reshape(1, 1), (rows, 1))
    if len(shape) == 1:
        shape = (*shape, 1)
    if len(shape) != 2 or shape[0] != rows:
        raise g.refused(part, f"a scale for each of {rows} rows, or for groups in them")
    return g.group_size(columns, shape[1]), lambda: g.read(part).reshape(shape)


def float8(g: WeightParts, part: str, scale: str) -> Packed:
    """Floats of 8 bits, with scales of rows, of groups, of tiles or one for all."""
    rows, columns = _matrix(g, part)
    if g.parts[part].kind not in BYTES_8:
        raise g.refused(part, " or ".join(BYTES_8))
    code, shape = BYTES_8[g.parts[part].kind], g.shape(scale)
    tiles = len(shape) == 2 and shape[0] not in (0, 1, rows)
    if tiles:
        high, size = -(-rows // shape[0]), g.group_size(columns, shape[1])

        def scales() -> Array:
            return np.repeat(g.read(scale), high, axis=0)[:rows]
    else:
        size, scales = _scales(g, scale, rows, columns)
    blocks = Blocks(size, (Plane(8, size),), scale=g.float_of(scale), code=code)

    def codes() -> Array:
        found = g.read(part)
        if ((found & 127) >= code.end).any():
            raise g.wrong(f"{g.name[:80]} holds codes of {g.parts[part].kind} that are no numbers")
        return found

    fields = {"quants": codes, "scales": scales}
    return g.packed(g.parts[part].kind.lower(), (rows, columns), blocks, fields)


def _mxfp4(g: WeightParts) -> Packed:
    """Floats of 4 bits, with a power of two for 32 of them, which bf16 holds: its exponent has as many bits."""
    rows, half = _matrix(g, "weight_packed")
    _check(g, "weight_scale", (rows, half // 16))
    blocks = Blocks(32, planes_of(4, 32), codebook=E2M1, scale=bf16)

    def scales() -> Array:
        e = g.read("weight_scale").astype(np.uint16)
        return np.where(e > 0, e << 7, 0x40).astype(np.uint16).view(bf16.numpy)

    fields: dict[str, Reader] = {"scales": scales}
    fields |= _planes(blocks, lambda: unpacked(g.read("weight_packed"), 4))
    return g.packed("mxfp4", (rows, 2 * half), blocks, fields)


def _nvfp4(g: WeightParts) -> Packed:
    """Floats of 4 bits: a scale in 8 bits for 16 of them, divided by one for all."""
    rows, half = _matrix(g, "weight_packed")
    columns = 2 * half
    _check(g, "weight_scale", (rows, columns // 16))
    if math.prod(g.shape("weight_global_scale")) != 1:
        raise g.refused("weight_global_scale", "one number")
    if g.parts["weight_scale"].kind != "F8_E4M3":
        raise g.refused("weight_scale", "F8_E4M3")
    blocks = Blocks(16, planes_of(4, 16))
    specs = blocks.fields_of((rows, columns)) | {
        "scales": ((rows, columns // 16), u8),
        "total": ((1,), f32),
    }
    planes = _planes(blocks, lambda: unpacked(g.read("weight_packed"), 4))

    def values(fields: Fields, ops: Arithmetic) -> Any:
        found = ops.lookup(E2M1, blocks.integers(fields, ops))
        scales = E4M3.values(ops.floats(fields["scales"]), ops) / fields["total"]
        return (found * scales[..., None, None]).reshape(-1, columns)

    def read(name: str) -> Array:
        if name == "scales":
            return g.read("weight_scale")
        if name == "total":
            total = g.read("weight_global_scale").reshape(1)
            if total[0] == 0:
                raise g.wrong(
                    f"{g.name[:80]}.weight_global_scale is 0, by which scales are divided"
                )
            return total
        return planes[name]().reshape(specs[name][0])

    sources = tuple(s.name for s in g.parts.values())
    return Packed("nvfp4", (rows, columns), specs, values, read, sources, ("total",))


# --- bitsandbytes ---------------------------------------------------------------------------------


def bitsandbytes(g: WeightParts, config: Mapping[str, Any]) -> Packed:
    """Of `weight` in bytes, `weight.absmax`, `weight.quant_map` and what is said of them; or with `SCB`."""
    del config
    if "SCB" in g.parts:
        return _of_rows(g)
    state = _state(g)
    shape, size = tuple(map(int, state["shape"])), int(state["blocksize"])
    if len(shape) != 2 or size <= 0 or shape[1] % size or size % 8:
        raise g.wrong(f"{g.name[:80]} is {list(shape)} in blocks of {size}, which cross its rows")
    if math.prod(g.shape("weight")) * 2 != math.prod(shape):
        raise g.refused("weight", f"{math.prod(shape) // 2} bytes")
    count = math.prod(shape) // size
    _check(g, "weight.absmax", (count,))
    _check(g, "weight.quant_map", (16,))
    nested = int(state.get("nested_blocksize", 0))
    if "weight.nested_absmax" in g.parts:
        _check(g, "weight.nested_quant_map", (256,))
        _check(g, "weight.nested_absmax", (-(-count // nested) if nested > 0 else 1,))
    table = tuple(float(v) for v in g.read("weight.quant_map"))
    blocks = Blocks(size, planes_of(4, size), codebook=table, scale=f32)

    def scales() -> Array:
        found = g.read("weight.absmax")
        if "weight.nested_absmax" not in g.parts:
            return found
        outer = np.repeat(g.read("weight.nested_absmax"), nested or count)
        inner = g.read("weight.nested_quant_map")[found]
        return inner * outer[: len(found)] + np.float32(state["nested_offset"])

    def integers() -> Array:
        data = g.read("weight").reshape(-1)
        return np.stack([data >> 4, data & 15], -1)

    fields: dict[str, Reader] = {"scales": scales}
    fields |= _planes(blocks, integers)
    return g.packed(str(state["quant_type"])[:8], shape, blocks, fields)


def _state(g: WeightParts) -> dict[str, Any]:
    """What is said of a weight: numbers, and its shape."""
    said = next((p for p in g.parts if p.startswith("weight.quant_state.")), "weight.quant_state")
    text = bytes(g.read(said))
    try:
        state = cast("dict[str, Any]", json.loads(text))
        numbers = [state["blocksize"], state.get("nested_blocksize", 0), *state["shape"]]
        known = all(isinstance(n, int) for n in numbers)
        known &= isinstance(state.get("nested_offset", 0.0), float | int)
    except (ValueError, TypeError, AttributeError, RecursionError):
        known, state = False, {}
    if not known:
        raise g.refused(said, "JSON with a shape and the sizes of blocks")
    return state


def _of_rows(g: WeightParts) -> Packed:
    """Integers of 8 bits, with the greatest magnitude of each row."""
    shape = _matrix(g, "weight")
    _check(g, "SCB", shape[:1])
    fields = {"quants": (shape, i8), "greatest": ((shape[0],), f32)}

    def values(fields: Fields, ops: Arithmetic) -> Any:
        scales = ops.floats(fields["greatest"])[..., None]
        return ops.floats(fields["quants"]) * scales * float(np.float32(1 / 127))

    def read(name: str) -> Array:
        return g.read("weight") if name == "quants" else g.read("SCB").astype(np.float32)

    return Packed("int8", shape, fields, values, read, tuple(s.name for s in g.parts.values()))


# --- torchao --------------------------------------------------------------------------------------


def torchao(g: WeightParts, config: Mapping[str, Any]) -> Packed:
    """Of `_weight_qdata`, with `_weight_scale` and perhaps `_weight_zero_point`: integers, or floats of 8 bits."""
    del config
    part, scale, zero = "_weight_qdata", "_weight_scale", "_weight_zero_point"
    kind = g.parts[part].kind
    if kind in BYTES_8:
        return float8(g, part, scale)
    if kind == "I8":
        return int8(g, part, scale, zero)
    rows, half = _matrix(g, part)
    groups, _ = _matrix(g, scale)
    if kind != "U8":
        raise g.refused(part, "I8, F8_E4M3, or two integers of 4 bits in U8")
    for of_groups in (scale, zero):
        _check(g, of_groups, (groups, rows))
    size = g.group_size(2 * half, groups)
    blocks = affine(4, size, g.float_of(scale), zero=8, has_minima=True)
    fields = {"scales": lambda: g.read(scale).T, "minima": lambda: g.read(zero).T}
    fields |= _planes(blocks, lambda: unpacked(g.read(part), 4) ^ 8)  # those have a sign
    return g.packed("int4", (rows, 2 * half), blocks, fields)


# --- MLX ------------------------------------------------------------------------------------------


def mlx(g: WeightParts, config: Mapping[str, Any]) -> Packed:
    """Of `weight` (rows, columns * bits / 32) in words, `scales` and `biases` (rows, groups)."""
    mine = config.get(g.name, {})
    config = {**config, **cast("dict[str, Any]", mine)} if isinstance(mine, dict) else config
    bits, size = _bits_of(g, config, (2, 3, 4, 5, 6, 8)), config.get("group_size", 64)
    rows, words = _words(g, "weight")
    columns = words * 32 // bits
    if not isinstance(size, int) or size < 8 or columns % size:
        raise g.wrong(f"{g.name[:80]} has {columns} columns, which groups of {size} do not divide")
    for part in ("scales", "biases"):
        _check(g, part, (rows, columns // size))
    blocks = affine(bits, size, g.float_of("scales"), has_minima=True)
    fields: dict[str, Reader] = {
        "scales": lambda: g.read("scales"),
        "minima": lambda: g.read("biases"),
    }
    fields |= _planes(blocks, lambda: unpacked(g.read("weight"), bits))
    return g.packed(f"mlx{bits}", (rows, columns), blocks, fields)


# --- all ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Method:
    """How a weight is made of tensors: that which is always there, and what else there may be."""

    first: str
    parts: tuple[str, ...]
    read: Callable[[WeightParts, Mapping[str, Any]], Packed]


_COMPRESSED = (
    "weight_scale", "weight_zero_point", "weight_shape", "weight_g_idx", "weight_global_scale",
    "input_scale", "input_global_scale",
)  # fmt: skip
_NESTED = ("weight.absmax", "weight.quant_map", "weight.nested_absmax", "weight.nested_quant_map")
_STATES = tuple(f"weight.quant_state.bitsandbytes__{kind}" for kind in ("nf4", "fp4"))
METHODS: dict[str, tuple[Method, ...]] = {
    "gptq": (Method("qweight", ("qzeros", "scales", "g_idx"), gptq),),
    "awq": (Method("qweight", ("qzeros", "scales"), awq),),
    "compressed-tensors": (
        Method("weight_packed", _COMPRESSED, compressed),
        Method("weight", _COMPRESSED, compressed),
    ),
    "fp8": (
        Method(
            "weight", ("weight_scale_inv",), lambda g, _: float8(g, "weight", "weight_scale_inv")
        ),
    ),
    "bitsandbytes": (Method("weight", (*_NESTED, *_STATES, "SCB", "weight_format"), bitsandbytes),),
    "torchao": (Method("_weight_qdata", ("_weight_scale", "_weight_zero_point"), torchao),),
    "mlx": (Method("weight", ("scales", "biases"), mlx),),
}


def packed(file: Path, stored: Tensors, config: Mapping[str, Any]) -> dict[str, Packed]:
    """The weights that are stored so, by the names that they have in the model."""
    said, ours = config.get("quantization_config"), config.get("quantization")
    if not isinstance(said, dict) and not isinstance(ours, dict):
        return {}
    table = cast("dict[str, Any]", said if isinstance(said, dict) else ours)
    name = str(table.get("quant_method", "mlx" if "group_size" in table else None))
    if name not in METHODS:
        if all(t.dtype in PLAIN for t in stored.values()):
            return {}  # it says how it may be quantised, and holds floats
        known = ", ".join(METHODS)
        raise bad(
            file, f"its weights are quantised by {name[:40]}", f"Convert it to one of {known}."
        )
    found: dict[str, Packed] = {}
    for method in METHODS[name]:
        for tensor in stored:
            stem, dot, last = tensor.rpartition(f".{method.first}")
            if not dot or last:
                continue
            parts = {p: stored[f"{stem}.{p}"] for p in method.parts if f"{stem}.{p}" in stored}
            if parts:
                group = WeightParts(file, stem, {method.first: stored[tensor], **parts})
                found[f"{stem}.weight"] = _read(group, method, table)
    return found


def _read(g: WeightParts, method: Method, config: Mapping[str, Any]) -> Packed:
    try:
        return method.read(g, config)
    except KeyError as e:
        raise g.wrong(f"{g.name[:80]} lacks {e.args[0]}, which its form of weights needs") from None


def _bits_of(g: WeightParts, config: Mapping[str, Any], known: tuple[int, ...]) -> int:
    bits = config.get("bits")
    if not isinstance(bits, int) or bits not in known:
        raise g.wrong(f"its weights have {str(bits)[:20]} bits, {known} are read")
    return bits


def _matrix(g: WeightParts, part: str) -> tuple[int, int]:
    shape = g.shape(part)
    if len(shape) != 2:
        raise g.refused(part, "a matrix")
    return (shape[0], shape[1])


def _words(g: WeightParts, part: str) -> tuple[int, int]:
    if g.parts[part].kind not in ("I32", "U32"):
        raise g.refused(part, "words of 32 bits")
    return _matrix(g, part)


def _check(g: WeightParts, part: str, shape: Shape) -> None:
    if g.shape(part) != shape:
        raise g.refused(part, str(list(shape)))
