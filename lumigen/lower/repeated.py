"""repeated: values that loops compute again and again, and what it saves to store them once and read them.

A mask of positions has no axis of heads, a part of a concatenation may be the same in all rows: where the loops around
such a value run over more axes than it has, and it cannot be computed outside of them, they compute it once for each
of their points. It is asked of the regions as they are cut, with the value and without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from lumigen.graph import Node
from lumigen.lower.contractions import volume_of
from lumigen.lower.cut_graph import MONOIDS, CutGraph
from lumigen.lower.places import scaled_bytes, widens_bytes
from lumigen.lower.skeletons import Skeletons
from lumigen.lower.work import work
from lumigen.machine import Steps
from lumigen.memo import remembered
from lumigen.ops import SOURCES, Op
from lumigen.region import Region


def repeated(g: CutGraph, skeletons: Skeletons, steps: Steps) -> list[Node]:
    """Values that regions would rather read, what saves most first: one of each region, as others may depend on it."""
    saved: dict[Node, float] = {}
    owners = _owners(g)
    for n, roots in owners.items():
        gain = _saved(g, skeletons, steps, n, roots)
        if gain > 0:
            saved[n] = gain
    out: list[Node] = []
    taken: set[Node] = set()
    for n in sorted(saved, key=lambda n: (-saved[n], g.number[n])):
        if taken.isdisjoint(owners[n]):
            out.append(n)
            taken.update(owners[n])
    return out


def _owners(g: CutGraph) -> dict[Node, list[Node]]:
    """Values without reductions that become part of larger ones, by the regions that compute both.

    Not of new versions of a state, which compute what is new alone; nor what weights are unpacked to, nor integers of 8
    bits in 32 or times fewer numbers, which products take as memory has them.
    """
    out: dict[Node, list[Node]] = {}
    unpacked = _unpacked(g)
    versions = {e.node for _, e in g.graph.updates}
    for root in g.roots():
        if root.op in (Op.NATIVE, Op.SCAN) or root in versions:
            continue
        inside = g.inside(root)
        reduces = _reducing(g, inside)
        scaled = {x for n in inside if (of := scaled_bytes(n)) is not None for x in (n, of[0])}
        grows = {
            a
            for n in inside
            for a in g.inlined_by(n)
            if n.op not in MONOIDS and volume_of(a.shape) < volume_of(n.shape)
        }
        for n in inside:
            skipped = n in reduces or n in unpacked or n in scaled or widens_bytes(n)
            if n in grows and n is not root and not skipped:
                out.setdefault(n, []).append(root)
    return out


def _unpacked(g: CutGraph) -> set[Node]:
    """Values of weights alone that have more bytes than these: a run reads the weights faster than what is stored."""
    made: dict[Node, frozenset[Node] | None] = {}
    for n in g.order:
        if n.op in (Op.WEIGHT, Op.CONST, Op.IOTA):
            made[n] = frozenset({n} if n.op is Op.WEIGHT else ())
        elif n.op in SOURCES or n.op in (Op.SCAN, Op.NATIVE):
            made[n] = None
        else:
            made[n] = _together([made[e.node] for e in n.args])
    return {n for n, of in made.items() if of and _bytes([n]) > _bytes(of)}


def _together(sets: list[frozenset[Node] | None]) -> frozenset[Node] | None:
    found = [s for s in sets if s is not None]
    return frozenset[Node]().union(*found) if len(found) == len(sets) else None


def _bytes(nodes: Iterable[Node]) -> int:
    return sum(volume_of(n.shape) * n.dtype.itemsize for n in nodes)


def _reducing(g: CutGraph, inside: list[Node]) -> set[Node]:
    """Those of some nodes, in order, that hold a reduction or a loop, or are one."""
    out: set[Node] = set()
    for n in inside:
        if n.op in MONOIDS or n.op is Op.SCAN or not out.isdisjoint(g.inlined_by(n)):
            out.add(n)
    return out


def _saved(g: CutGraph, skeletons: Skeletons, steps: Steps, n: Node, roots: list[Node]) -> float:
    """What the regions take less, with the value stored in a launch of its own."""
    takes = _work_in(steps)
    whole = sum(g.asked(takes, root) for root in roots)
    if whole <= steps.launch:
        return 0
    apart = g.cut_also(n)
    gain = whole - sum(apart.asked(takes, root) for root in (*roots, n)) - steps.launch
    is_largest = all(g.asked(_largest, root) < volume_of(n.shape) for root in roots)
    worth = steps.worth_of_largest if is_largest else steps.worth
    if gain * worth < whole:
        return 0
    runs = skeletons.runs_whole
    return gain if all(apart.asked(runs, r) or not g.asked(runs, r) for r in roots) else 0


@remembered
def _work_in(steps: Steps) -> Callable[[Region], float]:
    """One question for each machine: answers are kept by it."""
    return partial(work, steps=steps)


def _largest(region: Region) -> int:
    """The elements of the largest buffer that a region reads or stores: memory grows with larger values."""
    return max(volume_of(b.dims) for b in (*region.reads(), *(s.dst for s in region.stores)))
