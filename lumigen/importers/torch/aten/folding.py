# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
"""folding: the ops of ATen that sum, compare or order along axes, and products, as calls of the frontend."""

from __future__ import annotations

from typing import Any

from lumigen.dtype import DType
from lumigen.frontend import functional, functions, linalg
from lumigen.frontend.tensor import Tensor
from lumigen.importers.torch.aten.row import Table, same

OF_TORCH = """
addbmm addmm addmv addr all amax amin aminmax any argmax argmin argsort baddbmm bmm bucketize cdist
count_nonzero cross cummax cummin cumprod cumsum diff dist dot equal histc inner kthvalue logcumsumexp
logsumexp matmul max mean median min mm mode mv nanmean nanmedian nansum outer prod quantile
renorm searchsorted std std_mean sum topk trace var var_mean vdot
"""
OF_FUNCTIONAL = """
bilinear cosine_similarity linear log_softmax pairwise_distance softmax
"""


def softmax(input: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """Softmax; 16 bits may become f32."""
    return (input.float() if half_to_float else input).softmax(dim)


def log_softmax(input: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """Likewise its logarithm."""
    return (input.float() if half_to_float else input).log_softmax(dim)


def safe_softmax(x: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """Softmax, and 0 in a row of nothing but -inf."""
    x = x if dtype is None else x.to(dtype)
    return functions.where((x == float("-inf")).all(dim, keepdim=True), 0.0, x.softmax(dim))


def sort(input: Tensor, *args: Any, stable: bool = False, **named: Any) -> Any:
    """Values and indices; the order of equal elements is kept in any case."""
    del stable
    return functions.sort(input, *args, **named)


def norm(
    input: Tensor,
    p: Any = 2,
    dim: Any = None,
    keepdim: bool = False,
    dtype: DType | None = None,
) -> Tensor:
    """The norm of vectors along axes."""
    return linalg.vector_norm(input, 2 if p is None else p, dim or None, keepdim, dtype=dtype)


def grouped_mm(input: Tensor, weight: Tensor, ends: Tensor, bias: Tensor | None = None) -> Tensor:
    """(rows, in), (groups, in, out): each row times the matrix of its group; `ends` says where groups end."""
    row = functions.arange(input.shape[0]).unsqueeze(1)
    group = (ends <= row).sum(1)
    out = (input.unsqueeze(1) @ weight[group]).squeeze(1)
    return out if bias is None else out + bias


FOLDING: Table = {
    **same(functions, OF_TORCH),
    **same(functional, OF_FUNCTIONAL),
    "_softmax": softmax,
    "_safe_softmax": safe_softmax,
    "_log_softmax": log_softmax,
    "_cdist_forward": functions.cdist,
    "_pdist_forward": functions.pdist,
    "einsum": lambda equation, tensors, path=None: functions.einsum(equation, *tensors),
    "_grouped_mm": grouped_mm,
    "transformers.grouped_mm_fallback": grouped_mm,
    "linalg_vector_norm": linalg.vector_norm,
    "norm": norm,
    "sort": sort,
    "tensordot": lambda a, b, of_a, of_b: functions.tensordot(a, b, (of_a, of_b)),
    "pdist": functions.pdist,
    "linalg_cross": lambda x, y, dim=-1: functions.cross(x, y, dim),
    "linalg_matmul": functions.matmul,
    "linalg_vecdot": lambda x, y, dim=-1: linalg.vecdot(x, y, dim=dim),
}
