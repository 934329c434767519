"""Layers that repeat: launches that differ in their weights alone become one round of a loop.

Promises that `unroll` of what `reroll` gives are the groups of before, but for the lines of the model that they name.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, takewhile
from typing import Union

from lumigen.errors import LoweringFailed, SourceLocation
from lumigen.program import (
    Argument,
    CounterArg,
    Group,
    Launch,
    PartArg,
    StateArg,
    Variant,
    WeightArg,
    runs,
)
from lumigen.rounds import find_rounds

Place = tuple[int, int]  # launch of a round, of all variants in order; argument


@dataclass(frozen=True)
class Column:
    """An argument that is another one in each round, wherever a round has it."""

    places: tuple[Place, ...]
    arguments: tuple[Argument, ...]  # by round


@dataclass(frozen=True)
class Rolled:
    """A loop over `groups`, the first of its rounds, of which `columns` change.

    Launches name the lines of the model of all rounds.
    """

    rounds: int
    groups: tuple[Group, ...]
    columns: tuple[Column, ...]


Piece = Union[Group, Rolled]
Block = tuple[Group, ...]  # a group, or the groups of one loop of the program


def reroll(groups: tuple[Group, ...]) -> tuple[Piece, ...]:
    """The groups in order, those that repeat as loops; checked by unrolling them again."""
    blocks: list[Block] = []
    for repeat, body in runs(groups, 0):
        blocks.extend([(g,) for g in body] if repeat is None else [body])
    sizes = [len(launches_of(b)) for b in blocks]
    out: list[Piece] = []
    end = 0
    for found in find_rounds([*map(_block_key, blocks)], sizes, partial(_alike, blocks)):
        out.extend(g for b in blocks[end : found.start] for g in b)
        end = found.end
        out.append(
            _rolled([blocks[i : i + found.period] for i in range(found.start, end, found.period)])
        )
    out.extend(g for b in blocks[end:] for g in b)
    if _bare(unroll(out)) != _bare(groups):
        raise LoweringFailed(step="emit", what="a loop of layers that is not the launches it was")
    return tuple(out)


def unroll(pieces: Iterable[Piece]) -> Iterator[Group]:
    """The groups one by one."""
    for piece in pieces:
        if isinstance(piece, Group):
            yield piece
            continue
        for number in range(piece.rounds):
            found = {p: c.arguments[number] for c in piece.columns for p in c.places}
            launches = (
                replace(x, arguments=tuple(found.get((n, i), a) for i, a in enumerate(x.arguments)))
                for n, x in enumerate(launches_of(piece.groups))
            )
            yield from _with_launches(piece.groups, launches)


def launches_of(groups: Iterable[Group]) -> list[Launch]:
    """Of all variants, in order."""
    return [x for g in groups for v in g.variants for x in v.launches]


def _with_launches(groups: Iterable[Group], launches: Iterator[Launch]) -> Iterator[Group]:
    """The same steps with other launches in their places."""
    for g in groups:
        variants = (
            replace(v, launches=tuple(islice(launches, len(v.launches)))) for v in g.variants
        )
        yield replace(g, variants=tuple(variants))


def _alike(blocks: Sequence[Block], start: int, period: int) -> int:
    """How much the names of the weights that change have in common in the first round.

    A loop may begin anywhere in a layer. Where it begins with one, its weights are those of one layer.
    """
    one = blocks[start : start + period]
    other = blocks[start + period : start + 2 * period]
    pairs = zip(_arguments(one), _arguments(other), strict=True)
    names = [a.stored for a, b in pairs if a != b and isinstance(a, WeightArg)]
    same = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    return sum(1 for _ in same)


def _arguments(blocks: Sequence[Block]) -> Iterator[Argument]:
    for launch in launches_of(g for block in blocks for g in block):
        yield from launch.arguments


# ---- what rounds have in common ----


def _block_key(block: Block) -> Hashable:
    return tuple((g.repeats, tuple(map(_variant_key, g.variants))) for g in block)


def _variant_key(variant: Variant) -> Hashable:
    return variant.when, tuple(
        (x.kernel, x.tasks, tuple(map(_argument_key, x.arguments))) for x in variant.launches
    )


def _argument_key(a: Argument) -> Hashable:
    """What must be the same in all rounds."""
    match a:
        case WeightArg():
            return WeightArg
        case StateArg():
            return StateArg
        case CounterArg(_, count):
            return CounterArg, count
        case PartArg(of, base, elements, dtype):
            return PartArg, of, base - base.const, elements, dtype
        case _:
            return a


def _bare(groups: Iterable[Group]) -> list[Group]:
    """Without the lines of the model."""
    every = list(groups)
    return list(_with_launches(every, (replace(x, lines=()) for x in launches_of(every))))


# ---- a loop of them ----


def _rolled(rounds: Sequence[Sequence[Block]]) -> Rolled:
    bodies = [tuple(g for block in blocks for g in block) for blocks in rounds]
    places: dict[tuple[Argument, ...], list[Place]] = {}
    launches: list[Launch] = []
    for n, same in enumerate(zip(*map(launches_of, bodies), strict=True)):
        for i, arguments in enumerate(zip(*(x.arguments for x in same), strict=True)):
            if any(a != arguments[0] for a in arguments):
                places.setdefault(arguments, []).append((n, i))
        launches.append(replace(same[0], lines=_lines(same)))
    columns = tuple(Column(tuple(p), arguments) for arguments, p in places.items())
    return Rolled(len(rounds), tuple(_with_launches(bodies[0], iter(launches))), columns)


def _lines(launches: Sequence[Launch]) -> tuple[SourceLocation, ...]:
    return tuple(dict.fromkeys(line for x in launches for line in x.lines))
