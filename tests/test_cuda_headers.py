"""The CUDA headers compile without a warning for each architecture, and their usual tiles do not spill.

What they compute is checked on a GPU by the programs in tests/native/cuda.
"""

from __future__ import annotations

import re
from pathlib import Path

import nvcc
import pytest

ROOT = Path(__file__).parent.parent
NATIVE = ROOT / "tests" / "native" / "cuda"

pytestmark = nvcc.MARKS


def compile_for(arch: str, source: Path, output: Path) -> str:
    """What the compiler says; a warning is an error."""
    return nvcc.said(
        source, arch, "native", [ROOT / "templates" / "cuda", ROOT / "runtime"], output
    )


def no_spills(log: str, kernels: int) -> None:
    spilled = re.findall(r"(\d+) bytes spill stores", log)
    assert len(spilled) >= kernels, "the compiler did not report every kernel"
    assert set(spilled) == {"0"}, log
    assert "C75" not in log, log  # products that wait for each other, registers that do not move


@pytest.mark.slow  # tests without it compile kernels of each skeleton, from the same headers
@pytest.mark.parametrize("arch", ["80", "90a", "100", "120"])
def test_pipeline_tiles(arch: str, tmp_path: Path) -> None:
    no_spills(compile_for(arch, NATIVE / "tiles.cu", tmp_path / "tiles.cubin"), 14)


def test_role_tiles(tmp_path: Path) -> None:
    no_spills(compile_for("90a", NATIVE / "role_tiles.cu", tmp_path / "tiles.cubin"), 6)


@pytest.mark.slow
@pytest.mark.parametrize("source", sorted(NATIVE.glob("test_*.cu")), ids=lambda path: path.stem)
def test_programs_compile(source: Path, tmp_path: Path) -> None:
    compile_for("90a", source, tmp_path / "program.o")


def test_tensor_map_compiles(tmp_path: Path) -> None:
    compile_for("90a", ROOT / "runtime" / "cuda" / "tensor_map.cpp", tmp_path / "tensor_map.o")
