"""Losses and distances as modules: numbers to look at, as nothing is trained here."""

# ruff: noqa: FBT002  # signatures are PyTorch's

from __future__ import annotations

from collections.abc import Callable

from lumigen.errors import BadArgument
from lumigen.frontend import functional as fn
from lumigen.frontend.nn.module import Module
from lumigen.frontend.tensor import Tensor
from lumigen.frontend.trace import fail

REDUCTIONS = ("none", "mean", "sum")


class CosineSimilarity(Module):
    """sum(a b) / (max(|a|, eps) max(|b|, eps)) along `dim`."""

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return fn.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """|a - b + eps| by the p-norm along the last dimension."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return fn.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class _Loss(Module):
    """`reduction` is `mean`, `sum` or `none`; the two older ways to say it, a pair of flags, as well."""

    reduction: str

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        self._reduces(size_average, reduce, reduction)

    def _reduces(self, size_average: bool | None, reduce: bool | None, reduction: str) -> None:
        if reduction not in REDUCTIONS:
            raise fail(
                BadArgument,
                op=type(self).__name__,
                name="reduction",
                value=repr(reduction),
                expected="'mean', 'sum' or 'none'",
            )
        if size_average is not None or reduce is not None:
            whole = "sum" if size_average is False else "mean"
            reduction = "none" if reduce is False else whole
        self.reduction = reduction


class L1Loss(_Loss):
    """|x - y|."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return fn.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """(x - y)^2."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return fn.mse_loss(input, target, reduction=self.reduction)


class SoftMarginLoss(_Loss):
    """log(1 + exp(-y x)) for y of 1 and -1."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return fn.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """How far labels' scores stay within 1 of the others', by the labels listed up to the first -1."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return fn.multilabel_margin_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """(x - y)^2 / (2 beta) within beta, |x - y| - beta / 2 beyond."""

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        self._reduces(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return fn.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """(x - y)^2 / 2 within delta, delta (|x - y| - delta / 2) beyond."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        self._reduces(None, None, reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return fn.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class KLDivLoss(_Loss):
    """y (log(y) - x) for logarithms x, and logarithms y with `log_target`."""

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        name = "mean" if reduction == "batchmean" else reduction
        self._reduces(size_average, reduce, name)
        self.reduction = reduction if reduction == "batchmean" else self.reduction
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return fn.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class PoissonNLLLoss(_Loss):
    """exp(x) - y x, or x - y log(x + eps) without `log_input`; `full` adds Stirling's term."""

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        self._reduces(size_average, reduce, reduction)
        self.log_input, self.full, self.eps = log_input, full, eps

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return fn.poisson_nll_loss(
            input,
            target,
            reduction=self.reduction,
            log_input=self.log_input,
            full=self.full,
            eps=self.eps,
        )


class GaussianNLLLoss(_Loss):
    """(log(var) + (x - y)^2 / var) / 2 with var of at least eps; `full` adds log(2 pi) / 2."""

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        self._reduces(None, None, reduction)
        self.full, self.eps = full, eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        return fn.gaussian_nll_loss(
            input, target, var, reduction=self.reduction, full=self.full, eps=self.eps
        )


class HingeEmbeddingLoss(_Loss):
    """x where y is 1, max(0, margin - x) where it is -1."""

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        self._reduces(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return fn.hinge_embedding_loss(input, target, self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(_Loss):
    """1 - cos(a, b) where y is 1, max(0, cos(a, b) - margin) where it is -1."""

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        self._reduces(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        how = self.reduction
        return fn.cosine_embedding_loss(input1, input2, target, self.margin, reduction=how)


class MarginRankingLoss(_Loss):
    """max(0, margin - y (a - b))."""

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        self._reduces(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        how = self.reduction
        return fn.margin_ranking_loss(input1, input2, target, self.margin, reduction=how)


class TripletMarginLoss(_Loss):
    """max(0, margin + d(anchor, positive) - d(anchor, negative)) by the p-norm."""

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        self._reduces(size_average, reduce, reduction)
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return fn.triplet_margin_loss(
            anchor,
            positive,
            negative,
            reduction=self.reduction,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
        )


class TripletMarginWithDistanceLoss(_Loss):
    """max(0, margin + d(anchor, positive) - d(anchor, negative)) by a distance of the caller's."""

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        self._reduces(None, None, reduction)
        self.distance_function, self.margin, self.swap = distance_function, margin, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return fn.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


# --- with a weight for each class -----------------------------------------------------------------


class NLLLoss(_Loss):
    """-x[y] for logarithms x, by the class's weight."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        self._reduces(size_average, reduce, reduction)
        self.weight, self.ignore_index = weight, ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return fn.nll_loss(
            input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction
        )


class CrossEntropyLoss(_Loss):
    """-log_softmax(x)[y] for classes y, or for their probabilities, by the class's weight."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        self._reduces(size_average, reduce, reduction)
        self.weight, self.ignore_index = weight, ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return fn.cross_entropy(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class _WeightedLoss(_Loss):
    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        self._reduces(size_average, reduce, reduction)
        self.weight = weight


class BCELoss(_WeightedLoss):
    """-(y log(x) + (1 - y) log(1 - x)), each logarithm at least -100."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return fn.binary_cross_entropy(input, target, self.weight, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """The mean over classes of the cross-entropy of sigmoid(x)."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        how = self.reduction
        return fn.multilabel_soft_margin_loss(input, target, self.weight, reduction=how)


class BCEWithLogitsLoss(_Loss):
    """The cross-entropy of sigmoid(x), without overflow; `pos_weight` for what is 1."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        self._reduces(size_average, reduce, reduction)
        self.weight, self.pos_weight = weight, pos_weight

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return fn.binary_cross_entropy_with_logits(
            input, target, self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )


class MultiMarginLoss(_Loss):
    """sum max(0, margin - x[y] + x[i])^p / classes over the other classes, by the class's weight."""

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        self._reduces(size_average, reduce, reduction)
        self.p, self.margin, self.weight = p, margin, weight

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        how = self.reduction
        return fn.multi_margin_loss(input, target, self.p, self.margin, self.weight, reduction=how)
