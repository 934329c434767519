"""The real model, compiled and built once for the same content, and shared by all tests here.

Builds lie in LUMIGEN_CACHE and outlive the session; of older contents the last few are kept.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
import torch
from c_interface import Library
from minilm_reference import MODEL, NO_CHECKPOINT, checkpoint

from lumigen.build import load_module
from lumigen.debug import cache_dir
from lumigen.emit.project import render_project
from lumigen.frontend import load_model_file
from lumigen.pipeline import Compilation, lower_model
from lumigen.toolchain import packaged
from lumigen.weights import Weights, open_weights

KEPT = 3
PROGRAMS = ["c++", "cc", "g++", "gcc", "as", "ld", "ar", "ranlib", "nm", "sh", "uname", "env"]


def run(*command: object, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """What a command that must succeed prints."""
    done = subprocess.run(
        [str(c) for c in command], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout + done.stderr


@contextmanager
def locked(place: Path) -> Generator[None]:
    """Processes that test side by side take turns in building."""
    place.mkdir(parents=True, exist_ok=True)
    with (place / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def real() -> Path:
    """The directory of the checkpoint."""
    found = checkpoint()
    if found is None:
        pytest.skip(NO_CHECKPOINT)
    return found


@pytest.fixture(scope="session")
def weights(real: Path) -> Weights:
    return open_weights(real)


@pytest.fixture(scope="session")
def doubles(weights: Weights) -> dict[str, torch.Tensor]:
    """The weights that the model reads, in float64."""
    names = (name for name in weights if "pooler" not in name and "position_ids" not in name)
    return {name: torch.from_numpy(weights[name].astype("f8")) for name in names}


@pytest.fixture(scope="session")
def compilation(weights: Weights) -> Compilation:
    return lower_model(load_model_file(MODEL, weights=weights).trace(), {})


@pytest.fixture(scope="session")
def place(compilation: Compilation) -> Path:
    """Where the builds of this very content are."""
    text = json.dumps([render_project(compilation.model), sys.executable], sort_keys=True)
    root = cache_dir() / "tests"
    found = root / f"minilm-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    with locked(root):
        found.mkdir(exist_ok=True)
        os.utime(found)
        by_age = sorted(root.glob("minilm-*"), key=lambda p: p.stat().st_mtime)
        for old in by_age[:-KEPT]:
            shutil.rmtree(old)
    return found


def lumigen(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command line, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "lumigen", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(MODEL.parents[2]), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="session")
def project(place: Path, real: Path) -> Path:
    """`lumigen compile examples/minilm/model.py`."""
    directory = place / "minilm"
    with locked(place):
        done = lumigen("compile", MODEL, "--weights", real, "-o", directory, "--force")
    assert done.returncode == 0, done.stdout + done.stderr
    return directory


@pytest.fixture(scope="session")
def minilm(project: Path) -> ModuleType:
    return load_module(project)


@pytest.fixture(scope="session")
def library(project: Path) -> Library:
    return Library(project / "lib" / "libminilm.so", project / "weights" / "minilm.safetensors")


# --- the emitted files where there is no Python ---------------------------------------------------


@dataclass(frozen=True)
class Shipped:
    """The emitted files and the weights, configured, built and installed with CMake alone."""

    directory: Path
    prefix: Path
    environment: dict[str, str]

    def run(self, *command: object, cwd: Path | None = None) -> str:
        return run(*command, cwd=cwd or self.directory, env=self.environment)


@pytest.fixture(scope="session")
def bare(place: Path) -> dict[str, str]:
    """An environment whose PATH holds a compiler, CMake and Ninja, and no Python; a compiler's cache is kept."""
    folder = place / "bin"
    with locked(place):
        folder.mkdir(exist_ok=True)
        found = {name: shutil.which(name) for name in PROGRAMS}
        found["cmake"] = packaged("cmake", "CMAKE_BIN_DIR")
        found["ninja"] = packaged("ninja", "BIN_DIR")
        if found["cmake"] is not None:
            found["ctest"] = str(Path(found["cmake"]).with_name("ctest"))
        for name, path in found.items():
            if path is None:
                pytest.skip(f"there is no {name}")
            if not (folder / name).exists():
                (folder / name).symlink_to(path)
    cache = {n: x for n, x in os.environ.items() if n.startswith("CCACHE_") or "_LAUNCHER" in n}
    environment = {"PATH": str(folder), "LANG": "C.UTF-8", "CMAKE_GENERATOR": "Ninja", **cache}
    look = "command -v python || command -v python3 || echo none"
    assert run("sh", "-c", look, env=environment).strip() == "none"
    return environment


@pytest.fixture(scope="session")
def shipped(place: Path, project: Path, bare: dict[str, str]) -> Shipped:
    directory = place / "été à la mer"
    found = Shipped(directory, place / "installé là", bare)
    with locked(place):
        copy_emitted(project, directory)
        found.run("cmake", "--preset", "release")
        found.run("cmake", "--build", "--preset", "release")
        shutil.rmtree(found.prefix, ignore_errors=True)
        found.run("cmake", "--install", "build/release", "--prefix", found.prefix)
    return found


def copy_emitted(project: Path, directory: Path) -> None:
    """The emitted files and the weights; a file that is there already keeps its time."""
    names = [*json.loads((project / "manifest.json").read_text())["files"], "manifest.json"]
    for name in names:
        target = directory / name
        if not target.is_file() or target.read_bytes() != (project / name).read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(project / name, target)
    weights = Path("weights") / "minilm.safetensors"
    if not (directory / weights).is_file():
        (directory / weights).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(project / weights, directory / weights)


@pytest.fixture(scope="session")
def c_program(shipped: Shipped, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Builds a C source of this directory as a project of its own that finds the package."""

    def build(source: str) -> Path:
        folder = tmp_path_factory.mktemp("app") / "mon appli"
        folder.mkdir()
        shutil.copyfile(Path(__file__).parent / source, folder / source)
        (folder / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.21)\nproject(app LANGUAGES C CXX)\n"
            "set(CMAKE_C_STANDARD 99)\n"
            "find_package(minilm CONFIG REQUIRED)\n"
            f"add_executable(app {source})\n"
            "target_compile_options(app PRIVATE -Wall -Wextra -Werror)\n"
            'target_compile_definitions(app PRIVATE WEIGHTS="${minilm_WEIGHTS}")\n'
            "target_link_libraries(app PRIVATE minilm::minilm)\n"
        )
        shipped.run(
            "cmake", "-S", ".", "-B", "build", f"-DCMAKE_PREFIX_PATH={shipped.prefix}", cwd=folder
        )
        shipped.run("cmake", "--build", "build", cwd=folder)
        return folder / "build" / "app"

    return build
