"""What the tests on a GPU share: its architecture, and `tiny` built for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import safetensors.numpy

sys.path.insert(0, str(Path(__file__).parent.parent / "project"))  # for `models`

import gpu_models
import models

from lumigen.build import build_project, load_module, write_project
from lumigen.emit.project import render_project
from lumigen.target import parse_target
from lumigen.targets.cuda.row import ARCHITECTURES
from lumigen.targets.cuda.tools import cuda_driver


@pytest.fixture(scope="session")
def target() -> str:
    """For the first GPU alone, so that nvcc has less to do."""
    found = cuda_driver().found.rpartition("(")[2].rstrip(")")
    own = f"{found}a"  # with the features of its generation, where there are such
    return f"cuda:{own if own in ARCHITECTURES else found}"


@pytest.fixture(scope="session")
def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {s.weight.name: s.weight.shape for s in models.tiny().weights}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory, target: str, arrays) -> Path:
    """`tiny` with hand-written kernels, and with its tests."""
    directory = tmp_path_factory.mktemp("gpu") / "tiny"
    model = gpu_models.on_gpu(models.tiny(), parse_target(target))
    write_project(render_project(model), directory)
    (directory / "weights").mkdir()
    safetensors.numpy.save_file(arrays, directory / "weights" / "tiny.safetensors")
    build_project(directory, tests=True)
    return directory


Sanitized = Callable[[Path, str], subprocess.CompletedProcess[str]]


@pytest.fixture
def sanitizer() -> Sanitized:
    """Runs a project's test under a tool of compute-sanitizer, which exits with 9 if it finds something."""
    found = shutil.which("compute-sanitizer") or shutil.which(
        "compute-sanitizer", path="/usr/local/cuda/bin"
    )
    if found is None:
        pytest.skip("there is no compute-sanitizer")

    def run(program: Path, tool: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "LUMIGEN_TEST_MEGABYTES": "16"}
        command = [found, "--tool", tool, "--error-exitcode", "9", str(program)]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)

    return run


@pytest.fixture
def sanitized(sanitizer: Sanitized) -> Callable[[Path, str], str]:
    """The same, where it must find nothing; what both said."""

    def run(program: Path, tool: str) -> str:
        done = sanitizer(program, tool)
        assert done.returncode == 0, done.stdout[-3000:]
        return done.stdout

    return run


@pytest.fixture(scope="session")
def tiny(project: Path) -> ModuleType:
    return load_module(project)
