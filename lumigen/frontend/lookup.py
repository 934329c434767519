"""Lookups: rows of a table by their numbers, and layers of plain products."""

# ruff: noqa: FBT002  # signatures are PyTorch's

from __future__ import annotations

from lumigen.dtype import i64
from lumigen.errors import BadArgument
from lumigen.frontend import contraction, indexing, movement
from lumigen.frontend.convolution import need_rank, same_dtype
from lumigen.frontend.creation import arange, full
from lumigen.frontend.operand import choice, where
from lumigen.frontend.primitive import Extent
from lumigen.frontend.products import trilinear
from lumigen.frontend.tensor import Tensor
from lumigen.frontend.trace import fail


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """(.., in), (out, in), (out,) -> (.., out): x @ weight.T + bias; a weight (in,) -> (..)."""
    same_dtype("linear", input, weight)
    if weight.ndim == 1:
        out = input.matmul(weight)
        return out if bias is None else out + bias
    contraction.check_linear(input.extents, weight.extents)
    out = Tensor(contraction.linear(input.edge, weight.edge))
    return out if bias is None else out + bias


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """(.., m), (.., n), (out, m, n), (out,) -> (.., out): sum_{i, j} x[i] weight[o, i, j] y[j] + bias."""
    out = trilinear(input1, input2, weight)
    return out if bias is None else out + bias


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """ids (..), weight (vocabulary, hidden) -> (.., hidden): sum_v select(v == ids, weight[v]).

    An id that is none of the vocabulary gives a row of 0. Rows whose norm is above `max_norm` are scaled
    down to it; the other options are of training.
    """
    del padding_idx, scale_grad_by_freq, sparse
    need_rank("embedding", "the weight", weight, ("vocabulary", "hidden"))
    table = weight if max_norm is None else weight.renorm(norm_type, 0, max_norm)
    return Tensor(indexing.index_select_nd(table.edge, 0, input.edge))


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """ids (bag, n), weight (vocabulary, hidden) -> (bag, hidden): the sum, mean or maximum of each bag's rows.

    Ids (n,) in a row are cut into bags at `offsets`, each up to the next one. Ids that are `padding_idx` do not count.
    """
    choice("embedding_bag", "mode", mode, "sum", "mean", "max")
    if (offsets is None) != (input.ndim == 2):
        expected = "offsets for ids in a row, none for ids (bag, n)"
        value = f"ids of {input.ndim} axes"
        raise fail(BadArgument, op="embedding_bag", name="the ids", value=value, expected=expected)
    rows = embedding(input, weight, None, max_norm, norm_type, scale_grad_by_freq, sparse)
    if offsets is None:
        belongs = full(input.extents, True)
    else:  # (bag, n)
        count = input.extents[0]
        edges = offsets.to(i64)
        if not include_last_offset:
            edges = Tensor(movement.cat([edges.edge, arange(count, count + 1).edge]))
        bags = edges.extents[0] - 1
        starts, ends = edges.narrow(0, 0, bags), edges.narrow(0, 1, bags)
        number = arange(count)
        belongs = (starts.unsqueeze(1) <= number) & (number < ends.unsqueeze(1))
    if padding_idx is not None:
        belongs = belongs & (input != padding_idx % weight.extents[0])
    hits = belongs.unsqueeze(-1)  # (bag, n, 1)
    if mode == "max":
        found = where(hits, rows, weight.dtype.lowest).amax(1)
        return where(hits.any(1), found, 0.0)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    total = where(hits, rows, 0.0).sum(1)
    if mode == "sum":
        return total
    return total / belongs.sum(1).clamp(min=1).type_as(total).unsqueeze(-1)


def one_hot(input: Tensor, num_classes: Extent = -1) -> Tensor:
    """(..) -> (.., num_classes) as i64: 1 at the id, else 0."""
    if isinstance(num_classes, int) and num_classes < 0:
        expected = "a number: how many classes there are is not known while tracing"
        raise fail(
            BadArgument, op="one_hot", name="num_classes", value=num_classes, expected=expected
        )
    return (input.unsqueeze(-1) == arange(num_classes)).to(i64)
