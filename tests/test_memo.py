"""Nodes live as long as somebody holds them, and what is remembered as long as a compilation lasts."""

from __future__ import annotations

import gc
import json
import math
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lumigen as lg
from lumigen import graph, memo, region
from lumigen.graph import binary, const, edge
from lumigen.index import Axis, Dim, Ix, ix, polynomial
from lumigen.ops import Op

ROOT = Path(__file__).parent.parent


class Thing:
    """Something that can be held weakly."""

    def __init__(self, key: int) -> None:
        self.key = key


def test_a_node_that_is_held_stays_the_only_one_of_its_key() -> None:
    nodes: memo.Nodes[Thing] = memo.Nodes(lambda thing: thing.key)
    held = nodes.add(1, Thing(1))
    nodes.add(2, Thing(2))
    nodes.sweep()
    assert len(nodes) == 1
    assert nodes.get(1) is held
    assert nodes.add(1, Thing(1)) is held
    assert nodes.get(2) is None


def test_nodes_of_every_form_go_and_stay() -> None:
    axis = Axis("memo", ix(7))
    kept = ix(Axis("kept", ix(9))) * 3
    i, e, n = ix(axis) + 12345, region.const(12345.5, lg.f32), const(12345.5, lg.f32)
    memo.forget()
    assert ix(axis) + 12345 is i
    assert region.const(12345.5, lg.f32) is e
    assert const(12345.5, lg.f32) is n
    sizes = [len(t) for t in (polynomial._TABLE, region._TABLE, graph._TABLE)]
    del i, e, n, axis
    memo.forget()
    less = [len(t) for t in (polynomial._TABLE, region._TABLE, graph._TABLE)]
    assert all(a < b for a, b in zip(less, sizes, strict=True))
    assert kept is ix(Axis("kept", ix(9))) * 3


def test_nan_is_one_constant() -> None:
    assert region.const(math.nan, lg.f32) is region.const(float("nan"), lg.f32)


@pytest.mark.slow
def test_a_long_chain_goes_without_recursion() -> None:
    n = const(54321.0, lg.f32)
    for _ in range(100_000):
        n = binary(Op.ADD, edge(n), edge(n))
    before = len(graph._TABLE)
    del n
    memo.forget()
    assert len(graph._TABLE) <= before - 100_000


def test_what_is_remembered_goes_with_the_last_compilation() -> None:
    asked: list[int] = []

    @memo.remembered
    def square(x: int) -> int:
        asked.append(x)
        return x * x

    with memo.compilation():
        with memo.compilation():
            assert square(3) == 9
        assert square(3) == 9
        assert asked == [3]
    assert square(3) == 9
    assert asked == [3, 3]


def test_alike_atoms_are_ordered_by_what_they_are_made_of() -> None:
    few, many = Axis("i", ix(3)), Axis("i", ix(Dim("n", 1, 8)))
    wide = Axis("i", ix(Dim("n", 1, 9)))
    one = ix(few) + ix(many) * 2 + ix(wide) * 3
    memo.forget()
    assert ix(wide) * 3 + ix(many) * 2 + ix(few) is one
    keys = {polynomial._atom_key(a) for a in (few, many, wide)}
    assert len(keys) == 3


def test_sweeping_beside_another_thread_keeps_nodes_unique() -> None:
    wrong: list[int] = []
    end = threading.Event()

    def work(seed: int) -> None:
        axis = Axis("shared", ix(50))
        while not end.is_set():
            made: list[Ix] = [ix(axis) * 3 + k for k in range(50)]
            again = [ix(axis) * 3 + k for k in range(50)]
            if any(a is not b for a, b in zip(made, again, strict=True)):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(3)]
    for t in threads:
        t.start()
    for _ in range(8):  # each waits for the interpreter, which the threads share
        memo.forget()
    end.set()
    for t in threads:
        t.join()
    assert not wrong


MANY = """
import gc, json, os
import lumigen as lg
from lumigen import nn
from lumigen.pipeline import lower_model

def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def model(i):
    width = 8 + i
    net = nn.Sequential(nn.Linear(width, width + 3), nn.ReLU(), nn.Linear(width + 3, 5))
    made = lg.Model(f"m{i}", net)

    @made.entry(x=lg.spec(lg.Dim(f"n{i % 7}", 1, 64 + i, typical=2), width))
    def run(x):
        return {"y": net(x).reshape(-1) if i % 2 else net(x).softmax(-1), "z": (x * x).mean(-1)}

    return made

found = {}
for i in range(1, COUNT + 1):
    lower_model(model(i).trace(), {})
    if i in (COUNT // 2, COUNT):
        found[i] = resident()
print(json.dumps(found))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads Linux's /proc")
def test_memory_is_flat_over_many_models() -> None:
    """A model of this size makes 2.6 MB of nodes and cached results: what keeps 2% of them fails."""
    count = 200 if os.environ.get("LUMIGEN_ALL") == "1" else 120
    made = subprocess.run(
        [sys.executable, "-c", f"COUNT = {count}{MANY}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(made.stdout)
    assert found[str(count)] - found[str(count // 2)] < 60e3 * count / 2, found


def loaded() -> int:
    """How many libraries of kernels lie in this process's memory."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    return len({line.split()[-1] for line in maps.splitlines() if "fast_lane" in line})


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="reads Linux's /proc")
def test_kernels_of_graphs_leave_memory_with_the_last_of_their_functions() -> None:
    """A library takes 80 KB as long as it is loaded."""
    before, kept = loaded(), list[Any]()
    for width in (3, 4, 5):
        cx = lg.Graph()
        x = cx.tensor((2, width)).set(np.ones((2, width)))
        result = (x * width).sum(-1).retrieve()
        cx.compile(lg.GenericCompiler(), lg.CPUCompiler())
        kept.append((cx, result))
    gc.collect()
    assert loaded() == before + 3
    for cx, _ in kept[:2]:
        cx.compile(lg.GenericCompiler())
    del cx
    gc.collect()
    assert loaded() == before + 1
    for cx, _ in kept:
        cx.execute()
    assert [r.numpy().tolist() for _, r in kept] == [[9.0, 9.0], [16.0, 16.0], [25.0, 25.0]]


def test_the_collector_looks_seldom_while_a_compilation_runs_and_is_as_before_afterwards() -> None:
    before = gc.get_threshold()
    with memo.compilation(), memo.compilation():
        assert gc.get_threshold() == (memo.YOUNG, *before[1:])
    assert gc.get_threshold() == before


def test_a_collector_that_is_switched_off_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    before = gc.get_threshold()
    monkeypatch.setattr(gc, "get_threshold", lambda: (0, 10, 10))
    asked: list[tuple[int, ...]] = []
    monkeypatch.setattr(gc, "set_threshold", lambda *a: asked.append(a))
    with memo.compilation():
        pass
    monkeypatch.undo()
    assert asked == [(0, 10, 10), (0, 10, 10)]
    assert gc.get_threshold() == before
