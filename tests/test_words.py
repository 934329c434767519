"""The words that a kernel's text says are known before it is spelled, so that no dim of a model is called like one."""

from __future__ import annotations

import re

import pytest
from folds import FOLDED, specs_of
from test_device_programs import MODELS
from tiles import traced

import lumigen as lg
from lumigen import nn
from lumigen.emit.kernel import spelled_dims
from lumigen.emit.variables import NUMBERED, variables
from lumigen.frontend import Traced
from lumigen.index import Dim
from lumigen.kernel_words import DERIVED, ENDS, WORDS, is_said
from lumigen.lower.assemble import LoweredKernel
from lumigen.names import KEYWORDS, is_of_headers
from lumigen.pipeline import Compilation, lower_model
from lumigen.quantise import quantised
from lumigen.target import TARGETS, parse_target

TARGET_NAMES = [t if t != "cuda" else "cuda:sm_80,sm_90a" for t in TARGETS]
OF_MACROS = {"std", "false_type", "pragma", "unroll", "maybe_unused", "ifdef", "endif"}


def words_of(text: str) -> set[str]:
    """Of the statements, less members, comments and strings."""
    body = re.sub(r'//.*|/\*.*?\*/|"[^"]*"', "", text[text.index(") {") :])
    found = set(re.findall(r"(?<![\w.:])[A-Za-z_]\w*", body))
    return {w for w in found if w.rstrip("0123456789") not in NUMBERED}


def unknown(k: LoweredKernel, body: str) -> set[str]:
    known = WORDS | variables(k.program) | set(spelled_dims(k.program, k.parameters).values())
    known |= {p.name for p in k.parameters} | KEYWORDS | OF_MACROS
    own = (k.name, "k0", "k1", "__", "Step_")
    return {w for w in words_of(body) - known if not is_of_headers(w) and not w.startswith(own)}


def unsaid(k: LoweredKernel) -> set[str]:
    """What a kernel says of its own and an operand may be called too."""
    own = {b.name for b in k.program.args} | {d.name for d in k.program.dim_arguments}
    derived = {f"{start}{b}" for b in own for start in DERIVED}
    derived |= {f"{b}{end}" for b in own for end in ENDS}
    return {w for w in variables(k.program) - own - derived if not is_said(w)}


def check(made: Compilation) -> None:
    """Every word of every kernel is known, and said."""
    bodies = {k.name: k.body for k in made.model.kernels}
    for k in made.lowered.kernels:
        text = re.split("const KernelRow|}  // namespace", bodies[k.name])[0]
        assert not unknown(k, text), k.name
        assert not unsaid(k), k.name


@pytest.mark.parametrize("dtype", [lg.f32, lg.bf16], ids=str)
@pytest.mark.parametrize("target", TARGET_NAMES)
def test_every_word_is_known(target: str, dtype: lg.DType) -> None:
    cases = {n: traced(f, **i) for n, (f, i) in MODELS.items()}
    cases |= {n: traced(FOLDED[n][0], **specs_of(n, dtype)) for n in ("causal", "gqa", "mask")}
    entries = tuple(cases.items())
    made = lower_model(
        Traced("cases", "0", entries, ()), {}, target=parse_target(target), dtype=dtype
    )
    check(made)


class Bytes(nn.Module):
    """Products of integers of 8 bits, and what vectors bring in and store as others."""

    def __init__(self) -> None:
        self.w = nn.Parameter(40, 64, dtype=lg.i8)

    def forward(self, x: lg.Tensor, y: lg.Tensor, z: lg.Tensor) -> dict[str, lg.Tensor]:
        rows = (z * 3).to(lg.i8)
        return {
            "products": x.to(lg.i32) @ self.w.to(lg.i32).T,
            "strided": (y * 2).to(lg.u8).transpose(0, 1) + y.to(lg.u8).transpose(0, 1),
            "sums": rows.to(lg.i32) * 2 + lg.arange(64, dtype=lg.i32),
            "doubles": (z.double() * 2).exp2().float(),
        }


def test_every_word_of_integers_and_doubles_is_known() -> None:
    net = Bytes()
    model = lg.Model("bytes", net)
    rows = Dim("rows", 1, 9)

    @model.entry(x=lg.spec(rows, 64, dtype=lg.i8), y=lg.spec(rows, 64), z=lg.spec(rows, 64))
    def entry(x: lg.Tensor, y: lg.Tensor, z: lg.Tensor) -> dict[str, lg.Tensor]:
        return net(x, y, z)

    check(lower_model(model.trace(), {}))


ORDERED = {
    "greatest": lambda x: x.topk(5, -1)[0],
    "sorted": lambda x: x.sort(-1)[0],
    "scanned": lambda x: x.cumsum(-1),
    "transposed": lambda x: x.transpose(0, 1) * 2,
}


@pytest.mark.parametrize("target", TARGET_NAMES)
def test_every_word_of_orders_and_scans_is_known(target: str) -> None:
    cases = {n: traced(f, x=lg.spec(64, 700)) for n, f in ORDERED.items()}
    check(lower_model(Traced("m", "0", tuple(cases.items()), ()), {}, target=parse_target(target)))


@pytest.mark.parametrize("rows", [1, 5, 300])
@pytest.mark.parametrize("target", TARGET_NAMES)
def test_every_word_of_blocks_is_known(target: str, rows: int) -> None:
    net = nn.Linear(256, 128)
    model = lg.Model("blocks", net)

    @model.entry(x=lg.spec(rows, 256))
    def entry(x: lg.Tensor) -> lg.Tensor:
        return net(x)

    traced_in_blocks = quantised(model.trace(), None, "q4").traced
    check(lower_model(traced_in_blocks, {}, target=parse_target(target), dtype=lg.bf16))


@pytest.mark.parametrize("name", ["rank", "place"])
def test_an_input_called_like_what_a_sort_says_is_renamed(name: str) -> None:
    graph = traced(lambda **x: x[name].sort(-1)[0], **{name: lg.spec(9, 70)})
    made = lower_model(Traced("m", "0", (("entry", graph),), ()), {})
    assert any(f"{name}_[" in k.body for k in made.model.kernels)


@pytest.mark.parametrize("name", ["load", "lanes", "x", "common0", "i1_offset"])
def test_a_dim_called_like_one_is_renamed(name: str) -> None:
    rows = Dim(name, 1, 9)
    graph = traced(lambda x: x.exp() + 1, x=lg.spec(rows, 8))
    made = lower_model(Traced("m", "0", (("entry", graph),), ()), {})
    (k,) = made.lowered.kernels
    clashes = name in WORDS | variables(k.program) or name == "common0"
    assert (spelled_dims(k.program, k.parameters).get(name, f"{name}_") != name) == clashes
