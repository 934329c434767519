"""places: the indices that ops of ATen take, and a refusal of those that are known and that no element has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from lumigen.frontend.nn import Parameter
from lumigen.frontend.tensor import Tensor
from lumigen.graph import Edge, Graph, Node
from lumigen.importers.leaves import leaves
from lumigen.importers.places import outside
from lumigen.importers.torch.aten import found_in
from lumigen.importers.torch.graphs import MOST_NUMBERS, Refused, greatest
from lumigen.interp.graph import evaluate
from lumigen.ops import Op

# Indices with the size of the axis they count on, and whether negative ones count from its end.
Indices: TypeAlias = Iterator[tuple[Tensor, Any, bool]]
Arrays: TypeAlias = Mapping[str, Any]


def along(input: Tensor, dim: int, index: Tensor, *_: Any, **__: Any) -> Indices:
    yield index, input.shape[dim] if input.ndim else 1, False


def flat(input: Tensor, index: Tensor, *_: Any, **__: Any) -> Indices:
    yield index, input.numel(), True


def rows(weight: Tensor, indices: Tensor, *_: Any, **__: Any) -> Indices:
    yield indices, weight.shape[0], False


def each(input: Tensor, indices: Sequence[Tensor | None], *_: Any, **__: Any) -> Indices:
    """x[i, :, j]; a mask has as many axes as it is of."""
    axis = 0
    for index in indices:
        if index is not None and not index.dtype.is_bool:
            yield index, input.shape[axis], True
        axis += index.ndim if index is not None and index.dtype.is_bool else 1


ALONG = """
gather index_add index_copy index_fill index_reduce index_select scatter scatter_add scatter_reduce
"""
INDICES: Mapping[str, Callable[..., Indices]] = {
    **dict.fromkeys(ALONG.split(), along),
    **dict.fromkeys(("put", "take"), flat),
    **dict.fromkeys(("embedding", "embedding_bag", "_embedding_bag"), rows),
    "_embedding_bag_forward_only": rows,
    **dict.fromkeys(("index", "index_put", "_unsafe_index", "_unsafe_index_put"), each),
}


def check_places(
    op: str,
    args: Sequence[Any],
    named: Mapping[str, Any],
    weights: Callable[[], Arrays],
    fixed: dict[Node, bool],
) -> None:
    """Refused where an op has a known place that is outside of an axis, whatever its size is.

    `fixed` says of nodes whether they depend on no input; it is filled as they are met.
    """
    indices = found_in(INDICES, op)
    if indices is None:
        return
    for index, size, from_end in indices(*args, **named):
        places = known(index, weights, fixed)
        wrong = None if places is None else outside(places, [size], from_end=from_end)
        if wrong:
            raise Refused(f"its index has {wrong}")


def known(index: Tensor, weights: Callable[[], Arrays], fixed: dict[Node, bool]) -> Any:
    """The elements of a weight, or of a few numbers that are computed of weights and constants; else None."""
    if isinstance(index, Parameter):
        return index.value
    if not is_fixed(index.edge, fixed):
        return None
    graph = Graph((), (("out", index.edge),))
    if any(leaves(graph)) or greatest(graph) > MOST_NUMBERS:
        return None
    return evaluate(graph, {}, weights())["out"]


def is_fixed(edge: Edge, known: dict[Node, bool]) -> bool:
    """Whether a tensor depends on no input, state or random number."""
    waiting = [edge.node]
    while waiting:
        node = waiting[-1]
        ahead = [a.node for a in node.args if a.node not in known]
        if ahead and node not in known:
            waiting += ahead
            continue
        own = node.op not in (Op.INPUT, Op.STATE, Op.RANDOM)
        known.setdefault(node, own and all(known[a.node] for a in node.args))
        waiting.pop()
    return known[edge.node]
