"""The CUDA runtime without a GPU: its real sources over a fake of CUDA, and refused by the real one."""

from __future__ import annotations

import ctypes
import subprocess
import sysconfig
from pathlib import Path
from types import ModuleType

import gpu_models
import models
import numpy as np
import pybind11
import pytest
import safetensors.numpy
from fake_arrays import GpuArray, taken

import lumigen as lg
from lumigen.build import load_module, write_project
from lumigen.emit.kernel_vectors import kernel_vectors
from lumigen.emit.project import render_project
from lumigen.emit.weights_file import write_weights
from lumigen.pipeline import lower_model
from lumigen.target import parse_target
from lumigen.targets.cuda.tools import nvcc

NATIVE = Path(__file__).parent / "native"
UNSUPPORTED = 7


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


def compile_program(
    sources: Path,
    main: str,
    *flags: str,
    name: str = "",
    model: str = "tiny",
    compiled: str = "sm_80, compute_80",
) -> Path:
    """A program of the project's own sources, the fake and `main`."""
    program = sources / (name or Path(main).stem)
    files = [
        *sorted((sources / "runtime").glob("*.cpp")),
        *sorted((sources / "src").glob("*.cpp")),
        *sorted((sources / "kernels").glob("*.cpp")),
        NATIVE / "fake_cuda.cpp",
        main,
    ]
    folders = [sources, sources / "include", sources / "kernels", sources / "runtime", NATIVE]
    command = ["c++", "-std=c++17", "-g", "-O1", "-Wall", "-Wextra", "-Werror", *flags]
    command += [f"-DLUMIGEN_NS={model}_impl", f'-DLUMIGEN_ARCHITECTURES="{compiled}"']
    command += [*(f"-I{f}" for f in folders), "-isystem", str(cuda_headers())]
    subprocess.run([*command, *map(str, files), "-o", str(program), "-pthread"], check=True)
    return program


@pytest.mark.slow  # compiles the whole runtime
@pytest.mark.parametrize(
    "flags",
    [
        pytest.param((), id="plain"),
        pytest.param(("-fsanitize=address,undefined", "-DSANITIZED"), id="sanitized"),
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


@pytest.mark.slow  # builds a project with its runtime
@pytest.mark.parametrize("compiled", ["sm_80, sm_90a, compute_80", "sm_80, compute_80"])
def test_a_kernel_for_hopper_is_launched_where_it_runs(compiled, tmp_path):
    model = lg.Model("wide")

    @model.entry(
        x=lg.spec(3, lg.Dim("rows", 1, 4096), 512, dtype=lg.bf16),
        w=lg.spec(512, 768, dtype=lg.bf16),
    )
    def product(x, w):
        return {"y": x @ w}

    target = parse_target("cuda:sm_80,sm_90a")
    lowered = lower_model(model.trace(), {}, target=target).model
    assert [k.name for k in lowered.kernels] == [
        "k00_product_pipeline",
        "k01_product_roles",
        "k02_product_roles",
        "k03_product_roles",
    ]
    write_project(render_project(lowered), tmp_path)
    main = str(NATIVE / "roles_test.cpp")
    program = compile_program(tmp_path, main, model="wide", compiled=compiled)
    run(program, *([] if "sm_90a" in compiled else ["refused"]))


@pytest.mark.slow
@pytest.mark.parametrize("test", ["entries_test", "kernels_test"])
def test_the_projects_own_tests_over_a_fake_of_cuda(sources, test):
    main = sources / "tests" / f"{test}.cpp"
    references = sorted((sources / "tests" / "references").glob("*.cpp"))
    extra = [str(r) for r in references] if test == "kernels_test" else []
    assert "0 failures" in run(compile_program(sources, str(main), *extra)) or extra


@pytest.mark.slow
def test_the_test_of_kernels_compiles_with_what_is_stored(tmp_path):
    model = lg.Model("wide")

    @model.entry(
        x=lg.spec(lg.Dim("rows", 1, 64), 32, dtype=lg.bf16),
        ids=lg.spec(5, dtype=lg.i32, range=(0, 31)),
        w=lg.spec(32, 16, dtype=lg.bf16),
    )
    def product(x, ids, w):
        return {"y": x @ w, "some": x[:, ids].softmax(-1), "mask": x > 0}

    compiled = lower_model(model.trace(), {}, target=parse_target("cuda:sm_80,sm_90a"))
    stored = kernel_vectors(compiled.model, compiled.lowered.kernels)
    assert all(len(v) == 2 for v in stored.values())
    write_project(render_project(compiled.model, kernel_vectors=stored), tmp_path)
    folders = [tmp_path, tmp_path / "include", tmp_path / "runtime"]
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-DLUMIGEN_NS=wide_impl"]
    flags += [*(f"-I{f}" for f in folders), "-isystem", str(cuda_headers())]
    subprocess.run(["c++", *flags, tmp_path / "tests" / "kernels_test.cpp"], check=True)


@pytest.fixture(scope="module")
def module(sources: Path) -> ModuleType:
    """The Python module over the fake."""
    name = f"python/tiny{sysconfig.get_config_var('EXT_SUFFIX')}"
    includes = [f"-I{folder}" for folder in (sysconfig.get_path("include"), pybind11.get_include())]
    main = str(sources / "bindings" / "python.cpp")
    (sources / "python").mkdir()
    path = compile_program(
        sources, main, "-shared", "-fPIC", "-O0", "-Wno-attributes", *includes, name=name
    )
    loaded = load_module(sources)
    loaded.cuda = ctypes.CDLL(str(path))
    return loaded


@pytest.fixture(scope="module")
def model(module, sources):
    return module.Model(weights=sources / "original.safetensors")


def forward(x: np.ndarray, arrays) -> np.ndarray:
    return (x * arrays["scale"] + arrays["shift"]) @ arrays["proj.weight"].T


@pytest.mark.slow
def test_python_arrays_of_the_host_give_numpy(model, arrays):
    x = np.ones((3, 7), np.float32)
    for _ in range(3):
        y = model.context().forward(x).y
        assert isinstance(y, np.ndarray)
        np.testing.assert_allclose(y, forward(x, arrays), rtol=2e-5, atol=2e-5)


@pytest.mark.slow
def test_python_arrays_of_the_gpu_give_such(module, model, arrays):
    x = np.arange(21, dtype=np.float32).reshape(3, 7) / 10
    wanted = forward(x, arrays)
    given = GpuArray(module.cuda, x)
    context = model.context()
    found = context.forward(given)
    assert given.streams[0] not in {None, 0, 1}  # our own, for which its writer waits
    assert found.y.__dlpack_device__() == (2, 0)
    assert (found.y.shape, found.y.dtype, found.total.shape) == ((3, 20), "float32", (3,))
    capsule = found.y.__dlpack__(stream=1, max_version=(1, 0))
    del found
    np.testing.assert_allclose(taken(module.cuda, capsule), wanted, rtol=2e-5, atol=2e-5)
    out = (GpuArray(module.cuda, np.zeros((3, 20), np.float32)), np.zeros(3, np.float32))
    assert context.forward(given, out=out) is out
    np.testing.assert_allclose(out[0].fetch(), wanted, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(out[1], wanted.sum(-1), rtol=2e-5, atol=2e-5)
    transposed = GpuArray(module.cuda, x.T, transposed=True)
    found = context.forward(transposed)
    y = taken(module.cuda, found.y.__dlpack__())
    np.testing.assert_allclose(y, wanted, rtol=2e-5, atol=2e-5)
    with pytest.raises(module.Error, match="is not contiguous, must be to be written to"):
        context.forward(given, out=(transposed, out[1]))


@pytest.mark.slow
def test_python_streams(module, model, arrays):
    x = np.ones((2, 7), np.float32)

    class Stream:
        cuda_stream = 0

    for stream, number in ((1234, 1234), (Stream(), 1)):
        context = model.context(stream=stream)
        given = GpuArray(module.cuda, x)
        y = context.forward(given).y
        assert given.streams == [number]
        found = taken(module.cuda, y.__dlpack__(stream=77))
        np.testing.assert_allclose(found, forward(x, arrays), rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(context.forward(x).y, forward(x, arrays), rtol=2e-5, atol=2e-5)


@pytest.mark.slow
def test_python_during_a_capture(module, model, arrays):
    x = np.ones((2, 7), np.float32)
    given = GpuArray(module.cuda, x)
    out = tuple(GpuArray(module.cuda, np.zeros(s, np.float32)) for s in ((2, 20), (2,)))
    context = model.context(stream=1234)
    context.forward(given, out=out)
    module.cuda.fake_capture(1)
    try:
        assert context.forward(given, out=out) is out
        for x_given, out_given in (
            (given, None),
            (x, out),
            (given, (out[0], np.zeros(2, np.float32))),
        ):
            with pytest.raises(
                module.Error, match=r"\[forward\] the stream is captured, and not all"
            ) as e:
                context.forward(x_given, out=out_given)
            assert e.value.status == UNSUPPORTED
    finally:
        module.cuda.fake_capture(0)
    np.testing.assert_allclose(out[0].fetch(), forward(x, arrays), rtol=2e-5, atol=2e-5)


@pytest.mark.slow
def test_python_refuses_other_gpus(module, model, sources):
    class Elsewhere:
        def __dlpack_device__(self):
            return (2, 1)

        def __dlpack__(self, **_):
            raise AssertionError

    with pytest.raises(module.Error, match=r"x is on GPU 1, must be on GPU 0 or on the CPU \(1\)"):
        model.context().forward(Elsewhere())
    with pytest.raises(
        module.Error, match=r"device_id is 5, must be in 0\.\.1: this machine has 2"
    ):
        module.Model(weights=sources / "original.safetensors", device=5)


def run(*command: object) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return done.stdout
