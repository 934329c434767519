"""inverse: the point of a store's axes that writes an element of its destination."""

from __future__ import annotations

from lumigen.condition import Cmp
from lumigen.errors import LoweringFailed
from lumigen.index import Axis, Ix, Remainder, is_nonnegative, ix, of_atom
from lumigen.lower.scope import address
from lumigen.region import Store


def _position(store: Store, element: Axis) -> tuple[Ix, ...]:
    """The indices of the element, one for each dimension of the destination."""
    rest, out = ix(element), list[Ix]()
    for extent in reversed(store.dst.dims[1:]):
        out.insert(0, rest % extent)
        rest = rest // extent
    return (rest, *out) if store.dst.dims else ()


def inverse(store: Store, element: Axis) -> tuple[dict[Axis, Ix], list[Cmp]]:
    """The point of the store's axes that writes the element, and where there is one."""
    flat = address(store.dst, store.at)
    by_stride = {a: flat.coefficient(a) for a in store.axes if a.extent != 1}
    out = {a: ix(0) for a in store.axes if a.extent == 1}
    stride = ix(1)
    while found := next((a for a, s in by_stride.items() if s is stride), None):
        del by_stride[found]
        above = ix(element) // stride
        stride = stride * found.extent
        out[found] = above % found.extent if by_stride else above
    start = flat.substitute({a: ix(0) for a in store.axes})
    if not by_stride and stride is element.extent and start == 0:
        return {a: out[a] for a in store.axes}, []
    return _by_dims(store, element)


def _by_dims(store: Store, element: Axis) -> tuple[dict[Axis, Ix], list[Cmp]]:
    """The same where the store leaves gaps: the index of each dimension, by the axes in it."""
    out: dict[Axis, Ix] = {}
    conditions: list[Cmp] = []
    for i, at in zip(store.at, _position(store, element), strict=True):
        if (turned := _turned(i)) is not None:
            axis, start, extent = turned
            out[axis] = (at - start + extent) % extent
            conditions.append(Cmp(axis.extent - 1 - out[axis]))
            continue
        steps: dict[Axis, int] = {}
        for axis in (a for a in store.axes if a in i.axes):
            factor = i.coefficient(axis)
            if factor is None or not factor.is_const or factor.const <= 0 or axis in out:
                what = f"no inverse of a store to {store.dst} at {i}"
                raise LoweringFailed(step="emit", what=what)
            steps[axis] = factor.const
        rest = at - i.substitute({a: ix(0) for a in steps})
        conditions.append(Cmp(rest))
        for axis in sorted(steps, key=lambda a: -steps[a]):
            out[axis] = rest // steps[axis]
            conditions.append(Cmp(axis.extent - 1 - out[axis]))
            rest = rest - out[axis] * steps[axis]
        conditions.append(Cmp(-rest))
    out.update({a: ix(0) for a in store.axes if a not in out})
    return out, [c for c in dict.fromkeys(conditions) if c.known() is not True]


def _turned(index: Ix) -> tuple[Axis, Ix, Ix] | None:
    """The axis, the start and the extent of `(start + axis) % extent`, the place in a ring; start is below extent."""
    atom = next(iter(index.atoms()), None) if len(index.terms) == 1 and index.const == 0 else None
    if not isinstance(atom, Remainder) or index != of_atom(atom):
        return None
    axes = [a for a in atom.numerator.axes if atom.numerator.coefficient(a) == 1]
    start = atom.numerator.substitute({a: ix(0) for a in axes})
    inside = is_nonnegative(start) and is_nonnegative(atom.denominator - 1 - start)
    return (
        (axes[0], start, atom.denominator) if len(axes) == 1 and inside and not start.axes else None
    )
