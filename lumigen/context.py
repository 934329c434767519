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

import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np

from lumigen import graph
from lumigen.compilers import Passes
from lumigen.dtype import DType, f32
from lumigen.errors import (
    BadArgument,
    BadInput,
    BadPass,
    SourceLocation,
    VerifyFailed,
    is_user_code,
)
from lumigen.frontend.model import Traced, check_dims, check_outputs
from lumigen.frontend.primitive import Extent
from lumigen.frontend.spec import spec
from lumigen.frontend.tensor import Tensor
from lumigen.frontend.trace import HOMES, fail
from lumigen.graph import Edge, Graph, Node
from lumigen.interp.graph import evaluate
from lumigen.ir import Array, Backend, Executor, Pass
from lumigen.memo import compilation
from lumigen.ops import Op
from lumigen.page import page_of, write_page
from lumigen.pipeline import lower_model
from lumigen.printer.graph import show
from lumigen.target import HOST
from lumigen.verify.graph import verify
from lumigen.weights import rounded

Compiler: TypeAlias = Pass | Backend | tuple[Any, ...]


class Context:
    """Tensors with values and what follows from them: `lg.Graph()`.

    Interpreted in numpy, unless `compile` is given a backend such as `lg.CPUCompiler()`.
    """

    def __init__(self) -> None:
        self._inputs: dict[str, Live] = {}
        self._results: dict[str, Result] = {}
        self._lines: dict[Node, dict[SourceLocation, None]] = {}  # that asked for each node
        self._compilers = Compilers()
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

    def note(self, n: Node, where: SourceLocation) -> None:
        """A line that asked for a node, for pages and errors."""
        self._lines.setdefault(n, {})[where] = None

    def compile(self, *compilers: Compiler) -> None:
        """Passes over the graph, in order, and at most one backend, last; tuples of them nest.

        Without a backend the graph is interpreted in numpy. Each call begins with the graph as written. After each
        pass the graph is verified: BadPass for one of the user's own that breaks it. BadArgument for a second backend,
        for a pass after one, and for what is neither.
        """
        self._compilers = sorted_out(compilers)
        self._forget()
        self._prepare()

    def execute(self) -> None:
        """Compute what is to be retrieved, from the values set.

        BadInput where one is not set, or where shapes do not fit the dims; UnknownDim where no input decides one.
        """
        executor = self._prepare()
        values: dict[str, Array] = {}
        for n in self.compiled().inputs:
            key = graph.tensor_of(n).name
            values[key] = rounded(self._inputs[key].value(), n.dtype)
        found = executor(values)
        for key, result in self._results.items():
            given = _given(found, key, self._compilers.backend)
            result.data = rounded(given, result.dtype)

    def display(self, html: str | Path | None = None) -> str:
        """The graph as text, also printed: as written, or as the compilers have made it.

        `html` names a file for a page that shows all of it: the graph and, of each kernel, its region, plan, tile
        program and source, as the backend makes them, or as the CPU would where there is none.
        """
        text = show(replace(self.compiled(), lines={}))
        if html is not None:
            target = getattr(self._compilers.backend, "target", HOST)
            entries = (("run", self.compiled()),)
            traced = Traced("graph", "", entries, ())
            made = lower_model(traced, {"target": target.text}, None, target, passes=())
            graphs = {"graph": (("run", self.graph()),), "compile": entries}
            write_page(page_of(replace(made, graphs=graphs)), Path(html), "display")
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
        used = dict.fromkeys(graph.toposort([e.node for _, e in outputs]))
        inputs = tuple(live.node for live in self._inputs.values() if live.node in used)
        lines = {n: tuple(self._lines[n]) for n in used if n in self._lines}
        out = Graph(inputs, outputs, (), lines)
        check_dims("execute", out)
        return out

    def compiled(self) -> Graph:
        """The graph after the passes of `compile`."""
        if self._graph is None:
            out = self.graph()
            for step in self._compilers.passes:
                out = passed(step, out)
            self._graph = out
        return self._graph

    @compilation()
    def _prepare(self) -> Executor:
        if self._executor is None:
            out = self.compiled()
            backend = self._compilers.backend
            if backend is not None:
                check_outputs("compile", out)
            self._executor = _interpreter(out) if backend is None else _executor(backend, out)
        return self._executor

    def _forget(self) -> None:
        self._graph = self._executor = None


def _interpreter(compiled: Graph) -> Executor:
    return lambda values: evaluate(compiled, values, {})


OF_ARRAYS = "one whose executor gives a function from arrays by name to arrays by name"


def _executor(backend: Backend, compiled: Graph) -> Executor:
    made = cast("object", backend.executor(compiled))
    if not callable(made):
        raise _of_backend(backend, f"executor(graph), which gives {_held(made)}", OF_ARRAYS)
    return cast("Executor", made)


def _given(found: object, key: str, backend: Backend | None) -> Array:
    """An output of an executor; BadArgument where one of the user's own does not give it."""
    held, none = _held(found), cast("Mapping[str, Array]", {})
    arrays = cast("Mapping[str, Array]", found) if isinstance(found, Mapping) else none
    if key not in arrays:
        value = f"a function that gives {', '.join(arrays) or held}"
        raise _of_backend(backend, value, f"one that gives {key} too")
    return np.asarray(arrays[key])


def _of_backend(backend: Backend | None, value: str, expected: str) -> Exception:
    return fail(BadArgument, op=_name(backend), name="a backend", value=value, expected=expected)


# --- compilers ------------------------------------------------------------------------------------

LAMBDA = "<lambda>"  # the name of every one of them


@dataclass(frozen=True)
class Compilers:
    """What `compile` is given: passes in order, then at most one backend."""

    passes: tuple[Pass, ...] = ()
    backend: Backend | None = None


def sorted_out(compilers: tuple[Compiler, ...]) -> Compilers:
    """Passes and the backend; BadArgument for what is neither, or stands in the wrong place."""
    passes: list[Pass] = []
    backend: Backend | None = None
    for c, name in _flat(compilers):
        if isinstance(c, type) or not (isinstance(c, Backend) or _takes_a_graph(c)):
            others = "passes, tuples of passes, and a backend"
            value = "a compiler: it is no pass, no function of one graph and no backend"
            raise _refused(name, value, f"{name}()" if _is_maker(c) else others)
        if backend is not None:
            kind = "a second backend" if isinstance(c, Backend) else "a pass"
            value = f"{kind} after {_name(backend)}"
            raise _refused(name, value, "passes first and at most one backend, last")
        if isinstance(c, Backend):
            backend = c
        else:
            passes.append(c)
    return Compilers(tuple(passes), backend)


def _refused(compiler: str, value: str, expected: str) -> Exception:
    return fail(BadArgument, op="compile", name=compiler, value=value, expected=expected)


def _flat(compilers: tuple[Compiler, ...], name: str = "") -> Iterator[tuple[Pass | Backend, str]]:
    """Each compiler, and what an error calls it: the name of those that it is one of, or its own."""
    for c in compilers:
        if isinstance(c, tuple):
            inner = c.name if isinstance(c, Passes) else name
            yield from _flat(cast("tuple[Compiler, ...]", c), inner)
        else:
            yield c, name or _name(c)


def _is_maker(c: object) -> bool:
    """Whether a user has forgotten to call it: a class, or a function without arguments that has a name."""
    if isinstance(c, type):
        return True
    return inspect.isfunction(c) and c.__name__ != LAMBDA and not inspect.signature(c).parameters


def _takes_a_graph(step: object) -> bool:
    """Whether it can be called with one argument; what says nothing of its arguments is believed."""
    if not callable(step):
        return False
    try:
        inspect.signature(step).bind(None)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def _name(compiler: object) -> str:
    while isinstance(compiler, partial):
        compiler = cast("object", compiler.func)
    name = getattr(compiler, "__name__", type(compiler).__name__)
    return "a lambda" if name == LAMBDA else name


def passed(step: Pass, before: Graph) -> Graph:
    """The graph that a pass makes, verified. A pass of the user's own that breaks it is BadPass, with its line."""
    after, where = cast("object", step(before)), _home(step)
    try:
        what = _malformed(after)
        if not what and isinstance(after, Graph):
            what = _changed(before, verify(after, _name(step)))
    except VerifyFailed as e:
        if where is None:
            raise
        place = f", at {e.where}" if e.where else ""
        what = f"{e.facts['what']}{place}"
    if what:
        raise BadPass(where=where, name=_name(step), what=what) from None
    return cast("Graph", after)


def _malformed(after: object) -> str:
    """What of a graph is no part of one, as a clause: inputs are nodes, outputs names with edges."""
    if not isinstance(after, Graph):
        return f"it gives {_held(after)}, no lg.ir.Graph"
    inputs, outputs = cast("tuple[object, object]", (after.inputs, after.outputs))
    for what, found in (("inputs", inputs), ("outputs", outputs)):
        if not isinstance(found, tuple):
            return f"its {what} are {_held(found)}, no tuple"
    for n in cast("tuple[object, ...]", inputs):
        if not isinstance(n, Node):
            return f"one of its inputs is {_held(n)}, no node"
    for pair in cast("tuple[object, ...]", outputs):
        held, items = (
            _held(pair),
            cast("tuple[object, ...]", pair if isinstance(pair, tuple) else ()),
        )
        if len(items) != 2 or not isinstance(items[0], str):
            return f"one of its outputs is {held}, no name with an edge"
        if not isinstance(items[1], Edge):
            other = f"is {_held(items[1])}, no edge (lg.ir.edge makes one of a node)"
            return f"its output {items[0]} {other}"
    return ""


def _held(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _home(step: object) -> SourceLocation | None:
    """Where the user has written a pass; None for one of ours, or one without Python code."""
    while isinstance(step, partial):
        step = cast("object", step.func)
    function = inspect.unwrap(step) if inspect.isfunction(step) else step
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        function = inspect.getattr_static(type(step), "__call__", None)
    code = getattr(function, "__code__", None)
    if code is None or not is_user_code(
        code.co_filename, getattr(function, "__module__", "") or ""
    ):
        return None
    return SourceLocation(code.co_filename, code.co_firstlineno, code.co_name)


def _changed(before: Graph, after: Graph) -> str:
    """What of inputs and outputs is no longer what values are set and retrieved by, as a clause."""
    known = {graph.tensor_of(n).name: n.shape for n in before.inputs}
    for n in after.inputs:
        name = graph.tensor_of(n).name
        if known.get(name) != n.shape:
            return f"its input {name} of shape ({_list(n.shape)}) is none of the graph before"
    was, made = (dict(g.outputs) for g in (before, after))
    if was.keys() != made.keys():
        return f"its outputs are {_list(made)}, and were {_list(was)}"
    for name, e in made.items():
        old = was[name]
        if e.shape != old.shape:
            return f"its output {name} is of shape ({_list(e.shape)}), and was ({_list(old.shape)})"
        if e.dtype is not old.dtype and not (e.dtype.is_float and old.dtype.is_float):
            return f"its output {name} is of {e.dtype}, and was of {old.dtype}"
    for n in (*after.weights(), *after.states()):
        return f"it reads the {n.op.value} {graph.tensor_of(n).name}, which nothing gives"
    return ""


def _list(items: Iterable[object]) -> str:
    return ", ".join(map(str, items))


# --- values ---------------------------------------------------------------------------------------


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

        BadInput where their shape is not the declared one, where they are no numbers, and where the dtype has no
        number near: integers of fractions, and what is beyond its range.
        """
        try:
            array = self._converted(np.asarray(data))
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

    def _converted(self, given: Array) -> Array:
        """The values in the tensor's dtype; ValueError where a number has none near."""
        with np.errstate(all="ignore"):
            array = given.astype(self.dtype.numpy)
            if given.dtype.kind not in "biuf" or self.dtype.is_bool:
                return array
            whole = self.dtype.is_int
            lost = array != given if whole else np.isinf(array) & np.isfinite(given)
        if lost.any():
            number = given[lost].flat[0]
            raise ValueError(
                f"{number} is {'no ' + str(self.dtype) if whole else 'beyond its range'}"
            )
        return array

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
