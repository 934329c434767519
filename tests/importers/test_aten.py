"""The tables of ATen's ops: each core op has a row or a reason, and a row computes what PyTorch computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import imported
import pytest
import torch
from torch import nn

import lumigen as lg
from lumigen.importers.torch.aten import ROWS, reason_of, row_of
from lumigen.importers.torch.aten.refused import REASONS, REFUSED

aten = torch.ops.aten


def overloads() -> dict[str, Any]:
    """Every overload of ATen by its name."""
    names = [n.removeprefix("aten::") for n in torch._C._dispatch_get_all_op_names()]
    found: dict[str, Any] = {}
    for name in names:
        packet, _, kind = name.partition(".")
        if "::" not in packet and hasattr(aten, packet):
            found[f"{packet}.{kind or 'default'}"] = getattr(
                getattr(aten, packet), kind or "default"
            )
    return found


OPS = overloads()
CORE = sorted(name for name, op in OPS.items() if torch.Tag.core in op.tags)


def test_each_core_op_has_a_row_or_a_reason() -> None:
    assert len(CORE) > 150
    assert not [
        name
        for name in CORE
        if (row_of(f"aten.{name}") is None) == (reason_of(f"aten.{name}") is None)
    ]


def test_rows_and_reasons_are_of_ops_that_there_are() -> None:
    packets = {name.partition(".")[0] for name in OPS}
    names = [n for n in (*ROWS, *REASONS) if not n.startswith("transformers.")]
    assert not [n for n in names if n not in (OPS if "." in n else packets)]
    assert len(REASONS) == sum(map(len, REFUSED.values()))
    assert not set(ROWS) & set(REASONS)


# --- ops that modules do not come to by themselves ----------------------------------------------------

X = torch.linspace(-2, 2, 24).reshape(2, 3, 4)
Y = torch.linspace(0.3, 1.7, 24).reshape(2, 3, 4).flip(0)
IMAGE = torch.linspace(-1, 1, 2 * 4 * 6 * 6).reshape(2, 4, 6, 6).sin()
VECTOR = torch.linspace(0.5, 1.5, 4)
IDS = torch.tensor([2, 0, 1])


def square(x: torch.Tensor) -> torch.Tensor:
    """A matrix whose diagonal is great."""
    return 0.1 * x.reshape(-1)[:16].reshape(4, 4).cos() + torch.eye(4)


CASES: dict[str, Callable[[torch.Tensor], Any]] = {
    "add.Scalar": lambda x: aten.add.Scalar(x, 3, 2),
    "sub.Scalar": lambda x: aten.sub.Scalar(x, 3, 2),
    "rsub.Scalar": lambda x: aten.rsub.Scalar(x, 3, 2),
    "rsub.Tensor": lambda x: aten.rsub.Tensor(x, Y, alpha=2),
    "pow.Scalar": lambda x: aten.pow.Scalar(2, x),
    "div.Scalar_mode": lambda x: aten.div.Scalar_mode(x, 0.7, rounding_mode="floor"),
    "elu": lambda x: aten.elu(x, 1.5, 2.0, 0.5),
    "fill.Tensor": lambda x: aten.fill.Tensor(x, Y[0, 0, 0]) + x,
    "tensordot": lambda x: torch.tensordot(x, Y, ([0, 2], [0, 2])),
    "embedding_bag": lambda x: torch.nn.functional.embedding_bag(IDS, x[0], IDS[:1] * 0),
    "copy": lambda x: aten.copy(x, Y[0]) + x,
    "clamp.Tensor": lambda x: aten.clamp.Tensor(x, Y - 1, Y),
    "where.ScalarOther": lambda x: aten.where.ScalarOther(x > 0, x, -1.0),
    "scalar_tensor": lambda x: aten.scalar_tensor(2.5) * x,
    "slice_scatter": lambda x: aten.slice_scatter(x, Y[:, :2], 1, 1, 3),
    "slice_scatter of all": lambda x: aten.slice_scatter(x, Y, 1, 0, 2**63 - 1),
    "select_scatter": lambda x: aten.select_scatter(x, Y[:, 0], 1, -1),
    "as_strided": lambda x: aten.as_strided(x, [3, 4], [4, 2], 1),
    "index between slices": lambda x: aten.index.Tensor(x, [None, IDS, None]),
    "index by two": lambda x: aten.index.Tensor(x, [IDS % 2, None, IDS]),
    "index_put in the middle": lambda x: aten.index_put(x, [None, IDS[:2], None], Y[:, :2]),
    "index_put apart": lambda x: aten.index_put(x, [IDS[1:], None, IDS[1:]], Y[0, :2, :3]),
    "index_put adding": lambda x: aten.index_put(x, [IDS * 0], Y[:1], True),
    "index_put by a mask": lambda x: aten.index_put(x, [None, x[0] > 0], VECTOR[0]),
    "scatter.value": lambda x: aten.scatter.value(x, 1, IDS.reshape(1, 3, 1), 9.0),
    "scatter_reduce": lambda x: aten.scatter_reduce(x, 1, IDS.reshape(1, 3, 1), Y, "amax"),
    "constant_pad_nd": lambda x: aten.constant_pad_nd(x, [1, 2, 0, 1], 3.0),
    "reflection_pad1d": lambda x: aten.reflection_pad1d(x, [2, 1]),
    "replication_pad2d": lambda x: aten.replication_pad2d(IMAGE, [2, 1, 0, 3]),
    "repeat_interleave": lambda x: aten.repeat_interleave.self_int(x, 2, 1),
    "split_with_sizes": lambda x: aten.split_with_sizes(x, [1, 2], 1)[1],
    "arange.start_step": lambda x: x + aten.arange.start_step(1, 9, 2),
    "linspace": lambda x: x * aten.linspace(0, 1, 4),
    "tril_indices": lambda x: aten.tril_indices(3, 3) + IDS[0],
    "_softmax": lambda x: aten._softmax(x, -1, False),
    "_safe_softmax": lambda x: aten._safe_softmax(torch.where(x > -1, x, -torch.inf), -1),
    "_log_softmax": lambda x: aten._log_softmax(x, 1, False),
    "var.correction": lambda x: aten.var.correction(x, [1], correction=0, keepdim=True),
    "var.dim": lambda x: aten.var.dim(x, [1, 2]),
    "max.dim": lambda x: aten.max.dim(x.sin(), 1)[1],
    "min": lambda x: aten.min(x.sin()),
    "topk": lambda x: aten.topk(x.cos(), 2)[0],
    "sort": lambda x: aten.sort(x.cos(), 1, True)[1],
    "sort.stable": lambda x: aten.sort.stable(x.cos(), stable=True, dim=1)[0],
    "norm": lambda x: aten.norm.ScalarOpt_dim(x, 2, [1], True),
    "linalg_vector_norm": lambda x: aten.linalg_vector_norm(x, 1, [0, 2]),
    "einsum": lambda x: aten.einsum("bij,bkj->bik", [x, Y]),
    "addmm": lambda x: aten.addmm(x[0, :, :3], x[0], Y[0].T, beta=0.5, alpha=2),
    "_cdist_forward": lambda x: aten._cdist_forward(x, Y, 2.0, None),
    "_pdist_forward": lambda x: aten._pdist_forward(x[0], 2.0),
    "convolution": lambda x: aten.convolution(
        IMAGE, IMAGE[:, :, :2, :2], None, [1, 2], [1, 0], [1, 1], False, [0, 0], 1
    ),
    "convolution transposed": lambda x: aten.convolution(
        IMAGE,
        IMAGE[:1, :, :2, :2].expand(4, 4, 2, 2),
        VECTOR,
        [2, 2],
        [0, 0],
        [1, 1],
        True,
        [1, 1],
        1,
    ),
    "max_pool2d_with_indices": lambda x: aten.max_pool2d_with_indices(IMAGE, [2, 2], [1, 2])[1],
    "avg_pool2d": lambda x: aten.avg_pool2d(IMAGE, [3, 3], [2, 2], [1, 1], True, False),
    "_adaptive_avg_pool2d": lambda x: aten._adaptive_avg_pool2d(IMAGE, [4, 5]),
    "adaptive_max_pool2d": lambda x: aten.adaptive_max_pool2d(IMAGE, [2, 5])[0],
    "native_layer_norm": lambda x: aten.native_layer_norm(x, [4], VECTOR, None, 1e-5),
    "native_group_norm": lambda x: aten.native_group_norm(IMAGE, VECTOR, None, 2, 4, 36, 2, 1e-5),
    "_native_batch_norm_legit.no_stats": lambda x: aten._native_batch_norm_legit.no_stats(
        IMAGE, VECTOR, None, True, 0.1, 1e-5
    ),
    "_native_batch_norm_legit_functional": lambda x: aten._native_batch_norm_legit_functional(
        IMAGE, VECTOR, None, VECTOR, VECTOR, True, 0.1, 1e-5
    ),
    "instance_norm": lambda x: aten.instance_norm(
        IMAGE, VECTOR, None, None, None, True, 0.1, 1e-5, False
    ),
    "embedding": lambda x: aten.embedding(Y[0], IDS),
    "_embedding_bag": lambda x: aten._embedding_bag(Y[0], IDS, torch.tensor([0, 2]), False, 1)[0],
    "grid_sampler_2d": lambda x: aten.grid_sampler_2d(IMAGE, IMAGE[..., :2], 0, 1, False),
    "upsample_bilinear2d.vec": lambda x: aten.upsample_bilinear2d.vec(
        IMAGE, None, False, [1.5, 2.0]
    ),
    "upsample_bilinear2d": lambda x: aten.upsample_bilinear2d(IMAGE, [9, 4], True),
    "upsample_bicubic2d.vec": lambda x: aten.upsample_bicubic2d.vec(IMAGE, [9, 4], False, None),
    "upsample_nearest2d.vec": lambda x: aten.upsample_nearest2d.vec(IMAGE, None, [2.0, 1.5]),
    "upsample_nearest2d": lambda x: aten.upsample_nearest2d(IMAGE, [12, 3]),
    "_upsample_nearest_exact2d": lambda x: aten._upsample_nearest_exact2d(IMAGE, [12, 3]),
    "col2im": lambda x: aten.col2im(
        IMAGE[0].reshape(4, 36)[:, :25], [6, 6], [2, 2], [1, 1], [0, 0], [1, 1]
    ),
    "im2col": lambda x: aten.im2col(IMAGE, [2, 2], [1, 1], [0, 0], [2, 2]),
    "flash attention": lambda x: aten._scaled_dot_product_flash_attention_for_cpu(
        IMAGE, IMAGE, IMAGE, 0.0, True
    )[0],
    "log_sigmoid_forward": lambda x: aten.log_sigmoid_forward(x)[0],
    "bitwise": lambda x: aten.__and__.Scalar(IDS, 3) + aten.__lshift__.Scalar(IDS, 2),
    "masked_scatter": lambda x: aten.masked_scatter(x, x > 0, Y),
    "_to_copy": lambda x: aten._to_copy(x, dtype=torch.int64),
    "block_diag": lambda x: aten.block_diag([x[0], Y[1]]),
    "as_strided_copy": lambda x: aten.as_strided_copy(x, [3, 4], [4, 2], 1),
    "permute_copy": lambda x: aten.permute_copy(x, [2, 0, 1]),
    "view_copy": lambda x: aten.view_copy(x, [6, 4]),
    "dist": lambda x: aten.dist(x, Y),
    "polygamma": lambda x: aten.polygamma(1, Y),
    "special_i1": lambda x: aten.special_i1(x) + aten.special_zeta(x + 4, Y),
    "angle": lambda x: aten.angle(x),
    "frexp": lambda x: aten.frexp.Tensor(x),
    "gcd": lambda x: aten.gcd(IDS * 6, IDS + 9) + aten.lcm(IDS * 6, IDS + 9),
    "cholesky": lambda x: aten.cholesky(square(x) @ square(x).mT, True),
    "cholesky_solve": lambda x: aten.cholesky_solve(x[0].mT, square(x).tril()),
    "linalg_cholesky_ex": lambda x: aten.linalg_cholesky_ex(square(x) @ square(x).mT),
    "linalg_lu_factor_ex": lambda x: aten.linalg_lu_factor_ex(square(x)),
    "linalg_lu_solve": lambda x: aten.linalg_lu_solve(
        *aten.linalg_lu_factor_ex(square(x))[:2], x[0].mT
    ),
    "linalg_qr": lambda x: aten.linalg_qr(square(x)[:, :2]),
    "linalg_matrix_exp": lambda x: aten.linalg_matrix_exp(square(x) * 0.1),
    "linalg_solve_triangular": lambda x: aten.linalg_solve_triangular(
        square(x), x[0].mT, upper=True
    ),
    "_linalg_solve_ex": lambda x: aten._linalg_solve_ex(square(x), x[0].mT)[0],
    "_linalg_slogdet": lambda x: aten._linalg_slogdet(square(x))[:2],
    "_linalg_det": lambda x: aten._linalg_det(square(x))[0],
    "ormqr": lambda x: aten.ormqr(*aten.geqrf(square(x)), x[0].mT),
}


class Cases(nn.Module):
    """All cases, whose first tensor is an input, so that nothing of it is known beforehand."""

    def forward(self, x: torch.Tensor) -> Any:
        return [made(x) for made in CASES.values()]


@pytest.fixture(scope="module")
def results() -> dict[str, tuple[Any, Any]]:
    """What lumigen and what PyTorch computes of each case."""
    module = Cases()
    model = lg.from_torch(module, (X,), name="cases")
    got, _ = imported.run(model, (X,), {})
    with torch.no_grad():
        want = module(X)
    flat = iter(got.values())
    return {
        name: ([next(flat) for _ in imported.arrays(one)], imported.arrays(one))
        for name, one in zip(CASES, want, strict=True)
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_an_op_is_what_pytorch_computes(name: str, results: dict[str, tuple[Any, Any]]) -> None:
    got, want = results[name]
    imported.check(dict(enumerate(got)), want)
