"""Rewrite rules as values, and the one driver that rewrites a graph.

A pattern is written as the expression it matches (`x * 1`, `recip(recip(x))`). It matches nodes of
the graph; operands inside are matched through any view that never fills, because an elementwise op
of a view is the view of the op. What a node becomes is an edge: another node seen through a view.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from math import copysign
from types import FunctionType
from typing import cast

from lumigen.errors import BadArgument, BadPass, SourceLocation
from lumigen.graph import (
    Edge,
    Graph,
    Node,
    ScanLoop,
    binary,
    const,
    contiguous,
    edge,
    literal_of,
    rebuild,
    scan,
    unary,
)
from lumigen.ops import SOURCES, Op
from lumigen.view import compose, expand

MOST_STEPS = 1000  # that a node takes until none speaks; rules that take turns for longer never end

Bindings = dict[str, Edge]
Step = Callable[[Node], "Edge | None"]  # what a node becomes; None: it stays
Fired = Callable[[Step, Node, Edge], None]  # is told which step made what of a node


class Pattern:
    """The part of an expression that a rule looks for."""

    def __add__(self, other: Pattern | float) -> Apply:
        return Apply(Op.ADD, (self, pattern(other)))

    def __radd__(self, other: float) -> Apply:
        return Apply(Op.ADD, (pattern(other), self))

    def __mul__(self, other: Pattern | float) -> Apply:
        return Apply(Op.MUL, (self, pattern(other)))

    def __rmul__(self, other: float) -> Apply:
        return Apply(Op.MUL, (pattern(other), self))

    def __lt__(self, other: Pattern | float) -> Apply:
        return Apply(Op.LESS_THAN, (self, pattern(other)))


@dataclass(frozen=True, eq=False)
class Var(Pattern):
    """Matches any operand; where it stands twice, the same one."""

    name: str


@dataclass(frozen=True, eq=False)
class Constant(Pattern):
    """Matches any constant; given a value, the constant that is this number."""

    name: str
    value: float | None = None


@dataclass(frozen=True, eq=False)
class Apply(Pattern):
    """Matches an op whose operands match."""

    op: Op
    args: tuple[Pattern, ...]
    name: str = ""  # under which a rule sees the result itself; "": it does not

    def named(self, name: str) -> Apply:
        return replace(self, name=name)


@dataclass(frozen=True, eq=False)
class Made(Pattern):
    """In what a rule puts in place: the edge that a function gives for what was found."""

    make: Callable[[Bindings], Edge]


def var(name: str) -> Var:
    """Any operand, under this name."""
    return Var(name)


def constant(name: str) -> Constant:
    """Any constant, under this name."""
    return Constant(name)


def pattern(value: Pattern | float) -> Pattern:
    """A number stands for the constant that is that number."""
    return value if isinstance(value, Pattern) else Constant("", value)


def op(kind: Op) -> Callable[..., Apply]:
    """Writes an op that has no sign of its own."""

    def apply(*args: Pattern) -> Apply:
        return Apply(kind, args)

    return apply


def _line_of_rule() -> SourceLocation:
    """Where the rule that is being made stands: two frames up, after the constructor that dataclass wrote."""
    frame = sys._getframe(2)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    return SourceLocation(frame.f_code.co_filename, frame.f_lineno)


@dataclass(frozen=True)
class Rule:
    """What `find` matches becomes `put`, if `when` holds of what the names stand for."""

    name: str
    find: Apply
    put: Pattern
    when: Callable[[Bindings], bool] = lambda _: True
    line: SourceLocation = field(default_factory=_line_of_rule, compare=False)

    def __post_init__(self) -> None:
        unknown = _names(self.put) - _names(self.find)
        if unknown:
            value = f"made with {min(unknown)}, which it does not find"
            expected = "a result of what the pattern has names for"
            raise BadArgument(
                where=self.line, op="Rule", name=self.name, value=value, expected=expected
            )

    def __call__(self, n: Node) -> Edge | None:
        """What the node becomes; None if the rule says nothing about it."""
        found: Bindings = {}
        if n.op is not self.find.op or not _matches(self.find, edge(n), found):
            return None
        return _build(self.put, found) if self.when(found) else None


def _names(p: Pattern) -> set[str]:
    """Under which a pattern finds operands, or what is put in place wants them."""
    if isinstance(p, Apply):
        return {p.name}.union(*map(_names, p.args)) - {""}
    return {p.name} - {""} if isinstance(p, Var | Constant) else set()


def _matches(find: Pattern, e: Edge, found: Bindings) -> bool:
    if isinstance(find, Constant) and find.value is not None:
        return is_constant(e) and _is_number(literal_of(e.node), find.value)
    if isinstance(find, Var | Constant):
        return (isinstance(find, Var) or is_constant(e)) and found.setdefault(find.name, e) == e
    assert isinstance(find, Apply)
    if e.node.op is not find.op or e.view.valid:
        return False
    if find.name:
        found[find.name] = e
    operands = (Edge(a.node, v) for a in e.node.args if (v := compose(e.view, a.view)))
    return all(_matches(p, a, found) for p, a in zip(find.args, operands, strict=True))


def _build(put: Pattern, found: Bindings) -> Edge:
    if isinstance(put, Var | Constant):
        return found[put.name]
    if isinstance(put, Made):
        return put.make(found)
    assert isinstance(put, Apply)
    built = {p: _build(p, found) for p in put.args if not (isinstance(p, Constant) and not p.name)}
    like = next(iter(built.values()))  # a number has the shape and the dtype of the other operand
    args = [built[p] if p in built else _everywhere(p, like) for p in put.args]
    return edge(unary(put.op, *args) if len(args) == 1 else binary(put.op, *args))


def _everywhere(number: Pattern, like: Edge) -> Edge:
    assert isinstance(number, Constant)
    assert number.value is not None
    return Edge(const(number.value, like.dtype), expand((), like.shape))


def is_constant(e: Edge) -> bool:
    """Whether the operand is one number in every place."""
    return e.node.op is Op.CONST and not e.view.valid


def _is_number(value: float, wanted: float) -> bool:
    """Equal as written: False is not 0, and 0.0 is not -0.0."""
    kind = isinstance(value, bool) == isinstance(wanted, bool)
    return kind and value == wanted and copysign(1, value) == copysign(1, wanted)


def origin(step: Step) -> tuple[str, SourceLocation]:
    """The name of a rule or of a function, and where it stands."""
    if isinstance(step, Rule):
        return step.name, step.line
    if isinstance(step, FunctionType):
        code = step.__code__
        return step.__name__, SourceLocation(code.co_filename, code.co_firstlineno)
    return type(step).__name__, SourceLocation("-", 0)  # an object that is called, of a user's


_FIRED: ContextVar[Fired | None] = ContextVar("fired", default=None)


@contextmanager
def watching(fired: Fired | None) -> Generator[None]:
    """Within it, `fired` is called for every step of `rewrite`; None: nothing is."""
    before = _FIRED.set(fired)
    try:
        yield
    finally:
        _FIRED.reset(before)


def first(steps: Iterable[Step]) -> Step:
    """The first step that has something to say."""
    chosen = tuple(steps)
    return lambda n: next((e for step in chosen if (e := step(n)) is not None), None)


def rewrite(graph: Graph, *steps: Step) -> Graph:
    """The graph with every node replaced by what the first step that speaks makes of it, until none does.

    Operands come before users, so a step sees operands that are done. The graph itself comes back
    if nothing changes, as does every node whose operands do not change. Lines are united.
    """
    fired = _FIRED.get()
    done: dict[Node, Edge] = {}
    lines: dict[Node, dict[SourceLocation, None]] = {}
    names: dict[Node, str] = {}
    for n in graph.nodes():
        moved = rebuild(n, tuple(_seen(a, done) for a in n.args))
        if isinstance(moved.attr, ScanLoop):
            loop = replace(moved.attr, body=rewrite(moved.attr.body, *steps))
            moved = moved if loop == moved.attr else scan(loop, moved.args)
        out = done[n] = _settled(moved, steps, fired)
        if out.node is n or out.node.op not in SOURCES:
            lines.setdefault(out.node, {}).update(dict.fromkeys(graph.lines.get(n, ())))
            if n in graph.names:
                names.setdefault(out.node, graph.names[n])
    if all(e.node is n for n, e in done.items()):
        return graph
    outputs = tuple((name, _seen(e, done)) for name, e in graph.outputs)
    updates = tuple((state, _seen(e, done)) for state, e in graph.updates)
    changed = Graph(graph.inputs, outputs, updates)
    kept = {n: tuple(lines[n]) for n in changed.nodes() if lines.get(n)}
    called = {n: names[n] for n in changed.nodes() if n in names}
    return replace(changed, lines=kept, names=called)


def _settled(n: Node, steps: tuple[Step, ...], fired: Fired | None) -> Edge:
    out, before = edge(n), {n}
    while (found := _stepped(out.node, steps, fired)) is not None:
        step, made = found
        view = compose(out.view, made.view, made.node.shape)
        if view is None:
            break
        out = Edge(made.node, view)
        if out.node in before or len(before) == MOST_STEPS:
            raise _refused(step, f"of a node of {n.op.value} it makes others without an end")
        before.add(out.node)
    return out


def _stepped(n: Node, steps: tuple[Step, ...], fired: Fired | None) -> tuple[Step, Edge] | None:
    """The step that speaks, and what it makes of the node."""
    for step in steps:
        made = cast("object", step(n))
        if made is None:
            continue
        of = f"of a node of {n.op.value} it makes"
        if not isinstance(made, Edge):
            raise _refused(step, f"{of} a {type(made).__name__}, no edge (lg.ir.edge makes one)")
        if made.shape != n.shape:
            shapes = (f"({', '.join(map(str, shape))})" for shape in (n.shape, made.shape))
            raise _refused(
                step, "of a node of {} and shape {} it makes one of {}".format(n.op.value, *shapes)
            )
        if fired is not None:
            fired(step, n, made)
        return step, made
    return None


def _refused(step: Step, what: str) -> BadPass:
    name, line = origin(step)
    return BadPass(where=line if line.line else None, name=name, what=what)


def _seen(e: Edge, done: Mapping[Node, Edge]) -> Edge:
    """An edge of the old graph in the new one."""
    new = done[e.node]
    if new.node is e.node:
        return e
    view = compose(e.view, new.view, new.node.shape)
    return Edge(contiguous(new), e.view) if view is None else Edge(new.node, view)
