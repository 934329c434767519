"""The algebra: every rule on random data, what the rules find in small programs, and what bounds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from algebra_programs import PROGRAMS, transformer

import lumigen as lg
from lumigen.algebra.answer import NEAR, Answer, RuleSet, agrees, answer, random_leaves
from lumigen.algebra.egraph import MOST, Classes, EGraph, ENode, is_here
from lumigen.algebra.extract import EqualProgram, Prices, as_it_is, extracted
from lumigen.algebra.meaning import Array, AxisArray, Meaning, aligned, shape_of
from lumigen.algebra.numerics import Numerics
from lumigen.algebra.rewriting import ModelBlocks, Rewritten, rewritten
from lumigen.algebra.rules import RULES, AlgebraRule, allowed
from lumigen.algebra.terms import AxisTerm, Block, Move, OuterValue, TermKind
from lumigen.algebra.variants import bounded, rule_set
from lumigen.algebra.worker import answers
from lumigen.dtype import bf16, f32
from lumigen.interp.graph import evaluate
from lumigen.lower.prepare import prepare
from lumigen.make_project import compile_project
from lumigen.progress import Stages
from lumigen.search import asked, equal
from lumigen.search.asked import SCHEDULES
from lumigen.search.book import Book, book_of
from lumigen.search.database import database
from lumigen.search.lanes import measuring_of
from lumigen.search.tune import Terms
from lumigen.summary import Summary
from lumigen.target import HOST
from lumigen.targets.cpu.device import CPU

pytestmark = pytest.mark.skipif(
    not is_here(), reason="egglog is not installed (the extra `search`)"
)

SPECIAL = (0.0, -0.0, 1.0, -1.5, 3e38, -3e38, 1e-45, np.inf, -np.inf, np.nan)


@pytest.fixture(scope="module")
def graph() -> EGraph:
    return EGraph()


# ---- rules ----

LEAVES = (
    OuterValue(frozenset({"a0", "a1"}), "f32", 24, is_fixed=False),  # varies with both axes
    OuterValue(frozenset({"a0"}), "f32", 12, is_fixed=False),  # free of a1
    OuterValue(frozenset({"a1", "a2"}), "f32", 40, is_fixed=True),
    OuterValue(frozenset({"a2"}), "f32", 20, is_fixed=True),
    OuterValue(frozenset({"a1", "a2"}), "f32", 40, is_fixed=True),
    OuterValue(frozenset({"a0", "a1"}), "f32", 24, is_fixed=False),
)
MOVES = (Move(("a0", "a1"), ("a3",)),)
SIZES = (("a0", 3), ("a1", 4), ("a2", 5), ("a3", 7))
X, ROW, W, V, U, Y = (AxisTerm(TermKind.LEAF, (), str(i)) for i in range(6))


def num(value: float) -> AxisTerm:
    return AxisTerm(TermKind.NUM, (), f"f32 {value.hex()}")


# Of each rule an expression in which it fires: nested terms, of which leaves are AxisTerms.
Nested = Any
CASES: Mapping[str, Nested] = {
    "factor_leaves_sum": ("Sum a1", ("Mul", X, ROW)),
    "factor_enters_sum": ("Mul", ("Sum a1", X), V),
    "operand_enters_sum": ("Sum a0", ("Mul", ("Sum a1", X), ROW)),
    "sums_change_places": ("Sum a0", ("Sum a1", X)),
    "factor_moves_out": ("Sum a1", ("Mul", ("Mul", X, ROW), Y)),
    "weights_multiply": ("Mul", ("Mul", X, W), V),
    "weights_add": ("Add", ("Add", X, W), V),
    "factor_of_a_shifted_value": ("Mul", ("Add", X, W), V),
    "shift_leaves_product": ("Sum a1", ("Add", X, W)),
    "products_of_one_operand": ("Add", ("Sum a1", ("Mul", X, W)), ("Sum a1", ("Mul", X, U))),
    "log_of_product": ("Map log2", ("Mul", ("Map exp2", X), ("Map exp2", Y))),
    "log_of_exp": ("Map log2", ("Map exp2", X)),
    "exp_of_log": ("Map exp2", ("Map log2", ("Map exp2", X))),
    "log_of_reciprocal": ("Map log2", ("Map recip", ("Map exp2", X))),
    "reciprocal_of_exp": ("Map recip", ("Map exp2", X)),
    "product_of_exps": ("Mul", ("Map exp2", X), ("Map exp2", Y)),
    "scale_leaves_maximum": ("Max a1", ("Mul", X, num(0.3))),
    "map_before_move": ("Map sqrt", ("Move 0", X)),
    "map_after_move": ("Move 0", ("Map recip", X)),
    "scale_before_move": ("Mul", ("Move 0", X), num(0.3)),
    "shift_before_move": ("Add", ("Move 0", X), num(0.3)),
}


def block_of(nested: Nested) -> Block:
    terms: dict[AxisTerm, int] = {}

    def place(n: Nested) -> int:
        if isinstance(n, AxisTerm):
            return terms.setdefault(n, len(terms))
        kind, _, label = n[0].partition(" ")
        args = tuple(place(a) for a in n[1:])
        return terms.setdefault(AxisTerm(TermKind(kind), args, label), len(terms))

    root = place(nested)
    return Block(tuple(terms), (root,), LEAVES, MOVES, SIZES)


def values_of(found: Classes, meaning: Meaning) -> dict[str, AxisArray]:
    """A value of each class, by the first of its nodes that can be computed."""
    out: dict[str, AxisArray] = {}
    while missing := [c for c in found.nodes if c not in out]:
        before = len(out)
        for c in missing:
            for n in found.nodes[c]:
                if c not in out and all(a in out for a in n.args):
                    out[c] = value_of(n, out, meaning)
        assert len(out) > before, "every class has a node that is no circle"
    return out


def value_of(n: ENode, values: Mapping[str, AxisArray], meaning: Meaning) -> AxisArray:
    return meaning.value(AxisTerm(n.kind, (), n.label), [values[a] for a in n.args])


def disagreements(found: Classes, meaning: Meaning, near: float) -> list[str]:
    """Nodes whose value is not that of their class: by bits, or as near as this."""
    values = values_of(found, meaning)
    out: list[str] = []
    for c, nodes in found.nodes.items():
        for n in nodes:
            x, y = np.broadcast_arrays(*aligned(values[c], value_of(n, values, meaning))[0])
            if not (are_alike(x, y, near) if near else have_the_same_bits(x, y)):
                out.append(f"{c} {n}")
    return out


def are_alike(x: Array, y: Array, near: float) -> bool:
    greatest = float(np.max(np.abs(x[np.isfinite(x)]), initial=1.0))
    return np.allclose(x, y, near, near * greatest, equal_nan=True)


def have_the_same_bits(x: Array, y: Array) -> bool:
    """Any NaN is as good as another."""
    zero = x == 0
    return np.array_equal(x, y, equal_nan=True) and bool(
        np.all(np.signbit(x[zero]) == np.signbit(y[zero]))
    )


def test_every_rule_has_a_case() -> None:
    assert {r.name for r in RULES} == CASES.keys()


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
def test_a_rule_fires_and_all_members_of_a_class_agree(rule: AlgebraRule, graph: EGraph) -> None:
    block = block_of(CASES[rule.name])
    found = graph.saturated(block, [rule])
    plain = graph.saturated(block, [])
    is_more = found.size > plain.size or len(found.nodes) < len(plain.nodes)
    assert is_more, "the rule says nothing in its case"
    rng = np.random.default_rng(0)
    sizes = dict(SIZES)
    for i in range(8):
        leaves = random_leaves(block, sizes, rng, is_positive=i % 2 > 0)
        meaning = Meaning(block, sizes, leaves)
        assert not disagreements(found, meaning, NEAR)


@pytest.mark.parametrize("rule", allowed(Numerics.STRICT), ids=lambda r: r.name)
def test_an_exact_rule_keeps_every_bit(rule: AlgebraRule, graph: EGraph) -> None:
    block = block_of(CASES[rule.name])
    found = graph.saturated(block, [rule])
    rng, sizes = np.random.default_rng(0), dict(SIZES)
    for _ in range(32):
        leaves = [
            rng.choice(np.array(SPECIAL, np.float32), shape_of(leaf.axes, sizes))
            for leaf in block.leaves
        ]
        assert not disagreements(found, Meaning(block, sizes, leaves), 0.0)


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_that_is_found_of_a_program_agrees(name: str, graph: EGraph) -> None:
    rng = np.random.default_rng(0)
    for block in ModelBlocks.of(PROGRAMS[name]()).distinct:
        found = graph.saturated(block, RULES)
        sizes = {a: 2 + i % 3 for i, (a, _) in enumerate(block.sizes)}
        for is_positive in (False, True):
            leaves = random_leaves(block, sizes, rng, is_positive=is_positive)
            assert not disagreements(found, Meaning(block, sizes, leaves), NEAR)


def test_a_wrong_program_is_seen() -> None:
    block = block_of(CASES["factor_leaves_sum"])
    right, wrong = (block_of(("Mul", ("Sum a1", a), b)) for a, b in ((X, ROW), (ROW, X)))
    assert agrees(block, EqualProgram(right.terms, right.roots, 0.0))
    assert not agrees(block, EqualProgram(wrong.terms, wrong.roots, 0.0))


# ---- programs ----

FOUND = {
    "low_rank": ({"operand_enters_sum", "sums_change_places"}, 0.3),
    "low_rank_given": ({"operand_enters_sum", "sums_change_places"}, 0.3),
    "adapted": ({"products_of_one_operand"}, 0.85),
    "norm_then_product": ({"factor_leaves_sum"}, 0.9),
    "layer_norm_then_product": ({"shift_leaves_product"}, 0.99),
    "convolution_and_batch_norm": ({"factor_enters_sum"}, 0.97),
    "cross_entropy": ({"log_of_product", "log_of_reciprocal"}, 0.8),
    "map_after_gather": ({"map_before_move", "scale_before_move"}, 0.3),
    "transformer": ({"factor_leaves_sum"}, 0.99),
}


def arrays(traced: lg.Traced, rng: np.random.Generator) -> dict[str, Array]:
    """Weights: positive ones for what is a variance."""
    made = {w.name: rng.standard_normal(w.shape).astype(np.float32) for w in traced.weights}
    return {name: abs(a) if "var" in name else a for name, a in made.items()}


def given(traced: lg.Traced, rng: np.random.Generator) -> dict[str, Array]:
    ((_, g),) = traced.entries
    shapes = {n.attr.name: tuple(e.const for e in n.shape) for n in g.inputs}
    return {name: rng.standard_normal(s).astype(np.float32) for name, s in shapes.items()}


def made_of(traced: lg.Traced, graph: EGraph, numerics: Numerics = Numerics.FAST) -> Rewritten:
    model = ModelBlocks.of(traced)
    rules = rule_set(numerics, CPU.machine, f32)
    made = rewritten(model, [answer(graph, b, rules) for b in model.distinct])
    assert made is not None
    return made


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_becomes_less_work_and_gives_the_same(
    name: str, graph: EGraph, rng: np.random.Generator
) -> None:
    traced = PROGRAMS[name]()
    weights, inputs = arrays(traced, rng), given(traced, rng)
    made = made_of(traced, graph)
    rules, most = FOUND[name]
    assert rules <= made.rules.keys()
    assert made.gain < most
    ((_, before),), ((_, after),) = traced.entries, made.traced.entries
    wanted = evaluate(before, inputs, weights)
    found = evaluate(after, inputs, weights)
    for key, array in wanted.items():
        np.testing.assert_allclose(found[key], array, 2e-5, 2e-6 * np.abs(array).max())


@pytest.mark.parametrize(
    ("name", "read"),
    [("convolution_and_batch_norm", 2), ("adapted", 1), ("norm_then_product", 1)],
)
def test_what_is_made_of_weights_is_made_when_the_model_is_opened(
    name: str, read: int, graph: EGraph, rng: np.random.Generator
) -> None:
    """A convolution reads a kernel and a bias, and nothing of its batch norm."""
    traced = PROGRAMS[name]()
    found = prepare(made_of(traced, graph, Numerics.DEFAULT).traced.entries)
    assert found.made is not None
    ((_, after),), ((_, before),) = found.entries, traced.entries
    assert len(after.weights()) == read
    weights, inputs = arrays(traced, rng), given(traced, rng)
    wanted = evaluate(before, inputs, weights)
    made = evaluate(after, inputs, {**weights, **evaluate(found.made, {}, weights)})
    for key, array in wanted.items():
        np.testing.assert_allclose(made[key], array, 2e-5, 2e-6 * np.abs(array).max())


# ---- bounds ----


def test_a_block_of_a_transformer_is_saturated_and_small(graph: EGraph) -> None:
    found = [graph.saturated(b, RULES) for b in ModelBlocks.of(transformer(1)).distinct]
    assert all(f.is_saturated for f in found)
    assert sum(f.size for f in found) < 400 < MOST


def test_layers_that_are_alike_are_the_same_blocks() -> None:
    two, five = (ModelBlocks.of(transformer(n)) for n in (2, 5))
    assert two.distinct == five.distinct
    assert len(five.named[0]) > len(two.named[0])


def test_the_program_itself_is_in_its_e_graph_and_nothing_found_costs_more(graph: EGraph) -> None:
    prices = Prices.of(CPU.machine.storing.steps, once=False)
    for program in PROGRAMS.values():
        for b in ModelBlocks.of(program()).distinct:
            plain = extracted(as_it_is(b), b, prices)
            best = extracted(graph.saturated(b, RULES), b, prices)
            assert plain is not None
            assert best is not None
            assert best.cost <= plain.cost


def test_a_search_that_takes_too_long_is_ended() -> None:
    parts = ModelBlocks.of(PROGRAMS["low_rank"]())
    rules = rule_set(Numerics.DEFAULT, CPU.machine, f32)
    assert answers(parts.distinct, [rules, rules], 0.0) == [[None], [None]]
    assert rewritten(parts, [None]) is None


@pytest.mark.slow
def test_a_process_answers_as_this_one_does(graph: EGraph) -> None:
    parts = ModelBlocks.of(PROGRAMS["norm_then_product"]())
    each = [rule_set(n, CPU.machine, f32) for n in (Numerics.FAST, Numerics.STRICT)]
    here = [[answer(graph, b, v) for b in parts.distinct] for v in each]
    assert answers(parts.distinct, each, 300.0) == here  # whatever else the machine does


def test_numerics_bound_the_rules() -> None:
    strict, default, fast = (set(allowed(n)) for n in Numerics)
    assert strict < default < fast == set(RULES)
    assert list(bounded(Numerics.DEFAULT)) == [Numerics.DEFAULT, Numerics.STRICT]
    assert not rule_set(Numerics.FAST, CPU.machine, bf16).prices.once


# ---- in a compilation ----


@pytest.fixture
def here(graph: EGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same answers without a process of their own, which takes a while to begin."""

    def answered(
        blocks: Sequence[Block], each: Sequence[RuleSet], _seconds: float
    ) -> list[list[Answer]]:
        return [[answer(graph, b, v) for b in blocks] for v in each]

    monkeypatch.setattr(equal, "answers", answered)


def emitted(traced: lg.Traced, place: Path, **asked: Any) -> tuple[Summary, list[str], str]:
    """The summary, what was said, and the file of schedules, of a project that is not built."""
    stages = Stages()
    summary = compile_project(traced, directory=place, build=False, stages=stages, **asked)
    file = place / SCHEDULES
    return summary, stages.said, file.read_text(encoding="utf-8") if file.is_file() else ""


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_fast_numerics_take_the_estimate_and_a_file_of_schedules_repeats_it(tmp_path: Path) -> None:
    traced = PROGRAMS["adapted"]()
    plain, said, file = emitted(traced, tmp_path / "plain")
    assert not said
    assert not file
    fast, said, text = emitted(traced, tmp_path / "fast", numerics="fast")
    assert any("products_of_one_operand in 1 block" in s for s in said)
    assert book_of(text, "a text") == Book({}, algebra="fast")
    assert fast.entries[0].launches < plain.entries[0].launches
    again, _, same = emitted(traced, tmp_path / "again", schedules=tmp_path / "fast" / SCHEDULES)
    assert same == text
    sources = (tmp_path / "fast" / "src").rglob("*.cpp")
    files = [p for p in sources if "manifest" not in p.name]  # which has the options
    assert files
    for file in files:
        other = tmp_path / "again" / file.relative_to(tmp_path / "fast")
        assert file.read_bytes() == other.read_bytes()
    assert again.kernels == fast.kernels


@pytest.mark.slow
def test_without_egglog_a_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked, "is_here", lambda: False)
    _, said, file = emitted(PROGRAMS["adapted"](), tmp_path, numerics="fast")
    assert said == [equal.LACKING]
    assert not file


@pytest.mark.usefixtures("here")
def test_a_search_takes_the_program_that_is_faster_and_remembers_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LUMIGEN_CACHE", str(tmp_path))
    given, terms = equal.Equal(PROGRAMS["low_rank"]()), Terms(10.0, 1)
    measured = measuring_of(HOST)
    assert measured is not None

    def choose(*seconds: tuple[float, ...]) -> str:
        monkeypatch.setattr(equal, "_measured", lambda *_: list(seconds))
        return equal.chosen(given, HOST, measured, f32, Numerics.DEFAULT, terms).algebra

    assert choose((1.0, 2.0), (0.99, 1.99)) == "", "less is noise"
    database().unlink()
    assert choose((1.0, 2.0), ()) == "", "it did not run"
    database().unlink()
    assert choose((1.0, 2.0), (0.5, 1.0)) == "default"
    assert choose((1.0, 2.0), (3.0, 3.0)) == "default", "as it was found before"
