"""ahead: loops over lanes that ask memory for what a later turn of the loop around them reads.

Before: statements that fold something.  After: the same, with a statement for each line of memory that vectors will
read, as rows of weights that follow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lumigen.index import Axis, Ix, is_nonnegative, ix
from lumigen.lower.scope import address
from lumigen.plan import Loop
from lumigen.region import Read, walk
from lumigen.tile import Ahead, For, Stmt


def asked_of(
    fold: Loop, places: Sequence[Mapping[Axis, Ix]], later: Mapping[Axis, Ix]
) -> list[tuple[Axis, Ahead]]:
    """What each of these places reads in vectors, and does not share with the others, as it will be later."""
    lane, found = fold.axes[-1], dict[Ahead, None]()
    for e in walk(c.tile for c in fold.carries):
        if isinstance(e, Read) and address(e.source, e.at).coefficient(lane) == 1:
            each = [address(e.source, e.at).substitute(p) for p in places]
            own = (at for at in each if at != at.substitute(later) or later.keys() <= at.axes)
            found.update(dict.fromkeys(Ahead(e.source, at.substitute(later)) for at in own))
    return [(lane, a) for a in found]


def asking(
    body: Sequence[Stmt], asked: Sequence[tuple[Axis, Ahead]], line: int
) -> tuple[Stmt, ...]:
    """Loops over lanes that ask for it; ahead of the loop where all of its lanes read one line of so many bytes."""
    out: list[Stmt] = []
    for s in body:
        if not isinstance(s, For):
            out.append(s)
            continue
        inside = asking(s.body, asked, line)
        for lane, a in asked if s.lanes else ():
            if lane == s.axis and is_nonnegative(line - lane.extent * a.source.dtype.itemsize):
                out.append(replace(a, at=a.at.substitute({lane: ix(0)})))
            elif lane == s.axis:
                inside = (*inside, a)
        out.append(replace(s, body=inside))
    return tuple(out)
