"""Programs: their text, the rules they keep, and how close the arena comes to what lives in it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiles import traced

from lumigen.dtype import f32, i64
from lumigen.emit.reference import argument_sizes
from lumigen.errors import VerifyFailed
from lumigen.frontend import functional
from lumigen.frontend.spec import spec
from lumigen.index import Dim, ceildiv, ix
from lumigen.lower.arena import Lifetime, plan_arena
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.printer.program import show
from lumigen.program import (
    ALIGNMENT,
    InputArg,
    KernelParameter,
    Launch,
    OutputArg,
    Port,
    Program,
    Slot,
    SlotArg,
    ValueArg,
    WeightArg,
    always,
)
from lumigen.targets.cpu.device import CPU
from lumigen.verify.program import alive, points, verify

B = Dim("batch", 1, 64, typical=8)
T = Dim("length", 4, 512, multiple_of=4, typical=128)


def block(x: Any, w: Any, up: Any, down: Any) -> Any:
    """Enough of a transformer to have temporaries of several sizes, some of them for long."""
    y = functional.layer_norm(x, (24,))
    q, k, v = ((y @ w[i]).unflatten(-1, (2, 12)).transpose(1, 2) for i in range(3))
    mixed = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2)
    x = x + mixed
    return x + functional.gelu(functional.layer_norm(x, (24,)) @ up) @ down


@functools.cache
def lowered() -> LoweredModel:
    graph = traced(block, x=spec(B, T, 24), w=spec(3, 24, 24), up=spec(24, 96), down=spec(96, 24))
    return assemble((("block", graph),), CPU)


def parameters(model: LoweredModel) -> dict[str, tuple[KernelParameter, ...]]:
    return {k.name: k.parameters for k in model.kernels}


def test_a_lowered_model_keeps_the_rules() -> None:
    (program,) = lowered().programs
    assert len(program.launches) > 3
    assert len(program.arena) > 1
    assert verify(program, parameters(lowered())) is program


def test_every_slot_is_as_large_as_what_kernels_keep_in_it() -> None:
    (program,) = lowered().programs
    kernels = {k.name: k for k in lowered().kernels}
    for dims in points(program.dims):
        sizes = {s.name: int(s.bytes.evaluate(dims)) for s in program.arena}
        for launch in program.launches:
            kernel = kernels[launch.kernel]
            elements = argument_sizes(kernel)
            for b, a in zip(kernel.program.args, launch.arguments, strict=False):
                if isinstance(a, SlotArg):
                    needed = int(elements[b.name].evaluate(dims)) * b.dtype.itemsize
                    assert needed <= sizes[a.slot]
                    if b == kernel.region.stores[0].dst:
                        assert needed == sizes[a.slot]


# ---- by hand ----

SMALL, LARGE = ix(B) * 4, ix(B) * 400
KERNELS = {
    "copy": (
        KernelParameter("x", f32),
        KernelParameter("out", f32, written=True),
        KernelParameter("batch", None),
    ),
    "add": (
        KernelParameter("x", f32),
        KernelParameter("y", f32),
        KernelParameter("out", f32, written=True),
    ),
}


def launch(kernel: str, *arguments: Any) -> Launch:
    return Launch(kernel, arguments, ix(B))


X, OUT, N = InputArg("x"), OutputArg("out"), ValueArg(ix(B))
S, L = SlotArg("s"), SlotArg("l")
GOOD = Program(
    "main",
    (Port("x", (ix(B),), f32),),
    (Port("out", (ix(B),), f32),),
    (B,),
    tuple(map(always, (
        launch("copy", X, S, N), launch("copy", X, L, N), launch("add", S, L, L), launch("copy", L, OUT, N),
    ))),
    (Slot("s", SMALL, ()), Slot("l", LARGE, ("s",))),
)  # fmt: skip


def steps(*launches: Launch) -> Program:
    return replace(GOOD, groups=tuple(map(always, launches)))


def living(program: Program) -> list[str]:
    return ["".join(sorted(names)) for names in alive(program, KERNELS)]


def test_a_program_by_hand() -> None:
    assert verify(GOOD, KERNELS) is GOOD
    assert living(GOOD) == ["s", "ls", "ls", "l"]


def test_a_slot_may_hold_one_value_after_another() -> None:
    """The first is dead when the other slot is alive, in the same bytes."""
    last = launch("copy", S, OUT, N)
    both = steps(
        launch("copy", X, S, N),
        last,
        launch("copy", X, L, N),
        launch("copy", L, OUT, N),
        launch("copy", X, S, N),
        last,
    )
    program = replace(both, arena=(Slot("s", SMALL, ()), Slot("l", LARGE, ())))
    assert living(program) == ["s", "s", "l", "l", "s", "s"]
    assert verify(program, KERNELS) is program


BROKEN: dict[str, tuple[Program, str]] = {
    "an unknown kernel": (steps(launch("gone", X)), "no kernel gone"),
    "too few arguments": (steps(launch("copy", X, OUT)), "2 arguments for 3 parameters"),
    "a number for a pointer": (steps(launch("copy", N, OUT, N)), "x is const float*, and is given"),
    "a pointer for a number": (steps(launch("copy", X, OUT, X)), "batch is int64_t, and is given"),
    "an unknown input": (steps(launch("copy", InputArg("y"), OUT, N)), "does not have"),
    "an input of another type": (
        replace(GOOD, inputs=(Port("x", (ix(B),), i64),)), "x is f32, and x is i64"
    ),
    "a written input": (steps(launch("copy", X, X, N)), "out is written, and is given"),
    "a written weight": (steps(launch("copy", X, WeightArg("w"), N)), "out is written, and is given"),
    "an unknown slot": (steps(launch("copy", X, SlotArg("t"), N)), "not in the arena"),
    "a slot read too early": (
        steps(launch("copy", S, OUT, N)), "x reads SlotArg(slot='s') before it is written"
    ),
    "an output never written": (steps(launch("copy", X, S, N)), "nothing writes output out"),
    "a dim without a value": (
        steps(Launch("copy", (X, OUT, ValueArg(ix(T))), ix(B))), "has the dim length"
    ),
    "tasks without a value": (
        steps(Launch("copy", (X, OUT, N), ix(T))), "its tasks has the dim length"
    ),
    "a number divided by what may be 0": (
        steps(Launch("copy", (X, OUT, N), ceildiv(64, ix(B) - 1))), "divided by batch - 1, which may be 0"
    ),
    "slots that overlap": (
        replace(GOOD, arena=(Slot("s", SMALL, ()), Slot("l", LARGE, ()))),
        "slots s and l overlap at launch 1, with batch=1",
    ),
    "two slots of a name": (replace(GOOD, arena=(GOOD.arena[0],) * 2), "two slots s"),
    "a slot behind a later one": (
        replace(GOOD, arena=(Slot("s", SMALL, ("l",)), Slot("l", LARGE, ()))), "stands behind l"
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_program_is_refused(what: str) -> None:
    wrong, message = BROKEN[what]
    with pytest.raises(VerifyFailed) as failed:
        verify(wrong, KERNELS)
    assert message in str(failed.value)


def test_values_that_are_in_range_at_all_dims() -> None:
    assert Port("x", (), i64, (-5, 0)).always == (-5, 0)
    assert Port("x", (), i64, (-5, 63), ix(B) - 1).always == (-5, 0)
    assert Port("x", (), i64).always is None


def test_numbers_of_a_launch_may_follow_from_one_another() -> None:
    tiles = Dim("tiles", 1, 64)
    named = Launch("copy", (X, OUT, ValueArg(ix(B), tiles)), ix(tiles) * 2)
    assert verify(steps(named), KERNELS)
    assert named.numbers({B: 5})[tiles] == 5
    assert "run copy(x, out, tiles=batch) tasks 2*tiles" in show(steps(named))


def test_the_text_of_a_program(golden: Callable[[str, str], None]) -> None:
    golden("program/by_hand.txt", show(GOOD))


def test_points_are_values_that_dims_may_have() -> None:
    odd = Dim("odd", 3, 101, multiple_of=4, typical=50)
    assert [p[odd] for p in points((odd,))] == [4, 48, 100]


# ---- the arena ----


def arena_bytes(lifetimes: tuple[Lifetime, ...], dims: tuple[Dim, ...]) -> list[tuple[int, int]]:
    """(the arena, the most bytes alive at one step) at each point; slots are checked by force."""
    planned = plan_arena(lifetimes, dims)
    program = Program("main", (), (), dims, (), planned.slots)
    out: list[tuple[int, int]] = []
    for point in points(dims):
        start, total = program.offsets(point)
        size = {
            t.name: -(-int(t.bytes.evaluate(point)) // ALIGNMENT) * ALIGNMENT for t in lifetimes
        }
        most = 0
        for step in {t.first for t in lifetimes}:
            alive = [t for t in lifetimes if t.first <= step <= t.last]
            places = sorted((start[planned.home[t.name]], size[t.name]) for t in alive)
            for (a, length), (b, _) in pairwise(places):
                assert a + length <= b
            most = max(most, sum(size[t.name] for t in alive))
        out.append((total, most))
    return out


def network(rng: np.random.Generator, layers: int) -> tuple[Lifetime, ...]:
    """Temporaries as a network has them: most live for a step or two, some much longer."""
    sizes = [ix(B) * 64 * int(rng.integers(1, 200)) for _ in range(4)]
    sizes += [ix(B) * T * 4 * int(rng.integers(1, 64)) for _ in range(4)]
    out: list[Lifetime] = []
    for step in range(layers):
        for n in range(int(rng.integers(1, 3))):
            span = int(rng.integers(1, 3)) if rng.random() < 0.8 else int(rng.integers(3, 12))
            size = sizes[int(rng.integers(len(sizes)))]
            out.append(Lifetime(f"t{step}_{n}", size, step, min(step + span, layers)))
    return tuple(out)


def is_close(total: int, most: int) -> bool:
    return total <= max(most * 1.02, most + 4096)


def test_an_arena_wastes_little_on_what_networks_do() -> None:
    usual = {B: ix(8), T: ix(128)}
    for seed in range(8):
        rng = np.random.default_rng(seed)
        found = network(rng, int(rng.integers(3, 30)))
        fixed = tuple(replace(t, bytes=t.bytes.substitute(usual)) for t in found)
        assert all(is_close(total, most) for total, most in arena_bytes(fixed, ())), seed


@pytest.mark.slow
def test_an_arena_wastes_little_at_all_dims_at_once() -> None:
    """One order serves three points, which now and then cannot all be met."""
    close = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        found = arena_bytes(network(rng, int(rng.integers(3, 24))), (B, T))
        assert all(total <= max(most * 1.15, most + 4096) for total, most in found)
        close += all(is_close(total, most) for total, most in found)
    assert close >= 7


spans = st.tuples(st.integers(0, 12), st.integers(0, 6), st.integers(1, 40), st.booleans())


@given(st.lists(spans, max_size=14))
def test_slots_that_live_together_never_overlap(found: list[tuple[int, int, int, bool]]) -> None:
    lifetimes = tuple(
        Lifetime(f"t{n}", ix(B) * 4 * size if grows else ix(64 * size), first, first + length)
        for n, (first, length, size, grows) in enumerate(found)
    )
    for total, most in arena_bytes(lifetimes, (B,)):
        assert most <= total
