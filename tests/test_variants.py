"""A step that can be taken in several ways: the first way that may be taken is, everywhere alike."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiles import run_entry

import lumigen as lg
from lumigen import fast_lane, nn
from lumigen.build import build_project, load_module, write_project
from lumigen.condition import Cmp, less
from lumigen.dtype import f32
from lumigen.emit.kernel_vectors import kernel_vectors
from lumigen.emit.project import render_project
from lumigen.errors import LoweringFailed, VerifyFailed
from lumigen.index import Axis, Dim, ix
from lumigen.interp import program as interp_program
from lumigen.lower.assemble import LoweredModel
from lumigen.pipeline import Compilation, lower_model
from lumigen.printer.program import show
from lumigen.program import (
    Group,
    Guard,
    InputArg,
    KernelParameter,
    Launch,
    OutputArg,
    Port,
    Program,
    Slot,
    SlotArg,
    Variant,
    always,
)
from lumigen.summary import entry_summary
from lumigen.verify.program import alive, verify

B = Dim("batch", 1, 64, typical=8)
FEW = Guard((less(B, 4),))
OFFSET = 100.0


# ---- which one is chosen ----

X, OUT = InputArg("x"), OutputArg("out")
S, T, U = SlotArg("s"), SlotArg("t"), SlotArg("u")
KERNELS = {"copy": (KernelParameter("x", f32), KernelParameter("out", f32, written=True))}


def copy(a: Any, b: Any) -> Launch:
    return Launch("copy", (a, b), ix(B))


def program(*groups: Group, slots: tuple[Slot, ...] | None = None) -> Program:
    """By itself: `s` before the slots `t` and `u`, which share their bytes."""
    size = ix(B) * 4
    arena = slots or (Slot("s", size, ()), Slot("t", size, ("s",)), Slot("u", size, ("s",)))
    port = (ix(B),)
    return Program("main", (Port("x", port, f32),), (Port("out", port, f32),), (B,), groups, arena)


WIDE = Variant(Guard((less(7, B),), ("avx2",)), (copy(S, OUT),))
SHORT = Variant(FEW, (copy(S, T), copy(T, OUT)))
LONG = Variant(Guard(), (copy(S, U), copy(U, OUT)))
GOOD = program(always(copy(X, S)), Group((WIDE, SHORT, LONG)))


def test_the_first_variant_that_may_runs() -> None:
    group = GOOD.groups[1]
    assert group.chosen({B: 3}) is SHORT
    assert group.chosen({B: 4}) is LONG
    assert group.chosen({B: 8}) is LONG
    assert group.chosen({B: 8}, {"avx2", "avx512"}) is WIDE
    assert group.chosen({B: 7}, {"avx2"}) is LONG
    assert GOOD.chosen({B: 8}, {"avx2"}) == (copy(X, S), copy(S, OUT))
    assert len(GOOD.launches) == 6


def test_variants_may_keep_different_slots_in_the_same_bytes() -> None:
    assert verify(GOOD, KERNELS) is GOOD
    living = ["".join(sorted(names)) for names in alive(GOOD, KERNELS)]
    assert living == ["s", "s", "st", "t", "su", "u"]


def test_the_text_of_variants(golden: Callable[[str, str], None]) -> None:
    golden("program/variants.txt", show(GOOD))


def choice(*variants: Variant) -> Program:
    return program(always(copy(X, S)), Group(variants), always(copy(T, OUT)))


MAKES_T = (copy(S, T),)
BROKEN: dict[str, tuple[Program, str]] = {
    "no variant": (program(Group(())), "group 0 has no variant"),
    "none that always runs": (
        choice(Variant(FEW, MAKES_T)), "variant 0 of group 1 is the last one, and runs only if"
    ),
    "one that is never reached": (
        choice(Variant(Guard(), MAKES_T), Variant(Guard(), MAKES_T)), "variant 0 of group 1 always runs"
    ),
    "a guard on another dim": (
        choice(Variant(Guard((less(Dim("length", 1, 9), 4),)), MAKES_T), Variant(Guard(), MAKES_T)),
        "the guard of variant 0 of group 1 has the dim length",
    ),
    "a guard on an axis": (
        choice(Variant(Guard((Cmp(ix(Axis("i", ix(9)))),)), MAKES_T), Variant(Guard(), MAKES_T)),
        "a guard that is not of dims alone",
    ),
    "a value that one variant does not leave": (
        choice(Variant(FEW, MAKES_T), Variant(Guard(), (copy(S, U),))), "x reads SlotArg(slot='t') before"
    ),
    "an output that one variant does not write": (
        program(always(copy(X, S)), Group((Variant(FEW, (copy(S, OUT),)), Variant(Guard(), ())))),
        "nothing writes output out",
    ),
    "a slot on a value that is read after the group": (
        program(
            always(copy(X, S), copy(S, T)),
            Group((Variant(FEW, (copy(S, OUT),)), Variant(Guard(), (copy(S, U), copy(U, OUT))))),
            always(copy(T, OUT)),
        ),
        "slots t and u overlap at launch 3",
    ),
    "a slot on a value that another variant reads later": (
        program(
            always(copy(X, S), copy(S, T)),
            Group((Variant(FEW, (copy(S, U), copy(U, OUT))), Variant(Guard(), ()))),
            Group((Variant(FEW, (copy(S, OUT),)), Variant(Guard(), (copy(T, OUT),)))),
        ),
        "slots t and u overlap at launch 2",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_choice_is_refused(what: str) -> None:
    wrong, message = BROKEN[what]
    with pytest.raises(VerifyFailed) as failed:
        verify(wrong, KERNELS)
    assert message in str(failed.value)


# ---- a model with two ways ----


def two_ways() -> lg.Model:
    """The same product, by rows first or by the weights first; the second way adds an offset."""
    model = lg.Model("ways", nn.Identity(), version="0.1.0")
    inputs = {"x": lg.spec(B, 6), "w": lg.spec(6, 40), "v": lg.spec(40, 6)}

    @model.entry(**inputs)
    def product(x: Any, w: Any, v: Any) -> Any:
        y = (x @ w) @ v
        return {"y": y, "probs": y.softmax(-1)}

    @model.entry(**inputs)
    def other(x: Any, w: Any, v: Any) -> Any:
        y = x @ (w @ v) + OFFSET
        return {"y": y, "probs": y.softmax(-1)}

    return model


def renamed(launch: Launch) -> Launch:
    return replace(
        launch,
        arguments=tuple(
            SlotArg(f"other_{a.slot}") if isinstance(a, SlotArg) else a for a in launch.arguments
        ),
    )


@functools.cache
def joined() -> Compilation:
    """Both entries as one: few rows take the first way, many the other one."""
    compiled = lower_model(two_ways().trace(), {})
    main, other = compiled.lowered.programs
    ways = [[x for g in p.groups[:-1] for x in g.variants[0].launches] for p in (main, other)]
    first, second = tuple(ways[0]), tuple(map(renamed, ways[1]))
    assert len(first) > 1
    assert len(second) > 1
    group = Group((Variant(FEW, first), Variant(Guard(), second)))
    slots = tuple(
        replace(s, name=f"other_{s.name}", after=tuple(f"other_{n}" for n in s.after))
        for s in other.arena
    )
    one = replace(main, groups=(group, main.groups[-1]), arena=(*main.arena, *slots))
    parameters = {k.name: k.parameters for k in compiled.lowered.kernels}
    return replace(
        compiled,
        lowered=replace(compiled.lowered, programs=(verify(one, parameters),)),
        model=replace(compiled.model, programs=(one,)),
    )


def data(batch: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(batch)
    shapes = {"x": (batch, 6), "w": (6, 40), "v": (40, 6)}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def check(found: dict[str, np.ndarray], batch: int) -> None:
    """The offset, which the softmax does not see, shows the way that was taken."""
    given = data(batch)
    wanted = given["x"] @ given["w"] @ given["v"]
    exponents = np.exp(wanted - wanted.max(-1, keepdims=True))
    np.testing.assert_allclose(found["y"], wanted + (0 if batch < 4 else OFFSET), atol=1e-4)
    probs = exponents / exponents.sum(-1, keepdims=True)
    np.testing.assert_allclose(found["probs"], probs, atol=2e-4)


@pytest.mark.parametrize("batch", [1, 3, 4, 64])
def test_the_interpreter_takes_the_way_of_the_dims(batch: int) -> None:
    check(run_entry(joined().lowered, data(batch), {}), batch)


def test_a_caller_may_choose() -> None:
    lowered = joined().lowered
    kernels = {k.name: k.program for k in lowered.kernels}
    (one,) = lowered.programs
    given = data(2)
    runs = [
        interp_program.run(one, kernels, {}, given, {B: 2}, choose=lambda g, n=n: g.variants[n])
        for n in (0, -1)
    ]
    np.testing.assert_allclose(runs[0]["y"] + OFFSET, runs[1]["y"], atol=1e-4)


def test_the_fast_lane_takes_it_too() -> None:
    lane = fast_lane.load(joined().lowered, "-O0")
    for batch in (3, 4):
        check(lane.run("product", data(batch), {}), batch)


def test_a_summary_counts_what_runs() -> None:
    model = joined().model
    (one,) = model.programs
    assert entry_summary(one, model).launches == len(one.chosen({B: 8})) < len(one.launches)


def test_kernels_are_tested_where_they_are_launched() -> None:
    text = render_project(joined().model)["tests/kernels_test.cpp"]
    few = len(joined().model.programs[0].groups[0].variants[0].launches)
    assert text.count("if (!(dims.batch < 4)) return true;") == few
    assert text.count('{{"batch", 1, 3, 1}}') == few
    assert '{{"batch", 1, 64, 1}}' in text


@pytest.mark.parametrize(
    ("condition", "points"),
    [(less(B, 4), [(1,), (3,)]), (less(3, B), [(4,), (6,)])],
    ids=["few", "many"],
)
def test_what_is_stored_is_where_a_variant_is_launched(
    condition: Cmp, points: list[tuple[int]]
) -> None:
    compiled = joined()
    (one,) = compiled.model.programs
    group, last = one.groups
    first = replace(group.variants[0], when=Guard((condition,)))
    changed = replace(one, groups=(replace(group, variants=(first, group.variants[1])), last))
    model = replace(compiled.model, programs=(changed,))
    stored = kernel_vectors(model, compiled.lowered.kernels)
    found = [[v.dims for v in stored[launch.kernel]] for launch in first.launches]
    assert points in found  # of a kernel that batch does not change, the first alone
    assert all(dims == points[: len(dims)] for dims in found)


def guarded(*conditions: Cmp, features: tuple[str, ...] = ()) -> str:
    """The entry's source with another guard."""
    compiled = joined()
    (one,) = compiled.model.programs
    group, last = one.groups
    first = replace(group.variants[0], when=Guard(conditions, features))
    changed = replace(one, groups=(Group((first, *group.variants[1:])), last))
    return render_project(replace(compiled.model, programs=(changed,)))["src/product.cpp"]


def test_guards_in_the_text() -> None:
    both = (less(3, B), less(ix(B) % 16, 1))
    assert "  if (dims.batch >= 4 && dims.batch % 16 < 1) {\n" in guarded(*both)
    text = guarded(less(B, 4), features=("avx512",))
    assert "  if (call.model().isa >= kAvx512 && dims.batch < 4) {\n" in text


def test_a_guard_on_what_the_target_does_not_know_is_refused() -> None:
    with pytest.raises(LoweringFailed, match="a guard on sm_90; a guard may ask for avx2, avx512"):
        guarded(features=("sm_90",))


def test_a_step_that_may_not_run_is_not_emitted() -> None:
    model: LoweredModel = joined().lowered
    (one,) = model.programs
    first = Group(one.groups[0].variants[:1])
    broken = replace(joined().model, programs=(replace(one, groups=(first,)),))
    with pytest.raises(LoweringFailed, match="without a variant that always runs"):
        render_project(broken)


@pytest.mark.slow
def test_the_built_project_takes_the_way_of_the_dims(tmp_path: Path) -> None:
    write_project(render_project(joined().model), tmp_path)
    build_project(tmp_path, tests=True)
    context = load_module(tmp_path).Model().context(1)
    for batch in (3, 4):
        given = data(batch)
        found = context.product(**given)
        check({"y": np.asarray(found.y), "probs": np.asarray(found.probs)}, batch)
    program = tmp_path / "build" / "release" / "ways_kernels_test"
    run = subprocess.run([program, "baseline"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    assert "cases of kernels agree with their references, 0 do not" in run.stdout
