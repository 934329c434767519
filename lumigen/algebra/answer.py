"""answer: what the algebra says of one block: the cheapest program that it proves equal, by which rules, and how sure.

A program is taken only if it is cheaper by more than estimates err, and if it gives what the block gives on random
numbers, at extents of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from lumigen.algebra.egraph import Classes, EGraph, ENode
from lumigen.algebra.extract import EqualProgram, Prices, as_it_is, extracted
from lumigen.algebra.meaning import Array, AxisArray, Meaning, aligned, shape_of
from lumigen.algebra.rules import BY_NAME, RULES
from lumigen.algebra.terms import Block
from lumigen.dtype import BY_NAME as DTYPES

GAIN = 0.01  # of a block's time: a program that saves less is left alone
NEAR = 1e-9  # how far random results in f64 may be apart, relative to the greatest
LEAST, SIZES = 2, 3  # the fewest points of an axis in a comparison, and how many sizes there are


@dataclass(frozen=True)
class RuleSet:
    """The rules that may be used, by name, and what things cost."""

    rules: tuple[str, ...]
    prices: Prices


@dataclass(frozen=True)
class Answer:
    """The program that is cheaper than the block, None where there is none; which rules it needs.

    `before` is what the block costs; `size` counts the e-nodes of its e-graph.
    """

    program: EqualProgram | None
    rules: tuple[str, ...]
    before: float
    size: int
    is_saturated: bool


def answer(graph: EGraph, block: Block, variant: RuleSet) -> Answer:
    """What the rules of a variant make of a block."""
    rules = [BY_NAME[name] for name in variant.rules]
    plain = extracted(as_it_is(block), block, variant.prices)
    assert plain is not None, "a block is no circle"
    found = graph.saturated(block, rules)
    best = extracted(found, block, variant.prices)
    none = Answer(None, (), plain.cost, found.size, found.is_saturated)
    if best is None or best.cost >= plain.cost * (1 - GAIN) or not agrees(block, best):
        return none
    return replace(none, program=best, rules=needed(graph, block, best, found.matched))


def needed(
    graph: EGraph, block: Block, program: EqualProgram, matched: frozenset[str]
) -> tuple[str, ...]:
    """Rules that the program is equal to the block by, of which none can be left out, of those that have matched."""
    rules = [r for r in RULES if r.name in matched]
    kept = list(rules)
    for r in rules:
        fewer = [other for other in kept if other is not r]
        if holds(graph.saturated(block, fewer), program):
            kept = fewer
    return tuple(r.name for r in kept)


def holds(found: Classes, program: EqualProgram) -> bool:
    """Whether the program is in the e-graph, with its roots in the classes of the block's."""
    of = {n: c for c, nodes in found.nodes.items() for n in nodes}
    places: list[str] = []
    for t in program.terms:
        c = of.get(ENode(t.kind, tuple(places[a] for a in t.args), t.label))
        if c is None:
            return False
        places.append(c)
    return tuple(places[r] for r in program.roots) == found.roots


def agrees(block: Block, program: EqualProgram) -> bool:
    """Whether both give the same on random numbers, of either sign and positive: some have no root or logarithm."""
    rng = np.random.default_rng(0)
    sizes = {a: LEAST + i % SIZES for i, (a, _) in enumerate(block.sizes)}
    for is_positive in (False, True):
        leaves = random_leaves(block, sizes, rng, is_positive=is_positive)
        meaning = Meaning(block, sizes, leaves)
        wanted, made = meaning.values(block.terms), meaning.values(program.terms)
        pairs = zip(block.roots, program.roots, strict=True)
        if not all(are_near(wanted[a], made[b]) for a, b in pairs):
            return False
    return True


def random_leaves(
    block: Block, sizes: Mapping[str, int], rng: np.random.Generator, *, is_positive: bool = False
) -> list[Array]:
    """A value for each leaf: normal floats, or their magnitudes; integers that are 0 or 1; masks."""
    out: list[Array] = []
    for leaf in block.leaves:
        dtype, of = DTYPES[leaf.dtype], shape_of(leaf.axes, sizes)
        made = rng.standard_normal(of) if dtype.is_float else rng.integers(0, 2, of)
        made = np.abs(made) if is_positive else made
        out.append(made.astype(np.float64 if dtype.is_float else dtype.numpy))
    return out


def are_near(a: AxisArray, b: AxisArray) -> bool:
    """Near each other where finite, and alike elsewhere; one may vary with axes along which the other is the same."""
    x, y = np.broadcast_arrays(*aligned(a, b)[0])
    if x.dtype.kind != "f":
        return bool(np.array_equal(x, y))
    finite = np.isfinite(x)
    greatest = float(np.max(np.abs(x[finite]), initial=0.0))
    near = np.abs(x[finite] - y[finite]) <= NEAR * max(greatest, 1.0)
    return bool(near.all()) and bool(np.array_equal(x[~finite], y[~finite], equal_nan=True))
