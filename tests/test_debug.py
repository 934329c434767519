"""The switches of the environment, and where templates and runtime are found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lumigen import debug, resources


@pytest.mark.parametrize(
    ("text", "level"), [("", 0), (" ", 0), ("0", 0), ("3", 3), ("99", 5), ("yes", 1), ("-1", 1)]
)
def test_level(text: str, level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUMIGEN_DEBUG", text)
    assert debug.level() == level


def test_nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in debug.VARIABLES:
        monkeypatch.delenv(variable.name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert debug.level() == 0
    assert debug.dump_dir() is None
    assert debug.cache_dir() == tmp_path / ".cache" / "lumigen"
    assert debug.cxx() is None


def test_directories(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LUMIGEN_DUMP", "~/dump")
    monkeypatch.setenv("LUMIGEN_CACHE", "cache")
    assert debug.dump_dir() == tmp_path / "dump"
    assert debug.cache_dir() == Path("cache")


def test_cxx_and_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUMIGEN_CXX", "clang++")
    monkeypatch.setenv("A", "1")
    assert debug.cxx() == "clang++"
    child = debug.child_environment({"A": "2"})
    assert (child["A"], child["LUMIGEN_CXX"]) == ("2", "clang++")


def test_the_table_is_complete() -> None:
    read = set(re.findall(r'"(LUMIGEN_\w+)"', Path(debug.__file__).read_text(encoding="utf-8")))
    assert read == {variable.name for variable in debug.VARIABLES}


def test_resources_are_found() -> None:
    assert (resources.templates_dir() / "README.md").is_file()
    assert (resources.runtime_dir() / "README.md").is_file()


def test_a_wheel_holds_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    inside = tmp_path / "_data" / "runtime"
    inside.mkdir(parents=True)
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path)
    assert resources.runtime_dir() == inside
