"""The folds of `separate`, derived once more in an e-graph: from split ranges, factors that move and inverses alone.

A reduction over a range is a term. It is split into what was seen and a tile, U = A + B, and a state over U has to be
equal to what a loop can compute from states over A and the tile. No rule knows an exponential beside a sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from exprs import add, axis, div, exp2, largest, load, log, mul, sub, total

from lumigen.algebra.egraph import is_here
from lumigen.dtype import f32
from lumigen.lower.separate import NotSeparable, separate
from lumigen.ops import Op
from lumigen.plan import LoopFold
from lumigen.region import prim

pytestmark = pytest.mark.skipif(
    not is_here(), reason="egglog is not installed (the extra `search`)"
)

ROUNDS, MOST = 8, 8000
UNARY, BINARY = ("Exp2", "Log2", "Sin", "Recip"), ("Add", "Mul", "Max2")
DECLARED = """
(datatype Range (A) (B) (U))
(datatype E (Load String) (C f64) (Add E E) (Mul E E) (Max2 E E)
  (Exp2 E) (Log2 E) (Sin E) (Recip E) (Sum Range E) (Mx Range E))
(relation Indep (E))   ; the same at all points of the axis
(relation Known (E))   ; of states over A alone
(relation State (E E)) ; over A, over U
(relation Le (E E)) (relation NonPos (E)) (relation Safe (E))
(ruleset facts) (ruleset move) (ruleset split) (ruleset solve)
"""
RULES = """
(rule ((= m (Mx (U) x))) ((Le x m)) :ruleset facts)
(rule ((= m (Mx (U) x)) (= n (Mx (A) x))) ((Le n m)) :ruleset facts)
(rule ((= m (Max2 x y))) ((Le x m) (Le y m)) :ruleset facts)
(rule ((= e (Add x (Mul (C -1.0) y))) (Le x y)) ((NonPos e)) :ruleset facts)
(rule ((= e (C v))) ((Indep e) (Known e)) :ruleset facts)
(rule ((= e (Sum r x))) ((Indep e)) :ruleset facts)
(rule ((= e (Mx r x))) ((Indep e)) :ruleset facts)
(rule ((State a u)) ((Known a)) :ruleset facts)
(rewrite (Add a b) (Add b a) :ruleset move)
(rewrite (Mul a b) (Mul b a) :ruleset move)
(rewrite (Add (Add a b) c) (Add a (Add b c)) :ruleset move)
(rewrite (Mul (Mul a b) c) (Mul a (Mul b c)) :ruleset move)
(rewrite (Mul (C x) (C y)) (C (* x y)) :ruleset move)
(rewrite (Mul a (C 1.0)) a :ruleset move)
(rewrite (Exp2 (Add a b)) (Mul (Exp2 a) (Exp2 b)) :ruleset move)
(rewrite (Mul (Exp2 a) (Exp2 b)) (Exp2 (Add a b)) :ruleset move)
(rule ((= e (Sum r (Mul a b))) (Indep a)) ((union e (Mul a (Sum r b)))) :ruleset move)
(rewrite (Sum (U) x) (Add (Sum (A) x) (Sum (B) x)) :ruleset split)
(rewrite (Mx (U) x) (Max2 (Mx (A) x) (Mx (B) x)) :ruleset split)
(rule ((= s (Sum (A) x)) (Known s) (= s (Mul (Exp2 a) w)) (Known a))
  ((union w (Mul s (Exp2 (Mul (C -1.0) a))))) :ruleset solve)
"""
ROUND = "(run-schedule (saturate (run facts)) (run move) (saturate (run facts)) (run split) (run solve))"


@dataclass(frozen=True)
class Program:
    """Texts of terms over a range, `{R}`: states in order, each of which may name those before as {0}, {1}."""

    states: tuple[str, ...]
    safe: tuple[str, ...]  # exponents of the source


def fact_rules() -> Iterator[str]:
    for fact in ("Indep", "Known"):
        for op in UNARY:
            yield f"(rule ((= e ({op} x)) ({fact} x)) (({fact} e)) :ruleset facts)"
        for op in BINARY:
            yield f"(rule ((= e ({op} x y)) ({fact} x) ({fact} y)) (({fact} e)) :ruleset facts)"


def derived(program: Program, *, until: str) -> bool:
    """Whether the e-graph comes to hold what the query says, of the states $A0, $U0 and so on."""
    from egglog import bindings

    graph = bindings.EGraph()

    def run(text: str) -> list[object]:
        return graph.run_program(*graph.parse_program(text))

    out = [DECLARED, RULES, *fact_rules()]
    for r in ("A", "U"):
        names = [f"${r}{i}" for i in range(len(program.states))]
        for name, text in zip(names, program.states, strict=True):
            out.append(f"(let {name} {text.format(*names, R=f'({r})')})")
        out += [f"(Safe {s.format(*names, R=f'({r})')})" for s in program.safe if r == "U"]
    out += [f"(State $A{i} $U{i})" for i in range(len(program.states))]
    run("\n".join(out))
    for _ in range(ROUNDS):
        run(ROUND)
        try:
            run(f"(check {until})")
        except bindings.EggSmolError:
            (sizes,) = run("(print-size)")
            if sum(n for _, n in sizes.sizes) > MOST:  # type: ignore[attr-defined]
                return False
        else:
            return True
    return False


S, V = '(Load "S")', '(Load "V")'
MAXIMUM, EXPONENT = f"(Mx {{R}} {S})", f"(Add {S} (Mul (C -1.0) {{0}}))"
TOTAL, WEIGHTED = f"(Sum {{R}} (Exp2 {EXPONENT}))", f"(Sum {{R}} (Mul (Exp2 {EXPONENT}) {V}))"
RESCALED = """(= $U{0} (Add (Mul $A{0} c) (Sum (B) p{0})))"""
ONE_LOOP = "(= c (Exp2 ca)) (NonPos ca) (= p1 (Exp2 pa)) (Safe pa) " + RESCALED.format(1)

k, q, e = axis("k", 300), axis("q", 24), axis("e", 12)
s, v = load("S", q, k), load("V", k, e)
p = exp2(sub(s, largest(s, k)))


def test_a_sum_of_exponentials_below_their_maximum_is_one_loop() -> None:
    """Log-sum-exp: a state that is rescaled when the maximum grows, by no more than one."""
    assert derived(Program((MAXIMUM, TOTAL), (EXPONENT,)), until=ONE_LOOP)
    fold = separate((add(log(total(p, k)), largest(s, k)),), (k,))
    assert isinstance(fold, LoopFold)
    assert len(fold.carries) == 2


def test_an_attention_is_one_loop_with_one_factor_for_both_sums() -> None:
    both = f"{ONE_LOOP} (= p2 (Mul p1 {V})) {RESCALED.format(2)}"
    assert derived(Program((MAXIMUM, TOTAL, WEIGHTED), (EXPONENT,)), until=both)
    fold = separate((total(mul(div(p, total(p, k)), v), k),), (k,))
    assert isinstance(fold, LoopFold)
    assert len(fold.carries) == 3


def test_neither_finds_a_loop_where_there_is_none() -> None:
    sine = f"(Sum {{R}} (Sin {EXPONENT}))"
    none = Program((MAXIMUM, sine), (EXPONENT,))
    assert not derived(none, until="(= $U1 (Add (Mul $A1 c) (Sum (B) x))) (Known c)")
    other = prim(Op.SIN, (sub(s, largest(s, k)),), f32)
    assert isinstance(separate((total(other, k),), (k,)), NotSeparable)
