"""The meaning of a graph in numpy: the oracle of every test.

Floats are computed in f64 and rounded at casts and at the graph's outputs; integers in their own
type with wraparound. Sums of products run as contractions and sums over an indicator by indexing
(`sums`); `brute=True` computes every node as it is written, and the tests prove both equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from lumigen.dtype import DType, of_numpy
from lumigen.errors import BadInput
from lumigen.graph import (
    Edge,
    Graph,
    Kernel,
    Literal,
    Node,
    RandomStream,
    ScanLoop,
    axes_of,
    literal_of,
    tensor_of,
)
from lumigen.index import Dim, Ix, Quotient, ix
from lumigen.interp.random import bits
from lumigen.interp.read import Array, Env, concrete, seen, widen
from lumigen.interp.sums import SumTerm, term_of, total
from lumigen.ops import HALF_TURN, NATIVE, ROWS, Form, Op
from lumigen.program import Port
from lumigen.view import compose

Arrays = Mapping[str, Array]


def evaluate(
    graph: Graph,
    inputs: Arrays,
    weights: Arrays,
    states: Arrays | None = None,
    *,
    brute: bool = False,
) -> dict[str, Array]:
    """The outputs by name.

    Inputs are checked against their declaration (BadInput); states that are not given are zero.
    """
    return step(graph, inputs, weights, states, brute=brute)[0]


def step(
    graph: Graph,
    inputs: Arrays,
    weights: Arrays,
    states: Arrays | None = None,
    *,
    brute: bool = False,
) -> tuple[dict[str, Array], dict[str, Array]]:
    """The outputs, and the new values of the states that the graph rebinds, by name."""
    dims = bind_dims(ports(graph), inputs)
    given = {Op.INPUT: inputs, Op.WEIGHT: weights, Op.STATE: states or {}}
    run = _Run(dims, given, brute=brute)
    found = run.values_of(graph.roots())
    names = [*(name for name, _ in graph.outputs), *(tensor_of(s).name for s, _ in graph.updates)]
    types = [*(e.dtype for _, e in graph.outputs), *(s.dtype for s, _ in graph.updates)]
    rounded = [narrow(v, t) for v, t in zip(found, types, strict=True)]
    count = len(graph.outputs)
    return (
        dict(zip(names[:count], rounded[:count], strict=True)),
        dict(zip(names[count:], rounded[count:], strict=True)),
    )


def computed(graph: Graph) -> list[Node]:
    """The nodes whose values `evaluate` holds, operands first: not those that sums read in their own way."""
    return _Run({}, {}, brute=False).order(e.node for e in graph.roots())


def ports(graph: Graph) -> tuple[Port, ...]:
    """What the inputs of a graph must be."""
    return tuple(Port.of(tensor_of(n), n.shape, n.dtype) for n in graph.inputs)


def bind_dims(wanted: Iterable[Port], inputs: Arrays) -> dict[Dim, int]:
    """The dims' values as the inputs' shapes give them, each input checked against its declaration.

    BadInput for an input that is missing or of another dtype or rank, for a dim out of its range, for two inputs that
    disagree on a dim, for a dim that no shape decides and for integers out of their range.
    """
    wanted = tuple(wanted)
    dims: dict[Dim, int] = {}
    open_extents: list[tuple[Ix, int]] = []
    for port in wanted:
        if port.name not in inputs:
            raise _bad(port.name, "missing", _declared(port), "Pass it.")
        array = np.asarray(inputs[port.name])
        if of_numpy(array.dtype) is not port.dtype or array.ndim != len(port.shape):
            raise _bad(port.name, _got(array), _declared(port), "Convert it.")
        open_extents.extend(zip(port.shape, array.shape, strict=True))
    while solved := [s for e, size in open_extents if (s := _solve(e, size, dims)) is not None]:
        dims.update([solved[0]])
    for port in wanted:
        _check_input(port, np.asarray(inputs[port.name]), dims)
    return dims


def _solve(extent: Ix, size: int, dims: Mapping[Dim, int]) -> tuple[Dim, int] | None:
    """The one unknown dim of an extent that is affine in it."""
    unknown = {a for a in extent.atoms() if isinstance(a, Dim)} - dims.keys()
    if len(unknown) != 1:
        return None
    (dim,) = unknown
    known = extent.substitute({d: ix(v) for d, v in dims.items()})
    if len(known.terms) != 1:
        return None
    monomial, factor = known.terms[0]
    count = (size - known.const) // factor
    if monomial == (dim,):
        return dim, count
    unit = Quotient(ix(dim), ix(dim.multiple_of))
    return (dim, count * dim.multiple_of) if monomial == (unit,) else None


def _check_input(port: Port, array: Array, dims: Mapping[Dim, int]) -> None:
    name, wanted = port.name, _declared(port)
    named = {a for e in port.shape for a in e.atoms() if isinstance(a, Dim)}
    for dim in sorted(named, key=str):
        if dim not in dims:
            raise _bad(name, _got(array), wanted, f"No shape decides {dim}.")
        value = dims[dim]
        if not dim.lo <= value <= dim.hi or value % dim.multiple_of:
            multiple = f", a multiple of {dim.multiple_of}" if dim.multiple_of > 1 else ""
            raise _bad(
                name,
                _got(array),
                wanted,
                f"{dim} is {value}; it goes from {dim.lo} to {dim.hi}{multiple}.",
            )
    if concrete(port.shape, dims) != array.shape:
        raise _bad(
            name,
            _got(array),
            wanted,
            f"The dims are {', '.join(f'{d} = {v}' for d, v in dims.items())}.",
        )
    if port.bounds is not None and array.size:
        lo, hi = port.bounds[0], int(port.bounds[1].evaluate(dims))
        if array.min() < lo or array.max() > hi:
            got = f"{array.min()} to {array.max()}"
            raise _bad(name, got, f"from {lo} to {hi}", "Correct the values.")


def _bad(name: str, got: str, expected: str, remedy: str) -> BadInput:
    return BadInput(entry="evaluate", name=name, got=got, expected=expected, remedy=remedy)


def _declared(of: Port | Node) -> str:
    return f"{of.dtype}[{', '.join(map(str, of.shape))}]"


def _got(array: Array) -> str:
    return f"{of_numpy(array.dtype) or array.dtype}[{', '.join(map(str, array.shape))}]"


def narrow(value: Array, dtype: DType) -> Array:
    """A value of the interpreter as a tensor of its dtype."""
    with np.errstate(all="ignore"):
        return np.array(value, dtype=dtype.numpy, order="C")


def cast(value: Array, dtype: DType) -> Array:
    """The cast, a rounding point.

    A float becomes an integer towards zero, the nearest one where it does not fit; NaN becomes 0.
    """
    if value.dtype == np.float64 and dtype.is_int:
        info = np.iinfo(dtype.numpy)
        whole = np.trunc(np.nan_to_num(value, nan=0.0, posinf=np.inf, neginf=-np.inf))
        inside = (whole >= info.min) & (whole < float(info.max) + 1)
        edge = np.where(whole < 0, info.min, info.max).astype(dtype.numpy)
        return np.where(inside, np.where(inside, whole, 0).astype(dtype.numpy), edge)
    if dtype.is_float:
        return value.astype(dtype.numpy).astype(np.float64)
    return value.astype(dtype.numpy)


class _Run:
    """The values of one evaluation, each dropped after its last use."""

    def __init__(self, dims: Env, given: Mapping[Op, Arrays], *, brute: bool) -> None:
        self.dims = dims
        self.given = given
        self.brute = brute
        self.values: dict[Node, Array] = {}
        self.terms: dict[Node, SumTerm] = {}
        self.kept: frozenset[Node] = frozenset()  # that are given, and may be shown again
        self.scans: dict[tuple[tuple[Edge, ...], ScanLoop], list[Array]] = {}

    def values_of(self, roots: tuple[Edge, ...]) -> list[Array]:
        """What the edges show; values computed on the way are dropped after their last use."""
        order = self.order(e.node for e in roots)
        uses: dict[Node, int] = {}
        for used in (*(e.node for e in roots), *(m for n in order for m in self.operands(n))):
            uses[used] = uses.get(used, 0) + 1
        with np.errstate(all="ignore"):
            for n in order:
                self.values[n] = self.compute(n)
                for m in self.operands(n):
                    uses[m] -= 1
                    if not uses[m] and m not in self.kept:
                        del self.values[m]
            return [self.show(e) for e in roots]

    def order(self, roots: Iterable[Node]) -> list[Node]:
        """Operands first. What a sum reads in its own way (`sums`) is not an operand of it."""
        done: dict[Node, None] = {}
        stack = [(n, False) for n in reversed(list(roots))]
        while stack:
            n, ready = stack.pop()
            if ready:
                done[n] = None
            elif n not in done and n not in self.values:
                stack.append((n, True))
                stack.extend((m, False) for m in reversed(self.operands(n)) if m not in done)
        return list(done)

    def operands(self, n: Node) -> tuple[Node, ...]:
        if n.op is Op.SUM_REDUCE and not self.brute:
            if n not in self.terms:
                self.terms[n] = term_of(n)
            return self.terms[n].operands()
        angle = cosine_of(n)
        args = (angle,) if angle else quotient_of(n) or n.args
        return tuple(dict.fromkeys(e.node for e in args))

    def show(self, e: Edge) -> Array:
        return seen(self.values[e.node], e.view, self.dims)

    def compute(self, n: Node) -> Array:
        if n.op in self.given:
            return self.source(n)
        if n.op is Op.SUM_REDUCE and not self.brute:
            sizes = concrete(n.args[0].shape, self.dims)
            return total(self.terms[n], self.values, sizes, self.dims)
        angle, divided = cosine_of(n), quotient_of(n)
        if angle is not None:
            return np.asarray(np.cos(self.show(angle)))
        if divided is not None:
            over, under = (self.show(e) for e in divided)
            return np.asarray(over / under)
        args = [self.show(e) for e in n.args]
        if n.op in ROWS:
            return apply(n, args)
        return self.special(n, args)

    def source(self, n: Node) -> Array:
        name, shape = tensor_of(n).name, concrete(n.shape, self.dims)
        arrays = self.given[n.op]
        if name not in arrays and n.op is Op.STATE:
            return widen(np.zeros(shape, n.dtype.numpy))
        if name not in arrays:
            raise _bad(name, "missing", _declared(n), "Pass it.")
        array = np.asarray(arrays[name])
        if of_numpy(array.dtype) is not n.dtype or array.shape != shape:
            raise _bad(name, _got(array), _declared(n), "Convert it.")
        return array  # `gather` widens what is read: of a large table, a few rows

    def special(self, n: Node, args: list[Array]) -> Array:
        shape = concrete(n.shape, self.dims)
        match n.attr:
            case RandomStream(site):
                return bits(int(args[0]), site, shape, n.dtype.numpy)
            case ScanLoop():
                return self.scan(n, n.attr, args)
            case Kernel(name, meaning):
                if not self.brute:
                    return NATIVE[name](*args, shape[-1])
                (out,) = self.inner(meaning, args)
                return out
            case Literal():
                return number(n)
            case _:
                assert n.op is Op.IOTA
                return widen(np.arange(shape[0]).astype(n.dtype.numpy))

    def scan(self, n: Node, loop: ScanLoop, args: list[Array]) -> Array:
        """One of the body's outputs after each step, stacked along the axis; all are computed at once."""
        if loop.length.evaluate(self.dims) == 0:
            return widen(np.zeros(concrete(n.shape, self.dims), n.dtype.numpy))
        key = (n.args, replace(loop, result=0))
        if key not in self.scans:
            first = loop.carries
            carries, rest = args[:first], args[first + loop.elements :]
            elements = [np.moveaxis(a, loop.axis, 0) for a in args[first : first + loop.elements]]
            steps: list[list[Array]] = []
            for i in range(int(loop.length.evaluate(self.dims))):
                steps.append(self.inner(loop.body, [*carries, *(a[i] for a in elements), *rest]))
                carries = steps[-1][:first]
            self.scans[key] = [np.stack(each, loop.axis) for each in zip(*steps, strict=True)]
        return self.scans[key][loop.result]

    def inner(self, body: Graph, args: list[Array]) -> list[Array]:
        """The outputs of a graph inside a node, its inputs being the arguments."""
        run = _Run(self.dims, self.given, brute=self.brute)
        run.terms = self.terms
        run.values = dict(zip(body.inputs, args, strict=True))
        run.kept = frozenset(body.inputs)
        return run.values_of(body.roots())


def quotient_of(n: Node) -> tuple[Edge, Edge] | None:
    """(a, b) of a * recip(b), which is rounded once."""
    if n.op is not Op.MUL:
        return None
    for over, under in (n.args, n.args[::-1]):
        if under.node.op is Op.RECIP and not under.view.valid:
            b = _through(under, under.node.args[0])
            if b is not None and not over.dtype.is_bool:
                return over, b
    return None


def cosine_of(n: Node) -> Edge | None:
    """a of sin(a + pi/2), whose sum is not rounded."""
    if n.op is not Op.SIN or n.args[0].node.op is not Op.ADD or n.args[0].view.valid:
        return None
    for a, c in (n.args[0].node.args, n.args[0].node.args[::-1]):
        if c.node.op is Op.CONST and not c.view.valid and literal_of(c.node) == HALF_TURN:
            return _through(n.args[0], a)
    return None


def _through(outer: Edge, inner: Edge) -> Edge | None:
    """An operand of the node of `outer` as `outer` sees it."""
    view = compose(outer.view, inner.view, inner.node.shape)
    return None if view is None else Edge(inner.node, view)


def number(n: Node) -> Array:
    """The value of a constant. A float is not rounded: it is in no memory, so in no narrow type."""
    return np.asarray(literal_of(n), np.float64 if n.dtype.is_float else n.dtype.numpy)


def apply(n: Node, args: list[Array]) -> Array:
    """The value of one of the twelve ops."""
    row = ROWS[n.op]
    if n.op is Op.SUM_REDUCE:  # numpy would widen small integers
        return np.asarray(np.sum(args[0], axes_of(n), args[0].dtype))
    if row.form is Form.REDUCE:
        return np.asarray(row.meaning(args[0], axes_of(n)))
    if row.form is Form.CAST:
        return args[0] if n.dtype is n.args[0].dtype else cast(args[0], n.dtype)
    return np.asarray(row.meaning(*args))
