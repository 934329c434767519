"""The functions of torch.nn.functional, composed of tensors; the compiler knows none of them.

Each docstring is the formula; shapes are tuples of axis names.
"""

# ruff: noqa: FBT002  # signatures are PyTorch's

from __future__ import annotations

import math
from collections.abc import Sequence

from lumigen.dtype import DType, i64
from lumigen.errors import BadArgument, DtypeMismatch, RankMismatch
from lumigen.frontend import (
    compare,
    contraction,
    elementary,
    indexing,
    movement,
)
from lumigen.frontend.creation import arange, full
from lumigen.frontend.extents import check_count, fixed
from lumigen.frontend.offered import lacks, offered
from lumigen.frontend.primitive import Extent, unequal
from lumigen.frontend.tensor import Tensor, Value, raw
from lumigen.frontend.trace import fail
from lumigen.index import ix, product

Pair = int | tuple[int, int]


def pair(value: Pair) -> tuple[int, int]:
    """One number for both directions, or (vertical, horizontal)."""
    return (value, value) if isinstance(value, int) else value


def _need_rank(op: str, name: str, x: Tensor, axes: tuple[str, ...]) -> None:
    if x.ndim != len(axes):
        raise fail(
            RankMismatch,
            op=op,
            name=name,
            shape=x.extents,
            expected=f"{len(axes)} axes ({', '.join(axes)})",
            remedy="Add or remove axes with .reshape() or .unsqueeze().",
        )


# --- choice and joining ---------------------------------------------------------------------------


def where(condition: Tensor, a: Value, b: Value) -> Tensor:
    """`a` where the condition holds, else `b`; what is not chosen never shows, be it NaN."""
    return Tensor(compare.where(condition.edge, raw(a), raw(b)))


def maximum(a: Tensor, b: Value) -> Tensor:
    """The greater of two elements; NaN if one is."""
    return a.maximum(b)


def minimum(a: Tensor, b: Value) -> Tensor:
    """The lesser of two elements; NaN if one is."""
    return a.minimum(b)


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """One after the other along `dim`; the other extents agree, dtypes are promoted."""
    return Tensor(movement.cat([t.edge for t in tensors], dim))


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of one shape along a new dimension `dim`."""
    return Tensor(movement.stack([t.edge for t in tensors], dim))


def pad(x: Tensor, widths: Sequence[Extent], value: float = 0) -> Tensor:
    """Widths before and after the last dimension, then of the one before it."""
    return x.pad(widths, value)


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """(.., m, k) @ (.., k, n) -> (.., m, n); leading axes broadcast."""
    return a @ b


# --- activations ----------------------------------------------------------------------------------


def relu(x: Tensor) -> Tensor:
    """max(x, 0); NaN stays."""
    return x.relu()


def leaky_relu(x: Tensor, negative_slope: float = 0.01) -> Tensor:
    """`x` where it is positive, else x * negative_slope."""
    return where(x < 0, x * negative_slope, x)


def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """`x` where it is positive, else alpha * (exp(x) - 1)."""
    return where(x < 0, (x.exp() - 1) * alpha, x)


def silu(x: Tensor) -> Tensor:
    """x * sigmoid(x)."""
    return Tensor(elementary.silu(x.edge))


def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x))."""
    return Tensor(elementary.softplus(x.edge))


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """x times the normal distribution function of x; `tanh` is its well-known approximation."""
    if approximate not in ("none", "tanh"):
        raise fail(
            BadArgument,
            op="gelu",
            name="approximate",
            value=repr(approximate),
            expected="'none' or 'tanh'",
        )
    return Tensor((elementary.gelu if approximate == "none" else elementary.gelu_tanh)(x.edge))


def tanh(x: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return x.tanh()


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
    return x.sigmoid()


def softmax(x: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """exp(x - max) / sum(exp(x - max)) along `dim`, cast to `dtype` before."""
    return (x if dtype is None else x.to(dtype)).softmax(dim)


def log_softmax(x: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """(x - max) - log(sum(exp(x - max))) along `dim`, cast to `dtype` before."""
    return (x if dtype is None else x.to(dtype)).log_softmax(dim)


def dropout(x: Tensor, p: float = 0.5, training: bool = False) -> Tensor:
    """The identity: a model is compiled for inference."""
    del p
    if training:
        raise fail(
            BadArgument,
            op="dropout",
            name="training",
            value=True,
            expected="False: models are compiled for inference",
        )
    return x


# --- products and lookups -------------------------------------------------------------------------


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """(.., in), (out, in), (out,) -> (.., out): x @ weight.T + bias."""
    contraction.check_linear(x.extents, weight.extents)
    _same_dtype("linear", x, weight)
    out = Tensor(contraction.linear(x.edge, weight.edge))
    return out if bias is None else out + bias


def _same_dtype(op: str, x: Tensor, weight: Tensor) -> None:
    if x.dtype is not weight.dtype:
        raise fail(
            DtypeMismatch,
            op=op,
            name="the input",
            got=x.dtype,
            expected=f"{weight.dtype}, as the weight",
            remedy=f"Cast it with .to(lg.{weight.dtype}).",
        )


def embedding(ids: Tensor, weight: Tensor) -> Tensor:
    """ids (..), weight (vocabulary, hidden) -> (.., hidden): sum_v select(v == ids, weight[v])."""
    _need_rank("embedding", "the weight", weight, ("vocabulary", "hidden"))
    return Tensor(indexing.index_select_nd(weight.edge, 0, ids.edge))


def gather(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """out[.., j, ..] = x[.., index[.., j, ..], ..]."""
    return x.gather(dim, index)


def index_select(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """out[.., j, ..] = x[.., index[j], ..] for a 1-d `index` of integers."""
    return x.index_select(dim, index)


def take_along_dim(x: Tensor, indices: Tensor, dim: int) -> Tensor:
    """As `gather`, with the other dimensions broadcast."""
    return x.take_along_dim(indices, dim)


def one_hot(ids: Tensor, num_classes: Extent) -> Tensor:
    """(..) -> (.., num_classes) as i64: 1 at the id, else 0."""
    return (ids.unsqueeze(-1) == arange(num_classes)).to(i64)


# --- convolution and pooling ----------------------------------------------------------------------


def _windows(
    x: Tensor, size: tuple[int, int], step: tuple[int, int], dilation: tuple[int, int]
) -> Tensor:
    """(.., height, width) -> (.., out height, out width, size[0], size[1])."""
    edge = movement.unfold(x.edge, -2, size[0], step[0], dilation[0])
    return Tensor(movement.unfold(edge, -2, size[1], step[1], dilation[1]))


def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Pair = 1,
    padding: Pair | str = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> Tensor:
    """(batch, in, height, width), (out, in / groups, r, s) -> (batch, out, height', width').

    sum_{c, r, s} x[b, c, i stride + r dilation, j stride + s dilation] * weight[o, c, r, s]
    """
    _need_rank("conv2d", "the input", x, ("batch", "channel", "height", "width"))
    _need_rank("conv2d", "the weight", weight, ("out", "in", "height", "width"))
    _same_dtype("conv2d", x, weight)
    out_channels, per_group, r, s = weight.extents
    _check_channels(x, weight, groups)
    kernel = fixed("conv2d", "the kernel's height", r), fixed("conv2d", "the kernel's width", s)
    steps = pair(dilation)
    vertical, horizontal = _padding(padding, kernel, steps)
    x = x.pad((*horizontal, *vertical))
    seen = _windows(x, kernel, pair(stride), steps)  # (batch, in, height', width', r, s)
    batch, _, height, width = seen.extents[:4]
    per_out = out_channels // groups
    seen = seen.reshape(batch, groups, 1, per_group, height, width, r, s)
    seen = seen.permute(
        0, 1, 2, 4, 5, 3, 6, 7
    )  # (batch, group, 1, height', width', in / groups, r, s)
    filters = weight.reshape(groups, per_out, 1, 1, per_group, r, s)
    out = (seen * filters).sum((-3, -2, -1)).reshape(batch, out_channels, height, width)
    return out if bias is None else out + bias.reshape(-1, 1, 1)


def _padding(
    padding: Pair | str, kernel: tuple[int, int], dilation: tuple[int, int]
) -> tuple[tuple[int, int], tuple[int, int]]:
    """(above, below), (left, right)."""
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            expected = "a number, a pair, 'same' or 'valid'"
            raise fail(
                BadArgument, op="conv2d", name="padding", value=repr(padding), expected=expected
            )
        total = [
            d * (k - 1) if padding == "same" else 0 for k, d in zip(kernel, dilation, strict=True)
        ]
        low, high = ((t // 2, t - t // 2) for t in total)
        return low, high
    vertical, horizontal = pair(padding)
    return (vertical, vertical), (horizontal, horizontal)


def _check_channels(x: Tensor, weight: Tensor, groups: int) -> None:
    check_count("conv2d", "groups", groups)
    have, per_group, out = x.extents[1], weight.extents[1], weight.extents[0]
    if per_group * groups is not have:
        rule = f"the input has {have} channels, the weight takes {groups} groups of {per_group}"
        remedy = "Check groups and the layer before."
        raise unequal("conv2d", have, per_group * groups, x.extents, weight.extents, rule, remedy)
    if (out // groups) * groups is not out:
        raise fail(
            BadArgument,
            op="conv2d",
            name="groups",
            value=groups,
            expected=f"a divisor of the {out} output channels",
        )


def max_pool2d(
    x: Tensor,
    kernel_size: Pair,
    stride: Pair | None = None,
    padding: Pair = 0,
    dilation: Pair = 1,
) -> Tensor:
    """(.., height, width) -> (.., height', width'): the greatest of each window; padding never wins."""
    v, h = pair(padding)
    x = x.pad((h, h, v, v), x.dtype.lowest)
    step = pair(kernel_size if stride is None else stride)
    return _windows(x, pair(kernel_size), step, pair(dilation)).amax((-2, -1))


def avg_pool2d(
    x: Tensor,
    kernel_size: Pair,
    stride: Pair | None = None,
    padding: Pair = 0,
    count_include_pad: bool = True,
) -> Tensor:
    """(.., height, width) -> (.., height', width'): means of windows, padding as zeros or not counted."""
    v, h = pair(padding)
    size, step = pair(kernel_size), pair(kernel_size if stride is None else stride)
    total = _windows(x.pad((h, h, v, v)), size, step, (1, 1)).sum((-2, -1))
    if count_include_pad or (v, h) == (0, 0):
        return total / (size[0] * size[1])
    inside = full(x.extents[-2:], 1, x.dtype).pad((h, h, v, v))
    return total / _windows(inside, size, step, (1, 1)).sum((-2, -1))


def adaptive_avg_pool2d(x: Tensor, output_size: Pair) -> Tensor:
    """(.., height, width) -> (.., output_size): means of equal tiles; extents must be multiples."""
    v, h = pair(output_size)
    for size in (v, h):
        check_count("adaptive_avg_pool2d", "output_size", size)
    height, width = x.extents[-2:]
    if (height // v) * v is not height or (width // h) * h is not width:
        raise fail(
            BadArgument,
            op="adaptive_avg_pool2d",
            name="output_size",
            value=(v, h),
            expected=f"divisors of {height} and {width}",
        )
    tiles = x.reshape(*x.extents[:-2], v, height // v, h, width // h)
    return tiles.mean((-3, -1))


# --- norms ----------------------------------------------------------------------------------------


def layer_norm(
    x: Tensor,
    normalized_shape: Extent | Sequence[Extent],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """(x - mean) * rsqrt(var + eps) * weight + bias over the last dimensions."""
    dims = _last_dims("layer_norm", x, normalized_shape)
    centred = x - x.mean(dims, keepdim=True)
    out = centred * (centred.square().mean(dims, keepdim=True) + eps).rsqrt()
    return _affine(out, weight, bias)


def rms_norm(
    x: Tensor,
    normalized_shape: Extent | Sequence[Extent],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """x * rsqrt(mean(x^2) + eps) * weight over the last dimensions; eps is the dtype's."""
    dims = _last_dims("rms_norm", x, normalized_shape)
    least = _epsilon(x.dtype) if eps is None else eps
    return _affine(x * (x.square().mean(dims, keepdim=True) + least).rsqrt(), weight, None)


def _epsilon(dtype: DType) -> float:
    mantissa = {"f64": 52, "f32": 23, "f16": 10, "bf16": 7}
    return 2.0 ** -mantissa.get(dtype.name, 23)


def _affine(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def _last_dims(op: str, x: Tensor, shape: Extent | Sequence[Extent]) -> tuple[int, ...]:
    wanted = tuple(ix(e) for e in (shape if isinstance(shape, Sequence) else [shape]))
    have = x.extents[-len(wanted) :]
    if len(have) != len(wanted):
        rule = "the input has too few axes"
        raise unequal(op, ix(x.ndim), ix(len(wanted)), x.extents, wanted, rule, "Reshape it.")
    for a, b in zip(have, wanted, strict=True):
        if a is not b:
            rule = f"the input ends in {a} where the norm is over {b}"
            raise unequal(op, a, b, x.extents, wanted, rule, "Correct normalized_shape.")
    return tuple(range(-len(wanted), 0))


def batch_norm(
    x: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """(batch, channel, ..): (x - mean) * rsqrt(var + eps) * weight + bias, per channel."""
    tail = (1,) * (x.ndim - 2)

    def channelwise(p: Tensor | None) -> Tensor | None:
        return None if p is None else p.reshape(-1, *tail)

    mean, scale = running_mean.reshape(-1, *tail), (running_var + eps).rsqrt().reshape(-1, *tail)
    return _affine((x - mean) * scale, channelwise(weight), channelwise(bias))


def group_norm(
    x: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """(batch, channel, ..): layer norm over the channels of a group and all positions."""
    batch, channels, *rest = x.extents
    grouped = x.reshape(batch, num_groups, -1)
    normed = layer_norm(grouped, (product((channels, *rest)) // num_groups,), eps=eps)
    tail = (1,) * len(rest)
    return _affine(
        normed.reshape(*x.extents),
        None if weight is None else weight.reshape(-1, *tail),
        None if bias is None else bias.reshape(-1, *tail),
    )


def normalize(x: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """x / max(|x|_p, eps) along `dim`."""
    return x / x.norm(p, dim, keepdim=True).maximum(eps)


# --- attention ------------------------------------------------------------------------------------


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query @ key^T * scale + mask) @ value over (.., heads, positions, features).

    A bool mask keeps what is true; a float mask is added; `is_causal` keeps key <= query. With
    `enable_gqa` each head of `key` and `value` serves heads(query) / heads(key) heads of `query`.
    A row without any key is NaN.
    """
    if dropout_p:
        raise fail(
            BadArgument,
            op="scaled_dot_product_attention",
            name="dropout_p",
            value=dropout_p,
            expected="0.0: models are compiled for inference",
        )
    if enable_gqa:
        return _grouped_attention(query, key, value, attn_mask, is_causal, scale)
    scores = query @ key.mT * _scale(query, scale)  # (.., heads, queries, keys)
    if is_causal:
        i, j = arange(scores.extents[-2]).unsqueeze(-1), arange(scores.extents[-1])
        scores = where(i < j, -math.inf, scores)
    if attn_mask is not None:
        masked = attn_mask.dtype.is_bool
        scores = where(attn_mask, scores, -math.inf) if masked else scores + attn_mask
    return scores.softmax(-1) @ value


def _scale(query: Tensor, scale: float | None) -> float:
    if scale is not None:
        return scale
    features = query.extents[-1]
    if not features.is_const:
        raise fail(
            BadArgument,
            op="scaled_dot_product_attention",
            name="scale",
            value=f"left out for heads of {features} features",
            expected="a number",
        )
    return 1 / math.sqrt(features.const)


def _grouped_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    is_causal: bool,
    scale: float | None,
) -> Tensor:
    heads, shared = query.extents[-3], key.extents[-3]
    group = heads // shared
    if group * shared is not heads:
        rule = f"{heads} query heads are not a multiple of {shared} key heads"
        op = "scaled_dot_product_attention"
        raise unequal(op, heads, shared, query.extents, key.extents, rule, "Correct the heads.")
    split = query.unflatten(-3, (shared, group))  # (.., shared, group, queries, features)
    if attn_mask is not None and attn_mask.ndim >= 3:
        few = attn_mask.extents[-3] == 1
        attn_mask = attn_mask.unsqueeze(-3) if few else attn_mask.unflatten(-3, (shared, group))
    out = scaled_dot_product_attention(
        split,
        key.unsqueeze(-3),
        value.unsqueeze(-3),
        attn_mask,
        is_causal=is_causal,
        scale=_scale(query, scale),
    )
    return out.flatten(-4, -3)


# --- losses ---------------------------------------------------------------------------------------


def cross_entropy(x: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """-log_softmax(x)[target] of x (batch, classes, ..), target (batch, ..) of class ids.

    Its `mean` or `sum` over all, or `none` for each position.
    """
    picked = x.log_softmax(1).take_along_dim(target.unsqueeze(1), 1).squeeze(1)
    return _reduced("cross_entropy", -picked, reduction)


def mse_loss(x: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """(x - target)^2: its `mean` or `sum` over all, or `none` for each element."""
    return _reduced("mse_loss", (x - target).square(), reduction)


def _reduced(op: str, loss: Tensor, how: str) -> Tensor:
    if how == "none":
        return loss
    if how not in ("mean", "sum"):
        raise fail(
            BadArgument,
            op=op,
            name="reduction",
            value=repr(how),
            expected="'none', 'mean' or 'sum'",
        )
    return loss.mean() if how == "mean" else loss.sum()


def __getattr__(name: str) -> object:
    raise lacks(name, __dir__(), __name__)


def __dir__() -> list[str]:
    return offered(globals(), __name__)
