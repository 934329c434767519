"""References of kernels: they mean what their regions mean, and kernels agree with them."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exprs import (
    INF,
    add,
    axis,
    below,
    div,
    exp,
    largest,
    load,
    mul,
    negated,
    num,
    position,
    scaled,
    sqrt,
    sub,
    total,
    where,
)

import lumigen as lg
from lumigen import fast_lane
from lumigen.condition import less
from lumigen.dtype import DType, bf16, boolean, f16, f32, f64, i8, i32, i64, u8
from lumigen.emit.reference import argument_sizes, reference_text
from lumigen.frontend import functional
from lumigen.frontend.model import Entry, trace_entry
from lumigen.frontend.spec import spec
from lumigen.index import Dim, ix, lookup
from lumigen.interp.region import evaluate
from lumigen.lower.assemble import LoweredKernel, LoweredModel, assemble
from lumigen.ops import Op
from lumigen.program import Launch, ValueArg
from lumigen.region import (
    Buffer,
    Expr,
    Region,
    Role,
    Store,
    choose,
    const,
    holds,
    prim,
    read,
)
from lumigen.resources import runtime_dir, templates_dir
from lumigen.targets.cpu.device import CPU
from lumigen.targets.cpu.speller import kernel_body
from lumigen.tile import TileProgram

B = Dim("batch", 1, 7)


def graph(function: Callable[..., Any], **inputs: Any) -> Any:
    return trace_entry(Entry("entry", function, tuple(inputs.items())))


PROGRAMS = {
    "softmax": graph(lambda x: functional.softmax(x, -1), x=spec(B, 37)),
    "layer_norm": graph(
        lambda x, w, b: functional.layer_norm(x, (12,), w, b),
        x=spec(B, 3, 12), w=spec(12), b=spec(12),
    ),
    "linear": graph(
        lambda x, w, b, r: functional.gelu(functional.linear(x, w, b)) + r,
        x=spec(B, 20), w=spec(33, 20), b=spec(33), r=spec(B, 33),
    ),
    "batched": graph(lambda x, y: x @ y, x=spec(B, 5, 8), y=spec(B, 8, 6)),
    "gather": graph(
        functional.embedding, input=spec(B, 4, dtype=i64, range=(0, 9)), weight=spec(10, 6)
    ),
    "gather_i32": graph(
        lambda i, w: functional.embedding(i, w) * 2,
        i=spec(B, 4, dtype=i32, range=(0, 9)), w=spec(10, 6),
    ),
    "conv2d": graph(
        lambda x, w, b: functional.relu(functional.conv2d(x, w, b, stride=2, padding=1)),
        x=spec(B, 3, 9, 7), w=spec(4, 3, 3, 3), b=spec(4),
    ),
    "max_pool": graph(
        lambda x: functional.max_pool2d(x, 3, stride=2, padding=1), x=spec(B, 2, 7, 9)
    ),
    "integer_sums": graph(
        lambda x: x.sum(1).to(lg.f32) * 0.5, x=spec(B, 9, 21, dtype=i32, range=(-9, 9))
    ),
    "float_as_bytes": graph(
        lambda x: {"u": (x * 1e3).to(lg.u8), "i": (x * 1e3).to(lg.i8) + 1}, x=spec(B, 9)
    ),
    "remainder_by_zero": graph(
        lambda x: x % (x + 1), x=spec(B, 9, 9, dtype=i32, range=(-3, 3))
    ),
    "bool_as_integer": graph(lambda x: x.to(lg.i32) % 7 + 1, x=spec(B, 5, dtype=boolean)),
    "attention": graph(
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True),
        q=spec(B, 2, 5, 4), k=spec(B, 2, 5, 4), v=spec(B, 2, 5, 4),
    ),
}  # fmt: skip


# ---- regions that models seldom have, each against the interpreter ----

I, J, K = axis("i0", 6), axis("i1", 5), axis("k0", 9)  # noqa: E741


def buffer(name: str, *extents: int, dtype: DType = f32, role: Role = Role.INPUT) -> Buffer:
    return Buffer(name, role, tuple(map(ix, extents)), dtype)


def out(*extents: int, dtype: DType = f32) -> Buffer:
    return buffer("out", *extents, dtype=dtype, role=Role.OUTPUT)


def stored(value: Expr, *axes: Any) -> Region:
    dst = out(*(a.extent.const for a in axes), dtype=value.dtype)
    return Region((Store(dst, axes, tuple(ix(a) for a in axes), value),))


def cast(e: Expr, dtype: DType) -> Expr:
    return prim(Op.CONTIGUOUS, (e,), dtype)


def masked_softmax() -> Region:
    other = axis("i1", 9)

    def score(key: Any) -> Expr:
        return where(holds((less(key, 5),)), load("x0", I, key), num(-INF))

    top = largest(score(K), K)
    return stored(div(exp(sub(score(other), top)), total(exp(sub(score(K), top)), K)), I, other)


def same_axis_twice() -> Region:
    """A reduction inside another over the very same axis."""
    inner = total(mul(load("x0", I, K), load("x0", I, K)), K)
    return stored(total(mul(load("x0", I, K), sqrt(inner)), K), I)


def guarded_lookup() -> Region:
    """Rows by number; those outside give zero and are not read."""
    ids = buffer("x1", 6, dtype=i32)
    row = lookup(ids, (ix(I),))
    inside = holds((less(-1, row), less(row, 4)))
    body = total(mul(read(buffer("x0", 4, 9), (row, ix(K))), load("w0", K)), K)
    return stored(choose(inside, add(body, body), num(0)), I)


def nested() -> Region:
    """An inner sum that varies with one of two reduced axes."""
    k1 = axis("k1", 4)
    inner = total(load("x0", I, axis("k2", 3), k1), axis("k2", 3))
    return stored(total(mul(mul(inner, inner), load("x1", K, k1)), K, k1), I)


def by_columns() -> Region:
    value = scaled(load("x0", I, J), 2)
    return Region((Store(out(5, 6), (I, J), (ix(J), ix(I)), value),))


def with_gaps() -> Region:
    """Two stores side by side, with elements between them that keep what they held."""
    dst = out(6, 13)
    left = Store(dst, (I, J), (ix(I), 2 * ix(J) + 1), load("x0", I, J))
    right = Store(dst, (I,), (ix(I), ix(12)), load("x1", I))
    return Region((left, right))


def blocks() -> Region:
    """Axes that lie within each other in one dimension, in the wrong order."""
    return Region((Store(out(30), (J, I), (5 * ix(I) + J,), load("x0", J, I)),))


def integers() -> Region:
    a, b = load("x0", I, dtype=i32), load("x1", I, dtype=i32)
    product = prim(Op.MUL, (a, prim(Op.ADD, (b, const(3, i32)), i32)), i32)
    divisor = where(below(b, const(0, i32)), const(-4, i32), const(5, i32))
    return stored(prim(Op.MOD, (product, divisor), i32), I)


def wrapped() -> Region:
    a = load("x0", I, dtype=u8)
    return stored(prim(Op.ADD, (prim(Op.MUL, (a, a), u8), const(250, u8)), u8), I)


def conditions() -> Region:
    either = prim(
        Op.MUL, (below(load("x0", I), num(0)), negated(below(num(1), load("x1", I)))), boolean
    )
    return stored(prim(Op.LESS_THAN, (either, load("x2", I, dtype=boolean)), boolean), I)


def any_true() -> Region:
    return stored(largest(below(load("x0", I, K), num(-1)), K), I)


def halves() -> Region:
    a, b = load("x0", I, dtype=f16), load("x1", I, dtype=bf16)
    wide = add(cast(a, f32), cast(cast(cast(b, f32), f16), f32))
    return stored(add(wide, cast(cast(mul(wide, wide), bf16), f32)), I)


def rounded() -> Region:
    whole = cast(cast(scaled(load("x0", I), 3), i8), f32)
    single = cast(cast(cast(load("x1", I, dtype=f64), f32), f64), f64)
    flag = cast(below(load("x0", I), num(0)), f32)
    return stored(mul(add(cast(single, f32), flag), add(whole, position(I))), I)


def remainders() -> Region:
    value = prim(Op.MOD, (load("x0", I, J), load("x1", I)), f32)
    return stored(prim(Op.SIN, (prim(Op.LOG2, (mul(value, value),), f32),), f32), I, J)


def constant() -> Region:
    return stored(num(-0.5))


REGIONS = (
    masked_softmax, same_axis_twice, guarded_lookup, nested, by_columns, with_gaps, blocks,
    integers, wrapped, conditions, any_true, halves, rounded, remainders, constant,
)  # fmt: skip


def kernel_of(name: str, region: Region) -> LoweredKernel:
    """A kernel that has a meaning and no program."""
    args = (*region.reads(), region.stores[0].dst)
    program = TileProgram("simt", args, (), axis("task", 1), ix(1), (), ())
    return LoweredKernel(name, program, region, ())


# ---- all of it in one library ----


@dataclass(frozen=True)
class Kernels:
    model: LoweredModel
    library: ctypes.CDLL


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    model = assemble(tuple(PROGRAMS.items()), CPU)
    only_meant = [kernel_of(r.__name__, r()) for r in REGIONS]
    parts = [fast_lane.source(model), "namespace LUMIGEN_NS {"]
    for k in only_meant:
        fields = "".join(f" {p.ctype} {p.name};" for p in k.parameters)
        parts.append(f"struct {k.name}_args {{{fields} }};")
    parts.append("}")
    for k in (*model.kernels, *only_meant):
        parts += [reference_text(k), entry_to(k)]
    text = "\n".join([*parts, broken(model)])
    return Kernels(model, compile_library(text, tmp_path_factory.mktemp("references")))


def compile_library(text: str, folder: Path) -> ctypes.CDLL:
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    include = folder / "include" / "runtime"
    include.mkdir(parents=True)
    folders = (templates_dir() / "cpu", templates_dir() / "project" / "runtime", runtime_dir())
    for header in (path for folder in folders for path in folder.glob("*.h")):
        (include / header.name).symlink_to(header)
    unit, library = folder / "kernels.cpp", folder / "kernels.so"
    unit.write_text(text)
    flags = (*fast_lane.FLAGS, "-O1", "-DLUMIGEN_NS=testing", "-DLUMIGEN_ISA=native")
    command = [compiler, *flags, f"-I{include.parent}", str(unit), "-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:6000]
    return ctypes.CDLL(str(library))


def entry_to(k: LoweredKernel) -> str:
    dst = k.region.stores[0].dst
    return (
        f'extern "C" double reference_{k.name}(const void* args, int64_t element) {{\n'
        f"  using Args = LUMIGEN_NS::{k.name}_args;\n"
        f"  const Args& all = *static_cast<const Args*>(args);\n"
        f"  return LUMIGEN_NS::{k.name}_{dst}_reference(all, element);\n}}"
    )


def softmax_of(model: LoweredModel) -> Launch:
    return next(p for p in model.programs if p.entry == "softmax").launches[-1]


def broken(model: LoweredModel) -> str:
    """The softmax again, under another name and without its maximum."""
    kernel = next(k for k in model.kernels if k.name == softmax_of(model).kernel)
    name = kernel.name.replace("k", "broken", 1)
    body = kernel_body(name, kernel.program, kernel.parameters).body
    wrong = body.replace("reduce_add", "reduce_max")
    assert wrong != body
    alias = f"namespace LUMIGEN_NS {{ using {name}_args = {kernel.name}_args; }}"
    run = (
        f'extern "C" void run_{name}(const void* args, int64_t tasks, char* scratch) {{\n'
        f"  for (int64_t i = 0; i < tasks; ++i) LUMIGEN_NS::{name}(args, i, scratch);\n}}"
    )
    return f"{alias}\n{wrong}\n{run}"


def numbers(b: Buffer, count: int, rng: np.random.Generator) -> np.ndarray:
    """Normal floats; integers in the buffer's range, else small ones."""
    if b.dtype.is_float:
        return rng.normal(size=count).astype(b.dtype.numpy)
    lo, hi = b.range or ((0, 2) if b.dtype is boolean else (0, 250) if b.dtype is u8 else (-7, 8))
    return rng.integers(lo, hi + bool(b.range), count).astype(b.dtype.numpy)


def reference(kernels: Kernels, name: str, args: Any, count: int) -> np.ndarray:
    function = getattr(kernels.library, f"reference_{name}")
    function.restype = ctypes.c_double
    return np.array([function(ctypes.byref(args), ctypes.c_int64(i)) for i in range(count)])


def pointers(arrays: list[np.ndarray], values: list[int]) -> Any:
    fields = [a.ctypes.data for a in arrays] + [v & (2**64 - 1) for v in values]
    return (ctypes.c_uint64 * max(1, len(fields)))(*fields)


def error(got: np.ndarray, want: np.ndarray) -> float:
    """The worst error against an element's own size and that of its neighbours."""
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(want))
    finite = np.isfinite(want)
    if not finite.any():
        return 0.0
    np.testing.assert_array_equal(got[~finite], want[~finite])
    got, want = got[finite], want[finite]
    return float(np.max(np.abs(got - want) / (np.abs(want) + np.sqrt(np.mean(want**2)) + 1e-300)))


@pytest.mark.slow
@pytest.mark.parametrize("region", REGIONS, ids=lambda r: r.__name__)
def test_references_mean_what_their_regions_mean(
    region: Callable[[], Region], kernels: Kernels, rng: np.random.Generator
) -> None:
    kernel = kernel_of(region.__name__, region())
    shapes = {b.name: tuple(d.const for d in b.dims) for b in kernel.program.args}
    arrays = {
        b.name: numbers(b, int(np.prod(shapes[b.name], dtype=int)), rng)
        for b in kernel.program.args
    }
    dst = kernel.program.args[-1]
    shaped = {name: a.reshape(shapes[name]) for name, a in arrays.items()}
    want = evaluate(kernel.region, shaped, {})[dst.name]
    args = pointers(list(arrays.values()), [])
    found = reference(kernels, kernel.name, args, want.size)
    assert error(found, want.astype(np.float64).reshape(-1)) < 2e-7
    if not dst.dtype.is_float:
        np.testing.assert_array_equal(found, want.astype(np.float64).reshape(-1))


def launched(
    kernels: Kernels, launch: Launch, size: int, rng: np.random.Generator, run: str = ""
) -> tuple[np.ndarray, np.ndarray]:
    """What the kernel wrote, and what its reference says."""
    kernel = next(k for k in kernels.model.kernels if k.name == launch.kernel)
    dims = {B: size}
    sizes = {n: int(e.evaluate(dims)) for n, e in argument_sizes(kernel).items()}
    arrays = [numbers(b, sizes[b.name], rng) for b in kernel.program.args]
    named = launch.numbers(dims)
    values = [int(a.value.evaluate(named)) for a in launch.arguments if isinstance(a, ValueArg)]
    before = [a.copy() for a in arrays]
    scratch = fast_lane.aligned(
        kernel_body(kernel.name, kernel.program, kernel.parameters).scratch_bytes
    )
    function = getattr(kernels.library, run or f"run_{kernel.name}")
    tasks = ctypes.c_int64(int(launch.tasks.evaluate(named)))
    function(ctypes.byref(pointers(arrays, values)), tasks, ctypes.c_void_p(scratch.ctypes.data))
    written = [p.written for p in kernel.parameters if p.dtype is not None].index(True)
    for a, b in zip(arrays[:written], before[:written], strict=True):
        np.testing.assert_array_equal(a, b)
    want = reference(kernels, kernel.name, pointers(before, values), arrays[written].size)
    return arrays[written].astype(np.float64), want


@pytest.mark.parametrize("size", [1, 3, 7])
@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_agree_with_their_references(
    name: str, size: int, kernels: Kernels, rng: np.random.Generator
) -> None:
    program = next(p for p in kernels.model.programs if p.entry == name)
    for launch in program.launches:
        assert error(*launched(kernels, launch, size, rng)) < 1e-6, launch.kernel


def test_a_broken_kernel_is_noticed(kernels: Kernels, rng: np.random.Generator) -> None:
    launch = softmax_of(kernels.model)
    run = f"run_{launch.kernel.replace('k', 'broken', 1)}"
    assert error(*launched(kernels, launch, 7, rng, run)) > 0.1


# ---- the text ----


def body_of(region: Region) -> str:
    return reference_text(kernel_of("kernel", region))


def test_the_text_of_a_softmax(golden: Callable[[str, str], None]) -> None:
    kernel = assemble((("main", PROGRAMS["softmax"]),), CPU).kernels[-1]
    golden("reference/softmax.cpp", reference_text(replace(kernel, name="k00_simt")))


def test_the_text_of_a_masked_softmax(golden: Callable[[str, str], None]) -> None:
    golden("reference/masked_softmax.cpp", body_of(masked_softmax()))


def test_what_does_not_vary_with_a_loop_stands_before_it() -> None:
    """One element of attention costs keys times depth, not its square."""
    key, other, depth = axis("k0", 7), axis("k1", 7), axis("k2", 3)

    def score(at: Any) -> Expr:
        return total(mul(load("x0", I, depth), load("x1", at, depth)), depth)

    top = largest(score(other), other)
    denominator = total(exp(sub(score(other), top)), other)
    weight = div(exp(sub(score(key), top)), denominator)
    text = body_of(stored(total(mul(weight, load("x2", key, J)), key), I, J))
    depths = [len(line) - len(line.lstrip()) for line in text.splitlines() if "for (" in line]
    assert depths == [2, 4] * 3


def test_a_branch_that_may_be_outside_is_left_alone() -> None:
    text = body_of(guarded_lookup())
    assert re.search(r"if \(x1\(i0\) < 4 && x1\(i0\) >= 0\) \{\n    double sum0 = 0.0;", text)


def test_names_stay_apart() -> None:
    """An axis may be called like an argument."""
    odd = axis("x0", 6)
    text = body_of(stored(load("x0", odd), odd))
    assert "const int64_t x0_ = element;" in text
    assert "return x0(x0_);" in text


def test_sizes_of_arguments() -> None:
    (kernel,) = assemble((("main", PROGRAMS["layer_norm"]),), CPU).kernels
    assert argument_sizes(kernel) == {
        "x": 36 * ix(B),
        "w": ix(12),
        "b_": ix(12),
        "out": 36 * ix(B),
    }
