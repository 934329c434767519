"""Products of f32 whose sums are fragments, by the header that GPUs run, on the processor that runs the tests."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HEADERS = ("fragment.cuh", "operand.cuh", "pipeline.cuh", "fma_fragment.cuh")


@pytest.mark.slow
def test_lanes_read_their_rows_and_columns(tmp_path: Path) -> None:
    for name in HEADERS:
        shutil.copy(ROOT / "templates" / "cuda" / name, tmp_path)
    native = ROOT / "tests" / "native" / "cuda"
    shutil.copy(native / "emulated_mma.cuh", tmp_path / "mma.cuh")  # headers look beside them first
    flags = ["-std=c++17", "-O1", "-Wall", "-Wno-unknown-pragmas", "-DLUMIGEN_NS=native"]
    flags += ["-fsanitize=undefined", "-fno-sanitize-recover", f"-I{tmp_path}"]
    program = tmp_path / "fma_fragment"
    command = ["g++", *flags, native / "fma_fragment.cpp", "-o", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
