"""Which integers an imported model is compared on: places of tables and known kinds, else the two least."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto
from onnx_models import model, node

import lumigen as lg
from lumigen.drawn import drawn

F, I64 = np.float32, np.int64


def of(proto: onnx.ModelProto) -> dict[str, tuple[int, int]]:
    made = lg.from_onnx(proto, {"n": (1, 4)})
    ((_, graph),) = made.trace().entries
    return drawn(graph, made.values())


def gathered(*, table: str = "t", at: str = "x") -> onnx.NodeProto:
    return node("Gather", f"{table} {at}", "y")


def test_places_of_a_table_are_all_of_it_and_of_several_those_that_each_has() -> None:
    table = {"t": np.ones((100, 2), F), "few": np.ones((7, 2), F), "two": np.array(2)}
    assert of(model([gathered()], {"x": (I64, ["n"])}, "y", table)) == {"x": (0, 99)}
    moved = [node("Add", "x two", "z"), gathered(at="z")]
    assert of(model(moved, {"x": (I64, ["n"])}, "y", table)) == {"x": (-2, 97)}
    given = {"t": (F, ["n", 2]), "x": (I64, [3])}
    assert of(model([gathered()], given, "y"))["x"] == (0, 0), "what is there at the least size"
    both = [gathered(), node("Gather", "few x", "z")]
    assert of(model(both, {"x": (I64, ["n"])}, "y z", table)) == {"x": (0, 6)}
    narrow = [gathered(table="wide")]
    wide = {"wide": np.ones((1000, 2), F)}
    assert of(model(narrow, {"x": (np.int32, ["n"])}, "y", wide)) == {"x": (0, 999)}


def test_kinds_that_a_weight_lists_are_all_of_them() -> None:
    nodes = [
        node("Unsqueeze", "x last", "z"),
        node("Equal", "z kinds", "hit"),
        node("Cast", "hit", "y", to=TensorProto.FLOAT),
    ]
    initial = {"kinds": np.arange(3, 260), "last": np.array([1])}
    assert of(model(nodes, {"x": (I64, ["n"])}, "y", initial)) == {"x": (3, 259)}
    narrow = {"kinds": np.arange(3, 260, dtype=np.uint8), "last": np.array([1])}
    assert of(model(nodes, {"x": (np.uint8, ["n"])}, "y", narrow)) == {"x": (0, 255)}


def test_masks_flags_and_bounds_are_the_two_least() -> None:
    nodes = [
        node("Equal", "mask one", "flag"),
        node("Range", "zero nine one", "at"),
        node("Less", "at bound", "inside"),
    ]
    initial = {"one": np.array(1), "zero": np.array(0), "nine": np.array(9)}
    inputs = {"mask": (I64, ["n"]), "bound": (I64, [1])}
    assert of(model(nodes, inputs, "flag inside", initial)) == {"mask": (0, 1), "bound": (0, 1)}


def test_the_tests_of_a_project_draw_what_its_original_was_given(tmp_path: Path) -> None:
    table = {"t": np.arange(200, dtype=F).reshape(100, 2)}
    made = lg.from_onnx(model([gathered()], {"x": (I64, [5])}, "y", table))
    (row,) = lg.check(made).rows
    assert (row.difference, row.greatest > 4) == (0, True), "not of the first two rows alone"
    lg.compile(made, output=tmp_path / "net", check=True, build=False)
    text = (tmp_path / "net" / "tests" / "entries_test.cpp").read_text()
    assert "{{0, 99}}" in text
