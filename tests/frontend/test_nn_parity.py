"""Modules against PyTorch's: the same signatures, the same names of weights, the same numbers."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import lumigen as lg
from lumigen import nn
from lumigen.dtype import of_numpy
from lumigen.interp.graph import evaluate

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


def weighted(theirs: torch.nn.Module, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Positive numbers for every weight, so that variances are some; given to the module."""
    state = {
        k: (np.abs(rng.standard_normal(v.shape)) + 0.1).astype(F32)
        for k, v in theirs.state_dict().items()
        if v.dtype.is_floating_point
    }
    theirs.load_state_dict({k: torch.from_numpy(v) for k, v in state.items()}, strict=False)
    return state


def run(module: nn.Module, call: Any, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """What a module makes of arrays, by the interpreter, with the values it was given."""
    model = lg.Model("m", module)
    specs: dict[str, Any] = {}
    for i, array in enumerate(arrays):
        dtype = of_numpy(array.dtype)
        assert dtype is not None
        whole = {"range": (int(array.min()), int(array.max()))} if dtype.is_int else {}
        specs[f"x{i}"] = lg.spec(*array.shape, dtype=dtype, **whole)

    def entry(**given: Any) -> dict[str, Any]:
        out = call(module, *given.values())
        several = [t for t in out if t is not None] if isinstance(out, tuple) else [out]
        return {f"y{i}": t for i, t in enumerate(several)}

    model.entry(**specs)(entry)
    given = {f"x{i}": array for i, array in enumerate(arrays)}
    found = evaluate(model.trace().entries[0][1], given, model.values())
    return list(found.values())


def same(got: list[np.ndarray], expected: Any) -> None:
    wanted = [t for t in expected if t is not None] if isinstance(expected, tuple) else [expected]
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted, strict=True):
        want = b.detach().numpy()
        assert a.shape == want.shape
        assert a.dtype == want.dtype
        np.testing.assert_allclose(a, want, rtol=2e-5, atol=2e-6, equal_nan=True)


def titles(cases: list[Case]) -> list[str]:
    return [f"{name}{i}" for i, (name, *_) in enumerate(cases)]


@pytest.mark.filterwarnings("ignore")  # PyTorch's, of arguments that are going away
@pytest.mark.parametrize(("name", "args", "kwargs", "inputs"), CASES, ids=titles(CASES))
def test_a_module_is_pytorchs(
    name: str, args: Any, kwargs: Any, inputs: Any, rng: np.random.Generator
) -> None:
    ours: nn.Module = getattr(nn, name)(*args, **kwargs)
    theirs = getattr(torch.nn, name)(*args, **kwargs).eval()
    state = weighted(theirs, rng)
    assert {k: tuple(p.shape) for k, p in ours.state_dict().items()} == {
        k: v.shape for k, v in state.items()
    }
    assert {n for n, _ in ours.named_parameters()} == {n for n, _ in theirs.named_parameters()}
    ours.load_state_dict(theirs.state_dict())  # strictly, counters of batches included
    arrays = [make(rng) for make in inputs]
    expected = theirs(*(torch.from_numpy(a.copy()) for a in arrays))  # some work in place
    same(run(ours, lambda m, *x: m(*x), arrays), expected)


def test_every_module_is_compared() -> None:
    apart = {"Module", "Parameter", "Buffer", "State", "IncompatibleKeys"}
    apart |= {"RingCache", "PagedCache"}  # ours: tests/test_caches.py
    apart |= {"ModuleList", "ModuleDict", "ParameterList", "ParameterDict", "Sequential"}
    apart |= {n for n in dir(nn) if n.startswith("Transformer")}
    apart |= {f"{name}{cell}" for name in ("RNN", "LSTM", "GRU") for cell in ("", "Cell")}
    assert set(dir(nn)) - apart == {name for name, *_ in CASES}


LEFT_OUT = {"device", "dtype", "self"}


def parameters(kind: Any) -> list[tuple[str, Any, Any]]:
    found = inspect.signature(kind.__init__).parameters.values()
    return [
        (p.name, getattr(p.default, "__name__", p.default), p.kind)
        for p in found
        if p.name not in LEFT_OUT and not p.name.startswith("_")
    ]


SAME_NAMES = sorted(set(dir(nn)) & set(dir(torch.nn)) - {"Module", "Parameter", "Buffer"})


@pytest.mark.parametrize("name", SAME_NAMES)
def test_signatures_are_pytorchs(name: str) -> None:
    ours, theirs = parameters(getattr(nn, name)), parameters(getattr(torch.nn, name))
    if name in {"GRU", "LSTM", "RNN"}:  # of which PyTorch gives the signature in words alone
        assert theirs[0][0] == "args"
        return
    if theirs == [
        ("args", inspect._empty, theirs[0][2]),
        ("kwargs", inspect._empty, theirs[-1][2]),
    ]:
        assert name == "Identity" or not ours  # Module's own, which takes nothing
        return
    assert ours == theirs


# --- attention and transformers -------------------------------------------------------------------

MASK = np.triu(np.full((3, 3), -np.inf, F32), 1)
HIDDEN = np.triu(np.ones((3, 3), bool), 1)
PADDED = np.array([[False, False, True], [False, False, False]])


@pytest.mark.parametrize("padded", [None, PADDED, np.where(PADDED, F32(-1.5), F32(0))])
@pytest.mark.parametrize("mask", [None, MASK, HIDDEN, "of each head"])
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"need_weights": False},
        {"average_attn_weights": False},
    ],
    ids=str,
)
def test_attention_with_masks(how: Any, mask: Any, padded: Any, rng: np.random.Generator) -> None:
    theirs = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    weighted(theirs, rng)
    ours = nn.MultiheadAttention(8, 2, batch_first=True)
    ours.load_state_dict(theirs.state_dict())
    x = rng.standard_normal((2, 3, 8)).astype(F32)
    if isinstance(mask, str):
        mask = rng.standard_normal((4, 3, 3)).astype(F32)
    if mask is not None and padded is not None and mask.dtype != padded.dtype:
        return  # which torch warns of
    names = {k: m for k, m in (("attn_mask", mask), ("key_padding_mask", padded)) if m is not None}
    expected = theirs(
        *(torch.from_numpy(x),) * 3, **{k: torch.from_numpy(m) for k, m in names.items()}, **how
    )

    def call(module: Any, x: Any, *masks: Any) -> Any:
        return module(x, x, x, **dict(zip(names, masks, strict=True)), **how)

    same(run(ours, call, [x, *names.values()]), expected)


LAYER = {"d_model": 8, "nhead": 2, "dim_feedforward": 12}


@pytest.mark.filterwarnings("ignore::UserWarning")  # that PyTorch takes no faster path
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"activation": "gelu", "norm_first": True},
        {"batch_first": True, "bias": False, "layer_norm_eps": 1e-3},
    ],
    ids=str,
)
def test_transformers(how: Any, rng: np.random.Generator) -> None:
    theirs = torch.nn.Transformer(
        **LAYER, num_encoder_layers=2, num_decoder_layers=2, dropout=0.0, **how
    )
    theirs.eval()
    ours = nn.Transformer(**LAYER, num_encoder_layers=2, num_decoder_layers=2, dropout=0.0, **how)
    state = {k: 0.3 * rng.standard_normal(v.shape) for k, v in theirs.state_dict().items()}
    theirs.load_state_dict({k: torch.from_numpy(v.astype(F32)) for k, v in state.items()})
    ours.load_state_dict(theirs.state_dict())
    assert set(ours.state_dict()) == set(state)
    src = rng.standard_normal((2, 3, 8)).astype(F32)
    tgt = rng.standard_normal((2, 3, 8)).astype(F32)
    wide = (3, 3) if how.get("batch_first") else (2, 2)
    mask = np.triu(np.full(wide, -np.inf, F32), 1)
    theirs.train()  # the fast path of inference leaves out what we compute
    expected = theirs(*map(torch.from_numpy, (src, tgt)), tgt_mask=torch.from_numpy(mask))

    def call(module: Any, src: Any, tgt: Any) -> Any:
        found = module.generate_square_subsequent_mask(wide[0])
        return module(src, tgt, tgt_mask=found, tgt_is_causal=True)

    same(run(ours, call, [src, tgt]), expected)


def test_layers_of_a_transformer_are_copies() -> None:
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 12), 3, nn.LayerNorm(8))
    layer = torch.nn.TransformerEncoderLayer(8, 2, 12, batch_first=True)
    theirs = torch.nn.TransformerEncoder(layer, 3, torch.nn.LayerNorm(8))
    assert {k: tuple(p.shape) for k, p in encoder.state_dict().items()} == {
        k: v.shape for k, v in theirs.state_dict().items()
    }
    assert len(set(map(id, encoder.state_dict().values()))) == len(encoder.state_dict())


# --- recurrent layers -----------------------------------------------------------------------------

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


@pytest.mark.filterwarnings("ignore")  # PyTorch's, of dropout
@pytest.mark.parametrize(("name", "args", "kwargs", "inputs"), RECURRENT, ids=titles(RECURRENT))
def test_a_recurrent_layer_is_pytorchs(
    name: str, args: Any, kwargs: Any, inputs: Any, rng: np.random.Generator
) -> None:
    ours: nn.Module = getattr(nn, name)(*args, **kwargs)
    theirs = getattr(torch.nn, name)(*args, **kwargs).eval()
    ours.load_state_dict(theirs.state_dict())
    assert {n for n, _ in ours.named_parameters()} == {n for n, _ in theirs.named_parameters()}
    arrays = [make(rng) for make in inputs]
    with torch.no_grad():
        expected = recurrent(theirs, *map(torch.from_numpy, arrays))
    same(run(ours, recurrent, arrays), expected)


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("batch_first", [False, True])
def test_packed_sequences_are_pytorchs(name: str, batch_first: bool) -> None:
    theirs = getattr(torch.nn, name)(3, 4, 2, bidirectional=True, batch_first=batch_first)
    ours = getattr(nn, name)(3, 4, 2, bidirectional=True, batch_first=batch_first)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 6, 3) if batch_first else (6, 4, 3)).astype(np.float32)
    lengths = np.array([2, 6, 1, 5])

    def tagged(module: Any, x: Any, lengths: Any) -> tuple[Any, ...]:
        rnn = (nn if isinstance(module, nn.Module) else torch.nn).utils.rnn
        packed = rnn.pack_padded_sequence(x, lengths, batch_first, enforce_sorted=False)
        out, last = module(packed)
        padded, lengths = rnn.pad_packed_sequence(out, batch_first, padding_value=-1.0)
        return (padded, lengths, *(last if isinstance(last, tuple) else (last,)))

    ours.load_state_dict(theirs.state_dict())
    with torch.no_grad():
        expected = tagged(theirs, torch.from_numpy(x), torch.from_numpy(lengths))
    same(run(ours, tagged, [x, lengths]), expected)


def test_a_size_to_transpose_to(rng: np.random.Generator) -> None:
    theirs = torch.nn.ConvTranspose2d(2, 3, 3, 2, 1)
    ours = nn.ConvTranspose2d(2, 3, 3, 2, 1)
    ours.load_state_dict(theirs.state_dict())
    x = rng.standard_normal((1, 2, 4, 5)).astype(F32)
    expected = theirs(torch.from_numpy(x), output_size=[8, 9])
    same(run(ours, lambda m, x: m(x, output_size=[8, 9]), [x]), expected)
    with pytest.raises(lg.errors.BadArgument, match=re.escape("(7, 9)")):
        run(ours, lambda m, x: m(x, output_size=[9, 9]), [x])


def test_indices_of_maxima(rng: np.random.Generator) -> None:
    theirs, ours = torch.nn.MaxPool2d(2, return_indices=True), nn.MaxPool2d(2, return_indices=True)
    x = rng.standard_normal((1, 2, 4, 6)).astype(F32)
    same(run(ours, lambda m, x: m(x), [x]), theirs(torch.from_numpy(x)))


def test_weights_of_classes(rng: np.random.Generator) -> None:
    weight = np.array([1.0, 0.5, 2.0, 0.25], F32)
    theirs = torch.nn.CrossEntropyLoss(torch.from_numpy(weight))
    ours = nn.CrossEntropyLoss(nn.Buffer(4))
    assert set(ours.state_dict()) == set(theirs.state_dict()) == {"weight"}
    ours.load_state_dict(theirs.state_dict())
    arrays = [rng.standard_normal((3, 4)).astype(F32), rng.integers(0, 4, 3)]
    same(run(ours, lambda m, *x: m(*x), arrays), theirs(*map(torch.from_numpy, arrays)))


MISTAKES: list[tuple[Callable[[], Any], str]] = [
    (lambda: nn.MultiheadAttention(8, 3), "a divisor of the 8 features"),
    (lambda: nn.TransformerEncoderLayer(8, 2, activation="tanh"), "'relu', 'gelu'"),
    (lambda: nn.MSELoss(reduction="max"), "'mean', 'sum' or 'none'"),
    (lambda: nn.ConvTranspose1d(2, 2, 3, padding_mode="reflect"), "'zeros'"),
    (lambda: nn.Conv2d(3, 4, 3, groups=2), "a divisor of 3 in_channels and of 4 out_channels"),
    (lambda: nn.ConvTranspose1d(4, 4, 3, groups=0), "a divisor of 4 in_channels"),
    (lambda: nn.Linear(2, 2).train(), "compiled for inference"),
]


@pytest.mark.parametrize(("make", "wanted"), MISTAKES, ids=[w for _, w in MISTAKES])
def test_what_cannot_be_made(make: Any, wanted: str) -> None:
    with pytest.raises(lg.errors.BadArgument, match=re.escape(wanted)):
        make()


def test_what_cannot_be_run() -> None:
    x = np.zeros((2, 3), F32)
    with pytest.raises(lg.errors.BadArgument, match="a dimension"):
        run(nn.Softmax(), lambda m, x: m(x), [x])
    with pytest.raises(lg.errors.RankMismatch, match="4 axes"):
        run(nn.BatchNorm2d(3), lambda m, x: m(x), [x])
    with pytest.raises(lg.errors.RankMismatch, match="3 axes"):
        run(nn.MultiheadAttention(3, 1), lambda m, x: m(x, x[None], x), [x])
    with pytest.raises(lg.errors.BadArgument, match="as attn_mask too"):
        run(nn.MultiheadAttention(3, 1), lambda m, x: m(x, x, x, is_causal=True), [x])
