"""Modules of PyTorch, imported, compute what PyTorch computes: at several sizes of their dims, states and all."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import imported
import numpy as np
import pytest
import torch
import transformers
from torch import nn
from torch._higher_order_ops import associative_scan, scan, while_loop
from torch._higher_order_ops import map as mapped
from torch.export import Dim
from transformers.integrations.executorch import TorchExportableModuleForDecoderOnlyLM

import lumigen as lg
from lumigen.errors import BadArgument, LumigenError, NotExported, NotImported
from lumigen.frontend import Model

F = torch.nn.functional
BATCH = Dim("batch", min=1, max=16)
LENGTH = Dim("length", min=2, max=32)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def agrees(
    module: nn.Module,
    *calls: Sequence[Any],
    shapes: Any = None,
    kwargs: Sequence[Mapping[str, Any]] = (),
    close: float = imported.CLOSE,
) -> Model:
    """The model of a module, exported with the first call, after it was compared at each."""
    module = module.eval()
    named = list(kwargs) or [{}] * len(calls)
    calls = calls or ((),) * len(named)
    model = lg.from_torch(module, calls[0], named[0], dynamic_shapes=shapes, name="model")
    for args, more in zip(calls, named, strict=True):
        got, _ = imported.run(model, args, more)
        imported.check(got, imported.expected(module, args, more), close)
    return model


def outputs(model: Model) -> list[str]:
    return [name for name, _ in model.trace().entries[0][1].outputs]


def inputs(model: Model) -> list[str]:
    return [name for name, _ in model.entries[0].inputs]


# --- layers -----------------------------------------------------------------------------------------


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(8, 24), nn.Linear(24, 8), nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.gelu(self.up(self.norm(x)))
        return x + self.down(hidden)


def test_an_mlp_at_several_batches() -> None:
    model = agrees(
        Mlp(),
        (torch.randn(3, 8),),
        (torch.randn(1, 8),),
        (torch.randn(16, 8),),
        shapes=[{0: BATCH}],
    )
    assert str(model.entries[0].inputs[0][1].shape[0]) == "batch"
    names = [w.name for w in model.trace().weights]
    assert names == ["down.bias", "down.weight", "norm.bias", "norm.weight", "up.bias", "up.weight"]


class Twice(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a * 2 + b


def test_one_tensor_as_the_example_of_two_inputs_is_two() -> None:
    x = torch.randn(3, 4)
    agrees(Twice(), (x, x), (torch.randn(3, 4), torch.randn(3, 4)))


def test_lines_are_those_of_the_author() -> None:
    model = lg.from_torch(Mlp(), (torch.randn(3, 8),))
    (_, graph), *_ = model.trace().entries
    lines = {line for where in graph.lines.values() for line in where}
    first = Mlp.forward.__code__.co_firstlineno
    assert {(line.file, line.line - first) for line in lines} == {(__file__, 1), (__file__, 2)}
    assert {"up", "down", "norm", "hidden"} <= set(graph.names.values())


@pytest.mark.slow
def test_convolutions_and_batch_norm() -> None:
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, padding="same", groups=4),
        nn.Hardswish(),
        nn.ConvTranspose2d(8, 4, 2, stride=2),
        nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.AdaptiveAvgPool2d(3),
        nn.Flatten(),
        nn.Dropout(0.5),
    )
    net[1].running_mean.normal_()
    net[1].running_var.uniform_(0.5, 2)
    agrees(net, (torch.randn(2, 3, 16, 16),), (torch.randn(5, 3, 16, 16),), shapes=[{0: BATCH}])


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        b, n, _ = x.shape
        q, k, v = (t.view(b, n, 4, 4).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        return self.out(y.transpose(1, 2).reshape(b, n, 16))


def test_attention() -> None:
    shapes = [{0: BATCH, 1: LENGTH}]
    agrees(Attention(), (torch.randn(2, 5, 16),), (torch.randn(1, 9, 16),), shapes=shapes)


def test_attention_with_a_mask() -> None:
    x, mask = torch.randn(2, 5, 16), torch.rand(2, 1, 5, 5) > 0.3
    mask[..., 0] = True
    model = agrees(Attention(), (), kwargs=[{"x": x, "mask": mask}])
    assert inputs(model) == ["x", "mask"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers(kind: Any) -> None:
    layer = kind(6, 5, num_layers=2, bidirectional=True, batch_first=True)
    agrees(layer, (torch.randn(2, 4, 6),), (torch.randn(5, 4, 6),), shapes=[{0: BATCH}])


def test_a_projected_lstm() -> None:
    agrees(nn.LSTM(6, 5, proj_size=3), (torch.randn(4, 2, 6),))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(11, 6), nn.Linear(6, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.embed(ids))


def test_tied_weights_are_one() -> None:
    model = agrees(Tied(), (torch.randint(0, 11, (2, 3)),))
    assert [w.name for w in model.trace().weights] == ["embed.weight"]
    assert list(model.values()) == ["embed.weight"]


# --- inputs and outputs -----------------------------------------------------------------------------


class Nested(nn.Module):
    def forward(self, pair: Any, *, options: Any, scale: float = 2.0) -> Any:
        x, y = pair
        return {
            "sum": x + y * scale,
            "parts": [options["shift"] - x, (y, None)],
            "size": x.shape[0],
        }


def test_nested_inputs_and_outputs_are_called_by_their_paths() -> None:
    pair, options = (torch.randn(3), torch.randn(3)), {"shift": torch.randn(3)}
    module = Nested()
    model = lg.from_torch(module, (pair,), {"options": options, "scale": 3.0})
    assert inputs(model) == ["pair_0", "pair_1", "options_shift"]
    assert outputs(model) == ["sum", "parts_0", "parts_1_0", "size"]
    got, _ = imported.run(model, (pair,), {"options": options})
    want = module(pair, options=options, scale=3.0)
    np.testing.assert_allclose(got["sum"], want["sum"], rtol=1e-6)
    assert got["size"] == 3


class Pair(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x + 1, y * 2


class Sizes(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        n = x.shape[0]
        steps = torch.arange(n // 2 + 1)
        return x[-2:].mean(0) / n, torch.cat([x, y]).reshape(3 * n * 2, 2), steps, x.new_ones(n + 1)


def test_sizes_are_expressions_of_dims() -> None:
    shapes = [{0: LENGTH}, {0: 2 * LENGTH}]
    calls = [(torch.randn(n, 4), torch.randn(2 * n, 4)) for n in (4, 2, 7)]
    model = agrees(Sizes(), *calls, shapes=shapes)
    (_, x), (_, y) = model.entries[0].inputs
    assert (str(x.shape[0]), str(y.shape[0])) == ("length", "2*length")


@pytest.mark.slow
def test_a_dim_needs_a_greatest_size() -> None:
    def made(**named: Any) -> Model:
        return lg.from_torch(
            Mlp(), (torch.randn(3, 8),), dynamic_shapes=[{0: Dim("rows")}], **named
        )

    with pytest.raises(
        BadArgument,
        match=r'the dim rows cannot be without a greatest size\..*\{"rows": \([0-9], 512\)\}',
    ):
        made()
    for given, bounds in (((2, 40), (2, 40)), (40, (40, 40))):
        (dim,) = made(dims={"rows": given}).entries[0].inputs[0][1].dims()
        assert (dim.lo, dim.hi) == bounds
    own = lg.Dim("n", 1, 8, typical=4)
    assert made(dims={"rows": own}).entries[0].inputs[0][1].dims() == (own,)
    with pytest.raises(BadArgument, match="of columns"):
        made(dims={"rows": (1, 4), "columns": 4})
    with pytest.raises(BadArgument, match="'rows', in a circle"):
        made(dims={"rows": "rows"})


def test_two_dims_may_be_one() -> None:
    """An exported program does not say that two sizes are one; the user may."""
    shapes = [{0: Dim("rows", max=8)}, {0: Dim("others", max=6)}]
    calls = (torch.randn(3, 4), torch.randn(5, 4))
    model = lg.from_torch(Pair(), calls, dynamic_shapes=shapes, dims={"others": "rows"})
    ((_, graph),) = model.trace().entries
    assert [(d.name, d.hi) for d in graph.dims()] == [("rows", 6)]
    shapes = [{0: Dim("rows", min=4, max=8)}, {0: Dim("others", max=3)}]
    calls = (torch.randn(5, 4), torch.randn(2, 4))
    with pytest.raises(BadArgument, match="rows cannot be one size with others"):
        lg.from_torch(Pair(), calls, dynamic_shapes=shapes, dims={"others": "rows"})


@pytest.mark.parametrize(
    ("args", "text"),
    [((), "missing a required argument: 'x'"), (torch.zeros(1), "a tuple of example inputs")],
)
def test_example_inputs_are_those_of_the_module(args: Any, text: str) -> None:
    with pytest.raises(BadArgument, match=text):
        lg.from_torch(Mlp(), args)


def test_a_dim_keeps_to_what_was_exported() -> None:
    shapes = [{0: Dim("rows", min=2, max=8)}]
    for wider in (9, (1, 4), lg.Dim("n", 2, 9)):
        with pytest.raises(BadArgument, match="sizes from 2 to 8"):
            lg.from_torch(Mlp(), (torch.randn(3, 8),), dynamic_shapes=shapes, dims={"rows": wider})


# --- states -----------------------------------------------------------------------------------------


class Running(nn.Module):
    def __init__(self, first: float) -> None:
        super().__init__()
        self.register_buffer("total", torch.full((4,), first))
        self.register_buffer("count", torch.tensor(0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.mul_(0.5).add_(x.sum(0))
        self.count += 1
        return self.total / self.count


@pytest.mark.parametrize("first", [0.0, 1.5])
def test_buffers_that_change_are_states(first: float) -> None:
    module = Running(first)
    model = lg.from_torch(module, (torch.randn(3, 4),))
    names = [s.name for s in model.trace().states]
    assert names == (["count", "total"] if first == 0 else ["_started", "count", "total"])
    states: dict[str, np.ndarray] = {}
    for _ in range(3):
        x = torch.randn(3, 4)
        got, states = imported.run(model, (x,), {}, states)
        imported.check(got, [module(x).numpy()])
    np.testing.assert_allclose(states["total"], module.total, rtol=1e-6)


class Counting(nn.Module):
    """A state without axes that does not begin with 0."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("runs", torch.tensor(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.runs.add_(1)
        return x * self.runs


def test_a_state_may_be_a_number() -> None:
    module = Counting()
    model = lg.from_torch(module, (torch.ones(2),))
    states: dict[str, np.ndarray] = {}
    for _ in range(3):
        got, states = imported.run(model, (torch.ones(2),), {}, states)
        imported.check(got, [module(torch.ones(2)).numpy()])


def test_a_root_of_a_size_says_what_to_do() -> None:
    class Rooted(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * x.shape[0] ** -0.5

    with pytest.raises(LumigenError, match="whole powers of dims"):
        lg.from_torch(Rooted(), (torch.ones(3),), dynamic_shapes=[{0: Dim("n", max=8)}])


class Changing(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x + 1


def test_an_input_that_changes_is_an_output() -> None:
    model = lg.from_torch(Changing(), (torch.ones(2),))
    got, _ = imported.run(model, (torch.ones(2),), {})
    assert {name: list(value) for name, value in got.items()} == {"new_x": [2, 2], "out": [3, 3]}


# --- what functions may do ----------------------------------------------------------------------------


class InPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.arange(40.0).reshape(5, 8), persistent=False)

    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[:, 1:3] = 0
        y[:, -1] += self.table[ids].sum(1)
        y[..., ids] *= 2.0
        y[x > 1] = -1.0
        y.t().sub_(torch.tensor([1.0, 2, 3]))
        return torch.where(y.isnan(), torch.zeros_like(y), y).masked_fill_(y < -3, 7)


def test_assignments_in_place() -> None:
    agrees(InPlace(), (torch.randn(3, 6), torch.tensor([0, 4, 2])))


class Branches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y = x * 2
        return torch.cond(y.sum() > 0, lambda t: t + 1, lambda t: t.sin(), (y,))


@pytest.mark.slow
def test_a_branch_is_chosen_in_the_model() -> None:
    agrees(Branches(), (torch.ones(3),), (-torch.ones(3),))


class OfGraphs(nn.Module):
    """Every operator that runs graphs, one in another too."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> Any:
        first = torch.cond(x.shape[0] > 4, lambda t: t.sin(), lambda t: t + 1, (x,))

        def step(h: Any, e: Any) -> Any:
            return torch.tanh(self.cell(h) + e["a"]), {"sum": e["b"].sum(-1) + h[0]}

        last, sums = scan(step, torch.ones(4), {"a": first, "b": x}, reverse=True)
        count, grown = while_loop(
            lambda i, _: i < 5, lambda i, y: (i + 2, y * 2 + i), (torch.tensor(0), x)
        )
        chosen = mapped(
            lambda e, h: torch.cond(e.sum() > 0, lambda t: t * h, lambda t: t - 1, (e,)), x, last
        )
        return last, sums, count, grown, chosen


@pytest.mark.slow
def test_operators_that_run_graphs() -> None:
    calls = [(torch.randn(n, 4),) for n in (5, 2, 9)]
    agrees(OfGraphs(), *calls, shapes=[{0: LENGTH}])
    agrees(OfGraphs(), calls[0])


class Joined(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return associative_scan(
            lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]),
            (x, x + 1),
            dim=1,
            reverse=True,
            combine_mode="generic",
        )


@pytest.mark.slow
def test_an_associative_scan_is_written_out_by_pytorch() -> None:
    agrees(Joined(), (torch.randn(3, 5),))


class Cast(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return x @ x.mT


def test_casts_of_autocast_are_in_the_model() -> None:
    module, x = Cast(), torch.randn(3, 3)
    got, _ = imported.run(lg.from_torch(module, (x,)), (x,), {})
    want = module(x)
    assert str(got["out"].dtype) == "bfloat16"
    assert imported.distance(got["out"], want.float().numpy()) < 2**-8


class Half(nn.Module):
    def forward(self, x: torch.Tensor, i: torch.Tensor) -> Any:
        return x.bfloat16() * 3, x.half().softmax(-1, dtype=torch.float32), i + 1.5, i / 2, i // 2


def test_dtypes_are_those_of_pytorch() -> None:
    model = lg.from_torch(Half(), (torch.randn(4), torch.arange(4)))
    types = [str(e.dtype) for _, e in model.trace().entries[0][1].outputs]
    assert types == ["bf16", "f32", "f32", "f32", "i64"]


# --- whole models -------------------------------------------------------------------------------------


def tokens(batch: int, length: int) -> dict[str, torch.Tensor]:
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[0, -1] = 0
    return {"input_ids": torch.randint(0, 99, (batch, length)), "attention_mask": mask}


SMALL = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
TOKENS = {"input_ids": {0: BATCH, 1: LENGTH}, "attention_mask": {0: BATCH, 1: LENGTH}}


@pytest.mark.slow
def test_bert() -> None:
    module = transformers.BertModel(transformers.BertConfig(**SMALL, intermediate_size=64))
    calls = [tokens(2, 7), tokens(3, 9), tokens(1, 2)]
    model = agrees(module, kwargs=calls, shapes=TOKENS)
    assert outputs(model) == ["last_hidden_state", "pooler_output"]
    assert "encoder.layer.1.attention.self.query.weight" in model.values()


@pytest.mark.slow
def test_llama() -> None:
    config = transformers.LlamaConfig(
        **SMALL, num_key_value_heads=2, intermediate_size=64, use_cache=False
    )
    module = transformers.LlamaForCausalLM(config)
    agrees(module, kwargs=[tokens(2, 7), tokens(3, 9), tokens(1, 2)], shapes=TOKENS)


@pytest.mark.slow
def test_a_decoder_keeps_its_caches_as_states() -> None:
    config = transformers.LlamaConfig(**SMALL, num_key_value_heads=2, intermediate_size=64)
    decoder = transformers.LlamaForCausalLM(config).eval()
    decoder.generation_config = transformers.GenerationConfig(
        use_cache=True,
        cache_implementation="static",
        cache_config={"batch_size": 1, "max_cache_len": 32},
    )
    steps = TorchExportableModuleForDecoderOnlyLM(
        decoder, batch_size=1, max_cache_len=32, device="cpu"
    )
    length = Dim("length", min=1, max=32)
    with warnings.catch_warnings():  # of side effects, which are those of transformers
        warnings.simplefilter("ignore")
        program = steps.export(
            input_ids=torch.tensor([[5, 7, 9]]),
            cache_position=torch.arange(3),
            dynamic_shapes={"input_ids": {1: length}, "cache_position": {0: length}},
        )
    model = lg.from_torch(program, name="decoder")
    assert {"key_cache_0", "value_cache_1"} <= {s.name for s in model.trace().states}
    tokens, done = [5, 7, 9, 11, 13, 15], 0
    states: dict[str, np.ndarray] = {}
    for count in (3, 1, 2):  # a prompt, a step, more than one
        places = torch.arange(done, done + count)
        part = torch.tensor([tokens[done : done + count]])
        got, states = imported.run(model, (part, places), {}, states)
        done += count
        with torch.no_grad():
            want = decoder(torch.tensor([tokens[:done]]), use_cache=False).logits
        imported.check(got, [want[:, -count:].numpy()])


# --- what is refused ----------------------------------------------------------------------------------


class Chosen(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        rows = x[x[:, 0] > 0]
        waves = torch.fft.fft(x).abs()
        noise = torch.rand_like(waves)  # whatever its operand is
        mixed = torch.cond(x.sum() > 0, lambda y: torch.randn_like(y), lambda y: y * 2, (waves,))
        return rows.sum(), noise, mixed


def test_all_that_is_in_the_way_is_told_at_once() -> None:
    with pytest.raises(NotImported) as found:
        lg.from_torch(Chosen(), (torch.randn(4, 4),), name="chosen")
    text = str(found.value)
    first = Chosen.forward.__code__.co_firstlineno
    assert "[from_torch] 4 operations of chosen cannot be compiled" in text
    reasons = ("how many places a mask chooses", "complex", "random", "randn_like")
    for line, why in enumerate(reasons, 1):
        row = next(
            r for r in text.splitlines() if f"{__file__.rpartition('/')[2]}:{first + line}:" in r
        )
        assert why in row


class Reaching(nn.Module):
    """Indices that are no elements: of a written constant, computed, of a large buffer, and through a table."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(4, 2)
        self.register_buffer("ids", torch.arange(5000))

    def forward(self, x: torch.Tensor) -> Any:
        a = x.index_select(1, torch.tensor([0, 7]))
        b = x[:, torch.tensor([2, -1]) - 3]
        c = torch.gather(x, 0, torch.tensor([[16]]))
        d = self.table(self.ids)
        right = self.table(torch.tensor([3, 0])), x[:, torch.tensor([-3, 2])], x[self.ids[:1]]
        return a, b, c, d, right


def test_known_indices_that_no_element_has_are_told() -> None:
    program = torch.export.export(Reaching(), (torch.rand(3, 3),), dynamic_shapes=[{0: BATCH}])
    with pytest.raises(NotImported) as found:
        lg.from_torch(program, name="model")
    lines = str(found.value).splitlines()[1:-1]
    first = Reaching.forward.__code__.co_firstlineno
    told = [(first + 1, 7, 3), (first + 2, -4, 3), (first + 3, 16, "x_dim0"), (first + 4, 4999, 4)]
    assert len(lines) == len(told)
    for text, (line, place, size) in zip(lines, told, strict=True):
        assert f"test_from_torch.py:{line}: " in text
        assert text.endswith(f"its index has the place {place}, and the axis has size {size}")


class Decided(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x


def test_a_decision_of_python_s_is_told_with_its_line() -> None:
    line = Decided.forward.__code__.co_firstlineno + 1
    with pytest.raises(
        NotImported, match=rf"test_from_torch.py:{line}: Python decides.*torch.where"
    ):
        lg.from_torch(Decided(), (torch.randn(2),))


class Looping(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return while_loop(lambda y: y.sum() < 9, lambda y: (y * 2,), (x,))


class LoopingOverASize(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        n = x.shape[0]
        return while_loop(lambda i, _: i < n, lambda i, y: (i + 1, y * 2), (torch.tensor(0), x))


class Endless(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return while_loop(lambda i, _: i >= 0, lambda i, y: (i + 0, y * 1), (torch.tensor(0), x))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "why"),
    [
        (Looping(), "how often it runs depends on x, .*scan"),
        (LoopingOverASize(), "how often it runs depends on x_dim0, .*scan"),
        (Endless(), "it runs more than 1024 steps"),
    ],
    ids=["data", "size", "endless"],
)
def test_a_loop_of_unknown_length_is_refused(module: nn.Module, why: str) -> None:
    line = type(module).forward.__code__.co_firstlineno
    shapes = [{0: Dim("rows", min=2, max=8)}]
    program = torch.export.export(module, (torch.rand(3, 2),), dynamic_shapes=shapes)
    with pytest.raises(NotImported, match=rf"test_from_torch.py:(\d+): while_loop: {why}") as found:
        lg.from_torch(program)
    assert f":{line + 1 + isinstance(module, LoopingOverASize)}: " in str(found.value)


class Fixed(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(12)


class Mismatched(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ torch.ones(3, 3)


class Remembering(nn.Module):
    """What it keeps is no buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = torch.zeros(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.kept = self.kept + x
        return self.kept


class Sharing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("whole", torch.ones(3, 4))
        self.register_buffer("part", self.whole[:1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.whole.add_(x)
        return self.part


class Aliased(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda t: t, lambda t: t + 1, (x,))


@pytest.mark.parametrize(
    ("module", "below", "text"),
    [
        (Fixed(), 0, r"constant \(3\)\. Give it a fixed size"),
        (Mismatched(), 1, r"\[3, 4\] X \[3, 3\]\. Call the module on the example inputs"),
        (Remembering(), 0, r"assigns self.kept, which is no buffer.*register_buffer"),
        (Sharing(), None, r"buffers whole and part share memory.*clone"),
        (Aliased(), 1, r"aliasing.*Return a copy"),
    ],
    ids=lambda x: type(x).__name__ if isinstance(x, nn.Module) else "",
)
def test_what_pytorch_cannot_export_is_told_with_a_line(
    module: nn.Module, below: int | None, text: str
) -> None:
    shapes = [{0: Dim("rows", min=2, max=8)}] if isinstance(module, Fixed) else None
    with pytest.raises(NotExported, match=text) as found:
        lg.from_torch(module, (torch.ones(3, 4),), dynamic_shapes=shapes)
    line = None if below is None else type(module).forward.__code__.co_firstlineno + below
    assert (found.value.where and found.value.where.line) == line
    assert len(str(found.value).splitlines()) == 1


def test_shapes_that_do_not_fit_are_one_message(capfd: pytest.CaptureFixture[str]) -> None:
    """PyTorch logs a traceback before it raises."""

    class Unfit(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.ones(3)

    with pytest.raises(NotExported, match=r"test_from_torch.py:\d+: .*broadcast"):
        lg.from_torch(Unfit(), (torch.ones(2),))
    assert "Traceback" not in "".join(capfd.readouterr())


def test_weights_without_elements_are_no_weights() -> None:
    class Hollow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("none", torch.zeros(0, 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cat([self.none, x])

    assert not agrees(Hollow(), (torch.randn(2, 4),)).values()


class OfBackward(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return torch.ops.aten._linalg_det(x)


def test_results_of_a_backward_pass_are_no_outputs() -> None:
    with pytest.raises(NotImported, match="out_1: it is a result that only a backward pass reads"):
        lg.from_torch(OfBackward(), (torch.eye(3),))


def test_training_is_refused() -> None:
    with pytest.raises(NotImported, match=r"dropout.*\.eval\(\)"):
        lg.from_torch(nn.Sequential(nn.Linear(2, 2), nn.Dropout()).train(), (torch.randn(1, 2),))


def test_a_dtype_without_counterpart_is_refused() -> None:
    with pytest.raises(NotImported, match=r"input: torch\.complex64 has"):
        lg.from_torch(nn.Identity(), (torch.randn(2, dtype=torch.complex64),))


def test_what_is_no_module_is_refused() -> None:
    with pytest.raises(BadArgument, match="of type int"):
        lg.from_torch(3)  # type: ignore[arg-type]
