"""Models: a name, modules with weights, and entries, each a function traced into a graph.

Promises that names are C identifiers, that a dim has one range in a model, and that every node
knows the user's lines it comes from.
"""

from __future__ import annotations

import dis
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from lumigen import graph
from lumigen.application import TextProgram
from lumigen.dtype import DType
from lumigen.errors import BadArgument, DimConflict, SourceLocation, UnknownDim, WeightMismatch
from lumigen.frontend.application import TextGeneration
from lumigen.frontend.extents import declared
from lumigen.frontend.misuse import explained, told
from lumigen.frontend.nn.module import Buffer, Module, Parameter, spelled
from lumigen.frontend.spec import Spec, check_identifier, taken
from lumigen.frontend.tensor import Tensor
from lumigen.frontend.trace import TraceScope, fail, tracing
from lumigen.graph import Graph, tensor_of
from lumigen.index import Dim, product
from lumigen.names import entry_symbols, model_symbols, model_taken_by
from lumigen.ops import Op
from lumigen.program import FormatInfo
from lumigen.weights import Array, Weights, check_named

RETURNS = ("RETURN_VALUE", "RETURN_CONST")  # the instructions that end a function
FEW = 4  # items of a result that an error lists
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Original:
    """The program that an entry was imported from: inputs by name to outputs by name.

    `by` says what has run it, a package with its version; empty before it has run.
    """

    run: Callable[[Mapping[str, Array]], Mapping[str, Array]]
    by: Callable[[], str]


@dataclass(frozen=True)
class WeightSpec:
    """A weight that the entries read: what a weights file must hold."""

    name: str
    shape: tuple[int, ...]
    dtype: DType


@dataclass(frozen=True)
class StateSpec:
    """A state that the entries share, as each context keeps it."""

    name: str
    shape: tuple[int, ...]
    dtype: DType


@dataclass(frozen=True)
class Traced:
    """A model with nothing left but graphs."""

    name: str
    version: str
    entries: tuple[tuple[str, Graph], ...]
    weights: tuple[WeightSpec, ...]
    states: tuple[StateSpec, ...] = ()
    text: TextProgram | None = None
    formats: tuple[FormatInfo, ...] = ()  # of the weights that are read as fields


@dataclass(frozen=True)
class Entry:
    """A function of the model and what it takes."""

    name: str
    function: Callable[..., Any]
    inputs: tuple[tuple[str, Spec], ...]


class Model:
    """A named model; give it entries with `@model.entry(x=lg.spec(...))`.

    `net` holds the weights: a module, whose parameters keep the names of its state_dict, or modules
    by name, which become prefixes. `prefix` goes before every name, and `rename` maps the names so
    made to those in the weights file. `apps` are programs that are emitted with it. Of an imported model
    `originals` run the program that it was imported from, by entry, `own` are its weights where they are of files, and
    `source` names what it was imported from.
    """

    @told
    def __init__(
        self,
        name: str,
        net: Module | Mapping[str, Module] | None = None,
        version: str = "0.1.0",
        *,
        prefix: str = "",
        rename: Callable[[str], str] | Mapping[str, str] | None = None,
        apps: Sequence[TextGeneration] = (),
    ) -> None:
        check_identifier("Model", name, model_taken_by)
        if not re.fullmatch(r"\d+(\.\d+){0,3}", version):
            raise fail(
                BadArgument, op="Model", name="version", value=repr(version), expected="1.2.3"
            )
        for module in net.values() if isinstance(net, Mapping) else () if net is None else (net,):
            if not isinstance(module, Module):  # pyright: ignore[reportUnnecessaryIsInstance]
                value = f"of type {spelled(module)}"
                expected = "a module of lumigen.nn, or modules by name, after the model's name"
                raise fail(BadArgument, op="Model", name="net", value=value, expected=expected)
        self.name = name
        self.version = version
        self.net = net
        self.prefix = prefix
        self.rename = rename
        self.app = _only(apps)
        self.originals: Mapping[str, Original] = {}
        self.own: Weights | Mapping[str, Array] | None = None
        self.source = ""
        self._entries: dict[str, Entry] = {}
        self._dims: dict[str, Dim] = {}
        self._traced: Traced | None = None

    def __repr__(self) -> str:
        return f"Model({self.name!r}, entries={list(self._entries)})"

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries, in the order of their declaration."""
        return tuple(self._entries.values())

    def entry(self, **inputs: Any) -> Callable[[F], F]:
        """Declare the decorated function as an entry; inputs go by the names of its parameters.

        Each is a `spec`; the function gets tensors and gives a tensor, a dict of tensors by name, or a
        named tuple of them. BadArgument for names that are no C identifiers, or that two share;
        DimConflict where a dim has two ranges.
        """

        def declare(function: F) -> F:
            name = getattr(function, "__name__", None)
            if name is None:  # a module, say, which has no name of its own
                value, expected = (
                    f"of type {spelled(function)}",
                    "a function that is written with def",
                )
                raise fail(
                    BadArgument, op="entry", name="the entry", value=value, expected=expected
                )
            check_identifier("entry", name)
            if name in self._entries:
                raise fail(
                    BadArgument,
                    op="entry",
                    name="the name",
                    value=f"{name!r} twice",
                    expected="each entry under a name of its own",
                )
            self._check_symbols(name)
            self._check_inputs(name, function, inputs)
            self._entries[name] = Entry(name, function, tuple(inputs.items()))
            self._traced = None
            return function

        return declare

    def _symbols(self) -> dict[str, str]:
        """The C symbols of the model and its entries, and whose they are."""
        out = dict.fromkeys(model_symbols(self.name), "the model itself")
        for e in self._entries:
            out |= dict.fromkeys(entry_symbols(self.name, e), f"the entry {e}")
        return out

    def _check_macros(self, op: str, what: str, name: str) -> None:
        """The header defines names that begin with the model's, in capitals."""
        if name.startswith(f"{self.name.upper()}_"):
            raise taken(op, what, name, f"the macros of the model {self.name}")

    def _check_symbols(self, entry: str) -> None:
        self._check_macros("entry", "the name", entry)
        known = self._symbols()
        for symbol in entry_symbols(self.name, entry):
            if symbol in known:
                user = f"{known[symbol]}, as the C symbol {symbol}"
                raise taken("entry", "the name", entry, user)

    def _check_ports(self, entry: Entry, traced: Graph) -> None:
        known = self._symbols()
        for name in (*(name for name, _ in entry.inputs), *(name for name, _ in traced.outputs)):
            self._check_macros(entry.name, "a tensor's name", name)
            if name in known:
                raise taken(entry.name, "a tensor's name", name, f"{known[name]}, as a C symbol")

        check_outputs(entry.name, traced)

    def _check_inputs(
        self, name: str, function: Callable[..., Any], inputs: Mapping[str, Any]
    ) -> None:
        for key, given in inputs.items():
            check_identifier(name, key)
            if key == "out":
                raise taken(name, "an input's name", key, "what the Python module writes to")
            if not isinstance(given, Spec):
                raise fail(
                    BadArgument, op=name, name=key, value=repr(given), expected="lg.spec(...)"
                )
            for dim in given.dims():
                self._check_macros(name, "a dim's name", dim.name)
                first = self._dims.setdefault(dim.name, dim)
                if first != dim:
                    raise fail(
                        DimConflict, dim=dim.name, first=declared(first), second=declared(dim)
                    )
        solvable = {dim for given in inputs.values() for dim in given.solvable_dims()}
        for key, given in inputs.items():
            for dim in given.dims():
                if dim not in solvable:
                    extents = ", ".join(map(str, given.shape))
                    expected = f"{key} or another input with an extent that is {dim}, or such as 2 * {dim} + 1"
                    value = f"of shape ({extents}), from which {dim} does not follow"
                    raise fail(BadArgument, op=name, name=key, value=value, expected=expected)
        shaped = {dim for given in inputs.values() for dim in given.dims()}
        for key, given in inputs.items():
            loose = [str(dim) for dim in given.dims_of_most() if dim not in shaped]
            if loose:
                expected = "a range of dims that the shapes of the entry's inputs have"
                value = f"up to {given.most}, with {', '.join(loose)}"
                raise fail(
                    BadArgument, op=name, name=f"the range of {key}", value=value, expected=expected
                )
        parameters = inspect.signature(function).parameters.values()
        needed = {
            p.name for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD
        }
        known = {p.name for p in parameters}
        wrong = sorted((needed - inputs.keys()) | (inputs.keys() - known))
        if wrong and not any(p.kind is p.VAR_KEYWORD for p in parameters):
            raise fail(
                BadArgument,
                op=name,
                name=f"the inputs {', '.join(inputs) or 'none'}",
                value=f"those of {name}({', '.join(known)})",
                expected="one spec for each parameter, under its name",
            )

    def weight_names(self) -> dict[Parameter, str]:
        """The name of each parameter of `net`; the first where one is shared."""
        many = {"": self.net} if isinstance(self.net, Module) else self.net or {}
        modules = {f"{k}." if k else "": m for k, m in many.items()}
        out: dict[Parameter, str] = {}
        for prefix, module in modules.items():
            for name, parameter in module.named_weights(self.prefix + prefix):
                out.setdefault(parameter, self._renamed(name))
        return out

    def values(self) -> dict[str, Array]:
        """The arrays that `load_state_dict` gave the parameters, by their names; empty without any."""
        named = self.weight_names().items()
        return {name: p.value for p, name in named if p.value is not None}

    def sources(
        self, given: Weights | Mapping[str, Array] | None
    ) -> Weights | Mapping[str, Array] | None:
        """Where the arrays of a compilation are from: what is given, else the model's own; None without any.

        A parameter that has its value keeps it where the given arrays lack its name; buffers that are not
        persistent are never of a file.
        """
        if given is None:
            return self.own or self.values() or None
        check_named("compile", "weights", given)
        own = {
            name: p.value
            for p, name in self.weight_names().items()
            if p.value is not None
            and (name not in given or (isinstance(p, Buffer) and not p.persistent))
        }
        if isinstance(given, Weights):
            return given.beside(own) if own else given
        return {**own, **given}

    def _renamed(self, name: str) -> str:
        if self.rename is None:
            return name
        return self.rename(name) if callable(self.rename) else self.rename.get(name, name)

    def trace(self) -> Traced:
        """Run every entry once on symbolic inputs; mistakes are raised with the user's line."""
        if self._traced is None:
            if not self._entries:
                raise fail(
                    BadArgument,
                    op="Model",
                    name=self.name,
                    value="without an entry",
                    expected="at least one, with @model.entry(x=lg.spec(...))",
                )
            names = self.weight_names()
            entries = tuple((e.name, trace_entry(e, names)) for e in self.entries)
            for e, (_, traced) in zip(self.entries, entries, strict=True):
                self._check_ports(e, traced)
            found = weights_of(entries), states_of(entries)
            text = None if self.app is None else self.app.program(dict(entries))
            self._traced = Traced(self.name, self.version, entries, *found, text)
        return self._traced


def _only(apps: Sequence[object]) -> TextGeneration | None:
    """The one application, if there is any: a second one would be called by the same command."""
    app = apps[0] if apps else None
    if app is None or (len(apps) == 1 and isinstance(app, TextGeneration)):
        return app
    value = ", ".join(type(a).__name__ for a in apps)
    expected = "no application or one, an lg.TextGeneration"
    raise fail(BadArgument, op="Model", name="apps", value=value, expected=expected)


def trace_entry(entry: Entry, names: Mapping[Any, str] | None = None) -> Graph:
    """The graph of an entry."""
    with tracing(TraceScope(dict[object, str](names or {}))) as scope:
        inputs = {
            name: graph.source(Op.INPUT, name, s.shape, s.dtype, s.range, s.most)
            for name, s in entry.inputs
        }
        with explained():
            result = entry.function(**{name: Tensor(graph.edge(n)) for name, n in inputs.items()})
        outputs = _named_outputs(entry, result)
        traced = Graph(tuple(inputs.values()), outputs, scope.updates(), scope.frozen_lines())
        traced = replace(traced, names=scope.frozen_names(traced.nodes()))
    _check_origin(entry, traced, scope)
    check_dims(entry.name, traced)
    return traced


def _named_outputs(entry: Entry, result: Any) -> tuple[tuple[str, graph.Edge], ...]:
    if isinstance(result, Tensor):
        return (("out", result.edge),)
    named: Mapping[Any, Any] = {}
    if isinstance(result, Mapping):
        named = cast("Mapping[Any, Any]", result)
    elif isinstance(result, tuple):
        named = getattr(cast("object", result), "_asdict", dict[Any, Any])()
    if not named or not all(isinstance(v, Tensor) for v in named.values()):
        raise BadArgument(
            where=_last_line(entry),
            op=entry.name,
            name="the result",
            value="None" if result is None else f"a {_held(cast('object', result))}",
            expected="a tensor, a dict of tensors by name or a named tuple of them",
        )
    inputs = {name for name, _ in entry.inputs}
    for name in named:
        check_identifier(entry.name, str(name))
        if name in inputs:
            raise taken(entry.name, "an output's name", str(name), "an input")
    return tuple((str(name), value.edge) for name, value in named.items())


def _held(value: object) -> str:
    """What a function returned, for errors: tensors by dtype and shape, tuples and lists by what they hold."""
    if value is None or isinstance(value, Tensor):
        return repr(value)
    kind = type(value).__name__
    if not isinstance(value, tuple | list):
        return kind
    items = cast("Sequence[object]", value)
    more = ", ..." if len(items) > FEW else ""
    return f"{kind} of ({', '.join(map(_held, items[:FEW]))}{more})"


def _check_origin(entry: Entry, traced: Graph, scope: TraceScope) -> None:
    """What depends on inputs depends on those of this entry, and was made while it was traced.

    A graph remembers no entry, and inputs of two entries that are declared alike are one node: what was computed from
    another's has nodes that this trace has not made.
    """
    nodes = list(traced.nodes())  # operands first
    moving: set[graph.Node] = set()
    for n in nodes:
        if n.op is Op.INPUT or any(a.node in moving for a in n.args):
            moving.add(n)
    readers: dict[graph.Node, SourceLocation] = {}  # the lines of this entry that use each node
    for n in reversed(nodes):
        where = next(iter(scope.lines.get(n, ())), readers.get(n))
        if where is not None:
            for a in n.args:
                readers.setdefault(a.node, where)
    for n in nodes:
        if n in traced.inputs or n not in moving or n in scope.lines:
            continue
        what = repr(tensor_of(n).name) if n.op is Op.INPUT else "a tensor"
        raise BadArgument(
            where=readers.get(n) or _first_line(entry),
            op=entry.name,
            name="an operand",
            value=f"{what} of another entry or graph",
            expected=f"tensors of this call of {entry.name}: its inputs, and what it computes from them",
        )


def _first_line(entry: Entry) -> SourceLocation | None:
    code = getattr(inspect.unwrap(entry.function), "__code__", None)
    return SourceLocation(code.co_filename, code.co_firstlineno) if code else None


def _last_line(entry: Entry) -> SourceLocation | None:
    """The line that returns; the first one of the function where several do."""
    code = getattr(inspect.unwrap(entry.function), "__code__", None)
    if code is None:
        return None
    ends = {
        i.positions.lineno
        for i in dis.get_instructions(code)
        if i.opname in RETURNS and i.positions
    }
    (line, *others) = ends or {None}
    return _first_line(entry) if others or line is None else SourceLocation(code.co_filename, line)


def check_dims(entry: str, traced: Graph) -> None:
    """Every dim in the graph must be known from an input."""
    known = {d.name for d in traced.dims()}
    edges = (*traced.roots(), *(a for n in traced.nodes() for a in n.args))
    shown = {e for a in edges for e in (*a.view.shape, *a.view.index)}
    for e in sorted(shown | {e for n in traced.nodes() for e in n.shape}, key=str):
        for atom in e.atoms():
            if isinstance(atom, Dim) and atom.name not in known:
                raise fail(UnknownDim, entry=entry, name=atom.name, known=sorted(known))


def check_outputs(entry: str, traced: Graph) -> None:
    """No output may be empty whatever goes in: no kernel would write it."""
    for name, out in traced.outputs:
        if product(out.shape) == 0:
            value = f"of shape ({', '.join(map(str, out.shape))}), empty whatever goes in"
            expected = "it something to hold, or leave it out"
            raise fail(BadArgument, op=entry, name=f"output {name}", value=value, expected=expected)


def _check_weight_name(name: str) -> None:
    """Names of weights are keys in files, and texts in C."""
    if any(c == "\0" or "\ud800" <= c <= "\udfff" for c in name):
        expected = "one without null characters and halves of characters"
        raise fail(
            BadArgument, op="Parameter", name="the name", value=ascii(name), expected=expected
        )


def weights_of(entries: tuple[tuple[str, Graph], ...]) -> tuple[WeightSpec, ...]:
    """The weights that graphs read, by name, each declared in one way."""
    found: dict[str, WeightSpec] = {}
    for _, g in entries:
        for n in g.weights():
            name = tensor_of(n).name
            _check_weight_name(name)
            declared = WeightSpec(name, tuple(e.const for e in n.shape), n.dtype)
            first = found.setdefault(name, declared)
            if first != declared:
                raise fail(
                    WeightMismatch,
                    name=name,
                    file="the model",
                    got=f"{first.dtype}{list(first.shape)}",
                    expected=f"{declared.dtype}{list(declared.shape)}",
                    remedy="Declare a weight in one way wherever it is used.",
                )
    return tuple(found[name] for name in sorted(found))


def states_of(entries: tuple[tuple[str, Graph], ...]) -> tuple[StateSpec, ...]:
    """The states that graphs read or rebind, by name, each declared in one way."""
    found: dict[str, StateSpec] = {}
    for entry, g in entries:
        for n in g.states():
            name = tensor_of(n).name
            declared = StateSpec(name, tuple(e.const for e in n.shape), n.dtype)
            first = found.setdefault(name, declared)
            if first != declared:
                raise fail(
                    BadArgument,
                    op=entry,
                    name=f"state {name}",
                    value=f"{declared.dtype}{list(declared.shape)}",
                    expected=f"one declaration in all entries; it is {first.dtype}{list(first.shape)} before",
                )
    return tuple(found[name] for name in sorted(found))
