"""excluded: what of PyTorch's list of ops is not offered, each with its reason: the only place that says so.

A reason completes `lumigen has no such, since ...`.
"""

from __future__ import annotations

RANDOM = "it draws random numbers on its way, and takes no generator here"
COMPLEX = "complex numbers have no dtype here"
MATRIX = "it needs eigenvalues or singular values, or another decomposition that is not written"
SHAPE = (
    "the shape of its result depends on data; that of nonzero_static, of where and of sums over masks "
    "does not"
)
PLACE = "it is in place, or about how memory is laid out: tensors here are values without strides"
VALUE = "it asks for a value while the model is traced"
BACKWARD = "only a backward pass calls it"
INTERNAL = "it is an internal of ATen, whose public function is offered or listed here by itself"
SPARSE = "sparse layouts have no counterpart"
SERIES = "it is a special function of physics, whose tables of coefficients are not written"
DEGREE = "it is a recurrence whose length is data"
BITS = "it reads a float's bits, which the twelve ops do not"
DTYPE = "it is of dtypes that we do not have (i16), or of integers where PyTorch itself refuses them on CPUs"
TOOL = "it is a tool of PyTorch's that compiles CUDA"
RARE = "hardly any model that runs has it, as it is a loss"

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


def reason(name: str) -> str | None:
    """Why an entry is excluded; None if it is not."""
    return next((why for why, names in EXCLUDED.items() if name in names), None)


def reason_of(name: str) -> str | None:
    """Likewise for what an entry is called in its namespace, whichever that is: a layer has its function's name."""
    entries = (n for names in EXCLUDED.values() for n in names)
    return next((reason(n) for n in entries if _plain(n.rpartition(".")[2]) == _plain(name)), None)


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
