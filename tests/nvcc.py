"""What nvcc says of a source, and the marks of tests that ask it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

F = TypeVar("F", bound=Callable[..., Any])
IS_HERE = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not here")
MARKS = [pytest.mark.slow, IS_HERE]  # it takes seconds for each file


def needed(test: F) -> F:
    """The test with these marks."""
    return pytest.mark.slow(IS_HERE(test))


def said(source: Path, arch: str, namespace: str, includes: Sequence[Path], output: Path) -> str:
    """With what each kernel takes of registers and spills; a warning is an error.

    The host's part of a file takes most of the time: an `output` that is a cubin has none of it.
    """
    kind = "-cubin" if output.suffix == ".cubin" else "-c"
    command = ["nvcc", "-std=c++17", "-O3", f"-gencode=arch=compute_{arch},code=sm_{arch}"]
    command += ["-lineinfo", "-Werror", "all-warnings", "-Xptxas", "-v"]
    command += ["-Xcompiler", "-Wall,-Wextra,-Werror", f"-DLUMIGEN_NS={namespace}"]
    command += [*(f"-I{folder}" for folder in includes), kind, str(source), "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + source.read_text()
    return done.stderr


def of_kernel(source: Path, arch: str, namespace: str, includes: Sequence[Path]) -> str:
    """The same of a generated kernel, of which whole projects compile the host's part."""
    return said(source, arch, namespace, includes, source.with_suffix(".cubin"))
