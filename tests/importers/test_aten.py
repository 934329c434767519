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
    assert not [name for name in CORE if (row_of(name) is None) == (reason_of(name) is None)]


def test_rows_and_reasons_are_of_ops_that_there_are() -> None:
    packets = {name.partition(".")[0] for name in OPS}
    names = [*ROWS, *REASONS]
    assert not [n for n in names if n not in (OPS if "." in n else packets)]
    assert len(REASONS) == sum(map(len, REFUSED.values()))
    assert not set(ROWS) & set(REASONS)


# --- ops that modules do not come to by themselves ----------------------------------------------------

X = torch.linspace(-2, 2, 24).reshape(2, 3, 4)
Y = torch.linspace(0.3, 1.7, 24).reshape(2, 3, 4).flip(0)
IMAGE = torch.linspace(-1, 1, 2 * 4 * 6 * 6).reshape(2, 4, 6, 6).sin()
VECTOR = torch.linspace(0.5, 1.5, 4)
IDS = torch.tensor([2, 0, 1])

CASES: dict[str, Callable[[], Any]] = {
    "add.Scalar": lambda: aten.add.Scalar(X, 3, 2),
    "sub.Scalar": lambda: aten.sub.Scalar(X, 3, 2),
    "rsub.Scalar": lambda: aten.rsub.Scalar(X, 3, 2),
    "rsub.Tensor": lambda: aten.rsub.Tensor(X, Y, alpha=2),
    "pow.Scalar": lambda: aten.pow.Scalar(2, X),
    "div.Scalar_mode": lambda: aten.div.Scalar_mode(X, 0.7, rounding_mode="floor"),
    "elu": lambda: aten.elu(X, 1.5, 2.0, 0.5),
    "fill.Tensor": lambda: aten.fill.Tensor(X, Y[0, 0, 0]) + X,
    "copy": lambda: aten.copy(X, Y[0]) + X,
    "clamp.Tensor": lambda: aten.clamp.Tensor(X, Y - 1, Y),
    "where.ScalarOther": lambda: aten.where.ScalarOther(X > 0, X, -1.0),
    "scalar_tensor": lambda: aten.scalar_tensor(2.5) * X,
    "slice_scatter": lambda: aten.slice_scatter(X, Y[:, :2], 1, 1, 3),
    "slice_scatter of all": lambda: aten.slice_scatter(X, Y, 1, 0, 2**63 - 1),
    "select_scatter": lambda: aten.select_scatter(X, Y[:, 0], 1, -1),
    "as_strided": lambda: aten.as_strided(X, [3, 4], [4, 2], 1),
    "index between slices": lambda: aten.index.Tensor(X, [None, IDS, None]),
    "index by two": lambda: aten.index.Tensor(X, [IDS % 2, None, IDS]),
    "index_put in the middle": lambda: aten.index_put(X, [None, IDS[:2], None], Y[:, :2]),
    "index_put apart": lambda: aten.index_put(X, [IDS[1:], None, IDS[1:]], Y[0, :2, :3]),
    "index_put adding": lambda: aten.index_put(X, [IDS * 0], Y[:1], True),
    "index_put by a mask": lambda: aten.index_put(X, [None, X[0] > 0], VECTOR[0]),
    "scatter.value": lambda: aten.scatter.value(X, 1, IDS.reshape(1, 3, 1), 9.0),
    "scatter_reduce": lambda: aten.scatter_reduce(X, 1, IDS.reshape(1, 3, 1), Y, "amax"),
    "constant_pad_nd": lambda: aten.constant_pad_nd(X, [1, 2, 0, 1], 3.0),
    "reflection_pad1d": lambda: aten.reflection_pad1d(X, [2, 1]),
    "replication_pad2d": lambda: aten.replication_pad2d(IMAGE, [2, 1, 0, 3]),
    "repeat_interleave": lambda: aten.repeat_interleave.self_int(X, 2, 1),
    "split_with_sizes": lambda: aten.split_with_sizes(X, [1, 2], 1)[1],
    "arange.start_step": lambda: X + aten.arange.start_step(1, 9, 2),
    "linspace": lambda: X * aten.linspace(0, 1, 4),
    "tril_indices": lambda: aten.tril_indices(3, 3) + IDS[0],
    "_softmax": lambda: aten._softmax(X, -1, False),
    "_safe_softmax": lambda: aten._safe_softmax(torch.where(X > -1, X, -torch.inf), -1),
    "_log_softmax": lambda: aten._log_softmax(X, 1, False),
    "var.correction": lambda: aten.var.correction(X, [1], correction=0, keepdim=True),
    "var.dim": lambda: aten.var.dim(X, [1, 2]),
    "max.dim": lambda: aten.max.dim(X.sin(), 1)[1],
    "min": lambda: aten.min(X.sin()),
    "topk": lambda: aten.topk(X.cos(), 2)[0],
    "sort": lambda: aten.sort(X.cos(), 1, True)[1],
    "sort.stable": lambda: aten.sort.stable(X.cos(), stable=True, dim=1)[0],
    "norm": lambda: aten.norm.ScalarOpt_dim(X, 2, [1], True),
    "linalg_vector_norm": lambda: aten.linalg_vector_norm(X, 1, [0, 2]),
    "einsum": lambda: aten.einsum("bij,bkj->bik", [X, Y]),
    "addmm": lambda: aten.addmm(X[0, :, :3], X[0], Y[0].T, beta=0.5, alpha=2),
    "_cdist_forward": lambda: aten._cdist_forward(X, Y, 2.0, None),
    "_pdist_forward": lambda: aten._pdist_forward(X[0], 2.0),
    "convolution": lambda: aten.convolution(
        IMAGE, IMAGE[:, :, :2, :2], None, [1, 2], [1, 0], [1, 1], False, [0, 0], 1
    ),
    "convolution transposed": lambda: aten.convolution(
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
    "max_pool2d_with_indices": lambda: aten.max_pool2d_with_indices(IMAGE, [2, 2], [1, 2])[1],
    "avg_pool2d": lambda: aten.avg_pool2d(IMAGE, [3, 3], [2, 2], [1, 1], True, False),
    "_adaptive_avg_pool2d": lambda: aten._adaptive_avg_pool2d(IMAGE, [4, 5]),
    "adaptive_max_pool2d": lambda: aten.adaptive_max_pool2d(IMAGE, [2, 5])[0],
    "native_layer_norm": lambda: aten.native_layer_norm(X, [4], VECTOR, None, 1e-5),
    "native_group_norm": lambda: aten.native_group_norm(IMAGE, VECTOR, None, 2, 4, 36, 2, 1e-5),
    "_native_batch_norm_legit.no_stats": lambda: aten._native_batch_norm_legit.no_stats(
        IMAGE, VECTOR, None, True, 0.1, 1e-5
    ),
    "_native_batch_norm_legit_functional": lambda: aten._native_batch_norm_legit_functional(
        IMAGE, VECTOR, None, VECTOR, VECTOR, True, 0.1, 1e-5
    ),
    "instance_norm": lambda: aten.instance_norm(
        IMAGE, VECTOR, None, None, None, True, 0.1, 1e-5, False
    ),
    "embedding": lambda: aten.embedding(Y[0], IDS),
    "_embedding_bag": lambda: aten._embedding_bag(Y[0], IDS, torch.tensor([0, 2]), False, 1)[0],
    "grid_sampler_2d": lambda: aten.grid_sampler_2d(IMAGE, IMAGE[..., :2], 0, 1, False),
    "upsample_bilinear2d.vec": lambda: aten.upsample_bilinear2d.vec(IMAGE, None, False, [1.5, 2.0]),
    "upsample_bilinear2d": lambda: aten.upsample_bilinear2d(IMAGE, [9, 4], True),
    "upsample_bicubic2d.vec": lambda: aten.upsample_bicubic2d.vec(IMAGE, [9, 4], False, None),
    "upsample_nearest2d.vec": lambda: aten.upsample_nearest2d.vec(IMAGE, None, [2.0, 1.5]),
    "upsample_nearest2d": lambda: aten.upsample_nearest2d(IMAGE, [12, 3]),
    "_upsample_nearest_exact2d": lambda: aten._upsample_nearest_exact2d(IMAGE, [12, 3]),
    "col2im": lambda: aten.col2im(
        IMAGE[0].reshape(4, 36)[:, :25], [6, 6], [2, 2], [1, 1], [0, 0], [1, 1]
    ),
    "im2col": lambda: aten.im2col(IMAGE, [2, 2], [1, 1], [0, 0], [2, 2]),
    "flash attention": lambda: aten._scaled_dot_product_flash_attention_for_cpu(
        IMAGE, IMAGE, IMAGE, 0.0, True
    )[0],
    "log_sigmoid_forward": lambda: aten.log_sigmoid_forward(X)[0],
    "bitwise": lambda: aten.__and__.Scalar(IDS, 3) + aten.__lshift__.Scalar(IDS, 2),
    "masked_scatter": lambda: aten.masked_scatter(X, X > 0, Y),
    "_to_copy": lambda: aten._to_copy(X, dtype=torch.int64),
}


class Cases(nn.Module):
    """All cases, whose first tensor is an input, so that nothing of it is known beforehand."""

    def forward(self, x: torch.Tensor) -> Any:
        global X
        kept, X = X, x
        try:
            return [made() for made in CASES.values()]
        finally:
            X = kept


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


@pytest.mark.parametrize("name", CASES)
def test_an_op_is_what_pytorch_computes(name: str, results: dict[str, tuple[Any, Any]]) -> None:
    got, want = results[name]
    imported.check(dict(enumerate(got)), want)
