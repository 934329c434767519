"""What of torch's list of ops is not offered, each with its reason: the only place that says so.

`EXCLUDED` has whole entries. `PARTLY` has entries that are offered, of whose samples some are left
out: by a test of the sample, with the reason; such an entry counts as passing in part. `DRAWN` has
entries whose numbers a generator of ours draws: of the samples that do, shapes and dtypes are torch's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

RANDOM = "it draws random numbers on its way, and takes no generator here"
COMPLEX = "complex numbers have no dtype here"
MATRIX = "it needs eigenvalues or singular values, or another decomposition that is not written"
SHAPE = "the shape of its result depends on data"
PLACE = "in place, or about how memory is laid out: tensors here are values without strides"
VALUE = "it asks for a value while the model is traced"
BACKWARD = "only a backward pass calls it"
INTERNAL = "an internal of ATen, whose public function is offered or listed here by itself"
SPARSE = "sparse layouts have no counterpart"
SERIES = "a special function of physics: its tables of coefficients are not written"
DEGREE = "a recurrence whose length is data"
BITS = "it reads a float's bits, which the twelve ops do not"
DTYPE = (
    "of dtypes that we do not have (i16), or of integers where PyTorch itself refuses them on CPUs"
)
TOOL = "a tool of PyTorch's that compiles CUDA"
RARE = "not written: hardly any model that runs has it, as it is a loss"
UNSORTED = "edges that do not ascend, of which PyTorch says nothing"

EXCLUDED: dict[str, tuple[str, ...]] = {
    RANDOM: (
        "nn.functional.fractional_max_pool2d",
        "nn.functional.fractional_max_pool3d",
        "pca_lowrank",
        "svd_lowrank",
    ),
    COMPLEX: (
        "cdouble",
        "cfloat",
        "chalf",
        "complex",
        "fft.fft",
        "fft.fft2",
        "fft.fftn",
        "fft.hfft",
        "fft.hfft2",
        "fft.hfftn",
        "fft.ifft",
        "fft.ifft2",
        "fft.ifftn",
        "fft.ihfft",
        "fft.ihfft2",
        "fft.ihfftn",
        "fft.irfft",
        "fft.irfft2",
        "fft.irfftn",
        "fft.rfft",
        "fft.rfft2",
        "fft.rfftn",
        "imag",
        "istft",
        "linalg.eig",
        "linalg.eigvals",
        "nn.functional.silu|complex",
        "polar",
        "stft",
        "view_as_complex",
        "view_as_real",
    ),
    MATRIX: (
        "linalg.cond",
        "linalg.eigh",
        "linalg.eigvalsh",
        "linalg.ldl_factor",
        "linalg.ldl_factor_ex",
        "linalg.ldl_solve",
        "linalg.lstsq",
        "linalg.lstsq|grad_oriented",
        "linalg.matrix_rank",
        "linalg.matrix_rank|hermitian",
        "linalg.pinv",
        "linalg.pinv|hermitian",
        "linalg.pinv|singular",
        "linalg.svd",
        "linalg.svdvals",
        "norm|nuc",
        "pinverse",
        "svd",
    ),
    SHAPE: (
        "argwhere",
        "bincount",
        "masked_select",
        "nonzero",
        "unique",
        "unique_consecutive",
    ),
    PLACE: (
        "as_strided_scatter",
        "as_strided|partial_views",
        "empty",
        "empty_like",
        "empty_permuted",
        "empty_strided",
        "new_empty",
        "new_empty_strided",
        "resize_",
        "resize_as_",
    ),
    VALUE: ("item",),
    BACKWARD: (
        "_softmax_backward_data",
        "max_pool2d_with_indices_backward",
        "native_dropout_backward",
    ),
    INTERNAL: (
        "_batch_norm_with_update",
        "_chunk_cat",
        "_efficient_attention_forward",
        "_flash_attention_forward",
        "_native_batch_norm_legit",
        "_safe_softmax",
        "_segment_reduce|lengths",
        "_segment_reduce|offsets",
        "_unsafe_masked_index",
        "_unsafe_masked_index_put_accumulate",
        "_upsample_bilinear2d_aa",
        "hash_tensor",
        "native_batch_norm",
        "native_group_norm",
        "native_layer_norm",
        "torch._scaled_mm",
        "torch._scaled_mm_v2",
    ),
    SPARSE: (
        "sparse.mm|reduce",
        "sparse.sampled_addmm",
        "to_sparse",
    ),
    SERIES: (
        "igamma",
        "igammac",
        "special.airy_ai",
        "special.bessel_j0",
        "special.bessel_j1",
        "special.bessel_y0",
        "special.bessel_y1",
        "special.modified_bessel_k0",
        "special.modified_bessel_k1",
        "special.scaled_modified_bessel_k0",
        "special.scaled_modified_bessel_k1",
    ),
    DEGREE: (
        "special.hermite_polynomial_h",
        "special.hermite_polynomial_he",
        "special.laguerre_polynomial_l",
        "special.legendre_polynomial_p",
    ),
    BITS: ("nextafter",),
    DTYPE: (
        "nn.functional.batch_norm|without_cudnn",
        "short",
    ),
    TOOL: (
        "jiterator_2inputs_2outputs",
        "jiterator_4inputs_with_extra_args",
        "jiterator_binary",
        "jiterator_binary_return_by_ref",
        "jiterator_unary",
    ),
    RARE: ("nn.functional.ctc_loss",),
}

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


def reason(name: str) -> str | None:
    """Why an entry is excluded; None if it is not."""
    return next((why for why, names in EXCLUDED.items() if name in names), None)


def left_out(name: str, sample: Any) -> bool:
    """Whether a sample of an entry is left out."""
    test = PARTLY.get(name)
    return test is not None and bool(test[0](sample))


def is_drawn(name: str, sample: Any) -> bool:
    """Whether the numbers that a sample of an entry gives are random."""
    test = DRAWN.get(name)
    return test is not None and bool(test(sample))


def reasons() -> list[str]:
    """All reasons, in the order of this file."""
    return [v for k, v in globals().items() if k.isupper() and isinstance(v, str)]
