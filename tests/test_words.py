"""The words that a kernel's text says are known before it is spelled, so that no dim of a model is called like one."""

from __future__ import annotations

import re

import pytest
from folds import FOLDED, specs_of
from test_device_programs import MODELS
from tiles import traced

import lumigen as lg
from lumigen.compile import lower_model
from lumigen.emit.kernel import spelled_dims
from lumigen.emit.variables import NUMBERED, variables
from lumigen.frontend import Traced
from lumigen.index import Dim
from lumigen.kernel_words import DERIVED, ENDS, WORDS, is_said
from lumigen.lower.assemble import LoweredKernel
from lumigen.names import KEYWORDS, is_of_headers
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
    own = (k.name, "k0", "k1", "__")
    return {w for w in words_of(body) - known if not is_of_headers(w) and not w.startswith(own)}


def unsaid(k: LoweredKernel) -> set[str]:
    """What a kernel says of its own and an operand may be called too."""
    own = {b.name for b in k.program.args} | {d.name for d in k.program.dim_arguments}
    derived = {f"{start}{b}" for b in own for start in DERIVED}
    derived |= {f"{b}{end}" for b in own for end in ENDS}
    return {w for w in variables(k.program) - own - derived if not is_said(w)}


@pytest.mark.parametrize("dtype", [lg.f32, lg.bf16], ids=str)
@pytest.mark.parametrize("target", TARGET_NAMES)
def test_every_word_is_known(target: str, dtype: lg.DType) -> None:
    cases = {n: traced(f, **i) for n, (f, i) in MODELS.items()}
    cases |= {n: traced(FOLDED[n][0], **specs_of(n, dtype)) for n in ("causal", "gqa", "mask")}
    entries = tuple(cases.items())
    made = lower_model(
        Traced("cases", "0", entries, ()), {}, target=parse_target(target), dtype=dtype
    )
    bodies = {k.name: k.body for k in made.model.kernels}
    for k in made.lowered.kernels:
        text = re.split("const KernelRow|}  // namespace", bodies[k.name])[0]
        assert not unknown(k, text), k.name
        assert not unsaid(k), k.name


@pytest.mark.parametrize("name", ["load", "lanes", "x", "common0", "i1_offset"])
def test_a_dim_called_like_one_is_renamed(name: str) -> None:
    rows = Dim(name, 1, 9)
    graph = traced(lambda x: x.exp() + 1, x=lg.spec(rows, 8))
    made = lower_model(Traced("m", "0", (("entry", graph),), ()), {})
    (k,) = made.lowered.kernels
    clashes = name in WORDS | variables(k.program) or name == "common0"
    assert (spelled_dims(k.program, k.parameters).get(name, f"{name}_") != name) == clashes
