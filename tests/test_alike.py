"""Forms of regions: the same for what computes the same on other buffers, another one for anything else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tiles import traced

import lumigen as lg
from lumigen.graph import Node
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.alike import form_of
from lumigen.lower.axes import unify_axes
from lumigen.lower.canonical import canonical
from lumigen.lower.cut_graph import CutGraph
from lumigen.ops import Op
from lumigen.region import Region

SPECS = {name: lg.spec(6, 6) for name in "xyuv"}


def cut(function: Callable[..., Any], **specs: Any) -> tuple[CutGraph, list[Node]]:
    """A graph that is cut at its sums and at its outputs, and the roots of its regions."""
    graph = traced(function, **(specs or SPECS))
    for step in GRAPH_PASSES:
        graph = step(graph)
    g = CutGraph(graph)
    roots = [n for n in g.order if n.op is Op.SUM_REDUCE]
    roots += [e.node for _, e in graph.outputs if e.node not in roots]
    g.materialise(roots)
    return g, roots


def forms(function: Callable[..., Any], **specs: Any) -> list[Any]:
    g, roots = cut(function, **specs)
    return [form_of(g, n) for n in roots]


def test_layers_that_are_equal_have_the_same_forms() -> None:
    def layers(x: Any, y: Any, u: Any, v: Any) -> Any:
        for w in (y, u, v):
            x = (x.relu() @ w) * 0.5
        return x + 1

    first, *others = forms(layers)
    assert len(others) == 3
    assert len({first, *others[:2]}) == 3 - 1, "the first reads an input, without the factor"
    assert others[0] == others[1]


@pytest.mark.parametrize(
    "other",
    [
        lambda x, y: (x * 2 + y).sum(-1),  # another number
        lambda x, y: (x * 3 - y).sum(-1),  # another op
        lambda x, y: (x * 3 + y).sum(0),  # another axis
        lambda x, y: (x * 3 + y.mT).sum(-1),  # another order of an operand
        lambda x, y: (x * 3 + y[:, :1]).sum(-1),  # another part of it
        lambda x, y: (x * 3 + x).sum(-1),  # one operand twice
        lambda x, y: (x * 3 + y).amax(-1),
    ],
)
def test_what_computes_something_else_has_another_form(other: Callable[..., Any]) -> None:
    def both(x: Any, y: Any, u: Any, v: Any) -> Any:
        return {"a": (x * 3 + y).sum(-1), "b": other(u, v)}

    g, _ = cut(both)
    one, two = (form_of(g, e.node) for _, e in g.graph.outputs)
    assert one != two


def test_types_and_sizes_belong_to_the_form() -> None:
    def three(x: Any, y: Any, z: Any) -> Any:
        return {"a": x.sum(-1), "b": y.sum(-1), "c": z.sum(-1)}

    specs = {"x": lg.spec(6, 6), "y": lg.spec(6, 7), "z": lg.spec(6, 6, dtype=lg.f64)}
    assert len(set(forms(three, **specs))) == 3


def test_what_is_shared_differs_from_what_is_alike() -> None:
    def both(x: Any, y: Any, u: Any, v: Any) -> Any:
        e = x.exp()
        return {"a": (e * e + y).sum(-1), "b": (u.exp() * v.exp() + y).sum(-1)}

    one, two = forms(both)
    assert one != two


def test_a_cut_changes_the_form() -> None:
    def function(x: Any, y: Any) -> Any:
        return (x.exp2() * y).sum(-1)

    g, (root,) = cut(function, x=lg.spec(6, 6), y=lg.spec(6, 6))
    whole = form_of(g, root)
    g.materialise([n for n in g.order if n.op is Op.EXP2])
    assert form_of(g, root) != whole


def test_a_form_says_what_a_canonical_region_says() -> None:
    """Two regions of one form are one region over canonical buffers, and a question is asked once of them."""

    def layers(x: Any, y: Any, u: Any, v: Any) -> Any:
        for w in (y, u, v, y):
            x = (x @ w).softmax(-1) * 0.5 + x
        return x

    g, roots = cut(layers)
    regions: dict[Any, set[Region]] = {}
    for n in roots:
        regions.setdefault(form_of(g, n), set()).add(canonical(unify_axes(g.region(n))).region)
    assert all(len(found) == 1 for found in regions.values())
    assert len(regions) < len(roots)
    asked: list[Region] = []
    for n in roots:
        g.asked(asked.append, n)
    assert len(asked) == len(regions)
