"""Views: how an operand is looked at. Movement (permute, reshape, pad ...) is a view, never an op.

A view maps positions of its own shape to positions of a source: one quasi-affine index per source
dimension, conditions under which the source is read at all, and the fill value where they fail.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate, count, pairwise
from itertools import product as pairs
from operator import mul

from lumigen.condition import Cmp, less
from lumigen.index import (
    Atom,
    Axis,
    Ix,
    IxLike,
    ceildiv,
    is_nonnegative,
    ix,
    of_atom,
    product,
    upper,
    without_floor,
)
from lumigen.memo import remembered

Shape = tuple[Ix, ...]


@remembered
def position(i: int, extent: Ix) -> Axis:
    """The axis that stands for the i-th position of a view of that extent."""
    return Axis(f"i{i}", extent)


def positions(shape: Shape) -> tuple[Axis, ...]:
    return tuple(position(i, e) for i, e in enumerate(shape))


@remembered
def coordinates(shape: Shape) -> tuple[Ix, ...]:
    """The positions as expressions: 0 where the extent is 1, so that equal views are alike."""
    return tuple(ix(0) if a.extent == 1 else ix(a) for a in positions(shape))


@dataclass(frozen=True)
class View:
    """`result[i0, i1, ...] = source[index] if all(valid) else fill`, both over `i0, i1, ...`."""

    shape: Shape
    index: tuple[Ix, ...]
    valid: tuple[Cmp, ...] = ()
    fill: float | int = field(default=0, compare=False)
    fill_text: str = field(init=False, repr=False)  # tells 0.0 from -0.0, and NaN equals NaN

    def __post_init__(self) -> None:
        object.__setattr__(self, "fill_text", _text(self.fill) if self.valid else "")

    def __str__(self) -> str:
        out = f"[{', '.join(map(str, self.index))}]"
        if self.valid:
            out += f" if {' and '.join(map(str, self.valid))} else {self.fill}"
        return out

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def axes(self) -> frozenset[Axis]:
        """Those that what is shown varies with: of the index, and of the conditions."""
        return frozenset[Axis]().union(*(i.axes for i in self.index), *(c.axes for c in self.valid))

    def is_identity(self, source: Shape) -> bool:
        return self == identity(source)

    @remembered
    def at(self, where: tuple[Ix, ...]) -> tuple[tuple[Ix, ...], tuple[Cmp, ...]]:
        """(index, valid) at the given position expressions."""
        env = dict(zip(positions(self.shape), where, strict=True))
        valid = tuple(c.substitute(env) for c in self.valid)
        return tuple(e.substitute(env) for e in self.index), _open(valid)


def _open(conditions: tuple[Cmp, ...]) -> tuple[Cmp, ...]:
    """The conditions that are not provably true, nor implied by another, in a stable order."""
    kept = {c for c in conditions if c.known() is not True}
    out = sorted(kept, key=str)
    for c in tuple(out):
        if any(d is not c and is_nonnegative(c.slack - d.slack) for d in out):
            out.remove(c)  # another one implies it
    return tuple(out)


@remembered
def identity(shape: Shape) -> View:
    """The view that shows a source as it is."""
    return View(shape, coordinates(shape))


def compose(outer: View, inner: View, source: Shape | None = None) -> View | None:
    """`outer` looking at what `inner` shows, of a source.

    None if both fill, with different values, or if nothing proves that the whole stays inside the source: then
    `inner` has to be materialised first.
    """
    if not inner.valid and outer == identity(inner.shape):
        return inner
    index, valid = inner.at(outer.index)
    if outer.valid and valid and outer.fill_text != inner.fill_text:
        return None
    fill = outer.fill if outer.valid else inner.fill
    valid = _open((*outer.valid, *valid))
    made = View(outer.shape, index, valid, fill if valid else 0)
    if source is None or made == inner or inner == identity(source):
        return made
    return made if stays_inside(made, source) else None


@remembered
def stays_inside(v: View, source: Shape) -> bool:
    """Whether it is provable that a view reads nothing outside its source."""
    pairs = zip(v.index, source, strict=True)
    return all(proven(i, v.valid) and proven(extent - 1 - i, v.valid) for i, extent in pairs)


def proven(e: Ix, conditions: tuple[Cmp, ...]) -> bool:
    """Whether `e >= 0` is provable where the conditions are true."""
    if is_nonnegative(e):
        return True
    if not conditions:
        return False
    if any(is_nonnegative(e - c.slack) for c in conditions):
        return True
    if is_nonnegative(_assuming(e, conditions)):
        return True
    return any(proven(p, conditions) for p in without_floor(e))


def _assuming(index: Ix, conditions: tuple[Cmp, ...]) -> Ix:
    """The index over new axes, each of which is the slack of a condition: not negative."""
    todo = [c.slack for c in conditions]
    names = count()
    while todo:
        slack = todo.pop(0)
        found = _solvable(slack)
        if found is None:
            continue
        atom, sign = found
        partner = next((s for s in todo if not (s + slack).axes), None)
        limit = upper(slack) if partner is None else partner + slack
        fresh = Axis(f"slack{next(names)}", limit + 1)
        mapping = {atom: (ix(fresh) - (slack - of_atom(atom) * sign)) * sign}
        index = index.substitute(mapping)
        todo = [s.substitute(mapping) for s in todo if s is not partner]
    return index


def _solvable(slack: Ix) -> tuple[Atom, int] | None:
    """An axis, or a quotient or remainder over axes, that the slack is affine in with a factor of 1 or -1."""
    for monomial, factor in slack.terms:
        atom = monomial[0]
        if len(monomial) == 1 and abs(factor) == 1 and of_atom(atom).axes:
            rest = slack - of_atom(atom) * factor
            if atom not in set(rest.atoms()):
                return atom, factor
    return None


def _text(fill: float | int) -> str:
    return str(fill) if isinstance(fill, int) and int(float(fill)) != fill else repr(float(fill))


def permute(shape: Shape, order: tuple[int, ...]) -> View:
    """Dimension j of the result is dimension order[j] of the source."""
    out = tuple(shape[o] for o in order)
    at = coordinates(out)
    return View(out, tuple(at[order.index(d)] for d in range(len(shape))))


def expand(shape: Shape, to: Shape) -> View:
    """Repeat along new leading dimensions and those of extent 1, as broadcasting does."""
    at = coordinates(to)[len(to) - len(shape) :]
    return View(to, tuple(ix(0) if s == 1 else a for s, a in zip(shape, at, strict=True)))


def reshape(shape: Shape, to: Shape) -> View:
    """The same elements in row-major order under another shape of equal product."""
    at, index = coordinates(to), list[Ix]()
    for (i, j), (i_end, j_end) in pairwise(_cuts(shape, to)):
        flat = ix(0)
        for extent, along in zip(to[j:j_end], at[j:j_end], strict=True):
            flat = flat * extent + along
        for d in range(i, i_end):
            index.append((flat // product(shape[d + 1 : i_end])) % shape[d])
    return View(to, tuple(index))


def _cuts(shape: Shape, to: Shape) -> list[tuple[int, int]]:
    """Where as many elements lie before on both sides: what is between two cuts changes on its own.

    A merge of two dims, or a split, then says nothing of the others, whose extents may be sums that no
    quotient undoes.
    """
    here, there = (list(accumulate(s, mul, initial=ix(1))) for s in (shape, to))
    cuts = [(0, 0)]
    while cuts[-1] != (end := (len(shape), len(to))):
        i, j = cuts[-1]
        further = pairs(range(i, end[0] + 1), range(j, end[1] + 1))
        cuts.append(next((c for c in further if c != (i, j) and here[c[0]] is there[c[1]]), end))
    return cuts


def slice_view(
    shape: Shape, starts: tuple[IxLike, ...], sizes: Shape, steps: tuple[int, ...]
) -> View:
    """Element j along dimension d is element starts[d] + j * steps[d]; a step may be negative."""
    assert len(shape) == len(sizes)
    at = coordinates(sizes)
    return View(
        sizes, tuple(ix(s) + a * step for s, a, step in zip(starts, at, steps, strict=True))
    )


def pad(
    shape: Shape, before: tuple[IxLike, ...], after: tuple[IxLike, ...], fill: float | int
) -> View:
    """`before[d]` and `after[d]` (not negative) elements of `fill` around dimension d."""
    out = tuple(ix(b) + s + ix(a) for b, s, a in zip(before, shape, after, strict=True))
    index = tuple(a - b for a, b in zip(coordinates(out), before, strict=True))
    valid = [c for e, s in zip(index, shape, strict=True) for c in (less(-1, e), less(e, s))]
    return View(out, index, _open(tuple(valid)), fill)


def flip(shape: Shape, dims: tuple[int, ...]) -> View:
    """The named dimensions in reverse order."""
    at = coordinates(shape)
    return View(
        shape,
        tuple(
            e - 1 - a if d in dims else a for d, (e, a) in enumerate(zip(shape, at, strict=True))
        ),
    )


def windows(shape: Shape, dim: int, size: Ix | int, step: Ix | int = 1, dilation: int = 1) -> View:
    """Sliding windows over `dim`: it becomes the window's number; a last dimension is inside it."""
    count = ceildiv(shape[dim] - (size - 1) * dilation, step)
    out = (*shape[:dim], count, *shape[dim + 1 :], ix(size))
    *index, inner = coordinates(out)
    index[dim] = index[dim] * step + inner * dilation
    return View(out, tuple(index))
