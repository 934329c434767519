"""session: the walk over an ONNX graph that calls the function of each node's operator, in order.

Promises that every value is computed once, that an error names the node, and that no file makes the walk endless.
"""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from lumigen.errors import (
    DimSpecialised,
    LumigenError,
    SizeSpecialised,
    UnsupportedNode,
    first_line,
    located,
)
from lumigen.frontend import Tensor
from lumigen.frontend.nn.module import Buffer, Module, Parameter
from lumigen.frontend.trace import current, fail
from lumigen.importers.onnx.kinds import kept_in
from lumigen.importers.onnx.node import NodePlace, OnnxNode, Operator, domain_of
from lumigen.importers.onnx.reading import NARROW_ELEMENTS, array_of, elements_of
from lumigen.importers.onnx.schema import (
    SAID,
    body_of,
    is_function,
    misfit,
    output_element,
    type_of,
)
from lumigen.importers.onnx.soundness import nodes_within
from lumigen.importers.onnx.table import row_of
from lumigen.importers.onnx.values import FEW, INT64, Array, Known, Value, held, tidied, written

MOST_STEPS = 50_000  # nodes that are visited, those of loops and functions each time
DEEPEST = 40  # functions and subgraphs inside each other

MOST_DENSE = 2**28  # elements of a sparse tensor, zeros included
# What Python and numpy raise of operands that do not fit together.
MISFITS = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, AssertionError,
           MemoryError, RecursionError)  # fmt: skip


class Initialisers(Module):
    """The initialisers that kernels read, under their own names."""

    def __init__(self) -> None:
        self.read: dict[str, Parameter] = {}

    def named_parts(self) -> Iterator[tuple[str, Parameter]]:
        yield from self.read.items()


@dataclass(eq=False)
class Frame:
    """The names that a graph or a function knows; those of a graph inside another include that one's."""

    values: dict[str, Value]
    versions: Mapping[str, int]
    outer: Frame | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    depth: int = 0
    elements: dict[str, int] = field(default_factory=dict[str, int])  # in TensorProto.DataType

    def find(self, name: str) -> Value:
        """The value of a name; KeyError where no node before has made it."""
        at: Frame | None = self
        while at is not None:
            if name in at.values:
                return at.values[name]
            at = at.outer
        raise KeyError(name)

    def element(self, name: str) -> int:
        """The type of ONNX's of a name, 0 where it is not known."""
        at: Frame | None = self
        while at is not None and name not in at.elements:
            at = None if name in at.values else at.outer
        return at.elements[name] if at else 0


class Unknown:
    """The value of a node that could not be imported, in a survey of all problems."""


UNKNOWN: Any = Unknown()


@dataclass(eq=False)
class Session:
    """One import: the model's functions and weights, and what was met. `problems` collects errors if it is a list."""

    name: str
    file: Path | None
    functions: Mapping[tuple[str, str], Any]
    versions: Mapping[str, int]
    elements: Mapping[str, int]  # the type of each value of the main graph that declares one
    dims: Mapping[str, str] = field(default_factory=dict[str, str])  # what the file calls each
    read: Initialisers = field(default_factory=Initialisers)
    problems: list[Exception] | None = None
    counts: Counter[str] = field(default_factory=Counter[str])
    steps: int = 0

    # --- what nodes ask for -----------------------------------------------------------------------

    def tensor(self, value: Value) -> Tensor:
        """A value as a tensor of the trace: a number, or a weight."""
        if isinstance(value, Tensor):
            return value
        if not isinstance(value, Known):
            why = "a sequence is given where a tensor is needed"
            raise fail(UnsupportedNode, op="onnx", why=why, remedy="Correct the graph.")
        found = written(value)
        if found is not None:
            return found
        dtype = held(value.array.dtype)
        name = value.name or "constant"
        while name in self.read.read and self.read.read[name].value is not value.array:
            known = self.read.read[name].value
            if known is not None and np.array_equal(known, value.array.astype(dtype.numpy)):
                return self.read.read[name]
            name += "_"
        if name not in self.read.read:
            made = Buffer(value.array, dtype=dtype, name=name)
            self.read.read[name] = made
        return self.read.read[name]

    def weights(self) -> Mapping[str, Array]:
        return {name: p.value for name, p in self.read.read.items() if p.value is not None}

    def array(self, tensor: Any) -> Array:
        return array_of(tensor, self.file)

    def element_type(self, name: str, value: Value, frame: Frame) -> int:
        """The type of ONNX's that a value has: the one that is known by its name, else that of ours."""
        return frame.element(name) or int(type_of(value).tensor_type.elem_type)

    def run_graph(self, node: OnnxNode, graph: Any, given: Sequence[Value]) -> list[Value]:
        """The outputs of a subgraph, which sees the names around its node."""
        outer: Frame = node.frame
        names = [i.name for i in graph.input]
        if len(given) != len(names):
            raise node.unsupported(f"its graph takes {len(names)} inputs, and gets {len(given)}")
        frame = Frame(
            dict(zip(names, given, strict=True)),
            outer.versions,
            outer,
            outer.attributes,
            self._deeper(outer, node),
            elements_of(graph.input),
        )
        self.run(graph, frame, inside=True)
        return [frame.find(o.name) for o in graph.output]

    def room(self) -> int:
        """How many nodes may still be visited."""
        return MOST_STEPS - self.steps

    def _deeper(self, frame: Frame, node: OnnxNode) -> int:
        if frame.depth >= DEEPEST:
            why = f"functions and graphs stand inside each other more than {DEEPEST} deep"
            raise node.unsupported(why, "Inline them: onnx.inliner.inline_local_functions(model).")
        return frame.depth + 1

    # --- the walk ---------------------------------------------------------------------------------

    def run(self, graph: Any, frame: Frame, *, inside: bool = False) -> None:
        """All nodes of a graph in order; their outputs are in the frame afterwards."""
        for t in getattr(graph, "initializer", ()):
            if t.name not in frame.values or inside:
                frame.values[t.name] = Known(self.array(t), t.name)
        for t in getattr(graph, "sparse_initializer", ()):
            frame.values[t.values.name] = Known(self._dense(t), t.values.name)
        for number, proto in enumerate(graph.node, 1):
            label = f"{proto.name or next(iter(proto.output), '')} ({proto.op_type})".lstrip()
            place = NodePlace(self.name, number, label)
            if inside:
                self._step(proto, frame)
                continue
            self.counts[full_name(proto)] += 1
            with located(place):
                self._collecting(proto, frame)

    def _dense(self, sparse: Any) -> Array:
        """The array of a SparseTensorProto, zeros included."""
        values, at = self.array(sparse.values), self.array(sparse.indices)
        shape = tuple(int(d) for d in sparse.dims)
        if not 0 <= math.prod(shape) <= MOST_DENSE:
            why = f"a sparse tensor has shape {shape}, and at most {MOST_DENSE} elements are read"
            raise fail(UnsupportedNode, op="onnx", why=why, remedy="Export it without.")
        flat = at if at.ndim == 1 else np.ravel_multi_index(tuple(at.T), shape)
        out = np.zeros(math.prod(shape), values.dtype)
        out[flat] = values
        return out.reshape(shape)

    def _collecting(self, proto: Any, frame: Frame) -> None:
        """A node of the main graph, whose error is kept for later where all are wanted.

        Operators of a node without a value, or inside of it, that have none with any operands are then listed too.
        """
        problems = self.problems
        if problems is None:
            self._step(proto, frame)
            return
        try:
            self._step(proto, frame)
        except LumigenError as e:
            problems.append(e)
            frame.values |= dict.fromkeys(proto.output, UNKNOWN)
        if any(frame.values.get(name) is UNKNOWN for name in proto.output):
            never = self._never_compiled(proto, frame)
            problems += [e for e in never if str(e) not in map(str, problems)]

    def _never_compiled(self, proto: Any, frame: Frame) -> Iterator[Exception]:
        """An error for each operator of a node, and of its graphs and functions, that no operands make one of ours."""
        seen: set[str] = set()
        for inner, versions in nodes_within(proto, frame.versions, self.functions):
            domain, name = domain_of(inner), full_name(inner)
            version = versions.get(domain, 1)
            if (domain, inner.op_type) in self.functions or name in seen:
                continue
            seen.add(name)
            node = OnnxNode(inner, (), version, self, frame)
            row = row_of(domain, node.op, version)
            if row is None and not is_function(domain, node.op, version):
                yield self._not_known(node)
            elif row is not None and row.refusal:
                try:
                    row.function(node)
                except UnsupportedNode as e:
                    yield e

    def _step(self, proto: Any, frame: Frame) -> None:
        self.steps += 1
        if self.steps > MOST_STEPS:
            why = f"loops and functions come to more than {MOST_STEPS} nodes"
            raise fail(UnsupportedNode, op=proto.op_type, why=why, remedy="Export fewer steps.")
        node = self._node(proto, frame)
        if any(v is UNKNOWN for v in node.inputs):
            frame.values |= dict.fromkeys(proto.output, UNKNOWN)
            return
        with np.errstate(all="ignore"):
            result = self._sized(node)
        outputs = cast("tuple[Value, ...]", result if isinstance(result, tuple) else (result,))
        for name, value in zip(proto.output, outputs, strict=False):
            if not name:
                continue
            if name in frame.values:
                raise node.unsupported(f"it makes {name!r}, which is there already", "Rename it.")
            frame.values[name] = self._named(node, name, value)
        if len(outputs) < len(proto.output) and any(proto.output[len(outputs) :]):
            raise node.unsupported(
                f"it has {len(proto.output)} outputs, and {len(outputs)} are known"
            )

    def _sized(self, node: OnnxNode) -> Any:
        """The outputs of a node; SizeSpecialised where they are there for some sizes alone."""
        try:
            return _applied(node, self._apply)
        except SizeSpecialised:
            raise
        except DimSpecialised as e:
            facts = {name: e.facts[name] for name in ("op", "dim", "needed")}
            option = shlex.quote(self.dims.get(str(facts["dim"]), str(facts["dim"])))
            raise fail(SizeSpecialised, **facts, option=option) from e

    def _node(self, proto: Any, frame: Frame) -> OnnxNode:
        domain = domain_of(proto)
        node = OnnxNode(proto, (), frame.versions.get(domain, 1), self, frame, frame.attributes)
        if (domain, node.op) not in self.functions and (why := misfit(proto, domain, node.version)):
            raise node.unsupported(why, "Check it with onnx.checker.check_model.")
        try:
            node.inputs = tuple(frame.find(name) if name else None for name in proto.input)
        except KeyError as e:
            why = f"it reads {e.args[0]!r}, which no node before it makes"
            raise node.unsupported(why, "Sort the graph, or correct the name.") from None
        return node

    def _named(self, node: OnnxNode, name: str, value: Value) -> Value:
        """The value; the kernels that compute a tensor, and a weight, are called by its name."""
        scope = current()
        frame: Frame = node.frame
        element = frame.elements.get(name) or self._element_of(node, name)
        if element:
            frame.elements[name] = element
        if element and isinstance(value, Tensor):
            value = kept_in(node, value, element)
        if isinstance(value, Tensor) and scope is not None and not isinstance(value, Parameter):
            scope.returned.setdefault(value.edge.node, name)
        if isinstance(value, Known) and not value.name:
            return replace(value, name=name)
        return value

    def _element_of(self, node: OnnxNode, name: str) -> int:
        """The type of an output that follows from those of operands, where one is narrower than ours."""
        given = [node.frame.element(i) if i else 0 for i in node.proto.input]
        if node.op not in SAID and not NARROW_ELEMENTS.intersection(given):
            return 0
        return output_element(node, list(node.proto.output).index(name), given)

    def _apply(self, node: OnnxNode) -> Any:
        """The outputs of a node: of a function of the model, of a row of the table, or of what it stands for."""
        domain = domain_of(node.proto)
        own = self.functions.get((domain, node.op))
        if own is not None:
            return self._call(node, own)
        row = row_of(domain, node.op, node.version)
        if row is not None:
            found = self._of_known(row, node)
            return row.function(node) if found is None else found
        body = body_of(node)
        if body is not None:
            return self._call(node, *body)
        raise self._not_known(node)

    def _not_known(self, node: OnnxNode) -> Exception:
        why = f"there is no operator {full_name(node.proto)} in version {node.version}"
        remedy = "Export the model without it, or as a function of other operators."
        return node.unsupported(why, remedy)

    def _of_known(self, row: Operator, node: OnnxNode) -> Known | None:
        """What a node of known operands gives; None where it is not known, or too much."""
        if row.known is None or not all(isinstance(v, Known) for v in node.inputs if v is not None):
            return None
        arrays = [v.array if isinstance(v, Known) else None for v in node.inputs]
        if sum(a.size for a in arrays if a is not None) > FEW:
            return None
        try:
            found = row.known(node, *arrays)
        except (DimSpecialised, TypeError):  # a decision that differs by sizes: tensors take it
            return None
        if found is None or isinstance(found, Known):
            return found
        sizes = (v.kind for v in node.inputs if isinstance(v, Known) and v.is_symbolic)
        kind = next(sizes, INT64)
        return Known(tidied(np.asarray(found), kind), kind=kind)

    def _call(
        self, node: OnnxNode, function: Any, defaults: Sequence[Any] = ()
    ) -> tuple[Value, ...]:
        """The outputs of a function, whose names are its own."""
        given = [*node.inputs, *[None] * (len(function.input) - len(node.inputs))]
        if len(given) > len(function.input):
            raise node.unsupported(f"its function takes {len(function.input)} inputs")
        attributes = {a.name: a for a in (*defaults, *function.attribute_proto)}
        attributes |= {a.name: a for a in node.resolved().attribute}
        versions = {domain_of(o): int(o.version) for o in function.opset_import}
        pairs = zip(function.input, node.proto.input, strict=False)
        frame = Frame(
            dict(zip(function.input, given, strict=True)),
            {**node.frame.versions, **versions},
            None,
            attributes,
            self._deeper(node.frame, node),
            {i: e for i, o in pairs if o and (e := node.frame.element(o))},
        )
        self.run(function, frame, inside=True)
        try:
            names = enumerate(function.output[: node.wanted])
            return tuple(frame.find(name) if node.wants(i) else None for i, name in names)
        except KeyError as e:
            raise node.unsupported(f"its function does not make {e.args[0]!r}") from None


def _applied(node: OnnxNode, apply: Callable[[OnnxNode], Any]) -> Any:
    """The outputs of a node; UnsupportedNode where its operands are not as the operator asks."""
    try:
        return apply(node)
    except MISFITS as e:
        why = f"its operands or attributes do not fit ({type(e).__name__}: {first_line(e)[:120].rstrip('.')})"
        remedy = (
            "Check the model with onnx.checker.check_model; "
            "if it finds nothing, report it as CONTRIBUTING.md says."
        )
        raise node.unsupported(why, remedy) from e


def full_name(proto: Any) -> str:
    """The operator of a node with its domain."""
    return ".".join(filter(None, (domain_of(proto), str(proto.op_type))))
