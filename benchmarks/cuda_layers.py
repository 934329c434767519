"""Layers and operations one by one on a GPU, in 16 bits, beside torch.compile in the same run.

PYTHONPATH=. python3 benchmarks/cuda_layers.py [--quick] [--only NAMES] [--list] [--json FILE] [--limit SECONDS]

All rows are entries of one project, weights among their inputs. A row is checked against torch in f32, and timed in
turns with `torch.compile`, which searches as `max-autotune` does. Both are calls in CUDA graphs of ours, so that
neither waits for the host or copies its inputs, over sets of inputs that do not fit in the cache together. A ratio is
torch.compile's time over ours, with the 90% interval over rounds. Another process runs the rows: one that takes longer
than the limit is stopped, and the others go on.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import geometric_mean
from types import ModuleType
from typing import Any

import harness
import torch
from cuda_products import graph_of, sample
from harness import Samples

import lumigen as lg
from lumigen.build import build_project, load_module, write_project
from lumigen.emit.project import render_project
from lumigen.pipeline import lower_model
from lumigen.target import parse_target

TARGET = "cuda:sm_90a"
LIMIT = 60.0  # seconds of a row, torch's search included
TOLERANCE = 1e-2  # of the norm, to f32
CACHE = 3e8  # bytes of inputs that are surely not in a cache
DTYPES = {
    "bf16": (torch.bfloat16, lg.bf16),
    "f16": (torch.float16, lg.f16),
    "f32": (torch.float32, lg.f32),
    "i64": (torch.int64, lg.i64),
    "i8": (torch.int8, lg.i8),
    "u8": (torch.uint8, lg.u8),
}


# --- the rows ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Input:
    """N(0, 1) times `scale`, or integers from 0 to `below`, of i8 from -`below` on."""

    shape: tuple[int, ...]
    dtype: str
    scale: float = 1.0
    below: int = 0

    def spec(self) -> Any:
        held = DTYPES[self.dtype][1]
        if self.below and held.bits > 8:
            return lg.spec(*self.shape, dtype=held, range=(self.first, self.below))
        return lg.spec(*self.shape, dtype=held)

    @property
    def first(self) -> int:
        return -self.below if self.dtype == "i8" else 0

    def tensor(self, made: torch.Generator) -> torch.Tensor:
        device, kind = made.device, DTYPES[self.dtype][0]
        if self.below:
            ends = (self.first, self.below)
            return torch.randint(*ends, self.shape, generator=made, device=device, dtype=kind)
        values = torch.randn(self.shape, generator=made, device=device) * self.scale
        return values.to(DTYPES[self.dtype][0])


@dataclass(frozen=True)
class Row:
    """`call` takes `functional` of a library, torch's or ours, and tensors; it gives one or several."""

    call: Callable[..., Any]
    inputs: tuple[Input, ...]

    def outputs(self, functional: ModuleType, *inputs: Any) -> list[Any]:
        found = self.call(functional, *inputs)
        return list(found) if isinstance(found, tuple | list) else [found]


def f16(*shape: int, scale: float = 1.0) -> Input:
    return Input(shape, "f16", scale)


def bf16(*shape: int, scale: float = 1.0) -> Input:
    return Input(shape, "bf16", scale)


def f32(*shape: int) -> Input:
    return Input(shape, "f32")


def below(count: int, *shape: int) -> Input:
    return Input(shape, "i64", below=count)


def weight(rows: int, depth: int) -> Input:
    """Of a linear layer."""
    return bf16(rows, depth, scale=depth**-0.5)


def i8(*shape: int) -> Input:
    return Input(shape, "i8", below=127)


def kernel(*shape: int) -> Input:
    """The weights of a convolution."""
    return f16(*shape, scale=math.prod(shape[1:]) ** -0.5)


def channels_last(f: ModuleType, x: Any, w: Any, b: Any, **how: Any) -> Any:
    """A convolution of images and weights whose channels are their last axis."""
    y = f.conv2d(x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2), b, **how)
    return f.relu(y).permute(0, 2, 3, 1)


def transposed(f: ModuleType, x: Any, w: Any, b: Any) -> Any:
    y = f.conv_transpose2d(x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2), b, stride=2, padding=1)
    return y.permute(0, 2, 3, 1)


def last(
    n: int, side: int, channels: int, rows: int, taps: int, *, groups: int = 1, **how: int
) -> Row:
    """A convolution of channels-last images, by `taps` a side."""

    def call(f: ModuleType, x: Any, w: Any, b: Any) -> Any:
        return channels_last(f, x, w, b, groups=groups, **how)

    weights = kernel(rows, taps, taps, channels // groups)
    return Row(call, (f16(n, side, side, channels), weights, f16(rows)))


def depthwise(n: int, side: int, channels: int, taps: int, *, stride: int = 1) -> Row:
    """A depthwise convolution of channels-last images."""

    def call(f: ModuleType, x: Any, w: Any) -> Any:
        how = {"stride": stride, "padding": taps // 2, "groups": channels}
        return f.conv2d(x.permute(0, 3, 1, 2), w, **how).permute(0, 2, 3, 1)

    return Row(call, (f16(n, side, side, channels), kernel(channels, 1, taps, taps)))


def pooled(f: ModuleType, x: Any) -> Any:
    """Maxima of channels-last images, 3 x 3 by two."""
    return f.max_pool2d(x.permute(0, 3, 1, 2), 3, 2, 1).permute(0, 2, 3, 1)


def over_channels(_: ModuleType, x: Any, w: Any, b: Any) -> Any:
    """The norm of an image's channels, which are its second axis."""
    x = x.float()
    apart = x - x.mean(1, keepdim=True)
    scale = ((apart * apart).mean(1, keepdim=True) + 1e-6).rsqrt()
    return (apart * scale * w.float()[:, None, None] + b.float()[:, None, None]).half()


def squeezed(f: ModuleType, x: Any, down: Any, up: Any) -> Any:
    """Squeeze and excite of an image's channels."""
    gates = f.linear(f.relu(f.linear(x.mean((2, 3)), down)), up).sigmoid()
    return x * gates[:, :, None, None]


def squeezed_last(f: ModuleType, x: Any, down: Any, up: Any) -> Any:
    """The same of images whose channels come last."""
    gates = f.linear(f.relu(f.linear(x.mean((1, 2)), down)), up).sigmoid()
    return x * gates[:, None, None, :]


def two_convolutions(f: ModuleType, x: Any, first: Any, second: Any) -> Any:
    return f.conv2d(f.relu(f.conv2d(x, first, padding=1)), second, padding=1)


def projections(f: ModuleType, x: Any, q: Any, k: Any, v: Any) -> Any:
    return f.linear(x, q), f.linear(x, k), f.linear(x, v)


def gated(f: ModuleType, x: Any, gate: Any, up: Any) -> Any:
    return f.silu(x @ gate) * (x @ up)


def normed_linear(f: ModuleType, x: Any, w: Any, p: Any) -> Any:
    return f.linear(f.rms_norm(x, (4096,), w, 1e-5), p)


def attend(f: ModuleType, q: Any, k: Any, v: Any) -> Any:
    return f.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def causal(f: ModuleType, q: Any, k: Any, v: Any) -> Any:
    return f.scaled_dot_product_attention(q, k, v, is_causal=True)


def scored(_: ModuleType, q: Any, k: Any, v: Any) -> Any:
    """The same of plain ops, the scores scaled behind their product."""
    n, heads, queries, width = q.shape
    groups = q.reshape(n, k.shape[1], heads // k.shape[1] * queries, width)
    scores = (groups @ k.transpose(-1, -2)).float() * width**-0.5
    return (scores.softmax(-1).to(q.dtype) @ v).reshape(n, heads, queries, width)


def segment_mean(_: ModuleType, i: Any, x: Any) -> Any:
    """The mean of the rows of each of 50000 segments, 0 of none."""
    total = x.new_zeros(50000, x.shape[1]).index_add(0, i, x)
    count = x.new_zeros(50000).scatter_add(0, i, x.new_ones(x.shape[0]))
    return total / count.clamp(min=1).unsqueeze(1)


def scaled(f: ModuleType, x: Any, quants: Any, scale: Any) -> Any:
    """Weights of 8 bits with a scale for each row."""
    return f.linear(x, quants.to(x.dtype) * scale[:, None])


def of_bytes(f: ModuleType, x: Any, w: Any) -> Any:
    """Sums in i32 of products of integers of 8 bits, for which torch has an operator of its own."""
    if f is torch.nn.functional:
        return torch._int_mm(x, w.T)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    return x.to(lg.i32) @ w.to(lg.i32).T


def scaled_bytes(f: ModuleType, x: Any, w: Any, rows: Any, columns: Any) -> Any:
    """The same times numbers of rows and columns, as layers that are quantised in 8 bits have it."""
    sums = of_bytes(f, x, w)
    return (sums.to(lg.f32 if f is lg.functional else torch.float32)) * rows * columns


def in_halves(f: ModuleType, x: Any, quants: Any, scales: Any) -> Any:
    """Weights of 4 bits, those of a block of 32 in the lower halves of 16 bytes, then in the upper ones."""
    rows, blocks, _ = quants.shape
    stack = lg.stack if f is lg.functional else torch.stack
    values = stack([quants & 15, quants >> 4], -2).to(x.dtype) - 8
    weight = values * scales.to(x.dtype)[..., None, None]
    return f.linear(x, weight.reshape(rows, 32 * blocks))


def quantised(name: str, n: int, k: int) -> dict[str, Row]:
    """Products of 1 to 512 rows with weights (n, k) of 8 and 4 bits."""
    scales = Input((n, k // 32), "f16", k**-0.5 / 8)
    bytes_ = (Input((n, k), "i8", below=127), bf16(n, scale=k**-0.5 / 64))
    halves = (Input((n, k // 32, 16), "u8", below=256), scales)
    return {
        f"{kind}_{name}_{m}": Row(call, (bf16(m, k), *weights))
        for kind, call, weights in (("int8", scaled, bytes_), ("int4", in_halves, halves))
        for m in (1, 4, 16, 512)
    }


def over_keys(batch: int, queries: int, keys: int) -> tuple[Input, ...]:
    """Queries of 32 heads, in groups of four to a head of keys and values."""
    cache = bf16(batch, 8, keys, 128)
    return bf16(batch, 32, queries, 128), cache, cache


def distilled(f: ModuleType, student: Any, teacher: Any) -> Any:
    """At a temperature of 2."""
    targets = (teacher.float() / 2).softmax(-1)
    return f.kl_div((student.float() / 2).log_softmax(-1), targets, reduction="batchmean") * 4


def routed(_: ModuleType, x: Any) -> Any:
    weights, experts = x.softmax(-1).topk(8)
    return weights / weights.sum(-1, keepdim=True), experts


def log_probability(_: ModuleType, x: Any, t: Any) -> Any:
    return x.float().log_softmax(-1).gather(-1, t.unsqueeze(-1)).squeeze(-1)


def queried(f: ModuleType, x: Any, queries: Any, keys: Any, values: Any) -> Any:
    """Attention of learned queries, which are weights, over tokens."""
    k, v = f.linear(x, keys), f.linear(x, values)
    return f.scaled_dot_product_attention(queries.expand(x.shape[0], *queries.shape), k, v)


def memory(_: ModuleType, x: Any, keys: Any, values: Any) -> Any:
    """Keys and values that are weights."""
    return (x @ keys.transpose(0, 1)).softmax(-1) @ values


def latent(_: ModuleType, q: Any, turned: Any, latents: Any, keys: Any) -> Any:
    """Attention in the latent space, of which keys and values are the same, beside keys of positions."""
    scores = q @ latents.transpose(-1, -2) + turned @ keys.transpose(-1, -2)
    return (scores.float() * 0.07).softmax(-1).to(q.dtype) @ latents


def linear_attention(f: ModuleType, q: Any, k: Any, v: Any) -> Any:
    q, k = f.elu(q) + 1, f.elu(k) + 1
    state = k.transpose(-1, -2) @ v
    total = (q * k.sum(-2, keepdim=True)).sum(-1, keepdim=True)
    return q @ state / total


def both_ways(_: ModuleType, x: Any) -> Any:
    """Sums from each end, side by side."""
    ahead, behind = x.cumsum(-1), x.flip(-1).cumsum(-1).flip(-1)
    return x.new_zeros(1) + ahead, x.new_zeros(1) + behind


def divergence(f: ModuleType, student: Any, teacher: Any) -> Any:
    return f.kl_div(student.log_softmax(-1), teacher.softmax(-1), reduction="batchmean")


def of_rows(name: str, call: Callable[..., Any], *weights: Input) -> dict[str, Row]:
    """For one row of 4096, and for 512."""
    return {f"{name}_{n}": Row(call, (bf16(n, 4096), *weights)) for n in (1, 512)}


GATE = bf16(4096, 14336, scale=1 / 64)
IMAGE = (32, 64, 56, 56)
ROWS: dict[str, Row] = {
    "conv_3x3_bias_relu": Row(
        lambda f, x, w, b: f.relu(f.conv2d(x, w, b, padding=1)),
        (f16(*IMAGE), kernel(64, 64, 3, 3), f16(64)),
    ),
    "conv_3x3_stride2": Row(
        lambda f, x, w: f.conv2d(x, w, stride=2, padding=1),
        (f16(32, 128, 56, 56), kernel(128, 128, 3, 3)),
    ),
    "conv_depthwise": Row(
        lambda f, x, w: f.conv2d(x, w, padding=1, groups=144),
        (f16(32, 144, 56, 56), kernel(144, 1, 3, 3)),
    ),
    "conv_depthwise_7": Row(
        lambda f, x, w: f.conv2d(x, w, padding=3, groups=96),
        (f16(32, 96, 56, 56), kernel(96, 1, 7, 7)),
    ),
    "depthwise_last_3": depthwise(32, 56, 144, 3),
    "depthwise_last_5": depthwise(32, 14, 480, 5),
    "depthwise_last_5_stride2": depthwise(32, 28, 240, 5, stride=2),
    "depthwise_last_7": depthwise(32, 28, 192, 7),
    "depthwise_last_small": depthwise(32, 7, 960, 3),
    "max_pool_last": Row(pooled, (f16(32, 112, 112, 64),)),
    "mean_of_last": Row(lambda _, x: x.mean((1, 2)), (f16(32, 56, 56, 144),)),
    "conv_1x1": Row(lambda f, x, w: f.conv2d(x, w), (f16(32, 256, 28, 28), kernel(512, 256, 1, 1))),
    "conv_grouped": Row(
        lambda f, x, w: f.conv2d(x, w, padding=1, groups=8),
        (f16(32, 128, 28, 28), kernel(128, 16, 3, 3)),
    ),
    "conv_last_56": last(32, 56, 64, 64, 3, padding=1),
    "conv_last_28": last(32, 28, 128, 128, 3, padding=1),
    "conv_last_14": last(32, 14, 256, 256, 3, padding=1),
    "conv_last_7": last(32, 7, 512, 512, 3, padding=1),
    "conv_last_one_14": last(1, 14, 256, 256, 3, padding=1),
    "conv_last_one_7": last(1, 7, 512, 512, 3, padding=1),
    "conv_last_one_64": last(1, 64, 512, 512, 3, padding=1),
    "conv_last_two_64": last(2, 64, 320, 320, 3, padding=1),
    "conv_last_256": last(1, 256, 128, 128, 3, padding=1),
    "conv_last_stride2": last(32, 56, 128, 128, 3, padding=1, stride=2),
    "conv_last_1x1_stride2": last(32, 56, 256, 512, 1, stride=2),
    "conv_last_dilated": last(8, 33, 256, 256, 3, padding=2, dilation=2),
    "conv_last_grouped": last(32, 28, 256, 256, 3, padding=1, groups=8),
    "conv_last_grouped_16": last(32, 28, 256, 256, 3, padding=1, groups=16),
    "conv_last_grouped_8": last(32, 28, 256, 256, 3, padding=1, groups=32),
    "conv_last_grouped_4": last(32, 56, 128, 128, 3, padding=1, groups=32),
    "conv_last_grouped_4_stride2": last(32, 56, 256, 256, 3, padding=1, stride=2, groups=64),
    "conv_grouped_8": Row(
        lambda f, x, w: f.conv2d(x, w, padding=1, groups=16),
        (f16(16, 128, 28, 28), kernel(128, 8, 3, 3)),
    ),
    "conv_last_transposed": Row(transposed, (f16(8, 32, 32, 128), kernel(128, 4, 4, 64), f16(64))),
    "conv_twice": Row(
        two_convolutions, (f16(*IMAGE), kernel(128, 64, 3, 3), kernel(64, 128, 3, 3))
    ),
    "conv_first": Row(
        lambda f, x, w: f.max_pool2d(f.relu(f.conv2d(x, w, stride=2, padding=3)), 3, 2, 1),
        (f16(16, 3, 224, 224), kernel(64, 3, 7, 7)),
    ),
    "conv_first_7": Row(
        lambda f, x, w: f.conv2d(x, w, stride=2, padding=3),
        (f16(32, 3, 224, 224), kernel(64, 3, 7, 7)),
    ),
    "conv_first_3": Row(
        lambda f, x, w: f.silu(f.conv2d(x, w, stride=2, padding=1)),
        (f16(8, 3, 640, 640), kernel(16, 3, 3, 3)),
    ),
    "conv_first_3_same": Row(
        lambda f, x, w: f.relu(f.conv2d(x, w, padding=1)),
        (f16(8, 3, 224, 224), kernel(64, 3, 3, 3)),
    ),
    "conv_first_last": last(32, 224, 3, 64, 7, padding=3, stride=2),
    "conv_enlarged": Row(
        lambda f, x, w: f.conv2d(f.interpolate(x, scale_factor=2.0), w, padding=1),
        (f16(2, 512, 64, 64), kernel(512, 512, 3, 3)),
    ),
    "conv_enlarged_small": Row(
        lambda f, x, w: f.conv2d(f.interpolate(x, scale_factor=2.0), w, padding=1),
        (f16(8, 256, 32, 32), kernel(128, 256, 3, 3)),
    ),
    "conv_patches": Row(
        lambda f, x, w: f.conv2d(x, w, stride=16).flatten(2).transpose(1, 2),
        (f16(32, 3, 224, 224), kernel(768, 3, 16, 16)),
    ),
    "squeeze_excite_last": Row(
        squeezed_last, (f16(32, 28, 28, 240), kernel(60, 240), kernel(240, 60))
    ),
    "squeeze_excite_small": Row(squeezed, (f16(32, 960, 7, 7), kernel(240, 960), kernel(960, 240))),
    "squeeze_excite": Row(squeezed, (f16(32, 144, 56, 56), kernel(36, 144), kernel(144, 36))),
    "images_turned": Row(lambda _, x: x.permute(0, 2, 3, 1).contiguous(), (f16(32, 256, 56, 56),)),
    "matrix_turned": Row(lambda _, x: x.transpose(0, 1).contiguous(), (f16(8192, 6144),)),
    "layer_norm": Row(
        lambda f, x, w, b: f.layer_norm(x, (4096,), w, b),
        (bf16(16384, 4096), bf16(4096), bf16(4096)),
    ),
    "norm_of_channels": Row(over_channels, (f16(32, 256, 28, 28), f16(256), f16(256))),
    "norm_of_channels_large": Row(over_channels, (f16(8, 64, 256, 256), f16(64), f16(64))),
    "instance_norm": Row(
        lambda f, x, w, b: f.instance_norm(x, weight=w, bias=b),
        (f16(8, 64, 512, 512), f16(64), f16(64)),
    ),
    "group_norm_silu": Row(
        lambda f, x, w, b: f.silu(f.group_norm(x, 32, w, b)),
        (f16(1, 512, 128, 128), f16(512), f16(512)),
    ),
    "batch_norm_of_a_batch": Row(
        lambda f, x, w, b: f.batch_norm(x, None, None, w, b, training=True),
        (f16(64, 256, 28, 28), f16(256), f16(256)),
    ),
    **{
        f"batch_norm_of_{side}": Row(
            lambda f, x, w, b: f.batch_norm(x, None, None, w, b, training=True),
            (f16(n, channels, side, side), f16(channels), f16(channels)),
        )
        for n, channels, side in ((256, 512, 14), (128, 1024, 7), (32, 64, 112))
    },
    "norm_of_channels_7": Row(over_channels, (f16(32, 1024, 7, 7), f16(1024), f16(1024))),
    "norm_of_channels_14": Row(over_channels, (f16(64, 384, 14, 14), f16(384), f16(384))),
    **{
        f"group_norm_silu_{side}": Row(
            lambda f, x, w, b: f.silu(f.group_norm(x, 32, w, b)),
            (f16(n, channels, side, side), f16(channels), f16(channels)),
        )
        for n, channels, side in ((8, 256, 32), (2, 1280, 16), (2, 320, 64))
    },
    "variance_of_columns": Row(lambda _, x: x.float().var(0).half(), (f16(4096, 8192),)),
    "softmax_of_columns": Row(lambda _, x: x.softmax(1), (f16(64, 1000, 256),)),
    "linear_silu_mean": Row(
        lambda f, x, w: f.silu(f.linear(x, w)).mean(1), (bf16(32, 128, 1024), weight(1024, 1024))
    ),
    "linear_sigmoid_mean": Row(
        lambda f, x, w: f.linear(x, w).sigmoid().mean(-1), (bf16(8192, 1024), weight(4096, 1024))
    ),
    "linear_silu_softmax": Row(
        lambda f, x, w: f.silu(f.linear(x, w)).softmax(-1), (bf16(4096, 1024), weight(1024, 1024))
    ),
    "softmax_long": Row(lambda _, x: x.softmax(-1), (bf16(512, 131072),)),
    "softmax_few": Row(lambda _, x: x.softmax(-1), (bf16(16, 1000000),)),
    "cross_entropy": Row(
        lambda f, x, t: f.cross_entropy(x.float(), t), (bf16(2048, 128256), below(128256, 2048))
    ),
    "cross_entropy_32k": Row(
        lambda f, x, t: f.cross_entropy(x.float(), t), (bf16(8192, 32000), below(32000, 8192))
    ),
    "label_smoothing": Row(
        lambda f, x, t: f.cross_entropy(x.float(), t, label_smoothing=0.1),
        (bf16(4096, 32000), below(32000, 4096)),
    ),
    "log_probability": Row(log_probability, (bf16(2048, 128256), below(128256, 2048))),
    "distillation": Row(distilled, (bf16(4096, 32000), bf16(4096, 32000))),
    "divergence_f32": Row(divergence, (f32(4096, 8192), f32(4096, 8192))),
    **{f"argmax_{n}": Row(lambda _, x: x.argmax(-1), (f32(n, 128256),)) for n in (1, 32, 2048)},
    "logsumexp_of_product": Row(
        lambda _, x, w: (x @ w.transpose(0, 1)).float().logsumexp(-1),
        (bf16(1024, 1024), weight(32768, 1024)),
    ),
    "index_add": Row(
        lambda _, x, i, v: x.index_add(0, i, v),
        (f32(65536, 128), below(65536, 262144), f32(262144, 128)),
    ),
    "scatter_add": Row(
        lambda _, x, i, v: x.scatter_add(0, i, v),
        (f32(1 << 20), below(1 << 20, 1 << 20), f32(1 << 20)),
    ),
    "scatter_add_16m": Row(
        lambda _, x, i, v: x.scatter_add(0, i, v),
        (f32(1 << 20), below(1 << 20, 1 << 24), f32(1 << 24)),
    ),
    "segment_mean": Row(segment_mean, (below(50000, 1 << 20), f32(1 << 20, 64))),
    "graph_layer": Row(
        lambda _, x, i, j: (x * 0).index_add(0, j, x[i]),
        (f32(100000, 64), below(100000, 1000000), below(100000, 1000000)),
    ),
    "histogram_256": Row(
        lambda _, x, i, v: x.scatter_add(0, i, v), (f32(256), below(256, 1 << 24), f32(1 << 24))
    ),
    "counts_256": Row(lambda _, x: x.histc(256, -4, 4), (f32(1 << 24),)),
    "embedding_gradient": Row(
        lambda _, x, i, v: x.index_add(0, i, v.float()),
        (f32(32000, 1024), below(32000, 16384), bf16(16384, 1024)),
    ),
    "sort_one_row": Row(lambda _, x: x.sort(-1).values, (f32(1 << 20),)),
    "triangular_product": Row(
        lambda _, a, b: a.tril() @ b, (bf16(4096, 4096, scale=1 / 64), bf16(4096, 4096))
    ),
    "triangular_both": Row(
        lambda _, a, b: a.tril() @ b.tril(),
        (bf16(2048, 2048, scale=1 / 32), bf16(2048, 2048)),
    ),
    "band_product": Row(
        lambda _, a, b: a.tril().triu(-255) @ b,
        (bf16(8192, 8192, scale=1 / 16), bf16(8192, 1024)),
    ),
    "diagonal_product": Row(lambda _, d, x: d.diag() @ x, (bf16(4096), bf16(4096, 4096))),
    "one_hot_product": Row(
        lambda f, i, t: f.one_hot(i, 1000).to(t.dtype) @ t, (below(1000, 8192), bf16(1000, 512))
    ),
    "products_16": Row(
        lambda _, a, b: a @ b, (bf16(16384, 16, 16, scale=1 / 4), bf16(16384, 16, 16))
    ),
    "products_64": Row(
        lambda _, a, b: a @ b, (bf16(4096, 64, 64, scale=1 / 8), bf16(4096, 64, 64))
    ),
    "product_tall": Row(lambda _, x, w: x @ w, (bf16(262144, 256), bf16(256, 16, scale=1 / 16))),
    "product_tall_32": Row(lambda _, x, w: x @ w, (bf16(1000000, 32), bf16(32, 32, scale=1 / 6))),
    "product_deep": Row(
        lambda _, x, w: x @ w, (bf16(256, 262144, scale=1 / 512), bf16(262144, 64))
    ),
    "product_deep_128": Row(
        lambda _, x, w: x @ w, (bf16(128, 131072, scale=1 / 360), bf16(131072, 128))
    ),
    "product_deep_turned": Row(
        lambda _, x, w: x.transpose(0, 1) @ w, (bf16(65536, 256, scale=1 / 256), bf16(65536, 256))
    ),
    "product_deep_1024": Row(
        lambda _, x, w: x @ w, (bf16(1024, 32768, scale=1 / 181), bf16(32768, 64))
    ),
    "product_deep_512": Row(
        lambda _, x, w: x @ w, (bf16(512, 65536, scale=1 / 256), bf16(65536, 128))
    ),
    **of_rows("gate_up", gated, GATE, GATE),
    "gate_up_small_1": Row(gated, (bf16(1, 2048), *(bf16(2048, 5632, scale=1 / 45),) * 2)),
    "attention_pool": Row(
        queried, (bf16(32, 1024, 512), bf16(64, 128), weight(128, 512), weight(128, 512))
    ),
    "attention_memory": Row(
        memory, (bf16(16384, 128, scale=0.3), bf16(2048, 128), bf16(2048, 128))
    ),
    "attention_latent": Row(
        latent,
        (bf16(32, 128, 512), bf16(32, 128, 64), bf16(32, 1024, 512), bf16(32, 1024, 64)),
    ),
    "linear_attention": Row(linear_attention, (bf16(8, 16, 2048, 64),) * 3),
    "linear_attention_128": Row(linear_attention, (bf16(4, 16, 1024, 128),) * 3),
    "linear_attention_long": Row(linear_attention, (bf16(1, 8, 16384, 64),) * 3),
    "sums_both_ways": Row(both_ways, (f32(4096, 4096),)),
    **of_rows("qkv", projections, weight(4096, 4096), weight(1024, 4096), weight(1024, 4096)),
    **of_rows("rms_norm_linear", normed_linear, bf16(4096), weight(4096, 4096)),
    **quantised("square", 4096, 4096),
    **quantised("up", 14336, 4096),
    **quantised("down", 4096, 14336),
    **quantised("vocabulary", 128256, 4096),
    "attention_of_one": Row(attend, over_keys(1, 1, 16384)),
    "attention_of_one_short": Row(attend, over_keys(1, 1, 1024)),
    "attention_of_one_in_batch": Row(attend, over_keys(32, 1, 4096)),
    "attention_of_eight": Row(attend, over_keys(1, 8, 16384)),
    **{
        f"attention_scores_{n}_{keys}": Row(scored, over_keys(n, 1, keys))
        for n, keys in ((1, 32768), (8, 8192))
    },
    "attention_f32_causal": Row(causal, (f32(2, 16, 2048, 128),) * 3),
    "attention_f32_64": Row(attend, (f32(2, 16, 2048, 64),) * 3),
    "attention_f32": Row(attend, (f32(2, 16, 2048, 128),) * 3),
    "product_f32": Row(lambda _, a, b: a @ b, (f32(4096, 4096), f32(4096, 4096))),
    "product_f32_1024": Row(lambda _, a, b: a @ b, (f32(1024, 1024), f32(1024, 1024))),
    **{
        f"product_i8_{m}_{n}_{k}": Row(of_bytes, (i8(m, k), i8(n, k)))
        for m, n, k in ((32, 4096, 4096), (128, 4096, 4096), (1024, 4096, 4096), (4096, 4096, 4096))
    },
    "product_i8_scaled": Row(
        scaled_bytes, (i8(2048, 4096), i8(4096, 4096), f32(2048, 1), f32(4096))
    ),
    "linear_f32": Row(lambda f, a, b: f.linear(a, b), (f32(2048, 1024), f32(4096, 1024))),
    "topk_8_of_256": Row(lambda _, x: x.topk(8), (f32(16384, 256),)),
    **{
        f"topk_50_of_128k_{n}": Row(lambda _, x: x.topk(50), (f32(n, 128256),))
        for n in (1, 16, 256)
    },
    "topk_1000_of_1m": Row(lambda _, x: x.topk(1000), (f32(1, 1000000),)),
    "router": Row(routed, (f32(4096, 64),)),
}


# --- the project --------------------------------------------------------------------------------------


def model_of(rows: dict[str, Row]) -> lg.Model:
    model = lg.Model("layers_on_gpu")
    for name, row in rows.items():

        def entry(row: Row = row, **inputs: Any) -> dict[str, Any]:
            found = row.outputs(lg.functional, *inputs.values())
            return {f"y{i}": y for i, y in enumerate(found)}

        entry.__name__ = name
        model.entry(**{f"x{i}": x.spec() for i, x in enumerate(row.inputs)})(entry)
    return model


def build(rows: dict[str, Row], directory: Path) -> None:
    """Without the stored numbers of a project's own tests, which take the host a while at these sizes."""
    compiled = lower_model(model_of(rows).trace(), {}, target=parse_target(TARGET)).model
    write_project(render_project(compiled), directory, force=True)
    build_project(directory)


# --- the process that runs rows -----------------------------------------------------------------------


def serve(directory: Path, rounds: int, rows: dict[str, Row]) -> None:
    """For each name that comes a line for what begins, and one with the figures."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer

    def answer(**content: Any) -> None:
        answers.write(json.dumps(content) + "\n")
        answers.flush()

    torch.backends.cudnn.allow_tf32 = False
    stream = torch.cuda.Stream()
    model = load_module(directory).Model()
    answer(ready=True)
    for line in sys.stdin:
        name = line.strip()
        try:
            with torch.no_grad(), torch.cuda.stream(stream):
                context = model.context(stream=stream)
                found = figures(rows[name], getattr(context, name), stream, rounds, answer)
        except Exception as e:  # noqa: BLE001  # the other rows go on
            traceback.print_exc()
            told = next(iter(str(e).splitlines()), "")[:150]
            found = {"error": f"{type(e).__name__}: {told}"}
        answer(done=name, **found)
        torch.cuda.empty_cache()


def figures(
    row: Row,
    entry: Callable[..., Any],
    stream: torch.cuda.Stream,
    rounds: int,
    answer: Callable[..., None],
) -> dict[str, Any]:
    functional = torch.nn.functional
    answer(stage="inputs")
    sets = input_sets(row)
    wide = [x.float() if x.is_floating_point() else x for x in sets[0]]
    exact = row.outputs(functional, *wide)
    outs = [
        [torch.empty_like(y, memory_format=torch.contiguous_format) for y in ys]
        for ys in (row.outputs(functional, *s) for s in sets)
    ]
    torch.cuda.synchronize()

    def ours(i: int) -> Callable[[], Any]:
        out = outs[i] if len(outs[i]) > 1 else outs[i][0]
        return lambda: entry(*sets[i], out=out)

    answer(stage="our kernels")
    ours(0)()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    ours(0)()
    torch.cuda.synchronize()
    seconds = time.perf_counter() - begin
    errors = [distance(y, e) for y, e in zip(outs[0], exact, strict=True)]
    found: dict[str, Any] = {"error of ours": max(errors), "ms of a call": seconds * 1e3}
    answer(stage="torch.compile", **found)
    del exact, wide
    torch._dynamo.reset()  # noqa: SLF001  # each row by itself
    peer = torch.compile(
        lambda *inputs: row.outputs(functional, *inputs),
        mode="max-autotune-no-cudagraphs",  # the graphs are ours
        fullgraph=True,
        dynamic=False,
    )

    def theirs(i: int) -> Callable[[], Any]:
        return lambda: peer(*sets[i])

    theirs(0)()
    torch.cuda.synchronize()
    answer(stage="times", **found)
    count = len(sets) * max(1, min(8, int(2e-3 / seconds / len(sets))))
    programs = {
        "ours": [ours(i % len(sets)) for i in range(count)],
        "torch.compile": [theirs(i % len(sets)) for i in range(count)],
    }
    samples = measure({p: graph_of(calls, stream) for p, calls in programs.items()}, rounds, count)
    if not max(errors) <= TOLERANCE:
        found["error"] = f"wrong by {max(errors):.1e} of the norm"
    for program, s in samples.items():
        found[program] = s.seconds * 1e6
        found[f"rounds of {program}"] = [each * 1e6 for each in s.median]
    return found | {"ratio": asdict(harness.ratio(samples["ours"], samples["torch.compile"]))}


def input_sets(row: Row) -> list[list[torch.Tensor]]:
    made = torch.Generator("cuda").manual_seed(0)
    first = [x.tensor(made) for x in row.inputs]
    size = sum(x.numel() * x.element_size() for x in first)
    more = max(1, min(8, math.ceil(CACHE / size))) - 1
    return [first, *([x.tensor(made) for x in row.inputs] for _ in range(more))]


def distance(found: torch.Tensor, exact: torch.Tensor) -> float:
    """Relative to the norm."""
    apart = found.double() - exact.double()
    return (apart.norm() / exact.double().norm()).item()


def measure(graphs: dict[str, torch.cuda.CUDAGraph], rounds: int, calls: int) -> dict[str, Samples]:
    """Seconds of a call; in every round each once, in an order that turns."""
    samples = {program: Samples(program, 1, "") for program in graphs}
    order = list(graphs)
    for number in range(rounds + 2):
        order = order[1:] + order[:1]
        for program in order:
            found = sample(graphs[program], calls) / 1e3
            if number >= 2:  # the first two warm up
                samples[program].median.append(found)
    return samples


# --- the driver ---------------------------------------------------------------------------------------


class Worker:
    """The process that runs rows; a new one is started when one had to be stopped."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.process: subprocess.Popen[str] | None = None
        self.answers: queue.Queue[str] = queue.Queue()

    def start(self) -> subprocess.Popen[str]:
        o = self.options
        command = [sys.executable, sys.argv[0], "--serve", "--work", str(o.work)]
        command += ["--rounds", str(o.rounds)]
        log = (o.work / "cuda_layers.log").open("a")
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
        self.process, self.answers = process, queue.Queue()
        threading.Thread(target=self.listen, args=(process, self.answers), daemon=True).start()
        if not json.loads(self.answers.get(timeout=300) or "{}").get("ready"):
            raise SystemExit(f"the process that runs rows died; see {o.work / 'cuda_layers.log'}")
        return process

    @staticmethod
    def listen(process: subprocess.Popen[str], answers: queue.Queue[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            answers.put(line)
        answers.put("")  # it has ended

    def run(self, name: str) -> dict[str, Any]:
        """The figures of a row, or why there are none."""
        process = self.process or self.start()
        assert process.stdin is not None
        process.stdin.write(name + "\n")
        process.stdin.flush()
        end, known = time.monotonic() + self.options.limit, {"stage": "start"}
        while True:
            try:
                line = self.answers.get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                self.stop()
                why = f"stopped after {self.options.limit:.0f} s, at: {known['stage']}"
                return known | {"error": why}
            if not line:
                self.stop()
                return known | {"error": f"the process died at: {known['stage']}"}
            known |= json.loads(line)
            if "done" in known:
                return known

    def stop(self) -> None:
        if self.process:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)  # with those that search for torch
            self.process.wait()
        self.process = None


def line(name: str, found: dict[str, Any]) -> str:
    """A row of the table."""
    times = [f"{found[p]:.1f}" if p in found else "-" for p in ("ours", "torch.compile")]
    if "ours" not in found and "ms of a call" in found:
        times[0] = f"some {found['ms of a call'] * 1e3:.0f}"
    ratio = (
        "{median:.3f} ({low:.3f}-{high:.3f})".format(**found["ratio"]) if "ratio" in found else ""
    )
    return "| " + " | ".join([name, *times, ratio, found.get("error", "")]) + " |"


def chosen(every: dict[str, Row], only: str) -> dict[str, Row]:
    """The rows whose names begin with one of these."""
    wanted = tuple(part for part in only.split(",") if part)
    rows = {n: r for n, r in every.items() if not wanted or n.startswith(wanted)}
    if not rows:
        raise SystemExit(f"No rows {only}. There are {', '.join(every)}.")
    return rows


def parsed(about: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="7 rounds instead of 15")
    parser.add_argument("--only", default="", help="rows whose names begin so, divided by commas")
    parser.add_argument("--list", action="store_true", help="the rows and their inputs")
    parser.add_argument("--json", type=Path, help="all figures")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds of a row")
    parser.add_argument("--rounds", type=int)
    parser.add_argument(
        "--built", action="store_true", help="what the last run built is still good"
    )
    parser.add_argument("--work", type=Path, default=harness.ROOT / "build" / "benchmarks")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.rounds = options.rounds or (7 if options.quick else harness.ROUNDS)
    return options


def show(rows: dict[str, Row]) -> None:
    for name, row in rows.items():
        inputs = (f"{x.dtype} {' x '.join(map(str, x.shape))}" for x in row.inputs)
        print(f"{name}: {', '.join(inputs)}")


def measured(names: Sequence[str], options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """By row, each printed when it is known."""
    worker, found = Worker(options), {}
    try:
        for name in names:
            found[name] = worker.run(name)
            print(line(name, found[name]), flush=True)
    finally:
        worker.stop()
    return found


def main(every: dict[str, Row], about: str) -> None:
    options = parsed(about)
    directory = options.work / "cuda_layers"
    if options.serve:
        serve(directory, options.rounds, every)
        return
    rows = chosen(every, options.only)
    if options.list:
        show(rows)
        return
    options.work.mkdir(parents=True, exist_ok=True)
    begin = time.perf_counter()
    if not options.built:
        build(rows, directory)
        print(f"built in {time.perf_counter() - begin:.0f} s", flush=True)
    where = f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    print(f"{where}, {options.rounds} rounds\n")
    print("| row | ours, us | torch.compile, us | torch.compile / ours | |")
    print("| --- | --- | --- | --- | --- |", flush=True)
    found = measured(list(rows), options)
    right = [r["ratio"]["median"] for r in found.values() if "ratio" in r and "error" not in r]
    mean = geometric_mean(right) if right else math.nan
    print(f"\ngeometric mean of {len(right)} of {len(rows)} rows: {mean:.3f}")
    print(f"{time.perf_counter() - begin:.0f} s in all")
    if options.json:
        about = {"device": where, "rounds": options.rounds, "geometric mean": mean, "rows": found}
        options.json.write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main(ROWS, __doc__)
