"""refused: the ops of ATen that have no row and are not decomposed, each with its reason.

A reason completes `it is refused, since ...`.
"""

from __future__ import annotations

DATA = (
    "the shape of its result depends on data: lg.where and sums over masks have shapes that do not"
)
VALUE = "it asks for a value while the model runs, and Python decides by it: torch.where decides in the model"
RANDOM = "it draws random numbers, and a compiled model has no random state: pass them as an input"
COMPLEX = "complex numbers have no dtype here"
BACKWARD = "only a backward pass calls it, and models are compiled for inference"
MEMORY = "it asks how a tensor lies in memory, and tensors here are values without strides"
BITS = "it reads the bits of another dtype"

REFUSED: dict[str, tuple[str, ...]] = {
    DATA: (
        "argwhere",
        "bincount",
        "masked_select",
        "nonzero",
        "nonzero_numpy",
        "repeat_interleave.Tensor",
        "repeat_interleave.self_Tensor",
        "unique_consecutive",
        "unique_dim",
        "_unique",
        "_unique2",
    ),
    VALUE: ("_local_scalar_dense", "item", "is_nonzero"),
    RANDOM: (
        "bernoulli",
        "exponential",
        "multinomial",
        "normal",
        "normal_functional",
        "poisson",
        "rand",
        "rand_like",
        "randint",
        "randint_like",
        "randn",
        "randn_like",
        "randperm",
        "rrelu_with_noise_functional",
        "uniform",
    ),
    COMPLEX: (
        "complex",
        "fft_fft",
        "fft_fft2",
        "fft_fftn",
        "fft_ifft",
        "fft_ifft2",
        "fft_ifftn",
        "fft_irfft",
        "fft_irfft2",
        "fft_irfftn",
        "fft_rfft",
        "fft_rfft2",
        "fft_rfftn",
        "imag",
        "istft",
        "polar",
        "stft",
        "view_as_complex",
        "view_as_real",
        "_conj",
        "_fft_c2c",
        "_fft_c2r",
        "_fft_r2c",
    ),
    BACKWARD: (
        "_adaptive_avg_pool2d_backward",
        "avg_pool2d_backward",
        "convolution_backward",
        "embedding_dense_backward",
        "max_pool2d_with_indices_backward",
        "native_group_norm_backward",
        "native_layer_norm_backward",
    ),
    MEMORY: ("resize_", "sym_is_contiguous", "sym_storage_offset", "sym_stride"),
    BITS: ("view.dtype",),
}

REASONS = {name: why for why, names in REFUSED.items() for name in names}

OWN = "it is an operator of its own, and lumigen has no row for it"
# Operators that run graphs, less those that are compiled.
HIGHER = {
    "associative_scan": "PyTorch writes it out where sizes are fixed, unless combine_mode is pointwise",
    "auto_functionalized": OWN,
    "auto_functionalized_v2": OWN,
    "invoke_subgraph": OWN,
}
