"""The C and C++ interfaces of a built project, and its own tests."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from models import tiny as tiny_model

from lumigen.build import build_project, write_project
from lumigen.emit.project import render_project
from lumigen.resources import runtime_dir

NATIVE = Path(__file__).parent / "native"
RUNTIME = runtime_dir()


@pytest.mark.slow
def test_c_interface(project, compile_against):
    program = compile_against("abi_test.cpp", "abi_test", "-O0")
    for weights in ("weights/tiny.safetensors", "original.safetensors"):
        run = subprocess.run(
            [program, project / weights], capture_output=True, text=True, timeout=120, check=False
        )
        assert run.returncode == 0, f"{weights}: {run.stdout}"


def test_tensors_without_elements_need_no_memory(tool, tmp_path):
    """As torch's, whose `data_ptr()` is 0."""
    program = tmp_path / "empty_tensors"
    sources = [NATIVE / "empty_tensors_test.cpp"]
    sources += [RUNTIME / name for name in ("contract.cpp", "status.cpp")]
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-DLUMIGEN_NS=native", f"-I{RUNTIME}"]
    flags += ["-fsanitize=undefined", "-fno-sanitize-recover=all"]
    subprocess.run([tool("g++"), *flags, *sources, "-o", program], check=True)
    run = subprocess.run([program], capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_header_is_c99(project, tool, tmp_path, compiler):
    source = tmp_path / "main.c"
    source.write_text('#include "tiny.h"\nint main(void) { return tiny_abi() != TINY_ABI; }\n')
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{project / 'include'}"]
    subprocess.run([tool(compiler), *flags, "-c", source, "-o", tmp_path / "main.o"], check=True)


def test_only_the_headers_functions_are_visible(project, tool):
    run = subprocess.run(
        [tool("nm"), "-D", "--defined-only", project / "lib" / "libtiny.so"],
        capture_output=True,
        text=True,
        check=True,
    )
    names = {line.split()[-1] for line in run.stdout.splitlines()}
    assert names == {
        f"tiny_{n}"
        for n in [
            "abi",
            "manifest",
            "last_error",
            "model_open",
            "model_close",
            "context_open",
            "context_close",
        ]
        + ["context_cancel", "context_profile", "weights_verify"]
        + [f"{e}{s}" for e in ("forward", "lookup") for s in ("", "_shape", "_workspace")]
    }


def test_no_library_function_is_compiled_for_one_instruction_set(project, tool):
    """What the linker may share between files must not come from files with AVX flags."""
    build = project / "build" / "release" / "CMakeFiles"
    objects = sorted(build.glob("tiny_kernels_*.dir/kernels/*.o"))
    assert len(objects) == 3 * 5
    run = subprocess.run([tool("nm"), "-C", *objects], capture_output=True, text=True, check=True)
    shared = [
        line for line in run.stdout.splitlines() if " W " in line or " V " in line or " u " in line
    ]
    assert not shared


@pytest.mark.slow
def test_cpp_interface_with_two_models_in_one_program(project, compile_against, tmp_path_factory):
    other = tmp_path_factory.mktemp("other") / "other"
    write_project(render_project(tiny_model("other")), other)
    build_project(other, python=False)
    flags = [f"-I{other / 'include'}", f"-L{other / 'lib'}", f"-Wl,-rpath,{other / 'lib'}"]
    program = compile_against("cpp_test.cpp", "cpp_test", *flags, "-lother", "-lother")
    subprocess.run([program, project / "original.safetensors"], check=True, timeout=60)
    for mistake in ("WRONG_RANK", "WRONG_TYPE", "CONST_OUTPUT"):
        with pytest.raises(subprocess.CalledProcessError):
            compile_against("cpp_test.cpp", "never", *flags, f"-D{mistake}", "-fsyntax-only", "-w")


def ctest(project: Path, tool, preset: str = "release") -> str:
    run = subprocess.run(
        [tool("ctest"), "--preset", preset],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "No tests were found" not in run.stdout + run.stderr
    return f"exit {run.returncode}\n{run.stdout}{run.stderr}"


@pytest.mark.slow
def test_the_projects_own_tests_pass(tested, tool):
    text = ctest(tested, tool)
    assert "100% tests passed" in text, text
    assert "tiny_example_c" in text


@pytest.mark.slow
def test_a_broken_kernel_is_named_with_its_line(tested, broken, tool):
    broken(tested, "kernels/k01_project_20x7.cpp", "k < 7", "k < 6")
    text = ctest(tested, tool)
    assert "FAILED k01_project_20x7 (model.py:13)" in text
    assert "y at batch=8: element" in text


@pytest.mark.slow
def test_large_dims_are_reduced_and_said_so(tested):
    program = tested / "build" / "release" / "tiny_kernels_test"
    environment = {**os.environ, "LUMIGEN_TEST_MEGABYTES": "1"}
    run = subprocess.run(
        [program, "baseline"], env=environment, capture_output=True, text=True, check=True
    )
    assert "4 cases of kernels agree" in run.stdout


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_c_interface_under_a_sanitizer(tool, sanitizing, tmp_path, project, sanitizer):
    flags = f"-fsanitize={sanitizer} -fno-sanitize-recover=all -g -O1"
    command = [tool("cmake"), "-S", project, "-B", tmp_path, "-G", "Ninja", "-DTINY_TESTS=OFF"]
    ninja = f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}"
    build = ["-DCMAKE_BUILD_TYPE=None", f"-DCMAKE_CXX_FLAGS={flags}", "-DTINY_WERROR=ON"]
    compiler = f"-DCMAKE_CXX_COMPILER={sanitizing('clang++', sanitizer)}"
    subprocess.run([*command, ninja, *build, compiler], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([tool("cmake"), "--build", tmp_path], check=True, stdout=subprocess.DEVNULL)
    program = tmp_path / "abi_test"
    sources = [NATIVE / "abi_test.cpp", tmp_path / "libtiny.a"]
    options = ["-std=c++17", "-DSANITIZED", f"-I{project / 'include'}", *flags.split()]
    subprocess.run([tool("clang++"), *options, *sources, "-o", program, "-pthread"], check=True)
    run = subprocess.run(
        [program, project / "original.safetensors"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
