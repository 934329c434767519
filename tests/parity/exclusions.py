"""What of the samples of torch's list of ops is left out, each with its reason.

Whole entries stand in `lumigen.frontend.excluded`. `PARTLY` has entries that are offered, of whose
samples some are left out: by a test of the sample, with the reason; such an entry counts as passing
in part. `DRAWN` has entries whose numbers a generator of ours draws: of the samples that do, shapes
and dtypes are torch's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from lumigen.frontend.excluded import MATRIX, RANDOM, SHAPE

UNSORTED = "edges that do not ascend, of which PyTorch says nothing"

Test = Callable[[Any], bool]


def _has(name: str, *values: Any) -> Test:
    """Whether an option has one of these values."""
    return lambda s: s.kwargs.get(name) in values


def _tensor_at(position: int, name: str) -> Test:
    def is_tensor(s: Any) -> bool:
        given = s.args[position] if len(s.args) > position else s.kwargs.get(name)
        return isinstance(given, torch.Tensor)

    return is_tensor


def _mask_in_key(s: Any) -> bool:
    keys = s.args[1] if isinstance(s.args[1], tuple) else (s.args[1],)
    return any(isinstance(k, torch.Tensor) and k.dtype is torch.bool for k in keys)


def _of_singular_values(s: Any) -> bool:
    """The nuclear norm, and 2 and -2 of matrices."""
    ord = s.args[1] if len(s.args) > 1 else s.kwargs.get("ord")
    dim = s.args[2] if len(s.args) > 2 else s.kwargs.get("dim")
    of_matrix = (
        len(dim) == 2 if isinstance(dim, tuple | list) else dim is None and s.args[0].ndim == 2
    )
    return ord == "nuc" or (ord in (2, -2) and of_matrix)


def _always(_: Any) -> bool:
    return True


def _drops(s: Any) -> bool:
    """Whether elements leave at random, and neither all nor none of them."""
    return bool(s.kwargs.get("training", True)) and s.kwargs.get("p", 0.5) not in (0, 1)


def _trains(s: Any) -> bool:
    return bool(s.kwargs.get("training", False))


DRAWN: dict[str, Test] = {
    "bernoulli": _always,
    "cauchy": _always,
    "exponential": _always,
    "geometric": _always,
    "log_normal": _always,
    "multinomial": _always,
    "nn.functional.alpha_dropout": _drops,
    "nn.functional.dropout": _drops,
    "nn.functional.dropout2d": _drops,
    "nn.functional.dropout3d": _drops,
    "nn.functional.feature_alpha_dropout|with_train": _drops,
    "nn.functional.rrelu": _trains,
    "normal": _always,
    "normal|in_place": _always,
    "normal|number_mean": _always,
    "rand_like": _always,
    "randint": _always,
    "randint_like": _always,
    "randn": _always,
    "randn_like": _always,
    "uniform": _always,
}


def _has_unsorted_edges(s: Any) -> bool:
    return any(isinstance(e, torch.Tensor) and bool((e.diff() < 0).any()) for e in s.args[1])


PARTLY: dict[str, tuple[Test, str]] = {
    "__getitem__": (_mask_in_key, SHAPE),
    "nn.functional.multi_head_attention_forward": (lambda s: s.args[10] != 0, RANDOM),
    "histogramdd": (_has_unsorted_edges, UNSORTED),
    "nn.functional.one_hot": (_has("num_classes", -1), SHAPE),
    "nn.functional.scaled_dot_product_attention": (
        lambda s: s.kwargs.get("dropout_p", 0) != 0,
        RANDOM,
    ),
    "linalg.matrix_norm": (_of_singular_values, MATRIX),
    "linalg.norm": (_of_singular_values, MATRIX),
    "linalg.norm|subgradients_at_zero": (_of_singular_values, MATRIX),
    "repeat_interleave": (_tensor_at(1, "repeats"), SHAPE),
    "tensor_split": (_tensor_at(1, "indices_or_sections"), SHAPE),
}


# (entry, dtype) beyond f32, i64 and bool in which PyTorch is not the oracle, or we refuse, and why
NO_ORACLE: dict[tuple[str, torch.dtype], str] = {
    **dict.fromkeys(
        (
            ("nn.functional.interpolate|bicubic", torch.uint8),
            ("nn.functional.interpolate|bilinear", torch.uint8),
            ("nn.functional.upsample_bilinear", torch.uint8),
        ),
        "refused: it rounds between the axes",
    ),
    **dict.fromkeys(
        (
            *((f"polygamma|polygamma_n_{n}", torch.int8) for n in range(5)),
            ("special.polygamma|special_polygamma_n_0", torch.int8),
        ),
        "at poles it gives what pi in f32 leaves of infinity",
    ),
}


def left_out(name: str, sample: Any) -> bool:
    """Whether a sample of an entry is left out."""
    test = PARTLY.get(name)
    return test is not None and bool(test[0](sample))


def is_drawn(name: str, sample: Any) -> bool:
    """Whether the numbers that a sample of an entry gives are random."""
    test = DRAWN.get(name)
    return test is not None and bool(test(sample))
