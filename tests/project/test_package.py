"""The project where there is no lumigen: presets, packages, subdirectories, other processors."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import models
import numpy as np
import pytest

from lumigen.build import build_project, load_module, write_project
from lumigen.emit.project import render_project

pytestmark = pytest.mark.slow
Tool = Callable[[str], str]

PROGRAM = """
#include <stdio.h>
#include "tiny.h"
{include}
int main(int argc, char **argv) {{
  tiny_model_options options = {{0}};
  tiny_model *model;
  options.struct_size = sizeof options;
  options.weights_path = argc > 1 ? argv[1] : NULL;
  if (tiny_model_open(&options, &model) != TINY_OK) {{
    puts(tiny_last_error());
    return 1;
  }}
  tiny_model_close(model);
  return {result};
}}
"""


@pytest.fixture(scope="module")
def emitted(tmp_path_factory, project) -> Path:
    """`tiny` with its weights, not built."""
    directory = tmp_path_factory.mktemp("package") / "répertoire 1"
    write_project(render_project(models.tiny()), directory)
    (directory / "weights").mkdir()
    shutil.copy(project / "weights" / "tiny.safetensors", directory / "weights")
    return directory


def run(*command: object, cwd: Path, env: dict[str, str] | None = None) -> str:
    environment = {**os.environ, **(env or {})}
    done = subprocess.run(
        [str(c) for c in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout + done.stderr


def ninja(tool: Tool) -> list[str]:
    return ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}"]


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_the_asan_preset_has_no_warning_and_passes(emitted, tool, sanitizing, compiler):
    shutil.rmtree(emitted / "build", ignore_errors=True)
    cxx = sanitizing(compiler, "address,undefined")
    run(tool("cmake"), "--preset", "asan", *ninja(tool), f"-DCMAKE_CXX_COMPILER={cxx}", cwd=emitted)
    run(tool("cmake"), "--build", "--preset", "asan", cwd=emitted)
    text = run(tool("ctest"), "--preset", "asan", cwd=emitted)
    assert "100% tests passed" in text


def test_the_presets_need_no_generator_and_no_python(emitted, tool):
    if shutil.which("make") is None:
        pytest.skip("there is no make")
    shutil.rmtree(emitted / "build", ignore_errors=True)
    run(tool("cmake"), "--preset", "debug", cwd=emitted)
    run(tool("cmake"), "--build", "--preset", "debug", "-j2", cwd=emitted)
    assert "100% tests passed" in run(tool("ctest"), "--preset", "debug", cwd=emitted)


@pytest.mark.parametrize("shared", ["OFF", "ON"])
def test_an_installed_package_is_found_and_works_from_c(emitted, tool, tmp_path, shared):
    options = [*ninja(tool), "-DTINY_TESTS=OFF", f"-DBUILD_SHARED_LIBS={shared}"]
    release = ["-DCMAKE_BUILD_TYPE=Release"]
    run(tool("cmake"), "-S", emitted, "-B", tmp_path / "build", *options, *release, cwd=tmp_path)
    run(tool("cmake"), "--build", tmp_path / "build", cwd=tmp_path)
    # Installed to one place, found in another: nothing in it may name the first.
    run(tool("cmake"), "--install", tmp_path / "build", "--prefix", tmp_path / "a", cwd=tmp_path)
    shutil.move(tmp_path / "a", tmp_path / "moved à b")
    for path in (tmp_path / "moved à b").rglob("*.cmake"):
        assert str(tmp_path) not in path.read_text()
    app = tmp_path / "app"
    app.mkdir()
    (app / "main.c").write_text(PROGRAM.format(include="", result="0"))
    (app / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.21)\nproject(app LANGUAGES C)\n"
        "find_package(tiny 1.2 CONFIG REQUIRED)\n"
        "add_executable(app main.c)\ntarget_link_libraries(app PRIVATE tiny::tiny)\n"
        'file(WRITE ${CMAKE_BINARY_DIR}/weights "${tiny_WEIGHTS}")\n'
    )
    found = f"-DCMAKE_PREFIX_PATH={tmp_path / 'moved à b'}"
    run(tool("cmake"), "-S", app, "-B", app / "build", *ninja(tool), found, cwd=app)
    run(tool("cmake"), "--build", app / "build", cwd=app)
    weights = (app / "build" / "weights").read_text()
    assert Path(weights).is_file()
    run(app / "build" / "app", weights, cwd=app)
    (app / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.21)\nproject(app LANGUAGES CXX)\n"
        "find_package(tiny 2.0 CONFIG QUIET)\nif(tiny_FOUND)\nmessage(FATAL_ERROR no)\nendif()\n"
    )
    run(tool("cmake"), "-S", app, "-B", app / "other", *ninja(tool), found, cwd=app)


def test_two_models_as_subdirectories_of_one_program(emitted, tool, tmp_path):
    shutil.copytree(emitted, tmp_path / "one", ignore=shutil.ignore_patterns("build"))
    write_project(render_project(models.tiny("other")), tmp_path / "two")
    include = '#include "other.h"'
    (tmp_path / "main.c").write_text(
        PROGRAM.format(include=include, result="other_abi() != OTHER_ABI")
    )
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.21)\nproject(app LANGUAGES C)\n"
        "add_subdirectory(one)\nadd_subdirectory(two)\n"
        "add_executable(app main.c)\n"
        "target_link_libraries(app PRIVATE tiny::tiny other::other)\n"
        'file(WRITE ${CMAKE_BINARY_DIR}/weights "${tiny_WEIGHTS}|${other_WEIGHTS}")\n'
    )
    run(tool("cmake"), "-S", ".", "-B", "build", *ninja(tool), cwd=tmp_path)
    targets = run(tool("cmake"), "--build", "build", cwd=tmp_path)
    assert "kernels_test" not in targets  # tests are the top project's affair
    weights, other = (tmp_path / "build" / "weights").read_text().split("|")
    assert other == ""
    run(tmp_path / "build" / "app", weights, cwd=tmp_path)


# Three ones: of what a sum has lost, of NaN, and of a quotient; none of them where arithmetic is relaxed.
EXACT = """
#include <cstdio>
int main() {
  volatile float from_outside[] = {1e8f, 1.0f, 0.0f, 5.0f};
  const float big = from_outside[0], small = from_outside[1], zero = from_outside[2], five = from_outside[3];
  const float sum = small + big, nan = zero / zero;
  volatile float third = five / 3.0f;
  std::printf("%d%d%d", small - (sum - big) == 1.0f, nan != nan, third == float(5.0 / 3.0));
}
"""


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_relaxed_arithmetic_of_a_program_does_not_reach_the_model(tool, tmp_path, compiler):
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    write_project(render_project(models.tiny()), tmp_path / "tiny")
    relaxed = "-ffast-math -funsafe-math-optimizations -fassociative-math -ffinite-math-only"
    more = "-freciprocal-math -fno-signed-zeros -fno-trapping-math"
    parent = tmp_path / "CMakeLists.txt"
    parent.write_text(
        "cmake_minimum_required(VERSION 3.21)\nproject(app LANGUAGES CXX)\n"
        f"add_compile_options({relaxed} {more})\nadd_subdirectory(tiny)\n"
    )
    options = [*ninja(tool), f"-DCMAKE_CXX_COMPILER={compiler}", "-DCMAKE_BUILD_TYPE=Release"]
    configure = [tool("cmake"), "-S", ".", "-B", "build", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]
    run(*configure, *options, cwd=tmp_path)
    (tmp_path / "exact.cpp").write_text(EXACT)
    commands = json.loads((tmp_path / "build" / "compile_commands.json").read_text())
    flags = {
        tuple(w for w in c["command"].split() if w.startswith(("-f", "-O", "-m"))) for c in commands
    }
    assert all(set(relaxed.split()) <= set(f) for f in flags)
    baseline = [f for f in flags if "-mavx2" not in f and "-mavx512f" not in f]
    for f in baseline:
        run(compiler, *f, "-fno-lto", "exact.cpp", "-c", "-o", "exact.o", cwd=tmp_path)
        run(compiler, "exact.o", "-o", "exact", cwd=tmp_path)
        assert run("./exact", cwd=tmp_path) == "111"
    parent.write_text(parent.read_text().replace(relaxed, "/fp:fast"))
    with pytest.raises(AssertionError, match=r"\[tiny\] The option /fp:fast"):
        run(*configure, *options, cwd=tmp_path)


def test_embedded_weights_need_no_file(project, tool, tmp_path, arrays):
    directory = tmp_path / "with a space"
    write_project(render_project(models.tiny(), embed_weights=True), directory)
    (directory / "weights").mkdir()
    shutil.copy(project / "weights" / "tiny.safetensors", directory / "weights")
    build_project(directory, isa="native")
    (directory / "weights" / "tiny.safetensors").rename(directory / "elsewhere")
    model = load_module(directory).Model()
    ids = [4, 4, 1]
    np.testing.assert_array_equal(model.context(1).lookup(np.array(ids)), arrays["table"][ids])
    run(tool("readelf"), "-S", directory / "lib" / "libtiny.so", cwd=tmp_path)
    stack = run(tool("readelf"), "-lW", directory / "lib" / "libtiny.so", cwd=tmp_path)
    line = next(line for line in stack.splitlines() if "GNU_STACK" in line)
    assert "RWE" not in line.replace(" ", "")


def test_other_processors_get_the_plain_kernels(emitted, tool, tmp_path):
    toolchain = tmp_path / "other.cmake"
    toolchain.write_text("set(CMAKE_SYSTEM_NAME Linux)\nset(CMAKE_SYSTEM_PROCESSOR riscv64)\n")
    options = [*ninja(tool), f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", "-DTINY_WERROR=ON"]
    run(tool("cmake"), "-S", emitted, "-B", tmp_path / "b", *options, cwd=tmp_path)
    run(tool("cmake"), "--build", tmp_path / "b", cwd=tmp_path)
    text = run(tool("ctest"), "--test-dir", tmp_path / "b", cwd=tmp_path)
    assert "100% tests passed" in text
    assert "baseline" in text
    assert "avx2" not in text


def test_a_build_may_have_fewer_instruction_sets(emitted, tool, tmp_path):
    configure = [tool("cmake"), "-S", emitted, "-B", tmp_path / "b", *ninja(tool)]
    for wrong in ("avx3", "baseline;avx3", ""):
        done = subprocess.run(
            [*configure, f"-DTINY_ISA={wrong}"], capture_output=True, text=True, check=False
        )
        assert done.returncode != 0
        said = " ".join(done.stderr.split())
        assert f"TINY_ISA {'has avx3' if wrong else 'is empty'}" in said
        assert "to some of: baseline, avx2, avx512" in said
    elsewhere = [tool("cmake"), "-S", emitted, "-B", tmp_path / "n", *ninja(tool)]
    text = run(*elsewhere, "-DTINY_ISA=native", cwd=tmp_path)
    assert re.search(r"TINY_ISA: native is (baseline|avx2|avx512)$", text, re.MULTILINE)
    run(*configure, "-DTINY_ISA=avx2", cwd=tmp_path)
    run(tool("cmake"), "--build", tmp_path / "b", cwd=tmp_path)
    text = run(tool("ctest"), "--test-dir", tmp_path / "b", cwd=tmp_path)
    assert "tiny.entries.avx2 .." in text
    assert "100% tests passed" in text
    run(*configure, "-DTINY_ISA=baseline;avx2;baseline", cwd=tmp_path)
    run(tool("cmake"), "--build", tmp_path / "b", cwd=tmp_path)
    assert not list((tmp_path / "b").rglob("*kernels_avx512*"))
    text = run(tool("ctest"), "--test-dir", tmp_path / "b", cwd=tmp_path)
    assert "100% tests passed" in text
    assert "tiny.kernels.avx2" in text
    assert "avx512" not in text
    test = tmp_path / "b" / "tiny_example_c"
    weights = emitted / "weights" / "tiny.safetensors"
    done = subprocess.run(
        [test, weights],
        env={**os.environ, "TINY_ISA": "avx512"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "for which this library holds no code" in done.stdout + done.stderr


def test_lumigen_and_presets_share_a_build_directory(emitted, tool):
    shutil.rmtree(emitted / "build", ignore_errors=True)
    if shutil.which("make") is not None:
        run(tool("cmake"), "--preset", "release", "-G", "Unix Makefiles", cwd=emitted)
    build_project(emitted, python=False)
    cache = (emitted / "build" / "release" / "CMakeCache.txt").read_text()
    assert "CMAKE_GENERATOR:INTERNAL=Ninja" in cache
    run(tool("cmake"), "--build", "--preset", "release", cwd=emitted)


def test_what_the_guide_says_to_ship_configures_elsewhere(project, tool, tmp_path):
    guide = (Path(__file__).parents[2] / "docs" / "shipping.md").read_text(encoding="utf-8")
    left_out = re.search(r"cd ship/\S+ && rm -rf ([\w ]+)\n", guide)
    assert left_out is not None
    shipped = tmp_path / "shipped"
    shutil.copytree(project, shipped)
    for name in left_out[1].split():
        shutil.rmtree(shipped / name, ignore_errors=True)
    isa = "-DTINY_ISA=baseline;avx2"
    run(tool("cmake"), "--preset", "release", *ninja(tool), isa, cwd=shipped)
    described = json.loads((shipped / "manifest.json").read_text())
    assert all((shipped / path).is_file() for path in described["files"])


def test_the_manifest_in_the_binary_says_nothing_of_files(tiny, project):
    outside = json.loads((project / "manifest.json").read_text())
    for about_files in ("files", "weights_hash"):
        outside.pop(about_files)
    assert tiny.Model().manifest == outside
