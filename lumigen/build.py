"""Build: write an emitted project to a directory, compile it, load its Python module.

Promises that nobody's files are overwritten or left half-written, that unchanged files keep their
time, and that a build of what was built already starts no tool.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from lumigen import debug
from lumigen.directory import (
    MANIFEST,
    STAGING,
    Known,
    check_no_links,
    digest_of,
    emitted_files,
    left_behind,
    locked,
    read_manifest,
)
from lumigen.errors import (
    CompilerMissing,
    EditedFiles,
    FileRefused,
    NotBuilt,
    ProjectBuildFailed,
)
from lumigen.files import read_regular, whole_file
from lumigen.target import TARGETS
from lumigen.toolchain import packaged, telling

STAMP = "lumigen-stamp.json"
NATIVE = "native"  # of instruction sets: what this processor runs best
INTERRUPTED = (130, -signal.SIGINT)
UNSPELLABLE = '";\\\n'  # CMake's strings and lists end at them, and it takes \ for /

# step, done, total, what
Progress = Callable[[str, int, int, str], None]


@dataclass(frozen=True)
class WriteResult:
    """Paths below the directory, by what happened to them."""

    written: tuple[str, ...]
    unchanged: tuple[str, ...]
    removed: tuple[str, ...]


@dataclass(frozen=True)
class BuildResult:
    """What a build left in `lib/`, `bin/` and `python/`."""

    directory: Path
    library: Path
    module: Path | None
    programs: tuple[Path, ...]
    log: Path
    was_current: bool  # nothing had to be done


# ---- writing -------------------------------------------------------------------------------------


def write_project(files: Mapping[str, str], directory: Path, *, force: bool = False) -> WriteResult:
    """Make the emitted part of `directory` equal to `files`, which include manifest.json.

    Refuses a directory that is not empty and not ours, and, without `force`, one where emitted
    files were edited.
    """
    with locked(directory):
        known = emitted_files(directory)
        check_no_links(directory, files)
        for path in files:
            if (directory / path).is_dir():
                why = "it is a directory, where a file of the project goes"
                remedy = "Move it elsewhere, or name another place."
                raise FileRefused(command="compile", file=directory / path, why=why, remedy=remedy)
        edited = [p for p in sorted({*known, *files}) if _is_edited(directory, p, known, files)]
        if edited and not force:
            raise EditedFiles(directory=directory, files=edited)
        old = left_behind(directory)
        written = [
            p for p, text in sorted(files.items()) if read_regular(directory / p) != text.encode()
        ]
        removed = [p for p in sorted(known) if p not in files and (directory / p).is_file()]
        if written or removed:
            _replace(directory, {p: files[p] for p in written}, removed, files[MANIFEST])
        for folder in old:
            shutil.rmtree(folder, ignore_errors=True)
        unchanged = sorted(files.keys() - set(written))
        return WriteResult(tuple(written), tuple(unchanged), tuple(removed))


def _is_edited(directory: Path, path: str, known: Known, files: Mapping[str, str]) -> bool:
    """Whether the file holds something that no emission wrote."""
    data = read_regular(directory / path)
    if data is None or path == MANIFEST:
        return False
    if path in files and data == files[path].encode():
        return False
    return digest_of(data) not in known.get(path, ())


def _replace(directory: Path, texts: Mapping[str, str], removed: list[str], manifest: str) -> None:
    """All new texts are on the disk before the first name changes; then it runs through.

    The new manifest is there first: should this process be killed, the next one knows whose the files are.
    """
    staging = Path(tempfile.mkdtemp(prefix=STAGING, dir=directory))
    try:
        (staging / MANIFEST).write_bytes(manifest.encode())
        for number, text in enumerate(texts.values()):
            (staging / str(number)).write_bytes(text.encode())
        interrupted = False
        moves = [(staging / str(number), directory / path) for number, path in enumerate(texts)]
        # The manifest goes last: it vouches for the rest.
        moves.sort(key=lambda move: move[1].name == MANIFEST)
        steps: list[Callable[[], None]] = [lambda p=p: _remove(directory, p) for p in removed]
        steps += [lambda a=a, b=b: _move(a, b) for a, b in moves]
        for step in steps:
            while True:
                try:
                    step()
                    break
                except KeyboardInterrupt:
                    interrupted = True
        if interrupted:
            raise KeyboardInterrupt
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _move(source: Path, target: Path) -> None:
    if source.exists():  # not, if a step was interrupted after it had done its work
        target.parent.mkdir(parents=True, exist_ok=True)
        source.replace(target)


def _remove(directory: Path, path: str) -> None:
    (directory / path).unlink(missing_ok=True)
    for parent in (directory / path).parents:
        if parent == directory or any(parent.iterdir()):
            return
        parent.rmdir()


# ---- compiling -----------------------------------------------------------------------------------


def _silent(_step: str, _done: int, _total: int, _what: str) -> None:
    pass


@dataclass(frozen=True)
class _Tools:
    cmake: str
    ninja: str
    cxx: str
    kernels: dict[str, str]  # CMake's variables for what compiles kernels


def build_project(
    directory: Path,
    *,
    preset: str = "release",
    python: bool = True,
    tests: bool = False,
    jobs: int | None = None,
    isa: str | None = None,
    progress: Progress | None = None,
) -> BuildResult:
    """Compile the project in `directory`; its results are copied to `lib/`, `bin/` and `python/`.

    `progress` is called for each step. Without `tests` only what is shipped is compiled. Kernels are compiled for all
    instruction sets that the target has, or for one `isa`: its name, or `native` for what this processor runs best.
    """
    manifest = read_manifest(directory)
    if manifest is None:
        raise NotBuilt(command="build", directory=directory)
    directory = directory.resolve()
    check_buildable(directory)
    check_no_links(directory, manifest["files"])
    name = str(manifest["model"])
    target = str(manifest.get("target"))
    tools = _find_tools(target)
    build = directory / "build" / preset
    build.mkdir(parents=True, exist_ok=True)
    with locked(directory):
        wanted = {"python": python, "tests": tests, "isa": isa}
        stamp = _stamp(directory, manifest, tools, wanted)
        current = _current(directory, build, stamp)
        if current is not None:
            return current
        _forget_foreign_cache(directory, build, tools)
        (build / STAMP).unlink(missing_ok=True)
        log = build / "lumigen.log"
        log.write_bytes(b"")
        report = progress or _silent
        options = _options(name, target, tools, python=python, tests=tests, isa=isa)
        defines = [f"-D{key}={value}" for key, value in options.items()]
        configure = [tools.cmake, "--preset", preset, "-G", "Ninja", *defines]
        _run("configure", configure, directory, log, report)
        programs = [f"{name}_program"] if "application" in manifest else []
        shipped = [name, *([f"{name}_python"] if python else []), *programs]
        targets = [] if tests else ["--target", *shipped]
        parallel = ["--parallel", str(jobs)] if jobs else []
        compile_ = [tools.cmake, "--build", str(build), *parallel, *targets]
        _run("compile", compile_, directory, log, report)
        result = _collect(directory, build, name, log, python=python, program=bool(programs))
        with whole_file(build / STAMP) as file:
            file.write(json.dumps({"stamp": stamp, "outputs": _outputs(result)}).encode())
        return result


def check_buildable(directory: Path) -> None:
    """Refuse a place whose path CMake and Ninja cannot spell."""
    found = [c for c in UNSPELLABLE if c in os.path.realpath(directory)]
    if found:
        why = f"CMake cannot build where the path holds {' or '.join(map(repr, found))}"
        remedy = "Name another place, or pass --no-build and move what is emitted."
        raise FileRefused(command="build", file=directory, why=why, remedy=remedy)


def check_ours(directory: Path) -> None:
    """Refuse a file, and a directory that is neither empty nor a project of ours."""
    emitted_files(directory)


def _find_tools(target: str) -> _Tools:
    cmake = packaged("cmake", "CMAKE_BIN_DIR")  # of the Python environment: the version we know
    ninja = packaged("ninja", "BIN_DIR")
    environment = debug.child_environment({})
    wanted = debug.cxx() or environment.get("CXX", "").strip() or None
    cxx = (
        shutil.which(wanted)
        if wanted
        else next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
    )
    purpose = "compiling a project"
    if cxx is None:
        remedy = (
            "Correct LUMIGEN_CXX or CXX."
            if wanted
            else "Install gcc or clang, or set LUMIGEN_CXX to a compiler."
        )
        raise CompilerMissing(tool=wanted or "a C++ compiler", purpose=purpose, remedy=remedy)
    if cmake is None or ninja is None:
        tool = "cmake" if cmake is None else "ninja"
        raise CompilerMissing(
            tool=tool, purpose=purpose, remedy=f"Install it with `pip install {tool}`."
        )
    return _Tools(cmake, ninja, cxx, _kernel_tools(target, cxx))


def _options(
    name: str, target: str, tools: _Tools, *, python: bool, tests: bool, isa: str | None
) -> dict[str, str]:
    """CMake's variables for the project."""
    prefix = name.upper()
    options = {
        "CMAKE_CXX_COMPILER": tools.cxx,
        "CMAKE_MAKE_PROGRAM": tools.ninja,
        "BUILD_SHARED_LIBS": "ON",
        f"{prefix}_TESTS": "ON" if tests else "OFF",
        f"{prefix}_PYTHON": "ON" if python else "OFF",
        **tools.kernels,
    }
    if _has_instruction_sets(target):
        options[f"{prefix}_ISA"] = isa or "all"
    if python:
        options["Python_EXECUTABLE"] = sys.executable
    return options


def _has_instruction_sets(target: str) -> bool:
    backend = TARGETS.get(target)
    return backend is not None and backend.target.has_instruction_sets


def _kernel_tools(target: str, cxx: str) -> dict[str, str]:
    backend = TARGETS.get(target)
    compiler = None if backend is None else backend.compiler
    if compiler is None:
        return {}
    found = compiler.find()
    if found is None:
        raise CompilerMissing(tool=compiler.tool, purpose=compiler.purpose, remedy=compiler.remedy)
    return {compiler.variable: found, compiler.host_variable: cxx}


def _stamp(
    directory: Path, manifest: Mapping[str, Any], tools: _Tools, options: Mapping[str, object]
) -> str:
    """Changes when the sources, the tools, the place or the options do."""
    digest = hashlib.sha256()
    for path in sorted({*map(str, manifest["files"]), MANIFEST}):
        data = read_regular(directory / path)
        digest.update(
            f"{path}\0{'-' if data is None else hashlib.sha256(data).hexdigest()}\n".encode()
        )
    every = (tools.cmake, tools.ninja, tools.cxx, *tools.kernels.values(), sys.executable)
    for tool in filter(None, every):
        about = Path(tool).resolve().stat()
        digest.update(f"{tool}\0{about.st_size}\0{about.st_mtime_ns}\n".encode())
    if "src/embedded.cpp" in manifest["files"]:
        weights = directory / "weights" / f"{manifest['model']}.safetensors"
        about = weights.stat() if weights.is_file() else None
        digest.update(
            f"{about.st_size if about else 0}\0{about.st_mtime_ns if about else 0}\n".encode()
        )
    digest.update(f"{directory}\0{sorted(options.items())}".encode())
    return digest.hexdigest()


def _outputs(result: BuildResult) -> dict[str, dict[str, str]]:
    """The hashes of what was built, by kind and path."""

    def hashes(paths: tuple[Path, ...]) -> dict[str, str]:
        return {str(p.relative_to(result.directory)): digest_of(p.read_bytes()) for p in paths}

    return {
        "library": hashes((result.library,)),
        "module": hashes((result.module,) if result.module else ()),
        "programs": hashes(result.programs),
    }


def _current(directory: Path, build: Path, stamp: str) -> BuildResult | None:
    """The result of an earlier build of the very same things, if it is still whole."""
    data = read_regular(build / STAMP)
    if data is None:
        return None
    try:
        stored = json.loads(data)
        if stored["stamp"] != stamp:
            return None
        kinds = ("library", "module", "programs")
        ((library,), module, programs) = (
            [_unchanged(directory / p, digest) for p, digest in stored["outputs"][kind].items()]
            for kind in kinds
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    found = module[0] if module else None
    return BuildResult(
        directory, library, found, tuple(programs), build / "lumigen.log", was_current=True
    )


def _unchanged(path: Path, digest: str) -> Path:
    """The path, if the file holds what was built; LookupError if not."""
    data = read_regular(path)
    if data is None or digest_of(data) != digest:
        raise LookupError(path)
    return path


def _forget_foreign_cache(directory: Path, build: Path, tools: _Tools) -> None:
    """CMake cannot change generator, compiler or place of a build directory: start anew."""
    cache = read_regular(build / "CMakeCache.txt")
    if cache is None:
        return
    entries = dict(re.findall(r"^(\w+):\w+=(.*)$", cache.decode(errors="replace"), re.MULTILINE))
    compiler = entries.get("CMAKE_CXX_COMPILER", "")
    is_ours = (
        entries.get("CMAKE_GENERATOR") == "Ninja"
        and entries.get("CMAKE_HOME_DIRECTORY") == str(directory)
        and compiler == tools.cxx
        and all(entries.get(name) == path for name, path in tools.kernels.items())
        and entries.get("CMAKE_MAKE_PROGRAM") == tools.ninja
    )
    if not is_ours:
        (build / "CMakeCache.txt").unlink()
        shutil.rmtree(build / "CMakeFiles", ignore_errors=True)


def _run(step: str, command: list[str], directory: Path, log: Path, report: Progress) -> None:
    """Run a tool; its output goes to the log, its steps to `report`."""
    report(step, 0, 0, "")
    environment = debug.child_environment({"NINJA_STATUS": "[%f/%t] ", "CLICOLOR_FORCE": "0"})
    lines: list[str] = []
    with (
        log.open("ab") as file,
        subprocess.Popen(
            command,
            cwd=directory,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            for raw in process.stdout:
                file.write(raw)
                line = raw.decode(errors="replace").rstrip()
                lines.append(line)
                if found := re.match(r"\[(\d+)/(\d+)\] (.*)", line):
                    report(step, int(found[1]), int(found[2]), found[3])
        except BaseException:
            process.terminate()  # Ctrl-C: ninja ends its compilers and removes what they had begun
            process.wait()
            raise
    if process.returncode in INTERRUPTED or (lines and "interrupted by user" in lines[-1]):
        raise KeyboardInterrupt  # which Ctrl-C may tell the tool before this process
    if process.returncode != 0:
        said = telling(lines)
        raise ProjectBuildFailed(step=step, code=process.returncode, output=said, log=log)


def _collect(
    directory: Path, build: Path, name: str, log: Path, *, python: bool, program: bool
) -> BuildResult:
    """Copy what was built to where users look for it."""
    suffix = ".dylib" if sys.platform == "darwin" else ".so"
    library = _copy(build / f"lib{name}{suffix}", directory / "lib")
    module = None
    if python:
        built = next(
            p for p in sorted((build / "python").iterdir()) if p.name.startswith(f"{name}.")
        )
        module = _copy(built, directory / "python")
        _copy(directory / "bindings" / f"{name}.pyi", directory / "python")
    programs = (_copy(build / "bin" / name, directory / "bin"),) if program else ()
    return BuildResult(directory, library, module, programs, log, was_current=False)


def _copy(source: Path, folder: Path) -> Path:
    target = folder / source.name
    with whole_file(target, source.stat().st_mode & 0o777) as file:
        file.write(source.read_bytes())
    return target


# ---- loading -------------------------------------------------------------------------------------

_loaded: dict[tuple[Path, int, int], ModuleType] = {}


def load_module(directory: Path) -> ModuleType:
    """The Python module of a built project, kept out of `sys.modules`: models may share a name."""
    manifest = read_manifest(directory)
    name = str(manifest["model"]) if manifest else ""
    folder = directory.resolve() / "python"
    found = [
        p
        for suffix in importlib.machinery.EXTENSION_SUFFIXES
        if (p := folder / f"{name}{suffix}").is_file()
    ]
    if not name or not found:
        raise NotBuilt(command="load", directory=directory)
    about = found[0].stat()
    key = (found[0], about.st_ino, about.st_mtime_ns)
    if key not in _loaded:
        _loaded[key] = _loaded_anew(name, found[0])
    return _loaded[key]


def _loaded_anew(name: str, file: Path) -> ModuleType:
    """What the file holds now, whatever this process has loaded from its place or under its name."""
    # pybind11 takes a module of a name that it has seen for the one that it has made: each gets its own
    again = sum(path.name == file.name for path, *_ in _loaded)
    full = f"{name}_{again}.{name}" if again else name
    if all(path != file for path, *_ in _loaded):
        return _import(full, file)
    # The dynamic linker takes a file for the one that it has loaded from the same path.
    with tempfile.TemporaryDirectory() as folder:
        module = _import(full, Path(shutil.copy(file, folder)))
    module.__file__ = str(file)  # beside which it looks for the weights
    return module


def _import(full: str, file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(full, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
