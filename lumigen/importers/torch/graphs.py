"""graphs: the operators of PyTorch that run graphs: `cond`, `map`, `scan` and `while_loop`.

Both branches of a `cond` are computed, as neither has effects, and a `scan` and a `map` are one loop of the model. The
steps of a `while_loop` are written out, as often as its condition says, which must depend on numbers alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from lumigen.frontend import creation, functions
from lumigen.frontend.operand import where
from lumigen.frontend.symbolic import SymbolicSize
from lumigen.frontend.tensor import Tensor
from lumigen.graph import Graph
from lumigen.importers.leaves import leaves
from lumigen.interp.graph import evaluate

MOST_STEPS = 1024  # of a loop that is written out
MOST_NUMBERS = 4096  # elements that a number may take to compute
UNKNOWN = "how often it runs depends on {what}; torch._higher_order_ops.scan takes a step for each element"
ENDLESS = f"it runs more than {MOST_STEPS} steps, and each is written out: scan is one loop"

Run: TypeAlias = Callable[[Any, Sequence[Any]], Any]  # the results of a graph, given its operands


class Refused(Exception):
    """Why a node cannot be compiled."""


def cond(
    run: Run, choice: Any, first: Any, second: Any, operands: Sequence[Any] = ()
) -> Sequence[Any]:
    """One branch where it is decided; else both, and one result of each two."""
    if isinstance(choice, bool | SymbolicSize):
        return run(first if choice else second, operands)
    pairs = zip(run(first, operands), run(second, operands), strict=True)
    return [a if same(a, b) else where(choice, a, b) for a, b in pairs]


def same(a: Any, b: Any) -> bool:
    """Whether both branches give one number, such as a size, or nothing."""
    return not isinstance(a, Tensor) and not isinstance(b, Tensor) and a == b


def scan(
    run: Run, body: Any, first: Sequence[Any], elements: Sequence[Any], more: Sequence[Any] = ()
) -> Sequence[Any]:
    """The last carries, and what each step gives, stacked."""
    count = len(first)

    def step(carry: Sequence[Any], x: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        out = run(body, [*carry, *x, *more])
        return tuple(out[:count]), tuple(out[count:])

    last, listed = functions.scan(step, tuple(first), tuple(elements))
    return [*last, *listed]


def map_(run: Run, body: Any, elements: Sequence[Any], more: Sequence[Any] = ()) -> Sequence[Any]:
    """What each element gives, stacked."""
    return scan(run, body, (), elements, more)


def while_loop(
    run: Run, condition: Any, body: Any, first: Sequence[Any], more: Sequence[Any] = ()
) -> Sequence[Any]:
    """The carries after the last step."""
    carried = [known(x) for x in first]
    for _ in range(MOST_STEPS + 1):
        if not decided(run(condition, [*carried, *more])):
            return carried
        carried = [known(x) for x in run(body, [*carried, *more])]
    raise Refused(ENDLESS)


def decided(going: Any) -> bool:
    """Whether a loop goes on."""
    if isinstance(going, list):
        (going,) = cast("list[Any]", going)
    if not isinstance(going, Tensor):
        return bool(going)
    inputs, dims = leaves(Graph((), (("out", going.edge),)))
    if inputs or dims:
        raise Refused(UNKNOWN.format(what=f"{(inputs or dims)[0]}, which only a run knows"))
    return bool(numbers(going))


def known(value: Any) -> Any:
    """A value that depends on no input as a constant, so that what a loop counts with stays small."""
    if not isinstance(value, Tensor) or value.ndim > 0:
        return value
    if any(leaves(Graph((), (("out", value.edge),)))):
        return value
    return creation.tensor(numbers(value), dtype=value.dtype)


def numbers(value: Tensor) -> Any:
    """The elements of a tensor that depends on numbers alone."""
    graph = Graph((), (("out", value.edge),))
    if any(graph.weights()):
        raise Refused(UNKNOWN.format(what="a weight"))
    if greatest(graph) > MOST_NUMBERS:
        raise Refused(UNKNOWN.format(what="many numbers"))
    return evaluate(graph, {}, {})["out"]


def greatest(graph: Graph) -> int:
    """Elements of the greatest tensor on the way to the results of a graph, whose sizes are numbers."""
    edges = (*graph.roots(), *(a for n in graph.nodes() for a in n.args))
    return max(math.prod(e.const for e in a.shape) for a in edges)


GRAPHS: Mapping[str, Callable[..., Sequence[Any]]] = {
    "cond": cond,
    "map_impl": map_,
    "scan": scan,
    "while_loop": while_loop,
}
