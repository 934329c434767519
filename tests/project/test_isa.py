"""Which of the instruction sets that a library holds is taken when a model is opened."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import pytest

from lumigen.resources import runtime_dir
from lumigen.toolchain import cpu_flags

NATIVE = Path(__file__).parent / "native"
AVX2 = {"avx2", "fma", "f16c"}
AVX512 = AVX2 | {"avx512f", "avx512dq", "avx512bw", "avx512vl"}
NEEDS = {
    "baseline": {"sse4_2"},
    "avx2": AVX2,
    "avx512": AVX512,
    "avx512_vnni": AVX512 | {"avx512_vnni"},
    "avx512_bf16": AVX512 | {"avx512_vnni", "avx512_bf16"},
}
AMD, INTEL = "AuthenticAMD", "GenuineIntel"

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or not cpu_flags(), reason="asks what Linux knows of an x86-64"
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("isa") / "isa"
    folders = [f"-I{folder}" for folder in (runtime_dir(), runtime_dir() / "cpu")]
    sources = [NATIVE / "isa_test.cpp", runtime_dir() / "status.cpp"]
    flags = ["-std=c++17", "-DLUMIGEN_NS=rt", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["c++", *flags, *folders, *sources, "-o", out], check=True)
    return out


def chosen(program: Path, compiled: list[str], vendor: str, forced: str = "") -> tuple[bool, str]:
    """(Whether there is one, its name or what is said)"""
    mask = sum(1 << list(NEEDS).index(name) for name in compiled)
    done = subprocess.run(
        [program, str(mask), vendor],
        env={**os.environ, "TEST_ISA": forced},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode == 0, done.stdout.strip()


@pytest.mark.parametrize("vendor", [AMD, INTEL])
def test_the_best_is_taken_and_products_of_bf16_by_vectors_on_amd_alone(program, vendor):
    here = [name for name, flags in NEEDS.items() if flags <= cpu_flags()]
    best = [name for name in here if name != "avx512_bf16" or vendor == AMD]
    assert chosen(program, list(NEEDS), vendor) == (True, best[-1])


@pytest.mark.parametrize("vendor", [AMD, INTEL])
@pytest.mark.parametrize("name", NEEDS)
def test_one_that_is_forced_or_the_only_one_is_taken_wherever_it_runs(program, name, vendor):
    runs = NEEDS[name] <= cpu_flags()
    forced, alone = chosen(program, list(NEEDS), vendor, name), chosen(program, [name], vendor)
    assert forced[0] == alone[0] == runs
    if runs:
        assert forced[1] == alone[1] == name
    else:
        assert f"TEST_ISA is {name}, which this processor does not have" in forced[1]
        assert "this processor lacks" in alone[1]


def test_what_cannot_be_had_is_refused(program):
    assert (
        "TEST_ISA is avx3, must be baseline, avx2, avx512, avx512_vnni, avx512_bf16 or amx."
        in (chosen(program, list(NEEDS), AMD, "avx3")[1])
    )
    said = chosen(program, ["baseline"], AMD, "avx512_bf16")[1]
    assert "TEST_ISA is avx512_bf16, for which this library holds no code" in said
