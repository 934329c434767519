"""Every rewrite rule, present and future, on random instances of its own pattern.

NaN, infinities and signed zeros are as likely as other numbers. A rule set is any tuple `RULES` of
a module in lumigen/lower.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

import numpy as np
import pytest

import lumigen.lower
from lumigen.dtype import DTYPES, DType, boolean
from lumigen.graph import (
    Edge,
    Graph,
    Node,
    binary,
    const,
    contiguous,
    edge,
    literal_of,
    shape,
    source,
    toposort,
    unary,
)
from lumigen.interp import evaluate
from lumigen.ops import ROWS, Form, Op
from lumigen.pattern import Apply, Constant, Pattern, Rule, Var
from lumigen.verify.graph import verify
from lumigen.view import Shape, expand, permute

MODULES = sorted(m.name for m in pkgutil.iter_modules(lumigen.lower.__path__, "lumigen.lower."))
RULES: list[Rule] = [
    rule for name in MODULES for rule in getattr(importlib.import_module(name), "RULES", ())
]
INSTANCES, ATTEMPTS = 30, 20_000
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 3.0, np.nan, np.inf, -np.inf)
TOLERANCE = {"f16": 2e-3, "bf16": 1.6e-2}


class Instance:
    """A random graph that looks like a pattern."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.dtype = self.any_dtype()
        self.inputs: list[Node] = []
        self.bound: dict[str, Edge] = {}

    def any_dtype(self) -> DType:
        return DTYPES[self.rng.integers(len(DTYPES))]

    def likely(self) -> bool:
        return bool(self.rng.random() < 0.5)

    def build(self, find: Pattern, to: Shape) -> Edge:
        match find:
            case Apply(op, args):
                if self.likely():
                    inner = self.apply(op, [self.build(a, to[::-1]) for a in args])
                    return Edge(inner, permute(inner.shape, (1, 0)))
                return edge(self.apply(op, [self.build(a, to) for a in args]))
            case Constant(name, value):
                dtype = boolean if isinstance(value, bool) else self.dtype
                number = self.number(dtype) if value is None else value
                return self.named(name, lambda: Edge(const(number, dtype), expand((), to)))
            case Var(name):
                return self.named(name, lambda: self.operand(to))
            case _:
                raise AssertionError(f"nothing matches {find}")

    def named(self, name: str, make: Callable[[], Edge]) -> Edge:
        if not name:
            return make()
        if name not in self.bound:
            self.bound[name] = make()
        return self.bound[name]

    def apply(self, op: Op, args: list[Edge]) -> Node:
        form = ROWS[op].form
        if form is Form.CAST:
            return contiguous(args[0], self.any_dtype() if self.likely() else None)
        return unary(op, args[0]) if form is Form.UNARY else binary(op, *args)

    def operand(self, to: Shape) -> Edge:
        dtype = boolean if self.likely() else self.dtype
        n = source(Op.INPUT, f"in{len(self.inputs)}", to, dtype)
        self.inputs.append(n)
        if self.likely():
            return edge(n)
        return edge(binary(Op.MUL if dtype.is_bool else Op.ADD, edge(n), edge(n)))

    def number(self, dtype: DType) -> float:
        return self.numbers(dtype, ()).item()

    def numbers(self, dtype: DType, size: tuple[int, ...]) -> np.ndarray:
        if dtype.is_int:
            info = np.iinfo(dtype.numpy)
            some = self.rng.integers(info.min, info.max, size, endpoint=True)
            few = self.rng.integers(0, 3, size)
            return np.where(self.rng.random(size) < 0.5, some, few).astype(dtype.numpy)
        if dtype.is_bool:
            return self.rng.random(size) < 0.5
        special = self.rng.choice(SPECIAL, size)
        plain = self.rng.normal(size=size) * 8
        return np.where(self.rng.random(size) < 0.5, special, plain).astype(dtype.numpy)


def instances(rule: Rule) -> list[tuple[Instance, Node, Edge]]:
    """Graphs that the rule rewrites, with what it makes of them."""
    rng = np.random.default_rng(0)
    found: list[tuple[Instance, Node, Edge]] = []
    for _ in range(ATTEMPTS):
        instance = Instance(rng)
        try:
            before = instance.build(rule.find, shape(2, 3)).node
        except (ValueError, AssertionError):
            continue  # these types do not go together
        if before.shape == shape(2, 3) and (after := rule(before)) is not None:
            found.append((instance, before, after))
        if len(found) == INSTANCES:
            break
    return found


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
def test_rule_keeps_meaning_and_never_grows(rule: Rule) -> None:
    cases = instances(rule)
    assert len(cases) == INSTANCES, "the rule hardly matches its own pattern"
    for instance, before, after in cases:
        assert (after.shape, after.dtype) == (before.shape, before.dtype)
        assert size(after.node) <= size(before), "a rule may reorder, never grow"
        graph = Graph(tuple(instance.inputs), (("before", edge(before)), ("after", after)))
        verify(graph)
        values = {
            f"in{i}": instance.numbers(n.dtype, tuple(e.const for e in n.shape))
            for i, n in enumerate(instance.inputs)
        }
        out = evaluate(graph, values, {})
        same(out["after"], out["before"], TOLERANCE.get(before.dtype.name, 1e-6))


def size(n: Node) -> int:
    return sum(1 for m in toposort([n]) if m.op is not Op.CONST)


def same(found: np.ndarray, wanted: np.ndarray, tolerance: float) -> None:
    if wanted.dtype.kind in "iub":
        np.testing.assert_array_equal(found, wanted)
        return
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    np.testing.assert_allclose(a, b, rtol=tolerance)
    zero = b == 0
    np.testing.assert_array_equal(np.signbit(a[zero]), np.signbit(b[zero]))


def test_rule_names_are_unique() -> None:
    names = [r.name for r in RULES]
    assert len(names) >= 15
    assert len(set(names)) == len(names)


def test_a_wrong_rule_is_caught() -> None:
    x, z = Var("x"), Constant("z")
    for wrong in (
        Rule("add_zero", x + 0, x, lambda m: m["x"].dtype.is_float),  # -0.0 + 0.0 is 0.0
        Rule("mul_zero", x * z, z, lambda m: literal_of(m["z"].node) == 0),  # 0 * nan is nan
    ):
        with pytest.raises(AssertionError):
            test_rule_keeps_meaning_and_never_grows(wrong)
