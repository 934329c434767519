"""Losses: how far a prediction is from a target, reduced to a mean or a sum."""

# ruff: noqa: FBT002  # signatures are PyTorch's

from __future__ import annotations

import math
from collections.abc import Callable

from lumigen.frontend import elementary
from lumigen.frontend.activation import logsigmoid
from lumigen.frontend.arrangement import broadcast_tensors
from lumigen.frontend.creation import arange
from lumigen.frontend.extents import need_axes
from lumigen.frontend.operand import choice, floats, ones_like, where
from lumigen.frontend.products import tensordot, vecdot
from lumigen.frontend.tensor import Tensor

LEAST_LOG = -100.0  # what a logarithm in a cross entropy is held above, as in PyTorch


def _reduced(op: str, loss: Tensor, how: str) -> Tensor:
    choice(op, "reduction", how, "none", "mean", "sum")
    return loss if how == "none" else loss.mean() if how == "mean" else loss.sum()


def _old_style(reduction: str, size_average: bool | None, reduce: bool | None) -> str:
    """The reduction that PyTorch's older options name."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


# --- of numbers -----------------------------------------------------------------------------------


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """(x - target)^2: its `mean` or `sum` over all, or `none` for each element; weighted, over the weights."""
    how = _old_style(reduction, size_average, reduce)
    return _weighted("mse_loss", (input - target).square(), weight, how)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """|x - target|, reduced."""
    how = _old_style(reduction, size_average, reduce)
    return _weighted("l1_loss", (input - target).abs(), weight, how)


def _weighted(op: str, loss: Tensor, weight: Tensor | None, how: str) -> Tensor:
    if weight is None:
        return _reduced(op, loss, how)
    weight = weight.expand(loss.extents)
    if how == "mean":
        return (loss * weight).sum() / weight.sum()
    return _reduced(op, loss * weight, how)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """d^2 / (2 beta) where d = |x - target| is below beta, else d - beta / 2, reduced."""
    d = (input - target).abs()
    loss = d if beta == 0 else where(d < beta, d * d * 0.5 / beta, d - 0.5 * beta)
    return _reduced("smooth_l1_loss", loss, _old_style(reduction, size_average, reduce))


def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """d^2 / 2 where d = |x - target| is at most delta, else delta (d - delta / 2), reduced."""
    d = (input - target).abs()
    loss = where(d <= delta, d * d * 0.5, delta * (d - 0.5 * delta))
    return _weighted("huber_loss", loss, weight, reduction)


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """exp(x) - target x, or x - target log(x + eps); `full` adds Stirling's log(target!) above 1. Reduced."""
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        t = target
        stirling = t * t.log() - t + 0.5 * (t * (2 * math.pi)).log()
        loss = loss + where(t > 1, stirling, 0.0)
    return _reduced("poisson_nll_loss", loss, _old_style(reduction, size_average, reduce))


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """(log(v) + (x - target)^2 / v) / 2 with v = max(var, eps); `full` adds log(2 pi) / 2. Reduced."""
    v = ones_like(input) * var
    if isinstance(var, Tensor):
        few = var.ndim < input.ndim and var.ndim > 0 and var.extents == input.extents[:-1]
        v = var.unsqueeze(-1) if few else var
    v = v.clamp(min=eps)
    loss = 0.5 * (v.log() + (input - target).square() / v)
    loss = loss + 0.5 * math.log(2 * math.pi) if full else loss
    return _reduced("gaussian_nll_loss", loss, reduction)


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """target (log(target) - x) for x in logarithms; `batchmean` is the sum over the batch. Reduced."""
    choice("kl_div", "reduction", reduction, "none", "mean", "sum", "batchmean")
    loss = target.exp() * (target - input) if log_target else target.xlogy(target) - target * input
    how = _old_style(reduction, size_average, reduce)
    if how == "batchmean":
        total = loss.sum()
        return total / input.size(0) if input.ndim else total
    return _reduced("kl_div", loss, how)


# --- of classes -----------------------------------------------------------------------------------


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-x[target] of log-probabilities (batch, classes, ..) at class ids (batch, ..), weighted by class.

    Targets that are `ignore_index` give 0; the `mean` is over the weights of the others.
    """
    how = _old_style(reduction, size_average, reduce)
    choice("nll_loss", "reduction", how, "none", "mean", "sum")
    need_axes("nll_loss", input.extents, 1)
    d = 1 if input.ndim > 1 else 0
    ids, keep = target.long(), target != ignore_index
    picked = where(keep, _at(input, ids, d), 0.0)
    each = ones_like(picked) if weight is None else weight.type_as(input)[ids]
    each = where(keep, each, 0.0)
    loss = -picked * each
    if how == "none":
        return loss
    return loss.sum() if how == "sum" else loss.sum() / each.sum()


def _at(x: Tensor, ids: Tensor, d: int) -> Tensor:
    """x[.., ids, ..] along the dimension of classes; 0 for ids outside."""
    return x.take_along_dim(ids.unsqueeze(d), d).squeeze(d)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """-log_softmax(x)[target] of x (batch, classes, ..), target (batch, ..) of class ids, or probabilities as x.

    Weighted by class; `label_smoothing` spreads that part of the target over all classes. Targets that are
    `ignore_index` give 0. The `mean` is over the weights of the targets.
    """
    how = _old_style(reduction, size_average, reduce)
    choice("cross_entropy", "reduction", how, "none", "mean", "sum")
    need_axes("cross_entropy", input.extents, 1)
    d = 1 if input.ndim > 1 else 0
    logs = input.log_softmax(d)
    classes = logs.new_full((), input.extents[d])
    tail = (1,) * (input.ndim - 1 - d)
    by_class = None if weight is None else weight.type_as(input).reshape(-1, *tail)
    if target.dtype.is_float:
        spread = target
        if label_smoothing:
            spread = target * (1 - label_smoothing) + label_smoothing / classes
        loss = logs * spread if by_class is None else logs * spread * by_class
        loss = -loss.sum(d)
        if how == "mean":
            return loss.mean() if input.ndim > 1 else loss
        return loss if how == "none" else loss.sum()
    sharp = nll_loss(logs, target, weight, None, ignore_index, None, how)
    if not label_smoothing:
        return sharp
    keep = target != ignore_index
    smooth = -(logs if by_class is None else logs * by_class).sum(d)
    smooth = where(keep, smooth, 0.0)
    if how == "mean":
        each = ones_like(smooth) if weight is None else weight.type_as(input)[target.long()]
        smooth = smooth.sum() / where(keep, each, 0.0).sum()
    elif how == "sum":
        smooth = smooth.sum()
    return sharp * (1 - label_smoothing) + smooth * (label_smoothing / classes)


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: object = None,
) -> Tensor:
    """`cross_entropy` of linear(x): the weight is (classes, in), or (classes, .., in) for targets (batch, ..)."""
    del options  # how PyTorch computes it
    logits = tensordot(input, linear_weight, ([-1], [-1]))
    logits = logits if linear_bias is None else logits + linear_bias
    ignored = -100 if ignore_index is None else ignore_index
    return cross_entropy(
        logits,
        target,
        weight,
        ignore_index=ignored,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-(target log(x) + (1 - target) log(1 - x)), each logarithm at least -100; weighted, reduced."""
    log = input.log().clamp(min=LEAST_LOG)
    other = (-input).log1p().clamp(min=LEAST_LOG)
    loss = (target - 1) * other - target * log
    loss = loss if weight is None else loss * weight
    return _reduced("binary_cross_entropy", loss, _old_style(reduction, size_average, reduce))


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """The binary cross entropy of sigmoid(x), without overflow; weighted, reduced."""
    if pos_weight is None:
        loss = (1 - target) * input - logsigmoid(input)
    else:
        more = (pos_weight - 1) * target + 1
        loss = (1 - target) * input - more * logsigmoid(input)
    loss = loss if weight is None else loss * weight
    op = "binary_cross_entropy_with_logits"
    return _reduced(op, loss, _old_style(reduction, size_average, reduce))


def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """log(1 + exp(-target x)), reduced."""
    loss = Tensor(elementary.softplus((-target * input).edge))
    return _reduced("soft_margin_loss", loss, _old_style(reduction, size_average, reduce))


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`x` where the target is 1, max(0, margin - x) where it is -1, reduced."""
    near = where(target != 1, (margin - input).clamp(min=0), 0.0)
    loss = near + where(target != -1, input, 0.0)
    return _reduced("hinge_embedding_loss", loss, _old_style(reduction, size_average, reduce))


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over classes of the binary cross entropies of logits, reduced over the rest."""
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    loss = (loss if weight is None else loss * weight).mean(-1)
    op = "multilabel_soft_margin_loss"
    return _reduced(op, loss, _old_style(reduction, size_average, reduce))


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """sum_{i != target} max(0, margin - x[target] + x[i])^p / classes, weighted by class, reduced."""
    choice("multi_margin_loss", "p", p, 1, 2)
    x = input if input.ndim > 1 else input.reshape(1, -1)
    ids = target.reshape(-1).long()
    own = x.take_along_dim(ids.unsqueeze(1), 1)
    loss = (margin - own + x).clamp(min=0).pow(p)
    if weight is not None:
        loss = loss * weight[ids].unsqueeze(1)
    other = arange(x.extents[1]) != ids.unsqueeze(1)
    loss = where(other, loss, 0.0).mean(1)
    loss = loss if target.ndim and input.ndim > 1 else loss.reshape(())
    return _reduced("multi_margin_loss", loss, _old_style(reduction, size_average, reduce))


def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """sum over targets j, others i of max(0, 1 - x[j] + x[i]) / classes; targets end at the first -1. Reduced."""
    x = input.reshape(-1, input.size(-1) if input.ndim else 1)  # (batch, classes)
    ids = target.reshape(x.extents)
    number = arange(x.extents[1])
    ended = where(ids < 0, number, x.size(1)).amin(1, keepdim=True)  # the first -1
    live = number < ended
    is_target = ((ids.unsqueeze(-1) == number) & live.unsqueeze(-1)).any(1)
    own = x.take_along_dim(where(live, ids, 0), 1)
    margin = (1 - own.unsqueeze(-1) + x.unsqueeze(1)).clamp(min=0)  # (batch, target, class)
    loss = where(live.unsqueeze(-1) & ~is_target.unsqueeze(1), margin, 0.0)
    loss = loss.sum((1, 2)) / x.size(1)
    loss = loss if input.ndim > 1 else loss.squeeze(0)
    return _reduced("multilabel_margin_loss", loss, _old_style(reduction, size_average, reduce))


# --- of distances ---------------------------------------------------------------------------------


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """sum(x y) / (max(|x|, eps) max(|y|, eps)) along `dim`."""
    both = broadcast_tensors(floats(x1), floats(x2))
    a, b = (x / x.norm(2, dim, keepdim=True).clamp(min=eps) for x in both)
    return vecdot(a, b, dim=dim)


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The p-norm of x - y + eps along the last dimension."""
    return (x1 - x2 + eps).norm(p, -1, keepdim)


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1, reduced."""
    d = target.ndim

    def dot(a: Tensor, b: Tensor) -> Tensor:
        return (a * b).sum(d)

    tiny = 1e-12
    norms = (dot(input1, input1) + tiny) * (dot(input2, input2) + tiny)
    cosine = dot(input1, input2) / norms.sqrt()
    loss = where(target == 1, 1 - cosine, 0.0)
    loss = loss + where(target == -1, (cosine - margin).clamp(min=0), 0.0)
    return _reduced("cosine_embedding_loss", loss, _old_style(reduction, size_average, reduce))


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, margin - target (x - y)), reduced."""
    loss = (-target * (input1 - input2) + margin).clamp(min=0)
    return _reduced("margin_ranking_loss", loss, _old_style(reduction, size_average, reduce))


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, margin + d(anchor, positive) - d(anchor, negative)), reduced; `swap` takes the nearer negative."""

    def distance(a: Tensor, b: Tensor) -> Tensor:
        return pairwise_distance(a, b, p, eps)

    how = _old_style(reduction, size_average, reduce)
    return triplet_margin_with_distance_loss(
        anchor,
        positive,
        negative,
        distance_function=distance,
        margin=margin,
        swap=swap,
        reduction=how,
    )


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """As `triplet_margin_loss`, with a distance of one's own."""
    distance = distance_function or pairwise_distance
    near, far = distance(anchor, positive), distance(anchor, negative)
    far = far.minimum(distance(positive, negative)) if swap else far
    return _reduced("triplet_margin_loss", (near - far + margin).clamp(min=0), reduction)
