"""Whole models on a GPU against the interpreter: compiled from Python, weights from seeds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import lumigen as lg
from lumigen import functional, nn
from lumigen.interp.graph import evaluate

pytestmark = pytest.mark.gpu


def softmax() -> lg.Model:
    model = lg.Model("softmax")

    @model.entry(x=lg.spec(lg.Dim("rows", 1, 500), 1000, dtype=lg.f32))
    def normalise(x):
        return {"y": x.softmax(-1)}

    return model


def mlp() -> lg.Model:
    net = nn.Sequential(nn.Linear(100, 257), nn.GELU(), nn.Linear(257, 33))
    model = lg.Model("mlp", net)

    @model.entry(x=lg.spec(lg.Dim("batch", 1, 130), 100, dtype=lg.f32))
    def apply(x):
        return {"y": net(x)}

    return model


def digits() -> lg.Model:
    net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    model = lg.Model("digits", net)

    @model.entry(x=lg.spec(lg.Dim("batch", 1, 64), 64, dtype=lg.f32))
    def classify(x):
        return {"probs": net(x).softmax(-1)}

    return model


MODELS: tuple[Callable[[], lg.Model], ...] = (softmax, mlp, digits)


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_a_model_agrees_with_the_interpreter(make, target: str, tmp_path: Path) -> None:
    traced = make().trace()
    entry, graph = traced.entries[0]
    rng = np.random.default_rng(0)
    weights = {w.name: (rng.normal(size=w.shape) * 0.1).astype(np.float32) for w in traced.weights}
    module = lg.compile(traced, target, tmp_path / "out", weights)
    context = module.Model().context()
    (name, bounds), *_ = module.Model().entries[entry].dims.items()
    assert name
    width = int(traced.entries[0][1].inputs[0].shape[1].const)
    sizes = [bounds[0], 5, 17, bounds[1], 17, 17, 5]
    for size in sizes:
        x = rng.normal(size=(size, width)).astype(np.float32)
        wanted = evaluate(graph, {"x": x}, weights)
        found = getattr(context, entry)(x)
        np.testing.assert_allclose(found, next(iter(wanted.values())), rtol=2e-4, atol=2e-5)
    torch = pytest.importorskip("torch")
    found = getattr(context, entry)(torch.from_numpy(x).cuda())
    np.testing.assert_allclose(
        torch.from_dlpack(found).cpu(), next(iter(wanted.values())), rtol=2e-4, atol=2e-5
    )


ROWS = lg.Dim("rows", 1, 700, typical=512)
PRODUCTS = {
    "plain": (lambda x, w: x @ w.transpose(-1, -2), (ROWS, 264), (200, 264)),
    "columns": (lambda x, w: x @ w, (ROWS, 264), (264, 200)),
    "deep": (lambda x, w: (x @ w.transpose(-1, -2)).relu(), (ROWS, 2048), (136, 2048)),
    "batched": (lambda x, w: x @ w.transpose(-1, -2), (6, ROWS, 72), (6, 520, 72)),
}


def named(function: Callable, name: str) -> Callable:
    def entry(x, w):
        return {"y": function(x, w)}

    entry.__name__ = name
    return entry


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_products_of_16_bits(dtype: str, target: str, tmp_path: Path) -> None:
    """Called with other tensors, at other dims, and with tensors that no tensor copy engine takes."""
    torch = pytest.importorskip("torch")
    model = lg.Model(f"products_{dtype}")
    kind, held = getattr(lg, dtype), getattr(torch, {"bf16": "bfloat16", "f16": "float16"}[dtype])
    for name, (function, x, w) in PRODUCTS.items():
        model.entry(x=lg.spec(*x, dtype=kind), w=lg.spec(*w, dtype=kind))(named(function, name))
    context = lg.compile(model, target, tmp_path / "out").Model().context()
    for name, (function, *shapes) in PRODUCTS.items():
        for rows, shift in ((512, 0), (512, 0), (512, 0), (512, 1), (512, 0), (1, 0), (699, 0)):
            tensors = []
            for shape in shapes:
                sizes = [rows if n is ROWS else n for n in shape]
                count = int(np.prod(sizes))
                flat = torch.randn(count + shift, device="cuda").to(held)
                tensors.append(flat[shift:].view(sizes))
            found = torch.from_dlpack(getattr(context, name)(*tensors)).float()
            wanted = function(*(t.float() for t in tensors))
            error = ((found - wanted).norm() / wanted.norm()).item()
            assert error < 4e-3, f"{name} at {rows} rows, {shift} elements from an aligned place"


FEW = lg.Dim("few", 1, 300, typical=8)
TENS = lg.Dim("tens", 1, 300, typical=64)
DIVIDED = {
    "weights": (lambda x, w: x @ w.T, (FEW, 4096), (520, 4096)),
    "mapped": (lambda x, w: (x @ w.T).relu() * 2 + 1, (FEW, 2000), (136, 2000)),
    "batched": (lambda x, w: x @ w.transpose(-1, -2), (3, FEW, 2048), (3, 70, 2048)),
    # a ring of 48 KiB, which a block has without asking for it, and a word more
    "tens_of_rows": (lambda x, w: x @ w.T, (TENS, 4096), (6144, 4096)),
}


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_products_whose_depth_blocks_share(dtype: str, target: str, tmp_path: Path) -> None:
    """The same bits in every call, launched and as a graph, and in contexts that run side by side."""
    torch = pytest.importorskip("torch")
    model = lg.Model(f"divided_{dtype}")
    kind, held = getattr(lg, dtype), getattr(torch, {"bf16": "bfloat16", "f32": "float32"}[dtype])
    for name, (function, x, w) in DIVIDED.items():
        model.entry(x=lg.spec(*x, dtype=kind), w=lg.spec(*w, dtype=kind))(named(function, name))
    portable = lg.compile(model, target.rstrip("a"), tmp_path / "out").Model()
    streams = [torch.cuda.Stream() for _ in range(2)]
    contexts = [portable.context(stream=s) for s in streams]
    for name, (function, *shapes) in DIVIDED.items():
        for rows in (8, 1, 300, 17, 64):
            sizes = [[rows if isinstance(n, lg.Dim) else n for n in shape] for shape in shapes]
            tensors = [torch.randn(*s, device="cuda").to(held) for s in sizes]
            wanted = function(*(t.double() for t in tensors))
            outs = [torch.empty(wanted.shape, device="cuda", dtype=held) for _ in range(24)]
            torch.cuda.synchronize()
            for number, out in enumerate(outs):
                getattr(contexts[number % 2], name)(*tensors, out=out)
            torch.cuda.synchronize()
            error = ((outs[0] - wanted).norm() / wanted.norm()).item()
            assert error < (4e-3 if dtype == "bf16" else 1e-5), f"{name} at {rows} rows"
            assert all(torch.equal(out, outs[0]) for out in outs), f"{name} at {rows} rows"


LENGTH = lg.Dim("length", 1, 1500, typical=1024)
ATTENTIONS = {
    "full_64": (64, 4, {}),
    "causal_64": (64, 4, {"is_causal": True}),
    "grouped_128": (128, 2, {"is_causal": True, "enable_gqa": True}),
    "full_256": (256, 4, {}),
}


def attending(name: str, more: dict, interleaved: bool) -> Callable:
    def entry(q, k, v):
        if interleaved:
            q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        y = functional.scaled_dot_product_attention(q, k, v, **more)
        return {"y": y.transpose(1, 2) if interleaved else y}

    entry.__name__ = name
    return entry


HELD = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}
ERROR = {"f32": 2e-6, "bf16": 8e-3, "f16": 8e-3}  # of the result's norm


@pytest.mark.parametrize("dtype", HELD)
@pytest.mark.parametrize("interleaved", [False, True], ids=["heads", "interleaved"])
def test_attention(interleaved, dtype: str, target: str, tmp_path: Path) -> None:
    """Heads one behind the other or side by side, ragged lengths, tensors that no tensor copy engine takes."""
    torch = pytest.importorskip("torch")
    attend = torch.nn.functional.scaled_dot_product_attention
    model = lg.Model(f"attention_{dtype}_{'interleaved' if interleaved else 'heads'}")
    kind, held = getattr(lg, dtype), getattr(torch, HELD[dtype])

    def shape(heads, length, features):
        return (2, length, heads, features) if interleaved else (2, heads, length, features)

    for name, (features, kept, more) in ATTENTIONS.items():
        q, k = (lg.spec(*shape(h, LENGTH, features), dtype=kind) for h in (4, kept))
        model.entry(q=q, k=k, v=k)(attending(name, more, interleaved))
    context = lg.compile(model, target, tmp_path / "out").Model().context()
    for name, (features, kept, more) in ATTENTIONS.items():
        for length, shift in ((1024, 0), (1024, 0), (1, 0), (1499, 0), (129, 1), (64, 0)):
            tensors = []
            for heads in (4, kept, kept):
                sizes = shape(heads, length, features)
                flat = torch.randn(int(np.prod(sizes)) + shift, device="cuda").to(held)
                tensors.append(flat[shift:].view(sizes))
            found = torch.from_dlpack(getattr(context, name)(*tensors)).double()
            exact = [t.double().transpose(1, 2) if interleaved else t.double() for t in tensors]
            wanted = attend(*exact, **more)
            wanted = wanted.transpose(1, 2) if interleaved else wanted
            error = ((found - wanted).norm() / wanted.norm()).item()
            assert error < ERROR[dtype], (
                f"{name} at {length}, {shift} elements from an aligned place"
            )


@pytest.mark.parametrize("dtype", HELD)
def test_attention_with_the_logarithm_of_its_sums(dtype: str, target: str, tmp_path: Path) -> None:
    """Two results of one kernel, at lengths of whole tiles and others."""
    torch = pytest.importorskip("torch")
    kind, held = getattr(lg, dtype), getattr(torch, HELD[dtype])
    model = lg.Model(f"log_sum_exp_{dtype}")

    @model.entry(**{n: lg.spec(2, 4, LENGTH, 64, dtype=kind) for n in "qkv"})
    def attend(q, k, v):
        scores = q @ k.mT * 0.125
        return {"y": scores.softmax(-1) @ v, "total": scores.logsumexp(-1)}

    compiled = lg.compile(model, target, tmp_path / "out")
    context = compiled.Model().context()
    for length in (1024, 1, 1499, 64):
        q, k, v = (torch.randn(2, 4, length, 64, device="cuda").to(held) for _ in range(3))
        scores = q.double() @ k.double().mT * 0.125
        wanted = {"y": scores.softmax(-1) @ v.double(), "total": scores.logsumexp(-1)}
        for (out, exact), found in zip(wanted.items(), context.attend(q, k, v), strict=True):
            error = (torch.from_dlpack(found).double() - exact).norm() / exact.norm()
            assert error.item() < ERROR[dtype], f"{out} at {length}"
