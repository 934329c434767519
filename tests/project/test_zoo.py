"""Unlucky models: every dtype, tensors without axes, names of C++ and of ours, no weights."""

from __future__ import annotations

import subprocess

import ml_dtypes
import models
import numpy as np
import pytest

from lumigen.build import build_project, load_module, write_project
from lumigen.emit.project import render_project
from lumigen.emit.weights_file import write_weights

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("zoo")
    write_project(render_project(models.zoo()), directory)
    build_project(directory, tests=True)
    return directory


@pytest.fixture(scope="module")
def zoo(directory):
    return load_module(directory)


def inputs(n: int, m: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "default": np.array(1, np.bool_),
        "pos": np.array(3, np.int32),
        "half": rng.normal(size=4).astype(np.float16),
        "brain": rng.normal(size=(2, 2)).astype(ml_dtypes.bfloat16),
        "context": rng.integers(-128, 128, 3 * n - 1, dtype=np.int8),
        "bytes": rng.integers(0, 256, (3 * n - 1, m), dtype=np.uint8),
        "wide": rng.normal(size=3),
        "s": np.array([[-(2**63)]]),
    }


def test_everything_comes_back(zoo):
    for n, m in [(2, 3), (10, 5), (1000, 4)]:
        given = inputs(n, m)
        out = zoo.Model().context(2).echo(**given)
        for name, array in given.items():
            got = getattr(out, f"{name}2")
            assert got.dtype == array.dtype
            np.testing.assert_array_equal(got, array)


def test_numbers_are_tensors_without_axes(zoo):
    given = {**inputs(2, 3), "default": True, "pos": 5}
    out = zoo.Model().context(1).echo(**given)
    assert out.default2.shape == ()
    assert out.default2 == np.True_
    assert out.pos2 == 5
    with pytest.raises(zoo.Error, match=r"pos holds 6 at flat index 0, must be in 1..5"):
        zoo.Model().context(1).echo(**{**given, "pos": 6})
    assert zoo.Model().context(1).echo(**{**inputs(2, 4), "default": True, "pos": 6}).pos2 == 6
    with pytest.raises(zoo.Error, match=r"pos is 4294967296, which no int32 holds"):
        zoo.Model().context(1).echo(**{**given, "pos": 1 << 32})
    with pytest.raises(zoo.Error, match="pos is of type float, must be an array of int32"):
        zoo.Model().context(1).echo(**{**given, "pos": 1.0})
    with pytest.raises(zoo.Error, match=r"default is int64, .* Pass default\.astype\(np\.bool_\)"):
        zoo.Model().context(1).echo(**{**given, "default": np.int64(1)})
    with pytest.raises(zoo.Error, match="pos is int64, must be int32"):
        zoo.Model().context(1).echo(**{**given, "pos": np.int64(1)})


def test_dims_inside_expressions(zoo):
    given = inputs(2, 3)
    context = zoo.Model().context(1)
    with pytest.raises(
        zoo.Error, match=r"context has shape \(6,\).*axis 0 is 6, which is no 3\*n - 1"
    ):
        context.echo(**{**given, "context": np.zeros(6, np.int8)})
    with pytest.raises(zoo.Error, match=r"bytes has shape.*axis 0 is 6, must be 3\*n - 1 = 5"):
        context.echo(**{**given, "bytes": np.zeros((6, 3), np.uint8)})
    with pytest.raises(zoo.Error, match=r"m is 6 \(axis 1\), must be 3..5"):
        context.echo(**{**given, "bytes": np.zeros((5, 6), np.uint8)})


def test_an_entry_without_dims_or_kernels(zoo):
    context = zoo.Model().context(1)
    context.nothing(np.zeros(2, np.float32))
    assert zoo.Model().entries["nothing"].dims == {}
    assert zoo.__version__ == "0.1.0-rc1+x86"


def test_its_own_tests(directory, tool):
    run = subprocess.run(
        [tool("ctest"), "--preset", "release"],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "100% tests passed" in run.stdout, run.stdout
    assert "zoo_example_cpp" in run.stdout


def test_a_model_with_one_entry_is_callable(tmp_path, arrays):
    write_project(render_project(models.single()), tmp_path)
    write_weights(models.single(), arrays, tmp_path / "weights" / "single.safetensors")
    build_project(tmp_path, isa="native")
    ids = np.array([1, 2, 3])
    np.testing.assert_array_equal(
        load_module(tmp_path).Model().context()(ids), arrays["table"][ids]
    )
