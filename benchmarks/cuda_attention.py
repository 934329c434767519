"""Attention in bf16 from plain ops on a GPU, beside FlashAttention 2 and cuDNN as torch has them.

PYTHONPATH=. python3 benchmarks/cuda_attention.py

Prints the rate and each peer's time over ours, the median of 7 measurements of 5 calls; needs an H100 or H200 and nvcc.
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
    "FlashAttention 2": SDPBackend.FLASH_ATTENTION,
    "cuDNN": SDPBackend.CUDNN_ATTENTION,
}


def model() -> lg.Model:
    attention = lg.Model("attention")
    keys, batch = lg.Dim("keys", 1, LONGEST, typical=8192), lg.Dim("batch", 1, 16, typical=2)
    for features in (64, 128):
        for causal in (False, True):

            def entry(q, k, v, causal=causal):
                return functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

            entry.__name__ = f"features_{features}_{'causal' if causal else 'full'}"
            shape = lg.spec(batch, WIDTH // features, keys, features, dtype=lg.bf16)
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
    with tempfile.TemporaryDirectory() as folder:
        module = lg.compile(model(), "cuda:sm_90a", Path(folder) / "attention")
        context = module.Model().context(stream=stream)
        for features in (64, 128):
            for keys in (2048, 8192, 16384):
                for causal in (False, True):
                    compare(context, stream, features, keys, causal)


def compare(context, stream, features: int, keys: int, causal: bool) -> None:
    shape = (LONGEST // keys, WIDTH // features, keys, features)
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    out = torch.empty_like(q)
    name = f"features_{features}_{'causal' if causal else 'full'}"
    entry = getattr(context, name)

    def peer():
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    ours = milliseconds(lambda: entry(q, k, v, out=out), stream)
    ratios: list[str] = []
    for title, backend in PEERS.items():
        with sdpa_kernel(backend):
            ratios.append(f"{title} / ours {milliseconds(peer, stream) / ours:.2f}")
    error = ((out.float() - peer().float()).norm() / peer().float().norm()).item()
    flops = 4 * shape[0] * shape[1] * keys**2 * features * (0.5 if causal else 1)
    rate = flops / ours / 1e9
    print(f"{name} {keys} keys: {rate:.0f} TFLOP/s  {'  '.join(ratios)}  error {error:.1e}")


if __name__ == "__main__":
    main()
