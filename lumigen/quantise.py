"""quantise: matrices of weights as small integers with scales, as a file has them or made from floats.

Before: a traced model, and weights.  After: each matrix is tensors of its own and ordinary arithmetic over them, of
which neither passes nor kernels know anything: products multiply as they read.

    weight[n, k]     weight.quants[n, k // 32, k % 32] * weight.scales[n, k // 32]

What a file holds so (`Weights.packed`) stays as it is; a file of Q8_0 or Q4_0 keeps its values in q8 and q4 exactly.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from lumigen.dtype import f32
from lumigen.errors import BadArgument
from lumigen.frontend import Tensor, Traced
from lumigen.frontend.formulas import TRACED
from lumigen.frontend.model import WeightSpec
from lumigen.graph import Edge, Graph, Node, contiguous, edge, rebuild, source, tensor_of
from lumigen.index import ix
from lumigen.model_weights import check_weights
from lumigen.ops import Op
from lumigen.printer import amount
from lumigen.program import FormatInfo
from lumigen.weights import Weights, named_array
from lumigen.weights.formats import ARRAYS, Blocks, Packed, Plane, planes_of

Array = npt.NDArray[Any]

# Shares of the plain scale that are tried, of both signs.
SEARCHED = np.array([s * i for s in (1, -1) for i in range(10, 24)], np.float32) / 20
WHOLE = np.ones(1, np.float32)  # the plain scale alone
NARROWED = np.arange(10, 21, dtype=np.float32) / 20  # of the range of a group, which is among them
LEAST = 0.01  # of the mean of a row, that the square of an error counts
AT_A_TIME = 1 << 19  # elements that are encoded
NAME = re.compile(r"q(?P<bits>[234568])(?P<affine>a?)(-(?P<group>32|64|128|row))?")
GROUP = 32  # where a name says none


@dataclass(frozen=True)
class Format:
    """Blocks, and how floats become them: `encode` gives the fields of blocks (n, items) of f32.

    It takes as many numbers besides, how much the square of an error counts at each.
    """

    name: str
    blocks: Blocks
    encode: Callable[[Array, Array, Blocks], dict[str, Array]]


def format_of(name: str, columns: int) -> Format | None:
    """The format of this name for rows of so many elements; None where its groups do not divide them.

    `q4`: integers of 4 bits with a scale for 32 of them; `q4a` with a minimum as well; `q4-64`, `q4-128`, `q4-row` for
    more of them. BadArgument for any other name.
    """
    found = NAME.fullmatch(name)
    if found is None:
        expected = (
            f"q2, q3, q4, q5, q6 or q8, perhaps with a and with -32, -64, -128 or -row, or {FLOATS}"
        )
        raise BadArgument(op="compile", name="weights dtype", value=name, expected=expected)
    bits, group = int(found["bits"]), found["group"]
    size = columns if group == "row" else int(group or GROUP)
    if columns % size or size % 8:
        return None
    if found["affine"]:
        return Format(name, Blocks(size, planes_of(bits, size), has_minima=True), _affine)
    if bits == 8:
        return Format(name, Blocks(size, (Plane(8, size, is_signed=True),)), _symmetric_bytes)
    return Format(name, Blocks(size, planes_of(bits, size), zero=1 << bits - 1), _symmetric)


def _symmetric_bytes(x: Array, counts: Array, blocks: Blocks) -> dict[str, Array]:
    """The greatest magnitude of a block is 127."""
    del blocks
    plain = np.abs(x).max(-1) / np.float32(127)
    scales, quants = _nearest(x, counts, plain, WHOLE, (-127, 127))
    return {"quants": quants, "scales": scales}


def _symmetric(x: Array, counts: Array, blocks: Blocks) -> dict[str, Array]:
    """Of -8 to 7, say: the scale of those searched whose values are nearest, by the sum of squares."""
    at = np.abs(x).argmax(-1)
    plain = np.take_along_axis(x, at[:, None], -1)[:, 0] / np.float32(-blocks.zero)
    scales, quants = _nearest(x, counts, plain, SEARCHED, (-blocks.zero, blocks.zero - 1))
    return {"scales": scales, **blocks.planed((quants + blocks.zero).astype(np.uint8))}


def _nearest(
    x: Array, counts: Array, plain: Array, shares: Array, ends: tuple[int, int]
) -> tuple[Array, Array]:
    """Scales in f16 and integers of 8 bits: those to which shares of plain scales lead, the nearest.

    Integers q that a share leads to have the scale s that is best for them, and the sum of squares is then, as it
    counts, that of x and s s sum(q q) - 2 s sum(q x). The scale is infinite where f16 has none.
    """
    best = np.full(len(x), np.inf, np.float32)
    scales = np.full(len(x), np.inf, np.float16)
    quants = np.zeros(x.shape, np.int8)
    counted = counts * x
    for share in shares:
        first = (plain * share).astype(np.float16)
        found = np.clip(np.rint(x * _reciprocal(first)[:, None]), *ends)
        along = np.einsum("ij,ij->i", counted, found)
        size = np.einsum("ij,ij,ij->i", counts, found, found)
        tried = np.divide(along, size, out=np.zeros_like(size), where=size > 0).astype(np.float16)
        scale = tried.astype(np.float32)
        error = scale * (scale * size - 2 * along)
        nearer = (error < best) & np.isfinite(first)
        best[nearer], scales[nearer], quants[nearer] = error[nearer], tried[nearer], found[nearer]
    return scales, quants


def _affine(x: Array, counts: Array, blocks: Blocks) -> dict[str, Array]:
    """Of 0 to 15, say: of ranges around the middle, the line through their integers that is nearest."""
    most = (1 << sum(plane.bits for plane in blocks.planes)) - 1
    low, high = x.min(-1), x.max(-1)
    best = np.full(len(x), np.inf, np.float32)
    scales, minima = np.full(len(x), np.inf, np.float16), np.zeros(len(x), np.float16)
    quants = np.zeros(x.shape, np.uint8)
    for share in NARROWED:
        cut = (1 - share) / 2 * (high - low)
        first = np.clip(_places(x, (high - low) * share / most, low + cut), 0, most)
        scale, least = _line(x, first, counts)
        tried, lowest = scale.astype(np.float16), least.astype(np.float16)
        found = np.clip(_places(x, tried, lowest), 0, most)
        meant = found * tried.astype(np.float32)[:, None] + lowest.astype(np.float32)[:, None]
        error = (counts * np.square(meant - x)).sum(-1)
        nearer = error < best
        best[nearer], scales[nearer], minima[nearer] = error[nearer], tried[nearer], lowest[nearer]
        quants[nearer] = found[nearer]
    return {"scales": scales, "minima": minima, **blocks.planed(quants)}


def _places(x: Array, scale: Array, least: Array) -> Array:
    return np.rint((x - least.astype(np.float32)[:, None]) * _reciprocal(scale)[:, None])


def _line(x: Array, q: Array, counts: Array) -> tuple[Array, Array]:
    """The scale and the minimum with which integers are nearest to the numbers, by the sum of squares as they count."""
    whole = counts.sum(-1, keepdims=True)
    middle, mean = ((counts * y).sum(-1, keepdims=True) / whole for y in (q, x))
    spread = (counts * np.square(q - middle)).sum(-1)
    shared = (counts * (q - middle) * (x - mean)).sum(-1)
    scale = np.divide(shared, spread, out=np.zeros_like(spread), where=spread > 0)
    return scale, mean[:, 0] - scale * middle[:, 0]


def _reciprocal(scales: Array) -> Array:
    wide = scales.astype(np.float32)
    return np.divide(1, wide, out=np.zeros_like(wide), where=wide != 0)


FLOATS = f32.name  # the weights dtype that leaves no blocks


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


def each(errors: Sequence[Error]) -> list[str]:
    """The errors in a line for each matrix, the farthest first."""
    return [f"{e.apart:7.2%}  {e.name}" for e in sorted(errors, key=lambda e: -e.apart)]


def bits_of(packed: Mapping[str, Packed]) -> str:
    """How many weights there are of each format, and of how many bits, in a line for a person; empty without any."""
    kinds: dict[str, list[Packed]] = {}
    for each_of in packed.values():
        kinds.setdefault(each_of.kind, []).append(each_of)
    rows: list[str] = []
    for kind, found in kinds.items():
        bits, count = sum(p.bits for p in found), sum(math.prod(p.shape) for p in found)
        rows.append(
            f"{len(found)} in {kind} ({bits / max(count, 1):.2f} bits, {amount.size(bits // 8)})"
        )
    return f"weights of few bits: {', '.join(rows)}" if rows else ""


@dataclass(frozen=True)
class Quantised:
    """A model over quantised weights; these if floats were given, and the error that was made in each matrix.

    `packed` are the weights that the model reads as fields.
    """

    traced: Traced
    weights: Weights | Mapping[str, Array] | None
    errors: tuple[Error, ...]
    packed: Mapping[str, Packed] = dataclasses.field(default_factory=dict[str, Packed])


def _as_stored(
    traced: Traced, weights: Weights | Mapping[str, Array] | None, keep: Sequence[str] = ()
) -> Quantised:
    """What a file holds in fields of few bits stays so: the model reads the fields, other weights as before."""
    if not isinstance(weights, Weights):
        return Quantised(traced, weights, ())
    names = [w.name for w in traced.weights if w.dtype.is_float and not _is_kept(w.name, keep)]
    chosen = {
        n: packed for n in names if n in weights and (packed := weights.packed(n)) is not None
    }
    if not chosen:
        return Quantised(traced, weights, ())
    check_weights(traced, weights)
    return Quantised(over_fields(traced, chosen), weights.in_fields(chosen), (), chosen)


def quantised(
    traced: Traced,
    weights: Weights | Mapping[str, Array] | None,
    name: str | None,
    keep: Sequence[str] = (),
    squares: Mapping[str, Array] | None = None,
) -> Quantised:
    """Matrices whose rows are whole groups, in the format `name` (`format_of`); others stay as they are.

    Without a name, those that the file holds in fields of few bits stay in these; `f32` makes floats of them.
    `keep` has names that stay floats, or parts of them between dots, or patterns such as `*.w2.*`. BadArgument for a
    format that is not known, for a name in `keep` that no weight has, and for a matrix with numbers that are not
    finite or that no f16 scales. Weights are read now, and what no entry reads of them is left out.
    `squares` has for some weights how much the square of an error counts in each element (`encoded`).
    """
    _check_keep(traced, keep)
    if name is None:
        return _as_stored(traced, weights, keep)
    if name == FLOATS:
        return Quantised(traced, weights, ())
    found = {w.name: format_of(name, w.shape[-1]) for w in traced.weights if _is_matrix(w)}
    forms = {n: form for n, form in found.items() if form and not _is_kept(n, keep)}
    if weights is None:
        shapes = {w.name: w.shape for w in traced.weights}
        nothing = {n: f.blocks.packed(name, shapes[n], _no_numbers) for n, f in forms.items()}
        return Quantised(over_fields(traced, nothing), None, (), nothing)
    if not isinstance(weights, Weights):
        weights = {each: named_array("compile", each, a) for each, a in weights.items()}
    check_weights(traced, weights)
    read: dict[str, Array] = {}
    packed: dict[str, Packed] = {}
    errors: list[Error] = []
    for w in traced.weights:
        array = np.asarray(weights[w.name])
        if w.name not in forms:
            read[w.name] = array
            continue
        packed[w.name], error = encoded(w.name, array, forms[w.name], (squares or {}).get(w.name))
        read |= {f"{w.name}.{field}": packed[w.name].read(field) for field in packed[w.name].fields}
        errors.append(error)
    return Quantised(over_fields(traced, packed), read, tuple(errors), packed)


def _no_numbers(name: str) -> Array:
    raise AssertionError(f"{name} of a weight that is not given")


def encoded(
    name: str, weight: Array, form: Format, squares: Array | None = None
) -> tuple[Packed, Error]:
    """A matrix of floats (..., k) in blocks, and how far they are from it.

    `squares`, of its shape or 1 along some dimensions, are sums of squares of what each element is multiplied by:
    what is nearest is then so by the squares of errors times these.
    """
    columns, items = weight.shape[-1], form.blocks.items
    rows, counts = weight.reshape(-1, columns), _counts(weight.shape, squares)
    out = {
        field: np.empty((weight.size // items, *shape), dtype.numpy)
        for field, (shape, dtype) in form.blocks.fields().items()
    }
    size = apart = 0.0
    step = max(1, AT_A_TIME // columns)
    for i in range(0, len(rows), step):
        part = rows[i : i + step].astype(np.float32).reshape(-1, items)
        with np.errstate(over="ignore", invalid="ignore"):
            fields = form.encode(part, counts(i, i + step).reshape(-1, items), form.blocks)
        if not np.isfinite(part).all() or not np.isfinite(fields["scales"]).all():
            value = f"{name}, which has numbers that are not finite or above what f16 scales"
            expected = "finite numbers; keep this one as it is (--keep)"
            raise BadArgument(op="compile", name="a weight", value=value, expected=expected)
        first = i * columns // items
        for field, array in fields.items():
            out[field][first : first + len(part)] = array
        size += float(np.square(part, dtype=np.float64).sum())
        meant = form.blocks.values(fields, ARRAYS).reshape(part.shape)
        apart += float(np.square(meant - part, dtype=np.float64).sum())
    packed = form.blocks.packed(form.name, weight.shape, out.__getitem__)
    return packed, Error(name, (apart / size) ** 0.5 if size else 0.0)


def _counts(shape: tuple[int, ...], squares: Array | None) -> Callable[[int, int], Array]:
    """How much the square of an error counts in each element of the rows from one to another, in f32.

    The mean of a row is about 1, and nothing counts for 0: other inputs may need it. A row of which nothing is known
    has elements that count alike.
    """
    given = np.ones(shape[-1:]) if squares is None else squares
    mean = given.mean(-1, keepdims=True)
    known = np.divide(given, mean, out=np.ones_like(given), where=mean > 0) + LEAST
    each_of, leading = np.broadcast_to(known.astype(np.float32), shape), shape[:-1]
    count = math.prod(leading)

    def counts(first: int, end: int) -> Array:
        return each_of[np.unravel_index(np.arange(first, min(end, count)), leading)]

    return counts


def _check_keep(traced: Traced, keep: Sequence[str]) -> None:
    for pattern in keep:
        if not any(_is_kept(w.name, [pattern]) for w in traced.weights):
            expected = "the name of a weight, parts of it between dots, or a pattern such as *.w2.*"
            raise BadArgument(op="compile", name="keep", value=pattern, expected=expected)


def _is_matrix(w: WeightSpec) -> bool:
    return w.dtype is f32 and len(w.shape) > 1


def _is_kept(name: str, keep: Sequence[str]) -> bool:
    return any(fnmatch(f".{name}.", f"*.{pattern}.*") or fnmatch(name, pattern) for pattern in keep)


def over_fields(traced: Traced, chosen: Mapping[str, Packed]) -> Traced:
    """The model, its chosen weights computed from their fields."""
    entries = tuple((e, _over_fields(g, chosen)) for e, g in traced.entries)
    specs = (_specs(w.name, chosen[w.name]) if w.name in chosen else [w] for w in traced.weights)
    weights = tuple(chain.from_iterable(specs))
    formats = tuple(FormatInfo(n, p.kind, math.prod(p.shape)) for n, p in chosen.items())
    return replace(traced, entries=entries, weights=weights, formats=formats)


def _specs(name: str, packed: Packed) -> list[WeightSpec]:
    return [WeightSpec(f"{name}.{f}", shape, d) for f, (shape, d) in packed.fields.items()]


def _over_fields(graph: Graph, chosen: Mapping[str, Packed]) -> Graph:
    done: dict[Node, Node] = {}
    for n in graph.nodes():
        args = tuple(Edge(done[e.node], e.view) for e in n.args)
        packed = chosen.get(tensor_of(n).name) if n.op is Op.WEIGHT else None
        done[n] = rebuild(n, args) if packed is None else _value(n, packed)
    outputs = tuple((name, Edge(done[e.node], e.view)) for name, e in graph.outputs)
    updates = tuple((state, Edge(done[e.node], e.view)) for state, e in graph.updates)
    lines = {done[n]: found for n, found in graph.lines.items() if n in done}
    names = {done[n]: name for n, name in graph.names.items() if n in done}
    return Graph(tuple(done[n] for n in graph.inputs), outputs, updates, lines, names)


def _value(weight: Node, packed: Packed) -> Node:
    fields = {
        field: Tensor(edge(source(Op.WEIGHT, w.name, tuple(map(ix, w.shape)), w.dtype)))
        for field, w in zip(packed.fields, _specs(tensor_of(weight).name, packed), strict=True)
    }
    return contiguous(packed.values(fields, TRACED).to(weight.dtype).edge)
