"""The emitted project where there is no Python: C programs, its own tests, a broken kernel."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import sentences
from conftest import Shipped, locked, lumigen, run
from minilm_reference import MODEL, write_small
from processor import instruction_sets

from lumigen.frontend import load_model_file
from lumigen.pipeline import Compilation, lower_model
from lumigen.weights import Weights, open_weights

pytestmark = pytest.mark.slow

SCALE = "0.17677669f"  # of the scores: 1 / sqrt(32)


@pytest.mark.parametrize(("batch", "length"), [(1, 1), (2, 37), (5, 128)])
def test_a_c_program_gets_the_bits_of_the_python_module(
    embed_program: Path, shipped: Shipped, minilm, tmp_path, batch, length
):
    ids, mask = sentences.ids(batch, length), sentences.mask("ragged", batch, length)
    want = minilm.Model().context(threads=1).embed(ids, mask)
    (tmp_path / "in").write_bytes(ids.tobytes() + mask.tobytes())
    for threads in (1, 2):
        shipped.run(embed_program, tmp_path / "in", tmp_path / "out", batch, length, threads)
        got = np.fromfile(tmp_path / "out", np.float32).reshape(want.shape)
        np.testing.assert_array_equal(got, want)


@pytest.fixture(scope="module")
def embed_program(c_program: Callable[[str], Path]) -> Path:
    return c_program("embed.c")


def test_a_call_after_the_first_allocates_nothing(c_program, shipped):
    if platform.libc_ver()[0] != "glibc":
        pytest.skip("counting allocations needs glibc")
    text = shipped.run(c_program("allocations.c"))
    assert text.count(": 0 allocations") == 3 * 5


def test_nothing_but_the_system_is_needed(embed_program, shipped, tmp_path):
    """No path of the build is in the program but that of the weights, which the test put there."""
    ldd = shutil.which("ldd")
    if ldd is None:
        pytest.skip("there is no ldd")
    done = subprocess.run([ldd, embed_program], capture_output=True, text=True, check=True)
    names = {line.split()[0].split("/")[-1] for line in done.stdout.splitlines()}
    system = r"(linux-vdso|libstdc\+\+|libm|libgcc_s|libc|ld-linux-.*|libpthread)\.so\.\d+"
    assert all(re.fullmatch(system, name) for name in names), names


def test_its_own_tests_pass_and_name_a_kernel_that_was_broken(shipped: Shipped, project: Path):
    """One test, since the second half needs the build of the first and ends with mending it."""
    with locked(shipped.directory):
        text = shipped.run("ctest", "--preset", "release")
        assert "100% tests passed" in text
        assert (
            len(re.findall(r"Test +#\d+: minilm\.(?:kernels|entries)\.\S+ \.+ +Passed", text)) >= 2
        )
        kernel = next(
            p for p in (shipped.directory / "kernels").glob("k*.cpp") if SCALE in p.read_text()
        )
        whole = kernel.read_text()
        try:
            kernel.write_text(whole.replace(SCALE, "0.177f"))
            fewer_rows = {"LUMIGEN_TEST_MEGABYTES": "32"}  # show it as well
            shipped.run("cmake", "--build", "--preset", "release")
            done = subprocess.run(
                ["ctest", "--preset", "release"],
                cwd=shipped.directory,
                env=shipped.environment | fewer_rows,
                capture_output=True,
                text=True,
                check=False,
            )
        finally:
            kernel.write_text(whole)
        lines = re.search(r"^// (model\.py:.*)$", whole, re.MULTILINE)
        assert lines is not None
        assert done.returncode != 0
        assert f"FAILED {kernel.stem} ({lines[1]})" in done.stdout
        failed = set(re.findall(r"FAILED (\w+)", done.stdout))
        assert {name for name in failed if name.startswith("k")} == {kernel.stem}
        shipped.run("cmake", "--build", "--preset", "release")


def test_its_own_tests_pass_under_sanitizers(
    place: Path, bare: dict[str, str], compilation: Compilation, weights: Weights
) -> None:
    """The kernels of the real model, launched for one layer and a few words: a checked access takes its time.

    For one instruction set, since each takes minutes to compile with all checks in it: tests without them run all.
    """
    config = weights.config | {"num_hidden_layers": 1, "vocab_size": 500}
    directory = place / "sanitised"
    with locked(directory):
        small = write_small(directory / "checkpoint", **config)
        model = lower_model(load_model_file(MODEL, weights=open_weights(small)).trace(), {}).model
        assert {k.name: k.body for k in model.kernels} == {
            k.name: k.body for k in compilation.model.kernels
        }
        project = directory / "minilm"
        done = lumigen("compile", MODEL, "--weights", small, "-o", project, "--no-build", "--force")
        assert done.returncode == 0, done.stderr
        environment = bare | {"LUMIGEN_TEST_MEGABYTES": "32"}
        isa = "avx2" if "avx2" in instruction_sets() else "baseline"
        isas = f"-DMINILM_ISA={isa}"
        run("cmake", "--preset", "asan", isas, cwd=project, env=environment)
        run("cmake", "--build", "--preset", "asan", cwd=project, env=environment)
        text = run("ctest", "--preset", "asan", cwd=project, env=environment)
    assert "100% tests passed" in text
    assert len(re.findall(rf"minilm\.(?:kernels|entries)\.{isa} \.+ +Passed", text)) == 2
