"""packets: which vectors of a kernel for threads may move whole, in words of 16 bytes.

A vector of neighbours begins at a multiple of the lanes if each term of its place is one: by its factor, or by what
the dims make of it when the kernel runs. So a kernel asks once whether all its buffers and dims are so, and its loops
have code for either answer; a vector that may begin anywhere moves element by element in both.

Loops over lanes begin their vectors at multiples of the width. So a quotient of the lane by a multiple of it, as the
number of a block with a scale of its own, is one for a vector, and a remainder goes up by one from lane to lane.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from lumigen.condition import Cmp
from lumigen.index import (
    Atom,
    Axis,
    Ix,
    Lookup,
    Quotient,
    Remainder,
    in_units,
    ix,
    of_atom,
    product,
)
from lumigen.region import Buffer, Expr, free_axes, rebuild


@dataclass
class Packets:
    """What packets of `width` lanes ask for in one kernel, gathered while its statements are rendered."""

    width: int
    starts: dict[Axis, Ix] = field(default_factory=dict[Axis, Ix])  # of the loops over lanes
    whole: set[Axis] = field(default_factory=set[Axis])  # lanes of which no vector is empty
    buffers: dict[Buffer, None] = field(default_factory=dict[Buffer, None])
    multiples: dict[Ix, None] = field(
        default_factory=dict[Ix, None]
    )  # of the width, if dims are so
    known: dict[tuple[Expr, Axis], Expr] = field(default_factory=dict[tuple[Expr, Axis], Expr])

    def aligned(self, e: Expr, lanes: Axis) -> Expr:
        """The value with the first lane of its vector where lanes are divided by what vectors divide."""
        if lanes not in self.whole or self.starts[lanes] % self.width != 0:
            return e
        return self._aligned(e, lanes)

    def _aligned(self, e: Expr, lanes: Axis) -> Expr:
        def visit(x: Expr) -> Expr:
            if lanes not in free_axes(x):
                return x
            found = self.known.get((x, lanes))
            if found is None:
                found = rebuild(x, visit, lambda i: self._divided(i, lanes))
                self.known[x, lanes] = found
            return found

        return visit(e)

    def _divided(self, i: Ix, lanes: Axis) -> Ix:
        """The index with the quotients and remainders of its atoms those of the first lane."""
        first, vector = self.first(lanes), Axis(f"{lanes.name}_vector", lanes.extent)
        to: dict[Atom, Ix] = {}
        for a in (a for monomial, _ in i.terms for a in monomial):
            if not isinstance(a, Quotient | Remainder) or lanes not in a.numerator.axes:
                continue
            inner, size = self._divided(a.numerator, lanes), a.denominator
            start = inner.substitute({lanes: ix(first)}).substitute(
                {first: ix(vector) * self.width}
            )
            is_one_on = inner.coefficient(lanes) == 1 and size.is_const and size % self.width == 0
            is_quotient = isinstance(a, Quotient)
            if is_one_on and start % self.width == 0:
                divided = start // size if is_quotient else start % size
                more = ix(0) if is_quotient else lanes - ix(first)
                to[a] = divided.substitute({vector: ix(first) // self.width}) + more
            else:
                to[a] = inner // size if is_quotient else inner % size
        return i.substitute(to)

    def first(self, lanes: Axis) -> Axis:
        """The first lane of a vector, which has the name of the lanes: a text that names these says where it begins."""
        return Axis(lanes.name, lanes.extent + self.width)

    def start_of(self, at: Ix, lanes: Axis) -> Ix:
        """The place of the first of neighbours."""
        first, vector = self.first(lanes), Axis(f"{lanes.name}_vector", lanes.extent)
        if first not in at.axes:
            return at
        at = at.substitute({lanes: ix(first)})
        of_vector = at.substitute({first: ix(vector) * self.width})
        factor = of_vector.coefficient(vector)
        if factor is None or factor % self.width != 0:
            return at
        return of_vector - factor * vector + factor // self.width * first

    def take(self, source: Buffer, at: Ix, lanes: Axis) -> bool:
        """Whether vectors over `lanes` of the elements at `at`, which are neighbours, may be packets."""
        first = self.first(lanes)
        at = at.substitute({lanes: ix(first)}) if first in at.axes else at - ix(lanes)
        vector = Axis(f"{lanes.name}_vector", lanes.extent)
        at = at.substitute({first: ix(vector) * self.width})
        multiples = self._multiples(at + self.starts.get(lanes, ix(0)))
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
