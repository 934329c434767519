"""The CUDA runtime on a GPU, with kernels written by hand: pointers, graphs, streams, threads, refusals."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import models
import numpy as np
import pytest

from lumigen.toolchain import ctest

pytestmark = pytest.mark.gpu

BAD_ARGUMENT, BAD_DEVICE = 1, 4
F32 = np.float32


def expected(x: np.ndarray, arrays: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    y = (x.astype(np.float64) * arrays["scale"] + arrays["shift"]) @ arrays["proj.weight"].T
    return y, y.sum(-1)


def agree(found: object, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=2e-5, atol=2e-5)


def numbers(batch: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(batch, models.IN)).astype(F32)


@pytest.fixture(scope="module")
def model(tiny):
    return tiny.Model()


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


def test_arrays_of_the_host(model, arrays) -> None:
    context = model.context()
    for batch in (1, 5, 64, 5, 5, 5):  # one by one, as a graph, as the same graph
        x = numbers(batch, batch)
        y, total = context.forward(x)
        assert isinstance(y, np.ndarray)
        agree(y, expected(x, arrays)[0])
        agree(total, expected(x, arrays)[1])


def test_tensors_of_the_gpu_pass_without_a_copy(model, arrays, torch) -> None:
    context = model.context()
    x = torch.from_numpy(numbers(5)).cuda()
    wanted = expected(x.cpu().numpy(), arrays)
    found = context.forward(x)
    assert not isinstance(found.y, np.ndarray)
    assert found.y.shape == (5, models.OUT)
    assert found.y.dtype == "float32"
    assert found.y.__dlpack_device__() == (2, 0)
    y = torch.from_dlpack(found.y)
    assert y.device.type == "cuda"
    agree(y.cpu(), wanted[0])
    out = (torch.zeros(5, models.OUT, device="cuda"), torch.zeros(5, device="cuda"))
    assert context.forward(x, out=out) is out
    agree(out[0].cpu(), wanted[0])
    agree(out[1].cpu(), wanted[1])
    mixed = context.forward(x, out=(np.zeros((5, models.OUT), F32), out[1]))
    agree(mixed[0], wanted[0])
    del found
    agree(y.cpu(), wanted[0])  # whoever took it keeps the memory


def test_a_graph_takes_other_pointers(model, arrays, torch) -> None:
    context = model.context()
    wanted = [expected(numbers(8, seed), arrays)[0] for seed in range(3)]
    x = [torch.from_numpy(numbers(8, seed)).cuda() for seed in range(3)]
    out = [(torch.empty(8, models.OUT, device="cuda"), torch.empty(8, device="cuda")) for _ in x]
    for _ in range(4):
        for i in range(3):
            out[i][0].zero_()
            context.forward(x[i], out=out[i])
            agree(out[i][0].cpu(), wanted[i])
    host = context.forward(numbers(8, 1))
    agree(host.y, wanted[1])


def test_more_dims_than_graphs_are_kept(model, arrays) -> None:
    context = model.context()
    for _ in range(3):
        for batch in range(1, 25):
            x = numbers(batch, batch)
            agree(context.forward(x).y, expected(x, arrays)[0])


def test_a_tensor_that_is_still_being_written(model, arrays, torch) -> None:
    """The library that makes it is told our stream, and ours waits."""
    context = model.context()
    big = torch.randn(4096, 4096, device="cuda")
    for seed in range(5):
        source = torch.from_numpy(numbers(6, seed)).cuda()
        torch.cuda.synchronize()
        x = torch.zeros(6, models.IN, device="cuda")
        for _ in range(20):
            big = torch.tanh(big @ big * 1e-3)
        x += source + big[:6, : models.IN] * 0
        agree(
            torch.from_dlpack(context.forward(x).y).cpu(), expected(source.cpu().numpy(), arrays)[0]
        )


def test_the_callers_stream(model, arrays, torch) -> None:
    ours, default = torch.cuda.Stream(), torch.cuda.current_stream()
    for given, taken in ((ours, ours), (ours.cuda_stream, ours), (default, default)):
        context = model.context(stream=given)
        for seed in range(4):
            with torch.cuda.stream(taken):
                x = torch.from_numpy(numbers(6, seed)).cuda()
                y = torch.from_dlpack(context.forward(x).y)  # torch waits for it
                agree(y.cpu(), expected(numbers(6, seed), arrays)[0])
        agree(context.forward(numbers(6)).y, expected(numbers(6), arrays)[0])


def test_tensors_that_are_not_contiguous_are_copied(model, arrays, torch) -> None:
    x = numbers(5)
    strided = torch.from_numpy(np.ascontiguousarray(x.T)).cuda().T
    assert not strided.is_contiguous()
    agree(torch.from_dlpack(model.context().forward(strided).y).cpu(), expected(x, arrays)[0])


def test_cupy_arrays(model, arrays) -> None:
    cupy = pytest.importorskip("cupy")
    x = cupy.asarray(numbers(5))
    agree(
        cupy.asnumpy(cupy.from_dlpack(model.context().forward(x).y)),
        expected(numbers(5), arrays)[0],
    )


def test_two_contexts_in_two_threads(model, arrays) -> None:
    right: list[bool] = []

    def work(seed: int) -> None:
        context = model.context()
        x = numbers(16 + seed, seed)
        wanted = expected(x, arrays)[0]
        found = [context.forward(x).y for _ in range(200)]
        right.extend(np.allclose(y, wanted, rtol=2e-5, atol=2e-5) for y in found)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(right) == 400
    assert all(right)


class Elsewhere:
    """An array that says it is on another GPU."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 31)

    def __dlpack__(self, **_: object) -> None:
        raise AssertionError("it was taken all the same")


def test_other_gpus_are_refused(tiny, model) -> None:
    with pytest.raises(tiny.Error, match=r"device_id is 99, must be in 0\.\.") as caught:
        tiny.Model(device=99)
    assert caught.value.status == BAD_DEVICE
    with pytest.raises(
        tiny.Error, match=r"x is on GPU 31, must be on GPU 0 or on the CPU"
    ) as caught:
        model.context().forward(Elsewhere())
    assert caught.value.status == BAD_DEVICE


def test_values_of_the_host_are_checked(tiny, model, arrays, torch) -> None:
    ids = np.array([1, 10, 3])
    with pytest.raises(tiny.Error, match="ids holds 10 at flat index 1") as caught:
        model.context().lookup(ids)
    assert caught.value.status == BAD_ARGUMENT
    rows = model.context().lookup(torch.tensor([1, 9, 3], device="cuda"))
    np.testing.assert_array_equal(torch.from_dlpack(rows).cpu(), arrays["table"][[1, 9, 3]])


def test_a_child_of_fork_is_refused(project: Path) -> None:
    """In a process of its own: forking one with torch's threads in it warns."""
    code = f"""
import os, sys
sys.path.insert(0, {str(project / "python")!r})
import numpy as np, tiny
context = tiny.Model().context()
context.forward(np.zeros((2, 7), np.float32))
if (child := os.fork()) == 0:
    try:
        context.forward(np.zeros((2, 7), np.float32))
    except tiny.Error as e:
        os._exit(0 if "before fork()" in str(e) else 2)
    os._exit(1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


def test_the_projects_own_tests_pass(project: Path) -> None:
    build = project / "build" / "release"
    command = [ctest(), "--test-dir", build, "--output-on-failure"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "Skipped" not in done.stdout


@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_the_projects_own_tests_under_compute_sanitizer(
    project: Path, tool: str, sanitized
) -> None:
    sanitized(project / "build" / "release" / "tiny_entries_test", tool)


def test_two_gpus_work_side_by_side(tiny, arrays) -> None:
    """A model on each, contexts in several threads; what lies on the other GPU is refused."""
    torch = pytest.importorskip("torch")
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    rng = np.random.default_rng(5)
    x = rng.normal(size=(5, models.IN)).astype(np.float32)
    opened = [tiny.Model(device=gpu) for gpu in (0, 1)]
    wanted = opened[0].context().forward(x).y
    found: list[np.ndarray] = []

    def work(gpu: int) -> None:
        context = opened[gpu].context()
        for _ in range(20):
            found.append(context.forward(x).y)
            found.append(context.forward(torch.from_numpy(x).to(f"cuda:{gpu}")).y)

    threads = [threading.Thread(target=work, args=(gpu,)) for gpu in (0, 1, 0, 1)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 160
    for y in found:
        np.testing.assert_array_equal(
            y if isinstance(y, np.ndarray) else torch.from_dlpack(y).cpu(), wanted
        )
    with pytest.raises(tiny.Error, match="on GPU 0, must be on GPU 1"):
        opened[1].context().forward(torch.from_numpy(x).to("cuda:0"))
