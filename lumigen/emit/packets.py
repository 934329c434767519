"""packets: which vectors of a kernel for threads may move whole, in words of 16 bytes.

A vector of neighbours begins at a multiple of the lanes if each term of its place is one: by its factor, or by what
the dims make of it when the kernel runs. So a kernel asks once whether all its buffers and dims are so, and its loops
have code for either answer; a vector that may begin anywhere moves element by element in both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from lumigen.condition import Cmp
from lumigen.index import Atom, Axis, Ix, Lookup, in_units, ix, of_atom, product
from lumigen.region import Buffer


@dataclass
class Packets:
    """What packets of `width` lanes ask for in one kernel, gathered while its statements are rendered."""

    width: int
    starts: dict[Axis, Ix] = field(default_factory=dict[Axis, Ix])  # of the loops over lanes
    buffers: dict[Buffer, None] = field(default_factory=dict[Buffer, None])
    multiples: dict[Ix, None] = field(
        default_factory=dict[Ix, None]
    )  # of the width, if dims are so

    def take(self, source: Buffer, at: Ix, lanes: Axis) -> bool:
        """Whether vectors over `lanes` of the elements at `at`, which are neighbours, may be packets."""
        multiples = self._multiples(at - ix(lanes) + self.starts.get(lanes, ix(0)))
        if multiples is None:
            return False
        self.buffers.setdefault(source)
        self.multiples.update(dict.fromkeys(multiples))
        return True

    def share(self, c: Cmp, lanes: Axis) -> bool:
        """Whether a condition holds in all lanes of a vector or in none: it changes where one begins."""
        if lanes not in c.slack.axes:
            return True
        factor = c.slack.coefficient(lanes)
        if lanes not in self.starts or factor is None or factor not in (ix(1), ix(-1)):
            return False
        first = c.slack - factor * lanes + factor * self.starts[lanes]
        return (first if factor == 1 else first + 1) % self.width == 0

    def asked(self, index: Callable[[Ix], str]) -> str:
        """The condition on buffers and dims under which packets are packets."""
        if not self.buffers:
            return "false"
        parts = [f"is_packed({', '.join(map(str, self.buffers))})"]
        for e in self.multiples:
            text = index(e)
            parts.append(f"{f'({text})' if ' ' in text else text} % kLanes == 0")
        return " && ".join(parts)

    def _multiples(self, place: Ix) -> list[Ix] | None:
        """What dims must make a multiple of the width for the place to be one; None if they cannot."""
        out: list[Ix] = []
        fixed = ix(place.const)
        for monomial, factor in in_units(dict(place.terms)).items():
            if factor % self.width == 0:
                continue
            known = tuple(a for a in monomial if _is_uniform(a))
            if not known:
                return None
            term = product(tuple(map(of_atom, known))) * factor
            if len(known) == len(monomial):
                fixed = fixed + term
            else:
                out.append(term)
        if fixed.is_const:
            return out if fixed.const % self.width == 0 else None
        return [*out, fixed]


def _is_uniform(atom: Atom) -> bool:
    """Whether dims alone decide the value."""
    return not any(isinstance(a, Axis | Lookup) for a in of_atom(atom).atoms())
