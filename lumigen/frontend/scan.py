"""scan: a function of users' carried over the elements of tensors, which is traced once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, cast

from lumigen.errors import BadArgument
from lumigen.frontend import movement
from lumigen.frontend.looping import scanned
from lumigen.frontend.primitive import Extent
from lumigen.frontend.tensor import Tensor
from lumigen.frontend.trace import fail
from lumigen.graph import Edge
from lumigen.index import Ix, is_less, ix

Carry = TypeVar("Carry")


def scan(
    f: Callable[[Carry, Any], tuple[Carry, Any]],
    init: Carry,
    xs: Any = None,
    *,
    dim: int = 0,
    length: Extent | None = None,
    reverse: bool = False,
) -> tuple[Carry, Any]:
    """(the last carry, the ys of all steps) of `carry, y = f(carry, x)`, from `init` on.

    Each step takes one element of `xs` along `dim`, the last one first if `reverse`; the ys are stacked along the same
    dimension, each where its x was. The carry, `xs` and what `f` yields are a tensor, or tuples, lists and dicts of
    tensors; `xs` and ys may be None, and then `length` says how many steps there are. A carry keeps its shapes and
    dtypes. `f` is traced once and runs as a loop of any number of steps from 1; it may use tensors from outside, which
    are the same in each step. BadArgument for what does not fit.
    """
    carries, elements = list(_tensors(init, "init")), list(_tensors(xs, "xs"))
    axes = [movement.axis("scan", x.edge, dim) for x in elements]
    lengths = [x.extents[d] for x, d in zip(elements, axes, strict=True)]
    steps = _length([*lengths, *([] if length is None else [ix(length)])])
    at_front = [
        movement.permute(x.edge, _front(x.ndim, d)) for x, d in zip(elements, axes, strict=True)
    ]
    if reverse:
        at_front = [movement.flip(e, 0) for e in at_front]
    further: list[Any] = []

    def body(before: list[Edge], x: list[Edge]) -> tuple[list[Edge], list[Edge]]:
        result: Any = f(_like(init, before), _like(xs, x))
        if not isinstance(result, tuple) or len(cast("tuple[Any, ...]", result)) != 2:
            expected = "(the next carry, what is kept of the step or None)"
            raise fail(BadArgument, op="scan", name="f", value=_shape(result), expected=expected)
        after, y = cast("tuple[Any, Any]", result)
        if _shape(after) != _shape(init):
            expected = f"{_shape(init)}, as init is"
            raise fail(
                BadArgument, op="scan", name="a carry", value=_shape(after), expected=expected
            )
        further.append(y)
        return [t.edge for t in _tensors(after, "a carry")], [t.edge for t in _tensors(y, "ys")]

    stacked, ys = scanned(body, [t.edge for t in carries], at_front, axis=0, length=steps)
    last = [movement.squeeze(movement.slice_axis(e, 0, steps - 1, ix(1)), 0) for e in stacked]
    if reverse:
        ys = [movement.flip(e, 0) for e in ys]
    out = [movement.permute(e, _back(len(e.shape), dim)) for e in ys]
    return _like(init, last), _like(further[0], out)


def _front(rank: int, d: int) -> list[int]:
    return [d, *range(d), *range(d + 1, rank)]


def _back(rank: int, dim: int) -> list[int]:
    """The first dimension to `dim`, of what has as many or fewer."""
    d = min(dim, rank - 1) if dim >= 0 else max(dim + rank, 0)
    return [*range(1, d + 1), 0, *range(d + 1, rank)]


def _length(known: list[Ix]) -> Ix:
    if not known or any(n is not known[0] for n in known):
        value = " and ".join(map(str, known)) or "no xs and no length"
        raise fail(BadArgument, op="scan", name="the length", value=value, expected="one for all")
    if not is_less(ix(0), known[0]):
        expected = "at least one step in all cases"
        raise fail(BadArgument, op="scan", name="the length", value=known[0], expected=expected)
    return known[0]


def _children(tree: Any) -> list[Any]:
    if isinstance(tree, Mapping):
        return list(cast("Mapping[Any, Any]", tree).values())
    return list(cast("tuple[Any, ...]", tree))


def _tensors(tree: Any, name: str) -> Iterator[Tensor]:
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, tuple | list | Mapping):
        for child in _children(tree):
            yield from _tensors(child, name)
    elif tree is not None:
        expected = "tensors, or tuples, lists and dicts of them"
        value = f"a {type(tree).__name__}"
        raise fail(BadArgument, op="scan", name=name, value=value, expected=expected)


def _shape(tree: Any) -> str:
    """How tensors are put together."""
    if isinstance(tree, Tensor):
        return "a tensor"
    if isinstance(tree, tuple | list | Mapping):
        kind = type(cast("object", tree)).__name__
        return f"{kind}({', '.join(map(_shape, _children(tree)))})"
    return "None"


def _like(tree: Any, edges: list[Edge]) -> Any:
    """The edges put together as the tensors of `tree` are."""
    rest = iter(edges)

    def build(t: Any) -> Any:
        if isinstance(t, Tensor):
            return Tensor(next(rest))
        if isinstance(t, Mapping):
            given = cast("Mapping[Any, Any]", t)
            return {key: build(child) for key, child in given.items()}
        if isinstance(t, tuple | list):
            kind = cast("type[Any]", type(cast("object", t)))
            children = [build(child) for child in cast("tuple[Any, ...]", t)]
            return kind(*children) if hasattr(kind, "_fields") else kind(children)
        return t

    return build(tree)
