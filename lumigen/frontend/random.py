"""Random numbers from a seed that the user passes: the same on every target, and in every run with that seed.

A compiled model has no hidden state, so a `Generator` is made from a seed while the model is traced, as a rule
from an input. Bits are Philox 4x32-10 under the seed as key (Salmon et al. 2011); each draw is a stream of its own.
"""

# ruff: noqa: FBT002  # signatures are PyTorch's

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import overload

from lumigen.dtype import BY_NAME, DType, f32, f64, i64
from lumigen.errors import BadArgument, DtypeMismatch
from lumigen.frontend import primitive
from lumigen.frontend.extents import check_count, check_extents
from lumigen.frontend.offered import namespace
from lumigen.frontend.operand import Value, drawn, is_tensor, one_sequence, where
from lumigen.frontend.primitive import Extent
from lumigen.frontend.tensor import Tensor
from lumigen.frontend.trace import emit, fail
from lumigen.graph import RandomStream, node
from lumigen.index import ix
from lumigen.ops import Op
from lumigen.view import Shape

# the others are functions of `lg`
__all__ = ["cauchy", "exponential", "geometric", "log_normal", "uniform"]

DIGITS = {BY_NAME["f64"]: 53, BY_NAME["f32"]: 24, BY_NAME["f16"]: 11, BY_NAME["bf16"]: 8}
HALF = 2**32


class Generator:
    """A source of random numbers for one entry, made from a seed: a 0-d tensor of i64, such as an input, or a number.

    With `generator=` draws take their numbers from it, each draw other ones, in the order in which they are traced.
    Two generators of one seed draw the same numbers; a run with another seed draws others.
    """

    def __init__(self, seed: Tensor | int) -> None:
        key = Tensor(primitive.constant(seed, i64)) if isinstance(seed, int) else seed
        if key.dtype is not i64 or key.ndim:
            raise fail(
                DtypeMismatch,
                op="Generator",
                name="the seed",
                got=key,
                expected="one i64",
                remedy="Declare it as lg.spec(dtype=lg.i64).",
            )
        self._key = key
        self._draws = 0

    def bits(self, size: Sequence[Extent]) -> Tensor:
        """64 random bits for each element of a shape, as i64. The next draw has others."""
        shape: Shape = tuple(map(ix, size))
        check_extents("bits", shape)
        site = RandomStream(self._draws)
        self._draws += 1
        return Tensor(emit(node(Op.RANDOM, (self._key.edge,), site, shape, i64)))


def _uniform(g: Generator, size: Sequence[Extent], dtype: DType) -> Tensor:
    """In [0, 1): as many bits as the dtype has digits."""
    if not dtype.is_float:
        raise fail(
            DtypeMismatch,
            op="rand",
            name="dtype",
            got=dtype,
            expected="floats",
            remedy="Of integers take lg.randint.",
        )
    count = 2.0 ** DIGITS[dtype]
    wide = f64 if dtype is f64 else f32
    return _in((g.bits(size) % int(count)).to(wide) * (1 / count), dtype)


def _normal(g: Generator, size: Sequence[Extent], dtype: DType) -> Tensor:
    """sqrt(-2 ln u) cos(2 pi v) (Box and Muller 1958), u and v from one half of the bits each."""
    wide = f64 if dtype is f64 else f32
    bits = g.bits(size)
    low = bits % HALF
    u = (low.to(wide) + 0.5) * (1 / HALF)  # above 0
    v = (bits - low).to(wide) * (1 / HALF**2)  # -1/2 .. 1/2
    return _in((u.log() * -2).sqrt() * (v * (2 * math.pi)).cos(), dtype)


def _in(drawn: Tensor, dtype: DType) -> Tensor:
    """In a dtype. A copy in the same one would say that the user asked for it, in a model held in 16 bits too."""
    return drawn if drawn.dtype is dtype else drawn.to(dtype)


# --- shapes ---------------------------------------------------------------------------------------


def rand(
    *size: Extent | Sequence[Extent], generator: Generator | None = None, dtype: DType = f32
) -> Tensor:
    """Uniform numbers in [0, 1)."""
    return _uniform(drawn("rand", generator), one_sequence(size), dtype)


def randn(
    *size: Extent | Sequence[Extent], generator: Generator | None = None, dtype: DType = f32
) -> Tensor:
    """Normal numbers of mean 0 and deviation 1."""
    if not dtype.is_float:
        raise fail(
            DtypeMismatch,
            op="randn",
            name="dtype",
            got=dtype,
            expected="floats",
            remedy="Of integers take lg.randint.",
        )
    return _normal(drawn("randn", generator), one_sequence(size), dtype)


@overload
def randint(
    low: int, high: Sequence[Extent], /, *, generator: Generator | None = None, dtype: DType = i64
) -> Tensor: ...
@overload
def randint(
    low: int,
    high: int,
    size: Sequence[Extent],
    *,
    generator: Generator | None = None,
    dtype: DType = i64,
) -> Tensor: ...
def randint(
    low: int,
    high: int | Sequence[Extent],
    size: Sequence[Extent] | None = None,
    *,
    generator: Generator | None = None,
    dtype: DType = i64,
) -> Tensor:
    """Integers from `low` (0 if it is left out) up to `high` - 1, evenly to 2^-64 of their number."""
    if size is None or not isinstance(high, int):
        assert not isinstance(high, int)
        low, high, size = 0, low, high
    if high <= low:
        expected = f"more than low, {low}"
        raise fail(BadArgument, op="randint", name="high", value=high, expected=expected)
    return (drawn("randint", generator).bits(size) % (high - low) + low).to(dtype)


def randperm(n: Extent, *, generator: Generator | None = None, dtype: DType = i64) -> Tensor:
    """0 .. n - 1 in random order."""
    return drawn("randperm", generator).bits((n,)).argsort(-1).to(dtype)


def rand_like(
    input: Tensor, *, generator: Generator | None = None, dtype: DType | None = None
) -> Tensor:
    """Uniform numbers in [0, 1) in the shape of another tensor, in its dtype if none is given."""
    return rand(input.extents, generator=generator, dtype=dtype or input.dtype)


def randn_like(
    input: Tensor, *, generator: Generator | None = None, dtype: DType | None = None
) -> Tensor:
    """Normal numbers in the shape of another tensor, in its dtype if none is given."""
    return randn(input.extents, generator=generator, dtype=dtype or input.dtype)


def randint_like(
    input: Tensor,
    low: int,
    high: int | None = None,
    *,
    generator: Generator | None = None,
    dtype: DType | None = None,
) -> Tensor:
    """Integers from `low` up to `high` - 1, or from 0 up to `low` - 1, in the shape of another tensor."""
    first, end = (0, low) if high is None else (low, high)
    wanted = dtype or input.dtype
    return randint(first, end, input.extents, generator=generator, dtype=wanted)


# --- distributions --------------------------------------------------------------------------------


def _positive(g: Generator, size: Sequence[Extent], dtype: DType) -> Tensor:
    """Uniform in (0, 1], whose logarithm is finite."""
    return 1 - _uniform(g, size, f64 if dtype is f64 else f32)


def bernoulli(
    input: Tensor, p: float | None = None, *, generator: Generator | None = None
) -> Tensor:
    """1 with the chance that each element says, or with chance `p`, else 0; in the dtype of the input."""
    g = drawn("bernoulli", generator)
    wide = f64 if input.dtype is f64 else f32
    chance: Value = input.to(wide) if p is None else p
    return (_uniform(g, input.extents, wide) < chance).type_as(input)


def normal(
    mean: Tensor | float,
    std: Tensor | float = 1.0,
    size: Sequence[Extent] | None = None,
    *,
    generator: Generator | None = None,
    dtype: DType | None = None,
) -> Tensor:
    """Normal numbers of a mean and a deviation, element by element; of two numbers in a shape."""
    g = drawn("normal", generator)
    if is_tensor(mean) or is_tensor(std):
        shaped = [x for x in (mean, std) if is_tensor(x)]
        like = shaped[0] if len(shaped) == 1 else shaped[0] + shaped[1]
        return _normal(g, like.extents, dtype or like.dtype) * std + mean
    return _normal(g, size or (), dtype or f32) * std + mean


def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Places of each row, drawn with chances in proportion to its weights, as i64 (.., num_samples).

    By a race of exponential waiting times (Efraimidis and Spirakis 2006): without replacement the first places of one
    race, with it the winners of a race for each sample.
    """
    check_count("multinomial", "num_samples", num_samples)
    g = drawn("multinomial", generator)
    *rest, n = input.extents
    weights = input if input.dtype is f64 else input.to(f32)
    if not replacement:
        waits = _positive(g, (*rest, n), weights.dtype).log() / weights
        return where(weights > 0, waits, -math.inf).topk(num_samples).indices
    each = weights.unsqueeze(-2)
    waits = _positive(g, (*rest, num_samples, n), weights.dtype).log() / each
    return where(each > 0, waits, -math.inf).argmax(-1)


def uniform(
    input: Tensor, from_: float = 0, to: float = 1, *, generator: Generator | None = None
) -> Tensor:
    """Uniform numbers in [from_, to) in the shape and dtype of the input: what PyTorch's `uniform_` leaves in it."""
    u = _uniform(drawn("uniform", generator), input.extents, input.dtype)
    return u * (to - from_) + from_


def exponential(input: Tensor, lambd: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Exponential numbers of rate `lambd` in the shape and dtype of the input: PyTorch's `exponential_`."""
    u = _positive(drawn("exponential", generator), input.extents, input.dtype)
    return (u.log() * (-1 / lambd)).type_as(input)


def geometric(input: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """How many trials of chance `p` it takes, in the shape and dtype of the input: PyTorch's `geometric_`."""
    u = _positive(drawn("geometric", generator), input.extents, input.dtype)
    return (u.log() * (1 / math.log1p(-p))).ceil().maximum(1).type_as(input)


def cauchy(
    input: Tensor, median: float = 0, sigma: float = 1, *, generator: Generator | None = None
) -> Tensor:
    """Numbers of a Cauchy distribution in the shape and dtype of the input: PyTorch's `cauchy_`."""
    wide = f64 if input.dtype is f64 else f32
    u = _uniform(drawn("cauchy", generator), input.extents, wide)
    return (((u - 0.5) * math.pi).tan() * sigma + median).type_as(input)


def log_normal(
    input: Tensor, mean: float = 1, std: float = 2, *, generator: Generator | None = None
) -> Tensor:
    """exp of normal numbers, in the shape and dtype of the input: PyTorch's `log_normal_`."""
    z = _normal(drawn("log_normal", generator), input.extents, input.dtype)
    return (z * std + mean).exp()


__getattr__, __dir__ = namespace(globals())
