"""Profiles and limits on a GPU: kernels timed by events, and beside what the GPU can do at most."""

from __future__ import annotations

import json
from pathlib import Path

import models
import numpy as np
import pytest

import lumigen as lg
from lumigen import cli
from lumigen.targets.cuda.limits import probe_gpu

pytestmark = pytest.mark.gpu

F32 = np.float32


def test_the_limits_are_those_of_a_gpu() -> None:
    found = probe_gpu({"f32", "f16", "bf16"})
    f32, f16, bf16 = (found.arithmetic[name].flops for name in ("f32", "f16", "bf16"))
    assert 1e12 < f32 < bf16 < 1e16
    assert 0.8 < f16 / bf16 < 1.25
    memory = found.memory[-1]
    assert 1e11 < memory.read < 1e14
    assert 0.3 < memory.written / memory.read < 1.5
    assert found.memory[0].read > memory.read, "the cache is faster"


def test_hopper_is_measured_with_its_own_instructions(target: str) -> None:
    if target != "cuda:sm_90a":
        pytest.skip("no Hopper")
    assert probe_gpu({"bf16"}).arithmetic["bf16"].how == "wgmma"


def test_a_profile_times_every_kernel(tiny, arrays) -> None:
    context = tiny.Model().context()
    x = np.ones((5, models.IN), F32)
    wanted = context.forward(x).y
    assert context.times == []
    context.profile()
    for _ in range(3):
        np.testing.assert_array_equal(context.forward(x).y, wanted)
        numbers, kernels, seconds = zip(*context.times, strict=True)
        assert numbers == (0, 1, 2)
        assert kernels == ("k00_affine_7", "k01_project_20x7", "k02_sum_20")
        assert all(1e-7 < s < 1e-2 for s in seconds)
    context.profile(False)
    for _ in range(3):  # graphs again
        np.testing.assert_array_equal(context.forward(x).y, wanted)
    assert context.times == []


def test_a_profiled_call_on_the_callers_stream_is_over_when_it_returns(tiny, arrays) -> None:
    torch = pytest.importorskip("torch")
    stream = torch.cuda.Stream()
    context = tiny.Model().context(stream=stream)
    context.profile()
    with torch.cuda.stream(stream):
        x = torch.ones(5, models.IN, device="cuda")
        context.forward(x)
    assert stream.query()
    assert len(context.times) == 3


def product(x: lg.Tensor, w: lg.Tensor) -> lg.Tensor:
    return x @ w


def softmax(x: lg.Tensor) -> lg.Tensor:
    return x.softmax(-1)


@pytest.mark.parametrize("name", ["product", "softmax"])
def test_kernels_come_near_their_limits(
    name: str, target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A share far above 1 would be a limit, a count or a time that is wrong."""
    model = lg.Model(name)
    if name == "product":
        shapes = {"x": lg.spec(4096, 4096, dtype=lg.bf16), "w": lg.spec(4096, 4096, dtype=lg.bf16)}
        model.entry(**shapes)(product)
    else:
        model.entry(x=lg.spec(16384, 8192))(softmax)
    lg.compile(model, target, tmp_path / name)
    capsys.readouterr()
    assert cli.run(["bench", str(tmp_path / name), "--seconds", "0.2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["limits_note"] == ""
    (entry,) = found["entries"]
    (kernel,) = entry["kernels"]
    assert kernel["limit"] == {"product": "bf16", "softmax": "memory"}[name]
    assert 0.25 < kernel["of_limit"] < 1.1
    assert kernel["seconds"] < entry["median_seconds"], "which copies the host's arrays, too"
