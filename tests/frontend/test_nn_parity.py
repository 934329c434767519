"""Modules against PyTorch's: the same signatures, the same names of weights, the same numbers."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from module_programs import CASES, F32, RECURRENT, Case, entry_of, recurrent, specs

import lumigen as lg
from lumigen import errors, functional, nn
from lumigen.interp.graph import evaluate


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
    model.entry(**specs(arrays))(entry_of(module, call))
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


MASKS = (None, "bool", "float16", "float32", "int64")


@pytest.mark.filterwarnings("ignore")  # PyTorch's, of masks that differ
@pytest.mark.parametrize("padded", MASKS)
@pytest.mark.parametrize("mask", MASKS)
def test_attention_takes_the_pairs_of_masks_that_pytorch_takes(
    mask: str | None, padded: str | None, rng: np.random.Generator
) -> None:
    theirs = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    weighted(theirs, rng)
    ours = nn.MultiheadAttention(8, 2, batch_first=True)
    ours.load_state_dict(theirs.state_dict())
    x = rng.standard_normal((2, 3, 8)).astype(F32)
    drawn = {"attn_mask": (mask, (3, 3)), "key_padding_mask": (padded, (2, 3))}
    masks = {
        name: np.where(rng.random(shape) < 0.3, 1, 0).astype(dtype)
        for name, (dtype, shape) in drawn.items()
        if dtype is not None
    }

    def call(module: Any, x: Any, *given: Any) -> Any:
        return module(x, x, x, **dict(zip(masks, given, strict=True)))

    try:
        expected = theirs(
            *(torch.from_numpy(x),) * 3, **{k: torch.from_numpy(m) for k, m in masks.items()}
        )
    except (RuntimeError, AssertionError):
        with pytest.raises(errors.DtypeMismatch, match="_mask is "):
            run(ours, call, [x, *masks.values()])
        return
    same(run(ours, call, [x, *masks.values()]), expected)


ALL_PADDED = np.array([[True, True, True], [False, False, True]])


@pytest.mark.parametrize("mask", [None, HIDDEN, "of each head"])
@pytest.mark.parametrize("need_weights", [True, False])
def test_attention_that_sees_no_key(
    need_weights: bool, mask: Any, rng: np.random.Generator
) -> None:
    """NaN beside weights, else nothing, by the module and by its function: PyTorch's, while it records gradients."""
    theirs = torch.nn.MultiheadAttention(8, 2).eval()
    weighted(theirs, rng)
    ours = nn.MultiheadAttention(8, 2)
    ours.load_state_dict(theirs.state_dict())
    mask = rng.random((4, 3, 3)) < 0.5 if isinstance(mask, str) else mask
    masks = {"key_padding_mask": ALL_PADDED} | ({} if mask is None else {"attn_mask": mask})
    x = rng.standard_normal((3, 2, 8)).astype(F32)
    given = {k: torch.from_numpy(m) for k, m in masks.items()}
    expected = theirs(*(torch.from_numpy(x),) * 3, need_weights=need_weights, **given)
    assert torch.isnan(expected[0]).any() == need_weights

    def call(module: Any, x: Any, *masks: Any) -> Any:
        return module(x, x, x, need_weights=need_weights, **dict(zip(given, masks, strict=True)))

    def function(module: Any, x: Any, *masks: Any) -> Any:
        return functional.multi_head_attention_forward(
            *(x, x, x, 8, 2, module.in_proj_weight, module.in_proj_bias, None, None, False, 0.0),
            *(module.out_proj.weight, module.out_proj.bias, False),
            need_weights=need_weights,
            **dict(zip(given, masks, strict=True)),
        )

    for way in (call, function):
        same(run(ours, way, [x, *masks.values()]), expected)


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


@pytest.mark.filterwarnings("ignore::UserWarning")  # that PyTorch takes no faster path
@pytest.mark.parametrize("norm_first", [False, True])
def test_an_encoder_that_sees_no_key(norm_first: bool, rng: np.random.Generator) -> None:
    """As PyTorch composes it: its fused path of inference gives NaN, or 0, by the form of its input."""
    how = {**LAYER, "dropout": 0.0, "batch_first": True, "norm_first": norm_first}
    theirs = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(**how), 2).eval()
    weighted(theirs, rng)
    ours = nn.TransformerEncoder(nn.TransformerEncoderLayer(**how), 2)
    ours.load_state_dict(theirs.state_dict())
    x = rng.standard_normal((2, 3, 8)).astype(F32)
    padded = {"src_key_padding_mask": torch.from_numpy(ALL_PADDED)}
    expected = theirs(torch.from_numpy(x), **padded)
    assert torch.isfinite(expected).all()

    def call(module: Any, x: Any, padded: Any) -> Any:
        return module(x, src_key_padding_mask=padded)

    same(run(ours, call, [x, ALL_PADDED]), expected)


def test_layers_of_a_transformer_are_copies() -> None:
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 12), 3, nn.LayerNorm(8))
    layer = torch.nn.TransformerEncoderLayer(8, 2, 12, batch_first=True)
    theirs = torch.nn.TransformerEncoder(layer, 3, torch.nn.LayerNorm(8))
    assert {k: tuple(p.shape) for k, p in encoder.state_dict().items()} == {
        k: v.shape for k, v in theirs.state_dict().items()
    }
    assert len(set(map(id, encoder.state_dict().values()))) == len(encoder.state_dict())


# --- recurrent layers -----------------------------------------------------------------------------


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
