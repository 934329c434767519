"""egraph: the one door to egglog: a block and rules as its text, what it found as classes of equal terms.

Only the text of its language is used, with the JSON of what it holds: these are the same in all of its versions that
this package takes (pyproject.toml). Nothing stops a round of egglog once it has begun, so rules are directed, the size
is asked after each round, and all of this runs in a process that may be ended (`process`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import product
from typing import Any

from lumigen.algebra.rules import RULES, AlgebraRule, Fact
from lumigen.algebra.terms import GIVEN, REDUCED, Axes, AxisTerm, Block, TermKind, label_of
from lumigen.dtype import DTYPES

ROUNDS = 24  # of rules; blocks of layers are saturated after about ten
MOST = 2000  # e-nodes; at more of them no further round begins
FLOATS = tuple(d.name for d in DTYPES if d.is_float)

Pattern = str | tuple["Pattern", ...]

DECLARED = """
(sort Axes (Set String))
(datatype E
  (Leaf String) (Num String) (Map String E) (Add E E) (Mul E E) (Pick E E) (Less E E) (Mod E E)
  (Sum Axes E) (Max Axes E) (Move String E))
(function Free (E) Axes :merge (set-intersect old new))
(function Type (E) String :merge old)
(function Gives (String) Axes :merge old)
(relation Fixed (E)) (relation Given (E)) (relation Positive (E)) (relation Root (i64 E))
(relation Float (String)) (relation AboveZero (String)) (relation Whole (String)) (relation Reduced (Axes))
(relation Casts (String String)) (relation Keeps (String)) (relation TypeOfNum (String String))
(ruleset facts)
"""
BINARY = ("Add", "Mul", "Pick", "Less", "Mod")
ARGUMENTS = {
    **{f"({op} a b)": ("a", "b") for op in BINARY},
    **{f"({op} l a)": ("a",) for op in ("Map", "Sum", "Max", "Move")},
}


def is_here() -> bool:
    """Whether egglog is installed."""
    return find_spec("egglog") is not None


@dataclass(frozen=True)
class ENode:
    """A term whose operands are classes."""

    kind: TermKind
    args: tuple[str, ...]
    label: str


@dataclass(frozen=True)
class Classes:
    """The e-graph of a block: of each class its nodes and what is known of it; the class of each root.

    `is_saturated` is false where the rules had more to say; `matched` are those that said anything.
    """

    nodes: Mapping[str, tuple[ENode, ...]]
    free: Mapping[str, Axes]
    types: Mapping[str, str]
    fixed: frozenset[str]
    roots: tuple[str, ...]
    is_saturated: bool
    matched: frozenset[str] = frozenset()

    @property
    def size(self) -> int:
        return sum(map(len, self.nodes.values()))


class EGraph:
    """The rules as egglog has them, for one block after another. egglog has to be here."""

    def __init__(self) -> None:
        from egglog import bindings

        self.graph = bindings.EGraph()
        self._run("\n".join([DECLARED, *_fact_rules(), *_rules(RULES)]))

    def _run(self, text: str) -> list[Any]:
        return self.graph.run_program(*self.graph.parse_program(text))

    def saturated(self, block: Block, rules: Sequence[AlgebraRule]) -> Classes:
        """The block with all that some of RULES make of it, as far as ROUNDS and MOST allow."""
        self._run("\n".join(["(push)", *_terms(block)]))
        each = " ".join(f"(run {r.name})" for r in rules)
        is_saturated, matched = not rules, set[str]()
        for _ in range(ROUNDS if rules else 0):
            (report,) = self._run(f"(run-schedule (saturate (run facts)) {each})")
            is_saturated = not report.report.updated
            counts: Mapping[str, int] = report.report.num_matches_per_rule
            matched |= {name.partition("/")[0] for name, count in counts.items() if count}
            if is_saturated or _size(self._run("(print-size)")) > MOST:
                break
        self._run("(run-schedule (saturate (run facts)))")
        found = json.loads(self.graph.serialize([]).to_json())
        self._run("(pop)")
        fired = frozenset(r.name for r in rules if r.name in matched)
        return replace(_classes(found, len(block.roots), is_saturated), matched=fired)


def _size(printed: Sequence[Any]) -> int:
    kinds = {k.value for k in TermKind}
    return sum(count for name, count in printed[0].sizes if name in kinds)


def _fact_rules() -> Iterator[str]:
    """What is known of a term by its operands."""

    def rule(find: str, then: str) -> str:
        return f"(rule ({find}) ({then}) :ruleset facts)"

    for op, args in ARGUMENTS.items():
        bound = " ".join(f"(= f{a} (Free {a}))" for a in args)
        union = "(set-union fa fb)" if len(args) > 1 else "fa"
        axes = f"(set-diff {union} l)" if op.startswith(("(Sum", "(Max")) else union
        if not op.startswith("(Move"):
            yield rule(f"(= e {op}) {bound}", f"(set (Free e) {axes})")
        yield rule(f"(= e {op}) {' '.join(f'(Fixed {a})' for a in args)}", "(Fixed e)")
        for a in args:
            yield rule(f"(= e {op}) (Given {a})", "(Given e)")
        if not op.startswith(("(Map", "(Less")):
            yield rule(f"(= e {op}) (= t (Type {args[-1]}))", "(set (Type e) t)")
    yield rule("(= e (Move l a)) (= g (Gives l))", "(set (Free e) g)")
    yield rule("(= e (Map l a)) (Casts l t)", "(set (Type e) t)")
    yield rule("(= e (Map l a)) (Keeps l) (= t (Type a))", "(set (Type e) t)")
    yield rule("(= e (Less a b))", '(set (Type e) "bool")')
    yield rule("(= e (Num l))", "(Fixed e) (set (Free e) (set-empty))")
    yield rule("(= e (Num l)) (TypeOfNum l t)", "(set (Type e) t)")
    yield rule("(= e (Num l)) (AboveZero l)", "(Positive e)")
    yield rule('(= e (Map "exp2" a))', "(Positive e)")
    for op in ("(Add a b)", "(Mul a b)"):
        yield rule(f"(= e {op}) (Positive a) (Positive b)", "(Positive e)")
    for op in ('(Map "recip" a)', '(Map "sqrt" a)', "(Sum l a)", "(Max l a)"):
        yield rule(f"(= e {op}) (Positive a)", "(Positive e)")
    yield rule("(= e (Sum l a))", "(Reduced l)")


def _rules(rules: Iterable[AlgebraRule]) -> Iterator[str]:
    """Each rule for each order of operands, and of each type where it has a number."""
    for r in rules:
        yield f"(ruleset {r.name})"
        find, put = _read(r.find), _read(r.put)
        conditions = [c for fact in r.when for c in _condition(fact)]
        seen = dict.fromkeys(_text(f) for f in _turned(find))
        for dtype in FLOATS if "-1" in r.put else [""]:
            typed = [f'(= (Type a) "{dtype}")'] if dtype else []
            made = _text(put).replace("-1", f'(Num "{dtype} {(-1.0).hex()}")')
            for i, text in enumerate(seen):
                wanted = " ".join([*_first(conditions), f"(= e {text})", *conditions, *typed])
                yield f'(rule ({wanted}) ((union e {made})) :ruleset {r.name} :name "{r.name}/{dtype}{i}")'


def _first(conditions: Sequence[str]) -> list[str]:
    return [c for c in conditions if c.startswith("(Reduced")]


def _condition(fact: Fact) -> tuple[str, ...]:
    value, *rest = fact.of
    common = f"(set-length (set-intersect f_{value} {rest[0]}))" if rest else ""
    free = f"(= f_{value} (Free {value}))"
    return {
        "free_of": (free, f"(= 0 {common})"),
        "varies": (free, f"(!= 0 {common})"),
        "fixed": (f"(Fixed {value})",),
        "given": (f"(Given {value})",),
        "positive": (f"(Positive {value})",),
        "float": (f"(= t_{value} (Type {value}))", f"(Float t_{value})"),
        "reduced": (f"(Reduced {value})",),
        "number": (f"(= {value} (Num n_{value}))",),
        "whole": (f"(Whole {value})",),
    }[fact.kind]


def _read(text: str) -> Pattern:
    stack: list[list[Pattern]] = [[]]
    for word in re.findall(r"[()]|[^\s()]+", text):
        if word == "(":
            stack.append([])
        elif word == ")":
            done = tuple(stack.pop())
            stack[-1].append(done)
        else:
            stack[-1].append(word)
    return stack[0][0]


def _turned(p: Pattern) -> Iterator[Pattern]:
    """The pattern with the operands of each sum and product in either order."""
    if isinstance(p, str):
        yield p
        return
    for args in product(*(tuple(_turned(a)) for a in p[1:])):
        yield (p[0], *args)
        if p[0] in {"Add", "Mul"}:
            yield (p[0], *args[::-1])


def _text(p: Pattern) -> str:
    if isinstance(p, str):
        return p
    head, *args = p
    words = [_text(a) for a in args]
    if head == "Map" and len(words[0]) > 1:  # an op, where a rule has no name for it
        words[0] = f'"{words[0]}"'
    return f"({head} {' '.join(words)})"


def _terms(block: Block) -> Iterator[str]:
    for name in FLOATS:
        yield f'(Float "{name}")'
    for i, t in enumerate(block.terms):
        args = " ".join(f"$t{a}" for a in t.args)
        yield from _label_facts(t, block)
        label = _set(t.axes) if t.kind in REDUCED.values() else f'"{t.label}"' if t.label else ""
        yield f"(let $t{i} ({t.kind.value} {label} {args}))"
        if t.kind is TermKind.LEAF:
            leaf = block.leaves[int(t.label)]
            yield f"({'Fixed' if leaf.is_fixed else 'Given'} $t{i})"
            yield f'(set (Free $t{i}) {_set(leaf.axes)}) (set (Type $t{i}) "{leaf.dtype}")'
    for i, r in enumerate(block.roots):
        yield f"(Root {i} $t{r})"


def _label_facts(t: AxisTerm, block: Block) -> Iterator[str]:
    if t.kind is TermKind.MOVE:
        move = block.moves[int(t.label)]
        yield f'(set (Gives "{t.label}") {_set(frozenset(move.gives))})'
        if move.is_whole:
            yield f'(Whole "{t.label}")'
    if t.kind is TermKind.MAP:
        _, _, dtype = t.label.partition(" ")
        yield f'(Casts "{t.label}" "{dtype}")' if dtype else f'(Keeps "{t.label}")'
    for dtype in FLOATS:
        yield f'(TypeOfNum "{dtype} {(-1.0).hex()}" "{dtype}")'
    if t.kind is TermKind.NUM:
        dtype, text = t.label.split(" ")
        yield f'(TypeOfNum "{t.label}" "{dtype}")'
        if not text.startswith("-") and dtype in FLOATS and float.fromhex(text) > 0:
            yield f'(AboveZero "{t.label}")'


def _set(axes: Axes) -> str:
    if not axes:
        return "(set-empty)"
    names = " ".join(f'"{a}"' for a in label_of(axes).split())
    return f"(set-of {names})"


def _classes(found: Any, roots: int, is_saturated: bool) -> Classes:
    """What the JSON of egglog holds, in an order that it has no part in."""
    nodes: Mapping[str, Any] = found["nodes"]
    of = {key: n["eclass"] for key, n in nodes.items()}
    texts: dict[str, str] = {}
    for n in nodes.values():
        if not n["children"]:
            texts[n["eclass"]] = n["op"].strip('"')
    axes = {
        n["eclass"]: frozenset(texts[of[c]] for c in n["children"])
        for n in nodes.values()
        if n["op"] in {"set-of", "set-empty"}
    }
    kinds = {k.value: k for k in TermKind}
    classes: dict[str, list[ENode]] = {}
    facts: dict[str, dict[str, str]] = {"Free": {}, "Type": {}, "Fixed": {}, "Root": {}}
    for n in nodes.values():
        args = tuple(of[c] for c in n["children"])
        if n["op"] in kinds:
            classes.setdefault(n["eclass"], []).append(_enode(kinds[n["op"]], args, texts, axes))
        elif n["op"] == "Root":
            facts["Root"][texts[args[0]]] = args[1]
        elif n["op"] in facts:
            facts[n["op"]][args[0]] = n["eclass"]
    return Classes(
        {c: tuple(sorted(each, key=_order)) for c, each in classes.items()},
        {c: axes[a] for c, a in facts["Free"].items()},
        {c: texts[t] for c, t in facts["Type"].items()},
        frozenset(facts["Fixed"]),
        tuple(facts["Root"][str(i)] for i in range(roots)),
        is_saturated,
    )


def _enode(
    kind: TermKind, args: tuple[str, ...], texts: Mapping[str, str], axes: Mapping[str, Axes]
) -> ENode:
    if kind in REDUCED.values():
        return ENode(kind, args[1:], label_of(axes[args[0]]))
    if kind in GIVEN or kind in {TermKind.MAP, TermKind.MOVE}:
        return ENode(kind, args[1:], texts[args[0]])
    return ENode(kind, args, "")


def _order(n: ENode) -> tuple[str, str, tuple[str, ...]]:
    return n.kind.value, n.label, n.args
