"""PyTorch's own samples of each of its ops (OpInfo), run through our frontend and the interpreter.

An entry of torch's list is an op or a variant of one. A sample is its operands; torch says what the
result is. Tensors of a sample become inputs of an entry; those without elements, which no input of a
model is, are made inside it. Where tensors live and how they lie in memory (device, layout,
memory_format, requires_grad) is no matter of a model, so these arguments are dropped.
"""

from __future__ import annotations

import functools
import itertools
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import torch

import lumigen as lg
from lumigen.dtype import of_numpy
from lumigen.frontend import Tensor
from lumigen.frontend.model import Entry, trace_entry
from lumigen.frontend.spec import spec
from lumigen.interp.graph import evaluate
from lumigen.verify.graph import verify

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.common_utils import SEED, set_rng_seed

DTYPES = {
    torch.float32: lg.f32,
    torch.float64: lg.f64,
    torch.float16: lg.f16,
    torch.bfloat16: lg.bf16,
    torch.int8: lg.i8,
    torch.uint8: lg.u8,
    torch.int32: lg.i32,
    torch.int64: lg.i64,
    torch.bool: lg.boolean,
}
# (relative, absolute): the interpreter computes in f64, so this is torch's own rounding in each
# dtype, over the some ten roundings that its kernels of sums and elementary functions have.
TOLERANCE = {
    torch.float64: (1e-7, 1e-7),
    torch.float32: (1e-5, 1e-5),
    torch.float16: (2e-3, 1e-3),
    torch.bfloat16: (1.6e-2, 1e-2),
}
# (which result has the places of elements along a dimension, which argument names it): of equal elements torch
# takes any, so what lies there is compared; where a stable order is asked for, the places themselves are.
PLACES = {
    "argsort": (0, 1),
    "kthvalue": (1, 2),
    "median": (1, 1),
    "mode": (1, 1),
    "nanmedian": (1, 1),
    "sort": (1, 1),
    "topk": (1, 2),
}
ELSEWHERE = ("device", "layout", "memory_format", "pin_memory", "requires_grad")


@dataclass(frozen=True)
class Sample:
    """The operands of one call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def name_of(op: Any) -> str:
    """The entry's name: the op, with the variant behind a bar."""
    name = op.name.removeprefix("torch.ops.aten.").removesuffix(".default")
    return f"{name}|{op.variant_test_name}" if op.variant_test_name else name


def by_name() -> dict[str, Any]:
    """Torch's entries; of two that share a name the first."""
    found: dict[str, Any] = {}
    for op in op_db:
        found.setdefault(name_of(op), op)
    return found


OPS = by_name()


def seeded(made: Iterable[Any]) -> Iterator[Any]:
    """Each item drawn from the same seed.

    `sample_inputs` of an op does so, and looks through the stack of calls, line by line, for a test of torch's: that
    took most of the time of a test here.
    """
    items = iter(made)
    while True:
        set_rng_seed(SEED)
        try:
            yield next(items)
        except StopIteration:
            return


def samples(op: Any, dtype: torch.dtype) -> Iterator[Sample]:
    """Torch's samples in one dtype, less those that hold a dtype which we do not have."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for s in seeded(op.sample_inputs_func(op, "cpu", dtype, requires_grad=False)):
            found = Sample((s.input, *s.args), dict(s.kwargs))
            if all(d in DTYPES for d in dtypes_in((found.args, found.kwargs))):
                yield found


def leaves(x: Any) -> Iterator[Any]:
    if isinstance(x, dict):
        x = list(x.values())
    if isinstance(x, tuple | list):
        for y in x:
            yield from leaves(y)
    elif x is not None:
        yield x


def dtypes_in(x: Any) -> Iterator[torch.dtype]:
    for leaf in leaves(x):
        if isinstance(leaf, torch.Tensor):
            yield leaf.dtype
        elif isinstance(leaf, torch.dtype):
            yield leaf
        elif isinstance(leaf, complex):
            yield torch.complex64


def array_of(t: torch.Tensor) -> np.ndarray:
    t = t.detach().resolve_conj().resolve_neg().contiguous()
    if t.dtype is torch.bfloat16:
        return t.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return t.numpy()


def ported(x: Any, inputs: Iterator[Tensor]) -> Any:
    """An operand as we take it; tensors are the inputs, in order."""
    match x:
        case torch.Tensor():
            return next(inputs) if x.numel() else lg.full(tuple(x.shape), 0, DTYPES[x.dtype])
        case torch.dtype():
            return DTYPES[x]
        case torch.Size():
            return tuple(x)
        case torch.nn.PairwiseDistance():
            return lg.functional.pairwise_distance
        case types.BuiltinFunctionType() | types.FunctionType():
            return getattr(lg.functional, x.__name__)
        case dict():
            return {k: ported(v, inputs) for k, v in x.items()}
        case tuple() if hasattr(x, "_fields"):
            return type(x)(*(ported(v, inputs) for v in x))
        case tuple() | list():
            return type(x)(ported(v, inputs) for v in x)
        case _:
            return x


def ours(call: Callable[..., Any], sample: Sample) -> list[np.ndarray]:
    """What our frontend and the interpreter make of a sample: its results in order."""
    inputs = {
        f"x{i}": array_of(x)
        for i, x in enumerate(
            x
            for x in leaves((sample.args, sample.kwargs))
            if isinstance(x, torch.Tensor) and x.numel()
        )
    }
    specs = ((n, spec(*a.shape, dtype=of_numpy(a.dtype))) for n, a in inputs.items())

    def entry(**given: Any) -> dict[str, Any]:
        args, kwargs = ported((sample.args, sample.kwargs), iter(given.values()))
        out = call(*args, **{k: v for k, v in kwargs.items() if k not in ELSEWHERE})
        flat = [t if isinstance(t, Tensor) else lg.full((), t) for t in leaves(out)]
        return {f"out{i}": t for i, t in enumerate(flat)} or {"out": lg.zeros(1)}

    graph = verify(trace_entry(Entry("entry", entry, tuple(specs))))
    found = evaluate(graph, inputs, {})
    return list(found.values())


def expected(op: Any, sample: Sample) -> list[torch.Tensor]:
    """What torch makes of a sample."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = op(*sample.args, **sample.kwargs)
    return [x if isinstance(x, torch.Tensor) else torch.tensor(x) for x in leaves(out)]


def check(op: Any, call: Callable[..., Any], sample: Sample, *, drawn: bool = False) -> None:
    """Same shapes and dtypes; integers exactly, floats within TOLERANCE, NaN where NaN is, unless they are drawn."""
    compare(op, sample, ours(call, sample), drawn=drawn)


def compare(op: Any, sample: Sample, got: list[np.ndarray], *, drawn: bool = False) -> None:
    """Likewise of results that are there already."""
    want = expected(op, sample)
    if drawn:
        got = [x * 0 for x in got]
        want = [x * 0 for x in want]
    if op.name in PLACES and not sample.kwargs.get("stable"):
        got, want = (picked(op.name, sample, results) for results in (got, want))
    try:
        agree(got, want)
    except AssertionError:
        exact = in_f64(op, sample, want)
        if exact is None:
            raise
        agree(got, exact)


def picked(name: str, sample: Sample, results: Sequence[Any]) -> list[Any]:
    """The results, with what lies at places instead of the places."""
    which, argument = PLACES[name]
    out = list(results)
    if which >= len(out):  # of all elements there are none
        return out
    x, *others = sample.args
    dim = others[argument - 1] if len(others) >= argument else sample.kwargs.get("dim", -1)
    places = torch.as_tensor(out[which])
    inside = places if places.ndim == x.ndim else places.unsqueeze(dim)
    lies = x.take_along_dim(inside, dim).reshape(places.shape) if x.ndim else x
    out[which] = lies if isinstance(out[which], torch.Tensor) else array_of(lies)
    return out


def in_f64(op: Any, sample: Sample, like: list[torch.Tensor]) -> list[torch.Tensor] | None:
    """What torch makes of a sample of f32 or less in f64, rounded: the truth where its own rounding is great."""
    if not any(d.is_floating_point for d in dtypes_in((sample.args, sample.kwargs))):
        return None

    def wide(x: Any) -> Any:
        match x:
            case torch.Tensor():
                return x.double() if x.is_floating_point() else x
            case torch.dtype():
                return torch.float64 if x.is_floating_point else x
            case dict():
                return {k: wide(v) for k, v in x.items()}
            case torch.Size():
                return x
            case tuple() if hasattr(x, "_fields"):
                return type(x)(*map(wide, x))
            case tuple() | list():
                return type(x)(wide(v) for v in x)
            case _:
                return x

    try:
        found = expected(op, Sample(wide(sample.args), wide(sample.kwargs)))
    except (RuntimeError, TypeError, NotImplementedError):
        return None  # not in f64
    return [x.to(y.dtype) for x, y in zip(found, like, strict=True)]


def agree(got: list[np.ndarray], want: list[torch.Tensor]) -> None:
    assert len(got) == len(want) or not want, f"{len(got)} results, not {len(want)}"
    for found, wanted in zip(got, want, strict=False):
        assert found.shape == tuple(wanted.shape), f"shape {found.shape}, not {tuple(wanted.shape)}"
        array = array_of(wanted)
        assert found.dtype == array.dtype, f"{found.dtype}, not {array.dtype}"
        if wanted.dtype not in TOLERANCE:
            np.testing.assert_array_equal(found, array)
            continue
        relative, absolute = TOLERANCE[wanted.dtype]
        np.testing.assert_allclose(
            found.astype(np.float64), array.astype(np.float64), relative, absolute, equal_nan=True
        )


# --- what an entry is here ------------------------------------------------------------------------


REFUSED = frozenset({"item"})  # methods that only say what to do instead


def called(name: str, calls: dict[str, Callable[..., Any]]) -> Callable[..., Any] | None:
    """How our frontend is called for an entry: a row of the table, or what has its name."""
    if name in calls:
        return calls[name]
    op = name.partition("|")[0]
    if op in calls:
        return calls[op]
    if op in REFUSED:
        return None
    path = op.removeprefix("nn.").split(".")
    try:
        found = functools.reduce(getattr, path, lg)
    except AttributeError:
        found = None
    if len(path) == 1 and not (
        callable(found) and op in lg.__all__
    ):  # a method; dtypes have names of some
        found = getattr(Tensor, op, None)
    return found if callable(found) else None


def dtypes_of(op: Any, wanted: Sequence[torch.dtype]) -> list[torch.dtype]:
    """In which of these dtypes torch has the op on CPUs."""
    return [d for d in wanted if d in op.dtypes]


def few(op: Any, dtype: torch.dtype, count: int) -> list[Sample]:
    return list(itertools.islice(samples(op, dtype), count))
