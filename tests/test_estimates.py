"""Quotients that end in 16 bits are estimates on a GPU, unless something jumps where they are a little less."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
import pytest
from tiles import run_entry, traced

import lumigen as lg
from lumigen.dtype import DType, bf16, f16, f32
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.lower.devices import Device
from lumigen.ops import Op
from lumigen.region import Expr, Intrinsic, Prim, walk
from lumigen.targets.cpu.device import CPU
from lumigen.targets.cuda.device import CUDA

ESTIMATES = {"near_quotient", "near_recip", "near_exp2"}
Two = Callable[[lg.Tensor, lg.Tensor], lg.Tensor]
# name: the function, the estimates in its kernels, and whether there is a quotient or a reciprocal beside them
CASES: dict[str, tuple[Two, set[str], bool]] = {
    "a quotient": (lambda x, y: x / y, {"near_quotient"}, False),
    "a reciprocal": (lambda x, _: x.sigmoid(), {"near_recip", "near_exp2"}, False),
    "one by a constant is a product": (lambda x, y: x / 6 + y, set(), False),
    "by what has no reciprocal": (lambda x, y: x / 1e-40 + y, {"near_quotient"}, False),
    "a power": (lambda x, y: (x.exp() + y).exp2(), {"near_exp2"}, False),
    "a power that is compared": (lambda x, y: lg.where(x.exp() < 1, x, y), set(), False),
    "the greater of two": (lambda x, y: lg.maximum(x / y, y), {"near_quotient"}, False),
    "a sum of quotients": (lambda x, y: (x / y).sum(-1), {"near_quotient"}, False),
    "a softmax": (lambda x, _: x.softmax(-1), {"near_recip", "near_exp2"}, False),
    "a product and a gate": (lambda x, y: (x @ y.T).sigmoid(), {"near_recip", "near_exp2"}, False),
    "a whole part": (lambda x, y: (x / y).floor(), set(), True),
    "a remainder": (lambda x, y: (x / y) % 1, set(), True),
    "a comparison": (lambda x, y: lg.where(x / y < 1, x, y), set(), True),
    "a comparison of a sum": (lambda x, y: lg.where((x / y).sum(0) < 1, x, y), set(), True),
    "a hyperbolic tangent of one": (
        lambda x, y: (x / y).tanh(), {"near_quotient", "near_exp2"}, False,
    ),
    "an exponential unit of one": (
        lambda x, y: lg.functional.elu(x / y), {"near_quotient", "near_exp2"}, False,
    ),
    "a leaky one": (
        lambda x, y: lg.functional.leaky_relu(x / y), {"near_quotient"}, False,
    ),
    "a logarithm of a sum": (lambda x, y: (x / y).log1p(), {"near_quotient"}, True),
    "a logarithm of a difference": (lambda x, y: (1 - x / y).abs().log(), set(), True),
    "a root of a difference": (
        lambda x, y: (lambda z: (1 - z * z).abs().sqrt())(x / y), set(), True,
    ),
    "a root of a quotient": (lambda x, y: (x / y).abs().sqrt(), {"near_quotient"}, False),
    "a norm of what is divided": (
        lambda x, y: (lambda z: z * ((z * z).mean(-1, keepdim=True) + 1e-5).rsqrt())(
            x * (2 * y).sigmoid()
        ),
        {"near_quotient", "near_recip", "near_exp2"}, False,
    ),
    "a line that jumps": (
        lambda x, y: (lambda z: lg.where(z < 1, z, z + 1))(x / y), set(), True,
    ),
    "a line that is chosen by another": (
        lambda x, y: (lambda z: lg.where(x < 1, z, 2 * z))(x / y), {"near_quotient"}, False,
    ),
    "a count of truths that are chosen by a power": (
        lambda x, y: (
            lambda z: lg.where(z.exp2() < 1, (z < 1).float() + (z < 2).float(), 1).to(x.dtype)
        )(x / y), set(), True,
    ),
    "a step that is small before it is great": (
        lambda x, y: (
            lambda z: (lg.where(z < 1, 1e-31, 0.0) * z.exp() * 1e31).to(x.dtype)
        )(x.float() / y.float()), {"near_exp2"}, True,
    ),
    "an integer": (lambda x, y: (x / y).to(lg.i32).to(x.dtype), set(), True),
    "one of each kind": (
        lambda x, y: (x / y).floor() + y / (x + 2), {"near_quotient"}, True,
    ),
    "one that is compared and used": (
        lambda x, y: lg.where(x / y < 1, x / y, y), set(), True,
    ),
    "one that is named, compared and used": (
        lambda x, y: lg.where((x / y).exp() < 1, (x / y) * (x / y), y), set(), True,
    ),
    "an output of more bits": (lambda x, y: x.float() / y.float(), set(), True),
}  # fmt: skip


def lowered(function: Two, dtype: DType, device: Device) -> LoweredModel:
    spec = lg.spec(64, 64, dtype=dtype)
    graph = traced(lambda x, y: {"out": function(x, y)}, x=spec, y=spec)
    return assemble([("entry", reduce(lambda g, step: step(g), GRAPH_PASSES, graph))], device)


def values_of(model: LoweredModel) -> list[Expr]:
    found = [s for k in model.kernels for s in k.program.statements()]
    each = [v for s in found for v in vars(s).values()]
    pairs = [e for v in each if isinstance(v, tuple) for p in v if isinstance(p, tuple) for e in p]
    return walk(e for e in (*each, *pairs) if isinstance(e, Expr))


def estimates_of(model: LoweredModel) -> set[str]:
    return {e.name for e in values_of(model) if isinstance(e, Intrinsic)} & ESTIMATES


def is_rounded(model: LoweredModel) -> bool:
    return any(isinstance(e, Prim) and e.op is Op.RECIP for e in values_of(model))


@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_only_what_is_rounded_to_16_bits_is_an_estimate(name: str, dtype: DType) -> None:
    function, wanted, rounded = CASES[name]
    model = lowered(function, dtype, CUDA)
    assert (estimates_of(model), is_rounded(model)) == (wanted, rounded)
    rng = np.random.default_rng(0)
    inputs = {n: rng.standard_normal((64, 64)).astype(dtype.numpy) for n in "xy"}
    right = run_entry(lowered(function, dtype, CPU), inputs, {})["out"].astype(np.float64)
    found = run_entry(model, inputs, {})["out"].astype(np.float64)
    np.testing.assert_allclose(found, right, rtol=2**-7 if dtype is bf16 else 2**-9, atol=1e-3)


def test_poles_on_both_sides_of_a_choice_are_no_warning() -> None:
    assert estimates_of(lowered(lambda x, y: (x / y).digamma(), f16, CUDA))


@pytest.mark.parametrize("name", CASES)
def test_neither_f32_nor_a_processor_has_any(name: str) -> None:
    function = CASES[name][0]
    assert not estimates_of(lowered(function, f32, CUDA))
    assert not estimates_of(lowered(function, f16, CPU))
