"""The tools of this machine that a build needs, what the processor can do, libraries compiled as needed."""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lumigen import debug
from lumigen.errors import BuildFailed

PROGRAM = (
    "#include <string_view>\nint main() { if constexpr (true) return std::string_view().size(); }\n"
)
FEATURES = (
    *("sse4_2", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512_bf16"),
    *("amx_tile", "amx_bf16"),
)
SECONDS = 60  # for a tool to say its version


@dataclass(frozen=True)
class Finding:
    """A thing that was looked for. `remedy` says what to do if it is missing or broken.

    Without what is not `is_needed` the CPU target works all the same.
    """

    name: str
    found: str
    remedy: str = ""
    is_needed: bool = True

    @property
    def is_ok(self) -> bool:
        return not self.remedy


def findings() -> tuple[Finding, ...]:
    """What building and running needs, in the order of need."""
    return (
        _compiler(),
        _tool("cmake", "CMAKE_BIN_DIR"),
        _tool("ninja", "BIN_DIR"),
        _headers(),
        _package("pybind11"),
        _package("numpy"),
        _processor(),
        _cache(),
    )


def packaged(name: str, attribute: str) -> str | None:
    """A tool of this Python environment, else the one of PATH."""
    try:
        folder = getattr(importlib.import_module(name), attribute, None)
    except ImportError:
        folder = None
    tool = shutil.which(name, path=str(folder)) if folder else None
    return tool or shutil.which(name)


def ctest() -> str | None:
    """The ctest beside the cmake that builds."""
    cmake = packaged("cmake", "CMAKE_BIN_DIR")
    beside = Path(cmake).with_name("ctest") if cmake else None
    return str(beside) if beside and beside.is_file() else shutil.which("ctest")


def nvcc() -> str | None:
    """The CUDA compiler: of CUDACXX, of PATH, or where the toolkit puts it."""
    wanted = debug.child_environment({}).get("CUDACXX", "").strip()
    if wanted:
        return shutil.which(wanted)
    return shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")


def cxx() -> str | None:
    """The C++ compiler for what runs in this process: the one that the user insists on, else what is there."""
    return debug.cxx() or shutil.which("g++") or shutil.which("clang++")


def compiled_library(
    kind: str,
    compiler: str,
    flags: Sequence[str],
    unit: str,
    text: str,
    headers: Sequence[Path] = (),
) -> Path:
    """A shared library of one source `text`, a file `unit`, that finds `headers` in `runtime/`.

    It is compiled once and then cached, below a folder `kind`, by the content of all of this. BuildFailed
    where it does not compile.
    """
    contents = (p.read_text(encoding="utf-8") for p in headers)
    stamp = hashlib.sha256("\0".join((compiler, *flags, unit, text, *contents)).encode())
    library = debug.cache_dir() / kind / f"{stamp.hexdigest()[:24]}.so"
    if library.exists():
        return library
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent) as work:
        include = Path(work) / "include"
        (include / "runtime").mkdir(parents=True)
        for header in headers:
            shutil.copy(header, include / "runtime" / header.name)
        source, out = Path(work) / unit, Path(work) / "out.so"
        source.write_text(text, encoding="utf-8")
        command = [compiler, *flags, f"-I{include}", str(source), "-o", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            output = (done.stderr or done.stdout)[-6000:]
            raise BuildFailed(
                step=f"compile {unit}", code=done.returncode, output=output, log=source
            )
        out.replace(library)
    return library


def _compiler() -> Finding:
    name = "C++ compiler"
    wanted = debug.cxx() or debug.child_environment({}).get("CXX", "").strip()
    path = next(
        filter(None, map(shutil.which, [wanted] if wanted else ["c++", "g++", "clang++"])), None
    )
    if path is None:
        remedy = "Correct LUMIGEN_CXX or CXX." if wanted else "Install g++ or clang++."
        return Finding(name, wanted or "not found", remedy)
    about = f"{path}, {_first_line([path, '--version'])}"
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "a.cpp", Path(folder) / "a"
        source.write_text(PROGRAM, encoding="utf-8")
        works = _code([path, "-std=c++17", str(source), "-o", str(out)]) == 0
    return Finding(name, about, "" if works else "It compiles no C++17: install a later one.")


def _tool(name: str, attribute: str) -> Finding:
    path = packaged(name, attribute)
    if path is None:
        return Finding(name, "not found", f"pip install {name}")
    version = _first_line([path, "--version"])
    if not version:
        return Finding(name, path, f"It does not start: pip install --force-reinstall {name}")
    return Finding(name, f"{path}, {version}")


def _headers() -> Finding:
    name = "Python headers"
    header = Path(sysconfig.get_path("include")) / "Python.h"
    found = f"{header.parent}, Python {platform.python_version()}"
    remedy = "Install python3-dev, or use a Python that brings its headers."
    return Finding(
        name, found if header.is_file() else f"no {header}", "" if header.is_file() else remedy
    )


def _package(name: str) -> Finding:
    try:
        return Finding(name, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, "not found", f"pip install {name}")


def _processor() -> Finding:
    name = "processor"
    flags = cpu_flags()
    shown = [f for f in FEATURES if f in flags]
    text = f"{platform.machine()}, {os.cpu_count()} cores" + (
        f", {' '.join(shown)}" if shown else ""
    )
    old = platform.machine() == "x86_64" and flags and "sse4_2" not in flags
    return Finding(name, text, "It lacks SSE4.2: emit here, run elsewhere." if old else "")


def cpu_flags() -> frozenset[str]:
    """What Linux says the processor can do; empty where it cannot be asked."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return frozenset()
    line = next((x for x in text.splitlines() if x.startswith(("flags", "Features"))), "")
    return frozenset(line.partition(":")[2].split())


def _cache() -> Finding:
    folder = debug.cache_dir()
    near = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    writable = near.is_dir() and os.access(near, os.W_OK)
    return Finding(
        "cache", str(folder), "" if writable else "Set LUMIGEN_CACHE to a directory of yours."
    )


def cuda_toolkit(architectures: Sequence[str]) -> Finding:
    """The compiler, and whether it compiles for all of these."""
    name = "CUDA toolkit"
    path = nvcc()
    if path is None:
        remedy = "Install the CUDA toolkit, 12.8 or later, to build for --target cuda."
        return Finding(name, "no nvcc", remedy, is_needed=False)
    version = re.search(r"release ([\d.]+)", _output([path, "--version"]))
    codes = _output([path, "--list-gpu-code"]).split()
    able = [a for a in architectures if a.rstrip("a") in codes]
    text = f"{path}, {version.group(1) if version else 'unknown version'}"
    if able != list(architectures):
        lacking = ", ".join(a for a in architectures if a not in able)
        remedy = f"It compiles nothing for {lacking}: install a later toolkit, or name others."
        return Finding(name, text, remedy, is_needed=False)
    return Finding(name, f"{text}, {' '.join(able)}", is_needed=False)


def cuda_driver() -> Finding:
    """The driver and its GPUs, asked as a shipped model asks: without the toolkit."""
    name = "NVIDIA driver"
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        remedy = "Install NVIDIA's driver to run what --target cuda builds."
        return Finding(name, "no libcuda.so.1", remedy, is_needed=False)
    version, count = ctypes.c_int(0), ctypes.c_int(0)
    driver.cuDriverGetVersion(ctypes.byref(version))
    text = f"for CUDA {version.value // 1000}.{version.value % 1000 // 10}"
    code = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if code != 0 or count.value == 0:
        what = f"it says {code}" if code else "it sees no GPU"
        remedy = "Ask nvidia-smi why; a container needs its GPUs passed in."
        return Finding(name, f"{text}, {what}", remedy, is_needed=False)
    gpus = ", ".join(_gpu(driver, i) for i in range(count.value))
    return Finding(name, f"{text}, {gpus}", is_needed=False)


def gpu_architecture(number: int) -> str | None:
    """What nvcc compiles for that GPU, with the features of its generation alone: `sm_90a`; None without it."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    if driver.cuInit(0) != 0:
        return None
    device, major, minor = ctypes.c_int(0), ctypes.c_int(0), ctypes.c_int(0)
    if driver.cuDeviceGet(ctypes.byref(device), number) != 0:
        return None
    driver.cuDeviceGetAttribute(ctypes.byref(major), 75, device)
    driver.cuDeviceGetAttribute(ctypes.byref(minor), 76, device)
    return f"sm_{major.value}{minor.value}" + "a" * (major.value >= 9)


def _gpu(driver: ctypes.CDLL, number: int) -> str:
    """`NVIDIA H200 (sm_90)`; the numbers are of CUdevice_attribute."""
    device, title = ctypes.c_int(0), ctypes.create_string_buffer(100)
    major, minor = ctypes.c_int(0), ctypes.c_int(0)
    driver.cuDeviceGet(ctypes.byref(device), number)
    driver.cuDeviceGetName(title, len(title), device)
    driver.cuDeviceGetAttribute(ctypes.byref(major), 75, device)
    driver.cuDeviceGetAttribute(ctypes.byref(minor), 76, device)
    return f"{title.value.decode(errors='replace')} (sm_{major.value}{minor.value})"


def _first_line(command: list[str]) -> str:
    return next(iter(_output(command).splitlines()), "")


def _output(command: list[str]) -> str:
    """What a tool prints; nothing if it fails."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _code(command: list[str]) -> int:
    try:
        done = subprocess.run(
            command, capture_output=True, check=False, timeout=SECONDS, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return -1
    return done.returncode
