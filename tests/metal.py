"""metal: Metal kernels on a machine without Metal: built with the emulator, and read for their address spaces."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parent.parent
EMULATOR = ROOT / "emulator" / "metal"
EMULATED = EMULATOR / "emulated"
# What keeps each call to a barrier, and the frames that lead to it, as they stand in the source.
AS_WRITTEN = (
    *("-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-fno-thread-jumps"),
    *("-fno-crossjumping", "-fno-tree-tail-merge", "-Wno-ignored-optimization-argument"),
)
LINT = (
    *("-x", "clcpp", "-cl-std=clc++2021", "-target", "spir64", "-cl-no-stdinc", "-fsyntax-only"),
    *("-Wno-unknown-attributes", f"-I{ROOT / 'tests' / 'native' / 'metal' / 'lint'}"),
    # a cast that takes a const away, and f64
    *("-Wcast-qual", "-Werror=cast-qual", "-Xclang", "-cl-ext=-cl_khr_fp64,-__opencl_c_fp64"),
)


def address_spaces(kernel: Path, *flags: str) -> str | None:
    """What clang says of a kernel's address spaces, empty if they are right; None where there is no clang."""
    clang = shutil.which("clang++")
    if clang is None:
        return None
    return said(clang, *LINT, *flags, str(kernel)).stderr


def read_with_metal_cpp(source: Path, folder: str, *flags: str) -> str:
    """What clang says of a file of the host, read with Apple's metal-cpp in the folder, as if this were macOS."""
    clang = shutil.which("clang++")
    assert clang is not None
    apple = ROOT / "tests" / "native" / "metal" / "apple"
    mac = [
        "-fblocks",
        "-std=c++17",
        "-include",
        "prelude.h",
        "-isystem",
        folder,
        "-isystem",
        str(apple),
    ]
    warned = ["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-DLUMIGEN_HOST"]
    return said(clang, *mac, *warned, *flags, str(source)).stderr


def said_of_shaders(kernels: Path, namespace: str) -> str | None:
    """What clang says of kernels as the emulator runs them; None where there is no clang."""
    clang = shutil.which("clang++")
    if clang is None:
        return None
    warned = [
        "-std=c++17",
        "-fsyntax-only",
        "-Wall",
        "-Wextra",
        "-Wshadow",
        "-Werror",
        f"-I{EMULATOR}",
    ]
    defined = ["-DLUMIGEN_EMULATED", "-DLUMIGEN_HOST", f"-DLUMIGEN_NS={namespace}"]
    flags = [*warned, "-Wno-unknown-attributes", *defined, "-D__METAL_VERSION__=310", "-x", "c++"]
    return said(clang, *flags, str(kernels)).stderr


def build(
    kernels: Iterable[Path],
    mains: Iterable[Path],
    program: Path,
    flags: Iterable[str] = (),
    *,
    is_checked: bool = False,
) -> None:
    """The kernels with the emulator and files of the host, one of which has a main function.

    `is_checked`: the emulator sees each load and store of the kernels.
    """
    sources = [*sorted(EMULATED.glob("*.cpp")), *mains]
    warned = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", *AS_WRITTEN, f"-I{EMULATOR}"]
    shader = ["-x", "c++", "-Wno-attributes", "-Wno-unused-parameter", *map(str, kernels)]
    kernel_code = program.with_suffix(".o")
    check = ["-fsanitize=thread"] if is_checked else []
    checks = ["-DEMULATED_CHECKS"] if is_checked else []
    for part in (
        (*check, *shader, "-r", "-nostdlib", "-o", str(kernel_code)),
        (*checks, *map(str, sources), str(kernel_code), "-o", str(program)),
    ):
        done = said("c++", *warned, *flags, *part)
        assert done.returncode == 0, done.stderr


def build_encoding(program: Path) -> None:
    """The runtime's launches beside the same by hand: tests/native/metal/encode.cpp."""
    runtime = ROOT / "runtime"
    native = ROOT / "tests" / "native" / "metal"
    flags = ["-DLUMIGEN_NS=tested", "-DLUMIGEN_HOST", f"-I{runtime / 'metal'}", f"-I{runtime}"]
    sources = (native / "encode.cpp", runtime / "metal" / "gpu.cpp", runtime / "status.cpp")
    build([native / "kernels.metal"], sources, program, flags)


def said(
    *command: str, given: Iterable[float] = (), env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    text = "\n".join(map(str, given))
    return subprocess.run(
        command, input=text, env=env, capture_output=True, text=True, timeout=300, check=False
    )
