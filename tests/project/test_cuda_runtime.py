"""The CUDA runtime without a GPU: its real sources over a fake of CUDA, and refused by the real one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import gpu_models
import models
import numpy as np
import pytest
import safetensors.numpy

from lumigen.build import write_project
from lumigen.emit.project import render_project
from lumigen.emit.weights_file import write_weights
from lumigen.toolchain import nvcc

NATIVE = Path(__file__).parent / "native"


def cuda_headers() -> Path:
    """Of the toolkit, which may hold its nvcc behind a script somewhere else."""
    beside = [Path(path).resolve().parents[1] / "include" for path in filter(None, [nvcc()])]
    for folder in (*beside, Path("/usr/local/cuda/include")):
        if (folder / "cuda_runtime_api.h").is_file():
            return folder
    pytest.skip("no headers of the CUDA toolkit")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory, arrays) -> Path:
    """`tiny` for CUDA, its kernels replaced by functions of the host."""
    directory = tmp_path_factory.mktemp("fake") / "tiny"
    model = gpu_models.on_gpu(models.tiny())
    write_project(render_project(model), directory)
    (directory / "kernels" / "fake.cpp").write_text(gpu_models.fake_kernels(models.tiny()))
    write_weights(model, arrays, directory / "packed.safetensors")
    safetensors.numpy.save_file(arrays, directory / "original.safetensors")
    return directory


def compile_program(sources: Path, main: str, *flags: str) -> Path:
    """A program of the project's own sources, the fake and `main`."""
    program = sources / Path(main).stem
    files = [
        *sorted((sources / "runtime").glob("*.cpp")),
        *sorted((sources / "src").glob("*.cpp")),
        sources / "kernels" / "fake.cpp",
        NATIVE / "fake_cuda.cpp",
        main,
    ]
    folders = [sources, sources / "include", sources / "kernels", sources / "runtime", NATIVE]
    command = ["c++", "-std=c++17", "-g", "-O1", "-Wall", "-Wextra", "-Werror", *flags]
    command += ["-DLUMIGEN_NS=tiny_impl", '-DLUMIGEN_ARCHITECTURES="sm_80, compute_80"']
    command += [*(f"-I{f}" for f in folders), "-isystem", str(cuda_headers())]
    subprocess.run([*command, *map(str, files), "-o", str(program), "-pthread"], check=True)
    return program


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param((), id="plain"),
        pytest.param(
            ("-fsanitize=address,undefined", "-DSANITIZED"), id="sanitized", marks=pytest.mark.slow
        ),
    ],
)
def test_runtime_over_a_fake_of_cuda(sources, arrays, tmp_path, flags):
    program = compile_program(sources, str(NATIVE / "cuda_test.cpp"), *flags)
    x = (np.arange(35, dtype=np.float32) % 13 - 6).reshape(5, 7)
    y = (x * arrays["scale"] + arrays["shift"]) @ arrays["proj.weight"].T
    for weights in ("packed", "original"):
        out = tmp_path / f"{weights}.bin"
        run(program, sources / f"{weights}.safetensors", out)
        found = np.fromfile(out, np.float32)
        np.testing.assert_allclose(found[:100].reshape(5, 20), y, rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(found[100:], y.sum(-1), rtol=2e-5, atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("test", ["entries_test", "kernels_test"])
def test_the_projects_own_tests_over_a_fake_of_cuda(sources, test):
    main = sources / "tests" / f"{test}.cpp"
    references = sorted((sources / "tests" / "references").glob("*.cpp"))
    extra = [str(r) for r in references] if test == "kernels_test" else []
    assert "0 failures" in run(compile_program(sources, str(main), *extra)) or extra


def run(*command: object) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return done.stdout
