"""The rules of the algebra, as values. Each makes one program of another that is equal to it.

Patterns are terms (`terms.TermKind`) over names: `(Sum s (Mul a b))`. A pattern is looked for with the operands of its
sums and products in either order. Directions are chosen so that saturation ends: no rule commutes
or reassociates at will. None names a layer or a model.
"""

from __future__ import annotations

from dataclasses import dataclass

from lumigen.algebra.numerics import Numerics

EXACT, REASSOCIATES, PRECISION = Numerics


@dataclass(frozen=True)
class Fact:
    """A condition on what names stand for."""

    kind: str
    of: tuple[str, ...]


def free_of(value: str, axes: str) -> Fact:
    """The value is the same at all points of the axes."""
    return Fact("free_of", (value, axes))


def varies(value: str, axes: str) -> Fact:
    """The value varies with some of the axes."""
    return Fact("varies", (value, axes))


def fixed(value: str) -> Fact:
    """The value is made of weights and constants alone."""
    return Fact("fixed", (value,))


def given(value: str) -> Fact:
    """The value depends on what a run is given."""
    return Fact("given", (value,))


def positive(value: str) -> Fact:
    """The value is above zero, or NaN."""
    return Fact("positive", (value,))


def is_float(value: str) -> Fact:
    """The value is of floats."""
    return Fact("float", (value,))


def number(value: str) -> Fact:
    """The value is a constant."""
    return Fact("number", (value,))


def whole(move: str) -> Fact:
    """All that the move gives is of its operand."""
    return Fact("whole", (move,))


def reduced(axes: str) -> Fact:
    """Some sum of the block is over these axes."""
    return Fact("reduced", (axes,))


@dataclass(frozen=True)
class AlgebraRule:
    """What `find` matches, `when` the facts hold, is equal to `put`."""

    name: str
    numerics: Numerics
    find: str
    put: str
    when: tuple[Fact, ...] = ()


def _rule(name: str, numerics: Numerics, find: str, put: str, *when: Fact) -> AlgebraRule:
    return AlgebraRule(name, numerics, find, put, when)


RULES = (
    # Factors and sums. Norms' scales leave a product, A B of a low rank changes sides.
    _rule(
        "factor_leaves_sum",
        REASSOCIATES,
        "(Sum s (Mul a b))",
        "(Mul (Sum s a) b)",
        free_of("b", "s"),
        varies("a", "s"),
        is_float("a"),
    ),
    _rule(
        "factor_enters_sum",
        REASSOCIATES,
        "(Mul (Sum s a) f)",
        "(Sum s (Mul a f))",
        free_of("f", "s"),
        fixed("f"),
        is_float("f"),
    ),
    _rule(
        "operand_enters_sum",
        REASSOCIATES,
        "(Sum t (Mul (Sum s a) b))",
        "(Sum t (Sum s (Mul a b)))",
        free_of("b", "s"),
        varies("a", "t"),
        varies("b", "t"),
        is_float("b"),
    ),
    _rule(
        "sums_change_places",
        REASSOCIATES,
        "(Sum s (Sum t a))",
        "(Sum t (Sum s a))",
        is_float("a"),
    ),
    _rule(
        "factor_moves_out",
        REASSOCIATES,
        "(Mul (Mul a b) c)",
        "(Mul (Mul a c) b)",
        reduced("s"),
        free_of("b", "s"),
        varies("a", "s"),
        varies("c", "s"),
        is_float("a"),
    ),
    # What is made of weights alone comes together, and is computed once.
    _rule(
        "weights_multiply",
        REASSOCIATES,
        "(Mul (Mul a f) g)",
        "(Mul a (Mul f g))",
        given("a"),
        fixed("f"),
        fixed("g"),
        is_float("a"),
    ),
    _rule(
        "weights_add",
        REASSOCIATES,
        "(Add (Add a f) g)",
        "(Add a (Add f g))",
        given("a"),
        fixed("f"),
        fixed("g"),
        is_float("a"),
    ),
    _rule(
        "factor_of_a_shifted_value",
        REASSOCIATES,
        "(Mul (Add a f) g)",
        "(Add (Mul a g) (Mul f g))",
        given("a"),
        fixed("f"),
        fixed("g"),
        is_float("a"),
    ),
    _rule(
        "shift_leaves_product",
        REASSOCIATES,
        "(Sum s (Add a f))",
        "(Add (Sum s a) (Sum s f))",
        given("a"),
        fixed("f"),
        is_float("a"),
    ),
    _rule(
        "products_of_one_operand",
        REASSOCIATES,
        "(Add (Sum s (Mul a f)) (Sum s (Mul a g)))",
        "(Sum s (Mul a (Add f g)))",
        given("a"),
        fixed("f"),
        fixed("g"),
        is_float("a"),
    ),
    # Exponentials and logarithms.
    _rule(
        "log_of_product",
        PRECISION,
        "(Map log2 (Mul a b))",
        "(Add (Map log2 a) (Map log2 b))",
        positive("a"),
        positive("b"),
    ),
    _rule("log_of_exp", PRECISION, "(Map log2 (Map exp2 a))", "a"),
    _rule("exp_of_log", PRECISION, "(Map exp2 (Map log2 a))", "a", positive("a")),
    _rule(
        "log_of_reciprocal",
        PRECISION,
        "(Map log2 (Map recip a))",
        "(Mul (Map log2 a) -1)",
        positive("a"),
    ),
    _rule("reciprocal_of_exp", PRECISION, "(Map recip (Map exp2 a))", "(Map exp2 (Mul a -1))"),
    _rule(
        "product_of_exps",
        PRECISION,
        "(Mul (Map exp2 a) (Map exp2 b))",
        "(Map exp2 (Add a b))",
    ),
    # Rounding keeps the order of numbers, so the maximum of what is scaled is the maximum, scaled.
    _rule(
        "scale_leaves_maximum",
        EXACT,
        "(Max s (Mul a c))",
        "(Mul (Max s a) c)",
        number("c"),
        positive("c"),
    ),
    # What is done to each element may be done before it is moved, or after.
    _rule("map_before_move", EXACT, "(Map f (Move v a))", "(Move v (Map f a))", whole("v")),
    _rule("map_after_move", EXACT, "(Move v (Map f a))", "(Map f (Move v a))", whole("v")),
    _rule(
        "scale_before_move",
        EXACT,
        "(Mul (Move v a) c)",
        "(Move v (Mul a c))",
        whole("v"),
        number("c"),
    ),
    _rule(
        "shift_before_move",
        EXACT,
        "(Add (Move v a) c)",
        "(Move v (Add a c))",
        whole("v"),
        number("c"),
    ),
)
BY_NAME = {r.name: r for r in RULES}


def allowed(numerics: Numerics) -> tuple[AlgebraRule, ...]:
    """The rules that a user allows."""
    return tuple(r for r in RULES if numerics.allows(r.numerics))
