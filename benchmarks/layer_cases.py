"""Layers and operations as data, written once for two libraries: torch and lumigen."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

WHISPER = Path(__file__).parents[1] / "examples" / "whisper" / "model.py"


@dataclass(frozen=True)
class Library:
    """torch or lumigen: its functions, its `nn`, and `nn.functional`."""

    fn: ModuleType
    nn: ModuleType
    functional: ModuleType
    is_ours: bool


Shape = tuple[int, ...]


@dataclass(frozen=True)
class Input:
    """A tensor of one call: N(0, 1) in f32, integers from 0 to `below`, or numbers without ties; or these in order."""

    shape: Shape
    below: int = 0
    is_distinct: bool = False
    is_sorted: bool = False

    def array(self, seed: int) -> np.ndarray:
        drawn = self.drawn(np.random.default_rng([seed, *self.shape]))
        return np.sort(drawn, -1) if self.is_sorted else drawn

    def drawn(self, rng: np.random.Generator) -> np.ndarray:
        if self.below:
            return rng.integers(0, self.below, self.shape)
        if self.is_distinct:
            many = rng.permutation(math.prod(self.shape))
            return (many.reshape(self.shape) - many.size / 2).astype(np.float32) / many.size
        return rng.standard_normal(self.shape, dtype=np.float32)


@dataclass(frozen=True)
class LayerCase:
    """`make` gives a module of a library, which takes the inputs and gives one tensor."""

    group: str
    make: Callable[[Library], Any]
    inputs: tuple[Input, ...]
    tolerance: float = 1e-4  # of what comes out, to the same in f64
    dynamic: tuple[int, ...] = ()  # axes of our inputs that are dims; the peers' are fixed

    def arrays(self) -> list[np.ndarray]:
        return [each.array(i) for i, each in enumerate(self.inputs)]


def calls(f: Callable[..., Any], **layers: Callable[[Library], Any]) -> Callable[[Library], Any]:
    """A module that holds these layers under their names and calls `f(library, module, *inputs)`."""

    def make(lib: Library) -> Any:
        class Layer(lib.nn.Module):
            def __init__(self):
                super().__init__()
                for name, layer in layers.items():
                    setattr(self, name, layer(lib))

            def forward(self, *inputs):
                return f(lib, self, *inputs)

        return Layer()

    return make


def layer(kind: str, *args: Any, **more: Any) -> Callable[[Library], Any]:
    """A layer of `nn` by itself; of several results the first."""

    def forward(_lib: Library, module: Any, *inputs: Any) -> Any:
        out = module.layer(*inputs)
        return out[0] if isinstance(out, tuple) else out

    return calls(forward, layer=lambda lib: getattr(lib.nn, kind)(*args, **more))


def function(f: Callable[..., Any]) -> Callable[[Library], Any]:
    """What has no weights: `f(library, *inputs)`."""
    return calls(lambda lib, _module, *inputs: f(lib, *inputs))


def floats(*shapes: Shape) -> tuple[Input, ...]:
    return tuple(Input(s) for s in shapes)


def distinct(*shape: int) -> tuple[Input, ...]:
    return (Input(shape, is_distinct=True),)


def attend(lib: Library, q: Any, k: Any, v: Any) -> Any:
    """One token's (1, heads, 1, 64) on caches of (1, groups, positions, 64)."""
    return lib.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def route(lib: Library, module: Any, x: Any) -> Any:
    """One token through the two best of eight experts, whose weights are gathered."""
    chances = module.router(x).softmax(-1)
    best, which = lib.fn.topk(chances, 2)
    hidden = lib.fn.einsum("d,edh->eh", x[0], module.up.weight.unflatten(0, (8, 256))[which[0]])
    out = lib.fn.einsum(
        "eh,ehd->ed", hidden.relu(), module.down.weight.unflatten(0, (8, 1024))[which[0]]
    )
    return (best[0].unsqueeze(-1) * out).sum(0)


def stacked(lib: Library, module: Any, x: Any) -> Any:
    """Each token through the two best of eight experts, whose matrices stand apart, as checkpoints have them."""
    best, which = lib.fn.topk(module.router(x).softmax(-1), 2)
    up, down = (lib.fn.stack([e.weight for e in each]) for each in (module.up, module.down))
    hidden = lib.fn.einsum("td,tkhd->tkh", x, up[which]).relu()
    return (best.unsqueeze(-1) * lib.fn.einsum("tkh,tkdh->tkd", hidden, down[which])).sum(1)


def grouped(lib: Library, module: Any, x: Any) -> Any:
    """The same, each expert for all tokens."""
    best, which = lib.fn.topk(module.router(x).softmax(-1), 2)
    out = 0.0
    for e, (up, down) in enumerate(zip(module.up, module.down, strict=True)):
        out = out + (best * (which == e)).sum(-1, keepdim=True) * down(up(x).relu())
    return out


def matrices(rows: int, columns: int) -> Callable[[Library], Any]:
    """Eight linear layers without biases."""
    return lambda lib: lib.nn.ModuleList(
        [lib.nn.Linear(rows, columns, bias=False) for _ in range(8)]
    )


def of_experts(f: Callable[..., Any]) -> Callable[[Library], Any]:
    return calls(
        f,
        router=lambda lib: lib.nn.Linear(256, 8),
        up=matrices(256, 1024),
        down=matrices(1024, 256),
    )


def in_f64(f: Callable[..., Any]) -> Callable[[Library], Any]:
    return function(
        lambda lib, *inputs: f(*(x.to(lib.fn.f64) if lib.is_ours else x.double() for x in inputs))
    )


def channels_last(lib: Library, module: Any, x: Any) -> Any:
    """A convolution of an image, or a row, whose channels lie last."""
    del lib
    first, last = (0, 3, 1, 2), (0, 2, 3, 1)
    return module.conv(x.permute(first)).permute(last) if x.ndim == 4 else module.conv(x.mT).mT


def pick(lib: Library, x: Any, expert: Any) -> Any:
    """Tokens in the order of their experts, as a grouped product wants them."""
    order = lib.fn.argsort(expert, stable=True)
    return lib.fn.gather(x, 0, order.unsqueeze(-1).expand(-1, x.shape[1]))


def mel(lib: Library) -> Any:
    """80 bands of a second of sound: ours is the example's, the peers' as Whisper's own code has it."""
    if lib.is_ours:
        spec = importlib.util.spec_from_file_location("whisper_example", WHISPER)
        assert spec is not None
        assert spec.loader is not None
        example = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(example)
        return function(lambda _lib, audio: example.log_mel(audio, 80))(lib)
    bins, torch = 201, lib.fn

    class Mel(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("window", torch.hann_window(400))
            self.register_buffer("filters", filters(torch, bins))

        def forward(self, audio):
            stft = torch.stft(audio, 400, 160, window=self.window, return_complex=True)
            powers = torch.view_as_real(stft[..., :-1]).square().sum(-1)
            decades = (self.filters @ powers).clamp(min=1e-10).log10()
            return (torch.maximum(decades, decades.max() - 8) + 4) / 4

    return Mel()


def filters(torch: ModuleType, bins: int) -> Any:
    """(80, bins): triangles of equal areas, equally far apart in mel (Slaney), as the example has them."""
    top = 15 + math.log(8) * 27 / math.log(6.4)
    mels = torch.arange(82).double() * (top / 81)
    above = 1000 * ((mels - 15) * (math.log(6.4) / 27)).exp()
    corners = torch.where(mels < 15, mels * (200 / 3), above)
    low, middle, high = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    at = torch.arange(bins).double() * (8000 / (bins - 1))
    rising, falling = (at - low) / (middle - low), (high - at) / (high - middle)
    return (torch.minimum(rising, falling).clamp(min=0) * (2 / (high - low))).float()


def whisper_front(lib: Library, module: Any, x: Any) -> Any:
    return lib.functional.gelu(module.second(lib.functional.gelu(module.first(x))))


def step(lib: Library, module: Any, x: Any, h: Any, c: Any) -> Any:
    del lib
    h, c = module.cell(x, (h, c))
    return h + c


def sum_bags(lib: Library, module: Any, ids: Any, offsets: Any) -> Any:
    """Bags of ids in a row, each up to the next offset; the first one begins at 0."""
    first = lib.fn.zeros(1, dtype=lib.fn.i64 if lib.is_ours else lib.fn.int64)
    return module.table(ids, lib.fn.cat([first, offsets]))


def sequence(*layers: tuple[Any, ...]) -> Callable[[Library], Any]:
    """Layers of `nn` one after the other, as (kind, arguments)."""
    return lambda lib: lib.nn.Sequential(*(getattr(lib.nn, kind)(*args) for kind, *args in layers))


def enlarged(mode: str) -> Callable[[Library], Any]:
    """A convolution of an image of twice the height and width."""

    def forward(lib: Library, module: Any, x: Any) -> Any:
        return module.conv(lib.functional.interpolate(x, scale_factor=2, mode=mode))

    return calls(forward, conv=lambda lib: lib.nn.Conv2d(64, 64, 3, padding=1))


def squeeze(axes: tuple[int, int]) -> Callable[..., Any]:
    """Squeeze and excite: channels weighed by what an image has of each."""

    def forward(_lib: Library, module: Any, x: Any) -> Any:
        return x * module.up(module.down(x.mean(axes, keepdim=True)).relu()).sigmoid()

    return forward


def frequencies(count: int) -> Callable[[Library], Any]:
    """Coordinates, and the sines and cosines of `count` frequencies of each, side by side."""

    def forward(lib: Library, x: Any) -> Any:
        waves = [f(x * 2.0**k) for k in range(count) for f in (lib.fn.sin, lib.fn.cos)]
        return lib.fn.cat([x, *waves], -1)

    return function(forward)


def functions_side_by_side(lib: Library, x: Any, y: Any) -> Any:
    parts = [x.exp(), y.tanh(), (x * y).sigmoid(), x - y, x.sin(), y.cos(), x.relu()]
    return lib.fn.cat(parts, -1)


def of_pairs(lib: Library, x: Any, y: Any) -> Any:
    """What each pair of rows has: two parts that depend on one of both, and two that depend on both."""
    shape = (x.shape[0], y.shape[0], x.shape[1])
    of_row, of_column = x.tanh()[:, None].expand(shape), y.sigmoid()[None].expand(shape)
    return lib.fn.cat([of_row, of_column, of_row * of_column, of_row - of_column], -1)


def distances(lib: Library, scores: Any) -> Any:
    """(queries, keys): how far apart they are, as floats."""
    at = lib.fn.arange(scores.shape[-1])
    return floats_of(lib, (at[:, None] - at[None]).abs())


def floats_of(lib: Library, x: Any) -> Any:
    return x.to(lib.fn.f32) if lib.is_ours else x.float()


def alibi(lib: Library, scores: Any) -> Any:
    slopes = lib.fn.exp2(-1.0 - floats_of(lib, lib.fn.arange(scores.shape[1])))
    return scores - distances(lib, scores) * slopes[:, None, None]


def log_distance(lib: Library, scores: Any) -> Any:
    return scores - 0.5 * (distances(lib, scores) + 1).log()


def in_blocks(lib: Library, scores: Any) -> Any:
    """Keys of the same block of 16, every eighth one, and near ones."""
    at = lib.fn.arange(scores.shape[-1])
    i, j = at[:, None], at[None]
    seen = (i // 16 == j // 16) | (j % 8 == 0) | ((i - j).abs() < 4)
    return lib.fn.where(seen, scores, -1e9)


def masked(mask: Callable[[Library, Any], Any]) -> Callable[[Library], Any]:
    """The softmax of scores with a mask of positions."""
    return function(lambda lib, x: mask(lib, x).softmax(-1))


def attending(mask: Callable[[Library, Any], Any]) -> Callable[[Library], Any]:
    return function(lambda lib, q, k, v: mask(lib, 0.125 * (q @ k.mT)).softmax(-1) @ v)


def rotary(lib: Library, x: Any) -> Any:
    """Halves of heads, rotated by angles of their positions."""
    half = x.shape[-1] // 2
    speeds = (floats_of(lib, lib.fn.arange(half)) * (-math.log(10000.0) / half)).exp()
    angles = floats_of(lib, lib.fn.arange(x.shape[-2]))[:, None] * speeds
    c, s, a, b = angles.cos(), angles.sin(), x[..., :half], x[..., half:]
    return lib.fn.cat([a * c - b * s, b * c + a * s], -1)


STRIDED = sequence(
    ("Conv2d", 3, 64, 2, 2),
    ("ReLU",),
    ("Conv2d", 64, 64, 3, 1, 1),
    ("ReLU",),
    ("Conv2d", 64, 64, 1),
)
SMALL = sequence(("Conv2d", 128, 128, 3, 2, 1), ("ReLU",), ("Conv2d", 128, 128, 3, 1, 1))
IMAGE, WIDE = (1, 64, 56, 56), (1, 256, 28, 28)
SCORES, HEADS = (8, 8, 128, 128), (4, 8, 256, 64)
MILLION = 1 << 20
CASES: dict[str, LayerCase] = {
    "lstm_1": LayerCase("recurrent", layer("LSTM", 256, 256), floats((128, 1, 256))),
    "lstm_8": LayerCase("recurrent", layer("LSTM", 256, 256), floats((128, 8, 256))),
    "lstm_bidirectional_2": LayerCase(
        "recurrent", layer("LSTM", 256, 256, 2, bidirectional=True), floats((128, 1, 256))
    ),
    "gru_1": LayerCase("recurrent", layer("GRU", 256, 256), floats((128, 1, 256))),
    "gru_8": LayerCase("recurrent", layer("GRU", 256, 256), floats((128, 8, 256))),
    "rnn_1": LayerCase("recurrent", layer("RNN", 256, 256), floats((128, 1, 256))),
    "lstm_step": LayerCase(
        "recurrent",
        calls(step, cell=lambda lib: lib.nn.LSTMCell(256, 256)),
        floats((1, 256), (1, 256), (1, 256)),
    ),
    "conv1d_whisper": LayerCase(
        "convolution",
        calls(
            whisper_front,
            first=lambda lib: lib.nn.Conv1d(80, 384, 3, padding=1),
            second=lambda lib: lib.nn.Conv1d(384, 384, 3, stride=2, padding=1),
        ),
        floats((1, 80, 3000)),
    ),
    "conv2d_grouped": LayerCase(
        "convolution", layer("Conv2d", 128, 128, 3, padding=1, groups=8), floats((1, 128, 28, 28))
    ),
    "conv2d_depthwise": LayerCase(
        "convolution", layer("Conv2d", 96, 96, 3, padding=1, groups=96), floats((1, 96, 56, 56))
    ),
    "conv2d_depthwise_stride2": LayerCase(
        "convolution",
        layer("Conv2d", 96, 96, 3, stride=2, padding=1, groups=96),
        floats((1, 96, 112, 112)),
    ),
    "conv2d_depthwise_7": LayerCase(
        "convolution", layer("Conv2d", 96, 96, 7, padding=3, groups=96), floats((1, 96, 56, 56))
    ),
    "conv2d_depthwise_7_dynamic": LayerCase(
        "convolution",
        layer("Conv2d", 96, 96, 7, padding=3, groups=96),
        floats((1, 96, 56, 56)),
        dynamic=(2, 3),
    ),
    "conv2d_depthwise_5": LayerCase(
        "convolution", layer("Conv2d", 240, 240, 5, padding=2, groups=240), floats((1, 240, 14, 14))
    ),
    "conv2d_after_stride": LayerCase("convolution", STRIDED, floats((1, 3, 112, 112))),
    "conv2d_after_stride_dynamic": LayerCase(
        "convolution", STRIDED, floats((1, 3, 112, 112)), dynamic=(2, 3)
    ),
    "conv2d_small": LayerCase("convolution", SMALL, floats((1, 128, 28, 28))),
    "conv2d_small_dynamic": LayerCase(
        "convolution", SMALL, floats((1, 128, 28, 28)), dynamic=(2, 3)
    ),
    "conv2d_pooled": LayerCase(
        "convolution",
        sequence(("Conv2d", 32, 64, 3, 1, 1), ("ReLU",), ("MaxPool2d", 2)),
        floats((1, 32, 56, 56)),
    ),
    "conv2d_of_nearest": LayerCase("convolution", enlarged("nearest"), floats((1, 64, 28, 28))),
    "conv2d_of_bilinear": LayerCase("convolution", enlarged("bilinear"), floats((1, 64, 28, 28))),
    "conv1d_grouped_128": LayerCase(
        "convolution", layer("Conv1d", 256, 256, 128, padding=64, groups=16), floats((1, 256, 200))
    ),
    "squeeze_excite": LayerCase(
        "convolution",
        calls(
            squeeze((2, 3)),
            down=lambda lib: lib.nn.Conv2d(96, 24, 1),
            up=lambda lib: lib.nn.Conv2d(24, 96, 1),
        ),
        floats((1, 96, 28, 28)),
    ),
    "squeeze_excite_nhwc": LayerCase(
        "convolution",
        calls(
            squeeze((1, 2)),
            down=lambda lib: lib.nn.Linear(96, 24),
            up=lambda lib: lib.nn.Linear(24, 96),
        ),
        floats((1, 28, 28, 96)),
    ),
    "conv2d_depthwise_7_nhwc": LayerCase(
        "convolution",
        calls(channels_last, conv=lambda lib: lib.nn.Conv2d(96, 96, 7, padding=3, groups=96)),
        floats((1, 28, 28, 96)),
    ),
    "conv1d_depthwise_7_last": LayerCase(
        "convolution",
        calls(channels_last, conv=lambda lib: lib.nn.Conv1d(256, 256, 7, padding=3, groups=256)),
        floats((1, 1000, 256)),
    ),
    "conv1d_depthwise_31": LayerCase(
        "convolution",
        layer("Conv1d", 256, 256, 31, padding=15, groups=256),
        floats((1, 256, 400)),
    ),
    "conv_transpose2d": LayerCase(
        "convolution", layer("ConvTranspose2d", 64, 64, 2, stride=2), floats((1, 64, 40, 40))
    ),
    "conv_transpose2d_4": LayerCase(
        "convolution",
        layer("ConvTranspose2d", 64, 32, 4, stride=2, padding=1),
        floats((1, 64, 40, 40)),
    ),
    "max_pool2d": LayerCase("pooling", layer("MaxPool2d", 3, 2, 1), floats((1, 64, 112, 112))),
    "max_pool2d_5": LayerCase("pooling", layer("MaxPool2d", 5, 1, 2), floats((1, 256, 20, 20))),
    "avg_pool2d": LayerCase("pooling", layer("AvgPool2d", 2), floats((1, 64, 112, 112))),
    "global_avg_pool2d": LayerCase(
        "pooling", layer("AdaptiveAvgPool2d", 1), floats((8, 512, 7, 7))
    ),
    "bilinear_2": LayerCase(
        "resize",
        function(
            lambda lib, x: lib.functional.interpolate(
                x, scale_factor=2, mode="bilinear", align_corners=False
            )
        ),
        floats(IMAGE),
    ),
    "nearest_2": LayerCase(
        "resize",
        function(lambda lib, x: lib.functional.interpolate(x, scale_factor=2, mode="nearest")),
        floats(IMAGE),
    ),
    "frequencies_3": LayerCase("pieces", frequencies(10), floats((4096, 3))),
    "frequencies_3_dynamic": LayerCase("pieces", frequencies(10), floats((4096, 3)), dynamic=(0,)),
    "frequencies_64": LayerCase("pieces", frequencies(6), floats((1024, 64))),
    "functions_side_by_side": LayerCase(
        "pieces", function(functions_side_by_side), floats((256, 512), (256, 512))
    ),
    "parts_of_pairs": LayerCase("pieces", function(of_pairs), floats((128, 64), (128, 64))),
    "softmax_alibi": LayerCase("masks", masked(alibi), floats(SCORES)),
    "softmax_blocks": LayerCase("masks", masked(in_blocks), floats(SCORES)),
    "softmax_blocks_dynamic": LayerCase("masks", masked(in_blocks), floats(SCORES), dynamic=(0,)),
    "attention_log_distance": LayerCase("masks", attending(log_distance), floats(*3 * [HEADS])),
    "attention_blocks": LayerCase("masks", attending(in_blocks), floats(*3 * [HEADS])),
    "rotary": LayerCase("masks", function(rotary), floats(HEADS)),
    "layer_norm": LayerCase("norm", layer("LayerNorm", 768), floats((128, 768))),
    "group_norm": LayerCase("norm", layer("GroupNorm", 32, 256), floats(WIDE)),
    "batch_norm": LayerCase("norm", layer("BatchNorm2d", 256), floats(WIDE)),
    "instance_norm": LayerCase("norm", layer("InstanceNorm2d", 256, affine=True), floats(WIDE)),
    "softmax_last": LayerCase("softmax", function(lambda _, x: x.softmax(-1)), floats((512, 1024))),
    "softmax_first": LayerCase("softmax", function(lambda _, x: x.softmax(0)), floats((512, 1024))),
    "softmax_middle": LayerCase(
        "softmax", function(lambda _, x: x.softmax(1)), floats((16, 85, 400))
    ),
    "cumsum_long": LayerCase(
        "order", function(lambda _, x: x.cumsum(-1)), distinct(MILLION), tolerance=0.1
    ),
    "cumsum_rows": LayerCase(
        "order", function(lambda _, x: x.cumsum(-1)), floats((64, 4096)), tolerance=1e-2
    ),
    "sort_10k": LayerCase("order", function(lambda _, x: x.sort(-1)[0]), distinct(10_000)),
    "sort_1m": LayerCase("order", function(lambda _, x: x.sort(-1)[0]), distinct(MILLION)),
    "argsort_10k": LayerCase("order", function(lambda _, x: x.argsort(-1)), distinct(10_000)),
    "argsort_1m": LayerCase("order", function(lambda _, x: x.argsort(-1)), distinct(MILLION)),
    "topk_10k": LayerCase("order", function(lambda _, x: x.topk(50)[0]), distinct(10_000)),
    "topk_1m": LayerCase("order", function(lambda _, x: x.topk(50)[0]), distinct(MILLION)),
    "topk_vocabulary": LayerCase("order", function(lambda _, x: x.topk(40)[0]), distinct(4, 32000)),
    "argmax_vocabulary": LayerCase(
        "order", function(lambda _, x: x.argmax(-1)), distinct(4, 128256)
    ),
    "mode_20k": LayerCase(
        "order", function(lambda _, x: x.mode(-1)[0]), (Input((20_000,), below=5000),)
    ),
    "searchsorted_1m": LayerCase(
        "rows by data",
        function(lambda lib, row, x: lib.fn.searchsorted(row, x)),
        (Input((10_000,), is_sorted=True), Input((MILLION,))),
    ),
    "bucketize_rows": LayerCase(
        "rows by data",
        function(lambda lib, x, row: lib.fn.bucketize(x, row)),
        (Input((512, 1024)), Input((256,), is_sorted=True)),
    ),
    "isin_20k": LayerCase(
        "rows by data",
        function(lambda lib, x, others: x * lib.fn.isin(x, others)),
        (Input((20_000,), below=100_000), Input((20_000,), below=100_000)),
    ),
    "embedding_bags": LayerCase(
        "rows by data",
        calls(sum_bags, table=lambda lib: lib.nn.EmbeddingBag(30000, 64, mode="mean")),
        (Input((20_000,), below=30000), Input((1000,), below=20_000, is_sorted=True)),
    ),
    "embedding_sum": LayerCase(
        "indices",
        calls(
            lambda _, module, ids: module.table(ids).sum(1),
            table=lambda lib: lib.nn.Embedding(30000, 256),
        ),
        (Input((64, 32), below=30000),),
    ),
    "gather": LayerCase(
        "indices",
        function(lambda lib, x, i: lib.fn.gather(x, 1, i)),
        (Input((512, 1024)), Input((512, 256), below=1024)),
    ),
    "gather_rows": LayerCase(
        "indices", function(lambda _, x, i: x[i]), (Input((4096, 256)), Input((1024,), below=4096))
    ),
    "scatter_add": LayerCase(
        "indices",
        function(lambda lib, x, i, v: lib.fn.scatter_add(x, 1, i, v)),
        (Input((64, 4096)), Input((64, 4096), below=4096), Input((64, 4096))),
    ),
    "index_add_rows": LayerCase(
        "indices",
        function(lambda lib, x, i, v: lib.fn.index_add(x, 0, i, v)),
        (Input((4096, 64)), Input((16384,), below=4096), Input((16384, 64))),
    ),
    "einsum_scores": LayerCase(
        "einsum",
        function(lambda lib, q, k: lib.fn.einsum("bihd,bjhd->bhij", q, k)),
        floats((1, 256, 8, 64), (1, 256, 8, 64)),
        tolerance=1e-3,
    ),
    "einsum_bilinear": LayerCase(
        "einsum",
        function(lambda lib, x, w, y: lib.fn.einsum("bi,oij,bj->bo", x, w, y)),
        floats((16, 128), (32, 128, 128), (16, 128)),
        tolerance=1e-2,
    ),
    "einsum_outer": LayerCase(
        "einsum",
        function(lambda lib, x, y: lib.fn.einsum("bi,bj->bij", x, y)),
        floats((8, 256), (8, 512)),
    ),
    "einsum_transposed": LayerCase(
        "einsum",
        function(lambda lib, x, y: lib.fn.einsum("kbm,knb->bmn", x, y)),
        floats((256, 4, 128), (256, 128, 4)),
        tolerance=1e-3,
    ),
    "matrix_vector": LayerCase(
        "einsum", function(lambda _, x, w: w @ x), floats((2048,), (2048, 2048)), tolerance=1e-3
    ),
    "vector_matrix": LayerCase(
        "einsum", function(lambda _, x, w: x @ w), floats((2048,), (2048, 2048)), tolerance=1e-3
    ),
    "rows_matrix_2": LayerCase(
        "einsum", function(lambda _, x, w: x @ w), floats((2, 2048), (2048, 2048)), tolerance=1e-3
    ),
    "rows_matrix_4": LayerCase(
        "einsum", function(lambda _, x, w: x @ w), floats((4, 2048), (2048, 2048)), tolerance=1e-3
    ),
    "vectors_matrices": LayerCase(
        "einsum",
        function(lambda _, x, w: x @ w),
        floats((8, 1, 512), (8, 512, 512)),
        tolerance=1e-3,
    ),
    "vector_matrix_wide": LayerCase(
        "einsum", function(lambda _, x, w: x @ w), floats((512,), (512, 8192)), tolerance=1e-3
    ),
    "sums_of_columns": LayerCase(
        "einsum", function(lambda _, x: x.sum(0)), floats((4096, 1024)), tolerance=1e-3
    ),
    "f64_vector_matrix": LayerCase(
        "f64", in_f64(lambda x, w: x @ w), floats((1024,), (1024, 1024))
    ),
    "einsum_batch_inside": LayerCase(
        "einsum",
        function(lambda lib, x, y: lib.fn.einsum("ibd,jbd->ibj", x, y)),
        floats((128, 16, 64), (128, 16, 64)),
        tolerance=1e-3,
    ),
    "f64_softmax": LayerCase("f64", in_f64(lambda x: x.softmax(-1)), floats((256, 512))),
    "f64_tanh": LayerCase("f64", in_f64(lambda x: x.tanh()), floats((256, 512))),
    "f64_squares": LayerCase("f64", in_f64(lambda x: x.square().sum(-1)), floats((512, 1024))),
    "f64_product": LayerCase("f64", in_f64(lambda x, y: x @ y), floats((256, 256), (256, 256))),
    "boolean_masks": LayerCase(
        "masks",
        function(lambda lib, x, y: lib.fn.where((x > 0) & (y < 0.5) | ~(x < -1), x, y)),
        floats((512, 1024), (512, 1024)),
    ),
    "log_mel": LayerCase("signal", mel, floats((480_000,)), tolerance=2e-3),
    "gqa_400": LayerCase(
        "attention", function(attend), floats((1, 32, 1, 64), (1, 8, 400, 64), (1, 8, 400, 64))
    ),
    "gqa_2000": LayerCase(
        "attention", function(attend), floats((1, 32, 1, 64), (1, 8, 2000, 64), (1, 8, 2000, 64))
    ),
    "experts": LayerCase(
        "routing",
        calls(
            route,
            router=lambda lib: lib.nn.Linear(256, 8),
            up=lambda lib: lib.nn.Linear(1024, 8 * 256, bias=False),
            down=lambda lib: lib.nn.Linear(256, 8 * 1024, bias=False),
        ),
        floats((1, 256)),
    ),
    "experts_stacked": LayerCase("routing", of_experts(stacked), floats((1, 256))),
    "experts_grouped": LayerCase("routing", of_experts(grouped), floats((64, 256))),
    "tokens_by_expert": LayerCase(
        "routing", function(pick), (Input((512, 256)), Input((512,), below=8))
    ),
}
