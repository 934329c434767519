"""Every op of the frontend and small networks of them, as CPU kernels: the interpreter's results.

A row of the table is traced twice: with dims, run at their least, odd, coprime, greatest and equal
values, and with ragged numbers instead. All rows are compiled into few libraries.
"""

# F as in PyTorch; a row is one lambda

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import pytest
from small_programs import (
    Library,
    SmallProgram,
    numbers,
    offset,
    on_demand,
    small,
    specials,
    wide,
)

import lumigen as lg
from lumigen import functional as F
from lumigen.dtype import DType, bf16, boolean, f16, f32, f64, i8, i32, i64, u8
from lumigen.frontend import Tensor
from lumigen.frontend.nn import Parameter
from lumigen.frontend.spec import Spec, spec
from lumigen.index import ix

N, M = lg.Dim("n", 1, 40), lg.Dim("m", 1, 67)  # names that kernels use themselves
POINTS = (
    {"n": 1, "m": 1},
    {"n": 7, "m": 7},
    {"n": 13, "m": 32},
    {"n": 40, "m": 67},
    {"n": 3, "m": 17},
)
RAGGED = {N: ix(5), M: ix(19)}

ROWS: list[SmallProgram] = []


def row(
    name: str,
    function: Callable[..., Any],
    *shapes: Any,
    fill: Any = numbers,
    pointwise: bool = False,
    **named: Any,
) -> None:
    """`shapes` are those of the function's parameters, in order: tuples, or specs."""
    names = list(inspect.signature(function).parameters)
    given = dict(zip(names, shapes, strict=False)) | named
    specs = {k: s if isinstance(s, Spec) else spec(*s) for k, s in given.items()}
    dynamic = any(s.dims() for s in specs.values())
    if dynamic:
        used = {d.name for s in specs.values() for d in s.dims()}
        points = tuple({k: v for k, v in p.items() if k in used} for p in POINTS)
        ROWS.append(SmallProgram(name, function, tuple(specs.items()), points, fill, pointwise))
        if pointwise:
            return  # numbers add nothing where no loop carries anything
    fixed = {
        k: Spec(tuple(e.substitute(RAGGED) for e in s.shape), s.dtype, s.range)
        for k, s in specs.items()
    }
    ROWS.append(
        SmallProgram(
            f"{name}_ragged" if dynamic else name,
            function,
            tuple(fixed.items()),
            ({},),
            fill,
            pointwise,
        )
    )


def weight(name: str, *shape: int, dtype: DType = f32) -> Parameter:
    """Rows share libraries, in which a name has one shape."""
    return Parameter(*shape, dtype=dtype, name=f"{name}.{dtype}.{'x'.join(map(str, shape))}")


# --- elementwise ----------------------------------------------------------------------------------

for op in [
    "neg",
    "abs",
    "sign",
    "square",
    "exp",
    "exp2",
    "log",
    "log2",
    "log10",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "sin",
    "cos",
    "tanh",
    "sigmoid",
    "relu",
    "erf",
    "floor",
    "ceil",
]:
    row(op, lambda x, op=op: getattr(x, op)(), (N, M), fill=specials, pointwise=True)
    row(
        f"{op}_f64",
        lambda x, op=op: getattr(x, op)(),
        spec(5, 7, dtype=f64),
        fill=specials,
        pointwise=True,
    )
for op in ["isnan", "isinf", "isfinite"]:
    row(op, lambda x, op=op: getattr(x, op)(), (N, M), fill=specials)
for op in ["leaky_relu", "elu", "silu", "softplus", "gelu"]:
    row(op, lambda x, op=op: getattr(F, op)(x), (N, M), fill=specials, pointwise=True)
row("gelu_tanh", lambda x: F.gelu(x, "tanh"), (N, M), pointwise=True)
row("tan", lambda x: (x * 0.3).tan(), (N, M), pointwise=True)

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "maximum": lambda a, b: a.maximum(b),
    "minimum": lambda a, b: a.minimum(b),
    "less": lambda a, b: a < b,
    "greater": lambda a, b: a > b,
    "at_most": lambda a, b: a <= b,
    "at_least": lambda a, b: a >= b,
    "equal": lambda a, b: a == b,
    "unequal": lambda a, b: a != b,
    "chosen": lambda a, b: lg.where(a < b, a, b * 2),
}
for op, f in BINARY.items():
    row(op, f, (N, M), (N, M), fill=specials, pointwise=True)
    row(f"{op}_spread", f, (N, 1, M), (M,), fill=specials, pointwise=True)
    for t in (f64, i8, u8, i32, i64):
        row(f"{op}_{t}", f, spec(5, 7, dtype=t), spec(7, dtype=t), fill=specials, pointwise=True)
row("div", lambda a, b: a / b, (N, M), (N, M), fill=specials, pointwise=True)
row("div_int", lambda a, b: a / b, spec(N, M, dtype=i32), spec(N, M, dtype=i32), pointwise=True)
row("mod", lambda a, b: a % b, (N, M), (N, M), pointwise=True)
row("mod_special", lambda a, b: a % b, (N, M), (N, M), fill=specials, pointwise=True)
row(
    "mod_f64",
    lambda a, b: a % b,
    spec(N, 5, dtype=f64),
    spec(N, 5, dtype=f64),
    fill=specials,
    pointwise=True,
)
for t in (i8, u8, i32, i64):
    row(f"mod_{t}", lambda a, b: a % b, spec(N, 5, dtype=t), spec(N, 5, dtype=t))
    row(
        f"mod_special_{t}", lambda a, b: a % b, spec(7, 5, dtype=t), spec(5, dtype=t), fill=specials
    )
    row(f"mod_const_{t}", lambda a: a % 3, spec(N, 5, dtype=t), fill=specials)
    row(
        f"sums_that_wrap_{t}",
        lambda a, b: a + b * 3 - 7,
        spec(N, 5, dtype=t),
        spec(5, dtype=t),
        fill=specials,
    )
row("mod_neg_const", lambda a: a % -3, spec(N, 5, dtype=i64))
row("floordiv", lambda a: a // 1.5, (N, M), pointwise=True)
row(
    "pow",
    lambda a: {
        "p2": a**2,
        "p3": a**3,
        "m1": (a + 9) ** -1,
        "h": a.abs() ** 0.5,
        "r": a.abs() ** 1.7,
        "e": 2.5**a,
    },
    (N, M),
)
row("clamp", lambda a: a.clamp(-0.5, 0.75), (N, M), fill=specials)
row("clamp_int", lambda a: a.clamp(-3, 4), spec(N, M, dtype=i64), fill=specials)
row("masked_fill", lambda a, m: a.masked_fill(m, -math.inf), (N, M), spec(N, M, dtype=boolean))
row(
    "where_mask",
    lambda m, a, b: lg.where(m, a, b),
    spec(N, 1, dtype=boolean),
    (N, M),
    (M,),
    fill=specials,
)
row("where_scalar", lambda m: lg.where(m, 1.5, -2.0), spec(N, M, dtype=boolean))
row(
    "logic",
    lambda a, b: {"and_": a & b, "or_": a | b, "xor_": a ^ b, "not_": ~a},
    spec(N, M, dtype=boolean),
    spec(M, dtype=boolean),
)
row(
    "logic_f",
    lambda a, b: lg.where((a < 0) & (b < a) | (b > 1), a, -b),
    (N, M),
    (N, M),
    fill=specials,
)
row("bool_times", lambda a, x: a * x, spec(N, M, dtype=boolean), (N, M), fill=specials)
row("bool_plus", lambda a, x: a + x, spec(N, M, dtype=boolean), spec(N, M, dtype=i64))
row("scalar_out", lambda a: a * 2 + 1, ())
row(
    "overflow_i32",
    lambda a: {
        "c": (a * 1103515245 + 12345) < 0,
        "d": (a + 2147483647) % 7,
        "f": (a * 65537 * 65537).to(f32),
    },
    spec(N, 5, dtype=i32),
    fill=specials,
)
row(
    "overflow_i8",
    lambda a: {"c": (a + 100) < 0, "d": (a * 3).to(i32), "e": a + a, "f": (a * a).to(f32)},
    spec(N, 5, dtype=i8),
    fill=specials,
)
row(
    "overflow_u8",
    lambda a: {"c": (a - 1) < 5, "d": (a * 3).to(i32), "e": a + a},
    spec(N, 5, dtype=u8),
    fill=specials,
)
row(
    "one_byte_in_all_lanes",
    lambda a: {"s": (a[0, :1] % 3).to(u8).expand(a.shape), "p": a.pad((3, 4), value=2).to(i8)},
    spec(N, 20),
)
row("wide_i64", lambda a: {"s": a * 3 + 1, "c": a - 1 < 0, "d": (a - 1) % 5}, spec(N, 5, dtype=i64))
for t in (f32, f64, i8, u8, i32, i64, boolean):
    row(
        f"casts_{t}",
        lambda a: {f"to_{u}": a.to(u) for u in (f32, f64, i8, u8, i32, i64, boolean)},
        spec(N, 5, dtype=t),
        fill=specials,
        pointwise=True,
    )
    row(
        f"cast_back_{t}",
        lambda a: {f"to_{u}": a.to(u).to(f32) * 0.5 for u in (f64, i8, u8, i32, i64, boolean)},
        spec(N, 5, dtype=t),
        pointwise=True,
    )

for t in (f16, bf16):
    row(
        f"half_{t}",
        lambda x: {"a": x * 2 + 1, "e": x.exp(), "m": x.maximum(0.5)},
        spec(N, 5, dtype=t),
    )
    row(
        f"half_casts_{t}",
        lambda x: {f"to_{u}": x.to(u) for u in (f16, bf16, f32, f64, i32, boolean)},
        spec(N, 5, dtype=t),
        fill=specials,
    )
    row(
        f"half_rounds_{t}",
        lambda x, t=t: {"r": x.to(t).to(f32), "t": x.to(t)},
        (N, 5),
        fill=specials,
    )
    row(f"half_softmax_{t}", lambda x: {"s": x.softmax(-1), "a": x.amax(0)}, spec(N, M, dtype=t))
    row(f"half_matmul_{t}", lambda a, b: a @ b, spec(N, 9, dtype=t), spec(9, M, dtype=t))

# --- reductions -----------------------------------------------------------------------------------

for op in ("sum", "amax", "amin", "mean"):
    for dims in (None, 0, 1, 2, (0, 1), (1, 2), (0, 2)):
        tag = (
            "all" if dims is None else "".join(map(str, [dims] if isinstance(dims, int) else dims))
        )
        row(f"{op}_{tag}", lambda x, op=op, dims=dims: getattr(x, op)(dims), (N, 3, M), fill=offset)
for op in ("sum", "amax", "amin"):
    for t in (i8, i32, i64, u8, f64, boolean):
        row(
            f"{op}_{t}",
            lambda x, op=op: {
                "r": getattr(x, op)(1),
                "c": getattr(x, op)(0),
                "a": getattr(x, op)(),
            },
            spec(N, M, dtype=t),
        )
        row(
            f"{op}_{t}_float",
            lambda x, op=op: {
                "r": getattr(x, op)(1).to(f32) * 0.5,
                "c": getattr(x, op)(0).to(f32) * 0.5,
            },
            spec(N, M, dtype=t),
        )
    row(
        f"{op}_special",
        lambda x, op=op: {"r": getattr(x, op)(1), "c": getattr(x, op)(0)},
        (N, M),
        fill=specials,
    )
    row(
        f"{op}_f64_special",
        lambda x, op=op: {"r": getattr(x, op)(1), "c": getattr(x, op)(0)},
        spec(N, M, dtype=f64),
        fill=specials,
    )
for op in ("any", "all"):
    row(
        op,
        lambda x, op=op: {"r": getattr(x, op)(1), "c": getattr(x, op)(0), "a": getattr(x, op)()},
        spec(N, M, dtype=boolean),
    )
    row(f"{op}_mask", lambda x, op=op: lg.where(getattr(x > 2, op)(1, keepdim=True), x, -x), (N, M))
    row(f"{op}_mask_c", lambda x, op=op: lg.where(getattr(x > 1, op)(0), x, -x), (N, M))
for op in ("argmax", "argmin"):
    row(
        op,
        lambda x, op=op: {"r": getattr(x, op)(1), "c": getattr(x, op)(0), "a": getattr(x, op)()},
        (N, M),
    )
    row(
        f"{op}_special",
        lambda x, op=op: {"r": getattr(x, op)(1), "c": getattr(x, op)(0)},
        (N, M),
        fill=specials,
    )
    row(f"{op}_i32", lambda x, op=op: getattr(x, op)(-1), spec(N, M, dtype=i32))
row(
    "argmax_used",
    lambda x: (x.argmax(1, keepdim=True) == lg.arange(x.shape[1])).to(f32) * x,
    (N, M),
)
row(
    "var",
    lambda x: {"v": x.var(1, correction=0), "s": x.std((0, 2), correction=0), "c": x.var(1)},
    (N, 3, M),
)
row("logsumexp", lambda x: {"r": x.logsumexp(-1), "k": x.logsumexp(0, keepdim=True)}, (N, M))
row("logsumexp_inf", lambda x: x.logsumexp(-1), (N, M), fill=specials)
row(
    "softmax",
    lambda x: {"r": x.softmax(-1), "c": x.softmax(0), "m": x.reshape(x.shape[0], 1, -1).softmax(1)},
    (N, M),
)
row("softmax_special", lambda x: x.softmax(-1), (N, M), fill=specials)
row("log_softmax", lambda x: {"r": x.log_softmax(-1), "c": x.log_softmax(0)}, (N, M))
row(
    "norm",
    lambda x: {
        "e": x.norm(2, -1),
        "a": x.norm(1, 0),
        "i": x.norm(math.inf, -1),
        "p": x.norm(3, -1),
    },
    (N, M),
)
row("normalize", lambda x: F.normalize(x, dim=-1), (N, M))
row("layer_norm", lambda x: F.layer_norm(x, 24, weight("g", 24), weight("b", 24)), (N, M, 24))
row("layer_norm_plain", lambda x: F.layer_norm(x, (3, 5)), (N, 3, 5))
row("rms_norm", lambda x: F.rms_norm(x, 24, weight("g", 24), eps=1e-6), (N, M, 24))
row("group_norm", lambda x: F.group_norm(x, 2, weight("g", 4), weight("b", 4)), (N, 4, 5, 3))
row(
    "batch_norm_of_normed_planes",
    lambda x: F.batch_norm(F.group_norm(x, 4), None, None, training=True),
    (2, 4, 14, 14),
)
row(
    "batch_norm",
    lambda x: F.batch_norm(x, weight("m", 3), weight("v", 3).abs(), weight("g", 3), weight("b", 3)),
    (N, 3, M),
)
row("guarded_max", lambda x: lg.tril(x).amax(-1), (N, M))
row(
    "guarded_sum",
    lambda x: {"l": lg.tril(x, -1).sum(-1), "u": lg.triu(x, 2).sum(-1), "c": lg.triu(x, 1).sum(0)},
    (N, M),
)
AFTER_ONE: dict[str, Callable[[Any], Any]] = {  # empty where n is 1
    "amax": lambda x: x[:, 1:].amax(1),
    "amin_across": lambda x: x.mT[1:].amin(0),
    "sum": lambda x: x[:, 1:].sum(1),
    "sum_across": lambda x: x.mT[1:].sum(0),
    "sum_all": lambda x: x[:, 1:].sum(),
    "mean": lambda x: x[:, 1:].mean(1),
    "any_all": lambda x: {"any_": (x[:, 1:] > 0).any(1), "all_": (x[:, 1:] > 0).all(1)},
    "argmax": lambda x: x[:, 1:].argmax(1),
    "logsumexp": lambda x: x[:, 1:].logsumexp(1),
    "softmax": lambda x: x[:, 1:].softmax(1),
    "product": lambda x: x[:, 1:] @ x.mT[1:],
}
for op, f in AFTER_ONE.items():
    row(f"after_one_{op}", f, (M, N))
for op in ("amax", "sum"):
    row(f"after_one_{op}_i32", AFTER_ONE[op], spec(M, N, dtype=i32))
row(
    "nothing_left",
    lambda x: lg.where(
        lg.arange(x.shape[1]) < lg.arange(x.shape[0]).unsqueeze(1) - 100, x, -math.inf
    ).amax(1),
    (N, M),
)
EMPTY: dict[str, Callable[[Any], Any]] = {  # whatever the dims are, and read beside its edge
    "repeated": lambda x: lg.diag_embed(x.tile([0, 2]).sum(2), 1),
    "sliced": lambda x: lg.median(lg.diag_embed(x[:, :0].sum(2), 1), 1, True)[0],
}
for op, f in EMPTY.items():
    row(
        f"of_nothing_{op}",
        lambda x, f=f: {"whole": f(x), "taken": lg.take(f(x), lg.tensor([0, 0, 0]))},
        spec(1, N, M, dtype=i32),
    )
row("diagonals_behind_the_end", lambda x: {"a": x.diagonal(3), "b": 2 * x.diagonal(-3)}, (N, M))
row("scan_of_differences", lambda x: x.diff(dim=0).cumsum(0).cummax(0)[0], (N, M))
row(
    "scan_of_joined_dtypes",
    lambda x: lg.cat([x, x.to(f32)], 0).cummax(0)[0],
    spec(N, M, dtype=i64),
)
row("large_sum", lambda x: {"a": x.sum(), "m": x.amax(), "r": x.sum(-1)}, (7, 4099), fill=offset)
row("two_level", lambda x: (x - x.mean(-1, keepdim=True)).square().amax(0), (N, M))
row("sum_of_max", lambda x: {"a": x.amax(-1).sum(), "b": x.exp().sum(-1).amax(0)}, (N, M))

# --- products -------------------------------------------------------------------------------------

row("matmul", lambda a, b: a @ b, (N, 24), (24, M))
row("matmul_deep", lambda a, b: a @ b, (N, 801), (801, 33))
COUNTS = spec(5, M, dtype=i64)
row("matmul_by_counts", lambda a, b, c: (a @ b) * c.sum(0), (N, 24), (24, M), COUNTS)
row(
    "matmul_where_counts",
    lambda a, b, c: lg.where(c.sum(0) < 2, a @ b, 0),
    (N, 24),
    (24, M),
    COUNTS,
)
row(
    "matmul_by_row_sums",
    lambda a, b: a @ b / (a.square().sum(1, keepdim=True) + 1),
    (N, 24),
    (24, M),
)
row("first_of_dim", lambda a: {"few": a[:4] * 2, "total": a.flatten()[:5].sum()}, (N, M))
row("matmul_dynamic_k", lambda a, b: a @ b, (9, N), (N, M))
row("matmul_batched", lambda a, b: a @ b, (3, N, M), (3, M, 10))
row("matmul_broadcast", lambda a, b: a @ b, (2, 1, N, 8), (3, 8, M))
row("matmul_vec", lambda a, b: {"v": a @ b, "d": b @ b}, (N, M), (M,))
row("vec_matmul", lambda a, b: a @ b, (M,), (M, N))
row("batch_vec", lambda a, b: a @ b, (3, N, M), (M,))
row("matmul_t", lambda a, b: {"nt": a @ b.mT, "tn": a.mT @ b, "tt": (a.mT @ b).mT}, (N, M), (N, M))
row("matmul_epilogue", lambda a, b, c: (a @ b + c).relu() * 2 + (a @ b + c), (N, 24), (24, M), (M,))
row("matmul_f64", lambda a, b: a @ b, spec(N, 9, dtype=f64), spec(9, M, dtype=f64))
row("matmul_i64", lambda a, b: a @ b, spec(N, 9, dtype=i64), spec(9, M, dtype=i64))
row("matmul_i32", lambda a, b: a @ b, spec(N, 9, dtype=i32), spec(9, M, dtype=i32))
row("matmul_of_computed", lambda a, b: (a.relu() + 1) @ (b * 2).exp(), (N, 24), (24, M))
row("matmul_chain", lambda a, b, c: a @ b @ c, (N, 24), (24, M), (M, 5))
row("matmul_ones", lambda a, b: {"o": a @ b, "k": b @ a}, (N, 1), (1, N))
row("matmul_row_softmax", lambda a, b: (a @ b).softmax(-1), (N, 24), (24, M))
row("matmul_residual", lambda a, b: {"x": a @ b + a, "y": a @ b - a}, (N, 24), (24, 24))
row("linear", lambda x: F.linear(x, weight("w", 33, 24), weight("b", 33)), (N, M, 24))
row("linear_gelu", lambda x: F.gelu(F.linear(x, weight("w", 33, 24), weight("b", 33))), (N, 24))
row("linear_vec", lambda x: F.linear(x, weight("w", 33, 24)), (24,))
row("linear_one", lambda x: F.linear(x, weight("w", 1, 24), weight("b", 1)), (N, 24))
row("tied", lambda x: (x @ weight("w", 24, 24)) + (x @ weight("w", 24, 24).T), (N, 24))
row(
    "tied_twice",
    lambda x: {
        "a": x @ weight("w", 24, 24),
        "b": x @ weight("w", 24, 24).T,
        "c": weight("w", 24, 24) * 2,
    },
    (N, 24),
)
row(
    "tied_embedding",
    lambda ids: F.embedding(ids, weight("w", 50, 16)) @ weight("w", 50, 16).T,
    spec(N, M, dtype=i64, range=(0, 49)),
)
row("weights_alike", lambda x: x @ weight("a.b", 24, 8) + x @ weight("a_b", 24, 8), (N, 24))
row(
    "weight_slice",
    lambda x: {
        "a": x @ weight("w", 24, 32)[:, :9],
        "b": x @ weight("w", 24, 32)[:, 9:],
        "c": x[:, :7] @ weight("w", 24, 32)[3:10],
    },
    (N, 24),
)
row("weight_flip", lambda x: x @ weight("w", 24, 32).flip(0), (N, 24))
row("outer", lambda a, b: a.unsqueeze(1) * b, (N,), (M,))
row("contract_two", lambda a, b: (a.unsqueeze(2) * b).sum((0, 1)), (N, 6), (6, M))
row("gram", lambda a: (a @ a.mT) * (a @ a.mT).sum(-1, keepdim=True), (N, 9))

# --- lookups --------------------------------------------------------------------------------------

ids = spec(N, M, dtype=i64)
row(
    "embedding", lambda i: F.embedding(i, weight("w", 50, 16)), spec(N, M, dtype=i64, range=(0, 49))
)
row("embedding_out", lambda i: F.embedding(i, weight("w", 5, 16)), ids)
row("embedding_i32", lambda i: F.embedding(i, weight("w", 5, 16)) * 2, spec(N, M, dtype=i32))
row("embedding_u8", lambda i: F.embedding(i, weight("w", 5, 3)), spec(N, M, dtype=u8))
row("embedding_int", lambda i: F.embedding(i, weight("w", 5, 3, dtype=i32)), spec(N, M, dtype=i64))
row("embedding_sum", lambda i: F.embedding(i, weight("w", 5, 16)).sum(1), ids)
row(
    "embedding_norm",
    lambda i: F.layer_norm(F.embedding(i, weight("w", 9, 16)) + weight("p", 1, 16), 16),
    spec(N, M, dtype=i64, range=(0, 8)),
)
row("embedding_pad", lambda i: F.embedding(i, weight("w", 5, 16)).pad((0, 0, 1, 1)), ids)
row(
    "embedding_pad_sum",
    lambda i: F.embedding(i, weight("w", 5, 16)).pad((0, 0, 1, 1)).sum((1, 2)),
    ids,
)
row("pad_ids", lambda i: F.embedding(i.pad((1, 2)), weight("w", 5, 4)), ids)
row("gather_rows", lambda x, i: x.gather(1, i), (N, 6), spec(N, M, dtype=i64, range=(0, 5)))
row("gather_cols", lambda x, i: x.gather(0, i), (9, M), spec(N, M, dtype=i64))
row("index_select", lambda x, i: x.index_select(1, i), (3, 8, M), spec(N, dtype=i64, range=(0, 7)))
row("index_tensor", lambda x, i: x[:, i], (3, 8, M), spec(N, dtype=i64))
row("index_i32", lambda x, i: x[i], (9, M), spec(N, dtype=i32))
row("index_pair", lambda x, i, j: x[i, j], (9, 8), spec(N, dtype=i64), spec(N, dtype=i64))
row("index_argmax", lambda x, s: x[s.argmax(-1)], (20, M), (N, 20))
row("index_product", lambda x, i, j: x[i * j], (20, M), spec(N, dtype=i64), spec(N, dtype=i64))
row("gather_bool_any", lambda x, i: x[i], spec(8, M, dtype=boolean), spec(N, dtype=i64))
row("index_scalar", lambda x, i: x[i], (8, M), spec(dtype=i64, range=(0, 7)))
row("take_along", lambda x: x.take_along_dim(x.argmax(-1, keepdim=True), -1), (N, M))
row("computed_ids", lambda i: F.embedding((i * 2 + 1) % 7, weight("w", 7, 5)), ids)
row(
    "double_lookup",
    lambda i: F.embedding(
        F.embedding(i, weight("t", 9, dtype=i64).reshape(9, 1)).squeeze(-1), weight("w", 9, 5)
    ),
    spec(N, M, dtype=i64, range=(0, 8)),
)


def _used_often(x: Any) -> Any:
    """Each step names its value several times: spelled in full, the last would be of 4^20 terms."""
    for _ in range(20):
        x = lg.maximum(x * 0.9, x * 0.5 + x.relu() * 0.3)
    return x


row("rows_used_often", lambda x, i: _used_often(x)[i], (9, M), spec(N, dtype=i64, range=(-9, 8)))
row("cast_ids", lambda x: F.embedding((x * 3).to(i64), weight("w", 7, 5)), (N, M))
row("gather_bool", lambda x, i: x[i], spec(8, M, dtype=boolean), spec(N, dtype=i64, range=(-8, 7)))
row("groups", lambda x: F.group_norm(x, 2), (2, 4, 24, 70))
row("normal_columns", lambda x: (x - x.mean(0)) / (x.var(0) + 1).sqrt(), (700, 30))
row("flat_product", lambda a, b: (a @ b).relu().flatten(1), (2, 24, 32), (2, 32, 40))
row("flat_rows", lambda a, b: (a @ b).flatten(), (N, 32), (32, 40))
row("one_hot", lambda i: F.one_hot(i, 5), ids)
row(
    "cross_entropy",
    lambda x, t: {"m": F.cross_entropy(x, t), "n": F.cross_entropy(x, t, reduction="none")},
    (N, 11),
    spec(N, dtype=i64, range=(0, 10)),
)
row("mse", lambda x, t: F.mse_loss(x, t), (N, M), (N, M))
row(
    "gathered_matmul",
    lambda i, b: F.embedding(i, weight("w", 50, 16)) @ b,
    spec(N, dtype=i64, range=(0, 49)),
    (16, M),
)
row("ids_as_numbers", lambda i: (i % 3).to(f32) * 0.5 + (i < 2).to(f32), ids)

# --- convolution and pooling ----------------------------------------------------------------------

for tag, kw in {
    "plain": {},
    "padded": {"padding": 1},
    "strided": {"stride": 2, "padding": 1},
    "dilated": {"dilation": 2, "padding": 2},
    "mixed": {"stride": (2, 1), "padding": (0, 2), "dilation": (1, 2)},
    "same": {"padding": "same"},
}.items():
    row(
        f"conv_{tag}",
        lambda x, kw=kw: F.conv2d(x, weight("w", 6, 4, 3, 3), weight("b", 6), **kw),
        (N, 4, 9, 11),
    )
row(
    "conv_grouped",
    lambda x: F.conv2d(x, weight("w", 6, 2, 3, 3), weight("b", 6), padding=1, groups=2),
    (N, 4, 9, 11),
)
row(
    "conv_depthwise",
    lambda x: F.conv2d(x, weight("w", 4, 1, 3, 3), padding=1, groups=4),
    (N, 4, 9, 11),
)
row(
    "conv_in_parts",
    lambda x: F.conv2d(x, weight("w", 21, 40, 3, 3), weight("b", 21), 1, 1).relu() + 1,
    (1, 40, 17, 13),
)
row("conv_many_rows", lambda x: F.conv2d(x, weight("w", 300, 3, 3, 3), None, 2, 1), (2, 3, 9, 9))
row("conv_no_image", lambda x: F.conv2d(x, weight("w", 5, 3, 3, 3), None, 1, 3), (N, 3, 1, 2))
row("conv_stride_3", lambda x: F.conv2d(x, weight("w", 5, 3, 4, 4), None, 3, 2), (N, 3, 40, 31))
row("conv_of_two", lambda x, w: F.conv2d(x, w, padding=1), (2, 3, 9, 10), (7, 3, 3, 3))
row(
    "conv_shortcut",
    lambda x: (
        F.conv2d(x, weight("w", 4, 3, 3, 3), padding=1) + F.conv2d(x, weight("v", 4, 3, 1, 1))
    ).relu(),
    (1, 3, 9, 10),
)
row(
    "conv_1x1", lambda x: F.conv2d(x, weight("w", 6, 4, 1, 1), weight("b", 6)).relu(), (N, 4, 9, 11)
)
row("conv_ragged", lambda x: F.conv2d(x, weight("w", 5, 3, 2, 3), padding=(1, 1)), (2, 3, N, M))
row(
    "conv_of_computed",
    lambda x: F.conv2d(F.silu(x), weight("w", 6, 4, 3, 3), padding=1),
    (N, 4, 7, 6),
)
row(
    "conv_relu_conv",
    lambda x: F.conv2d(
        F.conv2d(x, weight("w", 6, 4, 3, 3), padding=1).relu(), weight("v", 2, 6, 3, 3), padding=1
    ),
    (N, 4, 7, 6),
)
row("conv_residual", lambda x: F.conv2d(x, weight("w", 4, 4, 3, 3), padding=1) + x, (N, 4, 7, 6))
row("max_pool", lambda x: F.max_pool2d(x, 3, 2, 1), (N, 4, 9, 11))
row(
    "max_pool_relu_conv",
    lambda x: F.max_pool2d(F.conv2d(x, weight("w", 6, 1, 3, 3), padding=1).relu(), 2),
    (N, 1, 8, 6),
)
row("max_pool_computed", lambda x: F.max_pool2d(x.exp() - 2, 3, 1, 1), (N, 2, 5, 6))
row("max_pool_places", lambda x: F.max_pool1d(x.relu(), 3, 2, 1, return_indices=True)[1], (N, 2, M))
row("max_pool_int", lambda x: F.max_pool2d(x, 2, 1, 1), spec(N, 2, 5, 6, dtype=i32))
row(
    "avg_pool",
    lambda x: {
        "i": F.avg_pool2d(x, 3, 2, 1),
        "e": F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    },
    (N, 4, 9, 11),
)
row(
    "adaptive",
    lambda x: {"g": F.adaptive_avg_pool2d(x, 1), "t": F.adaptive_avg_pool2d(x, (2, 3))},
    (N, 4, 8, 9),
)

# --- movement -------------------------------------------------------------------------------------

row("cat", lambda a, b: {"r": lg.cat([a, b], 0), "c": lg.cat([b, b * 2, b], 1)}, (N, M), (3, M))
row("cat_three", lambda a, b, c: lg.cat([a, b, c], 1) * 2, (N, 3), (N, M), (N, 5), fill=specials)
row("cat_reduced", lambda a, b: lg.cat([a, b], 1).sum(1), (N, M), (N, 5))
row(
    "cat_one",
    lambda a, b: {"g": lg.cat([a, b], 1).amax(1), "l": lg.cat([b, a], 1).amin(1)},
    (N, M),
    (N, 1),
    fill=specials,
)
row("cat_softmax", lambda a, b: lg.cat([a, b * 2], 1).softmax(-1), (N, M), (N, 5))
row(
    "cat_of_sums", lambda a: lg.cat([a.sum(1, keepdim=True), a, a.amax(1, keepdim=True)], 1), (N, M)
)
row("cat_of_matmuls", lambda a, b: lg.cat([a @ b, a], 1), (N, 24), (24, M))
row("cat_int", lambda a, b: lg.cat([a, b], -1), spec(N, M, dtype=i64), spec(N, 3, dtype=i64))
row(
    "cat_bool",
    lambda a, b: lg.cat([a, b], -1),
    spec(N, M, dtype=boolean),
    spec(N, 3, dtype=boolean),
)
row("stack", lambda a, b: {"f": lg.stack([a, b]), "l": lg.stack([a, b], -1)}, (N, M), (N, M))
row("split", lambda a: dict(zip("xyz", a.split([2, 3, 4], 1), strict=True)), (N, 9))
row("chunk_mul", lambda a: (lambda p: F.silu(p[0]) * p[1])(a.chunk(2, -1)), (N, 10))
row(
    "slices",
    lambda a: {
        "s": a[:, 1:8:3],
        "r": a[:, ::-2],
        "e": a[..., -4:-1],
        "i": a[:, 3],
        "n": a[:, None, 2:],
    },
    (N, 9),
)
row("slice_rows", lambda a: a[1:-1] * a[2:] - a[:-2], (16, M))
row("flip", lambda a: {"r": a.flip(0), "c": a.flip(1), "b": a.flip(0, 1)}, (N, M))
row(
    "flat_and_back",
    lambda a: {
        "t": a.T.reshape(-1).flip(0).reshape(a.shape[0], a.shape[1]),
        "n": a.reshape(-1)[::-2],
        "f": a.flip(0).reshape(-1)[::3],
        "p": a.pad((1, 1)).reshape(-1).flip(0),
        "s": a.reshape(-1).pad((1, 1))[::-3],
        "q": a.pad((1, 1)).pad((0, 3, 1, 0)),
        "z": a[:, ::2].pad((2, 1))[:, ::-2].sum(1),
    },
    (N, M),
)
row("roll", lambda a: a.roll(2, 1) + a.roll(-1, 1), (N, 7))
row(
    "roll_of_dims",
    lambda a: {
        "r": a.roll(2, 0) + a.roll(-100, 1),
        "b": a.roll((41, -3), (0, 1)),
        "f": a.roll(-5),
        "n": a[1:].roll(1, 0),
    },
    (N, M),
)
row("permute", lambda a: {"p": a.permute(2, 0, 1), "t": a.transpose(0, 1) * 2}, (N, 3, M))
row(
    "reshape",
    lambda a: {
        "f": a.flatten(),
        "r": a.reshape(3, -1),
        "u": a.reshape(a.shape[0], 2, 3, a.shape[2] if len(a.shape) > 2 else 1),
    },
    (N, 6, M),
)
row("reshape_of_permute", lambda a: a.permute(0, 2, 1).reshape(a.shape[0], -1) * 2, (N, 6, 5))
row("reshape_uneven", lambda a: a.reshape(5, 12).T.reshape(4, 15) + 1, (6, 10))
row("expand", lambda a: a.unsqueeze(1).expand(a.shape[0], 4, a.shape[1]) + 1, (N, M))
row(
    "repeat_dynamic",
    lambda a, b: {"r": a.repeat(b.shape[0], 2), "i": a.repeat_interleave(b.shape[0], 1)},
    (N, 5),
    (M,),
)
row(
    "parts",
    lambda a: {
        **{f"c{k}": p for k, p in enumerate(a.pad((1, 1)).chunk(2, 1))},
        **{f"t{k}": p for k, p in enumerate(a.tensor_split(3))},
    },
    (N, M),
)
row("repeat", lambda a: {"r": a.repeat(2, 3), "i": a.repeat_interleave(3, 1)}, (N, M))
row(
    "pad",
    lambda a: {
        "z": a.pad((1, 2, 0, 3)),
        "v": a.pad((2, 2), 1.5),
        "n": a.pad((1, 0), -math.inf),
        "c": a.pad((1, -1)),
    },
    (N, 6),
)
row("pad_int", lambda a: a.pad((1, 2), 7), spec(N, M, dtype=i64))
row("pad_bool", lambda a: a.pad((1, 2), 1), spec(N, M, dtype=boolean))
row("pad_computed", lambda a: (a.exp() * 2).pad((1, 1, 2, 0), 0.25), (N, M))
row("pad_sum", lambda a: {"r": a.pad((1, 2)).sum(1), "c": a.pad((1, 2, 1, 1), 2.0).sum(0)}, (N, M))
row(
    "pad_of_sum",
    lambda a: {"r": a.sum(1).pad((1, 2)), "k": a.sum(0, keepdim=True).pad((1, 1, 1, 1), 3.0)},
    (N, M),
)
row("pad_of_max", lambda a: a.amax(1).pad((2, 1), -1.0) * 2, (N, M))
row("pad_of_softmax", lambda a: a.softmax(-1).pad((1, 1, 1, 1)), (N, M))
row("pad_of_matmul", lambda a, b: (a @ b).pad((1, 1, 1, 1), 1.0), (N, 9), (9, M))
row("pad_pad", lambda a: a.pad((1, 1), 1.0).pad((1, 1), 2.0).amax(0), (N, M))
row(
    "pad_max",
    lambda a: {
        "p": a.pad((1, 1)).amax(1),
        "n": a.pad((1, 1), -5.0).amax(1),
        "i": a.pad((1, 1), -math.inf).amax(1),
    },
    (N, M),
)
row("shifted", lambda a: a.pad((1, 0))[:, :-1] + a + a.pad((0, 1))[:, 1:], (N, M))
row("shifted_sum", lambda a: (a.pad((1, 0))[:, :-1] * a).sum(1), (N, M))
row("shifted_rows", lambda a: (a.pad((0, 0, 1, 0))[:-1] * a).sum(1), (N, M))
row(
    "unfold",
    lambda a: {
        "u": a.unfold(1, 3, 2),
        "s": a.unfold(1, 3, 1).sum(-1),
        "m": a.unfold(1, 4, 2).amax(-1),
    },
    (N, 11),
)
row("blur", lambda a: (a.pad((1, 1)).unfold(1, 3, 1) * weight("k", 3)).sum(-1), (N, M))
row("halves_rotated", lambda a: lg.cat([-a[..., 4:], a[..., :4]], -1) * 0.5 + a, (N, M, 8))
row("pairs_rotated", lambda a: lg.stack([-a[..., 1::2], a[..., ::2]], -1).flatten(-2), (N, 8))
row("tril", lambda a: {"l": lg.tril(a), "u": lg.triu(a, -1)}, (N, M))
row(
    "arange",
    lambda a: (
        a * lg.arange(a.shape[1], dtype=f32)
        + lg.arange(2, 2 + 3 * a.shape[0], 3, dtype=f32).unsqueeze(1)
    ),
    (N, M),
)
row("eye", lambda a: a + lg.eye(a.shape[0], a.shape[1]), (N, M))
row("size", lambda a: {"n": a * a.shape[0], "m": a.sum() / a.numel()}, (N, M))
row(
    "nothing_computed",
    lambda a, b: {
        "x": a,
        "y": b.T,
        "c": lg.full((3, 4), 2.5),
        "i": lg.arange(5),
        "w": weight("w", 3, 2),
    },
    (N, M),
    spec(N, M, dtype=i64),
)
row(
    "outputs_of_outputs",
    lambda a: (lambda s: {"s": s, "t": s * 2, "u": a - s, "v": s, "w": s[:, 0]})(
        a.sum(1, keepdim=True)
    ),
    (N, M),
)
row(
    "shared_values",
    lambda a, b: (lambda p: {"p": p, "q": p.relu(), "r": p.softmax(-1), "s": p.mT})(a @ b),
    (N, 24),
    (24, M),
)
row(
    "t1_is_an_output",
    lambda a: (
        {
            f"t{i}": v
            for i, v in enumerate([a * 2, a.softmax(-1), a.sum(1), a.sum(1).exp().softmax(0)])
        }
        | {f"t{i}": a.softmax(-1).sum(0) * i for i in range(4, 24)}
    ),
    (N, M),
)
row(
    "singles",
    lambda a, b: {"s": a.sum(1), "m": a @ b, "x": (a * b).softmax(1), "p": a.pad((1, 1))},
    (N, 1),
    (1, 1),
)
row(
    "zero_dim",
    lambda a, b: {"m": a * b, "s": (a + b).sum(), "v": a * b.sum(), "c": (a < b.amax()).to(i32)},
    (),
    (N,),
)

# --- attention ------------------------------------------------------------------------------------

sdpa = F.scaled_dot_product_attention
qkv = [(2, 3, M, 8)] * 3
row("attention", lambda q, k, v: sdpa(q, k, v), *qkv)
row("attention_causal", lambda q, k, v: sdpa(q, k, v, is_causal=True), *qkv)
row("attention_cross", lambda q, k, v: sdpa(q, k, v), (2, 3, N, 8), (2, 3, M, 8), (2, 3, M, 8))
row(
    "attention_mask",
    lambda q, k, v, m: sdpa(q, k, v, m | (lg.arange(k.shape[2]) < 1)),
    *qkv,
    spec(2, 1, 1, M, dtype=boolean),
)
row(
    "attention_of_none",
    lambda q, k, v, m: sdpa(q, k, v, m & (lg.arange(q.shape[2]) > 1).unsqueeze(-1)),
    *qkv,
    spec(2, 1, 1, M, dtype=boolean),
)


def defined(p):
    """What exporters write of a row that attends to nothing."""
    return lg.where(p.isnan(), 0.0, p)


row(
    "attention_of_none_is_zero",
    lambda q, k, v, m: defined((q @ k.mT).masked_fill(~m, -math.inf).softmax(-1)) @ v,
    *qkv,
    spec(2, 1, M, 1, dtype=boolean),
)
row("attention_bias", lambda q, k, v, m: sdpa(q, k, v, m), *qkv, (M, M))
row(
    "attention_gqa",
    lambda q, k, v: sdpa(q, k, v, is_causal=True, enable_gqa=True),
    (2, 6, M, 8),
    (2, 3, M, 8),
    (2, 3, M, 8),
)
row(
    "attention_window",
    lambda q, k, v: (lambda i, j: sdpa(q, k, v, (i < j + 5) & (j < i + 1)))(
        lg.arange(q.shape[2]).unsqueeze(-1), lg.arange(q.shape[2])
    ),
    *qkv,
)
row(  # neither rows nor columns of what is stored go along memory
    "attention_turned",
    lambda q, k, v: (
        sdpa(q, k, v, is_causal=True, enable_gqa=True).unflatten(-1, (2, 4)).permute(0, 3, 1, 2, 4)
    ),
    (2, 6, M, 8),
    (2, 2, M, 8),
    (2, 2, M, 8),
)
row(
    "attention_of_shared_keys_and_statistics",
    lambda q, k, v: (
        lambda s: {
            "o": (s.softmax(-1) @ v).transpose(0, 1),
            "l": s.logsumexp(-1).mT,
            "m": s.amax(-1),
        }
    )(q @ k.mT),
    (3, N, 8),
    (M, 8),
    (M, 8),
)
row(
    "attention_to_no_key",
    lambda q, k, v: sdpa(q, k[:, 1:], v[:, 1:]),
    (2, N, 8),
    (2, M, 8),
    (2, M, 8),
)
row(
    "attention_far_away",
    lambda q, k, v, p: sdpa(
        q.transpose(0, 1),
        k,
        v,
        attn_mask=lg.arange(k.shape[0]) <= lg.arange(q.shape[0])[:, None] + (p - 2**60),
    ).transpose(0, 1),
    (N, 9, 8),
    (M, 8),
    (M, 8),
    spec(dtype=i64, range=(2**60, 2**60 + 30)),
)
row("attention_one", lambda q, k, v: sdpa(q, k, v), (2, 3, 1, 8), (2, 3, M, 8), (2, 3, M, 8))
row("attention_softcap", lambda q, k, v: (((q @ k.mT) / 5).tanh() * 5).softmax(-1) @ v, *qkv)
row(
    "attention_and_statistics",
    lambda q, k, v: (lambda s: {"o": s.softmax(-1) @ v, "m": s.amax(-1), "l": s.logsumexp(-1)})(
        q @ k.mT
    ),
    *qkv,
)
row(
    "attention_at_two_scales",
    lambda q, k, v: {"o": sdpa(q, k, v), "p": sdpa(q, k, v, scale=0.2)},
    *qkv,
)
row("attention_both_ways", lambda q, k, v: (q @ k.mT).softmax(-1).softmax(-2) @ v, *qkv)
row(
    "attention_and_product",
    lambda q, k, v: {"o": (q @ k.mT).softmax(-1) @ v, "p": (q @ k.mT) @ (v * 2)},
    *qkv,
)
row(
    "attention_projected",
    lambda x: (
        sdpa(
            *[
                F.linear(x, weight(n, 24, 24)).reshape(x.shape[0], x.shape[1], 3, 8).transpose(1, 2)
                for n in "qkv"
            ]
        )
        .transpose(1, 2)
        .reshape(x.shape[0], x.shape[1], 24)
        @ weight("o", 24, 24)
        + x
    ),
    (N, M, 24),
)

# --- networks -------------------------------------------------------------------------------------


def mlp(x: Tensor) -> Tensor:
    for n in range(3):
        x = x + F.linear(
            F.gelu(F.linear(F.layer_norm(x, 16), weight(f"a{n}", 32, 16), weight(f"b{n}", 32))),
            weight(f"c{n}", 16, 32),
        )
    return x.softmax(-1)


def lenet(x: Tensor) -> Tensor:
    x = F.max_pool2d(F.conv2d(x, weight("c1", 4, 1, 3, 3), weight("d1", 4), padding=1).relu(), 2)
    x = F.max_pool2d(F.conv2d(x, weight("c2", 8, 4, 3, 3), weight("d2", 8), padding=1).relu(), 2)
    return F.linear(x.flatten(1), weight("w", 10, 32), weight("b", 10)).log_softmax(-1)


def slots(x: Tensor) -> dict[str, Tensor]:
    """Many temporaries that could take each other's place; some of them must not."""
    a = x.softmax(-1)
    b = (a * 2 + x).softmax(-1)
    c = (b + a).softmax(0)
    d = (c - b).softmax(-1)
    e = (d + d.flip(1)).softmax(-1)
    f = (e + e.mT.mT + c).softmax(-1)
    return {"d": d, "f": f, "g": (f + a).sum(0)}


def in_place(x: Tensor) -> Tensor:
    """Each step reads the last one where it writes and where it does not."""
    for n in range(4):
        y = x - x.mean(-1, keepdim=True)
        x = (y * y.flip(-1)).softmax(-1) + y @ weight(f"w{n}", 12, 12)
    return x


# Small numbers: rounded to 16 bits, great ones would decide what the softmax says.


def below_its_greatest(x: Tensor) -> dict[str, Tensor]:
    """What rounds here as it does there: nothing is below zero."""
    a, b = x * 0.1, (x @ x.mT) * 0.125 * 0.3
    return {
        "same": a - a,
        "row": (a.amax(1, keepdim=True) - a).sqrt(),
        "least": (b - b.amin(1, keepdim=True)).sqrt(),
        "at": (x / 3 - x.amax(1, keepdim=True) / 3 < 0).sum(1),
    }


def ragged_means(x: Tensor, y: Tensor) -> Tensor:
    """Means of softmaxes side by side: reductions within reductions, each of a part of the lanes alone."""

    def mean(z: Tensor) -> Tensor:
        odds = z.unflatten(0, (3, 4)).softmax(1)
        return (odds * lg.arange(4).float().unsqueeze(-1)).sum(1)

    return lg.cat([mean(x) * 2, mean(y) * 3], -1)


def smoothed(x: Tensor) -> Tensor:
    """Each step reads the last one at three places."""
    for _ in range(12):
        wide = x.pad((1, 1))
        x = x + (wide[..., 2:] + wide[..., :-2] - 2 * x) * 0.1
    return x


def long_chain(x: Tensor) -> Tensor:
    for n in range(120):
        x = (x.abs() * 1.5 + n).sqrt()
    return x


row("below_its_greatest", below_its_greatest, (N, M))
row("smoothed", smoothed, (N, M))
row("ragged_means", ragged_means, spec(12, 20), spec(12, M))
row("long_chain", long_chain, (N,))
row("a_difference_of_sizes", lambda x, y: x * (y.shape[0] - x.shape[0]), (N, 3), (M, 3))
row("a_mean_of_a_product_of_sizes", lambda x: x[:-1, ::2].mean(), (M + 1, M))
row("mlp", mlp, (N, 16), fill=small)
row("lenet", lenet, (N, 1, 8, 8))
row("slots", slots, (N, M))
row("in_place", in_place, (N, 12))

# --- PyTorch's other names ------------------------------------------------------------------------
# Where dims add nothing, shapes are numbers: these rows are run with the slow tests alone.


def outputs(*names: str) -> Callable[[Any], dict[str, Any]]:
    """Methods of one tensor, an output each; names of C that they would hide get a _."""
    return lambda x: {f"{n}_": getattr(x, n)() for n in names}


ELEMENTARY = {
    "exponentials": ("expm1", "log1p", "sinh", "cosh", "logit"),
    "angles": ("asin", "acos", "atan", "sinc", "deg2rad"),
    "areas": ("asinh", "acosh", "atanh", "erfc"),
    "roundings": ("trunc", "frac", "round", "nan_to_num", "signbit"),
    "gammas": ("lgamma", "digamma", "erfinv", "i0"),
}
for family, names in ELEMENTARY.items():
    row(family, outputs(*names), (13, 19), fill=specials, pointwise=True)
    row(f"{family}_f64", outputs(*names), spec(5, 7, dtype=f64), fill=specials, pointwise=True)
    row(f"{family}_wide", outputs(*names[:3]), (5, 67), fill=wide, pointwise=True)
row(
    "pairs",
    lambda a, b: {
        "atan2_": a.atan2(b),
        "hypot_": a.hypot(b),
        "copysign_": a.copysign(b),
        "logaddexp_": a.logaddexp(b),
        "xlogy_": a.xlogy(b),
        "fmax_": a.fmax(b),
        "heaviside_": a.heaviside(b),
        "fmod_": a.fmod(b),
    },
    (N, M),
    (N, M),
    fill=specials,
    pointwise=True,
)
row(
    "pow_tensors",
    lambda a, b: {"f_": a.pow(b), "w_": a.pow(b.round()), "n_": (-2.5) ** b},
    (N, M),
    (N, M),
    pointwise=True,
)
row("pow_special", lambda a, b: a.pow(b), (N, M), (N, M), fill=specials, pointwise=True)
row(
    "lerps",
    lambda a, b, w: {"t_": a.lerp(b, w), "n_": a.lerp(b, 0.75), "c_": a.addcmul(b, w, value=0.5)},
    (N, M),
    (N, M),
    (M,),
)
for t in (i8, u8, i32, i64):
    row(
        f"bits_{t}",
        lambda a, b: {"a_": a & b, "o_": a | b, "x_": a ^ b, "n_": ~a},
        spec(7, 5, dtype=t),
        spec(7, 5, dtype=t),
        fill=specials,
    )
    row(
        f"shifts_{t}",
        lambda a, s: {"l_": a << s, "r_": a >> s},
        spec(7, 5, dtype=t),
        spec(7, 5, dtype=t, range=(0, 7)),
        fill=specials,
    )
    row(
        f"quotients_{t}",
        lambda a, b, t=t: {
            "f_": a // b,
            "t_": a.div(lg.where(b == 0, lg.full((), 3, t), b), rounding_mode="trunc"),
            "m_": a.fmod(lg.where(b == 0, lg.full((), 3, t), b)),
            "c_": a // 7,
            "r_": a // b[:, :1],
        },
        spec(40, 25, dtype=t),
        spec(40, 25, dtype=t),
        fill=wide,
    )
row(
    "whole_powers",
    lambda a, b: a**b,
    spec(7, 5, dtype=i32),
    spec(7, 5, dtype=i32, range=(-2, 9)),
)
for op in ("mish", "selu", "celu", "hardswish", "hardsigmoid", "logsigmoid", "softsign"):
    row(op, lambda x, op=op: getattr(F, op)(x), (N, M), fill=specials, pointwise=True)
row(
    "shrinks",
    lambda x: {"s_": F.softshrink(x), "h_": F.hardshrink(x), "t_": F.threshold(x, 0.1, 20.0)},
    (N, M),
    fill=specials,
)
row("glu", lambda x: {"g_": F.glu(x), "p_": F.prelu(x, weight("p", 4))}, (N, 4, 6))
row(
    "prods",
    lambda x: {
        "p_": x.prod(1),
        "c_": x.prod(0, keepdim=True),
        "n_": x.nansum(1),
        "k_": (x > 0).sum(0),
    },
    (5, 7),
)
row(
    "prods_of_dims",
    lambda x, y: {"r_": x.prod(1), "c_": x.prod(0, keepdim=True), "a_": x.prod(), "i_": y.prod(0)},
    (N, M),
    spec(N, 3, dtype=i32),
    fill=small,
)
row("prod_of_dim_and_nothing", lambda x: x[1:].prod(0), (N, 3), fill=small)
row(
    "extrema",
    lambda x: {"v_": x.max(1).values, "i_": x.max(1).indices, "l_": x.min(0).values},
    (N, M),
)
row(
    "moments",
    lambda x: {"v_": lg.var_mean(x, 1)[0], "m_": lg.std_mean(x, 0, correction=0)[0], "c_": x.cov()},
    (5, 19),
)
row(
    "norms",
    lambda x: {
        "v_": lg.linalg.vector_norm(x, 3, 1),
        "m_": lg.linalg.matrix_norm(x, 1),
        "i_": lg.linalg.matrix_norm(x, -math.inf),
    },
    (N, M),
)
row("diffs", lambda x: {"d_": x.diff(), "t_": lg.trapezoid(x, dim=0)}, (7, M))
row(
    "diagonals",
    lambda x: {
        "d_": x.diagonal(1, 0, 1),
        "e_": x.diag_embed(-1),
        "t_": x.rot90(1, (0, 1)),
        "s_": x.diagonal_scatter(x.diagonal(), 0),
    },
    (7, 7),
)
row("diagonal_of_dims", lambda x: lg.tril(x, 2).movedim(0, 1).flipud(), (N, M))
row(
    "stacks",
    lambda x, y: {"h_": lg.hstack([x, y]), "v_": lg.vstack([x, y]), "d_": lg.dstack([x, y])},
    (N, M),
    (N, M),
)
row("blocks", lambda x, y: {"b_": lg.block_diag(x, y), "k_": lg.kron(x, y)}, (3, M), (2, 5))
for mode in ("reflect", "replicate", "circular"):
    row(f"pad_{mode}", lambda x, mode=mode: F.pad(x, (2, 1, 1, 3), mode), (2, 4, 5))
for mode in ("replicate", "circular"):
    row(f"pad_{mode}_dims", lambda x, mode=mode: F.pad(x + 1, (1, 0, 1, 1), mode), (N, M))
row(
    "scatters",
    lambda x, i, s: {
        "s_": x.scatter(0, i, s),
        "a_": x.scatter_add(1, i, s),
        "p_": x.scatter_reduce(0, i, s, "amax"),
        "m_": x.scatter_reduce(1, i, s, "mean", include_self=False),
    },
    (5, 5),
    spec(4, 3, dtype=i64, range=(0, 4)),
    (4, 3),
)
row(
    "index_writes",
    lambda x, i, s: {
        "a_": x.index_add(0, i, s),
        "c_": x.index_copy(0, i, s),
        "f_": x.index_fill(0, i, 2.5),
        "p_": x.index_put((i, i), s[:, 0], accumulate=True),
    },
    (7, 7),
    spec(3, dtype=i64, range=(0, 6)),
    (3, 7),
)
row(
    "scatters_to_many",
    lambda x, i, s: {
        "s_": x.scatter(0, i.unsqueeze(1).expand(-1, 3), s),
        "e_": x.mT.scatter_add(1, i.expand(3, -1), s.mT),
        "a_": x.index_add(0, i, s),
        "m_": x.index_reduce(0, i, s, "mean"),
        "h_": x.index_reduce(0, i, s, "amax", include_self=False),
        "p_": x.index_reduce(0, i, s, "prod"),
        "w_": (x > 0).index_put((i,), s > 0, accumulate=True),
        "n_": x[:, 0].scatter_add(0, i, x.new_ones(i.shape[0])),
        "o_": x[:, 1].scatter_add(0, i, s[:, 2]),
    },
    (2 * M, 3),
    spec(N, dtype=i64, range=(-4, 60)),
    (N, 3),
)
row(
    "indices",
    lambda x, i, j: {"b_": x[i, :, j], "r_": x[:, i, j], "l_": x[[2, 0], 1:], "t_": x.take(i)},
    (4, 4, 4),
    spec(N, dtype=i64, range=(-4, 3)),
    spec(N, dtype=i64, range=(0, 3)),
)
row(
    "einsums",
    lambda a, b: {
        "m_": lg.einsum("bij,bjk->bik", a, b),
        "t_": lg.einsum("...ij,...jk->...ki", a, b),
        "s_": lg.einsum("bij,bji", a, b.mT.mT[:, :, :5]),
        "d_": lg.tensordot(a, b, ([0, 2], [0, 1])),
    },
    (N, 5, 6),
    (N, 6, 7),
)
row(
    "matrices",
    lambda a, b: {
        "a_": lg.addmm(b, a, b, beta=0.5, alpha=2),
        "p_": lg.matrix_power(a, 3),
        "c_": lg.cdist(a, b),
        "o_": lg.outer(a[0], b[0]),
    },
    (6, 6),
    (6, 6),
)
row(
    "cross", lambda a, b: {"c_": a.cross(b, dim=1), "s_": F.cosine_similarity(a, b)}, (N, 3), (N, 3)
)
row("conv1d", lambda x: F.conv1d(x, weight("w", 6, 4, 3), weight("b", 6), 2, 1), (N, 4, 19))
row("conv3d", lambda x: F.conv3d(x, weight("w", 3, 2, 2, 3, 2), padding=1), (2, 2, 4, 5, 3))
for tag, kw in {
    "plain": {},
    "stride": {"stride": 2, "padding": 1, "output_padding": 1},
    "dilated": {"dilation": 2, "stride": (1, 3)},
}.items():
    row(
        f"conv_transpose_{tag}",
        lambda x, kw=kw: F.conv_transpose2d(x, weight("w", 4, 6, 3, 3), weight("b", 6), **kw),
        (N, 4, 5, 6),
    )
row(
    "conv_transpose_enlarged",
    lambda x: F.interpolate(
        F.conv_transpose2d(
            F.conv2d(x, weight("v", 4, 2, 3, 3), stride=2, padding=1),
            weight("w", 4, 3, 4, 4),
            stride=2,
            padding=1,
        ),
        scale_factor=2,
        mode="bilinear",
    ),
    (2, 2, M, N),
)
row("conv_transpose1d", lambda x: F.conv_transpose1d(x, weight("w", 4, 3, 2), stride=2), (N, 4, M))
row("im2col", lambda x: F.unfold(x, 3, padding=1, stride=2), (N, 2, 7, 6))
row("col2im", lambda x: F.fold(x, (5, 6), (2, 3), stride=(1, 2)), (N, 12, 8))
row(
    "shuffles",
    lambda x: {"p_": F.pixel_shuffle(x, 2), "c_": F.channel_shuffle(x, 4)},
    (N, 8, 3, 5),
)
row("unshuffle", lambda x: F.pixel_unshuffle(x, 2), (N, 3, 4, 6))
row(
    "pools",
    lambda x: {
        "m_": F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
        "i_": F.max_pool2d(x, 2, return_indices=True)[1],
        "e_": F.max_pool2d(x.relu(), 3, 2, 1, return_indices=True)[1],
        "a_": F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
        "l_": F.lp_pool2d(x.abs(), 3, 2),
    },
    (N, 2, 8, 7),
)
row(
    "adaptive_pools",
    lambda x: {
        "a_": F.adaptive_avg_pool2d(x, (3, 5)),
        "m_": F.adaptive_max_pool2d(x, (5, 2)),
        "i_": F.adaptive_max_pool2d(x, (2, 3), return_indices=True)[1],
        "e_": F.adaptive_max_pool2d(x.relu(), (3, 5), return_indices=True)[1],
    },
    (N, 2, 7, 8),
)
row(
    "pools_of_any_extent",
    lambda x: {
        "m_": F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
        "a_": F.avg_pool2d(x, 2, 3, 1, ceil_mode=True, count_include_pad=False),
        "b_": F.adaptive_avg_pool2d(x, (3, 1)),
        "c_": F.adaptive_max_pool2d(x, (None, 7)),
        "w_": F.avg_pool2d(x, x.shape[1:]),
        "v_": F.max_pool1d(x, x.shape[-1]),
    },
    (2, N, M),
)
for mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "area"):
    row(
        f"interpolate_{mode.replace('-', '_')}",
        lambda x, mode=mode: {
            "u_": F.interpolate(x, (9, 13), mode=mode),
            "d_": F.interpolate(x, scale_factor=0.6, mode=mode),
        },
        (2, 2, 5, 7),
    )
row(
    "pieces_dynamic",
    lambda x: {
        "a_": F.interpolate(x.repeat(1, 1, 2, 2), scale_factor=0.5, mode="area"),
        "m_": F.adaptive_max_pool2d(x.repeat(1, 1, 3, 1), (x.shape[2], 2)),
    },
    (1, 2, N, M),
)
row(
    "interpolate_aligned",
    lambda x: F.interpolate(x, (9, 13), mode="bilinear", align_corners=True),
    (2, 2, 5, 7),
)
row(
    "interpolate_dynamic",
    lambda x: {
        "s_": F.interpolate(x, scale_factor=2),
        "b_": F.interpolate(x, scale_factor=1.5, mode="bilinear"),
        "z_": F.interpolate(x, size=(x.shape[3], x.shape[2]), mode="bilinear"),
    },
    (1, 2, N, M),
)
row("grid_sample", lambda x, g: F.grid_sample(x, g / 2), (2, 3, 5, 6), (2, 4, 5, 2))
row(
    "grid_sample_dynamic",
    lambda x, g: {
        "b_": F.grid_sample(x, g / 2),
        "c_": F.grid_sample(x, g / 2, "bicubic", "reflection", align_corners=True),
        "n_": F.grid_sample(x, g / 2, "nearest", "border"),
    },
    (2, 3, N, M),
    (2, M, N, 2),
)
row(
    "affine_grid_dynamic",
    lambda t, x: F.grid_sample(x, F.affine_grid(t, x.shape), padding_mode="border"),
    (N, 2, 3),
    (N, 2, 5, M),
)
row(
    "other_norms",
    lambda x: {"i_": F.instance_norm(x), "l_": F.local_response_norm(x, 3)},
    (N, 4, 5, 3),
)
row(
    "losses",
    lambda x, y: {
        "h_": F.huber_loss(x, y),
        "s_": F.smooth_l1_loss(x, y, reduction="none"),
        "k_": F.kl_div(x, y.softmax(1), reduction="batchmean"),
        "b_": F.binary_cross_entropy_with_logits(x, y.sigmoid()),
        "c_": F.cross_entropy(x, y.softmax(1), label_smoothing=0.1),
    },
    (7, M),
    (7, M),
)
row(
    "class_losses",
    lambda x, t: {
        "n_": F.nll_loss(x, t, weight("c", 11).abs(), ignore_index=3),
        "s_": F.cross_entropy(x, t, label_smoothing=0.1, ignore_index=2),
        "m_": F.multi_margin_loss(x, t),
    },
    (N, 11),
    spec(N, dtype=i64, range=(0, 10)),
)
row(
    "embedding_bag",
    lambda i: F.embedding_bag(i, weight("w", 50, 16), mode="mean"),
    spec(7, 5, dtype=i64, range=(0, 49)),
)
row(
    "sorted_places",
    lambda x, b: {"b_": x.bucketize(b.abs() + lg.arange(5) * 9.0), "h_": x.histc(4, -2, 2)},
    (N, M),
    (5,),
)
row(
    "searched_f32",
    lambda x, b: {s + "_": lg.searchsorted(b.sort(-1)[0], x, side=s) for s in ("left", "right")},
    (N, M),
    (N, 70),
)
row(
    "searched_i32",
    lambda x, b: lg.searchsorted(b.sort(-1)[0], x, right=True),
    spec(N, M, dtype=i32, range=(-9, 40)),
    spec(300, dtype=i32, range=(-9, 40)),
)
row(
    "searched_i64",
    lambda x, b: lg.searchsorted(b.sort(-1)[0], x),
    spec(N, M, dtype=i64, range=(-9, 40)),
    spec(300, dtype=i64, range=(-9, 40)),
)
row(
    "searched_one",
    lambda x, b: lg.searchsorted(b, x),
    (N, M),
    (1,),
)
row(
    "chain_of_places",
    lambda t, x: t.gather(0, t.gather(0, x + 3) + (x < 4)),
    spec(30, dtype=i32, range=(-4, 33)),
    spec(M, dtype=i32, range=(-9, 40)),
)
row(
    "all_quotients_u8",
    lambda a: lg.arange(256).to(u8).unsqueeze(1) // a,
    spec(7, dtype=u8, range=(1, 255)),
)
row(
    "histograms",
    lambda x: {
        "h_": x.histc(5, -1, 1),
        "e_": lg.histogram(x, 4).hist,
        "m_": lg.histogramdd(x[:, :2], [2, 3], range=(-1, 1, -2, 2)).hist,
    },
    (13, 5),
)

# --- sorting --------------------------------------------------------------------------------------


def places(x: Tensor) -> dict[str, Tensor]:
    """Both ways, and the first ones alone."""
    up, down = x.sort(-1), x.sort(-1, descending=True)
    first = x.topk(3, -1, largest=False)
    return {
        "up_": up.values,
        "up_at": up.indices,
        "down_": down.values,
        "down_at": down.indices,
        "first_": first.values,
        "first_at": first.indices,
    }


row(
    "sort",
    lambda x: {"v_": x.sort(-1).values, "a_": x.sort(-1).indices, "d_": x.argsort(0, True)},
    (N, M),
    fill=specials,
)
for t in (f64, f16, bf16, i8, u8, i32, i64, boolean):
    row(f"sort_{t}", places, spec(5, 19, dtype=t), fill=specials)
row("sort_of_computed", lambda x: (x.floor() * 2).transpose(0, 2).argsort(0), (2, 5, 7))
row(
    "sort_of_one",
    lambda x: {"v_": x.sort(1).values, "a_": x.argsort(1), "t_": x.topk(1, 1).values},
    (N, 1),
)
row("sort_of_many", lambda x: x.argsort(-1), (2, 5003), fill=specials)
row("top_of_many", lambda x: {"few_": x.topk(9).indices, "more_": x.topk(1500).indices}, (2, 5003))
row(
    "middles",
    lambda x: {
        "m_": x.median(-1).values,
        "n_": x.nanmedian(0).indices,
        "o_": x.mode(-1).values,
        "k_": x.kthvalue(2, 0).indices,
    },
    (5, 19),
    fill=specials,
)
row("quantiles", lambda x: {"q_": x.quantile(0.3, -1), "n_": x.nanquantile(0.6)}, (N, M))

# --- elimination ----------------------------------------------------------------------------------


def well(x: Tensor) -> Tensor:
    """Matrices whose inverse is no larger than they are."""
    return x + lg.eye(x.shape[-1]) * 8


row(
    "solve",
    lambda x, b: {
        "x_": lg.linalg.solve(well(x), b),
        "d_": lg.linalg.slogdet(well(x)).logabsdet,
        "p_": lg.linalg.lu_factor(x).pivots,
    },
    (2, 4, 4),
    (2, 4, 3),
)
row("cholesky", lambda x: lg.linalg.cholesky(x @ x.mT + lg.eye(4)), (2, 4, 4))
row("qr", lambda x: {"r_": lg.linalg.qr(x).R, "q_": lg.linalg.qr(x).Q}, (5, 3))
row("matrix_exp", lambda x: lg.matrix_exp(x), (3, 3))
row(
    "chebyshev",
    lambda x, n: {
        "t_": lg.special.chebyshev_polynomial_t(x, n),
        "w_": lg.special.chebyshev_polynomial_w(x, n),
    },
    (5, 7),
    spec(7, dtype=i64, range=(0, 6)),
)

# --- random numbers -------------------------------------------------------------------------------


def draws(seed: Tensor, x: Tensor) -> dict[str, Tensor]:
    g = lg.Generator(seed)
    return {
        "u_": lg.rand_like(x, generator=g),
        "n_": lg.randn_like(x, generator=g) * 2 + 1,
        "i_": lg.randint(-3, 9, x.shape, generator=g),
        "b_": lg.bernoulli(x.sigmoid(), generator=g),
        "p_": lg.randperm(x.shape[1], generator=g),
    }


SEED = spec(dtype=i64)
row("draws", draws, SEED, (N, M))
for t in (f64, f16, bf16):
    row(f"draws_{t}", draws, SEED, spec(5, 7, dtype=t))
row(
    "dropout_of_product",
    lambda s, x: F.dropout(x @ x.mT, 0.3, True, generator=lg.Generator(s)),
    SEED,
    (5, 19),
)
row(
    "spaces_dynamic",
    lambda x: {"l_": x * lg.linspace(0.5, 3, x.shape[1]), "g_": lg.logspace(-1, 1, x.shape[0])},
    (N, M),
)
row("spaces", lambda x: {"l_": x * lg.linspace(0, 1, 7), "g_": x + lg.logspace(-1, 1, 7)}, (N, 7))

# --- scans ----------------------------------------------------------------------------------------

for op, fill in [("cumsum", offset), ("cumprod", small), ("logcumsumexp", numbers)]:
    row(
        op,
        lambda x, op=op: {"r_": getattr(x, op)(1), "c_": getattr(x, op)(0)},
        (N, M),
        fill=fill,
    )
for op in ["cummax", "cummin"]:
    row(
        op,
        lambda x, y, op=op: {
            "v_": getattr(x, op)(-1).values,
            "i_": getattr(x, op)(-1).indices,
            "w_": getattr(y, op)(0).values,
            "j_": getattr(y, op)(0).indices,
        },
        (N, M),
        spec(5, 3, dtype=i32),
        fill=specials,
    )
row(
    "cumulative_of_other_types",
    lambda x, y, z: {
        "i_": x.cumsum(0),
        "d_": y.cumprod(1),
        "b_": z.cumsum(1),
        "t_": z.cummax(2)[0],
    },
    spec(N, 3, dtype=u8),
    spec(3, M, dtype=f64),
    spec(2, 5, 7, dtype=bf16),
)
row(
    "cumsum_between",  # of what is computed, backwards, and more is made of it
    lambda x: (x.softmax(-1) * 2).flip(-1).cumsum(-1).flip(-1) + x,
    (N, M),
)
row("trapezoids", lambda y: lg.cumulative_trapezoid(y, dx=0.5), (N, 7))


def recurrent(x: Tensor) -> dict[str, Tensor]:
    """A step that multiplies matrices, and keeps more than its carry."""
    w = weight("recurrent", 9, 9)

    def step(h: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
        h = (e + h @ w * 0.1).tanh()
        return h, h.sum(-1)

    last, sums = lg.scan(step, x[0] * 0, x)
    return {"h_": last, "s_": sums}


def with_memory(x: Tensor) -> dict[str, Tensor]:
    """Two carries, the last element first."""
    w = weight("memory", 8, 2)

    def step(state: tuple[Tensor, Tensor], e: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
        h, c = state
        i, f, g, o = (e + h @ w.T).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        return (h, c), h

    start = lg.zeros(x.shape[0], 2)
    (h, c), every = lg.scan(step, (start, start), x, dim=1, reverse=True)
    return {"h_": h, "c_": c, "e_": every}


def nested(x: Tensor) -> dict[str, Tensor]:
    """A loop in each step of a loop."""

    def step(h: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
        def inner(c: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
            c = c + (d * h).sum(-1, True) * 0.1
            return c, c

        last, each = lg.scan(inner, h * 0, e)
        return last * 0.5, each.sum(0)

    last, sums = lg.scan(step, x[0, 0], x)
    return {"h_": last, "s_": sums}


row("scan_of_products", recurrent, (M, N, 9))
row("scan_of_two_carries", with_memory, (N, M, 8))
row("scan_in_a_scan", nested, (7, N, 3))
row(
    "scan_of_rows",
    lambda x, a: lg.scan(lambda h, e: (h * 0.5 + a * e, None), x[0], x)[0],
    (M, N),
    (N,),
)
row(
    "scan_of_nothing",
    lambda x: dict(
        zip("hs", lg.scan(lambda h, _: (h * x + 1, h.cumsum(0)), x, length=5), strict=True)
    ),
    (N,),
    fill=small,
)


# --- reductions in parts --------------------------------------------------------------------------

LONG = 300_000  # terms, which every device splits
row("long_sum", lambda x: x.sum(), spec(LONG), fill=offset)
row("long_rows", lambda x: x.softmax(-1), spec(2, LONG), fill=offset)
row("long_columns", lambda x: x.amax(0), spec(LONG // 8, 5))
row("long_mean", lambda x: x - x.mean(), spec(LONG), fill=offset)
row("long_argmax", lambda x: x.argmax(-1), spec(2, LONG), fill=offset)
row("long_sum_of_integers", lambda x: x.sum(), spec(LONG, dtype=i32))

WITH_DIMS = [p for p in ROWS if p.points != ({},)]
WITH_NUMBERS = [p for p in ROWS if p.points == ({},)]


@pytest.fixture(scope="module")
def library(request: pytest.FixtureRequest) -> Callable[[str], Library]:
    return on_demand((*WITH_DIMS, *WITH_NUMBERS), 15, request)


@pytest.mark.slow
@pytest.mark.parametrize("program", WITH_DIMS, ids=lambda p: p.name)
def test_dims(program: SmallProgram, library: Callable[[str], Library]) -> None:
    library(program.name).check(program)


@pytest.mark.slow
@pytest.mark.parametrize("program", WITH_NUMBERS, ids=lambda p: p.name)
def test_numbers(program: SmallProgram, library: Callable[[str], Library]) -> None:
    library(program.name).check(program)


def test_names_are_unique() -> None:
    assert len({p.name for p in ROWS}) == len(ROWS)
