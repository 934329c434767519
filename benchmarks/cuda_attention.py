"""Attention from plain ops on a GPU, beside what torch has: in bf16 FlashAttention 2 and cuDNN, in f32 its own two.

PYTHONPATH=. python3 benchmarks/cuda_attention.py

Prints the rate and each peer's time over ours, the median of 7 measurements of 5 calls, and in brackets how far each is
from float64; needs an H100 or H200 and nvcc.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import lumigen as lg
from lumigen import functional

WIDTH, LONGEST = 2048, 16384  # heads times features; keys
PEERS = {
    "bf16": {
        "FlashAttention 2": SDPBackend.FLASH_ATTENTION,
        "cuDNN": SDPBackend.CUDNN_ATTENTION,
    },
    "f32": {"efficient": SDPBackend.EFFICIENT_ATTENTION, "math": SDPBackend.MATH},
}
KEYS = {"bf16": (2048, 8192, 16384), "f32": (2048, 4096)}


def model(dtype: str) -> lg.Model:
    attention = lg.Model(f"attention_{dtype}")
    keys, batch = lg.Dim("keys", 1, LONGEST, typical=8192), lg.Dim("batch", 1, 16, typical=2)
    for features in (64, 128):
        for causal in (False, True):

            def entry(q, k, v, causal=causal):
                return functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

            entry.__name__ = f"features_{features}_{'causal' if causal else 'full'}"
            shape = lg.spec(batch, WIDTH // features, keys, features, dtype=getattr(lg, dtype))
            attention.entry(q=shape, k=shape, v=shape)(entry)
    return attention


def milliseconds(call: Callable[[], object], stream: torch.cuda.Stream) -> float:
    times: list[float] = []
    for measured in range(8):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.cuda.stream(stream):
            start.record(stream)
            for _ in range(5):
                call()
            end.record(stream)
        end.synchronize()
        if measured:  # the first one warms up
            times.append(start.elapsed_time(end) / 5)
    return median(times)


def main() -> None:
    stream = torch.cuda.Stream()
    for dtype, lengths in KEYS.items():
        with tempfile.TemporaryDirectory() as folder:
            module = lg.compile(model(dtype), "cuda:sm_90a", Path(folder) / "attention")
            context = module.Model().context(stream=stream)
            for features in (64, 128):
                for keys in lengths:
                    for causal in (False, True):
                        compare(context, stream, dtype, features, keys, causal)


def compare(context, stream, dtype: str, features: int, keys: int, causal: bool) -> None:
    batch = LONGEST // keys // (4 if dtype == "f32" else 1)
    shape = (batch, WIDTH // features, keys, features)
    held = {"bf16": torch.bfloat16, "f32": torch.float32}[dtype]
    q, k, v = (torch.randn(shape, device="cuda", dtype=held) for _ in range(3))
    out = torch.empty_like(q)
    name = f"features_{features}_{'causal' if causal else 'full'}"
    entry = getattr(context, name)

    def peer():
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    ours = milliseconds(lambda: entry(q, k, v, out=out), stream)
    ratios: list[str] = []
    head = (slice(1), slice(1))  # whose scores in float64 fit
    exact = torch.nn.functional.scaled_dot_product_attention(
        q[head].double(), k[head].double(), v[head].double(), is_causal=causal
    )
    for title, backend in PEERS[dtype].items():
        with sdpa_kernel(backend):
            ratio = milliseconds(peer, stream) / ours
            ratios.append(f"{title} / ours {ratio:.2f} ({error(peer()[head], exact):.1e})")
    flops = 4 * shape[0] * shape[1] * keys**2 * features * (0.5 if causal else 1)
    rate = flops / ours / 1e9
    said = f"{dtype} {name} {keys} keys: {rate:.0f} TFLOP/s ({error(out[head], exact):.1e})"
    print(said, *ratios, sep="  ")


def error(found: torch.Tensor, exact: torch.Tensor) -> float:
    """Of the result's norm."""
    return ((found.double() - exact).norm() / exact.norm()).item()


if __name__ == "__main__":
    main()
