"""classical: models and features of classical machine learning (domain ai.onnx.ml) that are arithmetic of numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np

from lumigen.dtype import f32, i64
from lumigen.frontend import Tensor, functions
from lumigen.importers.onnx.node import OnnxNode, Operator
from lumigen.importers.onnx.values import Array, Known

DOMAIN = "ai.onnx.ml"


def table(n: OnnxNode, array: Any, name: str) -> Tensor:
    """Numbers of an attribute as a weight with a name."""
    stem = n.proto.name or next(iter(n.proto.output), "")
    return n.around.tensor(Known(np.asarray(array), f"{stem}.{name}"))


def floats(n: OnnxNode, name: str, default: Any = ()) -> Array:
    return np.asarray(n.attr(name, None) or list(default), np.float32)


# --- scores -----------------------------------------------------------------------------------------


def _softmax_zero(x: Tensor) -> Tensor:
    """A softmax in which scores of 0 weigh nothing."""
    most = x.amax(-1, keepdim=True)
    powers = functions.where(x.abs() > 1e-7, (x - most).exp(), x * (-most).exp())
    total = powers.sum(-1, keepdim=True)
    return functions.where(total == 0, 0.5, powers / total)


def _probit(x: Tensor) -> Tensor:
    """The quantile of the normal distribution by Winitzki's formula, as onnxruntime has it."""
    y = 2 * x - 1
    log = ((1 - y) * (1 + y)).log()
    half = 2 / (math.pi * 0.147) + 0.5 * log
    found = 1.41421356 * (-half + (half * half - log / 0.147).sqrt()).sqrt()
    return functions.where(y < 0, -found, found)


_TRANSFORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "NONE": lambda x: x,
    "LOGISTIC": lambda x: x.sigmoid(),
    "SOFTMAX": lambda x: x.softmax(-1),
    "SOFTMAX_ZERO": _softmax_zero,
    "PROBIT": _probit,
}


def transformed(n: OnnxNode, x: Tensor, how: str) -> Tensor:
    """Scores as the attribute `post_transform` says."""
    if how not in _TRANSFORMS:
        raise n.unsupported(f"its post_transform is {how!r}", "Export it with NONE.")
    return _TRANSFORMS[how](x)


def in_two(one: Tensor, how: str, *, all_positive: bool) -> Tensor:
    """Scores of two classes from those of the second: probabilities, or scores around 0."""
    is_share = how in ("NONE", "PROBIT") and all_positive
    return functions.cat([1 - one if is_share else -one, one], 1)


def labelled(n: OnnxNode, scores: Tensor, name: str) -> Tensor:
    """The labels of the greatest scores."""
    if n.attr("classlabels_strings", None):
        remedy = "Export it with integers as labels, and name them behind the model."
        raise n.unsupported("its labels are strings", remedy)
    best, labels = scores.argmax(-1), list(n.attr(name, None) or [])
    if labels == list(range(len(labels))) or len(labels) < 2:
        return best.to(i64)
    return table(n, np.asarray(labels, np.int64), "labels")[best]


# --- linear models and support vectors --------------------------------------------------------------


def _linear(n: OnnxNode, rows: int) -> Tensor:
    """(batch, rows): products with the rows of the coefficients, and intercepts."""
    x = n.tensor(0)
    x = (x if x.dtype.is_float else x.to(f32)).reshape(-1, x.shape[-1])
    weight = table(n, floats(n, "coefficients").reshape(rows, -1), "coefficients")
    out = x @ weight.to(x.dtype).t()
    base = floats(n, "intercepts")
    return out + table(n, base, "intercepts").to(x.dtype) if base.size else out


def linear_regressor(n: OnnxNode) -> Tensor:
    out = _linear(n, int(n.attr("targets", 1)))
    return transformed(n, out.to(f32), str(n.attr("post_transform", "NONE")))


def linear_classifier(n: OnnxNode) -> tuple[Tensor, Tensor]:
    """Labels, and scores of classes; one row of coefficients is that of the second of two."""
    width = n.tensor(0).shape[-1]
    scores = _linear(n, len(n.attr("coefficients")) // int(width)).to(f32)
    labels: list[Any] = list(
        n.attr("classlabels_ints", None) or n.attr("classlabels_strings", None) or []
    )
    how = str(n.attr("post_transform", "NONE"))
    if scores.shape[1] == 1 and len(labels) == 2:
        scores = functions.cat([-scores, scores], 1)
    found = transformed(n, scores, how)
    if found.shape[1] > 1:
        return labelled(n, found, "classlabels_ints"), found
    above = (found >= (0 if how == "NONE" else 0.5)).reshape(-1)
    label = int(labels[0]) if n.attr("classlabels_ints", None) else 1
    return functions.where(above, label, 0).to(i64), found


def _kernels(n: OnnxNode, x: Tensor, vectors: Array, kind: str) -> Tensor:
    """(batch, vectors): how near each row is to each vector."""
    gamma, shift, degree = n.attr("kernel_params", None) or [0.0, 0.0, 3.0]
    known = table(n, vectors, "vectors")
    dot = x @ known.t()
    match kind:
        case "LINEAR":
            return dot
        case "POLY":
            return (dot * gamma + shift).pow(degree)
        case "SIGMOID":
            return (dot * gamma + shift).tanh()
        case "RBF":
            apart = x.unsqueeze(1) - known
            return (-gamma * (apart * apart).sum(-1)).exp()
        case _:
            raise n.unsupported(f"its kernel_type is {kind!r}", "Export it with another kernel.")


def svm_regressor(n: OnnxNode) -> Tensor:
    """Weighted kernels with the support vectors, and an offset; of one class their sign."""
    x, count = n.tensor(0).to(f32), int(n.attr("n_supports", 0))
    kind = str(n.attr("kernel_type", "LINEAR")) if count else "LINEAR"
    coefficients = floats(n, "coefficients")
    vectors = (floats(n, "support_vectors") if count else coefficients).reshape(max(count, 1), -1)
    values = _kernels(n, x, vectors, kind)
    total = values @ table(n, coefficients.reshape(-1, 1), "coefficients") if count else values
    out = total + float(floats(n, "rho", [0])[0])
    if n.attr("one_class", 0):
        out = functions.where(out > 0, 1.0, -1.0)
    return transformed(n, out, str(n.attr("post_transform", "NONE")))


def svm_classifier(n: OnnxNode) -> tuple[Tensor, Tensor]:
    """Labels by the votes of all pairs of classes; scores of the pairs, or probabilities of the classes."""
    counts = list(n.attr("vectors_per_class", []))
    classes, total = len(counts), sum(counts)
    how = str(n.attr("post_transform", "NONE"))
    if not total or classes < 2:
        raise n.unsupported("it has no support vectors", "Export a linear classifier.")
    pairs = list(combinations(range(classes), 2))
    given = floats(n, "coefficients").reshape(classes - 1, total)
    ends = np.cumsum(counts)
    of_class = [slice(end - count, end) for end, count in zip(ends, counts, strict=True)]
    weight = np.zeros((len(pairs), total), np.float32)
    for row, (i, j) in zip(weight, pairs, strict=True):
        row[of_class[i]] = given[j - 1, of_class[i]]
        row[of_class[j]] = given[i, of_class[j]]
    vectors = floats(n, "support_vectors").reshape(total, -1)
    values = _kernels(n, n.tensor(0).to(f32), vectors, str(n.attr("kernel_type", "LINEAR")))
    scores = values @ table(n, weight, "coefficients").t() + table(n, floats(n, "rho"), "rho")
    one, other = np.eye(classes, dtype=np.float32)[np.transpose(pairs)]
    wins = (scores > 0).to(f32)
    votes = wins @ table(n, one - other, "votes") + table(n, other.sum(0), "against")
    label = labelled(n, votes, "classlabels_ints")
    if n.attr("prob_a", None):
        return label, transformed(n, _probabilities(n, scores, pairs, classes), how)
    if classes > 2:
        return label, transformed(n, scores, how)
    if how != "NONE":
        raise n.unsupported(f"its post_transform is {how!r}", "Export it with NONE.")
    return label, functions.cat([-scores, scores], 1)


STEPS = 100  # at most, of the iteration below


def _probabilities(
    n: OnnxNode, scores: Tensor, pairs: list[tuple[int, int]], classes: int
) -> Tensor:
    """(batch, classes) from those of pairs, until the greatest error is below 0.005 / classes.

    Wu, Lin and Weng, "Probability Estimates for Multi-class Classification by Pairwise Coupling" (2004), algorithm 2.
    """
    a, b = (table(n, floats(n, name), name) for name in ("prob_a", "prob_b"))
    first = (1 - (scores * a + b).sigmoid()).clamp(1e-7, 1 - 1e-7)
    zero = functions.zeros_like(first[:, 0])
    r = [[zero] * classes for _ in range(classes)]
    for k, (i, j) in enumerate(pairs):
        r[i][j], r[j][i] = first[:, k], 1 - first[:, k]
    q = [[-r[j][i] * r[i][j] for j in range(classes)] for i in range(classes)]
    for i in range(classes):
        of_others = functions.stack([r[j][i] for j in range(classes)], -1)
        q[i][i] = (of_others * of_others).sum(-1)
    matrix = functions.stack([functions.stack(row, -1) for row in q], -2)

    def one(state: tuple[Tensor, ...], _: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], Tensor]:
        (p,) = state
        product = (matrix @ p.unsqueeze(-1)).squeeze(-1)
        square = (p * product).sum(-1)
        is_near = (product - square.unsqueeze(-1)).abs().amax(-1) < 0.005 / classes
        after = p
        for t in range(classes):
            step = (square - product[:, t]) / q[t][t]
            by = 1 + step
            square = (square + step * (step * q[t][t] + 2 * product[:, t])) / (by * by)
            product = (product + step.unsqueeze(-1) * matrix[:, t]) / by.unsqueeze(-1)
            moved = table(n, np.eye(classes, dtype=np.float32)[t], f"unit_{t}")
            after = (after + step.unsqueeze(-1) * moved) / by.unsqueeze(-1)
        kept = functions.where(is_near.unsqueeze(-1), p, after)
        return (kept,), zero

    start = functions.full((first.shape[0], classes), 1 / classes, f32)
    (found,), _ = functions.scan(one, (start,), (functions.arange(STEPS),))
    return found


# --- features ---------------------------------------------------------------------------------------


def scaler(n: OnnxNode) -> Tensor:
    x = n.tensor(0).to(f32)
    for name, join in (("offset", Tensor.__sub__), ("scale", Tensor.__mul__)):
        given = floats(n, name)
        x = join(x, table(n, given, name)) if given.size else x
    return x


def normalizer(n: OnnxNode) -> Tensor:
    """Rows by their greatest size, the sum of their sizes or their length."""
    x, norm = n.tensor(0).to(f32), str(n.attr("norm", "MAX"))
    if norm not in ("MAX", "L1", "L2"):
        raise n.unsupported(f"its norm is {norm!r}", "Export it with MAX, L1 or L2.")
    if norm == "L2":
        by = (x * x).sum(1, keepdim=True).sqrt()
    else:
        by = x.abs().amax(1, keepdim=True) if norm == "MAX" else x.abs().sum(1, keepdim=True)
    return x / by.clamp(min=1e-30)


def binarizer(n: OnnxNode) -> Tensor:
    x = n.tensor(0)
    return (x > n.attr("threshold", 0.0)).to(x.dtype)


def imputer(n: OnnxNode) -> Tensor:
    """Elements that are missing, by a number for each column."""
    x = n.tensor(0)
    name, kind = ("float", np.float32) if x.dtype.is_float else ("int64", np.int64)
    values = np.asarray(n.attr(f"imputed_value_{name}s"), kind)
    gone = n.attr(f"replaced_value_{name}", 0)
    is_missing = x.isnan() if gone != gone else x == gone  # noqa: PLR0124
    return functions.where(is_missing, table(n, values, "values").to(x.dtype), x)


def feature_extractor(n: OnnxNode) -> Tensor:
    x, at = n.tensor(0), n.tensor(1)
    found = x.index_select(-1, at.reshape(-1))
    return found.unsqueeze(0) if x.ndim == 1 else found


def feature_vectorizer(n: OnnxNode) -> Tensor:
    """Columns of all operands, each cut or filled with zeros to the width that is given."""
    widths = n.attr("inputdimensions", None) or [p.shape[-1] for p in n.tensors()]
    parts: list[Tensor] = []
    for x, width in zip(n.tensors(), widths, strict=True):
        rows = x.to(f32).reshape(-1, 1) if x.ndim == 1 else x.to(f32).reshape(x.shape[0], -1)
        count = int(rows.shape[1])
        rows = rows.narrow(1, 0, min(count, width))
        if width > count:
            rows = functions.cat([rows, functions.zeros(rows.shape[0], width - count)], 1)
        parts.append(rows)
    return functions.cat(parts, 1)


_ENCODED = {"floats": np.float32, "int64s": np.int64}


def _encoded(n: OnnxNode, side: str) -> Array:
    found = n.attr(f"{side}_tensor", None)
    if found is not None:
        return np.asarray(found)
    for name, kind in _ENCODED.items():
        given = n.attr(f"{side}_{name}", None)
        if given:
            return np.asarray(given, kind)
    raise n.unsupported("it maps strings", "Map them before the model or behind it.")


def label_encoder(n: OnnxNode) -> Tensor:
    """Numbers for numbers by a table; another number for those that it does not have."""
    x, keys, values = n.tensor(0), _encoded(n, "keys"), _encoded(n, "values")
    if keys.dtype.kind in "OUS" or values.dtype.kind in "OUS":
        raise n.unsupported("it maps strings", "Map them before the model or behind it.")
    default = n.attr("default_tensor", None)
    name, usual = ("float", -0.0) if values.dtype.kind == "f" else ("int64", -1)
    other = np.asarray(n.attr(f"default_{name}", usual) if default is None else default)
    same = x.unsqueeze(-1) == table(n, keys, "keys")
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        same = same | (x.unsqueeze(-1).isnan() & table(n, np.isnan(keys), "none"))
    found = table(n, values, "values")[same.to(i64).argmax(-1)]
    return functions.where(same.any(-1), found, other.reshape(-1)[0].item()).to(found.dtype)


def one_hot(n: OnnxNode) -> Tensor:
    cats = n.attr("cats_int64s", None)
    if not cats:
        raise n.unsupported("it has strings", "Encode them before the model.")
    if not n.attr("zeros", 1):
        raise n.unsupported("it stops at other categories", "Export it with zeros=1.")
    x = n.tensor(0)
    return (x.to(i64).unsqueeze(-1) == table(n, np.asarray(cats), "categories")).to(f32)


def zip_map(n: OnnxNode) -> Tensor:
    """What the maps of its rows are made of: a column for each label, in their order."""
    x = n.tensor(0)
    count = max(len(n.attr(name, [])) for name in ("classlabels_int64s", "classlabels_strings"))
    if x.shape[-1] != count:
        why = f"it has {count} labels, and its operand is {list(x.shape)}"
        raise n.unsupported(why, "Export it again.")
    return x


_FUNCTIONS = {
    "LinearRegressor": linear_regressor,
    "LinearClassifier": linear_classifier,
    "SVMRegressor": svm_regressor,
    "SVMClassifier": svm_classifier,
    "Scaler": scaler,
    "Normalizer": normalizer,
    "Binarizer": binarizer,
    "Imputer": imputer,
    "ArrayFeatureExtractor": feature_extractor,
    "FeatureVectorizer": feature_vectorizer,
    "LabelEncoder": label_encoder,
    "OneHotEncoder": one_hot,
    "ZipMap": zip_map,
}
ROWS = tuple(Operator(name, f, domain=DOMAIN) for name, f in _FUNCTIONS.items())
