"""Modules by name, how each is made, and what it is given: one table for PyTorch's parity and for kernels."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from small_programs import Array, Arrays, SmallProgram

import lumigen as lg
from lumigen import nn
from lumigen.dtype import of_numpy
from lumigen.graph import Graph, tensor_of

F32 = np.float32
Case = tuple[str, tuple[Any, ...], dict[str, Any], tuple[Any, ...]]


def shape(*extents: int) -> Callable[[np.random.Generator], np.ndarray]:
    """Normal numbers."""
    return lambda rng: rng.standard_normal(extents).astype(F32)


def ids(below: int, *extents: int) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda rng: rng.integers(0, below, extents)


def inside(*extents: int) -> Callable[[np.random.Generator], np.ndarray]:
    """Numbers between 0 and 1."""
    return lambda rng: rng.uniform(0.05, 0.95, extents).astype(F32)


def signs(*extents: int) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda rng: rng.choice(np.array([-1, 1], F32), extents)


def fixed(values: Any) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda rng: np.array(values)


def case(name: str, *args: Any, of: Any = None, **kwargs: Any) -> Case:
    inputs = of if isinstance(of, tuple) else (of,)
    return name, args, kwargs, inputs


X = shape(2, 3, 5)
IMAGE = shape(2, 4, 7, 6)
VOLUME = shape(1, 2, 4, 5, 3)
SIMPLE = (
    *("ReLU", "ReLU6", "SELU", "SiLU", "Mish", "Hardsigmoid", "Hardswish", "Tanh", "Sigmoid"),
    *("LogSigmoid", "Softsign", "Tanhshrink", "GELU", "LeakyReLU", "RReLU", "PReLU", "ELU", "CELU"),
    *("Hardtanh", "Softplus", "Softshrink", "Hardshrink", "Identity", "Flatten"),
    *("Dropout", "Dropout1d", "AlphaDropout", "FeatureAlphaDropout"),
)
PAIR = (shape(3, 4), shape(3, 4))

CASES: list[Case] = [
    *(case(name, of=X) for name in SIMPLE),
    case("Identity", 3, unused=True, of=X),
    case("Dropout2d", 0.3, of=IMAGE),
    case("Dropout3d", of=VOLUME),
    case("GELU", "tanh", of=X),
    case("LeakyReLU", 0.2, True, of=X),
    case("ELU", 0.5, of=X),
    case("CELU", 0.5, of=X),
    case("PReLU", 3, of=X),
    case("Hardtanh", -0.5, 0.25, of=X),
    case("Hardtanh", min_value=-0.5, of=X),
    case("Threshold", 0.1, 2.0, of=X),
    case("Softplus", 2.0, 1.0, of=X),
    case("Softshrink", 0.2, of=X),
    case("Hardshrink", 0.2, of=X),
    case("GLU", 1, of=shape(2, 4)),
    case("Softmax", -1, of=X),
    case("Softmin", 1, of=X),
    case("LogSoftmax", 1, of=X),
    case("Softmax2d", of=IMAGE),
    # products and tables
    case("Linear", 5, 4, of=X),
    case("Linear", 5, 4, bias=False, of=X),
    case("Bilinear", 3, 4, 2, of=(shape(5, 3), shape(5, 4))),
    case("Bilinear", 3, 4, 2, False, of=(shape(5, 3), shape(5, 4))),
    case("Embedding", 7, 4, of=ids(7, 2, 3)),
    case("Embedding", 7, 4, padding_idx=-2, of=ids(7, 2, 3)),
    case("Embedding", 7, 4, max_norm=1.0, of=ids(7, 2, 3)),
    case("EmbeddingBag", 7, 4, of=ids(7, 2, 3)),
    case("EmbeddingBag", 7, 4, mode="max", padding_idx=1, of=ids(7, 2, 3)),
    case("EmbeddingBag", 7, 4, mode="sum", of=(ids(7, 6), fixed([0, 2, 2]))),
    # convolutions
    case("Conv1d", 4, 6, 3, of=shape(2, 4, 9)),
    case("Conv1d", 4, 6, 3, 2, 2, 2, 2, False, of=shape(2, 4, 9)),
    case("Conv1d", 4, 6, 4, padding="same", dilation=2, of=shape(2, 4, 9)),
    case("Conv1d", 4, 6, 4, padding="same", padding_mode="circular", of=shape(2, 4, 9)),
    case("Conv2d", 4, 6, 3, of=IMAGE),
    case("Conv2d", 4, 8, (3, 2), (2, 1), (1, 0), (1, 2), 4, of=IMAGE),
    case("Conv2d", 4, 6, 3, padding=(2, 1), padding_mode="reflect", of=IMAGE),
    case("Conv2d", 4, 6, 3, padding=1, padding_mode="replicate", of=IMAGE),
    case("Conv3d", 2, 4, (2, 3, 1), (1, 2, 1), 1, of=VOLUME),
    case("ConvTranspose1d", 4, 6, 3, of=shape(2, 4, 5)),
    case("ConvTranspose1d", 4, 6, 3, 2, 1, 1, 2, of=shape(2, 4, 5)),
    case("ConvTranspose2d", 4, 6, 3, 2, (1, 0), dilation=(1, 2), of=IMAGE),
    case("ConvTranspose2d", 4, 6, 2, 2, bias=False, of=IMAGE),
    case("ConvTranspose3d", 2, 4, 2, 2, of=VOLUME),
    # pooling
    case("MaxPool1d", 3, of=shape(2, 4, 9)),
    case("MaxPool1d", 3, 2, 1, 2, ceil_mode=True, of=shape(2, 4, 9)),
    case("MaxPool2d", 2, of=IMAGE),
    case("MaxPool2d", (3, 2), (2, 1), (1, 0), ceil_mode=True, of=IMAGE),
    case("MaxPool3d", 2, 1, of=VOLUME),
    case("AvgPool1d", 3, 2, 1, of=shape(2, 4, 9)),
    case("AvgPool2d", 3, 2, 1, True, False, of=IMAGE),
    case("AvgPool2d", 2, divisor_override=3, of=IMAGE),
    case("AvgPool3d", 2, of=VOLUME),
    case("LPPool1d", 2, 3, of=inside(2, 4, 9)),
    case("LPPool2d", 2, 2, 1, of=inside(2, 4, 7, 6)),
    case("LPPool3d", 2, 2, of=inside(1, 2, 4, 5, 3)),
    case("AdaptiveAvgPool1d", 3, of=shape(2, 4, 9)),
    case("AdaptiveAvgPool2d", (3, None), of=IMAGE),
    case("AdaptiveAvgPool2d", 1, of=IMAGE),
    case("AdaptiveAvgPool3d", 2, of=VOLUME),
    case("AdaptiveMaxPool1d", 3, of=shape(2, 4, 9)),
    case("AdaptiveMaxPool2d", 3, of=IMAGE),
    case("AdaptiveMaxPool3d", (2, 1, 3), of=VOLUME),
    # norms
    case("LayerNorm", 5, of=X),
    case("LayerNorm", (3, 5), 1e-3, bias=False, of=X),
    case("LayerNorm", 5, elementwise_affine=False, of=X),
    case("RMSNorm", 5, of=X),
    case("RMSNorm", (3, 5), 1e-3, False, of=X),
    case("BatchNorm1d", 3, of=X),
    case("BatchNorm1d", 3, 1e-3, affine=False, of=shape(4, 3)),
    case("BatchNorm1d", 3, bias=False, of=X),
    case("BatchNorm2d", 4, track_running_stats=False, of=IMAGE),
    case("BatchNorm2d", 4, of=IMAGE),
    case("BatchNorm3d", 2, of=VOLUME),
    case("InstanceNorm1d", 3, of=X),
    case("InstanceNorm1d", 3, affine=True, of=shape(3, 5)),
    case("InstanceNorm2d", 4, affine=True, track_running_stats=True, of=IMAGE),
    case("InstanceNorm3d", 2, of=VOLUME),
    case("GroupNorm", 2, 4, of=IMAGE),
    case("GroupNorm", 2, 4, affine=False, of=IMAGE),
    case("LocalResponseNorm", 3, of=IMAGE),
    # arrangements
    case("Flatten", 0, 1, of=X),
    case("Unflatten", 1, (2, -1), of=shape(2, 6, 3)),
    case("PixelShuffle", 2, of=IMAGE),
    case("PixelUnshuffle", 2, of=shape(2, 3, 4, 6)),
    case("ChannelShuffle", 2, of=IMAGE),
    case("Unfold", (2, 3), padding=1, of=IMAGE),
    case("Fold", (4, 5), 2, of=shape(2, 8, 12)),
    case("Upsample", scale_factor=2, of=IMAGE),
    case("Upsample", (5, 9), mode="bilinear", of=IMAGE),
    case("Upsample", (5, 9), mode="bicubic", align_corners=True, of=IMAGE),
    case("UpsamplingNearest2d", (5, 9), of=IMAGE),
    case("UpsamplingBilinear2d", scale_factor=2, of=IMAGE),
    case("ConstantPad1d", 2, 3.5, of=X),
    case("ConstantPad2d", (1, 0, 2, 1), -1.0, of=IMAGE),
    case("ConstantPad3d", 1, 0.5, of=VOLUME),
    case("ZeroPad1d", (1, 2), of=X),
    case("ZeroPad2d", 1, of=IMAGE),
    case("ZeroPad3d", 1, of=VOLUME),
    *(
        case(f"{kind}Pad{rank}d", 1, of=x)
        for kind in ("Reflection", "Replication", "Circular")
        for rank, x in ((1, X), (2, IMAGE), (3, VOLUME))
    ),
    # attention
    case("MultiheadAttention", 8, 2, of=(shape(3, 2, 8), shape(4, 2, 8), shape(4, 2, 8))),
    case(
        "MultiheadAttention",
        *(8, 2, 0.0, False),
        batch_first=True,
        of=(shape(2, 3, 8), shape(2, 4, 8), shape(2, 4, 8)),
    ),
    case("MultiheadAttention", 8, 4, of=(shape(3, 8), shape(4, 8), shape(4, 8))),
    case(
        "MultiheadAttention",
        *(8, 2),
        kdim=5,
        vdim=6,
        add_bias_kv=True,
        add_zero_attn=True,
        of=(shape(3, 2, 8), shape(4, 2, 5), shape(4, 2, 6)),
    ),
    # distances and losses
    case("CosineSimilarity", of=PAIR),
    case("CosineSimilarity", 0, 0.5, of=PAIR),
    case("PairwiseDistance", of=PAIR),
    case("PairwiseDistance", 1.0, keepdim=True, of=PAIR),
    *(case(name, of=PAIR) for name in ("L1Loss", "MSELoss", "SmoothL1Loss", "HuberLoss")),
    case("MSELoss", reduction="none", of=PAIR),
    case("MSELoss", False, of=PAIR),
    case("L1Loss", reduce=False, of=PAIR),
    case("SmoothL1Loss", reduction="sum", beta=0.5, of=PAIR),
    case("HuberLoss", "sum", 0.5, of=PAIR),
    case("SoftMarginLoss", of=(shape(3, 4), signs(3, 4))),
    case("HingeEmbeddingLoss", 0.5, of=(shape(3, 4), signs(3, 4))),
    case("KLDivLoss", reduction="batchmean", of=(shape(3, 4), inside(3, 4))),
    case("KLDivLoss", reduction="sum", log_target=True, of=PAIR),
    case("PoissonNLLLoss", of=(shape(3, 4), inside(3, 4))),
    case("PoissonNLLLoss", False, True, of=(inside(3, 4), ids(9, 3, 4))),
    case("GaussianNLLLoss", full=True, of=(*PAIR, inside(3, 4))),
    case("CosineEmbeddingLoss", 0.1, of=(*PAIR, signs(3))),
    case("MarginRankingLoss", 0.1, of=(shape(4), shape(4), signs(4))),
    case("TripletMarginLoss", 0.5, swap=True, of=(*PAIR, shape(3, 4))),
    case("TripletMarginWithDistanceLoss", margin=0.5, of=(*PAIR, shape(3, 4))),
    case("NLLLoss", of=(shape(3, 4), ids(4, 3))),
    case("NLLLoss", ignore_index=1, reduction="sum", of=(shape(3, 4, 5), ids(4, 3, 5))),
    case("CrossEntropyLoss", of=(shape(3, 4), ids(4, 3))),
    case("CrossEntropyLoss", label_smoothing=0.1, of=(shape(3, 4), inside(3, 4))),
    case("BCELoss", of=(inside(3, 4), inside(3, 4))),
    case("BCEWithLogitsLoss", reduction="sum", of=(shape(3, 4), inside(3, 4))),
    case("MultiLabelSoftMarginLoss", of=(shape(3, 4), inside(3, 4))),
    case("MultiMarginLoss", 2, 0.5, of=(shape(3, 4), ids(4, 3))),
    case("MultiLabelMarginLoss", of=(shape(2, 4), fixed([[3, 0, -1, 1], [1, -1, -1, -1]]))),
]

SEQUENCE, STATES, LONE = shape(5, 2, 3), shape(1, 2, 4), shape(5, 3)
RECURRENT: list[Case] = [
    *(case(name, 3, 4, of=SEQUENCE) for name in ("RNN", "LSTM", "GRU")),
    *(case(name, 3, 4, bias=False, of=LONE) for name in ("RNN", "LSTM", "GRU")),
    *(case(name, 3, 4, of=(shape(2, 3), shape(2, 4))) for name in ("RNNCell", "GRUCell")),
    *(case(name, 3, 4, bias=False, of=shape(3)) for name in ("RNNCell", "LSTMCell", "GRUCell")),
    case("LSTMCell", 3, 4, of=(shape(2, 3), shape(2, 4), shape(2, 4))),
    case("RNNCell", 3, 4, nonlinearity="relu", of=shape(2, 3)),
    case("RNN", 3, 4, 2, "relu", batch_first=True, dropout=0.5, of=shape(2, 5, 3)),
    case("RNN", 3, 4, of=(SEQUENCE, STATES)),
    case("LSTM", 3, 4, 2, bidirectional=True, proj_size=2, of=SEQUENCE),
    case("LSTM", 3, 4, of=(SEQUENCE, STATES, STATES)),
    case("LSTM", 3, 4, of=(LONE, shape(1, 4), shape(1, 4))),
    case("GRU", 3, 4, 2, bidirectional=True, batch_first=True, of=(shape(2, 5, 3), shape(4, 2, 4))),
]


def recurrent(module: Any, x: Any, *states: Any) -> tuple[Any, ...]:
    """All that a layer or cell of either library gives, one after the other."""
    out = module(x, states if len(states) > 1 else states[0]) if states else module(x)
    first, *rest = out if isinstance(out, tuple) else (out,)
    return first, *(t for r in rest for t in (r if isinstance(r, tuple) else (r,)))


# --- as programs of kernels ---------------------------------------------------------------------------


@dataclass(frozen=True)
class ModuleProgram(SmallProgram):
    """An entry that calls a module; every weight is positive, so that variances are some."""

    module: Any = None
    given: tuple[Callable[[np.random.Generator], Array], ...] = ()

    @functools.cached_property
    def graph(self) -> Graph:
        own = nn.ModuleDict(
            {self.name: self.module}
        )  # programs share a library, and names of weights
        model = lg.Model("m", own)
        model.entry(**specs(self._inputs(0)))(entry_of(self.module, self.function))
        return model.trace().entries[0][1]

    def arrays(self, point: Any, seed: int = 0) -> tuple[Arrays, Arrays]:  # noqa: ARG002  # no dims
        rng = np.random.default_rng(seed)
        weights = {tensor_of(n).name: n.shape for n in self.graph.weights()}
        made = {
            name: (0.3 * np.abs(rng.normal(size=tuple(int(e.const) for e in shape))) + 0.03)
            for name, shape in weights.items()
        }
        inputs = {f"x{i}": x for i, x in enumerate(self._inputs(seed))}
        return inputs, {name: x.astype(F32) for name, x in made.items()}

    def _inputs(self, seed: int) -> list[Array]:
        rng = np.random.default_rng(seed)
        return [make(rng) for make in self.given]


def specs(arrays: list[Array]) -> dict[str, Any]:
    """Integers have the range of those that are there."""
    found: dict[str, Any] = {}
    for i, array in enumerate(arrays):
        dtype = of_numpy(array.dtype)
        assert dtype is not None
        whole = {"range": (int(array.min()), int(array.max()))} if dtype.is_int else {}
        found[f"x{i}"] = lg.spec(*array.shape, dtype=dtype, **whole)
    return found


def entry_of(module: Any, call: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    """All that the call gives but None, as y0, y1 and on."""

    def entry(**given: Any) -> dict[str, Any]:
        out = call(module, *given.values())
        several = [t for t in out if t is not None] if isinstance(out, tuple) else [out]
        return {f"y{i}": t for i, t in enumerate(several)}

    return entry


def module_programs() -> list[SmallProgram]:
    """Of every case one program, and of transformers."""
    attended = (shape(3, 2, 8), shape(3, 2, 8))
    layer = {"d_model": 8, "nhead": 2, "dim_feedforward": 12}
    transformers = [
        case("TransformerEncoderLayer", **layer, of=attended[:1]),
        case("TransformerDecoderLayer", **layer, norm_first=True, of=attended),
        case("Transformer", **layer, num_encoder_layers=2, num_decoder_layers=2, of=attended),
    ]
    named = [(c, lambda module, *x: module(*x)) for c in (*CASES, *transformers)]
    named += [(c, recurrent) for c in RECURRENT]
    return [
        ModuleProgram(f"{name.lower()}_{i}", call, (), module=made, given=inputs)
        for i, ((name, args, kwargs, inputs), call) in enumerate(named)
        for made in [getattr(nn, name)(*args, **kwargs)]
    ]
