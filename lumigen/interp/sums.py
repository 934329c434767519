"""Sums of products without the products: by matrix multiplication, or by indexing.

`term_of` reads a sum's operand as `select(all conditions, product of factors)` over its positions,
and `total` sums it. Conditions that leave a summed axis at most one position (`i == f`, however it
is spelled with comparisons) replace the axis by that position. The result differs from summing the
whole product only by the order of float additions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from lumigen.condition import Cmp
from lumigen.dtype import DType, i64
from lumigen.graph import Edge, Node, axes_of, literal_of
from lumigen.index import Axis, Ix, ix
from lumigen.interp.read import Array, Env, gather, grid
from lumigen.ops import Op, neutral
from lumigen.view import positions

# What is more is taken as it is: bounds the work where products share operands.
MAX_FACTORS, MAX_CONDITIONS = 8, 64


@dataclass(frozen=True)
class Leaf:
    """A node's value read at positions of the sum's operand."""

    node: Node
    at: tuple[Ix, ...]
    valid: tuple[Cmp, ...]
    fill: float | int

    @property
    def axes(self) -> frozenset[Axis]:
        return frozenset[Axis]().union(*(e.axes for e in self.at), *(c.axes for c in self.valid))


@dataclass(frozen=True)
class Slack:
    """The condition `index + sum of c * leaf >= 0`, in integers."""

    index: Ix
    leaves: tuple[tuple[int, Leaf], ...]

    def negated(self) -> Slack:
        return Slack(-self.index - 1, tuple((-c, leaf) for c, leaf in self.leaves))


@dataclass(frozen=True)
class SumTerm:
    """`select(slacks and masks, product of factors)` over `axes`, of which `gone` are summed."""

    axes: tuple[Axis, ...]
    gone: tuple[int, ...]
    slacks: tuple[Slack, ...]
    masks: tuple[tuple[Leaf, bool], ...]  # with whether the leaf is negated
    factors: tuple[Leaf, ...]

    def operands(self) -> tuple[Node, ...]:
        """The nodes whose values `total` needs."""
        leaves = [
            *(m for m, _ in self.masks),
            *self.factors,
            *(leaf for s in self.slacks for _, leaf in s.leaves),
        ]
        return tuple(dict.fromkeys(leaf.node for leaf in leaves))


def term_of(n: Node) -> SumTerm:
    """What a SUM_REDUCE node sums."""
    (arg,) = n.args
    axes = positions(arg.shape)
    slacks: list[Slack] = []
    masks: list[tuple[Leaf, bool]] = []
    value = _leaf(arg, tuple(ix(a) for a in axes))
    while (halves := _selection(value)) is not None:
        chosen, value = halves
        _add_conditions(chosen, slacks, masks)
    return SumTerm(axes, axes_of(n), tuple(slacks), tuple(masks), _factors(value))


def _leaf(e: Edge, where: tuple[Ix, ...]) -> Leaf:
    at, valid = e.view.at(where)
    return Leaf(e.node, at, valid, e.view.fill)


def _selection(leaf: Leaf) -> tuple[Leaf, Leaf] | None:
    """(condition, value) of a Mul that selects."""
    n = leaf.node
    if n.op is not Op.MUL or leaf.valid or n.dtype.is_bool:
        return None
    a, b = (_leaf(e, leaf.at) for e in n.args)
    if a.node.dtype.is_bool:
        return a, b
    return (b, a) if b.node.dtype.is_bool else None


def _factors(value: Leaf) -> tuple[Leaf, ...]:
    done: list[Leaf] = []
    todo = [value]
    while todo:
        leaf = todo.pop(0)
        n = leaf.node
        plain = n.op is Op.MUL and not leaf.valid and not any(e.dtype.is_bool for e in n.args)
        if plain and len(done) + len(todo) + 2 <= MAX_FACTORS:
            todo.extend(_leaf(e, leaf.at) for e in n.args)
        else:
            done.append(leaf)
    return tuple(done)


def _add_conditions(condition: Leaf, slacks: list[Slack], masks: list[tuple[Leaf, bool]]) -> None:
    """Split a conjunction into slacks where integers are compared by position, masks elsewhere."""
    todo = [(condition, False)]
    budget = MAX_CONDITIONS
    while todo:
        leaf, negated = todo.pop()
        n = leaf.node
        split = not leaf.valid and budget > 0
        budget -= 1
        if split and n.op is Op.MUL and n.dtype.is_bool and not negated:
            todo.extend((_leaf(e, leaf.at), False) for e in n.args)
        elif split and _is_not(n):
            todo.append((_leaf(n.args[0], leaf.at), not negated))
        elif split and n.op is Op.LESS_THAN and (found := _slack(leaf)) is not None:
            slacks.append(found.negated() if negated else found)
        else:
            masks.append((leaf, negated))


def _is_not(n: Node) -> bool:
    """`x < True` is `not x`."""
    if n.op is not Op.LESS_THAN or not n.args[0].dtype.is_bool or n.args[1].view.valid:
        return False
    right = n.args[1].node
    return right.op is Op.CONST and bool(literal_of(right))


def _slack(leaf: Leaf) -> Slack | None:
    """`right - left - 1 >= 0` of an integer comparison in which a position takes part."""
    left, right = (_linear(_leaf(e, leaf.at), 1) for e in leaf.node.args)
    if left is None or right is None or not (left.index.axes | right.index.axes):
        return None
    less = tuple((-c, v) for c, v in left.leaves)
    return Slack(right.index - left.index - 1, (*right.leaves, *less))


def _linear(leaf: Leaf, factor: int) -> Slack | None:
    """factor * what a leaf shows, as positions plus other leaves; None if it shows no integers."""
    n = leaf.node
    if not n.dtype.is_int:
        return None
    if leaf.valid:
        return Slack(ix(0), ((factor, leaf),))
    if n.op is Op.CONST:
        return Slack(ix(int(literal_of(n)) * factor), ())
    if n.op is Op.IOTA and _fits(n):
        return Slack(leaf.at[0] * factor, ())
    if n.op is Op.CONTIGUOUS and _widens(n):
        return _linear(_leaf(n.args[0], leaf.at), factor)
    found = _arithmetic(leaf, factor)
    if found is not None and _is_exact(found, factor, n.dtype):
        return found
    return Slack(ix(0), ((factor, leaf),))


def _arithmetic(leaf: Leaf, factor: int) -> Slack | None:
    """The same of what a sum, or a product with a number, is made of."""
    n = leaf.node
    if n.op is Op.ADD:
        a, b = (_linear(_leaf(e, leaf.at), factor) for e in n.args)
        if a is not None and b is not None:
            return Slack(a.index + b.index, (*a.leaves, *b.leaves))
    if n.op is Op.MUL:
        for x, c in (n.args, n.args[::-1]):
            if c.node.op is Op.CONST and c.dtype.is_int and not c.view.valid and x.dtype.is_int:
                return _linear(_leaf(x, leaf.at), factor * int(literal_of(c.node)))
    return None


def _is_exact(s: Slack, factor: int, dtype: DType) -> bool:
    """Whether no sum or product in it wraps around: the type holds whatever its parts may be."""
    lo, hi = s.index.bounds()
    if dtype is i64 or lo is None or hi is None:
        return dtype is i64  # as amounts are
    for c, leaf in s.leaves:
        ends = [c * leaf.node.dtype.lowest, c * leaf.node.dtype.greatest]
        lo, hi = lo + min(ends), hi + max(ends)
    ends = [factor * dtype.lowest, factor * dtype.greatest]
    return min(ends) <= lo and hi <= max(ends)


def _chosen(array: Array, d: int, where: Array) -> Array:
    """The array at one position of dimension d."""
    if array.shape[d] == 1:
        return array
    index: list[Array] = list(np.ogrid[tuple(slice(n) for n in array.shape)])
    index[d] = where
    return array[tuple(index)]


def _fits(iota: Node) -> bool:
    last = (iota.shape[0] - 1).bounds()[1]
    return last is not None and last <= np.iinfo(iota.dtype.numpy).max


def _widens(cast: Node) -> bool:
    operand = cast.args[0].dtype
    return operand.is_int and (operand is cast.dtype or operand.bits < cast.dtype.bits)


class Total:
    """One sum on its way to a value: the grid, and the values read so far."""

    def __init__(
        self, term: SumTerm, values: Mapping[Node, Array], sizes: tuple[int, ...], dims: Env
    ) -> None:
        self.term = term
        self.values = values
        self.sizes = sizes
        self.env: dict[Any, Any] = {**dims, **grid(term.axes, sizes)}
        self.gone = list(term.gone)
        self.masks: list[Array] = []
        self.slacks = list(term.slacks)

    def read(self, leaf: Leaf) -> Array:
        return gather(
            self.values[leaf.node], leaf.at, leaf.valid, leaf.fill, self.term.axes, self.env
        )

    def amount(self, slack: Slack) -> Array:
        """The value of a slack, in i64."""
        total = self.ranked(slack.index.evaluate(self.env))
        return reduce(lambda a, t: a + t[0] * self.read(t[1]).astype(np.int64), slack.leaves, total)

    def ranked(self, value: Any) -> Array:
        array = np.asarray(value, np.int64)
        return array if array.ndim else array.reshape((1,) * len(self.sizes))

    def sift(self, d: int) -> bool:
        """Replace dimension d by the one position that the conditions leave, if they do."""
        axis = self.term.axes[d]
        if self.sizes[d] <= 1:
            return False
        bounds = [
            (s, c)
            for s in self.slacks
            if (c := self.pull(s, axis)) and self.rest(s, c, axis).shape[d] == 1
        ]
        low: Array = self.ranked(-1)
        high: Array = self.ranked(
            self.sizes[d]
        )  # -1 and size stand for "outside": both bounds must be found
        for s, c in bounds:
            rest = self.rest(s, c, axis)  # c * axis + rest >= 0
            if c > 0:
                low = np.maximum(low, -(rest // c))
            else:
                high = np.minimum(high, rest // -c + 1)
        if not bounds or np.any(high - np.maximum(low, 0) > 1):
            return False
        low = np.maximum(low, 0)
        self.masks.append(low < high)
        chosen = np.clip(low, 0, self.sizes[d] - 1)
        self.masks = [_chosen(m, d, chosen) for m in self.masks]
        self.env.update({a: _chosen(self.env[a], d, chosen) for a in self.term.axes})
        self.env[axis] = chosen
        used = [s for s, _ in bounds]
        self.slacks = [s for s in self.slacks if s not in used]
        self.gone.remove(d)
        return True

    def pull(self, slack: Slack, axis: Axis) -> int:
        """The constant coefficient of an axis that the leaves do not read along; 0 if none."""
        factor = slack.index.coefficient(axis)
        if (
            factor is None
            or not factor.is_const
            or any(axis in leaf.axes for _, leaf in slack.leaves)
        ):
            return 0
        return factor.const

    def rest(self, slack: Slack, factor: int, axis: Axis) -> Array:
        return self.amount(Slack(slack.index - ix(axis) * factor, slack.leaves))


def total(term: SumTerm, values: Mapping[Node, Array], sizes: tuple[int, ...], dims: Env) -> Array:
    """The value of a SUM_REDUCE node, given the values of the term's operands."""
    t = Total(term, values, sizes, dims)
    while any(t.sift(d) for d in list(t.gone)):
        pass
    masks = [
        *t.masks,
        *(t.amount(s) >= 0 for s in t.slacks),
        *(t.read(m) != negated for m, negated in term.masks),
    ]
    factors = [t.read(f) for f in term.factors]
    kept = tuple(1 if d in term.gone else size for d, size in enumerate(sizes))
    summed = tuple(t.gone)
    if masks and not (summed and all(np.isfinite(f).all() for f in factors)):
        product = reduce(np.multiply, factors)
        out = np.where(reduce(np.logical_and, masks), product, neutral(product.dtype))
        if summed:
            out = _summed(out, summed, sizes)
    else:
        dtype = factors[0].dtype
        out = contract([*(m.astype(dtype) for m in masks), *factors], summed, sizes)
    out = np.broadcast_to(out, kept)
    return np.asarray(out).reshape([size for d, size in enumerate(sizes) if d not in term.gone])


def _summed(array: Array, axes: tuple[int, ...], sizes: tuple[int, ...]) -> Array:
    """The sum of what broadcasts to `sizes`, which counts an element as often as it repeats."""
    out = np.sum(array, axes, array.dtype, keepdims=True)
    return _repeated(out, [sizes[d] for d in axes if array.shape[d] != sizes[d]])


def _repeated(array: Array, counts: list[int]) -> Array:
    return array * np.asarray(prod(counts), array.dtype) if counts else array


def contract(factors: list[Array], summed: tuple[int, ...], sizes: tuple[int, ...]) -> Array:
    """The sum over dimensions `summed` of a product of arrays that broadcast to `sizes`."""
    if 0 in sizes:
        kept = [1 if d in summed else s for d, s in enumerate(sizes)]
        return np.zeros(kept, factors[0].dtype)
    todo = list(factors)
    while len(todo) > 1:
        todo.sort(key=lambda f: f.size)
        pairs = [(_size(todo[0], f), i) for i, f in enumerate(todo) if i]
        other = todo.pop(min(pairs)[1])
        first = todo.pop(0)
        free = tuple(d for d in summed if all(f.shape[d] == 1 for f in todo))
        todo.append(_pair(first, other, free))
    absent = [sizes[d] for d in summed if all(f.shape[d] != sizes[d] for f in factors)]
    return _repeated(np.sum(todo[0], summed, todo[0].dtype, keepdims=True), absent)


def _size(a: Array, b: Array) -> int:
    return prod(np.broadcast_shapes(a.shape, b.shape))


def _pair(a: Array, b: Array, summed: tuple[int, ...]) -> Array:
    """The sum over `summed` of a * b as a matrix product, batched over what both vary along.

    What only one of them varies along is summed before; not beside infinities and NaN, where that gives others.
    """
    alone = any((a.shape[d] > 1) != (b.shape[d] > 1) for d in summed)
    if alone and not (np.isfinite(a).all() and np.isfinite(b).all()):
        return np.asarray(np.sum(a * b, summed, np.result_type(a, b), keepdims=True))
    a = np.sum(a, tuple(d for d in summed if b.shape[d] == 1), a.dtype, keepdims=True)
    b = np.sum(b, tuple(d for d in summed if a.shape[d] == 1), b.dtype, keepdims=True)
    rank = range(a.ndim)
    inner = [d for d in summed if a.shape[d] > 1]
    batch = [d for d in rank if d not in inner and a.shape[d] > 1 and b.shape[d] > 1]
    rows = [d for d in rank if d not in inner and b.shape[d] == 1]
    cols = [d for d in rank if d not in inner and a.shape[d] == 1 and d not in rows]
    if not inner:
        return a * b
    shape = np.broadcast_shapes(a.shape, b.shape)
    k, m, n = (prod(shape[d] for d in axes) for axes in (inner, rows, cols))
    left = a.transpose([*batch, *rows, *inner, *cols]).reshape(-1, m, k)
    right = b.transpose([*batch, *inner, *cols, *rows]).reshape(-1, k, n)
    order = [*batch, *rows, *cols, *inner]
    out = np.matmul(left, right).reshape([1 if d in inner else shape[d] for d in order])
    return out.transpose(sorted(rank, key=order.__getitem__))
