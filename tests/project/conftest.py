"""Projects that are built once and shared by the tests that only use them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import safetensors.numpy

sys.path.insert(0, str(Path(__file__).parent))  # for `models`

import models

from lumigen.build import build_project, load_module, write_project
from lumigen.emit.project import render_project
from lumigen.emit.weights_file import write_weights

NATIVE = Path(__file__).parent / "native"


@pytest.fixture(scope="session")
def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {s.weight.name: s.weight.shape for s in models.tiny().weights}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory, arrays: dict[str, np.ndarray]) -> Path:
    """`tiny`, built below a path with spaces and accents; both kinds of weights."""
    directory = tmp_path_factory.mktemp("projets") / "été à la mer"
    write_project(render_project(models.tiny()), directory)
    write_weights(models.tiny(), arrays, directory / "weights" / "tiny.safetensors")
    safetensors.numpy.save_file(arrays, directory / "original.safetensors")
    build_project(directory)
    return directory


@pytest.fixture(scope="session")
def tested(project: Path) -> Path:
    """The same, with its tests and examples."""
    build_project(project, tests=True)
    return project


@pytest.fixture
def broken() -> Generator[Callable[..., None]]:
    """Rebuilds a project, built with its tests, with a text of one file replaced; mended when the test is over.

    All else of it is built already, which spares most of a build.
    """
    mend: list[Callable[[], None]] = []

    def break_it(directory: Path, path: str, text: str, by: str, *, python: bool = True) -> None:
        whole = (directory / path).read_text()
        assert text in whole

        def rebuild(content: str) -> None:
            (directory / path).write_text(content)
            build_project(directory, python=python, tests=True)

        mend.append(lambda: rebuild(whole))
        rebuild(whole.replace(text, by))

    yield break_it
    for rebuild_whole in mend:
        rebuild_whole()


@pytest.fixture(scope="session")
def tiny(project: Path) -> ModuleType:
    return load_module(project)


@pytest.fixture(scope="session")
def compile_against(project: Path) -> Callable[..., Path]:
    """Compiles a source of native/ against the built library; returns the program."""

    def compile_it(source: str, program: str, *flags: str) -> Path:
        target = project / "bin" / program
        target.parent.mkdir(exist_ok=True)
        warnings = ["-Wall", "-Wextra", "-Werror"]
        command = ["c++", "-std=c++17", "-g", *warnings, str(NATIVE / source), *flags]
        command += [f"-I{project / 'include'}", "-o", str(target), f"-L{project / 'lib'}", "-ltiny"]
        subprocess.run([*command, f"-Wl,-rpath,{project / 'lib'}", "-pthread"], check=True)
        return target

    return compile_it


@pytest.fixture
def tool() -> Callable[[str], str]:
    """The path of a tool of this Python's environment or of PATH; skips where there is none."""

    def find(name: str) -> str:
        found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
        if found is None:
            pytest.skip(f"there is no {name}")
        return found

    return find


@pytest.fixture
def sanitizing(tool, tmp_path) -> Callable[[str, str], str]:
    """The path of a compiler that links a sanitizer; skips where it comes without (libclang-rt-*-dev)."""

    def find(compiler: str, sanitizer: str) -> str:
        program = ["-x", "c++", "-", "-o", tmp_path / "empty"]
        command = [tool(compiler), f"-fsanitize={sanitizer}", *program]
        done = subprocess.run(command, input=b"int main() {}", capture_output=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"{compiler} is here without -fsanitize={sanitizer}")
        return tool(compiler)

    return find
