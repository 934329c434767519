"""A project for CUDA: built by nvcc without a GPU, refused in words where there is none."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from types import ModuleType

import gpu_models
import models
import pytest
import safetensors.numpy

from lumigen import cli
from lumigen.build import build_project, load_module, write_project
from lumigen.emit.project import render_project
from lumigen.emit.weights_file import write_weights
from lumigen.errors import CompilerMissing
from lumigen.target import parse_target
from lumigen.targets.cuda.tools import cuda_driver, nvcc

UNSUPPORTED, BAD_WEIGHTS = 7, 5

needs_nvcc = pytest.mark.skipif(nvcc() is None, reason="there is no nvcc")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, arrays) -> Path:
    """`tiny` for one architecture, with its tests."""
    directory = tmp_path_factory.mktemp("cuda") / "un modèle"
    model = gpu_models.on_gpu(models.tiny(), parse_target("cuda:sm_80"))
    write_project(render_project(model), directory)
    write_weights(model, arrays, directory / "weights" / "tiny.safetensors")
    safetensors.numpy.save_file(arrays, directory / "original.safetensors")
    build_project(directory, tests=True)
    return directory


@pytest.fixture(scope="module")
def module(project: Path) -> ModuleType:
    return load_module(project)


@needs_nvcc
@pytest.mark.slow
def test_warnings_of_both_compilers_are_errors_where_asked(project, tmp_path, tool):
    configure = [tool("cmake"), "-S", project, "-B", tmp_path, "-G", "Ninja", "-DTINY_WERROR=ON"]
    configure += [f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}", f"-DCMAKE_CUDA_COMPILER={nvcc()}"]
    subprocess.run([*configure, "-DTINY_TESTS=OFF"], check=True, capture_output=True)
    built = subprocess.run(
        [tool("cmake"), "--build", tmp_path], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout[-3000:]
    log = (project / "build" / "release" / "lumigen.log").read_text()
    assert "warning" not in log.lower()


@needs_nvcc
@pytest.mark.slow
def test_without_a_gpu_tests_are_skipped_and_say_why(project, tool, capsys):
    if cuda_driver().is_ok:
        pytest.skip("there is a GPU")
    build = project / "build" / "release"
    done = subprocess.run(
        [tool("ctest"), "--test-dir", build], capture_output=True, text=True, check=True
    )
    assert done.stdout.count("***Skipped") >= 2
    for test in ("kernels", "entries"):
        alone = subprocess.run(
            [build / f"tiny_{test}_test"], capture_output=True, text=True, check=False
        )
        assert alone.returncode == 77
        assert alone.stdout.startswith("skipped: [model_open] there is no ")
    assert cli.run(["test", str(project)]) == 0
    assert "tests were skipped, as they need a GPU that runs the project" in capsys.readouterr().err


@needs_nvcc
@pytest.mark.slow
def test_without_a_gpu_a_model_is_refused(project, module, monkeypatch, capsys):
    if cuda_driver().is_ok:
        pytest.skip("there is a GPU")
    with pytest.raises(module.Error, match=r"there is no (NVIDIA driver|GPU)") as caught:
        module.Model()
    assert caught.value.status == UNSUPPORTED
    with pytest.raises(module.Error, match="cannot be opened") as caught:
        module.Model(weights="nowhere.safetensors")
    assert caught.value.status == BAD_WEIGHTS
    monkeypatch.setattr("sys.argv", ["lumigen", "run", str(project), "--entry", "forward"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    assert "there is no " in capsys.readouterr().err


@needs_nvcc
@pytest.mark.slow
def test_a_library_needs_the_driver_only_and_shows_the_c_functions_only(project, module):
    library = project / "lib" / "libtiny.so"
    needed = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True)
    assert "libcuda" not in needed.stdout
    shown = subprocess.run(
        ["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True
    )
    names = [line.split()[-1] for line in shown.stdout.splitlines()]
    assert names
    assert all(name.startswith("tiny_") for name in names)
    manifest = json.loads((project / "manifest.json").read_text())
    assert manifest["architectures"] == ["sm_80"]
    assert module.__version__ == "1.2.3"


@needs_nvcc
@pytest.mark.slow
def test_every_architecture_and_ptx_of_the_lowest(tmp_path):
    """One kernel, compiled for all of the default list."""
    model = gpu_models.on_gpu(models.single())
    write_project(render_project(model), tmp_path)
    built = build_project(tmp_path, python=False)
    assert built.library.is_file()
    flags = (tmp_path / "build" / "release" / "build.ninja").read_text()
    codes = re.findall(r"code=\[([\w,]+)\]", flags)
    found = {code for text in codes for code in text.split(",")}
    assert found == {"sm_80", "compute_80", "sm_90a", "sm_100", "sm_120"}


def test_without_nvcc_a_build_is_refused_and_a_compilation_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDACXX", "no-such-nvcc")
    write_project(render_project(gpu_models.on_gpu(models.tiny())), tmp_path)
    with pytest.raises(CompilerMissing, match="nvcc was not found"):
        build_project(tmp_path)
