"""The tools of this machine that a build needs, what the processor can do, libraries compiled as needed."""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import os
import platform
import re
import shutil
import signal
import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from lumigen import debug
from lumigen.errors import BuildFailed

PROGRAM = (
    "#include <string_view>\nint main() { if constexpr (true) return std::string_view().size(); }\n"
)
FEATURES = (
    *("sse4_2", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16"),
    *("amx_tile", "amx_bf16", "amx_int8"),
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
        *(_package(name, extra=name) for name in ("torch", "onnx", "transformers")),
        _package("onnxruntime", needed=False),  # --check asks it first
        _package("egglog", extra="search"),  # with which --tune looks for equal programs
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
    seconds: float | None = None,
    parsed: str = "",
) -> Path:
    """A shared library of one source `text`, a file `unit`, that finds `headers` in `runtime/`.

    `parsed` is one of these that is read once for all units. It is compiled once and then cached, below a folder
    `kind`, by the content of all of this, and again where the cached one is not what was compiled. BuildFailed where it
    does not compile, or not in so many seconds.
    """
    folder = debug.cache_dir() / kind
    include = _included(
        debug.cache_dir() / "headers", tuple((p, p.stat().st_mtime_ns) for p in headers)
    )
    stamp = hashlib.sha256("\0".join((compiler, *flags, unit, text, include.name)).encode())
    key = stamp.hexdigest()[:24]
    for library in folder.glob(f"{key}-*.so"):
        if library.name == _name_of(key, library):
            return library
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        source, out = Path(work) / unit, Path(work) / "out.so"
        source.write_text(text, encoding="utf-8")
        known = _parsed(compiler, tuple(flags), include, parsed) if parsed else ()
        command = [compiler, *flags, *known, f"-I{include}", str(source), "-o", str(out)]
        code, said = _ended(command, seconds)
        if code != 0:
            raise BuildFailed(step=f"compile {unit}", code=code, output=telling(said.splitlines()))
        return out.replace(folder / _name_of(key, out))


def telling(lines: list[str]) -> str:
    """The lines of a tool's output that say what is wrong: from the first error on."""
    kept = [line for line in lines if line and not re.match(r"\[\d+/\d+\]|FAILED:|ninja: ", line)]
    first = next((i for i, line in enumerate(kept) if re.search(r"\berror\b|Error", line)), None)
    return "\n".join(kept[-5:] if first is None else kept[first : first + 5])


@lru_cache(maxsize=8)
def _included(folder: Path, headers: tuple[tuple[Path, int], ...]) -> Path:
    """A folder that has copies of headers, each with when it was changed, in `runtime/`; named by what they say."""
    contents = [(p.name, p.read_text(encoding="utf-8")) for p, _ in headers]
    stamp = hashlib.sha256("\0".join(part for pair in contents for part in pair).encode())
    place = folder / f"include-{stamp.hexdigest()[:24]}"
    if not place.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as work:
            own = Path(work) / place.name
            (own / "runtime").mkdir(parents=True)
            for name, text in contents:
                (own / "runtime" / name).write_text(text, encoding="utf-8")
            with suppress(OSError):  # another process was faster
                own.rename(place)
    return place


@lru_cache(maxsize=8)
def _parsed(compiler: str, flags: tuple[str, ...], include: Path, header: str) -> tuple[str, ...]:
    """What has a compiler read a header as it was parsed before; nothing where it does not do that.

    The intrinsics of a processor are most of what there is to parse: three times as much as a small kernel.
    """
    stamp = hashlib.sha256("\0".join((compiler, *flags, include.name, header)).encode())
    folder = include.parent / f"parsed-{stamp.hexdigest()[:24]}"
    unit, made = folder / "first.h", folder / "first.h.gch"
    if not made.exists():
        with tempfile.TemporaryDirectory(dir=include.parent) as work:
            first, out = Path(work) / unit.name, Path(work) / made.name
            folder.mkdir(exist_ok=True)
            if not unit.exists():
                first.write_text(f'#include "runtime/{header}"\n', encoding="utf-8")
                first.replace(unit)
            own = [f for f in flags if f != "-shared"]  # nothing is linked
            command = [compiler, *own, f"-I{include}", "-x", "c++-header", str(unit)]
            if _ended([*command, "-o", str(out)], None)[0] != 0:
                return ()
            out.replace(made)  # at once, as others may compile with it
    return ("-include", str(unit))


def _ended(command: list[str], seconds: float | None) -> tuple[int, str]:
    """(how a command ended, what it said); after so many seconds it is killed, with all that it has started."""
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=seconds is not None,
    ) as process:
        try:
            said, wrong = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return -signal.SIGKILL, f"it took more than {seconds:g} s"
    return process.returncode, wrong or said


def _name_of(key: str, library: Path) -> str:
    """The name of a library, by which one is known whose content was cut off."""
    return f"{key}-{hashlib.sha256(library.read_bytes()).hexdigest()[:24]}.so"


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


def _package(name: str, *, extra: str = "", needed: bool = True) -> Finding:
    """A package of Python; none of an `extra` of lumigen is needed."""
    is_needed = needed and not extra
    try:
        return Finding(name, importlib.metadata.version(name), is_needed=is_needed)
    except importlib.metadata.PackageNotFoundError:
        what = f"'lumigen[{extra}]'" if extra else name
        return Finding(name, "not found", f"pip install {what}", is_needed=is_needed)


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
    return frozenset(_cpu_line("flags", "Features").split())


def processor() -> str:
    """The processor's model, as Linux says it, or else its architecture."""
    return _cpu_line("model name") or platform.machine()


def _cpu_line(*names: str) -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return ""
    line = next((x for x in text.splitlines() if x.startswith(names)), "")
    return line.partition(":")[2].strip()


def _cache() -> Finding:
    folder = debug.cache_dir()
    near = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    writable = near.is_dir() and os.access(near, os.W_OK)
    return Finding(
        "cache", str(folder), "" if writable else "Set LUMIGEN_CACHE to a directory of yours."
    )


def _first_line(command: list[str]) -> str:
    return next(iter(output(command).splitlines()), "")


def output(command: list[str]) -> str:
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
