"""The runtime of programs that continue texts, compiled once for the tests that drive it."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "frontend"))  # for the tokenizers of its tests

Driver = Callable[..., str]


def compiled(factory: pytest.TempPathFactory, name: str, *flags: str) -> Driver:
    """Runs the driver with arguments and rows of input; what it prints. Processes of a test run compile it once."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    folder.mkdir(exist_ok=True)
    program = folder / "driver"
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.is_file():
            compile_driver(program, *flags)

    def run(*arguments: object, rows: str = "") -> str:
        done = subprocess.run(
            [program, *map(str, arguments)],
            input=rows,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr[:4000]
        return done.stdout

    return run


def compile_driver(program: Path, *flags: str) -> None:
    runtime = ROOT / "runtime"
    sources = [p for p in sorted((runtime / "text").glob("*.cpp")) if p.name != "command_line.cpp"]
    sources += [runtime / f"{name}.cpp" for name in ("json", "utf8", "file_map", "status")]
    # as one, which reads the headers of the standard library once
    whole = program.parent / "whole.cpp"
    whole.write_text("".join(f'#include "{p}"\n' for p in (*sources, HERE / "driver.cpp")))
    warnings = ["-Wall", "-Wextra", "-Werror", "-DLUMIGEN_NS=text_test", f"-I{ROOT}"]
    command = ["c++", "-std=c++17", "-O0", *warnings, *flags, "-o", program]
    subprocess.run([*command, whole], check=True)


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Driver:
    return compiled(tmp_path_factory, "text")


@pytest.fixture(scope="session")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Driver:
    """The same under the sanitizers."""
    flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g1"]
    return compiled(tmp_path_factory, "checked", *flags)
