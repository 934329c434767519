"""partition: cut the graph into regions of index notation.

Before: a graph and the values of it that are stored.  After: regions in launch order, one store each; every value that
is computed in one region and read in another has a buffer. Whatever is not cut is inlined. The cut set is a value:
`default_cuts` is the heuristic's, made by the rules of `cuts`; any other set of nodes gives regions that compute the
same, as long as it has what `obligatory_cuts` asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice

from lumigen.graph import Graph, Node
from lumigen.index import Ix, ix
from lumigen.lower.canonical import canonical
from lumigen.lower.cut_graph import CutGraph
from lumigen.lower.cuts import CUTS
from lumigen.lower.places import At, Looped, Place, is_whole, loop_of, read_step
from lumigen.lower.skeletons import Skeletons
from lumigen.lower.versions import Versions, place_versions
from lumigen.ops import Op
from lumigen.region import Buffer, Expr, Region, Role
from lumigen.view import identity

Inlines = Callable[
    [Region], bool
]  # of the canonical region that computes a value which the heuristic stores


def partition(
    graph: Graph, skeletons: Skeletons, inlines: Inlines | None = None
) -> tuple[Region, ...]:
    """The regions of a graph by the heuristic's cuts, less those whose values are computed where they are read."""
    cuts = default_cuts(graph, skeletons)
    if inlines is None:
        return regions(graph, cuts)
    return regions(graph, cuts - {n for n, region in removable(graph, cuts) if inlines(region)})


def removable(graph: Graph, cuts: frozenset[Node]) -> Iterator[tuple[Node, Region]]:
    """The cuts that are there for speed alone, each with the canonical region that computes it.

    Not those in bodies of loops, nor what the model shows.
    """
    g = CutGraph(graph)
    g.materialise(n for n in g.order if n in cuts)
    kept = obligatory_cuts(graph)
    for n in (n for n in g.order if n in cuts - kept and n not in g.loops):
        if n.op is not Op.NATIVE and g.place(n).buffer.role is Role.TEMP:
            yield n, canonical(g.region(n)).region


def default_cuts(graph: Graph, skeletons: Skeletons) -> frozenset[Node]:
    """The values that the rules store, those in the bodies of loops too."""
    return _cuts_of(CutGraph(graph), skeletons)


def rules_of_cuts(graph: Graph, skeletons: Skeletons) -> Mapping[str, Callable[..., object]]:
    """For each buffer that the heuristic's cuts have, by name: the rule of `cuts` that wanted it first."""
    return _rules_of(CutGraph(graph), skeletons)


def _rules_of(g: CutGraph, skeletons: Skeletons) -> dict[str, Callable[..., object]]:
    cut_up(g, skeletons)
    found = {g.place(n).buffer.name: rule for n, rule in g.wanted_by.items()}
    for body, _ in _bodies(g):
        found |= _rules_of(body, skeletons)
    return found


def obligatory_cuts(graph: Graph) -> frozenset[Node]:
    """The values that are stored whatever else is: states, what native kernels read, scans."""
    return frozenset(_obligatory(CutGraph(graph)))


def regions(graph: Graph, cuts: frozenset[Node]) -> tuple[Region, ...]:
    """The regions of a graph that is cut so, in an order in which every buffer is stored before it is read."""
    return _regions_of(CutGraph(graph), cuts)


def _cuts_of(g: CutGraph, skeletons: Skeletons) -> frozenset[Node]:
    cut_up(g, skeletons)
    inside = (_cuts_of(body, skeletons) for body, _ in _bodies(g))
    return frozenset(g.cut).union(*inside)


def _obligatory(g: CutGraph) -> set[Node]:
    for rule in CUTS.first:
        g.materialise(rule(g))
    return g.cut.union(*(_obligatory(body) for body, _ in _bodies(g)))


def _regions_of(g: CutGraph, cuts: frozenset[Node]) -> tuple[Region, ...]:
    g.materialise(n for n in g.order if n in cuts)
    return _regions(g, cuts)


def cut_up(g: CutGraph, skeletons: Skeletons) -> None:
    """Apply the rules until none of them cuts: a factor no longer expands once what it holds is stored."""
    for rule in CUTS.first:
        g.materialise(rule(g), rule)
    while True:
        _settle(g, skeletons)
        asked = ((rule, list(rule(g, skeletons))) for rule in CUTS.last)
        found = next(((rule, cut) for rule, cut in asked if cut), None)
        if found is None:
            return
        rule, cut = found
        g.materialise(cut, rule)


def _settle(g: CutGraph, skeletons: Skeletons) -> None:
    """Apply the rules of nodes and of regions until none of them cuts."""
    done = None
    while done != len(g.cut):
        done = len(g.cut)
        for n in g.order:
            for rule in CUTS.at_nodes:
                g.materialise(rule(g, skeletons, n), rule)
        for rule in CUTS.of_regions:
            g.materialise(rule(g, skeletons), rule)


def _regions(g: CutGraph, cuts: frozenset[Node]) -> tuple[Region, ...]:
    out: list[Region] = []
    bodies = _bodies(g)
    loops = {
        g.loops[n]: (n, body, given) for (body, given), n in zip(bodies, _begun(g), strict=True)
    }
    for n in (n for n in g.order if n in g.cut):
        if n.op is Op.NATIVE:
            out += (g.stored(g.copy_of(n, e), e) for e in n.args if not g.is_stored(e))
        if n not in g.loops:
            out.append(g.region(n))
        elif (found := loops.pop(g.loops[n], None)) is not None:
            first, body, given = found
            out += given
            out += _of_steps(g, first, _regions_of(body, cuts))
    states: dict[Node, list[Buffer]] = {}
    for number, (state, e) in enumerate(g.graph.updates):
        made = states.setdefault(state, [])
        if is_whole(e) and e.node not in g.loops:
            made.append(g.place(e.node).buffer)
        else:
            made.append(Buffer(f"u{number}", Role.TEMP, e.shape, e.dtype))
            out.append(g.stored(Place(made[-1]), e))
    stored = {g.place(n) for n in g.cut}
    out += [g.stored(place, e) for place, e in g.shown if place not in stored]
    versions = (Versions(g.place(n).buffer, tuple(made)) for n, made in states.items())
    return place_versions(tuple(out), tuple(versions))


def _begun(g: CutGraph) -> list[Node]:
    """The first result of each loop that is cut, in order."""
    first: dict[Looped, Node] = {}
    for n in (n for n in g.order if n in g.cut and n in g.loops):
        first.setdefault(g.loops[n], n)
    return list(first.values())


def _bodies(g: CutGraph) -> list[tuple[CutGraph, list[Region]]]:
    """The bodies of the loops of a graph that is cut, and what goes into each before it begins."""
    return [_body(g, n, g.loops[n]) for n in _begun(g)]


def _body(g: CutGraph, n: Node, made: Looped) -> tuple[CutGraph, list[Region]]:
    loop = loop_of(n)
    step = ix(made.step)
    out: list[Region] = []
    given: dict[Node, Callable[[At], Expr]] = {}
    inputs = iter(zip(loop.body.inputs, n.args, strict=True))
    for carry, (i, e) in zip(made.results, islice(inputs, loop.carries), strict=False):
        out.append(g.stored(Place(carry, (ix(0),)), e))
        given[i] = partial(read_step, carry, step)
    for number, (i, e) in enumerate(islice(inputs, loop.elements)):
        if loop.axis == 0 and e.view == identity(e.node.shape) and _has_slices(g, e.node):
            given[i] = partial(_at_step, g, e.node, step)
            continue
        shape = (loop.length, *i.shape)
        b = Buffer(f"{made.name}_element{number}", Role.TEMP, shape, e.dtype)
        out.append(g.stored(Place(b, (), loop.axis), e))
        given[i] = partial(read_step, b, step)
    given |= {i: partial(g.at_edge, e) for i, e in inputs}
    shown = [
        (Place(b, (step + (k < loop.carries),)), e)
        for k, (b, (_, e)) in enumerate(zip(made.results, loop.body.outputs, strict=True))
    ]
    return CutGraph(loop.body, f"{made.name}_", given, shown), out


def _of_steps(g: CutGraph, n: Node, body: tuple[Region, ...]) -> list[Region]:
    """The regions of a body, each of which runs once in each step."""
    step, lines = g.loops[n].step, g.graph.lines.get(n, ())
    return [replace(r, steps=(step, *r.steps), lines=r.lines or lines) for r in body]


def _has_slices(g: CutGraph, n: Node) -> bool:
    """Whether steps can read it where it lies."""
    return n in g.cut or (n.op is Op.INPUT and n not in g.given)


def _at_step(g: CutGraph, n: Node, step: Ix, at: At) -> Expr:
    return g.at_node(n, (step, *at))
