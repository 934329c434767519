"""Small models from naive ops, in which something is equal to less work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lumigen as lg
from lumigen import nn

ROWS = 48


def _traced(name: str, net: nn.Module, function: Callable[..., Any], **specs: Any) -> lg.Traced:
    model = lg.Model(name, net)
    function.__name__ = "forward"
    model.entry(**specs)(function)
    return model.trace()


class Weights(nn.Module):
    """Tensors by name."""

    def __init__(self, **shapes: tuple[int, ...]) -> None:
        for name, shape in shapes.items():
            setattr(self, name, nn.Parameter(*shape))


def low_rank() -> lg.Traced:
    net = Weights(a=(96, 4), b=(4, 80))
    return _traced("low_rank", net, lambda x: {"y": x @ (net.a @ net.b)}, x=lg.spec(ROWS, 96))


def low_rank_given() -> lg.Traced:
    return _traced(
        "low_rank_given",
        Weights(),
        lambda x, a, b: {"y": x @ (a @ b)},
        x=lg.spec(ROWS, 96),
        a=lg.spec(96, 4),
        b=lg.spec(4, 80),
    )


def adapted() -> lg.Traced:
    net = Weights(w=(96, 80), a=(96, 4), b=(4, 80))
    return _traced(
        "adapted",
        net,
        lambda x: {"y": x @ net.w + (x @ net.a) @ net.b * 0.5},
        x=lg.spec(ROWS, 96),
    )


def norm_then_product() -> lg.Traced:
    net = Weights(g=(96,), w=(80, 96))

    def function(x: lg.Tensor) -> dict[str, lg.Tensor]:
        scale = ((x * x).mean(-1, keepdim=True) + 1e-5).rsqrt()
        return {"y": (x * scale * net.g) @ net.w.T}

    return _traced("norm_then_product", net, function, x=lg.spec(ROWS, 96))


def layer_norm_then_product() -> lg.Traced:
    net = nn.Sequential(nn.LayerNorm(96), nn.Linear(96, 80))
    return _traced("layer_norm", net, lambda x: {"y": net(x)}, x=lg.spec(ROWS, 96))


def convolution_and_batch_norm() -> lg.Traced:
    net = nn.Sequential(nn.Conv2d(8, 16, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU())
    return _traced("batch_norm", net, lambda x: {"y": net(x)}, x=lg.spec(2, 8, 12, 12))


def cross_entropy() -> lg.Traced:
    def function(x: lg.Tensor, at: lg.Tensor) -> dict[str, lg.Tensor]:
        return {"y": -(x.softmax(-1).log() * at).sum(-1)}

    return _traced(
        "cross_entropy", Weights(), function, x=lg.spec(ROWS, 200), at=lg.spec(ROWS, 200)
    )


def map_after_gather() -> lg.Traced:
    """Of 8 rows many are made, each of which is computed again."""

    def function(x: lg.Tensor) -> dict[str, lg.Tensor]:
        return {"y": (x * 2).unfold(1, 16, 1).exp()}

    return _traced("map_after_gather", Weights(), function, x=lg.spec(8, 64))


class Layer(nn.Module):
    """A block of a transformer: norms by the root of squares, rotated queries and keys, a gated map."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        self.heads = heads
        self.before, self.after = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: lg.Tensor, cos: lg.Tensor, sin: lg.Tensor) -> lg.Tensor:
        h = self.before(x)
        q, k, v = (
            f(h).reshape(h.shape[0], self.heads, -1).transpose(0, 1)
            for f in (self.q, self.k, self.v)
        )
        q, k = (_turned(a, cos, sin) for a in (q, k))
        scores = (q @ k.transpose(1, 2) / 4).softmax(-1)
        x = x + self.o((scores @ v).transpose(0, 1).reshape(*x.shape))
        h = self.after(x)
        return x + self.down(self.gate(h).sigmoid() * self.gate(h) * self.up(h))


def _turned(a: lg.Tensor, cos: lg.Tensor, sin: lg.Tensor) -> lg.Tensor:
    half = a.shape[-1] // 2
    return a * cos + lg.cat([-a[..., half:], a[..., :half]], -1) * sin


def transformer(layers: int = 2) -> lg.Traced:
    net = nn.ModuleList([Layer(64, 4, 96) for _ in range(layers)])

    def function(x: lg.Tensor, cos: lg.Tensor, sin: lg.Tensor) -> dict[str, lg.Tensor]:
        for layer in net:
            x = layer(x, cos, sin)
        return {"y": x}

    return _traced(
        "transformer",
        net,
        function,
        x=lg.spec(ROWS, 64),
        cos=lg.spec(ROWS, 16),
        sin=lg.spec(ROWS, 16),
    )


PROGRAMS = {
    f.__name__: f
    for f in (
        low_rank,
        low_rank_given,
        adapted,
        norm_then_product,
        layer_norm_then_product,
        convolution_and_batch_norm,
        cross_entropy,
        map_after_gather,
        transformer,
    )
}
