"""hazards: which launches of an entry have to wait for those before them, where a device runs launches at once.

A launch waits if it reads what another one may still write, or writes what another one may still read or write. Slots
of the arena may share memory unless one lies behind the other.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from lumigen.program import (
    Argument,
    CompiledModel,
    Launch,
    Program,
    SlotArg,
    WeightArg,
    whole,
)

Behind = dict[str, frozenset[str]]  # the slots that lie wholly before each slot


def waits(model: CompiledModel, program: Program) -> tuple[bool, ...]:
    """Of each launch in order. Of steps with several variants, and of loops over steps, all wait, and what follows."""
    behind = _behind(program)
    meets = partial(_meet, behind)
    reads, writes, out = set[Argument](), set[Argument](), list[bool]()
    follows = False
    for group in program.groups:
        alone = len(group.variants) > 1 or bool(group.repeats)
        for launch in (x for v in group.variants for x in v.launches):
            read, written = _touched(model, launch)
            hazard = meets(read, writes) or meets(written, reads | writes)
            out.append(alone or follows or hazard)
            if out[-1]:
                reads, writes = set[Argument](), set[Argument]()
            reads, writes, follows = reads | read, writes | written, alone
    return tuple(out)


def _touched(model: CompiledModel, launch: Launch) -> tuple[set[Argument], set[Argument]]:
    """(what it reads, what it writes)."""
    read, written = set[Argument](), set[Argument]()
    for p, a in zip(model.kernel(launch.kernel).parameters, launch.arguments, strict=True):
        if p.is_pointer:
            of = replace(a, base=0) if isinstance(a, WeightArg) else whole(a)
            (written if p.changed else read).add(of)
    return read, written


def _meet(behind: Behind, some: set[Argument], others: set[Argument]) -> bool:
    return any(_share(a, b, behind) for a in some for b in others)


def _share(a: Argument, b: Argument, behind: Behind) -> bool:
    """Whether two tensors may have memory in common."""
    if isinstance(a, SlotArg) and isinstance(b, SlotArg):
        return a.slot not in behind[b.slot] and b.slot not in behind[a.slot]
    return a == b


def _behind(program: Program) -> Behind:
    """A slot begins at the end of those that it lies behind, all of which stand before it."""
    out: Behind = {}
    for slot in program.arena:
        out[slot.name] = frozenset(slot.after).union(*(out[name] for name in slot.after))
    return out
