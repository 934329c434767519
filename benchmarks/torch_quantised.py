"""Linear layers in integers of 8 bits, one thread: kernels of a CPU beside torch's own and torchao's, in alternation.

PYTHONPATH=. python3 benchmarks/torch_quantised.py [--rounds 15]

Weights have a scale for each row of 8 bits, activations one for each row that comes. torch's own are those of
`quantize_dynamic` with the faster of its engines, x86 and onednn; torchao's, where it is installed, are compiled by
torch.compile with frozen weights. Times are processor time, the least of the rounds; the ratio is the median of the
rounds, above 1 where ours are faster.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

os.environ.setdefault("TORCHINDUCTOR_FREEZING", "1")

import numpy as np
import torch

import lumigen as lg
from lumigen import fast_lane, functional
from lumigen.activations import rounded
from lumigen.pipeline import lower_model
from lumigen.quantise import quantised
from lumigen.target import parse_target

Array = np.ndarray[Any, Any]
SHAPES = ((768, 3072, 768), (2048, 2048))  # features, from layer to layer, with gelu between them
ROWS = (1, 16, 128, 512)


def float_net(features: tuple[int, ...]) -> torch.nn.Sequential:
    layers: list[torch.nn.Module] = []
    for i, (n, m) in enumerate(pairwise(features)):
        layers += [torch.nn.GELU()] * (i > 0) + [torch.nn.Linear(n, m)]
    return torch.nn.Sequential(*layers).eval()


def own_of_torch(net: torch.nn.Module, engine: str) -> torch.nn.Module:
    torch.backends.quantized.engine = engine
    return torch.ao.quantization.quantize_dynamic(net, {torch.nn.Linear}, torch.qint8)


def of_torchao(net: torch.nn.Module) -> Callable[..., torch.Tensor] | None:
    if importlib.util.find_spec("torchao") is None:
        return None
    torchao = importlib.import_module("torchao.quantization")
    torchao.quantize_(net, torchao.Int8DynamicActivationInt8WeightConfig())
    return torch.compile(net, dynamic=False)


def ours(net: torch.nn.Sequential, x: Array) -> Callable[[], Array]:
    """The same layers in lumigen: bytes with a scale for each row of a weight, and for each row of x."""
    linear = [layer for layer in net if isinstance(layer, torch.nn.Linear)]
    module = lg.nn.Module()
    for i, layer in enumerate(linear):
        setattr(module, f"l{i}", lg.nn.Linear(layer.in_features, layer.out_features))
    model = lg.Model("layers", module)

    @model.entry(x=lg.spec(*x.shape))
    def forward(x: lg.Tensor) -> dict[str, lg.Tensor]:
        for i in range(len(linear)):
            x = getattr(module, f"l{i}")(functional.gelu(x) if i else x)
        return {"y": x}

    weights = {
        f"l{i}.{name}": value.detach().numpy()
        for i, layer in enumerate(linear)
        for name, value in layer.named_parameters()
    }
    found = quantised(model.trace(), weights, "q8-row")
    traced = rounded(found.traced, "i8").traced
    lowered = lower_model(traced, {}, target=parse_target("cpu")).lowered
    kernels = fast_lane.load(lowered, "-O3")
    assert found.weights is not None, "they were given"
    arrays = {w.name: np.asarray(found.weights[w.name]) for w in traced.weights}
    call = kernels.prepare("forward", {"x": x}, kernels.packed(arrays))

    def run() -> Array:
        call.run()
        return call.outputs["y"]

    return run


def seconds(call: Callable[[], Any]) -> float:
    begin = time.process_time()
    call()
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print("| layers, rows | ours, us | torch, us | torchao, us | the faster one / ours | apart |")
    print("| --- | --- | --- | --- | --- | --- |")
    for features in SHAPES:
        for rows in ROWS:
            measure(features, rows, given.rounds)


def measure(features: tuple[int, ...], rows: int, rounds: int) -> None:
    net = float_net(features)
    x = torch.randn(rows, features[0])
    calls: dict[str, Callable[[], Any]] = {"ours": ours(net, x.numpy())}
    with torch.no_grad():
        exact = net(x).numpy()
        for engine in ("x86", "onednn"):
            calls[engine] = partial(own_of_torch(net, engine), x)
        if (made := of_torchao(net)) is not None:
            calls["torchao"] = partial(made, x)
        for call in calls.values():
            call()
        times = {name: list[float]() for name in calls}
        for _ in range(rounds):
            for name, call in calls.items():
                times[name].append(seconds(call))
    least = {name: min(t) * 1e6 for name, t in times.items()}
    peer = min((n for n in least if n != "ours"), key=least.__getitem__)
    ratio = np.median(np.array(times[peer]) / np.array(times["ours"]))
    apart = np.linalg.norm(calls["ours"]() - exact) / np.linalg.norm(exact)
    own = min(least["x86"], least["onednn"])
    figures = (f"{least['ours']:.0f}", f"{own:.0f}", f"{least.get('torchao', np.nan):.0f}")
    name = f"{' x '.join(map(str, features))}, {rows}"
    print(f"| {name} | {' | '.join(figures)} | {ratio:.2f} | {apart:.1e} |", flush=True)


if __name__ == "__main__":
    main()
