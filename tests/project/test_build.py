"""Building: what is done again and what is not, and how failures read."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import models
import pytest

from lumigen import build
from lumigen.build import build_project, load_module, write_project
from lumigen.emit.project import render_project
from lumigen.errors import CompilerMissing, NotBuilt, ProjectBuildFailed


@pytest.mark.slow
def test_a_build_of_what_is_built_starts_nothing(project):
    build_project(project)  # another test may have built it with its tests
    start = time.perf_counter()
    result = build_project(project)
    assert result.was_current
    assert time.perf_counter() - start < 1
    assert result.library == project / "lib" / "libtiny.so"
    assert result.module is not None
    assert result.module.parent == project / "python"


def test_loading_twice_gives_one_module(project, tiny):
    assert load_module(project) is tiny


def test_nothing_to_load_or_to_build(tmp_path):
    with pytest.raises(NotBuilt):
        load_module(tmp_path)
    with pytest.raises(NotBuilt):
        build_project(tmp_path)
    write_project(render_project(models.tiny()), tmp_path)
    with pytest.raises(NotBuilt):
        load_module(tmp_path)


def test_a_missing_compiler_is_named(tmp_path, monkeypatch):
    write_project(render_project(models.tiny()), tmp_path)
    monkeypatch.setenv("LUMIGEN_CXX", "no-such-compiler")
    with pytest.raises(CompilerMissing, match="no-such-compiler was not found"):
        build_project(tmp_path)


@pytest.mark.parametrize(
    "stops", ["exit 130", "kill -INT $$", "echo ninja: interrupted by user; exit 2"]
)
def test_a_tool_that_ctrl_c_stops_is_no_failure(tmp_path, stops):
    command = ["sh", "-c", f"echo begun; {stops}"]
    with pytest.raises(KeyboardInterrupt):
        build._run("compile", command, tmp_path, tmp_path / "log", lambda *_: None)


@pytest.mark.slow
def test_a_failure_shows_the_compilers_error(tmp_path):
    files = render_project(models.tiny())
    path = "kernels/k02_sum_20.cpp"
    files[path] = files[path].replace("float sum = 0.0f;", "float sum = nothing;")
    write_project(files, tmp_path)
    with pytest.raises(
        ProjectBuildFailed, match=r"k02_sum_20\.cpp.*nothing. was not declared"
    ) as caught:
        build_project(tmp_path, python=False)
    assert len(str(caught.value).splitlines()) <= 8
    assert caught.value.facts["step"] == "compile"
    assert Path(str(caught.value.facts["log"])).read_text().count("nothing") >= 1
    write_project(render_project(models.tiny()), tmp_path, force=True)
    steps: list[tuple[str, int, int, str]] = []
    result = build_project(tmp_path, python=False, progress=lambda *step: steps.append(step))
    assert not result.was_current
    assert {step for step, *_ in steps} == {"configure", "compile"}
    assert steps[-1][1] == steps[-1][2] > 0
    moved = tmp_path.parent / (tmp_path.name + " moved")
    shutil.move(tmp_path, moved)  # a build directory does not survive that, a project does
    assert not build_project(moved, python=False).was_current
    library = moved / "lib" / "libtiny.so"
    whole = library.read_bytes()
    library.unlink()
    assert not build_project(moved, python=False).was_current
    library.write_bytes(b"")
    assert not build_project(moved, python=False).was_current
    assert library.read_bytes() == whole
    stamp = moved / "build" / "release" / "lumigen-stamp.json"
    stamp.write_text(json.dumps({**json.loads(stamp.read_text()), "outputs": {"library": {}}}))
    assert not build_project(moved, python=False).was_current
    assert build_project(moved, python=False).was_current
    source = moved / "src" / "lookup.cpp"
    source.write_text(source.read_text() + "\n// edited\n")
    assert not build_project(moved, python=False).was_current
