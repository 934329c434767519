"""The emitted tree and the plan behind it: the same twice, kernels once, no byte of arena wasted."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from conftest import lumigen
from minilm_reference import MODEL, write_small

from lumigen.frontend import load_model_file
from lumigen.index import Dim
from lumigen.pipeline import Compilation, lower_model
from lumigen.program import CompiledModel, Program, SlotArg
from lumigen.weights import open_weights

DERIVED = {"build", "lib", "bin", "python"}


def tree(directory: Path) -> dict[str, bytes]:
    """What was emitted: all but what a build leaves."""
    files = (p.relative_to(directory) for p in directory.rglob("*") if p.is_file())
    return {p.as_posix(): (directory / p).read_bytes() for p in files if p.parts[0] not in DERIVED}


def of_layers(folder: Path, layers: int) -> CompiledModel:
    weights = open_weights(write_small(folder, num_hidden_layers=layers))
    return lower_model(load_model_file(MODEL, weights=weights).trace(), {}).model


@pytest.mark.slow
def test_layers_share_their_kernels(tmp_path: Path) -> None:
    two, six = (of_layers(tmp_path / str(n), n) for n in (2, 6))
    assert {k.name: k.body for k in two.kernels} == {k.name: k.body for k in six.kernels}
    launches = [len(m.programs[0].launches) for m in (two, six)]
    assert launches[1] - launches[0] >= 4 * len(two.kernels) / 2


@pytest.mark.slow
def test_the_real_model_has_eight_kernels_and_39_launches(compilation: Compilation) -> None:
    model = compilation.model
    assert len(model.kernels) == len({k.body for k in model.kernels}) == 8
    assert len(model.programs[0].launches) == 39


@pytest.mark.slow
@pytest.mark.parametrize("at", ["least", "typical", "greatest"])
def test_the_arena_holds_little_more_than_what_is_alive(compilation: Compilation, at: str) -> None:
    model = compilation.model
    (program,) = model.programs
    pick = {"least": lambda d: d.lo, "typical": lambda d: d.estimate, "greatest": lambda d: d.hi}
    dims = {d: pick[at](d) for d in program.dims}
    needed = most_alive(model, program, dims)
    arena = program.offsets(dims)[1]
    assert needed <= arena <= max(1.02 * needed, needed + 4096)


def most_alive(model: CompiledModel, program: Program, dims: Mapping[Dim, int]) -> int:
    """The most bytes of temporaries that are alive in a launch, found from the launches alone.

    A slot is alive from a launch that writes it without reading it to the last that reads it.
    """
    size = {s.name: int(s.bytes.evaluate(dims)) for s in program.arena}
    alive: list[set[str]] = []
    since: dict[str, int] = {}
    for at, launch in enumerate(program.launches):
        alive.append(set())
        parameters = model.kernel(launch.kernel).parameters
        slots = [
            (a.slot, p.written)
            for a, p in zip(launch.arguments, parameters, strict=True)
            if isinstance(a, SlotArg)
        ]
        read = {slot for slot, written in slots if not written}
        for slot in read:
            for step in range(since[slot], at + 1):
                alive[step].add(slot)
        for slot in {slot for slot, written in slots if written} - read:
            since[slot] = at
            alive[at].add(slot)
    return max(sum(size[slot] for slot in slots) for slots in alive)


@pytest.mark.slow
def test_compiling_twice_gives_the_same_bytes(project: Path, real: Path, tmp_path: Path) -> None:
    """In other directories, with other seeds of Python's hashes, the model under another path."""
    want = tree(project)
    (tmp_path / "model.py").write_bytes(MODEL.read_bytes())
    for seed, model in (("1", MODEL), ("2", tmp_path / "model.py")):
        directory = tmp_path / f"été {seed}"
        command = ["compile", model, "--weights", real, "-o", directory, "--no-build"]
        done = lumigen(*command, PYTHONHASHSEED=seed)
        assert done.returncode == 0, done.stderr
        assert tree(directory) == want
        shutil.rmtree(directory)


@pytest.mark.slow
def test_compiling_what_is_compiled_builds_nothing(project: Path, real: Path) -> None:
    def times() -> dict[Path, int]:
        files = (p for p in project.rglob("*") if p.is_file() and p.name != ".lock")
        return {p: p.stat().st_mtime_ns for p in files if p.parent.name != "weights"}

    before = times()
    done = lumigen("compile", MODEL, "--weights", real, "-o", project, "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    sys.stdout.write(f"seconds: {summary['seconds']}\n")  # pytest -rP shows it
    assert summary["files"]["written"] == summary["files"]["removed"] == 0
    assert times() == before
