"""The small way: tensors with values, a handful of lines, no model.

cx = lg.Graph()
a = cx.tensor((3, 1)).set([[1.0], [2.0], [3.0]])
b = cx.tensor((1, 4)).set([[1.0, 2.0, 3.0, 4.0]])
c = a.matmul(b).retrieve()
cx.compile(lg.GenericCompiler(), lg.CPUCompiler())
cx.execute()
print(c)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from lumigen import graph
from lumigen.dtype import DType, f32
from lumigen.errors import BadArgument, BadInput
from lumigen.frontend.model import check_dims, check_outputs
from lumigen.frontend.primitive import Extent
from lumigen.frontend.spec import spec
from lumigen.frontend.tensor import Tensor
from lumigen.frontend.trace import HOMES, fail
from lumigen.graph import Edge, Graph, Node
from lumigen.interp.graph import evaluate
from lumigen.memo import compilation
from lumigen.ops import Op
from lumigen.printer.graph import show

Array: TypeAlias = npt.NDArray[Any]
Executor: TypeAlias = Callable[[Mapping[str, Array]], Mapping[str, Array]]
Pass: TypeAlias = Callable[[Graph], Graph]


@runtime_checkable
class Backend(Protocol):
    """A compiler that ends the list: it turns the graph into something that runs."""

    def executor(self, graph: Graph) -> Executor: ...


Compiler: TypeAlias = Pass | Backend | tuple[Any, ...]


class Context:
    """Tensors with values and what follows from them: `lg.Graph()`.

    Interpreted in numpy, unless `compile` is given a backend such as `lg.CPUCompiler()`.
    """

    def __init__(self) -> None:
        self._inputs: dict[str, Live] = {}
        self._results: dict[str, Result] = {}
        self._compilers: tuple[Compiler, ...] = ()
        self._graph: Graph | None = None
        self._executor: Executor | None = None

    # --- what users write -------------------------------------------------------------------------

    def tensor(
        self, shape: tuple[Extent, ...] | Extent, dtype: DType = f32, name: str | None = None
    ) -> Live:
        """An input of this shape, to be given values with `set`; BadArgument for a name that is taken."""
        given = spec(*(shape if isinstance(shape, tuple) else (shape,)), dtype=dtype)
        number = len(self._inputs)
        while True:
            key = name or f"t{number}"
            node = graph.source(Op.INPUT, key, given.shape, given.dtype)
            if key not in self._inputs and HOMES.get(node, self) is self:
                break
            if name:
                raise fail(
                    BadArgument,
                    op="tensor",
                    name="the name",
                    value=repr(name),
                    expected="a new name",
                )
            number += 1  # another context holds an input like it
        HOMES[node] = self
        self._inputs[key] = Live(node, key)
        self._forget()
        return self._inputs[key]

    def retrieve(self, edge: Edge) -> Result:
        """Ask for a value; it is there after `execute`. BadArgument where another graph's input is in it."""
        own = {live.node for live in self._inputs.values()}
        for n in graph.toposort([edge.node]):
            if n.op is Op.INPUT and n not in own:
                raise fail(
                    BadArgument,
                    op="retrieve",
                    name="a tensor",
                    value=f"computed from {graph.tensor_of(n).name!r} of another graph or entry",
                    expected="tensors that were made from one lg.Graph",
                )
        key = f"out{len(self._results)}"
        self._results[key] = Result(edge)
        self._forget()
        return self._results[key]

    def compile(self, *compilers: Compiler) -> None:
        """Passes over the graph, in order, and at most one backend, last; tuples of them nest."""
        self._compilers = compilers
        self._forget()
        self._prepare()

    def execute(self) -> None:
        """Compute what is to be retrieved, from the values set.

        BadInput where one is not set, or where shapes do not fit the dims; UnknownDim where no input decides one.
        """
        executor = self._prepare()
        values: dict[str, Array] = {}
        for key, live in self._inputs.items():
            if live.node in set(self.graph().inputs):
                values[key] = live.value()
        found = executor(values)
        for key, result in self._results.items():
            result.data = np.asarray(found[key])

    def display(self) -> str:
        """The graph as text, also printed: as written, or as the compilers have made it."""
        text = show(self.compiled())
        print(text, end="")  # noqa: T201  # printing is what display is for
        return text

    # --- how it gets there ------------------------------------------------------------------------

    def graph(self) -> Graph:
        """The graph as written."""
        if not self._results:
            raise fail(
                BadArgument,
                op="execute",
                name="a graph",
                value="without results",
                expected="at least one tensor to .retrieve()",
            )
        outputs = tuple((key, r.edge) for key, r in self._results.items())
        used = set(graph.toposort([e.node for _, e in outputs]))
        inputs = tuple(live.node for live in self._inputs.values() if live.node in used)
        out = Graph(inputs, outputs)
        check_dims("execute", out)
        return out

    def compiled(self) -> Graph:
        """The graph after the passes of `compile`."""
        if self._graph is None:
            out = self.graph()
            for step in _flat(self._compilers):
                if not isinstance(step, Backend):
                    out = step(out)
            self._graph = out
        return self._graph

    @compilation()
    def _prepare(self) -> Executor:
        if self._executor is None:
            out = self.compiled()
            backends = [c for c in _flat(self._compilers) if isinstance(c, Backend)]
            if backends:
                check_outputs("compile", out)
            self._executor = backends[-1].executor(out) if backends else _interpreter(out)
        return self._executor

    def _forget(self) -> None:
        self._graph = self._executor = None


def _interpreter(compiled: Graph) -> Executor:
    return lambda values: evaluate(compiled, values, {})


def _flat(compilers: tuple[Compiler, ...]) -> Iterator[Pass | Backend]:
    for c in compilers:
        if isinstance(c, tuple):
            yield from _flat(cast("tuple[Compiler, ...]", c))
        else:
            yield c


class Live(Tensor):
    """An input of a context, with a value."""

    __slots__ = ("_data", "name", "node")

    def __init__(self, node: Node, name: str) -> None:
        super().__init__(graph.edge(node))
        self.node = node
        self.name = name
        self._data: Array | None = None

    def set(self, data: Any) -> Live:
        """Give values: anything that numpy understands, converted to the tensor's dtype.

        BadInput where their shape is not the declared one, or where they are no numbers.
        """
        try:
            array = np.asarray(data).astype(self.dtype.numpy)
        except (TypeError, ValueError, OverflowError) as e:
            raise fail(
                BadInput,
                entry="set",
                name=self.name,
                got=f"no array of numbers ({str(e).splitlines()[0]})",
                expected=f"one that {self.dtype} holds",
                remedy="Pass an array, or nested lists of equal lengths.",
            ) from None
        fixed = [e.const if e.is_const else None for e in self.extents]
        fits = len(fixed) == array.ndim and all(
            e in (None, have) for e, have in zip(fixed, array.shape, strict=True)
        )
        if not fits:
            raise fail(
                BadInput,
                entry="set",
                name=self.name,
                got=f"of shape {array.shape}",
                expected=f"of shape ({', '.join(map(str, self.extents))})",
                remedy="Reshape the values, or declare another shape.",
            )
        self._data = array
        return self

    def value(self) -> Array:
        """The values given; BadInput where there are none."""
        if self._data is None:
            raise fail(
                BadInput,
                entry="execute",
                name=self.name,
                got="without values",
                expected="set",
                remedy="Call .set(values) on it first.",
            )
        return self._data


class Result(Tensor):
    """A value to be retrieved: `data` holds it after `execute`."""

    __slots__ = ("data",)

    def __init__(self, edge: Edge) -> None:
        super().__init__(edge)
        self.data: Array | None = None

    def __repr__(self) -> str:
        return super().__repr__() if self.data is None else str(self.data)

    def numpy(self) -> Array:
        """The values; BadArgument before `execute`."""
        if self.data is None:
            raise fail(
                BadArgument,
                op="numpy",
                name="a result",
                value="read before it is computed",
                expected="through cx.execute() first",
            )
        return self.data

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        del copy
        return self.numpy() if dtype is None else self.numpy().astype(dtype)
