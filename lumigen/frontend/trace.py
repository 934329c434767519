"""What is being traced: the names of parameters and the user's lines of the nodes made so far.

Promises that every node made while a scope is open knows all of the user's lines that asked for it.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, cast
from weakref import WeakValueDictionary

from lumigen.errors import LumigenError, SourceLocation, user_location
from lumigen.frontend.assigned import assigned
from lumigen.frontend.offered import called_name
from lumigen.graph import Edge, Node, edge, toposort


@dataclass
class TraceScope:
    """One trace: `names` of the parameters in it, `lines` of its nodes in order of appearance.

    `states` by their names, and `versions` of each, the first of which is the state as the run finds it.
    """

    names: Mapping[object, str] = field(default_factory=dict[object, str])
    lines: dict[Node, dict[SourceLocation, None]] = field(
        default_factory=dict[Node, dict[SourceLocation, None]]
    )
    states: dict[str, object] = field(default_factory=dict[str, object])
    versions: dict[Node, list[Edge]] = field(default_factory=dict[Node, list[Edge]])
    returned: dict[Node, str] = field(
        default_factory=dict[Node, str]
    )  # by modules, whose path it is
    paths: dict[int, str] = field(default_factory=dict[int, str])  # of the modules of `outermost`
    outermost: object = None

    def name_of(self, parameter: object) -> str | None:
        return self.names.get(parameter)

    def record(self, n: Node) -> None:
        places = self.lines.setdefault(n, {})
        where = user_location()
        if where is not None:
            places[where] = None

    def updates(self) -> tuple[tuple[Node, Edge], ...]:
        """Each new version of a state, in order."""
        return tuple((state, e) for state, made in self.versions.items() for e in made[1:])

    def frozen_lines(self) -> dict[Node, tuple[SourceLocation, ...]]:
        return {n: tuple(places) for n, places in self.lines.items() if places}

    def frozen_names(self, nodes: Iterable[Node]) -> dict[Node, str]:
        """What the model calls nodes: the path of the module that returned one, else the variable that it went to."""
        order = list(nodes)
        variables = assigned(order, self.frozen_lines())
        return variables | {n: self.returned[n] for n in order if n in self.returned}

    def path_of(self, layer: Layer, outermost: Layer) -> str:
        """The path of a layer in the outermost one that runs; empty where it is that, or in another one."""
        if self.outermost is not outermost:
            self.outermost = outermost
            self.paths.clear()
            for path, module in outermost.named_modules():
                self.paths.setdefault(id(module), path)
        return self.paths.get(id(layer), "")


class Layer(Protocol):
    """A module, which knows those inside it by their paths."""

    def named_modules(self) -> Iterable[tuple[str, Layer]]: ...


class _OfThread(threading.local):
    """What a thread traces: the scopes, and the layers that run, the outermost first."""

    def __init__(self) -> None:
        self.scopes: list[TraceScope] = []
        self.layers: list[Layer] = []


_HERE = _OfThread()


@contextmanager
def running(layer: Layer) -> Generator[None]:
    """An error inside names the path of the layer."""
    _HERE.layers.append(layer)
    try:
        yield
    finally:
        _HERE.layers.pop()


def _path_of_layer() -> str:
    """Of the innermost layer that runs, in the outermost one; empty where it is that, or another one's."""
    if len(_HERE.layers) < 2:
        return ""
    return next((path for path, m in _HERE.layers[0].named_modules() if m is _HERE.layers[-1]), "")


def name_results(result: object, given: Iterable[object]) -> None:
    """The tensors that a layer has made and returns, alone or in a dict, are called by its path.

    Where its own layers have called one, it stays so; a number alone, as in a list, is no name.
    """
    scope = current()
    if scope is None or len(_HERE.layers) < 2:
        return
    path = scope.path_of(_HERE.layers[-1], _HERE.layers[0])
    made: Mapping[object, object] = {"": result}
    if isinstance(result, Mapping):
        made = cast("Mapping[object, object]", result)
    passed = {id(x) for x in given}
    for key, value in made.items():
        shown = getattr(value, "edge", None)
        name = f"{path}.{key}" if key else path
        if not isinstance(shown, Edge) or id(value) in passed or not name:
            continue
        if not name.rpartition(".")[2].isdecimal():
            scope.returned.setdefault(shown.node, name)


class Home(Protocol):
    """Who holds the values of inputs, and may be asked for results."""

    def retrieve(self, edge: Edge) -> Any: ...

    def note(self, n: Node, where: SourceLocation) -> None: ...


# By input, and by node that is computed from one outside of any scope.
HOMES: WeakValueDictionary[Node, Home] = WeakValueDictionary()


@contextmanager
def tracing(scope: TraceScope) -> Generator[TraceScope]:
    """Nodes made inside belong to `scope`."""
    _HERE.scopes.append(scope)
    try:
        yield scope
    finally:
        _HERE.scopes.pop()


def current() -> TraceScope | None:
    """The innermost open scope."""
    return _HERE.scopes[-1] if _HERE.scopes else None


def home_of(e: Edge) -> Home | None:
    """The context whose inputs a value depends on."""
    return next((HOMES[n] for n in toposort([e.node]) if n in HOMES), None)


def emit(n: Node) -> Edge:
    """The node as it is, with the user's line noted: by the scope that is open, else by the home of an operand."""
    scope = current()
    if scope is not None:
        scope.record(n)
        return edge(n)
    home = next((found for a in n.args if (found := HOMES.get(a.node)) is not None), None)
    if home is not None:
        HOMES[n] = home
        where = user_location()
        if where is not None:
            home.note(n, where)
    return edge(n)


def fail(error: type[LumigenError], **facts: object) -> LumigenError:
    """The error with the user's line in front, to be raised; `op` is what the user called, if it says one."""
    if "op" in facts:
        facts["op"] = called_name() or facts["op"]
    return error(where=user_location(), layer=_path_of_layer(), **facts)
