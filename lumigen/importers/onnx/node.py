"""node: one node of an ONNX graph as the function of its operator sees it: operands, attributes, version.

Promises that an operand which must be known is known, or the error names the inputs that it depends on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, cast

from lumigen.errors import NotConstant, SourceLocation, UnsupportedNode, printable
from lumigen.frontend import Tensor
from lumigen.frontend.trace import fail
from lumigen.graph import Graph
from lumigen.importers.leaves import leaves
from lumigen.importers.onnx.reading import numpy_type
from lumigen.importers.onnx.values import Array, Known, Value, ints, scalar_of, shape_of, tidied
from lumigen.interp.graph import evaluate

REQUIRED: Any = object()
# The field of an AttributeProto for each of its types.
FIELDS = (
    "",
    "f",
    "i",
    "s",
    "t",
    "g",
    "floats",
    "ints",
    "strings",
    "tensors",
    "graphs",
    "sparse_tensor",
)
LONGEST = 100  # characters of a node's name that are shown
MOST_COMPUTED = 2**26  # elements of what is computed while a model is imported


@dataclass(frozen=True)
class NodePlace(SourceLocation):
    """A node of a file: `line` is its number in the graph, `function` its name and operator."""

    @property
    def spot(self) -> str:
        return f"{self.line} {self.function[:LONGEST]}"

    def __str__(self) -> str:
        return printable(f"{self.file}: node {self.line}, {self.function[:LONGEST]}")


def domain_of(proto: Any) -> str:
    """The domain of a node, a function or an operator set; that of ONNX itself has two names."""
    return "" if proto.domain == "ai.onnx" else str(proto.domain)


class Surroundings(Protocol):
    """What a node asks of the import that it stands in."""

    def tensor(self, value: Value) -> Tensor: ...

    def weights(self) -> Mapping[str, Array]: ...

    def array(self, tensor: Any) -> Array: ...

    def element_type(self, name: str, value: Value, frame: Any) -> int: ...

    def run_graph(self, node: OnnxNode, graph: Any, given: Sequence[Value]) -> list[Value]: ...

    def room(self) -> int: ...


Result: TypeAlias = "Value | tuple[Value, ...]"
Function: TypeAlias = Callable[["OnnxNode"], Any]
OfKnown: TypeAlias = Callable[..., Any]


@dataclass(frozen=True)
class Operator:
    """An operator from a version of its operator set on.

    `function` gives its outputs of a node. `known` gives the array of one output from a node and its operands' arrays
    where all of them are known; sizes in them are objects. `refusal` says why no node of it is compiled.
    """

    name: str
    function: Function
    since: int = 1
    known: OfKnown | None = None
    domain: str = ""
    refusal: str = ""


@dataclass(eq=False)
class OnnxNode:
    """A node while it is imported; `version` is that of the operator set it is of."""

    proto: Any
    inputs: Sequence[Value]
    version: int
    around: Surroundings
    frame: Any
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def op(self) -> str:
        return str(self.proto.op_type)

    @property
    def wanted(self) -> int:
        """How many outputs are listed."""
        return len(self.proto.output)

    def wants(self, i: int) -> bool:
        """Whether somebody may read the output."""
        return i < len(self.proto.output) and bool(self.proto.output[i])

    # --- operands ---------------------------------------------------------------------------------

    def has(self, i: int) -> bool:
        return i < len(self.inputs) and self.inputs[i] is not None

    def value(self, i: int) -> Value:
        if not self.has(i):
            remedy = f"Give it at least {i + 1} inputs, or export the model again."
            raise self.unsupported(f"input {i + 1} is missing", remedy)
        return self.inputs[i]

    def given(self, i: int) -> Known | Tensor:
        """The operand, which is no sequence."""
        value = self.value(i)
        if isinstance(value, Known | Tensor):
            return value
        why = f"input {i + 1} is a sequence, and a tensor is needed"
        raise self.unsupported(why, "Correct the graph.")

    def tensor(self, i: int) -> Tensor:
        """The operand as a tensor of the trace."""
        return self.around.tensor(self.value(i))

    def maybe(self, i: int) -> Tensor | None:
        return self.tensor(i) if self.has(i) else None

    def tensors(self, first: int = 0) -> list[Tensor]:
        """All operands from one on."""
        return [self.tensor(i) for i in range(first, len(self.inputs))]

    def static(self, i: int) -> Array:
        """The operand's array, which may hold symbolic sizes; NotConstant where it depends on inputs."""
        value = self.given(i)
        if isinstance(value, Known):
            return value.array
        return self.numbers_of(value, f"input {i + 1}, {self.proto.input[i]},")

    def numbers_of(self, tensor: Tensor, name: str) -> Array:
        """The numbers of a tensor that depends on no input and no symbolic size."""
        graph = Graph((), (("out", tensor.edge),))
        inputs, dims = leaves(graph)
        if inputs or dims:
            example = f"--set {inputs[0]}=VALUE" if inputs else f"--dim {dims[0]}=SIZE"
            raise fail(NotConstant, op=self.op, name=name, inputs=inputs + dims, example=example)
        edges = (*graph.roots(), *(a for n in graph.nodes() for a in n.args))
        most = max(math.prod(e.const for e in a.shape) for a in edges)
        if most > MOST_COMPUTED:
            why = f"{name} must be known, and takes {most} elements to compute"
            raise self.unsupported(why, "Make it smaller.")
        return evaluate(graph, {}, self.around.weights())["out"]

    def simplified(self, value: Value) -> Value:
        """A tensor that depends on no input, as known numbers; anything else as it is."""
        if not isinstance(value, Tensor):
            return value
        if any(leaves(Graph((), (("out", value.edge),)))):
            return value
        return Known(self.numbers_of(value, "it"))

    def known_or_tensor(self, i: int) -> Known | Tensor:
        """The operand, known where it depends on no input."""
        found = self.simplified(self.given(i))
        assert isinstance(found, Known | Tensor)
        return found

    def given_size(self, i: int) -> Any:
        """How many elements an operand has."""
        return math.prod(shape_of(self.given(i)))

    def sizes(self, i: int) -> list[Any]:
        """The elements of an operand of integers or sizes."""
        return ints(tidied(self.static(i)))

    def number(self, i: int, default: Any = None) -> Any:
        """The one element of an operand."""
        if not self.has(i):
            return default
        flat = self.static(i).reshape(-1)
        if flat.size != 1:
            why = f"input {i + 1} has {flat.size} elements, and one is needed"
            raise self.unsupported(why, "Correct the graph.")
        return flat.tolist()[0]

    def constant(self, i: int) -> Any:
        """The number that all elements of an operand are, where that is known."""
        value = self.value(i)
        return scalar_of(value) if isinstance(value, Known) else None

    def bound(self, i: int, name: str) -> Any:
        """A number or a tensor that is an input, an attribute, or absent."""
        if not self.has(i):
            return self.attr(name, None)
        known = self.constant(i)
        return self.tensor(i) if known is None else known

    def element_type(self, i: int) -> int:
        """The number of the operand's element type in TensorProto.DataType."""
        return self.around.element_type(self.proto.input[i], self.value(i), self.frame)

    def zero_point(self, i: int, of: int) -> Tensor | None:
        """The operand as the zero point of another one, whose type it has; None where there is none."""
        if not self.has(i):
            return None
        ours, theirs = (numpy_type(self.element_type(k)).name for k in (i, of))
        if ours != theirs:
            why = f"input {of + 1} is of {theirs}, and its zero point, input {i + 1}, of {ours}"
            raise self.unsupported(why, "Quantise the model again.")
        return self.tensor(i)

    # --- attributes -------------------------------------------------------------------------------

    def attr(self, name: str, default: Any = REQUIRED) -> Any:
        """The attribute: a number, a text, an array of a tensor, a graph, or a list of them."""
        for a in self.proto.attribute:
            if a.name != name:
                continue
            if not a.ref_attr_name:
                return self.decoded(a)
            named = self.attributes.get(a.ref_attr_name)  # of the function that the node stands in
            if named is not None:
                return self.decoded(named)
        if default is REQUIRED:
            why, remedy = f"attribute {name} is missing", "Export the model again."
            raise self.unsupported(why, remedy)
        return default

    def pads(self, rank: int) -> list[int]:
        """The paddings of so many axes, all those before them first; UnsupportedNode for less than none."""
        found = self.numbers("pads", [0] * 2 * rank)
        if min(found, default=0) < 0:
            raise self.unsupported(
                f"its pads are {found}, and none may be below 0", "Slice before it."
            )
        return found

    def numbers(self, name: str, default: list[int]) -> list[int]:
        """The attribute, a list of as many numbers as its default has."""
        found = self.attr(name, default)
        if not isinstance(found, list) or len(cast("list[int]", found)) != len(default):
            why = f"its {name} are {found}, where it takes {len(default)} numbers"
            raise self.unsupported(why, "Export the model again.")
        return cast("list[int]", found)

    def resolved(self) -> Any:
        """The node as a message whose attributes are its own: those that name one of the function's are replaced."""
        out = type(self.proto)()
        out.CopyFrom(self.proto)
        del out.attribute[:]
        for a in self.proto.attribute:
            found = self.attributes.get(a.ref_attr_name) if a.ref_attr_name else a
            if found is not None:
                out.attribute.add().CopyFrom(found)
                out.attribute[-1].name = a.name
        return out

    def decoded(self, attribute: Any) -> Any:
        kind = int(attribute.type)
        which = FIELDS[kind] if 0 <= kind < len(FIELDS) else ""
        if not which:
            why = f"attribute {attribute.name} has no type"
            raise self.unsupported(why, "Export the model again.")
        found = getattr(attribute, which)
        if which == "s":
            return found.decode("utf-8", "replace")
        if which == "strings":
            return [t.decode("utf-8", "replace") for t in found]
        if which == "t":
            return self.around.array(found)
        return found if which == "g" else list(found) if which.endswith("s") else found

    def unsupported(self, why: str, remedy: str = "Export the model in another way.") -> Exception:
        return fail(UnsupportedNode, op=self.op, why=why, remedy=remedy)
