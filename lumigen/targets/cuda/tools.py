"""tools: CUDA's compiler and driver on this machine."""

from __future__ import annotations

import ctypes
import re
import shutil
from collections.abc import Sequence

from lumigen import debug
from lumigen.toolchain import Finding, output


def nvcc() -> str | None:
    """The CUDA compiler: of CUDACXX, of PATH, or where the toolkit puts it."""
    wanted = debug.child_environment({}).get("CUDACXX", "").strip()
    if wanted:
        return shutil.which(wanted)
    return shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")


def cuda_toolkit(architectures: Sequence[str]) -> Finding:
    """The compiler, and whether it compiles for all of these."""
    name = "CUDA toolkit"
    path = nvcc()
    if path is None:
        remedy = "Install the CUDA toolkit, 12.8 or later, to build for --target cuda."
        return Finding(name, "no nvcc", remedy, is_needed=False)
    version = re.search(r"release ([\d.]+)", output([path, "--version"]))
    codes = output([path, "--list-gpu-code"]).split()
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


def gpu_memory(number: int) -> int:
    """Bytes of memory that a GPU has; 0 without it."""
    if gpu_architecture(number) is None:
        return 0
    driver = ctypes.CDLL("libcuda.so.1")
    device, size = ctypes.c_int(0), ctypes.c_size_t(0)
    driver.cuDeviceGet(ctypes.byref(device), number)
    driver.cuDeviceTotalMem_v2(ctypes.byref(size), device)
    return size.value


def _gpu(driver: ctypes.CDLL, number: int) -> str:
    """`NVIDIA H200 (sm_90)`; the numbers are of CUdevice_attribute."""
    device, title = ctypes.c_int(0), ctypes.create_string_buffer(100)
    major, minor = ctypes.c_int(0), ctypes.c_int(0)
    driver.cuDeviceGet(ctypes.byref(device), number)
    driver.cuDeviceGetName(title, len(title), device)
    driver.cuDeviceGetAttribute(ctypes.byref(major), 75, device)
    driver.cuDeviceGetAttribute(ctypes.byref(minor), 76, device)
    return f"{title.value.decode(errors='replace')} (sm_{major.value}{minor.value})"
