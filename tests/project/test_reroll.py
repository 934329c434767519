"""Layers that repeat are a loop in an entry's source, and its launches are those of before."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import models
import pytest

from lumigen.build import write_project
from lumigen.dtype import f32
from lumigen.emit.project import render_project
from lumigen.emit.reroll import Rolled, launches_of, reroll, unroll
from lumigen.index import ix
from lumigen.program import (
    Argument,
    CompiledModel,
    Group,
    InputArg,
    Launch,
    OutputArg,
    Slot,
    SlotArg,
    StateArg,
    Stored,
    ValueArg,
    WeightArg,
    WeightInfo,
    always,
)

BATCH = ix(models.BATCH)


def layer(source: Argument, target: Argument, number: int) -> tuple[Group, Group]:
    """Two launches, between which a temporary is."""
    scale, shift = WeightArg(f"layers_{number}_scale"), WeightArg(f"layers_{number}_shift")
    count = ValueArg(BATCH)
    return (
        always(Launch("k00_affine_7", (source, scale, shift, SlotArg("between"), count), BATCH)),
        always(Launch("k00_affine_7", (SlotArg("between"), scale, scale, target, count), BATCH)),
    )


def stack(layers: int) -> tuple[Group, ...]:
    """A layer of its own from x on, layers that repeat, and one that ends in y."""
    h = SlotArg("h")
    body = [g for n in range(1, layers + 1) for g in layer(h, h, n)]
    return (*layer(InputArg("x"), h, 0), *body, *layer(h, OutputArg("total"), layers + 1))


def model(layers: int, order: str = "by layer") -> CompiledModel:
    """A model whose weights lie in the table as they are used, or all of one kind before the others."""
    names = [f"layers.{n}.{kind}" for n in range(layers + 2) for kind in ("scale", "shift")]
    if order == "by kind":
        names.sort(key=lambda name: name.endswith("shift"))
    if order == "mixed":
        names = names[::3] + names[1::3] + names[2::3]
    tiny = models.tiny()
    forward = replace(
        tiny.programs[0],
        groups=stack(layers),
        outputs=(replace(tiny.programs[0].inputs[0], name="total"),),
        arena=(Slot("between", BATCH * 28, ()), Slot("h", BATCH * 28, ("between",))),
    )
    weights = tuple(
        Stored(name.replace(".", "_"), WeightInfo(name, (models.IN,), f32), None) for name in names
    )
    return replace(tiny, programs=(forward,), weights=weights, kernels=tiny.kernels[:1])


@pytest.mark.parametrize("layers", [3, 12])
def test_what_repeats_is_a_loop(layers: int) -> None:
    groups = stack(layers)
    pieces = reroll(groups)
    assert tuple(unroll(pieces)) == groups
    (loop,) = [p for p in pieces if isinstance(p, Rolled)]
    assert (loop.rounds, len(launches_of(loop.groups))) == (layers, 2)
    assert [c.arguments[1] for c in loop.columns] == [
        WeightArg("layers_2_scale"),
        WeightArg("layers_2_shift"),
    ]


def test_a_loop_begins_where_a_layer_does() -> None:
    """The second launch of one layer and the first of the next repeat once more, but they are of two layers."""
    *_, loop, last, end = reroll(stack(5))
    assert isinstance(loop, Rolled)
    assert loop.columns[0].arguments == tuple(WeightArg(f"layers_{n}_scale") for n in range(1, 6))
    assert isinstance(last, Group)
    assert isinstance(end, Group)


def test_a_few_launches_that_repeat_stay_as_they_are() -> None:
    groups = stack(1)
    assert reroll(groups) == groups


def test_parts_of_weights_and_states_change_from_round_to_round() -> None:
    def step(number: int) -> Group:
        arguments = (
            StateArg(f"layers.{number}.keys"),
            WeightArg("stacked", 70 * number),
            WeightArg("shared"),
        )
        return always(Launch("k00_affine_7", arguments, BATCH))

    groups = tuple(map(step, range(4)))
    (loop,) = reroll(groups)
    assert isinstance(loop, Rolled)
    assert [c.places for c in loop.columns] == [((0, 0),), ((0, 1),)]
    assert tuple(unroll([loop])) == groups


def test_other_sizes_and_temporaries_end_a_loop() -> None:
    groups = stack(8)
    middle = groups[8].variants[0].launches[0]
    other = always(replace(middle, tasks=BATCH + 1))
    rolled = [p for p in reroll((*groups[:8], other, *groups[9:])) if isinstance(p, Rolled)]
    assert [r.rounds for r in rolled] == [3, 4]


@pytest.mark.parametrize(
    ("order", "listed"), [("by layer", False), ("by kind", False), ("mixed", True)]
)
def test_an_entry_has_a_row_for_each_layer(order: str, listed: bool) -> None:
    """Layers follow one another in the table of weights, or the entry lists their rows."""
    text = render_project(model(3, order))["src/forward.cpp"]
    assert "for (int32_t i = 0; i < 3; ++i) {\n    const Layer layer = layer_at(i);\n" in text
    assert "args.scale = weights.get<float>(layer.scale);" in text
    assert ("constexpr int32_t layer_scale[] = {" in text) is listed
    assert text.count("call.launch") == 2 + 2 + 2
    assert "  // model.py:12 (layers.0)\n" in text


@pytest.mark.parametrize("order", ["by layer", "by kind", "mixed"])
def test_every_round_has_the_weights_of_its_layer(order: str, tmp_path: Path) -> None:
    """The compiler works out the table, and finds the rows that were in the launches."""
    made = model(4, order)
    (loop,) = [p for p in reroll(made.programs[0].groups) if isinstance(p, Rolled)]
    write_project(render_project(made), tmp_path)
    checks = "".join(
        f"static_assert(layer_at({i}).{name} == k_{a.stored});\n"
        for name, column in zip(("scale", "shift"), loop.columns, strict=True)
        for i, a in enumerate(column.arguments)
        if isinstance(a, WeightArg)
    )
    source = tmp_path / "src" / "forward.cpp"
    source.write_text(source.read_text().replace("// Where each", f"{checks}// Where each"))
    command = [
        "c++",
        "-std=c++17",
        "-fsyntax-only",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-I.",
        "-Iinclude",
    ]
    defines = ["-DLUMIGEN_NS=tiny_impl", "-DLUMIGEN_HAS_BASELINE=1"]
    subprocess.run([*command, *defines, "src/forward.cpp"], cwd=tmp_path, check=True)
