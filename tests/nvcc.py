"""What nvcc says of a source."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path


def said(source: Path, arch: str, namespace: str, includes: Sequence[Path], output: Path) -> str:
    """With what each kernel takes of registers and spills; a warning is an error.

    The host's part of a file is the same for every architecture and takes most of the time, so it is
    compiled for the least of them and for files that are more than kernels: an `output` that is no cubin.
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
    """The same of a generated kernel, whose output lies beside it."""
    suffix = ".o" if arch == "80" else ".cubin"
    return said(source, arch, namespace, includes, source.with_suffix(suffix))
