# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
"""layers: the ops of ATen that are layers of networks, and the calls of the frontend that they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lumigen.errors import BadArgument
from lumigen.frontend import functional, functions
from lumigen.frontend.tensor import Tensor
from lumigen.frontend.trace import fail
from lumigen.importers.torch.aten.row import Row, Table, first, same

OF_FUNCTIONAL = """
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d avg_pool1d avg_pool2d avg_pool3d
conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d max_pool1d
max_pool2d max_pool3d rms_norm scaled_dot_product_attention
"""
CONVOLUTIONS = (functional.conv1d, functional.conv2d, functional.conv3d)
TRANSPOSED = (
    functional.conv_transpose1d,
    functional.conv_transpose2d,
    functional.conv_transpose3d,
)
INTERPOLATIONS = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")
BAGS = ("sum", "mean", "max")

Optional = Tensor | None


def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Optional,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Tensor:
    """A convolution over one to three axes, or its transpose."""
    rank = weight.ndim - 3
    stride, padding, dilation = (wide(s, rank + 1) for s in (stride, padding, dilation))
    if transposed:
        more = wide(output_padding, rank + 1)
        return TRANSPOSED[rank](input, weight, bias, stride, padding, more, groups, dilation)
    return CONVOLUTIONS[rank](input, weight, bias, stride, padding, dilation, groups)


def wide(sizes: Sequence[int], rank: int) -> tuple[int, ...]:
    """One size for each axis."""
    return tuple(sizes) * rank if len(sizes) == 1 else tuple(sizes)


def pooled_with_indices(pool: Row) -> Row:
    """The greatest of each window, and where it was."""
    return lambda *args: pool(*args, return_indices=True)


def embedding(weight: Tensor, indices: Tensor, *_: Any) -> Tensor:
    """Rows of a table."""
    return functional.embedding(indices, weight)


def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Optional = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Any, ...]:
    """Sums, means or maxima of rows of a table; what only a backward pass reads is left out."""
    del scale_grad_by_freq, sparse
    out = functional.embedding_bag(
        indices,
        weight,
        offsets,
        mode=BAGS[mode],
        per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset,
        padding_idx=None if padding_idx is None or padding_idx < 0 else padding_idx,
    )
    return out, None, None, None


# --- norms ----------------------------------------------------------------------------------------


def batch_norm(
    input: Tensor,
    weight: Optional,
    bias: Optional,
    mean: Optional,
    var: Optional,
    training: bool,
    momentum: float,
    eps: float,
    *_: Any,
) -> Tensor:
    """By the running statistics, or by those of the batch."""
    return functional.batch_norm(input, mean, var, weight, bias, training, momentum, eps)


def batch_norm_of_running(
    input: Tensor,
    weight: Optional,
    bias: Optional,
    mean: Tensor,
    var: Tensor,
    momentum: float,
    eps: float,
) -> tuple[Any, ...]:
    """By the running statistics."""
    return batch_norm(input, weight, bias, mean, var, False, momentum, eps), None, None


def batch_norm_of_batch(
    input: Tensor, weight: Optional, bias: Optional, training: bool, momentum: float, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """By the batch, without running statistics: also the mean and 1 / deviation."""
    dims = (0, *range(2, input.ndim))
    out = batch_norm(input, weight, bias, None, None, training, momentum, eps)
    return out, input.mean(dims), (functions.var(input, dims, correction=0) + eps).rsqrt()


def batch_norm_functional(
    input: Tensor,
    weight: Optional,
    bias: Optional,
    mean: Tensor,
    var: Tensor,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Any, ...]:
    """Likewise, with the running statistics that come after the batch."""
    if not training:
        out = batch_norm(input, weight, bias, mean, var, False, momentum, eps)
        return out, None, None, mean, var
    dims = (0, *range(2, input.ndim))
    out, own, scale = batch_norm_of_batch(input, weight, bias, training, momentum, eps)
    spread = functions.var(input, dims, correction=1)
    new_mean = mean * (1 - momentum) + own * momentum
    new_var = var * (1 - momentum) + spread * momentum
    return out, own, scale, new_mean, new_var


def instance_norm(
    input: Tensor,
    weight: Optional,
    bias: Optional,
    mean: Optional,
    var: Optional,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """Each channel of each example by itself."""
    del cudnn_enabled
    return functional.instance_norm(input, mean, var, weight, bias, use_input_stats, momentum, eps)


def native_layer_norm(
    input: Tensor, shape: Sequence[Any], weight: Optional, bias: Optional, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The norm over the last axes, the mean and 1 / deviation."""
    dims = tuple(range(-len(shape), 0))
    scale = (functions.var(input, dims, correction=0, keepdim=True) + eps).rsqrt()
    out = functional.layer_norm(input, shape, weight, bias, eps)
    return out, input.mean(dims, keepdim=True), scale


def native_group_norm(
    input: Tensor,
    weight: Optional,
    bias: Optional,
    batch: Any,
    channels: Any,
    positions: Any,
    groups: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """The norm over groups of channels, the mean and 1 / deviation of each."""
    flat = input.reshape(batch, groups, channels // groups * positions)
    scale = (functions.var(flat, -1, correction=0) + eps).rsqrt()
    return functional.group_norm(input, groups, weight, bias, eps), flat.mean(-1), scale


# --- resizing -------------------------------------------------------------------------------------


def resized(mode: str, *, smooth: bool = False) -> Row:
    """The overloads `vec` of resizing by lines: a size, or factors."""

    def row(input: Tensor, size: Any, corners: Any, factors: Any = None) -> Tensor:
        known = listed(factors, size)
        return functional.interpolate(input, size, known, mode, corners, antialias=smooth)

    return row


def resized_to(mode: str, *, smooth: bool = False) -> Row:
    """The other overloads: a size, whatever the factors were that led to it."""

    def row(input: Tensor, size: Any, corners: bool, *factors: Any) -> Tensor:
        known = list(factors) if factors and None not in factors else None
        wanted = size if known is None else None
        return functional.interpolate(input, wanted, known, mode, corners, antialias=smooth)

    return row


def nearest(mode: str) -> Row:
    """Resizing by the nearest element: a size, or factors."""

    def row(input: Tensor, size: Any, factors: Any = None, *more: Any) -> Tensor:
        return functional.interpolate(input, size, listed(factors, size), mode)

    return row


def listed(factors: Any, size: Any) -> list[float] | None:
    """The factors, where no size is given."""
    if size is not None or not factors:
        return None
    return list(factors)


def grid_sampler(input: Tensor, grid: Tensor, mode: int, padding: int, corners: bool) -> Tensor:
    """Elements at positions that are data."""
    return functional.grid_sample(input, grid, INTERPOLATIONS[mode], PADDINGS[padding], corners)


# --- attention and dropout ------------------------------------------------------------------------


def flash_for_cpu(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Optional = None,
    scale: float | None = None,
) -> tuple[Any, ...]:
    """Attention, without the sums that a backward pass reads."""
    out = functional.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale
    )
    return out, None


def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """The same elements: nothing is dropped but in training."""
    if train and p:
        expected = "a module in inference; call .eval() before it is exported"
        raise fail(BadArgument, op="dropout", name="train", value=True, expected=expected)
    return input


LAYERS: Table = {
    **same(functional, OF_FUNCTIONAL),
    "_adaptive_avg_pool2d": functional.adaptive_avg_pool2d,
    "_adaptive_avg_pool3d": functional.adaptive_avg_pool3d,
    "adaptive_max_pool1d": pooled_with_indices(functional.adaptive_max_pool1d),
    "adaptive_max_pool2d": pooled_with_indices(functional.adaptive_max_pool2d),
    "adaptive_max_pool3d": pooled_with_indices(functional.adaptive_max_pool3d),
    "affine_grid_generator": functional.affine_grid,
    "alpha_dropout": dropout,
    "batch_norm": batch_norm,
    "_native_batch_norm_legit.default": batch_norm_functional,
    "_native_batch_norm_legit_functional": batch_norm_functional,
    "_native_batch_norm_legit.no_stats": batch_norm_of_batch,
    "_native_batch_norm_legit_no_training": batch_norm_of_running,
    "col2im": functional.fold,
    "convolution": convolution,
    "_convolution": first(convolution, 9),
    "dropout": dropout,
    "embedding": embedding,
    "embedding_bag": embedding_bag,
    "_embedding_bag": embedding_bag,
    "_embedding_bag_forward_only": embedding_bag,
    "feature_dropout": dropout,
    "grid_sampler": grid_sampler,
    "grid_sampler_2d": grid_sampler,
    "grid_sampler_3d": grid_sampler,
    "group_norm": first(functional.group_norm, 5),
    "im2col": functional.unfold,
    "instance_norm": instance_norm,
    "layer_norm": first(functional.layer_norm, 5),
    "max_pool2d_with_indices": pooled_with_indices(functional.max_pool2d),
    "max_pool3d_with_indices": pooled_with_indices(functional.max_pool3d),
    "native_dropout": lambda x, p, train: (dropout(x, p, bool(train)), None),
    "native_group_norm": native_group_norm,
    "native_layer_norm": native_layer_norm,
    "_scaled_dot_product_flash_attention_for_cpu": flash_for_cpu,
    **{
        f"_upsample_{mode}2d_aa.{overload}": of(mode, smooth=True)
        for mode in ("bilinear", "bicubic")
        for overload, of in (("vec", resized), ("default", resized_to))
    },
    "upsample_bicubic2d.vec": resized("bicubic"),
    "upsample_bicubic2d.default": resized_to("bicubic"),
    "upsample_bilinear2d.vec": resized("bilinear"),
    "upsample_bilinear2d.default": resized_to("bilinear"),
    "upsample_linear1d.vec": resized("linear"),
    "upsample_linear1d.default": resized_to("linear"),
    "upsample_trilinear3d.vec": resized("trilinear"),
    "upsample_trilinear3d.default": resized_to("trilinear"),
    "upsample_nearest1d": nearest("nearest"),
    "upsample_nearest2d": nearest("nearest"),
    "upsample_nearest3d": nearest("nearest"),
    "_upsample_nearest_exact1d": nearest("nearest-exact"),
    "_upsample_nearest_exact2d": nearest("nearest-exact"),
    "_upsample_nearest_exact3d": nearest("nearest-exact"),
}
