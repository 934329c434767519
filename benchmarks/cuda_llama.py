"""A decoder of the shape of Llama 3 8B on a GPU, random bf16 weights, beside torch.compile in the same run.

PYTHONPATH=. python3 benchmarks/cuda_llama.py [--quick] [--layers 32] [--alone] [--work DIRECTORY]

A prompt, and one token behind as many others. Caches are of bf16. torch's model has its queries, keys and values in one
product, and gate and up in one; its caches are as long as ours, and CUDA graphs replay its step. Programs take turns in
rounds; a ratio is torch's time over ours. A rate of memory counts every weight of a matrix once, and the caches up to
the position.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import cuda_rows
import harness
import llama
import torch
import torch.nn.functional as tf
from safetensors.torch import load_file, save_file

import lumigen as lg

POSITIONS, PROMPTS = (64, 512, 2000), (512,)
LENGTH = 2048  # of the caches
TOLERANCE = 3e-2  # of the norm of logits, to those of f32 arithmetic over the same weights
Weights = Mapping[str, torch.Tensor]


def make_checkpoint(directory: Path, config: Mapping[str, Any]) -> Path:
    """Random weights in the layout of Hugging Face; sums stay of the size of what is summed."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config))
    made = torch.Generator("cuda").manual_seed(0)

    def tensor(shape: tuple[int, ...]) -> torch.Tensor:
        if len(shape) == 1:
            return torch.ones(shape, dtype=torch.bfloat16)
        values = torch.randn(shape, generator=made, device="cuda", dtype=torch.bfloat16)
        return (values * shape[-1] ** -0.5).cpu()

    shapes = llama.shapes_of(config)
    save_file({n: tensor(s) for n, s in shapes.items()}, directory / "model.safetensors")
    return directory


# --- the model in torch -----------------------------------------------------------------------------


class Decoder(torch.nn.Module):
    """Logits behind the last of the tokens, which come behind those that the caches hold."""

    def __init__(self, config: Mapping[str, Any], weights: Weights) -> None:
        super().__init__()
        self.layers, self.heads = config["num_hidden_layers"], config["num_attention_heads"]
        self.groups, self.epsilon = config["num_key_value_heads"], config["rms_norm_eps"]
        self.features = config["hidden_size"] // self.heads
        # parameters and buffers: what is neither, a CUDA graph would copy in every step
        self.embedding = torch.nn.Parameter(weights["model.embed_tokens.weight"], False)
        self.head = torch.nn.Parameter(weights["lm_head.weight"], False)
        self.norm = torch.nn.Parameter(weights["model.norm.weight"], False)

        def stacked(*names: str) -> torch.nn.ParameterList:
            """For each layer these weights as one."""
            layers = (f"model.layers.{i}" for i in range(self.layers))
            each = (torch.cat([weights[f"{at}.{name}.weight"] for name in names]) for at in layers)
            return torch.nn.ParameterList([torch.nn.Parameter(w, False) for w in each])

        self.qkv = stacked(*(f"self_attn.{n}_proj" for n in "qkv"))
        self.out = stacked("self_attn.o_proj")
        self.gate_up = stacked("mlp.gate_proj", "mlp.up_proj")
        self.down = stacked("mlp.down_proj")
        self.before = stacked("input_layernorm")
        self.behind = stacked("post_attention_layernorm")
        shape = (self.layers, 2, 1, self.groups, LENGTH, self.features)
        self.register_buffer("caches", torch.zeros(shape, device="cuda", dtype=torch.bfloat16))
        half = self.features // 2
        turns = config["rope_theta"] ** (-torch.arange(half, device="cuda") / half)
        angles = torch.arange(LENGTH, device="cuda")[:, None] * turns
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        self.register_buffer("places", torch.arange(LENGTH, device="cuda"))

    def rotated(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        a, b = x.float().chunk(2, -1)
        cos, sin = self.cos[positions], self.sin[positions]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)

    def normed(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return tf.rms_norm(x, x.shape[-1:], weight, self.epsilon)

    def forward(self, ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """A prompt begins at 0; what comes behind it comes one by one."""
        x = self.embedding[ids][None]
        seen = (self.places <= positions[:, None])[None, None]
        sizes = (self.heads, self.groups, self.groups)
        for i in range(self.layers):
            y = tf.linear(self.normed(x, self.before[i]), self.qkv[i])
            q, k, v = y.unflatten(-1, (-1, self.features)).transpose(1, 2).split(sizes, 1)
            q, k = self.rotated(q, positions), self.rotated(k, positions)
            keys, values = self.caches[i]
            keys[:, :, positions], values[:, :, positions] = k, v
            if len(ids) == 1:
                y = tf.scaled_dot_product_attention(
                    q, keys, values, attn_mask=seen, enable_gqa=True
                )
            else:
                y = tf.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            x = x + tf.linear(y.transpose(1, 2).flatten(2), self.out[i])
            gate, up = tf.linear(self.normed(x, self.behind[i]), self.gate_up[i]).chunk(2, -1)
            x = x + tf.linear(tf.silu(gate) * up, self.down[i])
        return tf.linear(self.normed(x[:, -1], self.norm), self.head)[0]


class Widened(dict[str, torch.Tensor]):
    """Weights in f32, each when it is asked for."""

    def __getitem__(self, name: str) -> torch.Tensor:
        return super().__getitem__(name).float()


# --- what is compared: calls by their names, which give logits ----------------------------------------

Cases = dict[str, Callable[[], torch.Tensor]]


def lumigen_cases(
    checkpoint: Path, work: Path, tokens: torch.Tensor, stream: torch.cuda.Stream
) -> Cases:
    directory = work / "llama_8b"
    llama.emit(checkpoint, directory, "bf16", "cuda:sm_90a", LENGTH)
    context = lg.load(directory).Model().context(stream=stream)
    places = torch.arange(LENGTH, device="cuda")

    def call(entry: Callable[..., Any], first: int, end: int) -> Callable[[], torch.Tensor]:
        ids, at = tokens[first:end], places[first]
        out = torch.empty(llama.CONFIG_8B["vocab_size"], device="cuda", dtype=torch.bfloat16)

        def run() -> torch.Tensor:
            entry(ids, at, out=out)
            return out

        return run

    for first in range(0, LENGTH, llama.MOST):  # so that decoding finds what comes before
        call(context.prefill, first, first + llama.MOST)()
    cases = {f"prefill {n}": call(context.prefill, 0, n) for n in PROMPTS}
    return cases | {f"decode {n}": call(context.decode, n, n + 1) for n in POSITIONS}


def torch_cases(weights: Weights, config: Mapping[str, Any], tokens: torch.Tensor) -> Cases:
    decoder = Decoder(config, weights)
    places = torch.arange(LENGTH, device="cuda")
    decoder(tokens, places)
    step = torch.compile(decoder, mode="max-autotune", fullgraph=True)
    prompt = torch.compile(decoder, fullgraph=True, dynamic=False)
    cases: Cases = {f"prefill {n}": lambda n=n: prompt(tokens[:n], places[:n]) for n in PROMPTS}
    one, at = tokens[:1].clone(), places[:1].clone()  # where a graph that is replayed finds them

    def decode(n: int) -> torch.Tensor:
        one.copy_(tokens[n : n + 1])
        at.copy_(places[n : n + 1])
        return step(one, at)

    return cases | {f"decode {n}": lambda n=n: decode(n) for n in POSITIONS}


def check(cases: Cases, weights: Weights, config: Mapping[str, Any], tokens: torch.Tensor) -> None:
    """Each is the same model: its logits are those of f32 arithmetic over the same weights."""
    for name, case in cases.items():
        what, n = name.split()
        with torch.device("cuda"):
            exact = llama.logits(config, Widened(weights), tokens[: int(n) + (what == "decode")])
        found = case().float()
        error = ((found - exact).norm() / exact.norm()).item()
        if not error <= TOLERANCE:
            raise SystemExit(f"{name} is wrong by {error:.1e} of its norm.")


def bytes_of_token(config: Mapping[str, Any], position: int) -> int:
    """Every weight of a matrix but the embedding's, and the caches up to the position; bf16."""
    shapes = llama.shapes_of(config)
    read = sum(s[0] * s[1] for n, s in shapes.items() if len(s) == 2 and "embed" not in n)
    kv = config["hidden_size"] // config["num_attention_heads"] * config["num_key_value_heads"]
    return 2 * (read + config["num_hidden_layers"] * 2 * (position + 1) * kv)


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a look: 5 rounds, 8 layers")
    parser.add_argument("--layers", type=int, help="32 by default")
    parser.add_argument("--alone", action="store_true", help="without torch.compile")
    parser.add_argument("--work", type=Path, default=harness.ROOT / "build" / "benchmarks")
    options = parser.parse_args()
    layers = options.layers or (8 if options.quick else 32)
    config = llama.CONFIG_8B | {"num_hidden_layers": layers}
    checkpoint = make_checkpoint(options.work / f"llama_8b_{layers}", config)
    weights = load_file(checkpoint / "model.safetensors", device="cuda")
    made = torch.Generator("cuda").manual_seed(0)
    tokens = torch.randint(
        3, llama.CONFIG_8B["vocab_size"], (LENGTH,), generator=made, device="cuda"
    )
    stream = torch.cuda.Stream()
    peers = {"lumigen": lumigen_cases(checkpoint, options.work, tokens, stream)}
    if not options.alone:
        peers["torch.compile"] = torch_cases(weights, config, tokens)
    with torch.cuda.stream(stream):
        for cases in peers.values():
            check(cases, weights, config, tokens)
    source = torch.empty(1 << 32, dtype=torch.uint8, device="cuda")
    limit = {"read": lambda: source.view(torch.int64).sum()}
    times = cuda_rows.rounds(limit, stream, 5, 5, ahead=True)
    best = source.numel() / times["read"] / 1e3
    print(f"{torch.cuda.get_device_name()}, {layers} layers; reading reaches {best:.0f} GB/s")
    for name in peers["lumigen"]:
        programs = {peer: cases[name] for peer, cases in peers.items()}
        found = cuda_rows.rounds(programs, stream, 5 if options.quick else 15, 10, ahead=False)
        what, n = name.split()
        count = int(n) if what == "prefill" else 1
        said = [
            f"{name}: {found['lumigen'] / 1e3:.3f} ms, {count / found['lumigen'] * 1e6:.0f} tokens/s"
        ]
        if what == "decode":
            rate = bytes_of_token(config, int(n)) / found["lumigen"] / 1e3
            said.append(f"{rate:.0f} GB/s, {rate / best:.0%} of reading")
        said += [
            f"{p} / ours {t / found['lumigen']:.2f}" for p, t in found.items() if p != "lumigen"
        ]
        print(*said, sep="  ")


if __name__ == "__main__":
    main()
