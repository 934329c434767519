"""quantise: matrices of weights as small integers, with a scale for each block of 32.

Before: a traced model, and weights of floats.  After: each matrix is two tensors of its own and ordinary arithmetic
over them, of which neither passes nor kernels know anything: products multiply as they read.

    weight[n, k]     weight.quants[n, k // 32, k % 32] * weight.scales[n, k // 32]

A file that has such blocks already (GGUF's Q8_0 and Q4_0) keeps their values exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from lumigen.dtype import DType, f16, f32, i8, u8
from lumigen.errors import BadArgument
from lumigen.frontend import Tensor, Traced
from lumigen.frontend.functions import stack
from lumigen.frontend.model import WeightSpec
from lumigen.graph import Edge, Graph, Node, contiguous, edge, rebuild, source, tensor_of
from lumigen.index import ix
from lumigen.model_weights import check_weights
from lumigen.ops import Op
from lumigen.weights import Weights, named_array

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
Fields = Mapping[str, Array]

BLOCK = 32  # elements that share a scale
SEARCHED = np.arange(32, 45, dtype=np.float32) / 40  # of the plain scale, which is among them
AT_A_TIME = 1 << 14  # blocks that are encoded


@dataclass(frozen=True)
class Format:
    """How blocks are stored: of each field what follows (..., K / 32) in its shape, and its dtype.

    `values` computes (..., K / 32, 32) from the fields in lumigen's own operations, `encode` the fields of
    blocks (n, 32) of f32, and `decode` is the meaning of `values` in numpy.
    """

    name: str
    fields: Mapping[str, tuple[Shape, DType]]
    values: Callable[[Mapping[str, Tensor]], Tensor]
    encode: Callable[[Array], dict[str, Array]]
    decode: Callable[[Fields], Array]


def _q8(fields: Mapping[str, Tensor]) -> Tensor:
    return fields["quants"].to(f32) * fields["scales"].to(f32)[..., None]


def _encode_q8(blocks: Array) -> dict[str, Array]:
    """Symmetric: the greatest magnitude of a block is 127."""
    scales = (np.abs(blocks).max(-1) / np.float32(127)).astype(np.float16)
    quants = np.clip(np.rint(blocks * _reciprocal(scales)[:, None]), -127, 127)
    return {"quants": quants.astype(np.int8), "scales": scales}


def _decode_q8(fields: Fields) -> Array:
    return fields["quants"].astype(np.float32) * fields["scales"].astype(np.float32)[:, None]


def _q4(fields: Mapping[str, Tensor]) -> Tensor:
    halves = stack([fields["quants"] & 15, fields["quants"] >> 4], -2).to(f32) - 8
    scaled = halves * fields["scales"].to(f32)[..., None, None]
    return scaled.reshape(*scaled.shape[:-2], BLOCK)


def _encode_q4(blocks: Array) -> dict[str, Array]:
    """Symmetric, of -8 to 7: the scale of those searched whose values are nearest, by the sum of squares."""
    at = np.abs(blocks).argmax(-1)
    plain = np.take_along_axis(blocks, at[:, None], -1)[:, 0] / np.float32(-8)
    best = np.full(len(blocks), np.inf, np.float32)
    scales = np.zeros(len(blocks), np.float16)
    quants = np.zeros(blocks.shape, np.uint8)
    for share in SEARCHED:
        tried = (plain * share).astype(np.float16)
        found = np.clip(np.rint(blocks * _reciprocal(tried)[:, None]) + 8, 0, 15)
        apart = (found - 8) * tried.astype(np.float32)[:, None] - blocks
        error = (apart * apart).sum(-1)
        nearer = error < best
        best[nearer], scales[nearer], quants[nearer] = error[nearer], tried[nearer], found[nearer]
    return {"quants": quants[:, :16] | quants[:, 16:] << 4, "scales": scales}


def _decode_q4(fields: Fields) -> Array:
    halves = np.concatenate([fields["quants"] & 15, fields["quants"] >> 4], -1)
    return (halves.astype(np.float32) - 8) * fields["scales"].astype(np.float32)[:, None]


def _reciprocal(scales: Array) -> Array:
    wide = scales.astype(np.float32)
    return np.divide(1, wide, out=np.zeros_like(wide), where=wide != 0)


FORMATS = {
    f.name: f
    for f in (
        Format("q8", {"quants": ((BLOCK,), i8), "scales": ((), f16)}, _q8, _encode_q8, _decode_q8),
        Format(
            "q4", {"quants": ((BLOCK // 2,), u8), "scales": ((), f16)}, _q4, _encode_q4, _decode_q4
        ),
    )
}


@dataclass(frozen=True)
class Error:
    """How far a matrix is from what it was: by norm, relative."""

    name: str
    apart: float


def worst(errors: Sequence[Error], name: str) -> str:
    """The errors in a line for a person; empty if there are none."""
    if not errors:
        return ""
    most = max(errors, key=lambda e: e.apart)
    each = f"{len(errors)} matrices are {name}" if len(errors) > 1 else f"a matrix is {name}"
    return f"{each}; farthest from its floats, by {most.apart:.2%} of its norm, is {most.name}"


@dataclass(frozen=True)
class Quantised:
    """A model over quantised weights; these if floats were given, and the error that was made in each matrix."""

    traced: Traced
    weights: Mapping[str, Array] | None
    errors: tuple[Error, ...]


def quantised(
    traced: Traced,
    weights: Weights | Mapping[str, Array] | None,
    name: str,
    keep: Sequence[str] = (),
) -> Quantised:
    """Matrices whose rows are whole blocks, as blocks of the format `name`; others stay as they are.

    `keep` has names that stay floats, or parts of them between dots, or patterns such as `*.w2.*`. BadArgument for a
    format that is not known, for a name in `keep` that no weight has, and for a matrix with numbers that are not
    finite or that no f16 scales. Weights are read now, and what no entry reads of them is left out.
    """
    if name not in FORMATS:
        expected = f"one of {', '.join(FORMATS)}"
        raise BadArgument(op="compile", name="weights dtype", value=name, expected=expected)
    chosen = {w.name: w for w in _chosen(traced, keep)}
    form = FORMATS[name]
    entries = tuple((e, _over_fields(g, chosen, form)) for e, g in traced.entries)
    specs = (_specs(w, form) if w.name in chosen else [w] for w in traced.weights)
    found = replace(traced, entries=entries, weights=tuple(chain.from_iterable(specs)))
    if weights is None:
        return Quantised(found, None, ())
    if not isinstance(weights, Weights):
        weights = {each: named_array("compile", each, a) for each, a in weights.items()}
    check_weights(traced, weights)
    read: dict[str, Array] = {}
    errors: list[Error] = []
    for w in traced.weights:
        array = np.asarray(weights[w.name])
        if w.name not in chosen:
            read[w.name] = array
            continue
        fields, error = encoded(w.name, array, form)
        read |= {f"{w.name}.{field}": a for field, a in fields.items()}
        errors.append(error)
    return Quantised(found, read, tuple(errors))


def encoded(name: str, weight: Array, form: Format) -> tuple[dict[str, Array], Error]:
    """The fields of a matrix of floats (..., k), and how far they are from it."""
    blocks = weight.reshape(-1, BLOCK)
    lead = (*weight.shape[:-1], weight.shape[-1] // BLOCK)
    out = {
        field: np.empty((len(blocks), *shape), dtype.numpy)
        for field, (shape, dtype) in form.fields.items()
    }
    size = apart = 0.0
    for i in range(0, len(blocks), AT_A_TIME):
        part = blocks[i : i + AT_A_TIME].astype(np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            fields = form.encode(part)
        if not np.isfinite(part).all() or not np.isfinite(fields["scales"]).all():
            value = f"{name}, which has numbers that are not finite or above what f16 scales"
            expected = "finite numbers; keep this one as it is (--keep)"
            raise BadArgument(op="compile", name="a weight", value=value, expected=expected)
        for field, array in fields.items():
            out[field][i : i + AT_A_TIME] = array
        size += float(np.square(part, dtype=np.float64).sum())
        apart += float(np.square(form.decode(fields) - part, dtype=np.float64).sum())
    shaped = {field: array.reshape(lead + array.shape[1:]) for field, array in out.items()}
    return shaped, Error(name, (apart / size) ** 0.5 if size else 0.0)


def _chosen(traced: Traced, keep: Sequence[str]) -> list[WeightSpec]:
    """The matrices that become blocks."""
    for pattern in keep:
        if not any(_is_kept(w.name, [pattern]) for w in traced.weights):
            expected = "the name of a weight, parts of it between dots, or a pattern such as *.w2.*"
            raise BadArgument(op="compile", name="keep", value=pattern, expected=expected)
    return [
        w
        for w in traced.weights
        if w.dtype is f32
        and len(w.shape) > 1
        and w.shape[-1] % BLOCK == 0
        and not _is_kept(w.name, keep)
    ]


def _is_kept(name: str, keep: Sequence[str]) -> bool:
    return any(fnmatch(f".{name}.", f"*.{pattern}.*") or fnmatch(name, pattern) for pattern in keep)


def _specs(w: WeightSpec, form: Format) -> list[WeightSpec]:
    return [WeightSpec(n.name, n.shape, n.dtype) for n in _fields_of(w, form).values()]


def _fields_of(w: WeightSpec, form: Format) -> dict[str, WeightSpec]:
    lead = (*w.shape[:-1], w.shape[-1] // BLOCK)
    return {
        field: WeightSpec(f"{w.name}.{field}", lead + shape, dtype)
        for field, (shape, dtype) in form.fields.items()
    }


def _over_fields(graph: Graph, chosen: Mapping[str, WeightSpec], form: Format) -> Graph:
    """The graph, its chosen weights computed from fields."""
    done: dict[Node, Node] = {}
    for n in graph.nodes():
        args = tuple(Edge(done[e.node], e.view) for e in n.args)
        w = chosen.get(tensor_of(n).name) if n.op is Op.WEIGHT else None
        done[n] = rebuild(n, args) if w is None else _value(w, form)
    outputs = tuple((name, Edge(done[e.node], e.view)) for name, e in graph.outputs)
    updates = tuple((state, Edge(done[e.node], e.view)) for state, e in graph.updates)
    lines = {done[n]: found for n, found in graph.lines.items() if n in done}
    names = {done[n]: name for n, name in graph.names.items()}
    return Graph(tuple(done[n] for n in graph.inputs), outputs, updates, lines, names)


def _value(w: WeightSpec, form: Format) -> Node:
    fields = {
        field: Tensor(edge(source(Op.WEIGHT, f.name, tuple(map(ix, f.shape)), f.dtype)))
        for field, f in _fields_of(w, form).items()
    }
    return contiguous(form.values(fields).reshape(*w.shape).edge)
