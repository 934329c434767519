"""The plan is the program: a change of a plan or a schedule changes the tile program, or is refused with a reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from test_written_kernels import weight
from tiles import traced

import lumigen as lg
from lumigen import functional as F
from lumigen import nn
from lumigen.emit.weights_file import pack
from lumigen.errors import VerifyFailed
from lumigen.index import Dim
from lumigen.interp import tile
from lumigen.interp.region import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import assemble
from lumigen.lower.built import Built
from lumigen.lower.devices import Device
from lumigen.lower.plan_region import Candidate
from lumigen.plan import Carry, Illegal, KernelPlan, Loop, Product, Step
from lumigen.region import Region
from lumigen.schedule import Schedule
from lumigen.targets.cpu.device import CPU
from lumigen.targets.cuda.device import CUDA
from lumigen.targets.metal.device import METAL
from lumigen.tile import TileProgram
from lumigen.verify.plan import verify
from lumigen.verify.tile import verify as verify_tile

Array = np.ndarray[Any, Any]
ROWS = Dim("rows", 1, 64, typical=32)
KEYS = Dim("keys", 1, 90, typical=40)
SIZES = ({ROWS: 7, KEYS: 21}, {ROWS: 33, KEYS: 64})


@dataclass(frozen=True)
class Row:
    """A function of one region, its inputs, and on which devices its changes are tried."""

    function: Callable[..., Any]
    inputs: Mapping[str, Any]
    devices: tuple[str, ...] = ("cpu", "cuda")


def heads(length: Any, dtype: Any = lg.f32) -> Any:
    return lg.spec(2, length, 16, dtype=dtype)


def _weights(q: Any, k: Any, lse: Any) -> Any:
    return (q @ k.mT * 0.25 - lse.unsqueeze(-1)).exp()


def _second_place(t: Any, x: Any) -> Any:
    """Reads where it was told to by what it has read."""
    first = t[lg.where(x < 0, 150, 50).to(lg.i32)]
    return t[lg.where(first < x, 199, 20).to(lg.i32)] + x


LSE = lg.spec(2, ROWS)
ALL: dict[str, Row] = {
    "map": Row(lambda x: x.exp() + 1, {"x": lg.spec(ROWS, 40)}),
    "softmax": Row(lambda x: x.softmax(-1), {"x": lg.spec(ROWS, 40)}),
    "moments": Row(lambda x: x.sum(-1) * (x * x).sum(-1), {"x": lg.spec(ROWS, 40)}),
    "transposed": Row(
        lambda x, y: x.permute(0, 2, 3, 1) * 2 + y,
        {"x": lg.spec(ROWS, 40, 4, 5), "y": lg.spec(40)},
        ("cuda",),
    ),
    "columns": Row(lambda x: x.sum(0) + x.amax(0), {"x": lg.spec(ROWS, 40)}),
    "places in columns": Row(lambda x: x.argmax(0), {"x": lg.spec(520, ROWS)}, ("cuda",)),
    "channels": Row(lambda x: x.softmax(1), {"x": lg.spec(2, 12, ROWS)}),
    "integers": Row(lambda x: x.sum(-1), {"x": lg.spec(ROWS, 12, dtype=lg.i64)}),
    "windows": Row(lambda x: F.avg_pool2d(x, 3), {"x": lg.spec(2, 3, 12, 12)}),
    "windows that overlap": Row(
        lambda x, w: F.conv2d(x, w, padding=1, groups=2),
        {"x": lg.spec(1, 2, 9, 40), "w": lg.spec(2, 1, 3, 3)},
        ("cpu",),
    ),
    "long": Row(lambda x: x.sum(), {"x": lg.spec(300, 1000)}),
    "long columns": Row(lambda x: x.sum(0), {"x": lg.spec(ROWS, 600)}),
    "repeated": Row(lambda x, w: x * w.sum(), {"x": lg.spec(2, 20000), "w": lg.spec(5)}),
    "parts": Row(
        lambda a, b: lg.cat((a, b), -1).exp(), {"a": lg.spec(ROWS, 40), "b": lg.spec(ROWS, 24)}
    ),
    "pieces": Row(
        lambda x: lg.cat([x, x.sin(), x.cos(), (x * 2).sin()], -1), {"x": lg.spec(ROWS, 2, 3)}
    ),
    "cumsum": Row(lambda x: x.cumsum(-1), {"x": lg.spec(ROWS, 40)}),
    "scan of rows": Row(lambda x: x.cumsum(0), {"x": lg.spec(ROWS, 600)}),
    "scan in parts": Row(lambda x: x.cumsum(-1), {"x": lg.spec(1, 40000)}, ("cuda",)),
    "the first of rows": Row(lambda x: x.topk(3).values, {"x": lg.spec(ROWS, 40)}, ("cuda",)),
    "places": Row(_second_place, {"t": lg.spec(200), "x": lg.spec(ROWS, 40)}),
    "sort": Row(lambda x: x.argsort(-1), {"x": lg.spec(ROWS, 40)}),
    "counts": Row(lambda x: x.histc(20, -2, 2), {"x": lg.spec(KEYS, ROWS)}, ("cuda",)),
    "product": Row(lambda a, b: (a @ b).relu(), {"a": lg.spec(ROWS, 40), "b": lg.spec(40, KEYS)}),
    "product of halves": Row(
        lambda a, b: (a @ b).relu(),
        {"a": lg.spec(ROWS, 64, dtype=lg.f16), "b": lg.spec(64, 48, dtype=lg.f16)},
    ),
    "product of bytes": Row(
        lambda a, b: a.to(lg.i32) @ b.to(lg.i32).mT,
        {"a": lg.spec(ROWS, 64, dtype=lg.i8), "b": lg.spec(48, 64, dtype=lg.i8)},
        ("cuda",),
    ),
    "quants": Row(
        lambda x, q, s: x @ (q.reshape(24, 2, 16).to(lg.f32) * s.unsqueeze(-1)).reshape(24, 32).mT,
        {"x": lg.spec(ROWS, 32), "q": lg.spec(24, 32, dtype=lg.i8), "s": lg.spec(24, 2)},
    ),
    "quants of few rows": Row(
        lambda x, q, s: (
            x.to(lg.f32) @ (q.reshape(24, 2, 16).to(lg.f32) * s.unsqueeze(-1)).reshape(24, 32).mT
        ),
        {
            "x": lg.spec(3, 32, dtype=lg.bf16),
            "q": lg.spec(24, 32, dtype=lg.i8),
            "s": lg.spec(24, 2),
        },
        ("cuda",),
    ),
    "weights": Row(lambda x: x @ weight(70, 40).mT, {"x": lg.spec(ROWS, 40)}, ("cpu",)),
    "convolution": Row(
        lambda x, w: F.conv2d(x, w, padding=1),
        {"x": lg.spec(1, 3, 9, 11), "w": lg.spec(20, 3, 3, 3)},
    ),
    "windows of bytes": Row(
        lambda x: F.conv2d(
            x.to(lg.i32),
            nn.Parameter(20, 16, 3, 3, dtype=lg.i8, name="w").to(lg.i32),
            padding=1,
        ),
        {"x": lg.spec(1, 16, 9, 11, dtype=lg.u8)},
        ("cpu",),
    ),
    "windows of a channel of bytes": Row(
        lambda x, w: F.conv2d(x.to(lg.i32), w.to(lg.i32), padding=1, groups=3),
        {"x": lg.spec(1, 3, 20, 30, dtype=lg.u8), "w": lg.spec(3, 1, 3, 3, dtype=lg.i8)},
        ("cpu",),
    ),
    "place of the most": Row(
        lambda a: (a @ nn.Parameter(130, 40, name="w").T).argmax(-1),
        {"a": lg.spec(64, 40)},
        ("cpu",),
    ),
    "place of the least half": Row(
        lambda a, b: (a @ b.mT).argmin(-1),
        {"a": lg.spec(ROWS, 64, dtype=lg.f16), "b": lg.spec(130, 64, dtype=lg.f16)},
        ("cuda",),
    ),
    "few rows in parts": Row(
        lambda a, b: (a @ b.mT).logsumexp(-1), {"a": lg.spec(5, 8), "b": lg.spec(4100, 8)}, ("cpu",)
    ),
    "attention": Row(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        {"q": heads(KEYS), "k": heads(KEYS), "v": heads(KEYS)},
    ),
    "attention of halves": Row(
        lambda q, k, v: ((q @ k.mT) * 0.2).relu() @ v,
        {n: heads(ROWS if n == "q" else KEYS, lg.bf16) for n in "qkv"},
    ),
    "gradient of queries": Row(
        lambda q, k, v, do, lse: (_weights(q, k, lse) * (do @ v.mT)) @ k,
        {**{n: heads(ROWS) for n in ("q", "do")}, "k": heads(KEYS), "v": heads(KEYS), "lse": LSE},
    ),
    "gradients of keys and values": Row(
        lambda q, k, v, do, lse: {
            "dk": (_weights(q, k, lse) * (do @ v.mT)).mT @ q,
            "dv": _weights(q, k, lse).mT @ do,
        },
        {**{n: heads(ROWS) for n in ("q", "do")}, "k": heads(KEYS), "v": heads(KEYS), "lse": LSE},
    ),
    "one query": Row(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
        {"q": heads(1), "k": heads(KEYS), "v": heads(KEYS)},
        ("cpu",),
    ),
}
DEVICES: Mapping[str, Device] = {"cpu": CPU, "cuda": CUDA}
CASES = [(name, device) for name, row in ALL.items() for device in row.devices]
LONG = {"long", "repeated", "scan in parts"}  # for an interpreter
RUN = [pytest.param(*c, marks=[pytest.mark.slow] if c[0] in LONG else []) for c in CASES]


@cache
def lowered(name: str, device: str) -> tuple[tuple[Region, Candidate], ...]:
    """The regions of a function as a device plans them, and what it chooses for each."""
    seen: list[tuple[Region, Candidate]] = []

    @dataclass(frozen=True)
    class Watched(Device):
        def lower(
            self, region: Region, wanted: Candidate | None = None
        ) -> tuple[Candidate, tuple[Built, ...]]:
            candidate, built = super().lower(region, wanted)
            seen.append((region, candidate))
            return candidate, built

    row, chosen = ALL[name], DEVICES[device]
    graph = traced(row.function, **row.inputs)
    for step in GRAPH_PASSES:
        graph = step(graph)
    own = {f.name: getattr(chosen, f.name) for f in fields(chosen)}
    assemble((("entry", graph),), Watched(**own))
    return tuple(seen)


@dataclass(frozen=True)
class Change:
    """A candidate that is one decision away from the chosen one, its kernels, and whether these differ."""

    region: Region
    before: Candidate
    after: Candidate
    kernels: tuple[Built, ...] | Illegal
    differs: bool


@cache
def changed(name: str, device: str) -> tuple[Change, ...]:
    out: list[Change] = []
    row = DEVICES[device]
    for region, candidate in lowered(name, device):
        base = built(row, candidate)
        assert isinstance(base, tuple)
        for other in row.changes(candidate):
            made = built(row, other)
            differs = isinstance(made, tuple) and _programs(made) != _programs(base)
            out.append(Change(region, candidate, other, made, differs))
    return tuple(out)


def built(device: Device, candidate: Candidate) -> tuple[Built, ...] | Illegal:
    """The kernels of a candidate, or the first reason why there are none."""
    try:
        verify(candidate.plan)
    except VerifyFailed as no:
        return Illegal(str(no))
    out: list[Built] = []
    for plan, sizes in zip(candidate.plan.kernels, candidate.schedules, strict=True):
        one = device.build(plan, sizes)
        if isinstance(one, Illegal):
            return one
        verify_tile(one.program)
        out.append(one)
    return tuple(out)


def _programs(kernels: tuple[Built, ...]) -> list[TileProgram]:
    return [b.program for b in kernels]


def numbers(region: Region, dims: Mapping[Dim, int]) -> dict[str, Array]:
    rng = np.random.default_rng(1)
    out: dict[str, Array] = {}
    for b in region.reads():
        shape = [int(e.evaluate(dims)) for e in b.dims]
        drawn = rng.integers(-9, 9, shape) if b.dtype.is_int else rng.standard_normal(shape)
        out[b.name] = drawn.astype(b.dtype.numpy)
    return out


def run(
    kernels: tuple[Built, ...], given: Mapping[str, Array], dims: Mapping[Dim, int]
) -> dict[str, Array]:
    """What the kernels leave, one after the other."""
    memory = dict(given)
    for b in kernels:
        memory |= {packed.name: pack(memory[w.name], how) for packed, w, how in b.packs}
        memory |= tile.run(b.program, memory, dims)
    return memory


def close(found: Mapping[str, Array], region: Region, want: Mapping[str, Array]) -> bool:
    """Within the rounding of the narrowest operands."""
    halves = any(b.dtype.bits == 16 for b in region.buffers())
    for s in region.stores:
        a, b = found[s.dst.name].astype(np.float64), want[s.dst.name].astype(np.float64)
        scale = max(1.0, float(np.abs(b).max(initial=0)))
        if np.abs(a - b).max(initial=0) > (3e-2 if halves else 1e-4) * scale:
            return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize(("name", "device"), RUN)
def test_each_choice_changes_the_program_and_not_the_result(name: str, device: str) -> None:
    """Sizes past all that there is are the exception: an extent of 40 has one tile of 512, and one of 1024."""
    inputs = {
        region: [(dims, numbers(region, dims)) for dims in SIZES]
        for region, _ in lowered(name, device)
    }
    wanted = {
        r: [evaluate(r, given, dims) for dims, given in points] for r, points in inputs.items()
    }
    for c in changed(name, device):
        what = _difference(c.before, c.after)
        if isinstance(c.kernels, Illegal):
            assert c.kernels.reason
            continue
        assert c.differs or c.after.plan == c.before.plan, f"nothing changed: {what}"
        points = inputs[c.region] if c.differs and _sites_changed(c) < 2 else ()
        for (dims, given), want in zip(points, wanted[c.region], strict=False):
            assert close(run(c.kernels, given, dims), c.region, want), what


@pytest.mark.slow
def test_each_site_changes_some_program() -> None:
    """A site that no region of the table feels would be a field that nothing realises."""
    felt: set[tuple[str, str]] = set()
    known: set[tuple[str, str]] = set()
    for c in (c for case in CASES for c in changed(*case)):
        for old, new in zip(c.before.schedules, c.after.schedules, strict=True):
            sites = {(new.builder, site) for site, size in new.tile if old.get(site, -1) != size}
            known |= sites
            if c.differs and len(sites) == 1:
                felt |= sites
    tables = {"few", "pipeline", "roles"}  # whole tiles at a time
    assert {site for site in known - felt if site[0] not in tables} == set()


def _sites_changed(c: Change) -> int:
    """Of sizes that are chosen together the interpreter runs those that differ at one site."""
    pairs = zip(c.before.schedules, c.after.schedules, strict=True)
    together = (b for b in pairs if {s.builder for s in b} == {"stream"})
    return sum(x != y for a, b in together for x, y in zip(a.tile, b.tile, strict=True))


def _difference(one: Candidate, other: Candidate) -> str:
    pairs = zip(one.schedules, other.schedules, strict=True)
    return "; ".join(f"{a} -> {b}" for a, b in pairs if a != b) or str(other.plan.kernels)


# ---- what no space allows is not ignored either ----


def spoiled(plan: KernelPlan) -> Iterator[tuple[str, KernelPlan]]:
    """The plan with each field of each of its parts dropped, emptied or turned, one at a time."""
    for number, loop in enumerate(plan.root):
        for what, near in _spoiled_loop(loop):
            root = (*plan.root[:number], near, *plan.root[number + 1 :])
            yield what, replace(plan, root=root)
        if len(plan.root) > 1:
            yield (
                "a root loop gone",
                replace(plan, root=(*plan.root[:number], *plan.root[number + 1 :])),
            )
    if plan.then is not None:
        yield "what the last block does gone", replace(plan, then=None)


def _spoiled_loop(loop: Loop) -> Iterator[tuple[str, Loop]]:
    for kind in {"grid", "lanes", "threads", "seq"} - {loop.kind}:
        yield f"{loop.kind} as {kind}", replace(loop, kind=kind)
    for number, axis in enumerate(loop.axes):
        axes = (*loop.axes[:number], *loop.axes[number + 1 :])
        yield f"without axis {axis}", replace(loop, axes=axes)
    for number, condition in enumerate(loop.where):
        where = (*loop.where[:number], *loop.where[number + 1 :])
        yield f"without {condition}", replace(loop, where=where)
    for number, carry in enumerate(loop.carries):
        for what, near in _spoiled_carry(carry):
            carries = (*loop.carries[:number], near, *loop.carries[number + 1 :])
            yield f"carry {number} {what}", replace(loop, carries=carries)
    if loop.results:
        yield "without results", replace(loop, results=())
    for number, step in enumerate(loop.body):
        before, after = loop.body[:number], loop.body[number + 1 :]
        yield f"without step {number}", replace(loop, body=(*before, *after))
        yield f"step {number} twice", replace(loop, body=(*before, step, step, *after))
        for what, near in _spoiled_step(step):
            yield f"step {number} {what}", replace(loop, body=(*before, near, *after))


def _spoiled_step(step: Step) -> Iterator[tuple[str, Step]]:
    if isinstance(step, Loop):
        yield from _spoiled_loop(step)
    if isinstance(step, Product):
        yield "turned", replace(step, m=step.n, n=step.m)
        yield "without rows", replace(step, m=())
        yield "without columns", replace(step, n=())
        yield "factors exchanged", replace(step, rows=step.columns, columns=step.rows)


def _spoiled_carry(c: Carry) -> Iterator[tuple[str, Carry]]:
    if c.correct is not None:
        yield "uncorrected", replace(c, correct=None)
    else:
        yield "corrected", replace(c, correct=c.tile)
    if c.product is not None:
        yield "without its product", replace(c, product=None)
    yield (
        "of another monoid",
        replace(c, monoid=next(m for m in type(c.monoid) if m is not c.monoid)),
    )


@pytest.mark.parametrize(("name", "device"), CASES)
def test_no_part_of_a_plan_is_ignored(name: str, device: str) -> None:
    row = DEVICES[device]
    for _, candidate in lowered(name, device):
        base = built(row, candidate)
        assert isinstance(base, tuple)
        for number, kernel in enumerate(candidate.plan.kernels):
            for what, near in spoiled(kernel):
                kernels = candidate.plan.kernels
                plan = replace(
                    candidate.plan, kernels=(*kernels[:number], near, *kernels[number + 1 :])
                )
                made = built(row, replace(candidate, plan=plan))
                same = isinstance(made, tuple) and _programs(made) == _programs(base)
                assert not same, f"{what} is ignored"
                assert not isinstance(made, Illegal) or made.reason


def test_a_schedule_of_unknown_sites_is_refused() -> None:
    for _, candidate in lowered("product", "cpu"):
        sizes = candidate.schedules[-1].at("colour", 3)
        made = built(CPU, replace(candidate, schedules=(*candidate.schedules[:-1], sizes)))
        assert isinstance(made, Illegal)
        assert "colour" in made.reason


@pytest.mark.parametrize("name", ["product", "convolution", "attention", "softmax"])
@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_sizes_of_nothing_are_refused_or_make_a_kernel(name: str, target: str) -> None:
    """A file of schedules may say anything: loops that would never end are no faults of the compiler."""
    device = DEVICES[target]
    for _, candidate in lowered(name, target):
        for number, sizes in enumerate(candidate.schedules):
            for site, _ in sizes.tile:
                each = [*candidate.schedules]
                each[number] = sizes.at(site, 0)
                made = built(device, replace(candidate, schedules=tuple(each)))
                assert not isinstance(made, Illegal) or made.reason
                each[number] = sizes.at(site, -1)
                made = built(device, replace(candidate, schedules=tuple(each)))
                assert isinstance(made, Illegal)


@pytest.mark.parametrize("name", ["product", "attention", "softmax"])
def test_a_schedule_without_sites_is_refused_by_each_builder(name: str) -> None:
    ((_, candidate),) = lowered(name, "cpu")
    for device in (CPU, CUDA, METAL):
        for builder in device.builders:
            made = device.build(candidate.plan.kernels[0], Schedule(builder, ()))
            assert isinstance(made, Illegal), builder


def test_a_plan_of_another_form_is_refused_with_a_reason() -> None:
    """A fold with corrections is no plan of vector loops: it had lost them without a word."""
    ((_, folded),) = lowered("attention", "cpu")
    ((_, plain),) = lowered("softmax", "cpu")
    made = built(CPU, replace(folded, schedules=plain.schedules))
    assert isinstance(made, Illegal)
    assert "correction" in made.reason or "product" in made.reason
