"""Products, convolutions, norms, losses, scans and attention with what follows them on a GPU, beside torch.compile.

PYTHONPATH=. python3 benchmarks/cuda_fused.py [--quick] [--only NAMES] [--list] [--json FILE] [--limit SECONDS]

Problems that were measured before anything was done for them. Rows have the form, and the options, of `cuda_layers.py`.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
from cuda_layers import Input, Row, below, bf16, f16, f32, kernel, main, weight

import lumigen as lg

IMAGES = f16(64, 8, 64, 64)
TAPS = kernel(64, 8, 3, 3)
PER_CHANNEL = f16(64)
HEADS = bf16(4, 16, 1024, 64)


def squared_distance(x: Any, y: Any) -> Any:
    """Of each row of one matrix from each of another, in f32."""
    own = (x.float() ** 2).sum(1, keepdim=True) + (y.float() ** 2).sum(1)
    return own - 2 * (x @ y.transpose(0, 1)).float()


def scaled_rows(x: Any) -> Any:
    return x / x.float().norm(dim=1, keepdim=True).to(x.dtype)


def places(_: ModuleType, x: Any, steps: Any) -> Any:
    """Of each element of x among edges that grow by `steps`."""
    library = torch if isinstance(x, torch.Tensor) else lg
    return library.searchsorted(steps.abs().cumsum(0), x)


def focal(x: Any, labels: Any) -> Any:
    p = x.float().softmax(-1).gather(1, labels.unsqueeze(1))
    return -((1 - p) ** 2 * (p + 1e-8).log()).mean()


def triplet(_: ModuleType, anchor: Any, near: Any, far: Any) -> Any:
    apart = (anchor - near).float().norm(dim=1) - (anchor - far).float().norm(dim=1)
    return (apart + 1.0).clamp(min=0).mean()


def centred_maximum(f: ModuleType, x: Any, w: Any, b: Any) -> Any:
    most = f.linear(x, w, b).amax(1, keepdim=True)
    return f.gelu(most - most.mean(1, keepdim=True))


def packed_attention(f: ModuleType, x: Any, w: Any, out: Any) -> Any:
    """Queries, keys and values are one product; 12 heads of 64."""
    n, tokens, width = x.shape
    q, k, v = f.linear(x, w).reshape(n, tokens, 3, 12, 64).permute(2, 0, 3, 1, 4).unbind(0)
    y = f.scaled_dot_product_attention(q, k, v).transpose(1, 2)
    return f.linear(y.reshape(n, tokens, width), out)


def clamped_twice(f: ModuleType, x: Any, w: Any, b: Any) -> Any:
    return ((f.silu(f.linear(x, w, b)) / 2).clamp(-1, 1).tanh()).clamp(-1, 1)


CONVOLUTIONS: dict[str, Row] = {
    "conv_min_tanh": Row(
        lambda f, x, w, b: f.conv2d(x, w, b).amin(1, keepdim=True).tanh().tanh(),
        (f16(64, 16, 64, 64), kernel(64, 16, 3, 3), PER_CHANNEL),
    ),
    "conv_group_norm_pool": Row(
        lambda f, x, w, b, g, h, s: f.max_pool2d(
            f.group_norm(f.conv2d(x, w, b), 16, g, h) * s, 4
        ).clamp(0, 1),
        (IMAGES, TAPS, PER_CHANNEL, PER_CHANNEL, PER_CHANNEL, f16(64, 1, 1)),
    ),
    "conv_hardswish": Row(
        lambda f, x, w, b: f.relu(f.hardswish(f.conv2d(x, w, b))), (IMAGES, TAPS, PER_CHANNEL)
    ),
    "conv_mish": Row(
        lambda f, x, w, b: f.mish(f.conv2d(x, w, b) - 0.7), (IMAGES, TAPS, PER_CHANNEL)
    ),
    "conv_pool_sum": Row(
        lambda f, x, w, b: f.avg_pool2d(f.conv2d(x, w, b), 4).sigmoid().sum((1, 2, 3)),
        (f16(64, 8, 96, 96), TAPS, PER_CHANNEL),
    ),
    "conv_instance_norm": Row(
        lambda f, x, w, b: f.instance_norm(f.conv2d(x, w, b)) / 2.0,
        (f16(32, 64, 64, 64), kernel(64, 64, 3, 3), PER_CHANNEL),
    ),
    "conv_leaky_gelu": Row(
        lambda f, x, w, b, s: f.gelu(f.leaky_relu(f.conv2d(x, w, b) * s)),
        (f16(32, 64, 64, 64), kernel(64, 64, 3, 3), PER_CHANNEL, f16(64, 1, 1)),
    ),
    "conv_batch_norm_tanh_pool": Row(
        lambda f, x, w, b, g, h: f.max_pool2d(
            f.batch_norm(f.conv2d(x, w, b), None, None, g, h, training=True).tanh(), 2
        ),
        (f16(32, 32, 48, 48), kernel(64, 32, 3, 3), PER_CHANNEL, PER_CHANNEL, PER_CHANNEL),
    ),
    "conv_transpose_clamp": Row(
        lambda f, x, w, b: (
            f.conv_transpose2d(x, w, None, stride=2, padding=1, output_padding=1) + b
        ).clamp(0, 1),
        (f16(32, 64, 32, 32), kernel(64, 64, 3, 3), f16(64, 1, 1)),
    ),
    "conv_transpose_logsumexp": Row(
        lambda f, x, w, b: (
            f.conv_transpose2d(x, w, b).mean((2, 3), keepdim=True).logsumexp(1, keepdim=True)
        ),
        (f16(32, 64, 64, 64), kernel(64, 64, 3, 3), PER_CHANNEL),
    ),
    "conv_transpose_softmax": Row(
        lambda f, x, w, b: (f.conv_transpose2d(x, w, b, stride=2).softmax(1) * 2).sigmoid(),
        (f16(16, 64, 32, 32), kernel(64, 64, 4, 4), PER_CHANNEL),
    ),
    "conv1d_gelu_norm": Row(
        lambda f, x, w, b: f.layer_norm(
            f.gelu(f.conv1d(x, w, b, padding=1)).transpose(1, 2), (512,)
        ),
        (f16(16, 512, 1024), kernel(512, 512, 3), f16(512)),
    ),
    "conv3d_softmax_pool": Row(
        lambda f, x, w, b: f.max_pool3d(f.max_pool3d(f.conv3d(x, w, b).softmax(1), 2), 2),
        (f16(16, 3, 16, 32, 32), kernel(16, 3, 3, 3, 3), f16(16)),
    ),
    "conv3d_logsumexp": Row(
        lambda f, x, w, b: f.relu(
            f.max_pool3d(f.conv3d(x, w, b, padding=1), 2).logsumexp(1, keepdim=True)
        ),
        (f16(4, 32, 32, 32, 32), kernel(64, 32, 3, 3, 3), PER_CHANNEL),
    ),
}
PRODUCTS: dict[str, Row] = {
    "linear_group_norm": Row(
        lambda f, x, w, b: f.hardtanh(f.group_norm(f.linear(x, w, b), 16), -2, 2),
        (bf16(1024, 2048), weight(4096, 2048), bf16(4096)),
    ),
    "linear_silu_tanh": Row(clamped_twice, (bf16(1024, 4096), weight(4096, 4096), bf16(4096))),
    "linear_maximum": Row(
        lambda f, x, w, b: f.gelu(f.linear(x, w, b).amax(1)),
        (bf16(1024, 4096), weight(4096, 4096), bf16(4096)),
    ),
    "linear_batch_norm": Row(
        lambda f, x, w, b, g, h: f.silu(
            f.batch_norm(f.linear(x, w, b), None, None, g, h, training=True)
        ),
        (bf16(2048, 1024), weight(2048, 1024), bf16(2048), bf16(2048), bf16(2048)),
    ),
    "linear_softmax_cumsum": Row(
        lambda f, x, w, b: f.linear(x, w, b).float().softmax(1).cumsum(1),
        (bf16(512, 1024), weight(2048, 1024), bf16(2048)),
    ),
    "linear_residual_norm": Row(
        lambda f, x, w, b, r: f.layer_norm(f.linear(x, w, b) + r, (1024,)),
        (bf16(4096, 4096), weight(1024, 4096), bf16(1024), bf16(4096, 1024)),
    ),
    "linear_sigmoid_logsumexp": Row(
        lambda f, x, w, b, v: f.linear(f.linear(x, w, b).sigmoid(), v).float().logsumexp(1),
        (bf16(4096, 1024), weight(2048, 1024), bf16(2048), weight(1024, 2048)),
    ),
    "linear_norm_residual": Row(
        lambda f, x, w, y: (f.layer_norm(f.linear(x, w), (1024,)) + y) * y,
        (bf16(2048, 1024), weight(1024, 1024), bf16(2048, 1024)),
    ),
    "three_layers": Row(
        lambda f, x, a, b, c: f.linear(f.relu(f.linear(f.relu(f.linear(x, a)), b)), c),
        (bf16(256, 1024), weight(2048, 1024), weight(2048, 2048), weight(512, 2048)),
    ),
    "low_rank": Row(
        lambda f, x, w, a, b: f.linear(x, w) + f.linear(f.linear(x, a), b) * 0.5,
        (bf16(2048, 2048), weight(2048, 2048), weight(16, 2048), weight(2048, 16)),
    ),
    "swiglu": Row(
        lambda f, x, g, u, d: f.linear(f.silu(f.linear(x, g)) * f.linear(x, u), d),
        (bf16(1024, 2048), weight(5504, 2048), weight(5504, 2048), weight(2048, 5504)),
    ),
    "bilinear": Row(
        lambda _, x, y, w: ((x @ w) * y).sum(-1),
        (bf16(4096, 512), bf16(4096, 512), weight(512, 512)),
    ),
    "cosines": Row(
        lambda _, x, y: scaled_rows(x) @ scaled_rows(y).transpose(0, 1),
        (bf16(4096, 256), bf16(4096, 256)),
    ),
    "distances": Row(
        lambda _, x, y: squared_distance(x, y).clamp(min=0).sqrt(),
        (bf16(4096, 128), bf16(4096, 128)),
    ),
    "kernel_matrix_sums": Row(
        lambda _, x, y: (-squared_distance(x, y) / 64).exp().sum(1),
        (bf16(4096, 64, scale=0.2), bf16(8192, 64, scale=0.2)),
    ),
    "gates_and_sum": Row(
        lambda f, x, w: (x * f.linear(x, w).sigmoid()).sum(1),
        (bf16(32, 512, 768), weight(768, 768)),
    ),
    "centred_maximum": Row(
        lambda f, x, w, b: centred_maximum(f, x, w, b) + 1,
        (bf16(1024, 4096), weight(4096, 4096), bf16(4096)),
    ),
}
MAPS: dict[str, Row] = {
    "layer_norm_channels_first": Row(
        lambda f, x, w, b: f.layer_norm(x.permute(0, 2, 3, 1), (192,), w, b).permute(0, 3, 1, 2),
        (f16(32, 192, 28, 28), f16(192), f16(192)),
    ),
    "over_norm": Row(lambda _, x: x / (x**2).sum().sqrt(), (f32(32, 64, 256, 256),)),
    "triplet": Row(triplet, (bf16(16384, 1024), bf16(16384, 1024), bf16(16384, 1024))),
    "smooth_l1": Row(lambda f, a, b: f.smooth_l1_loss(a, b), (f32(8192, 8192), f32(8192, 8192))),
    "hinge": Row(
        lambda _, a, b: (1 - a * b).clamp(min=0).mean(), (f32(8192, 8192), f32(8192, 8192))
    ),
    "focal": Row(lambda _, x, t: focal(x, t), (bf16(16384, 1000), below(1000, 16384))),
    "masked_cumsum": Row(
        lambda _, x, m: (x * (m > 0.5)).cumsum(-1), (f32(4096, 4096), f32(4096, 4096))
    ),
    "reverse_cumsum": Row(lambda _, x: x.flip(-1).cumsum(-1).flip(-1), (f32(8192, 4096),)),
    "cumsum_of_columns": Row(lambda _, x: x.cumsum(0) - x, (f32(4096, 4096),)),
    "places_among_edges": Row(places, (Input((1 << 22,), "f32", scale=3000.0), f32(4096))),
    "argmax_of_the_middle": Row(lambda _, x: x.argmax(1), (f32(64, 512, 1024),)),
    "argmax_of_columns": Row(lambda _, x: x.argmax(0), (bf16(65536, 512),)),
    "argmin_of_few_columns": Row(lambda _, x: x.argmin(0), (f32(1 << 20, 12),)),
    "maximum_and_place": Row(lambda _, x: tuple(x.max(1)), (f32(64, 512, 1024),)),
    "logsumexp_of_the_middle": Row(lambda _, x: x.logsumexp(1), (f32(64, 4096, 256),)),
    "logsumexp_of_columns": Row(lambda _, x: x.logsumexp(0), (f32(65536, 512),)),
    "softmax_of_the_middle": Row(lambda _, x: x.softmax(1), (f32(64, 4096, 256),)),
    "least_of_rows": Row(lambda _, x: x.amin(2), (f32(64, 1024, 1024),)),
    "over_mean_magnitude": Row(
        lambda _, x: x / x.abs().mean(1, keepdim=True), (f32(16384, 16384),)
    ),
    "log_softmax_of_channels": Row(lambda _, x: x.log_softmax(1), (f16(64, 512, 28, 28),)),
    "pool_to_7": Row(lambda f, x: f.adaptive_avg_pool2d(x, (7, 7)), (f16(32, 256, 28, 28),)),
    "pool_by_8": Row(lambda f, x: f.max_pool2d(x, 8), (f16(32, 64, 112, 112),)),
    "pixel_shuffle": Row(lambda f, x: f.relu(f.pixel_shuffle(x, 2)), (f16(16, 256, 64, 64),)),
    "channel_shuffle": Row(
        lambda _, x: x.reshape(32, 4, 32, 56, 56).transpose(1, 2).reshape(32, 128, 56, 56),
        (f16(32, 128, 56, 56),),
    ),
    "enlarged_and_added": Row(
        lambda f, x, y: f.interpolate(x, scale_factor=2.0, mode="bilinear") + y,
        (f16(16, 64, 64, 64), f16(16, 64, 128, 128)),
    ),
}
ATTENTION: dict[str, Row] = {
    "attention_biased": Row(
        lambda _, q, k, v, s: (
            ((q @ k.transpose(-1, -2)).float() * 0.125 + s).softmax(-1).to(q.dtype) @ v
        ),
        (HEADS, HEADS, HEADS, bf16(16, 1, 1024)),
    ),
    "attention_of_relu": Row(
        lambda f, q, k, v: f.relu((q @ k.transpose(-1, -2)) * 0.125) @ v, (HEADS, HEADS, HEADS)
    ),
    "attention_packed": Row(
        packed_attention, (bf16(32, 197, 768), weight(2304, 768), weight(768, 768))
    ),
    "attention_of_windows": Row(
        lambda _, q, k, v, b: ((q @ k.transpose(-1, -2)) * 0.17 + b).softmax(-1) @ v,
        (f16(512, 4, 49, 32), f16(512, 4, 49, 32), f16(512, 4, 49, 32), f16(4, 49, 49)),
    ),
}
ROWS = CONVOLUTIONS | PRODUCTS | MAPS | ATTENTION


if __name__ == "__main__":
    main(ROWS, __doc__)
